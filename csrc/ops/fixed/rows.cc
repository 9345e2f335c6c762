// Ops that treat the rows of their input one by one (softmax, normalizations, reductions) in float,
// some rows at a time: their real numbers stay in a cache and never become a whole tensor of
// floats.
#include <algorithm>

#include "abi/qnn_op_names.h"
#include "ops/fixed/kernels.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

constexpr size_t kBlockElements = 8 * 1024;  // of rows that go together: 32 KiB as floats

// The leading dims whose every index has an input and an output of its own.
Result<size_t> LeadingDims(const Node& node) {
  const size_t rank = node.inputs[0]->shape.size();
  if (node.type == QNN_OP_LRN) return node.Int("region") == 0 ? rank - 1 : size_t{1};
  if (node.type == QNN_OP_INSTANCE_NORM || node.type == QNN_OP_GROUP_NORM) return size_t{1};
  if (node.Find("axes") != nullptr) {
    QNNRT_ASSIGN_OR_RETURN(const std::vector<size_t> axes, GetAxes(node, "axes", rank));
    // Without any axis, L2Norm goes by the param that names one.
    if (!axes.empty() || node.type != QNN_OP_L2_NORM) return axes.empty() ? rank : axes[0];
  }
  return GetAxis(node, "axis", rank);
}

class FixedRows final : public Kernel {
 public:
  FixedRows(const Node& node, size_t lead, int threads)
      : ports_(node.inputs.size()),
        lead_(lead),
        total_(Product(node.inputs[0]->shape, 0, lead)),
        in_row_(node.inputs[0]->bytes() / total_),
        out_row_(node.outputs[0]->bytes() / total_) {
    const size_t elements = std::max(node.inputs[0]->elements(), node.outputs[0]->elements());
    const size_t limit = static_cast<size_t>(std::max(1, threads));
    rows_ = std::max<size_t>(1, kBlockElements / std::max<size_t>(1, elements / total_));
    rows_ = std::min(rows_, (total_ + limit - 1) / limit);
    slots_ = std::min(limit * 4, (total_ + rows_ - 1) / rows_);
  }

  Status Prepare(const Node& node, const KernelOptions& options) {
    QNNRT_RETURN_IF_ERROR(MakeInner(node, rows_, options, &block_));
    if (total_ % rows_ != 0) {
      QNNRT_RETURN_IF_ERROR(MakeInner(node, total_ % rows_, options, &rest_));
    }
    const size_t inner = std::max(block_->ScratchBytes(), rest_ ? rest_->ScratchBytes() : 0);
    pointers_ = ScratchRoom(ports_ * sizeof(void*));
    slot_ = pointers_ + ScratchRoom(inner);
    return {};
  }

  Status Run(const ExecArgs& args) override {
    const size_t blocks = (total_ + rows_ - 1) / rows_;
    args.threads.For(slots_, 1, [&](size_t begin, size_t end) {
      for (size_t slot = begin; slot < end; ++slot) {
        for (size_t block = slot; block < blocks; block += slots_) One(args, slot, block);
      }
    });
    return {};
  }

  size_t ScratchBytes() const override { return slots_ * slot_; }
  bool ReadsInput(size_t i) const override { return block_->ReadsInput(i); }
  size_t WeightBytes() const override {
    return block_->WeightBytes() + (rest_ ? rest_->WeightBytes() : 0);
  }

 private:
  Status MakeInner(const Node& node, size_t rows, KernelOptions options, KernelPtr* kernel) const {
    Node copy = node;
    Tensor in = *node.inputs[0], out = *node.outputs[0];
    for (Tensor* tensor : {&in, &out}) {
      std::fill_n(tensor->shape.begin(), lead_, 1);
      tensor->shape[lead_ - 1] = static_cast<uint32_t>(rows);
    }
    copy.inputs[0] = &in;
    copy.outputs[0] = &out;
    options.threads = 1;
    options.portable_only = true;  // for so few elements calls into the library cost too much
    QNNRT_ASSIGN_OR_RETURN(*kernel, MakeViaFloat(*FindOp(node.type), copy, options));
    return {};
  }

  void One(const ExecArgs& args, size_t slot, size_t block) const {
    char* scratch = static_cast<char*>(args.scratch) + slot * slot_;
    const void** in = reinterpret_cast<const void**>(scratch);
    std::copy(args.in, args.in + ports_, in);
    in[0] = static_cast<const char*>(args.in[0]) + block * rows_ * in_row_;
    void* out = static_cast<char*>(args.out[0]) + block * rows_ * out_row_;
    const bool whole = (block + 1) * rows_ <= total_;
    // These float kernels do not fail: no value of theirs can be wrong.
    (void)(whole ? block_ : rest_)->Run({in, &out, scratch + pointers_, Threads(1)});
  }

  const size_t ports_, lead_, total_, in_row_, out_row_;
  size_t rows_ = 1, slots_ = 1;
  size_t pointers_ = 0, slot_ = 0;  // bytes of a slot: of its pointers, of all
  KernelPtr block_, rest_;          // for rows_ rows, for those that are left
};

}  // namespace

Result<KernelPtr> MakeFixedRows(const Node& node, const KernelOptions& options) {
  const Tensor &in = *node.inputs[0], &out = *node.outputs[0];
  if (node.outputs.size() != 1 || in.is_static() || in.elements() == 0 || out.elements() == 0) {
    return KernelPtr();
  }
  if (!in.quantization.per_tensor() || !out.quantization.per_tensor()) return KernelPtr();
  QNNRT_ASSIGN_OR_RETURN(const size_t lead, LeadingDims(node));
  if (lead == 0 || Product(in.shape, 0, lead) == 1) return KernelPtr();
  auto kernel = std::make_unique<FixedRows>(node, lead, options.threads);
  QNNRT_RETURN_IF_ERROR(kernel->Prepare(node, options));
  return KernelPtr(std::move(kernel));
}

}  // namespace qnnrt
