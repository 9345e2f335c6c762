#include "ipc/ring.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "abi/qnn_errors.h"
#include "ipc/ring_control.h"
#include "support/clock.h"
#include "support/cores.h"
#include "support/pause.h"

namespace qnnrt::ipc {
namespace {

// A wait that looking again would not have ended halves the time for it, down to 1/64: who waits
// for a camera sleeps at once. One that it would have ended makes it whole again.
constexpr uint32_t kMostVain = 6;
// How long a sleep lasts before the other side is looked after, and the time between two looks for
// consumers that died.
constexpr uint64_t kLook = 50 * 1000 * 1000;
// How long a consumer that has left the producer's core stays where the kernel puts it then, at
// first; twice as long each time, up to a second: there may be a reason to bring it back.
constexpr uint64_t kAside = 1000 * 1000;
constexpr uint32_t kMostAsides = 10;

void FutexWait(std::atomic<uint32_t>* word, uint32_t expected, uint64_t nanoseconds) {
  timespec limit;
  limit.tv_sec = static_cast<time_t>(nanoseconds / 1000000000u);
  limit.tv_nsec = static_cast<long>(nanoseconds % 1000000000u);
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT, expected, &limit, nullptr, 0);
}

void FutexWake(std::atomic<uint32_t>* word, int count) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE, count, nullptr, nullptr, 0);
}

// Cores that this process may use.
int Cores() {
  static const int cores = [] {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) != 0 ? 1 : CPU_COUNT(&set);
  }();
  return cores;
}

}  // namespace

// ---- The producer's slots ----

// The first publication that a consumer has not got yet.
uint64_t Endpoint::FirstUnread() const {
  if (IsQueue()) return c_->taken.load(std::memory_order_acquire);
  uint64_t first = UINT64_MAX;
  for (uint32_t active = c_->active.load(); active != 0; active &= active - 1) {
    const auto seat = static_cast<uint32_t>(__builtin_ctz(active));
    first = std::min(first, c_->next[seat].at.load(std::memory_order_acquire));
  }
  return first;
}

bool Endpoint::TryReserve(qnnrt_ring_slot_t* out) {
  std::lock_guard<std::mutex> lock(mutex_);
  uint32_t index = 0;
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
    c_->slot(index)->word.store(WordOf(kFilling), std::memory_order_relaxed);
  } else {
    const uint64_t unread = FirstUnread();
    auto found = used_.begin();
    for (; found != used_.end(); ++found) {
      Slot* slot = c_->slot(*found);
      const uint64_t sequence = slot->sequence.load(std::memory_order_relaxed);
      if (!Drops() && sequence >= unread) return false;
      uint64_t word = WordOf(TagOf(sequence));
      if (!slot->word.compare_exchange_strong(word, WordOf(kFilling), std::memory_order_acquire,
                                              std::memory_order_relaxed)) {
        continue;  // it is being read
      }
      if (sequence >= unread) dropped_.fetch_add(1, std::memory_order_relaxed);
      break;
    }
    if (found == used_.end()) return false;
    index = *found;
    used_.erase(found);
  }
  reserved_ = index;
  *out = {};
  out->index = index;
  out->sequence = c_->published.load(std::memory_order_relaxed);
  return true;
}

void Endpoint::Publish(uint32_t index, qnnrt_ring_slot_t* out) {
  const uint64_t sequence = c_->published.load(std::memory_order_relaxed);
  const uint64_t now = MonotonicNanoseconds();
  Slot* slot = c_->slot(index);
  slot->sequence.store(sequence, std::memory_order_relaxed);
  slot->published.store(now, std::memory_order_relaxed);
  slot->word.store(WordOf(TagOf(sequence)), std::memory_order_release);
  c_->order(config_)[sequence % config_.slots].store(index, std::memory_order_release);
  c_->producer_core.store(static_cast<uint32_t>(sched_getcpu() + 1), std::memory_order_relaxed);
  c_->published.store(sequence + 1);
  WakeConsumers(false);
  used_.push_back(index);
  *out = {};
  out->index = index;
  out->sequence = sequence;
  out->published = now;
}

void Endpoint::WakeConsumers(bool all) {
  if (c_->waiting.load() == 0) return;
  c_->events.fetch_add(1);
  FutexWake(&c_->events, IsQueue() && !all ? 1 : INT_MAX);
}

void Endpoint::WakeProducer() {
  if (c_->producer_waits.load() == 0) return;
  c_->room.fetch_add(1);
  FutexWake(&c_->room, 1);
}

// ---- The consumers' ----

// Whether the publication is there; then the slot is this consumer's to read.
bool Endpoint::Pin(uint64_t sequence, qnnrt_ring_slot_t* out) {
  const uint32_t index =
      c_->order(config_)[sequence % config_.slots].load(std::memory_order_acquire);
  if (index >= config_.slots) return false;  // somebody has written where nobody may
  Slot* slot = c_->slot(index);
  uint64_t word = slot->word.load(std::memory_order_relaxed);
  do {
    if (TagIn(word) != TagOf(sequence)) return false;
  } while (!slot->word.compare_exchange_weak(word, word | bit_, std::memory_order_acq_rel,
                                             std::memory_order_relaxed));
  out->index = index;
  out->reserved = 0;
  out->sequence = sequence;
  out->published = slot->published.load(std::memory_order_relaxed);
  interval_ = out->published - pinned_;
  pinned_ = out->published;
  return true;
}

void Endpoint::Unpin(uint32_t index) {
  c_->slot(index)->word.fetch_and(~uint64_t{bit_});
  WakeProducer();
}

// What to look for after a publication that was overwritten.
uint64_t Endpoint::AfterLost(uint64_t sequence) const {
  const uint64_t published = c_->published.load(std::memory_order_acquire);
  const uint64_t oldest = published > config_.slots ? published - config_.slots : 0;
  return std::max(sequence + 1, oldest);
}

bool Endpoint::TryRead(qnnrt_ring_slot_t* out) {
  if (IsQueue()) return TryQueue(out);
  while (next_ < c_->published.load()) {
    const uint64_t wanted = next_;
    const bool pinned = Pin(wanted, out);
    next_ = pinned ? wanted + 1 : AfterLost(wanted);
    c_->next[seat_].at.store(next_, std::memory_order_release);
    if (pinned) return true;
    dropped_.fetch_add(next_ - wanted, std::memory_order_relaxed);
  }
  return false;
}

bool Endpoint::TryQueue(qnnrt_ring_slot_t* out) {
  uint64_t wanted = c_->taken.load();
  while (wanted < c_->published.load()) {
    // Pinned before it is taken, so that it cannot be lost in between.
    const bool pinned = Pin(wanted, out);
    const uint64_t after = pinned ? wanted + 1 : AfterLost(wanted);
    if (c_->taken.compare_exchange_strong(wanted, after)) {
      if (pinned) return true;
      dropped_.fetch_add(after - wanted, std::memory_order_relaxed);
      wanted = after;
    } else if (pinned) {
      Unpin(out->index);  // another consumer has it
    }
  }
  return false;
}

// ---- Both ----

bool Endpoint::LookDue() {
  const uint64_t now = MonotonicNanoseconds();
  if (now - looked_ < kLook) return false;
  looked_ = now;
  return true;
}

// Whether the other ends can run while this one keeps its core. With more ends than cores one of
// them cannot. And the kernel wakes a thread on the core of whoever wakes it when the two do it
// often: a consumer that is on the producer's core sleeps at once, or, where frames come faster
// than a sleep takes, moves to another core.
bool Endpoint::MayLook(uint64_t now) {
  if (!spin_fixed_ && __builtin_popcount(c_->active.load()) >= Cores()) return false;
  if (IsProducer()) return true;
  const int core = sched_getcpu();
  const uint32_t producers = c_->producer_core.load(std::memory_order_relaxed);
  if (core < 0 || producers != static_cast<uint32_t>(core) + 1) return true;
  if (interval_ >= kSpin || now < aside_due_) return false;
  aside_due_ = now + (kAside << std::min(asides_++, kMostAsides));
  Placement placement;
  // Where it may run is as it was afterwards.
  return placement.Avoid(core) && !placement.Avoid(-1);
}

bool Endpoint::Spin(uint64_t start, qnnrt_ring_slot_t* out) {
  const uint64_t end = start + (spin_fixed_ ? spin_ : spin_ >> vain_);
  while (MonotonicNanoseconds() < end) {
    for (int i = 0; i < 4; ++i) {
      Pause();
      if (Try(out)) return true;
    }
  }
  return false;
}

// Whether there was something to get just before.
bool Endpoint::Sleep(uint64_t nanoseconds, qnnrt_ring_slot_t* out) {
  if (IsProducer()) {
    c_->producer_waits.store(1);
    const uint32_t seen = c_->room.load();
    const bool got = TryReserve(out);
    if (!got) FutexWait(&c_->room, seen, nanoseconds);
    c_->producer_waits.store(0);
    return got;
  }
  c_->waiting.fetch_or(bit_);
  const uint32_t seen = c_->events.load();
  const bool got = TryRead(out);
  if (!got && c_->closed.load() == 0) FutexWait(&c_->events, seen, nanoseconds);
  c_->waiting.fetch_and(~bit_);
  return got;
}

Status Endpoint::Next(uint64_t timeout, qnnrt_ring_slot_t* out) {
  if (busy_.exchange(true, std::memory_order_acquire)) {
    return Error(QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
                 "another thread waits at this end of the ring: open one for each thread");
  }
  struct Idle {
    std::atomic<bool>* busy;
    ~Idle() { busy->store(false, std::memory_order_release); }
  } idle{&busy_};
  if (reserved_ >= 0) {
    return Error(QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
                 "the producer has a slot: publish it, or give it back, before the next one");
  }
  if (Try(out)) return Status::Ok();
  const uint64_t start = MonotonicNanoseconds();
  for (bool first = true;; first = false) {
    bool closed = false, ended = false;
    if (IsProducer()) {
      if (LookDue()) CleanUp();
    } else {
      closed = c_->closed.load() != 0;
      ended = !closed && LookDue() && c_->had_producer.load() != 0 && !ProducerLives();
      if (ended) {  // or has closed it between the two looks
        closed = c_->closed.load() != 0;
        ended = !closed;
      }
    }
    if (Try(out)) return Status::Ok();  // what was published before it closed or ended
    if (closed) return Status(QNNRT_RING_CLOSED, "the producer has closed the ring");
    if (ended) {
      return Status(QNNRT_RING_ENDED, "the ring's producer has ended without closing it");
    }
    if (MonotonicNanoseconds() - start >= timeout) return Status(QNNRT_RING_TIMEOUT);
    if (first && MayLook(start) && Spin(start, out)) return Status::Ok();
    const uint64_t passed = MonotonicNanoseconds() - start;
    if (passed < timeout && Sleep(std::min(timeout - passed, kLook), out)) return Status::Ok();
    if (MonotonicNanoseconds() - start < spin_) {
      vain_ = 0;
    } else if (first && vain_ < kMostVain) {
      ++vain_;
    }
  }
}

Status Endpoint::Done(uint32_t index, bool publish, qnnrt_ring_slot_t* out) {
  if (!IsProducer()) {
    if (index >= config_.slots ||
        (c_->slot(index)->word.load(std::memory_order_relaxed) & bit_) == 0) {
      return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT, "slot %u is not being read here", index);
    }
    Unpin(index);
    return Status::Ok();
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (reserved_ < 0 || static_cast<uint32_t>(reserved_) != index) {
    return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT, "slot %u is not the one to fill", index);
  }
  reserved_ = -1;
  if (publish) {
    Publish(index, out);
  } else {
    c_->slot(index)->word.store(0, std::memory_order_relaxed);
    free_.push_back(index);
  }
  return Status::Ok();
}

void Endpoint::Info(qnnrt_ring_info_t* out) {
  *out = {};
  out->config = config_;
  out->published = c_->published.load(std::memory_order_acquire);
  out->dropped = dropped_.load(std::memory_order_relaxed);
  out->consumers = static_cast<uint32_t>(__builtin_popcount(c_->active.load()));
  out->closed = c_->closed.load(std::memory_order_acquire);
}

}  // namespace qnnrt::ipc
