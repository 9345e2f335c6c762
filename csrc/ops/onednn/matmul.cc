// MatMul and FullyConnected.
#include "ops/onednn/kernel.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <algorithm>

namespace qnnrt::onednn {
namespace {

// Multiply-adds below which the portable kernel is done before oneDNN has started.
constexpr double kLeastWork = 2e5;
// Weights that are not static are packed anew in each run, which costs more than it brings when
// only a few rows use them; the portable kernel reads them as they lie. Measured: one row, from
// 300x1000 to 4096x4096, is 1.2 to 5 times faster there with one thread; 8 to 24 rows of 512x512
// 1.3 to 1.8 times; 3 rows of 300x300 take twice as long.
constexpr int64_t kFewRows = 24, kLargeWeights = 128 * 1024;

// [batch.., rows, cols] of a tensor that lies [batch.., rows, cols], or [batch.., cols, rows] when
// `transposed`; ones are put before the batch until it has `rank` dimensions.
void MatrixLayout(const Shape& shape, bool transposed, size_t rank, Dims* dims, Dims* strides) {
  dims->assign(rank, 1);
  strides->assign(rank, 1);
  const size_t shift = rank - shape.size();
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    (*dims)[shift + i] = shape[i];
    (*strides)[shift + i] = stride;
    stride *= shape[i];
  }
  for (size_t i = 0; i < shift; ++i) (*strides)[i] = stride;
  if (transposed) {
    std::swap((*dims)[rank - 1], (*dims)[rank - 2]);
    std::swap((*strides)[rank - 1], (*strides)[rank - 2]);
  }
}

struct Operands {
  Dims src, src_strides, weights, weight_strides, dst;
};

Result<KernelPtr> Make(const Node& node, const KernelOptions& options, const Operands& o) {
  const Tensor& weights = *node.inputs[1];
  const Tensor* bias = Bias(node);
  const dnnl_data_type_t type = CommonType({node.inputs[0], &weights, bias, node.outputs[0]});
  if (type == dnnl_data_type_undef) return KernelPtr();

  const size_t rank = o.dst.size();
  Dims bias_dims(rank, 1);
  bias_dims[rank - 1] = o.dst[rank - 1];
  const MemoryDesc src = MemoryDesc::Strided(o.src, o.src_strides, type);
  const MemoryDesc dst = MemoryDesc::Dense(o.dst, type);
  const MemoryDesc weights_lie = MemoryDesc::Strided(o.weights, o.weight_strides, type);
  const MemoryDesc weights_any = MemoryDesc::Any(o.weights, type);
  const MemoryDesc bias_md = bias != nullptr ? MemoryDesc::Dense(bias_dims, type) : MemoryDesc();
  const MemoryDesc& weights_md = weights.is_static() ? weights_any : weights_lie;

  const double work =
      static_cast<double>(node.outputs[0]->elements()) * static_cast<double>(o.src[rank - 1]);
  if (work < kLeastWork) return KernelPtr();
  const int64_t rows = o.dst[rank - 2], depth = o.src[rank - 1], columns = o.dst[rank - 1];
  const bool dense = o.weight_strides[rank - 1] == 1;
  if (!weights.is_static() && dense &&
      (rows == 1 || (rows <= kFewRows && depth * columns >= kLargeWeights))) {
    return KernelPtr();
  }

  Problem problem{node, ThreadsFor(node, options, work), {}, &dst, options.weights};
  problem.args = {{DNNL_ARG_SRC, Arg::kIn, 0, &src},
                  {DNNL_ARG_WEIGHTS, Arg::kIn, 1, &weights_lie},
                  {DNNL_ARG_DST, Arg::kOut, 0, &dst}};
  if (bias != nullptr) problem.args.push_back({DNNL_ARG_BIAS, Arg::kIn, 2, &bias_md});
  const Api& api = TheApi();
  return MakePrimitiveKernel(
      problem, [&](dnnl_primitive_desc_t* desc, const_dnnl_primitive_attr_t attr) {
        return api.matmul_primitive_desc_create(desc, api.engine, src.get(), weights_md.get(),
                                                bias_md.get(), dst.get(), attr);
      });
}

}  // namespace

Result<KernelPtr> MakeFullyConnected(const Node& node, const KernelOptions& options) {
  const Tensor& weights = *node.inputs[1];
  if (weights.shape.size() != 2) return KernelPtr();
  const int64_t m = weights.shape[0], n = weights.shape[1];
  const int64_t rows = static_cast<int64_t>(node.inputs[0]->elements()) / n;
  Operands o;
  o.src = {rows, n};
  o.src_strides = {n, 1};
  o.weights = {n, m};
  o.weight_strides = {1, n};
  o.dst = {rows, m};
  return Make(node, options, o);
}

Result<KernelPtr> MakeMatMul(const Node& node, const KernelOptions& options) {
  const Shape& a = node.inputs[0]->shape;
  const Shape& b = node.inputs[1]->shape;
  const Shape& out = node.outputs[0]->shape;
  const bool transpose_a = node.Bool("transpose_in0"), transpose_b = node.Bool("transpose_in1");
  if (a.size() < 2 || b.size() < 2 || out.size() != std::max(a.size(), b.size())) {
    return KernelPtr();
  }
  Operands o;
  const bool one_matrix =
      std::all_of(b.begin(), b.end() - 2, [](uint32_t d) { return d == 1; }) && !transpose_a;
  if (one_matrix) {  // the batch only adds rows
    const int64_t k = a.back(), n = out.back();
    const int64_t rows = static_cast<int64_t>(node.outputs[0]->elements()) / n;
    MatrixLayout({b[b.size() - 2], b[b.size() - 1]}, transpose_b, 2, &o.weights, &o.weight_strides);
    o.src = {rows, k};
    o.src_strides = {k, 1};
    o.dst = {rows, n};
  } else {
    MatrixLayout(a, transpose_a, out.size(), &o.src, &o.src_strides);
    MatrixLayout(b, transpose_b, out.size(), &o.weights, &o.weight_strides);
    o.dst.assign(out.begin(), out.end());
  }
  return Make(node, options, o);
}

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
