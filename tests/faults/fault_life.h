/* What a C client does from its first call to its last: a graph made, finalized, executed on its
 * own and on shared memory, saved and loaded. A call that succeeds with a wrong result ends the
 * process.
 */
#pragma once

#include "qnnrt/qnn.h"
#include "qnnrt/qnn_system.h"

typedef struct {
  Qnn_LogHandle_t log;
  Qnn_BackendHandle_t backend;
  Qnn_DeviceHandle_t device;
  Qnn_ContextHandle_t context[2];
  Qnn_ProfileHandle_t profile;
  Qnn_SignalHandle_t signal;
  Qnn_MemHandle_t handles[2];
  QnnSystemContext_Handle_t system;
  uint64_t imported, own;
  void *memory, *binary, *pools[4];
  uint32_t code; /* of the first call that failed */
  const char* call;
} Life;

void die(const char* what);

/* Of all the libraries under test; `name` is cpu, htp or lpai. */
void open_libraries(const char* backend_path, const char* rpc_path, const char* system_path,
                    const char* name);
/* That the libraries count as alive, after their pools were trimmed. */
long live_objects(void);

/* From zeros. 0: a call failed, which one is in `l`. */
int live(Life* l);
/* Gives back what is there, in the order in which a client does. A call that fails keeps its
 * object, for the next try. */
int end(Life* l);
