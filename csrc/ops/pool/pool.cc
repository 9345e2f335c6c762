// PoolMax2d, PoolMax3d, PoolAvg2d, PoolAvg3d.
#include "ops/pool/pool.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "ir/visit.h"
#include "ops/fixed/kernels.h"
#include "ops/isa.h"
#include "ops/rules.h"
#include "ops/simd.h"
#include "ops/stored_floats.h"

namespace qnnrt {
namespace {

enum class PoolKind { kMax, kAverage };

}  // namespace

Result<PoolGeometry> ReadPool(const Node& node) {
  const Shape& in = node.inputs[0]->shape;
  const size_t spatial = in.size() - 2;
  PoolGeometry g;
  g.batch = in.front();
  g.channels = in.back();
  g.count_pads = node.Bool("count_pad_for_edges");
  const bool round_up = node.Int("rounding_mode") == 1;
  QNNRT_ASSIGN_OR_RETURN(const std::vector<int64_t> filter,
                         GetInts(node, "filter_size", spatial, 1));
  QNNRT_ASSIGN_OR_RETURN(const std::vector<int64_t> stride, GetInts(node, "stride", spatial, 1));
  QNNRT_ASSIGN_OR_RETURN(const std::vector<int64_t> pads,
                         GetInts(node, "pad_amount", 2 * spatial, 0));
  for (size_t i = 0; i < spatial; ++i) {
    const size_t at = 3 - spatial + i;
    g.in[at] = in[1 + i];
    g.kernel[at] = filter[i];
    g.stride[at] = stride[i];
    g.pad_before[at] = pads[2 * i];
    g.pad_after[at] = pads[2 * i + 1];
    const int64_t padded = g.in[at] + g.pad_before[at] + g.pad_after[at];
    QNNRT_RETURN_IF_ERROR(CheckPadded(kSpatialNames[at], padded));
    const int64_t room = padded - g.kernel[at];
    if (room < 0) {
      return Invalid("filter size %lld is larger than the padded input %lld",
                     static_cast<long long>(g.kernel[at]), static_cast<long long>(padded));
    }
    int64_t size = (round_up ? room + g.stride[at] - 1 : room) / g.stride[at] + 1;
    // Rounding up may add a window that starts behind the input. Frameworks differ on whether it
    // counts, so the client's output shape decides.
    if (round_up && (size - 1) * g.stride[at] >= g.in[at] + g.pad_before[at] && node.HasOutput(0) &&
        node.outputs[0]->shape.size() == in.size() && node.outputs[0]->shape[1 + i] == size - 1) {
      --size;
    }
    QNNRT_RETURN_IF_ERROR(CheckSize(kSpatialNames[at], size));
    g.out[at] = size;
  }
  return g;
}

PoolSpan SpanOf(const PoolGeometry& g, size_t dim, int64_t index) {
  const int64_t start = index * g.stride[dim] - g.pad_before[dim];
  const int64_t stop = start + g.kernel[dim];
  PoolSpan span;
  span.begin = std::max<int64_t>(start, 0);
  span.end = std::max(span.begin, std::min(stop, g.in[dim]));
  span.padded = std::max<int64_t>(0, std::min(stop, g.in[dim] + g.pad_after[dim]) - start);
  return span;
}

namespace {

Status Infer(const Node& node, std::vector<Shape>* outputs) {
  QNNRT_ASSIGN_OR_RETURN(const PoolGeometry g, ReadPool(node));
  Shape shape = node.inputs[0]->shape;
  const size_t spatial = shape.size() - 2;
  for (size_t i = 0; i < spatial; ++i) shape[1 + i] = static_cast<uint32_t>(g.out[3 - spatial + i]);
  (*outputs)[0] = std::move(shape);
  return Status::Ok();
}

template <typename T>
T Lowest() {
  if constexpr (std::is_same_v<T, float>) return -std::numeric_limits<float>::infinity();
  return std::numeric_limits<T>::lowest();
}

// The greatest of each channel over a window, a block of channels in one pass. Loops over less than
// a block do not become vector code: what is left is taken 16 bytes at a time, the last ones again.
template <typename T>
struct MaxWindow {
  static constexpr size_t kBlock = 64 / sizeof(T), kShort = 16 / sizeof(T);
  static QNNRT_INLINE void Run(const T* in, const PoolWindow& window, size_t channels, T* out) {
    size_t c = 0;
    for (; c + kBlock <= channels; c += kBlock) Block(in + c, window, kBlock, out + c);
    for (; c + kShort <= channels; c += kShort) Short(in + c, window, out + c);
    if (c == channels) return;
    if (c == 0) return Block(in, window, channels, out);
    Short(in + channels - kShort, window, out + channels - kShort);
  }
  static QNNRT_INLINE void Short(const T* in, const PoolWindow& w, T* out) {
    typedef T Vector __attribute__((vector_size(16)));
    Vector best, v;
    for (size_t k = 0; k < kShort; ++k) best[k] = Lowest<T>();
    for (size_t z = 0; z < w.planes; ++z) {
      for (size_t y = 0; y < w.rows; ++y) {
        const T* x = in + z * w.plane_stride + y * w.row_stride;
        for (size_t i = 0; i < w.columns; ++i, x += w.column_stride) {
          std::memcpy(&v, x, sizeof(v));
          best = v > best ? v : best;
        }
      }
    }
    std::memcpy(out, &best, sizeof(best));
  }
  static QNNRT_INLINE void Block(const T* in, const PoolWindow& w, size_t n, T* out) {
    T best[kBlock];
    for (size_t k = 0; k < n; ++k) best[k] = Lowest<T>();
    for (size_t z = 0; z < w.planes; ++z) {
      for (size_t y = 0; y < w.rows; ++y) {
        const T* x = in + z * w.plane_stride + y * w.row_stride;
        for (size_t i = 0; i < w.columns; ++i, x += w.column_stride) {
          for (size_t k = 0; k < n; ++k) best[k] = x[k] > best[k] ? x[k] : best[k];
        }
      }
    }
    for (size_t k = 0; k < n; ++k) out[k] = best[k];
  }
};

template <typename T, PoolKind kKind>
class Pool final : public Kernel {
 public:
  explicit Pool(const PoolGeometry& g) : g_(g) {}
  static constexpr bool kByWindow = kKind == PoolKind::kMax && sizeof(T) <= 2;

  Status Run(const ExecArgs& args) override {
    const T* in = static_cast<const T*>(args.in[0]);
    T* out = static_cast<T*>(args.out[0]);
    const int64_t lines = g_.batch * g_.out[0] * g_.out[1];
    double work = static_cast<double>(g_.out[2] * g_.channels);  // a window may be mostly padding
    for (size_t i = 0; i < 3; ++i) work *= static_cast<double>(std::min(g_.kernel[i], g_.in[i]));
    const size_t grain = static_cast<size_t>(std::max(1.0, 64 * 1024 / std::max(1.0, work)));
    args.threads.For(static_cast<size_t>(lines), grain, [&](size_t begin, size_t end) {
      for (int64_t line = static_cast<int64_t>(begin); line < static_cast<int64_t>(end); ++line) {
        const int64_t n = line / (g_.out[0] * g_.out[1]);
        const PoolSpan d = SpanOf(g_, 0, line / g_.out[1] % g_.out[0]);
        const PoolSpan h = SpanOf(g_, 1, line % g_.out[1]);
        for (int64_t x = 0; x < g_.out[2]; ++x) {
          Window(in + n * g_.in[0] * g_.in[1] * g_.in[2] * g_.channels, d, h, SpanOf(g_, 2, x),
                 out + (line * g_.out[2] + x) * g_.channels);
        }
      }
    });
    return Status::Ok();
  }

 private:
  void Window(const T* in, const PoolSpan& d, const PoolSpan& h, const PoolSpan& w, T* out) const {
    const size_t channels = static_cast<size_t>(g_.channels);
    if constexpr (kByWindow) {
      return max_(in + WindowStart(g_, d, h, w), WindowOf(g_, d, h, w), channels, out);
    }
    std::fill_n(out, channels, kKind == PoolKind::kMax ? Lowest<T>() : T{0});
    for (int64_t z = d.begin; z < d.end; ++z) {
      for (int64_t y = h.begin; y < h.end; ++y) {
        for (int64_t x = w.begin; x < w.end; ++x) {
          Take(out, in + ((z * g_.in[1] + y) * g_.in[2] + x) * g_.channels, channels);
        }
      }
    }
    if constexpr (kKind != PoolKind::kMax) {
      const double count = g_.count_pads ? Product(d.padded, h.padded, w.padded)
                                         : Product(d.size(), h.size(), w.size());
      if (count == 0) return;
      Simd().scale(out, out, 1.0f / static_cast<float>(count), channels);
    }
  }

  // Of three lengths, each below 2^31.
  static double Product(int64_t a, int64_t b, int64_t c) {
    return static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
  }

  static void Take(T* out, const T* in, size_t channels) {
    if constexpr (kKind == PoolKind::kAverage) {
      Simd().add(out, in, channels);
    } else if constexpr (std::is_same_v<T, float>) {
      Simd().max(out, in, channels);
    } else {
      for (size_t c = 0; c < channels; ++c) out[c] = std::max(out[c], in[c]);
    }
  }

  static auto PickMax() {
    if constexpr (kByWindow) {
      return PickIsa<MaxWindow<T>>();
    } else {
      return nullptr;
    }
  }

  const PoolGeometry g_;
  const decltype(PickMax()) max_ = PickMax();
};

Result<KernelPtr> MakePool(const Node& node, const KernelOptions& options) {
  QNNRT_ASSIGN_OR_RETURN(const PoolGeometry g, ReadPool(node));
  if (IsImageMean(node, g)) return MakeImageMean(node, g);
  if (node.type.compare(0, 7, "PoolAvg") == 0) {
    if (StoredFloats(*node.inputs[0]).narrow() || StoredFloats(*node.outputs[0]).narrow()) {
      return MakeViaFloat(*FindOp(node.type), node, options);
    }
    return KernelPtr(new Pool<float, PoolKind::kAverage>(g));
  }
  return VisitNumber(node.inputs[0]->dtype, [&g](auto t) {
    using T = std::conditional_t<sizeof(t) == 8, float, decltype(t)>;  // none of the op's types
    return KernelPtr(new Pool<T, PoolKind::kMax>(g));
  });
}

OpDef Def(const char* type, int spatial, PoolKind kind) {
  constexpr TypeSet kMaxTypes = types::kFloat | types::kI8 | types::kU8 | types::kI16 |
                                types::kU16 | types::kI32 | types::kU32;
  const TypeSet accepted = kind == PoolKind::kMax ? kMaxTypes : types::kFloat;
  const int rank = spatial + 2;
  const bool two = spatial == 2;
  OpDef def;
  def.type = type;
  def.inputs = {{"in", accepted, PortSpec::kOne, -1, rank, rank}};
  def.outputs = {{"out", accepted, PortSpec::kOne, 0, rank, rank}};
  def.params = {{"filter_size", ParamSpec::kInts, Required(), two ? "[2]: height, width" : "[3]"},
                {"stride", ParamSpec::kInts, Required(), two ? "[2]: height, width" : "[3]"},
                {"pad_amount", ParamSpec::kInts, Required(),
                 two ? "[2, 2]: before and after of height, width" : "[3, 2]"}};
  def.params.push_back({"rounding_mode", ParamSpec::kInt, Default(0), "", {"floor", "ceil"}});
  if (kind == PoolKind::kAverage) {
    def.params.push_back({"count_pad_for_edges", ParamSpec::kBool, Default(false)});
  }
  def.infer = Infer;
  def.portable = MakePool;
  def.flags = OpDef::kLpai;
  if (kind == PoolKind::kMax) {
    def.flags |= OpDef::kMoves;
  } else {
    def.fixed = MakeFixedPoolAvg;
    def.flags |= OpDef::kNativeHalf;  // it says itself what it converts
  }
  return def;
}

}  // namespace

OpList PoolOps() {
  OpList ops;
  ops.push_back(Def("PoolMax2d", 2, PoolKind::kMax));
  ops.push_back(Def("PoolMax3d", 3, PoolKind::kMax));
  ops.push_back(Def("PoolAvg2d", 2, PoolKind::kAverage));
  ops.push_back(Def("PoolAvg3d", 3, PoolKind::kAverage));
  return ops;
}

}  // namespace qnnrt
