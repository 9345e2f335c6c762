// The process-wide pool that kernels share. No allocation, no lock held while a task runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace qnnrt {

// A non-owning reference to a callable; unlike std::function it allocates nothing.
template <typename Signature>
class FunctionRef;
template <typename R, typename... Args>
class FunctionRef<R(Args...)> {
 public:
  template <typename F, typename = std::enable_if_t<!std::is_same_v<std::decay_t<F>, FunctionRef>>>
  FunctionRef(F&& f)  // NOLINT(runtime/explicit)
      : object_(const_cast<void*>(static_cast<const void*>(&f))),
        call_([](void* o, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(o))(static_cast<Args>(args)...);
        }) {}
  R operator()(Args... args) const { return call_(object_, args...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

// How many threads one graph may use. Cheap to copy; the workers belong to the process.
class Threads {
 public:
  explicit Threads(int limit = 1) : limit_(limit < 1 ? 1 : limit) {}
  int limit() const { return limit_; }
  // body(begin, end) over [0, count) in pieces of at least `grain`; on the caller's thread alone
  // when one piece is enough. Nested calls and calls while the pool is busy run serially.
  void For(size_t count, size_t grain, FunctionRef<void(size_t, size_t)> body) const;
  // The default for a graph: the cores that this process may use.
  static int DefaultLimit();

 private:
  int limit_;
};

}  // namespace qnnrt
