// The kernel of elementwise ops with one input.
#include "ops/elementwise/unary.h"

#include <algorithm>

#include "ops/rules.h"
#include "ops/stream.h"

namespace qnnrt {
namespace {

constexpr size_t kBlock = 1024;           // elements of a staging block, on the stack
constexpr size_t kGrainBytes = 64 << 10;  // of input, the least that is worth a thread

class UnaryKernel final : public Kernel {
 public:
  // `direct`: the loop is of the types that are stored.
  UnaryKernel(const Node& node, UnaryLoop loop, UnaryParams params, bool direct)
      : loop_(loop),
        params_(params),
        count_(node.outputs[0]->elements()),
        narrow_in_(direct ? nullptr : NarrowFloatOf(node.inputs[0]->dtype)),
        narrow_out_(direct ? nullptr : NarrowFloatOf(node.outputs[0]->dtype)),
        in_size_(ElementSize(node.inputs[0]->dtype)),
        out_size_(ElementSize(node.outputs[0]->dtype)) {}

  Status Run(const ExecArgs& args) override {
    const char* in = static_cast<const char*>(args.in[0]);
    char* out = static_cast<char*>(args.out[0]);
    const bool narrow = narrow_in_ != nullptr || narrow_out_ != nullptr;
    if (!narrow && count_ * in_size_ < kGrainBytes) {
      loop_(in, out, count_, params_);
      return {};
    }
    args.threads.For(count_, kGrainBytes / in_size_, [&](size_t begin, size_t end) {
      const char* x = in + begin * in_size_;
      char* o = out + begin * out_size_;
      if (narrow) return Narrow(x, o, end - begin);
      loop_(x, o, end - begin, params_);
    });
    return {};
  }

 private:
  // By blocks in the cache, as floats.
  void Narrow(const char* in, char* out, size_t n) const {
    alignas(64) float wide[kBlock];
    for (size_t i = 0; i < n; i += kBlock) {
      const size_t count = std::min(kBlock, n - i);
      const void* from = in + i * in_size_;
      if (narrow_in_ != nullptr) {
        narrow_in_->widen(static_cast<const uint16_t*>(from), wide, count);
        from = wide;
      }
      if (narrow_out_ != nullptr) {
        loop_(from, wide, count, params_);
        narrow_out_->narrow(wide, reinterpret_cast<uint16_t*>(out) + i, count);
      } else {
        loop_(from, out + i * out_size_, count, params_);
      }
    }
  }

  const UnaryLoop loop_;
  const UnaryParams params_;
  const size_t count_;
  const NarrowFloat *const narrow_in_, *const narrow_out_;  // null: not converted
  const size_t in_size_, out_size_;
};

}  // namespace

TypeSet UnaryTypes(const UnaryLoops& loops) {
  if (loops.real == nullptr) return types::kBool;
  return types::kFloat | loops.integers | (loops.wide != nullptr ? types::kF64 : TypeSet{0});
}

Result<KernelPtr> MakeUnaryKernel(const UnaryLoops& loops, const Node& node, UnaryParams params) {
  const Qnn_DataType_t type = node.inputs[0]->dtype;
  if (loops.brain != nullptr && type == QNN_DATATYPE_BFLOAT_16 && node.outputs[0]->dtype == type) {
    return KernelPtr(std::make_unique<UnaryKernel>(node, loops.brain, params, true));
  }
  const bool real = IsFloat(type);
  const bool stream = type == QNN_DATATYPE_FLOAT_32 &&
                      NarrowFloatOf(node.outputs[0]->dtype) == nullptr && loops.stream != nullptr &&
                      node.outputs[0]->bytes() >= kStreamBytes;
  const UnaryLoop loop = stream                          ? loops.stream
                         : real                          ? loops.real
                         : type == QNN_DATATYPE_FLOAT_64 ? loops.wide
                         : loops.other != nullptr        ? loops.other(type)
                                                         : nullptr;
  if (loop == nullptr) {
    return Invalid("input 0 is %s, for which this operation is not defined", DataTypeName(type));
  }
  return KernelPtr(std::make_unique<UnaryKernel>(node, loop, params, false));
}

}  // namespace qnnrt
