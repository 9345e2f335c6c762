// Memory that is freed while kernels are made: who gets it next, and when it goes.
#include "ir/blocks.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
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

// Of this process, in huge pages.
long HugeKib() {
  long kib = 0;
  std::FILE* const file = std::fopen("/proc/self/smaps_rollup", "r");
  for (char line[128]; file != nullptr && std::fgets(line, sizeof(line), file) != nullptr;)
    (void)std::sscanf(line, "AnonHugePages: %ld", &kib);
  if (file != nullptr) std::fclose(file);
  return kib;
}

// Filled with small pages.
char* SmallPages(size_t size) {
  void* const data =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  (void)madvise(data, size, MADV_NOHUGEPAGE);
  std::memset(data, 0x5A, size);
  (void)madvise(data, size, MADV_HUGEPAGE);
  return static_cast<char*>(data);
}

}  // namespace

TEST(NeighboursAreJoinedInHugePages) {
  constexpr size_t kBlocks = 10;  // four huge pages at least
  char* const data = SmallPages(kBlocks * kSize);
  char* const alone = SmallPages(2 * kHugePage);
  char* const probe = SmallPages(kBlocks * kSize);
  REQUIRE(data != nullptr && alone != nullptr && probe != nullptr);
  // The system may not have as many.
  constexpr int kCollapse = 25;
  bool there = true;
  char* page = probe + (kHugePage - reinterpret_cast<uintptr_t>(probe) % kHugePage);
  for (; page + kHugePage <= probe + kBlocks * kSize; page += kHugePage)
    there &= madvise(page, kHugePage, kCollapse) == 0;
  (void)munmap(probe, kBlocks * kSize);
  const long before = HugeKib();
  std::vector<std::pair<const void*, size_t>> blocks;
  for (size_t i = 0; i < kBlocks; ++i)  // in any order; a block ends with its page
    blocks.emplace_back(data + i * 7 % kBlocks * kSize, kSize - 100);
  // A page that the system is moving just then is refused (EAGAIN).
  for (int i = 0; i < 10 && (i == 0 || (there && HugeKib() - before < 4 * 2048)); ++i)
    JoinPages(blocks);
  if (there) CHECK(HugeKib() - before >= 4 * 2048);
  for (size_t i = 0; i < kBlocks * kSize; i += 4096) CHECK(data[i] == 0x5A);
  const long joined = HugeKib();
  JoinPages({{alone, kSize}, {alone + kSize + 4096, kSize}});  // neither fills one
  CHECK_EQ(HugeKib(), joined);
  (void)munmap(data, kBlocks * kSize);
  (void)munmap(alone, 2 * kHugePage);
}

TEST(AFreedBlockIsTheNextOneOfItsSize) {
  CHECK(!NextIsTheSame(kSize, kSize));
  {
    const FreedBlocks freed;
    CHECK(NextIsTheSame(kSize, kSize));
  }
  {
    const FreedBlocks freed;
    CHECK(!NextIsTheSame(8 * kSize, 8 * kSize));  // too large to be kept
  }
  CHECK(!NextIsTheSame(kSize, kSize));
}

TEST(ASmallerBlockIsCutFromAFreedOne) {
  const FreedBlocks freed;
  CHECK(NextIsTheSame(kSize, kSize / 2));
}

TEST(PartsOfABlockAreOneAgain) {
  const FreedBlocks freed;
  CHECK(NextIsTheSame(kSize, kSize / 4));
  void* const parts[] = {NewBlock(kSize / 4), NewBlock(kSize / 2), NewBlock(kSize / 4)};
  FreeBlock(parts[0], kSize / 4);
  FreeBlock(parts[2], kSize / 4);
  FreeBlock(parts[1], kSize / 2);
  auto* const whole = static_cast<unsigned char*>(NewBlock(kSize));
  REQUIRE(whole != nullptr);
  for (size_t at = 0; at < kSize; at += 4096) CHECK_EQ(static_cast<int>(whole[at]), 0x5A);
  FreeBlock(whole, kSize);
}

TEST(ABlockOfHugePagesIsNotCut) {
  const FreedBlocks freed;
  CHECK(NextIsTheSame(3 * kSize, 3 * kSize));
  auto* const smaller = static_cast<unsigned char*>(NewBlock(kSize));
  REQUIRE(smaller != nullptr);
  CHECK_EQ(static_cast<int>(smaller[0]), 0);
  FreeBlock(smaller, kSize);
}

TEST(ExpectedBlocksAreCutFromHugePages) {
  FreedBlocks freed;
  void* const alone = NewBlock(kSize / 2);
  freed.Expect(2 * kSize);
  auto* const first = static_cast<char*>(NewBlock(kSize / 2));
  freed.Expect(kSize / 2);  // what is left of the page
  auto* const second = static_cast<char*>(NewBlock(kSize / 2));
  REQUIRE(alone != nullptr && first != nullptr && second != nullptr);
  CHECK_EQ(reinterpret_cast<uintptr_t>(first) % kHugePage, uintptr_t{0});
  CHECK(second == first + kSize / 2);
  for (void* block : {alone, static_cast<void*>(first), static_cast<void*>(second)})
    FreeBlock(block, kSize / 2);
}

TEST(NoMoreThanEightMebibytesAreKept) {
  const FreedBlocks freed;
  unsigned char* blocks[3] = {};
  for (auto*& block : blocks) {
    block = static_cast<unsigned char*>(NewBlock(3 * kSize));
    REQUIRE(block != nullptr);
    std::memset(block, 0x5A, 3 * kSize);
  }
  for (auto* block : blocks) FreeBlock(block, 3 * kSize);
  int kept = 0;
  for (auto*& block : blocks) {
    block = static_cast<unsigned char*>(NewBlock(3 * kSize));
    REQUIRE(block != nullptr);
    kept += block[0] == 0x5A;
  }
  CHECK_EQ(kept, 2);
  for (auto* block : blocks) FreeBlock(block, 3 * kSize);
}

CHECK_MAIN("blocks_test")
