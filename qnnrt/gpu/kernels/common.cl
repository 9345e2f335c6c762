// Before every family's file. Kernels store REAL and compute in float:
//   HALF: tensors are 16-bit floats, which every device can load and store
//   POST(v, i): what is done to element i of the output before it is stored; see Node.post. A kernel
//   that takes it has POST_PARAMS at the end of its parameters.
#undef REAL
#undef LOAD
#undef STORE
#ifdef HALF
#define REAL half
#define LOAD(p, i) vload_half(i, p)
#define STORE(p, i, v) vstore_half(v, i, p)
#else
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(p, i, v) ((p)[i] = (v))
#endif
#ifndef POST
#define POST(v, i) (v)
#define POST_PARAMS
#endif
