#include "ops/fixed.h"

#include <algorithm>
#include <cmath>

#include "ops/isa.h"
#include "ops/op.h"

namespace qnnrt {
namespace {

template <typename T>
struct DecodeRun {
  static QNNRT_INLINE void Run(const T* in, float* out, size_t n, float scale, int32_t offset) {
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) {
      // In 16 bits the sum is exact as a float; in 32 bits the float rounds it.
      out[i] = scale * (static_cast<float>(in[i]) + static_cast<float>(offset));
    }
  }
};

template <typename T>
struct EncodeRun {
  static QNNRT_INLINE void Run(const float* in, T* out, size_t n, float scale, int32_t offset,
                               int32_t low, int32_t high) {
    const float shift = static_cast<float>(offset);
    const float least = static_cast<float>(low) + shift, most = static_cast<float>(high) + shift;
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) {
      float x = in[i] / scale;
      x = x == x ? x : 0.0f;
      x = std::min(std::max(x, least), most);
      out[i] = static_cast<T>(static_cast<int32_t>(std::nearbyintf(x)) - offset);
    }
  }
};

void EncodeWide(const float* in, int32_t* out, size_t n, float scale, int32_t offset,
                FixedRange range) {
  for (size_t i = 0; i < n; ++i) {
    double x = std::nearbyint(static_cast<double>(in[i]) / scale) - offset;
    if (x != x) x = -static_cast<double>(offset);
    x = std::min(std::max(x, static_cast<double>(range.low)), static_cast<double>(range.high));
    out[i] = static_cast<int32_t>(x);
  }
}

template <typename T>
void Decode(const T* in, float* out, size_t n, float scale, int32_t offset) {
  static const auto run = PickIsa<DecodeRun<T>>();
  run(in, out, n, scale, offset);
}

template <typename T>
void Encode(const float* in, T* out, size_t n, float scale, int32_t offset, FixedRange range) {
  static const auto run = PickIsa<EncodeRun<T>>();
  run(in, out, n, scale, offset, static_cast<int32_t>(range.low), static_cast<int32_t>(range.high));
}

// Calls fn(index of the scale, begin, end) for every run of elements with one scale.
template <typename Fn>
void ForRuns(const Quantization& q, size_t inner, size_t axis, size_t begin, size_t end, Fn fn) {
  if (q.axis < 0) return fn(size_t{0}, begin, end);
  while (begin < end) {
    const size_t stop = std::min(end, (begin / inner + 1) * inner);
    fn(begin / inner % axis, begin, stop);
    begin = stop;
  }
}

}  // namespace

FixedRange RangeOf(Qnn_DataType_t type, uint32_t bitwidth) {
  const bool is_signed = type == QNN_DATATYPE_SFIXED_POINT_8 ||
                         type == QNN_DATATYPE_SFIXED_POINT_16 ||
                         type == QNN_DATATYPE_SFIXED_POINT_32;
  const uint32_t bits = bitwidth != 0 ? bitwidth : static_cast<uint32_t>(8 * ElementSize(type));
  if (is_signed) return {-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
  return {0, (int64_t{1} << bits) - 1};
}

Codec::Codec(const Tensor& tensor) : dtype_(tensor.dtype) {
  if (!IsFixed(dtype_)) return;
  quantization_ = std::make_shared<const Quantization>(tensor.quantization);
  if (quantization_->axis < 0) return;
  const size_t axis = static_cast<size_t>(quantization_->axis);
  axis_ = tensor.shape[axis];
  for (size_t d = axis + 1; d < tensor.shape.size(); ++d) inner_ *= tensor.shape[d];
}

void Codec::Decode(const void* elements, float* values, size_t begin, size_t end) const {
  if (dtype_ == QNN_DATATYPE_FLOAT_16) {
    return HalfToFloat(static_cast<const uint16_t*>(elements) + begin, values + begin, end - begin);
  }
  const Quantization& q = *quantization_;
  ForRuns(q, inner_, axis_, begin, end, [&](size_t which, size_t from, size_t to) {
    const float scale = q.scales[which];
    const int32_t offset = q.offsets[which];
    const auto run = [&](auto zero) {
      using T = decltype(zero);
      qnnrt::Decode(static_cast<const T*>(elements) + from, values + from, to - from, scale,
                    offset);
    };
    switch (dtype_) {
      case QNN_DATATYPE_UFIXED_POINT_8:
        return run(uint8_t{});
      case QNN_DATATYPE_SFIXED_POINT_8:
        return run(int8_t{});
      case QNN_DATATYPE_UFIXED_POINT_16:
        return run(uint16_t{});
      case QNN_DATATYPE_SFIXED_POINT_16:
        return run(int16_t{});
      default:
        return run(int32_t{});
    }
  });
}

void Codec::Encode(const float* values, void* elements, size_t begin, size_t end) const {
  if (dtype_ == QNN_DATATYPE_FLOAT_16) {
    return FloatToHalf(values + begin, static_cast<uint16_t*>(elements) + begin, end - begin);
  }
  const Quantization& q = *quantization_;
  const FixedRange range = RangeOf(dtype_, q.bitwidth);
  ForRuns(q, inner_, axis_, begin, end, [&](size_t which, size_t from, size_t to) {
    const float scale = q.scales[which];
    const int32_t offset = q.offsets[which];
    const auto run = [&](auto zero) {
      using T = decltype(zero);
      qnnrt::Encode(values + from, static_cast<T*>(elements) + from, to - from, scale, offset,
                    range);
    };
    switch (dtype_) {
      case QNN_DATATYPE_UFIXED_POINT_8:
        return run(uint8_t{});
      case QNN_DATATYPE_SFIXED_POINT_8:
        return run(int8_t{});
      case QNN_DATATYPE_UFIXED_POINT_16:
        return run(uint16_t{});
      case QNN_DATATYPE_SFIXED_POINT_16:
        return run(int16_t{});
      default:
        return EncodeWide(values + from, static_cast<int32_t*>(elements) + from, to - from, scale,
                          offset, range);
    }
  });
}

Result<KernelPtr> MakeFixedKernel(const Node&, const KernelOptions&) { return KernelPtr(); }

}  // namespace qnnrt
