// Graphs whose scratch and persistent memory are the client's: between guard pages, of exactly the
// size that was answered, too small.
#include "lpai_pools.h"

using namespace lpai_pools;

namespace {

TEST(IoLiesInScratchMemoryOfExactlyTheSizeAnswered) {
  Chain chain;
  Graph& graph = chain.graph();
  Result<PoolSizes> sizes = graph.Prepare();
  REQUIRE(CHECK_OK(sizes.status()));
  CHECK_EQ(sizes->scratch % 16, 0u);
  CHECK(sizes->scratch >= 2 * 250 * sizeof(float));
  CHECK_EQ(sizes->persistent, 0u);
  for (bool low : {false, true}) {
    // The answered size, rounded so that the start is on its boundary as well.
    Guarded scratch((sizes->scratch + 63) / 64 * 64, low);
    CHECK_OK(graph.SetScratch(scratch.data(), sizes->scratch));
    if (!graph.finalized()) CHECK_OK(graph.Finalize(nullptr));
    Result<void*> in = graph.IoAddress(chain.in->id), out = graph.IoAddress(chain.out->id);
    REQUIRE(in.ok() && out.ok());
    chain.Fill(*in, 0.5f);
    CHECK_OK(graph.Execute(nullptr, 0, nullptr, 0, {}));
    CHECK(chain.Right(*out, 0.5f));
  }
}

TEST(OutputsAreToldWhereTheyLieAlsoAfterTheScratchMoved) {
  Chain chain;
  Graph& graph = chain.graph();
  Result<PoolSizes> sizes = graph.Prepare();
  REQUIRE(CHECK_OK(sizes.status()));
  Guarded first(sizes->scratch / 64 * 64 + 64), second(first.size(), true);
  CHECK_OK(graph.SetScratch(first.data(), first.size()));
  CHECK_OK(graph.Finalize(nullptr));
  Qnn_Tensor_t in = RawOf(*chain.in), out = RawOf(*chain.out);
  const Guarded* last = nullptr;
  for (const Guarded* scratch : {&first, &second, &first, &first}) {
    if (scratch != last) CHECK_OK(graph.SetScratch(scratch->data(), scratch->size()));
    last = scratch;
    Result<void*> place = graph.IoAddress(chain.in->id), result = graph.IoAddress(chain.out->id);
    REQUIRE(place.ok() && result.ok());
    chain.Fill(*place, 0.25f);
    CHECK_OK(graph.Execute(&in, 1, &out, 1, {}));
    CHECK_EQ(out.v1.clientBuf.data, *result);
    CHECK_EQ(out.v1.clientBuf.dataSize, 250 * sizeof(float));
    CHECK(static_cast<uint8_t*>(*result) >= scratch->data() &&
          static_cast<uint8_t*>(*result) < scratch->data() + sizes->scratch);
    CHECK(chain.Right(*result, 0.25f));
    CHECK(in.v1.clientBuf.data == nullptr);
  }
}

// Asynchronous executions may not write into tensors, but get them with what others wrote.
TEST(AnAddressThatWasToldIsKnownWhereNothingIsTold) {
  Chain chain;
  Graph& graph = chain.graph();
  const uint64_t needed = SizesOf(&graph).scratch;
  Guarded first((needed + 63) / 64 * 64), second(first.size());
  CHECK_OK(graph.SetScratch(first.data(), needed));
  CHECK_OK(graph.Finalize(nullptr));
  Qnn_Tensor_t in = RawOf(*chain.in), out = RawOf(*chain.out);
  CHECK_OK(graph.Execute(&in, 1, &out, 1, {}));
  void* const told = out.v1.clientBuf.data;
  CHECK_OK(graph.SetScratch(second.data(), needed));
  std::fill(first.data(), first.data() + first.size(), uint8_t{0});
  chain.Fill(PlaceOf(&graph, chain.in->id), 0.5f);
  Binding binding;
  CHECK_OK(graph.Bind(&in, 1, &out, 1, &binding));
  binding.report_outputs = false;
  CHECK_OK(graph.Run(binding, {}));
  Graph::Release(&binding);
  CHECK_EQ(out.v1.clientBuf.data, told);
  CHECK(chain.Right(PlaceOf(&graph, chain.out->id), 0.5f));
  CHECK(std::all_of(first.data(), first.data() + first.size(), [](uint8_t b) { return b == 0; }));
}

TEST(PoolsThatAreTooSmallOrOnNoBoundaryAreRefused) {
  Chain chain;
  Graph& graph = chain.graph();
  CHECK_EQ(graph.Finalize(nullptr).code(), QNN_GRAPH_ERROR_INVALID_ARGUMENT);
  Result<PoolSizes> sizes = graph.Prepare();
  REQUIRE(CHECK_OK(sizes.status()));
  const uint64_t needed = sizes->scratch;
  Guarded scratch(needed + 128, true);
  const auto refused = [&](uint8_t* address, uint64_t size, const std::string& part) {
    const Status status = graph.SetScratch(address, size);
    CHECK_EQ(status.code(), QNN_GRAPH_ERROR_INVALID_ARGUMENT);
    CHECK(Says(status, part));
  };
  refused(scratch.data(), needed - 1, std::to_string(needed - 1) + " bytes, needed are");
  refused(scratch.data() + 16, needed, "multiple of 64");
  refused(scratch.data(), needed + 1, "multiple of 16");
  refused(scratch.data(), 0, "0 bytes");
  CHECK(Says(graph.Finalize(nullptr), "no scratch memory: needed are " + std::to_string(needed)));
  CHECK(!graph.finalized());
  CHECK_OK(graph.SetScratch(scratch.data(), needed));
  CHECK_OK(graph.Finalize(nullptr));
}

TEST(ExcludedInputsAndOutputsHaveNoPlaces) {
  Chain with, without;
  const uint64_t all = with.graph().Prepare()->scratch;
  Graph& graph = without.graph();
  {
    auto lock = graph.Lock();
    GraphOptions options = graph.options();
    options.exclude_io = true;
    CHECK_OK(graph.CheckOptions(options));
    graph.set_options(options);
  }
  const uint64_t few = graph.Prepare()->scratch;
  CHECK(few < all);
  {
    auto lock = graph.Lock();
    GraphOptions options = graph.options();
    options.exclude_io = false;
    CHECK_EQ(graph.CheckOptions(options).code(), QNN_GRAPH_ERROR_INVALID_ARGUMENT);
  }
  Guarded scratch((few + 63) / 64 * 64), io(2048, true);
  CHECK_OK(graph.SetScratch(scratch.data(), few));
  CHECK_OK(graph.Finalize(nullptr));
  Qnn_Tensor_t in = RawOf(*without.in), out = RawOf(*without.out);
  CHECK_EQ(graph.Execute(&in, 1, &out, 1, {}).code(), QNN_GRAPH_ERROR_INVALID_TENSOR);
  CHECK_EQ(graph.Execute(nullptr, 0, nullptr, 0, {}).code(), QNN_GRAPH_ERROR_INVALID_ARGUMENT);
  CHECK_EQ(graph.IoAddress(without.in->id).status().code(), QNN_GRAPH_ERROR_INVALID_TENSOR);
  in.v1.clientBuf = {io.data(), 1000};
  out.v1.clientBuf = {io.data() + 1024, 1000};
  without.Fill(io.data(), 1);
  CHECK_OK(graph.Execute(&in, 1, &out, 1, {}));
  CHECK(without.Right(io.data() + 1024, 1));
}

// The spill room beyond what is needed stays as it was; so does everything when nothing runs.
TEST(NothingIsWrittenBeyondTheAnsweredSize) {
  Frames frames;
  Graph& graph = frames.graph();
  const PoolSizes sizes = SizesOf(&graph);
  Guarded scratch(Whole(sizes.scratch) + 256), state(sizes.persistent + 256);
  CHECK_OK(graph.SetScratch(scratch.data(), scratch.size()));
  CHECK_OK(graph.SetPersistent(state.data(), state.size()));
  CHECK_OK(graph.Finalize(nullptr));
  for (int step = 0; step < 5; ++step) (void)frames.Step(1);
  const auto junk = [](uint8_t byte) { return byte == 0xA5; };
  CHECK(std::all_of(scratch.data() + sizes.scratch, scratch.data() + scratch.size(), junk));
  CHECK(std::all_of(state.data() + sizes.persistent, state.data() + state.size(), junk));
}

TEST(FinerAndCoarserAlignmentsHold) {
  for (uint32_t start : {1u, 4u, 32u, 64u, 256u, 4096u}) {
    for (uint32_t size : {1u, 16u, 64u, 512u}) {
      Frames frames("frames", ClientHost(start, size));
      Graph& graph = frames.graph();
      const PoolSizes sizes = SizesOf(&graph);
      CHECK_EQ(sizes.scratch % size, 0u);
      CHECK_EQ(sizes.persistent % size, 0u);
      const auto room = [&](uint64_t bytes) { return (bytes + start - 1) / start * start; };
      Guarded scratch(room(sizes.scratch)), state(room(sizes.persistent));
      CHECK_OK(graph.SetScratch(scratch.data(), sizes.scratch));
      CHECK_OK(graph.SetPersistent(state.data(), sizes.persistent));
      CHECK_OK(graph.Finalize(nullptr));
      CHECK_EQ(reinterpret_cast<uintptr_t>(PlaceOf(&graph, frames.out->id)) % start, 0u);
      Frames reference("reference", {});
      CHECK_OK(reference.graph().Finalize(nullptr));
      for (float x : {1.0f, 2.0f}) CHECK(frames.Step(x) == reference.Step(x));
    }
  }
}

TEST(GivenInputsAndOutputsAreUsedWhereTheyAre) {
  Chain chain;
  Graph& graph = chain.graph();
  const uint64_t needed = graph.Prepare()->scratch;
  Guarded scratch(Whole(needed)), x(1024), y(1024, true);
  CHECK_OK(graph.SetScratch(scratch.data(), needed));
  CHECK_OK(graph.Finalize(nullptr));
  Qnn_Tensor_t in = RawOf(*chain.in), out = RawOf(*chain.out);
  const auto refused = [&](Qnn_Tensor_t* tensor, void* data, uint32_t size, const char* part) {
    const Qnn_Tensor_t before = *tensor;
    tensor->v1.clientBuf = {data, size};
    const Status status = graph.Execute(&in, 1, &out, 1, {});
    CHECK_EQ(status.code(), QNN_GRAPH_ERROR_INVALID_TENSOR);
    CHECK(Says(status, part));
    *tensor = before;
  };
  refused(&in, x.data() + 4, 1000, "multiple of 64");
  refused(&in, x.data(), 999, "has 999 bytes");
  refused(&in, x.data(), 1009, "exactly 1000, or more by a multiple of 16");
  refused(&in, scratch.data() + 64, 1000, "overlaps the scratch memory");
  refused(&out, y.data() + 1, 1000, "multiple of 64");
  for (uint32_t size : {1000u, 1008u, 1024u}) {
    in.v1.clientBuf = {x.data(), size};
    out.v1.clientBuf = {y.data(), size};
    chain.Fill(x.data(), 2);
    std::fill(y.data(), y.data() + 1000, uint8_t{0});
    CHECK_OK(graph.Execute(&in, 1, &out, 1, {}));
    CHECK(chain.Right(y.data(), 2));
    CHECK_EQ(out.v1.clientBuf.data, static_cast<void*>(y.data()));
  }
  // One of them in place, the other in the scratch memory.
  out.v1.clientBuf = {};
  chain.Fill(x.data(), 3);
  CHECK_OK(graph.Execute(&in, 1, &out, 1, {}));
  CHECK(chain.Right(out.v1.clientBuf.data, 3));
  // Where a tensor lies in the scratch memory is one place of many.
  in.v1.clientBuf = {PlaceOf(&graph, chain.in->id), 1000};
  chain.Fill(in.v1.clientBuf.data, 4);
  CHECK_OK(graph.Execute(&in, 1, &out, 1, {}));
  CHECK(chain.Right(out.v1.clientBuf.data, 4));
  CHECK_EQ(graph.Execute(&in, 1, nullptr, 1, {}).code(), QNN_GRAPH_ERROR_INVALID_ARGUMENT);
}

TEST(AnExecutionAllocatesNothingAndCopiesNothing) {
  Frames frames;
  Graph& graph = frames.graph();
  const PoolSizes sizes = SizesOf(&graph);
  Guarded scratch(Whole(sizes.scratch)), other(Whole(sizes.scratch)), state(sizes.persistent);
  CHECK_OK(graph.SetScratch(scratch.data(), sizes.scratch));
  CHECK_OK(graph.SetPersistent(state.data(), sizes.persistent));
  CHECK_OK(graph.Finalize(nullptr));
  Qnn_Tensor_t in = RawOf(*frames.in), out = RawOf(*frames.out);
  CHECK_OK(graph.Execute(&in, 1, &out, 1, {}));
  const uint64_t before = AllocationCount();
  for (int i = 0; i < 10; ++i) CHECK_OK(graph.Execute(&in, 1, &out, 1, {}));
  CHECK_OK(graph.Execute(nullptr, 0, nullptr, 0, {}));
  CHECK_EQ(AllocationCount(), before);
  CHECK_EQ(graph.stats().staging.copied_in + graph.stats().staging.copied_out, 0u);
}

TEST(ANodeThatIsAddedUndoesThePreparation) {
  Chain chain;
  Graph& graph = chain.graph();
  const uint64_t before = graph.Prepare()->scratch;
  Guarded scratch(8192);
  CHECK_OK(graph.SetScratch(scratch.data(), before));
  const Tensor* more = chain.Add(Described(QNN_TENSOR_TYPE_APP_READ, {250}));
  CHECK_OK(chain.Op("ElementWiseNeg", {chain.in}, {more}));
  const Status small = graph.Finalize(nullptr);
  CHECK_EQ(small.code(), QNN_GRAPH_ERROR_INVALID_ARGUMENT);
  CHECK(Says(small, std::to_string(before) + " bytes, needed are"));
  CHECK(graph.Prepare()->scratch > before);
  CHECK_OK(graph.SetScratch(scratch.data(), 8192));
  CHECK_OK(graph.Finalize(nullptr));
  CHECK_OK(graph.Execute(nullptr, 0, nullptr, 0, {}));
}

}  // namespace

CHECK_MAIN("lpai_pools_test")
