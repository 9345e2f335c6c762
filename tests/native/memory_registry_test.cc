// The rules of registering and deregistering memory, each with its code.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "abi/qnn_enums.h"
#include "abi/qnn_errors.h"
#include "abi/qnn_htp.h"
#include "abi/qnn_lpai.h"
#include "check.h"
#include "memory/descriptor.h"
#include "memory/memory.h"
#include "memory/memory_api.h"
#include "memory/rpcmem.h"

using namespace qnnrt;

namespace {

constexpr uint32_t kAll = ~0u;
Registry& registry() { return Memory::Get().registry(); }

struct Shape {
  uint32_t dims[4] = {1, 4, 4, 16};  // 1024 bytes as float32
  uint32_t rank = 4;
};

MemDescriptor Ion(int fd, const Shape& s) {
  MemDescriptor d;
  d.kind = MemKind::kIon;
  d.fd = fd;
  d.rank = s.rank;
  d.dims = s.dims;
  d.data_type = QNN_DATATYPE_FLOAT_32;
  return d;
}
MemDescriptor Shared(int fd, uint64_t size, uint64_t offset, const Shape& s) {
  MemDescriptor d = Ion(fd, s);
  d.kind = MemKind::kSharedBuffer;
  d.size = size;
  d.offset = offset;
  d.states_size = true;
  return d;
}
uint32_t Register(const MemDescriptor& d, SlotHandle* h, uint64_t context = 1,
                  uint32_t kinds = kAll) {
  *h = 77;  // must be nulled
  Status status = registry().Register(context, &d, 1, kinds, h);
  CHECK(status.ok() == (*h != 0));
  if (!status.ok()) CHECK(!status.message().empty());
  return status.code();
}
uint32_t Deregister(SlotHandle h) { return registry().Deregister(&h, 1).code(); }

struct Rpc {  // an rpcmem buffer
  explicit Rpc(int size)
      : address(qnnrt_rpcmem_alloc(25, 1, size)), fd(qnnrt_rpcmem_to_fd(address)) {}
  ~Rpc() { qnnrt_rpcmem_free(address); }
  void* address;
  int fd;
};

int NewMemfd(uint64_t size, int seals = 0) {
  int fd = memfd_create("foreign", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  CHECK(fd >= 0 && ftruncate(fd, static_cast<off_t>(size)) == 0);
  if (seals) CHECK_EQ(fcntl(fd, F_ADD_SEALS, seals), 0);
  return fd;
}

TEST(IonIsOneHandlePerFd) {
  Rpc rpc(8192);
  Shape s;
  SlotHandle a, b;
  CHECK_EQ(Register(Ion(rpc.fd, s), &a), 0u);
  auto r = registry().Acquire(a, 1);
  if (CHECK_OK(r.status())) {
    CHECK_EQ(static_cast<void*>((*r)->address), rpc.address);  // no second mapping
    CHECK_EQ((*r)->nbytes, 1024u);
    CHECK_EQ((*r)->available, 8192u);
    CHECK_EQ((*r)->rank, 4u);
    CHECK_EQ((*r)->dims[3], 16u);
    registry().Release(a);
  }
  CHECK_EQ(Register(Ion(rpc.fd, s), &b), QNN_MEM_ERROR_ALREADY_REGISTERED);
  int dupped = dup(rpc.fd);  // another number, the same file
  CHECK_EQ(Register(Ion(dupped, s), &b), QNN_MEM_ERROR_ALREADY_REGISTERED);
  CHECK_EQ(Register(Ion(dupped, s), &b, 2), 0u);  // another context has its own
  r = registry().Acquire(b, 2);
  if (CHECK_OK(r.status())) {
    CHECK_EQ(static_cast<void*>((*r)->address), rpc.address);
    registry().Release(b);
  }
  close(dupped);
  CHECK_EQ(registry().Acquire(b, 1).status().code(), QNN_MEM_ERROR_INVALID_HANDLE);
  CHECK_EQ(Deregister(a), 0u);
  CHECK_EQ(Deregister(b), 0u);
  CHECK_EQ(Register(Ion(rpc.fd, s), &a), 0u);  // free again
  CHECK_EQ(Deregister(a), 0u);
  Shape big;
  big.dims[0] = 9;  // 9216 bytes
  CHECK_EQ(Register(Ion(rpc.fd, big), &a), QNN_MEM_ERROR_INVALID_ARGUMENT);
}

TEST(SharedBufferRanges) {
  Rpc rpc(8192);
  Shape s;
  SlotHandle a, b, c;
  CHECK_EQ(Register(Shared(rpc.fd, 8192, 0, s), &a), 0u);
  CHECK_EQ(Register(Shared(rpc.fd, 8192, 4096, s), &b), 0u);
  CHECK(a != b);
  auto r = registry().Acquire(b, 1);
  if (CHECK_OK(r.status())) {
    CHECK_EQ(static_cast<void*>((*r)->address),
             static_cast<void*>(static_cast<char*>(rpc.address) + 4096));
    registry().Release(b);
  }
  CHECK_EQ(Register(Shared(rpc.fd, 8192, 4096, s), &c), QNN_MEM_ERROR_ALREADY_REGISTERED);
  CHECK_EQ(Register(Shared(rpc.fd, 4096, 1024, s), &c), QNN_MEM_ERROR_INVALID_ARGUMENT);
  CHECK_EQ(Register(Shared(rpc.fd, 8192, 7169, s), &c), QNN_MEM_ERROR_INVALID_ARGUMENT);
  CHECK_EQ(Register(Shared(rpc.fd, 8192, UINT64_MAX - 10, s), &c), QNN_MEM_ERROR_INVALID_ARGUMENT);
  CHECK_EQ(Register(Shared(rpc.fd, 8192, 7168, s), &c), 0u);
  CHECK_EQ(Deregister(a), 0u);
  CHECK_EQ(Deregister(b), 0u);
  CHECK_EQ(Deregister(c), 0u);
  // The tensor's size where the buffer's belongs: the best known mistake.
  CHECK_EQ(Register(Shared(rpc.fd, 1024, 0, s), &a), QNN_MEM_ERROR_INVALID_ARGUMENT);
}

TEST(SizesThatAreNotWholePages) {
  Rpc rpc(5000);
  Shape s;
  SlotHandle a;
  CHECK_EQ(Register(Shared(rpc.fd, 5000, 0, s), &a), 0u);
  CHECK_EQ(Deregister(a), 0u);
  CHECK_EQ(Register(Shared(rpc.fd, 8192, 0, s), &a), 0u);  // the same buffer, rounded
  CHECK_EQ(Deregister(a), 0u);
  CHECK_EQ(Register(Shared(rpc.fd, 4096, 0, s), &a), QNN_MEM_ERROR_INVALID_ARGUMENT);
  CHECK_EQ(Register(Shared(rpc.fd, 8192, 4096, s), &a), QNN_MEM_ERROR_INVALID_ARGUMENT);
}

TEST(BadDescriptors) {
  Rpc rpc(8192);
  Shape s;
  SlotHandle h;
  CHECK_EQ(Register(Ion(-1, s), &h), QNN_MEM_ERROR_INVALID_ARGUMENT);
  CHECK_EQ(Register(Ion(9999, s), &h), QNN_MEM_ERROR_MAPPING);
  int pipes[2];
  CHECK_EQ(pipe(pipes), 0);
  CHECK_EQ(Register(Ion(pipes[0], s), &h), QNN_MEM_ERROR_MAPPING);
  close(pipes[0]);
  close(pipes[1]);
  MemDescriptor d = Ion(rpc.fd, s);
  d.rank = 0;
  CHECK_EQ(Register(d, &h), QNN_MEM_ERROR_INVALID_SHAPE);
  d = Ion(rpc.fd, s);
  d.dims = nullptr;
  CHECK_EQ(Register(d, &h), QNN_MEM_ERROR_INVALID_ARGUMENT);
  d = Ion(rpc.fd, s);
  d.rank = 99;
  CHECK_EQ(Register(d, &h), QNN_MEM_ERROR_INVALID_SHAPE);
  Shape zero;
  zero.dims[2] = 0;
  CHECK_EQ(Register(Ion(rpc.fd, zero), &h), QNN_MEM_ERROR_INVALID_SHAPE);
  Shape huge;
  for (uint32_t& dim : huge.dims) dim = UINT32_MAX;
  CHECK_EQ(Register(Ion(rpc.fd, huge), &h), QNN_MEM_ERROR_INVALID_SHAPE);
  d = Ion(rpc.fd, s);
  d.shape_config = "NV12";
  CHECK_EQ(Register(d, &h), QNN_MEM_ERROR_INVALID_SHAPE);
  d = Ion(rpc.fd, s);
  d.data_type = QNN_DATATYPE_UNDEFINED;
  CHECK_EQ(Register(d, &h), QNN_MEM_ERROR_INVALID_ARGUMENT);
  d = Ion(rpc.fd, s);
  d.kind = MemKind::kQurt;
  CHECK_EQ(Register(d, &h), QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE);
  CHECK_EQ(Register(Ion(rpc.fd, s), &h, 1, KindBit(MemKind::kSharedBuffer)),
           QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE);
  CHECK_EQ(registry().Register(1, nullptr, 1, kAll, &h).code(), QNN_MEM_ERROR_INVALID_ARGUMENT);
  CHECK_EQ(registry().Register(1, &d, 1, kAll, nullptr).code(), QNN_MEM_ERROR_INVALID_ARGUMENT);
}

TEST(AllOrNothing) {
  Rpc a(4096), b(4096);
  Shape s;
  const int64_t before = Memory::Get().counters().handles;
  MemDescriptor d[3] = {Ion(a.fd, s), Ion(b.fd, s), Ion(-1, s)};
  SlotHandle h[3] = {7, 7, 7};
  CHECK_EQ(registry().Register(1, d, 3, kAll, h).code(), QNN_MEM_ERROR_INVALID_ARGUMENT);
  CHECK(h[0] == 0 && h[1] == 0 && h[2] == 0);
  CHECK_EQ(Memory::Get().counters().handles.load(), before);
  d[2] = Ion(a.fd, s);  // a duplicate inside the array
  CHECK_EQ(registry().Register(1, d, 3, kAll, h).code(), QNN_MEM_ERROR_ALREADY_REGISTERED);
  CHECK_OK(registry().Register(1, d, 2, kAll, h));  // nothing was left behind
  // One bad handle: the others still go.
  SlotHandle mixed[3] = {h[0], 0xdead, h[1]};
  CHECK_EQ(registry().Deregister(mixed, 3).code(), QNN_MEM_ERROR_INVALID_HANDLE);
  CHECK_EQ(registry().Deregister(mixed, 3).code(), QNN_MEM_ERROR_INVALID_HANDLE);
  CHECK_EQ(Memory::Get().counters().handles.load(), before);
  CHECK_EQ(Deregister(h[0]), QNN_MEM_ERROR_INVALID_HANDLE);
  CHECK_EQ(Deregister(0), QNN_MEM_ERROR_INVALID_HANDLE);
  CHECK_EQ(registry().Deregister(nullptr, 1).code(), QNN_MEM_ERROR_INVALID_ARGUMENT);
}

TEST(BusyAndStaleHandles) {
  Rpc rpc(4096);
  Shape s;
  SlotHandle h, again;
  CHECK_EQ(Register(Ion(rpc.fd, s), &h), 0u);
  {
    MemUse use(&registry(), registry().TryAcquire(h, 1));
    CHECK(static_cast<bool>(use));
    CHECK_EQ(Deregister(h), QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED);
    uint32_t in_use = 0;
    CHECK_EQ(registry().FreeContext(1, &in_use), 0u);
    CHECK_EQ(in_use, 1u);
  }
  CHECK_EQ(Deregister(h), 0u);
  CHECK_EQ(Register(Ion(rpc.fd, s), &again), 0u);
  CHECK(again != h);  // the same slot, another generation
  CHECK(registry().TryAcquire(h, 1) == nullptr);
  CHECK_EQ(registry().Acquire(h, 1).status().code(), QNN_MEM_ERROR_INVALID_HANDLE);
  CHECK_EQ(Deregister(h), QNN_MEM_ERROR_INVALID_HANDLE);
  CHECK_EQ(registry().FreeContext(1), 1u);
  CHECK_EQ(Deregister(again), QNN_MEM_ERROR_INVALID_HANDLE);
  CHECK_EQ(registry().FreeContext(1), 0u);
}

TEST(ForeignFds) {
  const int64_t maps = Memory::Get().counters().maps, fds = Memory::Get().counters().fds;
  Shape s;
  SlotHandle a, b;
  int fd = NewMemfd(8192, F_SEAL_SHRINK);
  CHECK_EQ(Register(Shared(fd, 8192, 0, s), &a), 0u);
  CHECK_EQ(Register(Shared(fd, 8192, 4096, s), &b), 0u);
  CHECK_EQ(Memory::Get().counters().maps.load(), maps + 1);  // one mapping for both
  int dupped = dup(fd);
  close(fd);  // the client may; the mapping is ours
  SlotHandle c;
  CHECK_EQ(Register(Shared(dupped, 8192, 4096, s), &c), QNN_MEM_ERROR_ALREADY_REGISTERED);
  CHECK_EQ(Register(Shared(dupped, 4096, 1024, s), &c), QNN_MEM_ERROR_INVALID_ARGUMENT);
  char probe[4] = "abc";
  CHECK_EQ(pwrite(dupped, probe, 4, 4096), 4);
  auto r = registry().Acquire(b, 1);
  if (CHECK_OK(r.status())) {
    CHECK(!(*r)->can_shrink);
    CHECK_EQ(std::memcmp((*r)->address, probe, 4), 0);
    registry().Release(b);
  }
  CHECK_EQ(Deregister(a), 0u);
  CHECK_EQ(Deregister(b), 0u);
  CHECK_EQ(Register(Shared(dupped, 16384, 0, s), &a), QNN_MEM_ERROR_INVALID_ARGUMENT);
  CHECK_EQ(Register(Shared(dupped, 8192, 8000, s), &a), QNN_MEM_ERROR_INVALID_ARGUMENT);
  close(dupped);
  CHECK_EQ(Memory::Get().counters().maps.load(), maps);
  CHECK_EQ(Memory::Get().counters().fds.load(), fds);
}

TEST(ShrunkFds) {
  Shape s;
  SlotHandle h;
  int fd = NewMemfd(8192);
  CHECK_EQ(Register(Shared(fd, 8192, 4096, s), &h), 0u);
  auto r = registry().Acquire(h, 1);
  if (CHECK_OK(r.status())) {
    CHECK((*r)->can_shrink);
    registry().Release(h);
  }
  CHECK_EQ(ftruncate(fd, 4096), 0);
  CHECK_EQ(registry().Acquire(h, 1).status().code(), QNN_MEM_ERROR_MAPPING);
  CHECK(registry().TryAcquire(h, 1) == nullptr);
  SlotHandle other;
  CHECK_EQ(Register(Shared(fd, 8192, 5120, s), &other), QNN_MEM_ERROR_MAPPING);
  CHECK_EQ(ftruncate(fd, 8192), 0);  // grown back: fine again
  CHECK_OK(registry().Acquire(h, 1).status());
  registry().Release(h);
  CHECK_EQ(Deregister(h), 0u);
  CHECK_EQ(ftruncate(fd, 512), 0);
  CHECK_EQ(Register(Ion(fd, s), &h), QNN_MEM_ERROR_INVALID_ARGUMENT);
  close(fd);
}

TEST(DmaBufUsesTheClientsMapping) {
  Shape s;
  SlotHandle h;
  int fd = NewMemfd(16384);
  void* mapped = mmap(nullptr, 16384, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  MemDescriptor d = Ion(fd, s);
  d.kind = MemKind::kDmaBuf;
  CHECK_EQ(Register(d, &h), QNN_MEM_ERROR_INVALID_ARGUMENT);  // no address
  d.data = static_cast<char*>(mapped) + 4096;
  CHECK_EQ(Register(d, &h), 0u);
  auto r = registry().Acquire(h, 1);
  if (CHECK_OK(r.status())) {
    CHECK_EQ(static_cast<void*>((*r)->address), d.data);
    CHECK_EQ((*r)->offset, 4096u);
    CHECK((*r)->buffer == nullptr);
    registry().Release(h);
  }
  SlotHandle twice;
  CHECK_EQ(Register(d, &twice), QNN_MEM_ERROR_ALREADY_REGISTERED);
  CHECK_EQ(ftruncate(fd, 4096), 0);
  CHECK_EQ(registry().Acquire(h, 1).status().code(), QNN_MEM_ERROR_MAPPING);
  CHECK_EQ(ftruncate(fd, 16384), 0);
  CHECK_EQ(Deregister(h), 0u);
  d.data = &s;  // not a mapping of the fd
  CHECK_EQ(Register(d, &h), QNN_MEM_ERROR_MAPPING);
  d.data = reinterpret_cast<void*>(uintptr_t{64});  // not mapped at all
  CHECK_EQ(Register(d, &h), QNN_MEM_ERROR_MAPPING);
  munmap(mapped, 16384);
  close(fd);
  Rpc rpc(8192);  // our own mapping, by interior address
  d = Ion(rpc.fd, s);
  d.kind = MemKind::kDmaBuf;
  d.data = static_cast<char*>(rpc.address) + 128;
  CHECK_EQ(Register(d, &h), 0u);
  r = registry().Acquire(h, 1);
  if (CHECK_OK(r.status())) {
    CHECK_EQ((*r)->offset, 128u);
    registry().Release(h);
  }
  CHECK_EQ(Deregister(h), 0u);
}

TEST(QnnDescriptors) {
  Rpc rpc(8192);
  Shape s;
  QnnMemHtp_Descriptor_t htp[2] = {};
  Qnn_MemDescriptor_t q[2] = {};
  for (int i = 0; i < 2; ++i) {
    htp[i].type = QNN_HTP_MEM_SHARED_BUFFER;
    htp[i].size = 8192;
    htp[i].sharedBufferConfig.fd = rpc.fd;
    htp[i].sharedBufferConfig.offset = static_cast<uint64_t>(i) * 4096;
    q[i].memShape = {s.rank, s.dims, nullptr};
    q[i].dataType = QNN_DATATYPE_FLOAT_32;
    q[i].memType = QNN_MEM_TYPE_CUSTOM;
    q[i].customInfo = &htp[i];
  }
  Qnn_MemHandle_t h[2] = {q, q};
  CHECK_OK(RegisterQnn(&registry(), 5, q, 2, CustomMem::kHtp, kAll, h));
  CHECK(h[0] && h[1] && h[0] != h[1]);
  CHECK_OK(DeregisterQnn(&registry(), h, 2));
  h[0] = h[1] = q;
  CHECK_EQ(RegisterQnn(&registry(), 5, q, 2, CustomMem::kNone, kAll, h).code(),
           QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE);
  CHECK(!h[0] && !h[1]);
  q[1].customInfo = nullptr;
  CHECK_EQ(RegisterQnn(&registry(), 5, q, 2, CustomMem::kHtp, kAll, h).code(),
           QNN_MEM_ERROR_INVALID_ARGUMENT);
  htp[0].type = static_cast<QnnHtpMem_Type_t>(42);
  CHECK_EQ(RegisterQnn(&registry(), 5, q, 1, CustomMem::kHtp, kAll, h).code(),
           QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE);
  htp[0].type = QNN_HTP_MEM_WEIGHTS_BUFFER;
  q[0].memShape = {0, nullptr, nullptr};
  q[0].dataType = QNN_DATATYPE_UNDEFINED;
  CHECK_OK(RegisterQnn(&registry(), 5, q, 1, CustomMem::kHtp, kAll, h));
  CHECK_OK(DeregisterQnn(&registry(), h, 1));
  QnnLpaiMem_MemInfoCustom_t lpai = {rpc.fd, 256};
  q[0].memShape = {s.rank, s.dims, nullptr};
  q[0].dataType = QNN_DATATYPE_FLOAT_32;
  q[0].customInfo = &lpai;
  CHECK_OK(RegisterQnn(&registry(), 5, q, 1, CustomMem::kLpai, kAll, h));
  auto r = registry().Acquire(HandleFromQnn(h[0]), 5);
  if (CHECK_OK(r.status())) {
    CHECK_EQ((*r)->offset, 256u);
    registry().Release(HandleFromQnn(h[0]));
  }
  CHECK_OK(DeregisterQnn(&registry(), h, 1));
  q[0].memType = static_cast<Qnn_MemType_t>(9);
  CHECK_EQ(RegisterQnn(&registry(), 5, q, 1, CustomMem::kHtp, kAll, h).code(),
           QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE);
  CHECK_EQ(DeregisterQnn(&registry(), nullptr, 1).code(), QNN_MEM_ERROR_INVALID_ARGUMENT);
}

// A closed fd number that another file has taken is not our buffer.
TEST(ReusedFdNumbers) {
  Shape s;
  SlotHandle h;
  qnnrt_buffer_t buffer;
  CHECK_EQ(qnnrt_buffer_alloc("memfd", 8192, 0, &buffer), 0u);
  int fd;
  CHECK_EQ(qnnrt_buffer_fd(buffer, &fd), 0u);
  int keep = dup(fd);
  int foreign = NewMemfd(4096);
  CHECK_EQ(dup2(foreign, fd), fd);
  CHECK_EQ(Register(Ion(fd, s), &h), 0u);
  qnnrt_buffer_info_t info;
  CHECK_EQ(qnnrt_buffer_info(buffer, &info), 0u);
  auto r = registry().Acquire(h, 1);
  if (CHECK_OK(r.status())) {
    CHECK(static_cast<void*>((*r)->address) != info.address);
    registry().Release(h);
  }
  CHECK_EQ(Deregister(h), 0u);
  CHECK_EQ(dup2(keep, fd), fd);
  close(keep);
  close(foreign);
  CHECK_EQ(qnnrt_buffer_close(buffer), 0u);
}

TEST(FreeWhileRegistered) {
  Shape s;
  SlotHandle h;
  void* p = qnnrt_rpcmem_alloc(25, 1, 4096);
  int fd = qnnrt_rpcmem_to_fd(p);
  CHECK_EQ(Register(Ion(fd, s), &h), 0u);
  static int warnings;
  warnings = 0;
  Memory::Get().SetWarningSink([](const char*) { ++warnings; });
  const int64_t buffers = Memory::Get().counters().buffers;
  qnnrt_rpcmem_free(p);
  CHECK_EQ(warnings, 1);
  CHECK_EQ(Memory::Get().counters().buffers.load(), buffers - 1);
  CHECK_EQ(Deregister(h), QNN_MEM_ERROR_INVALID_HANDLE);
  // In use: stays until the execution is over and the handle goes.
  p = qnnrt_rpcmem_alloc(25, 1, 4096);
  CHECK_EQ(Register(Ion(qnnrt_rpcmem_to_fd(p), s), &h), 0u);
  {
    MemUse use(&registry(), registry().TryAcquire(h, 1));
    qnnrt_rpcmem_free(p);
    CHECK_EQ(warnings, 2);
    CHECK_EQ(qnnrt_rpcmem_to_fd(p), -1);
    std::memset(use->address, 1, use->nbytes);  // still there
  }
  CHECK_EQ(Memory::Get().counters().buffers.load(), buffers);
  CHECK_EQ(Deregister(h), 0u);
  CHECK_EQ(Memory::Get().counters().buffers.load(), buffers - 1);
  Memory::Get().SetWarningSink(nullptr);
}

// Executions, deregistrations and re-registrations at once: never somebody else's memory.
TEST(Threads) {
  constexpr int kBuffers = 4;
  std::vector<Rpc*> rpcs;
  for (int i = 0; i < kBuffers; ++i) rpcs.push_back(new Rpc(4096));
  std::atomic<SlotHandle> current[kBuffers] = {};
  std::atomic<bool> stop{false};
  std::atomic<int> used{0}, stale{0}, wrong{0};
  auto execute = [&] {
    while (!stop.load(std::memory_order_relaxed)) {
      for (int i = 0; i < kBuffers; ++i) {
        SlotHandle h = current[i].load(std::memory_order_acquire);
        if (const MemRegistration* r = registry().TryAcquire(h, 1)) {
          if (r->address != rpcs[static_cast<size_t>(i)]->address) ++wrong;
          ++used;
          registry().Release(h);
        } else {
          ++stale;
        }
      }
    }
  };
  auto churn = [&](int from) {
    Shape s;
    for (int round = 0; round < 3000; ++round) {
      for (int i = from; i < kBuffers; i += 2) {
        SlotHandle h = 0;
        MemDescriptor d = Ion(rpcs[static_cast<size_t>(i)]->fd, s);
        CHECK_OK(registry().Register(1, &d, 1, kAll, &h));
        current[i].store(h, std::memory_order_release);
        if (round % 64 == 0) std::this_thread::yield();
        while (registry().Deregister(&h, 1).code() == QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED) {
          std::this_thread::yield();
        }
      }
    }
  };
  std::thread a(execute), b(execute), c(churn, 0), d(churn, 1);
  c.join();
  d.join();
  stop = true;
  a.join();
  b.join();
  CHECK_EQ(wrong.load(), 0);
  CHECK(used.load() + stale.load() > 0);
  for (Rpc* rpc : rpcs) delete rpc;
}

// Nothing above has left anything behind. Runs last: cases run in the order of the file.
TEST(NothingIsLeft) {
  Memory& memory = Memory::Get();
  memory.pool().Trim(0);
  CHECK_EQ(memory.counters().buffers.load(), 0);
  CHECK_EQ(memory.counters().handles.load(), 0);
  CHECK_EQ(memory.counters().fds.load(), 0);
  CHECK_EQ(memory.counters().maps.load(), 0);
}

}  // namespace

CHECK_MAIN("memory_registry_test")
