#include "ops/onednn/fixed/byte_rows.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/onednn/fixed/word_vectors.h"
#include "ops/rules.h"
#include "ops/tiles.h"
#include "ops/weights.h"

namespace qnnrt::onednn {
bool ByteLine::whole() const {
  const int64_t end = static_cast<int64_t>(out - 1) * stride - before + static_cast<int64_t>(taps);
  return (taps == 1 || (distance == 1 && groups == 1)) && before == 0 &&
         end <= static_cast<int64_t>(in);
}

std::optional<ByteLine> ByteLineOf(const ConvShape& c, const Node& node) {
  const Tensor& in = *node.inputs[0];
  const Tensor& out = *node.outputs[0];
  if (c.transposed) return std::nullopt;
  ByteLine line;
  line.groups = static_cast<size_t>(c.groups);
  line.cin = static_cast<size_t>(c.cin);
  line.cout = static_cast<size_t>(c.cout);
  const Dims window(c.weights.end() - static_cast<ptrdiff_t>(c.spatial), c.weights.end());
  const size_t last = c.spatial - 1;
  bool points = true, one_line = true;
  for (size_t i = 0; i < c.spatial; ++i) {
    const bool padded = c.before[i] != 0 || c.after[i] != 0;
    points &= window[i] == 1 && c.strides[i] == 1 && !padded;
    one_line &= i == last || (in.shape[i + 1] == 1 && window[i] == 1 && !padded);
  }
  if (points) {
    line.in = line.out = static_cast<size_t>(out.elements()) / line.cout;
    return line;
  }
  if (!one_line) return std::nullopt;
  line.images = in.shape[0];
  line.in = in.shape[c.spatial];
  line.out = out.shape[c.spatial];
  line.taps = static_cast<size_t>(window[last]);
  line.stride = c.strides[last];
  line.distance = c.gaps.empty() ? 1 : c.gaps[last] + 1;
  line.before = c.before[last];
  return line;
}

std::optional<ByteLine> ByteLineOf(const MatMulShape& o, bool columns_outside) {
  if (o.dst.size() != 2 || o.src_strides != Dims{o.src[1], 1}) return std::nullopt;
  ByteLine line;
  line.in = line.out = static_cast<size_t>(o.src[0]);
  line.cin = static_cast<size_t>(o.src[1]);
  line.cout = static_cast<size_t>(o.dst[1]);
  line.columns_outside = columns_outside;
  return line;
}

#if defined(__x86_64__)

namespace {

constexpr size_t kSums = 16;         // columns of a register of sums
constexpr size_t kMostRuns = 64;     // whose addresses are kept
constexpr size_t kFours = 4;         // bytes that an instruction adds up
constexpr size_t kPanelVectors = 4;  // of a panel at most
constexpr size_t kMostHeight = 12;
// Rows of results in registers, of so many vectors less one: sums enough that none waits.
constexpr size_t kTileHeight[kPanelVectors] = {12, 12, 8, 6};
constexpr size_t kBlockOfRows = 128 * 1024;  // of rows that panels pass by, which stay in L2
constexpr double kWorthOfRows = 256 * 1024;  // products worth a thread

size_t CeilOf(size_t count, size_t by) { return (count + by - 1) / by; }

// Some rows of a panel.
struct RowTile {
  const uint8_t* const* in;  // by run, of each row
  size_t runs, run;
  const char* weights;  // where sums begin, then the weights
  const float *factors, *addends;
  float above, most;  // above: of the addends
  uint8_t least;      // of unsigned codes
  int8_t flip_out;    // makes them signed ones
  uint8_t* out;
  size_t step;     // from row to row
  size_t columns;  // of the panel
};

// Codes of sums, not yet limited from below.
template <int kR, int kV>
QNNRT_VNNI QNNRT_INLINE void ScaleSums(__m512i (&sum)[kR][kV], const RowTile& t, __mmask16 last) {
  const __m512 most = _mm512_set1_ps(t.most), above = _mm512_set1_ps(t.above);
#pragma GCC unroll 4
  for (size_t v = 0; v < kV; ++v) {
    const __mmask16 mask = v + 1 < kV ? kAll16 : last;
    const __m512 factor = _mm512_maskz_loadu_ps(mask, t.factors + v * kSums);
    const __m512 addend = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, t.addends + v * kSums), above);
#pragma GCC unroll 12
    for (size_t r = 0; r < kR; ++r) {
      const __m512 x = _mm512_fmadd_ps(_mm512_maskz_cvtepi32_ps(kAll16, sum[r][v]), factor, addend);
      sum[r][v] = _mm512_maskz_cvtps_epi32(kAll16, _mm512_maskz_min_ps(kAll16, x, most));
    }
  }
}

template <int kR, int kV>
QNNRT_VNNI QNNRT_INLINE void StoreCodes(const __m512i (&codes)[kR][kV], const RowTile& t,
                                        __mmask16 last) {
  const __m512i least = _mm512_set1_epi8(static_cast<char>(t.least));
  const __m512i flip = _mm512_set1_epi8(t.flip_out);
  // Packing goes by quarters of registers.
  const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
  const __m512i none = _mm512_setzero_si512();
  const __mmask64 mask =
      (__mmask64{last} << (16 * (kV - 1))) | (kV > 1 ? ~__mmask64{0} >> (64 - 16 * (kV - 1)) : 0);
  uint8_t* out = t.out;
#pragma GCC unroll 12
  for (size_t r = 0; r < kR; ++r, out += t.step) {
    const __m512i* const row = codes[r];
    const __m512i low = _mm512_packus_epi32(row[0], kV > 1 ? row[1] : none);
    const __m512i high = kV > 2 ? _mm512_packus_epi32(row[2], kV > 3 ? row[3] : none) : none;
    const __m512i mixed = _mm512_max_epu8(_mm512_packus_epi16(low, high), least);
    const __m512i x = _mm512_maskz_permutexvar_epi32(kAll16, order, _mm512_xor_si512(mixed, flip));
    if (last != kAll16) {
      _mm512_mask_storeu_epi8(out, mask, x);
    } else if constexpr (kV == 4) {
      _mm512_storeu_si512(out, x);
    } else {
      if constexpr (kV == 1) {
        const __m128i first = _mm512_maskz_extracti32x4_epi32(kAll8, x, 0);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out), first);
      } else {
        const __m256i half = _mm512_maskz_extracti64x4_epi64(kAll8, x, 0);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), half);
      }
      if constexpr (kV == 3) {
        const __m128i third = _mm512_maskz_extracti32x4_epi32(kAll8, x, 2);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 32), third);
      }
    }
  }
}

// Of codes as unsigned ones.
template <bool kSigned>
QNNRT_VNNI QNNRT_INLINE __m512i Unsigned(__m512i codes) {
  return kSigned ? _mm512_xor_si512(codes, _mm512_set1_epi8(INT8_MIN)) : codes;
}

template <int kR, int kV, bool kSigned>
QNNRT_VNNI void MultiplyRows(const RowTile& t) {
  __m512i sum[kR][kV];
#pragma GCC unroll 12
  for (size_t r = 0; r < kR; ++r) {
#pragma GCC unroll 4
    for (size_t v = 0; v < kV; ++v) sum[r][v] = _mm512_loadu_si512(t.weights + v * kLine);
  }
  const char* weights = t.weights + kV * kLine;
  const size_t whole = t.run / kFours * kFours, rest = t.run % kFours;
  const uint8_t* const* in = t.in;
  for (size_t i = 0; i < t.runs; ++i, in += kR) {
    const uint8_t* from[kR];
#pragma GCC unroll 12
    for (size_t r = 0; r < kR; ++r) from[r] = in[r];
    for (size_t c = 0; c < whole; c += kFours, weights += kV * kLine) {
      __m512i w[kV];
#pragma GCC unroll 4
      for (size_t v = 0; v < kV; ++v) w[v] = _mm512_loadu_si512(weights + v * kLine);
#pragma GCC unroll 12
      for (size_t r = 0; r < kR; ++r) {
        const __m512i x = Unsigned<kSigned>(BroadcastFour(from[r] + c));
#pragma GCC unroll 4
        for (size_t v = 0; v < kV; ++v) AddFours(&sum[r][v], x, w[v]);
      }
    }
    if (rest == 0) continue;
    // Those before the last ones go out of the four.
    const __m128i before = _mm_cvtsi32_si128(static_cast<int>(8 * (kFours - rest)));
#pragma GCC unroll 12
    for (size_t r = 0; r < kR; ++r) {
      const __m512i four = BroadcastFour(from[r] + t.run - kFours);
      const __m512i x = Unsigned<kSigned>(_mm512_maskz_srl_epi32(kAll16, four, before));
#pragma GCC unroll 4
      for (size_t v = 0; v < kV; ++v) {
        AddFours(&sum[r][v], x, _mm512_loadu_si512(weights + v * kLine));
      }
    }
    weights += kV * kLine;
  }
  const __mmask16 last = static_cast<__mmask16>((1u << (t.columns - (kV - 1) * kSums)) - 1);
  ScaleSums<kR, kV>(sum, t, last);
  StoreCodes<kR, kV>(sum, t, last);
}

using MultiplyRowsFn = void (*)(const RowTile&);
template <bool kSigned, int kV, int... kR>
constexpr std::array<MultiplyRowsFn, sizeof...(kR)> TilesOfHeights(
    std::integer_sequence<int, kR...>) {
  return {MultiplyRows<kR + 1, kV, kSigned>...};
}
template <bool kSigned, int kV>
constexpr auto kMultiplyRows =
    TilesOfHeights<kSigned, kV>(std::make_integer_sequence<int, kTileHeight[kV - 1]>());
template <bool kSigned>
constexpr const MultiplyRowsFn* kOfVectors[kPanelVectors] = {
    kMultiplyRows<kSigned, 1>.data(), kMultiplyRows<kSigned, 2>.data(),
    kMultiplyRows<kSigned, 3>.data(), kMultiplyRows<kSigned, 4>.data()};

// Weights where they are stored, or where the client has them.
struct StoredBytes {
  const uint8_t* data;
  int64_t tap, row, column;  // from one to the next

  StoredBytes(const Tensor& weights, bool columns_outside) {
    const size_t rank = weights.shape.size();
    std::vector<int64_t> steps(rank, 1);
    for (size_t i = rank - 1; i-- > 0;) steps[i] = steps[i + 1] * weights.shape[i + 1];
    const std::optional<LyingElements> unread = weights.data->Unread();
    if (unread && !unread->strides.empty()) steps = unread->strides;
    data = unread ? reinterpret_cast<const uint8_t*>(unread->data) : weights.data_as<uint8_t>();
    row = steps[rank - (columns_outside ? 1 : 2)];
    column = steps[rank - (columns_outside ? 2 : 1)];
    tap = rank > 2 ? steps[rank - 3] : 0;
  }
};

// Four rows of some columns side by side; `of` is null behind the last one.
QNNRT_VNNI void PackFours(const uint8_t* const* of, int64_t column, size_t columns, uint8_t* to) {
  size_t n = 0;
  if (of[3] != nullptr && of[1] == of[0] + 1 && of[2] == of[0] + 2 && of[3] == of[0] + 3) {
    for (; n < columns; ++n) {
      std::memcpy(to + n * kFours, of[0] + static_cast<int64_t>(n) * column, kFours);
    }
  } else if (column == 1 && of[3] != nullptr) {
    for (; n + kSums <= columns; n += kSums) {
      __m128i row[kFours];
      for (size_t r = 0; r < kFours; ++r) {
        row[r] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(of[r] + n));
      }
      const __m128i low0 = _mm_unpacklo_epi8(row[0], row[1]);
      const __m128i low1 = _mm_unpacklo_epi8(row[2], row[3]);
      const __m128i high0 = _mm_unpackhi_epi8(row[0], row[1]);
      const __m128i high1 = _mm_unpackhi_epi8(row[2], row[3]);
      __m128i* const out = reinterpret_cast<__m128i*>(to + n * kFours);
      _mm_storeu_si128(out, _mm_unpacklo_epi16(low0, low1));
      _mm_storeu_si128(out + 1, _mm_unpackhi_epi16(low0, low1));
      _mm_storeu_si128(out + 2, _mm_unpacklo_epi16(high0, high1));
      _mm_storeu_si128(out + 3, _mm_unpackhi_epi16(high0, high1));
    }
  }
  for (; n < columns; ++n) {
    for (size_t r = 0; r < kFours && of[r] != nullptr; ++r) {
      to[n * kFours + r] = of[r][static_cast<int64_t>(n) * column];
    }
  }
}

class ByteRows final : public Kernel {
 public:
  ByteRows(const Node& node, const ByteLine& line, FoldedSteps steps)
      : line_(line),
        steps_(std::move(steps)),
        columns_(line.cout / line.groups),
        vectors_(CeilOf(columns_, kSums)),
        panels_of_group_(CeilOf(vectors_, kPanelVectors)),
        panels_(line.groups * panels_of_group_),
        runs_(line.runs()),
        run_(line.run()),
        quads_(CeilOf(run_, kFours)),
        signed_(node.inputs[0]->dtype == QNN_DATATYPE_SFIXED_POINT_8) {
    if (node.outputs[0]->dtype == QNN_DATATYPE_SFIXED_POINT_8) {
      flip_out_ = INT8_MIN;
      above_ = 128;
    }
    const FixedRange range = OutputRange(node);
    least_ = static_cast<uint8_t>(range.low + static_cast<int64_t>(above_));
    most_ = static_cast<float>(range.high) + above_;
  }

  Status Pack(const Tensor& weights, const SignedWeights& as_signed, const KernelOptions& options) {
    const size_t size = line_.groups * vectors_ * VectorBytes();
    const auto fill = [&](void* to) {
      const StoredBytes stored(weights, line_.columns_outside);
      std::memset(to, 0, size);
      for (size_t p = 0; p < panels_; ++p) {
        PackPanel(stored, as_signed.shifts, PanelOf(p), static_cast<uint8_t*>(to));
      }
      return Status::Ok();
    };
    const std::string groups =
        line_.groups == 1 ? "" : " in " + std::to_string(line_.groups) + " groups";
    const std::string layout = std::to_string(line_.taps) + "x" + std::to_string(line_.cin) + "x" +
                               std::to_string(line_.cout) + groups +
                               " bytes for vectors, by 4 rows and 64 columns" +
                               (signed_ ? ", signed" : "");
    QNNRT_ASSIGN_OR_RETURN(packed_, PackWeights(options, 1, size, layout, fill));
    return Status::Ok();
  }

  // A pixel of padding.
  Status MakeZeros(const Tensor& in) {
    if (line_.whole()) return Status::Ok();
    QNNRT_ASSIGN_OR_RETURN(zeros_, PixelOfZeros(in));
    return Status::Ok();
  }

  Status Run(const ExecArgs& args) override {
    const size_t rows = line_.images * line_.out;
    const double work = static_cast<double>(runs_ * run_) * static_cast<double>(line_.cout);
    if (!SharesPanels(rows, static_cast<size_t>(args.threads.limit()))) {
      const size_t grain = kMostHeight + static_cast<size_t>(kWorthOfRows / work);
      args.threads.For(rows, grain,
                       [&](size_t begin, size_t end) { Block(args, begin, end, 0, panels_); });
      return Status::Ok();
    }
    const double of_panel = work * static_cast<double>(rows) / static_cast<double>(panels_);
    args.threads.For(panels_, 1 + static_cast<size_t>(kWorthOfRows / of_panel),
                     [&](size_t begin, size_t end) { Block(args, 0, rows, begin, end); });
    return Status::Ok();
  }

  size_t ScratchBytes() const override { return 0; }
  bool ReadsInput(size_t i) const override { return i == 0; }
  const char* Name() const override { return "rows of bytes:avx512_vnni"; }
  size_t WeightBytes() const override { return packed_->size() + steps_.addends->size(); }

 private:
  // Threads that have rows of their own all read all of the weights.
  bool SharesPanels(size_t rows, size_t threads) const {
    if (panels_ < threads) return false;
    return rows < threads * kMostHeight || (line_.cout > rows && panels_ >= 2 * threads);
  }
  // Of the weights: where sums begin, then rows in fours.
  size_t VectorBytes() const { return kLine * (1 + runs_ * quads_); }
  struct Panel {
    size_t group, column, columns, vectors, offset;
  };
  Panel PanelOf(size_t i) const {
    const size_t group = i / panels_of_group_, at = i % panels_of_group_;
    const size_t first = at * vectors_ / panels_of_group_;
    const size_t vectors = (at + 1) * vectors_ / panels_of_group_ - first;
    return {group, group * columns_ + first * kSums,
            std::min(vectors * kSums, columns_ - first * kSums), vectors,
            (group * vectors_ + first) * VectorBytes()};
  }

  QNNRT_VNNI void PackPanel(const StoredBytes& stored, const std::vector<int32_t>& shifts,
                            const Panel& panel, uint8_t* to) const {
    const size_t first = panel.column, columns = panel.columns, vectors = panel.vectors;
    const size_t step = vectors * kLine, cin = line_.cin / line_.groups;
    to += panel.offset;
    uint8_t* const packed = to + step;
    const uint8_t* const from = stored.data + static_cast<int64_t>(first) * stored.column;
    for (size_t i = 0; i < runs_ * quads_; ++i) {
      const uint8_t* of[kFours] = {};
      const size_t in_run = i % quads_ * kFours, count = std::min(kFours, run_ - in_run);
      for (size_t r = 0; r < count; ++r) {
        const size_t row = i / quads_ * run_ + in_run + r;
        of[r] = from + static_cast<int64_t>(row / cin) * stored.tap +
                static_cast<int64_t>(row % cin) * stored.row;
      }
      PackFours(of, stored.column, columns, packed + i * step);
    }
    // Behind the last byte of a run there are zeros.
    const uint32_t rest = static_cast<uint32_t>(run_ % kFours);
    const __m512i last =
        _mm512_set1_epi32(rest == 0 ? -1 : static_cast<int32_t>((uint32_t{1} << (8 * rest)) - 1));
    const __m512i half = _mm512_set1_epi8(INT8_MIN);
    for (size_t v = 0; v < vectors; ++v) {
      const size_t count = std::min(kSums, columns - v * kSums);
      const __mmask16 mask = static_cast<__mmask16>((1u << count) - 1);
      const __m512i shift = _mm512_maskz_loadu_epi32(mask, shifts.data() + first + v * kSums);
      const __m512i of_byte = _mm512_and_si512(shift, _mm512_set1_epi32(0xff));
      const __m512i shift4 = _mm512_mullo_epi32(of_byte, _mm512_set1_epi32(0x01010101));
      __m512i sums = _mm512_setzero_si512();
      uint8_t* at = packed + v * kLine;
      for (size_t i = 0; i < runs_ * quads_; ++i, at += step) {
        const bool is_last = (i + 1) % quads_ == 0;
        const __m512i added = is_last ? _mm512_and_si512(shift4, last) : shift4;
        const __m512i w = _mm512_add_epi8(_mm512_loadu_si512(at), added);
        _mm512_storeu_si512(at, w);
        AddFours(&sums, half, w);
      }
      // Signed codes are taken for ones 128 higher.
      if (signed_)
        _mm512_storeu_si512(to + v * kLine, _mm512_sub_epi32(_mm512_setzero_si512(), sums));
    }
  }

  // Panels [first, last) of rows [begin, end).
  void Block(const ExecArgs& args, size_t begin, size_t end, size_t first, size_t last) const {
    const size_t at_once = std::max(kBlockOfRows / std::max(runs_ * run_, line_.cin), kMostHeight);
    while (begin < end) {
      const size_t image = begin / line_.out, row = begin % line_.out;
      const size_t rows = std::min({end - begin, line_.out - row, at_once});
      for (size_t p = first; p < last; ++p) RunPanel(args, image, row, rows, PanelOf(p));
      begin += rows;
    }
  }

  // In tiles as high as each other.
  void RunPanel(const ExecArgs& args, size_t image, size_t row, size_t rows,
                const Panel& panel) const {
    const size_t of_group = panel.group * (line_.cin / line_.groups);
    const uint8_t* const from =
        static_cast<const uint8_t*>(args.in[0]) + image * line_.in * line_.cin + of_group;
    const uint8_t* const zeros =
        zeros_ ? static_cast<const uint8_t*>(zeros_->data()) + of_group : nullptr;
    uint8_t* const to =
        static_cast<uint8_t*>(args.out[0]) + image * line_.out * line_.cout + panel.column;
    const uint8_t* in[kMostRuns * kMostHeight];
    RowTile tile{in,
                 runs_,
                 run_,
                 static_cast<const char*>(packed_->data()) + panel.offset,
                 steps_.factors.data() + panel.column,
                 static_cast<const float*>(steps_.addends->data()) + panel.column,
                 above_,
                 most_,
                 least_,
                 flip_out_,
                 to,
                 line_.cout,
                 panel.columns};
    const MultiplyRowsFn* const multiply =
        (signed_ ? kOfVectors<true> : kOfVectors<false>)[panel.vectors - 1];
    const size_t tiles = CeilOf(rows, kTileHeight[panel.vectors - 1]);
    for (size_t i = 0; i < tiles; ++i) {
      const size_t first = i * rows / tiles, count = (i + 1) * rows / tiles - first;
      Find(from, zeros, row + first, count, in);
      tile.out = to + (row + first) * line_.cout;
      multiply[count - 1](tile);
    }
  }

  // The pixels under the taps of some windows.
  void Find(const uint8_t* from, const uint8_t* zeros, size_t first, size_t rows,
            const uint8_t** in) const {
    if (zeros == nullptr) {
      const size_t step = static_cast<size_t>(line_.stride) * line_.cin;
      from += first * step;
      for (size_t r = 0; r < rows; ++r, from += step) in[r] = from;
      return;
    }
    const int64_t pixels = static_cast<int64_t>(line_.in);
    int64_t at = static_cast<int64_t>(first) * line_.stride - line_.before;
    for (size_t t = 0; t < line_.taps; ++t, at += line_.distance) {
      int64_t x = at;
      for (size_t r = 0; r < rows; ++r, x += line_.stride) {
        *in++ = x >= 0 && x < pixels ? from + static_cast<size_t>(x) * line_.cin : zeros;
      }
    }
  }

  const ByteLine line_;
  const FoldedSteps steps_;
  const size_t columns_, vectors_, panels_of_group_;  // of a group
  const size_t panels_;
  const size_t runs_, run_, quads_;
  const bool signed_;  // the input
  SharedBytes packed_;
  SharedBytes zeros_;
  int8_t flip_out_ = 0;
  uint8_t least_ = 0;
  float above_ = 0, most_ = 0;
};

}  // namespace

bool TakesByteLine(const Node& node, const ByteLine& line, const SignedWeights& weights) {
  if (!HasWordVectors() || HasTiles() || weights.has_rest()) return false;
  const size_t run = line.run();
  const size_t columns = line.cout / line.groups, lanes = CeilOf(columns, kSums) * kSums;
  if (line.runs() > kMostRuns || run < kFours || 2 * CeilOf(run, kFours) * kFours > 3 * run ||
      (line.groups > 1 && 2 * lanes > 3 * columns)) {
    return false;
  }
  return line.whole() || HoldsZero(*node.inputs[0]);
}

Result<KernelPtr> MakeByteRows(const Node& node, const KernelOptions& options, const ByteLine& line,
                               const ChannelOrder& order, const SignedWeights& weights) {
  QNNRT_ASSIGN_OR_RETURN(FoldedSteps steps, FoldSteps(node, options, order, weights, true));
  auto kernel = std::make_unique<ByteRows>(node, line, std::move(steps));
  QNNRT_RETURN_IF_ERROR(kernel->Pack(*node.inputs[1], weights, options));
  QNNRT_RETURN_IF_ERROR(kernel->MakeZeros(*node.inputs[0]));
  return KernelPtr(std::move(kernel));
}

#else

bool TakesByteLine(const Node&, const ByteLine&, const SignedWeights&) { return false; }
Result<KernelPtr> MakeByteRows(const Node&, const KernelOptions&, const ByteLine&,
                               const ChannelOrder&, const SignedWeights&) {
  return KernelPtr();
}

#endif

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
