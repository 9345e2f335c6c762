// Files that are mapped more than once: the same memory at several addresses.
#pragma once

#include <atomic>
#include <cstdint>

namespace qnnrt {

// How often it happened that a file was mapped which may have been mapped before. As long as that
// is 0, memory is told apart by its address.
inline std::atomic<uint64_t>& FilesMappedTwice() {
  static std::atomic<uint64_t> count{0};
  return count;
}

}  // namespace qnnrt
