#include "graph/graph.h"

#include <algorithm>
#include <cinttypes>

#include "abi/qnn_errors.h"
#include "abi/qnn_objects.h"
#include "memory/descriptor.h"
#include "memory/memory.h"
#include "support/clock.h"

namespace qnnrt {

Status Graph::AddTensor(Tensor tensor, uint32_t* id) {
  auto lock = Lock();
  const char* name = tensor.name.c_str();
  if (finalized())
    return Error(QNN_GRAPH_ERROR_GRAPH_FINALIZED,
                 "graph '%s' is finalized: it takes no more tensors", name_.c_str());
  if (by_name_.count(tensor.name) != 0) {
    return Error(QNN_TENSOR_ERROR_ALREADY_EXISTS, "graph '%s' has a tensor '%s' already",
                 name_.c_str(), name);
  }
  uint64_t count;
  if (!ElementCount(tensor.shape, &count) || count > (uint64_t{1} << 48)) {
    return Error(QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM,
                 "tensor '%s': shape %s has more elements than memory can hold", name,
                 ShapeText(tensor.shape).c_str());
  }
  if (TypeBit(tensor.dtype) == 0) {
    return Error(QNN_TENSOR_ERROR_UNSUPPORTED_TENSOR_PARAM,
                 "tensor '%s': no kernel of this backend works on the element type %s", name,
                 DataTypeName(tensor.dtype));
  }
  if ((tensor.is_input() || tensor.is_output()) && count == 0) {
    return Error(
        QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM,
        "tensor '%s': shape %s is empty; graph inputs and outputs need at least one element", name,
        ShapeText(tensor.shape).c_str());
  }
  tensor.id = *id = static_cast<uint32_t>(tensors_.size()) + 1;
  tensors_.push_back(std::move(tensor));
  Tensor* added = &tensors_.back();
  by_id_[*id] = added;
  by_name_[added->name] = added;
  if (added->is_input()) inputs_.push_back(added);
  if (added->is_output()) outputs_.push_back(added);
  return Status::Ok();
}

Tensor* Graph::FindTensor(uint32_t id) {
  auto lock = Lock();
  auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

Status Graph::AddNode(Node node) {
  auto lock = Lock();
  if (finalized()) {
    return Error(QNN_GRAPH_ERROR_GRAPH_FINALIZED, "graph '%s' is finalized: it takes no more nodes",
                 name_.c_str());
  }
  Status valid = ValidateNode(node);
  if (!valid.ok()) return std::move(valid).WithCode(QNN_GRAPH_ERROR_INVALID_OP_CONFIG);
  for (const Tensor* t : node.outputs) {
    if (t != nullptr && (t->is_input() || t->is_static())) {
      return Error(QNN_GRAPH_ERROR_INVALID_TENSOR,
                   "node '%s': output '%s' is %s and cannot be written", node.name.c_str(),
                   t->name.c_str(), t->is_static() ? "static" : "a graph input");
    }
  }
  nodes_.push_back(std::move(node));
  return Status::Ok();
}

// Nodes in an order in which producers come first: the client's own order where that holds.
Status Graph::CheckConnected(std::vector<Node>* ordered) const {
  std::unordered_map<const Tensor*, size_t> producer;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    for (const Tensor* t : nodes_[i].outputs) {
      if (t != nullptr && !producer.emplace(t, i).second) {
        return Error(QNN_GRAPH_ERROR_INVALID_TENSOR,
                     "tensor '%s' is written by two nodes: '%s' and '%s'", t->name.c_str(),
                     nodes_[producer[t]].name.c_str(), nodes_[i].name.c_str());
      }
    }
  }
  std::vector<uint32_t> missing(nodes_.size(), 0);
  std::vector<std::vector<size_t>> readers(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    for (const Tensor* t : nodes_[i].inputs) {
      if (t == nullptr || t->is_input() || t->is_static()) continue;
      auto found = producer.find(t);
      if (found == producer.end()) {
        return Error(QNN_GRAPH_ERROR_UNCONNECTED_NODE, "node '%s' reads '%s', which no node writes",
                     nodes_[i].name.c_str(), t->name.c_str());
      }
      ++missing[i];
      readers[found->second].push_back(i);
    }
  }
  for (const Tensor* t : outputs_) {
    if (producer.count(t) == 0) {
      return Error(QNN_GRAPH_ERROR_UNCONNECTED_NODE, "graph output '%s' is written by no node",
                   t->name.c_str());
    }
  }
  std::vector<bool> done(nodes_.size(), false);
  // Repeated sweeps in the client's order: one sweep when the order is right already.
  for (size_t left = nodes_.size(); left > 0;) {
    size_t before = left;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (done[i] || missing[i] != 0) continue;
      done[i] = true;
      --left;
      ordered->push_back(nodes_[i]);
      for (size_t reader : readers[i]) --missing[reader];
    }
    if (left == before) {
      return Error(QNN_GRAPH_ERROR_UNCONNECTED_NODE,
                   "graph '%s': %zu nodes wait for each other in a cycle", name_.c_str(), left);
    }
  }
  return Status::Ok();
}

Status Graph::Finalize(ProfileScope* profile) {
  auto lock = Lock();
  if (finalized())
    return Error(QNN_GRAPH_ERROR_GRAPH_FINALIZED, "graph '%s' is finalized already", name_.c_str());
  uint64_t begin = MonotonicNanoseconds();
  // Loads the fast kernels if nothing has yet: initialization, not this graph's own work.
  const char* library = options_.portable_only ? nullptr : OneDnnVersion();
  uint64_t start = MonotonicNanoseconds();
  std::vector<Node> ordered;
  QNNRT_RETURN_IF_ERROR(CheckConnected(&ordered));
  KernelOptions options;
  options.portable_only = options_.portable_only;
  options.threads = options_.threads > 0 ? options_.threads : Threads::DefaultLimit();
  Ir ir(std::move(ordered));
  std::vector<PassReport> passes;
  QNNRT_RETURN_IF_ERROR(RunPasses(&ir, Threads(options.threads), &passes));
  uint64_t optimized = MonotonicNanoseconds();
  QNNRT_ASSIGN_OR_RETURN(std::unique_ptr<Plan> plan,
                         Plan::Make(std::move(ir), inputs_, outputs_, options));
  // All or nothing: what can run out of memory comes before the first change of this graph.
  std::vector<AppTensor> app;
  for (const auto* tensors : {&inputs_, &outputs_}) {
    for (const Tensor* t : *tensors) app.push_back({t, t->bytes(), ElementSize(t->dtype) - 1});
  }
  pinned_.reserve(app.size());
  step_times_.assign(plan->steps().size(), 0);
  if (profile != nullptr) {
    uint64_t end = MonotonicNanoseconds();
    profile->Add(QNN_PROFILE_EVENTTYPE_INIT, QNN_PROFILE_EVENTUNIT_MICROSEC, (start - begin) / 1000,
                 begin / 1000,
                 library == nullptr ? "init: portable kernels" : std::string("init: ") + library);
    int top = profile->Add(QNN_PROFILE_EVENTTYPE_FINALIZE, QNN_PROFILE_EVENTUNIT_MICROSEC,
                           (end - start) / 1000, start / 1000, "finalize");
    if (top >= 0 && profile->detailed()) {
      profile->Add(QNN_PROFILE_EVENTTYPE_BACKEND, QNN_PROFILE_EVENTUNIT_MICROSEC,
                   (optimized - start) / 1000, start / 1000, "passes", top);
      profile->Add(QNN_PROFILE_EVENTTYPE_BACKEND, QNN_PROFILE_EVENTUNIT_MICROSEC,
                   (end - optimized) / 1000, optimized / 1000, "kernels and plan", top);
    }
  }
  app_ = std::move(app);
  passes_ = std::move(passes);
  plan_ = std::move(plan);
  // Weights that were packed or folded are held twice until here; what no step reads goes now.
  for (Tensor& t : tensors_) {
    if (t.is_static() && !plan_->Reads(t.data.get())) t.data = nullptr;
  }
  return Status::Ok();
}

Status Graph::BindHandle(Qnn_MemHandle_t handle, size_t app_tensor) {
  AppTensor& app = app_[app_tensor];
  const Tensor& tensor = *app.tensor;
  Registry& registry = Memory::Get().registry();
  SlotHandle slot = HandleFromQnn(handle);
  const MemRegistration* registration = registry.TryAcquire(slot, context_);
  if (registration == nullptr) {
    Result<const MemRegistration*> why = registry.Acquire(slot, context_);
    if (!why.ok()) {
      return std::move(why)
          .status()
          .WithCode(QNN_GRAPH_ERROR_INVALID_TENSOR)
          .Within("tensor '" + tensor.name + "'");
    }
    registration = *why;  // it became valid in between
  }
  pinned_.push_back(slot);
  if (app.handle == slot) return Status::Ok();
  // First use of this handle here: what was registered has to be this tensor.
  Shape shape(registration->dims, registration->dims + registration->rank);
  // A registration has at least one dimension, so a scalar is registered as [1].
  if (tensor.shape.empty() && shape.size() == 1 && shape[0] == 1) shape.clear();
  if (registration->data_type != static_cast<uint32_t>(tensor.dtype) || shape != tensor.shape) {
    return Error(QNN_GRAPH_ERROR_INVALID_TENSOR,
                 "tensor '%s' is %s %s, but its memory handle was registered as %s %s: register "
                 "the buffer again "
                 "with the tensor's own shape and type",
                 tensor.name.c_str(), DataTypeName(tensor.dtype), ShapeText(tensor.shape).c_str(),
                 DataTypeName(static_cast<Qnn_DataType_t>(registration->data_type)),
                 ShapeText(shape).c_str());
  }
  if ((reinterpret_cast<uintptr_t>(registration->address) & app.misaligned) != 0) {
    return Error(QNN_GRAPH_ERROR_INVALID_TENSOR,
                 "tensor '%s': its registered memory is not aligned to its elements of %zu bytes",
                 tensor.name.c_str(), ElementSize(tensor.dtype));
  }
  if (tensor.is_output() && !registration->writable) {
    return Error(
        QNN_GRAPH_ERROR_INVALID_TENSOR,
        "tensor '%s' is an output, but its registered memory is mapped read only: import the "
        "fd from a descriptor that was opened for writing",
        tensor.name.c_str());
  }
  app.handle = slot;
  app.address = registration->address;
  plan_->Bind(app_tensor, registration->address);
  return Status::Ok();
}

Status Graph::WrongTensor(const Qnn_TensorV1_t& given, const Tensor& expected) const {
  std::string shape =
      given.dimensions == nullptr
          ? "no dimensions"
          : ShapeText(Shape(given.dimensions, given.dimensions + std::min(given.rank, 16u)));
  return Error(QNN_GRAPH_ERROR_INVALID_TENSOR, "tensor '%s': expected %s %s, got %s %s",
               expected.name.c_str(), DataTypeName(expected.dtype),
               ShapeText(expected.shape).c_str(), DataTypeName(given.dataType), shape.c_str());
}

Status Graph::WrongBuffer(const Qnn_TensorV1_t& given, const AppTensor& expected) const {
  const Tensor& tensor = *expected.tensor;
  const char* name = tensor.name.c_str();
  if (given.memType != QNN_TENSORMEMTYPE_RAW) {
    return Error(QNN_GRAPH_ERROR_INVALID_TENSOR,
                 "tensor '%s': memory type %d is not supported; use RAW (0) or MEMHANDLE (1)", name,
                 static_cast<int>(given.memType));
  }
  if (given.clientBuf.data == nullptr)
    return Error(QNN_GRAPH_ERROR_INVALID_TENSOR, "tensor '%s': its client buffer is null", name);
  if (given.clientBuf.dataSize < expected.bytes) {
    return Error(QNN_GRAPH_ERROR_INVALID_TENSOR,
                 "tensor '%s': its client buffer has %u bytes, %s %s needs %" PRIu64, name,
                 given.clientBuf.dataSize, DataTypeName(tensor.dtype),
                 ShapeText(tensor.shape).c_str(), expected.bytes);
  }
  return Error(QNN_GRAPH_ERROR_INVALID_TENSOR,
               "tensor '%s': its client buffer %p is not aligned to its elements of %zu bytes",
               name, given.clientBuf.data, ElementSize(tensor.dtype));
}

Status Graph::BindOne(const Qnn_Tensor_t& given, size_t app_tensor) {
  AppTensor& app = app_[app_tensor];
  const Tensor& tensor = *app.tensor;
  const Qnn_TensorV1_t& t = given.v1;  // version 2 begins with the same fields
  bool fits = t.dataType == tensor.dtype;
  if (t.dimensions != nullptr) {  // a client may leave them out; then the graph's own hold
    fits &= t.rank == tensor.shape.size();
    for (uint32_t d = 0; fits && d < t.rank; ++d) fits = t.dimensions[d] == tensor.shape[d];
  }
  if (!fits) return WrongTensor(t, tensor);
  if (t.memType == QNN_TENSORMEMTYPE_MEMHANDLE) return BindHandle(t.memHandle, app_tensor);
  void* data = t.clientBuf.data;
  // dataSize is 32 bits wide: for a larger tensor the client cannot say its size, nor can it be
  // checked.
  bool usable = t.memType == QNN_TENSORMEMTYPE_RAW && data != nullptr &&
                (t.clientBuf.dataSize >= app.bytes || app.bytes > UINT32_MAX) &&
                (reinterpret_cast<uintptr_t>(data) & app.misaligned) == 0;
  if (!usable) return WrongBuffer(t, app);
  if (app.address != data || app.handle != 0) {
    app.address = data;
    app.handle = 0;
    plan_->Bind(app_tensor, data);
  }
  return Status::Ok();
}

Status Graph::BindAll(const Qnn_Tensor_t* given, uint32_t count, size_t first, size_t end) {
  const char* what = first == 0 ? "input" : "output";
  size_t n = end - first;
  if (count != n || (given == nullptr && n != 0)) {
    return Error(QNN_GRAPH_ERROR_INVALID_ARGUMENT, "graph '%s' has %zu %ss, got %u", name_.c_str(),
                 n, what, given == nullptr ? 0 : count);
  }
  for (size_t i = 0; i < n; ++i) {
    // Most clients keep the order in which they created the tensors.
    const Tensor& tensor = *app_[first + i].tensor;
    const Qnn_Tensor_t* match = &given[i];
    for (uint32_t j = 0; match->v1.id != tensor.id; ++j) {
      if (j == count) {
        return Error(
            QNN_GRAPH_ERROR_INVALID_TENSOR,
            "graph '%s': %s '%s' (id %u) is not among the tensors given; they are matched by id",
            name_.c_str(), what, tensor.name.c_str(), tensor.id);
      }
      match = &given[j];
    }
    QNNRT_RETURN_IF_ERROR(BindOne(*match, first + i));
  }
  return Status::Ok();
}

void Graph::ReleaseHandles() {
  Registry& registry = Memory::Get().registry();
  for (SlotHandle handle : pinned_) registry.Release(handle);
  pinned_.clear();
}

Status Graph::RunBound(ProfileScope* profile) {
  const uint64_t first = Ticks::Now();
  if (profile == nullptr) {
    Status status = plan_->Run();
    if (status.ok()) Count(first);
    return status;
  }
  uint64_t start = MonotonicNanoseconds();
  bool nodes = profile->detailed();
  Status status = nodes ? plan_->RunTimed(step_times_.data()) : plan_->Run();
  uint64_t end = MonotonicNanoseconds();
  if (!status.ok()) return status;
  Count(first);
  int top = profile->Add(QNN_PROFILE_EVENTTYPE_EXECUTE, QNN_PROFILE_EVENTUNIT_MICROSEC,
                         (end - start) / 1000, start / 1000, "execute");
  uint64_t at = start;
  for (size_t s = 0; nodes && top >= 0 && s < step_times_.size(); ++s) {
    profile->Add(QNN_PROFILE_EVENTTYPE_NODE, QNN_PROFILE_EVENTUNIT_MICROSEC, step_times_[s] / 1000,
                 at / 1000, plan_->node(s).name, top);
    at += step_times_[s];
  }
  return status;
}

Status Graph::Execute(const Qnn_Tensor_t* inputs, uint32_t num_inputs, const Qnn_Tensor_t* outputs,
                      uint32_t num_outputs, ProfileScope* profile) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!finalized()) {
    return Error(QNN_GRAPH_ERROR_GRAPH_NOT_FINALIZED, "graph '%s' is not finalized", name_.c_str());
  }
  struct Release {  // whatever way the call ends
    Graph* graph;
    ~Release() {
      if (!graph->pinned_.empty()) graph->ReleaseHandles();
    }
  } release{this};
  QNNRT_RETURN_IF_ERROR(BindAll(inputs, num_inputs, 0, inputs_.size()));
  QNNRT_RETURN_IF_ERROR(BindAll(outputs, num_outputs, inputs_.size(), app_.size()));
  return RunBound(profile);
}

GraphStats Graph::stats() {
  auto lock = Lock();
  return {executes_, Ticks::ToNanoseconds(execute_ticks_)};
}

void Graph::ResetStats() {
  auto lock = Lock();
  executes_ = execute_ticks_ = 0;
}

const std::string& Graph::Describe() {
  auto lock = Lock();
  if (description_.empty() && plan_ != nullptr) description_ = plan_->Describe(passes_);
  return description_;
}

}  // namespace qnnrt
