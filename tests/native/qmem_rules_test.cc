// What surrounds the htp backend's staging: strict, the process domain's budget, profiles,
// addresses of the runtime's own, unaligned and failing memory, threads and forks.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "abi/qnn_property.h"
#include "api/runtime.h"
#include "qmem_net.h"
#include "support/interrupt.h"

using namespace qmem;

namespace {

qnnrt::Graph& GraphOf(const Net& net) {
  return qnnrt::Runtime::Get().graphs.Find(net.graph)->graph;
}

struct Event {
  uint32_t type, unit;
  uint64_t value;
  std::string name;
  std::vector<Event> below;
};
std::vector<Event> Read(const QnnProfile_EventId_t* ids, uint32_t count) {
  std::vector<Event> events;
  for (uint32_t i = 0; i < count; ++i) {
    QnnProfile_EventData_t d = {};
    CHECK_EQ(q.profileGetEventData(ids[i], &d), 0u);
    const QnnProfile_EventId_t* below = nullptr;
    uint32_t n = 0;
    CHECK_EQ(q.profileGetSubEvents(ids[i], &below, &n), 0u);
    const std::vector<QnnProfile_EventId_t> kept(below, below + n);
    events.push_back({d.type, d.unit, d.value, d.identifier, Read(kept.data(), n)});
  }
  return events;
}
std::vector<Event> Events(const Net& net) {
  const QnnProfile_EventId_t* ids = nullptr;
  uint32_t count = 0;
  CHECK_EQ(q.profileGetEvents(net.profile, &ids, &count), 0u);
  return Read(ids, count);
}
// The event of a type and name among these; a value of ~0 when there is none.
Event Find(const std::vector<Event>& events, uint32_t type, const char* name) {
  for (const Event& e : events) {
    if (e.type == type && e.name == name) return e;
  }
  return {0, 0, ~uint64_t{0}, "", {}};
}

}  // namespace

// ---- strict ----

TEST(strict_refuses_each_raw_tensor_by_name_and_reason_and_runs_nothing) {
  Net net;
  REQUIRE(net.Open() == 0 && net.Compose(kRaw, kHandle, kRaw) == 0);
  CHECK_EQ(net.SetStrict(2), Code{QNN_GRAPH_ERROR_INVALID_ARGUMENT});
  REQUIRE(net.SetStrict(1) == 0);  // before finalize
  REQUIRE(net.Finalize() == 0);
  REQUIRE(net.UseAll(kHandle, kHandle, kRaw) == 0);
  net.raw[2].assign(net.count, -7.0f);
  CHECK_EQ(net.Run(), Code{QNN_GRAPH_ERROR_INVALID_TENSOR});
  CHECK(Has(LastMessage(), "'y'") && Has(LastMessage(), "prepared raw, executed raw"));
  CHECK(Has(LastMessage(), "128 bytes"));
  CHECK_EQ(net.raw[2][0], -7.0f);
  REQUIRE(net.UseAll(kHandle, kRaw, kHandle) == 0);
  CHECK_EQ(net.Run(), Code{QNN_GRAPH_ERROR_INVALID_TENSOR});
  CHECK(Has(LastMessage(), "'b'") && Has(LastMessage(), "prepared memhandle, executed raw"));
  Qnnrt_GraphStats_t s = net.Stats();
  CHECK_EQ(s.executes, 0u);
  CHECK_EQ(s.copied_bytes, 0u);
  CHECK_EQ(s.reserved_at_execute_bytes, 0u);
  // What was refused holds no handle: all can be deregistered at once.
  CHECK_EQ(q.memDeRegister(&net.handles[0], 1), 0u);
  net.handles[0] = nullptr;
  REQUIRE(net.UseAll(kHandle, kHandle, kHandle) == 0);
  CHECK(net.Right(5));
  REQUIRE(net.SetStrict(0) == 0);  // and back, after finalize
  REQUIRE(net.UseAll(kHandle, kRaw, kHandle) == 0);
  CHECK(net.Right(6));
  REQUIRE(net.SetStrict(1) == 0);
  CHECK_EQ(net.Run(), Code{QNN_GRAPH_ERROR_INVALID_TENSOR});
}

// ---- what is said about it ----

TEST(capabilities_say_what_the_memory_rules_here_show) {
  for (uint32_t key :
       {QNN_PROPERTY_TENSOR_SUPPORT_MEMHANDLE_TYPE, QNN_PROPERTY_MEMORY_SUPPORT_MEM_TYPE_ION,
        QNN_PROPERTY_MEMORY_SUPPORT_MEM_TYPE_CUSTOM, QNN_PROPERTY_MEMORY_SUPPORT_MEM_TYPE_DMA_BUF,
        QNN_PROPERTY_BACKEND_SUPPORT_PLATFORM_OPTIONS}) {
    CHECK_EQ(q.propertyHasCapability(key), Code{QNN_PROPERTY_SUPPORTED});
  }
  for (uint32_t key :
       {QNN_PROPERTY_TENSOR_SUPPORT_UBWC_RGBA8888, QNN_PROPERTY_TENSOR_SUPPORT_UBWC_NV124R_UV,
        QNN_PROPERTY_TENSOR_SUPPORT_RETRIEVE_RAW}) {
    CHECK_EQ(q.propertyHasCapability(key), Code{QNN_PROPERTY_NOT_SUPPORTED});
  }
}

// ---- profile ----

TEST(profiles_have_what_was_reserved_and_copied) {
  Net net;
  const uint64_t n = net.Bytes();
  REQUIRE(net.Open() == 0 && net.Compose(kRaw, kHandle, kRaw) == 0 && net.Finalize() == 0);
  Event finalize = Find(Events(net), QNN_PROFILE_EVENTTYPE_FINALIZE, "finalize");
  Event reserved = Find(finalize.below, QNN_PROFILE_EVENTTYPE_BACKEND, "reserved for staging");
  CHECK_EQ(reserved.value, 2 * n);
  CHECK_EQ(reserved.unit, QNN_PROFILE_EVENTUNIT_BYTES);
  REQUIRE(net.UseAll(kRaw, kRaw, kHandle) == 0);
  for (int run = 0; run < 3; ++run) {
    REQUIRE(net.Run(net.profile) == 0);
    Event execute = Find(Events(net), QNN_PROFILE_EVENTTYPE_EXECUTE, "execute");
    Event in = Find(execute.below, QNN_PROFILE_EVENTTYPE_EXECUTE_PREPROCESS, "stage in");
    Event out = Find(execute.below, QNN_PROFILE_EVENTTYPE_EXECUTE_POSTPROCESS, "stage out");
    CHECK_EQ(in.unit, QNN_PROFILE_EVENTUNIT_MICROSEC);
    CHECK(in.value + out.value <= execute.value);
    CHECK_EQ(Find(in.below, QNN_PROFILE_EVENTTYPE_BACKEND, "copied in").value, 2 * n);
    CHECK_EQ(Find(in.below, QNN_PROFILE_EVENTTYPE_BACKEND, "reserved for staging").value,
             run == 0 ? n : ~uint64_t{0});
    CHECK_EQ(Find(out.below, QNN_PROFILE_EVENTTYPE_BACKEND, "copied out").value, 0u);
    CHECK_EQ(execute.below.size(), 3u);  // both, and the add with the relu in it
  }
  REQUIRE(net.UseAll(kHandle, kHandle, kRaw) == 0 && net.Run(net.profile) == 0);
  Event execute = Find(Events(net), QNN_PROFILE_EVENTTYPE_EXECUTE, "execute");
  Event in = Find(execute.below, QNN_PROFILE_EVENTTYPE_EXECUTE_PREPROCESS, "stage in");
  Event out = Find(execute.below, QNN_PROFILE_EVENTTYPE_EXECUTE_POSTPROCESS, "stage out");
  CHECK_EQ(Find(in.below, QNN_PROFILE_EVENTTYPE_BACKEND, "copied in").value, 0u);
  CHECK_EQ(Find(out.below, QNN_PROFILE_EVENTTYPE_BACKEND, "copied out").value, n);
}

// ---- memory of the runtime's own, used by the client ----

TEST(raw_memory_at_the_staging_address_is_used_in_place) {
  Net net;
  REQUIRE(net.Open() == 0 && net.Compose(kRaw, kHandle, kHandle) == 0);
  qnnrt::Graph& graph = GraphOf(net);
  CHECK_EQ(graph.StagingAddress(net.t[0].v1.id).status().code(),
           uint32_t{QNN_GRAPH_ERROR_GRAPH_NOT_FINALIZED});
  REQUIRE(net.Finalize() == 0);
  CHECK_EQ(graph.StagingAddress(999).status().code(), uint32_t{QNN_GRAPH_ERROR_INVALID_TENSOR});
  CHECK_EQ(net.Stats().reserved_at_execute_bytes, 0u);
  float* at[3];
  for (int i = 0; i < 3; ++i) {
    qnnrt::Result<void*> address = graph.StagingAddress(net.t[i].v1.id);
    REQUIRE(address.ok());
    qnnrt::Result<void*> again = graph.StagingAddress(net.t[i].v1.id);
    CHECK(again.ok() && *again == *address);
    CHECK_EQ(reinterpret_cast<uintptr_t>(*address) % 64, 0u);
    at[i] = static_cast<float*>(*address);
    net.t[i].v1.memType = QNN_TENSORMEMTYPE_RAW;
    net.t[i].v1.clientBuf = {at[i], static_cast<uint32_t>(net.Bytes())};
  }
  CHECK_EQ(net.Stats().reserved_at_finalize_bytes, net.Bytes());
  CHECK_EQ(net.Stats().reserved_at_execute_bytes, 2 * net.Bytes());
  std::fill_n(at[0], net.count, 3.0f);
  std::fill_n(at[1], net.count, 4.0f);
  REQUIRE(net.SetStrict(1) == 0);  // no copy, so nothing to refuse
  REQUIRE(net.Run() == 0);
  CHECK_EQ(at[2][net.count - 1], 7.0f);
  CHECK_EQ(net.Stats().copied_bytes, 0u);
  CHECK(net.Copies().empty());
}

// An execution that waits in a queue takes its inputs when its turn comes.
TEST(raw_inputs_are_copied_when_the_execution_runs_not_when_it_is_bound) {
  Net net;
  REQUIRE(net.Open() == 0 && net.Compose(kRaw, kRaw, kHandle) == 0 && net.Finalize() == 0);
  REQUIRE(net.UseAll(kRaw, kRaw, kRaw) == 0);
  qnnrt::Binding first, second;
  CHECK_OK(GraphOf(net).Bind(net.t, 2, net.t + 2, 1, &first));
  CHECK_EQ(net.Stats().reserved_at_execute_bytes, 0u);
  std::vector<float> other(net.count, 30.0f);
  net.t[0].v1.clientBuf.data = other.data();
  CHECK_OK(GraphOf(net).Bind(net.t, 2, net.t + 2, 1, &second));
  net.raw[0].assign(net.count, 4.0f);
  CHECK_OK(GraphOf(net).Run(first, {}));
  CHECK_EQ(net.raw[2][0], 4.0f);
  CHECK_OK(GraphOf(net).Run(second, {}));
  CHECK_EQ(net.raw[2][0], 30.0f);
  CHECK_EQ(net.Stats().copied_in_bytes, 4 * net.Bytes());
  qnnrt::Graph::Release(&first);
  qnnrt::Graph::Release(&second);
}

TEST(raw_memory_may_lie_anywhere_because_it_is_copied) {
  Net net;
  REQUIRE(net.Open() == 0 && net.Compose(kRaw, kRaw, kRaw) == 0 && net.Finalize() == 0);
  std::vector<char> bytes[3];
  for (int i = 0; i < 3; ++i) {
    bytes[i].resize(net.Bytes() + 1);
    net.t[i].v1.clientBuf = {bytes[i].data() + 1, static_cast<uint32_t>(net.Bytes())};
  }
  const float two = 2.0f;
  for (uint32_t e = 0; e < net.count; ++e) std::memcpy(bytes[0].data() + 1 + 4 * e, &two, 4);
  REQUIRE(net.Run() == 0);
  float y = 0;
  std::memcpy(&y, bytes[2].data() + 1, 4);
  CHECK_EQ(y, 2.0f);
  net.t[2].v1.clientBuf.dataSize = static_cast<uint32_t>(net.Bytes()) - 1;
  CHECK_EQ(net.Run(), Code{QNN_GRAPH_ERROR_INVALID_TENSOR});
  net.t[2].v1.clientBuf = {nullptr, static_cast<uint32_t>(net.Bytes())};
  CHECK_EQ(net.Run(), Code{QNN_GRAPH_ERROR_INVALID_TENSOR});
}

TEST(large_tensors_are_copied_whole) {
  for (uint32_t elements : {(2u << 20) / 4 - 4, (2u << 20) / 4, (9u << 20) / 4 + 20}) {
    Net net(elements);
    REQUIRE(net.Open() == 0 && net.Compose(kRaw, kRaw, kRaw) == 0 && net.Finalize() == 0);
    REQUIRE(net.UseAll(kRaw, kRaw, kRaw) == 0);
    CHECK(net.Right(3));
    CHECK_EQ(net.Stats().copied_bytes, 3 * net.Bytes());
  }
}

// ---- failures, threads, forks ----

struct StopAfter final : qnnrt::Interrupt {
  explicit StopAfter(int n) : left(n) {}
  qnnrt::Status Check() const override {
    return left-- > 0 ? qnnrt::Status::Ok() : qnnrt::Error(QNN_GRAPH_ERROR_ABORTED, "stop");
  }
  mutable int left;
};

TEST(an_execution_that_is_stopped_leaves_outputs_alone) {
  Net net;
  REQUIRE(net.Open() == 0 && net.Compose(kRaw, kRaw, kRaw) == 0 && net.Finalize() == 0);
  REQUIRE(net.UseAll(kRaw, kRaw, kRaw) == 0 && net.Right(1));
  net.raw[2].assign(net.count, -7.0f);
  for (int checks : {0, 1}) {
    StopAfter stop(checks);
    qnnrt::RunOptions options;
    options.interrupt = &stop;
    CHECK_EQ(GraphOf(net).Execute(net.t, 2, net.t + 2, 1, options).code(),
             uint32_t{QNN_GRAPH_ERROR_ABORTED});
    CHECK(net.raw[2] == std::vector<float>(net.count, -7.0f));
    CHECK_EQ(net.Stats().executes, 1u);
    CHECK_EQ(net.Stats().copied_out_bytes, net.Bytes());
    // Stopped before it began, nothing was copied in; in the middle, what was copied counts.
    CHECK_EQ(net.Stats().copied_in_bytes, (checks == 0 ? 2 : 4) * net.Bytes());
  }
  CHECK(net.Right(2));
}

TEST(every_allocation_may_fail_once_on_htp_too) {
  auto life = [](Net* net) -> Code {
    Code e = net->Open();
    if (e == 0) e = net->Compose(kRaw, kHandle, kRaw);
    if (e == 0) e = net->Finalize();
    if (e == 0) e = net->UseAll(kRaw, kRaw, kHandle);
    if (e == 0) e = net->Run();
    if (e == 0) e = net->Run(net->profile);
    return e;
  };
  Net warm;
  REQUIRE(life(&warm) == 0);
  warm.Close();
  Qnnrt_LiveCounts_t before, after;
  qnnrt_live_counts(&before);
  const uint64_t used = Used();
  int failed = 0;
  bool finished = false;
  for (int64_t n = 1; n < 5000 && !finished; ++n) {
    Net net;
    const uint64_t start = qnnrt_debug_allocations();
    qnnrt_debug_fail_allocation(n);
    Code e = 0;
    try {
      e = life(&net);
    } catch (const std::bad_alloc&) {  // of the client's own: it shares the operator new here
      e = QNN_COMMON_ERROR_MEM_ALLOC;
    }
    qnnrt_debug_fail_allocation(-1);
    finished = e == 0 && static_cast<int64_t>(qnnrt_debug_allocations() - start) < n;
    if (e != 0) {
      ++failed;
      CHECK_EQ(e, Code{QNN_COMMON_ERROR_MEM_ALLOC});
    }
    net.Close();
    qnnrt_live_counts(&after);
    CHECK_EQ(Used(), used);
    if (!CHECK(std::memcmp(&before, &after, sizeof(before)) == 0 ||
               (before.buffers == after.buffers && before.mem_handles == after.mem_handles &&
                before.contexts == after.contexts && before.graphs == after.graphs &&
                before.backends == after.backends && before.profiles == after.profiles)))
      std::fprintf(stderr, "  allocation %lld\n", static_cast<long long>(n));
  }
  CHECK(finished);
  CHECK(failed > 50);
  std::printf("%d allocations failed, one at a time\n", failed);
  Net again;
  CHECK_EQ(life(&again), 0u);
}

TEST(executions_of_many_threads_each_get_their_own_bytes) {
  Net net(1024);
  REQUIRE(net.Open() == 0 && net.Compose(kRaw, kHandle, kRaw) == 0 && net.Finalize() == 0);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([&net, &wrong, k] {
      std::vector<float> a(net.count), b(net.count), y(net.count);
      Qnn_Tensor_t t[3] = {net.t[0], net.t[1], net.t[2]};
      std::vector<float>* memory[] = {&a, &b, &y};
      for (int i = 0; i < 3; ++i) {
        t[i].v1.memType = QNN_TENSORMEMTYPE_RAW;
        t[i].v1.clientBuf = {memory[i]->data(), static_cast<uint32_t>(net.Bytes())};
      }
      for (int run = 0; run < 500; ++run) {
        const float x = static_cast<float>(1 + k * 1000 + run);
        std::fill(a.begin(), a.end(), x);
        std::fill(b.begin(), b.end(), 2 * x);
        if (q.graphExecute(net.graph, t, 2, t + 2, 1, nullptr, nullptr) != 0) ++wrong;
        for (float v : y) wrong += v != 3 * x;
      }
    });
  }
  Qnnrt_GraphStats_t s;
  do {  // asked all the while, as a monitor would
    s = net.Stats();
    uint32_t copies = 0;
    CHECK_EQ(qnnrt_graph_copies(net.graph, nullptr, 0, &copies), 0u);
    CHECK(copies == 0 || copies == 3 || copies == 2);
  } while (s.executes < 2000 && wrong == 0);
  for (std::thread& t : threads) t.join();
  CHECK_EQ(wrong.load(), 0);
  CHECK_EQ(net.Stats().copied_bytes, 2000 * 3 * net.Bytes());
  CHECK_EQ(net.Stats().reserved_bytes, 3 * net.Bytes());
}

TEST(a_forked_child_does_not_touch_the_parents_staging) {
  Net net;
  REQUIRE(net.Open() == 0 && net.Compose(kRaw, kRaw, kRaw) == 0 && net.Finalize() == 0);
  REQUIRE(net.UseAll(kRaw, kRaw, kRaw) == 0 && net.Right(1));
  const pid_t child = fork();
  if (child == 0) {
    if (net.Run() != QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED) _exit(1);
    Net own;  // a life of its own works
    bool good = own.Open() == 0 && own.Compose(kRaw, kRaw, kRaw) == 0 && own.Finalize() == 0 &&
                own.UseAll(kRaw, kRaw, kRaw) == 0 && own.Right(2);
    _exit(good ? 0 : 2);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK_EQ(status, 0);
  CHECK(net.Right(3));
}

CHECK_MAIN("qmem_rules_test")
