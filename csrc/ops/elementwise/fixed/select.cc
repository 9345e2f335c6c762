// ElementWiseSelect between fixed-point numbers of unequal encodings. (Of equal ones it moves the
// integers, elementwise/select.cc.)
#include <algorithm>

#include "ops/broadcast.h"
#include "ops/fixed/codec.h"
#include "ops/fixed/kernels.h"
#include "ops/isa.h"

namespace qnnrt {
namespace {

constexpr size_t kBlock = 1024;       // elements of a block, on the stack
constexpr size_t kGrain = 16 * 1024;  // elements worth a thread

struct Choose {
  static QNNRT_INLINE void Run(const uint8_t* condition, const float* a, const float* b, float* out,
                               size_t n) {
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) {
      const float x = a[i], y = b[i];  // both, or the compiler would have to branch
      out[i] = condition[i] != 0 ? x : y;
    }
  }
};

class FixedSelect final : public Kernel {
 public:
  explicit FixedSelect(const Node& node)
      : plan_(node.outputs[0]->shape,
              {&node.inputs[0]->shape, &node.inputs[1]->shape, &node.inputs[2]->shape}),
        in_{Codec(*node.inputs[1]), Codec(*node.inputs[2])},
        out_(*node.outputs[0]) {}

  Status Run(const ExecArgs& args) override {
    args.threads.For(plan_.total, kGrain, [&](size_t begin, size_t end) {
      plan_.ForRuns(begin, end, [&](const std::array<size_t, 3>& offset, size_t out, size_t n) {
        RunPiece(args, offset, out, n);
      });
    });
    return {};
  }

 private:
  void RunPiece(const ExecArgs& args, const std::array<size_t, 3>& offset, size_t out,
                size_t n) const {
    alignas(64) float values[2][kBlock];
    alignas(64) uint8_t repeated[kBlock];
    const uint8_t* condition = static_cast<const uint8_t*>(args.in[0]) + offset[0];
    for (size_t i = 0; i < n; i += kBlock) {
      const size_t count = std::min(kBlock, n - i);
      if (plan_.inner_stride(0) == 0 && i == 0) std::fill_n(repeated, count, *condition);
      for (size_t k = 0; k < 2; ++k) Load(args, k, offset[k + 1], i, count, values[k]);
      choose_(plan_.inner_stride(0) == 0 ? repeated : condition + i, values[0], values[1],
              values[0], count);
      out_.Write(values[0], args.out[0], out + i, count);
    }
  }

  void Load(const ExecArgs& args, size_t k, size_t offset, size_t i, size_t count,
            float* values) const {
    if (plan_.inner_stride(k + 1) != 0) {
      return in_[k].Read(args.in[k + 1], offset + i, count, values);
    }
    in_[k].Read(args.in[k + 1], offset, 1, values);
    std::fill_n(values, count, *values);
  }

  const BroadcastPlan<3> plan_;
  const Codec in_[2], out_;
  const decltype(PickIsa<Choose>()) choose_ = PickIsa<Choose>();
};

}  // namespace

Result<KernelPtr> MakeFixedSelect(const Node& node, const KernelOptions&) {
  for (const Tensor* tensor : {node.inputs[1], node.inputs[2], node.outputs[0]}) {
    if (!IsFixed(tensor->dtype)) return KernelPtr();
  }
  return KernelPtr(std::make_unique<FixedSelect>(node));
}

}  // namespace qnnrt
