// A node that lies alone between a transpose to channels last and one back takes longer to move
// than to compute, where it computes the same in channels first: Batchnorm and InstanceNorm have
// kernels for that, SpaceToDepth and DepthToSpace are one transpose of the blocks' dimensions, and
// what is resized or pooled are as many images of one channel.
#include "abi/qnn_op_names.h"
#include "abi/qnn_op_values.h"
#include "graph/passes/node_graph.h"
#include "ops/norm/norm.h"
#include "ops/op.h"
#include "ops/pool/pool.h"

namespace qnnrt {
namespace {

// Whether a node moves axis 1 to the end, or the last axis to place 1.
bool Moves(const Node& node, bool to_end) {
  if (node.type != QNN_OP_TRANSPOSE || !KeepsValues(node)) return false;
  const std::vector<int64_t> perm = node.Ints("perm");
  const int64_t rank = static_cast<int64_t>(perm.size());
  if (rank < 3 || perm[0] != 0) return false;
  for (int64_t i = 1; i < rank; ++i) {
    const int64_t from = to_end ? (i == rank - 1 ? 1 : i + 1) : (i == 1 ? rank - 1 : i - 1);
    if (perm[static_cast<size_t>(i)] != from) return false;
  }
  return true;
}

bool OfFloats(const Node& node, const FloatStorage& floats) {
  if (floats.type != QNN_DATATYPE_FLOAT_32) return false;
  for (const auto* tensors : {&node.inputs, &node.outputs}) {
    for (const Tensor* t : *tensors) {
      if (t != nullptr && t->dtype != QNN_DATATYPE_FLOAT_32) return false;
    }
  }
  return true;
}

bool ResizesPlanes(const Node& node, const FloatStorage& floats) {
  const bool resize = node.type == QNN_OP_RESIZE || node.type == QNN_OP_RESIZE_BILINEAR ||
                      node.type == QNN_OP_RESIZE_NEAREST_NEIGHBOR;
  if (!resize || !node.post_ops.empty() || !OfFloats(node, floats)) return false;
  const Tensor &in = *node.inputs[0], &out = *node.outputs[0];
  const bool nearest = node.type == QNN_OP_RESIZE_NEAREST_NEIGHBOR ||
                       (node.type == QNN_OP_RESIZE &&
                        node.Int("interpolation_mode") == QNN_OP_RESIZE_INTERPOLATION_MODE_NEAREST);
  // Each number of an output is gathered: where they are more than those of the input, moving them
  // is cheaper, unless their channels fill no vector.
  return nearest || out.elements() <= in.elements() || in.shape.back() < 16;
}

bool PoolsPlanesOf(const Node& node, const FloatStorage& floats) {
  const bool pool =
      node.type.compare(0, 7, "PoolMax") == 0 || node.type.compare(0, 7, "PoolAvg") == 0;
  if (!pool || !node.post_ops.empty() || !OfFloats(node, floats)) return false;
  const Result<PoolGeometry> g = ReadPool(node);
  return g.ok() && PoolsPlanes(g.value());
}

const char* NormOf(const Node& node, const FloatStorage& floats) {
  if (!OfFloats(node, floats)) return nullptr;
  for (const PostOp& op : node.post_ops) {
    if (op.kind == PostOp::Kind::kAdd) return nullptr;  // what it adds has the channels last
  }
  if (node.type == QNN_OP_BATCHNORM) return kBatchnormChannelsFirst;
  const bool plain = node.type == QNN_OP_INSTANCE_NORM && node.Int("region") == 0 &&
                     node.Int("mode") == 0 && node.Bool("normalize_variance");
  return plain ? kInstanceNormChannelsFirst : nullptr;
}

// A shape that takes the blocks apart, the order of its dimensions in the result.
struct PixelBlocks {
  Shape apart;
  std::vector<int64_t> perm;
};

// Of [N, C, H, W] or, the other way, of [N, depth, h, w].
PixelBlocks PixelBlocksOf(const Node& node, const Shape& in) {
  const std::vector<int64_t> block = node.Ints("block_size");
  const uint32_t bh = static_cast<uint32_t>(block[0]), bw = static_cast<uint32_t>(block[1]);
  const bool dcr = node.Int("mode") == QNN_OP_DEPTH_TO_SPACE_MODE_DCR;
  if (node.type == QNN_OP_SPACE_TO_DEPTH) {
    const Shape apart = {in[0], in[1], in[2] / bh, bh, in[3] / bw, bw};
    if (dcr) return {apart, {0, 3, 5, 1, 2, 4}};
    return {apart, {0, 1, 3, 5, 2, 4}};
  }
  const uint32_t channels = in[1] / (bh * bw);
  if (dcr) return {{in[0], bh, bw, channels, in[2], in[3]}, {0, 3, 4, 1, 5, 2}};
  return {{in[0], channels, bh, bw, in[2], in[3]}, {0, 1, 4, 2, 5, 3}};
}

class Rewrite {
 public:
  Rewrite(NodeGraph* graph, const FloatStorage& floats) : graph_(graph), floats_(floats) {}

  int Run() {
    for (size_t i = 0; i < graph_->nodes.size(); ++i) {
      if (Moves(graph_->nodes[i], false)) Try(i);
    }
    if (changes_ == 0) return 0;
    std::vector<Node> nodes;
    for (size_t i = 0; i < graph_->nodes.size(); ++i) {
      const auto found = moved_.find(i);
      if (found != moved_.end()) {
        for (Node& node : found->second) nodes.push_back(std::move(node));
      }
      nodes.push_back(std::move(graph_->nodes[i]));
    }
    graph_->nodes = std::move(nodes);
    graph_->Index();
    return changes_;
  }

 private:
  // The node before the transpose `back`, whose place it takes.
  void Try(size_t back_at) {
    Node& back = graph_->nodes[back_at];
    const Node* node = PrivateProducer(back.inputs[0]);
    // Images of one dimension are of two, of which one is 1, where QNN asks for that.
    const bool reshaped = node != nullptr && IsReshape(*node) && KeepsEnds(*node);
    if (reshaped) node = PrivateProducer(node->inputs[0]);
    if (node == nullptr || node->package_op != nullptr || node->outputs.size() != 1) return;
    const int to_at = node->inputs.empty() ? -1 : graph_->Producer(node->inputs[0]);
    if (to_at < 0) return;
    const Node& to = graph_->nodes[static_cast<size_t>(to_at)];
    if (!Moves(to, true)) return;
    const Tensor* in = to.inputs[0];
    if (const char* norm = NormOf(*node, floats_)) {
      PutNorm(back_at, *node, norm, in, reshaped);
    } else if ((node->type == QNN_OP_SPACE_TO_DEPTH || node->type == QNN_OP_DEPTH_TO_SPACE) &&
               node->post_ops.empty() && KeepsValues(*node) && !reshaped) {
      MoveBlocks(back_at, *node, in);
    } else if ((ResizesPlanes(*node, floats_) || PoolsPlanesOf(*node, floats_)) && !reshaped &&
               uint64_t{in->shape[0]} * in->shape[1] <= UINT32_MAX) {
      TakePlanes(back_at, *node, in);
    } else {
      return;
    }
    ++changes_;
  }

  const Node* PrivateProducer(const Tensor* tensor) const {
    if (!graph_->IsPrivate(tensor)) return nullptr;
    return &graph_->nodes[static_cast<size_t>(graph_->Producer(tensor))];
  }

  static bool KeepsEnds(const Node& reshape) {
    const Shape &in = reshape.inputs[0]->shape, &out = reshape.outputs[0]->shape;
    return in.size() >= 3 && out.size() >= 3 && in.front() == out.front() &&
           in.back() == out.back();
  }

  void PutNorm(size_t back_at, const Node& node, const char* type, const Tensor* in,
               bool reshaped) {
    Node& back = graph_->nodes[back_at];
    Node made = node;
    made.type = type;
    made.params.clear();
    if (const Param* epsilon = node.Find("epsilon")) made.params.push_back(*epsilon);
    made.inputs[0] = in;
    if (!reshaped) {
      made.outputs = back.outputs;
      back = std::move(made);
      return;
    }
    Tensor* result = graph_->NewTensor(*back.outputs[0]);
    result->shape = in->shape;
    made.outputs = {result};
    moved_[back_at].push_back(std::move(made));
    back.type = QNN_OP_RESHAPE;
    back.params.clear();
    back.inputs = {result};
  }

  void MoveBlocks(size_t back_at, const Node& node, const Tensor* in) {
    Node& back = graph_->nodes[back_at];
    const PixelBlocks blocks = PixelBlocksOf(node, in->shape);
    Tensor* apart = graph_->NewTensor(*in);
    apart->shape = blocks.apart;
    Tensor* turned = graph_->NewTensor(*back.outputs[0]);
    turned->shape.clear();
    for (int64_t from : blocks.perm)
      turned->shape.push_back(blocks.apart[static_cast<size_t>(from)]);
    Node split = Named(back, " apart", QNN_OP_RESHAPE, in, apart);
    Node turn = Named(back, " turned", QNN_OP_TRANSPOSE, apart, turned);
    SetInts(&turn, "perm", QNN_DATATYPE_UINT_32, {6}, blocks.perm);
    std::vector<Node>& before = moved_[back_at];
    before.push_back(std::move(split));
    before.push_back(std::move(turn));
    back.type = QNN_OP_RESHAPE;
    back.params.clear();
    back.inputs = {turned};
  }

  void TakePlanes(size_t back_at, const Node& node, const Tensor* in) {
    Node& back = graph_->nodes[back_at];
    const auto planes = [&](const Tensor& like) {
      Tensor* made = graph_->NewTensor(like);
      made->shape = {like.shape[0] * like.shape[1]};
      made->shape.insert(made->shape.end(), like.shape.begin() + 2, like.shape.end());
      made->shape.push_back(1);
      return made;
    };
    Node made = node;
    made.inputs[0] = planes(*in);
    made.outputs = {planes(*back.outputs[0])};
    std::vector<Node>& before = moved_[back_at];
    before.push_back(Named(back, " planes", QNN_OP_RESHAPE, in, made.inputs[0]));
    back.type = QNN_OP_RESHAPE;
    back.params.clear();
    back.inputs = {made.outputs[0]};
    before.push_back(std::move(made));
  }

  static Node Named(const Node& like, const char* suffix, const char* type, const Tensor* in,
                    const Tensor* out) {
    Node node;
    node.name = like.name + suffix;
    node.package = like.package;
    node.type = type;
    node.inputs = {in};
    node.outputs = {out};
    return node;
  }

  NodeGraph* const graph_;
  const FloatStorage floats_;
  std::unordered_map<size_t, std::vector<Node>> moved_;  // nodes to put before one
  int changes_ = 0;
};

}  // namespace

Status KeepChannelsFirst(NodeGraph* graph, const FloatStorage& floats, int* changes) {
  *changes += Rewrite(graph, floats).Run();
  int removed = 0;
  return RemoveDeadNodes(graph, &removed);
}

}  // namespace qnnrt
