// The executor of command lists and the registry of its memory on many threads, alone and behind
// the gpu backend's function table; for the thread sanitizer above all.
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "abi/qnn_interface.h"
#include "opencl_driver.h"

using namespace opencl_test;  // NOLINT(build/namespaces)

extern "C" Qnn_ErrorHandle_t qnnrt_gpu_get_providers(const QnnInterface_t*** list, uint32_t* n);

namespace {

constexpr int kRuns = 200;

template <typename F>
void OnThreads(int count, F body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST(executions_of_a_list_follow_one_another) {
  Driver driver;
  List list;
  OnThreads(4, [&](int thread) {
    std::vector<float> x(kElements), y(kElements);
    Registered in, out;
    for (int i = 0; i < kRuns; ++i) {
      const float value = static_cast<float>(thread * kRuns + i);
      std::vector<float>& to = i % 2 != 0 ? in.buffer.data : x;
      to.assign(kElements, value);
      const Qnn_Tensor_t input = i % 2 != 0 ? WithHandle(1, in.handle) : Raw(1, &x);
      const Qnn_Tensor_t output = i % 3 != 0 ? WithHandle(2, out.handle) : Raw(2, &y);
      CHECK_EQ(list.Execute(input, output), 0u);
      CHECK_EQ(i % 3 != 0 ? out.buffer.data[3] : y[3], value + 2);
    }
  });
  CHECK_EQ(list.counts().executes, 4u * kRuns);
  CHECK_EQ(list.counts().reserved_bytes, 2 * kBytes);
}

TEST(counters_and_arguments_beside_executions) {
  Driver driver;
  List list;
  Registered in, out;
  std::atomic<bool> running{true};
  std::thread other([&] {
    while (running) {
      qnnrt_opencl_list_forget(list.handle(), &in.buffer);
      CHECK(list.counts().kernels <= 4u * kRuns);
      uint32_t executions = 0, mapped = 0, handles = 0, lists = 0;
      qnnrt_opencl_usage(in.handle, &executions, &mapped);
      CHECK(executions <= 2);
      qnnrt_opencl_live(&handles, &lists);
      CHECK_EQ(lists, 1u);
    }
  });
  OnThreads(2, [&](int) {
    for (int i = 0; i < kRuns; ++i)
      CHECK_EQ(list.Execute(WithHandle(1, in.handle), WithHandle(2, out.handle)), 0u);
  });
  running = false;
  other.join();
  qnnrt_opencl_list_reset(list.handle());
  CHECK_EQ(list.counts().executes, 0u);
}

TEST(memory_comes_and_goes_beside_executions) {
  Driver driver;
  List list;
  Registered out;
  std::atomic<uint64_t> shared{0};  // a handle that others register and deregister
  std::atomic<int> done{0};
  OnThreads(4, [&](int thread) {
    if (thread < 2) {
      for (int i = 0; i < kRuns; ++i) {
        Registered mine;
        shared = reinterpret_cast<uintptr_t>(mine.handle);
        CHECK_EQ(qnnrt_opencl_map(mine.handle, 1), 0u);  // waits for what has it
        mine.buffer.data.assign(kElements, 7);
        qnnrt_opencl_unmap(mine.handle, 1);
      }
      ++done;
      return;
    }
    std::vector<float> y(kElements);
    while (done < 2) {
      const auto handle = reinterpret_cast<Qnn_MemHandle_t>(static_cast<uintptr_t>(shared.load()));
      std::string why;
      const uint64_t code = list.Execute(WithHandle(1, handle), Raw(2, &y), &why);
      CHECK(code == 0 || code == 1005 || code == 6004);
      if (code == 6004) CHECK(Has(why, "not registered"));
    }
  });
}

TEST(memory_of_several_lists_changes_owners_once_at_a_time) {
  Driver driver;
  List a, b;
  Registered x(1, {QNNRT_OPENCL_EXTERNAL, a.queue(), reinterpret_cast<void*>(&Acquire),
                   reinterpret_cast<void*>(&ReleaseExternal), &driver});
  Registered y, z;
  OnThreads(2, [&](int thread) {
    const List& list = thread == 0 ? a : b;
    for (int i = 0; i < kRuns; ++i)
      CHECK_EQ(list.Execute(WithHandle(1, x.handle), WithHandle(2, (thread == 0 ? y : z).handle)),
               0u);
  });
  CHECK_EQ(driver.Calls("acquire"), driver.Calls("release"));
  CHECK_EQ(a.counts().given + b.counts().given, static_cast<uint64_t>(driver.Calls("acquire")));
  CHECK_EQ(a.counts().taken_back + b.counts().taken_back,
           static_cast<uint64_t>(driver.Calls("release")));
}

// As a client of the function table has it: declared, given to an executor, executed both ways.
TEST(graphs_of_the_gpu_backend_run_on_a_list) {
  const QnnInterface_t** providers = nullptr;
  uint32_t count = 0;
  qnnrt_gpu_get_providers(&providers, &count);
  const auto& q = providers[0]->v2_32;
  Qnn_BackendHandle_t backend = nullptr;
  Qnn_ContextHandle_t context = nullptr;
  Qnn_GraphHandle_t graph = nullptr;
  CHECK_EQ(q.backendCreate(nullptr, nullptr, &backend), 0u);
  CHECK_EQ(q.contextCreate(backend, nullptr, nullptr, &context), 0u);
  CHECK_EQ(q.graphCreate(context, "g", nullptr, &graph), 0u);
  Qnn_Tensor_t x = Tensor(0), y = Tensor(0);
  x.v1.name = "x";
  y.v1.name = "y";
  x.v1.type = QNN_TENSOR_TYPE_APP_WRITE;
  y.v1.type = QNN_TENSOR_TYPE_APP_READ;
  for (Qnn_Tensor_t* t : {&x, &y}) {
    t->v1.quantizeParams.encodingDefinition = QNN_DEFINITION_UNDEFINED;
    t->v1.quantizeParams.quantizationEncoding = QNN_QUANTIZATION_ENCODING_UNDEFINED;
    CHECK_EQ(q.tensorCreateGraphTensor(graph, t), 0u);
  }
  Qnn_OpConfig_t op;
  std::memset(&op, 0, sizeof(op));
  op.version = QNN_OPCONFIG_VERSION_1;
  op.v1 = {"relu", "qti.aisw", "Relu", 0, nullptr, 1, &x, 1, &y};
  CHECK_EQ(q.graphAddNode(graph, op), 0u);
  Driver driver;
  {
    List list;
    Qnnrt_Executor_t executor;
    qnnrt_opencl_list_executor(list.handle(), context, 0, &executor);
    CHECK_EQ(qnnrt_graph_set_executor(graph, &executor), 0u);
    CHECK_EQ(q.graphFinalize(graph, nullptr, nullptr), 0u);
    CHECK_EQ(x.v1.id, 1u);
    CHECK_EQ(y.v1.id, 2u);
    OnThreads(3, [&](int thread) {
      Registered in(1, {}, context), out(1, {}, context);
      for (int i = 0; i < kRuns; ++i) {
        const float value = static_cast<float>(thread * kRuns + i);
        in.buffer.data.assign(kElements, value);
        const Qnn_Tensor_t input = WithHandle(1, in.handle);
        Qnn_Tensor_t output = WithHandle(2, out.handle);
        if (i % 2 == 0) {
          CHECK_EQ(q.graphExecute(graph, &input, 1, &output, 1, nullptr, nullptr), 0u);
        } else {
          std::atomic<bool> done{false};
          const auto notify = [](void* param, Qnn_NotifyStatus_t status) {
            CHECK_EQ(status.error, 0u);
            *static_cast<std::atomic<bool>*>(param) = true;
          };
          CHECK_EQ(
              q.graphExecuteAsync(graph, &input, 1, &output, 1, nullptr, nullptr, notify, &done),
              0u);
          while (!done) std::this_thread::yield();
        }
        CHECK_EQ(out.buffer.data[0], value + 2);
      }
    });
    CHECK_EQ(list.counts().executes, 3u * kRuns);
    Qnn_Tensor_t output = WithHandle(2, nullptr);
    CHECK_EQ(q.graphExecute(graph, &output, 1, &output, 1, nullptr, nullptr), 6004u);
    CHECK_EQ(q.contextFree(context, nullptr), 0u);
  }
  CHECK_EQ(q.backendFree(backend), 0u);
}

CHECK_MAIN("opencl_threads_test")
