# The C interface as Cython sees it, made by tools/abi.py; do not edit.
#
# Members of anonymous unions are plain fields: the field beside them (memType, option, version,
# paramType, ...) says which one is live. Every call may be made without the GIL.

from libc.stdint cimport (
    int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
)
from libcpp cimport bool


cdef extern from "<stdarg.h>" nogil:
    ctypedef struct va_list:
        pass


cdef extern from "abi/qnn_enums.h" nogil:
    enum:
        QNN_TENSOR_DATA_FORMAT_DENSE, QNN_TENSOR_DATA_FORMAT_FLAT_BUFFER
        QNN_TENSOR_DATA_FORMAT_SPARSE, QNN_TENSOR_DATA_FORMAT_CODEBOOK, QNN_TENSOR_DATA_FORMAT_MX
        QNN_TENSOR_DATA_FORMAT_UBWC_RGBA8888, QNN_TENSOR_DATA_FORMAT_UBWC_NV12
        QNN_TENSOR_DATA_FORMAT_UBWC_NV12_Y, QNN_TENSOR_DATA_FORMAT_UBWC_NV12_UV
        QNN_TENSOR_DATA_FORMAT_HMX_WEIGHT_LAYOUT, QNN_TENSOR_DATA_FORMAT_UBWC_NV124R
        QNN_TENSOR_DATA_FORMAT_UBWC_NV124R_Y, QNN_TENSOR_DATA_FORMAT_UBWC_NV124R_UV

    ctypedef enum Qnn_MappingType_t:
        QNN_OP_MAPPING_TYPE_TENSOR, QNN_OP_MAPPING_TYPE_OP

    ctypedef enum Qnn_OpMappingVersion_t:
        QNN_OP_MAPPING_VERSION_1

    ctypedef enum Qnn_DataType_t:
        QNN_DATATYPE_INT_8, QNN_DATATYPE_INT_16, QNN_DATATYPE_INT_32, QNN_DATATYPE_INT_64
        QNN_DATATYPE_UINT_8, QNN_DATATYPE_UINT_16, QNN_DATATYPE_UINT_32, QNN_DATATYPE_UINT_64
        QNN_DATATYPE_FLOAT_16, QNN_DATATYPE_BFLOAT_16, QNN_DATATYPE_FLOAT_32
        QNN_DATATYPE_FLOAT_64, QNN_DATATYPE_SFIXED_POINT_4, QNN_DATATYPE_SFIXED_POINT_8
        QNN_DATATYPE_SFIXED_POINT_16, QNN_DATATYPE_SFIXED_POINT_32, QNN_DATATYPE_UFIXED_POINT_4
        QNN_DATATYPE_UFIXED_POINT_8, QNN_DATATYPE_UFIXED_POINT_16, QNN_DATATYPE_UFIXED_POINT_32
        QNN_DATATYPE_BOOL_8, QNN_DATATYPE_STRING, QNN_DATATYPE_UNDEFINED

    ctypedef enum Qnn_Precision_t:
        QNN_PRECISION_FLOAT32, QNN_PRECISION_FLOAT16, QNN_PRECISION_UNDEFINED

    ctypedef enum Qnn_TensorType_t:
        QNN_TENSOR_TYPE_APP_WRITE, QNN_TENSOR_TYPE_APP_READ, QNN_TENSOR_TYPE_APP_READWRITE
        QNN_TENSOR_TYPE_NATIVE, QNN_TENSOR_TYPE_STATIC, QNN_TENSOR_TYPE_NULL
        QNN_TENSOR_TYPE_UPDATEABLE_STATIC, QNN_TENSOR_TYPE_UPDATEABLE_NATIVE
        QNN_TENSOR_TYPE_UPDATEABLE_APP_WRITE, QNN_TENSOR_TYPE_UPDATEABLE_APP_READ
        QNN_TENSOR_TYPE_UPDATEABLE_APP_READWRITE, QNN_TENSOR_TYPE_OPTIONAL_APP_WRITE
        QNN_TENSOR_TYPE_OPTIONAL_APP_READ, QNN_TENSOR_TYPE_OPTIONAL_APP_READWRITE
        QNN_TENSOR_TYPE_UNDEFINED

    ctypedef enum Qnn_ParamType_t:
        QNN_PARAMTYPE_SCALAR, QNN_PARAMTYPE_TENSOR, QNN_PARAMTYPE_UNDEFINED

    ctypedef enum Qnn_Definition_t:
        QNN_DEFINITION_IMPL_GENERATED, QNN_DEFINITION_DEFINED, QNN_DEFINITION_UNDEFINED

    ctypedef enum Qnn_Priority_t:
        QNN_PRIORITY_LOW, QNN_PRIORITY_NORMAL, QNN_PRIORITY_DEFAULT, QNN_PRIORITY_NORMAL_HIGH
        QNN_PRIORITY_HIGH, QNN_PRIORITY_UNDEFINED

    ctypedef enum Qnn_QuantizationEncoding_t:
        QNN_QUANTIZATION_ENCODING_SCALE_OFFSET, QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET
        QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET, QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET
        QNN_QUANTIZATION_ENCODING_BLOCK, QNN_QUANTIZATION_ENCODING_BLOCKWISE_EXPANSION
        QNN_QUANTIZATION_ENCODING_VECTOR, QNN_QUANTIZATION_ENCODING_FLOAT_BLOCK
        QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET_MAPPED
        QNN_QUANTIZATION_ENCODING_BW_BLOCK_MAPPED
        QNN_QUANTIZATION_ENCODING_BW_BLOCKWISE_EXPANSION_MAPPED
        QNN_QUANTIZATION_ENCODING_BW_FLOAT_BLOCK, QNN_QUANTIZATION_ENCODING_UNDEFINED

    ctypedef enum Qnn_QuantizationEncodingMapping_t:
        QNN_QUANTIZATION_ENCODING_MAPPING_STANDARD_SYMMETRIC
        QNN_QUANTIZATION_ENCODING_MAPPING_ASYMMETRIC_PLUS_ONE
        QNN_QUANTIZATION_ENCODING_MAPPING_LINEAR_SYMMETRIC_EXCLUDE_ZERO
        QNN_QUANTIZATION_ENCODING_MAPPING_UNDEFINED

    ctypedef enum Qnn_BlockwiseExpansionBlockScaleStorageType_t:
        QNN_BLOCKWISE_EXPANSION_BITWIDTH_SCALE_STORAGE_8
        QNN_BLOCKWISE_EXPANSION_BITWIDTH_SCALE_STORAGE_16
        QNN_BLOCKWISE_EXPANSION_BITWIDTH_SCALE_STORAGE_UNDEFINED

    ctypedef enum Qnn_TensorMemType_t:
        QNN_TENSORMEMTYPE_RAW, QNN_TENSORMEMTYPE_MEMHANDLE, QNN_TENSORMEMTYPE_RETRIEVE_RAW
        QNN_TENSORMEMTYPE_UNDEFINED

    ctypedef enum Qnn_SparseLayoutType_t:
        QNN_SPARSE_LAYOUT_HYBRID_COO, QNN_SPARSE_LAYOUT_UNDEFINED

    ctypedef enum Qnn_TensorVersion_t:
        QNN_TENSOR_VERSION_1, QNN_TENSOR_VERSION_2, QNN_TENSOR_VERSION_UNDEFINED

    ctypedef enum Qnn_TensorSetVersion_t:
        QNN_TENSOR_SET_VERSION_1, QNN_TENSOR_SET_VERSION_UNDEFINED

    ctypedef enum Qnn_OpConfigVersion_t:
        QNN_OPCONFIG_VERSION_1, QNN_OPCONFIG_VERSION_UNDEFINED

    ctypedef enum Qnn_MemType_t:
        QNN_MEM_TYPE_ION, QNN_MEM_TYPE_CUSTOM, QNN_MEM_TYPE_DMA_BUF, QNN_MEM_TYPE_UNDEFINED


cdef extern from "abi/qnn_errors.h" nogil:
    enum:
        QNN_ERROR_RANGE_COMMON_MIN, QNN_ERROR_RANGE_COMMON_MAX, QNN_ERROR_RANGE_PROPERTY_MIN
        QNN_ERROR_RANGE_PROPERTY_MAX, QNN_ERROR_RANGE_OP_PACKAGE_MIN
        QNN_ERROR_RANGE_OP_PACKAGE_MAX, QNN_ERROR_RANGE_BACKEND_MIN, QNN_ERROR_RANGE_BACKEND_MAX
        QNN_ERROR_RANGE_BACKEND_SAVER_MIN, QNN_ERROR_RANGE_BACKEND_SAVER_MAX
        QNN_ERROR_RANGE_CONTEXT_MIN, QNN_ERROR_RANGE_CONTEXT_MAX, QNN_ERROR_RANGE_GRAPH_MIN
        QNN_ERROR_RANGE_GRAPH_MAX, QNN_ERROR_RANGE_TENSOR_MIN, QNN_ERROR_RANGE_TENSOR_MAX
        QNN_ERROR_RANGE_MEM_MIN, QNN_ERROR_RANGE_MEM_MAX, QNN_ERROR_RANGE_SIGNAL_MIN
        QNN_ERROR_RANGE_SIGNAL_MAX, QNN_ERROR_RANGE_ERROR_MIN, QNN_ERROR_RANGE_ERROR_MAX
        QNN_ERROR_RANGE_LOG_MIN, QNN_ERROR_RANGE_LOG_MAX, QNN_ERROR_RANGE_PROFILE_MIN
        QNN_ERROR_RANGE_PROFILE_MAX, QNN_ERROR_RANGE_PERF_INFRASTRUCTURE_MIN
        QNN_ERROR_RANGE_PERF_INFRASTRUCTURE_MAX, QNN_ERROR_RANGE_DEVICE_MIN
        QNN_ERROR_RANGE_DEVICE_MAX, QNN_ERROR_RANGE_GLOBAL_CONFIG_MIN
        QNN_ERROR_RANGE_GLOBAL_CONFIG_MAX, QNN_ERROR_RANGE_SYSTEM_MIN, QNN_ERROR_RANGE_SYSTEM_MAX
        QNN_ERROR_RANGE_INTERFACE_MIN, QNN_ERROR_RANGE_INTERFACE_MAX

    ctypedef enum QnnCommon_Error_t:
        QNN_COMMON_ERROR_NOT_SUPPORTED, QNN_COMMON_ERROR_MEM_ALLOC, QNN_COMMON_ERROR_SYSTEM
        QNN_COMMON_ERROR_INVALID_ARGUMENT, QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED
        QNN_COMMON_ERROR_PLATFORM_NOT_SUPPORTED, QNN_COMMON_ERROR_SYSTEM_COMMUNICATION
        QNN_COMMON_ERROR_INCOMPATIBLE_BINARIES, QNN_COMMON_ERROR_LOADING_BINARIES
        QNN_COMMON_ERROR_RESOURCE_UNAVAILABLE, QNN_COMMON_ERROR_SYSTEM_COMMUNICATION_FATAL
        QNN_COMMON_ERROR_GENERAL

    ctypedef enum QnnBackend_Error_t:
        QNN_BACKEND_NO_ERROR, QNN_BACKEND_ERROR_MEM_ALLOC, QNN_BACKEND_ERROR_UNSUPPORTED_PLATFORM
        QNN_BACKEND_ERROR_CANNOT_INITIALIZE, QNN_BACKEND_ERROR_TERMINATE_FAILED
        QNN_BACKEND_ERROR_NOT_SUPPORTED, QNN_BACKEND_ERROR_INVALID_ARGUMENT
        QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND, QNN_BACKEND_ERROR_OP_PACKAGE_IF_PROVIDER_NOT_FOUND
        QNN_BACKEND_ERROR_OP_PACKAGE_REGISTRATION_FAILED
        QNN_BACKEND_ERROR_OP_PACKAGE_UNSUPPORTED_VERSION, QNN_BACKEND_ERROR_OP_PACKAGE_DUPLICATE
        QNN_BACKEND_ERROR_INCONSISTENT_CONFIG, QNN_BACKEND_ERROR_INVALID_HANDLE
        QNN_BACKEND_ERROR_INVALID_CONFIG

    ctypedef enum QnnMem_Error_t:
        QNN_MEM_NO_ERROR, QNN_MEM_ERROR_NOT_SUPPORTED, QNN_MEM_ERROR_INVALID_ARGUMENT
        QNN_MEM_ERROR_INVALID_HANDLE, QNN_MEM_ERROR_ALREADY_REGISTERED, QNN_MEM_ERROR_MAPPING
        QNN_MEM_ERROR_INVALID_SHAPE, QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE

    ctypedef enum QnnContext_Error_t:
        QNN_CONTEXT_NO_ERROR, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE, QNN_CONTEXT_ERROR_MEM_ALLOC
        QNN_CONTEXT_ERROR_INVALID_ARGUMENT, QNN_CONTEXT_ERROR_CTX_DOES_NOT_EXIST
        QNN_CONTEXT_ERROR_INVALID_HANDLE, QNN_CONTEXT_ERROR_NOT_FINALIZED
        QNN_CONTEXT_ERROR_BINARY_VERSION, QNN_CONTEXT_ERROR_CREATE_FROM_BINARY
        QNN_CONTEXT_ERROR_GET_BINARY_SIZE_FAILED, QNN_CONTEXT_ERROR_GET_BINARY_FAILED
        QNN_CONTEXT_ERROR_BINARY_CONFIGURATION, QNN_CONTEXT_ERROR_SET_PROFILE
        QNN_CONTEXT_ERROR_INVALID_CONFIG, QNN_CONTEXT_ERROR_BINARY_SUBOPTIMAL
        QNN_CONTEXT_ERROR_ABORTED, QNN_CONTEXT_ERROR_TIMED_OUT
        QNN_CONTEXT_ERROR_INCREMENT_INVALID_BUFFER

    ctypedef enum QnnDevice_Error_t:
        QNN_DEVICE_ERROR_UNSUPPORTED_FEATURE, QNN_DEVICE_ERROR_MEM_ALLOC
        QNN_DEVICE_ERROR_INVALID_ARGUMENT, QNN_DEVICE_ERROR_INVALID_HANDLE
        QNN_DEVICE_ERROR_INVALID_CONFIG, QNN_DEVICE_ERROR_HARDWARE_UNAVAILABLE
        QNN_DEVICE_ERROR_ASSOCIATED_TO_CONTEXT, QNN_DEVICE_NO_ERROR

    ctypedef enum QnnError_Error_t:
        QNN_ERROR_NO_ERROR, QNN_ERROR_INVALID_ARGUMENT, QNN_ERROR_INVALID_ERROR_HANDLE

    ctypedef enum QnnGlobalConfig_Error_t:
        QNN_GLOBAL_CONFIG_NO_ERROR, QNN_GLOBAL_CONFIG_ERROR_INVALID_CONFIG

    ctypedef enum QnnGraph_Error_t:
        QNN_GRAPH_NO_ERROR, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, QNN_GRAPH_ERROR_MEM_ALLOC
        QNN_GRAPH_ERROR_GENERAL, QNN_GRAPH_ERROR_INVALID_ARGUMENT, QNN_GRAPH_ERROR_INVALID_HANDLE
        QNN_GRAPH_ERROR_GRAPH_DOES_NOT_EXIST, QNN_GRAPH_ERROR_INVALID_NAME
        QNN_GRAPH_ERROR_INVALID_TENSOR, QNN_GRAPH_ERROR_INVALID_OP_CONFIG
        QNN_GRAPH_ERROR_SET_PROFILE, QNN_GRAPH_ERROR_UNCONNECTED_NODE
        QNN_GRAPH_ERROR_CREATE_FAILED, QNN_GRAPH_ERROR_OPTIMIZATION_FAILED
        QNN_GRAPH_ERROR_FINALIZE_FAILED, QNN_GRAPH_ERROR_GRAPH_NOT_FINALIZED
        QNN_GRAPH_ERROR_GRAPH_FINALIZED, QNN_GRAPH_ERROR_EXECUTION_ASYNC_FIFO_FULL
        QNN_GRAPH_ERROR_SIGNAL_IN_USE, QNN_GRAPH_ERROR_ABORTED, QNN_GRAPH_ERROR_PROFILE_IN_USE
        QNN_GRAPH_ERROR_TIMED_OUT, QNN_GRAPH_ERROR_SUBGRAPH, QNN_GRAPH_ERROR_DISABLED
        QNN_GRAPH_ERROR_DYNAMIC_TENSOR_SHAPE, QNN_GRAPH_ERROR_TENSOR_SPARSITY
        QNN_GRAPH_ERROR_EARLY_TERMINATION, QNN_GRAPH_ERROR_INVALID_CONTEXT

    ctypedef enum QnnLog_Error_t:
        QNN_LOG_NO_ERROR, QNN_LOG_ERROR_MEM_ALLOC, QNN_LOG_ERROR_INITIALIZATION
        QNN_LOG_ERROR_INVALID_ARGUMENT, QNN_LOG_ERROR_INVALID_HANDLE

    ctypedef enum QnnProfile_Error_t:
        QNN_PROFILE_NO_ERROR, QNN_PROFILE_ERROR_UNSUPPORTED, QNN_PROFILE_ERROR_INVALID_ARGUMENT
        QNN_PROFILE_ERROR_MEM_ALLOC, QNN_PROFILE_ERROR_INVALID_HANDLE
        QNN_PROFILE_ERROR_HANDLE_IN_USE, QNN_PROFILE_ERROR_INCOMPATIBLE_EVENT

    ctypedef enum QnnProperty_Error_t:
        QNN_PROPERTY_NO_ERROR, QNN_PROPERTY_SUPPORTED, QNN_PROPERTY_NOT_SUPPORTED
        QNN_PROPERTY_ERROR_UNKNOWN_KEY

    ctypedef enum QnnSignal_Error_t:
        QNN_SIGNAL_NO_ERROR, QNN_SIGNAL_ERROR_UNSUPPORTED, QNN_SIGNAL_ERROR_SIGNAL_IN_USE
        QNN_SIGNAL_ERROR_SIGNAL_IDLE, QNN_SIGNAL_ERROR_INVALID_ARGUMENT
        QNN_SIGNAL_ERROR_INVALID_HANDLE, QNN_SIGNAL_ERROR_TIMEOUT
        QNN_SIGNAL_ERROR_INCOMPATIBLE_SIGNAL_TYPE, QNN_SIGNAL_ERROR_MEM_ALLOC

    ctypedef enum QnnTensor_Error_t:
        QNN_TENSOR_NO_ERROR, QNN_TENSOR_ERROR_INVALID_HANDLE, QNN_TENSOR_ERROR_DOES_NOT_EXIST
        QNN_TENSOR_ERROR_ALREADY_EXISTS, QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM
        QNN_TENSOR_ERROR_UNSUPPORTED_TENSOR_PARAM, QNN_TENSOR_ERROR_NAME_HASH_COLLISION
        QNN_TENSOR_ERROR_INCOMPATIBLE_TENSOR_UPDATE, QNN_TENSOR_ERROR_UNSUPPORTED_FEATURE

    ctypedef enum QnnOpPackage_Error_t:
        QNN_OP_PACKAGE_NO_ERROR, QNN_OP_PACKAGE_ERROR_UNSUPPORTED_FEATURE
        QNN_OP_PACKAGE_ERROR_LIBRARY_ALREADY_INITIALIZED
        QNN_OP_PACKAGE_ERROR_LIBRARY_NOT_INITIALIZED, QNN_OP_PACKAGE_ERROR_INVALID_HANDLE
        QNN_OP_PACKAGE_ERROR_INVALID_INFRASTRUCTURE, QNN_OP_PACKAGE_ERROR_INVALID_INFO
        QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE, QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT
        QNN_OP_PACKAGE_ERROR_GENERAL

    ctypedef enum QnnInterface_Error_t:
        QNN_INTERFACE_NO_ERROR, QNN_INTERFACE_ERROR_NOT_SUPPORTED
        QNN_INTERFACE_ERROR_INVALID_PARAMETER

    ctypedef enum QnnSystemCommon_Error_t:
        QNN_SYSTEM_COMMON_NO_ERROR, QNN_SYSTEM_COMMON_ERROR_UNSUPPORTED_FEATURE
        QNN_SYSTEM_COMMON_ERROR_INVALID_HANDLE, QNN_SYSTEM_COMMON_ERROR_INVALID_ARGUMENT

    ctypedef enum QnnSystemContext_Error_t:
        QNN_SYSTEM_CONTEXT_NO_ERROR, QNN_SYSTEM_CONTEXT_ERROR_UNSUPPORTED_FEATURE
        QNN_SYSTEM_CONTEXT_ERROR_INVALID_HANDLE, QNN_SYSTEM_CONTEXT_ERROR_INVALID_ARGUMENT
        QNN_SYSTEM_CONTEXT_ERROR_OPERATION_FAILED, QNN_SYSTEM_CONTEXT_ERROR_MALFORMED_BINARY

    ctypedef enum QnnSystemDlc_Error_t:
        QNN_SYSTEM_DLC_NO_ERROR, QNN_SYSTEM_DLC_ERROR_UNSUPPORTED_FEATURE
        QNN_SYSTEM_DLC_ERROR_INVALID_HANDLE, QNN_SYSTEM_DLC_ERROR_INVALID_ARGUMENT
        QNN_SYSTEM_DLC_ERROR_OPERATION_FAILED, QNN_SYSTEM_DLC_ERROR_MALFORMED_BINARY

    ctypedef enum QnnSystemProfile_Error_t:
        QNN_SYSTEM_PROFILE_NO_ERROR, QNN_SYSTEM_PROFILE_ERROR_UNSUPPORTED_FEATURE
        QNN_SYSTEM_PROFILE_ERROR_INVALID_HANDLE, QNN_SYSTEM_PROFILE_ERROR_INVALID_ARGUMENT
        QNN_SYSTEM_PROFILE_ERROR_MEM_ALLOC

    ctypedef enum QnnSystemTensor_Error_t:
        QNN_SYSTEM_TENSOR_NO_ERROR, QNN_SYSTEM_TENSOR_ERROR_UNSUPPORTED_FEATURE
        QNN_SYSTEM_TENSOR_ERROR_INVALID_ARGUMENT, QNN_SYSTEM_TENSOR_ERROR_INVALID_TENSOR

    ctypedef enum QnnSystemInterface_Error_t:
        QNN_SYSTEM_INTERFACE_NO_ERROR, QNN_SYSTEM_INTERFACE_ERROR_NOT_SUPPORTED
        QNN_SYSTEM_INTERFACE_ERROR_INVALID_PARAMETER

    ctypedef enum QnnHtpPerfInfrastructure_Error_t:
        QNN_HTP_PERF_INFRASTRUCTURE_NO_ERROR, QNN_HTP_PERF_INFRASTRUCTURE_ERROR_INVALID_HANDLE_PTR
        QNN_HTP_PERF_INFRASTRUCTURE_ERROR_INVALID_INPUT
        QNN_HTP_PERF_INFRASTRUCTURE_ERROR_UNSUPPORTED_CONFIG
        QNN_HTP_PERF_INFRASTRUCTURE_ERROR_TRANSPORT, QNN_HTP_PERF_INFRASTRUCTURE_ERROR_UNSUPPORTED
        QNN_HTP_PERF_INFRASTRUCTURE_ERROR_MEM_ALLOC, QNN_HTP_PERF_INFRASTRUCTURE_ERROR_FAILED

    ctypedef enum QnnSaver_Error_t:
        QNN_SAVER_ERROR_DUMMY_RETVALUE, QNN_SAVER_ERROR_ALREADY_INSTANTIATED


cdef extern from "abi/qnn_property.h" nogil:
    enum:
        QNN_PROPERTY_GROUP_CORE, QNN_PROPERTY_GROUP_BACKEND
        QNN_PROPERTY_BACKEND_SUPPORT_OP_PACKAGE, QNN_PROPERTY_BACKEND_SUPPORT_PLATFORM_OPTIONS
        QNN_PROPERTY_BACKEND_SUPPORT_COMPOSITION, QNN_PROPERTY_BACKEND_SUPPORT_CUSTOM_PROPERTY
        QNN_PROPERTY_GROUP_CONTEXT, QNN_PROPERTY_CONTEXT_SUPPORT_CACHING
        QNN_PROPERTY_CONTEXT_SUPPORT_CONFIGURATION
        QNN_PROPERTY_CONTEXT_SUPPORT_CONFIG_ENABLE_GRAPHS
        QNN_PROPERTY_CONTEXT_SUPPORT_CONFIG_MEMORY_LIMIT_HINT
        QNN_PROPERTY_CONTEXT_SUPPORT_CONFIG_PERSISTENT_BINARY
        QNN_PROPERTY_CONTEXT_SUPPORT_CONFIG_BINARY_COMPATIBILITY_TYPE
        QNN_PROPERTY_CONTEXT_SUPPORT_VALIDATE_BINARY
        QNN_PROPERTY_CONTEXT_SUPPORT_CREATE_FROM_BINARY_WITH_SIGNALS
        QNN_PROPERTY_CONTEXT_SUPPORT_CREATE_FROM_BINARY_LIST_ASYNC
        QNN_PROPERTY_CONTEXT_SUPPORT_BINARY_UPDATES
        QNN_PROPERTY_CONTEXT_SUPPORT_BINARY_SECTION_FULL_CONTEXT
        QNN_PROPERTY_CONTEXT_SUPPORT_CUSTOM_PROPERTY
        QNN_PROPERTY_CONTEXT_SUPPORT_INCREMENTAL_BINARY
        QNN_PROPERTY_CONTEXT_SUPPORT_DEFERRED_GRAPH_INIT
        QNN_PROPERTY_CONTEXT_SUPPORT_BINARY_WEIGHT_ONLY_UPDATES
        QNN_PROPERTY_CONTEXT_SUPPORT_BINARY_QUANT_ONLY_UPDATES
        QNN_PROPERTY_CONTEXT_SUPPORT_CREATE_FROM_BINARY_WITH_CALLBACK
        QNN_PROPERTY_CONTEXT_SUPPORT_GRAPH_RETENTION_ORDER
        QNN_PROPERTY_CONTEXT_SUPPORT_BINARY_SECTION_UPDATES, QNN_PROPERTY_GROUP_GRAPH
        QNN_PROPERTY_GRAPH_SUPPORT_CONFIG, QNN_PROPERTY_GRAPH_SUPPORT_SIGNALS
        QNN_PROPERTY_GRAPH_SUPPORT_ASYNC_EXECUTION, QNN_PROPERTY_GRAPH_SUPPORT_NULL_INPUTS
        QNN_PROPERTY_GRAPH_SUPPORT_PRIORITY_CONTROL, QNN_PROPERTY_GRAPH_SUPPORT_FINALIZE_SIGNAL
        QNN_PROPERTY_GRAPH_SUPPORT_EXECUTE_SIGNAL, QNN_PROPERTY_GRAPH_SUPPORT_EXECUTE_ASYNC_SIGNAL
        QNN_PROPERTY_GRAPH_SUPPORT_CONTINUOUS_PROFILING, QNN_PROPERTY_GRAPH_SUPPORT_EXECUTE
        QNN_PROPERTY_GRAPH_SUPPORT_BATCH_MULTIPLE
        QNN_PROPERTY_GRAPH_SUPPORT_EXECUTE_PER_API_PROFILING, QNN_PROPERTY_GRAPH_SUPPORT_SUBGRAPH
        QNN_PROPERTY_GRAPH_SUPPORT_PROFILING_STATE
        QNN_PROPERTY_GRAPH_SUPPORT_SET_PROFILING_NUM_EXECUTIONS
        QNN_PROPERTY_GRAPH_SUPPORT_ENV_OPTION_BIND_MEM_HANDLES
        QNN_PROPERTY_GRAPH_SUPPORT_ENV_OPTION_POPULATE_CLIENT_BUFS
        QNN_PROPERTY_GRAPH_SUPPORT_FINALIZE_DESERIALIZED_GRAPH
        QNN_PROPERTY_GRAPH_SUPPORT_CUSTOM_PROPERTY, QNN_PROPERTY_GRAPH_SUPPORT_EARLY_TERMINATION
        QNN_PROPERTY_GRAPH_SUPPORT_ONLINE_PREPARE
        QNN_PROPERTY_GRAPH_SUPPORT_UPDATABLE_WEIGHTS_BINARY_SECTION_CREATION
        QNN_PROPERTY_GROUP_OP_PACKAGE, QNN_PROPERTY_OP_PACKAGE_SUPPORTS_VALIDATION
        QNN_PROPERTY_OP_PACKAGE_SUPPORTS_OP_IMPLS
        QNN_PROPERTY_OP_PACKAGE_SUPPORTS_DUPLICATE_NAMES, QNN_PROPERTY_GROUP_TENSOR
        QNN_PROPERTY_TENSOR_SUPPORT_MEMHANDLE_TYPE, QNN_PROPERTY_TENSOR_SUPPORT_CONTEXT_TENSORS
        QNN_PROPERTY_TENSOR_SUPPORT_DYNAMIC_DIMENSIONS, QNN_PROPERTY_TENSOR_SUPPORT_SPARSITY
        QNN_PROPERTY_TENSOR_SUPPORT_UPDATEABLE_STATIC_TENSORS
        QNN_PROPERTY_TENSOR_SUPPORT_UPDATEABLE_NATIVE_TENSORS
        QNN_PROPERTY_TENSOR_SUPPORT_UPDATEABLE_APP_TENSORS
        QNN_PROPERTY_TENSOR_SUPPORT_QUANTIZATION_ENCODING_SCALE_OFFSET
        QNN_PROPERTY_TENSOR_SUPPORT_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET
        QNN_PROPERTY_TENSOR_SUPPORT_QUANTIZATION_ENCODING_BW_SCALE_OFFSET
        QNN_PROPERTY_TENSOR_SUPPORT_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET
        QNN_PROPERTY_TENSOR_SUPPORT_QUANTIZATION_ENCODING_BLOCK
        QNN_PROPERTY_TENSOR_SUPPORT_QUANTIZATION_ENCODING_BLOCKWISE_EXPANSION
        QNN_PROPERTY_TENSOR_SUPPORT_QUANTIZATION_ENCODING_VECTOR
        QNN_PROPERTY_TENSOR_SUPPORT_RETRIEVE_RAW, QNN_PROPERTY_TENSOR_SUPPORT_OPTIONAL_APP_WRITE
        QNN_PROPERTY_TENSOR_SUPPORT_OPTIONAL_APP_READ
        QNN_PROPERTY_TENSOR_SUPPORT_OPTIONAL_APP_READWRITE
        QNN_PROPERTY_TENSOR_SUPPORT_MX_DATA_FORMAT, QNN_PROPERTY_TENSOR_SUPPORT_UBWC_RGBA8888
        QNN_PROPERTY_TENSOR_SUPPORT_UBWC_NV12, QNN_PROPERTY_TENSOR_SUPPORT_UBWC_NV12_Y
        QNN_PROPERTY_TENSOR_SUPPORT_UBWC_NV12_UV, QNN_PROPERTY_TENSOR_SUPPORT_UBWC_NV124R
        QNN_PROPERTY_TENSOR_SUPPORT_UBWC_NV124R_Y, QNN_PROPERTY_TENSOR_SUPPORT_UBWC_NV124R_UV
        QNN_PROPERTY_TENSOR_SUPPORT_QUANTIZATION_ENCODING_FLOAT_BLOCK
        QNN_PROPERTY_TENSOR_SUPPORT_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET_MAPPED
        QNN_PROPERTY_TENSOR_SUPPORT_QUANTIZATION_ENCODING_BW_BLOCK_SCALE_OFFSET_MAPPED
        QNN_PROPERTY_TENSOR_SUPPORT_QUANTIZATION_ENCODING_BW_BLOCKWISE_EXPANSION_MAPPED
        QNN_PROPERTY_TENSOR_SUPPORT_QUANTIZATION_ENCODING_BW_FLOAT_BLOCK, QNN_PROPERTY_GROUP_ERROR
        QNN_PROPERTY_ERROR_GET_VERBOSE_MESSAGE, QNN_PROPERTY_GROUP_MEMORY
        QNN_PROPERTY_MEMORY_SUPPORT_MEM_TYPE_ION, QNN_PROPERTY_MEMORY_SUPPORT_MEM_TYPE_CUSTOM
        QNN_PROPERTY_MEMORY_SUPPORT_MEM_TYPE_DMA_BUF, QNN_PROPERTY_GROUP_SIGNAL
        QNN_PROPERTY_SIGNAL_SUPPORT_ABORT, QNN_PROPERTY_SIGNAL_SUPPORT_TIMEOUT
        QNN_PROPERTY_GROUP_LOG, QNN_PROPERTY_LOG_SUPPORTS_DEFAULT_STREAM
        QNN_PROPERTY_GROUP_PROFILE, QNN_PROPERTY_PROFILE_SUPPORT_CUSTOM_CONFIG
        QNN_PROPERTY_PROFILE_SUPPORT_MAX_EVENTS_CONFIG
        QNN_PROPERTY_PROFILE_SUPPORTS_EXTENDED_EVENT, QNN_PROPERTY_PROFILE_SUPPORT_OPTRACE_CONFIG
        QNN_PROPERTY_GROUP_DEVICE, QNN_PROPERTY_DEVICE_SUPPORT_INFRASTRUCTURE
        QNN_PROPERTY_GROUP_CUSTOM

    ctypedef uint32_t QnnProperty_Key_t


cdef extern from "abi/qnn_types.h" nogil:
    enum:
        QNN_SUCCESS

    const uint32_t QNN_DEFAULT_DEVICE_ID
    const uint32_t QNN_DEFAULT_CORE_ID

    enum:
        QNN_INVALID_FD, QNN_API_VERSION_MAJOR, QNN_API_VERSION_MINOR, QNN_API_VERSION_PATCH
        QNN_BACKEND_ID_NULL, QNN_BACKEND_ID_SAVER, QNN_BACKEND_ID_CPU, QNN_BACKEND_ID_GPU
        QNN_BACKEND_ID_DSP, QNN_BACKEND_ID_HTP, QNN_BACKEND_ID_HTA, QNN_BACKEND_ID_IR
        QNN_BACKEND_ID_LPAI, QNN_BACKEND_ID_LPAI_ISLAND

    const char* QNN_PROVIDER_NAME_SAVER
    const char* QNN_PROVIDER_NAME_CPU
    const char* QNN_PROVIDER_NAME_GPU
    const char* QNN_PROVIDER_NAME_HTP
    const char* QNN_PROVIDER_NAME_IR
    const char* QNN_PROVIDER_NAME_LPAI
    const char* QNN_PROVIDER_NAME_SYSTEM

    ctypedef uint64_t Qnn_ErrorHandle_t
    ctypedef uint64_t Qnn_ContextBinarySize_t
    ctypedef uint32_t Qnn_TensorDataFormat_t
    ctypedef uint32_t Qnn_SocModel_t
    ctypedef uint32_t Qnn_ErrorReportingLevel_t
    ctypedef void* Qnn_BackendHandle_t
    ctypedef void* Qnn_ContextHandle_t
    ctypedef void* Qnn_DeviceHandle_t
    ctypedef void* Qnn_GraphHandle_t
    ctypedef void* Qnn_LogHandle_t
    ctypedef void* Qnn_MemHandle_t
    ctypedef void* Qnn_ProfileHandle_t
    ctypedef void* Qnn_SignalHandle_t
    ctypedef void* Qnn_OpPackageHandle_t
    ctypedef void* Qnn_MemInfoCustom_t
    ctypedef void (*Qnn_GetTensorRawDataFn_t)() noexcept nogil
    ctypedef void (*Qnn_FreeTensorRawDataFn_t)() noexcept nogil

    ctypedef struct Qnn_OpMappingPair_t:
        const char* name
        Qnn_MappingType_t type

    ctypedef struct Qnn_Mapping_t:
        const char* name
        Qnn_OpMappingPair_t* pair
        uint32_t numPairs

    ctypedef struct Qnn_OpMappingV1_t:
        const char* graphName
        Qnn_Mapping_t* opMappings
        uint32_t numOpMappings
        Qnn_Mapping_t* tensorMappings
        uint32_t numTensorMappings

    ctypedef struct Qnn_OpMapping_t:
        Qnn_OpMappingVersion_t version
        Qnn_OpMappingV1_t* v1

    ctypedef struct Qnn_ErrorReportingConfig_t:
        Qnn_ErrorReportingLevel_t reportingLevel
        uint32_t storageLimit

    ctypedef struct Qnn_Version_t:
        uint32_t major
        uint32_t minor
        uint32_t patch

    ctypedef struct Qnn_ApiVersion_t:
        Qnn_Version_t coreApiVersion
        Qnn_Version_t backendApiVersion

    ctypedef struct Qnn_Scalar_t:
        Qnn_DataType_t dataType
        float floatValue
        double doubleValue
        uint64_t uint64Value
        int64_t int64Value
        uint32_t uint32Value
        int32_t int32Value
        uint16_t uint16Value
        int16_t int16Value
        uint8_t uint8Value
        int8_t int8Value
        uint8_t bool8Value
        int16_t bfloat16Value
        const char* stringValue

    ctypedef struct Qnn_ScaleOffset_t:
        float scale
        int32_t offset

    ctypedef struct Qnn_BwScaleOffset_t:
        uint32_t bitwidth
        float scale
        int32_t offset

    ctypedef struct Qnn_AxisScaleOffset_t:
        int32_t axis
        uint32_t numScaleOffsets
        Qnn_ScaleOffset_t* scaleOffset

    ctypedef struct Qnn_BwAxisScaleOffset_t:
        uint32_t bitwidth
        int32_t axis
        uint32_t numElements
        float* scales
        int32_t* offsets

    ctypedef struct Qnn_BwAxisScaleOffsetMapped_t:
        uint32_t bitwidth
        int32_t axis
        Qnn_QuantizationEncodingMapping_t mapping
        uint32_t numElements
        float* scales
        int32_t* offsets

    ctypedef struct Qnn_BlockEncoding_t:
        uint32_t* blockSize
        Qnn_ScaleOffset_t* scaleOffset

    ctypedef struct Qnn_BwBlockMapped_t:
        uint32_t bitwidth
        Qnn_QuantizationEncodingMapping_t mapping
        uint32_t* blockSize
        Qnn_ScaleOffset_t* scaleOffset

    ctypedef struct Qnn_BlockwiseExpansion_t:
        int32_t axis
        Qnn_ScaleOffset_t* scaleOffsets
        uint32_t numBlocksPerAxis
        uint32_t blockScaleBitwidth
        Qnn_BlockwiseExpansionBlockScaleStorageType_t blockScaleStorageType
        uint8_t* blocksScale8
        uint16_t* blocksScale16

    ctypedef struct Qnn_BwBlockwiseExpansionMapped_t:
        uint32_t bitwidth
        Qnn_QuantizationEncodingMapping_t mapping
        int32_t axis
        Qnn_ScaleOffset_t* scaleOffsets
        uint32_t numBlocksPerAxis
        uint32_t blockScaleBitwidth
        Qnn_BlockwiseExpansionBlockScaleStorageType_t blockScaleStorageType
        uint8_t* blocksScale8
        uint16_t* blocksScale16

    ctypedef struct Qnn_VectorEncoding_t:
        Qnn_BwAxisScaleOffset_t bwAxisScaleOffset
        uint32_t rowsPerBlock
        uint32_t columnsPerBlock
        uint8_t vectorDimension
        uint8_t vectorStride
        uint8_t indexBitwidth

    ctypedef struct Qnn_FloatScaleOffset_t:
        float scale
        float offset

    ctypedef struct Qnn_FloatBlockEncoding_t:
        uint32_t* blockSize
        Qnn_FloatScaleOffset_t* floatScaleOffset

    ctypedef struct Qnn_BwFloatBlockEncoding_t:
        uint32_t bitwidth
        uint32_t* blockSize
        Qnn_FloatScaleOffset_t* floatScaleOffset

    ctypedef struct Qnn_QuantizeParams_t:
        Qnn_Definition_t encodingDefinition
        Qnn_QuantizationEncoding_t quantizationEncoding
        Qnn_ScaleOffset_t scaleOffsetEncoding
        Qnn_AxisScaleOffset_t axisScaleOffsetEncoding
        Qnn_BwScaleOffset_t bwScaleOffsetEncoding
        Qnn_BwAxisScaleOffset_t bwAxisScaleOffsetEncoding
        Qnn_BlockEncoding_t blockEncoding
        Qnn_BlockwiseExpansion_t* blockwiseExpansion
        Qnn_VectorEncoding_t* vectorEncoding
        Qnn_FloatBlockEncoding_t floatBlockEncoding
        Qnn_BwAxisScaleOffsetMapped_t* bwAxisScaleOffsetMappedEncoding
        Qnn_BwBlockMapped_t* bwBlockMappedEncoding
        Qnn_BwBlockwiseExpansionMapped_t* bwBlockwiseExpansionMappedEncoding
        Qnn_BwFloatBlockEncoding_t bwFloatBlockEncoding

    ctypedef struct Qnn_ClientBuffer_t:
        void* data
        uint32_t dataSize

    ctypedef struct Qnn_TensorRetrieveRaw_t:
        Qnn_GetTensorRawDataFn_t getTensorData
        Qnn_FreeTensorRawDataFn_t freeTensorData

    ctypedef struct Qnn_OpaqueObject_t:
        void* data
        uint64_t len

    ctypedef struct Qnn_TensorV1_t:
        uint32_t id
        const char* name
        Qnn_TensorType_t type
        Qnn_TensorDataFormat_t dataFormat
        Qnn_DataType_t dataType
        Qnn_QuantizeParams_t quantizeParams
        uint32_t rank
        uint32_t* dimensions
        Qnn_TensorMemType_t memType
        Qnn_ClientBuffer_t clientBuf
        Qnn_MemHandle_t memHandle

    ctypedef struct Qnn_SparseLayoutHybridCoo_t:
        uint32_t numSpecifiedElements
        uint32_t numSparseDimensions

    ctypedef struct Qnn_SparseParams_t:
        Qnn_SparseLayoutType_t type
        Qnn_SparseLayoutHybridCoo_t hybridCoo

    ctypedef struct Qnn_TensorV2_t:
        uint32_t id
        const char* name
        Qnn_TensorType_t type
        Qnn_TensorDataFormat_t dataFormat
        Qnn_DataType_t dataType
        Qnn_QuantizeParams_t quantizeParams
        uint32_t rank
        uint32_t* dimensions
        Qnn_TensorMemType_t memType
        Qnn_ClientBuffer_t clientBuf
        Qnn_MemHandle_t memHandle
        Qnn_TensorRetrieveRaw_t* retrieveRaw
        uint8_t* isDynamicDimensions
        Qnn_SparseParams_t sparseParams
        uint8_t isProduced

    ctypedef struct Qnn_Tensor_t:
        Qnn_TensorVersion_t version
        Qnn_TensorV1_t v1
        Qnn_TensorV2_t v2

    ctypedef struct Qnn_TensorSetV1_t:
        uint32_t numInputs
        Qnn_Tensor_t* inputs
        uint32_t numOutputs
        Qnn_Tensor_t* outputs

    ctypedef struct Qnn_TensorSet_t:
        Qnn_TensorSetVersion_t version
        Qnn_TensorSetV1_t v1

    ctypedef struct Qnn_Param_t:
        Qnn_ParamType_t paramType
        const char* name
        Qnn_Scalar_t scalarParam
        Qnn_Tensor_t tensorParam

    ctypedef struct Qnn_OpConfigV1_t:
        const char* name
        const char* packageName
        const char* typeName
        uint32_t numOfParams
        Qnn_Param_t* params
        uint32_t numOfInputs
        Qnn_Tensor_t* inputTensors
        uint32_t numOfOutputs
        Qnn_Tensor_t* outputTensors

    ctypedef struct Qnn_OpConfig_t:
        Qnn_OpConfigVersion_t version
        Qnn_OpConfigV1_t v1

    ctypedef struct Qnn_MemShape_t:
        uint32_t numDim
        uint32_t* dimSize
        const char* shapeConfig

    ctypedef struct Qnn_MemIonInfo_t:
        int32_t fd

    ctypedef struct Qnn_MemDmaBufInfo_t:
        int32_t fd
        void* data

    ctypedef struct Qnn_MemDescriptor_t:
        Qnn_MemShape_t memShape
        Qnn_DataType_t dataType
        Qnn_MemType_t memType
        Qnn_MemIonInfo_t ionInfo
        Qnn_MemInfoCustom_t customInfo
        Qnn_MemDmaBufInfo_t dmaBufInfo

    ctypedef struct Qnn_NotifyStatus_t:
        Qnn_ErrorHandle_t error

    ctypedef void (*Qnn_NotifyFn_t)(
        void* notifyParam, Qnn_NotifyStatus_t status) noexcept nogil


cdef extern from "abi/qnn_objects.h" nogil:
    enum:
        QNN_PROFILE_EVENTTYPE_BACKEND, QNN_PROFILE_EVENTTYPE_DEINIT, QNN_PROFILE_EVENTTYPE_EXECUTE
        QNN_PROFILE_EVENTTYPE_EXECUTE_DEVICE, QNN_PROFILE_EVENTTYPE_EXECUTE_POSTPROCESS
        QNN_PROFILE_EVENTTYPE_EXECUTE_PREPROCESS, QNN_PROFILE_EVENTTYPE_EXECUTE_QUEUE_WAIT
        QNN_PROFILE_EVENTTYPE_FINALIZE, QNN_PROFILE_EVENTTYPE_INIT, QNN_PROFILE_EVENTTYPE_NODE
        QNN_PROFILE_EVENTTYPE_TRACE, QNN_PROFILE_EVENTUNIT_BACKEND, QNN_PROFILE_EVENTUNIT_BYTES
        QNN_PROFILE_EVENTUNIT_COUNT, QNN_PROFILE_EVENTUNIT_CYCLES, QNN_PROFILE_EVENTUNIT_MICROSEC
        QNN_PROFILE_EVENTUNIT_NONE, QNN_PROFILE_EVENTUNIT_OBJECT, QNN_PROFILE_LEVEL_BACKEND
        QNN_PROFILE_LEVEL_BASIC, QNN_PROFILE_LEVEL_DETAILED

    ctypedef void* QnnBackend_CustomConfig_t
    ctypedef void* QnnBackend_CustomProperty_t
    ctypedef void* QnnContext_CustomConfig_t
    ctypedef void* QnnContext_CustomProperty_t
    ctypedef void* QnnDevice_CustomConfig_t
    ctypedef void* QnnDevice_CoreInfoExtension_t
    ctypedef void* QnnDevice_DeviceInfoExtension_t
    ctypedef void* QnnGraph_CustomConfig_t
    ctypedef void* QnnGraph_CustomProperty_t
    ctypedef void* QnnProfile_CustomConfig_t
    ctypedef void* QnnSignal_CustomConfig_t
    ctypedef void* QnnDevice_Infrastructure_t

    ctypedef enum QnnBackend_ConfigOption_t:
        QNN_BACKEND_CONFIG_OPTION_CUSTOM, QNN_BACKEND_CONFIG_OPTION_ERROR_REPORTING
        QNN_BACKEND_CONFIG_OPTION_PLATFORM, QNN_BACKEND_CONFIG_OPTION_UNDEFINED

    ctypedef enum QnnBackend_PropertyOption_t:
        QNN_BACKEND_PROPERTY_OPTION_CUSTOM, QNN_BACKEND_PROPERTY_OPTION_UNDEFINED

    ctypedef struct QnnBackend_Config_t:
        QnnBackend_ConfigOption_t option
        QnnBackend_CustomConfig_t customConfig
        Qnn_ErrorReportingConfig_t errorConfig
        const char* platformOption

    ctypedef struct QnnBackend_OperationName_t:
        const char* packageName
        const char* name
        const char* target

    ctypedef struct QnnBackend_Property_t:
        QnnBackend_PropertyOption_t option
        QnnBackend_CustomProperty_t customProperty

    ctypedef enum QnnDevice_CoreInfoVersion_t:
        QNN_DEVICE_CORE_INFO_VERSION_1, QNN_DEVICE_CORE_INFO_VERSION_UNDEFINED

    ctypedef enum QnnDevice_HardwareDeviceInfoVersion_t:
        QNN_DEVICE_HARDWARE_DEVICE_INFO_VERSION_1
        QNN_DEVICE_HARDWARE_DEVICE_INFO_VERSION_UNDEFINED

    ctypedef enum QnnDevice_PlatformInfoVersion_t:
        QNN_DEVICE_PLATFORM_INFO_VERSION_1, QNN_DEVICE_PLATFORM_INFO_VERSION_UNDEFINED

    ctypedef enum QnnDevice_ConfigOption_t:
        QNN_DEVICE_CONFIG_OPTION_CUSTOM, QNN_DEVICE_CONFIG_OPTION_PLATFORM_INFO
        QNN_DEVICE_CONFIG_OPTION_UNDEFINED

    ctypedef struct QnnDevice_CoreInfoV1_t:
        uint32_t coreId
        uint32_t coreType
        QnnDevice_CoreInfoExtension_t coreInfoExtension

    ctypedef struct QnnDevice_CoreInfo_t:
        QnnDevice_CoreInfoVersion_t version
        QnnDevice_CoreInfoV1_t v1

    ctypedef struct QnnDevice_HardwareDeviceInfoV1_t:
        uint32_t deviceId
        uint32_t deviceType
        uint32_t numCores
        QnnDevice_CoreInfo_t* cores
        QnnDevice_DeviceInfoExtension_t deviceInfoExtension

    ctypedef struct QnnDevice_HardwareDeviceInfo_t:
        QnnDevice_HardwareDeviceInfoVersion_t version
        QnnDevice_HardwareDeviceInfoV1_t v1

    ctypedef struct QnnDevice_PlatformInfoV1_t:
        uint32_t numHwDevices
        QnnDevice_HardwareDeviceInfo_t* hwDevices

    ctypedef struct QnnDevice_PlatformInfo_t:
        QnnDevice_PlatformInfoVersion_t version
        QnnDevice_PlatformInfoV1_t v1

    ctypedef struct QnnDevice_Config_t:
        QnnDevice_ConfigOption_t option
        QnnDevice_CustomConfig_t customConfig
        QnnDevice_PlatformInfo_t* hardwareInfo

    ctypedef enum QnnGlobalConfig_ConfigOption_t:
        QNN_GLOBAL_CONFIG_OPTION_SOC_MODEL, QNN_GLOBAL_CONFIG_OPTION_UNDEFINED

    ctypedef struct QnnGlobalConfig_t:
        QnnGlobalConfig_ConfigOption_t option
        Qnn_SocModel_t socModel

    ctypedef enum QnnGraph_ConfigOption_t:
        QNN_GRAPH_CONFIG_OPTION_CUSTOM, QNN_GRAPH_CONFIG_OPTION_PRIORITY
        QNN_GRAPH_CONFIG_OPTION_PROFILE_HANDLE, QNN_GRAPH_CONFIG_OPTION_SET_PROFILING_STATE
        QNN_GRAPH_CONFIG_OPTION_SET_PROFILING_NUM_EXECUTIONS
        QNN_GRAPH_CONFIG_OPTION_ENABLE_BINARY_SECTION_WEIGHTS_UPDATES
        QNN_GRAPH_CONFIG_OPTION_UNDEFINED

    ctypedef enum QnnGraph_ProfilingState_t:
        QNN_GRAPH_PROFILING_STATE_ENABLED, QNN_GRAPH_PROFILING_STATE_DISABLED
        QNN_GRAPH_PROFILING_STATE_UNDEFINED

    ctypedef enum QnnGraph_PropertyOption_t:
        QNN_GRAPH_PROPERTY_OPTION_CUSTOM, QNN_GRAPH_PROPERTY_OPTION_UNDEFINED

    ctypedef enum QnnGraph_ExecuteEnvironmentOption_t:
        QNN_GRAPH_EXECUTE_ENVIRONMENT_OPTION_BIND_MEM_HANDLES
        QNN_GRAPH_EXECUTE_ENVIRONMENT_OPTION_POPULATE_CLIENT_BUFS
        QNN_GRAPH_EXECUTE_ENVIRONMENT_OPTION_UNDEFINED

    ctypedef struct QnnGraph_Config_t:
        QnnGraph_ConfigOption_t option
        QnnGraph_CustomConfig_t customConfig
        Qnn_Priority_t priority
        Qnn_ProfileHandle_t profileHandle
        QnnGraph_ProfilingState_t profilingState
        uint32_t numProfilingExecutions
        uint8_t enableBinarySectionWeightsUpdates

    ctypedef struct QnnGraph_Property_t:
        QnnGraph_PropertyOption_t option
        QnnGraph_CustomProperty_t customProperty

    ctypedef struct QnnGraph_ExecuteEnvironment_t:
        QnnGraph_ExecuteEnvironmentOption_t option
        Qnn_TensorSet_t tensorSet

    ctypedef enum QnnLog_Level_t:
        QNN_LOG_LEVEL_ERROR, QNN_LOG_LEVEL_WARN, QNN_LOG_LEVEL_INFO, QNN_LOG_LEVEL_VERBOSE
        QNN_LOG_LEVEL_DEBUG, QNN_LOG_LEVEL_MAX

    ctypedef void (*QnnLog_Callback_t)(
        const char* fmt, QnnLog_Level_t level, uint64_t timestamp, va_list args) noexcept nogil
    ctypedef uint64_t QnnProfile_EventId_t
    ctypedef uint64_t QnnProfile_EventValue_t
    ctypedef uint32_t QnnProfile_Level_t
    ctypedef uint32_t QnnProfile_EventType_t
    ctypedef uint32_t QnnProfile_EventUnit_t

    ctypedef enum QnnProfile_ExtendedEventDataVersion_t:
        QNN_PROFILE_DATA_VERSION_1, QNN_PROFILE_DATA_VERSION_UNDEFINED

    ctypedef enum QnnProfile_ConfigOption_t:
        QNN_PROFILE_CONFIG_OPTION_CUSTOM, QNN_PROFILE_CONFIG_OPTION_MAX_EVENTS
        QNN_PROFILE_CONFIG_OPTION_ENABLE_OPTRACE, QNN_PROFILE_CONFIG_OPTION_UNDEFINED

    ctypedef struct QnnProfile_EventData_t:
        QnnProfile_EventType_t type
        QnnProfile_EventUnit_t unit
        QnnProfile_EventValue_t value
        const char* identifier

    ctypedef struct QnnProfile_BackendOpaqueObject_t:
        Qnn_OpaqueObject_t opaqueObject
        const char* fileName

    ctypedef struct QnnProfile_ExtendedEventDataV1_t:
        QnnProfile_EventType_t type
        QnnProfile_EventUnit_t unit
        Qnn_Scalar_t value
        QnnProfile_BackendOpaqueObject_t backendOpaqueObject
        uint64_t timestamp
        const char* identifier

    ctypedef struct QnnProfile_ExtendedEventData_t:
        QnnProfile_ExtendedEventDataVersion_t version
        QnnProfile_ExtendedEventDataV1_t v1

    ctypedef struct QnnProfile_Config_t:
        QnnProfile_ConfigOption_t option
        QnnProfile_CustomConfig_t customConfig
        uint64_t numMaxEvents
        uint8_t enableOptrace

    ctypedef enum QnnSignal_ConfigOption_t:
        QNN_SIGNAL_CONFIG_OPTION_CUSTOM, QNN_SIGNAL_CONFIG_OPTION_ABORT
        QNN_SIGNAL_CONFIG_OPTION_TIMEOUT, QNN_SIGNAL_CONFIG_UNDEFINED

    ctypedef struct QnnSignal_Config_t:
        QnnSignal_ConfigOption_t option
        QnnSignal_CustomConfig_t customConfig
        uint64_t timeoutDurationUs


cdef extern from "abi/qnn_context.h" nogil:
    ctypedef enum QnnContext_ConfigOption_t:
        QNN_CONTEXT_CONFIG_OPTION_CUSTOM, QNN_CONTEXT_CONFIG_OPTION_PRIORITY
        QNN_CONTEXT_CONFIG_OPTION_ERROR_REPORTING, QNN_CONTEXT_CONFIG_OPTION_OEM_STRING
        QNN_CONTEXT_CONFIG_ASYNC_EXECUTION_QUEUE_DEPTH, QNN_CONTEXT_CONFIG_ENABLE_GRAPHS
        QNN_CONTEXT_CONFIG_MEMORY_LIMIT_HINT, QNN_CONTEXT_CONFIG_PERSISTENT_BINARY
        QNN_CONTEXT_CONFIG_BINARY_COMPATIBILITY, QNN_CONTEXT_CONFIG_OPTION_DEFER_GRAPH_INIT
        QNN_CONTEXT_CONFIG_GRAPH_RETENTION_ORDER, QNN_CONTEXT_CONFIG_UNDEFINED

    ctypedef enum QnnContext_BinaryCompatibilityType_t:
        QNN_CONTEXT_BINARY_COMPATIBILITY_PERMISSIVE, QNN_CONTEXT_BINARY_COMPATIBILITY_STRICT
        QNN_CONTEXT_BINARY_COMPATIBILITY_TYPE_UNDEFINED

    ctypedef enum QnnContext_AsyncExecutionQueueDepthType_t:
        QNN_CONTEXT_ASYNC_EXECUTION_QUEUE_DEPTH_TYPE_NUMERIC
        QNN_CONTEXT_ASYNC_EXECUTION_QUEUE_DEPTH_TYPE_UNDEFINED

    ctypedef enum QnnContext_createFromBinaryAsyncNotifyType_t:
        QNN_CONTEXT_NOTIFY_TYPE_GRAPH_INIT, QNN_CONTEXT_NOTIFY_TYPE_CONTEXT_INIT
        QNN_CONTEXT_NOTIFY_TYPE_UNDEFINED

    ctypedef enum QnnContext_ParamsVersion_t:
        QNN_CONTEXT_PARAMS_VERSION_1, QNN_CONTEXT_PARAMS_VERSION_2
        QNN_CONTEXT_PARAMS_VERSION_UNDEFINED

    ctypedef enum Qnn_ContextBinaryRawBufferCallbackVersion_t:
        QNN_CONTEXT_CALLBACK_RAW_BUFFER_VERSION_1
        QNN_CONTEXT_CALLBACK_RAW_BUFFER_VERSION_UNDEFINED

    ctypedef enum Qnn_ContextBinaryDmaBufferCallbackVersion_t:
        QNN_CONTEXT_CALLBACK_DMA_BUFFER_VERSION_1
        QNN_CONTEXT_CALLBACK_DMA_BUFFER_VERSION_UNDEFINED

    ctypedef enum Qnn_ContextBinaryCallbackType_t:
        QNN_CONTEXT_CALLBACK_RAW_BUFFER, QNN_CONTEXT_CALLBACK_DMA_BUFFER
        QNN_CONTEXT_CALLBACK_UNDEFINED

    ctypedef enum QnnContext_SectionType_t:
        QNN_CONTEXT_SECTION_UPDATABLE, QNN_CONTEXT_SECTION_UPDATABLE_WEIGHTS
        QNN_CONTEXT_SECTION_UPDATABLE_QUANT_PARAMS, QNN_CONTEXT_SECTION_UNDEFINED

    ctypedef enum QnnContext_MemType_t:
        QNN_CONTEXTMEMTYPE_RAW, QNN_CONTEXTMEMTYPE_MEMHANDLE, QNN_CONTEXTMEMTYPE_UNDEFINED

    ctypedef enum QnnContext_BufferVersion_t:
        QNN_CONTEXT_BUFFER_VERSION_1, QNN_CONTEXT_BUFFER_VERSION_UNDEFINED

    ctypedef enum QnnContext_PropertyOption_t:
        QNN_CONTEXT_PROPERTY_OPTION_CUSTOM, QNN_CONTEXT_PROPERTY_OPTION_UNDEFINED

    ctypedef void (*QnnContext_createFromBinaryNotifyFn_t)() noexcept nogil
    ctypedef void (*Qnn_ContextBinaryRawDataProviderFn_t)() noexcept nogil
    ctypedef void (*Qnn_ContextBinaryRawDataReleaseFn_t)() noexcept nogil
    ctypedef void (*Qnn_ContextBinaryDmaDataProviderFn_t)() noexcept nogil
    ctypedef void (*Qnn_ContextBinaryDmaDataReleaseFn_t)() noexcept nogil

    ctypedef struct QnnContext_AsyncExecutionQueueDepth_t:
        QnnContext_AsyncExecutionQueueDepthType_t type
        uint32_t depth

    ctypedef struct QnnContext_Config_t:
        QnnContext_ConfigOption_t option
        QnnContext_CustomConfig_t customConfig
        Qnn_Priority_t priority
        Qnn_ErrorReportingConfig_t errorConfig
        const char* oemString
        QnnContext_AsyncExecutionQueueDepth_t asyncExeQueueDepth
        const char* const* enableGraphs
        uint64_t memoryLimitHint
        uint8_t isPersistentBinary
        QnnContext_BinaryCompatibilityType_t binaryCompatibilityType
        uint8_t isGraphInitDeferred
        const char* const* graphRetentionOrder

    ctypedef struct QnnContext_ParamsV1_t:
        const QnnContext_Config_t** config
        const void* binaryBuffer
        Qnn_ContextBinarySize_t binaryBufferSize
        Qnn_ProfileHandle_t profile
        QnnContext_createFromBinaryNotifyFn_t notifyFunc
        void* notifyParam

    ctypedef struct Qnn_ContextBinaryDataRequest_t:
        Qnn_ContextBinarySize_t offset
        Qnn_ContextBinarySize_t size
        uint8_t isBackendMappingNeeded

    ctypedef struct Qnn_ContextBinaryRawDataResponse_t:
        void* memPtr
        Qnn_ContextBinarySize_t dataStartOffset
        Qnn_ContextBinarySize_t alignedSize

    ctypedef struct Qnn_ContextBinaryDmaDataResponse_t:
        Qnn_MemDmaBufInfo_t dmaBuffer
        Qnn_ContextBinarySize_t dataStartOffset
        Qnn_ContextBinarySize_t alignedSize

    ctypedef struct Qnn_ContextBinaryRawDataMem_t:
        void* memPtr
        Qnn_ContextBinarySize_t memSize

    ctypedef struct Qnn_ContextBinaryDmaDataMem_t:
        Qnn_MemDmaBufInfo_t dmaBuffer
        Qnn_ContextBinarySize_t memSize

    ctypedef struct Qnn_ContextBinaryRawBufferCallbackV1_t:
        Qnn_ContextBinaryRawDataProviderFn_t dataProvide
        Qnn_ContextBinaryRawDataReleaseFn_t dataRelease
        void* notifyParam

    ctypedef struct Qnn_ContextBinaryDmaBufferCallbackV1_t:
        Qnn_ContextBinaryDmaDataProviderFn_t dataProvide
        Qnn_ContextBinaryDmaDataReleaseFn_t dataRelease
        void* notifyParam

    ctypedef struct Qnn_ContextBinaryRawBufferCallback_t:
        Qnn_ContextBinaryRawBufferCallbackVersion_t version
        Qnn_ContextBinaryRawBufferCallbackV1_t v1

    ctypedef struct Qnn_ContextBinaryDmaBufferCallback_t:
        Qnn_ContextBinaryDmaBufferCallbackVersion_t version
        Qnn_ContextBinaryDmaBufferCallbackV1_t v1

    ctypedef struct Qnn_ContextBinaryCallback_t:
        Qnn_ContextBinaryCallbackType_t type
        Qnn_ContextBinaryRawBufferCallback_t rawBufferCallback
        Qnn_ContextBinaryDmaBufferCallback_t dmaBufferCallback

    ctypedef struct QnnContext_ParamsV2_t:
        const QnnContext_Config_t** config
        const void* binaryBuffer
        Qnn_ContextBinarySize_t binaryBufferSize
        Qnn_ProfileHandle_t profile
        QnnContext_createFromBinaryNotifyFn_t notifyFunc
        void* notifyParam
        const Qnn_ContextBinaryCallback_t* callback

    ctypedef struct QnnContext_Params_t:
        QnnContext_ParamsVersion_t version
        QnnContext_ParamsV1_t v1
        QnnContext_ParamsV2_t* v2

    ctypedef struct Qnn_BinaryBuffer_t:
        void* data
        Qnn_ContextBinarySize_t dataSize

    ctypedef struct QnnContext_BufferV1_t:
        QnnContext_MemType_t memType
        Qnn_BinaryBuffer_t binaryBuf
        Qnn_MemHandle_t memHandle

    ctypedef struct QnnContext_Buffer_t:
        QnnContext_BufferVersion_t version
        QnnContext_BufferV1_t v1

    ctypedef struct QnnContext_Property_t:
        QnnContext_PropertyOption_t option
        QnnContext_CustomProperty_t customProperty


cdef extern from "abi/qnn_interface.h" nogil:
    enum:
        QNNRT_INTERFACE_SPARE_SLOTS, QNN_INTERFACE_NUM_ENTRIES

    ctypedef Qnn_ErrorHandle_t (*QnnProperty_HasCapabilityFn_t)(
        QnnProperty_Key_t key) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnBackend_CreateFn_t)(
        Qnn_LogHandle_t log, const QnnBackend_Config_t** config,
        Qnn_BackendHandle_t* backend) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnBackend_SetConfigFn_t)(
        Qnn_BackendHandle_t backend, const QnnBackend_Config_t** config) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnBackend_GetApiVersionFn_t)(
        Qnn_ApiVersion_t* version) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnBackend_GetBuildIdFn_t)(const char** id) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnBackend_RegisterOpPackageFn_t)(
        Qnn_BackendHandle_t backend, const char* packagePath, const char* interfaceProvider,
        const char* target) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnBackend_GetSupportedOperationsFn_t)(
        Qnn_BackendHandle_t backend, uint32_t* count,
        const QnnBackend_OperationName_t** operations) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnBackend_ValidateOpConfigFn_t)(
        Qnn_BackendHandle_t backend, Qnn_OpConfig_t opConfig) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnBackend_FreeFn_t)(
        Qnn_BackendHandle_t backend) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnContext_CreateFn_t)(
        Qnn_BackendHandle_t backend, Qnn_DeviceHandle_t device,
        const QnnContext_Config_t** config, Qnn_ContextHandle_t* context) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnContext_SetConfigFn_t)(
        Qnn_ContextHandle_t context, const QnnContext_Config_t** config) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnContext_GetBinarySizeFn_t)(
        Qnn_ContextHandle_t context, Qnn_ContextBinarySize_t* size) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnContext_GetBinaryFn_t)(
        Qnn_ContextHandle_t context, void* buffer, Qnn_ContextBinarySize_t bufferSize,
        Qnn_ContextBinarySize_t* writtenSize) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnContext_CreateFromBinaryFn_t)(
        Qnn_BackendHandle_t backend, Qnn_DeviceHandle_t device,
        const QnnContext_Config_t** config, const void* binary,
        Qnn_ContextBinarySize_t binarySize, Qnn_ContextHandle_t* context,
        Qnn_ProfileHandle_t profile) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnContext_FreeFn_t)(
        Qnn_ContextHandle_t context, Qnn_ProfileHandle_t profile) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnGraph_CreateFn_t)(
        Qnn_ContextHandle_t context, const char* name, const QnnGraph_Config_t** config,
        Qnn_GraphHandle_t* graph) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnGraph_CreateSubgraphFn_t)(
        Qnn_GraphHandle_t graph, const char* name, Qnn_GraphHandle_t* subgraph) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnGraph_SetConfigFn_t)(
        Qnn_GraphHandle_t graph, const QnnGraph_Config_t** config) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnGraph_AddNodeFn_t)(
        Qnn_GraphHandle_t graph, Qnn_OpConfig_t opConfig) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnGraph_FinalizeFn_t)(
        Qnn_GraphHandle_t graph, Qnn_ProfileHandle_t profile,
        Qnn_SignalHandle_t signal) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnGraph_RetrieveFn_t)(
        Qnn_ContextHandle_t context, const char* name, Qnn_GraphHandle_t* graph) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnGraph_ExecuteFn_t)(
        Qnn_GraphHandle_t graph, const Qnn_Tensor_t* inputs, uint32_t numInputs,
        Qnn_Tensor_t* outputs, uint32_t numOutputs, Qnn_ProfileHandle_t profile,
        Qnn_SignalHandle_t signal) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnGraph_ExecuteAsyncFn_t)(
        Qnn_GraphHandle_t graph, const Qnn_Tensor_t* inputs, uint32_t numInputs,
        Qnn_Tensor_t* outputs, uint32_t numOutputs, Qnn_ProfileHandle_t profile,
        Qnn_SignalHandle_t signal, Qnn_NotifyFn_t notify, void* notifyParam) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnTensor_CreateContextTensorFn_t)(
        Qnn_ContextHandle_t context, Qnn_Tensor_t* tensor) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnTensor_CreateGraphTensorFn_t)(
        Qnn_GraphHandle_t graph, Qnn_Tensor_t* tensor) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnLog_CreateFn_t)(
        QnnLog_Callback_t callback, QnnLog_Level_t maxLevel,
        Qnn_LogHandle_t* log) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnLog_SetLogLevelFn_t)(
        Qnn_LogHandle_t log, QnnLog_Level_t maxLevel) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnLog_FreeFn_t)(Qnn_LogHandle_t log) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnProfile_CreateFn_t)(
        Qnn_BackendHandle_t backend, QnnProfile_Level_t level,
        Qnn_ProfileHandle_t* profile) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnProfile_SetConfigFn_t)(
        Qnn_ProfileHandle_t profile, const QnnProfile_Config_t** config) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnProfile_GetEventsFn_t)(
        Qnn_ProfileHandle_t profile, const QnnProfile_EventId_t** events,
        uint32_t* count) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnProfile_GetSubEventsFn_t)(
        QnnProfile_EventId_t event, const QnnProfile_EventId_t** subEvents,
        uint32_t* count) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnProfile_GetEventDataFn_t)(
        QnnProfile_EventId_t event, QnnProfile_EventData_t* data) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnProfile_GetExtendedEventDataFn_t)(
        QnnProfile_EventId_t event, QnnProfile_ExtendedEventData_t* data) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnProfile_FreeFn_t)(
        Qnn_ProfileHandle_t profile) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnMem_RegisterFn_t)(
        Qnn_ContextHandle_t context, const Qnn_MemDescriptor_t* descriptors, uint32_t count,
        Qnn_MemHandle_t* handles) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnMem_DeRegisterFn_t)(
        const Qnn_MemHandle_t* handles, uint32_t count) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnDevice_GetPlatformInfoFn_t)(
        Qnn_LogHandle_t log, const QnnDevice_PlatformInfo_t** info) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnDevice_FreePlatformInfoFn_t)(
        Qnn_LogHandle_t log, const QnnDevice_PlatformInfo_t* info) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnDevice_GetInfrastructureFn_t)(
        const QnnDevice_Infrastructure_t* infrastructure) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnDevice_CreateFn_t)(
        Qnn_LogHandle_t log, const QnnDevice_Config_t** config,
        Qnn_DeviceHandle_t* device) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnDevice_SetConfigFn_t)(
        Qnn_DeviceHandle_t device, const QnnDevice_Config_t** config) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnDevice_GetInfoFn_t)(
        Qnn_DeviceHandle_t device, const QnnDevice_PlatformInfo_t** info) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnDevice_FreeFn_t)(
        Qnn_DeviceHandle_t device) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnSignal_CreateFn_t)(
        Qnn_BackendHandle_t backend, const QnnSignal_Config_t** config,
        Qnn_SignalHandle_t* signal) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnSignal_SetConfigFn_t)(
        Qnn_SignalHandle_t signal, const QnnSignal_Config_t** config) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnSignal_TriggerFn_t)(
        Qnn_SignalHandle_t signal) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnSignal_FreeFn_t)(
        Qnn_SignalHandle_t signal) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnError_GetMessageFn_t)(
        Qnn_ErrorHandle_t error, const char** message) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnError_GetVerboseMessageFn_t)(
        Qnn_ErrorHandle_t error, const char** message) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnError_FreeVerboseMessageFn_t)(
        const char* message) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnGraph_PrepareExecutionEnvironmentFn_t)(
        Qnn_GraphHandle_t graph, QnnGraph_ExecuteEnvironment_t** environments,
        uint32_t count) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnGraph_ReleaseExecutionEnvironmentFn_t)(
        Qnn_GraphHandle_t graph, const QnnGraph_ExecuteEnvironment_t** environments,
        uint32_t count) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnGraph_GetPropertyFn_t)(
        Qnn_GraphHandle_t graph, QnnGraph_Property_t** properties) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnContext_ValidateBinaryFn_t)(
        Qnn_BackendHandle_t backend, Qnn_DeviceHandle_t device,
        const QnnContext_Config_t** config, const void* binary,
        Qnn_ContextBinarySize_t binarySize) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnContext_CreateFromBinaryWithSignalFn_t)(
        Qnn_BackendHandle_t backend, Qnn_DeviceHandle_t device,
        const QnnContext_Config_t** config, const void* binary,
        Qnn_ContextBinarySize_t binarySize, Qnn_ContextHandle_t* context,
        Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnContext_CreateFromBinaryListAsyncFn_t)(
        Qnn_BackendHandle_t backend, Qnn_DeviceHandle_t device,
        const QnnContext_Params_t** params, const QnnContext_Config_t** listConfig,
        Qnn_SignalHandle_t signal) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnTensor_UpdateGraphTensorsFn_t)(
        Qnn_GraphHandle_t graph, const Qnn_Tensor_t** tensors, uint64_t count) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnTensor_UpdateContextTensorsFn_t)(
        Qnn_ContextHandle_t context, const Qnn_Tensor_t** tensors,
        uint64_t count) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnContext_GetBinarySectionSizeFn_t)(
        Qnn_ContextHandle_t context, Qnn_GraphHandle_t graph, QnnContext_SectionType_t section,
        Qnn_ContextBinarySize_t* size) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnContext_GetBinarySectionFn_t)(
        Qnn_ContextHandle_t context, Qnn_GraphHandle_t graph, QnnContext_SectionType_t section,
        const QnnContext_Buffer_t* buffer, Qnn_ContextBinarySize_t* writtenSize,
        Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnContext_ApplyBinarySectionFn_t)(
        Qnn_ContextHandle_t context, Qnn_GraphHandle_t graph, QnnContext_SectionType_t section,
        const QnnContext_Buffer_t* buffer, Qnn_ProfileHandle_t profile,
        Qnn_SignalHandle_t signal) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnBackend_GetPropertyFn_t)(
        Qnn_BackendHandle_t backend, QnnBackend_Property_t** properties) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnContext_GetPropertyFn_t)(
        Qnn_ContextHandle_t context, QnnContext_Property_t** properties) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnContext_GetIncrementalBinaryFn_t)(
        Qnn_ContextHandle_t context, const void** binary, Qnn_ContextBinarySize_t* startOffset,
        Qnn_ContextBinarySize_t* writtenSize) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnContext_ReleaseIncrementalBinaryFn_t)(
        Qnn_ContextHandle_t context, const void* binary,
        Qnn_ContextBinarySize_t startOffset) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnContext_FinalizeFn_t)(
        Qnn_ContextHandle_t context, Qnn_ProfileHandle_t profile) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnGlobalConfig_SetFn_t)(
        const QnnGlobalConfig_t** config) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnContext_CreateFromBinaryWithCallbackFn_t)(
        Qnn_BackendHandle_t backend, Qnn_DeviceHandle_t device,
        const QnnContext_Config_t** config, const Qnn_ContextBinaryCallback_t* callback,
        const void* binary, Qnn_ContextBinarySize_t binarySize, Qnn_ContextHandle_t* context,
        Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnContext_GetBinarySectionUpdateFn_t)(
        const QnnContext_Buffer_t*, const QnnContext_Buffer_t*, const Qnn_Tensor_t**, uint64_t,
        uint8_t, Qnn_LogHandle_t, Qnn_ProfileHandle_t, Qnn_SignalHandle_t,
        QnnContext_Buffer_t*) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnContext_FreeBinarySectionUpdateFn_t)(
        QnnContext_Buffer_t buffer, Qnn_LogHandle_t log) noexcept nogil

    ctypedef struct QnnInterface_ImplementationV2_32_t:
        QnnProperty_HasCapabilityFn_t propertyHasCapability
        QnnBackend_CreateFn_t backendCreate
        QnnBackend_SetConfigFn_t backendSetConfig
        QnnBackend_GetApiVersionFn_t backendGetApiVersion
        QnnBackend_GetBuildIdFn_t backendGetBuildId
        QnnBackend_RegisterOpPackageFn_t backendRegisterOpPackage
        QnnBackend_GetSupportedOperationsFn_t backendGetSupportedOperations
        QnnBackend_ValidateOpConfigFn_t backendValidateOpConfig
        QnnBackend_FreeFn_t backendFree
        QnnContext_CreateFn_t contextCreate
        QnnContext_SetConfigFn_t contextSetConfig
        QnnContext_GetBinarySizeFn_t contextGetBinarySize
        QnnContext_GetBinaryFn_t contextGetBinary
        QnnContext_CreateFromBinaryFn_t contextCreateFromBinary
        QnnContext_FreeFn_t contextFree
        QnnGraph_CreateFn_t graphCreate
        QnnGraph_CreateSubgraphFn_t graphCreateSubgraph
        QnnGraph_SetConfigFn_t graphSetConfig
        QnnGraph_AddNodeFn_t graphAddNode
        QnnGraph_FinalizeFn_t graphFinalize
        QnnGraph_RetrieveFn_t graphRetrieve
        QnnGraph_ExecuteFn_t graphExecute
        QnnGraph_ExecuteAsyncFn_t graphExecuteAsync
        QnnTensor_CreateContextTensorFn_t tensorCreateContextTensor
        QnnTensor_CreateGraphTensorFn_t tensorCreateGraphTensor
        QnnLog_CreateFn_t logCreate
        QnnLog_SetLogLevelFn_t logSetLogLevel
        QnnLog_FreeFn_t logFree
        QnnProfile_CreateFn_t profileCreate
        QnnProfile_SetConfigFn_t profileSetConfig
        QnnProfile_GetEventsFn_t profileGetEvents
        QnnProfile_GetSubEventsFn_t profileGetSubEvents
        QnnProfile_GetEventDataFn_t profileGetEventData
        QnnProfile_GetExtendedEventDataFn_t profileGetExtendedEventData
        QnnProfile_FreeFn_t profileFree
        QnnMem_RegisterFn_t memRegister
        QnnMem_DeRegisterFn_t memDeRegister
        QnnDevice_GetPlatformInfoFn_t deviceGetPlatformInfo
        QnnDevice_FreePlatformInfoFn_t deviceFreePlatformInfo
        QnnDevice_GetInfrastructureFn_t deviceGetInfrastructure
        QnnDevice_CreateFn_t deviceCreate
        QnnDevice_SetConfigFn_t deviceSetConfig
        QnnDevice_GetInfoFn_t deviceGetInfo
        QnnDevice_FreeFn_t deviceFree
        QnnSignal_CreateFn_t signalCreate
        QnnSignal_SetConfigFn_t signalSetConfig
        QnnSignal_TriggerFn_t signalTrigger
        QnnSignal_FreeFn_t signalFree
        QnnError_GetMessageFn_t errorGetMessage
        QnnError_GetVerboseMessageFn_t errorGetVerboseMessage
        QnnError_FreeVerboseMessageFn_t errorFreeVerboseMessage
        QnnGraph_PrepareExecutionEnvironmentFn_t graphPrepareExecutionEnvironment
        QnnGraph_ReleaseExecutionEnvironmentFn_t graphReleaseExecutionEnvironment
        QnnGraph_GetPropertyFn_t graphGetProperty
        QnnContext_ValidateBinaryFn_t contextValidateBinary
        QnnContext_CreateFromBinaryWithSignalFn_t contextCreateFromBinaryWithSignal
        QnnContext_CreateFromBinaryListAsyncFn_t contextCreateFromBinaryListAsync
        QnnTensor_UpdateGraphTensorsFn_t tensorUpdateGraphTensors
        QnnTensor_UpdateContextTensorsFn_t tensorUpdateContextTensors
        QnnContext_GetBinarySectionSizeFn_t contextGetBinarySectionSize
        QnnContext_GetBinarySectionFn_t contextGetBinarySection
        QnnContext_ApplyBinarySectionFn_t contextApplyBinarySection
        QnnBackend_GetPropertyFn_t backendGetProperty
        QnnContext_GetPropertyFn_t contextGetProperty
        QnnContext_GetIncrementalBinaryFn_t contextGetIncrementalBinary
        QnnContext_ReleaseIncrementalBinaryFn_t contextReleaseIncrementalBinary
        QnnContext_FinalizeFn_t contextFinalize
        QnnGlobalConfig_SetFn_t globalConfigSet
        QnnContext_CreateFromBinaryWithCallbackFn_t contextCreateFromBinaryWithCallback
        QnnContext_GetBinarySectionUpdateFn_t contextGetBinarySectionUpdate
        QnnContext_FreeBinarySectionUpdateFn_t contextFreeBinarySectionUpdate

    ctypedef struct QnnInterface_t:
        uint32_t backendId
        const char* providerName
        Qnn_ApiVersion_t apiVersion
        QnnInterface_ImplementationV2_32_t v2_32

    ctypedef struct Qnnrt_PaddedInterface_t:
        QnnInterface_t interface
        void (*spare[64])() noexcept nogil

    ctypedef Qnn_ErrorHandle_t (*QnnInterface_GetProvidersFn_t)(
        const QnnInterface_t*** providerList, uint32_t* numProviders) noexcept nogil

    Qnn_ErrorHandle_t QnnInterface_getProviders(
        const QnnInterface_t*** providerList, uint32_t* numProviders)


cdef extern from "abi/qnn_system.h" nogil:
    enum:
        QNNRT_SYSTEM_INTERFACE_SPARE_SLOTS, QNN_SYSTEM_INTERFACE_NUM_ENTRIES

    ctypedef void* QnnSystemContext_Handle_t
    ctypedef void* QnnSystemDlc_Handle_t
    ctypedef void* QnnSystemProfile_SerializationTargetHandle_t

    ctypedef enum QnnSystemContext_GraphInfoVersion_t:
        QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_1, QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_2
        QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_3, QNN_SYSTEM_CONTEXT_GRAPH_INFO_UNDEFINED

    ctypedef enum QnnSystemContext_BinaryInfoVersion_t:
        QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_1, QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_2
        QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_3, QNN_SYSTEM_CONTEXT_BINARY_INFO_UNDEFINED

    ctypedef enum QnnSystemContext_GraphConfigInfoVersion_t:
        QNN_SYSTEM_DLC_GRAPH_CONFIG_INFO_VERSION_1, QNN_SYSTEM_DLC_GRAPH_CONFIG_INFO_UNDEFINED

    ctypedef enum QnnSystemProfile_SerializationTargetType_t:
        QNN_SYSTEM_PROFILE_SERIALIZATION_TARGET_FILE
        QNN_SYSTEM_PROFILE_SERIALIZATION_TARGET_UNDEFINED

    ctypedef enum QnnSystemProfile_SerializationTargetConfigType_t:
        QNN_SYSTEM_PROFILE_SERIALIZATION_TARGET_CONFIG_MAX_NUM_MESSAGES
        QNN_SYSTEM_PROFILE_SERIALIZATION_TARGET_CONFIG_SERIALIZATION_HEADER
        QNN_SYSTEM_PROFILE_SERIALIZATION_TARGET_CONFIG_UNDEFINED

    ctypedef enum QnnSystemProfile_Visibility_t:
        QNN_SYSTEM_PROFILE_VISIBILITY_PUBLIC, QNN_SYSTEM_PROFILE_VISIBILITY_PRIVATE

    ctypedef enum QnnSystemProfile_MethodType_t:
        QNN_SYSTEM_PROFILE_METHOD_TYPE_NONE, QNN_SYSTEM_PROFILE_METHOD_TYPE_BACKEND_EXECUTE
        QNN_SYSTEM_PROFILE_METHOD_TYPE_BACKEND_FINALIZE
        QNN_SYSTEM_PROFILE_METHOD_TYPE_BACKEND_EXECUTE_ASYNC
        QNN_SYSTEM_PROFILE_METHOD_TYPE_BACKEND_CREATE_FROM_BINARY
        QNN_SYSTEM_PROFILE_METHOD_TYPE_BACKEND_DEINIT
        QNN_SYSTEM_PROFILE_METHOD_TYPE_APP_CONTEXT_CREATE
        QNN_SYSTEM_PROFILE_METHOD_TYPE_APP_COMPOSE_GRAPHS
        QNN_SYSTEM_PROFILE_METHOD_TYPE_APP_EXECUTE_IPS
        QNN_SYSTEM_PROFILE_METHOD_TYPE_BACKEND_GRAPH_COMPONENT
        QNN_SYSTEM_PROFILE_METHOD_TYPE_APP_BACKEND_LIB_LOAD
        QNN_SYSTEM_PROFILE_METHOD_TYPE_BACKEND_APPLY_BINARY_SECTION
        QNN_SYSTEM_PROFILE_METHOD_TYPE_CONTEXT_FINALIZE
        QNN_SYSTEM_PROFILE_METHOD_TYPE_CONTEXT_GET_BINARY_SIZE
        QNN_SYSTEM_PROFILE_METHOD_TYPE_CONTEXT_GET_BINARY
        QNN_SYSTEM_PROFILE_METHOD_TYPE_CONTEXT_GET_BINARY_SECTION_SIZE
        QNN_SYSTEM_PROFILE_METHOD_TYPE_BACKEND_FINALIZE_TENSOR_UPDATES
        QNN_SYSTEM_PROFILE_METHOD_TYPE_BACKEND_UPDATE_BINARY_SECTION

    ctypedef enum QnnSystemProfile_EventDataType_t:
        QNN_SYSTEM_PROFILE_EVENT_DATA, QNN_SYSTEM_PROFILE_EXTENDED_EVENT_DATA
        QNN_SYSTEM_PROFILE_EVENT_DATA_UNDEFINED

    ctypedef enum QnnSystemProfile_ProfileDataVersion_t:
        QNN_SYSTEM_PROFILE_DATA_VERSION_1, QNN_SYSTEM_PROFILE_DATA_VERSION_UNDEFINED

    ctypedef struct QnnSystemContext_GraphInfoV1_t:
        const char* graphName
        uint32_t numGraphInputs
        Qnn_Tensor_t* graphInputs
        uint32_t numGraphOutputs
        Qnn_Tensor_t* graphOutputs

    ctypedef struct QnnSystemContext_GraphInfoV2_t:
        const char* graphName
        uint32_t numGraphInputs
        Qnn_Tensor_t* graphInputs
        uint32_t numGraphOutputs
        Qnn_Tensor_t* graphOutputs
        uint32_t numUpdateableTensors
        Qnn_Tensor_t* updateableTensors

    ctypedef struct QnnSystemContext_GraphInfoV3_t:
        const char* graphName
        uint32_t numGraphInputs
        Qnn_Tensor_t* graphInputs
        uint32_t numGraphOutputs
        Qnn_Tensor_t* graphOutputs
        uint32_t numUpdateableTensors
        Qnn_Tensor_t* updateableTensors
        uint32_t graphBlobInfoSize
        void* graphBlobInfo
        uint32_t startOpIndex
        uint32_t endOpIndex

    ctypedef struct QnnSystemContext_GraphInfo_t:
        QnnSystemContext_GraphInfoVersion_t version
        QnnSystemContext_GraphInfoV1_t graphInfoV1
        QnnSystemContext_GraphInfoV2_t graphInfoV2
        QnnSystemContext_GraphInfoV3_t graphInfoV3

    ctypedef struct QnnSystemContext_BinaryInfoV1_t:
        uint32_t backendId
        const char* buildId
        Qnn_Version_t coreApiVersion
        Qnn_Version_t backendApiVersion
        const char* socVersion
        Qnn_Version_t hwInfoBlobVersion
        Qnn_Version_t contextBlobVersion
        uint32_t hwInfoBlobSize
        void* hwInfoBlob
        uint64_t contextBlobSize
        uint32_t numContextTensors
        Qnn_Tensor_t* contextTensors
        uint32_t numGraphs
        QnnSystemContext_GraphInfo_t* graphs

    ctypedef struct QnnSystemContext_BinaryInfoV2_t:
        uint32_t backendId
        const char* buildId
        Qnn_Version_t coreApiVersion
        Qnn_Version_t backendApiVersion
        const char* socVersion
        Qnn_Version_t hwInfoBlobVersion
        Qnn_Version_t contextBlobVersion
        uint32_t hwInfoBlobSize
        void* hwInfoBlob
        uint64_t contextBlobSize
        uint32_t numContextTensors
        Qnn_Tensor_t* contextTensors
        uint32_t numGraphs
        QnnSystemContext_GraphInfo_t* graphs
        QnnDevice_PlatformInfo_t* platformInfo

    ctypedef struct QnnSystemContext_BinaryInfoV3_t:
        uint32_t backendId
        const char* buildId
        Qnn_Version_t coreApiVersion
        Qnn_Version_t backendApiVersion
        const char* socVersion
        Qnn_Version_t contextBlobVersion
        uint64_t contextBlobSize
        uint32_t numContextTensors
        Qnn_Tensor_t* contextTensors
        uint32_t numGraphs
        QnnSystemContext_GraphInfo_t* graphs
        QnnDevice_PlatformInfo_t* platformInfo
        uint32_t contextMetadataSize
        void* contextMetadata
        uint32_t socModel

    ctypedef struct QnnSystemContext_BinaryInfo_t:
        QnnSystemContext_BinaryInfoVersion_t version
        QnnSystemContext_BinaryInfoV1_t contextBinaryInfoV1
        QnnSystemContext_BinaryInfoV2_t contextBinaryInfoV2
        QnnSystemContext_BinaryInfoV3_t contextBinaryInfoV3

    ctypedef struct QnnSystemDlc_GraphConfigInfoV1_t:
        const char* graphName
        const QnnGraph_Config_t** graphConfigs
        uint32_t numConfigs

    ctypedef struct QnnSystemDlc_GraphConfigInfo_t:
        QnnSystemContext_GraphConfigInfoVersion_t version
        QnnSystemDlc_GraphConfigInfoV1_t v1

    ctypedef struct QnnSystemProfile_SerializationTargetFile_t:
        const char* fileName
        const char* fileDirectory

    ctypedef struct QnnSystemProfile_SerializationTarget_t:
        QnnSystemProfile_SerializationTargetType_t type
        QnnSystemProfile_SerializationTargetFile_t file

    ctypedef struct QnnSystemProfile_SerializationFileHeader_t:
        const char* appName
        const char* appVersion
        const char* backendVersion

    ctypedef struct QnnSystemProfile_SerializationTargetConfig_t:
        QnnSystemProfile_SerializationTargetConfigType_t type
        uint32_t maxNumMessages
        QnnSystemProfile_SerializationFileHeader_t serializationHeader

    ctypedef struct QnnSystemProfile_HeaderV1_t:
        uint64_t startTime
        uint64_t stopTime
        uint64_t startMem
        uint64_t stopMem
        QnnSystemProfile_MethodType_t methodType
        QnnSystemProfile_Visibility_t visibility
        const char* graphName

    ctypedef struct QnnSystemProfile_ProfileEventV1_t:
        QnnSystemProfile_EventDataType_t type
        QnnProfile_EventData_t eventData
        QnnProfile_ExtendedEventData_t extendedEventData
        QnnSystemProfile_ProfileEventV1_t* profileSubEventData
        uint32_t numSubEvents

    ctypedef struct QnnSystemProfile_ProfileDataV1_t:
        QnnSystemProfile_HeaderV1_t header
        QnnSystemProfile_ProfileEventV1_t* profilingEvents
        uint32_t numProfilingEvents

    ctypedef struct QnnSystemProfile_ProfileData_t:
        QnnSystemProfile_ProfileDataVersion_t version
        QnnSystemProfile_ProfileDataV1_t v1

    ctypedef Qnn_ErrorHandle_t (*QnnSystemContext_CreateFn_t)(
        QnnSystemContext_Handle_t* context) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnSystemContext_GetBinaryInfoFn_t)(
        QnnSystemContext_Handle_t context, void* binary, uint64_t binarySize,
        const QnnSystemContext_BinaryInfo_t** info,
        Qnn_ContextBinarySize_t* infoSize) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnSystemContext_GetMetaDataFn_t)(
        QnnSystemContext_Handle_t context, const void* binary, uint64_t binarySize,
        const QnnSystemContext_BinaryInfo_t** info) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnSystemContext_FreeFn_t)(
        QnnSystemContext_Handle_t context) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnSystemTensor_GetMemoryFootprintFn_t)(
        Qnn_Tensor_t tensor, uint64_t* bytes) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnSystemLog_CreateFn_t)(
        QnnLog_Callback_t callback, QnnLog_Level_t maxLevel,
        Qnn_LogHandle_t* log) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnSystemLog_SetLogLevelFn_t)(
        Qnn_LogHandle_t log, QnnLog_Level_t maxLevel) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnSystemLog_FreeFn_t)(Qnn_LogHandle_t log) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnSystemDlc_CreateFromFileFn_t)(
        Qnn_LogHandle_t log, const char* path, QnnSystemDlc_Handle_t* dlc) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnSystemDlc_CreateFromBinaryFn_t)(
        Qnn_LogHandle_t log, const uint8_t* binary, Qnn_ContextBinarySize_t binarySize,
        QnnSystemDlc_Handle_t* dlc) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnSystemDlc_ComposeGraphsFn_t)(
        QnnSystemDlc_Handle_t dlc, const QnnSystemDlc_GraphConfigInfo_t** graphConfigs,
        uint32_t numGraphConfigs, Qnn_BackendHandle_t backend, Qnn_ContextHandle_t context,
        QnnInterface_t interface, QnnSystemContext_GraphInfoVersion_t infoVersion,
        QnnSystemContext_GraphInfo_t** graphs, uint32_t* numGraphs) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnSystemDlc_GetOpMappingsFn_t)(
        QnnSystemDlc_Handle_t dlc, const Qnn_OpMapping_t** mappings,
        uint32_t* count) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnSystemDlc_FreeFn_t)(
        QnnSystemDlc_Handle_t dlc) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnSystemProfile_CreateSerializationTargetFn_t)(
        QnnSystemProfile_SerializationTarget_t target,
        QnnSystemProfile_SerializationTargetConfig_t* configs, uint32_t numConfigs,
        QnnSystemProfile_SerializationTargetHandle_t* handle) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnSystemProfile_SerializeEventDataFn_t)(
        QnnSystemProfile_SerializationTargetHandle_t handle,
        const QnnSystemProfile_ProfileData_t** data, uint32_t count) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnSystemProfile_FreeSerializationTargetFn_t)(
        QnnSystemProfile_SerializationTargetHandle_t handle) noexcept nogil

    ctypedef struct QnnSystemInterface_ImplementationV1_7_t:
        QnnSystemContext_CreateFn_t systemContextCreate
        QnnSystemContext_GetBinaryInfoFn_t systemContextGetBinaryInfo
        QnnSystemContext_GetMetaDataFn_t systemContextGetMetaData
        QnnSystemContext_FreeFn_t systemContextFree
        QnnSystemTensor_GetMemoryFootprintFn_t systemTensorGetMemoryFootprint
        QnnSystemLog_CreateFn_t systemLogCreate
        QnnSystemLog_SetLogLevelFn_t systemLogSetLogLevel
        QnnSystemLog_FreeFn_t systemLogFree
        QnnSystemDlc_CreateFromFileFn_t systemDlcCreateFromFile
        QnnSystemDlc_CreateFromBinaryFn_t systemDlcCreateFromBinary
        QnnSystemDlc_ComposeGraphsFn_t systemDlcComposeGraphs
        QnnSystemDlc_GetOpMappingsFn_t systemDlcGetOpMappings
        QnnSystemDlc_FreeFn_t systemDlcFree
        QnnSystemProfile_CreateSerializationTargetFn_t systemProfileCreateSerializationTarget
        QnnSystemProfile_SerializeEventDataFn_t systemProfileSerializeEventData
        QnnSystemProfile_FreeSerializationTargetFn_t systemProfileFreeSerializationTarget

    ctypedef struct QnnSystemInterface_t:
        uint32_t backendId
        const char* providerName
        Qnn_Version_t systemApiVersion
        QnnSystemInterface_ImplementationV1_7_t v1_7

    ctypedef struct Qnnrt_PaddedSystemInterface_t:
        QnnSystemInterface_t interface
        void (*spare[64])() noexcept nogil

    ctypedef Qnn_ErrorHandle_t (*QnnSystemInterface_GetProvidersFn_t)(
        const QnnSystemInterface_t*** providerList, uint32_t* numProviders) noexcept nogil

    Qnn_ErrorHandle_t QnnSystemInterface_getProviders(
        const QnnSystemInterface_t*** providerList, uint32_t* numProviders)


cdef extern from "abi/qnn_htp_perf.h" nogil:
    ctypedef uint32_t QnnHtpPerfInfrastructure_SetDcvsEnable_t
    ctypedef uint32_t QnnHtpPerfInfrastructure_DcvsEnable_t
    ctypedef uint32_t QnnHtpPerfInfrastructure_SetSleepLatency_t
    ctypedef uint32_t QnnHtpPerfInfrastructure_SleepLatency_t
    ctypedef uint32_t QnnHtpPerfInfrastructure_SetSleepDisable_t
    ctypedef uint32_t QnnHtpPerfInfrastructure_SleepDisable_t
    ctypedef uint32_t QnnHtpPerfInfrastructure_SetBusParams_t
    ctypedef uint32_t QnnHtpPerfInfrastructure_SetCoreParams_t
    ctypedef uint32_t QnnHtpPerfInfrastructure_HmxDefault_Vote_t
    ctypedef uint32_t QnnHtpPerfInfrastructure_RpcControlLatency_t
    ctypedef uint32_t QnnHtpPerfInfrastructure_RpcPollingTime_t
    ctypedef uint32_t QnnHtpPerfInfrastructure_HmxTimeoutIntervalUs_t
    ctypedef uint32_t QnnHtpPerfInfrastructure_AdaptivePollingTime_t
    ctypedef uint32_t QnnHtpPerfInfrastructure_DdrPerfMode_t
    ctypedef uint32_t QnnHtpPerfInfrastructure_MemGrowSize_t

    ctypedef enum QnnHtpPerfInfrastructure_ClkPerfMode_t:
        QNN_HTP_PERF_INFRASTRUCTURE_CLK_PERF_HIGH, QNN_HTP_PERF_INFRASTRUCTURE_CLK_PERF_LOW
        QNN_HTP_PERF_INFRASTRUCTURE_CLK_PERF_UNKNOWN

    ctypedef enum QnnHtpPerfInfrastructure_VoltageCorner_t:
        DCVS_VOLTAGE_CORNER_DISABLE, DCVS_VOLTAGE_VCORNER_MIN_VOLTAGE_CORNER
        DCVS_VOLTAGE_VCORNER_SVS2, DCVS_VOLTAGE_VCORNER_SVS, DCVS_VOLTAGE_VCORNER_SVS_PLUS
        DCVS_VOLTAGE_VCORNER_NOM, DCVS_VOLTAGE_VCORNER_NOM_PLUS, DCVS_VOLTAGE_VCORNER_TURBO
        DCVS_VOLTAGE_VCORNER_TURBO_PLUS, DCVS_VOLTAGE_VCORNER_TURBO_L2
        DCVS_VOLTAGE_VCORNER_TURBO_L3, DCVS_VOLTAGE_VCORNER_TURBO_L4
        DCVS_VOLTAGE_VCORNER_TURBO_L5, DCVS_VOLTAGE_VCORNER_MAX_VOLTAGE_CORNER
        DCVS_VOLTAGE_VCORNER_UNKNOWN

    ctypedef enum QnnHtpPerfInfrastructure_ExpVoltageCorner_t:
        DCVS_EXP_VCORNER_DISABLE, DCVS_EXP_VCORNER_MIN, DCVS_EXP_VCORNER_LOW_SVS_D2
        DCVS_EXP_VCORNER_LOW_SVS_D1, DCVS_EXP_VCORNER_LOW_SVS, DCVS_EXP_VCORNER_LOW_SVS_L0
        DCVS_EXP_VCORNER_SVS, DCVS_EXP_VCORNER_SVS_L0, DCVS_EXP_VCORNER_SVS_L1
        DCVS_EXP_VCORNER_SVS_L2, DCVS_EXP_VCORNER_NOM, DCVS_EXP_VCORNER_NOM_L1
        DCVS_EXP_VCORNER_NOM_L2, DCVS_EXP_VCORNER_TUR, DCVS_EXP_VCORNER_TUR_L1
        DCVS_EXP_VCORNER_TUR_L2, DCVS_EXP_VCORNER_TUR_L3, DCVS_EXP_VCORNER_MAX
        DCVS_EXP_VCORNER_UNKNOWN

    ctypedef enum QnnHtpPerfInfrastructure_PowerMode_t:
        QNN_HTP_PERF_INFRASTRUCTURE_POWERMODE_ADJUST_UP_DOWN
        QNN_HTP_PERF_INFRASTRUCTURE_POWERMODE_ADJUST_ONLY_UP
        QNN_HTP_PERF_INFRASTRUCTURE_POWERMODE_POWER_SAVER_MODE
        QNN_HTP_PERF_INFRASTRUCTURE_POWERMODE_POWER_SAVER_AGGRESSIVE_MODE
        QNN_HTP_PERF_INFRASTRUCTURE_POWERMODE_PERFORMANCE_MODE
        QNN_HTP_PERF_INFRASTRUCTURE_POWERMODE_DUTY_CYCLE_MODE
        QNN_HTP_PERF_INFRASTRUCTURE_POWERMODE_UNKNOWN

    ctypedef enum QnnHtpPerfInfrastructure_PowerConfigOption_t:
        QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_DCVS_V3
        QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_RPC_CONTROL_LATENCY
        QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_RPC_POLLING_TIME
        QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_HMX_TIMEOUT_INTERVAL_US
        QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_HMX_V2
        QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_ADAPTIVE_POLLING_TIME
        QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_DDR_PERF_MODE
        QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_UNKNOWN

    ctypedef enum QnnHtpPerfInfrastructure_MemoryConfigOption_t:
        QNN_HTP_PERF_INFRASTRUCTURE_MEMORY_CONFIGOPTION_GROW_SIZE
        QNN_HTP_PERF_INFRASTRUCTURE_MEMORY_CONFIGOPTION_UNKNOWN

    ctypedef struct QnnHtpPerfInfrastructure_DcvsV3_t:
        uint32_t contextId
        QnnHtpPerfInfrastructure_SetDcvsEnable_t setDcvsEnable
        QnnHtpPerfInfrastructure_DcvsEnable_t dcvsEnable
        QnnHtpPerfInfrastructure_PowerMode_t powerMode
        QnnHtpPerfInfrastructure_SetSleepLatency_t setSleepLatency
        QnnHtpPerfInfrastructure_SleepLatency_t sleepLatency
        QnnHtpPerfInfrastructure_SetSleepDisable_t setSleepDisable
        QnnHtpPerfInfrastructure_SleepDisable_t sleepDisable
        QnnHtpPerfInfrastructure_SetBusParams_t setBusParams
        QnnHtpPerfInfrastructure_VoltageCorner_t busVoltageCornerMin
        QnnHtpPerfInfrastructure_VoltageCorner_t busVoltageCornerTarget
        QnnHtpPerfInfrastructure_VoltageCorner_t busVoltageCornerMax
        QnnHtpPerfInfrastructure_SetCoreParams_t setCoreParams
        QnnHtpPerfInfrastructure_VoltageCorner_t coreVoltageCornerMin
        QnnHtpPerfInfrastructure_VoltageCorner_t coreVoltageCornerTarget
        QnnHtpPerfInfrastructure_VoltageCorner_t coreVoltageCornerMax

    ctypedef struct QnnHtpPerfInfrastructure_HmxV2_t:
        QnnHtpPerfInfrastructure_HmxDefault_Vote_t hmxPickDefault
        QnnHtpPerfInfrastructure_ExpVoltageCorner_t hmxVoltageCornerMin
        QnnHtpPerfInfrastructure_ExpVoltageCorner_t hmxVoltageCornerTarget
        QnnHtpPerfInfrastructure_ExpVoltageCorner_t hmxVoltageCornerMax
        QnnHtpPerfInfrastructure_ClkPerfMode_t hmxPerfMode

    ctypedef struct QnnHtpPerfInfrastructure_PowerConfig_t:
        QnnHtpPerfInfrastructure_PowerConfigOption_t option
        QnnHtpPerfInfrastructure_DcvsV3_t dcvsV3Config
        QnnHtpPerfInfrastructure_RpcControlLatency_t rpcControlLatencyConfig
        QnnHtpPerfInfrastructure_RpcPollingTime_t rpcPollingTimeConfig
        QnnHtpPerfInfrastructure_HmxTimeoutIntervalUs_t hmxTimeoutIntervalUsConfig
        QnnHtpPerfInfrastructure_HmxV2_t hmxV2Config
        QnnHtpPerfInfrastructure_AdaptivePollingTime_t adaptivePollingTimeConfig
        QnnHtpPerfInfrastructure_DdrPerfMode_t ddrPerfModeConfig

    ctypedef struct QnnHtpPerfInfrastructure_MemoryConfig_t:
        QnnHtpPerfInfrastructure_MemoryConfigOption_t option
        QnnHtpPerfInfrastructure_MemGrowSize_t memGrowSizeConfig

    ctypedef Qnn_ErrorHandle_t (*QnnHtpPerfInfrastructure_CreatePowerConfigIdFn_t)(
        uint32_t deviceId, uint32_t coreId, uint32_t* powerConfigId) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnHtpPerfInfrastructure_DestroyPowerConfigIdFn_t)(
        uint32_t powerConfigId) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnHtpPerfInfrastructure_SetPowerConfigFn_t)(
        uint32_t powerConfigId,
        const QnnHtpPerfInfrastructure_PowerConfig_t** config) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnHtpPerfInfrastructure_SetMemoryConfigFn_t)(
        uint32_t deviceId, uint32_t coreId,
        const QnnHtpPerfInfrastructure_MemoryConfig_t** config) noexcept nogil


cdef extern from "abi/qnn_htp.h" nogil:
    enum:
        QNN_PROPERTY_HTP_UNSIGNED_PD_SUPPORT

    ctypedef uint64_t QnnHtpMem_QurtAddress_t

    ctypedef enum QnnHtpMem_Type_t:
        QNN_HTP_MEM_QURT, QNN_HTP_MEM_SHARED_BUFFER, QNN_HTP_MEM_WEIGHTS_BUFFER
        QNN_HTP_MEM_SHARED_SPILLFILL_BUFFER, QNN_HTP_MEM_UNDEFINED

    ctypedef struct QnnHtpMem_SharedBufferConfig_t:
        int32_t fd
        uint64_t offset

    ctypedef struct QnnMemHtp_Descriptor_t:
        QnnHtpMem_Type_t type
        uint64_t size
        QnnHtpMem_QurtAddress_t qurtAddress
        QnnHtpMem_SharedBufferConfig_t sharedBufferConfig
        QnnHtpMem_SharedBufferConfig_t weightsBufferConfig
        QnnHtpMem_SharedBufferConfig_t sharedSpillfillBufferConfig

    ctypedef enum QnnHtpDevice_Arch_t:
        QNN_HTP_DEVICE_ARCH_NONE, QNN_HTP_DEVICE_ARCH_V68, QNN_HTP_DEVICE_ARCH_V69
        QNN_HTP_DEVICE_ARCH_V73, QNN_HTP_DEVICE_ARCH_V75, QNN_HTP_DEVICE_ARCH_V79
        QNN_HTP_DEVICE_ARCH_V81, QNN_HTP_DEVICE_ARCH_V85, QNN_HTP_DEVICE_ARCH_UNKNOWN

    ctypedef enum QnnHtpDevice_ConfigOption_t:
        QNN_HTP_DEVICE_CONFIG_OPTION_SOC, QNN_HTP_DEVICE_CONFIG_OPTION_ARCH
        QNN_HTP_DEVICE_CONFIG_OPTION_SIGNEDPD, QNN_HTP_DEVICE_CONFIG_OPTION_SECUREPD
        QNN_HTP_DEVICE_CONFIG_OPTION_UNKNOWN

    ctypedef enum QnnHtpDevice_DeviceType_t:
        QNN_HTP_DEVICE_TYPE_ON_CHIP, QNN_HTP_DEVICE_TYPE_UNKNOWN

    ctypedef enum QnnHtpDevice_CoreType_t:
        QNN_HTP_CORE_TYPE_NSP, QNN_HTP_CORE_TYPE_HPASS, QNN_HTP_CORE_TYPE_MAX
        QNN_HTP_CORE_TYPE_UNKNOWN

    ctypedef enum QnnHtpDevice_InfrastructureType_t:
        QNN_HTP_DEVICE_INFRASTRUCTURE_TYPE_PERF, QNN_HTP_DEVICE_INFRASTRUCTURE_TYPE_UNKNOWN

    ctypedef struct QnnHtpDevice_Minimum_Arch_t:
        uint32_t deviceId
        QnnHtpDevice_Arch_t arch

    ctypedef struct QnnHtpDevice_UseSignedProcessDomain_t:
        uint32_t deviceId
        bool useSignedProcessDomain

    ctypedef struct QnnHtpDevice_UseSecureProcessDomain_t:
        uint32_t deviceId
        bool useSecureProcessDomain

    ctypedef struct QnnHtpDevice_CustomConfig_t:
        QnnHtpDevice_ConfigOption_t option
        uint32_t socModel
        QnnHtpDevice_Minimum_Arch_t arch
        QnnHtpDevice_UseSignedProcessDomain_t useSignedProcessDomain
        QnnHtpDevice_UseSecureProcessDomain_t useSecureProcessDomain

    ctypedef struct QnnHtpDevice_OnChipDeviceInfoExtension_t:
        size_t vtcmSize
        uint32_t socModel
        bool signedPdSupport
        bool dlbcSupport
        QnnHtpDevice_Arch_t arch

    ctypedef struct QnnHtpDevice_DeviceInfoExtension_t:
        QnnHtpDevice_DeviceType_t devType
        QnnHtpDevice_OnChipDeviceInfoExtension_t onChipDevice

    ctypedef struct QnnHtpDevice_PerfInfrastructure_t:
        QnnHtpPerfInfrastructure_CreatePowerConfigIdFn_t createPowerConfigId
        QnnHtpPerfInfrastructure_DestroyPowerConfigIdFn_t destroyPowerConfigId
        QnnHtpPerfInfrastructure_SetPowerConfigFn_t setPowerConfig
        QnnHtpPerfInfrastructure_SetMemoryConfigFn_t setMemoryConfig

    ctypedef struct QnnHtpDevice_Infrastructure_t:
        QnnHtpDevice_InfrastructureType_t infraType
        QnnHtpDevice_PerfInfrastructure_t perfInfra

    ctypedef enum QnnHtpGraph_OptimizationType_t:
        QNN_HTP_GRAPH_OPTIMIZATION_TYPE_SCHEDULE_THRESHOLD
        QNN_HTP_GRAPH_OPTIMIZATION_TYPE_FINALIZE_RETRIES
        QNN_HTP_GRAPH_OPTIMIZATION_TYPE_FINALIZE_OPTIMIZATION_FLAG
        QNN_HTP_GRAPH_OPTIMIZATION_TYPE_ENABLE_DLBC
        QNN_HTP_GRAPH_OPTIMIZATION_TYPE_ENABLE_DLBC_WEIGHTS
        QNN_HTP_GRAPH_OPTIMIZATION_TYPE_ENABLE_SPARSE_WEIGHTS_COMPRESSION
        QNN_HTP_GRAPH_OPTIMIZATION_TYPE_ENABLE_SLC_ALLOCATOR
        QNN_HTP_GRAPH_OPTIMIZATION_TYPE_UNKNOWN

    ctypedef enum QnnHtpGraph_ConcurrencyOption_t:
        QNN_HTP_GRAPH_CONCURRENCY_OPTION_NONE, QNN_HTP_GRAPH_CONCURRENCY_OPTION_DEFAULT
        QNN_HTP_GRAPH_CONCURRENCY_OPTION_ALL_SHARED, QNN_HTP_GRAPH_CONCURRENCY_OPTION_UNKNOWN

    ctypedef enum QnnHtpGraph_ConfigOption_t:
        QNN_HTP_GRAPH_CONFIG_OPTION_OPTIMIZATION, QNN_HTP_GRAPH_CONFIG_OPTION_PRECISION
        QNN_HTP_GRAPH_CONFIG_OPTION_VTCM_SIZE_IN_MB, QNN_HTP_GRAPH_CONFIG_OPTION_VTCM_SIZE
        QNN_HTP_GRAPH_CONFIG_OPTION_FOLD_RELU_ACTIVATION_INTO_CONV_OFF
        QNN_HTP_GRAPH_CONFIG_OPTION_SHORT_DEPTH_CONV_ON_HMX_OFF
        QNN_HTP_GRAPH_CONFIG_OPTION_NUM_HVX_THREADS, QNN_HTP_GRAPH_CONFIG_OPTION_FINALIZE_CONFIG
        QNN_HTP_GRAPH_CONFIG_OPTION_NUM_CORES
        QNN_HTP_GRAPH_CONFIG_OPTION_PARALLEL_GRAPH_EXECUTION_CONFIG
        QNN_HTP_GRAPH_CONFIG_OPTION_VTCM_SIZE_IN_BYTES, QNN_HTP_GRAPH_CONFIG_OPTION_HMX_BOUNDING
        QNN_HTP_GRAPH_CONFIG_OPTION_WEIGHTS_PACKING, QNN_HTP_GRAPH_CONFIG_OPTION_ASSUME_SAME_QUANT
        QNN_HTP_GRAPH_CONFIG_OPTION_SHARE_IO_BUFFER
        QNN_HTP_GRAPH_CONFIG_OPTION_ADVANCED_ACTIVATION_FUSION
        QNN_HTP_GRAPH_CONFIG_OPTION_HIGH_PRECISION_SIGMOID
        QNN_HTP_GRAPH_CONFIG_OPTION_MONOLITHIC_LSTM, QNN_HTP_GRAPH_CONFIG_OPTION_RESERVED
        QNN_HTP_GRAPH_CONFIG_OPTION_UNKNOWN

    ctypedef struct QnnHtpGraph_OptimizationOption_t:
        QnnHtpGraph_OptimizationType_t type
        float floatValue

    ctypedef struct QnnHtpGraph_VtcmConfig_t:
        uint32_t sizeInBytes
        uint32_t offsetInBytes
        uint32_t sizeTotalInBytes
        uint32_t reserved[3]

    ctypedef struct QnnHtpGraph_ParallelGraphExecutionConfig_t:
        QnnHtpGraph_ConcurrencyOption_t concurrency
        QnnHtpGraph_VtcmConfig_t vtcmConfig
        uint32_t reserved[4]

    ctypedef struct QnnHtp_HmxBoundingInfo_t:
        float targetHmxFreqHz
        float targetDspCoreFreq

    ctypedef struct QnnHtpGraph_FinalizeConfig_t:
        const char* key
        Qnn_Scalar_t value

    ctypedef struct QnnHtpGraph_CustomConfig_t:
        QnnHtpGraph_ConfigOption_t option
        QnnHtpGraph_OptimizationOption_t optimizationOption
        Qnn_Precision_t precision
        uint32_t vtcmSizeInMB
        bool foldReluActivationIntoConvOff
        bool shortDepthConvOnHmxOff
        uint64_t numHvxThreads
        void* reserved
        QnnHtpGraph_FinalizeConfig_t finalizeConfig
        uint32_t numCores
        QnnHtpGraph_ParallelGraphExecutionConfig_t parallelGraphExecutionConfig
        uint32_t vtcmSizeInBytes
        QnnHtp_HmxBoundingInfo_t hmxBoundingInfo
        bool weightsPacking
        bool assumeSameQuant
        bool shareIOBuffer
        bool advancedActivationFusion
        bool highPrecisionSigmoid
        bool monolithicLstm

    ctypedef enum QnnHtpContext_ConfigOption_t:
        QNN_HTP_CONTEXT_CONFIG_OPTION_WEIGHT_SHARING_ENABLED
        QNN_HTP_CONTEXT_CONFIG_OPTION_REGISTER_MULTI_CONTEXTS
        QNN_HTP_CONTEXT_CONFIG_OPTION_FILE_READ_MEMORY_BUDGET
        QNN_HTP_CONTEXT_CONFIG_OPTION_DSP_MEMORY_PROFILING_ENABLED
        QNN_HTP_CONTEXT_CONFIG_OPTION_SHARE_RESOURCES
        QNN_HTP_CONTEXT_CONFIG_OPTION_IO_MEM_ESTIMATION
        QNN_HTP_CONTEXT_CONFIG_OPTION_PREPARE_ONLY
        QNN_HTP_CONTEXT_CONFIG_OPTION_INIT_ACCELERATION
        QNN_HTP_CONTEXT_CONFIG_OPTION_SKIP_VALIDATION_ON_BINARY_SECTION
        QNN_HTP_CONTEXT_CONFIG_OPTION_SHARE_RESOURCES_OPTIMIZATION_TYPE
        QNN_HTP_CONTEXT_CONFIG_OPTION_USE_EXTENDED_UDMA
        QNN_HTP_CONTEXT_CONFIG_OPTION_REGISTER_CONCURRENT_RESOURCE_SHARING
        QNN_HTP_CONTEXT_CONFIG_OPTION_LORA_WEIGHT_SHARING_ENABLED
        QNN_HTP_CONTEXT_CONFIG_OPTION_RESERVED_14, QNN_HTP_CONTEXT_CONFIG_OPTION_RESERVED_15
        QNN_HTP_CONTEXT_CONFIG_OPTION_UNKNOWN

    ctypedef enum QnnHtpContext_ShareResourcesOptimizationType_t:
        SEQUENTIAL_WITH_VA_OPTIMIZATION, SEQUENTIAL_WITHOUT_VA_OPTIMIZATION
        CONCURRENT_OPTIMIZATION

    ctypedef enum QnnHtpContext_GetPropertyOption_t:
        QNN_HTP_CONTEXT_GET_PROP_BUFFER_START_ALIGNMENT
        QNN_HTP_CONTEXT_GET_PROP_MAX_SPILLFILL_BUFFER_SIZE
        QNN_HTP_CONTEXT_GET_PROP_WEIGHTS_BUFFER_SIZE, QNN_HTP_CONTEXT_GET_PROP_RESERVED_4
        QNN_HTP_CONTEXT_GET_PROP_RESERVED_5, QNN_HTP_CONTEXT_GET_PROP_UNDEFINED

    ctypedef struct QnnHtpContext_GroupRegistration_t:
        Qnn_ContextHandle_t firstGroupHandle
        uint64_t maxSpillFillBuffer

    ctypedef struct QnnHtpContext_CustomConfig_t:
        QnnHtpContext_ConfigOption_t option
        bool weightSharingEnabled
        QnnHtpContext_GroupRegistration_t groupRegistration
        uint64_t fileReadMemoryBudgetInMb
        bool dspMemoryProfilingEnabled
        bool shareResources
        bool ioMemEstimation
        bool isPrepareOnly
        bool initAcceleration
        bool skipValidationOnBinarySection
        QnnHtpContext_ShareResourcesOptimizationType_t shareResOptType
        bool useExtendedUdma
        QnnHtpContext_GroupRegistration_t concurrentGroupRegistration
        bool loraWeightSharingEnabled

    ctypedef struct QnnHtpContext_CustomProperty_t:
        QnnHtpContext_GetPropertyOption_t option
        uint64_t bufferStartAlignment
        uint64_t spillfillBufferSize
        uint64_t weightsBufferSize

    ctypedef enum QnnHtpSystemContext_HwInfoBlobVersion_t:
        QNN_SYSTEM_CONTEXT_HTP_HW_INFO_BLOB_VERSION_V1
        QNN_SYSTEM_CONTEXT_HTP_HW_INFO_BLOB_UNDEFINED

    ctypedef enum QnnHtpSystemContext_GraphInfoBlobVersion_t:
        QNN_SYSTEM_CONTEXT_HTP_GRAPH_INFO_BLOB_VERSION_V1
        QNN_SYSTEM_CONTEXT_HTP_GRAPH_INFO_BLOB_VERSION_V2
        QNN_SYSTEM_CONTEXT_HTP_GRAPH_INFO_BLOB_UNDEFINED

    ctypedef enum QnnHtpSystemContext_ContextInfoBlobVersion_t:
        QNN_SYSTEM_CONTEXT_HTP_CONTEXT_INFO_BLOB_VERSION_V1
        QNN_SYSTEM_CONTEXT_HTP_CONTEXT_INFO_BLOB_UNDEFINED

    ctypedef struct QnnHtpSystemContext_HwBlobInfoV1_t:
        uint32_t graphListIndex
        uint64_t spillFillBufferSize

    ctypedef struct QnnHtpSystemContext_HwBlobInfo_t:
        QnnHtpSystemContext_HwInfoBlobVersion_t version
        QnnHtpSystemContext_HwBlobInfoV1_t contextBinaryHwInfoBlobV1_t

    ctypedef struct QnnHtpSystemContext_GraphBlobInfoV1_t:
        uint64_t spillFillBufferSize
        uint32_t vtcmSize
        uint32_t optimizationLevel
        uint8_t htpDlbc
        uint64_t numHvxThreads

    ctypedef struct QnnHtpSystemContext_GraphBlobInfoV2_t:
        QnnHtpSystemContext_GraphInfoBlobVersion_t version
        uint64_t nativeKChannelSize
        uint64_t nativeVChannelSize
        uint32_t isSafeShareIO
        uint64_t ioTensorSize
        uint64_t opDataSize
        uint64_t constSize
        uint64_t ddrTensorSize
        uint64_t sharedWeightsSize

    ctypedef struct QnnHtpSystemContext_GraphBlobInfo_t:
        QnnHtpSystemContext_GraphInfoBlobVersion_t version
        QnnHtpSystemContext_GraphBlobInfoV1_t contextBinaryGraphBlobInfoV1

    ctypedef struct QnnHtpSystemContext_ContextBlobInfoV1_t:
        uint32_t dspArch

    ctypedef struct QnnHtpSystemContext_ContextBlobInfo_t:
        QnnHtpSystemContext_ContextInfoBlobVersion_t version
        QnnHtpSystemContext_ContextBlobInfoV1_t contextBinaryContextBlobInfoV1


cdef extern from "abi/qnn_gpu.h" nogil:
    ctypedef void* QnnGpuMem_Buffer_t

    ctypedef enum QnnGpu_MemType_t:
        QNN_GPU_MEM_OPENCL, QNN_GPU_MEM_UNDEFINED

    ctypedef enum QnnGpuBackend_ConfigOption_t:
        QNN_GPU_BACKEND_CONFIG_OPTION_ENABLE_TUNING_MODE
        QNN_GPU_BACKEND_CONFIG_OPTION_PERFORMANCE_CACHE_DIR
        QNN_GPU_BACKEND_CONFIG_OPTION_INVALIDATE_PERFORMANCE_CACHE
        QNN_GPU_BACKEND_CONFIG_OPTION_WEIGHT_SHARING_ENABLED
        QNN_GPU_BACKEND_CONFIG_OPTION_DISABLE_KERNEL_PROFILING
        QNN_GPU_BACKEND_CONFIG_OPTION_UNDEFINED

    ctypedef enum QnnGpuContext_ConfigOption_t:
        QNN_GPU_CONTEXT_CONFIG_OPTION_PERF_HINT, QNN_GPU_CONTEXT_CONFIG_OPTION_USE_GL_BUFFERS
        QNN_GPU_CONTEXT_CONFIG_OPTION_KERNEL_REPO_DIR
        QNN_GPU_CONTEXT_CONFIG_OPTION_INVALIDATE_KERNEL_REPO
        QNN_GPU_CONTEXT_CONFIG_OPTION_UNDEFINED

    ctypedef enum QnnGpuContext_PerfHint_t:
        QNN_GPU_CONTEXT_PERF_HINT_HIGH, QNN_GPU_CONTEXT_PERF_HINT_NORMAL
        QNN_GPU_CONTEXT_PERF_HINT_LOW

    ctypedef enum QnnGpu_Precision_t:
        QNN_GPU_PRECISION_FP32, QNN_GPU_PRECISION_FP16, QNN_GPU_PRECISION_HYBRID
        QNN_GPU_PRECISION_USER_PROVIDED

    ctypedef struct QnnGpu_MemInfoCustom_t:
        QnnGpu_MemType_t memType
        QnnGpuMem_Buffer_t buffer

    ctypedef struct QnnGpuBackend_CustomConfig_t:
        QnnGpuBackend_ConfigOption_t option
        uint8_t enableTuningMode
        const char* performanceCacheDir
        uint8_t invalidatePerformanceCache
        uint8_t weightSharingEnabled
        uint8_t disableKernelProfiling

    ctypedef struct QnnGpuContext_CustomConfig_t:
        QnnGpuContext_ConfigOption_t option
        QnnGpuContext_PerfHint_t perfHint
        uint8_t useGLBuffers
        const char* kernelRepoDir
        uint8_t invalidateKernelRepo

    ctypedef struct QnnGpuGraph_CustomConfig_t:
        QnnGpu_Precision_t precision
        uint8_t disableMemoryOptimizations
        uint8_t disableNodeOptimizations
        uint8_t disableQueueRecording


cdef extern from "abi/qnn_lpai.h" nogil:
    ctypedef enum QnnLpaiBackend_CustomConfigOption_t:
        QNN_LPAI_BACKEND_CUSTOM_CFG_HW_INFO, QNN_LPAI_BACKEND_CUSTOM_CFG_UNDEFINED

    ctypedef enum QnnLpaiBackend_Target_t:
        QNN_LPAI_BACKEND_TARGET_X86, QNN_LPAI_BACKEND_TARGET_ARM, QNN_LPAI_BACKEND_TARGET_ADSP
        QNN_LPAI_BACKEND_TARGET_TENSILICA, QNN_LPAI_BACKEND_TARGET_UNKNOWN

    ctypedef enum QnnLpaiBackend_HwVersion_t:
        QNN_LPAI_BACKEND_HW_VERSION_NA, QNN_LPAI_BACKEND_HW_VERSION_V1
        QNN_LPAI_BACKEND_HW_VERSION_V2, QNN_LPAI_BACKEND_HW_VERSION_V3
        QNN_LPAI_BACKEND_HW_VERSION_V4, QNN_LPAI_BACKEND_HW_VERSION_V5
        QNN_LPAI_BACKEND_HW_VERSION_V5_1, QNN_LPAI_BACKEND_HW_VERSION_V6
        QNN_LPAI_BACKEND_HW_VERSION_V7, QNN_LPAI_BACKEND_HW_VERSION_DEFAULT
        QNN_LPAI_BACKEND_HW_VERSION_UNKNOWN

    ctypedef enum QnnLpaiBackend_GetPropertyOption_t:
        QNN_LPAI_BACKEND_GET_PROP_ALIGNMENT_REQ
        QNN_LPAI_BACKEND_GET_PROP_REQUIRE_PERSISTENT_BINARY
        QNN_LPAI_BACKEND_GET_PROP_ENPU_CORE_NUM, QNN_LPAI_BACKEND_GET_PROP_ENPU_CORE_INFO
        QNN_LPAI_BACKEND_GET_PROP_UNDEFINED

    ctypedef enum QnnLpaiContext_SetConfigOption_t:
        QNN_LPAI_CONTEXT_SET_CFG_MODEL_BUFFER_MEM_TYPE, QNN_LPAI_CONTEXT_SET_CFG_ENABLE_ISLAND
        QNN_LPAI_CONTEXT_SET_CFG_UNDEFINED

    ctypedef enum QnnLpaiMem_MemType_t:
        QNN_LPAI_MEM_TYPE_DDR, QNN_LPAI_MEM_TYPE_LLC, QNN_LPAI_MEM_TYPE_TCM
        QNN_LPAI_MEM_TYPE_PSRAM, QNN_LPAI_MEM_TYPE_UNDEFINED

    ctypedef enum QnnLpaiGraph_SetConfigOption_t:
        QNN_LPAI_GRAPH_SET_CFG_SCRATCH_MEM, QNN_LPAI_GRAPH_SET_CFG_PERSISTENT_MEM
        QNN_LPAI_GRAPH_SET_CFG_PERF_CFG, QNN_LPAI_GRAPH_SET_CFG_CORE_AFFINITY
        QNN_LPAI_GRAPH_SET_CFG_UNDEFINED

    ctypedef enum QnnLpaiGraph_GetPropertyOption_t:
        QNN_LPAI_GRAPH_GET_PROP_SCRATCH_MEM_SIZE, QNN_LPAI_GRAPH_GET_PROP_PERSISTENT_MEM_SIZE
        QNN_LPAI_GRAPH_GET_PROP_UNDEFINED

    ctypedef enum QnnLpaiGraph_ClientPerfType_t:
        QNN_LPAI_GRAPH_CLIENT_PERF_TYPE_REAL_TIME, QNN_LPAI_GRAPH_CLIENT_PERF_TYPE_NON_REAL_TIME
        QNN_LPAI_GRAPH_CLIENT_PERF_TYPE_UNDEFINED

    ctypedef enum QnnLpaiGraph_CoreAffinityType_t:
        QNN_LPAI_GRAPH_CORE_AFFINITY_SOFT, QNN_LPAI_GRAPH_CORE_AFFINITY_HARD
        QNN_LPAI_GRAPH_CORE_AFFINITY_UNDEFINED

    ctypedef enum QnnLpaiGraph_ConfigPrepareOption_t:
        QNN_LPAI_GRAPH_SET_CFG_PREPARE

    ctypedef struct QnnLpaiBackend_CustomConfig_t:
        uint32_t option
        void* config

    ctypedef struct QnnLpaiBackend_CustomConfigHwInfo_t:
        QnnLpaiBackend_Target_t lpaiTarget
        QnnLpaiBackend_HwVersion_t hwVersion

    ctypedef struct QnnLpaiBackend_BufferAlignmentReq_t:
        uint32_t startAddrAlignment
        uint32_t sizeAlignment

    ctypedef struct QnnLpaiBackend_eNPUCoreInfo_t:
        uint32_t coreIndex
        uint32_t macCnt
        uint32_t version

    ctypedef struct QnnLpaiBackend_CustomProperty_t:
        uint32_t option
        void* property

    ctypedef struct QnnLpaiContext_CustomConfig_t:
        uint32_t option
        void* config

    ctypedef struct QnnLpaiDevice_DeviceInfoExtension_t:
        uint32_t socModel
        uint32_t arch
        uint32_t domainId
        const char* domainName

    ctypedef struct QnnLpaiMem_MemInfoCustom_t:
        int32_t fd
        uint32_t offset

    ctypedef struct QnnLpaiGraph_PerfCfg_t:
        uint32_t fps
        uint32_t ftrtRatio
        QnnLpaiGraph_ClientPerfType_t clientType

    ctypedef struct QnnLpaiGraph_CoreAffinity_t:
        QnnLpaiGraph_CoreAffinityType_t affinity
        uint32_t coreSelection

    ctypedef struct QnnLpaiGraph_Mem_t:
        QnnLpaiMem_MemType_t memType
        uint32_t size
        void* addr

    ctypedef struct QnnLpaiGraph_CustomConfig_t:
        uint32_t option
        void* config

    ctypedef struct QnnLpaiGraph_CustomProperty_t:
        uint32_t option
        void* property

    ctypedef struct QnnLpaiGraph_CustomConfigPrepare_t:
        uint32_t enablePerLayer
        char* enableCoreSelection


cdef extern from "abi/qnnrt_ext.h" nogil:
    enum:
        QNNRT_GRAPH_CONFIG_MAGIC, QNNRT_GRAPH_OPTION_NUM_THREADS, QNNRT_GRAPH_OPTION_KERNELS
        QNNRT_GRAPH_OPTION_STRICT, QNNRT_GRAPH_OPTION_EXCLUDE_IO
        QNNRT_GRAPH_OPTION_PLAN_MILLISECONDS, QNNRT_KERNELS_AUTO, QNNRT_KERNELS_PORTABLE
        QNNRT_RESERVED_NONE, QNNRT_RESERVED_AT_FINALIZE, QNNRT_RESERVED_AT_EXECUTE, QNNRT_COPY_IN
        QNNRT_COPY_OUT, QNNRT_PASSES_CONSTANTS, QNNRT_PASSES_PORTABLE, QNNRT_TFLITE_STATES_RESET
        QNNRT_TFLITE_STATES_INPUTS, QNNRT_TFLITE_STATES_KEPT, QNNRT_PLAN_BY_SIZE
        QNNRT_PLAN_PORTFOLIO, QNNRT_PLAN_EXACT

    ctypedef struct Qnnrt_GraphConfig_t:
        uint32_t magic
        uint32_t option
        uint32_t numThreads
        uint32_t kernels
        uint32_t strict
        uint32_t excludeIo
        uint32_t planMilliseconds

    ctypedef struct Qnnrt_GraphStats_t:
        uint64_t executes
        uint64_t copied_bytes
        uint64_t reserved_bytes
        uint64_t reserved_at
        uint64_t arena_bytes
        uint64_t arena_lower_bound
        uint64_t arena_sum
        uint64_t weight_bytes
        uint64_t num_steps
        uint64_t execute_nanoseconds
        uint64_t reserved_at_finalize_bytes
        uint64_t reserved_at_execute_bytes
        uint64_t copied_in_bytes
        uint64_t copied_out_bytes

    ctypedef struct Qnnrt_CopyRecord_t:
        const char* tensor
        uint32_t direction
        uint32_t reserved
        uint64_t bytes
        uint64_t count
        const char* reason

    uint64_t qnnrt_graph_stats(Qnn_GraphHandle_t graph, Qnnrt_GraphStats_t* stats)
    uint64_t qnnrt_graph_copies(
        Qnn_GraphHandle_t graph, Qnnrt_CopyRecord_t* out, uint32_t capacity, uint32_t* count)
    uint64_t qnnrt_graph_reset_stats(Qnn_GraphHandle_t graph)
    const char* qnnrt_graph_describe(Qnn_GraphHandle_t graph)

    ctypedef struct Qnnrt_Tensors_t:
        const Qnn_Tensor_t* inputs
        const Qnn_Tensor_t* outputs
        uint32_t num_inputs
        uint32_t num_outputs
        uint32_t strict

    ctypedef struct Qnnrt_ExecutorText_t:
        char text[500]

    ctypedef struct Qnnrt_ExecutorRun_t:
        void* profile
        uint32_t detailed
        int32_t (*add_event)(
            void* profile, uint32_t type, uint32_t unit, uint64_t value, uint64_t timestamp,
            const char* identifier, int32_t parent) noexcept nogil
        const void* interrupt
        uint32_t (*stopped)(const void* interrupt) noexcept nogil

    ctypedef struct Qnnrt_Executor_t:
        void* self
        uint64_t started
        uint64_t (*bind)(
            void* self, const Qnnrt_Tensors_t* tensors, void** binding,
            Qnnrt_ExecutorText_t* why) noexcept nogil
        uint64_t (*run)(
            void* self, void* binding, const Qnnrt_ExecutorRun_t* run,
            Qnnrt_ExecutorText_t* why) noexcept nogil
        void (*release)(void* self, void* binding) noexcept nogil

    uint64_t qnnrt_graph_set_executor(
        Qnn_GraphHandle_t graph, const Qnnrt_Executor_t* executor)
    const char* qnnrt_gpu_config(void* handle)
    uint64_t qnnrt_graph_reset_state(Qnn_GraphHandle_t graph)
    uint64_t qnnrt_graph_lower(
        Qnn_GraphHandle_t graph, uint32_t passes, const char** json)
    uint64_t qnnrt_graph_leave(
        Qnn_GraphHandle_t graph, const void* const* kept, uint64_t count)
    uint64_t qnnrt_tflite_lower(
        const Qnn_OpConfig_t* op, uint32_t states, uint64_t budget, const char** json)
    const char* qnnrt_tflite_operators_json()

    ctypedef struct Qnnrt_DomainInfo_t:
        uint64_t budget_bytes
        uint64_t used_bytes
        uint64_t peak_bytes
        uint64_t num_holders

    ctypedef struct Qnnrt_DomainHolder_t:
        uint64_t bytes
        char what[32]
        char who[96]

    uint64_t qnnrt_htp_domain_info(Qnnrt_DomainInfo_t* info)
    uint64_t qnnrt_htp_domain_set_budget(uint64_t bytes)
    uint64_t qnnrt_htp_domain_holders(
        Qnnrt_DomainHolder_t* out, uint32_t capacity, uint32_t* count)

    ctypedef void* Qnnrt_LpaiAllocatorHandle_t

    ctypedef struct Qnnrt_LpaiAllocatorInfo_t:
        uint32_t mem_type
        uint32_t fatal
        uint32_t pieces
        uint32_t max_pieces
        uint64_t used_bytes
        uint64_t pool_bytes
        uint64_t free_bytes

    uint64_t qnnrt_lpai_allocator_create(
        Qnn_BackendHandle_t backend, const char* mem_type,
        Qnnrt_LpaiAllocatorHandle_t* allocator)
    uint64_t qnnrt_lpai_allocator_alloc(
        Qnnrt_LpaiAllocatorHandle_t allocator, uint64_t nbytes, uint64_t* piece)
    uint64_t qnnrt_lpai_allocator_free(
        Qnnrt_LpaiAllocatorHandle_t allocator, uint64_t piece)
    uint64_t qnnrt_lpai_allocator_info(
        Qnnrt_LpaiAllocatorHandle_t allocator, Qnnrt_LpaiAllocatorInfo_t* info)
    uint64_t qnnrt_lpai_allocator_destroy(Qnnrt_LpaiAllocatorHandle_t allocator)

    ctypedef struct Qnnrt_LiveCounts_t:
        uint64_t buffers
        uint64_t maps
        uint64_t fds
        uint64_t mem_handles
        uint64_t contexts
        uint64_t graphs
        uint64_t backends
        uint64_t profiles
        uint64_t logs
        uint64_t devices
        uint64_t signals
        uint64_t lpai_allocators

    void qnnrt_live_counts(Qnnrt_LiveCounts_t* counts)
    uint64_t qnnrt_debug_allocations()
    void qnnrt_debug_fail_allocation(int64_t n)
    const char* qnnrt_error_message()
    const char* qnnrt_htp_describe(Qnn_DeviceHandle_t device)
    const char* qnnrt_lpai_describe(void* backend_or_graph)
    uint64_t qnnrt_graph_io_address(
        Qnn_GraphHandle_t graph, uint32_t tensor, void** address)
    uint64_t qnnrt_binary_verify(const void* binary, uint64_t size)

    ctypedef struct Qnnrt_ArenaItem_t:
        uint32_t first
        uint32_t last
        uint64_t size
        uint64_t alignment

    ctypedef struct Qnnrt_PlanOptions_t:
        uint32_t effort
        uint32_t milliseconds
        uint64_t steps

    ctypedef struct Qnnrt_PlanInfo_t:
        uint64_t peak
        uint64_t lower_bound
        uint64_t sum
        uint64_t steps
        uint32_t proved
        uint32_t reserved
        const char* order

    uint64_t qnnrt_plan_arena(
        const Qnnrt_ArenaItem_t* items, uint64_t count, const Qnnrt_PlanOptions_t* options,
        uint64_t* offsets, Qnnrt_PlanInfo_t* info)
    const char* qnnrt_version()
    const char* qnnrt_kernel_library()
    const char* qnnrt_op_coverage_json()
    const char* qnnrt_config_table_json()


cdef extern from "abi/qnnrt_opencl.h" nogil:
    enum:
        QNNRT_OPENCL_OUTPUT, QNNRT_OPENCL_READ, QNNRT_OPENCL_OUT_OF_ORDER, QNNRT_OPENCL_TIMESTAMPS
        QNNRT_OPENCL_CLIENT_QUEUE, QNNRT_OPENCL_PROFILE_NODES, QNNRT_OPENCL_SHARED
        QNNRT_OPENCL_MAPPED, QNNRT_OPENCL_EXTERNAL

    ctypedef struct Qnnrt_OpenClFunctions_t:
        int32_t (*enqueueNDRangeKernel)(
            void* queue, void* kernel, uint32_t dims, const size_t* offset, const size_t* total,
            const size_t* group, uint32_t num_events, void* const* events,
            void** event) noexcept nogil
        int32_t (*enqueueWriteBuffer)(
            void* queue, void* mem, uint32_t blocking, size_t offset, size_t size,
            const void* data, uint32_t num_events, void* const* events,
            void** event) noexcept nogil
        int32_t (*enqueueReadBuffer)(
            void* queue, void* mem, uint32_t blocking, size_t offset, size_t size, void* data,
            uint32_t num_events, void* const* events, void** event) noexcept nogil
        int32_t (*enqueueBarrierWithWaitList)(
            void* queue, uint32_t num_events, void* const* events, void** event) noexcept nogil
        int32_t (*setKernelArg)(
            void* kernel, uint32_t index, size_t size, const void* value) noexcept nogil
        int32_t (*finish)(void* queue) noexcept nogil
        int32_t (*flush)(void* queue) noexcept nogil
        void* (*createBuffer)(
            void* context, uint64_t flags, size_t size, void* data, int32_t* status) noexcept nogil
        void* (*createCommandQueue)(
            void* context, void* device, uint64_t properties, int32_t* status) noexcept nogil
        int32_t (*getEventProfilingInfo)(
            void* event, uint32_t name, size_t size, void* value, size_t* returned) noexcept nogil
        int32_t (*releaseMemObject)(void* mem) noexcept nogil
        int32_t (*releaseEvent)(void* event) noexcept nogil
        int32_t (*releaseCommandQueue)(void* queue) noexcept nogil

    ctypedef uint32_t (*Qnnrt_OpenClCall_t)(
        void* user, void* queue, void* const* memories, uint32_t num_memories,
        Qnnrt_ExecutorText_t* why) noexcept nogil

    ctypedef struct Qnnrt_OpenClStep_t:
        const char* node
        const char* name
        void* kernel
        uint32_t dims
        size_t total[3]
        size_t group[3]
        Qnnrt_OpenClCall_t call
        void* user
        void* const* memories
        uint32_t num_memories

    ctypedef struct Qnnrt_OpenClTensor_t:
        const char* name
        uint32_t id
        uint32_t data_type
        uint32_t flags
        uint32_t rank
        const uint32_t* dims
        uint64_t nbytes

    ctypedef struct Qnnrt_OpenClPatch_t:
        uint32_t tensor
        uint32_t step
        uint32_t index

    ctypedef struct Qnnrt_OpenClListInfo_t:
        const Qnnrt_OpenClFunctions_t* functions
        void* context
        void* device
        void* queue
        void* base
        uint32_t flags
        uint32_t flush_every
        const Qnnrt_OpenClStep_t* steps
        const Qnnrt_OpenClTensor_t* tensors
        const Qnnrt_OpenClPatch_t* patches
        uint32_t num_steps
        uint32_t num_tensors
        uint32_t num_patches

    ctypedef void* Qnnrt_OpenClListHandle_t

    ctypedef struct Qnnrt_OpenClCounts_t:
        uint64_t executes
        uint64_t kernels
        uint64_t writes
        uint64_t reads
        uint64_t written_bytes
        uint64_t read_bytes
        uint64_t reserved_bytes
        uint64_t given
        uint64_t taken_back

    uint64_t qnnrt_opencl_list_create(
        const Qnnrt_OpenClListInfo_t* info, Qnnrt_OpenClListHandle_t* list)
    void qnnrt_opencl_list_executor(
        Qnnrt_OpenClListHandle_t list, Qnn_ContextHandle_t context, uint64_t started,
        Qnnrt_Executor_t* executor)
    void qnnrt_opencl_list_forget(Qnnrt_OpenClListHandle_t list, void* mem)
    void qnnrt_opencl_list_counts(
        Qnnrt_OpenClListHandle_t list, Qnnrt_OpenClCounts_t* counts, uint64_t* copied)
    void qnnrt_opencl_list_reset(Qnnrt_OpenClListHandle_t list)
    void qnnrt_opencl_list_free(Qnnrt_OpenClListHandle_t list)

    ctypedef struct Qnnrt_OpenClOwnership_t:
        uint32_t kind
        void* queue
        void* to_device
        void* to_host
        void* address

    ctypedef struct Qnnrt_OpenClMemory_t:
        void* mem
        Qnn_ContextHandle_t context
        uint64_t nbytes
        uint64_t flags
        uint32_t data_type
        uint32_t rank
        const uint32_t* dims
        Qnnrt_OpenClOwnership_t ownership

    uint64_t qnnrt_opencl_register(
        const Qnnrt_OpenClMemory_t* memory, Qnn_MemHandle_t* handle)
    uint64_t qnnrt_opencl_deregister(Qnn_MemHandle_t handle, uint32_t force)
    uint64_t qnnrt_opencl_map(Qnn_MemHandle_t handle, uint32_t write)
    void qnnrt_opencl_unmap(Qnn_MemHandle_t handle, uint32_t write)
    void qnnrt_opencl_usage(
        Qnn_MemHandle_t handle, uint32_t* executions, uint32_t* mapped)
    void qnnrt_opencl_live(uint32_t* handles, uint32_t* lists)


cdef extern from "abi/rpcmem.h" nogil:
    enum:
        RPCMEM_HEAP_ID_SECURE, RPCMEM_HEAP_ID_CONTIG, RPCMEM_HEAP_ID_SYSTEM, RPCMEM_FLAG_UNCACHED
        RPCMEM_FLAG_CACHED, RPCMEM_DEFAULT_FLAGS, RPCMEM_TRY_MAP_STATIC, RPCMEM_DEFAULT_HEAP

    const uint32_t RPCMEM_HEAP_DEFAULT

    enum:
        RPCMEM_HEAP_NOREG, RPCMEM_HEAP_UNCACHED, RPCMEM_HEAP_NOVA, RPCMEM_HEAP_NONCOHERENT
        RPCMEM_FORCE_NOFLUSH, RPCMEM_FORCE_NOINVALIDATE, FASTRPC_ATTR_NONE
        FASTRPC_ATTR_NON_COHERENT, FASTRPC_ATTR_COHERENT, FASTRPC_ATTR_KEEP_MAP
        FASTRPC_ATTR_NOMAP, FASTRPC_ATTR_FORCE_NOFLUSH, FASTRPC_ATTR_FORCE_NOINVALIDATE
        FASTRPC_ATTR_TRY_MAP_STATIC, FASTRPC_ATTR_IMPORT_BUFFER, FASTRPC_ATTR_READ_ONLY
        ADSP_DOMAIN_ID, MDSP_DOMAIN_ID, SDSP_DOMAIN_ID, CDSP_DOMAIN_ID, CDSP1_DOMAIN_ID

    void rpcmem_init()
    void rpcmem_deinit()
    void* rpcmem_alloc(int heapid, uint32_t flags, int size)
    void* rpcmem_alloc2(int heapid, uint32_t flags, size_t size)
    void rpcmem_free(void* po)
    int rpcmem_to_fd(void* po)
    void remote_register_buf(void* buf, int size, int fd)
    void remote_register_buf_attr(void* buf, int size, int fd, int attr)
    void remote_register_buf_attr2(void* buf, size_t size, int fd, int attr)

    enum fastrpc_map_flags:
        FASTRPC_MAP_STATIC, FASTRPC_MAP_FD, FASTRPC_MAP_FD_DELAYED, FASTRPC_MAP_FD_NOMAP

    int fastrpc_mmap(
        int domain, int fd, void* addr, int offset, size_t length, fastrpc_map_flags flags)
    int fastrpc_munmap(int domain, int fd, void* addr, size_t length)


cdef extern from "memory/memory_api.h" nogil:
    enum:
        QNNRT_BUFFER_IMPORTED, QNNRT_BUFFER_WRAPPED, QNNRT_BUFFER_RPCMEM, QNNRT_BUFFER_CAN_SHRINK
        QNNRT_BUFFER_READ_ONLY, QNNRT_BUFFER_EXPORTED, QNNRT_BUFFER_DMA_BUF, QNNRT_BUFFER_COHERENT
        QNNRT_BUFFER_INHERITED, QNNRT_ACCESS_READ, QNNRT_ACCESS_WRITE

    ctypedef uint64_t qnnrt_buffer_t

    const char* qnnrt_last_error()
    uint64_t qnnrt_buffer_alloc(
        const char* heap, uint64_t nbytes, uint64_t alignment, qnnrt_buffer_t* out)
    uint64_t qnnrt_buffer_import(
        int fd, uint64_t nbytes, uint64_t offset, qnnrt_buffer_t* out)
    uint64_t qnnrt_buffer_wrap(
        void* address, uint64_t nbytes, int read_only, qnnrt_buffer_t* out)
    uint64_t qnnrt_buffer_retain(qnnrt_buffer_t buffer)
    uint64_t qnnrt_buffer_release(qnnrt_buffer_t buffer)
    uint64_t qnnrt_buffer_close(qnnrt_buffer_t buffer)
    uint64_t qnnrt_buffer_export_begin(qnnrt_buffer_t buffer)
    uint64_t qnnrt_buffer_export_end(qnnrt_buffer_t buffer)
    uint64_t qnnrt_buffer_execution_begin(qnnrt_buffer_t buffer)
    uint64_t qnnrt_buffer_execution_end(qnnrt_buffer_t buffer)

    ctypedef struct qnnrt_buffer_info_t:
        void* address
        uint64_t nbytes
        uint64_t mapped
        uint64_t fd_offset
        uint64_t fd_size
        const char* heap
        uint32_t flags
        int32_t owners
        int32_t exports
        int32_t registrations
        int32_t executions

    uint64_t qnnrt_buffer_info(qnnrt_buffer_t buffer, qnnrt_buffer_info_t* out)
    uint64_t qnnrt_buffer_fd(qnnrt_buffer_t buffer, int* out)
    uint64_t qnnrt_buffer_borrow_fd(qnnrt_buffer_t buffer, int* out)
    uint64_t qnnrt_buffer_lookup(
        const void* address, qnnrt_buffer_t* out, uint64_t* offset)
    uint64_t qnnrt_buffer_check_alive(qnnrt_buffer_t buffer)
    uint64_t qnnrt_buffer_access_begin(qnnrt_buffer_t buffer, uint32_t access)
    uint64_t qnnrt_buffer_access_end(qnnrt_buffer_t buffer, uint32_t access)

    ctypedef struct qnnrt_heap_info_t:
        const char* name
        const char* reason
        int32_t available
        int32_t is_default
        int32_t coherent
        int32_t reserved
        int64_t live_bytes
        int64_t peak_bytes
        int64_t live_allocations
        int64_t allocations
        int64_t failures

    uint64_t qnnrt_heap_info(uint32_t index, qnnrt_heap_info_t* out)
    const char* qnnrt_heap_default_reason()

    ctypedef struct qnnrt_pool_info_t:
        uint64_t limit
        uint64_t bytes
        uint64_t entries
        uint64_t hits
        uint64_t misses
        uint64_t evictions

    uint64_t qnnrt_pool_info(qnnrt_pool_info_t* out)
    uint64_t qnnrt_pool_set_limit(uint64_t bytes)
    uint64_t qnnrt_pool_trim(uint64_t keep_bytes)

    ctypedef struct qnnrt_memory_counts_t:
        int64_t buffers
        int64_t maps
        int64_t fds
        int64_t handles
        int64_t unknown_frees
        int64_t late_frees

    void qnnrt_memory_counts(qnnrt_memory_counts_t* out)
    void qnnrt_memory_fail_nth(int64_t nth)


cdef extern from "client/dlpack.h" nogil:
    enum:
        DLPACK_FLAG_BITMASK_READ_ONLY

    ctypedef struct DLDevice:
        int32_t device_type
        int32_t device_id

    ctypedef struct DLDataType:
        uint8_t code
        uint8_t bits
        uint16_t lanes

    ctypedef struct DLTensor:
        void* data
        DLDevice device
        int32_t ndim
        DLDataType dtype
        int64_t* shape
        int64_t* strides
        uint64_t byte_offset

    ctypedef struct DLManagedTensor:
        DLTensor dl_tensor
        void* manager_ctx
        void (*deleter)(DLManagedTensor* self) noexcept nogil

    ctypedef struct DLPackVersion:
        uint32_t major
        uint32_t minor

    ctypedef struct DLManagedTensorVersioned:
        DLPackVersion version
        void* manager_ctx
        void (*deleter)(DLManagedTensorVersioned* self) noexcept nogil
        uint64_t flags
        DLTensor dl_tensor
