#include "graph/planner/measure.h"

#include <algorithm>
#include <set>

namespace qnnrt {
namespace {

// The sections, from one start to the next, in which an item is alive: [first, second).
std::pair<size_t, size_t> Sections(const std::vector<uint32_t>& starts, const ArenaItem& item) {
  auto from = std::lower_bound(starts.begin(), starts.end(), item.first) - starts.begin();
  auto to = std::upper_bound(starts.begin(), starts.end(), item.last) - starts.begin();
  return {static_cast<size_t>(from), static_cast<size_t>(to)};
}

// Calls `at` with the items that enter and leave, step by step; at one step the leaving ones come
// first.
template <typename Enter, typename Leave, typename At>
void Sweep(const std::vector<ArenaItem>& items, Enter enter, Leave leave, At at) {
  std::vector<std::pair<uint64_t, int64_t>> events;  // step, and item + 1: negative when it leaves
  events.reserve(items.size() * 2);
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].size == 0) continue;
    const auto number = static_cast<int64_t>(i) + 1;
    events.emplace_back(items[i].first, number);
    events.emplace_back(uint64_t{items[i].last} + 1, -number);
  }
  std::sort(events.begin(), events.end());
  for (const auto& event : events) {
    if (event.second < 0) {
      leave(items[static_cast<size_t>(-event.second - 1)]);
    } else {
      enter(items[static_cast<size_t>(event.second - 1)]);
      at();
    }
  }
}

}  // namespace

std::vector<uint32_t> ArenaStarts(const std::vector<ArenaItem>& items) {
  std::vector<uint32_t> starts;
  starts.reserve(items.size());
  for (const ArenaItem& item : items) starts.push_back(item.first);
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  return starts;
}

uint64_t ArenaLowerBound(const std::vector<ArenaItem>& items) {
  uint64_t live = 0, most = 0;
  Sweep(
      items, [&](const ArenaItem& item) { live += item.size; },
      [&](const ArenaItem& item) { live -= item.size; }, [&] { most = std::max(most, live); });
  return most;
}

uint64_t ArenaAlignedBound(const std::vector<ArenaItem>& items) {
  uint64_t smallest = UINT64_MAX;
  for (const ArenaItem& item : items) {
    if (item.size != 0) smallest = std::min(smallest, item.alignment);
  }
  uint64_t live = 0, most = 0;
  std::multiset<uint64_t> lost;  // one of the items alive is on top, and loses nothing
  auto room = [&](const ArenaItem& item) { return AlignUp(item.size, smallest); };
  Sweep(
      items,
      [&](const ArenaItem& item) {
        live += room(item);
        lost.insert(room(item) - item.size);
      },
      [&](const ArenaItem& item) {
        live -= room(item);
        lost.erase(lost.find(room(item) - item.size));
      },
      [&] { most = std::max(most, live - *lost.rbegin()); });
  return most;
}

std::vector<uint64_t> ArenaPressure(const std::vector<ArenaItem>& items) {
  const std::vector<uint32_t> starts = ArenaStarts(items);
  std::vector<uint64_t> live(starts.size(), 0);
  for (const ArenaItem& item : items) {
    auto [from, to] = Sections(starts, item);
    for (size_t s = from; s < to; ++s) live[s] += item.size;
  }
  std::vector<uint64_t> pressure(items.size(), 0);
  for (size_t i = 0; i < items.size(); ++i) {
    auto [from, to] = Sections(starts, items[i]);
    for (size_t s = from; s < to; ++s) pressure[i] = std::max(pressure[i], live[s]);
  }
  return pressure;
}

}  // namespace qnnrt
