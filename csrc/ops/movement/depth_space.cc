// Rearrangements between depth, batch and blocks of an NHWC image.
#include "ops/movement/depth_space.h"

#include <algorithm>

#include "abi/qnn_op_names.h"
#include "abi/qnn_op_values.h"
#include "ops/rules.h"
#include "ops/strided_copy.h"

namespace qnnrt {
namespace {

struct Block {
  int64_t h, w;
};

Result<Block> GetBlock(const Node& node) {
  QNNRT_ASSIGN_OR_RETURN(const std::vector<int64_t> v, GetInts(node, "block_size", 2, 1));
  return Block{v[0], v[1]};
}

Status CheckDivides(const char* what, int64_t size, int64_t by) {
  if (size % by == 0) return {};
  return Invalid("%s is %lld, expected a multiple of %lld (param 'block_size')", what,
                 static_cast<long long>(size), static_cast<long long>(by));
}

Status SetShape(int64_t n, int64_t h, int64_t w, int64_t c, Shape* out) {
  QNNRT_RETURN_IF_ERROR(CheckSize("the batch", n));
  QNNRT_RETURN_IF_ERROR(CheckSize("the height", h));
  QNNRT_RETURN_IF_ERROR(CheckSize("the width", w));
  QNNRT_RETURN_IF_ERROR(CheckSize("the depth", c));
  *out = {static_cast<uint32_t>(n), static_cast<uint32_t>(h), static_cast<uint32_t>(w),
          static_cast<uint32_t>(c)};
  return {};
}

Status InferDepthToSpace(const Node& node, std::vector<Shape>* outputs) {
  const Shape& in = node.inputs[0]->shape;
  QNNRT_ASSIGN_OR_RETURN(const Block b, GetBlock(node));
  if (b.h > int64_t{UINT32_MAX} / b.w) return CheckDivides("the depth", in[3], b.h);
  QNNRT_RETURN_IF_ERROR(CheckDivides("the depth", in[3], b.h * b.w));
  return SetShape(in[0], in[1] * b.h, in[2] * b.w, in[3] / (b.h * b.w), &(*outputs)[0]);
}

Status InferSpaceToDepth(const Node& node, std::vector<Shape>* outputs) {
  const Shape& in = node.inputs[0]->shape;
  QNNRT_ASSIGN_OR_RETURN(const Block b, GetBlock(node));
  QNNRT_RETURN_IF_ERROR(CheckDivides("the height", in[1], b.h));
  QNNRT_RETURN_IF_ERROR(CheckDivides("the width", in[2], b.w));
  // Bounded by the input's own size, so nothing overflows: b.h <= H and b.w <= W, or H, W are 0.
  const int64_t depth = in[1] == 0 || in[2] == 0 ? in[3] : in[3] * (b.h * b.w);
  return SetShape(in[0], in[1] / b.h, in[2] / b.w, depth, &(*outputs)[0]);
}

// Between [N, H, W, depth] and [N, H b.h, W b.w, C]. In mode DCR the depth is (block row, block
// column, C), in mode CRD (C, block row, block column).
Result<KernelPtr> MakeDepthSpace(const Node& node, bool to_space) {
  QNNRT_ASSIGN_OR_RETURN(const Block b, GetBlock(node));
  const Shape& deep = (to_space ? node.inputs[0] : node.outputs[0])->shape;
  const Shape& flat = (to_space ? node.outputs[0] : node.inputs[0])->shape;
  const ptrdiff_t c = flat[3], bw = b.w, bh = b.h;
  const bool dcr = node.Int("mode") == QNN_OP_DEPTH_TO_SPACE_MODE_DCR;
  const ptrdiff_t deep_row = dcr ? bw * c : bw, deep_column = dcr ? c : 1,
                  deep_c = dcr ? 1 : bh * bw;
  const std::vector<ptrdiff_t> d = DenseStrides(deep), f = DenseStrides(flat);
  struct Loop {
    size_t count;
    ptrdiff_t deep, flat;
  };
  const Loop n{deep[0], d[0], f[0]}, h{deep[1], d[1], f[1] * bh}, w{deep[2], d[2], f[2] * bw};
  const Loop row{static_cast<size_t>(bh), deep_row, f[1]},
      column{static_cast<size_t>(bw), deep_column, f[2]}, channel{flat[3], deep_c, 1};
  // The order in which the output is written.
  const std::vector<Loop> loops = to_space ? std::vector<Loop>{n, h, row, w, column, channel}
                                  : dcr    ? std::vector<Loop>{n, h, w, row, column, channel}
                                           : std::vector<Loop>{n, h, w, channel, row, column};
  std::vector<CopyDim> dims;
  for (const Loop& l : loops) {
    dims.push_back({l.count, to_space ? l.deep : l.flat, to_space ? l.flat : l.deep});
  }
  return MakeCopyKernel({{0, 0, StridedCopy(ElementSize(node.inputs[0]->dtype), dims)}});
}

Result<KernelPtr> MakeDepthToSpace(const Node& node, const KernelOptions&) {
  return MakeDepthSpace(node, true);
}
Result<KernelPtr> MakeSpaceToDepth(const Node& node, const KernelOptions&) {
  return MakeDepthSpace(node, false);
}

Status InferBatchToSpace(const Node& node, std::vector<Shape>* outputs) {
  const Shape& in = node.inputs[0]->shape;
  QNNRT_ASSIGN_OR_RETURN(const Block b, GetBlock(node));
  QNNRT_ASSIGN_OR_RETURN(const std::vector<int64_t> crops, GetInts(node, "crops", 4, 0));
  if (b.h > int64_t{UINT32_MAX} / b.w) return CheckDivides("the batch", in[0], b.h);
  QNNRT_RETURN_IF_ERROR(CheckDivides("the batch", in[0], b.h * b.w));
  return SetShape(in[0] / (b.h * b.w), in[1] * b.h - crops[0] - crops[1],
                  in[2] * b.w - crops[2] - crops[3], in[3], &(*outputs)[0]);
}

Status InferSpaceToBatch(const Node& node, std::vector<Shape>* outputs) {
  const Shape& in = node.inputs[0]->shape;
  QNNRT_ASSIGN_OR_RETURN(const Block b, GetBlock(node));
  QNNRT_ASSIGN_OR_RETURN(const std::vector<int64_t> pad, GetInts(node, "pad_amount", 4, 0));
  const int64_t h = in[1] + pad[0] + pad[1], w = in[2] + pad[2] + pad[3];
  QNNRT_RETURN_IF_ERROR(CheckDivides("the padded height", h, b.h));
  QNNRT_RETURN_IF_ERROR(CheckDivides("the padded width", w, b.w));
  const int64_t most = int64_t{UINT32_MAX} / std::max<int64_t>(1, in[0]);
  if (b.h > most / b.w) return Invalid("the batch of the output would be 2^32 or more");
  return SetShape(in[0] * (b.h * b.w), h / b.h, w / b.w, in[3], &(*outputs)[0]);
}

// Of positions i * step + first, those inside [0, size): first index and count.
struct Range {
  int64_t first, count;
};
Range Inside(int64_t limit, int64_t step, int64_t offset, int64_t size) {
  // i * step + offset >= 0 and < size, 0 <= i < limit
  const int64_t low = offset >= 0 ? 0 : (-offset + step - 1) / step;
  const int64_t high = size - 1 < offset ? -1 : (size - 1 - offset) / step;
  const int64_t end = std::min(limit, high + 1);
  return {low, std::max<int64_t>(0, end - low)};
}

// Between batched [(bh, bw, N), h, w, C] and image [N, h bh - border, w bw - border, C]; a copy for
// each position (i, j) in the block.
Result<KernelPtr> MakeBatchSpace(const Node& node, bool to_space) {
  if (node.outputs[0]->elements() == 0) return MakeCopyKernel({});  // its blocks have no bound
  QNNRT_ASSIGN_OR_RETURN(const Block b, GetBlock(node));
  QNNRT_ASSIGN_OR_RETURN(const std::vector<int64_t> border,
                         GetInts(node, to_space ? "crops" : "pad_amount", 4, 0));
  const Shape& batched = (to_space ? node.inputs[0] : node.outputs[0])->shape;
  const Shape& image = (to_space ? node.outputs[0] : node.inputs[0])->shape;
  const std::vector<ptrdiff_t> s = DenseStrides(batched), t = DenseStrides(image);
  std::vector<CopyTask> tasks;
  for (int64_t i = 0; i < b.h; ++i) {
    for (int64_t j = 0; j < b.w; ++j) {
      const int64_t top = i - border[0], left = j - border[2];
      const Range h = Inside(batched[1], b.h, top, image[1]);
      const Range w = Inside(batched[2], b.w, left, image[2]);
      if (h.count == 0 || w.count == 0) continue;
      const size_t from =
          static_cast<size_t>((i * b.w + j) * image[0] * s[0] + h.first * s[1] + w.first * s[2]);
      const size_t to =
          static_cast<size_t>((h.first * b.h + top) * t[1] + (w.first * b.w + left) * t[2]);
      const auto dim = [&](size_t count, ptrdiff_t in_batch, ptrdiff_t in_image) {
        return to_space ? CopyDim{count, in_batch, in_image} : CopyDim{count, in_image, in_batch};
      };
      std::vector<CopyDim> dims = {
          dim(image[0], s[0], t[0]), dim(static_cast<size_t>(h.count), s[1], t[1] * b.h),
          dim(static_cast<size_t>(w.count), s[2], t[2] * b.w), dim(image[3], 1, 1)};
      tasks.push_back({0, 0,
                       StridedCopy(ElementSize(node.inputs[0]->dtype), std::move(dims),
                                   to_space ? from : to, to_space ? to : from)});
    }
  }
  if (to_space || border == std::vector<int64_t>(4, 0)) return MakeCopyKernel(std::move(tasks));
  CopyFill fill{node.outputs[0]->elements(), ElementSize(node.outputs[0]->dtype)};
  QNNRT_RETURN_IF_ERROR(ScalarBytes("", 0.0, *node.outputs[0], fill.value));
  return MakeCopyKernel(std::move(tasks), fill);
}

Result<KernelPtr> MakeBatchToSpace(const Node& node, const KernelOptions&) {
  return MakeBatchSpace(node, true);
}
Result<KernelPtr> MakeSpaceToBatch(const Node& node, const KernelOptions&) {
  return MakeBatchSpace(node, false);
}

}  // namespace

OpList DepthSpaceOps() {
  PortSpec in{"in[0]", types::kAny}, out{"out[0]", types::kAny, PortSpec::kOne, 0};
  in.min_rank = in.max_rank = 4;
  const ParamSpec block{"block_size", ParamSpec::kInts, Required(),
                        "[2], height and width, positive"};
  const ParamSpec mode{"mode", ParamSpec::kInt, Default(0), "", {"dcr", "crd"}};
  const uint32_t moves = OpDef::kNativeHalf | OpDef::kMoves | OpDef::kLpai;
  return {
      {QNN_OP_DEPTH_TO_SPACE,
       {in},
       {out},
       {block, mode},
       InferDepthToSpace,
       MakeDepthToSpace,
       moves},
      {QNN_OP_SPACE_TO_DEPTH,
       {in},
       {out},
       {block, mode},
       InferSpaceToDepth,
       MakeSpaceToDepth,
       moves},
      {QNN_OP_BATCH_TO_SPACE,
       {in},
       {out},
       {block, {"crops", ParamSpec::kInts, DefaultInts({2, 2}, 0), "[2, 2]"}},
       InferBatchToSpace,
       MakeBatchToSpace,
       moves},
      {QNN_OP_SPACE_TO_BATCH,
       {in},
       {out},
       {block, {"pad_amount", ParamSpec::kInts, DefaultInts({2, 2}, 0), "[2, 2]"}},
       InferSpaceToBatch,
       MakeSpaceToBatch,
       moves | OpDef::kFills},
  };
}

}  // namespace qnnrt
