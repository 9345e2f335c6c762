// oneDNN, loaded at run time: a struct of its C functions. One build runs with it and without it.
#pragma once

#if defined(__has_include)
#if __has_include(<oneapi/dnnl/dnnl.h>)
#define QNNRT_ONEDNN_HEADERS 1
#include <oneapi/dnnl/dnnl.h>
#endif
#endif

#ifdef QNNRT_ONEDNN_HEADERS

#include <string>

#include "ops/onednn/openmp.h"
#include "support/status.h"

namespace qnnrt::onednn {

// Only what is stable over oneDNN 3.x. The name in the library is "dnnl_" + this one.
#define QNNRT_DNNL_FUNCTIONS(X)                  \
  X(version)                                     \
  X(get_effective_cpu_isa)                       \
  X(engine_create)                               \
  X(stream_create)                               \
  X(stream_destroy)                              \
  X(memory_desc_create_with_strides)             \
  X(memory_desc_create_with_tag)                 \
  X(memory_desc_clone)                           \
  X(memory_desc_destroy)                         \
  X(memory_desc_equal)                           \
  X(memory_desc_get_size)                        \
  X(memory_desc_query)                           \
  X(memory_create)                               \
  X(memory_destroy)                              \
  X(memory_get_memory_desc)                      \
  X(memory_get_data_handle)                      \
  X(memory_set_data_handle)                      \
  X(primitive_attr_create)                       \
  X(primitive_attr_destroy)                      \
  X(primitive_attr_set_post_ops)                 \
  X(primitive_attr_set_scratchpad_mode)          \
  X(primitive_attr_set_zero_points_mask)         \
  X(primitive_attr_set_scales_mask)              \
  X(post_ops_create)                             \
  X(post_ops_destroy)                            \
  X(post_ops_append_eltwise)                     \
  X(post_ops_append_binary)                      \
  X(post_ops_append_sum)                         \
  X(primitive_desc_query)                        \
  X(primitive_desc_next_impl)                    \
  X(primitive_desc_query_md)                     \
  X(primitive_desc_destroy)                      \
  X(primitive_create)                            \
  X(primitive_destroy)                           \
  X(primitive_execute)                           \
  X(reorder_primitive_desc_create)               \
  X(convolution_forward_primitive_desc_create)   \
  X(deconvolution_forward_primitive_desc_create) \
  X(matmul_primitive_desc_create)                \
  X(pooling_forward_primitive_desc_create)       \
  X(lrn_forward_primitive_desc_create)

struct Api {
#define QNNRT_DNNL_MEMBER(name) decltype(&::dnnl_##name) name;
  QNNRT_DNNL_FUNCTIONS(QNNRT_DNNL_MEMBER)
#undef QNNRT_DNNL_MEMBER
  dnnl_engine_t engine;  // the one CPU engine; lives as long as the process
  bool on_pool;          // its parallel regions run on our pool
  // The OpenMP runtime that the library is bound to; null when it uses our pool or another kind of
  // threads.
  int (*omp_get_max_threads)();
  void (*omp_set_num_threads)(int);
};

// The library, loaded on the first call; null when there is none (OneDnnLoadState says why).
const Api* Load();
// The library, by someone who holds a kernel of it.
const Api& TheApi();

// While it lives, parallel regions that this thread opens have `count` threads. The thread's own
// setting comes back afterwards: other libraries in the process share the OpenMP runtime.
class ThreadCount {
 public:
  explicit ThreadCount(int count) : api_(TheApi()), size_(count), count_(count) {
    if (api_.omp_get_max_threads == nullptr) return;
    before_ = api_.omp_get_max_threads();
    if (before_ != count_) api_.omp_set_num_threads(count_);
  }
  ~ThreadCount() {
    if (before_ != 0 && before_ != count_) api_.omp_set_num_threads(before_);
  }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  const Api& api_;
  RegionSize size_;
  int count_;
  int before_ = 0;
};

// True in a child of the process that loaded the library, unless it runs on our pool: the worker
// threads of OpenMP do not survive a fork.
bool Forked();

const char* StatusName(dnnl_status_t status);

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
