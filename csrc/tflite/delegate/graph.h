// One partition as a finalized QNN graph in a context of its own: QNN frees graphs with contexts.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "memory/memory_api.h"
#include "tflite/delegate/backend.h"

namespace qnnrt::tflite {

// A reference to a buffer of the library.
struct Buffer {
  Buffer() = default;
  Buffer(Buffer&& other) noexcept : handle(std::exchange(other.handle, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(handle, other.handle);
    return *this;
  }
  ~Buffer() {
    if (handle != 0) qnnrt_buffer_release(handle);
  }

  qnnrt_buffer_t handle = 0;
};

// An input or output of the graph, and where its elements are. Either on a handle, or RAW.
struct Port {
  int index;  // the runtime's
  bool output;
  uint64_t bytes;
  Qnn_Tensor_t* tensor;  // in the list that execute is given
  const void* address = nullptr;
  Qnn_MemHandle_t handle = nullptr;
  Buffer buffer = {};  // as long as it is registered
};

class Graph {
 public:
  // `shared`: inputs and outputs will be executed on handles, so that nothing is reserved for them.
  static Result<std::unique_ptr<Graph>> Build(std::shared_ptr<Backend> backend,
                                              const Options& options, const Plan& plan,
                                              bool shared);
  ~Graph();
  Graph(const Graph&) = delete;

  std::vector<Port>& ports() { return ports_; }
  // Uses this memory from now on. On shared memory of this process it is registered, and true
  // is returned; other memory is bound as RAW.
  Result<bool> Use(Port* port, void* address);
  // The backend reads or writes it where it is: on a handle, or, on the cpu backend, anywhere.
  bool InPlace(const Port& port) const {
    return port.handle != nullptr || (backend_->ours() && backend_->id() == QNN_BACKEND_ID_CPU);
  }
  Status Execute();
  // Bytes copied by the backend since Build, by direction.
  void Copied(uint64_t* in, uint64_t* out) const;

 private:
  explicit Graph(std::shared_ptr<Backend> backend) : backend_(std::move(backend)) {}
  Status Create(const Options& options);
  Status Fill(const Plan& plan, bool shared);
  Status Register(Port* port, void* address, uint64_t offset);
  void Drop(Port* port);

  const std::shared_ptr<Backend> backend_;
  Qnn_ContextHandle_t context_ = nullptr;
  Qnn_GraphHandle_t graph_ = nullptr;
  std::vector<Port> ports_;  // inputs, then outputs
  std::vector<Qnn_Tensor_t> inputs_, outputs_;
  std::vector<std::vector<uint32_t>> dims_;
  uint64_t raw_in_ = 0, raw_out_ = 0;  // where the backend is not ours, and keeps no count
};

}  // namespace qnnrt::tflite
