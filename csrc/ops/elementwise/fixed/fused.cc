#include "ops/elementwise/fixed/fused.h"

#include "ir/visit.h"
#include "ops/fixed/codec.h"
#include "ops/post_ops.h"

namespace qnnrt::fixed {
namespace {

struct Add {
  static QNNRT_INLINE float Do(float a, float b) { return a + b; }
};
struct Subtract {
  static QNNRT_INLINE float Do(float a, float b) { return a - b; }
};
struct SubtractFrom {
  static QNNRT_INLINE float Do(float a, float b) { return b - a; }
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

template <typename Op, typename T>
struct Row {
  template <bool fma>
  struct With {
    static QNNRT_INLINE void Run(const void* a, const float* row, void* out, size_t n,
                                 const Encodings& encodings) {
      const T* x = static_cast<const T*>(a);
      T* o = static_cast<T*>(out);
      const Encodings e = encodings;
      QNNRT_SIMD
      for (size_t i = 0; i < n; ++i) o[i] = e.out.Code<T, fma, true>(Op::Do(e.a(x[i]), row[i]));
    }
  };
};

// `Loop<Op, T>` for the type; null for 32 bits.
template <template <typename, typename> class Loop, typename Op>
auto Pick(Qnn_DataType_t type) {
  return VisitCode(type, [](auto t) -> decltype(&Loop<Op, uint8_t>::template With<false>::Run) {
    if constexpr (sizeof(t) > 2)
      return nullptr;
    else
      return PickFma<Loop<Op, decltype(t)>::template With>();
  });
}

// Whether results stay finite and an Encoder takes them.
bool Takes(const Node& node) {
  const Tensor& out = *node.outputs[0];
  for (const Tensor* tensor : {node.inputs[0], node.inputs[1], &out}) {
    const Quantization& q = tensor->quantization;
    if (!OneScale(q) || q.scales[0] > 0x1p40f) return false;
  }
  const FixedRange range = RangeOf(out.dtype, out.quantization.bitwidth);
  return Encoder::Takes(out.quantization.scales[0], out.quantization.offsets[0], range.low,
                        range.high);
}

Decoder DecoderOf(const Tensor& tensor) {
  return {tensor.quantization.scales[0], tensor.quantization.offsets[0]};
}

Encoder EncoderOf(const Node& node) {
  const Quantization& q = node.outputs[0]->quantization;
  const FixedRange range = OutputRange(node);
  return {q.scales[0], q.offsets[0], range.low, range.high};
}

FusedLoop OfOp(BinaryOp op, Qnn_DataType_t type) {
  switch (op) {
    case BinaryOp::kAdd:
      return Pick<Fused, Add>(type);
    case BinaryOp::kSubtract:
      return Pick<Fused, Subtract>(type);
    case BinaryOp::kMultiply:
      return Pick<Fused, Multiply>(type);
    default:
      return nullptr;
  }
}

FusedRow RowOfOp(BinaryOp op, Qnn_DataType_t type, size_t row_input) {
  switch (op) {
    case BinaryOp::kAdd:
      return Pick<Row, Add>(type);
    case BinaryOp::kSubtract:
      return row_input == 0 ? Pick<Row, SubtractFrom>(type) : Pick<Row, Subtract>(type);
    case BinaryOp::kMultiply:
      return Pick<Row, Multiply>(type);
    default:
      return nullptr;
  }
}

}  // namespace

FusedLoop PickFused(BinaryOp op, const Node& node, Encodings* encodings) {
  const Tensor &a = *node.inputs[0], &b = *node.inputs[1], &out = *node.outputs[0];
  if (a.dtype != b.dtype || a.dtype != out.dtype || !Takes(node)) return nullptr;
  *encodings = {DecoderOf(a), DecoderOf(b), EncoderOf(node), OutputRange(node), {}};
  const FusedLoop loop = OfOp(op, out.dtype);
  return loop == nullptr ? nullptr : PickFused8(op, node, loop, encodings);
}

FusedRow PickFusedRow(BinaryOp op, const Node& node, size_t row_input, Encodings* encodings) {
  const Tensor &a = *node.inputs[1 - row_input], &out = *node.outputs[0];
  if (a.dtype != out.dtype || !Takes(node)) return nullptr;
  *encodings = {DecoderOf(a), {}, EncoderOf(node), OutputRange(node), {}};
  const FusedRow loop = RowOfOp(op, out.dtype, row_input);
  return loop == nullptr ? nullptr : PickFusedRow8(op, node, row_input, loop);
}

}  // namespace qnnrt::fixed
