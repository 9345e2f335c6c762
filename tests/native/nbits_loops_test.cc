// Products of a few rows with narrow weights whose rows end in the middle of a block, of a chunk of
// codes, or of a vector of scales: they are right, and nothing behind the end is read.
#include "ops/matmul/nbits_loops.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "check.h"

using namespace qnnrt;

namespace {

// An array that ends where memory does.
template <typename T>
class AtTheEnd {
 public:
  explicit AtTheEnd(const std::vector<T>& values) : bytes_(values.size() * sizeof(T)) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t room = (bytes_ + page - 1) / page * page;
    size_ = room + page;
    map_ = static_cast<char*>(
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (map_ == MAP_FAILED || mprotect(map_ + room, page, PROT_NONE) != 0) std::abort();
    data_ = map_ + room - bytes_;
    std::memcpy(data_, values.data(), bytes_);
  }
  ~AtTheEnd() { munmap(map_, size_); }
  AtTheEnd(const AtTheEnd&) = delete;
  AtTheEnd& operator=(const AtTheEnd&) = delete;
  T* get() const { return reinterpret_cast<T*>(data_); }

 private:
  size_t bytes_, size_ = 0;
  char *map_ = nullptr, *data_ = nullptr;
};

struct Kind {
  int bits;
  size_t block, k, m;
  bool zeros, is_signed;
  bool packed_zeros = false, apart = false;
};

void Check(const Kind& t) {
  constexpr size_t kRows = 19;  // two tiles of eight, and some behind them
  const size_t blocks = (t.k + t.block - 1) / t.block;
  const size_t row_bytes = (t.k * static_cast<size_t>(t.bits) + 7) / 8;
  std::mt19937 rng(static_cast<unsigned>(t.k * 131 + t.block * 7) + static_cast<unsigned>(t.bits));
  std::uniform_int_distribution<int> byte(0, 255), zero(-8, 7);
  std::uniform_real_distribution<float> real(-1, 1), scale(0.01f, 0.1f);
  std::vector<uint8_t> codes(kRows * row_bytes);
  std::vector<float> scales(kRows * blocks), x(t.m * t.k), bias(kRows);
  std::vector<int8_t> zeros(kRows * blocks);
  for (auto& v : codes) v = static_cast<uint8_t>(byte(rng));
  for (auto& v : scales) v = scale(rng);
  for (auto& v : zeros) v = static_cast<int8_t>(zero(rng));
  for (auto& v : x) v = real(rng);
  for (auto& v : bias) v = real(rng);

  const NBitsLoops& loops = NBitsFor(t.bits, 3);
  const size_t stride = loops.RowBytes(t.k, blocks);
  const AtTheEnd<uint8_t> codes_at(codes);
  const AtTheEnd<float> scales_at(scales), x_at(x), bias_at(bias);
  std::vector<int8_t> packed(kRows * PackedZeroBytes(blocks));
  for (size_t i = 0; i < zeros.size(); ++i) {
    const PackedZero at(i % blocks);
    int8_t& byte = packed[i / blocks * PackedZeroBytes(blocks) + at.byte];
    byte = static_cast<int8_t>(byte | (zeros[i] + 8) << at.shift);
  }
  const AtTheEnd<int8_t> zeros_at(t.packed_zeros ? packed : zeros);
  const AtTheEnd<float> c(std::vector<float>(t.m * kRows, NAN));
  char* const arranged = static_cast<char*>(std::aligned_alloc(64, (t.m * stride + 63) / 64 * 64));
  // What the loops do not write there is no number.
  std::memset(arranged, 0xff, t.m * stride);
  for (size_t m = 0; m < t.m; ++m)
    loops.arrange(x_at.get() + m * t.k, t.k, t.block, arranged + m * stride);
  NBitsProduct p{};
  p.weights = {codes_at.get(),
               row_bytes,
               t.is_signed,
               scales_at.get(),
               t.zeros ? zeros_at.get() : nullptr,
               t.k,
               t.block,
               blocks,
               t.packed_zeros};
  p.n = kRows;
  p.x = arranged;
  p.m = t.m;
  p.stride = stride;
  p.bias = bias_at.get();
  p.c = c.get();
  p.ldc = kRows;
  p.step = t.apart ? NBitsStep(kRows, row_bytes) : 0;
  constexpr size_t kTiles = (kRows + kNBitsTile - 1) / kNBitsTile;
  loops.dots(p, 0, kTiles / 2);
  loops.dots(p, kTiles / 2, kTiles);

  const AtTheEnd<float> row(std::vector<float>(t.k));
  double worst = 0;
  for (size_t n = 0; n < kRows; ++n) {
    loops.unpack(p.weights, n, 0, t.k, row.get());
    for (size_t m = 0; m < t.m; ++m) {
      double sum = bias[n], size = std::abs(bias[n]);
      for (size_t k = 0; k < t.k; ++k) {
        int code = codes[n * row_bytes + k * static_cast<size_t>(t.bits) / 8];
        if (t.bits == 4) code = k % 2 == 0 ? code & 15 : code >> 4;
        const int middle = 1 << (t.bits - 1);
        code = t.is_signed ? (code ^ middle) - middle : code - middle;
        const size_t at = n * blocks + k / t.block;
        const double w = double{scales[at]} * (code - (t.zeros ? zeros[at] : 0));
        if (m == 0 && std::abs(row.get()[k] - w) > 1e-5) worst = 1;  // unpacked
        sum += w * double{x[m * t.k + k]};
        size += std::abs(w * double{x[m * t.k + k]});
      }
      const double off = std::abs(double{c.get()[m * kRows + n]} - sum) / size;
      worst = std::isnan(off) ? 1 : std::max(worst, off);
    }
  }
  std::free(arranged);
  if (worst > 2e-6)
    std::fprintf(stderr,
                 "%d bits, blocks of %zu, %zu elements, %zu rows of x, zeros %d, packed %d: %g\n",
                 t.bits, t.block, t.k, t.m, t.zeros, t.packed_zeros, worst);
  CHECK(worst <= 2e-6);
}

void CheckAll() {
  std::vector<size_t> depths = {15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 300};
  // Of blocks of 16, 32 and 64 one less and one more than vectors of 16 scales.
  for (size_t blocks : {15, 16, 17, 31, 32, 33}) {
    for (size_t block : {16, 32, 64}) {
      for (size_t less : {0, 1, 9}) depths.push_back(blocks * block - less);
    }
  }
  for (int bits : {4, 8}) {
    for (size_t block : {16, 32, 64, 128, 384}) {
      for (size_t k : depths) {
        for (bool apart : {false, true}) {
          Check({bits, block, k, 1, k % 2 == 0, k % 3 == 0, false, apart});
          Check({bits, block, k, 1, k % 2 != 0, k % 3 != 0, false, apart});
          if (bits == 4) Check({bits, block, k, 1, true, k % 3 == 0, true, apart});
        }
        Check({bits, block, k, 3, k % 2 == 0, k % 3 != 0});
        if (bits == 4) {
          Check({bits, block, k, 3, true, k % 3 != 0, true});
        }
      }
    }
  }
}

// What a piece of the tiles writes are the rows that Runs names, and no two of one row's are a
// multiple of 4 KiB apart, where another distance is possible.
void CheckRuns(size_t n, size_t k, bool apart) {
  const size_t blocks = k / 32;
  std::vector<uint8_t> codes(n * k, 129);
  const std::vector<float> scales(n * blocks, 1.0f), x(k, 1.0f);
  const NBitsLoops& loops = NBitsFor(8, 3);
  const size_t stride = loops.RowBytes(k, blocks);
  char* const arranged = static_cast<char*>(std::aligned_alloc(64, (stride + 63) / 64 * 64));
  loops.arrange(x.data(), k, 32, arranged);
  NBitsProduct p{};
  p.weights = {codes.data(), k, false, scales.data(), nullptr, k, 32, blocks, false};
  p.n = n;
  p.x = arranged;
  p.m = 1;
  p.ldc = n;
  p.step = apart ? NBitsStep(n, k) : 0;
  std::vector<float> c(n), expected(n, 0.0f);
  p.c = c.data();
  const size_t tiles = (n + kNBitsTile - 1) / kNBitsTile;
  for (size_t pieces = 1; pieces <= tiles; ++pieces) {
    std::fill(expected.begin(), expected.end(), 0.0f);
    std::fill(c.begin(), c.end(), 0.0f);
    for (size_t i = 0; i < pieces; ++i) {
      const size_t first = tiles * i / pieces, end = tiles * (i + 1) / pieces;
      loops.dots(p, first, end);
      std::vector<size_t> firsts;
      loops.Runs(p, first, end, [&](size_t from, size_t to) {
        firsts.push_back(from);
        for (size_t row = from; row < to; ++row) expected[row] += static_cast<float>(k);
      });
      CHECK(c == expected);
      if (loops.one_row_apart && k % 4096 != 0 && firsts.size() > 1 && n >= 2 * kNBitsTile)
        CHECK((firsts[1] - firsts[0]) * k % 4096 != 0);
    }
  }
  std::free(arranged);
}

TEST(RowsReadTogetherAreNoMultipleOfAPageApart) {
  for (size_t n : {7, 8, 16, 19, 23, 32, 35, 64, 71, 192}) {
    for (size_t k : {2048, 1024, 4096, 576}) {
      CheckRuns(n, k, false);
      CheckRuns(n, k, true);
    }
  }
}

// In a process of its own: which instructions there are is found out once.
bool PassesWith(const char* isa) {
  const pid_t child = fork();
  if (child == 0) {
    isa == nullptr ? unsetenv("QNNRT_ISA") : setenv("QNNRT_ISA", isa, 1);
    CheckAll();
    _exit(check::failures == 0 ? 0 : 1);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(RowsThatEndInABlockAreRightWithTheBestInstructions) { CHECK(PassesWith(nullptr)); }
TEST(RowsThatEndInABlockAreRightWithAvx512) { CHECK(PassesWith("avx512")); }
TEST(RowsThatEndInABlockAreRightWithAvx2) { CHECK(PassesWith("avx2")); }
TEST(RowsThatEndInABlockAreRightWithAnyInstructions) { CHECK(PassesWith("base")); }

}  // namespace

CHECK_MAIN("nbits_loops_test")
