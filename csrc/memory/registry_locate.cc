// Locates the memory that a descriptor names, and checks that the tensor fits into it.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "abi/qnn_enums.h"
#include "abi/qnn_errors.h"
#include "memory/mapped_twice.h"
#include "memory/registry.h"
#include "support/checked.h"

namespace qnnrt {
namespace {

using Ull = unsigned long long;

// Bytes of one element; 0 for types that no tensor memory can hold. Four-bit types count as a byte
// each: what a kernel may touch at most.
uint32_t ElementBytes(uint32_t data_type) {
  switch (data_type) {
    case QNN_DATATYPE_INT_8:
    case QNN_DATATYPE_UINT_8:
    case QNN_DATATYPE_SFIXED_POINT_4:
    case QNN_DATATYPE_SFIXED_POINT_8:
    case QNN_DATATYPE_UFIXED_POINT_4:
    case QNN_DATATYPE_UFIXED_POINT_8:
    case QNN_DATATYPE_BOOL_8:
      return 1;
    case QNN_DATATYPE_INT_16:
    case QNN_DATATYPE_UINT_16:
    case QNN_DATATYPE_FLOAT_16:
    case QNN_DATATYPE_BFLOAT_16:
    case QNN_DATATYPE_SFIXED_POINT_16:
    case QNN_DATATYPE_UFIXED_POINT_16:
      return 2;
    case QNN_DATATYPE_INT_32:
    case QNN_DATATYPE_UINT_32:
    case QNN_DATATYPE_FLOAT_32:
    case QNN_DATATYPE_SFIXED_POINT_32:
    case QNN_DATATYPE_UFIXED_POINT_32:
      return 4;
    case QNN_DATATYPE_INT_64:
    case QNN_DATATYPE_UINT_64:
    case QNN_DATATYPE_FLOAT_64:
      return 8;
    default:
      return 0;
  }
}

bool IsTensorKind(MemKind kind) {
  return kind != MemKind::kWeights && kind != MemKind::kSpillFill && kind != MemKind::kVtcmBackup;
}

// The size that a SHARED_BUFFER descriptor states is that of the whole buffer behind the fd.
Status CheckStatedSize(const MemDescriptor& d, const Buffer& b) {
  if (!d.states_size) return Status::Ok();
  uint64_t expected = b.stated_size;
  bool good;
  if (expected != 0) {
    good = d.size == expected;
  } else if (b.heap) {  // our own: the size asked for, rounded to pages or not, or the whole file
    expected = b.nbytes;
    const uint64_t whole_pages = (b.nbytes + PageSize() - 1) & ~(uint64_t{PageSize()} - 1);
    good = d.size == b.fd_size || (d.size >= b.nbytes && d.size <= whole_pages);
  } else {
    expected = b.fd_size;
    good = d.size <= b.fd_size;
  }
  if (good) return Status::Ok();
  return Error(
      QNN_MEM_ERROR_INVALID_ARGUMENT,
      "fd %d is mapped with size %llu, the descriptor states %llu: expected the size of the "
      "whole buffer behind the fd, not of the tensor",
      d.fd, Ull{expected}, Ull{d.size});
}

struct ClientRange {
  uint64_t start = 0, end = 0, offset = 0;
  FileId id;
  bool writable = false;
};

// The mapping that holds an address, as the kernel lists it.
bool FindClientMapping(uint64_t address, ClientRange* out) {
  FILE* maps = std::fopen("/proc/self/maps", "re");
  if (!maps) return false;
  char* line = nullptr;
  size_t capacity = 0;
  bool found = false;
  while (!found && getline(&line, &capacity, maps) > 0) {
    uint64_t start, end, offset, inode;
    unsigned device_major, device_minor;
    char mode[5];
    if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64, &start, &end,
                    mode, &offset, &device_major, &device_minor, &inode) != 7) {
      continue;
    }
    if (address < start || address >= end) continue;
    *out = {start, end, offset, {makedev(device_major, device_minor), inode}, mode[1] == 'w'};
    found = mode[0] == 'r';
    break;
  }
  free(line);
  std::fclose(maps);
  return found;
}

}  // namespace

const char* MemKindName(MemKind kind) {
  switch (kind) {
    case MemKind::kIon:
      return "ION";
    case MemKind::kSharedBuffer:
      return "SHARED_BUFFER";
    case MemKind::kDmaBuf:
      return "DMA_BUF";
    case MemKind::kQurt:
      return "QURT";
    case MemKind::kWeights:
      return "WEIGHTS_BUFFER";
    case MemKind::kSpillFill:
      return "SHARED_SPILLFILL_BUFFER";
    case MemKind::kVtcmBackup:
      return "SHARED_VTCMBACKUP_BUFFER";
    case MemKind::kLpaiCustom:
      return "LPAI custom memory";
    case MemKind::kOpenCl:
      return "OPENCL";
  }
  return "unknown";
}

// ---- Shape ----

Status Registry::CheckShape(const MemDescriptor& d, MemRegistration* r) {
  if (d.shape_config && *d.shape_config) {
    return Error(QNN_MEM_ERROR_INVALID_SHAPE,
                 "shapeConfig '%s': UBWC layouts are not supported; leave it null", d.shape_config);
  }
  if (!IsTensorKind(d.kind)) {  // a whole buffer for the backend to fill
    if (d.rank != 0) {
      return Error(QNN_MEM_ERROR_INVALID_SHAPE,
                   "%s: it holds no tensor, so its shape is empty; expected numDim 0, got %u",
                   MemKindName(d.kind), d.rank);
    }
    if (d.data_type != QNN_DATATYPE_UNDEFINED) {
      return Error(QNN_MEM_ERROR_INVALID_ARGUMENT,
                   "%s: it holds no tensor; expected the data type UNDEFINED, got 0x%x",
                   MemKindName(d.kind), d.data_type);
    }
    if (d.size <= d.offset) {
      return Error(QNN_MEM_ERROR_INVALID_ARGUMENT,
                   "%s: offset %llu is not inside a buffer of %llu bytes", MemKindName(d.kind),
                   Ull{d.offset}, Ull{d.size});
    }
    r->nbytes = d.size - d.offset;
    return Status::Ok();
  }
  if (d.rank == 0 || d.rank > kMaxMemRank) {
    return Error(QNN_MEM_ERROR_INVALID_SHAPE, "numDim %u: expected 1 to %u", d.rank, kMaxMemRank);
  }
  if (!d.dims)
    return Error(QNN_MEM_ERROR_INVALID_ARGUMENT, "numDim is %u, dimSize is null", d.rank);
  uint64_t nbytes = ElementBytes(d.data_type);
  if (nbytes == 0) {
    return Error(QNN_MEM_ERROR_INVALID_ARGUMENT, "data type 0x%x has no element size", d.data_type);
  }
  for (uint32_t i = 0; i < d.rank; ++i) {
    if (d.dims[i] == 0 || !CheckedMul(nbytes, d.dims[i], &nbytes)) {
      return Error(QNN_MEM_ERROR_INVALID_SHAPE, "dimension %u is %u: %s", i, d.dims[i],
                   d.dims[i] == 0 ? "a tensor without elements has no memory, and is given as RAW"
                                  : "the tensor's size overflows");
    }
    r->dims[i] = d.dims[i];
  }
  r->rank = d.rank;
  r->nbytes = nbytes;
  return Status::Ok();
}

// ---- Bounds ----

// Address and limits from a buffer that may hold the range; the pin moves to r on success only.
Status Registry::LocateIn(Buffer* b, const MemDescriptor& d, MemRegistration* r) {
  if (b->Has(kBufferInherited)) {
    return Error(QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
                 "fd %d: the buffer belongs to the parent process; import the fd in this one",
                 d.fd);
  }
  QNNRT_RETURN_IF_ERROR(CheckStatedSize(d, *b));
  const uint64_t from = d.offset - b->fd_offset;
  // The stated size may count the last page whole; the backend fills what was asked for.
  if (!IsTensorKind(d.kind) && from < b->nbytes) r->nbytes = std::min(r->nbytes, b->nbytes - from);
  if (from > b->nbytes || r->nbytes > b->nbytes - from) {
    return Error(
        QNN_MEM_ERROR_INVALID_ARGUMENT,
        "offset %llu and %llu bytes of tensor go beyond the %llu bytes of the buffer behind "
        "fd %d",
        Ull{d.offset}, Ull{r->nbytes}, Ull{b->nbytes}, d.fd);
  }
  QNNRT_RETURN_IF_ERROR(buffers_->CheckAlive(b));
  r->address = b->address + from;
  r->available = b->nbytes - from;
  r->buffer = b;
  r->can_shrink = b->Has(kBufferCanShrink);
  r->writable = !b->Has(kBufferReadOnly);
  r->file_size = b->fd_size;
  // The runtime's own access to memory that another device may have written, or will read. Memory
  // of rpcmem_alloc is coherent by FastRPC's promise, and other memory of ours is the client's to
  // bracket when it hands it to a device.
  const bool foreign = b->Has(kBufferImported) || d.kind == MemKind::kDmaBuf;
  if (foreign && !b->Has(kBufferCoherent) && !b->Has(kBufferRpcmem)) r->sync_fd = b->fd;
  return Status::Ok();
}

Status Registry::LocateInFd(const MemDescriptor& d, const MemRegistration* before,
                            MemRegistration* r) {
  // Our own fd number, or a mapping that exists already of the same file.
  const bool known = before && before->buffer && before->buffer->fd == d.fd;
  Buffer* b = known ? buffers_->Pin(before->buffer->handle) : buffers_->PinByFd(d.fd);
  if (b && (b->id != r->id || d.offset < b->fd_offset ||
            (!b->heap && d.offset - b->fd_offset + r->nbytes > b->nbytes))) {
    buffers_->Unpin(b);  // the number means another file by now, or this import is a part of it
    b = nullptr;
  }
  if (!b) b = buffers_->PinByFile(r->id, d.offset, r->nbytes);
  if (!b) {
    QNNRT_ASSIGN_OR_RETURN(uint64_t size, SizeOfFd(d.fd));
    if (d.offset > size || r->nbytes > size - d.offset || (d.states_size && d.size > size)) {
      return Error(
          QNN_MEM_ERROR_INVALID_ARGUMENT,
          "fd %d holds %llu bytes; the descriptor needs %llu at offset %llu of a buffer of "
          "%llu",
          d.fd, Ull{size}, Ull{r->nbytes}, Ull{d.offset}, Ull{d.states_size ? d.size : size});
    }
    Result<SlotHandle> made = buffers_->Import(d.fd, 0, 0);
    if (!made.ok()) return std::move(made).status().WithCode(QNN_MEM_ERROR_MAPPING);
    b = buffers_->Pin(*made);
    // The mapping has no owner: it is freed with the last registration.
    Status released = buffers_->Release(*made);
    if (!b || !released.ok()) return Error(QNN_MEM_ERROR_MAPPING, "fd %d: mapping was lost", d.fd);
  }
  Status status = LocateIn(b, d, r);
  if (!status.ok()) buffers_->Unpin(b);
  return status;
}

Status Registry::LocateClientMapping(const MemDescriptor& d, MemRegistration* r) {
  if (!d.data) {
    return Error(QNN_MEM_ERROR_INVALID_ARGUMENT,
                 "DMA_BUF: expected the address where fd %d is mapped, got null", d.fd);
  }
  const uint64_t address = reinterpret_cast<uintptr_t>(d.data);
  if (Buffer* b = buffers_->PinByAddress(d.data)) {
    if (b->id == r->id) {
      MemDescriptor inside = d;
      inside.offset = r->offset =
          b->fd_offset + (address - reinterpret_cast<uintptr_t>(b->address));
      Status status = LocateIn(b, inside, r);
      if (!status.ok()) buffers_->Unpin(b);
      return status;
    }
    buffers_->Unpin(b);
  }
  QNNRT_ASSIGN_OR_RETURN(FdInfo info, InspectFd(d.fd));
  ClientRange range;
  if (!FindClientMapping(address, &range) || range.end - address < r->nbytes) {
    return Error(QNN_MEM_ERROR_MAPPING,
                 "DMA_BUF: address %p does not have %llu readable mapped bytes", d.data,
                 Ull{r->nbytes});
  }
  // Drivers may map a dma-buf through a file of their own, so only for others must the files agree.
  if (info.kind != FdKind::kDmaBuf && range.id.inode != info.id.inode) {
    return Error(QNN_MEM_ERROR_MAPPING, "DMA_BUF: address %p is not a mapping of fd %d", d.data,
                 d.fd);
  }
  r->offset = range.offset + (address - range.start);
  if (r->offset > info.size || r->nbytes > info.size - r->offset) {
    return Error(QNN_MEM_ERROR_INVALID_ARGUMENT,
                 "fd %d holds %llu bytes; the tensor needs %llu at offset %llu", d.fd,
                 Ull{info.size}, Ull{r->nbytes}, Ull{r->offset});
  }
  r->address = static_cast<uint8_t*>(d.data);
  r->available = std::min(range.end - address, info.size - r->offset);
  r->writable = range.writable;
  r->can_shrink = info.can_shrink;
  r->file_size = info.size;
  // Whatever the client closes: the file stays this one, so that its identity does.
  UniqueFd watch(fcntl(d.fd, F_DUPFD_CLOEXEC, 0), counters_);
  if (!watch.valid()) {
    return Error(QNN_MEM_ERROR_MAPPING, "fd %d: dup: %s", d.fd, strerror(errno));
  }
  r->watch_fd = watch.Release();
  if (info.kind == FdKind::kDmaBuf) r->sync_fd = r->watch_fd;
  // Its other mappings, this runtime's and the client's, are not known here.
  FilesMappedTwice().fetch_add(1, std::memory_order_relaxed);
  return Status::Ok();
}

}  // namespace qnnrt
