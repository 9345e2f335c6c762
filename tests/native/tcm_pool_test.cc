// TCM: the pool's rules alone, against a plain model.
#include "tcm_fixture.h"

using namespace tcm_test;

namespace {

TEST(NumbersOfTheDocumentation) {
  CHECK_EQ(kTcmBytes, 2035712u);
  CHECK_EQ(kTcmMaxPieces, 32u);
}

TEST(WholePoolFitsOnceAndNoByteMore) {
  TcmPool pool(64);
  uint64_t offset = 7;
  CHECK_EQ(pool.Take(kTcmBytes + 1, &offset), Fault::kNoRoom);
  CHECK_EQ(pool.Take(UINT64_MAX, &offset), Fault::kNoRoom);
  CHECK_EQ(pool.pieces(), 0u);
  CHECK_EQ(Taken(&pool, kTcmBytes), 0u);
  CHECK_EQ(pool.used(), kTcmBytes);
  CHECK_EQ(pool.largest(), 0u);
  CHECK_EQ(pool.Take(1, &offset), Fault::kNoRoom);
  CHECK(!pool.dead());
  CHECK(pool.Give(0));
  CHECK_EQ(pool.largest(), kTcmBytes);
}

TEST(ThirtyTwoPiecesAndTheNextIsFatal) {
  TcmPool pool(64);
  for (uint32_t i = 0; i < kTcmMaxPieces; ++i) CHECK_EQ(Taken(&pool, 1), uint64_t{64} * i);
  uint64_t offset;
  CHECK_EQ(pool.Take(1, &offset), Fault::kTooMany);
  CHECK(pool.dead());
  CHECK_EQ(pool.Take(1, &offset), Fault::kDead);
  CHECK(pool.Give(0));  // memory can still be given back
  CHECK_EQ(pool.Take(1, &offset), Fault::kDead);
}

TEST(PiecesGivenBackDoNotCount) {
  TcmPool pool(64);
  for (uint32_t i = 0; i < 10 * kTcmMaxPieces; ++i) CHECK(pool.Give(Taken(&pool, 1000)));
  CHECK(!pool.dead());
  CHECK(!pool.Give(0));
}

TEST(BestFitTakesTheSmallestGap) {
  TcmPool pool(64);
  const uint64_t a = Taken(&pool, 1024);  // 0
  const uint64_t b = Taken(&pool, 64);
  const uint64_t c = Taken(&pool, 256);  // 1088
  const uint64_t d = Taken(&pool, 64);
  const uint64_t e = Taken(&pool, 256);  // as large as c, behind it
  Taken(&pool, 64);
  CHECK(pool.Give(a) && pool.Give(c) && pool.Give(e));
  CHECK_EQ(Taken(&pool, 256), c);
  CHECK_EQ(Taken(&pool, 200), e);
  CHECK_EQ(Taken(&pool, 200), a);
  CHECK(pool.Give(b) && pool.Give(d));
}

TEST(StartsAreAlignedAndEndsAreNot) {
  TcmPool pool(256, 1000);
  CHECK_EQ(Taken(&pool, 1), 0u);
  CHECK_EQ(Taken(&pool, 257), 256u);
  CHECK_EQ(pool.largest(), 1000u - 768u);
  CHECK_EQ(Taken(&pool, 232), 768u);  // to the last byte
  CHECK_EQ(pool.largest(), 0u);
}

// Random takes and gives against intervals in a map.
TEST(AgreesWithAModel) {
  for (uint64_t alignment : {1u, 16u, 64u, 4096u}) {
    std::mt19937_64 random(alignment);
    TcmPool pool(alignment);
    std::map<uint64_t, uint64_t> model;  // offset -> size
    for (int step = 0; step < 3000; ++step) {
      if (!model.empty() && (random() % 2 || model.size() == kTcmMaxPieces)) {
        auto it = std::next(model.begin(), static_cast<long>(random() % model.size()));
        CHECK(pool.Give(it->first));
        model.erase(it);
        continue;
      }
      const uint64_t wanted = 1 + random() % (random() % 4 ? 100000 : kTcmBytes);
      uint64_t best = UINT64_MAX, place = 0, start = 0, largest = 0;
      auto gap = [&](uint64_t end) {
        const uint64_t aligned = (start + alignment - 1) / alignment * alignment;
        if (aligned >= end) return;
        largest = std::max(largest, end - aligned);
        if (end - aligned < wanted || end - aligned >= best) return;
        best = end - aligned;
        place = aligned;
      };
      for (const auto& [offset, nbytes] : model) {
        gap(offset);
        start = offset + nbytes;
      }
      gap(kTcmBytes);
      CHECK_EQ(pool.largest(), largest);
      uint64_t offset = 0;
      const Fault fault = pool.Take(wanted, &offset);
      CHECK_EQ(fault, best == UINT64_MAX ? Fault::kNoRoom : Fault::kNone);
      if (fault != Fault::kNone) continue;
      CHECK_EQ(offset, place);
      model[offset] = wanted;
    }
    CHECK_EQ(pool.pieces(), model.size());
  }
}

}  // namespace

CHECK_MAIN("tcm_pool_test")
