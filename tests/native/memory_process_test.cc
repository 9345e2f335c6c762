// Memory of a process: rpcmem and FastRPC's books, heaps, forks, threads.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "memory_client.h"

using namespace memory_test;  // NOLINT(build/namespaces)

namespace {

constexpr uint64_t kBusy = QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;

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
  const Shape flat{{16}, 1};
  qnnrt::MemDescriptor d = Ion(fd, flat);
  qnnrt::Registry& registry = qnnrt::Memory::Get().registry();
  qnnrt::SlotHandle h;
  qnnrt::ProcessDomain domain(8192);
  CHECK_OK(registry.Register(9, &d, 1, qnnrt::kCpuReachableKinds, &h, &domain));
  CHECK_EQ(domain.used(), 4096u);
  CHECK_EQ(qnnrt_buffer_close(pooled), 0u);
  const int failed = InChild([&] {
    const int before = check::failures;
    bytes[0] = 42;  // shared
    CHECK_EQ(qnnrt_buffer_close(b), kBusy);
    CHECK(Says("parent process"));
    CHECK_EQ(qnnrt_buffer_release(b), kBusy);
    CHECK(Info(b).flags & QNNRT_BUFFER_INHERITED);
    const std::string gone = registry.Acquire(h, 9).status().message();
    CHECK(gone.find("handles do not survive a fork") != std::string::npos);
    CHECK_EQ(registry.Deregister(&h, 1).code(), QNN_MEM_ERROR_INVALID_HANDLE);
    CHECK_EQ(domain.used(), 0u);  // the child has mapped nothing
    auto none = registry.AcquireKind(9, qnnrt::MemKind::kIon);
    CHECK(none.ok() && !*none);
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
               alarm(300);
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
  // By its name: under an emulator /proc/<pid>/exe is the emulator.
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command = "QNNRT_STRICT=1 '" + program + "' --strict";
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
TEST(NothingIsLeft) { memory_test::CheckNothingIsLeft(); }

int Strict() {
  qnnrt::Memory& memory = qnnrt::Memory::Get();
  static int warnings = 0;
  memory.SetWarningSink([](const char*) { ++warnings; });
  void* p = qnnrt_rpcmem_alloc(25, 1, 4096);
  const Shape flat{{16}, 1};
  const qnnrt::MemDescriptor d = Ion(qnnrt_rpcmem_to_fd(p), flat);
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
  return check::Main(argc, argv, "memory_process_test");
}
