// Handles that cross the C boundary: slot and generation, tagged with what they name, so that a
// stale one, a foreign one and one of another kind are all refused.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "support/slot_table.h"

namespace qnnrt {

enum class HandleKind : uint64_t {
  kBackend = 1,
  kContext,
  kGraph,
  kLog,
  kProfile,
  kSignal,
  kDevice,
  kLpaiAllocator,
  kSystemContext = 0x20,
  kProfileLog
};

// Pins an object during its lifetime.
template <typename Table>
class Pinned {
 public:
  Pinned() = default;
  Pinned(Table* table, SlotHandle slot, typename Table::Object* object)
      : table_(table), slot_(slot), object_(object) {}
  Pinned(Pinned&& o) noexcept
      : table_(o.table_), slot_(o.slot_), object_(std::exchange(o.object_, nullptr)) {}
  Pinned& operator=(Pinned&& o) noexcept {
    if (this == &o) return *this;
    Reset();
    table_ = o.table_;
    slot_ = o.slot_;
    object_ = std::exchange(o.object_, nullptr);
    return *this;
  }
  ~Pinned() { Reset(); }
  void Reset() {
    if (std::exchange(object_, nullptr) != nullptr) table_->Unpin(slot_);
  }
  typename Table::Object* operator->() const { return object_; }
  typename Table::Object& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  Table* table_ = nullptr;
  SlotHandle slot_ = 0;
  typename Table::Object* object_ = nullptr;
};

template <typename T, HandleKind kKind>
class HandleTable {
 public:
  using Object = T;
  using Pin = Pinned<HandleTable>;

  // Null when the table is full.
  void* Add(std::unique_ptr<T> object) {
    std::lock_guard<std::mutex> lock(mutex_);
    SlotHandle slot;
    std::unique_ptr<T>* entry = slots_.Insert(&slot);
    if (entry == nullptr) return nullptr;
    *entry = std::move(object);
    slots_.Publish(slot);
    ++live_;
    return reinterpret_cast<void*>(slot | kTag);
  }

  Pin Find(const void* handle) {
    SlotHandle slot;
    if (!Slot(handle, &slot)) return {};
    std::unique_ptr<T>* entry = slots_.Acquire(slot);
    return entry == nullptr ? Pin() : Pin(this, slot, entry->get());
  }

  enum class Taken { kYes, kStale, kBusy };
  // Removes the object. kBusy: it is pinned.
  Taken Take(const void* handle, std::unique_ptr<T>* object) {
    std::lock_guard<std::mutex> lock(mutex_);
    SlotHandle slot;
    if (!Slot(handle, &slot)) return Taken::kStale;
    std::unique_ptr<T>* entry = slots_.Peek(slot);
    switch (slots_.Retire(slot)) {
      case decltype(slots_)::Retired::kStale:
        return Taken::kStale;
      case decltype(slots_)::Retired::kPinned:
        return Taken::kBusy;
      case decltype(slots_)::Retired::kYes:
        break;
    }
    *object = std::move(*entry);
    slots_.Recycle(slot);
    --live_;
    return Taken::kYes;
  }

  // Removes an object that may be pinned: from here on nobody finds it, so that its pins end.
  // wait() is called until they have; false from it gives up, and the object is leaked (kBusy).
  template <typename Wait>
  Taken TakeDrained(const void* handle, std::unique_ptr<T>* object, Wait wait) {
    SlotHandle slot;
    if (!Slot(handle, &slot) || !slots_.Close(slot)) return Taken::kStale;
    while (!slots_.Drained(slot)) {
      if (!wait()) return Taken::kBusy;
    }
    std::lock_guard<std::mutex> lock(mutex_);
    *object = std::move(*slots_.Closed(slot));
    slots_.Recycle(slot);
    --live_;
    return Taken::kYes;
  }

  // f(object) for each; no handle is added or taken meanwhile.
  template <typename F>
  void ForEach(F&& f) {
    std::lock_guard<std::mutex> lock(mutex_);
    slots_.ForEachLive([&](SlotHandle, std::unique_ptr<T>& object) { f(*object); });
  }

  // It named an object that has been removed since.
  bool WasLive(const void* handle) const {
    SlotHandle slot;
    return Slot(handle, &slot) && slots_.WasLive(slot);
  }

  uint64_t live() {
    std::lock_guard<std::mutex> lock(mutex_);
    return live_;
  }
  void Unpin(SlotHandle slot) { slots_.Release(slot); }

 private:
  // Slot indices need 20 bits of the low word; the kind stands above them.
  static constexpr uint64_t kTag = static_cast<uint64_t>(kKind) << 24;
  static constexpr uint64_t kTagMask = uint64_t{0xFF} << 24;
  static bool Slot(const void* handle, SlotHandle* slot) {
    uint64_t bits = reinterpret_cast<uintptr_t>(handle);
    if ((bits & kTagMask) != kTag) return false;
    *slot = bits & ~kTagMask;
    return true;
  }

  std::mutex mutex_;
  SlotTable<std::unique_ptr<T>> slots_;
  uint64_t live_ = 0;
};

}  // namespace qnnrt
