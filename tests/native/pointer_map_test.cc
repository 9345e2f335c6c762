// The map from pointers that passes use: what it holds is what std::unordered_map would.
#include "support/pointer_map.h"

#include <random>
#include <unordered_map>

#include "check.h"

using namespace qnnrt;

namespace {

TEST(AMapThatNothingCameIntoHasNothing) {
  PointerMap<int> map;
  int key = 0;
  CHECK(map.Find(&key) == nullptr);
  CHECK(map.Find(nullptr) == nullptr);
  CHECK_EQ(map.size(), 0u);
  map.Clear();
  CHECK(map.Find(&key) == nullptr);
}

TEST(AnEntryStaysWhateverComesBesideIt) {
  constexpr uint64_t kSeed = 20261127;
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  std::mt19937_64 random(kSeed);
  std::vector<int> keys(5000);
  PointerMap<size_t> map;
  std::unordered_map<const void*, size_t> model;
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < 8000; ++i) {
      const int* key = &keys[random() % (keys.size() / (round == 1 ? 100 : 1))];
      const auto [value, is_new] = map.Insert(key);
      CHECK_EQ(is_new, model.count(key) == 0);
      CHECK_EQ(*value, model[key]);
      *value = model[key] = i;
    }
    CHECK_EQ(map.size(), model.size());
    for (const int& key : keys) {
      const auto found = model.find(&key);
      const size_t* value = map.Find(&key);
      if (CHECK_EQ(value != nullptr, found != model.end()) && value != nullptr)
        CHECK_EQ(*value, found->second);
    }
    map.Clear();
    model.clear();
    CHECK(map.Find(&keys[0]) == nullptr);
  }
}

// Tensors are allocated one after the other, and pages apart.
TEST(KeysWithEqualLowBitsAreApart) {
  PointerMap<uintptr_t> map;
  for (uintptr_t i = 1; i <= 3000; ++i) map[reinterpret_cast<const void*>(i << 16)] = i;
  for (uintptr_t i = 1; i <= 3000; ++i) {
    const uintptr_t* found = map.Find(reinterpret_cast<const void*>(i << 16));
    if (CHECK(found != nullptr)) CHECK_EQ(*found, i);
  }
  CHECK(map.Find(reinterpret_cast<const void*>(uintptr_t{3001} << 16)) == nullptr);
}

}  // namespace

CHECK_MAIN("pointer_map_test")
