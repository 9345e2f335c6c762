// Sums (and differences) of convolutions of one tensor become one convolution, whose weights are
// the sums: blocks as networks are trained with, of several branches each with a Batchnorm, and of
// one that skips the convolution. A smaller window lies within a larger one.
#include <optional>
#include <utility>

#include "abi/qnn_errors.h"
#include "abi/qnn_op_names.h"
#include "graph/passes/scaled_product.h"
#include "ops/conv/conv.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

// One side of a sum: a convolution of `x`, or `x` times one number a channel, plus another.
struct Branch {
  const Tensor* x = nullptr;
  int at = -1;  // the node; -1: the tensor itself
  std::optional<ConvGeometry> conv;
  Affine map;
};

bool IsSingle(const Tensor* t) { return t->dtype == QNN_DATATYPE_FLOAT_32; }

class Merge {
 public:
  // `skips`: also what is not convolved. The one of its weight takes digits of what it is added to.
  Merge(NodeGraph* graph, bool skips)
      : graph_(graph), skips_(skips), dead_(graph->nodes.size(), false) {}

  Status Run(int* changes) {
    for (size_t i = 0; i < graph_->nodes.size(); ++i) {
      QNNRT_ASSIGN_OR_RETURN(const bool merged, Try(i));
      if (merged) ++*changes;
    }
    graph_->Erase(dead_);
    return Status::Ok();
  }

 private:
  // Of a private tensor the node that makes it, where it is one that can be merged.
  Branch BranchOf(const Tensor* tensor) const {
    const Branch itself{tensor, -1, std::nullopt, {}};
    if (!graph_->IsPrivate(tensor)) return itself;
    const int at = graph_->Producer(tensor);
    const Node& node = graph_->nodes[static_cast<size_t>(at)];
    if (node.package_op != nullptr || !node.post_ops.empty() || node.outputs.size() != 1)
      return itself;
    if (node.type == QNN_OP_CONV_2D || node.type == QNN_OP_DEPTH_WISE_CONV_2D) {
      if (!IsStaticFloat(node.inputs[1]) || !IsSingle(node.inputs[1]) || !HasPlainBias(node))
        return itself;
      Result<ConvGeometry> g = ReadConv(node);
      return g.ok() ? Branch{node.inputs[0], at, *g, {}} : itself;
    }
    size_t input = 0;
    std::optional<Affine> map = AsAffine(node, &input);
    if (!map || node.inputs[input]->shape != tensor->shape) return itself;
    return {node.inputs[input], at, std::nullopt, std::move(*map)};
  }

  Result<bool> Try(size_t i) {
    const Node& sum = graph_->nodes[i];
    const bool minus = sum.type == QNN_OP_ELEMENT_WISE_SUBTRACT;
    if ((sum.type != QNN_OP_ELEMENT_WISE_ADD && !minus) || sum.package_op != nullptr ||
        !sum.post_ops.empty() || sum.inputs[0] == sum.inputs[1]) {
      return false;
    }
    for (const Tensor* t : {sum.inputs[0], sum.inputs[1]}) {
      if (t->shape != sum.outputs[0]->shape || t->shape.size() != 4 || !IsSingle(t) ||
          t->is_static())
        return false;
    }
    Branch sides[2] = {BranchOf(sum.inputs[0]), BranchOf(sum.inputs[1])};
    float signs[2] = {1.0f, minus ? -1.0f : 1.0f};
    const auto larger = [](const Branch& a, const Branch& b) {
      return a.conv && (!b.conv || a.conv->taps() > b.conv->taps());
    };
    if (larger(sides[1], sides[0])) {
      std::swap(sides[0], sides[1]);
      std::swap(signs[0], signs[1]);
    }
    if (!sides[0].conv || sides[1].x != sides[0].x) return false;
    const std::optional<std::pair<int64_t, int64_t>> tap = PlaceOf(sides[0], sides[1]);
    if (!tap) return false;
    QNNRT_RETURN_IF_ERROR(Join(i, sides, signs, *tap));
    return true;
  }

  // At which tap of the larger window the other one begins: each of its taps has to be one, too.
  std::optional<std::pair<int64_t, int64_t>> PlaceOf(const Branch& to, const Branch& from) const {
    const ConvGeometry& a = *to.conv;
    ConvGeometry b = a;
    if (from.conv) {
      b = *from.conv;
      if (b.group != a.group) return std::nullopt;
    } else {
      if (!skips_ || a.cin != a.cout) return std::nullopt;
      b.kernel = b.stride = b.dilation = {1, 1, 1};
      b.pad_before = {0, 0, 0};
    }
    int64_t place[2];
    for (size_t d = 1; d < 3; ++d) {
      const int64_t offset = a.pad_before[d] - b.pad_before[d];
      if (a.stride[d] != b.stride[d] || offset < 0 || offset % a.dilation[d] != 0)
        return std::nullopt;
      if (b.kernel[d] > 1 && a.dilation[d] != b.dilation[d]) return std::nullopt;
      place[d - 1] = offset / a.dilation[d];
      if (place[d - 1] + b.kernel[d] > a.kernel[d]) return std::nullopt;
    }
    return std::make_pair(place[0], place[1]);
  }

  // The sum's node becomes the convolution.
  Status Join(size_t i, const Branch* sides, const float* signs, std::pair<int64_t, int64_t> tap) {
    const ConvGeometry& g = *sides[0].conv;
    Node merged = std::move(graph_->nodes[static_cast<size_t>(sides[0].at)]);
    const Tensor* w = merged.inputs[1];
    const size_t channels = static_cast<size_t>(g.cout);
    std::vector<float> weights = StaticFloats(*w), bias(channels, 0.0f);
    if (merged.HasInput(2)) bias = StaticFloats(*merged.inputs[2]);
    if (signs[0] < 0) {
      for (float& v : weights) v = -v;
      for (float& v : bias) v = -v;
    }
    const size_t row = weights.size() / static_cast<size_t>(g.taps());  // of one tap
    const auto at = [&](int64_t y, int64_t x) {
      return weights.data() +
             static_cast<size_t>((tap.first + y) * g.kernel[2] + tap.second + x) * row;
    };
    if (sides[1].conv) {
      const Node& other = graph_->nodes[static_cast<size_t>(sides[1].at)];
      const std::vector<float> added = StaticFloats(*other.inputs[1]);
      const ConvGeometry& from = *sides[1].conv;
      const float* v = added.data();
      for (int64_t y = 0; y < from.kernel[1]; ++y) {
        for (int64_t x = 0; x < from.kernel[2]; ++x) {
          float* const to = at(y, x);
          for (size_t k = 0; k < row; ++k) to[k] += signs[1] * *v++;
        }
      }
      if (other.HasInput(2)) {
        const std::vector<float> shift = StaticFloats(*other.inputs[2]);
        for (size_t c = 0; c < channels; ++c) bias[c] += signs[1] * shift[c];
        graph_->Replaced(other.inputs[2]);
      }
      graph_->Replaced(other.inputs[1]);
    } else {
      const size_t inputs = static_cast<size_t>(g.cin_per_group());
      const bool itself = sides[1].at < 0;
      float* const to = at(0, 0);
      for (size_t c = 0; c < channels; ++c) {
        to[c % inputs * channels + c] += signs[1] * (itself ? 1.0f : sides[1].map.scale[c]);
        if (!itself) bias[c] += signs[1] * sides[1].map.shift[c];
      }
    }
    const Tensor* new_weights = graph_->NewStatic(w->name, w->dtype, w->shape, weights);
    const Tensor* new_bias =
        graph_->NewStatic(w->name + ".bias", w->dtype, {static_cast<uint32_t>(channels)}, bias);
    if (new_weights == nullptr || new_bias == nullptr) {
      return Error(QNN_GRAPH_ERROR_MEM_ALLOC, "out of memory for the weights of '%s'",
                   merged.name.c_str());
    }
    graph_->Replaced(w);
    if (merged.HasInput(2)) graph_->Replaced(merged.inputs[2]);
    merged.inputs.resize(3);
    merged.inputs[1] = new_weights;
    merged.inputs[2] = new_bias;
    merged.outputs[0] = graph_->nodes[i].outputs[0];
    const Tensor* const summed[] = {graph_->nodes[i].inputs[0], graph_->nodes[i].inputs[1]};
    for (const Branch* side : {&sides[0], &sides[1]}) {
      if (side->at < 0) continue;
      graph_->nodes[static_cast<size_t>(side->at)] = Node{};
      dead_[static_cast<size_t>(side->at)] = true;
    }
    graph_->nodes[i] = std::move(merged);
    for (const Tensor* t : summed) {
      if (t != sides[0].x) graph_->Absorbed(t, i);  // x is read as often as before, or less
    }
    return Status::Ok();
  }

  NodeGraph* graph_;
  const bool skips_;
  std::vector<bool> dead_;
};

}  // namespace

Status MergeBranches(NodeGraph* graph, const Threads& threads, bool skips, int* changes) {
  while (true) {
    int merged = 0;
    QNNRT_RETURN_IF_ERROR(Merge(graph, skips).Run(&merged));
    *changes += merged;
    if (merged == 0) return Status::Ok();
    int folded = 0;  // a scale behind the sum; what it is then added to can be merged next
    QNNRT_RETURN_IF_ERROR(FoldScales(graph, threads, &folded));
    if (folded == 0) return Status::Ok();
  }
}

}  // namespace qnnrt
