// Softmax and LogSoftmax of 8-bit rows. How far a code is below the greatest of its row says what
// its exponential is: 256 of them, computed once. A row adds them up, makes the table from codes to
// results that its sum leads to, and looks its codes up. Against the float kernel a result may be
// one step apart, where it is near a tie. Rows across other axes, and 16 bits, go through floats.
#include <algorithm>
#include <array>
#include <cmath>

#include "abi/qnn_op_names.h"
#include "ops/fixed.h"
#include "ops/fixed_kernels.h"
#include "ops/fixed_math.h"
#include "ops/lookup.h"
#include "ops/requantize.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

constexpr size_t kGrainElements = 16 << 10;
constexpr size_t kCodes = 256;
constexpr double kLeastTerm = 1e-30;
constexpr float kLeastScale = 1e-20f;
constexpr size_t kLanes = 16;  // partial sums, so that it vectorizes

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
                   : fixed::PickFma<Codes<uint8_t>::Loop>()) {
    const double step = beta * double{node.inputs[0]->quantization.scales[0]};
    // What counts neither in a sum nor in a step of the output is 0: denormal numbers would slow
    // each row down.
    const double least = node.outputs[0]->quantization.scales[0] > kLeastScale ? kLeastTerm : 0;
    for (size_t i = 0; i < kCodes; ++i) {  // entry kCodes - 1 is the greatest of the row
      const double log = -step * static_cast<double>(kCodes - 1 - i), term = std::exp(log);
      logs_[i] = static_cast<float>(log);
      exponentials_[i] = term < least ? 0.0f : static_cast<float>(term);
    }
  }

  const char* Name() const override { return "portable"; }

  Status Run(const ExecArgs& args) override {
    const uint8_t* in = static_cast<const uint8_t*>(args.in[0]);
    uint8_t* out = static_cast<uint8_t*>(args.out[0]);
    args.threads.For(rows_, 1 + kGrainElements / (n_ + kCodes), [&](size_t begin, size_t end) {
      for (size_t r = begin; r < end; ++r) Row(in + r * n_, out + r * n_);
    });
    return {};
  }

 private:
  void Row(const uint8_t* in, uint8_t* out) const {
    alignas(64) uint8_t table[kCodes];
    const size_t below = kCodes - 1 - greatest_(in, n_, flip_);
    const float sum = total_(in, n_, flip_, exponentials_.data() + below);
    if (log_) {
      codes_(logs_.data() + below, 1.0f, -std::log(sum), encoder_, table);
    } else {
      codes_(exponentials_.data() + below, 1.0f / sum, 0.0f, encoder_, table);
    }
    if (flip_ != 0) std::swap_ranges(table, table + kCodes / 2, table + kCodes / 2);
    lookup_(table, in, out, n_);
  }

  const size_t rows_, n_;
  const bool log_;
  const uint8_t flip_;
  const fixed::Encoder encoder_;
  // Whatever the greatest code is, 256 entries from there on; those behind it stand for no code.
  std::array<float, 2 * kCodes> logs_{}, exponentials_{};
  uint8_t (*const greatest_)(const uint8_t*, size_t, uint8_t) = PickIsa<Greatest>();
  float (*const total_)(const uint8_t*, size_t, uint8_t, const float*) = PickIsa<Total>();
  void (*const codes_)(const float*, float, float, const fixed::Encoder&, uint8_t*);
  const Lookup lookup_ = PickLookup8();
};

}  // namespace

Result<KernelPtr> MakeFixedSoftmax(const Node& node, const KernelOptions& options) {
  const Tensor &in = *node.inputs[0], &out = *node.outputs[0];
  const TypeSet both = TypeBit(in.dtype) | TypeBit(out.dtype);
  const float beta = node.Float("beta", 1.0f);
  const size_t rank = in.shape.size();
  size_t axis = 0;
  QNNRT_RETURN_IF_ERROR(GetAxis(node, "axis", -1, rank, &axis));
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
