// Running sums of lines of n elements that lie `step` apart, a tile of SEGMENTS segments after the
// other: each lane takes WIDTH neighbours of every segment, and lanes add up all segments at once.
//   WIDTH: neighbours that are loaded at once: 1, or what divides n, where elements are neighbours
//   BEHIND: lines are cut into parts, whose sums there are, of this type

#define SEGMENTS 4
#ifdef TYPE
#define SUM TYPE
#else
#define SUM float
#endif
#define SUMS JOIN(SUM, SEGMENTS)
#if WIDTH == 1
#define READ_RUN(run, at) (run)[0] = LOAD(x, at)
#define WRITE_RUN(run, at) STORE(y, at, (run)[0])
#else
#ifdef TYPE
#define RUN JOIN(TYPE, WIDTH)
#define READ_RUN(run, at) JOIN(vstore, WIDTH)(*(__global const RUN*)(x + (at)), 0, run)
#define WRITE_RUN(run, at) *(__global RUN*)(y + (at)) = JOIN(vload, WIDTH)(0, run)
#else
#define READ_RUN(run, at) JOIN(vstore, WIDTH)(LOADS(x, at), 0, run)
#define WRITE_RUN(run, at) STORES(y, at, JOIN(vload, WIDTH)(0, run))
#endif
#endif
// Where the run that begins at element i of a part is, and its elements in the order of the sum
#define RUN_AT(i) (origin + (i) * stride)
#define OF_RUN(run, k) (reverse ? (run)[WIDTH - 1 - (k)] : (run)[k])

#ifdef SHARED
// The sums of v of the lanes before the item's; `all`: of all lanes.
static inline SUMS KERNEL(leading)(SUMS v, __local SUMS* sums, SUMS* all) {
  const int item = ITEM, lane = ITEM_LANE;
  int now = 0;
  sums[item] = v;
  for (int far = 1; far < GROUP_LANES; far *= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    const SUMS here = sums[now + item];
    const SUMS sum = lane >= far ? here + sums[now + item - far * LANE_STEP] : here;
    now = MOST_ITEMS - now;
    sums[now + item] = sum;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  v = lane > 0 ? sums[now + item - LANE_STEP] : (SUMS)0;
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
  __local SUMS sums[2 * MOST_ITEMS];
#endif
  const int line = (int)get_group_id(0) * GROUP_COLUMNS + ITEM_COLUMN;
  const int lane = ITEM_LANE, lanes = GROUP_LANES;
  const int part = get_group_id(2), first = part * chunk;
  const int length = n - first > chunk ? chunk : n - first;
  const bool there = line < lines;
  const int start = there ? (line / step) * step * n + line % step : 0;
  const int origin = start + (first + (reverse ? length - WIDTH : 0)) * step;
  const int stride = reverse ? -step : step;
  const int segment = lanes * WIDTH, size = SEGMENTS * segment;
#if WIDTH == 1
  SUM ahead[SEGMENTS];
WRITTEN_OUT
  for (int s = 0; s < SEGMENTS; ++s) {
    ahead[s] = 0;
#ifndef BEHIND
    const int i = lane + s * segment;
    if (there && i < length) READ_RUN(ahead + s, RUN_AT(i));
#endif
  }
#endif
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
    const int from = tile + lane * WIDTH;
    const int end = there && tile >= 0 ? length : tile;  // no element is there before
    SUM own[SEGMENTS][WIDTH], each[SEGMENTS], run[WIDTH];
WRITTEN_OUT
    for (int s = 0; s < SEGMENTS; ++s) {
      const int i = from + s * segment;
#if WIDTH == 1
      // Read before the barriers of the tile in front.
      run[0] = ahead[s];
      ahead[s] = 0;
      if (there && i + size < length) READ_RUN(ahead + s, RUN_AT(i + size));
#else
      for (int k = 0; k < WIDTH; ++k) run[k] = 0;
      if (i < end) READ_RUN(run, RUN_AT(i));
#endif
      SUM sum = 0;
      for (int k = 0; k < WIDTH; ++k) {
        sum += OF_RUN(run, k);
        own[s][k] = sum;
      }
      each[s] = sum;
    }
#ifdef BEHIND
    const int last = tile >= 0 ? 0 : reverse ? (int)get_num_groups(2) : part;
    for (int p = (reverse ? part + 1 : 0) + lane; there && p < last; p += lanes)
      each[0] += (SUM)parts[p * lines + line];
#endif
    SUM all[SEGMENTS], lead[SEGMENTS];
#ifdef SHARED
    SUMS every;
    vstore4(KERNEL(leading)(vload4(0, each), sums, &every), 0, lead);
    vstore4(every, 0, all);
#else
    for (int s = 0; s < SEGMENTS; ++s) {
      all[s] = each[s];
      lead[s] = 0;
    }
#endif
    SUM behind = 0;  // segments of this tile
WRITTEN_OUT
    for (int s = 0; s < SEGMENTS; ++s) {
      const int i = from + s * segment;
      const SUM base = behind + lead[s];
      for (int k = 0; k < WIDTH; ++k) {
        const SUM here = exclusive ? (k > 0 ? own[s][k - 1] : (SUM)0) : own[s][k];
#ifdef TYPE
        run[k] = before + base + here;
#else
        run[k] = before + (base + here + lost);
#endif
      }
      for (int k = 0; k < WIDTH; ++k) own[s][k] = OF_RUN(run, k);
      if (i < end) WRITE_RUN(own[s], RUN_AT(i));
      behind += all[s];
    }
#ifdef TYPE
    before += behind;
#else
    before = plus_exactly(before, behind, &lost);
#endif
  }
}
