// Attention without its scores in memory: some rows of them at a time, which stay in a cache.
#include "ops/matmul/attention.h"

#include <algorithm>
#include <array>
#include <limits>

#include "ops/gemm.h"
#include "ops/isa.h"
#include "ops/rules.h"
#include "ops/simd.h"
#include "ops/vector_math.h"

namespace qnnrt {
namespace {

constexpr size_t kScores = 64 * 1024;  // of one block of rows: 256 KiB
constexpr size_t kMostTiles = 8;       // of its rows
constexpr size_t kLine = 16;           // floats of a cache line

using Geometry = AttentionGeometry;
using Strides = Geometry::Strides;

Result<Geometry> Read(const Node& node) {
  const std::vector<int64_t> dims = node.Ints("dims"), strides = node.Ints("strides");
  if (dims.size() != 6 || strides.size() != 20) return Invalid("dims are 6 and strides 20");
  for (int64_t n : dims) {
    if (n <= 0 || n > INT32_MAX) return Invalid("a dim is %lld", static_cast<long long>(n));
  }
  Geometry g{};
  size_t* const to[] = {&g.batch0, &g.batch1, &g.rows, &g.keys, &g.depth, &g.width};
  for (size_t i = 0; i < 6; ++i) *to[i] = static_cast<size_t>(dims[i]);
  Strides* const all[] = {&g.q, &g.k, &g.v, &g.mask, &g.out};
  for (size_t i = 0; i < 20; ++i) (*all[i / 4])[i % 4] = static_cast<size_t>(strides[i]);
  g.scale = node.Float("scale");
  return g;
}

// Whether every element lies inside of the tensor.
Status CheckInside(const char* what, const Tensor& tensor, const Geometry& g,
                   const Strides& strides, size_t rows, size_t columns) {
  const size_t dims[] = {g.batch0, g.batch1, rows, columns};
  double last = 0;
  for (size_t i = 0; i < 4; ++i) last += static_cast<double>(strides[i]) * double(dims[i] - 1);
  if (last < static_cast<double>(tensor.elements())) return {};
  return Invalid("the strides of %s reach beyond it", what);
}

Status Infer(const Node& node, std::vector<Shape>* outputs) {
  QNNRT_ASSIGN_OR_RETURN(const Geometry g, Read(node));
  QNNRT_RETURN_IF_ERROR(CheckInside("q", *node.inputs[0], g, g.q, g.rows, g.depth));
  QNNRT_RETURN_IF_ERROR(CheckInside("k", *node.inputs[1], g, g.k, g.keys, g.depth));
  QNNRT_RETURN_IF_ERROR(CheckInside("v", *node.inputs[2], g, g.v, g.keys, g.width));
  if (node.HasInput(3)) {
    QNNRT_RETURN_IF_ERROR(CheckInside("mask", *node.inputs[3], g, g.mask, g.rows, g.keys));
    if (g.mask[3] != 1) return Invalid("neighbours of the mask do not lie side by side");
  }
  if (!node.HasOutput(0)) return Invalid("there is no output");
  QNNRT_RETURN_IF_ERROR(CheckInside("out", *node.outputs[0], g, g.out, g.rows, g.width));
  if (node.outputs[0]->elements() != g.heads() * g.rows * g.width || g.out[3] != 1) {
    return Invalid("the output is not filled in rows");
  }
  (*outputs)[0] = node.outputs[0]->shape;
  return {};
}

struct Exponentials {
  static QNNRT_INLINE float Run(float* s, const float* mask, size_t n) {
    if (mask != nullptr) {
      QNNRT_SIMD
      for (size_t i = 0; i < n; ++i) s[i] += mask[i];
    }
    float top = -std::numeric_limits<float>::infinity();
    QNNRT_SIMD_REDUCE(reduction(max : top))
    for (size_t i = 0; i < n; ++i) top = s[i] > top ? s[i] : top;
    float sum = 0;
    QNNRT_SIMD_REDUCE(reduction(+ : sum))
    for (size_t i = 0; i < n; ++i) {
      s[i] = vmath::ExpBelow(s[i] - top);
      sum += s[i];
    }
    return sum;
  }
};

class Attention final : public Kernel {
 public:
  Attention(const Node& node, const Geometry& g, int threads)
      : g_(g), masked_(node.HasInput(3)), exponentials_(AttentionExponentials()) {
    const size_t mr = Simd().rows;
    block_ = std::clamp<size_t>(kScores / g_.keys / mr, 1, kMostTiles) * mr;
    block_ = std::min(block_, g_.rows);
    blocks_ = (g_.rows + block_ - 1) / block_;
    slots_ = std::min(g_.heads() * blocks_, 4 * static_cast<size_t>(std::max(1, threads)));
    keys_floats_ = Aligned(PackedFloats(g_.depth, g_.keys));
    values_floats_ = Aligned(PackedFloats(g_.keys, g_.width));
    // Rows a power of two apart would share one set of the first cache.
    pitch_ = Aligned(g_.keys) + kLine;
    slot_floats_ = Aligned(block_ * (pitch_ + g_.depth));
  }

  size_t ScratchBytes() const override {
    return (g_.heads() * (keys_floats_ + values_floats_) + slots_ * slot_floats_) * sizeof(float);
  }

  Status Run(const ExecArgs& args) override {
    float* const keys = static_cast<float*>(args.scratch);
    float* const values = keys + g_.heads() * keys_floats_;
    float* const slots = values + g_.heads() * values_floats_;
    const float* k = static_cast<const float*>(args.in[1]);
    const float* v = static_cast<const float*>(args.in[2]);
    // A cache is read as far as it is filled.
    const size_t seen =
        masked_ ? FindSeenKeys(g_, static_cast<const float*>(args.in[3])).end : g_.keys;
    args.threads.For(g_.heads(), 1, [&](size_t begin, size_t end) {
      for (size_t head = begin; head < end; ++head) {
        PackPanels({k + g_.At(g_.k, head), g_.k[3], g_.k[2]}, g_.depth, seen, 0, PackedPanels(seen),
                   keys + head * keys_floats_);
        PackPanels({v + g_.At(g_.v, head), g_.v[2], g_.v[3]}, seen, g_.width, 0,
                   PackedPanels(g_.width), values + head * values_floats_);
      }
    });
    args.threads.For(slots_, 1, [&](size_t begin, size_t end) {
      for (size_t slot = begin; slot < end; ++slot) {
        for (size_t unit = slot; unit < g_.heads() * blocks_; unit += slots_) {
          const size_t head = unit / blocks_;
          Block(args, head, seen, unit % blocks_ * block_, keys + head * keys_floats_,
                values + head * values_floats_, slots + slot * slot_floats_);
        }
      }
    });
    return {};
  }

 private:
  static size_t Aligned(size_t floats) { return (floats + 15) / 16 * 16; }

  void Block(const ExecArgs& args, size_t head, size_t seen, size_t first, const float* keys,
             const float* values, float* slot) const {
    const size_t rows = std::min(block_, g_.rows - first);
    float *scores = slot, *queries = slot + block_ * pitch_;
    const float* q = static_cast<const float*>(args.in[0]) + g_.At(g_.q, head) + first * g_.q[2];
    for (size_t r = 0; r < rows; ++r) {
      const float* from = q + r * g_.q[2];
      float* to = queries + r * g_.depth;
      if (g_.q[3] == 1) {
        Simd().scale(to, from, g_.scale, g_.depth);
      } else {
        for (size_t i = 0; i < g_.depth; ++i) to[i] = from[i * g_.q[3]] * g_.scale;
      }
    }
    const auto product = [&](const float* a, size_t lda, size_t depth, const float* packed,
                             size_t columns, float* c, size_t to_next) {
      GemmShape shape;
      shape.m = rows;
      shape.n = columns;
      shape.depth = depth;
      shape.packed = packed;
      const GemmUnits whole = {rows, PackedPanels(columns), 1, 1, 1};
      const auto rows_at = [&](size_t m, size_t count, size_t, size_t, const float** from,
                               float** to) {
        for (size_t i = 0; i < count; ++i) {
          from[i] = a + (m + i) * lda;
          to[i] = c + (m + i) * to_next;
        }
      };
      RunGemmUnit(shape, whole, 0, rows_at, [](float* const*, size_t, size_t, size_t) {});
    };
    product(queries, g_.depth, g_.depth, keys, seen, scores, pitch_);
    const float* mask = nullptr;
    if (masked_) {
      mask = static_cast<const float*>(args.in[3]) + g_.At(g_.mask, head) + first * g_.mask[2];
    }
    float sums[kMostTiles * kMaxTileRows];
    for (size_t r = 0; r < rows; ++r) {
      sums[r] = exponentials_(scores + r * pitch_, masked_ ? mask + r * g_.mask[2] : nullptr, seen);
    }
    float* out = static_cast<float*>(args.out[0]) + g_.At(g_.out, head) + first * g_.out[2];
    product(scores, pitch_, seen, values, g_.width, out, g_.out[2]);
    for (size_t r = 0; r < rows; ++r) {
      float* row = out + r * g_.out[2];
      Simd().scale(row, row, 1.0f / sums[r], g_.width);
    }
  }

  const Geometry g_;
  const bool masked_;
  const ExponentialsFn exponentials_;
  size_t block_ = 1, blocks_ = 1;  // rows of a block, blocks of a head
  size_t slots_ = 1, pitch_ = 0;   // floats from one row of scores to the next
  size_t keys_floats_ = 0, values_floats_ = 0, slot_floats_ = 0;
};

Result<KernelPtr> Make(const Node& node, const KernelOptions& options) {
  QNNRT_ASSIGN_OR_RETURN(const Geometry g, Read(node));
  if (KernelPtr tiles = MakeTileAttention(node, g, options.threads)) return tiles;
  const auto narrow = [](const Tensor* t) {
    return t != nullptr && NarrowFloatOf(t->dtype) != nullptr;
  };
  if (narrow(node.outputs[0]) || std::any_of(node.inputs.begin(), node.inputs.end(), narrow))
    return MakeViaFloat(*FindOp(node.type), node, options);
  if (KernelPtr rows = MakeRowAttention(node, g)) return rows;
  return KernelPtr(new Attention(node, g, options.threads));
}

}  // namespace

ExponentialsFn AttentionExponentials() { return PickIsa<Exponentials>(); }

SeenKeys FindSeenKeys(const AttentionGeometry& g, const float* mask) {
  // Nothing is left beside others of what has so low a number added.
  constexpr float kUnseen = -1e30f;
  SeenKeys seen{g.keys, 0};
  for (size_t b0 = 0; b0 < (g.mask[0] == 0 ? 1 : g.batch0); ++b0) {
    for (size_t b1 = 0; b1 < (g.mask[1] == 0 ? 1 : g.batch1); ++b1) {
      for (size_t r = 0; r < (g.mask[2] == 0 ? 1 : g.rows); ++r) {
        const float* row = mask + b0 * g.mask[0] + b1 * g.mask[1] + r * g.mask[2];
        size_t first = 0, end = g.keys;
        while (end > 0 && row[end - 1] <= kUnseen) --end;
        if (end == 0) return {0, g.keys};
        while (row[first] <= kUnseen) ++first;
        seen.first = std::min(seen.first, first);
        seen.end = std::max(seen.end, end);
      }
    }
  }
  return seen;
}

OpDef AttentionOp() {
  OpDef def;
  def.type = kAttention;
  def.inputs = {{"q", types::kFloat, PortSpec::kOne},
                {"k", types::kFloat, PortSpec::kOne, 0},
                {"v", types::kFloat, PortSpec::kOne, 0},
                {"mask", types::kFloat, PortSpec::kOptional, 0}};
  def.outputs = {{"out", types::kFloat, PortSpec::kOne, 0}};
  def.params = {{"scale", ParamSpec::kFloat, Required()},
                {"dims", ParamSpec::kInts, Required()},
                {"strides", ParamSpec::kInts, Required()}};
  def.infer = Infer;
  def.portable = Make;
  def.flags = OpDef::kInternal | OpDef::kNativeHalf | OpDef::kSumsInside;
  def.sensitive_inputs = 1u << 3;  // exponents; 16 bits do not hold the largest float, either
  return def;
}

}  // namespace qnnrt
