// A bounded ring of slots between processes: one producer, up to 32 consumers, no lock.
//
// The control block is shared memory; the slots themselves lie elsewhere and are never touched
// here. Each slot has one 64-bit word, tag << 32 | readers: the tag says which publication is in
// it, a reader's bit that this consumer reads it. A consumer pins a slot by setting its bit while
// the tag is the one it looks for, and a producer takes a slot back by swapping "this tag, no
// readers" away, so a slot that is read is never overwritten and a consumer never gets one that
// was.
//
// Memory order. What the producer writes into a slot happens before `word` is stored with its tag
// (release), and so before a consumer's pin of that tag (acquire). What a consumer reads happens
// before it clears its bit (release), and so before the producer's swap (acquire). In the other
// direction each side first says that it sleeps, then looks again, then sleeps; the other side
// first changes what is looked at, then looks who sleeps: these four are sequentially consistent,
// so one of the two sees the other.
//
// Who is alive is known to the kernel: an endpoint holds a lock on a byte of the control block's
// file (F_OFD_SETLK), through an open file description of its own, which ends with its process.
// Bytes: 0 the producer, 1 + i the consumer in seat i. A seat is changed only by who has its lock:
// its consumer, or whoever finds the lock free and cleans up after a consumer that died.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "ipc/ring_api.h"
#include "memory/buffer.h"
#include "support/slot_table.h"
#include "support/status.h"

namespace qnnrt::ipc {

struct Control;  // ring_control.h

// The bytes of a control block, 0 for a config that cannot be.
uint64_t ControlBytes(const qnnrt_ring_config_t& config);
Status Format(Buffer* control, const qnnrt_ring_config_t& config);

class Endpoint {
 public:
  static constexpr uint64_t kSpin = 100 * 1000;
  // Takes over a hold on the control block's buffer.
  Status Open(Buffer* control, uint32_t role);
  void Close();
  void ForgetAfterFork() { lock_.Reset(); }  // and after a failed Open

  void SetSpin(uint64_t nanoseconds) { spin_ = nanoseconds, spin_fixed_ = true; }
  Status Next(uint64_t timeout, qnnrt_ring_slot_t* out);
  Status Done(uint32_t index, bool publish, qnnrt_ring_slot_t* out);
  void Info(qnnrt_ring_info_t* out);
  Buffer* control() { return buffer_; }

 private:
  bool IsProducer() const { return role_ == QNNRT_RING_PRODUCER; }
  bool Drops() const { return (config_.flags & QNNRT_RING_DROP_OLDEST) != 0; }
  bool IsQueue() const { return (config_.flags & QNNRT_RING_QUEUE) != 0; }
  uint64_t FirstUnread() const;

  Status OpenProducer();
  Status OpenConsumer();
  bool TryReserve(qnnrt_ring_slot_t* out);
  bool TryRead(qnnrt_ring_slot_t* out);
  bool TryQueue(qnnrt_ring_slot_t* out);
  bool Pin(uint64_t sequence, qnnrt_ring_slot_t* out);
  void Unpin(uint32_t index);
  uint64_t AfterLost(uint64_t sequence) const;
  bool Try(qnnrt_ring_slot_t* out) { return IsProducer() ? TryReserve(out) : TryRead(out); }
  void Publish(uint32_t index, qnnrt_ring_slot_t* out);
  bool Sleep(uint64_t nanoseconds, qnnrt_ring_slot_t* out);
  void WakeConsumers(bool all);
  void WakeProducer();
  bool Spin(uint64_t start, qnnrt_ring_slot_t* out);
  bool MayLook(uint64_t now);
  bool LookDue();
  void CleanUp();  // after consumers that died
  void ClearSeat(uint32_t seat);
  bool ProducerLives() const;

  Buffer* buffer_ = nullptr;
  Control* c_ = nullptr;
  qnnrt_ring_config_t config_ = {};  // read once: what is shared may be changed by anybody
  uint32_t role_ = 0;
  uint32_t seat_ = 0, bit_ = 0;
  UniqueFd lock_;
  std::atomic<bool> busy_{false};
  std::atomic<uint64_t> dropped_{0};
  uint64_t next_ = 0;      // a consumer's, to all
  uint64_t spin_ = kSpin;  // nanoseconds of looking again before it sleeps
  bool spin_fixed_ = false;
  uint32_t vain_ = 0;  // waits that looking again would not have ended
  uint64_t looked_ = 0;
  // Of a consumer: when what it read last was published, how long after the one before; when it may
  // leave the producer's core the next time, and how often it has.
  uint64_t pinned_ = 0, interval_ = kSpin;
  uint64_t aside_due_ = 0;
  uint32_t asides_ = 0;
  // Of a producer: slots that are free, those in use in the order of their publication, and the one
  // that it fills.
  std::mutex mutex_;
  std::vector<uint32_t> free_, used_;
  std::atomic<int64_t> reserved_{-1};
};

class Endpoints {
 public:
  static Endpoints& Get();
  Result<SlotHandle> Open(SlotHandle control, uint32_t role);
  Status Close(SlotHandle handle);
  // Null when the handle is stale. Unpin gives it back.
  Endpoint* Pin(SlotHandle handle) { return slots_.Acquire(handle); }
  void Unpin(SlotHandle handle) { slots_.Release(handle); }
  int64_t Count();

 private:
  std::mutex mutex_;
  SlotTable<Endpoint> slots_;
  int64_t count_ = 0;
};

}  // namespace qnnrt::ipc
