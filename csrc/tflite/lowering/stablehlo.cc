// StableHLO's gather, scatter and reduction over windows, and TFLite's own form of the last. Which
// numbers the latter two join, and how, a subgraph says in the file: importers read it, and give it
// as the option "Computation".
#include <algorithm>
#include <limits>

#include "tflite/lowering/lowering.h"

namespace qnnrt::tflite {
namespace {

// Numbers of dimensions, each below `rank`, each once.
std::vector<uint32_t> Dimensions(Node& n, const char* option, size_t rank) {
  std::vector<uint32_t> found;
  for (int64_t d : n.List<int64_t>(option)) {
    if (d < 0 || d >= static_cast<int64_t>(rank) ||
        std::count(found.begin(), found.end(), static_cast<uint32_t>(d)) != 0)
      Damaged("%lld in %s of %zu dimensions", static_cast<long long>(d), option, rank);
    found.push_back(static_cast<uint32_t>(d));
  }
  return found;
}

// Dimensions below `rank`, those in `last` behind the others.
std::vector<uint32_t> Behind(uint32_t rank, const std::vector<uint32_t>& last) {
  std::vector<uint32_t> order;
  for (uint32_t d = 0; d < rank; ++d) {
    if (std::count(last.begin(), last.end(), d) == 0) order.push_back(d);
  }
  order.insert(order.end(), last.begin(), last.end());
  return order;
}

// The numbers of each row of indices beside each other: int32, [rows, parts]. `vector`: the
// dimension along which a row lies, or the rank.
Value IndexRows(Node& n, const Value& index, uint32_t vector, uint32_t parts) {
  Value at = n.Cast(index, QNN_DATATYPE_INT_32);
  if (vector < index.rank()) at = n.Transpose(at, Behind(at.rank(), {vector}));
  return n.Reshape(at, {static_cast<uint32_t>(Elements(at.dims) / parts), parts});
}

// ---- Gather ----

// What StableHLO says of a gather, checked: which part of `x` each row of indices names.
struct Slices {
  std::vector<uint32_t> collapsed, map, sizes;
  std::vector<uint32_t> offsets;  // dimensions of the result that go through a window
  uint32_t vector;                // the dimension of the indices along which a row lies
};

Slices SlicesOf(Node& n, const Value& x, const Value& index) {
  Slices w;
  w.collapsed = Dimensions(n, "CollapsedSliceDims", x.rank());
  w.map = Dimensions(n, "StartIndexMap", x.rank());
  const std::vector<int64_t> sizes = n.List<int64_t>("SliceSizes");
  bool damaged = sizes.size() != x.rank() || w.collapsed.size() > x.rank();
  for (uint32_t d = 0; d < x.rank() && !damaged; ++d) {
    const bool one = std::count(w.collapsed.begin(), w.collapsed.end(), d) != 0;
    damaged = sizes[d] < 1 || sizes[d] > x.dims[d] || (one && sizes[d] != 1);
    if (!damaged) w.sizes.push_back(static_cast<uint32_t>(sizes[d]));
  }
  const int64_t vector = n.Integer("IndexVectorDim");
  damaged = damaged || vector < 0 || vector > index.rank();
  const uint32_t row = damaged                  ? 0
                       : vector == index.rank() ? 1
                                                : index.dims[static_cast<size_t>(vector)];
  if (damaged || row != w.map.size() || w.map.empty())
    Damaged("slices of %zu sizes of %s at %s", sizes.size(), Text(x.dims).c_str(),
            Text(index.dims).c_str());
  w.vector = static_cast<uint32_t>(vector);
  const size_t batch = index.rank() - (w.vector == index.rank() ? 0 : 1);
  const size_t inner = x.rank() - w.collapsed.size();
  w.offsets = Dimensions(n, "OffsetDims", batch + inner);
  if (w.offsets.size() != inner)
    Damaged("%zu offset dimensions for slices of %zu", w.offsets.size(), inner);
  return w;
}

// Where each window begins in the elements of `x`, counted in `unit`s: one number for each row of
// indices. Windows that would reach beyond `x` are moved into it.
Value Starts(Node& n, const Value& x, Value index, const Slices& w,
             const std::vector<uint32_t>& strides, uint32_t unit) {
  const auto parts = static_cast<uint32_t>(w.map.size());
  index = IndexRows(n, index, w.vector, parts);
  std::vector<int32_t> last, step;
  for (uint32_t d : w.map) {
    last.push_back(static_cast<int32_t>(x.dims[d] - w.sizes[d]));
    step.push_back(static_cast<int32_t>(strides[d] / unit));
  }
  const int32_t zero = 0;
  const Value first = n.Constant({1, 1}, QNN_DATATYPE_INT_32, &zero);
  const Value most = n.Constant({1, parts}, QNN_DATATYPE_INT_32, last.data());
  const Value by = n.Constant({1, parts}, QNN_DATATYPE_INT_32, step.data());
  index = n.Nary("ElementWiseMaximum", {n.Nary("ElementWiseMinimum", {index, most}), first});
  index = n.Multiply(index, by);
  Value sum = CutAlong(n, index, 1, 0, 1);
  for (uint32_t k = 1; k < parts; ++k) sum = n.Add(sum, CutAlong(n, index, 1, k, k + 1));
  return sum;
}

void StablehloGather(Node& n) {
  const Value x = n.In(0), index = n.In(1);
  if (x.rank() == 0) Damaged("a scalar has nothing to gather");
  if (!n.whole(index)) Damaged("indices of %s", TypeName(n.type(index)).c_str());
  const Slices w = SlicesOf(n, x, index);
  const uint64_t all = Elements(x.dims), window = Elements(w.sizes);
  if (all > INT32_MAX) Unsupported("%llu elements", static_cast<unsigned long long>(all));
  std::vector<uint32_t> strides(x.rank(), 1);
  for (uint32_t d = x.rank() - 1; d-- > 0;) strides[d] = strides[d + 1] * x.dims[d + 1];
  // Windows that lie in one piece, at multiples of their size, are rows.
  bool whole = true;
  for (uint32_t d = 0; d < x.rank(); ++d) {
    const bool named = std::count(w.map.begin(), w.map.end(), d) != 0;
    whole = whole && (w.sizes[d] == x.dims[d] || (w.sizes[d] == 1 && window <= strides[d])) &&
            (!named || strides[d] % window == 0 || w.sizes[d] == x.dims[d]);
  }
  const auto row = static_cast<uint32_t>(whole ? window : 1);
  Value at = Starts(n, x, index, w, strides, row);
  const uint32_t count = at.dims[0];
  if (!whole) {
    n.Spend({Dim(static_cast<int64_t>(window))}, sizeof(int32_t), "the places of a window");
    std::vector<int32_t> places(window);
    for (uint64_t i = 0; i < window; ++i) {
      uint64_t left = i, place = 0;
      for (uint32_t d = x.rank(); d-- > 0; left /= w.sizes[d])
        place += left % w.sizes[d] * strides[d];
      places[i] = static_cast<int32_t>(place);
    }
    const Value inside =
        n.Constant({1, Dim(static_cast<int64_t>(window))}, QNN_DATATYPE_INT_32, places.data());
    at = n.Add(at, inside);
  }
  const Value flat = n.Reshape(x, {Dim(static_cast<int64_t>(all / row)), row});
  const Value found =
      Take(n, flat, n.Reshape(at, {Dim(static_cast<int64_t>(Elements(at.dims)))}), 0);
  // The rows of indices first, then the windows; the result has them where it wants.
  Dims dims;
  for (uint32_t d = 0; d < index.rank(); ++d) {
    if (d != w.vector) dims.push_back(index.dims[d]);
  }
  const auto batch = static_cast<uint32_t>(dims.size());
  for (uint32_t d = 0; d < x.rank(); ++d) {
    if (std::count(w.collapsed.begin(), w.collapsed.end(), d) == 0) dims.push_back(w.sizes[d]);
  }
  if (uint64_t{count} * window != Elements(dims)) Damaged("slices of %s", Text(x.dims).c_str());
  std::vector<uint32_t> order;
  uint32_t rows = 0, inner = 0;
  for (uint32_t d = 0; d < dims.size(); ++d) {
    const bool through = std::count(w.offsets.begin(), w.offsets.end(), d) != 0;
    order.push_back(through ? batch + inner++ : rows++);
  }
  n.Set(0, n.Transpose(n.Reshape(found, dims), order));
}

// What a subgraph of one operation does with what is there and what comes.
enum Join : int64_t {
  kReplace = 0,
  kSum = 1,
  kProduct = 2,
  kLeast = 3,
  kGreatest = 4,
  kAll = 5,
  kAny = 6
};

// ---- Scatter ----

struct Windows {
  std::vector<uint32_t> window, map;  // dimensions of the updates; of the input that indices name
  Dims sizes;                         // of a window, for each dimension of the input
  uint32_t vector;                    // the dimension of the indices along which a row lies
};

Windows WindowsOf(Node& n, const Value& x, const Value& index, const Value& updates) {
  Windows w;
  const std::vector<uint32_t> inserted = Dimensions(n, "InsertedWindowDims", x.rank());
  w.window = Dimensions(n, "UpdateWindowDims", updates.rank());
  w.map = Dimensions(n, "ScatterDimsToOperandDims", x.rank());
  std::sort(w.window.begin(), w.window.end());
  const int64_t vector = n.Integer("IndexVectorDim");
  bool damaged = vector < 0 || vector > index.rank() || w.map.empty() ||
                 w.window.size() + inserted.size() != x.rank();
  size_t next = 0;
  for (uint32_t d = 0; d < x.rank() && !damaged; ++d) {
    const bool one = std::count(inserted.begin(), inserted.end(), d) != 0;
    w.sizes.push_back(one ? 1 : updates.dims[w.window[next++]]);
    damaged = w.sizes[d] > x.dims[d];
  }
  Dims rows = index.dims, outer;
  if (!damaged) {
    w.vector = static_cast<uint32_t>(vector);
    const uint32_t parts = w.vector == index.rank() ? 1 : index.dims[w.vector];
    if (w.vector < index.rank()) rows.erase(rows.begin() + w.vector);
    for (uint32_t d = 0; d < updates.rank(); ++d) {
      if (std::count(w.window.begin(), w.window.end(), d) == 0) outer.push_back(updates.dims[d]);
    }
    damaged = parts != w.map.size() || outer != rows;
  }
  if (damaged)
    Damaged("updates %s at %s of %s", Text(updates.dims).c_str(), Text(index.dims).c_str(),
            Text(x.dims).c_str());
  return w;
}

// Numbers in the opposite order, the least and the greatest one exchanged: -x or -1 - x.
Value Reversed(Node& n, const Value& x) {
  if (n.floating(x)) return n.Op("ElementWiseNeg", {x}, x.dims);
  return n.Nary("ElementWiseSubtract", {n.Scalar(-1, x), x});
}

// Where each row of each window goes among the rows of the flat input: int32, [count, window]. What
// would lie beyond the input goes to one row more, `all`.
Value PlacesOf(Node& n, const Value& x, const Value& index, const Windows& w, uint32_t outer,
               uint32_t window, uint32_t all) {
  std::vector<int32_t> step(x.rank(), 1);
  for (uint32_t d = outer; d-- > 1;) step[d - 1] = step[d] * static_cast<int32_t>(x.dims[d]);
  n.Spend({window, Dim(int64_t{outer} + 1)}, sizeof(int32_t), "the places of a window");
  std::vector<std::vector<int32_t>> within(outer, std::vector<int32_t>(window));
  std::vector<int32_t> fixed(window, 0);  // along the dimensions that no index names
  for (uint32_t i = 0; i < window; ++i) {
    uint32_t left = i;
    for (uint32_t d = outer; d-- > 0; left /= w.sizes[d]) {
      within[d][i] = static_cast<int32_t>(left % w.sizes[d]);
      if (std::count(w.map.begin(), w.map.end(), d) == 0) fixed[i] += within[d][i] * step[d];
    }
  }
  const auto number = [&](int32_t value) {
    return n.Constant({1, 1}, QNN_DATATYPE_INT_32, &value);
  };
  const auto between = [&](const Value& v, int32_t low, int32_t high) {
    const Value below = n.Nary("ElementWiseMinimum", {v, number(high)});
    return n.Nary("ElementWiseMaximum", {below, number(low)});
  };
  const auto parts = static_cast<uint32_t>(w.map.size());
  const Value at = IndexRows(n, index, w.vector, parts);
  Value sum = n.Constant({1, window}, QNN_DATATYPE_INT_32, fixed.data()), inside;
  for (uint32_t k = 0; k < parts; ++k) {
    const uint32_t d = w.map[k];
    const auto size = static_cast<int32_t>(x.dims[d]);
    const Value offset = n.Constant({1, window}, QNN_DATATYPE_INT_32, within[d].data());
    // Far outside is as much outside, and the sum has 32 bits.
    const Value start = between(CutAlong(n, at, 1, k, k + 1), -size, size);
    const Value place = n.Add(start, offset), near = between(place, 0, size - 1);
    const Value fits = n.Compare("ElementWiseEqual", {place, near});
    inside = k == 0 ? fits : n.Compare("ElementWiseAnd", {inside, fits});
    sum = n.Add(n.Multiply(near, number(step[d])), sum);
  }
  return n.Select(inside, sum, number(static_cast<int32_t>(all)));
}

// Rows are what lies in one piece of a window and cannot be moved.
void StablehloScatter(Node& n) {
  const Value x = n.In(0), index = n.In(1), updates = n.In(2);
  if (n.inputs() != 3) Unsupported("several inputs at once");
  if (x.rank() == 0) Damaged("a scalar has no places");
  if (!n.whole(index)) Damaged("indices of %s", TypeName(n.type(index)).c_str());
  if (n.type(x) == QNN_DATATYPE_BOOL_8) Unsupported("booleans");
  const int64_t join = n.Integer("Computation");
  if (join > kGreatest) Unsupported("a computation on booleans");
  const Windows w = WindowsOf(n, x, index, updates);
  const uint64_t elements = Elements(x.dims);
  if (elements >= INT32_MAX || elements == 0 || Elements(updates.dims) == 0)
    Unsupported("%llu elements", static_cast<unsigned long long>(elements));

  uint32_t outer = x.rank(), row = 1;
  const auto named = [&](uint32_t d) { return std::count(w.map.begin(), w.map.end(), d) != 0; };
  while (outer > 0 && w.sizes[outer - 1] == x.dims[outer - 1] && !named(outer - 1))
    row *= w.sizes[--outer];
  const auto all = static_cast<uint32_t>(Elements(x.dims) / row);
  const auto window = static_cast<uint32_t>(Elements(w.sizes) / row);
  const Value at = PlacesOf(n, x, index, w, outer, window, all);
  const uint32_t rows = Dim(static_cast<int64_t>(Elements(at.dims)));
  Value flat = Padded(n, n.Reshape(x, {all, row}), {0, 1, 0, 0}, 0);
  Value values = n.Transpose(updates, Behind(updates.rank(), w.window));
  values = n.Reshape(values, {rows, row});
  if (join == kLeast) {
    flat = Reversed(n, flat);
    values = Reversed(n, values);
  }
  const uint32_t reduction = join == kReplace ? 0 : join == kSum ? 1 : join == kProduct ? 2 : 3;
  Value made = n.Op("ScatterNd", {flat, n.Reshape(at, {rows, 1}), values}, flat.dims,
                    {U32("reduction", reduction)});
  made = CutAlong(n, made, 0, 0, all);
  if (join == kLeast) made = Reversed(n, made);
  n.Set(0, n.Reshape(made, x.dims));
}

// ---- Reduction over windows ----

struct Joining {
  const char* pair;   // the operation on two tensors
  const char* whole;  // and along a dimension; null: there is none
};

Joining JoiningOf(int64_t join) {
  switch (join) {
    case kSum:
      return {"ElementWiseAdd", "ReduceSum"};
    case kProduct:
      return {"ElementWiseMultiply", "ReduceProd"};
    case kLeast:
      return {"ElementWiseMinimum", "ReduceMin"};
    case kGreatest:
      return {"ElementWiseMaximum", "ReduceMax"};
    case kAll:
      return {"ElementWiseAnd", nullptr};
    case kAny:
      return {"ElementWiseOr", nullptr};
    default:
      Unsupported("a computation that is not one operation on both values");
  }
}

struct Window {
  int64_t size, stride, dilation;
};

constexpr int64_t kFew = 64;  // elements of a window that are joined one by one

// Along one dimension. Windows of 2^i elements come from two of half the size.
Value Slid(Node& n, Value x, uint32_t d, const Window& w, const Joining& join) {
  const int64_t reach = (w.size - 1) * w.dilation, places = int64_t{x.dims[d]} - reach;
  if (places < 1)
    Unsupported("a window of %lld in %s, which has no place", static_cast<long long>(reach + 1),
                Text(x.dims).c_str());
  const int64_t out = (places - 1) / w.stride + 1;
  const auto cut = [&](const Value& v, int64_t begin, int64_t count, int64_t stride) {
    std::vector<Range> ranges;
    for (uint32_t size : v.dims) ranges.push_back({0, size, 1});
    ranges[d] = {begin, begin + (count - 1) * stride + 1, stride};
    return Cut(n, v, ranges);
  };
  if (w.size == 1) return cut(x, 0, out, w.stride);
  if (out == 1 && join.whole != nullptr) {
    Dims dims = x.dims;
    dims[d] = 1;
    return n.Op(join.whole, {cut(x, 0, w.size, w.dilation)}, dims,
                {U32s("axes", {d}, {1}), Flag("keep_dims", true)});
  }
  if (w.size <= std::min<int64_t>(2 * w.stride, kFew)) {  // few places for each element
    Value sum = cut(x, 0, out, w.stride);
    for (int64_t i = 1; i < w.size; ++i)
      sum = n.Nary(join.pair, {sum, cut(x, i * w.dilation, out, w.stride)});
    return sum;
  }
  Value sum;
  int64_t length = 0;
  for (int64_t size = 1; size <= w.size; size *= 2) {
    if (size > 1) {
      const int64_t count = int64_t{x.dims[d]} - size / 2 * w.dilation;
      x = n.Nary(join.pair, {cut(x, 0, count, 1), cut(x, size / 2 * w.dilation, count, 1)});
    }
    if ((w.size & size) == 0) continue;
    if (length == 0) {
      sum = x;
    } else {
      const int64_t count = int64_t{x.dims[d]} - length * w.dilation;
      sum = n.Nary(join.pair, {cut(sum, 0, count, 1), cut(x, length * w.dilation, count, 1)});
    }
    length += size;
  }
  return cut(sum, 0, out, w.stride);
}

// Whether joining with it changes nothing.
bool Neutral(int64_t join, double value, bool floating) {
  const double most =
      floating ? double{std::numeric_limits<float>::max()} : std::numeric_limits<int32_t>::max();
  switch (join) {
    case kSum:
    case kAny:
      return value == 0;
    case kProduct:
    case kAll:
      return value == 1;
    case kLeast:
      return value >= most;
    default:
      return value <= -most;
  }
}

std::vector<int64_t> PerDimension(Node& n, const char* option, size_t count, int64_t otherwise) {
  std::vector<int64_t> found = n.List<int64_t>(option);
  if (found.empty()) found.assign(count, otherwise);
  if (found.size() != count) Damaged("%zu numbers in %s", found.size(), option);
  return found;
}

void ReduceWindow(Node& n) {
  Value x = n.In(0);
  const bool own = n.Is("REDUCE_WINDOW");  // its windows are inputs, its computation is a number
  const uint32_t rank = x.rank();
  if (n.inputs() != (own ? 5 : 2)) Unsupported("several inputs at once");
  const int64_t join = n.Integer(own ? "ReduceFunction" : "Computation");
  const Joining joining = JoiningOf(join);
  n.NeedConstant(1, "the first value");
  const double first = n.Element(n.In(1), "the first value");
  std::vector<int64_t> size, stride, dilation;
  if (own) {
    size = n.Ints(2, "the size of a window");
    stride = n.Ints(3, "the strides");
    dilation = n.Ints(4, "the dilations");
  } else {
    size = PerDimension(n, "WindowDimensions", rank, 1);
    stride = PerDimension(n, "WindowStrides", rank, 1);
    dilation = PerDimension(n, "WindowDilations", rank, 1);
    x = Spread(n, x, PerDimension(n, "BaseDilations", rank, 1), first);
    const std::vector<int64_t> pads = PerDimension(n, "Padding", 2 * size_t{rank}, 0);
    std::vector<uint32_t> more;
    std::vector<Range> ranges;
    for (uint32_t d = 0; d < rank; ++d) {
      for (uint32_t k = 0; k < 2; ++k) more.push_back(Dim(std::max<int64_t>(pads[2 * d + k], 0)));
      if (std::min(pads[2 * d], pads[2 * d + 1]) < -INT32_MAX) Damaged("a padding beyond 32 bits");
      const int64_t begin = -std::min<int64_t>(pads[2 * d], 0);
      const int64_t end = int64_t{x.dims[d]} + std::min<int64_t>(pads[2 * d + 1], 0);
      if (begin >= end) Unsupported("a padding that leaves nothing of %s", Text(x.dims).c_str());
      ranges.push_back({begin, end, 1});
    }
    x = Padded(n, Cut(n, x, ranges), more, first);
  }
  if (size.size() != rank || stride.size() != rank || dilation.size() != rank)
    Damaged("windows of %zu dimensions over %s", size.size(), Text(x.dims).c_str());
  for (uint32_t d = 0; d < rank; ++d) {
    const Window w = {size[d], stride[d], dilation[d]};
    const int64_t most = std::max({w.size, w.stride, w.dilation});
    if (std::min({w.size, w.stride, w.dilation}) < 1 || most > INT32_MAX)
      Damaged("a window of %lld, %lld apart", static_cast<long long>(w.size),
              static_cast<long long>(w.stride));
    x = Slid(n, x, d, w, joining);
  }
  if (!Neutral(join, first, n.floating(x)))
    x = n.Nary(joining.pair, {x, n.Scalar(static_cast<float>(first), x)});
  n.Set(0, x);
}

}  // namespace

std::vector<Operator> StablehloOperators() {
  const char* const note = "one input; a computation of one operation";
  const char* const joined = "ElementWiseAdd and its like, ReduceSum and its like, StridedSlice";
  return {
      {190, "STABLEHLO_SCATTER", StablehloScatter, "ScatterNd", "StablehloScatterOptions",
       Fixed::kFloats, Delegated::kNone, note},
      {201, "STABLEHLO_GATHER", StablehloGather, "Gather", "StablehloGatherOptions", Fixed::kOwn,
       Delegated::kNone},
      {198, "STABLEHLO_REDUCE_WINDOW", ReduceWindow, joined, "StablehloReduceWindowOptions",
       Fixed::kFloats, Delegated::kNone, note},
      {205, "REDUCE_WINDOW", ReduceWindow, joined, "ReduceWindowOptions", Fixed::kFloats,
       Delegated::kNone},
  };
}

}  // namespace qnnrt::tflite
