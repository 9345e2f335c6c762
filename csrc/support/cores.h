// Which cores are left for the threads of the pool on a loaded machine, and how long these poll.
//
// Who waits for a worker that lost its core waits for a time slice of another process, which is
// longer than most jobs. A worker that finds no core but its owner's takes that from it, to poll
// for more. While such were seen, that many cores fewer count as there.
#pragma once

#include <sched.h>

#include <cstdint>

#include "support/clock.h"
#include "support/pause.h"

namespace qnnrt {

// Of the pool, at the most.
constexpr int kMaxWorkers = 1023;

// All times are in nanoseconds.
// How long a thread polls before it sleeps: long enough to bridge what runs on one thread between
// two jobs of a graph, and shorter once polling was seen to take a core from others.
constexpr uint64_t kSpin = 60 * 1000, kShortSpin = 10 * 1000;
// Two looks at the clock that are this far apart: another thread had the core in between.
constexpr uint64_t kPreempted = 200 * 1000;

// A thread was seen to have lost its core.
void LoadSeen(uint64_t now);

// Whether the machine counts as loaded.
bool Loaded(uint64_t now);

// How many cores fewer are there.
int CoresLost();

// A worker has woken on the core of the job's owner, in its place. Once that may be chance.
void OwnersCoreSeen();

// This thread has slept of its own accord, just now or, a client's thread, at some time.
void Slept();
void MayHaveSlept();
// It is about to work.
void BeAwake();

// Another thread has slept since then, waiting for this one: was this one without a core, or had it
// more to do? (That others were on its core for a moment, as the kernel's own threads are, says
// nothing.)
void HeldUp(uint64_t since);

// The cores that a worker may run on: all that it was given, or all but one. A kernel wakes a
// thread where it ran the last time, or where its waker does, and looks for an idle core only among
// many: with two that share a cache, one of them busy, never (SIS_UTIL). A worker that came to its
// owner's core would stay there.
class Placement {
 public:
  // Takes the calling thread from that core, to any other that it may use, and gives back the one
  // before; -1: from none. False where it stays.
  bool Avoid(int core);

 private:
  int avoided_ = -1;
  cpu_set_t left_;  // where it may run then
};

// True as soon as ready() is; false when the spin time is over.
template <typename Ready>
bool SpinUntil(const Ready& ready) {
  for (uint64_t end = 0, before = 0;;) {
    for (int i = 0; i < 64; ++i) {
      if (ready()) return true;
      Pause();
    }
    const uint64_t now = MonotonicNanoseconds();
    if (before == 0) {
      end = now + (Loaded(now) ? kShortSpin : kSpin);
    } else if (now - before > kPreempted) {
      LoadSeen(now);
    }
    if (now >= end) return false;
    before = now;
  }
}

}  // namespace qnnrt
