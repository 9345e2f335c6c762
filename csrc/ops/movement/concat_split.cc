// Concat, Split, Pack, UnPack, Tile. StridedSlice is in slice.cc, Pad in pad.cc.
#include "ops/movement/concat_split.h"

#include <algorithm>
#include <numeric>

#include "abi/qnn_op_names.h"
#include "ops/fixed/kernels.h"
#include "ops/rules.h"
#include "ops/strided_copy.h"

namespace qnnrt {
namespace {

Result<size_t> AxisOfFirst(const Node& node, size_t more) {
  return GetAxis(node, "axis", node.inputs[0]->shape.size() + more);
}

// Part i of the whole begins at index starts[i] of the axis, the last one ends at the last start.
Parts Along(const Tensor& whole, size_t axis, const std::vector<size_t>& starts, bool joins) {
  const size_t inner = Product(whole.shape, axis + 1, whole.shape.size());
  Parts parts{joins, Product(whole.shape, 0, axis), whole.shape[axis] * inner, {}};
  for (size_t i = 0; i + 1 < starts.size(); ++i)
    parts.parts.push_back({starts[i] * inner, (starts[i + 1] - starts[i]) * inner});
  return parts;
}

Result<KernelPtr> MakeParts(const Node& node, const KernelOptions&) { return MakePartCopies(node); }

Status InferConcat(const Node& node, std::vector<Shape>* outputs) {
  const Shape& first = node.inputs[0]->shape;
  QNNRT_ASSIGN_OR_RETURN(const size_t axis, AxisOfFirst(node, 0));
  uint64_t sum = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    Shape shape = node.inputs[i]->shape;
    if (shape.size() == first.size()) {
      sum += shape[axis];
      shape[axis] = first[axis];
    }
    if (shape != first) {
      return Invalid("input %zu has shape %s, expected input 0's %s but for axis %zu", i,
                     ShapeText(node.inputs[i]->shape).c_str(), ShapeText(first).c_str(), axis);
    }
  }
  if (sum > UINT32_MAX) return Invalid("axis %zu of the output would be 2^32 or more", axis);
  (*outputs)[0] = first;
  (*outputs)[0][axis] = static_cast<uint32_t>(sum);
  return {};
}

std::optional<Parts> ConcatParts(const Node& node) {
  const Result<size_t> axis = AxisOfFirst(node, 0);
  if (!axis.ok()) return std::nullopt;
  std::vector<size_t> starts = {0};
  for (const Tensor* part : node.inputs)
    starts.push_back(starts.back() + part->shape[axis.value()]);
  return Along(*node.outputs[0], axis.value(), starts, true);
}

// Where output i begins on the axis, and the axis' end.
Result<std::vector<int64_t>> SplitPoints(const Node& node, size_t axis) {
  const int64_t size = node.inputs[0]->shape[axis];
  std::vector<int64_t> points = node.Ints("split_index");
  if (points.size() + 1 != node.outputs.size()) {
    return Invalid(
        "param 'split_index' has %zu values, expected %zu, one less than there are outputs",
        points.size(), node.outputs.size() - 1);
  }
  points.insert(points.begin(), 0);
  points.push_back(size);
  if (!std::is_sorted(points.begin(), points.end())) {
    return Invalid("param 'split_index' is expected to ascend within [0, %lld], axis %zu's size",
                   static_cast<long long>(size), axis);
  }
  return points;
}

Status InferSplit(const Node& node, std::vector<Shape>* outputs) {
  QNNRT_ASSIGN_OR_RETURN(const size_t axis, AxisOfFirst(node, 0));
  QNNRT_ASSIGN_OR_RETURN(const std::vector<int64_t> points, SplitPoints(node, axis));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    (*outputs)[i] = node.inputs[0]->shape;
    (*outputs)[i][axis] = static_cast<uint32_t>(points[i + 1] - points[i]);
  }
  return {};
}

std::optional<Parts> SplitParts(const Node& node) {
  const Result<size_t> axis = AxisOfFirst(node, 0);
  if (!axis.ok()) return std::nullopt;
  const Result<std::vector<int64_t>> points = SplitPoints(node, axis.value());
  if (!points.ok()) return std::nullopt;
  return Along(*node.inputs[0], axis.value(), {points.value().begin(), points.value().end()},
               false);
}

// 0, 1, ..., count: parts of size 1.
std::vector<size_t> EachIndex(size_t count) {
  std::vector<size_t> starts(count + 1);
  std::iota(starts.begin(), starts.end(), size_t{0});
  return starts;
}

Status InferPack(const Node& node, std::vector<Shape>* outputs) {
  const Shape& first = node.inputs[0]->shape;
  QNNRT_ASSIGN_OR_RETURN(const size_t axis, AxisOfFirst(node, 1));
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.inputs[i]->shape != first) {
      return Invalid("input %zu has shape %s, expected input 0's %s", i,
                     ShapeText(node.inputs[i]->shape).c_str(), ShapeText(first).c_str());
    }
  }
  (*outputs)[0] = first;
  (*outputs)[0].insert((*outputs)[0].begin() + static_cast<ptrdiff_t>(axis),
                       static_cast<uint32_t>(node.inputs.size()));
  return {};
}

std::optional<Parts> PackParts(const Node& node) {
  const Result<size_t> axis = AxisOfFirst(node, 1);
  if (!axis.ok()) return std::nullopt;
  return Along(*node.outputs[0], axis.value(), EachIndex(node.inputs.size()), true);
}

Status InferUnPack(const Node& node, std::vector<Shape>* outputs) {
  const Shape& in = node.inputs[0]->shape;
  QNNRT_ASSIGN_OR_RETURN(const size_t axis, AxisOfFirst(node, 0));
  if (node.outputs.size() != in[axis]) {
    return Invalid("it has %zu outputs, expected %u, the size of axis %zu", node.outputs.size(),
                   in[axis], axis);
  }
  for (Shape& out : *outputs) {
    out = in;
    out.erase(out.begin() + static_cast<ptrdiff_t>(axis));
  }
  return {};
}

std::optional<Parts> UnPackParts(const Node& node) {
  const Result<size_t> axis = AxisOfFirst(node, 0);
  if (!axis.ok()) return std::nullopt;
  return Along(*node.inputs[0], axis.value(), EachIndex(node.outputs.size()), false);
}

Status InferTile(const Node& node, std::vector<Shape>* outputs) {
  const Shape& in = node.inputs[0]->shape;
  QNNRT_ASSIGN_OR_RETURN(const std::vector<int64_t> multiples,
                         GetInts(node, "multiples", in.size(), 1));
  for (size_t i = 0; i < in.size(); ++i) {
    const uint64_t size = in[i] * static_cast<uint64_t>(multiples[i]);
    if (size > UINT32_MAX) return Invalid("axis %zu of the output would be 2^32 or more", i);
    (*outputs)[0].push_back(static_cast<uint32_t>(size));
  }
  return {};
}

Result<KernelPtr> MakeTile(const Node& node, const KernelOptions&) {
  const Shape &in = node.inputs[0]->shape, &out = node.outputs[0]->shape;
  const std::vector<ptrdiff_t> src = DenseStrides(in), dst = DenseStrides(out);
  std::vector<CopyDim> dims;
  for (size_t i = 0; i < in.size(); ++i) {
    const size_t times = in[i] == 0 ? 1 : out[i] / in[i];
    dims.push_back({times, 0, dst[i] * static_cast<ptrdiff_t>(in[i])});
    dims.push_back({in[i], src[i], dst[i]});
  }
  return MakeCopyKernel({{0, 0, StridedCopy(ElementSize(node.inputs[0]->dtype), dims)}});
}

}  // namespace

Result<KernelPtr> MakePartCopies(const Node& node) {
  const std::optional<Parts> parts = FindOp(node.type)->parts(node);
  if (!parts) return Invalid("params do not say which parts there are");
  const size_t size = ElementSize(node.inputs[0]->dtype);
  const auto whole = static_cast<ptrdiff_t>(node.PitchOf(parts->joins, 0, parts->row));
  std::vector<CopyTask> tasks;
  for (size_t i = 0; i < parts->parts.size(); ++i) {
    if (node.InPlace(i)) continue;
    const auto [begin, row] = parts->parts[i];
    const auto part = static_cast<ptrdiff_t>(node.PitchOf(!parts->joins, i, row));
    if (parts->joins) {
      tasks.push_back(
          {i, 0, StridedCopy(size, {{parts->outer, part, whole}, {row, 1, 1}}, 0, begin)});
    } else {
      tasks.push_back(
          {0, i, StridedCopy(size, {{parts->outer, whole, part}, {row, 1, 1}}, begin, 0)});
    }
  }
  return MakeCopyKernel(std::move(tasks));
}

OpList ConcatSplitOps() {
  const PortSpec any{"in[0]", types::kAny};
  PortSpec ranked = any;
  ranked.min_rank = 1;
  const PortSpec out{"out[0]", types::kAny, PortSpec::kOne, 0};
  const PortSpec outs{"out[0..m]", types::kAny, PortSpec::kVariadic, 0};
  PortSpec joined{"in[0..m]", types::kAny, PortSpec::kVariadic, 0, 1};
  PortSpec packed{"in[0..m]", types::kAny, PortSpec::kVariadic, 0, 0, 7};
  const uint32_t flags = OpDef::kNativeHalf | OpDef::kMoves | OpDef::kLpai;
  OpList ops = {
      {QNN_OP_CONCAT,
       {joined},
       {out},
       {{"axis", ParamSpec::kInt, Default(-1)}},
       InferConcat,
       MakeParts,
       flags,
       MakeFixedConcat},
      {QNN_OP_SPLIT,
       {ranked},
       {outs},
       {{"axis", ParamSpec::kInt, Required(), "the axis to cut"},
        {"split_index", ParamSpec::kInts, Required(),
         "[outputs - 1], where outputs 1, 2, .. begin"}},
       InferSplit,
       MakeParts,
       flags},
      {QNN_OP_PACK,
       {packed},
       {out},
       {{"axis", ParamSpec::kInt, Required(), "position of the new dim"}},
       InferPack,
       MakeParts,
       flags,
       MakeFixedConcat},
      {QNN_OP_UN_PACK,
       {ranked},
       {outs},
       {{"axis", ParamSpec::kInt, Required(),
         "the dim that goes; its size is the number of outputs"}},
       InferUnPack,
       MakeParts,
       flags},
      {QNN_OP_TILE,
       {any},
       {out},
       {{"multiples", ParamSpec::kInts, Required(), "[rank], positive"}},
       InferTile,
       MakeTile,
       flags},
  };
  const auto parts = {ConcatParts, SplitParts, PackParts, UnPackParts};
  for (size_t i = 0; i < parts.size(); ++i) ops[i].parts = parts.begin()[i];
  ops.push_back(StridedSliceOp());
  ops.push_back(PadOp());
  return ops;
}

}  // namespace qnnrt
