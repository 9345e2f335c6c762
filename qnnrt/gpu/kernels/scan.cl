// Running sums of lines of n elements that lie `step` apart, a tile of GROUP_LANES * TOGETHER
// elements after the other.
//   BEHIND: lines are cut into parts, whose sums there are, of this type

#define TOGETHER 4
#ifdef TYPE
#define SUM TYPE
#else
#define SUM float
#endif

#ifdef SHARED
// The sum of v of the lanes before the item's; `all`: of all lanes.
static inline SUM KERNEL(leading)(SUM v, __local SUM* sums, SUM* all) {
  const int item = ITEM, lane = ITEM_LANE;
  int now = 0;
  sums[item] = v;
  for (int far = 1; far < GROUP_LANES; far *= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    const SUM here = sums[now + item];
    const SUM sum = lane >= far ? (SUM)(here + sums[now + item - far * LANE_STEP]) : here;
    now = MOST_ITEMS - now;
    sums[now + item] = sum;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  v = lane > 0 ? sums[now + item - LANE_STEP] : (SUM)0;
  *all = sums[now + item + (GROUP_LANES - 1 - lane) * LANE_STEP];
  barrier(CLK_LOCAL_MEM_FENCE);
  return v;
}
#endif

__kernel void KERNEL(scan)(__global const REAL* x, __global REAL* y,
#ifdef BEHIND
                           __global const BEHIND* parts,
#endif
                           const int lines, const int n, const int chunk, const int step,
                           const int exclusive, const int reverse) {
#ifdef SHARED
  __local SUM sums[2 * MOST_ITEMS];
#endif
  const int line = (int)get_group_id(0) * GROUP_COLUMNS + ITEM_COLUMN;
  const int lane = ITEM_LANE, lanes = GROUP_LANES;
  const int part = get_group_id(2), first = part * chunk;
  const int length = n - first > chunk ? chunk : n - first;
  const bool there = line < lines;
  const int start = there ? (line / step) * step * n + line % step : 0;
  const int size = lanes * TOGETHER;
  SUM before = 0;
#ifndef TYPE
  float lost = 0.0f;
#endif
#ifdef BEHIND
  // The parts in front are a tile before the first one.
  for (int tile = -size; tile < length; tile += size) {
#else
  for (int tile = 0; tile < length; tile += size) {
#endif
    SUM own[TOGETHER];
    SUM sum = 0;
#ifdef BEHIND
    const int last = tile >= 0 ? 0 : reverse ? (int)get_num_groups(2) : part;
    for (int p = (reverse ? part + 1 : 0) + lane; there && p < last; p += lanes)
      sum += (SUM)parts[p * lines + line];
#endif
    for (int k = 0; k < TOGETHER; ++k) {
      const int i = tile + lane * TOGETHER + k;
      const int at = start + (first + (reverse ? length - 1 - i : i)) * step;
      if (there && tile >= 0 && i < length) sum += LOAD(x, at);
      own[k] = sum;
    }
    SUM all = sum, lead = 0;
#ifdef SHARED
    lead = KERNEL(leading)(sum, sums, &all);
#endif
    for (int k = 0; k < TOGETHER; ++k) {
      const int i = tile + lane * TOGETHER + k;
      const int at = start + (first + (reverse ? length - 1 - i : i)) * step;
      const SUM here = exclusive ? (k > 0 ? own[k - 1] : (SUM)0) : own[k];
#ifdef TYPE
      const SUM through = before + lead + here;
#else
      const SUM through = before + (lead + here + lost);
#endif
      if (there && tile >= 0 && i < length) STORE(y, at, through);
    }
#ifdef TYPE
    before += all;
#else
    before = plus_exactly(before, all, &lost);
#endif
  }
}
