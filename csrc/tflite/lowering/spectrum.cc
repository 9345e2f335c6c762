// Fourier transforms of real numbers. Complex tensors are pairs here: RFFT2D has two outputs, what
// reads complex numbers has two inputs for one. They are folded or lowered by importers alone.
#include <algorithm>
#include <cmath>

#include "tflite/lowering/lowering.h"

namespace qnnrt::tflite {
namespace {

struct Angles {
  std::vector<float> cosine, sine;  // [rows, columns]
};

// Of 2 pi row column / length; exact multiples, so that long rows lose nothing.
Angles AnglesOf(uint32_t rows, uint32_t columns, uint32_t length) {
  Angles found;
  constexpr double kTurn = 6.283185307179586;
  for (uint64_t r = 0; r < rows; ++r) {
    for (uint64_t c = 0; c < columns; ++c) {
      const double angle = kTurn * static_cast<double>(r * c % length) / length;
      found.cosine.push_back(static_cast<float>(std::cos(angle)));
      found.sine.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  return found;
}

uint32_t Length(int64_t length) {
  if (length < 1 || length > 1 << 16) Damaged("a length of %lld", static_cast<long long>(length));
  return static_cast<uint32_t>(length);
}

// x as far as it is read along one dimension: what is missing counts as zeros.
Value First(Node& n, const Value& x, uint32_t axis, uint32_t count) {
  std::vector<Range> ranges;
  for (uint32_t size : x.dims) ranges.push_back({0, size, 1});
  ranges[axis].end = std::min(x.dims[axis], count);
  return Cut(n, x, ranges);
}

Value Matrix(Node& n, uint32_t rows, uint32_t columns, const std::vector<float>& values) {
  n.Spend({rows, columns}, sizeof(float), "a Fourier matrix");
  return n.Constant({rows, columns}, QNN_DATATYPE_FLOAT_32, values.data());
}

Value Product(Node& n, const Value& a, const Value& b) {
  Dims out = Broadcast({{a.dims.begin(), a.dims.end() - 2}, {b.dims.begin(), b.dims.end() - 2}});
  out.push_back(a.dims[a.rank() - 2]);
  out.push_back(b.dims.back());
  return n.Op("MatMul", {a, b}, out, {Flag("transpose_in0", false), Flag("transpose_in1", false)});
}

// Over the last two dimensions; along the last one only the first half, which determines the other.
void RealTransform(Node& n) {
  const Value given = n.In(0);
  const std::vector<int64_t> lengths = n.Ints(1, "the lengths");
  if (given.rank() < 2 || lengths.size() != 2 || n.outputs() != 2)
    Damaged("%s to %zu lengths", Text(given.dims).c_str(), lengths.size());
  const uint32_t height = Length(lengths[0]), width = Length(lengths[1]);
  const uint32_t down = given.rank() - 2, across = given.rank() - 1, half = width / 2 + 1;
  const Value x = First(n, First(n, given, down, height), across, width);
  const Angles rows = AnglesOf(x.dims[across], half, width);
  std::vector<float> negative = rows.sine;
  for (float& v : negative) v = -v;
  Value real = Product(n, x, Matrix(n, x.dims[across], half, rows.cosine));
  Value imaginary = Product(n, x, Matrix(n, x.dims[across], half, negative));
  if (height > 1) {
    const Angles columns = AnglesOf(height, x.dims[down], height);
    const Value cosine = Matrix(n, height, x.dims[down], columns.cosine);
    const Value sine = Matrix(n, height, x.dims[down], columns.sine);
    const Value turned = n.Add(Product(n, cosine, real), Product(n, sine, imaginary));
    imaginary =
        n.Nary("ElementWiseSubtract", {Product(n, cosine, imaginary), Product(n, sine, real)});
    real = turned;
  }
  n.Set(0, real);
  n.Set(1, imaginary);
}

void Magnitude(Node& n) {
  const Value real = n.In(0), imaginary = n.In(1);
  const Value squared = n.Add(n.Multiply(real, real), n.Multiply(imaginary, imaginary));
  n.Set(0, n.Op("ElementWiseSquareRoot", {squared}, squared.dims));
}

// The parts of complex numbers are tensors of their own already.
void Part(Node& n) { n.Set(0, n.In(n.Is("IMAG") ? 1 : 0)); }

}  // namespace

std::vector<Operator> SpectrumOperators() {
  const Fixed own = Fixed::kOwn;
  const Delegated none = Delegated::kNone;
  return {
      {131, "RFFT2D", RealTransform, "MatMul", "", own, none},
      {133, "IMAG", Part, "a part of two", "", own, none},
      {134, "REAL", Part, "a part of two", "", own, none},
      {135, "COMPLEX_ABS", Magnitude, "ElementWiseMultiply, ElementWiseAdd, ElementWiseSquareRoot",
       "", own, none},
  };
}

}  // namespace qnnrt::tflite
