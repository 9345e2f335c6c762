// The TFLite delegate: the C entry points that applications of the vendor's delegate call, and this
// runtime's own beside them. Library: libQnnTFLiteDelegate.so, which ai_edge_litert's
// load_delegate() takes, too.
//
// Names and fields are those of the vendor's documentation. How the vendor lays its structs out in
// memory is not published: TfLiteQnnDelegateOptions is laid out as it stands here, so a program is
// compiled against this header, and always starts from TfLiteQnnDelegateOptionsDefault().
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef QNN_API
#define QNN_API __attribute__((visibility("default")))
#endif

// TFLite's own, which nothing here looks into.
struct TfLiteDelegate;

// ---- Options: 0 is the default of every number unless said otherwise ----

// This runtime has the backends Htp and, of its own, Cpu; the others want a library_path.
typedef enum TfLiteQnnDelegateBackendType {
  kUndefinedBackend = 0,
  kGpuBackend = 1,
  kHtpBackend = 2,
  kDspBackend = 3,
  kIrBackend = 4,
  kQnnrtCpuBackend = 0x1000,
} TfLiteQnnDelegateBackendType;

typedef enum TfLiteQnnDelegateLogLevel {
  kLogOff = 0,
  kLogLevelError = 1,
  kLogLevelWarn = 2,
  kLogLevelInfo = 3,  // the default
  kLogLevelVerbose = 4,
  kLogLevelDebug = 5,
} TfLiteQnnDelegateLogLevel;

typedef enum TfLiteQnnDelegateHtpPrecision {
  kHtpQuantized = 0,
  kHtpFp16 = 1,
} TfLiteQnnDelegateHtpPrecision;

typedef enum TfLiteQnnDelegateHtpPdSession {
  kHtpUnsignedPd = 0,
  kHtpSignedPd = 1,
} TfLiteQnnDelegateHtpPdSession;

typedef enum TfLiteQnnDelegateGraphPriority {
  kQnnPriorityLow = 0,
  kQnnPriorityNormal = 1,  // the default
  kQnnPriorityNormalHigh = 2,
  kQnnPriorityHigh = 3,
} TfLiteQnnDelegateGraphPriority;

typedef enum TfLiteQnnDelegateProfiling {
  kProfilingOff = 0,
  kBasicProfiling = 1,
  kPerOpProfiling = 2,
  kLintingProfiling = 3,
} TfLiteQnnDelegateProfiling;

// Of a GPU library: checked, and otherwise without effect here.
typedef struct TfLiteQnnDelegateGpuBackendOptions {
  int precision;         // 0 to 3; default 2, 16-bit floats
  int performance_mode;  // 0 to 3
  const char* kernel_repo_dir;
} TfLiteQnnDelegateGpuBackendOptions;

// These become configs of the backend's graphs, which keep them as docs/configs.md says; the modes
// of power are checked, and otherwise without effect: there is no clock to set.
typedef struct TfLiteQnnDelegateHtpBackendOptions {
  int performance_mode;    // 0 to 9
  int perf_ctrl_strategy;  // 0 manual, 1 automatic
  TfLiteQnnDelegateHtpPrecision precision;
  TfLiteQnnDelegateHtpPdSession pd_session;
  int optimization_strategy;  // 0 for inference, 1 for preparation, 2 for inference at level 3
  bool useConvHmx;            // default true
  bool useFoldRelu;           // default true
  uint32_t vtcm_size;         // MB; 0: the backend's own choice
  uint32_t num_hvx_threads;   // 0: the backend's own choice
  uint32_t device_id;
} TfLiteQnnDelegateHtpBackendOptions;

// Of a DSP library: checked, and otherwise without effect here.
typedef struct TfLiteQnnDelegateDspBackendOptions {
  int performance_mode;  // 0 to 8
  int perf_ctrl_strategy;
  int pd_session;
} TfLiteQnnDelegateDspBackendOptions;

// Without effect.
typedef struct TfLiteQnnDelegateIrBackendOptions {
  const char* output_path;
} TfLiteQnnDelegateIrBackendOptions;

// Nodes that are left to the CPU: builtin operators by their code, nodes by their number.
typedef struct TfLiteQnnDelegateSkipOption {
  const int* skip_delegate_ops;
  int skip_delegate_ops_nr;
  const int* skip_delegate_node_ids;
  int skip_delegate_node_ids_nr;
} TfLiteQnnDelegateSkipOption;

typedef struct TfLiteQnnDelegateOpPackageOptions {
  const void* op_package_infos;
  int num_op_package_infos;
} TfLiteQnnDelegateOpPackageOptions;

// Everything pointed to is read during TfLiteQnnDelegateCreate only.
typedef struct TfLiteQnnDelegateOptions {
  TfLiteQnnDelegateBackendType backend_type;  // mandatory
  const char* library_path;                   // a QNN backend library instead of this runtime's
  const char* skel_library_dir;               // without effect: there is no DSP to load it on
  TfLiteQnnDelegateGpuBackendOptions gpu_options;
  TfLiteQnnDelegateHtpBackendOptions htp_options;
  TfLiteQnnDelegateDspBackendOptions dsp_options;
  TfLiteQnnDelegateIrBackendOptions ir_options;
  TfLiteQnnDelegateLogLevel log_level;
  TfLiteQnnDelegateProfiling profiling;                  // without effect
  TfLiteQnnDelegateOpPackageOptions op_package_options;  // refused unless empty
  const char* tensor_dump_output_path;  // each run writes inputs and outputs: tensor_N.raw
  const char* cache_dir;                // without effect, with the next
  const char* model_token;
  TfLiteQnnDelegateSkipOption skip_options;
  TfLiteQnnDelegateGraphPriority graph_priority;
  // This runtime's own. Inputs and outputs of partitions are placed on shared memory by the
  // delegate (default), or left where the runtime has them and copied.
  bool qnnrt_shared_memory;
} TfLiteQnnDelegateOptions;

QNN_API TfLiteQnnDelegateOptions TfLiteQnnDelegateOptionsDefault(void);
// This runtime's own: the keys of an external delegate, each with its kind, default and choices.
QNN_API const char* qnnrt_tflite_options_json(void);

// ---- The delegate ----

// Null when the options are refused; the log says why. The delegate may be deleted before or after
// its interpreters: what they still use stays until the last of their kernels is gone. Changes of
// size free kernels and make others: an interpreter whose inputs are resized needs the delegate.
QNN_API struct TfLiteDelegate* TfLiteQnnDelegateCreate(const TfLiteQnnDelegateOptions* options);
QNN_API void TfLiteQnnDelegateDelete(struct TfLiteDelegate* delegate);

typedef enum TfLiteQnnDelegateCapabilityStatus {
  kCapabilityNotSupported = 0,
  kCapabilitySupported = 1,
} TfLiteQnnDelegateCapabilityStatus;

typedef enum TfLiteQnnDelegateCapability {
  kHtpRuntimeQuantized = 0,
  kHtpRuntimeFp16 = 1,
  kGpuRuntime = 2,
  kDspRuntime = 3,
} TfLiteQnnDelegateCapability;

QNN_API TfLiteQnnDelegateCapabilityStatus
TfLiteQnnDelegateHasCapability(TfLiteQnnDelegateCapability capability);

typedef struct TfLiteQnnDelegateApiVersion {
  int major;
  int minor;
  int patch;
} TfLiteQnnDelegateApiVersion;

// The version whose names and fields these are: 0.24.0.
QNN_API TfLiteQnnDelegateApiVersion TfLiteQnnDelegateGetApiVersion(void);

// ---- Shared memory that an application gives to SetCustomAllocationForTensor ----

// num_bytes on a boundary of `alignment` (TFLite wants 64). NULL on failure, and for an alignment
// that is no power of two.
QNN_API void* TfLiteQnnDelegateAllocCustomMem(size_t num_bytes, size_t alignment);
// Memory that a delegate still uses is freed when it no longer does. Other pointers are ignored.
QNN_API void TfLiteQnnDelegateFreeCustomMem(void* buffer_ptr);

// ---- This runtime's own: what a delegate did with a tensor ----

#define QNNRT_TFLITE_COPIED 0u       // memory of the runtime, which the backend copies
#define QNNRT_TFLITE_SHARED 1u       // placed on shared memory by the delegate
#define QNNRT_TFLITE_BOUND 2u        // on the buffer given to qnnrt_tflite_bind
#define QNNRT_TFLITE_APPLICATION 3u  // on shared memory that the application brought

typedef struct Qnnrt_TfliteTensor_t {
  int32_t index;
  uint32_t memory;  // one of QNNRT_TFLITE_*
  void* address;
  uint64_t nbytes;     // of the tensor
  uint64_t capacity;   // of the memory from address on
  uint64_t fd_offset;  // of address in the fd
  int32_t fd;          // the buffer's, which keeps it; -1 for copied ones
  uint32_t output;     // 1: an output of its partition
} Qnnrt_TfliteTensor_t;

typedef struct Qnnrt_TfliteCounters_t {
  uint64_t nodes;       // of all graphs when they were last prepared
  uint64_t delegated;   // of these
  uint64_t partitions;  // live now
  uint64_t invokes;     // of partitions
  uint64_t shared_tensors;
  uint64_t copied_tensors;
  uint64_t copied_in_bytes;
  uint64_t copied_out_bytes;
} Qnnrt_TfliteCounters_t;

// These return 0 or a QNN error code; qnnrt_tflite_error() says what was wrong in the thread's last
// one. Not while an interpreter of the delegate is running.
QNN_API const char* qnnrt_tflite_error(void);
// Inputs and outputs of live partitions: at most capacity of them; count receives how many there
// are. out may be NULL when capacity is 0.
QNN_API uint64_t qnnrt_tflite_tensors(const struct TfLiteDelegate* delegate,
                                      Qnnrt_TfliteTensor_t* out, uint32_t capacity,
                                      uint32_t* count);
// Puts a tensor on a buffer of this library (qnnrt_buffer_t, an imported fd, rpcmem, or
// TfLiteQnnDelegateAllocCustomMem) from `address` on, from the next invoke until the graph is
// prepared anew with a tensor that does not fit. The buffer stays alive as long. address NULL: back
// to memory of the delegate's. Errors: 1004 alignment, size, or no such tensor; 1005 the
// application brought its memory itself; 8001 no shared memory at that address.
QNN_API uint64_t qnnrt_tflite_bind(const struct TfLiteDelegate* delegate, int32_t index,
                                   void* address, uint64_t nbytes);
QNN_API uint64_t qnnrt_tflite_counters(const struct TfLiteDelegate* delegate,
                                       Qnnrt_TfliteCounters_t* out);

#ifdef __cplusplus
}  // extern "C"
#endif
