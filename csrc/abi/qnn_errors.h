// QNN error codes by component. A component also returns the QNN_COMMON_ERROR_* codes.
//
// The comment above a code is its message, what errorGetMessage says; after "Hint:" stands what
// usually causes it and what to do, which Python's exceptions say, too. Without a comment the
// message is the code's name in words. tools/abi.py makes the tables of C++ and Python out of this.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

// First and last code of each component.
#define QNN_ERROR_RANGE_COMMON_MIN 1000u
#define QNN_ERROR_RANGE_COMMON_MAX 1999u
#define QNN_ERROR_RANGE_PROPERTY_MIN 2000u
#define QNN_ERROR_RANGE_PROPERTY_MAX 2999u
#define QNN_ERROR_RANGE_OP_PACKAGE_MIN 3000u
#define QNN_ERROR_RANGE_OP_PACKAGE_MAX 3999u
#define QNN_ERROR_RANGE_BACKEND_MIN 4000u
#define QNN_ERROR_RANGE_BACKEND_MAX 4999u
#define QNN_ERROR_RANGE_BACKEND_SAVER_MIN 4950u
#define QNN_ERROR_RANGE_BACKEND_SAVER_MAX 4998u
#define QNN_ERROR_RANGE_CONTEXT_MIN 5000u
#define QNN_ERROR_RANGE_CONTEXT_MAX 5999u
#define QNN_ERROR_RANGE_GRAPH_MIN 6000u
#define QNN_ERROR_RANGE_GRAPH_MAX 6999u
#define QNN_ERROR_RANGE_TENSOR_MIN 7000u
#define QNN_ERROR_RANGE_TENSOR_MAX 7999u
#define QNN_ERROR_RANGE_MEM_MIN 8000u
#define QNN_ERROR_RANGE_MEM_MAX 8999u
#define QNN_ERROR_RANGE_SIGNAL_MIN 9000u
#define QNN_ERROR_RANGE_SIGNAL_MAX 9999u
#define QNN_ERROR_RANGE_ERROR_MIN 10000u
#define QNN_ERROR_RANGE_ERROR_MAX 10999u
#define QNN_ERROR_RANGE_LOG_MIN 11000u
#define QNN_ERROR_RANGE_LOG_MAX 11999u
#define QNN_ERROR_RANGE_PROFILE_MIN 12000u
#define QNN_ERROR_RANGE_PROFILE_MAX 12999u
#define QNN_ERROR_RANGE_PERF_INFRASTRUCTURE_MIN 13000u
#define QNN_ERROR_RANGE_PERF_INFRASTRUCTURE_MAX 13999u
#define QNN_ERROR_RANGE_DEVICE_MIN 14000u
#define QNN_ERROR_RANGE_DEVICE_MAX 14999u
#define QNN_ERROR_RANGE_GLOBAL_CONFIG_MIN 15000u
#define QNN_ERROR_RANGE_GLOBAL_CONFIG_MAX 15999u
#define QNN_ERROR_RANGE_SYSTEM_MIN 30000u
#define QNN_ERROR_RANGE_SYSTEM_MAX 49999u
#define QNN_ERROR_RANGE_INTERFACE_MIN 60000u
#define QNN_ERROR_RANGE_INTERFACE_MAX 60999u

typedef enum QnnCommon_Error_t {
  // this backend does not support the call or feature
  // Hint: this backend does not offer the feature; ask has_capability() first
  QNN_COMMON_ERROR_NOT_SUPPORTED = 1000,
  // out of memory
  // Hint: out of memory, on the host or on the device: close sessions or buffers you no longer
  // need, or reuse registered buffers
  QNN_COMMON_ERROR_MEM_ALLOC = 1002,
  // a system call failed
  QNN_COMMON_ERROR_SYSTEM = 1003,
  // an argument is invalid
  QNN_COMMON_ERROR_INVALID_ARGUMENT = 1004,
  // the operation is not permitted now: the object is in use or belongs to another process
  // Hint: something else still uses the object: finish or release that first
  QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED = 1005,
  // the platform is not supported
  QNN_COMMON_ERROR_PLATFORM_NOT_SUPPORTED = 1006,
  // communication with the accelerator broke and was restored: create the objects again
  // Hint: the accelerator restarted: make a new session and try again
  QNN_COMMON_ERROR_SYSTEM_COMMUNICATION = 1007,
  // the binaries do not fit together
  // Hint: the context binary was made for another machine's kernels: build it again on this one
  QNN_COMMON_ERROR_INCOMPATIBLE_BINARIES = 1008,
  // a binary could not be loaded
  QNN_COMMON_ERROR_LOADING_BINARIES = 1009,
  // a resource is not available
  QNN_COMMON_ERROR_RESOURCE_UNAVAILABLE = 1010,
  // communication with the accelerator is lost
  // Hint: the accelerator is gone: restart the process
  QNN_COMMON_ERROR_SYSTEM_COMMUNICATION_FATAL = 1011,
  // general failure
  QNN_COMMON_ERROR_GENERAL = 1100,
} QnnCommon_Error_t;

typedef enum QnnBackend_Error_t {
  QNN_BACKEND_NO_ERROR = 0,
  QNN_BACKEND_ERROR_MEM_ALLOC = 1002,
  QNN_BACKEND_ERROR_UNSUPPORTED_PLATFORM = 1006,
  // Hint: the backend found no device that it can drive
  QNN_BACKEND_ERROR_CANNOT_INITIALIZE = 4000,
  QNN_BACKEND_ERROR_TERMINATE_FAILED = 4002,
  QNN_BACKEND_ERROR_NOT_SUPPORTED = 4003,
  QNN_BACKEND_ERROR_INVALID_ARGUMENT = 4004,
  // no op package has this op
  // Hint: the op type or its package is unknown to this backend; see Backend.supported_ops
  QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND = 4005,
  QNN_BACKEND_ERROR_OP_PACKAGE_IF_PROVIDER_NOT_FOUND = 4006,
  QNN_BACKEND_ERROR_OP_PACKAGE_REGISTRATION_FAILED = 4007,
  QNN_BACKEND_ERROR_OP_PACKAGE_UNSUPPORTED_VERSION = 4008,
  QNN_BACKEND_ERROR_OP_PACKAGE_DUPLICATE = 4009,
  QNN_BACKEND_ERROR_INCONSISTENT_CONFIG = 4010,
  // this is no live backend handle
  QNN_BACKEND_ERROR_INVALID_HANDLE = 4011,
  QNN_BACKEND_ERROR_INVALID_CONFIG = 4012,
} QnnBackend_Error_t;

typedef enum QnnMem_Error_t {
  QNN_MEM_NO_ERROR = 0,
  QNN_MEM_ERROR_NOT_SUPPORTED = 1000,
  // memory descriptor: an argument is invalid (null array, wrong whole-buffer size, range beyond
  // the buffer)
  // Hint: the descriptor does not fit the buffer: for shared buffers `size` is the whole buffer
  // behind the fd, not the tensor, and offset + bytes(shape, dtype) must lie inside it
  QNN_MEM_ERROR_INVALID_ARGUMENT = 8000,
  // the memory handle, or the context handle, is not live
  // Hint: the handle was deregistered already, or its context is gone
  QNN_MEM_ERROR_INVALID_HANDLE = 8001,
  // this memory is registered in the context already
  // Hint: this memory is registered in the context already: keep that handle, or use
  // get_or_register()
  QNN_MEM_ERROR_ALREADY_REGISTERED = 8002,
  // the fd could not be mapped, or no longer covers the buffer
  // Hint: the fd cannot be mapped: it may be closed, shrunk, no shareable memory, or the device's
  // address space may be full
  QNN_MEM_ERROR_MAPPING = 8003,
  // the shape is not acceptable
  // Hint: the shape is not acceptable, for example empty or misaligned
  QNN_MEM_ERROR_INVALID_SHAPE = 8004,
  // this memory type is not supported by the backend
  // Hint: use one of the memory types that has_capability() reports
  QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE = 8005,
} QnnMem_Error_t;

typedef enum QnnContext_Error_t {
  QNN_CONTEXT_NO_ERROR = 0,
  QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE = 1000,
  QNN_CONTEXT_ERROR_MEM_ALLOC = 1002,
  QNN_CONTEXT_ERROR_INVALID_ARGUMENT = 5000,
  QNN_CONTEXT_ERROR_CTX_DOES_NOT_EXIST = 5001,
  // this is no live context handle
  QNN_CONTEXT_ERROR_INVALID_HANDLE = 5002,
  QNN_CONTEXT_ERROR_NOT_FINALIZED = 5003,
  // Hint: the context binary was made for another version: build it again
  QNN_CONTEXT_ERROR_BINARY_VERSION = 5004,
  // Hint: the context binary is damaged, or not one of this library at all
  QNN_CONTEXT_ERROR_CREATE_FROM_BINARY = 5005,
  QNN_CONTEXT_ERROR_GET_BINARY_SIZE_FAILED = 5006,
  QNN_CONTEXT_ERROR_GET_BINARY_FAILED = 5007,
  // Hint: the context binary was made for another backend: build it again for this one
  QNN_CONTEXT_ERROR_BINARY_CONFIGURATION = 5008,
  QNN_CONTEXT_ERROR_SET_PROFILE = 5009,
  // Hint: an option of the context has a value that the backend does not take
  QNN_CONTEXT_ERROR_INVALID_CONFIG = 5010,
  // Hint: the context binary runs, but not at its best, which STRICT refuses: build it again here
  QNN_CONTEXT_ERROR_BINARY_SUBOPTIMAL = 5011,
  QNN_CONTEXT_ERROR_ABORTED = 5012,
  QNN_CONTEXT_ERROR_TIMED_OUT = 5013,
  QNN_CONTEXT_ERROR_INCREMENT_INVALID_BUFFER = 5014,
} QnnContext_Error_t;

typedef enum QnnDevice_Error_t {
  QNN_DEVICE_ERROR_UNSUPPORTED_FEATURE = 1000,
  QNN_DEVICE_ERROR_MEM_ALLOC = 1002,
  QNN_DEVICE_ERROR_INVALID_ARGUMENT = 1004,
  QNN_DEVICE_ERROR_INVALID_HANDLE = 14000,
  QNN_DEVICE_ERROR_INVALID_CONFIG = 14001,
  QNN_DEVICE_ERROR_HARDWARE_UNAVAILABLE = 14002,
  QNN_DEVICE_ERROR_ASSOCIATED_TO_CONTEXT = 14003,
  QNN_DEVICE_NO_ERROR = 0,
} QnnDevice_Error_t;

typedef enum QnnError_Error_t {
  QNN_ERROR_NO_ERROR = 0,
  QNN_ERROR_INVALID_ARGUMENT = 10000,
  // the error handle is unknown
  QNN_ERROR_INVALID_ERROR_HANDLE = 10001,
} QnnError_Error_t;

typedef enum QnnGlobalConfig_Error_t {
  QNN_GLOBAL_CONFIG_NO_ERROR = 0,
  QNN_GLOBAL_CONFIG_ERROR_INVALID_CONFIG = 15000,
} QnnGlobalConfig_Error_t;

typedef enum QnnGraph_Error_t {
  QNN_GRAPH_NO_ERROR = 0,
  QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE = 1000,
  QNN_GRAPH_ERROR_MEM_ALLOC = 1002,
  QNN_GRAPH_ERROR_GENERAL = 1100,
  QNN_GRAPH_ERROR_INVALID_ARGUMENT = 6000,
  // this is no live graph handle
  QNN_GRAPH_ERROR_INVALID_HANDLE = 6001,
  QNN_GRAPH_ERROR_GRAPH_DOES_NOT_EXIST = 6002,
  QNN_GRAPH_ERROR_INVALID_NAME = 6003,
  // a tensor does not fit the graph: its id, type, shape or memory
  // Hint: a tensor was not made in this graph, or its memory handle is null, stale, or of another
  // context
  QNN_GRAPH_ERROR_INVALID_TENSOR = 6004,
  // the op config breaks a rule of its op
  QNN_GRAPH_ERROR_INVALID_OP_CONFIG = 6005,
  QNN_GRAPH_ERROR_SET_PROFILE = 6006,
  // a node or output is not connected
  QNN_GRAPH_ERROR_UNCONNECTED_NODE = 6007,
  QNN_GRAPH_ERROR_CREATE_FAILED = 6020,
  QNN_GRAPH_ERROR_OPTIMIZATION_FAILED = 6021,
  QNN_GRAPH_ERROR_FINALIZE_FAILED = 6022,
  // the graph is not finalized
  // Hint: call finalize() first
  QNN_GRAPH_ERROR_GRAPH_NOT_FINALIZED = 6023,
  // the graph is finalized already
  // Hint: the graph is finalized: tensors and nodes can no longer be added
  QNN_GRAPH_ERROR_GRAPH_FINALIZED = 6024,
  // the queue of asynchronous executions is full
  // Hint: wait for an execution in flight, or create the context with a larger queue depth
  QNN_GRAPH_ERROR_EXECUTION_ASYNC_FIFO_FULL = 6025,
  // Hint: give every execution in flight a signal of its own
  QNN_GRAPH_ERROR_SIGNAL_IN_USE = 6030,
  // Hint: the execution was aborted through its signal
  QNN_GRAPH_ERROR_ABORTED = 6031,
  QNN_GRAPH_ERROR_PROFILE_IN_USE = 6032,
  // Hint: the execution took longer than its signal allows
  QNN_GRAPH_ERROR_TIMED_OUT = 6033,
  QNN_GRAPH_ERROR_SUBGRAPH = 6034,
  QNN_GRAPH_ERROR_DISABLED = 6035,
  QNN_GRAPH_ERROR_DYNAMIC_TENSOR_SHAPE = 6036,
  QNN_GRAPH_ERROR_TENSOR_SPARSITY = 6037,
  // Hint: a blocking Buffer is not full yet: execute again with the next frames; it keeps these
  QNN_GRAPH_ERROR_EARLY_TERMINATION = 6038,
  // the context of the graph is gone
  // Hint: the graph's context has been freed
  QNN_GRAPH_ERROR_INVALID_CONTEXT = 6039,
} QnnGraph_Error_t;

typedef enum QnnLog_Error_t {
  QNN_LOG_NO_ERROR = 0,
  QNN_LOG_ERROR_MEM_ALLOC = 1002,
  QNN_LOG_ERROR_INITIALIZATION = 11002,
  QNN_LOG_ERROR_INVALID_ARGUMENT = 11003,
  QNN_LOG_ERROR_INVALID_HANDLE = 11004,
} QnnLog_Error_t;

typedef enum QnnProfile_Error_t {
  QNN_PROFILE_NO_ERROR = 0,
  QNN_PROFILE_ERROR_UNSUPPORTED = 1000,
  QNN_PROFILE_ERROR_INVALID_ARGUMENT = 1004,
  QNN_PROFILE_ERROR_MEM_ALLOC = 1002,
  // this is no live profile handle
  QNN_PROFILE_ERROR_INVALID_HANDLE = 12000,
  // the profile handle is in use
  QNN_PROFILE_ERROR_HANDLE_IN_USE = 12001,
  QNN_PROFILE_ERROR_INCOMPATIBLE_EVENT = 12002,
} QnnProfile_Error_t;

typedef enum QnnProperty_Error_t {
  QNN_PROPERTY_NO_ERROR = 0,
  QNN_PROPERTY_SUPPORTED = 0,
  QNN_PROPERTY_NOT_SUPPORTED = 1000,
  // the property key is unknown
  QNN_PROPERTY_ERROR_UNKNOWN_KEY = 2000,
} QnnProperty_Error_t;

typedef enum QnnSignal_Error_t {
  QNN_SIGNAL_NO_ERROR = 0,
  QNN_SIGNAL_ERROR_UNSUPPORTED = 1000,
  // Hint: wait for the execution that uses the signal
  QNN_SIGNAL_ERROR_SIGNAL_IN_USE = 9000,
  // Hint: nothing runs with this signal
  QNN_SIGNAL_ERROR_SIGNAL_IDLE = 9001,
  QNN_SIGNAL_ERROR_INVALID_ARGUMENT = 9002,
  QNN_SIGNAL_ERROR_INVALID_HANDLE = 9003,
  QNN_SIGNAL_ERROR_TIMEOUT = 9004,
  // Hint: a signal is for abort or for a timeout, not both
  QNN_SIGNAL_ERROR_INCOMPATIBLE_SIGNAL_TYPE = 9005,
  QNN_SIGNAL_ERROR_MEM_ALLOC = 1002,
} QnnSignal_Error_t;

typedef enum QnnTensor_Error_t {
  QNN_TENSOR_NO_ERROR = 0,
  // this is no live handle
  QNN_TENSOR_ERROR_INVALID_HANDLE = 7001,
  QNN_TENSOR_ERROR_DOES_NOT_EXIST = 7002,
  // a tensor of this name exists already
  // Hint: another tensor has this name: names are unique in a graph
  QNN_TENSOR_ERROR_ALREADY_EXISTS = 7003,
  QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM = 7004,
  QNN_TENSOR_ERROR_UNSUPPORTED_TENSOR_PARAM = 7005,
  QNN_TENSOR_ERROR_NAME_HASH_COLLISION = 7006,
  QNN_TENSOR_ERROR_INCOMPATIBLE_TENSOR_UPDATE = 7007,
  QNN_TENSOR_ERROR_UNSUPPORTED_FEATURE = 1000,
} QnnTensor_Error_t;

typedef enum QnnOpPackage_Error_t {
  QNN_OP_PACKAGE_NO_ERROR = 0,
  QNN_OP_PACKAGE_ERROR_UNSUPPORTED_FEATURE = 1000,
  QNN_OP_PACKAGE_ERROR_LIBRARY_ALREADY_INITIALIZED = 3000,
  QNN_OP_PACKAGE_ERROR_LIBRARY_NOT_INITIALIZED = 3001,
  QNN_OP_PACKAGE_ERROR_INVALID_HANDLE = 3002,
  QNN_OP_PACKAGE_ERROR_INVALID_INFRASTRUCTURE = 3100,
  QNN_OP_PACKAGE_ERROR_INVALID_INFO = 3101,
  // the op config is not valid for this backend
  // Hint: the op does not take this combination of types, shapes or parameters
  QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE = 3110,
  QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT = 3200,
  QNN_OP_PACKAGE_ERROR_GENERAL = 1100,
} QnnOpPackage_Error_t;

typedef enum QnnInterface_Error_t {
  QNN_INTERFACE_NO_ERROR = 0,
  QNN_INTERFACE_ERROR_NOT_SUPPORTED = 1000,
  QNN_INTERFACE_ERROR_INVALID_PARAMETER = 1004,
} QnnInterface_Error_t;

typedef enum QnnSystemCommon_Error_t {
  QNN_SYSTEM_COMMON_NO_ERROR = 0,
  QNN_SYSTEM_COMMON_ERROR_UNSUPPORTED_FEATURE = 1000,
  QNN_SYSTEM_COMMON_ERROR_INVALID_HANDLE = 30000,
  QNN_SYSTEM_COMMON_ERROR_INVALID_ARGUMENT = 30001,
} QnnSystemCommon_Error_t;

typedef enum QnnSystemContext_Error_t {
  QNN_SYSTEM_CONTEXT_NO_ERROR = 0,
  QNN_SYSTEM_CONTEXT_ERROR_UNSUPPORTED_FEATURE = 1000,
  QNN_SYSTEM_CONTEXT_ERROR_INVALID_HANDLE = 30000,
  QNN_SYSTEM_CONTEXT_ERROR_INVALID_ARGUMENT = 30001,
  QNN_SYSTEM_CONTEXT_ERROR_OPERATION_FAILED = 30002,
  // Hint: the context binary is damaged, not one at all, or of another maker: describe it with
  // that maker's libQnnSystem.so
  QNN_SYSTEM_CONTEXT_ERROR_MALFORMED_BINARY = 30010,
} QnnSystemContext_Error_t;

typedef enum QnnSystemDlc_Error_t {
  QNN_SYSTEM_DLC_NO_ERROR = 0,
  QNN_SYSTEM_DLC_ERROR_UNSUPPORTED_FEATURE = 1000,
  QNN_SYSTEM_DLC_ERROR_INVALID_HANDLE = 30000,
  QNN_SYSTEM_DLC_ERROR_INVALID_ARGUMENT = 30001,
  QNN_SYSTEM_DLC_ERROR_OPERATION_FAILED = 30002,
  QNN_SYSTEM_DLC_ERROR_MALFORMED_BINARY = 30010,
} QnnSystemDlc_Error_t;

typedef enum QnnSystemProfile_Error_t {
  QNN_SYSTEM_PROFILE_NO_ERROR = 0,
  QNN_SYSTEM_PROFILE_ERROR_UNSUPPORTED_FEATURE = 1000,
  QNN_SYSTEM_PROFILE_ERROR_INVALID_HANDLE = 30000,
  QNN_SYSTEM_PROFILE_ERROR_INVALID_ARGUMENT = 30001,
  QNN_SYSTEM_PROFILE_ERROR_MEM_ALLOC = 31000,
} QnnSystemProfile_Error_t;

typedef enum QnnSystemTensor_Error_t {
  QNN_SYSTEM_TENSOR_NO_ERROR = 0,
  QNN_SYSTEM_TENSOR_ERROR_UNSUPPORTED_FEATURE = 1000,
  QNN_SYSTEM_TENSOR_ERROR_INVALID_ARGUMENT = 30001,
  QNN_SYSTEM_TENSOR_ERROR_INVALID_TENSOR = 30002,
} QnnSystemTensor_Error_t;

typedef enum QnnSystemInterface_Error_t {
  QNN_SYSTEM_INTERFACE_NO_ERROR = 0,
  QNN_SYSTEM_INTERFACE_ERROR_NOT_SUPPORTED = 1000,
  QNN_SYSTEM_INTERFACE_ERROR_INVALID_PARAMETER = 1004,
} QnnSystemInterface_Error_t;

typedef enum QnnHtpPerfInfrastructure_Error_t {
  QNN_HTP_PERF_INFRASTRUCTURE_NO_ERROR = 0,
  QNN_HTP_PERF_INFRASTRUCTURE_ERROR_INVALID_HANDLE_PTR = 13000,
  QNN_HTP_PERF_INFRASTRUCTURE_ERROR_INVALID_INPUT = 13001,
  QNN_HTP_PERF_INFRASTRUCTURE_ERROR_UNSUPPORTED_CONFIG = 13002,
  QNN_HTP_PERF_INFRASTRUCTURE_ERROR_TRANSPORT = 13003,
  QNN_HTP_PERF_INFRASTRUCTURE_ERROR_UNSUPPORTED = 13004,
  QNN_HTP_PERF_INFRASTRUCTURE_ERROR_MEM_ALLOC = 13005,
  QNN_HTP_PERF_INFRASTRUCTURE_ERROR_FAILED = 13006,
} QnnHtpPerfInfrastructure_Error_t;

typedef enum QnnSaver_Error_t {
  QNN_SAVER_ERROR_DUMMY_RETVALUE = 4950,
  QNN_SAVER_ERROR_ALREADY_INSTANTIATED = 4951,
} QnnSaver_Error_t;

#ifdef __cplusplus
}  // extern "C"
#endif
