// TransposeConv2d and 3d as one ordinary convolution for each phase: output pixels whose
// coordinates agree modulo the stride see the same subset of the kernel, each tap at one input
// pixel.
#include <map>

#include "ops/conv/conv.h"
#include "ops/gemm.h"

namespace qnnrt {
namespace {

struct Tap {
  int64_t kernel;               // index into the weight's kD x kH x kW
  int64_t d_off, h_off, w_off;  // input pixel = (output pixel of the phase's grid) + offset
};

// Coordinates of one dimension of the output, modulo the stride, that see the same taps: one each
// but for those that see none, which lie side by side where the stride is larger than the kernel.
struct Residues {
  int64_t first, count;
  std::vector<int64_t> taps;  // along the kernel

  int64_t SizeIn(int64_t out, int64_t stride) const {
    const int64_t whole = (out - first) / stride;
    return whole * count + std::min(count, out - first - whole * stride);
  }
  int64_t At(int64_t i, int64_t stride) const {
    return count == 1 ? first + i * stride : first + i / count * stride + i % count;
  }
};

struct Phase {
  const Residues *d, *h, *w;
  int64_t slices, rows, columns;  // its grid
  std::vector<Tap> taps;
  size_t packed_offset;  // floats, within a group
};

struct PhaseRows {
  const ConvGeometry& g;
  const Phase& phase;
  const float* in;
  float* out;
  const float* zeros;

  TapRange operator()(size_t m, size_t count, size_t tap, size_t taps, const float** a,
                      float** c) const {
    for (size_t i = 0; i < count; ++i) {
      const int64_t index = static_cast<int64_t>(m + i);
      const int64_t w = index % phase.columns;
      const int64_t h = index / phase.columns % phase.rows;
      const int64_t d = index / phase.columns / phase.rows % phase.slices;
      const int64_t n = index / phase.columns / phase.rows / phase.slices;
      const int64_t slice = n * g.out[0] + phase.d->At(d, g.stride[0]);
      c[i] = out + ((slice * g.out[1] + phase.h->At(h, g.stride[1])) * g.out[2] +
                    phase.w->At(w, g.stride[2])) *
                       g.cout;
      for (size_t t = 0; t < taps; ++t) {
        if (phase.taps.empty()) {
          a[t * kMaxTileRows + i] = zeros;
          continue;
        }
        const Tap& at = phase.taps[tap + t];
        const int64_t z = d + at.d_off, y = h + at.h_off, x = w + at.w_off;
        const bool inside = z >= 0 && z < g.in[0] && y >= 0 && y < g.in[1] && x >= 0 && x < g.in[2];
        a[t * kMaxTileRows + i] =
            inside ? in + (((n * g.in[0] + z) * g.in[1] + y) * g.in[2] + x) * g.cin : zeros;
      }
    }
    return {0, taps};
  }
};

class TransposeConv final : public PackedConv {
 public:
  static Result<KernelPtr> Make(const Node& node, const ConvGeometry& g,
                                const KernelOptions& options) {
    std::unique_ptr<TransposeConv> kernel(new TransposeConv(node, g));
    QNNRT_RETURN_IF_ERROR(kernel->Init(node, options));
    return KernelPtr(std::move(kernel));
  }

  Status Run(const ExecArgs& args) override {
    const float* packed = Packed(args);
    const size_t depth = static_cast<size_t>(g_.cin_per_group());
    const size_t n = static_cast<size_t>(g_.cout_per_group());
    const float* in = static_cast<const float*>(args.in[0]);
    float* out = static_cast<float*>(args.out[0]);
    const FinishRows finish(post_ops_, args, out);
    for (size_t group = 0; group < static_cast<size_t>(g_.group); ++group) {
      for (const Phase& phase : phases_) {
        GemmShape shape;
        shape.m = static_cast<size_t>(g_.batch * phase.slices * phase.rows * phase.columns);
        shape.n = n;
        shape.taps = phase.taps.empty() ? 1 : phase.taps.size();
        shape.depth = phase.taps.empty() ? 0 : depth;  // no tap at all: the bias alone
        shape.packed = packed + group * group_floats_ + phase.packed_offset;
        shape.bias = BiasOf(args, group);
        shape.finish = finish.at_once();
        RunGemm(shape, args.threads,
                PhaseRows{g_, phase, in + group * depth, out + group * n, zeros()}, finish);
      }
    }
    return Status::Ok();
  }

 private:
  // As many groups as a panel of the product has columns for go through it as one, with zeros where
  // an input channel is of another group: a group by itself would fill the panel with zeros, too.
  static ConvGeometry Joined(ConvGeometry g) {
    const int64_t most = static_cast<int64_t>(Simd().columns) / g.cout_per_group();
    int64_t joined = std::max<int64_t>(1, std::min(most, g.group));
    while (g.group % joined != 0) --joined;
    g.group /= joined;
    return g;
  }

  TransposeConv(const Node& node, const ConvGeometry& g)
      : PackedConv(node, Joined(g)), joined_(static_cast<size_t>(g.group / g_.group)) {
    // Output pixel o gets input pixel i through tap k when o = i * stride - pad + k.
    depths_ = AllResidues(0);
    heights_ = AllResidues(1);
    widths_ = AllResidues(2);
    for (const Residues& d : depths_) {
      for (const Residues& h : heights_) {
        for (const Residues& w : widths_) AddPhase(d, h, w);
      }
    }
  }

  void AddPhase(const Residues& d, const Residues& h, const Residues& w) {
    Phase phase{&d,
                &h,
                &w,
                d.SizeIn(g_.out[0], g_.stride[0]),
                h.SizeIn(g_.out[1], g_.stride[1]),
                w.SizeIn(g_.out[2], g_.stride[2]),
                {},
                group_floats_};
    const auto offset = [this](const Residues& r, int64_t tap, size_t dim) {
      return (r.first + g_.pad_before[dim] - tap) / g_.stride[dim];
    };
    for (int64_t kd : d.taps) {
      for (int64_t kh : h.taps) {
        for (int64_t kw : w.taps) {
          phase.taps.push_back({(kd * g_.kernel[1] + kh) * g_.kernel[2] + kw, offset(d, kd, 0),
                                offset(h, kh, 1), offset(w, kw, 2)});
        }
      }
    }
    group_floats_ += PackedFloats(phase.taps.size() * static_cast<size_t>(g_.cin_per_group()),
                                  static_cast<size_t>(g_.cout_per_group()));
    phases_.push_back(std::move(phase));
  }

  std::vector<Residues> AllResidues(size_t dim) const {
    const int64_t stride = g_.stride[dim], end = std::min(stride, g_.out[dim]);
    std::map<int64_t, std::vector<int64_t>> seen;  // residue -> its taps
    for (int64_t k = 0; k < g_.kernel[dim]; ++k) {
      const int64_t residue = ((k - g_.pad_before[dim]) % stride + stride) % stride;
      if (residue < end) seen[residue].push_back(k);
    }
    std::vector<Residues> all;
    int64_t next = 0;
    for (auto& [residue, taps] : seen) {
      if (residue > next) all.push_back({next, residue - next, {}});
      all.push_back({residue, 1, std::move(taps)});
      next = residue + 1;
    }
    if (end > next) all.push_back({next, end - next, {}});
    return all;
  }

  std::string Layout() const override {
    return PanelLayout("transposed convolution of " + std::to_string(g_.group) + " x " +
                           std::to_string(joined_) + " groups in " +
                           std::to_string(phases_.size()) + " phases",
                       static_cast<size_t>(g_.taps() * g_.cin_per_group()),
                       static_cast<size_t>(g_.cout_per_group()));
  }

  // Weights are [kernel.., input channels, output channels of a group of the node]. A phase's taps
  // are not evenly spaced in it, so each panel is filled tap by tap.
  void Pack(const float* weights, float* packed, const Threads&) const override {
    const size_t depth = static_cast<size_t>(g_.cin_per_group());
    const size_t n = static_cast<size_t>(g_.cout_per_group()), nr = Simd().columns;
    const size_t own_n = n / joined_, own_depth = depth / joined_;
    for (size_t group = 0; group < static_cast<size_t>(g_.group); ++group) {
      for (const Phase& phase : phases_) {
        float* out = packed + group * group_floats_ + phase.packed_offset;
        for (size_t n0 = 0; n0 < n; n0 += nr) {
          const size_t columns = std::min(nr, n - n0);
          for (const Tap& tap : phase.taps) {
            const float* from =
                weights +
                (static_cast<size_t>(tap.kernel) * static_cast<size_t>(g_.cin) + group * depth) *
                    own_n;
            for (size_t k = 0; k < depth; ++k, out += nr) {
              std::fill(out, out + nr, 0.0f);
              const size_t first = k / own_depth * own_n;  // column of its group
              const size_t begin = std::max(n0, first), end = std::min(n0 + columns, first + own_n);
              for (size_t j = begin; j < end; ++j) out[j - n0] = from[k * own_n + j - first];
            }
          }
        }
      }
    }
  }

  const size_t joined_;  // groups of the node in one of g_
  std::vector<Residues> depths_, heights_, widths_;
  std::vector<Phase> phases_;
};

}  // namespace

Result<KernelPtr> MakeTransposeConv(const Node& node, const KernelOptions& options) {
  QNNRT_ASSIGN_OR_RETURN(const ConvGeometry g, ReadTransposeConv(node));
  return TransposeConv::Make(node, g, options);
}

}  // namespace qnnrt
