#include "memory/memory_api.h"

#include "abi/qnn_errors.h"
#include "memory/memory.h"
#include "support/guard.h"
#include "support/per_thread.h"

using qnnrt::Buffer;
using qnnrt::BufferPin;
using qnnrt::Error;
using qnnrt::Hold;
using qnnrt::Memory;
using qnnrt::Status;

static_assert(QNNRT_BUFFER_IMPORTED == qnnrt::kBufferImported, "");
static_assert(QNNRT_BUFFER_WRAPPED == qnnrt::kBufferWrapped, "");
static_assert(QNNRT_BUFFER_RPCMEM == qnnrt::kBufferRpcmem, "");
static_assert(QNNRT_BUFFER_CAN_SHRINK == qnnrt::kBufferCanShrink, "");
static_assert(QNNRT_BUFFER_READ_ONLY == qnnrt::kBufferReadOnly, "");
static_assert(QNNRT_BUFFER_EXPORTED == qnnrt::kBufferExported, "");
static_assert(QNNRT_BUFFER_DMA_BUF == qnnrt::kBufferDmaBuf, "");
static_assert(QNNRT_BUFFER_COHERENT == qnnrt::kBufferCoherent, "");
static_assert(QNNRT_BUFFER_INHERITED == qnnrt::kBufferInherited, "");

namespace {

qnnrt::LastStatus& Errors() {
  static qnnrt::LastStatus errors;
  return errors;
}

uint64_t Code(const Status& status) {
  if (!status.ok()) Errors().Set(status);
  return status.code();
}

// Runs an entry, a Status: no exception leaves a C function.
template <typename F>
uint64_t Guarded(F call) {
  return qnnrt::Contained([&] { return Code(call()); }, Code);
}

Status NullOutput() {
  return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT, "expected a pointer for the result, got null");
}

Status Stale(qnnrt_buffer_t handle) {
  return Error(QNN_MEM_ERROR_INVALID_HANDLE, "buffer handle 0x%llx was closed or never made",
               static_cast<unsigned long long>(handle));
}

qnnrt::BufferTable& Buffers() { return Memory::Get().buffers(); }

// Gives a new handle to the caller.
template <typename F>
uint64_t Make(qnnrt_buffer_t* out, F make) {
  return Guarded([&]() -> Status {
    if (!out) return NullOutput();
    *out = 0;
    QNNRT_ASSIGN_OR_RETURN(*out, make());
    return Status::Ok();
  });
}

// f(pinned buffer), a Status; `out` is where it delivers.
template <typename F>
uint64_t With(qnnrt_buffer_t buffer, const void* out, F f) {
  return Guarded([&]() -> Status {
    if (!out) return NullOutput();
    const BufferPin b = Memory::Get().Pin(buffer);
    return b ? f(b) : Stale(buffer);
  });
}

uint64_t Access(qnnrt_buffer_t buffer, uint32_t access, qnnrt::SyncPoint point) {
  return Guarded([&]() -> Status {
    if (access == 0 || access > (QNNRT_ACCESS_READ | QNNRT_ACCESS_WRITE)) {
      return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT,
                   "access %u: expected QNNRT_ACCESS_READ, QNNRT_ACCESS_WRITE or both", access);
    }
    const BufferPin b = Memory::Get().Pin(buffer);
    if (!b) return Stale(buffer);
    return Buffers().Sync(b.get(), static_cast<qnnrt::CpuAccess>(access), point);
  });
}

}  // namespace

const char* qnnrt_last_error(void) { return Errors().Get().message().c_str(); }

// ---- Creation ----

uint64_t qnnrt_buffer_alloc(const char* heap, uint64_t nbytes, uint64_t alignment,
                            qnnrt_buffer_t* out) {
  return Make(out, [&] { return Memory::Get().Allocate(heap, nbytes, alignment); });
}

uint64_t qnnrt_buffer_import(int fd, uint64_t nbytes, uint64_t offset, qnnrt_buffer_t* out) {
  return Make(out, [&] { return Buffers().Import(fd, nbytes, offset); });
}

uint64_t qnnrt_buffer_wrap(void* address, uint64_t nbytes, int read_only, qnnrt_buffer_t* out) {
  return Make(out, [&] { return Buffers().Wrap(address, nbytes, read_only != 0); });
}

// ---- Lifetime ----

uint64_t qnnrt_buffer_retain(qnnrt_buffer_t buffer) {
  return Guarded([&] { return Buffers().Take(buffer, Hold::kOwner); });
}
uint64_t qnnrt_buffer_release(qnnrt_buffer_t buffer) {
  return Guarded([&] { return Buffers().Release(buffer); });
}
uint64_t qnnrt_buffer_close(qnnrt_buffer_t buffer) {
  return Guarded([&] { return Memory::Get().Close(buffer); });
}
uint64_t qnnrt_buffer_export_begin(qnnrt_buffer_t buffer) {
  return Guarded([&] { return Buffers().Take(buffer, Hold::kExport); });
}
uint64_t qnnrt_buffer_export_end(qnnrt_buffer_t buffer) {
  return Guarded([&] { return Buffers().Drop(buffer, Hold::kExport); });
}
uint64_t qnnrt_buffer_execution_begin(qnnrt_buffer_t buffer) {
  return Guarded([&] { return Buffers().Take(buffer, Hold::kExecution); });
}
uint64_t qnnrt_buffer_execution_end(qnnrt_buffer_t buffer) {
  return Guarded([&] { return Buffers().Drop(buffer, Hold::kExecution); });
}

// ---- Queries ----

uint64_t qnnrt_buffer_info(qnnrt_buffer_t buffer, qnnrt_buffer_info_t* out) {
  return With(buffer, out, [&](const BufferPin& b) {
    out->address = b->address;
    out->nbytes = b->nbytes;
    out->mapped = b->mapped;
    out->fd_offset = b->fd_offset;
    out->fd_size = b->fd_size;
    out->heap = b->heap_name();
    out->flags = b->flags.load(std::memory_order_relaxed);
    out->owners = b->owners.load(std::memory_order_relaxed);
    out->exports = b->exports.load(std::memory_order_relaxed);
    out->registrations = b->registrations.load(std::memory_order_relaxed);
    out->executions = b->executions.load(std::memory_order_relaxed);
    return Status::Ok();
  });
}

uint64_t qnnrt_buffer_fd(qnnrt_buffer_t buffer, int* out) {
  if (out) *out = -1;
  return With(buffer, out, [&](const BufferPin& b) -> Status {
    QNNRT_ASSIGN_OR_RETURN(*out, Buffers().ExportFd(b.get()));
    return Status::Ok();
  });
}

uint64_t qnnrt_buffer_borrow_fd(qnnrt_buffer_t buffer, int* out) {
  if (out) *out = -1;
  return With(buffer, out, [&](const BufferPin& b) {
    if (b->fd < 0)
      return Error(QNN_COMMON_ERROR_NOT_SUPPORTED, "%s memory has no fd", b->heap_name());
    *out = b->fd;
    return Status::Ok();
  });
}

uint64_t qnnrt_buffer_lookup(const void* address, qnnrt_buffer_t* out, uint64_t* offset) {
  return Guarded([&]() -> Status {
    if (!out || !offset) return NullOutput();
    *out = 0;
    *offset = 0;
    const BufferPin b(&Buffers(), Buffers().PinByAddress(address));
    if (!b) {
      return Error(QNN_MEM_ERROR_INVALID_HANDLE, "no shared buffer holds the address %p", address);
    }
    const uint64_t distance =
        reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(b->address);
    const qnnrt_buffer_t handle = b->handle;
    QNNRT_RETURN_IF_ERROR(Buffers().Take(handle, Hold::kOwner));
    *out = handle;
    *offset = distance;
    return Status::Ok();
  });
}

uint64_t qnnrt_buffer_check_alive(qnnrt_buffer_t buffer) {
  return Guarded([&] {
    const BufferPin b = Memory::Get().Pin(buffer);
    return b ? Buffers().CheckAlive(b.get()) : Stale(buffer);
  });
}

uint64_t qnnrt_buffer_access_begin(qnnrt_buffer_t buffer, uint32_t access) {
  return Access(buffer, access, qnnrt::SyncPoint::kBegin);
}
uint64_t qnnrt_buffer_access_end(qnnrt_buffer_t buffer, uint32_t access) {
  return Access(buffer, access, qnnrt::SyncPoint::kEnd);
}

// ---- Heaps and the pool ----

uint64_t qnnrt_heap_info(uint32_t index, qnnrt_heap_info_t* out) {
  return Guarded([&]() -> Status {
    if (!out) return NullOutput();
    const qnnrt::HeapSet& heaps = Memory::Get().heaps();
    if (index >= heaps.all().size()) {
      return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT, "heap %u: there are %zu", index,
                   heaps.all().size());
    }
    const qnnrt::HeapStatus& heap = heaps.all()[index];
    const qnnrt::StatisticsHeap::Totals totals = Memory::Get().HeapTotals(heap.name);
    *out = {};
    out->name = heap.name;
    out->reason = heap.reason.c_str();
    out->available = heap.heap != nullptr;
    out->is_default = heap.heap && heap.heap == heaps.default_heap();
    out->coherent = heap.heap && heap.heap->coherent();
    out->live_bytes = totals.live_bytes;
    out->peak_bytes = totals.peak_bytes;
    out->live_allocations = totals.live_allocations;
    out->allocations = totals.allocations;
    out->failures = totals.failures;
    return Status::Ok();
  });
}

const char* qnnrt_heap_default_reason(void) {
  return qnnrt::Contained([] { return Memory::Get().heaps().default_reason().c_str(); },
                          [](const Status&) { return ""; });
}

uint64_t qnnrt_pool_info(qnnrt_pool_info_t* out) {
  return Guarded([&] {
    if (!out) return NullOutput();
    const qnnrt::ReusePool::Stats stats = Memory::Get().pool().stats();
    *out = {stats.limit, stats.bytes, stats.entries, stats.hits, stats.misses, stats.evictions};
    return Status::Ok();
  });
}

uint64_t qnnrt_pool_set_limit(uint64_t bytes) {
  return Guarded([&] {
    Memory::Get().pool().SetLimit(bytes);
    return Status::Ok();
  });
}

uint64_t qnnrt_pool_trim(uint64_t keep_bytes) {
  return qnnrt::Contained([&] { return Memory::Get().Trim(keep_bytes); },
                          [](const Status&) { return uint64_t{0}; });
}

void qnnrt_memory_counts(qnnrt_memory_counts_t* out) {
  if (!out) return;
  *out = {};
  qnnrt::Contained([&] {
    qnnrt::Counters& counters = Memory::Get().counters();
    out->buffers = counters.buffers.load(std::memory_order_relaxed);
    out->maps = counters.maps.load(std::memory_order_relaxed);
    out->fds = counters.fds.load(std::memory_order_relaxed);
    out->handles = counters.handles.load(std::memory_order_relaxed);
    out->unknown_frees = counters.unknown_frees.load(std::memory_order_relaxed);
    out->late_frees = counters.late_frees.load(std::memory_order_relaxed);
  });
}

void qnnrt_memory_fail_nth(int64_t nth) {
  qnnrt::Contained([&] { Memory::Get().FailNth(nth); });
}
