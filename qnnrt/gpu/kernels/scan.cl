// Running sums of lines of n elements that lie `step` apart.

#undef SUM
#undef GROUP
#ifdef TYPE
#define SUM TYPE
#else
#define SUM float
#endif

#ifdef ONLY_SCAN
__kernel void KERNEL(scan)(__global const REAL* x, __global REAL* y, const int lines, const int n,
                           const int step, const int exclusive, const int reverse) {
  const int line = get_global_id(0);
  if (line >= lines) return;
  const int start = (line / step) * step * n + line % step;
  SUM sum = 0;
  for (int i = 0; i < n; ++i) {
    const int at = start + (reverse ? n - 1 - i : i) * step;
    const SUM next = sum + LOAD(x, at);
    STORE(y, at, exclusive ? sum : next);
    sum = next;
  }
}
#endif

// One line for each work group, GROUP elements of it at a time.
#define GROUP 256
#ifdef ONLY_SCAN_GROUP
__kernel void KERNEL(scan_group)(__global const REAL* x, __global REAL* y, const int lines,
                                 const int n, const int step, const int exclusive,
                                 const int reverse) {
  __local SUM sums[2][GROUP];
  const int item = get_local_id(0);
  const int start = get_group_id(0) * n;
  SUM before = 0;
  for (int first = 0; first < n; first += GROUP) {
    const int i = first + item;
    const int at = start + (reverse ? n - 1 - i : i) * step;
    const SUM own = i < n ? (SUM)LOAD(x, at) : (SUM)0;
    int now = 0;
    sums[0][item] = own;
    for (int far = 1; far < GROUP; far *= 2) {
      barrier(CLK_LOCAL_MEM_FENCE);
      const SUM here = sums[now][item];
      sums[1 - now][item] = item >= far ? (SUM)(here + sums[now][item - far]) : here;
      now = 1 - now;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (i < n) {
      const SUM through = before + sums[now][item];
      STORE(y, at, exclusive ? (item > 0 ? (SUM)(before + sums[now][item - 1]) : before) : through);
    }
    before = before + sums[now][GROUP - 1];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}
#endif
