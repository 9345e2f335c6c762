#include "ops/matmul/nbits_loops.h"

#include "ops/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#include <immintrin.h>
#endif

// Loops over the rows of a tile: what they index stays in registers.
#if defined(__clang__)
#define QNNRT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define QNNRT_UNROLL _Pragma("GCC unroll 8")
#endif

namespace qnnrt {

// QNNRT_ISA=avx512 leaves it out, as all that came after that set.
bool CpuHasVnni() {
#if defined(__x86_64__)
  return std::getenv("QNNRT_ISA") == nullptr && __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

bool CpuReadsInOrder() {
#if defined(__x86_64__)
  static const bool reads = [] {  // by the family: not every compiler knows Zen 5 by its name
    unsigned a = 0, b = 0, c = 0, d = 0;
    __builtin_cpu_init();
    return __builtin_cpu_is("amd") != 0 && __get_cpuid(1, &a, &b, &c, &d) != 0 &&
           (a >> 8 & 15) + (a >> 20 & 255) >= 0x1a;
  }();
  return reads;
#else
  return false;
#endif
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define QNNRT_NBITS_LEVELS 1

// Products of bytes with matrices of bits. Processors of 2019 with AVX512-VNNI have none.
static bool CpuHasGfni() {
  static const bool has = __builtin_cpu_supports("gfni") != 0;
  return has;
}

#pragma GCC push_options
#pragma GCC target( \
    "avx512f,avx512vl,avx512bw,avx512dq,avx512vnni,avx2,fma,bmi2,prefer-vector-width=512")
#define QNNRT_AVX512 1
#define QNNRT_VNNI 1
namespace nbits_vnni {
constexpr size_t kWidth = 16;
#include "ops/matmul/nbits_loops.inc"
}  // namespace nbits_vnni
#undef QNNRT_VNNI
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,bmi2,prefer-vector-width=512")
namespace nbits_avx512 {
constexpr size_t kWidth = 16;
#include "ops/matmul/nbits_loops.inc"
}  // namespace nbits_avx512
#undef QNNRT_AVX512
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx2,fma,bmi2")
namespace nbits_avx2 {
constexpr size_t kWidth = 8;
#include "ops/matmul/nbits_loops.inc"
}  // namespace nbits_avx2
#pragma GCC pop_options
#endif

// SSE2 and NEON.
namespace nbits_baseline {
constexpr size_t kWidth = 4;
#include "ops/matmul/nbits_loops.inc"
}  // namespace nbits_baseline

namespace {

// Digits matter where x is integers: with the fewest that will do.
template <int kBits>
const NBitsLoops& Choose([[maybe_unused]] int digits) {
#ifdef QNNRT_NBITS_LEVELS
  switch (CpuIsa()) {
    case Isa::kAvx512:
      if (!CpuHasVnni()) return nbits_avx512::kLoops<kBits, 3>;
      if (digits == 1) return nbits_vnni::kLoops<kBits, 1>;
      return digits == 2 ? nbits_vnni::kLoops<kBits, 2> : nbits_vnni::kLoops<kBits, 3>;
    case Isa::kAvx2:
      return nbits_avx2::kLoops<kBits, 3>;
    case Isa::kBase:
      break;
  }
#endif
  return nbits_baseline::kLoops<kBits, 3>;
}

}  // namespace

const NBitsLoops& NBitsFor(int bits, int digits) {
  return bits == 4 ? Choose<4>(digits) : Choose<8>(digits);
}

}  // namespace qnnrt
