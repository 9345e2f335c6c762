#include "support/allocations.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace qnnrt {
namespace {
std::atomic<uint64_t> g_count{0};
std::atomic<int64_t> g_fail_in{0};
std::atomic<bool> g_fail_on{false};
}  // namespace

bool CountAllocation() {
  g_count.fetch_add(1, std::memory_order_relaxed);
  const int64_t left = g_fail_in.load(std::memory_order_relaxed);
  if (left <= 0) return true;
  if (left == 1 && g_fail_on.load(std::memory_order_relaxed)) return false;
  return g_fail_in.fetch_sub(1, std::memory_order_relaxed) != 1;
}
uint64_t AllocationCount() { return g_count.load(std::memory_order_relaxed); }
void FailAllocation(int64_t n, bool and_all_after) {
  g_fail_on.store(and_all_after, std::memory_order_relaxed);
  g_fail_in.store(n < 0 ? 0 : n, std::memory_order_relaxed);
}

}  // namespace qnnrt

// The exports map keeps these local to the library: they serve it alone and the application never
// sees them. The memory comes from the process's own operator new, whatever the application or a
// sanitizer put there, since code outside this library may be what frees it.
namespace {
template <typename Function>
Function Next(const char* symbol, Function self, Function fallback) {
  auto found = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, symbol));
  // Linked into a program instead of a library: its own operator new is this one.
  if (found == self) found = reinterpret_cast<Function>(dlsym(RTLD_NEXT, symbol));
  // The C++ library may be linked statically into this one: then nobody exports operator new, and
  // operator delete is free().
  return found != nullptr ? found : fallback;
}

void* Checked(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
}  // namespace

void* operator new(std::size_t size) {
  using Function = void* (*)(std::size_t);
  static const Function next = Next<Function>(
      "_Znwm", &operator new, [](std::size_t n) { return Checked(std::malloc(n != 0 ? n : 1)); });
  if (!qnnrt::CountAllocation()) throw std::bad_alloc();
  return next(size);
}

void* operator new(std::size_t size, std::align_val_t alignment) {
  using Function = void* (*)(std::size_t, std::align_val_t);
  static const Function next =
      Next<Function>("_ZnwmSt11align_val_t", &operator new, [](std::size_t n, std::align_val_t to) {
        const auto align = static_cast<std::size_t>(to);
        return Checked(std::aligned_alloc(align, (n + align - 1) / align * align));
      });
  if (!qnnrt::CountAllocation()) throw std::bad_alloc();
  return next(size, alignment);
}

void* operator new(std::size_t size, const std::nothrow_t& tag) noexcept {
  using Function = void* (*)(std::size_t, const std::nothrow_t&);
  static const Function next = Next<Function>(
      "_ZnwmRKSt9nothrow_t", &operator new,
      [](std::size_t n, const std::nothrow_t&) { return std::malloc(n != 0 ? n : 1); });
  return qnnrt::CountAllocation() ? next(size, tag) : nullptr;
}
