#include "graph/planner/exact.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "graph/planner/measure.h"
#include "graph/planner/search.h"
#include "support/clock.h"

namespace qnnrt {
namespace {

// A search that has gone wrong early is better begun again in another order than waited for: each
// gets so many decisions, and twice as many after every second round through the orders, of which
// the second is with noise. Chosen on the hard instances of tests/data/minimalloc.
constexpr uint64_t kFirstSteps = 4000;
constexpr uint32_t kMostDoublings = 20;

using Keys = std::vector<double>;

// What items can be ordered by, the largest first.
struct Measures {
  explicit Measures(const std::vector<ArenaItem>& items) {
    const std::vector<uint64_t> most = ArenaPressure(items);
    std::vector<uint32_t> first, last;
    for (const ArenaItem& item : items) {
      first.push_back(item.first);
      last.push_back(item.last);
    }
    std::sort(first.begin(), first.end());
    std::sort(last.begin(), last.end());
    const double end = static_cast<double>(last.back()) + 1;
    for (size_t i = 0; i < items.size(); ++i) {
      const ArenaItem& item = items[i];
      pressure.push_back(static_cast<double>(most[i]));
      life.push_back(static_cast<double>(item.last - item.first) + 1);
      size.push_back(static_cast<double>(item.size));
      area.push_back(life.back() * size.back());
      early.push_back(end - static_cast<double>(item.first));
      // Those that begin before it ends, but for those that end before it begins.
      auto begun = std::upper_bound(first.begin(), first.end(), item.last) - first.begin();
      auto ended = std::lower_bound(last.begin(), last.end(), item.first) - last.begin();
      neighbours.push_back(static_cast<double>(begun - ended));
    }
  }
  Keys pressure, life, size, area, early, neighbours;
};

// The same numbers on every machine.
class Random {
 public:
  // From 1 - 1/8 to 1 + 1/8, exactly.
  double Factor() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return 1 + (static_cast<double>(state_ >> 56) - 128) / 1024;
  }

 private:
  uint64_t state_ = 1;
};

// A part of the schedule that shares no step with the others.
struct Part {
  std::vector<uint32_t> numbers;  // of its items among all
  std::vector<ArenaItem> items;
  uint64_t peak = 0;   // of the best offsets known
  uint64_t bound = 0;  // no offsets need less
  uint64_t unit = 0;   // every peak is a multiple of it
};

std::vector<Part> Parts(const std::vector<ArenaItem>& items, const ArenaPlan& plan) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < items.size(); ++i) {
    if (items[i].size != 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return items[a].first < items[b].first; });
  std::vector<Part> parts;
  uint32_t last = 0;
  for (uint32_t i : order) {
    const ArenaItem& item = items[i];
    if (parts.empty() || item.first > last) parts.emplace_back();
    last = std::max(last, item.last);
    Part& part = parts.back();
    part.numbers.push_back(i);
    part.items.push_back(item);
    part.peak = std::max(part.peak, plan.offsets[i] + item.size);
    part.unit = std::gcd(std::gcd(part.unit, item.size), item.alignment);
  }
  for (Part& part : parts) part.bound = ArenaAlignedBound(part.items);
  return parts;
}

// Searches one part again and again, in other orders and for other peaks.
class Minimizer {
 public:
  Minimizer(Part* part, ArenaPlan* plan) : part_(part), plan_(plan), measures_(part->items) {}

  // One search, for a peak of at least `least`.
  void Try(uint64_t least, SearchLimits limits, uint64_t* steps) {
    if (!search_) search_.emplace(part_->items);
    const uint32_t pass = tries_ / kAims, order = pass % kOrders, round = pass / kOrders;
    const uint64_t half = (part_->peak - least - 1) / 2 / part_->unit * part_->unit;
    const uint64_t target = tries_ % kAims == 0 ? least : least + half;
    limits.steps = std::min(limits.steps, kFirstSteps << std::min(round / 2, kMostDoublings));
    const Fit fit = search_->Run(target, Rank(order, round % 2 != 0), limits, steps);
    ++tries_;
    if (fit == Fit::kFound) Take(search_->Offsets());
    if (fit == Fit::kNone) part_->bound = target / part_->unit * part_->unit + part_->unit;
  }

 private:
  static constexpr uint32_t kOrders = 6;
  // In each order once for the least, then for half of the way down, and for half of what is left.
  static constexpr uint32_t kAims = 3;

  // Each item's position in an order; with noise, in one like it.
  std::vector<uint32_t> Rank(uint32_t order, bool noise) {
    const Measures& m = measures_;
    const Keys* const orders[kOrders][3] = {
        {&m.pressure, &m.life, &m.area},  {&m.area, &m.life, &m.pressure},
        {&m.life, &m.area, &m.pressure},  {&m.neighbours, &m.area, &m.pressure},
        {&m.pressure, &m.early, &m.area}, {&m.early, &m.size, &m.pressure}};
    Keys keys[3];
    for (int k = 0; k < 3; ++k) {
      keys[k] = *orders[order][k];
      for (size_t i = 0; noise && i < keys[k].size(); ++i) keys[k][i] *= random_.Factor();
    }
    std::vector<uint32_t> index(part_->items.size()), rank(index.size());
    std::iota(index.begin(), index.end(), 0u);
    std::stable_sort(index.begin(), index.end(), [&](uint32_t a, uint32_t b) {
      for (const Keys& key : keys) {
        if (key[a] != key[b]) return key[a] > key[b];
      }
      return false;
    });
    for (uint32_t i = 0; i < index.size(); ++i) rank[index[i]] = i;
    return rank;
  }

  void Take(const std::vector<uint64_t>& offsets) {
    part_->peak = 0;
    for (size_t i = 0; i < offsets.size(); ++i) {
      plan_->offsets[part_->numbers[i]] = offsets[i];
      part_->peak = std::max(part_->peak, offsets[i] + part_->items[i].size);
    }
  }

  Part* part_;
  ArenaPlan* plan_;
  Measures measures_;
  std::optional<ArenaSearch> search_;
  Random random_;
  uint32_t tries_ = 0;
};

}  // namespace

Status ImprovePlan(const std::vector<ArenaItem>& items, const ArenaBudget& budget,
                   ArenaPlan* plan) {
  SearchLimits limits;
  if (budget.milliseconds != 0)
    limits.deadline = MonotonicNanoseconds() + uint64_t{budget.milliseconds} * 1000000;
  limits.interrupt = budget.interrupt;
  const uint64_t most_steps = budget.steps != 0 ? budget.steps : UINT64_MAX;
  std::vector<Part> parts = Parts(items, *plan);
  std::vector<std::optional<Minimizer>> minimizers(parts.size());
  while (!parts.empty()) {
    // The arena is as large as its largest part, and no smaller than any part's bound.
    size_t largest = 0;
    uint64_t bound = 0;
    for (size_t p = 0; p < parts.size(); ++p) {
      if (parts[p].peak > parts[largest].peak) largest = p;
      bound = std::max(bound, parts[p].bound);
    }
    Part& part = parts[largest];
    if (part.peak < plan->peak) {
      plan->peak = part.peak;
      plan->order = "exact";
    }
    plan->proved = part.peak <= bound;
    if (plan->proved || part.items.size() > ArenaSearch::kMostItems) break;
    if (budget.interrupt != nullptr) QNNRT_RETURN_IF_ERROR(budget.interrupt->Check());
    if (plan->steps >= most_steps || MonotonicNanoseconds() >= limits.deadline) break;
    if (!minimizers[largest]) minimizers[largest].emplace(&part, plan);
    limits.steps = most_steps - plan->steps;
    minimizers[largest]->Try(bound, limits, &plan->steps);
  }
  return Status::Ok();
}

}  // namespace qnnrt
