#include "memory/rpcmem.h"

#include <cstdio>

#include "abi/qnn_errors.h"
#include "memory/memory.h"
#include "memory/memory_api.h"
#include "support/guard.h"

using qnnrt::Buffer;
using qnnrt::BufferPin;
using qnnrt::BufferTable;
using qnnrt::Memory;
using qnnrt::Status;

namespace {

// The live rpcmem buffer that starts at `address`, pinned; null for anything else.
Buffer* PinBase(void* address) {
  if (!address) return nullptr;
  BufferTable& buffers = Memory::Get().buffers();
  BufferPin b(&buffers, buffers.PinByAddress(address));
  if (!b) return nullptr;
  const bool live = b->Has(qnnrt::kBufferRpcmem) && b->owners.load(std::memory_order_relaxed) > 0;
  return b->address == address && live ? b.release() : nullptr;
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

template <typename F>
int AeeOf(F call) {
  return qnnrt::Contained([&] { return Aee(call()); },
                          [](const Status& status) {
                            return status.code() == QNN_COMMON_ERROR_MEM_ALLOC ? QNNRT_AEE_ENOMEMORY
                                                                               : QNNRT_AEE_EBADPARM;
                          });
}

void Free(void* po) {
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
      memory.Warn(
          "rpcmem_free: the buffer is registered %d times and stays (QNNRT_STRICT); deregister its "
          "handles first",
          registered);
      memory.buffers().Unpin(b);
      return;
    }
    uint32_t running = 0;
    const uint32_t gone = memory.registry().DeregisterBuffer(b, &running);
    char in_use[64] = "";
    if (running != 0) std::snprintf(in_use, sizeof(in_use), "; %u in use keep it alive", running);
    memory.Warn(
        "rpcmem_free: deregistered %u memory handle%s of the buffer first%s; call memDeRegister "
        "before rpcmem_free",
        gone, gone == 1 ? "" : "s", in_use);
  }
  memory.buffers().Unpin(b);
  Status status = memory.buffers().Release(handle);
  if (!status.ok()) memory.Warn("rpcmem_free: %s", status.message().c_str());
}

}  // namespace

// Only the static library of the vendor needs these two.
void qnnrt_rpcmem_init(void) {}
void qnnrt_rpcmem_deinit(void) {}

void* qnnrt_rpcmem_alloc(int heapid, uint32_t flags, int size) {
  if (size <= 0) return nullptr;
  return qnnrt_rpcmem_alloc2(heapid, flags, static_cast<size_t>(size));
}

void* qnnrt_rpcmem_alloc2(int heapid, uint32_t flags, size_t size) {
  (void)heapid;
  (void)flags;
  if (size == 0) return nullptr;
  return qnnrt::Contained(
      [&]() -> void* {
        Memory& memory = Memory::Get();
        auto handle = memory.Allocate(nullptr, size, 0, qnnrt::kBufferRpcmem);
        if (!handle.ok()) {
          memory.Warn("rpcmem_alloc: %s", handle.status().message().c_str());
          return nullptr;
        }
        return memory.Pin(*handle)->address;
      },
      [](const Status&) -> void* { return nullptr; });
}

void qnnrt_rpcmem_free(void* po) {
  if (po) qnnrt::Contained([&] { Free(po); });
}

int qnnrt_rpcmem_to_fd(void* po) {
  return qnnrt::Contained(
      [&] {
        BufferTable& buffers = Memory::Get().buffers();
        const BufferPin b(&buffers, PinBase(po));
        if (!b) return -1;
        auto fd = buffers.ExportFd(b.get());  // without room in its index: as any other failure
        return fd.ok() ? *fd : -1;
      },
      [](const Status&) { return -1; });
}

void qnnrt_remote_register_buf(void* buf, int size, int fd) {
  qnnrt_remote_register_buf_attr2(buf, size > 0 ? static_cast<size_t>(size) : 0, fd, 0);
}

void qnnrt_remote_register_buf_attr(void* buf, int size, int fd, int attr) {
  qnnrt_remote_register_buf_attr2(buf, size > 0 ? static_cast<size_t>(size) : 0, fd, attr);
}

void qnnrt_remote_register_buf_attr2(void* buf, size_t size, int fd, int attr) {
  (void)attr;  // how a device maps it; the CPU's view is the same
  qnnrt::Contained([&] { (void)Memory::Get().client_maps().RegisterBuffer(buf, size, fd); });
}

uint64_t qnnrt_remote_registered_bufs(void) {
  return qnnrt::Contained([] { return Memory::Get().client_maps().registered_buffers(); },
                          [](const Status&) { return uint64_t{0}; });
}

int qnnrt_fastrpc_mmap(int domain, int fd, void* addr, int offset, size_t length, int flags) {
  return AeeOf(
      [&] { return Memory::Get().client_maps().Map(domain, fd, addr, offset, length, flags); });
}

int qnnrt_fastrpc_munmap(int domain, int fd, void* addr, size_t length) {
  return AeeOf([&] { return Memory::Get().client_maps().Unmap(domain, fd, addr, length); });
}
