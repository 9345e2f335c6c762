// Arithmetic, comparison, logic, activations, conversions: element by element, with broadcasting.
#include <cmath>

#include "tflite/lower.h"

namespace qnnrt::tflite {
namespace {

// Codes of operators whose parameters begin with a fused activation.
bool HasActivation(int32_t code) { return code == 0 || code == 18 || code == 41 || code == 42; }

template <const char* const& Type>
void Binary(Node& n) {
  const Value a = n.In(0), b = n.In(1);
  if (n.floating(a) != n.floating(b) || ElementBytes(n.type(a)) != ElementBytes(n.type(b)))
    Refuse("inputs of different element types");
  if (n.type(a) == QNN_DATATYPE_BOOL_8) Refuse("arithmetic on booleans");
  const Value out = n.Op(Type, {a, b}, n.OutDims());
  n.Set(0, HasActivation(n.code) ? n.Activate(out, n.params<ActivationParams>().activation) : out);
}

template <const char* const& Type>
void Logic(Node& n) {
  n.Set(0, n.OpOf(Type, {n.In(0), n.In(1)}, n.OutDims(), QNN_DATATYPE_BOOL_8));
}

template <const char* const& Type>
void Unary(Node& n) {
  const Value x = n.In(0);
  n.Set(0, n.Op(Type, {x}, x.dims));
}

#define QNNRT_NAME(id, text) constexpr const char* id = text
QNNRT_NAME(kAdd, "ElementWiseAdd");
QNNRT_NAME(kSub, "ElementWiseSubtract");
QNNRT_NAME(kMul, "ElementWiseMultiply");
QNNRT_NAME(kDiv, "ElementWiseDivide");
QNNRT_NAME(kFloorDiv, "ElementWiseFloorDiv");
QNNRT_NAME(kMod, "ElementWiseMod");
QNNRT_NAME(kMaximum, "ElementWiseMaximum");
QNNRT_NAME(kMinimum, "ElementWiseMinimum");
QNNRT_NAME(kPower, "ElementWisePower");
QNNRT_NAME(kSquaredDifference, "ElementWiseSquaredDifference");
QNNRT_NAME(kEqual, "ElementWiseEqual");
QNNRT_NAME(kNotEqual, "ElementWiseNotEqual");
QNNRT_NAME(kLess, "ElementWiseLess");
QNNRT_NAME(kLessEqual, "ElementWiseLessEqual");
QNNRT_NAME(kGreater, "ElementWiseGreater");
QNNRT_NAME(kGreaterEqual, "ElementWiseGreaterEqual");
QNNRT_NAME(kAnd, "ElementWiseAnd");
QNNRT_NAME(kOr, "ElementWiseOr");
QNNRT_NAME(kAbs, "ElementWiseAbs");
QNNRT_NAME(kCeil, "ElementWiseCeil");
QNNRT_NAME(kCos, "ElementWiseCos");
QNNRT_NAME(kExp, "ElementWiseExp");
QNNRT_NAME(kFloor, "ElementWiseFloor");
QNNRT_NAME(kLog, "ElementWiseLog");
QNNRT_NAME(kNot, "ElementWiseNot");
QNNRT_NAME(kNeg, "ElementWiseNeg");
QNNRT_NAME(kRound, "ElementWiseRound");
QNNRT_NAME(kRsqrt, "ElementWiseRsqrt");
QNNRT_NAME(kSign, "ElementWiseSign");
QNNRT_NAME(kSin, "ElementWiseSin");
QNNRT_NAME(kSquareRoot, "ElementWiseSquareRoot");
QNNRT_NAME(kSigmoid, "Sigmoid");
QNNRT_NAME(kTanh, "Tanh");
QNNRT_NAME(kHardSwish, "HardSwish");
#undef QNNRT_NAME

void AddN(Node& n) {
  Value sum = n.In(0);
  for (int i = 1; i < n.inputs(); ++i) sum = n.Op(kAdd, {sum, n.In(i)}, sum.dims);
  n.Set(0, sum);
}

void Square(Node& n) {
  const Value x = n.In(0);
  n.Set(0, n.Op(kMul, {x, x}, x.dims));
}

void Select(Node& n) {
  Value condition = n.In(0);
  const Value a = n.In(1), b = n.In(2);
  if (n.type(condition) != QNN_DATATYPE_BOOL_8) Refuse("a condition that is no boolean");
  if (n.code == 64 && condition.rank() == 1 && a.rank() > 1) {
    // The older operator takes one condition for each entry of the first dimension.
    Dims dims(a.rank(), 1);
    dims[0] = condition.dims[0];
    condition = n.Reshape(condition, dims);
  }
  n.Set(0, n.OpOf("ElementWiseSelect", {condition, a, b}, n.OutDims(), n.type(a)));
}

void CastTo(Node& n) {
  const Value x = n.In(0);
  if (!n.encoding(x).none() || !n.OutEncoding().none()) Refuse("integers with scales");
  if (n.type(x) == n.OutType()) {
    n.Set(0, n.Op("Reshape", {x}, x.dims));
  } else {
    n.Set(0, n.Cast(x, n.OutType()));
  }
}

void DequantizeTo(Node& n) {
  const Value x = n.In(0);
  if (n.floating(x)) {  // half precision, or a constant already decoded
    n.Set(0, n.Cast(x, n.OutType()));
  } else if (n.encoding(x).none()) {
    Refuse("integers without a scale");
  } else {
    n.Set(0, n.OpOf("Dequantize", {x}, x.dims, n.OutType()));
  }
}

void QuantizeTo(Node& n) {
  const Value x = n.In(0);
  const Encoding wanted = n.OutEncoding();
  if (wanted.none()) Refuse("its output has no scale");
  if (n.encoding(x).none() && !n.floating(x)) Refuse("integers without a scale");
  if (n.floating(x)) {
    n.Set(0, n.Quantize(x, n.OutType(), wanted));
  } else {
    n.Set(0, n.OpOf("Convert", {x}, x.dims, n.OutType()));
  }
}

// ---- Activations ----

void Relu(Node& n) {
  const int32_t kind = n.code == 19   ? kTfLiteActRelu
                       : n.code == 21 ? kTfLiteActRelu6
                                      : kTfLiteActReluN1To1;
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
  n.Set(0, n.Op("Prelu", {x, n.Scalar(n.params<LeakyReluParams>().alpha, x)}, x.dims));
}

void Prelu(Node& n) {
  const Value x = n.In(0), slopes = n.In(1);
  if (n.OutDims() != x.dims) Refuse("more slopes than the input has elements");
  n.Set(0, n.Op("Prelu", {x, slopes}, x.dims));
}

// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) where it is approximate.
void Gelu(Node& n) {
  const Value x = n.In(0);
  if (n.params<GeluParams>().approximate == 0) {
    n.Set(0, n.Op("Gelu", {x}, x.dims));
    return;
  }
  auto times = [&](const Value& v, float by) { return n.Op(kMul, {v, n.Scalar(by, v)}, v.dims); };
  const Value square = n.Op(kMul, {x, x}, x.dims);
  const Value cube = n.Op(kMul, {square, x}, x.dims);
  const Value sum = n.Op(kAdd, {x, times(cube, 0.044715F)}, x.dims);
  const Value bent = n.Op(kTanh, {times(sum, 0.7978845608F)}, x.dims);
  const Value one_more = n.Op(kAdd, {bent, n.Scalar(1, bent)}, x.dims);
  n.Set(0, n.Op(kMul, {times(x, 0.5F), one_more}, x.dims));
}

uint32_t Last(const Value& x) {
  if (x.rank() == 0) Refuse("a scalar has no last dimension");
  return x.rank() - 1;
}

void Softmax(Node& n) {
  const Value x = n.In(0);
  n.Set(0, n.Op("Softmax", {x}, x.dims,
                {U32("axis", Last(x)), F32("beta", n.params<SoftmaxParams>().beta)}));
}

void LogSoftmax(Node& n) {
  const Value x = n.In(0);
  n.Set(0, n.Op("LogSoftmax", {x}, x.dims, {U32("axis", Last(x))}));
}

// The least norm is that of the runtime's kernel.
void L2Norm(Node& n) {
  const Value x = n.In(0);
  const Value out = n.Op("L2Norm", {x}, x.dims, {U32("axis", Last(x)), F32("epsilon", 1e-6F)});
  n.Set(0, n.Activate(out, n.params<ActivationParams>().activation));
}

void Lrn(Node& n) {
  const auto& p = n.params<LrnParams>();
  const Value x = n.In(0, 4);
  n.Set(0, n.Op("Lrn", {x}, x.dims,
                {F32("alpha", p.alpha), F32("beta", p.beta), F32("bias", p.bias),
                 I32("radius", p.radius), U32("region", 0)}));
}

// The angle of (x, y) from atan(y / x): pi is added to it, or taken from it, left of the y axis. At
// x = 0 the quotient is infinite, which atan takes; at the origin the angle is 0.
void Atan2(Node& n) {
  const Value y = n.In(0), x = n.In(1);
  const Dims out = n.OutDims();
  const float pi = 3.14159265358979F;
  auto is = [&](const char* type, const Value& v) {
    return n.OpOf(type, {v, n.Scalar(0, v)}, v.dims, QNN_DATATYPE_BOOL_8);
  };
  auto select = [&](const Value& condition, const Value& a, const Value& b) {
    return n.OpOf("ElementWiseSelect", {condition, a, b}, out, n.type(y));
  };
  const Value base = n.Op("ElementWiseAtan", {n.Op(kDiv, {y, x}, out)}, out);
  const Value turn = n.OpOf("ElementWiseSelect", {is(kLess, y), n.Scalar(-pi, y), n.Scalar(pi, y)},
                            y.dims, n.type(y));
  const Value left = select(is(kLess, x), n.Op(kAdd, {base, turn}, out), base);
  const Value origin = n.OpOf(kAnd, {is(kEqual, x), is(kEqual, y)}, out, QNN_DATATYPE_BOOL_8);
  n.Set(0, select(origin, n.Scalar(0, y), left));
}

}  // namespace

const std::vector<BuiltinRow>& ElementwiseBuiltins() {
  static const std::vector<BuiltinRow> rows = {
      {0, {Binary<kAdd>, Fixed::kOwn, "ADD"}},
      {6, {DequantizeTo, Fixed::kOwn, "DEQUANTIZE"}},
      {8, {Unary<kFloor>, Fixed::kOwn, "FLOOR"}},
      {11, {L2Norm, Fixed::kOwn, "L2_NORMALIZATION"}},
      {13, {Lrn, Fixed::kOwn, "LOCAL_RESPONSE_NORMALIZATION"}},
      {14, {Unary<kSigmoid>, Fixed::kOwn, "LOGISTIC"}},
      {18, {Binary<kMul>, Fixed::kOwn, "MUL"}},
      {19, {Relu, Fixed::kOwn, "RELU"}},
      {20, {Relu, Fixed::kOwn, "RELU_N1_TO_1"}},
      {21, {Relu, Fixed::kOwn, "RELU6"}},
      {25, {Softmax, Fixed::kOwn, "SOFTMAX"}},
      {28, {Unary<kTanh>, Fixed::kOwn, "TANH"}},
      {41, {Binary<kSub>, Fixed::kOwn, "SUB"}},
      {42, {Binary<kDiv>, Fixed::kOwn, "DIV"}},
      {47, {Unary<kExp>, Fixed::kOwn, "EXP"}},
      {50, {LogSoftmax, Fixed::kOwn, "LOG_SOFTMAX"}},
      {53, {CastTo, Fixed::kNever, "CAST"}},
      {54, {Prelu, Fixed::kOwn, "PRELU"}},
      {55, {Binary<kMaximum>, Fixed::kOwn, "MAXIMUM"}},
      {57, {Binary<kMinimum>, Fixed::kOwn, "MINIMUM"}},
      {58, {Logic<kLess>, Fixed::kOwn, "LESS"}},
      {59, {Unary<kNeg>, Fixed::kNever, "NEG"}},
      {61, {Logic<kGreater>, Fixed::kOwn, "GREATER"}},
      {62, {Logic<kGreaterEqual>, Fixed::kOwn, "GREATER_EQUAL"}},
      {63, {Logic<kLessEqual>, Fixed::kOwn, "LESS_EQUAL"}},
      {64, {Select, Fixed::kOwn, "SELECT"}},
      {66, {Unary<kSin>, Fixed::kOwn, "SIN"}},
      {71, {Logic<kEqual>, Fixed::kOwn, "EQUAL"}},
      {72, {Logic<kNotEqual>, Fixed::kOwn, "NOT_EQUAL"}},
      {73, {Unary<kLog>, Fixed::kOwn, "LOG"}},
      {75, {Unary<kSquareRoot>, Fixed::kOwn, "SQRT"}},
      {76, {Unary<kRsqrt>, Fixed::kOwn, "RSQRT"}},
      {78, {Binary<kPower>, Fixed::kOwn, "POW"}},
      {84, {Logic<kOr>, Fixed::kOwn, "LOGICAL_OR"}},
      {86, {Logic<kAnd>, Fixed::kOwn, "LOGICAL_AND"}},
      {87, {Unary<kNot>, Fixed::kOwn, "LOGICAL_NOT"}},
      {90, {Binary<kFloorDiv>, Fixed::kNever, "FLOOR_DIV"}},
      {92, {Square, Fixed::kFloats, "SQUARE"}},
      {95, {Binary<kMod>, Fixed::kNever, "FLOOR_MOD"}},
      {98, {LeakyRelu, Fixed::kOwn, "LEAKY_RELU"}},
      {99, {Binary<kSquaredDifference>, Fixed::kOwn, "SQUARED_DIFFERENCE"}},
      {101, {Unary<kAbs>, Fixed::kOwn, "ABS"}},
      {104, {Unary<kCeil>, Fixed::kOwn, "CEIL"}},
      {106, {AddN, Fixed::kFloats, "ADD_N"}},
      {108, {Unary<kCos>, Fixed::kOwn, "COS"}},
      {111, {Elu, Fixed::kOwn, "ELU"}},
      {114, {QuantizeTo, Fixed::kOwn, "QUANTIZE"}},
      {116, {Unary<kRound>, Fixed::kOwn, "ROUND"}},
      {117, {Unary<kHardSwish>, Fixed::kOwn, "HARD_SWISH"}},
      {123, {Select, Fixed::kOwn, "SELECT_V2"}},
      {150, {Gelu, Fixed::kFloats, "GELU"}},
      {152, {Relu0To1, Fixed::kOwn, "RELU_0_TO_1"}},
      {156, {Atan2, Fixed::kFloats, "ATAN2"}},
      {158, {Unary<kSign>, Fixed::kOwn, "SIGN"}},
  };
  return rows;
}

}  // namespace qnnrt::tflite
