// IntegerMatMul: ONNX's MatMulInteger of two 8-bit tensors, and what dynamic quantization has
// behind it:
//   sum = in0 - zero0 times in1 - zero1, exact
//   out = sum, or float(sum) x scale + bias
// A fixed-point input is one of the scale 1, of which the offset is minus its zero point; static
// weights (in1) are such, and may have an offset for each column.
#include "ops/matmul/matmul.h"

#include "ops/dynamic/dynamic.h"
#include "ops/dynamic/loops.h"
#include "ops/rules.h"
#include "ops/weights.h"

namespace qnnrt {
namespace {

constexpr size_t kMatMulGrain = 64 * 1024;  // products worth a thread

class IntegerMatMul final : public Kernel {
 public:
  static Result<KernelPtr> Make(const Node& node, const KernelOptions& options) {
    Shape shape;
    QNNRT_ASSIGN_OR_RETURN(const MatMulGeometry g, ReadMatMul(node, &shape));
    std::unique_ptr<IntegerMatMul> kernel(new IntegerMatMul(node, g));
    const Tensor& b = *node.inputs[1];
    if (!b.is_static()) return KernelPtr(std::move(kernel));
    const Quantization& q = b.quantization;
    const auto pack = [&](void* to) {
      for (size_t i = 0; i < kernel->b_matrices_; ++i) {
        const auto zero = [&](size_t n) { return -q.offsets[q.axis < 0 ? 0 : n]; };
        kernel->WidenColumns(b.data->data(), i, 0, g.n, zero, static_cast<int16_t*>(to));
      }
      return Status::Ok();
    };
    QNNRT_ASSIGN_OR_RETURN(kernel->packed_,
                           PackWeights(options, 1, kernel->WidenedB(), "columns of INT_16", pack));
    return KernelPtr(std::move(kernel));
  }

  Status Run(const ExecArgs& args) override {
    int16_t* a = static_cast<int16_t*>(args.scratch);
    const int32_t zero = in_[0].Zero(args);
    args.threads.For(a_matrices_ * g_.m, kMatMulGrain / g_.k + 1, [&](size_t begin, size_t end) {
      for (size_t r = begin; r < end; ++r) {
        const uint8_t* matrix = static_cast<const uint8_t*>(args.in[0]) + r / g_.m * g_.m * g_.k;
        const uint8_t* row = matrix + r % g_.m * (g_.transpose_a ? 1 : g_.k);
        in_[0].Widen(row, g_.k, g_.transpose_a ? g_.m : 1, zero, a + r * g_.k);
      }
    });
    const int16_t* b = packed_ ? static_cast<const int16_t*>(packed_->data()) : WidenB(args);
    args.threads.For(g_.batches * g_.m, kMatMulGrain / (g_.n * g_.k) + 1,
                     [&](size_t begin, size_t end) {
                       for (size_t row = begin; row < end; ++row) {
                         size_t ai, bi;
                         g_.Locate(row / g_.m, &ai, &bi);
                         dots_(a + (ai * g_.m + row % g_.m) * g_.k, b + bi * columns_ * g_.k, g_.k,
                               g_.n, static_cast<int32_t*>(args.out[0]) + row * g_.n);
                         finish_.Run(args, row * g_.n, g_.n);
                       }
                     });
    return Status::Ok();
  }

  size_t ScratchBytes() const override { return WidenedA() + (packed_ ? 0 : WidenedB()); }
  bool ReadsInput(size_t i) const override { return i != 1 || !packed_; }
  size_t WeightBytes() const override { return packed_ ? packed_->size() : 0; }

 private:
  IntegerMatMul(const Node& node, const MatMulGeometry& g)
      : g_(g),
        finish_(node),
        in_{{node, 0}, {node, 1}},
        columns_(RoundedColumns(g.n)),
        a_matrices_(node.inputs[0]->elements() / (g.m * g.k)),
        b_matrices_(node.inputs[1]->elements() / (g.n * g.k)) {}

  size_t WidenedA() const { return ScratchRoom(a_matrices_ * g_.m * g_.k * sizeof(int16_t)); }
  size_t WidenedB() const { return ScratchRoom(b_matrices_ * columns_ * g_.k * sizeof(int16_t)); }

  // Columns [begin, end) of matrix i of B, as rows. What is added behind the last one is zeros.
  template <typename Zero>
  void WidenColumns(const void* b, size_t i, size_t begin, size_t end, const Zero& zero,
                    int16_t* to) const {
    const uint8_t* matrix = static_cast<const uint8_t*>(b) + i * g_.n * g_.k;
    to += i * columns_ * g_.k;
    for (size_t n = begin; n < end; ++n) {
      const uint8_t* column = matrix + n * (g_.transpose_b ? g_.k : 1);
      in_[1].Widen(column, g_.k, g_.transpose_b ? 1 : g_.n, zero(n), to + n * g_.k);
    }
    if (end == g_.n) std::fill(to + g_.n * g_.k, to + columns_ * g_.k, int16_t{0});
  }

  const int16_t* WidenB(const ExecArgs& args) const {
    int16_t* b = reinterpret_cast<int16_t*>(static_cast<char*>(args.scratch) + WidenedA());
    const int32_t zero = in_[1].Zero(args);
    for (size_t i = 0; i < b_matrices_; ++i) {
      args.threads.For(g_.n, kMatMulGrain / g_.k + 1, [&](size_t begin, size_t end) {
        WidenColumns(
            args.in[1], i, begin, end, [zero](size_t) { return zero; }, b);
      });
    }
    return b;
  }

  const MatMulGeometry g_;
  const FinishSums finish_;
  const ByteInput in_[2];
  const size_t columns_, a_matrices_, b_matrices_;
  SharedBytes packed_;
  decltype(PickIsa<DotsRun>()) dots_ = PickIsa<DotsRun>();
};

Status CheckCount(const Node& node, size_t port, const char* what, uint64_t most) {
  if (!node.HasInput(port)) return Status::Ok();
  const uint64_t count = node.inputs[port]->elements();
  if (count == 1 || count == most) return Status::Ok();
  return Invalid("%s has %llu elements; 1 or %llu are taken", what,
                 static_cast<unsigned long long>(count), static_cast<unsigned long long>(most));
}

Status InferIntegerMatMul(const Node& node, std::vector<Shape>* outputs) {
  Shape shape;
  QNNRT_ASSIGN_OR_RETURN(const MatMulGeometry g, ReadMatMul(node, &shape));
  if (g.m == 0 || g.n == 0 || g.k == 0 || g.batches == 0)
    return Invalid("an input without elements");
  QNNRT_RETURN_IF_ERROR(CheckIntegerPorts(node, g.n));
  (*outputs)[0] = std::move(shape);
  return Status::Ok();
}

}  // namespace

std::vector<PortSpec> IntegerPorts(int min_rank, int max_rank) {
  constexpr TypeSet kCodes = types::kI8 | types::kU8 | types::kFixed8;
  return {{"in0", kCodes, PortSpec::kOne, -1, min_rank, max_rank},
          {"in1", kCodes, PortSpec::kOne, -1, min_rank, max_rank},
          {"bias", types::kF32, PortSpec::kOptional, -1, 1, 1},
          {"zero0", types::kI32, PortSpec::kOptional},
          {"zero1", types::kI32, PortSpec::kOptional},
          {"scale", types::kF32, PortSpec::kOptional}};
}

Status CheckIntegerPorts(const Node& node, size_t columns) {
  QNNRT_RETURN_IF_ERROR(CheckCount(node, kZero0Port, "zero0", 1));
  QNNRT_RETURN_IF_ERROR(CheckCount(node, kZero1Port, "zero1", 1));
  QNNRT_RETURN_IF_ERROR(CheckCount(node, kScalePort, "scale", columns));
  for (size_t i = 0; i < 2; ++i) {
    const Tensor& in = *node.inputs[i];
    const Quantization& q = in.quantization;
    const bool weights = i == 1 && in.type == QNN_TENSOR_TYPE_STATIC;
    const size_t zeros = weights && q.axis >= 0 ? columns : 1;
    if (IsFixed(in.dtype) &&
        (q.in_blocks() || q.offsets.size() != zeros || node.HasInput(kZero0Port + i))) {
      return Invalid("input %zu has not one zero point", i);
    }
    if (weights && !IsFixed(in.dtype)) return Invalid("constants without an encoding");
  }
  for (size_t port = kBiasPort; port <= kScalePort; ++port) {
    if (node.HasInput(port) && IsFixed(node.inputs[port]->dtype))
      return Invalid("input %zu is no plain number", port);
  }
  if (node.HasOutput(0) && IsFixed(node.outputs[0]->dtype)) return Invalid("a fixed-point result");
  const bool real = node.HasInput(kBiasPort) || node.HasInput(kScalePort);
  if (real && node.HasOutput(0) && node.outputs[0]->dtype != QNN_DATATYPE_FLOAT_32)
    return Invalid("sums with a scale or a bias are floats");
  return Status::Ok();
}

OpDef IntegerMatMulOp() {
  OpDef def;
  def.type = kIntegerMatMul;
  def.inputs = IntegerPorts(2, 8);
  def.outputs = {{"out", types::kI32 | types::kF32, PortSpec::kOne, -1, 2, 8}};
  def.params = {{"transpose_in0", ParamSpec::kBool, Default(false)},
                {"transpose_in1", ParamSpec::kBool, Default(false)}};
  def.infer = InferIntegerMatMul;
  def.portable = IntegerMatMul::Make;
  def.fixed = IntegerMatMul::Make;
  def.flags = OpDef::kPostOps | OpDef::kInternal;
  return def;
}

}  // namespace qnnrt
