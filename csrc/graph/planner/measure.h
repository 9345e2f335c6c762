// Properties of arena items that do not depend on their offsets.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/planner/planner.h"
#include "support/checked.h"

namespace qnnrt {

// The steps at which something begins, each once. From one to the next nothing is added, so most is
// alive at one of them.
std::vector<uint32_t> ArenaStarts(const std::vector<ArenaItem>& items);

// The largest sum of sizes alive at one step.
uint64_t ArenaLowerBound(const std::vector<ArenaItem>& items);

// The same, with what is lost between items because of their alignments: every item but the one on
// top ends at a multiple of the smallest alignment.
uint64_t ArenaAlignedBound(const std::vector<ArenaItem>& items);

// For each item the most memory alive at any step of its life: the contention that it meets.
std::vector<uint64_t> ArenaPressure(const std::vector<ArenaItem>& items);

}  // namespace qnnrt
