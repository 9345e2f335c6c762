// The smallest arena, searched for: after the portfolio, while a budget lasts.
#pragma once

#include <vector>

#include "graph/planner/planner.h"

namespace qnnrt {

// Improves a plan until its peak is proved to be the smallest or the budget is used up. Parts of
// the schedule that share no step are searched apart; those of more items than a search takes keep
// their offsets. `plan` stays a plan throughout. Fails when the budget's interrupt says so.
Status ImprovePlan(const std::vector<ArenaItem>& items, const ArenaBudget& budget, ArenaPlan* plan);

}  // namespace qnnrt
