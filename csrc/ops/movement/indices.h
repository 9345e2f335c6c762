// What the gather and scatter ops share: index inputs of any index type, checked as they are read.
// An index below 0 counts from the end of its axis; one outside fails the run.
#pragma once

#include <array>
#include <atomic>

#include "ir/bad_index.h"
#include "ops/rules.h"

namespace qnnrt {

// In [0, size); -1 when there is no such element.
inline int64_t InAxis(int64_t index, size_t size) {
  const int64_t n = static_cast<int64_t>(size);
  if (index < 0) index += n;
  return index >= 0 && index < n ? index : -1;
}

class IndexReader {
 public:
  explicit IndexReader(Qnn_DataType_t type) : type_(type) {}
  int64_t At(const void* data, size_t i) const {
    switch (type_) {
      case QNN_DATATYPE_INT_64:
        return static_cast<const int64_t*>(data)[i];
      case QNN_DATATYPE_UINT_32:
        return static_cast<const uint32_t*>(data)[i];
      default:
        return static_cast<const int32_t*>(data)[i];
    }
  }
  int64_t At(const void* data, size_t i, size_t size) const { return InAxis(At(data, i), size); }

 private:
  Qnn_DataType_t type_;
};

// The first index that was found outside, by position; written from any thread.
class FirstBad {
 public:
  void Note(size_t position) {
    size_t before = position_.load(std::memory_order_relaxed);
    while (position < before &&
           !position_.compare_exchange_weak(before, position, std::memory_order_relaxed)) {
    }
  }
  bool any() const { return position_.load(std::memory_order_relaxed) != kNone; }
  size_t position() const { return position_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kNone = ~size_t{0};
  std::atomic<size_t> position_{kNone};
};

inline Status BadIndex(int64_t index, size_t position, size_t axis, size_t size) {
  return Status(QNN_GRAPH_ERROR_INVALID_ARGUMENT, BadIndexText(index, position, axis, size));
}

// Where GatherElements reads and ScatterElements writes: element u of the indices says where along
// `axis`; the other coordinates are those of u itself.
class ElementPositions {
 public:
  ElementPositions(const Shape& data, const Shape& indices, size_t axis)
      : shape_(indices), axis_(axis), size_(data[axis]) {
    size_t stride = 1;
    for (size_t i = data.size(); i-- > 0;) {
      strides_[i] = stride;
      stride *= data[i];
    }
  }
  size_t axis() const { return axis_; }
  size_t size() const { return size_; }  // of the axis
  // Indices that lie beside each other: along the last dim of those that count.
  size_t row() const { return shape_.back(); }
  size_t step() const { return axis_ + 1 == shape_.size() ? 0 : 1; }
  size_t scale() const { return strides_[axis_]; }
  size_t At(size_t u, int64_t index) const {
    size_t at = static_cast<size_t>(index) * strides_[axis_];
    for (size_t d = shape_.size(); d-- > 0;) {
      if (d != axis_) at += u % shape_[d] * strides_[d];
      u /= shape_[d];
    }
    return at;
  }

 private:
  const Shape shape_;
  const size_t axis_, size_;
  std::array<size_t, 8> strides_{};
};
// The rule of inputs 0 and 1 of these ops.
Status CheckElementIndices(const Node& node, size_t axis);

// Checks a static index input once, when the node is made: all of its values against one size.
Status CheckStaticIndices(const Node& node, size_t input, size_t axis, size_t size);

}  // namespace qnnrt
