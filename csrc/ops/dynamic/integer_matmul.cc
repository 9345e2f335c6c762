// IntegerMatMul: ONNX's MatMulInteger of two 8-bit tensors, and what dynamic quantization has
// behind it:
//   sum = in0 - zero0 times in1 - zero1, exact
//   out = sum, or float(sum) x scale + bias
// A fixed-point input is one of the scale 1, of which the offset is minus its zero point; static
// weights (in1) are such, and may have an offset for each column.
#include <algorithm>
#include <cstring>

#include "ops/dynamic/dynamic.h"
#include "ops/isa.h"
#include "ops/matmul/matmul.h"
#include "ops/post_ops.h"
#include "ops/rules.h"
#include "ops/weights.h"

namespace qnnrt {
namespace {

constexpr size_t kGrain = 64 * 1024;  // products worth a thread
constexpr size_t kColumns = 4;        // of B that are multiplied with a row of A together

// Differences of bytes fit 16 bits, so that two products are one instruction's.
struct DotRun {
  static QNNRT_INLINE void Run(const int16_t* a, const int16_t* b, size_t k, int32_t* sums) {
    const int16_t *b0 = b, *b1 = b + k, *b2 = b + 2 * k, *b3 = b + 3 * k;
    int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (size_t i = 0; i < k; ++i) {
      s0 += a[i] * b0[i];
      s1 += a[i] * b1[i];
      s2 += a[i] * b2[i];
      s3 += a[i] * b3[i];
    }
    sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
  }
};

bool IsSigned(const Tensor& t) {
  return t.dtype == QNN_DATATYPE_INT_8 || t.dtype == QNN_DATATYPE_SFIXED_POINT_8;
}

// A matrix of bytes, of which the next of a row lies `step` bytes further, the next row `stride`.
struct Bytes {
  const uint8_t* data;
  size_t step, stride;
  bool is_signed;

  int32_t at(size_t row, size_t i) const {
    const uint8_t byte = data[row * stride + i * step];
    return is_signed ? static_cast<int8_t>(byte) : byte;
  }
};

int32_t KnownZero(const Tensor& t) { return IsFixed(t.dtype) ? -t.quantization.offsets[0] : 0; }

void Widen(const Bytes& from, size_t row, size_t k, int32_t zero, int16_t* to) {
  for (size_t i = 0; i < k; ++i) to[i] = static_cast<int16_t>(from.at(row, i) - zero);
}

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
        for (size_t n = 0; n < g.n; ++n) {
          const size_t which = q.axis < 0 ? 0 : n;
          Widen(kernel->MatrixB(b.data->data(), i), n, g.k, -q.offsets[which],
                static_cast<int16_t*>(to) + (i * kernel->columns_ + n) * g.k);
        }
        kernel->Pad(static_cast<int16_t*>(to) + i * kernel->columns_ * g.k);
      }
      return Status::Ok();
    };
    QNNRT_ASSIGN_OR_RETURN(kernel->packed_,
                           PackWeights(options, kernel->WidenedB(), "columns of INT_16", pack));
    return KernelPtr(std::move(kernel));
  }

  Status Run(const ExecArgs& args) override {
    int16_t* a = static_cast<int16_t*>(args.scratch);
    const int32_t zero0 = Zero(args, kZero0Port);
    args.threads.For(a_matrices_ * g_.m, kGrain / g_.k + 1, [&](size_t begin, size_t end) {
      for (size_t r = begin; r < end; ++r)
        Widen(MatrixA(args.in[0], r / g_.m), r % g_.m, g_.k, zero0, a + r * g_.k);
    });
    const int16_t* b = packed_ ? static_cast<const int16_t*>(packed_->data()) : WidenB(args);
    args.threads.For(g_.batches * g_.m, kGrain / (g_.n * g_.k) + 1, [&](size_t begin, size_t end) {
      for (size_t row = begin; row < end; ++row) {
        size_t ai, bi;
        g_.Locate(row / g_.m, &ai, &bi);
        Row(args, a + (ai * g_.m + row % g_.m) * g_.k, b + bi * columns_ * g_.k, row);
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
        post_ops_(node),
        signed0_(IsSigned(*node.inputs[0])),
        signed1_(IsSigned(*node.inputs[1])),
        has_bias_(node.HasInput(kBiasPort)),
        is_float_(node.outputs[0]->dtype == QNN_DATATYPE_FLOAT_32),
        scales_(node.HasInput(kScalePort) ? node.inputs[kScalePort]->elements() : 0),
        has_zero_{node.HasInput(kZero0Port), node.HasInput(kZero1Port)},
        zeros_{KnownZero(*node.inputs[0]), KnownZero(*node.inputs[1])} {
    columns_ = (g.n + kColumns - 1) / kColumns * kColumns;
    a_matrices_ = node.inputs[0]->elements() / (g.m * g.k);
    b_matrices_ = node.inputs[1]->elements() / (g.n * g.k);
  }

  size_t WidenedA() const { return ScratchRoom(a_matrices_ * g_.m * g_.k * sizeof(int16_t)); }
  size_t WidenedB() const { return ScratchRoom(b_matrices_ * columns_ * g_.k * sizeof(int16_t)); }
  Bytes MatrixA(const void* in, size_t i) const {
    const uint8_t* data = static_cast<const uint8_t*>(in) + i * g_.m * g_.k;
    return g_.transpose_a ? Bytes{data, g_.m, 1, signed0_} : Bytes{data, 1, g_.k, signed0_};
  }
  // Its columns as rows.
  Bytes MatrixB(const void* in, size_t i) const {
    const uint8_t* data = static_cast<const uint8_t*>(in) + i * g_.n * g_.k;
    return g_.transpose_b ? Bytes{data, 1, g_.k, signed1_} : Bytes{data, g_.n, 1, signed1_};
  }
  void Pad(int16_t* matrix) const {
    std::fill(matrix + g_.n * g_.k, matrix + columns_ * g_.k, int16_t{0});
  }
  int32_t Zero(const ExecArgs& args, size_t port) const {
    const size_t which = port - kZero0Port;
    return has_zero_[which] ? *static_cast<const int32_t*>(args.in[port]) : zeros_[which];
  }

  const int16_t* WidenB(const ExecArgs& args) const {
    int16_t* b = reinterpret_cast<int16_t*>(static_cast<char*>(args.scratch) + WidenedA());
    const int32_t zero = Zero(args, kZero1Port);
    for (size_t i = 0; i < b_matrices_; ++i) {
      int16_t* matrix = b + i * columns_ * g_.k;
      args.threads.For(g_.n, kGrain / g_.k + 1, [&](size_t begin, size_t end) {
        for (size_t n = begin; n < end; ++n)
          Widen(MatrixB(args.in[1], i), n, g_.k, zero, matrix + n * g_.k);
      });
      Pad(matrix);
    }
    return b;
  }

  void Row(const ExecArgs& args, const int16_t* a, const int16_t* b, size_t row) const {
    int32_t* sums = static_cast<int32_t*>(args.out[0]) + row * g_.n;
    for (size_t n = 0; n < g_.n; n += kColumns) {
      int32_t four[kColumns];
      dot_(a, b + n * g_.k, g_.k, four);
      std::copy_n(four, std::min(kColumns, g_.n - n), sums + n);
    }
    if (!is_float_) return;
    const float* scale = scales_ == 0 ? nullptr : static_cast<const float*>(args.in[kScalePort]);
    const float* bias = has_bias_ ? static_cast<const float*>(args.in[kBiasPort]) : nullptr;
    float* out = static_cast<float*>(args.out[0]) + row * g_.n;
    for (size_t n = 0; n < g_.n; ++n) {  // the same bytes become floats
      int32_t sum;
      std::memcpy(&sum, out + n, sizeof sum);
      float value = static_cast<float>(sum);
      if (scale != nullptr) value *= scale[scales_ == 1 ? 0 : n];
      out[n] = bias == nullptr ? value : value + bias[n];
    }
    post_ops_.Apply(args, out, row * g_.n, g_.n);
  }

  const MatMulGeometry g_;
  const PostOps post_ops_;
  const bool signed0_, signed1_, has_bias_, is_float_;
  const size_t scales_;
  const bool has_zero_[2];
  const int32_t zeros_[2];
  size_t columns_ = 0, a_matrices_ = 0, b_matrices_ = 0;
  SharedBytes packed_;
  decltype(PickIsa<DotRun>()) dot_ = PickIsa<DotRun>();
};

Status CheckCount(const Node& node, size_t port, const char* what, uint64_t most) {
  if (!node.HasInput(port)) return Status::Ok();
  const uint64_t count = node.inputs[port]->elements();
  if (count == 1 || count == most) return Status::Ok();
  return Invalid("%s has %llu elements; 1 or %llu are taken", what,
                 static_cast<unsigned long long>(count), static_cast<unsigned long long>(most));
}

Status Infer(const Node& node, std::vector<Shape>* outputs) {
  Shape shape;
  QNNRT_ASSIGN_OR_RETURN(const MatMulGeometry g, ReadMatMul(node, &shape));
  if (g.m == 0 || g.n == 0 || g.k == 0) return Invalid("an input without elements");
  QNNRT_RETURN_IF_ERROR(CheckCount(node, kZero0Port, "zero0", 1));
  QNNRT_RETURN_IF_ERROR(CheckCount(node, kZero1Port, "zero1", 1));
  QNNRT_RETURN_IF_ERROR(CheckCount(node, kScalePort, "scale", g.n));
  for (size_t i = 0; i < 2; ++i) {
    const Tensor& in = *node.inputs[i];
    const Quantization& q = in.quantization;
    const bool per_column = i == 1 && in.type == QNN_TENSOR_TYPE_STATIC && q.axis >= 0;
    if (IsFixed(in.dtype) && (q.in_blocks() || q.offsets.size() != (per_column ? g.n : 1) ||
                              node.HasInput(kZero0Port + i))) {
      return Invalid("input %zu has not one zero point", i);
    }
    if (i == 1 && in.type == QNN_TENSOR_TYPE_STATIC && !IsFixed(in.dtype))
      return Invalid("constants without an encoding");
  }
  for (size_t port = kBiasPort; port <= kScalePort; ++port) {
    if (node.HasInput(port) && IsFixed(node.inputs[port]->dtype))
      return Invalid("input %zu is no plain number", port);
  }
  if (node.HasOutput(0) && IsFixed(node.outputs[0]->dtype)) return Invalid("a fixed-point result");
  const bool real = node.HasInput(kBiasPort) || node.HasInput(kScalePort);
  if (real && node.HasOutput(0) && node.outputs[0]->dtype != QNN_DATATYPE_FLOAT_32)
    return Invalid("sums with a scale or a bias are floats");
  (*outputs)[0] = std::move(shape);
  return Status::Ok();
}

}  // namespace

OpDef IntegerMatMulOp() {
  constexpr TypeSet kBytes = types::kI8 | types::kU8;
  OpDef def;
  def.type = kIntegerMatMul;
  def.inputs = {{"in0", kBytes | types::kFixed8, PortSpec::kOne, -1, 2, 8},
                {"in1", kBytes | types::kFixed8, PortSpec::kOne, -1, 2, 8},
                {"bias", types::kF32, PortSpec::kOptional, -1, 1, 1},
                {"zero0", types::kI32, PortSpec::kOptional},
                {"zero1", types::kI32, PortSpec::kOptional},
                {"scale", types::kF32, PortSpec::kOptional}};
  def.outputs = {{"out", types::kI32 | types::kF32, PortSpec::kOne, -1, 2, 8}};
  def.params = {{"transpose_in0", ParamSpec::kBool, Default(false)},
                {"transpose_in1", ParamSpec::kBool, Default(false)}};
  def.infer = Infer;
  def.portable = IntegerMatMul::Make;
  def.fixed = IntegerMatMul::Make;
  def.flags = OpDef::kPostOps | OpDef::kInternal;
  return def;
}

}  // namespace qnnrt
