// The op table as JSON: what Python (qnnrt/_native/op_table.py) and the docs know of ops.
#pragma once

#include <string>

namespace qnnrt {

// A JSON array with one object for each op: type, inputs, outputs, params and traits.
std::string OpTableJson();
// One of these objects; empty: there is no such op.
std::string OpTableJson(const std::string& type);

}  // namespace qnnrt
