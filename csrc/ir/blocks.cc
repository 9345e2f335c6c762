#include "ir/blocks.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "support/threads.h"

namespace qnnrt {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;  // x86-64's, and aarch64's with pages of 4 KiB

QNNRT_OWN_THREAD FreedBlocks* t_freed = nullptr;

void* Map(size_t size, size_t alignment) {
  const size_t more = alignment == kHugePage ? alignment : 0;
  if (size > SIZE_MAX - more - kHugePage) return nullptr;
  void* const mapped =
      mmap(nullptr, size + more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  if (more == 0) return mapped;
  char* const first = static_cast<char*>(mapped);
  const size_t before = (alignment - reinterpret_cast<uintptr_t>(first) % alignment) % alignment;
  if (before != 0) (void)munmap(first, before);
  // What comes behind begins with a page of its own.
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t end = (before + size + page - 1) / page * page;
  if (end < size + more) (void)munmap(first + end, size + more - end);
  return first + before;
}

}  // namespace

void* NewBlock(size_t size) {
  if (size < kMappedBlock) {
    // Size 0 still gets an address, so that "has a value" and "is not null" stay the same thing.
    return std::aligned_alloc(
        kAlignment, std::max<size_t>(1, (size + kAlignment - 1) / kAlignment) * kAlignment);
  }
  if (t_freed != nullptr) {
    if (void* kept = t_freed->Take(size)) return kept;
  }
  void* const data = Map(size, size >= kHugePage ? kHugePage : kAlignment);
  if (data == nullptr) return nullptr;
  // Weights are filled once: with small pages half of that time is page faults. Both are advice;
  // huge pages are whole ones, so that the last one takes no more memory than there are bytes, and
  // the others are there at once, without a fault for each.
  const size_t huge = size / kHugePage * kHugePage;
  if (huge != 0) (void)madvise(data, huge, MADV_HUGEPAGE);
#ifdef MADV_POPULATE_WRITE
  if (huge != size)
    (void)madvise(static_cast<char*>(data) + huge, size - huge, MADV_POPULATE_WRITE);
#endif
  return data;
}

void FreeBlock(void* data, size_t size) {
  if (data == nullptr || size < kMappedBlock) return std::free(data);
  FreedBlocks::Block block{data, size};
  if (t_freed != nullptr) block = t_freed->Keep(block);
  if (block.data != nullptr) (void)munmap(block.data, block.size);
}

FreedBlocks::FreedBlocks() : before_(std::exchange(t_freed, this)) {}

FreedBlocks::~FreedBlocks() {
  t_freed = before_;
  Release();
}

void FreedBlocks::Release() {
  for (Block& block : kept_) {
    const Block gone = std::exchange(block, {});
    if (gone.data != nullptr) (void)munmap(gone.data, gone.size);
  }
}

void* FreedBlocks::Take(size_t size) {
  if (size > kMost) Release();  // a peak: nothing is kept beside it
  for (Block& block : kept_) {
    if (block.data != nullptr && block.size == size) return std::exchange(block, {}).data;
  }
  return nullptr;
}

FreedBlocks::Block FreedBlocks::Keep(Block block) {
  if (block.size > kMost) return block;
  // The last ones are at the front.
  for (Block& kept : kept_) {
    std::swap(kept, block);
    if (block.data == nullptr) break;
  }
  return block;
}

}  // namespace qnnrt
