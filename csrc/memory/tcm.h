// The memory that LPAI clients allocate inputs, outputs and model binaries in: DDR, or the tightly
// coupled memory (TCM) that an aDSP reaches in direct mode. Only its limits
// are modelled, so that a network that does not fit fails here as it would on the device.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "abi/qnn_lpai.h"
#include "abi/qnn_objects.h"
#include "memory/memory.h"

namespace qnnrt {

inline constexpr uint64_t kTcmBytes = 2035712;
inline constexpr uint32_t kTcmMaxPieces = 32;
inline constexpr char kTcmHeapName[] = "tcm";

// The allocated pieces of a pool. Makes no allocations. Not thread safe.
class TcmPool {
 public:
  enum class Fault {
    kNone,
    kNoRoom,   // no gap is large enough; nothing has changed
    kTooMany,  // more pieces than allowed: the pool refuses everything from here on
    kDead
  };

  // alignment: of every piece's start; a power of two.
  explicit TcmPool(uint64_t alignment, uint64_t bytes = kTcmBytes) noexcept
      : bytes_(bytes), alignment_(alignment) {}

  // The smallest gap that holds nbytes > 0, the first of equal ones.
  Fault Take(uint64_t nbytes, uint64_t* offset) noexcept;
  // False: no piece begins there.
  bool Give(uint64_t offset) noexcept;

  bool dead() const noexcept { return dead_; }
  uint64_t bytes() const noexcept { return bytes_; }
  uint32_t pieces() const noexcept { return count_; }
  uint64_t used() const noexcept;
  uint64_t largest() const noexcept;  // the most that one piece could have

 private:
  struct Piece {
    uint64_t offset, nbytes;
  };
  // f(index in pieces_, aligned start, bytes from there on) for each gap that has any.
  template <typename F>
  void ForEachGap(F&& f) const;

  std::array<Piece, kTcmMaxPieces> pieces_{};  // by offset
  uint32_t count_ = 0;
  bool dead_ = false;
  const uint64_t bytes_, alignment_;
};

// A pool with memory behind it, as a source of buffers: one file for all of them, an fd for each.
// Thread safe; outlives its buffers.
class TcmHeap final : public Heap {
 public:
  // `source` gives the pool's memory.
  static Result<std::unique_ptr<TcmHeap>> Make(Heap* source, uint64_t alignment,
                                               Counters* counters);
  ~TcmHeap() override;

  const char* name() const override { return kTcmHeapName; }
  // Errors: 1002 no room, 1011 one piece too many, and everything after that.
  Result<Allocation> Allocate(size_t size, size_t alignment) override;
  void Free(Allocation& allocation) override;
  Status Sync(const Allocation& allocation, CpuAccess access, SyncPoint point) override;
  bool coherent() const override { return source_->coherent(); }

  struct Totals {
    uint64_t bytes, used, largest;
    uint32_t pieces;
    bool dead;
  };
  Totals totals() const;

 private:
  TcmHeap(Heap* source, const Allocation& memory, uint64_t alignment, Counters* counters)
      : source_(source), memory_(memory), counters_(counters), pool_(alignment) {}

  Heap* const source_;
  Allocation memory_;
  Counters* const counters_;
  mutable std::mutex mutex_;
  TcmPool pool_;
};

// Allocates in one kind of memory, chosen once: kinds are never mixed, and nothing falls back from
// one to the other. Its log lines are those that the vendor's documentation tells clients to
// look for. Thread safe. In the child of a fork every call is refused (1005).
class LpaiAllocator {
 public:
  using Log = std::function<void(QnnLog_Level_t, const std::string&)>;
  struct Options {
    const char* mem_type = nullptr;  // "ddr", "tcm"; null: ddr
    bool direct_mode = false;
    uint64_t start_alignment = 64;  // a power of two
  };
  // A mem_type that is unknown is no error yet: the type is UNDEFINED then, and allocating fails.
  // Errors: 1006 TCM without direct mode.
  static Result<std::unique_ptr<LpaiAllocator>> Make(const Options& options, Log log);
  ~LpaiAllocator();

  // A buffer with one owner, the caller; buffer calls work on it, closing it gives the piece back.
  // Errors: 1004 no bytes, or the type is UNDEFINED; 1002 no room; 1011 one piece too many, and
  // everything after that.
  Result<SlotHandle> Allocate(uint64_t nbytes);
  // Closes a piece of this allocator. Errors: 8001 it is none, 1005 who holds it, 1011.
  Status Free(SlotHandle piece);
  // Closes every remaining piece; every later call is refused. Errors: 1005 with who holds
  // a piece; nothing has changed then.
  Status Close();

  QnnLpaiMem_MemType_t mem_type() const { return mem_type_; }
  struct Info {
    QnnLpaiMem_MemType_t mem_type;
    bool fatal;
    uint32_t pieces, max_pieces;                  // max_pieces 0: any number
    uint64_t used_bytes, pool_bytes, free_bytes;  // of a pool, of which DDR has none; else 0
  };
  Result<Info> info();

 private:
  LpaiAllocator(QnnLpaiMem_MemType_t mem_type, uint64_t alignment, Log log);
  Status Usable() const;
  Status EnsurePool();
  Status Failed(uint64_t nbytes, Status why);
  Result<SlotHandle> AllocateTcm(uint64_t nbytes);
  void DropClosedPieces();  // those closed as buffers

  const QnnLpaiMem_MemType_t mem_type_;
  const uint64_t alignment_;
  const Log log_;
  const uint32_t forks_;
  std::mutex mutex_;
  std::unique_ptr<TcmHeap> heap_;   // made by the first allocation
  std::vector<SlotHandle> pieces_;  // some of which may be closed
  bool closed_ = false;
};

}  // namespace qnnrt
