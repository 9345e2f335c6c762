// Conv1d to Conv3d, DepthWiseConv1d and 2d, TransposeConv2d and 3d: definitions.
#include "ops/conv/conv.h"

#include <algorithm>
#include <cstring>

#include "ops/rules.h"
#include "ops/stored_floats.h"
#include "support/checked.h"

namespace qnnrt {
namespace {

bool IsDepthwise(const Node& node) { return node.type.compare(0, 9, "DepthWise") == 0; }
bool IsTransposed(const Node& node) { return node.type.compare(0, 9, "Transpose") == 0; }

// Spatial params come as a tensor, but as a scalar where there is one dimension. What the op does
// not have (a transposed one's dilation) stays as it is.
Status ReadSpatial(const Node& node, const char* name, size_t spatial, int64_t least,
                   ConvGeometry::Dims* dims) {
  if (node.Find(name) == nullptr) return Status::Ok();
  QNNRT_ASSIGN_OR_RETURN(const std::vector<int64_t> values, GetInts(node, name, spatial, least));
  for (size_t i = 0; i < spatial; ++i) (*dims)[3 - spatial + i] = values[i];
  return Status::Ok();
}

Status ReadPads(const Node& node, size_t spatial, ConvGeometry* g) {
  QNNRT_ASSIGN_OR_RETURN(const std::vector<int64_t> pads,
                         GetInts(node, "pad_amount", 2 * spatial, 0));
  for (size_t i = 0; i < spatial; ++i) {
    g->pad_before[3 - spatial + i] = pads[2 * i];
    g->pad_after[3 - spatial + i] = pads[2 * i + 1];
  }
  return Status::Ok();
}

// What both directions share: input, kernel, stride, pads, group.
Status ReadCommon(const Node& node, ConvGeometry* g) {
  const Shape& in = node.inputs[0]->shape;
  const Shape& weights = node.inputs[1]->shape;
  const size_t spatial = in.size() - 2;
  g->batch = in[0];
  g->cin = in.back();
  for (size_t i = 0; i < spatial; ++i) {
    g->in[3 - spatial + i] = in[1 + i];
    g->kernel[3 - spatial + i] = weights[i];
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) {
      return Invalid("input 1 (weight) '%s' must not be empty, got shape %s",
                     node.inputs[1]->name.c_str(), ShapeText(weights).c_str());
    }
  }
  if (g->cin == 0)
    return Invalid("input 0 must have channels, got shape %s", ShapeText(in).c_str());
  QNNRT_RETURN_IF_ERROR(ReadSpatial(node, "stride", spatial, 1, &g->stride));
  QNNRT_RETURN_IF_ERROR(ReadSpatial(node, "dilation", spatial, 1, &g->dilation));
  QNNRT_RETURN_IF_ERROR(ReadPads(node, spatial, g));
  g->group = IsDepthwise(node) ? g->cin : node.Int("group");
  QNNRT_RETURN_IF_ERROR(CheckRange("group", g->group, 1, INT32_MAX));
  if (g->cin % g->group != 0) {
    return Invalid("group %lld must divide the %lld input channels",
                   static_cast<long long>(g->group), static_cast<long long>(g->cin));
  }
  return Status::Ok();
}

Status ConvInfer(const Node& node, std::vector<Shape>* outputs) {
  QNNRT_ASSIGN_OR_RETURN(const ConvGeometry g,
                         IsTransposed(node) ? ReadTransposeConv(node) : ReadConv(node));
  const size_t spatial = node.inputs[0]->shape.size() - 2;
  Shape shape = {node.inputs[0]->shape[0]};
  for (size_t i = 0; i < spatial; ++i)
    shape.push_back(static_cast<uint32_t>(g.out[3 - spatial + i]));
  shape.push_back(static_cast<uint32_t>(g.cout));
  (*outputs)[0] = std::move(shape);
  return Status::Ok();
}

OpDef Def(const char* type, int spatial, bool group, MakeKernelFn make) {
  const int rank = spatial + 2;
  const ParamSpec::Kind kind = spatial == 1 ? ParamSpec::kInt : ParamSpec::kInts;
  const char* each = spatial == 1   ? "scalar"
                     : spatial == 2 ? "[2]: height, width"
                                    : "[3]: depth, height, width";
  const char* pads = spatial == 1   ? "[2]: before, after"
                     : spatial == 2 ? "[2, 2]: before and after of height, width"
                                    : "[3, 2]: before and after of depth, height, width";
  OpDef def;
  def.type = type;
  def.inputs = {{"in", types::kFloat, PortSpec::kOne, -1, rank, rank},
                {"weight", types::kFloat, PortSpec::kOne, 0, rank, rank},
                {"bias", types::kFloat, PortSpec::kOptional, 0, 1, 1}};
  def.outputs = {{"out", types::kFloat, PortSpec::kOne, 0, rank, rank}};
  def.params = {{"stride", kind, Required(), each},
                {"pad_amount", ParamSpec::kInts, Required(), pads}};
  if (group) def.params.push_back({"group", ParamSpec::kInt, Default(1)});
  def.infer = ConvInfer;
  def.portable = make;
  def.flags = OpDef::kPostOps | (spatial == 2 ? OpDef::kLpai : OpDef::kNone);
  if (make == MakeConv) def.flags |= OpDef::kNativeHalf;  // it says itself what it converts
  def.weights_axis = -1;
  return def;
}

}  // namespace

Result<ConvGeometry> ReadConv(const Node& node) {
  ConvGeometry g;
  QNNRT_RETURN_IF_ERROR(ReadCommon(node, &g));
  const Shape& weights = node.inputs[1]->shape;
  const int64_t expected = g.cin / g.group;
  g.cout = weights.back();
  if (weights[weights.size() - 2] != expected) {
    return Invalid(
        "input 1 (weight) '%s' has shape %s: dimension %zu must be %lld (%lld input "
        "channels in %lld groups)",
        node.inputs[1]->name.c_str(), ShapeText(weights).c_str(), weights.size() - 2,
        static_cast<long long>(expected), static_cast<long long>(g.cin),
        static_cast<long long>(g.group));
  }
  if (g.cout % g.group != 0) {
    return Invalid(
        "%lld output channels (last dimension of the weight) must be a multiple "
        "of the %lld groups",
        static_cast<long long>(g.cout), static_cast<long long>(g.group));
  }
  QNNRT_RETURN_IF_ERROR(CheckShape(node, 2, "bias", {weights.back()}));
  for (size_t i = 0; i < 3; ++i) {
    const int64_t room = g.in[i] + g.pad_before[i] + g.pad_after[i];
    QNNRT_RETURN_IF_ERROR(CheckPadded(kSpatialNames[i], room));
    QNNRT_RETURN_IF_ERROR(CheckRange("dilation", g.dilation[i], 1, INT32_MAX));
    const int64_t window = g.dilation[i] * (g.kernel[i] - 1) + 1;
    if (room < window) {
      return Invalid("the kernel spans %lld but %s of the padded input is %lld",
                     static_cast<long long>(window), kSpatialNames[i],
                     static_cast<long long>(room));
    }
    g.out[i] = (room - window) / g.stride[i] + 1;
    QNNRT_RETURN_IF_ERROR(CheckSize(kSpatialNames[i], g.out[i]));
  }
  return g;
}

Result<ConvGeometry> ReadTransposeConv(const Node& node) {
  ConvGeometry g;
  QNNRT_RETURN_IF_ERROR(ReadCommon(node, &g));
  const Shape& weights = node.inputs[1]->shape;
  const size_t spatial = weights.size() - 2, first = 3 - spatial;
  g.cout = int64_t{weights.back()} * g.group;
  if (weights[spatial] != g.cin || g.cout > INT32_MAX) {
    return Invalid("input 1 (weight) '%s' must have shape [%s, %lld, Cout / group], got %s",
                   node.inputs[1]->name.c_str(), spatial == 3 ? "kD, kH, kW" : "kH, kW",
                   static_cast<long long>(g.cin), ShapeText(weights).c_str());
  }
  QNNRT_RETURN_IF_ERROR(CheckShape(node, 2, "bias", {static_cast<uint32_t>(g.cout)}));
  ConvGeometry::Dims extra{0, 0, 0};
  QNNRT_RETURN_IF_ERROR(ReadSpatial(node, "output_padding", spatial, 0, &extra));
  for (size_t i = first; i < 3; ++i) {
    if (extra[i] >= std::max(g.stride[i], g.dilation[i]) && extra[i] != 0) {
      return Invalid("output_padding %lld must be less than the stride %lld",
                     static_cast<long long>(extra[i]), static_cast<long long>(g.stride[i]));
    }
    QNNRT_RETURN_IF_ERROR(CheckRange("stride", g.stride[i], 1, INT32_MAX));
    uint64_t grown;
    const bool fits =
        CheckedMul(static_cast<uint64_t>(g.stride[i]),
                   static_cast<uint64_t>(std::max<int64_t>(g.in[i] - 1, 0)), &grown) &&
        grown <= INT32_MAX;
    // Without output_padding.
    const int64_t least = fits ? static_cast<int64_t>(grown) + g.dilation[i] * (g.kernel[i] - 1) +
                                     1 - g.pad_before[i] - g.pad_after[i]
                               : -g.stride[i];
    // The shape that the output is declared with says the padding, too: some clients leave the
    // param at 0 then.
    const int64_t declared = node.outputs[0]->shape[1 + i - first];
    const bool said = declared >= least && declared - least < g.stride[i];
    const int64_t size = said ? declared : least + extra[i];
    if (size < 1 || size > INT32_MAX) {
      return Invalid("%s of the output comes out as %lld: lower pad_amount or stride",
                     kSpatialNames[i], static_cast<long long>(size));
    }
    g.out[i] = size;
  }
  return g;
}

Status PackedConv::Init(const Node& node, const KernelOptions& options) {
  zeros_ = AlignedBytes::Make(static_cast<size_t>(g_.cin_per_group()) * sizeof(float));
  if (!zeros_) return OutOfMemory();
  std::memset(zeros_->data(), 0, zeros_->size());
  if (!node.inputs[1]->is_static()) return {};
  QNNRT_ASSIGN_OR_RETURN(
      packed_, PackWeights(options, 1, PackedBytes(), Layout(), [&](void* packed) {
        Pack(node.inputs[1]->data_as<float>(), static_cast<float*>(packed), Threads(1));
        return Status::Ok();
      }));
  return {};
}

const float* PackedConv::Packed(const ExecArgs& args) const {
  if (packed_) return static_cast<const float*>(packed_->data());
  float* scratch = static_cast<float*>(args.scratch);
  Pack(static_cast<const float*>(args.in[1]), scratch, args.threads);
  return scratch;
}

const float* PackedConv::BiasOf(const ExecArgs& args, size_t group) const {
  if (!has_bias_) return nullptr;
  return static_cast<const float*>(args.in[2]) + group * static_cast<size_t>(g_.cout_per_group());
}

Result<SharedBytes> PackAsFloats(const Tensor& weights, const KernelOptions& options,
                                 const std::string& layout) {
  const uint64_t count = weights.elements();
  return PackWeights(options, 1, count * sizeof(float), layout, [&](void* to) {
    float* const floats = static_cast<float*>(to);
    const float* const lie = StoredFloats(weights).Read(weights.data->data(), 0, count, floats);
    if (lie != floats) std::copy_n(lie, count, floats);
    return Status::Ok();
  });
}

bool MultipliesBrains(const Node& node) {
  const auto is = [](const Tensor* t, Qnn_DataType_t type) { return t->dtype == type; };
  if (!is(node.inputs[0], QNN_DATATYPE_BFLOAT_16) || !is(node.inputs[1], QNN_DATATYPE_BFLOAT_16) ||
      !node.inputs[1]->is_static()) {
    return false;
  }
  if (node.HasInput(2) && !is(node.inputs[2], QNN_DATATYPE_FLOAT_32)) return false;
  const Tensor* out = node.outputs[0];
  return is(out, QNN_DATATYPE_BFLOAT_16) || is(out, QNN_DATATYPE_FLOAT_32);
}

OpList ConvOps() {
  OpList ops;
  const auto add_dilation = [](OpDef def, int spatial) {
    const ParamSpec& stride = def.params[0];
    const ParamDefault one =
        spatial == 1 ? Default(1) : DefaultInts({static_cast<uint32_t>(spatial)}, 1);
    def.params.push_back({"dilation", stride.kind, one, stride.rule});
    return def;
  };
  ops.push_back(add_dilation(Def("Conv1d", 1, true, MakeConv), 1));
  ops.push_back(add_dilation(Def("Conv2d", 2, true, MakeConv), 2));
  ops.back().params.push_back(
      {"reuse_sparse_indices", ParamSpec::kBool, Default(false), "sparse inputs only: no effect"});
  ops.push_back(add_dilation(Def("Conv3d", 3, true, MakeConv), 3));
  ops.back().params.push_back(
      {"reuse_sparse_indicies", ParamSpec::kBool, Default(false), "sparse inputs only: no effect"});
  ops.push_back(add_dilation(Def("DepthWiseConv1d", 1, false, MakeConv), 1));
  ops.push_back(add_dilation(Def("DepthWiseConv2d", 2, false, MakeConv), 2));
  const auto add_output_padding = [](OpDef def, uint32_t spatial, const char* rule) {
    def.params.push_back({"output_padding", ParamSpec::kInts, DefaultInts({spatial}, 0), rule});
    return def;
  };
  ops.push_back(
      add_output_padding(Def("TransposeConv2d", 2, true, MakeTransposeConv), 2,
                         "[2]; less than the stride; a larger or smaller one that the output's "
                         "shape says goes first"));
  ops.push_back(add_output_padding(Def("TransposeConv3d", 3, true, MakeTransposeConv), 3,
                                   "[3]; as that of TransposeConv2d"));
  return ops;
}

}  // namespace qnnrt
