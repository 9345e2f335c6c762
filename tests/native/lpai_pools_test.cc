// Graphs whose scratch and persistent memory are the client's: between guard pages, of exactly the
// size that was answered, moved, taken away, too small.
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "abi/qnn_errors.h"
#include "graph/graph.h"
#include "memory/memory.h"
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

}  // namespace

CHECK_MAIN("lpai_pools_test")
