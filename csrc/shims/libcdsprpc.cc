// libcdsprpc.so: the names clients resolve, forwarded to libqnnrt.so. qnnrt_is_shim tells qnnrt's
// own search for a vendor library that this is not one.
#include "abi/rpcmem.h"
#include "memory/rpcmem.h"

extern "C" {

QNN_API extern const int qnnrt_is_shim;
const int qnnrt_is_shim = 1;

void rpcmem_init(void) { qnnrt_rpcmem_init(); }
void rpcmem_deinit(void) { qnnrt_rpcmem_deinit(); }
void* rpcmem_alloc(int heapid, uint32_t flags, int size) {
  return qnnrt_rpcmem_alloc(heapid, flags, size);
}
void* rpcmem_alloc2(int heapid, uint32_t flags, size_t size) {
  return qnnrt_rpcmem_alloc2(heapid, flags, size);
}
void rpcmem_free(void* po) { qnnrt_rpcmem_free(po); }
int rpcmem_to_fd(void* po) { return qnnrt_rpcmem_to_fd(po); }

void remote_register_buf(void* buf, int size, int fd) { qnnrt_remote_register_buf(buf, size, fd); }
void remote_register_buf_attr(void* buf, int size, int fd, int attr) {
  qnnrt_remote_register_buf_attr(buf, size, fd, attr);
}
void remote_register_buf_attr2(void* buf, size_t size, int fd, int attr) {
  qnnrt_remote_register_buf_attr2(buf, size, fd, attr);
}

int fastrpc_mmap(int domain, int fd, void* addr, int offset, size_t length,
                 enum fastrpc_map_flags flags) {
  return qnnrt_fastrpc_mmap(domain, fd, addr, offset, length, flags);
}
int fastrpc_munmap(int domain, int fd, void* addr, size_t length) {
  return qnnrt_fastrpc_munmap(domain, fd, addr, length);
}

}  // extern "C"
