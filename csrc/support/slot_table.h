// Slots that never move, named by handles that are never reused.
//
// A handle is generation << 32 | (index + 1). Each slot has one 64-bit word, generation << 32 |
// pins: odd generations are live. Taking a pin is one compare-and-swap that also checks the
// generation, and a slot is retired only by swapping "my generation, no pins" away, so a stale
// handle is refused in constant time without a lock and a pinned slot stays as it is.
//
// Insert and Recycle need the owner's lock; everything else is lock free.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace qnnrt {

using SlotHandle = uint64_t;  // 0 is no handle

// Each chunk has twice the slots of the one before: a table of few objects takes few pages.
template <typename T, uint32_t kFirstChunk = 16, uint32_t kMaxChunks = 16>
class SlotTable {
 public:
  enum class Retired { kYes, kStale, kPinned };

  SlotTable() = default;
  SlotTable(const SlotTable&) = delete;
  SlotTable& operator=(const SlotTable&) = delete;
  ~SlotTable() {
    for (auto& chunk : chunks_) delete[] chunk.load(std::memory_order_relaxed);
  }

  // A free slot to fill, or null when the table is full. Not visible until Publish.
  T* Insert(SlotHandle* handle) {
    uint32_t index;
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else {
      if (used_ == kSlots) return nullptr;
      const Place place = PlaceOf(used_);
      // Capacity for every slot, so that recycling cannot fail.
      if (free_.capacity() <= used_) free_.reserve(used_ + place.size);
      auto& chunk = chunks_[place.chunk];
      if (!chunk.load(std::memory_order_relaxed)) {
        chunk.store(new Slot[place.size], std::memory_order_release);
      }
      index = used_++;
    }
    Slot* slot = SlotAt(index);
    uint64_t generation = slot->word.load(std::memory_order_relaxed) >> 32;
    *handle = (generation + 1) << 32 | (uint64_t{index} + 1);
    return &slot->value;
  }
  // Has the caches fetch the slots that the next `count` Inserts give, all at once.
  void Prefetch(size_t count) const {
    for (size_t i = free_.size(); i-- > 0 && count-- > 0;) {
      const auto* bytes = reinterpret_cast<const char*>(SlotAt(free_[i]));
      for (size_t at = 0; at < sizeof(Slot); at += 64) __builtin_prefetch(bytes + at, 1);
    }
  }
  void Publish(SlotHandle handle) {
    SlotAt(IndexOf(handle))->word.store(Word(handle), std::memory_order_release);
  }
  // Recycles an inserted slot that was never published.
  void Cancel(SlotHandle handle) { free_.push_back(IndexOf(handle)); }

  // Takes a pin: the value stays until Release. Null when the handle is stale or was never one.
  T* Acquire(SlotHandle handle) {
    Slot* slot = Find(handle);
    if (!slot) return nullptr;
    uint64_t word = slot->word.load(std::memory_order_relaxed);
    do {
      if (word >> 32 != handle >> 32) return nullptr;
    } while (!slot->word.compare_exchange_weak(word, word + 1, std::memory_order_acquire,
                                               std::memory_order_relaxed));
    return &slot->value;
  }
  // So many pins more, of a slot that the caller has pinned.
  void AcquireMore(SlotHandle handle, uint32_t count) {
    SlotAt(IndexOf(handle))->word.fetch_add(count, std::memory_order_relaxed);
  }
  // Returns the pins that are left.
  uint32_t Release(SlotHandle handle) {
    uint64_t before = SlotAt(IndexOf(handle))->word.fetch_sub(1, std::memory_order_acq_rel);
    return static_cast<uint32_t>(before) - 1;
  }
  // After kYes the value belongs to the caller until Recycle.
  Retired Retire(SlotHandle handle) {
    Slot* slot = Find(handle);
    if (!slot) return Retired::kStale;
    uint64_t expected = Word(handle);
    uint64_t next = ((handle >> 32) + 1) << 32;
    if (slot->word.compare_exchange_strong(expected, next, std::memory_order_acq_rel,
                                           std::memory_order_relaxed)) {
      return Retired::kYes;
    }
    return expected >> 32 == handle >> 32 ? Retired::kPinned : Retired::kStale;
  }
  // No new pins from here on; the value stays until Drained. False: stale.
  bool Close(SlotHandle handle) {
    Slot* slot = Find(handle);
    if (!slot) return false;
    uint64_t word = slot->word.load(std::memory_order_relaxed);
    do {
      if (word >> 32 != handle >> 32) return false;
    } while (!slot->word.compare_exchange_weak(
        word, word + (uint64_t{1} << 32), std::memory_order_acq_rel, std::memory_order_relaxed));
    return true;
  }
  // After Close: the last pin has gone, and the value belongs to the caller until Recycle.
  bool Drained(SlotHandle handle) const {
    const uint64_t word = SlotAt(IndexOf(handle))->word.load(std::memory_order_acquire);
    return static_cast<uint32_t>(word) == 0;
  }
  // The value of a slot that is closed.
  T* Closed(SlotHandle handle) { return &SlotAt(IndexOf(handle))->value; }
  void Recycle(SlotHandle handle) {
    // A slot that has used all its generations stays empty: its first handles must not become valid
    // again.
    if (static_cast<uint32_t>(handle >> 32) < UINT32_MAX - 2) free_.push_back(IndexOf(handle));
  }

  // It was published once, and retired since.
  bool WasLive(SlotHandle handle) const {
    const Slot* slot = Find(handle);
    return slot && slot->word.load(std::memory_order_acquire) >> 32 > handle >> 32;
  }
  bool Live(SlotHandle handle) const { return PinsOf(handle) >= 0; }
  // -1 when stale.
  int64_t PinsOf(SlotHandle handle) const {
    const Slot* slot = Find(handle);
    if (!slot) return -1;
    uint64_t word = slot->word.load(std::memory_order_acquire);
    return word >> 32 == handle >> 32 ? static_cast<int64_t>(word & UINT32_MAX) : -1;
  }
  // The value without a pin: only where the owner's lock keeps it from being retired.
  T* Peek(SlotHandle handle) { return Live(handle) ? &SlotAt(IndexOf(handle))->value : nullptr; }

  template <typename F>
  void ForEachLive(F&& f) {  // owner's lock held
    for (uint32_t i = 0; i < used_; ++i) {
      Slot* slot = SlotAt(i);
      uint64_t word = slot->word.load(std::memory_order_acquire);
      if ((word >> 32) & 1) f((word >> 32) << 32 | (uint64_t{i} + 1), slot->value);
    }
  }
  // After fork, in the child: makes a live slot stale whatever its pins.
  void ForceRetire(SlotHandle handle) {
    SlotAt(IndexOf(handle))->word.store(((handle >> 32) + 1) << 32, std::memory_order_release);
  }

 private:
  // A cache line or more to itself: threads that pin different slots do not wait for each other.
  struct alignas(64) Slot {
    std::atomic<uint64_t> word{0};
    T value{};
  };
  static_assert((kFirstChunk & (kFirstChunk - 1)) == 0, "places are found by shifts");
  static constexpr uint32_t kSlots = kFirstChunk * ((1u << kMaxChunks) - 1);
  struct Place {
    uint32_t chunk, at, size;
  };

  static Place PlaceOf(uint32_t index) {
    // Chunk i starts at kFirstChunk * (2^i - 1).
    const uint32_t chunk = 31u - static_cast<uint32_t>(__builtin_clz(index / kFirstChunk + 1));
    const uint32_t size = kFirstChunk << chunk;
    return {chunk, index + kFirstChunk - size, size};
  }
  static uint32_t IndexOf(SlotHandle handle) { return static_cast<uint32_t>(handle) - 1; }
  static uint64_t Word(SlotHandle handle) { return (handle >> 32) << 32; }
  Slot* SlotAt(uint32_t index) const {
    const Place place = PlaceOf(index);
    return chunks_[place.chunk].load(std::memory_order_acquire) + place.at;
  }
  Slot* Find(SlotHandle handle) const {
    uint32_t index = IndexOf(handle);
    if (!((handle >> 32) & 1) || index >= kSlots) return nullptr;
    const Place place = PlaceOf(index);
    Slot* chunk = chunks_[place.chunk].load(std::memory_order_acquire);
    return chunk ? chunk + place.at : nullptr;
  }

  std::array<std::atomic<Slot*>, kMaxChunks> chunks_{};
  std::vector<uint32_t> free_;
  uint32_t used_ = 0;
};

}  // namespace qnnrt
