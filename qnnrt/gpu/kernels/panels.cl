// Products of matrices and convolutions without local memory: each work item keeps TM rows of a
// panel of WIDE * VECTORS columns in registers. For devices whose work groups are loops, where
// barriers are slow.
//   AT_A(p), AT_B(p): which matrix of a and of b product p takes
//   WINDOW: rows are pixels of a convolution's output, and a is its input
// b lies in panels, padded to whole ones: [matrix][panel][k][WIDE * VECTORS].

#pragma OPENCL FP_CONTRACT ON
#undef CAT_
#undef CAT
#undef VEC
#undef COLUMNS
#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#define VEC CAT(float, WIDE)
#define COLUMNS (WIDE * VECTORS)

__kernel void KERNEL(panels)(__global const REAL* a, __global const float* b,
#ifdef BIAS
                             __global const REAL* bias,
#endif
                             __global REAL* y, const int rows, const int columns, const int depth,
                             const int a_matrix, const int b_matrix, const int y_matrix,
                             const int y_row, const int y_first,
#ifdef WINDOW
                             const int height, const int width, const int channels,
                             const int y_height, const int y_width, const int kernel_height,
                             const int kernel_width, const int stride_y, const int stride_x,
                             const int dilation_y, const int dilation_x, const int pad_y,
                             const int pad_x
#else
                             const int a_row,
                             const int a_step
#endif
                                 POST_PARAMS) {
  const int m = get_global_id(0) * TM, panel = get_global_id(1), p = get_global_id(2);
  VEC sum[TM][VECTORS];
  for (int i = 0; i < TM; ++i) {
    for (int v = 0; v < VECTORS; ++v) sum[i][v] = 0.0f;
  }
  a += AT_A(p) * a_matrix;
  b += AT_B(p) * b_matrix;
#ifdef WINDOW
  b += panel * kernel_height * kernel_width * depth * COLUMNS;
  int image[TM], top[TM], left[TM];
  for (int i = 0; i < TM; ++i) {
    const int row = min(m + i, rows - 1);
    image[i] = row / (y_height * y_width) * height * width;
    top[i] = row / y_width % y_height * stride_y - pad_y;
    left[i] = row % y_width * stride_x - pad_x;
  }
  for (int tap = 0; tap < kernel_height * kernel_width; ++tap) {
    int at[TM], inside[TM];
    for (int i = 0; i < TM; ++i) {
      const int v = top[i] + tap / kernel_width * dilation_y;
      const int h = left[i] + tap % kernel_width * dilation_x;
      inside[i] = v >= 0 && v < height && h >= 0 && h < width;
      at[i] = inside[i] ? (image[i] + v * width + h) * channels : 0;
    }
#define ELEMENT(i, k) (inside[i] ? LOAD(a, at[i] + k) : 0.0f)
#else
  b += panel * depth * COLUMNS;
  int at[TM];
  for (int i = 0; i < TM; ++i) at[i] = min(m + i, rows - 1) * a_row;
  {
#define ELEMENT(i, k) LOAD(a, at[i] + (k)*a_step)
#endif
    for (int k = 0; k < depth; ++k) {
      VEC line[VECTORS];
      for (int v = 0; v < VECTORS; ++v) line[v] = CAT(vload, WIDE)(v, b);
      b += COLUMNS;
      for (int i = 0; i < TM; ++i) {
        const VEC element = ELEMENT(i, k);
        // Contracted: PoCL's fma() is slower than the compiler's.
        for (int v = 0; v < VECTORS; ++v) sum[i][v] += element * line[v];
      }
    }
  }
#undef ELEMENT
  const int n = panel * COLUMNS, last = min(COLUMNS, columns - n);
  for (int i = 0; i < TM; ++i) {
    if (m + i >= rows) break;
    float line[COLUMNS];
    for (int v = 0; v < VECTORS; ++v) CAT(vstore, WIDE)(sum[i][v], v, line);
    const int start = y_first + p * y_matrix + (m + i) * y_row + n;
    for (int j = 0; j < last; ++j) {
#ifdef BIAS
      const float value = line[j] + LOAD(bias, BIAS + n + j);
#else
      const float value = line[j];
#endif
      STORE(y, start + j, POST(value, start + j));
    }
  }
}
