// The layout of a packed weight in blocks, as its text in a context binary says it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace qnnrt {

constexpr int kFloatLayout = 3;  // dnnl_f32

// oneDNN's blocked layout: dimension d of the element at `i` is cut into its inner blocks (the last
// of `blocks` moves fastest; `of` says whose each is), and what is left of it goes by strides[d].
struct BlockedLayout {
  int type = 0;  // dnnl_data_type_t
  std::vector<int64_t> dims, padded, strides, blocks, of;
  int64_t offset = 0;
  std::string rest;  // of the text: for whom it is, where not for everybody

  std::string Elements() const;  // type and dims alone, as the text begins
  std::string Text() const;
  // Nothing where the text is of something else. The numbers are what the text says: from a file.
  static std::optional<BlockedLayout> Parse(const std::string& text);
};

// Writes all `size` bytes of `to`, which lies as `wanted`; padding becomes zeros. A text is that of
// a BlockedLayout, or of a PanelLayout of a matrix product, a convolution or gates. False, and
// nothing is written, where the texts do not say how: other elements, bytes beside them (sums that
// go along), numbers that do not fit together.
bool MoveBlocks(const std::string& lies, const void* from, uint64_t from_size,
                const std::string& wanted, void* to, uint64_t size);

}  // namespace qnnrt
