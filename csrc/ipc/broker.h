// The sending side: leases on memory, and the thread that hands their fds to who may have them.
//
// A lease has an fd of its own, so it outlives the buffer. It lives as long as somebody holds it or
// a message of it is in flight: made, and received by nobody yet.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "ipc/ipc_api.h"
#include "ipc/socket.h"
#include "ipc/table.h"
#include "memory/mapping.h"
#include "support/status.h"

namespace qnnrt::ipc {

class Broker {
 public:
  // One for each process, never destroyed. A forked child's has nothing of its parent's.
  static Broker& Get();

  // A lease on the memory behind fd, which is duplicated. Starts the thread if none runs.
  Result<uint64_t> Create(int fd, const FdInfo& info, uint64_t offset, uint64_t nbytes,
                          bool read_only);
  Status End(uint64_t lease);
  Result<qnnrt_ticket_t> TicketFor(uint64_t lease, bool in_flight);

  // For tickets of this process.
  bool IsOwn(const qnnrt_ticket_t& ticket);
  Result<UniqueFd> Open(const qnnrt_ticket_t& ticket);
  void Arrived(const qnnrt_ticket_t& ticket);

  void Count(qnnrt_ipc_counts_t* out);
  void ForgetMessages();

 private:
  // A message beyond that makes the oldest one count as received: its memory then depends on the
  // buffer or the lease alone.
  static constexpr size_t kMostInFlight = 4096;

  struct Lease {
    uint8_t token[16];
    UniqueFd fd;
    FileId id;
    bool writable = true;
    bool held = true;
    qnnrt_ticket_t ticket = {};
    std::deque<uint64_t> in_flight;  // rising
  };
  struct Delivery {
    uint64_t lease, message;
  };
  struct Connection {
    UniqueFd fd;
    std::vector<Delivery> unconfirmed;  // handed out; they count as arrived when the receiver dies
  };
  using Leases = std::map<uint64_t, Lease>;

  Status StartLocked();
  void Serve();
  // False when nobody could be let in, not even to be told why.
  bool Accept();
  // False when the connection is over.
  bool Answer(Connection* connection);
  uint32_t Check(const Request& request, Lease** lease);
  void ArrivedLocked(uint64_t lease, uint64_t message);
  void DropIfUnused(Leases::iterator lease);
  // What receivers have marked in the table: of a lease, of all.
  void Sweep(Lease* lease);
  void SweepAll();
  bool OnlyMessagesKeepSome() const;
  void CloseConnection(Connection* connection);
  void ResetAfterFork();

  std::mutex mutex_;
  bool running_ = false;
  uint8_t name_[16] = {};
  UniqueFd listener_;
  UniqueFd wake_;  // an eventfd: the thread is to look at what only messages keep
  UniqueFd table_fd_;
  Table* table_ = nullptr;
  UniqueFd spare_;  // given up to tell somebody that no other fd is free
  std::vector<Connection> connections_;
  Leases leases_;
  uint64_t next_lease_ = 1, next_message_ = 1;
};

}  // namespace qnnrt::ipc
