// Arithmetic, comparison, logic, activations, conversions: element by element, with broadcasting.
#include <algorithm>
#include <cmath>

#include "tflite/lowering/lowering.h"

namespace qnnrt::tflite {
namespace {

std::vector<Value> Pair(Node& n) {
  if (n.inputs() != 2) Damaged("%d inputs instead of 2", n.inputs());
  std::vector<Value> found = n.Inputs();
  const Qnn_DataType_t a = Plain(n.type(found[0])), b = Plain(n.type(found[1]));
  if (a != b && !n.Is("POW"))
    Damaged("inputs of different element types, %s and %s", TypeName(a).c_str(),
            TypeName(b).c_str());
  return found;
}

// The QNN operation of these is the one in the table.
void Binary(Node& n) {
  const std::vector<Value> values = Pair(n);
  if (n.type(values[0]) == QNN_DATATYPE_BOOL_8) Unsupported("arithmetic on booleans");
  n.Set(0, n.Fused(n.Nary(n.view().op->to, values)));
}

void Logic(Node& n) { n.Set(0, n.Compare(n.view().op->to, Pair(n))); }

// Of booleans, or of the bits of integers.
void Bits(Node& n) { n.Set(0, n.Nary(n.view().op->to, Pair(n))); }

void Unary(Node& n) {
  const Value x = n.In(0);
  n.Set(0, n.Op(n.view().op->to, {x}, x.dims));
}

void AddN(Node& n) {
  const std::vector<Value> values = n.Inputs();
  if (values.empty()) Damaged("input 0 is missing");
  Value sum = values[0];
  for (size_t i = 1; i < values.size(); ++i) sum = n.Add(sum, values[i]);
  n.Set(0, values.size() > 1 ? sum : n.Copy(sum, sum.dims));
}

void Square(Node& n) {
  const Value x = n.In(0);
  n.Set(0, n.Multiply(x, x));
}

void Select(Node& n) {
  if (n.inputs() != 3) Damaged("%d inputs instead of 3", n.inputs());
  Value condition = n.In(0);
  const Value a = n.In(1), b = n.In(2);
  if (n.type(condition) != QNN_DATATYPE_BOOL_8)
    Damaged("a condition of %s", TypeName(n.type(condition)).c_str());
  if (n.Is("SELECT") && condition.rank() == 1 && a.rank() > 1) {
    // The older operator takes one condition for each entry of the first dimension.
    Dims dims(a.rank(), 1);
    dims[0] = condition.dims[0];
    condition = n.Reshape(condition, dims);
  }
  n.Set(0, n.Select(condition, a, b));
}

void CastTo(Node& n) {
  const Value x = n.In(0);
  const Qnn_DataType_t to = n.OutType();
  if (Plain(n.type(x)) != Plain(to)) {
    // The stored integers, while QNN's Cast beside INT_64 has the numbers that they stand for: by
    // way of integers that stand for themselves, and of another size than the result's, as those of
    // its size get its encoding.
    if (!n.encoding(x).none() && to == QNN_DATATYPE_INT_64)
      n.Set(0, n.Cast(n.OpOf("Cast", {x}, x.dims, Plain(n.type(x))), to));
    else if (!n.OutEncoding().none() && n.type(x) == QNN_DATATYPE_INT_64)
      n.Set(0, n.Cast(n.OpOf("Cast", {x}, x.dims, QNN_DATATYPE_UINT_32), to));
    else
      n.Set(0, n.Cast(x, to));
    return;
  }
  // The integers as they are, whatever they stand for.
  const bool plain = n.encoding(x).none() && n.OutEncoding().none();
  n.Set(0, plain ? n.Copy(x, x.dims) : n.Op("Cast", {x}, x.dims));
}

void DequantizeTo(Node& n) {
  const Value x = n.In(0);
  if (!n.encoding(x).none()) {
    n.Set(0, n.OpOf("Dequantize", {x}, x.dims, n.OutType()));
    return;
  }
  if (n.type(x) != QNN_DATATYPE_FLOAT_16 && !(n.constant(x) && n.floating(x)))
    Unsupported("%s without a scale", TypeName(n.type(x)).c_str());
  n.Set(0, n.Cast(x, n.OutType()));
}

void QuantizeTo(Node& n) {
  const Value x = n.In(0);
  const Encoding& wanted = n.view().outputs[0].encoding;
  if (wanted.none()) Damaged("its output has no scale");
  if (n.encoding(x).none() && !n.floating(x))
    Damaged("%s without a scale", TypeName(n.type(x)).c_str());
  if (n.encoding(x).none()) {
    // Between Dequantize and Quantize the result is the latter's input.
    n.Set(0, n.OutEncoding().none() ? x : n.Quantize(x, n.OutType(), wanted));
  } else {
    n.Set(0, n.OpOf("Convert", {x}, x.dims, n.OutType()));
  }
}

void ZerosLike(Node& n) {
  const Value x = n.In(0);
  n.Set(0, n.Filled(x.dims, n.type(x), nullptr, "the result"));
}

// The number of boundaries that are not above the element.
void Bucketize(Node& n) {
  const Value x = n.In(0);
  const std::vector<float> bounds = n.List<float>("Boundaries");
  if (bounds.empty()) {
    n.Set(0, n.Filled(x.dims, QNN_DATATYPE_INT_32, nullptr, "the result"));
    return;
  }
  Dims wide = x.dims;
  wide.push_back(1);
  const Value reals = n.Cast(n.Reshape(x, wide), QNN_DATATYPE_FLOAT_32);
  const Value limits =
      n.Constant({static_cast<uint32_t>(bounds.size())}, QNN_DATATYPE_FLOAT_32, bounds.data());
  const Value above = n.Compare("ElementWiseGreaterEqual", {reals, limits});
  const Value counted = n.Cast(above, QNN_DATATYPE_INT_32);
  const Value sum =
      n.Op("ReduceSum", {counted}, wide, {U32s("axes", {x.rank()}), Flag("keep_dims", true)});
  n.Set(0, n.Reshape(sum, x.dims));
}

// Clamped to [min, max], moved so that 0 is a step, and rounded to steps.
void FakeQuant(Node& n) {
  const Value x = n.In(0);
  const float low = n.Real("Min"), high = n.Real("Max");
  const int64_t bits = n.Integer("NumBits");
  if (n.Flag("NarrowRange")) Unsupported("a narrow range, which TFLite's own kernel refuses too");
  if (bits < 2 || bits > 16 || !(low < high && low <= 0 && 0 <= high))
    Damaged("%lld bits for [%g, %g]", static_cast<long long>(bits), static_cast<double>(low),
            static_cast<double>(high));
  const auto most = static_cast<float>((1 << bits) - 1);
  const float step = (high - low) / most;
  const float zero = 0 - low / step;
  const auto nudged = static_cast<float>(
      std::clamp(std::floor(static_cast<double>(zero) + 0.5), 0.0, static_cast<double>(most)));
  const float bottom = (0 - nudged) * step, top = (most - nudged) * step;
  const Value clamped =
      n.Op("ReluMinMax", {x}, x.dims, {F32("min_value", bottom), F32("max_value", top)});
  auto times = [&](const Value& v, float by) {
    return by == 1 ? v : n.Multiply(v, n.Scalar(by, v));
  };
  auto plus = [&](const Value& v, float by) { return by == 0 ? v : n.Add(v, n.Scalar(by, v)); };
  const Value shifted = n.Nary("ElementWiseSubtract", {clamped, n.Scalar(bottom, x)});
  const Value rounded = n.Op("ElementWiseFloor", {plus(times(shifted, 1 / step), 0.5F)}, x.dims);
  n.Set(0, plus(times(rounded, step), bottom));
}

// ---- Activations ----

void Relu(Node& n) {
  const int64_t kind = n.Is("RELU") ? kActRelu : n.Is("RELU6") ? kActRelu6 : kActReluN1To1;
  n.Set(0, n.Activate(n.In(0), kind));
}

void Relu0To1(Node& n) {
  const Value x = n.In(0);
  n.Set(0, n.Op("ReluMinMax", {x}, x.dims, {F32("min_value", 0), F32("max_value", 1)}));
}

void Elu(Node& n) {
  const Value x = n.In(0);
  n.Set(0, n.Op("Elu", {x}, x.dims, {F32("alpha", 1)}));
}

void LeakyRelu(Node& n) {
  const Value x = n.In(0);
  n.Set(0, n.Op("Prelu", {x, n.Scalar(n.Real("Alpha"), x)}, x.dims));
}

void Prelu(Node& n) {
  const Value x = n.In(0), slopes = n.In(1);
  if (Broadcast({x.dims, slopes.dims}) != x.dims)
    Unsupported("slopes %s, more than an input %s has", Text(slopes.dims).c_str(),
                Text(x.dims).c_str());
  n.Set(0, n.Op("Prelu", {x, slopes}, x.dims));
}

// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) where it is approximate.
void Gelu(Node& n) {
  const Value x = n.In(0);
  if (!n.Flag("Approximate")) {
    n.Set(0, n.Op("Gelu", {x}, x.dims));
    return;
  }
  auto times = [&](const Value& v, float by) { return n.Multiply(v, n.Scalar(by, v)); };
  const Value square = n.Multiply(x, x);
  const Value cube = n.Multiply(square, x);
  const Value sum = n.Add(x, times(cube, 0.044715F));
  const Value scaled = times(sum, 0.7978845608028654F);
  const Value half = times(x, 0.5F);
  const Value bent = n.Op("Tanh", {scaled}, x.dims);
  n.Set(0, n.Multiply(half, n.Add(bent, n.Scalar(1, bent))));
}

uint32_t Last(const Value& x) {
  if (x.rank() == 0) Damaged("a scalar has no last dimension");
  return x.rank() - 1;
}

void Softmax(Node& n) {
  const Value x = n.In(0);
  n.Set(0, n.Op("Softmax", {x}, x.dims, {U32("axis", Last(x)), F32("beta", n.Real("Beta"))}));
}

void LogSoftmax(Node& n) {
  const Value x = n.In(0);
  n.Set(0, n.Op("LogSoftmax", {x}, x.dims, {U32("axis", Last(x))}));
}

// The least norm is that of TFLite's kernel.
void L2Norm(Node& n) {
  const Value x = n.In(0);
  n.Set(0, n.Fused(n.Op("L2Norm", {x}, x.dims, {U32("axis", Last(x)), F32("epsilon", 1e-6F)})));
}

void Lrn(Node& n) {
  const Value x = n.In(0, 4);
  const int64_t radius = n.Integer("Radius");
  n.Set(0, n.Op("Lrn", {x}, x.dims,
                {F32("alpha", n.Real("Alpha")), F32("beta", n.Real("Beta")),
                 F32("bias", n.Real("Bias")), I32("radius", static_cast<int32_t>(radius)),
                 U32("region", 0)}));
}

// The angle of (x, y) from atan(y / x): pi is added to it, or taken from it, left of the y axis. At
// x = 0 the quotient is infinite, which atan takes; at the origin the angle is 0.
void Atan2(Node& n) {
  const std::vector<Value> values = Pair(n);
  const Value &y = values[0], &x = values[1];
  const float pi = 3.14159265358979F;
  const Value zero = n.Scalar(0, y), half_turn = n.Scalar(pi, y);
  const Value quotient = n.Nary("ElementWiseDivide", {y, x});
  const Value base = n.Op("ElementWiseAtan", {quotient}, quotient.dims);
  const Value below = n.Compare("ElementWiseLess", {y, zero});
  const Value turn = n.Select(below, n.Scalar(-pi, y), half_turn);
  const Value left = n.Compare("ElementWiseLess", {x, zero});
  const Value angle = n.Select(left, n.Add(base, turn), base);
  const Value no_x = n.Compare("ElementWiseEqual", {x, zero});
  const Value no_y = n.Compare("ElementWiseEqual", {y, zero});
  n.Set(0, n.Select(n.Compare("ElementWiseAnd", {no_x, no_y}), zero, angle));
}

}  // namespace

std::vector<Operator> ElementwiseOperators() {
  const Fixed own = Fixed::kOwn, floats = Fixed::kFloats;
  const Delegated all = Delegated::kAll, not_fixed = Delegated::kNotFixed, none = Delegated::kNone;
  return {
      {0, "ADD", Binary, "ElementWiseAdd", "AddOptions"},
      {6, "DEQUANTIZE", DequantizeTo, "Dequantize, Cast", "", own, all, "Cast: of half precision"},
      {8, "FLOOR", Unary, "ElementWiseFloor"},
      {11, "L2_NORMALIZATION", L2Norm, "L2Norm", "L2NormOptions"},
      {13, "LOCAL_RESPONSE_NORMALIZATION", Lrn, "Lrn", "LocalResponseNormalizationOptions"},
      {14, "LOGISTIC", Unary, "Sigmoid"},
      {18, "MUL", Binary, "ElementWiseMultiply", "MulOptions"},
      {19, "RELU", Relu, "Relu, ReluMinMax"},
      {20, "RELU_N1_TO_1", Relu, "Relu, ReluMinMax"},
      {21, "RELU6", Relu, "Relu, ReluMinMax"},
      {25, "SOFTMAX", Softmax, "Softmax", "SoftmaxOptions"},
      {28, "TANH", Unary, "Tanh"},
      {41, "SUB", Binary, "ElementWiseSubtract", "SubOptions"},
      {42, "DIV", Binary, "ElementWiseDivide", "DivOptions"},
      {47, "EXP", Unary, "ElementWiseExp"},
      {50, "LOG_SOFTMAX", LogSoftmax, "LogSoftmax"},
      {53, "CAST", CastTo, "Cast", "CastOptions", own, not_fixed},
      {54, "PRELU", Prelu, "Prelu"},
      {55, "MAXIMUM", Binary, "ElementWiseMaximum"},
      {57, "MINIMUM", Binary, "ElementWiseMinimum"},
      {58, "LESS", Logic, "ElementWiseLess"},
      {59, "NEG", Unary, "ElementWiseNeg", "", own, not_fixed},
      {61, "GREATER", Logic, "ElementWiseGreater"},
      {62, "GREATER_EQUAL", Logic, "ElementWiseGreaterEqual"},
      {63, "LESS_EQUAL", Logic, "ElementWiseLessEqual"},
      {64, "SELECT", Select, "ElementWiseSelect"},
      {66, "SIN", Unary, "ElementWiseSin"},
      {71, "EQUAL", Logic, "ElementWiseEqual"},
      {72, "NOT_EQUAL", Logic, "ElementWiseNotEqual"},
      {73, "LOG", Unary, "ElementWiseLog"},
      {75, "SQRT", Unary, "ElementWiseSquareRoot"},
      {76, "RSQRT", Unary, "ElementWiseRsqrt"},
      {78, "POW", Binary, "ElementWisePower"},
      {80, "FAKE_QUANT", FakeQuant, "ElementWiseRound and elementwise", "FakeQuantOptions", own,
       none},
      {84, "LOGICAL_OR", Logic, "ElementWiseOr"},
      {86, "LOGICAL_AND", Logic, "ElementWiseAnd"},
      {87, "LOGICAL_NOT", Unary, "ElementWiseNot"},
      {90, "FLOOR_DIV", Binary, "ElementWiseFloorDiv", "", own, not_fixed},
      {92, "SQUARE", Square, "ElementWiseMultiply", "", floats},
      {93, "ZEROS_LIKE", ZerosLike, "folded into constants", "", floats, none},
      {95, "FLOOR_MOD", Binary, "ElementWiseMod", "", own, not_fixed},
      {98, "LEAKY_RELU", LeakyRelu, "Prelu", "LeakyReluOptions"},
      {99, "SQUARED_DIFFERENCE", Binary, "ElementWiseSquaredDifference"},
      {101, "ABS", Unary, "ElementWiseAbs"},
      {104, "CEIL", Unary, "ElementWiseCeil"},
      {106, "ADD_N", AddN, "ElementWiseAdd", "", floats},
      {108, "COS", Unary, "ElementWiseCos"},
      {111, "ELU", Elu, "Elu"},
      {114, "QUANTIZE", QuantizeTo, "Quantize, Convert"},
      {116, "ROUND", Unary, "ElementWiseRound"},
      {117, "HARD_SWISH", Unary, "HardSwish"},
      {123, "SELECT_V2", Select, "ElementWiseSelect"},
      {147, "BUCKETIZE", Bucketize, "ElementWiseGreaterEqual, Cast, ReduceSum", "BucketizeOptions",
       floats, none},
      {150, "GELU", Gelu, "Gelu, or Tanh and elementwise", "GeluOptions", floats},
      {152, "RELU_0_TO_1", Relu0To1, "Relu, ReluMinMax"},
      {156, "ATAN2", Atan2, "ElementWiseAtan and elementwise", "", floats},
      {158, "SIGN", Unary, "ElementWiseSign"},
      {160, "BITWISE_XOR", Bits, "ElementWiseXor", "", own, not_fixed},
      {163, "STABLEHLO_ADD", Binary, "ElementWiseAdd", "", own, not_fixed},
      {165, "STABLEHLO_MULTIPLY", Binary, "ElementWiseMultiply", "", own, not_fixed},
      {166, "STABLEHLO_MAXIMUM", Binary, "ElementWiseMaximum", "", own, not_fixed},
      {176, "STABLEHLO_AND", Bits, "ElementWiseAnd", "", own, not_fixed},
      {181, "STABLEHLO_MINIMUM", Binary, "ElementWiseMinimum", "", own, not_fixed},
  };
}

}  // namespace qnnrt::tflite
