// Signals: aborts and timeouts of executions that run, wait or have not been queued yet, and of
// graphFinalize.
#include "abi/qnn_property.h"
#include "async_client.h"

using namespace async_test;

namespace {

Qnn_SignalHandle_t Abort(const Client& client) {
  return MakeSignal(client.backend, QNN_SIGNAL_CONFIG_OPTION_ABORT);
}
Qnn_SignalHandle_t Timeout(const Client& client, uint64_t us) {
  return MakeSignal(client.backend, QNN_SIGNAL_CONFIG_OPTION_TIMEOUT, us);
}
constexpr uint64_t kHour = 3600u * 1000 * 1000;

// A graph that takes long, and the memory of its first result, in which one sees that it runs.
struct Slow {
  static constexpr uint32_t kLong = 1u << 16;
  static constexpr int kSteps = 400;
  GraphOf graph;
  Memory in, early, out;
  explicit Slow(const Client& client)
      : graph(client.context, "slow", kLong, kSteps),
        in(client.context, kLong),
        early(client.context, kLong),
        out(client.context, kLong) {
    Reset();
  }
  void Reset() {
    for (uint32_t i = 0; i < kLong; ++i) out.data[i] = -5.0f;
    __atomic_store_n(Last(), 0, __ATOMIC_RELAXED);
  }
  // Peeks at what another thread writes, which is what the thread sanitizer is for: not here.
  __attribute__((no_sanitize("thread"))) void WaitUntilItRuns() {
    while (*const_cast<volatile uint32_t*>(Last()) == 0) std::this_thread::yield();
  }
  uint32_t* Last() { return reinterpret_cast<uint32_t*>(&early.data[kLong - 1]); }
  bool Finished() const { return out.data[0] != -5.0f; }
};

}  // namespace

TEST(what_a_signal_is_comes_from_its_config) {
  Client client;
  Qnnrt_LiveCounts_t before, with, after;
  qnnrt_live_counts(&before);
  Qnn_SignalHandle_t signal = nullptr;
  CHECK_EQ(q.signalCreate(client.backend, nullptr, nullptr), 9002u);
  CHECK_EQ(q.signalCreate(nullptr, nullptr, &signal), 9002u);
  CHECK_EQ(q.signalCreate(client.backend, nullptr, &signal), 0u);
  qnnrt_live_counts(&with);
  CHECK_EQ(with.signals, before.signals + 1);
  CHECK_EQ(q.signalTrigger(signal), 9005u);  // inert
  CHECK(Has(Message(9005), "inert"));

  QnnSignal_Config_t abort, timeout, zero, custom;
  for (QnnSignal_Config_t* c : {&abort, &timeout, &zero, &custom}) std::memset(c, 0, sizeof(*c));
  abort.option = QNN_SIGNAL_CONFIG_OPTION_ABORT;
  timeout.option = zero.option = QNN_SIGNAL_CONFIG_OPTION_TIMEOUT;
  timeout.timeoutDurationUs = UINT64_MAX;  // for ever
  custom.option = QNN_SIGNAL_CONFIG_OPTION_CUSTOM;
  const QnnSignal_Config_t* both[] = {&abort, &timeout, nullptr};
  CHECK_EQ(q.signalSetConfig(signal, both), 9002u);
  const QnnSignal_Config_t* one[] = {&zero, nullptr};
  CHECK_EQ(q.signalSetConfig(signal, one), 9002u);
  one[0] = &custom;
  CHECK_EQ(q.signalSetConfig(signal, one), 1000u);
  one[0] = &timeout;
  CHECK_EQ(q.signalSetConfig(signal, one), 0u);
  CHECK_EQ(q.signalTrigger(signal), 9005u);
  CHECK(Has(Message(9005), "TIMEOUT"));
  CHECK_EQ(q.signalSetConfig(signal, both), 9002u);  // and it stays what it was
  CHECK_EQ(q.signalTrigger(signal), 9005u);
  one[0] = &abort;
  CHECK_EQ(q.signalSetConfig(signal, one), 0u);
  CHECK_EQ(q.signalTrigger(signal), 9001u);
  CHECK_EQ(q.signalSetConfig(signal, nullptr), 0u);  // inert again
  CHECK_EQ(q.signalTrigger(signal), 9005u);

  CHECK_EQ(q.signalFree(signal), 0u);
  CHECK_EQ(q.signalFree(signal), 9003u);
  CHECK_EQ(q.signalTrigger(signal), 9003u);
  CHECK_EQ(q.signalSetConfig(signal, one), 9003u);
  CHECK_EQ(q.signalTrigger(client.context), 9003u);
  qnnrt_live_counts(&after);
  CHECK_EQ(after.signals, before.signals);
}

TEST(a_signal_that_nobody_triggers_changes_nothing) {
  Client client;
  GraphOf graph(client.context, "g", kN);
  Memory in(client.context, kN), out(client.context, kN);
  Qnn_SignalHandle_t inert = nullptr;
  CHECK_EQ(q.signalCreate(client.backend, nullptr, &inert), 0u);
  for (Qnn_SignalHandle_t signal :
       {inert, Abort(client), Timeout(client, kHour), Timeout(client, UINT64_MAX)}) {
    for (int i = 0; i < 3; ++i) {
      Done done;
      CHECK_EQ(graph.Async(in, out, &done, signal), 0u);
      done.returned.Wait();
      CHECK_EQ(done.code, 0u);
      CHECK_EQ(graph.Sync(in, out, signal), 0u);
    }
    CHECK_EQ(q.signalFree(signal), 0u);
  }
}

TEST(a_signal_is_for_one_call_at_a_time) {
  Client client;
  GraphOf graph(client.context, "g", kN);
  Memory in(client.context, kN), out(client.context, kN);
  Qnn_SignalHandle_t signal = Abort(client);
  Done done, never;
  CHECK_EQ(graph.Async(in, out, &never, client.context), 6000u);  // no signal at all
  {
    Hold hold(client, &graph);
    CHECK_EQ(graph.Async(in, out, &done, signal), 0u);
    CHECK_EQ(graph.Async(in, out, &never, signal), 6030u);
    CHECK_EQ(graph.Sync(in, out, signal), 6030u);
    CHECK_EQ(q.signalSetConfig(signal, nullptr), 9000u);
    CHECK_EQ(q.signalFree(signal), 9000u);
  }
  done.returned.Wait();
  CHECK(!never.entered.IsSet());
  CHECK_EQ(q.signalFree(signal), 0u);
}

TEST(a_queued_execution_is_aborted_at_once) {
  Client client;
  GraphOf graph(client.context, "g", kN);
  Memory in(client.context, kN), out(client.context, kN), out2(client.context, kN);
  Qnn_SignalHandle_t signal = Abort(client);
  Qnn_ProfileHandle_t profile = nullptr;
  CHECK_EQ(q.profileCreate(client.backend, QNN_PROFILE_LEVEL_BASIC, &profile), 0u);
  Done granted, queued, after;
  {
    Hold hold(client, &graph);
    // The first in line has its turn already and waits for the worker alone; the others queue.
    CHECK_EQ(graph.Async(in, out, &granted, signal, profile), 0u);
    CHECK_EQ(graph.Async(in, out2, &after), 0u);
    // Returns although the worker is held, and then nothing is in use.
    CHECK_EQ(q.signalTrigger(signal), 0u);
    CHECK_EQ(q.profileFree(profile), 0u);
    CHECK_EQ(q.memDeRegister(&out.handle, 1), 0u);
    out.handle = nullptr;
    CHECK_EQ(q.signalTrigger(signal), 9001u);
    CHECK_EQ(graph.Async(in, hold.out, &queued, signal), 0u);
    CHECK_EQ(q.signalTrigger(signal), 0u);
    CHECK_EQ(q.signalFree(signal), 0u);
    CHECK(!granted.entered.IsSet());
  }
  for (Done* d : {&granted, &queued, &after}) d->returned.Wait();
  CHECK_EQ(granted.code, 6031u);
  CHECK_EQ(queued.code, 6031u);
  CHECK_EQ(after.code, 0u);
  CHECK_EQ(out.data[0], 0.0f);
  CHECK_EQ(out2.data[0], 1.0f);
  CHECK_EQ(graph.Sync(in, out2), 0u);
}

TEST(a_callback_can_abort_what_waits_for_its_own_thread) {
  Client client;
  GraphOf graph(client.context, "g", kN);
  Memory in(client.context, kN), out(client.context, kN);
  struct Two {
    Event queued;
    Qnn_SignalHandle_t first, second;
  } two{{}, Abort(client), Abort(client)};
  Done done, a, b;
  done.param = &two;
  done.body = [](Done* d) {
    Two* two = static_cast<Two*>(d->param);
    two->queued.Wait();
    CHECK_EQ(q.signalTrigger(two->second), 0u);
    CHECK_EQ(q.signalTrigger(two->first), 0u);
  };
  CHECK_EQ(graph.Async(in, out, &done), 0u);
  CHECK_EQ(graph.Async(in, out, &a, two.first), 0u);
  CHECK_EQ(graph.Async(in, out, &b, two.second), 0u);
  two.queued.Set();
  for (Done* d : {&done, &a, &b}) d->returned.Wait();
  CHECK_EQ(done.code, 0u);
  // The first may have been run before the callback came to trigger it... it cannot: one worker.
  CHECK_EQ(a.code, 6031u);
  CHECK_EQ(b.code, 6031u);
}

TEST(a_running_execution_stops_before_its_next_step) {
  for (bool async : {true, false}) {
    Client client;
    Slow slow(client);
    Qnn_SignalHandle_t signal = Abort(client);
    // On a busy machine the trigger may come after the end.
    int stopped = 0;
    const auto stops = [&] {
      slow.Reset();
      Done done;
      Qnn_ErrorHandle_t result = 0;
      std::thread caller;
      if (async) {
        CHECK_EQ(slow.graph.Async(slow.in, slow.out, &done, signal, nullptr, &slow.early), 0u);
      } else {
        caller = std::thread(
            [&] { result = slow.graph.Sync(slow.in, slow.out, signal, nullptr, &slow.early); });
      }
      slow.WaitUntilItRuns();
      Qnn_ErrorHandle_t code = q.signalTrigger(signal);
      if (code == 0) {
        // It returns when the execution holds nothing any more.
        CHECK_EQ(q.memDeRegister(&slow.out.handle, 1), 0u);
        slow.out.handle = nullptr;
        slow.out = Memory(client.context, Slow::kLong);
        slow.Reset();
        Pause();
        CHECK(!slow.Finished());
        ++stopped;
      }
      if (async) {
        done.returned.Wait();
        result = done.code;
      } else {
        caller.join();
      }
      CHECK(code == 0 || code == 9001);
      CHECK_EQ(result, code == 0 ? 6031u : 0u);
      return stopped == 2;
    };
    CHECK(Eventually(stops));
    // The graph and the queue are as good as new.
    CHECK_EQ(slow.graph.Sync(slow.in, slow.out, signal, nullptr, &slow.early), 0u);
    CHECK(slow.Finished());
    CHECK_EQ(q.signalFree(signal), 0u);
  }
}

TEST(a_synchronous_call_that_waits_its_turn_is_aborted_or_timed_out) {
  Client client;
  Memory in(client.context, kN), out(client.context, kN), out2(client.context, kN);
  GraphOf graph(client.context, "g", kN);
  Qnn_SignalHandle_t abort = Abort(client), timeout = Timeout(client, 1000);
  Done next, last;
  {
    Hold hold(client, &graph);
    CHECK_EQ(graph.Async(in, out2, &next), 0u);  // has the turn, and waits for the worker
    CHECK_EQ(graph.Sync(in, out, timeout), 6033u);
    CHECK(Has(Message(6033), "1000 us"));
    std::thread caller([&] { CHECK_EQ(graph.Sync(in, out, abort), 6031u); });
    Qnn_ErrorHandle_t code;
    while ((code = q.signalTrigger(abort)) == 9001) std::this_thread::yield();
    CHECK_EQ(code, 0u);
    caller.join();
    // Those that gave up leave no gap in the line.
    CHECK_EQ(graph.Async(in, hold.out, &last), 0u);
    CHECK_EQ(out.data[0], 0.0f);
    CHECK(!next.entered.IsSet());
  }
  for (Done* d : {&next, &last}) {
    d->returned.Wait();
    CHECK_EQ(d->code, 0u);
  }
  CHECK_EQ(graph.Sync(in, out, abort), 0u);
}

TEST(a_call_that_waits_for_a_slot_is_aborted_or_timed_out) {
  Client client(1);
  GraphOf graph(client.context, "g", kN);
  Memory in(client.context, kN), out(client.context, kN);
  Qnn_SignalHandle_t abort = Abort(client), timeout = Timeout(client, 1000);
  Done never;
  {
    Hold hold(client, &graph);
    CHECK_EQ(graph.Async(in, out, &never, timeout), 6033u);
    std::thread caller([&] { CHECK_EQ(graph.Async(in, out, &never, abort), 6031u); });
    Qnn_ErrorHandle_t code;
    while ((code = q.signalTrigger(abort)) == 9001) std::this_thread::yield();
    CHECK_EQ(code, 0u);
    caller.join();
  }
  client.FreeContext();
  CHECK(!never.entered.IsSet());
}

TEST(a_timeout_counts_from_the_call) {
  Client client;
  Slow slow(client);
  GraphOf graph(client.context, "g", kN);
  Memory in(client.context, kN), out(client.context, kN);
  Qnn_SignalHandle_t signal = Timeout(client, 200);  // shorter than on any machine
  // Running, or not even queued when the machine is slow:
  Done done;
  Qnn_ErrorHandle_t code = slow.graph.Async(slow.in, slow.out, &done, signal, nullptr, &slow.early);
  if (code == 0) {
    done.returned.Wait();
    code = done.code;
  }
  CHECK_EQ(code, 6033u);
  CHECK(!slow.Finished());
  CHECK_EQ(slow.graph.Sync(slow.in, slow.out, signal, nullptr, &slow.early), 6033u);
  CHECK(!slow.Finished());
  // In the queue:
  Qnn_SignalHandle_t longer = Timeout(client, 20000);
  Done queued;
  {
    Hold hold(client, &graph);
    code = graph.Async(in, out, &queued, longer);
    Pause();
  }
  if (code == 0) {
    queued.returned.Wait();
    code = queued.code;
  }
  CHECK_EQ(code, 6033u);
  CHECK_EQ(out.data[0], 0.0f);
  CHECK_EQ(q.signalFree(signal), 0u);
  CHECK_EQ(q.signalFree(longer), 0u);
}

TEST(finalize_is_aborted_or_timed_out_and_can_be_done_again) {
  Client client;
  GraphOf graph(client.context, "g", kN, 3000, false);
  Qnn_SignalHandle_t late = Timeout(client, 1), abort = Abort(client);
  CHECK_EQ(q.graphFinalize(graph.handle, nullptr, late), 6033u);
  std::thread caller;
  Event begun;
  Qnn_ErrorHandle_t finalized = 1;
  caller = std::thread([&] {
    begun.Set();
    finalized = q.graphFinalize(graph.handle, nullptr, abort);
  });
  begun.Wait();
  Qnn_ErrorHandle_t code;
  // It may be through before the trigger comes: then there is nothing to abort.
  int tries = 0;
  while ((code = q.signalTrigger(abort)) == 9001 && ++tries < 100000) std::this_thread::yield();
  caller.join();
  CHECK_EQ(finalized, code == 0 ? 6031u : 0u);
  if (finalized != 0) CHECK_EQ(q.graphFinalize(graph.handle, nullptr, nullptr), 0u);
  Memory in(client.context, kN), out(client.context, kN), early(client.context, kN);
  CHECK_EQ(graph.Sync(in, out, late, nullptr, &early) == 6033u ||
               graph.Sync(in, out, nullptr, nullptr, &early) == 0u,
           true);
  CHECK_EQ(graph.Sync(in, out, nullptr, nullptr, &early), 0u);
  CHECK_EQ(q.signalFree(abort), 0u);
  CHECK_EQ(q.signalFree(late), 0u);
}

// Triggers against ends: whatever comes first, both sides agree on it and nothing is left over.
TEST(triggers_race_with_executions) {
  Client client(4);
  GraphOf graph(client.context, "g", kN);
  Memory in(client.context, kN), out(client.context, kN);
  int aborted = 0, ran = 0;
  for (int i = 0; i < 3000; ++i) {
    Qnn_SignalHandle_t signal = Abort(client);
    Done done;
    CHECK_EQ(graph.Async(in, out, &done, signal), 0u);
    if (i % 3 == 0) std::this_thread::yield();
    Qnn_ErrorHandle_t code = q.signalTrigger(signal);
    CHECK(code == 0 || code == 9001);
    CHECK_EQ(q.signalFree(signal), 0u);
    done.returned.Wait();
    CHECK_EQ(done.code, code == 0 ? 6031u : 0u);
    (code == 0 ? aborted : ran) += 1;
  }
  std::printf("  %d aborted, %d had ended\n", aborted, ran);
}

TEST(the_cpu_backend_has_none) {
  const QnnInterface_t** list = nullptr;
  uint32_t count = 0;
  REQUIRE(QnnInterface_getProviders(&list, &count) == 0);
  const QnnInterface_ImplementationV2_32_t& cpu = list[0]->v2_32;
  for (QnnProperty_Key_t key :
       {QNN_PROPERTY_GRAPH_SUPPORT_SIGNALS, QNN_PROPERTY_GRAPH_SUPPORT_ASYNC_EXECUTION,
        QNN_PROPERTY_GRAPH_SUPPORT_FINALIZE_SIGNAL, QNN_PROPERTY_GRAPH_SUPPORT_EXECUTE_SIGNAL,
        QNN_PROPERTY_GRAPH_SUPPORT_EXECUTE_ASYNC_SIGNAL,
        QNN_PROPERTY_GRAPH_SUPPORT_ENV_OPTION_BIND_MEM_HANDLES,
        QNN_PROPERTY_GRAPH_SUPPORT_ENV_OPTION_POPULATE_CLIENT_BUFS,
        QNN_PROPERTY_SIGNAL_SUPPORT_ABORT, QNN_PROPERTY_SIGNAL_SUPPORT_TIMEOUT}) {
    CHECK_EQ(q.propertyHasCapability(key), 0u);
    CHECK_EQ(cpu.propertyHasCapability(key), 1000u);
  }
  CHECK_EQ(list[0]->backendId, QNN_BACKEND_ID_CPU);
  Qnn_SignalHandle_t signal = nullptr;
  CHECK_EQ(cpu.signalCreate(nullptr, nullptr, &signal), 1000u);
  CHECK_EQ(
      cpu.graphExecuteAsync(nullptr, nullptr, 0, nullptr, 0, nullptr, nullptr, nullptr, nullptr),
      1000u);
  CHECK_EQ(cpu.graphPrepareExecutionEnvironment(nullptr, nullptr, 0), 1000u);
}

CHECK_MAIN("signal_test")
