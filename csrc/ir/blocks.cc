#include "ir/blocks.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <utility>

#include "support/threads.h"

namespace qnnrt {
namespace {

constexpr size_t kAlignment = 64;
using SortedBlocks = std::vector<std::pair<const void*, size_t>>::const_iterator;
QNNRT_OWN_THREAD FreedBlocks* t_freed = nullptr;

size_t WholePages(size_t size) {
  static const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (size + page - 1) / page * page;
}

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
  const size_t end = WholePages(before + size);
  if (end < size + more) (void)munmap(first + end, size + more - end);
  return first + before;
}

// A host may take back what its guests leave free, and does so in large pieces: a huge page has no
// memory behind it then, and takes 2.3 ms instead of 0.1, while small pages are there of what was
// in use before. After such a page so many bytes come in small ones, until the next is tried.
constexpr int64_t kSlowPage = 1000000;  // ns
constexpr size_t kInSmall = size_t{256} << 20;
std::atomic<size_t> g_in_small{0};

int64_t ThreadNanoseconds() {
  timespec now{};
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * int64_t{1000000000} + now.tv_nsec;
}

// Of `huge` bytes in whole huge pages, how many are to be such.
size_t TakeHuge(char* data, size_t huge) {
  if (huge == 0) return 0;
  if (const size_t left = g_in_small.load(std::memory_order_relaxed); left != 0) {
    g_in_small.store(left - std::min(left, huge), std::memory_order_relaxed);
    return 0;
  }
  (void)madvise(data, kHugePage, MADV_HUGEPAGE);
  const int64_t start = ThreadNanoseconds();
  *static_cast<volatile char*>(data) = 0;
  if (ThreadNanoseconds() - start > kSlowPage) {
    g_in_small.store(kInSmall, std::memory_order_relaxed);
    return kHugePage;
  }
  (void)madvise(data, huge, MADV_HUGEPAGE);
  return huge;
}

// Weights are filled once: with small pages half of that time is page faults. Both are advice; huge
// pages are whole ones, so that the last one takes no more memory than there are bytes, and the
// others are there at once, without a fault for each.
void* MapFilled(size_t size) {
  void* const data = Map(size, size >= kHugePage ? kHugePage : kAlignment);
  if (data == nullptr) return nullptr;
  char* const first = static_cast<char*>(data);
  const size_t whole = size / kHugePage * kHugePage, huge = TakeHuge(first, whole);
#ifdef MADV_POPULATE_WRITE
  if (huge != size) (void)madvise(first + huge, size - huge, MADV_POPULATE_WRITE);
#endif
  // The system joins them when it has the time: a decoder's token takes 0.97 of the time then.
  if (huge != whole) (void)madvise(first + huge, whole - huge, MADV_HUGEPAGE);
  return data;
}

uintptr_t Address(const void* data) { return reinterpret_cast<uintptr_t>(data); }

// Those that small blocks, in order, have half of or more. The C library has other things there,
// and what is between them is mostly in use, so that hardly more memory is taken.
void AddHeapPages(SortedBlocks block, SortedBlocks end, std::vector<char*>* pages) {
  uintptr_t page = 0, counted = 0;
  size_t bytes = 0;  // of blocks in it
  const auto close = [&] {
    if (bytes >= kHugePage / 2) pages->push_back(reinterpret_cast<char*>(page));
  };
  for (; block != end; ++block) {
    const uintptr_t behind = Address(block->first) + block->second;
    for (uintptr_t at = std::max(Address(block->first), counted); at < behind;) {
      const uintptr_t own = at / kHugePage * kHugePage;
      if (own != page) {
        close();
        page = own;
        bytes = 0;
      }
      const uintptr_t to = std::min(behind, own + kHugePage);
      bytes += to - at;
      at = counted = to;
    }
  }
  close();
}

bool JoinRefused(char* huge_page) {
#if defined(__linux__)
#ifndef MADV_COLLAPSE
  constexpr int MADV_COLLAPSE = 25;
#endif
  // EAGAIN: the system holds one of the small pages just then.
  for (int tries = 3; tries > 0; --tries) {
    if (madvise(huge_page, kHugePage, MADV_COLLAPSE) == 0) return false;
    if (errno != EAGAIN) break;
  }
#else
  (void)huge_page;
#endif
  return true;
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
  return MapFilled(size);
}

void FreeBlock(void* data, size_t size) {
  if (data == nullptr || size < kMappedBlock) return std::free(data);
  if (t_freed == nullptr || size > FreedBlocks::kMost) {
    (void)munmap(data, size);
    return;
  }
  t_freed->Keep({static_cast<char*>(data), WholePages(size), size >= kHugePage});
}

std::vector<char*> HugePagesFilled(std::vector<std::pair<const void*, size_t>> blocks) {
  std::vector<char*> pages;
  std::sort(blocks.begin(), blocks.end());
  const auto small = [](const auto& block) { return block.second < kMappedBlock; };
  const auto first_small = std::stable_partition(blocks.begin(), blocks.end(), std::not_fn(small));
  for (auto block = blocks.begin(); block != first_small;) {
    uintptr_t at = Address(block->first), end = at;
    for (; block != first_small && Address(block->first) <= end; ++block)
      end = std::max(end, Address(block->first) + WholePages(block->second));
    at = (at + kHugePage - 1) / kHugePage * kHugePage;
    for (; at + kHugePage <= end; at += kHugePage) pages.push_back(reinterpret_cast<char*>(at));
  }
  AddHeapPages(first_small, blocks.end(), &pages);
  return pages;
}

size_t JoinPages(std::vector<std::pair<const void*, size_t>> blocks) {
  const std::vector<char*> pages = HugePagesFilled(std::move(blocks));
  return static_cast<size_t>(std::count_if(pages.begin(), pages.end(), JoinRefused));
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

FreedBlocks::Block* FreedBlocks::Fitting(size_t size) {
  const size_t wanted = WholePages(size);
  const bool large = size >= kHugePage;
  Block* best = nullptr;
  for (Block& block : kept_) {
    if (block.data == nullptr || block.large != large || block.size < wanted) continue;
    if (block.size == wanted) return &block;
    if (!large && (best == nullptr || block.size < best->size)) best = &block;
  }
  return best;
}

void* FreedBlocks::Take(size_t size) {
  if (size > kMost) Release();  // a peak: nothing is kept beside it
  Block* block = Fitting(size);
  if (block == nullptr && size < kHugePage && expected_ >= kHugePage) {
    void* const page = MapFilled(kHugePage);
    if (page == nullptr) return nullptr;
    Keep({static_cast<char*>(page), kHugePage, false});
    block = Fitting(size);
  }
  if (block == nullptr) return nullptr;
  void* const data = block->data;
  block->data += WholePages(size);
  block->size -= WholePages(size);
  if (block->size == 0) *block = {};
  return data;
}

// Kept neighbours become one with it.
void FreedBlocks::Merge(Block* block) {
  for (Block& kept : kept_) {
    if (kept.data == nullptr || kept.large || kept.size + block->size > kMost) continue;
    const bool before = kept.data + kept.size == block->data;
    if (!before && block->data + block->size != kept.data) continue;
    *block = {before ? kept.data : block->data, kept.size + block->size, false};
    kept = {};
  }
}

void FreedBlocks::Keep(Block block) {
  if (!block.large) Merge(&block);
  size_t total = 0;
  for (Block& kept : kept_) {
    std::swap(kept, block);
    total += kept.size;
    if (total > kTotal) {  // the older ones go
      total -= kept.size;
      const Block gone = std::exchange(kept, {});
      (void)munmap(gone.data, gone.size);
    }
  }
  if (block.data != nullptr) (void)munmap(block.data, block.size);
}

}  // namespace qnnrt
