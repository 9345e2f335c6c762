// Outputs that are computed where what is added to them lies.
#include <algorithm>

#include "graph/layout.h"

namespace qnnrt {

std::optional<size_t> Layout::OverwritableAddend(size_t index) const {
  const Node& node = graph_.nodes[index];
  if (node.outputs.size() != 1) return std::nullopt;
  const Tensor* out = node.outputs[0];
  // A part of a larger one, or one whose memory is in use already, stays where it is.
  if (Root(out) != out || !InArena(out) || life_.at(out).first < static_cast<int>(index))
    return std::nullopt;
  for (const PostOp& op : node.post_ops) {
    if (op.kind != PostOp::Kind::kAdd) continue;
    const Tensor *addend = node.inputs[op.input], *root = Root(addend);
    if (!InArena(root) || addend->dtype != out->dtype || root->bytes() != out->bytes()) continue;
    if (addend->bytes() != out->bytes() || life_.at(root).last != static_cast<int>(index)) continue;
    const auto reads = [&](const Tensor* t) { return t != nullptr && Root(t) == root; };
    if (std::count_if(node.inputs.begin(), node.inputs.end(), reads) == 1) return size_t{op.input};
  }
  return std::nullopt;
}

void Layout::ShareSums() {
  for (size_t s = 0; s < graph_.nodes.size(); ++s) {
    if (graph_.nodes[s].post_ops.empty()) continue;
    const std::optional<size_t> input = OverwritableAddend(s);
    if (!input) continue;
    sums_[s] = *input;
    // With the addend, not with its root: they may be parted.
    const Tensor *out = graph_.nodes[s].outputs[0], *addend = graph_.nodes[s].inputs[*input];
    const Tensor* root = Root(addend);
    life_[root] = Joined(root, out);
    root_[out] = {addend};
  }
}

// Where a kernel does not, output and addend are apart again. What else was shared stays right,
// since no tensor lives longer for it.
void Layout::PartSums(const std::vector<KernelPtr>& kernels) {
  bool parted = false;
  for (const auto& [s, input] : sums_) {
    if (!kernels[s]->ReadsInput(input)) continue;
    root_.erase(graph_.nodes[s].outputs[0]);
    parted = true;
  }
  if (!parted) return;
  life_.clear();
  Lifetimes();
  for (const auto& [tensor, place] : root_) {
    const Tensor* root = Root(tensor);
    life_[root] = Joined(root, tensor);
  }
}

}  // namespace qnnrt
