// Where the rows of a work item begin, from m0 + a_m on, A_APART apart, where rows are pixels of a
// convolution's output: begin[i] is the element of a under the first tap, top[i] and left[i] its
// line and column, which may be outside. By steps from row to row: divisions are slow.
  int begin[A_READS], top[A_READS], left[A_READS];
  {
    const int pixels = y_height * y_width;
    int m = m0 + a_m, image = m / pixels, v = m % pixels / y_width, h = m % y_width;
    const int image_step = A_APART / pixels;
    const int v_step = A_APART % pixels / y_width, h_step = A_APART % pixels % y_width;
    _Pragma("unroll") for (int i = 0; i < A_READS; ++i) {
      const int y = v * stride_y - pad_y, x = h * stride_x - pad_x;
      begin[i] = ((image * height + y) * width + x) * channels;
      top[i] = m < rows ? y : -(1 << 30);
      left[i] = x;
      m += A_APART;
      h += h_step;
      const int next_line = h >= y_width;
      h -= next_line ? y_width : 0;
      v += v_step + next_line;
      const int next_image = v >= y_height;
      v -= next_image ? y_height : 0;
      image += image_step + next_image;
    }
  }
