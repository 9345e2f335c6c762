// Convolutions, pooling, products. TFLite's weights are [Cout, kH, kW, Cin], QNN's
// [kH, kW, Cin, Cout].
#include <algorithm>
#include <cstdlib>
#include <limits>

#include "tflite/lowering/lowering.h"

namespace qnnrt::tflite {
namespace {

using Pads = std::pair<uint32_t, uint32_t>;  // before and after

// Output size, and padding, of a window along one dimension. TensorFlow's rule: SAME gives
// ceil(size / stride) outputs and puts an odd padding's extra element behind; VALID pads nothing
// and drops what does not fill a window.
std::pair<uint32_t, Pads> Window(uint32_t size, int64_t kernel, int64_t stride, int64_t dilation,
                                 int64_t padding) {
  if (kernel < 1 || stride < 1 || dilation < 1 || kernel > INT32_MAX || stride > INT32_MAX ||
      dilation > INT32_MAX)
    Damaged("a kernel of %lld, stride %lld, dilation %lld", static_cast<long long>(kernel),
            static_cast<long long>(stride), static_cast<long long>(dilation));
  const int64_t reach = (kernel - 1) * dilation + 1;
  if (padding == kPaddingSame) {
    const int64_t out = (size + stride - 1) / stride;
    const int64_t total = std::max<int64_t>((out - 1) * stride + reach - size, 0);
    return {Dim(out), {Dim(total / 2), Dim(total - total / 2)}};
  }
  if (padding != kPaddingValid)
    Damaged("padding is %lld, neither SAME (0) nor VALID (1)", static_cast<long long>(padding));
  if (size < reach)
    Damaged("a window of %lld over %u elements, without padding", static_cast<long long>(reach),
            size);
  return {Dim((size - reach) / stride + 1), {0, 0}};
}

// Windows along several dimensions, as parameters of the operation.
struct Windows {
  Dims sizes;
  std::vector<uint32_t> stride, dilation, pads;

  void Add(uint32_t size, int64_t kernel, int64_t step, int64_t spread, int64_t padding) {
    const auto [out, pad] = Window(size, kernel, step, spread, padding);
    sizes.push_back(out);
    stride.push_back(static_cast<uint32_t>(step));
    dilation.push_back(static_cast<uint32_t>(spread));
    pads.insert(pads.end(), {pad.first, pad.second});
  }
  Param Stride() const { return U32s("stride", stride); }
  Param Padding() const {
    return U32s("pad_amount", pads, {static_cast<uint32_t>(sizes.size()), 2});
  }
  Param Dilation() const { return U32s("dilation", dilation); }
};

Windows Windows2d(const Node& n, const Value& x, int64_t kernel_h, int64_t kernel_w, bool dilated) {
  Windows found;
  const int64_t padding = n.Integer("Padding");
  found.Add(x.dims[1], kernel_h, n.Integer("StrideH"),
            dilated ? n.Integer("DilationHFactor", 1) : 1, padding);
  found.Add(x.dims[2], kernel_w, n.Integer("StrideW"),
            dilated ? n.Integer("DilationWFactor", 1) : 1, padding);
  return found;
}

// Weights, fixed-point ones when `x` is; of its element type when it is not. Computed ones are
// decoded where no operation takes them: beside floats, or with several scales.
Value Weights(Node& n, int i, const Value& x, int rank = -1) {
  const Value w = n.In(i, rank);
  const Encoding& e = n.encoding(w);
  if (!n.constant(w) && !e.none() && (e.per_axis() || n.encoding(x).none()))
    NotFixed("weights that are computed when the model runs");
  const bool same = Plain(n.type(w)) == Plain(n.type(x));
  if (n.encoding(w).none() && (!same || !n.encoding(x).none()))
    Unsupported("%s weights without scales, for a %s input", TypeName(n.type(w)).c_str(),
                TypeName(n.type(x)).c_str());
  return w;
}

// In fixed point the bias's step is that of the products, whatever the file says of it: TFLite's
// kernels add it to them as it is. `axis`: the dimension of the weights that the outputs lie along.
void AddBias(Node& n, int i, const Value& x, const Value& w, int axis, uint32_t count,
             std::vector<Value>* inputs) {
  if (!n.has(i)) return;
  const Value bias = n.In(i);
  if (Elements(bias.dims) != count)
    Damaged("a bias of %llu elements for %u outputs",
            static_cast<unsigned long long>(Elements(bias.dims)), count);
  const Encoding& ex = n.encoding(x);
  const Encoding& ew = n.encoding(w);
  const Qnn_DataType_t type = Plain(n.type(bias));
  const bool wide = type == QNN_DATATYPE_INT_64;
  if (ex.none() || ew.none() || !n.constant(bias) || (!wide && type != QNN_DATATYPE_INT_32)) {
    inputs->push_back(bias);
    return;
  }
  if (ew.per_axis() && ew.axis != axis)
    Unsupported("weights with scales along dimension %d", ew.axis);
  Encoding products;
  for (float scale : ew.scale) products.scale.push_back(ex.scale[0] * scale);
  products.offset.assign(products.scale.size(), 0);
  products.axis = ew.per_axis() ? 0 : -1;
  const void* const data = n.data(bias);
  std::vector<int32_t> values(wide ? count : 0);
  for (uint32_t k = 0; k < count; ++k) {
    const int64_t value =
        wide ? static_cast<const int64_t*>(data)[k] : static_cast<const int32_t*>(data)[k];
    if (value > std::numeric_limits<int32_t>::max() || value < -std::numeric_limits<int32_t>::max())
      NotFixed("a bias beyond 32 bits, the most that QNN has");
    if (wide) values[k] = static_cast<int32_t>(value);
  }
  inputs->push_back(n.Reencoded(bias, {count}, products, wide ? values.data() : nullptr));
}

void Conv2d(Node& n) {
  const Value x = n.In(0, 4), w = Weights(n, 1, x, 4);
  const uint32_t inner = w.dims[3], outputs = w.dims[0];
  if (inner == 0 || x.dims[3] % inner != 0)
    Damaged("weights for %u channels, an input of %u", inner, x.dims[3]);
  const uint32_t groups = x.dims[3] / inner;
  if (groups == 0 || outputs % groups != 0)
    Damaged("%u output channels in %u groups", outputs, groups);
  const Windows found = Windows2d(n, x, w.dims[1], w.dims[2], true);
  std::vector<Value> inputs = {x, n.Transpose(w, {1, 2, 3, 0})};
  AddBias(n, 2, x, w, 0, outputs, &inputs);
  const Dims out = {x.dims[0], found.sizes[0], found.sizes[1], outputs};
  n.Set(0,
        n.Fused(n.Op("Conv2d", inputs, out,
                     {found.Stride(), found.Padding(), found.Dilation(), U32("group", groups)})));
}

void DepthwiseConv2d(Node& n) {
  const Value x = n.In(0, 4), w = Weights(n, 1, x, 4);
  const uint32_t outputs = w.dims[3];
  // The multiplier in the options is missing in old files: the shapes imply it.
  if (w.dims[0] != 1 || x.dims[3] == 0 || outputs % x.dims[3] != 0)
    Damaged("weights %s for an input of %u channels", Text(w.dims).c_str(), x.dims[3]);
  const Windows found = Windows2d(n, x, w.dims[1], w.dims[2], true);
  std::vector<Value> inputs = {x, n.Reshape(w, {w.dims[1], w.dims[2], 1, outputs})};
  AddBias(n, 2, x, w, 3, outputs, &inputs);
  const Dims out = {x.dims[0], found.sizes[0], found.sizes[1], outputs};
  n.Set(0, n.Fused(n.Op("DepthWiseConv2d", inputs, out,
                        {found.Stride(), found.Padding(), found.Dilation()})));
}

// Weights are [kD, kH, kW, Cin, Cout] in both.
void Conv3d(Node& n) {
  const Value x = n.In(0, 5), w = Weights(n, 1, x, 5);
  if (w.dims[3] == 0 || x.dims[4] != w.dims[3])
    Damaged("weights for %u channels, an input of %u", w.dims[3], x.dims[4]);
  Windows found;
  for (int d = 0; d < 3; ++d) {
    const std::string axis(1, "DHW"[d]);
    found.Add(x.dims[1 + d], w.dims[d], n.Integer(("Stride" + axis).c_str()),
              n.Integer(("Dilation" + axis + "Factor").c_str(), 1), n.Integer("Padding"));
  }
  std::vector<Value> inputs = {x, w};
  AddBias(n, 2, x, w, 4, w.dims[4], &inputs);
  Dims out = {x.dims[0]};
  out.insert(out.end(), found.sizes.begin(), found.sizes.end());
  out.push_back(w.dims[4]);
  n.Set(0,
        n.Fused(n.Op("Conv3d", inputs, out, {found.Stride(), found.Padding(), found.Dilation()})));
}

// The gradient of a convolution with weights `w`, from the wanted output size, which gives the
// padding. `kernel`: the dimension of the weights that the window begins at, `outputs` that of the
// outputs; `order` brings the weights to QNN's. The bias is input `bias`, where it is given.
void TransposeConv(Node& n, const char* type, const Value& x, const Value& w, int bias,
                   const std::vector<int64_t>& wanted, size_t kernel, int outputs,
                   const std::vector<uint32_t>& order) {
  const size_t spatial = x.rank() - 2;
  const uint32_t count = w.dims[static_cast<size_t>(outputs)];
  if (wanted.size() != x.rank() || wanted[0] != x.dims[0] || wanted.back() != count ||
      w.dims.back() != x.dims.back())
    Damaged("%s and weights %s to another output shape", Text(x.dims).c_str(),
            Text(w.dims).c_str());
  Dims out;
  for (const int64_t size : wanted) out.push_back(Dim(size));
  const bool same = n.Integer("Padding") == kPaddingSame;
  std::vector<uint32_t> stride, pads, extra;
  for (size_t d = 0; d < spatial; ++d) {
    const std::string axis(1, "DHW"[3 - spatial + d]);
    const int64_t size = x.dims[1 + d], taps = w.dims[kernel + d];
    const int64_t step = n.Integer(("Stride" + axis).c_str());
    if (out[1 + d] < 1 || step < 1 || step > INT32_MAX)
      Damaged("an output of %s with a stride of %lld", Text(out).c_str(),
              static_cast<long long>(step));
    // Only what is cut in front is defined by the padding; behind, the output size cuts. SAME, of
    // the convolution whose gradient this is.
    const int64_t before = same ? Window(out[1 + d], taps, step, 1, kPaddingSame).second.first : 0;
    const int64_t after = (size - 1) * step + taps - before - out[1 + d];
    if (-after >= step)
      Unsupported("%u outputs, which %lld inputs in steps of %lld do not reach", out[1 + d],
                  static_cast<long long>(size), static_cast<long long>(step));
    stride.push_back(static_cast<uint32_t>(step));
    pads.insert(pads.end(), {Dim(before), Dim(std::max<int64_t>(after, 0))});
    extra.push_back(Dim(std::max<int64_t>(-after, 0)));
  }
  std::vector<Value> inputs = {x, n.Transpose(w, order)};
  AddBias(n, bias, x, w, outputs, count, &inputs);
  n.Set(0, n.Fused(n.Op(type, inputs, out,
                        {U32s("stride", stride),
                         U32s("pad_amount", pads, {static_cast<uint32_t>(spatial), 2}),
                         U32s("output_padding", extra)})));
}

void TransposeConv2d(Node& n) {
  const std::vector<int64_t> wanted = n.Ints(0, "the output shape");
  const Value x = n.In(2, 4), w = Weights(n, 1, x, 4);
  TransposeConv(n, "TransposeConv2d", x, w, 3, wanted, 1, 0, {1, 2, 3, 0});
}

// Weights are [kD, kH, kW, Cout, Cin]; a dilation puts zeros between them.
void TransposeConv3d(Node& n) {
  const std::vector<int64_t> wanted = n.Ints(0, "the output shape");
  const Value x = n.In(2, 5);
  Value w = Weights(n, 1, x, 5);
  std::vector<int64_t> apart;
  for (const char* option : {"DilationDFactor", "DilationHFactor", "DilationWFactor"})
    apart.push_back(n.Integer(option, 1));
  if (apart != std::vector<int64_t>{1, 1, 1}) {
    if (!n.encoding(w).none()) NotFixed("zeros between weights");
    apart.insert(apart.end(), {1, 1});
    w = Spread(n, w, apart, 0);
  }
  TransposeConv(n, "TransposeConv3d", x, w, 3, wanted, 0, 3, {0, 1, 2, 4, 3});
}

// MediaPipe's, without the output shape: SAME gives `stride` pixels for one, VALID all that the
// windows reach.
void TransposeConvBias(Node& n) {
  const Value x = n.In(0, 4), w = Weights(n, 1, x, 4);
  const int64_t padding = n.Integer("Padding");
  const bool same = padding == kPaddingSame;
  if (!same && padding != kPaddingValid)
    Damaged("padding is %lld, neither SAME (0) nor VALID (1)", static_cast<long long>(padding));
  const auto reached = [&](size_t d, const char* stride) -> int64_t {
    const int64_t step = n.Integer(stride), size = x.dims[d], taps = w.dims[d];
    if (step < 1 || step > INT32_MAX) Damaged("a stride of %lld", static_cast<long long>(step));
    return same ? size * step : (size - 1) * step + taps;
  };
  const std::vector<int64_t> wanted = {x.dims[0], reached(1, "StrideH"), reached(2, "StrideW"),
                                       w.dims[0]};
  TransposeConv(n, "TransposeConv2d", x, w, 2, wanted, 1, 0, {1, 2, 3, 0});
}

Value Pool(Node& n, const char* type, const Value& x) {
  const int64_t kernel_h = n.Integer("FilterHeight"), kernel_w = n.Integer("FilterWidth");
  const Windows found = Windows2d(n, x, kernel_h, kernel_w, false);
  std::vector<Param> params = {
      U32s("filter_size", {static_cast<uint32_t>(kernel_h), static_cast<uint32_t>(kernel_w)}),
      found.Stride(), found.Padding()};
  if (std::string(type) == "PoolAvg2d") params.push_back(Flag("count_pad_for_edges", false));
  return n.Op(type, {x}, {x.dims[0], found.sizes[0], found.sizes[1], x.dims[3]}, params);
}

void AveragePool(Node& n) { n.Set(0, n.Fused(Pool(n, "PoolAvg2d", n.In(0, 4)))); }

void MaxPool(Node& n) { n.Set(0, n.Fused(Pool(n, "PoolMax2d", n.In(0, 4)))); }

// The root of the mean square; padding does not count.
void L2Pool(Node& n) {
  const Value x = n.In(0, 4);
  const Value mean = Pool(n, "PoolAvg2d", n.Multiply(x, x));
  n.Set(0, n.Fused(n.Op("ElementWiseSquareRoot", {mean}, mean.dims)));
}

// [.., n] by [m, n]: rows of n elements, or, with keep_num_dims, the input's own rows.
void FullyConnected(Node& n) {
  const Value x = n.In(0), w = Weights(n, 1, x);
  if (n.Integer("WeightsFormat") != 0)
    Unsupported("shuffled weights, which only quantized inputs take");
  if (w.rank() != 2) Damaged("weights %s", Text(w.dims).c_str());
  const uint32_t units = w.dims[0], inner = w.dims[1];
  const uint64_t size = Elements(x.dims);
  if (inner == 0 || size % inner != 0)
    Damaged("%llu elements in rows of %u", static_cast<unsigned long long>(size), inner);
  const uint32_t rows = Dim(static_cast<int64_t>(std::min<uint64_t>(size / inner, INT64_MAX)));
  Dims shape = {rows, units};
  if (n.Flag("KeepNumDims")) {
    if (x.rank() == 0 || x.dims.back() != inner)
      Damaged("%s by weights %s", Text(x.dims).c_str(), Text(w.dims).c_str());
    shape = x.dims;
    shape.back() = units;
  }
  std::vector<Value> inputs = {n.Reshape(x, {rows, inner}), w};
  AddBias(n, 2, x, w, 0, units, &inputs);
  if (inputs.size() > 2) inputs[2] = n.Reshape(inputs[2], {units});
  n.Set(0, n.Reshape(n.Fused(n.Op("FullyConnected", inputs, {rows, units})), shape));
}

void BatchMatMul(Node& n) {
  const Value a = n.In(0), b = Weights(n, 1, a);
  // adjoint: for real numbers, the transpose
  const bool left = n.Flag("AdjX"), right = n.Flag("AdjY");
  if (a.rank() < 2 || b.rank() < 2 ||
      a.dims[a.rank() - (left ? 2 : 1)] != b.dims[b.rank() - (right ? 1 : 2)])
    Damaged("%s by %s", Text(a.dims).c_str(), Text(b.dims).c_str());
  n.Set(0, Product(n, a, b, left, right));
}

}  // namespace

Value Product(Node& n, const Value& a, const Value& b, bool turned_a, bool turned_b) {
  Dims out = Broadcast({{a.dims.begin(), a.dims.end() - 2}, {b.dims.begin(), b.dims.end() - 2}});
  out.push_back(a.dims[a.rank() - (turned_a ? 1 : 2)]);
  out.push_back(b.dims[b.rank() - (turned_b ? 2 : 1)]);
  return n.Op("MatMul", {a, b}, out,
              {Flag("transpose_in0", turned_a), Flag("transpose_in1", turned_b)});
}

std::vector<Operator> ConvOperators() {
  const Fixed floats = Fixed::kFloats;
  return {
      {1, "AVERAGE_POOL_2D", AveragePool, "PoolAvg2d", "Pool2DOptions"},
      {3, "CONV_2D", Conv2d, "Conv2d", "Conv2DOptions"},
      {4, "DEPTHWISE_CONV_2D", DepthwiseConv2d, "DepthWiseConv2d", "DepthwiseConv2DOptions"},
      {9, "FULLY_CONNECTED", FullyConnected, "FullyConnected, MatMul", "FullyConnectedOptions"},
      {12, "L2_POOL_2D", L2Pool, "PoolAvg2d, ElementWiseSquareRoot", "Pool2DOptions", floats},
      {17, "MAX_POOL_2D", MaxPool, "PoolMax2d", "Pool2DOptions"},
      {67, "TRANSPOSE_CONV", TransposeConv2d, "TransposeConv2d", "TransposeConvOptions"},
      {126, "BATCH_MATMUL", BatchMatMul, "MatMul", "BatchMatMulOptions"},
      {132, "CONV_3D", Conv3d, "Conv3d", "Conv3DOptions"},
      {141, "CONV_3D_TRANSPOSE", TransposeConv3d, "TransposeConv3d", "Conv3DOptions"},
      {kCustomOperator, "Convolution2DTransposeBias", TransposeConvBias, "TransposeConv2d",
       "TransposeConvOptions"},
  };
}

}  // namespace qnnrt::tflite
