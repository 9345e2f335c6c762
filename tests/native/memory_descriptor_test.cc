// What descriptors of memory say and their files hold: foreign and reused fds, files that shrink,
// mappings of the client's, QNN's descriptors.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "abi/qnn_htp.h"
#include "abi/qnn_lpai.h"
#include "memory_client.h"

using namespace memory_test;  // NOLINT(build/namespaces)

namespace {

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
    CHECK((*r)->buffer != nullptr);  // as long as it is registered the buffer stays
    registry().Release(h);
  }
  CHECK_EQ(Deregister(h), 0u);
  // What is refused holds no buffer: see NothingIsLeft.
  d.data = static_cast<char*>(rpc.address) + 8192 - 1020;  // four bytes too few
  CHECK_EQ(Register(d, &h), QNN_MEM_ERROR_INVALID_ARGUMENT);
  d.data = rpc.address;
  d.fd = NewMemfd(8192);  // of another file
  CHECK_EQ(Register(d, &h), QNN_MEM_ERROR_MAPPING);
  close(d.fd);
}

// The registry watches the file through a descriptor of its own, which is 0 where 0 is free.
TEST(TheDescriptorThatWatchesAFileIsClosedWhicheverItIs) {
  const int before = dup(0), fd = NewMemfd(4096);
  void* mapped = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  Shape s;
  MemDescriptor d = Ion(fd, s);
  d.kind = MemKind::kDmaBuf;
  d.data = mapped;
  SlotHandle h, twice;
  close(0);
  CHECK_EQ(Register(d, &h), 0u);
  CHECK(fcntl(0, F_GETFD) != -1);
  CHECK_EQ(Deregister(h), 0u);
  CHECK_EQ(fcntl(0, F_GETFD), -1);
  CHECK_EQ(dup2(fd, 0), 0);
  CHECK_EQ(Register(d, &h), 0u);
  close(0);
  CHECK_EQ(Register(d, &twice), QNN_MEM_ERROR_ALREADY_REGISTERED);
  CHECK_EQ(fcntl(0, F_GETFD), -1);
  CHECK_EQ(Deregister(h), 0u);
  if (before >= 0) {
    CHECK_EQ(dup2(before, 0), 0);
    close(before);
  }
  munmap(mapped, 4096);
  close(fd);
}

TEST(APartOfAFileThatWasImportedIsNotItsEnd) {
  const int fd = NewMemfd(8192);
  qnnrt_buffer_t part = 0;
  CHECK_EQ(qnnrt_buffer_import(fd, 4096, 0, &part), 0u);
  int part_fd = -1;
  CHECK_EQ(qnnrt_buffer_fd(part, &part_fd), 0u);
  const Shape all{{2048}, 1}, half{{1024}, 1};
  SlotHandle h;
  CHECK_EQ(Register(Ion(part_fd, half), &h), 0u);
  auto r = registry().Acquire(h, 1);
  if (CHECK_OK(r.status())) {
    CHECK((*r)->address == Info(part).address);
    registry().Release(h);
  }
  CHECK_EQ(Deregister(h), 0u);
  CHECK_EQ(Register(Ion(part_fd, all), &h), 0u);  // a mapping of its own
  CHECK_EQ(Deregister(h), 0u);
  CHECK_EQ(qnnrt_buffer_close(part), 0u);
  close(fd);
}

TEST(TheFirstOfSeveralErrorsIsTold) {
  // More handles than one piece: the errors of the others do not take its place.
  std::vector<Qnn_MemHandle_t> handles(200, HandleToQnn(0xdead));
  handles[0] = HandleToQnn(0xbeef);
  const Status status =
      DeregisterQnn(&registry(), handles.data(), static_cast<uint32_t>(handles.size()));
  CHECK_EQ(status.code(), QNN_MEM_ERROR_INVALID_HANDLE);
  CHECK(status.message().find("0xbeef") != std::string::npos);
}

TEST(MissingArguments) {
  Qnn_MemDescriptor_t q = {};
  Qnn_MemHandle_t h = &q;
  for (uint32_t count : {1, 2}) {
    CHECK_EQ(RegisterQnn(&registry(), 5, nullptr, count, CustomMem::kHtp, kAll, nullptr).code(),
             QNN_MEM_ERROR_INVALID_ARGUMENT);
    CHECK_EQ(RegisterQnn(&registry(), 5, &q, count, CustomMem::kHtp, kAll, nullptr).code(),
             QNN_MEM_ERROR_INVALID_ARGUMENT);
  }
  CHECK_EQ(RegisterQnn(&registry(), 5, &q, 0, CustomMem::kHtp, kAll, &h).code(),
           QNN_MEM_ERROR_INVALID_ARGUMENT);
  CHECK_EQ(RegisterQnn(&registry(), 5, nullptr, 1, CustomMem::kHtp, kAll, &h).code(),
           QNN_MEM_ERROR_INVALID_ARGUMENT);
  CHECK(h == nullptr);
}

TEST(DmaBufDescriptors) {
  Rpc rpc(8192);
  Shape s;
  Qnn_MemDescriptor_t q = {};
  q.memShape = {s.rank, s.dims, nullptr};
  q.dataType = QNN_DATATYPE_FLOAT_32;
  q.memType = QNN_MEM_TYPE_DMA_BUF;
  q.dmaBufInfo = {rpc.fd, rpc.address};
  Qnn_MemHandle_t h = nullptr;
  REQUIRE(CHECK_OK(RegisterQnn(&registry(), 5, &q, 1, CustomMem::kNone, kAll, &h)));
  auto r = registry().Acquire(HandleFromQnn(h), 5);
  if (CHECK_OK(r.status())) {
    CHECK((*r)->kind == MemKind::kDmaBuf);
    CHECK_EQ((*r)->fd, rpc.fd);
    CHECK_EQ((*r)->nbytes, 1024u);
    registry().Release(HandleFromQnn(h));
  }
  CHECK_OK(DeregisterQnn(&registry(), &h, 1));
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
  q[1].memShape.shapeConfig = "NV12";
  CHECK_EQ(RegisterQnn(&registry(), 5, q, 2, CustomMem::kHtp, kAll, h).code(),
           QNN_MEM_ERROR_INVALID_SHAPE);
  q[1].memShape.shapeConfig = "";  // as good as none
  CHECK_OK(RegisterQnn(&registry(), 5, q, 2, CustomMem::kHtp, kAll, h));
  CHECK_OK(DeregisterQnn(&registry(), h, 2));
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
  Rpc odd(5000);  // its last page may be stated whole: what lies behind 5000 is no room for weights
  htp[0].weightsBufferConfig.fd = odd.fd;
  for (uint32_t offset : {4999, 5000, 8191, 8192}) {
    htp[0].weightsBufferConfig.offset = offset;
    const Status status = RegisterQnn(&registry(), 5, q, 1, CustomMem::kHtp, kAll, h);
    CHECK_EQ(status.code() == QNN_MEM_ERROR_INVALID_ARGUMENT, offset >= 5000);
    if (status.ok()) CHECK_OK(DeregisterQnn(&registry(), h, 1));
  }
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
TEST(NothingIsLeft) { memory_test::CheckNothingIsLeft(); }

}  // namespace

CHECK_MAIN("memory_descriptor_test")
