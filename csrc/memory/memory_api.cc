#include "memory/memory_api.h"

#include <new>
#include <string>

#include "abi/qnn_errors.h"
#include "memory/memory.h"

using qnnrt::Buffer;
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

thread_local std::string t_last_error;

uint64_t Code(const Status& status) {
  if (status.ok()) return 0;
  t_last_error = status.message();
  return status.code();
}

Status NullOutput() {
  return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT, "expected a pointer for the result, got null");
}

// Pins a buffer during a call.
class Pinned {
 public:
  explicit Pinned(qnnrt_buffer_t handle) : b_(Memory::Get().buffers().Pin(handle)) {
    if (!b_) {
      status_ = Error(QNN_MEM_ERROR_INVALID_HANDLE, "buffer handle 0x%llx was closed or never made",
                      static_cast<unsigned long long>(handle));
    }
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned() {
    if (b_) Memory::Get().buffers().Unpin(b_);
  }
  explicit operator bool() const { return b_ != nullptr; }
  Buffer* operator->() const { return b_; }
  Buffer* get() const { return b_; }
  uint64_t error() const { return Code(status_); }

 private:
  Buffer* b_;
  Status status_;
};

// No exception leaves a C function.
template <typename F>
uint64_t Guarded(F call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    t_last_error = "out of memory";  // short enough to need none
    return QNN_COMMON_ERROR_MEM_ALLOC;
  }
}

uint64_t Deliver(qnnrt::Result<qnnrt::SlotHandle> made, qnnrt_buffer_t* out) {
  if (!made.ok()) return Code(made.status());
  *out = *made;
  return 0;
}

uint64_t Access(qnnrt_buffer_t buffer, uint32_t access, qnnrt::SyncPoint point) {
  if (access == 0 || access > (QNNRT_ACCESS_READ | QNNRT_ACCESS_WRITE)) {
    return Code(Error(QNN_COMMON_ERROR_INVALID_ARGUMENT,
                      "access %u: expected QNNRT_ACCESS_READ, QNNRT_ACCESS_WRITE or both", access));
  }
  Pinned b(buffer);
  if (!b) return b.error();
  return Code(Memory::Get().buffers().Sync(b.get(), static_cast<qnnrt::CpuAccess>(access), point));
}

}  // namespace

const char* qnnrt_last_error(void) { return t_last_error.c_str(); }

// ---- Creation ----

uint64_t qnnrt_buffer_alloc(const char* heap, uint64_t nbytes, uint64_t alignment,
                            qnnrt_buffer_t* out) {
  if (!out) return Code(NullOutput());
  *out = 0;
  return Guarded([&] { return Deliver(Memory::Get().Allocate(heap, nbytes, alignment), out); });
}

uint64_t qnnrt_buffer_import(int fd, uint64_t nbytes, uint64_t offset, qnnrt_buffer_t* out) {
  if (!out) return Code(NullOutput());
  *out = 0;
  return Guarded([&] { return Deliver(Memory::Get().buffers().Import(fd, nbytes, offset), out); });
}

uint64_t qnnrt_buffer_wrap(void* address, uint64_t nbytes, int read_only, qnnrt_buffer_t* out) {
  if (!out) return Code(NullOutput());
  *out = 0;
  return Guarded(
      [&] { return Deliver(Memory::Get().buffers().Wrap(address, nbytes, read_only != 0), out); });
}

// ---- Lifetime ----

uint64_t qnnrt_buffer_retain(qnnrt_buffer_t buffer) {
  return Code(Memory::Get().buffers().Take(buffer, Hold::kOwner));
}
uint64_t qnnrt_buffer_release(qnnrt_buffer_t buffer) {
  return Guarded([&] { return Code(Memory::Get().buffers().Release(buffer)); });
}
uint64_t qnnrt_buffer_close(qnnrt_buffer_t buffer) {
  return Guarded([&] { return Code(Memory::Get().Close(buffer)); });
}
uint64_t qnnrt_buffer_export_begin(qnnrt_buffer_t buffer) {
  return Code(Memory::Get().buffers().Take(buffer, Hold::kExport));
}
uint64_t qnnrt_buffer_export_end(qnnrt_buffer_t buffer) {
  return Code(Memory::Get().buffers().Drop(buffer, Hold::kExport));
}
uint64_t qnnrt_buffer_execution_begin(qnnrt_buffer_t buffer) {
  return Code(Memory::Get().buffers().Take(buffer, Hold::kExecution));
}
uint64_t qnnrt_buffer_execution_end(qnnrt_buffer_t buffer) {
  return Code(Memory::Get().buffers().Drop(buffer, Hold::kExecution));
}

// ---- Queries ----

uint64_t qnnrt_buffer_info(qnnrt_buffer_t buffer, qnnrt_buffer_info_t* out) {
  if (!out) return Code(NullOutput());
  Pinned b(buffer);
  if (!b) return b.error();
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
  return 0;
}

uint64_t qnnrt_buffer_fd(qnnrt_buffer_t buffer, int* out) {
  if (!out) return Code(NullOutput());
  *out = -1;
  Pinned b(buffer);
  if (!b) return b.error();
  auto fd = Memory::Get().buffers().ExportFd(b.get());
  if (!fd.ok()) return Code(fd.status());
  *out = *fd;
  return 0;
}

uint64_t qnnrt_buffer_borrow_fd(qnnrt_buffer_t buffer, int* out) {
  if (!out) return Code(NullOutput());
  *out = -1;
  Pinned b(buffer);
  if (!b) return b.error();
  if (b->fd < 0) {
    return Code(Error(QNN_COMMON_ERROR_NOT_SUPPORTED, "%s memory has no fd", b->heap_name()));
  }
  *out = b->fd;
  return 0;
}

uint64_t qnnrt_buffer_lookup(const void* address, qnnrt_buffer_t* out, uint64_t* offset) {
  if (!out || !offset) return Code(NullOutput());
  *out = 0;
  *offset = 0;
  qnnrt::BufferTable& buffers = Memory::Get().buffers();
  Buffer* b = buffers.PinByAddress(address);
  if (!b) {
    return Code(
        Error(QNN_MEM_ERROR_INVALID_HANDLE, "no shared buffer holds the address %p", address));
  }
  const uint64_t distance =
      reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(b->address);
  const qnnrt_buffer_t handle = b->handle;
  Status status = buffers.Take(handle, Hold::kOwner);
  buffers.Unpin(b);
  if (!status.ok()) return Code(status);
  *out = handle;
  *offset = distance;
  return 0;
}

uint64_t qnnrt_buffer_check_alive(qnnrt_buffer_t buffer) {
  Pinned b(buffer);
  if (!b) return b.error();
  return Code(Memory::Get().buffers().CheckAlive(b.get()));
}

uint64_t qnnrt_buffer_access_begin(qnnrt_buffer_t buffer, uint32_t access) {
  return Access(buffer, access, qnnrt::SyncPoint::kBegin);
}
uint64_t qnnrt_buffer_access_end(qnnrt_buffer_t buffer, uint32_t access) {
  return Access(buffer, access, qnnrt::SyncPoint::kEnd);
}

// ---- Heaps and the pool ----

uint64_t qnnrt_heap_info(uint32_t index, qnnrt_heap_info_t* out) {
  if (!out) return Code(NullOutput());
  const qnnrt::HeapSet& heaps = Memory::Get().heaps();
  if (index >= heaps.all().size()) {
    return Code(Error(QNN_COMMON_ERROR_INVALID_ARGUMENT, "heap %u: there are %zu", index,
                      heaps.all().size()));
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
  return 0;
}

const char* qnnrt_heap_default_reason(void) {
  return Memory::Get().heaps().default_reason().c_str();
}

uint64_t qnnrt_pool_info(qnnrt_pool_info_t* out) {
  if (!out) return Code(NullOutput());
  const qnnrt::ReusePool::Stats stats = Memory::Get().pool().stats();
  *out = {stats.limit, stats.bytes, stats.entries, stats.hits, stats.misses, stats.evictions};
  return 0;
}

uint64_t qnnrt_pool_set_limit(uint64_t bytes) {
  Memory::Get().pool().SetLimit(bytes);
  return 0;
}

uint64_t qnnrt_pool_trim(uint64_t keep_bytes) { return Memory::Get().pool().Trim(keep_bytes); }

void qnnrt_memory_counts(qnnrt_memory_counts_t* out) {
  if (!out) return;
  qnnrt::Counters& counters = Memory::Get().counters();
  out->buffers = counters.buffers.load(std::memory_order_relaxed);
  out->maps = counters.maps.load(std::memory_order_relaxed);
  out->fds = counters.fds.load(std::memory_order_relaxed);
  out->handles = counters.handles.load(std::memory_order_relaxed);
  out->unknown_frees = counters.unknown_frees.load(std::memory_order_relaxed);
  out->late_frees = counters.late_frees.load(std::memory_order_relaxed);
}

void qnnrt_memory_fail_nth(int64_t nth) { Memory::Get().FailNth(nth); }
