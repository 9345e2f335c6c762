// Clients write a convolution of one dimension as one of two between reshapes, behind which no pass
// sees it. Such a reshape (nothing but axes of size one come or go) moves behind the element-wise
// nodes, the slices and the pads that follow it, to where it meets the next one or is needed.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "abi/qnn_op_names.h"
#include "graph/passes/node_graph.h"
#include "ops/op.h"

namespace qnnrt {
namespace {

// Which dims of `base` those of `shape` are, where both have the same ones longer than one, in
// order, and the same last one. Of a dim of size one: none (-1), but for the last.
std::optional<std::vector<int>> DimsOf(const Shape& shape, const Shape& base) {
  if (shape.empty() || base.empty() || shape.back() != base.back()) return std::nullopt;
  std::vector<int> dims(shape.size(), -1);
  dims.back() = static_cast<int>(base.size()) - 1;
  size_t b = 0;
  const auto next = [&] {
    while (b + 1 < base.size() && base[b] == 1) ++b;
    return b + 1 < base.size();
  };
  for (size_t i = 0; i + 1 < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    if (!next() || base[b] != shape[i]) return std::nullopt;
    dims[i] = static_cast<int>(b++);
  }
  if (next()) return std::nullopt;
  return dims;
}

bool HasWindow(const Node& node) {
  const OpDef* def = FindOp(node.type);
  return def != nullptr && def->sums_products() && node.Find("pad_amount") != nullptr;
}

// One value, or one for each of the last axis: it meets the same elements in any of the shapes.
bool IsForChannels(const Tensor& tensor, uint32_t channels) {
  if (!tensor.is_static()) return false;
  const uint64_t count = tensor.elements();
  return count == 1 || (count == channels && tensor.shape.back() == channels);
}

class Sinker {
 public:
  explicit Sinker(NodeGraph* graph) : graph_(graph) {}

  int Run() {
    for (Node& node : graph_->nodes) {
      if (Defer(node) || Rebase(&node)) continue;
      for (const Tensor*& input : node.inputs) {
        if (input != nullptr) input = Needed(input);
      }
      if (HasWindow(node)) bases_.insert(node.outputs[0]);
      Emit(std::move(node));
    }
    graph_->nodes = std::move(made_);
    graph_->Index();
    return changes_;
  }

 private:
  void Emit(Node node) { made_.push_back(std::move(node)); }

  // Where the elements of a tensor are: itself, or what a reshape that was put off reads.
  const Tensor* BaseOf(const Tensor* tensor) const {
    const auto found = deferred_.find(tensor);
    return found == deferred_.end() ? tensor : found->second;
  }
  bool IsDeferred(const Tensor* tensor) const { return deferred_.count(tensor) != 0; }

  // A reshape of what a convolution, or a node that was moved in front of one, wrote.
  bool Defer(const Node& node) {
    if (!IsReshape(node) || !node.HasOutput(0)) return false;
    const Tensor *out = node.outputs[0], *base = BaseOf(node.inputs[0]);
    if (bases_.count(base) == 0 || out->type != QNN_TENSOR_TYPE_NATIVE) return false;
    if (!DimsOf(out->shape, base->shape) || !SameEncoding(*out, *base)) return false;
    deferred_[out] = base;
    return true;
  }

  // The tensor in the shape that its readers know, by a reshape where there was none yet.
  const Tensor* Needed(const Tensor* tensor) {
    const auto found = deferred_.find(tensor);
    if (found == deferred_.end()) return tensor;
    const Tensor* base = found->second;
    if (base->shape == tensor->shape) return base;
    if (!written_.insert(tensor).second) return tensor;
    Emit(Reshape(base, tensor));
    return tensor;
  }

  Node Reshape(const Tensor* from, const Tensor* to) const {
    Node node;
    node.name = to->name + ".reshape";
    node.package = "qti.aisw";
    node.type = QNN_OP_RESHAPE;
    node.inputs = {from};
    node.outputs = {to};
    CompleteParams(&node);
    return node;
  }

  // The node on the base of its input instead, and what it wrote becomes a reshape that is put off.
  bool Rebase(Node* node) {
    if (node->outputs.size() != 1 || !node->HasOutput(0) || !node->HasInput(0)) return false;
    if (!node->post_ops.empty() || node->package_op != nullptr) return false;
    const auto first = std::find_if(node->inputs.begin(), node->inputs.end(),
                                    [&](const Tensor* t) { return IsDeferred(t); });
    if (first == node->inputs.end()) return false;
    const Tensor *known = *first, *base = BaseOf(known), *out = node->outputs[0];
    const std::optional<std::vector<int>> dims = DimsOf(known->shape, base->shape);
    if (out->type != QNN_TENSOR_TYPE_NATIVE || !out->quantization.per_tensor() || !dims) {
      return false;
    }
    Shape shape = base->shape;
    if (node->type == QNN_OP_STRIDED_SLICE) {
      if (!RebaseSlice(node, *dims, base->shape)) return false;
    } else if (node->type == QNN_OP_PAD) {
      if (!RebasePad(node, *dims, base->shape)) return false;
    } else if (!RebaseElements(node, *known, *base)) {
      return false;
    } else {
      if (out->shape != known->shape) return false;
      std::vector<const Tensor*> inputs;
      for (const Tensor* input : node->inputs) inputs.push_back(InShapeOf(input, *known, base));
      node->inputs = std::move(inputs);
    }
    if (node->type == QNN_OP_STRIDED_SLICE || node->type == QNN_OP_PAD) {
      node->inputs[0] = base;
      for (size_t i = 0; i < dims->size(); ++i) {
        if ((*dims)[i] >= 0) shape[static_cast<size_t>((*dims)[i])] = out->shape[i];
      }
    }
    Tensor* moved = graph_->NewTensor(*out);
    moved->shape = shape;
    node->outputs[0] = moved;
    Emit(std::move(*node));
    deferred_[out] = moved;
    bases_.insert(moved);
    ++changes_;
    return true;
  }

  // Whether each element of the output is computed of the elements at its place.
  bool RebaseElements(Node* node, const Tensor& known, const Tensor& base) const {
    const OpDef* def = FindOp(node->type);
    if (def == nullptr) return false;
    const bool by_element = def->activation != nullptr || def->linear != OpDef::kNotLinear ||
                            node->type == QNN_OP_CONVERT || node->type == QNN_OP_CAST;
    if (!by_element || known.shape.back() != base.shape.back()) return false;
    for (const Tensor* input : node->inputs) {
      if (input == nullptr) return false;
      if (IsForChannels(*input, known.shape.back())) continue;
      if (input->is_static() || input->shape != known.shape) return false;
      if (!input->quantization.per_tensor()) return false;
    }
    return true;
  }

  // An operand of the known shape in the base's: as it was before, or by a reshape of its own.
  const Tensor* InShapeOf(const Tensor* input, const Tensor& known, const Tensor* base) {
    if (input->is_static() || input->shape != known.shape) return input;
    const Tensor* from = BaseOf(input);
    if (from->shape == base->shape) return from;
    Tensor* turned = graph_->NewTensor(*input);
    turned->shape = base->shape;
    Emit(Reshape(from, turned));
    return turned;
  }

  static bool RebaseSlice(Node* node, const std::vector<int>& dims, const Shape& base) {
    for (const char* mask : {"begin_mask", "end_mask", "shrink_axes", "new_axes_mask"}) {
      if (node->Int(mask) != 0) return false;
    }
    const std::vector<int64_t> ranges = node->Ints("ranges");
    if (ranges.size() != 3 * dims.size()) return false;
    std::vector<int64_t> rows;
    for (uint32_t size : base) rows.insert(rows.end(), {0, int64_t{size}, 1});
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] < 0) {
        if (node->outputs[0]->shape[i] != 1) return false;
        continue;
      }
      std::copy_n(ranges.begin() + static_cast<ptrdiff_t>(3 * i), 3,
                  rows.begin() + 3 * static_cast<ptrdiff_t>(dims[i]));
    }
    SetInts(node, "ranges", QNN_DATATYPE_INT_32, {static_cast<uint32_t>(base.size()), 3}, rows);
    return true;
  }

  static bool RebasePad(Node* node, const std::vector<int>& dims, const Shape& base) {
    const std::vector<int64_t> amounts = node->Ints("pad_amount");
    if (amounts.size() != 2 * dims.size()) return false;
    std::vector<int64_t> rows(2 * base.size(), 0);
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] < 0) {
        if (amounts[2 * i] != 0 || amounts[2 * i + 1] != 0) return false;
        continue;
      }
      rows[2 * static_cast<size_t>(dims[i])] = amounts[2 * i];
      rows[2 * static_cast<size_t>(dims[i]) + 1] = amounts[2 * i + 1];
    }
    SetInts(node, "pad_amount", QNN_DATATYPE_UINT_32, {static_cast<uint32_t>(base.size()), 2},
            rows);
    return true;
  }

  NodeGraph* graph_;
  std::vector<Node> made_;
  std::map<const Tensor*, const Tensor*> deferred_;  // what a reshape wrote: what it read
  std::set<const Tensor*> bases_, written_;
  int changes_ = 0;
};

}  // namespace

Status SinkReshapes(NodeGraph* graph, int* changes) {
  *changes += Sinker(graph).Run();
  int removed = 0;
  return RemoveDeadNodes(graph, &removed);
}

}  // namespace qnnrt
