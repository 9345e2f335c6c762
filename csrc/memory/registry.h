// Memory handles: which buffer range a context may use as which tensor.
//
// A handle is slot and generation. Register and deregister take a lock; Acquire, which every
// execution does for every tensor, is one compare-and-swap. The rules and codes are those of the
// QNN memory API: register is all or nothing with its output nulled first; deregister knows no
// context and still processes the valid handles of an array that has bad ones.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "memory/buffer.h"
#include "memory/process_domain.h"
#include "support/fork.h"
#include "support/slot_table.h"
#include "support/status.h"

namespace qnnrt {

enum class MemKind : uint32_t {
  kIon = 1,           // one fd, one tensor, from the start of the fd
  kSharedBuffer = 2,  // a range of an fd
  kDmaBuf = 3,        // an fd and the address where the client has mapped it
  kQurt = 4,          // an address that exists on the DSP only
  kWeights = 5,       // empty buffers that a backend fills
  kSpillFill = 6,
  kVtcmBackup = 7,
  kLpaiCustom = 8,  // an fd and an offset, without a size
  kOpenCl = 9,      // a cl_mem
};
constexpr uint32_t KindBit(MemKind kind) { return 1u << static_cast<uint32_t>(kind); }
inline constexpr uint32_t kCpuReachableKinds =
    KindBit(MemKind::kIon) | KindBit(MemKind::kSharedBuffer) | KindBit(MemKind::kDmaBuf);
const char* MemKindName(MemKind kind);

inline constexpr uint32_t kMaxMemRank = 8;

// What a client asks to register, free of any backend's own struct: descriptor.h makes it from
// those.
struct MemDescriptor {
  MemKind kind = MemKind::kIon;
  int fd = -1;
  uint64_t offset = 0;  // kSharedBuffer, kLpaiCustom and the backend-filled kinds
  uint64_t size = 0;    // of the whole buffer behind fd, for kinds that state it; 0: not stated
  bool states_size = false;
  void* data = nullptr;  // kDmaBuf
  uint32_t rank = 0;
  const uint32_t* dims = nullptr;
  const char* shape_config = nullptr;
  uint32_t data_type = 0;  // Qnn_DataType_t
};

struct RegistrationGroup;

// A live registration. Immutable while pinned, but for the registry's own links.
struct MemRegistration {
  SlotHandle handle = 0;
  uint64_t context = 0;
  uint8_t* address = nullptr;  // of the tensor's first byte
  uint64_t nbytes = 0;         // of the tensor: elements x element size
  uint64_t available = 0;      // bytes from address to the end of the buffer
  uint64_t offset = 0;         // of the tensor in fd
  uint64_t file_size = 0;      // of what is behind fd: a device maps it whole
  MemKind kind = MemKind::kIon;
  uint32_t data_type = 0;
  uint32_t rank = 0;
  uint32_t dims[kMaxMemRank] = {};
  int fd = -1;  // as the client gave it; for messages
  FileId id;    // the file: the same for dup'ed fds
  Buffer* buffer =
      nullptr;              // held while registered; null for a kDmaBuf mapping of the client's own
  bool writable = true;     // false: fit for inputs only
  bool can_shrink = false;  // an unsealed foreign file: its size is checked at every Acquire
  int watch_fd = -1;        // a dup where there is no buffer
  bool counted = false;     // against a process domain
  int sync_fd = -1;         // a dma-buf whose CPU access an execution has to bracket; not owned
  uint32_t bound = 0;       // pins counted by NoteBound
  MemRegistration* next = nullptr;  // the registry's: others of the context
  MemRegistration* previous = nullptr;
  MemRegistration* chained = nullptr;  // the next one in its chain of a RegistrationIndex
  RegistrationGroup* group = nullptr;  // in which it is found instead
};

// Tensors of one buffer that one call has registered, as the caches of a text. They are found by a
// search among themselves: an entry of an index for each is a cache miss for each.
struct RegistrationGroup {
  struct Member {
    uint64_t offset;
    MemRegistration* registration;  // null once it was deregistered
  };
  std::vector<Member> members;  // by offset
  size_t live = 0;

  Member* Find(uint64_t offset);
};

// Finds a registration by what may be registered once in a context: the place in a file. A hash
// table whose chains go through the registrations, so that entries need no memory of their own.
class RegistrationIndex {
 public:
  struct Key {
    uint64_t context;
    FileId id;
    uint64_t offset;
    bool operator==(const Key& o) const {
      return context == o.context && id == o.id && offset == o.offset;
    }
  };
  static Key KeyOf(const MemRegistration& r) { return {r.context, r.id, r.offset}; }

  // Room for so many more, so that Add needs no memory. Throws std::bad_alloc.
  void Reserve(size_t more);
  MemRegistration* Find(const Key& key) const;
  // Has the caches fetch where Find looks.
  void Prefetch(const Key& key) const {
    if (!chains_.empty()) __builtin_prefetch(&chains_[ChainOf(key)], 1);
  }
  void Add(MemRegistration* r);
  void Remove(MemRegistration* r);
  void Clear();

 private:
  size_t ChainOf(const Key& key) const;

  std::vector<MemRegistration*> chains_;  // a power of two of them, or none
  size_t size_ = 0;
};

class MemUse;

class Registry {
 public:
  Registry(BufferTable* buffers, Counters* counters) : buffers_(buffers), counters_(counters) {}

  // `kinds`: which ones the backend takes (KindBit); others are 8005. `domain`: where the files
  // count as mapped, each once however many handles and contexts use it; null where nothing is
  // mapped. All or nothing: handles[i] are 0 on any error. Errors: 8000, 8002, 8003, 8004, 8005
  // with the entry's number in the message.
  Status Register(uint64_t context, const MemDescriptor* descriptors, uint32_t count,
                  uint32_t kinds, SlotHandle* handles, ProcessDomain* domain = nullptr);

  // Has the caches fetch the records that the next Register fills, if it registers as many tensors
  // as the last one did: for who waits for the kernel first. Behind a run that has read a model
  // they are in memory.
  void Prefetch() const;

  // Deregisters every valid handle, whatever the others are. Errors: 8001 a stale one, 1005 one in
  // use by an execution (that one stays registered).
  Status Deregister(const SlotHandle* handles, uint32_t count);

  // For executions: pins the registration until Release. Errors: 8001 stale or of another context,
  // 8003 a foreign file that shrank. Lock free.
  Result<const MemRegistration*> Acquire(SlotHandle handle, uint64_t context);
  // The same without a message built: null when it cannot be used (ask Acquire why).
  const MemRegistration* TryAcquire(SlotHandle handle, uint64_t context) {
    const MemRegistration* r = slots_.Acquire(handle);
    if (!r) return nullptr;
    if (r->context == context && (!r->can_shrink || StillCovered(r))) return r;
    slots_.Release(handle);
    return nullptr;
  }
  void Release(SlotHandle handle) { slots_.Release(handle); }
  // Counts pins that a client holds beyond an execution, so that Deregister can name them.
  void NoteBound(const std::vector<SlotHandle>& handles, bool bound);

  // The context is being freed: its handles are stale from here on. Returns how many there were.
  // Does not wait: handles of running executions are counted in *in_use and stay registered.
  uint32_t FreeContext(uint64_t context, uint32_t* in_use = nullptr);
  // Drops every registration of the buffer that is not in use; returns how many.
  uint32_t DeregisterBuffer(const Buffer* buffer, uint32_t* in_use);
  // The context's newest registration of a kind that belongs to the context as a whole (kWeights,
  // kSpillFill), pinned; empty when it has none.
  Result<MemUse> AcquireKind(uint64_t context, MemKind kind);
  // How many executions use the buffer through handles right now; for messages.
  uint32_t InFlight(const Buffer* buffer);

  std::mutex& mutex() { return mutex_; }
  void InvalidateAfterFork();

 private:
  using Slots = SlotTable<MemRegistration>;
  // `before`: what the same call registered before, or null; one fd is looked up once.
  Status RegisterOne(uint64_t context, const MemDescriptor& d, uint32_t kinds,
                     const MemRegistration* before, SlotHandle* handle, ProcessDomain* domain);
  // Tensors next to each other in one known buffer, at once. False, and nothing was done: they are
  // something else, or one of them cannot be registered.
  bool RegisterTogether(uint64_t context, const MemDescriptor* descriptors, uint32_t count,
                        uint32_t kinds, SlotHandle* handles, ProcessDomain* domain);
  bool FillTogether(const MemDescriptor* descriptors, uint32_t count, MemRegistration* rest,
                    MemRegistration* r, SlotHandle* handles);
  // What is registered there.
  const MemRegistration* Find(const RegistrationIndex::Key& key);
  // `count` registrations, of which r is one, count as a use of the file.
  Status MapFile(MemRegistration* r, ProcessDomain* domain, uint32_t count = 1);
  void UnmapFile(const MemRegistration& r);
  // Shape and type into r, and how many bytes they take.
  static Status CheckShape(const MemDescriptor& d, MemRegistration* r);
  // Address and limits into r, with a pin on the buffer.
  Status LocateInFd(const MemDescriptor& d, const MemRegistration* before, MemRegistration* r);
  Status LocateClientMapping(const MemDescriptor& d, MemRegistration* r);
  Status LocateIn(Buffer* pinned, const MemDescriptor& d, MemRegistration* r);
  bool StillCovered(const MemRegistration* r) const;
  void Remove(MemRegistration* r);  // after Retire
  Status Stale(SlotHandle handle) const;

  struct FileOfContext {
    uint64_t context;
    FileId id;
    bool operator==(const FileOfContext& o) const { return context == o.context && id == o.id; }
  };
  struct FileOfContextHash {
    size_t operator()(const FileOfContext& f) const {
      return FileIdHash()(f.id) ^ f.context * 0xC2B2AE3D27D4EB4Fu;
    }
  };
  struct MappedFile {  // in a process domain
    ProcessDomain::Share share;
    uint32_t registrations = 0;
  };

  BufferTable* buffers_;
  Counters* counters_;
  mutable std::mutex mutex_;
  Slots slots_;
  uint32_t last_count_ = 0;       // of tensors that were registered together
  RegistrationIndex registered_;  // those that are in no group
  // One for a file at most, so that looking there is one search; what comes later is in the index.
  std::unordered_map<FileOfContext, RegistrationGroup, FileOfContextHash> groups_;
  std::unordered_map<uint64_t, MemRegistration*> by_context_;  // first of a list
  std::unordered_map<FileId, MappedFile, FileIdHash> mapped_;
  std::atomic<bool> forked_{false};
};

// Pins a registration during its lifetime.
class MemUse {
 public:
  MemUse() = default;
  MemUse(Registry* registry, const MemRegistration* r)
      : registry_(registry), registration_(r), forks_(ForkGeneration()) {}
  MemUse(MemUse&& o) noexcept { *this = std::move(o); }
  MemUse& operator=(MemUse&& o) noexcept {
    if (this != &o) {
      Reset();
      registry_ = o.registry_;
      registration_ = std::exchange(o.registration_, nullptr);
      forks_ = o.forks_;
    }
    return *this;
  }
  ~MemUse() { Reset(); }
  void Reset() {
    // A forked child's registry has none of its parent's pins.
    if (registration_ && forks_ == ForkGeneration()) registry_->Release(registration_->handle);
    registration_ = nullptr;
  }
  const MemRegistration* operator->() const { return registration_; }
  explicit operator bool() const { return registration_ != nullptr; }

 private:
  Registry* registry_ = nullptr;
  const MemRegistration* registration_ = nullptr;
  uint32_t forks_ = 0;
};

}  // namespace qnnrt
