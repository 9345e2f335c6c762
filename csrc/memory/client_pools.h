// Client memory that graphs use as scratch and persistent memory: the ranges, their graphs, and the
// buffers that must not be freed meanwhile.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "memory/buffer.h"
#include "support/fork.h"
#include "support/status.h"

namespace qnnrt {

enum class PoolKind : uint8_t { kScratch, kPersistent };
const char* PoolKindName(PoolKind kind);  // "scratch memory"

// Every pool of the process. Persistent memory is exclusive; graphs may share scratch memory, as
// long as they do not execute at the same time.
class ClientPools {
 public:
  // Names of the graphs whose pools lie in the buffer: "the scratch memory of graph 'a'", ...
  std::string HoldersOf(const Buffer* buffer);

  std::mutex& mutex() { return mutex_; }

 private:
  friend class ClientPool;
  struct Range {
    uintptr_t begin, end;
    PoolKind kind;
    std::string graph;
    const void* owner;     // of both pools of a graph
    const Buffer* buffer;  // null: memory that this runtime did not make
  };
  Status Check(const Range& wanted) const;  // under mutex_
  uint64_t Add(const Range& range);
  void Remove(uint64_t id);

  std::mutex mutex_;
  std::vector<std::pair<uint64_t, Range>> ranges_;
  uint64_t next_ = 1;
};

// One pool of a graph. Holds the runtime's buffer that the memory is a part of, if there is one.
class ClientPool {
 public:
  // `owner` identifies the graph.
  ClientPool(PoolKind kind, std::string graph, const void* owner)
      : kind_(kind), graph_(std::move(graph)), owner_(owner) {}
  ~ClientPool() { Reset(); }
  ClientPool(const ClientPool&) = delete;
  ClientPool& operator=(const ClientPool&) = delete;

  // Replaces the pool's memory or, after an error, changes nothing. Errors: 6000
  // a range that is none, that reaches beyond its buffer, that lies in TCM, or that overlaps memory
  // which is not to be shared; 1005 a buffer of the parent of this forked process.
  Status Hold(void* address, uint64_t size);
  void Reset();

  uint8_t* address() const { return address_; }  // null: none
  uint64_t size() const { return size_; }
  // Errors: 1005 in a forked child, for memory that it shares with its parent; 8003 a foreign file
  // that shrank.
  Status CheckUsable() const { return buffer_ == nullptr ? Status::Ok() : CheckBuffer(); }

 private:
  Status CheckBuffer() const;

  const PoolKind kind_;
  const std::string graph_;
  const void* const owner_;
  uint8_t* address_ = nullptr;
  uint64_t size_ = 0;
  Buffer* buffer_ = nullptr;
  uint64_t id_ = 0;  // in ClientPools
  uint32_t forks_ = 0;
};

}  // namespace qnnrt
