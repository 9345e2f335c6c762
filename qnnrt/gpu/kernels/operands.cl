// The parameters of tiles.cl and tensor.cl, which ops/product.py gives in this order.
    __global const REAL* restrict a, __global const REAL* restrict b,
#ifdef PARTIAL
    __global float* y,
#else
#ifdef BIAS
    __global const REAL* restrict bias,
#endif
    __global REAL* y,
#endif
    const int rows, const int columns, const int depth, const int inner, const int parts,
    const int a_matrix, const int b_matrix, const int b_row, const int y_matrix, const int y_row,
    const int y_first,
#ifdef WINDOW
    const int height, const int width, const int channels, const int y_height, const int y_width,
    const int kernel_height, const int kernel_width, const int stride_y, const int stride_x,
    const int dilation_y, const int dilation_x, const int pad_y,
    const int pad_x
#else
    const int a_row
#endif
