// The htp backend's memory table: what is staged, when its memory is reserved, what each execution
// copies and why.
#include <algorithm>

#include "qmem_net.h"

using namespace qmem;

namespace {

// What an execution copies of each tensor: 0 none.
struct Expected {
  uint64_t at_finalize, at_first_execute, in, out;
};

void CheckRow(const bool prepared[3], const bool executed[3], const Expected& expected) {
  g_log.clear();
  Net net;
  REQUIRE(net.Open() == 0 && net.Compose(prepared[0], prepared[1], prepared[2]) == 0);
  REQUIRE(net.Finalize() == 0);
  Qnnrt_GraphStats_t s = net.Stats();
  CHECK_EQ(s.reserved_at_finalize_bytes, expected.at_finalize);
  CHECK_EQ(s.reserved_at_execute_bytes, 0u);
  CHECK_EQ(s.reserved_bytes, expected.at_finalize);
  CHECK_EQ(s.reserved_at, expected.at_finalize ? QNNRT_RESERVED_AT_FINALIZE : QNNRT_RESERVED_NONE);
  REQUIRE(net.UseAll(executed[0], executed[1], executed[2]) == 0);
  CHECK(net.Right(0));
  s = net.Stats();
  CHECK_EQ(s.reserved_at_finalize_bytes, expected.at_finalize);
  CHECK_EQ(s.reserved_at_execute_bytes, expected.at_first_execute);
  CHECK_EQ(s.reserved_bytes, expected.at_finalize + expected.at_first_execute);
  if (expected.at_finalize == 0 && expected.at_first_execute != 0)
    CHECK_EQ(s.reserved_at, uint64_t{QNNRT_RESERVED_AT_EXECUTE});
  CHECK_EQ(s.copied_in_bytes, expected.in);
  CHECK_EQ(s.copied_out_bytes, expected.out);
  CHECK_EQ(s.copied_bytes, expected.in + expected.out);

  // From here on nothing is reserved, allocated or faulted in, and every execution copies the same.
  const uint64_t allocations = qnnrt_debug_allocations(), used = Used();
  // Page faults of 333 executions: the kernel may cause some, now and then, but take none of ours
  // away.
  uint64_t fewest = ~uint64_t{0}, runs = 1;
  for (int part = 0; part < 3 || (fewest != 0 && part < 100 && !kSanitized); ++part) {
    const uint64_t faults = Faults();
    for (int i = 0; i < 333; ++i, ++runs) REQUIRE(net.Run() == 0);
    fewest = std::min(fewest, Faults() - faults);
  }
  CHECK_EQ(qnnrt_debug_allocations() - allocations, 0u);
  if (!kSanitized) CHECK_EQ(fewest, 0u);
  CHECK_EQ(Used(), used);
  s = net.Stats();
  CHECK_EQ(s.executes, runs);
  CHECK_EQ(s.reserved_bytes, expected.at_finalize + expected.at_first_execute);
  CHECK_EQ(s.copied_in_bytes, runs * expected.in);
  CHECK_EQ(s.copied_out_bytes, runs * expected.out);

  // Who was copied, and why.
  size_t raw = 0;
  std::vector<Qnnrt_CopyRecord_t> copies = net.Copies();
  for (int i = 0; i < 3; ++i) {
    if (executed[i]) continue;
    REQUIRE(raw < copies.size());
    const Qnnrt_CopyRecord_t& c = copies[raw++];
    CHECK_EQ(std::string(c.tensor), net.t[i].v1.name);
    CHECK_EQ(c.direction, i == 2 ? QNNRT_COPY_OUT : QNNRT_COPY_IN);
    CHECK_EQ(c.bytes, runs * net.Bytes());
    CHECK_EQ(c.count, runs);
    CHECK_EQ(std::string(c.reason),
             prepared[i] ? "prepared memhandle, executed raw" : "prepared raw, executed raw");
    const std::string name = std::string("'") + net.t[i].v1.name + "'";
    const size_t first = g_log.find(name);
    CHECK(first != std::string::npos);
    CHECK(g_log.find(name, first + 1) == std::string::npos);  // once
    CHECK(Has(g_log, c.reason));
  }
  CHECK_EQ(raw, copies.size());
  CHECK_EQ(static_cast<size_t>(std::count(g_log.begin(), g_log.end(), '\n')), raw);

  CHECK_EQ(qnnrt_graph_reset_stats(net.graph), 0u);
  s = net.Stats();
  CHECK_EQ(s.copied_bytes, 0u);
  CHECK_EQ(s.reserved_bytes, expected.at_finalize + expected.at_first_execute);
  CHECK(net.Copies().empty());
}

}  // namespace

TEST(every_prepared_and_executed_combination_of_three_tensors_reserves_and_copies_what_it_must) {
  const uint64_t n = Net().Bytes();
  const uint64_t before = Used();
  for (int p = 0; p < 8; ++p) {
    for (int e = 0; e < 8; ++e) {
      const bool prepared[3] = {(p & 1) != 0, (p & 2) != 0, (p & 4) != 0};
      const bool executed[3] = {(e & 1) != 0, (e & 2) != 0, (e & 4) != 0};
      Expected expected = {0, 0, 0, 0};
      for (int i = 0; i < 3; ++i) {
        expected.at_finalize += prepared[i] == kRaw ? n : 0;
        expected.at_first_execute += prepared[i] == kHandle && executed[i] == kRaw ? n : 0;
        if (executed[i] == kRaw) (i == 2 ? expected.out : expected.in) += n;
      }
      CheckRow(prepared, executed, expected);
    }
  }
  CHECK_EQ(Used(), before);
}

CHECK_MAIN("qmem_test")
