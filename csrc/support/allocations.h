// Counting and failing the library's own heap allocations, so that tests can be exact about both.
#pragma once

#include <cstdint>

namespace qnnrt {

// Called by everything in the library that takes heap memory other than through operator new.
// False: this allocation has been chosen to fail.
bool CountAllocation();
uint64_t AllocationCount();
// The n-th allocation from now fails (1: the next), or every one from it on; 0 or less: none.
void FailAllocation(int64_t n, bool and_all_after = false);

}  // namespace qnnrt
