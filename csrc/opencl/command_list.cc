#include "opencl/command_list.h"

#include <algorithm>

#include "abi/qnn_errors.h"
#include "ir/match.h"
#include "support/checked.h"

namespace qnnrt::opencl {

std::atomic<uint32_t> CommandList::live_{0};

CommandList::CommandList(const Qnnrt_OpenClListInfo_t& info)
    : cl_(*info.functions),
      cl_context_(info.context),
      device_(info.device),
      queue_(info.queue),
      base_(info.base),
      flags_(info.flags),
      flush_every_(info.flush_every),
      steps_(info.num_steps),
      io_(info.num_tensors),
      fault_memory_(info.faults),
      fault_steps_(info.fault_steps, info.fault_steps + info.num_faults),
      pool_(info.pool == nullptr ? nullptr : *static_cast<std::shared_ptr<ArenaPool>*>(info.pool)),
      sizes_(info.arenas, info.arenas + info.num_arenas),
      faults_(info.num_faults),
      arenas_(info.num_arenas),
      recordings_(info.recording) {
  for (uint32_t i = 0; i < info.num_steps; ++i) {
    Step& step = steps_[i];
    step.info = info.steps[i];
    step.node = step.info.node;
    step.name = step.info.name;
    step.memories.assign(step.info.memories, step.info.memories + step.info.num_memories);
    step.info.node = step.info.name = nullptr;
    step.info.memories = nullptr;
  }
  for (uint32_t i = 0; i < info.num_tensors; ++i) {
    const Qnnrt_OpenClTensor_t& given = info.tensors[i];
    Io& io = io_[i];
    io.name = given.name;
    io.id = given.id;
    io.data_type = static_cast<Qnn_DataType_t>(given.data_type);
    io.shape.assign(given.dims, given.dims + given.rank);
    io.scalar = IsScalar(io.shape);
    if (io.scalar && io.shape.empty()) io.other_shape = {1};
    io.nbytes = given.nbytes;
    io.output = (given.flags & QNNRT_OPENCL_OUTPUT) != 0;
    io.args_before = given.flags >> QNNRT_OPENCL_ARGS_BEFORE;
    io.refused = io.output ? kReadOnly : kWriteOnly;
    if ((given.flags & QNNRT_OPENCL_READ) != 0) io.refused |= kWriteOnly;
    inputs_ += io.output ? 0 : 1;
  }
  events_.reserve(size_t{info.num_steps} + info.num_tensors + 1);  // of each command
  key_.resize(size_t{info.num_tensors} + info.num_arenas);
  const bool calls = std::any_of(steps_.begin(), steps_.end(),
                                 [](const Step& step) { return step.info.kernel == nullptr; });
  if (calls || steps_.size() < 2 || Has(QNNRT_OPENCL_OUT_OF_ORDER)) recordings_.TurnOff();
  live_.fetch_add(1, std::memory_order_relaxed);
}

Result<std::unique_ptr<CommandList>> CommandList::Make(const Qnnrt_OpenClListInfo_t& info) {
  std::unique_ptr<CommandList> list(new CommandList(info));
  for (uint32_t i = 0; i < info.num_patches; ++i) {
    const Qnnrt_OpenClPatch_t& p = info.patches[i];
    if (p.tensor >= list->io_.size() || !list->HasMemory(p.step, p.index)) {
      return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT,
                   "a command list has no tensor %u, step %u or memory %u of it", p.tensor, p.step,
                   p.index);
    }
    list->io_[p.tensor].patches.push_back({p.step, p.index});
  }
  for (uint32_t step : list->fault_steps_) {
    if (step < list->steps_.size() && info.faults != nullptr) continue;
    return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT,
                 "a command list has no step %u, or no memory for what it notes", step);
  }
  QNNRT_RETURN_IF_ERROR(list->TakePlaces(info));
  return list;
}

bool CommandList::HasMemory(uint32_t step, uint32_t index) const {
  return step < steps_.size() &&
         (steps_[step].info.kernel != nullptr || index < steps_[step].memories.size());
}

Status CommandList::TakePlaces(const Qnnrt_OpenClListInfo_t& info) {
  for (uint32_t i = 0; i < info.num_places; ++i) {
    const Qnnrt_OpenClPlace_t& p = info.places[i];
    uint64_t end = 0;
    if (p.arena >= arenas_.size() || !HasMemory(p.step, p.index) || p.size == 0 ||
        !CheckedAdd(p.offset, p.size, &end) || end > sizes_[p.arena]) {
      return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT,
                   "a command list has no arena %u, %llu bytes at %llu of it, step %u or memory %u "
                   "of that",
                   p.arena, static_cast<unsigned long long>(p.size),
                   static_cast<unsigned long long>(p.offset), p.step, p.index);
    }
    arenas_[p.arena].places.push_back(p);
    arenas_[p.arena].whole = arenas_[p.arena].whole && p.offset == 0;
  }
  if (sizes_.empty()) return Status::Ok();
  if (pool_ == nullptr)
    return Status(QNN_COMMON_ERROR_INVALID_ARGUMENT, "a command list has arenas and no pool");
  QNNRT_RETURN_IF_ERROR(pool_->Join(sizes_));
  joined_ = true;
  return Status::Ok();
}

CommandList::~CommandList() {
  live_.fetch_sub(1, std::memory_order_relaxed);
  // A forked child has the parent's objects, and no driver that knows them.
  if (forks_ != ForkGeneration()) return;
  recordings_.Clear();
  if (joined_) pool_->Leave(sizes_);
  for (const Io& io : io_)
    if (io.staging != nullptr) cl_.releaseMemObject(io.staging);
  if (timed_ != nullptr) cl_.releaseCommandQueue(timed_);
}

// ---- binding

Binding* CommandList::NewBinding() {
  std::lock_guard<std::mutex> lock(bindings_mutex_);
  if (free_.empty()) {
    free_.reserve(bindings_.size() + 1);
    bindings_.push_back(std::make_unique<Binding>());
    bindings_.back()->entries.resize(io_.size());
    return bindings_.back().get();
  }
  Binding* binding = free_.back();
  free_.pop_back();
  return binding;
}

void CommandList::Release(Binding* binding) {
  for (Binding::Entry& entry : binding->entries) {
    if (entry.registration != nullptr) MemoryTable::Get().Release(entry.handle);
    entry = {};
  }
  std::lock_guard<std::mutex> lock(bindings_mutex_);
  free_.push_back(binding);
}

Status CommandList::BindOne(const Qnn_TensorV1_t& given, const Io& io, bool strict,
                            Binding::Entry* entry) const {
  if (entry->given) return io.Refuse("it was given twice");
  if (!SameTypeAndShape(given, io.data_type, io.shape) &&
      !(io.scalar && SameTypeAndShape(given, io.data_type, io.other_shape)))
    return io.Refuse("what was given has another shape or type");
  if (given.memType == QNN_TENSORMEMTYPE_MEMHANDLE) {
    QNNRT_ASSIGN_OR_RETURN(entry->registration,
                           MemoryTable::Get().Acquire(given.memHandle, context_, io));
    entry->handle = given.memHandle;
  } else if (io.nbytes != 0 && !RawHolds(given, io.nbytes)) {
    return io.Refuse("its RAW memory is missing or too small");
  } else if (strict && io.nbytes != 0) {
    return io.Refuse(
        "its RAW memory would be copied, which the graph's option STRICT forbids: use a memory "
        "handle");
  } else {
    entry->data = given.clientBuf.data;
  }
  entry->given = true;
  return Status::Ok();
}

Status CommandList::Match(const Qnn_Tensor_t* tensors, uint32_t count, size_t first, size_t end,
                          bool strict, Binding* binding) const {
  for (uint32_t i = 0; i < count; ++i) {
    const Qnn_TensorV1_t& given = tensors[i].v1;  // version 2 begins with the same fields
    const size_t at =
        FindId(given.id, first + i, first, end, [this](size_t k) { return io_[k].id; });
    if (at == end)
      return Status(QNN_GRAPH_ERROR_INVALID_TENSOR, "the graph has no such input or output");
    if (!HasKnownVersion(tensors[i])) return io_[at].Refuse("its tensor version is unknown");
    QNNRT_RETURN_IF_ERROR(BindOne(given, io_[at], strict, &binding->entries[at]));
  }
  return Status::Ok();
}

Result<Binding*> CommandList::Bind(const Qnnrt_Tensors_t& given) {
  const auto release = [this](Binding* binding) { Release(binding); };
  std::unique_ptr<Binding, decltype(release)> binding(NewBinding(), release);
  const bool strict = given.strict != 0;
  QNNRT_RETURN_IF_ERROR(Match(given.inputs, given.num_inputs, 0, inputs_, strict, binding.get()));
  QNNRT_RETURN_IF_ERROR(
      Match(given.outputs, given.num_outputs, inputs_, io_.size(), strict, binding.get()));
  for (size_t i = 0; i < io_.size(); ++i)
    if (!binding->entries[i].given) return io_[i].Refuse("it was not given");
  return binding.release();
}

// ---- counters

void CommandList::Unbind(const void* mem) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (Io& io : io_)
    if (io.bound == mem) io.bound = nullptr;
  recordings_.Forget(reinterpret_cast<uintptr_t>(mem));
}

void CommandList::Counts(Qnnrt_OpenClCounts_t* counts, uint64_t* copied) const {
  *counts = {executes_,       kernels_, writes_,     reads_,     written_bytes_, read_bytes_,
             reserved_bytes_, given_,   taken_back_, arguments_, recorded_};
  for (size_t i = 0; copied != nullptr && i < io_.size(); ++i) copied[i] = io_[i].copied;
}

void CommandList::Reset() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (Counter* counter : {&executes_, &kernels_, &writes_, &reads_, &written_bytes_, &read_bytes_,
                           &given_, &taken_back_, &arguments_, &recorded_})
    counter->Set(0);
  for (Io& io : io_) io.copied.Set(0);
}

}  // namespace qnnrt::opencl
