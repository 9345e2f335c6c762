// Buffers through the C API: lifetime, holds, lookup, import, failure.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "memory_client.h"

using namespace memory_test;  // NOLINT(build/namespaces)

namespace {

constexpr uint64_t kStale = QNN_MEM_ERROR_INVALID_HANDLE;
constexpr uint64_t kBusy = QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
constexpr uint64_t kArgument = QNN_COMMON_ERROR_INVALID_ARGUMENT;
constexpr uint64_t kNoMemory = QNN_COMMON_ERROR_MEM_ALLOC;

TEST(AllocateAndClose) {
  qnnrt_buffer_t b = Alloc(5000, size_t{2} << 20);
  qnnrt_buffer_info_t info = Info(b);
  CHECK_EQ(info.nbytes, 5000u);
  CHECK_EQ(info.mapped, 8192u);
  CHECK_EQ(reinterpret_cast<uintptr_t>(info.address) % (size_t{2} << 20), 0u);
  CHECK_EQ(info.owners, 1);
  CHECK_EQ(info.flags & QNNRT_BUFFER_EXPORTED, 0u);
  std::memset(info.address, 3, 5000);
  CHECK_EQ(qnnrt_buffer_access_begin(b, QNNRT_ACCESS_READ), 0u);
  CHECK_EQ(qnnrt_buffer_access_end(b, QNNRT_ACCESS_READ), 0u);
  CHECK_EQ(qnnrt_buffer_access_begin(b, 8), kArgument);
  CHECK_EQ(qnnrt_buffer_close(b), 0u);
  CHECK_EQ(qnnrt_buffer_close(b), kStale);
  CHECK(Says("closed or never made"));
  CHECK_EQ(qnnrt_buffer_info(b, &info), kStale);
  CHECK_EQ(qnnrt_buffer_retain(b), kStale);
  CHECK_EQ(qnnrt_buffer_release(b), kStale);
  CHECK_EQ(qnnrt_buffer_release(0), kStale);
  CHECK_EQ(qnnrt_buffer_release(~uint64_t{0}), kStale);
  CHECK_EQ(qnnrt_buffer_release(reinterpret_cast<uintptr_t>(&b)), kStale);
}

TEST(BadArguments) {
  qnnrt_buffer_t b = 77;
  CHECK_EQ(qnnrt_buffer_alloc(nullptr, 0, 0, &b), kArgument);
  CHECK_EQ(b, 0u);
  CHECK_EQ(qnnrt_buffer_alloc(nullptr, 64, 3, &b), kArgument);
  CHECK_EQ(qnnrt_buffer_alloc("nonsense", 64, 64, &b), kArgument);
  CHECK(Says("expected vendor, dma_heap, udmabuf or memfd"));
  CHECK_EQ(qnnrt_buffer_alloc(nullptr, 64, 64, nullptr), kArgument);
  CHECK_EQ(qnnrt_buffer_alloc(nullptr, uint64_t{1} << 44, 0, &b), kNoMemory);
  CHECK_EQ(qnnrt_buffer_alloc(nullptr, ~uint64_t{0}, 0, &b), kNoMemory);
  CHECK_EQ(qnnrt_buffer_wrap(nullptr, 64, 0, &b), kArgument);
  CHECK_EQ(qnnrt_buffer_wrap(&b, 0, 0, &b), kArgument);
}

TEST(CloseSaysWhoHoldsIt) {
  qnnrt_buffer_t b = Alloc();
  CHECK_EQ(qnnrt_buffer_export_begin(b), 0u);
  CHECK_EQ(qnnrt_buffer_export_begin(b), 0u);
  CHECK_EQ(qnnrt_buffer_close(b), kBusy);
  CHECK(Says("2 exported views"));
  CHECK_EQ(qnnrt_buffer_export_end(b), 0u);
  CHECK_EQ(qnnrt_buffer_export_end(b), 0u);
  CHECK_EQ(qnnrt_buffer_export_end(b), kBusy);  // an end without a begin
  CHECK_EQ(qnnrt_buffer_execution_begin(b), 0u);
  CHECK_EQ(qnnrt_buffer_close(b), kBusy);
  CHECK(Says("1 running execution"));
  CHECK_EQ(qnnrt_buffer_execution_end(b), 0u);
  CHECK_EQ(qnnrt_buffer_retain(b), 0u);
  CHECK_EQ(qnnrt_buffer_close(b), kBusy);
  CHECK(Says("1 other owner"));
  CHECK_EQ(qnnrt_buffer_release(b), 0u);
  int fd;
  CHECK_EQ(qnnrt_buffer_borrow_fd(b, &fd), 0u);
  const Shape flat{{16}, 1};
  qnnrt::MemDescriptor d = Ion(fd, flat);
  qnnrt::Registry& registry = qnnrt::Memory::Get().registry();
  qnnrt::SlotHandle h;
  CHECK_OK(registry.Register(9, &d, 1, qnnrt::kCpuReachableKinds, &h));
  CHECK_EQ(Info(b).registrations, 1);
  {
    qnnrt::MemUse use(&registry, registry.TryAcquire(h, 9));
    CHECK_EQ(qnnrt_buffer_close(b), kBusy);
    CHECK(Says("1 registered memory handle"));
    CHECK(Says("executions in flight"));
  }
  CHECK_OK(registry.Deregister(&h, 1));
  CHECK_EQ(qnnrt_buffer_close(b), 0u);
}

TEST(TheLastHoldFrees) {
  const int64_t before = Counts().buffers;
  qnnrt_buffer_t b = Alloc();
  auto* bytes = static_cast<char*>(Info(b).address);
  CHECK_EQ(qnnrt_buffer_export_begin(b), 0u);
  CHECK_EQ(qnnrt_buffer_release(b), 0u);  // the owner goes, a view stays
  CHECK_EQ(Counts().buffers, before + 1);
  bytes[0] = 1;
  CHECK_EQ(qnnrt_buffer_retain(b), kStale);
  CHECK_EQ(qnnrt_buffer_close(b), kStale);
  CHECK_EQ(qnnrt_buffer_export_end(b), 0u);
  CHECK_EQ(Counts().buffers, before);
  CHECK_EQ(qnnrt_buffer_info(b, nullptr), kArgument);
}

TEST(PooledUnlessTheFdHasLeft) {
  qnnrt_pool_trim(0);
  qnnrt_buffer_t a = Alloc();
  void* first = Info(a).address;
  CHECK_EQ(qnnrt_buffer_close(a), 0u);
  qnnrt_buffer_t b = Alloc();
  CHECK_EQ(Info(b).address, first);
  CHECK(b != a);
  int fd;
  CHECK_EQ(qnnrt_buffer_borrow_fd(b, &fd), 0u);  // for calls into this library: not an export
  CHECK_EQ(qnnrt_buffer_close(b), 0u);
  b = Alloc();
  CHECK_EQ(Info(b).address, first);
  CHECK_EQ(qnnrt_buffer_fd(b, &fd), 0u);
  CHECK(Info(b).flags & QNNRT_BUFFER_EXPORTED);
  CHECK_EQ(qnnrt_buffer_close(b), 0u);
  qnnrt_pool_info_t pool;
  CHECK_EQ(qnnrt_pool_info(&pool), 0u);
  CHECK_EQ(pool.entries, 0u);
  CHECK(pool.hits >= 2);
  CHECK_EQ(fcntl(fd, F_GETFD), -1);  // really closed
}

TEST(ImportsCheckTheRealSize) {
  int fd = NewMemfd(10000);
  qnnrt_buffer_t b;
  CHECK_EQ(qnnrt_buffer_import(fd, 10001, 0, &b), kArgument);
  CHECK(Says("holds 10000 bytes"));
  CHECK_EQ(qnnrt_buffer_import(fd, 1, 10000, &b), kArgument);
  CHECK_EQ(qnnrt_buffer_import(fd, 2, ~uint64_t{0}, &b), kArgument);
  CHECK_EQ(qnnrt_buffer_import(fd, 0, 10000, &b), kArgument);
  CHECK_EQ(qnnrt_buffer_import(-1, 1, 0, &b), QNN_MEM_ERROR_MAPPING);
  CHECK_EQ(qnnrt_buffer_import(9999, 1, 0, &b), QNN_MEM_ERROR_MAPPING);
  int null = open("/dev/null", O_RDWR);
  CHECK_EQ(qnnrt_buffer_import(null, 1, 0, &b), QNN_MEM_ERROR_MAPPING);
  close(null);
  CHECK_EQ(qnnrt_buffer_import(fd, 0, 5001, &b), 0u);  // an odd offset, to the end
  qnnrt_buffer_info_t info = Info(b);
  CHECK_EQ(info.nbytes, 4999u);
  CHECK_EQ(info.fd_offset, 5001u);
  CHECK_EQ(info.fd_size, 10000u);
  CHECK(info.flags & QNNRT_BUFFER_CAN_SHRINK);
  CHECK(info.flags & QNNRT_BUFFER_IMPORTED);
  CHECK_EQ(std::string(info.heap), "imported");
  CHECK_EQ(pwrite(fd, "hello", 5, 5001), 5);
  CHECK_EQ(std::memcmp(info.address, "hello", 5), 0);
  close(fd);  // the caller's; ours is a dup
  static_cast<char*>(info.address)[4998] = 1;
  CHECK_EQ(qnnrt_buffer_close(b), 0u);
}

TEST(ImportsOfSealedAndReadOnlyFiles) {
  int fd = NewMemfd(8192);
  CHECK_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  qnnrt_buffer_t b;
  CHECK_EQ(qnnrt_buffer_import(fd, 8192, 0, &b), 0u);
  CHECK_EQ(Info(b).flags & QNNRT_BUFFER_CAN_SHRINK, 0u);
  CHECK_EQ(qnnrt_buffer_close(b), 0u);
  CHECK_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
  CHECK_EQ(qnnrt_buffer_import(fd, 8192, 0, &b), 0u);
  CHECK(Info(b).flags & QNNRT_BUFFER_READ_ONLY);
  CHECK_EQ(static_cast<char*>(Info(b).address)[8191], 0);
  CHECK_EQ(qnnrt_buffer_close(b), 0u);
  close(fd);
}

TEST(ImportsOfDmaBufs) {
  qnnrt_buffer_t b = Alloc(10000), imported;
  if (!(Info(b).flags & QNNRT_BUFFER_DMA_BUF)) {
    CHECK_EQ(qnnrt_buffer_close(b), 0u);
    return check::Skip("dma-bufs", "the default heap makes none");
  }
  int fd;
  CHECK_EQ(qnnrt_buffer_fd(b, &fd), 0u);
  CHECK_EQ(qnnrt_buffer_import(fd, 20000, 0, &imported), kArgument);
  CHECK(Says("holds 12288 bytes"));
  CHECK_EQ(qnnrt_buffer_import(fd, 0, 4096, &imported), 0u);
  qnnrt_buffer_info_t info = Info(imported);
  CHECK_EQ(info.nbytes, 8192u);
  CHECK(info.flags & QNNRT_BUFFER_DMA_BUF);
  CHECK_EQ(info.flags & (QNNRT_BUFFER_COHERENT | QNNRT_BUFFER_CAN_SHRINK), 0u);
  CHECK_EQ(qnnrt_buffer_access_begin(imported, QNNRT_ACCESS_READ | QNNRT_ACCESS_WRITE), 0u);
  static_cast<char*>(info.address)[1] = 5;
  CHECK_EQ(qnnrt_buffer_access_end(imported, QNNRT_ACCESS_READ | QNNRT_ACCESS_WRITE), 0u);
  CHECK_EQ(static_cast<char*>(Info(b).address)[4097], 5);
  // A client's own mapping of it, as DMA_BUF descriptors bring it.
  void* mapped = mmap(nullptr, 12288, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const Shape flat{{16}, 1};
  qnnrt::MemDescriptor d = Ion(fd, flat);
  d.kind = qnnrt::MemKind::kDmaBuf;
  d.data = static_cast<char*>(mapped) + 4096;
  qnnrt::Registry& registry = qnnrt::Memory::Get().registry();
  qnnrt::SlotHandle h;
  CHECK_OK(registry.Register(9, &d, 1, qnnrt::kCpuReachableKinds, &h));
  {
    qnnrt::MemUse use(&registry, registry.TryAcquire(h, 9));
    CHECK_EQ(use->offset, 4096u);
    CHECK_EQ(use->address[1], 5);
  }
  CHECK_OK(registry.Deregister(&h, 1));
  munmap(mapped, 12288);
  CHECK_EQ(qnnrt_buffer_close(imported), 0u);
  CHECK_EQ(qnnrt_buffer_close(b), 0u);
}

TEST(ShrunkFilesAreNoticed) {
  int fd = NewMemfd(8192);
  qnnrt_buffer_t b;
  CHECK_EQ(qnnrt_buffer_import(fd, 4096, 4096, &b), 0u);
  CHECK_EQ(qnnrt_buffer_check_alive(b), 0u);
  CHECK_EQ(ftruncate(fd, 4096), 0);
  CHECK_EQ(qnnrt_buffer_check_alive(b), QNN_MEM_ERROR_MAPPING);
  CHECK(Says("shrunk to 4096"));
  CHECK_EQ(qnnrt_buffer_access_begin(b, QNNRT_ACCESS_READ), QNN_MEM_ERROR_MAPPING);
  CHECK_EQ(ftruncate(fd, 8192), 0);
  CHECK_EQ(qnnrt_buffer_check_alive(b), 0u);
  CHECK_EQ(qnnrt_buffer_close(b), 0u);
  close(fd);
}

TEST(WrappedMemory) {
  static char storage[256];
  qnnrt_buffer_t b, found;
  uint64_t offset;
  CHECK_EQ(qnnrt_buffer_wrap(storage, sizeof storage, 1, &b), 0u);
  qnnrt_buffer_info_t info = Info(b);
  CHECK_EQ(info.address, static_cast<void*>(storage));
  CHECK_EQ(info.flags & (QNNRT_BUFFER_WRAPPED | QNNRT_BUFFER_READ_ONLY),
           QNNRT_BUFFER_WRAPPED | QNNRT_BUFFER_READ_ONLY);
  int fd;
  CHECK_EQ(qnnrt_buffer_fd(b, &fd), QNN_COMMON_ERROR_NOT_SUPPORTED);
  CHECK_EQ(fd, -1);
  CHECK_EQ(qnnrt_buffer_lookup(storage, &found, &offset), kStale);  // not shared memory
  CHECK_EQ(qnnrt_buffer_close(b), 0u);
}

// The index against a list that is searched from end to end.
TEST(AddressesAgainstAnOracle) {
  const char* given = std::getenv("QNNRT_TEST_SEED");
  const unsigned seed = given ? static_cast<unsigned>(std::atoi(given)) : 1;
  std::printf("  AddressesAgainstAnOracle: QNNRT_TEST_SEED=%u\n", seed);
  std::mt19937_64 random(seed);
  struct Known {
    qnnrt_buffer_t buffer;
    uintptr_t start;
    uint64_t nbytes;
  };
  std::vector<Known> known;
  std::vector<uintptr_t> seen;
  for (int round = 0; round < 1500; ++round) {
    const unsigned what = static_cast<unsigned>(random() % 10);
    if (what < 3 && known.size() < 60) {
      qnnrt_buffer_t b = Alloc(1 + random() % 20000);
      known.push_back({b, reinterpret_cast<uintptr_t>(Info(b).address), Info(b).nbytes});
      seen.push_back(known.back().start);
    } else if (what < 5 && !known.empty()) {
      std::swap(known[random() % known.size()], known.back());
      CHECK_EQ(qnnrt_buffer_close(known.back().buffer), 0u);
      known.pop_back();
    } else if (!seen.empty()) {
      const uintptr_t address = seen[random() % seen.size()] + random() % 24000 - 2000;
      const Known* expected = nullptr;
      for (const Known& k : known) {
        if (address >= k.start && address - k.start < k.nbytes) expected = &k;
      }
      qnnrt_buffer_t found;
      uint64_t offset;
      const uint64_t code =
          qnnrt_buffer_lookup(reinterpret_cast<const void*>(address), &found, &offset);
      CHECK_EQ(code, expected ? 0u : kStale);
      if (code == 0 && expected) {
        CHECK_EQ(found, expected->buffer);
        CHECK_EQ(offset, address - expected->start);
        CHECK_EQ(qnnrt_buffer_release(found), 0u);
      }
    }
  }
  for (const Known& k : known) CHECK_EQ(qnnrt_buffer_close(k.buffer), 0u);
}

// Every allocation of a small program fails once; each time nothing is left over.
TEST(EveryAllocationFailsOnce) {
  const qnnrt_memory_counts_t before = Counts();
  auto program = [] {
    std::vector<qnnrt_buffer_t> made;
    bool complete = true;
    for (int i = 0; i < 5 && complete; ++i) {
      qnnrt_buffer_t b;
      complete = qnnrt_buffer_alloc(nullptr, 4096u * static_cast<unsigned>(i + 1), 0, &b) == 0;
      if (complete) made.push_back(b);
    }
    void* p = complete ? qnnrt_rpcmem_alloc(25, 1, 100) : nullptr;
    complete = complete && p;
    qnnrt_rpcmem_free(p);
    for (qnnrt_buffer_t b : made) CHECK_EQ(qnnrt_buffer_close(b), 0u);
    return complete;
  };
  qnnrt::Memory::Get().SetWarningSink([](const char*) {});
  int failed = 0;
  for (int nth = 1;; ++nth) {
    qnnrt_memory_fail_nth(nth);
    const bool complete = program();
    CHECK_EQ(Counts().buffers, before.buffers);
    CHECK_EQ(Counts().maps, before.maps);
    CHECK_EQ(Counts().fds, before.fds);
    if (complete) break;
    ++failed;
  }
  qnnrt_memory_fail_nth(0);
  qnnrt::Memory::Get().SetWarningSink(nullptr);
  CHECK_EQ(failed, 6);
}

TEST(RunningOutOfFds) {
  int fd = NewMemfd(4096);
  qnnrt_pool_trim(0);
  rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  rlimit low = limit;
  low.rlim_cur = static_cast<rlim_t>(fd) + 1;
  setrlimit(RLIMIT_NOFILE, &low);
  qnnrt_buffer_t b;
  const uint64_t made = qnnrt_buffer_alloc(nullptr, 4096, 0, &b);
  const std::string why = qnnrt_last_error();
  const uint64_t imported = qnnrt_buffer_import(fd, 4096, 0, &b);
  setrlimit(RLIMIT_NOFILE, &limit);
  CHECK(made != 0);
  CHECK(why.find("Too many open files") != std::string::npos);
  CHECK_EQ(imported, QNN_MEM_ERROR_MAPPING);
  CHECK_EQ(qnnrt_buffer_import(fd, 4096, 0, &b), 0u);
  CHECK_EQ(qnnrt_buffer_close(b), 0u);
  close(fd);
}
// Whose signal, SIGXFSZ, would end the process.
TEST(FilesOfLimitedSize) {
  qnnrt_pool_trim(0);
  rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  rlimit low = limit;
  low.rlim_cur = 8192;
  setrlimit(RLIMIT_FSIZE, &low);
  qnnrt_buffer_t small, large;
  const uint64_t fits = qnnrt_buffer_alloc("memfd", 8192, 0, &small);
  const uint64_t made = qnnrt_buffer_alloc("memfd", 8193, 0, &large);
  const std::string why = qnnrt_last_error();
  setrlimit(RLIMIT_FSIZE, &limit);
  CHECK_EQ(fits, 0u);
  CHECK_EQ(made, QNN_COMMON_ERROR_MEM_ALLOC);
  CHECK(why.find("more than 8192 bytes") != std::string::npos);
  CHECK_EQ(qnnrt_buffer_alloc("memfd", 8193, 0, &large), 0u);
  CHECK_EQ(qnnrt_buffer_close(small), 0u);
  CHECK_EQ(qnnrt_buffer_close(large), 0u);
}

TEST(NothingIsLeft) { memory_test::CheckNothingIsLeft(); }

}  // namespace

CHECK_MAIN("memory_buffer_test")
