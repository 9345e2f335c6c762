#include "ipc/socket.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdio>
#include <cstring>

namespace qnnrt::ipc {
namespace {

struct Address {
  sockaddr_un raw;
  socklen_t size;
};

// Abstract: no file, so nothing to protect by modes and nothing that a crash leaves behind. Whom
// the kernel says is at the other end is checked on both sides.
Address AddressOf(const uint8_t (&sender)[16]) {
  Address address = {};
  address.raw.sun_family = AF_UNIX;
  char* name = address.raw.sun_path + 1;
  int length = std::snprintf(name, sizeof address.raw.sun_path - 1, "qnnrt-");
  for (uint8_t byte : sender) {
    length += std::snprintf(name + length, 3, "%02x", byte);
  }
  address.size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(length));
  return address;
}

union Rights {
  cmsghdr header;  // for its alignment
  char bytes[CMSG_SPACE(sizeof(int))];
};

}  // namespace

Counters& IpcCounters() {
  static Counters counters;
  return counters;
}

Request RequestOf(const qnnrt_ticket_t& ticket, Ask ask) {
  Request request;
  request.ask = ask;
  request.lease = ticket.lease;
  request.message = ticket.message;
  std::memcpy(request.token, ticket.token, sizeof request.token);
  return request;
}

int64_t UserOf(int socket) {
  ucred credentials;
  socklen_t size = sizeof credentials;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return -1;
  return size == sizeof credentials ? static_cast<int64_t>(credentials.uid) : -1;
}

int SendPacket(int socket, const void* data, size_t size, int fd, int flags) {
  iovec part = {const_cast<void*>(data), size};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  Rights control = {};
  if (fd >= 0) {
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  const ssize_t sent = sendmsg(socket, &message, flags | MSG_NOSIGNAL);
  return sent == static_cast<ssize_t>(size) ? 0 : sent < 0 ? errno : EMSGSIZE;
}

ssize_t ReceivePacket(int socket, void* data, size_t size, int* fd, bool* lost, int flags) {
  iovec part = {data, size};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  Rights control = {};
  if (fd != nullptr) {
    *fd = -1;
    *lost = false;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
  }
  const ssize_t received = recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC | MSG_TRUNC);
  if (received < 0) return -errno;
  if (fd == nullptr) return received;
  *lost = (message.msg_flags & MSG_CTRUNC) != 0;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len == CMSG_LEN(sizeof(int))) {
    std::memcpy(fd, CMSG_DATA(header), sizeof(int));
  }
  return received;
}

int NewSocket() { return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0); }

int ConnectTo(int socket, const uint8_t (&sender)[16]) {
  const Address address = AddressOf(sender);
  const auto* raw = reinterpret_cast<const sockaddr*>(&address.raw);
  return connect(socket, raw, address.size) == 0 ? 0 : errno;
}

int BindTo(int socket, const uint8_t (&sender)[16]) {
  const Address address = AddressOf(sender);
  const auto* raw = reinterpret_cast<const sockaddr*>(&address.raw);
  return bind(socket, raw, address.size) == 0 ? 0 : errno;
}

bool SameToken(const uint8_t (&a)[16], const uint8_t (&b)[16]) {
  unsigned differs = 0;
  for (size_t i = 0; i < sizeof a; ++i) differs |= static_cast<unsigned>(a[i] ^ b[i]);
  return differs == 0;
}

bool Random(void* out, size_t size) {
  auto* bytes = static_cast<uint8_t*>(out);
  while (size > 0) {
    const ssize_t got = getrandom(bytes, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

}  // namespace qnnrt::ipc
