// Weights in fixed point of products whose activations are floats: the numbers that they stand for,
// in the type of the activations, so that every other pass and kernel sees floats alone.
#include <algorithm>
#include <map>

#include "abi/qnn_errors.h"
#include "graph/passes/node_graph.h"
#include "ops/fixed/codec.h"
#include "ops/fixed/rules.h"

namespace qnnrt {
namespace {

constexpr size_t kPiece = 4096;  // elements that are floats for a moment

std::shared_ptr<AlignedBytes> Widened(const Tensor& from, const Tensor& to,
                                      const Threads& threads) {
  auto data = AlignedBytes::Make(to.bytes());
  if (data == nullptr) return nullptr;
  const Codec in(from), out(to);
  const size_t pieces = (from.elements() + kPiece - 1) / kPiece;
  threads.For(pieces, 1, [&](size_t begin, size_t end) {
    float values[kPiece];
    for (size_t p = begin; p < end; ++p) {
      const size_t at = p * kPiece, count = std::min<size_t>(kPiece, from.elements() - at);
      in.Read(from.data->data(), at, count, values);
      out.Write(values, data->data(), at, count);
    }
  });
  return data;
}

}  // namespace

Status WidenWeights(NodeGraph* graph, const Threads& threads, int* changes) {
  std::map<std::pair<const Tensor*, Qnn_DataType_t>, const Tensor*> made;
  for (Node& node : graph->nodes) {
    const OpDef* def = FindOp(node.type);
    if (def == nullptr || node.package_op != nullptr || !HasFixedWeights(node, *def)) continue;
    const Tensor& weights = *node.inputs[1];
    const Tensor*& wide = made[{&weights, node.inputs[0]->dtype}];
    if (wide == nullptr) {
      Tensor* tensor = graph->NewTensor(weights);
      tensor->type = QNN_TENSOR_TYPE_STATIC;
      tensor->dtype = node.inputs[0]->dtype;
      tensor->quantization = {};
      tensor->data = Widened(weights, *tensor, threads);
      if (tensor->data == nullptr) {
        return Error(QNN_GRAPH_ERROR_MEM_ALLOC, "out of memory for the weights '%s' as %s",
                     weights.name.c_str(), DataTypeName(tensor->dtype));
      }
      wide = tensor;
      ++*changes;
    }
    node.inputs[1] = wide;
  }
  return Status::Ok();
}

}  // namespace qnnrt
