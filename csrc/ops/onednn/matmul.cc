// MatMul and FullyConnected.
#include <algorithm>
#include <functional>
#include <numeric>

#include "ops/brain_gemm.h"
#include "ops/isa.h"
#include "ops/onednn/conv_parts.h"
#include "ops/onednn/shapes.h"
#include "ops/tiles.h"

#ifdef QNNRT_ONEDNN_HEADERS

namespace qnnrt::onednn {
namespace {

// Multiply-adds below which the portable kernel is done before oneDNN has started.
constexpr double kLeastMatMulWork = 2e5;
// How many multiply-adds of BFLOAT_16 tiles do while vectors do one of floats.
constexpr double kTileSpeed = 8;
// Weights that are not static are packed anew in each run, which costs more than it brings when
// only a few rows use them; the portable kernel reads them as they lie. Measured: one row, from
// 300x1000 to 4096x4096, is 1.2 to 5 times faster there with one thread; 8 to 24 rows of 512x512
// 1.3 to 1.8 times; 3 rows of 300x300 take twice as long.
constexpr int64_t kFewRows = 24, kLargeWeights = 128 * 1024;
// In BFLOAT_16 the portable kernel widens such weights in each run, for which so few rows do not
// pay, however oneDNN multiplies: one row by 1024x1024 takes 5 times as long there, by 12 matrices
// of 64x197 1.6 times, four rows by 1024x1024 1.3 times.
constexpr double kLeastBrainRow = 2e4;
constexpr int64_t kFewBrainRows = 4;
// Bytes of weights that no core's cache holds: one row is at the speed of memory then, of which
// oneDNN reaches 48 % in FLOAT_32 and 60 % in BFLOAT_16, and the portable kernel 93 % and more.
// What a decoder reads token by token it has read in chunks before: the portable product of up to
// 128 rows takes no longer than oneDNN's, from the same packed weights, which are there once then.
// Matrices of the sizes of a decoder's layers come after one another, so none is in a cache; floats
// are fetched ahead, which pays for more rows (197 rows, 384 to 1536 and back: 0.94 and 0.92 of
// oneDNN's time). Of fewer terms results are written more often than by oneDNN: 24 rows of 192 to
// 1536 take 0.84 of its time, 64 rows 1.02 to 1.05, 128 rows 1.16 to 1.28.
constexpr int64_t kOneOfMany = 384 << 10, kChunk = 128;
constexpr int64_t kHalvesOfMany = 512 << 10;  // as in matmul/narrow.cc
constexpr int64_t kManyTerms = 384, kLargeChunk = 256, kSmallChunk = 32;
// Of BFLOAT_16 on tiles, where they nearly fit one core's: more rows than 64 of whole tiles of the
// depth take 0.97 to 1.09 times as long here. Of others the library copies all rows, and 64 and 128
// take 0.7 to 0.8 there; but 17 to 32, which are copied here, 1.05 to 1.2, on two threads 1.2
// to 1.8.
constexpr uint64_t kFewBrains = uint64_t{5} << 19;
// Multiply-adds up to which the portable product of floats by packed weights is level with oneDNN's
// or ahead of it (up to 128 rows, Zen 4: 0.98 to 1.21 times as fast on one thread, 0.98 to 1.24 on
// two; from 4e6 on behind). A network of no larger ones does without the library: it takes 1.5 MiB
// of private memory, and time to load.
constexpr double kSmallWork = 2.5e6;

using ReadShape = std::optional<MatMulShape> (*)(const Node&);

// As a convolution.
Result<KernelPtr> MakeOfPixels(const Node& node, const KernelOptions& options, int threads,
                               const MatMulShape& o, const ProductTypes& types) {
  const int64_t rows = o.dst[0], columns = o.dst[1];
  const ConvShape c = AsConvShape(o);
  ProductLayouts l(c, PixelsInLine(rows, o.src[1], types.in),
                   PixelsInLine(rows, columns, types.out), types.in);
  if (Bias(node) != nullptr) l.bias = MemoryDesc::Dense({columns}, types.bias);
  if (types.addend != dnnl_data_type_undef) l.addend = PixelsInLine(rows, columns, types.addend);
  return MakeProduct(node, options, threads, c, l);
}

// A part of a product that is a convolution.
template <ReadShape read>
Result<KernelPtr> MakePartOfPixels(const Node& node, const KernelOptions& options) {
  const std::optional<MatMulShape> shape = read(node);
  const std::optional<ProductTypes> types = ProductTypesOf(node);
  return shape && types ? MakeOfPixels(node, options, 1, *shape, *types) : KernelPtr();
}

Result<KernelPtr> Make(const Node& node, const KernelOptions& options,
                       const std::optional<MatMulShape>& shape, MakePart again, MakePart pixels) {
  if (!shape) return KernelPtr();
  const MatMulShape& o = *shape;
  const Tensor& weights = *node.inputs[1];
  const Tensor* bias = Bias(node);
  const std::optional<ProductTypes> types = ProductTypesOf(node);
  if (!types) return KernelPtr();

  const size_t rank = o.dst.size();
  const double work = o.work();
  const int64_t rows = o.dst[rank - 2], depth = o.src[rank - 1], columns = o.dst[rank - 1];
  const bool brains = types->in == dnnl_bf16, widens = brains && !weights.is_static();
  if (work < (widens && rows == 1 ? kLeastBrainRow : kLeastMatMulWork)) return KernelPtr();
  const bool dense = o.weight_strides[rank - 1] == 1;
  // With AVX2 oneDNN does not pack floats: with 2,048 columns or more its products take up to twice
  // the portable kernel's time, with fewer 0.95 to 1.1 times.
  if (types->in == dnnl_f32 && weights.is_static() && CpuIsa() == Isa::kAvx2) return KernelPtr();
  const bool floats = types->in == dnnl_f32;
  const auto product = [](auto begin, auto end) {
    return std::accumulate(begin, end, int64_t{1}, std::multiplies<int64_t>());
  };
  // oneDNN emulates the instructions where a processor has none for BFLOAT_16, which takes four
  // times as long as widening (narrow.cc).
  const bool few = rows == 1 || (rows <= kFewBrainRows && depth * columns >= kLargeWeights);
  if (brains && !HasBrainGemm() && !(widens && few)) return KernelPtr();
  const bool halves = types->in == dnnl_f16;
  const bool large = depth * columns * (floats ? 4 : 2) >= (halves ? kHalvesOfMany : kOneOfMany);
  const int64_t most_rows = !floats || !large     ? kChunk
                            : depth >= kManyTerms ? kLargeChunk
                                                  : kSmallChunk;
  const int64_t all_rows = product(o.dst.begin(), o.dst.end() - 1);
  const bool brain_rows = depth % kTileDepth == 0
                              ? all_rows > 64
                              : all_rows > int64_t{kTileRows} && all_rows <= 2 * int64_t{kTileRows};
  const bool stays = brains && HasTiles() && options.weight_bytes <= kFewBrains && brain_rows;
  if (weights.is_static() && product(o.weights.begin(), o.weights.end()) == depth * columns &&
      ((large && !stays) || (floats && work <= kSmallWork) || (halves && all_rows == 1)) &&
      all_rows <= most_rows) {
    return KernelPtr();
  }
  if (floats && !weights.is_static() && dense &&
      (rows == 1 || (rows <= kFewRows && depth * columns >= kLargeWeights))) {
    return KernelPtr();
  }

  if (Load() == nullptr) return KernelPtr();
  const int threads = ThreadsFor(node, options, brains && HasTiles() ? work / kTileSpeed : work);
  if (!floats && o.src_strides.back() == 1) {
    const bool as_conv = brains && IsFasterAsConv(node, o, true);
    QNNRT_ASSIGN_OR_RETURN(KernelPtr kernel,
                           MakeRowParts(node, options, threads, as_conv, as_conv ? pixels : again));
    if (!kernel && as_conv && threads == 1) {
      QNNRT_ASSIGN_OR_RETURN(kernel, MakeOfPixels(node, options, threads, o, *types));
    }
    if (kernel) return kernel;
  }

  ProductLayouts l(o, MemoryDesc::Strided(o.src, o.src_strides, types->in),
                   MemoryDesc::Dense(o.dst, types->out), types->in);
  if (bias != nullptr) l.bias = MemoryDesc::Dense(o.bias(), types->bias);
  if (types->addend != dnnl_data_type_undef) l.addend = MemoryDesc::Dense(o.dst, types->addend);
  return MakeProduct(node, options, threads, o, l);
}

}  // namespace

Result<KernelPtr> MakeFullyConnected(const Node& node, const KernelOptions& options) {
  return Make(node, options, ReadFullyConnectedShape(node), MakeFullyConnected,
              MakePartOfPixels<ReadFullyConnectedShape>);
}

Result<KernelPtr> MakeMatMul(const Node& node, const KernelOptions& options) {
  return Make(node, options, ReadMatMulShape(node), MakeMatMul, MakePartOfPixels<ReadMatMulShape>);
}

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
