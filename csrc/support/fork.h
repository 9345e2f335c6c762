// Whether this process is the child of the one that made an object: threads do not survive a fork.
#pragma once

#include <cstdint>

namespace qnnrt {

// How many forks lie between the process that first asked and this one. Objects that need their
// threads remember what it was when they were made.
uint32_t ForkGeneration();

}  // namespace qnnrt
