// What NVIDIA's driver makes of a source, before it is assembled.
#pragma once

#include <string>

namespace qnnrt::gpu {

// A program's binary with the instructions that its compiler would not have taken from a source,
// for the target that has them: as rewritten of programs.py. Empty where there are none.
std::string Rewritten(const std::string& binary);

}  // namespace qnnrt::gpu
