#include "support/threads.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <new>

#include "support/clock.h"

namespace qnnrt {
namespace {

constexpr int kMaxWorkers = 255;
// How long a thread polls before it sleeps. Long enough to bridge two ops of one graph, short
// enough that a loaded machine does not lose a core to waiting.
constexpr uint64_t kSpinNanoseconds = 20 * 1000;
// Pieces for each thread when the work allows, so that one late thread does not delay all.
constexpr size_t kPiecesPerThread = 4;

using Word = std::atomic<uint32_t>;
static_assert(sizeof(Word) == sizeof(uint32_t) && Word::is_always_lock_free);

void FutexWait(Word* word, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT_PRIVATE, expected, nullptr,
          nullptr, 0);
}

void FutexWake(Word* word, int count) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE_PRIVATE, count, nullptr, nullptr,
          0);
}

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// True as soon as ready() is; false when the spin time is over.
template <typename Ready>
bool SpinUntil(const Ready& ready) {
  for (uint64_t end = 0;;) {
    for (int i = 0; i < 64; ++i) {
      if (ready()) return true;
      Pause();
    }
    const uint64_t now = MonotonicNanoseconds();
    if (end == 0) end = now + kSpinNanoseconds;
    if (now >= end) return false;
  }
}

// One job at a time. The poster writes the job, opens it by making `tickets_` positive, works along
// with those who took a ticket, closes it by taking the tickets left back, and waits for the
// takers. So whoever gets a ticket finds a job that stays until it has reported back, and whoever
// wakes too late finds none and sleeps again: the poster never waits for a thread to wake up.
class Pool {
 public:
  // Null when there is no memory for it.
  static Pool* Get() {
    Pool* pool = instance_.load(std::memory_order_acquire);
    if (pool != nullptr) return pool;
    static const int once = pthread_atfork(nullptr, nullptr, [] {
      // The workers stayed in the parent, and its pool may be in any state: it is leaked.
      instance_.store(nullptr, std::memory_order_release);
    });
    (void)once;
    Pool* fresh = new (std::nothrow) Pool;
    if (fresh == nullptr) return nullptr;
    if (instance_.compare_exchange_strong(pool, fresh, std::memory_order_acq_rel)) return fresh;
    delete fresh;  // another thread was first; no worker was started yet
    return pool;
  }

  // False when the pool is at work for someone else (or for an outer call of this very thread).
  bool TryFor(size_t count, size_t pieces, int helpers, FunctionRef<void(size_t, size_t)> body) {
    if (busy_.exchange(true, std::memory_order_acquire)) return false;
    helpers = std::min(helpers, StartWorkers(helpers));
    count_ = count;
    pieces_ = pieces;
    body_ = &body;
    next_.store(0, std::memory_order_relaxed);
    done_.store(0, std::memory_order_relaxed);
    tickets_.store(helpers, std::memory_order_release);
    epoch_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0) FutexWake(&epoch_, helpers);
    Work();
    const int left = tickets_.exchange(0, std::memory_order_acq_rel);
    WaitForTakers(static_cast<uint32_t>(helpers - left));
    busy_.store(false, std::memory_order_release);
    return true;
  }

 private:
  Pool() = default;

  void Work() {
    const FunctionRef<void(size_t, size_t)>& body = *body_;
    const size_t count = count_, pieces = pieces_;
    const size_t size = count / pieces, larger = count % pieces;  // the first ones take one more
    for (;;) {
      const size_t i = next_.fetch_add(1, std::memory_order_relaxed);
      if (i >= pieces) return;
      const size_t begin = i * size + std::min(i, larger);
      body(begin, begin + size + (i < larger ? 1 : 0));
    }
  }

  void WaitForTakers(uint32_t takers) {
    const auto finished = [&] { return done_.load(std::memory_order_acquire) == takers; };
    if (SpinUntil(finished)) return;
    poster_sleeps_.store(1, std::memory_order_seq_cst);
    for (uint32_t done; (done = done_.load(std::memory_order_seq_cst)) != takers;) {
      FutexWait(&done_, done);
    }
    poster_sleeps_.store(0, std::memory_order_relaxed);
  }

  bool TakeTicket() {
    int tickets = tickets_.load(std::memory_order_relaxed);
    while (tickets > 0) {
      if (tickets_.compare_exchange_weak(tickets, tickets - 1, std::memory_order_acquire,
                                         std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  void WorkerLoop() {
    for (;;) {
      const uint32_t seen = epoch_.load(std::memory_order_acquire);
      if (TakeTicket()) {
        Work();
        done_.fetch_add(1, std::memory_order_seq_cst);
        if (poster_sleeps_.load(std::memory_order_seq_cst) != 0) FutexWake(&done_, 1);
        continue;
      }
      const auto posted = [&] { return epoch_.load(std::memory_order_acquire) != seen; };
      if (SpinUntil(posted)) continue;
      sleepers_.fetch_add(1, std::memory_order_seq_cst);
      FutexWait(&epoch_, seen);  // returns at once when a job came meanwhile
      sleepers_.fetch_sub(1, std::memory_order_relaxed);
    }
  }

  // How many workers there are, after starting those that `wanted` still lacks. Called by the owner
  // of `busy_` only.
  int StartWorkers(int wanted) {
    wanted = std::min(wanted, kMaxWorkers);
    while (workers_ < wanted && !refused_) {
      pthread_attr_t attributes;
      pthread_attr_init(&attributes);
      pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
      // A client's signal handler must not find itself on a thread that it does not know.
      sigset_t all, before;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
      pthread_t thread;
      const int error = pthread_create(
          &thread, &attributes,
          [](void* pool) -> void* {
            static_cast<Pool*>(pool)->WorkerLoop();
            return nullptr;
          },
          this);
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      pthread_attr_destroy(&attributes);
      if (error != 0) {
        refused_ = true;  // no more threads available: use those that exist
      } else {
        ++workers_;
      }
    }
    return workers_;
  }

  static std::atomic<Pool*> instance_;

  std::atomic<bool> busy_{false};
  int workers_ = 0;
  bool refused_ = false;

  const FunctionRef<void(size_t, size_t)>* body_ = nullptr;
  size_t count_ = 0, pieces_ = 0;

  alignas(64) std::atomic<int> tickets_{0};
  Word epoch_{0};
  Word sleepers_{0};
  alignas(64) std::atomic<size_t> next_{0};
  alignas(64) Word done_{0};
  Word poster_sleeps_{0};
};

std::atomic<Pool*> Pool::instance_{nullptr};

}  // namespace

void Threads::For(size_t count, size_t grain, FunctionRef<void(size_t, size_t)> body) const {
  if (count == 0) return;
  if (grain == 0) grain = 1;
  const size_t most = count / grain;  // pieces that all hold `grain` or more
  if (limit_ > 1 && most > 1) {
    const size_t threads = std::min<size_t>(static_cast<size_t>(limit_), most);
    const size_t pieces = std::min(most, threads * kPiecesPerThread);
    Pool* pool = Pool::Get();
    if (pool != nullptr && pool->TryFor(count, pieces, static_cast<int>(threads - 1), body)) return;
  }
  body(0, count);
}

int Threads::DefaultLimit() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  // More CPUs than the fixed set holds.
  return static_cast<int>(std::clamp<long>(sysconf(_SC_NPROCESSORS_ONLN), 1, kMaxWorkers + 1));
}

}  // namespace qnnrt
