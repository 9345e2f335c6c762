// Whether an arena of a given size holds the items: a depth-first search over canonical offset
// assignments.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/planner/planner.h"
#include "support/interrupt.h"

namespace qnnrt {

// Why a search ended.
enum class Fit { kFound, kNone, kStopped };

// What a search may use. One that was stopped by its steps ends in the same state on every machine,
// one that was stopped by the clock does not.
struct SearchLimits {
  uint64_t steps = UINT64_MAX;           // decisions tried
  uint64_t deadline = UINT64_MAX;        // of MonotonicNanoseconds
  const Interrupt* interrupt = nullptr;  // null: none
};

// A solution, if there is one, can be taken to be canonical: the one with the smallest sum of
// offsets, in which each item lies on another one or at 0 and fits into no gap below it. So there
// are two possibilities for the item with the lowest free offset: it is allocated there, or another
// unallocated item comes below it, and it is lifted. The search tries the first, then the
// second, and goes back as soon as
//  - in some step the unallocated items do not fit above the lowest offset free to them, or
//  - nothing is left that could lift an item far enough and leave no gap of its own size below.
// With each bound goes the set of items whose decisions it follows from. When something fails, the
// search goes back to the last decision in that set, and skips those that have nothing to do with
// it. Items that are left split into groups that share no step; one is searched after the other.
// The state is kept in vectors; there is no recursion.
class ArenaSearch {
 public:
  static constexpr size_t kMostItems = 4096;
  // Items with a size, all of them checked, at most kMostItems: memory grows with the square of
  // their number.
  explicit ArenaSearch(const std::vector<ArenaItem>& items);

  // Items whose lowest free offsets are the same are decided by their rank, the lowest first. Adds
  // what it used to *steps.
  Fit Run(uint64_t capacity, const std::vector<uint32_t>& rank, const SearchLimits& limits,
          uint64_t* steps);

  // After kFound: for each item in the order given.
  std::vector<uint64_t> Offsets() const;

 private:
  // Sorted by `from`: the items of a range of sections are a range, too.
  struct Item {
    uint64_t room;  // size rounded up to the granularity: nothing else can use the rest
    uint64_t size;
    uint64_t alignment;
    uint32_t from, to;  // sections in which it is alive: [from, to)
    uint32_t given;     // its number in the items given
  };
  // Unallocated items that share steps only with each other.
  struct Group {
    uint32_t first, end;    // items
    uint32_t begin, close;  // sections
    int64_t next;           // the group that waits behind it; -1: none
  };
  // One decision, about one item of a group.
  struct Choice {
    Group group;
    size_t undo, groups;  // how long each stack was
    uint32_t item;
    bool lifted;  // the second possibility is being tried
  };
  struct Undo {
    uint64_t* where;
    uint64_t before;
  };
  enum State : uint64_t { kOpen, kLifted, kAssigned };

  void Reset();
  void Set(uint64_t* where, uint64_t value) {
    if (*where == value) return;
    undo_.push_back({where, *where});
    *where = value;
  }
  bool Decide();
  bool GoBack();
  bool RaiseLifted(const Group& group, uint32_t* next);
  bool Assign(uint32_t item);
  bool Lift(uint32_t item);
  bool SectionsHold(uint32_t begin, uint32_t end);
  void Split(const Group& group);
  void Rewind(const Choice& choice);

  // Sets of items, as words of bits.
  uint64_t* WhyOffset(uint32_t item) { return &why_[size_t{item} * words_]; }
  uint64_t* WhyLifted(uint32_t item) { return &why_lifted_[size_t{item} * words_]; }
  uint64_t* Failed(size_t choice) { return &failed_[choice * words_]; }
  void Blame(const uint64_t* set) {
    for (size_t w = 0; w < words_; ++w) blame_[w] |= set[w];
  }
  void BlameItem(uint32_t item) { blame_[item / 64] |= uint64_t{1} << (item % 64); }
  void BlameBound(uint32_t item);
  void BlameNobody() { blame_.assign(words_, 0); }
  void BlameAll() { blame_.assign(words_, UINT64_MAX); }
  bool Blamed(uint32_t item) const { return (blame_[item / 64] >> (item % 64) & 1) != 0; }

  uint64_t capacity_ = 0, rooms_ = 0, granularity_ = 1;
  size_t words_ = 0;
  std::vector<Item> items_;
  std::vector<uint32_t> rank_;                          // of items_
  std::vector<uint32_t> neighbours_, neighbour_begin_;  // alive together, item by item
  std::vector<uint32_t> members_, member_begin_;        // items of each section
  std::vector<uint64_t> state_;
  std::vector<uint64_t> offset_;     // the lowest free one; once assigned, the item's own
  std::vector<uint64_t> bound_;      // the same, or more for a lifted item
  std::vector<uint64_t> remaining_;  // of a section: room of its unallocated items
  std::vector<uint64_t> why_, why_lifted_, failed_, blame_;
  std::vector<Undo> undo_;
  std::vector<Group> groups_;
  std::vector<Choice> choices_;
  int64_t waiting_ = -1;  // the group to decide about next
};

}  // namespace qnnrt
