// Command lists on a driver of our own: what is enqueued and staged, what memory is refused, what
// is said and left behind when any of the driver's calls fails.
#include <string>
#include <vector>

#include "abi/qnn_objects.h"
#include "opencl_driver.h"
#include "support/allocations.h"

using namespace opencl_test;  // NOLINT(build/namespaces)

TEST(raw_memory_is_staged_and_counted) {
  Driver driver;
  List list;
  std::vector<float> x = Floats(3), y = Floats(0);
  CHECK_EQ(list.Execute(Raw(1, &x), Raw(2, &y)), 0u);
  CHECK(All(y, 5));
  const Qnnrt_OpenClCounts_t first = list.counts();
  CHECK_EQ(first.executes, 1u);
  CHECK_EQ(first.kernels, 2u);
  CHECK_EQ(first.writes, 1u);
  CHECK_EQ(first.reads, 1u);
  CHECK_EQ(first.written_bytes, kBytes);
  CHECK_EQ(first.read_bytes, kBytes);
  CHECK_EQ(first.reserved_bytes, 2 * kBytes);
  CHECK_EQ(driver.Calls("finish"), 1);
  CHECK_EQ(driver.Calls("flush"), 0);
  uint64_t copied[2] = {};
  Qnnrt_OpenClCounts_t counts;
  qnnrt_opencl_list_counts(list.handle(), &counts, copied);
  CHECK_EQ(copied[0], kBytes);
  CHECK_EQ(copied[1], kBytes);
  qnnrt_opencl_list_reset(list.handle());
  qnnrt_opencl_list_counts(list.handle(), &counts, copied);
  CHECK_EQ(counts.executes + counts.kernels + counts.written_bytes + copied[0], 0u);
  CHECK_EQ(counts.reserved_bytes, 2 * kBytes);  // is there still
}

TEST(a_run_allocates_nothing) {
  Driver driver;
  List list;
  Registered x, y;
  const Qnn_Tensor_t input = WithHandle(1, x.handle), output = WithHandle(2, y.handle);
  CHECK_EQ(list.Execute(input, output), 0u);
  // The driver's own allocations are counted as well: of a queue in order there are none.
  driver.Fail("", 0);
  for (int warm = 0; warm < 2; ++warm) list.Execute(input, output);
  const uint64_t before = qnnrt::AllocationCount();
  CHECK_EQ(list.Execute(input, output), 0u);
  CHECK_EQ(qnnrt::AllocationCount(), before);
}

TEST(arguments_are_set_when_the_memory_changes) {
  Driver driver;
  List list;
  Registered a, b, y;
  a.buffer.data = Floats(1);
  b.buffer.data = Floats(2);
  const auto run = [&](const Registered& x) {
    driver.Fail("", 0);  // starts to count anew
    CHECK_EQ(list.Execute(WithHandle(1, x.handle), WithHandle(2, y.handle)), 0u);
    return driver.Calls("set_arg");
  };
  CHECK_EQ(run(a), 2);
  CHECK(All(y.buffer.data, 3));
  CHECK_EQ(run(a), 0);
  CHECK_EQ(run(b), 1);
  CHECK(All(y.buffer.data, 4));
  qnnrt_opencl_list_forget(list.handle(), &b.buffer);
  CHECK_EQ(run(b), 1);
  CHECK_EQ(list.counts().writes, 0u);
}

TEST(commands_are_flushed_where_the_device_waits_for_it) {
  Driver driver;
  Options options;
  options.kernels = 7;
  options.flush_every = 4;
  List list(options);
  std::vector<float> x = Floats(0), y = x;
  CHECK_EQ(list.Execute(Raw(1, &x), Raw(2, &y)), 0u);
  CHECK_EQ(driver.Calls("flush"), 2);  // of nine commands
}

TEST(what_an_execution_is_given_has_to_fit) {
  Driver driver;
  List list;
  std::vector<float> data = Floats(1), out = data, little(kElements - 1);
  const Qnn_Tensor_t x = Raw(1, &data), y = Raw(2, &out);
  std::string why;
  const auto refused = [&](const Qnn_Tensor_t& input, const Qnn_Tensor_t& output, const char* text,
                           uint64_t code = 6004, bool strict = false) {
    CHECK_EQ(list.Execute(input, output, &why, {}, strict), code);
    CHECK(Has(why, text));
  };
  refused(Raw(3, &data), y, "the graph has no such input or output");
  refused(Raw(2, &data), y, "the graph has no such input or output");
  refused(Raw(1, &little), y, "tensor 'x': its RAW memory is missing or too small");
  refused(x, y,
          "tensor 'x': its RAW memory would be copied, which the graph's option STRICT forbids",
          6004, true);
  Qnn_Tensor_t other = x;
  other.v1.dataType = QNN_DATATYPE_INT_32;
  refused(other, y, "tensor 'x': what was given has another shape or type");
  const uint32_t turned[] = {kElements, 1};
  other = x;
  other.v1.dimensions = const_cast<uint32_t*>(turned);
  refused(other, y, "tensor 'x': what was given has another shape or type");
  other.v1.dimensions = nullptr;  // the graph's own hold
  CHECK_EQ(list.Execute(other, y), 0u);

  const Qnn_Tensor_t twice[] = {x, x};
  CHECK_EQ(list.Execute({twice, &y, 2, 1, 0}, &why), 6004u);
  CHECK(Has(why, "tensor 'x': it was given twice"));
  CHECK_EQ(list.Execute({&x, nullptr, 1, 0, 0}, &why), 6004u);
  CHECK(Has(why, "tensor 'y': it was not given"));

  Registered elsewhere(1, {}, reinterpret_cast<Qnn_ContextHandle_t>(uintptr_t{0x1002}));
  Registered read_only(4), write_only(2), mine;
  refused(WithHandle(1, elsewhere.handle), y, "tensor 'x': its memory handle belongs to another");
  refused(x, WithHandle(2, read_only.handle),
          "kernels write it, and its OpenCL buffer is READ_ONLY");
  refused(WithHandle(1, write_only.handle), y,
          "kernels read it, and its OpenCL buffer is WRITE_ONLY");
  for (uintptr_t none : {uintptr_t{0}, uintptr_t{0x100000001}, ~uintptr_t{0}})
    refused(WithHandle(1, reinterpret_cast<Qnn_MemHandle_t>(none)), y,
            "tensor 'x': its memory handle is not registered on the gpu backend");
  const uint32_t square[] = {4, 4};
  const Qnnrt_OpenClMemory_t other_shape = {
      &mine.buffer, kContext, kBytes, 1, QNN_DATATYPE_UFIXED_POINT_16, 2, square, {}};
  Qnn_MemHandle_t handle = nullptr;
  CHECK_EQ(qnnrt_opencl_register(&other_shape, &handle), 0u);
  refused(x, WithHandle(2, handle),
          "tensor 'y': its memory handle is for another shape or type (it needs float32[1, 16], "
          "the handle is for uint16[4, 4])");
  CHECK_EQ(qnnrt_opencl_deregister(handle, 0), 0u);
  CHECK_EQ(qnnrt_opencl_deregister(handle, 0), 8001u);
  refused(x, WithHandle(2, handle), "tensor 'y': its memory handle is not registered");

  CHECK_EQ(qnnrt_opencl_map(mine.handle, 0), 0u);
  CHECK_EQ(qnnrt_opencl_map(mine.handle, 1), 1005u);
  CHECK_EQ(qnnrt_opencl_map(mine.handle, 0), 0u);
  uint32_t executions = 9, mapped = 0;
  qnnrt_opencl_usage(mine.handle, &executions, &mapped);
  CHECK_EQ(executions, 0u);
  CHECK_EQ(mapped, 1u);
  CHECK_EQ(list.Execute(WithHandle(1, mine.handle), y), 0u);  // both only read
  refused(x, WithHandle(2, mine.handle), "its OpenCL buffer is mapped: execute after", 1005);
  CHECK_EQ(qnnrt_opencl_deregister(mine.handle, 0), 1005u);
  qnnrt_opencl_unmap(mine.handle, 0);
  qnnrt_opencl_unmap(mine.handle, 0);
  CHECK_EQ(qnnrt_opencl_map(mine.handle, 1), 0u);
  refused(WithHandle(1, mine.handle), y, "its OpenCL buffer is mapped: execute after", 1005);
  qnnrt_opencl_unmap(mine.handle, 1);

  CHECK_EQ(list.Execute(x, y), 0u);  // what was refused has left nothing pinned
  qnnrt_opencl_usage(mine.handle, &executions, &mapped);
  CHECK_EQ(executions + mapped, 0u);
}

TEST(scalars_are_given_with_one_dimension_or_none) {
  Driver driver;
  Kernel kernel;
  Queue queue;
  Qnnrt_OpenClStep_t step = {};
  step.node = step.name = "add";
  step.kernel = &kernel;
  step.dims = 1;
  step.total[0] = 1;
  const uint32_t one[] = {1};
  const Qnnrt_OpenClTensor_t tensors[] = {
      {"x", 1, QNN_DATATYPE_FLOAT_32, 0, 0, nullptr, 4},
      {"y", 2, QNN_DATATYPE_FLOAT_32, QNNRT_OPENCL_OUTPUT, 1, one, 4}};
  const Qnnrt_OpenClPatch_t patches[] = {{0, 0, 0}, {1, 0, 1}};
  Qnnrt_OpenClListInfo_t info = {};
  info.functions = &kFunctions;
  info.queue = info.base = &queue;
  info.steps = &step;
  info.tensors = tensors;
  info.patches = patches;
  info.num_steps = 1;
  info.num_tensors = info.num_patches = 2;
  Qnnrt_OpenClListHandle_t list = nullptr;
  CHECK_EQ(qnnrt_opencl_list_create(&info, &list, nullptr), 0u);
  Qnnrt_Executor_t executor;
  qnnrt_opencl_list_executor(list, kContext, 0, &executor);
  std::vector<float> data = Floats(1);
  for (uint32_t rank : {0, 1}) {
    Qnn_Tensor_t x = Raw(1, &data), y = Raw(2, &data);
    for (Qnn_Tensor_t* t : {&x, &y}) {
      t->v1.rank = rank;
      t->v1.dimensions = const_cast<uint32_t*>(one);
    }
    const Qnnrt_Tensors_t given = {&x, &y, 1, 1, 0};
    void* binding = nullptr;
    Qnnrt_ExecutorText_t why = {};
    CHECK_EQ(executor.bind(executor.self, &given, &binding, &why), 0u);
    executor.release(executor.self, binding);
  }
  qnnrt_opencl_list_free(list);
}

TEST(a_patch_of_what_the_list_does_not_have_is_refused) {
  Driver driver;
  Kernel kernel;
  Qnnrt_OpenClStep_t step = {};
  step.node = step.name = "call";
  step.call = [](void*, void*, void* const*, uint32_t, Qnnrt_ExecutorText_t*) { return 0u; };
  const Qnnrt_OpenClTensor_t x = {"x", 1, QNN_DATATYPE_FLOAT_32, 0, 2, kDims, kBytes};
  Qnnrt_OpenClListInfo_t info = {};
  info.functions = &kFunctions;
  info.steps = &step;
  info.tensors = &x;
  info.num_steps = info.num_tensors = info.num_patches = 1;
  Qnnrt_OpenClListHandle_t list = nullptr;
  for (Qnnrt_OpenClPatch_t patch : {Qnnrt_OpenClPatch_t{1, 0, 0}, {0, 1, 0}, {0, 0, 0}}) {
    info.patches = &patch;
    CHECK_EQ(qnnrt_opencl_list_create(&info, &list, nullptr), 1004u);
  }
  CHECK_EQ(qnnrt_opencl_list_create(nullptr, &list, nullptr), 1004u);
  uint32_t handles = 1, lists = 1;
  qnnrt_opencl_live(&handles, &lists);
  CHECK_EQ(handles + lists, 0u);
}

TEST(each_call_of_the_driver_may_fail) {
  const Options chained{
      3, QNNRT_OPENCL_OUT_OF_ORDER | QNNRT_OPENCL_PROFILE_NODES, nullptr, nullptr, 1, true};
  for (const Options& options : {Options{}, chained}) {
    for (bool profiled : {false, true}) {
      Driver driver;
      std::vector<float> x = Floats(1), y = Floats(0);
      const float expected = 1.0f + static_cast<float>(options.kernels);
      struct {
        const char* function;
        const char* text;
        uint64_t code;
      } const kCases[] = {
          {"create_buffer", "no staging memory on the device", 1002},
          {"set_arg", "a kernel does not take its memory", 1100},
          {"write", "tensor 'x': its memory cannot be copied", 1100},
          {"read", "tensor 'y': its memory cannot be copied", 1100},
          {"ndrange", "kernel add: it did not start", 1100},
          {"finish", "", 1100},
          {"barrier", "", 1100},
      };
      for (const auto& each : kCases) {
        for (int nth = 1;; ++nth) {
          List list(options);
          Events events;
          const Qnnrt_ExecutorRun_t run = profiled ? events.Run() : Qnnrt_ExecutorRun_t{};
          std::string why;
          driver.Fail(each.function, nth, -9999);
          const uint64_t code = list.Execute(Raw(1, &x), Raw(2, &y), &why, run);
          const bool failed = driver.Calls(each.function) >= nth;
          CHECK_EQ(code, failed ? each.code : 0u);
          CHECK(driver.events.empty());
          if (failed) CHECK(Has(why, each.text));
          if (failed) CHECK(Has(why, "(a code of the driver's own, OpenCL error -9999)"));
          driver.Fail("", 0);
          y = Floats(0);
          CHECK_EQ(list.Execute(Raw(1, &x), Raw(2, &y), nullptr, run), 0u);
          CHECK(All(y, expected));
          CHECK_EQ(list.counts().executes, failed ? 1u : 2u);
          if (!failed) break;
        }
      }
      driver.Fail("ndrange", 1, -5);
      std::string why;
      List list(options);
      CHECK_EQ(list.Execute(Raw(1, &x), Raw(2, &y), &why), 1002u);
      CHECK_EQ(why, std::string("step 0, node 'first', kernel add: it did not start "
                                "(CL_OUT_OF_RESOURCES, OpenCL error -5)"));
    }
  }
}

CHECK_MAIN("opencl_test")
