// What the kernel-backed heaps share: checked rounding, and mapping an fresh fd as an Allocation.
#pragma once

#include <cstddef>

#include "memory/heap.h"
#include "memory/mapping.h"

namespace qnnrt {

// Checks the arguments of Heap::Allocate and rounds the size up to `granule`. Errors: 1004, 1002.
Result<size_t> RoundAllocation(size_t size, size_t alignment, size_t granule);

// Maps `fd` whole, takes it over, and backs it with memory when `populate` is set.
Result<Allocation> AllocationFromFd(UniqueFd fd, size_t size, size_t alignment, bool populate,
                                    Counters* counters);
void FreeMappedAllocation(Allocation& allocation, Counters* counters);

// A memfd of `size` bytes that cannot shrink (F_SEAL_SHRINK), with huge pages of its own when
// `huge` is set. Errors: 1002, 1003.
Result<UniqueFd> NewSealedMemfd(size_t size, bool huge, Counters* counters);

}  // namespace qnnrt
