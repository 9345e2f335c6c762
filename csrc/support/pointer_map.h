// A map from pointers, in one array. Passes make maps of all tensors of a graph again and again:
// with an allocation for each entry these were a third of the time of graphFinalize.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace qnnrt {

// Keys are not null. Entries do not go one by one. A reference holds until the next key comes.
template <typename Value>
class PointerMap {
 public:
  // Without entries; the memory stays.
  void Clear() {
    if (count_ == 0) return;
    for (Slot& slot : slots_) slot = Slot();
    count_ = 0;
  }

  // Null: there is none.
  const Value* Find(const void* key) const {
    if (count_ == 0 || key == nullptr) return nullptr;
    const Slot& slot = slots_[Place(key)];
    return slot.key == nullptr ? nullptr : &slot.value;
  }
  Value* Find(const void* key) { return const_cast<Value*>(std::as_const(*this).Find(key)); }

  // The entry, made with the default value where there is none; and whether it was made.
  std::pair<Value*, bool> Insert(const void* key) {
    if (2 * (count_ + 1) > slots_.size()) Grow();
    Slot& slot = slots_[Place(key)];
    const bool is_new = slot.key == nullptr;
    if (is_new) {
      slot.key = key;
      ++count_;
    }
    return {&slot.value, is_new};
  }
  Value& operator[](const void* key) { return *Insert(key).first; }

  size_t size() const { return count_; }

 private:
  struct Slot {
    const void* key = nullptr;
    Value value{};
  };

  // Where the key is, or would be.
  size_t Place(const void* key) const {
    const size_t mask = slots_.size() - 1;
    // The upper half of the product has all bits of the key in it.
    const uint64_t product = reinterpret_cast<uintptr_t>(key) * uint64_t{0x9e3779b97f4a7c15};
    size_t at = static_cast<size_t>(product >> 32) & mask;
    while (slots_[at].key != nullptr && slots_[at].key != key) at = (at + 1) & mask;
    return at;
  }

  void Grow() {
    std::vector<Slot> before(slots_.empty() ? 64 : 2 * slots_.size());
    before.swap(slots_);
    for (Slot& slot : before) {
      if (slot.key != nullptr) slots_[Place(slot.key)] = std::move(slot);
    }
  }

  std::vector<Slot> slots_;  // a power of two, at least half of them free
  size_t count_ = 0;
};

}  // namespace qnnrt
