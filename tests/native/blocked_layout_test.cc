// Weights that lie in one way and are wanted in another: moved by what two texts say, or not at
// all.
#include "ops/blocked_layout.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "check.h"

using namespace qnnrt;

namespace {

std::string Layout(int type, const char* dims, const char* padded, const char* strides,
                   const char* blocks, const char* of, const char* rest = "") {
  return "oneDNN type " + std::to_string(type) + " [" + dims + "] padded [" + padded +
         "] strides [" + strides + "] blocks [" + blocks + "] of [" + of + "] at 0" + rest;
}

// [5, 3] as rows.
const std::string kRows = Layout(5, "5,3", "5,3", "3,1", "", "");

TEST(ATextOfALayoutIsReadAsItIsWritten) {
  const std::string text =
      Layout(5, "192,480,1,1", "192,512,1,1", "32768,4096,1,1", "16,64,4", "1,0,1", " for x");
  const auto layout = BlockedLayout::Parse(text);
  CHECK(layout.has_value());
  CHECK_EQ(layout->Text(), text);
  CHECK_EQ(layout->blocks.size(), 3u);
  CHECK_EQ(layout->rest, " for x");
}

TEST(BlocksAreMovedAndTheirPaddingIsZero) {
  std::vector<uint8_t> rows;
  for (uint8_t i = 1; i <= 15; ++i) rows.push_back(i);
  // Columns of 4 rows, in pairs of columns: [5, 3] padded to [8, 4].
  const std::string blocked = Layout(5, "5,3", "8,4", "16,8", "4,2", "0,1");
  std::vector<uint8_t> moved(32, 0xEE), back(15, 0xEE);
  CHECK(MoveBlocks(kRows, rows.data(), 15, blocked, moved.data(), 32));
  const std::vector<uint8_t> expected = {1,  2,  4, 5, 7, 8, 10, 11, 3,  0, 6, 0, 9, 0, 12, 0,
                                         13, 14, 0, 0, 0, 0, 0,  0,  15, 0, 0, 0, 0, 0, 0,  0};
  CHECK(moved == expected);
  CHECK(MoveBlocks(blocked, moved.data(), 32, kRows, back.data(), 15));
  CHECK(back == rows);
  // A dimension with two blocks, the outer one not innermost: [2, 8] in blocks of 2 * 2 columns.
  const std::string plain = Layout(3, "2,8", "2,8", "8,1", "", "");
  const std::string twice = Layout(3, "2,8", "2,8", "16,8", "2,2,2", "1,0,1");
  std::vector<float> from, to(16), again(16);
  for (int i = 0; i < 16; ++i) from.push_back(static_cast<float>(i));
  CHECK(MoveBlocks(plain, from.data(), 64, twice, to.data(), 64));
  const std::vector<float> there = {0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15};
  CHECK(to == there);
  CHECK(MoveBlocks(twice, to.data(), 64, plain, again.data(), 64));
  CHECK(again == from);
}

// [2, 3, 5]: matrix by matrix, in panels of two columns, the last one padded.
TEST(PanelsOfFloatsAreMovedAsBlocksAre) {
  std::vector<float> rows(30), panels(36, -1), wide(48, -1), back(36, -1);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i + 1);
  const std::string plain = Layout(3, "2,3,5", "2,3,5", "15,5,1", "", "");
  const std::string two = "MatMul 3x5 in panels of 2", four = "MatMul 3x5 in panels of 4";
  CHECK(MoveBlocks(plain, rows.data(), 120, two, panels.data(), 144));
  const std::vector<float> first = {1, 2, 6, 7, 11, 12, 3, 4, 8, 9, 13, 14, 5, 0, 10, 0, 15, 0, 16};
  CHECK(std::equal(first.begin(), first.end(), panels.begin()));
  CHECK(MoveBlocks(two, panels.data(), 144, four, wide.data(), 192));
  CHECK(std::vector<float>(wide.begin(), wide.begin() + 6) ==
        (std::vector<float>{1, 2, 3, 4, 6, 7}));
  CHECK(MoveBlocks(four, wide.data(), 192, two, back.data(), 144));
  CHECK(back == panels);
  for (const char* same :
       {"gates", "convolution of 2 groups", "convolution of 1 groups by F(2x2, 3x3)"}) {
    const std::string op = same;
    CHECK(MoveBlocks(op + " 3x5 in panels of 2", panels.data(), 144, op + " 3x5 in panels of 4",
                     wide.data(), 192));
  }
  // Of another op or shape, of none, of a size that does not fit, phase by phase.
  for (const char* other :
       {"gates 3x5 in panels of 2", "MatMul 5x3 in panels of 2", "MatMul 3x5 in panels of 0",
        "MatMul 3x5 in panels of 2 and more", "MatMul 3x5 in panels of 99999999",
        "MatMul 999999999999999x5 in panels of 2", "MatMul in panels of 2", " in panels of 2",
        "in panels of 2", "MatMul 3x5", "MatMul 3x5 in panels of 5",
        "Product 3x5 in panels of 2"}) {
    CHECK(!MoveBlocks(other, panels.data(), 144, four, wide.data(), 192));
  }
  CHECK(!MoveBlocks(two, panels.data(), 140, four, wide.data(), 192));
  const std::string phases = "transposed convolution of 2 groups in 2 phases 3x5 in panels of ";
  CHECK(!MoveBlocks(phases + "2", panels.data(), 144, phases + "4", wide.data(), 192));
}

// [2, 3] of 2 x 2 taps, whose terms go tap by tap in a product: as they lie for either kernel.
TEST(WeightsOfWindowsAreMovedToThoseOfAProductOfTheirRows) {
  const std::string window = Layout(2, "2,3,2,2", "2,4,2,2", "16,1,8,4", "", "");
  const std::string product = Layout(2, "2,12,1,1", "16,12,1,1", "192,16,192,192", "16", "0");
  std::vector<uint16_t> lie(32, 0), there(192, 0xEE), back(32, 0xEE);
  for (size_t o = 0; o < 2; ++o) {
    for (size_t tap = 0; tap < 4; ++tap) {
      for (size_t c = 0; c < 3; ++c)
        lie[o * 16 + tap * 4 + c] = static_cast<uint16_t>(100 * o + 10 * tap + c + 1);
    }
  }
  CHECK(MoveBlocks(window, lie.data(), 64, product, there.data(), 384));
  for (size_t term = 0; term < 12; ++term) {
    const size_t value = 10 * (term / 3) + term % 3 + 1;
    CHECK_EQ(there[16 * term], value);
    CHECK_EQ(there[16 * term + 1], 100 + value);
    CHECK_EQ(there[16 * term + 2], 0);
  }
  CHECK(MoveBlocks(product, there.data(), 384, window, back.data(), 64));
  CHECK(back == lie);
  const std::string fewer = Layout(2, "2,11,1,1", "16,12,1,1", "192,16,192,192", "16", "0");
  CHECK(!MoveBlocks(window, lie.data(), 64, fewer, there.data(), 384));
}

TEST(WhatTheTextsDoNotSayIsLeftAlone) {
  const std::vector<uint8_t> rows(64, 7);
  const std::string wanted = Layout(5, "5,3", "5,3", "1,5", "", "");
  const auto refused = [&](const std::string& lies, uint64_t size) {
    std::vector<uint8_t> to(15, 0xEE);
    const bool moved = MoveBlocks(lies, rows.data(), size, wanted, to.data(), 15);
    return !moved && to == std::vector<uint8_t>(15, 0xEE);
  };
  std::vector<uint8_t> to(15);
  CHECK(MoveBlocks(kRows, rows.data(), 15, wanted, to.data(), 15));
  CHECK(refused(kRows, 16));  // a byte that is no element: sums may lie there
  CHECK(refused(kRows + " for another kernel", 15));
  CHECK(refused("MatMul 5x3 in panels of 32", 15));
  CHECK(refused("", 15));
  CHECK(refused(Layout(6, "5,3", "5,3", "3,1", "", ""), 15));   // another type
  CHECK(refused(Layout(5, "3,5", "3,5", "5,1", "", ""), 15));   // another shape
  CHECK(refused(Layout(5, "5,3", "5,3", "3,1", "", "0"), 15));  // lists of other lengths
  CHECK(refused(Layout(5, "5,3", "5,3", "3", "", ""), 15));     //
  CHECK(refused(Layout(5, "5,3", "5,2", "3,1", "", ""), 10));   // more than there is room for
  CHECK(refused(Layout(5, "5,3", "5,3", "4,1", "", ""), 15));   // beyond the end
  CHECK(refused(Layout(5, "5,3", "5,3", "999999999999999,1", "", ""), 15));
  CHECK(refused(Layout(5, "5,3", "5,3", "9999999999999999,1", "", ""), 15));
  CHECK(refused(Layout(5, "5,3", "5,3", "3,-1", "", ""), 15));
  CHECK(refused(Layout(5, "5,3", "5,3", "3,1", "0", "0"), 15));  // a block of nothing
  CHECK(refused(Layout(5, "5,3", "5,3", "3,1", "2", "0"), 15));  // which does not divide
  CHECK(refused(Layout(5, "5,3", "5,3", "3,1", "3", "2"), 15));  // of no dimension
  CHECK(refused(Layout(5, "5,3", "5,3", "3,1", "999999999999,999999999999", "0,0"), 15));
  CHECK(refused("oneDNN type 5 [5,3] padded [5,3] strides [3,1] blocks [] of [] at 1", 15));
  // No more is made of a text than it has: a dimension of 10^14, a list without an end.
  CHECK(refused(Layout(5, "99999999999999,3", "99999999999999,3", "3,1", "", ""), 15));
  std::string endless = "oneDNN type 5 [1";
  for (int i = 0; i < 1000; ++i) endless += ",1";
  CHECK(refused(endless, 15));
}

}  // namespace

CHECK_MAIN("blocked_layout_test")
