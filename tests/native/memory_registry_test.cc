// The rules of registering and deregistering memory, each with its code.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "memory/process_domain.h"
#include "memory_client.h"
#include "support/allocations.h"

using namespace memory_test;  // NOLINT(build/namespaces)

namespace {

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
  d = Ion(rpc.fd, zero);
  Status status = registry().Register(1, &d, 1, kAll, &h);
  CHECK_EQ(status.code(), QNN_MEM_ERROR_INVALID_SHAPE);
  CHECK_EQ(status.message(),
           "dimension 2 is 0: a tensor without elements has no memory, and is given as RAW");
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

TEST(EveryDataTypeHasTheBytesOfItsElements) {
  Rpc rpc(4096);
  const Shape s{{10}, 1};
  const struct {
    std::vector<uint32_t> types;
    uint64_t bytes;
  } sizes[] = {
      {{QNN_DATATYPE_INT_8, QNN_DATATYPE_UINT_8, QNN_DATATYPE_SFIXED_POINT_4,
        QNN_DATATYPE_SFIXED_POINT_8, QNN_DATATYPE_UFIXED_POINT_4, QNN_DATATYPE_UFIXED_POINT_8,
        QNN_DATATYPE_BOOL_8},
       1},
      {{QNN_DATATYPE_INT_16, QNN_DATATYPE_UINT_16, QNN_DATATYPE_FLOAT_16, QNN_DATATYPE_BFLOAT_16,
        QNN_DATATYPE_SFIXED_POINT_16, QNN_DATATYPE_UFIXED_POINT_16},
       2},
      {{QNN_DATATYPE_INT_32, QNN_DATATYPE_UINT_32, QNN_DATATYPE_FLOAT_32,
        QNN_DATATYPE_SFIXED_POINT_32, QNN_DATATYPE_UFIXED_POINT_32},
       4},
      {{QNN_DATATYPE_INT_64, QNN_DATATYPE_UINT_64, QNN_DATATYPE_FLOAT_64}, 8}};
  for (const auto& size : sizes) {
    for (uint32_t type : size.types) {
      MemDescriptor d = Ion(rpc.fd, s);
      d.data_type = type;
      SlotHandle h;
      CHECK_EQ(Register(d, &h), 0u);
      auto r = registry().Acquire(h, 1);
      if (!CHECK_OK(r.status())) continue;
      CHECK_EQ((*r)->nbytes, 10 * size.bytes);
      registry().Release(h);
      CHECK_EQ(Deregister(h), 0u);
    }
  }
}

TEST(AnOffsetBeyondAForeignFileIsRefusedBeforeItIsMapped) {
  constexpr uint64_t kFile = 5000;
  const int fd = NewMemfd(kFile);
  const Shape one{{1}, 1};
  const std::string held = "fd " + std::to_string(fd) + " holds 5000 bytes";
  for (MemKind kind : {MemKind::kLpaiCustom, MemKind::kSharedBuffer}) {
    for (uint64_t offset : {kFile, kFile + 1, 2 * kFile, uint64_t{1} << 40, UINT64_MAX - 4}) {
      MemDescriptor d = Shared(fd, UINT64_MAX, offset, one);
      d.kind = kind;
      d.states_size = kind == MemKind::kSharedBuffer;
      SlotHandle handle = 0;
      const Status status = registry().Register(1, &d, 1, kAll, &handle);
      CHECK_EQ(status.code(), QNN_MEM_ERROR_INVALID_ARGUMENT);
      if (!CHECK(status.message().find(held) != std::string::npos))
        std::fprintf(stderr, "  the message was: %s\n", status.message().c_str());
    }
  }
  close(fd);
}

// What was done for a registration is undone when it fails after all: the file that it mapped into
// a process domain, too.
TEST(ARegistrationThatFailsTakesNothingOfTheProcessDomain) {
  ProcessDomain domain(uint64_t{1} << 30);
  const int fd = NewMemfd(8192);
  const Shape s{{25}, 1};
  const MemDescriptor d = Ion(fd, s);
  SlotHandle handle = 0;
  REQUIRE(registry().Register(1, &d, 1, kAll, &handle, &domain).ok());  // tables grow
  CHECK_EQ(domain.used(), 8192u);
  CHECK_EQ(Deregister(handle), 0u);
  CHECK_EQ(domain.used(), 0u);
  const qnnrt_memory_counts_t before = Counts();
  int failed = 0;
  std::vector<SlotHandle> filling;
  std::vector<int> fds;
  // With one registration after the other, so that a table is full at some of them.
  for (int n = 0; n < 300; ++n) {
    const uint64_t used = domain.used();
    SlotHandle made = 0;
    fds.push_back(NewMemfd(4096));
    const MemDescriptor next = Ion(fds.back(), s);
    for (int nth = 1; made == 0 && nth < 100; ++nth) {
      FailAllocation(nth);
      const Status status = registry().Register(1, &next, 1, kAll, &made, &domain);
      FailAllocation(0);
      if (status.ok()) break;
      ++failed;
      // Of the file's import, or of the registration.
      CHECK(status.code() == QNN_MEM_ERROR_MAPPING || status.code() == QNN_COMMON_ERROR_MEM_ALLOC);
      CHECK_EQ(domain.used(), used);
    }
    CHECK_EQ(domain.used(), used + 4096u);
    if (!CHECK(made != 0)) break;
    filling.push_back(made);
  }
  CHECK(failed > 300);
  CHECK(registry().Deregister(filling.data(), static_cast<uint32_t>(filling.size())).ok());
  for (int each : fds) close(each);
  close(fd);
  CHECK_EQ(domain.used(), 0u);
  const qnnrt_memory_counts_t after = Counts();
  CHECK(after.maps == before.maps && after.fds == before.fds && after.handles == before.handles);
}

// Many places of one buffer, as the tensors of a cache: each once, however many there are and in
// whatever order they come and go.
TEST(EachOfManyPlacesOfABufferIsRegisteredOnce) {
  constexpr uint32_t kCount = 1000, kBytes = 64;
  Rpc rpc(kCount * kBytes);
  const Shape s{{kBytes / 4}, 1};
  std::vector<MemDescriptor> all;
  for (uint32_t i = 0; i < kCount; ++i) {
    all.push_back(Shared(rpc.fd, kCount * kBytes, i * kBytes, s));
  }
  std::vector<SlotHandle> handles(kCount);
  CHECK(registry().Register(1, all.data(), kCount, kAll, handles.data()).ok());
  SlotHandle other;
  for (uint32_t i = 0; i < kCount; ++i) {
    CHECK_EQ(Register(all[i], &other), QNN_MEM_ERROR_ALREADY_REGISTERED);
  }
  std::vector<SlotHandle> gone;
  for (uint32_t i = 0; i < kCount; i += 3) gone.push_back(handles[i]);
  CHECK(registry().Deregister(gone.data(), static_cast<uint32_t>(gone.size())).ok());
  for (uint32_t i = 0; i < kCount; ++i) {
    const auto code = Register(all[i], &other);
    CHECK_EQ(code == 0, i % 3 == 0);
    if (code == 0) handles[i] = other;
  }
  // All or nothing: the last of the call is there already, so none of the others stays.
  CHECK_EQ(Deregister(handles[0]), 0u);
  const MemDescriptor two[] = {all[0], all[1]};
  SlotHandle made[2];
  CHECK_EQ(registry().Register(1, two, 2, kAll, made).code(), QNN_MEM_ERROR_ALREADY_REGISTERED);
  CHECK_EQ(Register(all[0], &handles[0]), 0u);
  CHECK(registry().Deregister(handles.data(), kCount).ok());
}

// What a call registers in one buffer is a group. Each of its handles is one like all others.
TEST(ThoseOfAGroupComeAndGoByThemselves) {
  constexpr uint32_t kCount = 8, kBytes = 64;
  Rpc rpc(2 * kCount * kBytes);
  const Shape s{{kBytes / 4}, 1};
  const auto at = [&](uint32_t place) {
    return Shared(rpc.fd, 2 * kCount * kBytes, place * kBytes, s);
  };
  const int64_t before = Memory::Get().counters().handles;
  std::vector<MemDescriptor> even, odd;
  for (uint32_t i = 0; i < kCount; ++i) {
    even.push_back(at(2 * i));
    odd.push_back(at(2 * i + 1));
  }
  SlotHandle handles[kCount], others[kCount], elsewhere[kCount], one;
  CHECK_OK(registry().Register(1, even.data(), kCount, kAll, handles));
  CHECK_OK(registry().Register(1, odd.data(), kCount, kAll, others));  // in the same buffer
  CHECK_OK(registry().Register(2, even.data(), kCount, kAll, elsewhere));
  for (uint32_t i = 0; i < 2 * kCount; ++i) {
    CHECK_EQ(Register(at(i), &one), QNN_MEM_ERROR_ALREADY_REGISTERED);
    auto r = registry().Acquire((i % 2 == 0 ? handles : others)[i / 2], 1);
    REQUIRE(r.ok());
    CHECK((*r)->address == static_cast<uint8_t*>(rpc.address) + i * kBytes);
    CHECK_EQ((*r)->nbytes, uint64_t{kBytes});
    CHECK_EQ((*r)->available, uint64_t{(2 * kCount - i) * kBytes});
    registry().Release((*r)->handle);
  }
  CHECK(!registry().Acquire(elsewhere[3], 1).ok());
  // One in use stays, the others of the call go.
  CHECK(registry().TryAcquire(handles[3], 1) != nullptr);
  CHECK_EQ(registry().Deregister(handles, kCount).code(), QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED);
  for (uint32_t i = 0; i < kCount; ++i) {
    const uint32_t code = Register(even[i], &one);
    CHECK_EQ(code, i == 3 ? uint32_t{QNN_MEM_ERROR_ALREADY_REGISTERED} : 0u);
    if (code == 0) {
      CHECK_EQ(Deregister(one), 0u);
    }
  }
  // A group where one is still there is refused whole, with the number of the one.
  SlotHandle again[kCount];
  Status refused = registry().Register(1, even.data(), kCount, kAll, again);
  CHECK_EQ(refused.code(), QNN_MEM_ERROR_ALREADY_REGISTERED);
  CHECK(refused.message().find("descriptor 3") != std::string::npos);
  CHECK(std::all_of(again, again + kCount, [](SlotHandle h) { return h == 0; }));
  registry().Release(handles[3]);
  CHECK_EQ(Deregister(handles[3]), 0u);
  CHECK_EQ(Deregister(handles[3]), QNN_MEM_ERROR_INVALID_HANDLE);
  CHECK_OK(registry().Register(1, even.data(), kCount, kAll, again));
  CHECK_EQ(registry().FreeContext(1), 2 * kCount);
  CHECK_OK(registry().Deregister(elsewhere, kCount));
  CHECK_EQ(Memory::Get().counters().handles.load(), before);
  // Nothing of a group whose last one is bad, or that is out of order, is different.
  std::swap(odd[0], odd[1]);
  CHECK_OK(registry().Register(1, odd.data(), kCount, kAll, others));
  CHECK_OK(registry().Deregister(others, kCount));
  odd.back() = at(2 * kCount);
  std::swap(odd[0], odd[1]);
  refused = registry().Register(1, odd.data(), kCount, kAll, others);
  CHECK_EQ(refused.code(), QNN_MEM_ERROR_INVALID_ARGUMENT);
  CHECK(refused.message().find("descriptor 7") != std::string::npos);
  CHECK_EQ(Memory::Get().counters().handles.load(), before);
}

TEST(AGroupWithoutRoomInTheProcessDomainTakesNothingOfIt) {
  ProcessDomain domain(4096);
  Rpc rpc(8192);
  const Shape s{{16}, 1};
  const MemDescriptor all[] = {Shared(rpc.fd, 8192, 0, s), Shared(rpc.fd, 8192, 64, s),
                               Shared(rpc.fd, 8192, 128, s)};
  SlotHandle handles[3];
  const qnnrt_memory_counts_t before = Counts();
  CHECK_EQ(registry().Register(1, all, 3, kAll, handles, &domain).code(), QNN_MEM_ERROR_MAPPING);
  CHECK_EQ(domain.used(), 0u);
  CHECK_EQ(Counts().handles, before.handles);
  domain.SetBudget(8192);
  CHECK_OK(registry().Register(1, all, 3, kAll, handles, &domain));
  CHECK_EQ(domain.used(), 8192u);
  CHECK_OK(registry().Deregister(handles, 2));
  CHECK_EQ(domain.used(), 8192u);
  CHECK_EQ(Deregister(handles[2]), 0u);
  CHECK_EQ(domain.used(), 0u);
}

TEST(FdZeroIsAnFd) {
  const int before = dup(0), memfd = NewMemfd(4096);
  CHECK_EQ(dup2(memfd, 0), 0);
  Shape s;
  SlotHandle h;
  CHECK_EQ(Register(Ion(0, s), &h), 0u);
  CHECK_EQ(Deregister(h), 0u);
  close(memfd);
  if (before < 0) {
    close(0);
  } else {
    CHECK_EQ(dup2(before, 0), 0);
    close(before);
  }
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
  const Buffer* buffer = nullptr;
  {
    MemUse use(&registry(), registry().TryAcquire(h, 1));
    REQUIRE(static_cast<bool>(use));
    buffer = use->buffer;
    CHECK_EQ(Deregister(h), QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED);
    uint32_t in_use = 0;
    CHECK_EQ(registry().FreeContext(1, &in_use), 0u);
    CHECK_EQ(in_use, 1u);
    CHECK_EQ(registry().InFlight(use->buffer), 1u);
    MemUse second(&registry(), registry().TryAcquire(h, 1));
    CHECK_EQ(registry().InFlight(use->buffer), 2u);
    second = MemUse();  // lets go of what it had
    CHECK_EQ(registry().InFlight(use->buffer), 1u);
  }
  CHECK_EQ(registry().InFlight(buffer), 0u);
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

// The same of groups, whose members go one by one and in another order.
TEST(ThreadsWithGroups) {
  constexpr uint32_t kCount = 16, kBytes = 64;
  Rpc rpc(kCount * kBytes);
  const Shape s{{kBytes / 4}, 1};
  std::atomic<SlotHandle> current[kCount] = {};
  std::atomic<int> running{2}, wrong{0};
  auto execute = [&] {
    while (running.load(std::memory_order_relaxed) > 0) {
      for (uint32_t i = 0; i < kCount; ++i) {
        const SlotHandle h = current[i].load(std::memory_order_acquire);
        if (const MemRegistration* r = registry().TryAcquire(h, 1)) {
          if (r->address != static_cast<uint8_t*>(rpc.address) + i * kBytes) ++wrong;
          registry().Release(h);
        }
      }
    }
  };
  auto churn = [&](uint32_t from) {  // one registers even places, the other odd ones
    std::vector<MemDescriptor> mine;
    for (uint32_t i = from; i < kCount; i += 2) {
      mine.push_back(Shared(rpc.fd, kCount * kBytes, i * kBytes, s));
    }
    const auto count = static_cast<uint32_t>(mine.size());
    std::vector<SlotHandle> made(count);
    for (int round = 0; round < 2000; ++round) {
      CHECK_OK(registry().Register(1, mine.data(), count, kAll, made.data()));
      for (uint32_t i = 0; i < count; ++i) current[2 * i + from].store(made[i]);
      if (round % 64 == 0) std::this_thread::yield();
      for (uint32_t i = 0; i < count; ++i) {
        while (Deregister(made[i * 3 % count]) == QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED) {
          std::this_thread::yield();
        }
      }
    }
    --running;
  };
  std::thread a(execute), b(execute), c(churn, 0), d(churn, 1);
  for (std::thread* t : {&a, &b, &c, &d}) t->join();
  CHECK_EQ(wrong.load(), 0);
}

TEST(NothingIsLeft) { memory_test::CheckNothingIsLeft(); }

}  // namespace

CHECK_MAIN("memory_registry_test")
