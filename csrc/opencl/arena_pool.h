// Memory of the intermediates of a cl_context's command lists. An execution takes a set of arenas
// and gives it back when it is done, so lists that run one after the other work in the same memory.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "abi/qnnrt_opencl.h"
#include "support/fork.h"
#include "support/status.h"

namespace qnnrt::opencl {

class ArenaPool {
 public:
  using Sizes = std::vector<uint64_t>;  // of a list's arenas, in bytes

  // The arenas of one execution; whoever has taken it may call this.
  class Set {
   public:
    // Another number for each buffer that there ever was.
    uint64_t serial(size_t arena) const { return buffers_[arena].serial; }
    void* whole(size_t arena) const { return buffers_[arena].mem; }
    // A sub-buffer, which is made once. Errors: 1002, 1100.
    Result<void*> Part(size_t arena, uint64_t offset, uint64_t size);

   private:
    friend class ArenaPool;
    struct Buffer {
      void* mem = nullptr;
      uint64_t size = 0, serial = 0;
      std::map<std::pair<uint64_t, uint64_t>, void*> parts;
    };
    explicit Set(ArenaPool* pool) : pool_(pool) {}

    ArenaPool* const pool_;
    std::vector<Buffer> buffers_;
    bool taken_ = false;
  };

  ArenaPool(const Qnnrt_OpenClFunctions_t& cl, void* context) : cl_(cl), context_(context) {}
  ~ArenaPool();
  ArenaPool(const ArenaPool&) = delete;

  // A list begins to use the pool: memory for one execution is there from now on. Errors: 1002.
  Status Join(const Sizes& sizes);
  // It ends: what nobody else needs is freed.
  void Leave(const Sizes& sizes);

  // `last`, what the list had the last time, where that is free. Where the device has no memory for
  // another set this waits for one. Errors: 1002, 1100.
  Result<Set*> Take(const Sizes& sizes, Set* last);
  void GiveBack(Set* set);

  Qnnrt_OpenClPoolCounts_t counts();
  // Executions of the pool's lists that are on their way now.
  std::atomic<uint32_t> running{0};

 private:
  class Taken;

  Set* Choose(const Sizes& sizes, Set* last);
  Status Grow(Set* set, const Sizes& sizes);
  void* NewBuffer(uint64_t size, int32_t* code);
  void Free(Set::Buffer* buffer);
  void DropParts(Set::Buffer* buffer);
  void Trim();
  void TrimOne(Set* set);

  const Qnnrt_OpenClFunctions_t cl_;
  void* const context_;
  const uint32_t forks_ = ForkGeneration();
  std::mutex mutex_;  // guards what follows, and the buffers of sets that are not taken
  std::condition_variable given_back_;
  std::vector<std::unique_ptr<Set>> sets_;
  std::vector<Sizes> users_;  // of each list
  Sizes needed_;              // the largest of each, of all lists
  uint64_t serials_ = 0, returns_ = 0;
};

}  // namespace qnnrt::opencl
