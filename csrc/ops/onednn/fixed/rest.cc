// Products whose weights do not fit s8: w = w8 + rest, with one rest for each output channel.
//   sum(q x w) = sum(q x w8) + rest x sum(q)
// The first sum is oneDNN's; the second is one number for each pixel and group.
#include "ops/onednn/fixed/encodings.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <algorithm>
#include <cmath>

#include "ops/onednn/fixed/split16_loops.h"
#include "ops/post_ops.h"
#include "ops/rules.h"

namespace qnnrt::onednn {
namespace {

constexpr size_t kGrainBytes = 64 * 1024;  // worth a thread

// `count` times `groups` sums, from every `step` numbers on.
struct AddRun {
  static QNNRT_INLINE void Run(const int32_t* in, int32_t* sums, size_t count, size_t step,
                               size_t groups) {
    if (step == groups) {
      QNNRT_SIMD
      for (size_t i = 0; i < count * groups; ++i) sums[i] += in[i];
    } else {
      for (size_t i = 0; i < count; ++i) {
        for (size_t g = 0; g < groups; ++g) sums[i * groups + g] += in[i * step + g];
      }
    }
  }
};

// The codes are written as bytes; s8 and u8 differ in their limits only.
struct RoundRun {
  static QNNRT_INLINE void Run(const float* in, const float* factors, float sum, uint8_t* out,
                               size_t count, float low, float high) {
    QNNRT_SIMD
    for (size_t i = 0; i < count; ++i) {
      float x = in[i] + factors[i] * sum;
      x = std::min(std::max(x, low), high);
      out[i] = static_cast<uint8_t>(static_cast<int32_t>(std::nearbyintf(x)));
    }
  }
};

class WithRest final : public Kernel {
 public:
  WithRest(KernelPtr inner, const ConvGeometry& geometry, const Node& node, int64_t zero)
      : inner_(std::move(inner)), g_(geometry), zero_(static_cast<int32_t>(zero)) {
    const FixedRange range = OutputRange(node);
    low_ = static_cast<float>(range.low);
    high_ = static_cast<float>(range.high);
    sum_ = node.inputs[0]->dtype == QNN_DATATYPE_UFIXED_POINT_8 ? PickIsa<SumRun<uint8_t>>()
                                                                : PickIsa<SumRun<int8_t>>();
    add_ = PickIsa<AddRun>();
    round_ = PickIsa<RoundRun>();
    floats_bytes_ = ScratchRoom(node.outputs[0]->elements() * sizeof(float));
    sums_bytes_ = ScratchRoom(Pixels() * Groups() * sizeof(int32_t));
    rows_bytes_ = ScratchRoom(OutRows() * RowSums() * sizeof(int32_t));
  }

  Status TakeFactors(const Node& node, const SignedWeights& weights) {
    const double step = static_cast<double>(node.inputs[0]->quantization.scales[0]) /
                        static_cast<double>(node.outputs[0]->quantization.scales[0]);
    factors_ = AlignedBytes::Make(weights.scales.size() * sizeof(float));
    if (!factors_) return OutOfMemory();
    float* factors = static_cast<float*>(factors_->data());
    for (size_t c = 0; c < weights.scales.size(); ++c) {
      factors[c] =
          static_cast<float>(step * static_cast<double>(weights.scales[c]) * weights.rests[c]);
    }
    return Status::Ok();
  }

  Status Run(const ExecArgs& args) override {
    char* scratch = static_cast<char*>(args.scratch);
    float* floats = reinterpret_cast<float*>(scratch);
    int32_t* sums = reinterpret_cast<int32_t*>(scratch + floats_bytes_);
    int32_t* rows = reinterpret_cast<int32_t*>(scratch + floats_bytes_ + sums_bytes_);
    void* out[] = {floats};
    QNNRT_RETURN_IF_ERROR(inner_->Run(
        {args.in, out, scratch + floats_bytes_ + sums_bytes_ + rows_bytes_, args.threads}));
    SumChannels(static_cast<const char*>(args.in[0]), sums, args.threads);
    const size_t row_elements = static_cast<size_t>(g_.out[2] * g_.cout);
    args.threads.For(OutRows(), kGrainBytes / row_elements + 1, [&](size_t begin, size_t end) {
      for (size_t r = begin; r < end; ++r) {
        int32_t* window = rows + r * RowSums();
        SumWindows(sums, r, window);
        RoundRow(floats + r * row_elements, window,
                 static_cast<uint8_t*>(args.out[0]) + r * row_elements);
      }
    });
    return Status::Ok();
  }

  size_t ScratchBytes() const override {
    return floats_bytes_ + sums_bytes_ + rows_bytes_ + inner_->ScratchBytes();
  }
  bool ReadsInput(size_t i) const override { return i == 0 || inner_->ReadsInput(i); }
  const char* Name() const override { return inner_->Name(); }
  size_t WeightBytes() const override { return inner_->WeightBytes(); }

 private:
  size_t Groups() const { return static_cast<size_t>(g_.group); }
  size_t Pixels() const { return static_cast<size_t>(g_.batch * g_.in[0] * g_.in[1] * g_.in[2]); }
  size_t OutRows() const { return static_cast<size_t>(g_.batch * g_.out[0] * g_.out[1]); }
  size_t RowSums() const { return static_cast<size_t>(g_.out[2]) * Groups(); }

  // Of every pixel and group.
  void SumChannels(const char* in, int32_t* sums, const Threads& threads) const {
    const size_t channels = static_cast<size_t>(g_.cin_per_group());
    threads.For(Pixels() * Groups(), kGrainBytes / channels + 1, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) sums[i] = sum_(in + i * channels, channels);
    });
  }

  // Of all taps of the windows of output row r; a tap outside of the input is a real zero.
  void SumWindows(const int32_t* sums, size_t r, int32_t* window) const {
    const int64_t y = static_cast<int64_t>(r) % g_.out[1];
    const int64_t z = static_cast<int64_t>(r) / g_.out[1] % g_.out[0];
    const int64_t n = static_cast<int64_t>(r) / (g_.out[1] * g_.out[0]);
    const int64_t row = g_.in[2] * g_.group;
    std::fill(window, window + RowSums(), 0);
    for (int64_t kz = 0; kz < g_.kernel[0]; ++kz) {
      for (int64_t ky = 0; ky < g_.kernel[1]; ++ky) {
        const int64_t iz = z * g_.stride[0] + kz * g_.dilation[0] - g_.pad_before[0];
        const int64_t iy = y * g_.stride[1] + ky * g_.dilation[1] - g_.pad_before[1];
        const bool inside = iz >= 0 && iz < g_.in[0] && iy >= 0 && iy < g_.in[1];
        const int32_t* from = inside ? sums + ((n * g_.in[0] + iz) * g_.in[1] + iy) * row : nullptr;
        for (int64_t kx = 0; kx < g_.kernel[2]; ++kx) AddTap(from, kx, window);
      }
    }
  }

  // Column kx of the filter; `from` is the row of the input, null when that is padding.
  void AddTap(const int32_t* from, int64_t kx, int32_t* window) const {
    const int64_t groups = g_.group, width = g_.out[2], stride = g_.stride[2];
    const int64_t first = kx * g_.dilation[2] - g_.pad_before[2];  // read for x = 0
    const int32_t outside = zero_ * static_cast<int32_t>(g_.cin_per_group());
    // Those that lie in the input.
    int64_t begin = std::min(width, first < 0 ? (-first + stride - 1) / stride : 0);
    int64_t end = first < g_.in[2] ? std::min(width, (g_.in[2] - 1 - first) / stride + 1) : 0;
    if (from == nullptr || end < begin) begin = end = 0;
    for (int64_t i = 0; i < begin * groups; ++i) window[i] += outside;
    for (int64_t i = end * groups; i < width * groups; ++i) window[i] += outside;
    if (begin == end) return;
    add_(from + (begin * stride + first) * groups, window + begin * groups,
         static_cast<size_t>(end - begin), static_cast<size_t>(stride * groups),
         static_cast<size_t>(groups));
  }

  void RoundRow(const float* in, const int32_t* window, uint8_t* out) const {
    const float* factors = static_cast<const float*>(factors_->data());
    const size_t channels = static_cast<size_t>(g_.cout_per_group());
    for (size_t i = 0; i < RowSums(); ++i) {
      round_(in + i * channels, factors + i % Groups() * channels, static_cast<float>(window[i]),
             out + i * channels, channels, low_, high_);
    }
  }

  const KernelPtr inner_;
  const ConvGeometry g_;
  const int32_t zero_;
  float low_, high_;
  int32_t (*sum_)(const void*, size_t);
  void (*add_)(const int32_t*, int32_t*, size_t, size_t, size_t);
  void (*round_)(const float*, const float*, float, uint8_t*, size_t, float, float);
  std::shared_ptr<AlignedBytes> factors_;
  size_t floats_bytes_, sums_bytes_, rows_bytes_;
};

}  // namespace

Result<KernelPtr> MakeWithRest(KernelPtr inner, const Node& node, const ConvGeometry& geometry,
                               const SignedWeights& weights, int64_t zero) {
  auto kernel = std::make_unique<WithRest>(std::move(inner), geometry, node, zero);
  QNNRT_RETURN_IF_ERROR(kernel->TakeFactors(node, weights));
  return KernelPtr(std::move(kernel));
}

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
