// Selection and scattering by index; resizing of images, which is one.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tflite/lowering/lowering.h"

namespace qnnrt::tflite {
namespace {

// Indices as QNN's operations take them: 32 bits.
Value Index(Node& n, const Value& v) {
  if (!n.whole(v)) Damaged("indices of %s", TypeName(n.type(v)).c_str());
  return n.Cast(v, QNN_DATATYPE_INT_32);
}

void Gather(Node& n) {
  const Value x = n.In(0), index = n.In(1);
  if (x.rank() == 0) Damaged("a scalar has nothing to gather");
  const uint32_t axis = Axis(n.Integer("Axis"), x.rank());
  int64_t given = n.Integer("BatchDims");
  if (given < 0) given += index.rank();
  if (given == 0) {
    n.Set(0, Take(n, x, index, axis));
    return;
  }
  if (given < 0 || given > std::min(axis, index.rank()) ||
      !std::equal(x.dims.begin(), x.dims.begin() + given, index.dims.begin()))
    Damaged("%lld batch dimensions of %s at %s", static_cast<long long>(given),
            Text(x.dims).c_str(), Text(index.dims).c_str());
  const auto batch = static_cast<uint32_t>(given);
  // The gathered dimension behind the batch, then one index for each element wanted.
  std::vector<uint32_t> moved(batch);
  std::iota(moved.begin(), moved.end(), 0);
  moved.push_back(axis);
  for (uint32_t d = batch; d < x.rank(); ++d) {
    if (d != axis) moved.push_back(d);
  }
  const Value source = n.Transpose(x, moved);
  Dims single = index.dims, dims = index.dims;
  single.push_back(1);
  dims.insert(dims.end(), source.dims.begin() + batch + 1, source.dims.end());
  const Value at = n.Reshape(Index(n, index), single);
  const Value found = n.Op("GatherNd", {source, at}, dims, {U32("batch_dims", batch)});
  // Dimensions between the batch and the gathered one belong in front of the indices.
  const uint32_t before = axis - batch, inner = index.rank() - batch;
  std::vector<uint32_t> order(batch);
  std::iota(order.begin(), order.end(), 0);
  for (uint32_t d = 0; d < before; ++d) order.push_back(batch + inner + d);
  for (uint32_t d = 0; d < inner; ++d) order.push_back(batch + d);
  for (uint32_t d = batch + inner + before; d < found.rank(); ++d) order.push_back(d);
  n.Set(0, n.Transpose(found, order));
}

// A block of `x` that begins where a tensor says: its rows among those of the flat `x`.
struct Block {
  uint32_t row, count;  // elements of a row, which lie in one piece; rows of the block
  Value rows;           // int32: [count]
};

// `start` has a number for each dimension; it is moved so that the block fits.
Block BlockOf(Node& n, const Value& x, const Dims& sizes, const Value& start) {
  if (!n.whole(start)) Damaged("a start of %s", TypeName(n.type(start)).c_str());
  const uint64_t elements = Elements(x.dims);
  if (elements > INT32_MAX || elements == 0 || Elements(sizes) == 0)
    Unsupported("a block of %s in %s", Text(sizes).c_str(), Text(x.dims).c_str());
  uint32_t outer = x.rank();
  Block block = {1, 1, {}};
  while (outer > 0 && sizes[outer - 1] == x.dims[outer - 1]) block.row *= sizes[--outer];
  block.count = static_cast<uint32_t>(Elements(sizes) / block.row);
  std::vector<int32_t> last, step(outer, 1);
  for (uint32_t d = 0; d < outer; ++d) last.push_back(static_cast<int32_t>(x.dims[d] - sizes[d]));
  for (uint32_t d = outer; d-- > 1;) step[d - 1] = step[d] * static_cast<int32_t>(x.dims[d]);
  const int32_t zero = 0;
  const Value least = n.Constant({1}, QNN_DATATYPE_INT_32, &zero);
  const Value most = n.Constant({outer}, QNN_DATATYPE_INT_32, last.data());
  const Value by = n.Constant({outer}, QNN_DATATYPE_INT_32, step.data());
  Value at = CutAlong(n, n.Cast(start, QNN_DATATYPE_INT_32), 0, 0, outer);
  at = n.Nary("ElementWiseMaximum", {n.Nary("ElementWiseMinimum", {at, most}), least});
  at = n.Op("ReduceSum", {n.Multiply(at, by)}, {1},
            {U32s("axes", {0}, {1}), Flag("keep_dims", true)});
  n.Spend({block.count}, sizeof(int32_t), "the rows of a block");
  std::vector<int32_t> rows(block.count);
  for (uint32_t i = 0; i < block.count; ++i) {
    uint32_t left = i;
    for (uint32_t d = outer; d-- > 0; left /= sizes[d])
      rows[i] += static_cast<int32_t>(left % sizes[d]) * step[d];
  }
  block.rows = n.Add(at, n.Constant({block.count}, QNN_DATATYPE_INT_32, rows.data()));
  return block;
}

void EmbeddingLookup(Node& n) {
  const Value ids = n.In(0), table = n.In(1);
  if (table.rank() == 0) Damaged("a table without rows");
  n.Set(0, Take(n, table, ids, 0));
}

void GatherNd(Node& n) {
  const Value x = n.In(0), index = n.In(1);
  const uint32_t depth = index.rank() == 0 ? 0 : index.dims.back();
  if (depth < 1 || depth > x.rank())
    Damaged("%s at %s", Text(x.dims).c_str(), Text(index.dims).c_str());
  Dims out(index.dims.begin(), index.dims.end() - 1);
  out.insert(out.end(), x.dims.begin() + depth, x.dims.end());
  n.Set(0, n.Op("GatherNd", {x, Index(n, index)}, out, {U32("batch_dims", 0)}));
}

Dims Shape(Node& n, int i) {
  const Dims dims = n.Shape(i);
  if (std::count(dims.begin(), dims.end(), 0) != 0) Damaged("a result of %s", Text(dims).c_str());
  return dims;
}

// What meets at one index is added; of booleans one is enough.
Value Scattered(Node& n, const Dims& dims, const Value& index, const Value& updates) {
  if (n.type(updates) == QNN_DATATYPE_BOOL_8) {
    const Value sum = Scattered(n, dims, index, n.Cast(updates, QNN_DATATYPE_INT_32));
    return n.Cast(sum, QNN_DATATYPE_BOOL_8);
  }
  const Value zeros = n.Filled(dims, n.type(updates), nullptr, "the zeros");
  return n.Op("ScatterNd", {zeros, index, updates}, dims, {U32("reduction", 1)});
}

void ScatterNd(Node& n) {
  const Value index = n.In(0), updates = n.In(1);
  const Dims dims = Shape(n, 2);
  const uint32_t depth = index.rank() == 0 ? 0 : index.dims.back();
  if (depth < 1 || depth > dims.size())
    Damaged("indices %s into %s", Text(index.dims).c_str(), Text(dims).c_str());
  Dims wanted(index.dims.begin(), index.dims.end() - 1);
  wanted.insert(wanted.end(), dims.begin() + depth, dims.end());
  if (updates.dims != wanted)
    Damaged("updates %s at %s of %s", Text(updates.dims).c_str(), Text(index.dims).c_str(),
            Text(dims).c_str());
  n.Set(0, Scattered(n, dims, Index(n, index), updates));
}

void SegmentSum(Node& n) {
  const Value x = n.In(0);
  const std::vector<int64_t> ids = n.Ints(1, "the segment ids");
  int64_t last = 0;
  bool damaged = x.rank() == 0 || ids.empty() || ids.size() != x.dims[0];
  for (int64_t id : ids) {
    damaged = damaged || id < last || id > last + 1;
    last = id;
  }
  if (damaged) Damaged("%zu segment ids of %s", ids.size(), Text(x.dims).c_str());
  Dims dims = x.dims;
  dims[0] = Dim(last + 1);
  const std::vector<int32_t> narrow(ids.begin(), ids.end());
  const Value at =
      n.Constant({static_cast<uint32_t>(ids.size()), 1}, QNN_DATATYPE_INT_32, narrow.data());
  n.Set(0, Scattered(n, dims, at, x));
}

// What a segment without rows holds.
Value Neutral(Node& n, const Dims& dims, Qnn_DataType_t type) {
  const bool least = n.Is("UNSORTED_SEGMENT_MAX") || n.Is("UNSORTED_SEGMENT_MIN");
  const int one = n.Is("UNSORTED_SEGMENT_PROD") ? 1 : 0;
  if (type == QNN_DATATYPE_FLOAT_32) {
    const float value = least ? std::numeric_limits<float>::lowest() : static_cast<float>(one);
    return n.Filled(dims, type, &value, "the empty segments");
  }
  if (type != QNN_DATATYPE_INT_32) Unsupported("segments of %s", TypeName(type).c_str());
  const int32_t value = least ? INT32_MIN : one;
  return n.Filled(dims, type, &value, "the empty segments");
}

// Numbers in the opposite order, the least and the greatest one exchanged: -x or -1 - x.
Value Opposite(Node& n, const Value& x) {
  if (n.floating(x)) return n.Op("ElementWiseNeg", {x}, x.dims);
  return n.Nary("ElementWiseSubtract", {n.Scalar(-1, x), x});
}

// Rows with a negative number belong to no segment: they go to one more, which is cut off.
void UnsortedSegment(Node& n) {
  Value x = n.In(0), ids = n.In(1);
  const int64_t count = n.Int(2, "the number of segments");
  const bool fits = ids.rank() >= 1 && ids.rank() <= x.rank() &&
                    std::equal(ids.dims.begin(), ids.dims.end(), x.dims.begin());
  if (!fits || count < 1 || count >= INT32_MAX)
    Damaged("%lld segments of %s by numbers %s", static_cast<long long>(count),
            Text(x.dims).c_str(), Text(ids.dims).c_str());
  const uint32_t rows = Dim(static_cast<int64_t>(Elements(ids.dims)));
  Dims flat(x.dims.begin() + ids.rank(), x.dims.end());
  flat.insert(flat.begin(), rows);
  x = n.Reshape(x, flat);
  ids = n.Reshape(Index(n, ids), {rows, 1});
  const int32_t last = static_cast<int32_t>(count);
  const Value none = n.Constant({1, 1}, QNN_DATATYPE_INT_32, &last);
  ids = n.Select(n.Compare("ElementWiseLess", {ids, n.Scalar(0, ids)}), none, ids);
  Dims dims = flat;
  dims[0] = Dim(count + 1);
  const bool least = n.Is("UNSORTED_SEGMENT_MIN");
  const uint32_t reduction = n.Is("UNSORTED_SEGMENT_SUM")    ? 1
                             : n.Is("UNSORTED_SEGMENT_PROD") ? 2
                                                             : 3;
  const Value empty = Neutral(n, dims, n.type(x));
  if (least) x = Opposite(n, x);
  Value made = n.Op("ScatterNd", {empty, ids, x}, dims, {U32("reduction", reduction)});
  made = CutAlong(n, made, 0, 0, count);
  n.Set(0, least ? Opposite(n, made) : made);
}

// Values at some indices, one other value everywhere else.
void SparseToDense(Node& n) {
  Value index = n.In(0), values = n.In(2);
  const Dims dims = Shape(n, 1);
  n.NeedConstant(3, "the default value");
  const Value rest = n.In(3);
  if (index.rank() < 2) {  // positions in a vector
    index = n.Reshape(index, {Dim(static_cast<int64_t>(Elements(index.dims))), 1});
  }
  if (index.rank() != 2 || index.dims[1] != dims.size() || Elements(rest.dims) != 1 ||
      n.type(rest) != n.type(values))
    Damaged("values at %s of %s", Text(index.dims).c_str(), Text(dims).c_str());
  const uint32_t count = index.dims[0];
  if (values.rank() == 0) {
    values = n.Reshape(values, {1});
    if (count != 1) values = n.Op("Tile", {values}, {count}, {U32s("multiples", {count})});
  }
  if (values.dims != Dims{count})
    Damaged("values %s at %s", Text(values.dims).c_str(), Text(index.dims).c_str());
  const Value dense = n.Filled(dims, n.type(values), n.data(rest), "the rest");
  n.Set(0, n.Op("ScatterNd", {dense, Index(n, index), values}, dims, {U32("reduction", 0)}));
}

// The update at a place that is computed: rows of the flat input, as long as what lies in one
// piece.
void UpdateAt(Node& n, const Value& x, const Value& update, const Value& start) {
  if (!(n.encoding(x) == n.encoding(update))) NotFixed("a block of another encoding");
  const Block block = BlockOf(n, x, update.dims, start);
  const Dims rows = {Dim(static_cast<int64_t>(Elements(x.dims) / block.row)), block.row};
  const Value flat = n.Reshape(x, rows);
  const Value parts = n.Reshape(update, {block.count, block.row});
  const Value at = n.Reshape(block.rows, {block.count, 1});
  const Value made = n.Op("ScatterNd", {flat, at, parts}, rows, {U32("reduction", 0)});
  n.Set(0, n.Reshape(made, x.dims));
}

// The update in place of a block; the start is moved so that the block fits.
void DynamicUpdateSlice(Node& n) {
  const Value x = n.In(0), update = n.In(1), at = n.In(2);
  bool damaged = at.rank() != 1 || at.dims[0] != x.rank() || update.rank() != x.rank();
  for (uint32_t d = 0; d < x.rank() && !damaged; ++d) damaged = update.dims[d] > x.dims[d];
  if (damaged)
    Damaged("%s into %s at %s", Text(update.dims).c_str(), Text(x.dims).c_str(),
            Text(at.dims).c_str());
  if (!n.constant(at) && update.dims != x.dims) {
    UpdateAt(n, x, update, at);
    return;
  }
  std::vector<int64_t> start(x.rank(), 0);
  if (n.constant(at)) start = n.Ints(2, "the start");
  std::vector<uint32_t> pads;
  for (uint32_t d = 0; d < x.rank(); ++d) {
    const int64_t room = x.dims[d] - update.dims[d];
    const auto before = static_cast<uint32_t>(std::clamp<int64_t>(start[d], 0, room));
    pads.insert(pads.end(), {before, static_cast<uint32_t>(room) - before});
  }
  if (std::all_of(pads.begin(), pads.end(), [](uint32_t p) { return p == 0; })) {
    n.Set(0, n.Copy(update, x.dims));
    return;
  }
  n.Spend(x.dims, 1, "the mask");
  std::vector<uint8_t> inside(Elements(x.dims));
  for (uint64_t i = 0; i < inside.size(); ++i) {
    bool in = true;
    uint64_t left = i;
    for (uint32_t d = x.rank(); d-- > 0; left /= x.dims[d]) {
      const uint64_t at = left % x.dims[d];
      in = in && at >= pads[2 * d] && at < pads[2 * d] + uint64_t{update.dims[d]};
    }
    inside[i] = in ? 1 : 0;
  }
  const Value mask = n.Constant(x.dims, QNN_DATATYPE_BOOL_8, inside.data());
  n.Set(0, n.OpOf("ElementWiseSelect", {mask, Padded(n, update, pads, 0), x}, x.dims, n.type(x)));
}

// The first `length` elements of every batch entry in reverse.
void ReverseSequence(Node& n) {
  const Value x = n.In(0), given = n.In(1);
  const uint32_t axis = Axis(n.Integer("SeqDim"), x.rank());
  const uint32_t batch = Axis(n.Integer("BatchDim"), x.rank());
  std::vector<int64_t> lengths;
  if (n.constant(given)) lengths = n.Ints(1, "the lengths");
  bool damaged = x.rank() == 0 || axis == batch || given.rank() != 1 ||
                 given.dims[0] != x.dims[batch] || !n.whole(given);
  for (int64_t l : lengths) damaged = damaged || l < 0 || l > x.dims[axis];
  if (damaged)
    Damaged("lengths %s along dimension %u of %s", Text(given.dims).c_str(), axis,
            Text(x.dims).c_str());
  const uint32_t size = x.dims[axis], rows = x.dims[batch];
  std::vector<uint32_t> order = {batch, axis}, back(x.rank());
  for (uint32_t d = 0; d < x.rank(); ++d) {
    if (d != batch && d != axis) order.push_back(d);
  }
  for (uint32_t d = 0; d < x.rank(); ++d) back[order[d]] = d;
  n.Spend({rows, size}, 24, "the indices");
  Value index;
  if (n.constant(given)) {
    std::vector<int32_t> at;
    for (uint32_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < size; ++i)
        at.push_back(static_cast<int32_t>(i < lengths[r] ? lengths[r] - 1 - i : i));
    }
    index = n.Constant({rows, size, 1}, QNN_DATATYPE_INT_32, at.data());
  } else {
    std::vector<int32_t> places(size);
    std::iota(places.begin(), places.end(), 0);
    const Value at = n.Constant({1, size}, QNN_DATATYPE_INT_32, places.data());
    const int32_t one = 1;
    const Value length = n.Reshape(Index(n, given), {rows, 1});
    const Value last =
        n.Nary("ElementWiseSubtract", {length, n.Constant({1, 1}, QNN_DATATYPE_INT_32, &one)});
    index = n.Select(n.Compare("ElementWiseLess", {at, length}),
                     n.Nary("ElementWiseSubtract", {last, at}), at);
    index = n.Reshape(index, {rows, size, 1});
  }
  const Value moved = n.Transpose(x, order);
  const Value out = n.Op("GatherNd", {moved, index}, moved.dims, {U32("batch_dims", 1)});
  n.Set(0, n.Transpose(out, back));
}

// True on the diagonal.
Value Diagonal(Node& n, uint32_t rows, uint32_t columns) {
  n.Spend({rows, columns}, 1, "the mask");
  std::vector<uint8_t> on(size_t{rows} * columns, 0);
  for (uint32_t i = 0; i < std::min(rows, columns); ++i) on[size_t{i} * columns + i] = 1;
  return n.Constant({rows, columns}, QNN_DATATYPE_BOOL_8, on.data());
}

void MatrixDiag(Node& n) {
  const Value x = n.In(0);
  if (x.rank() == 0) Damaged("a scalar is no diagonal");
  const Value on = Diagonal(n, x.dims.back(), x.dims.back());
  Dims wide = x.dims;
  wide.push_back(1);
  n.Set(0, n.Select(on, n.Reshape(x, wide), n.Scalar(0, x)));
}

void MatrixSetDiag(Node& n) {
  const Value x = n.In(0), diagonal = n.In(1);
  Dims wanted = x.dims;
  if (x.rank() >= 2) {
    wanted.pop_back();
    wanted.back() = std::min(wanted.back(), x.dims.back());
  }
  if (x.rank() < 2 || diagonal.dims != wanted)
    Damaged("the diagonal %s of %s", Text(diagonal.dims).c_str(), Text(x.dims).c_str());
  const uint32_t rows = x.dims[x.rank() - 2], columns = x.dims.back();
  Dims wide = diagonal.dims;  // along rows or along columns: whichever it is as long as
  wide.insert(rows <= columns ? wide.end() : wide.end() - 1, 1);
  const Value on = Diagonal(n, rows, columns);
  n.Set(0, n.Nary("ElementWiseSelect", {on, n.Reshape(diagonal, wide), x}, n.type(x)));
}

// A negative index is none of the rows, as one beyond the depth; QNN's counts from the end.
void OneHot(Node& n) {
  const Value index = n.In(0);
  const int64_t depth = n.Int(1, "the depth"), wanted = n.Integer("Axis");
  const int64_t axis = wanted == -1 ? index.rank() : wanted;
  if (depth < 1 || depth > INT32_MAX || axis < 0 || axis > index.rank())
    Damaged("depth %lld at dimension %lld", static_cast<long long>(depth),
            static_cast<long long>(axis));
  Value given = n.Reshape(Index(n, index), Physical(index.dims));
  if (n.type(index) != QNN_DATATYPE_UINT_8) {
    const int32_t beyond = static_cast<int32_t>(depth);
    const Value none = n.Constant({1}, QNN_DATATYPE_INT_32, &beyond);
    given = n.Select(n.Compare("ElementWiseLess", {given, n.Scalar(0, given)}), none, given);
  }
  const Value on = n.In(2), off = n.In(3);
  const bool known = n.constant(on) && n.constant(off) && n.type(on) == QNN_DATATYPE_FLOAT_32;
  Dims dims = index.dims, wide = given.dims;
  dims.insert(dims.begin() + axis, static_cast<uint32_t>(depth));
  wide.insert(wide.begin() + axis, static_cast<uint32_t>(depth));
  const double high = known ? n.Element(on, "the value") : 1;
  const double low = known ? n.Element(off, "the other value") : 0;
  Value hot = n.OpOf(
      "OneHot", {given}, wide, QNN_DATATYPE_FLOAT_32,
      {U32("depth", static_cast<uint32_t>(depth)), U32("axis", static_cast<uint32_t>(axis)),
       F32("on_value", static_cast<float>(high)), F32("off_value", static_cast<float>(low))});
  if (!known) hot = n.Select(n.Compare("ElementWiseGreater", {hot, n.Scalar(0.5F, hot)}), on, off);
  n.Set(0, n.Reshape(hot, dims));
}

// ---- Resizing ----

struct Sizes {
  Value x;
  uint32_t size[2];
  bool align, half;
};

Sizes Checked(Node& n) {
  const Value x = n.In(0, 4);
  const std::vector<int64_t> size = n.Ints(1, "the size");
  if (size.size() != 2 || size[0] < 1 || size[1] < 1) Damaged("%zu new sizes", size.size());
  const bool align = n.Flag("AlignCorners"), half = n.Flag("HalfPixelCenters");
  return {x, {Dim(size[0]), Dim(size[1])}, align, half};
}

Value Resized(Node& n, const char* type, const Sizes& s, uint32_t height, uint32_t width) {
  return n.Op(type, {s.x}, {s.x.dims[0], height, width, s.x.dims[3]},
              {Flag("align_corners", s.align), Flag("half_pixel_centers", s.half)});
}

void ResizeBilinear(Node& n) {
  const Sizes s = Checked(n);
  if (s.align && s.half) Damaged("align_corners and half_pixel_centers exclude each other");
  n.Set(0, Resized(n, "ResizeBilinear", s, s.size[0], s.size[1]));
}

// The source of each pixel as QNN's operation defines it, in whole numbers.
std::vector<int32_t> ExactSources(int64_t size, int64_t out, bool align, bool half) {
  std::vector<int32_t> found;
  const int64_t steps = std::max<int64_t>(out - 1, 1);
  for (int64_t to = 0; to < out; ++to) {
    const int64_t at = align ? (2 * to * (size - 1) + steps) / (2 * steps)
                             : (2 * to + (half ? 1 : 0)) * size / (2 * out);
    found.push_back(static_cast<int32_t>(std::min(at, size - 1)));
  }
  return found;
}

// The same as TFLite computes it: in single floats, or for bytes in 16 bits behind the point.
std::vector<int32_t> TfliteSources(int64_t size, int64_t out, bool align, bool half, bool bytes) {
  std::vector<int32_t> found;
  const int64_t corners = align && out > 1 ? 1 : 0;
  const float scale = static_cast<float>(size - corners) / static_cast<float>(out - corners);
  for (int64_t to = 0; to < out; ++to) {
    int64_t at;
    if (bytes && !align && !half) {
      at = to * ((size << 16) / out + 1) >> 16;
    } else {
      const float position = (static_cast<float>(to) + (half ? 0.5F : 0.0F)) * scale;
      at = static_cast<int64_t>(std::floor(position));
      if (align && position - std::floor(position) >= 0.5F) ++at;
    }
    found.push_back(static_cast<int32_t>(std::clamp<int64_t>(at, 0, size - 1)));
  }
  return found;
}

// TFLite's coordinates are single floats: for one pair of sizes in a hundred, a pixel beside the
// exact one is taken. Those dimensions are gathered, so that the results are TFLite's. So are both
// where corners are aligned and pixels have centers, which QNN's operation excludes.
void ResizeNearest(Node& n) {
  const Sizes s = Checked(n);
  Value x = s.x;
  const bool bytes = ElementBytes(n.type(x)) == 1;
  uint32_t exact[2] = {s.size[0], s.size[1]};
  std::vector<int32_t> gathered[2];
  for (int d = 0; d < 2; ++d) {
    const uint32_t before = x.dims[1 + d];
    n.Spend({s.size[d]}, 64, "the coordinates");
    std::vector<int32_t> sources = TfliteSources(before, s.size[d], s.align, s.half, bytes);
    const bool both = s.align && s.half;
    if (!both && sources == ExactSources(before, s.size[d], s.align, s.half)) continue;
    exact[d] = before;
    gathered[d] = std::move(sources);
  }
  if (gathered[0].empty() || gathered[1].empty())
    x = Resized(n, "ResizeNearestNeighbor", s, exact[0], exact[1]);
  for (int d = 0; d < 2; ++d) {
    if (gathered[d].empty()) continue;
    const Value index = n.Constant({s.size[d]}, QNN_DATATYPE_INT_32, gathered[d].data());
    x = Take(n, x, index, 1 + d);
  }
  n.Set(0, x);
}

}  // namespace

Value Take(Node& n, const Value& x, const Value& at, uint32_t axis) {
  const Value index = Index(n, at);
  const Value flat = n.Reshape(index, Physical(index.dims));
  auto around = [&](const Dims& middle) {
    Dims dims(x.dims.begin(), x.dims.begin() + axis);
    dims.insert(dims.end(), middle.begin(), middle.end());
    dims.insert(dims.end(), x.dims.begin() + axis + 1, x.dims.end());
    return dims;
  };
  const Value out =
      n.Op("Gather", {x, flat}, around(flat.dims), {I32("axis", static_cast<int32_t>(axis))});
  return n.Reshape(out, around(index.dims));
}

Value BlockAt(Node& n, const Value& x, const Dims& sizes, const Value& start) {
  if (sizes == x.dims) return x;
  const Block block = BlockOf(n, x, sizes, start);
  const Value flat =
      n.Reshape(x, {Dim(static_cast<int64_t>(Elements(x.dims) / block.row)), block.row});
  return n.Reshape(Take(n, flat, block.rows, 0), sizes);
}

std::vector<Operator> GatherOperators() {
  const Fixed own = Fixed::kOwn, floats = Fixed::kFloats;
  const Delegated not_fixed = Delegated::kNotFixed, none = Delegated::kNone;
  return {
      {7, "EMBEDDING_LOOKUP", EmbeddingLookup, "Gather"},
      {23, "RESIZE_BILINEAR", ResizeBilinear, "ResizeBilinear", "ResizeBilinearOptions"},
      {36, "GATHER", Gather, "Gather, GatherNd", "GatherOptions"},
      {68, "SPARSE_TO_DENSE", SparseToDense, "ScatterNd", "", floats},
      {85, "ONE_HOT", OneHot, "OneHot", "OneHotOptions"},
      {97, "RESIZE_NEAREST_NEIGHBOR", ResizeNearest, "ResizeNearestNeighbor, Gather",
       "ResizeNearestNeighborOptions"},
      {107, "GATHER_ND", GatherNd, "GatherNd"},
      {112, "REVERSE_SEQUENCE", ReverseSequence, "GatherNd", "ReverseSequenceOptions", own, none},
      {113, "MATRIX_DIAG", MatrixDiag, "ElementWiseSelect", "", floats, not_fixed},
      {115, "MATRIX_SET_DIAG", MatrixSetDiag, "ElementWiseSelect"},
      {122, "SCATTER_ND", ScatterNd, "ScatterNd", "", floats, not_fixed},
      {125, "SEGMENT_SUM", SegmentSum, "ScatterNd", "", floats, none, "constant segment ids"},
      {151, "DYNAMIC_UPDATE_SLICE", DynamicUpdateSlice, "ElementWiseSelect, ScatterNd", "", own,
       none},
      {153, "UNSORTED_SEGMENT_PROD", UnsortedSegment, "ScatterNd", "", floats, none},
      {154, "UNSORTED_SEGMENT_MAX", UnsortedSegment, "ScatterNd", "", floats, none},
      {155, "UNSORTED_SEGMENT_SUM", UnsortedSegment, "ScatterNd", "", floats, none},
      {157, "UNSORTED_SEGMENT_MIN", UnsortedSegment, "ScatterNd", "", floats, none},
  };
}

}  // namespace qnnrt::tflite
