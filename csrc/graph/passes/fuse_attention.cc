// Two products with a softmax between them, the scores scaled and masked: one node that never
// stores the scores, and reads and writes transposed tensors where they lie.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>

#include "abi/qnn_op_names.h"
#include "graph/passes/node_graph.h"
#include "ops/fixed/arithmetic.h"
#include "ops/matmul/attention.h"
#include "ops/tiles.h"

namespace qnnrt {
namespace {

// Scores that a cache next to a core holds cost little to store, and the library's products are
// faster there; few rows do not pay for packing keys and values, few keys not for the blocks.
struct Least {
  uint64_t scores;
  uint32_t rows, keys;
};
constexpr Least kLeast = {512 * 1024, 32, 128};
// Of a cache with a mask that is computed, a part counts that is known when it runs: only this node
// leaves the rest alone.
constexpr Least kLeastOfCache = {0, 1, 64};
// In tiles of BFLOAT_16 the products are as fast as the library's, and all that lies between is
// saved.
constexpr Least kLeastOnTiles = {4 * 1024, 8, 16};

using Strides = std::array<uint32_t, 4>;

// A tensor seen as [batch0, batch1, rows, columns].
struct View {
  const Tensor* tensor = nullptr;
  std::array<uint32_t, 4> dims{1, 1, 1, 1};
  Strides strides{};
};

// Strides of the dims of `shape`, of elements in order.
std::vector<uint32_t> DenseStrides(const Shape& shape) {
  std::vector<uint32_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

void Place(const Shape& shape, const std::vector<uint32_t>& strides, View* view) {
  const size_t shift = 4 - shape.size();
  for (size_t i = 0; i < shape.size(); ++i) {
    view->dims[shift + i] = shape[i];
    view->strides[shift + i] = shape[i] == 1 ? 0 : strides[i];
  }
}

bool IsPlain(const Node& node, const char* type) {
  return node.type == type && node.post_ops.empty() && node.outputs.size() == 1 &&
         node.outputs[0] != nullptr &&
         (IsFloat(node.outputs[0]->dtype) || IsFixed(node.outputs[0]->dtype));
}

const Node* Producer(const NodeGraph& graph, const Tensor* tensor) {
  const int at = graph.Producer(tensor);
  return at < 0 ? nullptr : &graph.nodes[static_cast<size_t>(at)];
}

std::optional<float> Number(const Tensor* tensor) {
  if (!IsStaticFloat(tensor) || tensor->elements() != 1) return std::nullopt;
  return StaticFloats(*tensor)[0];
}

// The number that all elements of a constant are.
std::optional<float> OneNumber(const Tensor* tensor) {
  if (!IsStaticFloat(tensor) || tensor->elements() == 0) return std::nullopt;
  if (tensor->elements() == 1) return Number(tensor);
  const std::vector<float> values = StaticFloats(*tensor);
  const auto same = [&](float value) { return value == values[0]; };
  return std::all_of(values.begin(), values.end(), same) ? std::optional(values[0]) : std::nullopt;
}

// Of a product with one number, or a quotient: the number, and which input it scales.
struct Scaled {
  float factor;
  size_t input;
};
std::optional<Scaled> ScaledBy(const Node& node) {
  const bool divides = node.type == QNN_OP_ELEMENT_WISE_DIVIDE;
  Scaled found{1, 0};
  std::optional<float> factor = Number(node.inputs[1]);
  if (!factor && !divides) {
    factor = Number(node.inputs[0]);
    found.input = 1;
  }
  if (!factor || node.inputs[found.input]->shape != node.outputs[0]->shape) return std::nullopt;
  found.factor = divides ? 1.0f / *factor : *factor;
  return found;
}

// What a tensor was before it was scaled by numbers; `scale` gets them.
const Tensor* Unscaled(const NodeGraph& graph, const Tensor* tensor, float* scale) {
  for (const Node* node = Producer(graph, tensor); node != nullptr;
       node = Producer(graph, tensor)) {
    if (!IsPlain(*node, QNN_OP_ELEMENT_WISE_MULTIPLY) &&
        !IsPlain(*node, QNN_OP_ELEMENT_WISE_DIVIDE)) {
      break;
    }
    const std::optional<Scaled> scaled = ScaledBy(*node);
    if (!scaled || node->inputs[scaled->input]->dtype != tensor->dtype) break;
    *scale *= scaled->factor;
    tensor = node->inputs[scaled->input];
  }
  return tensor;
}

// Where a matrix lies: what a Transpose makes is read before it, and what scales it, too, where the
// scale is wanted.
std::optional<View> Seen(const NodeGraph& graph, const Tensor* tensor, bool turned,
                         float* scale = nullptr) {
  if (scale != nullptr) tensor = Unscaled(graph, tensor, scale);
  if (tensor->shape.size() < 2 || tensor->shape.size() > 4) return std::nullopt;
  View view;
  view.tensor = tensor;
  std::vector<uint32_t> strides = DenseStrides(tensor->shape);
  const Node* before = Producer(graph, tensor);
  if (before != nullptr && IsPlain(*before, QNN_OP_TRANSPOSE) &&
      SameEncoding(*before->inputs[0], *tensor)) {
    view.tensor = before->inputs[0];
    const std::vector<uint32_t> dense = DenseStrides(view.tensor->shape);
    const std::vector<int64_t> perm = before->Ints("perm");
    for (size_t i = 0; i < perm.size(); ++i) strides[i] = dense[static_cast<size_t>(perm[i])];
    if (scale != nullptr) view.tensor = Unscaled(graph, view.tensor, scale);
  }
  Place(tensor->shape, strides, &view);
  if (turned) {
    std::swap(view.dims[2], view.dims[3]);
    std::swap(view.strides[2], view.strides[3]);
  }
  return view;
}

// The node that makes the tensor for one reader alone.
int PrivateNode(const NodeGraph& graph, const Tensor* tensor, const char* type) {
  if (tensor == nullptr || !graph.IsPrivate(tensor)) return -1;
  const int at = graph.Producer(tensor);
  return IsPlain(graph.nodes[static_cast<size_t>(at)], type) ? at : -1;
}

// Scores that a constant chooses, and a number in place of the others.
struct Choice {
  const Tensor* condition = nullptr;
  bool keeps = true;  // where it is true
  float number = 0;
};

struct Found {
  std::vector<size_t> nodes;  // all but the last product
  View q, k, v, mask;
  Choice choice;  // in place of a mask
  float scale = 1;
  // In fixed point: what they are stored in.
  const Tensor *scores = nullptr, *weights = nullptr;
  // The type in which scores and weights are stored: where it is no FLOAT_32, they are rounded.
  Qnn_DataType_t type = QNN_DATATYPE_FLOAT_32;
  bool mask_is_computed() const { return mask.tensor != nullptr && !mask.tensor->is_static(); }
  bool rounds() const { return type != QNN_DATATYPE_FLOAT_32; }
};

// A number so low that nothing is left of the scores in its place, nor of scores added to it.
constexpr float kNothing = -1e30f;

// The scores behind the choice of a node, if it is one.
const Tensor* Chosen(const NodeGraph& graph, const Tensor* scores, Found* found) {
  const int at = PrivateNode(graph, scores, QNN_OP_ELEMENT_WISE_SELECT);
  if (at < 0) return scores;
  const Node& node = graph.nodes[static_cast<size_t>(at)];
  const Tensor* condition = node.inputs[0];
  for (size_t i : {1, 2}) {
    const std::optional<float> number = OneNumber(node.inputs[3 - i]);
    if (!number || !(*number <= kNothing) || node.inputs[i]->shape != scores->shape) continue;
    if (!condition->is_static() || condition->dtype != QNN_DATATYPE_BOOL_8) continue;
    if (condition->shape.size() > 4 || condition->shape.empty() ||
        condition->shape.back() != scores->shape.back()) {
      continue;
    }
    found->choice = {condition, i == 1, *number};
    Place(condition->shape, DenseStrides(condition->shape), &found->mask);
    found->mask.strides[3] = 1;
    found->nodes.push_back(static_cast<size_t>(at));
    return node.inputs[i];
  }
  return scores;
}

// The same as a mask that is added.
Result<const Tensor*> MaskOf(NodeGraph* graph, const Choice& choice) {
  Tensor* mask = graph->NewTensor(*choice.condition);
  mask->type = QNN_TENSOR_TYPE_STATIC;
  mask->dtype = QNN_DATATYPE_FLOAT_32;
  mask->data = AlignedBytes::Make(mask->bytes());
  if (mask->data == nullptr) return Status::OutOfMemory();
  float* to = static_cast<float*>(mask->data->data());
  const uint8_t* from = choice.condition->data_as<uint8_t>();
  for (size_t i = 0; i < mask->elements(); ++i) {
    to[i] = (from[i] != 0) == choice.keeps ? 0.0f : choice.number;
  }
  return mask;
}

// The product of queries and keys behind `scores`, with what scales and masks it.
bool Scores(const NodeGraph& graph, const Tensor* scores, Found* found) {
  const Shape shape = scores->shape;
  scores = Chosen(graph, scores, found);
  int at = PrivateNode(graph, scores, QNN_OP_ELEMENT_WISE_ADD);
  if (at >= 0 && found->choice.condition == nullptr) {
    const Node& add = graph.nodes[static_cast<size_t>(at)];
    // The mask is what no product makes.
    size_t which = 2;
    for (size_t i = 0; i < 2; ++i) {
      const Tensor* t = add.inputs[i];
      if (t->shape != shape) continue;
      for (const char* type :
           {QNN_OP_MAT_MUL, QNN_OP_ELEMENT_WISE_MULTIPLY, QNN_OP_ELEMENT_WISE_DIVIDE}) {
        if (PrivateNode(graph, t, type) >= 0) which = i;
      }
    }
    if (which == 2) return false;
    const Tensor* mask = add.inputs[1 - which];
    if (!IsFloat(mask->dtype) || mask->shape.size() > 4 || mask->shape.empty() ||
        mask->shape.back() != shape.back()) {
      return false;
    }
    found->mask.tensor = mask;
    Place(mask->shape, DenseStrides(mask->shape), &found->mask);
    found->mask.strides[3] = 1;
    found->nodes.push_back(static_cast<size_t>(at));
    scores = add.inputs[which];
  }
  for (const char* type : {QNN_OP_ELEMENT_WISE_MULTIPLY, QNN_OP_ELEMENT_WISE_DIVIDE}) {
    at = PrivateNode(graph, scores, type);
    if (at < 0) continue;
    const Node& node = graph.nodes[static_cast<size_t>(at)];
    const std::optional<Scaled> scaled = ScaledBy(node);
    // One rounding of what is scaled is made, no two.
    if (!scaled || (found->rounds() && found->scale != 1)) return false;
    found->scale *= scaled->factor;
    found->nodes.push_back(static_cast<size_t>(at));
    scores = node.inputs[scaled->input];
  }
  at = PrivateNode(graph, scores, QNN_OP_MAT_MUL);
  if (at < 0) return false;
  const Node& product = graph.nodes[static_cast<size_t>(at)];
  if (product.HasInput(2) || product.inputs[0]->is_static() || product.inputs[1]->is_static()) {
    return false;
  }
  float* const scale = found->rounds() ? nullptr : &found->scale;  // rounded where it stands
  const auto q = Seen(graph, product.inputs[0], product.Bool("transpose_in0"), scale);
  const auto k = Seen(graph, product.inputs[1], !product.Bool("transpose_in1"), scale);
  if (!q || !k) return false;
  found->q = *q;
  found->k = *k;
  found->nodes.push_back(static_cast<size_t>(at));
  return true;
}

// `stored`: the type of floats between nodes, where the graph's are FLOAT_32.
std::optional<Found> Match(const NodeGraph& graph, const Node& last, Qnn_DataType_t stored) {
  if (!IsPlain(last, QNN_OP_MAT_MUL) || last.HasInput(2) || last.Bool("transpose_in0") ||
      last.inputs[1]->is_static()) {
    return std::nullopt;
  }
  Found found;
  const Qnn_DataType_t own = last.outputs[0]->dtype;
  if (!IsFloat(own)) return std::nullopt;
  // BFLOAT_16 is a choice of this runtime's, which rounds less where it can.
  if (own != QNN_DATATYPE_FLOAT_32 || stored == QNN_DATATYPE_FLOAT_16)
    found.type = own == QNN_DATATYPE_FLOAT_32 ? stored : own;
  const int at = PrivateNode(graph, last.inputs[0], QNN_OP_SOFTMAX);
  if (at < 0) return std::nullopt;
  const Node& softmax = graph.nodes[static_cast<size_t>(at)];
  const int64_t rank = static_cast<int64_t>(softmax.inputs[0]->shape.size());
  const int64_t axis = softmax.Int("axis");
  const float beta = softmax.Float("beta");
  if (rank > 4 || (axis != rank - 1 && axis != -1)) return std::nullopt;
  found.nodes.push_back(static_cast<size_t>(at));
  const auto v = Seen(graph, last.inputs[1], last.Bool("transpose_in1"));
  if (!v || !Scores(graph, softmax.inputs[0], &found)) return std::nullopt;
  if (beta != 1 && (found.mask.tensor != nullptr || found.choice.condition != nullptr)) {
    return std::nullopt;
  }
  // Where a node rounds, only a cache is worth to do the same.
  if (found.rounds() && !found.mask_is_computed()) return std::nullopt;
  for (size_t n : found.nodes) {
    if (graph.nodes[n].outputs[0]->dtype != own) return std::nullopt;
  }
  for (const Tensor* t : {found.q.tensor, found.k.tensor, v->tensor}) {
    if (t->dtype != own) return std::nullopt;
  }
  found.scale *= beta;
  found.v = *v;
  return found;
}

// 8 or 16 bits with one scale.
bool HasOneScale(const Tensor& t) {
  return IsFixed(t.dtype) && ElementSize(t.dtype) <= 2 && t.quantization.per_tensor() &&
         t.quantization.scales.size() == 1 && t.quantization.bitwidth == 0;
}

bool RoundsInFloat(const Tensor& t) {
  const FixedRange range = RangeOf(t.dtype, 0);
  return fixed::Encoder::Takes(t.quantization.scales[0], t.quantization.offsets[0], range.low,
                               range.high);
}

// The same in fixed point, where scores are neither scaled nor masked by nodes of their own, each
// of which would round in a way of its own.
std::optional<Found> MatchFixed(const NodeGraph& graph, const Node& last) {
  if (!IsPlain(last, QNN_OP_MAT_MUL) || !HasOneScale(*last.outputs[0]) || last.HasInput(2) ||
      last.Bool("transpose_in0") || last.inputs[1]->is_static()) {
    return std::nullopt;
  }
  Found found;
  const int at = PrivateNode(graph, last.inputs[0], QNN_OP_SOFTMAX);
  if (at < 0) return std::nullopt;
  const Node& softmax = graph.nodes[static_cast<size_t>(at)];
  const int64_t rank = static_cast<int64_t>(softmax.inputs[0]->shape.size());
  const int64_t axis = softmax.Int("axis");
  const int product_at = PrivateNode(graph, softmax.inputs[0], QNN_OP_MAT_MUL);
  if (rank > 4 || (axis != rank - 1 && axis != -1) || product_at < 0) return std::nullopt;
  const Node& product = graph.nodes[static_cast<size_t>(product_at)];
  if (product.HasInput(2) || product.inputs[0]->is_static() || product.inputs[1]->is_static()) {
    return std::nullopt;
  }
  const auto q = Seen(graph, product.inputs[0], product.Bool("transpose_in0"));
  const auto k = Seen(graph, product.inputs[1], !product.Bool("transpose_in1"));
  const auto v = Seen(graph, last.inputs[1], last.Bool("transpose_in1"));
  if (!q || !k || !v) return std::nullopt;
  found.nodes = {static_cast<size_t>(at), static_cast<size_t>(product_at)};
  found.q = *q;
  found.k = *k;
  found.v = *v;
  found.scale = softmax.Float("beta");
  found.scores = softmax.inputs[0];
  found.weights = last.inputs[0];
  for (const Tensor* t : {q->tensor, k->tensor, v->tensor, found.scores, found.weights}) {
    if (!HasOneScale(*t)) return std::nullopt;
  }
  if (!RoundsInFloat(*found.scores) || !RoundsInFloat(*found.weights)) return std::nullopt;
  return found;
}

void SetType(Node* node, const std::string& what, const Tensor& type) {
  node->params.push_back({what + "_type", int64_t{type.dtype}});
  node->params.push_back({what + "_scale", double{type.quantization.scales[0]}});
  node->params.push_back({what + "_offset", int64_t{type.quantization.offsets[0]}});
}

bool IsOneFor(uint32_t own, uint32_t all) { return own == all || own == 1; }

void SetWords(Node* node, const char* name, const std::vector<int64_t>& values) {
  SetInts(node, name, QNN_DATATYPE_UINT_32, {static_cast<uint32_t>(values.size())}, values);
}

// The only reader of a tensor that a pass may do without.
int Reader(const NodeGraph& graph, const Tensor* tensor, size_t after) {
  if (!graph.IsPrivate(tensor)) return -1;
  for (size_t i = after; i < graph.nodes.size(); ++i) {
    const auto& inputs = graph.nodes[i].inputs;
    if (std::find(inputs.begin(), inputs.end(), tensor) != inputs.end()) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

Status FuseAttention(NodeGraph* graph, const FloatStorage& floats, int* changes) {
  const bool tiles = floats.type == QNN_DATATYPE_BFLOAT_16 && HasTileProducts();
  const Least& least = tiles ? kLeastOnTiles : kLeast;
  std::vector<bool> dead(graph->nodes.size(), false);
  std::map<std::tuple<const void*, bool, float>, const Tensor*> masks;
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    std::optional<Found> found = Match(*graph, graph->nodes[i], floats.type);
    if (!found) found = MatchFixed(*graph, graph->nodes[i]);
    if (!found) continue;
    const Tensor* out = graph->nodes[i].outputs[0];
    if (out->shape.size() > 4) continue;
    View to;
    to.tensor = out;
    Place(out->shape, DenseStrides(out->shape), &to);
    const std::array<uint32_t, 6> dims = {to.dims[0],       to.dims[1],       to.dims[2],
                                          found->k.dims[2], found->q.dims[3], to.dims[3]};
    bool fits = found->q.dims[2] == dims[2] && found->v.dims[2] == dims[3] &&
                found->k.dims[3] == dims[4] && found->v.dims[3] == dims[5];
    for (const View* view : {&found->q, &found->k, &found->v, &found->mask}) {
      for (size_t b = 0; b < 2; ++b) fits &= IsOneFor(view->dims[b], dims[b]);
    }
    fits &= IsOneFor(found->mask.dims[2], dims[2]);
    const Least& needed = found->mask_is_computed() ? kLeastOfCache : least;
    const uint64_t scores = uint64_t{1} * dims[0] * dims[1] * dims[2] * dims[3];
    if (!fits || scores < needed.scores || dims[2] < needed.rows || dims[3] < needed.keys) continue;
    const auto kept = [&](const Node& node) { return floats.kept->nodes.count(node.name) != 0; };
    if (floats.kept != nullptr &&
        (kept(graph->nodes[i]) || std::any_of(found->nodes.begin(), found->nodes.end(),
                                              [&](size_t n) { return kept(graph->nodes[n]); }))) {
      continue;
    }
    if (const Choice& choice = found->choice; choice.condition != nullptr) {
      const Tensor*& mask = masks[{choice.condition->data->data(), choice.keeps, choice.number}];
      if (mask == nullptr) {
        QNNRT_ASSIGN_OR_RETURN(mask, MaskOf(graph, choice));
      }
      found->mask.tensor = mask;
    }
    // What transposes the result writes in its stead, where rows stay rows.
    size_t at = i;
    const int reader = Reader(*graph, out, i + 1);
    if (reader >= 0 && IsPlain(graph->nodes[static_cast<size_t>(reader)], QNN_OP_TRANSPOSE) &&
        SameEncoding(*out, *graph->nodes[static_cast<size_t>(reader)].outputs[0])) {
      const Node& transpose = graph->nodes[static_cast<size_t>(reader)];
      const std::vector<int64_t> perm = transpose.Ints("perm");
      if (perm.back() + 1 == static_cast<int64_t>(perm.size())) {
        const std::vector<uint32_t> dense = DenseStrides(transpose.outputs[0]->shape);
        std::vector<uint32_t> strides(perm.size());
        for (size_t d = 0; d < perm.size(); ++d) strides[static_cast<size_t>(perm[d])] = dense[d];
        Place(out->shape, strides, &to);
        to.tensor = transpose.outputs[0];
        at = static_cast<size_t>(reader);
        dead[i] = true;
      }
    }
    to.strides[3] = 1;
    Node node;
    node.name = graph->nodes[i].name;
    node.package = graph->nodes[i].package;
    node.type = kAttention;
    node.inputs = {found->q.tensor, found->k.tensor, found->v.tensor};
    if (found->mask.tensor != nullptr) node.inputs.push_back(found->mask.tensor);
    node.outputs = {to.tensor};
    std::vector<uint32_t> strides;
    for (const View& view : {found->q, found->k, found->v, found->mask, to}) {
      strides.insert(strides.end(), view.strides.begin(), view.strides.end());
    }
    node.params.push_back({"scale", double{found->scale}});
    node.params.push_back({"rounds", int64_t{found->type}});
    node.params.push_back({"rounds_read", int64_t{0}});
    if (found->scores != nullptr) {
      SetType(&node, "score", *found->scores);
      SetType(&node, "weight", *found->weights);
    }
    SetWords(&node, "dims", {dims.begin(), dims.end()});
    SetWords(&node, "strides", {strides.begin(), strides.end()});
    for (size_t n : found->nodes) {
      dead[n] = true;
      graph->nodes[n] = Node{};
    }
    if (at != i) graph->nodes[i] = Node{};
    graph->nodes[at] = std::move(node);
    ++*changes;
    graph->Index();
  }
  graph->Erase(dead);
  int removed = 0;
  return RemoveDeadNodes(graph, &removed);  // transposes that nobody reads any more
}

}  // namespace qnnrt
