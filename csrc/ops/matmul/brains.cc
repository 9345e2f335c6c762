// MatMul and FullyConnected of BFLOAT_16 with constant weights, which stay as they are.
#include <algorithm>

#include "ops/brain_gemm.h"
#include "ops/gemm.h"
#include "ops/matmul/matmul.h"
#include "ops/stored_floats.h"
#include "ops/weights.h"

namespace qnnrt {
namespace {

// One row is multiplied in FLOAT_32, on any processor; more by instructions for BFLOAT_16.
class BrainMatMul final : public Kernel {
 public:
  BrainMatMul(const Node& node, const MatMulGeometry& g)
      : g_(g),
        post_ops_(node),
        a_(*node.inputs[0]),
        out_(*node.outputs[0]),
        has_bias_(node.HasInput(2)),
        bias_(*node.inputs[has_bias_ ? 2 : 1]) {}

  Status Pack(const Node& node, const KernelOptions& options) {
    const auto pack = [&](void* to) {
      const uint16_t* b = node.inputs[1]->data_as<uint16_t>();
      const NarrowMatrix matrix =
          g_.transpose_b ? NarrowMatrix{b, 1, g_.k} : NarrowMatrix{b, g_.n, 1};
      PackBrains(matrix, g_.k, g_.n, static_cast<uint32_t*>(to));
      return Status::Ok();
    };
    QNNRT_ASSIGN_OR_RETURN(packed_,
                           PackWeights(options, 1, PackedBrainBytes(g_.k, g_.n),
                                       PanelLayout("MatMul of BFLOAT_16", g_.k, g_.n), pack));
    return {};
  }

  Status Run(const ExecArgs& args) override {
    if (g_.m == 1) {
      RunRow(args);
      return {};
    }
    const BrainGemm gemm = {g_.m, g_.n, g_.k, static_cast<const uint16_t*>(args.in[0]),
                            static_cast<const uint32_t*>(packed_->data())};
    RunBrainGemm(gemm, args.scratch, args.threads,
                 [&](const BrainBlock& block) { Store(args, block); });
    return {};
  }

  size_t ScratchBytes() const override {
    if (g_.m > 1) return BrainGemmScratch(g_.m, g_.k);
    return (a_.narrow() ? RowRoom(g_.k) : 0) + (widens_bias() ? RowRoom(g_.n) : 0) +
           (out_.narrow() ? RowRoom(g_.n) : 0);
  }
  bool ReadsInput(size_t i) const override { return i != 1; }
  size_t WeightBytes() const override { return packed_->size(); }

 private:
  bool widens_bias() const { return has_bias_ && bias_.narrow(); }
  static size_t RowRoom(size_t floats) { return ScratchRoom(floats * sizeof(float)); }

  void RunRow(const ExecArgs& args) const {
    char* scratch = static_cast<char*>(args.scratch);
    const auto take = [&](bool needed, size_t floats) {
      float* room = reinterpret_cast<float*>(scratch);
      scratch += needed ? RowRoom(floats) : 0;
      return room;
    };
    const float* a = a_.Read(args.in[0], 0, g_.k, take(a_.narrow(), g_.k));
    const float* bias = nullptr;
    float* room = take(widens_bias(), g_.n);
    if (has_bias_) bias = bias_.Read(args.in[2], 0, g_.n, room);
    float* out = out_.Place(args.out[0], 0, take(out_.narrow(), g_.n));
    MultiplyBrainRow(a, g_.k, g_.n, static_cast<const uint32_t*>(packed_->data()), bias, out,
                     args.threads);
    post_ops_.Apply(args, out, 0, g_.n);
    out_.Store(out, args.out[0], 0, g_.n);
  }

  void Store(const ExecArgs& args, const BrainBlock& block) const {
    float buffer[kMaxTileColumns];
    const float* bias =
        has_bias_ ? bias_.Read(args.in[2], block.n0, block.columns, buffer) : nullptr;
    for (size_t i = 0; i < block.rows; ++i) {
      float* row = block.c + i * block.ldc;
      if (bias != nullptr) Simd().add(row, bias, block.columns);
      const size_t at = (block.m0 + i) * g_.n + block.n0;
      if (!post_ops_.empty()) post_ops_.Apply(args, row, at, block.columns);
      if (out_.narrow()) {
        out_.Store(row, args.out[0], at, block.columns);
      } else {
        std::copy_n(row, block.columns, static_cast<float*>(args.out[0]) + at);
      }
    }
  }

  const MatMulGeometry g_;
  const PostOps post_ops_;
  const StoredFloats a_, out_;
  const bool has_bias_;
  const StoredFloats bias_;
  SharedBytes packed_;
};

}  // namespace

Result<KernelPtr> MakeBrainMatMul(const Node& node, const MatMulGeometry& g,
                                  const KernelOptions& options) {
  const auto brains = [](const Tensor& t) { return t.dtype == QNN_DATATYPE_BFLOAT_16; };
  const auto stored = [&](const Tensor& t) {
    return brains(t) || t.dtype == QNN_DATATYPE_FLOAT_32;
  };
  const Tensor &a = *node.inputs[0], &b = *node.inputs[1];
  if (!brains(b) || !b.is_static() || g.batches != 1 || g.transpose_a) return KernelPtr();
  if (!(g.m == 1 ? stored(a) : brains(a) && HasBrainGemm())) return KernelPtr();
  if (!stored(*node.outputs[0]) || (node.HasInput(2) && !stored(*node.inputs[2])))
    return KernelPtr();
  auto kernel = std::make_unique<BrainMatMul>(node, g);
  QNNRT_RETURN_IF_ERROR(kernel->Pack(node, options));
  return KernelPtr(std::move(kernel));
}

}  // namespace qnnrt
