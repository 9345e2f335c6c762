// The budget of a process domain: what fits, what is told when it does not, what comes back.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "abi/qnn_enums.h"
#include "abi/qnn_errors.h"
#include "check.h"
#include "memory/memory.h"
#include "memory/memory_api.h"
#include "memory/process_domain.h"
#include "memory/rpcmem.h"

using namespace qnnrt;

namespace {

using Share = ProcessDomain::Share;
bool Has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

Result<Share> Map(ProcessDomain* domain, uint64_t bytes, const char* who = "x",
                  ErrorCode code = QNN_MEM_ERROR_MAPPING) {
  return domain->Map(bytes, "staging of graph", who, code);
}

TEST(SharesCountUntilTheyGo) {
  ProcessDomain domain(1000);
  {
    Result<Share> a = Map(&domain, 400);
    REQUIRE(a.ok());
    CHECK_EQ(a->bytes(), 400u);
    Result<Share> b = Map(&domain, 600);
    REQUIRE(b.ok());
    CHECK_EQ(domain.used(), 1000u);
    Share moved = std::move(*a);
    CHECK_EQ(a->bytes(), 0u);
    CHECK_EQ(moved.bytes(), 400u);
    CHECK_EQ(domain.used(), 1000u);
    moved = std::move(*b);  // gives 400 back
    CHECK_EQ(domain.used(), 600u);
    moved.Reset();
    moved.Reset();
    CHECK_EQ(domain.used(), 0u);
  }
  CHECK_EQ(domain.used(), 0u);
  CHECK_EQ(domain.peak(), 1000u);
}

TEST(WhatDoesNotFitNamesBudgetUseAndLargestHolders) {
  ProcessDomain domain(1000);
  Result<Share> small = Map(&domain, 100, "small"), large = Map(&domain, 500, "large"),
                middle = Map(&domain, 200, "middle"), tiny = Map(&domain, 1, "tiny");
  Result<Share> no = Map(&domain, 200, "late");
  REQUIRE(!no.ok());
  CHECK_EQ(no.status().code(), uint32_t{QNN_MEM_ERROR_MAPPING});
  const std::string& text = no.status().message();
  for (const char* part : {"200 bytes", "staging of graph 'late'", "801 of its 1000",
                           "'large' (500", "'middle' (200", "'small' (100"}) {
    CHECK(Has(text, part));
  }
  CHECK(!Has(text, "tiny"));
  CHECK(text.find("large") < text.find("middle"));
  CHECK_EQ(domain.used(), 801u);
  CHECK_EQ(Map(&domain, 200, "w", QNN_COMMON_ERROR_MEM_ALLOC).status().code(),
           uint32_t{QNN_COMMON_ERROR_MEM_ALLOC});
  CHECK(Map(&domain, 199).ok());
}

TEST(ABudgetBelowUseTakesNothingAway) {
  ProcessDomain domain(1000);
  Result<Share> a = Map(&domain, 800);
  domain.SetBudget(500);
  CHECK_EQ(domain.used(), 800u);
  CHECK(!Map(&domain, 1).ok());
  CHECK(Map(&domain, 0).ok());
  CHECK(!Map(&domain, UINT64_MAX).ok());
  *a = Share();
  CHECK(Map(&domain, 500).ok());
  CHECK(!Map(&domain, 501).ok());
}

TEST(ManyThreadsNeverPassTheBudget) {
  ProcessDomain domain(100);
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&domain, &refused] {
      for (int i = 0; i < 2000; ++i) {
        Result<Share> a = Map(&domain, 40), b = Map(&domain, 30);
        refused += !a.ok() + !b.ok();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK_EQ(domain.used(), 0u);
  CHECK(domain.peak() <= 100u);
  CHECK(domain.peak() >= 70u);
}

TEST(BytesAreDecimalDigitsAlone) {
  uint64_t bytes = 7;
  for (const char* bad : {"", "0", "-1", "+1", " 1", "1 ", "0x10", "1e9", "18446744073709551616"}) {
    CHECK(!ParseBytes(bad, &bytes));
  }
  CHECK(!ParseBytes(nullptr, &bytes));
  CHECK_EQ(bytes, 7u);
  CHECK(ParseBytes("18446744073709551615", &bytes));
  CHECK_EQ(bytes, UINT64_MAX);
}

// The registry's answer to "which buffer did the client give the context as a whole?"
TEST(AContextsOwnBuffersAreFoundByKind) {
  Registry& registry = Memory::Get().registry();
  void* memory = qnnrt_rpcmem_alloc(25, 1, 8192);
  MemDescriptor d;
  d.kind = MemKind::kWeights;
  d.fd = qnnrt_rpcmem_to_fd(memory);
  d.size = 8192;
  d.offset = 4096;
  d.states_size = true;
  d.data_type = QNN_DATATYPE_UNDEFINED;
  const uint32_t all = ~0u;
  SlotHandle handle = 0, refused = 0;
  uint32_t one = 1;
  d.rank = 1;
  d.dims = &one;
  CHECK_EQ(registry.Register(901, &d, 1, all, &refused).code(),
           uint32_t{QNN_MEM_ERROR_INVALID_SHAPE});
  d.rank = 0;
  d.dims = nullptr;
  d.data_type = QNN_DATATYPE_FLOAT_32;
  CHECK_EQ(registry.Register(901, &d, 1, all, &refused).code(),
           uint32_t{QNN_MEM_ERROR_INVALID_ARGUMENT});
  d.data_type = QNN_DATATYPE_UNDEFINED;
  CHECK_OK(registry.Register(901, &d, 1, all, &handle));
  {
    Result<MemUse> none = registry.AcquireKind(901, MemKind::kSpillFill);
    CHECK(none.ok() && !*none);
    Result<MemUse> other = registry.AcquireKind(902, MemKind::kWeights);
    CHECK(other.ok() && !*other);
    Result<MemUse> found = registry.AcquireKind(901, MemKind::kWeights);
    REQUIRE(found.ok() && *found);
    CHECK((*found)->address == static_cast<uint8_t*>(memory) + 4096);
    CHECK_EQ((*found)->nbytes, 4096u);
    CHECK_EQ(registry.Deregister(&handle, 1).code(),
             uint32_t{QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED});
  }
  CHECK_OK(registry.Deregister(&handle, 1));
  qnnrt_rpcmem_free(memory);
}

}  // namespace

CHECK_MAIN("process_domain_test")
