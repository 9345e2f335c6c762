// b[matrix][k][n], with any steps, as the panels of panels.cl; one element for each work item.

__kernel void KERNEL(pack)(__global const REAL* b, __global float* to, const int columns,
                           const int depth, const int matrix, const int step, const int column,
                           const int wide) {
  const int n = get_global_id(0), k = get_global_id(1), p = get_global_id(2);
  const int panels = get_global_size(0) / wide;
  const int at = ((p * panels + n / wide) * depth + k) * wide + n % wide;
  to[at] = n < columns ? LOAD(b, p * matrix + k * step + n * column) : 0.0f;
}
