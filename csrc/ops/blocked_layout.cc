#include "ops/blocked_layout.h"

#include <algorithm>
#include <cstring>

namespace qnnrt {
namespace {

constexpr int64_t kLongest = 1 << 20;  // dimension: every index takes room here
constexpr size_t kMostNumbers = 24;    // in one list: oneDNN has 12 dimensions and 12 blocks

std::string ListText(const std::vector<int64_t>& values) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i)
    text += (i == 0 ? "" : ",") + std::to_string(values[i]);
  return text;
}

// Reads a text from its start on; what does not match sets `good` to false.
class TextReader {
 public:
  explicit TextReader(const std::string& text) : text_(text) {}
  bool good() const { return good_; }
  std::string Rest() const { return text_.substr(at_); }

  void Expect(const char* words) {
    const size_t length = std::strlen(words);
    good_ = good_ && text_.compare(at_, length, words) == 0;
    if (good_) at_ += length;
  }
  // Of at most 15 digits, so that nothing overflows.
  int64_t Number() {
    int64_t value = 0;
    size_t digits = 0;
    for (; good_ && at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_, ++digits) {
      good_ = digits < 15;
      value = value * 10 + (text_[at_] - '0');
    }
    good_ = good_ && digits > 0;
    return value;
  }
  std::vector<int64_t> List() {
    std::vector<int64_t> values;
    Expect("[");
    if (good_ && at_ < text_.size() && text_[at_] != ']') {
      values.push_back(Number());
      while (good_ && values.size() < kMostNumbers && at_ < text_.size() && text_[at_] == ',') {
        ++at_;
        values.push_back(Number());
      }
    }
    Expect("]");
    return values;
  }

 private:
  const std::string& text_;
  size_t at_ = 0;
  bool good_ = true;
};

// 0: a type that is not packed. The numbers are dnnl_data_type_t's.
uint64_t BytesOf(int type) {
  switch (type) {
    case 1:  // f16
    case 2:  // bf16
      return 2;
    case kFloatLayout:
    case 4:  // s32
      return 4;
    case 5:  // s8
    case 6:  // u8
      return 1;
    default:
      return 0;
  }
}

// For every dimension, where its indices lie: the offset of an element is the sum of its indices'.
using Offsets = std::vector<std::vector<uint64_t>>;

// False where the numbers do not describe exactly `elements` ones, each of them inside.
bool FindOffsets(const BlockedLayout& layout, uint64_t elements, Offsets* offsets) {
  const size_t rank = layout.dims.size();
  if (rank == 0 || layout.padded.size() != rank || layout.strides.size() != rank ||
      layout.blocks.size() != layout.of.size() || layout.offset != 0) {
    return false;
  }
  uint64_t count = 1;
  for (size_t d = 0; d < rank; ++d) {
    const uint64_t padded = static_cast<uint64_t>(layout.padded[d]);
    if (layout.dims[d] < 1 || layout.dims[d] > kLongest || layout.dims[d] > layout.padded[d] ||
        padded > elements / count) {
      return false;
    }
    count *= padded;
  }
  if (count != elements) return false;
  std::vector<uint64_t> block(rank, 1);  // of each dimension, all its inner blocks
  uint64_t inner = 1;
  for (size_t b = 0; b < layout.blocks.size(); ++b) {
    const size_t d = static_cast<size_t>(layout.of[b]);
    const uint64_t size = static_cast<uint64_t>(layout.blocks[b]);
    if (d >= rank || size < 1 || size > elements / inner) return false;
    block[d] *= size;
    inner *= size;
  }
  uint64_t last = 0;
  for (size_t d = 0; d < rank; ++d) {
    if (static_cast<uint64_t>(layout.padded[d]) % block[d] != 0) return false;
    std::vector<uint64_t> places(static_cast<size_t>(layout.dims[d]));
    uint64_t most = 0;
    for (uint64_t i = 0; i < places.size(); ++i) {
      uint64_t left = i, place = 0, step = 1;
      for (size_t b = layout.blocks.size(); b-- > 0;) {
        const uint64_t size = static_cast<uint64_t>(layout.blocks[b]);
        if (static_cast<size_t>(layout.of[b]) == d) {
          place += left % size * step;
          left /= size;
        }
        step *= size;
      }
      // Numbers of a file: their product may be beyond 64 bits.
      const uint64_t stride = static_cast<uint64_t>(layout.strides[d]);
      if (left != 0 && stride > elements / left) return false;
      places[i] = place + left * stride;
      most = std::max(most, places[i]);
    }
    last += most;
    offsets->push_back(std::move(places));
  }
  return last < elements;
}

// Of the weights of a convolution: all that one output is summed of, tap by tap.
void JoinTerms(Offsets* offsets) {
  std::vector<uint64_t> terms = {0};
  const auto join = [&](const std::vector<uint64_t>& inner) {
    std::vector<uint64_t> joined;
    for (uint64_t outer : terms) {
      for (uint64_t place : inner) joined.push_back(outer + place);
    }
    terms = std::move(joined);
  };
  for (size_t d = 2; d < offsets->size(); ++d) join((*offsets)[d]);
  join((*offsets)[1]);
  offsets->resize(1);
  offsets->push_back(std::move(terms));
}

// Whether a layout is of a convolution by 1x1 whose pixels are windows of the other's.
bool AreTerms(const std::vector<int64_t>& product, const std::vector<int64_t>& window) {
  if (product.size() < 3 || window.size() < 3 || product[0] != window[0]) return false;
  int64_t terms = 1;
  for (size_t d = 1; d < window.size(); ++d) terms *= window[d];  // no more than elements
  return product[1] == terms &&
         std::all_of(product.begin() + 2, product.end(), [](int64_t n) { return n == 1; });
}

template <typename T>
void Move(const Offsets& from_at, const Offsets& to_at, size_t inner, const T* from, T* to) {
  const size_t rank = from_at.size();
  const std::vector<uint64_t>&read = from_at[inner], &write = to_at[inner];
  std::vector<size_t> index(rank, 0);
  for (;;) {
    uint64_t source = 0, target = 0;
    for (size_t d = 0; d < rank; ++d) {
      if (d == inner) continue;
      source += from_at[d][index[d]];
      target += to_at[d][index[d]];
    }
    for (size_t i = 0; i < read.size(); ++i) to[target + write[i]] = from[source + read[i]];
    size_t d = rank;
    for (; d-- > 0;) {
      if (d == inner) continue;
      if (++index[d] < from_at[d].size()) break;
      index[d] = 0;
    }
    if (d == SIZE_MAX) return;
  }
}

// Matrices of floats that lie as a PanelLayout says (ops/gemm.h), one behind the other. For a
// MatMul they are what oneDNN packs for one. A transposed convolution's lie phase by phase:
// nothing.
std::optional<BlockedLayout> ReadPanels(const std::string& text, uint64_t size) {
  const size_t shape = text.rfind(' ', text.find(" in panels of ") - 1);
  if (shape == std::string::npos) return std::nullopt;
  const std::string op = text.substr(0, shape), numbers = text.substr(shape);
  if (op != "MatMul" && op != "gates" && op.rfind("convolution of ", 0) != 0) return std::nullopt;
  TextReader reader(numbers);
  reader.Expect(" ");
  const int64_t k = reader.Number();
  reader.Expect("x");
  const int64_t n = reader.Number();
  reader.Expect(" in panels of ");
  const int64_t width = reader.Number();
  if (!reader.good() || !reader.Rest().empty()) return std::nullopt;
  for (int64_t number : {k, n, width}) {
    if (number < 1 || number > kLongest) return std::nullopt;
  }
  const int64_t columns = (n + width - 1) / width * width, matrix = k * columns;
  const int64_t matrices = static_cast<int64_t>(size / sizeof(float)) / matrix;
  BlockedLayout layout;
  layout.type = kFloatLayout;
  layout.dims = {k, n};
  layout.padded = {k, columns};
  layout.strides = {width, k * width};
  if (matrices != 1) {
    layout.dims.insert(layout.dims.begin(), matrices);
    layout.padded.insert(layout.padded.begin(), matrices);
    layout.strides.insert(layout.strides.begin(), matrix);
  }
  layout.blocks = {width};
  layout.of = {static_cast<int64_t>(layout.dims.size()) - 1};
  if (op != "MatMul") layout.rest = " for " + op;
  return layout;
}

std::optional<BlockedLayout> Read(const std::string& text, uint64_t size) {
  std::optional<BlockedLayout> layout = BlockedLayout::Parse(text);
  return layout.has_value() ? layout : ReadPanels(text, size);
}

}  // namespace

std::string BlockedLayout::Elements() const {
  return "oneDNN type " + std::to_string(type) + " [" + ListText(dims) + "]";
}

std::string BlockedLayout::Text() const {
  return Elements() + " padded [" + ListText(padded) + "] strides [" + ListText(strides) +
         "] blocks [" + ListText(blocks) + "] of [" + ListText(of) + "] at " +
         std::to_string(offset) + rest;
}

std::optional<BlockedLayout> BlockedLayout::Parse(const std::string& text) {
  TextReader reader(text);
  BlockedLayout layout;
  reader.Expect("oneDNN type ");
  const int64_t type = reader.Number();
  layout.type = type < 1000 ? static_cast<int>(type) : 0;
  reader.Expect(" ");
  layout.dims = reader.List();
  reader.Expect(" padded ");
  layout.padded = reader.List();
  reader.Expect(" strides ");
  layout.strides = reader.List();
  reader.Expect(" blocks ");
  layout.blocks = reader.List();
  reader.Expect(" of ");
  layout.of = reader.List();
  reader.Expect(" at ");
  layout.offset = reader.Number();
  if (!reader.good()) return std::nullopt;
  layout.rest = reader.Rest();
  return layout;
}

bool MoveBlocks(const std::string& lies, const void* from, uint64_t from_size,
                const std::string& wanted, void* to, uint64_t size) {
  const std::optional<BlockedLayout> before = Read(lies, from_size);
  const std::optional<BlockedLayout> now = Read(wanted, size);
  if (!before || !now || before->type != now->type || before->rest != now->rest) return false;
  const uint64_t bytes = BytesOf(now->type);
  if (bytes == 0 || from_size % bytes != 0 || size % bytes != 0) return false;
  Offsets from_at, to_at;
  if (!FindOffsets(*before, from_size / bytes, &from_at) ||
      !FindOffsets(*now, size / bytes, &to_at)) {
    return false;
  }
  if (before->dims != now->dims) {
    if (!AreTerms(before->dims, now->dims) && !AreTerms(now->dims, before->dims)) return false;
    JoinTerms(&from_at);
    JoinTerms(&to_at);
  }
  std::memset(to, 0, size);
  // Innermost is the dimension whose neighbours lie closest where they are written.
  size_t inner = 0;
  const auto step = [&](size_t d) { return to_at[d].size() < 2 ? size : to_at[d][1]; };
  for (size_t d = 1; d < to_at.size(); ++d) {
    if (step(d) < step(inner)) inner = d;
  }
  if (bytes == 4) {
    Move(from_at, to_at, inner, static_cast<const uint32_t*>(from), static_cast<uint32_t*>(to));
  } else if (bytes == 2) {
    Move(from_at, to_at, inner, static_cast<const uint16_t*>(from), static_cast<uint16_t*>(to));
  } else {
    Move(from_at, to_at, inner, static_cast<const uint8_t*>(from), static_cast<uint8_t*>(to));
  }
  return true;
}

}  // namespace qnnrt
