// CumulativeSum along one axis. Integers wrap.
#include <algorithm>
#include <type_traits>

#include "abi/qnn_op_names.h"
#include "ir/visit.h"
#include "ops/fixed/kernels.h"
#include "ops/reduce/reduce.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

template <typename T>
class ScanKernel final : public Kernel {
 public:
  ScanKernel(const Shape& shape, size_t axis, bool exclusive, bool reverse)
      : outer_(Product(shape, 0, axis)),
        n_(shape[axis]),
        inner_(Product(shape, axis + 1, shape.size())),
        exclusive_(exclusive),
        reverse_(reverse) {}

  Status Run(const ExecArgs& args) override {
    const T* in = static_cast<const T*>(args.in[0]);
    T* out = static_cast<T*>(args.out[0]);
    if (n_ == 0 || inner_ == 0) return {};
    args.threads.For(outer_, 1 + (16 << 10) / (n_ * inner_), [&](size_t begin, size_t end) {
      for (size_t o = begin; o < end; ++o) Slab(in + o * n_ * inner_, out + o * n_ * inner_);
    });
    return {};
  }

 private:
  static T Add(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    } else {
      return a + b;
    }
  }

  void Slab(const T* in, T* out) const {
    const ptrdiff_t step = (reverse_ ? -1 : 1) * static_cast<ptrdiff_t>(inner_);
    const size_t first = reverse_ ? (n_ - 1) * inner_ : 0;
    const T* x = in + first;
    T* o = out + first;
    if (inner_ == 1) {
      T sum{0};
      for (size_t i = 0; i < n_; ++i, x += step, o += step) {
        const T next = Add(sum, *x);
        *o = exclusive_ ? sum : next;
        sum = next;
      }
      return;
    }
    for (size_t k = 0; k < inner_; ++k) o[k] = exclusive_ ? T{0} : x[k];
    for (size_t i = 1; i < n_; ++i) {
      const T* add = exclusive_ ? x : x + step;
      for (size_t k = 0; k < inner_; ++k) o[step + static_cast<ptrdiff_t>(k)] = Add(o[k], add[k]);
      x += step, o += step;
    }
  }

  const size_t outer_, n_, inner_;
  const bool exclusive_, reverse_;
};

Result<KernelPtr> Make(const Node& node, const KernelOptions&) {
  const Shape& in = node.inputs[0]->shape;
  QNNRT_ASSIGN_OR_RETURN(const size_t axis, GetAxis(node, "axis", in.size()));
  return VisitNumber(node.inputs[0]->dtype, [&](auto t) -> Result<KernelPtr> {
    return KernelPtr(std::make_unique<ScanKernel<decltype(t)>>(in, axis, node.Bool("exclusive"),
                                                               node.Bool("reverse")));
  });
}

}  // namespace

OpDef CumulativeSumOp() {
  PortSpec in{"in[0]", types::kNumber};
  in.min_rank = 1;
  return {QNN_OP_CUMULATIVE_SUM,
          {in},
          {{"out[0]", types::kNumber, PortSpec::kOne, 0}},
          {{"axis", ParamSpec::kInt, Required(), ""},
           {"exclusive", ParamSpec::kBool, Default(false), "false: the element itself counts"},
           {"reverse", ParamSpec::kBool, Default(false)}},
          SameShapeAlongAxis,
          Make,
          OpDef::kNone,
          MakeFixedRows};
}

}  // namespace qnnrt
