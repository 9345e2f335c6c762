// Asynchronous executions: one FIFO, its depth, and who holds what until when.
#include <random>

#include "async_client.h"
#include "memory/memory.h"

using namespace async_test;

TEST(an_execution_runs_on_another_thread_and_says_when_it_is_done) {
  Client client;
  GraphOf graph(client.context, "g", kN);
  Memory in(client.context, kN), out(client.context, kN);
  in.data[3] = 41.0f;
  Done done;
  REQUIRE(graph.Async(in, out, &done) == 0);
  done.returned.Wait();
  CHECK_EQ(done.code, 0u);
  CHECK(done.thread != std::this_thread::get_id());
  CHECK_EQ(out.data[3], 42.0f);
  in.data[3] = 1.0f;
  CHECK_EQ(graph.Async(in, out, nullptr), 0u);  // without a callback
  client.FreeContext();
  CHECK_EQ(out.data[3], 2.0f);
}

TEST(the_depth_is_from_1_to_300_and_said_at_creation) {
  Client client;
  for (uint32_t depth : {0u, 301u, UINT32_MAX}) {
    Qnn_ContextHandle_t context = nullptr;
    CHECK_EQ(CreateContext(client.backend, depth, &context), 5010u);
    CHECK(context == nullptr);
  }
  for (uint32_t depth : {1u, 300u}) {
    Qnn_ContextHandle_t context = nullptr;
    CHECK_EQ(CreateContext(client.backend, depth, &context), 0u);
    CHECK_EQ(q.contextFree(context, nullptr), 0u);
  }
  QnnContext_Config_t config;
  std::memset(&config, 0, sizeof(config));
  config.option = QNN_CONTEXT_CONFIG_ASYNC_EXECUTION_QUEUE_DEPTH;
  config.asyncExeQueueDepth.depth = 5;
  const QnnContext_Config_t* list[] = {&config, nullptr};
  CHECK_EQ(q.contextSetConfig(client.context, list), 5010u);
}

TEST(a_full_queue_blocks_the_caller) {
  for (uint32_t depth : {1u, 2u, 10u}) {
    Client client(depth);
    GraphOf graph(client.context, "g", kN);
    Memory in(client.context, kN), out(client.context, kN);
    std::vector<Done> done(depth);
    {
      Hold hold(client, &graph);  // takes one slot, until its callback returns
      for (uint32_t i = 0; i + 1 < depth; ++i) CHECK_EQ(graph.Async(in, out, &done[i]), 0u);
      Event returned;
      std::thread caller([&] {
        CHECK_EQ(graph.Async(in, out, &done[depth - 1]), 0u);
        returned.Set();
      });
      Pause();
      CHECK(!returned.IsSet());
      hold.Open();
      returned.Wait();
      caller.join();
    }
    for (Done& d : done) d.returned.Wait();
    client.FreeContext();
  }
}

// Every execution adds 1 to the result of the one before: any other order gives another number.
TEST(executions_start_in_the_order_of_the_calls) {
  Client client(3);
  GraphOf graph(client.context, "g", kN), other(client.context, "h", kN);
  std::vector<Memory> chain;
  constexpr int kSteps = 400;
  for (int i = 0; i < 8; ++i) chain.emplace_back(client.context, kN);
  std::mt19937 random(7);
  std::vector<Done> done(kSteps);
  int sync = 0;
  for (int i = 0; i < kSteps; ++i) {
    GraphOf& g = random() % 2 == 0 ? graph : other;
    const Memory &from = chain[i % 8], &to = chain[(i + 1) % 8];
    if (random() % 4 == 0) {
      CHECK_EQ(g.Sync(from, to), 0u);
      CHECK_EQ(to.data[0], static_cast<float>(i + 1));  // so all before are done
      done[i].returned.Set();
      ++sync;
    } else {
      CHECK_EQ(g.Async(from, to, &done[i]), 0u);
    }
  }
  for (Done& d : done) d.returned.Wait();
  CHECK(sync > 50 && sync < 150);
  for (int i = 0; i < 8; ++i) {
    CHECK_EQ(chain[(kSteps - i) % 8].data[kN - 1], static_cast<float>(kSteps - i));
  }
  client.FreeContext();
}

TEST(a_synchronous_call_waits_for_what_came_before) {
  Client client;
  GraphOf graph(client.context, "g", kN);
  Memory a(client.context, kN), b(client.context, kN), c(client.context, kN);
  Done done;
  Event returned;
  std::thread caller;
  {
    Hold hold(client, &graph);
    CHECK_EQ(graph.Async(a, b, &done), 0u);  // waits for the worker
    caller = std::thread([&] {
      CHECK_EQ(graph.Sync(b, c), 0u);
      returned.Set();
    });
    Pause();
    CHECK(!returned.IsSet());
    CHECK_EQ(b.data[0], 0.0f);
  }
  caller.join();
  CHECK_EQ(c.data[0], 2.0f);
  done.returned.Wait();
  client.FreeContext();
}

TEST(an_uncontended_synchronous_call_allocates_nothing) {
  Client client;
  GraphOf graph(client.context, "g", kN);
  Memory in(client.context, kN), out(client.context, kN);
  CHECK_EQ(graph.Sync(in, out), 0u);
  uint64_t before = qnnrt_debug_allocations();
  for (int i = 0; i < 100; ++i) CHECK_EQ(graph.Sync(in, out), 0u);
  CHECK_EQ(qnnrt_debug_allocations(), before);
}

TEST(errors_come_from_the_call_and_then_nobody_is_notified) {
  Client client(1);
  GraphOf graph(client.context, "g", kN), unfinished(client.context, "u", kN, 0, false);
  GraphOf narrow(client.context, "n", kN / 2);
  Memory in(client.context, kN), out(client.context, kN);
  Done never;
  CHECK_EQ(unfinished.Async(in, out, &never), 6023u);
  Memory stale(client.context, kN);
  CHECK_EQ(q.memDeRegister(&stale.handle, 1), 0u);
  CHECK_EQ(graph.Async(in, stale, &never), 6004u);
  CHECK_EQ(narrow.Async(in, out, &never), 6004u);
  Qnn_Tensor_t x = GraphOf::With(graph.x, in), y = GraphOf::With(graph.y, out);
  CHECK_EQ(
      q.graphExecuteAsync(graph.handle, nullptr, 1, &y, 1, nullptr, nullptr, Done::Notify, &never),
      6000u);
  CHECK_EQ(q.graphExecuteAsync(graph.handle, &x, 1, &y, 2, nullptr, nullptr, Done::Notify, &never),
           6000u);
  CHECK_EQ(q.graphExecuteAsync(nullptr, &x, 1, &y, 1, nullptr, nullptr, Done::Notify, &never),
           6001u);
  // What refused them holds nothing: slots (there is one), memory handles.
  Done done;
  for (int i = 0; i < 3; ++i) CHECK_EQ(graph.Async(in, out, i == 2 ? &done : nullptr), 0u);
  done.returned.Wait();
  CHECK_EQ(q.memDeRegister(&in.handle, 1), 0u);
  stale.handle = in.handle = nullptr;
  CHECK(!never.entered.IsSet());
  client.FreeContext();
}

// A job that served one graph says nothing to another one, whatever the first had checked.
TEST(a_handle_is_checked_for_each_graph) {
  Client client(1);
  GraphOf graph(client.context, "g", kN), wide(client.context, "w", 4 * kN);
  Memory in(client.context, kN), out(client.context, kN);
  for (int i = 0; i < 4; ++i) {
    Done done;
    CHECK_EQ(graph.Async(in, out, &done), 0u);
    done.returned.Wait();
    CHECK_EQ(wide.Async(in, out, &done), 6004u);
  }
  client.FreeContext();
}

TEST(memory_in_flight_stays) {
  Client client;
  GraphOf graph(client.context, "g", kN);
  Memory in(client.context, kN), out(client.context, kN);
  Done done;
  {
    Hold hold(client, &graph);
    // Before its callback an execution lets go of everything.
    CHECK_EQ(q.memDeRegister(&hold.out.handle, 1), 0u);
    hold.out.handle = nullptr;
    CHECK_EQ(graph.Async(in, out, &done), 0u);
    CHECK_EQ(q.memDeRegister(&in.handle, 1), 1005u);
    CHECK(Has(Message(1005), "in flight"));
    CHECK_EQ(q.memDeRegister(&out.handle, 1), 1005u);
    qnnrt::Buffer* buffer = qnnrt::Memory::Get().buffers().PinByAddress(in.data);
    REQUIRE(buffer != nullptr);
    const qnnrt::SlotHandle handle = buffer->handle;
    qnnrt::Memory::Get().buffers().Unpin(buffer);
    qnnrt::Status closed = qnnrt::Memory::Get().Close(handle);
    CHECK_EQ(closed.code(), 1005u);
    CHECK(Has(closed.message(), "executions in flight use 1 of its memory handles"));
  }
  done.returned.Wait();
  CHECK_EQ(out.data[0], 1.0f);
  CHECK_EQ(q.memDeRegister(&in.handle, 1), 0u);
  in.handle = nullptr;
  client.FreeContext();
}

TEST(contextFree_waits_for_everything_in_flight) {
  for (int round = 0; round < 20; ++round) {
    Client client(10);
    GraphOf graph(client.context, "g", kN);
    Memory in(client.context, kN);
    std::vector<Memory> outs;
    std::vector<Done> done(10);
    for (int i = 0; i < 10; ++i) outs.emplace_back(client.context, kN);
    for (int i = 0; i < 10; ++i) CHECK_EQ(graph.Async(in, outs[i], &done[i]), 0u);
    client.FreeContext();
    for (int i = 0; i < 10; ++i) {
      CHECK(done[i].returned.IsSet());
      CHECK_EQ(done[i].code, 0u);
      CHECK_EQ(outs[i].data[kN - 1], 1.0f);
    }
    CHECK_EQ(graph.Async(in, outs[0], nullptr), 6039u);
  }
}

// Threads that never leave a graph alone must not keep it for ever.
TEST(contextFree_ends_however_many_threads_go_on_executing) {
  for (int round = 0; round < 5; ++round) {
    Client client;
    GraphOf graph(client.context, "g", 64);
    std::vector<float> x(64), y(64);
    Qnn_Tensor_t in = graph.x, out = graph.y;
    for (Qnn_Tensor_t* t : {&in, &out}) t->v1.memType = QNN_TENSORMEMTYPE_RAW;
    in.v1.clientBuf = {x.data(), 256};
    std::atomic<int> running{0};
    std::vector<Qnn_ErrorHandle_t> last(8, 0);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < last.size(); ++i) {
      threads.emplace_back([&, i] {
        std::vector<float> mine(64);
        Qnn_Tensor_t to = out;
        to.v1.clientBuf = {mine.data(), 256};
        ++running;
        while (last[i] == 0)
          last[i] = q.graphExecute(graph.handle, &in, 1, &to, 1, nullptr, nullptr);
      });
    }
    while (running != static_cast<int>(last.size())) std::this_thread::yield();
    client.FreeContext();
    for (std::thread& thread : threads) thread.join();
    for (Qnn_ErrorHandle_t code : last) CHECK_EQ(code, QNN_GRAPH_ERROR_INVALID_CONTEXT);
  }
}

TEST(contextFree_sends_callers_away_that_wait_for_a_slot) {
  Client client(1);
  GraphOf graph(client.context, "g", kN);
  Memory in(client.context, kN), out(client.context, kN);
  std::vector<std::thread> callers;
  std::atomic<int> refused{0};
  {
    Hold hold(client, &graph);
    Event begun;
    for (int i = 0; i < 3; ++i) {
      callers.emplace_back([&] {
        begun.Set();
        CHECK_EQ(graph.Async(in, out, nullptr), 6039u);
        ++refused;
      });
    }
    begun.Wait();
    Pause();
    std::thread closer([&] { client.FreeContext(); });
    // The only slot is taken all the while.
    CHECK(Eventually([&] { return refused == 3; }));
    hold.Open();
    closer.join();
  }
  for (std::thread& t : callers) t.join();
}

TEST(memory_may_run_out_anywhere) {
  int refused = 0, failed = 0;
  for (int64_t n = 1; n < 1000; ++n) {
    Client client(2);
    GraphOf graph(client.context, "g", kN);
    Memory in(client.context, kN), out(client.context, kN);
    Qnn_SignalHandle_t signal = MakeSignal(client.backend, QNN_SIGNAL_CONFIG_OPTION_ABORT);
    Qnn_ProfileHandle_t profile = nullptr;
    CHECK_EQ(q.profileCreate(client.backend, QNN_PROFILE_LEVEL_DETAILED, &profile), 0u);
    Done done;
    const uint64_t before = qnnrt_debug_allocations();
    qnnrt_debug_fail_allocation(n);
    Qnn_ErrorHandle_t code = graph.Async(in, out, &done, signal, profile);
    if (code == 0) done.returned.Wait();
    qnnrt_debug_fail_allocation(-1);
    const bool all = qnnrt_debug_allocations() - before < static_cast<uint64_t>(n);
    CHECK(code == 0 || code == 1002);
    refused += code != 0;
    if (code == 0) {
      CHECK(done.code == 0 || done.code == 1002);
      failed += done.code != 0;
    }
    // Whatever happened, nothing is held and the queue goes on.
    CHECK_EQ(q.signalFree(signal), 0u);
    CHECK_EQ(q.profileFree(profile), 0u);
    CHECK_EQ(q.memDeRegister(&out.handle, 1), 0u);
    out.handle = nullptr;
    Memory other(client.context, kN);
    Done again[3];
    for (Done& d : again) CHECK_EQ(graph.Async(in, other, &d), 0u);
    for (Done& d : again) d.returned.Wait();
    CHECK_EQ(other.data[0], 1.0f);
    if (all) break;
  }
  CHECK(refused > 0);
  std::printf("  %d calls refused, %d executions failed\n", refused, failed);
}

CHECK_MAIN("async_test")
