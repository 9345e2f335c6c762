// DynamicQuantize: floats as unsigned bytes, with the scale and the zero point that their range
// asks for. ONNX's DynamicQuantizeLinear:
//   scale = (max(x, 0) - min(x, 0)) / 255
//   zero  = round(clamp(0 - min(x, 0) / scale, 0, 255))
//   codes = clamp(round(x / scale) + zero, 0, 255)
// and with `one_of_zeros` a scale of 1 in place of 0 for a range of 0.
// Where ONNX casts what is no number (a NaN in x, or 0 / 0 where x is all zeros) the byte is 0.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/dynamic/dynamic.h"
#include "ops/isa.h"
#include "ops/rules.h"
#include "ops/vector_math.h"

namespace qnnrt {
namespace {

constexpr size_t kBlock = 16 * 1024;  // elements that are looked at together
constexpr size_t kBlockGrain = 4;     // blocks worth a thread
constexpr int32_t kInfinityBits = 0x7f800000;

struct Extremes {
  float least, most;  // with 0
  int32_t magnitude;  // the largest, as the bits of a float: beyond infinity there is a NaN
};

QNNRT_INLINE Extremes Merge(Extremes a, Extremes b) {
  return {std::min(a.least, b.least), std::max(a.most, b.most), std::max(a.magnitude, b.magnitude)};
}

struct ExtremesRun {
  static QNNRT_INLINE Extremes Run(const float* x, size_t n) {
    float least = 0, most = 0;
    int32_t magnitude = 0;
    QNNRT_SIMD_REDUCE(reduction(min : least) reduction(max : most, magnitude))
    for (size_t i = 0; i < n; ++i) {
      const int32_t bits = vmath::Bits(x[i]) & INT32_MAX;
      least = x[i] < least ? x[i] : least;
      most = x[i] > most ? x[i] : most;
      magnitude = bits > magnitude ? bits : magnitude;
    }
    return {least, most, magnitude};
  }
};

struct CodesRun {
  static QNNRT_INLINE void Run(const float* x, uint8_t* out, size_t n, float scale, float zero) {
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) {
      float code = std::nearbyintf(x[i] / scale) + zero;
      code = code > 0.0f ? code : 0.0f;  // NaN, too
      code = code < 255.0f ? code : 255.0f;
      out[i] = static_cast<uint8_t>(static_cast<int32_t>(code));
    }
  }
};

float Saturated(float x) { return x > 0.0f ? std::min(x, 255.0f) : 0.0f; }

class DynamicQuantize final : public Kernel {
 public:
  DynamicQuantize(size_t count, bool one)
      : count_(count), blocks_((count + kBlock - 1) / kBlock), one_(one) {}

  Status Run(const ExecArgs& args) override {
    const float* x = static_cast<const float*>(args.in[0]);
    Extremes* found = static_cast<Extremes*>(args.scratch);
    const auto size = [&](size_t block) { return std::min(kBlock, count_ - block * kBlock); };
    args.threads.For(blocks_, kBlockGrain, [&](size_t begin, size_t end) {
      for (size_t b = begin; b < end; ++b) found[b] = extremes_(x + b * kBlock, size(b));
    });
    Extremes all{};
    for (size_t b = 0; b < blocks_; ++b) all = Merge(all, found[b]);
    float scale = (all.most - all.least) / 255.0f;
    if (one_ && all.most == all.least) scale = 1;
    if (all.magnitude > kInfinityBits) scale = std::numeric_limits<float>::quiet_NaN();
    const float zero = std::nearbyintf(Saturated(0.0f - all.least / scale));
    *static_cast<float*>(args.out[1]) = scale;
    *static_cast<int32_t*>(args.out[2]) = static_cast<int32_t>(zero);
    uint8_t* codes = static_cast<uint8_t*>(args.out[0]);
    args.threads.For(blocks_, kBlockGrain, [&](size_t begin, size_t end) {
      for (size_t b = begin; b < end; ++b)
        codes_(x + b * kBlock, codes + b * kBlock, size(b), scale, zero);
    });
    return Status::Ok();
  }

  size_t ScratchBytes() const override { return blocks_ * sizeof(Extremes); }

 private:
  const size_t count_, blocks_;
  const bool one_;
  decltype(PickIsa<ExtremesRun>()) extremes_ = PickIsa<ExtremesRun>();
  decltype(PickIsa<CodesRun>()) codes_ = PickIsa<CodesRun>();
};

Status InferQuantize(const Node& node, std::vector<Shape>* outputs) {
  if (node.inputs[0]->elements() == 0) return Invalid("input 0 has no elements, so no range");
  for (const Tensor* t : {node.inputs[0], node.HasOutput(1) ? node.outputs[1] : nullptr}) {
    if (t != nullptr && IsFixed(t->dtype)) return Invalid("fixed-point numbers in place of floats");
  }
  *outputs = {node.inputs[0]->shape, {1}, {1}};
  return Status::Ok();
}

Result<KernelPtr> Make(const Node& node, const KernelOptions&) {
  return KernelPtr(new DynamicQuantize(node.inputs[0]->elements(), node.Bool(kOneOfZeros)));
}

}  // namespace

OpDef DynamicQuantizeOp() {
  OpDef def;
  def.type = kDynamicQuantize;
  def.inputs = {{"in", types::kF32}};
  def.outputs = {{"codes", types::kU8}, {"scale", types::kF32}, {"zero", types::kI32}};
  def.params = {{kOneOfZeros, ParamSpec::kBool, Default(false)}};
  def.infer = InferQuantize;
  def.portable = Make;
  def.flags = OpDef::kInternal;
  return def;
}

OpList DynamicOps() {
  OpList ops;
  ops.push_back(DynamicQuantizeOp());
  ops.push_back(IntegerMatMulOp());
  ops.push_back(IntegerConv2dOp());
  return ops;
}

}  // namespace qnnrt
