#include "graph/staging.h"

#include <algorithm>
#include <cstring>

#include "abi/qnn_errors.h"
#include "memory/memory.h"
#include "support/checked.h"

namespace qnnrt {
namespace {

constexpr uint64_t kAlignment = 64;          // of a slot: a cache line, the widest vector
constexpr size_t kPiece = size_t{64} << 10;  // what copying in parallel is divided into

}  // namespace

Result<std::unique_ptr<Staging>> Staging::Make(const std::string& graph,
                                               const std::vector<const Tensor*>& inputs,
                                               const std::vector<const Tensor*>& outputs,
                                               ProcessDomain* domain, int threads) {
  std::unique_ptr<Staging> staging(new Staging(graph, domain, threads));
  staging->count_ = inputs.size() + outputs.size();
  staging->slots_ = std::make_unique<Slot[]>(staging->count_);
  std::vector<size_t> raw;
  for (size_t i = 0; i < staging->count_; ++i) {
    Slot& slot = staging->slots_[i];
    slot.input = i < inputs.size();
    slot.tensor = slot.input ? inputs[i] : outputs[i - inputs.size()];
    slot.bytes = slot.tensor->bytes();
    slot.place = i;
    if (slot.tensor->updates != nullptr) {
      slot.place = static_cast<size_t>(
          std::find(inputs.begin(), inputs.end(), slot.tensor->updates) - inputs.begin());
      continue;
    }
    if (slot.tensor->mem_type != QNN_TENSORMEMTYPE_MEMHANDLE) raw.push_back(i);
  }
  QNNRT_ASSIGN_OR_RETURN(staging->reserved_at_finalize_, staging->Reserve(raw));
  return staging;
}

Staging::~Staging() {
  for (const Block& block : blocks_) (void)Memory::Get().buffers().Release(block.buffer);
}

Result<uint64_t> Staging::Reserve(const std::vector<size_t>& tensors) {
  uint64_t bytes = 0, size = 0, mapped = 0;
  for (size_t i : tensors) {
    uint64_t padded;
    if (address(i) != nullptr) continue;
    if (!CheckedAlignUp(slots_[i].bytes, kAlignment, &padded) || !CheckedAdd(size, padded, &size))
      return Error(QNN_COMMON_ERROR_MEM_ALLOC, "graph '%s': its tensors are beyond any memory",
                   graph_.c_str());
    bytes += slots_[i].bytes;
  }
  if (size == 0) return uint64_t{0};
  if (!CheckedAlignUp(size, PageSize(), &mapped)) mapped = size;
  blocks_.reserve(blocks_.size() + 1);
  Block block;
  QNNRT_ASSIGN_OR_RETURN(block.share,
                         domain_->Map(mapped, "staging of graph", graph_, QNN_MEM_ERROR_MAPPING));
  Memory& memory = Memory::Get();
  Result<SlotHandle> buffer = memory.Allocate(nullptr, size, 0);
  if (!buffer.ok()) return std::move(buffer).status().Within("staging of graph '" + graph_ + "'");
  block.buffer = *buffer;
  uint8_t* next = memory.Pin(block.buffer)->address;  // ours alone: it exists
  blocks_.push_back(std::move(block));
  for (size_t i : tensors) {
    Slot& slot = slots_[i];
    if (address(i) != nullptr) continue;
    slot.address.store(next, std::memory_order_release);
    next += (slot.bytes + kAlignment - 1) & ~(kAlignment - 1);
  }
  return bytes;
}

Status Staging::ReserveFor(const std::vector<size_t>& tensors) {
  QNNRT_ASSIGN_OR_RETURN(uint64_t bytes, Reserve(tensors));
  reserved_at_execute_.Add(bytes);
  return Status::Ok();
}

Status Staging::CheckOwned() const {
  if (forks_ == ForkGeneration()) return Status::Ok();
  return Error(QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
               "graph '%s' was made in the parent process, with which this one shares its staging "
               "memory: make a graph of this process's own after a fork",
               graph_.c_str());
}

// ---- Copies ----

void Staging::Copy(void* to, const void* from, uint64_t bytes) {
  // At least this much for each thread: below it waking one costs as much as it saves.
  constexpr size_t kGrain = 16;
  if (bytes < 2 * kGrain * kPiece) {
    std::memcpy(to, from, bytes);
    return;
  }
  auto* target = static_cast<uint8_t*>(to);
  auto* source = static_cast<const uint8_t*>(from);
  const size_t pieces = static_cast<size_t>((bytes + kPiece - 1) / kPiece);
  threads_.For(pieces, kGrain, [&](size_t begin, size_t end) {
    const size_t first = begin * kPiece;
    const size_t last = std::min<size_t>(end * kPiece, static_cast<size_t>(bytes));
    std::memcpy(target + first, source + first, last - first);
  });
}

void Staging::Counted(Slot* slot) {
  slot->count.Add(1);
  (slot->input ? copied_in_ : copied_out_).Add(slot->bytes);
  if (!slot->logged) unlogged_copies_.store(true, std::memory_order_relaxed);
}

void Staging::CopyIn(size_t i, const void* from) {
  Slot& slot = slots_[i];
  void* to = address(i);
  if (from == to || slot.bytes == 0) return;
  Copy(to, from, slot.bytes);
  Counted(&slot);
}

void Staging::CopyOut(size_t i, void* to) {
  Slot& slot = slots_[i];
  const void* from = address(i);
  if (from == to || slot.bytes == 0) return;
  Copy(to, from, slot.bytes);
  Counted(&slot);
}

// ---- Reports ----

const char* Staging::Reason(size_t i) const {
  return slots_[i].tensor->mem_type == QNN_TENSORMEMTYPE_MEMHANDLE
             ? "prepared memhandle, executed raw"
             : "prepared raw, executed raw";
}

Status Staging::Refuse(size_t i) const {
  const Slot& slot = slots_[i];
  return Error(
      QNN_GRAPH_ERROR_INVALID_TENSOR,
      "tensor '%s' would have to be copied (%s, %llu bytes) and the graph is strict: pass a "
      "memory handle of registered memory",
      slot.tensor->name.c_str(), Reason(i), static_cast<unsigned long long>(slot.bytes));
}

std::vector<CopyRecord> Staging::Copies() const {
  std::vector<CopyRecord> copies;
  for (size_t i = 0; i < count_; ++i) {
    const Slot& p = slots_[i];
    const uint64_t count = p.count.value();
    if (count == 0) continue;
    copies.push_back({p.tensor->name.c_str(), p.input, Reason(i), count * p.bytes, count});
  }
  return copies;
}

void Staging::ResetCounts() {
  copied_in_.Reset();
  copied_out_.Reset();
  for (size_t i = 0; i < count_; ++i) slots_[i].count.Reset();
}

std::vector<std::string> Staging::TakeLogLines() {
  std::vector<std::string> lines;
  unlogged_copies_.store(false, std::memory_order_relaxed);
  for (size_t i = 0; i < count_; ++i) {
    Slot& p = slots_[i];
    if (p.logged || p.count.value() == 0) continue;
    lines.push_back("graph '" + graph_ + "': " + (p.input ? "input '" : "output '") +
                    p.tensor->name + "' is copied " + (p.input ? "in before" : "out after") +
                    " each execution, " + std::to_string(p.bytes) + " bytes: " + Reason(i) +
                    "; register its memory and pass the handle to avoid that");
    p.logged = true;
  }
  return lines;
}

}  // namespace qnnrt
