// Softmax and LogSoftmax along one axis.
#include <algorithm>
#include <cmath>
#include <limits>

#include "abi/qnn_op_names.h"
#include "ops/fixed/kernels.h"
#include "ops/isa.h"
#include "ops/rules.h"
#include "ops/vector_math.h"

namespace qnnrt {
namespace {

constexpr size_t kGrainElements = 8 << 10;
constexpr size_t kColumns = 128;  // columns that one strided pass takes together

// One row of n contiguous values.
template <bool log>
struct Row {
  static QNNRT_INLINE void Run(const float* x, float* o, size_t n, float beta) {
    float top = -std::numeric_limits<float>::infinity();
    QNNRT_SIMD_REDUCE(reduction(max : top))
    for (size_t i = 0; i < n; ++i) {
      const float v = beta * x[i];
      top = v > top ? v : top;
    }
    float sum = 0;
    QNNRT_SIMD_REDUCE(reduction(+ : sum))
    for (size_t i = 0; i < n; ++i) {
      const float v = beta * x[i] - top, e = vmath::ExpBelow(v);
      o[i] = log ? v : e;
      sum += e;
    }
    if (log) {
      const float shift = vmath::Log(sum);
      QNNRT_SIMD
      for (size_t k = 0; k < n; ++k) o[k] -= shift;
    } else {
      const float scale = 1.0f / sum;
      QNNRT_SIMD
      for (size_t k = 0; k < n; ++k) o[k] *= scale;
    }
  }
};

// `columns` neighbouring softmaxes over n values each, `stride` apart.
template <bool log>
struct Columns {
  static QNNRT_INLINE void Run(const float* x, float* o, size_t n, size_t stride, size_t columns,
                               float beta) {
    float top[kColumns], sum[kColumns];
    for (size_t k = 0; k < columns; ++k) {
      top[k] = -std::numeric_limits<float>::infinity();
      sum[k] = 0;
    }
    for (size_t i = 0; i < n; ++i) {
      const float* row = x + i * stride;
      for (size_t k = 0; k < columns; ++k) top[k] = beta * row[k] > top[k] ? beta * row[k] : top[k];
    }
    for (size_t i = 0; i < n; ++i) {
      const float* row = x + i * stride;
      float* to = o + i * stride;
      QNNRT_SIMD
      for (size_t k = 0; k < columns; ++k) {
        const float v = beta * row[k] - top[k], e = vmath::ExpBelow(v);
        to[k] = log ? v : e;
        sum[k] += e;
      }
    }
    for (size_t k = 0; k < columns; ++k) sum[k] = log ? vmath::Log(sum[k]) : 1.0f / sum[k];
    for (size_t i = 0; i < n; ++i) {
      float* to = o + i * stride;
      QNNRT_SIMD
      for (size_t k = 0; k < columns; ++k) to[k] = log ? to[k] - sum[k] : to[k] * sum[k];
    }
  }
};

class SoftmaxKernel final : public Kernel {
 public:
  SoftmaxKernel(const Shape& shape, size_t axis, float beta, bool log)
      : outer_(Product(shape, 0, axis)),
        n_(shape.empty() ? 1 : shape[axis]),
        inner_(Product(shape, std::min(axis + 1, shape.size()), shape.size())),
        beta_(beta),
        row_(log ? PickIsa<Row<true>>() : PickIsa<Row<false>>()),
        columns_(log ? PickIsa<Columns<true>>() : PickIsa<Columns<false>>()) {}

  Status Run(const ExecArgs& args) override {
    const float* in = static_cast<const float*>(args.in[0]);
    float* out = static_cast<float*>(args.out[0]);
    if (n_ == 0) return {};
    if (inner_ == 1) {
      args.threads.For(outer_, std::max<size_t>(1, kGrainElements / n_),
                       [&](size_t begin, size_t end) {
                         for (size_t r = begin; r < end; ++r) {
                           row_(in + r * n_, out + r * n_, n_, beta_);
                         }
                       });
      return {};
    }
    const size_t parts = (inner_ + kColumns - 1) / kColumns;
    args.threads.For(outer_ * parts, std::max<size_t>(1, kGrainElements / (n_ * kColumns)),
                     [&](size_t begin, size_t end) {
                       for (size_t u = begin; u < end; ++u) {
                         const size_t first = u % parts * kColumns;
                         const size_t at = u / parts * n_ * inner_ + first;
                         columns_(in + at, out + at, n_, inner_, std::min(kColumns, inner_ - first),
                                  beta_);
                       }
                     });
    return {};
  }

 private:
  const size_t outer_, n_, inner_;
  const float beta_;
  void (*const row_)(const float*, float*, size_t, float);
  void (*const columns_)(const float*, float*, size_t, size_t, size_t, float);
};

Result<KernelPtr> Make(const Node& node, bool log) {
  QNNRT_ASSIGN_OR_RETURN(const size_t axis, GetAxis(node, "axis", node.inputs[0]->shape.size()));
  return KernelPtr(
      std::make_unique<SoftmaxKernel>(node.inputs[0]->shape, axis, node.Float("beta"), log));
}
Result<KernelPtr> MakeSoftmax(const Node& node, const KernelOptions&) { return Make(node, false); }
Result<KernelPtr> MakeLogSoftmax(const Node& node, const KernelOptions&) {
  return Make(node, true);
}

}  // namespace

OpList SoftmaxOps() {
  PortSpec in{"in[0]", types::kFloat};
  in.min_rank = 1;
  const PortSpec out{"out[0]", types::kFloat, PortSpec::kOne, 0};
  const ParamSpec beta{"beta", ParamSpec::kFloat, Default(1.0), "the input is scaled by it"};
  OpList ops = {
      {QNN_OP_SOFTMAX,
       {in},
       {out},
       {{"axis", ParamSpec::kInt, Default(-1)}, beta},
       SameShapeAlongAxis,
       MakeSoftmax,
       OpDef::kInPlace | OpDef::kLpai,
       MakeFixedSoftmax},
      {QNN_OP_LOG_SOFTMAX,
       {in},
       {out},
       {{"axis", ParamSpec::kInt, Required(), ""}, beta},
       SameShapeAlongAxis,
       MakeLogSoftmax,
       OpDef::kInPlace | OpDef::kLpai,
       MakeFixedSoftmax},
  };
  for (OpDef& def : ops) def.sensitive_inputs = 1;
  return ops;
}

}  // namespace qnnrt
