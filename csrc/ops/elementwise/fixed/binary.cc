// Elementwise ops of two inputs on fixed-point numbers: blocks that stay in the first cache are
// decoded, computed in float and encoded. What compares or picks codes of one encoding sees the
// integers alone; what has one operand of 8 bits and one value is a table.
#include <algorithm>
#include <cstring>

#include "ops/broadcast.h"
#include "ops/elementwise/binary.h"
#include "ops/elementwise/fixed/fused.h"
#include "ops/fixed/affine.h"
#include "ops/fixed/codec.h"
#include "ops/fixed/kernels.h"
#include "ops/lookup.h"

namespace qnnrt {
namespace {

constexpr size_t kBlock = 1024;       // elements of a block, on the stack
constexpr size_t kGrain = 32 * 1024;  // elements worth a thread
constexpr size_t kShortRun = 256;     // elements; below, runs are gathered into blocks

// What all forms have in common.
struct Operands {
  Operands(BinaryOp op, const Node& node)
      : loops(FloatLoops(op)),
        plan(node.outputs[0]->shape, {&node.inputs[0]->shape, &node.inputs[1]->shape}),
        in{Codec(*node.inputs[0]), Codec(*node.inputs[1])},
        out(*node.outputs[0]),
        truth(node.outputs[0]->dtype == QNN_DATATYPE_BOOL_8) {}

  // a op b, stored as elements [at, at + n) of the output; `result` may be a or b.
  void Finish(BinaryLoop loop, const float* a, const float* b, float* result, void* to, size_t at,
              size_t n) const {
    if (truth) return loop(a, b, static_cast<uint8_t*>(to) + at, n);
    loop(a, b, result, n);
    out.Write(result, to, at, n);
  }

  const BinaryLoops loops;
  const BroadcastPlan<2> plan;
  const Codec in[2], out;
  const bool truth;  // a comparison
};

// Whatever broadcasts, run by run.
class Runs final : public Kernel {
 public:
  explicit Runs(Operands operands) : o_(std::move(operands)) {}

  Status Run(const ExecArgs& args) override {
    args.threads.For(o_.plan.total, kGrain, [&](size_t begin, size_t end) {
      o_.plan.ForRuns(begin, end, [&](const std::array<size_t, 2>& offset, size_t out, size_t n) {
        RunPiece(args, offset, out, n);
      });
    });
    return {};
  }

 private:
  // n results from the output's element `out` on; the inputs start at `offset`.
  void RunPiece(const ExecArgs& args, const std::array<size_t, 2>& offset, size_t out,
                size_t n) const {
    alignas(64) float values[2][kBlock];
    const size_t stride[2] = {o_.plan.inner_stride(0), o_.plan.inner_stride(1)};
    const BinaryLoop loop = n > 1 && stride[0] == 0   ? o_.loops.sv
                            : n > 1 && stride[1] == 0 ? o_.loops.vs
                                                      : o_.loops.vv;
    for (size_t k = 0; k < 2; ++k) {
      if (stride[k] == 0) o_.in[k].Read(args.in[k], offset[k], 1, values[k]);
    }
    float* result = stride[0] != 0 ? values[0] : values[1];
    for (size_t i = 0; i < n; i += kBlock) {
      const size_t count = std::min(kBlock, n - i);
      for (size_t k = 0; k < 2; ++k) {
        if (stride[k] != 0) o_.in[k].Read(args.in[k], offset[k] + i, count, values[k]);
      }
      o_.Finish(loop, values[0], values[1], result, args.out[0], out + i, count);
    }
  }

  const Operands o_;
};

// One input is a row that every row of the other one meets: it is decoded once, and repeated where
// it is short.
class Rows final : public Kernel {
 public:
  static bool Takes(const BroadcastPlan<2>& plan, size_t row_input) {
    const auto &row = plan.strides[row_input], &full = plan.strides[1 - row_input];
    return plan.rank == 2 && row[0] == 0 && row[1] == 1 && full[1] == 1 && full[0] == plan.inner();
  }
  Rows(Operands operands, size_t row_input, BinaryOp op, const Node& node)
      : o_(std::move(operands)),
        fused_(fixed::PickFusedRow(op, node, row_input, &encodings_)),
        size_(ElementSize(node.outputs[0]->dtype)),
        input_(row_input),
        row_(o_.plan.inner() * std::max<size_t>(1, kBlock / o_.plan.inner())) {}

  size_t ScratchBytes() const override { return row_ * sizeof(float); }

  Status Run(const ExecArgs& args) override {
    const size_t inner = o_.plan.inner();
    float* row = static_cast<float*>(args.scratch);
    o_.in[input_].Read(args.in[input_], 0, inner, row);
    for (size_t i = inner; i < row_; ++i) row[i] = row[i - inner];
    args.threads.For(o_.plan.total, kGrain, [&](size_t begin, size_t end) {
      for (size_t at = begin; at < end;) {
        const size_t phase = at % inner;
        const size_t n = std::min({end - at, row_ - phase, kBlock});
        RunPiece(args, row + phase, at, n);
        at += n;
      }
    });
    return {};
  }

 private:
  void RunPiece(const ExecArgs& args, const float* row, size_t at, size_t n) const {
    const void* codes = args.in[1 - input_];
    if (fused_ != nullptr) {
      return fused_(static_cast<const char*>(codes) + at * size_, row,
                    static_cast<char*>(args.out[0]) + at * size_, n, encodings_);
    }
    alignas(64) float full[kBlock];
    o_.in[1 - input_].Read(codes, at, n, full);
    const float *a = full, *b = row;
    if (input_ == 0) std::swap(a, b);
    o_.Finish(o_.loops.vv, a, b, full, args.out[0], at, n);
  }

  const Operands o_;
  fixed::Encodings encodings_;
  const fixed::FusedRow fused_;  // null: through blocks of floats
  const size_t size_;
  const size_t input_, row_;  // which one, and its elements in scratch
};

// Runs too short to be worth a call each: their codes are gathered first.
class Gathered final : public Kernel {
 public:
  Gathered(Operands operands, const Node& node) : o_(std::move(operands)) {
    for (size_t k = 0; k < 2; ++k) {
      size_[k] = ElementSize(node.inputs[k]->dtype);
      dense_[k] = node.inputs[k]->elements() == o_.plan.total;
    }
  }

  Status Run(const ExecArgs& args) override {
    args.threads.For(o_.plan.total, kGrain, [&](size_t begin, size_t end) {
      alignas(64) char codes[2][kBlock * 4];
      alignas(64) float values[2][kBlock];
      for (size_t at = begin; at < end; at += kBlock) {
        const size_t n = std::min(kBlock, end - at);
        Gather(args, at, n, codes);
        for (size_t k = 0; k < 2; ++k) {
          const void* from = dense_[k] ? args.in[k] : codes[k];
          o_.in[k].Read(from, dense_[k] ? at : 0, n, values[k]);
        }
        o_.Finish(o_.loops.vv, values[0], values[1], values[0], args.out[0], at, n);
      }
    });
    return {};
  }

 private:
  void Gather(const ExecArgs& args, size_t at, size_t n, char (*codes)[kBlock * 4]) const {
    o_.plan.ForRuns(at, at + n, [&](const std::array<size_t, 2>& offset, size_t out, size_t run) {
      for (size_t k = 0; k < 2; ++k) {
        if (dense_[k]) continue;
        const char* from = static_cast<const char*>(args.in[k]) + offset[k] * size_[k];
        char* to = codes[k] + (out - at) * size_[k];
        if (o_.plan.inner_stride(k) != 0) {
          std::memcpy(to, from, run * size_[k]);
        } else if (size_[k] == 1) {
          std::memset(to, *from, run);
        } else if (size_[k] == 2) {
          Fill<uint16_t>(from, to, run);
        } else {
          Fill<uint32_t>(from, to, run);
        }
      }
    });
  }

  template <typename T>
  static void Fill(const char* from, char* to, size_t n) {
    std::fill_n(reinterpret_cast<T*>(to), n, *reinterpret_cast<const T*>(from));
  }

  const Operands o_;
  size_t size_[2];
  bool dense_[2];
};

// 8 bits and one value: the 256 results are computed before they are looked up.
class OneValue final : public Kernel {
 public:
  OneValue(Operands operands, size_t value_input, size_t out_size)
      : o_(std::move(operands)), value_(value_input), out_size_(out_size) {}

  Status Run(const ExecArgs& args) override {
    uint8_t codes[256];
    for (size_t i = 0; i < 256; ++i) codes[i] = static_cast<uint8_t>(i);
    alignas(64) float values[256];
    float value;
    o_.in[value_].Read(args.in[value_], 0, 1, &value);
    o_.in[1 - value_].Read(codes, 0, 256, values);
    ByteTable table(out_size_);
    if (value_ == 0) {
      o_.Finish(o_.loops.sv, &value, values, values, table.entries(), 0, 256);
    } else {
      o_.Finish(o_.loops.vs, values, &value, values, table.entries(), 0, 256);
    }
    table.Run(args.threads, args.in[1 - value_], args.out[0], o_.plan.total);
    return {};
  }

 private:
  const Operands o_;
  const size_t value_, out_size_;
};

// Equal shapes and types, and simple arithmetic.
class Fused final : public Kernel {
 public:
  Fused(fixed::FusedLoop loop, const fixed::Encodings& encodings, const Node& node)
      : loop_(loop),
        encodings_(encodings),
        size_(ElementSize(node.outputs[0]->dtype)),
        count_(node.outputs[0]->elements()) {}

  Status Run(const ExecArgs& args) override {
    const char *a = static_cast<const char*>(args.in[0]), *b = static_cast<const char*>(args.in[1]);
    char* out = static_cast<char*>(args.out[0]);
    args.threads.For(count_, kGrain, [&](size_t begin, size_t end) {
      const size_t at = begin * size_;
      loop_(a + at, b + at, out + at, end - begin, encodings_);
    });
    return {};
  }

 private:
  const fixed::FusedLoop loop_;
  const fixed::Encodings encodings_;
  const size_t size_, count_;
};

// Whether codes are in the order, and as equal or not, as the numbers that they stand for.
bool IntegersWillDo(BinaryOp op, const Node& node) {
  const bool picks = op == BinaryOp::kMaximum || op == BinaryOp::kMinimum;
  if (!picks && !IsCompare(op)) return false;
  const Tensor &a = *node.inputs[0], &b = *node.inputs[1];
  if (!OneScale(a.quantization) || !SameEncoding(a, b)) return false;
  return IsCompare(op) || SameEncoding(a, *node.outputs[0]);
}

Result<KernelPtr> MakeOnCodes(BinaryOp op, const Node& node) {
  Node codes = node;
  Tensor tensors[3] = {*node.inputs[0], *node.inputs[1], *node.outputs[0]};
  for (Tensor& tensor : tensors) tensor.dtype = StorageType(tensor.dtype);
  codes.inputs = {&tensors[0], &tensors[1]};
  codes.outputs = {&tensors[2]};
  return MakeBinaryKernel(op, codes);
}

// x op value, or value op x, as a multiply-add; a factor of 0 for what is none.
fixed::Affine AffineOf(BinaryOp op, float value, bool value_first) {
  const double v = static_cast<double>(value);
  switch (op) {
    case BinaryOp::kAdd:
      return {1, v};
    case BinaryOp::kSubtract:
      return value_first ? fixed::Affine{-1, v} : fixed::Affine{1, -v};
    case BinaryOp::kMultiply:
      return {v, 0};
    case BinaryOp::kDivide:
      return {value_first ? 0 : 1 / v, 0};
    default:
      return {0, 0};
  }
}

// One input is a constant for each channel. (A row may also be of several dims.)
Result<KernelPtr> MakeAffineRows(BinaryOp op, const Node& node, size_t row_input) {
  const Tensor &row = *node.inputs[row_input], &x = *node.inputs[1 - row_input];
  const bool first = row_input == 0;
  if (!row.is_static() || !row.data->there() || ElementSize(x.dtype) != 1 ||
      row.elements() != node.outputs[0]->shape.back() || AffineOf(op, 1, first).factor == 0) {
    return KernelPtr();
  }
  const Operands o(op, node);
  std::vector<float> values(row.elements());
  o.in[row_input].Read(row.data->data(), 0, values.size(), values.data());
  uint8_t codes[256];
  for (size_t i = 0; i < 256; ++i) codes[i] = static_cast<uint8_t>(i);
  alignas(64) float decoded[256];
  o.in[1 - row_input].Read(codes, 0, 256, decoded);
  return fixed::MakeFixedAffine(
      node, 1 - row_input, [&](size_t c) { return AffineOf(op, values[c], first); },
      [&](size_t c, uint8_t* results) {
        alignas(64) float result[256];
        const BinaryLoop loop = first ? o.loops.sv : o.loops.vs;
        const float *a = first ? &values[c] : decoded, *b = first ? decoded : &values[c];
        o.Finish(loop, a, b, result, results, 0, 256);
      });
}

Result<KernelPtr> MakeOnReals(BinaryOp op, const Node& node) {
  const Tensor &a = *node.inputs[0], &b = *node.inputs[1], &out = *node.outputs[0];
  fixed::Encodings encodings;
  if (a.shape == b.shape) {
    if (const fixed::FusedLoop loop = fixed::PickFused(op, node, &encodings)) {
      return KernelPtr(std::make_unique<Fused>(loop, encodings, node));
    }
  }
  if (!node.post_ops.empty()) return KernelPtr();
  Operands operands(op, node);
  const BroadcastPlan<2> plan = operands.plan;
  const bool one_scale = OneScale(a.quantization) && OneScale(out.quantization) &&
                         (!IsFixed(b.dtype) || OneScale(b.quantization));
  for (size_t i = 0; i < 2; ++i) {
    const size_t size = ElementSize(node.inputs[1 - i]->dtype);
    if (one_scale && plan.rank == 1 && plan.total >= kBlock && plan.inner_stride(i) == 0 &&
        size == 1 && ElementSize(out.dtype) <= 2) {
      return KernelPtr(std::make_unique<OneValue>(std::move(operands), i, ElementSize(out.dtype)));
    }
    if (!Rows::Takes(plan, i)) continue;
    QNNRT_ASSIGN_OR_RETURN(KernelPtr affine, MakeAffineRows(op, node, i));
    if (affine) return affine;
    return KernelPtr(std::make_unique<Rows>(std::move(operands), i, op, node));
  }
  if (one_scale && plan.rank > 1 && plan.inner() < kShortRun) {
    return KernelPtr(std::make_unique<Gathered>(std::move(operands), node));
  }
  return KernelPtr(std::make_unique<Runs>(std::move(operands)));
}

}  // namespace

Result<KernelPtr> MakeFixedBinary(const Node& node, const KernelOptions&) {
  const BinaryOp op = BinaryOpOf(node);
  if (IsLogic(op) || FloatLoops(op).vv == nullptr) return KernelPtr();
  const Tensor& b = *node.inputs[1];
  const bool plain = b.dtype == QNN_DATATYPE_FLOAT_32 || b.dtype == QNN_DATATYPE_INT_32;
  if (!IsFixed(node.inputs[0]->dtype) || !(IsFixed(b.dtype) || plain)) return KernelPtr();
  if (!IsCompare(op) && !IsFixed(node.outputs[0]->dtype)) return KernelPtr();
  if (IntegersWillDo(op, node)) return MakeOnCodes(op, node);
  return MakeOnReals(op, node);
}

}  // namespace qnnrt
