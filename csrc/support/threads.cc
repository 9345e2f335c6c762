#include "support/threads.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <new>
#include <utility>

#include "support/clock.h"
#include "support/cores.h"
#include "support/next_reads.h"
#include "support/pause.h"

namespace qnnrt {
namespace {

// A loop of so few pieces, of some 20 us each, is small: it is not even offered on a loaded
// machine, or where each core has a graph of its own.
constexpr size_t kFewPieces = 4;
// For so long a job does without workers for which no core is left. All in nanoseconds.
constexpr uint64_t kPatience = 1000 * 1000;
// So often a worker looks for such a job after the last one.
constexpr int kEmptyLooks = 32;
// Pieces for each thread when the work allows, so that one late thread does not delay all.
constexpr size_t kPiecesPerThread = 4;

using Word = std::atomic<uint32_t>;
static_assert(sizeof(Word) == sizeof(uint32_t) && Word::is_always_lock_free);

// Without a limit when there is none; false where it is over.
bool FutexWait(Word* word, uint32_t expected, const timespec* limit = nullptr) {
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT_PRIVATE, expected, limit,
                 nullptr, 0) == 0 ||
         errno != ETIMEDOUT;
}

void FutexWake(Word* word, int count) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE_PRIVATE, count, nullptr, nullptr,
          0);
}

// Held for a few instructions at a time, by threads that are about to do far more.
class SpinLock {
 public:
  void Lock() {
    for (int turns = 0; locked_.exchange(true, std::memory_order_acquire);) {
      while (locked_.load(std::memory_order_relaxed)) {
        if (++turns % 256 == 0) sched_yield();  // its owner may have lost its core
        Pause();
      }
    }
  }
  void Unlock() { locked_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> locked_{false};
};

// In Job::left, beside the number: its owner is asleep.
constexpr uint32_t kOwnerSleeps = 1u << 31;

// What this thread is at work on: for a job, whoever's, or as a member of a team.
QNNRT_OWN_THREAD bool tl_working = false;
QNNRT_OWN_THREAD Team* tl_team = nullptr;
QNNRT_OWN_THREAD int tl_member = 0;
QNNRT_OWN_THREAD const Reader* tl_next = nullptr;  // behind this thread's loops
QNNRT_OWN_THREAD uint64_t tl_aside = 0;            // when this worker left an owner's core

// How many graphs are being executed. Threads count in cells of their own, as far as there are so
// many: one number for all would go from core to core with every execution.
class ExecutingCount {
 public:
  void Add(int n) { Own().fetch_add(n, std::memory_order_relaxed); }
  int Get() const {
    int sum = 0;
    for (const Cell& cell : cells_) sum += cell.count.load(std::memory_order_relaxed);
    return sum;
  }
  void Clear() {
    for (Cell& cell : cells_) cell.count.store(0, std::memory_order_relaxed);
  }

 private:
  static constexpr uint32_t kCells = 16;
  struct alignas(64) Cell {
    std::atomic<int> count{0};
  };
  std::atomic<int>& Own() {
    static QNNRT_OWN_THREAD uint32_t tl_number = 0;  // from 1 on
    if (tl_number == 0) tl_number = 1 + threads_.fetch_add(1, std::memory_order_relaxed) % kCells;
    return cells_[tl_number - 1].count;
  }
  Cell cells_[kCells];
  std::atomic<uint32_t> threads_{0};
};
ExecutingCount g_executing;

// How a loop is cut.
struct Pieces {
  FunctionRef<void(size_t, size_t)>* body;
  size_t size, larger;  // the first ones take one more
  const Reader* next;   // behind the loop; null: not known
  static void Run(void* context, size_t part) {
    const Pieces& p = *static_cast<Pieces*>(context);
    const size_t begin = part * p.size + std::min(part, p.larger);
    (*p.body)(begin, begin + p.size + (part < p.larger ? 1 : 0));
  }
};

// Fetches what is read next into this core's second cache, some of each place in turn.
class Fetching {
 public:
  // What comes behind this thread's share of a job, whose owner waits for it.
  void Begin(const Job& job, size_t share) {
    reads_.count = 0;
    place_ = done_ = 0;
    if (job.run == Pieces::Run) {
      if (const Reader* next = static_cast<const Pieces*>(job.context)->next; next != nullptr)
        next->FirstReads(share, job.shares, &reads_);
    }
    left_ = reads_.count == 0 ? 0 : kMost;
  }

  bool done() const { return left_ == 0; }
  // Some lines more.
  void GoOn() {
    const NextReads::Place& place = reads_.places[place_];
    if (done_ < place.bytes) {
      const size_t end = std::min(place.bytes, done_ + kPiece);
      for (size_t i = done_; i < end; i += kLine) __builtin_prefetch(place.data + i, 0, 2);
      left_ -= std::min(left_, end - done_);
      any_ = true;
    }
    if (++place_ < reads_.count) return;
    place_ = 0;
    done_ += kPiece;
    if (!std::exchange(any_, false)) left_ = 0;
  }

 private:
  static constexpr size_t kLine = 64, kPiece = 512;
  static constexpr size_t kMost = size_t{256} << 10;  // bytes, of those that the cache holds

  NextReads reads_;
  size_t left_ = 0, place_ = 0, done_ = 0;
  bool any_ = false;
};

// Jobs in the order in which workers were admitted to them. A worker joins the oldest that has
// places, so the members of the oldest team that lacks some are never kept by a younger one: teams
// that wait within themselves cannot lock each other out.
//
// An owner opens its job, works along, closes it, and waits for the workers that have joined: never
// for one to wake up. Whoever wakes too late finds no job and sleeps again.
class Pool {
 public:
  // Null when there is no memory for it.
  static Pool* Get() {
    Pool* pool = instance_.load(std::memory_order_acquire);
    if (pool != nullptr) return pool;
    static const int once = pthread_atfork(nullptr, nullptr, [] {
      // The workers stayed in the parent, and its pool may be in any state: it is leaked. So did
      // the threads that executed.
      instance_.store(nullptr, std::memory_order_release);
      g_executing.Clear();
    });
    (void)once;
    Pool* fresh = new (std::nothrow) Pool;
    if (fresh == nullptr) return nullptr;
    if (instance_.compare_exchange_strong(pool, fresh, std::memory_order_acq_rel)) return fresh;
    delete fresh;  // another thread was first; no worker was started yet
    return pool;
  }

  // Of the graphs that are being executed there is one for each core.
  bool EachCoreExecutes() const { return g_executing.Get() >= cores_; }

  // How many workers there are, after starting those that `wanted` still lacks.
  int Reserve(int wanted) {
    wanted = std::min(wanted, kMaxWorkers);
    const int present = workers_.load(std::memory_order_acquire);
    return present >= wanted ? present : StartWorkers(wanted);
  }

  // Invites that many workers, as far as cores are left: to a team all or, at first, none. Those
  // come when a member waits, or, as members may do that in a way that nobody sees, when it lasts.
  // So they do to every job that lasts on a loaded machine: they may lose their core there, but a
  // long job gains more from them.
  void Open(Job* job, int workers, bool team) {
    const int executing = std::max(1, g_executing.Get());
    const int lost = CoresLost();
    const int cores =
        executing == 1 && lost == 0 ? workers : std::clamp(cores_ - executing - lost, 0, workers);
    const int places = team && cores < workers ? 0 : cores;
    const int kept_back = team || lost != 0 ? workers - places : 0;
    job->places = places;
    job->kept_back = kept_back;
    job->invited = places + kept_back;
    job->core = sched_getcpu();
    owners_core_.store(job->core, std::memory_order_relaxed);
    lock_.Lock();
    job->number = ++jobs_;
    Append(job);
    lock_.Unlock();
    // One of the workers looks after a job that lacks them.
    const bool watched = kept_back == 0 || watchers_.load(std::memory_order_seq_cst) != 0;
    if (places != 0 || !watched) Call(places + (watched ? 0 : 1));
  }

  // A member waits: the workers that were kept back may come.
  void CallAll(Job* job) {
    lock_.Lock();
    const int more = job->kept_back;
    Admit(job);
    lock_.Unlock();
    if (more == 0) return;
    Call(more);
  }

  // Returns when all parts have run.
  void Close(Job* job) {
    Work(job, 0);
    lock_.Lock();
    Remove(job);
    const int joined = job->invited - job->places - job->kept_back;
    lock_.Unlock();
    if (joined != 0) WaitForWorkers(job, static_cast<uint32_t>(joined));
  }

 private:
  Pool() = default;

  // ---- Under the lock ----

  void Append(Job* job) {
    job->younger = nullptr;
    if (youngest_ == nullptr) {
      oldest_.store(job, std::memory_order_relaxed);
    } else {
      youngest_->younger = job;
    }
    youngest_ = job;
  }

  void Remove(Job* job) {
    Job* older = nullptr;
    for (Job* j = oldest_; j != job; j = j->younger) older = j;
    if (older == nullptr) {
      oldest_.store(job->younger, std::memory_order_relaxed);
    } else {
      older->younger = job->younger;
    }
    if (youngest_ == job) youngest_ = older;
  }

  // It is the youngest from now on, or else those who came earlier to younger ones and those who
  // come to it first would wait for each other.
  void Admit(Job* job) {
    if (job->kept_back == 0) return;
    job->places = std::exchange(job->kept_back, 0);
    Remove(job);
    Append(job);
  }

  // ---- Without it ----

  void Call(int workers) {
    calls_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0 ||
        watchers_.load(std::memory_order_seq_cst) != 0) {
      FutexWake(&calls_, workers);
    }
  }

  static void Work(Job* job, size_t first) {
    const bool before = tl_working;
    tl_working = true;
    for (size_t i = 0, share = first; i < job->shares; ++i) {
      for (size_t part; job->Take(share, &part);) job->run(job->context, part);
      share = share + 1 < job->shares ? share + 1 : 0;
    }
    tl_working = before;
  }

  static void WaitForWorkers(Job* job, uint32_t joined) {
    const auto left = [&] { return job->left.load(std::memory_order_acquire) & ~kOwnerSleeps; };
    if (SpinUntil([&] { return left() == joined; })) return;
    job->asleep_since = MonotonicNanoseconds();
    uint32_t seen = job->left.fetch_or(kOwnerSleeps, std::memory_order_seq_cst) | kOwnerSleeps;
    while ((seen & ~kOwnerSleeps) != joined) {
      FutexWait(&job->left, seen);
      seen = job->left.load(std::memory_order_acquire);
    }
    Slept();
  }

  // The oldest job that has a place for a worker; else null, and `lacking` is the number of the
  // oldest that keeps its own back. They are admitted if it is `before`, which lacked them the last
  // time, too. 0: none. A job whose owner ran on this thread's core counts as one that lacks them.
  Job* Join(uint64_t before, uint64_t* lacking, bool* in_its_place) {
    *lacking = 0;
    *in_its_place = false;
    if (oldest_.load(std::memory_order_relaxed) == nullptr) return nullptr;
    int others = 0;
    Job* kept = nullptr;
    lock_.Lock();
    Job* job = oldest_;
    while (job != nullptr && (job->places == 0 || job->Taken())) {
      if (kept == nullptr && job->kept_back != 0 && !job->Taken()) kept = job;
      job = job->younger;
    }
    *in_its_place = job != nullptr && job->number != before && job->core == sched_getcpu();
    if (*in_its_place) kept = std::exchange(job, nullptr);
    if (kept != nullptr) *lacking = kept->number;
    if (job == nullptr && kept != nullptr && kept->number == before) {
      job = kept;
      Admit(job);
      others = job->places - 1;
    }
    if (job != nullptr) --job->places;
    lock_.Unlock();
    if (others != 0) Call(others);
    return job;
  }

  void WorkerLoop(size_t number) {
    Placement placement;
    Fetching fetching;
    uint64_t lacking = 0, before = 0;
    int looks = 0;  // that may still find nothing before this worker ceases to watch
    for (;;) {
      const uint32_t seen = calls_.load(std::memory_order_acquire);
      bool in_its_place;
      if (Job* job = Join(before, &lacking, &in_its_place); job != nullptr) {
        before = 0;
        looks = 0;
        BeAwake();
        const size_t share = job->shares == 1 ? 0 : 1 + number % (job->shares - 1);
        Work(job, share);
        fetching.Begin(*job, share);
        Word* left = &job->left;
        if ((left->load(std::memory_order_acquire) & kOwnerSleeps) != 0) {
          HeldUp(job->asleep_since);
        }
        // The last touch: the job may be gone after it, so its owner is woken by the address alone.
        if ((left->fetch_add(1, std::memory_order_seq_cst) & kOwnerSleeps) != 0) FutexWake(left, 1);
        continue;
      }
      if (StepAside(&placement)) continue;
      if (in_its_place) OwnersCoreSeen();
      before = lacking;
      looks = lacking != 0 ? kEmptyLooks : std::max(0, looks - 1);
      if (looks != 0 && Watch(seen, lacking != 0)) continue;
      const auto called = [&] { return calls_.load(std::memory_order_acquire) != seen; };
      while (!fetching.done() && !called()) fetching.GoOn();
      if (SpinUntil(called)) continue;
      Sleep(seen, &placement);
    }
  }

  // A worker that polls would take its time from an owner that runs here. True: it was moved.
  static constexpr uint64_t kApart = 1000 * 1000;  // nanoseconds
  bool StepAside(Placement* placement) {
    const int core = owners_core_.load(std::memory_order_relaxed);
    if (core != sched_getcpu() || CoresLost() != 0) return false;
    if (g_executing.Get() >= cores_) return false;
    const uint64_t now = MonotonicNanoseconds();
    if (now - std::exchange(tl_aside, now) < kApart) return false;
    return placement->Avoid(core);
  }

  // Until a job comes. A virtual machine's core that halts looks to its kernel as one that others
  // have, and a thread is woken where its waker runs instead, to wait there for a time slice: so a
  // worker that sleeps for long leaves out its owner's core. Where cores were lost it takes any,
  // for being woken there is how it sees that there is no other.
  void Sleep(uint32_t seen, Placement* placement) {
    const auto spare = [this] { return CoresLost() == 0 && g_executing.Get() < cores_; };
    const timespec limit{0, static_cast<long>(kPatience)};
    if (!spare()) placement->Avoid(-1);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    // Each returns at once when a job came meanwhile.
    if (!FutexWait(&calls_, seen, &limit)) {
      if (spare()) placement->Avoid(owners_core_.load(std::memory_order_relaxed));
      FutexWait(&calls_, seen);
    }
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
    Slept();
  }

  // A worker looks now and then for a job that lacks its own. It does not poll, since there is no
  // core for it, and goes on for a while when there is none: to be called for each job would take
  // the core from the job's owner each time. False: it is not `needed`, as another one watches.
  bool Watch(uint32_t seen, bool needed) {
    if (!needed && watchers_.load(std::memory_order_seq_cst) != 0) return false;
    const timespec limit{0, static_cast<long>(kPatience)};
    watchers_.fetch_add(1, std::memory_order_seq_cst);
    FutexWait(&calls_, seen, &limit);
    watchers_.fetch_sub(1, std::memory_order_seq_cst);
    Slept();
    return true;
  }

  int StartWorkers(int wanted) {
    pthread_mutex_lock(&starting_);
    int workers = workers_.load(std::memory_order_relaxed);
    while (workers < wanted && !refused_) {
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
            Pool* const self = static_cast<Pool*>(pool);
            self->WorkerLoop(self->numbers_.fetch_add(1, std::memory_order_relaxed));
            return nullptr;
          },
          this);
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      pthread_attr_destroy(&attributes);
      if (error != 0) {
        refused_ = true;  // no more threads available: use those that exist
      } else {
        workers_.store(++workers, std::memory_order_release);
      }
    }
    pthread_mutex_unlock(&starting_);
    return workers;
  }

  static std::atomic<Pool*> instance_;

  pthread_mutex_t starting_ = PTHREAD_MUTEX_INITIALIZER;
  std::atomic<int> workers_{0};
  std::atomic<size_t> numbers_{0};  // that workers have
  bool refused_ = false;

  const int cores_ = Threads::DefaultLimit();

  alignas(64) SpinLock lock_;
  std::atomic<Job*> oldest_{nullptr};
  Job* youngest_ = nullptr;
  uint64_t jobs_ = 0;
  alignas(64) Word calls_{0};
  Word sleepers_{0};
  Word watchers_{0};                  // asleep for a while
  std::atomic<int> owners_core_{-1};  // on which the last job was opened
};

std::atomic<Pool*> Pool::instance_{nullptr};

}  // namespace

void Job::Cut(size_t count, size_t threads) {
  parts = count;
  shares = std::clamp<size_t>(std::min(count, threads), 1, kMaxShares);
  for (size_t i = 0; i < shares; ++i) {
    next[i].part.store(i * parts / shares, std::memory_order_relaxed);
  }
}

bool Job::Taken() const {
  for (size_t i = 0; i < shares; ++i) {
    if (next[i].part.load(std::memory_order_relaxed) < End(i)) return false;
  }
  return true;
}

void Threads::For(size_t count, size_t grain, FunctionRef<void(size_t, size_t)> body,
                  Alone if_alone) const {
  if (count == 0) return;
  if (grain == 0) grain = 1;
  const size_t most = count / grain;  // pieces that all hold `grain` or more
  if (limit_ == 1 || most <= 1 || tl_working || tl_team != nullptr) return body(0, count);
  const size_t threads = std::min<size_t>(static_cast<size_t>(limit_), most);
  Job job;
  job.Cut(std::min(most, threads * kPiecesPerThread), threads);
  Pieces pieces{&body, count / job.parts, count % job.parts, tl_next};
  job.context = &pieces;
  job.run = Pieces::Run;
  // In the same pieces: where a loop is cut may show in the last bit of its results.
  const auto alone = [&job, if_alone] {
    tl_working = true;
    for (size_t i = 0; i < job.parts; ++i) {
      job.run(job.context, if_alone.backwards ? job.parts - 1 - i : i);
    }
    tl_working = false;
  };
  // (Pieces of a loop whose grain is 1 may be of any size.)
  const bool small = if_alone.small || (grain > 1 && most <= kFewPieces);
  Pool* pool = Pool::Get();
  if (small && (CoresLost() != 0 || (pool != nullptr && pool->EachCoreExecutes()))) return alone();
  const int workers = pool != nullptr ? pool->Reserve(static_cast<int>(threads - 1)) : 0;
  if (workers == 0) return alone();
  pool->Open(&job, std::min(workers, static_cast<int>(threads - 1)), false);
  pool->Close(&job);
}

int Threads::DefaultLimit() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  // More CPUs than the fixed set holds.
  return static_cast<int>(std::clamp<long>(sysconf(_SC_NPROCESSORS_ONLN), 1, kMaxWorkers + 1));
}

BeforeReader::BeforeReader(const Reader* next) : before_(std::exchange(tl_next, next)) {}
BeforeReader::~BeforeReader() { tl_next = before_; }

Executing::Executing() {
  g_executing.Add(1);
  MayHaveSlept();
}
Executing::~Executing() { g_executing.Add(-1); }

bool Team::Reserve(int members) {
  if (members <= 1) return true;
  Pool* pool = Pool::Get();
  return pool != nullptr && pool->Reserve(members - 1) >= members - 1;
}

void Team::Open(int members, void (*run)(void*), void* context) {
  outer_ = tl_team;
  outer_member_ = tl_member;
  members_ = outer_ == nullptr && !tl_working ? std::max(members, 1) : 1;
  run_ = run;
  context_ = context;
  opened_ = false;
  if (members_ > 1) {
    job_.run = RunPart;
    job_.context = this;
    job_.Cut(static_cast<size_t>(members_), 1);
    job_.next[0].part.store(1, std::memory_order_relaxed);  // the opener is member 0
    job_.left.store(0, std::memory_order_relaxed);
    job_.younger = nullptr;
    Pool* pool = Pool::Get();
    const int workers = pool != nullptr ? pool->Reserve(members_ - 1) : 0;
    opened_ = workers > 0;
    if (opened_) {
      BeAwake();
      pool->Open(&job_, std::min(workers, members_ - 1), true);
    }
  }
  tl_team = this;
  tl_member = 0;
}

void Team::Close() {
  tl_team = outer_;
  tl_member = outer_member_;
  if (members_ == 1) return;
  if (opened_) return Pool::Get()->Close(&job_);
  for (size_t part = 1; part < job_.parts; ++part) RunPart(this, part);
}

void Team::RunPart(void* team, size_t part) {
  Team* const self = static_cast<Team*>(team);
  Team* const before = std::exchange(tl_team, self);
  const int member = std::exchange(tl_member, static_cast<int>(part));
  self->run_(self->context_);
  tl_team = before;
  tl_member = member;
}

void Team::Wait() {
  if (members_ == 1) return;
  const uint32_t round = rounds_.load(std::memory_order_acquire);
  if (waiting_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(members_)) {
    const uint64_t since = asleep_since_.exchange(0, std::memory_order_relaxed);
    if (since != 0) HeldUp(since);
    waiting_.store(0, std::memory_order_relaxed);
    rounds_.store(round + 1, std::memory_order_seq_cst);
    FutexWake(&rounds_, INT_MAX);
    return;
  }
  if (opened_) Pool::Get()->CallAll(&job_);
  const auto next = [&] { return rounds_.load(std::memory_order_acquire) != round; };
  if (SpinUntil(next)) return;
  asleep_since_.store(MonotonicNanoseconds(), std::memory_order_relaxed);
  while (!next()) FutexWait(&rounds_, round);
  Slept();
}

Team* Team::Current() { return tl_team; }

int Team::Member() { return tl_member; }

}  // namespace qnnrt
