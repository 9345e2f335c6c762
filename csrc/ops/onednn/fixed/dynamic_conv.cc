// IntegerConv2d (ops/dynamic).
#include "ops/dynamic/loops.h"
#include "ops/onednn/fixed/dynamic.h"
#include "ops/onednn/fixed/encodings.h"
#include "ops/onednn/shapes.h"
#include "ops/rules.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <algorithm>

namespace qnnrt::onednn {
namespace {

ChannelOrder OrderOf(const Node& node) {
  ChannelOrder order;
  order.channels = node.inputs[1]->shape.back();
  order.axis = static_cast<int32_t>(node.inputs[1]->shape.size()) - 1;
  return order;
}

// `write` writes the weights, which lie as those of the node do.
Result<KernelPtr> MakeSums(const Node& node, const KernelOptions& options,
                           const std::function<Status(int8_t*)>& write) {
  const std::optional<ConvShape> c = ReadConvShape(node, false);
  if (!c || c->work < kLeastDynamicWork) return KernelPtr();
  const Tensor& in = *node.inputs[0];
  const Tensor& out = *node.outputs[0];
  IntegerProblem integers;
  integers.weights = write;
  QNNRT_RETURN_IF_ERROR(AddZero(node, kZero0Port, DNNL_ARG_SRC, &integers));
  AddScale(node, c->groups == 1 ? 1 : 3, &integers);
  ProductLayouts l(*c, ChannelLast(in, ByteType(in)), ChannelLast(out, SumType(out)), dnnl_s8);
  if (Bias(node) != nullptr) l.bias = MemoryDesc::Dense({c->cout}, dnnl_f32);
  integers.chain = PostOpChain(node, &l.dst);
  return MakeProduct(node, options, ThreadsForIntegers(node, options, c->work), *c, l, &integers);
}

// One more output channel of ones gives the sums of the inputs of each window.
class ConvWithRests final : public WithRests {
 public:
  ConvWithRests(KernelPtr inner, const Node& node, std::vector<int32_t> rests)
      : WithRests(std::move(inner), node, std::move(rests)),
        pixels_(node.outputs[0]->elements() / finish_.columns()),
        sums_bytes_(ScratchRoom(pixels_ * (finish_.columns() + 1) * sizeof(int32_t))) {}

  Status Run(const ExecArgs& args) override {
    int32_t* sums = static_cast<int32_t*>(args.scratch);
    void* out[] = {sums};
    QNNRT_RETURN_IF_ERROR(
        inner_->Run({args.in, out, static_cast<char*>(args.scratch) + sums_bytes_, args.threads}));
    const size_t n = finish_.columns();
    ForRows(args, pixels_, [&](size_t p) {
      const int32_t* row = sums + p * (n + 1);
      finish_.Run(args, row, p * n, row[n]);
    });
    return Status::Ok();
  }

  size_t ScratchBytes() const override { return sums_bytes_ + inner_->ScratchBytes(); }

 private:
  const size_t pixels_, sums_bytes_;
};

Result<KernelPtr> MakeWithRests(const Node& node, const KernelOptions& options,
                                const SignedWeights& as_signed) {
  const Tensor& weights = *node.inputs[1];
  if (node.Int("group") != 1) return KernelPtr();
  const size_t channels = weights.shape.back();
  Tensor wide = weights, out = *node.outputs[0];
  wide.shape.back() += 1;
  wide.data = AlignedBytes::Absent(wide.bytes());
  if (wide.data == nullptr) return OutOfMemory();
  out.shape.back() += 1;
  out.dtype = QNN_DATATYPE_INT_32;
  Node sums = node;
  sums.post_ops.clear();
  sums.inputs.resize(kZero0Port + 1);
  sums.inputs[1] = &wide;
  sums.inputs[kBiasPort] = nullptr;
  sums.outputs = {&out};
  const auto write = [&](int8_t* to) {
    const uint8_t* from = weights.data_as<uint8_t>();
    for (size_t i = 0; i < weights.elements(); i += channels, from += channels) {
      for (size_t c = 0; c < channels; ++c)
        *to++ = static_cast<int8_t>(from[c] + as_signed.shifts[c]);
      *to++ = 1;
    }
    return Status::Ok();
  };
  QNNRT_ASSIGN_OR_RETURN(KernelPtr inner, MakeSums(sums, options, write));
  if (!inner) return inner;
  return KernelPtr(new ConvWithRests(std::move(inner), node, as_signed.rests));
}

}  // namespace

Result<KernelPtr> MakeIntegerConv2d(const Node& node, const KernelOptions& options) {
  const Tensor& weights = *node.inputs[1];
  const std::optional<SignedWeights> as_signed = AsSigned(weights, OrderOf(node));
  const int64_t products = static_cast<int64_t>(weights.elements()) / weights.shape.back();
  if (!HasIntegerProducts() || !as_signed || products > kMostDynamicProducts) return KernelPtr();
  if (as_signed->has_rest()) return MakeWithRests(node, options, *as_signed);
  return MakeSums(node, options, [&](int8_t* to) {
    WriteShifted(weights, OrderOf(node), as_signed->shifts, to);
    return Status::Ok();
  });
}

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
