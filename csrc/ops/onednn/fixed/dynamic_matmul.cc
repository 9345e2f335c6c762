// IntegerMatMul (ops/dynamic).
#include "ops/dynamic/loops.h"
#include "ops/onednn/fixed/dynamic.h"
#include "ops/onednn/fixed/encodings.h"
#include "ops/onednn/shapes.h"
#include "ops/onednn/staged.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <algorithm>

#include "ops/onednn/fixed/split16_loops.h"

namespace qnnrt::onednn {
namespace {

class SignedZero final : public StagedInput {
 public:
  SignedZero(KernelPtr inner, size_t inputs)
      : StagedInput(std::move(inner), inputs, kZero1Port, sizeof(int32_t)) {}

 protected:
  void Stage(const void* from, void* to, const Threads&) const override {
    *static_cast<int32_t*>(to) = *static_cast<const int32_t*>(from) - kSignedShift;
  }
};

// `inner` writes sums to the output; the rows of the left factor are added up here.
class ProductWithRests final : public WithRests {
 public:
  ProductWithRests(KernelPtr inner, const Node& node, const MatMulShape& shape,
                   std::vector<int32_t> rests)
      : WithRests(std::move(inner), node, std::move(rests)),
        in_(node, 0),
        rows_(static_cast<size_t>(shape.dst[0])),
        depth_(static_cast<size_t>(shape.src[1])),
        sum_(ByteType(*node.inputs[0]) == dnnl_u8 ? PickIsa<SumRun<uint8_t>>()
                                                  : PickIsa<SumRun<int8_t>>()) {}

  Status Run(const ExecArgs& args) override {
    QNNRT_RETURN_IF_ERROR(inner_->Run(args));
    const char* codes = static_cast<const char*>(args.in[0]);
    const int32_t zeros = in_.Zero(args) * static_cast<int32_t>(depth_);
    const size_t n = finish_.columns();
    ForRows(args, rows_, [&](size_t r) {
      finish_.Run(args, static_cast<const int32_t*>(args.out[0]) + r * n, r * n,
                  sum_(codes + r * depth_, depth_) - zeros);
    });
    return Status::Ok();
  }

 private:
  const ByteInput in_;
  const size_t rows_, depth_;
  int32_t (*sum_)(const void*, size_t);
};

ChannelOrder OrderOf(const Node& node, const MatMulShape& o) {
  ChannelOrder order;
  const bool outside = node.Bool("transpose_in1");
  order.channels = o.dst.back();
  order.axis = static_cast<int32_t>(node.inputs[1]->shape.size()) - (outside ? 2 : 1);
  order.inner = outside ? static_cast<uint64_t>(o.src.back()) : 1;
  return order;
}

// `as_signed`: of static weights, all with the same rest.
Result<KernelPtr> MakeSums(const Node& node, const KernelOptions& options, const MatMulShape& o,
                           const SignedWeights* as_signed) {
  const Tensor& weights = *node.inputs[1];
  const size_t rank = o.dst.size();
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
  AddScale(node, 1 << (rank - 1), &integers);

  ProductLayouts l(o, MemoryDesc::Strided(o.src, o.src_strides, ByteType(*node.inputs[0])),
                   MemoryDesc::Dense(o.dst, SumType(*node.outputs[0])), dnnl_s8);
  if (Bias(node) != nullptr) l.bias = MemoryDesc::Dense(o.bias(), dnnl_f32);
  integers.chain = PostOpChain(node, &l.dst);
  QNNRT_ASSIGN_OR_RETURN(
      KernelPtr kernel,
      MakeProduct(node, options, ThreadsForIntegers(node, options, o.work()), o, l, &integers));
  if (!kernel || weights.is_static() || ByteType(weights) == dnnl_s8) return kernel;
  kernel = MakeSigned(std::move(kernel), node);
  if (!node.HasInput(kZero1Port)) return kernel;
  return KernelPtr(new SignedZero(std::move(kernel), node.inputs.size()));
}

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
  sums.inputs.resize(kZero0Port + 1);
  sums.inputs[kBiasPort] = nullptr;
  QNNRT_ASSIGN_OR_RETURN(KernelPtr inner, MakeSums(sums, options, o, &exact));
  if (!inner) return inner;
  return KernelPtr(new ProductWithRests(std::move(inner), node, o, as_signed.rests));
}

}  // namespace

Result<KernelPtr> MakeIntegerMatMul(const Node& node, const KernelOptions& options) {
  const std::optional<MatMulShape> shape = ReadMatMulShape(node);
  const Tensor& weights = *node.inputs[1];
  if (!shape || !HasIntegerProducts() || shape->work() < kLeastDynamicWork ||
      shape->src.back() > kMostDynamicProducts) {
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

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
