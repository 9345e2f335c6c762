// x[i][CHANNELS] with zeros behind each line, as y[i][WIDE]; one element for each work item.

__kernel void KERNEL(widen)(__global const REAL* restrict x, __global REAL* restrict y) {
  const int i = get_global_id(0), channel = i % WIDE;
  STORE(y, i, channel < CHANNELS ? LOAD(x, i / WIDE * CHANNELS + channel) : 0.0f);
}
