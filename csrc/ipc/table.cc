#include "ipc/table.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstring>

#include "ipc/socket.h"

namespace qnnrt::ipc {
namespace {

struct Path {
  Path(uint32_t pid, uint32_t fd) { std::snprintf(text, sizeof text, "/proc/%u/fd/%u", pid, fd); }
  char text[48];
};

UniqueFd Open(const Path& path) {
  return UniqueFd(open(path.text, O_RDWR | O_CLOEXEC | O_NONBLOCK), &IpcCounters());
}

// The table of the ticket's sender; invalid where it is not that, or not this user's.
UniqueFd TableOf(const qnnrt_ticket_t& ticket) {
  struct stat file;
  // Looked at before it is opened: the number may be anything's by now, a device's say.
  const Path path(ticket.pid, ticket.table);
  if (stat(path.text, &file) != 0 || !S_ISREG(file.st_mode) || file.st_uid != geteuid() ||
      file.st_size != static_cast<off_t>(sizeof(Table))) {
    return {};
  }
  UniqueFd table = Open(path);
  uint8_t sender[16];
  if (!table.valid() ||
      pread(table.get(), sender, sizeof sender, offsetof(Table, sender)) !=
          static_cast<ssize_t>(sizeof sender) ||
      std::memcmp(sender, ticket.sender, sizeof sender) != 0) {
    return {};
  }
  return table;
}

}  // namespace

Result<UniqueFd> OpenDirectly(const qnnrt_ticket_t& ticket, UniqueFd* table) {
  constexpr uint32_t kAsk = QNNRT_HANDOFF_CONNECT;
  if (ticket.kind != static_cast<uint32_t>(FdKind::kMemfd)) return Status(kAsk);
  *table = TableOf(ticket);
  Table::Entry entry;
  const auto at =
      static_cast<off_t>(offsetof(Table, leases) + ticket.lease % Table::kLeases * sizeof entry);
  if (!table->valid() ||
      pread(table->get(), &entry, sizeof entry, at) != static_cast<ssize_t>(sizeof entry) ||
      entry.lease != ticket.lease || !SameToken(entry.token, ticket.token)) {
    return Status(kAsk);
  }
  UniqueFd fd = Open(Path(ticket.pid, entry.fd));  // what it is will be seen
  if (!fd.valid()) return Status(kAsk);
  return fd;
}

bool MarkArrived(const UniqueFd& table, const qnnrt_ticket_t& ticket) {
  const auto at = static_cast<off_t>(offsetof(Table, messages) +
                                     ticket.message % Table::kMessages * sizeof(uint64_t));
  uint64_t word;
  if (!table.valid() ||
      pread(table.get(), &word, sizeof word, at) != static_cast<ssize_t>(sizeof word)) {
    return false;
  }
  if (word == (ticket.message << 1 | 1)) return true;
  if (word != ticket.message << 1) return false;  // tens of thousands of messages ago
  word |= 1;
  return pwrite(table.get(), &word, sizeof word, at) == static_cast<ssize_t>(sizeof word);
}

bool ArrivedDirectly(const qnnrt_ticket_t& ticket) { return MarkArrived(TableOf(ticket), ticket); }

}  // namespace qnnrt::ipc
