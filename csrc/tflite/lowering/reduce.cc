// Reductions, positions of extremes, the largest elements, cumulative sums.
#include <algorithm>
#include <cstring>
#include <set>

#include "tflite/lowering/lowering.h"

namespace qnnrt::tflite {
namespace {

Value Reduced(Node& n, const char* type, const Value& x) {
  std::set<uint32_t> axes;
  for (int64_t a : n.Ints(1, "the axes")) axes.insert(Axis(a, x.rank()));
  const bool keep = n.Flag("KeepDims");
  if (axes.empty() || x.rank() == 0) return n.Copy(x, x.dims);
  Dims kept, dims;
  for (uint32_t d = 0; d < x.rank(); ++d) {
    const bool reduced = axes.count(d) != 0;
    kept.push_back(reduced ? 1 : x.dims[d]);
    if (keep || !reduced) dims.push_back(kept.back());
  }
  // QNN has no tensors of rank 0: a full reduction keeps its dimensions, then loses them.
  const bool full = dims.empty();
  const Value out =
      n.Op(type, {x}, full ? kept : dims,
           {U32s("axes", {axes.begin(), axes.end()}), Flag("keep_dims", keep || full)});
  return n.Reshape(out, dims);
}

void Reduce(Node& n) { n.Set(0, Reduced(n, n.view().op->to, n.In(0))); }

// The greatest or the least of 0 and 1.
void ReduceBool(Node& n) {
  const Value numbers = n.Cast(n.In(0), QNN_DATATYPE_UINT_8);
  const Value found = Reduced(n, n.Is("REDUCE_ANY") ? "ReduceMax" : "ReduceMin", numbers);
  n.Set(0, n.Cast(found, QNN_DATATYPE_BOOL_8));
}

void ArgExtreme(Node& n) {
  Value x = n.In(0);
  const uint32_t axis = Axis(n.Int(1, "the axis"), x.rank());
  if (x.rank() == 0) Damaged("a scalar has no axis");
  if (n.type(x) == QNN_DATATYPE_BOOL_8) x = n.Cast(x, QNN_DATATYPE_UINT_8);
  Dims dims = x.dims, kept = x.dims;
  dims.erase(dims.begin() + axis);
  kept[axis] = 1;
  const bool full = dims.empty();
  const Value out = n.OpOf(n.Is("ARG_MAX") ? "Argmax" : "Argmin", {x}, full ? kept : dims,
                           QNN_DATATYPE_INT_32, {U32("axis", axis), Flag("keep_dims", full)});
  n.Set(0, n.Cast(n.Reshape(out, dims), n.OutType()));
}

void TopK(Node& n) {
  const Value x = n.In(0);
  const int64_t k = n.Int(1, "k");
  if (x.rank() == 0 || k < 1 || k > x.dims.back())
    Damaged("the %lld largest of %s", static_cast<long long>(k), Text(x.dims).c_str());
  Dims dims = x.dims;
  dims.back() = static_cast<uint32_t>(k);
  const std::vector<Value> made =
      n.Ops("TopK", {x}, {{dims, n.type(x)}, {dims, QNN_DATATYPE_INT_32}}, {U32("k", dims.back())});
  n.Set(0, made[0]);
  if (n.outputs() > 1) n.Set(1, n.Cast(made[1], n.OutType(1)));
}

void Cumsum(Node& n) {
  const Value x = n.In(0);
  n.Set(0, n.Op("CumulativeSum", {x}, x.dims,
                {U32("axis", Axis(n.Int(1, "the axis"), x.rank())),
                 Flag("exclusive", n.Flag("Exclusive")), Flag("reverse", n.Flag("Reverse"))}));
}

}  // namespace

std::vector<Operator> ReduceOperators() {
  const char* const options = "ReducerOptions";
  const char* const booleans = "ReduceMax, ReduceMin, Cast";
  return {
      {40, "MEAN", Reduce, "ReduceMean", options},
      {48, "TOPK_V2", TopK, "TopK"},
      {56, "ARG_MAX", ArgExtreme, "Argmax, Argmin"},
      {74, "SUM", Reduce, "ReduceSum", options},
      {79, "ARG_MIN", ArgExtreme, "Argmax, Argmin"},
      {81, "REDUCE_PROD", Reduce, "ReduceProd", options},
      {82, "REDUCE_MAX", Reduce, "ReduceMax", options},
      {89, "REDUCE_MIN", Reduce, "ReduceMin", options},
      {91, "REDUCE_ANY", ReduceBool, booleans, options},
      {128, "CUMSUM", Cumsum, "CumulativeSum", "CumsumOptions"},
      {140, "REDUCE_ALL", ReduceBool, booleans, options},
  };
}

}  // namespace qnnrt::tflite
