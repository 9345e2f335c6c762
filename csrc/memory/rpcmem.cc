#include "memory/rpcmem.h"

#include <new>
#include <string>

#include "memory/memory.h"
#include "memory/memory_api.h"

using qnnrt::Buffer;
using qnnrt::Memory;

namespace {

// The live rpcmem buffer that starts at `address`, pinned; null for anything else.
Buffer* PinBase(void* address) {
  if (!address) return nullptr;
  qnnrt::BufferTable& buffers = Memory::Get().buffers();
  Buffer* b = buffers.PinByAddress(address);
  if (!b) return nullptr;
  const bool live = b->Has(qnnrt::kBufferRpcmem) && b->owners.load(std::memory_order_relaxed) > 0;
  if (b->address == address && live) return b;
  buffers.Unpin(b);
  return nullptr;
}

int Aee(qnnrt::ClientMaps::Outcome outcome) {
  switch (outcome) {
    case qnnrt::ClientMaps::Outcome::kOk:
      return QNNRT_AEE_SUCCESS;
    case qnnrt::ClientMaps::Outcome::kAlready:
      return QNNRT_AEE_EALREADY;
    case qnnrt::ClientMaps::Outcome::kUnsupported:
      return QNNRT_AEE_EUNSUPPORTED;
    case qnnrt::ClientMaps::Outcome::kUnknown:
    case qnnrt::ClientMaps::Outcome::kBadArgument:
      break;
  }
  return QNNRT_AEE_EBADPARM;
}

}  // namespace

// Only the static library of the vendor needs these two.
void qnnrt_rpcmem_init(void) {}
void qnnrt_rpcmem_deinit(void) {}

void* qnnrt_rpcmem_alloc(int heapid, uint32_t flags, int size) {
  if (size <= 0) return nullptr;
  return qnnrt_rpcmem_alloc2(heapid, flags, static_cast<size_t>(size));
}

void* qnnrt_rpcmem_alloc2(int heapid, uint32_t flags, size_t size) try {
  (void)heapid;
  (void)flags;
  if (size == 0) return nullptr;
  Memory& memory = Memory::Get();
  auto handle = memory.Allocate(nullptr, size, 0, qnnrt::kBufferRpcmem);
  if (!handle.ok()) {
    memory.Warn("rpcmem_alloc: " + handle.status().message());
    return nullptr;
  }
  Buffer* b = memory.buffers().Pin(*handle);
  void* address = b->address;
  memory.buffers().Unpin(b);
  return address;
} catch (const std::bad_alloc&) {
  return nullptr;
}

void qnnrt_rpcmem_free(void* po) {
  if (!po) return;
  Memory& memory = Memory::Get();
  Buffer* b = PinBase(po);
  if (!b) {
    memory.counters().unknown_frees.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const qnnrt::SlotHandle handle = b->handle;
  const int registered = b->registrations.load(std::memory_order_relaxed);
  if (registered > 0 && !b->Has(qnnrt::kBufferInherited)) {
    memory.counters().late_frees.fetch_add(1, std::memory_order_relaxed);
    if (memory.strict()) {
      memory.Warn("rpcmem_free: the buffer is registered " + std::to_string(registered) +
                  " times and stays (QNNRT_STRICT); deregister its handles first");
      memory.buffers().Unpin(b);
      return;
    }
    uint32_t running = 0;
    const uint32_t gone = memory.registry().DeregisterBuffer(b, &running);
    memory.Warn("rpcmem_free: deregistered " + std::to_string(gone) +
                " memory handles of the buffer first" +
                (running ? "; " + std::to_string(running) + " in use keep it alive" : "") +
                "; call memDeRegister before rpcmem_free");
  }
  memory.buffers().Unpin(b);
  qnnrt::Status status = memory.buffers().Release(handle);
  if (!status.ok()) memory.Warn("rpcmem_free: " + status.message());
}

int qnnrt_rpcmem_to_fd(void* po) {
  Buffer* b = PinBase(po);
  if (!b) return -1;
  qnnrt::BufferTable& buffers = Memory::Get().buffers();
  int number = -1;
  try {
    auto fd = buffers.ExportFd(b);
    if (fd.ok()) number = *fd;
  } catch (const std::bad_alloc&) {  // no room in the index: -1, as for any other failure
  }
  buffers.Unpin(b);
  return number;
}

void qnnrt_remote_register_buf(void* buf, int size, int fd) {
  qnnrt_remote_register_buf_attr2(buf, size > 0 ? static_cast<size_t>(size) : 0, fd, 0);
}

void qnnrt_remote_register_buf_attr(void* buf, int size, int fd, int attr) {
  qnnrt_remote_register_buf_attr2(buf, size > 0 ? static_cast<size_t>(size) : 0, fd, attr);
}

void qnnrt_remote_register_buf_attr2(void* buf, size_t size, int fd, int attr) {
  (void)attr;  // how a device maps it; the CPU's view is the same
  (void)Memory::Get().client_maps().RegisterBuffer(buf, size, fd);
}

uint64_t qnnrt_remote_registered_bufs(void) {
  return Memory::Get().client_maps().registered_buffers();
}

int qnnrt_fastrpc_mmap(int domain, int fd, void* addr, int offset, size_t length, int flags) {
  return Aee(Memory::Get().client_maps().Map(domain, fd, addr, offset, length, flags));
}

int qnnrt_fastrpc_munmap(int domain, int fd, void* addr, size_t length) {
  return Aee(Memory::Get().client_maps().Unmap(domain, fd, addr, length));
}
