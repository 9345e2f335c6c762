// Depthwise convolution by small windows, in the vectors of AVX-512. A vector has sixteen channels;
// the sums of seven pixels of two lines stay in registers, and each pixel of the input is loaded
// once for all of them that see it. Channels are the innermost loop: the input is read as it lies.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "ops/blocked_layout.h"
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

constexpr int64_t kLanes = 16;
constexpr int64_t kWindowGrain = 64 * 1024;  // products worth a thread
constexpr size_t kStripBytes = 32 * 1024;    // of the output, which a second pass finds in a cache
constexpr int kPixels = 7, kLines = 2;       // of a tile

// Some lines of an image, or some channels of them: pointers are at its first channel.
struct WindowStrip {
  const void* in;  // the image
  void* out;       // line `begin`
  const float *weights, *bias;
  int64_t channels;                   // from pixel to pixel, and from tap to tap
  int64_t in_lines, columns, pixels;  // of the input; of a line of the output
  int64_t window_lines, stride, top, left;
  int64_t begin, end;                  // lines
  int64_t first_channel, channel_end;  // kLanes or more
  float low, high;
  bool hard_swish;  // behind the limits
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
// All of them, or zeros, for which nothing is read at `p`: a load whose mask leaves all out of a
// page that is not there is an exception to the processor, of 100 ns. (With a mask, a load takes a
// place of a multiplication's.)
template <typename In>
QNNRT_WINDOW QNNRT_INLINE __m512 LoadLanes(const In* p, const In* within, __mmask16 inside) {
  const __m512 v = LoadLanes(inside != 0 ? p : within);
  return _mm512_maskz_mov_ps(inside, v);
}
QNNRT_WINDOW QNNRT_INLINE void StoreLanes(float* p, __m512 v) { _mm512_storeu_ps(p, v); }
QNNRT_WINDOW QNNRT_INLINE void StoreLanes(Brain* p, __m512 v) {
  const __m256bh b = _mm512_maskz_cvtneps_pbh(kAll, v);
  __builtin_memcpy(p, &b, sizeof(b));
}

QNNRT_WINDOW QNNRT_INLINE __m512 HardSwish(__m512 x) {
  const __m512 gate = _mm512_maskz_max_ps(kAll, _mm512_setzero_ps(), x + _mm512_set1_ps(3.0f));
  return x * (_mm512_maskz_min_ps(kAll, _mm512_set1_ps(6.0f), gate) * _mm512_set1_ps(1.0f / 6));
}

QNNRT_INLINE bool IsInside(int64_t at, int64_t count) {
  return static_cast<uint64_t>(at) < static_cast<uint64_t>(count);
}

// What line number `line` of the input that the tile sees, from `at` on, adds to the sums. (The
// number is a constant where there are several lines: each of them has other taps there.)
template <int kWidth, int kStride, int kTall, bool kWhole, typename In>
QNNRT_WINDOW QNNRT_INLINE void AddLine(const In* at, const float* weights, int64_t line,
                                       int64_t step, int64_t first, int64_t columns,
                                       const __mmask16* left, const __mmask16* right,
                                       __m512 (*sums)[kPixels]) {
  constexpr int kColumns = (kPixels - 1) * kStride + kWidth, kEdge = kWidth - 1;
  const In* const within = at + kEdge * step;  // the first column that is one of the image
#pragma GCC unroll 40
  for (int c = 0; c < kColumns; ++c, at += step) {
    if (!kWhole && !IsInside(first + c, columns)) continue;
    const bool is_left = kWhole && c < kEdge, is_right = kWhole && c >= kColumns - kEdge;
    const __m512 v = is_left    ? LoadLanes(at, within, left[c])
                     : is_right ? LoadLanes(at, within, right[c - (kColumns - kEdge)])
                                : LoadLanes(at);
#pragma GCC unroll 2
    for (int l = 0; l < kTall; ++l) {
      const int64_t taps = line - l * kStride;
      if (kTall > 1 && !IsInside(taps, kWidth)) continue;
#pragma GCC unroll 8
      for (int i = 0; i < kWidth; ++i) {
        const int p = (c - i) / kStride;
        if (c < i || (c - i) % kStride != 0 || p >= kPixels) continue;
        const __m512 w = _mm512_loadu_ps(weights + (taps * kWidth + i) * step);
        sums[l][p] = _mm512_fmadd_ps(v, w, sums[l][p]);
      }
    }
  }
}

// Sixteen channels of kTall lines from y on and kPixels pixels from x on, or, unless kWhole, of
// those pixels that there are. Several lines: of a window that is as high as wide, in equal steps.
template <int kWidth, int kStride, int kTall, bool kWhole, typename In, typename Out>
QNNRT_WINDOW QNNRT_INLINE void WindowTile(const WindowStrip& s, int64_t y, int64_t x,
                                          int64_t channel) {
  constexpr int kColumns = (kPixels - 1) * kStride + kWidth, kEdge = kWidth - 1;
  const int64_t step = s.channels, columns = s.columns;
  const int64_t first = x * kStride - s.left, above = y * s.stride - s.top;
  __m512 sums[kTall][kPixels];
  const __m512 bias = _mm512_loadu_ps(s.bias + channel);
#pragma GCC unroll 2
  for (int l = 0; l < kTall; ++l) {
#pragma GCC unroll 8
    for (int p = 0; p < kPixels; ++p) sums[l][p] = bias;
  }
  // Only columns at the ends of a whole tile may be outside of the image.
  __mmask16 left[kEdge], right[kEdge];
#pragma GCC unroll 8
  for (int i = 0; i < kEdge; ++i) {
    left[i] = IsInside(first + i, columns) ? kAll : __mmask16{0};
    right[i] = IsInside(first + kColumns - kEdge + i, columns) ? kAll : __mmask16{0};
  }
  const float* const weights = s.weights + channel;
  const In* const in = static_cast<const In*>(s.in) + (above * columns + first) * step + channel;
  if constexpr (kTall > 1) {
#pragma GCC unroll 16
    for (int l = 0; l < (kTall - 1) * kStride + kWidth; ++l) {
      if (!IsInside(above + l, s.in_lines)) continue;
      AddLine<kWidth, kStride, kTall, kWhole>(in + l * columns * step, weights, l, step, first,
                                              columns, left, right, sums);
    }
  } else {
    const int64_t to = std::min(s.window_lines, s.in_lines - above);
    for (int64_t l = std::max<int64_t>(0, -above); l < to; ++l) {
      AddLine<kWidth, kStride, kTall, kWhole>(in + l * columns * step, weights, l, step, first,
                                              columns, left, right, sums);
    }
  }
  // What is no number stays none: both take the second one then.
  const __m512 low = _mm512_set1_ps(s.low), high = _mm512_set1_ps(s.high);
  Out* out = static_cast<Out*>(s.out) + ((y - s.begin) * s.pixels + x) * step + channel;
#pragma GCC unroll 2
  for (int l = 0; l < kTall; ++l, out += s.pixels * step) {
#pragma GCC unroll 8
    for (int p = 0; p < kPixels; ++p) {
      if (!kWhole && x + p >= s.pixels) break;
      __m512 sum = _mm512_maskz_max_ps(kAll, low, sums[l][p]);
      sum = _mm512_maskz_min_ps(kAll, high, sum);
      if (s.hard_swish) sum = HardSwish(sum);
      StoreLanes(out + p * step, sum);
    }
  }
}

template <int kWidth, int kStride, int kTall, typename In, typename Out>
QNNRT_WINDOW QNNRT_INLINE void WindowLines(const WindowStrip& s, int64_t y) {
  for (int64_t x = 0; x < s.pixels; x += kPixels) {
    for (int64_t i = s.first_channel; i < s.channel_end; i += kLanes) {
      const int64_t channel = std::min(i, s.channel_end - kLanes);  // the last ones may overlap
      if (x + kPixels <= s.pixels) {
        WindowTile<kWidth, kStride, kTall, true, In, Out>(s, y, x, channel);
      } else {
        WindowTile<kWidth, kStride, kTall, false, In, Out>(s, y, x, channel);
      }
    }
  }
}

template <int kWidth, int kStride, typename In, typename Out>
QNNRT_WINDOW void WindowStripOf(const WindowStrip& s) {
  int64_t y = s.begin;
  const bool even = s.window_lines == kWidth && s.stride == kStride;
  for (; even && y + kLines <= s.end; y += kLines)
    WindowLines<kWidth, kStride, kLines, In, Out>(s, y);
  for (; y < s.end; ++y) WindowLines<kWidth, kStride, 1, In, Out>(s, y);
}

template <int kWidth, typename In, typename Out>
WindowFn Pick(const ConvGeometry& g) {
  return g.stride[2] == 1 ? WindowStripOf<kWidth, 1, In, Out> : WindowStripOf<kWidth, 2, In, Out>;
}

template <typename In, typename Out>
WindowFn Pick(const ConvGeometry& g) {
  return g.kernel[2] == 3   ? Pick<3, In, Out>(g)
         : g.kernel[2] == 5 ? Pick<5, In, Out>(g)
                            : Pick<7, In, Out>(g);
}

WindowFn Pick(const ConvGeometry& g, bool narrow_in, bool narrow_out) {
  if (narrow_in) return narrow_out ? Pick<Brain, Brain>(g) : Pick<Brain, float>(g);
  return Pick<float, float>(g);
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
    if (weights.is_static()) {
      const bool narrow = StoredFloats(weights).narrow();
      const std::string layout = narrow ? kWidened : WeightLayout(weights, g);
      QNNRT_ASSIGN_OR_RETURN(kernel->weights_, PackAsFloats(weights, options, layout));
    }
    QNNRT_RETURN_IF_ERROR(kernel->KeepBias(node));
    kernel->PlanRooms(options.threads);
    return KernelPtr(std::move(kernel));
  }

  Status Run(const ExecArgs& args) override {
    const int64_t rooms = static_cast<int64_t>(rooms_);
    args.threads.For(rooms_, 1, [&](size_t begin, size_t end) {
      for (int64_t room = static_cast<int64_t>(begin); room < static_cast<int64_t>(end); ++room)
        RunPart(args, PartOf(room, rooms),
                static_cast<float*>(args.scratch) + static_cast<size_t>(room) * RoomFloats());
    });
    return Status::Ok();
  }

  size_t ScratchBytes() const override { return rooms_ * RoomFloats() * sizeof(float); }
  bool ReadsInput(size_t i) const override { return (i != 1 || !weights_) && (i != 2 || !bias_); }
  size_t WeightBytes() const override { return weights_ ? weights_->size() : 0; }

 private:
  // As they come, in oneDNN's words: processors on which the node is oneDNN's move them, and back.
  static std::string WeightLayout(const Tensor& weights, const ConvGeometry& g) {
    BlockedLayout layout;
    layout.type = kFloatLayout;
    layout.dims = {g.cout, 1, 1};  // groups, and of each its outputs and inputs
    layout.strides = {1, g.cout, g.cout};
    if (weights.shape.size() > 4) {
      layout.dims.push_back(1);
      layout.strides.push_back(g.taps() * g.cout);
    }
    layout.dims.insert(layout.dims.end(), {g.kernel[1], g.kernel[2]});
    layout.strides.insert(layout.strides.end(), {g.kernel[2] * g.cout, g.cout});
    layout.padded = layout.dims;
    return layout.Text();
  }

  ConvWindow(const Node& node, const ConvGeometry& g)
      : g_(g),
        post_ops_(node),
        in_(*node.inputs[0]),
        out_(*node.outputs[0]),
        hard_swish_(IsHardSwish(node)),
        clamps_(hard_swish_ ? Limits{-INFINITY, INFINITY} : post_ops_.Clamps()),
        strip_(Pick(g, in_.narrow(), out_.narrow() && clamps_)) {}

  static bool IsHardSwish(const Node& node) {
    return node.post_ops.size() == 1 && node.post_ops[0].kind == PostOp::Kind::kActivation &&
           node.post_ops[0].activation == Activation::kHardSwish;
  }

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
    if (clamps_) return g_.out[1];
    const int64_t lines = static_cast<int64_t>(kStripBytes / (LineFloats() * sizeof(float)));
    return std::max<int64_t>(1, lines / kLines) * kLines;
  }
  size_t RoomFloats() const {  // what a part of the output needs
    if (clamps_ || !out_.narrow()) return 0;
    const size_t floats = static_cast<size_t>(StripLines()) * LineFloats();
    return ScratchRoom(floats * sizeof(float)) / sizeof(float);
  }

  // Lines as long as each thread has some: what it reads of a line, and what reads its result, is
  // mostly its own, too. Of a few lines one thread has a third more than the other, which in large
  // windows outweighs that.
  void PlanRooms(int threads) {
    constexpr int64_t kFewLines = 4, kLargeWindow = 25, kManyProducts = 6 * kWindowGrain;
    const int64_t work = Lines() * g_.out[2] * g_.cout * g_.taps();
    const int64_t rooms = std::clamp<int64_t>(work / kWindowGrain, 1, threads);
    by_channel_ = rooms > 1 && Lines() < rooms * kFewLines && g_.taps() >= kLargeWindow &&
                  work >= rooms * kManyProducts && g_.cout % ChannelUnit() == 0 &&
                  g_.cout / ChannelUnit() >= rooms;
    rooms_ = static_cast<size_t>(by_channel_ ? rooms : std::min(rooms, Lines()));
  }

  // Channels that fill lines of a cache, so that no two threads write to the same one.
  int64_t ChannelUnit() const { return in_.narrow() ? 2 * kLanes : kLanes; }

  struct Part {
    int64_t line, line_end, channel, channel_end;
  };
  Part PartOf(int64_t i, int64_t count) const {
    if (!by_channel_) return {Lines() * i / count, Lines() * (i + 1) / count, 0, g_.cout};
    const int64_t unit = ChannelUnit(), units = g_.cout / unit;
    return {0, Lines(), units * i / count * unit, units * (i + 1) / count * unit};
  }

  void RunPart(const ExecArgs& args, const Part& part, float* buffer) const {
    const size_t channels = static_cast<size_t>(g_.cout);
    const size_t in_size = in_.narrow() ? sizeof(uint16_t) : sizeof(float);
    const size_t out_size = out_.narrow() && clamps_ ? sizeof(uint16_t) : sizeof(float);
    const float* const weights =
        static_cast<const float*>(weights_ ? weights_->data() : args.in[1]);
    const float* const bias = static_cast<const float*>(bias_ ? bias_->data() : args.in[2]);
    const Limits limits = clamps_.value_or(Limits{-INFINITY, INFINITY});
    for (int64_t line = part.line; line < part.line_end;) {
      const int64_t image = line / g_.out[1], y = line % g_.out[1];
      const int64_t count = std::min({StripLines(), g_.out[1] - y, part.line_end - line});
      const char* in = static_cast<const char*>(args.in[0]) +
                       static_cast<size_t>(image * g_.in[1] * g_.in[2]) * channels * in_size;
      const size_t at = static_cast<size_t>(line) * LineFloats();
      const size_t floats = static_cast<size_t>(count) * LineFloats();
      char* out = out_.narrow() && !clamps_ ? reinterpret_cast<char*>(buffer)
                                            : static_cast<char*>(args.out[0]) + at * out_size;
      strip_({in, out, weights, bias, g_.cout, g_.in[1], g_.in[2], g_.out[2], g_.kernel[1],
              g_.stride[1], g_.pad_before[1], g_.pad_before[2], y, y + count, part.channel,
              part.channel_end, limits.low, limits.high, hard_swish_});
      if (!clamps_) Finish(args, part, reinterpret_cast<float*>(out), at, floats);
      line += count;
    }
  }

  // Applies the post ops to the part's channels of what was computed, and stores them.
  void Finish(const ExecArgs& args, const Part& part, float* values, size_t at,
              size_t floats) const {
    const size_t step = static_cast<size_t>(g_.cout);
    const size_t first = static_cast<size_t>(part.channel);
    const size_t count = static_cast<size_t>(part.channel_end) - first;
    const size_t run = count == step ? floats : count;  // that lies in one piece
    for (size_t i = first; i < floats; i += count == step ? floats : step) {
      post_ops_.Apply(args, values + i, at + i, run);
      out_.Store(values + i, args.out[0], at + i, run);
    }
  }

  const ConvGeometry g_;
  const PostOps post_ops_;
  const StoredFloats in_, out_;
  const bool hard_swish_;
  const std::optional<Limits> clamps_;  // and nothing else, or hard_swish_, follows
  const WindowFn strip_;
  size_t rooms_ = 1;                    // parts of the output that are worked on at once
  bool by_channel_ = false;             // what they are parts of: lines, or channels
  SharedBytes weights_;                 // of FLOAT_32; null: the node's
  std::shared_ptr<AlignedBytes> bias_;  // of FLOAT_32, where the node's is not, or zeros
};

}  // namespace

bool TakesWindow(const Node& node, const ConvGeometry& g) {
  constexpr int64_t kMostLines = 7;
  const Tensor *in = node.inputs[0], *weights = node.inputs[1], *out = node.outputs[0];
  const Tensor* bias = node.HasInput(2) ? node.inputs[2] : nullptr;
  const auto is_float = [](const Tensor* t) {
    return t == nullptr || t->dtype == QNN_DATATYPE_FLOAT_32;
  };
  const auto is_brain = [](const Tensor* t) { return t->dtype == QNN_DATATYPE_BFLOAT_16; };
  if (is_float(in)) {
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
         std::max(g.pad_before[2], g.pad_after[2]) < g.kernel[2] && g.cin >= kLanes;
}

Result<KernelPtr> MakeWindow(const Node& node, const ConvGeometry& geometry,
                             const KernelOptions& options) {
  return ConvWindow::Make(node, geometry, options);
}

}  // namespace qnnrt
