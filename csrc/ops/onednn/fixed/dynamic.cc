// Products of bytes whose scales and zero points are computed with them (ops/dynamic).
#include "ops/dynamic/dynamic.h"

#include "ops/onednn/fixed/encodings.h"
#include "ops/onednn/shapes.h"
#include "ops/onednn/staged.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <algorithm>
#include <cstring>

#include "ops/onednn/fixed/split16_loops.h"
#include "ops/post_ops.h"

namespace qnnrt::onednn {
namespace {

// Multiply-adds below which the portable kernel is done before oneDNN has started.
constexpr double kLeastWork = 20000;
// Sums of more products might not fit 32 bits: of differences of unsigned bytes, and signed ones.
constexpr int64_t kMostProducts = INT32_MAX / (255 * 255);

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

// oneDNN takes a right factor of signed bytes alone: unsigned ones are made so many less, and with
// them their zero point.
constexpr int32_t kSignedShift = 128;

class SignedZero final : public StagedInput {
 public:
  SignedZero(KernelPtr inner, size_t inputs)
      : StagedInput(std::move(inner), inputs, kZero1Port, sizeof(int32_t)) {}

 protected:
  void Stage(const void* from, void* to, const Threads&) const override {
    *static_cast<int32_t*>(to) = *static_cast<const int32_t*>(from) - kSignedShift;
  }
};

// The zero point of an argument, known or computed.
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

// Sums of s32 over weights that are signed but for a rest in each column (encodings.h):
//   sum((q - zero) x w) = sum((q - zero) x w8) + rest x sum(q - zero)
// The first one is in the output already; this adds the second, the scale and what follows.
// `per_column`: there is a scale for each column, not one for all.
template <bool per_column, bool biased>
struct RestRun {
  static QNNRT_INLINE void Run(void* row, const int32_t* rests, int32_t inputs, const float* scale,
                               const float* bias, size_t n) {
    char* bytes = static_cast<char*>(row);
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) {
      int32_t sum;
      std::memcpy(&sum, bytes + i * sizeof sum, sizeof sum);
      float x = static_cast<float>(sum + rests[i] * inputs) * scale[per_column ? i : 0];
      if constexpr (biased) x += bias[i];
      std::memcpy(bytes + i * sizeof x, &x, sizeof x);
    }
  }
};

class WithRests final : public Kernel {
 public:
  WithRests(KernelPtr inner, const Node& node, const MatMulShape& shape, std::vector<int32_t> rests)
      : inner_(std::move(inner)),
        rests_(std::move(rests)),
        post_ops_(node),
        rows_(static_cast<size_t>(shape.dst[0])),
        depth_(static_cast<size_t>(shape.src[1])),
        real_(node.outputs[0]->dtype == QNN_DATATYPE_FLOAT_32),
        scales_(node.HasInput(kScalePort) ? node.inputs[kScalePort]->elements() : 0),
        has_bias_(Bias(node) != nullptr),
        has_zero_(node.HasInput(kZero0Port)),
        zero_(IsFixed(node.inputs[0]->dtype) ? -node.inputs[0]->quantization.offsets[0] : 0) {
    sum_ = ByteType(*node.inputs[0]) == dnnl_u8 ? PickIsa<SumRun<uint8_t>>()
                                                : PickIsa<SumRun<int8_t>>();
    const bool per_column = scales_ > 1;
    finish_ = has_bias_
                  ? per_column ? PickIsa<RestRun<true, true>>() : PickIsa<RestRun<false, true>>()
              : per_column ? PickIsa<RestRun<true, false>>()
                           : PickIsa<RestRun<false, false>>();
  }

  Status Run(const ExecArgs& args) override {
    QNNRT_RETURN_IF_ERROR(inner_->Run(args));
    const char* codes = static_cast<const char*>(args.in[0]);
    const int32_t zero = has_zero_ ? *static_cast<const int32_t*>(args.in[kZero0Port]) : zero_;
    const size_t n = rests_.size();
    args.threads.For(rows_, kGrainBytes / (n * sizeof(float)) + 1, [&](size_t begin, size_t end) {
      for (size_t r = begin; r < end; ++r) {
        const int32_t inputs =
            sum_(codes + r * depth_, depth_) - zero * static_cast<int32_t>(depth_);
        Finish(args, r * n, inputs);
      }
    });
    return Status::Ok();
  }

  size_t ScratchBytes() const override { return inner_->ScratchBytes(); }
  bool ReadsInput(size_t i) const override { return i != 1; }  // which is packed
  const char* Name() const override { return inner_->Name(); }
  size_t WeightBytes() const override { return inner_->WeightBytes(); }

 private:
  static constexpr size_t kGrainBytes = 64 * 1024;  // worth a thread

  void Finish(const ExecArgs& args, size_t at, int32_t inputs) const {
    const size_t n = rests_.size();
    if (!real_) {
      int32_t* sums = static_cast<int32_t*>(args.out[0]) + at;
      for (size_t i = 0; i < n; ++i) sums[i] += rests_[i] * inputs;
      return;
    }
    static constexpr float kOne = 1;
    float* out = static_cast<float*>(args.out[0]) + at;
    const float* scale = scales_ == 0 ? &kOne : static_cast<const float*>(args.in[kScalePort]);
    const float* bias = has_bias_ ? static_cast<const float*>(args.in[kBiasPort]) : nullptr;
    finish_(out, rests_.data(), inputs, scale, bias, n);
    post_ops_.Apply(args, out, at, n);
  }

  const KernelPtr inner_;
  const std::vector<int32_t> rests_;
  const PostOps post_ops_;
  const size_t rows_, depth_;
  const bool real_;
  const size_t scales_;
  const bool has_bias_, has_zero_;
  const int32_t zero_;  // where it is known
  int32_t (*sum_)(const void*, size_t);
  decltype(PickIsa<RestRun<true, true>>()) finish_;
};

ChannelOrder OrderOf(const Node& node, const MatMulShape& o) {
  ChannelOrder order;
  const bool outside = node.Bool("transpose_in1");
  order.channels = o.dst.back();
  order.axis = static_cast<int32_t>(node.inputs[1]->shape.size()) - (outside ? 2 : 1);
  order.inner = outside ? static_cast<uint64_t>(o.src.back()) : 1;
  return order;
}

Result<KernelPtr> MakeSums(const Node& node, const KernelOptions& options, const MatMulShape& o,
                           const SignedWeights* as_signed);

// The sums of integers alone, and the kernel that makes them what the node gives.
Result<KernelPtr> MakeWithRests(const Node& node, const KernelOptions& options,
                                const MatMulShape& o, const SignedWeights& as_signed) {
  if (o.dst.size() != 2 || o.src_strides != Dims{o.src[1], 1}) return KernelPtr();
  SignedWeights exact = as_signed;
  std::fill(exact.rests.begin(), exact.rests.end(), 0);
  Node sums = node;
  Tensor out = *node.outputs[0];
  out.dtype = QNN_DATATYPE_INT_32;
  sums.outputs = {&out};
  sums.post_ops.clear();
  sums.inputs[kBiasPort] = sums.inputs[kScalePort] = nullptr;
  QNNRT_ASSIGN_OR_RETURN(KernelPtr inner, MakeSums(sums, options, o, &exact));
  if (!inner) return inner;
  return KernelPtr(new WithRests(std::move(inner), node, o, as_signed.rests));
}

}  // namespace

Result<KernelPtr> MakeIntegerMatMul(const Node& node, const KernelOptions& options) {
  const std::optional<MatMulShape> shape = ReadMatMulShape(node);
  const Tensor& weights = *node.inputs[1];
  if (!shape || !HasIntegerProducts() || shape->work() < kLeastWork ||
      shape->src.back() > kMostProducts) {
    return KernelPtr();
  }
  if (!weights.is_static()) return MakeSums(node, options, *shape, nullptr);
  const std::optional<SignedWeights> as_signed = AsSigned(weights, OrderOf(node, *shape));
  if (!as_signed) return KernelPtr();
  const std::vector<int32_t>& rests = as_signed->rests;
  if (std::count(rests.begin(), rests.end(), rests[0]) != static_cast<ptrdiff_t>(rests.size()))
    return MakeWithRests(node, options, *shape, *as_signed);
  return MakeSums(node, options, *shape, &*as_signed);
}

namespace {

// `as_signed`: of static weights, all with the same rest.
Result<KernelPtr> MakeSums(const Node& node, const KernelOptions& options, const MatMulShape& o,
                           const SignedWeights* as_signed) {
  const Tensor& weights = *node.inputs[1];
  const Tensor& out = *node.outputs[0];
  const size_t rank = o.dst.size();
  const int64_t columns = o.dst.back();
  IntegerProblem integers;
  QNNRT_RETURN_IF_ERROR(AddZero(node, kZero0Port, DNNL_ARG_SRC, &integers));
  if (as_signed != nullptr) {
    QNNRT_RETURN_IF_ERROR(KeepZero(DNNL_ARG_WEIGHTS, as_signed->rests[0], &integers));
    integers.weights = [&weights, order = OrderOf(node, o), as_signed](int8_t* to) {
      WriteShifted(weights, order, as_signed->shifts, to);
      return Status::Ok();
    };
  } else {
    QNNRT_RETURN_IF_ERROR(AddZero(node, kZero1Port, DNNL_ARG_WEIGHTS, &integers));
  }
  integers.scaled = node.HasInput(kScalePort);
  if (integers.scaled) {
    const int64_t count = static_cast<int64_t>(node.inputs[kScalePort]->elements());
    integers.scales_mask = count == 1 ? 0 : 1 << (rank - 1);
    integers.operands.push_back({DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS,
                                 MemoryDesc::Dense({count}, dnnl_f32), kScalePort});
  }

  Dims bias_dims(rank, 1);
  bias_dims[rank - 1] = columns;
  const Tensor* bias = Bias(node);
  const MemoryDesc src = MemoryDesc::Strided(o.src, o.src_strides, ByteType(*node.inputs[0]));
  const MemoryDesc lie = MemoryDesc::Strided(o.weights, o.weight_strides, dnnl_s8);
  const MemoryDesc any = MemoryDesc::Any(o.weights, dnnl_s8);
  const MemoryDesc bias_md =
      bias != nullptr ? MemoryDesc::Dense(bias_dims, dnnl_f32) : MemoryDesc();
  const MemoryDesc dst =
      MemoryDesc::Dense(o.dst, out.dtype == QNN_DATATYPE_INT_32 ? dnnl_s32 : dnnl_f32);
  integers.chain = PostOpChain(node, &dst);
  Problem problem{node,     ThreadsForIntegers(node, options, o.work()), {}, &dst, options.weights,
                  &integers};
  problem.args = {{DNNL_ARG_SRC, Arg::kIn, 0, &src},
                  {DNNL_ARG_WEIGHTS, Arg::kIn, 1, &lie},
                  {DNNL_ARG_DST, Arg::kOut, 0, &dst}};
  if (bias != nullptr) problem.args.push_back({DNNL_ARG_BIAS, Arg::kIn, kBiasPort, &bias_md});
  QNNRT_ASSIGN_OR_RETURN(
      KernelPtr kernel, MakePrimitiveKernel(problem, [&](dnnl_primitive_desc_t* desc,
                                                         const_dnnl_primitive_attr_t attr) {
        return o.Describe(desc, attr, src, weights.is_static() ? any : lie, bias_md, dst);
      }));
  if (!kernel || weights.is_static() || ByteType(weights) == dnnl_s8) return kernel;
  kernel = MakeSigned(std::move(kernel), node);
  if (!node.HasInput(kZero1Port)) return kernel;
  return KernelPtr(new SignedZero(std::move(kernel), node.inputs.size()));
}

}  // namespace
}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
