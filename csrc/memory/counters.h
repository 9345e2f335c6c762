// Live-object counts: what the process holds now. Tests compare them before and after each case.
#pragma once

#include <atomic>
#include <cstdint>

namespace qnnrt {

struct Counters {
  std::atomic<int64_t> maps{0};           // mappings held, the pool's included
  std::atomic<int64_t> fds{0};            // fds held, the pool's included
  std::atomic<int64_t> buffers{0};        // live buffers: own, imported, wrapped
  std::atomic<int64_t> handles{0};        // live memory handles
  std::atomic<int64_t> unknown_frees{0};  // rpcmem_free of a pointer that is not ours, ever
  std::atomic<int64_t> late_frees{0};     // rpcmem_free of a registered buffer, ever
};

}  // namespace qnnrt
