// Execution environments: memory handles bound ahead, client buffers filled in.
#include <sys/wait.h>
#include <unistd.h>

#include "async_client.h"

using namespace async_test;

namespace {

constexpr auto kBind = QNN_GRAPH_EXECUTE_ENVIRONMENT_OPTION_BIND_MEM_HANDLES;
constexpr auto kPopulate = QNN_GRAPH_EXECUTE_ENVIRONMENT_OPTION_POPULATE_CLIENT_BUFS;

struct Environment {
  std::vector<Qnn_Tensor_t> in, out;
  QnnGraph_ExecuteEnvironment_t raw;
  Environment(QnnGraph_ExecuteEnvironmentOption_t option, std::vector<Qnn_Tensor_t> inputs,
              std::vector<Qnn_Tensor_t> outputs)
      : in(std::move(inputs)), out(std::move(outputs)) {
    std::memset(&raw, 0, sizeof(raw));
    raw.option = option;
    raw.tensorSet.version = QNN_TENSOR_SET_VERSION_1;
    raw.tensorSet.v1 = {static_cast<uint32_t>(in.size()), in.data(),
                        static_cast<uint32_t>(out.size()), out.data()};
  }
  Environment(const Environment&) = delete;
  bool IsEmpty() const {
    return raw.tensorSet.v1.numInputs == 0 && raw.tensorSet.v1.numOutputs == 0 &&
           raw.tensorSet.v1.inputs == nullptr && raw.tensorSet.v1.outputs == nullptr;
  }
};

Qnn_ErrorHandle_t Prepare(const GraphOf& graph, std::vector<Environment*> list) {
  std::vector<QnnGraph_ExecuteEnvironment_t*> raw;
  for (Environment* e : list) raw.push_back(&e->raw);
  return q.graphPrepareExecutionEnvironment(graph.handle, raw.data(),
                                            static_cast<uint32_t>(raw.size()));
}
Qnn_ErrorHandle_t Release(const GraphOf& graph, std::vector<Environment*> list) {
  std::vector<const QnnGraph_ExecuteEnvironment_t*> raw;
  for (Environment* e : list) raw.push_back(&e->raw);
  return q.graphReleaseExecutionEnvironment(graph.handle, raw.data(),
                                            static_cast<uint32_t>(raw.size()));
}

Qnn_Tensor_t Raw(Qnn_Tensor_t t, float* data = nullptr) {
  t.v1.memType = QNN_TENSORMEMTYPE_RAW;
  t.v1.clientBuf = {data, data == nullptr ? 0u : kN * static_cast<uint32_t>(sizeof(float))};
  return t;
}

uint64_t Copied(const GraphOf& graph) {
  Qnnrt_GraphStats_t stats;
  CHECK_EQ(qnnrt_graph_stats(graph.handle, &stats), 0u);
  return stats.copied_bytes;
}

}  // namespace

TEST(bound_handles_stay_until_they_are_released) {
  Client client;
  GraphOf graph(client.context, "g", kN);
  Memory in(client.context, kN), out(client.context, kN), other(client.context, kN);
  Environment both(kBind, {GraphOf::With(graph.x, in)}, {GraphOf::With(graph.y, out)});
  CHECK_EQ(Prepare(graph, {&both}), 0u);
  CHECK(!both.IsEmpty());
  CHECK_EQ(q.memDeRegister(&in.handle, 1), 1005u);
  CHECK(Has(Message(1005), "execution environment"));
  CHECK_EQ(graph.Sync(in, out), 0u);
  CHECK_EQ(graph.Sync(in, other), 0u);  // handles that are not bound are as good
  CHECK_EQ(out.data[0], 1.0f);
  CHECK_EQ(Copied(graph), 0u);
  CHECK_EQ(Release(graph, {&both}), 0u);
  CHECK_EQ(Release(graph, {&both}), 6000u);
  CHECK_EQ(graph.Sync(in, out), 0u);
  CHECK_EQ(q.memDeRegister(&in.handle, 1), 0u);
  in.handle = nullptr;
}

TEST(sets_may_be_parts_and_many) {
  Client client;
  GraphOf graph(client.context, "g", kN), other(client.context, "h", kN);
  Memory in(client.context, kN), in2(client.context, kN), out(client.context, kN);
  // Two inputs to alternate between; the output shared by two graphs.
  Environment first(kBind, {GraphOf::With(graph.x, in)}, {});
  Environment second(kBind, {GraphOf::With(graph.x, in2)}, {GraphOf::With(graph.y, out)});
  Environment third(kBind, {}, {GraphOf::With(other.y, out)});
  CHECK_EQ(Prepare(graph, {&first, &second}), 0u);
  CHECK(!first.IsEmpty() && !second.IsEmpty());
  CHECK_EQ(Prepare(other, {&third}), 0u);
  CHECK_EQ(Release(other, {&first}), 6000u);  // another graph's
  CHECK_EQ(Release(graph, {&first}), 0u);
  CHECK_EQ(q.memDeRegister(&in.handle, 1), 0u);
  in.handle = nullptr;
  CHECK_EQ(Release(graph, {&second}), 0u);
  CHECK_EQ(q.memDeRegister(&out.handle, 1), 1005u);
  CHECK_EQ(Release(other, {&third}), 0u);
  CHECK_EQ(q.memDeRegister(&out.handle, 1), 0u);
  out.handle = nullptr;
}

TEST(the_end_of_the_context_releases) {
  Client client;
  GraphOf graph(client.context, "g", kN);
  Memory in(client.context, kN), out(client.context, kN);
  Qnnrt_LiveCounts_t before, after;
  qnnrt_live_counts(&before);
  Environment both(kBind, {GraphOf::With(graph.x, in)}, {GraphOf::With(graph.y, out)});
  CHECK_EQ(Prepare(graph, {&both}), 0u);
  client.FreeContext();
  qnnrt_live_counts(&after);
  CHECK_EQ(after.mem_handles, before.mem_handles - 2);
  CHECK_EQ(Release(graph, {&both}), 6039u);
  in.handle = out.handle = nullptr;
}

TEST(what_cannot_be_bound_is_refused_and_nothing_else_is_bound) {
  Client client;
  GraphOf graph(client.context, "g", kN), wide(client.context, "w", 2 * kN);
  GraphOf unfinished(client.context, "u", kN, 0, false);
  Memory in(client.context, kN), out(client.context, kN), big(client.context, 2 * kN);
  Environment good(kBind, {GraphOf::With(graph.x, in)}, {});
  Environment shape(kBind, {}, {GraphOf::With(graph.y, big)});
  CHECK_EQ(Prepare(graph, {&good, &shape}), 6004u);
  std::vector<float> plain(kN);
  Environment raw(kBind, {Raw(graph.x, plain.data())}, {});
  CHECK_EQ(Prepare(graph, {&good, &raw}), 6004u);
  CHECK(Has(Message(6004), "memory handles"));
  Environment side(kBind, {GraphOf::With(graph.y, out)}, {});  // an output among the inputs
  CHECK_EQ(Prepare(graph, {&good, &side}), 6004u);
  Environment early(kBind, {GraphOf::With(unfinished.x, in)}, {});
  CHECK_EQ(Prepare(unfinished, {&early}), 6023u);
  CHECK_EQ(q.graphPrepareExecutionEnvironment(graph.handle, nullptr, 1), 6000u);
  QnnGraph_ExecuteEnvironment_t* null = nullptr;
  CHECK_EQ(q.graphPrepareExecutionEnvironment(graph.handle, &null, 1), 6000u);
  good.raw.tensorSet.version = static_cast<Qnn_TensorSetVersion_t>(9);
  CHECK_EQ(Prepare(graph, {&good}), 6000u);
  for (Memory* m : {&in, &out, &big}) {
    CHECK_EQ(q.memDeRegister(&m->handle, 1), 0u);
    m->handle = nullptr;
  }
}

TEST(options_that_bring_nothing_are_emptied) {
  Client client;
  GraphOf graph(client.context, "g", kN);
  Memory in(client.context, kN), out(client.context, kN);
  // An option that does not exist: nothing happens, and the caller sees which one it was.
  Environment good(kBind, {GraphOf::With(graph.x, in)}, {});
  Environment unknown(static_cast<QnnGraph_ExecuteEnvironmentOption_t>(7),
                      {GraphOf::With(graph.x, in)}, {});
  CHECK_EQ(Prepare(graph, {&good, &unknown}), 1000u);
  CHECK(unknown.IsEmpty());
  CHECK(!good.IsEmpty());
  CHECK_EQ(Release(graph, {&good}), 6000u);
  // The same again in one call: surplus, and no error.
  Environment again(kBind, {GraphOf::With(graph.x, in)}, {});
  Environment a(kPopulate, {}, {Raw(graph.y)}), b(kPopulate, {}, {Raw(graph.y)});
  CHECK_EQ(Prepare(graph, {&good, &again, &a, &b}), 0u);
  CHECK(!good.IsEmpty() && again.IsEmpty() && !a.IsEmpty() && b.IsEmpty());
  CHECK_EQ(Release(graph, {&good, &again, &a, &b}), 0u);  // empty sets release nothing
  CHECK_EQ(q.memDeRegister(&in.handle, 1), 0u);
  in.handle = nullptr;
}

TEST(populated_buffers_are_used_in_place) {
  Client client;
  GraphOf graph(client.context, "g", kN);
  std::vector<float> plain(kN, 4.0f), result(kN);
  Environment e(kPopulate, {Raw(graph.x)}, {Raw(graph.y)});
  CHECK_EQ(Prepare(graph, {&e}), 0u);
  REQUIRE(e.in[0].v1.clientBuf.data != nullptr && e.out[0].v1.clientBuf.data != nullptr);
  CHECK_EQ(e.in[0].v1.clientBuf.dataSize, kN * 4);
  float* x = static_cast<float*>(e.in[0].v1.clientBuf.data);
  float* y = static_cast<float*>(e.out[0].v1.clientBuf.data);
  for (uint32_t i = 0; i < kN; ++i) x[i] = static_cast<float>(i);
  CHECK_EQ(q.graphExecute(graph.handle, e.in.data(), 1, e.out.data(), 1, nullptr, nullptr), 0u);
  CHECK_EQ(y[kN - 1], static_cast<float>(kN));
  CHECK_EQ(Copied(graph), 0u);
  // Other RAW memory is copied as ever.
  Qnn_Tensor_t in = Raw(graph.x, plain.data()), out = Raw(graph.y, result.data());
  CHECK_EQ(q.graphExecute(graph.handle, &in, 1, &out, 1, nullptr, nullptr), 0u);
  CHECK_EQ(result[0], 5.0f);
  CHECK_EQ(Copied(graph), 2 * kN * 4);
  // Asynchronously, too.
  x[0] = 10.0f;
  Done done;
  CHECK_EQ(q.graphExecuteAsync(graph.handle, e.in.data(), 1, e.out.data(), 1, nullptr, nullptr,
                               Done::Notify, &done),
           0u);
  done.returned.Wait();
  CHECK_EQ(y[0], 11.0f);
  CHECK_EQ(Copied(graph), 2 * kN * 4);
  CHECK_EQ(Release(graph, {&e}), 0u);
  CHECK_EQ(Release(graph, {&e}), 6000u);
  // Handles have no client buffer to fill in.
  Memory m(client.context, kN);
  Environment handle(kPopulate, {GraphOf::With(graph.x, m)}, {});
  CHECK_EQ(Prepare(graph, {&handle}), 6004u);
  Environment alien(kPopulate, {Raw(graph.y)}, {});
  CHECK_EQ(Prepare(graph, {&alien}), 6004u);
}

TEST(a_forked_child_is_refused) {
#ifdef __SANITIZE_THREAD__
  return check::Skip("fork", "thread sanitizer");
#endif
  Client client;
  GraphOf graph(client.context, "g", kN);
  Memory in(client.context, kN);
  Environment e(kBind, {GraphOf::With(graph.x, in)}, {});
  CHECK_EQ(Prepare(graph, {&e}), 0u);
  const pid_t child = fork();
  if (child == 0) {
    const bool ok = Release(graph, {&e}) == 1005 && Has(Message(1005), "forked") &&
                    Prepare(graph, {&e}) == 1005 && q.contextFree(client.context, nullptr) == 0 &&
                    q.memDeRegister(&in.handle, 1) == QNN_MEM_ERROR_INVALID_HANDLE;
    _exit(ok ? 0 : 1);
  }
  int status = -1;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK_EQ(Release(graph, {&e}), 0u);
}

CHECK_MAIN("environment_test")
