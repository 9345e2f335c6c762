// Cutting and padding: slices, reversal, pads, blocks of space.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "tflite/lowering/lowering.h"

namespace qnnrt::tflite {
namespace {

uint32_t Length(const Range& r) {
  const int64_t span = r.stride > 0 ? r.end - r.begin : r.begin - r.end;
  const int64_t step = std::abs(r.stride);
  return span <= 0 ? 0 : static_cast<uint32_t>((span - 1) / step + 1);
}

// Of shapes, mostly, which may have no elements.
Value CutConstant(Node& n, const Value& x, const std::vector<Range>& ranges, const Dims& dims) {
  const uint32_t size = ElementBytes(n.type(x));
  n.Spend(dims, size, "the result");
  std::vector<int64_t> strides(x.rank());
  int64_t begin = 0, step = 1;
  for (uint32_t d = x.rank(); d-- > 0; step *= x.dims[d]) {
    begin += ranges[d].begin * step;
    if (dims[d] > 1) strides[d] = ranges[d].stride * step;
  }
  return n.Constant(dims, n.type(x), Gathered(n.data(x), begin, dims, strides, size).data());
}

}  // namespace

Value Cut(Node& n, const Value& x, const std::vector<Range>& ranges) {
  Dims dims;
  std::vector<int32_t> values;
  bool whole = true;
  for (uint32_t d = 0; d < x.rank(); ++d) {
    const Range& r = ranges[d];
    dims.push_back(Length(r));
    whole = whole && r == Range{0, x.dims[d], 1};
    const int64_t stride = std::clamp<int64_t>(r.stride, INT32_MIN, INT32_MAX);
    values.insert(values.end(), {static_cast<int32_t>(r.begin), static_cast<int32_t>(r.end),
                                 static_cast<int32_t>(stride)});
  }
  if (whole) return x;
  if (std::count(dims.begin(), dims.end(), 0) != 0)  // QNN reads a begin of -1 otherwise
    return n.Constant(dims, n.type(x), nullptr, n.encoding(x));
  if (n.constant(x) && n.encoding(x).none()) return CutConstant(n, x, ranges, dims);
  return n.Op("StridedSlice", {x}, dims, {I32s("ranges", values, {x.rank(), 3})});
}

Value CutAlong(Node& n, const Value& x, uint32_t axis, int64_t begin, int64_t end) {
  std::vector<Range> ranges;
  for (uint32_t size : x.dims) ranges.push_back({0, size, 1});
  ranges[axis] = {begin, end, 1};
  return Cut(n, x, ranges);
}

Value Padded(Node& n, const Value& x, const std::vector<uint32_t>& pads, double value) {
  if (std::all_of(pads.begin(), pads.end(), [](uint32_t p) { return p == 0; })) return x;
  Dims dims = x.dims;
  for (uint32_t d = 0; d < x.rank(); ++d)
    dims[d] = Dim(int64_t{dims[d]} + pads[2 * d] + pads[2 * d + 1]);
  const char* const name = "pad_constant_value";
  Param number = F32(name, static_cast<float>(value));
  if (n.encoding(x).none() && !n.floating(x)) {
    if (!(std::fabs(value) < 4294967296.0)) Damaged("a padding value of %g", value);
    const auto code = static_cast<int64_t>(value);
    const uint32_t kind = static_cast<uint32_t>(n.type(x)) >> 8;  // signed, unsigned, boolean
    number = kind == 0   ? I32(name, static_cast<int32_t>(code))
             : kind == 1 ? U32(name, static_cast<uint32_t>(code))
                         : Flag(name, code != 0);
  }
  return n.Op("Pad", {x}, dims,
              {U32("scheme", 0), U32s("pad_amount", pads, {x.rank(), 2}), number});
}

namespace {

void Slice(Node& n) {
  const Value x = n.In(0), start = n.In(1);
  const std::vector<int64_t> size = n.Ints(2, "the size");
  bool damaged = start.rank() != 1 || start.dims[0] != x.rank() || size.size() != x.rank();
  if (!damaged && !n.constant(start)) {
    Dims dims;
    for (uint32_t d = 0; d < x.rank(); ++d) {
      if (size[d] == -1)
        Unsupported(
            "a size that follows from the beginning (input 1), which is computed when the "
            "model runs");
      damaged = damaged || size[d] < 1 || size[d] > x.dims[d];
      dims.push_back(static_cast<uint32_t>(size[d]));
    }
    if (damaged) Damaged("it slices %s of %s", Text(size).c_str(), Text(x.dims).c_str());
    n.Set(0, BlockAt(n, x, dims, start));
    return;
  }
  std::vector<int64_t> begin;
  if (!damaged) begin = n.Ints(1, "the beginning");
  std::vector<Range> ranges;
  for (uint32_t d = 0; d < x.rank() && !damaged; ++d) {
    const int64_t dim = x.dims[d];
    damaged = begin[d] < 0 || begin[d] > dim || size[d] < -1 || size[d] > dim - begin[d];
    ranges.push_back({begin[d], size[d] == -1 ? dim : begin[d] + size[d], 1});
  }
  if (damaged)
    Damaged("it slices %s from %s by %s", Text(x.dims).c_str(), Text(begin).c_str(),
            Text(size).c_str());
  n.Set(0, Cut(n, x, ranges));
}

// As indexing of arrays is: clamped, from the end where negative. `offset`: the end is counted from
// where the range begins.
Range Indices(int64_t begin, int64_t end, int64_t stride, bool no_begin, bool no_end, bool offset,
              int64_t size) {
  const int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? size : size - 1;
  auto position = [&](int64_t at) { return std::clamp(at < 0 ? at + size : at, low, high); };
  const int64_t first = no_begin ? (stride > 0 ? low : high) : position(begin);
  const int64_t until = offset ? std::clamp(first + end, low, high) : position(end);
  const int64_t last = no_end ? (stride > 0 ? high : low) : until;
  return {first, last, stride};
}

// What indexing by a number leaves of `x`, where the number is computed: `entries` of the tensor
// `begin` by dimension, -1 for a dimension that stays whole.
Value Indexed(Node& n, const Value& x, const Value& begin, const std::vector<int64_t>& entries) {
  Dims sizes = x.dims;
  std::vector<int32_t> from(x.rank(), 0), count(x.rank());
  for (uint32_t d = 0; d < x.rank(); ++d) {
    count[d] = static_cast<int32_t>(x.dims[d]);
    if (entries[d] < 0) continue;
    sizes[d] = 1;
    from[d] = static_cast<int32_t>(entries[d]);
  }
  if (!n.whole(begin)) Damaged("a beginning of %s", TypeName(n.type(begin)).c_str());
  const Value which = n.Constant({x.rank()}, QNN_DATATYPE_INT_32, from.data());
  const Value size = n.Constant({x.rank()}, QNN_DATATYPE_INT_32, count.data());
  const int32_t zero = 0;
  const Value none = n.Constant({1}, QNN_DATATYPE_INT_32, &zero);
  const Value narrow = n.Cast(begin, QNN_DATATYPE_INT_32);
  const Value at = n.Op("Gather", {narrow, which}, {x.rank()}, {I32("axis", 0)});
  const Value back = n.Compare("ElementWiseLess", {at, none});  // counted from the end
  return BlockAt(n, x, sizes, n.Select(back, n.Add(at, size), at));
}

// Bit i of a mask is for entry i of begin, end and strides. Entries for new dimensions and the
// ellipsis select no dimension or several, all others the next one.
void StridedSlice(Node& n) {
  const Value x = n.In(0), first = n.In(1), last = n.In(2);
  const std::vector<int64_t> strides = n.Ints(3, "the strides");
  const size_t count = strides.size();
  if (first.dims != Dims{Dim(static_cast<int64_t>(count))} || last.dims != first.dims || count > 31)
    Damaged("begins %s, ends %s and %zu strides", Text(first.dims).c_str(), Text(last.dims).c_str(),
            count);
  const int64_t begin_mask = n.Integer("BeginMask"), end_mask = n.Integer("EndMask");
  const int64_t ellipsis_mask = n.Integer("EllipsisMask"), new_mask = n.Integer("NewAxisMask");
  const int64_t shrink_mask = n.Integer("ShrinkAxisMask");
  const bool offset = n.Flag("Offset");
  // Numbers that no mask hides decide the shape, but for those that index a dimension away.
  const int64_t all = (int64_t{1} << count) - 1, shapeless = ellipsis_mask | new_mask | shrink_mask;
  std::vector<int64_t> begin(count, 0), end(count, 0);
  const bool computed = !n.constant(first) && !offset && (~(shapeless | begin_mask) & all) == 0;
  if (!computed) begin = n.Ints(1, "the beginning");
  if (n.constant(last) || offset || (~(shapeless | end_mask) & all) != 0)
    end = n.Ints(2, "the end");
  std::vector<int64_t> entries;  // of `first`, by dimension
  size_t named = 0, ellipses = 0;
  for (size_t i = 0; i < count; ++i) {
    ellipses += ellipsis_mask >> i & 1;
    named += !((new_mask | ellipsis_mask) >> i & 1);
  }
  if (ellipses > 1) Damaged("more than one ellipsis");
  if (named > x.rank()) Damaged("%zu ranges for %u dimensions", named, x.rank());
  std::vector<Range> ranges;
  Dims out;
  auto whole = [&](size_t dims) {
    for (; dims > 0; --dims) {
      out.push_back(x.dims[ranges.size()]);
      ranges.push_back({0, out.back(), 1});
      entries.push_back(-1);
    }
  };
  for (size_t i = 0; i < count; ++i) {
    if (ellipsis_mask >> i & 1) {
      whole(x.rank() - named);
      continue;
    }
    if (new_mask >> i & 1) {
      out.push_back(1);
      continue;
    }
    const int64_t size = x.dims[ranges.size()], stride = strides[i];
    if (std::abs(begin[i]) > INT32_MAX || std::abs(end[i]) > INT32_MAX ||
        std::abs(stride) > int64_t{INT32_MAX} + 1)
      Damaged("a range beyond 32 bits");
    const bool no_begin = begin_mask >> i & 1;
    const bool indexed = computed && !no_begin && (shrink_mask >> i & 1);
    entries.push_back(indexed ? static_cast<int64_t>(i) : -1);
    if (indexed) {
      ranges.push_back({0, size, 1});
      continue;
    }
    if (shrink_mask >> i & 1) {
      int64_t at = begin[i] < 0 ? begin[i] + size : begin[i];
      if (no_begin) at = stride > 0 ? 0 : size - 1;
      if (at < 0 || at >= size)
        Damaged("element %lld of a dimension of %lld", static_cast<long long>(begin[i]),
                static_cast<long long>(size));
      ranges.push_back({at, at + 1, 1});
      continue;
    }
    if (stride == 0) Damaged("a stride of 0");
    ranges.push_back(Indices(begin[i], end[i], stride, no_begin, end_mask >> i & 1, offset, size));
    out.push_back(Length(ranges.back()));
  }
  if (ellipses == 0) whole(x.rank() - named);
  Value cut = Cut(n, x, ranges);
  if (computed) cut = Indexed(n, cut, first, entries);
  n.Set(0, n.Reshape(cut, out));
}

void Reverse(Node& n) {
  const Value x = n.In(0);
  std::vector<Range> ranges;
  for (uint32_t d : x.dims) ranges.push_back({0, d, 1});
  for (int64_t a : n.Ints(1, "the axes")) {
    const uint32_t axis = Axis(a, x.rank());
    if (axis < x.rank()) ranges[axis] = {int64_t{x.dims[axis]} - 1, -1, -1};
  }
  n.Set(0, Cut(n, x, ranges));
}

// Numbers for (before, after) of `pairs` dimensions.
std::vector<uint32_t> PadAmounts(Node& n, int input, size_t pairs, const char* what) {
  const std::vector<int64_t> given = n.Ints(input, what);
  std::vector<uint32_t> pads;
  bool damaged = given.size() != 2 * pairs;
  for (int64_t p : given) {
    damaged = damaged || p < 0 || p > INT32_MAX;
    pads.push_back(static_cast<uint32_t>(p));
  }
  if (damaged) Damaged("%s %s", what, Text(given).c_str());
  return pads;
}

std::vector<uint32_t> PadsOfAll(Node& n, const Value& x) {
  n.NeedConstant(1, "the padding");
  const Dims& shape = n.view().inputs[1].dims;
  if (shape != Dims{x.rank(), 2})
    Damaged("padding of shape %s for %s", Text(shape).c_str(), Text(x.dims).c_str());
  return PadAmounts(n, 1, x.rank(), "padding");
}

double PaddingValue(Node& n, int i) {
  n.NeedConstant(i, "the padding's value");
  return n.Element(n.In(i), "the padding's value");
}

// By a value that is computed: it is repeated before and behind.
Value PaddedBy(Node& n, Value x, const std::vector<uint32_t>& pads, const Value& value) {
  if (Elements(value.dims) != 1 || n.type(value) != n.type(x))
    Damaged("padding of %s by %s", Text(x.dims).c_str(), Text(value.dims).c_str());
  for (uint32_t d = 0; d < x.rank(); ++d) {
    const uint32_t before = pads[2 * d], behind = pads[2 * d + 1];
    if (before + behind == 0) continue;
    std::vector<Value> parts;
    Dims dims = x.dims;
    const auto repeat = [&](uint32_t size) {
      dims[d] = size;
      if (Elements(dims) != 0) parts.push_back(Repeated(n, value, dims));
    };
    repeat(before);
    if (Elements(x.dims) != 0) parts.push_back(x);
    repeat(behind);
    dims[d] = Dim(int64_t{x.dims[d]} + before + behind);
    x = parts.empty()       ? n.Constant(dims, n.type(x), nullptr, n.encoding(x))
        : parts.size() == 1 ? n.Reshape(parts[0], dims)
                            : n.Op("Concat", parts, dims, {U32("axis", d)});
  }
  return x;
}

void Pad(Node& n) {
  const Value x = n.In(0);
  const std::vector<uint32_t> pads = PadsOfAll(n, x);
  const bool computed = n.Is("PADV2") && n.has(2) && !n.constant(n.In(2));
  n.Set(0, computed ? PaddedBy(n, x, pads, n.In(2))
                    : Padded(n, x, pads, n.Is("PADV2") ? PaddingValue(n, 2) : 0));
}

void MirrorPad(Node& n) {
  const Value x = n.In(0);
  const std::vector<uint32_t> pads = PadsOfAll(n, x);
  const bool reflect = n.Integer("Mode") == 0;
  Dims dims = x.dims;
  bool any = false;
  for (size_t k = 0; k < pads.size(); ++k) {
    const uint32_t size = x.dims[k / 2];
    if (pads[k] + (reflect ? 1 : 0) > size)
      Damaged("padding of %u mirrors more than %s has", pads[k], Text(x.dims).c_str());
    dims[k / 2] = Dim(int64_t{dims[k / 2]} + pads[k]);
    any = any || pads[k] != 0;
  }
  n.Set(0, any ? n.Op("Pad", {x}, dims,
                      {U32("scheme", reflect ? 2 : 1), U32s("pad_amount", pads, {x.rank(), 2})})
               : x);
}

}  // namespace

Value Spread(Node& n, Value x, const std::vector<int64_t>& steps, double value) {
  for (uint32_t d = 0; d < x.rank(); ++d) {
    if (steps[d] < 1) Damaged("a step of %lld", static_cast<long long>(steps[d]));
    const uint32_t size = x.dims[d];
    if (steps[d] == 1 || size <= 1) continue;
    const uint32_t step = Dim(steps[d]);
    Dims dims = x.dims;
    dims[d] = Dim(int64_t{size} * step);
    const auto before = static_cast<int64_t>(Elements({x.dims.begin(), x.dims.begin() + d}));
    const auto behind = static_cast<int64_t>(Elements({x.dims.begin() + d + 1, x.dims.end()}));
    const Value apart = n.Reshape(x, {Dim(before * size), 1, Dim(behind)});
    x = n.Reshape(Padded(n, apart, {0, 0, 0, step - 1, 0, 0}, value), dims);
    x = CutAlong(n, x, d, 0, int64_t{size - 1} * step + 1);
  }
  return x;
}

namespace {

void Dilate(Node& n) {
  const Value x = n.In(0);
  const std::vector<int64_t> steps = n.Ints(1, "the dilations");
  if (steps.size() != x.rank()) Damaged("%zu dilations of %s", steps.size(), Text(x.dims).c_str());
  n.Set(0, Spread(n, x, steps, PaddingValue(n, 2)));
}

// Elements between any two, then some before and behind; fewer than none are cut off.
void StablehloPad(Node& n) {
  Value x = n.In(0);
  const auto low = n.List<int64_t>("EdgePaddingLow"), high = n.List<int64_t>("EdgePaddingHigh");
  std::vector<int64_t> steps = n.List<int64_t>("InteriorPadding");
  const size_t rank = x.rank();
  if (low.size() != rank || high.size() != rank || steps.size() != rank)
    Damaged("padding of %zu, %zu and %zu dimensions of %s", low.size(), high.size(), steps.size(),
            Text(x.dims).c_str());
  for (int64_t& step : steps) {
    if (step < 0 || step > INT32_MAX) Damaged("padding of %lld", static_cast<long long>(step));
    ++step;
  }
  const double value = PaddingValue(n, 1);
  x = Spread(n, x, steps, value);
  std::vector<Range> kept;
  std::vector<uint32_t> pads;
  for (size_t d = 0; d < rank; ++d) {
    const int64_t size = x.dims[d];
    if (std::max(std::abs(low[d]), std::abs(high[d])) > INT32_MAX ||
        std::min<int64_t>(low[d], 0) + std::min<int64_t>(high[d], 0) + size < 1)
      Damaged("padding of %lld and %lld beside %lld", static_cast<long long>(low[d]),
              static_cast<long long>(high[d]), static_cast<long long>(size));
    kept.push_back({std::max<int64_t>(-low[d], 0), size + std::min<int64_t>(high[d], 0), 1});
    pads.push_back(Dim(std::max<int64_t>(low[d], 0)));
    pads.push_back(Dim(std::max<int64_t>(high[d], 0)));
  }
  n.Set(0, Padded(n, Cut(n, x, kept), pads, value));
}

void SpaceToDepth(Node& n) {
  const Value x = n.In(0, 4);
  const int64_t b = n.Integer("BlockSize");
  if (b < 1 || b > INT16_MAX || x.dims[1] % b != 0 || x.dims[2] % b != 0)
    Damaged("blocks of %lld in %u by %u", static_cast<long long>(b), x.dims[1], x.dims[2]);
  const auto block = static_cast<uint32_t>(b);
  n.Set(0, n.Op("SpaceToDepth", {x},
                {x.dims[0], x.dims[1] / block, x.dims[2] / block, Dim(x.dims[3] * b * b)},
                {U32s("block_size", {block, block})}));
}

void DepthToSpace(Node& n) {
  const Value x = n.In(0, 4);
  const int64_t b = n.Integer("BlockSize");
  if (b < 1 || b > INT16_MAX || x.dims[3] % (b * b) != 0)
    Damaged("blocks of %lld from %u channels", static_cast<long long>(b), x.dims[3]);
  const auto block = static_cast<uint32_t>(b);
  n.Set(0, n.Op("DepthToSpace", {x},
                {x.dims[0], Dim(x.dims[1] * b), Dim(x.dims[2] * b), x.dims[3] / (block * block)},
                {U32s("block_size", {block, block}), U32("mode", 0)}));
}

// Batches of blocks. [N, L, C] is treated as [N, L, 1, C].
void Batches(Node& n, bool to_batch) {
  Value x = n.In(0);
  if (x.rank() != 3 && x.rank() != 4) Damaged("an input of rank %u instead of 3 or 4", x.rank());
  const size_t spatial = x.rank() - 2;
  std::vector<uint32_t> block;
  int64_t product = 1;
  for (int64_t b : n.Ints(1, "the block sizes")) {
    if (b < 1 || b > INT16_MAX) Damaged("a block of %lld", static_cast<long long>(b));
    block.push_back(static_cast<uint32_t>(b));
    product = std::min<int64_t>(product * b, INT32_MAX);
  }
  const char* const name = to_batch ? "pad_amount" : "crops";
  std::vector<uint32_t> amounts = PadAmounts(n, 2, spatial, to_batch ? "the padding" : "the crops");
  if (block.size() != spatial)
    Damaged("blocks of %s for %s", Text(block).c_str(), Text(x.dims).c_str());
  if (spatial == 1) {
    block.push_back(1);
    amounts.insert(amounts.end(), {0, 0});
    x = n.Reshape(x, {x.dims[0], x.dims[1], 1, x.dims[2]});
  }
  Dims out = x.dims;
  if (!to_batch && out[0] % product != 0)
    Damaged("blocks of %s from a batch of %u", Text(block).c_str(), out[0]);
  out[0] = to_batch ? Dim(out[0] * product) : static_cast<uint32_t>(out[0] / product);
  for (int d = 0; d < 2; ++d) {
    const int64_t both = int64_t{amounts[2 * d]} + amounts[2 * d + 1];
    const int64_t size = to_batch ? x.dims[1 + d] + both : int64_t{x.dims[1 + d]} * block[d] - both;
    if (size < 1 || (to_batch && size % block[d] != 0))
      Damaged("%s %s of %s in blocks of %s", to_batch ? "padding" : "crops", Text(amounts).c_str(),
              Text(x.dims).c_str(), Text(block).c_str());
    out[1 + d] = Dim(to_batch ? size / block[d] : size);
  }
  Value made = n.Op(to_batch ? "SpaceToBatch" : "BatchToSpace", {x}, out,
                    {U32s("block_size", block), U32s(name, amounts, {2, 2})});
  if (spatial == 1) made = n.Reshape(made, {out[0], out[1], out[3]});
  n.Set(0, made);
}

void SpaceToBatch(Node& n) { Batches(n, true); }
void BatchToSpace(Node& n) { Batches(n, false); }

}  // namespace

std::vector<Operator> SlicePadOperators() {
  return {
      {5, "DEPTH_TO_SPACE", DepthToSpace, "DepthToSpace", "DepthToSpaceOptions"},
      {26, "SPACE_TO_DEPTH", SpaceToDepth, "SpaceToDepth", "SpaceToDepthOptions"},
      {34, "PAD", Pad, "Pad"},
      {37, "BATCH_TO_SPACE_ND", BatchToSpace, "BatchToSpace"},
      {38, "SPACE_TO_BATCH_ND", SpaceToBatch, "SpaceToBatch"},
      {45, "STRIDED_SLICE", StridedSlice, "StridedSlice, Gather", "StridedSliceOptions"},
      {60, "PADV2", Pad, "Pad, Tile, Concat"},
      {65, "SLICE", Slice, "StridedSlice, Gather"},
      {100, "MIRROR_PAD", MirrorPad, "Pad", "MirrorPadOptions"},
      {105, "REVERSE_V2", Reverse, "StridedSlice"},
      {195, "STABLEHLO_PAD", StablehloPad, "Pad, StridedSlice", "StablehloPadOptions",
       Fixed::kFloats, Delegated::kNone},
      {203, "DILATE", Dilate, "Pad, StridedSlice", "", Fixed::kFloats, Delegated::kNone},
  };
}

}  // namespace qnnrt::tflite
