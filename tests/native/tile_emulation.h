// Matrix tiles in plain C++, for the kernels that are written for them (csrc/ops/tiles.cc), where
// the processor has none.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace emulated {

struct Tile {
  uint8_t row[16][64];
};
inline thread_local Tile tiles[8];

inline void Load(int t, const void* from, size_t stride) {
  for (size_t r = 0; r < 16; ++r)
    std::memcpy(tiles[t].row[r], static_cast<const char*>(from) + r * stride, 64);
}
inline void Store(int t, void* to, size_t stride) {
  for (size_t r = 0; r < 16; ++r)
    std::memcpy(static_cast<char*>(to) + r * stride, tiles[t].row[r], 64);
}

inline float Wide(uint16_t x) {
  const uint32_t bits = uint32_t{x} << 16;
  float wide;
  std::memcpy(&wide, &bits, sizeof(wide));
  return wide;
}

inline void Multiply(int to, int a, int b) {
  for (size_t m = 0; m < 16; ++m) {
    float sum[16];
    std::memcpy(sum, tiles[to].row[m], sizeof(sum));
    for (size_t k = 0; k < 16; ++k) {
      uint16_t x[2], y[32];
      std::memcpy(x, tiles[a].row[m] + 4 * k, sizeof(x));
      std::memcpy(y, tiles[b].row[k], sizeof(y));
      for (size_t n = 0; n < 16; ++n)
        sum[n] += Wide(x[0]) * Wide(y[2 * n]) + Wide(x[1]) * Wide(y[2 * n + 1]);
    }
    std::memcpy(tiles[to].row[m], sum, sizeof(sum));
  }
}

}  // namespace emulated

#undef _tile_zero
#undef _tile_loadd
#undef _tile_stream_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#undef _tile_loadconfig
#undef _tile_release
#define _tile_zero(t) (emulated::tiles[t] = {})
#define _tile_loadd(t, from, stride) emulated::Load(t, from, stride)
#define _tile_stream_loadd(t, from, stride) emulated::Load(t, from, stride)
#define _tile_stored(t, to, stride) emulated::Store(t, to, stride)
#define _tile_dpbf16ps(to, a, b) emulated::Multiply(to, a, b)
#define _tile_loadconfig(config) static_cast<void>(config)
#define _tile_release() static_cast<void>(0)
