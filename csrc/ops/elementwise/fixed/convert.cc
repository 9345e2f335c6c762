// Quantize, Dequantize and Convert between floats and fixed-point numbers, one pass.
#include <algorithm>

#include "ops/fixed/codec.h"
#include "ops/fixed/kernels.h"
#include "ops/fixed/requantize.h"
#include "ops/strided_copy.h"

namespace qnnrt {
namespace {

constexpr size_t kBlock = 1024;       // elements as floats between the two types, on the stack
constexpr size_t kGrain = 32 * 1024;  // elements worth a thread

class FixedConvert : public Kernel {
 public:
  explicit FixedConvert(const Node& node) : count_(node.inputs[0]->elements()) {}

  Status Run(const ExecArgs& args) override {
    args.threads.For(count_, kGrain, [&](size_t begin, size_t end) {
      Convert(args.in[0], args.out[0], begin, end);
    });
    return {};
  }

 private:
  virtual void Convert(const void* in, void* out, size_t begin, size_t end) const = 0;

  const size_t count_;
};

// One of the two is a float.
class WithFloats final : public FixedConvert {
 public:
  explicit WithFloats(const Node& node)
      : FixedConvert(node),
        in_(*node.inputs[0]),
        out_(*node.outputs[0]),
        float_in_(node.inputs[0]->dtype == QNN_DATATYPE_FLOAT_32),
        float_out_(node.outputs[0]->dtype == QNN_DATATYPE_FLOAT_32) {}

 private:
  void Convert(const void* in, void* out, size_t begin, size_t end) const override {
    if (float_in_) return out_.Encode(static_cast<const float*>(in), out, begin, end);
    if (float_out_) return in_.Decode(in, static_cast<float*>(out), begin, end);
    alignas(64) float block[kBlock];
    for (size_t i = begin; i < end; i += kBlock) {
      const size_t count = std::min(kBlock, end - i);
      in_.Read(in, i, count, block);
      out_.Write(block, out, i, count);
    }
  }

  const Codec in_, out_;
  const bool float_in_, float_out_;
};

class Requantize final : public FixedConvert {
 public:
  explicit Requantize(const Node& node)
      : FixedConvert(node), requantizer_(*node.inputs[0], *node.outputs[0]) {}

 private:
  void Convert(const void* in, void* out, size_t begin, size_t end) const override {
    requantizer_.Run(in, out, begin, end);
  }

  const Requantizer requantizer_;
};

bool Real(Qnn_DataType_t type) { return IsFloat(type) || IsFixed(type); }

}  // namespace

Result<KernelPtr> MakeFixedConvert(const Node& node, const KernelOptions&) {
  const Tensor &in = *node.inputs[0], &out = *node.outputs[0];
  if (!Real(in.dtype) || !Real(out.dtype)) return KernelPtr();
  if (!IsFixed(in.dtype) || !IsFixed(out.dtype)) {
    return KernelPtr(std::make_unique<WithFloats>(node));
  }
  if (SameEncoding(in, out)) return MakePlainCopy(node);
  return KernelPtr(std::make_unique<Requantize>(node));
}

}  // namespace qnnrt
