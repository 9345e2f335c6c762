// Elementwise ops of two inputs on fixed-point numbers: blocks that stay in the first cache are
// decoded, computed in float and encoded. What compares or picks codes of one encoding sees the
// integers alone.
#include <algorithm>

#include "ops/binary.h"
#include "ops/broadcast.h"
#include "ops/fixed.h"
#include "ops/fixed_kernels.h"

namespace qnnrt {
namespace {

constexpr size_t kBlock = 1024;       // elements of a block, on the stack
constexpr size_t kGrain = 16 * 1024;  // elements worth a thread

class FixedBinary final : public Kernel {
 public:
  FixedBinary(BinaryOp op, const Node& node)
      : loops_(FloatLoops(op)),
        plan_(node.outputs[0]->shape, {&node.inputs[0]->shape, &node.inputs[1]->shape}),
        in_{Codec(*node.inputs[0]), Codec(*node.inputs[1])},
        out_(*node.outputs[0]),
        compare_(IsCompare(op)) {
    PlanRow();
  }

  const char* Name() const override { return "portable"; }
  size_t ScratchBytes() const override { return row_ * sizeof(float); }

  Status Run(const ExecArgs& args) override {
    if (row_ != 0) FillRow(args);
    args.threads.For(plan_.total, kGrain, [&](size_t begin, size_t end) {
      if (row_ != 0) return RunRows(args, begin, end);
      plan_.ForRuns(begin, end, [&](const std::array<size_t, 2>& offset, size_t out, size_t n) {
        RunPiece(args, offset, out, n);
      });
    });
    return {};
  }

 private:
  using Strides = std::array<size_t, 2>;

  // One input is a row that every row of the other one meets: it is decoded once, and repeated
  // where it is short.
  void PlanRow() {
    if (plan_.rank != 2) return;
    for (size_t i = 0; i < 2; ++i) {
      if (plan_.strides[i][0] != 0 || plan_.strides[i][1] != 1) continue;
      if (plan_.strides[1 - i][1] != 1 || plan_.strides[1 - i][0] != plan_.inner()) continue;
      row_input_ = i;
      row_ = plan_.inner() * std::max<size_t>(1, kBlock / plan_.inner());
    }
  }

  void FillRow(const ExecArgs& args) const {
    float* row = static_cast<float*>(args.scratch);
    in_[row_input_].Read(args.in[row_input_], 0, plan_.inner(), row);
    for (size_t i = plan_.inner(); i < row_; ++i) row[i] = row[i - plan_.inner()];
  }

  void RunRows(const ExecArgs& args, size_t begin, size_t end) const {
    const float* row = static_cast<const float*>(args.scratch);
    alignas(64) float full[kBlock];
    for (size_t at = begin; at < end;) {
      const size_t phase = at % plan_.inner();
      const size_t n = std::min({end - at, row_ - phase, kBlock});
      in_[1 - row_input_].Read(args.in[1 - row_input_], at, n, full);
      const float *a = full, *b = row + phase;
      if (row_input_ == 0) std::swap(a, b);
      Finish(loops_.vv, a, b, full, args.out[0], at, n);
      at += n;
    }
  }

  // n results from the output's element `out` on; the inputs start at `offset`.
  void RunPiece(const ExecArgs& args, const Strides& offset, size_t out, size_t n) const {
    alignas(64) float values[2][kBlock];
    const Strides stride = {plan_.inner_stride(0), plan_.inner_stride(1)};
    const bool repeats = n > 1;
    const BinaryLoop loop = stride[0] == 0 && repeats   ? loops_.sv
                            : stride[1] == 0 && repeats ? loops_.vs
                                                        : loops_.vv;
    for (size_t k = 0; k < 2; ++k) {
      if (stride[k] == 0) in_[k].Read(args.in[k], offset[k], 1, values[k]);
    }
    float* result = stride[0] != 0 ? values[0] : values[1];
    for (size_t i = 0; i < n; i += kBlock) {
      const size_t count = std::min(kBlock, n - i);
      for (size_t k = 0; k < 2; ++k) {
        if (stride[k] != 0) in_[k].Read(args.in[k], offset[k] + i, count, values[k]);
      }
      Finish(loop, values[0], values[1], result, args.out[0], out + i, count);
    }
  }

  void Finish(BinaryLoop loop, const float* a, const float* b, float* result, void* out, size_t at,
              size_t n) const {
    if (compare_) return loop(a, b, static_cast<uint8_t*>(out) + at, n);
    loop(a, b, result, n);
    out_.Write(result, out, at, n);
  }

  const BinaryLoops loops_;
  const BroadcastPlan<2> plan_;
  const Codec in_[2], out_;
  const bool compare_;
  size_t row_input_ = 0, row_ = 0;  // elements of the row in scratch; 0: there is none
};

bool OneScale(const Tensor& tensor) { return tensor.quantization.axis < 0; }

// Whether codes are in the order, and as equal or not, as the numbers that they stand for.
bool IntegersWillDo(BinaryOp op, const Node& node) {
  const bool picks = op == BinaryOp::kMaximum || op == BinaryOp::kMinimum;
  if (!picks && !IsCompare(op)) return false;
  const Tensor &a = *node.inputs[0], &b = *node.inputs[1];
  if (!OneScale(a) || !SameEncoding(a, b)) return false;
  return IsCompare(op) || (SameEncoding(a, *node.outputs[0]) &&
                           a.quantization.bitwidth == node.outputs[0]->quantization.bitwidth);
}

Result<KernelPtr> MakeOnCodes(BinaryOp op, const Node& node) {
  Node codes = node;
  Tensor tensors[3] = {*node.inputs[0], *node.inputs[1], *node.outputs[0]};
  for (Tensor& tensor : tensors) tensor.dtype = StorageType(tensor.dtype);
  codes.inputs = {&tensors[0], &tensors[1]};
  codes.outputs = {&tensors[2]};
  return MakeBinaryKernel(op, codes);
}

}  // namespace

Result<KernelPtr> MakeFixedBinary(const Node& node, const KernelOptions&) {
  const BinaryOp op = BinaryOpOf(node);
  if (IsLogic(op) || !node.post_ops.empty() || FloatLoops(op).vv == nullptr) return KernelPtr();
  if (!IsFixed(node.inputs[0]->dtype) || !IsFixed(node.inputs[1]->dtype)) return KernelPtr();
  if (!IsCompare(op) && !IsFixed(node.outputs[0]->dtype)) return KernelPtr();
  if (IntegersWillDo(op, node)) return MakeOnCodes(op, node);
  return KernelPtr(std::make_unique<FixedBinary>(op, node));
}

}  // namespace qnnrt
