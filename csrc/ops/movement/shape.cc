// Reshape and its kin, Transpose, ChannelShuffle. The block rearrangements are in depth_space.cc.
#include <algorithm>

#include "abi/qnn_op_names.h"
#include "ops/movement/depth_space.h"
#include "ops/movement/float_copy.h"
#include "ops/rules.h"
#include "ops/strided_copy.h"

namespace qnnrt {
namespace {

Result<KernelPtr> MakeAlias(const Node& node, const KernelOptions&) { return MakePlainCopy(node); }

Status InferReshape(const Node& node, std::vector<Shape>* outputs) {
  const Shape &in = node.inputs[0]->shape, &out = node.outputs[0]->shape;
  uint64_t count = 0;
  if (!ElementCount(out, &count) || count != ElementCount(in)) {
    return Invalid("output 0 has shape %s, expected as many elements as the input's %s",
                   ShapeText(out).c_str(), ShapeText(in).c_str());
  }
  (*outputs)[0] = out;
  return {};
}

Status InferSqueeze(const Node& node, std::vector<Shape>* outputs) {
  const Shape& in = node.inputs[0]->shape;
  Shape& out = (*outputs)[0];
  if (node.Find("axes") != nullptr) {
    QNNRT_ASSIGN_OR_RETURN(const std::vector<size_t> axes, GetAxes(node, "axes", in.size()));
    out.clear();
    for (size_t i = 0; i < in.size(); ++i) {
      const bool dropped = std::binary_search(axes.begin(), axes.end(), i);
      if (dropped && in[i] != 1) {
        return Invalid("param 'axes' names axis %zu of size %u, expected size 1", i, in[i]);
      }
      if (!dropped) out.push_back(in[i]);
    }
    return {};
  }
  // Without axes the output's own shape says which dims of size 1 go.
  out = node.outputs[0]->shape;
  size_t k = 0;
  for (uint32_t dim : in) {
    if (k < out.size() && out[k] == dim) {
      ++k;
    } else if (dim != 1) {
      k = out.size() + 1;
      break;
    }
  }
  if (k == out.size()) return {};
  return Invalid("output 0 has shape %s, expected the input's %s without some dims of size 1",
                 ShapeText(out).c_str(), ShapeText(in).c_str());
}

Status InferExpandDims(const Node& node, std::vector<Shape>* outputs) {
  const Shape& in = node.inputs[0]->shape;
  std::vector<size_t> axes(1);
  if (node.Find("axes") != nullptr) {
    const size_t rank = in.size() + node.Ints("axes").size();
    QNNRT_ASSIGN_OR_RETURN(axes, GetAxes(node, "axes", rank));
  } else if (node.Find("axis") != nullptr) {
    QNNRT_ASSIGN_OR_RETURN(axes[0], GetAxis(node, "axis", in.size() + 1));
  } else {
    return Invalid("one of the params 'axis' and 'axes' is expected, neither is there");
  }
  Shape& out = (*outputs)[0];
  out = in;
  for (size_t axis : axes) out.insert(out.begin() + static_cast<ptrdiff_t>(axis), 1);
  return {};
}

Result<std::vector<size_t>> Permutation(const Node& node) {
  const size_t rank = node.inputs[0]->shape.size();
  QNNRT_ASSIGN_OR_RETURN(const std::vector<int64_t> values, GetInts(node, "perm", rank, 0));
  std::vector<bool> seen(rank, false);
  std::vector<size_t> perm;
  for (int64_t v : values) {
    if (v >= static_cast<int64_t>(rank) || seen[static_cast<size_t>(v)]) {
      return Invalid("param 'perm' is no permutation of 0..%zu", rank - 1);
    }
    seen[static_cast<size_t>(v)] = true;
    perm.push_back(static_cast<size_t>(v));
  }
  return perm;
}

Status InferTranspose(const Node& node, std::vector<Shape>* outputs) {
  QNNRT_ASSIGN_OR_RETURN(const std::vector<size_t> perm, Permutation(node));
  (*outputs)[0].clear();
  for (size_t axis : perm) (*outputs)[0].push_back(node.inputs[0]->shape[axis]);
  return {};
}

Result<KernelPtr> MakeTranspose(const Node& node, const KernelOptions&) {
  QNNRT_ASSIGN_OR_RETURN(const std::vector<size_t> perm, Permutation(node));
  const std::vector<ptrdiff_t> in = DenseStrides(node.inputs[0]->shape);
  const std::vector<ptrdiff_t> out = DenseStrides(node.outputs[0]->shape);
  std::vector<CopyDim> dims;
  for (size_t i = 0; i < perm.size(); ++i) {
    dims.push_back({node.outputs[0]->shape[i], in[perm[i]], out[i]});
  }
  if (node.inputs[0]->dtype != node.outputs[0]->dtype) return MakeFloatCopyKernel(node, dims);
  return MakeCopyKernel({{0, 0, StridedCopy(ElementSize(node.inputs[0]->dtype), dims)}});
}

Status InferChannelShuffle(const Node& node, std::vector<Shape>* outputs) {
  const Shape& in = node.inputs[0]->shape;
  QNNRT_ASSIGN_OR_RETURN(const size_t axis, GetAxis(node, "axis", in.size()));
  const int64_t groups = node.Int("num_groups");
  if (groups < 1 || in[axis] % groups != 0) {
    return Invalid("param 'num_groups' is %lld, which does not divide axis %zu of size %u",
                   static_cast<long long>(groups), axis, in[axis]);
  }
  (*outputs)[0] = in;
  return {};
}

Result<KernelPtr> MakeChannelShuffle(const Node& node, const KernelOptions&) {
  const Shape& in = node.inputs[0]->shape;
  QNNRT_ASSIGN_OR_RETURN(const size_t axis, GetAxis(node, "axis", in.size()));
  const size_t groups = static_cast<size_t>(node.Int("num_groups")), each = in[axis] / groups;
  const ptrdiff_t inner = static_cast<ptrdiff_t>(Product(in, axis + 1, in.size()));
  const ptrdiff_t whole = inner * static_cast<ptrdiff_t>(in[axis]);
  const std::vector<CopyDim> dims = {
      {Product(in, 0, axis), whole, whole},
      {each, inner, inner * static_cast<ptrdiff_t>(groups)},
      {groups, inner * static_cast<ptrdiff_t>(each), inner},
      {static_cast<size_t>(inner), 1, 1},
  };
  return MakeCopyKernel({{0, 0, StridedCopy(ElementSize(node.inputs[0]->dtype), dims)}});
}

}  // namespace

OpList ShapeOps() {
  const PortSpec in{"in[0]", types::kAny}, out{"out[0]", types::kAny, PortSpec::kOne, 0};
  PortSpec ranked = in;
  ranked.min_rank = 1;
  const uint32_t moves = OpDef::kMoves | OpDef::kNativeHalf | OpDef::kLpai;
  const uint32_t alias = OpDef::kAlias | moves;
  OpList ops = {
      {QNN_OP_RESHAPE, {in}, {out}, {}, InferReshape, MakeAlias, alias},
      {QNN_OP_SQUEEZE,
       {in},
       {out},
       {{"axes", ParamSpec::kInts, NoDefault(), "[M]; else what the output's shape leaves out"}},
       InferSqueeze,
       MakeAlias,
       alias},
      {QNN_OP_EXPAND_DIMS,
       {in},
       {out},
       {{"axis", ParamSpec::kInt, NoDefault(), "position of the new dim; this or axes"},
        {"axes", ParamSpec::kInts, NoDefault(), "[M], positions in the output"}},
       InferExpandDims,
       MakeAlias,
       alias},
      {QNN_OP_TRANSPOSE,
       {in},
       {out},
       {{"perm", ParamSpec::kInts, Required(),
         "[rank], a permutation: out dim i is in dim perm[i]"}},
       InferTranspose,
       MakeTranspose,
       moves | OpDef::kMixes},
      {QNN_OP_CHANNEL_SHUFFLE,
       {ranked},
       {out},
       {{"num_groups", ParamSpec::kInt, Required(), "divides the axis"},
        {"axis", ParamSpec::kInt, Default(-1)}},
       InferChannelShuffle,
       MakeChannelShuffle,
       moves},
  };
  for (OpDef& def : DepthSpaceOps()) ops.push_back(std::move(def));
  return ops;
}

}  // namespace qnnrt
