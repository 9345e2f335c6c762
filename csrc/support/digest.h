// What bytes are, in 256 bits: equal for equal bytes, and for bytes of one size that differ only
// with a probability below 2^-120. The keys are this process's own, so a digest means nothing
// elsewhere.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "support/threads.h"

namespace qnnrt {

using Digest = std::array<uint64_t, 4>;

// At the speed of memory; by several threads where that is worth it. Sizes are no part of it.
// Throws std::bad_alloc.
Digest DigestOf(const void* data, size_t size, const Threads& threads = Threads(1));

}  // namespace qnnrt
