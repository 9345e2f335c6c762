// Offsets for buffers with lifetimes inside one arena: static memory allocation, solved by a
// portfolio of greedy orders. Knows sizes and steps, nothing of tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/status.h"

namespace qnnrt {

struct ArenaItem {
  uint32_t first = 0;       // the step that writes it
  uint32_t last = 0;        // the last step that reads it, inclusive
  uint64_t size = 0;        // bytes; 0 takes no room
  uint64_t alignment = 64;  // power of two
};

struct ArenaPlan {
  std::vector<uint64_t> offsets;  // one for each item
  uint64_t peak = 0;              // bytes that the arena needs
  uint64_t lower_bound = 0;  // no plan can need less: the largest sum of sizes alive at one step
  uint64_t sum = 0;          // what it would be with nothing shared
  const char* order = "";    // the order that won
};

// The best plan of the portfolio, verified. The same items give the same plan on every machine.
// Fails on a bad alignment, first > last, or a sum of sizes beyond 2^62.
Result<ArenaPlan> PlanArena(const std::vector<ArenaItem>& items);

// Independent of how a plan was made: alignment, bounds, and that no two items alive at the same
// step share a byte. Quadratic on purpose: every pair is looked at.
Status VerifyPlan(const std::vector<ArenaItem>& items, const std::vector<uint64_t>& offsets,
                  uint64_t peak);

}  // namespace qnnrt
