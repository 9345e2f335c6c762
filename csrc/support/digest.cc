#include "support/digest.h"

#include <sys/random.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

namespace qnnrt {
namespace {

// A tree of universal hashes. A block's is NH (of UMAC: Black et al., 1999) on words of 64 bits,
// sums of (a + key) x (b + key') in 128 bits, and a second one with the keys moved by a pair: two
// blocks of one size agree in both with a probability of 2^-128. The hashes of a level's blocks are
// the bytes of the next level, which has keys of its own.
__extension__ typedef unsigned __int128 Wide;

constexpr size_t kBlock = 8192;
constexpr size_t kWords = kBlock / sizeof(uint64_t);
constexpr size_t kLevels = 7;  // each a 256th of the one below: more than any memory needs
constexpr size_t kBlocksForThread = 64;
// Files lie in small pages, at the end of which the processor's own prefetching stops.
constexpr size_t kAhead = 2048;

struct Keys {
  uint64_t of[kLevels][kWords + 2];

  Keys() {
    uint8_t* at = reinterpret_cast<uint8_t*>(of);
    for (size_t left = sizeof(of); left > 0;) {
      const ssize_t got = getrandom(at, std::min<size_t>(left, 256), 0);
      if (got <= 0) break;
      at += got;
      left -= static_cast<size_t>(got);
    }
    // A kernel that gives no random bytes: different ones in each process all the same.
    uint64_t seed =
        static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
    for (; at < reinterpret_cast<uint8_t*>(of) + sizeof(of); ++at) {
      seed = (seed ^ (seed >> 27)) * 0x94D049BB133111EB + 0x9E3779B97F4A7C15;
      *at = static_cast<uint8_t>(seed >> 56);
    }
  }
};

const Keys& TheKeys() {
  static const Keys* const keys = new Keys;
  return *keys;
}

// `pairs` pairs of words.
Digest BlockDigest(const uint8_t* data, size_t pairs, const uint64_t* key) {
  Wide first = 0, second = 0;
  for (size_t i = 0; i < pairs; ++i, data += 16, key += 2) {
    if (i % 4 == 0) __builtin_prefetch(data + kAhead);
    uint64_t a, b;
    std::memcpy(&a, data, 8);
    std::memcpy(&b, data + 8, 8);
    first += Wide{a + key[0]} * (b + key[1]);
    second += Wide{a + key[2]} * (b + key[3]);
  }
  return {static_cast<uint64_t>(first), static_cast<uint64_t>(first >> 64),
          static_cast<uint64_t>(second), static_cast<uint64_t>(second >> 64)};
}

Digest LevelBlock(const uint8_t* data, size_t size, const uint64_t* key) {
  const size_t whole = size / 16;
  if (size % 16 == 0) return BlockDigest(data, whole, key);
  uint8_t last[16] = {};  // as if zeros followed
  std::memcpy(last, data + whole * 16, size % 16);
  Digest sum = BlockDigest(data, whole, key);
  const Digest rest = BlockDigest(last, 1, key + 2 * whole);
  for (size_t i = 0; i < 4; i += 2) {
    const Wide both = ((Wide{sum[i + 1]} << 64) | sum[i]) + ((Wide{rest[i + 1]} << 64) | rest[i]);
    sum[i] = static_cast<uint64_t>(both);
    sum[i + 1] = static_cast<uint64_t>(both >> 64);
  }
  return sum;
}

}  // namespace

Digest DigestOf(const void* data, size_t size, const Threads& threads) {
  const Keys& keys = TheKeys();
  const uint8_t* bytes = static_cast<const uint8_t*>(data);
  std::vector<Digest> below;
  for (size_t level = 0;; ++level) {
    const uint64_t* key = keys.of[level];
    if (size <= kBlock) return LevelBlock(bytes, size, key);
    std::vector<Digest> hashes((size + kBlock - 1) / kBlock);
    threads.For(hashes.size(), kBlocksForThread, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i)
        hashes[i] = LevelBlock(bytes + i * kBlock, std::min(kBlock, size - i * kBlock), key);
    });
    below = std::move(hashes);
    bytes = reinterpret_cast<const uint8_t*>(below.data());
    size = below.size() * sizeof(Digest);
  }
}

}  // namespace qnnrt
