#include "memory/writers.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <tuple>
#include <unordered_map>

#include "abi/qnn_errors.h"
#include "memory/memory.h"
#include "support/clock.h"
#include "support/fair_mutex.h"

namespace qnnrt {

// A file as this process locks parts of it: opened once more, since locks are those of an open
// file, which fds that were sent to other processes share. They end with the process.
class LockFile {
 public:
  // Null: the file cannot be opened again, as that of a dma-buf.
  static std::shared_ptr<LockFile> Of(const FileId& id, int fd) {
    static std::mutex* mutex = new std::mutex;
    static auto* open_files = new std::unordered_map<FileId, std::weak_ptr<LockFile>, FileIdHash>;
    const std::lock_guard<std::mutex> lock(*mutex);
    std::weak_ptr<LockFile>& known = (*open_files)[id];
    if (std::shared_ptr<LockFile> file = known.lock()) return file;
    for (auto at = open_files->begin(); at != open_files->end();)
      at = at->first != id && at->second.expired() ? open_files->erase(at) : std::next(at);
    char path[32];
    std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const int own = open(path, O_RDWR | O_CLOEXEC);
    if (own < 0) return nullptr;
    auto file = std::make_shared<LockFile>(own);
    (*open_files)[id] = file;
    return file;
  }

  explicit LockFile(int fd) : fd_(fd) {}
  ~LockFile() { close(fd_); }
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

  Status Lock(uint64_t begin, uint64_t end, const Interrupt* interrupt) const {
    struct flock what = Range(F_WRLCK, begin, end);
    constexpr useconds_t kPause = 200;
    for (;;) {
      if (fcntl(fd_, interrupt == nullptr ? F_OFD_SETLKW : F_OFD_SETLK, &what) == 0) return {};
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EACCES) {
        return Error(QNN_COMMON_ERROR_SYSTEM,
                     "memory that other processes write cannot be locked: "
                     "error %d",
                     errno);
      }
      QNNRT_RETURN_IF_ERROR(interrupt->Check());
      usleep(kPause);
    }
  }
  void Unlock(uint64_t begin, uint64_t end) const {
    struct flock what = Range(F_UNLCK, begin, end);
    (void)fcntl(fd_, F_OFD_SETLK, &what);
  }

 private:
  static struct flock Range(int kind, uint64_t begin, uint64_t end) {
    struct flock what {};
    what.l_type = static_cast<short>(kind);
    what.l_whence = SEEK_SET;
    what.l_start = static_cast<off_t>(begin);
    what.l_len = static_cast<off_t>(end - begin);
    return what;
  }

  const int fd_;
};

// The executions of this process that write.
class Writers {
 public:
  static Writers& Get() {
    static Writers* writers = new Writers;
    return *writers;
  }

  Status Begin(const WrittenMemory* memory, const Interrupt* interrupt) {
    std::unique_lock<std::mutex> lock(mutex_);
    active_.reserve(active_.size() + waiting_.size() + 1);  // nothing below fails for want of it
    if (!MustWait(memory)) {
      active_.push_back(memory);
      return {};
    }
    waiting_.push_back({memory, Ticks::Now()});
    Status status;
    do {
      if (interrupt == nullptr) {
        ended_.wait(lock);
        continue;
      }
      ended_.wait_for(lock, std::chrono::milliseconds(1));
      status = interrupt->Check();
    } while (status.ok() && MustWait(memory));
    waiting_.erase(std::find_if(waiting_.begin(), waiting_.end(),
                                [&](const Waiter& w) { return w.memory == memory; }));
    if (status.ok()) {
      active_.push_back(memory);
    } else {
      ended_.notify_all();  // for those behind it
    }
    return status;
  }

  void End(const WrittenMemory* memory) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      active_.erase(std::find(active_.begin(), active_.end(), memory));
    }
    ended_.notify_all();
  }

 private:
  struct Waiter {
    const WrittenMemory* memory;
    uint64_t since;  // ticks
  };

  bool IsWritten(const WrittenMemory& memory) const {
    return std::any_of(active_.begin(), active_.end(), [&](const WrittenMemory* other) {
      return other != &memory && other->Overlaps(memory);
    });
  }
  // Also for one that came before, has waited and is about to begin: who executes in a loop would
  // have the memory again before that one is awake. One that has others to wait for stops nobody:
  // these may wait for who asks.
  bool MustWait(const WrittenMemory* memory) const {
    if (IsWritten(*memory)) return true;
    for (const Waiter& other : waiting_) {
      if (other.memory == memory) return false;
      if (FairMutex::ComesFirst(other.since) && other.memory->Overlaps(*memory) &&
          !IsWritten(*other.memory)) {
        return true;
      }
    }
    return false;
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<const WrittenMemory*> active_;
  std::vector<Waiter> waiting_;  // in the order of their calls
};

WrittenMemory::WrittenMemory() = default;
WrittenMemory::~WrittenMemory() = default;

void WrittenMemory::Place(Piece* piece, const FileId& id, uint64_t begin, uint64_t bytes) {
  const uint64_t end = begin + bytes;
  if (piece->id == id && piece->begin == begin && piece->end == end) return;
  if (piece->id != id) piece->file = nullptr;
  piece->id = id;
  piece->begin = begin;
  piece->end = end;
  changed_ = true;
}

void WrittenMemory::Set(size_t i, void* address, uint64_t bytes, SlotHandle handle,
                        uint64_t context) {
  Piece& piece = pieces_[i];
  Memory& memory = Memory::Get();
  const auto shared = [](const Buffer& buffer) {
    return buffer.fd >= 0 && (buffer.Has(kBufferExported) || buffer.Has(kBufferImported) ||
                              buffer.Has(kBufferRpcmem));
  };
  if (handle != 0) {
    if (piece.handle != handle) {
      const MemRegistration* r = memory.registry().TryAcquire(handle, context);
      if (r == nullptr) return;  // the binding has it pinned: it is there
      piece.handle = handle;
      piece.buffer = r->buffer;
      piece.fd = r->buffer != nullptr ? r->buffer->fd : r->watch_fd;
      const bool file = r->fd >= 0;
      Place(&piece, file ? r->id : FileId(),
            file ? r->offset : reinterpret_cast<uintptr_t>(r->address), bytes);
      piece.foreign = false;
      memory.registry().Release(handle);
    }
    const bool foreign = piece.fd >= 0 && (piece.buffer == nullptr || shared(*piece.buffer));
    changed_ |= foreign != piece.foreign;
    piece.foreign = foreign;
    return;
  }
  piece.handle = 0;
  piece.buffer = nullptr;
  bool foreign = false;
  Buffer* buffer = address == nullptr ? nullptr : memory.buffers().PinByAddress(address);
  if (buffer != nullptr && buffer->fd >= 0) {
    Place(
        &piece, buffer->id,
        buffer->fd_offset + static_cast<uint64_t>(static_cast<uint8_t*>(address) - buffer->address),
        bytes);
    piece.fd = buffer->fd;
    foreign = shared(*buffer);
  } else {
    Place(&piece, FileId(), reinterpret_cast<uintptr_t>(address), address == nullptr ? 0 : bytes);
    piece.fd = -1;
  }
  changed_ |= foreign != piece.foreign;
  piece.foreign = foreign;
  // Opened while the buffer is held: its fd may be another file's afterwards.
  if (foreign && piece.file == nullptr) piece.file = LockFile::Of(piece.id, piece.fd);
  if (buffer != nullptr) memory.buffers().Unpin(buffer);
}

bool WrittenMemory::Overlaps(const WrittenMemory& other) const {
  const auto before = [](const Piece& a, const Piece& b) {
    return std::tie(a.id.device, a.id.inode, a.end) <= std::tie(b.id.device, b.id.inode, b.begin);
  };
  auto a = order_.begin();
  auto b = other.order_.begin();
  while (a != order_.end() && b != other.order_.end()) {
    if (before(**a, **b)) {
      ++a;
    } else if (before(**b, **a)) {
      ++b;
    } else {
      return true;
    }
  }
  return false;
}

Status WrittenMemory::LockFiles(const Interrupt* interrupt) {
  for (size_t i = 0; i < files_.size();) {
    // Neighbours in one go.
    size_t end = i + 1;
    while (end < files_.size() && files_[end]->file == files_[i]->file &&
           files_[end]->begin == files_[end - 1]->end) {
      ++end;
    }
    QNNRT_RETURN_IF_ERROR(files_[i]->file->Lock(files_[i]->begin, files_[end - 1]->end, interrupt));
    for (; i < end; ++i) files_[i]->locked = true;
  }
  return {};
}

Status WrittenMemory::Lock(const Interrupt* interrupt) {
  if (changed_) {
    order_.clear();
    files_.clear();
    for (Piece& piece : pieces_) {
      if (piece.begin != piece.end) order_.push_back(&piece);
    }
    std::sort(order_.begin(), order_.end(), [](const Piece* a, const Piece* b) {
      return std::tie(a->id.device, a->id.inode, a->begin) <
             std::tie(b->id.device, b->id.inode, b->begin);
    });
    for (size_t i = 1; i < order_.size(); ++i) {
      if (order_[i]->id == order_[i - 1]->id && order_[i]->begin < order_[i - 1]->end) {
        return Error(QNN_GRAPH_ERROR_INVALID_TENSOR,
                     "two tensors that are read and written (APP_READWRITE) have the same memory: "
                     "give each its own");
      }
    }
    for (const Piece* ordered : order_) {
      Piece& piece = pieces_[static_cast<size_t>(ordered - pieces_.data())];
      if (piece.foreign && piece.file == nullptr) piece.file = LockFile::Of(piece.id, piece.fd);
      if (!piece.foreign) piece.file = nullptr;
      if (piece.file != nullptr) files_.push_back(&piece);
    }
    changed_ = false;
  }
  QNNRT_RETURN_IF_ERROR(Writers::Get().Begin(this, interrupt));
  Status status = LockFiles(interrupt);
  if (!status.ok()) Unlock();
  return status;
}

void WrittenMemory::Unlock() {
  for (size_t i = 0; i < files_.size();) {
    size_t end = i + 1;
    while (end < files_.size() && files_[end]->file == files_[i]->file &&
           files_[end]->begin == files_[end - 1]->end && files_[end]->locked == files_[i]->locked) {
      ++end;
    }
    if (files_[i]->locked) files_[i]->file->Unlock(files_[i]->begin, files_[end - 1]->end);
    for (; i < end; ++i) files_[i]->locked = false;
  }
  Writers::Get().End(this);
}

}  // namespace qnnrt
