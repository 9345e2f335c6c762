// A node whose inputs are all static is run once, now, by its portable kernel.
#include <algorithm>

#include "abi/qnn_errors.h"
#include "graph/passes/node_graph.h"
#include "ops/op.h"
#include "support/pointer_map.h"

namespace qnnrt {
namespace {

// What is computed here may take so much together, or so many times what the client gave. A few
// bytes can stand for gigabytes (a resize, a tile): a node beyond that stays a step of the graph.
constexpr size_t kFreeBytes = size_t{256} << 20, kGrowth = 8;

size_t StaticBytes(const NodeGraph& graph) {
  PointerMap<bool> seen;
  size_t bytes = 0;
  for (const Node& node : graph.nodes) {
    for (const Tensor* t : node.inputs) {
      if (t != nullptr && t->is_static() && seen.Insert(t).second) bytes += t->bytes();
    }
  }
  return bytes;
}

}  // namespace

Status FoldEmpty(NodeGraph* graph, int* changes) {
  PointerMap<const Tensor*> known;
  std::vector<bool> dead(graph->nodes.size(), false);
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    Node& node = graph->nodes[i];
    if (KeepsState(node)) continue;  // it may end an execution early
    bool empty = true;
    for (const Tensor* t : node.outputs) empty &= t == nullptr || t->elements() == 0;
    if (empty) {
      dead[i] = true;
      ++*changes;
      continue;
    }
    for (const Tensor*& t : node.inputs) {
      if (t == nullptr || t->is_static() || t->elements() != 0) continue;
      const Tensor*& constant = known[t];
      if (constant == nullptr) {
        Tensor* made = graph->NewTensor(*t);
        made->type = QNN_TENSOR_TYPE_STATIC;
        made->data = AlignedBytes::Make(0);
        if (made->data == nullptr)
          return Error(QNN_GRAPH_ERROR_MEM_ALLOC, "out of memory for a tensor without elements");
        constant = made;
      }
      t = constant;
    }
  }
  graph->Erase(dead);
  return Status::Ok();
}

Status EvaluateNode(const Node& node, const Threads& threads,
                    std::vector<std::shared_ptr<AlignedBytes>>* results) {
  KernelOptions options;
  options.portable_only = true;
  options.threads = threads.limit();
  QNNRT_ASSIGN_OR_RETURN(KernelPtr kernel, MakeKernel(node, options));
  std::vector<const void*> in;
  for (const Tensor* t : node.inputs) in.push_back(t == nullptr ? nullptr : t->data->data());
  std::vector<void*> out;
  for (const Tensor* t : node.outputs) {
    results->push_back(t == nullptr ? nullptr : AlignedBytes::Make(t->bytes()));
    if (t != nullptr && results->back() == nullptr) {
      return Error(QNN_GRAPH_ERROR_MEM_ALLOC, "out of memory for the constant '%s'",
                   t->name.c_str());
    }
    out.push_back(t == nullptr ? nullptr : results->back()->data());
  }
  auto scratch = AlignedBytes::Make(kernel->ScratchBytes());
  if (scratch == nullptr) return Error(QNN_GRAPH_ERROR_MEM_ALLOC, "out of memory for scratch");
  return kernel->Run({in.data(), out.data(), scratch->data(), threads});
}

Status FoldConstants(NodeGraph* graph, const Threads& threads, int* changes) {
  std::vector<bool> dead(graph->nodes.size(), false);
  size_t left = std::max(kFreeBytes, kGrowth * StaticBytes(*graph));
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    const Node& node = graph->nodes[i];
    bool constant = !node.inputs.empty() && !KeepsState(node);
    for (const Tensor* t : node.inputs) constant &= t == nullptr || t->is_static();
    for (const Tensor* t : node.outputs)
      constant &= t == nullptr || t->type == QNN_TENSOR_TYPE_NATIVE;
    if (!constant) continue;
    size_t bytes = 0;
    for (const Tensor* t : node.outputs) bytes += t == nullptr ? 0 : t->bytes();
    if (bytes > left) continue;
    left -= bytes;
    std::vector<std::shared_ptr<AlignedBytes>> results;
    QNNRT_RETURN_IF_ERROR(EvaluateNode(node, threads, &results)
                              .Within("node '" + node.name + "' (" + node.type + ")"));
    std::vector<const Tensor*> outputs = node.outputs;
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (outputs[o] == nullptr) continue;
      Tensor* folded = graph->NewTensor(*outputs[o]);
      folded->type = QNN_TENSOR_TYPE_STATIC;
      folded->data = results[o];
      graph->ReplaceUses(outputs[o], folded);
    }
    dead[i] = true;
    ++*changes;
  }
  graph->Erase(dead);
  return Status::Ok();
}

}  // namespace qnnrt
