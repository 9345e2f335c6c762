"""QNN's error codes, made by tools/abi.py; do not edit: csrc/abi/qnn_errors.h has them."""

from typing import Final

# fmt: off

#: What every component may return.
COMMON: Final = {
    1000: "QNN_COMMON_ERROR_NOT_SUPPORTED", 1002: "QNN_COMMON_ERROR_MEM_ALLOC",
    1003: "QNN_COMMON_ERROR_SYSTEM", 1004: "QNN_COMMON_ERROR_INVALID_ARGUMENT",
    1005: "QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED",
    1006: "QNN_COMMON_ERROR_PLATFORM_NOT_SUPPORTED", 1007: "QNN_COMMON_ERROR_SYSTEM_COMMUNICATION",
    1008: "QNN_COMMON_ERROR_INCOMPATIBLE_BINARIES", 1009: "QNN_COMMON_ERROR_LOADING_BINARIES",
    1010: "QNN_COMMON_ERROR_RESOURCE_UNAVAILABLE",
    1011: "QNN_COMMON_ERROR_SYSTEM_COMMUNICATION_FATAL", 1100: "QNN_COMMON_ERROR_GENERAL",
}
#: component -> (its first and last code, the names of what it returns). A component
#: within another one's range stands before that.
COMPONENTS: Final[dict[str, tuple[int, int, dict[int, str]]]] = {
    "property": (2000, 2999, {
        1000: "QNN_PROPERTY_NOT_SUPPORTED", 2000: "QNN_PROPERTY_ERROR_UNKNOWN_KEY",
    }),
    "op_package": (3000, 3999, {
        1000: "QNN_OP_PACKAGE_ERROR_UNSUPPORTED_FEATURE", 1100: "QNN_OP_PACKAGE_ERROR_GENERAL",
        3000: "QNN_OP_PACKAGE_ERROR_LIBRARY_ALREADY_INITIALIZED",
        3001: "QNN_OP_PACKAGE_ERROR_LIBRARY_NOT_INITIALIZED",
        3002: "QNN_OP_PACKAGE_ERROR_INVALID_HANDLE",
        3100: "QNN_OP_PACKAGE_ERROR_INVALID_INFRASTRUCTURE",
        3101: "QNN_OP_PACKAGE_ERROR_INVALID_INFO", 3110: "QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE",
        3200: "QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT",
    }),
    "saver": (4950, 4998, {
        4950: "QNN_SAVER_ERROR_DUMMY_RETVALUE", 4951: "QNN_SAVER_ERROR_ALREADY_INSTANTIATED",
    }),
    "backend": (4000, 4999, {
        1002: "QNN_BACKEND_ERROR_MEM_ALLOC", 1006: "QNN_BACKEND_ERROR_UNSUPPORTED_PLATFORM",
        4000: "QNN_BACKEND_ERROR_CANNOT_INITIALIZE", 4002: "QNN_BACKEND_ERROR_TERMINATE_FAILED",
        4003: "QNN_BACKEND_ERROR_NOT_SUPPORTED", 4004: "QNN_BACKEND_ERROR_INVALID_ARGUMENT",
        4005: "QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND",
        4006: "QNN_BACKEND_ERROR_OP_PACKAGE_IF_PROVIDER_NOT_FOUND",
        4007: "QNN_BACKEND_ERROR_OP_PACKAGE_REGISTRATION_FAILED",
        4008: "QNN_BACKEND_ERROR_OP_PACKAGE_UNSUPPORTED_VERSION",
        4009: "QNN_BACKEND_ERROR_OP_PACKAGE_DUPLICATE",
        4010: "QNN_BACKEND_ERROR_INCONSISTENT_CONFIG", 4011: "QNN_BACKEND_ERROR_INVALID_HANDLE",
        4012: "QNN_BACKEND_ERROR_INVALID_CONFIG",
    }),
    "context": (5000, 5999, {
        1000: "QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE", 1002: "QNN_CONTEXT_ERROR_MEM_ALLOC",
        5000: "QNN_CONTEXT_ERROR_INVALID_ARGUMENT", 5001: "QNN_CONTEXT_ERROR_CTX_DOES_NOT_EXIST",
        5002: "QNN_CONTEXT_ERROR_INVALID_HANDLE", 5003: "QNN_CONTEXT_ERROR_NOT_FINALIZED",
        5004: "QNN_CONTEXT_ERROR_BINARY_VERSION", 5005: "QNN_CONTEXT_ERROR_CREATE_FROM_BINARY",
        5006: "QNN_CONTEXT_ERROR_GET_BINARY_SIZE_FAILED",
        5007: "QNN_CONTEXT_ERROR_GET_BINARY_FAILED", 5008: "QNN_CONTEXT_ERROR_BINARY_CONFIGURATION",
        5009: "QNN_CONTEXT_ERROR_SET_PROFILE", 5010: "QNN_CONTEXT_ERROR_INVALID_CONFIG",
        5011: "QNN_CONTEXT_ERROR_BINARY_SUBOPTIMAL", 5012: "QNN_CONTEXT_ERROR_ABORTED",
        5013: "QNN_CONTEXT_ERROR_TIMED_OUT", 5014: "QNN_CONTEXT_ERROR_INCREMENT_INVALID_BUFFER",
    }),
    "graph": (6000, 6999, {
        1000: "QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE", 1002: "QNN_GRAPH_ERROR_MEM_ALLOC",
        1100: "QNN_GRAPH_ERROR_GENERAL", 6000: "QNN_GRAPH_ERROR_INVALID_ARGUMENT",
        6001: "QNN_GRAPH_ERROR_INVALID_HANDLE", 6002: "QNN_GRAPH_ERROR_GRAPH_DOES_NOT_EXIST",
        6003: "QNN_GRAPH_ERROR_INVALID_NAME", 6004: "QNN_GRAPH_ERROR_INVALID_TENSOR",
        6005: "QNN_GRAPH_ERROR_INVALID_OP_CONFIG", 6006: "QNN_GRAPH_ERROR_SET_PROFILE",
        6007: "QNN_GRAPH_ERROR_UNCONNECTED_NODE", 6020: "QNN_GRAPH_ERROR_CREATE_FAILED",
        6021: "QNN_GRAPH_ERROR_OPTIMIZATION_FAILED", 6022: "QNN_GRAPH_ERROR_FINALIZE_FAILED",
        6023: "QNN_GRAPH_ERROR_GRAPH_NOT_FINALIZED", 6024: "QNN_GRAPH_ERROR_GRAPH_FINALIZED",
        6025: "QNN_GRAPH_ERROR_EXECUTION_ASYNC_FIFO_FULL", 6030: "QNN_GRAPH_ERROR_SIGNAL_IN_USE",
        6031: "QNN_GRAPH_ERROR_ABORTED", 6032: "QNN_GRAPH_ERROR_PROFILE_IN_USE",
        6033: "QNN_GRAPH_ERROR_TIMED_OUT", 6034: "QNN_GRAPH_ERROR_SUBGRAPH",
        6035: "QNN_GRAPH_ERROR_DISABLED", 6036: "QNN_GRAPH_ERROR_DYNAMIC_TENSOR_SHAPE",
        6037: "QNN_GRAPH_ERROR_TENSOR_SPARSITY", 6038: "QNN_GRAPH_ERROR_EARLY_TERMINATION",
        6039: "QNN_GRAPH_ERROR_INVALID_CONTEXT",
    }),
    "tensor": (7000, 7999, {
        1000: "QNN_TENSOR_ERROR_UNSUPPORTED_FEATURE", 7001: "QNN_TENSOR_ERROR_INVALID_HANDLE",
        7002: "QNN_TENSOR_ERROR_DOES_NOT_EXIST", 7003: "QNN_TENSOR_ERROR_ALREADY_EXISTS",
        7004: "QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM",
        7005: "QNN_TENSOR_ERROR_UNSUPPORTED_TENSOR_PARAM",
        7006: "QNN_TENSOR_ERROR_NAME_HASH_COLLISION",
        7007: "QNN_TENSOR_ERROR_INCOMPATIBLE_TENSOR_UPDATE",
    }),
    "mem": (8000, 8999, {
        1000: "QNN_MEM_ERROR_NOT_SUPPORTED", 8000: "QNN_MEM_ERROR_INVALID_ARGUMENT",
        8001: "QNN_MEM_ERROR_INVALID_HANDLE", 8002: "QNN_MEM_ERROR_ALREADY_REGISTERED",
        8003: "QNN_MEM_ERROR_MAPPING", 8004: "QNN_MEM_ERROR_INVALID_SHAPE",
        8005: "QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE",
    }),
    "signal": (9000, 9999, {
        1000: "QNN_SIGNAL_ERROR_UNSUPPORTED", 1002: "QNN_SIGNAL_ERROR_MEM_ALLOC",
        9000: "QNN_SIGNAL_ERROR_SIGNAL_IN_USE", 9001: "QNN_SIGNAL_ERROR_SIGNAL_IDLE",
        9002: "QNN_SIGNAL_ERROR_INVALID_ARGUMENT", 9003: "QNN_SIGNAL_ERROR_INVALID_HANDLE",
        9004: "QNN_SIGNAL_ERROR_TIMEOUT", 9005: "QNN_SIGNAL_ERROR_INCOMPATIBLE_SIGNAL_TYPE",
    }),
    "error": (10000, 10999, {
        10000: "QNN_ERROR_INVALID_ARGUMENT", 10001: "QNN_ERROR_INVALID_ERROR_HANDLE",
    }),
    "log": (11000, 11999, {
        1002: "QNN_LOG_ERROR_MEM_ALLOC", 11002: "QNN_LOG_ERROR_INITIALIZATION",
        11003: "QNN_LOG_ERROR_INVALID_ARGUMENT", 11004: "QNN_LOG_ERROR_INVALID_HANDLE",
    }),
    "profile": (12000, 12999, {
        1000: "QNN_PROFILE_ERROR_UNSUPPORTED", 1002: "QNN_PROFILE_ERROR_MEM_ALLOC",
        1004: "QNN_PROFILE_ERROR_INVALID_ARGUMENT", 12000: "QNN_PROFILE_ERROR_INVALID_HANDLE",
        12001: "QNN_PROFILE_ERROR_HANDLE_IN_USE", 12002: "QNN_PROFILE_ERROR_INCOMPATIBLE_EVENT",
    }),
    "perf_infrastructure": (13000, 13999, {
        13000: "QNN_HTP_PERF_INFRASTRUCTURE_ERROR_INVALID_HANDLE_PTR",
        13001: "QNN_HTP_PERF_INFRASTRUCTURE_ERROR_INVALID_INPUT",
        13002: "QNN_HTP_PERF_INFRASTRUCTURE_ERROR_UNSUPPORTED_CONFIG",
        13003: "QNN_HTP_PERF_INFRASTRUCTURE_ERROR_TRANSPORT",
        13004: "QNN_HTP_PERF_INFRASTRUCTURE_ERROR_UNSUPPORTED",
        13005: "QNN_HTP_PERF_INFRASTRUCTURE_ERROR_MEM_ALLOC",
        13006: "QNN_HTP_PERF_INFRASTRUCTURE_ERROR_FAILED",
    }),
    "device": (14000, 14999, {
        1000: "QNN_DEVICE_ERROR_UNSUPPORTED_FEATURE", 1002: "QNN_DEVICE_ERROR_MEM_ALLOC",
        1004: "QNN_DEVICE_ERROR_INVALID_ARGUMENT", 14000: "QNN_DEVICE_ERROR_INVALID_HANDLE",
        14001: "QNN_DEVICE_ERROR_INVALID_CONFIG", 14002: "QNN_DEVICE_ERROR_HARDWARE_UNAVAILABLE",
        14003: "QNN_DEVICE_ERROR_ASSOCIATED_TO_CONTEXT",
    }),
    "global_config": (15000, 15999, {
        15000: "QNN_GLOBAL_CONFIG_ERROR_INVALID_CONFIG",
    }),
    "system": (30000, 49999, {
        1000: "QNN_SYSTEM_COMMON_ERROR_UNSUPPORTED_FEATURE",
        30000: "QNN_SYSTEM_COMMON_ERROR_INVALID_HANDLE",
        30001: "QNN_SYSTEM_COMMON_ERROR_INVALID_ARGUMENT",
        30002: "QNN_SYSTEM_COMMON_ERROR_OPERATION_FAILED",
        30010: "QNN_SYSTEM_COMMON_ERROR_MALFORMED_BINARY",
        31000: "QNN_SYSTEM_COMMON_ERROR_MEM_ALLOC",
    }),
}
#: What usually causes a code, and what to do.
HINTS: Final = {
    1000: "this backend does not offer the feature; ask has_capability() first",
    1002: "out of memory, on the host or on the device: close sessions or buffers you no longer "
    "need, or reuse registered buffers",
    1005: "something else still uses the object: finish or release that first",
    1007: "the accelerator restarted: make a new session and try again",
    1008: "the context binary was made for another machine's kernels: build it again on this one",
    1011: "the accelerator is gone: restart the process",
    3110: "the op does not take this combination of types, shapes or parameters",
    4000: "the backend found no device that it can drive",
    4005: "the op type or its package is unknown to this backend; see Backend.supported_ops",
    5004: "the context binary was made for another version: build it again",
    5005: "the context binary is damaged, or not one of this library at all",
    5008: "the context binary was made for another backend: build it again for this one",
    5010: "an option of the context has a value that the backend does not take",
    5011: "the context binary runs, but not at its best, which STRICT refuses: build it again here",
    6004: "a tensor was not made in this graph, or its memory handle is null, stale, or of another "
    "context",
    6023: "call finalize() first",
    6024: "the graph is finalized: tensors and nodes can no longer be added",
    6025: "wait for an execution in flight, or create the context with a larger queue depth",
    6030: "give every execution in flight a signal of its own",
    6031: "the execution was aborted through its signal",
    6033: "the execution took longer than its signal allows",
    6038: "a blocking Buffer is not full yet: execute again with the next frames; it keeps these",
    6039: "the graph's context has been freed",
    7003: "another tensor has this name: names are unique in a graph",
    8000: "the descriptor does not fit the buffer: for shared buffers `size` is the whole buffer "
    "behind the fd, not the tensor, and offset + bytes(shape, dtype) must lie inside it",
    8001: "the handle was deregistered already, or its context is gone",
    8002: "this memory is registered in the context already: keep that handle, or use "
    "get_or_register()",
    8003: "the fd cannot be mapped: it may be closed, shrunk, no shareable memory, or the device's "
    "address space may be full",
    8004: "the shape is not acceptable, for example empty or misaligned",
    8005: "use one of the memory types that has_capability() reports",
    9000: "wait for the execution that uses the signal",
    9001: "nothing runs with this signal",
    9005: "a signal is for abort or for a timeout, not both",
    30010: "the context binary is damaged, not one at all, or of another maker: describe it with "
    "that maker's libQnnSystem.so",
}
