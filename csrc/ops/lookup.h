// Tables of 256 entries, indexed by bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace qnnrt {

// out[i] = table[in[i]]: entries of one byte, or of two. The table lies on a 64-byte boundary; with
// one-byte entries out may be in.
using Lookup = void (*)(const uint8_t* table, const uint8_t* in, uint8_t* out, size_t count);
Lookup PickLookup8();
Lookup PickLookup16();

}  // namespace qnnrt
