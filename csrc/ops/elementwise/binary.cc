// The kernel of elementwise ops with two inputs.
#include "ops/elementwise/binary.h"

#include <algorithm>
#include <cstring>

#include "ops/broadcast.h"
#include "ops/post_ops.h"
#include "ops/rules.h"
#include "ops/stream.h"

namespace qnnrt {
namespace {

constexpr size_t kBlock = 512;             // elements of a staging block, on the stack
constexpr size_t kPostBlock = 2048;        // results between computing them and their post ops
constexpr size_t kGrainBytes = 128 << 10;  // of output, the least that is worth a thread
constexpr size_t kTileElements = 1024;     // what a short repeated row is widened to

// block[0, count) = the value at `value`. Of a type that is known, which stores whole vectors.
template <typename T>
void RepeatAs(const char* value, char* block, size_t count) {
  T one;
  std::memcpy(&one, value, sizeof(T));
  T* to = reinterpret_cast<T*>(block);
  for (size_t i = 0; i < count; ++i) to[i] = one;
}

void Repeat(const char* value, size_t size, char* block, size_t count) {
  switch (size) {
    case 1:
      std::memset(block, *value, count);
      break;
    case 2:
      RepeatAs<uint16_t>(value, block, count);
      break;
    case 4:
      RepeatAs<uint32_t>(value, block, count);
      break;
    default:
      RepeatAs<uint64_t>(value, block, count);
  }
}

class BinaryKernel final : public Kernel {
 public:
  // `direct`: the loops are of the types that are stored.
  BinaryKernel(const Node& node, const BinaryLoops& loops, bool direct)
      : loops_(loops),
        plan_(node.outputs[0]->shape, {&node.inputs[0]->shape, &node.inputs[1]->shape}),
        post_(node),
        narrow_in_{NarrowFloatOf(node.inputs[0]->dtype), NarrowFloatOf(node.inputs[1]->dtype)},
        narrow_out_(NarrowFloatOf(node.outputs[0]->dtype)),
        in_size_{ElementSize(node.inputs[0]->dtype), ElementSize(node.inputs[1]->dtype)},
        out_size_(ElementSize(node.outputs[0]->dtype)) {
    narrow_ =
        !direct && (narrow_in_[0] != nullptr || narrow_in_[1] != nullptr || narrow_out_ != nullptr);
    plain_ = !narrow_ && post_.empty();
    if (plan_.rank == 1) {
      stride_[0] = plan_.inner_stride(0), stride_[1] = plan_.inner_stride(1);
      if (plan_.total == 1) stride_[0] = stride_[1] = 1;
    }
    PlanTile();
  }

  size_t ScratchBytes() const override { return tile_ * in_size_[tiled_]; }

  Status Run(const ExecArgs& args) override {
    const char* in[2] = {static_cast<const char*>(args.in[0]),
                         static_cast<const char*>(args.in[1])};
    char* out = static_cast<char*>(args.out[0]);
    if (tile_ != 0) {
      in[tiled_] = FillTile(args, in[tiled_]);
      ForPieces(args, [&](size_t begin, size_t end) { RunTiled(args, in, out, begin, end); });
    } else if (plan_.rank == 1) {
      if (plain_ && plan_.total * out_size_ < kGrainBytes && HasLoop()) {
        Loop()(in[0], in[1], out, plan_.total);
        return {};
      }
      ForPieces(args, [&](size_t begin, size_t end) {
        Piece(args, in[0] + begin * stride_[0] * in_size_[0], stride_[0],
              in[1] + begin * stride_[1] * in_size_[1], stride_[1], out, begin, end - begin);
      });
    } else {
      const size_t sa = plan_.inner_stride(0), sb = plan_.inner_stride(1);
      ForPieces(args, [&](size_t begin, size_t end) {
        plan_.ForRuns(begin, end, [&](const std::array<size_t, 2>& offset, size_t o, size_t n) {
          Piece(args, in[0] + offset[0] * in_size_[0], sa, in[1] + offset[1] * in_size_[1], sb, out,
                o, n);
        });
      });
    }
    return {};
  }

 private:
  // A short row against many rows ([.., 3] + [3]): the row is repeated into scratch, and the loops
  // run over that instead.
  void PlanTile() {
    if (plan_.rank != 2 || plan_.inner() >= 256) return;
    for (size_t i = 0; i < 2; ++i) {
      if (plan_.strides[i][0] != 0 || plan_.strides[i][1] != 1) continue;
      if (plan_.strides[1 - i][1] != 1 || plan_.strides[1 - i][0] != plan_.inner()) continue;
      tiled_ = i;
      const size_t rows =
          std::min(plan_.dims[0], std::max<size_t>(2, kTileElements / plan_.inner()));
      tile_ = rows * plan_.inner();
    }
  }

  const char* FillTile(const ExecArgs& args, const char* row) const {
    char* tile = static_cast<char*>(args.scratch);
    const size_t bytes = plan_.inner() * in_size_[tiled_], all = tile_ * in_size_[tiled_];
    std::memcpy(tile, row, bytes);
    for (size_t done = bytes; done < all; done *= 2) {
      std::memcpy(tile + done, tile, std::min(done, all - done));
    }
    return tile;
  }

  void RunTiled(const ExecArgs& args, const char* const* in, char* out, size_t begin,
                size_t end) const {
    for (size_t at = begin; at < end;) {
      const size_t phase = at % plan_.inner(), n = std::min(end - at, tile_ - phase);
      const char* full = in[1 - tiled_] + at * in_size_[1 - tiled_];
      const char* row = in[tiled_] + phase * in_size_[tiled_];
      Piece(args, tiled_ == 0 ? row : full, 1, tiled_ == 0 ? full : row, 1, out, at, n);
      at += n;
    }
  }

  template <typename F>
  void ForPieces(const ExecArgs& args, const F& f) const {
    args.threads.For(plan_.total, kGrainBytes / out_size_, f);
  }

  bool HasLoop() const { return Loop() != nullptr; }
  BinaryLoop Loop() const {
    return stride_[0] == 0 ? loops_.sv : stride_[1] == 0 ? loops_.vs : loops_.vv;
  }

  // n results from `a` and `b` (stride 0: one value) to elements [at, at + n) of the output
  void Piece(const ExecArgs& args, const char* a, size_t sa, const char* b, size_t sb, char* out,
             size_t at, size_t n) const {
    if (narrow_) return NarrowPiece(args, a, sa, b, sb, out, at, n);
    char* to = out + at * out_size_;
    const BinaryLoop loop = sa == 0 ? loops_.sv : sb == 0 ? loops_.vs : loops_.vv;
    if (loop == nullptr) return RepeatPiece(a, sa, b, sb, to, n);
    if (post_.empty()) return loop(a, b, to, n);
    for (size_t i = 0; i < n; i += kPostBlock) {
      const size_t count = std::min(kPostBlock, n - i);
      char* block = to + i * out_size_;
      loop(a + i * sa * in_size_[0], b + i * sb * in_size_[1], block, count);
      post_.Apply(args, reinterpret_cast<float*>(block), at + i, count);
    }
  }

  void RepeatPiece(const char* a, size_t sa, const char* b, size_t sb, char* to, size_t n) const {
    alignas(64) char block[kBlock * 8];
    const size_t size = in_size_[0];  // both have one type
    Repeat(sa == 0 ? a : b, size, block, std::min(n, kBlock));
    for (size_t i = 0; i < n; i += kBlock) {
      const size_t count = std::min(kBlock, n - i);
      loops_.vv(sa == 0 ? block : a + i * size, sb == 0 ? block : b + i * size, to + i * out_size_,
                count);
    }
  }

  // What has 16 bits goes by way of floats, in blocks that stay in the cache.
  void NarrowPiece(const ExecArgs& args, const char* a, size_t sa, const char* b, size_t sb,
                   char* out, size_t at, size_t n) const {
    alignas(64) float blocks[2][kBlock], result[kBlock];
    const char* const in[2] = {a, b};
    const size_t stride[2] = {sa, sb};
    const void* from[2] = {a, b};
    for (size_t k = 0; k < 2; ++k) {
      if (stride[k] == 0 && narrow_in_[k] != nullptr) {
        narrow_in_[k]->widen(reinterpret_cast<const uint16_t*>(in[k]), blocks[k], 1);
        from[k] = blocks[k];
      }
    }
    const BinaryLoop loop = sa == 0 ? loops_.sv : sb == 0 ? loops_.vs : loops_.vv;
    for (size_t i = 0; i < n; i += kBlock) {
      const size_t count = std::min(kBlock, n - i);
      for (size_t k = 0; k < 2; ++k) {
        if (stride[k] == 0) continue;
        from[k] = in[k] + i * in_size_[k];
        if (narrow_in_[k] == nullptr) continue;
        narrow_in_[k]->widen(static_cast<const uint16_t*>(from[k]), blocks[k], count);
        from[k] = blocks[k];
      }
      char* to = out + (at + i) * out_size_;
      const bool direct = narrow_out_ == nullptr && post_.empty();  // a comparison too
      loop(from[0], from[1], direct ? static_cast<void*>(to) : result, count);
      if (direct) continue;
      post_.Apply(args, result, at + i, count);
      if (narrow_out_ == nullptr) {
        std::memcpy(to, result, count * sizeof(float));
      } else {
        narrow_out_->narrow(result, reinterpret_cast<uint16_t*>(to), count);
      }
    }
  }

  const BinaryLoops loops_;
  const BroadcastPlan<2> plan_;
  const PostOps post_;
  const NarrowFloat *const narrow_in_[2], *const narrow_out_;  // null: not in 16 bits
  const size_t in_size_[2], out_size_;
  bool narrow_ = false;
  bool plain_ = true;
  size_t stride_[2] = {1, 1};    // when the plan has one loop
  size_t tiled_ = 0, tile_ = 0;  // which input is tiled, and to how many elements (0: none)
};

}  // namespace

Result<KernelPtr> MakeBinaryKernel(BinaryOp op, const Node& node) {
  const Qnn_DataType_t type = node.inputs[0]->dtype;
  const bool real = IsFloat(type);
  BinaryLoops loops = real ? FloatLoops(op) : OtherLoops(op, type);
  if (loops.vv == nullptr) {
    return Invalid("input 0 is %s, for which this operation is not defined", DataTypeName(type));
  }
  const Qnn_DataType_t to = node.outputs[0]->dtype;
  const bool float_result = real && IsFloat(to);
  if (!node.post_ops.empty() && !float_result) {
    return Invalid("post ops need a float result, output 0 is %s",
                   DataTypeName(node.outputs[0]->dtype));
  }
  constexpr Qnn_DataType_t kBrain = QNN_DATATYPE_BFLOAT_16;
  const Qnn_DataType_t second = node.inputs[1]->dtype;
  const bool wide = second == QNN_DATATYPE_FLOAT_32;
  if (type == kBrain && to == kBrain && (second == kBrain || wide) && node.post_ops.empty()) {
    const BinaryLoops brain = BrainLoopsOf(op, wide);
    if (brain.vv != nullptr) return KernelPtr(std::make_unique<BinaryKernel>(node, brain, true));
  }
  // Post ops read the results back, and rows that repeat find theirs in the cache.
  const bool plain = node.post_ops.empty() && node.inputs[0]->shape == node.inputs[1]->shape;
  if (type == QNN_DATATYPE_FLOAT_32 && to == type && plain &&
      node.outputs[0]->bytes() >= kStreamBytes) {
    if (BinaryLoop stream = FloatStreamLoop(op)) loops.vv = stream;
  }
  return KernelPtr(std::make_unique<BinaryKernel>(node, loops, false));
}

}  // namespace qnnrt
