#include "ops/onednn/fixed/split16_product.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "ops/onednn/fixed/word_gemm.h"
#include "ops/own_tiles.h"
#include "ops/weights.h"

namespace qnnrt::onednn {
namespace {

constexpr size_t kBlockOfPlanes =
    768 * 1024;  // taken apart; they stay in L2 while the weights pass
// Rows from which on a thread has a block to itself; in fewer, threads share the columns.
constexpr size_t kRowsOfThread = 24;
constexpr double kWorthThreads = 4e6;  // multiply-adds, below which threads are not worth waking
constexpr int64_t kLeastRows = 16;     // fewer read the weights too often for what they compute
// Weights that stay in L1 while rows pass, which stay there too.
constexpr size_t kFewWeights = 16 * 1024, kBlockOfFew = 24 * 1024;

int64_t RowsOf(const Shape16& s) { return s.images * s.out_rows * s.out_width; }

class WordProduct final : public Kernel {
 public:
  WordProduct(const Node& node, const Shape16& s, const KernelOptions& options, Joining joining)
      : joining_(std::move(joining)), rows_(static_cast<size_t>(RowsOf(s))) {
    const Tensor& out = *node.outputs[0];
    const double* constants = static_cast<const double*>(joining_.constants->data());
    g_.n = static_cast<size_t>(s.cout);
    g_.k = static_cast<size_t>(s.cin);
    g_.flip = node.inputs[0]->dtype == QNN_DATATYPE_SFIXED_POINT_16 ? 0x8000 : 0;
    g_.constants = constants;
    g_.factors = constants + g_.n;
    g_.to = joining_.to;
    g_.out_bytes = out.bytes() / out.elements();
    const size_t threads = static_cast<size_t>(std::max(options.threads, 1));
    const double work = static_cast<double>(rows_) * static_cast<double>(g_.n * g_.k);
    const size_t block =
        PackedWordBytes(1, g_.k, g_.n) <= kFewWeights ? kBlockOfFew : kBlockOfPlanes;
    const size_t most = std::max(block / WordGemmScratch(1, g_.k), kRowsOfThread);
    blocks_ = (rows_ + most - 1) / most;
    if (rows_ >= threads * kRowsOfThread && work >= kWorthThreads) {
      blocks_ = (blocks_ + threads - 1) / threads * threads;
      slots_ = threads;
    }
    own_scratch_ = ScratchRoom(WordGemmScratch((rows_ + blocks_ - 1) / blocks_, g_.k));
    if (g_.out_bytes == 2) {
      joins_.emplace(constants, constants + g_.n, g_.n, 65535.0 * 128 * static_cast<double>(g_.k),
                     [](size_t c) { return c; });
    }
  }

  Status Pack(const Shape16& s, const Tensor& weights, const KernelOptions& options) {
    // Strides of a convolution's weights begin with the output channel.
    const int64_t row = s.product ? s.weight_strides[0] : s.weight_strides[1];
    const int64_t column = s.product ? s.weight_strides[1] : s.weight_strides[0];
    const auto fill = [&](void* packed) {
      PackWordWeights(
          {weights.data_as<int8_t>(), static_cast<size_t>(row), static_cast<size_t>(column)}, 1,
          g_.k, g_.n, static_cast<int8_t*>(packed));
      return Status::Ok();
    };
    const std::string layout = "bytes of " + std::to_string(g_.k) + "x" + std::to_string(g_.n) +
                               " for vectors, by 4 rows and 32 columns";
    QNNRT_ASSIGN_OR_RETURN(packed_,
                           PackWeights(options, 1, PackedWordBytes(1, g_.k, g_.n), layout, fill));
    g_.packed = static_cast<const int8_t*>(packed_->data());
    return Status::Ok();
  }

  Status Run(const ExecArgs& args) override {
    WordGemm g = g_;
    g.a = static_cast<const uint16_t*>(args.in[0]);
    g.out = args.out[0];
    g.joins = joins_ ? &*joins_ : nullptr;
    ForTiles(args.threads, slots_, blocks_, [&](size_t i, size_t slot, const Threads& threads) {
      const size_t first = i * rows_ / blocks_, end = (i + 1) * rows_ / blocks_;
      RunWordGemm(g, first, end - first, static_cast<char*>(args.scratch) + slot * own_scratch_,
                  threads);
    });
    return Status::Ok();
  }

  size_t ScratchBytes() const override { return slots_ * own_scratch_; }
  bool ReadsInput(size_t i) const override { return i == 0; }
  const char* Name() const override { return "vectors on bytes"; }
  size_t WeightBytes() const override {
    return packed_->size() + joining_.constants->size() + (joins_ ? joins_->bytes() : 0);
  }

 private:
  const Joining joining_;
  SharedBytes packed_;
  std::optional<WordJoins> joins_;
  WordGemm g_{};
  const size_t rows_;
  size_t blocks_ = 1, slots_ = 1, own_scratch_ = 0;
};

}  // namespace

bool TakesWords(const Shape16& s) {
  const bool points = s.product ? !s.columns
                                : s.group == 1 && s.kernel_h == 1 && s.kernel_w == 1 &&
                                      s.stride_h == 1 && s.stride_w == 1 && !s.padded;
  return HasWordGemm() && points && s.planes == 2 && RowsOf(s) >= kLeastRows;
}

Result<KernelPtr> MakeWordProduct(const Node& node, const KernelOptions& options, const Shape16& s,
                                  const Tensor& weights, Joining joining) {
  auto kernel = std::make_unique<WordProduct>(node, s, options, std::move(joining));
  QNNRT_RETURN_IF_ERROR(kernel->Pack(s, weights, options));
  return KernelPtr(std::move(kernel));
}

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
