#include "ops/simd.h"

#include <algorithm>

#include "ops/isa.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#include <immintrin.h>
#endif

namespace qnnrt {

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define QNNRT_X86_LEVELS 1

#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,avx2,f16c,fma,bmi2,prefer-vector-width=512")
namespace avx512 {
constexpr size_t kWidth = 16;
constexpr const char* kName = "avx512";
#define QNNRT_TILE_ROWS 12
#include "ops/simd_kernels.inc"
#undef QNNRT_TILE_ROWS
}  // namespace avx512
#pragma GCC pop_options

// With instructions that round to BFLOAT_16; they take what is below 2^-126 for zero.
#pragma GCC push_options
#pragma GCC target( \
    "avx512f,avx512vl,avx512bw,avx512dq,avx512bf16,avx2,f16c,fma,bmi2,prefer-vector-width=512")
namespace avx512_bf16 {
constexpr size_t kWidth = 16;
constexpr const char* kName = "avx512";
#define QNNRT_TILE_ROWS 12
#define QNNRT_ROUNDS_BRAINS 1
#include "ops/simd_kernels.inc"
#undef QNNRT_ROUNDS_BRAINS
#undef QNNRT_TILE_ROWS
}  // namespace avx512_bf16
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx2,f16c,fma,bmi2")
namespace avx2 {
constexpr size_t kWidth = 8;
constexpr const char* kName = "avx2";
#define QNNRT_TILE_ROWS 6
#include "ops/simd_kernels.inc"
#undef QNNRT_TILE_ROWS
}  // namespace avx2
#pragma GCC pop_options
#endif

// SSE2 and NEON both hold four floats and at least sixteen registers.
namespace baseline {
constexpr size_t kWidth = 4;
constexpr const char* kName = "baseline";
#define QNNRT_TILE_ROWS 6
#include "ops/simd_kernels.inc"
#undef QNNRT_TILE_ROWS
}  // namespace baseline

const SimdKernels& Simd() {
  static const SimdKernels& chosen = []() -> const SimdKernels& {
#ifdef QNNRT_X86_LEVELS
    switch (CpuIsa()) {
      case Isa::kAvx512:
        return CpuRoundsBrains() ? avx512_bf16::kKernels : avx512::kKernels;
      case Isa::kAvx2:
        return avx2::kKernels;
      case Isa::kBase:
        break;
    }
#endif
    return baseline::kKernels;
  }();
  return chosen;
}

size_t GroupWidth() { return Simd().columns / 2; }

bool TakesGroups(size_t channels, size_t group) {
  const size_t width = GroupWidth();
  if (group < 2 || channels < width || channels % group != 0) return false;
  return group < width ? width % group == 0 && group <= 8 : group % width == 0;
}

size_t GroupsFloats(size_t rows, size_t channels) {
  const size_t width = GroupWidth();
  return (channels + width - 1) / width * rows * width;
}

void PackGroups(const float* weights, size_t rows, size_t channels, float* packed) {
  const size_t width = GroupWidth();
  for (size_t c = 0; c < channels; c += width) {
    const size_t first = std::min(c, channels - width);
    for (size_t row = 0; row < rows; ++row)
      packed = std::copy_n(weights + row * channels + first, width, packed);
  }
}

}  // namespace qnnrt
