// Selection by index, and resizing of images, which is one.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "tflite/lower.h"

namespace qnnrt::tflite {
namespace {

// `x` along `axis` at `index`, whose shape takes the place of the dimension.
Value Take(Node& n, const Value& x, const Value& index, uint32_t axis) {
  const Value flat = n.Reshape(n.Cast(index, QNN_DATATYPE_INT_32), Physical(index.dims));
  Dims dims(x.dims.begin(), x.dims.begin() + axis);
  dims.insert(dims.end(), flat.dims.begin(), flat.dims.end());
  dims.insert(dims.end(), x.dims.begin() + axis + 1, x.dims.end());
  return n.Op("Gather", {x, flat}, dims, {I32("axis", static_cast<int32_t>(axis))});
}

void Gather(Node& n) {
  const auto& p = n.params<GatherParams>();
  const Value x = n.In(0), index = n.In(1);
  const uint32_t axis = Axis(p.axis, x.rank());
  const int32_t given =
      p.batch_dims < 0 ? p.batch_dims + static_cast<int32_t>(index.rank()) : p.batch_dims;
  const auto batch = static_cast<uint32_t>(given);
  if (given == 0) {
    n.Set(0, Take(n, x, index, axis));
    return;
  }
  if (given < 0 || batch > axis || batch > index.rank()) Refuse("%d batch dimensions", given);
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
  const Value at = n.Reshape(n.Cast(index, QNN_DATATYPE_INT_32), single);
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

void EmbeddingLookup(Node& n) {
  const Value table = n.In(1);
  if (table.rank() == 0) Refuse("a table without rows");
  n.Set(0, Take(n, table, n.In(0), 0));
}

// A constant with this value everywhere.
Value Filled(Node& n, const Dims& dims, Qnn_DataType_t dtype, const void* element) {
  const uint32_t size = ElementBytes(dtype);
  std::vector<uint8_t> bytes(Elements(dims) * size);
  for (size_t at = 0; at < bytes.size(); at += size) std::memcpy(&bytes[at], element, size);
  return n.Constant(dims, dtype, bytes.data());
}

// Into zeros; what meets at one place is added.
void ScatterNd(Node& n) {
  const Value index = n.Cast(n.In(0), QNN_DATATYPE_INT_32), updates = n.In(1);
  const uint64_t zero = 0;
  if (n.type(updates) == QNN_DATATYPE_BOOL_8) Refuse("booleans");
  const Value zeros = Filled(n, n.OutDims(), n.type(updates), &zero);
  n.Set(0, n.OpOf("ScatterNd", {zeros, index, updates}, n.OutDims(), n.type(updates),
                  {U32("reduction", 1)}));
}

// Values at some places, one other value everywhere else.
void SparseToDense(Node& n) {
  Value index = n.Cast(n.In(0), QNN_DATATYPE_INT_32), values = n.In(2);
  const Value rest = n.In(3);
  const Dims out = n.OutDims();
  if (n.data(rest) == nullptr || Elements(rest.dims) != 1) Refuse("a default that is no constant");
  if (n.type(rest) != n.type(values)) Refuse("a default of another element type");
  if (index.rank() < 2) index = n.Reshape(index, {static_cast<uint32_t>(Elements(index.dims)), 1});
  const uint32_t count = index.dims[0];
  if (values.rank() == 0) values = n.Reshape(values, {1});
  if (values.dims[0] != count)
    values = n.Op("Tile", {values}, {count}, {U32s("multiples", {count})});
  const Value dense = Filled(n, out, n.type(values), n.data(rest));
  n.Set(0, n.OpOf("ScatterNd", {dense, index, values}, out, n.type(values), {U32("reduction", 0)}));
}

// True on the diagonal.
Value Diagonal(Node& n, uint32_t rows, uint32_t columns) {
  std::vector<uint8_t> on(size_t{rows} * columns, 0);
  for (uint32_t i = 0; i < std::min(rows, columns); ++i) on[size_t{i} * columns + i] = 1;
  return n.Constant({rows, columns}, QNN_DATATYPE_BOOL_8, on.data());
}

void MatrixDiag(Node& n) {
  const Value x = n.In(0);
  if (x.rank() == 0) Refuse("a scalar is no diagonal");
  Dims wide = x.dims;
  wide.push_back(1);
  const Value on = Diagonal(n, x.dims.back(), x.dims.back());
  n.Set(0, n.OpOf("ElementWiseSelect", {on, n.Reshape(x, wide), n.Scalar(0, x)}, n.OutDims(),
                  n.type(x)));
}

void MatrixSetDiag(Node& n) {
  const Value x = n.In(0), diagonal = n.In(1);
  if (x.rank() < 2 || diagonal.rank() + 1 != x.rank()) Refuse("a diagonal of another rank");
  const uint32_t rows = x.dims[x.rank() - 2], columns = x.dims.back();
  Dims wide = diagonal.dims;  // along rows or along columns: whichever it is as long as
  wide.insert(rows <= columns ? wide.end() : wide.end() - 1, 1);
  n.Set(0, n.OpOf("ElementWiseSelect", {Diagonal(n, rows, columns), n.Reshape(diagonal, wide), x},
                  x.dims, n.type(x)));
}

void OneHot(Node& n) {
  const Value index = n.Cast(n.In(0), QNN_DATATYPE_INT_32), on = n.In(2), off = n.In(3);
  const int64_t depth = n.Int(1, "the depth");
  const int32_t wanted = n.params<OneHotParams>().axis;
  const uint32_t axis = wanted == -1 ? index.rank() : Axis(wanted, index.rank() + 1);
  const Value given = n.Reshape(index, Physical(index.dims));
  if (depth < 1) Refuse("a depth of %lld", static_cast<long long>(depth));
  Dims dims = given.dims;
  dims.insert(dims.begin() + axis, static_cast<uint32_t>(depth));
  const Value hot = n.OpOf("OneHot", {given}, dims, QNN_DATATYPE_FLOAT_32,
                           {U32("depth", static_cast<uint32_t>(depth)), U32("axis", axis),
                            F32("on_value", 1), F32("off_value", 0)});
  const Value yes =
      n.OpOf("ElementWiseGreater", {hot, n.Scalar(0.5F, hot)}, dims, QNN_DATATYPE_BOOL_8);
  n.Set(0, n.OpOf("ElementWiseSelect", {yes, on, off}, dims, n.type(on)));
}

void GatherNd(Node& n) {
  const Value x = n.In(0), index = n.Cast(n.In(1), QNN_DATATYPE_INT_32);
  n.Set(0, n.Op("GatherNd", {x, index}, n.OutDims(), {U32("batch_dims", 0)}));
}

void ResizeBilinear(Node& n) {
  const auto& p = n.params<ResizeParams>();
  n.Set(0, n.Op("ResizeBilinear", {n.In(0, 4)}, n.OutDims(),
                {Flag("align_corners", p.align_corners != 0),
                 Flag("half_pixel_centers", p.half_pixel_centers != 0)}));
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

// The same as the runtime computes it: in single floats, or for bytes in 16 bits behind the point.
std::vector<int32_t> RuntimeSources(int64_t size, int64_t out, bool align, bool half, bool bytes) {
  std::vector<int32_t> found;
  const int64_t corners = align && out > 1 ? 1 : 0;
  const float scale = static_cast<float>(size - corners) / static_cast<float>(out - corners);
  for (int64_t to = 0; to < out; ++to) {
    int64_t at;
    if (bytes && !align && !half) {
      at = to * ((size << 16) / out + 1) >> 16;
    } else {
      const float place = (static_cast<float>(to) + (half ? 0.5F : 0.0F)) * scale;
      at = static_cast<int64_t>(std::floor(place));
      if (align && place - std::floor(place) >= 0.5F) ++at;
    }
    found.push_back(static_cast<int32_t>(std::clamp<int64_t>(at, 0, size - 1)));
  }
  return found;
}

// For one pair of sizes in a hundred the runtime takes a pixel beside the exact one: those
// dimensions are gathered, so that the results are the runtime's.
void ResizeNearest(Node& n) {
  const auto& p = n.params<ResizeParams>();
  Value x = n.In(0, 4);
  const Dims out = n.OutDims();
  const bool align = p.align_corners != 0, half = p.half_pixel_centers != 0;
  const bool bytes = ElementBytes(n.type(x)) == 1;
  Dims exact = out;
  std::vector<int32_t> gathered[2];
  for (uint32_t d = 1; d < 3; ++d) {
    std::vector<int32_t> sources = RuntimeSources(x.dims[d], out[d], align, half, bytes);
    if (sources == ExactSources(x.dims[d], out[d], align, half)) continue;
    exact[d] = x.dims[d];
    gathered[d - 1] = std::move(sources);
  }
  if (gathered[0].empty() || gathered[1].empty()) {
    x = n.Op("ResizeNearestNeighbor", {x}, exact,
             {Flag("align_corners", align), Flag("half_pixel_centers", half)});
  }
  for (uint32_t d = 1; d < 3; ++d) {
    if (gathered[d - 1].empty()) continue;
    const Value index = n.Constant({out[d]}, QNN_DATATYPE_INT_32, gathered[d - 1].data());
    x = Take(n, x, index, d);
  }
  n.Set(0, x);
}

}  // namespace

const std::vector<BuiltinRow>& GatherBuiltins() {
  static const std::vector<BuiltinRow> rows = {
      {7, {EmbeddingLookup, Fixed::kOwn, "EMBEDDING_LOOKUP"}},
      {23, {ResizeBilinear, Fixed::kOwn, "RESIZE_BILINEAR"}},
      {36, {Gather, Fixed::kOwn, "GATHER"}},
      {68, {SparseToDense, Fixed::kFloats, "SPARSE_TO_DENSE"}},
      {85, {OneHot, Fixed::kOwn, "ONE_HOT"}},
      {97, {ResizeNearest, Fixed::kOwn, "RESIZE_NEAREST_NEIGHBOR"}},
      {107, {GatherNd, Fixed::kOwn, "GATHER_ND"}},
      {113, {MatrixDiag, Fixed::kNever, "MATRIX_DIAG"}},
      {115, {MatrixSetDiag, Fixed::kOwn, "MATRIX_SET_DIAG"}},
      {122, {ScatterNd, Fixed::kNever, "SCATTER_ND"}},
  };
  return rows;
}

}  // namespace qnnrt::tflite
