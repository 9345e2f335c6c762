// Attention in BFLOAT_16 in tiles: products of 16 bits, scores and sums in 32.
#include <algorithm>
#include <limits>

#include "ops/matmul/attention.h"
#include "ops/tiles.h"

#ifdef QNNRT_TILES
#include <immintrin.h>

namespace qnnrt {
namespace {

#define QNNRT_AVX512_SET "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16"
#ifdef __clang__  // an attribute with what clang does not know counts for nothing
#define QNNRT_AVX512 __attribute__((target(QNNRT_AVX512_SET)))
#else
#define QNNRT_AVX512 __attribute__((target(QNNRT_AVX512_SET ",prefer-vector-width=512")))
#endif

constexpr size_t kRows = 2 * kTileRows;    // of a block
constexpr size_t kMostScores = 64 * 1024;  // of a block of two tiles: 256 KiB in a cache
constexpr size_t kLanes = 16;              // floats of a vector
constexpr float kLog2e = 1.44269504088896341f;

__mmask16 First(size_t count) {
  return count >= kLanes ? static_cast<__mmask16>(0xffff)
                         : static_cast<__mmask16>((uint32_t{1} << count) - 1);
}

// The lanes of a vector in another order: turned by `step`.
template <int step>
QNNRT_AVX512 inline __m512 Turned(__m512 x) {
  const __m512i index = _mm512_set_epi32(15 ^ step, 14 ^ step, 13 ^ step, 12 ^ step, 11 ^ step,
                                         10 ^ step, 9 ^ step, 8 ^ step, 7 ^ step, 6 ^ step,
                                         5 ^ step, 4 ^ step, 3 ^ step, 2 ^ step, 1 ^ step, step);
  return _mm512_maskz_permutexvar_ps(0xffff, index, x);
}
QNNRT_AVX512 inline __m512 Max(__m512 a, __m512 b) { return _mm512_maskz_max_ps(0xffff, a, b); }
// In every lane: the largest of all, and their sum.
QNNRT_AVX512 inline __m512 MaxOfAll(__m512 x) {
  x = Max(x, Turned<8>(x));
  x = Max(x, Turned<4>(x));
  x = Max(x, Turned<2>(x));
  return Max(x, Turned<1>(x));
}
QNNRT_AVX512 inline __m512 SumOfAll(__m512 x) {
  x += Turned<8>(x);
  x += Turned<4>(x);
  x += Turned<2>(x);
  return x + Turned<1>(x);
}

// 2^x, to 3e-6 of it: what is stored of it has 8 bits. 0 below 2^-126, since processors take their
// time over numbers that small.
QNNRT_AVX512 inline __m512 Exp2(__m512 x) {
  const __mmask16 normal = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-126.0f), _CMP_NLT_UQ);
  const __m512 n =
      _mm512_maskz_roundscale_ps(0xffff, x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 r = x - n;
  __m512 p = _mm512_set1_ps(9.570101276e-03f);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.591785908e-02f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(2.402474433e-01f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(6.931217909e-01f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(9.999992847e-01f));
  return _mm512_maskz_scalef_ps(normal, p, n);
}

// A row of scores, to be scaled and, with a mask, added to.
template <bool kMasked>
struct Row {
  float* s;
  const float* mask;
  __m512 factor;
};

// The scores at i; with a mask they are kept.
template <bool kMasked>
QNNRT_AVX512 inline __m512 ScaledAt(const Row<kMasked>& row, size_t i, __mmask16 left) {
  __m512 v = _mm512_maskz_loadu_ps(left, row.s + i) * row.factor;
  if constexpr (kMasked) {
    v += _mm512_maskz_loadu_ps(left, row.mask + i);
    _mm512_storeu_ps(row.s + i, v);
  }
  return v;
}

// Writes 2^x of the scores at i over the row, in 16 bits, and returns it.
template <bool kMasked>
QNNRT_AVX512 inline __m512 WeightAt(const Row<kMasked>& row, size_t i, __mmask16 left, __m512 top) {
  const __m512 v = _mm512_maskz_loadu_ps(left, row.s + i);
  const __m512 x =
      kMasked ? (v - top) * _mm512_set1_ps(kLog2e) : _mm512_fmsub_ps(v, row.factor, top);
  const __m512 e = _mm512_maskz_mov_ps(left, Exp2(x));
  const __m256bh rounded = _mm512_maskz_cvtneps_pbh(0xffff, e);
  __builtin_memcpy(reinterpret_cast<uint16_t*>(row.s) + i, &rounded, sizeof(rounded));
  return e;
}

// Writes 2^x of a row of scores over it, in 16 bits and up to `padded` of them, and returns the
// sum: x = (scale * s + mask - the maximum) * log2 e.
template <bool kMasked>
QNNRT_AVX512 float Weights(float* s, const float* mask, size_t n, size_t padded, float scale) {
  constexpr __mmask16 kAll = 0xffff;
  const Row<kMasked> row = {s, mask, _mm512_set1_ps(kMasked ? scale : scale * kLog2e)};
  const __m512 least = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
  __m512 top0 = least, top1 = least, top2 = least, top3 = least;
  size_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    top0 = Max(top0, ScaledAt(row, i, kAll));
    top1 = Max(top1, ScaledAt(row, i + kLanes, kAll));
    top2 = Max(top2, ScaledAt(row, i + 2 * kLanes, kAll));
    top3 = Max(top3, ScaledAt(row, i + 3 * kLanes, kAll));
  }
  for (; i < n; i += kLanes) {
    const __mmask16 left = First(n - i);
    top0 = _mm512_mask_max_ps(top0, left, top0, ScaledAt(row, i, left));
  }
  const __m512 top = MaxOfAll(Max(Max(top0, top1), Max(top2, top3)));
  __m512 sum0 = _mm512_setzero_ps(), sum1 = _mm512_setzero_ps();
  for (i = 0; i + 2 * kLanes <= n; i += 2 * kLanes) {
    sum0 += WeightAt(row, i, kAll, top);
    sum1 += WeightAt(row, i + kLanes, kAll, top);
  }
  for (; i < padded; i += kLanes) {
    sum0 += WeightAt(row, i, i < n ? First(n - i) : __mmask16{0}, top);
  }
  return SumOfAll(sum0 + sum1)[0];
}

QNNRT_AVX512 void StoreRow(const float* from, float factor, size_t n, float* to) {
  for (size_t i = 0; i < n; i += kLanes) {
    const __mmask16 left = First(n - i);
    _mm512_mask_storeu_ps(to + i, left,
                          _mm512_maskz_loadu_ps(left, from + i) * _mm512_set1_ps(factor));
  }
}

// to = from * factor, rounded
QNNRT_AVX512 void StoreRow(const float* from, float factor, size_t n, uint16_t* to) {
  for (size_t i = 0; i < n; i += kLanes) {
    const __mmask16 left = First(n - i);
    const __m512 v = _mm512_maskz_loadu_ps(left, from + i) * _mm512_set1_ps(factor);
    const __m256bh rounded = _mm512_maskz_cvtneps_pbh(0xffff, v);
    __m256i bits;
    __builtin_memcpy(&bits, &rounded, sizeof(bits));
    _mm256_mask_storeu_epi16(to + i, left, bits);
  }
}

class TileAttention final : public Kernel {
 public:
  TileAttention(const Node& node, const AttentionGeometry& g, int threads)
      : g_(g),
        masked_(node.HasInput(3)),
        rounds_(node.outputs[0]->dtype == QNN_DATATYPE_BFLOAT_16),
        depth_tiles_(TilesOf(g.depth, kTileDepth)),
        key_tiles_(TilesOf(g.keys, kTileDepth)),
        width_tiles_(TilesOf(g.width, kTileColumns)) {
    // Rows that lie a power of two apart would share the sets of a cache.
    pitch_ = key_tiles_ * kTileDepth + kLanes;
    block_ = kRows * pitch_ > kMostScores || g_.rows <= kTileRows ? kTileRows : kRows;
    blocks_ = TilesOf(g_.rows, block_);
    slots_ = std::min(g_.heads() * blocks_, 4 * static_cast<size_t>(std::max(1, threads)));
    keys_bytes_ = 2 * key_tiles_ * depth_tiles_ * kTileElements * sizeof(uint16_t);
    values_bytes_ = width_tiles_ * key_tiles_ * kTileElements * sizeof(uint16_t);
    scores_bytes_ = ScratchRoom(block_ * pitch_ * sizeof(float));
    queries_bytes_ = block_ * depth_tiles_ * kTileDepth * sizeof(uint16_t);
    slot_bytes_ =
        scores_bytes_ + queries_bytes_ + block_ * width_tiles_ * kTileColumns * sizeof(float);
  }

  const char* Name() const override { return "tiles"; }
  size_t ScratchBytes() const override {
    return g_.heads() * (keys_bytes_ + values_bytes_ + sizeof(SeenKeys)) + slots_ * slot_bytes_;
  }

  Status Run(const ExecArgs& args) override {
    char* const keys = static_cast<char*>(args.scratch);
    char* const values = keys + g_.heads() * keys_bytes_;
    char* const slots = values + g_.heads() * values_bytes_;
    SeenKeys* const seen = reinterpret_cast<SeenKeys*>(slots + slots_ * slot_bytes_);
    FindSeenKeys(g_, masked_ ? static_cast<const float*>(args.in[3]) : nullptr, seen);
    const uint16_t* k = static_cast<const uint16_t*>(args.in[1]);
    const uint16_t* v = static_cast<const uint16_t*>(args.in[2]);
    const size_t grain = std::max<size_t>(1, 16 * 1024 / ((g_.depth + g_.width) * g_.keys));
    args.threads.For(g_.heads(), grain, [&](size_t begin, size_t end) {
      for (size_t head = begin; head < end; ++head) {
        const size_t n = seen[head].end, tiles = TilesOf(n, kTileDepth);
        PackTiles({k + g_.At(g_.k, head), g_.k[3], g_.k[2]}, g_.depth, n, depth_tiles_, 2 * tiles,
                  reinterpret_cast<uint16_t*>(keys + head * keys_bytes_));
        PackTiles({v + g_.At(g_.v, head), g_.v[2], g_.v[3]}, n, g_.width, tiles, width_tiles_,
                  reinterpret_cast<uint16_t*>(values + head * values_bytes_));
      }
    });
    args.threads.For(slots_, 1, [&](size_t begin, size_t end) {
      TileScope tiles;
      for (size_t slot = begin; slot < end; ++slot) {
        for (size_t unit = slot; unit < g_.heads() * blocks_; unit += slots_) {
          const size_t head = unit / blocks_;
          Block(args, head, seen[head].end, unit % blocks_ * block_,
                reinterpret_cast<uint16_t*>(keys + head * keys_bytes_),
                reinterpret_cast<uint16_t*>(values + head * values_bytes_),
                slots + slot * slot_bytes_);
        }
      }
    });
    return {};
  }

 private:
  void Block(const ExecArgs& args, size_t head, size_t seen, size_t first, const uint16_t* keys,
             const uint16_t* values, char* slot) const {
    const size_t key_tiles = TilesOf(seen, kTileDepth);
    const size_t rows = std::min(block_, g_.rows - first);
    const size_t depth = depth_tiles_ * kTileDepth, width = width_tiles_ * kTileColumns;
    float* scores = reinterpret_cast<float*>(slot);
    uint16_t* queries = reinterpret_cast<uint16_t*>(slot + scores_bytes_);
    float* sums = reinterpret_cast<float*>(slot + scores_bytes_ + queries_bytes_);
    const uint16_t* q =
        static_cast<const uint16_t*>(args.in[0]) + g_.At(g_.q, head) + first * g_.q[2];
    for (size_t r = 0; r < block_; ++r) {
      const size_t count = r < rows ? g_.depth : 0;
      const uint16_t* from = q + (r < rows ? r * g_.q[2] : 0);
      uint16_t* to = queries + r * depth;
      if (g_.q[3] == 1) {
        std::copy_n(from, count, to);
      } else {
        for (size_t i = 0; i < count; ++i) to[i] = from[i * g_.q[3]];
      }
      std::fill(to + count, to + depth, uint16_t{0});
    }
    TileProduct product;
    product.a = queries;
    product.lda = depth;
    product.b = keys;
    product.c = scores;
    product.ldc = pitch_;
    product.row_tiles = TilesOf(rows, kTileRows);
    product.column_tiles = 2 * key_tiles;
    product.depth_tiles = depth_tiles_;
    MultiplyTiles(product);
    const float* mask = nullptr;
    if (masked_) {
      mask = static_cast<const float*>(args.in[3]) + g_.At(g_.mask, head) + first * g_.mask[2];
    }
    float totals[kRows];
    for (size_t r = 0; r < rows; ++r) {
      float* row = scores + r * pitch_;
      const size_t padded = key_tiles * kTileDepth;
      totals[r] = masked_ ? Weights<true>(row, mask + r * g_.mask[2], seen, padded, g_.scale)
                          : Weights<false>(row, nullptr, seen, padded, g_.scale);
    }
    product.a = reinterpret_cast<const uint16_t*>(scores);
    product.lda = 2 * pitch_;
    product.b = values;
    product.c = sums;
    product.ldc = width;
    product.column_tiles = width_tiles_;
    product.depth_tiles = key_tiles;
    MultiplyTiles(product);
    for (size_t r = 0; r < rows; ++r) {
      const size_t at = g_.At(g_.out, head) + (first + r) * g_.out[2];
      const float* from = sums + r * width;
      if (rounds_) {
        StoreRow(from, 1.0f / totals[r], g_.width, static_cast<uint16_t*>(args.out[0]) + at);
      } else {
        StoreRow(from, 1.0f / totals[r], g_.width, static_cast<float*>(args.out[0]) + at);
      }
    }
  }

  const AttentionGeometry g_;
  const bool masked_, rounds_;
  const size_t depth_tiles_, key_tiles_, width_tiles_;
  size_t pitch_ = 0;               // from row to row of the scores, in floats
  size_t block_ = 1, blocks_ = 1;  // rows of a block, blocks of a head
  size_t slots_ = 1;
  size_t keys_bytes_ = 0, values_bytes_ = 0;  // of a head, packed
  size_t scores_bytes_ = 0, queries_bytes_ = 0, slot_bytes_ = 0;
};

}  // namespace

KernelPtr MakeTileAttention(const Node& node, const AttentionGeometry& g, int threads) {
  const auto narrow = [](const Tensor* t) { return t->dtype == QNN_DATATYPE_BFLOAT_16; };
  const auto wide = [](const Tensor* t) { return t->dtype == QNN_DATATYPE_FLOAT_32; };
  if (!HasTileProducts() || g.rounds != nullptr ||
      !(narrow(node.outputs[0]) || wide(node.outputs[0])))
    return nullptr;
  if (!std::all_of(node.inputs.begin(), node.inputs.begin() + 3, narrow)) return nullptr;
  if (node.HasInput(3) && !wide(node.inputs[3])) return nullptr;
  return KernelPtr(new TileAttention(node, g, threads));
}

}  // namespace qnnrt

#else

namespace qnnrt {

KernelPtr MakeTileAttention(const Node&, const AttentionGeometry&, int) { return nullptr; }

}  // namespace qnnrt

#endif
