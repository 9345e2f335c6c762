#include "ops/lookup.h"

#include <cstring>

#include "ops/isa.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace qnnrt {
namespace {

void Bytes(const uint8_t* table, const uint8_t* in, uint8_t* out, size_t count) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {  // eight loads and one store
    uint64_t x, y = 0;
    std::memcpy(&x, in + i, sizeof(x));
    for (int k = 0; k < 64; k += 8) y |= uint64_t{table[(x >> k) & 0xff]} << k;
    std::memcpy(out + i, &y, sizeof(y));
  }
  for (; i < count; ++i) out[i] = table[in[i]];
}

void Words(const uint8_t* table, const uint8_t* in, uint8_t* out, size_t count) {
  for (size_t i = 0; i < count; ++i) std::memcpy(out + 2 * i, table + 2 * size_t{in[i]}, 2);
}

#if defined(__x86_64__)
#define QNNRT_VBMI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")))

// 256 bytes in four registers: two permutations of 128, and the top bit chooses.
struct Permutation {
  __m512i part[4];
  QNNRT_VBMI explicit Permutation(const uint8_t* table) {
    for (int k = 0; k < 4; ++k) part[k] = _mm512_loadu_si512(table + 64 * k);
  }
  QNNRT_VBMI __m512i operator()(__m512i x) const {
    const __m512i low = _mm512_permutex2var_epi8(part[0], x, part[1]);
    const __m512i high = _mm512_permutex2var_epi8(part[2], x, part[3]);
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), low, high);
  }
};

QNNRT_VBMI __mmask64 First(size_t count) {
  return count >= 64 ? ~__mmask64{0} : (__mmask64{1} << count) - 1;
}

// A masked store takes twice as long as a whole one, so only what is left over has one.
QNNRT_VBMI QNNRT_INLINE void LookUp(const Permutation& look, const uint8_t* in, uint8_t* out,
                                    size_t count) {
  size_t i = 0;
  for (; i + 64 <= count; i += 64) _mm512_storeu_si512(out + i, look(_mm512_loadu_si512(in + i)));
  if (count & 32) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i));
    const __m512i y = look(_mm512_castsi256_si512(x));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i),
                        _mm512_maskz_extracti64x4_epi64(0xf, y, 0));
    i += 32;
  }
  if (count & 16) {
    const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
    const __m512i y = look(_mm512_castsi128_si512(x));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                     _mm512_maskz_extracti32x4_epi32(0xf, y, 0));
    i += 16;
  }
  if (i == count) return;
  const __mmask64 mask = First(count - i);
  _mm512_mask_storeu_epi8(out + i, mask, look(_mm512_maskz_loadu_epi8(mask, in + i)));
}

QNNRT_VBMI void BytesVbmi(const uint8_t* table, const uint8_t* in, uint8_t* out, size_t count) {
  LookUp(Permutation(table), in, out, count);
}

QNNRT_VBMI void ByteRowsVbmi(const uint8_t* table, const uint8_t* in, uint8_t* out, size_t count,
                             size_t rows, size_t stride) {
  const Permutation look(table);
  for (size_t r = 0; r < rows; ++r) LookUp(look, in + r * count, out + r * stride, count);
}

QNNRT_VBMI void WordsVbmi(const uint8_t* table, const uint8_t* in, uint8_t* out, size_t count) {
  alignas(64) uint8_t halves[2][256];
  for (size_t i = 0; i < 512; ++i) halves[i % 2][i / 2] = table[i];
  const Permutation low(halves[0]), high(halves[1]);
  // Interleaving works within 128 bits: the quarters are put where it leaves them in order.
  const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
  for (size_t i = 0; i < count; i += 64) {
    const __m512i codes = _mm512_maskz_loadu_epi8(First(count - i), in + i);
    const __m512i x = _mm512_maskz_permutexvar_epi64(0xff, order, codes);
    const __m512i l = low(x), h = high(x);
    const size_t bytes = 2 * (count - i);
    _mm512_mask_storeu_epi8(out + 2 * i, First(bytes), _mm512_unpacklo_epi8(l, h));
    if (bytes <= 64) break;
    _mm512_mask_storeu_epi8(out + 2 * i + 64, First(bytes - 64), _mm512_unpackhi_epi8(l, h));
  }
}

bool HasVbmi() { return CpuIsa() == Isa::kAvx512 && __builtin_cpu_supports("avx512vbmi"); }
#endif

}  // namespace

bool HasFastLookup8() {
#if defined(__x86_64__)
  return HasVbmi();
#else
  return false;
#endif
}

Lookup PickLookup8() {
#if defined(__x86_64__)
  if (HasVbmi()) return BytesVbmi;
#endif
  return Bytes;
}

LookupRows PickLookupRows8() {
#if defined(__x86_64__)
  if (HasVbmi()) return ByteRowsVbmi;
#endif
  return nullptr;
}

Lookup PickLookup16() {
#if defined(__x86_64__)
  if (HasVbmi()) return WordsVbmi;
#endif
  return Words;
}

void ByteTable::Run(const Threads& threads, const void* in, void* out, size_t count) const {
  constexpr size_t kGrain = 64 * 1024;  // bytes worth a thread
  const uint8_t* x = static_cast<const uint8_t*>(in);
  uint8_t* o = static_cast<uint8_t*>(out);
  threads.For(count, kGrain, [&](size_t begin, size_t end) {
    lookup_(entries_, x + begin, o + begin * entry_size_, end - begin);
  });
}

void LookUpWords(const Threads& threads, const void* table, size_t entry_size, const void* in,
                 void* out, size_t count) {
  constexpr size_t kGrain = 32 * 1024;  // words worth a thread
  const uint16_t* x = static_cast<const uint16_t*>(in);
  const auto look = [&](auto* o, size_t begin, size_t end) {
    const auto* entries = static_cast<decltype(o)>(const_cast<void*>(table));
    size_t i = begin;
    // One load for four: where `o` is `x`, a processor may wait with each load until it knows where
    // the store before it goes, or not, as its guesses happen to be: 0.34 or 0.69 ns a number.
    for (; i + 4 <= end; i += 4) {
      uint64_t four;
      std::memcpy(&four, x + i, sizeof(four));
      for (size_t k = 0; k < 4; ++k) o[i + k] = entries[static_cast<uint16_t>(four >> (16 * k))];
    }
    for (; i < end; ++i) o[i] = entries[x[i]];
  };
  threads.For(count, kGrain, [&](size_t begin, size_t end) {
    if (entry_size == 1) {
      look(static_cast<uint8_t*>(out), begin, end);
    } else {
      look(static_cast<uint16_t*>(out), begin, end);
    }
  });
}

}  // namespace qnnrt
