#include "ops/fixed_fused.h"

#include "ops/fixed.h"

namespace qnnrt::fixed {
namespace {

struct Add {
  static QNNRT_INLINE float Do(float a, float b) { return a + b; }
};
struct Subtract {
  static QNNRT_INLINE float Do(float a, float b) { return a - b; }
};
struct Multiply {
  static QNNRT_INLINE float Do(float a, float b) { return a * b; }
};

template <typename Op, typename T>
struct Fused {
  template <bool fma>
  struct With {
    static QNNRT_INLINE void Run(const void* a, const void* b, void* out, size_t n,
                                 const Encodings& encodings) {
      const T* x = static_cast<const T*>(a);
      const T* y = static_cast<const T*>(b);
      T* o = static_cast<T*>(out);
      const Encodings e = encodings;
      QNNRT_SIMD
      for (size_t i = 0; i < n; ++i) {
        o[i] = e.out.Code<T, fma, true>(Op::Do(e.a(x[i]), e.b(y[i])));
      }
    }
  };
};

template <typename Op>
FusedLoop Pick(Qnn_DataType_t type) {
  switch (type) {
    case QNN_DATATYPE_UFIXED_POINT_8:
      return PickFma<Fused<Op, uint8_t>::template With>();
    case QNN_DATATYPE_SFIXED_POINT_8:
      return PickFma<Fused<Op, int8_t>::template With>();
    case QNN_DATATYPE_UFIXED_POINT_16:
      return PickFma<Fused<Op, uint16_t>::template With>();
    case QNN_DATATYPE_SFIXED_POINT_16:
      return PickFma<Fused<Op, int16_t>::template With>();
    default:
      return nullptr;
  }
}

Decoder DecoderOf(const Tensor& tensor) {
  return {tensor.quantization.scales[0], tensor.quantization.offsets[0]};
}

}  // namespace

FusedLoop PickFused(BinaryOp op, const Node& node, Encodings* encodings) {
  const Tensor &a = *node.inputs[0], &b = *node.inputs[1], &out = *node.outputs[0];
  if (a.dtype != b.dtype || a.dtype != out.dtype) return nullptr;
  for (const Tensor* tensor : {&a, &b, &out}) {
    if (!OneScale(tensor->quantization)) return nullptr;
    if (tensor->quantization.scales[0] > 0x1p40f) return nullptr;  // results stay finite
  }
  const float scale = out.quantization.scales[0];
  const int32_t offset = out.quantization.offsets[0];
  const FixedRange range = RangeOf(out.dtype, out.quantization.bitwidth);
  if (!Encoder::Takes(scale, offset, range.low, range.high)) return nullptr;
  *encodings = {DecoderOf(a), DecoderOf(b), {scale, offset, range.low, range.high}};
  switch (op) {
    case BinaryOp::kAdd:
      return Pick<Add>(out.dtype);
    case BinaryOp::kSubtract:
      return Pick<Subtract>(out.dtype);
    case BinaryOp::kMultiply:
      return Pick<Multiply>(out.dtype);
    default:
      return nullptr;
  }
}

}  // namespace qnnrt::fixed
