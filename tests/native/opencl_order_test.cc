// Command lists on a driver of our own: the order of commands, profiles, calls between kernels,
// signals, memory that changes owners, and what is left behind.
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "abi/qnn_objects.h"
#include "opencl_driver.h"
#include "support/allocations.h"

using namespace opencl_test;  // NOLINT(build/namespaces)

TEST(a_queue_without_order_has_its_commands_in_order) {
  Driver driver;  // counts commands that do not wait
  Options options;
  options.kernels = 5;
  options.flags |= QNNRT_OPENCL_OUT_OF_ORDER;
  List list(options);
  std::vector<float> x = Floats(1), y = Floats(0);
  for (int i = 0; i < 3; ++i) CHECK_EQ(list.Execute(Raw(1, &x), Raw(2, &y)), 0u);
  CHECK(All(y, 6));
}

TEST(profiles_have_the_devices_timestamps) {
  for (uint32_t more : {0u, QNNRT_OPENCL_TIMESTAMPS, QNNRT_OPENCL_CLIENT_QUEUE}) {
    Driver driver;
    Options options;
    options.kernels = 3;
    options.flags |= more;
    List list(options);
    std::vector<float> x = Floats(1), y = Floats(0);
    Events events, fewer;
    CHECK_EQ(list.Execute(Raw(1, &x), Raw(2, &y), nullptr, events.Run()), 0u);
    CHECK_EQ(list.Execute(Raw(1, &x), Raw(2, &y), nullptr, fewer.Run(false)), 0u);
    CHECK_EQ(fewer.Value("first"), -1);
    CHECK_EQ(driver.Calls("create_queue"), more == 0 ? 1 : 0);
    if (more == QNNRT_OPENCL_CLIENT_QUEUE) {
      CHECK_EQ(events.all.size(), 1u);
      CHECK(Has(events.all[0].first, "the queue has no CL_QUEUE_PROFILING_ENABLE"));
      continue;
    }
    // Each of the five commands begins 2 microseconds behind its QUEUED and ends one later.
    CHECK(events.Value("execute") >= 0);
    CHECK_EQ(events.Value("device queue"), 2);
    CHECK_EQ(events.Value("device"), 41);
    CHECK_EQ(events.Value("stage in"), 1);
    CHECK_EQ(events.Value("copied in"), static_cast<int64_t>(kBytes));
    CHECK_EQ(events.Value("first"), 2);  // two kernels
    CHECK_EQ(events.Value("second"), 1);
    CHECK_EQ(events.Value("stage out"), 1);
    CHECK_EQ(events.Value("copied out"), static_cast<int64_t>(kBytes));
  }
}

TEST(a_call_stands_in_the_place_of_a_kernel) {
  struct Client {
    List* list = nullptr;
    bool fails = false;
    int calls = 0;
  } client;
  const Qnnrt_OpenClCall_t add_ten = [](void* user, void* queue, void* const* memories,
                                        uint32_t count, Qnnrt_ExecutorText_t* why) -> uint32_t {
    auto* c = static_cast<Client*>(user);
    ++c->calls;
    CHECK_EQ(count, 2u);
    CHECK(queue != nullptr);
    if (c->fails) {
      std::snprintf(why->text, sizeof(why->text), "ValueError: no such tile");
      return 1;
    }
    for (uint32_t i = 0; i < kElements; ++i)
      static_cast<Buffer*>(memories[1])->data[i] = static_cast<Buffer*>(memories[0])->data[i] + 10;
    return 0;
  };
  for (uint32_t more : {0u, QNNRT_OPENCL_OUT_OF_ORDER}) {
    Driver driver;
    Options options;
    options.kernels = 2;
    options.flags |= more;
    options.call = add_ten;
    options.user = &client;
    client.fails = false;
    List list(options);
    std::vector<float> x = Floats(1), y = Floats(0);
    Registered out;
    Events events;
    CHECK_EQ(list.Execute(Raw(1, &x), Raw(2, &y), nullptr, events.Run()), 0u);
    CHECK(All(y, 12));
    CHECK(events.Value("first") >= 0);
    CHECK_EQ(list.Execute(Raw(1, &x), WithHandle(2, out.handle)), 0u);
    CHECK(All(out.buffer.data, 12));
    client.fails = true;
    std::string why;
    CHECK_EQ(list.Execute(Raw(1, &x), Raw(2, &y), &why), 1100u);
    CHECK_EQ(why,
             std::string("step 1, node 'first', kernel add: it raised ValueError: no such tile"));
  }
}

TEST(a_signal_stops_it_between_two_steps) {
  Driver driver;
  List list;
  std::vector<float> x = Floats(1), y = Floats(0);
  int asked = 0;
  Qnnrt_ExecutorRun_t run = {};
  run.interrupt = &asked;
  run.stopped = [](const void* interrupt) -> uint32_t {
    return ++*static_cast<int*>(const_cast<void*>(interrupt)) == 2 ? 1 : 0;
  };
  CHECK_EQ(list.Execute(Raw(1, &x), Raw(2, &y), nullptr, run), 6031u);
  CHECK_EQ(driver.Calls("ndrange"), 1);
  CHECK_EQ(driver.Calls("finish"), 1);  // x may have been on its way
}

TEST(memory_changes_owners_around_executions) {
  for (bool other_base : {false, true}) {
    Driver driver;
    Options options;
    options.other_base = other_base;
    List list(options);
    {
      Registered x(1, Mapped(&list, nullptr));
      Registered y(1, {QNNRT_OPENCL_EXTERNAL, list.queue(), reinterpret_cast<void*>(&Acquire),
                       reinterpret_cast<void*>(&ReleaseExternal), &driver});
      x.buffer.data = Floats(1);
      const Qnn_Tensor_t input = WithHandle(1, x.handle), output = WithHandle(2, y.handle);
      CHECK_EQ(list.Execute(input, output), 0u);
      CHECK(All(y.buffer.data, 3));
      for (const char* name : {"map", "unmap", "acquire", "release"})
        CHECK_EQ(driver.Calls(name), 1);
      CHECK_EQ(list.counts().given, 2u);
      CHECK_EQ(list.counts().taken_back, 2u);
      CHECK_EQ(driver.Calls("finish"), other_base ? 3 : 1);

      std::string why;
      driver.Fail("acquire", 1);
      CHECK_EQ(list.Execute(input, output, &why), 1002u);
      CHECK(Has(why, "tensor 'y': the device does not take its memory over (CL_OUT_OF_RESOURCES"));
      CHECK_EQ(driver.Calls("map"), 1);  // x has come back
      CHECK_EQ(driver.Calls("release"), 0);

      driver.Fail("map", 1, -12);
      CHECK_EQ(list.Execute(input, output, &why), 1100u);
      CHECK(Has(why, "tensor 'x': the device does not give its memory back (CL_MAP_FAILURE"));
      driver.Fail("", 0);
      CHECK_EQ(list.Execute(input, output), 0u);  // the device has x already
      CHECK_EQ(driver.Calls("unmap"), 0);
      CHECK_EQ(driver.Calls("map"), 1);
      driver.Fail("", 0);
    }
    CHECK_EQ(driver.Calls("unmap"), 1);  // what is registered is mapped
    CHECK_EQ(driver.Calls("acquire"), 0);
  }
}

TEST(two_executions_of_memory_give_it_once) {
  Driver driver;
  List list;
  Registered x(1, Mapped(&list, nullptr));
  Registered a, b;
  // The one runs while the other has begun: in the call of a step.
  struct Inner {
    List* list;
    Qnn_Tensor_t x, y;
  } inner = {&list, WithHandle(1, x.handle), WithHandle(2, a.handle)};
  Options options;
  options.user = &inner;
  options.call = [](void* user, void*, void* const*, uint32_t, Qnnrt_ExecutorText_t*) -> uint32_t {
    auto* i = static_cast<Inner*>(user);
    return static_cast<uint32_t>(i->list->Execute(i->x, i->y));
  };
  List outer(options);
  CHECK_EQ(outer.Execute(WithHandle(1, x.handle), WithHandle(2, b.handle)), 0u);
  CHECK_EQ(driver.Calls("unmap"), 1);
  CHECK_EQ(driver.Calls("map"), 1);
  CHECK_EQ(outer.counts().given + outer.counts().taken_back, 2u);
  CHECK_EQ(list.counts().given + list.counts().taken_back, 0u);
}

TEST(allocations_that_fail_leave_nothing_behind) {
  Driver driver;
  std::vector<float> x = Floats(1), y = Floats(0);
  for (int64_t nth = 1;; ++nth) {
    uint32_t handles = 1, lists = 1;
    qnnrt_opencl_live(&handles, &lists);
    CHECK_EQ(handles + lists, 0u);
    List list;
    const Qnn_Tensor_t input = Raw(1, &x), output = Raw(2, &y);
    const Qnnrt_Tensors_t given = {&input, &output, 1, 1, 0};
    void* binding = nullptr;
    Qnnrt_ExecutorText_t why = {};
    const Qnnrt_Executor_t& e = list.executor();
    qnnrt::FailAllocation(nth);
    const uint64_t code = e.bind(e.self, &given, &binding, &why);
    qnnrt::FailAllocation(-1);
    CHECK(code == 0 || code == 1002);
    if (code != 0) continue;
    e.release(e.self, binding);
    CHECK(nth > 1);
    break;
  }
}

TEST(a_forked_child_leaves_the_driver_alone) {
  Driver driver;
  auto* list = new List;
  std::vector<float> x = Floats(1), y = Floats(0);
  CHECK_EQ(list->Execute(Raw(1, &x), Raw(2, &y)), 0u);
  CHECK_EQ(driver.buffers.size(), 2u);
  const pid_t child = fork();
  if (child == 0) {
    delete list;
    _exit(driver.buffers.size() == 2 ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  CHECK_EQ(status, 0);
  delete list;
  CHECK(driver.buffers.empty());
}

CHECK_MAIN("opencl_order_test")
