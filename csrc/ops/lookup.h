// Tables of 256 entries, indexed by bytes, and of 65,536, indexed by words.
#pragma once

#include <cstddef>
#include <cstdint>

#include "support/threads.h"

namespace qnnrt {

// out[i] = table[in[i]]: entries of one byte, or of two. The table lies on a 64-byte boundary; with
// one-byte entries out may be in.
using Lookup = void (*)(const uint8_t* table, const uint8_t* in, uint8_t* out, size_t count);
Lookup PickLookup8();
Lookup PickLookup16();
bool HasFastLookup8();  // both take less than arithmetic would

// The same for rows of `count` bytes that lie behind each other in `in`, and begin every `stride`
// bytes in `out`; entries of one byte. Null where HasFastLookup8 is false.
using LookupRows = void (*)(const uint8_t* table, const uint8_t* in, uint8_t* out, size_t count,
                            size_t rows, size_t stride);
LookupRows PickLookupRows8();

// What a function of one byte gives for all of them.
class ByteTable {
 public:
  explicit ByteTable(size_t entry_size)  // 1 or 2
      : entry_size_(entry_size), lookup_(entry_size == 1 ? PickLookup8() : PickLookup16()) {}
  uint8_t* entries() { return entries_; }
  void Run(const Threads& threads, const void* in, void* out, size_t count) const;

 private:
  const size_t entry_size_;
  const Lookup lookup_;
  alignas(64) uint8_t entries_[512];
};

// What a function of one word gives for all of them: entries of 1 or 2 bytes. One load for each
// element, in a table that the second cache holds, takes as long as one addition of such numbers.
// With two-byte entries out may be in.
constexpr size_t kWords = 65536;
void LookUpWords(const Threads& threads, const void* table, size_t entry_size, const void* in,
                 void* out, size_t count);

}  // namespace qnnrt
