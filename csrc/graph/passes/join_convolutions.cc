// Channels that a Concat joins and a Split takes apart again are not moved: what the one joins the
// other hands on. And convolutions of the parts of one tensor, whose results are joined, are one
// convolution in groups: as ops without groups are exported, and blocks that mix convolutions.
#include <algorithm>
#include <cstring>
#include <optional>

#include "abi/qnn_errors.h"
#include "abi/qnn_op_names.h"
#include "graph/passes/fuse_dynamic.h"
#include "graph/passes/node_graph.h"
#include "ops/encoding.h"
#include "ops/isa.h"
#include "ops/op.h"

namespace qnnrt {
namespace {

using Ports = std::vector<const Tensor*>;

// What a Concat joins or a Split takes apart; nothing of another node, and where some part is left
// out or has no elements.
std::optional<Parts> PartsOf(const Node& node) {
  if ((node.type != QNN_OP_CONCAT && node.type != QNN_OP_SPLIT) || node.package_op != nullptr ||
      !node.post_ops.empty()) {
    return std::nullopt;
  }
  const std::optional<Parts> parts = FindOp(node.type)->parts(node);
  if (!parts) return parts;
  const Tensor* whole = parts->joins ? node.outputs[0] : node.inputs[0];
  const Ports& ports = parts->joins ? node.inputs : node.outputs;
  for (size_t i = 0; i < ports.size(); ++i) {
    if (ports[i] == nullptr || parts->parts[i].size == 0 || !SameStored(*ports[i], *whole))
      return std::nullopt;
  }
  return parts;
}

size_t AxisOf(const Node& node) {  // of either
  const int64_t axis = node.Int("axis"), rank = static_cast<int64_t>(node.inputs[0]->shape.size());
  return static_cast<size_t>(axis < 0 ? axis + rank : axis);
}

bool OfLastAxis(const Node& node) { return AxisOf(node) + 1 == node.inputs[0]->shape.size(); }

// ---- a Split of what a Concat joins ----

// The Split's node becomes what is left of it, part by part of whichever has fewer: nothing, a
// Split, or a Concat.
bool HandOn(Rewriter* to, size_t at) {
  NodeGraph* graph = to->graph();
  const Node& split = to->node(at);
  if (split.type != QNN_OP_SPLIT || !graph->IsPrivate(split.inputs[0])) return false;
  const size_t from = to->IndexOf(split.inputs[0]);
  const Node& concat = to->node(from);
  const std::optional<Parts> joined = PartsOf(concat), taken = PartsOf(split);
  if (!joined || !taken || !joined->joins || AxisOf(concat) != AxisOf(split)) return false;
  const bool joins = concat.inputs.size() > split.outputs.size();
  const Parts &few = joins ? *taken : *joined, &many = joins ? *joined : *taken;
  const Ports& wide = joins ? split.outputs : concat.inputs;
  const Ports& narrow = joins ? concat.inputs : split.outputs;
  for (const Tensor* t : split.outputs) {
    if (t->type != QNN_TENSOR_TYPE_NATIVE) return false;  // the client's stay
  }
  std::vector<size_t> first = {0};  // narrow parts of each wide one
  for (size_t i = 0, k = 0; i < few.parts.size(); ++i) {
    const size_t end = few.parts[i].begin + few.parts[i].size;
    while (k < many.parts.size() && many.parts[k].begin + many.parts[k].size <= end) ++k;
    if (k == first.back() || many.parts[k - 1].begin + many.parts[k - 1].size != end) return false;
    first.push_back(k);
  }
  const Node model = joins ? concat : split;
  for (size_t i = 0; i < wide.size(); ++i) {
    const Ports beside(narrow.begin() + static_cast<ptrdiff_t>(first[i]),
                       narrow.begin() + static_cast<ptrdiff_t>(first[i + 1]));
    if (beside.size() == 1) {
      graph->ReplaceUses(split.outputs[joins ? i : first[i]], concat.inputs[joins ? first[i] : i]);
      continue;
    }
    Node node = model;
    node.name += "." + std::to_string(i);
    node.inputs = joins ? beside : Ports{wide[i]};
    node.outputs = joins ? Ports{wide[i]} : beside;
    if (!joins) {
      std::vector<int64_t> points;
      int64_t point = 0;
      for (size_t k = 0; k + 1 < beside.size(); ++k)
        points.push_back(point += beside[k]->shape[AxisOf(model)]);
      SetInts(&node, "split_index", QNN_DATATYPE_UINT_32, {static_cast<uint32_t>(points.size())},
              points);
    }
    to->Insert(at, std::move(node));
  }
  to->Drop(from);
  to->Drop(at);
  return true;
}

// ---- convolutions of parts ----

bool IsConv(const Node& node) {
  const char* const types[] = {QNN_OP_CONV_1D, QNN_OP_CONV_2D, QNN_OP_CONV_3D,
                               QNN_OP_DEPTH_WISE_CONV_1D, QNN_OP_DEPTH_WISE_CONV_2D};
  return node.package_op == nullptr &&
         std::find(std::begin(types), std::end(types), node.type) != std::end(types);
}

bool SameParams(const Node& a, const Node& b) {
  const char* const lists[] = {"stride", "pad_amount", "dilation"};
  return std::all_of(std::begin(lists), std::end(lists),
                     [&](const char* name) { return a.Ints(name) == b.Ints(name); }) &&
         a.Int("group") == b.Int("group");
}

bool SameOps(const std::vector<PostOp>& a, const std::vector<PostOp>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const PostOp& x, const PostOp& y) {
    return x.kind == PostOp::Kind::kActivation && y.kind == x.kind &&
           x.activation == y.activation && x.alpha == y.alpha && x.beta == y.beta;
  });
}

// How convolutions of so many parts are one.
enum class Form { kNone, kGroups, kZeros };

// Groups of no more channels than a vector are of oneDNN's older kernel: where there are few terms
// either way, one group with zeros elsewhere takes 0.75 to 0.9 of the time on one thread, and a
// third on two (24 to 144 channels of 56x56 pixels, 32 to 64 of 80x80; AMX, two cores). With many
// parts, the nodes take longer by themselves.
Form FormOf(const Node& conv, size_t count) {
  constexpr size_t kMostTerms = 64, kManyParts = 8;
  const Shape& shape = conv.inputs[1]->shape;
  const size_t inputs = shape[shape.size() - 2], columns = shape.back();
  const bool large = CpuIsa() == Isa::kAvx512;
  const size_t vector = large ? 16 : 8;
  const bool apart =
      conv.type == QNN_OP_DEPTH_WISE_CONV_1D || conv.type == QNN_OP_DEPTH_WISE_CONV_2D;
  if (apart || inputs > vector) return Form::kGroups;
  const bool one_tap = conv.inputs[1]->elements() == inputs * columns;
  if (one_tap && conv.Int("group") == 1 && inputs * count <= kMostTerms) return Form::kZeros;
  return large && count >= kManyParts ? Form::kGroups : Form::kNone;
}

// Whether a convolution of a part of some tensor is like the `first`.
bool Alike(const NodeGraph& graph, const Node& first, const Node& node, const KeptFloats* kept) {
  if (!IsConv(node) || node.type != first.type || !SameParams(first, node) ||
      !SameOps(first.post_ops, node.post_ops) || node.HasInput(2) != first.HasInput(2)) {
    return false;
  }
  if (kept != nullptr && kept->nodes.count(node.name) != 0) return false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.HasInput(i)) continue;
    const Tensor *a = first.inputs[i], *b = node.inputs[i];
    if (a->dtype != b->dtype || a->shape != b->shape || (i > 0 && !IsStaticFloat(b))) return false;
  }
  return graph.IsPrivate(node.inputs[0]) && IsFloat(node.inputs[0]->dtype);
}

// Static tensors beside each other along their last axis, or, with zeros, on a diagonal of the last
// two.
Tensor* Beside(NodeGraph* graph, const Ports& parts, bool zeros) {
  const Tensor& first = *parts[0];
  const size_t rows = first.elements() / first.shape.back();
  const size_t row = first.shape.back() * ElementSize(first.dtype), wide = row * parts.size();
  Shape shape = first.shape;
  shape.back() *= static_cast<uint32_t>(parts.size());
  if (zeros) shape[shape.size() - 2] *= static_cast<uint32_t>(parts.size());
  const size_t bytes = rows * wide * (zeros ? parts.size() : 1);
  auto data = AlignedBytes::Make(bytes);
  if (data == nullptr) return nullptr;
  char* const to = static_cast<char*>(data->data());
  std::memset(to, 0, bytes);
  for (size_t i = 0; i < parts.size(); ++i) {
    const char* from = static_cast<const char*>(parts[i]->data->data());
    const size_t first_row = zeros ? i * rows : 0;
    for (size_t r = 0; r < rows; ++r)
      std::memcpy(to + (first_row + r) * wide + i * row, from + r * row, row);
  }
  return graph->NewStatic(first.name, first.dtype, shape, std::move(data));
}

Result<bool> InGroups(Rewriter* to, size_t at, const KeptFloats* kept) {
  NodeGraph* graph = to->graph();
  const Node& concat = to->node(at);
  if (concat.type != QNN_OP_CONCAT || !PartsOf(concat) || !OfLastAxis(concat)) return false;
  const size_t count = concat.inputs.size();
  std::vector<size_t> convs;
  for (const Tensor* t : concat.inputs) {
    if (!graph->IsPrivate(t) || to->dropped(to->IndexOf(t))) return false;
    convs.push_back(to->IndexOf(t));
  }
  const Node& first = to->node(convs[0]);
  if (!IsConv(first) || count < 2) return false;
  const int producer = graph->Producer(first.inputs[0]);
  const Form form = FormOf(first, count);
  if (producer < 0 || form == Form::kNone) return false;
  const Node& split = to->node(static_cast<size_t>(producer));
  if (split.type != QNN_OP_SPLIT || !PartsOf(split) || split.outputs.size() != count ||
      !OfLastAxis(split)) {
    return false;
  }
  Ports weights, bias;
  for (size_t i = 0; i < count; ++i) {
    const Node& conv = to->node(convs[i]);
    if (!Alike(*graph, first, conv, kept) || conv.inputs[0] != split.outputs[i]) return false;
    weights.push_back(conv.inputs[1]);
    if (conv.HasInput(2)) bias.push_back(conv.inputs[2]);
  }
  Node joined = first;
  joined.inputs[0] = split.inputs[0];
  joined.inputs[1] = Beside(graph, weights, form == Form::kZeros);
  if (!bias.empty()) joined.inputs[2] = Beside(graph, bias, false);
  if (joined.inputs[1] == nullptr || (!bias.empty() && joined.inputs[2] == nullptr)) {
    return Error(QNN_GRAPH_ERROR_MEM_ALLOC, "out of memory for the weights of '%s'",
                 joined.name.c_str());
  }
  joined.outputs[0] = concat.outputs[0];
  for (Param& param : joined.params) {
    if (param.name == "group" && form == Form::kGroups)
      param.value = joined.Int("group") * static_cast<int64_t>(count);
  }
  for (const Tensor* t : weights) graph->Replaced(t);
  for (const Tensor* t : bias) graph->Replaced(t);
  for (size_t conv : convs) to->Drop(conv);
  to->Drop(static_cast<size_t>(producer));
  to->Drop(at);
  to->Insert(at, std::move(joined));
  return true;
}

}  // namespace

Status HandOnParts(NodeGraph* graph, int* changes) {
  for (bool changed = true; changed;) {
    changed = false;
    Rewriter to(graph);
    for (size_t i = 0; i < to.size() && !changed; ++i) changed = HandOn(&to, i);
    if (!changed) break;
    ++*changes;
    to.Apply();
  }
  return Status::Ok();
}

Status JoinConvolutions(NodeGraph* graph, const KeptFloats* kept, int* changes) {
  Rewriter to(graph);
  for (size_t i = 0; i < to.size(); ++i) {
    QNNRT_ASSIGN_OR_RETURN(const bool joined, InGroups(&to, i, kept));
    if (joined) ++*changes;
  }
  if (*changes > 0) to.Apply();
  return Status::Ok();
}

}  // namespace qnnrt
