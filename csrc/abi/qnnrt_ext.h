// Extensions of this runtime beside QNN: graph options, counters, descriptions. Not part of QNN; a
// vendor backend has none of these.
#pragma once

#include <stdint.h>

#include "qnn_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef QNN_API
#define QNN_API __attribute__((visibility("default")))
#endif

// ---- Graph options: hung off QnnGraph_Config_t.customConfig with option CUSTOM ----

// Tells our struct from a backend's own: the bytes "QNRT" read as a little-endian word.
#define QNNRT_GRAPH_CONFIG_MAGIC 0x54524E51u

#define QNNRT_GRAPH_OPTION_NUM_THREADS 1u
#define QNNRT_GRAPH_OPTION_KERNELS 2u
#define QNNRT_GRAPH_OPTION_STRICT 3u
#define QNNRT_GRAPH_OPTION_EXCLUDE_IO 4u
#define QNNRT_GRAPH_OPTION_PLAN_MILLISECONDS 5u
#define QNNRT_GRAPH_OPTION_PRECISION 6u
#define QNNRT_GRAPH_OPTION_FLOAT32_NODE 7u
#define QNNRT_GRAPH_OPTION_RELEASE_CONSTANTS 8u
#define QNNRT_GRAPH_OPTION_KEEP_CONSTANTS 9u
#define QNNRT_GRAPH_OPTION_SHARE_WEIGHTS 10u
#define QNNRT_GRAPH_OPTION_TF32 11u
#define QNNRT_GRAPH_OPTION_BYTE_ACTIVATIONS 12u

#define QNNRT_KERNELS_AUTO 0u
#define QNNRT_KERNELS_PORTABLE 1u

#define QNNRT_SHARE_WEIGHTS_NOBODY 0u
#define QNNRT_SHARE_WEIGHTS_CONTEXT 1u
#define QNNRT_SHARE_WEIGHTS_PROCESS 2u

#define QNNRT_PRECISION_FLOAT32 0u
#define QNNRT_PRECISION_FLOAT16 1u
#define QNNRT_PRECISION_BFLOAT16 2u
#define QNNRT_PRECISION_FASTEST 3u

typedef struct Qnnrt_GraphConfig_t {
  uint32_t magic;   // QNNRT_GRAPH_CONFIG_MAGIC
  uint32_t option;  // one of QNNRT_GRAPH_OPTION_*; selects the member below
  union {
    // 1 to 1024; before graphFinalize. Of a context binary's graph, instead of those that it was
    // prepared for: between graphRetrieve and contextFinalize (DEFER_GRAPH_INIT), or on lpai
    // graphFinalize; 1008 then where its weights are packed in another way for so many.
    uint32_t numThreads;
    uint32_t kernels;  // one of QNNRT_KERNELS_*
    uint32_t strict;  // 1: executing with RAW memory that would have to be copied is 6004; 0: it is
                      // copied and counted. May be changed at any time
    uint32_t excludeIo;  // lpai; 1: inputs and outputs are not allocated in the scratch memory: the
                         // client gives theirs at each execution. Before its size is asked for
    uint32_t planMilliseconds;  // how long finalize may search for a smaller arena where the one
                                // found at once may not be the smallest; 0, the default: not at all
    uint32_t precision;  // one of QNNRT_PRECISION_*: how floats that only nodes see are stored and
                         // multiplied; sums have 32 bits, inputs and outputs keep their types.
                         // FASTEST: BFLOAT16 on processors that multiply it faster. Before
                         // graphFinalize
    const char* float32Node;    // name of a node that computes in FLOAT32 whatever the precision; a
                                // config for each. Before graphFinalize
    uint32_t releaseConstants;  // 1: graphFinalize frees each constant that is not kept once
                                // kernels have packed it, so that the two are not held at once.
                                // Where it fails after that, the graph can only be freed (6023); 0,
                                // the default: a finalize that failed may be repeated
    uint32_t keepConstants;  // 1: constants stay beside the forms that kernels pack, in memory and
                             // in context binaries, so that these load where kernels pack in
                             // another way; both are up to twice as large. 0: they do not. Without
                             // this config, none with RELEASE_CONSTANTS; else where a graph's take
                             // at most 64 MiB, or as many as QNNRT_KEEP_CONSTANTS_MIB of the
                             // environment says. Before graphFinalize
    uint32_t shareWeights;   // one of QNNRT_SHARE_WEIGHTS_*: with which graphs this one has
                             // constants and packed weights once where they are equal: with none,
                             // those of its context (the default), or all that say PROCESS. Before
                             // the first tensor
    uint32_t tf32;  // gpu; 1: products of 32-bit floats may round what they multiply to the 10 bits
                    // of tf32's mantissa, on devices that have units for it; their sums have 32
                    // bits. 0, the default: they do not. Before graphFinalize
    uint32_t byteActivations;  // 1: products of floats with constant weights of 4 or 8 bits may
                               // round the floats to 8 bits, with a scale for each 32 (16 where the
                               // weights' blocks have 16) along a row. 0, the default: they do not.
                               // Before graphFinalize
  };
} Qnnrt_GraphConfig_t;

// ---- What a graph did ----

#define QNNRT_RESERVED_NONE 0u
#define QNNRT_RESERVED_AT_FINALIZE 1u
#define QNNRT_RESERVED_AT_EXECUTE 2u

// Sizes in bytes. arena_lower_bound is the largest sum of tensors alive at once, arena_sum what
// they would take without sharing; arena_bytes lies between the two. Staging memory is counted by
// the bytes of the tensors that it was reserved for: reserved_bytes is the sum of the two numbers
// at the end, and reserved_at says finalize when any of it came then. copied_bytes is the sum of
// copied_in_bytes and copied_out_bytes.
typedef struct Qnnrt_GraphStats_t {
  uint64_t executes;
  uint64_t copied_bytes;
  uint64_t reserved_bytes;
  uint64_t reserved_at;  // one of QNNRT_RESERVED_*
  uint64_t arena_bytes;
  uint64_t arena_lower_bound;
  uint64_t arena_sum;
  uint64_t weight_bytes;
  uint64_t num_steps;
  uint64_t execute_nanoseconds;
  uint64_t reserved_at_finalize_bytes;
  uint64_t reserved_at_execute_bytes;
  uint64_t copied_in_bytes;
  uint64_t copied_out_bytes;
} Qnnrt_GraphStats_t;

#define QNNRT_COPY_IN 0u
#define QNNRT_COPY_OUT 1u

// Copies that the client could have avoided: of one tensor, in one direction, for one reason. bytes
// of all `count` of them. tensor and reason are owned by the graph.
typedef struct Qnnrt_CopyRecord_t {
  const char* tensor;
  uint32_t direction;  // QNNRT_COPY_IN or QNNRT_COPY_OUT
  uint32_t reserved;
  uint64_t bytes;
  uint64_t count;
  const char* reason;
} Qnnrt_CopyRecord_t;

// These return 0 or a QNN_GRAPH_ERROR_* code.
QNN_API uint64_t qnnrt_graph_stats(Qnn_GraphHandle_t graph, Qnnrt_GraphStats_t* stats);
// Writes at most capacity records; count receives how many there are. out may be NULL when capacity
// is 0.
QNN_API uint64_t qnnrt_graph_copies(Qnn_GraphHandle_t graph, Qnnrt_CopyRecord_t* out,
                                    uint32_t capacity, uint32_t* count);
QNN_API uint64_t qnnrt_graph_reset_stats(Qnn_GraphHandle_t graph);

// tensorCreateGraphTensor for a static tensor whose elements lie `strides` bytes apart from each
// other, a number for each dimension: those of a transposed or repeated array. Multiples of the
// element's size; NULL: as rows. dataSize is that of the elements as rows. The tensor gets its id,
// and has a copy of its own as always. The errors of tensorCreateGraphTensor; 7004 bad strides.
QNN_API uint64_t qnnrt_graph_create_static(Qnn_GraphHandle_t graph, Qnn_Tensor_t* tensor,
                                           const int64_t* strides);
// The same for data that stays where it is, unchanged, until graphFinalize has succeeded or the
// graph is freed: it is copied when it is needed, if it is at all. Where another graph has what
// kernels make of it, that is used.
QNN_API uint64_t qnnrt_graph_lend_static(Qnn_GraphHandle_t graph, Qnn_Tensor_t* tensor,
                                         const int64_t* strides);
// The same for data that stays, unchanged, until the context is freed: it is not read again for
// another graph of the context that has it from there.
QNN_API uint64_t qnnrt_graph_keep_static(Qnn_GraphHandle_t graph, Qnn_Tensor_t* tensor,
                                         const int64_t* strides);

// ---- Constants and packed weights, which graphs have once ----

// Of a finalized graph, in bytes. What several graphs have at the moment is shared.
typedef struct Qnnrt_GraphWeights_t {
  uint64_t shared_bytes;   // other graphs have them, too
  uint64_t private_bytes;  // weight_bytes of the graph's stats less those
} Qnnrt_GraphWeights_t;

// Of all graphs of the process that share: each entry once, however many have it.
typedef struct Qnnrt_WeightsInfo_t {
  uint64_t entries;
  uint64_t bytes;
  uint64_t found;  // how often a graph found what it needed, since the process began
  uint64_t found_bytes;
} Qnnrt_WeightsInfo_t;

// 0, 6000, 6001, 6023 before graphFinalize.
QNN_API uint64_t qnnrt_graph_weights(Qnn_GraphHandle_t graph, Qnnrt_GraphWeights_t* weights);
// 0, 1004.
QNN_API uint64_t qnnrt_weights_info(Qnnrt_WeightsInfo_t* info);

// The finalized steps as JSON (op, name, kernel, what was fused) and the arena: what lies at which
// offset, from which step to which (inclusive). Owned by the graph. NULL when the handle is not a
// finalized graph.
QNN_API const char* qnnrt_graph_describe(Qnn_GraphHandle_t graph);

// ---- Graphs that the client executes: those of qnnrt_gpu_get_providers ----

// What an execution is given.
typedef struct Qnnrt_Tensors_t {
  const Qnn_Tensor_t* inputs;
  const Qnn_Tensor_t* outputs;
  uint32_t num_inputs;
  uint32_t num_outputs;
  uint32_t strict;  // 1: the graph's option: memory that would have to be copied is refused
} Qnnrt_Tensors_t;

// Why something failed, ending with null.
typedef struct Qnnrt_ExecutorText_t {
  char text[500];
} Qnnrt_ExecutorText_t;

// What an executor may want to know and to tell while it runs.
typedef struct Qnnrt_ExecutorRun_t {
  void* profile;      // NULL: nobody collects events
  uint32_t detailed;  // 1: those of single nodes, too
  // The event's number, for `parent`; below 0 when there is no room for it. A parent below 0: none.
  // Microseconds; the timestamp is one of the monotonic clock.
  int32_t (*add_event)(void* profile, uint32_t type, uint32_t unit, uint64_t value,
                       uint64_t timestamp, const char* identifier, int32_t parent);
  const void* interrupt;                       // NULL: nothing can end the execution early
  uint32_t (*stopped)(const void* interrupt);  // 1: it has to end; the code is the runtime's
} Qnnrt_ExecutorRun_t;

// `bind` and `release` are called on any thread and by several at once. 0 or the error of
// graphExecute, with its text. After 0 of `bind` the tensors are not looked at any more; `run` and
// `release` follow, or `release` alone.
typedef struct Qnnrt_Executor_t {
  void* self;
  uint64_t started;  // when its preparation began, in nanoseconds of the monotonic clock
  uint64_t (*bind)(void* self, const Qnnrt_Tensors_t* tensors, void** binding,
                   Qnnrt_ExecutorText_t* why);
  uint64_t (*run)(void* self, void* binding, const Qnnrt_ExecutorRun_t* run,
                  Qnnrt_ExecutorText_t* why);
  void (*release)(void* self, void* binding);
} Qnnrt_Executor_t;

// What executes the graph from graphFinalize on, until its context is freed. 0, 6001, 6024, 1000 a
// graph of another backend.
QNN_API uint64_t qnnrt_graph_set_executor(Qnn_GraphHandle_t graph,
                                          const Qnnrt_Executor_t* executor);

// The configs that a backend, context or graph of the gpu backend was given, as JSON: "backend",
// "context" and "graph", as far as there are such, each with the options by name; of a graph
// "portable" and "plan_milliseconds", too. The string is this thread's until its next call. NULL
// when the handle is none of these.
QNN_API const char* qnnrt_gpu_config(void* handle);

// What ops keep from one execution to the next (Lstm, Gru, Buffer) is as before the first one.
// Waits for a running execution. 0, 6001, 6023 before graphFinalize.
QNN_API uint64_t qnnrt_graph_reset_state(Qnn_GraphHandle_t graph);

// Frees one graph of a context, which stays: waits for executions that run, and its name may be
// used again. Without it graphs go with their context. 0, 1000 for a graph that came from a context
// binary, whose memory is the context's, 6001.
QNN_API uint64_t qnnrt_graph_free(Qnn_GraphHandle_t graph);

// ---- Compiling a declared graph elsewhere ----

#define QNNRT_PASSES_CONSTANTS 0u  // constants folded, unused nodes removed
#define QNNRT_PASSES_PORTABLE 1u   // and everything else that does not depend on kernels
// And functions found in arithmetic that QNN has no ops for become ops of this runtime:
// ElementWiseErf, GeluTanh, Mish, Swish (x sigmoid(alpha x)), HardSigmoid of ElementWiseNeuron.
#define QNNRT_PASSES_FUNCTIONS 2u

// A graph that has its tensors and nodes, checked and after the passes, as JSON: nodes in execution
// order, tensors with the addresses of constants. The graph does not change, and may be lowered
// again. Text and constants are valid until that, qnnrt_graph_leave, or the end of the graph. 0,
// 6000, 6001, 6007 a tensor that nothing produces, 6024 finalized.
QNN_API uint64_t qnnrt_graph_lower(Qnn_GraphHandle_t graph, uint32_t passes, const char** json);
// It was compiled elsewhere: it takes no more tensors and nodes, and of its constants only those at
// the `count` addresses stay in memory, as long as the graph. 0, 6000, 6001, 6024.
QNN_API uint64_t qnnrt_graph_leave(Qnn_GraphHandle_t graph, const void* const* kept,
                                   uint64_t count);

// ---- Lowering operators of TFLite ----

// What becomes of the variable tensors of recurrent operators.
#define QNNRT_TFLITE_STATES_RESET 0u   // every run starts from zeros
#define QNNRT_TFLITE_STATES_INPUTS 1u  // each is an input and an output of the graph
#define QNNRT_TFLITE_STATES_KEPT 2u    // the operation keeps it from run to run

// One operator of a .tflite file as QNN operations. `op` has its name (typeName, "CONV_2D"), its
// tensors (STATIC constants, APP_READWRITE variable ones, NULL omitted ones; outputs with types and
// encodings, and no shape), and its version and options as parameters by the schema's names, each a
// FLOAT_64 or a tensor of them. `budget`: of bytes of constants that are made. The result is JSON,
// this thread's until its next call, as are the constants at addresses in it: tensors, operations
// (parameters by type, dimensions and bits), and which tensors the outputs and next states are; or
// why the operator is refused. 0, 1002 without memory, 1003.
QNN_API uint64_t qnnrt_tflite_lower(const Qnn_OpConfig_t* op, uint32_t states, uint64_t budget,
                                    const char** json);
// All operators that are lowered, as JSON.
QNN_API const char* qnnrt_tflite_operators_json(void);

// ---- The process domain of the htp backend ----

// What the accelerator of this process has mapped, in bytes: registered buffers (a file once),
// staging memory, weights and arenas. Beyond budget_bytes mapping fails, with 8003 (1002 for
// weights and arenas). The budget is 3,300,000,000 unless QNNRT_HTP_DOMAIN_BYTES or the platform
// option "domain_bytes:N" of backendCreate says otherwise.
typedef struct Qnnrt_DomainInfo_t {
  uint64_t budget_bytes;
  uint64_t used_bytes;
  uint64_t peak_bytes;
  uint64_t num_holders;
} Qnnrt_DomainInfo_t;

// A part of it: "staging of graph" 'name', "registered buffer" 'fd 5'. Cut off where it is longer.
typedef struct Qnnrt_DomainHolder_t {
  uint64_t bytes;
  char what[32];
  char who[96];
} Qnnrt_DomainHolder_t;

// These return 0, 1002 or 1004.
QNN_API uint64_t qnnrt_htp_domain_info(Qnnrt_DomainInfo_t* info);
// A budget below what is used takes nothing away; nothing more is mapped until enough is given
// back.
QNN_API uint64_t qnnrt_htp_domain_set_budget(uint64_t bytes);
// Writes at most capacity of them, the largest first; count receives how many there are. out may be
// NULL when capacity is 0.
QNN_API uint64_t qnnrt_htp_domain_holders(Qnnrt_DomainHolder_t* out, uint32_t capacity,
                                          uint32_t* count);

// ---- Memory of one kind for LPAI clients ----

// Stands for what the vendor's LPAI backend extensions do: allocates inputs, outputs and model
// binaries in DDR or, in aDSP direct mode, in tightly coupled memory (TCM). An allocator is one
// session's: its TCM pool has 2,035,712 bytes for 32 pieces at once, and more than 32 are fatal for
// it. Scratch and persistent memory are DDR always and are not its business. What happens is said
// in the backend's log, in the words of the vendor's documentation.
typedef void* Qnnrt_LpaiAllocatorHandle_t;

typedef struct Qnnrt_LpaiAllocatorInfo_t {
  uint32_t mem_type;    // one of QNN_LPAI_MEM_TYPE_*; UNDEFINED for a name that is not known
  uint32_t fatal;       // 1: one piece too many was asked for
  uint32_t pieces;      // live now
  uint32_t max_pieces;  // 32 in TCM, 0 in DDR: any number
  uint64_t used_bytes;  // of TCM; 0 in DDR, as the two below
  uint64_t pool_bytes;
  uint64_t free_bytes;  // the most that one piece could have
} Qnnrt_LpaiAllocatorInfo_t;

// These return 0 or a code, and qnnrt_error_message says why.
// mem_type: "ddr", "tcm", or NULL for ddr. An unknown one gives the line "Invalid memory type" and
// an allocator of UNDEFINED type. backend: an lpai backend, which the allocator outlives if need
// be. Errors: 1004 not such a backend, 1006 TCM without direct mode.
QNN_API uint64_t qnnrt_lpai_allocator_create(Qnn_BackendHandle_t backend, const char* mem_type,
                                             Qnnrt_LpaiAllocatorHandle_t* allocator);
// A piece is a buffer with one owner (qnnrt_buffer_t of memory_api.h): its calls work on it, its fd
// and offset register it, and closing or releasing it gives the piece back. Errors: 1004 no bytes
// or an UNDEFINED type, 1002 it does not fit, 1011 one piece too many, and every call after that.
QNN_API uint64_t qnnrt_lpai_allocator_alloc(Qnnrt_LpaiAllocatorHandle_t allocator, uint64_t nbytes,
                                            uint64_t* piece);
// Errors: 8001 it is no piece of this allocator (any more), 1005 who holds it, 1011.
QNN_API uint64_t qnnrt_lpai_allocator_free(Qnnrt_LpaiAllocatorHandle_t allocator, uint64_t piece);
QNN_API uint64_t qnnrt_lpai_allocator_info(Qnnrt_LpaiAllocatorHandle_t allocator,
                                           Qnnrt_LpaiAllocatorInfo_t* info);
// Takes the pieces with it. Errors: 1005 who holds one; then nothing has changed.
QNN_API uint64_t qnnrt_lpai_allocator_destroy(Qnnrt_LpaiAllocatorHandle_t allocator);

// ---- What the library holds ----

typedef struct Qnnrt_LiveCounts_t {
  uint64_t buffers;
  uint64_t maps;
  uint64_t fds;
  uint64_t mem_handles;
  uint64_t contexts;
  uint64_t graphs;
  uint64_t backends;
  uint64_t profiles;
  uint64_t logs;
  uint64_t devices;
  uint64_t signals;
  uint64_t lpai_allocators;
} Qnnrt_LiveCounts_t;

QNN_API void qnnrt_live_counts(Qnnrt_LiveCounts_t* counts);
// Heap allocations made by the library since it was loaded.
QNN_API uint64_t qnnrt_debug_allocations(void);
// Makes the n-th allocation from now fail (1 is the next one); -1 switches that off.
QNN_API void qnnrt_debug_fail_allocation(int64_t n);

// What went wrong in this thread's last failed call, for interfaces without a function that says
// so, as the system interface. Valid until the thread's next failure; "" when there was none.
QNN_API const char* qnnrt_error_message(void);

// ---- The htp backend's devices and votes ----

// One device, or all of them for NULL, with the contexts and graphs on it, the configs and
// priorities that these were given, what each graph has copied, and the power configs that clients
// of the process have set, as JSON. The string is this thread's until its next call. NULL when the
// handle is no device.
QNN_API const char* qnnrt_htp_describe(Qnn_DeviceHandle_t device);

// ---- The lpai backend ----

// Of a backend: its hardware, alignment, cores and configs, with its contexts and their graphs; of
// a graph: its configs, performance, affinity, and of both pools what is needed (null before it is
// prepared) and what was given, as JSON. The string is this thread's until its next call. NULL when
// the handle is neither of lpai's.
QNN_API const char* qnnrt_lpai_describe(void* backend_or_graph);

// Where a graph input or output lies in the scratch memory: an input is to be written there before
// each execution, an output is there until the next one. Another address once the scratch memory
// was replaced. 0; 1000 the memory of the graph is the runtime's own; 6000 no scratch memory, or a
// null address; 6001; 6004 no such tensor; 6023 before the graph is prepared.
QNN_API uint64_t qnnrt_graph_io_address(Qnn_GraphHandle_t graph, uint32_t tensor, void** address);

// ---- Context binaries ----

// Whether a context binary is whole: header, description and every weight have their checksums. It
// may still be for another backend or another machine's kernels. 0, 30001 null, 30010 it is not.
QNN_API uint64_t qnnrt_binary_verify(const void* binary, uint64_t size);

// ---- The planner of arenas, for items that are no tensors ----

// size bytes on a boundary of `alignment` (a power of two), from step `first` to step `last`.
typedef struct Qnnrt_ArenaItem_t {
  uint32_t first;
  uint32_t last;  // inclusive
  uint64_t size;
  uint64_t alignment;
} Qnnrt_ArenaItem_t;

// One order, size, and the first gap: what the others are measured against.
#define QNNRT_PLAN_BY_SIZE 0u
// What finalize does: several orders, and an improvement of the best.
#define QNNRT_PLAN_PORTFOLIO 1u
// The same, then a search until the peak is proved to be the smallest or the limits are reached.
#define QNNRT_PLAN_EXACT 2u

// Limits of a search; 0: none. With steps (decisions tried) alone the plan is the same on every
// machine. Without both a search may last for ever.
typedef struct Qnnrt_PlanOptions_t {
  uint32_t effort;  // one of QNNRT_PLAN_*
  uint32_t milliseconds;
  uint64_t steps;
} Qnnrt_PlanOptions_t;

// peak is what the arena needs, in bytes; lower_bound the largest sum of sizes at one step, sum
// that of all.
typedef struct Qnnrt_PlanInfo_t {
  uint64_t peak;
  uint64_t lower_bound;
  uint64_t sum;
  uint64_t steps;
  uint32_t proved;  // 1: no plan needs less than peak
  uint32_t reserved;
  const char* order;  // the order that won, or "exact"; static
} Qnnrt_PlanInfo_t;

// An offset for each item, in `offsets`. 0, 1002, 1004 (bad items or options, null pointers).
QNN_API uint64_t qnnrt_plan_arena(const Qnnrt_ArenaItem_t* items, uint64_t count,
                                  const Qnnrt_PlanOptions_t* options, uint64_t* offsets,
                                  Qnnrt_PlanInfo_t* info);

// ---- What the library is; the strings are static ----

QNN_API const char* qnnrt_version(void);
// The kernels in use: "oneDNN 3.2.0 (qnnrt)", for example, or "portable (WHY)", where WHY says
// which libraries were tried and what the loader said of each.
QNN_API const char* qnnrt_kernel_library(void);
// The op table as JSON.
QNN_API const char* qnnrt_op_coverage_json(void);
// One op of it, until this thread asks for another; null: there is no such op, or no memory.
QNN_API const char* qnnrt_op_json(const char* op);
// Every config option that the runtime knows and what it does with it, as JSON.
QNN_API const char* qnnrt_config_table_json(void);

#ifdef __cplusplus
}  // extern "C"
#endif
