// Convolution as a matrix product whose left side is read where it lies: for each output pixel and
// kernel tap a pointer to the input pixel's channels, or to zeros where the window hangs over.
#include <algorithm>

#include "ops/conv/conv.h"
#include "ops/gemm.h"
#include "ops/isa.h"
#include "ops/matmul/matmul.h"
#include "ops/tiles.h"

namespace qnnrt {
namespace {

// Below this many channels in a tap, the taps are gathered into one row first.
constexpr int64_t kGatherBelow = 12;
constexpr int64_t kGatherFloats = 1024;  // the longest row that is gathered, times a tile's rows

// Products for an output at most, and outputs for a pixel at least, that take little longer than
// with oneDNN on one thread; on two they take down to half, since there threads share a pixel's
// outputs. So it is on Intel's processors with AVX-512: on AMD's Zen 5 oneDNN takes 0.55 to 0.75 of
// the time, on two threads, too.
constexpr int64_t kMostTerms = 27, kLeastColumns = 64;

struct Pixel {
  int64_t n, d, h, w;
};

Pixel PixelAt(const ConvGeometry& g, size_t index) {
  Pixel p;
  int64_t i = static_cast<int64_t>(index);
  p.w = i % g.out[2];
  i /= g.out[2];
  p.h = i % g.out[1];
  i /= g.out[1];
  p.d = i % g.out[0];
  p.n = i / g.out[0];
  return p;
}

void Advance(const ConvGeometry& g, Pixel* p) {
  if (++p->w < g.out[2]) return;
  p->w = 0;
  if (++p->h < g.out[1]) return;
  p->h = 0;
  if (++p->d < g.out[0]) return;
  p->d = 0;
  ++p->n;
}

bool Inside(int64_t i, int64_t size) {
  return static_cast<uint64_t>(i) < static_cast<uint64_t>(size);
}

// The input's line, at the group's first channel, under one of the kernel's; null: outside.
const float* InputLine(const ConvGeometry& g, const float* in, const Pixel& p, int64_t kd,
                       int64_t kh) {
  const int64_t d = p.d * g.stride[0] - g.pad_before[0] + kd * g.dilation[0];
  const int64_t h = p.h * g.stride[1] - g.pad_before[1] + kh * g.dilation[1];
  if (!Inside(d, g.in[0]) || !Inside(h, g.in[1])) return nullptr;
  return in + ((p.n * g.in[0] + d) * g.in[1] + h) * g.in[2] * g.cin;
}

struct ConvRows {
  const ConvGeometry& g;
  const float* in;  // at the group's first channel
  float* out;       // likewise
  const float* zeros;

  TapRange operator()(size_t m, size_t count, size_t tap, size_t taps, const float** a,
                      float** c) const {
    float* to = out + m * static_cast<size_t>(g.cout);
    for (size_t i = 0; i < count; ++i, to += g.cout) c[i] = to;
    Pixel p = PixelAt(g, m);
    TapRange range{taps, 0};
    for (size_t i = 0; i < count;) {  // the pixels of a line at a time
      const size_t run = std::min(count - i, static_cast<size_t>(g.out[2] - p.w));
      const TapRange seen = Run(p, run, tap, taps, a + i);
      range = {std::min(range.first, seen.first), std::max(range.end, seen.end)};
      i += run;
      p.w += static_cast<int64_t>(run) - 1;
      Advance(g, &p);
    }
    return range.first < range.end ? range : TapRange{0, 0};
  }

  TapRange Run(const Pixel& p, size_t count, size_t tap, size_t taps, const float** a) const {
    TapRange range{taps, 0};
    const int64_t lines = static_cast<int64_t>(tap) / g.kernel[2];
    int64_t kw = static_cast<int64_t>(tap) % g.kernel[2];
    int64_t kh = lines % g.kernel[1], kd = lines / g.kernel[1];
    const int64_t w0 = p.w * g.stride[2] - g.pad_before[2];
    const int64_t last = (static_cast<int64_t>(count) - 1) * g.stride[2];
    const int64_t step = g.stride[2] * g.cin;
    const float* line = InputLine(g, in, p, kd, kh);
    for (size_t t = 0; t < taps; ++t, a += kMaxTileRows) {
      int64_t w = w0 + kw * g.dilation[2];
      if (line == nullptr || w + last < 0 || w >= g.in[2]) {
        std::fill_n(a, count, zeros);
      } else {
        range = {std::min(range.first, t), t + 1};
        if (w >= 0 && w + last < g.in[2]) {
          const float* at = line + w * g.cin;
          for (size_t i = 0; i < count; ++i, at += step) a[i] = at;
        } else {
          for (size_t i = 0; i < count; ++i, w += g.stride[2]) {
            a[i] = Inside(w, g.in[2]) ? line + w * g.cin : zeros;
          }
        }
      }
      if (++kw < g.kernel[2]) continue;
      kw = 0;
      if (++kh == g.kernel[1]) {
        kh = 0;
        ++kd;
      }
      line = InputLine(g, in, p, kd, kh);
    }
    return range;
  }
};

// The taps of a line as one, where their channels lie side by side: a pointer for each line of the
// kernel, to the input where the window is inside of it, else to what is gathered in `buffer`
// (kMaxTileRows x lines x channels).
struct LineRows {
  const ConvGeometry& g;
  const float* in;
  float* out;
  float* buffer;

  TapRange operator()(size_t m, size_t count, size_t tap, size_t taps, const float** a,
                      float** c) const {
    const int64_t wide = g.kernel[2] * g.cin;
    float* gathered = buffer;
    Pixel p = PixelAt(g, m);
    if (SideBySide(p, count)) {
      const float* zeros = nullptr;
      for (size_t t = 0; t < taps; ++t) {
        const float* line = LineOf(p, tap + t);
        if (line == nullptr) {
          if (zeros == nullptr) {
            zeros = buffer;
            std::fill_n(buffer, wide, 0.0f);
          }
          std::fill_n(a + t * kMaxTileRows, count, zeros);
          continue;
        }
        const float* at = line + (p.w * g.stride[2] - g.pad_before[2]) * g.cin;
        const int64_t step = g.stride[2] * g.cin;
        for (size_t i = 0; i < count; ++i, at += step) a[t * kMaxTileRows + i] = at;
      }
      float* to = out + m * static_cast<size_t>(g.cout);
      for (size_t i = 0; i < count; ++i, to += g.cout) c[i] = to;
      return {0, taps};
    }
    for (size_t i = 0; i < count; ++i, Advance(g, &p)) {
      c[i] = out + (m + i) * static_cast<size_t>(g.cout);
      const int64_t w0 = p.w * g.stride[2] - g.pad_before[2];
      const bool whole = w0 >= 0 && w0 + g.kernel[2] <= g.in[2];
      for (size_t t = 0; t < taps; ++t) {
        const float* line = LineOf(p, tap + t);
        const float** to = a + t * kMaxTileRows + i;
        if (line != nullptr && whole) {
          *to = line + w0 * g.cin;
          continue;
        }
        *to = gathered;
        gathered = line != nullptr ? Gather(line, w0, gathered) : std::fill_n(gathered, wide, 0.0f);
      }
    }
    return {0, taps};
  }

  // Whether so many pixels from one on are of one line, and their windows inside of the input's.
  bool SideBySide(const Pixel& p, size_t count) const {
    const int64_t last = p.w + static_cast<int64_t>(count) - 1;
    return last < g.out[2] && p.w * g.stride[2] >= g.pad_before[2] &&
           last * g.stride[2] - g.pad_before[2] + g.kernel[2] <= g.in[2];
  }

  const float* LineOf(const Pixel& p, size_t index) const {
    const int64_t line = static_cast<int64_t>(index);
    return InputLine(g, in, p, line / g.kernel[1], line % g.kernel[1]);
  }

  float* Gather(const float* line, int64_t w0, float* row) const {
    const int64_t left = std::clamp<int64_t>(-w0, 0, g.kernel[2]);
    const int64_t right = std::clamp<int64_t>(g.in[2] - w0, left, g.kernel[2]);
    row = std::fill_n(row, left * g.cin, 0.0f);
    row = std::copy_n(line + (w0 + left) * g.cin, (right - left) * g.cin, row);
    return std::fill_n(row, (g.kernel[2] - right) * g.cin, 0.0f);
  }
};

// The same as one long tap: rows gathered into `buffer` (kMaxTileRows x taps x channels).
struct GatheredRows {
  const ConvGeometry& g;
  const float* in;
  float* out;
  float* buffer;

  TapRange operator()(size_t m, size_t count, size_t, size_t, const float** a, float** c) const {
    const int64_t depth = g.cin_per_group();
    float* row = buffer;
    Pixel p = PixelAt(g, m);
    for (size_t i = 0; i < count; ++i, Advance(g, &p)) {
      c[i] = out + (m + i) * static_cast<size_t>(g.cout);
      a[i] = row;
      const int64_t w0 = p.w * g.stride[2] - g.pad_before[2];
      for (int64_t kd = 0; kd < g.kernel[0]; ++kd) {
        const int64_t d = p.d * g.stride[0] - g.pad_before[0] + kd * g.dilation[0];
        for (int64_t kh = 0; kh < g.kernel[1]; ++kh) {
          const int64_t h = p.h * g.stride[1] - g.pad_before[1] + kh * g.dilation[1];
          row =
              Inside(d, g.in[0]) && Inside(h, g.in[1])
                  ? Line(in + ((p.n * g.in[0] + d) * g.in[1] + h) * g.in[2] * g.cin, w0, depth, row)
                  : std::fill_n(row, g.kernel[2] * depth, 0.0f);
        }
      }
    }
    return {0, 1};
  }

  float* Line(const float* line, int64_t w0, int64_t depth, float* row) const {
    for (int64_t kw = 0; kw < g.kernel[2]; ++kw) {
      const int64_t w = w0 + kw * g.dilation[2];
      row = Inside(w, g.in[2]) ? std::copy_n(line + w * g.cin, depth, row)
                               : std::fill_n(row, depth, 0.0f);
    }
    return row;
  }
};

bool HasFewChannels(const ConvGeometry& g) {
  return g.taps() > 1 && g.cin_per_group() < kGatherBelow &&
         g.taps() * g.cin_per_group() <= kGatherFloats;
}

class ConvGemm final : public PackedConv {
 public:
  static Result<KernelPtr> Make(const Node& node, const ConvGeometry& g,
                                const KernelOptions& options) {
    std::unique_ptr<ConvGemm> kernel(new ConvGemm(node, g));
    QNNRT_RETURN_IF_ERROR(kernel->Init(node, options));
    return KernelPtr(std::move(kernel));
  }

  Status Run(const ExecArgs& args) override {
    const float* packed = Packed(args);
    const float* in = static_cast<const float*>(args.in[0]);
    float* out = static_cast<float*>(args.out[0]);
    GemmShape shape;
    shape.m = static_cast<size_t>(g_.out_pixels());
    shape.n = static_cast<size_t>(g_.cout_per_group());
    shape.taps = gather_  ? 1
                 : lines_ ? static_cast<size_t>(g_.kernel[0] * g_.kernel[1])
                          : static_cast<size_t>(g_.taps());
    shape.depth = k_ / shape.taps;
    const GemmUnits units = CutGemm(shape, args.threads.limit());
    const FinishRows finish_all(post_ops_, args, out);
    shape.finish = finish_all.at_once();
    const size_t depth = static_cast<size_t>(g_.cin_per_group());
    // Groups of the same pixels follow each other: their outputs share cache lines.
    const size_t groups = static_cast<size_t>(g_.group);
    args.threads.For(units.count() * groups, units.grain, [&](size_t begin, size_t end) {
      float buffer[kGatherFloats * kMaxTileRows];
      for (size_t i = begin; i < end; ++i) {
        const size_t group = i % groups, unit = i / groups;
        GemmShape mine = shape;
        mine.packed = packed + group * group_floats_;
        mine.bias = BiasOf(args, group);
        const float* group_in = in + group * depth;
        float* group_out = out + group * shape.n;
        if (gather_) {
          RunGemmUnit(mine, units, unit, GatheredRows{g_, group_in, group_out, buffer}, finish_all);
        } else if (lines_) {
          RunGemmUnit(mine, units, unit, LineRows{g_, group_in, group_out, buffer}, finish_all);
        } else {
          RunGemmUnit(mine, units, unit, ConvRows{g_, group_in, group_out, zeros()}, finish_all);
        }
      }
    });
    return Status::Ok();
  }

 private:
  ConvGemm(const Node& node, const ConvGeometry& g)
      : PackedConv(node, g),
        k_(static_cast<size_t>(g.taps() * g.cin_per_group())),
        lines_(HasFewChannels(g) && g.group == 1 && g.dilation[2] == 1),
        gather_(HasFewChannels(g) && !lines_) {
    group_floats_ = PackedFloats(k_, static_cast<size_t>(g.cout_per_group()));
  }

  std::string Layout() const override {
    return PanelLayout("convolution of " + std::to_string(g_.group) + " groups", k_,
                       static_cast<size_t>(g_.cout_per_group()));
  }

  // Weights are [taps, channels of the group, all output channels].
  void Pack(const float* weights, float* packed, const Threads& threads) const override {
    const size_t n = static_cast<size_t>(g_.cout_per_group());
    for (size_t group = 0; group < static_cast<size_t>(g_.group); ++group) {
      PackAll({weights + group * n, static_cast<size_t>(g_.cout), 1}, k_, n,
              packed + group * group_floats_, threads);
    }
  }

  const size_t k_;
  const bool lines_, gather_;
};

}  // namespace

bool TakesFewChannels(const Node& node, const ConvGeometry& g) {
  for (const Tensor* t : {node.inputs[0], node.inputs[1], node.outputs[0]}) {
    if (t->dtype != QNN_DATATYPE_FLOAT_32) return false;
  }
  return CpuIsa() == Isa::kAvx512 && CpuIsIntel() && HasFewChannels(g) && g.group == 1 &&
         g.dilation[2] == 1 && node.inputs[1]->is_static() && g.taps() * g.cin <= kMostTerms &&
         g.cout >= kLeastColumns;
}

// As of a product's rows (onednn/matmul.cc). Of smaller weights, which caches keep, a thread's own
// pixels count for more (decision 32).
bool TakesFewPixels(const Node& node, const ConvGeometry& g) {
  constexpr int64_t kMostPixels = 128, kLargeWeights = 192 * 1024;
  const auto is_brain = [](const Tensor* t) { return t->dtype == QNN_DATATYPE_BFLOAT_16; };
  const auto stored = [&](const Tensor* t) {
    return is_brain(t) || t->dtype == QNN_DATATYPE_FLOAT_32;
  };
  return HasTiles() && is_brain(node.inputs[0]) && is_brain(node.inputs[1]) &&
         node.inputs[1]->is_static() && stored(node.outputs[0]) &&
         (!node.HasInput(2) || stored(node.inputs[2])) && g.group == 1 && g.IsOfPixels() &&
         g.cin * g.cout >= kLargeWeights && g.out_pixels() > 1 && g.out_pixels() <= kMostPixels;
}

Result<KernelPtr> MakeConv(const Node& node, const KernelOptions& options) {
  QNNRT_ASSIGN_OR_RETURN(const ConvGeometry g, ReadConv(node));
  if (TakesFewPixels(node, g)) {
    MatMulGeometry product;
    product.m = static_cast<size_t>(g.out_pixels());
    product.n = static_cast<size_t>(g.cout);
    product.k = static_cast<size_t>(g.cin);
    return MakeNarrowMatMul(node, product, options);
  }
  if (TakesGroupTiles(node, g)) return MakeGroupTiles(node, g, options);
  if (TakesWindow(node, g)) return MakeWindow(node, g, options);
  if (TakesByChannel(node, g)) return MakeByChannel(node, g, options);
  // The depthwise ops take floats of 16 bits as they are, but those of one channel end up here.
  const auto narrow = [](const Tensor* t) { return t != nullptr && NarrowFloatOf(t->dtype); };
  if (narrow(node.outputs[0]) || std::any_of(node.inputs.begin(), node.inputs.end(), narrow))
    return MakeViaFloat(*FindOp(node.type), node, options);
  if (TakesWinograd(node, g)) return MakeWinograd(node, g, options);
  return ConvGemm::Make(node, g, options);
}

}  // namespace qnnrt
