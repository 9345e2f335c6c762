// qnnrt_lpai_allocator_*: memory/tcm.h behind handles, with a backend's settings and log.
#include <sched.h>

#include "abi/qnnrt_ext.h"
#include "api/runtime.h"

namespace qnnrt {
namespace {

using Allocators = HandleTable<LpaiAllocator, HandleKind::kLpaiAllocator>;

Allocators& All() { return Runtime::Get().lpai_allocators; }

Status Null(const char* what) {
  return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT, "%s must not be null", what);
}

Status Stale() {
  return Status(QNN_COMMON_ERROR_INVALID_ARGUMENT,
                "this is no live LPAI allocator: it was destroyed or never made");
}

Status Create(Qnn_BackendHandle_t handle, const char* mem_type, Qnnrt_LpaiAllocatorHandle_t* out) {
  auto object = Runtime::Get().backends.Find(handle);
  if (!object) return Status(QNN_COMMON_ERROR_INVALID_ARGUMENT, "this is no live backend handle");
  std::shared_ptr<Backend> backend = object->backend;
  if (backend->traits->custom_memory != CustomMem::kLpai) {
    return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT,
                 "%s is no lpai backend: memory for its clients comes from qnnrt_buffer_alloc",
                 backend->traits->provider);
  }
  LpaiAllocator::Options options;
  options.mem_type = mem_type;
  options.direct_mode = backend->lpai.direct_mode;
  options.start_alignment = backend->lpai.start_alignment;
  QNNRT_ASSIGN_OR_RETURN(
      auto made,
      LpaiAllocator::Make(options, [backend](QnnLog_Level_t level, const std::string& line) {
        if (backend->log != nullptr) backend->log->Write(level, "%s", line.c_str());
      }));
  *out = All().Add(std::move(made));
  if (*out == nullptr) {
    return Error(QNN_COMMON_ERROR_RESOURCE_UNAVAILABLE, "too many live LPAI allocators");
  }
  return Status::Ok();
}

Status Destroy(Qnnrt_LpaiAllocatorHandle_t handle) {
  {
    auto allocator = All().Find(handle);
    if (!allocator) return Stale();
    QNNRT_RETURN_IF_ERROR(allocator->Close());
  }
  // Once closed it refuses the calls that are still running.
  std::unique_ptr<LpaiAllocator> taken;
  const Allocators::Taken result = All().TakeDrained(handle, &taken, [] {
    sched_yield();
    return true;
  });
  return result == Allocators::Taken::kYes ? Status::Ok() : Stale();
}

// f(allocator), a Status.
template <typename F>
uint64_t With(Qnnrt_LpaiAllocatorHandle_t handle, F&& f) {
  return Guarded([&]() -> Qnn_ErrorHandle_t {
    auto allocator = All().Find(handle);
    return Report(allocator ? f(*allocator) : Stale());
  });
}

}  // namespace
}  // namespace qnnrt

using qnnrt::LpaiAllocator;
using qnnrt::Status;

extern "C" {

uint64_t qnnrt_lpai_allocator_create(Qnn_BackendHandle_t backend, const char* mem_type,
                                     Qnnrt_LpaiAllocatorHandle_t* allocator) {
  if (allocator == nullptr) return qnnrt::Report(qnnrt::Null("allocator"));
  *allocator = nullptr;
  return qnnrt::Guarded([&] { return qnnrt::Report(qnnrt::Create(backend, mem_type, allocator)); });
}

uint64_t qnnrt_lpai_allocator_alloc(Qnnrt_LpaiAllocatorHandle_t allocator, uint64_t nbytes,
                                    uint64_t* piece) {
  if (piece == nullptr) return qnnrt::Report(qnnrt::Null("piece"));
  *piece = 0;
  return qnnrt::With(allocator, [&](LpaiAllocator& a) -> Status {
    QNNRT_ASSIGN_OR_RETURN(*piece, a.Allocate(nbytes));
    return Status::Ok();
  });
}

uint64_t qnnrt_lpai_allocator_free(Qnnrt_LpaiAllocatorHandle_t allocator, uint64_t piece) {
  return qnnrt::With(allocator, [&](LpaiAllocator& a) { return a.Free(piece); });
}

uint64_t qnnrt_lpai_allocator_info(Qnnrt_LpaiAllocatorHandle_t allocator,
                                   Qnnrt_LpaiAllocatorInfo_t* info) {
  if (info == nullptr) return qnnrt::Report(qnnrt::Null("info"));
  *info = {};
  return qnnrt::With(allocator, [&](LpaiAllocator& a) -> Status {
    QNNRT_ASSIGN_OR_RETURN(LpaiAllocator::Info now, a.info());
    *info = {static_cast<uint32_t>(now.mem_type),
             now.fatal,
             now.pieces,
             now.max_pieces,
             now.used_bytes,
             now.pool_bytes,
             now.free_bytes};
    return Status::Ok();
  });
}

uint64_t qnnrt_lpai_allocator_destroy(Qnnrt_LpaiAllocatorHandle_t allocator) {
  return qnnrt::Guarded([&] { return qnnrt::Report(qnnrt::Destroy(allocator)); });
}

}  // extern "C"
