// Buffers between processes, as C functions for bindings. Every call returns 0,
// a QNN error code or one of those below; the sentence that belongs to the last error of the
// calling thread is qnnrt_ipc_last_error(). All calls are thread safe.
#pragma once

#include <stdint.h>

#include "memory/memory_api.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Error codes beside QNN's ----
#define QNNRT_HANDOFF_ENDED 60001u    // the sender has ended, or cannot be reached from here
#define QNNRT_HANDOFF_LEASE 60002u    // the lease has ended
#define QNNRT_HANDOFF_TOKEN 60003u    // the token is not the lease's
#define QNNRT_HANDOFF_USER 60004u     // the other process is another user's
#define QNNRT_HANDOFF_TICKET 60005u   // the message is no ticket, or has lost a part
#define QNNRT_HANDOFF_FILES 60006u    // no file descriptor is free, here or there
#define QNNRT_HANDOFF_MEMORY 60007u   // what came is not the memory that was promised
#define QNNRT_HANDOFF_TIMEOUT 60008u  // the sender does not answer
#define QNNRT_HANDOFF_CONNECT 60010u  // only over a connection
#define QNNRT_HANDOFF_AGAIN 60009u    // a signal came in between: call again

QNN_API const char* qnnrt_ipc_last_error(void);

// ---- The sending side ----
//
// A lease keeps memory for receivers until it is ended, whether or not the buffer is still there.
// Any number of processes of the same user may receive it, any number of times. Fds travel over a
// Unix socket with an abstract name, which a thread of this library serves from the first lease on.

#define QNNRT_LEASE_READ_ONLY 1u  // nobody can map the memory for writing from now on

typedef uint64_t qnnrt_lease_t;  // 0 is no lease

// What a receiver needs to know; plain bytes, of use on this machine only.
typedef struct qnnrt_ticket_t {
  uint32_t magic;
  uint32_t version;
  uint8_t sender[16];  // random: of the sending process
  uint8_t token[16];   // random: of the lease
  uint64_t lease;
  uint64_t message;  // 0, or which message of the lease this is, held for until it has arrived
  uint64_t device;   // identity of the file behind the fd
  uint64_t inode;
  uint64_t fd_size;
  uint64_t fd_offset;
  uint64_t nbytes;
  uint32_t pid;  // of the sender, for messages
  uint32_t flags;
  uint32_t kind;   // 0 dma-buf, 1 memfd, 2 file
  uint32_t table;  // the fd in the sender of its table of leases
  uint32_t reserved;
  uint32_t checksum;
} qnnrt_ticket_t;

#define QNNRT_TICKET_READ_ONLY 1u
#define QNNRT_TICKET_CAN_SHRINK 2u

// Errors: 1000 no fd, or read-only where the memory cannot be sealed; 1005 of a parent process, or
// handed out for writing already; 60006; 1003 no random numbers, no thread.
QNN_API uint64_t qnnrt_lease_create(qnnrt_buffer_t buffer, uint32_t flags, qnnrt_lease_t* out);
// The memory goes with the last of the lease, the messages that have not arrived and the buffer.
QNN_API uint64_t qnnrt_lease_end(qnnrt_lease_t lease);
// in_flight: the message keeps the memory until somebody has received it.
QNN_API uint64_t qnnrt_lease_ticket(qnnrt_lease_t lease, int in_flight, qnnrt_ticket_t* out);

// ---- The receiving side ----

typedef struct qnnrt_peer_t qnnrt_peer_t;  // a connection to a sender

// Bytes as a ticket. Errors: 60005.
QNN_API uint64_t qnnrt_ticket_read(const void* bytes, uint64_t size, qnnrt_ticket_t* out);
// Errors: 60001, 60004, 60006, 60008, 60009.
QNN_API uint64_t qnnrt_peer_connect(const qnnrt_ticket_t* ticket, qnnrt_peer_t** out);
// The buffer on the ticket's memory; the message has arrived then. peer: null for what needs no
// connection: tickets of this process, memfds of senders whose fds this process may open, and other
// memory of those that it may trace; 60010 where that is not so, or where anything is wrong, which
// the sender is to say. Errors: 6000x, and those of qnnrt_buffer_import.
QNN_API uint64_t qnnrt_peer_receive(qnnrt_peer_t* peer, const qnnrt_ticket_t* ticket,
                                    qnnrt_buffer_t* out);
// The message has arrived, where the memory is here already. Nothing comes back, and nothing is
// waited for. peer as above: 60010.
QNN_API uint64_t qnnrt_peer_arrived(qnnrt_peer_t* peer, const qnnrt_ticket_t* ticket);
QNN_API void qnnrt_peer_close(qnnrt_peer_t* peer);
// Messages are received faster while the process of the last sender stays open, for which the
// receiver needs a descriptor more: until as many calls with 0 as with anything else.
QNN_API void qnnrt_ipc_keep_sender(int keep);

typedef struct qnnrt_ipc_counts_t {
  int64_t leases;       // those that only messages keep included
  int64_t in_flight;    // messages that nobody has received yet
  int64_t connections;  // to receivers, of the sending side
  int64_t peers;        // to senders
  int64_t endpoints;    // of rings: ipc/ring_api.h
  int64_t fds;          // of all these, and of the socket
} qnnrt_ipc_counts_t;

QNN_API void qnnrt_ipc_counts(qnnrt_ipc_counts_t* out);
// Messages on their way keep memory no longer, and no sender's table stays mapped. For tests.
QNN_API void qnnrt_ipc_forget_messages(void);

#ifdef __cplusplus
}  // extern "C"
#endif
