// Fourier transforms of real numbers. Complex tensors are pairs here: RFFT2D has two outputs, what
// reads complex numbers has two inputs for one. They are folded or lowered by importers alone.
#include <algorithm>
#include <cmath>

#include "tflite/lowering/lowering.h"

namespace qnnrt::tflite {
namespace {

// sign * f(2 pi row column / length), f a cosine or a sine; of exact multiples, so that long rows
// lose nothing.
Value Matrix(Node& n, uint32_t rows, uint32_t columns, uint32_t length, double (*f)(double),
             float sign = 1) {
  return n.Floats({rows, columns}, "a Fourier matrix", [&] {
    constexpr double kTurn = 6.283185307179586;
    std::vector<float> values;
    for (uint64_t r = 0; r < rows; ++r) {
      for (uint64_t c = 0; c < columns; ++c) {
        const double angle = kTurn * static_cast<double>(r * c % length) / length;
        values.push_back(sign * static_cast<float>(f(angle)));
      }
    }
    return values;
  });
}

uint32_t Length(int64_t length) {
  if (length < 1 || length > 1 << 16) Damaged("a length of %lld", static_cast<long long>(length));
  return static_cast<uint32_t>(length);
}

// x as far as it is read along one dimension: what is missing counts as zeros.
Value First(Node& n, const Value& x, uint32_t axis, uint32_t count) {
  return CutAlong(n, x, axis, 0, std::min(x.dims[axis], count));
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
  Value real = Product(n, x, Matrix(n, x.dims[across], half, width, std::cos));
  Value imaginary = Product(n, x, Matrix(n, x.dims[across], half, width, std::sin, -1));
  if (height > 1) {
    const Value cosine = Matrix(n, height, x.dims[down], height, std::cos);
    const Value sine = Matrix(n, height, x.dims[down], height, std::sin);
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
