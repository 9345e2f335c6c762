#include "ops/post_ops.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/elementwise/coarse.h"
#include "ops/fixed/codec.h"
#include "ops/simd.h"
#include "ops/stored_floats.h"

namespace qnnrt {
namespace {

int64_t Encoded(float value, const Tensor& tensor) {
  uint8_t code = 0;
  Codec(tensor).Encode(&value, &code, 0, 1);
  return tensor.dtype == QNN_DATATYPE_SFIXED_POINT_8 ? int64_t{static_cast<int8_t>(code)} : code;
}

// What is left of a range of integers behind a clamp of the numbers that they stand for.
FixedRange Clamped(FixedRange range, const PostOp& op, const Tensor& tensor) {
  const Limits limits = DefOf(op.activation).limits(op.alpha, op.beta);
  const int64_t least = std::isinf(limits.low) ? range.low : Encoded(limits.low, tensor);
  const int64_t most = std::isinf(limits.high) ? range.high : Encoded(limits.high, tensor);
  const auto clamp = [&](int64_t x) { return std::min(std::max(x, least), most); };
  return {clamp(range.low), clamp(range.high)};
}

}  // namespace

void ApplyActivation(Activation a, float* x, size_t count, float alpha, float beta) {
  DefOf(a).loops.real(x, x, count, {alpha, beta});
}

const char* PostOpName(const PostOp& op) {
  return op.kind == PostOp::Kind::kAdd ? "Add" : DefOf(op.activation).name;
}

PostOps::PostOps(const Node& node) : ops_(node.post_ops) {
  for (const PostOp& op : ops_) {
    const bool add = op.kind == PostOp::Kind::kAdd;
    addends_.push_back(add ? NarrowFloatOf(node.inputs[op.input]->dtype) : nullptr);
    UnaryLoop loop = nullptr;
    if (!add && node.outputs[0]->dtype == QNN_DATATYPE_BFLOAT_16) loop = CoarseLoop(op.activation);
    loops_.push_back(add || loop != nullptr ? loop : DefOf(op.activation).loops.real);
  }
  const auto is_add = [](const PostOp& op) { return op.kind == PostOp::Kind::kAdd; };
  const auto at = std::find_if(ops_.begin(), ops_.end(), is_add);
  const size_t k = static_cast<size_t>(at - ops_.begin());
  const std::optional<Limits> first = ClampsOf(0, k), last = ClampsOf(k + 1, ops_.size());
  if (ops_.empty() || !first || !last) return;
  if (at == ops_.end()) {
    simple_ = Simple{std::nullopt, *first, *last};
  } else if (node.inputs[at->input]->dtype == QNN_DATATYPE_FLOAT_32) {
    simple_ = Simple{size_t{at->input}, *first, *last};
  }
}

void PostOps::Apply(const ExecArgs& args, float* values, size_t offset, size_t count) const {
  Apply(args, {values, count, 1, count, offset, count});
}

void PostOps::AddNarrow(size_t k, const ExecArgs& args, float* values, size_t offset,
                        size_t count) const {
  const uint16_t* addend = static_cast<const uint16_t*>(args.in[ops_[k].input]) + offset;
  alignas(64) float wide[kFloatBlock];
  for (size_t i = 0; i < count; i += kFloatBlock) {
    const size_t n = std::min(kFloatBlock, count - i);
    addends_[k]->widen(addend + i, wide, n);
    Simd().add(values + i, wide, n);
  }
}

void PostOps::Apply(const ExecArgs& args, const OutputBlock& b) const {
  for (size_t k = 0; k < ops_.size(); ++k) {
    const PostOp& op = ops_[k];
    if (op.kind != PostOp::Kind::kAdd) {
      const bool dense = b.columns == b.ld;
      const size_t calls = dense ? 1 : b.rows, count = dense ? b.rows * b.columns : b.columns;
      for (size_t i = 0; i < calls; ++i) {
        float* const values = b.values + i * b.ld;
        loops_[k](values, values, count, {op.alpha, op.beta});
      }
    } else if (addends_[k] == nullptr) {
      Simd().add_block(b.values, b.ld, static_cast<const float*>(args.in[op.input]) + b.offset,
                       b.stride, b.rows, b.columns);
    } else if (addends_[k] == NarrowFloatOf(QNN_DATATYPE_BFLOAT_16)) {
      const uint16_t* addend = static_cast<const uint16_t*>(args.in[op.input]) + b.offset;
      Simd().brain.add_block(b.values, b.ld, addend, b.stride, b.rows, b.columns);
    } else {
      for (size_t i = 0; i < b.rows; ++i) {
        AddNarrow(k, args, b.values + i * b.ld, b.offset + i * b.stride, b.columns);
      }
    }
  }
}

std::optional<Limits> PostOps::Clamps() const { return ClampsOf(0, ops_.size()); }

std::optional<Limits> PostOps::ClampsOf(size_t first, size_t end) const {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  Limits range{-kInf, kInf};
  for (size_t k = first; k < end; ++k) {
    const PostOp& op = ops_[k];
    const bool clamps =
        op.kind == PostOp::Kind::kActivation && DefOf(op.activation).limits != nullptr;
    if (!clamps) return std::nullopt;
    const Limits limits = DefOf(op.activation).limits(op.alpha, op.beta);
    const auto clamp = [&](float x) { return std::min(std::max(x, limits.low), limits.high); };
    range = {clamp(range.low), clamp(range.high)};  // what one leaves goes through the next
  }
  return range;
}

bool TakesFixedPostOp(const Node& node, const PostOp& op) {
  const bool clamps =
      op.kind == PostOp::Kind::kActivation && DefOf(op.activation).limits != nullptr;
  if (!clamps || node.inputs.size() < 2 || !node.HasOutput(0)) return false;
  const Tensor *a = node.inputs[0], *b = node.inputs[1], *out = node.outputs[0];
  for (const Tensor* tensor : {a, b, out}) {
    if (tensor == nullptr || (TypeBit(tensor->dtype) & types::kFixed8) == 0) return false;
  }
  const OpDef* def = FindOp(node.type);
  if (def == nullptr) return false;
  if (def->sums_products()) return true;
  const bool arithmetic = def->linear != OpDef::kNotLinear && def->linear != OpDef::kMultiplyAdd;
  return arithmetic && a->shape == b->shape && a->dtype == b->dtype && a->dtype == out->dtype &&
         OneScale(a->quantization) && OneScale(b->quantization) && OneScale(out->quantization);
}

FixedRange OutputRange(const Node& node) {
  const Tensor& out = *node.outputs[0];
  FixedRange range = RangeOf(out.dtype, out.quantization.bitwidth);
  for (const PostOp& op : node.post_ops) range = Clamped(range, op, out);
  return range;
}

}  // namespace qnnrt
