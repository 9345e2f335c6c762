// A ring's control block, as it lies in shared memory: the same for every process of the machine.
#pragma once

#include <atomic>
#include <cstdint>

#include "ipc/ring_api.h"

namespace qnnrt::ipc {

inline constexpr uint32_t kRingMagic = 0x51524e47, kRingVersion = 2, kMostSlots = 4096;

// ---- The word of a slot: tag << 32 | readers ----
inline constexpr uint32_t kFree = 0, kFilling = 1;
inline uint32_t TagOf(uint64_t sequence) {
  return static_cast<uint32_t>(2 + sequence % 0xfffffffeu);
}
inline uint32_t TagIn(uint64_t word) { return static_cast<uint32_t>(word >> 32); }
inline uint64_t WordOf(uint32_t tag) { return uint64_t{tag} << 32; }

struct alignas(64) Slot {
  std::atomic<uint64_t> word{0};
  std::atomic<uint64_t> sequence{0};
  std::atomic<uint64_t> published{0};  // when
};

struct alignas(64) Control {
  std::atomic<uint32_t> magic{0};
  uint32_t version = 0;
  qnnrt_ring_config_t config = {};

  // Written by the producer.
  alignas(64) std::atomic<uint64_t> published{0};  // how many so far
  std::atomic<uint32_t> closed{0}, had_producer{0};
  std::atomic<uint32_t> events{0};  // consumers sleep on it
  std::atomic<uint32_t> producer_waits{0};
  std::atomic<uint32_t> producer_core{0};  // where it published from, counted from 1

  // Written by consumers; bits are seats.
  alignas(64) std::atomic<uint32_t> active{0};
  std::atomic<uint32_t> waiting{0};
  std::atomic<uint32_t> room{0};               // the producer sleeps on it
  alignas(64) std::atomic<uint64_t> taken{0};  // a queue's next one, whoever comes
  struct alignas(64) Next {
    std::atomic<uint64_t> at{0};
  } next[QNNRT_RING_CONSUMERS];  // to all: the next one of each

  Slot* slot(uint32_t i) { return reinterpret_cast<Slot*>(this + 1) + i; }
  // Which slot a publication is in, by its sequence modulo the number of slots.
  std::atomic<uint32_t>* order(const qnnrt_ring_config_t& checked) {
    return reinterpret_cast<std::atomic<uint32_t>*>(slot(checked.slots));
  }
};

static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<uint32_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<uint32_t>) == 4);

}  // namespace qnnrt::ipc
