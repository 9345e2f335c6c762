#include "ops/onednn/fixed/byte_channels.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "ops/onednn/fixed/window_pixels.h"
#include "ops/onednn/fixed/word_vectors.h"
#include "ops/rules.h"
#include "ops/weights.h"

namespace qnnrt::onednn {

#if defined(__x86_64__)

namespace {

constexpr size_t kTogether = 64;     // channels of a block, the last of which may be shorter
constexpr int64_t kFewest = 8;       // that are worth vectors
constexpr size_t kPixelsAtOnce = 4;  // of a line: they share the weights
constexpr size_t kMostTaps = 128;    // whose addresses are kept
constexpr int32_t kHalf = 128;       // what signed codes are below unsigned ones
constexpr int64_t kWorthThread = 192 * 1024;  // products worth a thread

size_t RowQuads(size_t rows) { return (rows + 3) / 4; }

// Vectors of sums that so many channels take, 16 each: 4, 2 or 1.
size_t VectorsOf(size_t channels) { return channels > 32 ? 4 : channels > 16 ? 2 : 1; }
// Which channel of a block the i-th sum is of, as unpacking leaves them: of each quarter of a
// vector four channels, of `vectors` vectors one after the other.
size_t ChannelOf(size_t vectors, size_t i) { return i % 16 / 4 * 4 * vectors + i / 16 * 4 + i % 4; }

// Of a block: what sums begin with, and for each four rows of the window and each column the
// weights of these rows beside each other.
size_t BlockBytes(size_t vectors, size_t rows, size_t columns) {
  return vectors * 64 * (1 + RowQuads(rows) * columns);
}

struct Pixels {
  const uint8_t* const* in;  // the pixels of each row under the windows, by column
  size_t rows, columns;      // of the window
  size_t width;              // columns of pixels under all windows
  size_t stride, gap;        // columns from a window to the next one, and from tap to tap
  int8_t flip_out;           // makes unsigned codes signed ones
  const char* weights;
  const float* joins;  // of each block: factors, then addends, in the order of the sums
  uint8_t least;       // of unsigned codes
  float most;
  uint8_t* out;
  size_t channels;
};

// The codes of a pixel, where unpacking wants them.
template <size_t kVectors, bool kWhole, bool kSigned>
QNNRT_VNNI QNNRT_INLINE __m512i LoadBytes(const uint8_t* from, __mmask64 mask) {
  constexpr int8_t kFlip = kSigned ? INT8_MIN : 0;
  if constexpr (kVectors == 4) {
    const __m512i x = kWhole ? _mm512_loadu_si512(from) : _mm512_maskz_loadu_epi8(mask, from);
    return _mm512_xor_si512(x, _mm512_set1_epi8(kFlip));
  } else if constexpr (kVectors == 2) {
    const __m256i x = kWhole ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))
                             : _mm256_maskz_loadu_epi8(static_cast<__mmask32>(mask), from);
    const __m512i spread = _mm512_set_epi64(3, 3, 2, 2, 1, 1, 0, 0);
    const __m512i wide = _mm512_maskz_permutexvar_epi64(kAll8, spread, _mm512_castsi256_si512(x));
    return _mm512_xor_si512(wide, _mm512_set1_epi8(kFlip));
  } else {
    const __m128i x = kWhole ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(from))
                             : _mm_maskz_loadu_epi8(static_cast<__mmask16>(mask), from);
    const __m128i plain = _mm_xor_si128(x, _mm_set1_epi8(kFlip));
    return _mm512_maskz_cvtepu8_epi32(kAll16, plain);
  }
}

// The codes of four rows beside each other.
template <size_t kVectors>
QNNRT_VNNI QNNRT_INLINE void Unpack(const __m512i* rows, __m512i* quads) {
  if constexpr (kVectors == 1) {
    const __m512i b = _mm512_maskz_slli_epi32(kAll16, rows[1], 8);
    const __m512i c = _mm512_maskz_slli_epi32(kAll16, rows[2], 16);
    const __m512i d = _mm512_maskz_slli_epi32(kAll16, rows[3], 24);
    quads[0] = _mm512_or_si512(_mm512_or_si512(rows[0], b), _mm512_or_si512(c, d));
  } else {
    const __m512i ab = _mm512_unpacklo_epi8(rows[0], rows[1]);
    const __m512i cd = _mm512_unpacklo_epi8(rows[2], rows[3]);
    quads[0] = _mm512_unpacklo_epi16(ab, cd);
    quads[1] = _mm512_unpackhi_epi16(ab, cd);
    if constexpr (kVectors == 4) {
      const __m512i ab2 = _mm512_unpackhi_epi8(rows[0], rows[1]);
      const __m512i cd2 = _mm512_unpackhi_epi8(rows[2], rows[3]);
      quads[2] = _mm512_unpacklo_epi16(ab2, cd2);
      quads[3] = _mm512_unpackhi_epi16(ab2, cd2);
    }
  }
}

// Of bytes: those of 16 bits.
QNNRT_VNNI QNNRT_INLINE __m512i Low(__m512i bytes) {
  return _mm512_and_si512(bytes, _mm512_set1_epi16(0xff));
}

template <size_t kVectors, bool kWhole>
QNNRT_VNNI QNNRT_INLINE void Store(const __m512i* sums, const float* joins, const Pixels& p,
                                   __mmask64 mask, uint8_t* out) {
  // What is below 0 becomes 0 where codes become bytes.
  const __m512 most = _mm512_set1_ps(p.most);
  __m512i codes[kVectors];
#pragma GCC unroll 4
  for (size_t j = 0; j < kVectors; ++j) {
    const __m512 sum = _mm512_maskz_cvtepi32_ps(kAll16, sums[j]);
    const __m512 x = _mm512_fmadd_ps(sum, _mm512_loadu_ps(joins + 16 * j),
                                     _mm512_loadu_ps(joins + 16 * (kVectors + j)));
    const __m512 limited = _mm512_maskz_min_ps(kAll16, x, most);
    codes[j] = _mm512_maskz_cvtps_epi32(kAll16, limited);
  }
  const __m512i least = _mm512_set1_epi8(static_cast<int8_t>(p.least));
  const __m512i flip = _mm512_set1_epi8(p.flip_out);
  if constexpr (kVectors == 4) {
    const __m512i low = _mm512_packus_epi32(codes[0], codes[1]);
    const __m512i high = _mm512_packus_epi32(codes[2], codes[3]);
    const __m512i x = _mm512_max_epu8(_mm512_packus_epi16(low, high), least);
    if (kWhole) return _mm512_storeu_si512(out, _mm512_xor_si512(x, flip));
    _mm512_mask_storeu_epi8(out, mask, _mm512_xor_si512(x, flip));
  } else if constexpr (kVectors == 2) {
    const __m512i words = _mm512_packus_epi32(codes[0], codes[1]);
    const __m256i x = _mm512_maskz_cvtepi16_epi8(
        ~__mmask32{0}, _mm512_xor_si512(_mm512_max_epu16(words, Low(least)), Low(flip)));
    if (kWhole) return _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), x);
    _mm256_mask_storeu_epi8(out, static_cast<__mmask32>(mask), x);
  } else {
    const __m512i zero = _mm512_setzero_si512();
    const __m512i words = _mm512_max_epu16(_mm512_packus_epi32(codes[0], zero), Low(least));
    const __m512i plain = _mm512_xor_si512(_mm512_unpacklo_epi16(words, zero), Low(flip));
    const __m128i x = _mm512_maskz_cvtepi32_epi8(kAll16, plain);
    if (kWhole) return _mm_storeu_si128(reinterpret_cast<__m128i*>(out), x);
    _mm_mask_storeu_epi8(out, static_cast<__mmask16>(mask), x);
  }
}

// `count` channels from `c` on, for kCount pixels. kColumns and kStride: of what is known
// beforehand; 0: in `p`. kWhole: as many channels as the vectors have.
template <size_t kVectors, bool kWhole, bool kSigned, size_t kCount, size_t kColumns,
          size_t kStride>
QNNRT_VNNI QNNRT_INLINE void SumBlock(const Pixels& p, size_t c, size_t count, const char* weights,
                                      const float* joins) {
  constexpr bool kKnown = kColumns != 0, kSquare = kColumns == 3;  // has three rows, too
  const __mmask64 mask = count >= 64 ? ~__mmask64{0} : (__mmask64{1} << count) - 1;
  const size_t columns = kKnown ? kColumns : p.columns;
  const size_t width = kKnown ? (kCount - 1) * kStride + kColumns : p.width;
  __m512i sums[kCount][kVectors];
#pragma GCC unroll 4
  for (size_t i = 0; i < kCount; ++i) {
#pragma GCC unroll 4
    for (size_t j = 0; j < kVectors; ++j) sums[i][j] = _mm512_loadu_si512(weights + 64 * j);
  }
  const uint8_t* const* in = p.in;
  const char* w = weights + 64 * kVectors;
  for (size_t row = 0; row < p.rows; row += 4, in += 4 * width, w += columns * 64 * kVectors) {
    const size_t rows = p.rows - row;
    const auto column = [&](size_t x) QNNRT_VNNI __attribute__((always_inline)) {
      __m512i taken[4], quads[kVectors];
      taken[0] = LoadBytes<kVectors, kWhole, kSigned>(in[x] + c, mask);
      taken[1] = taken[2] = taken[3] = _mm512_setzero_si512();  // of weights that are 0
      if (kSquare || rows > 1)
        taken[1] = LoadBytes<kVectors, kWhole, kSigned>(in[width + x] + c, mask);
      if (kSquare || rows > 2)
        taken[2] = LoadBytes<kVectors, kWhole, kSigned>(in[2 * width + x] + c, mask);
      if (!kSquare && rows > 3)
        taken[3] = LoadBytes<kVectors, kWhole, kSigned>(in[3 * width + x] + c, mask);
      Unpack<kVectors>(taken, quads);
#pragma GCC unroll 4
      for (size_t i = 0; i < kCount; ++i) {
        size_t tap = x - i * (kKnown ? kStride : p.stride);  // wraps to the left of the window
        if (!kKnown) {
          if (tap % p.gap != 0) continue;
          tap /= p.gap;
        }
        if (tap >= columns) continue;
        const char* const those = w + tap * 64 * kVectors;
#pragma GCC unroll 4
        for (size_t j = 0; j < kVectors; ++j) {
          sums[i][j] =
              _mm512_dpbusd_epi32(sums[i][j], quads[j], _mm512_loadu_si512(those + 64 * j));
        }
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
    Store<kVectors, kWhole>(sums[i], joins, p, mask, p.out + i * p.channels + c);
  }
}

template <bool kSigned, size_t kCount, size_t kColumns, size_t kStride>
QNNRT_VNNI void SumTaps(const Pixels& p) {
  const size_t bytes = BlockBytes(4, p.rows, p.columns);
  const char* weights = p.weights;
  const float* joins = p.joins;
  for (size_t c = 0; c < p.channels; c += kTogether, weights += bytes, joins += 2 * kTogether) {
    const size_t count = std::min(kTogether, p.channels - c);
    if (count == 64) {
      SumBlock<4, true, kSigned, kCount, kColumns, kStride>(p, c, count, weights, joins);
    } else if (count > 32) {
      SumBlock<4, false, kSigned, kCount, kColumns, kStride>(p, c, count, weights, joins);
    } else if (count == 32) {
      SumBlock<2, true, kSigned, kCount, kColumns, kStride>(p, c, count, weights, joins);
    } else if (count > 16) {
      SumBlock<2, false, kSigned, kCount, kColumns, kStride>(p, c, count, weights, joins);
    } else if (count == 16) {
      SumBlock<1, true, kSigned, kCount, kColumns, kStride>(p, c, count, weights, joins);
    } else {
      SumBlock<1, false, kSigned, kCount, kColumns, kStride>(p, c, count, weights, joins);
    }
  }
}

using SumTapsFn = void (*)(const Pixels&);

// The usual windows are known beforehand, in which no index is computed.
template <bool kSigned>
SumTapsFn PickWindow(size_t count, size_t rows, size_t columns, size_t stride, size_t gap) {
  if (count == 1) return SumTaps<kSigned, 1, 0, 0>;
  if (gap == 1 && stride == 1) {
    if (columns == 3 && rows == 3) return SumTaps<kSigned, kPixelsAtOnce, 3, 1>;
    if (columns == 5) return SumTaps<kSigned, kPixelsAtOnce, 5, 1>;
    if (columns == 7) return SumTaps<kSigned, kPixelsAtOnce, 7, 1>;
  }
  if (gap == 1 && stride == 2) {
    if (columns == 3 && rows == 3) return SumTaps<kSigned, kPixelsAtOnce, 3, 2>;
    if (columns == 5) return SumTaps<kSigned, kPixelsAtOnce, 5, 2>;
  }
  return SumTaps<kSigned, kPixelsAtOnce, 0, 0>;
}

// Along height and width.
struct Window {
  int64_t kernel[2], stride[2], gap[2], before[2], in[2], out[2];
};
Window WindowOf(const Node& node, const ConvShape& c) {
  Window w{};
  for (size_t i = 0; i < 2; ++i) {
    w.kernel[i] = c.weights[c.weights.size() - 2 + i];
    w.stride[i] = c.strides[i];
    w.gap[i] = c.gaps.empty() ? 1 : c.gaps[i] + 1;
    w.before[i] = c.before[i];
    w.in[i] = node.inputs[0]->shape[i + 1];
    w.out[i] = node.outputs[0]->shape[i + 1];
  }
  return w;
}
// Columns of pixels under so many windows of a line.
int64_t WidthOf(const Window& w, int64_t count) {
  return (count - 1) * w.stride[1] + (w.kernel[1] - 1) * w.gap[1] + 1;
}

class ByteChannels final : public Kernel {
 public:
  ByteChannels(const Node& node, const ConvShape& c)
      : w_(WindowOf(node, c)),
        images_(node.inputs[0]->shape[0]),
        channels_(static_cast<size_t>(c.cout)),
        blocks_((channels_ + kTogether - 1) / kTogether) {
    const int64_t at_once = static_cast<int64_t>(kPixelsAtOnce);
    count_ = w_.out[1] < at_once ? 1 : kPixelsAtOnce;
    width_ = WidthOf(w_, static_cast<int64_t>(count_));
    if (node.inputs[0]->dtype == QNN_DATATYPE_SFIXED_POINT_8) flip_ = INT8_MIN;
    if (node.outputs[0]->dtype == QNN_DATATYPE_SFIXED_POINT_8) flip_out_ = INT8_MIN;
    sum_ = (flip_ == 0 ? PickWindow<false> : PickWindow<true>)(count_, Rows(), Columns(),
                                                               static_cast<size_t>(w_.stride[1]),
                                                               static_cast<size_t>(w_.gap[1]));
  }

  Status Pack(const Tensor& stored, const ChannelOrder& order, const SignedWeights& weights,
              const KernelOptions& options) {
    const size_t bytes = BlockBytes(4, Rows(), Columns());
    const auto fill = [&](void* to) -> Status {
      const auto shifted = AlignedBytes::Make(stored.elements());
      if (!shifted) return OutOfMemory();
      int8_t* const from = static_cast<int8_t*>(shifted->data());
      WriteShifted(stored, order, weights.shifts, from);
      std::memset(to, 0, blocks_ * bytes);
      for (size_t b = 0; b < blocks_; ++b) {
        PackBlock(from + b * kTogether, std::min(kTogether, channels_ - b * kTogether),
                  static_cast<char*>(to) + b * bytes);
      }
      return Status::Ok();
    };
    const char* const layout = flip_ == 0 ? "fours of rows for vectors, by 64 channels"
                                          : "fours of rows for vectors, by 64 channels, signed";
    QNNRT_ASSIGN_OR_RETURN(packed_, PackWeights(options, 1, blocks_ * bytes, layout, fill));
    return Status::Ok();
  }

  Status Join(const Node& node, const float* factors, const float* addends) {
    joins_ = AlignedBytes::Make(blocks_ * 2 * kTogether * sizeof(float));
    if (!joins_) return OutOfMemory();
    std::memset(joins_->data(), 0, joins_->size());
    const float above = flip_out_ == 0 ? 0.0f : static_cast<float>(kHalf);
    for (size_t b = 0; b < blocks_; ++b) {
      float* const to = static_cast<float*>(joins_->data()) + b * 2 * kTogether;
      const size_t count = std::min(kTogether, channels_ - b * kTogether);
      const size_t vectors = VectorsOf(count);
      for (size_t i = 0; i < 16 * vectors; ++i) {
        const size_t c = ChannelOf(vectors, i);
        if (c >= count) continue;
        to[i] = factors[b * kTogether + c];
        to[16 * vectors + i] = addends[b * kTogether + c] + above;
      }
    }
    const FixedRange range = OutputRange(node);
    least_ = static_cast<uint8_t>(range.low + static_cast<int64_t>(above));
    most_ = static_cast<float>(range.high) + above;
    return Status::Ok();
  }

  // A pixel of padding.
  Status MakeZeros(const Tensor& in) {
    QNNRT_ASSIGN_OR_RETURN(zeros_, PixelOfZeros(in));
    return Status::Ok();
  }

  Status Run(const ExecArgs& args) override {
    const int64_t work = w_.out[1] * static_cast<int64_t>(channels_) * w_.kernel[0] * w_.kernel[1];
    const size_t grain = static_cast<size_t>(std::max<int64_t>(1, kWorthThread / work));
    args.threads.For(static_cast<size_t>(images_ * w_.out[0]), grain,
                     [&](size_t begin, size_t end) {
                       for (size_t line = begin; line < end; ++line) Line(args, line);
                     });
    return Status::Ok();
  }

  size_t ScratchBytes() const override { return 0; }
  bool ReadsInput(size_t i) const override { return i == 0; }
  const char* Name() const override { return "bytes by channel:avx512_vnni"; }
  size_t WeightBytes() const override { return packed_->size() + joins_->size(); }

 private:
  size_t Rows() const { return static_cast<size_t>(w_.kernel[0]); }
  size_t Columns() const { return static_cast<size_t>(w_.kernel[1]); }

  void PackBlock(const int8_t* from, size_t count, char* to) const {
    const size_t vectors = VectorsOf(count);
    int32_t* const starts = reinterpret_cast<int32_t*>(to);
    int8_t* const quads = reinterpret_cast<int8_t*>(to) + 64 * vectors;
    for (size_t i = 0; i < 16 * vectors; ++i) {
      const size_t c = ChannelOf(vectors, i);
      if (c >= count) continue;
      int32_t sum = 0;
      for (size_t t = 0; t < Rows() * Columns(); ++t) {
        const size_t row = t / Columns(), quad = row / 4 * Columns() + t % Columns();
        quads[(quad * vectors * 16 + i) * 4 + row % 4] = from[t * channels_ + c];
        sum += from[t * channels_ + c];
      }
      starts[i] = flip_ == 0 ? 0 : -kHalf * sum;
    }
  }

  void Line(const ExecArgs& args, size_t line) const {
    const int64_t image = static_cast<int64_t>(line) / w_.out[0];
    const int64_t top = static_cast<int64_t>(line) % w_.out[0] * w_.stride[0] - w_.before[0];
    const int64_t row = w_.in[1] * static_cast<int64_t>(channels_);
    const uint8_t* const from = static_cast<const uint8_t*>(args.in[0]) + image * w_.in[0] * row;
    const size_t pixels = static_cast<size_t>(w_.out[1]);
    uint8_t* const to = static_cast<uint8_t*>(args.out[0]) + line * pixels * channels_;
    const WindowPixels under{w_.kernel[0], w_.gap[0], width_,
                             w_.in[0],     w_.in[1],  static_cast<int64_t>(channels_)};
    const uint8_t* const zeros = static_cast<const uint8_t*>(zeros_->data());
    const uint8_t* in[kMostTaps];
    Pixels p{in,
             Rows(),
             Columns(),
             static_cast<size_t>(width_),
             static_cast<size_t>(w_.stride[1]),
             static_cast<size_t>(w_.gap[1]),
             flip_out_,
             static_cast<const char*>(packed_->data()),
             static_cast<const float*>(joins_->data()),
             least_,
             most_,
             to,
             channels_};
    for (size_t done = 0; done < pixels; done += count_) {
      // The last ones are as many as the others: some are computed again.
      const size_t x = std::min(done, pixels - count_);
      under.Find(from, zeros, top, static_cast<int64_t>(x) * w_.stride[1] - w_.before[1], in);
      p.out = to + x * channels_;
      sum_(p);
    }
  }

  const Window w_;
  const int64_t images_;
  const size_t channels_, blocks_;
  SharedBytes packed_;
  std::shared_ptr<AlignedBytes> joins_;
  SharedBytes zeros_;
  size_t count_ = 1;   // pixels at a time
  int64_t width_ = 1;  // columns under them
  int8_t flip_ = 0, flip_out_ = 0;
  uint8_t least_ = 0;
  float most_ = 0;
  SumTapsFn sum_ = nullptr;
};

}  // namespace

bool TakesByteChannels(const Node& node, const ConvShape& c, const SignedWeights& weights) {
  if (!HasWordVectors() || c.transposed || c.spatial != 2 || c.groups != c.cin || c.cin < kFewest ||
      c.cout != c.cin || weights.has_rest()) {
    return false;
  }
  const Window w = WindowOf(node, c);
  const int64_t taps = w.kernel[0] * WidthOf(w, static_cast<int64_t>(kPixelsAtOnce));
  if (w.kernel[0] > static_cast<int64_t>(kMostTaps) || taps > static_cast<int64_t>(kMostTaps)) {
    return false;
  }
  return HoldsZero(*node.inputs[0]);
}

Result<KernelPtr> MakeByteChannels(const Node& node, const KernelOptions& options,
                                   const ConvShape& c, const ChannelOrder& order,
                                   const SignedWeights& weights) {
  QNNRT_ASSIGN_OR_RETURN(const FoldedSteps steps, FoldSteps(node, options, order, weights, true));
  auto kernel = std::make_unique<ByteChannels>(node, c);
  QNNRT_RETURN_IF_ERROR(kernel->Pack(*node.inputs[1], order, weights, options));
  QNNRT_RETURN_IF_ERROR(
      kernel->Join(node, steps.factors.data(), static_cast<const float*>(steps.addends->data())));
  QNNRT_RETURN_IF_ERROR(kernel->MakeZeros(*node.inputs[0]));
  return KernelPtr(std::move(kernel));
}

#else

bool TakesByteChannels(const Node&, const ConvShape&, const SignedWeights&) { return false; }
Result<KernelPtr> MakeByteChannels(const Node&, const KernelOptions&, const ConvShape&,
                                   const ChannelOrder&, const SignedWeights&) {
  return KernelPtr();
}

#endif

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
