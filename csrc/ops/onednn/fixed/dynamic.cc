#include "ops/onednn/fixed/dynamic.h"

#include "ops/onednn/fixed/encodings.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <cstring>

#include "ops/isa.h"

namespace qnnrt::onednn {
namespace {

// `per_column`: there is a scale for each column, not one for all.
template <bool per_column, bool biased>
struct RestRun {
  static QNNRT_INLINE void Run(const void* sums, const int32_t* rests, int32_t inputs,
                               const float* scale, const float* bias, size_t n, void* out) {
    const char* from = static_cast<const char*>(sums);
    char* to = static_cast<char*>(out);
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) {
      int32_t sum;
      std::memcpy(&sum, from + i * sizeof sum, sizeof sum);
      float x = static_cast<float>(sum + rests[i] * inputs) * scale[per_column ? i : 0];
      if constexpr (biased) x += bias[i];
      std::memcpy(to + i * sizeof x, &x, sizeof x);
    }
  }
};

}  // namespace

dnnl_data_type_t ByteType(const Tensor& tensor) {
  switch (tensor.dtype) {
    case QNN_DATATYPE_UINT_8:
    case QNN_DATATYPE_UFIXED_POINT_8:
      return dnnl_u8;
    case QNN_DATATYPE_INT_8:
    case QNN_DATATYPE_SFIXED_POINT_8:
      return dnnl_s8;
    default:
      return dnnl_data_type_undef;
  }
}

Status AddZero(const Node& node, size_t port, int argument, IntegerProblem* integers) {
  const Tensor& codes = *node.inputs[port - kZero0Port];
  const int32_t shift =
      argument == DNNL_ARG_WEIGHTS && ByteType(codes) == dnnl_u8 ? kSignedShift : 0;
  if (!node.HasInput(port)) {
    const int32_t offset = IsFixed(codes.dtype) ? codes.quantization.offsets[0] : 0;
    return KeepZero(argument, offset + shift, integers);
  }
  integers->zero_points.push_back(argument);
  integers->operands.push_back({DNNL_ARG_ATTR_ZERO_POINTS | argument,
                                MemoryDesc::Dense({1}, dnnl_s32), static_cast<uint32_t>(port)});
  return Status::Ok();
}

void AddScale(const Node& node, int mask, IntegerProblem* integers) {
  integers->scaled = node.HasInput(kScalePort);
  if (!integers->scaled) return;
  const int64_t count = static_cast<int64_t>(node.inputs[kScalePort]->elements());
  integers->scales_mask = count == 1 ? 0 : mask;
  integers->operands.push_back(
      {DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, MemoryDesc::Dense({count}, dnnl_f32), kScalePort});
}

FinishRests::FinishRests(const Node& node, std::vector<int32_t> rests)
    : rests_(std::move(rests)),
      post_ops_(node),
      real_(node.outputs[0]->dtype == QNN_DATATYPE_FLOAT_32),
      biased_(Bias(node) != nullptr),
      scales_(node.HasInput(kScalePort) ? node.inputs[kScalePort]->elements() : 0) {
  if (scales_ > 1) {
    finish_ = biased_ ? PickIsa<RestRun<true, true>>() : PickIsa<RestRun<true, false>>();
  } else {
    finish_ = biased_ ? PickIsa<RestRun<false, true>>() : PickIsa<RestRun<false, false>>();
  }
}

void FinishRests::Run(const ExecArgs& args, const void* sums, size_t at, int32_t inputs) const {
  static constexpr float kOne = 1;
  const size_t n = rests_.size();
  if (!real_) {
    const int32_t* from = static_cast<const int32_t*>(sums);
    int32_t* to = static_cast<int32_t*>(args.out[0]) + at;
    for (size_t i = 0; i < n; ++i) to[i] = from[i] + rests_[i] * inputs;
    return;
  }
  const float* scale = scales_ == 0 ? &kOne : static_cast<const float*>(args.in[kScalePort]);
  const float* bias = biased_ ? static_cast<const float*>(args.in[kBiasPort]) : nullptr;
  float* out = static_cast<float*>(args.out[0]) + at;
  finish_(sums, rests_.data(), inputs, scale, bias, n, out);
  post_ops_.Apply(args, out, at, n);
}

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
