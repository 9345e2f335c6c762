#include "support/cores.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>

#include "support/threads.h"

namespace qnnrt {
namespace {

// For so long the machine counts as loaded then, and the longest where each try found it to be.
// What runs for a moment, as some service does a few times a second everywhere, must not cost many
// times what it took itself.
constexpr uint64_t kLoaded = 4 * 1000 * 1000, kLongLoaded = 400 * 1000 * 1000;
// A try failed when load is seen again so soon after it, or within half of the time before it: on a
// core that it shares a thread may first run for some of the system's time slices.
constexpr uint64_t kSoon = 20 * 1000 * 1000;
// A worker that wakes twice within this time where the owner of its job runs finds no other core.
constexpr uint64_t kChance = 5 * 1000 * 1000;

std::atomic<uint64_t> g_loaded_until{0};
std::atomic<uint64_t> g_loaded_for{kLoaded};
std::atomic<int> g_cores_lost{0};

// Since when this thread has not slept of its own accord: by the clock, and by what it had computed
// then. Looked up anew now and then, for the sum of moments not to become large.
struct Awake {
  uint64_t since = 0, computed = 0;
};
constexpr uint64_t kAwake = 5 * 1000 * 1000;
QNNRT_OWN_THREAD Awake tl_awake;

uint64_t ComputedNanoseconds() {
  timespec t;
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0) return 0;
  return static_cast<uint64_t>(t.tv_sec) * 1000 * 1000 * 1000 + static_cast<uint64_t>(t.tv_nsec);
}

}  // namespace

void LoadSeen(uint64_t now) {
  const uint64_t until = g_loaded_until.load(std::memory_order_relaxed);
  uint64_t length = g_loaded_for.load(std::memory_order_relaxed);
  if (now >= until) {
    length =
        now - until < std::max(kSoon, length / 2) ? std::min(2 * length, kLongLoaded) : kLoaded;
    g_loaded_for.store(length, std::memory_order_relaxed);
  }
  g_loaded_until.store(now + length, std::memory_order_relaxed);
  const int lost = g_cores_lost.load(std::memory_order_relaxed);
  g_cores_lost.store(std::min(lost + 1, kMaxWorkers), std::memory_order_relaxed);
}

bool Loaded(uint64_t now) { return now < g_loaded_until.load(std::memory_order_relaxed); }

// Once nothing was seen for long enough, half of them are tried again.
int CoresLost() {
  const int lost = g_cores_lost.load(std::memory_order_relaxed);
  if (lost == 0) return 0;
  const uint64_t now = MonotonicNanoseconds();
  if (Loaded(now)) return lost;
  g_cores_lost.store(lost / 2, std::memory_order_relaxed);
  if (lost / 2 != 0) {
    const uint64_t length = g_loaded_for.load(std::memory_order_relaxed);
    g_loaded_until.store(now + length, std::memory_order_relaxed);
  }
  return lost / 2;
}

void OwnersCoreSeen() {
  static std::atomic<uint64_t> before{0};
  const uint64_t now = MonotonicNanoseconds();
  if (now - before.exchange(now, std::memory_order_relaxed) < kChance) LoadSeen(now);
}

void Slept() { tl_awake = {MonotonicNanoseconds(), ComputedNanoseconds()}; }
void MayHaveSlept() { tl_awake = {}; }
void BeAwake() {
  if (MonotonicNanoseconds() - tl_awake.since > kAwake) Slept();
}

void HeldUp(uint64_t since) {
  const uint64_t now = MonotonicNanoseconds();
  if (now - since < kPreempted) return;
  const uint64_t computed = ComputedNanoseconds() - tl_awake.computed;
  if (now - tl_awake.since > computed + kPreempted) LoadSeen(now);
}

bool Placement::Avoid(int core) {
  if (core == avoided_) return core >= 0;
  cpu_set_t left;
  if (core >= CPU_SETSIZE || sched_getaffinity(0, sizeof left, &left) != 0) return false;
  // With the core that it left before, unless someone else has said since where it may run.
  if (avoided_ >= 0 && CPU_EQUAL(&left, &left_)) CPU_SET(static_cast<size_t>(avoided_), &left);
  if (core >= 0) CPU_CLR(static_cast<size_t>(core), &left);
  const uint64_t before = MonotonicNanoseconds();
  if (CPU_COUNT(&left) == 0 || sched_setaffinity(0, sizeof left, &left) != 0) return false;
  avoided_ = core;
  left_ = left;
  const uint64_t now = MonotonicNanoseconds();
  if (core >= 0 && now - before > kPreempted) LoadSeen(now);  // others have that one
  return core >= 0;
}

}  // namespace qnnrt
