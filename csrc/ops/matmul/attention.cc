// Attention without its scores in memory: some rows of them at a time, which stay in a cache.
#include "ops/matmul/attention.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>

#include "ops/fixed/arithmetic.h"
#include "ops/gemm.h"
#include "ops/isa.h"
#include "ops/rules.h"
#include "ops/simd.h"
#include "ops/stored_floats.h"
#include "ops/tiles.h"
#include "ops/vector_math.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

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
  // Exporters write the lowest number of the type, which in FLOAT_16 is not that low.
  const bool half = node.HasInput(3) && node.inputs[3]->dtype == QNN_DATATYPE_FLOAT_16;
  g.unseen = half ? -65504.0f : -1e30f;
  g.rounds = NarrowFloatOf(static_cast<Qnn_DataType_t>(node.Int("rounds")));
  const int64_t read = node.Int("rounds_read");
  g.rounds_keys = (read & 1) != 0 ? g.rounds : nullptr;
  g.rounds_values = (read & 2) != 0 ? g.rounds : nullptr;
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

// e to the power of each less `top`, and their sum.
struct ExponentialsBelow {
  static QNNRT_INLINE float Run(float* s, size_t n, float top) {
    float sum = 0;
    QNNRT_SIMD_REDUCE(reduction(+ : sum))
    for (size_t i = 0; i < n; ++i) {
      s[i] = vmath::ExpBelow(s[i] - top);
      sum += s[i];
    }
    return sum;
  }
};

struct Exponentials {
  static QNNRT_INLINE float Run(float* s, const float* mask, size_t n) {
    if (mask != nullptr) {
      QNNRT_SIMD
      for (size_t i = 0; i < n; ++i) s[i] += mask[i];
    }
    float top = -std::numeric_limits<float>::infinity();
    QNNRT_SIMD_REDUCE(reduction(max : top))
    for (size_t i = 0; i < n; ++i) top = s[i] > top ? s[i] : top;
    return ExponentialsBelow::Run(s, n, top);
  }
};

// A matrix of floats that are widened or rounded in `to`, side by side along the dim where they are
// so.
template <typename Floats>
MatrixView Widened(const Floats& from, const void* data, size_t at, size_t rows, size_t columns,
                   size_t row_stride, size_t column_stride, float* to) {
  if (!from.narrow()) return {static_cast<const float*>(data) + at, row_stride, column_stride};
  const bool across = row_stride == 1 && column_stride != 1;
  if (across) {
    std::swap(rows, columns);
    std::swap(row_stride, column_stride);
  }
  const size_t run = column_stride == 1 ? columns : 1;
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; c += run)
      from.Read(data, at + r * row_stride + c * column_stride, run, to + r * columns + c);
  }
  return across ? MatrixView{to, 1, columns} : MatrixView{to, columns, 1};
}

// Scores as they are stored, times beta; their maximum.
template <bool fma>
struct RoundScores {
  static QNNRT_INLINE float Run(float* s, size_t n, const fixed::Encoder& encoder, float beta) {
    const fixed::Encoder e = encoder;
    float top = -std::numeric_limits<float>::infinity();
    QNNRT_SIMD_REDUCE(reduction(max : top))
    for (size_t i = 0; i < n; ++i) {
      s[i] = beta * e.Real<fma>(s[i]);
      top = s[i] > top ? s[i] : top;
    }
    return top;
  }
};

template <bool fma>
struct RoundWeights {
  static QNNRT_INLINE void Run(float* s, size_t n, const fixed::Encoder& encoder, float factor) {
    const fixed::Encoder e = encoder;
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) s[i] = e.Real<fma, true>(s[i] * factor);
  }
};

// What the nodes of a graph in fixed point store between the products: numbers are rounded to it
// as they lie, in float.
class FixedSteps {
 public:
  static std::optional<FixedSteps> Of(const Node& node, float beta) {
    if (!IsFixed(node.inputs[0]->dtype)) return std::nullopt;
    return FixedSteps(Steps(node, "score"), Steps(node, "weight"), beta);
  }

  // A row of products as weights.
  void Weigh(float* s, size_t n) const {
    const float sum = exponentials_(s, n, scores_loop_(s, n, scores_, beta_));
    weights_loop_(s, n, weights_, 1.0f / sum);
  }

 private:
  FixedSteps(const fixed::Encoder& scores, const fixed::Encoder& weights, float beta)
      : scores_(scores), weights_(weights), beta_(beta) {}

  static fixed::Encoder Steps(const Node& node, const std::string& what) {
    const Qnn_DataType_t type = static_cast<Qnn_DataType_t>(node.Int((what + "_type").c_str()));
    const FixedRange range = RangeOf(type, 0);
    return {node.Float((what + "_scale").c_str()),
            static_cast<int32_t>(node.Int((what + "_offset").c_str())), range.low, range.high};
  }

  fixed::Encoder scores_, weights_;
  float beta_;
  decltype(&RoundScores<true>::Run) scores_loop_ = fixed::PickFma<RoundScores>();
  decltype(&RoundWeights<true>::Run) weights_loop_ = fixed::PickFma<RoundWeights>();
  decltype(&ExponentialsBelow::Run) exponentials_ = PickIsa<ExponentialsBelow>();
};

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx512f,avx512bw,avx512vl,f16c"))) void RoundHalves(const float* from,
                                                                           size_t count,
                                                                           float* to) {
  for (size_t i = 0; i < count; i += 16) {
    const __m256i half = _mm512_maskz_cvtps_ph(0xffff, _mm512_loadu_ps(from + i), 0);  // to even
    _mm512_storeu_ps(to + i, _mm512_maskz_cvtph_ps(0xffff, half));
  }
}
#endif

// As narrowed and widened again; FLOAT_16 in registers where there are such instructions. `to` may
// be `from`.
void Round(const NarrowFloat& type, const float* from, size_t count, float* to) {
  size_t i = 0;
#if defined(__x86_64__) && defined(__GNUC__)
  static const NarrowFloat* const half = NarrowFloatOf(QNN_DATATYPE_FLOAT_16);
  static const bool registers = CpuIsa() == Isa::kAvx512;
  if (registers && &type == half) {
    i = count / 16 * 16;
    RoundHalves(from, i, to);
  }
#endif
  uint16_t stored[kFloatBlock];
  for (; i < count; i += kFloatBlock) {
    const size_t some = std::min(kFloatBlock, count - i);
    type.narrow(from + i, stored, some);
    type.widen(stored, to + i, some);
  }
}

class Attention final : public Kernel {
 public:
  Attention(const Node& node, const Geometry& g, int threads)
      : g_(g),
        fixed_(FixedSteps::Of(node, g.scale)),
        q_(*node.inputs[0]),
        out_(*node.outputs[0]),
        k_(*node.inputs[1], g.rounds_keys),
        v_(*node.inputs[2], g.rounds_values),
        mask_(node),
        exponentials_(AttentionExponentials()) {
    const size_t mr = Simd().rows, most = static_cast<size_t>(std::max(1, threads));
    block_ = std::clamp<size_t>(kScores / g_.keys / mr, 1, kMostTiles) * mr;
    block_ = std::min(block_, g_.rows);
    blocks_ = (g_.rows + block_ - 1) / block_;
    slots_ = std::min(g_.heads() * blocks_, 4 * most);
    packers_ = std::min(g_.heads(), most);
    keys_floats_ = Aligned(PackedFloats(g_.depth, g_.keys));
    values_floats_ = Aligned(PackedFloats(g_.keys, g_.width));
    // Rows a power of two apart would share one set of the first cache.
    pitch_ = Aligned(g_.keys) + kLine;
    slot_floats_ = Aligned(block_ * (pitch_ + g_.depth + (out_.narrow() ? g_.width : 0)));
    const size_t wide = std::max(k_.narrow() ? g_.depth : 0, v_.narrow() ? g_.width : 0);
    wide_floats_ = Aligned(wide * g_.keys);
  }

  size_t ScratchBytes() const override {
    const size_t floats = g_.heads() * (keys_floats_ + values_floats_) + slots_ * slot_floats_ +
                          packers_ * wide_floats_ + Aligned(mask_.ScratchFloats());
    return floats * sizeof(float) + g_.heads() * sizeof(SeenKeys);
  }

  Status Run(const ExecArgs& args) override {
    float* const keys = static_cast<float*>(args.scratch);
    float* const values = keys + g_.heads() * keys_floats_;
    float* const slots = values + g_.heads() * values_floats_;
    float* const wide = slots + slots_ * slot_floats_;
    float* const masks = wide + packers_ * wide_floats_;
    SeenKeys* const seen = reinterpret_cast<SeenKeys*>(masks + Aligned(mask_.ScratchFloats()));
    const float* const mask = mask_.Read(args, masks);
    // A cache is read as far as it is filled.
    FindSeenKeys(g_, mask, seen);
    args.threads.For(packers_, 1, [&](size_t begin, size_t end) {
      for (size_t packer = begin; packer < end; ++packer) {
        float* const own = wide + packer * wide_floats_;
        for (size_t head = packer; head < g_.heads(); head += packers_) {
          const size_t n = seen[head].end;
          PackPanels(Widened(k_, args.in[1], g_.At(g_.k, head), g_.depth, n, g_.k[3], g_.k[2], own),
                     g_.depth, n, 0, PackedPanels(n), keys + head * keys_floats_);
          PackPanels(Widened(v_, args.in[2], g_.At(g_.v, head), n, g_.width, g_.v[2], g_.v[3], own),
                     n, g_.width, 0, PackedPanels(g_.width), values + head * values_floats_);
        }
      }
    });
    args.threads.For(slots_, 1, [&](size_t begin, size_t end) {
      for (size_t slot = begin; slot < end; ++slot) {
        for (size_t unit = slot; unit < g_.heads() * blocks_; unit += slots_) {
          const size_t head = unit / blocks_;
          Block(args, mask, head, seen[head].end, unit % blocks_ * block_,
                keys + head * keys_floats_, values + head * values_floats_,
                slots + slot * slot_floats_);
        }
      }
    });
    return {};
  }

 private:
  static size_t Aligned(size_t floats) { return (floats + 15) / 16 * 16; }

  void Block(const ExecArgs& args, const float* mask, size_t head, size_t seen, size_t first,
             const float* keys, const float* values, float* slot) const {
    const size_t rows = std::min(block_, g_.rows - first);
    float *scores = slot, *queries = slot + block_ * pitch_;
    const size_t q = g_.At(g_.q, head) + first * g_.q[2];
    const float scale = g_.rounds == nullptr && !fixed_ ? g_.scale : 1.0f;
    for (size_t r = 0; r < rows; ++r) {
      float* to = queries + r * g_.depth;
      const MatrixView from =
          Widened(q_, args.in[0], q + r * g_.q[2], 1, g_.depth, g_.depth, g_.q[3], to);
      if (from.column_stride == 1) {
        Simd().scale(to, from.data, scale, g_.depth);
      } else {
        for (size_t i = 0; i < g_.depth; ++i) to[i] = from.data[i * from.column_stride] * scale;
      }
    }
    const auto product = [&](const float* a, size_t lda, size_t depth, const float* packed,
                             size_t columns, float* c, size_t to_next) {
      GemmShape shape;
      shape.m = rows;
      shape.n = columns;
      shape.depth = depth;
      shape.packed = packed;
      const GemmUnits whole;
      const auto rows_at = [&](size_t m, size_t count, size_t, size_t, const float** from,
                               float** to) {
        for (size_t i = 0; i < count; ++i) {
          from[i] = a + (m + i) * lda;
          to[i] = c + (m + i) * to_next;
        }
        return TapRange{0, 1};
      };
      RunGemmUnit(shape, whole, 0, rows_at, [](float* const*, size_t, size_t, size_t) {});
    };
    product(queries, g_.depth, g_.depth, keys, seen, scores, pitch_);
    if (mask != nullptr) mask += g_.At(g_.mask, head) + first * g_.mask[2];
    float sums[kMostTiles * kMaxTileRows];
    for (size_t r = 0; r < rows; ++r) {
      if (fixed_) {
        fixed_->Weigh(scores + r * pitch_, seen);
        sums[r] = 1.0f;
        continue;
      }
      sums[r] = AttentionWeights(g_, exponentials_, scores + r * pitch_,
                                 mask == nullptr ? nullptr : mask + r * g_.mask[2], seen);
    }
    const size_t at = g_.At(g_.out, head) + first * g_.out[2];
    float* const out = out_.Place(args.out[0], at, queries + block_ * g_.depth);
    const size_t next = out_.narrow() ? g_.width : g_.out[2];
    product(scores, pitch_, seen, values, g_.width, out, next);
    for (size_t r = 0; r < rows; ++r) {
      float* row = out + r * next;
      if (sums[r] != 1.0f) Simd().scale(row, row, 1.0f / sums[r], g_.width);
      out_.Store(row, args.out[0], at + r * g_.out[2], g_.width);
    }
  }

  const Geometry g_;
  const std::optional<FixedSteps> fixed_;
  const RoundedFloats q_, out_, k_, v_;
  const MaskFloats mask_;
  const ExponentialsFn exponentials_;
  size_t block_ = 1, blocks_ = 1;  // rows of a block, blocks of a head
  size_t slots_ = 1, pitch_ = 0;   // floats from one row of scores to the next
  size_t packers_ = 1;             // threads that pack, each with memory to widen in
  size_t keys_floats_ = 0, values_floats_ = 0, slot_floats_ = 0, wide_floats_ = 0;
};

Result<KernelPtr> Make(const Node& node, const KernelOptions& options) {
  QNNRT_ASSIGN_OR_RETURN(const Geometry g, Read(node));
  // Packing keys for tiles pays from half a tile of queries on.
  if (g.rows >= kTileRows / 2) {
    if (KernelPtr tiles = MakeTileAttention(node, g, options.threads)) return tiles;
  }
  if (KernelPtr rows = MakeRowAttention(node, g)) return rows;
  return KernelPtr(new Attention(node, g, options.threads));
}

Result<KernelPtr> MakeFixed(const Node& node, const KernelOptions& options) {
  QNNRT_ASSIGN_OR_RETURN(const Geometry g, Read(node));
  return KernelPtr(new Attention(node, g, options.threads));
}

}  // namespace

ExponentialsFn AttentionExponentials() { return PickIsa<Exponentials>(); }

float AttentionWeights(const AttentionGeometry& g, ExponentialsFn exponentials, float* s,
                       const float* mask, size_t n) {
  if (g.rounds == nullptr) return exponentials(s, mask, n);
  const auto round = [&] { Round(*g.rounds, s, n, s); };
  round();
  if (g.scale != 1.0f) {
    Simd().scale(s, s, g.scale, n);
    round();
  }
  if (mask != nullptr) {
    for (size_t i = 0; i < n; ++i) s[i] += mask[i];
    round();
  }
  Simd().scale(s, s, 1.0f / exponentials(s, nullptr, n), n);
  round();
  return 1.0f;
}

MaskFloats::MaskFloats(const Node& node) {
  if (!node.HasInput(3)) return;
  masked_ = true;
  narrow_ = NarrowFloatOf(node.inputs[3]->dtype);
  elements_ = node.inputs[3]->elements();
}

size_t MaskFloats::ScratchFloats() const { return narrow_ == nullptr ? 0 : elements_; }

const float* MaskFloats::Read(const ExecArgs& args, float* scratch) const {
  if (narrow_ == nullptr) return masked_ ? static_cast<const float*>(args.in[3]) : nullptr;
  constexpr size_t kWorth = 32 * 1024;
  args.threads.For(elements_, kWorth, [&](size_t begin, size_t end) {
    narrow_->widen(static_cast<const uint16_t*>(args.in[3]) + begin, scratch + begin, end - begin);
  });
  return scratch;
}

const float* RoundedFloats::Read(const void* data, size_t at, size_t count, float* buffer) const {
  if (fixed_) {
    fixed_->Read(data, at, count, buffer);
    return buffer;
  }
  if (rounds_ == nullptr) return stored_.Read(data, at, count, buffer);
  Round(*rounds_, static_cast<const float*>(data) + at, count, buffer);
  return buffer;
}

namespace {

constexpr size_t kMasked = 64;  // of a mask, that are looked at together

bool Hides(const float* mask, float unseen) {
  int seen = 0;
  for (size_t i = 0; i < kMasked; ++i) seen += mask[i] <= unseen ? 0 : 1;
  return seen == 0;
}

SeenKeys SeenBy(const AttentionGeometry& g, const float* mask) {
  SeenKeys seen{g.keys, 0};
  for (size_t r = 0; r < (g.mask[2] == 0 ? 1 : g.rows); ++r) {
    const float* row = mask + r * g.mask[2];
    size_t first = 0, end = g.keys;
    while (end >= kMasked && Hides(row + end - kMasked, g.unseen)) end -= kMasked;
    while (end > 0 && row[end - 1] <= g.unseen) --end;
    if (end == 0) {
      const auto infinite = [](float x) { return x == -std::numeric_limits<float>::infinity(); };
      if (std::all_of(row, row + g.keys, infinite)) continue;
      return {0, g.keys};
    }
    while (row[first] <= g.unseen) ++first;
    seen.first = std::min(seen.first, first);
    seen.end = std::max(seen.end, end);
  }
  return seen.end == 0 ? SeenKeys{0, 1} : seen;
}

}  // namespace

void FindSeenKeys(const AttentionGeometry& g, const float* mask, SeenKeys* heads) {
  for (size_t head = 0; head < g.heads(); ++head) {
    const size_t own0 = g.mask[0] == 0 ? 0 : head / g.batch1;
    const size_t own1 = g.mask[1] == 0 ? 0 : head % g.batch1;
    const size_t same = own0 * g.batch1 + own1;  // the first head with this mask
    if (mask == nullptr) {
      heads[head] = {0, g.keys};
    } else {
      heads[head] = same < head ? heads[same] : SeenBy(g, mask + g.At(g.mask, head));
    }
  }
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
                {"strides", ParamSpec::kInts, Required()},
                {"rounds", ParamSpec::kInt, Default(static_cast<int>(QNN_DATATYPE_FLOAT_32))},
                {"rounds_read", ParamSpec::kInt, Default(0)},
                {"score_type", ParamSpec::kInt, Default(0)},
                {"score_scale", ParamSpec::kFloat, Default(1.0)},
                {"score_offset", ParamSpec::kInt, Default(0)},
                {"weight_type", ParamSpec::kInt, Default(0)},
                {"weight_scale", ParamSpec::kFloat, Default(1.0)},
                {"weight_offset", ParamSpec::kInt, Default(0)}};
  def.infer = Infer;
  def.portable = Make;
  def.fixed = MakeFixed;
  def.flags = OpDef::kInternal | OpDef::kNativeHalf | OpDef::kSumsInside;
  def.sensitive_inputs = 1u << 3;  // exponents; 16 bits do not hold the largest float, either
  return def;
}

}  // namespace qnnrt
