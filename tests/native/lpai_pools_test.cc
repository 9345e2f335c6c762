// Graphs whose scratch and persistent memory are the client's: between guard pages, of exactly the
// size that was answered, moved, taken away, too small.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>

#include "../fuzz/binary_harness.h"
#include "abi/qnn_errors.h"
#include "abi/qnn_op_values.h"
#include "graph/graph.h"
#include "memory/memory.h"
#include "support/allocations.h"
#include "test_graph.h"

using namespace qnnrt;

namespace {

using Floats = std::vector<float>;

GraphHost ClientHost(uint32_t start = 64, uint32_t size = 16) {
  GraphHost host;
  host.client_memory = true;
  host.start_alignment = start;
  host.size_alignment = size;
  return host;
}

// So many bytes that end where no memory is (or begin there: `low`), filled with junk.
class Guarded {
 public:
  explicit Guarded(uint64_t size, bool low = false) : size_(size) {
    room_ = (size + kPage - 1) / kPage * kPage;
    map_ = static_cast<uint8_t*>(
        mmap(nullptr, room_ + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (room_ != 0) mprotect(map_ + kPage, room_, PROT_READ | PROT_WRITE);
    data_ = map_ + kPage + (low ? 0 : room_ - size);
    std::fill(map_ + kPage, map_ + kPage + room_, uint8_t{0xA5});
  }
  ~Guarded() { munmap(map_, room_ + 2 * kPage); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  uint8_t* data() const { return data_; }
  uint64_t size() const { return size_; }

 private:
  static constexpr uint64_t kPage = 4096;
  uint64_t size_, room_;
  uint8_t *map_, *data_;
};

Tensor Described(Qnn_TensorType_t type, const Shape& shape) {
  Tensor t;
  t.type = type;
  t.shape = shape;
  return t;
}

Qnn_Tensor_t Null(const Tensor& t) {
  Qnn_Tensor_t raw;
  std::memset(&raw, 0, sizeof(raw));
  raw.version = QNN_TENSOR_VERSION_1;
  raw.v1.id = t.id;
  raw.v1.dataType = t.dtype;
  raw.v1.rank = static_cast<uint32_t>(t.shape.size());
  raw.v1.dimensions = const_cast<uint32_t*>(t.shape.data());
  raw.v1.memType = QNN_TENSORMEMTYPE_RAW;
  return raw;
}

// out = tanh(exp(-in)) over `width` numbers: two tensors between.
class Chain : public TestGraph {
 public:
  explicit Chain(uint32_t width = 250, GraphHost host = ClientHost())
      : TestGraph("chain", true, 1, std::move(host)), width_(width) {
    in = Add(Described(QNN_TENSOR_TYPE_APP_WRITE, {width}));
    out = Add(Described(QNN_TENSOR_TYPE_APP_READ, {width}));
    const Tensor* a = Add(Described(QNN_TENSOR_TYPE_NATIVE, {width}));
    const Tensor* b = Add(Described(QNN_TENSOR_TYPE_NATIVE, {width}));
    CHECK_OK(Op("ElementWiseNeg", {in}, {a}));
    CHECK_OK(Op("ElementWiseExp", {a}, {b}));
    CHECK_OK(Op("Tanh", {b}, {out}));
  }
  void Fill(void* to, float from) const {
    for (uint32_t i = 0; i < width_; ++i)
      static_cast<float*>(to)[i] = from + static_cast<float>(i) / 100;
  }
  bool Right(const void* result, float from) const {
    for (uint32_t i = 0; i < width_; ++i) {
      const float expected = std::tanh(std::exp(-(from + static_cast<float>(i) / 100)));
      if (std::fabs(static_cast<const float*>(result)[i] - expected) > 1e-5f) return false;
    }
    return true;
  }

  const Tensor *in, *out;
  const uint32_t width_;
};

PoolSizes SizesOf(Graph* graph) {
  Result<PoolSizes> sizes = graph->Prepare();
  CHECK_OK(sizes.status());
  return sizes.ok() ? *sizes : PoolSizes();
}

void* PlaceOf(Graph* graph, uint32_t id) {
  Result<void*> place = graph->IoAddress(id);
  CHECK_OK(place.status());
  return place.ok() ? *place : nullptr;
}

bool Says(const Status& status, const std::string& part) {
  if (status.message().find(part) != std::string::npos) return true;
  std::fprintf(stderr, "  '%s' has no '%s'\n", status.message().c_str(), part.c_str());
  return false;
}

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
  Qnn_Tensor_t in = Null(*chain.in), out = Null(*chain.out);
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
  Qnn_Tensor_t in = Null(*chain.in), out = Null(*chain.out);
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
  Qnn_Tensor_t in = Null(*without.in), out = Null(*without.out);
  CHECK_EQ(graph.Execute(&in, 1, &out, 1, {}).code(), QNN_GRAPH_ERROR_INVALID_TENSOR);
  CHECK_EQ(graph.Execute(nullptr, 0, nullptr, 0, {}).code(), QNN_GRAPH_ERROR_INVALID_ARGUMENT);
  CHECK_EQ(graph.IoAddress(without.in->id).status().code(), QNN_GRAPH_ERROR_INVALID_TENSOR);
  in.v1.clientBuf = {io.data(), 1000};
  out.v1.clientBuf = {io.data() + 1024, 1000};
  without.Fill(io.data(), 1);
  CHECK_OK(graph.Execute(&in, 1, &out, 1, {}));
  CHECK(without.Right(io.data() + 1024, 1));
}

// The last three frames of `width` numbers, which the graph keeps itself: y = relu(frames).
class Frames : public TestGraph {
 public:
  explicit Frames(const char* name = "frames", GraphHost host = ClientHost())
      : TestGraph(name, true, 1, std::move(host)) {
    in = Add(Described(QNN_TENSOR_TYPE_APP_WRITE, {1, kWidth}));
    out = Add(Described(QNN_TENSOR_TYPE_APP_READ, {3, kWidth}));
    const Tensor* all = Add(Described(QNN_TENSOR_TYPE_NATIVE, {3, kWidth}));
    CHECK_OK(Op("Buffer", {in}, {all},
                {Param{"buffer_size", int64_t{3}}, Param{"buffer_dim", int64_t{0}},
                 Param{"mode", int64_t{QNN_OP_BUFFER_MODE_NON_BLOCKING_LEFT}}}));
    CHECK_OK(Op("ElementWiseNeg", {all}, {out}));
  }
  Floats Step(float from) {
    Floats given(kWidth), got(3 * kWidth);
    for (uint32_t i = 0; i < kWidth; ++i) given[i] = from + static_cast<float>(i);
    void* to = given.data();
    Qnn_Tensor_t x = Null(*in), y = Null(*out);
    if (graph().client_memory()) {
      to = PlaceOf(&graph(), in->id);
      std::copy(given.begin(), given.end(), static_cast<float*>(to));
    } else {
      x.v1.clientBuf = {given.data(), kWidth * 4};
      y.v1.clientBuf = {got.data(), 3 * kWidth * 4};
    }
    CHECK_OK(graph().Execute(&x, 1, &y, 1, {}));
    if (graph().client_memory() && CHECK(y.v1.clientBuf.data != nullptr))
      std::memcpy(got.data(), y.v1.clientBuf.data, got.size() * 4);
    return got;
  }

  static constexpr uint32_t kWidth = 40;
  const Tensor *in, *out;
};

uint64_t Whole(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

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

TEST(GivenInputsAndOutputsAreUsedWhereTheyAre) {
  Chain chain;
  Graph& graph = chain.graph();
  const uint64_t needed = graph.Prepare()->scratch;
  Guarded scratch(Whole(needed)), x(1024), y(1024, true);
  CHECK_OK(graph.SetScratch(scratch.data(), needed));
  CHECK_OK(graph.Finalize(nullptr));
  Qnn_Tensor_t in = Null(*chain.in), out = Null(*chain.out);
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
  Qnn_Tensor_t in = Null(*frames.in), out = Null(*frames.out);
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
        if (failed) CHECK_EQ(status.code(), QNN_COMMON_ERROR_MEM_ALLOC);
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
  Qnn_Tensor_t in = Null(*frames.in), out = Null(*frames.out);
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

std::vector<uint8_t> Written(const Graph* graph) {
  BinaryWriter writer({12, {2, 40, 0}, {2, 26, 0}}, {graph});
  std::vector<uint8_t> bytes(writer.size());
  writer.Write(bytes.data());
  return bytes;
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

CHECK_MAIN("lpai_pools_test")
