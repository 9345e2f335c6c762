// Attention of few queries, as when a text is continued: keys and values are read once, where they
// lie, and only those that the mask shows.
#include <algorithm>

#include "ops/isa.h"
#include "ops/matmul/attention.h"
#include "ops/simd.h"
#include "ops/stored_floats.h"

namespace qnnrt {
namespace {

constexpr size_t kKeys = 64;  // of a piece of work
// Likewise, of values: of whole lines, where there is enough work for all threads.
constexpr size_t kColumns = 32, kMostColumns = 64;
constexpr size_t kTogether = 4;  // rows of queries that meet a key or value as it is read
constexpr size_t kLine = 16;     // floats of a cache line
constexpr size_t kWide = 4096;   // floats that are widened at a time, where they have 16 bits
// Memory is read at so many places at a time, which is faster than from one end to the other.
constexpr size_t kPlaces = 4;
constexpr size_t kRowsAhead = 16;  // that are fetched before they are widened
constexpr size_t kAhead = 512;  // floats of values at a place that are fetched before they are read

template <size_t kLanes>
struct Lanes {
  typedef float Vec __attribute__((vector_size(kLanes * sizeof(float))));
};
// (A vector that is returned is one that the plain instruction set has to know.)
template <typename Vec>
QNNRT_INLINE void Load(const float* from, Vec* to) {
  __builtin_memcpy(to, from, sizeof(*to));
}

// A long cache comes from memory, and what a processor fetches by itself ends at each page.
QNNRT_INLINE void Fetch(const float* from, size_t floats) {
  for (size_t i = 0; i < floats; i += kLine) __builtin_prefetch(from + i, 0, 2);
}

// to[r * pitch + j] = q_r k_j for each of kRows queries, one behind the other, and `keys` keys. The
// sums of some keys are vectors first, whose elements are added together for all of these keys.
// `left`: keys from k on that are read now or next.
template <size_t kLanes, size_t kRows>
struct Scores {
  using Vec = typename Lanes<kLanes>::Vec;
  static QNNRT_INLINE void Run(const float* q, size_t depth, const float* k, size_t next,
                               size_t keys, size_t left, float* to, size_t pitch) {
    float quarters[kRows][kKeys][4];
    for (size_t j0 = 0; j0 < keys; j0 += kKeys) {
      const size_t count = keys - j0 < kKeys ? keys - j0 : kKeys;
      for (size_t i = 0; i < count; ++i) {
        const size_t j = count == kKeys ? i % kPlaces * (kKeys / kPlaces) + i / kPlaces : i;
        const float* key = k + (j0 + j) * next;
        if (j0 + j + kKeys < left) Fetch(key + kKeys * next, depth);
        Product(q, depth, key, quarters, j);
      }
      for (size_t r = 0; r < kRows; ++r) {
        const float* from = quarters[r][0];
        float* row = to + r * pitch + j0;
        QNNRT_SIMD
        for (size_t j = 0; j < count; ++j)
          row[j] = (from[4 * j] + from[4 * j + 1]) + (from[4 * j + 2] + from[4 * j + 3]);
      }
    }
  }

 private:
  static QNNRT_INLINE void Product(const float* q, size_t depth, const float* key,
                                   float (&quarters)[kRows][kKeys][4], size_t j) {
    Vec sums[kRows] = {};
    size_t i = 0;
    for (; i + kLanes <= depth; i += kLanes) {
      Vec some, query;
      Load(key + i, &some);
      for (size_t r = 0; r < kRows; ++r) {
        Load(q + r * depth + i, &query);
        sums[r] += query * some;
      }
    }
    for (; i < depth; ++i) {
      for (size_t r = 0; r < kRows; ++r) sums[r][0] += q[r * depth + i] * key[i];
    }
    for (size_t r = 0; r < kRows; ++r) Quarter(sums[r], quarters[r][j]);
  }

  static QNNRT_INLINE void Quarter(const Vec& v, float* to) {
    typename Lanes<4>::Vec parts[kLanes / 4], sum;
    __builtin_memcpy(parts, &v, sizeof(parts));
    if constexpr (kLanes == 16) {
      sum = (parts[0] + parts[2]) + (parts[1] + parts[3]);
    } else if constexpr (kLanes == 8) {
      sum = parts[0] + parts[1];
    } else {
      sum = parts[0];
    }
    __builtin_memcpy(to, &sum, sizeof(sum));
  }
};

// to[r][i] += sum_j p_r[j] v_j[i] for kRows rows of weights `pitch` apart, and `columns` of each
// value: kColumns unless it is the end of a row.
template <size_t kLanes, size_t kRows, size_t kColumns>
struct Weighted {
  using Vec = typename Lanes<kLanes>::Vec;

  static QNNRT_INLINE void Run(const float* p, size_t pitch, size_t keys, const float* v,
                               size_t next, size_t columns, float (*to)[kMostColumns]) {
    if (columns == kColumns) return RunWhole(p, pitch, keys, v, next, to);
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t j = 0; j < keys; ++j) {
        const float* a = v + j * next;
        const float factor = p[r * pitch + j];
        QNNRT_SIMD
        for (size_t i = 0; i < columns; ++i) to[r][i] += factor * a[i];
      }
    }
  }

 private:
  static QNNRT_INLINE void RunWhole(const float* p, size_t pitch, size_t keys, const float* v,
                                    size_t next, float (*to)[kMostColumns]) {
    constexpr size_t kVecs = kColumns / kLanes;
    Vec sums[kRows][kVecs];
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t i = 0; i < kVecs; ++i) Load(to[r] + i * kLanes, &sums[r][i]);
    }
    constexpr size_t kNext = kAhead / kColumns;
    const size_t each = keys / kPlaces;
    for (size_t n = 0; n < keys; ++n) {
      const size_t j = n < each * kPlaces ? n % kPlaces * each + n / kPlaces : n;
      const float* a = v + j * next;
      if (n / kPlaces + kNext < each) Fetch(a + kNext * next, kColumns);
      Vec some[kVecs];
      for (size_t i = 0; i < kVecs; ++i) Load(a + i * kLanes, &some[i]);
      for (size_t r = 0; r < kRows; ++r) {
        for (size_t i = 0; i < kVecs; ++i) sums[r][i] += p[r * pitch + j] * some[i];
      }
    }
    for (size_t r = 0; r < kRows; ++r) __builtin_memcpy(to[r], sums[r], sizeof(sums[r]));
  }
};

using ScoresFn = void (*)(const float*, size_t, const float*, size_t, size_t, size_t, float*,
                          size_t);
using WeightedFn = void (*)(const float*, size_t, size_t, const float*, size_t, size_t,
                            float (*)[kMostColumns]);

// The loops for 1 to kTogether rows of queries, in the vectors of this machine.
struct RowLoops {
  ScoresFn scores[kTogether];
  WeightedFn some[kTogether], most[kTogether];  // of kColumns and of kMostColumns
};

template <size_t kLanes, size_t kRows = kTogether>
void Fill(RowLoops* loops) {
  loops->scores[kRows - 1] = PickIsa<Scores<kLanes, kRows>>();
  loops->some[kRows - 1] = PickIsa<Weighted<kLanes, kRows, kColumns>>();
  loops->most[kRows - 1] = PickIsa<Weighted<kLanes, kRows, kMostColumns>>();
  if constexpr (kRows > 1) Fill<kLanes, kRows - 1>(loops);
}

const RowLoops& LoopsOfRows() {
  static const RowLoops loops = [] {
    RowLoops made;
    switch (CpuIsa()) {
      case Isa::kAvx512:
        Fill<16>(&made);
        break;
      case Isa::kAvx2:
        Fill<8>(&made);
        break;
      case Isa::kBase:
        Fill<4>(&made);
        break;
    }
    return made;
  }();
  return loops;
}

// use(r, n): n rows from r on, kTogether at a time.
template <typename Use>
void InGroups(size_t rows, const Use& use) {
  for (size_t r = 0; r < rows; r += kTogether) use(r, std::min(kTogether, rows - r));
}

// Runs `use(floats, next, j, count)` on rows [0, rows) of `columns` floats each, so many at a time
// that they stay in the first cache where they have to be widened, or rounded.
template <typename Use>
void InRows(const RoundedFloats& stored, const void* data, size_t at, size_t stride, size_t rows,
            size_t columns, const Use& use) {
  if (!stored.narrow()) {
    use(static_cast<const float*>(data) + at, stride, 0, rows);
    return;
  }
  float wide[kWide];
  const size_t step = kWide / columns / 4 * 4;
  const size_t together = stride == columns ? 8 : 1;  // rows, where they lie side by side
  for (size_t j = 0; j < rows; j += step) {
    const size_t count = std::min(step, rows - j);
    for (size_t i = 0; i < count; i += together) {
      const size_t row = at + (j + i) * stride, floats = std::min(together, count - i) * columns;
      stored.Fetch(data, row + kRowsAhead * stride, floats);
      stored.Read(data, row, floats, wide + i * columns);
    }
    use(wide, columns, j, count);
  }
}

class RowAttention final : public Kernel {
 public:
  RowAttention(const Node& node, const AttentionGeometry& g)
      : g_(g),
        q_(*node.inputs[0]),
        out_(*node.outputs[0]),
        k_(*node.inputs[1], g.rounds_keys),
        v_(*node.inputs[2], g.rounds_values),
        mask_(node),
        loops_(LoopsOfRows()),
        exponentials_(AttentionExponentials()),
        pitch_((g.keys + kLine - 1) / kLine * kLine + kLine) {}

  size_t ScratchBytes() const override {
    const size_t floats = g_.heads() * g_.rows * (pitch_ + g_.depth + 1) + mask_.ScratchFloats();
    return ScratchRoom(g_.heads() * sizeof(SeenKeys)) + floats * sizeof(float);
  }
  const char* Name() const override { return "rows"; }

  Status Run(const ExecArgs& args) override {
    const size_t rows = g_.heads() * g_.rows;
    SeenKeys* const seen = static_cast<SeenKeys*>(args.scratch);
    float* const scores = reinterpret_cast<float*>(static_cast<char*>(args.scratch) +
                                                   ScratchRoom(g_.heads() * sizeof(SeenKeys)));
    float* const queries = scores + rows * pitch_;
    float* const sums = queries + rows * g_.depth;
    const float* const mask = mask_.Read(args, sums + rows);
    FindSeenKeys(g_, mask, seen);
    size_t most = 0;
    for (size_t head = 0; head < g_.heads(); ++head) most = std::max(most, seen[head].count());
    const float scale = g_.rounds == nullptr ? g_.scale : 1.0f;
    for (size_t row = 0; row < rows; ++row) {
      const size_t at = g_.At(g_.q, row / g_.rows) + row % g_.rows * g_.q[2];
      float* const to = queries + row * g_.depth;
      if (g_.q[3] == 1) {
        Simd().scale(to, q_.Read(args.in[0], at, g_.depth, to), scale, g_.depth);
        continue;
      }
      for (size_t i = 0; i < g_.depth; ++i) {
        float element;
        to[i] = *q_.Read(args.in[0], at + i * g_.q[3], 1, &element) * scale;
      }
    }
    const size_t pieces = (most + kKeys - 1) / kKeys;
    args.threads.For(g_.heads() * pieces, Grain(kKeys * g_.depth), [&](size_t begin, size_t end) {
      for (size_t unit = begin; unit < end; ++unit) {
        const size_t head = unit / pieces, first = unit % pieces * kKeys;
        if (first >= seen[head].count()) continue;
        float* const to = scores + head * g_.rows * pitch_ + first;
        InRows(k_, args.in[1], g_.At(g_.k, head) + (seen[head].first + first) * g_.k[2], g_.k[2],
               std::min(kKeys, seen[head].count() - first), g_.depth,
               [&](const float* keys, size_t next, size_t j, size_t count) {
                 const float* q = queries + head * g_.rows * g_.depth;
                 const size_t left = k_.narrow() ? count : seen[head].count() - first - j;
                 InGroups(g_.rows, [&](size_t r, size_t n) {
                   loops_.scores[n - 1](q + r * g_.depth, g_.depth, keys, next, count, left,
                                        to + r * pitch_ + j, pitch_);
                 });
               });
      }
    });
    constexpr size_t kExponential = 8;  // in steps of a product
    args.threads.For(rows, Grain(kExponential * most) * g_.rows, [&](size_t begin, size_t end) {
      for (size_t row = begin; row < end; ++row) {
        const size_t head = row / g_.rows;
        const float* own = mask == nullptr ? nullptr
                                           : mask + g_.At(g_.mask, head) +
                                                 row % g_.rows * g_.mask[2] + seen[head].first;
        sums[row] =
            AttentionWeights(g_, exponentials_, scores + row * pitch_, own, seen[head].count());
      }
    });
    const size_t threads = static_cast<size_t>(args.threads.limit());
    const size_t few = (g_.width + kMostColumns - 1) / kMostColumns;
    const size_t columns = g_.heads() * few % threads == 0 || g_.heads() * few >= 4 * threads
                               ? kMostColumns
                               : kColumns;
    const size_t parts = (g_.width + columns - 1) / columns;
    args.threads.For(g_.heads() * parts, Grain(most * columns), [&](size_t begin, size_t end) {
      for (size_t unit = begin; unit < end; ++unit) {
        Values(args, unit / parts, unit % parts * columns, columns, seen[unit / parts], scores,
               sums);
      }
    });
    return {};
  }

 private:
  // So many of the results of a head, as far as there are.
  void Values(const ExecArgs& args, size_t head, size_t first, size_t wanted, const SeenKeys& seen,
              const float* scores, const float* sums) const {
    const WeightedFn* loops = wanted == kColumns ? loops_.some : loops_.most;
    const size_t columns = std::min(wanted, g_.width - first);
    scores += head * g_.rows * pitch_;
    sums += head * g_.rows;
    float results[kMostAttentionRows][kMostColumns] = {};
    InRows(v_, args.in[2], g_.At(g_.v, head) + seen.first * g_.v[2] + first, g_.v[2], seen.count(),
           columns, [&](const float* values, size_t next, size_t j, size_t count) {
             InGroups(g_.rows, [&](size_t r, size_t n) {
               loops[n - 1](scores + r * pitch_ + j, pitch_, count, values, next, columns,
                            results + r);
             });
           });
    for (size_t r = 0; r < g_.rows; ++r) {
      const size_t at = g_.At(g_.out, head) + r * g_.out[2] + first;
      const float factor = 1.0f / sums[r];
      float* const to = out_.Place(args.out[0], at, results[r]);
      for (size_t i = 0; i < columns; ++i) to[i] = results[r][i] * factor;
      out_.Store(to, args.out[0], at, columns);
    }
  }

  // Pieces of so many steps that are worth a thread.
  size_t Grain(size_t steps) const {
    constexpr size_t kWorth = 32 * 1024;
    return std::max<size_t>(1, kWorth / std::max<size_t>(1, steps * g_.rows));
  }

  const AttentionGeometry g_;
  const StoredFloats q_, out_;
  const RoundedFloats k_, v_;
  const MaskFloats mask_;
  const RowLoops& loops_;
  const ExponentialsFn exponentials_;
  const size_t pitch_;  // floats from one row of scores to the next
};

}  // namespace

KernelPtr MakeRowAttention(const Node& node, const AttentionGeometry& g) {
  const bool dense = (g.k[3] == 1 || g.depth == 1) && (g.v[3] == 1 || g.width == 1);
  if (g.rows > kMostAttentionRows || !dense) return nullptr;
  if (RoundedFloats(*node.inputs[1], g.rounds_keys).narrow() && g.depth > kWide / 4) return nullptr;
  return std::make_unique<RowAttention>(node, g);
}

}  // namespace qnnrt
