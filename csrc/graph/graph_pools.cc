// Graphs whose scratch and persistent memory are the client's.
#include <algorithm>
#include <cinttypes>

#include "abi/qnn_errors.h"
#include "abi/qnn_objects.h"
#include "graph/graph.h"
#include "support/checked.h"

namespace qnnrt {
namespace {

constexpr uint64_t kKernelAlignment = 64;  // of everything that kernels are given

uint8_t* KernelBoundary(uint8_t* address) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(address);
  return address + (AlignUp(begin, kKernelAlignment) - begin);
}

}  // namespace

Graph::Graph(std::string name, uint64_t context, GraphOptions options, GraphHost host)
    : name_(std::move(name)),
      context_(context),
      host_(std::move(host)),
      options_(options),
      pools_(host_.client_memory ? new Pools{{PoolKind::kScratch, name_, this},
                                             {PoolKind::kPersistent, name_, this},
                                             {}}
                                 : nullptr) {}

void Graph::UseClientMemory(PlanOptions* options) const {
  if (pools_ == nullptr) return;
  options->client_memory = true;
  if (!options_.exclude_io)
    options->io_alignment = std::max<uint64_t>(host_.start_alignment, kKernelAlignment);
}

Status Graph::NeedsClientMemory() const {
  if (pools_ != nullptr) return Status::Ok();
  return Error(QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
               "graph '%s' is on a backend that has its own scratch and persistent memory",
               name_.c_str());
}

// ---- Sizes ----

PoolSizes Graph::SizesOf(const Plan& plan) const {
  // Room to find a boundary that kernels need, where the client's may be finer.
  const uint64_t room =
      kKernelAlignment - std::min<uint64_t>(host_.start_alignment, kKernelAlignment);
  const auto size = [&](uint64_t bytes) {
    return bytes == 0 ? 0 : AlignUp(bytes + room, host_.size_alignment);
  };
  return {size(plan.arena().peak), size(plan.persistent_bytes())};
}

std::optional<PoolSizes> Graph::pool_sizes() const {
  if (pools_ == nullptr || AnyPlan() == nullptr) return std::nullopt;
  return SizesOf(*AnyPlan());
}

Result<PoolSizes> Graph::Prepare() {
  auto lock = Lock();
  QNNRT_RETURN_IF_ERROR(NeedsClientMemory());
  if (AnyPlan() == nullptr)
    QNNRT_RETURN_IF_ERROR(declared_ ? MakeDeferred(&prepared_) : MakePlan(nullptr, {}, &prepared_));
  return SizesOf(*AnyPlan());
}

// ---- Taking memory ----

// `needed`: 0 where it is not known yet.
Status Graph::CheckPool(const char* what, const void* address, uint64_t size,
                        uint64_t needed) const {
  constexpr ErrorCode kCode = QNN_GRAPH_ERROR_INVALID_ARGUMENT;
  if (reinterpret_cast<uintptr_t>(address) % host_.start_alignment != 0) {
    return Error(kCode,
                 "graph '%s': its %s begins at %p; needed is an address that is a multiple of %u",
                 name_.c_str(), what, address, host_.start_alignment);
  }
  if (size < needed) {
    return Error(kCode, "graph '%s': its %s has %" PRIu64 " bytes, needed are %" PRIu64,
                 name_.c_str(), what, size, needed);
  }
  if (size % host_.size_alignment != 0) {
    return Error(kCode,
                 "graph '%s': its %s has %" PRIu64
                 " bytes; needed is a size that is a multiple of %u",
                 name_.c_str(), what, size, host_.size_alignment);
  }
  return Status::Ok();
}

Status Graph::SetScratch(void* address, uint64_t size) {
  auto lock = Lock();
  QNNRT_RETURN_IF_ERROR(NeedsClientMemory());
  if (address == nullptr) {
    pools_->scratch.Reset();
    return Status::Ok();
  }
  const uint64_t needed = AnyPlan() == nullptr ? 0 : SizesOf(*AnyPlan()).scratch;
  QNNRT_RETURN_IF_ERROR(CheckPool("scratch memory", address, size, needed));
  QNNRT_RETURN_IF_ERROR(pools_->scratch.Hold(address, size));
  if (finalized()) PointAtPools(plan_.get());
  return Status::Ok();
}

Status Graph::SetPersistent(void* address, uint64_t size) {
  auto lock = Lock();
  QNNRT_RETURN_IF_ERROR(NeedsClientMemory());
  if (finalized()) {
    return Error(QNN_GRAPH_ERROR_GRAPH_FINALIZED,
                 "graph '%s' is finalized: its persistent memory stays until the context is freed",
                 name_.c_str());
  }
  if (address == nullptr) {
    pools_->persistent.Reset();
    return Status::Ok();
  }
  const uint64_t needed = AnyPlan() == nullptr ? 0 : SizesOf(*AnyPlan()).persistent;
  QNNRT_RETURN_IF_ERROR(CheckPool("persistent memory", address, size, needed));
  return pools_->persistent.Hold(address, size);
}

// Memory that was given before the plan was made is checked against it.
Status Graph::CheckPools(const Plan& plan) const {
  const PoolSizes sizes = SizesOf(plan);
  const auto check = [&](const char* what, const ClientPool& pool, uint64_t needed) {
    if (needed == 0) return Status::Ok();
    if (pool.address() != nullptr) {
      QNNRT_RETURN_IF_ERROR(CheckPool(what, pool.address(), pool.size(), needed));
      return pool.CheckUsable();
    }
    return Error(QNN_GRAPH_ERROR_INVALID_ARGUMENT,
                 "graph '%s' has no %s: needed are %" PRIu64
                 " bytes at a multiple of %u, given by graphSetConfig before graphFinalize",
                 name_.c_str(), what, needed, host_.start_alignment);
  };
  QNNRT_RETURN_IF_ERROR(check("scratch memory", pools_->scratch, sizes.scratch));
  return check("persistent memory", pools_->persistent, sizes.persistent);
}

void Graph::PointAtPools(Plan* plan) const {
  const auto base = [](const ClientPool& pool) {
    return pool.address() == nullptr ? nullptr : KernelBoundary(pool.address());
  };
  plan->SetArenaBase(base(pools_->scratch));
  if (plan->persistent_bytes() != 0) plan->SetPersistentBase(base(pools_->persistent));
}

Status Graph::ResetState() {
  auto lock = Lock();
  if (!finalized()) return NotFinalized();
  if (pools_ != nullptr) QNNRT_RETURN_IF_ERROR(pools_->persistent.CheckUsable());
  plan_->ResetState();
  return Status::Ok();
}

// ---- Inputs and outputs in the scratch memory ----

Status Graph::CheckScratch() const {
  const Plan& plan = *AnyPlan();
  if (plan.arena().peak == 0 || pools_->scratch.address() != nullptr)
    return pools_->scratch.CheckUsable();
  return Error(QNN_GRAPH_ERROR_INVALID_ARGUMENT,
               "graph '%s' has no scratch memory: it was taken away, and needed are %" PRIu64
               " bytes for every execution",
               name_.c_str(), SizesOf(plan).scratch);
}

Result<void*> Graph::IoAddress(uint32_t id) {
  auto lock = Lock();
  QNNRT_RETURN_IF_ERROR(NeedsClientMemory());
  if (AnyPlan() == nullptr) return NotFinalized();
  const auto find = [id](const std::vector<const Tensor*>& tensors) {
    return static_cast<size_t>(std::find_if(tensors.begin(), tensors.end(),
                                            [id](const Tensor* t) { return t->id == id; }) -
                               tensors.begin());
  };
  size_t app_tensor = find(inputs_);
  if (app_tensor == inputs_.size()) app_tensor += find(outputs_);
  if (app_tensor == inputs_.size() + outputs_.size()) {
    return Error(QNN_GRAPH_ERROR_INVALID_TENSOR, "graph '%s' has no input or output of id %u",
                 name_.c_str(), id);
  }
  if (options_.exclude_io) {
    return Error(QNN_GRAPH_ERROR_INVALID_TENSOR,
                 "graph '%s': its inputs and outputs are not allocated in the scratch memory "
                 "(EXCLUDE_IO)",
                 name_.c_str());
  }
  QNNRT_RETURN_IF_ERROR(CheckScratch());
  uint8_t* base = KernelBoundary(pools_->scratch.address());
  return static_cast<void*>(base + AnyPlan()->IoOffset(app_tensor));
}

// ---- Executions ----

Status Graph::WrongAlignment(const Qnn_TensorV1_t& given, const AppTensor& expected) const {
  const char* name = expected.tensor->name.c_str();
  const uintptr_t address = reinterpret_cast<uintptr_t>(given.clientBuf.data);
  if ((address & expected.raw_misaligned) != 0) {
    return Error(QNN_GRAPH_ERROR_INVALID_TENSOR,
                 "tensor '%s': its client buffer begins at %p; needed is a multiple of %zu", name,
                 given.clientBuf.data, static_cast<size_t>(expected.raw_misaligned + 1));
  }
  return Error(QNN_GRAPH_ERROR_INVALID_TENSOR,
               "tensor '%s': its client buffer has %u bytes; needed are exactly %" PRIu64
               ", or more by a multiple of %u",
               name, given.clientBuf.dataSize, expected.bytes, host_.size_alignment);
}

// Whether this tensor is used where it is allocated in the scratch memory: no address was given, or
// the one that an earlier execution wrote into the very same client tensor.
bool Graph::InScratch(const Binding& binding, size_t app_tensor) const {
  const Binding::Entry& entry = binding.entries[app_tensor];
  if (entry.handle != 0) return false;
  if (entry.address == nullptr) return true;
  const Pools::Reported& reported = pools_->reported[app_tensor];
  return reported.tensor != nullptr && reported.address == entry.address &&
         reported.tensor == binding.outputs[app_tensor];
}

Status Graph::CheckInPools(const Binding& binding) const {
  QNNRT_RETURN_IF_ERROR(CheckScratch());
  QNNRT_RETURN_IF_ERROR(pools_->persistent.CheckUsable());
  const auto overlaps = [](const void* address, uint64_t bytes, const void* pool, uint64_t size) {
    const uintptr_t a = reinterpret_cast<uintptr_t>(address);
    const uintptr_t p = reinterpret_cast<uintptr_t>(pool);
    return a < p + size && p < a + bytes;
  };
  const PoolSizes needed = SizesOf(*plan_);
  for (size_t i = 0; i < app_.size(); ++i) {
    if (InScratch(binding, i)) continue;
    const void* address = binding.entries[i].address;
    const bool scratch =
        overlaps(address, app_[i].bytes, pools_->scratch.address(), needed.scratch) &&
        (options_.exclude_io || address != plan_->IoAddress(i));
    if (!scratch && !overlaps(address, app_[i].bytes, pools_->persistent.address(),
                              pools_->persistent.size())) {
      continue;
    }
    return Error(QNN_GRAPH_ERROR_INVALID_TENSOR,
                 "tensor '%s': its memory, %" PRIu64
                 " bytes at %p, overlaps the %s memory of the "
                 "graph and is not the allocation of the tensor there",
                 app_[i].tensor->name.c_str(), app_[i].bytes, address,
                 scratch ? "scratch" : "persistent");
  }
  return Status::Ok();
}

void Graph::ApplyInPools(const Binding& binding) {
  for (size_t i = 0; i < patched_.size(); ++i)
    Patch(i, InScratch(binding, i) ? plan_->IoAddress(i) : binding.entries[i].address);
}

void Graph::ReportOutputs(const Binding& binding) {
  if (!binding.report_outputs) return;
  for (size_t i = inputs_.size(); i < app_.size(); ++i) {
    Qnn_Tensor_t* tensor = binding.outputs[i];
    if (tensor == nullptr || !InScratch(binding, i)) continue;
    void* address = plan_->IoAddress(i);
    tensor->v1.clientBuf.data = address;
    tensor->v1.clientBuf.dataSize =
        static_cast<uint32_t>(std::min<uint64_t>(app_[i].bytes, UINT32_MAX));
    pools_->reported[i] = {tensor, address};
  }
}

}  // namespace qnnrt
