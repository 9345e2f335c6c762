// Buffers: memory with an owner, and everything that can hold it.
//
// Every hold is a pin on the buffer's slot (owners beyond the first, exported views, registrations,
// executions, memory pools of graphs), so "nobody holds it" is one atomic comparison and a close
// can never race with a new view. The separate counts only say who.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "memory/counters.h"
#include "memory/heap.h"
#include "memory/mapping.h"
#include "support/slot_table.h"
#include "support/status.h"

namespace qnnrt {

enum BufferFlag : uint32_t {
  kBufferImported = 1,    // the fd came from outside
  kBufferWrapped = 2,     // somebody else's memory without an fd
  kBufferRpcmem = 4,      // made by rpcmem_alloc
  kBufferCanShrink = 8,   // imported, and its maker can truncate it
  kBufferReadOnly = 16,   // mapped without write permission
  kBufferExported = 32,   // its fd has left the library: never reused
  kBufferDmaBuf = 64,     // a dma-buf, so CPU access needs sync unless coherent
  kBufferCoherent = 128,  // no sync needed
  kBufferInherited = 256  // made before a fork, seen in the child: readable, not changeable
};

enum class Hold { kOwner, kExport, kRegistration, kExecution, kPool };

struct Buffer {
  SlotHandle handle = 0;
  uint8_t* address = nullptr;
  uint64_t nbytes = 0;  // what was asked
  uint64_t mapped = 0;  // usable from address on
  int fd = -1;
  uint64_t fd_offset = 0;    // of address in fd
  uint64_t fd_size = 0;      // the whole file behind fd
  Heap* heap = nullptr;      // null: imported or wrapped
  Allocation allocation;     // of heap; for an import base/base_size is its mapping
  FileId id;                 // of fd
  uint64_t stated_size = 0;  // registry's: the size that SHARED_BUFFER registrations agreed on
  std::atomic<uint32_t> flags{0};
  std::atomic<int32_t> owners{0}, exports{0}, registrations{0}, executions{0}, pools{0};
  std::atomic<bool> orphan{false};  // no owner left; freed with its last hold

  bool Has(BufferFlag flag) const { return flags.load(std::memory_order_relaxed) & flag; }
  void Set(BufferFlag flag) { flags.fetch_or(flag, std::memory_order_relaxed); }
  // By more than one owner, and by running calls.
  bool Held() const;
  const char* heap_name() const;
};

class BufferTable {
 public:
  explicit BufferTable(Counters* counters) : counters_(counters) {}

  // The buffer starts with one owner.
  Result<SlotHandle> Allocate(Heap* heap, uint64_t nbytes, uint64_t alignment, uint32_t flags);
  // Any fd that can be mapped; dup'ed, so the caller keeps his own. nbytes 0: to the end of the
  // file.
  Result<SlotHandle> Import(int fd, uint64_t nbytes, uint64_t offset) {
    QNNRT_ASSIGN_OR_RETURN(const FdInfo info, InspectFd(fd));
    return Import(fd, info, nbytes, offset, UniqueFd());
  }
  // The fd, about which that is known, becomes the buffer's, or is closed.
  Result<SlotHandle> Import(UniqueFd fd, const FdInfo& info, uint64_t nbytes, uint64_t offset) {
    const int number = fd.get();
    return Import(number, info, nbytes, offset, std::move(fd));
  }
  Result<SlotHandle> Wrap(void* address, uint64_t nbytes, bool read_only);

  // A pinned buffer: null when the handle is stale. Unpin drops the pin (and the buffer with it,
  // when that was the last hold of one without owners).
  Buffer* Pin(SlotHandle handle) { return slots_.Acquire(handle); }
  // So many pins more, of one that is pinned.
  void PinMore(Buffer* pinned, uint32_t count) { slots_.AcquireMore(pinned->handle, count); }
  void Unpin(Buffer* buffer);
  // Turns the caller's pins into holds of that kind, and releases such a hold.
  static void Keep(Buffer* pinned, Hold hold, int32_t count = 1);
  // Why a buffer that is held cannot be freed: 1005.
  static Status InUse(const Buffer& pinned);
  void ReleaseHold(Buffer* buffer, Hold hold);
  // Adds or drops a hold of a kind; Close reports the count.
  Status Take(SlotHandle handle, Hold hold);
  Status Drop(SlotHandle handle, Hold hold);

  // Drops an owner; the last one frees the buffer as soon as nothing else holds it.
  Status Release(SlotHandle handle);
  // Frees now or says who holds it (1005) and changes nothing.
  Status Close(SlotHandle handle);

  // The buffer that holds the address, pinned, or null. O(log n).
  Buffer* PinByAddress(const void* address);
  // The own or imported buffer whose fd has this number, pinned, or null. O(1).
  Buffer* PinByFd(int fd);
  // A buffer mapping bytes [offset, offset + nbytes) of the file, pinned, or null.
  Buffer* PinByFile(const FileId& id, uint64_t offset, uint64_t nbytes);

  // The fd for use outside: from now on the memory is never reused.
  Result<int> ExportFd(Buffer* pinned);
  // 8003 when a foreign file no longer covers the buffer.
  Status CheckAlive(const Buffer* pinned) const;
  Status Sync(const Buffer* pinned, CpuAccess access, SyncPoint point) const;

  std::shared_mutex& mutex() { return mutex_; }
  void MarkInheritedAfterFork();

 private:
  using Slots = SlotTable<Buffer>;
  struct Draft {  // a buffer before it has a slot
    uint8_t* address = nullptr;
    uint64_t nbytes = 0, mapped = 0;
    int fd = -1;
    uint64_t fd_offset = 0, fd_size = 0;
    Heap* heap = nullptr;
    Allocation allocation;
    FileId id;
    uint32_t flags = 0;
  };
  Result<SlotHandle> Import(int fd, const FdInfo& info, uint64_t nbytes, uint64_t offset,
                            UniqueFd own);
  Result<SlotHandle> Add(const Draft& draft);
  void Finish(Buffer* buffer);  // after Retire: unindex, recycle the slot, free

  Counters* counters_;
  mutable std::shared_mutex mutex_;
  Slots slots_;
  std::map<uintptr_t, Buffer*> by_address_;  // disjoint ranges: mappings never overlap
  std::vector<Buffer*> by_fd_;
  std::unordered_multimap<FileId, Buffer*, FileIdHash> by_id_;  // those whose fd is known outside
};

// A pin that ends with its scope, however that is left; none where there was no buffer to pin.
class BufferPin {
 public:
  BufferPin(BufferTable* table, Buffer* pinned) : table_(table), b_(pinned) {}
  BufferPin(const BufferPin&) = delete;
  BufferPin& operator=(const BufferPin&) = delete;
  ~BufferPin() {
    if (b_ != nullptr) table_->Unpin(b_);
  }
  explicit operator bool() const { return b_ != nullptr; }
  Buffer* operator->() const { return b_; }
  Buffer* get() const { return b_; }
  Buffer* release() { return std::exchange(b_, nullptr); }  // the pin is the caller's

 private:
  BufferTable* table_;
  Buffer* b_;
};

}  // namespace qnnrt
