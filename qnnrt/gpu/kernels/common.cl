// Before every family's file. Kernels store REAL and compute in float:
//   HALF: tensors are 16-bit floats, which every device can load and store
//   TYPE: they are integers of this type
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
#ifdef TYPE
#define REAL TYPE
#else
#define REAL float
#endif
#define LOAD(p, i) ((p)[i])
#define STORE(p, i, v) ((p)[i] = (v))
#endif
#ifndef POST
#define POST(v, i) (v)
#define POST_PARAMS
#endif
// Work groups that share rows of numbers, see ops/shares.py: a work item takes every GROUP_LANES-th
// element of one of GROUP_COLUMNS rows, from its ITEM_LANE on.
//   ROWS: lanes are neighbours in the group, LANE_STEP apart; else columns are
//   SHARED: there are lanes, which add up in local memory; else each work item has a row alone
#define ITEM ((int)(get_local_id(1) * get_local_size(0) + get_local_id(0)))
#ifdef ROWS
#define ITEM_LANE ((int)get_local_id(0))
#define ITEM_COLUMN ((int)get_local_id(1))
#define GROUP_LANES ((int)get_local_size(0))
#define GROUP_COLUMNS ((int)get_local_size(1))
#define LANE_STEP 1
#else
#define ITEM_LANE ((int)get_local_id(1))
#define ITEM_COLUMN ((int)get_local_id(0))
#define GROUP_LANES ((int)get_local_size(1))
#define GROUP_COLUMNS ((int)get_local_size(0))
#define LANE_STEP GROUP_COLUMNS
#endif
#define MOST_ITEMS 256
// An index that has no element is noted where kernels are given room for that, with CHECKED: FAULT
// with its position among the indices and the axis of that size; FAULT_PARAMS and FAULT_ARGS for
// functions that call it.
#ifdef CHECKED
#define FAULT_PARAMS , volatile __global int *faults, const int fault
#define FAULT_ARGS , faults, fault
#define FAULT(position, index, axis, size)                            \
  {                                                                   \
    if (atomic_cmpxchg(faults + 4 * fault, 0, (position) + 1) == 0) { \
      faults[4 * fault + 1] = convert_int_sat(index);                 \
      faults[4 * fault + 2] = axis;                                   \
      faults[4 * fault + 3] = size;                                   \
    }                                                                 \
  }
#else
#define FAULT_PARAMS
#define FAULT_ARGS
#define FAULT(position, index, axis, size) {}
#endif
// Neighbours that are read and written at once, WIDTH (1, 2, 4 or 8) of them, at a multiple of it:
// FLOATS is a vector of them, POSTS(v, i) is POST for elements i, i + 1...
#undef FLOATS
#undef LOADS
#undef STORES
#undef POSTS
#ifdef WIDTH
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define POSTS1(v, i) POST(v, i)
#define POSTS2(v, i) (float2)(POST((v).s0, i), POST((v).s1, (i) + 1))
#define POSTS4(v, i) (float4)(POSTS2((v).s01, i), POSTS2((v).s23, (i) + 2))
#define POSTS8(v, i) (float8)(POSTS4((v).s0123, i), POSTS4((v).s4567, (i) + 4))
#define POSTS(v, i) JOIN(POSTS, WIDTH)(v, i)
#if WIDTH == 1
#define FLOATS float
#define LOADS(p, i) LOAD(p, i)
#define STORES(p, i, v) STORE(p, i, v)
#else
#define FLOATS JOIN(float, WIDTH)
#ifdef HALF
#define LOADS(p, i) JOIN(vloada_half, WIDTH)(0, (p) + (i))
#define STORES(p, i, v) JOIN(vstorea_half, WIDTH)(v, 0, (p) + (i))
#else
#define LOADS(p, i) (*(__global const FLOATS*)((p) + (i)))
#define STORES(p, i, v) (*(__global FLOATS*)((p) + (i)) = (v))
#endif
#endif
#endif
