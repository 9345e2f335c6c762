// Asynchronous executions: what callbacks may do and find, profiles, many at once, forks.
#include <sys/wait.h>
#include <unistd.h>

#include <memory>

#include "async_client.h"

using namespace async_test;

#if defined(__SANITIZE_THREAD__)
#define UNDER_THREAD_SANITIZER 1  // it cannot follow threads started after a fork
#endif

namespace {

struct Chain {  // a callback that starts the next execution, until there are enough
  GraphOf* graph;
  Memory *in, *out;
  std::atomic<int> left;
  Done done;
  Event end;
  static void Next(Done* d) {
    Chain* chain = static_cast<Chain*>(d->param);
    CHECK_EQ(d->code, 0u);
    if (--chain->left == 0) {
      chain->end.Set();
      return;
    }
    CHECK_EQ(chain->graph->Async(*chain->in, *chain->out, &chain->done), 0u);
  }
};

}  // namespace

TEST(a_callback_may_start_the_next_execution_however_full_the_queue_is) {
  constexpr int kChains = 4;  // as many as the queue takes: it is full all the time
  Client client(kChains);
  GraphOf graph(client.context, "g", kN);
  Memory in(client.context, kN);
  std::vector<Memory> outs;
  std::vector<std::unique_ptr<Chain>> chains;
  std::atomic<bool> stop{false};
  for (int i = 0; i < kChains; ++i) outs.emplace_back(client.context, kN);
  for (int i = 0; i < kChains; ++i) {
    chains.push_back(std::make_unique<Chain>());
    Chain& c = *chains.back();
    c.graph = &graph;
    c.in = &in;
    c.out = &outs[i];
    c.left = 500;
    c.done.param = &c;
    c.done.body = Chain::Next;
  }
  Memory rival(client.context, kN);
  std::thread caller([&] {  // waits for slots that the chains give up at their ends
    while (!stop) CHECK_EQ(graph.Async(in, rival, nullptr), 0u);
  });
  for (auto& c : chains) CHECK_EQ(graph.Async(in, *c->out, &c->done), 0u);
  for (auto& c : chains) c->end.Wait();
  stop = true;
  caller.join();
  client.FreeContext();
}

TEST(a_second_start_from_a_callback_needs_a_free_slot) {
  struct Try {
    GraphOf* graph;
    Memory *in, *out;
    Qnn_ErrorHandle_t codes[3];
  };
  for (uint32_t depth : {1u, 2u}) {
    Client client(depth);
    GraphOf graph(client.context, "g", kN);
    Memory in(client.context, kN), out(client.context, kN);
    Try t{&graph, &in, &out, {}};
    Done done;
    done.param = &t;
    done.body = [](Done* d) {
      Try* t = static_cast<Try*>(d->param);
      for (Qnn_ErrorHandle_t& code : t->codes) code = t->graph->Async(*t->in, *t->out, nullptr);
      CHECK(Has(Message(6025), "in flight"));
    };
    CHECK_EQ(graph.Async(in, out, &done), 0u);
    done.returned.Wait();
    CHECK_EQ(t.codes[0], 0u);
    CHECK_EQ(t.codes[1], depth == 1 ? 6025u : 0u);
    CHECK_EQ(t.codes[2], 6025u);
    client.FreeContext();
  }
}

TEST(a_callback_finds_everything_of_its_execution_free) {
  struct Mine {
    Client* client;
    GraphOf* graph;
    Memory *in, *out;
    Qnn_SignalHandle_t signal;
    Qnn_ProfileHandle_t profile;
  };
  Client client;
  GraphOf graph(client.context, "g", kN);
  Memory in(client.context, kN), out(client.context, kN);
  Mine mine{&client, &graph, &in, &out, MakeSignal(client.backend, QNN_SIGNAL_CONFIG_OPTION_ABORT),
            nullptr};
  REQUIRE(q.profileCreate(client.backend, QNN_PROFILE_LEVEL_BASIC, &mine.profile) == 0);
  Done done;
  done.param = &mine;
  done.body = [](Done* d) {
    Mine* m = static_cast<Mine*>(d->param);
    const QnnProfile_EventId_t* ids = nullptr;
    uint32_t count = 0;
    CHECK_EQ(q.profileGetEvents(m->profile, &ids, &count), 0u);
    CHECK(count >= 2);
    CHECK_EQ(q.profileFree(m->profile), 0u);
    CHECK_EQ(q.signalTrigger(m->signal), 9001u);
    CHECK_EQ(q.signalFree(m->signal), 0u);
    CHECK_EQ(q.memDeRegister(&m->in->handle, 1), 0u);
    m->in->handle = nullptr;
    // What would wait for this very thread is refused.
    CHECK_EQ(m->graph->Sync(*m->out, *m->out), 1005u);
    CHECK_EQ(q.contextFree(m->client->context, nullptr), 1005u);
  };
  CHECK_EQ(graph.Async(in, out, &done, mine.signal, mine.profile), 0u);
  done.returned.Wait();
  CHECK_EQ(done.code, 0u);
  CHECK_EQ(graph.Sync(out, out), 0u);
  client.FreeContext();
}

TEST(a_profile_in_flight_is_in_use_and_says_how_long_the_queue_took) {
  Client client;
  GraphOf graph(client.context, "g", kN);
  Memory in(client.context, kN), out(client.context, kN);
  Qnn_ProfileHandle_t profile = nullptr;
  REQUIRE(q.profileCreate(client.backend, QNN_PROFILE_LEVEL_BASIC, &profile) == 0);
  Done done, never;
  const QnnProfile_EventId_t* ids = nullptr;
  uint32_t count = 0;
  std::chrono::steady_clock::time_point released;
  {
    Hold hold(client, &graph);
    CHECK_EQ(graph.Async(in, out, &done, nullptr, profile), 0u);
    CHECK_EQ(graph.Async(in, out, &never, nullptr, profile), 6032u);
    CHECK_EQ(graph.Sync(in, out, nullptr, profile), 6032u);
    CHECK_EQ(q.profileGetEvents(profile, &ids, &count), 12001u);
    CHECK_EQ(q.profileFree(profile), 12001u);
    Pause();
    released = std::chrono::steady_clock::now();
  }
  done.returned.Wait();
  const std::chrono::duration<double, std::micro> rest =
      std::chrono::steady_clock::now() - released;
  CHECK_EQ(q.profileGetEvents(profile, &ids, &count), 0u);
  uint64_t waited = 0, executed = UINT64_MAX;
  for (uint32_t i = 0; i < count; ++i) {
    QnnProfile_EventData_t data;
    CHECK_EQ(q.profileGetEventData(ids[i], &data), 0u);
    if (data.type == QNN_PROFILE_EVENTTYPE_EXECUTE_QUEUE_WAIT) {
      waited = data.value;
      CHECK_EQ(data.unit, QNN_PROFILE_EVENTUNIT_MICROSEC);
    }
    if (data.type == QNN_PROFILE_EVENTTYPE_EXECUTE) executed = data.value;
  }
  CHECK(waited >= 30000);                                    // the pause
  CHECK(static_cast<double>(executed) <= rest.count() + 1);  // without the wait
  CHECK_EQ(q.profileFree(profile), 0u);
  client.FreeContext();
}

TEST(a_hundred_thousand_executions_from_eight_threads) {
  constexpr int kThreads = 8, kEach = 12500;
  Client client(10);
  GraphOf graph(client.context, "g", kN), other(client.context, "h", kN);
  std::atomic<int> wrong{0}, counted{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      constexpr int kSlots = 4;
      Memory in[kSlots], out[kSlots];
      std::vector<std::unique_ptr<Done>> done(kSlots);
      float expected[kSlots] = {};
      for (int s = 0; s < kSlots; ++s) {
        in[s] = Memory(client.context, kN);
        out[s] = Memory(client.context, kN);
      }
      const auto finish = [&](int s) {
        if (!done[s]) return;
        done[s]->returned.Wait();
        wrong += done[s]->code != 0 || out[s].data[0] != expected[s] ||
                 out[s].data[kN - 1] != expected[s];
        ++counted;
        done[s].reset();
      };
      for (int i = 0; i < kEach; ++i) {
        const int s = i % kSlots;
        finish(s);
        const float value = static_cast<float>(t * kEach + i);
        in[s].data[0] = in[s].data[kN - 1] = value;
        expected[s] = value + 1;
        GraphOf& g = (i ^ t) & 1 ? graph : other;
        if (i % 16 == 7) {
          wrong += g.Sync(in[s], out[s]) != 0 || out[s].data[0] != expected[s];
          ++counted;
        } else {
          done[s] = std::make_unique<Done>();
          wrong += g.Async(in[s], out[s], done[s].get()) != 0;
        }
      }
      for (int s = 0; s < kSlots; ++s) finish(s);
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK_EQ(wrong.load(), 0);
  CHECK_EQ(counted.load(), kThreads * kEach);
  Qnnrt_GraphStats_t a, b;
  CHECK_EQ(qnnrt_graph_stats(graph.handle, &a), 0u);
  CHECK_EQ(qnnrt_graph_stats(other.handle, &b), 0u);
  CHECK_EQ(a.executes + b.executes, uint64_t{kThreads} * kEach);
  client.FreeContext();
}

#if !defined(UNDER_THREAD_SANITIZER)
TEST(a_forked_child_is_refused_and_can_free_what_it_inherited) {
  Client client;
  GraphOf graph(client.context, "g", kN);
  Memory in(client.context, kN), out(client.context, kN);
  Done queued;
  {
    Hold hold(client, &graph);
    CHECK_EQ(graph.Async(in, out, &queued), 0u);
    pid_t pid = fork();
    if (pid == 0) {
      alarm(300);
      bool ok = graph.Async(in, out, nullptr) == 1005 && Has(Message(1005), "forked") &&
                graph.Sync(in, out) == 1005 && q.contextFree(client.context, nullptr) == 0;
      // A context of its own works.
      Qnn_ContextHandle_t context = nullptr;
      ok = ok && q.contextCreate(client.backend, nullptr, nullptr, &context) == 0;
      if (ok) {
        GraphOf own(context, "own", kN);
        Memory a(context, kN), b(context, kN);
        Done done;
        ok = own.Async(a, b, &done) == 0;
        done.returned.Wait();
        ok = ok && done.code == 0 && b.data[0] == 1.0f && q.contextFree(context, nullptr) == 0;
        a.handle = b.handle = nullptr;
      }
      _exit(ok && check::failures == 0 ? 0 : 1);
    }
    int status = 0;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
  }
  queued.returned.Wait();
  CHECK_EQ(queued.code, 0u);
  CHECK_EQ(out.data[0], 1.0f);
  client.FreeContext();
}
#endif

CHECK_MAIN("async_callbacks_test")
