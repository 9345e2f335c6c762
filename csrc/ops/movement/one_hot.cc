// OneHot: an index outside of [-depth, depth) gives a row of off values, as in ONNX.
#include <algorithm>
#include <cstring>

#include "abi/qnn_op_names.h"
#include "ops/movement/gather.h"
#include "ops/movement/indices.h"
#include "ops/strided_copy.h"

namespace qnnrt {
namespace {

class OneHotKernel final : public Kernel {
 public:
  OneHotKernel(const Node& node, size_t axis, const unsigned char on[8], const unsigned char off[8])
      : reader_(node.inputs[0]->dtype),
        outer_(Product(node.inputs[0]->shape, 0, axis)),
        inner_(Product(node.inputs[0]->shape, axis, node.inputs[0]->shape.size())),
        depth_(node.outputs[0]->shape[axis]),
        element_(ElementSize(node.outputs[0]->dtype)) {
    std::memcpy(on_, on, 8);
    std::memcpy(off_, off, 8);
  }

  Status Run(const ExecArgs& args) override {
    char* out = static_cast<char*>(args.out[0]);
    args.threads.For(outer_, 1 + (16 << 10) / (depth_ * inner_ + 1), [&](size_t begin, size_t end) {
      for (size_t o = begin; o < end; ++o) {
        char* slab = out + o * depth_ * inner_ * element_;
        FillElements(slab, off_, element_, depth_ * inner_ * element_);
        for (size_t k = 0; k < inner_; ++k) {
          const int64_t index = reader_.At(args.in[0], o * inner_ + k, depth_);
          if (index >= 0) Put(slab, static_cast<size_t>(index) * inner_ + k, on_);
        }
      }
    });
    return {};
  }

 private:
  void Put(char* base, size_t i, const unsigned char* value) const {
    std::memcpy(base + i * element_, value, element_);
  }

  const IndexReader reader_;
  const size_t outer_, inner_, depth_, element_;
  unsigned char on_[8], off_[8];
};

// The defaults are integers, which a fixed-point output stores as they are, as on the vendor's HTP
// backend. That takes no values there.
Status OnOff(const Node& node, unsigned char on[8], unsigned char off[8]) {
  QNNRT_RETURN_IF_ERROR(ScalarBytes(node, "on_value", *node.outputs[0], on));
  return ScalarBytes(node, "off_value", *node.outputs[0], off);
}

Status OneHotShape(const Node& node, std::vector<Shape>* outputs) {
  const Shape& in = node.inputs[0]->shape;
  const int64_t depth = node.Int("depth");
  unsigned char on[8], off[8];
  QNNRT_ASSIGN_OR_RETURN(const size_t axis, GetAxis(node, "axis", in.size() + 1));
  QNNRT_RETURN_IF_ERROR(OnOff(node, on, off));
  if (depth < 1 || depth > int64_t{UINT32_MAX}) {
    return Invalid("param 'depth' is %lld, expected a value in [1, 2^32)",
                   static_cast<long long>(depth));
  }
  (*outputs)[0] = in;
  (*outputs)[0].insert((*outputs)[0].begin() + static_cast<ptrdiff_t>(axis),
                       static_cast<uint32_t>(depth));
  return {};
}

Result<KernelPtr> MakeOneHot(const Node& node, const KernelOptions&) {
  const size_t rank = node.inputs[0]->shape.size();
  unsigned char on[8], off[8];
  QNNRT_ASSIGN_OR_RETURN(const size_t axis, GetAxis(node, "axis", rank + 1));
  QNNRT_RETURN_IF_ERROR(OnOff(node, on, off));
  return KernelPtr(std::make_unique<OneHotKernel>(node, axis, on, off));
}

}  // namespace

OpDef OneHotOp() {
  return {QNN_OP_ONE_HOT,
          {{"in[0]", types::kIndex, PortSpec::kOne, -1, 0, 7}},
          {{"out[0]", types::kAny}},
          {{"depth", ParamSpec::kInt, Required(), "size of the new dim"},
           {"axis", ParamSpec::kInt, Default(-1), "position of the new dim"},
           {"on_value", ParamSpec::kNumber, Default(1)},
           {"off_value", ParamSpec::kNumber, Default(0)}},
          OneHotShape,
          MakeOneHot,
          OpDef::kNativeHalf | OpDef::kMoves | OpDef::kFills};
}

}  // namespace qnnrt
