#include "ops/onednn/fixed/word_conv.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "ops/onednn/fixed/word_gemm.h"
#include "ops/own_tiles.h"
#include "ops/tiles.h"
#include "ops/weights.h"

namespace qnnrt::onednn {
namespace {

constexpr int64_t kTilePlanes = 512 * 1024;   // bytes of a tile's pixels, which stay in L2
constexpr double kThreadsWork = 1e6;          // multiply-adds, below which threads are not woken
constexpr size_t kSplitOfThread = 32 * 1024;  // numbers to take apart worth a thread
constexpr int64_t kCacheLine = static_cast<int64_t>(kLine);
constexpr int64_t kSlack = 32;  // behind a line: what splitting it writes

int64_t UpTo(int64_t count, int64_t to) { return (count + to - 1) / to * to; }

// Part i of n of a range.
struct Span {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};
Span PartOf(int64_t size, int64_t i, int64_t n) { return {i * size / n, (i + 1) * size / n}; }

// A tile is some output pixels of one image. The lines of input under it are taken apart, each into
// a line of high bytes and one of low ones, with its padding; windows are read from there, a run of
// bytes at a time: a line of the window, or a pixel's channels where there are gaps or groups.
class WordConv final : public Kernel {
 public:
  WordConv(const Node& node, const Shape16& s, const KernelOptions& options, int32_t zero,
           Joining joining)
      : s_(s), joining_(std::move(joining)) {
    zero_high_ = static_cast<uint8_t>(zero >> 8);
    zero_low_ = static_cast<uint8_t>(zero);
    const Tensor& out = *node.outputs[0];
    const bool whole = s.group == 1 && s.dilation_w == 1;
    const int64_t run = (whole ? s.kernel_w : 1) * s.cin / s.group;
    g_.n = static_cast<size_t>(s.cout);
    g_.k = static_cast<size_t>(run);
    g_.flip = node.inputs[0]->dtype == QNN_DATATYPE_SFIXED_POINT_16 ? 0x8000 : 0;
    g_.to = joining_.to;
    g_.out_bytes = out.bytes() / out.elements();
    Cut(std::max(options.threads, 1));
    for (int64_t y = 0; y < s.kernel_h; ++y) {
      for (int64_t x = 0; x < (whole ? 1 : s.kernel_w); ++x) {
        const int64_t at = y * s.dilation_h * 2 * line_ + x * s.dilation_w * s.cin;
        for (int64_t i = 0; i < run; i += 4) steps_.push_back(static_cast<size_t>(at + i));
        ++runs_;
      }
    }
    FillJoins();
  }

  Status Pack(const Tensor& weights, const KernelOptions& options) {
    const size_t channels = GroupChannels(), bytes = GroupBytes();
    const auto fill = [&](void* packed) {
      for (size_t group = 0; group < Groups(); ++group) {
        PackWordWeights({weights.data_as<int8_t>() + group * channels, g_.n, 1}, runs_, g_.k,
                        channels, static_cast<int8_t*>(packed) + group * bytes);
      }
      return Status::Ok();
    };
    const std::string layout = "bytes of " + std::to_string(Groups()) + " groups of " +
                               std::to_string(runs_) + "x" + std::to_string(g_.k) + "x" +
                               std::to_string(channels) + " for vectors, by 4 rows and 32 columns";
    QNNRT_ASSIGN_OR_RETURN(packed_, PackWeights(options, 1, Groups() * bytes, layout, fill));
    return Status::Ok();
  }

  Status Run(const ExecArgs& args) override {
    const size_t tiles = static_cast<size_t>(s_.images * row_parts_ * column_parts_);
    // One slot that is not shared is a tile for which waking threads is not worth it.
    const Threads threads = slots_ > 1 || shared_ ? args.threads : Threads(1);
    ForTiles(threads, slots_, tiles, [&](size_t i, size_t slot, const Threads& of_tile) {
      RunTile(args, static_cast<int64_t>(i),
              static_cast<uint8_t*>(args.scratch) + slot * own_scratch_, of_tile);
    });
    return Status::Ok();
  }

  size_t ScratchBytes() const override { return slots_ * own_scratch_; }
  bool ReadsInput(size_t i) const override { return i == 0; }
  const char* Name() const override { return "vectors on bytes"; }
  size_t WeightBytes() const override {
    return packed_->size() + joining_.constants->size() +
           (constants_.size() + factors_.size()) * sizeof(double) + (joins_ ? joins_->bytes() : 0);
  }

 private:
  size_t Groups() const { return static_cast<size_t>(s_.group); }
  size_t GroupChannels() const { return g_.n / Groups(); }
  size_t GroupBytes() const { return PackedWordBytes(runs_, g_.k, GroupChannels()); }
  size_t GroupColumns() const {
    return static_cast<size_t>(UpTo(static_cast<int64_t>(GroupChannels()), kWordColumns));
  }
  int64_t InRows(int64_t rows) const {
    return (rows - 1) * s_.stride_h + (s_.kernel_h - 1) * s_.dilation_h + 1;
  }
  int64_t InColumns(int64_t columns) const {
    return (columns - 1) * s_.stride_w + (s_.kernel_w - 1) * s_.dilation_w + 1;
  }

  // Into tiles that fit, as many for each thread; or threads share the panels of each tile, since
  // they would all read all of the weights else, which are more than the pixels.
  void Cut(int64_t threads) {
    const double work = static_cast<double>(s_.images * s_.out_rows * s_.out_width * s_.cout) *
                        static_cast<double>(s_.depth());
    const int64_t weights = s_.cout * s_.depth(), pixels = 2 * s_.in_rows * s_.in_row();
    if (work >= kThreadsWork && threads > 1) {
      shared_ = weights > pixels &&
                s_.group * static_cast<int64_t>(GroupColumns() / kWordColumns) >= 2 * threads;
      slots_ = shared_ ? 1 : static_cast<size_t>(threads);
    }
    const auto bytes = [&](int64_t rows, int64_t columns) {
      return InRows(rows) * 2 * UpTo(InColumns(columns) * s_.cin + kSlack, kCacheLine);
    };
    const auto most = [](int64_t size, int64_t parts) { return (size + parts - 1) / parts; };
    const int64_t slots = static_cast<int64_t>(slots_);
    while (row_parts_ < s_.out_rows &&
           (s_.images * row_parts_ < slots ||
            bytes(most(s_.out_rows, row_parts_), s_.out_width) > kTilePlanes)) {
      ++row_parts_;
    }
    const int64_t even = UpTo(s_.images * row_parts_, slots) / s_.images;
    row_parts_ = std::clamp(even, row_parts_, s_.out_rows);
    const int64_t rows = most(s_.out_rows, row_parts_);
    while (column_parts_ < s_.out_width &&
           (s_.images * row_parts_ * column_parts_ < slots ||
            bytes(rows, most(s_.out_width, column_parts_)) > kTilePlanes)) {
      ++column_parts_;
    }
    const int64_t columns = most(s_.out_width, column_parts_);
    line_ = UpTo(InColumns(columns) * s_.cin + kSlack, kCacheLine);
    own_scratch_ = ScratchRoom(static_cast<size_t>(bytes(rows, columns)));
  }

  // Each group begins a panel.
  void FillJoins() {
    const double* from = static_cast<const double*>(joining_.constants->data());
    const size_t columns = GroupColumns(), channels = GroupChannels();
    constants_.assign(Groups() * columns, 0);
    factors_.assign(Groups() * columns, 0);
    for (size_t c = 0; c < g_.n; ++c) {
      const size_t column = c / channels * columns + c % channels;
      constants_[column] = from[c];
      factors_[column] = from[g_.n + c];
    }
    g_.constants = constants_.data();
    g_.factors = factors_.data();
    if (g_.out_bytes == 1) return;
    joins_.emplace(g_.constants, g_.factors, constants_.size(),
                   65535.0 * 128 * static_cast<double>(s_.depth()), [](size_t c) { return c; });
    g_.joins = &*joins_;
  }

  void RunTile(const ExecArgs& args, int64_t i, uint8_t* planes, const Threads& threads) const {
    const int64_t image = i / (row_parts_ * column_parts_);
    const Span rows = PartOf(s_.out_rows, i / column_parts_ % row_parts_, row_parts_);
    const Span columns = PartOf(s_.out_width, i % column_parts_, column_parts_);
    const uint16_t* const in =
        static_cast<const uint16_t*>(args.in[0]) + image * s_.in_rows * s_.in_row();
    const size_t lines = static_cast<size_t>(InRows(rows.size()));
    const size_t width = static_cast<size_t>(InColumns(columns.size()) * s_.cin);
    threads.For(lines, 1 + kSplitOfThread / width, [&](size_t begin, size_t end) {
      Stage(in, rows.begin * s_.stride_h - s_.top, columns, begin, end, planes);
    });
    char* const out = static_cast<char*>(args.out[0]) +
                      ((image * s_.out_rows + rows.begin) * s_.out_width + columns.begin) *
                          s_.cout * static_cast<int64_t>(g_.out_bytes);
    const size_t pixels = static_cast<size_t>(columns.size());
    const size_t panels = GroupColumns() / kWordColumns, bytes = GroupBytes() / panels;
    const size_t tiles = WordTilesOf(pixels),
                 ahead = WordAhead(tiles * static_cast<size_t>(rows.size()));
    threads.For(Groups() * panels, 1, [&](size_t begin, size_t end) {
      for (size_t p = begin; p < end; ++p) {
        const size_t group = p / panels, channel = p % panels * kWordColumns;
        const size_t count = std::min(kWordColumns, GroupChannels() - channel);
        const int8_t* weights = static_cast<const int8_t*>(packed_->data()) + p * bytes;
        WordPanel panel{weights, p * kWordColumns, count, p + 1 < end ? weights + bytes : weights,
                        ahead};
        WordRows a{planes + group * static_cast<size_t>(s_.cin / s_.group),
                   static_cast<size_t>(s_.stride_w * s_.cin), static_cast<size_t>(line_),
                   steps_.data(), steps_.size()};
        char* to = out + (group * GroupChannels() + channel) * g_.out_bytes;
        for (int64_t row = 0; row < rows.size(); ++row) {
          RunWordPanel(g_, a, panel, pixels, to);
          panel.ahead += tiles * steps_.size() * ahead;
          a.high += s_.stride_h * 2 * line_;
          to += s_.out_row() * static_cast<int64_t>(g_.out_bytes);
        }
      }
    });
  }

  // Lines under a tile, the first of which is at `top`, taken apart.
  void Stage(const uint16_t* in, int64_t top, Span columns, size_t first_line, size_t end_line,
             uint8_t* planes) const {
    const int64_t width = InColumns(columns.size()), first = columns.begin * s_.stride_w - s_.left;
    const int64_t begin = std::clamp<int64_t>(first, 0, s_.in_width);
    const int64_t end = std::clamp<int64_t>(first + width, begin, s_.in_width);
    const auto pad = [&](uint8_t* high, int64_t from, int64_t to) {
      const size_t count = static_cast<size_t>((to - from) * s_.cin);
      std::memset(high + from * s_.cin, zero_high_, count);
      std::memset(high + line_ + from * s_.cin, zero_low_, count);
    };
    planes += static_cast<int64_t>(first_line) * 2 * line_;
    for (size_t line = first_line; line < end_line; ++line, planes += 2 * line_) {
      const int64_t y = top + static_cast<int64_t>(line);
      if (y < 0 || y >= s_.in_rows || begin == end) {
        pad(planes, 0, width);
        continue;
      }
      // Before what lies to the right of it, over which it writes.
      SplitWordRow(in + y * s_.in_row() + begin * s_.cin, planes + (begin - first) * s_.cin,
                   static_cast<size_t>((end - begin) * s_.cin), static_cast<size_t>(line_),
                   g_.flip);
      pad(planes, 0, begin - first);
      pad(planes, end - first, width);
    }
  }

  const Shape16 s_;
  const Joining joining_;
  SharedBytes packed_;
  std::vector<double> constants_, factors_;
  std::optional<WordJoins> joins_;
  WordGemm g_{};
  std::vector<size_t> steps_;  // of a window, by runs
  size_t runs_ = 0;
  uint8_t zero_high_ = 0, zero_low_ = 0;
  int64_t row_parts_ = 1, column_parts_ = 1, line_ = 0;
  size_t slots_ = 1, own_scratch_ = 0;
  bool shared_ = false;
};

// A column of pixels is a line of them.
Shape16 Lying(Shape16 s) {
  if (s.in_width != 1 || s.kernel_w != 1 || s.out_width != 1) return s;
  std::swap(s.in_rows, s.in_width);
  std::swap(s.out_rows, s.out_width);
  std::swap(s.kernel_h, s.kernel_w);
  std::swap(s.stride_h, s.stride_w);
  std::swap(s.dilation_h, s.dilation_w);
  std::swap(s.top, s.left);
  return s;
}

}  // namespace

bool TakesWordConv(const Shape16& s) {
  // In groups of few channels most of a register is empty.
  const int64_t channels = s.cout / s.group, lanes = UpTo(channels, 16);
  return HasWordGemm() && !s.product && s.planes == 2 &&
         (s.group == 1 || 2 * lanes <= 3 * channels);
}

Result<KernelPtr> MakeWordConv(const Node& node, const KernelOptions& options, const Shape16& shape,
                               int32_t zero, Joining joining) {
  auto kernel = std::make_unique<WordConv>(node, Lying(shape), options, zero, std::move(joining));
  QNNRT_RETURN_IF_ERROR(kernel->Pack(*node.inputs[1], options));
  return KernelPtr(std::move(kernel));
}

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
