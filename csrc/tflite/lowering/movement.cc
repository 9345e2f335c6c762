// Moving elements: reshape, transpose, concatenation, splitting, tiling; shapes as constants.
#include <algorithm>
#include <set>

#include "tflite/lowering/lowering.h"

namespace qnnrt::tflite {
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

Value Tiled(Node& n, const Value& x, const std::vector<uint32_t>& times) {
  Dims dims = x.dims;
  for (size_t d = 0; d < dims.size(); ++d) dims[d] = Dim(int64_t{dims[d]} * times[d]);
  if (Elements(dims) == 0) return n.Constant(dims, n.type(x), nullptr, n.encoding(x));
  return dims == x.dims ? x : n.Op("Tile", {x}, dims, {U32s("multiples", times)});
}

// Constants of fixed-point numbers here; all others where constants are folded.
void Fill(Node& n) {
  const Dims dims = n.Shape(0);
  const Value value = n.In(1);
  if (Elements(value.dims) != 1)
    Damaged("%llu values for %s", static_cast<unsigned long long>(Elements(value.dims)),
            Text(dims).c_str());
  n.Set(0, n.constant(value)
               ? n.Filled(dims, n.type(value), n.data(value), "the result", n.encoding(value))
               : Repeated(n, value, dims));
}

// A sparse constant, which importers have made dense.
void Densify(Node& n) {
  n.NeedConstant(0, "what it makes dense");
  n.Set(0, n.In(0));
}

// The new shape: input 1 when there is one, else the options'; one -1 is worked out.
void ReshapeTo(Node& n) {
  const Value x = n.In(0);
  std::vector<int64_t> wanted;
  if (n.has(1) && n.view().inputs[1].dims.size() <= 1) {
    wanted = n.Ints(1, "the new shape");
  } else {
    wanted = n.List<int64_t>("NewShape");
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
  if (damaged) Damaged("its new shape is %s", Text(wanted).c_str());
  const uint64_t size = Elements(x.dims);
  if (open != nullptr) {
    const uint64_t known = Elements(rest);
    if (known == 0 || size % known != 0)
      Damaged("%s cannot become %s", Text(x.dims).c_str(), Text(wanted).c_str());
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
  for (int64_t d : n.List<int64_t>("SqueezeDims")) named.insert(Axis(d, x.rank()));
  Dims dims;
  for (uint32_t d = 0; d < x.rank(); ++d) {
    const bool removed = named.empty() ? x.dims[d] == 1 : named.count(d) != 0;
    if (removed && x.dims[d] != 1)
      Damaged("it removes dimension %u of %s, which is not of size 1", d, Text(x.dims).c_str());
    if (!removed) dims.push_back(x.dims[d]);
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
  if (parts.empty()) parts.push_back(values[0]);
  n.Set(0, n.Fused(parts.size() == 1 ? n.Op("Reshape", parts, out)
                                     : n.Op("Concat", parts, out, {U32("axis", axis)})));
}

std::vector<Value> Parts(Node& n, const Value& x, const std::vector<int64_t>& sizes,
                         uint32_t axis) {
  if (x.rank() == 0) Damaged("a scalar in parts");
  int64_t at = 0;
  bool damaged = sizes.empty();
  std::vector<std::pair<Dims, Qnn_DataType_t>> outputs;  // those with elements
  std::vector<uint32_t> starts;
  for (int64_t size : sizes) {
    damaged = damaged || size < 0 || size > x.dims[axis] - at;
    if (damaged) break;
    if (size == 0) continue;
    Dims dims = x.dims;
    dims[axis] = static_cast<uint32_t>(size);
    outputs.push_back({dims, n.type(x)});
    if (at > 0) starts.push_back(static_cast<uint32_t>(at));
    at += size;
  }
  if (damaged || at != x.dims[axis])
    Damaged("dimension %u of %s in parts of %s", axis, Text(x.dims).c_str(), Text(sizes).c_str());
  std::vector<Value> parts;
  if (n.constant(x) && n.encoding(x).none()) {
    at = 0;
    for (int64_t size : sizes) {
      parts.push_back(CutAlong(n, x, axis, at, at + size));
      at += size;
    }
    return parts;
  }
  const std::vector<Value> found =
      outputs.size() == 1
          ? std::vector<Value>{n.Op("Reshape", {x}, x.dims)}
          : n.Ops("Split", {x}, outputs, {U32("axis", axis), U32s("split_index", starts)});
  auto next = found.begin();
  for (int64_t size : sizes) {
    Dims none = x.dims;
    none[axis] = 0;
    parts.push_back(size > 0 ? *next++ : n.Constant(none, n.type(x), nullptr));
  }
  return parts;
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
      if (s < -1 || s > INT32_MAX) Damaged("sizes of %s", Text(sizes).c_str());
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

void Tile(Node& n) {
  const Value x = n.In(0);
  const std::vector<int64_t> given = n.Ints(1, "the multiples");
  std::vector<uint32_t> times;
  for (int64_t t : given) times.push_back(Dim(t));
  if (times.size() != x.rank()) Damaged("%s times %s", Text(x.dims).c_str(), Text(given).c_str());
  n.Set(0, Tiled(n, x, times));
}

void BroadcastTo(Node& n) {
  Value x = n.In(0);
  const Dims to = n.Shape(1);
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

}  // namespace

Value Repeated(Node& n, const Value& x, const Dims& dims) {
  return Tiled(n, n.Reshape(x, Dims(dims.size(), 1)), dims);
}

std::vector<Operator> MovementOperators() {
  const Fixed own = Fixed::kOwn;
  const Delegated none = Delegated::kNone;
  const char* const folded = "folded into constants";
  return {
      {2, "CONCATENATION", Concat, "Concat", "ConcatenationOptions"},
      {22, "RESHAPE", ReshapeTo, "Reshape", "ReshapeOptions"},
      {39, "TRANSPOSE", Transpose, "Transpose"},
      {43, "SQUEEZE", Squeeze, "Reshape", "SqueezeOptions"},
      {49, "SPLIT", Split, "Split", "SplitOptions"},
      {69, "TILE", Tile, "Tile"},
      {70, "EXPAND_DIMS", ExpandDims, "Reshape"},
      {77, "SHAPE", Measure, folded, "", own, none},
      {83, "PACK", Pack, "Pack", "PackOptions"},
      {88, "UNPACK", Unpack, "UnPack", "UnpackOptions"},
      {94, "FILL", Fill, "Tile", "", own, none},
      {96, "RANGE", OnlyConstants, folded, "", own, none},
      {102, "SPLIT_V", SplitV, "Split"},
      {110, "RANK", Measure, folded, "", own, none},
      {124, "DENSIFY", Densify, folded, "", own, none},
      {130, "BROADCAST_TO", BroadcastTo, "Tile"},
      {145, "BROADCAST_ARGS", OnlyConstants, folded, "", own, none},
  };
}

}  // namespace qnnrt::tflite
