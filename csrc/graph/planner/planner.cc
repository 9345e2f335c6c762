#include "graph/planner/planner.h"

#include <algorithm>
#include <cinttypes>
#include <limits>
#include <map>
#include <numeric>

#include "abi/qnn_errors.h"
#include "graph/planner/exact.h"
#include "graph/planner/measure.h"
#include "support/checked.h"

namespace qnnrt {
namespace {

constexpr ErrorCode kInternal = QNN_GRAPH_ERROR_FINALIZE_FAILED;
constexpr uint64_t kNoOffset = std::numeric_limits<uint64_t>::max();
// Beyond this many items the whole portfolio would take seconds: the two orders that win most stay.
constexpr size_t kFullPortfolio = 1500;
constexpr size_t kImproveRounds = 200;

bool Overlaps(const ArenaItem& a, const ArenaItem& b) {
  return a.first <= b.last && b.first <= a.last;
}

enum class Gap { kFirst, kBest };

class GreedyPlanner {
 public:
  explicit GreedyPlanner(const std::vector<ArenaItem>& items) : items_(items) {}

  // Assigns offsets to items in `order`; the peak, or kNoOffset as soon as `give_up_at` is reached.
  uint64_t Assign(const std::vector<uint32_t>& order, Gap gap, uint64_t give_up_at,
                  std::vector<uint64_t>* offsets) {
    assigned_.clear();
    offsets->assign(items_.size(), 0);
    uint64_t peak = 0;
    for (uint32_t index : order) {
      const ArenaItem& item = items_[index];
      if (item.size == 0) continue;
      uint64_t offset = FindOffset(item, gap, *offsets);
      (*offsets)[index] = offset;
      peak = std::max(peak, offset + item.size);
      if (peak >= give_up_at) return kNoOffset;
      auto at =
          std::upper_bound(assigned_.begin(), assigned_.end(), index,
                           [&](uint32_t a, uint32_t b) { return (*offsets)[a] < (*offsets)[b]; });
      assigned_.insert(at, index);
    }
    return peak;
  }

 private:
  uint64_t FindOffset(const ArenaItem& item, Gap gap, const std::vector<uint64_t>& offsets) const {
    uint64_t end = 0;  // end of the conflicting memory seen so far
    uint64_t best = kNoOffset, best_room = kNoOffset;
    for (uint32_t other : assigned_) {  // by offset
      const ArenaItem& neighbour = items_[other];
      if (!Overlaps(item, neighbour)) continue;
      uint64_t start = AlignUp(end, item.alignment);
      if (offsets[other] >= start && offsets[other] - start >= item.size) {
        if (gap == Gap::kFirst) return start;
        uint64_t room = offsets[other] - start;
        if (room < best_room) best = start, best_room = room;
      }
      end = std::max(end, offsets[other] + neighbour.size);
    }
    return best != kNoOffset ? best : AlignUp(end, item.alignment);
  }

  const std::vector<ArenaItem>& items_;
  std::vector<uint32_t> assigned_;  // indices, by offset
};

struct Order {
  const char* name;
  std::vector<uint32_t> items;
};

// Ties fall back to the index, so the order never depends on the sort's implementation.
template <typename Less>
Order Sorted(const char* name, size_t count, Less less) {
  Order order{name, std::vector<uint32_t>(count)};
  std::iota(order.items.begin(), order.items.end(), 0u);
  std::stable_sort(order.items.begin(), order.items.end(), less);
  return order;
}

Order BySize(const std::vector<ArenaItem>& items) {
  return Sorted("size", items.size(),
                [&](uint32_t a, uint32_t b) { return items[a].size > items[b].size; });
}

std::vector<Order> Portfolio(const std::vector<ArenaItem>& items) {
  auto life = [&](uint32_t i) { return uint64_t{items[i].last} - items[i].first + 1; };
  auto area = [&](uint32_t i) {
    return static_cast<double>(life(i)) * static_cast<double>(items[i].size);
  };
  std::vector<Order> orders{BySize(items)};
  auto add = [&](const char* name, auto less) {
    orders.push_back(Sorted(name, items.size(), less));
  };
  auto size = [&](uint32_t i) { return items[i].size; };
  add("area", [&](uint32_t a, uint32_t b) { return area(a) > area(b); });
  if (items.size() > kFullPortfolio) return orders;
  add("lifetime", [&](uint32_t a, uint32_t b) {
    return life(a) != life(b) ? life(a) > life(b) : size(a) > size(b);
  });
  add("start", [&](uint32_t a, uint32_t b) {
    return items[a].first != items[b].first ? items[a].first < items[b].first : size(a) > size(b);
  });
  std::vector<uint64_t> pressure = ArenaPressure(items);
  add("pressure, size", [&](uint32_t a, uint32_t b) {
    return pressure[a] != pressure[b] ? pressure[a] > pressure[b] : size(a) > size(b);
  });
  add("pressure, area", [&](uint32_t a, uint32_t b) {
    return pressure[a] != pressure[b] ? pressure[a] > pressure[b] : area(a) > area(b);
  });
  add("pressure, lifetime", [&](uint32_t a, uint32_t b) {
    return pressure[a] != pressure[b] ? pressure[a] > pressure[b] : life(a) > life(b);
  });
  add("pressure, start", [&](uint32_t a, uint32_t b) {
    return pressure[a] != pressure[b] ? pressure[a] > pressure[b] : items[a].first < items[b].first;
  });
  return orders;
}

// An item at the peak was allocated too late: it moves to the front, and all offsets are assigned
// again. Ends when that item is the first already, or after kImproveRounds.
void Improve(const std::vector<ArenaItem>& items, GreedyPlanner* planner,
             std::vector<uint32_t> order, Gap gap, uint64_t bound, ArenaPlan* plan) {
  std::vector<uint64_t> offsets = plan->offsets;
  uint64_t peak = plan->peak;
  size_t rounds = items.size() > kFullPortfolio ? 0 : kImproveRounds;
  for (size_t round = 0; round < rounds && plan->peak > bound; ++round) {
    auto top = std::find_if(order.begin(), order.end(), [&](uint32_t i) {
      return items[i].size > 0 && offsets[i] + items[i].size == peak;
    });
    if (top == order.end() || top == order.begin()) return;
    std::rotate(order.begin(), top, top + 1);
    peak = planner->Assign(order, gap, kNoOffset, &offsets);
    if (peak < plan->peak) {
      plan->peak = peak;
      plan->offsets = offsets;
    }
  }
}

Status CheckItems(const std::vector<ArenaItem>& items, uint64_t* sum) {
  *sum = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const ArenaItem& item = items[i];
    if (!IsPowerOfTwo(item.alignment) || item.alignment > (uint64_t{1} << 40)) {
      return Error(kInternal,
                   "arena item %zu: alignment %" PRIu64 " is not a power of two up to 2^40", i,
                   item.alignment);
    }
    if (item.first > item.last) {
      return Error(kInternal, "arena item %zu: first step %u comes after last step %u", i,
                   item.first, item.last);
    }
    uint64_t padded;
    if (!CheckedAdd(item.size, item.alignment, &padded) || !CheckedAdd(*sum, padded, sum) ||
        *sum > kMostArenaBytes) {
      return Error(kInternal, "arena item %zu: the sizes add up to more than 2^62 bytes", i);
    }
  }
  *sum = 0;
  for (const ArenaItem& item : items) *sum += item.size;
  return Status::Ok();
}

}  // namespace

Result<ArenaPlan> PlanArenaBySize(const std::vector<ArenaItem>& items) {
  ArenaPlan plan;
  QNNRT_RETURN_IF_ERROR(CheckItems(items, &plan.sum));
  plan.lower_bound = ArenaLowerBound(items);
  const Order order = BySize(items);
  plan.peak = GreedyPlanner(items).Assign(order.items, Gap::kFirst, kNoOffset, &plan.offsets);
  plan.order = order.name;
  plan.proved = plan.peak == ArenaAlignedBound(items);
  QNNRT_RETURN_IF_ERROR(VerifyPlan(items, plan.offsets, plan.peak));
  return plan;
}

Result<ArenaPlan> PlanArena(const std::vector<ArenaItem>& items, const ArenaBudget& budget) {
  ArenaPlan plan;
  QNNRT_RETURN_IF_ERROR(CheckItems(items, &plan.sum));
  plan.lower_bound = ArenaLowerBound(items);
  plan.offsets.assign(items.size(), 0);
  plan.peak = kNoOffset;
  const uint64_t bound = ArenaAlignedBound(items);
  GreedyPlanner planner(items);
  std::vector<uint64_t> offsets;
  std::vector<uint32_t> best;
  Gap best_gap = Gap::kFirst;
  for (const Order& order : Portfolio(items)) {
    for (Gap gap : {Gap::kFirst, Gap::kBest}) {
      uint64_t peak = planner.Assign(order.items, gap, plan.peak, &offsets);
      if (peak < plan.peak) {
        plan.peak = peak;
        plan.offsets = offsets;
        plan.order = order.name;
        best = order.items;
        best_gap = gap;
      }
      if (plan.peak == bound) break;
    }
    if (plan.peak == bound) break;
  }
  Improve(items, &planner, std::move(best), best_gap, bound, &plan);
  plan.proved = plan.peak == bound;
  if (!plan.proved && (budget.milliseconds != 0 || budget.steps != 0))
    QNNRT_RETURN_IF_ERROR(ImprovePlan(items, budget, &plan));
  QNNRT_RETURN_IF_ERROR(VerifyPlan(items, plan.offsets, plan.peak));
  return plan;
}

Status VerifyPlan(const std::vector<ArenaItem>& items, const std::vector<uint64_t>& offsets,
                  uint64_t peak) {
  if (offsets.size() != items.size()) {
    return Error(kInternal, "plan has %zu offsets for %zu items", offsets.size(), items.size());
  }
  std::vector<size_t> enters, leaves;
  for (size_t i = 0; i < items.size(); ++i) {
    const ArenaItem& a = items[i];
    if (a.size == 0) continue;
    if (offsets[i] % a.alignment != 0) {
      return Error(kInternal,
                   "item %zu: offset %" PRIu64 " is not on its %" PRIu64 "-byte boundary", i,
                   offsets[i], a.alignment);
    }
    uint64_t end;
    if (!CheckedAdd(offsets[i], a.size, &end) || end > peak) {
      return Error(kInternal, "item %zu ends beyond the peak of %" PRIu64 " bytes", i, peak);
    }
    enters.push_back(i);
  }
  leaves = enters;
  std::sort(enters.begin(), enters.end(),
            [&](size_t a, size_t b) { return items[a].first < items[b].first; });
  std::sort(leaves.begin(), leaves.end(),
            [&](size_t a, size_t b) { return items[a].last < items[b].last; });
  // Those alive, by offset: as long as none share bytes, a new one can only meet its neighbours.
  std::map<uint64_t, size_t> alive;
  auto next_leave = leaves.begin();
  for (size_t i : enters) {
    for (; items[*next_leave].last < items[i].first; ++next_leave)
      alive.erase(offsets[*next_leave]);
    const auto above = alive.lower_bound(offsets[i]);
    size_t other = i;
    if (above != alive.end() && above->first < offsets[i] + items[i].size) other = above->second;
    if (above != alive.begin()) {
      const size_t below = std::prev(above)->second;
      if (offsets[below] + items[below].size > offsets[i]) other = below;
    }
    if (other != i) {
      return Error(kInternal, "items %zu and %zu are alive together and share bytes",
                   std::min(i, other), std::max(i, other));
    }
    alive.emplace(offsets[i], i);
  }
  return Status::Ok();
}

}  // namespace qnnrt
