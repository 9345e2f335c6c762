// Helpers for an op's infer function: every message names the op, the node and the rule.
#pragma once

#include <string>
#include <vector>

#include "abi/qnn_errors.h"
#include "ops/op.h"

namespace qnnrt {

// "Conv2d 'conv1': <text>", with the code for an op config that breaks a rule.
template <typename... Args>
Status OpError(const Node& node, const char* format, Args... args) {
  const std::string prefix = node.type + " '" + node.name + "'";
  return Error(QNN_GRAPH_ERROR_INVALID_OP_CONFIG, format, args...).Within(prefix);
}

// A tensor param of exactly `count` integers, each at least `least`. Absent: `fallback`.
inline Result<std::vector<int64_t>> IntsParam(const Node& node, const char* name, size_t count,
                                              int64_t least, std::vector<int64_t> fallback = {}) {
  if (node.Find(name) == nullptr) return fallback;
  std::vector<int64_t> values = node.Ints(name);
  if (values.size() != count) {
    return OpError(node, "param '%s' must hold %zu values, got %zu", name, count, values.size());
  }
  for (int64_t value : values) {
    if (value < least || value > INT32_MAX) {
      return OpError(node, "param '%s' must be in [%lld, %d], got %lld", name,
                     static_cast<long long>(least), INT32_MAX, static_cast<long long>(value));
    }
  }
  return values;
}

inline Status CheckRange(const Node& node, const char* name, int64_t value, int64_t least,
                         int64_t most) {
  if (value >= least && value <= most) return Status::Ok();
  return OpError(node, "param '%s' must be in [%lld, %lld], got %lld", name,
                 static_cast<long long>(least), static_cast<long long>(most),
                 static_cast<long long>(value));
}

// Optional vector input `i` (bias, scale): when there, it must have `shape`.
inline Status CheckShape(const Node& node, size_t i, const char* what, const Shape& shape) {
  if (!node.HasInput(i) || node.inputs[i]->shape == shape) return Status::Ok();
  return OpError(node, "input %zu (%s) '%s' must have shape %s, got %s", i, what,
                 node.inputs[i]->name.c_str(), ShapeText(shape).c_str(),
                 ShapeText(node.inputs[i]->shape).c_str());
}

inline Status OutOfMemory(const Node& node) {
  return Error(QNN_GRAPH_ERROR_MEM_ALLOC, "%s '%s': out of memory while preparing the kernel",
               node.type.c_str(), node.name.c_str());
}

}  // namespace qnnrt
