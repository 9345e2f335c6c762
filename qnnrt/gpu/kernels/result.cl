// Stores VY neighbours of the output, or of a part of its sums, out of local memory:
//   at, n: the first one's element of y, and column
//   x, TOTAL(x): its place in local memory, and the sum there
#ifdef PARTIAL
#define RESULT(v) TOTAL(x + v)
#elif defined BIAS
#define RESULT(v) POST(TOTAL(x + v) + LOAD(bias, BIAS + n + v), at + v)
#else
#define RESULT(v) POST(TOTAL(x + v), at + v)
#endif
#if VY == 4
const float4 all = (float4)(RESULT(0), RESULT(1), RESULT(2), RESULT(3));
#elif VY == 2
const float2 all = (float2)(RESULT(0), RESULT(1));
#endif
#if VY > 1 && defined HALF && !defined PARTIAL
CAT(vstorea_half, VY)(all, 0, y + at);
#elif VY > 1
*(__global CAT(float, VY)*)(y + at) = all;
#elif defined PARTIAL
y[at] = RESULT(0);
#else
STORE(y, at, RESULT(0));
#endif
