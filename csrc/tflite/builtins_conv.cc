// Convolutions, pooling, products. The runtime's weights are [Cout, kH, kW, Cin], QNN's
// [kH, kW, Cin, Cout].
#include <algorithm>
#include <cstdlib>
#include <limits>

#include "tflite/lower.h"

namespace qnnrt::tflite {

std::pair<uint32_t, uint32_t> Padding(int32_t padding, uint32_t in, uint32_t kernel, int32_t stride,
                                      int32_t dilation, uint32_t out) {
  if (kernel < 1 || stride < 1 || dilation < 1)
    Refuse("a kernel of %u, stride %d, dilation %d", kernel, stride, dilation);
  if (padding == kTfLitePaddingValid) return {0, 0};
  if (padding != kTfLitePaddingSame) Refuse("padding is %d, neither SAME nor VALID", padding);
  const int64_t reach = (int64_t{kernel} - 1) * dilation + 1;
  const int64_t total = std::max<int64_t>((int64_t{out} - 1) * stride + reach - in, 0);
  return {static_cast<uint32_t>(total / 2), static_cast<uint32_t>(total - total / 2)};
}

namespace {

// Weights, fixed-point ones when `x` is; of its element type when it is not.
Value Weights(Node& n, int i, const Value& x) {
  const Value w = n.In(i);
  if (n.encoding(w).none() && (n.type(w) != n.type(x) || !n.encoding(x).none()))
    Refuse("weights without scales for an input of another type");
  return w;
}

// In fixed point the bias's step is that of the products, whatever the file says of it: the
// runtime's kernels add it to them as it is. `axis`: where the outputs lie among the weights.
void AddBias(Node& n, int i, const Value& x, const Value& w, int axis, uint32_t count,
             std::vector<Value>* inputs) {
  if (!n.has(i)) return;
  const Value bias = n.In(i);
  if (Elements(bias.dims) != count)
    Refuse("a bias of %s for %u outputs", Text(bias.dims).c_str(), count);
  const Encoding& ex = n.encoding(x);
  const Encoding& ew = n.encoding(w);
  const void* data = n.data(bias);
  const Qnn_DataType_t type = n.type(bias);
  const bool wide = type == QNN_DATATYPE_INT_64;
  if (ex.none() || ew.none() || data == nullptr ||
      (!wide && type != QNN_DATATYPE_SFIXED_POINT_32 && type != QNN_DATATYPE_INT_32)) {
    inputs->push_back(n.Reshape(bias, {count}));
    return;
  }
  if (ew.per_axis() && ew.axis != axis) Refuse("weights with scales along dimension %d", ew.axis);
  Encoding products;
  for (float scale : ew.scale) products.scale.push_back(ex.scale[0] * scale);
  products.offset.assign(products.scale.size(), 0);
  products.axis = ew.per_axis() ? 0 : -1;
  std::vector<int32_t> values(count);
  for (uint32_t k = 0; k < count; ++k) {
    const int64_t value =
        wide ? static_cast<const int64_t*>(data)[k] : static_cast<const int32_t*>(data)[k];
    if (value > std::numeric_limits<int32_t>::max() || value < -std::numeric_limits<int32_t>::max())
      Refuse("a bias beyond 32 bits");
    values[k] = static_cast<int32_t>(value);
  }
  inputs->push_back(n.Constant({count}, QNN_DATATYPE_SFIXED_POINT_32, values.data(), products));
}

template <typename Params>
std::vector<Param> Window(const Params& p, const Value& x, const Dims& out, uint32_t kernel_h,
                          uint32_t kernel_w, int32_t dilation_h, int32_t dilation_w) {
  const auto h = Padding(p.padding, x.dims[1], kernel_h, p.stride_h, dilation_h, out[1]);
  const auto w = Padding(p.padding, x.dims[2], kernel_w, p.stride_w, dilation_w, out[2]);
  return {U32s("stride", {static_cast<uint32_t>(p.stride_h), static_cast<uint32_t>(p.stride_w)}),
          U32s("pad_amount", {h.first, h.second, w.first, w.second}, {2, 2})};
}

void Conv2d(Node& n) {
  const auto& p = n.params<ConvParams>();
  const Value x = n.In(0, 4), w = Weights(n, 1, x);
  const Dims out = n.OutDims();
  if (w.rank() != 4 || out.size() != 4 || w.dims[3] == 0 || x.dims[3] % w.dims[3] != 0)
    Refuse("weights %s for an input %s", Text(w.dims).c_str(), Text(x.dims).c_str());
  const uint32_t groups = x.dims[3] / w.dims[3];
  if (w.dims[0] % groups != 0) Refuse("%u output channels in %u groups", w.dims[0], groups);
  std::vector<Param> params = Window(p, x, out, w.dims[1], w.dims[2], p.dilation_h, p.dilation_w);
  params.push_back(
      U32s("dilation", {static_cast<uint32_t>(p.dilation_h), static_cast<uint32_t>(p.dilation_w)}));
  params.push_back(U32("group", groups));
  std::vector<Value> inputs = {x, n.Transpose(w, {1, 2, 3, 0})};
  AddBias(n, 2, x, w, 0, w.dims[0], &inputs);
  n.Set(0, n.Activate(n.Op("Conv2d", inputs, out, params), p.activation));
}

void DepthwiseConv2d(Node& n) {
  const auto& p = n.params<DepthwiseParams>();
  const Value x = n.In(0, 4), w = Weights(n, 1, x);
  const Dims out = n.OutDims();
  // The multiplier in the parameters is what old files left out: the shapes say it.
  if (w.rank() != 4 || out.size() != 4 || w.dims[0] != 1 || w.dims[3] % x.dims[3] != 0)
    Refuse("weights %s for an input %s", Text(w.dims).c_str(), Text(x.dims).c_str());
  std::vector<Param> params = Window(p, x, out, w.dims[1], w.dims[2], p.dilation_h, p.dilation_w);
  params.push_back(
      U32s("dilation", {static_cast<uint32_t>(p.dilation_h), static_cast<uint32_t>(p.dilation_w)}));
  std::vector<Value> inputs = {x, n.Reshape(w, {w.dims[1], w.dims[2], 1, w.dims[3]})};
  AddBias(n, 2, x, w, 3, w.dims[3], &inputs);
  n.Set(0, n.Activate(n.Op("DepthWiseConv2d", inputs, out, params), p.activation));
}

// Weights are [kD, kH, kW, Cin, Cout] in both.
void Conv3d(Node& n) {
  const auto& p = n.params<Conv3dParams>();
  const Value x = n.In(0, 5), w = Weights(n, 1, x);
  const Dims out = n.OutDims();
  if (w.rank() != 5 || out.size() != 5 || w.dims[3] != x.dims[4])
    Refuse("weights %s for an input %s", Text(w.dims).c_str(), Text(x.dims).c_str());
  const int32_t strides[3] = {p.stride_d, p.stride_h, p.stride_w};
  const int32_t dilations[3] = {p.dilation_d, p.dilation_h, p.dilation_w};
  std::vector<uint32_t> stride, dilation, pads;
  for (int d = 0; d < 3; ++d) {
    const auto found =
        Padding(p.padding, x.dims[1 + d], w.dims[d], strides[d], dilations[d], out[1 + d]);
    stride.push_back(static_cast<uint32_t>(strides[d]));
    dilation.push_back(static_cast<uint32_t>(dilations[d]));
    pads.insert(pads.end(), {found.first, found.second});
  }
  std::vector<Value> inputs = {x, w};
  AddBias(n, 2, x, w, 4, w.dims[4], &inputs);
  const Value made =
      n.Op("Conv3d", inputs, out,
           {U32s("stride", stride), U32s("pad_amount", pads, {3, 2}), U32s("dilation", dilation)});
  n.Set(0, n.Activate(made, p.activation));
}

// The gradient of a convolution, from the wanted output size, which gives the padding.
void TransposeConv(Node& n) {
  const auto& p = n.params<TransposeConvParams>();
  const Value x = n.In(2, 4), w = Weights(n, 1, x);
  const Dims out = n.OutDims();
  if (w.rank() != 4 || out.size() != 4 || out[3] != w.dims[0] || w.dims[3] != x.dims[3])
    Refuse("%s and weights %s to %s", Text(x.dims).c_str(), Text(w.dims).c_str(),
           Text(out).c_str());
  const int32_t strides[2] = {p.stride_h, p.stride_w};
  std::vector<uint32_t> pads, extra;
  for (int d = 0; d < 2; ++d) {
    const int64_t size = x.dims[1 + d], kernel = w.dims[1 + d], stride = strides[d];
    if (stride < 1) Refuse("a stride of %lld", static_cast<long long>(stride));
    // Only what is cut in front is defined by the padding; behind, the output size cuts. SAME, of
    // the convolution whose gradient this is: from the output to ceil(output / stride) places.
    const auto wanted = static_cast<uint32_t>(out[1 + d]);
    const auto places = static_cast<uint32_t>((wanted + stride - 1) / stride);
    const int64_t before = Padding(p.padding, wanted, w.dims[1 + d], strides[d], 1, places).first;
    const int64_t after = (size - 1) * stride + kernel - before - wanted;
    if (-after >= stride) Refuse("%u outputs, which the inputs do not reach", wanted);
    pads.push_back(static_cast<uint32_t>(before));
    pads.push_back(static_cast<uint32_t>(std::max<int64_t>(after, 0)));
    extra.push_back(static_cast<uint32_t>(std::max<int64_t>(-after, 0)));
  }
  std::vector<Value> inputs = {x, n.Transpose(w, {1, 2, 3, 0})};
  AddBias(n, 3, x, w, 0, w.dims[0], &inputs);
  const Value made =
      n.Op("TransposeConv2d", inputs, out,
           {U32s("stride", {static_cast<uint32_t>(strides[0]), static_cast<uint32_t>(strides[1])}),
            U32s("pad_amount", pads, {2, 2}), U32s("output_padding", extra)});
  n.Set(0, n.Activate(made, p.activation));
}

Value Pool(Node& n, const char* type, const Value& x, bool average) {
  const auto& p = n.params<PoolParams>();
  const Dims out = n.OutDims();
  if (p.filter_h < 1 || p.filter_w < 1 || out.size() != 4) Refuse("a window without elements");
  const auto kernel_h = static_cast<uint32_t>(p.filter_h);
  const auto kernel_w = static_cast<uint32_t>(p.filter_w);
  std::vector<Param> params = Window(p, x, out, kernel_h, kernel_w, 1, 1);
  params.push_back(U32s("filter_size", {kernel_h, kernel_w}));
  if (average) params.push_back(Flag("count_pad_for_edges", false));
  return n.Op(type, {x}, out, params);
}

void AveragePool(Node& n) {
  n.Set(0, n.Activate(Pool(n, "PoolAvg2d", n.In(0, 4), true), n.params<PoolParams>().activation));
}

void MaxPool(Node& n) {
  n.Set(0, n.Activate(Pool(n, "PoolMax2d", n.In(0, 4), false), n.params<PoolParams>().activation));
}

// The root of the mean square; padding does not count.
void L2Pool(Node& n) {
  const Value x = n.In(0, 4);
  const Value square = n.Op("ElementWiseMultiply", {x, x}, x.dims);
  const Value mean = Pool(n, "PoolAvg2d", square, true);
  const Value root = n.Op("ElementWiseSquareRoot", {mean}, mean.dims);
  n.Set(0, n.Activate(root, n.params<PoolParams>().activation));
}

// [.., n] by [m, n]: rows of n elements.
void FullyConnected(Node& n) {
  const auto& p = n.params<DenseParams>();
  const Value x = n.In(0), w = Weights(n, 1, x);
  if (p.weights_format != 0) Refuse("shuffled weights");
  if (w.rank() != 2 || Elements(x.dims) % w.dims[1] != 0)
    Refuse("%s by weights %s", Text(x.dims).c_str(), Text(w.dims).c_str());
  const auto rows = static_cast<uint32_t>(Elements(x.dims) / w.dims[1]);
  std::vector<Value> inputs = {n.Reshape(x, {rows, w.dims[1]}), w};
  AddBias(n, 2, x, w, 0, w.dims[0], &inputs);
  const Value out = n.Op("FullyConnected", inputs, {rows, w.dims[0]});
  n.Set(0, n.Activate(out, p.activation));
}

void BatchMatMul(Node& n) {
  const auto& p = n.params<MatMulParams>();
  const Value a = n.In(0), b = Weights(n, 1, a);
  if (a.rank() < 2 || b.rank() < 2) Refuse("vectors");
  n.Set(0,
        n.Op("MatMul", {a, b}, n.OutDims(),
             {Flag("transpose_in0", p.adjoint_x != 0), Flag("transpose_in1", p.adjoint_y != 0)}));
}

}  // namespace

const std::vector<BuiltinRow>& ConvBuiltins() {
  static const std::vector<BuiltinRow> rows = {
      {1, {AveragePool, Fixed::kOwn, "AVERAGE_POOL_2D"}},
      {3, {Conv2d, Fixed::kOwn, "CONV_2D"}},
      {4, {DepthwiseConv2d, Fixed::kOwn, "DEPTHWISE_CONV_2D"}},
      {9, {FullyConnected, Fixed::kOwn, "FULLY_CONNECTED"}},
      {12, {L2Pool, Fixed::kFloats, "L2_POOL_2D"}},
      {17, {MaxPool, Fixed::kOwn, "MAX_POOL_2D"}},
      {67, {TransposeConv, Fixed::kOwn, "TRANSPOSE_CONV"}},
      {126, {BatchMatMul, Fixed::kOwn, "BATCH_MATMUL"}},
      {132, {Conv3d, Fixed::kOwn, "CONV_3D"}},
  };
  return rows;
}

}  // namespace qnnrt::tflite
