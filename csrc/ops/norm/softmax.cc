// Softmax and LogSoftmax along one axis.
#include <algorithm>
#include <cmath>
#include <limits>

#include "abi/qnn_op_names.h"
#include "ops/fixed/kernels.h"
#include "ops/isa.h"
#include "ops/rules.h"
#include "ops/stored_floats.h"
#include "ops/vector_math.h"

namespace qnnrt {
namespace {

constexpr size_t kGrainElements = 8 << 10;
constexpr size_t kColumns = 128;  // columns that one strided pass takes together
// Floats of 16 bits that are converted together, on the stack; the columns of a pass are then
// fewer, but not so few that each conversion is short.
constexpr size_t kConverted = 4096, kLeastColumns = 16;

// One row of n contiguous values. Those behind the last whole vector are computed as one more, in a
// buffer, filled up with what adds nothing: one after the other they would take most of the time.
template <bool log>
struct Row {
  static constexpr size_t kVector = 16;  // floats

  static QNNRT_INLINE void Run(const float* x, float* o, size_t n, float beta) {
    const size_t whole = n / kVector * kVector;
    const uint32_t rest = static_cast<uint32_t>(n - whole);
    alignas(64) float tail[kVector];
    constexpr float kNone = -std::numeric_limits<float>::infinity();
    // (Over all of them, with a condition: masked loads and stores.)
    QNNRT_SIMD
    for (uint32_t k = 0; k < kVector; ++k) tail[k] = k < rest ? beta * x[whole + k] : kNone;
    float top = kNone;
    QNNRT_SIMD_REDUCE(reduction(max : top))
    for (size_t i = 0; i < whole; ++i) {
      const float v = beta * x[i];
      top = v > top ? v : top;
    }
    if (rest != 0) {
      QNNRT_SIMD_REDUCE(reduction(max : top))
      for (size_t k = 0; k < kVector; ++k) top = tail[k] > top ? tail[k] : top;
    }
    float sum = 0;
    QNNRT_SIMD_REDUCE(reduction(+ : sum))
    for (size_t i = 0; i < whole; ++i) {
      const float v = beta * x[i] - top, e = vmath::ExpBelow(v);
      o[i] = log ? v : e;
      sum += e;
    }
    if (rest != 0) {
      QNNRT_SIMD_REDUCE(reduction(+ : sum))
      for (size_t k = 0; k < kVector; ++k) {
        const float v = tail[k] - top, e = vmath::ExpBelow(v);
        tail[k] = log ? v : e;
        sum += e;
      }
    }
    const float last = log ? vmath::Log(sum) : 1.0f / sum;
    QNNRT_SIMD
    for (size_t i = 0; i < whole; ++i) o[i] = log ? o[i] - last : o[i] * last;
    QNNRT_SIMD
    for (uint32_t k = 0; k < kVector; ++k) {
      if (k < rest) o[whole + k] = log ? tail[k] - last : tail[k] * last;
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

struct Geometry {
  Geometry(const Shape& shape, size_t axis)
      : outer(Product(shape, 0, axis)),
        n(shape.empty() ? 1 : shape[axis]),
        inner(Product(shape, std::min(axis + 1, shape.size()), shape.size())) {}

  // Whether floats of 16 bits are converted in the cache, else as whole tensors.
  bool Converts() const { return n <= (inner == 1 ? kConverted : kConverted / kLeastColumns); }

  size_t outer, n, inner;
};

class SoftmaxKernel final : public Kernel {
 public:
  SoftmaxKernel(const Node& node, const Geometry& geometry, bool log)
      : g_(geometry),
        in_(*node.inputs[0]),
        out_(*node.outputs[0]),
        narrow_(in_.narrow() || out_.narrow()),
        beta_(node.Float("beta")),
        row_(log ? PickIsa<Row<true>>() : PickIsa<Row<false>>()),
        columns_(log ? PickIsa<Columns<true>>() : PickIsa<Columns<false>>()) {}

  Status Run(const ExecArgs& args) override {
    if (g_.n == 0) return {};
    if (g_.inner == 1) {
      RunRows(args);
    } else if (!narrow_ && g_.inner < kLeastColumns && g_.n >= kLeastColumns &&
               g_.n * g_.inner <= kConverted) {
      RunFewColumns(args);
    } else {
      RunColumns(args);
    }
    return {};
  }

 private:
  void RunRows(const ExecArgs& args) const {
    const size_t n = g_.n;
    args.threads.For(
        g_.outer, std::max<size_t>(1, kGrainElements / n), [&](size_t begin, size_t end) {
          const size_t step = narrow_ ? std::max<size_t>(1, kConverted / n) : end - begin;
          for (size_t first = begin; first < end; first += step) {
            const size_t at = first * n, rows = std::min(step, end - first);
            alignas(64) float buffer[kConverted];
            const float* in = in_.Read(args.in[0], at, rows * n, buffer);
            float* out = out_.Place(args.out[0], at, buffer);
            for (size_t r = 0; r < rows; ++r) row_(in + r * n, out + r * n, n, beta_);
            out_.Store(out, args.out[0], at, rows * n);
          }
        });
  }

  // Of fewer columns than a vector has room for, as rows: those of heads that lie side by side.
  void RunFewColumns(const ExecArgs& args) const {
    const size_t n = g_.n, inner = g_.inner, block = n * inner;
    args.threads.For(g_.outer, std::max<size_t>(1, kGrainElements / block),
                     [&](size_t begin, size_t end) {
                       alignas(64) float rows[kConverted];
                       for (size_t u = begin; u < end; ++u) {
                         const float* in = static_cast<const float*>(args.in[0]) + u * block;
                         float* out = static_cast<float*>(args.out[0]) + u * block;
                         for (size_t i = 0; i < n; ++i) {
                           for (size_t k = 0; k < inner; ++k) rows[k * n + i] = in[i * inner + k];
                         }
                         for (size_t k = 0; k < inner; ++k)
                           row_(rows + k * n, rows + k * n, n, beta_);
                         for (size_t i = 0; i < n; ++i) {
                           for (size_t k = 0; k < inner; ++k) out[i * inner + k] = rows[k * n + i];
                         }
                       }
                     });
  }

  void RunColumns(const ExecArgs& args) const {
    const size_t n = g_.n, inner = g_.inner;
    const size_t most = narrow_ ? std::min(kColumns, kConverted / n) : kColumns;
    const size_t parts = (inner + most - 1) / most;
    args.threads.For(g_.outer * parts, std::max<size_t>(1, kGrainElements / (n * most)),
                     [&](size_t begin, size_t end) {
                       for (size_t u = begin; u < end; ++u) {
                         const size_t first = u % parts * most, at = u / parts * n * inner + first;
                         const size_t columns = std::min(most, inner - first);
                         if (!narrow_) {
                           columns_(static_cast<const float*>(args.in[0]) + at,
                                    static_cast<float*>(args.out[0]) + at, n, inner, columns,
                                    beta_);
                           continue;
                         }
                         alignas(64) float buffer[kConverted];
                         for (size_t i = 0; i < n; ++i) {
                           float* to = buffer + i * columns;
                           const float* from = in_.Read(args.in[0], at + i * inner, columns, to);
                           if (from != to) std::copy_n(from, columns, to);
                         }
                         columns_(buffer, buffer, n, columns, columns, beta_);
                         for (size_t i = 0; i < n; ++i) {
                           const float* from = buffer + i * columns;
                           const size_t to = at + i * inner;
                           if (out_.narrow()) {
                             out_.Store(from, args.out[0], to, columns);
                           } else {
                             std::copy_n(from, columns, static_cast<float*>(args.out[0]) + to);
                           }
                         }
                       }
                     });
  }

  const Geometry g_;
  const StoredFloats in_, out_;
  const bool narrow_;
  const float beta_;
  void (*const row_)(const float*, float*, size_t, float);
  void (*const columns_)(const float*, float*, size_t, size_t, size_t, float);
};

Result<KernelPtr> Make(const Node& node, const KernelOptions& options, bool log) {
  QNNRT_ASSIGN_OR_RETURN(const size_t axis, GetAxis(node, "axis", node.inputs[0]->shape.size()));
  const Geometry geometry(node.inputs[0]->shape, axis);
  const bool narrow =
      StoredFloats(*node.inputs[0]).narrow() || StoredFloats(*node.outputs[0]).narrow();
  if (narrow && !geometry.Converts()) return MakeViaFloat(*FindOp(node.type), node, options);
  return KernelPtr(std::make_unique<SoftmaxKernel>(node, geometry, log));
}
Result<KernelPtr> MakeSoftmax(const Node& node, const KernelOptions& options) {
  return Make(node, options, false);
}
Result<KernelPtr> MakeLogSoftmax(const Node& node, const KernelOptions& options) {
  return Make(node, options, true);
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
       OpDef::kInPlace | OpDef::kLpai | OpDef::kNativeHalf,
       MakeFixedSoftmax},
      {QNN_OP_LOG_SOFTMAX,
       {in},
       {out},
       {{"axis", ParamSpec::kInt, Required(), ""}, beta},
       SameShapeAlongAxis,
       MakeLogSoftmax,
       OpDef::kInPlace | OpDef::kLpai | OpDef::kNativeHalf,
       MakeFixedSoftmax},
  };
  for (OpDef& def : ops) def.sensitive_inputs = 1;
  return ops;
}

}  // namespace qnnrt
