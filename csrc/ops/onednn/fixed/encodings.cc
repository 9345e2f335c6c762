#include "ops/onednn/fixed/encodings.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <algorithm>
#include <cstring>
#include <string>

#include "ops/post_ops.h"
#include "ops/rules.h"

namespace qnnrt::onednn {
namespace {

// How many times faster than floats 8-bit integers are multiplied: with tiles of 16 x 64, and with
// vectors. Seen: 16 to 20, and 3 to 4.
constexpr double kTileSpeed = 16, kVectorSpeed = 4;
// Of weights: zero is one of their integers, or close by.
constexpr int32_t kMostOffset = 1024;
// Steps of the output for each product, times the number of products: more would round sums, as
// floats, by more than a quarter of a step where they cancel out the zero of the input.
constexpr double kMostSteps = 128;
// What reading a weight costs, in multiply-adds of floats.
constexpr double kWorkPerWeight = 1;

bool HasIsa(unsigned wanted) {
  return (static_cast<unsigned>(TheApi().get_effective_cpu_isa()) & wanted) == wanted;
}

bool HasTiles() { return HasIsa(dnnl_cpu_isa_avx512_core_amx); }

// One scale, or one for each index of an axis; no blocks.
bool IsPlainEncoding(const Quantization& q) {
  return q.encoding == QNN_QUANTIZATION_ENCODING_SCALE_OFFSET ||
         q.encoding == QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET ||
         q.encoding == QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET ||
         q.encoding == QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET;
}

Result<Constant> MakeConstant(int id, const Dims& dims, dnnl_data_type_t type, const void* value,
                              size_t size) {
  std::shared_ptr<AlignedBytes> bytes = AlignedBytes::Copy(value, size);
  if (!bytes) return OutOfMemory();
  return Constant{id, MemoryDesc::Dense(dims, type), std::move(bytes)};
}

// The bias as real numbers, zeros where there is none.
std::vector<double> RealBias(const Node& node, size_t channels) {
  std::vector<double> values(channels, 0);
  const Tensor* bias = node.HasInput(2) ? node.inputs[2] : nullptr;
  if (bias == nullptr) return values;
  if (bias->dtype == QNN_DATATYPE_SFIXED_POINT_32) {  // a float would round its integers
    const Quantization& q = bias->quantization;
    const int32_t* stored = bias->data_as<int32_t>();
    for (size_t c = 0; c < channels; ++c) {
      const size_t which = q.axis < 0 ? 0 : c;
      values[c] = static_cast<double>(q.scales[which]) *
                  (static_cast<double>(stored[c]) + static_cast<double>(q.offsets[which]));
    }
    return values;
  }
  std::vector<float> decoded(channels);
  if (Codec::Needs(*bias)) {
    Codec(*bias).Decode(bias->data->data(), decoded.data(), 0, channels);
  } else {
    decoded.assign(bias->data_as<float>(), bias->data_as<float>() + channels);
  }
  values.assign(decoded.begin(), decoded.end());
  return values;
}

// The sum of all weights of each channel, as they lie.
template <typename T>
std::vector<int64_t> StoredSums(const T* weights, uint64_t count, const ChannelOrder& order) {
  std::vector<int64_t> sums(static_cast<size_t>(order.channels), 0);
  order.ForRuns(count, [&](uint64_t channel, uint64_t begin, uint64_t end) {
    for (uint64_t i = begin; i < end; ++i) sums[channel] += weights[i];
  });
  return sums;
}

// The order of weights that are not read yet, which fill their part of memory as a client has them.
// Nothing unless those of a channel are in one piece, or channels next to each other, as in ONNX.
std::optional<ChannelOrder> OrderOf(const LyingElements& lying, const Tensor& weights,
                                    ChannelOrder order) {
  if (lying.strides.empty()) return order;
  const size_t axis = static_cast<size_t>(order.axis);
  if (order.groups != 1 || weights.shape[axis] != order.channels) return std::nullopt;
  const int64_t each = static_cast<int64_t>(weights.elements()) / order.channels;
  const int64_t channel = lying.strides[axis];
  if (channel != each && channel != 1) return std::nullopt;
  order.inner = static_cast<uint64_t>(channel);
  return order;
}

template <typename T>
std::vector<int64_t> StoredSums(const Tensor& weights, const ChannelOrder& order) {
  const uint64_t count = weights.elements();
  if (const std::optional<LyingElements> unread = weights.data->Unread()) {
    const std::optional<ChannelOrder> lying = OrderOf(*unread, weights, order);
    if (lying) return StoredSums(reinterpret_cast<const T*>(unread->data), count, *lying);
  }
  return StoredSums(weights.data_as<T>(), count, order);
}

std::vector<double> SumsOf(const Tensor& weights, const ChannelOrder& order,
                           const SignedWeights& encoding) {
  const uint64_t count = weights.elements();
  std::vector<int64_t> sums = weights.dtype == QNN_DATATYPE_UFIXED_POINT_8
                                  ? StoredSums<uint8_t>(weights, order)
                                  : StoredSums<int8_t>(weights, order);
  const int64_t products = static_cast<int64_t>(count) / order.channels;
  for (size_t c = 0; c < sums.size(); ++c) {
    sums[c] += products * (encoding.shifts[c] + encoding.rests[c]);
  }
  return {sums.begin(), sums.end()};
}

// Those that are not read yet are written to `to` alone, so that they are not there twice.
const uint8_t* AsLying(const Tensor& weights, int8_t* to) {
  return weights.data->WriteUnread(to) ? reinterpret_cast<const uint8_t*>(to)
                                       : weights.data_as<uint8_t>();
}

}  // namespace

dnnl_data_type_t WholeEncoding8(const Tensor& tensor) {
  const Quantization& q = tensor.quantization;
  if (q.axis >= 0 || q.scales.size() != 1 || !IsPlainEncoding(q)) return dnnl_data_type_undef;
  if (tensor.dtype == QNN_DATATYPE_UFIXED_POINT_8) return dnnl_u8;
  return tensor.dtype == QNN_DATATYPE_SFIXED_POINT_8 ? dnnl_s8 : dnnl_data_type_undef;
}

int64_t ZeroCode(const Tensor& tensor) { return -int64_t{tensor.quantization.offsets[0]}; }

bool HoldsZero(const Tensor& tensor) {
  const FixedRange range = RangeOf(tensor.dtype, 0);
  return ZeroCode(tensor) >= range.low && ZeroCode(tensor) <= range.high;
}

Result<SharedBytes> PixelOfZeros(const Tensor& tensor) {
  const std::shared_ptr<AlignedBytes> zeros = AlignedBytes::Make(tensor.shape.back());
  if (!zeros) return OutOfMemory();
  std::memset(zeros->data(), static_cast<int>(ZeroCode(tensor) & 0xff), zeros->size());
  return SharedBytes(zeros);
}

bool StepsFitFloats(const Node& node, const std::vector<float>& weight_scales, double products) {
  const double most = *std::max_element(weight_scales.begin(), weight_scales.end());
  const double steps = static_cast<double>(node.inputs[0]->quantization.scales[0]) * most /
                       static_cast<double>(node.outputs[0]->quantization.scales[0]);
  return steps * products <= kMostSteps;
}

bool HasIntegerProducts() {
  return HasIsa(dnnl_cpu_isa_avx512_core_vnni) || HasIsa(dnnl_cpu_isa_avx2_vnni);
}

std::optional<SignedWeights> AsSigned(const Tensor& weights, const ChannelOrder& order) {
  const Quantization& q = weights.quantization;
  if ((TypeBit(weights.dtype) & types::kFixed8) == 0 || !IsPlainEncoding(q)) return std::nullopt;
  size_t count = 1;
  if (q.axis >= 0) {
    if (q.axis != order.axis) return std::nullopt;
    count = weights.shape[static_cast<size_t>(q.axis)];
  }
  const size_t channels = static_cast<size_t>(order.channels);
  if (q.scales.size() != count || q.offsets.size() != count || channels % count != 0) {
    return std::nullopt;
  }
  const FixedRange range = RangeOf(weights.dtype, q.bitwidth);
  SignedWeights result;
  for (size_t c = 0; c < channels; ++c) {
    const int32_t offset = q.offsets[c % count];
    if (offset < -kMostOffset || offset > kMostOffset) return std::nullopt;
    const bool fits = range.low + offset >= INT8_MIN && range.high + offset <= INT8_MAX;
    const int32_t centered = weights.dtype == QNN_DATATYPE_UFIXED_POINT_8 ? INT8_MIN : 0;
    result.scales.push_back(q.scales[c % count]);
    result.shifts.push_back(fits ? offset : centered);
    result.rests.push_back(fits ? 0 : offset - centered);
  }
  return result;
}

void WriteShifted(const Tensor& weights, const ChannelOrder& order,
                  const std::vector<int32_t>& shifts, int8_t* to) {
  const uint8_t* const from = AsLying(weights, to);
  const bool shifted = std::any_of(shifts.begin(), shifts.end(), [](int32_t s) { return s != 0; });
  if (!shifted && static_cast<const void*>(from) == to) return;
  // Modulo 256 the sum is that of signed and of unsigned bytes.
  order.ForRuns(weights.elements(), [&](uint64_t channel, uint64_t begin, uint64_t end) {
    const int32_t shift = shifts[channel];
    for (uint64_t i = begin; i < end; ++i) to[i] = static_cast<int8_t>(from[i] + shift);
  });
}

std::function<Status(int8_t*)> ShiftedBy(const Tensor& weights, int32_t shift) {
  return [&weights, shift](int8_t* to) {
    const uint8_t* const from = AsLying(weights, to);
    const uint64_t count = weights.elements();
    for (uint64_t i = 0; i < count; ++i) to[i] = static_cast<int8_t>(from[i] + shift);
    return Status::Ok();
  };
}

Status KeepZero(int argument, int32_t offset, IntegerProblem* integers) {
  if (offset == 0) return Status::Ok();
  const int32_t zero = -offset;
  QNNRT_ASSIGN_OR_RETURN(Constant point, MakeConstant(DNNL_ARG_ATTR_ZERO_POINTS | argument, {1},
                                                      dnnl_s32, &zero, sizeof zero));
  integers->constants.push_back(std::move(point));
  integers->zero_points.push_back(argument);
  return Status::Ok();
}

Result<FoldedSteps> FoldSteps(const Node& node, const KernelOptions& options,
                              const ChannelOrder& order, const SignedWeights& weights,
                              bool fold_input) {
  const Tensor& stored = *node.inputs[1];
  const Quantization& in = node.inputs[0]->quantization;
  const Quantization& out = node.outputs[0]->quantization;
  const size_t channels = static_cast<size_t>(order.channels);
  std::vector<double> steps(channels);  // of the output, for each step of the sum
  for (size_t c = 0; c < channels; ++c) {
    steps[c] = static_cast<double>(in.scales[0]) * static_cast<double>(weights.scales[c]) /
               static_cast<double>(out.scales[0]);
  }
  fold_input = fold_input && in.offsets[0] != 0;
  const auto fill = [&](void* data) {
    const std::vector<double> bias = RealBias(node, channels);
    std::vector<double> sums(channels, 0);
    if (fold_input) sums = SumsOf(stored, order, weights);
    for (size_t c = 0; c < channels; ++c) {
      static_cast<float*>(data)[c] =
          static_cast<float>(bias[c] / static_cast<double>(out.scales[0]) +
                             in.offsets[0] * steps[c] * sums[c] - out.offsets[0]);
    }
    return Status::Ok();
  };
  FoldedSteps folded{{steps.begin(), steps.end()}, nullptr};
  QNNRT_ASSIGN_OR_RETURN(
      folded.addends,
      PackWeights(options, 2, channels * sizeof(float), "addends of integer sums as FLOAT_32", fill,
                  fold_input ? "with the input's zero point" : ""));
  return folded;
}

Status FoldEncodings(const Node& node, const KernelOptions& options, const ChannelOrder& order,
                     const SignedWeights& weights, const Dims& bias_dims, int scales_mask,
                     IntegerProblem* integers) {
  const std::vector<int>& kept = integers->zero_points;
  const bool fold_input = std::find(kept.begin(), kept.end(), DNNL_ARG_SRC) == kept.end();
  QNNRT_ASSIGN_OR_RETURN(FoldedSteps steps, FoldSteps(node, options, order, weights, fold_input));
  QNNRT_ASSIGN_OR_RETURN(
      Constant factor,
      MakeConstant(DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, {order.channels}, dnnl_f32,
                   steps.factors.data(), steps.factors.size() * sizeof(float)));
  integers->constants.push_back(std::move(factor));
  integers->scales_mask = scales_mask;
  integers->constants.push_back(
      {DNNL_ARG_BIAS, MemoryDesc::Dense(bias_dims, dnnl_f32), std::move(steps.addends)});

  integers->as_stored = std::all_of(weights.shifts.begin(), weights.shifts.end(),
                                    [](int32_t shift) { return shift == 0; });
  integers->weights = [&stored = *node.inputs[1], order, shifts = weights.shifts](int8_t* to) {
    WriteShifted(stored, order, shifts, to);
    return Status::Ok();
  };
  return Status::Ok();
}

Status KeepEncodings(const Node& node, const KernelOptions& options, int32_t weights_offset,
                     const Dims& bias_dims, IntegerProblem* integers) {
  const Quantization& in = node.inputs[0]->quantization;
  const Quantization& weights = node.inputs[1]->quantization;
  const Quantization& out = node.outputs[0]->quantization;
  const double step = static_cast<double>(out.scales[0]);
  const float factor = static_cast<float>(static_cast<double>(in.scales[0]) *
                                          static_cast<double>(weights.scales[0]) / step);
  QNNRT_ASSIGN_OR_RETURN(Constant scale, MakeConstant(DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, {1},
                                                      dnnl_f32, &factor, sizeof factor));
  integers->constants.push_back(std::move(scale));
  QNNRT_RETURN_IF_ERROR(KeepZero(DNNL_ARG_SRC, in.offsets[0], integers));
  QNNRT_RETURN_IF_ERROR(KeepZero(DNNL_ARG_WEIGHTS, weights_offset, integers));
  const size_t columns = static_cast<size_t>(bias_dims.back());
  const auto fill = [&](void* data) {
    const std::vector<double> bias = RealBias(node, columns);
    for (size_t c = 0; c < columns; ++c) {
      static_cast<float*>(data)[c] = static_cast<float>(bias[c] / step - out.offsets[0]);
    }
    return Status::Ok();
  };
  QNNRT_ASSIGN_OR_RETURN(SharedBytes addends,
                         PackWeights(options, 2, columns * sizeof(float),
                                     "addends of integer sums as FLOAT_32", fill));
  integers->constants.push_back(
      {DNNL_ARG_BIAS, MemoryDesc::Dense(bias_dims, dnnl_f32), std::move(addends)});
  return Status::Ok();
}

void LimitOutput(const Node& node, IntegerProblem* integers) {
  const FixedRange whole = RangeOf(node.outputs[0]->dtype, 0);
  const FixedRange range = OutputRange(node);
  if (range.low == whole.low && range.high == whole.high) return;
  integers->chain.push_back(
      {dnnl_eltwise_clip, static_cast<float>(range.low), static_cast<float>(range.high)});
}

int ThreadsForIntegers(const Node& node, const KernelOptions& options, double multiply_adds) {
  const double speed = HasTiles() ? kTileSpeed : kVectorSpeed;
  const double weights = static_cast<double>(node.inputs[1]->elements());
  return ThreadsForWork(options, multiply_adds / speed + weights * kWorkPerWeight,
                        static_cast<double>(node.inputs[0]->elements()) +
                            static_cast<double>(node.outputs[0]->elements()));
}

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
