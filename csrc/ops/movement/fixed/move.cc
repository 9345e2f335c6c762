// Ops that move elements, or only compare them, on fixed-point numbers: as the integers that they
// are. Where encodings differ, what is read is brought to the output's encoding before it is moved,
// or what was written afterwards, in place.
#include <algorithm>

#include "ops/encoding.h"
#include "ops/fixed/kernels.h"
#include "ops/fixed/requantize.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

constexpr size_t kMoveGrain = 64 * 1024;  // elements worth a thread

bool FixedPort(const Tensor* tensor) { return tensor != nullptr && IsFixed(tensor->dtype); }

// An integer to pad with is one of the input's encoding: its real number holds in any other.
void MakePadReal(const Tensor& input, Param* param) {
  const auto* code = std::get_if<int64_t>(&param->value);
  if (param->name != "pad_constant_value" || code == nullptr) return;
  const Quantization& q = input.quantization;
  param->value = q.scales[0] * (static_cast<double>(*code) + q.offsets[0]);
}

// The op's portable kernel for all fixed-point tensors in one encoding.
Result<KernelPtr> OnIntegers(const OpDef& def, const Node& node, const Tensor* encoding,
                             const KernelOptions& options) {
  Node copy = node;
  if (encoding != nullptr && (def.flags & OpDef::kFills) != 0) {
    for (Param& param : copy.params) MakePadReal(*node.inputs[0], &param);
  }
  std::vector<std::unique_ptr<Tensor>> tensors;
  for (auto* ports : {&copy.inputs, &copy.outputs}) {
    for (const Tensor*& tensor : *ports) {
      if (!FixedPort(tensor)) continue;
      tensors.push_back(std::make_unique<Tensor>(*tensor));
      Tensor& own = *tensors.back();
      if (encoding != nullptr) {
        own.dtype = encoding->dtype;
        own.quantization = encoding->quantization;
      }
      if ((def.flags & OpDef::kFills) == 0) own.dtype = StorageType(own.dtype);
      tensor = &own;
    }
  }
  return def.portable(copy, options);
}

class FixedMove final : public Kernel {
 public:
  explicit FixedMove(const Node& node)
      : inputs_(node.inputs.size()),
        outputs_(node.outputs.size()),
        offset_(ScratchRoom(inputs_ * sizeof(void*))) {}

  Status Run(const ExecArgs& args) override {
    char* scratch = static_cast<char*>(args.scratch);
    const void** in = reinterpret_cast<const void**>(scratch);
    std::copy(args.in, args.in + inputs_, in);
    for (const Part& part : before_) {
      Requantize(args.threads, part, in[part.port], scratch + part.offset);
      in[part.port] = scratch + part.offset;
    }
    QNNRT_RETURN_IF_ERROR(inner_->Run(
        {in, args.out, inner_->ScratchBytes() ? scratch + offset_ : nullptr, args.threads}));
    for (const Part& part : after_) {
      Requantize(args.threads, part, args.out[part.port], args.out[part.port]);
    }
    return {};
  }

  size_t ScratchBytes() const override { return offset_ + inner_->ScratchBytes(); }
  bool ReadsInput(size_t i) const override { return inner_->ReadsInput(i); }

  // All inputs to the encoding of `to`, then the move.
  Status PlanBefore(const OpDef& def, const Node& node, const Tensor& to,
                    const KernelOptions& options) {
    for (size_t i = 0; i < inputs_; ++i) {
      if (!FixedPort(node.inputs[i]) || SameEncoding(*node.inputs[i], to)) continue;
      const size_t count = node.inputs[i]->elements();
      before_.push_back({i, count, offset_, Requantizer(*node.inputs[i], to)});
      offset_ += ScratchRoom(count * ElementSize(to.dtype));
    }
    QNNRT_ASSIGN_OR_RETURN(inner_, OnIntegers(def, node, &to, options));
    return {};
  }

  // The move, then the outputs from the encoding of `from` to their own.
  Status PlanAfter(const OpDef& def, const Node& node, const Tensor& from,
                   const KernelOptions& options) {
    for (size_t i = 0; i < outputs_; ++i) {
      if (!FixedPort(node.outputs[i]) || SameEncoding(from, *node.outputs[i])) continue;
      after_.push_back({i, node.outputs[i]->elements(), 0, Requantizer(from, *node.outputs[i])});
    }
    QNNRT_ASSIGN_OR_RETURN(inner_, OnIntegers(def, node, &from, options));
    return {};
  }

 private:
  struct Part {
    size_t port, count;
    size_t offset;  // in scratch
    Requantizer requantizer;
  };
  static void Requantize(const Threads& threads, const Part& part, const void* in, void* out) {
    threads.For(part.count, kMoveGrain,
                [&](size_t begin, size_t end) { part.requantizer.Run(in, out, begin, end); });
  }

  const size_t inputs_, outputs_;
  size_t offset_;  // of the inner kernel's scratch, behind the pointers and the inputs
  std::vector<Part> before_, after_;
  KernelPtr inner_;
};

// What the plan depends on.
struct Encodings {
  bool one_scale = true;           // in every fixed-point tensor
  bool alike = true;               // all of them
  bool inputs_alike = true;        // all inputs that are fixed-point
  bool equally_large = true;       // the elements of all of them
  const Tensor* input = nullptr;   // the first fixed-point one
  const Tensor* output = nullptr;  // likewise
};

Encodings Describe(const Node& node) {
  Encodings e;
  const auto look = [&](const Tensor* tensor, const Tensor** first) {
    if (!FixedPort(tensor)) return;
    if (*first == nullptr) *first = tensor;
    const Tensor& any = e.input != nullptr ? *e.input : *e.output;
    e.one_scale &= OneScale(tensor->quantization);
    e.alike &= SameEncoding(any, *tensor);
    e.equally_large &= ElementSize(any.dtype) == ElementSize(tensor->dtype);
  };
  for (const Tensor* tensor : node.inputs) look(tensor, &e.input);
  e.inputs_alike = e.alike;
  for (const Tensor* tensor : node.outputs) look(tensor, &e.output);
  return e;
}

}  // namespace

Result<KernelPtr> MakeOnIntegers(const OpDef& def, const Node& node, const KernelOptions& options) {
  return OnIntegers(def, node, nullptr, options);
}

Result<KernelPtr> MakeFixedMove(const OpDef& def, const Node& node, const KernelOptions& options) {
  const bool alias = (def.flags & OpDef::kAlias) != 0;
  if (alias && SameStored(*node.inputs[0], *node.outputs[0])) {
    return OnIntegers(def, node, nullptr, options);
  }
  const Encodings e = Describe(node);
  if (!e.one_scale || (def.moves != nullptr && !def.moves(node))) return KernelPtr();
  if (e.alike || e.output == nullptr) return OnIntegers(def, node, nullptr, options);
  if (alias) return MakeFixedConvert(node, options);
  if (def.fixed != nullptr) {
    QNNRT_ASSIGN_OR_RETURN(KernelPtr own, def.fixed(node, options));
    if (own) return own;
  }
  auto kernel = std::make_unique<FixedMove>(node);
  // Equal values where there were none before could turn the order of TopK's indices.
  const bool only_output = node.outputs.size() == 1;
  const bool larger = only_output && e.output->elements() > e.input->elements();
  if (e.inputs_alike && e.equally_large && !larger) {
    QNNRT_RETURN_IF_ERROR(kernel->PlanAfter(def, node, *e.input, options));
  } else if (only_output) {
    QNNRT_RETURN_IF_ERROR(kernel->PlanBefore(def, node, *e.output, options));
  } else {
    return KernelPtr();
  }
  return KernelPtr(std::move(kernel));
}

}  // namespace qnnrt
