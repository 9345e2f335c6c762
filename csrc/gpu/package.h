// Where this library is installed.
#pragma once

#include <string>

namespace qnnrt::gpu {

// The folder that the Python package `qnnrt` lies in, whose lib folder has this library:
// site-packages as a rule. Empty when the library is somewhere else.
const std::string& PackageRoot();

}  // namespace qnnrt::gpu
