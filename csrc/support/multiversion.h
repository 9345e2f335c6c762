// Compiling a hot loop for several x86-64 levels in one build, chosen at load time.
//
// QNNRT_MULTIVERSION before a function definition clones it for AVX-512 and AVX2 with FMA. What it
// calls is cloned only where it is inlined. Use it on the loop, not on the driver around it.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define QNNRT_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(undefined_behavior_sanitizer)
#define QNNRT_SANITIZED 1
#endif
#endif

// target_clones resolves through an ifunc, which runs before a sanitizer's runtime is ready.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && \
    __GNUC__ >= 12 && !defined(QNNRT_SANITIZED)
#define QNNRT_MULTIVERSION \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define QNNRT_MULTIVERSION
#endif
