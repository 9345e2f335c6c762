// StridedSlice. Each row of `ranges` is (begin, end, stride) for a dim of the input, or for a new
// one when its bit is set in new_axes_mask.
#include <algorithm>

#include "abi/qnn_op_names.h"
#include "ops/movement/concat_split.h"
#include "ops/rules.h"
#include "ops/strided_copy.h"

namespace qnnrt {
namespace {

struct Row {
  bool is_new = false, shrinks = false;
  int64_t begin = 0, stride = 1, count = 1;
};

constexpr int64_t kLongest = int64_t{1} << 32;  // more than any dim has

// A begin below 0 counts from the end, and so does an end below 0 when the stride is positive;
// with a negative stride an end below 0 means "up to and with element 0". Both are clamped.
Row Resolve(int64_t begin, int64_t end, int64_t stride, bool any_begin, bool any_end,
            int64_t size) {
  Row row;
  stride = std::clamp(stride, -kLongest, kLongest);
  row.stride = stride;
  if (begin < 0) begin += size;
  if (stride > 0) {
    if (end < 0) end += size;
    begin = any_begin ? 0 : std::clamp<int64_t>(begin, 0, size);
    end = any_end ? size : std::clamp<int64_t>(end, 0, size);
    row.count = end > begin ? (end - begin + stride - 1) / stride : 0;
  } else {
    begin = any_begin ? size - 1 : std::clamp<int64_t>(begin, -1, size - 1);
    end = any_end ? -1 : std::clamp<int64_t>(end, -1, size - 1);
    row.count = begin > end ? (begin - end - stride - 1) / -stride : 0;
  }
  row.begin = begin;
  if (row.count <= 1) row.stride = 1;  // not taken; it could overflow what it is multiplied by
  return row;
}

Status Rows(const Node& node, std::vector<Row>* rows) {
  const Shape& in = node.inputs[0]->shape;
  const std::vector<int64_t> ranges = node.Ints("ranges");
  if (ranges.size() % 3 != 0 || ranges.size() > 48) {
    return Invalid("param 'ranges' has %zu values, expected rows of 3", ranges.size());
  }
  const size_t count = ranges.size() / 3;
  const int64_t new_axes = node.Int("new_axes_mask"), shrink = node.Int("shrink_axes"),
                begins = node.Int("begin_mask"), ends = node.Int("end_mask");
  size_t axis = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto bit = [&](int64_t mask) { return (mask >> i & 1) != 0; };
    if (bit(new_axes)) {
      rows->push_back({true, false, 0, 1, 1});
      continue;
    }
    if (axis == in.size()) {
      ++axis;
      break;
    }
    const int64_t size = in[axis], begin = ranges[3 * i], stride = ranges[3 * i + 2];
    if (stride == 0) return Invalid("param 'ranges' has stride 0 for axis %zu", axis);
    if (bit(shrink)) {
      const int64_t index = bit(begins) ? 0 : begin < 0 ? begin + size : begin;
      if (index < 0 || index >= size) {
        return Invalid("param 'ranges' takes element %lld of axis %zu, which has %lld",
                       static_cast<long long>(begin), axis, static_cast<long long>(size));
      }
      rows->push_back({false, true, index, 1, 1});
    } else {
      rows->push_back(Resolve(begin, ranges[3 * i + 1], stride, bit(begins), bit(ends), size));
    }
    ++axis;
  }
  if (axis != in.size()) {
    return Invalid(
        "param 'ranges' has %zu rows, expected one for each of %zu dims and one for each "
        "new axis",
        count, in.size());
  }
  return {};
}

Status SliceShape(const Node& node, std::vector<Shape>* outputs) {
  std::vector<Row> rows;
  QNNRT_RETURN_IF_ERROR(Rows(node, &rows));
  for (const Row& row : rows) {
    if (!row.shrinks) (*outputs)[0].push_back(static_cast<uint32_t>(row.count));
  }
  if ((*outputs)[0].size() <= 8) return {};
  return Invalid("the output would have rank %zu, the most is 8", (*outputs)[0].size());
}

// A slice that leaves only its last cut dim open, or every dim in front of that with one index.
std::optional<Parts> SliceParts(const Node& node) {
  const Shape& in = node.inputs[0]->shape;
  std::vector<Row> rows;
  if (!Rows(node, &rows).ok()) return std::nullopt;
  rows.erase(std::remove_if(rows.begin(), rows.end(), [](const Row& row) { return row.is_new; }),
             rows.end());
  const auto whole = [&](size_t axis) {
    return rows[axis].count == int64_t{in[axis]} && (in[axis] == 1 || rows[axis].stride == 1);
  };
  size_t cut = in.size();
  while (cut > 0 && whole(cut - 1)) --cut;
  if (cut == 0)
    return Parts{false, 1, node.inputs[0]->elements(), {{0, node.inputs[0]->elements()}}};
  --cut;
  if (rows[cut].stride != 1 || rows[cut].count == 0) return std::nullopt;
  const size_t inner = Product(in, cut + 1, in.size());
  Parts parts{false, Product(in, 0, cut), in[cut] * inner, {}};
  parts.parts = {
      {static_cast<size_t>(rows[cut].begin) * inner, static_cast<size_t>(rows[cut].count) * inner}};
  bool all = true;
  for (size_t axis = 0; axis < cut; ++axis) all = all && whole(axis);
  if (all) return parts;
  size_t at = 0;
  for (size_t axis = 0; axis < cut; ++axis) {
    if (rows[axis].count != 1) return std::nullopt;
    at = at * in[axis] + static_cast<size_t>(rows[axis].begin);
  }
  parts.parts[0].begin += at * parts.row;
  parts.row *= parts.outer;
  parts.outer = 1;
  return parts;
}

Result<KernelPtr> MakeSlice(const Node& node, const KernelOptions&) {
  std::vector<Row> rows;
  QNNRT_RETURN_IF_ERROR(Rows(node, &rows));
  if (node.outputs[0]->elements() == 0) return MakeCopyKernel({});
  if (!node.pitches.empty()) return MakePartCopies(node);
  const std::vector<ptrdiff_t> src = DenseStrides(node.inputs[0]->shape);
  std::vector<CopyDim> dims;
  size_t axis = 0, first = 0;
  ptrdiff_t dst = static_cast<ptrdiff_t>(node.outputs[0]->elements());
  for (const Row& row : rows) {
    if (row.is_new) continue;
    first += static_cast<size_t>(row.begin * src[axis]);
    dst /= row.count;
    dims.push_back({static_cast<size_t>(row.count), src[axis] * row.stride, dst});
    ++axis;
  }
  return MakeCopyKernel({{0, 0, StridedCopy(ElementSize(node.inputs[0]->dtype), dims, first)}});
}

}  // namespace

OpDef StridedSliceOp() {
  OpDef op = {
      QNN_OP_STRIDED_SLICE,
      {{"in[0]", types::kAny}},
      {{"out[0]", types::kAny, PortSpec::kOne, 0}},
      {{"ranges", ParamSpec::kInts, Required(),
        "[rank + new axes, 3]: begin, end, stride; negative ones count from the end, but an end "
        "below 0 with a negative stride means before element 0"},
       {"begin_mask", ParamSpec::kInt, Default(0), "bit i: row i begins where the dim does"},
       {"end_mask", ParamSpec::kInt, Default(0), "bit i: row i ends where the dim does"},
       {"shrink_axes", ParamSpec::kInt, Default(0),
        "bit i: row i takes element begin, the dim goes"},
       {"new_axes_mask", ParamSpec::kInt, Default(0), "bit i: row i is a new dim of size 1"}},
      SliceShape,
      MakeSlice,
      OpDef::kNativeHalf | OpDef::kMoves | OpDef::kLpai};
  op.parts = SliceParts;
  return op;
}

}  // namespace qnnrt
