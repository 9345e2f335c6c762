// MatMul of two activations in fixed point, where the floats that it goes through do not fit the
// caches: rows are decoded, multiplied and encoded in tiles, so that no more than the second matrix
// is ever whole in float. The scores of a long attention are such products.
#include <algorithm>

#include "ops/fixed/codec.h"
#include "ops/matmul/matmul.h"
#include "ops/own_tiles.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

// Of floats in and out, that would leave the cache: altogether, and of each of many small matrices.
constexpr size_t kLeastBytes = size_t{2} << 20, kLeastMatrix = 128 * 1024;
constexpr size_t kTileBytes = 512 * 1024;  // of a tile's
constexpr size_t kLeastRows = 16;
constexpr size_t kGrain = 16 * 1024;  // elements worth a thread

class TiledMatMul final : public Kernel {
 public:
  static Result<KernelPtr> Make(const Node& node, const MatMulGeometry& g,
                                const KernelOptions& options) {
    std::unique_ptr<TiledMatMul> kernel(new TiledMatMul(node, g));
    const size_t threads = static_cast<size_t>(std::max(options.threads, 1));
    const size_t most = std::max(kTileBytes / ((g.n + g.k) * sizeof(float)), kLeastRows);
    const size_t for_all = (threads + g.batches - 1) / g.batches;
    const size_t of_matrix = std::min(g.m, std::max((g.m + most - 1) / most, for_all));
    kernel->rows_ = (g.m + of_matrix - 1) / of_matrix;
    kernel->tiles_ = (g.m + kernel->rows_ - 1) / kernel->rows_;
    const size_t slots = std::min(threads, g.batches * kernel->tiles_);
    QNNRT_RETURN_IF_ERROR(kernel->MakeInner(node, slots, options));
    if (kernel->inner_.empty()) return KernelPtr();
    kernel->Layout(node.inputs[1]->elements());
    return KernelPtr(std::move(kernel));
  }

  Status Run(const ExecArgs& args) override {
    char* scratch = static_cast<char*>(args.scratch);
    float* b = reinterpret_cast<float*>(scratch);
    args.threads.For(b_elements_, kGrain,
                     [&](size_t begin, size_t end) { b_.Decode(args.in[1], b, begin, end); });
    return ForOwnTiles(args.threads, inner_.size(), g_.batches * tiles_,
                       [&](size_t i, size_t slot) { return RunTile(args, i, slot); });
  }

  size_t ScratchBytes() const override { return own_ + inner_.size() * own_bytes_; }
  const char* Name() const override { return inner_[0]->Name(); }

 private:
  TiledMatMul(const Node& node, const MatMulGeometry& g)
      : g_(g), a_(*node.inputs[0]), b_(*node.inputs[1]), out_(*node.outputs[0]) {}

  // The product of a tile in float, on one thread.
  Status MakeInner(const Node& node, size_t slots, const KernelOptions& options) {
    const auto matrix = [](size_t rows, size_t columns) {
      Tensor t;
      t.type = QNN_TENSOR_TYPE_NATIVE;
      t.dtype = QNN_DATATYPE_FLOAT_32;
      t.shape = {static_cast<uint32_t>(rows), static_cast<uint32_t>(columns)};
      return t;
    };
    const Tensor a = matrix(rows_, g_.k), out = matrix(rows_, g_.n);
    const Tensor b = g_.transpose_b ? matrix(g_.n, g_.k) : matrix(g_.k, g_.n);
    Node inner = node;
    inner.inputs = {&a, &b};
    inner.outputs = {&out};
    KernelOptions alone = options;
    alone.threads = 1;
    alone.weights = nullptr;
    for (size_t i = 0; i < slots; ++i) {
      QNNRT_ASSIGN_OR_RETURN(KernelPtr kernel, MakeOneDnnKernel(inner, alone));
      if (!kernel) {
        QNNRT_ASSIGN_OR_RETURN(kernel, FindOp(node.type)->portable(inner, alone));
      }
      if (!kernel || kernel->PersistentBytes() != 0) {
        inner_.clear();
        return {};
      }
      inner_.push_back(std::move(kernel));
    }
    return {};
  }

  void Layout(size_t b_elements) {
    b_elements_ = b_elements;
    own_ = ScratchRoom(b_elements * sizeof(float));
    out_offset_ = ScratchRoom(rows_ * g_.k * sizeof(float));
    inner_offset_ = out_offset_ + ScratchRoom(rows_ * g_.n * sizeof(float));
    own_bytes_ = inner_offset_ + ScratchRoom(inner_[0]->ScratchBytes());
  }

  Status RunTile(const ExecArgs& args, size_t i, size_t slot) const {
    const size_t batch = i / tiles_, row = i % tiles_ * rows_;
    // The last tile is as high as the others and computes some rows again.
    const size_t first = std::min(row, g_.m - rows_);
    size_t a_matrix, b_matrix;
    g_.Locate(batch, &a_matrix, &b_matrix);
    char* own = static_cast<char*>(args.scratch) + own_ + slot * own_bytes_;
    float* a = reinterpret_cast<float*>(own);
    float* out = reinterpret_cast<float*>(own + out_offset_);
    a_.Read(args.in[0], (a_matrix * g_.m + first) * g_.k, rows_ * g_.k, a);
    const void* ins[] = {a, static_cast<const float*>(args.scratch) + b_matrix * g_.k * g_.n};
    void* outs[] = {out};
    QNNRT_RETURN_IF_ERROR(inner_[slot]->Run({ins, outs, own + inner_offset_, Threads(1), nullptr}));
    out_.Write(out + (row - first) * g_.n, args.out[0], (batch * g_.m + row) * g_.n,
               (first + rows_ - row) * g_.n);
    return {};
  }

  const MatMulGeometry g_;
  const Codec a_, b_, out_;
  std::vector<KernelPtr> inner_;     // one for each thread
  size_t rows_ = 0, tiles_ = 0;      // of a tile; of a matrix
  size_t b_elements_ = 0, own_ = 0;  // where the threads' memory begins in the scratch memory
  size_t out_offset_ = 0, inner_offset_ = 0, own_bytes_ = 0;  // in a thread's
};

}  // namespace

Result<KernelPtr> MakeTiledMatMul(const Node& node, const KernelOptions& options) {
  const Tensor &a = *node.inputs[0], &b = *node.inputs[1], &out = *node.outputs[0];
  for (const Tensor* t : {&a, &b, &out}) {
    if (!IsFixed(t->dtype) || t->is_static() || !OneScale(t->quantization)) return KernelPtr();
  }
  if (node.HasInput(2) || !node.post_ops.empty() || out.elements() == 0) return KernelPtr();
  Shape shape;
  QNNRT_ASSIGN_OR_RETURN(const MatMulGeometry g, ReadMatMul(node, &shape));
  const size_t bytes = g.m * (g.n + g.k) * sizeof(float);
  if (g.transpose_a || g.k == 0 || bytes < kLeastMatrix || g.batches * bytes < kLeastBytes) {
    return KernelPtr();
  }
  return TiledMatMul::Make(node, g, options);
}

}  // namespace qnnrt
