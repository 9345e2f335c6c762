// A sender's table of leases: a memfd that receivers look into where they may open the sender's fds
// (/proc/<pid>/fd), which spares both sides a conversation, for a dma-buf or a file where they may
// also duplicate them (pidfd_getfd). It says nothing that the broker would
// not: whoever finds something else than expected asks the broker.
#pragma once

#include <atomic>
#include <cstdint>

#include "ipc/ipc_api.h"
#include "memory/mapping.h"
#include "support/status.h"

namespace qnnrt::ipc {

struct Table {
  static constexpr uint32_t kLeases = 4096, kMessages = 65536;

  uint8_t sender[16];
  struct Entry {  // of lease i modulo kLeases, where that one is free when the lease is made
    uint64_t lease;
    uint8_t token[16];
    uint32_t fd;
    uint32_t reserved;
  } leases[kLeases];
  // Of message i modulo kMessages: i << 1 while it is in flight, and with bit 0 once it has
  // arrived.
  std::atomic<uint64_t> messages[kMessages];

  Entry* EntryOf(uint64_t lease) { return &leases[lease % kLeases]; }
  std::atomic<uint64_t>* MessageOf(uint64_t message) { return &messages[message % kMessages]; }
};

// ---- The receiver's side ----

// The table of the last sender stays mapped, beyond that one's end, so that of many messages one
// alone has to find it.

// The lease's fd, opened or duplicated from the sender. Any error: ask the broker.
Result<UniqueFd> OpenDirectly(const qnnrt_ticket_t& ticket);
// Marks the message as arrived; false where that has to go through the broker.
bool ArrivedDirectly(const qnnrt_ticket_t& ticket);
// Has the last sender's process stay open, until as many have said the contrary: a descriptor, by
// which its others are found faster.
void KeepSender(bool keep);
// Keeps no table mapped, and no process open until the next message.
void ForgetTable();

}  // namespace qnnrt::ipc
