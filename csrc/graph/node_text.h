// What a node does as bytes, by which a table finds one that does the same.
#pragma once

#include "graph/binary/io.h"
#include "ir/node.h"
#include "support/threads.h"

namespace qnnrt {

// A tensor's elements: their type and quantization.
void PutElements(const Tensor& tensor, ByteWriter* out);
void PutShape(const Tensor& tensor, ByteWriter* out);
// What a constant's bytes are, by their digest. Throws std::bad_alloc.
void PutData(const Tensor& tensor, const Threads& threads, ByteWriter* out);
// The op and its parameters; `put` writes those that are tensors.
void PutOp(const Node& node, FunctionRef<void(const Tensor&)> put, ByteWriter* out);

}  // namespace qnnrt
