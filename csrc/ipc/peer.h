// The receiving side: a connection to the broker of a sender, and the checks of what comes over it.
#pragma once

#include <cstdint>
#include <mutex>

#include "ipc/ipc_api.h"
#include "memory/mapping.h"
#include "support/slot_table.h"
#include "support/status.h"

// The opaque type of the C interface. Destroying one closes the connection.
struct qnnrt_peer_t {
  virtual ~qnnrt_peer_t() = default;
};

namespace qnnrt::ipc {

class Peer final : public qnnrt_peer_t {
 public:
  ~Peer() override;
  static Result<Peer*> Connect(const qnnrt_ticket_t& ticket);

  Result<UniqueFd> Open(const qnnrt_ticket_t& ticket);
  void Arrived(const qnnrt_ticket_t& ticket);
  static int64_t Count();

 private:
  friend struct Peers;
  explicit Peer(UniqueFd socket);
  std::mutex mutex_;  // one request at a time
  UniqueFd socket_;   // invalid once it is broken, and in a forked child
  Peer *next_ = nullptr, *previous_ = nullptr;
};

// The buffer on what came for a ticket, once it is seen to be what the ticket says. Errors: 60007,
// and those of an import.
Result<SlotHandle> ImportTicket(UniqueFd fd, const qnnrt_ticket_t& ticket);

}  // namespace qnnrt::ipc
