#include "ipc/peer.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <new>

#include "ipc/socket.h"
#include "ipc/ticket.h"
#include "memory/memory.h"
#include "support/checked.h"
#include "support/clock.h"

namespace qnnrt::ipc {

// All of this process. A forked child closes its copies: with them its parent's senders would not
// see the parent go.
struct Peers {
  std::mutex mutex;
  Peer* first = nullptr;
  int64_t count = 0;

  static Peers& Get() {
    static Peers* peers = [] {
      instance = new Peers();
      pthread_atfork([] { instance->mutex.lock(); }, [] { instance->mutex.unlock(); },
                     [] {
                       new (&instance->mutex) std::mutex;
                       for (Peer* p = instance->first; p != nullptr; p = p->next_) {
                         new (&p->mutex_) std::mutex;
                         p->socket_.Reset();
                       }
                     });
      return instance;
    }();
    return *peers;
  }
  void Add(Peer* peer) {
    std::lock_guard<std::mutex> lock(mutex);
    peer->next_ = first;
    if (first != nullptr) first->previous_ = peer;
    first = peer;
    ++count;
  }
  void Remove(Peer* peer) {
    std::lock_guard<std::mutex> lock(mutex);
    (peer->previous_ != nullptr ? peer->previous_->next_ : first) = peer->next_;
    if (peer->next_ != nullptr) peer->next_->previous_ = peer->previous_;
    --count;
    peer->socket_.Reset();
  }
  inline static Peers* instance = nullptr;
};

namespace {

constexpr timeval kPatience = {10, 0};
constexpr uint64_t kMoment = 50 * 1000;  // nanoseconds

uint32_t CodeOf(int error) {
  switch (error) {
    case EAGAIN:
    case ETIMEDOUT:
      return QNNRT_HANDOFF_TIMEOUT;
    case EINTR:
      return QNNRT_HANDOFF_AGAIN;
    default:
      return QNNRT_HANDOFF_ENDED;
  }
}

Status NoFiles() {
  return Error(QNNRT_HANDOFF_FILES,
               "cannot receive a shared buffer: %s: this process has as many open files as it may "
               "(RLIMIT_NOFILE)",
               strerror(EMFILE));
}

}  // namespace

Peer::Peer(UniqueFd socket) : socket_(std::move(socket)) { Peers::Get().Add(this); }

Peer::~Peer() { Peers::Get().Remove(this); }

int64_t Peer::Count() {
  std::lock_guard<std::mutex> lock(Peers::Get().mutex);
  return Peers::Get().count;
}

Result<Peer*> Peer::Connect(const qnnrt_ticket_t& ticket) {
  UniqueFd opened(NewSocket(), &IpcCounters());
  if (!opened.valid()) return NoFiles();
  // Listed before it is connected, so that no fork keeps a connection that nobody knows of.
  std::unique_ptr<Peer> peer(new Peer(std::move(opened)));
  const int socket = peer->socket_.get();
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  const int error = ConnectTo(socket, ticket.sender);
  if (error != 0) return Refusal(CodeOf(error), ticket);
  // Before the token is told: the name may be somebody else's by now.
  if (UserOf(socket) != static_cast<int64_t>(geteuid())) {
    return Refusal(QNNRT_HANDOFF_USER, ticket);
  }
  return peer.release();
}

Result<UniqueFd> Peer::Open(const qnnrt_ticket_t& ticket) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!socket_.valid()) return Refusal(QNNRT_HANDOFF_ENDED, ticket);
  const Request request = RequestOf(ticket, Ask::kOpen);
  const int error = SendPacket(socket_.get(), &request, sizeof request, -1, 0);
  // A sender that has closed the connection may have said why before.
  if (error != 0 && error != EPIPE && error != ECONNRESET) {
    socket_.Reset();
    return Refusal(CodeOf(error), ticket);
  }
  Reply reply;
  int number;
  bool lost;
  // Most answers come sooner than a core that went idle is back: look for a moment before sleeping.
  const uint64_t asked = MonotonicNanoseconds();
  ssize_t size;
  do {
    size = ReceivePacket(socket_.get(), &reply, sizeof reply, &number, &lost, MSG_DONTWAIT);
  } while (size == -EAGAIN && MonotonicNanoseconds() - asked < kMoment && sched_yield() == 0);
  if (size == -EAGAIN) {
    size = ReceivePacket(socket_.get(), &reply, sizeof reply, &number, &lost, 0);
  }
  if (size == -ECONNRESET) {  // said once, before what is still to be read
    size = ReceivePacket(socket_.get(), &reply, sizeof reply, &number, &lost, MSG_DONTWAIT);
    if (size == -EAGAIN) size = 0;
  }
  UniqueFd fd(number, &IpcCounters());
  if (size != sizeof reply || reply.magic != kMagic) {
    socket_.Reset();  // what comes later would be the answer to this
    return Refusal(size < 0 ? CodeOf(static_cast<int>(-size)) : QNNRT_HANDOFF_ENDED, ticket);
  }
  if (reply.code != 0) return Refusal(reply.code, ticket);
  if (lost) return NoFiles();
  if (!fd.valid()) return Refusal(QNNRT_HANDOFF_TICKET, ticket);
  return fd;
}

void Peer::Arrived(const qnnrt_ticket_t& ticket) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!socket_.valid()) return;
  const Request request = RequestOf(ticket, Ask::kArrived);
  int error;
  do {
    error = SendPacket(socket_.get(), &request, sizeof request, -1, 0);
  } while (error == EINTR);
}

Result<SlotHandle> ImportTicket(UniqueFd fd, const qnnrt_ticket_t& ticket) {
  Result<FdInfo> seen = InspectFd(fd.get());
  const auto wrong = [&](const char* what) {
    return Error(QNNRT_HANDOFF_MEMORY,
                 "what process %u sent is not the memory of the message: %s; nothing was mapped",
                 ticket.pid, what);
  };
  if (!seen.ok()) return wrong(seen.status().message().c_str());
  if (seen->id != FileId{ticket.device, ticket.inode}) return wrong("it is another file");
  if (static_cast<uint32_t>(seen->kind) != ticket.kind) return wrong("it is of another kind");
  uint64_t end;
  if (ticket.nbytes == 0 || !CheckedAdd(ticket.fd_offset, ticket.nbytes, &end) ||
      end > seen->size) {
    return Error(QNNRT_HANDOFF_MEMORY,
                 "the message speaks of %llu bytes at offset %llu, the memory from process %u has "
                 "%llu; nothing was mapped",
                 static_cast<unsigned long long>(ticket.nbytes),
                 static_cast<unsigned long long>(ticket.fd_offset), ticket.pid,
                 static_cast<unsigned long long>(seen->size));
  }
  if ((ticket.flags & QNNRT_TICKET_CAN_SHRINK) == 0 && seen->can_shrink) {
    return wrong("it is not sealed against shrinking");
  }
  if ((ticket.flags & QNNRT_TICKET_READ_ONLY) != 0 && seen->writable) {
    return wrong("it is not sealed against writing");
  }
  Memory& memory = Memory::Get();
  IpcCounters().fds.fetch_sub(1, std::memory_order_relaxed);
  return memory.buffers().Import(UniqueFd(fd.Release(), &memory.counters()), *seen, ticket.nbytes,
                                 ticket.fd_offset);
}

}  // namespace qnnrt::ipc
