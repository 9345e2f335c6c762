// MatMul and FullyConnected.
#include "ops/matmul/matmul.h"

#include <algorithm>

#include "ops/constant_reader.h"
#include "ops/gemm.h"
#include "ops/matmul/attention.h"
#include "ops/matmul/nbits.h"
#include "ops/rules.h"
#include "ops/weights.h"
#include "support/checked.h"

namespace qnnrt {

Result<MatMulGeometry> ReadMatMul(const Node& node, Shape* output) {
  const Shape& a = node.inputs[0]->shape;
  const Shape& b = node.inputs[1]->shape;
  MatMulGeometry g;
  g.transpose_a = node.Bool("transpose_in0");
  g.transpose_b = node.Bool("transpose_in1");
  const uint32_t m = g.transpose_a ? a.end()[-1] : a.end()[-2];
  const uint32_t ka = g.transpose_a ? a.end()[-2] : a.end()[-1];
  const uint32_t kb = g.transpose_b ? b.end()[-1] : b.end()[-2];
  const uint32_t n = g.transpose_b ? b.end()[-2] : b.end()[-1];
  if (ka != kb) {
    return Invalid("the inner dimensions must agree: input 0 %s%s gives %u, input 1 %s%s gives %u",
                   ShapeText(a).c_str(), g.transpose_a ? " transposed" : "", ka,
                   ShapeText(b).c_str(), g.transpose_b ? " transposed" : "", kb);
  }
  QNNRT_RETURN_IF_ERROR(CheckShape(node, 2, "bias", {n}));
  g.m = m;
  g.n = n;
  g.k = ka;
  g.batch_rank = std::max(a.size(), b.size()) - 2;
  output->assign(g.batch_rank, 1);
  size_t a_matrices = 1, b_matrices = 1;
  for (size_t i = g.batch_rank; i-- > 0;) {
    const size_t from_end = g.batch_rank - i;  // 1 for the last batch dimension
    const uint32_t da = a.size() >= from_end + 2 ? a[a.size() - 2 - from_end] : 1;
    const uint32_t db = b.size() >= from_end + 2 ? b[b.size() - 2 - from_end] : 1;
    if (da != db && da != 1 && db != 1) {
      return Invalid("the batch dimensions of %s and %s do not broadcast", ShapeText(a).c_str(),
                     ShapeText(b).c_str());
    }
    const uint32_t dim = da == 1 ? db : da;
    (*output)[i] = dim;
    g.dims[i] = dim;
    g.a_strides[i] = da == 1 ? 0 : a_matrices;
    g.b_strides[i] = db == 1 ? 0 : b_matrices;
    a_matrices *= da;
    b_matrices *= db;
    g.batches *= dim;
  }
  // One B for all: the batches of A are just more rows.
  if (b_matrices == 1 && a_matrices == g.batches && !g.transpose_a) {
    g.m *= g.batches;
    g.batches = 1;
    g.batch_rank = 0;
  }
  output->push_back(m);
  output->push_back(n);
  return g;
}

namespace {

// FullyConnected is MatMul with a transposed weight, [outputs, inputs].
Result<MatMulGeometry> ReadFullyConnected(const Node& node, Shape* output) {
  const Shape& in = node.inputs[0]->shape;
  const Shape& weight = node.inputs[1]->shape;
  const uint64_t elements = node.inputs[0]->elements();
  const uint32_t outputs = weight[0], inputs = weight[1];
  const bool keep_dims = node.Bool("keep_dims");
  if (inputs == 0 || elements % inputs != 0 || (keep_dims && in.back() != inputs)) {
    return Invalid(keep_dims ? "with keep_dims the last dimension of input 0 %s must be the %u "
                               "inputs of the weight %s"
                             : "the elements of input 0 %s must be a multiple of the %u inputs of "
                               "the weight %s",
                   ShapeText(in).c_str(), inputs, ShapeText(weight).c_str());
  }
  QNNRT_RETURN_IF_ERROR(CheckShape(node, 2, "bias", {outputs}));
  MatMulGeometry g;
  g.m = elements / inputs;
  g.n = outputs;
  g.k = inputs;
  g.transpose_b = true;
  if (keep_dims) {
    *output = in;
    output->back() = outputs;
  } else {
    if (g.m > UINT32_MAX) return Invalid("%zu rows are too many", g.m);
    *output = {static_cast<uint32_t>(g.m), outputs};
    // The page: [m] for an input of rank 1, which is one row. [1, m] is taken as well, as it always
    // was.
    const bool flat = in.size() == 1 && g.m == 1;
    if (flat && !(node.HasOutput(0) && node.outputs[0]->shape.size() == 2)) {
      output->erase(output->begin());
    }
  }
  return g;
}

Result<MatMulGeometry> Read(const Node& node, Shape* output) {
  return node.type == "MatMul" ? ReadMatMul(node, output) : ReadFullyConnected(node, output);
}

class MatMul final : public Kernel, public ConstantReader {
 public:
  static Result<KernelPtr> Make(const Node& node, const MatMulGeometry& g,
                                const KernelOptions& options) {
    std::unique_ptr<MatMul> kernel(new MatMul(node, g, options.threads));
    const Tensor& b = *node.inputs[1];
    if (b.is_static()) {
      kernel->b_matrices_ = g.k * g.n == 0 ? 0 : b.elements() / (g.k * g.n);
      const size_t floats = kernel->packed_floats_;
      const auto pack = [&](void* to) {
        const MatrixView first = kernel->Constant(b);
        for (size_t i = 0; i < kernel->b_matrices_; ++i) {
          PackAll({first.data + i * g.k * g.n, first.row_stride, first.column_stride}, g.k, g.n,
                  static_cast<float*>(to) + i * floats, Threads(options.threads));
        }
        return Status::Ok();
      };
      QNNRT_ASSIGN_OR_RETURN(kernel->packed_,
                             PackWeights(options, 1, kernel->b_matrices_ * floats * sizeof(float),
                                         PanelLayout("MatMul", g.k, g.n), pack));
    }
    return KernelPtr(std::move(kernel));
  }

  Status Run(const ExecArgs& args) override {
    const BeforeReader before(next());
    // Many small products: each thread takes whole ones. Few large ones: all threads share each.
    if (g_.batches > 1 && slots_ > 1) {
      args.threads.For(slots_, 1, [&](size_t begin, size_t end) {
        for (size_t slot = begin; slot < end; ++slot) {
          for (size_t i = slot; i < g_.batches; i += slots_) One(args, i, slot, Threads(1));
        }
      });
    } else {
      for (size_t i = 0; i < g_.batches; ++i) One(args, i, 0, args.threads);
    }
    return Status::Ok();
  }

  void FirstReads(size_t share, size_t shares, NextReads* to) const override {
    if (g_.m != 1 || !packed_) return;
    const size_t panel = g_.k * Simd().columns * sizeof(float);
    AddPanels(packed_->data(), panel, PackedPanels(g_.n), share, shares, to);
  }

  size_t ScratchBytes() const override { return slots_ * slot_floats() * sizeof(float); }
  bool ReadsInput(size_t i) const override { return i != 1 || !packed_; }
  size_t WeightBytes() const override { return packed_ ? packed_->size() : 0; }

 private:
  MatMul(const Node& node, const MatMulGeometry& g, int threads)
      : g_(g), post_ops_(node), has_bias_(node.HasInput(2)) {
    const bool static_b = node.inputs[1]->is_static();
    // Packing B costs as much as a few rows of the product: for those, B is read where it lies.
    in_place_ = !static_b && !g.transpose_b && g.m <= 2 * Simd().rows;
    stream_ = in_place_ && g.m <= 4;
    packed_floats_ = stream_     ? 0
                     : in_place_ ? PackedFloats(g.k, g.n % Simd().columns)
                                 : PackedFloats(g.k, g.n);
    scratch_b_ = static_b ? 0 : packed_floats_;
    scratch_a_ = g.transpose_a ? (g.m * g.k + 15) / 16 * 16 : 0;
    const bool small =
        static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k) <
        64.0 * 1024 * 1024;
    slots_ =
        threads > 1 && small ? std::min<size_t>(g.batches, static_cast<size_t>(threads) * 4) : 1;
  }

  size_t slot_floats() const { return scratch_a_ + scratch_b_; }

  MatrixView View(const float* b) const {
    return g_.transpose_b ? MatrixView{b, 1, g_.k} : MatrixView{b, g_.n, 1};
  }

  // The first matrix of weights. They are packed from where they lie, without a copy before.
  MatrixView Constant(const Tensor& b) const {
    const std::optional<LyingElements> unread = b.data->Unread();
    if (!unread) return View(b.data_as<float>());
    const float* data = reinterpret_cast<const float*>(unread->data);
    if (unread->strides.empty()) return View(data);
    if (b_matrices_ != 1) return View(b.data_as<float>());
    const auto floats = [&](size_t from_end) {
      return static_cast<size_t>(unread->strides.end()[-1 - static_cast<ptrdiff_t>(from_end)]) /
             sizeof(float);
    };
    return g_.transpose_b ? MatrixView{data, floats(0), floats(1)}
                          : MatrixView{data, floats(1), floats(0)};
  }

  void One(const ExecArgs& args, size_t batch, size_t slot, const Threads& threads) const {
    size_t ai, bi;
    g_.Locate(batch, &ai, &bi);
    float* scratch = static_cast<float*>(args.scratch) + slot * slot_floats();
    const float* a = static_cast<const float*>(args.in[0]) + ai * g_.m * g_.k;
    float* out = static_cast<float*>(args.out[0]);
    if (g_.transpose_a) {
      Transpose(a, scratch, threads);
      a = scratch;
    }
    if (stream_) {
      StreamB(args, a, static_cast<const float*>(args.in[1]) + bi * g_.k * g_.n,
              out + batch * g_.m * g_.n, threads);
      return;
    }
    GemmShape shape;
    shape.m = g_.m;
    shape.n = g_.n;
    shape.depth = g_.k;
    shape.bias = has_bias_ ? static_cast<const float*>(args.in[2]) : nullptr;
    if (packed_) {
      shape.packed = static_cast<const float*>(packed_->data()) + bi * packed_floats_;
    } else {
      const float* b = static_cast<const float*>(args.in[1]) + bi * g_.k * g_.n;
      float* packed = scratch + scratch_a_;
      shape.packed = packed;
      if (in_place_) {
        shape.in_place = b;
        shape.in_place_stride = g_.n;
        const size_t full = g_.n / Simd().columns * Simd().columns;
        if (full < g_.n) PackPanels({b + full, g_.n, 1}, g_.k, g_.n - full, 0, 1, packed);
      } else {
        PackAll(View(b), g_.k, g_.n, packed, threads);
      }
    }
    const MatrixRows rows{a, g_.k, out + batch * g_.m * g_.n, g_.n};
    const FinishRows finish(post_ops_, args, out);
    shape.finish = finish.at_once();
    RunGemm(shape, threads, rows, finish);
  }

  // A row or two: B is read once, front to back, and added to the output row by row.
  void StreamB(const ExecArgs& args, const float* a, const float* b, float* c,
               const Threads& threads) const {
    constexpr size_t kRows = 8, kColumns = 1024;
    const float* bias = has_bias_ ? static_cast<const float*>(args.in[2]) : nullptr;
    const size_t blocks = (g_.n + kColumns - 1) / kColumns;
    const size_t grain = std::max<size_t>(1, 256 * 1024 / std::max<size_t>(1, g_.k * kColumns));
    threads.For(blocks, grain, [&](size_t begin, size_t end) {
      const size_t n0 = begin * kColumns, count = std::min(g_.n, end * kColumns) - n0;
      for (size_t m = 0; m < g_.m; ++m) {
        float* row = c + m * g_.n + n0;
        if (bias != nullptr) {
          std::copy_n(bias + n0, count, row);
        } else {
          std::fill_n(row, count, 0.0f);
        }
      }
      for (size_t k = 0; k < g_.k; k += kRows) {
        const size_t rows = std::min(kRows, g_.k - k);
        for (size_t m = 0; m < g_.m; ++m) {
          Simd().add_rows(c + m * g_.n + n0, b + k * g_.n + n0, g_.n, a + m * g_.k + k, rows,
                          count);
        }
      }
      const float* output = static_cast<const float*>(args.out[0]);
      for (size_t m = 0; m < g_.m; ++m) {
        float* row = c + m * g_.n + n0;
        post_ops_.Apply(args, row, static_cast<size_t>(row - output), count);
      }
    });
  }

  // A as [k, m] into [m, k].
  void Transpose(const float* a, float* out, const Threads& threads) const {
    constexpr size_t kBlock = 16;
    const size_t grain = std::max<size_t>(1, 16384 / std::max<size_t>(1, g_.k * kBlock));
    threads.For((g_.m + kBlock - 1) / kBlock, grain, [&](size_t begin, size_t end) {
      for (size_t block = begin; block < end; ++block) {
        const size_t m1 = std::min(g_.m, (block + 1) * kBlock);
        for (size_t k0 = 0; k0 < g_.k; k0 += kBlock) {
          const size_t k1 = std::min(g_.k, k0 + kBlock);
          for (size_t m = block * kBlock; m < m1; ++m) {
            for (size_t k = k0; k < k1; ++k) out[m * g_.k + k] = a[k * g_.m + m];
          }
        }
      }
    });
  }

  const MatMulGeometry g_;
  const PostOps post_ops_;
  const bool has_bias_;
  bool in_place_ = false, stream_ = false;
  size_t packed_floats_ = 0, b_matrices_ = 0;
  size_t scratch_a_ = 0, scratch_b_ = 0, slots_ = 1;
  SharedBytes packed_;
};

// Products of integers, which wrap as ONNX's do. T is unsigned: the bits are those of the signed
// type, and overflow is defined.
template <typename T>
class IntegerMatMul final : public Kernel {
 public:
  IntegerMatMul(const MatMulGeometry& g, bool has_bias) : g_(g), has_bias_(has_bias) {}

  Status Run(const ExecArgs& args) override {
    const T* bias = has_bias_ ? static_cast<const T*>(args.in[2]) : nullptr;
    const size_t work = std::max<size_t>(1, g_.n * g_.k);
    const size_t grain = std::max<size_t>(1, kGrain / work);
    args.threads.For(g_.batches * g_.m, grain, [&](size_t begin, size_t end) {
      for (size_t row = begin; row < end; ++row) {
        size_t ai, bi;
        g_.Locate(row / g_.m, &ai, &bi);
        const T* a = static_cast<const T*>(args.in[0]) + ai * g_.m * g_.k;
        const T* b = static_cast<const T*>(args.in[1]) + bi * g_.k * g_.n;
        Row(a, b, row % g_.m, bias, static_cast<T*>(args.out[0]) + row * g_.n);
      }
    });
    return Status::Ok();
  }

 private:
  static constexpr size_t kGrain = 64 * 1024;  // products worth a thread

  void Row(const T* a, const T* b, size_t m, const T* bias, T* out) const {
    const size_t a_step = g_.transpose_a ? g_.m : 1;
    a += g_.transpose_a ? m : m * g_.k;
    for (size_t n = 0; n < g_.n; ++n) out[n] = bias != nullptr ? bias[n] : T{0};
    if (g_.transpose_b) {
      for (size_t n = 0; n < g_.n; ++n) {
        for (size_t k = 0; k < g_.k; ++k) out[n] += a[k * a_step] * b[n * g_.k + k];
      }
      return;
    }
    for (size_t k = 0; k < g_.k; ++k) {
      const T factor = a[k * a_step];
      for (size_t n = 0; n < g_.n; ++n) out[n] += factor * b[k * g_.n + n];
    }
  }

  const MatMulGeometry g_;
  const bool has_bias_;
};

Status Infer(const Node& node, std::vector<Shape>* outputs) {
  Shape shape;
  QNNRT_ASSIGN_OR_RETURN(const MatMulGeometry g, Read(node, &shape));
  (void)g;
  (*outputs)[0] = std::move(shape);
  return Status::Ok();
}

Result<KernelPtr> MakeMatMul(const Node& node, const KernelOptions& options) {
  Shape shape;
  QNNRT_ASSIGN_OR_RETURN(const MatMulGeometry g, Read(node, &shape));
  const TypeSet type = TypeBit(node.inputs[0]->dtype);
  if ((type & (types::kI32 | types::kU32)) != 0)
    return KernelPtr(new IntegerMatMul<uint32_t>(g, node.HasInput(2)));
  if ((type & (types::kI64 | types::kU64)) != 0)
    return KernelPtr(new IntegerMatMul<uint64_t>(g, node.HasInput(2)));
  const auto narrow = [](const Tensor* t) {
    return t != nullptr && NarrowFloatOf(t->dtype) != nullptr;
  };
  if (narrow(node.outputs[0]) || std::any_of(node.inputs.begin(), node.inputs.end(), narrow)) {
    QNNRT_ASSIGN_OR_RETURN(KernelPtr kernel, MakeNarrowMatMul(node, g, options));
    return kernel ? std::move(kernel) : MakeViaFloat(*FindOp(node.type), node, options);
  }
  return MatMul::Make(node, g, options);
}

}  // namespace

OpList MatMulOps() {
  // QNN's has no integers that are none of fixed point; ONNX's has those of 32 and 64 bits.
  const TypeSet numbers = types::kFloat | types::kI32 | types::kI64 | types::kU32 | types::kU64;
  OpDef matmul;
  matmul.type = "MatMul";
  matmul.inputs = {{"in0", numbers, PortSpec::kOne, -1, 2, 8},
                   {"in1", numbers, PortSpec::kOne, 0, 2, 8},
                   {"bias", numbers, PortSpec::kOptional, 0, 1, 1}};
  matmul.outputs = {{"out", numbers, PortSpec::kOne, 0, 2, 8}};
  matmul.params = {{"transpose_in0", ParamSpec::kBool, Default(false)},
                   {"transpose_in1", ParamSpec::kBool, Default(false)}};
  matmul.infer = Infer;
  matmul.portable = MakeMatMul;
  matmul.fixed = MakeTiledMatMul;
  matmul.flags = OpDef::kPostOps | OpDef::kLpai | OpDef::kNativeHalf;  // it says what it converts
  matmul.weights_axis = -1;

  OpDef dense;
  dense.type = "FullyConnected";
  dense.inputs = {{"in", types::kFloat, PortSpec::kOne, -1, 1, 8},
                  {"weight", types::kFloat, PortSpec::kOne, 0, 2, 2},
                  {"bias", types::kFloat, PortSpec::kOptional, 0, 1, 1}};
  dense.outputs = {{"out", types::kFloat, PortSpec::kOne, 0, 1, 8}};
  dense.params = {
      {"keep_dims", ParamSpec::kBool, Default(false), "false: output is [rows, outputs]"}};
  dense.infer = Infer;
  dense.portable = MakeMatMul;
  dense.flags = OpDef::kPostOps | OpDef::kLpai | OpDef::kNativeHalf;
  dense.weights_axis = -2;

  OpList ops;
  ops.push_back(std::move(matmul));
  ops.push_back(std::move(dense));
  ops.push_back(AttentionOp());
  ops.push_back(MatMulNBitsOp());
  ops.push_back(JoinedNBitsOp());
  return ops;
}

}  // namespace qnnrt
