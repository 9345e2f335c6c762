#include "support/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace qnnrt {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78u;  // reflected: the highest power is bit 0

// a * b modulo the polynomial; 1 is 0x80000000.
uint32_t Multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = 0x80000000u; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = b & 1 ? b >> 1 ^ kPolynomial : b >> 1;
  }
  return product;
}

// x to the power 8 * bytes: what moves a checksum over so many bytes.
uint32_t PowerOf(uint64_t bytes) {
  uint32_t result = 0x80000000u, square = 0x00800000u;  // 1, x^8
  for (; bytes != 0; bytes >>= 1) {
    if (bytes & 1) result = Multiply(result, square);
    square = Multiply(square, square);
  }
  return result;
}

using Table = std::array<std::array<uint32_t, 256>, 8>;

Table MakeTable() {
  Table table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value & 1 ? value >> 1 ^ kPolynomial : value >> 1;
    table[0][i] = value;
  }
  for (size_t t = 1; t < table.size(); ++t) {
    for (size_t i = 0; i < 256; ++i) {
      table[t][i] = table[0][table[t - 1][i] & 0xFF] ^ table[t - 1][i] >> 8;
    }
  }
  return table;
}

// Eight bytes at a time, one table for each.
uint32_t UpdatePortable(uint32_t crc, const uint8_t* data, size_t size) {
  static const Table table = MakeTable();
  for (; size >= 8; data += 8, size -= 8) {
    const uint32_t low = crc ^ (data[0] | uint32_t{data[1]} << 8 | uint32_t{data[2]} << 16 |
                                uint32_t{data[3]} << 24);
    crc = table[7][low & 0xFF] ^ table[6][low >> 8 & 0xFF] ^ table[5][low >> 16 & 0xFF] ^
          table[4][low >> 24] ^ table[3][data[4]] ^ table[2][data[5]] ^ table[1][data[6]] ^
          table[0][data[7]];
  }
  for (; size > 0; ++data, --size) crc = table[0][(crc ^ *data) & 0xFF] ^ crc >> 8;
  return crc;
}

#if defined(__x86_64__)
constexpr size_t kStream = 4096;  // bytes of one of the three streams of a round

__attribute__((target("sse4.2"))) uint32_t UpdateSse42(uint32_t crc, const uint8_t* data,
                                                       size_t size) {
  // The instruction has a latency of three cycles and can start every cycle.
  static const uint32_t one = PowerOf(kStream), two = PowerOf(2 * kStream);
  const auto word = [](const uint8_t* at) {
    uint64_t value;
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  uint64_t a = crc;
  for (; size >= 3 * kStream; data += 3 * kStream, size -= 3 * kStream) {
    uint64_t b = 0, c = 0;
    for (size_t i = 0; i < kStream; i += 8) {
      a = _mm_crc32_u64(a, word(data + i));
      b = _mm_crc32_u64(b, word(data + kStream + i));
      c = _mm_crc32_u64(c, word(data + 2 * kStream + i));
    }
    a = Multiply(two, static_cast<uint32_t>(a)) ^ Multiply(one, static_cast<uint32_t>(b)) ^ c;
  }
  for (; size >= 8; data += 8, size -= 8) a = _mm_crc32_u64(a, word(data));
  crc = static_cast<uint32_t>(a);
  for (; size > 0; ++data, --size) crc = _mm_crc32_u8(crc, *data);
  return crc;
}
#endif

}  // namespace

uint32_t Crc32c(const void* data, size_t size) {
#if defined(__x86_64__)
  static const bool fast = __builtin_cpu_supports("sse4.2") != 0;
  if (fast) return ~UpdateSse42(~0u, static_cast<const uint8_t*>(data), size);
#endif
  return Crc32cPortable(data, size);
}

uint32_t Crc32cPortable(const void* data, size_t size) {
  return ~UpdatePortable(~0u, static_cast<const uint8_t*>(data), size);
}

uint32_t Crc32cCombine(uint32_t a, uint32_t b, uint64_t size_of_b) {
  return Multiply(PowerOf(size_of_b), a) ^ b;
}

}  // namespace qnnrt
