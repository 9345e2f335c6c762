// Products of static weights (OpDef::weights_axis) that take a map of their results.
#pragma once

#include <optional>
#include <vector>

#include "graph/passes/node_graph.h"

namespace qnnrt {

struct Affine {
  std::vector<float> scale, shift;  // one value a channel
};

// The node as an affine map of one input: which input, and the map. Nothing when it is not one.
std::optional<Affine> AsAffine(const Node& node, size_t* input);

// Where a producer keeps its output channels: the stride between two of them in the weights.
// 0: not foldable.
uint64_t ChannelStride(const Node& node, uint32_t channels);

// A bias that is computed, or of another type than the weights, cannot be folded.
bool HasPlainBias(const Node& node);

// The weights of a node times a scale; what they are where it is one everywhere. Null: no memory.
const Tensor* ScaledWeights(NodeGraph* graph, const Tensor& w, const std::vector<float>& scale,
                            uint64_t stride, const Threads& threads);

// The weights scaled, and a bias that has the shift. Errors: 1002 no memory.
Status ScaleWeights(NodeGraph* graph, Node* node, const Affine& map, uint64_t stride,
                    const Threads& threads);

}  // namespace qnnrt
