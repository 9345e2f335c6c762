// Digests of bytes that stay as they are, by where they are.
#pragma once

#include <cstddef>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "support/digest.h"

namespace qnnrt {

// Thread safe.
class KnownDigests {
 public:
  // Found once for bytes that are asked for again. Throws std::bad_alloc.
  Digest Of(const void* data, size_t size, const Threads& threads) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      const auto found = known_.find(data);
      if (found != known_.end() && found->second.first == size) return found->second.second;
    }
    const Digest digest = DigestOf(data, size, threads);
    std::lock_guard<std::mutex> lock(mutex_);
    known_.insert_or_assign(data, std::make_pair(size, digest));
    return digest;
  }

 private:
  std::mutex mutex_;  // no other one is taken under it
  std::unordered_map<const void*, std::pair<size_t, Digest>> known_;
};

}  // namespace qnnrt
