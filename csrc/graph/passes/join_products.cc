// Products of one tensor with narrow weights become one node: queries, keys and values, say. Where
// each takes some microseconds, it is threads that wait for each other that take them; rows of all
// matrices are shared out at once, and what is multiplied is arranged for them once. The gate of a
// feed-forward network brings its activation along.
#include <map>
#include <tuple>

#include "graph/passes/fuse_dynamic.h"
#include "graph/passes/node_graph.h"
#include "ops/matmul/nbits.h"

namespace qnnrt {
namespace {

// What products that are joined have in common: x, the parameters, and which inputs there are.
using Kind = std::tuple<const Tensor*, int64_t, int64_t, int64_t, Qnn_DataType_t, bool, bool>;

Kind KindOf(const Node& node) {
  return {node.inputs[0],
          node.Int("bits"),
          node.Int("block_size"),
          node.Int("activation_bits"),
          node.inputs[kNBitsCodes]->dtype,
          node.HasInput(kNBitsZeros),
          node.HasInput(kNBitsBias)};
}

bool HasActivation(const Node& node) {
  return node.post_ops.size() == 1 && node.post_ops[0].kind == PostOp::Kind::kActivation;
}

// A bias that is computed may be of what comes behind the first product.
bool MayJoin(const Node& node, const KeptFloats* kept) {
  return node.type == kMatMulNBits && (node.post_ops.empty() || HasActivation(node)) &&
         (!node.HasInput(kNBitsBias) || node.inputs[kNBitsBias]->is_static()) &&
         node.outputs[0]->updates == nullptr &&  // it has that memory to itself
         (kept == nullptr || kept->nodes.count(node.name) == 0);
}

}  // namespace

Status JoinProducts(NodeGraph* graph, const KeptFloats* kept, int* changes) {
  Rewriter to(graph);
  std::map<Kind, std::vector<size_t>> groups;
  std::map<Kind, size_t> activated;
  for (size_t i = 0; i < to.size(); ++i) {
    const Node& node = to.node(i);
    if (!MayJoin(node, kept)) continue;
    const Kind kind = KindOf(node);
    if (HasActivation(node) && !activated.emplace(kind, i).second) continue;  // one has a place
    groups[kind].push_back(i);
  }
  for (const auto& [kind, members] : groups) {
    if (members.size() < 2) continue;
    const Node& first = to.node(members[0]);
    Node joined;
    joined.name = first.name;
    joined.package = first.package;
    joined.type = kJoinedNBits;
    joined.params = first.params;
    joined.params.push_back({"zeros", first.HasInput(kNBitsZeros)});
    joined.params.push_back({"bias", first.HasInput(kNBitsBias)});
    joined.inputs = {first.inputs[0]};
    for (size_t member : members) {
      const Node& node = to.node(member);
      for (size_t i = kNBitsCodes; i <= kNBitsBias; ++i) {
        if (node.HasInput(i)) joined.inputs.push_back(node.inputs[i]);
      }
      joined.outputs.push_back(node.outputs[0]);
      if (!HasActivation(node)) continue;
      const PostOp& op = node.post_ops[0];
      joined.params.push_back({"activated", static_cast<int64_t>(joined.outputs.size())});
      joined.params.push_back({"activation", static_cast<int64_t>(op.activation)});
      joined.params.push_back({"alpha", double{op.alpha}});
      joined.params.push_back({"beta", double{op.beta}});
    }
    for (size_t member : members) to.Drop(member);
    // In the place of the first one: all that they read besides weights is x.
    to.Insert(members[0], std::move(joined));
    *changes += static_cast<int>(members.size());
  }
  if (*changes > 0) to.Apply();
  return Status::Ok();
}

}  // namespace qnnrt
