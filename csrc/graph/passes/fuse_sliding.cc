// Maxima or sums of slices that lie at equal steps of one axis, as a client writes a dilated pool:
// as one node, which reads the input once and writes the result once.
#include <optional>

#include "abi/qnn_op_names.h"
#include "graph/passes/node_graph.h"
#include "ops/elementwise/binary.h"
#include "ops/elementwise/elementwise.h"
#include "ops/op.h"

namespace qnnrt {
namespace {

// Results beside each other that are worth a call.
constexpr uint64_t kLeastRun = 8;

// A slice of a tensor along one axis.
struct Slice {
  const Tensor* of;
  size_t axis;
  int64_t begin, stride, count;
};

std::optional<Slice> SliceOf(const Node& node) {
  if (node.type != QNN_OP_STRIDED_SLICE || !KeepsValues(node)) return std::nullopt;
  for (const char* mask : {"begin_mask", "end_mask", "shrink_axes", "new_axes_mask"}) {
    if (node.Int(mask) != 0) return std::nullopt;
  }
  const Shape &in = node.inputs[0]->shape, &out = node.outputs[0]->shape;
  const std::vector<int64_t> ranges = node.Ints("ranges");
  if (in.size() != out.size() || ranges.size() != 3 * in.size()) return std::nullopt;
  std::optional<Slice> found;
  for (size_t i = 0; i < in.size(); ++i) {
    const int64_t begin = ranges[3 * i], end = ranges[3 * i + 1], stride = ranges[3 * i + 2];
    if (begin == 0 && end == int64_t{in[i]} && stride == 1) continue;
    if (found || begin < 0 || stride < 1) return std::nullopt;
    found = Slice{node.inputs[0], i, begin, stride, out[i]};
  }
  return found;
}

class Fuse {
 public:
  Fuse(NodeGraph* graph, const FloatStorage& floats) : graph_(graph), floats_(floats) {}

  int Run() {
    int changes = 0;
    for (size_t i = graph_->nodes.size(); i-- > 0;) {  // the last of a chain first
      if (Try(i)) ++changes;
    }
    return changes;
  }

 private:
  const Node* ProducerOf(const Tensor* tensor) const {
    const int at = tensor == nullptr ? -1 : graph_->Producer(tensor);
    return at < 0 ? nullptr : &graph_->nodes[static_cast<size_t>(at)];
  }

  std::optional<Slice> SliceOfTensor(const Tensor* tensor) const {
    const Node* node = ProducerOf(tensor);
    return node == nullptr ? std::nullopt : SliceOf(*node);
  }

  bool Takes(const Node& node) const {
    if (node.package_op != nullptr || !node.post_ops.empty()) return false;
    if (node.type != QNN_OP_ELEMENT_WISE_MAXIMUM && node.type != QNN_OP_ELEMENT_WISE_MINIMUM &&
        node.type != QNN_OP_ELEMENT_WISE_ADD)
      return false;
    const Qnn_DataType_t type = node.outputs[0]->dtype;
    return (type == QNN_DATATYPE_FLOAT_32 && floats_.type == type) ||
           (TypeBit(static_cast<uint32_t>(type)) & types::kInt) != 0;
  }

  bool Try(size_t at) {
    Node& last = graph_->nodes[at];
    if (!Takes(last)) return false;
    // From the last slice to the first: ((s0 op s1) op s2) op ...
    std::vector<Slice> slices;
    const Node* node = &last;
    while (true) {
      const std::optional<Slice> right = SliceOfTensor(node->inputs[1]);
      if (!right) return false;
      slices.push_back(*right);
      const Tensor* left = node->inputs[0];
      if (const std::optional<Slice> first = SliceOfTensor(left)) {
        slices.push_back(*first);
        break;
      }
      const Node* before = ProducerOf(left);
      if (before == nullptr || before->type != last.type || !Takes(*before) ||
          !graph_->IsPrivate(left))
        return false;
      node = before;
    }
    const Slice& first = slices.back();
    const int64_t dilation = slices[slices.size() - 2].begin - first.begin;
    if (dilation < 1) return false;
    for (size_t i = 0; i < slices.size(); ++i) {
      const Slice& s = slices[slices.size() - 1 - i];
      if (s.of != first.of || s.axis != first.axis || s.stride != first.stride ||
          s.count != first.count || s.begin != first.begin + static_cast<int64_t>(i) * dilation)
        return false;
    }
    if (first.of->dtype != last.outputs[0]->dtype) return false;
    uint64_t run = first.stride == 1 ? static_cast<uint64_t>(first.count) : 1;
    for (size_t i = first.axis + 1; i < first.of->shape.size(); ++i) run *= first.of->shape[i];
    if (run < kLeastRun) return false;
    const auto number = [](const char* name, int64_t value) { return Param{name, value}; };
    const std::vector<Param> params = {number("operation", static_cast<int64_t>(BinaryOpOf(last))),
                                       number("axis", static_cast<int64_t>(first.axis)),
                                       number("begin", first.begin),
                                       number("count", first.count),
                                       number("stride", first.stride),
                                       number("taps", static_cast<int64_t>(slices.size())),
                                       number("dilation", dilation)};
    last.inputs = {first.of};
    last.type = kSliding;
    last.params = params;
    return true;
  }

  NodeGraph* const graph_;
  const FloatStorage floats_;
};

}  // namespace

Status FuseSliding(NodeGraph* graph, const FloatStorage& floats, int* changes) {
  const int made = Fuse(graph, floats).Run();
  if (made == 0) return Status::Ok();
  *changes += made;
  int removed = 0;
  graph->Index();
  return RemoveDeadNodes(graph, &removed);
}

}  // namespace qnnrt
