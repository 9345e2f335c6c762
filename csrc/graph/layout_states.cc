// States, whose new values are computed in the states' own memory.
#include "graph/layout.h"

namespace qnnrt {

void Layout::ShareStates() {
  for (const Node& node : graph_.nodes) {
    if (node.outputs.size() != 1 || node.outputs[0] == nullptr) continue;
    const Tensor *stored = node.outputs[0], *state = stored->updates;
    if (state == nullptr) continue;
    root_[stored] = {state};
    const Tensor* value = Root(node.inputs[0]);
    if (IsAlias(node) && value != state) ComputeIn(value, state);
  }
}

// False: other nodes read the old value then, or later.
bool Layout::ComputeIn(const Tensor* value, const Tensor* state) {
  if (!InArena(value) || value->bytes() != state->bytes()) return false;
  const int first = life_[value].first;
  if (first == kNever) return false;
  if (life_[state].last >= first) {
    const size_t at = static_cast<size_t>(first);
    const Node& node = graph_.nodes[at];
    bool over = false;
    for (size_t i = 0; i < node.inputs.size() && !over; ++i) {
      const Tensor* source = Overwritten(at, i);
      if (source == nullptr) continue;
      over = (source == state || ComputeIn(source, state)) && life_[state].last == first;
    }
    if (!over) return false;
  }
  Share(value, {state});
  return true;
}

// The root of input i that the node may write its output over, since nobody reads it afterwards;
// null: it may not.
const Tensor* Layout::Overwritten(size_t index, size_t i) {
  const Node& node = graph_.nodes[index];
  const Tensor* in = node.inputs[i];
  if (in == nullptr || !MayOverwrite(node, i)) return nullptr;
  const Tensor* root = Root(in);
  // Parts of a larger one have no memory of their own.
  if (root->bytes() != in->bytes() || life_[root].last != static_cast<int>(index)) return nullptr;
  if (ReadByPostOp(node, root)) return nullptr;
  if ((FindOp(node.type)->flags & OpDef::kInPlace) != 0) return root;
  for (size_t j = 0; j < node.inputs.size(); ++j) {
    if (j != i && node.inputs[j] != nullptr && Root(node.inputs[j]) == root) return nullptr;
  }
  return root;
}

}  // namespace qnnrt
