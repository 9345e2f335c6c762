// Indices as gather.cl and scatter.cl take them.
//   INDEX: their type

// f(0) ... f(n - 1), for loops that are written out
#define EVERY1(f) f(0)
#define EVERY2(f) f(0) f(1)
#define EVERY4(f) f(0) f(1) f(2) f(3)
#define EVERY8(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7)
#define EVERY_(n, f) EVERY##n(f)
#define EVERY(n, f) EVERY_(n, f)

// Counted from the start of an axis; below 0: there is no such element.
static inline long KERNEL(index)(__global const INDEX* indices, int at, int size) {
  const long i = (long)indices[at];
  const long from_start = i < 0 ? i + size : i;
  return from_start >= 0 && from_start < size ? from_start : -1;
}
