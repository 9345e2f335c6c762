// The slot table against a model of it: random calls, after each of which every handle that ever
// was says what the model says.
#include "support/slot_table.h"

#include <map>
#include <random>
#include <set>
#include <vector>

#include "check.h"

using qnnrt::SlotHandle;

namespace {

// 12 slots in two chunks: full within a few calls.
using Table = qnnrt::SlotTable<int, 4, 2>;
constexpr size_t kSlots = 12;

enum class State { kInserted, kLive, kClosed, kRetired, kGone };
struct Entry {
  State state;
  uint32_t pins;
  int value;
};

class Model {
 public:
  explicit Model(uint32_t seed) : rng_(seed) {}

  void Step() {
    switch (Pick(9)) {
      case 0:
      case 1:
        return Insert();
      case 2:
        return Publish();
      case 3:
        return Acquire();
      case 4:
        return Release();
      case 5:
        return Retire();
      case 6:
        return Close();
      case 7:
        return Recycle();
      default:
        return ForceRetire();
    }
  }

  bool Agrees() {
    std::set<SlotHandle> live;
    bool good = true;
    for (const auto& [handle, entry] : entries_) {
      const bool is_live = entry.state == State::kLive;
      if (is_live) live.insert(handle);
      good &= CHECK_EQ(table_.PinsOf(handle), is_live ? int64_t{entry.pins} : int64_t{-1});
      good &= CHECK_EQ(table_.Live(handle), is_live);
      good &= CHECK_EQ(table_.Peek(handle) != nullptr, is_live);
      if (is_live) good &= CHECK_EQ(*table_.Peek(handle), entry.value);
      const bool was = entry.state > State::kLive;
      // An inserted one that was given back was never live, and its handle may come again.
      if (entry.state != State::kInserted) good &= CHECK_EQ(table_.WasLive(handle), was);
      if (entry.state == State::kClosed) {
        good &= CHECK_EQ(table_.Drained(handle), entry.pins == 0);
        good &= CHECK_EQ(*table_.Closed(handle), entry.value);
      }
      if (!is_live) good &= CHECK(table_.Acquire(handle) == nullptr);
      // The generation after it is that of an empty slot, which nobody may name.
      good &= CHECK_EQ(table_.PinsOf(handle + (uint64_t{1} << 32)), int64_t{-1});
    }
    table_.ForEachLive([&](SlotHandle handle, int& value) {
      good &= CHECK_EQ(live.erase(handle), size_t{1});
      good &= CHECK_EQ(value, entries_[handle].value);
    });
    return good && CHECK(live.empty());
  }

 private:
  size_t Pick(size_t count) { return rng_() % count; }
  // One of the handles in a state; 0: none.
  SlotHandle Any(std::initializer_list<State> states) {
    std::vector<SlotHandle> found;
    for (const auto& [handle, entry] : entries_) {
      for (State s : states) {
        if (entry.state == s) found.push_back(handle);
      }
    }
    return found.empty() ? 0 : found[Pick(found.size())];
  }

  void Insert() {
    SlotHandle handle = 0;
    int* value = table_.Insert(&handle);
    CHECK_EQ(value == nullptr, occupied_ == kSlots);
    if (!value) return;
    CHECK(handle != 0 && entries_.count(handle) == 0);  // never one that was there before
    CHECK((handle & UINT32_MAX) >= 1 && (handle & UINT32_MAX) <= kSlots);
    CHECK((handle >> 32) % 2 == 1);
    *value = ++values_;
    ++occupied_;
    entries_[handle] = {State::kInserted, 0, values_};
    CHECK(table_.Acquire(handle) == nullptr);  // not before it is published
  }
  void Publish() {
    const SlotHandle handle = Any({State::kInserted});
    if (!handle) return;
    if (Pick(4) == 0) {
      table_.Cancel(handle);
      entries_.erase(handle);
      --occupied_;
    } else {
      table_.Publish(handle);
      entries_[handle].state = State::kLive;
    }
  }
  void Acquire() {
    const SlotHandle handle = Any({State::kLive});
    if (!handle) return;
    const int* value = table_.Acquire(handle);
    if (CHECK(value != nullptr)) CHECK_EQ(*value, entries_[handle].value);
    ++entries_[handle].pins;
  }
  void Release() {
    const SlotHandle handle = Any({State::kLive, State::kClosed});
    if (!handle || entries_[handle].pins == 0) return;
    CHECK_EQ(table_.Release(handle), --entries_[handle].pins);
  }
  void Retire() {
    const SlotHandle handle =
        Any({State::kLive, State::kLive, State::kClosed, State::kRetired, State::kGone});
    if (!handle) return;
    Entry& entry = entries_[handle];
    const Table::Retired found = table_.Retire(handle);
    if (entry.state != State::kLive) {
      CHECK_EQ(found, Table::Retired::kStale);
    } else if (entry.pins != 0) {
      CHECK_EQ(found, Table::Retired::kPinned);
    } else {
      CHECK_EQ(found, Table::Retired::kYes);
      entry.state = State::kRetired;
    }
  }
  void Close() {
    const SlotHandle handle = Any({State::kLive, State::kClosed, State::kGone});
    if (!handle) return;
    Entry& entry = entries_[handle];
    CHECK_EQ(table_.Close(handle), entry.state == State::kLive);
    if (entry.state == State::kLive) entry.state = State::kClosed;
  }
  void Recycle() {
    const SlotHandle handle = Any({State::kRetired, State::kClosed});
    if (!handle || entries_[handle].pins != 0) return;
    table_.Recycle(handle);
    entries_[handle].state = State::kGone;
    --occupied_;
  }
  void ForceRetire() {  // whatever its pins
    const SlotHandle handle = Pick(4) == 0 ? Any({State::kLive}) : 0;
    if (!handle) return;
    table_.ForceRetire(handle);
    entries_[handle].state = State::kRetired;
    entries_[handle].pins = 0;
  }

  std::mt19937 rng_;
  Table table_;
  std::map<SlotHandle, Entry> entries_;
  size_t occupied_ = 0;
  int values_ = 0;
};

TEST(random_calls_leave_what_the_model_says) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    Model model(seed);
    for (int step = 0; step < 300; ++step) {
      model.Step();
      if (!model.Agrees()) {
        std::fprintf(stderr, "  seed %u, step %d\n", seed, step);
        return;
      }
    }
  }
}

TEST(what_was_never_a_handle_is_refused) {
  Table table;
  SlotHandle handle = 0;
  CHECK(table.Acquire(0) == nullptr);  // no chunk is there yet
  CHECK(table.Acquire(SlotHandle{1} << 32 | 1) == nullptr);
  int* value = table.Insert(&handle);
  REQUIRE(value != nullptr);
  *value = 7;
  table.Publish(handle);
  const uint64_t odd = handle >> 32 << 32;
  std::vector<SlotHandle> wrong = {0,
                                   1,
                                   odd,
                                   handle + 1,
                                   handle + 4,
                                   handle + (uint64_t{1} << 32),
                                   handle + (uint64_t{2} << 32),
                                   handle - (uint64_t{1} << 32)};
  // Beyond the last chunk, and as far as 32 bits go.
  for (uint64_t index : {uint64_t{13}, uint64_t{14}, uint64_t{UINT32_MAX}}) {
    wrong.push_back(odd | index);
  }
  for (SlotHandle bad : wrong) {
    CHECK(table.Acquire(bad) == nullptr);
    CHECK(table.Peek(bad) == nullptr);
    CHECK(!table.Live(bad));
    CHECK(!table.Close(bad));
    CHECK_EQ(table.PinsOf(bad), int64_t{-1});
    CHECK_EQ(table.Retire(bad), Table::Retired::kStale);
  }
  CHECK(!table.WasLive(0));
  CHECK(!table.WasLive(handle + 4));
  CHECK_EQ(table.PinsOf(handle), int64_t{0});
}

TEST(the_handle_behind_the_last_slot_is_refused) {
  Table table;
  SlotHandle handles[2] = {0, 0};
  for (SlotHandle& handle : handles) {
    REQUIRE(table.Insert(&handle) != nullptr);
    table.Publish(handle);
  }
  // What lies behind the last chunk's pointer is a list now that reads as a slot of generation 1.
  for (SlotHandle handle : handles) {
    CHECK_EQ(table.Retire(handle), Table::Retired::kYes);
    table.Recycle(handle);
  }
  CHECK(!table.Live(uint64_t{1} << 32 | (kSlots + 1)));
  CHECK(table.Acquire(uint64_t{1} << 32 | (kSlots + 1)) == nullptr);
}

TEST(pins_of_two_slots_share_no_cache_line) {
  Table table;
  SlotHandle handle = 0;
  const char* first = reinterpret_cast<char*>(table.Insert(&handle));
  const char* second = reinterpret_cast<char*>(table.Insert(&handle));
  CHECK(std::abs(second - first) >= 64);
}

TEST(a_slot_that_has_used_all_its_generations_stays_empty) {
  qnnrt::SlotTable<int, 1, 1> table;
  SlotHandle handle = 0;
  REQUIRE(table.Insert(&handle) != nullptr);
  table.Publish(handle);
  // As if it had been live two thousand million times.
  table.ForceRetire(uint64_t{UINT32_MAX - 6} << 32 | 1);
  table.Recycle(handle);
  std::set<SlotHandle> seen;
  while (table.Insert(&handle) && CHECK(seen.insert(handle).second) && seen.size() < 9) {
    table.Publish(handle);
    CHECK(table.Acquire(handle) != nullptr);
    CHECK_EQ(table.Release(handle), 0u);
    CHECK_EQ(table.Retire(handle), decltype(table)::Retired::kYes);
    table.Recycle(handle);
  }
  CHECK_EQ(seen.size(), size_t{2});
  CHECK_EQ(*seen.rbegin() >> 32, uint64_t{UINT32_MAX} - 2);
}

}  // namespace

CHECK_MAIN("slot_table_test")
