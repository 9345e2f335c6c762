// Quantize, Dequantize and Convert between floats and fixed-point numbers, one pass.
#include <algorithm>

#include "ops/fixed.h"
#include "ops/fixed_kernels.h"
#include "ops/lookup.h"
#include "ops/strided_copy.h"

namespace qnnrt {
namespace {

constexpr size_t kBlock = 1024;       // elements as floats between the two types, on the stack
constexpr size_t kGrain = 32 * 1024;  // elements worth a thread

class FixedConvert final : public Kernel {
 public:
  explicit FixedConvert(const Node& node)
      : in_(*node.inputs[0]),
        out_(*node.outputs[0]),
        float_in_(node.inputs[0]->dtype == QNN_DATATYPE_FLOAT_32),
        float_out_(node.outputs[0]->dtype == QNN_DATATYPE_FLOAT_32),
        same_(SameEncoding(*node.inputs[0], *node.outputs[0]) &&
              node.inputs[0]->quantization.bitwidth == node.outputs[0]->quantization.bitwidth),
        count_(node.inputs[0]->elements()),
        size_(ElementSize(node.inputs[0]->dtype)) {}

  const char* Name() const override { return "portable"; }

  Status Run(const ExecArgs& args) override {
    if (same_) {
      ParallelCopy(args.threads, static_cast<char*>(args.out[0]),
                   static_cast<const char*>(args.in[0]), count_ * size_);
      return {};
    }
    args.threads.For(count_, kGrain, [&](size_t begin, size_t end) {
      const float* reals = static_cast<const float*>(args.in[0]);
      if (float_in_) return out_.Encode(reals, args.out[0], begin, end);
      if (float_out_) return in_.Decode(args.in[0], static_cast<float*>(args.out[0]), begin, end);
      Through(args.in[0], args.out[0], begin, end);
    });
    return {};
  }

 private:
  void Through(const void* in, void* out, size_t begin, size_t end) const {
    alignas(64) float block[kBlock];
    for (size_t i = begin; i < end; i += kBlock) {
      const size_t count = std::min(kBlock, end - i);
      in_.Read(in, i, count, block);
      out_.Write(block, out, i, count);
    }
  }

  const Codec in_, out_;
  const bool float_in_, float_out_, same_;
  const size_t count_, size_;
};

// From one fixed-point type of 8 bits to another type: a table.
class Recode final : public Kernel {
 public:
  explicit Recode(const Node& node)
      : count_(node.inputs[0]->elements()), table_(ElementSize(node.outputs[0]->dtype)) {
    uint8_t codes[256];
    for (size_t i = 0; i < 256; ++i) codes[i] = static_cast<uint8_t>(i);
    float reals[256];
    Codec(*node.inputs[0]).Read(codes, 0, 256, reals);
    Codec(*node.outputs[0]).Write(reals, table_.entries(), 0, 256);
  }

  const char* Name() const override { return "portable"; }

  Status Run(const ExecArgs& args) override {
    table_.Run(args.threads, args.in[0], args.out[0], count_);
    return {};
  }

 private:
  const size_t count_;
  ByteTable table_;
};

bool Tabulated(const Tensor& in, const Tensor& out) {
  return ElementSize(in.dtype) == 1 && ElementSize(out.dtype) <= 2 && in.quantization.axis < 0 &&
         out.quantization.axis < 0 && !SameEncoding(in, out);
}

bool Real(Qnn_DataType_t type) {
  return type == QNN_DATATYPE_FLOAT_32 || type == QNN_DATATYPE_FLOAT_16 || IsFixed(type);
}

}  // namespace

Result<KernelPtr> MakeFixedConvert(const Node& node, const KernelOptions&) {
  if (!Real(node.inputs[0]->dtype) || !Real(node.outputs[0]->dtype)) return KernelPtr();
  if (Tabulated(*node.inputs[0], *node.outputs[0])) {
    return KernelPtr(std::make_unique<Recode>(node));
  }
  return KernelPtr(std::make_unique<FixedConvert>(node));
}

}  // namespace qnnrt
