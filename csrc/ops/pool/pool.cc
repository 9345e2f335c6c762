// PoolMax2d, PoolMax3d, PoolAvg2d, PoolAvg3d.
#include "ops/pool/pool.h"

#include <algorithm>

#include "ops/fixed/kernels.h"
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

size_t LinesWorthAThread(const PoolGeometry& g) {
  double work = static_cast<double>(g.out[2] * g.channels);  // a window may be mostly padding
  for (size_t i = 0; i < 3; ++i) work *= static_cast<double>(std::min(g.kernel[i], g.in[i]));
  return static_cast<size_t>(std::max(1.0, 64 * 1024 / std::max(1.0, work)));
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

class AveragePool final : public Kernel {
 public:
  explicit AveragePool(const PoolGeometry& g) : g_(g) {}

  Status Run(const ExecArgs& args) override {
    const float* in = static_cast<const float*>(args.in[0]);
    float* out = static_cast<float*>(args.out[0]);
    const size_t lines = static_cast<size_t>(g_.batch * g_.out[0] * g_.out[1]);
    args.threads.For(lines, LinesWorthAThread(g_), [&](size_t begin, size_t end) {
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
  void Window(const float* in, const PoolSpan& d, const PoolSpan& h, const PoolSpan& w,
              float* out) const {
    const size_t channels = static_cast<size_t>(g_.channels);
    std::fill_n(out, channels, 0.0f);
    for (int64_t z = d.begin; z < d.end; ++z) {
      for (int64_t y = h.begin; y < h.end; ++y) {
        for (int64_t x = w.begin; x < w.end; ++x) {
          Simd().add(out, in + ((z * g_.in[1] + y) * g_.in[2] + x) * g_.channels, channels);
        }
      }
    }
    const double count = g_.count_pads ? Product(d.padded, h.padded, w.padded)
                                       : Product(d.size(), h.size(), w.size());
    if (count == 0) return;
    Simd().scale(out, out, 1.0f / static_cast<float>(count), channels);
  }

  // Of three lengths, each below 2^31.
  static double Product(int64_t a, int64_t b, int64_t c) {
    return static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
  }

  const PoolGeometry g_;
};

Result<KernelPtr> MakeAveragePool(const Node& node, const KernelOptions& options) {
  QNNRT_ASSIGN_OR_RETURN(const PoolGeometry g, ReadPool(node));
  if (IsImageMean(node, g)) return MakeImageMean(node, g);
  if (StoredFloats(*node.inputs[0]).narrow() || StoredFloats(*node.outputs[0]).narrow()) {
    return MakeViaFloat(*FindOp(node.type), node, options);
  }
  if (KernelPtr planes = MakePlanePool(g, true, options.threads)) return planes;
  return KernelPtr(new AveragePool(g));
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
  def.portable = kind == PoolKind::kMax ? MakeMaxPool : MakeAveragePool;
  def.flags = OpDef::kLpai | OpDef::kNativeHalf;  // they say themselves what they convert
  if (kind == PoolKind::kMax) {
    def.flags |= OpDef::kMoves;
  } else {
    def.fixed = MakeFixedPoolAvg;
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
