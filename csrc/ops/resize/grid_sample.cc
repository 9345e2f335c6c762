// GridSample over [N, H, W, C] or [N, D, H, W, C]; a grid point is (x, y) or (x, y, z) in [-1, 1].
#include <algorithm>
#include <array>
#include <cmath>

#include "abi/qnn_op_names.h"
#include "abi/qnn_op_values.h"
#include "ops/isa.h"
#include "ops/movement/gather.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

constexpr size_t kPoints = 64;
constexpr size_t kLargestImage = INT32_MAX;  // floats that an offset reaches

// Points of a plane, and the four pixels around each.
struct Corners {
  float x[kPoints], y[kPoints];
  float weight[4][kPoints];
  int32_t offset[4][kPoints];
};

struct PlaceCorners {
  static QNNRT_INLINE void Run(Corners* at, size_t count, float width, float height, int32_t column,
                               int32_t row) {
    for (size_t c = 0; c < 4; ++c) {
      const float below = static_cast<float>(c & 1), right = static_cast<float>(c >> 1);
      QNNRT_SIMD
      for (size_t i = 0; i < count; ++i) {
        const float left = std::floor(at->x[i]), top = std::floor(at->y[i]);
        const float fx = at->x[i] - left, fy = at->y[i] - top;
        const float x = left + right, y = top + below;
        const bool inside = (x >= 0.0f) & (x < width) & (y >= 0.0f) & (y < height);
        const float weight = (c & 1 ? fy : 1.0f - fy) * (c >> 1 ? fx : 1.0f - fx);
        at->weight[c][i] = inside ? weight : 0.0f;
        at->offset[c][i] = static_cast<int32_t>(inside ? y : 0.0f) * row +
                           static_cast<int32_t>(inside ? x : 0.0f) * column;
      }
    }
  }
};

// What weighs nothing is not added, whatever it is.
struct AddCorners {
  static QNNRT_INLINE void Run(const Corners* at, size_t count, const float* image, float* out) {
    QNNRT_SIMD
    for (size_t i = 0; i < count; ++i) {
      float sum = 0.0f;
      for (size_t c = 0; c < 4; ++c) {
        const float weight = at->weight[c][i], x = image[at->offset[c][i]];
        sum += weight == 0.0f ? 0.0f : weight * x;
      }
      out[i] = sum;
    }
  }
};

class GridSampleKernel final : public Kernel {
 public:
  explicit GridSampleKernel(const Node& node)
      : align_(node.Bool("align_corners")),
        nearest_(node.Int("mode") == QNN_OP_GRID_SAMPLE_MODE_NEAREST),
        padding_(node.Int("padding_mode")) {
    const Shape &in = node.inputs[0]->shape, &grid = node.inputs[1]->shape;
    dims_ = in.size() - 2;
    channels_ = in.back();
    size_t stride = channels_;
    for (size_t d = dims_; d-- > 0;) {
      size_[d] = in[d + 1];
      stride_[d] = stride;
      stride *= in[d + 1];
    }
    image_ = stride;
    batches_ = in[0];
    points_ = Product(grid, 1, grid.size() - 1);
  }

  Status Run(const ExecArgs& args) override {
    const float* in = static_cast<const float*>(args.in[0]);
    const float* grid = static_cast<const float*>(args.in[1]);
    float* out = static_cast<float*>(args.out[0]);
    const bool planar = dims_ == 2 && !nearest_ && image_ != 0 && image_ <= kLargestImage;
    args.threads.For(batches_ * points_, 1 + (2 << 10) / (channels_ + 1),
                     [&](size_t begin, size_t end) {
                       if (planar) return Planar(in, grid, out, begin, end);
                       for (size_t p = begin; p < end; ++p) {
                         Point(in + p / points_ * image_, grid + p * dims_, out + p * channels_);
                       }
                     });
    return {};
  }

 private:
  // From [-1, 1] to element coordinates, folded into the image as padding_mode says.
  float Locate(float g, size_t d) const {
    const float size = static_cast<float>(size_[d]);
    float x = align_ ? (g + 1.0f) * 0.5f * (size - 1.0f) : ((g + 1.0f) * size - 1.0f) * 0.5f;
    if (padding_ == QNN_OP_GRID_SAMPLE_PADDING_MODE_ZEROS) return x;
    if (padding_ == QNN_OP_GRID_SAMPLE_PADDING_MODE_REFLECTION) {
      const float low = align_ ? 0.0f : -0.5f, span = align_ ? size - 1.0f : size;
      if (span <= 0.0f) return 0.0f;
      float t = std::fmod(std::fabs(x - low), 2.0f * span);
      x = (t > span ? 2.0f * span - t : t) + low;
    }
    return std::clamp(x, 0.0f, size - 1.0f);  // a NaN stays one and falls outside below
  }

  // Between the pixels of planes: where they lie and how much they weigh, of some points at once.
  // Those outside weigh nothing, and are read at the first pixel.
  void Planar(const float* in, const float* grid, float* out, size_t begin, size_t end) const {
    Corners at;
    for (size_t p = begin; p < end;) {
      const size_t batch = p / points_;
      const size_t count = std::min({kPoints, end - p, (batch + 1) * points_ - p});
      for (size_t i = 0; i < count; ++i) {
        at.x[i] = Locate(grid[2 * (p + i)], 1);
        at.y[i] = Locate(grid[2 * (p + i) + 1], 0);
      }
      place_(&at, count, static_cast<float>(size_[1]), static_cast<float>(size_[0]),
             static_cast<int32_t>(stride_[1]), static_cast<int32_t>(stride_[0]));
      const float* const image = in + batch * image_;
      if (channels_ == 1) {
        add_(&at, count, image, out + p);
      } else {
        for (size_t i = 0; i < count; ++i) AddChannels(at, i, image, out + (p + i) * channels_);
      }
      p += count;
    }
  }

  void AddChannels(const Corners& at, size_t i, const float* image, float* out) const {
    std::fill(out, out + channels_, 0.0f);
    for (size_t c = 0; c < 4; ++c) {
      const float weight = at.weight[c][i];
      if (weight == 0.0f) continue;
      const float* x = image + at.offset[c][i];
      for (size_t k = 0; k < channels_; ++k) out[k] += weight * x[k];
    }
  }

  void Point(const float* image, const float* g, float* out) const {
    std::fill(out, out + channels_, 0.0f);
    std::array<float, 3> low{}, share{};
    for (size_t d = 0; d < dims_; ++d) {
      const float x = Locate(g[dims_ - 1 - d], d);  // the grid names the last dim first
      low[d] = nearest_ ? std::nearbyint(x) : std::floor(x);
      share[d] = nearest_ ? 0.0f : x - low[d];
    }
    const size_t corners = nearest_ ? 1 : size_t{1} << dims_;
    for (size_t c = 0; c < corners; ++c) {
      float weight = 1.0f;
      size_t offset = 0;
      bool inside = true;
      for (size_t d = 0; d < dims_; ++d) {
        const bool upper = (c >> d & 1) != 0;
        weight *= upper ? share[d] : 1.0f - share[d];
        const float at = low[d] + (upper ? 1.0f : 0.0f);
        inside = inside && at >= 0.0f && at < static_cast<float>(size_[d]);
        if (inside) offset += static_cast<size_t>(at) * stride_[d];
      }
      if (!inside || weight == 0.0f) continue;
      const float* x = image + offset;
      for (size_t k = 0; k < channels_; ++k) out[k] += weight * x[k];
    }
  }

  decltype(&PlaceCorners::Run) const place_ = PickIsa<PlaceCorners>();
  decltype(&AddCorners::Run) const add_ = PickIsa<AddCorners>();
  const bool align_, nearest_;
  const int64_t padding_;
  size_t dims_ = 0, channels_ = 0, image_ = 0, batches_ = 0, points_ = 0;
  std::array<size_t, 3> size_{}, stride_{};
};

Status GridSampleShape(const Node& node, std::vector<Shape>* outputs) {
  const Shape &in = node.inputs[0]->shape, &grid = node.inputs[1]->shape;
  if (grid.size() != in.size() || grid[0] != in[0] || grid.back() != in.size() - 2) {
    return Invalid(
        "the grid has shape %s, expected [%u, .., %zu] of rank %zu for an input of shape %s",
        ShapeText(grid).c_str(), in[0], in.size() - 2, in.size(), ShapeText(in).c_str());
  }
  (*outputs)[0] = grid;
  (*outputs)[0].back() = in.back();
  return {};
}

Result<KernelPtr> MakeGridSample(const Node& node, const KernelOptions&) {
  return KernelPtr(std::make_unique<GridSampleKernel>(node));
}

}  // namespace

OpDef GridSampleOp() {
  PortSpec in{"in[0]", types::kFloat}, grid{"in[1]", types::kFloat, PortSpec::kOne, 0};
  in.min_rank = grid.min_rank = 4;
  in.max_rank = grid.max_rank = 5;
  OpDef def = {
      QNN_OP_GRID_SAMPLE,
      {in, grid},
      {{"out[0]", types::kFloat, PortSpec::kOne, 0}},
      {{"align_corners", ParamSpec::kBool, Default(false)},
       {"mode", ParamSpec::kInt, Default(0), "nearest: half to even", {"bilinear", "nearest"}},
       {"padding_mode", ParamSpec::kInt, Default(0), "", {"zeros", "border", "reflection"}}},
      GridSampleShape,
      MakeGridSample};
  def.sensitive_inputs = 2;
  return def;
}

}  // namespace qnnrt
