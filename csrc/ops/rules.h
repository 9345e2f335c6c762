// What the shape rules (OpDef::infer) of all families have in common. Messages name the param or
// the input and the rule; ValidateNode puts the op and the node in front.
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

// ---- params ----------------------------------------------------------------------------------

inline Status CheckRange(const char* param, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return {};
  return Invalid("param '%s' must be in [%lld, %lld], got %lld", param,
                 static_cast<long long>(least), static_cast<long long>(most),
                 static_cast<long long>(value));
}

// An axis given as a param: [0, limit), or counted from the end when it is negative.
inline Result<size_t> CheckAxis(const char* param, int64_t axis, size_t limit) {
  const int64_t n = static_cast<int64_t>(limit);
  if (axis < -n || axis >= n) {
    return Invalid("param '%s' names axis %lld, outside of [%lld, %lld)", param,
                   static_cast<long long>(axis), static_cast<long long>(-n),
                   static_cast<long long>(n));
  }
  return static_cast<size_t>(axis < 0 ? axis + n : axis);
}

inline Result<size_t> GetAxis(const Node& node, const char* param, size_t limit) {
  return CheckAxis(param, node.Int(param), limit);
}

// A param that holds a set of axes: each in range, none twice; ascending.
Result<std::vector<size_t>> GetAxes(const Node& node, const char* param, size_t rank);

// A param tensor of exactly `count` numbers, each at least `low`.
Result<std::vector<int64_t>> GetInts(const Node& node, const char* param, size_t count,
                                     int64_t low);

// A scalar as the raw bytes of an element of `like` (pad and one-hot values). Of a fixed-point
// tensor, an integer is the stored integer itself, a floating-point value the real number.
Status ScalarBytes(const char* param, const ParamValue& value, const Tensor& like,
                   unsigned char bytes[8]);
Status ScalarBytes(const Node& node, const char* name, const Tensor& like, unsigned char bytes[8]);

// ---- shapes ----------------------------------------------------------------------------------

// Input i (a bias, weights, a state), if it is there, must have `shape`.
Status CheckShape(const Node& node, size_t i, const char* what, const Shape& shape);

// The spatial dims of a channel-last image or volume.
constexpr const char* kSpatialNames[] = {"the depth", "the height", "the width"};

// The size that a dim of the output gets by computation; what: "the width".
inline Status CheckSize(const char* what, int64_t size) {
  if (size >= 0 && size <= int64_t{UINT32_MAX}) return {};
  return Invalid("%s of the output would be %lld, outside of [0, 2^32)", what,
                 static_cast<long long>(size));
}

// A dim of an image with its padding, over which windows go: kernels compute coordinates in 32
// bits.
inline Status CheckPadded(const char* what, int64_t size) {
  if (size <= INT32_MAX) return {};
  return Invalid("%s of the padded input would be %lld, above 2^31 - 1", what,
                 static_cast<long long>(size));
}

inline Status SameShapeAsInput(const Node& node, std::vector<Shape>* outputs) {
  (*outputs)[0] = node.inputs[0]->shape;
  return {};
}
inline Status SameShapeAlongAxis(const Node& node, std::vector<Shape>* outputs) {
  auto axis = GetAxis(node, "axis", node.inputs[0]->shape.size());
  return axis.ok() ? SameShapeAsInput(node, outputs) : std::move(axis).status();
}

// The shape both broadcast to, by numpy's rule; false when they do not.
bool BroadcastShape(const Shape& a, const Shape& b, Shape* out);

// Dims [first, last) multiplied.
inline size_t Product(const Shape& shape, size_t first, size_t last) {
  size_t n = 1;
  for (size_t i = first; i < last; ++i) n *= shape[i];
  return n;
}

// ---- kernels ---------------------------------------------------------------------------------

inline Status OutOfMemory() {
  return Error(QNN_GRAPH_ERROR_MEM_ALLOC, "out of memory while preparing the kernel");
}

}  // namespace qnnrt
