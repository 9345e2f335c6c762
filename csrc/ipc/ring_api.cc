#include "ipc/ring_api.h"

#include "ipc/entry.h"
#include "ipc/ring.h"

using qnnrt::Buffer;
using qnnrt::Error;
using qnnrt::Status;
using qnnrt::ipc::Endpoints;
using qnnrt::ipc::Entry;
using qnnrt::ipc::NullArgument;
using qnnrt::ipc::WithBuffer;

namespace {

// f(endpoint), a Status.
template <typename F>
uint64_t WithEndpoint(qnnrt_endpoint_t handle, const void* out, F f) {
  return Entry([&]() -> Status {
    if (out == nullptr) return NullArgument();
    qnnrt::ipc::Endpoint* endpoint = Endpoints::Get().Pin(handle);
    if (endpoint == nullptr) {
      return Error(QNN_MEM_ERROR_INVALID_HANDLE, "this end of the ring was closed");
    }
    struct Unpin {  // however f ends
      qnnrt_endpoint_t handle;
      ~Unpin() { Endpoints::Get().Unpin(handle); }
    } unpin{handle};
    return f(endpoint);
  });
}

}  // namespace

uint64_t qnnrt_ring_bytes(const qnnrt_ring_config_t* config) {
  return config == nullptr ? 0 : qnnrt::ipc::ControlBytes(*config);
}

uint64_t qnnrt_ring_format(qnnrt_buffer_t control, const qnnrt_ring_config_t* config) {
  return Entry([&]() -> Status {
    if (config == nullptr) return NullArgument();
    return WithBuffer(control, [&](Buffer* b) { return qnnrt::ipc::Format(b, *config); });
  });
}

uint64_t qnnrt_ring_open(qnnrt_buffer_t control, uint32_t role, qnnrt_endpoint_t* out) {
  return Entry([&]() -> Status {
    if (out == nullptr) return NullArgument();
    *out = 0;
    QNNRT_ASSIGN_OR_RETURN(*out, Endpoints::Get().Open(control, role));
    return Status::Ok();
  });
}

uint64_t qnnrt_ring_close(qnnrt_endpoint_t endpoint) {
  return Entry([&] { return Endpoints::Get().Close(endpoint); });
}

uint64_t qnnrt_ring_set_spin(qnnrt_endpoint_t endpoint, uint64_t nanoseconds) {
  return WithEndpoint(endpoint, &endpoint, [&](qnnrt::ipc::Endpoint* e) {
    e->SetSpin(nanoseconds);
    return Status::Ok();
  });
}

uint64_t qnnrt_ring_next(qnnrt_endpoint_t endpoint, uint64_t timeout, qnnrt_ring_slot_t* out) {
  return WithEndpoint(endpoint, out,
                      [&](qnnrt::ipc::Endpoint* e) { return e->Next(timeout, out); });
}

uint64_t qnnrt_ring_done(qnnrt_endpoint_t endpoint, uint32_t index, int publish,
                         qnnrt_ring_slot_t* out) {
  return WithEndpoint(endpoint, out,
                      [&](qnnrt::ipc::Endpoint* e) { return e->Done(index, publish != 0, out); });
}

uint64_t qnnrt_ring_info(qnnrt_endpoint_t endpoint, qnnrt_ring_info_t* out) {
  return WithEndpoint(endpoint, out, [&](qnnrt::ipc::Endpoint* e) {
    e->Info(out);
    return Status::Ok();
  });
}
