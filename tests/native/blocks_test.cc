// Memory that is freed while kernels are made: who gets it next, and when it goes.
#include "ir/blocks.h"

#include <cstring>

#include "check.h"

using namespace qnnrt;

namespace {

constexpr size_t kSize = size_t{1} << 20;

// A block with a mark in it is freed; whether the next one has the mark, which a new one has not.
bool NextIsTheSame(size_t size, size_t next) {
  auto* first = static_cast<unsigned char*>(NewBlock(size));
  if (first == nullptr) return false;
  std::memset(first, 0x5A, size);
  FreeBlock(first, size);
  auto* second = static_cast<unsigned char*>(NewBlock(next));
  if (second == nullptr) return false;
  const bool same = second[0] == 0x5A && second[next - 1] == 0x5A;
  FreeBlock(second, next);
  return same;
}

}  // namespace

TEST(AFreedBlockIsTheNextOneOfItsSize) {
  CHECK(!NextIsTheSame(kSize, kSize));
  {
    const FreedBlocks freed;
    CHECK(NextIsTheSame(kSize, kSize));
    CHECK(!NextIsTheSame(kSize + 4096, kSize + 8192));
    CHECK(!NextIsTheSame(8 * kSize, 8 * kSize));  // too large to be kept
  }
  CHECK(!NextIsTheSame(kSize, kSize));
}

TEST(TheLastTwoBlocksAreKept) {
  const FreedBlocks freed;
  for (size_t i = 1; i <= 3; ++i) {
    void* const block = NewBlock(i * kSize);
    REQUIRE(block != nullptr);
    std::memset(block, static_cast<int>(i), i * kSize);
    FreeBlock(block, i * kSize);
  }
  unsigned char* again[4] = {};
  for (size_t i = 1; i <= 3; ++i) {
    again[i] = static_cast<unsigned char*>(NewBlock(i * kSize));
    REQUIRE(again[i] != nullptr);
    CHECK_EQ(static_cast<size_t>(again[i][0]), i == 1 ? size_t{0} : i);
  }
  for (size_t i = 1; i <= 3; ++i) FreeBlock(again[i], i * kSize);
}

CHECK_MAIN("blocks_test")
