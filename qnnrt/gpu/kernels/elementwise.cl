// Every operation on single elements, and every chain of them: WIDTH neighbours for each work item.
//   INPUTS: the parameters for operands: buffers, and what indices of broadcast ones come from
//   FETCH: declares the operands' elements x0, x1...: vectors, or one for all neighbours
//   VALUE(c, n): component c of the result, which is the nth
//   STORED: type of the output's elements, half with HALF

__kernel void KERNEL(elementwise)(INPUTS __global STORED* y, const int count) {
  const uint i = (uint)get_global_id(0) * WIDTH;
  if (i >= (uint)count) return;
  FETCH
#ifdef HALF
#if WIDTH == 1
  vstore_half_rte(VALUE(, 0), i, y);
#else
  vstorea_half4_rte((float4)(VALUE(.s0, 0), VALUE(.s1, 1), VALUE(.s2, 2), VALUE(.s3, 3)), 0,
                    y + i);
#endif
#elif WIDTH == 1
  y[i] = VALUE(, 0);
#else
  *(__global VECTOR*)(y + i) =
      (VECTOR)(VALUE(.s0, 0), VALUE(.s1, 1), VALUE(.s2, 2), VALUE(.s3, 3));
#endif
}
