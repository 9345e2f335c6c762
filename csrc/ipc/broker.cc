#include "ipc/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "abi/qnn_errors.h"
#include "ipc/ticket.h"
#include "support/guard.h"

namespace qnnrt::ipc {
namespace {

// How long memory that nobody needs any more may stay, and a receiver be left waiting for an fd.
constexpr int kSweepMilliseconds = 50;

Broker* g_broker = nullptr;

Status NoFiles(const char* what) {
  return Error(QNNRT_HANDOFF_FILES,
               "%s: %s: this process has as many open files as it may (RLIMIT_NOFILE)", what,
               strerror(errno));
}

UniqueFd Duplicate(int fd) { return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0), &IpcCounters()); }

}  // namespace

Broker& Broker::Get() {
  static Broker* broker = [] {
    g_broker = new Broker();
    pthread_atfork([] { g_broker->mutex_.lock(); }, [] { g_broker->mutex_.unlock(); },
                   [] { g_broker->ResetAfterFork(); });
    return g_broker;
  }();
  return *broker;
}

// The child has no thread of its parent's and must not answer for it: an inherited socket would
// keep the parent's name alive, and an inherited connection would hide from it that the parent
// died.
void Broker::ResetAfterFork() {
  new (&mutex_) std::mutex;
  running_ = false;
  listener_.Reset();
  spare_.Reset();
  wake_.Reset();
  table_fd_.Reset();
  if (table_ != nullptr) munmap(table_, sizeof(Table));
  table_ = nullptr;
  connections_.clear();
  leases_.clear();
}

// ---- Leases ----

Result<uint64_t> Broker::Create(int fd, const FdInfo& info, uint64_t offset, uint64_t nbytes,
                                bool read_only) {
  Lease lease;
  if (!Random(lease.token, sizeof lease.token)) {
    return Error(QNN_COMMON_ERROR_SYSTEM, "no random numbers for a token: %s", strerror(errno));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (read_only) {
    for (const auto& other : leases_) {
      if (other.second.writable && other.second.id == info.id) {
        return Error(QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
                     "the memory has been handed out for writing: make its read-only lease before "
                     "it is pickled, or let it go and wait until nobody has it");
      }
    }
    // Mappings that exist, the sender's own among them, stay writable.
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0) {
      return Error(QNN_COMMON_ERROR_NOT_SUPPORTED,
                   "a read-only lease needs a memfd that can be sealed against writing, which this "
                   "%s is not (%s): allocate with heap=\"memfd\"",
                   info.kind == FdKind::kDmaBuf  ? "dma-buf"
                   : info.kind == FdKind::kMemfd ? "memfd"
                                                 : "file",
                   strerror(errno));
    }
  }
  QNNRT_RETURN_IF_ERROR(StartLocked());
  lease.fd = Duplicate(fd);
  if (!lease.fd.valid()) return NoFiles("a lease");
  lease.id = info.id;
  lease.writable = info.writable && !read_only;
  qnnrt_ticket_t& ticket = lease.ticket;
  ticket.magic = kMagic;
  ticket.version = kVersion;
  std::memcpy(ticket.sender, name_, sizeof name_);
  std::memcpy(ticket.token, lease.token, sizeof lease.token);
  ticket.lease = next_lease_++;
  ticket.device = info.id.device;
  ticket.inode = info.id.inode;
  ticket.fd_size = info.size;
  ticket.fd_offset = offset;
  ticket.nbytes = nbytes;
  ticket.pid = static_cast<uint32_t>(getpid());
  ticket.flags = lease.writable ? 0 : QNNRT_TICKET_READ_ONLY;
  if (info.can_shrink) ticket.flags |= QNNRT_TICKET_CAN_SHRINK;
  ticket.kind = static_cast<uint32_t>(info.kind);
  ticket.table = static_cast<uint32_t>(table_fd_.get());
  const uint64_t number = ticket.lease;
  const Lease& held = leases_.emplace(number, std::move(lease)).first->second;
  Table::Entry* entry = table_->EntryOf(number);
  if (entry->lease == 0) {
    std::memcpy(entry->token, held.token, sizeof held.token);
    entry->fd = static_cast<uint32_t>(held.fd.get());
    entry->lease = number;
  }
  return number;
}

Status Broker::End(uint64_t number) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = leases_.find(number);
  if (found == leases_.end() || !found->second.held) {
    return Error(QNNRT_HANDOFF_LEASE, "the lease has ended");
  }
  found->second.held = false;
  Sweep(&found->second);
  if (!found->second.in_flight.empty()) {
    const uint64_t one = 1;
    (void)!write(wake_.get(), &one, sizeof one);
  }
  DropIfUnused(found);
  return Status::Ok();
}

void Broker::DropIfUnused(Leases::iterator lease) {
  if (lease->second.held || !lease->second.in_flight.empty()) return;
  Table::Entry* entry = table_->EntryOf(lease->first);
  if (entry->lease == lease->first) *entry = {};
  leases_.erase(lease);
}

void Broker::Sweep(Lease* lease) {
  auto& messages = lease->in_flight;
  messages.erase(std::remove_if(messages.begin(), messages.end(),
                                [&](uint64_t message) {
                                  return table_->MessageOf(message)->load() == (message << 1 | 1);
                                }),
                 messages.end());
}

void Broker::SweepAll() {
  for (auto lease = leases_.begin(); lease != leases_.end();) {
    Sweep(&lease->second);
    DropIfUnused(lease++);
  }
}

bool Broker::OnlyMessagesKeepSome() const {
  return std::any_of(leases_.begin(), leases_.end(),
                     [](const auto& lease) { return !lease.second.held; });
}

Result<qnnrt_ticket_t> Broker::TicketFor(uint64_t number, bool in_flight) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = leases_.find(number);
  if (found == leases_.end() || !found->second.held) {
    return Error(QNNRT_HANDOFF_LEASE, "the lease has ended");
  }
  qnnrt_ticket_t ticket = found->second.ticket;
  if (in_flight) {
    std::deque<uint64_t>& messages = found->second.in_flight;
    if (messages.size() % 64 == 63) Sweep(&found->second);
    if (messages.size() == kMostInFlight) messages.pop_front();
    messages.push_back(next_message_);
    table_->MessageOf(next_message_)->store(next_message_ << 1);
    ticket.message = next_message_++;
  }
  ticket.checksum = ChecksumOf(ticket);
  return ticket;
}

void Broker::ArrivedLocked(uint64_t lease, uint64_t message) {
  auto found = leases_.find(lease);
  if (found == leases_.end()) return;
  std::deque<uint64_t>& messages = found->second.in_flight;
  auto at = std::lower_bound(messages.begin(), messages.end(), message);
  if (at == messages.end() || *at != message) return;
  messages.erase(at);
  DropIfUnused(found);
}

// ---- This process as its own receiver ----

bool Broker::IsOwn(const qnnrt_ticket_t& ticket) {
  std::lock_guard<std::mutex> lock(mutex_);
  return running_ && std::memcmp(ticket.sender, name_, sizeof name_) == 0;
}

Result<UniqueFd> Broker::Open(const qnnrt_ticket_t& ticket) {
  std::lock_guard<std::mutex> lock(mutex_);
  Lease* lease;
  const uint32_t code = Check(RequestOf(ticket, Ask::kOpen), &lease);
  if (code != 0) return Refusal(code, ticket);
  UniqueFd fd = Duplicate(lease->fd.get());
  if (!fd.valid()) return NoFiles("receiving a buffer");
  return fd;
}

void Broker::Arrived(const qnnrt_ticket_t& ticket) {
  std::lock_guard<std::mutex> lock(mutex_);
  Lease* lease;
  if (Check(RequestOf(ticket, Ask::kArrived), &lease) == 0) {
    ArrivedLocked(ticket.lease, ticket.message);
  }
}

void Broker::Count(qnnrt_ipc_counts_t* out) {
  std::lock_guard<std::mutex> lock(mutex_);
  SweepAll();
  out->leases = static_cast<int64_t>(leases_.size());
  out->connections = static_cast<int64_t>(connections_.size());
  for (const auto& lease : leases_) {
    out->in_flight += static_cast<int64_t>(lease.second.in_flight.size());
  }
}

void Broker::ForgetMessages() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto lease = leases_.begin(); lease != leases_.end();) {
    lease->second.in_flight.clear();
    DropIfUnused(lease++);
  }
}

// ---- The thread ----

Status Broker::StartLocked() {
  if (running_) return Status::Ok();
  UniqueFd listener(NewSocket(), &IpcCounters());
  if (!listener.valid()) return NoFiles("a socket for receivers");
  UniqueFd spare(fcntl(listener.get(), F_DUPFD_CLOEXEC, 0), &IpcCounters());
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), &IpcCounters());
  UniqueFd table(memfd_create("qnnrt-leases", MFD_CLOEXEC | MFD_ALLOW_SEALING), &IpcCounters());
  if (!spare.valid() || !wake.valid() || !table.valid()) return NoFiles("a socket for receivers");
  if (!Random(name_, sizeof name_)) {
    return Error(QNN_COMMON_ERROR_SYSTEM, "no random numbers for a name: %s", strerror(errno));
  }
  const int error = BindTo(listener.get(), name_);
  if (error != 0 || listen(listener.get(), SOMAXCONN) != 0) {
    return Error(QNN_COMMON_ERROR_SYSTEM, "a socket for receivers: %s",
                 strerror(error != 0 ? error : errno));
  }
  // Sparse: as much memory as is in use. Sealed, so that nobody takes it away under this process.
  void* mapped = MAP_FAILED;
  if (ftruncate(table.get(), sizeof(Table)) == 0 &&
      fcntl(table.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
    mapped = mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, table.get(), 0);
  }
  if (mapped == MAP_FAILED) {
    return Error(QNN_COMMON_ERROR_MEM_ALLOC, "a table of leases: %s", strerror(errno));
  }
  std::memcpy(static_cast<Table*>(mapped)->sender, name_, sizeof name_);
  // No handler of the program's runs on a thread that it does not know.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const int failed = pthread_create(
      &thread, nullptr,
      [](void* broker) -> void* {
        static_cast<Broker*>(broker)->Serve();
        return nullptr;
      },
      this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failed != 0) {
    munmap(mapped, sizeof(Table));
    return Error(QNN_COMMON_ERROR_SYSTEM, "no thread for receivers: %s", strerror(failed));
  }
  pthread_setname_np(thread, "qnnrt-broker");
  pthread_detach(thread);
  listener_ = std::move(listener);
  spare_ = std::move(spare);
  wake_ = std::move(wake);
  table_fd_ = std::move(table);
  table_ = static_cast<Table*>(mapped);
  running_ = true;
  return Status::Ok();
}

// Waits without the lock, and does everything else with it, so that a fork sees whole tables.
void Broker::Serve() {
  constexpr size_t kOwn = 2;
  std::vector<pollfd> waits;
  bool can_accept = true;
  for (;;) {
    int patience = -1;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      Contained([&] { waits.resize(kOwn + connections_.size()); },
                [](const Status&) {});  // without memory: those that fit
      if (waits.size() < kOwn) continue;
      // Without an fd to accept with, the listener stays ready: looked at again after a pause.
      waits[0] = {can_accept ? listener_.get() : -1, POLLIN, 0};
      waits[1] = {wake_.get(), POLLIN, 0};
      for (size_t i = kOwn; i < waits.size(); ++i) {
        waits[i] = {connections_[i - kOwn].fd.get(), POLLIN, 0};
      }
      // Receivers that need no conversation mark in the table what has arrived.
      if (OnlyMessagesKeepSome() || !can_accept) patience = kSweepMilliseconds;
    }
    if (poll(waits.data(), waits.size(), patience) < 0) {  // more fds than it may have by now
      (void)poll(nullptr, 0, kSweepMilliseconds);
      continue;
    }
    std::lock_guard<std::mutex> lock(mutex_);
    // From the end, so that one that is over can be taken out.
    for (size_t i = waits.size(); i-- > kOwn;) {
      if (waits[i].revents == 0) continue;
      Connection& connection = connections_[i - kOwn];
      const bool goes_on =
          Contained([&] { return Answer(&connection); }, [](const Status&) { return false; });
      if (goes_on) continue;
      CloseConnection(&connection);
      if (&connection != &connections_.back()) connection = std::move(connections_.back());
      connections_.pop_back();
    }
    can_accept = true;
    if (waits[0].revents != 0) Contained([&] { can_accept = Accept(); });
    uint64_t woken;
    if (waits[1].revents != 0) (void)!read(wake_.get(), &woken, sizeof woken);
    if (patience >= 0) SweepAll();
  }
}

bool Broker::Accept() {
  const auto accept = [&] {
    return UniqueFd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK),
                    &IpcCounters());
  };
  UniqueFd fd = accept();
  uint32_t refusal = 0;
  if (!fd.valid() && (errno == EMFILE || errno == ENFILE)) {
    spare_.Reset();
    fd = accept();
    refusal = QNNRT_HANDOFF_FILES;
  }
  const bool accepted = fd.valid();
  if (accepted && UserOf(fd.get()) != static_cast<int64_t>(geteuid())) {
    refusal = QNNRT_HANDOFF_USER;
  }
  if (accepted && refusal != 0) {
    Reply reply;
    reply.code = refusal;
    (void)SendPacket(fd.get(), &reply, sizeof reply, -1, MSG_DONTWAIT);
    fd.Reset();
  }
  if (!spare_.valid()) spare_ = Duplicate(listener_.get());
  if (!fd.valid()) return accepted;
  Connection connection;
  connection.fd = std::move(fd);
  connections_.push_back(std::move(connection));
  return true;
}

uint32_t Broker::Check(const Request& request, Lease** lease) {
  auto found = leases_.find(request.lease);
  if (found == leases_.end()) return QNNRT_HANDOFF_LEASE;
  if (!SameToken(request.token, found->second.token)) return QNNRT_HANDOFF_TOKEN;
  *lease = &found->second;
  return 0;
}

bool Broker::Answer(Connection* connection) {
  for (;;) {
    Request request;
    const ssize_t size = ReceivePacket(connection->fd.get(), &request, sizeof request, nullptr,
                                       nullptr, MSG_DONTWAIT);
    if (size == -EAGAIN || size == -EINTR) return true;
    if (size <= 0) return false;
    Reply reply;
    const bool whole = size == sizeof request && request.magic == kMagic &&
                       request.version == kVersion &&
                       (request.ask == Ask::kOpen || request.ask == Ask::kArrived);
    Lease* lease = nullptr;
    reply.code = whole ? Check(request, &lease) : QNNRT_HANDOFF_TICKET;
    reply.lease = whole ? request.lease : 0;
    if (whole && request.ask == Ask::kArrived) {
      if (lease == nullptr) continue;
      auto& open = connection->unconfirmed;
      open.erase(std::remove_if(open.begin(), open.end(),
                                [&](const Delivery& d) {
                                  return d.lease == request.lease && d.message == request.message;
                                }),
                 open.end());
      ArrivedLocked(request.lease, request.message);
      continue;
    }
    if (lease != nullptr && request.message != 0) {
      connection->unconfirmed.push_back({request.lease, request.message});
    }
    if (SendPacket(connection->fd.get(), &reply, sizeof reply,
                   lease != nullptr ? lease->fd.get() : -1, MSG_DONTWAIT) != 0) {
      return false;
    }
    if (!whole) return false;
  }
}

void Broker::CloseConnection(Connection* connection) {
  for (const Delivery& d : connection->unconfirmed) ArrivedLocked(d.lease, d.message);
  connection->unconfirmed.clear();
}

}  // namespace qnnrt::ipc
