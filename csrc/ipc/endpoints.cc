#include <pthread.h>

#include <new>

#include "abi/qnn_errors.h"
#include "ipc/ring.h"
#include "memory/memory.h"
#include "support/guard.h"

namespace qnnrt::ipc {
namespace {

Endpoints* g_endpoints = nullptr;

Status Stale() { return Error(QNN_MEM_ERROR_INVALID_HANDLE, "this end of the ring was closed"); }

}  // namespace

// A forked child closes its copies of the locks, which would outlive its parent's death in them.
Endpoints& Endpoints::Get() {
  static Endpoints* endpoints = [] {
    Memory::Get();  // its locks are taken within this one's, by a fork too
    g_endpoints = new Endpoints();
    pthread_atfork([] { g_endpoints->mutex_.lock(); }, [] { g_endpoints->mutex_.unlock(); },
                   [] {
                     new (&g_endpoints->mutex_) std::mutex;
                     g_endpoints->slots_.ForEachLive([](SlotHandle handle, Endpoint& endpoint) {
                       endpoint.ForgetAfterFork();
                       g_endpoints->slots_.ForceRetire(handle);
                     });
                     g_endpoints->count_ = 0;
                   });
    return g_endpoints;
  }();
  return *endpoints;
}

Result<SlotHandle> Endpoints::Open(SlotHandle control, uint32_t role) {
  if (role > QNNRT_RING_CONSUMER) {
    return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT, "role %u: expected producer or consumer", role);
  }
  BufferPin b = Memory::Get().Pin(control);
  if (!b) {
    return Error(QNN_MEM_ERROR_INVALID_HANDLE, "buffer handle 0x%llx was closed or never made",
                 static_cast<unsigned long long>(control));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  SlotHandle handle = 0;
  Endpoint* endpoint = slots_.Insert(&handle);
  if (endpoint == nullptr)
    return Error(QNN_COMMON_ERROR_RESOURCE_UNAVAILABLE, "too many open ends of rings");
  Status status = Contained([&] { return endpoint->Open(b.get(), role); },
                            [](const Status& s) { return Status(s.code(), s.message()); });
  if (!status.ok()) {
    endpoint->ForgetAfterFork();
    slots_.Cancel(handle);
    return status;
  }
  BufferTable::Keep(b.release(), Hold::kExport);
  slots_.Publish(handle);
  ++count_;
  return handle;
}

Status Endpoints::Close(SlotHandle handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  switch (slots_.Retire(handle)) {
    case SlotTable<Endpoint>::Retired::kStale:
      return Stale();
    case SlotTable<Endpoint>::Retired::kPinned:
      return Error(QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
                   "another thread is using this end of the ring");
    case SlotTable<Endpoint>::Retired::kYes:
      break;
  }
  Endpoint* endpoint = slots_.Closed(handle);
  Buffer* buffer = endpoint->control();
  endpoint->Close();
  slots_.Recycle(handle);
  --count_;
  Memory::Get().buffers().ReleaseHold(buffer, Hold::kExport);
  return Status::Ok();
}

int64_t Endpoints::Count() {
  std::lock_guard<std::mutex> lock(mutex_);
  return count_;
}

}  // namespace qnnrt::ipc
