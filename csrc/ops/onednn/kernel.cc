#include "ops/onednn/kernel.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "abi/qnn_errors.h"
#include "ops/post_ops.h"
#include "ops/weights.h"

namespace qnnrt::onednn {
namespace {

// A second thread halves the time of a node, but costs 1 us when it is awake and up to 40 us when
// it sleeps. So it is asked for from about 8 us on, which is this many multiply-adds of a dense
// product.
constexpr double kParallelWork = 1e6;
// What moving one element costs, in multiply-adds: weights that are used once (a product with one
// row), and activations (a depthwise convolution) bound a node sooner than arithmetic does.
constexpr double kWorkPerElement = 8;

// Elements of the output per piece of the second pass.
constexpr size_t kPostOpGrain = 16384;

Status DnnlError(const char* what, dnnl_status_t status) {
  return Error(
      status == dnnl_out_of_memory ? QNN_GRAPH_ERROR_MEM_ALLOC : QNN_GRAPH_ERROR_FINALIZE_FAILED,
      "oneDNN could not %s: %s (%d); set QNNRT_ONEDNN=none to run without it", what,
      StatusName(status), static_cast<int>(status));
}

struct Eltwise {
  dnnl_alg_kind_t kind;
  float alpha, beta;
};

Eltwise EltwiseOf(const PostOp& op) {
  switch (op.activation) {
    case Activation::kRelu:
      return {dnnl_eltwise_relu, 0, 0};
    case Activation::kRelu6:
      return {dnnl_eltwise_clip, 0, 6};
    case Activation::kReluMinMax:
      return {dnnl_eltwise_clip, op.alpha, op.beta};
    case Activation::kSigmoid:
      return {dnnl_eltwise_logistic, 0, 0};
    case Activation::kTanh:
      return {dnnl_eltwise_tanh, 0, 0};
    case Activation::kElu:
      return {dnnl_eltwise_elu, op.alpha, 0};
    case Activation::kGelu:
      return {dnnl_eltwise_gelu_erf, 0, 0};
    case Activation::kHardSwish:
      return {dnnl_eltwise_hardswish, 1.0f / 6.0f, 0.5f};
    case Activation::kHardSigmoid:
      return {dnnl_eltwise_hardsigmoid, op.alpha, op.beta};
    case Activation::kSoftplus:
      return {dnnl_eltwise_soft_relu, 1, 0};
    case Activation::kLeakyRelu:
      return {dnnl_eltwise_relu, op.alpha, 0};
    case Activation::kSwish:
      return {dnnl_eltwise_swish, 1, 0};
  }
  return {dnnl_alg_kind_undef, 0, 0};
}

dnnl_status_t MakeAttr(const Problem& problem, bool with_post_ops, Attr* attr) {
  const Api& api = TheApi();
  dnnl_status_t status = api.primitive_attr_create(attr->out());
  if (status != dnnl_success) return status;
  status = api.primitive_attr_set_scratchpad_mode(attr->get(), dnnl_scratchpad_mode_user);
  if (status != dnnl_success || !with_post_ops || problem.node.post_ops.empty()) return status;
  PostOpsHandle ops;
  status = api.post_ops_create(ops.out());
  for (const PostOp& op : problem.node.post_ops) {
    if (status != dnnl_success) return status;
    if (op.kind == PostOp::Kind::kAdd) {
      status = api.post_ops_append_binary(ops.get(), dnnl_binary_add, problem.output->get());
    } else {
      Eltwise e = EltwiseOf(op);
      status = api.post_ops_append_eltwise(ops.get(), e.kind, e.alpha, e.beta);
    }
  }
  return status == dnnl_success ? api.primitive_attr_set_post_ops(attr->get(), ops.get()) : status;
}

// "" when all that oneDNN has is slower than the portable kernel: its reference implementations,
// and a transposed convolution by way of the backward pass of the older kernels ("conv:any+...",
// twice to fifty times slower with channels last).
std::string OptimizedName(const PrimitiveDesc& desc) {
  const char* name = nullptr;
  dnnl_status_t status =
      TheApi().primitive_desc_query(desc.get(), dnnl_query_impl_info_str, 0, &name);
  if (status != dnnl_success || name == nullptr) return {};
  if (std::strstr(name, "ref") != nullptr || std::strncmp(name, "conv:any", 8) == 0) return {};
  return name;
}

std::string DimsText(const_dnnl_memory_desc_t desc, dnnl_query_t what, int count) {
  const dnnl_dims_t* values = nullptr;
  TheApi().memory_desc_query(desc, what, &values);
  std::string text;
  for (int i = 0; values != nullptr && i < count; ++i)
    text += (i == 0 ? "" : ",") + std::to_string((*values)[i]);
  return text;
}

// Everything that the meaning of packed bytes depends on, for WeightStore: two descriptors with the
// same text hold the same bytes. A layout that oneDNN does not describe is known by its version.
std::string LayoutText(const_dnnl_memory_desc_t desc) {
  const Api& api = TheApi();
  dnnl_format_kind_t format = dnnl_format_kind_undef;
  dnnl_data_type_t type = dnnl_data_type_undef;
  int rank = 0, blocks = 0;
  dnnl_dim_t offset = 0;
  api.memory_desc_query(desc, dnnl_query_format_kind, &format);
  api.memory_desc_query(desc, dnnl_query_data_type, &type);
  api.memory_desc_query(desc, dnnl_query_ndims_s32, &rank);
  std::string text = "oneDNN type " + std::to_string(static_cast<int>(type)) + " [" +
                     DimsText(desc, dnnl_query_dims, rank) + "]";
  if (format != dnnl_blocked) {
    return text + " format " + std::to_string(static_cast<int>(format)) + " of " + OneDnnVersion();
  }
  api.memory_desc_query(desc, dnnl_query_inner_nblks_s32, &blocks);
  api.memory_desc_query(desc, dnnl_query_submemory_offset_s64, &offset);
  return text + " padded [" + DimsText(desc, dnnl_query_padded_dims, rank) + "] strides [" +
         DimsText(desc, dnnl_query_strides, rank) + "] blocks [" +
         DimsText(desc, dnnl_query_inner_blks, blocks) + "] of [" +
         DimsText(desc, dnnl_query_inner_idxs, blocks) + "] at " + std::to_string(offset);
}

class PrimitiveKernel final : public Kernel {
 public:
  PrimitiveKernel(int threads, const std::string& implementation)
      : threads_(threads), name_("onednn:" + implementation) {}

  Status Init(const Problem& problem, const PrimitiveDesc& desc, bool native_post_ops);

  Status Run(const ExecArgs& args) override {
    if (threads_ > 1 && Forked()) {
      return Error(QNN_GRAPH_ERROR_GENERAL,
                   "this graph was finalized before a fork and its threads are gone in the child; "
                   "build the graph again in the child process");
    }
    const Api& api = TheApi();
    for (Binding& b : bindings_) {
      const void* data = b.port == kScratch    ? args.scratch
                         : b.port == Arg::kOut ? args.out[b.index]
                                               : args.in[b.index];
      if (data == b.data) continue;
      dnnl_status_t status = api.memory_set_data_handle(b.memory, const_cast<void*>(data));
      if (status != dnnl_success) return DnnlError("bind a tensor", status);
      b.data = data;
    }
    {
      ThreadCount scope(threads_);
      dnnl_status_t status = api.primitive_execute(
          primitive_.get(), stream_.get(), static_cast<int>(exec_args_.size()), exec_args_.data());
      if (status != dnnl_success) return DnnlError("execute a primitive", status);
    }
    if (second_pass_) {
      float* out = static_cast<float*>(args.out[0]);
      args.threads.For(output_elements_, kPostOpGrain, [&](size_t begin, size_t end) {
        second_pass_->Apply(args, out + begin, begin, end - begin);
      });
    }
    return Status::Ok();
  }

  size_t ScratchBytes() const override { return scratch_bytes_; }
  bool ReadsInput(size_t i) const override {
    return std::any_of(reads_.begin(), reads_.end(), [i](uint32_t r) { return r == i; });
  }
  const char* Name() const override { return name_.c_str(); }
  size_t WeightBytes() const override { return weight_bytes_; }

 private:
  static constexpr uint8_t kScratch = 2;
  struct Binding {
    uint8_t port;  // Arg::Port or kScratch
    uint32_t index;
    dnnl_memory_t memory;
    const void* data;  // what `memory` points at now
  };

  // Makes the memory object of an argument and returns it; null on failure.
  Result<dnnl_memory_t> AddMemory(int id, const_dnnl_memory_desc_t desc, void* data);
  Status Bind(int id, const_dnnl_memory_desc_t desc, uint8_t port, uint32_t index);
  Status Pack(const Arg& arg, const Tensor& tensor, const_dnnl_memory_desc_t wanted,
              WeightStore* weights);

  int threads_;
  std::string name_;
  Primitive primitive_;
  Stream stream_;
  std::vector<Memory> memories_;
  std::vector<dnnl_exec_arg_t> exec_args_;
  std::vector<Binding> bindings_;
  std::vector<SharedBytes> packed_;
  std::vector<uint32_t> reads_;
  std::optional<PostOps> second_pass_;
  size_t output_elements_ = 0;
  size_t scratch_bytes_ = 0;
  size_t weight_bytes_ = 0;
};

Result<dnnl_memory_t> PrimitiveKernel::AddMemory(int id, const_dnnl_memory_desc_t desc,
                                                 void* data) {
  const Api& api = TheApi();
  Memory memory;
  dnnl_status_t status = api.memory_create(memory.out(), desc, api.engine, data);
  if (status != dnnl_success) return DnnlError("describe a tensor", status);
  memories_.push_back(std::move(memory));
  exec_args_.push_back({id, memories_.back().get()});
  return memories_.back().get();
}

Status PrimitiveKernel::Bind(int id, const_dnnl_memory_desc_t desc, uint8_t port, uint32_t index) {
  QNNRT_ASSIGN_OR_RETURN(dnnl_memory_t memory, AddMemory(id, desc, DNNL_MEMORY_NONE));
  bindings_.push_back({port, index, memory, nullptr});
  if (port == Arg::kIn) reads_.push_back(index);
  return Status::Ok();
}

Status PrimitiveKernel::Pack(const Arg& arg, const Tensor& tensor, const_dnnl_memory_desc_t wanted,
                             WeightStore* weights) {
  const Api& api = TheApi();
  const size_t size = api.memory_desc_get_size(wanted);
  const auto reorder = [&](void* data) -> Status {
    PrimitiveDesc desc;
    dnnl_status_t status = api.reorder_primitive_desc_create(
        desc.out(), arg.layout->get(), api.engine, wanted, api.engine, nullptr);
    Primitive primitive;
    if (status == dnnl_success) status = api.primitive_create(primitive.out(), desc.get());
    Memory from, to;
    if (status == dnnl_success) {
      status = api.memory_create(from.out(), arg.layout->get(), api.engine,
                                 const_cast<void*>(tensor.data->data()));
    }
    if (status == dnnl_success) status = api.memory_create(to.out(), wanted, api.engine, data);
    if (status == dnnl_success) {
      const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from.get()}, {DNNL_ARG_TO, to.get()}};
      status = api.primitive_execute(primitive.get(), stream_.get(), 2, args);
    }
    return status == dnnl_success ? Status::Ok() : DnnlError("pack weights", status);
  };
  KernelOptions options;
  options.weights = weights;
  QNNRT_ASSIGN_OR_RETURN(SharedBytes bytes,
                         PackWeights(options, size, LayoutText(wanted), reorder));
  // The primitive only reads it.
  void* data = const_cast<void*>(bytes->data());
  QNNRT_RETURN_IF_ERROR(AddMemory(arg.id, wanted, data).status());
  weight_bytes_ += size;
  packed_.push_back(std::move(bytes));
  return Status::Ok();
}

Status PrimitiveKernel::Init(const Problem& problem, const PrimitiveDesc& desc,
                             bool native_post_ops) {
  const Api& api = TheApi();
  const Node& node = problem.node;
  dnnl_status_t status = api.primitive_create(primitive_.out(), desc.get());
  if (status == dnnl_success) {
    status = api.stream_create(stream_.out(), api.engine, dnnl_stream_default_flags);
  }
  if (status != dnnl_success) return DnnlError("create a primitive", status);

  for (const Arg& arg : problem.args) {
    const_dnnl_memory_desc_t wanted =
        api.primitive_desc_query_md(desc.get(), dnnl_query_exec_arg_md, arg.id);
    bool as_it_lies = api.memory_desc_equal(wanted, arg.layout->get()) != 0;
    if (arg.port == Arg::kIn && !as_it_lies && node.inputs[arg.index]->is_static()) {
      QNNRT_RETURN_IF_ERROR(Pack(arg, *node.inputs[arg.index], wanted, problem.weights));
    } else if (as_it_lies) {
      QNNRT_RETURN_IF_ERROR(Bind(arg.id, wanted, arg.port, arg.index));
    } else {
      return DnnlError("keep the layout of an activation", dnnl_invalid_arguments);
    }
  }
  if (native_post_ops) {
    for (size_t i = 0; i < node.post_ops.size(); ++i) {
      if (node.post_ops[i].kind != PostOp::Kind::kAdd) continue;
      int id = DNNL_ARG_ATTR_MULTIPLE_POST_OP(static_cast<int>(i)) | DNNL_ARG_SRC_1;
      QNNRT_RETURN_IF_ERROR(Bind(id, problem.output->get(), Arg::kIn, node.post_ops[i].input));
    }
  } else {
    second_pass_.emplace(node);
    output_elements_ = node.outputs[0]->elements();
    for (const PostOp& op : node.post_ops) {
      if (op.kind == PostOp::Kind::kAdd) reads_.push_back(op.input);
    }
  }
  const_dnnl_memory_desc_t scratch =
      api.primitive_desc_query_md(desc.get(), dnnl_query_scratchpad_md, 0);
  scratch_bytes_ = scratch != nullptr ? api.memory_desc_get_size(scratch) : 0;
  if (scratch_bytes_ == 0) return Status::Ok();
  return Bind(DNNL_ARG_SCRATCHPAD, scratch, kScratch, 0);
}

}  // namespace

MemoryDesc MemoryDesc::Strided(const Dims& dims, const Dims& strides, dnnl_data_type_t type) {
  MemoryDesc md;
  if (dims.size() > DNNL_MAX_NDIMS || dims.size() != strides.size()) return md;
  TheApi().memory_desc_create_with_strides(md.handle_.out(), static_cast<int>(dims.size()),
                                           dims.data(), type, strides.data());
  return md;
}

MemoryDesc MemoryDesc::Dense(const Dims& dims, dnnl_data_type_t type) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return Strided(dims, strides, type);
}

MemoryDesc MemoryDesc::Any(const Dims& dims, dnnl_data_type_t type) {
  MemoryDesc md;
  if (dims.size() > DNNL_MAX_NDIMS) return md;
  TheApi().memory_desc_create_with_tag(md.handle_.out(), static_cast<int>(dims.size()), dims.data(),
                                       type, dnnl_format_tag_any);
  return md;
}

MemoryDesc ChannelLast(const Tensor& tensor, dnnl_data_type_t type) {
  const Shape& s = tensor.shape;
  const size_t rank = s.size();
  Dims dims(rank), strides(rank);
  dims[0] = s[0];
  dims[1] = s[rank - 1];
  strides[1] = 1;
  int64_t stride = s[rank - 1];
  for (size_t i = rank - 1; i-- > 1;) {
    dims[i + 1] = s[i];
    strides[i + 1] = stride;
    stride *= s[i];
  }
  strides[0] = stride;
  return MemoryDesc::Strided(dims, strides, type);
}

Result<KernelPtr> MakePrimitiveKernel(const Problem& problem, CreateDesc create) {
  for (const Arg& arg : problem.args) {
    if (!*arg.layout) return KernelPtr();  // more dimensions than oneDNN has
  }
  // The choice of an implementation and its blocking are made for the number of threads.
  ThreadCount scope(problem.threads);
  const bool has_post_ops = !problem.node.post_ops.empty();
  const bool can_add_pass = problem.node.outputs[0]->dtype == QNN_DATATYPE_FLOAT_32;
  for (bool native : {true, false}) {
    if (!native && !(has_post_ops && can_add_pass)) break;
    Attr attr;
    dnnl_status_t status = MakeAttr(problem, native, &attr);
    PrimitiveDesc desc;
    if (status == dnnl_success) status = create(desc.out(), attr.get());
    if (status == dnnl_unimplemented || status == dnnl_invalid_arguments) continue;
    if (status != dnnl_success) return DnnlError("describe a primitive", status);
    std::string implementation = OptimizedName(desc);
    if (implementation.empty()) continue;
    auto kernel = std::make_unique<PrimitiveKernel>(problem.threads, implementation);
    QNNRT_RETURN_IF_ERROR(kernel->Init(problem, desc, native || !has_post_ops));
    return KernelPtr(std::move(kernel));
  }
  return KernelPtr();
}

int ThreadsFor(const Node& node, const KernelOptions& options, double multiply_adds) {
  double elements = 0;
  for (const Tensor* t : node.inputs)
    elements += t != nullptr ? static_cast<double>(t->elements()) : 0;
  for (const Tensor* t : node.outputs)
    elements += t != nullptr ? static_cast<double>(t->elements()) : 0;
  const double work = std::max(multiply_adds, elements * kWorkPerElement);
  return work < kParallelWork || Forked() ? 1 : std::max(options.threads, 1);
}

dnnl_data_type_t DataType(const Tensor& tensor) {
  switch (tensor.dtype) {
    case QNN_DATATYPE_FLOAT_32:
      return dnnl_f32;
    case QNN_DATATYPE_FLOAT_16:
      return dnnl_f16;
    default:
      return dnnl_data_type_undef;
  }
}

const Tensor* Bias(const Node& node) {
  for (const PostOp& op : node.post_ops) {
    if (op.kind == PostOp::Kind::kAdd && op.input == 2) return nullptr;
  }
  return node.HasInput(2) ? node.inputs[2] : nullptr;
}

dnnl_data_type_t CommonType(std::initializer_list<const Tensor*> tensors) {
  dnnl_data_type_t common = dnnl_data_type_undef;
  for (const Tensor* tensor : tensors) {
    if (tensor == nullptr) continue;
    dnnl_data_type_t type = DataType(*tensor);
    if (type == dnnl_data_type_undef) return type;
    if (common != dnnl_data_type_undef && common != type) return dnnl_data_type_undef;
    common = type;
  }
  return common;
}

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
