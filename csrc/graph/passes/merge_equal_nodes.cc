// Of nodes that compute the same from the same, the first one: exporters write out in every layer
// of a network what depends on positions or a mask alone.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "graph/binary/io.h"
#include "graph/passes/node_graph.h"
#include "ops/op.h"

namespace qnnrt {
namespace {

template <typename T>
void List(const std::vector<T>& values, ByteWriter* out) {
  out->Put(static_cast<uint32_t>(values.size()));
  out->Bytes(values.data(), values.size() * sizeof(T));
}

void Type(const Tensor& tensor, ByteWriter* out) {
  out->Put(static_cast<uint32_t>(tensor.dtype));
  List(tensor.shape, out);
  const Quantization& q = tensor.quantization;
  out->Put(static_cast<uint8_t>(q.defined));
  out->Put(static_cast<uint32_t>(q.encoding));
  out->Put(q.axis);
  out->Put(q.bitwidth);
  List(q.scales, out);
  List(q.offsets, out);
  List(q.block, out);
}

std::string Taken(ByteWriter* out) {
  const std::vector<uint8_t> bytes = out->Take();
  return {bytes.begin(), bytes.end()};
}

// The tensors that nodes read, each as what stands for it.
class Inputs {
 public:
  void Replace(const Tensor* tensor, const Tensor* by) { instead_[tensor] = by; }

  // A result of a merged node: that of the node which is left.
  const Tensor* Of(const Tensor* tensor) const {
    const auto found = instead_.find(tensor);
    return found == instead_.end() ? tensor : found->second;
  }

  // Of constants that are equal the first one, for a node's text.
  const Tensor* FirstOf(const Tensor* tensor) {
    if (tensor == nullptr || !tensor->is_static() || tensor->two_in_byte || !tensor->data->loaded())
      return tensor;
    const auto known = first_.find(tensor);
    if (known != first_.end()) return known->second;
    constexpr size_t kBegin = 256;  // bytes that tell most apart; the rest is compared
    const size_t size = tensor->data->size();
    ByteWriter out;
    Type(*tensor, &out);
    out.Put(static_cast<uint64_t>(size));
    out.Bytes(tensor->data->data(), std::min(size, kBegin));
    std::vector<const Tensor*>& alike = constants_[Taken(&out)];
    for (const Tensor* other : alike) {
      if (std::memcmp(other->data->data(), tensor->data->data(), size) == 0)
        return first_[tensor] = other;
    }
    alike.push_back(tensor);
    return first_[tensor] = tensor;
  }

 private:
  std::unordered_map<const Tensor*, const Tensor*> instead_, first_;
  std::unordered_map<std::string, std::vector<const Tensor*>> constants_;
};

// What a node computes: equal for two that give the same results.
class NodeText {
 public:
  NodeText(const Node& node, Inputs* inputs) {
    out_.Text(node.package);
    out_.Text(node.type);
    out_.Put(static_cast<uint32_t>(node.params.size()));
    for (const Param& param : node.params) {
      out_.Text(param.name);
      out_.Put(static_cast<uint8_t>(param.value.index()));
      std::visit([this](const auto& value) { Value(value); }, param.value);
    }
    out_.Put(static_cast<uint32_t>(node.inputs.size()));
    for (const Tensor* tensor : node.inputs)
      out_.Put(reinterpret_cast<uintptr_t>(inputs->FirstOf(tensor)));
    for (const Tensor* tensor : node.outputs) {
      out_.Put(static_cast<uint8_t>(tensor != nullptr));
      if (tensor != nullptr) Type(*tensor, &out_);
    }
    for (const PostOp& op : node.post_ops) {
      out_.Put(static_cast<uint8_t>(op.kind));
      out_.Put(static_cast<uint8_t>(op.activation));
      out_.Put(op.alpha);
      out_.Put(op.beta);
      out_.Put(op.input);
    }
  }
  std::string Take() { return Taken(&out_); }

 private:
  void Value(int64_t value) { out_.Put(value); }
  void Value(double value) { out_.Put(value); }
  void Value(bool value) { out_.Put(static_cast<uint8_t>(value)); }
  void Value(const std::string& value) { out_.Text(value); }
  void Value(const Tensor& value) {
    Type(value, &out_);
    out_.Put(static_cast<uint64_t>(value.data->size()));
    out_.Bytes(value.data->data(), value.data->size());
  }

  ByteWriter out_;
};

// Not those whose results a client sees, nor what depends on more than a node's inputs.
bool MayGo(const NodeGraph& graph, size_t at, const std::unordered_set<const Tensor*>& kept) {
  const Node& node = graph.nodes[at];
  if (node.package_op != nullptr || node.inputs.empty() || KeepsState(node)) return false;
  for (const Tensor* t : node.outputs) {
    if (t == nullptr) continue;
    if (t->type != QNN_TENSOR_TYPE_NATIVE || graph.Producer(t) != static_cast<int>(at) ||
        kept.count(t) != 0)
      return false;
  }
  return true;
}

}  // namespace

Status MergeEqualNodes(NodeGraph* graph, const KeptFloats* kept, int* changes) {
  std::unordered_set<const Tensor*> floats;  // that stay FLOAT_32
  if (kept != nullptr) floats.insert(kept->tensors.begin(), kept->tensors.end());
  std::unordered_map<std::string, size_t> first;
  Inputs inputs;
  std::vector<bool> dead(graph->nodes.size(), false);
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    Node& node = graph->nodes[i];
    for (const Tensor*& t : node.inputs) t = inputs.Of(t);
    if (!MayGo(*graph, i, floats)) continue;
    const auto [same, is_first] = first.emplace(NodeText(node, &inputs).Take(), i);
    if (is_first) continue;
    const std::vector<const Tensor*>& results = graph->nodes[same->second].outputs;
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      if (node.outputs[o] != nullptr) inputs.Replace(node.outputs[o], results[o]);
    }
    dead[i] = true;
    ++*changes;
  }
  if (*changes > 0) graph->Erase(dead);
  return Status::Ok();
}

}  // namespace qnnrt
