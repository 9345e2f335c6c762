#include "ops/matmul/nbits_panels.h"

#include "ops/isa.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define QNNRT_NBITS_PANELS 1
#include <immintrin.h>
#endif

namespace qnnrt {

#ifdef QNNRT_NBITS_PANELS
#define QNNRT_UNROLL_16 _Pragma("GCC unroll 16")

#pragma GCC push_options
#pragma GCC target( \
    "avx512f,avx512vl,avx512bw,avx512dq,avx512vnni,avx2,fma,bmi2,prefer-vector-width=512")
namespace nbits_panels {

constexpr size_t kRows = NBitsPanels::kRows, kColumns = NBitsPanels::kColumns;
constexpr size_t kWidth = 16, kVectors = kColumns / kWidth;
constexpr size_t kMostChunk = 32, kGroups = kMostChunk / 4;
constexpr __mmask16 kAll = 0xffff;

// Some rows of x: integers with a sign, raised to have none, as digits, the highest first. Of
// weights of 4 bits the four elements at even places come first in each eight.
template <int kDigits>
struct alignas(64) RowChunk {
  uint8_t digits[kDigits][kRows][kMostChunk];
  float scales[8], sums[8];  // of each row: what 1 stands for, and the sum of the numbers
};

// Columns of weights as numbers with a sign, four along K in a word. `start` is what the sums of
// products have too much, since x is raised, with its sign turned: in units of its highest digit.
struct alignas(64) PanelChunk {
  int8_t codes[kGroups][kVectors][64];
  int32_t start[kVectors][kWidth];
  float scales[kVectors][kWidth];
  float zeros[kVectors][kWidth];  // scale times zero point, where codes are not counted from it
};
static_assert(sizeof(PanelChunk) == 1408);

// The largest integer that a chunk of x is made of. Sums of products of 4 bits, codes less their
// zero points, are to fit 32 bits: 32 * 15 * 4.4 million.
template <int kBits, int kDigits>
constexpr float kLargest = kDigits == 1   ? 127
                           : kDigits == 2 ? 32500
                           : kBits == 4   ? 4473000
                                          : 8355000;

// Of 16 vectors of 16 elements the largest of each, or the sum of each.
struct Largest {
  static QNNRT_INLINE __m512i Of(__m512i a, __m512i b) {
    return _mm512_maskz_max_epu32(kAll, a, b);
  }
};
struct Sum {
  static QNNRT_INLINE __m512i Of(__m512i a, __m512i b) { return _mm512_add_epi32(a, b); }
};
template <typename Combine>
static QNNRT_INLINE __m512i OfEach(const __m512i (&v)[16]) {
  __m512i pairs[8], fours[4], lanes[2];
  QNNRT_UNROLL_16
  for (size_t i = 0; i < 8; ++i) {
    pairs[i] = Combine::Of(_mm512_maskz_unpacklo_epi32(kAll, v[2 * i], v[2 * i + 1]),
                           _mm512_maskz_unpackhi_epi32(kAll, v[2 * i], v[2 * i + 1]));
  }
  QNNRT_UNROLL_16
  for (size_t i = 0; i < 4; ++i) {
    fours[i] = Combine::Of(_mm512_maskz_unpacklo_epi64(0xff, pairs[2 * i], pairs[2 * i + 1]),
                           _mm512_maskz_unpackhi_epi64(0xff, pairs[2 * i], pairs[2 * i + 1]));
  }
  QNNRT_UNROLL_16
  for (size_t i = 0; i < 2; ++i) {
    lanes[i] = Combine::Of(_mm512_maskz_shuffle_i32x4(kAll, fours[2 * i], fours[2 * i + 1], 0x88),
                           _mm512_maskz_shuffle_i32x4(kAll, fours[2 * i], fours[2 * i + 1], 0xdd));
  }
  return Combine::Of(_mm512_maskz_shuffle_i32x4(kAll, lanes[0], lanes[1], 0x88),
                     _mm512_maskz_shuffle_i32x4(kAll, lanes[0], lanes[1], 0xdd));
}

// Elements [begin, begin + chunk) of k, zeros behind them.
static QNNRT_INLINE void LoadChunk(const float* x, size_t begin, size_t k, size_t chunk,
                                   __m512 (&to)[2]) {
  const size_t left = k - begin < chunk ? k - begin : chunk;
  const uint32_t there = left < kMostChunk ? (1u << left) - 1 : ~0u;
  to[0] = _mm512_maskz_loadu_ps(static_cast<__mmask16>(there), x + begin);
  to[1] = _mm512_maskz_loadu_ps(static_cast<__mmask16>(there >> 16),
                                x + begin + (left > kWidth ? kWidth : 0));
}

static QNNRT_INLINE void Store(__m256i digits, uint8_t* to) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(to), digits);
}

// A row of x, 16 chunks at a time. Whether all of its numbers are finite and none is too large.
template <int kBits, int kDigits>
static bool ArrangeRow(const float* x, size_t k, size_t chunk, size_t m, RowChunk<kDigits>* to) {
  constexpr float kMost = kLargest<kBits, kDigits>;
  constexpr int32_t kRaise = 1 << (8 * kDigits - 1);
  const __m512i order =
      kBits == 4 ? _mm512_set_epi32(15, 13, 11, 9, 14, 12, 10, 8, 7, 5, 3, 1, 6, 4, 2, 0)
                 : _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  // The lowest three bytes of four words, each four beside each other, and these of two vectors:
  // the words of a digit.
  const __m512i bytes = _mm512_set4_epi32(0x0f0b0703, 0x0c080400, 0x0d090501, 0x0e0a0602);
  const __m512i first = _mm512_set_epi32(29, 25, 21, 17, 13, 9, 5, 1, 28, 24, 20, 16, 12, 8, 4, 0);
  const __m512i last = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 30, 26, 22, 18, 14, 10, 6, 2);
  __mmask16 above = 0;
  for (size_t at = 0; at < k; at += 16 * chunk, to += 16) {
    const size_t chunks = k - at < 16 * chunk ? (k - at + chunk - 1) / chunk : 16;
    __m512i most[16], sums[16];
    for (size_t i = 0; i < 16; ++i) {
      most[i] = sums[i] = _mm512_setzero_si512();
      if (i >= chunks) continue;
      __m512 in[2];
      LoadChunk(x, at + i * chunk, k, chunk, in);
      // As floats without a sign, integers have their order.
      const __m512i sign = _mm512_set1_epi32(0x7fffffff);
      most[i] =
          _mm512_maskz_max_epu32(kAll, _mm512_and_si512(reinterpret_cast<__m512i>(in[0]), sign),
                                 _mm512_and_si512(reinterpret_cast<__m512i>(in[1]), sign));
    }
    const __m512 largest = reinterpret_cast<__m512>(OfEach<Largest>(most));
    above |= _mm512_cmpgt_epu32_mask(reinterpret_cast<__m512i>(largest),
                                     _mm512_set1_epi32(static_cast<int32_t>(kNBitsLargest)));
    const __mmask16 tiny = _mm512_cmp_ps_mask(largest, _mm512_set1_ps(0x1p-64f), _CMP_LT_OQ);
    const __mmask16 some = _mm512_cmp_ps_mask(largest, _mm512_setzero_ps(), _CMP_GT_OQ);
    const __m512 up = _mm512_mask_mov_ps(_mm512_set1_ps(1), tiny, _mm512_set1_ps(0x1p100f));
    const __m512 raised = _mm512_mul_ps(largest, up);
    float ups[16], factors[16], scales[16];
    _mm512_storeu_ps(ups, up);
    _mm512_storeu_ps(factors, _mm512_maskz_div_ps(some, _mm512_set1_ps(kMost), raised));
    _mm512_storeu_ps(scales, _mm512_div_ps(_mm512_mul_ps(raised, _mm512_set1_ps(1 / kMost)), up));
    for (size_t i = 0; i < chunks; ++i) {
      __m512 in[2];
      LoadChunk(x, at + i * chunk, k, chunk, in);
      __m512i number[2];
      QNNRT_UNROLL_16
      for (size_t v = 0; v < 2; ++v) {
        const __m512 scaled =
            _mm512_mul_ps(_mm512_mul_ps(in[v], _mm512_set1_ps(ups[i])), _mm512_set1_ps(factors[i]));
        number[v] =
            _mm512_maskz_cvtps_epi32(kAll, _mm512_maskz_permutexvar_ps(kAll, order, scaled));
      }
      if (kBits == 8) sums[i] = _mm512_add_epi32(number[0], number[1]);
      QNNRT_UNROLL_16
      for (size_t v = 0; v < 2; ++v) {
        // The digits at the top of a word, so that the highest is where it is with any number.
        const __m512i digits = _mm512_maskz_slli_epi32(
            kAll, _mm512_add_epi32(number[v], _mm512_set1_epi32(kRaise)), 24 - 8 * kDigits);
        number[v] = _mm512_maskz_shuffle_epi8(~__mmask64{0}, digits, bytes);
      }
      const __m512i two = _mm512_maskz_permutex2var_epi32(kAll, number[0], first, number[1]);
      Store(_mm512_maskz_extracti32x8_epi32(0xff, two, 0), to[i].digits[0][m]);
      if constexpr (kDigits > 1)
        Store(_mm512_maskz_extracti32x8_epi32(0xff, two, 1), to[i].digits[1][m]);
      if constexpr (kDigits > 2) {
        const __m512i third = _mm512_maskz_permutex2var_epi32(kAll, number[0], last, number[1]);
        Store(_mm512_maskz_extracti32x8_epi32(0xff, third, 0), to[i].digits[2][m]);
      }
      to[i].scales[m] = scales[i];
    }
    if constexpr (kBits == 8) {
      int32_t sum[16];
      _mm512_storeu_si512(sum, OfEach<Sum>(sums));
      for (size_t i = 0; i < chunks; ++i) to[i].sums[m] = static_cast<float>(sum[i]) * scales[i];
    }
  }
  return above == 0;
}

template <int kBits, int kDigits>
static bool Arrange(const float* x, size_t rows, size_t k, size_t chunk, char* to) {
  auto* chunks = reinterpret_cast<RowChunk<kDigits>*>(to);
  if (rows < kRows) __builtin_memset(to, 0, (k + chunk - 1) / chunk * sizeof(*chunks));
  bool small = true;
  for (size_t m = 0; m < rows; ++m)
    small = ArrangeRow<kBits>(x + m * k, k, chunk, m, chunks) && small;
  return small;
}

// 16 words of 16 rows: word i of each row goes to r[i].
static QNNRT_INLINE void Transpose(__m512i (&r)[16]) {
  __m512i t[16];
  QNNRT_UNROLL_16
  for (size_t i = 0; i < 16; i += 2) {
    t[i] = _mm512_maskz_unpacklo_epi32(kAll, r[i], r[i + 1]);
    t[i + 1] = _mm512_maskz_unpackhi_epi32(kAll, r[i], r[i + 1]);
  }
  QNNRT_UNROLL_16
  for (size_t i = 0; i < 16; i += 4) {  // r[i + j]: words j, 4 + j, ... of rows i to i + 3
    r[i] = _mm512_maskz_unpacklo_epi64(0xff, t[i], t[i + 2]);
    r[i + 1] = _mm512_maskz_unpackhi_epi64(0xff, t[i], t[i + 2]);
    r[i + 2] = _mm512_maskz_unpacklo_epi64(0xff, t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_maskz_unpackhi_epi64(0xff, t[i + 1], t[i + 3]);
  }
  QNNRT_UNROLL_16
  for (size_t j = 0; j < 4; ++j) {
    const __m512i low = _mm512_maskz_shuffle_i32x4(kAll, r[j], r[4 + j], 0x88);
    const __m512i high = _mm512_maskz_shuffle_i32x4(kAll, r[j], r[4 + j], 0xdd);
    const __m512i low2 = _mm512_maskz_shuffle_i32x4(kAll, r[8 + j], r[12 + j], 0x88);
    const __m512i high2 = _mm512_maskz_shuffle_i32x4(kAll, r[8 + j], r[12 + j], 0xdd);
    t[j] = _mm512_maskz_shuffle_i32x4(kAll, low, low2, 0x88);
    t[8 + j] = _mm512_maskz_shuffle_i32x4(kAll, low, low2, 0xdd);
    t[4 + j] = _mm512_maskz_shuffle_i32x4(kAll, high, high2, 0x88);
    t[12 + j] = _mm512_maskz_shuffle_i32x4(kAll, high, high2, 0xdd);
  }
  QNNRT_UNROLL_16
  for (size_t i = 0; i < 16; ++i) r[i] = t[i];
}

// `bytes` (up to 64) of each of up to 16 rows, `stride` apart.
static QNNRT_INLINE void LoadRows(const void* from, size_t rows, size_t stride, size_t bytes,
                                  __m512i (&r)[16]) {
  const __mmask64 there = bytes < 64 ? (__mmask64{1} << bytes) - 1 : ~__mmask64{0};
  const char* at = static_cast<const char*>(from);
  QNNRT_UNROLL_16
  for (size_t i = 0; i < 16; ++i)
    r[i] = i < rows ? _mm512_maskz_loadu_epi8(there, at + i * stride) : _mm512_setzero_si512();
}

// Zero points of up to 8 blocks, which are `there`, of a row. Of packed ones no more are used than
// are in the same 8 bytes.
static QNNRT_INLINE __m512i ZerosOf(const NBitsWeights& w, size_t row, size_t block,
                                    __mmask16 there) {
  const int8_t* from = w.zeros + row * w.zero_bytes();
  if (!w.packed_zeros)
    return _mm512_maskz_cvtepi8_epi32(kAll, _mm_maskz_loadu_epi8(there, from + block));
  int64_t all;
  __builtin_memcpy(&all, from + block / 16 * 8, sizeof(all));
  const __m512i shifts = _mm512_set_epi32(28, 28, 24, 24, 20, 20, 16, 16, 12, 12, 8, 8, 4, 4, 0, 0);
  const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i codes = _mm512_and_si512(
      _mm512_maskz_srlv_epi32(kAll, _mm512_set1_epi64(all), shifts), _mm512_set1_epi32(15));
  const __m512i own = _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<int>(block % 16)));
  return _mm512_sub_epi32(_mm512_maskz_permutexvar_epi32(kAll, own, codes), _mm512_set1_epi32(8));
}

// Columns [0, rows) of a vector of panel chunks, each of `each` words of 16 or fewer that there
// are.
template <int kBits>
static void UnpackVector(const NBitsWeights& w, size_t first, size_t rows, size_t begin, size_t end,
                         size_t chunk, size_t vector, PanelChunk* to) {
  constexpr size_t kElements = 512 / kBits;  // of 64 bytes
  constexpr size_t kWord = 32 / kBits, kParts = 8 / kBits;
  const size_t words = chunk / kWord;  // of a chunk
  const __m512i flip = _mm512_set1_epi32(w.is_signed == (kBits == 8) ? 0
                                         : kBits == 4                ? 0x08080808
                                                      : static_cast<int>(0x80808080u));
  const __m512i low = _mm512_set1_epi32(0x0f0f0f0f), ones = _mm512_set1_epi8(1);
  for (size_t at = begin; at < end; at += kElements) {
    const size_t bytes = w.row_bytes - at * kBits / 8;
    __m512i codes[16], scales[16], zeros[16];
    LoadRows(w.codes + first * w.row_bytes + at * kBits / 8, rows, w.row_bytes, bytes, codes);
    Transpose(codes);
    // Up to 8 blocks begin here.
    const size_t block = at / w.block, blocks = (w.blocks - block) * sizeof(float);
    LoadRows(w.scales + first * w.blocks + block, rows, w.blocks * sizeof(float),
             blocks < 32 ? blocks : 32, scales);
    Transpose(scales);
    if (w.zeros != nullptr) {
      const __mmask16 there = blocks < 32 ? static_cast<__mmask16>((1u << blocks / 4) - 1) : 0xff;
      for (size_t i = 0; i < 16; ++i)
        zeros[i] = i < rows ? ZerosOf(w, first + i, block, there) : _mm512_setzero_si512();
      Transpose(zeros);
    }
    for (size_t word = 0; word < 16 && at + word * kWord < end; word += words, ++to) {
      const size_t own = (at + word * kWord) / w.block - block;
      const __m512 scale = reinterpret_cast<__m512>(scales[own]);
      const __m512i zero = w.zeros == nullptr ? _mm512_setzero_si512() : zeros[own];
      // Of 4 bits: counted from 0 here, so 8 more.
      const __m512i less =
          _mm512_maskz_shuffle_epi8(~__mmask64{0}, _mm512_add_epi32(zero, _mm512_set1_epi32(8)),
                                    _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0));
      __m512i sum = _mm512_setzero_si512();
      for (size_t i = 0; i < words; ++i) {
        const __m512i word_codes = codes[word + i];
        __m512i part[kParts];
        if constexpr (kBits == 4) {
          const __m512i up = _mm512_maskz_srli_epi32(kAll, word_codes, 4);
          part[0] =
              _mm512_sub_epi8(_mm512_xor_si512(_mm512_and_si512(word_codes, low), flip), less);
          part[1] = _mm512_sub_epi8(_mm512_xor_si512(_mm512_and_si512(up, low), flip), less);
        } else {
          part[0] = _mm512_xor_si512(word_codes, flip);
        }
        for (size_t p = 0; p < kParts; ++p) {
          sum = _mm512_dpbusd_epi32(sum, ones, part[p]);
          _mm512_store_si512(to->codes[i * kParts + p][vector], part[p]);
        }
      }
      _mm512_store_si512(
          to->start[vector],
          _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_maskz_slli_epi32(kAll, sum, 7)));
      _mm512_store_ps(to->scales[vector], scale);
      if (kBits == 8 && w.zeros != nullptr) {
        _mm512_store_ps(to->zeros[vector],
                        _mm512_mul_ps(scale, _mm512_maskz_cvtepi32_ps(kAll, zero)));
      }
    }
  }
}

template <int kBits>
static void Unpack(const NBitsWeights& w, size_t first, size_t count, size_t begin, size_t end,
                   size_t chunk, char* to) {
  for (size_t v = 0; v < kVectors; ++v) {
    const size_t n = v * kWidth < count ? count - v * kWidth : 0;
    UnpackVector<kBits>(w, first + v * kWidth, n < kWidth ? n : kWidth, begin, end, chunk, v,
                        reinterpret_cast<PanelChunk*>(to));
  }
}

static QNNRT_INLINE __m512 Float(__m512i v) { return _mm512_maskz_cvtepi32_ps(kAll, v); }

// kM rows times a panel, of which `rows` are stored. kSplit: the highest digit has a sum of its
// own, where all together are too much for 32 bits.
template <int kDigits, bool kSplit, bool kZeros, size_t kM>
static void Tile(const NBitsPanelProduct& p, const char* x, size_t rows, float* c) {
  const auto* a = reinterpret_cast<const RowChunk<kDigits>*>(x);
  const auto* b = reinterpret_cast<const PanelChunk*>(p.panel);
  __mmask16 there[kVectors];
  __m512 total[kM][kVectors];
  QNNRT_UNROLL_16
  for (size_t v = 0; v < kVectors; ++v) {
    const size_t left = p.columns < v * kWidth ? 0 : p.columns - v * kWidth;
    there[v] = left < kWidth ? static_cast<__mmask16>((1u << left) - 1) : kAll;
    QNNRT_UNROLL_16
    for (size_t m = 0; m < kM; ++m) {
      if (!p.first) {
        total[m][v] = m < rows ? _mm512_maskz_loadu_ps(there[v], c + m * p.ldc + v * kWidth)
                               : _mm512_setzero_ps();
      } else {
        total[m][v] = p.bias != nullptr ? _mm512_maskz_loadu_ps(there[v], p.bias + v * kWidth)
                                        : _mm512_setzero_ps();
      }
    }
  }
  const size_t groups = p.chunk / 16 * 4;  // so the compiler sees that it is a multiple of 4
  for (const PanelChunk* end = b + p.chunks; b != end; ++b, ++a) {
    __m512i sum[kM][kVectors];
    [[maybe_unused]] __m512 high[kM][kVectors];
    QNNRT_UNROLL_16
    for (size_t v = 0; v < kVectors; ++v) {
      QNNRT_UNROLL_16
      for (size_t m = 0; m < kM; ++m) sum[m][v] = _mm512_load_si512(b->start[v]);
    }
    QNNRT_UNROLL_16
    for (size_t d = 0; d < kDigits; ++d) {
      if (d != 0) {
        QNNRT_UNROLL_16
        for (size_t m = 0; m < kM; ++m) {
          QNNRT_UNROLL_16
          for (size_t v = 0; v < kVectors; ++v) {
            if (kSplit && d == 1) {
              high[m][v] = Float(sum[m][v]);
              sum[m][v] = _mm512_setzero_si512();
            } else {
              sum[m][v] = _mm512_maskz_slli_epi32(kAll, sum[m][v], 8);
            }
          }
        }
      }
      const uint8_t* digits = a->digits[d][0];
      _Pragma("GCC unroll 4") for (size_t g = 0; g < groups; ++g) {
        QNNRT_UNROLL_16
        for (size_t m = 0; m < kM; ++m) {
          int32_t four;
          __builtin_memcpy(&four, digits + m * kMostChunk + g * 4, sizeof(four));
          const __m512i all = _mm512_set1_epi32(four);
          QNNRT_UNROLL_16
          for (size_t v = 0; v < kVectors; ++v)
            sum[m][v] = _mm512_dpbusd_epi32(sum[m][v], all, _mm512_load_si512(b->codes[g][v]));
        }
      }
    }
    QNNRT_UNROLL_16
    for (size_t m = 0; m < kM; ++m) {
      const __m512 scale = _mm512_set1_ps(a->scales[m]);
      QNNRT_UNROLL_16
      for (size_t v = 0; v < kVectors; ++v) {
        __m512 value = Float(sum[m][v]);
        if constexpr (kSplit) {
          constexpr float kUnit = kDigits == 3 ? 65536.0f : 256.0f;
          value = _mm512_fmadd_ps(high[m][v], _mm512_set1_ps(kUnit), value);
        }
        const __m512 both = _mm512_mul_ps(_mm512_load_ps(b->scales[v]), scale);
        total[m][v] = _mm512_fmadd_ps(value, both, total[m][v]);
        if constexpr (kZeros) {
          total[m][v] = _mm512_fnmadd_ps(_mm512_load_ps(b->zeros[v]), _mm512_set1_ps(a->sums[m]),
                                         total[m][v]);
        }
      }
    }
  }
  QNNRT_UNROLL_16
  for (size_t m = 0; m < kM; ++m) {
    if (m >= rows) break;
    QNNRT_UNROLL_16
    for (size_t v = 0; v < kVectors; ++v)
      _mm512_mask_storeu_ps(c + m * p.ldc + v * kWidth, there[v], total[m][v]);
  }
}

template <int kDigits, bool kSplit, bool kZeros>
static void Multiply(const NBitsPanelProduct& p) {
  const char* x = p.x;
  for (size_t m = 0; m < p.rows; m += kRows, x += p.tile_bytes) {
    const size_t rows = p.rows - m < kRows ? p.rows - m : kRows;
    float* c = p.c + m * p.ldc;
    if (rows > 4) {
      Tile<kDigits, kSplit, kZeros, 6>(p, x, rows, c);
    } else if (rows > 2) {
      Tile<kDigits, kSplit, kZeros, 4>(p, x, rows, c);
    } else {
      Tile<kDigits, kSplit, kZeros, 2>(p, x, rows, c);
    }
  }
}

template <int kBits, int kDigits, bool kZeros>
constexpr NBitsPanels kPanels = {sizeof(RowChunk<kDigits>), Arrange<kBits, kDigits>, Unpack<kBits>,
                                 Multiply<kDigits, kBits == 8 && kDigits == 3, kZeros>};

}  // namespace nbits_panels
#pragma GCC pop_options

namespace {

template <int kBits, bool kZeros>
const NBitsPanels* Of(int digits) {
  if (digits == 1) return &nbits_panels::kPanels<kBits, 1, kZeros>;
  if (digits == 2) return &nbits_panels::kPanels<kBits, 2, kZeros>;
  return &nbits_panels::kPanels<kBits, 3, kZeros>;
}

}  // namespace
#endif

const NBitsPanels* NBitsPanelsFor([[maybe_unused]] int bits, [[maybe_unused]] int digits,
                                  [[maybe_unused]] bool zeros) {
#ifdef QNNRT_NBITS_PANELS
  if (CpuIsa() == Isa::kAvx512 && CpuHasVnni()) {
    if (bits == 4) return Of<4, false>(digits);  // codes are less their zero points there
    return zeros ? Of<8, true>(digits) : Of<8, false>(digits);
  }
#endif
  return nullptr;
}

}  // namespace qnnrt
