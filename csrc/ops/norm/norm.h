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

// The internal ops of channels_first.cc: inputs as those of the client's ops.
constexpr char kBatchnormChannelsFirst[] = "BatchnormChannelsFirst";
constexpr char kInstanceNormChannelsFirst[] = "InstanceNormChannelsFirst";
OpList ChannelsFirstNormOps();

// Whether a node takes and gives BFLOAT_16.
inline bool IsBrain(const Node& node) {
  return node.inputs[0]->dtype == QNN_DATATYPE_BFLOAT_16 &&
         node.outputs[0]->dtype == QNN_DATATYPE_BFLOAT_16;
}

}  // namespace qnnrt
