// NonZero: the places of elements that are not 0, in the order that they lie in, one a row. How
// many rows there are is the client's choice: those without a place are -1, as on the vendor's HTP
// backend, and too few fail the run.
#include <algorithm>

#include "abi/qnn_op_names.h"
#include "ir/visit.h"
#include "ops/movement/gather.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

class NonZeroKernel final : public Kernel {
 public:
  explicit NonZeroKernel(const Node& node)
      : in_(node.inputs[0]->shape),
        count_(node.inputs[0]->elements()),
        room_(node.outputs[0]->shape[0]),
        in_type_(node.inputs[0]->dtype),
        wide_(node.outputs[0]->dtype == QNN_DATATYPE_INT_64) {}

  Status Run(const ExecArgs& args) override {
    return wide_ ? Places(args, static_cast<int64_t*>(args.out[0]))
                 : Places(args, static_cast<int32_t*>(args.out[0]));
  }

 private:
  // -1 and places have the same bits in both types of 32 bits.
  template <typename Index>
  Status Places(const ExecArgs& args, Index* out) const {
    size_t found = 0;
    const auto scan = [&](const auto* x) {
      for (size_t i = 0; i < count_; ++i) {
        if (x[i] == 0) continue;
        if (found++ >= room_) continue;
        size_t rest = i;
        for (size_t d = in_.size(); d-- > 0; rest /= in_[d]) {
          out[(found - 1) * in_.size() + d] = static_cast<Index>(rest % in_[d]);
        }
      }
    };
    if (in_type_ == QNN_DATATYPE_BOOL_8) {
      scan(static_cast<const uint8_t*>(args.in[0]));
    } else {
      VisitNumber(in_type_, [&](auto t) { scan(static_cast<const decltype(t)*>(args.in[0])); });
    }
    if (found > room_) {
      return Error(QNN_GRAPH_ERROR_INVALID_ARGUMENT,
                   "%zu elements are not 0, and the output has room for %zu: declare it larger",
                   found, room_);
    }
    std::fill(out + found * in_.size(), out + room_ * in_.size(), static_cast<Index>(-1));
    return {};
  }

  const Shape in_;
  const size_t count_, room_;
  const Qnn_DataType_t in_type_;
  const bool wide_;
};

Status NonZeroShape(const Node& node, std::vector<Shape>* outputs) {
  const uint32_t rank = static_cast<uint32_t>(node.inputs[0]->shape.size());
  for (const uint32_t size : node.inputs[0]->shape) {
    if (size > INT32_MAX) return Invalid("input 0 has a dim of %u, above 2^31 - 1", size);
  }
  // A node without room is left out of the graph, and with it the check of what was found.
  if (node.outputs[0]->shape[0] == 0 && node.inputs[0]->elements() != 0) {
    return Invalid("output 0 has room for 0 places, and input 0 has %zu elements that may not be 0",
                   node.inputs[0]->elements());
  }
  (*outputs)[0] = {node.outputs[0]->shape[0], rank};
  return {};
}

Result<KernelPtr> MakeNonZero(const Node& node, const KernelOptions&) {
  return KernelPtr(std::make_unique<NonZeroKernel>(node));
}

}  // namespace

OpDef NonZeroOp() {
  return {QNN_OP_NON_ZERO,
          {{"in[0]", types::kAny, PortSpec::kOne, -1, 1, 8}},
          {{"out[0]", types::kIndex, PortSpec::kOne, -1, 2, 2}},
          {},
          NonZeroShape,
          MakeNonZero};
}

}  // namespace qnnrt
