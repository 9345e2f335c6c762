// Staging: memory of the runtime's own through which RAW tensors reach an accelerator that sees
// shared buffers alone. They are copied in before and out after each execution, and counted.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ir/tensor.h"
#include "memory/process_domain.h"
#include "support/counter.h"
#include "support/fork.h"
#include "support/slot_table.h"
#include "support/status.h"
#include "support/threads.h"

namespace qnnrt {

struct StagingStats {
  uint64_t reserved_at_finalize = 0, reserved_at_execute = 0;  // bytes of the tensors reserved for
  uint64_t copied_in = 0, copied_out = 0;                      // bytes
};

// Why a state is copied inside of an execution.
constexpr char kStateCopy[] = "its old value is read when the new one is there already";

// A tensor that was copied. The strings belong to the graph.
struct CopyRecord {
  const char* tensor;
  bool input;
  const char* reason;
  uint64_t bytes, count;
};

// The staging of one graph: a slot for each app tensor, inputs first, with memory where the
// tensor's memory type needs it. Its owner lets one execution at a time use it; functions that are
// marked thread safe may be called beside a running execution.
class Staging {
 public:
  // Reserves for the tensors that were prepared RAW. Errors: 8003 the domain's budget does not
  // allow it, 1002 no memory.
  static Result<std::unique_ptr<Staging>> Make(const std::string& graph,
                                               const std::vector<const Tensor*>& inputs,
                                               const std::vector<const Tensor*>& outputs,
                                               ProcessDomain* domain, int threads);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Null until reserved. Thread safe.
  void* address(size_t i) const {
    return slots_[slots_[i].place].address.load(std::memory_order_acquire);
  }
  // Reserves, in one piece, for each of these tensors whose slot has no memory. All or nothing.
  // Errors: as Make.
  Status ReserveFor(const std::vector<size_t>& tensors);

  // 1005 in a forked child, where the memory is still the parent's as well.
  Status CheckOwned() const;

  // From RAW memory of the client's into the tensor's slot, and back. Nothing where the client gave
  // the slot's own address.
  void CopyIn(size_t i, const void* from);
  void CopyOut(size_t i, void* to);

  // Why a tensor executed RAW has to be copied: what it was prepared as.
  const char* Reason(size_t i) const;

  // A RAW tensor that needs a copy is then refused. Thread safe.
  void set_strict(bool strict) { strict_.store(strict, std::memory_order_relaxed); }
  bool strict() const { return strict_.load(std::memory_order_relaxed); }
  // 6004, with tensor and reason.
  Status Refuse(size_t i) const;

  // Thread safe.
  StagingStats stats() const {
    return {reserved_at_finalize_, reserved_at_execute_.value(), copied_in_.value(),
            copied_out_.value()};
  }
  std::vector<CopyRecord> Copies() const;  // those that happened
  void ResetCounts();                      // of copies; what is reserved stays so

  // Whether a tensor was copied for the first time: the client's log gets one line for each.
  // Thread safe.
  bool HasUnloggedCopies() const { return unlogged_copies_.load(std::memory_order_relaxed); }
  std::vector<std::string> TakeLogLines();

 private:
  struct Slot {
    const Tensor* tensor = nullptr;
    uint64_t bytes = 0;
    bool input = false;
    bool logged = false;
    size_t place = 0;  // the slot whose memory it has: a new value of a state has the state's
    std::atomic<void*> address{nullptr};
    Counter count;  // of its copies
  };
  struct Block {  // memory for some of the slots
    ProcessDomain::Share share;
    SlotHandle buffer = 0;
  };

  Staging(const std::string& graph, ProcessDomain* domain, int threads)
      : graph_(graph), domain_(domain), threads_(threads), forks_(ForkGeneration()) {}
  Result<uint64_t> Reserve(const std::vector<size_t>& tensors);
  void Copy(void* to, const void* from, uint64_t bytes);
  void Counted(Slot* slot);

  const std::string graph_;
  ProcessDomain* const domain_;
  const Threads threads_;
  const uint32_t forks_;
  size_t count_ = 0;
  std::unique_ptr<Slot[]> slots_;
  std::vector<Block> blocks_;
  uint64_t reserved_at_finalize_ = 0;
  Counter reserved_at_execute_, copied_in_, copied_out_;
  std::atomic<bool> strict_{false}, unlogged_copies_{false};
};

}  // namespace qnnrt
