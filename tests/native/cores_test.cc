// How long a machine counts as loaded after a thread lost its core, in times that the test gives.
#include "support/cores.h"

#include "check.h"

using qnnrt::Loaded;
using qnnrt::LoadSeen;

namespace {

constexpr uint64_t kMillisecond = 1000 * 1000;
// The longest that a single sight may cost, and that repeated ones may.
constexpr uint64_t kMoment = 5 * kMillisecond, kLongest = 400 * kMillisecond;

// Each test goes on in a later hour, so that none sees what another one left.
uint64_t NextHour() {
  static uint64_t hour = 0;
  return ++hour * 3600 * 1000 * kMillisecond;
}

// When a machine that was seen to be loaded just now is taken for idle again.
uint64_t IdleAgain(uint64_t now) {
  while (Loaded(now)) now += kMillisecond / 4;
  return now;
}

}  // namespace

TEST(what_runs_for_a_moment_twice_a_second_costs_a_moment_each_time) {
  uint64_t now = NextHour();
  for (int i = 0; i < 20; ++i, now += 512 * kMillisecond) {
    CHECK(!Loaded(now));
    LoadSeen(now);
    CHECK(Loaded(now));
    CHECK(IdleAgain(now) <= now + kMoment);
  }
}

TEST(tries_that_find_the_core_taken_come_ever_later) {
  uint64_t now = NextHour(), before = 0, length = 0;
  for (int i = 0; i < 12; ++i) {
    LoadSeen(now);
    length = IdleAgain(now) - now;
    CHECK(length > before || length == kLongest);
    CHECK(length <= kLongest);
    before = length;
    // Some slices of the system's time until the next loss is seen.
    now += length + 15 * kMillisecond;
  }
  CHECK_EQ(length, kLongest);
  // A second without a loss: it begins anew.
  now += 1000 * kMillisecond;
  LoadSeen(now);
  CHECK(IdleAgain(now) <= now + kMoment);
}

TEST(a_loss_that_is_seen_meanwhile_counts_from_then) {
  const uint64_t now = NextHour();
  LoadSeen(now);
  const uint64_t length = IdleAgain(now) - now;
  LoadSeen(now + length / 2);
  CHECK_EQ(IdleAgain(now) - now, length / 2 + length);
}

CHECK_MAIN("cores_test")
