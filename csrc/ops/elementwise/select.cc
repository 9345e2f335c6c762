// ElementWiseSelect: out = in[0] ? in[1] : in[2], all three broadcasting. Elements are moved as
// they are, so a type is no more than its size.
#include "ops/elementwise/select.h"

#include "abi/qnn_op_names.h"
#include "ops/broadcast.h"
#include "ops/fixed/kernels.h"
#include "ops/isa.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

using Loop = void (*)(const uint8_t* condition, const void* a, const void* b, void* out, size_t n);

// S: 1 where that input runs along, 0 where it is one value
template <typename T, size_t SC, size_t SA, size_t SB>
struct Rows {
  static QNNRT_INLINE void Run(const uint8_t* condition, const void* a, const void* b, void* out,
                               size_t n) {
    const T* x = static_cast<const T*>(a);
    const T* y = static_cast<const T*>(b);
    T* o = static_cast<T*>(out);
    // One value is read before the loop: inside of it the compiler would have to load it only where
    // it is chosen, and would not make vectors.
    const uint8_t c0 = *condition;
    const T x0 = *x, y0 = *y;
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) {
      const T a_i = SA != 0 ? x[i] : x0, b_i = SB != 0 ? y[i] : y0;
      o[i] = (SC != 0 ? condition[i] : c0) != 0 ? a_i : b_i;
    }
  }
};

template <typename T>
Loop ForStrides(size_t sc, size_t sa, size_t sb) {
  switch (sc * 4 + sa * 2 + sb) {
    case 7:
      return PickIsa<Rows<T, 1, 1, 1>>();
    case 6:
      return PickIsa<Rows<T, 1, 1, 0>>();
    case 5:
      return PickIsa<Rows<T, 1, 0, 1>>();
    case 4:
      return PickIsa<Rows<T, 1, 0, 0>>();
    case 3:
      return Rows<T, 0, 1, 1>::Run;
    case 2:
      return Rows<T, 0, 1, 0>::Run;
    case 1:
      return Rows<T, 0, 0, 1>::Run;
    default:
      return Rows<T, 0, 0, 0>::Run;
  }
}

Loop Pick(size_t size, size_t sc, size_t sa, size_t sb) {
  switch (size) {
    case 1:
      return ForStrides<uint8_t>(sc, sa, sb);
    case 2:
      return ForStrides<uint16_t>(sc, sa, sb);
    case 4:
      return ForStrides<uint32_t>(sc, sa, sb);
    default:
      return ForStrides<uint64_t>(sc, sa, sb);
  }
}

class SelectKernel final : public Kernel {
 public:
  explicit SelectKernel(const Node& node)
      : plan_(node.outputs[0]->shape,
              {&node.inputs[0]->shape, &node.inputs[1]->shape, &node.inputs[2]->shape}),
        size_(ElementSize(node.outputs[0]->dtype)),
        loop_(Pick(size_, plan_.inner_stride(0), plan_.inner_stride(1), plan_.inner_stride(2))) {}

  Status Run(const ExecArgs& args) override {
    const uint8_t* condition = static_cast<const uint8_t*>(args.in[0]);
    const char* a = static_cast<const char*>(args.in[1]);
    const char* b = static_cast<const char*>(args.in[2]);
    char* out = static_cast<char*>(args.out[0]);
    args.threads.For(plan_.total, (128 << 10) / size_, [&](size_t begin, size_t end) {
      plan_.ForRuns(begin, end, [&](const std::array<size_t, 3>& offset, size_t o, size_t n) {
        loop_(condition + offset[0], a + offset[1] * size_, b + offset[2] * size_, out + o * size_,
              n);
      });
    });
    return {};
  }

 private:
  const BroadcastPlan<3> plan_;
  const size_t size_;
  const Loop loop_;
};

Status Rule(const Node& node, std::vector<Shape>* outputs) {
  const Shape &c = node.inputs[0]->shape, &a = node.inputs[1]->shape, &b = node.inputs[2]->shape;
  Shape both;
  if (BroadcastShape(a, b, &both) && BroadcastShape(c, both, &(*outputs)[0])) return {};
  return Invalid("inputs of shapes %s, %s and %s do not broadcast", ShapeText(c).c_str(),
                 ShapeText(a).c_str(), ShapeText(b).c_str());
}

Result<KernelPtr> Make(const Node& node, const KernelOptions&) {
  return KernelPtr(std::make_unique<SelectKernel>(node));
}

}  // namespace

OpDef SelectOp() {
  return {
      QNN_OP_ELEMENT_WISE_SELECT,
      {{"in[0]", types::kBool}, {"in[1]", types::kAny}, {"in[2]", types::kAny, PortSpec::kOne, 1}},
      {{"out[0]", types::kAny, PortSpec::kOne, 1}},
      {},
      Rule,
      Make,
      OpDef::kInPlace | OpDef::kNativeHalf | OpDef::kMoves,
      MakeFixedSelect};
}

}  // namespace qnnrt
