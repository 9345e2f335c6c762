#include "memory/client_pools.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "abi/qnn_errors.h"
#include "memory/tcm.h"
#include "support/checked.h"

namespace qnnrt {

const char* PoolKindName(PoolKind kind) {
  return kind == PoolKind::kScratch ? "scratch memory" : "persistent memory";
}

std::string ClientPools::HoldersOf(const Buffer* buffer) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::string names;
  for (const auto& [id, range] : ranges_) {
    if (range.buffer != buffer) continue;
    names += names.empty() ? "" : ", ";
    names += std::string("the ") + PoolKindName(range.kind) + " of graph '" + range.graph + "'";
  }
  return names;
}

Status ClientPools::Check(const Range& wanted) const {
  for (const auto& [id, range] : ranges_) {
    if (wanted.begin >= range.end || range.begin >= wanted.end) continue;
    const bool same_graph = range.owner == wanted.owner;
    if (same_graph && range.kind == wanted.kind) continue;  // which it takes the place of
    const bool both_scratch = wanted.kind == PoolKind::kScratch && range.kind == PoolKind::kScratch;
    if (both_scratch) continue;
    return Error(QNN_GRAPH_ERROR_INVALID_ARGUMENT,
                 "the %s of graph '%s', %" PRIu64 " bytes at %p, overlaps the %s of %s, %" PRIu64
                 " bytes at %p: persistent memory is one graph's alone, and no other pool's",
                 PoolKindName(wanted.kind), wanted.graph.c_str(),
                 static_cast<uint64_t>(wanted.end - wanted.begin),
                 reinterpret_cast<void*>(wanted.begin), PoolKindName(range.kind),
                 same_graph ? "the same graph" : ("graph '" + range.graph + "'").c_str(),
                 static_cast<uint64_t>(range.end - range.begin),
                 reinterpret_cast<void*>(range.begin));
  }
  return Status::Ok();
}

uint64_t ClientPools::Add(const Range& range) {
  ranges_.emplace_back(next_, range);
  return next_++;
}

void ClientPools::Remove(uint64_t id) {
  ranges_.erase(std::remove_if(ranges_.begin(), ranges_.end(),
                               [id](const auto& entry) { return entry.first == id; }),
                ranges_.end());
}

namespace {

// The buffer that the range lies in, pinned; null where it is memory of the client's own.
Result<Buffer*> PinAround(const char* what, const uint8_t* address, uint64_t size) {
  BufferTable& buffers = Memory::Get().buffers();
  BufferPin b(&buffers, buffers.PinByAddress(address));
  if (!b) return static_cast<Buffer*>(nullptr);
  const uint64_t left = b->nbytes - static_cast<uint64_t>(address - b->address);
  Status status;
  if (b->Has(kBufferInherited)) {
    status = Error(QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
                   "the %s lies in a buffer that this forked process shares with its parent: "
                   "allocate one in this process",
                   what);
  } else if (size > left) {
    status = Error(QNN_GRAPH_ERROR_INVALID_ARGUMENT,
                   "the %s of %" PRIu64 " bytes at %p reaches beyond its buffer, which has %" PRIu64
                   " bytes from there on",
                   what, size, static_cast<const void*>(address), left);
  } else if (b->Has(kBufferReadOnly)) {
    status =
        Error(QNN_GRAPH_ERROR_INVALID_ARGUMENT, "the %s lies in a buffer that is read only", what);
  } else if (std::strcmp(b->heap_name(), kTcmHeapName) == 0) {
    status = Error(QNN_GRAPH_ERROR_INVALID_ARGUMENT,
                   "the %s lies in TCM, where inputs, outputs and the model may lie; scratch and "
                   "persistent memory are always in DDR",
                   what);
  } else {
    status = buffers.CheckAlive(b.get());
  }
  if (status.ok()) return b.release();
  return status;
}

}  // namespace

Status ClientPool::Hold(void* address, uint64_t size) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(address);
  uint64_t end;
  if (address == nullptr || size == 0 || !CheckedAdd(begin, size, &end)) {
    return Error(QNN_GRAPH_ERROR_INVALID_ARGUMENT,
                 "graph '%s': its %s needs an address and a size above 0, got %p and %" PRIu64
                 " bytes",
                 graph_.c_str(), PoolKindName(kind_), address, size);
  }
  Memory& memory = Memory::Get();
  QNNRT_ASSIGN_OR_RETURN(Buffer * buffer,
                         PinAround(PoolKindName(kind_), static_cast<uint8_t*>(address), size));
  BufferPin pin(&memory.buffers(), buffer);
  const ClientPools::Range range{begin, static_cast<uintptr_t>(end), kind_, graph_, owner_, buffer};
  uint64_t id;
  {
    std::lock_guard<std::mutex> lock(memory.client_pools().mutex());
    QNNRT_RETURN_IF_ERROR(memory.client_pools().Check(range));
    id = memory.client_pools().Add(range);
  }
  Reset();
  if (buffer != nullptr) BufferTable::Keep(buffer, Hold::kPool);
  buffer_ = pin.release();
  id_ = id;
  address_ = static_cast<uint8_t*>(address);
  size_ = size;
  forks_ = ForkGeneration();
  return Status::Ok();
}

void ClientPool::Reset() {
  if (address_ == nullptr) return;
  Memory& memory = Memory::Get();
  {
    std::lock_guard<std::mutex> lock(memory.client_pools().mutex());
    memory.client_pools().Remove(id_);
  }
  // A forked child's table has none of its parent's holds.
  if (buffer_ != nullptr && forks_ == ForkGeneration())
    memory.buffers().ReleaseHold(buffer_, Hold::kPool);
  buffer_ = nullptr;
  address_ = nullptr;
  size_ = 0;
}

Status ClientPool::CheckBuffer() const {
  if (forks_ == ForkGeneration()) return Memory::Get().buffers().CheckAlive(buffer_);
  return Error(QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
               "graph '%s' was given its %s in the parent process, with which this one shares it: "
               "make a graph of this process's own after a fork",
               graph_.c_str(), PoolKindName(kind_));
}

}  // namespace qnnrt
