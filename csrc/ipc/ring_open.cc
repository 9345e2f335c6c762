// Who is at which end of a ring: opening, closing, and what is done about those that died.
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <utility>

#include "abi/qnn_errors.h"
#include "ipc/ring.h"
#include "ipc/ring_control.h"
#include "ipc/socket.h"
#include "support/checked.h"

namespace qnnrt::ipc {
namespace {

struct flock ByteOf(uint32_t byte, short type) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return lock;
}

bool TryLock(int fd, uint32_t byte) {
  struct flock lock = ByteOf(byte, F_WRLCK);
  return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

void Unlock(int fd, uint32_t byte) {
  struct flock lock = ByteOf(byte, F_UNLCK);
  (void)fcntl(fd, F_OFD_SETLK, &lock);
}

constexpr uint32_t kProducerByte = 0;
uint32_t ByteOfSeat(uint32_t seat) { return 1 + seat; }

Status NoRing(const char* why) {
  return Error(QNNRT_RING_LAYOUT, "the memory is no ring of slots: %s", why);
}

}  // namespace

uint64_t ControlBytes(const qnnrt_ring_config_t& config) {
  uint64_t end;
  if (config.slots < 2 || config.slots > kMostSlots || config.slot_bytes == 0 ||
      config.stride < config.slot_bytes || !CheckedMul(config.stride, config.slots, &end) ||
      (config.flags & ~(QNNRT_RING_DROP_OLDEST | QNNRT_RING_QUEUE)) != 0) {
    return 0;
  }
  return sizeof(Control) + config.slots * (sizeof(Slot) + sizeof(std::atomic<uint32_t>));
}

Status Format(Buffer* buffer, const qnnrt_ring_config_t& config) {
  const uint64_t bytes = ControlBytes(config);
  if (bytes == 0) {
    return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT,
                 "expected 2 to %u slots of at least one byte, got %u of %llu bytes", kMostSlots,
                 config.slots, static_cast<unsigned long long>(config.slot_bytes));
  }
  if (buffer->nbytes < bytes || buffer->Has(kBufferReadOnly) ||
      reinterpret_cast<uintptr_t>(buffer->address) % alignof(Control) != 0) {
    return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT,
                 "expected %llu writable bytes at a multiple of %zu for the control block",
                 static_cast<unsigned long long>(bytes), alignof(Control));
  }
  std::fill_n(buffer->address, bytes, uint8_t{0});
  auto* control = new (buffer->address) Control();
  for (uint32_t i = 0; i < config.slots; ++i) new (control->slot(i)) Slot();
  control->config = config;
  control->version = kRingVersion;
  control->magic.store(kRingMagic, std::memory_order_release);
  return Status::Ok();
}

// ---- Opening and closing ----

Status Endpoint::Open(Buffer* buffer, uint32_t role) {
  buffer_ = buffer;
  role_ = role;
  reserved_ = -1;
  dropped_.store(0, std::memory_order_relaxed);
  busy_.store(false, std::memory_order_relaxed);
  spin_ = kSpin;
  spin_fixed_ = false;
  vain_ = 0;
  looked_ = 0;
  pinned_ = aside_due_ = 0;
  interval_ = kSpin;
  asides_ = 0;
  free_.clear();
  used_.clear();
  if (buffer->nbytes < sizeof(Control) || buffer->fd < 0 || buffer->Has(kBufferReadOnly) ||
      reinterpret_cast<uintptr_t>(buffer->address) % alignof(Control) != 0) {
    return NoRing("expected a writable buffer with an fd that holds a control block");
  }
  c_ = reinterpret_cast<Control*>(buffer->address);
  if (c_->magic.load(std::memory_order_acquire) != kRingMagic) return NoRing("no control block");
  if (c_->version != kRingVersion) return NoRing("another version of qnnrt made it");
  config_ = c_->config;
  const uint64_t bytes = ControlBytes(config_);
  if (bytes == 0 || bytes > buffer->nbytes) return NoRing("its control block is damaged");
  // A description of its own: locks belong to it, and fds that are passed on share theirs.
  char path[40];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", buffer->fd);
  lock_ = UniqueFd(open(path, O_RDWR | O_CLOEXEC), &IpcCounters());
  if (!lock_.valid()) {
    return Error(errno == EMFILE || errno == ENFILE ? QNNRT_HANDOFF_FILES : QNNRT_RING_LAYOUT,
                 "the ring's control block cannot be opened for a lock: %s: %s", path,
                 strerror(errno));
  }
  return IsProducer() ? OpenProducer() : OpenConsumer();
}

Status Endpoint::OpenProducer() {
  if (!TryLock(lock_.get(), kProducerByte)) {
    return Error(QNNRT_RING_TAKEN, "the ring has a producer; there can be one at a time");
  }
  free_.reserve(config_.slots);  // nothing is allocated later
  used_.reserve(config_.slots);
  std::vector<std::pair<uint64_t, uint32_t>> published;
  for (uint32_t i = 0; i < config_.slots; ++i) {
    Slot* slot = c_->slot(i);
    const uint32_t tag = TagIn(slot->word.load(std::memory_order_acquire));
    if (tag == kFilling) slot->word.store(0, std::memory_order_relaxed);  // of one that died
    if (tag == kFilling || tag == kFree) {
      free_.push_back(i);
    } else {
      published.emplace_back(slot->sequence.load(std::memory_order_relaxed), i);
    }
  }
  std::sort(published.begin(), published.end());
  for (const auto& slot : published) used_.push_back(slot.second);
  c_->closed.store(0, std::memory_order_release);
  c_->had_producer.store(1, std::memory_order_release);
  return Status::Ok();
}

Status Endpoint::OpenConsumer() {
  for (seat_ = 0; seat_ < QNNRT_RING_CONSUMERS; ++seat_) {
    if (!TryLock(lock_.get(), ByteOfSeat(seat_))) continue;
    bit_ = uint32_t{1} << seat_;
    ClearSeat(seat_);
    // First so that the producer waits for it, then again: what was published in between is not
    // this consumer's, and later it would be lost to nobody's fault.
    c_->next[seat_].at.store(c_->published.load(), std::memory_order_release);
    c_->active.fetch_or(bit_);
    next_ = c_->published.load();
    c_->next[seat_].at.store(next_, std::memory_order_release);
    return Status::Ok();
  }
  return Error(QNNRT_RING_TAKEN, "the ring has %u consumers, which is the most it can have",
               QNNRT_RING_CONSUMERS);
}

void Endpoint::Close() {
  if (!lock_.valid()) return;
  if (IsProducer()) {
    if (reserved_ >= 0) c_->slot(static_cast<uint32_t>(reserved_))->word.store(0);
    c_->closed.store(1);
    WakeConsumers(true);
  } else {
    ClearSeat(seat_);
    WakeProducer();
  }
  lock_.Reset();
}

// The caller has the seat's lock.
void Endpoint::ClearSeat(uint32_t seat) {
  const uint32_t bit = uint32_t{1} << seat;
  c_->active.fetch_and(~bit);
  c_->waiting.fetch_and(~bit);
  for (uint32_t i = 0; i < config_.slots; ++i) {
    c_->slot(i)->word.fetch_and(~uint64_t{bit}, std::memory_order_acq_rel);
  }
}

void Endpoint::CleanUp() {
  const uint32_t active = c_->active.load();
  for (uint32_t seat = 0; seat < QNNRT_RING_CONSUMERS; ++seat) {
    if ((active >> seat & 1) == 0 || !TryLock(lock_.get(), ByteOfSeat(seat))) continue;
    ClearSeat(seat);
    Unlock(lock_.get(), ByteOfSeat(seat));
  }
}

bool Endpoint::ProducerLives() const {
  struct flock lock = ByteOf(kProducerByte, F_WRLCK);
  return fcntl(lock_.get(), F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

}  // namespace qnnrt::ipc
