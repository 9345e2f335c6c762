// Memory that is freed while kernels are made: who gets it next, and when it goes.
#include "ir/blocks.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <utility>
#include <vector>

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

// Pages that are asked to be joined while it lives, answered by the system or by `errors` in turn.
// (Which pages the system then keeps whole is not ours to promise: it splits them when it likes.)
class ScopedAnswers {
 public:
  ScopedAnswers(std::initializer_list<int> errors = {}) : errors_(errors) { s_now = this; }
  ~ScopedAnswers() { s_now = nullptr; }

  const std::vector<char*>& pages() const { return pages_; }

  static int Advise(void* data, size_t size, int advice) {
    if (s_now == nullptr || advice != kCollapse)
      return static_cast<int>(syscall(SYS_madvise, data, size, advice));
    const size_t i = s_now->pages_.size();
    s_now->pages_.push_back(static_cast<char*>(data));
    if (s_now->errors_.empty()) return static_cast<int>(syscall(SYS_madvise, data, size, advice));
    errno = i < s_now->errors_.size() ? s_now->errors_[i] : EIO;
    return errno == 0 ? 0 : -1;
  }

 private:
  static constexpr int kCollapse = 25;  // MADV_COLLAPSE
  static ScopedAnswers* s_now;
  std::vector<int> errors_;
  std::vector<char*> pages_;
};

ScopedAnswers* ScopedAnswers::s_now = nullptr;

}  // namespace

// In place of the C library's.
extern "C" int madvise(void* data, size_t size, int advice) noexcept {
  return ScopedAnswers::Advise(data, size, advice);
}

TEST(NeighboursFillHugePages) {
  const auto at = [](size_t address) { return reinterpret_cast<char*>(address); };
  constexpr size_t kBase = size_t{1} << 40;
  std::vector<std::pair<const void*, size_t>> blocks;
  for (size_t i = 0; i < 10; ++i)  // in any order; a block ends with its page
    blocks.emplace_back(at(kBase + kSize + i * 7 % 10 * kSize), kSize - 100);
  std::vector<char*> filled;
  for (size_t i = 1; i < 5; ++i) filled.push_back(at(kBase + i * kHugePage));
  CHECK(HugePagesFilled(blocks) == filled);
  blocks.emplace_back(at(kBase), kSize);  // the other half of the first one
  filled.insert(filled.begin(), at(kBase));
  CHECK(HugePagesFilled(blocks) == filled);
  CHECK(HugePagesFilled({{at(kBase), kSize}, {at(kBase + kSize + 4096), kSize}}).empty());
  CHECK(HugePagesFilled({{at(kBase + 4096), 2 * kHugePage}}) ==
        std::vector<char*>{at(kBase + kHugePage)});
  CHECK(HugePagesFilled({}).empty());
}

TEST(HugePagesOfSmallBlocksAreThoseThatTheyHaveHalfOf) {
  constexpr uintptr_t kBase = uintptr_t{1} << 40;
  constexpr size_t kSmall = kMappedBlock / 2, kHalf = kHugePage / 2 / kSmall;
  const auto at = [](uintptr_t address) { return reinterpret_cast<char*>(address); };
  std::vector<std::pair<const void*, size_t>> blocks;
  for (size_t i = 0; i < kHalf; ++i)  // with as much of something else between them
    blocks.emplace_back(at(kBase + (2 * i + 1) * kSmall), kSmall);
  CHECK(HugePagesFilled(blocks) == std::vector<char*>{at(kBase)});
  blocks.push_back(blocks[0]);  // counts once
  blocks[3].second -= 64;
  CHECK(HugePagesFilled(blocks).empty());
  blocks.emplace_back(at(kBase - 64), 128);  // on both sides of a page's end
  CHECK(HugePagesFilled(blocks) == std::vector<char*>{at(kBase)});
}

TEST(JoinedPagesKeepTheirBytes) {
  constexpr size_t kBlocks = 10;  // four huge pages at least
  char* const data = SmallPages(kBlocks * kSize);
  REQUIRE(data != nullptr);
  std::vector<std::pair<const void*, size_t>> blocks;
  for (size_t i = 0; i < kBlocks; ++i) blocks.emplace_back(data + i * kSize, kSize - 100);
  const std::vector<char*> pages = HugePagesFilled(blocks);
  CHECK(pages.size() >= 4);
  const ScopedAnswers asked;  // the system's own
  if (JoinPages(blocks) != 0) check::Skip("huge pages", "this machine grants fewer now");
  std::vector<char*> joined = asked.pages();
  joined.erase(std::unique(joined.begin(), joined.end()), joined.end());  // EAGAIN: asked again
  CHECK(joined == pages);
  for (size_t i = 0; i < kBlocks * kSize; ++i)
    if (data[i] != 0x5A) CHECK_EQ(i, SIZE_MAX);
  (void)munmap(data, kBlocks * kSize);
}

TEST(ABusyPageIsAskedForThreeTimesARefusedOneOnce) {
  const auto at = [](size_t page) {
    return reinterpret_cast<char*>((size_t{1} << 40) + page * kHugePage);
  };
  const std::vector<std::pair<const void*, size_t>> blocks = {{at(0), 4 * kHugePage}};
  const ScopedAnswers asked{EAGAIN, EAGAIN, 0, EINVAL, 0, EAGAIN, EAGAIN, EAGAIN};
  CHECK_EQ(JoinPages(blocks), size_t{2});
  CHECK(asked.pages() ==
        (std::vector<char*>{at(0), at(0), at(0), at(1), at(2), at(3), at(3), at(3)}));
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
