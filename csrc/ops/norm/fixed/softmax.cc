// Softmax and LogSoftmax of 8-bit rows. How far a code is below the greatest of its row says what
// its exponential is: 256 of them, computed once. A row adds them up. A long one then makes the
// table from codes to results that its sum leads to, and looks its codes up; short ones, for which
// a table is too much, are encoded many at a time. Against the float kernel a result may be one
// step apart, where it is near a tie. Rows across other axes, and 16 bits, go through floats.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "abi/qnn_op_names.h"
#include "ops/fixed/arithmetic.h"
#include "ops/fixed/codec.h"
#include "ops/fixed/kernels.h"
#include "ops/fixed/requantize.h"
#include "ops/lookup.h"
#include "ops/rules.h"
#include "ops/vector_math.h"

namespace qnnrt {
namespace {

constexpr size_t kGrainElements = 16 << 10;
constexpr size_t kCodes = 256;
constexpr double kLeastTerm = 1e-30;
constexpr float kLeastScale = 1e-20f;
constexpr size_t kLanes = 16;    // partial results, so that it vectorizes
constexpr size_t kShort = 512;   // elements that cost less than a table
constexpr size_t kChunk = 1024;  // elements of short rows at a time

// Entry kCodes - 1 is the greatest of the row: whatever its code is, 256 entries from there down
// stand for all codes; those behind it stand for none.
struct Terms {
  float step = 0;  // between the logarithms
  std::array<float, 2 * kCodes> logs{}, exponentials{};
};

struct Greatest {
  // Of bytes whose top bit is flipped: signed codes in the order of unsigned ones.
  static QNNRT_INLINE uint8_t Run(const uint8_t* x, size_t n, uint8_t flip) {
    uint8_t most = 0;
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) {
      const uint8_t u = x[i] ^ flip;
      most = u > most ? u : most;
    }
    return most;
  }
};

struct Total {
  static QNNRT_INLINE float Run(const uint8_t* x, size_t n, uint8_t flip, const float* terms) {
    float sums[kLanes] = {};
    float sum = 0;
    size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (size_t k = 0; k < kLanes; ++k) sums[k] += terms[x[i + k] ^ flip];
    }
    for (; i < n; ++i) sum += terms[x[i] ^ flip];
    for (size_t k = 0; k < kLanes; ++k) sum += sums[k];
    return sum;
  }
};

// The code of values[u] * factor + shift, for every u.
template <typename To>
struct Codes {
  template <bool fma>
  struct Loop {
    static QNNRT_INLINE void Run(const float* values, float factor, float shift,
                                 const fixed::Encoder& encoder, uint8_t* codes) {
      const fixed::Encoder e = encoder;
      To* out = reinterpret_cast<To*>(codes);
      QNNRT_SIMD
      for (size_t u = 0; u < kCodes; ++u) {
        out[u] = e.template Code<To, fma>(values[u] * factor + shift);
      }
    }
  };
};

// Vectors by hand: of the table's entries the compiler would put together larger ones, which takes
// longer than all else.
typedef uint8_t Bytes __attribute__((vector_size(kLanes)));
typedef uint8_t HalfBytes __attribute__((vector_size(kLanes / 2)));
typedef float FourFloats __attribute__((vector_size(16)));

QNNRT_INLINE uint8_t MostOf(const Bytes& codes) {
  HalfBytes a, b;
  std::memcpy(&a, &codes, sizeof(a));
  std::memcpy(&b, reinterpret_cast<const char*>(&codes) + sizeof(a), sizeof(b));
  a = a > b ? a : b;
  uint8_t most = a[0];
  for (size_t k = 1; k < kLanes / 2; ++k) most = a[k] > most ? a[k] : most;
  return most;
}

struct Flip {
  static QNNRT_INLINE void Run(const uint8_t* x, uint8_t* to, size_t count, uint8_t flip) {
    QNNRT_SIMD
    for (size_t i = 0; i < count; ++i) to[i] = x[i] ^ flip;
  }
};

// Rows of n codes to real numbers. A row goes in blocks of kLanes, the last of which reaches into
// what is behind the row and is to be written afterwards.
template <bool log>
class ShortRows {
 public:
  static QNNRT_INLINE void Run(const uint8_t* __restrict x, const Terms& terms, float* __restrict o,
                               size_t rows, size_t n) {
    const size_t last = (n - 1) / kLanes * kLanes;
    Bytes mask;
    FourFloats keep[kLanes / 4];
    for (size_t k = 0; k < kLanes; ++k) mask[k] = k < n - last ? 0xff : 0;
    for (size_t k = 0; k < kLanes; ++k) keep[k / 4][k % 4] = k < n - last ? 1.0f : 0.0f;
    for (size_t r = 0; r < rows; ++r, x += n, o += n) {
      Bytes top, codes;
      std::memcpy(&top, x + last, sizeof(top));
      top &= mask;
      for (size_t i = 0; i < last; i += kLanes) {
        std::memcpy(&codes, x + i, sizeof(codes));
        top = codes > top ? codes : top;
      }
      const uint8_t most = MostOf(top);
      const float* table = terms.exponentials.data() + (kCodes - 1 - most);
      FourFloats sums[kLanes / 4];
      for (size_t k = 0; k < kLanes; k += 4)
        sums[k / 4] = keep[k / 4] * Look(table, x, last + k, o);
      for (size_t i = 0; i < last; i += kLanes) {
        for (size_t k = 0; k < kLanes; k += 4) sums[k / 4] += Look(table, x, i + k, o);
      }
      const FourFloats four = (sums[0] + sums[1]) + (sums[2] + sums[3]);
      const float sum = (four[0] + four[2]) + (four[1] + four[3]);
      if (log) {
        Logs(x, n, most, terms.step, -vmath::Log(sum), o);
      } else {
        const float factor = 1.0f / sum;
        for (size_t i = 0; i < n; i += kLanes) {
          for (size_t k = 0; k < kLanes; ++k) o[i + k] *= factor;
        }
      }
    }
  }

 private:
  // Four exponentials, which o gets where they are what is asked for.
  static QNNRT_INLINE FourFloats Look(const float* table, const uint8_t* x, size_t i, float* o) {
    const FourFloats four = {table[x[i]], table[x[i + 1]], table[x[i + 2]], table[x[i + 3]]};
    if (!log) std::memcpy(o + i, &four, sizeof(four));
    return four;
  }
  static QNNRT_INLINE void Logs(const uint8_t* __restrict x, size_t n, uint8_t most, float step,
                                float shift, float* __restrict o) {
    const float top = static_cast<float>(most);
    for (size_t i = 0; i < n; i += kLanes) {
      for (size_t k = 0; k < kLanes; ++k) {
        o[i + k] = (static_cast<float>(x[i + k]) - top) * step + shift;
      }
    }
  }
};

template <typename To>
struct Encode {
  template <bool fma>
  struct Loop {
    static QNNRT_INLINE void Run(const float* values, uint8_t* codes, size_t count,
                                 const fixed::Encoder& encoder) {
      const fixed::Encoder e = encoder;
      To* out = reinterpret_cast<To*>(codes);
      QNNRT_SIMD
      for (size_t i = 0; i < count; ++i) out[i] = e.template Code<To, fma>(values[i]);
    }
  };
};

class FixedSoftmax final : public Kernel {
 public:
  FixedSoftmax(const Node& node, size_t n, double beta, const fixed::Encoder& encoder)
      : rows_(node.inputs[0]->elements() / n),
        n_(n),
        log_(node.type == QNN_OP_LOG_SOFTMAX),
        flip_(node.inputs[0]->dtype == QNN_DATATYPE_SFIXED_POINT_8 ? 0x80 : 0),
        encoder_(encoder),
        codes_(node.outputs[0]->dtype == QNN_DATATYPE_SFIXED_POINT_8
                   ? fixed::PickFma<Codes<int8_t>::Loop>()
                   : fixed::PickFma<Codes<uint8_t>::Loop>()),
        short_rows_(log_ ? PickIsa<ShortRows<true>>() : PickIsa<ShortRows<false>>()),
        encode_(node.outputs[0]->dtype == QNN_DATATYPE_SFIXED_POINT_8
                    ? fixed::PickFma<Encode<int8_t>::Loop>()
                    : fixed::PickFma<Encode<uint8_t>::Loop>()) {
    const double step = beta * double{node.inputs[0]->quantization.scales[0]};
    terms_.step = static_cast<float>(step);
    // What counts neither in a sum nor in a step of the output is 0: denormal numbers would slow
    // each row down.
    const double least = node.outputs[0]->quantization.scales[0] > kLeastScale ? kLeastTerm : 0;
    for (size_t i = 0; i < kCodes; ++i) {
      const double log = -step * static_cast<double>(kCodes - 1 - i), term = std::exp(log);
      terms_.logs[i] = static_cast<float>(log);
      terms_.exponentials[i] = term < least ? 0.0f : static_cast<float>(term);
    }
  }

  Status Run(const ExecArgs& args) override {
    const uint8_t* in = static_cast<const uint8_t*>(args.in[0]);
    uint8_t* out = static_cast<uint8_t*>(args.out[0]);
    const bool table = n_ > kShort;
    const size_t cost = table ? n_ + kCodes : n_;  // of a row, in elements
    args.threads.For(rows_, 1 + kGrainElements / cost, [&](size_t begin, size_t end) {
      if (!table) return Short(in + begin * n_, out + begin * n_, end - begin);
      for (size_t r = begin; r < end; ++r) Row(in + r * n_, out + r * n_);
    });
    return {};
  }

 private:
  void Short(const uint8_t* in, uint8_t* out, size_t rows) const {
    alignas(64) uint8_t codes[kChunk + kLanes];
    alignas(64) float values[kChunk + kLanes];
    const size_t some = kChunk / n_;
    for (size_t r = 0; r < rows; r += some) {
      const size_t now = std::min(some, rows - r), count = now * n_;
      flip_codes_(in + r * n_, codes, count, flip_);
      std::memset(codes + count, 0, kLanes);
      short_rows_(codes, terms_, values, now, n_);
      encode_(values, out + r * n_, count, encoder_);
    }
  }

  void Row(const uint8_t* in, uint8_t* out) const {
    alignas(64) uint8_t table[kCodes];
    const size_t below = kCodes - 1 - greatest_(in, n_, flip_);
    const float sum = total_(in, n_, flip_, terms_.exponentials.data() + below);
    if (log_) {
      codes_(terms_.logs.data() + below, 1.0f, -std::log(sum), encoder_, table);
    } else {
      codes_(terms_.exponentials.data() + below, 1.0f / sum, 0.0f, encoder_, table);
    }
    if (flip_ != 0) std::swap_ranges(table, table + kCodes / 2, table + kCodes / 2);
    lookup_(table, in, out, n_);
  }

  const size_t rows_, n_;
  const bool log_;
  const uint8_t flip_;
  const fixed::Encoder encoder_;
  Terms terms_;
  uint8_t (*const greatest_)(const uint8_t*, size_t, uint8_t) = PickIsa<Greatest>();
  float (*const total_)(const uint8_t*, size_t, uint8_t, const float*) = PickIsa<Total>();
  void (*const codes_)(const float*, float, float, const fixed::Encoder&, uint8_t*);
  void (*const flip_codes_)(const uint8_t*, uint8_t*, size_t, uint8_t) = PickIsa<Flip>();
  void (*const short_rows_)(const uint8_t*, const Terms&, float*, size_t, size_t);
  void (*const encode_)(const float*, uint8_t*, size_t, const fixed::Encoder&);
  const Lookup lookup_ = PickLookup8();
};

}  // namespace

Result<KernelPtr> MakeFixedSoftmax(const Node& node, const KernelOptions& options) {
  const Tensor &in = *node.inputs[0], &out = *node.outputs[0];
  const TypeSet both = TypeBit(in.dtype) | TypeBit(out.dtype);
  const float beta = node.Float("beta");
  const size_t rank = in.shape.size();
  QNNRT_ASSIGN_OR_RETURN(const size_t axis, GetAxis(node, "axis", rank));
  const bool last = Product(in.shape, axis + 1, rank) == 1;
  if ((both & ~types::kFixed8) != 0 || !last || in.elements() == 0 || !(beta > 0)) {
    return MakeFixedRows(node, options);
  }
  const Quantization& q = out.quantization;
  const FixedRange range = RangeOf(out.dtype, q.bitwidth);
  if (!OneScale(in.quantization) || !OneScale(q) ||
      !fixed::Encoder::Takes(q.scales[0], q.offsets[0], range.low, range.high)) {
    return MakeFixedRows(node, options);
  }
  const fixed::Encoder encoder(q.scales[0], q.offsets[0], range.low, range.high);
  return KernelPtr(std::make_unique<FixedSoftmax>(node, in.shape[axis], double{beta}, encoder));
}

}  // namespace qnnrt
