// Execution: checks and pins the client's tensors, points the steps at them, runs.
#include <algorithm>
#include <cinttypes>

#include "abi/qnn_errors.h"
#include "abi/qnn_objects.h"
#include "graph/graph.h"
#include "ir/match.h"
#include "memory/descriptor.h"
#include "memory/memory.h"
#include "support/number_of.h"

namespace qnnrt {
namespace {

struct Unpin {  // on every return, and on an exception
  Binding* binding;
  ~Unpin() {
    if (binding != nullptr) Graph::Release(binding);
  }
};

Status WrongVersion(const Qnn_Tensor_t& given, const Tensor& expected) {
  return Error(QNN_GRAPH_ERROR_INVALID_TENSOR,
               "tensor '%s': tensor version %u is unknown; 1 and 2 are supported",
               expected.name.c_str(), NumberOf(given.version));
}

}  // namespace

Status Graph::NotFinalized() const {
  return Error(QNN_GRAPH_ERROR_GRAPH_NOT_FINALIZED, "graph '%s' is not finalized", name_.c_str());
}

Status Graph::BindHandle(Qnn_MemHandle_t handle, size_t app_tensor, Binding* binding) const {
  const AppTensor& app = app_[app_tensor];
  Binding::Entry& entry = binding->entries[app_tensor];
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
    registration = *why;  // registered in between
  }
  binding->pinned.push_back(slot);
  const bool written = tensor.is_output() || tensor.is_state();
  if (registration->sync_fd >= 0) {
    binding->syncs.push_back(
        {registration->sync_fd, written ? CpuAccess::kReadWrite : CpuAccess::kRead});
  }
  if (entry.handle == slot) return Status::Ok();
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
  if ((reinterpret_cast<uintptr_t>(registration->address) & app.misaligned) != 0 &&
      pools_ != nullptr) {
    return Error(QNN_GRAPH_ERROR_INVALID_TENSOR,
                 "tensor '%s': its registered memory begins at %p; needed is a multiple of %zu",
                 tensor.name.c_str(), static_cast<void*>(registration->address),
                 static_cast<size_t>(app.misaligned + 1));
  }
  if ((reinterpret_cast<uintptr_t>(registration->address) & app.misaligned) != 0) {
    return Error(QNN_GRAPH_ERROR_INVALID_TENSOR,
                 "tensor '%s': its registered memory is not aligned to its elements of %zu bytes",
                 tensor.name.c_str(), ElementSize(tensor.dtype));
  }
  if (written && !registration->writable) {
    return Error(QNN_GRAPH_ERROR_INVALID_TENSOR,
                 "tensor '%s' is %s, but its registered memory is mapped read only: import the "
                 "fd from a descriptor that was opened for writing",
                 tensor.name.c_str(), tensor.is_output() ? "an output" : "read and written");
  }
  entry = {registration->address, slot};
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
  if (given.clientBuf.data == nullptr) {
    return Error(QNN_GRAPH_ERROR_INVALID_TENSOR, "tensor '%s': its client buffer is null%s", name,
                 pools_ == nullptr ? "" : ", and it is not allocated in the scratch memory");
  }
  if (given.clientBuf.dataSize < expected.bytes) {
    return Error(QNN_GRAPH_ERROR_INVALID_TENSOR,
                 "tensor '%s': its client buffer has %u bytes, %s %s needs %" PRIu64, name,
                 given.clientBuf.dataSize, DataTypeName(tensor.dtype),
                 ShapeText(tensor.shape).c_str(), expected.bytes);
  }
  if (pools_ != nullptr) return WrongAlignment(given, expected);
  return Error(QNN_GRAPH_ERROR_INVALID_TENSOR,
               "tensor '%s': its client buffer %p is not aligned to its elements of %zu bytes",
               name, given.clientBuf.data, ElementSize(tensor.dtype));
}

Status Graph::BindOne(const Qnn_Tensor_t& given, size_t app_tensor, Binding* binding) const {
  const AppTensor& app = app_[app_tensor];
  const Tensor& tensor = *app.tensor;
  if (!HasKnownVersion(given)) return WrongVersion(given, tensor);
  const Qnn_TensorV1_t& t = given.v1;  // version 2 begins with the same fields
  if (!SameTypeAndShape(t, tensor.dtype, tensor.shape)) return WrongTensor(t, tensor);
  if (t.memType == QNN_TENSORMEMTYPE_MEMHANDLE) return BindHandle(t.memHandle, app_tensor, binding);
  void* data = t.clientBuf.data;
  if (app.bytes == 0 && t.memType == QNN_TENSORMEMTYPE_RAW) {  // no step reads or writes it
    static char none;
    binding->entries[app_tensor] = {data == nullptr ? &none : data, 0};
    return Status::Ok();
  }
  const uint32_t size = t.clientBuf.dataSize;
  bool usable = t.memType == QNN_TENSORMEMTYPE_RAW && RawHolds(t, app.bytes) &&
                ((size & app.odd_bytes) == 0 || size == app.bytes || app.bytes > UINT32_MAX) &&
                (reinterpret_cast<uintptr_t>(data) & app.raw_misaligned) == 0;
  if (!usable && (data != nullptr || !MayBeInScratch(t))) return WrongBuffer(t, app);
  binding->entries[app_tensor] = {data, 0};
  return Status::Ok();
}

Status Graph::BindAll(const Qnn_Tensor_t* given, uint32_t count, size_t first, size_t end,
                      Binding* binding) const {
  const char* what = first == 0 ? "input" : "output";
  size_t n = end - first;
  if (count == 0 && n != 0 && pools_ != nullptr && !options_.exclude_io) {
    for (size_t i = first; i < end; ++i) binding->entries[i] = {};
    return Status::Ok();
  }
  // States are given among the inputs, and may be given among the outputs, too.
  const bool fits = count == n || (first != 0 && count < n && count + states_.size() >= n);
  if (!fits || (given == nullptr && count != 0)) {
    return Error(QNN_GRAPH_ERROR_INVALID_ARGUMENT, "graph '%s' has %zu %ss, got %u", name_.c_str(),
                 n, what, given == nullptr ? 0 : count);
  }
  for (size_t i = 0; i < n; ++i) {
    // Most clients keep the order in which they created the tensors.
    const Tensor& tensor = *app_[first + i].tensor;
    const size_t at = FindId(tensor.id, std::min<size_t>(i, count), 0, count,
                             [&](size_t j) { return given[j].v1.id; });
    if (at == count && tensor.updates != nullptr) {
      binding->entries[first + i] = binding->entries[StateOf(first + i)];
      continue;
    }
    if (at == count) {
      return Error(
          QNN_GRAPH_ERROR_INVALID_TENSOR,
          "graph '%s': %s '%s' (id %u) is not among the tensors given; they are matched by id",
          name_.c_str(), what, tensor.name.c_str(), tensor.id);
    }
    QNNRT_RETURN_IF_ERROR(BindOne(given[at], first + i, binding));
    // Outputs are the client's to be written to.
    if (pools_ != nullptr && first != 0)
      binding->outputs[first + i] = const_cast<Qnn_Tensor_t*>(&given[at]);
  }
  return Status::Ok();
}

Status Graph::BindBoth(const Qnn_Tensor_t* inputs, uint32_t num_inputs, const Qnn_Tensor_t* outputs,
                       uint32_t num_outputs, Binding* binding) const {
  if (pools_ != nullptr) binding->outputs.assign(app_.size(), nullptr);
  QNNRT_RETURN_IF_ERROR(BindAll(inputs, num_inputs, 0, inputs_.size(), binding));
  QNNRT_RETURN_IF_ERROR(BindAll(outputs, num_outputs, inputs_.size(), app_.size(), binding));
  return staging_ != nullptr && staging_->strict() ? CheckStrict(*binding) : Status::Ok();
}

Status Graph::Bind(const Qnn_Tensor_t* inputs, uint32_t num_inputs, const Qnn_Tensor_t* outputs,
                   uint32_t num_outputs, Binding* binding) const {
  if (!ready_.load(std::memory_order_acquire)) return NotFinalized();
  binding->entries.resize(app_.size());
  binding->pinned.reserve(app_.size());
  binding->syncs.reserve(app_.size());
  Unpin unpin{binding};
  Status status = BindBoth(inputs, num_inputs, outputs, num_outputs, binding);
  if (status.ok()) unpin.binding = nullptr;
  return status;
}

Status Graph::BindSome(const Qnn_Tensor_t* given, uint32_t count, size_t first, size_t end,
                       Binding* binding) const {
  for (uint32_t i = 0; i < count; ++i) {
    const size_t match = FindId(given[i].v1.id, first + i, first, end,
                                [&](size_t at) { return app_[at].tensor->id; });
    if (match == end) {
      return Error(QNN_GRAPH_ERROR_INVALID_TENSOR, "graph '%s' has no %s of id %u", name_.c_str(),
                   first == 0 ? "input" : "output", given[i].v1.id);
    }
    if (given[i].v1.memType != QNN_TENSORMEMTYPE_MEMHANDLE) {
      return Error(QNN_GRAPH_ERROR_INVALID_TENSOR,
                   "tensor '%s': only memory handles can be bound ahead; its memory type is %d",
                   app_[match].tensor->name.c_str(), static_cast<int>(given[i].v1.memType));
    }
    QNNRT_RETURN_IF_ERROR(BindOne(given[i], match, binding));
  }
  return Status::Ok();
}

Status Graph::BindHandles(const Qnn_Tensor_t* inputs, uint32_t num_inputs,
                          const Qnn_Tensor_t* outputs, uint32_t num_outputs,
                          Binding* binding) const {
  if (!ready_.load(std::memory_order_acquire)) return NotFinalized();
  binding->entries.resize(app_.size());
  binding->pinned.reserve(size_t{num_inputs} + num_outputs);
  Unpin unpin{binding};
  QNNRT_RETURN_IF_ERROR(BindSome(inputs, num_inputs, 0, inputs_.size(), binding));
  QNNRT_RETURN_IF_ERROR(BindSome(outputs, num_outputs, inputs_.size(), app_.size(), binding));
  unpin.binding = nullptr;
  return Status::Ok();
}

void Graph::Release(Binding* binding) {
  if (binding->pinned.empty()) return;
  Registry& registry = Memory::Get().registry();
  for (SlotHandle handle : binding->pinned) registry.Release(handle);
  binding->pinned.clear();
  binding->syncs.clear();
}

void Graph::Apply(const Binding& binding) {
  if (pools_ != nullptr) return ApplyInPools(binding);
  for (size_t i = 0; i < patched_.size(); ++i) Patch(i, binding.entries[i].address);
}

size_t Graph::StateOf(size_t output) const {
  const auto is_its = [&](const State& state) { return state.output == output; };
  return std::find_if(states_.begin(), states_.end(), is_its)->input;
}

// A state has one memory, whether it is read or written.
Status Graph::CheckStates(const Binding& binding) const {
  for (const State& state : states_) {
    const auto address = [&](size_t i) -> const void* {
      return pools_ != nullptr && InScratch(binding, i) ? plan_->IoAddress(i)
                                                        : binding.entries[i].address;
    };
    const void *in = address(state.input), *out = address(state.output);
    const bool by_handle = binding.entries[state.input].handle != 0;
    if (in == out && by_handle == (binding.entries[state.output].handle != 0)) continue;
    return Error(QNN_GRAPH_ERROR_INVALID_TENSOR,
                 "tensor '%s' is read and written (APP_READWRITE): the inputs have it at %p, the "
                 "outputs at %p; give both the same memory, or leave it out of the outputs",
                 app_[state.input].tensor->name.c_str(), in, out);
  }
  return Status::Ok();
}

// Executions of graphs that write the same states follow each other.
Status Graph::RunLocked(const Binding& binding, const RunOptions& options) {
  if (states_.empty()) return RunAlone(binding, options);
  QNNRT_RETURN_IF_ERROR(CheckStates(binding));
  for (size_t i = 0; i < states_.size(); ++i) {
    const size_t at = states_[i].input;
    const Binding::Entry& entry = binding.entries[at];
    written_.Set(i, entry.address, app_[at].bytes, entry.handle, context_);
  }
  QNNRT_RETURN_IF_ERROR(written_.Lock(options.interrupt));
  struct Unlock {  // on every return, and on an exception
    WrittenMemory* written;
    ~Unlock() { written->Unlock(); }
  } unlock{&written_};
  return RunAlone(binding, options);
}

Status Graph::RunAlone(const Binding& binding, const RunOptions& options) {
  if (pools_ == nullptr) return RunBound(binding, options);
  QNNRT_RETURN_IF_ERROR(CheckInPools(binding));
  Status status = RunBound(binding, options);
  if (status.ok()) ReportOutputs(binding);
  return status;
}

Status Graph::RunBound(const Binding& binding, const RunOptions& options) {
  if (staging_ != nullptr || !binding.syncs.empty()) return RunStaged(binding, options);
  Apply(binding);
  QNNRT_RETURN_IF_ERROR(CheckMoved(binding));
  const uint64_t first = Ticks::Now();
  ProfileScope* profile = options.profile;
  if (profile == nullptr) {
    Status status =
        options.interrupt == nullptr ? plan_->Run() : plan_->RunWatched(nullptr, options.interrupt);
    if (Executed(status)) Count(first);
    return status;
  }
  uint64_t start = MonotonicNanoseconds();
  bool nodes = profile->detailed();
  if (nodes)
    std::fill(step_times_.begin(), step_times_.end(), 0);  // an early termination skips steps
  Status status = plan_->RunWatched(nodes ? step_times_.data() : nullptr, options.interrupt);
  uint64_t end = MonotonicNanoseconds();
  if (!Executed(status)) return status;
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

Status Graph::Run(const Binding& binding, const RunOptions& options) {
  std::unique_lock<FairMutex> lock(mutex_);
  Status status = RunLocked(binding, options);
  lock.unlock();
  if (staging_ != nullptr && staging_->HasUnloggedCopies()) LogCopies();
  return status;
}

Status Graph::Execute(const Qnn_Tensor_t* inputs, uint32_t num_inputs, const Qnn_Tensor_t* outputs,
                      uint32_t num_outputs, const RunOptions& options) {
  std::unique_lock<FairMutex> lock(mutex_);
  if (!finalized()) return NotFinalized();
  Status status;
  {
    Unpin unpin{&own_binding_};
    QNNRT_RETURN_IF_ERROR(BindBoth(inputs, num_inputs, outputs, num_outputs, &own_binding_));
    status = RunLocked(own_binding_, options);
  }
  lock.unlock();
  if (staging_ != nullptr && staging_->HasUnloggedCopies()) LogCopies();
  return status;
}

}  // namespace qnnrt
