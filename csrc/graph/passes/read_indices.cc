// Indices below 0 count from the end. Clients wrap them for a device that takes none, by a Less, an
// Add and a Select, and cast them to INT_32; kernels here do both as they read. What is outside of
// the axis either way fails the run then, instead of being wrapped twice.
#include "abi/qnn_op_names.h"
#include "graph/passes/node_graph.h"
#include "ops/op.h"

namespace qnnrt {
namespace {

const Node* ProducerOf(const NodeGraph& graph, const Tensor* tensor, const char* type) {
  const int at = tensor == nullptr ? -1 : graph.Producer(tensor);
  if (at < 0) return nullptr;
  const Node& node = graph.nodes[static_cast<size_t>(at)];
  return node.type == type && node.package_op == nullptr ? &node : nullptr;
}

// The sizes of the dimensions that the indices of input 1 address, one for each entry of the last
// axis where there are several; empty: no node with such indices.
std::vector<int64_t> Addressed(const Node& node) {
  const bool axis = node.type == QNN_OP_GATHER || node.type == QNN_OP_GATHER_ELEMENTS ||
                    node.type == QNN_OP_SCATTER_ELEMENTS;
  const bool places = node.type == QNN_OP_GATHER_ND || node.type == QNN_OP_SCATTER_ND;
  if ((!axis && !places) || node.package_op != nullptr) return {};
  const Shape &in = node.inputs[0]->shape, &indices = node.inputs[1]->shape;
  if (axis) {
    const int64_t rank = static_cast<int64_t>(in.size()), given = node.Int("axis");
    return {static_cast<int64_t>(in[static_cast<size_t>(given < 0 ? given + rank : given)])};
  }
  const size_t first =
      node.type == QNN_OP_GATHER_ND ? static_cast<size_t>(node.Int("batch_dims")) : 0;
  std::vector<int64_t> sizes;
  for (size_t d = 0; d < indices.back(); ++d) sizes.push_back(in[first + d]);
  return sizes;
}

// Whether a constant, beside indices of this shape, is these sizes, or 0 where there are none.
bool Holds(const Tensor* constant, const Shape& indices, const std::vector<int64_t>& sizes) {
  if (constant == nullptr || !constant->is_static() || constant->dtype != QNN_DATATYPE_INT_32)
    return false;
  const int32_t* values = constant->data_as<int32_t>();
  const size_t count = static_cast<size_t>(constant->elements());
  const bool along = count == sizes.size() && (count == 1 || constant->shape.back() == count);
  if (!along && count != 1) return false;
  if (constant->shape.size() > indices.size()) return false;
  if (sizes.empty()) return values[0] == 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (values[count == 1 ? 0 : i] != sizes[i]) return false;
  }
  return true;
}

// Of Select(x < 0, x + sizes, x): x; else null.
const Tensor* Unwrapped(const NodeGraph& graph, const Tensor* indices,
                        const std::vector<int64_t>& sizes) {
  const Node* select = ProducerOf(graph, indices, QNN_OP_ELEMENT_WISE_SELECT);
  if (select == nullptr || indices->dtype != QNN_DATATYPE_INT_32) return nullptr;
  const Tensor* x = select->inputs[2];
  const Node* below = ProducerOf(graph, select->inputs[0], QNN_OP_ELEMENT_WISE_LESS);
  const Node* sum = ProducerOf(graph, select->inputs[1], QNN_OP_ELEMENT_WISE_ADD);
  if (below == nullptr || sum == nullptr || !sum->post_ops.empty()) return nullptr;
  if (below->inputs[0] != x || !Holds(below->inputs[1], x->shape, {})) return nullptr;
  if (sum->inputs[0] != x || !Holds(sum->inputs[1], x->shape, sizes)) return nullptr;
  return x->shape == indices->shape && !x->is_static() ? x : nullptr;
}

}  // namespace

Status ReadIndices(NodeGraph* graph, int* changes) {
  for (Node& node : graph->nodes) {
    const std::vector<int64_t> sizes = Addressed(node);
    if (sizes.empty()) continue;
    const Tensor* x = Unwrapped(*graph, node.inputs[1], sizes);
    if (x == nullptr) continue;
    const Node* cast = ProducerOf(*graph, x, QNN_OP_CAST);
    const bool wide = cast != nullptr && cast->inputs[0]->dtype == QNN_DATATYPE_INT_64 &&
                      !cast->inputs[0]->is_static();
    node.inputs[1] = wide ? cast->inputs[0] : x;
    ++*changes;
  }
  if (*changes > 0) graph->Index();
  return Status::Ok();
}

}  // namespace qnnrt
