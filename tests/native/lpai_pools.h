// Graphs whose memory is the client's, and such memory between guard pages.
#pragma once

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
#include "qnn_tensor.h"
#include "support/allocations.h"
#include "test_graph.h"

namespace lpai_pools {

using namespace qnnrt;

using Floats = std::vector<float>;

inline GraphHost ClientHost(uint32_t start = 64, uint32_t size = 16) {
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

inline Tensor Described(Qnn_TensorType_t type, const Shape& shape) {
  Tensor t;
  t.type = type;
  t.shape = shape;
  return t;
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

inline PoolSizes SizesOf(Graph* graph) {
  Result<PoolSizes> sizes = graph->Prepare();
  CHECK_OK(sizes.status());
  return sizes.ok() ? *sizes : PoolSizes();
}

inline void* PlaceOf(Graph* graph, uint32_t id) {
  Result<void*> place = graph->IoAddress(id);
  CHECK_OK(place.status());
  return place.ok() ? *place : nullptr;
}

inline bool Says(const Status& status, const std::string& part) {
  if (status.message().find(part) != std::string::npos) return true;
  std::fprintf(stderr, "  '%s' has no '%s'\n", status.message().c_str(), part.c_str());
  return false;
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
    Qnn_Tensor_t x = RawOf(*in), y = RawOf(*out);
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

inline uint64_t Whole(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

inline std::vector<uint8_t> Written(const Graph* graph) {
  BinaryWriter writer({12, {2, 40, 0}, {2, 26, 0}}, {graph});
  std::vector<uint8_t> bytes(writer.size());
  writer.Write(bytes.data());
  return bytes;
}

}  // namespace lpai_pools
