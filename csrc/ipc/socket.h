// The messages between receivers and the broker of a sender, and the socket that carries them: one
// packet each way, the fd beside the reply.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "ipc/ipc_api.h"
#include "memory/mapping.h"

namespace qnnrt::ipc {

inline constexpr uint32_t kMagic = 0x51485448;  // also what makes a ticket one
inline constexpr uint32_t kVersion = 1;

enum class Ask : uint32_t { kOpen = 1, kArrived = 2 };

struct Request {
  uint32_t magic = kMagic;
  uint32_t version = kVersion;
  Ask ask = Ask::kOpen;
  uint32_t reserved = 0;
  uint64_t lease = 0;
  uint64_t message = 0;
  uint8_t token[16] = {};
};

struct Reply {
  uint32_t magic = kMagic;
  uint32_t code = 0;  // 0, and an fd comes with it, or QNNRT_HANDOFF_*
  uint64_t lease = 0;
};

// The fds of this folder, which no buffer has.
Counters& IpcCounters();

Request RequestOf(const qnnrt_ticket_t& ticket, Ask ask);

// The user at the other end, as the kernel says; -1 when it does not.
int64_t UserOf(int socket);

// A packet, with an fd beside it unless that is -1. 0 or an errno; MSG_* flags.
int SendPacket(int socket, const void* data, size_t size, int fd, int flags);

// One packet of at most `size` bytes. Bytes received, whatever the packet had, 0 at the end of the
// connection, or -errno. An fd that came with it is in *fd, which is -1 otherwise; *lost is set
// when one came that found no place in this process. fd null: fds are refused by the kernel.
ssize_t ReceivePacket(int socket, void* data, size_t size, int* fd, bool* lost, int flags);

// A socket of the kind in use. -1 and errno.
int NewSocket();
// connect or bind to the abstract name of a sender. 0 or an errno.
int ConnectTo(int socket, const uint8_t (&sender)[16]);
int BindTo(int socket, const uint8_t (&sender)[16]);

// In a time that does not tell how much of it is right.
bool SameToken(const uint8_t (&a)[16], const uint8_t (&b)[16]);

// Random bytes from the kernel, waiting for its pool. False when there are none.
bool Random(void* out, size_t size);

}  // namespace qnnrt::ipc
