// What the tests of shared memory are written with: buffers, descriptors of them, and counts.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "abi/qnn_enums.h"
#include "abi/qnn_errors.h"
#include "check.h"
#include "memory/descriptor.h"
#include "memory/memory.h"
#include "memory/memory_api.h"
#include "memory/rpcmem.h"

namespace memory_test {

using namespace qnnrt;  // NOLINT(build/namespaces)

inline qnnrt_buffer_t Alloc(uint64_t nbytes = 4096, uint64_t alignment = 0) {
  qnnrt_buffer_t b = 0;
  CHECK_EQ(qnnrt_buffer_alloc(nullptr, nbytes, alignment, &b), 0u);
  return b;
}
inline qnnrt_buffer_info_t Info(qnnrt_buffer_t b) {
  qnnrt_buffer_info_t info = {};
  CHECK_EQ(qnnrt_buffer_info(b, &info), 0u);
  return info;
}
inline qnnrt_memory_counts_t Counts() {
  qnnrt_pool_trim(0);
  qnnrt_memory_counts_t counts;
  qnnrt_memory_counts(&counts);
  return counts;
}
inline bool Says(const char* words) {
  bool said = std::string(qnnrt_last_error()).find(words) != std::string::npos;
  if (!said) std::fprintf(stderr, "  the message was: %s\n", qnnrt_last_error());
  return said;
}

constexpr uint32_t kAll = ~0u;
inline Registry& registry() { return Memory::Get().registry(); }

struct Shape {
  uint32_t dims[4] = {1, 4, 4, 16};  // 1024 bytes as float32
  uint32_t rank = 4;
};

inline MemDescriptor Ion(int fd, const Shape& s) {
  MemDescriptor d;
  d.kind = MemKind::kIon;
  d.fd = fd;
  d.rank = s.rank;
  d.dims = s.dims;
  d.data_type = QNN_DATATYPE_FLOAT_32;
  return d;
}
inline MemDescriptor Shared(int fd, uint64_t size, uint64_t offset, const Shape& s) {
  MemDescriptor d = Ion(fd, s);
  d.kind = MemKind::kSharedBuffer;
  d.size = size;
  d.offset = offset;
  d.states_size = true;
  return d;
}
inline uint32_t Register(const MemDescriptor& d, SlotHandle* h, uint64_t context = 1,
                         uint32_t kinds = kAll) {
  *h = 77;  // must be nulled
  Status status = registry().Register(context, &d, 1, kinds, h);
  CHECK(status.ok() == (*h != 0));
  if (!status.ok()) CHECK(!status.message().empty());
  return status.code();
}
inline uint32_t Deregister(SlotHandle h) { return registry().Deregister(&h, 1).code(); }

struct Rpc {  // an rpcmem buffer
  explicit Rpc(int size)
      : address(qnnrt_rpcmem_alloc(25, 1, size)), fd(qnnrt_rpcmem_to_fd(address)) {}
  ~Rpc() { qnnrt_rpcmem_free(address); }
  void* address;
  int fd;
};

inline int NewMemfd(uint64_t size, int seals = 0) {
  int fd = memfd_create("foreign", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  CHECK(fd >= 0 && ftruncate(fd, static_cast<off_t>(size)) == 0);
  if (seals) CHECK_EQ(fcntl(fd, F_ADD_SEALS, seals), 0);
  return fd;
}

// Nothing that the cases before left behind: those of a program run in the order of its file.
inline void CheckNothingIsLeft() {
  const qnnrt_memory_counts_t counts = Counts();
  CHECK_EQ(counts.buffers, 0);
  CHECK_EQ(counts.maps, 0);
  CHECK_EQ(counts.fds, 0);
  CHECK_EQ(counts.handles, 0);
}

}  // namespace memory_test
