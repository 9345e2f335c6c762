// The process-wide pool that kernels share. No allocation, no lock held while a task runs.
#pragma once

#include <atomic>
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

// For what a thread has of its own, small and without a destructor: lies beside the C library's, so
// it is there without an allocation that can fail.
#define QNNRT_OWN_THREAD __attribute__((tls_model("initial-exec"))) thread_local

// Work that is offered to the pool: parts of it, each run once, by its owner and by workers that
// have joined. Lies with its owner from Open to Close.
//
// Its parts are cut into shares of neighbours. The owner begins with the first, each worker with
// one of its own, the same in every job, and goes on with the others' when that is done. So a core
// finds in its caches what it wrote in the job before, where jobs go over the same rows.
struct Job {
  static constexpr size_t kMaxShares = 16;

  // The part that nobody has yet; true: there is one.
  bool Take(size_t share, size_t* part) {
    const size_t end = End(share);
    if (next[share].part.load(std::memory_order_relaxed) >= end) return false;
    *part = next[share].part.fetch_add(1, std::memory_order_relaxed);
    return *part < end;
  }
  bool Taken() const;
  size_t End(size_t share) const { return (share + 1) * parts / shares; }
  // Of so many parts, by so many threads.
  void Cut(size_t count, size_t threads);

  void (*run)(void* context, size_t part) = nullptr;
  void* context = nullptr;
  size_t parts = 0, shares = 0;
  // Of the pool, under its lock: how many workers may still join, and the next younger job.
  int places = 0;
  int kept_back = 0;  // further places, for when a member waits for others
  Job* younger = nullptr;
  int invited = 0;                // of both kinds
  int core = -1;                  // on which it was opened
  uint64_t number = 0;            // no two jobs of a pool have the same
  uint64_t asleep_since = 0;      // with kOwnerSleeps: when its owner fell asleep
  std::atomic<uint32_t> left{0};  // workers that are done with it; kOwnerSleeps
  struct alignas(64) Next {
    std::atomic<size_t> part;
  };
  Next next[kMaxShares];  // of each share
};

// How a loop runs that keeps to its thread.
struct Alone {
  bool small = false;      // it does where no core is left: it is over before a worker could come
  bool backwards = false;  // the last piece first
};

// How many threads one graph may use. Cheap to copy; the workers belong to the process.
class Threads {
 public:
  explicit Threads(int limit = 1) : limit_(limit < 1 ? 1 : limit) {}
  int limit() const { return limit_; }
  // body(begin, end) over [0, count) in pieces of at least `grain`; on the caller's thread alone
  // when one piece is enough. Nested calls run serially.
  void For(size_t count, size_t grain, FunctionRef<void(size_t, size_t)> body,
           Alone if_alone = {}) const;
  // The default for a graph: the cores that this process may use.
  static int DefaultLimit();

 private:
  int limit_;
};

// A graph is being executed: its thread has a core, whether it has work for others or not. While
// several are, workers only take the cores that are left.
class Executing {
 public:
  Executing();
  ~Executing();
  Executing(const Executing&) = delete;
  Executing& operator=(const Executing&) = delete;
};

// The members of a team run the same function, each with a number of its own, and may wait for each
// other in it: an OpenMP parallel region. Member 0 is the thread that opens it. A thread that has
// run one member takes the next that nobody has, so no one waits for a worker that wakes late.
class Team {
 public:
  // True when `members` threads can run at the same time; starts the workers that are missing.
  static bool Reserve(int members);

  Team() = default;
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // The caller runs member 0 between the two. In a member of a team: a team of one.
  void Open(int members, void (*run)(void*), void* context);
  void Close();

  // Returns when each member has called it as often as this one. Only for a member.
  void Wait();

  // What the calling thread is a member of; null: of none. Its number there.
  static Team* Current();
  static int Member();
  int members() const { return members_; }

 private:
  static void RunPart(void* team, size_t part);

  Job job_;
  void (*run_)(void*) = nullptr;
  void* context_ = nullptr;
  int members_ = 1;
  bool opened_ = false;
  Team* outer_ = nullptr;
  int outer_member_ = 0;
  std::atomic<uint32_t> waiting_{0};
  std::atomic<uint32_t> rounds_{0};
  std::atomic<uint64_t> asleep_since_{0};  // a member that waits
};

}  // namespace qnnrt
