// Buffers as C functions, for bindings. Every call returns 0 or a QNN error code; the sentence that
// belongs to the last error of the calling thread is qnnrt_last_error(). Handles are slot and
// generation: a stale one is refused (8001), never followed. All calls are thread safe.
//
// After fork, in the child: buffers made before it stay readable and writable through their address
// (the memory is shared with the parent), and every call that would change them (close, release,
// hold counts, fd, register) gives 1005; new buffers can be made and foreign ones imported.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef QNN_API
#define QNN_API __attribute__((visibility("default")))
#endif

typedef uint64_t qnnrt_buffer_t;  // 0 is no buffer

// ---- Flags of a buffer ----
#define QNNRT_BUFFER_IMPORTED 1u     // its fd came from outside
#define QNNRT_BUFFER_WRAPPED 2u      // somebody else's memory, no fd
#define QNNRT_BUFFER_RPCMEM 4u       // made by rpcmem_alloc
#define QNNRT_BUFFER_CAN_SHRINK 8u   // imported, and its maker can still truncate it
#define QNNRT_BUFFER_READ_ONLY 16u   // mapped without write permission
#define QNNRT_BUFFER_EXPORTED 32u    // its fd has left the library: never reused
#define QNNRT_BUFFER_DMA_BUF 64u     // the fd is a dma-buf
#define QNNRT_BUFFER_COHERENT 128u   // CPU access needs no begin and end calls
#define QNNRT_BUFFER_INHERITED 256u  // made before a fork, seen in the child

#define QNNRT_ACCESS_READ 1u
#define QNNRT_ACCESS_WRITE 2u

// The message of this thread's last failed call; "" before the first one. Valid until the next
// failure on the same thread.
QNN_API const char* qnnrt_last_error(void);

// ---- Creation ----

// heap: "vendor", "dma_heap", "udmabuf", "memfd", or NULL for the default. nbytes > 0. alignment: a
// power of two, 0 for the page size. Errors: 1002 no memory, 1004 bad argument, 1010 no such heap
// here.
QNN_API uint64_t qnnrt_buffer_alloc(const char* heap, uint64_t nbytes, uint64_t alignment,
                                    qnnrt_buffer_t* out);
// Somebody else's memfd, dma-buf or file; the fd is dup'ed, the caller keeps his. nbytes 0: up to
// the end. Any offset. Errors: 1004 range beyond the real size, 8003 not open, not mappable.
QNN_API uint64_t qnnrt_buffer_import(int fd, uint64_t nbytes, uint64_t offset, qnnrt_buffer_t* out);
// Existing memory, which the caller keeps alive; has no fd.
QNN_API uint64_t qnnrt_buffer_wrap(void* address, uint64_t nbytes, int read_only,
                                   qnnrt_buffer_t* out);

// ---- Lifetime ----

QNN_API uint64_t qnnrt_buffer_retain(qnnrt_buffer_t buffer);
// The last owner's release frees the buffer once nothing else (view, registration, execution) holds
// it.
QNN_API uint64_t qnnrt_buffer_release(qnnrt_buffer_t buffer);
// Frees now, or 1005 with who holds it in the message, and nothing changed.
QNN_API uint64_t qnnrt_buffer_close(qnnrt_buffer_t buffer);
// Views of the memory handed out, and executions that use it by address.
QNN_API uint64_t qnnrt_buffer_export_begin(qnnrt_buffer_t buffer);
QNN_API uint64_t qnnrt_buffer_export_end(qnnrt_buffer_t buffer);
QNN_API uint64_t qnnrt_buffer_execution_begin(qnnrt_buffer_t buffer);
QNN_API uint64_t qnnrt_buffer_execution_end(qnnrt_buffer_t buffer);

// ---- Queries ----

typedef struct qnnrt_buffer_info_t {
  void* address;
  uint64_t nbytes;     // as asked
  uint64_t mapped;     // usable from address on
  uint64_t fd_offset;  // of address in the fd
  uint64_t fd_size;    // whole size behind the fd: what SHARED_BUFFER descriptors state
  const char* heap;    // static string; "imported" and "wrapped" for memory that is not from a heap
  uint32_t flags;
  int32_t owners;
  int32_t exports;
  int32_t registrations;
  int32_t executions;
} qnnrt_buffer_info_t;

QNN_API uint64_t qnnrt_buffer_info(qnnrt_buffer_t buffer, qnnrt_buffer_info_t* out);
// The fd, for use anywhere; marks the buffer as exported. It stays the buffer's: do not close it.
// Errors: 1000 for memory without an fd.
QNN_API uint64_t qnnrt_buffer_fd(qnnrt_buffer_t buffer, int* out);
// The fd for a call back into this library only (memRegister): the buffer stays reusable.
QNN_API uint64_t qnnrt_buffer_borrow_fd(qnnrt_buffer_t buffer, int* out);
// The own or imported buffer that holds the address, with one owner added (release it). Errors:
// 8001 when there is none.
QNN_API uint64_t qnnrt_buffer_lookup(const void* address, qnnrt_buffer_t* out, uint64_t* offset);
// 8003 when a foreign file has become shorter than the buffer: touching it would be SIGBUS.
QNN_API uint64_t qnnrt_buffer_check_alive(qnnrt_buffer_t buffer);
// Bracket CPU access to a buffer that is not coherent; free elsewhere. access: QNNRT_ACCESS_*.
QNN_API uint64_t qnnrt_buffer_access_begin(qnnrt_buffer_t buffer, uint32_t access);
QNN_API uint64_t qnnrt_buffer_access_end(qnnrt_buffer_t buffer, uint32_t access);

// ---- Heaps and the pool ----

typedef struct qnnrt_heap_info_t {
  const char* name;
  const char* reason;  // what it uses, or why it is not available
  int32_t available;
  int32_t is_default;
  int32_t coherent;
  int32_t reserved;
  int64_t live_bytes;  // from the heap itself: memory in the pool counts as live here
  int64_t peak_bytes;
  int64_t live_allocations;
  int64_t allocations;
  int64_t failures;
} qnnrt_heap_info_t;

// Best first. Errors: 1004 when index is past the last one.
QNN_API uint64_t qnnrt_heap_info(uint32_t index, qnnrt_heap_info_t* out);
// Why the default is the default. Static string.
QNN_API const char* qnnrt_heap_default_reason(void);

typedef struct qnnrt_pool_info_t {
  uint64_t limit;  // bytes; starts at QNNRT_POOL_BYTES or 256 MiB
  uint64_t bytes;
  uint64_t entries;
  uint64_t hits;
  uint64_t misses;
  uint64_t evictions;
} qnnrt_pool_info_t;

QNN_API uint64_t qnnrt_pool_info(qnnrt_pool_info_t* out);
QNN_API uint64_t qnnrt_pool_set_limit(uint64_t bytes);
// Gives pooled memory back until at most keep_bytes are left; returns the bytes given back.
QNN_API uint64_t qnnrt_pool_trim(uint64_t keep_bytes);

typedef struct qnnrt_memory_counts_t {
  int64_t buffers;
  int64_t maps;  // the pool's included; trim to zero before comparing
  int64_t fds;
  int64_t handles;
  int64_t unknown_frees;
  int64_t late_frees;
} qnnrt_memory_counts_t;

QNN_API void qnnrt_memory_counts(qnnrt_memory_counts_t* out);
// Makes the nth allocation from now fail, pooled or not; 0 or less turns it off. For tests.
QNN_API void qnnrt_memory_fail_nth(int64_t nth);

#ifdef __cplusplus
}  // extern "C"
#endif
