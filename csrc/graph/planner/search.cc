#include "graph/planner/search.h"

#include <algorithm>
#include <numeric>

#include "graph/planner/measure.h"
#include "support/clock.h"

namespace qnnrt {
namespace {

constexpr int64_t kNobody = -1;
constexpr uint64_t kNowhere = UINT64_MAX;
constexpr uint64_t kClockEvery = 256;  // decisions between two looks at the clock
// Words that the stacks may hold; a search that needs more is stopped. 64 MiB for the larger one.
constexpr size_t kMostWords = size_t{1} << 22;

}  // namespace

ArenaSearch::ArenaSearch(const std::vector<ArenaItem>& items) {
  const std::vector<uint32_t> starts = ArenaStarts(items);
  granularity_ = uint64_t{1} << 40;
  for (const ArenaItem& item : items) granularity_ = std::min(granularity_, item.alignment);
  for (uint32_t i = 0; i < items.size(); ++i) {
    const ArenaItem& item = items[i];
    auto from = std::lower_bound(starts.begin(), starts.end(), item.first) - starts.begin();
    auto to = std::upper_bound(starts.begin(), starts.end(), item.last) - starts.begin();
    items_.push_back({AlignUp(item.size, granularity_), item.size, item.alignment,
                      static_cast<uint32_t>(from), static_cast<uint32_t>(to), i});
  }
  std::stable_sort(items_.begin(), items_.end(),
                   [](const Item& a, const Item& b) { return a.from < b.from; });

  member_begin_.assign(starts.size() + 1, 0);
  for (const Item& item : items_) {
    for (uint32_t s = item.from; s < item.to; ++s) ++member_begin_[s + 1];
  }
  std::partial_sum(member_begin_.begin(), member_begin_.end(), member_begin_.begin());
  members_.resize(member_begin_.back());
  std::vector<uint32_t> next(member_begin_.begin(), member_begin_.end() - 1);
  for (uint32_t i = 0; i < items_.size(); ++i) {
    for (uint32_t s = items_[i].from; s < items_[i].to; ++s) members_[next[s]++] = i;
  }

  neighbour_begin_.push_back(0);
  for (uint32_t i = 0; i < items_.size(); ++i) {
    for (uint32_t j = 0; j < items_.size() && items_[j].from < items_[i].to; ++j) {
      if (j != i && items_[i].from < items_[j].to) neighbours_.push_back(j);
    }
    neighbour_begin_.push_back(static_cast<uint32_t>(neighbours_.size()));
  }
  remaining_.resize(starts.size());
  words_ = (items_.size() + 63) / 64;
}

void ArenaSearch::Reset() {
  offset_.assign(items_.size(), 0);
  bound_.assign(items_.size(), 0);
  state_.assign(items_.size(), kOpen);
  why_.assign(items_.size() * words_, 0);
  why_lifted_.assign(items_.size() * words_, 0);
  std::fill(remaining_.begin(), remaining_.end(), 0);
  for (const Item& item : items_) {
    for (uint32_t s = item.from; s < item.to; ++s) remaining_[s] += item.room;
  }
  undo_.clear();
  groups_.clear();
  choices_.clear();
  waiting_ = kNobody;
}

Fit ArenaSearch::Run(uint64_t capacity, const std::vector<uint32_t>& rank,
                     const SearchLimits& limits, uint64_t* steps) {
  // The rooms have to fit into whole multiples; sizes are compared with the capacity itself.
  capacity_ = capacity;
  rooms_ = AlignUp(capacity, granularity_);
  Reset();
  rank_.resize(items_.size());
  for (uint32_t i = 0; i < items_.size(); ++i) {
    rank_[i] = rank[items_[i].given];
    if (items_[i].size > capacity) return Fit::kNone;
  }
  const uint32_t sections = static_cast<uint32_t>(remaining_.size());
  if (!SectionsHold(0, sections)) return Fit::kNone;
  Split({0, static_cast<uint32_t>(items_.size()), 0, sections, kNobody});
  for (uint64_t used = 1; waiting_ != kNobody; ++used, ++*steps) {
    if (used > limits.steps) return Fit::kStopped;
    if (used % kClockEvery == 0) {
      if (limits.interrupt != nullptr && !limits.interrupt->Check().ok()) return Fit::kStopped;
      if (limits.deadline != UINT64_MAX && MonotonicNanoseconds() >= limits.deadline)
        return Fit::kStopped;
    }
    if (undo_.size() > kMostWords || choices_.size() * words_ > kMostWords) return Fit::kStopped;
    if (!Decide() && !GoBack()) return Fit::kNone;
  }
  return Fit::kFound;
}

// Allocates the lowest item of the waiting group. False: some item has no room, for the reasons in
// blame_.
bool ArenaSearch::Decide() {
  const Group group = groups_[static_cast<size_t>(waiting_)];
  uint32_t next = 0;
  if (!RaiseLifted(group, &next)) return false;
  choices_.push_back({group, undo_.size(), groups_.size(), next, false});
  waiting_ = group.next;
  if (failed_.size() < choices_.size() * words_) failed_.resize(choices_.size() * words_);
  if (!Assign(next)) return false;
  Split(group);
  return true;
}

// Back to the last decision that is to blame, and on with its other possibility. False: none is.
bool ArenaSearch::GoBack() {
  while (true) {
    while (!choices_.empty() && !Blamed(choices_.back().item)) choices_.pop_back();
    if (choices_.empty()) return false;
    Choice& choice = choices_.back();
    const uint32_t item = choice.item;
    Rewind(choice);
    blame_[item / 64] &= ~(uint64_t{1} << (item % 64));
    uint64_t* failed = Failed(choices_.size() - 1);
    if (choice.lifted) {
      Blame(failed);
      choices_.pop_back();
      continue;
    }
    std::copy(blame_.begin(), blame_.end(), failed);
    choice.lifted = true;
    waiting_ = static_cast<int64_t>(groups_.size());
    groups_.push_back(choice.group);
    if (Lift(item)) return true;
  }
}

void ArenaSearch::Rewind(const Choice& choice) {
  for (; undo_.size() > choice.undo; undo_.pop_back()) *undo_.back().where = undo_.back().before;
  groups_.resize(choice.groups);
  waiting_ = choice.group.next;
}

// Brings the bounds of lifted items up to date, and finds the item to decide about: the lowest of
// the others.
bool ArenaSearch::RaiseLifted(const Group& group, uint32_t* next) {
  bool any = false;
  for (uint32_t i = group.first; i < group.end; ++i) {
    if (state_[i] == kLifted && !Lift(i)) return false;
    if (state_[i] != kOpen) continue;
    if (!any || offset_[i] < offset_[*next] ||
        (offset_[i] == offset_[*next] && rank_[i] < rank_[*next])) {
      *next = i;
    }
    any = true;
  }
  if (!any) BlameAll();  // lifted items wait for each other
  return any;
}

// Raises the bound of an item that is to be allocated above a neighbour that comes later, and not
// above a gap of its own size.
bool ArenaSearch::Lift(uint32_t index) {
  const Item& item = items_[index];
  const uint64_t top = offset_[index] + item.room;
  uint64_t lowest = kNowhere;
  for (uint32_t n = neighbour_begin_[index]; n < neighbour_begin_[index + 1]; ++n) {
    const uint32_t other = neighbours_[n];
    if (state_[other] != kAssigned && bound_[other] < top)
      lowest = std::min(lowest, bound_[other] + items_[other].room);
  }
  if (lowest != kNowhere) lowest = AlignUp(lowest, item.alignment);
  if (state_[index] == kLifted && lowest == bound_[index]) return true;
  // To blame: its neighbours' offsets or bounds.
  BlameNobody();
  BlameItem(index);
  Blame(WhyOffset(index));
  for (uint32_t n = neighbour_begin_[index]; n < neighbour_begin_[index + 1]; ++n) {
    const uint32_t other = neighbours_[n];
    if (lowest != kNowhere && AlignUp(items_[other].room, item.alignment) >= lowest) continue;
    if (state_[other] == kAssigned) BlameItem(other);
    BlameBound(other);
  }
  if (lowest == kNowhere || lowest + item.size > capacity_) return false;
  Set(&state_[index], kLifted);
  Set(&bound_[index], lowest);
  for (size_t w = 0; w < words_; ++w) Set(&WhyLifted(index)[w], blame_[w]);
  return SectionsHold(item.from, item.to);
}

void ArenaSearch::BlameBound(uint32_t item) {
  Blame(WhyOffset(item));
  if (state_[item] == kLifted) Blame(WhyLifted(item));
}

// Allocates the item at its lowest free offset, which raises that of its neighbours. False: one of
// them has no room there.
bool ArenaSearch::Assign(uint32_t index) {
  const Item& item = items_[index];
  Set(&state_[index], kAssigned);
  for (uint32_t s = item.from; s < item.to; ++s) Set(&remaining_[s], remaining_[s] - item.room);
  const uint64_t offset = offset_[index], top = offset + item.room;
  uint32_t begin = item.from, end = item.to;
  for (uint32_t n = neighbour_begin_[index]; n < neighbour_begin_[index + 1]; ++n) {
    const uint32_t j = neighbours_[n];
    if (state_[j] == kAssigned) continue;
    if (offset_[j] + items_[j].room <= offset) {  // a gap below this one that it fits into
      BlameAll();
      return false;
    }
    if (offset_[j] >= top) continue;
    const uint64_t lowest = AlignUp(top, items_[j].alignment);
    // It has no room below this one: because of the items there, unless it is too large anyway.
    const bool too_large = items_[j].room > offset;
    for (size_t w = 0; w < words_; ++w) {
      uint64_t why = WhyOffset(index)[w] | (too_large ? 0 : WhyOffset(j)[w]);
      if (w == index / 64) why |= uint64_t{1} << (index % 64);
      Set(&WhyOffset(j)[w], why);
    }
    Set(&offset_[j], lowest);
    Set(&bound_[j], lowest);
    Set(&state_[j], kOpen);
    if (lowest + items_[j].size > capacity_) {
      BlameNobody();
      Blame(WhyOffset(j));
      return false;
    }
    begin = std::min(begin, items_[j].from);
    end = std::max(end, items_[j].to);
  }
  return SectionsHold(begin, end);
}

// Whether the unallocated items of each section fit above the lowest offset free in it.
bool ArenaSearch::SectionsHold(uint32_t begin, uint32_t end) {
  for (uint32_t s = begin; s < end; ++s) {
    if (remaining_[s] == 0) continue;
    uint64_t floor = kNowhere;
    for (uint32_t m = member_begin_[s]; m < member_begin_[s + 1]; ++m) {
      const uint32_t i = members_[m];
      if (state_[i] != kAssigned) floor = std::min(floor, bound_[i]);
    }
    if (floor + remaining_[s] <= rooms_) continue;
    BlameNobody();
    for (uint32_t m = member_begin_[s]; m < member_begin_[s + 1]; ++m) {
      if (state_[members_[m]] != kAssigned) BlameBound(members_[m]);
    }
    return false;
  }
  return true;
}

// Splits the rest of a group where no unallocated item is alive. An item that is alone in its part
// is allocated at its lowest free offset.
void ArenaSearch::Split(const Group& group) {
  uint32_t i = group.first;
  while (i < group.end) {
    if (state_[i] == kAssigned) {
      ++i;
      continue;
    }
    Group part = {i, i + 1, items_[i].from, items_[i].to, waiting_};
    uint32_t count = 1;
    for (++i; i < group.end && (state_[i] == kAssigned || items_[i].from < part.close); ++i) {
      if (state_[i] == kAssigned) continue;
      part.end = i + 1;
      part.close = std::max(part.close, items_[i].to);
      ++count;
    }
    if (count == 1) {
      Set(&state_[part.first], kAssigned);
    } else {
      waiting_ = static_cast<int64_t>(groups_.size());
      groups_.push_back(part);
    }
  }
}

std::vector<uint64_t> ArenaSearch::Offsets() const {
  std::vector<uint64_t> offsets(items_.size());
  for (uint32_t i = 0; i < items_.size(); ++i) offsets[items_[i].given] = offset_[i];
  return offsets;
}

}  // namespace qnnrt
