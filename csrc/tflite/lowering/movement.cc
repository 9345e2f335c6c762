// Moving elements: reshape, transpose, concatenation, splitting, slicing, padding, tiling, blocks;
// shapes as constants.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "tflite/lowering/lowering.h"

namespace qnnrt::tflite {

namespace {

uint32_t Length(const Range& r) {
  const int64_t span = r.stride > 0 ? r.end - r.begin : r.begin - r.end;
  const int64_t step = std::abs(r.stride);
  return span <= 0 ? 0 : static_cast<uint32_t>((span - 1) / step + 1);
}

std::string List(const std::vector<int64_t>& values) {
  std::string text;
  for (int64_t v : values) text += (text.empty() ? "" : ", ") + std::to_string(v);
  return "[" + text + "]";
}

// Of shapes, mostly, which may have no elements.
Value CutConstant(Node& n, const Value& x, const std::vector<Range>& ranges, const Dims& dims) {
  const auto* const from = static_cast<const uint8_t*>(n.data(x));
  const uint32_t size = ElementBytes(n.type(x));
  n.Spend(Elements(dims) * size, "the result");
  std::vector<uint8_t> bytes(Elements(dims) * size);
  for (uint64_t i = 0; i < bytes.size() / size; ++i) {
    uint64_t left = i, at = 0, step = 1;
    for (uint32_t d = x.rank(); d-- > 0; step *= x.dims[d], left /= dims[d]) {
      const auto index = static_cast<int64_t>(left % dims[d]);
      at += static_cast<uint64_t>(ranges[d].begin + index * ranges[d].stride) * step;
    }
    std::memcpy(&bytes[i * size], from + at * size, size);
  }
  return n.Constant(dims, n.type(x), bytes.data());
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
  if (n.constant(x) && n.encoding(x).none()) return CutConstant(n, x, ranges, dims);
  return n.Op("StridedSlice", {x}, dims, {I32s("ranges", values, {x.rank(), 3})});
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

Value ShapeConstant(Node& n, const std::vector<int64_t>& values, const Dims& dims) {
  return n.Cast(n.Constant(dims, QNN_DATATYPE_INT_64, values.data()), n.OutType());
}

// Shapes are fixed, so they are constants whatever the data.
void Measure(Node& n) {
  const Dims shape = n.In(0).dims;
  if (n.Is("RANK")) {
    n.Set(0, ShapeConstant(n, {static_cast<int64_t>(shape.size())}, {}));
  } else {
    n.Set(0, ShapeConstant(n, {shape.begin(), shape.end()}, {static_cast<uint32_t>(shape.size())}));
  }
}

// Of constants: those that importers fold.
void OnlyConstants(Node& n) {
  for (int i = 0; i < n.inputs(); ++i) n.NeedConstant(i, "what decides the result");
  Unsupported("a result of a quantized type");
}

// Of fixed-point numbers here; of all others where constants are folded.
void Fill(Node& n) {
  Dims dims;
  for (int64_t d : n.Ints(0, "the shape")) dims.push_back(Dim(d));
  n.NeedConstant(1, "the value");
  const Value value = n.In(1);
  if (Elements(value.dims) != 1)
    Damaged("%llu values for %s", static_cast<unsigned long long>(Elements(value.dims)),
            Text(dims).c_str());
  const uint64_t count = Elements(dims);
  const uint32_t size = ElementBytes(n.type(value));
  n.Spend(count > UINT64_MAX / 8 ? count : count * size, "the result");
  n.Set(0, n.Filled(dims, n.type(value), n.data(value), n.encoding(value)));
}

// The new shape: input 1 when there is one, else the options'; one -1 is worked out.
void ReshapeTo(Node& n) {
  const Value x = n.In(0);
  std::vector<int64_t> wanted;
  if (n.has(1) && n.view().inputs[1].dims.size() <= 1) {
    wanted = n.Ints(1, "the new shape");
  } else {
    wanted = n.Integers("NewShape");
    if (wanted == std::vector<int64_t>{0}) wanted.clear();  // written by old converters for scalars
  }
  int64_t* open = nullptr;
  Dims rest;
  bool damaged = false;
  for (int64_t& d : wanted) {
    if (d == -1 && open == nullptr) {
      open = &d;
    } else if (d < 0 || d > INT32_MAX) {
      damaged = true;
    } else {
      rest.push_back(static_cast<uint32_t>(d));
    }
  }
  if (damaged) Damaged("its new shape is %s", List(wanted).c_str());
  const uint64_t size = Elements(x.dims);
  if (open != nullptr) {
    const uint64_t known = Elements(rest);
    if (known == 0 || size % known != 0)
      Damaged("%s cannot become %s", Text(x.dims).c_str(), List(wanted).c_str());
    *open = static_cast<int64_t>(size / known);
  }
  Dims dims;
  for (int64_t d : wanted) dims.push_back(Dim(d));
  if (Elements(dims) != size)
    Damaged("%s cannot become %s", Text(x.dims).c_str(), Text(dims).c_str());
  n.Set(0, n.Reshape(x, dims));
}

// Without the named dimensions of size 1, or without all of them when none are named.
void Squeeze(Node& n) {
  const Value x = n.In(0);
  std::set<uint32_t> named;
  for (int64_t d : n.Integers("SqueezeDims")) named.insert(Axis(d, x.rank()));
  Dims dims;
  for (uint32_t d = 0; d < x.rank(); ++d) {
    const bool goes = named.empty() ? x.dims[d] == 1 : named.count(d) != 0;
    if (goes && x.dims[d] != 1)
      Damaged("it removes dimension %u of %s, which is not of size 1", d, Text(x.dims).c_str());
    if (!goes) dims.push_back(x.dims[d]);
  }
  if (x.rank() == 0 && !named.empty()) Damaged("it removes a dimension of a scalar");
  n.Set(0, n.Reshape(x, dims));
}

void ExpandDims(Node& n) {
  const Value x = n.In(0);
  Dims dims = x.dims;
  dims.insert(dims.begin() + Axis(n.Int(1, "the axis"), x.rank() + 1), 1);
  n.Set(0, n.Reshape(x, dims));
}

void Transpose(Node& n) {
  const Value x = n.In(0);
  std::vector<uint32_t> order;
  for (int64_t p : n.Ints(1, "the order of dimensions")) order.push_back(Axis(p, x.rank()));
  if (order.size() != x.rank() || std::set<uint32_t>(order.begin(), order.end()).size() != x.rank())
    Damaged("dimensions %s in the order %s", Text(x.dims).c_str(), Text(order).c_str());
  n.Set(0, n.Transpose(x, order));
}

void Concat(Node& n) {
  const std::vector<Value> values = n.Inputs();
  if (values.empty()) Damaged("input 0 is missing");
  Dims out = values[0].dims;
  const uint32_t rank = values[0].rank(), axis = Axis(n.Integer("Axis"), rank);
  int64_t total = 0;
  std::vector<Value> parts;
  for (const Value& v : values) {
    Dims like = v.dims;
    if (v.rank() == rank && rank > 0) {
      total += like[axis];
      like[axis] = out[axis];
    }
    if (rank == 0 || like != out)
      Damaged("%s and %s along %u", Text(values[0].dims).c_str(), Text(v.dims).c_str(), axis);
    if (Elements(v.dims) != 0) parts.push_back(v);
  }
  out[axis] = Dim(total);
  if (parts.empty()) Unsupported("its result has no elements, which QNN tensors must have");
  n.Set(0, n.Fused(parts.size() == 1 ? n.Op("Reshape", parts, out)
                                     : n.Op("Concat", parts, out, {U32("axis", axis)})));
}

std::vector<Value> Parts(Node& n, const Value& x, const std::vector<int64_t>& sizes,
                         uint32_t axis) {
  if (x.rank() == 0) Damaged("a scalar in parts");
  int64_t at = 0;
  bool damaged = sizes.empty();
  std::vector<std::pair<Dims, Qnn_DataType_t>> outputs;
  std::vector<uint32_t> starts;
  for (int64_t size : sizes) {
    damaged = damaged || size < 1 || size > x.dims[axis] - at;
    if (damaged) break;
    Dims dims = x.dims;
    dims[axis] = static_cast<uint32_t>(size);
    outputs.push_back({dims, n.type(x)});
    if (at > 0) starts.push_back(static_cast<uint32_t>(at));
    at += size;
  }
  if (damaged || at != x.dims[axis])
    Damaged("dimension %u of %s in parts of %s", axis, Text(x.dims).c_str(), List(sizes).c_str());
  if (sizes.size() == 1) return {n.Op("Reshape", {x}, x.dims)};
  return n.Ops("Split", {x}, outputs, {U32("axis", axis), U32s("split_index", starts)});
}

void SetAll(Node& n, const std::vector<Value>& values) {
  for (size_t i = 0; i < values.size(); ++i) n.Set(static_cast<int>(i), values[i]);
}

void Split(Node& n) {
  const Value x = n.In(1);
  const uint32_t axis = Axis(n.Int(0, "the axis"), x.rank());
  const int64_t count = n.outputs();
  if (x.rank() == 0 || n.Integer("NumSplits", count) != count || x.dims[axis] % count != 0)
    Damaged("dimension %u of %s in %d parts", axis, Text(x.dims).c_str(), n.outputs());
  SetAll(n, Parts(n, x, std::vector<int64_t>(count, x.dims[axis] / count), axis));
}

void SplitV(Node& n) {
  const Value x = n.In(0);
  std::vector<int64_t> sizes = n.Ints(1, "the sizes");
  const uint32_t axis = Axis(n.Int(2, "the axis"), x.rank());
  if (std::count(sizes.begin(), sizes.end(), -1) == 1 && x.rank() > 0) {
    int64_t rest = x.dims[axis];
    for (int64_t s : sizes) {
      if (s < -1 || s > INT32_MAX) Damaged("sizes of %s", List(sizes).c_str());
      rest -= std::max<int64_t>(s, 0);
    }
    *std::find(sizes.begin(), sizes.end(), -1) = rest;
  }
  if (static_cast<int>(sizes.size()) != n.outputs())
    Damaged("%zu sizes for %d outputs", sizes.size(), n.outputs());
  SetAll(n, Parts(n, x, sizes, axis));
}

void Pack(Node& n) {
  std::vector<Value> values = n.Inputs();
  if (values.empty()) Damaged("input 0 is missing");
  Dims out = values[0].dims;
  for (const Value& v : values) {
    if (v.dims != out) Damaged("%s and %s", Text(out).c_str(), Text(v.dims).c_str());
  }
  const uint32_t axis = Axis(n.Integer("Axis"), out.size() + 1);
  out.insert(out.begin() + axis, static_cast<uint32_t>(values.size()));
  if (values[0].rank() == 0) {  // QNN has no tensors of rank 0 to pack
    n.Set(0, values.size() == 1 ? n.Op("Reshape", values, out)
                                : n.Op("Concat", values, out, {U32("axis", 0)}));
    return;
  }
  n.Set(0, n.Op("Pack", values, out, {U32("axis", axis)}));
}

void Unpack(Node& n) {
  const Value x = n.In(0);
  const uint32_t axis = Axis(n.Integer("Axis"), x.rank());
  if (x.rank() == 0 || x.dims[axis] != static_cast<uint32_t>(n.outputs()))
    Damaged("%d outputs from dimension %u of %s", n.outputs(), axis, Text(x.dims).c_str());
  if (x.rank() == 1) {
    const std::vector<Value> parts = Parts(n, x, std::vector<int64_t>(n.outputs(), 1), 0);
    for (int i = 0; i < n.outputs(); ++i) n.Set(i, n.Reshape(parts[i], {}));
    return;
  }
  Dims dims = x.dims;
  dims.erase(dims.begin() + axis);
  const std::vector<std::pair<Dims, Qnn_DataType_t>> outputs(n.outputs(), {dims, n.type(x)});
  SetAll(n, n.Ops("UnPack", {x}, outputs, {U32("axis", axis)}));
}

void Slice(Node& n) {
  const Value x = n.In(0);
  const std::vector<int64_t> begin = n.Ints(1, "the beginning"), size = n.Ints(2, "the size");
  bool damaged = begin.size() != x.rank() || size.size() != x.rank();
  std::vector<Range> ranges;
  for (uint32_t d = 0; d < x.rank() && !damaged; ++d) {
    const int64_t dim = x.dims[d];
    damaged = begin[d] < 0 || begin[d] > dim || size[d] < -1 || size[d] > dim - begin[d];
    ranges.push_back({begin[d], size[d] == -1 ? dim : begin[d] + size[d], 1});
  }
  if (damaged)
    Damaged("it slices %s from %s by %s", Text(x.dims).c_str(), List(begin).c_str(),
            List(size).c_str());
  n.Set(0, Cut(n, x, ranges));
}

// As indexing of arrays is: clamped, from the end where negative.
Range Indices(int64_t begin, int64_t end, int64_t stride, bool no_begin, bool no_end,
              int64_t size) {
  const int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? size : size - 1;
  auto position = [&](int64_t at) { return std::clamp(at < 0 ? at + size : at, low, high); };
  const int64_t first = no_begin ? (stride > 0 ? low : high) : position(begin);
  const int64_t last = no_end ? (stride > 0 ? high : low) : position(end);
  return {first, last, stride};
}

// Bit i of a mask is for entry i of begin, end and strides. Entries for new dimensions and the
// ellipsis select no dimension or several, all others the next one.
void StridedSlice(Node& n) {
  const Value x = n.In(0);
  const std::vector<int64_t> begin = n.Ints(1, "the beginning"), end = n.Ints(2, "the end");
  const std::vector<int64_t> strides = n.Ints(3, "the strides");
  const size_t count = begin.size();
  if (end.size() != count || strides.size() != count || count > 31)
    Damaged("%zu begins, %zu ends and %zu strides", count, end.size(), strides.size());
  const int64_t begin_mask = n.Integer("BeginMask"), end_mask = n.Integer("EndMask");
  const int64_t ellipsis_mask = n.Integer("EllipsisMask"), new_mask = n.Integer("NewAxisMask");
  const int64_t shrink_mask = n.Integer("ShrinkAxisMask");
  const bool offset = n.Flag("Offset");
  size_t named = 0, ellipses = 0;
  for (size_t i = 0; i < count; ++i) {
    ellipses += ellipsis_mask >> i & 1;
    named += !((new_mask | ellipsis_mask) >> i & 1);
    if (offset && end[i] < 0) Unsupported("ends relative to the beginning, and negative");
  }
  if (ellipses > 1) Damaged("more than one ellipsis");
  if (named > x.rank()) Damaged("%zu ranges for %u dimensions", named, x.rank());
  std::vector<Range> ranges;
  Dims out;
  auto whole = [&](size_t dims) {
    for (; dims > 0; --dims) {
      out.push_back(x.dims[ranges.size()]);
      ranges.push_back({0, out.back(), 1});
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
    const int64_t last = offset ? begin[i] + end[i] : end[i];
    ranges.push_back(Indices(begin[i], last, stride, no_begin, end_mask >> i & 1, size));
    out.push_back(Length(ranges.back()));
  }
  if (ellipses == 0) whole(x.rank() - named);
  n.Set(0, n.Reshape(Cut(n, x, ranges), out));
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
std::vector<uint32_t> Pads(Node& n, int input, size_t pairs, const char* what) {
  const std::vector<int64_t> given = n.Ints(input, what);
  std::vector<uint32_t> pads;
  bool damaged = given.size() != 2 * pairs;
  for (int64_t p : given) {
    damaged = damaged || p < 0 || p > INT32_MAX;
    pads.push_back(static_cast<uint32_t>(p));
  }
  if (damaged) Damaged("%s %s", what, List(given).c_str());
  return pads;
}

std::vector<uint32_t> PadsOfAll(Node& n, const Value& x) {
  n.NeedConstant(1, "the padding");
  const Dims& shape = n.view().inputs[1].dims;
  if (shape != Dims{x.rank(), 2})
    Damaged("padding of shape %s for %s", Text(shape).c_str(), Text(x.dims).c_str());
  return Pads(n, 1, x.rank(), "padding");
}

void Pad(Node& n) {
  const Value x = n.In(0);
  const std::vector<uint32_t> pads = PadsOfAll(n, x);
  double value = 0;
  if (n.Is("PADV2")) {
    n.NeedConstant(2, "the padding's value");
    value = n.Element(n.In(2), "the padding's value");
  }
  n.Set(0, Padded(n, x, pads, value));
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

Value Tiled(Node& n, const Value& x, const std::vector<uint32_t>& times) {
  Dims dims = x.dims;
  for (size_t d = 0; d < dims.size(); ++d) dims[d] = Dim(int64_t{dims[d]} * times[d]);
  return dims == x.dims ? x : n.Op("Tile", {x}, dims, {U32s("multiples", times)});
}

void Tile(Node& n) {
  const Value x = n.In(0);
  const std::vector<int64_t> given = n.Ints(1, "the multiples");
  std::vector<uint32_t> times;
  for (int64_t t : given) times.push_back(Dim(t));
  if (times.size() != x.rank() || std::count(times.begin(), times.end(), 0) != 0)
    Damaged("%s times %s", Text(x.dims).c_str(), List(given).c_str());
  n.Set(0, Tiled(n, x, times));
}

void BroadcastTo(Node& n) {
  Value x = n.In(0);
  Dims to;
  for (int64_t d : n.Ints(1, "the shape")) to.push_back(Dim(d));
  bool damaged = to.size() < x.rank();
  std::vector<uint32_t> times = to;
  Dims own(damaged ? 0 : to.size() - x.rank(), 1);
  own.insert(own.end(), x.dims.begin(), x.dims.end());
  for (size_t d = 0; d < to.size() && !damaged; ++d) {
    damaged = own[d] != 1 && own[d] != to[d];
    if (own[d] != 1) times[d] = 1;
  }
  if (damaged) Damaged("%s to %s", Text(x.dims).c_str(), Text(to).c_str());
  n.Set(0, Tiled(n, n.Reshape(x, own), times));
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

// Batches of blocks. [N, L, C] goes as [N, L, 1, C].
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
  std::vector<uint32_t> amounts = Pads(n, 2, spatial, to_batch ? "the padding" : "the crops");
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

std::vector<Operator> MovementOperators() {
  const Fixed own = Fixed::kOwn;
  const Delegated all = Delegated::kAll, none = Delegated::kNone;
  const char* const folded = "folded into constants";
  return {
      {2, "CONCATENATION", Concat, "Concat", own, all, "ConcatenationOptions"},
      {5, "DEPTH_TO_SPACE", DepthToSpace, "DepthToSpace", own, all, "DepthToSpaceOptions"},
      {22, "RESHAPE", ReshapeTo, "Reshape", own, all, "ReshapeOptions"},
      {26, "SPACE_TO_DEPTH", SpaceToDepth, "SpaceToDepth", own, all, "SpaceToDepthOptions"},
      {34, "PAD", Pad, "Pad"},
      {37, "BATCH_TO_SPACE_ND", BatchToSpace, "BatchToSpace"},
      {38, "SPACE_TO_BATCH_ND", SpaceToBatch, "SpaceToBatch"},
      {39, "TRANSPOSE", Transpose, "Transpose"},
      {43, "SQUEEZE", Squeeze, "Reshape", own, all, "SqueezeOptions"},
      {45, "STRIDED_SLICE", StridedSlice, "StridedSlice", own, all, "StridedSliceOptions"},
      {49, "SPLIT", Split, "Split", own, all, "SplitOptions"},
      {60, "PADV2", Pad, "Pad"},
      {65, "SLICE", Slice, "StridedSlice"},
      {69, "TILE", Tile, "Tile"},
      {70, "EXPAND_DIMS", ExpandDims, "Reshape"},
      {77, "SHAPE", Measure, folded, own, none},
      {83, "PACK", Pack, "Pack", own, all, "PackOptions"},
      {88, "UNPACK", Unpack, "UnPack", own, all, "UnpackOptions"},
      {94, "FILL", Fill, folded, own, none},
      {96, "RANGE", OnlyConstants, folded, own, none},
      {100, "MIRROR_PAD", MirrorPad, "Pad", own, all, "MirrorPadOptions"},
      {102, "SPLIT_V", SplitV, "Split"},
      {105, "REVERSE_V2", Reverse, "StridedSlice"},
      {110, "RANK", Measure, folded, own, none},
      {130, "BROADCAST_TO", BroadcastTo, "Tile"},
      {145, "BROADCAST_ARGS", OnlyConstants, folded, own, none},
  };
}

}  // namespace qnnrt::tflite
