// Reductions over any set of axes. Floats are added in blocks of 64 terms, and these in double;
// integers in 64 bits, wrapping, and compared in their own. The mean of integers is truncated. NaN
// wins in Max and Min.
#include "ops/reduce/reduce.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <type_traits>

#include "abi/qnn_op_names.h"
#include "ir/visit.h"
#include "ops/fixed/kernels.h"
#include "ops/isa.h"
#include "ops/reduce/best.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

constexpr size_t kGrainElements = 16 << 10;
constexpr size_t kLanes = 16;
constexpr size_t kColumns = 128;  // outputs that one pass over the reduced dims makes together
constexpr size_t kBlock = 64;     // terms for each lane or column before they are merged

enum class Reduction { kMax, kMean, kMin, kProd, kSum, kSumSquare };

template <typename A>
QNNRT_INLINE A WrapAdd(A a, A b) {
  if constexpr (std::is_integral_v<A>) {
    return static_cast<A>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}
template <typename A>
QNNRT_INLINE A WrapMultiply(A a, A b) {
  if constexpr (std::is_integral_v<A>) {
    return static_cast<A>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return a * b;
  }
}

template <Reduction r, typename A>
struct Rule {
  static constexpr bool kIsSum =
      r == Reduction::kSum || r == Reduction::kMean || r == Reduction::kSumSquare;
  static QNNRT_INLINE A Start() {
    if constexpr (kIsSum) return A{0};
    if constexpr (r == Reduction::kProd) return A{1};
    if constexpr (r == Reduction::kMax) return WorstOf<A, true>();
    if constexpr (r == Reduction::kMin) return WorstOf<A, false>();
  }
  static QNNRT_INLINE A Merge(A a, A b) {
    if constexpr (kIsSum) return WrapAdd(a, b);
    if constexpr (r == Reduction::kProd) return WrapMultiply(a, b);
    if constexpr (r == Reduction::kMax) return ((b > a) | (b != b)) ? b : a;
    if constexpr (r == Reduction::kMin) return ((b < a) | (b != b)) ? b : a;
  }
  static QNNRT_INLINE A Step(A a, A x) {
    if constexpr (r == Reduction::kSumSquare) {
      return WrapAdd(a, WrapMultiply(x, x));
    } else {
      return Merge(a, x);
    }
  }
};

// n contiguous values (a block: at most kLanes x kBlock) into one
template <Reduction r, typename A>
struct Row {
  static QNNRT_INLINE A Run(const A* x, size_t n) {
    using R = Rule<r, A>;
    if constexpr (r == Reduction::kMax) return BestOf<A, true>(x, n);
    if constexpr (r == Reduction::kMin) return BestOf<A, false>(x, n);
    A lane[kLanes];
    for (size_t k = 0; k < kLanes; ++k) lane[k] = R::Start();
    size_t i = 0;
    if constexpr (std::is_floating_point_v<A>) {
      typedef A Lanes __attribute__((vector_size(kLanes * sizeof(A))));
      Lanes all, next;  // stay in registers, as an array does not
      std::memcpy(&all, lane, sizeof(all));
      for (; i + kLanes <= n; i += kLanes) {
        std::memcpy(&next, x + i, sizeof(next));
        if constexpr (r == Reduction::kProd) all *= next;
        if constexpr (r == Reduction::kSumSquare) all += next * next;
        if constexpr (r == Reduction::kSum || r == Reduction::kMean) all += next;
      }
      std::memcpy(lane, &all, sizeof(all));
    }
    for (; i + kLanes <= n; i += kLanes) {
      for (size_t k = 0; k < kLanes; ++k) lane[k] = R::Step(lane[k], x[i + k]);
    }
    for (size_t half = kLanes / 2; half > 0; half /= 2) {
      for (size_t k = 0; k < half; ++k) lane[k] = R::Merge(lane[k], lane[k + half]);
    }
    A total = lane[0];
    for (; i < n; ++i) total = R::Step(total, x[i]);
    return total;
  }
};

// Rows that lie one behind the other, each of at most kLanes x kBlock values. Of rows shorter than
// the lanes kLanes are reduced side by side, in the order of Row.
template <Reduction r, typename A>
struct Rows {
  static QNNRT_INLINE void Run(const A* x, size_t n, size_t rows, A* out) {
    constexpr bool kPicks =
        std::is_floating_point_v<A> && (r == Reduction::kMax || r == Reduction::kMin);
    size_t i = 0;
    for (; n < kLanes && i + kLanes <= rows; i += kLanes, x += n * kLanes) {
      A lane[kLanes];
      [[maybe_unused]] uint32_t unordered[kLanes] = {};  // looked for apart, as in BestOf
      for (size_t k = 0; k < kLanes; ++k) lane[k] = Rule<r, A>::Start();
      for (size_t j = 0; j < n; ++j) {
        A next[kLanes];
        for (size_t k = 0; k < kLanes; ++k) next[k] = x[k * n + j];
        for (size_t k = 0; k < kLanes; ++k) {
          if constexpr (r == Reduction::kMax) {
            lane[k] = next[k] > lane[k] ? next[k] : lane[k];
          } else if constexpr (r == Reduction::kMin) {
            lane[k] = next[k] < lane[k] ? next[k] : lane[k];
          } else {
            lane[k] = Rule<r, A>::Step(lane[k], next[k]);
          }
        }
        if constexpr (kPicks) {
          for (size_t k = 0; k < kLanes; ++k) unordered[k] |= next[k] != next[k] ? 1u : 0u;
        }
      }
      if constexpr (kPicks) {
        constexpr A kNan = std::numeric_limits<A>::quiet_NaN();
        for (size_t k = 0; k < kLanes; ++k) lane[k] = unordered[k] != 0 ? kNan : lane[k];
      }
      for (size_t k = 0; k < kLanes; ++k) out[i + k] = lane[k];
    }
    for (; i < rows; ++i, x += n) out[i] = Row<r, A>::Run(x, n);
  }
};

// acc[k] with x[k]
template <Reduction r, typename A>
struct Column {
  static QNNRT_INLINE void Run(const A* x, A* acc, size_t columns) {
    QNNRT_SIMD
    for (size_t k = 0; k < columns; ++k) acc[k] = Rule<r, A>::Step(acc[k], x[k]);
  }
};

// Bands `apart` values apart, each of few rows (at most kBlock, one behind the other `stride`
// values): no call for each of them, and one block's sum is exact enough without double.
template <Reduction r, typename A>
struct Bands {
  static QNNRT_INLINE void Run(const A* x, size_t bands, size_t apart, size_t rows, size_t stride,
                               size_t columns, A* out) {
    for (size_t b = 0; b < bands; ++b, x += apart, out += columns) {
      size_t k = 0;
      for (; k + kSide <= columns; k += kSide) Some<kSide>(x + k, rows, stride, kSide, out + k);
      if constexpr (kVectors) {
        for (; k + 4 * kShort <= columns; k += 4 * kShort) Few<4>(x + k, rows, stride, out + k);
        for (; k + kShort <= columns; k += kShort) Few<1>(x + k, rows, stride, out + k);
      }
      if (k < columns) Some<0>(x + k, rows, stride, columns - k, out + k);
    }
  }

 private:
  static constexpr size_t kSide = 64;

  // Registers of columns, which few of them would not get from the loop below.
  static constexpr bool kVectors =
      std::is_floating_point_v<A> || r == Reduction::kMax || r == Reduction::kMin;
  static constexpr size_t kShort = 16 / sizeof(A);
  typedef A Short __attribute__((vector_size(16)));
  static QNNRT_INLINE Short StepOf(Short a, Short x) {
    if constexpr (r == Reduction::kMax) return ((x > a) | (x != x)) ? x : a;
    if constexpr (r == Reduction::kMin) return ((x < a) | (x != x)) ? x : a;
    if constexpr (r == Reduction::kProd) return a * x;
    if constexpr (r == Reduction::kSumSquare) return a + x * x;
    return a + x;
  }
  template <size_t kCount>
  static QNNRT_INLINE void Few(const A* x, size_t rows, size_t stride, A* out) {
    A start[kCount * kShort];
    for (A& element : start) element = Rule<r, A>::Start();
    Short acc[kCount], next;
    std::memcpy(acc, start, sizeof(acc));
    for (size_t j = 0; j < rows; ++j, x += stride) {
#pragma GCC unroll 4
      for (size_t i = 0; i < kCount; ++i) {
        std::memcpy(&next, x + i * kShort, sizeof(next));
        acc[i] = StepOf(acc[i], next);
      }
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < kCount; ++i) {
      if constexpr (r == Reduction::kMean) acc[i] /= static_cast<A>(rows);
      std::memcpy(out + i * kShort, &acc[i], sizeof(next));
    }
  }

  template <size_t fixed>
  static QNNRT_INLINE void Some(const A* x, size_t rows, size_t stride, size_t columns, A* out) {
    using R = Rule<r, A>;
    const size_t n = fixed != 0 ? fixed : columns;
    A acc[kSide];
    for (size_t k = 0; k < n; ++k) acc[k] = R::Start();
    for (size_t j = 0; j < rows; ++j, x += stride) {
      QNNRT_SIMD
      for (size_t k = 0; k < n; ++k) acc[k] = R::Step(acc[k], x[k]);
    }
    // The quotient of two floats is that of two doubles, rounded.
    [[maybe_unused]] const A terms = static_cast<A>(rows);
    for (size_t k = 0; k < n; ++k) out[k] = r == Reduction::kMean ? acc[k] / terms : acc[k];
  }
};

// Sums and products of integers are reduced in 64 bits, a block at a time.
template <typename A>
struct Access {
  void (*load)(const char* in, A* out, size_t n) = nullptr;  // null: they have the type A
  void (*store)(const A* values, size_t n, char* out) = nullptr;
};
template <typename A, typename T>
Access<A> AccessTo() {
  Access<A> access;
  if (!std::is_same_v<A, T>) {
    access.load = [](const char* in, A* out, size_t n) {
      const T* x = reinterpret_cast<const T*>(in);
      for (size_t i = 0; i < n; ++i) out[i] = static_cast<A>(x[i]);
    };
  }
  access.store = [](const A* values, size_t n, char* out) {
    T* to = reinterpret_cast<T*>(out);
    for (size_t i = 0; i < n; ++i) to[i] = static_cast<T>(values[i]);
  };
  return access;
}

// Nested loops over some of the input's dims.
struct Loops {
  size_t count = 1;  // iterations of all of them
  std::vector<size_t> sizes, strides;
  void Add(size_t size, size_t stride) {
    sizes.push_back(size), strides.push_back(stride);
    count *= size;
  }
  size_t Offset(size_t iteration) const {
    size_t offset = 0;
    for (size_t i = sizes.size(); i-- > 0;) {
      offset += iteration % sizes[i] * strides[i];
      iteration /= sizes[i];
    }
    return offset;
  }
};

// Offsets one after the other; cheaper than Loops::Offset for each.
class Walk {
 public:
  explicit Walk(const Loops& loops) : loops_(loops) {}
  size_t offset() const { return offset_; }
  void Next() {
    for (size_t i = loops_.sizes.size(); i-- > 0;) {
      offset_ += loops_.strides[i];
      if (++index_[i] < loops_.sizes[i]) return;
      offset_ -= loops_.strides[i] * loops_.sizes[i];
      index_[i] = 0;
    }
  }

 private:
  const Loops& loops_;
  std::array<size_t, 8> index_{};
  size_t offset_ = 0;
};

template <Reduction r, typename A>
class ReduceKernel final : public Kernel {
 public:
  ReduceKernel(const Shape& shape, const std::vector<size_t>& axes, size_t element_size,
               Access<A> access)
      : size_(element_size), access_(access) {
    size_t stride = 1;
    std::vector<bool> reduced(shape.size(), false);
    for (size_t axis : axes) reduced[axis] = true;
    struct Dim {
      size_t size, stride;
      bool reduced;
    };
    std::vector<Dim> dims;  // inner first, neighbours of a kind merged
    for (size_t i = shape.size(); i-- > 0;) {
      if (shape[i] != 1) {
        if (!dims.empty() && dims.back().reduced == reduced[i]) {
          dims.back().size *= shape[i];
        } else {
          dims.push_back({shape[i], stride, reduced[i]});
        }
      }
      stride *= shape[i];
    }
    for (const Dim& d : dims) terms_ *= d.reduced ? d.size : 1;
    size_t first = 0;
    if (!dims.empty()) {
      (dims[0].reduced ? run_ : columns_) = dims[0].size;
      first = 1;
    }
    rows_ = dims.empty() || dims[0].reduced;
    for (size_t i = dims.size(); i-- > first;) {
      (dims[i].reduced ? reduced_ : kept_).Add(dims[i].size, dims[i].stride);
    }
  }

  Status Run(const ExecArgs& args) override {
    const char* in = static_cast<const char*>(args.in[0]);
    char* out = static_cast<char*>(args.out[0]);
    if (rows_ && reduced_.count == 1 && run_ != 0 &&
        run_ <= (access_.load != nullptr ? kLoad / kLanes : kLanes * kBlock)) {
      args.threads.For(kept_.count, 1 + kGrainElements / (terms_ + 1),
                       [&](size_t begin, size_t end) { DenseRows(in, out, begin, end); });
      return {};
    }
    if (rows_) {
      args.threads.For(kept_.count, 1 + kGrainElements / (terms_ + 1),
                       [&](size_t begin, size_t end) {
                         for (size_t o = begin; o < end; ++o) {
                           const A total = OneRow(in + kept_.Offset(o) * size_);
                           access_.store(&total, 1, out + o * size_);
                         }
                       });
      return {};
    }
    if (access_.load == nullptr && kept_.sizes.size() <= 1 && reduced_.sizes.size() == 1 &&
        terms_ != 0 && terms_ <= kBlock && (kept_.count > 1 || columns_ <= kColumns)) {
      const size_t apart = kept_.sizes.empty() ? 0 : kept_.strides[0];
      args.threads.For(kept_.count, 1 + kGrainElements / (terms_ * columns_ + 1),
                       [&](size_t begin, size_t end) {
                         bands_(reinterpret_cast<const A*>(in) + begin * apart, end - begin, apart,
                                reduced_.count, reduced_.strides[0], columns_,
                                reinterpret_cast<A*>(out) + begin * columns_);
                       });
      return {};
    }
    const size_t parts = (columns_ + kColumns - 1) / kColumns;
    const size_t work = (terms_ + 1) * std::min(columns_, kColumns);
    args.threads.For(kept_.count * parts, 1 + kGrainElements / (work + 1),
                     [&](size_t begin, size_t end) {
                       for (size_t u = begin; u < end; ++u) {
                         const size_t first = u % parts * kColumns;
                         OneBand(in + (kept_.Offset(u / parts) + first) * size_,
                                 out + (u / parts * columns_ + first) * size_,
                                 std::min(kColumns, columns_ - first));
                       }
                     });
    return {};
  }

 private:
  using R = Rule<r, A>;
  // What blocks are merged in: with double, long sums stay as exact as their blocks.
  using Total = std::conditional_t<std::is_floating_point_v<A>, double, A>;
  using M = Rule<r, Total>;

  A Finish(Total a) const {
    if constexpr (r == Reduction::kMean) {
      if (std::is_integral_v<A> && terms_ == 0) return A{0};
      return static_cast<A>(a / static_cast<Total>(terms_));
    }
    return static_cast<A>(a);
  }

  // Rows that lie one behind the other, short where they have to be loaded first.
  void DenseRows(const char* in, char* out, size_t begin, size_t end) const {
    if (access_.load == nullptr) {
      A* to = reinterpret_cast<A*>(out) + begin;
      many_(reinterpret_cast<const A*>(in) + begin * run_, run_, end - begin, to);
      if constexpr (r == Reduction::kMean) {
        for (size_t i = 0; i < end - begin; ++i) to[i] = Finish(Total{to[i]});
      }
      return;
    }
    A block[kLoad], results[kLoad];
    const size_t together = kLoad / run_ / kLanes * kLanes;
    for (size_t o = begin; o < end; o += together) {
      const size_t rows = std::min(together, end - o);
      access_.load(in + o * run_ * size_, block, rows * run_);
      many_(block, run_, rows, results);
      for (size_t i = 0; i < rows; ++i) results[i] = Finish(Total{results[i]});
      access_.store(results, rows, out + o * size_);
    }
  }

  Total OneRun(const char* in) const {
    A block[kLoad];
    Total total = M::Start();
    const size_t step = access_.load != nullptr ? kLoad : kLanes * kBlock;
    for (size_t i = 0; i < run_; i += step) {
      const size_t n = std::min(step, run_ - i);
      const char* x = in + i * size_;
      if (access_.load != nullptr) access_.load(x, block, n);
      const A part = row_(access_.load != nullptr ? block : reinterpret_cast<const A*>(x), n);
      total = M::Merge(total, static_cast<Total>(part));
    }
    return total;
  }

  A OneRow(const char* in) const {
    Total total = M::Start();
    Walk walk(reduced_);
    for (size_t i = 0; i < reduced_.count; ++i, walk.Next()) {
      total = M::Merge(total, OneRun(in + walk.offset() * size_));
    }
    return Finish(total);
  }

  void OneBand(const char* in, char* out, size_t columns) const {
    Total total[kColumns];
    A part[kColumns], block[kColumns];
    for (size_t k = 0; k < columns; ++k) total[k] = M::Start();
    Walk walk(reduced_);
    for (size_t i = 0; i < reduced_.count;) {
      for (size_t k = 0; k < columns; ++k) part[k] = R::Start();
      const size_t end = std::min(reduced_.count, i + kBlock);
      for (; i < end; ++i, walk.Next()) {
        const char* x = in + walk.offset() * size_;
        if (access_.load != nullptr) access_.load(x, block, columns);
        column_(access_.load != nullptr ? block : reinterpret_cast<const A*>(x), part, columns);
      }
      for (size_t k = 0; k < columns; ++k) {
        total[k] = M::Merge(total[k], static_cast<Total>(part[k]));
      }
    }
    for (size_t k = 0; k < columns; ++k) part[k] = Finish(total[k]);
    access_.store(part, columns, out);
  }

  static constexpr size_t kLoad = 512;

  const size_t size_;
  const Access<A> access_;
  bool rows_ = true;  // the inner dim is reduced: outputs are made one by one
  size_t run_ = 1, columns_ = 1, terms_ = 1;
  Loops kept_, reduced_;  // the dims but for the inner one
  A (*const row_)(const A*, size_t) = PickIsa<Row<r, A>>();
  // Of 64 bits what is gathered is slower than what is loaded.
  void (*const many_)(const A*, size_t, size_t, A*) = sizeof(A) == 8 ? Rows<r, A>::Run
                                                                     : PickIsa<Rows<r, A>>();
  void (*const column_)(const A*, A*, size_t) = PickIsa<Column<r, A>>();
  void (*const bands_)(const A*, size_t, size_t, size_t, size_t, size_t,
                       A*) = PickIsa<Bands<r, A>>();
};

Status InferReduce(const Node& node, std::vector<Shape>* outputs) {
  const Shape& in = node.inputs[0]->shape;
  QNNRT_ASSIGN_OR_RETURN(const std::vector<size_t> axes, GetAxes(node, "axes", in.size()));
  const bool keep = node.Bool("keep_dims");
  for (size_t i = 0; i < in.size(); ++i) {
    if (!std::binary_search(axes.begin(), axes.end(), i)) {
      (*outputs)[0].push_back(in[i]);
    } else if (keep) {
      (*outputs)[0].push_back(1);
    }
  }
  return {};
}

template <Reduction r>
Result<KernelPtr> Make(const Node& node, const KernelOptions&) {
  QNNRT_ASSIGN_OR_RETURN(const std::vector<size_t> axes,
                         GetAxes(node, "axes", node.inputs[0]->shape.size()));
  const Tensor& in = *node.inputs[0];
  return VisitNumber(in.dtype, [&](auto t) -> Result<KernelPtr> {
    using T = decltype(t);
    using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    // The extremes of integers need no more bits than these have.
    constexpr bool kPicks = r == Reduction::kMax || r == Reduction::kMin;
    using A = std::conditional_t<std::is_floating_point_v<T> || kPicks, T, Wide>;
    return KernelPtr(std::make_unique<ReduceKernel<r, A>>(in.shape, axes, ElementSize(in.dtype),
                                                          AccessTo<A, T>()));
  });
}

}  // namespace

OpList ReduceOps() {
  struct Entry {
    const char* type;
    MakeKernelFn make;
    uint32_t flags;
    MakeKernelFn fixed = nullptr;
  };
  const Entry rows[] = {
      {QNN_OP_REDUCE_MAX, Make<Reduction::kMax>, OpDef::kMoves},
      {QNN_OP_REDUCE_MEAN, Make<Reduction::kMean>, OpDef::kNone, MakeFixedReduceSum},
      {QNN_OP_REDUCE_MIN, Make<Reduction::kMin>, OpDef::kMoves},
      {QNN_OP_REDUCE_PROD, Make<Reduction::kProd>, OpDef::kNone, MakeFixedRows},
      {QNN_OP_REDUCE_SUM, Make<Reduction::kSum>, OpDef::kNone, MakeFixedReduceSum},
      {QNN_OP_REDUCE_SUM_SQUARE, Make<Reduction::kSumSquare>, OpDef::kNone, MakeFixedRows},
  };
  OpList ops;
  for (const Entry& row : rows) {
    ops.push_back({row.type,
                   {{"in[0]", types::kNumber}},
                   {{"out[0]", types::kNumber, PortSpec::kOne, 0}},
                   {{"axes", ParamSpec::kInts, Required(), "[M], none twice"},
                    {"keep_dims", ParamSpec::kBool, Default(false)}},
                   InferReduce,
                   row.make,
                   row.flags | OpDef::kLpai,
                   row.fixed});
  }
  for (OpDef& def : ArgOps()) ops.push_back(std::move(def));
  ops.push_back(CumulativeSumOp());
  return ops;
}

}  // namespace qnnrt
