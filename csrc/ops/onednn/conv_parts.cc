#include "ops/onednn/conv_parts.h"

#include "ops/conv/conv.h"
#include "ops/isa.h"
#include "ops/tiles.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <algorithm>
#include <array>
#include <atomic>

namespace qnnrt::onednn {
namespace {

// Weights that the first of a convolution's parts asks for, for those beside it, too: a context
// binary has them once, however many threads there are.
class WeightsOfParts final : public WeightStore {
 public:
  explicit WeightsOfParts(const KernelOptions& options) : options_(options) {}

  // What the parts are made with.
  KernelOptions Shared() {
    KernelOptions shared = options_;
    shared.threads = 1;
    shared.weights = this;
    return shared;
  }

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

// Of a part, or rows of a matrix: less than two tiles gain nothing.
constexpr size_t kLeastPixels = 24;

class Parts final : public Kernel {
 public:
  static Result<KernelPtr> OfPixels(const Node& node, const KernelOptions& options, size_t parts,
                                    MakePart make) {
    std::unique_ptr<Parts> kernel(new Parts);
    WeightsOfParts weights(options);
    const size_t pixels = node.outputs[0]->elements() / node.outputs[0]->shape.back();
    for (size_t i = 0; i < parts; ++i) {
      const size_t begin = pixels * i / parts, end = pixels * (i + 1) / parts;
      const auto cut = [&](Tensor* t) {
        Shape& shape = t->shape;
        std::fill(shape.begin(), shape.end() - 1, 1u);
        shape[shape.size() - 2] = static_cast<uint32_t>(end - begin);
      };
      PartOf part(node);
      part.Cut(cut, cut);
      const auto at = [&](const Tensor& t) { return t.bytes() / (end - begin) * begin; };
      QNNRT_ASSIGN_OR_RETURN(const bool made, kernel->Append(part, weights.Shared(), make,
                                                             at(part.in()), at(part.out())));
      if (!made) return KernelPtr();
    }
    return KernelPtr(std::move(kernel));
  }

  static Result<KernelPtr> OfRows(const Node& node, const KernelOptions& options,
                                  const ConvGeometry& g, size_t parts, MakePart make) {
    std::unique_ptr<Parts> kernel(new Parts);
    WeightsOfParts weights(options);
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
      const auto at = [](const Tensor& t, int64_t row) {
        return t.bytes() / t.shape[1] * static_cast<size_t>(row);
      };
      QNNRT_ASSIGN_OR_RETURN(const bool made,
                             kernel->Append(part, weights.Shared(), make, at(part.in(), first),
                                            at(part.out(), begin)));
      if (!made) return KernelPtr();
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

    const Node& node() const { return node_; }
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

  // False when nothing makes a kernel of it.
  Result<bool> Append(const PartOf& part, const KernelOptions& options, MakePart make, size_t in_at,
                      size_t out_at) {
    QNNRT_ASSIGN_OR_RETURN(KernelPtr made, make(part.node(), options));
    if (!made) return false;
    room_ = std::max(room_, ScratchRoom(made->ScratchBytes()));
    std::vector<size_t> at = part.Offsets(in_at, out_at);
    std::vector<const void*> in(at.size());
    parts_.push_back({std::move(made), std::move(in), std::move(at), out_at});
    return true;
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

bool All(const Dims& dims, int64_t value) {
  return std::all_of(dims.begin(), dims.end(), [&](int64_t d) { return d == value; });
}

// Of single pixels, which may lie in any image.
bool IsOfPixels(const ConvShape& c) {
  return c.taps() == 1 && All(c.strides, 1) && All(c.before, 0) && All(c.after, 0);
}

// Whether threads that have pixels of their own, with all channels, are faster than oneDNN's, which
// share the channels of most shapes: the other half of a pixel then comes from the other core's
// cache, at half of the speed of weights that both read (decision 33).
bool KeepsToPixels(const Node& node, const ConvShape& c) {
  constexpr size_t kWeightsOverPixels = 4, kVector = 16;
  const Tensor &in = *node.inputs[0], &weights = *node.inputs[1], &out = *node.outputs[0];
  if (c.transposed || !weights.is_static() || (c.groups > 1 && c.groups == c.cin)) return false;
  const size_t depth = static_cast<size_t>(c.cin / c.groups * c.taps());
  if (CpuIsa() != Isa::kAvx512) {
    // Groups of fewer channels than a vector, whose outputs share cache lines, are of oneDNN's
    // older kernel, whose threads share the groups: both write to the same lines.
    const size_t pixel = static_cast<size_t>(c.cout / c.groups) * ElementSize(out.dtype);
    return c.groups > 1 && depth < kVector && pixel % kLine != 0 && IsOfPixels(c);
  }
  // oneDNN's kernel for one thread takes 1.2 times the time for such sums, but less where windows
  // of an image's few channels lie side by side.
  const bool side_by_side = c.groups == 1 && c.taps() > 1 && All(c.strides, 1);
  if (in.dtype == QNN_DATATYPE_BFLOAT_16 && depth < kTileDepth && !side_by_side) return false;
  return weights.bytes() <= kWeightsOverPixels * (in.bytes() + out.bytes());
}

}  // namespace

Result<KernelPtr> MakeRowParts(const Node& node, const KernelOptions& options, int threads,
                               MakePart make) {
  constexpr size_t kWeightsOverRows = 2;
  const Tensor &in = *node.inputs[0], &weights = *node.inputs[1], &out = *node.outputs[0];
  const size_t parts = static_cast<size_t>(threads);
  if (threads == 1 || CpuIsa() != Isa::kAvx512 || !weights.is_static() || in.shape.size() < 2 ||
      out.shape.size() < 2) {
    return KernelPtr();
  }
  const uint64_t depth = in.shape.back(), columns = out.shape.back();
  const size_t rows = out.elements() / columns;
  if (weights.elements() != depth * columns || in.elements() != rows * depth ||
      rows < parts * kLeastPixels ||
      weights.bytes() > kWeightsOverRows * (in.bytes() + out.bytes())) {
    return KernelPtr();
  }
  return Parts::OfPixels(node, options, parts, make);
}

Result<KernelPtr> MakeParts(const Node& node, const KernelOptions& options, const ConvShape& c,
                            int threads, MakePart make) {
  constexpr int64_t kLeastRows = 3;
  if (threads == 1 || !KeepsToPixels(node, c)) return KernelPtr();
  const size_t parts = static_cast<size_t>(threads);
  if (IsOfPixels(c)) {
    const size_t pixels = node.outputs[0]->elements() / static_cast<size_t>(c.cout);
    if (pixels < parts * kLeastPixels) return KernelPtr();
    return Parts::OfPixels(node, options, parts, make);
  }
  if (c.spatial != 2 || node.inputs[0]->shape[0] != 1) return KernelPtr();
  QNNRT_ASSIGN_OR_RETURN(const ConvGeometry g, ReadConv(node));
  if (g.out[1] < threads * kLeastRows) return KernelPtr();
  return Parts::OfRows(node, options, g, parts, make);
}

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
