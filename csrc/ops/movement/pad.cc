// Pad, in all four schemes.
#include <algorithm>
#include <array>
#include <cstring>

#include "abi/qnn_op_names.h"
#include "abi/qnn_op_values.h"
#include "ops/movement/concat_split.h"
#include "ops/rules.h"
#include "ops/strided_copy.h"

namespace qnnrt {
namespace {

constexpr size_t kGrainBytes = 64 << 10;
constexpr size_t kShortBorder = 32;  // elements that are filled before a call would have begun

// Position i - before of a dim of `size`, mirrored or clamped into it; -1: the constant.
int64_t SourceIndex(int64_t i, int64_t before, int64_t size, int64_t scheme) {
  const int64_t at = i - before;
  if (at >= 0 && at < size) return at;
  switch (scheme) {
    case QNN_OP_PAD_SCHEME_MIRROR_SYMMETRIC:
      return at < 0 ? -1 - at : 2 * size - 1 - at;
    case QNN_OP_PAD_SCHEME_MIRROR_REFLECT:
      return at < 0 ? -at : 2 * size - 2 - at;
    case QNN_OP_PAD_SCHEME_EDGE:
      return at < 0 ? 0 : size - 1;
    default:
      return -1;
  }
}

// Elements [begin, end) of a row: those of `in` that `map` names, else the constant.
using BorderFn = void (*)(const char* in, char* out, const int64_t* map, size_t begin, size_t end,
                          const unsigned char* constant);

template <typename T>
void BorderOf(const char* in, char* out, const int64_t* map, size_t begin, size_t end,
              const unsigned char* constant) {
  for (size_t i = begin; i < end; ++i) {
    T value;
    const void* from = map[i] < 0 ? static_cast<const void*>(constant)
                                  : in + static_cast<size_t>(map[i]) * sizeof(T);
    std::memcpy(&value, from, sizeof(T));
    std::memcpy(out + i * sizeof(T), &value, sizeof(T));
  }
}

BorderFn PickBorder(size_t size) {
  switch (size) {
    case 1:
      return BorderOf<uint8_t>;
    case 2:
      return BorderOf<uint16_t>;
    case 4:
      return BorderOf<uint32_t>;
    case 8:
      return BorderOf<uint64_t>;
    default:
      return nullptr;
  }
}

// Rows along the last padded dim; what follows it moves in one piece.
class PadKernel final : public Kernel {
 public:
  PadKernel(const Node& node, const std::vector<int64_t>& amount, int64_t scheme,
            const unsigned char value[8])
      : element_(ElementSize(node.inputs[0]->dtype)) {
    std::memcpy(value_, value, 8);
    const Shape &in = node.inputs[0]->shape, &out = node.outputs[0]->shape;
    rank_ = in.size();
    while (rank_ > 1 && amount[2 * rank_ - 2] == 0 && amount[2 * rank_ - 1] == 0) --rank_;
    chunk_ = element_ * Product(in, rank_, in.size());
    row_chunks_ = rank_ == 0 ? 1 : out[rank_ - 1];
    rows_ = rank_ == 0 ? 1 : Product(out, 0, rank_ - 1);
    size_t stride = chunk_;
    for (size_t d = rank_; d-- > 0;) {
      strides_[d] = stride;
      stride *= in[d];
      counts_[d] = out[d];
      for (uint32_t i = 0; i < out[d]; ++i) {
        maps_[d].push_back(SourceIndex(i, amount[2 * d], in[d], scheme));
      }
    }
    before_ = rank_ == 0 ? 0 : static_cast<size_t>(amount[2 * rank_ - 2]);
    inside_ = rank_ == 0 ? 1 : in[rank_ - 1];
    if (chunk_ == element_) border_ = PickBorder(element_);
  }

  Status Run(const ExecArgs& args) override {
    const char* in = static_cast<const char*>(args.in[0]);
    char* out = static_cast<char*>(args.out[0]);
    const size_t row_bytes = row_chunks_ * chunk_;
    if (row_bytes == 0) return {};
    args.threads.For(rows_, std::max<size_t>(1, kGrainBytes / row_bytes),
                     [&](size_t begin, size_t end) {
                       for (size_t r = begin; r < end; ++r) Row(in, out + r * row_bytes, r);
                     });
    return {};
  }

 private:
  void Row(const char* in, char* out, size_t row) const {
    for (size_t d = rank_ > 0 ? rank_ - 1 : 0; d-- > 0;) {
      const int64_t index = maps_[d][row % counts_[d]];
      row /= counts_[d];
      if (index < 0) return FillElements(out, value_, element_, row_chunks_ * chunk_);
      in += static_cast<size_t>(index) * strides_[d];
    }
    Border(in, out, 0, before_);
    std::memcpy(out + before_ * chunk_, in, inside_ * chunk_);
    Border(in, out, before_ + inside_, row_chunks_);
  }

  void Border(const char* in, char* out, size_t begin, size_t end) const {
    if (begin == end) return;
    const bool constant = maps_[rank_ - 1][begin] < 0;
    if (border_ != nullptr && (!constant || end - begin <= kShortBorder))
      return border_(in, out, maps_[rank_ - 1].data(), begin, end, value_);
    if (constant) {
      return FillElements(out + begin * chunk_, value_, element_, (end - begin) * chunk_);
    }
    for (size_t i = begin; i < end; ++i) {
      std::memcpy(out + i * chunk_, in + static_cast<size_t>(maps_[rank_ - 1][i]) * chunk_, chunk_);
    }
  }

  const size_t element_;
  unsigned char value_[8];
  size_t rank_ = 0, chunk_ = 0, rows_ = 0, row_chunks_ = 0, before_ = 0, inside_ = 0;
  BorderFn border_ = nullptr;  // of single elements
  std::array<size_t, 8> strides_{}, counts_{};
  std::array<std::vector<int64_t>, 8> maps_;
};

Status PadShape(const Node& node, std::vector<Shape>* outputs) {
  const Shape& in = node.inputs[0]->shape;
  const int64_t scheme = node.Int("scheme");
  unsigned char value[8];
  QNNRT_ASSIGN_OR_RETURN(const std::vector<int64_t> amount,
                         GetInts(node, "pad_amount", 2 * in.size(), 0));
  QNNRT_RETURN_IF_ERROR(ScalarBytes(node, "pad_constant_value", *node.inputs[0], value));
  for (size_t d = 0; d < in.size(); ++d) {
    const int64_t before = amount[2 * d], after = amount[2 * d + 1], size = in[d];
    const int64_t most = scheme == QNN_OP_PAD_SCHEME_MIRROR_REFLECT ? std::max<int64_t>(size - 1, 0)
                         : scheme == QNN_OP_PAD_SCHEME_MIRROR_SYMMETRIC  ? size
                         : scheme == QNN_OP_PAD_SCHEME_EDGE && size == 0 ? 0
                                                                         : INT32_MAX;
    if (before > most || after > most) {
      return Invalid(
          "param 'pad_amount' is (%lld, %lld) for axis %zu of size %lld, expected at most "
          "%lld in this scheme",
          static_cast<long long>(before), static_cast<long long>(after), d,
          static_cast<long long>(size), static_cast<long long>(most));
    }
    if (before + size + after > int64_t{UINT32_MAX}) {
      return Invalid("axis %zu of the output would be 2^32 or more", d);
    }
    (*outputs)[0].push_back(static_cast<uint32_t>(before + size + after));
  }
  return {};
}

Result<KernelPtr> MakePad(const Node& node, const KernelOptions&) {
  unsigned char value[8];
  QNNRT_ASSIGN_OR_RETURN(const std::vector<int64_t> amount,
                         GetInts(node, "pad_amount", 2 * node.inputs[0]->shape.size(), 0));
  QNNRT_RETURN_IF_ERROR(ScalarBytes(node, "pad_constant_value", *node.inputs[0], value));
  return KernelPtr(std::make_unique<PadKernel>(node, amount, node.Int("scheme"), value));
}

}  // namespace

OpDef PadOp() {
  return {QNN_OP_PAD,
          {{"in[0]", types::kAny}},
          {{"out[0]", types::kAny, PortSpec::kOne, 0}},
          {{"scheme",
            ParamSpec::kInt,
            Required(),
            "",
            {"constant", "mirror_symmetric", "mirror_reflect", "edge"}},
           {"pad_amount", ParamSpec::kInts, Required(), "[rank, 2], before and after each dim"},
           {"pad_constant_value", ParamSpec::kNumber, Default(0.0)}},
          PadShape,
          MakePad,
          OpDef::kNativeHalf | OpDef::kMoves | OpDef::kFills | OpDef::kLpai};
}

}  // namespace qnnrt
