// One loop, compiled for several instruction sets of the same architecture. The caller writes
//   struct Loop { static QNNRT_INLINE void Run(...) { plain loop that the compiler vectorizes } };
// and takes PickIsa<Loop>(), a function pointer for the best set that this CPU has. Choose it when
// the kernel is made, not when it runs. (simd.h has the loops that several families share, and
// those that need registers laid out by hand; both follow CpuIsa.)
#pragma once

#include <cstdlib>
#include <cstring>

#include "support/cpu.h"

#define QNNRT_INLINE __attribute__((always_inline)) inline

// Iterations do not depend on each other, although pointers may be equal (in place).
#if defined(__clang__)
#define QNNRT_SIMD _Pragma("clang loop vectorize(assume_safety)")
#else
#define QNNRT_SIMD _Pragma("GCC ivdep")
#endif

// As QNNRT_SIMD, for a loop that reduces, too: QNNRT_SIMD_REDUCE(reduction(+ : sum)). Vectors of
// partial results stay in registers, which those of an array of them do not (0.07 and 0.5 ns an
// element of a maximum with AVX2); how many there are depends on the instruction set, and so does
// the last bit of a sum.
#define QNNRT_SIMD_REDUCE(...) QNNRT_PRAGMA(omp simd __VA_ARGS__)
#define QNNRT_PRAGMA(...) _Pragma(#__VA_ARGS__)

namespace qnnrt {

enum class Isa { kBase, kAvx2, kAvx512 };

// QNNRT_ISA=avx2 or base in the environment steps down, for tests and for measuring; avx512 leaves
// out what came after it.
inline Isa CpuIsa() {
#if defined(__x86_64__)
  static const Isa isa = [] {
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("bmi2") && CpuHasF16c();
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512cd");
    const char* wish = std::getenv("QNNRT_ISA");
    if (!avx2 || (wish != nullptr && std::strcmp(wish, "base") == 0)) return Isa::kBase;
    if (!avx512 || (wish != nullptr && std::strcmp(wish, "avx2") == 0)) return Isa::kAvx2;
    return Isa::kAvx512;
  }();
  return isa;
#else
  return Isa::kBase;
#endif
}

// For what two makers' processors with the same instructions do at other speeds.
inline bool CpuIsIntel() {
#if defined(__x86_64__)
  static const bool intel = (__builtin_cpu_init(), __builtin_cpu_is("intel") != 0);
  return intel;
#else
  return false;
#endif
}

// Whether a loop that reads some streams side by side fetches what comes next by itself: on AMD's
// (Zen 5, rows of 16 bits from memory) that takes 1.1 to 1.3 times as long as to leave it to them.
inline bool FetchesStreams() { return CpuIsIntel(); }

// Whether the processor rounds to BFLOAT_16 (AVX512-BF16), with no set of instructions asked for.
// Runs ask, and a virtual machine's host answers CPUID, which takes some 20 microseconds: once.
inline bool CpuRoundsBrains() {
#if defined(__x86_64__)
  static const bool rounds =
      CpuIsa() == Isa::kAvx512 && std::getenv("QNNRT_ISA") == nullptr && CpuHasAvx512Bf16();
  return rounds;
#else
  return false;
#endif
}

namespace internal {
template <typename Loop, typename R, typename... Args>
struct IsaVersions {
  using Fn = R (*)(Args...);
  static R Base(Args... args) { return Loop::Run(args...); }
#if defined(__x86_64__)
  __attribute__((target("avx2,fma,bmi,bmi2,f16c"))) static R Avx2(Args... args) {
    return Loop::Run(args...);
  }
  __attribute__((
      target("avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,bmi,bmi2,f16c"))) static R
  Avx512(Args... args) {
    return Loop::Run(args...);
  }
  static Fn Pick() {
    switch (CpuIsa()) {
      case Isa::kAvx512:
        return Avx512;
      case Isa::kAvx2:
        return Avx2;
      default:
        return Base;
    }
  }
#else
  static Fn Pick() { return Base; }
#endif
};
template <typename Loop, typename R, typename... Args>
IsaVersions<Loop, R, Args...> IsaVersionsOf(R (*)(Args...));
}  // namespace internal

template <typename Loop>
auto PickIsa() {
  return decltype(internal::IsaVersionsOf<Loop>(&Loop::Run))::Pick();
}

}  // namespace qnnrt
