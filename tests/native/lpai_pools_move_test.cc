// Scratch and persistent memory that comes, moves and goes: state that survives it, buffers of this
// runtime, forked children, and binaries of such graphs.
#include "lpai_pools.h"

using namespace lpai_pools;

namespace {

TEST(StateSurvivesOtherScratchMemoryAndIsEachGraphsOwn) {
  Frames one("one"), two("two"), first("first", {}), second("second", {});
  CHECK_OK(first.graph().Finalize(nullptr));
  CHECK_OK(second.graph().Finalize(nullptr));
  Result<PoolSizes> sizes = one.graph().Prepare();
  REQUIRE(CHECK_OK(sizes.status()));
  CHECK(sizes->persistent >= 3 * Frames::kWidth * sizeof(float));
  CHECK_EQ(two.graph().Prepare()->persistent, sizes->persistent);
  // Persistent memory of exactly the answered size, at the end of a page and at its begin.
  REQUIRE(sizes->persistent % 64 == 0);
  Guarded state_one(sizes->persistent), state_two(sizes->persistent, true);
  Guarded shared(Whole(sizes->scratch));
  CHECK_OK(one.graph().SetPersistent(state_one.data(), sizes->persistent));
  CHECK_OK(two.graph().SetPersistent(state_two.data(), sizes->persistent));
  CHECK_OK(one.graph().SetScratch(shared.data(), sizes->scratch));
  CHECK_OK(two.graph().SetScratch(shared.data(), sizes->scratch));  // not at the same time
  CHECK_OK(one.graph().Finalize(nullptr));
  CHECK_OK(two.graph().Finalize(nullptr));
  for (int step = 0; step < 12; ++step) {
    Guarded scratch(Whole(sizes->scratch), step % 2 == 0);
    CHECK_OK(one.graph().SetScratch(scratch.data(), sizes->scratch));
    if (step == 7) {
      CHECK_OK(one.graph().ResetState());
      CHECK_OK(first.graph().ResetState());
    }
    const float x = static_cast<float>(step);
    CHECK(one.Step(x) == first.Step(x));
    CHECK(two.Step(-x) == second.Step(-x));
    CHECK_OK(one.graph().SetScratch(nullptr, 0));
  }
}

TEST(PersistentMemoryIsOneGraphsAloneAndStays) {
  Frames one("one"), two("two");
  Graph& graph = one.graph();
  const PoolSizes sizes = SizesOf(&graph);
  Guarded memory(2 * sizes.persistent + 2 * Whole(sizes.scratch), true);
  uint8_t* state = memory.data();
  uint8_t* scratch = state + 2 * sizes.persistent;
  CHECK(Says(graph.Finalize(nullptr), "has no scratch memory"));
  CHECK_OK(graph.SetScratch(scratch, sizes.scratch));
  CHECK(Says(graph.Finalize(nullptr),
             "has no persistent memory: needed are " + std::to_string(sizes.persistent)));
  const auto refused = [](const Status& status, const std::string& part) {
    CHECK_EQ(status.code(), QNN_GRAPH_ERROR_INVALID_ARGUMENT);
    CHECK(Says(status, part));
  };
  refused(graph.SetPersistent(state, sizes.persistent - 1), "needed are");
  refused(graph.SetPersistent(state + 8, sizes.persistent), "multiple of 64");
  refused(graph.SetPersistent(scratch, sizes.persistent),
          "overlaps the scratch memory of the same");
  CHECK_OK(graph.SetPersistent(state, sizes.persistent));
  refused(graph.SetScratch(state, 2 * sizes.persistent + Whole(sizes.scratch)),
          "overlaps the persistent memory of the same graph");
  refused(two.graph().SetPersistent(state, sizes.persistent),
          "overlaps the persistent memory of graph 'one'");
  refused(two.graph().SetPersistent(scratch, sizes.persistent),
          "overlaps the scratch memory of graph 'one'");
  refused(two.graph().SetScratch(state, 2 * sizes.persistent), "persistent memory of graph 'one'");
  CHECK_OK(graph.SetPersistent(state + sizes.persistent, sizes.persistent));  // in its place
  CHECK_OK(two.graph().SetPersistent(state, sizes.persistent));
  CHECK_OK(graph.Finalize(nullptr));
  CHECK_EQ(graph.SetPersistent(state, sizes.persistent).code(), QNN_GRAPH_ERROR_GRAPH_FINALIZED);
  CHECK_EQ(graph.SetPersistent(nullptr, 0).code(), QNN_GRAPH_ERROR_GRAPH_FINALIZED);
  CHECK_EQ(graph.Finalize(nullptr).code(), QNN_GRAPH_ERROR_GRAPH_FINALIZED);
  (void)one.Step(1);
  CHECK_OK(graph.SetScratch(nullptr, 0));
  refused(graph.Execute(nullptr, 0, nullptr, 0, {}), "no scratch memory");
  refused(graph.IoAddress(one.in->id).status(), "no scratch memory");
  CHECK_OK(graph.SetScratch(scratch, sizes.scratch));
  (void)one.Step(2);
}

TEST(ABufferOfThisRuntimeStaysOpenAsLongAsAPoolLiesInIt) {
  Memory& memory = Memory::Get();
  const auto allocate = [&](SlotHandle* handle) {
    Result<SlotHandle> made = memory.Allocate(nullptr, 8192, 0);
    CHECK_OK(made.status());
    *handle = *made;
    Buffer* pinned = memory.buffers().Pin(*handle);
    uint8_t* address = pinned->address;
    memory.buffers().Unpin(pinned);
    return address;
  };
  SlotHandle first, second, third;
  uint8_t *a = allocate(&first), *b = allocate(&second), *c = allocate(&third);
  {
    Frames frames;
    Graph& graph = frames.graph();
    const PoolSizes sizes = SizesOf(&graph);
    const Status beyond = graph.SetScratch(a + 8192 - 64, Whole(sizes.scratch));
    CHECK_EQ(beyond.code(), QNN_GRAPH_ERROR_INVALID_ARGUMENT);
    CHECK(Says(beyond, "reaches beyond its buffer, which has 64 bytes"));
    CHECK_OK(graph.SetScratch(a, 4096));
    CHECK_OK(graph.SetPersistent(b, 4096));
    CHECK_OK(graph.Finalize(nullptr));
    (void)frames.Step(1);
    const Status held = memory.Close(first);
    CHECK_EQ(held.code(), QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED);
    CHECK(Says(held, "the scratch memory of graph 'frames'"));
    CHECK(Says(memory.Close(second), "the persistent memory of graph 'frames'"));
    CHECK_OK(graph.SetScratch(c, 4096));  // the first one is free from here on
    CHECK_OK(memory.Close(first));
    (void)frames.Step(2);
    CHECK_EQ(memory.Close(second).code(), QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED);
    CHECK_EQ(memory.Close(third).code(), QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED);
  }
  CHECK_OK(memory.Close(second));
  CHECK_OK(memory.Close(third));
}

// Memory that a child shares with its parent is the parent's to work in; what it has of its own is
// its own.
TEST(AForkedChildDoesNotWorkInBuffersOfItsParent) {
#ifdef __SANITIZE_THREAD__
  return check::Skip("fork", "thread sanitizer");
#endif
  Memory& memory = Memory::Get();
  Chain shared, own;
  const uint64_t needed = shared.graph().Prepare()->scratch;
  Result<SlotHandle> buffer = memory.Allocate(nullptr, needed, 0);
  REQUIRE(buffer.ok());
  Buffer* pinned = memory.buffers().Pin(*buffer);
  CHECK_OK(shared.graph().SetScratch(pinned->address, needed));
  memory.buffers().Unpin(pinned);
  Guarded scratch(Whole(needed), true);
  CHECK_OK(own.graph().Prepare().status());
  CHECK_OK(own.graph().SetScratch(scratch.data(), needed));
  CHECK_OK(shared.graph().Finalize(nullptr));
  CHECK_OK(own.graph().Finalize(nullptr));
  CHECK_OK(shared.graph().Execute(nullptr, 0, nullptr, 0, {}));
  const pid_t child = fork();
  if (child == 0) {
    Graph& graph = shared.graph();
    bool good = graph.Execute(nullptr, 0, nullptr, 0, {}).code() ==
                QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
    good = good && own.graph().Execute(nullptr, 0, nullptr, 0, {}).ok();
    good = good && graph.SetScratch(scratch.data(), needed).ok() &&
           graph.Execute(nullptr, 0, nullptr, 0, {}).ok();
    _exit(good ? 0 : 1);
  }
  int status = -1;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK_EQ(status, 0);
  CHECK_OK(shared.graph().Execute(nullptr, 0, nullptr, 0, {}));
  CHECK_OK(shared.graph().SetScratch(nullptr, 0));
  CHECK_OK(memory.Close(*buffer));
}

TEST(WithoutMemoryAGraphIsAsItWas) {
  // Whatever allocation fails, the same call works when it is made again.
  const auto until_done = [](auto call) {
    for (int64_t n = 1;; ++n) {
      bool failed = false;
      FailAllocation(n);
      try {
        const Status status = call();
        failed = !status.ok();
        FailAllocation(0);
        if (failed && status.code() != QNN_COMMON_ERROR_MEM_ALLOC) {
          CHECK_OK(status);
          return n;
        }
      } catch (const std::bad_alloc&) {
        FailAllocation(0);
        failed = true;
      }
      if (!failed) return n;
    }
  };
  Frames frames;
  Graph& graph = frames.graph();
  CHECK(until_done([&] { return graph.Prepare().status(); }) > 10);
  const PoolSizes sizes = SizesOf(&graph);
  Guarded scratch(Whole(sizes.scratch)), state(sizes.persistent);
  (void)until_done([&] { return graph.SetScratch(scratch.data(), sizes.scratch); });
  (void)until_done([&] { return graph.SetPersistent(state.data(), sizes.persistent); });
  (void)until_done([&] { return graph.SetScratch(scratch.data(), sizes.scratch); });
  CHECK(until_done([&] { return graph.Finalize(nullptr); }) > 1);
  Frames reference("reference", {});
  CHECK_OK(reference.graph().Finalize(nullptr));
  CHECK(frames.Step(3) == reference.Step(3));
  // And in one go.
  Frames whole;
  Guarded other(sizes.persistent);
  CHECK_OK(whole.graph().SetScratch(scratch.data(), sizes.scratch));
  CHECK_OK(whole.graph().SetPersistent(other.data(), sizes.persistent));
  CHECK(until_done([&] { return whole.graph().Finalize(nullptr); }) > 10);
  CHECK_OK(reference.graph().ResetState());
  CHECK(whole.Step(3) == reference.Step(3));
}

TEST(ScratchMemoryIsReplacedBetweenExecutions) {
  Frames frames, reference("reference", {});
  CHECK_OK(reference.graph().Finalize(nullptr));
  Graph& graph = frames.graph();
  const PoolSizes sizes = SizesOf(&graph);
  Guarded one(Whole(sizes.scratch)), two(Whole(sizes.scratch), true), state(sizes.persistent);
  Guarded x(256, true), y(512, true);
  CHECK_OK(graph.SetScratch(one.data(), sizes.scratch));
  CHECK_OK(graph.SetPersistent(state.data(), sizes.persistent));
  CHECK_OK(graph.Finalize(nullptr));
  std::atomic<bool> done{false};
  std::thread mover([&] {
    for (int i = 0; i < 500 || !done.load(); ++i) {
      const Guarded& scratch = i % 2 == 0 ? two : one;
      CHECK_OK(graph.SetScratch(scratch.data(), sizes.scratch));
      if (i % 16 == 0) CHECK_OK(graph.IoAddress(frames.in->id).status());
    }
  });
  Qnn_Tensor_t in = RawOf(*frames.in), out = RawOf(*frames.out);
  in.v1.clientBuf = {x.data(), Frames::kWidth * 4};
  out.v1.clientBuf = {y.data(), 3 * Frames::kWidth * 4};
  bool same = true;
  for (int step = 0; step < 300; ++step) {
    for (uint32_t i = 0; i < Frames::kWidth; ++i)
      reinterpret_cast<float*>(x.data())[i] = static_cast<float>(step) + static_cast<float>(i);
    CHECK_OK(graph.Execute(&in, 1, &out, 1, {}));
    const Floats expected = reference.Step(static_cast<float>(step));
    same = same && std::memcmp(y.data(), expected.data(), expected.size() * 4) == 0;
  }
  CHECK(same);
  done = true;
  mover.join();
}

TEST(ABinaryIsTheSameFromEitherKindOfMemory) {
  Frames own("net", GraphHost{});
  CHECK_OK(own.graph().Finalize(nullptr));
  const std::vector<uint8_t> bytes = Written(&own.graph());
  auto memory = AlignedBytes::Copy(bytes.data(), bytes.size());
  auto source = std::make_shared<LoadSource>();
  source->view = BinaryView::Open(memory->data(), bytes.size()).value();
  source->owner = memory;
  for (bool exclude_io : {false, true}) {
    Graph graph("net", 1, GraphOptions(), ClientHost());
    CHECK_OK(graph.Declare(source->view.graphs()[0]));
    CHECK_EQ(graph.Prepare().status().code(), QNN_GRAPH_ERROR_GRAPH_NOT_FINALIZED);
    CHECK_OK(graph.Defer(source));
    CHECK_EQ(graph.Execute(nullptr, 0, nullptr, 0, {}).code(), QNN_GRAPH_ERROR_GRAPH_NOT_FINALIZED);
    {
      auto lock = graph.Lock();
      GraphOptions options = graph.options();
      options.exclude_io = exclude_io;
      graph.set_options(options);
    }
    const PoolSizes sizes = SizesOf(&graph);
    Guarded scratch(Whole(sizes.scratch)), state(sizes.persistent);
    CHECK_OK(graph.SetScratch(scratch.data(), sizes.scratch));
    CHECK_OK(graph.SetPersistent(state.data(), sizes.persistent));
    CHECK_OK(graph.Finalize(nullptr));
    CHECK(Written(&graph) == bytes);
    if (exclude_io) {
      CHECK_EQ(graph.plan()->arena().peak, own.graph().plan()->arena().peak);
      continue;
    }
    const uint32_t id = graph.inputs()[0]->id;
    std::fill_n(static_cast<float*>(PlaceOf(&graph, id)), Frames::kWidth, 5.0f);
    CHECK_OK(graph.Execute(nullptr, 0, nullptr, 0, {}));
    const float* y = static_cast<float*>(PlaceOf(&graph, graph.outputs()[0]->id));
    CHECK_EQ(std::count(y, y + 3 * Frames::kWidth, -5.0f), Frames::kWidth);
  }
}

// A peak that no plan has, which rounded up to the alignment would be no bytes at all.
TEST(AForgedPeakIsNotBelieved) {
  Frames own("net", GraphHost{});
  CHECK_OK(own.graph().Finalize(nullptr));
  std::vector<uint8_t> bytes = Written(&own.graph());
  const ArenaPlan& arena = own.graph().plan()->arena();
  const uint64_t honest[] = {arena.peak, arena.lower_bound, arena.sum}, forged = UINT64_MAX;
  const auto* first = reinterpret_cast<const uint8_t*>(honest);
  const auto at = std::search(bytes.begin(), bytes.end(), first, first + sizeof honest);
  REQUIRE(at != bytes.end());
  std::memcpy(&*at, &forged, sizeof forged);
  binary_harness::Repair(&bytes);
  auto memory = AlignedBytes::Copy(bytes.data(), bytes.size());
  auto source = std::make_shared<LoadSource>();
  source->view = BinaryView::Open(memory->data(), bytes.size()).value();
  GraphOptions options;
  options.exclude_io = true;
  Graph graph("net", 1, options, ClientHost());
  CHECK_OK(graph.Declare(source->view.graphs()[0]));
  CHECK_OK(graph.Defer(source));
  const PoolSizes sizes = SizesOf(&graph);
  CHECK(sizes.scratch >= arena.peak && sizes.scratch < arena.peak + 64);
}

TEST(ABinaryWithNodesThatTheBackendDoesNotTakeIsRefused) {
  Frames own("net", GraphHost{});
  CHECK_OK(own.graph().Finalize(nullptr));
  const std::vector<uint8_t> bytes = Written(&own.graph());
  auto memory = AlignedBytes::Copy(bytes.data(), bytes.size());
  auto source = std::make_shared<LoadSource>();
  source->view = BinaryView::Open(memory->data(), bytes.size()).value();
  GraphHost host = ClientHost();
  host.admit = [](const Node& node) {
    if (node.type != "Buffer") return Status::Ok();
    return Error(QNN_GRAPH_ERROR_INVALID_OP_CONFIG, "node '%s': no buffers", node.name.c_str());
  };
  Graph graph("net", 1, GraphOptions(), host);
  CHECK_OK(graph.Declare(source->view.graphs()[0]));
  const Status status = graph.Defer(source);
  CHECK_EQ(status.code(), QNN_CONTEXT_ERROR_BINARY_CONFIGURATION);
  CHECK(Says(status, "node 'Buffer0': no buffers"));
}

TEST(OtherBackendsHaveMemoryOfTheirOwn) {
  Chain chain(250, {});
  Graph& graph = chain.graph();
  CHECK_EQ(graph.Prepare().status().code(), QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE);
  CHECK_EQ(graph.SetScratch(&graph, 64).code(), QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE);
  CHECK_EQ(graph.SetPersistent(&graph, 64).code(), QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE);
  CHECK_EQ(graph.IoAddress(1).status().code(), QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE);
  CHECK_EQ(graph.ResetState().code(), QNN_GRAPH_ERROR_GRAPH_NOT_FINALIZED);
  CHECK_OK(graph.Finalize(nullptr));
  CHECK_OK(graph.ResetState());
  CHECK(!graph.pool_sizes());
}

}  // namespace

CHECK_MAIN("lpai_pools_move_test")
