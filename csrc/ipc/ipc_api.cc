#include "ipc/ipc_api.h"

#include <memory>

#include "ipc/broker.h"
#include "ipc/entry.h"
#include "ipc/peer.h"
#include "ipc/ring.h"
#include "ipc/table.h"
#include "ipc/ticket.h"

using qnnrt::Buffer;
using qnnrt::Memory;
using qnnrt::Result;
using qnnrt::Status;
using qnnrt::UniqueFd;
using qnnrt::ipc::ArrivedDirectly;
using qnnrt::ipc::Broker;
using qnnrt::ipc::Endpoints;
using qnnrt::ipc::Entry;
using qnnrt::ipc::Errors;
using qnnrt::ipc::ForgetTable;
using qnnrt::ipc::ImportTicket;
using qnnrt::ipc::KeepSender;
using qnnrt::ipc::NullArgument;
using qnnrt::ipc::OpenDirectly;
using qnnrt::ipc::Peer;
using qnnrt::ipc::WithBuffer;

namespace {

Peer* Own(qnnrt_peer_t* peer) { return static_cast<Peer*>(peer); }

// Whether the sender knows that the message has arrived.
bool Arrived(qnnrt_peer_t* peer, const qnnrt_ticket_t& ticket) {
  if (ticket.message == 0) return true;
  if (peer == nullptr && !Broker::Get().IsOwn(ticket)) return ArrivedDirectly(ticket);
  if (peer != nullptr) {
    Own(peer)->Arrived(ticket);
  } else {
    Broker::Get().Arrived(ticket);
  }
  return true;
}

}  // namespace

const char* qnnrt_ipc_last_error(void) { return Errors().Get().message().c_str(); }

// ---- Leases ----

uint64_t qnnrt_lease_create(qnnrt_buffer_t buffer, uint32_t flags, qnnrt_lease_t* out) {
  return Entry([&]() -> Status {
    if (out == nullptr) return NullArgument();
    *out = 0;
    return WithBuffer(buffer, [&](Buffer* b) -> Status {
      QNNRT_ASSIGN_OR_RETURN(const int fd, Memory::Get().buffers().ExportFd(b));
      QNNRT_ASSIGN_OR_RETURN(const qnnrt::FdInfo info, qnnrt::InspectFd(fd));
      QNNRT_ASSIGN_OR_RETURN(*out, Broker::Get().Create(fd, info, b->fd_offset, b->nbytes,
                                                        (flags & QNNRT_LEASE_READ_ONLY) != 0));
      return Status::Ok();
    });
  });
}

uint64_t qnnrt_lease_end(qnnrt_lease_t lease) {
  return Entry([&] { return Broker::Get().End(lease); });
}

uint64_t qnnrt_lease_ticket(qnnrt_lease_t lease, int in_flight, qnnrt_ticket_t* out) {
  return Entry([&]() -> Status {
    if (out == nullptr) return NullArgument();
    QNNRT_ASSIGN_OR_RETURN(*out, Broker::Get().TicketFor(lease, in_flight != 0));
    return Status::Ok();
  });
}

// ---- Receiving ----

uint64_t qnnrt_ticket_read(const void* bytes, uint64_t size, qnnrt_ticket_t* out) {
  return Entry([&]() -> Status {
    if (out == nullptr) return NullArgument();
    QNNRT_ASSIGN_OR_RETURN(*out, qnnrt::ipc::ReadTicket(bytes, size));
    return Status::Ok();
  });
}

uint64_t qnnrt_peer_connect(const qnnrt_ticket_t* ticket, qnnrt_peer_t** out) {
  return Entry([&]() -> Status {
    if (ticket == nullptr || out == nullptr) return NullArgument();
    *out = nullptr;
    QNNRT_ASSIGN_OR_RETURN(*out, Peer::Connect(*ticket));
    return Status::Ok();
  });
}

uint64_t qnnrt_peer_receive(qnnrt_peer_t* peer, const qnnrt_ticket_t* ticket, qnnrt_buffer_t* out) {
  return Entry([&]() -> Status {
    if (ticket == nullptr || out == nullptr) return NullArgument();
    *out = 0;
    const bool own = peer == nullptr && Broker::Get().IsOwn(*ticket);
    const bool direct = peer == nullptr && !own;
    Memory::Get().registry().Prefetch();
    Result<UniqueFd> fd = own      ? Broker::Get().Open(*ticket)
                          : direct ? OpenDirectly(*ticket)
                                   : Own(peer)->Open(*ticket);
    if (!fd.ok()) return std::move(fd).status();
    auto buffer = ImportTicket(std::move(*fd), *ticket);
    if (!buffer.ok() && direct) return Status(QNNRT_HANDOFF_CONNECT);
    if (!buffer.ok()) return std::move(buffer).status();
    *out = *buffer;
    // Where it cannot be said, the sender keeps the memory.
    if (ticket->message != 0) (void)Arrived(peer, *ticket);
    return Status::Ok();
  });
}

uint64_t qnnrt_peer_arrived(qnnrt_peer_t* peer, const qnnrt_ticket_t* ticket) {
  return Entry([&]() -> Status {
    if (ticket == nullptr) return NullArgument();
    return Status(Arrived(peer, *ticket) ? 0 : QNNRT_HANDOFF_CONNECT);
  });
}

void qnnrt_peer_close(qnnrt_peer_t* peer) {
  qnnrt::Contained([&] { delete peer; });
}

void qnnrt_ipc_keep_sender(int keep) {
  qnnrt::Contained([&] { KeepSender(keep != 0); });
}

void qnnrt_ipc_counts(qnnrt_ipc_counts_t* out) {
  if (out == nullptr) return;
  *out = {};
  qnnrt::Contained([&] {
    Broker::Get().Count(out);
    out->peers = Peer::Count();
    out->endpoints = Endpoints::Get().Count();
    out->fds = qnnrt::ipc::IpcCounters().fds.load(std::memory_order_relaxed);
  });
}

void qnnrt_ipc_forget_messages(void) {
  qnnrt::Contained([] {
    Broker::Get().ForgetMessages();
    ForgetTable();
  });
}
