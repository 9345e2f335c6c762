// TopK. Ties go to the lower index; a NaN comes before all other values.
#include <algorithm>
#include <cstring>
#include <functional>
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

// Which values of a block come before the limit, a byte for each.
template <typename T, bool largest>
struct MarkBefore {
  static QNNRT_INLINE void Run(const T* x, T limit, uint8_t* marks) {
    QNNRT_SIMD
    for (size_t i = 0; i < kScan; ++i) marks[i] = Before<T, largest>(x[i], limit) ? 1 : 0;
  }
};

// The best of a row of values of up to 32 bits, each as one number with its index below: of two
// the greater comes first.
template <typename T, bool largest>
class Ranked {
 public:
  static constexpr size_t kMost = 2048;  // of k
  using Mark = decltype(PickIsa<MarkBefore<T, largest>>());

  Ranked(const T* x, size_t k, Mark mark) : x_(x), k_(k), few_(k <= kFew), mark_(mark) {
    // Beyond k there is room for those that come before the last of k, until these are chosen anew.
    room_ = few_ ? k : std::min(2 * kMost, std::max(4 * k, kScan));
  }
  void Run(size_t n, T* values, uint32_t* index) {
    const size_t first = std::min(n, room_);
    if (few_) {
      for (size_t i = 0; i < first; ++i) Insert(Rank(i));
    } else {
      for (size_t i = 0; i < first; ++i) best_[count_++] = Rank(i);
    }
    if (first < n) Choose();
    size_t i = first;
    for (; i + kScan <= n; i += kScan) {
      uint8_t marks[kScan];
      mark_(x_ + i, limit_, marks);
      for (size_t at = 0; at < kScan; at += sizeof(uint64_t)) {
        uint64_t some;
        std::memcpy(&some, marks + at, sizeof(some));
        if (some == 0) continue;
        for (size_t j = 0; j < sizeof(some); ++j) {
          if (marks[at + j] != 0) Take(i + at + j);
        }
      }
    }
    for (; i < n; ++i) Take(i);
    if (!few_) {
      if (count_ > k_) std::nth_element(best_, best_ + k_, best_ + count_, std::greater<>());
      std::sort(best_, best_ + k_, std::greater<>());
    }
    for (size_t j = 0; j < k_; ++j) {
      index[j] = Index(best_[j]);
      values[j] = x_[index[j]];
    }
  }

 private:
  static constexpr size_t kFew = 16;  // kept in order by moving those behind

  static uint32_t Index(uint64_t ranked) { return ~static_cast<uint32_t>(ranked); }
  uint64_t Rank(size_t i) const {
    const T x = x_[i];
    uint32_t high;
    if constexpr (std::is_floating_point_v<T>) {
      const float one = static_cast<float>(x) + 0.0f;  // no negative 0
      std::memcpy(&high, &one, sizeof(high));
      high ^= (high & 0x80000000u) != 0 ? 0xFFFFFFFFu : 0x80000000u;
      if (!largest) high = ~high;
      if (one != one) high = 0xFFFFFFFFu;
    } else {
      const int64_t offset = std::is_signed_v<T> ? int64_t{0x80000000} : 0;
      high = static_cast<uint32_t>(static_cast<int64_t>(x) + offset);
      if (!largest) high = ~high;
    }
    return uint64_t{high} << 32 | static_cast<uint32_t>(~static_cast<uint32_t>(i));
  }
  void Insert(uint64_t ranked) {
    size_t at = count_ < k_ ? count_++ : k_ - 1;  // in place of the last
    for (; at > 0 && best_[at - 1] < ranked; --at) best_[at] = best_[at - 1];
    best_[at] = ranked;
  }
  // Of equal values those that come later are worse.
  void Take(size_t i) {
    if (!Before<T, largest>(x_[i], limit_)) return;
    if (few_) {
      Insert(Rank(i));
      limit_ = x_[Index(best_[k_ - 1])];
      return;
    }
    if (count_ == room_) {
      Choose();
      if (!Before<T, largest>(x_[i], limit_)) return;
    }
    best_[count_++] = Rank(i);
  }
  void Choose() {
    if (!few_) {
      std::nth_element(best_, best_ + (k_ - 1), best_ + count_, std::greater<>());
      count_ = k_;
    }
    limit_ = x_[Index(best_[k_ - 1])];
  }

  const T* const x_;
  const size_t k_;
  const bool few_;
  const Mark mark_;
  size_t room_ = 0, count_ = 0;
  T limit_{};
  uint64_t best_[2 * kMost];
};

// The k best of each row, best first. Of wide values, or of many, the outputs themselves hold the
// heap, its root the worst of those kept; sorting it in place leaves them in order. Wide indices
// are made of those in 32 bits, which lie in the first half of their row until then.
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
        One(in + r * n_, values + r * k_, reinterpret_cast<uint32_t*>(index));
        if (wide_) Widen(index);
      }
    });
    return {};
  }

 private:
  void One(const T* x, T* v, uint32_t* index) const {
    if constexpr (sizeof(T) <= 4) {
      using Narrow = Ranked<T, largest>;
      if (k_ <= Narrow::kMost) return Narrow(x, k_, mark_).Run(n_, v, index);
    }
    Row(x, v, index);
  }
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
  const decltype(PickIsa<MarkBefore<T, largest>>()) mark_ = PickIsa<MarkBefore<T, largest>>();
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

OpDef TopKOp() {
  PortSpec in{"in[0]", types::kNumber};
  in.min_rank = 1;
  OpDef def = {
      QNN_OP_TOP_K,
      {in},
      {{"out[0]", types::kNumber, PortSpec::kOne, 0}, {"out[1]", types::kIndex}},
      {{"k", ParamSpec::kInt, Required(), "at most the size of the last axis"},
       {"largest", ParamSpec::kBool, Default(true), "false: the smallest, smallest first"}},
      InferTopK,
      MakeTopK,
      OpDef::kMoves};
  def.sensitive_inputs = 1;
  return def;
}

}  // namespace qnnrt
