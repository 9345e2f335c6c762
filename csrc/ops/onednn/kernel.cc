#include "ops/onednn/kernel.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>

#include "abi/qnn_errors.h"
#include "ops/elementwise/activation.h"
#include "ops/isa.h"
#include "ops/post_ops.h"
#include "ops/rules.h"
#include "ops/weights.h"
#include "support/threads.h"

namespace qnnrt::onednn {

const char* ImplementationName(const_dnnl_primitive_desc_t desc) {
  const char* name = nullptr;
  const dnnl_status_t status =
      TheApi().primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name);
  return status == dnnl_success && name != nullptr ? name : "";
}

namespace {

// A second thread halves the time of a node, and costs 1 us when it is awake. So it is asked for
// from about 4 us on, which is this many multiply-adds of a dense product in float32.
constexpr double kParallelWork = 5e5;
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
  float alpha = 0, beta = 0;
  bool given = false;  // the post op's alpha and beta instead
};
// Indexed by Activation.
constexpr Eltwise kEltwise[] = {
    {dnnl_eltwise_relu},
    {dnnl_eltwise_clip, 0, 6},
    {dnnl_eltwise_clip, 0, 0, true},
    {dnnl_eltwise_logistic},
    {dnnl_eltwise_tanh},
    {dnnl_eltwise_elu, 0, 0, true},
    {dnnl_eltwise_gelu_erf},
    {dnnl_eltwise_hardswish, 1.0f / 6.0f, 0.5f},
    {dnnl_eltwise_hardsigmoid, 0, 0, true},
    {dnnl_alg_kind_undef},  // Softplus does not fuse
    {dnnl_eltwise_relu, 0, 0, true},
    {dnnl_eltwise_swish, 0, 0, true},
    {dnnl_eltwise_gelu_tanh},
    {dnnl_eltwise_mish},
};
static_assert(std::size(kEltwise) == kActivations);

// What the primitive does behind its product.
std::vector<ChainStep> ChainOf(const Problem& problem) {
  if (problem.integers != nullptr) return problem.integers->chain;
  return PostOpChain(problem.node, problem.output, problem.addend);
}

dnnl_status_t MakeAttr(const Problem& problem, const std::vector<ChainStep>& chain, Attr* attr) {
  const Api& api = TheApi();
  dnnl_status_t status = api.primitive_attr_create(attr->out());
  if (status != dnnl_success) return status;
  status = api.primitive_attr_set_scratchpad_mode(attr->get(), dnnl_scratchpad_mode_user);
  if (status == dnnl_success && problem.integers != nullptr) {
    if (problem.integers->scaled) {
      status = api.primitive_attr_set_scales_mask(attr->get(), DNNL_ARG_WEIGHTS,
                                                  problem.integers->scales_mask);
    }
    for (int id : problem.integers->zero_points) {
      if (status == dnnl_success) {
        status = api.primitive_attr_set_zero_points_mask(attr->get(), id, 0);
      }
    }
  }
  if (status != dnnl_success || chain.empty()) return status;
  PostOpsHandle ops;
  status = api.post_ops_create(ops.out());
  for (const ChainStep& step : chain) {
    if (status != dnnl_success) return status;
    status = step.in_place ? api.post_ops_append_sum(ops.get(), 1.0f, 0, dnnl_data_type_undef)
             : step.input >= 0
                 ? api.post_ops_append_binary(ops.get(), step.kind, step.layout->get())
                 : api.post_ops_append_eltwise(ops.get(), step.kind, step.alpha, step.beta);
  }
  return status == dnnl_success ? api.primitive_attr_set_post_ops(attr->get(), ops.get()) : status;
}

// "" when all that oneDNN has is slower than the portable kernel: its reference implementations,
// and a transposed convolution by way of the backward pass of the older kernels ("conv:any+...",
// twice to fifty times slower with channels last).
std::string OptimizedName(const PrimitiveDesc& desc) {
  const char* name = ImplementationName(desc.get());
  if (std::strstr(name, "ref") != nullptr || std::strncmp(name, "conv:any", 8) == 0) return {};
  return name;
}

class PrimitiveKernel final : public Kernel {
 public:
  PrimitiveKernel(int threads, const std::string& implementation)
      : threads_(threads), name_("onednn:" + implementation) {}

  Status Init(const Problem& problem, const PrimitiveDesc& desc,
              const std::vector<ChainStep>& chain);
  // The post ops of a float node that the primitive does not take, as a second pass.
  void AddSecondPass(const Node& node);
  Result<KernelPtr> Beside() const;

  Status Run(const ExecArgs& args) override {
    if (threads_ > 1 && Forked()) {
      return Error(QNN_GRAPH_ERROR_GENERAL,
                   "this graph was finalized before a fork and its threads are gone in the child; "
                   "build the graph again in the child process");
    }
    // In a forked child they have to be started again.
    if (threads_ > 1 && TheApi().on_pool && !Team::Reserve(threads_)) {
      return Error(
          QNN_GRAPH_ERROR_GENERAL,
          "this graph was finalized for %d threads, and the system refuses to start that "
          "many: raise its limit (RLIMIT_NPROC, the cgroup's pids.max), or build the graph "
          "with fewer threads",
          threads_);
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
          execute_, stream_.get(), static_cast<int>(exec_args_.size()), exec_args_.data());
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
  Status Pack(const Arg& arg, const Problem& problem, const_dnnl_memory_desc_t wanted);
  Status Reorder(const Arg& arg, const void* lying, const_dnnl_memory_desc_t wanted, void* data);

  int threads_;
  std::string name_;
  Primitive primitive_;
  const_dnnl_primitive_t execute_ = nullptr;  // it, or that of the kernel beside this
  Stream stream_;
  std::vector<Memory> memories_;
  std::vector<dnnl_exec_arg_t> exec_args_;
  std::vector<Binding> bindings_;
  std::vector<SharedBytes> packed_;  // and constants
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

Status PrimitiveKernel::Reorder(const Arg& arg, const void* lying, const_dnnl_memory_desc_t wanted,
                                void* data) {
  const Api& api = TheApi();
  PrimitiveDesc desc;
  dnnl_status_t status = api.reorder_primitive_desc_create(desc.out(), arg.layout->get(),
                                                           api.engine, wanted, api.engine, nullptr);
  Primitive primitive;
  if (status == dnnl_success) status = api.primitive_create(primitive.out(), desc.get());
  Memory from, to;
  if (status == dnnl_success) {
    status = api.memory_create(from.out(), arg.layout->get(), api.engine, const_cast<void*>(lying));
  }
  if (status == dnnl_success) status = api.memory_create(to.out(), wanted, api.engine, data);
  if (status == dnnl_success) {
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from.get()}, {DNNL_ARG_TO, to.get()}};
    status = api.primitive_execute(primitive.get(), stream_.get(), 2, args);
  }
  return status == dnnl_success ? Status::Ok() : DnnlError("pack weights", status);
}

Status PrimitiveKernel::Pack(const Arg& arg, const Problem& problem,
                             const_dnnl_memory_desc_t wanted) {
  const size_t size = TheApi().memory_desc_get_size(wanted);
  const Tensor& tensor = *problem.node.inputs[arg.index];
  std::string layout = LayoutText(wanted);
  // Integers may bring sums along, at an offset and for a purpose that the description hides.
  if (problem.integers != nullptr) layout += " for " + name_ + " of " + OneDnnVersion();
  const auto fill = [&](void* data) -> Status {
    if (problem.integers == nullptr) return Reorder(arg, tensor.data->data(), wanted, data);
    const Threads threads(threads_);
    const_dnnl_memory_desc_t dense = arg.layout->get();
    if (problem.integers->as_stored) {
      const std::optional<LyingElements> unread = tensor.data->Unread();
      if (unread &&
          PackBytes(dense, tensor.shape, unread->strides, unread->data, wanted, data, threads)) {
        return Status::Ok();
      }
    }
    const auto lying = AlignedBytes::Make(tensor.elements());
    if (!lying) return OutOfMemory();
    QNNRT_RETURN_IF_ERROR(problem.integers->weights(static_cast<int8_t*>(lying->data())));
    if (PackBytes(dense, tensor.shape, {}, lying->data(), wanted, data, threads)) {
      return Status::Ok();
    }
    std::memset(data, 0, size);  // room for sums stays as it was where there are fewer
    return Reorder(arg, lying->data(), wanted, data);
  };
  KernelOptions options;
  options.weights = problem.weights;
  std::string from = LayoutText(arg.layout->get());
  if (problem.integers != nullptr) {
    for (int zero : problem.integers->zero_points) from += " zero " + std::to_string(zero);
  }
  QNNRT_ASSIGN_OR_RETURN(SharedBytes bytes,
                         PackWeights(options, arg.index, size, layout, fill, from));
  // The primitive only reads it.
  void* data = const_cast<void*>(bytes->data());
  QNNRT_RETURN_IF_ERROR(AddMemory(arg.id, wanted, data).status());
  weight_bytes_ += size;
  packed_.push_back(std::move(bytes));
  return Status::Ok();
}

Status PrimitiveKernel::Init(const Problem& problem, const PrimitiveDesc& desc,
                             const std::vector<ChainStep>& chain) {
  const Api& api = TheApi();
  const Node& node = problem.node;
  dnnl_status_t status = api.primitive_create(primitive_.out(), desc.get());
  if (status == dnnl_success) {
    status = api.stream_create(stream_.out(), api.engine, dnnl_stream_default_flags);
  }
  if (status != dnnl_success) return DnnlError("create a primitive", status);

  execute_ = primitive_.get();
  for (const Arg& arg : problem.args) {
    const_dnnl_memory_desc_t wanted =
        api.primitive_desc_query_md(desc.get(), dnnl_query_exec_arg_md, arg.id);
    bool as_it_lies = api.memory_desc_equal(wanted, arg.layout->get()) != 0;
    const bool is_static = arg.port == Arg::kIn && node.inputs[arg.index]->is_static();
    const bool rewritten =
        problem.integers != nullptr && problem.integers->weights && arg.id == DNNL_ARG_WEIGHTS;
    if (is_static && (!as_it_lies || rewritten)) {
      QNNRT_RETURN_IF_ERROR(Pack(arg, problem, wanted));
    } else if (as_it_lies) {
      QNNRT_RETURN_IF_ERROR(Bind(arg.id, wanted, arg.port, arg.index));
    } else {
      return DnnlError("keep the layout of an activation", dnnl_invalid_arguments);
    }
  }
  if (problem.integers != nullptr) {
    for (const Constant& constant : problem.integers->constants) {
      void* data = const_cast<void*>(constant.bytes->data());  // it is only read
      QNNRT_RETURN_IF_ERROR(AddMemory(constant.id, constant.layout.get(), data).status());
      packed_.push_back(constant.bytes);
    }
    for (const Operand& operand : problem.integers->operands) {
      QNNRT_RETURN_IF_ERROR(Bind(operand.id, operand.layout.get(), Arg::kIn, operand.input));
    }
  }
  for (size_t i = 0; i < chain.size(); ++i) {
    if (chain[i].input < 0 || chain[i].in_place) continue;
    const int id = DNNL_ARG_ATTR_MULTIPLE_POST_OP(static_cast<int>(i)) | DNNL_ARG_SRC_1;
    QNNRT_RETURN_IF_ERROR(
        Bind(id, chain[i].layout->get(), Arg::kIn, static_cast<uint32_t>(chain[i].input)));
  }
  const_dnnl_memory_desc_t scratch =
      api.primitive_desc_query_md(desc.get(), dnnl_query_scratchpad_md, 0);
  scratch_bytes_ = scratch != nullptr ? api.memory_desc_get_size(scratch) : 0;
  if (scratch_bytes_ == 0) return Status::Ok();
  return Bind(DNNL_ARG_SCRATCHPAD, scratch, kScratch, 0);
}

Result<KernelPtr> PrimitiveKernel::Beside() const {
  const Api& api = TheApi();
  auto other = std::make_unique<PrimitiveKernel>(threads_, "");
  other->name_ = name_;
  other->execute_ = execute_;
  other->packed_ = packed_;
  other->reads_ = reads_;
  other->second_pass_ = second_pass_;
  other->output_elements_ = output_elements_;
  other->scratch_bytes_ = scratch_bytes_;
  dnnl_status_t status =
      api.stream_create(other->stream_.out(), api.engine, dnnl_stream_default_flags);
  for (const dnnl_exec_arg_t& arg : exec_args_) {
    const_dnnl_memory_desc_t desc = nullptr;
    void* data = nullptr;
    if (status == dnnl_success) status = api.memory_get_memory_desc(arg.memory, &desc);
    if (status == dnnl_success) status = api.memory_get_data_handle(arg.memory, &data);
    if (status != dnnl_success) return DnnlError("describe a tensor", status);
    const auto bound = std::find_if(bindings_.begin(), bindings_.end(),
                                    [&](const Binding& b) { return b.memory == arg.memory; });
    if (bound != bindings_.end()) data = DNNL_MEMORY_NONE;
    QNNRT_ASSIGN_OR_RETURN(dnnl_memory_t memory, other->AddMemory(arg.arg, desc, data));
    if (bound != bindings_.end())
      other->bindings_.push_back({bound->port, bound->index, memory, nullptr});
  }
  return KernelPtr(std::move(other));
}

void PrimitiveKernel::AddSecondPass(const Node& node) {
  second_pass_.emplace(node);
  output_elements_ = node.outputs[0]->elements();
  for (const PostOp& op : node.post_ops) {
    if (op.kind == PostOp::Kind::kAdd) reads_.push_back(op.input);
  }
}

// Whether oneDNN's code takes its coefficients out of a table in memory, which takes AVX2 4.8 ns
// for an element; a second pass takes 0.5.
bool Gathers(const std::vector<ChainStep>& chain) {
  if (CpuIsa() != Isa::kAvx2) return false;
  return std::any_of(chain.begin(), chain.end(), [](const ChainStep& step) {
    return step.input < 0 &&
           (step.kind == dnnl_eltwise_tanh || step.kind == dnnl_eltwise_gelu_tanh);
  });
}

}  // namespace

std::vector<ChainStep> PostOpChain(const Node& node, const MemoryDesc* output,
                                   const MemoryDesc* addend) {
  std::vector<ChainStep> chain;
  for (const PostOp& op : node.post_ops) {
    if (op.kind == PostOp::Kind::kAdd) {
      const bool alike = node.inputs[op.input]->dtype == node.outputs[0]->dtype;
      chain.push_back({dnnl_binary_add, 0, 0, static_cast<int>(op.input), alike ? output : addend});
    } else {
      const Eltwise& e = kEltwise[static_cast<size_t>(op.activation)];
      chain.push_back({e.kind, e.given ? op.alpha : e.alpha, e.given ? op.beta : e.beta});
    }
  }
  return chain;
}

Result<KernelPtr> MakeBeside(const Kernel& made) {
  return static_cast<const PrimitiveKernel&>(made).Beside();
}

Result<KernelPtr> MakePrimitiveKernel(const Problem& problem, CreateDesc create) {
  for (const Arg& arg : problem.args) {
    if (!*arg.layout) return KernelPtr();  // more dimensions than oneDNN has
  }
  // The choice of an implementation and its blocking are made for the number of threads.
  ThreadCount scope(problem.threads);
  const std::vector<ChainStep> whole = ChainOf(problem);
  bool can_add_pass = problem.node.outputs[0]->dtype == QNN_DATATYPE_FLOAT_32;
  for (const ChainStep& step : whole) {
    if (step.input < 0) continue;
    if (step.layout == nullptr) return KernelPtr();
    can_add_pass = can_add_pass && step.layout == problem.output;
  }
  const bool gathers = problem.integers == nullptr && Gathers(whole);
  // What is added is in the caches then, where the output would be fetched to be written: 0.65 to
  // 0.97 of the time. Not all implementations do it, nor behind an activation.
  std::vector<std::vector<ChainStep>> chains;
  if (!gathers || !can_add_pass) {
    std::vector<ChainStep> in_place = whole;
    bool any = false;
    for (ChainStep& step : in_place) {
      step.in_place = problem.integers == nullptr && step.input >= 0 &&
                      problem.node.InPlace(static_cast<size_t>(step.input));
      any = any || step.in_place;
    }
    if (any) chains.push_back(std::move(in_place));
    chains.push_back(whole);
  }
  if (!whole.empty() && can_add_pass) chains.emplace_back();
  for (const std::vector<ChainStep>& chain : chains) {
    Attr attr;
    dnnl_status_t status = MakeAttr(problem, chain, &attr);
    PrimitiveDesc desc;
    if (status == dnnl_success) status = create(desc.out(), attr.get());
    if (status == dnnl_unimplemented || status == dnnl_invalid_arguments) continue;
    if (status != dnnl_success) return DnnlError("describe a primitive", status);
    std::string implementation = OptimizedName(desc);
    if (implementation.empty()) continue;
    auto kernel = std::make_unique<PrimitiveKernel>(problem.threads, implementation);
    QNNRT_RETURN_IF_ERROR(kernel->Init(problem, desc, chain));
    if (chain.size() < whole.size()) kernel->AddSecondPass(problem.node);
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
  return ThreadsForWork(options, multiply_adds, elements);
}

int ThreadsForWork(const KernelOptions& options, double multiply_adds, double elements) {
  const double work = std::max(multiply_adds, elements * kWorkPerElement);
  const bool alone = work < kParallelWork || options.threads <= 1 || Forked() ||
                     (TheApi().on_pool && !Team::Reserve(options.threads));
  return alone ? 1 : options.threads;
}

std::optional<ProductTypes> ProductTypesOf(const Node& node) {
  const Tensor* bias = Bias(node);
  ProductTypes types{};
  types.in = CommonType({node.inputs[0], node.inputs[1]});
  types.out = DataType(*node.outputs[0]);
  types.bias = bias != nullptr ? DataType(*bias) : types.in;
  types.addend = dnnl_data_type_undef;
  if (types.in == dnnl_data_type_undef) return std::nullopt;
  for (dnnl_data_type_t type : {types.bias, types.out}) {
    if (type != types.in && !(types.in == dnnl_bf16 && type == dnnl_f32)) return std::nullopt;
  }
  if (types.in == dnnl_bf16) types.addend = types.out == dnnl_f32 ? dnnl_bf16 : dnnl_f32;
  return types;
}

dnnl_data_type_t DataType(const Tensor& tensor) {
  switch (tensor.dtype) {
    case QNN_DATATYPE_FLOAT_32:
      return dnnl_f32;
    case QNN_DATATYPE_FLOAT_16:
      return dnnl_f16;
    case QNN_DATATYPE_BFLOAT_16:
      return dnnl_bf16;
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
