// Attention of few queries, as when a text is continued: keys and values are read once, where they
// lie, and only those that the mask shows.
#include <algorithm>

#include "ops/isa.h"
#include "ops/matmul/attention.h"
#include "ops/simd.h"
#include "ops/stored_floats.h"

namespace qnnrt {
namespace {

constexpr size_t kKeys = 64;     // of a piece of work
constexpr size_t kColumns = 32;  // likewise, of values
constexpr size_t kLine = 16;     // floats of a cache line
constexpr size_t kWide = 4096;   // floats that are widened at a time, where they have 16 bits
constexpr size_t kAhead = 8;     // keys or values whose lines are fetched before they are read

// A long cache comes from memory, and what a processor fetches by itself ends at each page.
QNNRT_INLINE void Fetch(const float* from, size_t floats) {
  for (size_t i = 0; i < floats; i += kLine) __builtin_prefetch(from + i, 0, 2);
}

// to[r * pitch + j] = q_r k_j for each of `rows` queries, one behind the other, and `keys` keys.
struct Scores {
  static QNNRT_INLINE void Run(const float* q, size_t rows, size_t depth, const float* k,
                               size_t next, size_t keys, float* to, size_t pitch) {
    for (size_t j = 0; j < keys; ++j) {
      const float* key = k + j * next;
      Fetch(key + kAhead * next, depth);
      for (size_t r = 0; r < rows; ++r) {
        const float* query = q + r * depth;
        float sum = 0;
        QNNRT_SIMD_REDUCE(reduction(+ : sum))
        for (size_t i = 0; i < depth; ++i) sum += query[i] * key[i];
        to[r * pitch + j] = sum;
      }
    }
  }
};

// to[i] += sum_j p[j] v_j[i], four values at a time.
struct Weighted {
  static QNNRT_INLINE void Run(const float* p, size_t keys, const float* v, size_t next,
                               size_t columns, float* to) {
    float sums[kColumns] = {};
    for (size_t i = 0; i < columns; ++i) sums[i] = to[i];
    size_t j = 0;
    for (; j + 4 <= keys; j += 4) {
      const float *a = v + j * next, *b = a + next, *c = b + next, *d = c + next;
      for (size_t i = 0; i < 4; ++i) Fetch(a + (kAhead + i) * next, columns);
      const float pa = p[j], pb = p[j + 1], pc = p[j + 2], pd = p[j + 3];
      QNNRT_SIMD
      for (size_t i = 0; i < columns; ++i)
        sums[i] += (pa * a[i] + pb * b[i]) + (pc * c[i] + pd * d[i]);
    }
    for (; j < keys; ++j) {
      const float* a = v + j * next;
      QNNRT_SIMD
      for (size_t i = 0; i < columns; ++i) sums[i] += p[j] * a[i];
    }
    for (size_t i = 0; i < columns; ++i) to[i] = sums[i];
  }
};

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
  for (size_t j = 0; j < rows; j += step) {
    const size_t count = std::min(step, rows - j);
    for (size_t i = 0; i < count; ++i)
      stored.Read(data, at + (j + i) * stride, columns, wide + i * columns);
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
        scores_(PickIsa<Scores>()),
        weighted_(PickIsa<Weighted>()),
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
      for (size_t i = 0; i < g_.depth; ++i) {
        float element;
        queries[row * g_.depth + i] = *q_.Read(args.in[0], at + i * g_.q[3], 1, &element) * scale;
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
                 scores_(queries + head * g_.rows * g_.depth, g_.rows, g_.depth, keys, next, count,
                         to + j, pitch_);
               });
      }
    });
    args.threads.For(rows, Grain(most), [&](size_t begin, size_t end) {
      for (size_t row = begin; row < end; ++row) {
        const size_t head = row / g_.rows;
        const float* own = mask == nullptr ? nullptr
                                           : mask + g_.At(g_.mask, head) +
                                                 row % g_.rows * g_.mask[2] + seen[head].first;
        sums[row] =
            AttentionWeights(g_, exponentials_, scores + row * pitch_, own, seen[head].count());
      }
    });
    const size_t parts = (g_.width + kColumns - 1) / kColumns;
    args.threads.For(g_.heads() * parts, Grain(most * kColumns), [&](size_t begin, size_t end) {
      for (size_t unit = begin; unit < end; ++unit)
        Values(args, unit / parts, unit % parts * kColumns, seen[unit / parts], scores, sums);
    });
    return {};
  }

 private:
  // Up to kColumns of the results of a head.
  void Values(const ExecArgs& args, size_t head, size_t first, const SeenKeys& seen,
              const float* scores, const float* sums) const {
    const size_t columns = std::min(kColumns, g_.width - first);
    scores += head * g_.rows * pitch_;
    sums += head * g_.rows;
    float results[kMostAttentionRows][kColumns] = {};
    InRows(v_, args.in[2], g_.At(g_.v, head) + seen.first * g_.v[2] + first, g_.v[2], seen.count(),
           columns, [&](const float* values, size_t next, size_t j, size_t count) {
             for (size_t r = 0; r < g_.rows; ++r)
               weighted_(scores + r * pitch_ + j, count, values, next, columns, results[r]);
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
  void (*const scores_)(const float*, size_t, size_t, const float*, size_t, size_t, float*, size_t);
  void (*const weighted_)(const float*, size_t, const float*, size_t, size_t, float*);
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
