// One writer at a time of memory that executions read and write, in this process and in others.
#pragma once

#include <memory>
#include <vector>

#include "memory/heap.h"
#include "support/interrupt.h"
#include "support/slot_table.h"
#include "support/status.h"

namespace qnnrt {

struct Buffer;
class LockFile;

// What one graph writes in an execution beside its outputs. Its owner lets one execution at a time
// use it.
class WrittenMemory {
 public:
  WrittenMemory();
  ~WrittenMemory();

  void Resize(size_t count) { pieces_.resize(count); }
  // Piece i in the next execution: registered memory, or (handle 0) an address; null: none. What
  // the handle is of is pinned until Unlock.
  void Set(size_t i, void* address, uint64_t bytes, SlotHandle handle, uint64_t context);
  // Waits until no other execution writes any of it: all at once in this process; in others, which
  // may have the memory too, in one order for all. Errors: 6004 two pieces overlap; what the
  // interrupt says.
  Status Lock(const Interrupt* interrupt);
  void Unlock();

 private:
  friend class Writers;
  // Bytes of a file or, where that is none, of this process's memory.
  struct Piece {
    FileId id;
    uint64_t begin = 0, end = 0;
    SlotHandle handle = 0;
    const Buffer* buffer = nullptr;
    int fd = -1;
    bool foreign = false;            // another process may have mapped it
    std::shared_ptr<LockFile> file;  // of that memory
    bool locked = false;
  };

  void Place(Piece* piece, const FileId& id, uint64_t begin, uint64_t bytes);
  Status LockFiles(const Interrupt* interrupt);
  bool Overlaps(const WrittenMemory& other) const;

  std::vector<Piece> pieces_;
  std::vector<const Piece*> order_;  // by file and place
  std::vector<Piece*> files_;        // those that are locked between processes, in that order
  bool changed_ = true;
};

}  // namespace qnnrt
