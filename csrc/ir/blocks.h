// Memory of constants and packed weights: from the C library, and mapped from kMappedBlock bytes
// on.
#pragma once

#include <array>
#include <cstddef>

namespace qnnrt {

// From here on memory is mapped and unmapped. Constants come and go while a graph is prepared, and
// the C library would keep what it gets back: its threshold grows with the blocks that are freed.
constexpr size_t kMappedBlock = size_t{128} << 10;

// On a 64-byte boundary, with whatever in it. Null: out of memory.
void* NewBlock(size_t size);
void FreeBlock(void* data, size_t size);  // with the size that it was made with

// While there is one, mapped blocks that its thread frees are kept for those of the same size that
// it makes next: their pages are there, and in a cache.
class FreedBlocks {
 public:
  FreedBlocks();
  ~FreedBlocks();
  FreedBlocks(const FreedBlocks&) = delete;
  FreedBlocks& operator=(const FreedBlocks&) = delete;

 private:
  friend void* NewBlock(size_t size);
  friend void FreeBlock(void* data, size_t size);
  struct Block {
    void* data = nullptr;
    size_t size = 0;
  };
  void Release();
  void* Take(size_t size);
  Block Keep(Block block);  // what has to go instead

  static constexpr size_t kMost = size_t{4} << 20;  // bytes of a block
  std::array<Block, 2> kept_;
  FreedBlocks* const before_;
};

}  // namespace qnnrt
