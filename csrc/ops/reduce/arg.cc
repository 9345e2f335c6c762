// Argmax and Argmin. Ties go to the lower index; a NaN comes before all other values.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "abi/qnn_op_names.h"
#include "ir/visit.h"
#include "ops/isa.h"
#include "ops/reduce/best.h"
#include "ops/reduce/reduce.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

constexpr size_t kGrainElements = 16 << 10;
constexpr size_t kColumns = 128;
constexpr size_t kShort = 16;  // rows shorter than that are turned, and searched side by side

// Where in a row the best value is: first its value, then the first index that has it.
template <typename T, bool largest>
struct BestInRow {
  static QNNRT_INLINE size_t Run(const void* in, size_t n) {
    const T* x = static_cast<const T*>(in);
    const T best = BestOf<T, largest>(x, n);
    size_t i = 0;
    if (best != best) {
      while (i + 1 < n && x[i] == x[i]) ++i;
      return i;
    }
    constexpr size_t kBlock = 256;
    for (; i + kBlock < n; i += kBlock) {
      uint32_t found = 0;
      QNNRT_SIMD_REDUCE(reduction(| : found))
      for (size_t k = i; k < i + kBlock; ++k) found |= x[k] == best ? 1u : 0u;
      if (found != 0) break;
    }
    while (i + 1 < n && x[i] != best) ++i;
    return i;
  }
};

template <typename T, bool largest>
class ArgKernel final : public Kernel {
 public:
  ArgKernel(const Shape& shape, size_t axis, bool wide)
      : outer_(Product(shape, 0, axis)),
        n_(shape[axis]),
        inner_(Product(shape, axis + 1, shape.size())),
        wide_(wide) {}

  Status Run(const ExecArgs& args) override {
    const T* in = static_cast<const T*>(args.in[0]);
    uint32_t* out = static_cast<uint32_t*>(args.out[0]);
    int64_t* wide = static_cast<int64_t*>(args.out[0]);
    if (inner_ == 1 && n_ < kShort) {
      args.threads.For(outer_, 1 + kGrainElements / n_, [&](size_t begin, size_t end) {
        for (size_t r = begin; r < end; r += kColumns) {
          const size_t rows = std::min(kColumns, end - r);
          T turned[kShort * kColumns];
          for (size_t i = 0; i < n_; ++i) {
            for (size_t k = 0; k < rows; ++k) turned[i * kColumns + k] = in[(r + k) * n_ + i];
          }
          uint32_t own[kColumns];
          Band(turned, kColumns, wide_ ? own : out + r, rows);
          if (wide_) std::copy_n(own, rows, wide + r);
        }
      });
      return {};
    }
    if (inner_ == 1) {
      args.threads.For(outer_, 1 + kGrainElements / n_, [&](size_t begin, size_t end) {
        for (size_t r = begin; r < end; ++r) {
          const size_t index = row_(in + r * n_, n_);
          if (wide_) {
            wide[r] = static_cast<int64_t>(index);
          } else {
            out[r] = static_cast<uint32_t>(index);
          }
        }
      });
      return {};
    }
    const size_t parts = (inner_ + kColumns - 1) / kColumns;
    args.threads.For(
        outer_ * parts, 1 + kGrainElements / (n_ * kColumns), [&](size_t begin, size_t end) {
          for (size_t u = begin; u < end; ++u) {
            const size_t first = u % parts * kColumns;
            const size_t columns = std::min(kColumns, inner_ - first);
            const size_t to = u / parts * inner_ + first;
            uint32_t own[kColumns];
            Band(in + u / parts * n_ * inner_ + first, inner_, wide_ ? own : out + to, columns);
            if (wide_) std::copy_n(own, columns, wide + to);
          }
        });
    return {};
  }

 private:
  void Band(const T* in, size_t stride, uint32_t* out, size_t columns) const {
    if (n_ == 1) {
      std::fill_n(out, columns, 0u);
      return;
    }
    T best[kColumns];
    const T* second = in + stride;
    for (size_t k = 0; k < columns; ++k) {
      const bool before = Before<T, largest>(second[k], in[k]);
      best[k] = before ? second[k] : in[k];
      out[k] = before ? 1u : 0u;
    }
    for (size_t i = 2; i < n_; ++i) {
      const T* x = in + i * stride;
      for (size_t k = 0; k < columns; ++k) {
        const bool before = Before<T, largest>(x[k], best[k]);
        best[k] = before ? x[k] : best[k];
        out[k] = before ? static_cast<uint32_t>(i) : out[k];
      }
    }
  }

  const size_t outer_, n_, inner_;
  const bool wide_;
  static auto PickRow() {
    if constexpr (std::is_same_v<T, float>) {
      return PickIsa<BestInRow<T, largest>>();
    } else {
      return &BestInRow<T, largest>::Run;
    }
  }
  size_t (*const row_)(const void*, size_t) = PickRow();
};

Status InferArg(const Node& node, std::vector<Shape>* outputs) {
  const Shape& in = node.inputs[0]->shape;
  QNNRT_ASSIGN_OR_RETURN(const size_t axis, GetAxis(node, "axis", in.size()));
  if (in[axis] == 0) return Invalid("axis %zu of the input has no elements", axis);
  Shape& out = (*outputs)[0] = in;
  if (node.Bool("keep_dims")) {
    out[axis] = 1;
  } else {
    out.erase(out.begin() + static_cast<ptrdiff_t>(axis));
  }
  return {};
}

template <bool largest>
Result<KernelPtr> MakeArg(const Node& node, const KernelOptions&) {
  const Shape& in = node.inputs[0]->shape;
  QNNRT_ASSIGN_OR_RETURN(const size_t axis, GetAxis(node, "axis", in.size()));
  return VisitNumber(node.inputs[0]->dtype, [&](auto t) -> Result<KernelPtr> {
    const bool wide = IsWide(node.outputs[0]->dtype);
    return KernelPtr(std::make_unique<ArgKernel<decltype(t), largest>>(in, axis, wide));
  });
}

}  // namespace

OpList ArgOps() {
  PortSpec in{"in[0]", types::kNumber};
  in.min_rank = 1;
  const PortSpec index{"out[0]", types::kIndex};
  const std::vector<ParamSpec> params = {{"axis", ParamSpec::kInt, Required(), ""},
                                         {"keep_dims", ParamSpec::kBool, Default(false)}};
  OpList ops = {
      {QNN_OP_ARGMAX, {in}, {index}, params, InferArg, MakeArg<true>, OpDef::kMoves | OpDef::kLpai},
      {QNN_OP_ARGMIN,
       {in},
       {index},
       params,
       InferArg,
       MakeArg<false>,
       OpDef::kMoves | OpDef::kLpai},
      TopKOp(),
  };
  return ops;
}

}  // namespace qnnrt
