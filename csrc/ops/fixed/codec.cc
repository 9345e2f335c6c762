#include "ops/fixed/codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "ir/visit.h"
#include "ops/fixed/arithmetic.h"
#include "ops/isa.h"

namespace qnnrt {
namespace {

template <typename T>
struct DecodeRun {
  static QNNRT_INLINE void Run(const T* in, float* out, size_t n, const fixed::Decoder& decoder) {
    const fixed::Decoder d = decoder;
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) out[i] = d(in[i]);
  }
};

// One scale for each element.
template <typename T>
struct DecodeEach {
  static QNNRT_INLINE void Run(const T* in, float* out, size_t n, const float* scales,
                               const int32_t* offsets) {
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) out[i] = fixed::Decoder(scales[i], offsets[i])(in[i]);
  }
};

template <typename T>
struct EncodeRun {
  template <bool fma>
  struct With {
    static QNNRT_INLINE void Run(const float* in, T* out, size_t n, const fixed::Encoder& encoder) {
      const fixed::Encoder e = encoder;
      QNNRT_SIMD
      for (size_t i = 0; i < n; ++i) out[i] = e.Code<T, fma>(in[i]);
    }
  };
};

// 32 bits, which need doubles, and encodings that an Encoder does not take.
template <typename T>
void EncodeWide(const float* in, T* out, size_t n, float scale, int32_t offset, FixedRange range) {
  using Quotient = std::conditional_t<sizeof(T) == 4, double, float>;
  for (size_t i = 0; i < n; ++i) {
    double x = static_cast<Quotient>(in[i]) / static_cast<Quotient>(scale);
    x = x == x ? std::nearbyint(x) - offset : -static_cast<double>(offset);
    x = std::min(std::max(x, static_cast<double>(range.low)), static_cast<double>(range.high));
    out[i] = static_cast<T>(x);
  }
}

template <typename T>
void Decode(const T* in, float* out, size_t n, float scale, int32_t offset) {
  static const auto run = PickIsa<DecodeRun<T>>();
  run(in, out, n, {scale, offset});
}

template <typename T>
void DecodeRows(const T* in, float* out, size_t begin, size_t count, const Quantization& q) {
  static const auto run = PickIsa<DecodeEach<T>>();
  const size_t axis = q.scales.size();
  for (size_t i = 0; i < count;) {
    const size_t at = (begin + i) % axis, n = std::min(axis - at, count - i);
    run(in + begin + i, out + i, n, &q.scales[at], &q.offsets[at]);
    i += n;
  }
}

template <typename T>
void Encode(const float* in, T* out, size_t n, float scale, int32_t offset, FixedRange range) {
  if constexpr (sizeof(T) < 4) {
    static const auto run = fixed::PickFma<EncodeRun<T>::template With>();
    if (fixed::Encoder::Takes(scale, offset, range.low, range.high)) {
      return run(in, out, n, {scale, offset, range.low, range.high});
    }
  }
  EncodeWide(in, out, n, scale, offset, range);
}

// The block that element i lies in, and how many elements from i on lie in it one after the other.
size_t BlockOf(const Shape& shape, const std::vector<uint32_t>& block, size_t i, size_t* run) {
  size_t number = 0, blocks = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    const size_t at = i % shape[d];
    if (d + 1 == shape.size()) *run = block[d] - at % block[d];
    number += at / block[d] * blocks;
    blocks *= shape[d] / block[d];
    i /= shape[d];
  }
  return number;
}

}  // namespace

// Calls fn(index of the scale, begin, end) for every run of elements with one scale.
template <typename Fn>
void Codec::ForRuns(size_t begin, size_t end, Fn fn) const {
  const Quantization& q = *quantization_;
  if (q.per_tensor()) return fn(size_t{0}, begin, end);
  while (begin < end) {
    size_t which, stop;
    if (q.in_blocks()) {
      size_t run = 1;
      which = BlockOf(shape_, q.block, begin, &run);
      stop = std::min(end, begin + run);
    } else {
      which = begin / inner_ % axis_;
      stop = std::min(end, (begin / inner_ + 1) * inner_);
    }
    fn(which, begin, stop);
    begin = stop;
  }
}

Codec::Codec(const Tensor& tensor) : dtype_(tensor.dtype) {
  if (!IsFixed(dtype_)) return;
  quantization_ = std::make_shared<const Quantization>(tensor.quantization);
  if (quantization_->in_blocks()) shape_ = tensor.shape;
  if (quantization_->axis < 0) return;
  const size_t axis = static_cast<size_t>(quantization_->axis);
  axis_ = tensor.shape[axis];
  for (size_t d = axis + 1; d < tensor.shape.size(); ++d) inner_ *= tensor.shape[d];
}

void Codec::Read(const void* elements, size_t begin, size_t count, float* values) const {
  if (dtype_ == QNN_DATATYPE_FLOAT_32) {
    std::memcpy(values, static_cast<const float*>(elements) + begin, count * sizeof(float));
    return;
  }
  if (const NarrowFloat* narrow = NarrowFloatOf(dtype_)) {
    return narrow->widen(static_cast<const uint16_t*>(elements) + begin, values, count);
  }
  if (dtype_ == QNN_DATATYPE_INT_32) {  // an exponent
    std::copy_n(static_cast<const int32_t*>(elements) + begin, count, values);
    return;
  }
  const Quantization& q = *quantization_;
  if (q.axis >= 0 && inner_ == 1) {  // channels last: a scale for each element
    return VisitCode(dtype_, [&](auto zero) {
      DecodeRows(static_cast<const decltype(zero)*>(elements), values, begin, count, q);
    });
  }
  ForRuns(begin, begin + count, [&](size_t which, size_t from, size_t to) {
    VisitCode(dtype_, [&](auto zero) {
      qnnrt::Decode(static_cast<const decltype(zero)*>(elements) + from, values + (from - begin),
                    to - from, q.scales[which], q.offsets[which]);
    });
  });
}

void Codec::Write(const float* values, void* elements, size_t begin, size_t count) const {
  if (dtype_ == QNN_DATATYPE_FLOAT_32) {
    std::memcpy(static_cast<float*>(elements) + begin, values, count * sizeof(float));
    return;
  }
  if (const NarrowFloat* narrow = NarrowFloatOf(dtype_)) {
    return narrow->narrow(values, static_cast<uint16_t*>(elements) + begin, count);
  }
  const Quantization& q = *quantization_;
  const FixedRange range = RangeOf(dtype_, q.bitwidth);
  ForRuns(begin, begin + count, [&](size_t which, size_t from, size_t to) {
    VisitCode(dtype_, [&](auto zero) {
      qnnrt::Encode(values + (from - begin), static_cast<decltype(zero)*>(elements) + from,
                    to - from, q.scales[which], q.offsets[which], range);
    });
  });
}

}  // namespace qnnrt
