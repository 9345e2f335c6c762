// The rpcmem and buffer-registration calls of libcdsprpc.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef QNN_API
#define QNN_API __attribute__((visibility("default")))
#endif

// ---- Allocation ----

#define RPCMEM_HEAP_ID_SECURE 9
#define RPCMEM_HEAP_ID_CONTIG 22
#define RPCMEM_HEAP_ID_SYSTEM 25  // the one every known client uses

#define RPCMEM_FLAG_UNCACHED 0u
#define RPCMEM_FLAG_CACHED 1u
#define RPCMEM_DEFAULT_FLAGS RPCMEM_FLAG_CACHED
#define RPCMEM_TRY_MAP_STATIC 0x04000000u

// Deprecated; accepted for old clients.
#define RPCMEM_DEFAULT_HEAP (-1)
#define RPCMEM_HEAP_DEFAULT 0x80000000u
#define RPCMEM_HEAP_NOREG 0x40000000u
#define RPCMEM_HEAP_UNCACHED 0x20000000u
#define RPCMEM_HEAP_NOVA 0x10000000u
#define RPCMEM_HEAP_NONCOHERENT 0x08000000u
#define RPCMEM_FORCE_NOFLUSH 0x01000000u
#define RPCMEM_FORCE_NOINVALIDATE 0x02000000u

QNN_API void rpcmem_init(void);
QNN_API void rpcmem_deinit(void);
// size in bytes, at most 2 GiB - 1; rpcmem_alloc2 has no such limit. NULL on failure.
QNN_API void* rpcmem_alloc(int heapid, uint32_t flags, int size);
QNN_API void* rpcmem_alloc2(int heapid, uint32_t flags, size_t size);
QNN_API void rpcmem_free(void* po);
// The fd behind a base address that rpcmem_alloc returned; -1 when it is not one.
QNN_API int rpcmem_to_fd(void* po);

// ---- Registering foreign buffers ----

#define FASTRPC_ATTR_NONE 0
#define FASTRPC_ATTR_NON_COHERENT 2
#define FASTRPC_ATTR_COHERENT 4
#define FASTRPC_ATTR_KEEP_MAP 8
#define FASTRPC_ATTR_NOMAP 16
#define FASTRPC_ATTR_FORCE_NOFLUSH 32
#define FASTRPC_ATTR_FORCE_NOINVALIDATE 64
#define FASTRPC_ATTR_TRY_MAP_STATIC 128
#define FASTRPC_ATTR_IMPORT_BUFFER 256  // file-mapped weights
#define FASTRPC_ATTR_READ_ONLY 512

// fd -1 takes the registration of buf back.
QNN_API void remote_register_buf(void* buf, int size, int fd);
QNN_API void remote_register_buf_attr(void* buf, int size, int fd, int attr);
QNN_API void remote_register_buf_attr2(void* buf, size_t size, int fd, int attr);

// ---- Mapping an fd into a DSP domain ----

#define ADSP_DOMAIN_ID 0
#define MDSP_DOMAIN_ID 1
#define SDSP_DOMAIN_ID 2
#define CDSP_DOMAIN_ID 3
#define CDSP1_DOMAIN_ID 4

enum fastrpc_map_flags {
  FASTRPC_MAP_STATIC = 0,
  FASTRPC_MAP_FD = 2,
  FASTRPC_MAP_FD_DELAYED = 3,
  FASTRPC_MAP_FD_NOMAP = 16,
};

// 0 on success.
QNN_API int fastrpc_mmap(int domain, int fd, void* addr, int offset, size_t length,
                         enum fastrpc_map_flags flags);
QNN_API int fastrpc_munmap(int domain, int fd, void* addr, size_t length);

#ifdef __cplusplus
}  // extern "C"
#endif
