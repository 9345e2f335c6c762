// A tensor from its slices along an axis, or into them: several in one kernel, in UNITs of WIDTH
// bytes. A row is what of the tensor belongs to one index before the axis.
//   SLICES: the parameters for slices: buffers, and where in the span of all of them each ends
//   WHOLE: the parameter for the tensor
//   MOVE: moves unit `r` of the span in row `o`, which is unit `w` of the tensor; with what is
//   fused behind it units are elements

__kernel void KERNEL(slices)(SLICES WHOLE, const int total, const int span, const int factor,
                             const int shift, const int row, const int first POST_PARAMS) {
  const int i = get_global_id(0);
  if (i >= total) return;
  const int o = over(i, factor, shift);
  const int r = i - o * span;
  const int w = o * row + first + r;
  MOVE
}
