// Conv1d to Conv3d, DepthWiseConv1d and 2d, TransposeConv2d and 3d.
#include "ops/conv/conv.h"
#include "ops/isa.h"
#include "ops/onednn/conv_parts.h"
#include "ops/onednn/shapes.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <algorithm>
#include <atomic>

namespace qnnrt::onednn {
namespace {

// Multiply-adds below which the portable kernel is done before oneDNN has started.
constexpr double kLeastConvWork = 4000;
// Taps up to which oneDNN's depthwise kernel for BFLOAT_16 is the faster one.
constexpr int64_t kFewTaps = 9;
// Channels below which the portable kernel has no whole vector.
constexpr int64_t kLeastDepthwise = 16;

// Whether few pixels pass by many weights, which come from memory: the portable kernel fetches them
// ahead, and takes 0.78 of oneDNN's time at 7x7 pixels of ResNet-50, 0.9 at 14x14 where a product
// is of many terms (Emerald Rapids, one thread).
bool WaitsForWeights(const ConvShape& c) {
  constexpr double kFewPixels = 64, kSomePixels = 256;
  constexpr int64_t kManyTerms = 512, kLargeWeights = 128 * 1024;
  const int64_t terms = c.cin * c.taps(), count = terms * c.cout;
  if (c.groups != 1 || count < kLargeWeights) return false;
  // Of a dilated window much hangs over a small image, which oneDNN leaves out.
  if (std::any_of(c.gaps.begin(), c.gaps.end(), [](int64_t gap) { return gap != 0; })) return false;
  const double pixels = c.work / static_cast<double>(count);
  return pixels <= (terms >= kManyTerms ? kSomePixels : kFewPixels);
}

// Whether a group's channels are fewer than a vector and its taps lie so far outside a line that
// oneDNN has only its reference kernel, of 20 to 60 times the portable one's time: its vectors have
// six pixels of a line, each tap of which has to see one inside.
bool ReachesFarOutside(const Node& node, const ConvGeometry& g) {
  const int64_t pixels = CpuIsa() == Isa::kAvx512 ? 6 : 4;
  return g.dilation[2] > 1 && std::max(g.pad_before[2], g.pad_after[2]) > pixels &&
         TakesByChannel(node, g);
}

// Few weights over an input of one dimension, as networks over time have by the dozen: oneDNN
// compiles up to 800 KiB of code for each, several times the weights, and takes 0.9 of the portable
// kernel's time. Where half of that one's vectors are empty it takes 0.2 to 0.7, which counts in
// long lines, a vocoder's sound.
bool IsSmallLine(const Node& node, const ConvGeometry& g) {
  constexpr int64_t kSmallWeights = 32 * 1024, kHalfVector = 8, kLongLine = 1024;
  return node.inputs[1]->is_static() && g.group == 1 && g.in[0] == 1 && g.in[1] == 1 &&
         g.taps() * g.cin * g.cout <= kSmallWeights &&
         (g.cout > kHalfVector || g.out[2] < kLongLine);
}

struct LargestMagnitude {  // of BFLOAT_16, whose order without the sign is that of integers
  static QNNRT_INLINE int Run(const uint16_t* in, size_t count) {
    int16_t largest = 0;
    QNNRT_SIMD_REDUCE(reduction(max : largest))
    for (size_t i = 0; i < count; ++i) {
      largest = std::max(largest, static_cast<int16_t>(in[i] & 0x7fff));
    }
    return largest;
  }
};

// kJoinsLines for an input that is finite, which takes a hundredth of its time to see: it takes 0.2
// to 0.9 of the time of the next implementation, which other inputs have.
class OfFiniteInput final : public Kernel {
 public:
  OfFiniteInput(const Node& node, KernelPtr fast, KernelPtr exact)
      : elements_(node.inputs[0]->elements()), fast_(std::move(fast)), exact_(std::move(exact)) {}

  Status Run(const ExecArgs& args) override {
    constexpr size_t kGrain = 64 * 1024;
    constexpr int kInfinity = 0x7f80;
    std::atomic<bool> finite{true};
    args.threads.For(elements_, kGrain, [&](size_t begin, size_t end) {
      const int largest = magnitude_(static_cast<const uint16_t*>(args.in[0]) + begin, end - begin);
      if (largest >= kInfinity) finite = false;
    });
    return (finite ? fast_ : exact_)->Run(args);
  }
  size_t ScratchBytes() const override {
    return std::max(fast_->ScratchBytes(), exact_->ScratchBytes());
  }
  bool ReadsInput(size_t i) const override { return fast_->ReadsInput(i) || exact_->ReadsInput(i); }
  const char* Name() const override { return fast_->Name(); }
  size_t WeightBytes() const override { return fast_->WeightBytes() + exact_->WeightBytes(); }

 private:
  const decltype(PickIsa<LargestMagnitude>()) magnitude_ = PickIsa<LargestMagnitude>();
  const size_t elements_;
  const KernelPtr fast_, exact_;
};

Result<KernelPtr> MakePartOfConv(const Node& node, const KernelOptions& options);

Result<KernelPtr> Make(const Node& node, const KernelOptions& options, bool transposed) {
  const Tensor& in = *node.inputs[0];
  const Tensor& weights = *node.inputs[1];
  const Tensor* bias = Bias(node);
  const Tensor& out = *node.outputs[0];
  const std::optional<ProductTypes> types = ProductTypesOf(node);
  if (!types) return KernelPtr();
  const std::optional<ConvShape> c = ReadConvShape(node, transposed);
  if (!c || c->work < kLeastConvWork) return KernelPtr();
  // Where a processor has no instructions for BFLOAT_16, oneDNN emulates them: 4 to 10 times the
  // time of the product of FLOAT_32.
  if (types->in == dnnl_bf16 && !CpuRoundsBrains()) return KernelPtr();
  // With many taps the portable kernel, which converts each line once, takes 0.8 of the time.
  if (types->in == dnnl_bf16 && c->groups > 1 && c->groups == c->cin && c->taps() > kFewTaps &&
      c->cin >= kLeastDepthwise)
    return KernelPtr();

  if (!transposed) {
    QNNRT_ASSIGN_OR_RETURN(const ConvGeometry geometry, ReadConv(node));
    if (TakesWinograd(node, geometry) || TakesGroupTiles(node, geometry) ||
        TakesWindow(node, geometry) || TakesBrainWindow(node, geometry) ||
        TakesFewChannels(node, geometry)) {
      return KernelPtr();
    }
    if (ReachesFarOutside(node, geometry)) return KernelPtr();
    // Groups of a few channels: with AVX2 oneDNN takes twice the time, and ten times it where a
    // group is less than a vector. With AVX-512 it is as fast, or faster by a tenth.
    if (c->groups < c->cin && CpuIsa() != Isa::kAvx512 && TakesByChannel(node, geometry))
      return KernelPtr();
    if (types->in == dnnl_f32 && IsSmallLine(node, geometry)) return KernelPtr();
  }
  if (!transposed && types->in == dnnl_f32 && weights.is_static() && WaitsForWeights(*c)) {
    return KernelPtr();
  }
  if (Load() == nullptr) return KernelPtr();

  const int threads = ThreadsFor(node, options, c->work);
  QNNRT_ASSIGN_OR_RETURN(KernelPtr parts, MakeParts(node, options, *c, threads, MakePartOfConv));
  if (parts) return parts;

  ProductLayouts l(*c, ChannelLast(in, types->in), ChannelLast(out, types->out), types->in);
  if (bias != nullptr) l.bias = MemoryDesc::Dense({c->cout}, types->bias);
  if (types->addend != dnnl_data_type_undef) l.addend = ChannelLast(out, types->addend);
  QNNRT_ASSIGN_OR_RETURN(KernelPtr kernel, MakeProduct(node, options, threads, *c, l));
  const bool joins = kernel && types->in == dnnl_bf16 && c->taps() > 1 &&
                     kernel->Name() == std::string("onednn:") + kJoinsLines;
  if (!joins) return kernel;
  ConvShape within = *c;
  within.within_windows = true;
  QNNRT_ASSIGN_OR_RETURN(KernelPtr exact, MakeProduct(node, options, threads, within, l));
  if (!exact) return KernelPtr();
  return KernelPtr(new OfFiniteInput(node, std::move(kernel), std::move(exact)));
}

Result<KernelPtr> MakePartOfConv(const Node& node, const KernelOptions& options) {
  return Make(node, options, false);
}

}  // namespace

Result<KernelPtr> MakeConv(const Node& node, const KernelOptions& options) {
  QNNRT_ASSIGN_OR_RETURN(const ConvGeometry geometry, ReadConv(node));
  // Of the whole convolution: a part has few pixels because of the threads.
  return TakesFewPixels(node, geometry) ? KernelPtr() : Make(node, options, false);
}

Result<KernelPtr> MakeTransposeConv(const Node& node, const KernelOptions& options) {
  return Make(node, options, true);
}

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
