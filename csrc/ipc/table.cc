#include "ipc/table.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>

#include "ipc/socket.h"

// Linux 5.3 and 5.6; older headers lack them.
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

namespace qnnrt::ipc {
namespace {

struct Path {
  Path(uint32_t pid, uint32_t fd) { std::snprintf(text, sizeof text, "/proc/%u/fd/%u", pid, fd); }
  char text[48];
};

constexpr int kOpen = O_RDWR | O_CLOEXEC | O_NONBLOCK;

UniqueFd Open(const Path& path) { return UniqueFd(open(path.text, kOpen), &IpcCounters()); }

UniqueFd OpenProcess(uint32_t pid) {
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)), &IpcCounters());
}

// A duplicate of another process's fd, for what cannot be opened by its path. Only for who may
// trace that process.
UniqueFd Duplicate(const UniqueFd& process, uint32_t fd) {
  if (!process.valid()) return UniqueFd();
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_getfd, process.get(), fd, 0)), &IpcCounters());
}

// A sender that stays open. Finding a process's fd by its path, or the process anew, is most of
// what the kernel does for a receiver whose caches are cold.
class KeptProcess {
 public:
  UniqueFd Take(const qnnrt_ticket_t& ticket, uint32_t fd) {
    if (!fd_.valid()) {
      fd_ = OpenProcess(ticket.pid);
      folder_ = false;
    }
    if (!folder_) {
      UniqueFd taken = Duplicate(fd_, fd);
      if (taken.valid() || errno != EPERM) return taken;
      // Its fds may be opened all the same, next to each other.
      char path[32];
      std::snprintf(path, sizeof path, "/proc/%u/fd", ticket.pid);
      fd_ = UniqueFd(open(path, O_PATH | O_DIRECTORY | O_CLOEXEC), &IpcCounters());
      folder_ = fd_.valid();
    }
    if (!folder_ || ticket.kind != static_cast<uint32_t>(FdKind::kMemfd)) return UniqueFd();
    char name[16];
    std::snprintf(name, sizeof name, "%u", fd);
    return UniqueFd(openat(fd_.get(), name, kOpen), &IpcCounters());
  }
  void Close() { fd_.Reset(); }

 private:
  UniqueFd fd_;          // of the process, or
  bool folder_ = false;  // of its folder of fds, where it may not be traced
};

// The table of the ticket's sender, mapped; null where it is not that, or not this user's.
Table* MapTable(const qnnrt_ticket_t& ticket) {
  // Looked at before it is opened: the number may be anything's by now, a device's say.
  const auto fits = [](const struct stat& file) {
    return S_ISREG(file.st_mode) && file.st_uid == geteuid() &&
           file.st_size == static_cast<off_t>(sizeof(Table));
  };
  struct stat file;
  const Path path(ticket.pid, ticket.table);
  if (stat(path.text, &file) != 0 || !fits(file)) return nullptr;
  const UniqueFd fd = Open(path);
  if (!fd.valid() || fstat(fd.get(), &file) != 0 || !fits(file)) return nullptr;
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return nullptr;
  void* mapped =
      mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), off_t{0});
  if (mapped == MAP_FAILED) return nullptr;
  auto* table = static_cast<Table*>(mapped);
  if (std::memcmp(table->sender, ticket.sender, sizeof table->sender) == 0) return table;
  munmap(mapped, sizeof(Table));
  return nullptr;
}

class LastTable {
 public:
  static LastTable& Get() {
    static LastTable* last = [] {
      instance = new LastTable();
      pthread_atfork([] { instance->mutex_.lock(); }, [] { instance->mutex_.unlock(); },
                     [] {
                       new (&instance->mutex_) std::mutex;
                       instance->process_.Close();
                     });
      return instance;
    }();
    return *last;
  }
  // False where there is no such table, or `use` says so of it.
  template <typename F>
  bool With(const qnnrt_ticket_t& ticket, F&& use) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (table_ == nullptr || std::memcmp(sender_, ticket.sender, sizeof sender_) != 0) {
      Table* table = MapTable(ticket);
      if (table == nullptr) return false;
      Replace(table);
      std::memcpy(sender_, ticket.sender, sizeof sender_);
    }
    return use(table_);
  }
  // In `use`: the lease's fd by the process that stays open; none where it does not stay.
  UniqueFd Take(const qnnrt_ticket_t& ticket, uint32_t fd) {
    return keepers_ > 0 ? process_.Take(ticket, fd) : UniqueFd();
  }
  void Keep(bool keep) {
    std::lock_guard<std::mutex> lock(mutex_);
    keepers_ += keep ? 1 : -1;
    if (keepers_ == 0) process_.Close();
  }
  void Forget() {
    std::lock_guard<std::mutex> lock(mutex_);
    Replace(nullptr);
  }

 private:
  void Replace(Table* table) {
    if (table_ != nullptr) munmap(table_, sizeof(Table));
    table_ = table;
    process_.Close();
  }
  inline static LastTable* instance = nullptr;
  std::mutex mutex_;
  Table* table_ = nullptr;
  uint8_t sender_[16] = {};  // not the table's own, which its maker can write
  KeptProcess process_;      // the sender
  int keepers_ = 0;
};

}  // namespace

Result<UniqueFd> OpenDirectly(const qnnrt_ticket_t& ticket) {
  Table::Entry entry;
  UniqueFd fd;
  const bool there = LastTable::Get().With(ticket, [&](Table* table) {
    std::memcpy(&entry, table->EntryOf(ticket.lease), sizeof entry);
    if (entry.lease != ticket.lease || !SameToken(entry.token, ticket.token)) return false;
    fd = LastTable::Get().Take(ticket, entry.fd);
    return true;
  });
  if (!there) return Status(QNNRT_HANDOFF_CONNECT);
  // What it is will be seen.
  if (!fd.valid()) {
    fd = ticket.kind == static_cast<uint32_t>(FdKind::kMemfd)
             ? Open(Path(ticket.pid, entry.fd))
             : Duplicate(OpenProcess(ticket.pid), entry.fd);
  }
  if (!fd.valid()) return Status(QNNRT_HANDOFF_CONNECT);
  return fd;
}

bool ArrivedDirectly(const qnnrt_ticket_t& ticket) {
  return LastTable::Get().With(ticket, [&](Table* table) {
    uint64_t word = ticket.message << 1;
    // Another word: it has arrived before, or was given up tens of thousands of messages ago.
    return table->MessageOf(ticket.message)->compare_exchange_strong(word, word | 1) ||
           word == (ticket.message << 1 | 1);
  });
}

void KeepSender(bool keep) { LastTable::Get().Keep(keep); }

void ForgetTable() { LastTable::Get().Forget(); }

}  // namespace qnnrt::ipc
