// Conv1d to Conv3d, DepthWiseConv1d and 2d, TransposeConv2d and 3d.
#include "ops/conv/conv.h"
#include "ops/isa.h"
#include "ops/onednn/shapes.h"

#ifdef QNNRT_ONEDNN_HEADERS

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

// Few weights over an input of one dimension, as networks over time have by the dozen: oneDNN
// compiles up to 800 KiB of code for each, several times the weights, and takes 0.9 of the portable
// kernel's time.
bool IsSmallLine(const Node& node, const ConvGeometry& g) {
  constexpr int64_t kSmallWeights = 32 * 1024;
  return node.inputs[1]->is_static() && g.group == 1 && g.in[0] == 1 && g.in[1] == 1 &&
         g.taps() * g.cin * g.cout <= kSmallWeights;
}

Result<KernelPtr> Make(const Node& node, const KernelOptions& options, bool transposed);

// Into how many parts of equal pixels it is cut; 1: into none. Groups of fewer channels than a
// vector are of oneDNN's older kernel, whose threads share the groups: where the outputs of two
// groups share cache lines, both write to the same ones (6 channels to 28, 56x56 pixels, Emerald
// Rapids: 108 us on one thread, 180 on two, and 57 in two parts).
size_t PixelPartsOf(const Node& node, const ConvShape& c, int threads) {
  constexpr int64_t kVector = 16;
  const int64_t line = 64 / static_cast<int64_t>(ElementSize(node.outputs[0]->dtype));
  const auto all = [](const Dims& dims, int64_t value) {
    return std::all_of(dims.begin(), dims.end(), [&](int64_t d) { return d == value; });
  };
  if (threads == 1 || c.transposed || c.groups == 1 || c.groups == c.cin || c.taps() != 1 ||
      c.cin / c.groups >= kVector || c.cout / c.groups % line == 0 || !all(c.strides, 1) ||
      !all(c.before, 0) || !all(c.after, 0) || !node.inputs[1]->is_static()) {
    return 1;
  }
  const size_t pixels = node.outputs[0]->elements() / static_cast<size_t>(c.cout);
  const size_t least = static_cast<size_t>(threads);
  for (size_t parts = least; parts <= 4 * least; ++parts) {
    if (pixels % parts == 0) return parts;
  }
  return 1;
}

// A convolution of single pixels, of which each thread has a part.
class PixelParts final : public Kernel {
 public:
  // Null when oneDNN has nothing for a part.
  static Result<KernelPtr> Make(const Node& node, const KernelOptions& options, size_t parts) {
    std::unique_ptr<PixelParts> kernel(new PixelParts);
    std::vector<Tensor> tensors;  // of a part: the input, the output, and what is added to it
    tensors.reserve(node.post_ops.size() + 2);
    const auto part_of = [&](const Tensor& whole, size_t* bytes) {
      tensors.push_back(whole);
      Shape& shape = tensors.back().shape;
      const size_t pixels = whole.elements() / shape.back() / parts;
      std::fill(shape.begin(), shape.end() - 1, 1u);
      shape[shape.size() - 2] = static_cast<uint32_t>(pixels);
      *bytes = tensors.back().bytes();
      return &tensors.back();
    };
    Node part = node;
    kernel->in_bytes_.assign(node.inputs.size(), 0);
    part.inputs[0] = part_of(*node.inputs[0], &kernel->in_bytes_[0]);
    part.outputs[0] = part_of(*node.outputs[0], &kernel->out_bytes_);
    for (const PostOp& op : node.post_ops) {
      if (op.kind != PostOp::Kind::kAdd) continue;
      part.inputs[op.input] = part_of(*node.inputs[op.input], &kernel->in_bytes_[op.input]);
    }
    KernelOptions alone = options;
    alone.threads = 1;
    QNNRT_ASSIGN_OR_RETURN(KernelPtr first, onednn::Make(part, alone, false));
    if (!first) return KernelPtr();
    kernel->room_ = ScratchRoom(first->ScratchBytes());
    kernel->parts_.push_back({std::move(first), std::vector<const void*>(node.inputs.size())});
    while (kernel->parts_.size() < parts) {
      QNNRT_ASSIGN_OR_RETURN(KernelPtr beside, MakeBeside(*kernel->parts_[0].kernel));
      kernel->parts_.push_back({std::move(beside), kernel->parts_[0].in});
    }
    return KernelPtr(std::move(kernel));
  }

  Status Run(const ExecArgs& args) override {
    std::atomic<bool> failed{false};
    Status status;
    args.threads.For(parts_.size(), 1, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        Status ran = RunPart(args, i);
        if (!ran.ok() && !failed.exchange(true)) status = std::move(ran);
      }
    });
    return status;
  }

  size_t ScratchBytes() const override { return parts_.size() * room_; }
  bool ReadsInput(size_t i) const override { return parts_[0].kernel->ReadsInput(i); }
  const char* Name() const override { return parts_[0].kernel->Name(); }
  size_t WeightBytes() const override { return parts_[0].kernel->WeightBytes(); }

 private:
  struct Part {
    KernelPtr kernel;
    std::vector<const void*> in;
  };

  Status RunPart(const ExecArgs& args, size_t i) {
    Part& part = parts_[i];
    for (size_t k = 0; k < part.in.size(); ++k) {
      const char* whole = static_cast<const char*>(args.in[k]);
      part.in[k] = whole != nullptr ? whole + i * in_bytes_[k] : nullptr;
    }
    void* out[] = {static_cast<char*>(args.out[0]) + i * out_bytes_};
    void* scratch = static_cast<char*>(args.scratch) + i * room_;
    return part.kernel->Run({part.in.data(), out, scratch, Threads(1)});
  }

  std::vector<Part> parts_;
  std::vector<size_t> in_bytes_;  // from part to part; 0: all read the whole
  size_t out_bytes_ = 0, room_ = 0;
};

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
        TakesBrainWindow(node, geometry) || TakesFewChannels(node, geometry)) {
      return KernelPtr();
    }
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
  const size_t parts = PixelPartsOf(node, *c, threads);
  if (parts > 1) return PixelParts::Make(node, options, parts);

  ProductLayouts l(*c, ChannelLast(in, types->in), ChannelLast(out, types->out), types->in);
  if (bias != nullptr) l.bias = MemoryDesc::Dense({c->cout}, types->bias);
  if (types->addend != dnnl_data_type_undef) l.addend = ChannelLast(out, types->addend);
  return MakeProduct(node, options, threads, *c, l);
}

}  // namespace

Result<KernelPtr> MakeConv(const Node& node, const KernelOptions& options) {
  return Make(node, options, false);
}

Result<KernelPtr> MakeTransposeConv(const Node& node, const KernelOptions& options) {
  return Make(node, options, true);
}

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
