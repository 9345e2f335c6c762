#include "ipc/ticket.h"

#include <cstring>

#include "ipc/socket.h"
#include "support/crc32c.h"

namespace qnnrt::ipc {

uint32_t ChecksumOf(const qnnrt_ticket_t& ticket) {
  return Crc32c(&ticket, offsetof(qnnrt_ticket_t, checksum));
}

Result<qnnrt_ticket_t> ReadTicket(const void* bytes, size_t size) {
  qnnrt_ticket_t ticket;
  if (bytes == nullptr || size != sizeof ticket) {
    return Error(QNNRT_HANDOFF_TICKET, "a message about a buffer has %zu bytes, this one has %zu",
                 sizeof ticket, size);
  }
  std::memcpy(&ticket, bytes, sizeof ticket);
  if (ticket.magic != kMagic || ticket.checksum != ChecksumOf(ticket)) {
    return Error(QNNRT_HANDOFF_TICKET, "the message about a buffer is damaged");
  }
  if (ticket.version != kVersion) {
    return Error(QNNRT_HANDOFF_TICKET,
                 "the message about a buffer is of version %u, this qnnrt knows version %u",
                 ticket.version, kVersion);
  }
  return ticket;
}

Status Refusal(uint32_t code, const qnnrt_ticket_t& t) {
  const char* why = "it refuses without a reason that is known here";
  switch (code) {
    case QNNRT_HANDOFF_ENDED:
      why =
          "it has ended, or runs on another machine or in another network namespace. The sender "
          "must "
          "be alive when a buffer is received; what was received before stays valid";
      break;
    case QNNRT_HANDOFF_LEASE:
      why =
          "the lease has ended there. The sender must hold the Buffer, or a lease on it, until all "
          "have received it";
      break;
    case QNNRT_HANDOFF_TOKEN:
      why = "the message's token is not the one that the sender gave out";
      break;
    case QNNRT_HANDOFF_USER:
      why = "it belongs to another user; buffers go between processes of one user";
      break;
    case QNNRT_HANDOFF_TICKET:
      why = "it does not understand the request: another version of qnnrt?";
      break;
    case QNNRT_HANDOFF_FILES:
      why = "it has as many open files as it may (RLIMIT_NOFILE)";
      break;
    case QNNRT_HANDOFF_TIMEOUT:
      why = "it does not answer: it is stopped, or no file descriptor is free there";
      break;
    default:
      break;
  }
  return Error(code, "cannot take the shared buffer over from process %u: %s", t.pid, why);
}

}  // namespace qnnrt::ipc
