// What the shape rules of the elementwise, reduction and data movement families have in common.
#pragma once

#include <string>
#include <vector>

#include "abi/qnn_errors.h"
#include "ops/op.h"

namespace qnnrt {

template <typename... Args>
Status Invalid(const char* format, Args... args) {
  return Error(QNN_GRAPH_ERROR_INVALID_OP_CONFIG, format, args...);
}

// A shape rule as OpDef::infer wants it: *outputs has an entry for each output when `rule` begins,
// and its message gets the op's type and the node's name in front.
template <Status (*rule)(const Node&, std::vector<Shape>*)>
Status Infer(const Node& node, std::vector<Shape>* outputs) {
  outputs->assign(node.outputs.size(), Shape());
  return rule(node, outputs).Within(node.type + " '" + node.name + "'");
}

// An axis given as a param: [0, limit), or counted from the end when it is negative.
inline Status CheckAxis(const char* param, int64_t axis, size_t limit, size_t* result) {
  const int64_t n = static_cast<int64_t>(limit);
  if (axis < -n || axis >= n) {
    return Invalid("param '%s' is %lld, outside of [%lld, %lld)", param,
                   static_cast<long long>(axis), static_cast<long long>(-n),
                   static_cast<long long>(n));
  }
  *result = static_cast<size_t>(axis < 0 ? axis + n : axis);
  return {};
}

inline Status GetAxis(const Node& node, const char* param, int64_t fallback, size_t limit,
                      size_t* result) {
  return CheckAxis(param, node.Int(param, fallback), limit, result);
}

// A param that holds a set of axes: each in range, none twice; ascending in *result.
Status GetAxes(const Node& node, const char* param, size_t rank, std::vector<size_t>* result);

// A param tensor of exactly `count` numbers, each at least `low`.
Status GetInts(const Node& node, const char* param, size_t count, int64_t low,
               std::vector<int64_t>* result);

// An enumerated param: one of 0..last.
Status GetEnum(const Node& node, const char* param, int64_t fallback, int64_t last,
               int64_t* result);

inline Status SameShapeAsInput(const Node& node, std::vector<Shape>* outputs) {
  (*outputs)[0] = node.inputs[0]->shape;
  return {};
}

// The shape both broadcast to, by numpy's rule; false when they do not.
bool BroadcastShape(const Shape& a, const Shape& b, Shape* out);

// A scalar param as raw bytes of an element type (pad and one-hot values).
Status ScalarBytes(const Node& node, const char* param, double fallback, Qnn_DataType_t type,
                   unsigned char bytes[8]);

// Dims [first, last) multiplied.
inline size_t Product(const Shape& shape, size_t first, size_t last) {
  size_t n = 1;
  for (size_t i = first; i < last; ++i) n *= shape[i];
  return n;
}

}  // namespace qnnrt
