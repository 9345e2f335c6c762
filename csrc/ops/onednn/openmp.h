// One pool of threads: the parallel regions of a library that was compiled for GNU OpenMP run on
// ours.
#pragma once

namespace qnnrt::onednn {

// Binds what the library, loaded with dlopen, calls of the OpenMP runtime to functions of ours.
// False, and nothing is changed, when it calls any that is not among them, or cannot be changed.
bool BindToPool(void* library);

// While it lives, regions that this thread opens have `count` members; without one, as many as the
// library's own runtime is told (omp_set_num_threads).
class RegionSize {
 public:
  explicit RegionSize(int count);
  ~RegionSize();
  RegionSize(const RegionSize&) = delete;
  RegionSize& operator=(const RegionSize&) = delete;

 private:
  int before_;
};

}  // namespace qnnrt::onednn
