// The checksum of context binaries: known values, and one value however it is computed.
#include "support/crc32c.h"

#include <vector>

#include "check.h"

using namespace qnnrt;

namespace {

std::vector<uint8_t> Bytes(size_t size) {
  std::vector<uint8_t> bytes(size);
  uint32_t state = 1;
  for (uint8_t& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<uint8_t>(state >> 24);
  }
  return bytes;
}

TEST(Crc32cHasTheValuesOfItsStandard) {
  // RFC 3720, B.4.
  std::vector<uint8_t> zeros(32, 0), ones(32, 0xFF), up(32);
  for (uint8_t i = 0; i < 32; ++i) up[i] = i;
  for (auto* crc : {&Crc32c, &Crc32cPortable}) {
    CHECK_EQ(crc("123456789", 9), 0xE3069283u);
    CHECK_EQ(crc(zeros.data(), 32), 0x8A9136AAu);
    CHECK_EQ(crc(ones.data(), 32), 0x62A8AB43u);
    CHECK_EQ(crc(up.data(), 32), 0x46DD794Eu);
    CHECK_EQ(crc("", 0), 0u);
  }
}

TEST(Crc32cIsOneValueHoweverItIsComputed) {
  const std::vector<uint8_t> bytes = Bytes(70001);
  for (size_t size : {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{9}, size_t{4095},
                      size_t{12287}, size_t{12288}, size_t{12289}, size_t{36864}, size_t{70000}}) {
    const uint32_t whole = Crc32cPortable(bytes.data() + 1, size);
    CHECK_EQ(Crc32c(bytes.data() + 1, size), whole);
    const size_t cut = size / 3;
    CHECK_EQ(Crc32cCombine(Crc32c(bytes.data() + 1, cut),
                           Crc32c(bytes.data() + 1 + cut, size - cut), size - cut),
             whole);
  }
}

}  // namespace

CHECK_MAIN("crc32c_test")
