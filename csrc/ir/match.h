// How the tensors that an execution is given are matched with those of the graph: by id, element
// type, shape and size.
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/qnn_types.h"
#include "ir/types.h"
#include "support/number_of.h"

namespace qnnrt {

// The index in [first, end) that has this id, `likely` before all others; `end` where none has it.
template <typename IdAt>
size_t FindId(uint32_t id, size_t likely, size_t first, size_t end, IdAt id_at) {
  if (likely < end && id_at(likely) == id) return likely;
  while (first < end && id_at(first) != id) ++first;
  return first;
}

// 1 or 2: of others the rest cannot be read.
inline bool HasKnownVersion(const Qnn_Tensor_t& given) {
  return NumberOf(given.version) - QNN_TENSOR_VERSION_1 <= 1;
}

// Whether it has this type and, unless the client omits them, these dimensions.
inline bool SameTypeAndShape(const Qnn_TensorV1_t& given, Qnn_DataType_t type, const Shape& shape) {
  bool same = given.dataType == type;
  if (given.dimensions != nullptr) {
    same &= given.rank == shape.size();
    for (uint32_t d = 0; same && d < given.rank; ++d) same = given.dimensions[d] == shape[d];
  }
  return same;
}

// Whether its RAW memory has so many bytes. dataSize is 32 bits wide: for a larger tensor the
// client cannot say its size, nor can it be checked.
inline bool RawHolds(const Qnn_TensorV1_t& given, uint64_t bytes) {
  return given.clientBuf.data != nullptr &&
         (given.clientBuf.dataSize >= bytes || bytes > UINT32_MAX);
}

}  // namespace qnnrt
