#include "ops/fixed/requantize.h"

#include <algorithm>

#include "ir/visit.h"

namespace qnnrt {
namespace {

constexpr size_t kBlock = 1024;  // elements as floats between the two types, on the stack

template <typename From, typename To>
struct Between {
  template <bool fma>
  struct Loop {
    static QNNRT_INLINE void Run(const void* in, void* out, size_t n, const fixed::Decoder& decode,
                                 const fixed::Encoder& encode) {
      const From* x = static_cast<const From*>(in);
      To* o = static_cast<To*>(out);
      const fixed::Decoder d = decode;
      const fixed::Encoder e = encode;
      QNNRT_SIMD
      for (size_t i = 0; i < n; ++i) o[i] = e.template Code<To, fma, true>(d(x[i]));
    }
  };
};

using AnyLoop = decltype(&Between<uint8_t, uint8_t>::Loop<false>::Run);

// Null for 32 bits.
AnyLoop PickLoop(Qnn_DataType_t from, Qnn_DataType_t to) {
  return VisitCode(from, [to](auto f) {
    using From = decltype(f);
    return VisitCode(to, [](auto t) -> AnyLoop {
      if constexpr (sizeof(f) > 2 || sizeof(t) > 2)
        return nullptr;
      else
        return fixed::PickFma<Between<From, decltype(t)>::template Loop>();
    });
  });
}

}  // namespace

Requantizer::Requantizer(const Tensor& from, const Tensor& to)
    : from_size_(ElementSize(from.dtype)), to_size_(ElementSize(to.dtype)), from_(from), to_(to) {
  const Quantization &a = from.quantization, &b = to.quantization;
  if (!OneScale(a) || !OneScale(b)) return;
  const FixedRange range = RangeOf(to.dtype, b.bitwidth);
  if (!fixed::Encoder::Takes(b.scales[0], b.offsets[0], range.low, range.high)) return;
  decode_ = fixed::Decoder(a.scales[0], a.offsets[0]);
  encode_ = fixed::Encoder(b.scales[0], b.offsets[0], range.low, range.high);
  loop_ = PickLoop(from.dtype, to.dtype);
  if (loop_ == nullptr || from_size_ != 1 || !HasFastLookup8()) return;
  std::array<uint8_t, 256> codes;
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i);
  loop_(codes.data(), table_.data(), codes.size(), decode_, encode_);
  lookup_ = to_size_ == 1 ? PickLookup8() : PickLookup16();
  if (to_size_ == 1) rows_ = PickLookupRows8();
}

void Requantizer::Run(const void* in, void* out, size_t begin, size_t end) const {
  if (lookup_ != nullptr) {
    return lookup_(table_.data(), static_cast<const uint8_t*>(in) + begin,
                   static_cast<uint8_t*>(out) + begin * to_size_, end - begin);
  }
  if (loop_ == nullptr) return ThroughFloats(in, out, begin, end);
  loop_(static_cast<const char*>(in) + begin * from_size_,
        static_cast<char*>(out) + begin * to_size_, end - begin, decode_, encode_);
}

void Requantizer::RunRows(const void* in, void* out, size_t count, size_t rows,
                          size_t stride) const {
  const char* from = static_cast<const char*>(in);
  char* to = static_cast<char*>(out);
  if (rows_ != nullptr) {
    return rows_(table_.data(), reinterpret_cast<const uint8_t*>(from),
                 reinterpret_cast<uint8_t*>(to), count, rows, stride);
  }
  for (size_t r = 0; r < rows; ++r) Run(from + r * count * from_size_, to + r * stride, 0, count);
}

void Requantizer::ThroughFloats(const void* in, void* out, size_t begin, size_t end) const {
  alignas(64) float block[kBlock];
  for (size_t i = begin; i < end; i += kBlock) {
    const size_t count = std::min(kBlock, end - i);
    from_.Read(in, i, count, block);
    to_.Write(block, out, i, count);
  }
}

}  // namespace qnnrt
