// The executor of OpenCL command lists and the registry of OpenCL memory, for clients that compile
// graphs of the gpu backend. Nothing here links OpenCL: the client hands in the functions of the
// loader that made its objects. Not part of QNN. All calls are thread safe.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "qnn_types.h"
#include "qnnrt_ext.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef QNN_API
#define QNN_API __attribute__((visibility("default")))
#endif

// ---- OpenCL's functions; objects (cl_mem, cl_kernel, ...) are pointers ----

typedef struct Qnnrt_OpenClFunctions_t {
  int32_t (*enqueueNDRangeKernel)(void* queue, void* kernel, uint32_t dims, const size_t* offset,
                                  const size_t* total, const size_t* group, uint32_t num_events,
                                  void* const* events, void** event);
  int32_t (*enqueueWriteBuffer)(void* queue, void* mem, uint32_t blocking, size_t offset,
                                size_t size, const void* data, uint32_t num_events,
                                void* const* events, void** event);
  int32_t (*enqueueReadBuffer)(void* queue, void* mem, uint32_t blocking, size_t offset,
                               size_t size, void* data, uint32_t num_events, void* const* events,
                               void** event);
  int32_t (*enqueueBarrierWithWaitList)(void* queue, uint32_t num_events, void* const* events,
                                        void** event);
  int32_t (*setKernelArg)(void* kernel, uint32_t index, size_t size, const void* value);
  int32_t (*finish)(void* queue);
  int32_t (*flush)(void* queue);
  void* (*createBuffer)(void* context, uint64_t flags, size_t size, void* data, int32_t* status);
  void* (*createCommandQueue)(void* context, void* device, uint64_t properties, int32_t* status);
  int32_t (*getEventProfilingInfo)(void* event, uint32_t name, size_t size, void* value,
                                   size_t* returned);
  int32_t (*releaseMemObject)(void* mem);
  int32_t (*releaseEvent)(void* event);
  int32_t (*releaseCommandQueue)(void* queue);
  void* (*createSubBuffer)(void* mem, uint64_t flags, uint32_t kind, const void* region,
                           int32_t* status);
  int32_t (*getEventInfo)(void* event, uint32_t name, size_t size, void* value, size_t* returned);
  int32_t (*waitForEvents)(uint32_t count, void* const* events);
} Qnnrt_OpenClFunctions_t;

// Of cl_khr_command_buffer.
typedef struct Qnnrt_OpenClRecording_t {
  void* (*createCommandBuffer)(uint32_t num_queues, void* const* queues, const uint64_t* properties,
                               int32_t* status);
  int32_t (*commandNDRangeKernel)(void* buffer, void* queue, const uint64_t* properties,
                                  void* kernel, uint32_t dims, const size_t* offset,
                                  const size_t* total, const size_t* group, uint32_t num_points,
                                  const uint32_t* points, uint32_t* point, void** command);
  int32_t (*finalizeCommandBuffer)(void* buffer);
  int32_t (*enqueueCommandBuffer)(uint32_t num_queues, void** queues, void* buffer,
                                  uint32_t num_events, void* const* events, void** event);
  int32_t (*releaseCommandBuffer)(void* buffer);
} Qnnrt_OpenClRecording_t;

// ---- Arenas: memory of the intermediates of a cl_context's command lists ----

// An execution takes the memory for its time, so lists that run one after the other have the same,
// and those that run at a time each their own.
typedef void* Qnnrt_OpenClPoolHandle_t;

typedef struct Qnnrt_OpenClPoolCounts_t {
  uint64_t bytes;    // of the device's memory
  uint64_t buffers;  // in which they are
  uint64_t sets;     // of arenas: as many as executions ran at a time
} Qnnrt_OpenClPoolCounts_t;

// Errors: 1002.
QNN_API uint64_t qnnrt_opencl_pool_create(const Qnnrt_OpenClFunctions_t* functions, void* context,
                                          Qnnrt_OpenClPoolHandle_t* pool);
QNN_API void qnnrt_opencl_pool_counts(Qnnrt_OpenClPoolHandle_t pool,
                                      Qnnrt_OpenClPoolCounts_t* counts);
// The memory goes with the last list that was made with it.
QNN_API void qnnrt_opencl_pool_free(Qnnrt_OpenClPoolHandle_t pool);

// ---- Command lists ----

// A step of the client's own, for routines of libraries: enqueues commands that use these cl_mems
// and does not wait for them. 0, or a code with its reason: the execution fails with 1100.
typedef uint32_t (*Qnnrt_OpenClCall_t)(void* user, void* queue, void* const* memories,
                                       uint32_t num_memories, Qnnrt_ExecutorText_t* why);

// A kernel whose other arguments are set or, without one, a call.
typedef struct Qnnrt_OpenClStep_t {
  const char* node;
  const char* name;  // of the kernel
  void* kernel;
  uint32_t dims;  // of the index space: 1 to 3
  size_t total[3];
  size_t group[3];  // group[0] 0: the driver chooses
  Qnnrt_OpenClCall_t call;
  void* user;
  void* const* memories;  // of the call; NULL where an input or output is bound
  uint32_t num_memories;
} Qnnrt_OpenClStep_t;

// Bit flags of an input or output.
#define QNNRT_OPENCL_OUTPUT 1u
#define QNNRT_OPENCL_READ 2u  // kernels read this output, too
// From this bit on: how many arguments (memories of a call) the step that first writes this output
// is done with then. An input among them may have the output's memory.
#define QNNRT_OPENCL_ARGS_BEFORE 16u

typedef struct Qnnrt_OpenClTensor_t {
  const char* name;
  uint32_t id;
  uint32_t data_type;  // Qnn_DataType_t
  uint32_t flags;      // QNNRT_OPENCL_OUTPUT and those after it
  uint32_t rank;
  const uint32_t* dims;
  uint64_t nbytes;
} Qnnrt_OpenClTensor_t;

// Where an input or output is used: argument `index` of a step's kernel, or memory `index` of its
// call.
typedef struct Qnnrt_OpenClPatch_t {
  uint32_t tensor;
  uint32_t step;
  uint32_t index;
} Qnnrt_OpenClPatch_t;

// Where a step works on `size` bytes of an arena: argument `index` of its kernel, or memory `index`
// of its call. Arenas whose places all begin at 0 are used as whole buffers.
typedef struct Qnnrt_OpenClPlace_t {
  uint32_t arena;
  uint32_t step;
  uint32_t index;
  uint64_t offset;
  uint64_t size;
} Qnnrt_OpenClPlace_t;

// What a kernel notes where it meets an index that has no element: the execution fails.
typedef struct Qnnrt_OpenClFault_t {
  int32_t found;  // 0, or the index's position among the indices + 1
  int32_t index;
  int32_t axis;
  int32_t size;  // of the axis
} Qnnrt_OpenClFault_t;

// Bit flags of a command list's queue.
#define QNNRT_OPENCL_OUT_OF_ORDER 1u   // commands wait for each other's events
#define QNNRT_OPENCL_TIMESTAMPS 2u     // it has CL_QUEUE_PROFILING_ENABLE
#define QNNRT_OPENCL_CLIENT_QUEUE 4u   // the client's commands and ours have to keep their order
#define QNNRT_OPENCL_PROFILE_NODES 8u  // profiles have timestamps, and events of nodes
#define QNNRT_OPENCL_SLEEP 16u         // waits ask now and then, instead of the driver's way

// What the arrays and strings say is copied; OpenCL's objects have to stay as long as the list.
typedef struct Qnnrt_OpenClListInfo_t {
  const Qnnrt_OpenClFunctions_t* functions;
  void* context;  // cl_context
  void* device;   // cl_device_id; NULL: no queue with timestamps is made for profiles
  void* queue;    // cl_command_queue
  void* base;     // the queue in which memory changes owners: `queue` as a rule
  uint32_t flags;
  uint32_t flush_every;  // commands after which the device is told to begin; 0: it does by itself
  const Qnnrt_OpenClStep_t* steps;
  const Qnnrt_OpenClTensor_t* tensors;  // inputs, then outputs
  const Qnnrt_OpenClPatch_t* patches;
  uint32_t num_steps;
  uint32_t num_tensors;
  uint32_t num_patches;
  Qnnrt_OpenClPoolHandle_t pool;  // needed where there are arenas
  const uint64_t* arenas;         // bytes of each
  const Qnnrt_OpenClPlace_t* places;
  uint32_t num_arenas;
  uint32_t num_places;
  const Qnnrt_OpenClRecording_t* recording;  // NULL: kernels are enqueued one by one
  uint32_t num_faults;
  void* faults;                 // cl_mem of num_faults Qnnrt_OpenClFault_t, all 0; NULL: none
  const uint32_t* fault_steps;  // the step that notes it in each
} Qnnrt_OpenClListInfo_t;

typedef void* Qnnrt_OpenClListHandle_t;

// Since the last reset, but reserved_bytes, which is the staging memory that was made.
typedef struct Qnnrt_OpenClCounts_t {
  uint64_t executes;
  uint64_t kernels;
  uint64_t writes;
  uint64_t reads;
  uint64_t written_bytes;
  uint64_t read_bytes;
  uint64_t reserved_bytes;
  uint64_t given;       // commands by which memory became the device's
  uint64_t taken_back;  // and the host's again
  uint64_t arguments;   // of kernels that were set
  uint64_t recorded;    // executions that were one command buffer
} Qnnrt_OpenClCounts_t;

// why: of an error; or NULL. Errors: 1002 no memory, on the device neither; 1004 a patch or place
// of a tensor, arena, step or memory that the list does not have.
QNN_API uint64_t qnnrt_opencl_list_create(const Qnnrt_OpenClListInfo_t* info,
                                          Qnnrt_OpenClListHandle_t* list,
                                          Qnnrt_ExecutorText_t* why);
// What qnnrt_graph_set_executor takes. The list has to stay as long as the graph. context: whose
// memory handles the list takes.
QNN_API void qnnrt_opencl_list_executor(Qnnrt_OpenClListHandle_t list, Qnn_ContextHandle_t context,
                                        uint64_t started, Qnnrt_Executor_t* executor);
// The cl_mem is about to be freed, and its address may become another's: the next execution sets
// the arguments anew.
QNN_API void qnnrt_opencl_list_forget(Qnnrt_OpenClListHandle_t list, void* mem);
// copied: bytes staged for each input and output, in their order; or NULL.
QNN_API void qnnrt_opencl_list_counts(Qnnrt_OpenClListHandle_t list, Qnnrt_OpenClCounts_t* counts,
                                      uint64_t* copied);
QNN_API void qnnrt_opencl_list_reset(Qnnrt_OpenClListHandle_t list);
// In a forked child the driver is left alone.
QNN_API void qnnrt_opencl_list_free(Qnnrt_OpenClListHandle_t list);

// ---- Memory handles: one table for the process ----

// Memory that the host sees, too, and that has one owner at a time.
#define QNNRT_OPENCL_SHARED 0u    // none of these: both see the same bytes, or the host sees none
#define QNNRT_OPENCL_MAPPED 1u    // mapped between executions; it is when it is registered
#define QNNRT_OPENCL_EXTERNAL 2u  // acquired for executions and released behind them

typedef struct Qnnrt_OpenClOwnership_t {
  uint32_t kind;
  void* queue;      // in which it changes owners
  void* to_device;  // clEnqueueUnmapMemObject or clEnqueueAcquireExternalMemObjectsKHR
  void* to_host;    // clEnqueueMapBuffer or clEnqueueReleaseExternalMemObjectsKHR
  void* address;    // where it is mapped, or the cl_mem that is acquired
} Qnnrt_OpenClOwnership_t;

typedef struct Qnnrt_OpenClMemory_t {
  void* mem;  // cl_mem; the client keeps a reference as long as it is registered
  Qnn_ContextHandle_t context;
  uint64_t nbytes;
  uint64_t flags;  // cl_mem_flags
  uint32_t data_type;
  uint32_t rank;
  const uint32_t* dims;
  Qnnrt_OpenClOwnership_t ownership;
} Qnnrt_OpenClMemory_t;

// Errors: 1002.
QNN_API uint64_t qnnrt_opencl_register(const Qnnrt_OpenClMemory_t* memory, Qnn_MemHandle_t* handle);
// Waits for the executions that use it. force: although the client has it mapped. Errors: 8001
// stale, 1005 the client has it mapped.
QNN_API uint64_t qnnrt_opencl_deregister(Qnn_MemHandle_t handle, uint32_t force);
// A mapping of the client's begins: waits for executions, and lets none begin that it would
// disturb. Errors: 8001, 1005 it is mapped already, and one of the two mappings writes.
QNN_API uint64_t qnnrt_opencl_map(Qnn_MemHandle_t handle, uint32_t write);
QNN_API void qnnrt_opencl_unmap(Qnn_MemHandle_t handle, uint32_t write);
// Executions that use it now, and whether the client has it mapped. Zeros for a stale handle.
QNN_API void qnnrt_opencl_usage(Qnn_MemHandle_t handle, uint32_t* executions, uint32_t* mapped);

// What this process holds.
QNN_API void qnnrt_opencl_live(uint32_t* handles, uint32_t* lists);

#ifdef __cplusplus
}  // extern "C"
#endif
