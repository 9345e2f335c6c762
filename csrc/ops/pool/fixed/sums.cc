// Averages and sums of fixed-point numbers: PoolAvg2d, PoolAvg3d, ReduceMean, ReduceSum. Integers
// are added up as they are; what comes out is rounded once, to the output's encoding, half to even.
// The float kernels round every sum, so a result may be one step from theirs, where it is near a
// tie.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "abi/qnn_op_names.h"
#include "ir/visit.h"
#include "ops/fixed/kernels.h"
#include "ops/fixed/requantize.h"
#include "ops/isa.h"
#include "ops/pool/pool.h"
#include "ops/rules.h"
#include "ops/vector_math.h"

namespace qnnrt {
namespace {

constexpr size_t kGrainElements = 128 * 1024;  // read by one thread, at least
constexpr size_t kPart = 64;                   // channels that one thread takes of few pixels

// From a sum of codes to a code.
struct Rounding {
  int32_t start = 0;           // what the offset adds to the sum
  float ratio = 1, count = 1;  // of the scales; the divisor
  float least = 0, most = 0;   // q + offset at the ends of the range
  int32_t offset = 0;          // of the output
};

template <typename To>
QNNRT_INLINE To Round(int32_t sum, const Rounding& r) {
  float v = static_cast<float>(sum + r.start) * r.ratio / r.count;
  v = v < r.least ? r.least : v;
  v = v > r.most ? r.most : v;
  const int32_t q =
      vmath::Minus(vmath::Bits(v + vmath::kRoundMagic), vmath::Bits(vmath::kRoundMagic));
  return static_cast<To>(vmath::Minus(q, r.offset));
}

// The sums of each channel over a window; `whole`: of at most kMostTaps pixels.
template <typename T>
struct SumWindow {
  // What kMostTaps of them fit: bytes become it in one instruction, and 32 bits in several.
  using S = std::conditional_t<sizeof(T) != 1, int32_t,
                               std::conditional_t<std::is_signed_v<T>, int16_t, uint16_t>>;
  static constexpr size_t kMostTaps = sizeof(T) == 1 ? 256 : SIZE_MAX;
  // Channels in one pass. Loops over less than a block do not become vector code: what is left is
  // added up in short vectors, the last ones again.
  static constexpr size_t kBlock = 64, kShort = 16;

  template <bool whole>
  struct Of {
    static QNNRT_INLINE void Run(const void* in, const PoolWindow& window, size_t channels,
                                 const Rounding& rounding, void* out) {
      const T* x = static_cast<const T*>(in);
      T* o = static_cast<T*>(out);
      if (window.column_stride == 1) return One(x, window, rounding, o);
      size_t c = 0;
      for (; c + kBlock <= channels; c += kBlock) Block(x + c, window, rounding, kBlock, o + c);
      if (c == channels) return;
      if (channels < kShort) return Block(x, window, rounding, channels, o);
      int32_t sums[kBlock];
      const size_t rest = channels - c, first = rest < kShort ? channels - kShort : c;
      for (; c + kShort <= channels; c += kShort) Short(x + c, window, sums + (c - first));
      const size_t n = channels - first;
      if (c < channels) Short(x + channels - kShort, window, sums + (n - kShort));
      const Rounding r = rounding;
      for (size_t k = 0; k < n; ++k) o[first + k] = Round<T>(sums[k], r);
    }
    static QNNRT_INLINE void Short(const T* in, const PoolWindow& w, int32_t* sums) {
      std::memset(sums, 0, kShort * sizeof(sums[0]));
      if constexpr (whole) return AddShort(in, w, sums);
      const auto add = [&](const T* x, const PoolWindow& part) __attribute__((always_inline)) {
        AddShort(x, part, sums);
      };
      ForParts(in, w, add);
    }
    static QNNRT_INLINE void Block(const T* in, const PoolWindow& w, const Rounding& rounding,
                                   size_t n, T* out) {
      const Rounding r = rounding;
      if constexpr (whole) {
        S sum[kBlock];
        AddBlock(in, w, n, sum);
        for (size_t k = 0; k < n; ++k) out[k] = Round<T>(static_cast<int32_t>(sum[k]), r);
        return;
      }
      int32_t totals[kBlock];
      if (n < kBlock) {
        AddBlock(in, w, n, totals);
      } else {
        for (size_t k = 0; k < n; ++k) totals[k] = 0;
        const auto add = [&](const T* x, const PoolWindow& part) __attribute__((always_inline)) {
          S sum[kBlock];
          AddBlock(x, part, n, sum);
          for (size_t k = 0; k < n; ++k) totals[k] += sum[k];
        };
        ForParts(in, w, add);
      }
      for (size_t k = 0; k < n; ++k) out[k] = Round<T>(totals[k], r);
    }
  };

  // Calls fn(first element, part) for parts of at most kMostTaps pixels.
  template <typename Fn>
  static QNNRT_INLINE void ForParts(const T* in, const PoolWindow& w, Fn fn) {
    if (w.taps() == 0) return;
    const size_t columns = std::min(w.columns, kMostTaps), rows = kMostTaps / columns;
    for (size_t z = 0; z < w.planes; ++z) {
      for (size_t y = 0; y < w.rows; y += rows) {
        for (size_t i = 0; i < w.columns; i += columns) {
          PoolWindow part = w;
          part.planes = 1;
          part.rows = std::min(rows, w.rows - y);
          part.columns = std::min(columns, w.columns - i);
          fn(in + z * w.plane_stride + y * w.row_stride + i * w.column_stride, part);
        }
      }
    }
  }
  static QNNRT_INLINE void AddShort(const T* in, const PoolWindow& w, int32_t* sums) {
    typedef T Codes __attribute__((vector_size(kShort * sizeof(T))));
    typedef S Sums __attribute__((vector_size(kShort * sizeof(S))));
    typedef int32_t Totals __attribute__((vector_size(kShort * sizeof(int32_t))));
    Sums sum{};
    Codes v;
    for (size_t z = 0; z < w.planes; ++z) {
      for (size_t y = 0; y < w.rows; ++y) {
        const T* x = in + z * w.plane_stride + y * w.row_stride;
        for (size_t i = 0; i < w.columns; ++i, x += w.column_stride) {
          std::memcpy(&v, x, sizeof(v));
          sum += __builtin_convertvector(v, Sums);
        }
      }
    }
    Totals totals;
    std::memcpy(&totals, sums, sizeof(totals));
    totals += __builtin_convertvector(sum, Totals);
    std::memcpy(sums, &totals, sizeof(totals));
  }
  template <typename Sum>
  static QNNRT_INLINE void AddBlock(const T* in, const PoolWindow& w, size_t n, Sum* sums) {
    for (size_t k = 0; k < n; ++k) sums[k] = 0;
    for (size_t z = 0; z < w.planes; ++z) {
      for (size_t y = 0; y < w.rows; ++y) {
        const T* x = in + z * w.plane_stride + y * w.row_stride;
        for (size_t i = 0; i < w.columns; ++i, x += w.column_stride) {
          for (size_t k = 0; k < n; ++k) sums[k] = static_cast<Sum>(sums[k] + x[k]);
        }
      }
    }
  }
  // Where the input has one channel, the pixels of a row lie together.
  static QNNRT_INLINE void One(const T* in, const PoolWindow& w, const Rounding& rounding, T* out) {
    int32_t sum = 0;
    for (size_t z = 0; z < w.planes; ++z) {
      for (size_t y = 0; y < w.rows; ++y) {
        const T* x = in + z * w.plane_stride + y * w.row_stride;
        for (size_t i = 0; i < w.columns; ++i) sum += x[i];
      }
    }
    *out = Round<T>(sum, rounding);
  }
};

using SumFn = void (*)(const void*, const PoolWindow&, size_t, const Rounding&, void*);

// Null for 32 bits.
SumFn PickSum(Qnn_DataType_t type, size_t taps) {
  return VisitCode(type, [taps](auto t) -> SumFn {
    if constexpr (sizeof(t) > 2) {
      return nullptr;
    } else {
      using Window = SumWindow<decltype(t)>;
      return taps <= Window::kMostTaps ? PickIsa<typename Window::template Of<true>>()
                                       : PickIsa<typename Window::template Of<false>>();
    }
  });
}

class FixedSum final : public Kernel {
 public:
  FixedSum(const PoolGeometry& g, const Rounding& rounding, SumFn sum, const Tensor& in, bool mean)
      : g_(g),
        rounding_(rounding),
        sum_(sum),
        in_offset_(in.quantization.offsets[0]),
        size_(ElementSize(in.dtype)),
        mean_(mean) {}

  Status Run(const ExecArgs& args) override {
    const char* in = static_cast<const char*>(args.in[0]);
    char* out = static_cast<char*>(args.out[0]);
    const size_t channels = static_cast<size_t>(g_.channels);
    const size_t lines = static_cast<size_t>(g_.batch * g_.out[0] * g_.out[1]);
    const size_t threads = static_cast<size_t>(args.threads.limit());
    const size_t part = threads > 1 && lines < 4 * threads ? kPart : channels;
    const size_t parts = channels == 0 ? 0 : (channels + part - 1) / part;
    const size_t work =
        static_cast<size_t>(g_.out[2] * g_.kernel[0] * g_.kernel[1] * g_.kernel[2]) *
        std::min(part, channels);
    args.threads.For(lines * parts, 1 + kGrainElements / (work + 1), [&](size_t begin, size_t end) {
      for (size_t u = begin; u < end;) {  // parts of a line that follow each other together
        const size_t line = u / parts, next = std::min(end, (line + 1) * parts);
        const size_t first = u % parts * part;
        const size_t count = std::min((next - u) * part, channels - first);
        Line(in, out, static_cast<int64_t>(line), first, count);
        u = next;
      }
    });
    return {};
  }

 private:
  // Channels [first, first + count) of one line of the output.
  void Line(const char* in, char* out, int64_t line, size_t first, size_t count) const {
    const int64_t n = line / (g_.out[0] * g_.out[1]);
    const PoolSpan d = SpanOf(g_, 0, line / g_.out[1] % g_.out[0]);
    const PoolSpan h = SpanOf(g_, 1, line % g_.out[1]);
    const int64_t image = g_.in[0] * g_.in[1] * g_.in[2] * g_.channels;
    for (int64_t x = 0; x < g_.out[2]; ++x) {
      const PoolSpan w = SpanOf(g_, 2, x);
      const PoolWindow window = WindowOf(g_, d, h, w);
      Rounding rounding = rounding_;
      rounding.start = static_cast<int32_t>(window.taps()) * in_offset_;
      const int64_t divisor =
          g_.count_pads ? d.padded * h.padded * w.padded : static_cast<int64_t>(window.taps());
      if (mean_) rounding.count = static_cast<float>(std::max<int64_t>(1, divisor));
      const size_t from = static_cast<size_t>(n * image) + WindowStart(g_, d, h, w) + first;
      const size_t to = static_cast<size_t>((line * g_.out[2] + x) * g_.channels) + first;
      sum_(in + from * size_, window, count, rounding, out + to * size_);
    }
  }

  const PoolGeometry g_;
  const Rounding rounding_;
  const SumFn sum_;
  const int32_t in_offset_;
  const size_t size_;
  const bool mean_;
};

Result<KernelPtr> Make(const Node& node, const PoolGeometry& g, bool mean) {
  const Tensor &in = *node.inputs[0], &out = *node.outputs[0];
  if (in.dtype != out.dtype || !OneScale(in.quantization) || !OneScale(out.quantization)) {
    return KernelPtr();
  }
  const float scale = out.quantization.scales[0];
  const int32_t offset = out.quantization.offsets[0];
  const FixedRange codes = RangeOf(in.dtype, 0),
                   range = RangeOf(out.dtype, out.quantization.bitwidth);
  if (!fixed::Encoder::Takes(scale, offset, range.low, range.high)) return KernelPtr();
  // The sums of codes, of offsets and of both must fit 32 bits.
  const double taps = static_cast<double>(g.kernel[0]) * static_cast<double>(g.kernel[1]) *
                      static_cast<double>(g.kernel[2]);
  const int64_t most =
      std::max(codes.high, -codes.low) + std::abs(int64_t{in.quantization.offsets[0]});
  if (taps > static_cast<double>(INT32_MAX / most)) return KernelPtr();
  const SumFn sum = PickSum(in.dtype, static_cast<size_t>(taps));
  if (sum == nullptr) return KernelPtr();
  Rounding rounding;
  rounding.ratio = static_cast<float>(double{in.quantization.scales[0]} / double{scale});
  rounding.least = static_cast<float>(range.low + offset);
  rounding.most = static_cast<float>(range.high + offset);
  rounding.offset = offset;
  return KernelPtr(std::make_unique<FixedSum>(g, rounding, sum, in, mean));
}

// Neighbouring reduced axes are the columns of a pool whose window is all of them; false where they
// are apart.
bool AsPool(const Shape& shape, const std::vector<size_t>& axes, PoolGeometry* g) {
  g->batch = g->channels = 1;
  bool reduced_before = false, kept_after = false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    if (!std::binary_search(axes.begin(), axes.end(), i)) {
      (reduced_before ? g->channels : g->batch) *= shape[i];
      kept_after = reduced_before;
    } else {
      if (kept_after) return false;
      g->kernel[2] *= shape[i];
      reduced_before = true;
    }
  }
  g->in[2] = g->kernel[2];
  return g->in[2] > 0;
}

}  // namespace

Result<KernelPtr> MakeFixedPoolAvg(const Node& node, const KernelOptions&) {
  QNNRT_ASSIGN_OR_RETURN(const PoolGeometry g, ReadPool(node));
  return Make(node, g, true);
}

Result<KernelPtr> MakeFixedReduceSum(const Node& node, const KernelOptions& options) {
  PoolGeometry g;
  QNNRT_ASSIGN_OR_RETURN(const std::vector<size_t> axes,
                         GetAxes(node, "axes", node.inputs[0]->shape.size()));
  if (AsPool(node.inputs[0]->shape, axes, &g)) {
    QNNRT_ASSIGN_OR_RETURN(KernelPtr kernel, Make(node, g, node.type == QNN_OP_REDUCE_MEAN));
    if (kernel) return kernel;
  }
  return MakeFixedRows(node, options);
}

}  // namespace qnnrt
