#include "ops/conv/window_rows.h"

#include <algorithm>
#include <cstring>

#include "ops/isa.h"

namespace qnnrt {
namespace {

// Some lines of a window have a few bytes, of which a call of the C library takes most of the time.
QNNRT_INLINE void CopyFew(char* to, const char* from, size_t count) {
  constexpr size_t kFew = 64, kPiece = 16;
  if (count > kFew || count < kPiece) {
    std::memcpy(to, from, count);
    return;
  }
  for (size_t i = 0; i < count; i += kPiece) {
    const size_t at = std::min(i, count - kPiece);  // the last one may overlap
    std::memcpy(to + at, from + at, kPiece);
  }
}

}  // namespace

WindowRows::WindowRows(const ConvGeometry& g, size_t element_size)
    : g_(g),
      pixel_bytes_(static_cast<size_t>(g.cin) * element_size),
      row_bytes_(static_cast<size_t>(g.taps()) * pixel_bytes_) {}

void WindowRows::Fill(const void* in, size_t begin, size_t end, void* rows) const {
  const int64_t width = g_.kernel[2], pixels = g_.out[2];
  const size_t line_bytes = static_cast<size_t>(width) * pixel_bytes_;
  const int64_t stop = static_cast<int64_t>(end);
  char* to = static_cast<char*>(rows);
  for (int64_t at = static_cast<int64_t>(begin); at < stop;) {
    const int64_t line = at / pixels, image = line / g_.out[1] / g_.out[0];
    const int64_t y = line % g_.out[1] * g_.stride[1] - g_.pad_before[1];
    const int64_t z = line / g_.out[1] % g_.out[0] * g_.stride[0] - g_.pad_before[0];
    const int64_t line_end = std::min(stop, (line + 1) * pixels);
    int64_t x = at % pixels * g_.stride[2] - g_.pad_before[2];
    for (; at < line_end; ++at, x += g_.stride[2]) {
      // Pixels of the window that are in front of the image, and where those inside of it end.
      const int64_t before = std::clamp<int64_t>(-x, 0, width);
      const size_t front = static_cast<size_t>(before) * pixel_bytes_;
      const size_t back =
          static_cast<size_t>(std::clamp(g_.in[2] - x, before, width)) * pixel_bytes_;
      for (int64_t d = z; d < z + g_.kernel[0]; ++d) {
        for (int64_t h = y; h < y + g_.kernel[1]; ++h, to += line_bytes) {
          if (d < 0 || d >= g_.in[0] || h < 0 || h >= g_.in[1]) {
            std::memset(to, 0, line_bytes);
            continue;
          }
          const int64_t first = ((image * g_.in[0] + d) * g_.in[1] + h) * g_.in[2] + x + before;
          if (front != 0) std::memset(to, 0, front);
          CopyFew(to + front,
                  static_cast<const char*>(in) + static_cast<size_t>(first) * pixel_bytes_,
                  back - front);
          if (back != line_bytes) std::memset(to + back, 0, line_bytes - back);
        }
      }
    }
  }
}

}  // namespace qnnrt
