// The parts of the norm family that live in files of their own.
#pragma once

#include "ops/op.h"

namespace qnnrt {

Status InferInstanceNorm(const Node& node, std::vector<Shape>* outputs);
Result<KernelPtr> MakeInstanceNorm(const Node& node, const KernelOptions& options);
Status InferGroupNorm(const Node& node, std::vector<Shape>* outputs);
Result<KernelPtr> MakeGroupNorm(const Node& node, const KernelOptions& options);
Status InferLrn(const Node& node, std::vector<Shape>* outputs);
Result<KernelPtr> MakeLrn(const Node& node, const KernelOptions& options);

}  // namespace qnnrt
