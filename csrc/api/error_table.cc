#include "api/error_table.h"

#include <algorithm>
#include <iterator>

namespace qnnrt {
namespace {

struct Entry {
  uint32_t code;
  const char* name;
  const char* message;
};

// By code. Codes that several components share (1000 to 1100) stand once, under their common name.
constexpr Entry kErrors[] = {
    {1000, "QNN_COMMON_ERROR_NOT_SUPPORTED", "this backend does not support the call or feature"},
    {1002, "QNN_COMMON_ERROR_MEM_ALLOC", "out of memory"},
    {1003, "QNN_COMMON_ERROR_SYSTEM", "a system call failed"},
    {1004, "QNN_COMMON_ERROR_INVALID_ARGUMENT", "an argument is invalid"},
    {1005, "QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED",
     "the operation is not permitted now: the object is in use or belongs to another process"},
    {1006, "QNN_COMMON_ERROR_PLATFORM_NOT_SUPPORTED", "the platform is not supported"},
    {1007, "QNN_COMMON_ERROR_SYSTEM_COMMUNICATION",
     "communication with the accelerator broke and was restored: create the objects again"},
    {1008, "QNN_COMMON_ERROR_INCOMPATIBLE_BINARIES", "the binaries do not fit together"},
    {1009, "QNN_COMMON_ERROR_LOADING_BINARIES", "a binary could not be loaded"},
    {1010, "QNN_COMMON_ERROR_RESOURCE_UNAVAILABLE", "a resource is not available"},
    {1011, "QNN_COMMON_ERROR_SYSTEM_COMMUNICATION_FATAL",
     "communication with the accelerator is lost"},
    {1100, "QNN_COMMON_ERROR_GENERAL", "general failure"},
    {2000, "QNN_PROPERTY_ERROR_UNKNOWN_KEY", "the property key is unknown"},
    {3000, "QNN_OP_PACKAGE_ERROR_LIBRARY_ALREADY_INITIALIZED",
     "op package: library already initialized"},
    {3001, "QNN_OP_PACKAGE_ERROR_LIBRARY_NOT_INITIALIZED", "op package: library not initialized"},
    {3002, "QNN_OP_PACKAGE_ERROR_INVALID_HANDLE", "op package: invalid handle"},
    {3100, "QNN_OP_PACKAGE_ERROR_INVALID_INFRASTRUCTURE", "op package: invalid infrastructure"},
    {3101, "QNN_OP_PACKAGE_ERROR_INVALID_INFO", "op package: invalid info"},
    {3110, "QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE",
     "the op config is not valid for this backend"},
    {3200, "QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT", "op package: invalid argument"},
    {4000, "QNN_BACKEND_ERROR_CANNOT_INITIALIZE", "backend: cannot initialize"},
    {4002, "QNN_BACKEND_ERROR_TERMINATE_FAILED", "backend: terminate failed"},
    {4003, "QNN_BACKEND_ERROR_NOT_SUPPORTED", "backend: not supported"},
    {4004, "QNN_BACKEND_ERROR_INVALID_ARGUMENT", "backend: invalid argument"},
    {4005, "QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND", "no op package has this op"},
    {4006, "QNN_BACKEND_ERROR_OP_PACKAGE_IF_PROVIDER_NOT_FOUND",
     "backend: op package if provider not found"},
    {4007, "QNN_BACKEND_ERROR_OP_PACKAGE_REGISTRATION_FAILED",
     "backend: op package registration failed"},
    {4008, "QNN_BACKEND_ERROR_OP_PACKAGE_UNSUPPORTED_VERSION",
     "backend: op package unsupported version"},
    {4009, "QNN_BACKEND_ERROR_OP_PACKAGE_DUPLICATE", "backend: op package duplicate"},
    {4010, "QNN_BACKEND_ERROR_INCONSISTENT_CONFIG", "backend: inconsistent config"},
    {4011, "QNN_BACKEND_ERROR_INVALID_HANDLE", "this is no live backend handle"},
    {4012, "QNN_BACKEND_ERROR_INVALID_CONFIG", "backend: invalid config"},
    {4950, "QNN_SAVER_ERROR_DUMMY_RETVALUE", "dummy retvalue"},
    {4951, "QNN_SAVER_ERROR_ALREADY_INSTANTIATED", "already instantiated"},
    {5000, "QNN_CONTEXT_ERROR_INVALID_ARGUMENT", "context: invalid argument"},
    {5001, "QNN_CONTEXT_ERROR_CTX_DOES_NOT_EXIST", "context: ctx does not exist"},
    {5002, "QNN_CONTEXT_ERROR_INVALID_HANDLE", "this is no live context handle"},
    {5003, "QNN_CONTEXT_ERROR_NOT_FINALIZED", "context: not finalized"},
    {5004, "QNN_CONTEXT_ERROR_BINARY_VERSION", "context: binary version"},
    {5005, "QNN_CONTEXT_ERROR_CREATE_FROM_BINARY", "context: create from binary"},
    {5006, "QNN_CONTEXT_ERROR_GET_BINARY_SIZE_FAILED", "context: get binary size failed"},
    {5007, "QNN_CONTEXT_ERROR_GET_BINARY_FAILED", "context: get binary failed"},
    {5008, "QNN_CONTEXT_ERROR_BINARY_CONFIGURATION", "context: binary configuration"},
    {5009, "QNN_CONTEXT_ERROR_SET_PROFILE", "context: set profile"},
    {5010, "QNN_CONTEXT_ERROR_INVALID_CONFIG", "context: invalid config"},
    {5011, "QNN_CONTEXT_ERROR_BINARY_SUBOPTIMAL", "context: binary suboptimal"},
    {5012, "QNN_CONTEXT_ERROR_ABORTED", "context: aborted"},
    {5013, "QNN_CONTEXT_ERROR_TIMED_OUT", "context: timed out"},
    {5014, "QNN_CONTEXT_ERROR_INCREMENT_INVALID_BUFFER", "context: increment invalid buffer"},
    {6000, "QNN_GRAPH_ERROR_INVALID_ARGUMENT", "graph: invalid argument"},
    {6001, "QNN_GRAPH_ERROR_INVALID_HANDLE", "this is no live graph handle"},
    {6002, "QNN_GRAPH_ERROR_GRAPH_DOES_NOT_EXIST", "graph: graph does not exist"},
    {6003, "QNN_GRAPH_ERROR_INVALID_NAME", "graph: invalid name"},
    {6004, "QNN_GRAPH_ERROR_INVALID_TENSOR",
     "a tensor does not fit the graph: its id, type, shape or memory"},
    {6005, "QNN_GRAPH_ERROR_INVALID_OP_CONFIG", "the op config breaks a rule of its op"},
    {6006, "QNN_GRAPH_ERROR_SET_PROFILE", "graph: set profile"},
    {6007, "QNN_GRAPH_ERROR_UNCONNECTED_NODE", "a node or output is not connected"},
    {6020, "QNN_GRAPH_ERROR_CREATE_FAILED", "graph: create failed"},
    {6021, "QNN_GRAPH_ERROR_OPTIMIZATION_FAILED", "graph: optimization failed"},
    {6022, "QNN_GRAPH_ERROR_FINALIZE_FAILED", "graph: finalize failed"},
    {6023, "QNN_GRAPH_ERROR_GRAPH_NOT_FINALIZED", "the graph is not finalized"},
    {6024, "QNN_GRAPH_ERROR_GRAPH_FINALIZED", "the graph is finalized already"},
    {6025, "QNN_GRAPH_ERROR_EXECUTION_ASYNC_FIFO_FULL",
     "the queue of asynchronous executions is full"},
    {6030, "QNN_GRAPH_ERROR_SIGNAL_IN_USE", "graph: signal in use"},
    {6031, "QNN_GRAPH_ERROR_ABORTED", "graph: aborted"},
    {6032, "QNN_GRAPH_ERROR_PROFILE_IN_USE", "graph: profile in use"},
    {6033, "QNN_GRAPH_ERROR_TIMED_OUT", "graph: timed out"},
    {6034, "QNN_GRAPH_ERROR_SUBGRAPH", "graph: subgraph"},
    {6035, "QNN_GRAPH_ERROR_DISABLED", "graph: disabled"},
    {6036, "QNN_GRAPH_ERROR_DYNAMIC_TENSOR_SHAPE", "graph: dynamic tensor shape"},
    {6037, "QNN_GRAPH_ERROR_TENSOR_SPARSITY", "graph: tensor sparsity"},
    {6038, "QNN_GRAPH_ERROR_EARLY_TERMINATION", "graph: early termination"},
    {6039, "QNN_GRAPH_ERROR_INVALID_CONTEXT", "the context of the graph is gone"},
    {7001, "QNN_TENSOR_ERROR_INVALID_HANDLE", "this is no live handle"},
    {7002, "QNN_TENSOR_ERROR_DOES_NOT_EXIST", "tensor: does not exist"},
    {7003, "QNN_TENSOR_ERROR_ALREADY_EXISTS", "a tensor of this name exists already"},
    {7004, "QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM", "tensor: invalid tensor param"},
    {7005, "QNN_TENSOR_ERROR_UNSUPPORTED_TENSOR_PARAM", "tensor: unsupported tensor param"},
    {7006, "QNN_TENSOR_ERROR_NAME_HASH_COLLISION", "tensor: name hash collision"},
    {7007, "QNN_TENSOR_ERROR_INCOMPATIBLE_TENSOR_UPDATE", "tensor: incompatible tensor update"},
    {8000, "QNN_MEM_ERROR_INVALID_ARGUMENT",
     "memory descriptor: an argument is invalid (null array, wrong whole-buffer size, range beyond "
     "the buffer)"},
    {8001, "QNN_MEM_ERROR_INVALID_HANDLE", "the memory handle, or the context handle, is not live"},
    {8002, "QNN_MEM_ERROR_ALREADY_REGISTERED", "this memory is registered in the context already"},
    {8003, "QNN_MEM_ERROR_MAPPING", "the fd could not be mapped, or no longer covers the buffer"},
    {8004, "QNN_MEM_ERROR_INVALID_SHAPE", "the shape is not acceptable"},
    {8005, "QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE", "this memory type is not supported by the backend"},
    {9000, "QNN_SIGNAL_ERROR_SIGNAL_IN_USE", "signal: signal in use"},
    {9001, "QNN_SIGNAL_ERROR_SIGNAL_IDLE", "signal: signal idle"},
    {9002, "QNN_SIGNAL_ERROR_INVALID_ARGUMENT", "signal: invalid argument"},
    {9003, "QNN_SIGNAL_ERROR_INVALID_HANDLE", "signal: invalid handle"},
    {9004, "QNN_SIGNAL_ERROR_TIMEOUT", "signal: timeout"},
    {9005, "QNN_SIGNAL_ERROR_INCOMPATIBLE_SIGNAL_TYPE", "signal: incompatible signal type"},
    {10000, "QNN_ERROR_INVALID_ARGUMENT", "error: invalid argument"},
    {10001, "QNN_ERROR_INVALID_ERROR_HANDLE", "the error handle is unknown"},
    {11002, "QNN_LOG_ERROR_INITIALIZATION", "log: initialization"},
    {11003, "QNN_LOG_ERROR_INVALID_ARGUMENT", "log: invalid argument"},
    {11004, "QNN_LOG_ERROR_INVALID_HANDLE", "log: invalid handle"},
    {12000, "QNN_PROFILE_ERROR_INVALID_HANDLE", "this is no live profile handle"},
    {12001, "QNN_PROFILE_ERROR_HANDLE_IN_USE", "the profile handle is in use"},
    {12002, "QNN_PROFILE_ERROR_INCOMPATIBLE_EVENT", "profile: incompatible event"},
    {13000, "QNN_HTP_PERF_INFRASTRUCTURE_ERROR_INVALID_HANDLE_PTR", "invalid handle ptr"},
    {13001, "QNN_HTP_PERF_INFRASTRUCTURE_ERROR_INVALID_INPUT", "invalid input"},
    {13002, "QNN_HTP_PERF_INFRASTRUCTURE_ERROR_UNSUPPORTED_CONFIG", "unsupported config"},
    {13003, "QNN_HTP_PERF_INFRASTRUCTURE_ERROR_TRANSPORT", "transport"},
    {13004, "QNN_HTP_PERF_INFRASTRUCTURE_ERROR_UNSUPPORTED", "unsupported"},
    {13005, "QNN_HTP_PERF_INFRASTRUCTURE_ERROR_MEM_ALLOC", "mem alloc"},
    {13006, "QNN_HTP_PERF_INFRASTRUCTURE_ERROR_FAILED", "failed"},
    {14000, "QNN_DEVICE_ERROR_INVALID_HANDLE", "device: invalid handle"},
    {14001, "QNN_DEVICE_ERROR_INVALID_CONFIG", "device: invalid config"},
    {14002, "QNN_DEVICE_ERROR_HARDWARE_UNAVAILABLE", "device: hardware unavailable"},
    {14003, "QNN_DEVICE_ERROR_ASSOCIATED_TO_CONTEXT", "device: associated to context"},
    {15000, "QNN_GLOBAL_CONFIG_ERROR_INVALID_CONFIG", "global config: invalid config"},
    {30000, "QNN_SYSTEM_COMMON_ERROR_INVALID_HANDLE", "invalid handle"},
    {30001, "QNN_SYSTEM_COMMON_ERROR_INVALID_ARGUMENT", "invalid argument"},
    {30002, "QNN_SYSTEM_CONTEXT_ERROR_OPERATION_FAILED", "operation failed"},
    {30010, "QNN_SYSTEM_CONTEXT_ERROR_MALFORMED_BINARY", "malformed binary"},
    {31000, "QNN_SYSTEM_PROFILE_ERROR_MEM_ALLOC", "mem alloc"},
};

const Entry* Find(uint32_t code) {
  const Entry* found = std::lower_bound(std::begin(kErrors), std::end(kErrors), code,
                                        [](const Entry& e, uint32_t c) { return e.code < c; });
  return found != std::end(kErrors) && found->code == code ? found : nullptr;
}

}  // namespace

const char* ErrorName(uint32_t code) {
  const Entry* found = Find(code);
  return found == nullptr ? nullptr : found->name;
}

const char* ErrorMessage(uint32_t code) {
  const Entry* found = Find(code);
  return found == nullptr ? nullptr : found->message;
}

}  // namespace qnnrt
