#include "api/op_package_call.h"

#include <algorithm>
#include <utility>

#include "api/op_package.h"
#include "support/per_thread.h"

namespace qnnrt {
namespace {

PerThread<std::string>& Reasons() {
  static auto* const reasons = new PerThread<std::string>;
  return *reasons;
}

void SetError(const char* reason) {
  std::string* own = reason == nullptr ? nullptr : Reasons().Get();
  if (own == nullptr) return;
  try {
    *own = reason;
  } catch (const std::exception&) {  // the code says it alone
  }
}

QNNRT_OWN_THREAD bool in_package_op = false;
QNNRT_OWN_THREAD uint64_t served_context = 0;

struct InsideOp {
  InsideOp() { in_package_op = true; }
  ~InsideOp() { in_package_op = false; }
  InsideOp(const InsideOp&) = delete;
  InsideOp& operator=(const InsideOp&) = delete;
};

// While a package is called. What it calls itself may call a package for another context.
class Serving {
 public:
  explicit Serving(uint64_t context) : before_(std::exchange(served_context, context)) {}
  ~Serving() { served_context = before_; }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;

 private:
  const uint64_t before_;
};

struct Execution {
  Qnnrt_OpExecution_t client;  // first: the package has its address
  const Threads* threads;
};

void ParallelFor(const Qnnrt_OpExecution_t* execution, uint64_t count, uint64_t grain,
                 void (*body)(void*, uint64_t, uint64_t), void* context) {
  const auto* own = reinterpret_cast<const Execution*>(execution);
  own->threads->For(count, std::max<uint64_t>(grain, 1),
                    [&](size_t begin, size_t end) { body(context, begin, end); });
}

class PackageKernel : public Kernel {
 public:
  PackageKernel(std::shared_ptr<const OpPackage> package, uint64_t context)
      : package_(std::move(package)), context_(context), name_("package " + package_->name()) {}
  ~PackageKernel() override {
    const Serving serving(context_);
    if (made_) package_->FreeImpl(&impl_);
  }
  Status Make(const Node& node) {
    const Serving serving(context_);
    QNNRT_RETURN_IF_ERROR(package_->CreateImpl(node, &impl_));
    made_ = true;
    return Status::Ok();
  }
  Status Run(const ExecArgs& args) override {
    const Execution execution{{args.in, args.out, args.scratch, ParallelFor}, &args.threads};
    ForgetReason();
    const Qnn_ErrorHandle_t code = Execute(execution.client);
    if (code == QNN_SUCCESS) return Status::Ok();
    const std::string reason = TakeReason();
    return Error(QNN_GRAPH_ERROR_GENERAL, "op package '%s': %s", package_->name().c_str(),
                 reason.empty() ? ("it failed with " + std::to_string(code & 0xFFFF)).c_str()
                                : reason.c_str());
  }
  size_t ScratchBytes() const override { return impl_.scratchBytes; }
  const char* Name() const override { return name_.c_str(); }

 private:
  Qnn_ErrorHandle_t Execute(const Qnnrt_OpExecution_t& execution) const {
    const InsideOp inside;
    const Serving serving(context_);
    return impl_.execute(impl_.state, &execution);
  }

  const std::shared_ptr<const OpPackage> package_;
  const uint64_t context_;
  const std::string name_;
  Qnnrt_OpImpl_t impl_ = {};
  bool made_ = false;
};

class OpOfPackage : public PackageOp {
 public:
  OpOfPackage(std::shared_ptr<OpPackage> package, uint64_t context)
      : package_(std::move(package)), context_(context) {}
  Status Validate(const Node& node) const override {
    const Serving serving(context_);
    return package_->Validate(node);
  }
  Result<KernelPtr> MakeKernel(const Node& node) const override {
    auto kernel = std::make_unique<PackageKernel>(package_, context_);
    QNNRT_RETURN_IF_ERROR(kernel->Make(node));
    return KernelPtr(std::move(kernel));
  }

 private:
  const std::shared_ptr<OpPackage> package_;
  const uint64_t context_;
};

Qnn_Scalar_t Scalar(const Param& param, ClientStructs* structs) {
  Qnn_Scalar_t scalar{};
  scalar.dataType = param.type;
  if (const auto* text = std::get_if<std::string>(&param.value)) {
    scalar.stringValue = structs->Text(*text);
  } else if (const auto* truth = std::get_if<bool>(&param.value)) {
    scalar.bool8Value = *truth ? 1 : 0;
  } else if (const auto* integer = std::get_if<int64_t>(&param.value)) {
    scalar.int64Value = *integer;  // the narrower ones are its low bytes
  } else {
    const double real = std::get<double>(param.value);
    const float single = static_cast<float>(real);
    if (param.type == QNN_DATATYPE_FLOAT_32) {
      scalar.floatValue = single;
    } else if (const NarrowFloat* narrow = NarrowFloatOf(param.type); narrow != nullptr) {
      narrow->narrow(&single, &scalar.uint16Value, 1);
    } else {
      scalar.doubleValue = real;
    }
  }
  return scalar;
}

Status Describe(const Node& node, const Tensor* tensor, ClientStructs* structs, Qnn_Tensor_t* out) {
  if (tensor == nullptr) {
    out->version = QNN_TENSOR_VERSION_1;
    out->v1.type = QNN_TENSOR_TYPE_NULL;
    return Status::Ok();
  }
  if (tensor->quantization.in_blocks()) {
    return Error(
        QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE,
        "%s '%s': '%s' has an encoding in blocks; ops of packages take those of a tensor or "
        "an axis",
        node.type.c_str(), node.name.c_str(), tensor->name.c_str());
  }
  structs->Describe(*tensor, out);
  out->v1.memType = QNN_TENSORMEMTYPE_RAW;
  if (!tensor->is_static() || tensor->data->data() == nullptr) return Status::Ok();
  out->v1.clientBuf.data = tensor->data->data();
  out->v1.clientBuf.dataSize =
      static_cast<uint32_t>(std::min<uint64_t>(tensor->bytes(), UINT32_MAX));
  return Status::Ok();
}

}  // namespace

Result<PackageConfig> PackageConfig::Make(const Node& node) {
  PackageConfig made;
  ClientStructs& structs = made.structs_;
  made.config_ = structs.Array<Qnn_OpConfig_t>(1);
  made.config_->version = QNN_OPCONFIG_VERSION_1;
  Qnn_OpConfigV1_t& c = made.config_->v1;
  c.name = structs.Text(node.name);
  c.packageName = structs.Text(node.package);
  c.typeName = structs.Text(node.type.substr(PackageOpType(node.package, "").size()));
  c.numOfParams = static_cast<uint32_t>(node.params.size());
  c.params = structs.Array<Qnn_Param_t>(node.params.size());
  for (size_t i = 0; i < node.params.size(); ++i) {
    const Param& param = node.params[i];
    c.params[i].name = structs.Text(param.name);
    if (const auto* tensor = std::get_if<Tensor>(&param.value)) {
      c.params[i].paramType = QNN_PARAMTYPE_TENSOR;
      QNNRT_RETURN_IF_ERROR(Describe(node, tensor, &structs, &c.params[i].tensorParam));
    } else {
      c.params[i].paramType = QNN_PARAMTYPE_SCALAR;
      c.params[i].scalarParam = Scalar(param, &structs);
    }
  }
  const auto all = [&](const std::vector<const Tensor*>& tensors, Qnn_Tensor_t** out) -> Status {
    *out = structs.Array<Qnn_Tensor_t>(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i)
      QNNRT_RETURN_IF_ERROR(Describe(node, tensors[i], &structs, *out + i));
    return Status::Ok();
  };
  c.numOfInputs = static_cast<uint32_t>(node.inputs.size());
  c.numOfOutputs = static_cast<uint32_t>(node.outputs.size());
  QNNRT_RETURN_IF_ERROR(all(node.inputs, &c.inputTensors));
  QNNRT_RETURN_IF_ERROR(all(node.outputs, &c.outputTensors));
  return made;
}

std::shared_ptr<const PackageOp> MakePackageOp(std::shared_ptr<OpPackage> package,
                                               uint64_t context) {
  return std::make_shared<OpOfPackage>(std::move(package), context);
}

const Qnnrt_OpHost_t& PackageHost() {
  static const Qnnrt_OpHost_t host = {QNNRT_OP_PACKAGE_ABI, SetError};
  return host;
}

void ForgetReason() {
  if (std::string* own = Reasons().Find(); own != nullptr) own->clear();
}

std::string TakeReason() {
  std::string* own = Reasons().Find();
  return own == nullptr ? std::string() : std::exchange(*own, std::string());
}

bool InPackageOp() { return in_package_op; }
uint64_t ServedContext() { return served_context; }

}  // namespace qnnrt
