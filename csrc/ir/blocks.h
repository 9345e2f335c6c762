// Memory of constants and packed weights: from the C library, and mapped from kMappedBlock bytes
// on.
#pragma once

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

namespace qnnrt {

// From here on memory is mapped and unmapped. Constants come and go while a graph is prepared, and
// the C library would keep what it gets back: its threshold grows with the blocks that are freed.
constexpr size_t kMappedBlock = size_t{128} << 10;

constexpr size_t kHugePage = size_t{2} << 20;  // x86-64's, and aarch64's with pages of 4 KiB

// On a 64-byte boundary, with whatever in it. Null: out of memory.
void* NewBlock(size_t size);
void FreeBlock(void* data, size_t size);  // with the size that it was made with

// Those that the blocks fill: of each block alone and of neighbours, in any order. Of blocks that
// come from the C library, which lie among other things of its: half or more.
std::vector<char*> HugePagesFilled(std::vector<std::pair<const void*, size_t>> blocks);

// Puts filled blocks of one graph into huge pages where the system does that at once (Linux 6.1),
// as those below kHugePage could not be when each came alone. How many it did not grant.
size_t JoinPages(std::vector<std::pair<const void*, size_t>> blocks);

// While there is one, mapped blocks that its thread frees are kept for what it makes next: their
// pages are there, and in a cache. Those below kHugePage are cut from kept ones, and freed ones
// become one with their neighbours; from kHugePage on a block goes to one of the same size.
class FreedBlocks {
 public:
  FreedBlocks();
  ~FreedBlocks();
  FreedBlocks(const FreedBlocks&) = delete;
  FreedBlocks& operator=(const FreedBlocks&) = delete;
  // So many bytes of blocks below kHugePage will be made. They are cut from huge pages, as long as
  // they fill one: a huge page takes a third of the time of small ones.
  void Expect(size_t bytes) { expected_ = bytes; }

 private:
  friend void* NewBlock(size_t size);
  friend void FreeBlock(void* data, size_t size);
  struct Block {
    char* data = nullptr;
    size_t size = 0;     // of whole pages
    bool large = false;  // kHugePage or more when it was made
  };
  void Release();
  Block* Fitting(size_t size);
  void* Take(size_t size);
  void Keep(Block block);
  void Merge(Block* block);

  static constexpr size_t kMost = size_t{4} << 20;   // bytes of a block
  static constexpr size_t kTotal = size_t{8} << 20;  // bytes of all of them
  std::array<Block, 8> kept_;                        // the last ones are at the front
  size_t expected_ = 0;
  FreedBlocks* const before_;
};

}  // namespace qnnrt
