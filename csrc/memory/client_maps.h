// Memory that a client has declared to FastRPC itself: buffers through remote_register_buf*, fds
// through fastrpc_mmap. The CPU needs no mapping, so this only tracks the declarations: what is
// declared twice, or withdrawn without having been declared, gives the real library's results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>

#include "memory/mapping.h"

namespace qnnrt {

class ClientMaps {
 public:
  // fd -1 withdraws a registration. Returns false when there is none, or on invalid arguments.
  bool RegisterBuffer(void* address, size_t size, int fd);
  size_t registered_buffers() const;

  enum class Outcome { kOk, kBadArgument, kAlready, kUnsupported, kUnknown };
  // offset and length in whole pages, inside the file; the same (domain, file, offset, length)
  // twice is kAlready.
  Outcome Map(int domain, int fd, void* address, int offset, size_t length, int flags);
  Outcome Unmap(int domain, int fd, void* address, size_t length);

  std::mutex& mutex() { return mutex_; }

 private:
  struct Declared {
    size_t size;
    int fd;
  };
  struct Mapped {
    FileId id;
    void* address;
    uint64_t offset;
    size_t length;
  };
  mutable std::mutex mutex_;
  std::map<uintptr_t, Declared> buffers_;
  std::multimap<std::pair<int, int>, Mapped> mapped_;  // by domain and fd
};

}  // namespace qnnrt
