// Rings of slots between processes, as C functions for bindings; otherwise as ipc/ipc_api.h.
//
// A ring has a control block, in a buffer of its own, and slots, which are parts of another buffer.
// One producer fills slots; consumers read them where they are. See ipc/ring.h for the protocol.
#pragma once

#include "ipc/ipc_api.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Error codes beside QNN's and those of ipc_api.h ----
#define QNNRT_RING_TIMEOUT 60101u  // nothing to read, or no room, within the time
#define QNNRT_RING_CLOSED 60102u   // the producer has closed the ring, and all was read
#define QNNRT_RING_ENDED 60103u    // the producer has ended without closing it
#define QNNRT_RING_TAKEN 60104u    // there is a producer already, or no seat for a consumer
#define QNNRT_RING_LAYOUT 60105u   // the memory is no ring, or another version's

#define QNNRT_RING_DROP_OLDEST 1u  // on a full ring: else the producer waits
#define QNNRT_RING_QUEUE 2u        // each slot goes to one consumer: else to all
#define QNNRT_RING_CONSUMERS 32u   // at most

typedef struct qnnrt_ring_config_t {
  uint32_t slots;  // 2 to 4096
  uint32_t flags;
  uint64_t slot_bytes;
  uint64_t stride;  // from one slot to the next, in bytes
} qnnrt_ring_config_t;

#define QNNRT_RING_PRODUCER 0u
#define QNNRT_RING_CONSUMER 1u

typedef uint64_t qnnrt_endpoint_t;  // 0 is none

typedef struct qnnrt_ring_slot_t {
  uint32_t index;
  uint32_t reserved;
  uint64_t sequence;   // from 0, as published
  uint64_t published;  // when, in nanoseconds of CLOCK_MONOTONIC
} qnnrt_ring_slot_t;

typedef struct qnnrt_ring_info_t {
  qnnrt_ring_config_t config;
  uint64_t published;  // slots so far
  uint64_t dropped;    // by this endpoint: what it has missed, or the producer has overwritten
  uint32_t consumers;  // alive, as far as was noticed
  uint32_t closed;
} qnnrt_ring_info_t;

// Bytes of the control block. 0 for a config that cannot be.
QNN_API uint64_t qnnrt_ring_bytes(const qnnrt_ring_config_t* config);
// Makes one in fresh memory, which nobody else has yet.
QNN_API uint64_t qnnrt_ring_format(qnnrt_buffer_t control, const qnnrt_ring_config_t* config);
// Errors: 60104, 60105, 60006.
QNN_API uint64_t qnnrt_ring_open(qnnrt_buffer_t control, uint32_t role, qnnrt_endpoint_t* out);
// A producer's ends the ring for its consumers, once they have read what there is.
QNN_API uint64_t qnnrt_ring_close(qnnrt_endpoint_t endpoint);
// How long a wait looks again and again before it sleeps: 100 us, and less where that is in vain,
// unless said here; then always as long. For an end with a core of its own.
QNN_API uint64_t qnnrt_ring_set_spin(qnnrt_endpoint_t endpoint, uint64_t nanoseconds);
// A producer's next slot to fill, a consumer's next one to read. timeout: nanoseconds; 0 does not
// wait. Signals do not end a wait: whoever handles them waits for a tenth of a second at a time.
// Errors: 60101, 60102, 60103.
QNN_API uint64_t qnnrt_ring_next(qnnrt_endpoint_t endpoint, uint64_t timeout,
                                 qnnrt_ring_slot_t* out);
// The slot is filled, or read. publish: 0 gives a producer's slot back as if it had not been taken.
QNN_API uint64_t qnnrt_ring_done(qnnrt_endpoint_t endpoint, uint32_t index, int publish,
                                 qnnrt_ring_slot_t* out);
QNN_API uint64_t qnnrt_ring_info(qnnrt_endpoint_t endpoint, qnnrt_ring_info_t* out);

#ifdef __cplusplus
}  // extern "C"
#endif
