// The interface of every source of shareable memory. Reuse, statistics and failure injection are
// adaptors: adaptors.h and pool.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "support/status.h"

namespace qnnrt {

// Which file an fd means, whatever its number: dup'ed and passed-on fds compare equal.
struct FileId {
  uint64_t device = 0;
  uint64_t inode = 0;
  bool operator==(const FileId& o) const { return device == o.device && inode == o.inode; }
  bool operator!=(const FileId& o) const { return !(*this == o); }
};

// One piece of memory from a heap. A plain record: whoever holds it gives it back with Heap::Free.
struct Allocation {
  void* address = nullptr;  // aligned as asked
  size_t size = 0;          // usable bytes from address on: at least what was asked, whole pages
  int fd = -1;              // belongs to the heap; valid until Free
  uint64_t fd_offset = 0;   // where address lies in fd
  FileId id;                // of fd
  bool reusable = true;     // set to false once the fd has left the process: never pooled then
  void* base = nullptr;     // the heap's own: what has to be unmapped or freed, and its size
  size_t base_size = 0;
};

enum class CpuAccess : uint32_t { kRead = 1, kWrite = 2, kReadWrite = 3 };
enum class SyncPoint { kBegin, kEnd };

class Heap {
 public:
  virtual ~Heap() = default;
  virtual const char* name() const = 0;

  // size > 0; alignment a power of two (anything up to kMaxAlignment is accepted; pages are the
  // minimum in practice). Fresh memory from the kernel is zero; memory through a reuse pool has
  // unspecified contents, as malloc's. Thread safe. Errors: 1004 bad argument, 1002 no memory.
  virtual Result<Allocation> Allocate(size_t size, size_t alignment) = 0;

  // Leaves the record empty. Never fails for a record this heap made; thread safe.
  virtual void Free(Allocation& allocation) = 0;

  // Brackets CPU access to memory that a device shares without coherence; nothing on coherent
  // heaps.
  virtual Status Sync(const Allocation& allocation, CpuAccess access, SyncPoint point) = 0;
  virtual bool coherent() const = 0;
};

// Far above huge-page alignment; larger values are mistakes.
inline constexpr size_t kMaxAlignment = size_t{1} << 30;

}  // namespace qnnrt
