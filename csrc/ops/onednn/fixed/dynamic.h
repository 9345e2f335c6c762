// What products of bytes share whose scales and zero points are computed with them (ops/dynamic).
#pragma once

#include "ops/onednn/kernel.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <vector>

#include "ops/dynamic/dynamic.h"
#include "ops/post_ops.h"

namespace qnnrt::onednn {

// Multiply-adds below which the portable kernel is done before oneDNN has started.
constexpr double kLeastDynamicWork = 20000;
// Sums of more products might not fit 32 bits: of differences of unsigned bytes, and signed ones.
constexpr int64_t kMostDynamicProducts = INT32_MAX / (255 * 255);

// oneDNN takes a right factor of signed bytes alone: computed unsigned ones are made so many less,
// and with them their zero point.
constexpr int32_t kSignedShift = 128;

dnnl_data_type_t ByteType(const Tensor& tensor);
// Of an output: sums as they are, or scaled.
inline dnnl_data_type_t SumType(const Tensor& out) {
  return out.dtype == QNN_DATATYPE_INT_32 ? dnnl_s32 : dnnl_f32;
}

// The zero point of an argument (DNNL_ARG_SRC, _WEIGHTS), known or computed.
Status AddZero(const Node& node, size_t port, int argument, IntegerProblem* integers);

// The scale, if there is one; `mask`: of the weights' dimension that runs over the columns.
void AddScale(const Node& node, int mask, IntegerProblem* integers);

// Sums of s32 over weights that are signed but for a rest in each column (encodings.h):
//   sum((q - zero) x w) = sum((q - zero) x w8) + rest x sum(q - zero)
// This adds the second, and does what the node has behind its sums.
class FinishRests {
 public:
  FinishRests(const Node& node, std::vector<int32_t> rests);
  // The row from element `at` of the output on; `sums` may lie there. `inputs`: sum(q - zero).
  void Run(const ExecArgs& args, const void* sums, size_t at, int32_t inputs) const;
  size_t columns() const { return rests_.size(); }

 private:
  const std::vector<int32_t> rests_;
  const PostOps post_ops_;
  const bool real_, biased_;
  const size_t scales_;
  void (*finish_)(const void*, const int32_t*, int32_t, const float*, const float*, size_t, void*);
};

// A kernel of integer sums whose weights left a rest, which is added to each row of its result.
class WithRests : public Kernel {
 public:
  size_t ScratchBytes() const override { return inner_->ScratchBytes(); }
  bool ReadsInput(size_t i) const override { return i != 1; }  // which is packed
  const char* Name() const override { return inner_->Name(); }
  size_t WeightBytes() const override { return inner_->WeightBytes(); }

 protected:
  WithRests(KernelPtr inner, const Node& node, std::vector<int32_t> rests)
      : inner_(std::move(inner)), finish_(node, std::move(rests)) {}

  template <typename Fn>
  void ForRows(const ExecArgs& args, size_t rows, const Fn& row) const {
    constexpr size_t kGrainBytes = 64 * 1024;  // worth a thread
    const size_t grain = kGrainBytes / (finish_.columns() * sizeof(float)) + 1;
    args.threads.For(rows, grain, [&](size_t begin, size_t end) {
      for (size_t r = begin; r < end; ++r) row(r);
    });
  }

  const KernelPtr inner_;
  const FinishRests finish_;
};

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
