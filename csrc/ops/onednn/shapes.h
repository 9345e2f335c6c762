// Shapes of convolutions and matrix products in oneDNN's terms, whatever the element type.
#pragma once

#include "ops/onednn/kernel.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

namespace qnnrt::onednn {

// Whether oneDNN's code generators stand these windows. They keep distances in memory in 32 bits,
// write code for each column of a window that hangs over the edge, and some write and read
// elsewhere when a window has no tap inside of the image at all. Portable kernels take such
// windows. `image` is what the windows go over, `windows` has as many along each dim as there are
// windows, both channel last; `gaps` is empty where there is no dilation. `integers`: 8-bit
// products, whose sums on AMX are wrong where a stride above 1 leaves rows out or taps lie apart.
bool TakesWindows(const Tensor& image, const Tensor& windows, const Dims& window,
                  const Dims& strides, const Dims& gaps, const Dims& before, const Dims& after,
                  bool integers);

// Whether 8-bit products over these windows have wrong sums on AMX although TakesWindows() takes
// them.
bool WrongOnTiles(const Dims& window, const Dims& strides);

// oneDNN's kernel for a few channels on tiles: a line of a window is one row of them, filled up
// with the pixels behind it, by weights of 0. Beside infinity that is no number.
constexpr char kJoinsLines[] = "jit:avx512_core_amx";

struct ConvShape {
  size_t spatial;  // 1, 2 or 3
  int64_t groups, cin, cout;
  bool transposed;               // weights [k.., Cin, Cout/g] instead of [k.., Cin/g, Cout]
  bool off_tiles;                // by an implementation without AMX: WrongOnTiles()
  bool half_pair;                // in BFLOAT_16 of an odd number of channels
  bool within_windows;           // by an implementation other than kJoinsLines
  Dims strides, gaps;            // gaps: dilation - 1
  Dims before, after;            // padding
  Dims weights, weight_strides;  // [g, Cout/g, Cin/g, k..], without g where there is one group
  double work;                   // multiply-adds
  int64_t taps() const {
    return std::accumulate(weights.end() - static_cast<ptrdiff_t>(spatial), weights.end(),
                           int64_t{1}, std::multiplies<>());
  }

  dnnl_status_t Describe(dnnl_primitive_desc_t* desc, const_dnnl_primitive_attr_t attr,
                         const MemoryDesc& src, const MemoryDesc& weights_md,
                         const MemoryDesc& bias, const MemoryDesc& dst) const;
};
// Nothing for a node whose params have another form than expected, or that oneDNN does not stand.
std::optional<ConvShape> ReadConvShape(const Node& node, bool transposed);

// dst[.., m, n] = src[.., m, k] x weights[.., k, n]
struct MatMulShape {
  Dims src, src_strides, weights, weight_strides, dst;
  double work() const;
  Dims bias() const {  // along the columns
    Dims dims(dst.size(), 1);
    dims.back() = dst.back();
    return dims;
  }

  dnnl_status_t Describe(dnnl_primitive_desc_t* desc, const_dnnl_primitive_attr_t attr,
                         const MemoryDesc& src_md, const MemoryDesc& weights_md,
                         const MemoryDesc& bias, const MemoryDesc& dst_md) const;
};
std::optional<MatMulShape> ReadFullyConnectedShape(const Node& node);
std::optional<MatMulShape> ReadMatMulShape(const Node& node);

// Whether a product of dense rows by one constant matrix is faster as a convolution of pixels in a
// line: by any number of threads, since weights lie otherwise then. `brains`: BFLOAT_16, not 8
// bits.
bool IsFasterAsConv(const Node& node, const MatMulShape& o, bool brains);
ConvShape AsConvShape(const MatMulShape& o);
MemoryDesc PixelsInLine(int64_t pixels, int64_t channels, dnnl_data_type_t type);

// How the operands of a convolution or a product of matrices lie.
struct ProductLayouts {
  MemoryDesc src, dst;
  MemoryDesc weights, packed_weights;  // in the tensor; as oneDNN likes them, if they are static
  MemoryDesc bias;                     // none without a bias
  MemoryDesc addend;                   // of what is added to the result; none: as dst

  template <typename ProductShape>
  ProductLayouts(const ProductShape& shape, MemoryDesc src_md, MemoryDesc dst_md,
                 dnnl_data_type_t weights_type)
      : src(std::move(src_md)),
        dst(std::move(dst_md)),
        weights(MemoryDesc::Strided(shape.weights, shape.weight_strides, weights_type)),
        packed_weights(MemoryDesc::Any(shape.weights, weights_type)) {}
};

// The primitive of a ConvShape or a MatMulShape. The bias is input 2, unless it is one of the
// constants of `integers`.
template <typename ProductShape>
Result<KernelPtr> MakeProduct(const Node& node, const KernelOptions& options, int threads,
                              const ProductShape& shape, const ProductLayouts& l,
                              const IntegerProblem* integers = nullptr) {
  Problem problem{node, threads, {}, &l.dst, options.weights, integers};
  if (l.addend) problem.addend = &l.addend;
  problem.args = {{DNNL_ARG_SRC, Arg::kIn, 0, &l.src},
                  {DNNL_ARG_WEIGHTS, Arg::kIn, 1, &l.weights},
                  {DNNL_ARG_DST, Arg::kOut, 0, &l.dst}};
  const auto is_bias = [](const Constant& constant) { return constant.id == DNNL_ARG_BIAS; };
  const bool is_constant = integers != nullptr && std::any_of(integers->constants.begin(),
                                                              integers->constants.end(), is_bias);
  if (l.bias && !is_constant) problem.args.push_back({DNNL_ARG_BIAS, Arg::kIn, 2, &l.bias});
  const MemoryDesc& weights = node.inputs[1]->is_static() ? l.packed_weights : l.weights;
  return MakePrimitiveKernel(problem,
                             [&](dnnl_primitive_desc_t* desc, const_dnnl_primitive_attr_t attr) {
                               return shape.Describe(desc, attr, l.src, weights, l.bias, l.dst);
                             });
}

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
