// Buffers through the C API: lifetime, holds, lookup, import, fork, failure, threads.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "abi/qnn_enums.h"
#include "abi/qnn_errors.h"
#include "check.h"
#include "memory/memory.h"
#include "memory/memory_api.h"
#include "memory/rpcmem.h"

namespace {

constexpr uint64_t kStale = QNN_MEM_ERROR_INVALID_HANDLE;
constexpr uint64_t kBusy = QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
constexpr uint64_t kArgument = QNN_COMMON_ERROR_INVALID_ARGUMENT;
constexpr uint64_t kNoMemory = QNN_COMMON_ERROR_MEM_ALLOC;

qnnrt_buffer_t Alloc(uint64_t nbytes = 4096, uint64_t alignment = 0) {
  qnnrt_buffer_t b = 0;
  CHECK_EQ(qnnrt_buffer_alloc(nullptr, nbytes, alignment, &b), 0u);
  return b;
}
qnnrt_buffer_info_t Info(qnnrt_buffer_t b) {
  qnnrt_buffer_info_t info = {};
  CHECK_EQ(qnnrt_buffer_info(b, &info), 0u);
  return info;
}
qnnrt_memory_counts_t Counts() {
  qnnrt_pool_trim(0);
  qnnrt_memory_counts_t counts;
  qnnrt_memory_counts(&counts);
  return counts;
}
bool Says(const char* words) {
  bool said = std::string(qnnrt_last_error()).find(words) != std::string::npos;
  if (!said) std::fprintf(stderr, "  the message was: %s\n", qnnrt_last_error());
  return said;
}
int NewMemfd(uint64_t size) {
  int fd = memfd_create("foreign", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  CHECK(fd >= 0 && ftruncate(fd, static_cast<off_t>(size)) == 0);
  return fd;
}
#ifdef __SANITIZE_THREAD__
constexpr bool kCanFork =
    false;  // the sanitizer's picture of the locks does not follow into a child
#else
constexpr bool kCanFork = true;
#endif

// The exit status of `body` run in a forked child; 0 stands for true.
int InChild(const std::function<bool()>& body) {
  pid_t pid = fork();
  if (pid == 0) _exit(body() ? 0 : 1);
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

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
  uint32_t dims[] = {16};
  qnnrt::MemDescriptor d;
  d.fd = fd;
  d.rank = 1;
  d.dims = dims;
  d.data_type = QNN_DATATYPE_FLOAT_32;
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
  uint32_t dims[] = {16};
  qnnrt::MemDescriptor d;
  d.kind = qnnrt::MemKind::kDmaBuf;
  d.fd = fd;
  d.data = static_cast<char*>(mapped) + 4096;
  d.rank = 1;
  d.dims = dims;
  d.data_type = QNN_DATATYPE_FLOAT_32;
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
  const unsigned seed = given ? static_cast<unsigned>(std::atoi(given)) : std::random_device{}();
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

TEST(RpcmemAsItReallyBehaves) {
  CHECK(qnnrt_rpcmem_alloc(25, 1, 0) == nullptr);
  CHECK(qnnrt_rpcmem_alloc(25, 1, -4096) == nullptr);
  CHECK(qnnrt_rpcmem_alloc2(25, 1, 0) == nullptr);
  auto* p = static_cast<char*>(qnnrt_rpcmem_alloc(-1, 0xFFFFFFFFu, 10000));  // ids and flags: any
  REQUIRE(p);
  const int fd = qnnrt_rpcmem_to_fd(p);
  CHECK(fd >= 0);
  CHECK_EQ(qnnrt_rpcmem_to_fd(p + 1), -1);  // base addresses only
  CHECK_EQ(qnnrt_rpcmem_to_fd(nullptr), -1);
  const qnnrt_memory_counts_t before = Counts();
  qnnrt_rpcmem_free(p + 64);  // unknown: ignored, counted
  qnnrt_rpcmem_free(const_cast<char*>("not ours"));
  qnnrt_rpcmem_free(nullptr);
  CHECK_EQ(Counts().unknown_frees, before.unknown_frees + 2);
  CHECK_EQ(qnnrt_rpcmem_to_fd(p), fd);
  qnnrt_buffer_t own = Alloc();
  CHECK_EQ(qnnrt_rpcmem_to_fd(Info(own).address), -1);  // not rpcmem
  CHECK_EQ(qnnrt_buffer_close(own), 0u);
  qnnrt_rpcmem_free(p);
  CHECK_EQ(qnnrt_rpcmem_to_fd(p), -1);
  void* big = qnnrt_rpcmem_alloc2(25, 1, 3000000);
  CHECK(big != nullptr);
  qnnrt_rpcmem_free(big);
}

TEST(FastrpcBooks) {
  int fd = NewMemfd(8192);
  static char storage[64];
  const uint64_t before = qnnrt_remote_registered_bufs();
  qnnrt_remote_register_buf(storage, sizeof storage, fd);
  qnnrt_remote_register_buf_attr2(storage + 32, 32, fd, 256);
  qnnrt_remote_register_buf_attr(nullptr, 32, fd, 0);  // means nothing
  CHECK_EQ(qnnrt_remote_registered_bufs(), before + 2);
  qnnrt_remote_register_buf(storage, sizeof storage, -1);
  qnnrt_remote_register_buf_attr2(storage + 32, 32, -1, 0);
  CHECK_EQ(qnnrt_remote_registered_bufs(), before);
  CHECK_EQ(qnnrt_fastrpc_mmap(3, fd, nullptr, 0, 8192, 2), QNNRT_AEE_SUCCESS);
  CHECK_EQ(qnnrt_fastrpc_mmap(3, fd, nullptr, 0, 8192, 2), QNNRT_AEE_EALREADY);
  CHECK_EQ(qnnrt_fastrpc_mmap(0, fd, nullptr, 0, 8192, 2), QNNRT_AEE_SUCCESS);
  CHECK_EQ(qnnrt_fastrpc_mmap(3, fd, nullptr, 1, 4096, 2), QNNRT_AEE_EBADPARM);
  CHECK_EQ(qnnrt_fastrpc_mmap(3, fd, nullptr, 0, 100, 2), QNNRT_AEE_EBADPARM);
  CHECK_EQ(qnnrt_fastrpc_mmap(3, fd, nullptr, 4096, 8192, 2), QNNRT_AEE_EBADPARM);
  CHECK_EQ(qnnrt_fastrpc_mmap(3, -1, nullptr, 0, 4096, 2), QNNRT_AEE_EBADPARM);
  CHECK_EQ(qnnrt_fastrpc_mmap(77, fd, nullptr, 0, 4096, 2), QNNRT_AEE_EBADPARM);
  CHECK_EQ(qnnrt_fastrpc_mmap(3, fd, nullptr, 0, 4096, 99), QNNRT_AEE_EUNSUPPORTED);
  CHECK_EQ(qnnrt_fastrpc_munmap(3, fd, nullptr, 8192), QNNRT_AEE_SUCCESS);
  CHECK_EQ(qnnrt_fastrpc_munmap(0, fd, nullptr, 8192), QNNRT_AEE_SUCCESS);
  CHECK_EQ(qnnrt_fastrpc_munmap(3, fd, nullptr, 8192), QNNRT_AEE_EBADPARM);
  close(fd);
}

TEST(HeapsAreListed) {
  qnnrt_heap_info_t heap;
  int available = 0, defaults = 0;
  uint32_t i = 0;
  for (; qnnrt_heap_info(i, &heap) == 0; ++i) {
    available += heap.available;
    defaults += heap.is_default;
    CHECK(heap.reason && *heap.reason);
  }
  CHECK_EQ(i, 4u);
  CHECK(available >= 1);
  CHECK_EQ(defaults, 1);
  CHECK(*qnnrt_heap_default_reason());
}

// A child sees the parent's memory, cannot change the parent's books, and can make its own.
TEST(Fork) {
  if (!kCanFork) return check::Skip("fork", "thread sanitizer");
  qnnrt_pool_trim(0);
  qnnrt_buffer_t pooled = Alloc();
  void* pooled_address = Info(pooled).address;
  qnnrt_buffer_t b = Alloc(4096);
  auto* bytes = static_cast<char*>(Info(b).address);
  int fd;
  CHECK_EQ(qnnrt_buffer_fd(b, &fd), 0u);
  uint32_t dims[] = {16};
  qnnrt::MemDescriptor d;
  d.fd = fd;
  d.rank = 1;
  d.dims = dims;
  d.data_type = QNN_DATATYPE_FLOAT_32;
  qnnrt::Registry& registry = qnnrt::Memory::Get().registry();
  qnnrt::SlotHandle h;
  CHECK_OK(registry.Register(9, &d, 1, qnnrt::kCpuReachableKinds, &h));
  CHECK_EQ(qnnrt_buffer_close(pooled), 0u);
  const int failed = InChild([&] {
    const int before = check::failures;
    bytes[0] = 42;  // shared
    CHECK_EQ(qnnrt_buffer_close(b), kBusy);
    CHECK(Says("parent process"));
    CHECK_EQ(qnnrt_buffer_release(b), kBusy);
    CHECK(Info(b).flags & QNNRT_BUFFER_INHERITED);
    CHECK(!registry.Acquire(h, 9).ok());
    CHECK_EQ(registry.Deregister(&h, 1).code(), QNN_MEM_ERROR_INVALID_HANDLE);
    CHECK_EQ(registry.Register(9, &d, 1, qnnrt::kCpuReachableKinds, &h).code(),
             QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED);
    qnnrt_buffer_t fresh = Alloc(), imported = 0;
    CHECK(Info(fresh).address != pooled_address);  // pooled memory is the parent's
    std::memset(Info(fresh).address, 9, 4096);
    CHECK_EQ(qnnrt_buffer_close(fresh), 0u);
    CHECK_EQ(qnnrt_buffer_import(fd, 4096, 0, &imported), 0u);  // how a child gets its own
    CHECK_EQ(static_cast<char*>(Info(imported).address)[0], 42);
    int child_fd;
    CHECK_EQ(qnnrt_buffer_fd(imported, &child_fd), 0u);
    d.fd = child_fd;
    CHECK_OK(registry.Register(9, &d, 1, qnnrt::kCpuReachableKinds, &h));
    CHECK_OK(registry.Deregister(&h, 1));
    CHECK_EQ(qnnrt_buffer_close(imported), 0u);
    return check::failures == before;
  });
  CHECK_EQ(failed, 0);
  CHECK_EQ(bytes[0], 42);
  CHECK_OK(registry.Acquire(h, 9).status());  // the parent's handle is as it was
  registry.Release(h);
  CHECK_OK(registry.Deregister(&h, 1));
  CHECK_EQ(qnnrt_buffer_close(b), 0u);
  b = Alloc();
  CHECK_EQ(Info(b).address, pooled_address);  // and so is its pool
  CHECK_EQ(qnnrt_buffer_close(b), 0u);
}

TEST(ForkWhileOthersAllocate) {
  if (!kCanFork) return check::Skip("fork", "thread sanitizer");
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&stop] {
      while (!stop) CHECK_EQ(qnnrt_buffer_close(Alloc()), 0u);
    });
  }
  for (int i = 0; i < 20; ++i) {  // no child may hang on a lock that another thread held
    CHECK_EQ(InChild([] {
               alarm(20);
               qnnrt_buffer_t b;
               return qnnrt_buffer_alloc(nullptr, 4096, 0, &b) == 0 && qnnrt_buffer_close(b) == 0;
             }),
             0);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(StrictKeepsRegisteredRpcmem) {
  // QNNRT_STRICT is read once for a process: a program of its own, so that the setting is fresh.
  const std::string command = "QNNRT_STRICT=1 /proc/" + std::to_string(getpid()) + "/exe --strict";
  CHECK_EQ(std::system(command.c_str()), 0);
}

// Threads take, give back, look up and close at once; the books are even at the end.
TEST(ManyThreads) {
  constexpr int kThreads = 4, kShared = 8;
  qnnrt_buffer_t shared[kShared];
  char* address[kShared];
  for (int i = 0; i < kShared; ++i) {
    shared[i] = Alloc(4096);
    address[i] = static_cast<char*>(Info(shared[i]).address);
  }
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int round = 0; round < 2000; ++round) {
        const unsigned i = random() % kShared;
        switch (random() % 4) {
          case 0: {
            qnnrt_buffer_t b = Alloc(1 + random() % 9000);
            CHECK_EQ(qnnrt_buffer_close(b), 0u);
            break;
          }
          case 1: {
            qnnrt_buffer_t found;
            uint64_t offset;
            CHECK_EQ(qnnrt_buffer_lookup(address[i] + 100, &found, &offset), 0u);
            CHECK_EQ(found, shared[i]);
            CHECK_EQ(qnnrt_buffer_release(found), 0u);
            break;
          }
          case 2:
            CHECK_EQ(qnnrt_buffer_export_begin(shared[i]), 0u);
            CHECK_EQ(qnnrt_buffer_close(shared[i]), kBusy);
            CHECK_EQ(qnnrt_buffer_export_end(shared[i]), 0u);
            break;
          default:
            CHECK_EQ(qnnrt_buffer_retain(shared[i]), 0u);
            CHECK_EQ(qnnrt_buffer_release(shared[i]), 0u);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (qnnrt_buffer_t b : shared) CHECK_EQ(qnnrt_buffer_close(b), 0u);
}

TEST(NothingIsLeft) {
  const qnnrt_memory_counts_t counts = Counts();
  CHECK_EQ(counts.buffers, 0);
  CHECK_EQ(counts.maps, 0);
  CHECK_EQ(counts.fds, 0);
  CHECK_EQ(counts.handles, 0);
}

int Strict() {
  qnnrt::Memory& memory = qnnrt::Memory::Get();
  static int warnings = 0;
  memory.SetWarningSink([](const char*) { ++warnings; });
  void* p = qnnrt_rpcmem_alloc(25, 1, 4096);
  uint32_t dims[] = {16};
  qnnrt::MemDescriptor d;
  d.fd = qnnrt_rpcmem_to_fd(p);
  d.rank = 1;
  d.dims = dims;
  d.data_type = QNN_DATATYPE_FLOAT_32;
  qnnrt::SlotHandle h;
  bool good = memory.registry().Register(1, &d, 1, qnnrt::kCpuReachableKinds, &h).ok();
  qnnrt_rpcmem_free(p);
  good = good && warnings == 1 && qnnrt_rpcmem_to_fd(p) == d.fd;  // still there
  good = good && memory.registry().Deregister(&h, 1).ok();
  qnnrt_rpcmem_free(p);
  return good && warnings == 1 && memory.counters().buffers == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--strict") return Strict();
  return check::Main(argc, argv, "memory_buffer_test");
}
