// Pools of images of one channel, which is what lies in memory where channels come first: vectors
// are neighbours of a line.
#include <algorithm>
#include <limits>
#include <vector>

#include "ops/isa.h"
#include "ops/pool/pool.h"
#include "ops/rules.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace qnnrt {
namespace {

// Columns of the output below which most of a vector is empty.
constexpr int64_t kLeastColumns = 4;
constexpr int64_t kMostLines = 64;    // that a window sees
constexpr int64_t kMostColumns = 17;  // of a window: a vector's and one of the next

}  // namespace

bool PoolsPlanes(const PoolGeometry& g) {
  return CpuIsa() == Isa::kAvx512 && g.stride[2] <= 2 && g.out[2] >= kLeastColumns &&
         g.kernel[2] <= kMostColumns && g.kernel[0] <= kMostLines &&
         g.kernel[1] <= kMostLines / g.kernel[0];
}

#if defined(__x86_64__)

namespace {

#define QNNRT_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

constexpr int64_t kWidth = 16;

// As max.cc has it: what is no number is passed over.
struct Greatest {
  static constexpr bool kScales = false;
  static QNNRT_AVX512 __m512 Start() { return _mm512_set1_ps(Lowest()); }
  static QNNRT_AVX512 __m512 Take(__m512 all, __m512 next) {
    return _mm512_mask_max_ps(all, 0xffff, next, all);
  }
  static QNNRT_AVX512 __m512 Take(__m512 all, __mmask16 inside, const float* next) {
    return _mm512_mask_max_ps(all, inside, _mm512_maskz_loadu_ps(inside, next), all);
  }

 private:
  static float Lowest() { return -std::numeric_limits<float>::infinity(); }
};

struct Total {
  static constexpr bool kScales = true;
  static QNNRT_AVX512 __m512 Start() { return _mm512_setzero_ps(); }
  static QNNRT_AVX512 __m512 Take(__m512 all, __m512 next) { return _mm512_add_ps(all, next); }
  static QNNRT_AVX512 __m512 Take(__m512 all, __mmask16 inside, const float* next) {
    return _mm512_add_ps(all, _mm512_maskz_loadu_ps(inside, next));
  }
};

// Which of a vector's columns, the first of which is `begin`, a line has.
inline __mmask16 Inside(int64_t begin, int64_t columns) {
  if (begin >= 0 && begin + kWidth <= columns) return 0xffff;
  const int64_t first = std::clamp<int64_t>(-begin, 0, kWidth);
  const int64_t end = std::clamp<int64_t>(columns - begin, 0, kWidth);
  return static_cast<__mmask16>(((1u << end) - 1) & ~((1u << first) - 1));
}

// Windows along one line of the output.
struct Windows {
  const float* const* lines;  // that they see
  size_t count;
};

// A vector of columns: the greatest or the sum of the windows' lines. kRows: so many, or 0.
template <typename Op, size_t kRows>
QNNRT_AVX512 inline __m512 Columns(const Windows& w, __mmask16 inside, int64_t begin) {
  __m512 all = Op::Start();
  if (inside == 0) return all;
  const size_t count = kRows != 0 ? kRows : w.count;
#pragma GCC unroll 3
  for (size_t i = 0; i < count; ++i) all = Op::Take(all, inside, w.lines[i] + begin);
  return all;
}

// The first columns of a vector of windows; where every window begins two columns behind the one
// before it, the second ones as well.
template <bool kTwo>
struct First {
  __m512 columns[kTwo ? 2 : 1];

  template <typename Op, size_t kRows>
  QNNRT_AVX512 void Read(const Windows& w, const uint16_t* inside, int64_t begin) {
    columns[0] = Columns<Op, kRows>(w, inside[0], begin);
    if constexpr (kTwo) {
      const __m512 low = columns[0];
      const __m512 high = Columns<Op, kRows>(w, inside[1], begin + kWidth);
      const __m512i even =
          _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
      const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
      columns[0] = _mm512_permutex2var_ps(low, even, high);
      columns[1] = _mm512_permutex2var_ps(low, odd, high);
    }
  }
};

// A vector of windows of `width` columns (kColumns: so many, or 0): the later ones are the first
// ones of the windows after them.
template <typename Op, bool kTwo, size_t kColumns>
QNNRT_AVX512 inline __m512 Vector(const First<kTwo>& these, const First<kTwo>& next,
                                  int64_t width) {
  constexpr int64_t kSteps = kTwo ? 2 : 1;
  const int64_t columns = kColumns != 0 ? static_cast<int64_t>(kColumns) : width;
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  __m512 all = these.columns[0];
#pragma GCC unroll 3
  for (int64_t x = 1; x < columns; ++x) {
    const __m512 a = these.columns[x % kSteps], b = next.columns[x % kSteps];
    const __m512i from = _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<int>(x / kSteps)));
    all = Op::Take(all, x < kSteps ? a : _mm512_permutex2var_ps(a, from, b));
  }
  return all;
}

template <typename Op, bool kTwo>
class PlanePool final : public Kernel {
 public:
  PlanePool(const PoolGeometry& g, int threads)
      : g_(g),
        parts_(
            std::clamp<int64_t>(Lines() / static_cast<int64_t>(LinesWorthAThread(g)), 1, threads)) {
    for (int64_t z = 0; z < g.out[0]; ++z) planes_.push_back(SpanOf(g, 0, z));
    for (int64_t y = 0; y < g.out[1]; ++y) rows_.push_back(SpanOf(g, 1, y));
    const int64_t vectors = (g.out[2] + kWidth - 1) / kWidth + 1;  // one is read behind the last
    for (int64_t i = 0; i < vectors * kSteps; ++i)
      inside_.push_back(Inside(i * kWidth - g.pad_before[2], g.in[2]));
    for (int64_t x = 0; Op::kScales && x < g.out[2]; ++x) {
      const float count = static_cast<float>(Length(SpanOf(g, 2, x)));
      counts_.push_back(count);
      factors_.push_back(count == 0 ? 0 : 1 / (count * WholeLines()));
    }
  }

  Status Run(const ExecArgs& args) override {
    args.threads.For(static_cast<size_t>(parts_), 1, [&](size_t begin, size_t end) {
      RunLines(static_cast<const float*>(args.in[0]), static_cast<float*>(args.out[0]),
               Lines() * static_cast<int64_t>(begin) / parts_,
               Lines() * static_cast<int64_t>(end) / parts_);
    });
    return Status::Ok();
  }

 private:
  static constexpr int64_t kSteps = kTwo ? 2 : 1;  // vectors of columns for one of windows

  int64_t Lines() const { return g_.batch * g_.out[0] * g_.out[1]; }
  int64_t Length(const PoolSpan& span) const { return g_.count_pads ? span.padded : span.size(); }
  float WholeLines() const { return static_cast<float>(g_.kernel[0] * g_.kernel[1]); }

  QNNRT_AVX512 void RunLines(const float* in, float* out, int64_t begin, int64_t end) const {
    const int64_t image = g_.in[0] * g_.in[1] * g_.in[2];
    int64_t n = begin / (g_.out[0] * g_.out[1]);
    int64_t z = begin / g_.out[1] % g_.out[0], y = begin % g_.out[1];
    out += begin * g_.out[2];
    const float* lines[kMostLines];
    for (int64_t line = begin; line < end; ++line, out += g_.out[2]) {
      const PoolSpan &d = planes_[static_cast<size_t>(z)], &h = rows_[static_cast<size_t>(y)];
      size_t count = 0;
      for (int64_t i = d.begin; i < d.end; ++i) {
        const float* at = in + n * image + (i * g_.in[1] + h.begin) * g_.in[2];
        for (int64_t j = h.begin; j < h.end; ++j, at += g_.in[2]) lines[count++] = at;
      }
      RunLine({lines, count}, static_cast<float>(Length(d) * Length(h)), out);
      if (++y < g_.out[1]) continue;
      y = 0;
      if (++z < g_.out[0]) continue;
      z = 0, ++n;
    }
  }

  QNNRT_AVX512 void RunLine(const Windows& w, float lines, float* out) const {
    switch (g_.kernel[2]) {
      case 2:
        return w.count == 2 ? Line<2, 2>(w, lines, out) : Line<2, 0>(w, lines, out);
      case 3:
        return w.count == 3 ? Line<3, 3>(w, lines, out) : Line<3, 0>(w, lines, out);
      default:
        return Line<0, 0>(w, lines, out);
    }
  }

  // `lines`: that count in a mean.
  template <size_t kColumns, size_t kRows>
  QNNRT_AVX512 void Line(const Windows& w, float lines, float* out) const {
    const uint16_t* inside = inside_.data();
    int64_t column = -g_.pad_before[2];
    First<kTwo> these, next;
    these.template Read<Op, kRows>(w, inside, column);
    for (int64_t x = 0; x < g_.out[2]; x += kWidth, these = next) {
      inside += kSteps, column += kSteps * kWidth;
      next.template Read<Op, kRows>(w, inside, column);
      __m512 all = Vector<Op, kTwo, kColumns>(these, next, g_.kernel[2]);
      const __mmask16 here = Inside(x, g_.out[2]);
      if constexpr (Op::kScales) {
        __m512 factor = _mm512_maskz_loadu_ps(here, factors_.data() + x);
        if (lines != WholeLines()) {
          const __m512 count =
              _mm512_mul_ps(_mm512_maskz_loadu_ps(here, counts_.data() + x), _mm512_set1_ps(lines));
          const __mmask16 any = _mm512_cmp_ps_mask(count, _mm512_setzero_ps(), _CMP_NEQ_OQ);
          factor = _mm512_maskz_div_ps(any, _mm512_set1_ps(1), count);
        }
        all = _mm512_mul_ps(all, factor);
      }
      _mm512_mask_storeu_ps(out + x, here, all);
    }
  }

  const PoolGeometry g_;
  const int64_t parts_;
  std::vector<PoolSpan> planes_, rows_;
  std::vector<uint16_t> inside_;         // of each vector of columns, those that a line has
  std::vector<float> counts_, factors_;  // of a mean, for each column
};

template <typename Op>
KernelPtr MakeOf(const PoolGeometry& g, int threads) {
  if (g.stride[2] == 2) return KernelPtr(new PlanePool<Op, true>(g, threads));
  return KernelPtr(new PlanePool<Op, false>(g, threads));
}

}  // namespace

KernelPtr MakePlanePool(const PoolGeometry& g, bool mean, int threads) {
  if (g.channels != 1 || !PoolsPlanes(g)) return KernelPtr();
  return mean ? MakeOf<Total>(g, threads) : MakeOf<Greatest>(g, threads);
}

#else

KernelPtr MakePlanePool(const PoolGeometry&, bool, int) { return KernelPtr(); }

#endif

}  // namespace qnnrt
