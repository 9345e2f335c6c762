// Weights in bytes are packed by our own loops as oneDNN's reorders pack them.
#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

#include "check.h"
#include "ops/onednn/kernel.h"

#ifdef QNNRT_ONEDNN_HEADERS

using namespace qnnrt;
using namespace qnnrt::onednn;

namespace {

// What oneDNN makes of it; nothing where it has no such reorder.
std::vector<int8_t> Reordered(const MemoryDesc& lying, const std::vector<int8_t>& from,
                              const_dnnl_memory_desc_t wanted) {
  const Api& api = TheApi();
  std::vector<int8_t> to(api.memory_desc_get_size(wanted));
  PrimitiveDesc desc;
  Primitive primitive;
  Memory source, target;
  Stream stream;
  if (api.reorder_primitive_desc_create(desc.out(), lying.get(), api.engine, wanted, api.engine,
                                        nullptr) != dnnl_success ||
      api.primitive_create(primitive.out(), desc.get()) != dnnl_success ||
      api.memory_create(source.out(), lying.get(), api.engine, const_cast<int8_t*>(from.data())) !=
          dnnl_success ||
      api.memory_create(target.out(), wanted, api.engine, to.data()) != dnnl_success ||
      api.stream_create(stream.out(), api.engine, dnnl_stream_default_flags) != dnnl_success) {
    return {};
  }
  const ThreadCount one(1);
  const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, source.get()}, {DNNL_ARG_TO, target.get()}};
  if (api.primitive_execute(primitive.get(), stream.get(), 2, args) != dnnl_success) return {};
  return to;
}

int64_t Count(const Dims& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<int64_t>());
}

Dims DenseStrides(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * dims[i + 1];
  return strides;
}

bool Loaded() {
  const char* libraries = std::getenv("QNNRT_TEST_LIBS");
  if (libraries != nullptr) setenv("QNNRT_PACKAGE_LIBS", libraries, 1);
  if (Load() != nullptr) return true;
  CHECK(true);
  check::Skip("oneDNN's reorders", "its library is not there");
  return false;
}

constexpr dnnl_format_tag_t kTags[] = {
    dnnl_ab,    dnnl_ba,           dnnl_BA16a64b4a, dnnl_BA16a32b4a,   dnnl_abcd,
    dnnl_cdba,  dnnl_ABcd4b16a4b,  dnnl_ABcd2b8a4b, dnnl_ABcd16b16a4b, dnnl_aBcd16b,
    dnnl_abcde, dnnl_aBCde4c16b4c, dnnl_Abcde16a,   dnnl_decab,
};

TEST(BytesArePackedAsByReorders) {
  if (!Loaded()) return;
  std::mt19937 random(5);
  int same = 0, left = 0;
  for (int turn = 0; turn < 400; ++turn) {
    const size_t rank = 2 + random() % 4;
    Dims dims;
    for (size_t i = 0; i < rank; ++i) {
      dims.push_back(rank == 2 || i < 2 ? 1 + random() % 90 : 1 + random() % 4);
    }
    // The dense tensor's axes in any order.
    std::vector<size_t> order(rank);
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    Dims sizes, strides(rank);
    for (size_t axis : order) sizes.push_back(dims[axis]);
    const Dims dense = DenseStrides(sizes);
    for (size_t i = 0; i < rank; ++i) strides[order[i]] = dense[i];
    const MemoryDesc lying = MemoryDesc::Strided(dims, strides, dnnl_s8);
    std::vector<int8_t> from(static_cast<size_t>(Count(dims)));
    for (int8_t& v : from) v = static_cast<int8_t>(random());

    MemoryDescHandle wanted;
    const dnnl_format_tag_t tag = kTags[random() % std::size(kTags)];
    if (TheApi().memory_desc_create_with_tag(wanted.out(), static_cast<int>(rank), dims.data(),
                                             dnnl_s8, tag) != dnnl_success) {
      continue;  // a tag of another rank
    }
    const std::vector<int8_t> expected = Reordered(lying, from, wanted.get());
    if (expected.empty()) continue;
    const Shape shape(sizes.begin(), sizes.end());
    for (const int count : {1, 2}) {
      std::vector<int8_t> to(expected.size(), 85);
      if (!PackBytes(lying.get(), shape, {}, from.data(), wanted.get(), to.data(),
                     Threads(count))) {
        ++left;
        CHECK_EQ(std::count(to.begin(), to.end(), 85), static_cast<ptrdiff_t>(to.size()));
        continue;
      }
      CHECK(to == expected);
      ++same;
    }

    // The same elements with a gap behind each row of the innermost axis, read where they lie.
    std::vector<int64_t> apart(rank, 1);
    int64_t step = sizes.back() + 3;
    for (size_t i = rank - 1; i-- > 0; step *= sizes[i]) apart[i] = step;
    std::vector<int8_t> gaps(static_cast<size_t>(step), 99);
    for (int64_t i = 0; i < Count(dims); ++i) {
      int64_t rest = i, at = 0;
      for (size_t axis = rank; axis-- > 0; rest /= sizes[axis]) {
        at += rest % sizes[axis] * apart[axis];
      }
      gaps[static_cast<size_t>(at)] = from[static_cast<size_t>(i)];
    }
    std::vector<int8_t> to(expected.size(), 85);
    if (PackBytes(lying.get(), shape, apart, gaps.data(), wanted.get(), to.data(), Threads(1))) {
      CHECK(to == expected);
    }
  }
  CHECK(same > 100);
  std::printf("  %d packed, %d left to oneDNN\n", same, left);
}

TEST(OtherTypesAreLeftToReorders) {
  if (!Loaded()) return;
  const Dims dims{4, 4};
  std::vector<int8_t> from(16 * 4, 1), to(16 * 4, 85);
  const Shape shape{4, 4};
  for (const auto& [a, b] :
       {std::pair{dnnl_u8, dnnl_s8}, {dnnl_f32, dnnl_s8}, {dnnl_s8, dnnl_s32}}) {
    CHECK(!PackBytes(MemoryDesc::Dense(dims, a).get(), shape, {}, from.data(),
                     MemoryDesc::Dense(dims, b).get(), to.data(), Threads(1)));
  }
  CHECK_EQ(std::count(to.begin(), to.end(), 85), 64);
}

}  // namespace

#else

TEST(BytesArePackedAsByReorders) {
  CHECK(true);
  check::Skip("oneDNN's reorders", "built without its headers");
}

#endif

CHECK_MAIN("pack_bytes_test")
