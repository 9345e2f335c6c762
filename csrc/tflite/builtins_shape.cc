// Moving elements: reshape, transpose, concatenation, splitting, slicing, padding, blocks,
// gathering.
#include <algorithm>
#include <array>
#include <cstdlib>

#include "tflite/lower.h"

namespace qnnrt::tflite {
namespace {

// The runtime has worked out the new shape.
void ReshapeTo(Node& n) { n.Set(0, n.Reshape(n.In(0), n.OutDims())); }

void Transpose(Node& n) {
  const Value x = n.In(0);
  std::vector<uint32_t> order;
  for (int64_t p : n.Ints(1, "the order of dimensions")) order.push_back(Axis(p, x.rank()));
  if (order.size() != x.rank()) Refuse("%s in another order", Text(x.dims).c_str());
  n.Set(0, n.Transpose(x, order));
}

void Concat(Node& n) {
  const auto& p = n.params<ConcatParams>();
  std::vector<Value> values;
  for (int i = 0; i < n.inputs(); ++i) values.push_back(n.In(i));
  const Dims out = n.OutDims();
  if (values.size() == 1) {
    n.Set(0, n.Activate(n.Op("Reshape", values, out), p.activation));
    return;
  }
  const Value made = n.Op("Concat", values, out, {U32("axis", Axis(p.axis, values[0].rank()))});
  n.Set(0, n.Activate(made, p.activation));
}

void SplitAlong(Node& n, const Value& x, uint32_t axis) {
  if (n.outputs() == 1) {
    n.Set(0, n.Op("Reshape", {x}, n.OutDims()));
    return;
  }
  std::vector<std::pair<Dims, Qnn_DataType_t>> outputs;
  std::vector<uint32_t> starts;
  uint32_t at = 0;
  for (int i = 0; i < n.outputs(); ++i) {
    outputs.push_back({n.OutDims(i), n.type(x)});
    if (i > 0) starts.push_back(at);
    at += outputs.back().first.at(axis);
  }
  if (at != x.dims.at(axis)) Refuse("parts of %s that do not fill it", Text(x.dims).c_str());
  const std::vector<Value> made =
      n.Ops("Split", {x}, outputs, {U32("axis", axis), U32s("split_index", starts)});
  for (int i = 0; i < n.outputs(); ++i) n.Set(i, made[i]);
}

void Split(Node& n) {
  const Value x = n.In(1);
  SplitAlong(n, x, Axis(n.Int(0, "the axis"), x.rank()));
}

void SplitV(Node& n) {
  const Value x = n.In(0);
  SplitAlong(n, x, Axis(n.Int(2, "the axis"), x.rank()));
}

void Pack(Node& n) {
  std::vector<Value> values;
  for (int i = 0; i < n.inputs(); ++i) values.push_back(n.In(i));
  const Dims out = n.OutDims();
  if (values[0].rank() == 0) {  // QNN has no tensors of rank 0 to pack
    n.Set(0, values.size() == 1 ? n.Op("Reshape", values, out)
                                : n.Op("Concat", values, out, {U32("axis", 0)}));
    return;
  }
  n.Set(0, n.Op("Pack", values, out,
                {U32("axis", Axis(n.params<PackParams>().axis, values[0].rank() + 1))}));
}

void Unpack(Node& n) {
  const Value x = n.In(0);
  const uint32_t axis = Axis(n.params<PackParams>().axis, x.rank());
  if (n.OutDims().empty()) {
    SplitAlong(n, x, axis);
    return;
  }
  std::vector<std::pair<Dims, Qnn_DataType_t>> outputs;
  for (int i = 0; i < n.outputs(); ++i) outputs.push_back({n.OutDims(i), n.type(x)});
  const std::vector<Value> made = n.Ops("UnPack", {x}, outputs, {U32("axis", axis)});
  for (int i = 0; i < n.outputs(); ++i) n.Set(i, made[i]);
}

using Range = std::array<int32_t, 3>;  // begin, end, stride; an end of -1 going down: through 0

uint32_t Length(const Range& r) {
  const int64_t span = r[2] > 0 ? int64_t{r[1]} - r[0] : int64_t{r[0]} - r[1];
  const int64_t step = std::abs(int64_t{r[2]});
  return span <= 0 ? 0 : static_cast<uint32_t>((span + step - 1) / step);
}

Value Cut(Node& n, const Value& x, const std::vector<Range>& ranges) {
  Dims dims;
  std::vector<int32_t> values;
  bool whole = true;
  for (uint32_t d = 0; d < x.rank(); ++d) {
    dims.push_back(Length(ranges[d]));
    if (dims.back() == 0) Refuse("nothing is left of dimension %u", d);
    whole = whole && ranges[d] == Range{0, static_cast<int32_t>(x.dims[d]), 1};
    values.insert(values.end(), ranges[d].begin(), ranges[d].end());
  }
  if (whole) return x;
  return n.Op("StridedSlice", {x}, dims, {I32s("ranges", values, {x.rank(), 3})});
}

void Slice(Node& n) {
  const Value x = n.In(0);
  const std::vector<int64_t> begin = n.Ints(1, "the beginning"), size = n.Ints(2, "the size");
  if (begin.size() != x.rank() || size.size() != x.rank()) Refuse("ranges of other dimensions");
  std::vector<Range> ranges;
  for (uint32_t d = 0; d < x.rank(); ++d) {
    const int64_t end = size[d] == -1 ? x.dims[d] : begin[d] + size[d];
    if (begin[d] < 0 || end > x.dims[d]) Refuse("ranges outside of %s", Text(x.dims).c_str());
    ranges.push_back({static_cast<int32_t>(begin[d]), static_cast<int32_t>(end), 1});
  }
  n.Set(0, Cut(n, x, ranges));
}

// As indexing of arrays is: clamped, from the end where negative.
Range Indices(int64_t begin, int64_t end, int64_t stride, bool no_begin, bool no_end,
              int64_t size) {
  const int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? size : size - 1;
  auto place = [&](int64_t at) { return std::clamp(at < 0 ? at + size : at, low, high); };
  const int64_t first = no_begin ? (stride > 0 ? low : high) : place(begin);
  const int64_t last = no_end ? (stride > 0 ? high : low) : place(end);
  return {static_cast<int32_t>(first), static_cast<int32_t>(last), static_cast<int32_t>(stride)};
}

// Bit i of a mask is for entry i of begin, end and strides. Entries for new dimensions and the
// ellipsis select no dimension or several, all others the next one.
void StridedSlice(Node& n) {
  const auto& p = n.params<StridedSliceParams>();
  const Value x = n.In(0);
  const std::vector<int64_t> begin = n.Ints(1, "the beginning"), end = n.Ints(2, "the end");
  const std::vector<int64_t> strides = n.Ints(3, "the strides");
  const size_t count = begin.size();
  if (end.size() != count || strides.size() != count || count > 31) Refuse("uneven ranges");
  size_t named = 0;
  for (size_t i = 0; i < count; ++i) named += !((p.new_axis_mask | p.ellipsis_mask) >> i & 1);
  if (named > x.rank()) Refuse("more ranges than dimensions");
  std::vector<Range> ranges;
  auto whole = [&] { ranges.push_back({0, static_cast<int32_t>(x.dims[ranges.size()]), 1}); };
  for (size_t i = 0; i < count; ++i) {
    if (p.ellipsis_mask >> i & 1) {
      for (size_t k = named; k < x.rank(); ++k) whole();
      named = x.rank();
      continue;
    }
    if (p.new_axis_mask >> i & 1) continue;
    const int64_t size = x.dims[ranges.size()], stride = strides[i];
    if (stride == 0) Refuse("a stride of 0");
    const bool no_begin = p.begin_mask >> i & 1;
    if (p.shrink_axis_mask >> i & 1) {
      int64_t at = begin[i] < 0 ? begin[i] + size : begin[i];
      if (no_begin) at = stride > 0 ? 0 : size - 1;
      if (at < 0 || at >= size)
        Refuse("element %lld of %lld", static_cast<long long>(begin[i]),
               static_cast<long long>(size));
      ranges.push_back({static_cast<int32_t>(at), static_cast<int32_t>(at) + 1, 1});
      continue;
    }
    if (p.offset != 0 && end[i] < 0) Refuse("ends relative to the beginning, and negative");
    const int64_t last = p.offset != 0 ? begin[i] + end[i] : end[i];
    ranges.push_back(Indices(begin[i], last, stride, no_begin, p.end_mask >> i & 1, size));
  }
  while (ranges.size() < x.rank()) whole();
  n.Set(0, Cut(n, x, ranges));
}

void Reverse(Node& n) {
  const Value x = n.In(0);
  std::vector<Range> ranges;
  for (uint32_t d : x.dims) ranges.push_back({0, static_cast<int32_t>(d), 1});
  for (int64_t a : n.Ints(1, "the axes")) {
    Range& r = ranges[Axis(a, x.rank())];
    r = {static_cast<int32_t>(x.dims[Axis(a, x.rank())]) - 1, -1, -1};
  }
  n.Set(0, Cut(n, x, ranges));
}

std::vector<uint32_t> Pads(Node& n, int input, size_t pairs, const char* what) {
  std::vector<uint32_t> pads;
  for (int64_t p : n.Ints(input, what)) {
    if (p < 0) Refuse("%s is negative", what);
    pads.push_back(static_cast<uint32_t>(p));
  }
  if (pads.size() != 2 * pairs) Refuse("%s has %zu numbers", what, pads.size());
  return pads;
}

bool None(const std::vector<uint32_t>& pads) {
  return std::all_of(pads.begin(), pads.end(), [](uint32_t p) { return p == 0; });
}

void Pad(Node& n) {
  const Value x = n.In(0);
  const std::vector<uint32_t> pads = Pads(n, 1, x.rank(), "the padding");
  float real = 0;
  int32_t whole = 0;
  if (n.has(2)) {
    const Value value = n.In(2);
    const void* data = n.data(value);
    if (data == nullptr || Elements(value.dims) != 1) Refuse("the padding's value is no constant");
    if (n.type(value) == QNN_DATATYPE_FLOAT_32) {
      real = *static_cast<const float*>(data);
    } else if (n.type(value) == QNN_DATATYPE_INT_32) {
      whole = *static_cast<const int32_t*>(data);
    } else {
      Refuse("a padding value of another type");
    }
  }
  if (None(pads)) {
    n.Set(0, x);
    return;
  }
  const bool fraction = n.floating(x) || !n.encoding(x).none();
  n.Set(0, n.Op("Pad", {x}, n.OutDims(),
                {U32("scheme", 0), U32s("pad_amount", pads, {x.rank(), 2}),
                 fraction ? F32("pad_constant_value", real) : I32("pad_constant_value", whole)}));
}

void MirrorPad(Node& n) {
  const Value x = n.In(0);
  const std::vector<uint32_t> pads = Pads(n, 1, x.rank(), "the padding");
  if (None(pads)) {
    n.Set(0, x);
    return;
  }
  const bool reflect = n.params<MirrorPadParams>().mode == 1;
  n.Set(0, n.Op("Pad", {x}, n.OutDims(),
                {U32("scheme", reflect ? 2 : 1), U32s("pad_amount", pads, {x.rank(), 2})}));
}

void Tile(Node& n) {
  Value x = n.In(0);
  const Dims out = n.OutDims();
  if (out.size() < x.rank()) Refuse("%s to %s", Text(x.dims).c_str(), Text(out).c_str());
  Dims own(out.size() - x.rank(), 1);
  own.insert(own.end(), x.dims.begin(), x.dims.end());
  x = n.Reshape(x, own);
  std::vector<uint32_t> times;
  for (size_t d = 0; d < out.size(); ++d) {
    if (out[d] % own[d] != 0) Refuse("%s to %s", Text(own).c_str(), Text(out).c_str());
    times.push_back(out[d] / own[d]);
  }
  n.Set(0, own == out ? x : n.Op("Tile", {x}, out, {U32s("multiples", times)}));
}

void SpaceToDepth(Node& n) {
  const auto block = static_cast<uint32_t>(n.params<BlockParams>().block_size);
  n.Set(0, n.Op("SpaceToDepth", {n.In(0, 4)}, n.OutDims(), {U32s("block_size", {block, block})}));
}

void DepthToSpace(Node& n) {
  const auto block = static_cast<uint32_t>(n.params<BlockParams>().block_size);
  n.Set(0, n.Op("DepthToSpace", {n.In(0, 4)}, n.OutDims(),
                {U32s("block_size", {block, block}), U32("mode", 0)}));
}

// [N, L, C] goes as [N, L, 1, C].
void Batches(Node& n, const char* type, const char* name) {
  Value x = n.In(0);
  if (x.rank() != 3 && x.rank() != 4) Refuse("an input of rank %u", x.rank());
  const size_t spatial = x.rank() - 2;
  std::vector<uint32_t> block;
  for (int64_t b : n.Ints(1, "the block sizes")) block.push_back(static_cast<uint32_t>(b));
  std::vector<uint32_t> amounts = Pads(n, 2, spatial, name);
  if (block.size() != spatial) Refuse("%zu block sizes", block.size());
  Dims out = n.OutDims();
  if (spatial == 1) {
    block.push_back(1);
    amounts.insert(amounts.end(), {0, 0});
    x = n.Reshape(x, {x.dims[0], x.dims[1], 1, x.dims[2]});
    out.insert(out.begin() + 2, 1);
  }
  n.Set(0, n.Op(type, {x}, out, {U32s("block_size", block), U32s(name, amounts, {2, 2})}));
}

void SpaceToBatch(Node& n) { Batches(n, "SpaceToBatch", "pad_amount"); }
void BatchToSpace(Node& n) { Batches(n, "BatchToSpace", "crops"); }

}  // namespace

const std::vector<BuiltinRow>& ShapeBuiltins() {
  static const std::vector<BuiltinRow> rows = {
      {2, {Concat, Fixed::kOwn, "CONCATENATION"}},
      {5, {DepthToSpace, Fixed::kOwn, "DEPTH_TO_SPACE"}},
      {22, {ReshapeTo, Fixed::kOwn, "RESHAPE"}},
      {26, {SpaceToDepth, Fixed::kOwn, "SPACE_TO_DEPTH"}},
      {34, {Pad, Fixed::kOwn, "PAD"}},
      {37, {BatchToSpace, Fixed::kOwn, "BATCH_TO_SPACE_ND"}},
      {38, {SpaceToBatch, Fixed::kOwn, "SPACE_TO_BATCH_ND"}},
      {39, {Transpose, Fixed::kOwn, "TRANSPOSE"}},
      {43, {ReshapeTo, Fixed::kOwn, "SQUEEZE"}},
      {45, {StridedSlice, Fixed::kOwn, "STRIDED_SLICE"}},
      {49, {Split, Fixed::kOwn, "SPLIT"}},
      {60, {Pad, Fixed::kFloats, "PADV2"}},
      {65, {Slice, Fixed::kOwn, "SLICE"}},
      {69, {Tile, Fixed::kOwn, "TILE"}},
      {70, {ReshapeTo, Fixed::kOwn, "EXPAND_DIMS"}},
      {83, {Pack, Fixed::kOwn, "PACK"}},
      {88, {Unpack, Fixed::kOwn, "UNPACK"}},
      {100, {MirrorPad, Fixed::kOwn, "MIRROR_PAD"}},
      {102, {SplitV, Fixed::kOwn, "SPLIT_V"}},
      {105, {Reverse, Fixed::kOwn, "REVERSE_V2"}},
      {130, {Tile, Fixed::kOwn, "BROADCAST_TO"}},
  };
  return rows;
}

}  // namespace qnnrt::tflite
