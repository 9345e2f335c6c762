// Slopes of a Prelu for channels first, [C] beside [N, C, ...]: as [C, 1, ...], which broadcasts.
#include "abi/qnn_op_names.h"
#include "graph/passes/node_graph.h"
#include "ops/elementwise/activation.h"

namespace qnnrt {

Status ShapeSlopes(NodeGraph* graph, int* changes) {
  std::vector<Node> nodes;
  for (Node& node : graph->nodes) {
    if (HasSlopesOfChannelsFirst(node)) {
      const Tensor* slopes = node.inputs[1];
      Tensor* shaped = graph->NewTensor(*slopes);
      shaped->shape.resize(node.inputs[0]->shape.size() - 1, 1);
      if (slopes->is_static()) {
        shaped->type = QNN_TENSOR_TYPE_STATIC;
        shaped->data = slopes->data;
      } else {
        Node reshape;
        reshape.name = node.name + " slopes";
        reshape.package = node.package;
        reshape.type = QNN_OP_RESHAPE;
        reshape.inputs = {slopes};
        reshape.outputs = {shaped};
        nodes.push_back(std::move(reshape));
      }
      node.inputs[1] = shaped;
      ++*changes;
    }
    nodes.push_back(std::move(node));
  }
  graph->nodes = std::move(nodes);
  graph->Index();
  return Status::Ok();
}

}  // namespace qnnrt
