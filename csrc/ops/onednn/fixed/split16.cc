// Conv2d, FullyConnected and MatMul with activations of 16 bits on 8-bit matrix units. A number is
// taken apart into its two bytes, x = 256 * high + low; the planes of high and of low bytes run as
// two images of one 8-bit primitive, whose exact 32-bit sums are put together again in double
// precision and rounded once. Done in tiles of output rows, so that what lies between stays in the
// cache: of the one core that does all of it, where there is a tile for each. The same with one
// plane serves inputs of 8 bits and outputs of 16. docs/decisions/0011-sixteen-bit.md has the
// measurements against the float kernels.
#include "ops/onednn/fixed/split16.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/fixed/codec.h"
#include "ops/onednn/fixed/split16_loops.h"
#include "ops/onednn/fixed/split16_product.h"
#include "ops/onednn/fixed/split16_tile.h"
#include "ops/onednn/fixed/word_channels.h"
#include "ops/onednn/fixed/word_conv.h"
#include "ops/own_tiles.h"
#include "ops/rules.h"
#include "ops/weights.h"

namespace qnnrt::onednn {
namespace {

// Products in one sum from which on 8-bit passes and the work around them are faster than one pass
// in float, with one plane and with two; and for how many the sum of bytes times weights fits 32
// bits in any case.
constexpr int64_t kLeastBytes = 32, kLeastSplit = 64, kMostDepth = 65000;
// The same for two planes in vectors, whose sums do not go to memory: of pixels, and of windows and
// groups, which take longer in float.
constexpr int64_t kLeastWords = 12, kLeastWindow = 4;
constexpr double kLeastProduct = 2e5, kLeastConv = 1e6;  // multiply-adds
// 32-bit sums of a tile: they stay in the cache of one core. Fewer pixels would have the weights
// read too often.
constexpr int64_t kTileBytes = 512 * 1024, kTilePixels = 64;
// Pixels from which on a thread has a tile to itself. In smaller ones the threads share the output
// channels instead, and hand each other bytes and sums.
constexpr int64_t kOwnPixels = 24;
constexpr double kOwnWork = 4e6;   // multiply-adds, below which threads are not worth waking
constexpr size_t kBlockRows = 16;  // that are transposed together

class Split16 final : public Kernel {
 public:
  static Result<KernelPtr> Make(const Node& node, const KernelOptions& options, Shape16 shape);

  Status Run(const ExecArgs& args) override {
    const size_t tiles = static_cast<size_t>(s_.images) * TilesOfImage();
    if (inner_.size() == 1) {
      for (size_t i = 0; i < tiles; ++i) QNNRT_RETURN_IF_ERROR(RunTile(args, i, 0, args.threads));
      return Status::Ok();
    }
    return ForOwnTiles(args.threads, inner_.size(), tiles,
                       [&](size_t i, size_t own) { return RunTile(args, i, own, Threads(1)); });
  }

  size_t ScratchBytes() const override { return inner_.size() * own_scratch_; }
  bool ReadsInput(size_t i) const override { return i == 0; }
  const char* Name() const override { return name_.c_str(); }
  size_t WeightBytes() const override { return inner_[0]->WeightBytes() + constants_->size(); }

 private:
  Split16(const Shape16& shape) : s_(shape) {}
  size_t TilesOfImage() const { return static_cast<size_t>((s_.out_rows + s_.tile - 1) / s_.tile); }
  Status RunTile(const ExecArgs& args, size_t i, size_t own, const Threads& threads) const;
  void StageRows(const uint8_t* in, int64_t first, uint8_t* planes, const Threads& threads) const;
  void StageColumns(const uint8_t* in, int64_t first, uint8_t* planes,
                    const Threads& threads) const;
  // From this pixel of the tile on: the rows before belong to the tile before.
  void JoinTile(const int32_t* sums, size_t from, uint8_t* out, const Threads& threads) const;
  // With rests: `inputs` are what SumInputs wrote, of every pixel of the padded tile and group.
  void SumInputs(const uint8_t* planes, int64_t* inputs, const Threads& threads) const;
  int64_t SumWindow(const int64_t* inputs, size_t pixel, size_t group) const;
  void JoinTile(const int32_t* sums, const int64_t* inputs, size_t from, uint8_t* out,
                const Threads& threads) const;
  void PickLoops();
  template <typename T, bool split>
  void PickJoins() {
    join_ = PickIsa<JoinRun<T, split>>();
    join_rest_ = PickIsa<JoinRestRun<T, split>>();
  }
  const Shape16 s_;
  std::vector<KernelPtr> inner_;  // one; or one for each thread, of the same primitive
  std::string name_;
  uint16_t flip_ = 0;
  uint8_t zero_high_ = 0, zero_low_ = 0;  // of the number that stands for 0
  int64_t out_bytes_ = 2;                 // of a number
  Requantize to_{};
  // For each output channel: what belongs to the sum beside the products of the bytes, and the
  // scale of the sum in steps of the output.
  SharedBytes constants_;
  std::vector<double> rests_;  // by output channel; empty when there are none
  size_t sums_offset_ = 0, inputs_offset_ = 0, inner_offset_ = 0, own_scratch_ = 0;
  decltype(PickIsa<SplitRun>()) split_ = PickIsa<SplitRun>();
  decltype(PickIsa<SplitColumnsRun>()) split_columns_ = PickIsa<SplitColumnsRun>();
  decltype(PickIsa<CopyColumnsRun>()) copy_columns_ = PickIsa<CopyColumnsRun>();
  decltype(PickIsa<SumRun<uint8_t>>()) sum_ = nullptr;
  decltype(PickIsa<JoinRun<uint16_t, true>>()) join_ = nullptr;
  decltype(PickIsa<JoinRestRun<uint16_t, true>>()) join_rest_ = nullptr;
};

Status Split16::RunTile(const ExecArgs& args, size_t i, size_t own, const Threads& threads) const {
  const int64_t image = static_cast<int64_t>(i / TilesOfImage());
  const int64_t row = static_cast<int64_t>(i % TilesOfImage()) * s_.tile;
  // The last tile is as high as the others and computes some rows again.
  const int64_t first = std::min(row, s_.out_rows - s_.tile);
  const uint8_t* from =
      static_cast<const uint8_t*>(args.in[0]) + image * s_.in_rows * s_.in_row() * s_.planes;
  uint8_t* to = static_cast<uint8_t*>(args.out[0]) +
                (image * s_.out_rows + first) * s_.out_row() * out_bytes_;
  char* scratch = static_cast<char*>(args.scratch) + own * own_scratch_;
  uint8_t* staged = reinterpret_cast<uint8_t*>(scratch);
  int32_t* sums = reinterpret_cast<int32_t*>(scratch + sums_offset_);
  const uint8_t* planes = staged;
  if (s_.Direct()) {
    planes = from + first * s_.stride_h * s_.in_row();
  } else if (s_.columns) {
    StageColumns(from, first, staged, threads);
  } else {
    StageRows(from, first, staged, threads);
  }
  const void* inner_in[] = {planes, nullptr};
  void* inner_out[] = {sums};
  QNNRT_RETURN_IF_ERROR(inner_[own]->Run({inner_in, inner_out, scratch + inner_offset_, threads}));
  const size_t done = static_cast<size_t>((row - first) * s_.out_width);
  if (rests_.empty()) {
    JoinTile(sums, done, to, threads);
  } else {
    int64_t* inputs = reinterpret_cast<int64_t*>(scratch + inputs_offset_);
    SumInputs(planes, inputs, threads);
    JoinTile(sums, inputs, done, to, threads);
  }
  return Status::Ok();
}

void Split16::StageRows(const uint8_t* in, int64_t first, uint8_t* planes,
                        const Threads& threads) const {
  const int64_t rows = s_.TileIn(), row_bytes = s_.padded_row();
  const bool split = s_.planes == 2;
  const size_t grain = static_cast<size_t>(std::max<int64_t>(1, 32768 / row_bytes));
  threads.For(static_cast<size_t>(rows), grain, [&](size_t begin, size_t end) {
    for (size_t r = begin; r < end; ++r) {
      uint8_t* low = planes + ((split ? rows : 0) + static_cast<int64_t>(r)) * row_bytes;
      uint8_t* high = planes + static_cast<int64_t>(r) * row_bytes;
      const int64_t y = first * s_.stride_h - s_.top + static_cast<int64_t>(r);
      const bool inside = y >= 0 && y < s_.in_rows;
      if (!inside || s_.left != 0 || s_.padded_width > s_.in_width) {
        if (split) std::memset(high, zero_high_, static_cast<size_t>(row_bytes));
        std::memset(low, zero_low_, static_cast<size_t>(row_bytes));
      }
      if (!inside) continue;
      // A stride may leave pixels behind the last window that are not read: they are cut.
      const int64_t width = std::clamp<int64_t>(s_.padded_width - s_.left, 0, s_.in_width);
      const size_t count = static_cast<size_t>(width * s_.cin);
      const uint8_t* from = in + y * s_.in_row() * s_.planes;
      high += s_.left * s_.cin;
      low += s_.left * s_.cin;
      if (split) {
        split_(reinterpret_cast<const uint16_t*>(from), high, low, count, flip_);
      } else if (count > 0) {
        std::memcpy(low, from, count);
      }
    }
  });
}

void Split16::StageColumns(const uint8_t* in, int64_t first, uint8_t* planes,
                           const Threads& threads) const {
  const size_t channels = static_cast<size_t>(s_.cin), pixels = static_cast<size_t>(s_.in_rows);
  const size_t rows = static_cast<size_t>(s_.tile), skipped = static_cast<size_t>(first);
  const size_t blocks = (rows + kBlockRows - 1) / kBlockRows;
  threads.For(blocks, 32768 / (kBlockRows * channels) + 1, [&](size_t begin, size_t end) {
    for (size_t b = begin; b < end; ++b) {
      const size_t row = b * kBlockRows, last = std::min(rows, row + kBlockRows);
      uint8_t* high = planes + row * channels;
      if (s_.planes == 2) {
        split_columns_(reinterpret_cast<const uint16_t*>(in), high, high + rows * channels, pixels,
                       skipped + row, skipped + last, channels, flip_);
      } else {
        copy_columns_(in, high, pixels, skipped + row, skipped + last, channels);
      }
    }
  });
}

void Split16::JoinTile(const int32_t* sums, size_t from, uint8_t* out,
                       const Threads& threads) const {
  const size_t pixels = static_cast<size_t>(s_.tile * s_.out_width);
  const size_t channels = static_cast<size_t>(s_.cout), bytes = static_cast<size_t>(out_bytes_);
  const double* constants = static_cast<const double*>(constants_->data());
  const int32_t* low = s_.planes == 2 ? sums + pixels * channels : sums;
  threads.For(pixels - from, std::max<size_t>(1, 16384 / channels), [&](size_t begin, size_t end) {
    for (size_t p = (from + begin) * channels; p < (from + end) * channels; p += channels) {
      join_({sums + p, low + p}, constants, constants + channels, out + p * bytes, channels, to_);
    }
  });
}

void Split16::SumInputs(const uint8_t* planes, int64_t* inputs, const Threads& threads) const {
  const size_t channels = static_cast<size_t>(s_.cin / s_.group);
  const size_t sums = static_cast<size_t>(s_.TileIn() * s_.padded_width * s_.group);
  const uint8_t* low = planes + s_.TileIn() * s_.padded_row();
  threads.For(sums, std::max<size_t>(1, 65536 / channels), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      inputs[i] = sum_(planes + i * channels, channels);
      if (s_.planes == 2) inputs[i] = 256 * inputs[i] + sum_(low + i * channels, channels);
    }
  });
}

int64_t Split16::SumWindow(const int64_t* inputs, size_t pixel, size_t group) const {
  const int64_t y = static_cast<int64_t>(pixel) / s_.out_width * s_.stride_h;
  const int64_t x = static_cast<int64_t>(pixel) % s_.out_width * s_.stride_w;
  int64_t sum = 0;
  for (int64_t ky = 0; ky < s_.kernel_h; ++ky) {
    const int64_t row = (y + ky * s_.dilation_h) * s_.padded_width + x;
    for (int64_t kx = 0; kx < s_.kernel_w; ++kx) {
      sum += inputs[(row + kx * s_.dilation_w) * s_.group + static_cast<int64_t>(group)];
    }
  }
  return sum;
}

void Split16::JoinTile(const int32_t* sums, const int64_t* inputs, size_t from, uint8_t* out,
                       const Threads& threads) const {
  const size_t pixels = static_cast<size_t>(s_.tile * s_.out_width);
  const size_t groups = static_cast<size_t>(s_.group);
  const size_t channels = static_cast<size_t>(s_.cout);
  const size_t part = channels / groups;
  const double* constants = static_cast<const double*>(constants_->data());
  const int32_t* low = s_.planes == 2 ? sums + pixels * channels : sums;
  threads.For(pixels - from, std::max<size_t>(1, 16384 / channels), [&](size_t begin, size_t end) {
    for (size_t p = from + begin; p < from + end; ++p) {
      for (size_t g = 0; g < groups; ++g) {
        const size_t c = g * part, at = p * channels + c;
        join_rest_({sums + at, low + at}, constants + c, constants + channels + c,
                   rests_.data() + c, static_cast<double>(SumWindow(inputs, p, g)),
                   out + at * static_cast<size_t>(out_bytes_), part, to_);
      }
    }
  });
}

bool IsWide(const Tensor& tensor) {
  return (tensor.dtype == QNN_DATATYPE_UFIXED_POINT_16 ||
          tensor.dtype == QNN_DATATYPE_SFIXED_POINT_16) &&
         tensor.quantization.axis < 0 && tensor.quantization.scales.size() == 1;
}

// Of one scale, and 8 or 16 bits.
bool IsActivation(const Tensor& tensor) {
  return IsWide(tensor) || WholeEncoding8(tensor) != dnnl_data_type_undef;
}

// Of the numbers that the planes of bytes are of, which are unsigned where there are two.
int32_t PlainOffset(const Tensor& tensor) {
  const int32_t flip = tensor.dtype == QNN_DATATYPE_SFIXED_POINT_16 ? 32768 : 0;
  return tensor.quantization.offsets[0] - flip;
}

Result<Joining> JoiningOf(const Node& node, const KernelOptions& options, const Shape16& s,
                          const SignedWeights& as_signed) {
  const Tensor& weights = *node.inputs[1];
  const Tensor* bias = Bias(node);
  const Tensor& out = *node.outputs[0];
  const FixedRange range = OutputRange(node);
  const int32_t offset = out.quantization.offsets[0], in_offset = PlainOffset(*node.inputs[0]);
  Joining joining;
  joining.to = {static_cast<double>(range.low + offset), static_cast<double>(range.high + offset),
                offset};
  const size_t channels = static_cast<size_t>(s.cout);
  const double in_scale = node.inputs[0]->quantization.scales[0];
  const double out_scale = out.quantization.scales[0];
  const auto fill = [&](void* data) {
    double* constants = static_cast<double*>(data);
    std::vector<int64_t> sums(channels);
    const int8_t* w = weights.data_as<int8_t>();
    s.order.ForRuns(weights.elements(), [&](uint64_t channel, uint64_t begin, uint64_t end) {
      for (uint64_t i = begin; i < end; ++i) sums[channel] += w[i];
    });
    for (size_t c = 0; c < channels; ++c) {
      const double scale = in_scale * as_signed.scales[c];
      sums[c] += s.depth() * as_signed.rests[c];
      constants[c] = static_cast<double>(in_offset * sums[c]);
      constants[channels + c] = scale / out_scale;
      if (bias == nullptr) continue;
      const Quantization& q = bias->quantization;
      const double b =
          bias->data_as<int32_t>()[c] + static_cast<double>(q.offsets[q.axis < 0 ? 0 : c]);
      // A bias in steps of the sum, as it should be, is added as the integer that it is.
      const double steps = q.scales[q.axis < 0 ? 0 : c] / scale;
      constants[c] += std::abs(steps - 1) < 1e-4 ? b : b * steps;
    }
    return Status::Ok();
  };
  QNNRT_ASSIGN_OR_RETURN(joining.constants,
                         PackWeights(options, 2, 2 * channels * sizeof(double),
                                     "constants and factors of 16-bit sums", fill));
  return joining;
}

void Split16::PickLoops() {
  sum_ = s_.bytes == dnnl_u8 ? PickIsa<SumRun<uint8_t>>() : PickIsa<SumRun<int8_t>>();
  if (s_.planes == 2) {
    out_bytes_ == 2 ? PickJoins<uint16_t, true>() : PickJoins<uint8_t, true>();
  } else {
    out_bytes_ == 2 ? PickJoins<uint16_t, false>() : PickJoins<uint8_t, false>();
  }
}

// The weights as signed integers around 0.
Result<std::unique_ptr<Tensor>> Shifted(const Tensor& weights, const ChannelOrder& order,
                                        const SignedWeights& as_signed) {
  auto shifted = std::make_unique<Tensor>(weights);
  shifted->dtype = QNN_DATATYPE_SFIXED_POINT_8;
  // Where the store has what became of them, nobody reads them here.
  const bool absent = !weights.data->there();
  const bool plain = weights.dtype == shifted->dtype &&
                     std::all_of(as_signed.shifts.begin(), as_signed.shifts.end(),
                                 [](int32_t shift) { return shift == 0; });
  if (absent || plain) return shifted;
  shifted->data = AlignedBytes::Make(weights.bytes());
  if (!shifted->data) return OutOfMemory();
  WriteShifted(weights, order, as_signed.shifts, static_cast<int8_t*>(shifted->data->data()));
  return shifted;
}

Result<KernelPtr> Split16::Make(const Node& node, const KernelOptions& options, Shape16 s) {
  const Tensor& in = *node.inputs[0];
  const Tensor& weights = *node.inputs[1];
  const Tensor& out = *node.outputs[0];
  const Tensor* bias = Bias(node);
  // Clamps may follow where all is of 8 bits.
  const bool wide = IsWide(in) || IsWide(out);
  if (!IsActivation(in) || !IsActivation(out) || !weights.is_static() ||
      (wide && !node.post_ops.empty()) ||
      (bias != nullptr && (!bias->is_static() || bias->dtype != QNN_DATATYPE_SFIXED_POINT_32)) ||
      !HasIntegerProducts()) {
    return KernelPtr();
  }
  const std::optional<SignedWeights> as_signed = AsSigned(weights, s.order);
  if (!as_signed) return KernelPtr();
  const double work = static_cast<double>(out.elements()) * static_cast<double>(s.depth());
  s.planes = IsWide(in) ? 2 : 1;
  s.bytes = s.planes == 2 ? dnnl_u8 : WholeEncoding8(in);
  const int32_t zero = -PlainOffset(in);
  if (TakesWordChannels(node, s, *as_signed, -zero)) {
    Node shifted = node;
    QNNRT_ASSIGN_OR_RETURN(const std::unique_ptr<Tensor> signed_weights,
                           Shifted(weights, s.order, *as_signed));
    shifted.inputs[1] = signed_weights.get();
    QNNRT_ASSIGN_OR_RETURN(const Joining joining, JoiningOf(shifted, options, s, *as_signed));
    return MakeWordChannels(shifted, options, s, *as_signed, -zero, joining);
  }
  if (node.type != "Conv2d" && !s.product) return KernelPtr();
  const FixedRange zeros = s.planes == 2 ? FixedRange{0, 65535} : RangeOf(in.dtype, 0);
  const bool points = TakesWords(s) && !as_signed->has_rest();
  const bool words = points || (TakesWordConv(s) && !as_signed->has_rest());
  const int64_t least_depth = points          ? kLeastWords
                              : words         ? kLeastWindow
                              : s.planes == 2 ? kLeastSplit
                                              : kLeastBytes;
  const double least_work = s.product ? kLeastProduct : kLeastConv;
  if (s.depth() < least_depth || s.depth() > kMostDepth || work < least_work ||
      (s.padded && (zero < zeros.low || zero > zeros.high))) {
    return KernelPtr();
  }
  Node shifted = node;
  QNNRT_ASSIGN_OR_RETURN(const std::unique_ptr<Tensor> signed_weights,
                         Shifted(weights, s.order, *as_signed));
  shifted.inputs[1] = signed_weights.get();
  if (words) {
    QNNRT_ASSIGN_OR_RETURN(Joining joining, JoiningOf(shifted, options, s, *as_signed));
    return points ? MakeWordProduct(shifted, options, s, *signed_weights, std::move(joining))
                  : MakeWordConv(shifted, options, s, zero, std::move(joining));
  }

  const int64_t threads = std::max(options.threads, 1);
  // So that each of so many threads has as many tiles as the others.
  const auto cut = [&](int64_t sharing) {
    const int64_t pixels =
        std::max(threads / sharing * kTileBytes / (s.planes * 4 * s.cout), kTilePixels);
    const int64_t most = std::max<int64_t>(1, std::min(s.out_rows, pixels / s.out_width));
    const int64_t tiles = (s.out_rows + most - 1) / most * s.images;
    const int64_t even = (tiles + sharing - 1) / sharing * sharing;
    const int64_t of_image = std::min(s.out_rows, (even + s.images - 1) / s.images);
    s.tile = (s.out_rows + of_image - 1) / of_image;
  };
  cut(threads);
  const bool own = threads > 1 && work >= kOwnWork && s.tile * s.out_width >= kOwnPixels &&
                   s.images * ((s.out_rows + s.tile - 1) / s.tile) >= threads;
  if (!own) cut(1);
  KernelOptions inner = options;
  if (own) inner.threads = 1;

  std::unique_ptr<Split16> kernel(new Split16(s));
  QNNRT_ASSIGN_OR_RETURN(KernelPtr first, MakeTileKernel(shifted, inner, s));
  // What it reads at run time is not what was shifted.
  if (!first || first->ReadsInput(1)) return KernelPtr();
  kernel->name_ = std::string(first->Name()) + " on bytes";
  kernel->inner_.push_back(std::move(first));
  while (own && kernel->inner_.size() < static_cast<size_t>(threads)) {
    QNNRT_ASSIGN_OR_RETURN(KernelPtr beside, MakeBeside(*kernel->inner_[0]));
    kernel->inner_.push_back(std::move(beside));
  }
  kernel->flip_ = in.dtype == QNN_DATATYPE_SFIXED_POINT_16 ? 0x8000 : 0;
  kernel->zero_high_ = static_cast<uint8_t>(zero >> 8);
  kernel->zero_low_ = static_cast<uint8_t>(zero);
  kernel->out_bytes_ = IsWide(out) ? 2 : 1;
  kernel->PickLoops();
  QNNRT_ASSIGN_OR_RETURN(Joining joining, JoiningOf(shifted, options, s, *as_signed));
  kernel->constants_ = std::move(joining.constants);
  kernel->to_ = joining.to;
  const int64_t staged = s.Direct() ? 0 : s.planes * s.TileIn() * s.padded_row();
  kernel->sums_offset_ = ScratchRoom(static_cast<size_t>(staged));
  kernel->inputs_offset_ =
      kernel->sums_offset_ +
      ScratchRoom(static_cast<size_t>(s.planes * s.tile * s.out_row()) * sizeof(int32_t));
  kernel->inner_offset_ = kernel->inputs_offset_;
  if (as_signed->has_rest()) {
    kernel->rests_.assign(as_signed->rests.begin(), as_signed->rests.end());
    const int64_t inputs = s.TileIn() * s.padded_width * s.group;
    kernel->inner_offset_ += ScratchRoom(static_cast<size_t>(inputs) * sizeof(int64_t));
  }
  kernel->own_scratch_ = kernel->inner_offset_ + ScratchRoom(kernel->inner_[0]->ScratchBytes());
  return KernelPtr(std::move(kernel));
}

}  // namespace

Result<KernelPtr> MakeSplit16(const Node& node, const KernelOptions& options) {
  // oneDNN's matrix products of bytes want rows; here they are transposed on the way.
  const bool columns = node.type == "MatMul" && node.Bool("transpose_in0");
  if (!IsWide(*node.inputs[0]) && !IsWide(*node.outputs[0]) && !columns) return KernelPtr();
  if (Load() == nullptr) return KernelPtr();
  QNNRT_ASSIGN_OR_RETURN(const std::optional<Shape16> shape, ReadShape16(node));
  return shape ? Split16::Make(node, options, *shape) : KernelPtr();
}

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
