// Arenas that command lists take for an execution, the way that they wait, and lists that are
// recorded as one command buffer.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "opencl_driver.h"
#include "support/allocations.h"

using namespace opencl_test;  // NOLINT(build/namespaces)

namespace {

Options Of(const Pool& pool, std::vector<uint64_t> arenas, uint32_t kernels = 3) {
  Options options;
  options.kernels = kernels;
  options.pool = &pool;
  options.arenas = std::move(arenas);
  return options;
}

void Runs(const List& list, float kernels = 3) {
  std::vector<float> x = Floats(1), y = Floats(0);
  CHECK_EQ(list.Execute(Raw(1, &x), Raw(2, &y)), 0u);
  CHECK(All(y, 1 + kernels));
}

void Check(const Pool& pool, uint64_t bytes, uint64_t buffers, uint64_t sets) {
  const Qnnrt_OpenClPoolCounts_t counts = pool.counts();
  CHECK_EQ(counts.bytes, bytes);
  CHECK_EQ(counts.buffers, buffers);
  CHECK_EQ(counts.sets, sets);
}

}  // namespace

TEST(lists_that_run_in_turn_have_the_same_memory) {
  Driver driver;
  Pool pool;
  Check(pool, 0, 0, 0);
  {
    List first(Of(pool, {kBytes, kBytes}));
    Check(pool, 2 * kBytes, 2, 1);  // is there before the first execution
    Runs(first);
    std::vector<std::unique_ptr<List>> more;
    for (int i = 0; i < 9; ++i) {
      more.push_back(std::make_unique<List>(Of(pool, {kBytes, kBytes})));
      Runs(*more.back());
      Runs(first);
    }
    Check(pool, 2 * kBytes, 2, 1);
    CHECK_EQ(first.counts().executes, 10u);
    CHECK_EQ(first.counts().arguments, 6u);  // set once: two of the client's, four of arenas
  }
  Check(pool, 0, 0, 0);
}

TEST(the_largest_of_each_is_there_as_long_as_a_list_needs_it) {
  Driver driver;
  Pool pool;
  List small(Of(pool, {kBytes}));
  Runs(small);
  {
    List large(Of(pool, {3 * kBytes, 2 * kBytes, kBytes}, 5));
    Check(pool, 6 * kBytes, 3, 1);
    Runs(large, 5);
    Runs(small);  // in memory that was made since
    Runs(large, 5);
    Check(pool, 6 * kBytes, 3, 1);
  }
  Check(pool, 0, 0, 0);  // the next execution makes what it needs
  Runs(small);
  Check(pool, kBytes, 1, 1);
}

TEST(parts_of_an_arena_are_sub_buffers_that_lists_share) {
  Driver driver;
  Pool pool;
  Options options = Of(pool, {4 * kBytes});
  options.offset = 2 * kBytes;
  List a(options), b(options);
  for (const List* list : {&a, &b, &a}) Runs(*list);
  CHECK_EQ(driver.Calls("create_sub_buffer"), 1);
  Check(pool, 4 * kBytes, 1, 1);
}

TEST(parts_that_lists_have_left_do_not_pile_up) {
  Driver driver;
  Pool pool;
  constexpr uint64_t kLists = 5000;
  List stays(Of(pool, {(kLists + 1) * kBytes}));
  for (uint64_t i = 0; i < kLists; ++i) {
    Options options = Of(pool, {(kLists + 1) * kBytes});
    options.offset = (i + 1) * kBytes;
    Runs(List(options));
  }
  CHECK(driver.buffers.size() < kLists);
  Runs(stays);  // whose arguments are set anew
  Options options = Of(pool, {(kLists + 1) * kBytes});
  options.offset = kBytes;
  Runs(List(options));
  Check(pool, (kLists + 1) * kBytes, 1, 1);
}

TEST(executions_at_a_time_have_memory_of_their_own) {
  Driver driver;
  Pool pool;
  const auto nested = [](void* user, void*, void* const* memories, uint32_t n,
                         Qnnrt_ExecutorText_t*) {
    // Another list runs in the midst of this one's run.
    CHECK_EQ(n, 2u);
    Runs(*static_cast<const List*>(user));
    static_cast<Buffer*>(memories[1])->data = Floats(9);
    return 0u;
  };
  List inner(Of(pool, {kBytes, kBytes}));
  Options options = Of(pool, {2 * kBytes, 2 * kBytes});
  options.call = nested;
  options.user = &inner;
  List outer(options);
  Check(pool, 4 * kBytes, 2, 1);
  for (int i = 0; i < 3; ++i) {
    std::vector<float> x = Floats(1), y = Floats(0);
    CHECK_EQ(outer.Execute(Raw(1, &x), Raw(2, &y)), 0u);
    CHECK(All(y, 9));
  }
  Check(pool, 6 * kBytes, 4, 2);
  CHECK_EQ(inner.counts().arguments, 6u);
}

TEST(where_memory_is_short_executions_wait_for_one_another) {
  Driver driver;
  driver.most_bytes = 6 * kBytes;  // four of staging memory, and one set
  Pool pool;
  List a(Of(pool, {2 * kBytes})), b(Of(pool, {2 * kBytes}));
  for (const List* list : {&a, &b}) Runs(*list);  // which makes their staging memory
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  for (const List* list : {&a, &b}) {
    threads.emplace_back([list, &done] {
      for (int i = 0; i < 200; ++i) Runs(*list);
      ++done;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(done.load(), 2);
  Check(pool, 2 * kBytes, 1, 1);
}

TEST(lists_on_many_threads) {
  Driver driver;
  Pool pool;
  std::vector<std::thread> threads;
  for (uint64_t i = 1; i <= 4; ++i) {
    threads.emplace_back([&pool, i] {
      for (int round = 0; round < 10; ++round) {
        Options options = Of(pool, {i * kBytes, kBytes});
        List list(options);
        for (int run = 0; run < 10; ++run) Runs(list);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Check(pool, 0, 0, 0);
}

TEST(a_list_that_there_is_no_memory_for_is_not_made) {
  Driver driver;
  driver.most_bytes = 8 * kBytes;
  Pool pool;
  List there(Of(pool, {kBytes}));
  Options options = Of(pool, {9 * kBytes});
  options.may_fail = true;
  const List none(options);
  CHECK_EQ(none.code(), 1002u);
  CHECK(Has(none.why(),
            "the device has no 576 bytes for intermediates "
            "(CL_MEM_OBJECT_ALLOCATION_FAILURE, OpenCL error -4)"));
  Runs(there);
  Check(pool, kBytes, 1, 1);
}

TEST(a_place_outside_of_an_arena_is_refused) {
  Driver driver;
  Pool pool;
  Options options = Of(pool, {2 * kBytes});
  options.may_fail = true;
  for (uint64_t offset : {kBytes + 1, UINT64_MAX - 8}) {
    options.offset = offset;
    const List none(options);
    CHECK_EQ(none.code(), 1004u);
    CHECK(Has(none.why(), "a command list has no arena 0, 64 bytes at"));
  }
  options.offset = 0;
  options.pool = nullptr;
  CHECK_EQ(List(options).code(), 1004u);
  Check(pool, 0, 0, 0);
}

TEST(each_call_for_arenas_may_fail) {
  Driver driver;
  for (const char* function : {"create_buffer", "create_sub_buffer", "set_arg"}) {
    for (int nth = 1;; ++nth) {
      Pool pool;
      Options options = Of(pool, {4 * kBytes, 2 * kBytes});
      options.offset = kBytes;
      options.may_fail = true;
      driver.Fail(function, nth, -5);
      List list(options);
      std::vector<float> x = Floats(1), y = Floats(0);
      if (list.code() == 0) list.Execute(Raw(1, &x), Raw(2, &y));
      const bool failed = driver.Calls(function) >= nth;
      driver.Fail("", 0);
      if (list.code() == 0) Runs(list);
      if (!failed) break;
    }
  }
}

// ---- waits

TEST(a_wait_may_leave_the_processor_to_others) {
  Driver driver;
  driver.asynchronous = true;
  Options options;
  options.flags |= QNNRT_OPENCL_SLEEP;
  List list(options);
  Runs(list, 2);
  CHECK_EQ(driver.Calls("finish"), 0);
  CHECK_EQ(driver.Calls("flush"), 1);
  CHECK_EQ(driver.Calls("event_info"), 2);
  for (const char* function : {"barrier", "flush", "event_info"}) {
    driver.Fail(function, 1, -36);
    std::vector<float> x = Floats(1), y = Floats(0);
    std::string why;
    // Without an event there is the driver's own wait.
    const bool fails = std::string(function) != "barrier";
    CHECK_EQ(list.Execute(Raw(1, &x), Raw(2, &y), &why), fails ? 1100u : 0u);
    if (fails) CHECK(Has(why, "the device did not finish (CL_INVALID_COMMAND_QUEUE"));
    CHECK_EQ(driver.Calls("finish"), 1);
    driver.Fail("", 0);
  }
  Runs(list, 2);
}

TEST(beside_others_an_execution_waits_for_its_own_commands) {
  Driver driver;
  Pool pool;
  List inner(Of(pool, {kBytes}));
  Options options = Of(pool, {kBytes});
  options.call = [](void* user, void*, void* const* memories, uint32_t, Qnnrt_ExecutorText_t*) {
    Runs(*static_cast<const List*>(user));
    static_cast<Buffer*>(memories[1])->data = Floats(4);
    return 0u;
  };
  options.user = &inner;
  List outer(options);
  Runs(outer);
  CHECK_EQ(driver.Calls("wait"), 1);    // the inner one's
  CHECK_EQ(driver.Calls("finish"), 1);  // the outer one's: it was alone again
}

// ---- command buffers

TEST(a_list_is_recorded_when_its_memory_comes_again) {
  Driver driver;
  Pool pool;
  Options options = Of(pool, {kBytes});
  options.recording = &kRecording;
  List list(options);
  Registered x, y;
  const auto run = [&](const Registered& in, float value) {
    CHECK_EQ(list.Execute(WithHandle(1, in.handle), WithHandle(2, y.handle)), 0u);
    CHECK(All(y.buffer.data, value));
  };
  x.buffer.data = Floats(5);
  for (int i = 0; i < 5; ++i) run(x, 8);
  CHECK_EQ(list.counts().recorded, 4u);
  CHECK_EQ(list.counts().kernels, 15u);
  CHECK_EQ(driver.Calls("record"), 3);
  CHECK_EQ(driver.Calls("ndrange"), 3);
  CHECK_EQ(list.counts().arguments, 6u);
  {  // two that take turns
    Registered other;
    other.buffer.data = Floats(6);
    for (int i = 0; i < 3; ++i) {
      run(other, 9);
      run(x, 8);
    }
    CHECK_EQ(driver.Calls("record"), 6);
    CHECK_EQ(list.counts().recorded, 4u + 5u);
    CHECK_EQ(driver.recordings.size(), 2u);
    qnnrt_opencl_list_forget(list.handle(), &other.buffer);
  }
  CHECK_EQ(driver.recordings.size(), 1u);
  run(x, 8);
  CHECK_EQ(driver.Calls("record"), 6);
}

TEST(a_recording_goes_with_the_memory_that_it_is_on) {
  Driver driver;
  Pool pool;
  Options options = Of(pool, {kBytes});
  options.recording = &kRecording;
  List list(options);
  for (int i = 0; i < 3; ++i) Runs(list);
  CHECK_EQ(list.counts().recorded, 2u);
  List larger(Of(pool, {2 * kBytes}));
  Runs(list);
  CHECK_EQ(list.counts().recorded, 2u);
  CHECK(driver.recordings.empty());
  Runs(list);
  CHECK_EQ(list.counts().recorded, 3u);
}

TEST(what_cannot_be_recorded_is_enqueued) {
  for (const char* function : {"create_record", "record", "finalize"}) {
    for (int nth : {1, 2}) {
      Driver driver;
      Options options;
      options.recording = &kRecording;
      List list(options);
      driver.Fail(function, nth, -59);
      for (int i = 0; i < 4; ++i) Runs(list, 2);
      const bool failed = driver.Calls(function) >= nth;
      CHECK_EQ(list.counts().recorded, failed ? 0u : 3u);
      CHECK_EQ(driver.recordings.size(), failed ? 0u : 1u);
      if (failed) CHECK_EQ(driver.Calls("create_record"), 1);  // it does not try again
    }
  }
  Driver driver;
  Options options;
  options.recording = &kRecording;
  options.flags |= QNNRT_OPENCL_OUT_OF_ORDER;
  List chained(options);
  for (int i = 0; i < 3; ++i) Runs(chained, 2);
  CHECK_EQ(chained.counts().recorded, 0u);
}

TEST(a_recorded_list_that_does_not_start_is_an_error) {
  Driver driver;
  Options options;
  options.recording = &kRecording;
  List list(options);
  Runs(list, 2);
  driver.Fail("replay", 1, -5);
  std::vector<float> x = Floats(1), y = Floats(0);
  std::string why;
  CHECK_EQ(list.Execute(Raw(1, &x), Raw(2, &y), &why), 1002u);
  CHECK(Has(why, "its recorded commands did not start (CL_OUT_OF_RESOURCES, OpenCL error -5)"));
  driver.Fail("", 0);
  Runs(list, 2);
}

TEST(a_profiled_execution_is_not_recorded) {
  Driver driver;
  Options options;
  options.recording = &kRecording;
  List list(options);
  for (int i = 0; i < 3; ++i) Runs(list, 2);
  Events events;
  std::vector<float> x = Floats(1), y = Floats(0);
  CHECK_EQ(list.Execute(Raw(1, &x), Raw(2, &y), nullptr, events.Run()), 0u);
  CHECK(All(y, 3));
  CHECK(events.Value("first") >= 0);
  CHECK_EQ(list.counts().recorded, 2u);
  Runs(list, 2);
  CHECK_EQ(list.counts().recorded, 3u);
}

TEST(a_recorded_run_allocates_nothing) {
  Driver driver;
  Pool pool;
  Options options = Of(pool, {kBytes});
  options.recording = &kRecording;
  List list(options);
  Registered x, y;
  const Qnn_Tensor_t input = WithHandle(1, x.handle), output = WithHandle(2, y.handle);
  for (int warm = 0; warm < 3; ++warm) CHECK_EQ(list.Execute(input, output), 0u);
  const uint64_t before = qnnrt::AllocationCount();
  CHECK_EQ(list.Execute(input, output), 0u);
  CHECK_EQ(qnnrt::AllocationCount(), before);
}

CHECK_MAIN("opencl_arenas_test")
