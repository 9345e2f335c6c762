#include "ops/onednn/shapes.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <algorithm>
#include <cstring>

#include "ops/tiles.h"

namespace qnnrt::onednn {
namespace {

constexpr TypeSet kIntegers = types::kFixed | types::kI8 | types::kU8;

// QNN's weights as oneDNN's [g, Cout/g, Cin/g, k..].
void LayOutWeights(const Tensor& weights, ConvShape* shape) {
  const ConvShape& c = *shape;
  const int64_t cout_g = c.cout / c.groups, cin_g = c.cin / c.groups;
  shape->weights = {c.groups, cout_g, cin_g};
  // Elements at one position of the filter; the group is the outer part of the grouped channel.
  const int64_t plane = c.transposed ? c.cin * cout_g : cin_g * c.cout;
  shape->weight_strides = c.transposed ? Dims{cin_g * cout_g, 1, cout_g} : Dims{cout_g, 1, c.cout};
  Dims kernel_strides(c.spatial);
  int64_t stride = plane;
  for (size_t i = c.spatial; i-- > 0;) {
    kernel_strides[i] = stride;
    stride *= weights.shape[i];
  }
  for (size_t i = 0; i < c.spatial; ++i) {
    shape->weights.push_back(weights.shape[i]);
    shape->weight_strides.push_back(kernel_strides[i]);
  }
  if (c.groups > 1) return;
  shape->weights.erase(shape->weights.begin());
  shape->weight_strides.erase(shape->weight_strides.begin());
}

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

// Whether every window has a tap inside of the image, along one dim.
bool MeetImage(int64_t image, int64_t windows, int64_t window, int64_t stride, int64_t distance,
               int64_t before) {
  const auto meets = [&](int64_t n) {
    const int64_t first = n * stride - before;
    const int64_t outside = first < 0 ? (-first + distance - 1) / distance : 0;  // taps in front
    return outside < window && first + outside * distance < image;
  };
  // Those behind the padding in front start inside, as far as the last one does.
  const int64_t hanging = std::min(windows, before / stride + 1);
  for (int64_t n = 0; n < hanging; ++n) {
    if (!meets(n)) return false;
  }
  return meets(windows - 1);
}

// To the first implementation of a convolution that computes the shape right.
dnnl_status_t LeaveWrongOnes(const ConvShape& shape, dnnl_primitive_desc_t desc) {
  const Api& api = TheApi();
  for (;;) {
    const char* name = ImplementationName(desc);
    const bool tiles = std::strstr(name, "amx") != nullptr;
    // It multiplies what is behind the last channel, the next pixel's first, by a weight of 0:
    // beside infinity that is no number.
    const bool pairs = std::strstr(name, "brg") != nullptr && std::strstr(name, "bf16") != nullptr;
    const bool lines = shape.within_windows && std::strcmp(name, kJoinsLines) == 0;
    if (!(shape.off_tiles && tiles) && !(shape.half_pair && pairs) && !lines) return dnnl_success;
    if (api.primitive_desc_next_impl(desc) != dnnl_success) return dnnl_unimplemented;
  }
}

}  // namespace

bool TakesWindows(const Tensor& image, const Tensor& windows, const Dims& window,
                  const Dims& strides, const Dims& gaps, const Dims& before, const Dims& after,
                  bool integers) {
  constexpr int64_t kMostPadding = 4096, kMostWindow = 65536, kMostCode = int64_t{1} << 18;
  double step = sizeof(float) * static_cast<double>(image.shape.back());  // from pixel to pixel
  for (size_t i = window.size(); i-- > 0;) {
    if (before[i] > kMostPadding || after[i] > kMostPadding || window[i] > kMostWindow ||
        (before[i] + after[i]) * window[i] > kMostCode) {
      return false;
    }
    const int64_t distance = gaps.empty() ? 1 : gaps[i] + 1;  // from tap to tap
    const double span = static_cast<double>(window[i] - 1) * static_cast<double>(distance) + 1;
    if ((span + static_cast<double>(strides[i])) * step > INT32_MAX) return false;
    const bool one = window[i] == 1;
    if (integers && !one && strides[i] > 1 && (distance > 1 || strides[i] > window[i])) {
      return false;
    }
    if ((!one && distance > image.shape[i + 1]) ||
        !MeetImage(image.shape[i + 1], windows.shape[i + 1], window[i], strides[i], distance,
                   before[i])) {
      return false;
    }
    step *= image.shape[i + 1];
  }
  return true;
}

bool WrongOnTiles(const Dims& window, const Dims& strides) {
  // Seen with 96 channels, a kernel of 2 x 2 and a stride of 2: windows that do not overlap.
  if (std::all_of(window.begin(), window.end(), [](int64_t n) { return n == 1; })) return false;
  for (size_t i = 0; i < window.size(); ++i) {
    if (strides[i] > 1 && strides[i] >= window[i]) return true;
  }
  return false;
}

std::optional<ConvShape> ReadConvShape(const Node& node, bool transposed) {
  const Tensor& in = *node.inputs[0];
  const Tensor& weights = *node.inputs[1];
  const Tensor& out = *node.outputs[0];
  ConvShape c;
  c.spatial = in.shape.size() - 2;
  c.cin = in.shape.back();
  c.cout = out.shape.back();
  c.groups = std::strncmp(node.type.c_str(), "DepthWise", 9) == 0 ? c.cin : node.Int("group");
  c.transposed = transposed;
  c.off_tiles = c.within_windows = false;
  c.strides = node.Ints("stride");
  c.gaps = transposed ? Dims(c.spatial, 1) : node.Ints("dilation");
  for (int64_t& d : c.gaps) d -= 1;
  const Dims pads = node.Ints("pad_amount");
  if (c.strides.size() != c.spatial || c.gaps.size() != c.spatial || pads.size() != 2 * c.spatial)
    return std::nullopt;
  for (size_t i = 0; i < c.spatial; ++i) {
    c.before.push_back(pads[2 * i]);
    c.after.push_back(pads[2 * i + 1]);
  }
  const Dims window(weights.shape.begin(), weights.shape.end() - 2);
  // Pixels of a transposed convolution that no tap reaches, between them or behind the last, get
  // the bias alone: oneDNN leaves them out of its sums, and out of what it allocates.
  for (size_t i = 0; transposed && i < c.spatial; ++i) {
    const int64_t last = (int64_t{in.shape[i + 1]} - 1) * c.strides[i] - c.before[i] + window[i];
    if (c.strides[i] > window[i] || last < out.shape[i + 1]) return std::nullopt;
    c.after[i] = last - out.shape[i + 1];  // less what the output has as padding of its own
  }
  const bool integers = (TypeBit(in.dtype) & kIntegers) != 0;
  if (!TakesWindows(transposed ? out : in, transposed ? in : out, window, c.strides, c.gaps,
                    c.before, c.after, integers)) {
    return std::nullopt;
  }
  // In BFLOAT_16 it is wrong where channels end within a tile that is not the first: 48, 80, 112.
  constexpr int64_t kTile = 32;
  const int64_t depth = c.cin / c.groups;
  const bool ends_within =
      in.dtype == QNN_DATATYPE_BFLOAT_16 && depth > kTile && depth % kTile != 0;
  c.off_tiles = (integers || ends_within) && !transposed && WrongOnTiles(window, c.strides);
  c.half_pair = in.dtype == QNN_DATATYPE_BFLOAT_16 && depth % 2 != 0;
  LayOutWeights(weights, &c);
  const int64_t channels = transposed ? c.cin : c.cout;
  const double taps = static_cast<double>(weights.elements()) / static_cast<double>(channels);
  c.work = taps * static_cast<double>(transposed ? in.elements() : out.elements());
  return c;
}

dnnl_status_t ConvShape::Describe(dnnl_primitive_desc_t* desc, const_dnnl_primitive_attr_t attr,
                                  const MemoryDesc& src, const MemoryDesc& weights_md,
                                  const MemoryDesc& bias, const MemoryDesc& dst) const {
  const Api& api = TheApi();
  const auto create = transposed ? api.deconvolution_forward_primitive_desc_create
                                 : api.convolution_forward_primitive_desc_create;
  const dnnl_alg_kind_t kind = transposed ? dnnl_deconvolution_direct : dnnl_convolution_direct;
  const dnnl_status_t status =
      create(desc, api.engine, dnnl_forward_inference, kind, src.get(), weights_md.get(),
             bias.get(), dst.get(), strides.data(), gaps.data(), before.data(), after.data(), attr);
  return status == dnnl_success ? LeaveWrongOnes(*this, *desc) : status;
}

double MatMulShape::work() const {
  double product = static_cast<double>(src.back());
  for (int64_t d : dst) product *= static_cast<double>(d);
  return product;
}

dnnl_status_t MatMulShape::Describe(dnnl_primitive_desc_t* desc, const_dnnl_primitive_attr_t attr,
                                    const MemoryDesc& src_md, const MemoryDesc& weights_md,
                                    const MemoryDesc& bias, const MemoryDesc& dst_md) const {
  const Api& api = TheApi();
  return api.matmul_primitive_desc_create(desc, api.engine, src_md.get(), weights_md.get(),
                                          bias.get(), dst_md.get(), attr);
}

std::optional<MatMulShape> ReadFullyConnectedShape(const Node& node) {
  const Tensor& weights = *node.inputs[1];
  if (weights.shape.size() != 2) return std::nullopt;
  const int64_t m = weights.shape[0], n = weights.shape[1];
  const int64_t rows = static_cast<int64_t>(node.inputs[0]->elements()) / n;
  MatMulShape o;
  o.src = {rows, n};
  o.src_strides = {n, 1};
  o.weights = {n, m};
  o.weight_strides = {1, n};
  o.dst = {rows, m};
  return o;
}

std::optional<MatMulShape> ReadMatMulShape(const Node& node) {
  const Shape& a = node.inputs[0]->shape;
  const Shape& b = node.inputs[1]->shape;
  const Shape& out = node.outputs[0]->shape;
  const bool transpose_a = node.Bool("transpose_in0"), transpose_b = node.Bool("transpose_in1");
  if (a.size() < 2 || b.size() < 2 || out.size() != std::max(a.size(), b.size())) {
    return std::nullopt;
  }
  MatMulShape o;
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
  return o;
}

bool IsFasterAsConv(const Node& node, const MatMulShape& o, bool brains) {
  constexpr int64_t kTileRow = 64, kWeightsOverRows = 2, kLeastRows = 48, kManyRows = 128,
                    kUnevenRows = 1024, kLeastColumns = 24, kManyTimes = 8;
  const bool dense = o.dst.size() == 2 && o.src_strides == Dims{o.src[1], 1};
  if (!HasTiles() || !node.inputs[1]->is_static() || !dense) return false;
  const int64_t rows = o.dst[0], columns = o.dst[1], depth = o.src[1];
  const int64_t row = depth * (brains ? 2 : 1);  // bytes
  if (rows < kLeastRows || row < kLeastColumns) return false;
  // Threads share the columns of large weights, as in MakeRowParts.
  if (depth * columns > kWeightsOverRows * rows * (depth + columns)) return false;
  // For so many columns the order of weights varies with the number of pixels.
  if (columns > 192 && columns < 320 && columns != 256) return false;
  // Where long sums end within a tile, a product multiplies the rest apart; a convolution copies
  // rows, which pays for so many columns. Short sums of BFLOAT_16 the product has not on tiles.
  if (row > kTileRow && row % kTileRow != 0) return columns >= kLeastColumns + row / 8;
  // Others gain alone, and lose as much in a network.
  if (brains) return row < kTileRow || columns >= kManyTimes * depth;
  // Rows behind whole tiles are another primitive, which reads all weights (PixelsOfPart).
  const bool even = rows % int64_t{kTileRows} == 0 && rows % 144 != 0 && rows % 240 != 0;
  return rows >= (even ? kManyRows : kUnevenRows);
}

ConvShape AsConvShape(const MatMulShape& o) {
  ConvShape c{};
  c.spatial = 1;
  c.groups = 1;
  c.cin = o.src[1];
  c.cout = o.dst[1];
  c.strides = {1};
  c.gaps = c.before = c.after = {0};
  c.weights = {c.cout, c.cin, 1};
  c.weight_strides = {o.weight_strides[1], o.weight_strides[0], 1};
  c.work = o.work();
  return c;
}

MemoryDesc PixelsInLine(int64_t pixels, int64_t channels, dnnl_data_type_t type) {
  return MemoryDesc::Strided({1, channels, pixels}, {pixels * channels, 1, channels}, type);
}

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
