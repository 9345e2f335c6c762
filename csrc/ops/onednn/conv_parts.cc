#include "ops/onednn/conv_parts.h"

#include "ops/conv/window_rows.h"
#include "ops/elementwise/coarse.h"
#include "ops/isa.h"
#include "ops/post_ops.h"
#include "ops/stored_floats.h"
#include "ops/tiles.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>

namespace qnnrt::onednn {
namespace {

// Weights that the first of a convolution's parts asks for, for those beside it, too: a context
// binary has them once, however many threads there are.
class WeightsOfParts final : public WeightStore {
 public:
  explicit WeightsOfParts(const KernelOptions& options) : options_(options) {}

  // What the parts are made with.
  KernelOptions Shared(int threads = 1) {
    KernelOptions shared = options_;
    shared.threads = threads;
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
// Of `left` rows that are pixels, those of the next part. oneDNN cuts pixels into equal blocks,
// which may leave tiles nearly empty: where their number is no multiple of a tile's, the last ones
// are another part, of more than one tile. Parts of a few sizes, and those of less than a tile,
// would have their weights in another order than most: a binary is for any number of threads.
size_t PixelsOfPart(size_t left, size_t columns) {
  constexpr size_t kFewColumns = 128;
  size_t count = left;
  if (left % kTileRows != 0 && left >= 2 * kTileRows) count = (left / kTileRows - 1) * kTileRows;
  const bool other = count == 48 || count == 144 || count == 240;
  return other || (count == 64 && columns < kFewColumns) ? count - 2 * kTileRows : count;
}
// Pixels that a product takes at a time: of other numbers it takes up to a third longer.
constexpr size_t kWholeTiles = 32;
// Of sums in 32 bits, or of copied windows: what a second cache keeps beside the input and the
// weights.
constexpr size_t kStripBytes = 512 * 1024;

// Whether what follows a product of BFLOAT_16 is done here: oneDNN takes twice the time of our
// loops for what has an exponential function in it, which is more than that of a product of few
// terms. Of many terms, the processor does it beside the tiles' work.
bool Finishes(const Node& node) {
  constexpr uint64_t kFewTerms = 512;
  const Tensor& out = *node.outputs[0];
  if (node.inputs[0]->dtype != QNN_DATATYPE_BFLOAT_16 || out.dtype != QNN_DATATYPE_BFLOAT_16 ||
      node.inputs[1]->elements() / out.shape.back() > kFewTerms) {
    return false;
  }
  return std::any_of(node.post_ops.begin(), node.post_ops.end(), [](const PostOp& op) {
    return op.kind == PostOp::Kind::kActivation && CoarseLoop(op.activation) != nullptr;
  });
}

// A copy of the node with tensors of its own for what is cut: the input, the output, and what is
// added to that.
class PartOf {
 public:
  // `sums`: what follows the product is left to who asks, and the output has 32 bits.
  PartOf(const Node& node, bool sums) : node_(node), sums_(sums) {
    tensors_.reserve(node.post_ops.size() + 2);
    if (!sums) return;
    for (const PostOp& op : node.post_ops) {
      if (op.kind == PostOp::Kind::kAdd) node_.inputs[op.input] = nullptr;
    }
    node_.post_ops.clear();
    node_.in_place.clear();
  }

  template <typename CutIn, typename CutOut>
  void Cut(const CutIn& cut_in, const CutOut& cut_out) {
    const auto own = [&](const Tensor* whole, const auto& cut) {
      tensors_.push_back(*whole);
      cut(&tensors_.back());
      return &tensors_.back();
    };
    node_.inputs[0] = own(node_.inputs[0], cut_in);
    Tensor* const out = own(node_.outputs[0], cut_out);
    if (sums_) out->dtype = QNN_DATATYPE_FLOAT_32;
    node_.outputs[0] = out;
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
  size_t elements() const { return node_.outputs[0]->elements(); }

  // Where its inputs begin in the whole ones, which begins with these elements.
  std::vector<size_t> Offsets(size_t in_at, size_t out_at) const {
    std::vector<size_t> at(node_.inputs.size(), 0);
    at[0] = in_at * ElementSize(node_.inputs[0]->dtype);
    for (const PostOp& op : node_.post_ops) {
      if (op.kind == PostOp::Kind::kAdd)
        at[op.input] = out_at * ElementSize(node_.inputs[op.input]->dtype);
    }
    return at;
  }

 private:
  Node node_;
  std::vector<Tensor> tensors_;
  const bool sums_;
};

class Parts final : public Kernel {
 public:
  // `rows`: of a product, as PixelsOfPart says.
  static Result<KernelPtr> OfPixels(const Node& node, const KernelOptions& options, size_t threads,
                                    bool rows, MakePart make) {
    return OfPixels(std::unique_ptr<Parts>(new Parts(node, threads)), node, options, rows, make);
  }

  // Windows as the pixels of a convolution by 1x1, which each owner copies strip by strip. Of few
  // pixels there is one owner, and all threads share its product.
  static Result<KernelPtr> OfWindows(const Node& node, const KernelOptions& options,
                                     const ConvGeometry& g, size_t threads, MakePart make) {
    const uint32_t pixels = static_cast<uint32_t>(g.out_pixels());
    const uint32_t depth = static_cast<uint32_t>(g.taps() * g.cin);
    const uint32_t columns = static_cast<uint32_t>(g.cout);
    Tensor in = *node.inputs[0], weights = *node.inputs[1], out = *node.outputs[0];
    in.shape = {1, 1, pixels, depth};
    weights.shape = {1, 1, depth, columns};
    out.shape = {1, 1, pixels, columns};
    Node product = node;
    product.type = "Conv2d";
    product.inputs[0] = &in;
    product.inputs[1] = &weights;
    product.outputs[0] = &out;
    std::vector<Tensor> addends;
    addends.reserve(node.post_ops.size());
    for (const PostOp& op : node.post_ops) {
      if (op.kind != PostOp::Kind::kAdd) continue;
      addends.push_back(*node.inputs[op.input]);
      addends.back().shape = out.shape;
      product.inputs[op.input] = &addends.back();
    }
    product.params = {{"stride", Words({2}, 1)},
                      {"pad_amount", Words({2, 2}, 0)},
                      {"dilation", Words({2}, 1)},
                      {"group", int64_t{1}}};
    std::unique_ptr<Parts> kernel(new Parts(node, pixels < threads * kLeastPixels ? 1 : threads));
    kernel->threads_ = kernel->owners_.size() == threads ? 1 : static_cast<int>(threads);
    kernel->windows_.emplace(g, ElementSize(in.dtype));
    return OfPixels(std::move(kernel), product, options, false, make);
  }

  static Result<KernelPtr> OfRows(const Node& node, const KernelOptions& options,
                                  const ConvGeometry& g, size_t threads, MakePart make) {
    std::unique_ptr<Parts> kernel(new Parts(node, threads));
    WeightsOfParts weights(options);
    const auto row = [](const Tensor& t) { return t.elements() / t.shape[1]; };
    const size_t in_row = row(*node.inputs[0]), out_row = row(*node.outputs[0]);
    const auto add = [&](size_t owner, size_t begin, size_t end) -> Result<bool> {
      const int64_t from = static_cast<int64_t>(begin) * g.stride[1] - g.pad_before[1];
      const int64_t to = (static_cast<int64_t>(end) - 1) * g.stride[1] - g.pad_before[1] +
                         (g.kernel[1] - 1) * g.dilation[1] + 1;
      const int64_t first = std::max<int64_t>(from, 0), last = std::min(to, g.in[1]);
      if (first >= last) return false;
      PartOf part(node, kernel->finishes_);
      part.Cut([&](Tensor* t) { t->shape[1] = static_cast<uint32_t>(last - first); },
               [&](Tensor* t) { t->shape[1] = static_cast<uint32_t>(end - begin); });
      part.SetPads({first - from, to - last, g.pad_before[2], g.pad_after[2]});
      return kernel->Append(owner, part, weights.Shared(), make,
                            {end - begin, first - from, to - last},
                            static_cast<size_t>(first) * in_row, begin * out_row);
    };
    QNNRT_ASSIGN_OR_RETURN(const bool made,
                           kernel->Cut(static_cast<size_t>(g.out[1]), out_row, 1, false, add));
    return made ? KernelPtr(std::move(kernel)) : KernelPtr();
  }

  Status Run(const ExecArgs& args) override {
    std::atomic<bool> failed{false};
    Status status;
    args.threads.For(owners_.size(), 1, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        for (Part& part : owners_[i].parts) {
          Status ran = RunPart(args, i, part);
          if (ran.ok()) continue;
          if (!failed.exchange(true)) status = std::move(ran);
          break;
        }
      }
    });
    return status;
  }

  size_t ScratchBytes() const override { return owners_.size() * RoomOfOwner(); }
  bool ReadsInput(size_t i) const override {
    const auto adds = [&](const PostOp& op) {
      return op.kind == PostOp::Kind::kAdd && op.input == i;
    };
    return First().ReadsInput(i) || (finishes_ && std::any_of(ops_.begin(), ops_.end(), adds));
  }
  const char* Name() const override { return First().Name(); }
  size_t WeightBytes() const override { return First().WeightBytes(); }

 private:
  // What tells the kernels of an owner's parts apart.
  struct Cutting {
    size_t units;
    int64_t top, bottom;  // padding
    bool operator==(const Cutting& o) const {
      return units == o.units && top == o.top && bottom == o.bottom;
    }
  };
  struct Part {
    Kernel* kernel;
    std::vector<const void*> in;
    std::vector<size_t> in_at;
    size_t out_at, elements;
  };
  struct Owner {  // a thread
    std::vector<std::pair<Cutting, KernelPtr>> kernels;
    std::vector<Part> parts;
  };

  static Result<KernelPtr> OfPixels(std::unique_ptr<Parts> kernel, const Node& node,
                                    const KernelOptions& options, bool rows, MakePart make) {
    WeightsOfParts weights(options);
    const size_t columns = node.outputs[0]->shape.back(), depth = node.inputs[0]->shape.back();
    const size_t pixels = node.outputs[0]->elements() / columns;
    const auto add = [&](size_t owner, size_t begin, size_t end) -> Result<bool> {
      const auto cut = [&](Tensor* t) {
        Shape& shape = t->shape;
        std::fill(shape.begin(), shape.end() - 1, 1u);
        shape[shape.size() - 2] = static_cast<uint32_t>(end - begin);
      };
      PartOf part(node, kernel->finishes_);
      part.Cut(cut, cut);
      return kernel->Append(owner, part, weights.Shared(kernel->threads_), make,
                            {end - begin, 0, 0}, begin * depth, begin * columns);
    };
    QNNRT_ASSIGN_OR_RETURN(const bool made, kernel->Cut(pixels, columns, kWholeTiles, rows, add));
    return made ? KernelPtr(std::move(kernel)) : KernelPtr();
  }

  static Tensor Words(Shape shape, uint32_t value) {
    Tensor t;
    t.dtype = QNN_DATATYPE_UINT_32;
    t.shape = std::move(shape);
    const std::vector<uint32_t> words(t.elements(), value);
    t.data = AlignedBytes::Copy(words.data(), words.size() * sizeof(uint32_t));
    return t;
  }

  Parts(const Node& node, size_t threads)
      : finishes_(Finishes(node)),
        ops_(node.post_ops),
        post_ops_(node),
        out_(*node.outputs[0]),
        out_size_(ElementSize(node.outputs[0]->dtype)),
        columns_(node.outputs[0]->shape.back()),
        owners_(threads) {}

  size_t RoomOfOwner() const { return room_ + sums_room_ + rows_room_; }
  const Kernel& First() const { return *owners_[0].parts[0].kernel; }

  // add(owner, begin, end) for each part of so many pixels or rows; strips hold a multiple of
  // `whole`, but for an owner's last.
  template <typename Add>
  Result<bool> Cut(size_t count, size_t elements, size_t whole, bool rows, const Add& add) {
    size_t strip = count;
    if (finishes_) strip = std::min(strip, kStripBytes / sizeof(float) / elements);
    if (windows_) strip = std::min(strip, kStripBytes / windows_->row_bytes());
    if (strip < count) strip = std::max(strip / whole, size_t{1}) * whole;
    const auto share = [&](size_t owner) {
      const size_t at = count * owner / owners_.size();
      return rows && at != count ? at / kTileRows * kTileRows : at;
    };
    for (size_t i = 0; i < owners_.size(); ++i) {
      const size_t from = share(i), to = share(i + 1);
      const size_t strips = (to - from + strip - 1) / strip;
      const size_t even = (to - from + strips - 1) / strips;
      const size_t step = (even + whole - 1) / whole * whole;
      for (size_t at = from, end; at < to; at = end) {
        const size_t left = std::min(step, to - at);
        end = at + (rows ? PixelsOfPart(left, elements) : left);
        QNNRT_ASSIGN_OR_RETURN(const bool made, add(i, at, end));
        if (!made) return false;
      }
    }
    return true;
  }

  // False when nothing makes a kernel of it.
  Result<bool> Append(size_t owner, const PartOf& part, const KernelOptions& options, MakePart make,
                      const Cutting& cutting, size_t in_at, size_t out_at) {
    auto& kernels = owners_[owner].kernels;
    auto found = std::find_if(kernels.begin(), kernels.end(),
                              [&](const auto& k) { return k.first == cutting; });
    if (found == kernels.end()) {
      QNNRT_ASSIGN_OR_RETURN(KernelPtr made, make(part.node(), options));
      if (!made) return false;
      room_ = std::max(room_, ScratchRoom(made->ScratchBytes()));
      found = kernels.insert(kernels.end(), {cutting, std::move(made)});
    }
    std::vector<size_t> at = part.Offsets(in_at, out_at);
    std::vector<const void*> in(at.size());
    owners_[owner].parts.push_back(
        {found->second.get(), std::move(in), std::move(at), out_at, part.elements()});
    if (finishes_) sums_room_ = std::max(sums_room_, ScratchRoom(part.elements() * sizeof(float)));
    if (windows_)
      rows_room_ = std::max(rows_room_, ScratchRoom(cutting.units * windows_->row_bytes()));
    return true;
  }

  Status RunPart(const ExecArgs& args, size_t owner, Part& part) {
    for (size_t k = 0; k < part.in.size(); ++k) {
      const char* whole = static_cast<const char*>(args.in[k]);
      part.in[k] = whole != nullptr ? whole + part.in_at[k] : nullptr;
    }
    char* const scratch = static_cast<char*>(args.scratch) + owner * RoomOfOwner();
    float* const sums = reinterpret_cast<float*>(scratch + room_);
    if (windows_) {
      char* const rows = scratch + room_ + sums_room_;
      const size_t first = part.in_at[0] / windows_->row_bytes();
      windows_->Fill(args.in[0], first, first + part.elements / columns_, rows);
      part.in[0] = rows;
    }
    void* out[] = {finishes_ ? static_cast<void*>(sums)
                             : static_cast<char*>(args.out[0]) + part.out_at * out_size_};
    QNNRT_RETURN_IF_ERROR(part.kernel->Run({part.in.data(), out, scratch, Threads(threads_)}));
    if (finishes_) Finish(args, sums, part.out_at, part.elements);
    return Status::Ok();
  }

  void Finish(const ExecArgs& args, float* sums, size_t at, size_t elements) const {
    for (size_t i = 0; i < elements; i += kFinished) {
      const size_t n = std::min(kFinished, elements - i);
      post_ops_.Apply(args, sums + i, at + i, n);
      out_.Store(sums + i, args.out[0], at + i, n);
    }
  }

  static constexpr size_t kFinished = 2048;  // that stay in the first cache

  const bool finishes_;  // what follows the product
  const std::vector<PostOp> ops_;
  const PostOps post_ops_;
  const StoredFloats out_;
  const size_t out_size_, columns_;
  std::optional<WindowRows> windows_;  // what the input is of parts of rows
  std::vector<Owner> owners_;
  int threads_ = 1;  // of a part's kernel
  size_t room_ = 0, sums_room_ = 0, rows_room_ = 0;
};

// Whether windows of BFLOAT_16 are copied, as the rows of a product: a copy of up to twice the
// input takes less than oneDNN does to read every second pixel of a line, at 0.6 of a product's
// speed, or channels that do not fill its tiles, which it multiplies without them (decision 28).
bool CopiesWindows(const Node& node, const ConvShape& c, const ConvGeometry& g) {
  constexpr int64_t kMostCopies = 2, kColumnsOfCopy = 64;  // that are worth one
  if (!HasTiles() || node.inputs[0]->dtype != QNN_DATATYPE_BFLOAT_16 ||
      !node.inputs[1]->is_static() || g.group != 1 || g.taps() == 1 ||
      g.dilation != ConvGeometry::Dims{1, 1, 1} ||
      g.out_pixels() < static_cast<int64_t>(kLeastPixels)) {
    return false;
  }
  // Of windows of several short lines, an image's first, the copy takes as long as the product.
  const bool long_lines = static_cast<size_t>(g.kernel[2] * g.cin) * sizeof(uint16_t) >= kLine;
  if (!long_lines && g.kernel[0] * g.kernel[1] != 1) return false;
  const int64_t steps = g.stride[0] * g.stride[1] * g.stride[2];
  return g.taps() <= kMostCopies * steps &&
         (c.off_tiles || g.taps() * kColumnsOfCopy <= steps * g.cout);
}

// Whether threads that have pixels of their own, with all channels, are faster than oneDNN's, which
// share the channels of most shapes: the other half of a pixel then comes from the other core's
// cache, at half of the speed of weights that both read (decision 33).
bool KeepsToPixels(const Node& node, const ConvShape& c, const ConvGeometry& g) {
  constexpr size_t kWeightsOverPixels = 4, kVector = 16;
  const Tensor &in = *node.inputs[0], &weights = *node.inputs[1], &out = *node.outputs[0];
  if (!weights.is_static() || (c.groups > 1 && c.groups == c.cin)) return false;
  const size_t depth = static_cast<size_t>(c.cin / c.groups * c.taps());
  if (CpuIsa() != Isa::kAvx512) {
    // Groups of fewer channels than a vector, whose outputs share cache lines, are of oneDNN's
    // older kernel, whose threads share the groups: both write to the same lines.
    const size_t pixel = static_cast<size_t>(c.cout / c.groups) * ElementSize(out.dtype);
    return c.groups > 1 && depth < kVector && pixel % kLine != 0 && g.IsOfPixels();
  }
  // oneDNN's kernel for one thread takes 1.2 times the time for such sums, but less where windows
  // of an image's few channels lie side by side.
  const bool side_by_side = c.groups == 1 && c.taps() > 1 && !g.has_strides();
  const bool few = in.dtype == QNN_DATATYPE_BFLOAT_16 && depth < kTileDepth && !side_by_side;
  if (few && !Finishes(node)) return false;
  return weights.bytes() <= kWeightsOverPixels * (in.bytes() + out.bytes());
}

// In as many parts as there are threads, or in fewer where those are too small to be made: then
// what follows a product is rounded by the same loops, however many threads there are.
template <typename Make>
Result<KernelPtr> InParts(const Node& node, int threads, const Make& make) {
  const bool finishes = Finishes(node);
  if (threads == 1 && !finishes) return KernelPtr();
  for (int parts = threads; parts > 0; parts /= 2) {
    QNNRT_ASSIGN_OR_RETURN(KernelPtr kernel, make(static_cast<size_t>(parts)));
    if (kernel || !finishes) return kernel;
  }
  return KernelPtr();
}

}  // namespace

Result<KernelPtr> MakeRowParts(const Node& node, const KernelOptions& options, int threads,
                               bool pixels, MakePart make) {
  constexpr size_t kWeightsOverRows = 2;
  const Tensor &in = *node.inputs[0], &weights = *node.inputs[1], &out = *node.outputs[0];
  if (CpuIsa() != Isa::kAvx512 || !weights.is_static() || in.shape.size() < 2 ||
      out.shape.size() < 2) {
    return KernelPtr();
  }
  const uint64_t depth = in.shape.back(), columns = out.shape.back();
  const size_t rows = out.elements() / columns;
  if (weights.elements() != depth * columns || in.elements() != rows * depth ||
      weights.bytes() > kWeightsOverRows * (in.bytes() + out.bytes())) {
    return KernelPtr();
  }
  if (pixels) {
    constexpr size_t kLeastRows = 64;  // of a thread
    const size_t parts = std::clamp<size_t>(rows / kLeastRows, 1, static_cast<size_t>(threads));
    const bool whole = PixelsOfPart(rows, columns) == rows;
    if (threads == 1 && whole && !Finishes(node)) return KernelPtr();
    return Parts::OfPixels(node, options, parts, true, make);
  }
  return InParts(node, threads, [&](size_t parts) -> Result<KernelPtr> {
    if (rows < parts * kLeastPixels) return KernelPtr();
    return Parts::OfPixels(node, options, parts, false, make);
  });
}

Result<KernelPtr> MakeParts(const Node& node, const KernelOptions& options, const ConvShape& c,
                            int threads, MakePart make) {
  constexpr int64_t kLeastRows = 3;
  if (c.transposed) return KernelPtr();
  QNNRT_ASSIGN_OR_RETURN(const ConvGeometry g, ReadConv(node));
  if (CopiesWindows(node, c, g)) {
    return Parts::OfWindows(node, options, g, static_cast<size_t>(threads), make);
  }
  if (!KeepsToPixels(node, c, g)) return KernelPtr();
  // Lines that threads cannot share evenly, of groups that they can: oneDNN's do, in 0.82 to 0.94
  // of the time.
  const bool groups = c.groups > 1 && c.groups % threads == 0 && g.out[1] % threads != 0;
  if (groups && !g.IsOfPixels() && !Finishes(node)) return KernelPtr();
  return InParts(node, threads, [&](size_t parts) -> Result<KernelPtr> {
    if (g.IsOfPixels()) {
      if (g.out_pixels() < static_cast<int64_t>(parts * kLeastPixels)) return KernelPtr();
      return Parts::OfPixels(node, options, parts, false, make);
    }
    if (c.spatial != 2 || node.inputs[0]->shape[0] != 1) return KernelPtr();
    if (g.out[1] < static_cast<int64_t>(parts) * kLeastRows) return KernelPtr();
    return Parts::OfRows(node, options, g, parts, make);
  });
}

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
