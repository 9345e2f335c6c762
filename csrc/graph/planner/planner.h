// Offsets for buffers with lifetimes inside one arena: static memory allocation, solved by a
// portfolio of greedy orders and, where that leaves a gap and a budget is given, by an exact
// search. Knows sizes and steps, nothing of tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/interrupt.h"
#include "support/status.h"

namespace qnnrt {

struct ArenaItem {
  uint32_t first = 0;       // the step that writes it
  uint32_t last = 0;        // the last step that reads it, inclusive
  uint64_t size = 0;        // bytes; 0 needs no memory
  uint64_t alignment = 64;  // power of two
};

// The sum of sizes that the planner takes, so that what is counted from it does not overflow.
inline constexpr uint64_t kMostArenaBytes = uint64_t{1} << 62;

struct ArenaPlan {
  std::vector<uint64_t> offsets;  // one for each item
  uint64_t peak = 0;              // bytes that the arena needs
  uint64_t lower_bound = 0;  // no plan can need less: the largest sum of sizes alive at one step
  uint64_t sum = 0;          // what it would be with nothing shared
  const char* order = "";    // the order that won; "exact": a search found something better
  bool proved = false;       // no plan needs fewer bytes
  uint64_t steps = 0;        // decisions that the search tried
};

// What an exact search may use; 0: no limit of that kind, and no search when both are 0.
struct ArenaBudget {
  uint32_t milliseconds = 0;
  uint64_t steps = 0;                    // decisions tried: a measure that is the same everywhere
  const Interrupt* interrupt = nullptr;  // asked while it searches; null: none
};

// First fit by decreasing size, the usual baseline.
Result<ArenaPlan> PlanArenaBySize(const std::vector<ArenaItem>& items);

// The best plan of the portfolio, verified; where its peak is not proved to be the smallest and
// there is a budget, improved by a search for as long as that lasts. The same items give the same
// plan on every machine, unless milliseconds ran out: how far a search comes in them depends on the
// machine. Fails on a bad alignment, first > last, a sum of sizes beyond kMostArenaBytes, and as
// the interrupt says.
Result<ArenaPlan> PlanArena(const std::vector<ArenaItem>& items, const ArenaBudget& budget = {});

// Independent of how a plan was made: alignment, bounds, and that no two items alive at the same
// step share a byte. In time n log n.
Status VerifyPlan(const std::vector<ArenaItem>& items, const std::vector<uint64_t>& offsets,
                  uint64_t peak);

}  // namespace qnnrt
