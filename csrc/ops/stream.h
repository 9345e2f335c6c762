// Results too large for the caches: a plain store first reads the line that it then overwrites, a
// third to a half of all the traffic of a bandwidth-bound op. These stores do not. Whoever reads
// the result next would not have found it in a cache anyway.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "ops/isa.h"

namespace qnnrt {

// The least size of a result, in bytes, that is worth it: what one core can hope to find again in a
// last cache that it shares. (What the system says of that cache is the whole package's, or wrong.)
constexpr size_t kStreamBytes = 16 << 20;

#if defined(__x86_64__)
constexpr bool kCanStream = true;
#else
constexpr bool kCanStream = false;
#endif

// out[i] = value(i) for all i below n, past the caches.
template <typename F>
QNNRT_INLINE void StreamFloats(float* out, size_t n, const F& value) {
  size_t i = 0;
  const size_t head = std::min(n, (64 - reinterpret_cast<uintptr_t>(out) % 64) % 64 / 4);
  for (; i < head; ++i) out[i] = value(i);
#if defined(__x86_64__)
  constexpr size_t kBlock = 64;  // smaller ones are unrolled instead of vectorized
  for (; i + kBlock <= n; i += kBlock) {
    alignas(64) float block[kBlock];
    QNNRT_SIMD
    for (size_t k = 0; k < kBlock; ++k) block[k] = value(i + k);
    for (size_t k = 0; k < kBlock; k += 4) _mm_stream_ps(out + i + k, _mm_load_ps(block + k));
  }
  _mm_sfence();
#endif
  for (; i < n; ++i) out[i] = value(i);
}

}  // namespace qnnrt
