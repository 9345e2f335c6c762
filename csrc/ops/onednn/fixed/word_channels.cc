#include "ops/onednn/fixed/word_channels.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "ops/onednn/fixed/window_pixels.h"
#include "ops/onednn/fixed/word_vectors.h"
#include "ops/rules.h"
#include "ops/weights.h"

namespace qnnrt::onednn {

#if defined(__x86_64__)

namespace {

constexpr size_t kTogether = WordJoin::kChannels;  // in a register
constexpr size_t kPixelsAtOnce = 4;                // of a line: they share the weights
constexpr size_t kMostTaps = 128;                  // whose addresses are kept
constexpr int32_t kHalf = 32768;                   // what signed numbers are below unsigned ones
constexpr int64_t kWorthThread = 96 * 1024;        // products worth a thread

size_t RowPairs(size_t rows) { return (rows + 1) / 2; }

// Of a block of 32 channels: sums of the weights, times kHalf; and for each pair of rows of the
// window and each column the weights of both rows beside each other. All in the order in which
// unpacking leaves the channels: the lower halves of all quarters first.
size_t BlockBytes(size_t rows, size_t columns) {
  return kTogether * (sizeof(int32_t) + RowPairs(rows) * columns * 2 * sizeof(int16_t));
}
size_t Unpacked(size_t c) { return c % 8 / 4 * 16 + c / 8 * 4 + c % 4; }

struct Pixels {
  // Of each pair of rows: the pixels of a row by column, and then those of the other one.
  const uint16_t* const* in;
  size_t rows, columns;  // of the window
  size_t width;          // columns of pixels under all windows
  size_t stride, gap;    // columns from a window to the next one, and from tap to tap
  uint16_t flip;
  const char* weights;
  size_t block_bytes;
  const WordJoin* joins;
  const Requantize* to;
  uint16_t* out;
  size_t channels;
};

QNNRT_VNNI QNNRT_INLINE __m512i LoadWords(const uint16_t* from, __m512i flip, __mmask32 mask,
                                          bool whole) {
  const __m512i x = whole ? _mm512_loadu_si512(from) : _mm512_maskz_loadu_epi16(mask, from);
  return _mm512_xor_si512(x, flip);
}

// kColumns and kStride: of what is known beforehand; 0: in `p`.
template <size_t kCount, size_t kColumns, size_t kStride, bool kPlain, bool kWhole>
QNNRT_VNNI QNNRT_INLINE void SumBlock(const Pixels& p, size_t c, const char* weights,
                                      const WordJoin& joining,
                                      const WordCodes<!kPlain, !kPlain>& join) {
  constexpr bool kKnown = kColumns != 0;
  const __m512i flip = _mm512_set1_epi16(static_cast<int16_t>(p.flip));
  const size_t left = p.channels - c;
  const __mmask32 mask = kWhole ? ~__mmask32{0} : (__mmask32{1} << left) - 1;
  const size_t columns = kKnown ? kColumns : p.columns;
  const size_t width = kKnown ? (kCount - 1) * kStride + kColumns : p.width;
  __m512i sums[kCount][2];
#pragma GCC unroll 4
  for (size_t i = 0; i < kCount; ++i) {
    sums[i][0] = _mm512_load_si512(joining.start);
    sums[i][1] = _mm512_load_si512(joining.start + 16);
  }
  const uint16_t* const* in = p.in;
  const char* w = weights + kTogether * sizeof(int32_t);
  for (size_t row = 0; row < p.rows; row += 2, in += 2 * width, w += columns * 128) {
    const bool both = row + 1 < p.rows;
    const auto column = [&](size_t x) QNNRT_VNNI __attribute__((always_inline)) {
      const __m512i a = LoadWords(in[x] + c, flip, mask, kWhole);
      const __m512i b =
          both ? LoadWords(in[width + x] + c, flip, mask, kWhole) : _mm512_setzero_si512();
      const __m512i low = _mm512_unpacklo_epi16(a, b), high = _mm512_unpackhi_epi16(a, b);
#pragma GCC unroll 4
      for (size_t i = 0; i < kCount; ++i) {
        size_t tap = x - i * (kKnown ? kStride : p.stride);  // wraps to the left of the window
        if (!kKnown) {
          if (tap % p.gap != 0) continue;
          tap /= p.gap;
        }
        if (tap >= columns) continue;
        sums[i][0] = _mm512_dpwssd_epi32(sums[i][0], low, _mm512_loadu_si512(w + tap * 128));
        sums[i][1] = _mm512_dpwssd_epi32(sums[i][1], high, _mm512_loadu_si512(w + tap * 128 + 64));
      }
    };
    if constexpr (kKnown) {
#pragma GCC unroll 16
      for (size_t x = 0; x < (kCount - 1) * kStride + kColumns; ++x) column(x);
    } else {
      for (size_t x = 0; x < width; ++x) column(x);
    }
  }
#pragma GCC unroll 4
  for (size_t i = 0; i < kCount; ++i) {
    const __m512i codes =
        join.Packed(join.Sixteen(sums[i][0], joining.fractions, joining.factors),
                    join.Sixteen(sums[i][1], joining.fractions + 16, joining.factors + 16));
    uint16_t* const out = p.out + i * p.channels + c;
    if constexpr (kWhole) {
      _mm512_storeu_si512(out, codes);
    } else {
      _mm512_mask_storeu_epi16(out, mask, codes);
    }
  }
}

template <size_t kCount, size_t kColumns, size_t kStride, bool kPlain>
QNNRT_VNNI void SumTaps(const Pixels& p) {
  const WordCodes<!kPlain, !kPlain> join(*p.to);
  const char* weights = p.weights;
  const WordJoin* joining = p.joins;
  size_t c = 0;
  for (; c + kTogether <= p.channels; c += kTogether, weights += p.block_bytes, ++joining) {
    SumBlock<kCount, kColumns, kStride, kPlain, true>(p, c, weights, *joining, join);
  }
  if (c < p.channels) {
    SumBlock<kCount, kColumns, kStride, kPlain, false>(p, c, weights, *joining, join);
  }
}

using SumTapsFn = void (*)(const Pixels&);

// The usual windows are known beforehand, in which no index is computed.
template <size_t kCount, bool kPlain>
SumTapsFn PickWindow(size_t columns, size_t stride, size_t gap) {
  if (gap == 1 && stride == 1) {
    if (columns == 3) return SumTaps<kCount, 3, 1, kPlain>;
    if (columns == 5) return SumTaps<kCount, 5, 1, kPlain>;
    if (columns == 7) return SumTaps<kCount, 7, 1, kPlain>;
  }
  if (gap == 1 && stride == 2) {
    if (columns == 3) return SumTaps<kCount, 3, 2, kPlain>;
    if (columns == 5) return SumTaps<kCount, 5, 2, kPlain>;
  }
  return SumTaps<kCount, 0, 0, kPlain>;
}

class WordChannels final : public Kernel {
 public:
  WordChannels(const Node& node, const Shape16& s, const Joining& joining)
      : s_(s), to_(joining.to), channels_(static_cast<size_t>(s.cout)) {
    flip_ = node.inputs[0]->dtype == QNN_DATATYPE_SFIXED_POINT_16 ? 0 : 0x8000;
    count_ = std::min(kPixelsAtOnce, static_cast<size_t>(s.out_width));
    width_ = (count_ - 1) * static_cast<size_t>(s.stride_w) +
             (Columns() - 1) * static_cast<size_t>(s.dilation_w) + 1;
  }

  static bool TakesWindow(const Shape16& s) {
    const int64_t width = (kPixelsAtOnce - 1) * s.stride_w + (s.kernel_w - 1) * s.dilation_w + 1;
    return s.kernel_h < static_cast<int64_t>(kMostTaps) &&
           (s.kernel_h + 1) * width <= static_cast<int64_t>(kMostTaps);
  }

  Status Pack(const Tensor& stored, const SignedWeights& weights, const KernelOptions& options,
              const Joining& joining) {
    const size_t bytes = BlockBytes(Rows(), Columns());
    const size_t blocks = (channels_ + kTogether - 1) / kTogether;
    const auto fill = [&](void* to) {
      const int8_t* from = stored.data_as<int8_t>();
      std::memset(to, 0, blocks * bytes);
      for (size_t c = 0; c < channels_; ++c) {
        char* const block = static_cast<char*>(to) + c / kTogether * bytes;
        const size_t at = Unpacked(c % kTogether);
        int16_t* const pairs = reinterpret_cast<int16_t*>(block + kTogether * sizeof(int32_t));
        int32_t sum = 0;
        for (size_t t = 0; t < Rows() * Columns(); ++t) {
          const size_t row = t / Columns(), pair = row / 2 * Columns() + t % Columns();
          const int32_t w = from[t * channels_ + c] + weights.rests[c];
          pairs[pair * 2 * kTogether + 2 * at + row % 2] = static_cast<int16_t>(w);
          sum += w;
        }
        reinterpret_cast<int32_t*>(block)[at] = kHalf * sum;
      }
      return Status::Ok();
    };
    QNNRT_ASSIGN_OR_RETURN(packed_, PackWeights(options, 1, blocks * bytes,
                                                "pairs of rows for vectors, by 32 channels", fill));
    int32_t most = 0;  // of a weight
    for (int32_t rest : weights.rests) most = std::max(most, std::abs(rest) + 128);
    const double* constants = static_cast<const double*>(joining.constants->data());
    joins_ =
        std::make_unique<WordJoins>(constants, constants + channels_, channels_,
                                    65535.0 * most * static_cast<double>(s_.depth()), Unpacked);
    for (size_t b = 0; b < blocks; ++b) {
      const char* block = static_cast<const char*>(packed_->data()) + b * bytes;
      const int32_t* halves = reinterpret_cast<const int32_t*>(block);
      for (size_t i = 0; i < kTogether; ++i) joins_->blocks()[b].start[i] += halves[i];
    }
    PickLoops();
    return Status::Ok();
  }

  // A pixel of padding.
  Status MakeZeros(int32_t zero) {
    zeros_ = AlignedBytes::Make(channels_ * sizeof(uint16_t));
    if (!zeros_) return OutOfMemory();
    // As they are stored: signed ones are lower.
    const int32_t code = flip_ == 0 ? zero - kHalf : zero;
    std::fill_n(static_cast<uint16_t*>(zeros_->data()), channels_, static_cast<uint16_t>(code));
    return Status::Ok();
  }

  Status Run(const ExecArgs& args) override {
    const int64_t work = s_.out_row() * s_.kernel_h * s_.kernel_w;
    const size_t grain = static_cast<size_t>(std::max<int64_t>(1, kWorthThread / work));
    args.threads.For(static_cast<size_t>(s_.images * s_.out_rows), grain,
                     [&](size_t begin, size_t end) {
                       for (size_t line = begin; line < end; ++line) Line(args, line);
                     });
    return Status::Ok();
  }

  size_t ScratchBytes() const override { return 0; }
  bool ReadsInput(size_t i) const override { return i == 0; }
  const char* Name() const override { return "vectors on words"; }
  size_t WeightBytes() const override { return packed_->size() + joins_->bytes(); }

 private:
  size_t Rows() const { return static_cast<size_t>(s_.kernel_h); }
  size_t Columns() const { return static_cast<size_t>(s_.kernel_w); }

  template <bool kPlain>
  SumTapsFn PickCount() const {
    const size_t stride = static_cast<size_t>(s_.stride_w),
                 gap = static_cast<size_t>(s_.dilation_w);
    switch (count_) {
      case 1:
        return PickWindow<1, kPlain>(Columns(), stride, gap);
      case 2:
        return PickWindow<2, kPlain>(Columns(), stride, gap);
      case 3:
        return PickWindow<3, kPlain>(Columns(), stride, gap);
      default:
        return PickWindow<4, kPlain>(Columns(), stride, gap);
    }
  }
  void PickLoops() {
    sum_ = joins_->fractions() || joins_->far() ? PickCount<false>() : PickCount<true>();
  }

  void Line(const ExecArgs& args, size_t line) const {
    const int64_t image = static_cast<int64_t>(line) / s_.out_rows;
    const int64_t top = static_cast<int64_t>(line) % s_.out_rows * s_.stride_h - s_.top;
    const uint16_t* const from =
        static_cast<const uint16_t*>(args.in[0]) + image * s_.in_rows * s_.in_row();
    uint16_t* const to =
        static_cast<uint16_t*>(args.out[0]) + line * static_cast<size_t>(s_.out_row());
    const WindowPixels under{s_.kernel_h, s_.dilation_h, static_cast<int64_t>(width_),
                             s_.in_rows,  s_.in_width,   s_.cin};
    const uint16_t* const zeros = static_cast<const uint16_t*>(zeros_->data());
    const uint16_t* in[kMostTaps];
    Pixels p{in,
             Rows(),
             Columns(),
             width_,
             static_cast<size_t>(s_.stride_w),
             static_cast<size_t>(s_.dilation_w),
             flip_,
             static_cast<const char*>(packed_->data()),
             BlockBytes(Rows(), Columns()),
             joins_->blocks(),
             &to_,
             to,
             channels_};
    const size_t pixels = static_cast<size_t>(s_.out_width);
    for (size_t done = 0; done < pixels; done += count_) {
      // The last ones are as many as the others: some are computed again.
      const size_t x = std::min(done, pixels - count_);
      under.Find(from, zeros, top, static_cast<int64_t>(x) * s_.stride_w - s_.left, in);
      p.out = to + x * channels_;
      sum_(p);
    }
  }

  const Shape16 s_;
  const Requantize to_;
  SharedBytes packed_;
  std::unique_ptr<WordJoins> joins_;
  std::shared_ptr<AlignedBytes> zeros_;
  const size_t channels_;
  size_t count_, width_;  // pixels at a time, and columns under them
  uint16_t flip_;
  SumTapsFn sum_ = nullptr;
};

}  // namespace

bool TakesWordChannels(const Node& node, const Shape16& s, const SignedWeights& weights,
                       int32_t offset) {
  const auto wide = [](const Tensor& t) {
    return t.dtype == QNN_DATATYPE_UFIXED_POINT_16 || t.dtype == QNN_DATATYPE_SFIXED_POINT_16;
  };
  if (!HasWordVectors() || s.product || s.group != s.cin || s.cout != s.cin ||
      !wide(*node.inputs[0]) || !wide(*node.outputs[0]) || !WordChannels::TakesWindow(s)) {
    return false;
  }
  if (s.padded && (offset > 0 || offset < -65535)) return false;
  // Sums of all products fit 32 bits.
  return std::all_of(weights.rests.begin(), weights.rests.end(),
                     [&](int32_t rest) { return s.depth() * (std::abs(rest) + 128) < kHalf; });
}

Result<KernelPtr> MakeWordChannels(const Node& node, const KernelOptions& options, const Shape16& s,
                                   const SignedWeights& weights, int32_t offset,
                                   const Joining& joining) {
  auto kernel = std::make_unique<WordChannels>(node, s, joining);
  QNNRT_RETURN_IF_ERROR(kernel->Pack(*node.inputs[1], weights, options, joining));
  QNNRT_RETURN_IF_ERROR(kernel->MakeZeros(s.padded ? -offset : 0));
  return KernelPtr(std::move(kernel));
}

#else

bool TakesWordChannels(const Node&, const Shape16&, const SignedWeights&, int32_t) { return false; }
Result<KernelPtr> MakeWordChannels(const Node&, const KernelOptions&, const Shape16&,
                                   const SignedWeights&, int32_t, const Joining&) {
  return KernelPtr();
}

#endif

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
