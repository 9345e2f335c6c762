// One graph from its first tensor to its last execution.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/plan.h"
#include "memory/registry.h"
#include "support/clock.h"
#include "support/profile.h"

namespace qnnrt {

struct GraphOptions {
  int threads = 0;  // 0: as many as this process may use
  bool portable_only = false;
};

struct GraphStats {
  uint64_t executes = 0;
  uint64_t execute_ns = 0;
};

class Graph {
 public:
  // `context` is the id under which the registry knows this graph's context.
  Graph(std::string name, uint64_t context, GraphOptions options)
      : name_(std::move(name)), context_(context), options_(options) {}

  const std::string& name() const { return name_; }
  bool finalized() const { return plan_ != nullptr; }
  void set_options(const GraphOptions& options) { options_ = options; }
  const GraphOptions& options() const { return options_; }

  // Ids count from 1 in every graph. Errors: 6024 after finalize, 7003 the
  // name is taken, 7004 no element type or shape that a tensor can have.
  Status AddTensor(Tensor tensor, uint32_t* id);
  // Null when this graph has no tensor of that id.
  Tensor* FindTensor(uint32_t id);
  // `node` points at tensors of this graph. Errors: 6005 with the op, the tensor and the rule.
  Status AddNode(Node node);

  // Errors: 6024 twice, 6007 a tensor that nothing produces, 6022 no kernel, 1002 no memory.
  Status Finalize(ProfileScope* profile);

  // Bound by tensor id. A RAW tensor is used where it is; a handle must have been registered in
  // this graph's context with the tensor's shape and type. Errors: 6023 before finalize, 6000 null
  // arrays, 6004 with the tensor's name and what was wrong with it. Executions of one graph queue.
  Status Execute(const Qnn_Tensor_t* inputs, uint32_t num_inputs, const Qnn_Tensor_t* outputs,
                 uint32_t num_outputs, ProfileScope* profile);

  // Wait for a running execution; then no other one begins until the guard goes.
  std::unique_lock<std::mutex> Lock() { return std::unique_lock<std::mutex>(mutex_); }

  GraphStats stats();
  void ResetStats();
  const Plan* plan() const { return plan_.get(); }
  const std::string& Describe();  // JSON; empty before Finalize
  const std::vector<PassReport>& passes() const { return passes_; }
  const std::vector<const Tensor*>& inputs() const { return inputs_; }
  const std::vector<const Tensor*>& outputs() const { return outputs_; }

 private:
  // A graph input or output: what execute checks every time, and what it was bound to last.
  struct AppTensor {
    const Tensor* tensor;
    uint64_t bytes;
    uintptr_t misaligned;  // address bits that have to be zero for its elements
    void* address = nullptr;
    SlotHandle handle = 0;
  };

  Status CheckConnected(std::vector<Node>* ordered) const;
  Status BindAll(const Qnn_Tensor_t* given, uint32_t count, size_t first, size_t end);
  Status BindOne(const Qnn_Tensor_t& given, size_t app_tensor);
  Status BindHandle(Qnn_MemHandle_t handle, size_t app_tensor);
  Status WrongTensor(const Qnn_TensorV1_t& given, const Tensor& expected) const;
  Status WrongBuffer(const Qnn_TensorV1_t& given, const AppTensor& expected) const;
  Status RunBound(ProfileScope* profile);
  void Count(uint64_t first_tick) {
    ++executes_;
    execute_ticks_ += Ticks::Now() - first_tick;
  }
  void ReleaseHandles();

  const std::string name_;
  const uint64_t context_;
  GraphOptions options_;
  std::mutex mutex_;
  std::deque<Tensor> tensors_;
  std::unordered_map<uint32_t, Tensor*> by_id_;
  std::unordered_map<std::string, Tensor*> by_name_;
  std::vector<Node> nodes_;
  std::vector<const Tensor*> inputs_, outputs_;
  std::unique_ptr<Plan> plan_;
  std::vector<PassReport> passes_;
  std::vector<AppTensor> app_;      // inputs, then outputs
  std::vector<SlotHandle> pinned_;  // capacity for every app tensor: execute never allocates
  std::vector<uint64_t> step_times_;
  std::string description_;
  uint64_t executes_ = 0, execute_ticks_ = 0;
};

}  // namespace qnnrt
