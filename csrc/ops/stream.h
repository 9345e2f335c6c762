// Results that will not fit any cache are better written around it: no line is read before it is
// overwritten, and nothing useful is thrown out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace qnnrt {

// Outputs from this size on are streamed.
constexpr size_t kStreamBytes = size_t{24} << 20;

// memcpy from a block in the first-level cache to `out`. Call StreamEnd after the last one, before
// another thread is told that the data is there.
inline void StreamCopy(void* out, const void* block, size_t bytes) {
#if defined(__x86_64__)
  char* o = static_cast<char*>(out);
  const char* b = static_cast<const char*>(block);
  size_t head = (16 - reinterpret_cast<uintptr_t>(o) % 16) % 16;
  if (head > bytes) head = bytes;
  std::memcpy(o, b, head);
  size_t i = head;
  for (; i + 64 <= bytes; i += 64) {
    for (size_t k = 0; k < 64; k += 16) {
      const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b + i + k));
      _mm_stream_si128(reinterpret_cast<__m128i*>(o + i + k), v);
    }
  }
  std::memcpy(o + i, b + i, bytes - i);
#else
  std::memcpy(out, block, bytes);
#endif
}

inline void StreamEnd() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace qnnrt
