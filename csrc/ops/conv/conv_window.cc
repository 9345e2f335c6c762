// Depthwise convolution by small windows, in the vectors of AVX-512. A vector has sixteen channels;
// the sums of up to fourteen pixels of a line stay in registers, and each pixel of the input is
// loaded once for all of a line's sums that see it.
#include <algorithm>
#include <cmath>
#include <optional>

#include "ops/conv/conv.h"
#include "ops/isa.h"
#include "ops/post_ops.h"
#include "ops/rules.h"
#include "ops/stored_floats.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace qnnrt {
namespace {

constexpr size_t kLanes = 16;
constexpr int64_t kWindowGrain = 64 * 1024;  // products worth a thread
constexpr size_t kStripBytes = 32 * 1024;    // of the output, which a second pass finds in a cache
constexpr int64_t kStripPixels = 112;        // without one: lines share what they read

// Some lines of an image, of sixteen channels: pointers are at the first.
struct WindowStrip {
  const void* in;  // the image
  void* out;       // line `begin`
  const float *weights, *bias;
  size_t channels;                    // from pixel to pixel, and from tap to tap
  int64_t in_lines, columns, pixels;  // of the input; of a line of the output
  int64_t window_lines, stride, top, left;
  int64_t begin, end;
  float low, high;
};

using WindowFn = void (*)(const WindowStrip&);

#if defined(__x86_64__)

// The compiler does not use AVX512-BF16 by itself, so floats do without it.
#define QNNRT_WINDOW \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,avx512bf16")))

struct Brain {
  uint16_t bits;
};

// The intrinsics with a mask of ones are the plain ones, of which g++ 12 warns that a number behind
// them is not initialized (its bug 105593).
constexpr __mmask16 kAll = 0xffff;

QNNRT_WINDOW QNNRT_INLINE __m512 LoadLanes(const float* p) { return _mm512_loadu_ps(p); }
QNNRT_WINDOW QNNRT_INLINE __m512 LoadLanes(const Brain* p) {
  const __m256i narrow = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m512i wide = _mm512_maskz_cvtepu16_epi32(kAll, narrow);
  return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(kAll, wide, 16));
}
// All of them, or zeros. (With a mask, a load takes a place of a multiplication's.)
QNNRT_WINDOW QNNRT_INLINE __m512 LoadLanes(const float* p, __mmask16 inside) {
  return _mm512_maskz_loadu_ps(inside, p);
}
QNNRT_WINDOW QNNRT_INLINE __m512 LoadLanes(const Brain* p, __mmask16 inside) {
  const __m512i wide = _mm512_maskz_cvtepu16_epi32(kAll, _mm256_maskz_loadu_epi16(inside, p));
  return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(kAll, wide, 16));
}
QNNRT_WINDOW QNNRT_INLINE void StoreLanes(float* p, __m512 v) { _mm512_storeu_ps(p, v); }
QNNRT_WINDOW QNNRT_INLINE void StoreLanes(Brain* p, __m512 v) {
  const __m256bh b = _mm512_maskz_cvtneps_pbh(kAll, v);
  __builtin_memcpy(p, &b, sizeof(b));
}

QNNRT_INLINE bool IsInside(int64_t at, int64_t count) {
  return static_cast<uint64_t>(at) < static_cast<uint64_t>(count);
}

// kPixels pixels from x on, or, unless kWhole, those that there are.
template <int kWidth, int kStride, int kPixels, bool kWhole, typename In, typename Out>
QNNRT_WINDOW QNNRT_INLINE void WindowTile(const WindowStrip& s, int64_t y, int64_t x) {
  constexpr int kColumns = (kPixels - 1) * kStride + kWidth, kEdge = kWidth - 1;
  const int64_t step = static_cast<int64_t>(s.channels), columns = s.columns;
  const int64_t first = x * kStride - s.left, above = y * s.stride - s.top;
  __m512 sums[kPixels];
  const __m512 bias = _mm512_loadu_ps(s.bias);
#pragma GCC unroll 16
  for (int p = 0; p < kPixels; ++p) sums[p] = bias;
  // Only columns at the ends of a whole tile may be outside of the image.
  __mmask16 left[kEdge], right[kEdge];
#pragma GCC unroll 8
  for (int i = 0; i < kEdge; ++i) {
    left[i] = IsInside(first + i, columns) ? kAll : __mmask16{0};
    right[i] = IsInside(first + kColumns - kEdge + i, columns) ? kAll : __mmask16{0};
  }
  const int64_t from = std::max<int64_t>(0, -above);
  const int64_t to = std::min(s.window_lines, s.in_lines - above);
  const float* weights = s.weights + from * kWidth * step;
  const In* line = static_cast<const In*>(s.in) + ((above + from) * columns + first) * step;
  for (int64_t l = from; l < to; ++l, weights += kWidth * step, line += columns * step) {
    __m512 w[kWidth];
#pragma GCC unroll 8
    for (int i = 0; i < kWidth; ++i) w[i] = _mm512_loadu_ps(weights + i * step);
    const In* at = line;
#pragma GCC unroll 40
    for (int c = 0; c < kColumns; ++c, at += step) {
      if (!kWhole && !IsInside(first + c, columns)) continue;
      const __m512 v = kWhole && c < kEdge ? LoadLanes(at, left[c])
                       : kWhole && c >= kColumns - kEdge
                           ? LoadLanes(at, right[c - (kColumns - kEdge)])
                           : LoadLanes(at);
#pragma GCC unroll 8
      for (int i = 0; i < kWidth; ++i) {
        const int p = (c - i) / kStride;
        if (c < i || (c - i) % kStride != 0 || p >= kPixels) continue;
        sums[p] = _mm512_fmadd_ps(v, w[i], sums[p]);
      }
    }
  }
  // What is no number stays none: both take the second one then.
  if (s.low > -INFINITY) {
    const __m512 low = _mm512_set1_ps(s.low);
#pragma GCC unroll 16
    for (int p = 0; p < kPixels; ++p) sums[p] = _mm512_maskz_max_ps(kAll, low, sums[p]);
  }
  if (s.high < INFINITY) {
    const __m512 high = _mm512_set1_ps(s.high);
#pragma GCC unroll 16
    for (int p = 0; p < kPixels; ++p) sums[p] = _mm512_maskz_min_ps(kAll, high, sums[p]);
  }
  Out* out = static_cast<Out*>(s.out) + ((y - s.begin) * s.pixels + x) * step;
#pragma GCC unroll 16
  for (int p = 0; p < kPixels; ++p, out += step) {
    if (!kWhole && x + p >= s.pixels) break;
    StoreLanes(out, sums[p]);
  }
}

template <int kWidth, int kStride, int kPixels, typename In, typename Out>
QNNRT_WINDOW void WindowLines(const WindowStrip& s) {
  for (int64_t y = s.begin; y < s.end; ++y) {
    int64_t x = 0;
    for (; x + kPixels <= s.pixels; x += kPixels)
      WindowTile<kWidth, kStride, kPixels, true, In, Out>(s, y, x);
    if (x < s.pixels) WindowTile<kWidth, kStride, kPixels, false, In, Out>(s, y, x);
  }
}

// The width of a tile that leaves the fewest sums of a line unused, the widest of them.
template <int kWidth, int kStride, typename In, typename Out>
WindowFn PickTile(int64_t pixels) {
  const auto unused = [&](int64_t tile) { return (pixels + tile - 1) / tile * tile - pixels; };
  if (unused(14) <= std::min(unused(10), unused(7)))
    return WindowLines<kWidth, kStride, 14, In, Out>;
  return unused(10) <= unused(7) ? WindowLines<kWidth, kStride, 10, In, Out>
                                 : WindowLines<kWidth, kStride, 7, In, Out>;
}

template <int kWidth, typename Out>
WindowFn PickBrain(const ConvGeometry& g) {
  return g.stride[2] == 1 ? PickTile<kWidth, 1, Brain, Out>(g.out[2])
                          : PickTile<kWidth, 2, Brain, Out>(g.out[2]);
}

template <typename Out>
WindowFn PickBrain(const ConvGeometry& g) {
  return g.kernel[2] == 3   ? PickBrain<3, Out>(g)
         : g.kernel[2] == 5 ? PickBrain<5, Out>(g)
                            : PickBrain<7, Out>(g);
}

WindowFn Pick(const ConvGeometry& g, bool narrow_in, bool narrow_out) {
  if (narrow_in) return narrow_out ? PickBrain<Brain>(g) : PickBrain<float>(g);
  return g.kernel[2] == 5 ? PickTile<5, 1, float, float>(g.out[2])
                          : PickTile<7, 1, float, float>(g.out[2]);
}

#else

WindowFn Pick(const ConvGeometry&, bool, bool) { return nullptr; }

#endif  // defined(__x86_64__)

class ConvWindow final : public Kernel {
 public:
  static Result<KernelPtr> Make(const Node& node, const ConvGeometry& g,
                                const KernelOptions& options) {
    std::unique_ptr<ConvWindow> kernel(new ConvWindow(node, g));
    const Tensor& weights = *node.inputs[1];
    const StoredFloats stored(weights);
    if (stored.narrow()) {
      const auto widen = [&](void* to) {
        stored.Read(weights.data->data(), 0, weights.elements(), static_cast<float*>(to));
        return Status::Ok();
      };
      QNNRT_ASSIGN_OR_RETURN(
          kernel->weights_,
          PackWeights(options, 1, weights.elements() * sizeof(float), "as FLOAT_32", widen));
    }
    QNNRT_RETURN_IF_ERROR(kernel->KeepBias(node));
    const int64_t work = kernel->Lines() * g.out[2] * g.cout * g.taps();
    const int64_t most = std::min<int64_t>(options.threads, kernel->Lines());
    kernel->rooms_ = static_cast<size_t>(std::clamp<int64_t>(work / kWindowGrain, 1, most));
    return KernelPtr(std::move(kernel));
  }

  Status Run(const ExecArgs& args) override {
    const int64_t rooms = static_cast<int64_t>(rooms_);
    args.threads.For(rooms_, 1, [&](size_t begin, size_t end) {
      for (int64_t room = static_cast<int64_t>(begin); room < static_cast<int64_t>(end); ++room)
        RunLines(args, Lines() * room / rooms, Lines() * (room + 1) / rooms,
                 static_cast<float*>(args.scratch) + static_cast<size_t>(room) * RoomFloats());
    });
    return Status::Ok();
  }

  size_t ScratchBytes() const override { return rooms_ * RoomFloats() * sizeof(float); }
  bool ReadsInput(size_t i) const override { return (i != 1 || !weights_) && (i != 2 || !bias_); }
  size_t WeightBytes() const override { return weights_ ? weights_->size() : 0; }

 private:
  ConvWindow(const Node& node, const ConvGeometry& g)
      : g_(g),
        post_ops_(node),
        in_(*node.inputs[0]),
        out_(*node.outputs[0]),
        clamps_(post_ops_.Clamps()),
        strip_(Pick(g, in_.narrow(), out_.narrow() && clamps_)) {}

  Status KeepBias(const Node& node) {
    const Tensor* bias = node.HasInput(2) ? node.inputs[2] : nullptr;
    if (bias != nullptr && bias->dtype == QNN_DATATYPE_FLOAT_32) return Status::Ok();
    const size_t count = static_cast<size_t>(g_.cout);
    bias_ = AlignedBytes::Make(count * sizeof(float));
    if (!bias_) return OutOfMemory();
    float* const to = static_cast<float*>(bias_->data());
    std::fill_n(to, count, 0.0f);
    if (bias != nullptr) StoredFloats(*bias).Read(bias->data->data(), 0, count, to);
    return Status::Ok();
  }

  int64_t Lines() const { return g_.batch * g_.out[1]; }
  size_t LineFloats() const { return static_cast<size_t>(g_.out[2] * g_.cout); }
  int64_t StripLines() const {
    if (clamps_) return std::max<int64_t>(4, kStripPixels / g_.out[2]);
    return std::max<int64_t>(1, static_cast<int64_t>(kStripBytes / (LineFloats() * sizeof(float))));
  }
  size_t RoomFloats() const {  // what a part of the output needs
    if (clamps_ || !out_.narrow()) return 0;
    const size_t floats = static_cast<size_t>(StripLines()) * LineFloats();
    return ScratchRoom(floats * sizeof(float)) / sizeof(float);
  }

  void RunLines(const ExecArgs& args, int64_t from, int64_t to, float* buffer) const {
    const size_t channels = static_cast<size_t>(g_.cout);
    const size_t in_size = in_.narrow() ? sizeof(uint16_t) : sizeof(float);
    const size_t out_size = out_.narrow() && clamps_ ? sizeof(uint16_t) : sizeof(float);
    const float* const weights =
        static_cast<const float*>(weights_ ? weights_->data() : args.in[1]);
    const float* const bias = static_cast<const float*>(bias_ ? bias_->data() : args.in[2]);
    const Limits limits = clamps_.value_or(Limits{-INFINITY, INFINITY});
    for (int64_t line = from; line < to;) {
      const int64_t image = line / g_.out[1], y = line % g_.out[1];
      const int64_t count = std::min({StripLines(), g_.out[1] - y, to - line});
      const char* in = static_cast<const char*>(args.in[0]) +
                       static_cast<size_t>(image * g_.in[1] * g_.in[2]) * channels * in_size;
      const size_t at = static_cast<size_t>(line) * LineFloats();
      const size_t floats = static_cast<size_t>(count) * LineFloats();
      char* out = out_.narrow() && !clamps_ ? reinterpret_cast<char*>(buffer)
                                            : static_cast<char*>(args.out[0]) + at * out_size;
      for (size_t i = 0; i < channels; i += kLanes) {
        const size_t c = std::min(i, channels - kLanes);  // the last ones may overlap
        strip_({in + c * in_size, out + c * out_size, weights + c, bias + c, channels, g_.in[1],
                g_.in[2], g_.out[2], g_.kernel[1], g_.stride[1], g_.pad_before[1], g_.pad_before[2],
                y, y + count, limits.low, limits.high});
      }
      if (!clamps_) {
        float* const wide = reinterpret_cast<float*>(out);
        post_ops_.Apply(args, wide, at, floats);
        out_.Store(wide, args.out[0], at, floats);
      }
      line += count;
    }
  }

  const ConvGeometry g_;
  const PostOps post_ops_;
  const StoredFloats in_, out_;
  const std::optional<Limits> clamps_;
  const WindowFn strip_;
  size_t rooms_ = 1;                    // parts of the output that are worked on at once
  SharedBytes weights_;                 // of FLOAT_32, where the node's are not
  std::shared_ptr<AlignedBytes> bias_;  // likewise, or zeros
};

}  // namespace

bool TakesWindow(const Node& node, const ConvGeometry& g) {
  constexpr int64_t kMostLines = 7, kLeastFloatWidth = 5, kLeastFloatPixels = 14;
  const Tensor *in = node.inputs[0], *weights = node.inputs[1], *out = node.outputs[0];
  const Tensor* bias = node.HasInput(2) ? node.inputs[2] : nullptr;
  const auto is_float = [](const Tensor* t) {
    return t == nullptr || t->dtype == QNN_DATATYPE_FLOAT_32;
  };
  const auto is_brain = [](const Tensor* t) { return t->dtype == QNN_DATATYPE_BFLOAT_16; };
  if (is_float(in)) {
    // Lines as long, and windows without steps between them as wide, that the kernel library takes
    // 1.1 to 1.5 times the time.
    if (g.kernel[2] < kLeastFloatWidth || g.stride[2] != 1 || g.out[2] < kLeastFloatPixels)
      return false;
    if (CpuIsa() != Isa::kAvx512 || !is_float(weights) || !is_float(bias) || !is_float(out))
      return false;
  } else {
    if (!CpuRoundsBrains() || !is_brain(in) || !is_brain(weights) || !weights->is_static() ||
        !(is_float(bias) || (is_brain(bias) && bias->is_static())) ||
        !(is_float(out) || is_brain(out)))
      return false;
  }
  const bool small = g.kernel[2] == 3 || g.kernel[2] == 5 || g.kernel[2] == 7;
  return small && g.kernel[1] > 1 && g.kernel[1] <= kMostLines && g.kernel[0] == 1 &&
         g.in[0] == 1 && g.out[0] == 1 && g.stride[2] <= 2 && g.dilation[1] == 1 &&
         g.dilation[2] == 1 && g.group == g.cin && g.cout == g.cin &&
         std::max(g.pad_before[2], g.pad_after[2]) < g.kernel[2] &&
         g.cin >= static_cast<int64_t>(kLanes);
}

Result<KernelPtr> MakeWindow(const Node& node, const ConvGeometry& geometry,
                             const KernelOptions& options) {
  return ConvWindow::Make(node, geometry, options);
}

}  // namespace qnnrt
