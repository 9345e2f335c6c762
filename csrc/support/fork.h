// Whether this process is the child of the one that made an object: threads do not survive a fork.
#pragma once

#include <cstdint>

namespace qnnrt {

// The number of forks between the process that called this first and this one. Objects that need
// their threads store it when they are made.
uint32_t ForkGeneration();

}  // namespace qnnrt
