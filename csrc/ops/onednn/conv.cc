// Conv1d to Conv3d, DepthWiseConv1d and 2d, TransposeConv2d and 3d.
#include "ops/conv/conv.h"
#include "ops/isa.h"
#include "ops/onednn/shapes.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <algorithm>
#include <array>
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

// Into how many parts of rows it is cut. Of two vectors of channels from a few, oneDNN's threads
// share a row's: where the lines of one pixel are written from two cores, the kernel gains nothing
// from the second, and what reads the result finds half of it with the other one (3x3, 3 to 32
// channels of 112x112 pixels on AMX: 125 us on one thread, 104 on two).
size_t RowPartsOf(const Node& node, const ConvShape& c, const ConvGeometry& g, int threads) {
  constexpr int64_t kVector = 16, kMostParts = 4, kLeastRows = 8;
  const int64_t rows = g.out[1];
  if (threads == 1 || threads > kMostParts || CpuIsa() != Isa::kAvx512 || c.spatial != 2 ||
      c.groups != 1 || c.taps() == 1 || c.cin >= kVector || c.cout <= kVector || g.batch != 1 ||
      rows < threads * kLeastRows || !node.inputs[1]->is_static()) {
    return 1;
  }
  for (const Tensor* t : {node.inputs[0], node.inputs[1], node.outputs[0]}) {
    if (t->dtype != QNN_DATATYPE_FLOAT_32) return 1;
  }
  return static_cast<size_t>(threads);
}

// Weights that the first of a convolution's parts asks for, for those beside it, too: a context
// binary has them once, however many threads there are.
class WeightsOfParts final : public WeightStore {
 public:
  explicit WeightsOfParts(const KernelOptions& options) : options_(options) {}

  Result<SharedBytes> Packed(size_t input, uint64_t size, const std::string& layout, Fill fill,
                             const std::string& from) override {
    for (const Kept& k : kept_) {
      if (k.input == input && k.bytes->size() == size && k.layout == layout && k.from == from)
        return k.bytes;
    }
    QNNRT_ASSIGN_OR_RETURN(SharedBytes bytes,
                           PackWeights(options_, input, size, layout, fill, from));
    kept_.push_back({input, layout, from, bytes});
    return bytes;
  }

 private:
  struct Kept {
    size_t input;
    std::string layout, from;
    SharedBytes bytes;
  };
  const KernelOptions& options_;
  std::vector<Kept> kept_;
};

// A convolution cut along its pixels or rows, of which each thread has a part.
class Parts final : public Kernel {
 public:
  // Of single pixels, into parts alike. Null when oneDNN has nothing for a part.
  static Result<KernelPtr> OfPixels(const Node& node, const KernelOptions& options, size_t parts) {
    const auto cut = [&](Tensor* t) {
      Shape& shape = t->shape;
      const size_t pixels = t->elements() / shape.back() / parts;
      std::fill(shape.begin(), shape.end() - 1, 1u);
      shape[shape.size() - 2] = static_cast<uint32_t>(pixels);
    };
    std::unique_ptr<Parts> kernel(new Parts);
    PartOf part(node);
    part.Cut(cut, cut);
    QNNRT_ASSIGN_OR_RETURN(KernelPtr first, part.Make(options));
    if (!first) return KernelPtr();
    kernel->room_ = ScratchRoom(first->ScratchBytes());
    kernel->Append(std::move(first), part.Offsets(0, 0), 0);
    for (size_t i = 1; i < parts; ++i) {
      QNNRT_ASSIGN_OR_RETURN(KernelPtr beside, MakeBeside(*kernel->parts_[0].kernel));
      const size_t out_at = i * part.out().bytes();
      kernel->Append(std::move(beside), part.Offsets(i * part.in().bytes(), out_at), out_at);
    }
    return KernelPtr(std::move(kernel));
  }

  // Of rows of an image, each part with the padding that it sees.
  static Result<KernelPtr> OfRows(const Node& node, const KernelOptions& options,
                                  const ConvGeometry& g, size_t parts) {
    std::unique_ptr<Parts> kernel(new Parts);
    WeightsOfParts weights(options);
    KernelOptions shared = options;
    shared.weights = &weights;
    const int64_t count = static_cast<int64_t>(parts);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t begin = g.out[1] * i / count, end = g.out[1] * (i + 1) / count;
      const int64_t from = begin * g.stride[1] - g.pad_before[1];
      const int64_t to =
          (end - 1) * g.stride[1] - g.pad_before[1] + (g.kernel[1] - 1) * g.dilation[1] + 1;
      const int64_t first = std::max<int64_t>(from, 0), last = std::min(to, g.in[1]);
      if (first >= last) return KernelPtr();
      PartOf part(node);
      part.Cut([&](Tensor* t) { t->shape[1] = static_cast<uint32_t>(last - first); },
               [&](Tensor* t) { t->shape[1] = static_cast<uint32_t>(end - begin); });
      part.SetPads({first - from, to - last, g.pad_before[2], g.pad_after[2]});
      QNNRT_ASSIGN_OR_RETURN(KernelPtr made, part.Make(shared));
      if (!made) return KernelPtr();
      kernel->room_ = std::max(kernel->room_, ScratchRoom(made->ScratchBytes()));
      const size_t in_at = part.in().bytes() / static_cast<size_t>(last - first);
      const size_t out_at =
          part.out().bytes() / static_cast<size_t>(end - begin) * static_cast<size_t>(begin);
      kernel->Append(std::move(made), part.Offsets(in_at * static_cast<size_t>(first), out_at),
                     out_at);
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
  // A copy of the node with tensors of its own for what is cut: the input, the output, and what is
  // added to that.
  class PartOf {
   public:
    explicit PartOf(const Node& node) : node_(node) { tensors_.reserve(node.post_ops.size() + 2); }

    template <typename CutIn, typename CutOut>
    void Cut(const CutIn& cut_in, const CutOut& cut_out) {
      const auto own = [&](const Tensor* whole, const auto& cut) {
        tensors_.push_back(*whole);
        cut(&tensors_.back());
        return &tensors_.back();
      };
      node_.inputs[0] = own(node_.inputs[0], cut_in);
      node_.outputs[0] = own(node_.outputs[0], cut_out);
      for (const PostOp& op : node_.post_ops) {
        if (op.kind == PostOp::Kind::kAdd)
          node_.inputs[op.input] = own(node_.inputs[op.input], cut_out);
      }
    }

    void SetPads(const std::array<int64_t, 4>& pads) {
      for (Param& param : node_.params) {
        if (param.name != "pad_amount") continue;
        uint32_t words[4];
        std::copy(pads.begin(), pads.end(), words);
        std::get<Tensor>(param.value).data = AlignedBytes::Copy(words, sizeof(words));
      }
    }

    Result<KernelPtr> Make(KernelOptions options) const {
      options.threads = 1;
      return onednn::Make(node_, options, false);
    }

    const Tensor& in() const { return *node_.inputs[0]; }
    const Tensor& out() const { return *node_.outputs[0]; }

    // Where its inputs begin in the whole ones.
    std::vector<size_t> Offsets(size_t in_at, size_t out_at) const {
      std::vector<size_t> at(node_.inputs.size(), 0);
      at[0] = in_at;
      for (const PostOp& op : node_.post_ops) {
        if (op.kind != PostOp::Kind::kAdd) continue;
        at[op.input] =
            out_at / ElementSize(out().dtype) * ElementSize(node_.inputs[op.input]->dtype);
      }
      return at;
    }

   private:
    Node node_;
    std::vector<Tensor> tensors_;
  };

  struct Part {
    KernelPtr kernel;
    std::vector<const void*> in;
    std::vector<size_t> in_at;
    size_t out_at;
  };

  void Append(KernelPtr kernel, std::vector<size_t> in_at, size_t out_at) {
    std::vector<const void*> in(in_at.size());
    parts_.push_back({std::move(kernel), std::move(in), std::move(in_at), out_at});
  }

  Status RunPart(const ExecArgs& args, size_t i) {
    Part& part = parts_[i];
    for (size_t k = 0; k < part.in.size(); ++k) {
      const char* whole = static_cast<const char*>(args.in[k]);
      part.in[k] = whole != nullptr ? whole + part.in_at[k] : nullptr;
    }
    void* out[] = {static_cast<char*>(args.out[0]) + part.out_at};
    void* scratch = static_cast<char*>(args.scratch) + i * room_;
    return part.kernel->Run({part.in.data(), out, scratch, Threads(1)});
  }

  std::vector<Part> parts_;
  size_t room_ = 0;
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

  const int threads = ThreadsFor(node, options, c->work);
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
    const size_t rows = RowPartsOf(node, *c, geometry, threads);
    if (rows > 1) {
      QNNRT_ASSIGN_OR_RETURN(KernelPtr parts, Parts::OfRows(node, options, geometry, rows));
      if (parts) return parts;
    }
  }
  if (!transposed && types->in == dnnl_f32 && weights.is_static() && WaitsForWeights(*c)) {
    return KernelPtr();
  }
  if (Load() == nullptr) return KernelPtr();

  const size_t parts = PixelPartsOf(node, *c, threads);
  if (parts > 1) return Parts::OfPixels(node, options, parts);

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
