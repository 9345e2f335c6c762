// Moving elements from one regular pattern to another: what Transpose, Concat, slices, tiles and
// the block rearrangements come down to. Plans are made with the kernel; running one allocates
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/op.h"

namespace qnnrt {

// One loop of the pattern; strides in elements, outermost loop first.
struct CopyDim {
  size_t count;
  ptrdiff_t src, dst;
};

class StridedCopy {
 public:
  // Elements of element_size bytes, starting at these elements of source and destination.
  // No element of the destination may be written twice.
  StridedCopy(size_t element_size, std::vector<CopyDim> dims, size_t src_offset = 0,
              size_t dst_offset = 0);

  void Run(const Threads& threads, const void* src, void* dst) const;
  size_t bytes() const { return units_ * unit_bytes_; }

 private:
  using RowFn = void (*)(const char* src, ptrdiff_t src_stride, char* dst, ptrdiff_t dst_stride,
                         size_t count, size_t bytes);
  using TileFn = void (*)(const char* src, ptrdiff_t src_stride, char* dst, ptrdiff_t dst_stride,
                          size_t rows, size_t columns);
  using GatherFn = void (*)(const char* src, char* dst, const int32_t* from, size_t count);
  static constexpr size_t kMaxDims = 16;

  bool PlanGather();
  void PlanTiles();
  void RunRows(const char* src, char* dst, size_t begin, size_t end) const;
  void RunGather(const char* src, char* dst, size_t begin, size_t end) const;
  void RunTiles(const char* src, char* dst, size_t begin, size_t end) const;

  size_t chunk_;               // bytes that lie together on both sides
  std::vector<CopyDim> dims_;  // strides in bytes
  ptrdiff_t src_offset_, dst_offset_;
  size_t units_ = 1;  // what threads share: chunks, or bands of tiles
  size_t unit_bytes_ = 0;
  RowFn row_ = nullptr;
  // Transposing: the last two dims are (fastest in the source, fastest in the destination).
  TileFn tile_ = nullptr;
  // Small dense blocks whose elements are permuted: where each one comes from.
  GatherFn gather_ = nullptr;
  std::vector<int32_t> from_;
  size_t band_ = 0, bands_ = 0;
};

// One value of `element` bytes over and over, `bytes` in all.
void FillElements(char* to, const unsigned char* value, size_t element, size_t bytes);

// memcpy by several threads when it is worth it
void ParallelCopy(const Threads& threads, void* dst, const void* src, size_t bytes);

// Strides of a dense tensor.
std::vector<ptrdiff_t> DenseStrides(const Shape& shape);

// A kernel that runs copies[k] from input in[k] to output out[k].
struct CopyTask {
  size_t input, output;
  StridedCopy copy;
};
// What output 0 is filled with before the copies: so many elements, each with this value.
struct CopyFill {
  size_t count = 0, element_size = 1;
  unsigned char value[8] = {};
};
KernelPtr MakeCopyKernel(std::vector<CopyTask> tasks, const CopyFill& fill = {});
// Output 0 is input 0 as it is.
KernelPtr MakePlainCopy(const Node& node);

}  // namespace qnnrt
