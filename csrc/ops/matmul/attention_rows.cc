// Attention of few queries, as when a text is continued: keys and values are read once, where they
// lie, and only those that the mask shows.
#include <algorithm>

#include "ops/isa.h"
#include "ops/matmul/attention.h"
#include "ops/simd.h"

namespace qnnrt {
namespace {

constexpr size_t kKeys = 64;     // of a piece of work
constexpr size_t kColumns = 32;  // likewise, of values
constexpr size_t kLine = 16;     // floats of a cache line

// to[r * pitch + j] = q_r k_j for each of `rows` queries, one behind the other, and `keys` keys.
struct Scores {
  static QNNRT_INLINE void Run(const float* q, size_t rows, size_t depth, const float* k,
                               size_t next, size_t keys, float* to, size_t pitch) {
    for (size_t j = 0; j < keys; ++j) {
      const float* key = k + j * next;
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

// to[i] = scale sum_j p[j] v_j[i], four values at a time.
struct Weighted {
  static QNNRT_INLINE void Run(const float* p, size_t keys, const float* v, size_t next,
                               size_t columns, float scale, float* to) {
    float sums[kColumns] = {};
    size_t j = 0;
    for (; j + 4 <= keys; j += 4) {
      const float *a = v + j * next, *b = a + next, *c = b + next, *d = c + next;
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
    for (size_t i = 0; i < columns; ++i) to[i] = sums[i] * scale;
  }
};

class RowAttention final : public Kernel {
 public:
  RowAttention(const Node& node, const AttentionGeometry& g)
      : g_(g),
        masked_(node.HasInput(3)),
        scores_(PickIsa<Scores>()),
        weighted_(PickIsa<Weighted>()),
        exponentials_(AttentionExponentials()),
        pitch_((g.keys + kLine - 1) / kLine * kLine + kLine) {}

  size_t ScratchBytes() const override {
    return g_.heads() * g_.rows * (pitch_ + g_.depth + 1) * sizeof(float);
  }
  const char* Name() const override { return "rows"; }

  Status Run(const ExecArgs& args) override {
    const size_t rows = g_.heads() * g_.rows;
    float* const scores = static_cast<float*>(args.scratch);
    float* const queries = scores + rows * pitch_;
    float* const sums = queries + rows * g_.depth;
    const float *q = static_cast<const float*>(args.in[0]),
                *k = static_cast<const float*>(args.in[1]),
                *v = static_cast<const float*>(args.in[2]),
                *mask = masked_ ? static_cast<const float*>(args.in[3]) : nullptr;
    const SeenKeys seen = masked_ ? FindSeenKeys(g_, mask) : SeenKeys{0, g_.keys};
    const size_t keys = seen.end - seen.first;
    for (size_t row = 0; row < rows; ++row) {
      const float* from = q + g_.At(g_.q, row / g_.rows) + row % g_.rows * g_.q[2];
      for (size_t i = 0; i < g_.depth; ++i)
        queries[row * g_.depth + i] = from[i * g_.q[3]] * g_.scale;
    }
    const size_t pieces = (keys + kKeys - 1) / kKeys;
    args.threads.For(g_.heads() * pieces, Grain(kKeys * g_.depth), [&](size_t begin, size_t end) {
      for (size_t unit = begin; unit < end; ++unit) {
        const size_t head = unit / pieces, first = unit % pieces * kKeys;
        scores_(queries + head * g_.rows * g_.depth, g_.rows, g_.depth,
                k + g_.At(g_.k, head) + (seen.first + first) * g_.k[2], g_.k[2],
                std::min(kKeys, keys - first), scores + head * g_.rows * pitch_ + first, pitch_);
      }
    });
    args.threads.For(rows, Grain(keys), [&](size_t begin, size_t end) {
      for (size_t row = begin; row < end; ++row) {
        const float* own =
            masked_ ? mask + g_.At(g_.mask, row / g_.rows) + row % g_.rows * g_.mask[2] + seen.first
                    : nullptr;
        sums[row] = exponentials_(scores + row * pitch_, own, keys);
      }
    });
    const size_t parts = (g_.width + kColumns - 1) / kColumns;
    float* const out = static_cast<float*>(args.out[0]);
    args.threads.For(g_.heads() * parts, Grain(keys * kColumns), [&](size_t begin, size_t end) {
      for (size_t unit = begin; unit < end; ++unit) {
        const size_t head = unit / parts, first = unit % parts * kColumns;
        const float* values = v + g_.At(g_.v, head) + seen.first * g_.v[2] + first;
        for (size_t r = 0; r < g_.rows; ++r) {
          const size_t row = head * g_.rows + r;
          weighted_(scores + row * pitch_, keys, values, g_.v[2],
                    std::min(kColumns, g_.width - first), 1.0f / sums[row],
                    out + g_.At(g_.out, head) + r * g_.out[2] + first);
        }
      }
    });
    return {};
  }

 private:
  // Pieces of so many steps that are worth a thread.
  size_t Grain(size_t steps) const {
    constexpr size_t kWorth = 32 * 1024;
    return std::max<size_t>(1, kWorth / std::max<size_t>(1, steps * g_.rows));
  }

  const AttentionGeometry g_;
  const bool masked_;
  void (*const scores_)(const float*, size_t, size_t, const float*, size_t, size_t, float*, size_t);
  void (*const weighted_)(const float*, size_t, const float*, size_t, size_t, float, float*);
  const ExponentialsFn exponentials_;
  const size_t pitch_;  // floats from one row of scores to the next
};

}  // namespace

KernelPtr MakeRowAttention(const Node& node, const AttentionGeometry& g) {
  const bool dense = (g.k[3] == 1 || g.depth == 1) && (g.v[3] == 1 || g.width == 1);
  if (g.rows > kMostAttentionRows || !dense) return nullptr;
  return std::make_unique<RowAttention>(node, g);
}

}  // namespace qnnrt
