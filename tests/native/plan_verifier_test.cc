// The verifier of plans against one that looks at every pair of bytes' ranges: it refuses every
// corrupted plan, and takes every sound one. And what is promised of plans: bounds that hold, and
// the same plan on every machine.
#include <algorithm>
#include <random>
#include <string>

#include "abi/qnn_errors.h"
#include "check.h"
#include "graph/planner/measure.h"
#include "graph/planner/planner.h"

using qnnrt::ArenaItem;
using qnnrt::PlanArena;
using qnnrt::VerifyPlan;

namespace {

using Items = std::vector<ArenaItem>;
using Offsets = std::vector<uint64_t>;

class Random {
 public:
  explicit Random(uint32_t seed) : rng_(seed) {}
  uint32_t Pick(uint32_t low, uint32_t high) {
    return low + static_cast<uint32_t>(rng_() % (high - low + 1));
  }
  Items Some(uint32_t most, uint32_t span, uint32_t size, uint32_t alignments) {
    Items items;
    for (uint32_t i = Pick(1, most); i > 0; --i) {
      const uint32_t first = Pick(0, span);
      items.push_back({first, first + Pick(0, span / 2), Pick(0, 4) == 0 ? 0 : Pick(1, size),
                       uint64_t{1} << Pick(0, alignments)});
    }
    return items;
  }

 private:
  std::mt19937 rng_;
};

bool Together(const ArenaItem& a, const ArenaItem& b) {
  return a.size != 0 && b.size != 0 && a.first <= b.last && b.first <= a.last;
}

bool Sound(const Items& items, const Offsets& offsets, uint64_t peak) {
  if (offsets.size() != items.size()) return false;
  for (size_t i = 0; i < items.size(); ++i) {
    const ArenaItem& a = items[i];
    if (a.size == 0) continue;
    const auto end = static_cast<unsigned __int128>(offsets[i]) + a.size;
    if (offsets[i] % a.alignment != 0 || end > peak) return false;
    for (size_t j = 0; j < i; ++j) {
      if (Together(a, items[j]) && offsets[j] < offsets[i] + a.size &&
          offsets[i] < offsets[j] + items[j].size) {
        return false;
      }
    }
  }
  return true;
}

TEST(every_plan_is_judged_as_pair_by_pair) {
  int sound = 0, broken = 0;
  for (uint32_t seed = 0; seed < 4000; ++seed) {
    Random random(seed);
    const Items items = random.Some(6, 6, 40, 3);
    auto plan = PlanArena(items);
    if (!CHECK_OK(plan.status())) return;
    for (int round = 0; round < 8; ++round) {
      Offsets offsets = plan->offsets;
      uint64_t peak = plan->peak;
      const size_t i = random.Pick(0, static_cast<uint32_t>(items.size() - 1));
      switch (random.Pick(0, 5)) {
        case 0:
          offsets[i] = random.Pick(0, static_cast<uint32_t>(peak));
          break;
        case 1:  // on its boundary, so that it is the bytes that decide
          offsets[i] =
              random.Pick(0, static_cast<uint32_t>(peak)) / items[i].alignment * items[i].alignment;
          break;
        case 2:
          peak -= std::min<uint64_t>(peak, random.Pick(0, 2));
          break;
        case 3:  // what ends beyond 64 bits
          offsets[i] = UINT64_MAX / items[i].alignment * items[i].alignment;
          peak = UINT64_MAX;
          break;
        case 4:  // anywhere: many of these hold
          for (size_t k = 0; k < items.size(); ++k) {
            offsets[k] = uint64_t{random.Pick(0, 30)} * items[k].alignment;
          }
          peak = 1000;
          break;
        default:
          offsets.resize(offsets.size() - 1 + 2 * random.Pick(0, 1));
          break;
      }
      const auto status = VerifyPlan(items, offsets, peak);
      const bool expected = Sound(items, offsets, peak);
      ++(expected ? sound : broken);
      if (!CHECK_EQ(status.ok(), expected)) {
        std::fprintf(stderr, "  seed %u, round %d: %s\n", seed, round, status.message().c_str());
        return;
      }
      if (!expected) CHECK_EQ(status.code(), QNN_GRAPH_ERROR_FINALIZE_FAILED);
    }
  }
  CHECK(sound > 5000);
  CHECK(broken > 10000);
}

TEST(what_the_verifier_says_names_the_items) {
  const Items items = {{0, 2, 100, 64}, {5, 6, 100, 64}, {1, 3, 100, 64}};
  auto said = [&](const Offsets& offsets, uint64_t peak) {
    return VerifyPlan(items, offsets, peak).message();
  };
  auto has = [](const std::string& text, const char* part) {
    if (!CHECK(text.find(part) != std::string::npos)) std::fprintf(stderr, "  %s\n", text.c_str());
  };
  has(said({0, 0, 64}, 300), "items 0 and 2 are alive together");
  has(said({64, 0, 0}, 300), "items 0 and 2 are alive together");
  has(said({0, 32, 128}, 300), "item 1: offset 32 is not on its 64-byte boundary");
  has(said({0, 256, 128}, 300), "item 1 ends beyond the peak of 300 bytes");
  has(said({0, 0}, 300), "2 offsets for 3 items");
}

TEST(bounds_are_those_of_every_step) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    Random random(seed);
    const Items items = random.Some(12, 10, 50, 4);
    uint64_t smallest = UINT64_MAX, most = 0, aligned = 0;
    std::vector<uint64_t> pressure(items.size(), 0);
    std::vector<uint32_t> starts;
    for (const ArenaItem& item : items) {
      if (item.size != 0) smallest = std::min(smallest, item.alignment);
      starts.push_back(item.first);
    }
    for (uint32_t step = 0; step <= 20; ++step) {
      uint64_t live = 0, rounded = 0, lost = 0;
      for (const ArenaItem& item : items) {
        if (item.size == 0 || step < item.first || step > item.last) continue;
        const uint64_t up = (item.size + smallest - 1) / smallest * smallest;
        live += item.size;
        rounded += up;
        lost = std::max(lost, up - item.size);
      }
      most = std::max(most, live);
      aligned = std::max(aligned, rounded - lost);
      for (size_t i = 0; i < items.size(); ++i) {
        if (step >= items[i].first && step <= items[i].last) {
          pressure[i] = std::max(pressure[i], live);
        }
      }
    }
    std::sort(starts.begin(), starts.end());
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
    const bool good = CHECK_EQ(qnnrt::ArenaLowerBound(items), most) &
                      CHECK_EQ(qnnrt::ArenaAlignedBound(items), aligned) &
                      CHECK(qnnrt::ArenaPressure(items) == pressure) &
                      CHECK(qnnrt::ArenaStarts(items) == starts);
    if (!good) return void(std::fprintf(stderr, "  seed %u\n", seed));
  }
}

// A change that makes other plans on purpose writes down the new numbers.
TEST(plans_are_the_same_on_every_machine) {
  uint64_t sum = 14695981039346656037u, peaks = 0, by_size = 0, searched = 0, steps = 0;
  auto add = [&](uint64_t value) { sum = (sum ^ value) * 1099511628211u; };
  for (uint32_t seed = 0; seed < 120; ++seed) {
    Random random(seed);
    const Items items = random.Some(seed % 2 == 0 ? 40 : 12, 24, 4000, seed % 7);
    auto plan = PlanArena(items), exact = PlanArena(items, {0, 500, nullptr});
    auto first_fit = qnnrt::PlanArenaBySize(items);
    REQUIRE(plan.ok() && exact.ok() && first_fit.ok());
    peaks += plan->peak;
    by_size += first_fit->peak;
    searched += exact->peak;
    steps += exact->steps;
    for (const auto* one : {&*plan, &*exact, &*first_fit}) {
      for (uint64_t offset : one->offsets) add(offset);
      for (const char* c = one->order; *c; ++c) add(static_cast<uint64_t>(*c));
      add(one->proved);
      add(one->peak);
      add(one->sum);
      add(one->lower_bound);
    }
  }
  CHECK_EQ(by_size, uint64_t{1291278});
  CHECK_EQ(peaks, uint64_t{1263596});
  CHECK_EQ(searched, uint64_t{1262004});
  CHECK_EQ(steps, uint64_t{15410});
  CHECK_EQ(sum, uint64_t{13569669751049066881u});
}

}  // namespace

CHECK_MAIN("plan_verifier_test")
