// CRC-32C (Castagnoli), the checksum of context binaries: three interleaved streams of the CPU's
// own instruction where it has one, a table where not. The value is the usual one of the whole
// range (initial and final inversion), however it was cut into pieces.
#pragma once

#include <cstddef>
#include <cstdint>

namespace qnnrt {

uint32_t Crc32c(const void* data, size_t size);
// The checksum of A and then B, from those of A and of B.
uint32_t Crc32cCombine(uint32_t a, uint32_t b, uint64_t size_of_b);
// Without the CPU's instruction; for tests.
uint32_t Crc32cPortable(const void* data, size_t size);

}  // namespace qnnrt
