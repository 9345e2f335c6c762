// Argmax, Argmin and TopK. Ties go to the lower index; a NaN counts as the largest value in Argmax
// and TopK, and as the smallest in Argmin (numpy's rule).
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

// Indices are counted in 32 bits, as sizes are, so that a loop over wide ones is no other one. They
// are not negative: INT_32 and UINT_32 hold the same bits.
bool IsWide(Qnn_DataType_t indices) { return indices == QNN_DATATYPE_INT_64; }

// Whether x comes strictly before y.
template <typename T, bool largest>
QNNRT_INLINE bool Before(T x, T y) {
  const bool unordered = (x != x) & (y == y);  // no branches: loops of these are vectorised
  return (largest ? x > y : x < y) | unordered;
}

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

// Most of a long row is worse than the k best so far, and is looked at a block at a time.
constexpr size_t kScan = 64;
template <typename T, bool largest>
struct AnyBefore {
  static QNNRT_INLINE bool Run(const T* x, T limit) {
    using Word = std::conditional_t<sizeof(T) == 8, uint64_t,
                                    std::conditional_t<sizeof(T) == 4, uint32_t, uint8_t>>;
    Word any = 0;
    QNNRT_SIMD_REDUCE(reduction(| : any))
    for (size_t i = 0; i < kScan; ++i) any |= Before<T, largest>(x[i], limit) ? Word{1} : Word{0};
    return any != 0;
  }
};

// The k best of each row, best first. The outputs themselves hold the heap, its root the worst of
// those kept; sorting it in place leaves them in order. Wide indices are made of those in 32 bits,
// which lie in the first half of their row until then.
template <typename T, bool largest>
class TopKKernel final : public Kernel {
 public:
  TopKKernel(size_t rows, size_t n, size_t k, bool wide) : rows_(rows), n_(n), k_(k), wide_(wide) {}

  Status Run(const ExecArgs& args) override {
    const T* in = static_cast<const T*>(args.in[0]);
    T* values = static_cast<T*>(args.out[0]);
    char* indices = static_cast<char*>(args.out[1]);
    const size_t row_bytes = k_ * (wide_ ? sizeof(int64_t) : sizeof(uint32_t));
    if (k_ == 0) return {};
    args.threads.For(rows_, 1 + kGrainElements / (4 * n_), [&](size_t begin, size_t end) {
      for (size_t r = begin; r < end; ++r) {
        char* const index = indices + r * row_bytes;
        Row(in + r * n_, values + r * k_, reinterpret_cast<uint32_t*>(index));
        if (wide_) Widen(index);
      }
    });
    return {};
  }

 private:
  // Whether (x, i) is to come after (y, j).
  static bool Worse(T x, uint32_t i, T y, uint32_t j) {
    if (Before<T, largest>(y, x)) return true;
    return !Before<T, largest>(x, y) && i > j;
  }
  static void Sift(T* v, uint32_t* index, size_t at, size_t size) {
    const T value = v[at];
    const uint32_t own = index[at];
    for (size_t child; (child = 2 * at + 1) < size; at = child) {
      if (child + 1 < size && Worse(v[child + 1], index[child + 1], v[child], index[child]))
        ++child;
      if (!Worse(v[child], index[child], value, own)) break;
      v[at] = v[child], index[at] = index[child];
    }
    v[at] = value, index[at] = own;
  }
  void Row(const T* x, T* v, uint32_t* index) const {
    for (size_t i = 0; i < k_; ++i) v[i] = x[i], index[i] = static_cast<uint32_t>(i);
    for (size_t i = k_ / 2; i-- > 0;) Sift(v, index, i, k_);
    // Of k best about k log(n / k) come late: most blocks have none where n is this much larger.
    const bool scan = n_ / k_ > 8 * kScan;
    for (size_t i = k_; i < n_;) {
      const size_t block = std::min(kScan, n_ - i);
      if (scan && block == kScan && !any_(x + i, v[0])) {
        i += kScan;
        continue;
      }
      for (const size_t end = i + block; i < end; ++i) {
        if (!Before<T, largest>(x[i], v[0])) continue;  // an equal one is later, so worse
        v[0] = x[i], index[0] = static_cast<uint32_t>(i);
        Sift(v, index, 0, k_);
      }
    }
    for (size_t size = k_; size-- > 1;) {
      std::swap(v[0], v[size]);
      std::swap(index[0], index[size]);
      Sift(v, index, 0, size);
    }
  }

  void Widen(char* row) const {
    for (size_t i = k_; i-- > 0;) {
      uint32_t index;
      std::memcpy(&index, row + i * sizeof(index), sizeof(index));
      const int64_t wide = index;
      std::memcpy(row + i * sizeof(wide), &wide, sizeof(wide));
    }
  }

  const size_t rows_, n_, k_;
  const bool wide_;
  const decltype(PickIsa<AnyBefore<T, largest>>()) any_ = PickIsa<AnyBefore<T, largest>>();
};

Status InferTopK(const Node& node, std::vector<Shape>* outputs) {
  const Shape& in = node.inputs[0]->shape;
  const int64_t k = node.Int("k");
  if (k < 0 || k > int64_t{in.back()}) {
    return Invalid("param 'k' is %lld, expected a value in [0, %u], the size of the last axis",
                   static_cast<long long>(k), in.back());
  }
  for (Shape& out : *outputs) {
    out = in;
    out.back() = static_cast<uint32_t>(k);
  }
  return {};
}

template <bool largest>
Result<KernelPtr> MakeTopK(const Node& node) {
  const Shape& in = node.inputs[0]->shape;
  const size_t rows = Product(in, 0, in.size() - 1), k = static_cast<size_t>(node.Int("k"));
  return VisitNumber(node.inputs[0]->dtype, [&](auto t) -> Result<KernelPtr> {
    const bool wide = IsWide(node.outputs[1]->dtype);
    return KernelPtr(std::make_unique<TopKKernel<decltype(t), largest>>(rows, in.back(), k, wide));
  });
}

Result<KernelPtr> MakeTopK(const Node& node, const KernelOptions&) {
  return node.Bool("largest") ? MakeTopK<true>(node) : MakeTopK<false>(node);
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
      {QNN_OP_TOP_K,
       {in},
       {{"out[0]", types::kNumber, PortSpec::kOne, 0}, {"out[1]", types::kIndex}},
       {{"k", ParamSpec::kInt, Required(), "at most the size of the last axis"},
        {"largest", ParamSpec::kBool, Default(true), "false: the smallest, smallest first"}},
       InferTopK,
       MakeTopK,
       OpDef::kMoves},
  };
  ops.back().sensitive_inputs = 1;
  return ops;
}

}  // namespace qnnrt
