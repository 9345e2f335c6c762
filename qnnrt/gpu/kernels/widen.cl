// x[i][CHANNELS] with zeros behind each line, as y[i][WIDE].
//   PLANES: x is [image][CHANNELS][pixels], and a work item makes a line in pieces of WIDTH; else
//   it makes an element
//   FROM: type of x's elements where it is not y's: float

#ifdef FROM
#define ELEMENT(i) x[i]
#else
#define FROM REAL
#define ELEMENT(i) LOAD(x, i)
#endif

#ifdef PLANES
__kernel void KERNEL(widen)(__global const FROM* restrict x, __global REAL* restrict y,
                            const int pixels) {
  const int i = get_global_id(0), first = i / pixels * pixels * CHANNELS + i % pixels;
  float line[WIDE];
  for (int c = 0; c < WIDE; ++c) line[c] = c < CHANNELS ? ELEMENT(first + c * pixels) : 0.0f;
  for (int c = 0; c < WIDE; c += WIDTH) STORES(y, i * WIDE + c, JOIN(vload, WIDTH)(0, line + c));
}
#else
__kernel void KERNEL(widen)(__global const FROM* restrict x, __global REAL* restrict y) {
  const int i = get_global_id(0), channel = i % WIDE;
  STORE(y, i, channel < CHANNELS ? ELEMENT(i / WIDE * CHANNELS + channel) : 0.0f);
}
#endif
