// Reductions, positions of extremes, the largest elements.
#include <algorithm>
#include <set>

#include "tflite/lower.h"

namespace qnnrt::tflite {
namespace {

Value Reduced(Node& n, const char* type, const Value& x) {
  std::set<uint32_t> axes;
  for (int64_t a : n.Ints(1, "the axes")) axes.insert(Axis(a, x.rank()));
  const bool keep = n.params<ReduceParams>().keep_dims != 0;
  if (axes.empty() || x.rank() == 0) return n.Op("Reshape", {x}, x.dims);
  Dims kept, dims;
  for (uint32_t d = 0; d < x.rank(); ++d) {
    const bool gone = axes.count(d) != 0;
    kept.push_back(gone ? 1 : x.dims[d]);
    if (keep || !gone) dims.push_back(kept.back());
  }
  // QNN has no tensors of rank 0: a full reduction keeps its dimensions, then loses them.
  const bool full = dims.empty();
  const Value out =
      n.Op(type, {x}, full ? kept : dims,
           {U32s("axes", {axes.begin(), axes.end()}), Flag("keep_dims", keep || full)});
  return n.Reshape(out, dims);
}

void Reduce(Node& n) {
  const char* type = n.code == 40   ? "ReduceMean"
                     : n.code == 74 ? "ReduceSum"
                     : n.code == 81 ? "ReduceProd"
                     : n.code == 82 ? "ReduceMax"
                                    : "ReduceMin";
  n.Set(0, Reduced(n, type, n.In(0)));
}

// The greatest or the least of 0 and 1.
void ReduceBool(Node& n) {
  const Value numbers = n.Cast(n.In(0), QNN_DATATYPE_UINT_8);
  const Value found = Reduced(n, n.code == 91 ? "ReduceMax" : "ReduceMin", numbers);
  n.Set(0, n.Cast(found, QNN_DATATYPE_BOOL_8));
}

void ArgExtreme(Node& n) {
  const Value x = n.In(0);
  const uint32_t axis = Axis(n.Int(1, "the axis"), x.rank());
  Dims dims = x.dims, kept = x.dims;
  dims.erase(dims.begin() + axis);
  kept[axis] = 1;
  const bool full = dims.empty();
  const Value out = n.OpOf(n.code == 56 ? "Argmax" : "Argmin", {x}, full ? kept : dims,
                           QNN_DATATYPE_INT_32, {U32("axis", axis), Flag("keep_dims", full)});
  n.Set(0, n.Cast(n.Reshape(out, dims), n.OutType()));
}

void TopK(Node& n) {
  const Value x = n.In(0);
  const Dims out = n.OutDims();
  if (out.empty()) Refuse("a scalar has no largest elements");
  const std::vector<Value> made =
      n.Ops("TopK", {x}, {{out, n.type(x)}, {out, QNN_DATATYPE_INT_32}}, {U32("k", out.back())});
  n.Set(0, made[0]);
  if (n.outputs() > 1) n.Set(1, n.Cast(made[1], n.OutType(1)));
}

void Cumsum(Node& n) {
  const auto& p = n.params<CumsumParams>();
  const Value x = n.In(0);
  n.Set(0, n.Op("CumulativeSum", {x}, x.dims,
                {U32("axis", Axis(n.Int(1, "the axis"), x.rank())),
                 Flag("exclusive", p.exclusive != 0), Flag("reverse", p.reverse != 0)}));
}

}  // namespace

const std::vector<BuiltinRow>& ReduceBuiltins() {
  static const std::vector<BuiltinRow> rows = {
      {40, {Reduce, Fixed::kOwn, "MEAN"}},
      {48, {TopK, Fixed::kOwn, "TOPK_V2"}},
      {56, {ArgExtreme, Fixed::kOwn, "ARG_MAX"}},
      {74, {Reduce, Fixed::kOwn, "SUM"}},
      {79, {ArgExtreme, Fixed::kOwn, "ARG_MIN"}},
      {81, {Reduce, Fixed::kOwn, "REDUCE_PROD"}},
      {82, {Reduce, Fixed::kOwn, "REDUCE_MAX"}},
      {89, {Reduce, Fixed::kOwn, "REDUCE_MIN"}},
      {91, {ReduceBool, Fixed::kOwn, "REDUCE_ANY"}},
      {128, {Cumsum, Fixed::kOwn, "CUMSUM"}},
      {140, {ReduceBool, Fixed::kOwn, "REDUCE_ALL"}},
  };
  return rows;
}

}  // namespace qnnrt::tflite
