// Where the pixels under windows of a line lie: what loops over all channels of a depthwise
// convolution read, whatever the element type.
#pragma once

#include <algorithm>
#include <cstdint>

namespace qnnrt::onednn {

struct WindowPixels {
  int64_t rows, gap;  // of a window, and from one of its rows to the next
  int64_t width;      // columns under all windows
  int64_t in_rows, in_width, channels;

  // Of each row of the windows, one after the other, the pixels from a column on; those outside of
  // the image are `zeros`.
  template <typename Code>
  void Find(const Code* image, const Code* zeros, int64_t top, int64_t column,
            const Code** in) const {
    for (int64_t row = 0; row < rows; ++row, in += width) {
      const int64_t y = top + row * gap;
      if (y < 0 || y >= in_rows) {
        std::fill_n(in, width, zeros);
        continue;
      }
      const Code* const pixels = image + y * in_width * channels;
      if (column >= 0 && column + width <= in_width) {
        for (int64_t i = 0; i < width; ++i) in[i] = pixels + (column + i) * channels;
        continue;
      }
      for (int64_t i = 0; i < width; ++i) {
        const bool inside = column + i >= 0 && column + i < in_width;
        in[i] = inside ? pixels + (column + i) * channels : zeros;
      }
    }
  }
};

}  // namespace qnnrt::onednn
