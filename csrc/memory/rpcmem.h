// rpcmem and FastRPC mapping calls as this library serves them. libcdsprpc.so in csrc/shims exports
// the real names (abi/rpcmem.h) and forwards here.
//
// - alloc takes an int size: 0 and less give NULL, as everything from 2 GiB on must through alloc2.
//   Heap ids and flags are accepted and make no difference, as on Linux.
// - to_fd knows base addresses only. It marks the buffer's fd as exported.
// - free ignores what it does not know, and counts it. A buffer that is still registered is
//   deregistered first, with a warning; with QNNRT_STRICT=1 it stays, with a warning.
// - remote_register_buf* note that a client buffer is shared; fd -1 takes that back. A CPU reaches
// every
//   address, so nothing else follows from it.
// - fastrpc_mmap: offset and length in whole pages, the same mapping twice is AEE_EALREADY.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef QNN_API
#define QNN_API __attribute__((visibility("default")))
#endif

// Results of fastrpc_mmap and fastrpc_munmap.
#define QNNRT_AEE_SUCCESS 0
#define QNNRT_AEE_ENOMEMORY 2
#define QNNRT_AEE_EBADPARM 14
#define QNNRT_AEE_EUNSUPPORTED 20
#define QNNRT_AEE_EALREADY 26

QNN_API void qnnrt_rpcmem_init(void);
QNN_API void qnnrt_rpcmem_deinit(void);
QNN_API void* qnnrt_rpcmem_alloc(int heapid, uint32_t flags, int size);
QNN_API void* qnnrt_rpcmem_alloc2(int heapid, uint32_t flags, size_t size);
QNN_API void qnnrt_rpcmem_free(void* po);
QNN_API int qnnrt_rpcmem_to_fd(void* po);

QNN_API void qnnrt_remote_register_buf(void* buf, int size, int fd);
QNN_API void qnnrt_remote_register_buf_attr(void* buf, int size, int fd, int attr);
QNN_API void qnnrt_remote_register_buf_attr2(void* buf, size_t size, int fd, int attr);
// How many client buffers are registered through the calls above.
QNN_API uint64_t qnnrt_remote_registered_bufs(void);

QNN_API int qnnrt_fastrpc_mmap(int domain, int fd, void* addr, int offset, size_t length,
                               int flags);
QNN_API int qnnrt_fastrpc_munmap(int domain, int fd, void* addr, size_t length);

#ifdef __cplusplus
}  // extern "C"
#endif
