#include "memory/tcm.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>

#include <algorithm>

#include "abi/qnn_errors.h"
#include "support/checked.h"
#include "support/fork.h"

namespace qnnrt {

using Ull = unsigned long long;

// ---- The pool ----

template <typename F>
void TcmPool::ForEachGap(F&& f) const {
  uint64_t start = 0;
  for (uint32_t i = 0; i <= count_; ++i) {
    const uint64_t end = i < count_ ? pieces_[i].offset : bytes_;
    uint64_t aligned;
    if (CheckedAlignUp(start, alignment_, &aligned) && aligned < end) f(i, aligned, end - aligned);
    if (i < count_) start = pieces_[i].offset + pieces_[i].nbytes;
  }
}

TcmPool::Fault TcmPool::Take(uint64_t nbytes, uint64_t* offset) noexcept {
  if (dead_) return Fault::kDead;
  if (count_ == kTcmMaxPieces) {
    dead_ = true;
    return Fault::kTooMany;
  }
  uint64_t best = UINT64_MAX;
  uint32_t index = 0;
  ForEachGap([&](uint32_t i, uint64_t start, uint64_t room) {
    if (room < nbytes || room >= best) return;
    best = room;
    index = i;
    *offset = start;
  });
  if (best == UINT64_MAX) return Fault::kNoRoom;
  std::copy_backward(pieces_.begin() + index, pieces_.begin() + count_,
                     pieces_.begin() + count_ + 1);
  pieces_[index] = {*offset, nbytes};
  ++count_;
  return Fault::kNone;
}

bool TcmPool::Give(uint64_t offset) noexcept {
  for (uint32_t i = 0; i < count_; ++i) {
    if (pieces_[i].offset != offset) continue;
    std::copy(pieces_.begin() + i + 1, pieces_.begin() + count_, pieces_.begin() + i);
    --count_;
    return true;
  }
  return false;
}

uint64_t TcmPool::used() const noexcept {
  uint64_t used = 0;
  for (uint32_t i = 0; i < count_; ++i) used += pieces_[i].nbytes;
  return used;
}

uint64_t TcmPool::largest() const noexcept {
  uint64_t largest = 0;
  ForEachGap([&](uint32_t, uint64_t, uint64_t room) { largest = std::max(largest, room); });
  return largest;
}

// ---- The pool as a heap ----

namespace {

Status TooMany() {
  return Error(QNN_COMMON_ERROR_SYSTEM_COMMUNICATION_FATAL,
               "more than %u pieces of TCM were asked for, which is fatal: this allocator takes no "
               "more calls; use fewer buffers, or mem_type ddr",
               kTcmMaxPieces);
}

}  // namespace

Result<std::unique_ptr<TcmHeap>> TcmHeap::Make(Heap* source, uint64_t alignment,
                                               Counters* counters) {
  QNNRT_ASSIGN_OR_RETURN(Allocation memory,
                         source->Allocate(kTcmBytes, std::max<uint64_t>(alignment, PageSize())));
  try {
    return std::unique_ptr<TcmHeap>(new TcmHeap(source, memory, alignment, counters));
  } catch (const std::bad_alloc&) {
    source->Free(memory);
    throw;
  }
}

TcmHeap::~TcmHeap() { source_->Free(memory_); }

Result<Allocation> TcmHeap::Allocate(size_t size, size_t) {
  // Of its own for each piece: buffers are found by the number of their fd.
  UniqueFd fd(fcntl(memory_.fd, F_DUPFD_CLOEXEC, 0), counters_);
  if (!fd.valid()) {
    return Error(QNN_COMMON_ERROR_MEM_ALLOC, "an fd for a piece of TCM: %s", strerror(errno));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  uint64_t offset = 0;
  switch (pool_.Take(size, &offset)) {
    case TcmPool::Fault::kNone:
      break;
    case TcmPool::Fault::kNoRoom:
      return Error(QNN_COMMON_ERROR_MEM_ALLOC,
                   "the TCM pool of %llu bytes has %llu in %u pieces and room for one of %llu; use "
                   "smaller or fewer buffers, or mem_type ddr",
                   Ull{pool_.bytes()}, Ull{pool_.used()}, pool_.pieces(), Ull{pool_.largest()});
    case TcmPool::Fault::kTooMany:
    case TcmPool::Fault::kDead:
      return TooMany();
  }
  Allocation piece;
  piece.address = static_cast<uint8_t*>(memory_.address) + offset;
  piece.size = size;
  piece.fd = fd.Release();
  piece.fd_offset = memory_.fd_offset + offset;
  piece.id = memory_.id;
  piece.reusable = false;
  piece.base = piece.address;
  piece.base_size = memory_.base_size;  // of the whole file behind the fd
  return piece;
}

void TcmHeap::Free(Allocation& piece) {
  CloseCounted(piece.fd, counters_);
  const uint64_t offset = piece.fd_offset - memory_.fd_offset;
  piece = {};
  std::lock_guard<std::mutex> lock(mutex_);
  pool_.Give(offset);
}

Status TcmHeap::Sync(const Allocation&, CpuAccess access, SyncPoint point) {
  return source_->Sync(memory_, access, point);
}

TcmHeap::Totals TcmHeap::totals() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return {pool_.bytes(), pool_.used(), pool_.largest(), pool_.pieces(), pool_.dead()};
}

// ---- The allocator ----

namespace {

QnnLpaiMem_MemType_t ParseMemType(const char* name) {
  if (name == nullptr || strcmp(name, "ddr") == 0) return QNN_LPAI_MEM_TYPE_DDR;
  return strcmp(name, "tcm") == 0 ? QNN_LPAI_MEM_TYPE_TCM : QNN_LPAI_MEM_TYPE_UNDEFINED;
}

}  // namespace

Result<std::unique_ptr<LpaiAllocator>> LpaiAllocator::Make(const Options& options, Log log) {
  const QnnLpaiMem_MemType_t type = ParseMemType(options.mem_type);
  if (type == QNN_LPAI_MEM_TYPE_UNDEFINED) log(QNN_LOG_LEVEL_ERROR, "Invalid memory type");
  if (type == QNN_LPAI_MEM_TYPE_TCM && !options.direct_mode) {
    return Error(QNN_COMMON_ERROR_PLATFORM_NOT_SUPPORTED,
                 "mem_type tcm: TCM is there in aDSP direct mode alone; create the backend with "
                 "the platform option direct_mode:adsp, or use mem_type ddr");
  }
  return std::unique_ptr<LpaiAllocator>(
      new LpaiAllocator(type, options.start_alignment, std::move(log)));
}

LpaiAllocator::LpaiAllocator(QnnLpaiMem_MemType_t mem_type, uint64_t alignment, Log log)
    : mem_type_(mem_type), alignment_(alignment), log_(std::move(log)), forks_(ForkGeneration()) {}

LpaiAllocator::~LpaiAllocator() = default;

Status LpaiAllocator::Usable() const {
  if (forks_ != ForkGeneration()) {
    return Error(QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
                 "this LPAI allocator belongs to the parent of this forked process");
  }
  return Status::Ok();
}

void LpaiAllocator::DropClosedPieces() {
  pieces_.erase(std::remove_if(pieces_.begin(), pieces_.end(),
                               [](SlotHandle piece) { return !Memory::Get().Pin(piece); }),
                pieces_.end());
}

Status LpaiAllocator::EnsurePool() {
  if (heap_ != nullptr) return Status::Ok();
  Memory& memory = Memory::Get();
  QNNRT_ASSIGN_OR_RETURN(Heap * source, memory.heaps().Find(nullptr));
  QNNRT_ASSIGN_OR_RETURN(heap_, TcmHeap::Make(source, alignment_, &memory.counters()));
  log_(QNN_LOG_LEVEL_INFO, "TCM pool current size: " + std::to_string(kTcmBytes) +
                               " max_size: " + std::to_string(kTcmBytes));
  return Status::Ok();
}

Status LpaiAllocator::Failed(uint64_t nbytes, Status why) {
  std::string line = "TCM memory allocation failure: required size: " + std::to_string(nbytes);
  log_(QNN_LOG_LEVEL_ERROR, line);
  return std::move(why).Within(line);
}

Result<SlotHandle> LpaiAllocator::AllocateTcm(uint64_t nbytes) {
  Status pool = EnsurePool();
  if (!pool.ok()) return Failed(nbytes, std::move(pool));
  Result<SlotHandle> piece = Memory::Get().buffers().Allocate(heap_.get(), nbytes, alignment_, 0);
  if (!piece.ok()) return Failed(nbytes, std::move(piece).status());
  log_(QNN_LOG_LEVEL_INFO, "Allocate size " + std::to_string(nbytes) + " from tcm pool 0");
  return piece;
}

Result<SlotHandle> LpaiAllocator::Allocate(uint64_t nbytes) {
  QNNRT_RETURN_IF_ERROR(Usable());
  std::lock_guard<std::mutex> lock(mutex_);
  if (closed_) return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT, "the LPAI allocator is closed");
  if (mem_type_ == QNN_LPAI_MEM_TYPE_UNDEFINED) {
    static const char* const kLine = "Memory type only supports DDR & TCM";
    log_(QNN_LOG_LEVEL_ERROR, kLine);
    return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT,
                 "%s: the mem_type that was asked for is neither \"ddr\" nor \"tcm\"", kLine);
  }
  if (nbytes == 0) {
    return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT, "expected a size above 0, got 0 bytes");
  }
  DropClosedPieces();
  pieces_.reserve(pieces_.size() + 1);  // noting a piece that was made must not fail
  QNNRT_ASSIGN_OR_RETURN(SlotHandle piece,
                         mem_type_ == QNN_LPAI_MEM_TYPE_TCM
                             ? AllocateTcm(nbytes)
                             : Memory::Get().Allocate(nullptr, nbytes, alignment_));
  pieces_.push_back(piece);
  return piece;
}

Status LpaiAllocator::Free(SlotHandle piece) {
  QNNRT_RETURN_IF_ERROR(Usable());
  std::lock_guard<std::mutex> lock(mutex_);
  if (heap_ != nullptr && heap_->totals().dead) return TooMany();
  DropClosedPieces();
  auto found = std::find(pieces_.begin(), pieces_.end(), piece);
  if (found == pieces_.end()) {
    return Error(QNN_MEM_ERROR_INVALID_HANDLE,
                 "buffer handle 0x%llx is no piece of this allocator, or was closed", Ull{piece});
  }
  QNNRT_RETURN_IF_ERROR(Memory::Get().Close(piece));
  pieces_.erase(found);
  return Status::Ok();
}

Status LpaiAllocator::Close() {
  QNNRT_RETURN_IF_ERROR(Usable());
  std::lock_guard<std::mutex> lock(mutex_);
  DropClosedPieces();
  for (SlotHandle piece : pieces_) {
    Status held = Memory::Get().CheckFree(piece);
    if (!held.ok()) return std::move(held).Within("a piece of the LPAI allocator");
  }
  for (SlotHandle piece : pieces_) {
    Status closed = Memory::Get().Close(piece);
    if (!closed.ok() && closed.code() != QNN_MEM_ERROR_INVALID_HANDLE) return closed;
  }
  pieces_.clear();
  closed_ = true;
  // A buffer's handle goes before its memory does: others may be between the two.
  while (heap_ != nullptr && heap_->totals().pieces != 0) sched_yield();
  heap_.reset();
  return Status::Ok();
}

Result<LpaiAllocator::Info> LpaiAllocator::info() {
  QNNRT_RETURN_IF_ERROR(Usable());
  std::lock_guard<std::mutex> lock(mutex_);
  DropClosedPieces();
  const bool tcm = mem_type_ == QNN_LPAI_MEM_TYPE_TCM;
  Info info = {};
  info.mem_type = mem_type_;
  info.pieces = static_cast<uint32_t>(pieces_.size());
  info.max_pieces = tcm ? kTcmMaxPieces : 0;
  info.pool_bytes = info.free_bytes = tcm ? kTcmBytes : 0;
  if (heap_ != nullptr) {
    const TcmHeap::Totals totals = heap_->totals();
    info.fatal = totals.dead;
    info.used_bytes = totals.used;
    info.free_bytes = totals.largest;
  }
  return info;
}

}  // namespace qnnrt
