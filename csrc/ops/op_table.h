// The op table as text, for the docs and the coverage page.
#pragma once

#include <string>

namespace qnnrt {

// A JSON array with one object for each op: type, inputs, outputs, params and flags.
std::string OpCoverageJson();

}  // namespace qnnrt
