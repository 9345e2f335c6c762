// A product whose columns are taken apart behind it becomes a product for each part: nothing is
// copied, and what follows a part (an activation, say) can join its product. So do convolutions.
#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "abi/qnn_errors.h"
#include "abi/qnn_op_names.h"
#include "graph/passes/node_graph.h"
#include "ops/op.h"

namespace qnnrt {
namespace {

struct Part {
  uint32_t begin, end;  // columns
  const Tensor* tensor;
};
using Readers = std::unordered_map<const Tensor*, std::vector<size_t>>;

// Where the columns of a product are once their axis was reshaped to several: the first of these,
// and the columns behind one index of it.
struct Columns {
  size_t axis;
  uint32_t inner;
};

std::optional<Columns> ColumnsIn(const Shape& shape, uint32_t columns) {
  uint64_t inner = 1;
  for (size_t axis = shape.size(); axis-- > 0; inner *= shape[axis]) {
    if (inner * shape[axis] == columns && columns > inner)
      return Columns{axis, static_cast<uint32_t>(inner)};
  }
  return std::nullopt;
}

// The index that a Gather takes of its axis, where it takes one that is known.
std::optional<uint32_t> OneIndex(const Node& node, uint32_t size) {
  const Tensor& indices = *node.inputs[1];
  if (!indices.is_static() || indices.elements() != 1 || ElementSize(indices.dtype) != 4)
    return std::nullopt;
  int64_t index = *indices.data_as<int32_t>();
  if (index < 0) index += size;
  if (index < 0 || index >= size) return std::nullopt;
  return static_cast<uint32_t>(index);
}

// The parts that a node takes of a tensor's columns; none where it does something else, which may
// be to read the tensor as another input than the first.
std::vector<Part> PartsOf(const Node& node, const Tensor* whole, const Columns& at) {
  if (node.inputs[0] != whole) return {};
  const Shape& in = whole->shape;
  const int64_t rank = static_cast<int64_t>(in.size()), axis = static_cast<int64_t>(at.axis);
  const int64_t size = in[at.axis];
  std::vector<Part> parts;
  const auto add = [&](int64_t begin, int64_t end, const Tensor* tensor) {
    parts.push_back(
        {static_cast<uint32_t>(begin) * at.inner, static_cast<uint32_t>(end) * at.inner, tensor});
  };
  if (node.type == QNN_OP_SPLIT) {
    if (node.Int("axis") != axis && node.Int("axis") != axis - rank) return {};
    std::vector<int64_t> points = node.Ints("split_index");
    points.insert(points.begin(), 0);
    points.push_back(size);
    if (points.size() != node.outputs.size() + 1) return {};
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != nullptr) add(points[i], points[i + 1], node.outputs[i]);
    }
    return parts;
  }
  if (node.type == QNN_OP_GATHER) {
    const std::optional<uint32_t> index = OneIndex(node, in[at.axis]);
    if (!index || (node.Int("axis") != axis && node.Int("axis") != axis - rank)) return {};
    add(*index, int64_t{*index} + 1, node.outputs[0]);
    return parts;
  }
  if (node.type != QNN_OP_STRIDED_SLICE) return {};
  for (const char* mask : {"begin_mask", "end_mask", "shrink_axes", "new_axes_mask"}) {
    if (node.Int(mask) != 0) return {};
  }
  const std::vector<int64_t> ranges = node.Ints("ranges");
  if (static_cast<int64_t>(ranges.size()) != 3 * rank) return {};
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t* range = &ranges[static_cast<size_t>(3 * i)];
    const bool all = range[0] == 0 && range[1] == in[static_cast<size_t>(i)];
    if (range[2] != 1 || (i != axis && !all)) return {};
    if (i != axis) continue;
    if (range[0] < 0 || range[0] >= range[1] || range[1] > size) return {};
    add(range[0], range[1], node.outputs[0]);
  }
  return parts;
}

bool IsMatrix(const Shape& shape) {  // with ones before it
  return shape.size() >= 2 &&
         std::all_of(shape.begin(), shape.end() - 2, [](uint32_t n) { return n == 1; });
}

// Convolutions of one group, whose inputs are read once for each part.
bool IsConv(const Node& node) {
  return (node.type == QNN_OP_CONV_1D || node.type == QNN_OP_CONV_2D ||
          node.type == QNN_OP_CONV_3D) &&
         node.Int("group") == 1;
}

bool IsProduct(const Node& node) {
  const bool of_matrices = node.type == QNN_OP_MAT_MUL || node.type == QNN_OP_FULLY_CONNECTED;
  const auto is_activation = [](const PostOp& op) { return op.kind == PostOp::Kind::kActivation; };
  return (of_matrices || IsConv(node)) && node.package_op == nullptr &&
         std::all_of(node.post_ops.begin(), node.post_ops.end(), is_activation) &&
         node.outputs.size() == 1 && node.outputs[0] != nullptr && IsStaticFloat(node.inputs[1]) &&
         (!of_matrices || IsMatrix(node.inputs[1]->shape)) &&
         (!node.HasInput(2) || IsStaticFloat(node.inputs[2])) &&
         node.outputs[0]->dtype == node.inputs[1]->dtype;
}

// Part of a static tensor along one axis.
Tensor* Taken(NodeGraph* graph, const Tensor& from, size_t axis, const Part& part) {
  Shape shape = from.shape;
  shape[axis] = part.end - part.begin;
  size_t outer = 1, inner = ElementSize(from.dtype);
  for (size_t i = 0; i < axis; ++i) outer *= shape[i];
  for (size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  auto data = AlignedBytes::Make(outer * shape[axis] * inner);
  if (data == nullptr) return nullptr;
  const char* source = static_cast<const char*>(from.data->data()) + part.begin * inner;
  char* to = static_cast<char*>(data->data());
  for (size_t i = 0; i < outer; ++i) {
    std::memcpy(to + i * shape[axis] * inner, source + i * from.shape[axis] * inner,
                shape[axis] * inner);
  }
  const std::string name = from.name + "." + std::to_string(part.begin);
  return graph->NewStatic(name, from.dtype, shape, std::move(data));
}

class Splitting {
 public:
  explicit Splitting(NodeGraph* graph)
      : graph_(graph), dead_(graph->nodes.size(), false), made_(graph->nodes.size()) {
    for (size_t i = 0; i < graph->nodes.size(); ++i) {
      for (const Tensor* t : graph->nodes[i].inputs) {
        if (t != nullptr) readers_[t].push_back(i);
      }
    }
  }

  Status Run(int* changes) {
    for (size_t i = 0; i < graph_->nodes.size(); ++i) {
      if (!IsProduct(graph_->nodes[i])) continue;
      const Tensor* out = graph_->nodes[i].outputs[0];
      const Tensor* whole = out;  // what its readers read
      std::optional<size_t> reshape;
      std::optional<Columns> columns = ColumnsIn(out->shape, out->shape.back());
      const std::vector<size_t>* users = ReadersOf(out);
      if (users == nullptr) continue;
      if (users->size() == 1 && Reshapes(graph_->nodes[users->front()])) {
        reshape = users->front();
        whole = graph_->nodes[*reshape].outputs[0];
        columns = ColumnsIn(whole->shape, out->shape.back());
        users = ReadersOf(whole);
      }
      if (users == nullptr || !columns) continue;
      std::vector<Part> parts;
      for (size_t user : *users) {
        const std::vector<Part> more = PartsOf(graph_->nodes[user], whole, *columns);
        if (more.empty()) parts.clear();
        if (more.empty()) break;
        parts.insert(parts.end(), more.begin(), more.end());
      }
      if (!Apart(parts) || (IsConv(graph_->nodes[i]) && !Pays(*graph_->nodes[i].inputs[1], parts)))
        continue;
      for (const Part& part : parts) QNNRT_RETURN_IF_ERROR(Make(i, part));
      for (size_t user : *users) dead_[user] = true;
      if (reshape) dead_[*reshape] = true;
      dead_[i] = true;
      ++*changes;
    }
    if (*changes > 0) Apply();
    return {};
  }

 private:
  // Null: the client or nobody reads it.
  const std::vector<size_t>* ReadersOf(const Tensor* tensor) const {
    const auto found = readers_.find(tensor);
    return tensor->type != QNN_TENSOR_TYPE_NATIVE || found == readers_.end() ? nullptr
                                                                             : &found->second;
  }

  static bool Reshapes(const Node& node) {
    const OpDef* def = FindOp(node.type);
    return def != nullptr && (def->flags & OpDef::kAlias) != 0 && node.post_ops.empty() &&
           node.inputs[0]->dtype == node.outputs[0]->dtype;
  }

  // Two parts or more, none of a column that another has: nothing is computed twice.
  static bool Apart(std::vector<Part> parts) {
    std::sort(parts.begin(), parts.end(),
              [](const Part& a, const Part& b) { return a.begin < b.begin; });
    for (size_t i = 1; i < parts.size(); ++i) {
      if (parts[i].begin < parts[i - 1].end) return false;
    }
    return parts.size() > 1;
  }

  // Whether it pays for a convolution, whose tiles are 64 columns wide and end in vectors: 2 to 5
  // parts take 0.83 to 1.14 of the whole's time, and moving them a fifth of it where there are 128
  // terms, a twentieth where there are 512. In ResNet-50 with 4 parts of 52 and 104 columns
  // (Res2Net) parts take 1.3 and 1.12 times as long (AMX, one thread).
  static bool Pays(const Tensor& weights, const std::vector<Part>& parts) {
    constexpr uint64_t kLeastColumns = 32, kFewTerms = 256, kVector = 16, kTile = 64;
    uint64_t columns = 0, filled = 0;
    bool tiles = true;
    for (const Part& part : parts) {
      const uint64_t own = part.end - part.begin;
      if (own < kLeastColumns) return false;
      columns += own;
      filled += (own + kVector - 1) / kVector * kVector;
      tiles = tiles && own % kTile == 0;
    }
    const uint64_t terms = weights.elements() / weights.shape.back();
    return tiles || (terms <= kFewTerms && 10 * filled <= 11 * columns);
  }

  Status Make(size_t at, const Part& part) {
    Node node = graph_->nodes[at];
    const Tensor &weights = *node.inputs[1], &out = *node.outputs[0];
    node.name += "." + std::to_string(part.begin);
    const Tensor* bias = node.HasInput(2) ? node.inputs[2] : nullptr;
    node.inputs[1] = Taken(graph_, weights, OutputAxis(*FindOp(node.type), node), part);
    if (bias != nullptr) node.inputs[2] = Taken(graph_, *bias, bias->shape.size() - 1, part);
    if (node.inputs[1] == nullptr || (bias != nullptr && node.inputs[2] == nullptr)) {
      return Error(QNN_GRAPH_ERROR_MEM_ALLOC, "out of memory for the weights of '%s'",
                   node.name.c_str());
    }
    Shape shape = out.shape;
    shape.back() = part.end - part.begin;
    node.outputs[0] = part.tensor;
    if (part.tensor->shape != shape) {
      Tensor* flat = graph_->NewTensor(out);
      flat->name = node.name;
      flat->shape = shape;
      node.outputs[0] = flat;
    }
    made_[at].push_back(node);
    if (node.outputs[0] != part.tensor) {
      Node reshape;
      reshape.name = node.name + ".shape";
      reshape.package = node.package;
      reshape.type = QNN_OP_RESHAPE;
      reshape.inputs = {node.outputs[0]};
      reshape.outputs = {part.tensor};
      CompleteParams(&reshape);
      made_[at].push_back(std::move(reshape));
    }
    return {};
  }

  void Apply() {
    std::vector<Node> nodes;
    for (size_t i = 0; i < dead_.size(); ++i) {
      for (Node& node : made_[i]) nodes.push_back(std::move(node));
      if (!dead_[i]) nodes.push_back(std::move(graph_->nodes[i]));
    }
    graph_->nodes = std::move(nodes);
    graph_->Index();
  }

  NodeGraph* const graph_;
  Readers readers_;
  std::vector<bool> dead_;
  std::vector<std::vector<Node>> made_;  // in the place of each node
};

}  // namespace

Status SplitProducts(NodeGraph* graph, int* changes) { return Splitting(graph).Run(changes); }

}  // namespace qnnrt
