// Windows of an image as the rows of a matrix: its product by the weights, as they lie, is the
// convolution.
#pragma once

#include "ops/conv/conv.h"

namespace qnnrt {

class WindowRows {
 public:
  // Of one group, whose taps do not lie apart.
  WindowRows(const ConvGeometry& g, size_t element_size);

  size_t row_bytes() const { return row_bytes_; }
  // Windows `begin` to `end` of all images in order; zeros are outside of an image.
  void Fill(const void* in, size_t begin, size_t end, void* rows) const;

 private:
  const ConvGeometry g_;
  const size_t pixel_bytes_, row_bytes_;
};

}  // namespace qnnrt
