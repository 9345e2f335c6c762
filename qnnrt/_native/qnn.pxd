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
    ctypedef enum Qnn_DataType_t:
        QNN_DATATYPE_INT_8, QNN_DATATYPE_INT_16, QNN_DATATYPE_INT_32, QNN_DATATYPE_INT_64
        QNN_DATATYPE_UINT_8, QNN_DATATYPE_UINT_16, QNN_DATATYPE_UINT_32, QNN_DATATYPE_UINT_64
        QNN_DATATYPE_FLOAT_32, QNN_DATATYPE_FLOAT_64, QNN_DATATYPE_BOOL_8, QNN_DATATYPE_STRING
    ctypedef enum Qnn_TensorType_t:
        QNN_TENSOR_TYPE_APP_READWRITE, QNN_TENSOR_TYPE_NATIVE, QNN_TENSOR_TYPE_STATIC
        QNN_TENSOR_TYPE_NULL
    ctypedef enum Qnn_ParamType_t:
        QNN_PARAMTYPE_SCALAR, QNN_PARAMTYPE_TENSOR
    ctypedef enum Qnn_Definition_t:
        QNN_DEFINITION_DEFINED, QNN_DEFINITION_UNDEFINED
    ctypedef enum Qnn_QuantizationEncoding_t:
        QNN_QUANTIZATION_ENCODING_SCALE_OFFSET, QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET
        QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET, QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET
        QNN_QUANTIZATION_ENCODING_BLOCK, QNN_QUANTIZATION_ENCODING_BLOCKWISE_EXPANSION
        QNN_QUANTIZATION_ENCODING_UNDEFINED
    ctypedef enum Qnn_BlockwiseExpansionBlockScaleStorageType_t:
        QNN_BLOCKWISE_EXPANSION_BITWIDTH_SCALE_STORAGE_8
        QNN_BLOCKWISE_EXPANSION_BITWIDTH_SCALE_STORAGE_16
    ctypedef enum Qnn_TensorMemType_t:
        QNN_TENSORMEMTYPE_RAW, QNN_TENSORMEMTYPE_MEMHANDLE
    ctypedef enum Qnn_TensorVersion_t:
        QNN_TENSOR_VERSION_1, QNN_TENSOR_VERSION_2
    ctypedef enum Qnn_TensorSetVersion_t:
        QNN_TENSOR_SET_VERSION_1
    ctypedef enum Qnn_OpConfigVersion_t:
        QNN_OPCONFIG_VERSION_1
    ctypedef enum Qnn_MemType_t:
        QNN_MEM_TYPE_CUSTOM, QNN_MEM_TYPE_DMA_BUF


cdef extern from "abi/qnn_errors.h" nogil:
    ctypedef enum QnnCommon_Error_t:
        QNN_COMMON_ERROR_NOT_SUPPORTED, QNN_COMMON_ERROR_SYSTEM
    ctypedef enum QnnBackend_Error_t:
        QNN_BACKEND_ERROR_NOT_SUPPORTED, QNN_BACKEND_ERROR_INVALID_ARGUMENT
    ctypedef enum QnnMem_Error_t:
        QNN_MEM_ERROR_INVALID_HANDLE
    ctypedef enum QnnGraph_Error_t:
        QNN_GRAPH_ERROR_INVALID_ARGUMENT, QNN_GRAPH_ERROR_INVALID_OP_CONFIG
    ctypedef enum QnnTensor_Error_t:
        QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM
    ctypedef enum QnnOpPackage_Error_t:
        QNN_OP_PACKAGE_ERROR_LIBRARY_NOT_INITIALIZED, QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE
        QNN_OP_PACKAGE_ERROR_GENERAL
    ctypedef enum QnnSystemContext_Error_t:
        QNN_SYSTEM_CONTEXT_ERROR_OPERATION_FAILED


cdef extern from "abi/qnn_property.h" nogil:
    enum:
        QNN_PROPERTY_PROFILE_SUPPORTS_EXTENDED_EVENT

    ctypedef uint32_t QnnProperty_Key_t


cdef extern from "abi/qnn_types.h" nogil:
    enum:
        QNN_API_VERSION_MAJOR, QNN_API_VERSION_MINOR, QNN_BACKEND_ID_SAVER, QNN_BACKEND_ID_GPU
        QNN_BACKEND_ID_HTP, QNN_BACKEND_ID_LPAI

    ctypedef uint64_t Qnn_ErrorHandle_t
    ctypedef uint64_t Qnn_ContextBinarySize_t
    ctypedef uint32_t Qnn_TensorDataFormat_t
    ctypedef void* Qnn_BackendHandle_t
    ctypedef void* Qnn_ContextHandle_t
    ctypedef void* Qnn_DeviceHandle_t
    ctypedef void* Qnn_GraphHandle_t
    ctypedef void* Qnn_LogHandle_t
    ctypedef void* Qnn_MemHandle_t
    ctypedef void* Qnn_ProfileHandle_t
    ctypedef void* Qnn_SignalHandle_t
    ctypedef void* Qnn_MemInfoCustom_t

    ctypedef struct Qnn_Version_t:
        uint32_t major, minor, patch
    ctypedef struct Qnn_ApiVersion_t:
        Qnn_Version_t coreApiVersion, backendApiVersion
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
    ctypedef struct Qnn_BlockEncoding_t:
        uint32_t* blockSize
        Qnn_ScaleOffset_t* scaleOffset
    ctypedef struct Qnn_BlockwiseExpansion_t:
        int32_t axis
        Qnn_ScaleOffset_t* scaleOffsets
        uint32_t numBlocksPerAxis, blockScaleBitwidth
        Qnn_BlockwiseExpansionBlockScaleStorageType_t blockScaleStorageType
        uint8_t* blocksScale8
    ctypedef struct Qnn_QuantizeParams_t:
        Qnn_Definition_t encodingDefinition
        Qnn_QuantizationEncoding_t quantizationEncoding
        Qnn_ScaleOffset_t scaleOffsetEncoding
        Qnn_AxisScaleOffset_t axisScaleOffsetEncoding
        Qnn_BwScaleOffset_t bwScaleOffsetEncoding
        Qnn_BwAxisScaleOffset_t bwAxisScaleOffsetEncoding
        Qnn_BlockEncoding_t blockEncoding
        Qnn_BlockwiseExpansion_t* blockwiseExpansion
    ctypedef struct Qnn_ClientBuffer_t:
        void* data
        uint32_t dataSize
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
        uint8_t* isDynamicDimensions
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
        QNN_PROFILE_EVENTUNIT_OBJECT

    ctypedef void* QnnBackend_CustomProperty_t
    ctypedef void* QnnContext_CustomProperty_t
    ctypedef void* QnnDevice_DeviceInfoExtension_t
    ctypedef void* QnnGraph_CustomProperty_t
    ctypedef void* QnnDevice_Infrastructure_t

    ctypedef enum QnnBackend_ConfigOption_t:
        pass
    ctypedef enum QnnBackend_PropertyOption_t:
        QNN_BACKEND_PROPERTY_OPTION_CUSTOM
    ctypedef struct QnnBackend_Config_t:
        QnnBackend_ConfigOption_t option
    ctypedef struct QnnBackend_OperationName_t:
        const char* packageName
        const char* name
        const char* target
    ctypedef struct QnnBackend_Property_t:
        QnnBackend_PropertyOption_t option
        QnnBackend_CustomProperty_t customProperty
    ctypedef enum QnnDevice_CoreInfoVersion_t:
        pass
    ctypedef enum QnnDevice_HardwareDeviceInfoVersion_t:
        pass
    ctypedef enum QnnDevice_PlatformInfoVersion_t:
        QNN_DEVICE_PLATFORM_INFO_VERSION_1
    ctypedef enum QnnDevice_ConfigOption_t:
        pass
    ctypedef struct QnnDevice_CoreInfoV1_t:
        uint32_t coreId, coreType
    ctypedef struct QnnDevice_CoreInfo_t:
        QnnDevice_CoreInfoVersion_t version
        QnnDevice_CoreInfoV1_t v1
    ctypedef struct QnnDevice_HardwareDeviceInfoV1_t:
        uint32_t deviceId, deviceType, numCores
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
    ctypedef enum QnnGraph_ConfigOption_t:
        pass
    ctypedef enum QnnGraph_PropertyOption_t:
        QNN_GRAPH_PROPERTY_OPTION_CUSTOM
    ctypedef enum QnnGraph_ExecuteEnvironmentOption_t:
        pass
    ctypedef struct QnnGraph_Config_t:
        QnnGraph_ConfigOption_t option
    ctypedef struct QnnGraph_Property_t:
        QnnGraph_PropertyOption_t option
        QnnGraph_CustomProperty_t customProperty
    ctypedef struct QnnGraph_ExecuteEnvironment_t:
        QnnGraph_ExecuteEnvironmentOption_t option
        Qnn_TensorSet_t tensorSet
    ctypedef enum QnnLog_Level_t:
        QNN_LOG_LEVEL_WARN

    ctypedef void (*QnnLog_Callback_t)(
        const char* fmt, QnnLog_Level_t level, uint64_t timestamp, va_list args) noexcept nogil
    ctypedef uint64_t QnnProfile_EventId_t
    ctypedef uint64_t QnnProfile_EventValue_t
    ctypedef uint32_t QnnProfile_Level_t
    ctypedef uint32_t QnnProfile_EventType_t
    ctypedef uint32_t QnnProfile_EventUnit_t

    ctypedef enum QnnProfile_ExtendedEventDataVersion_t:
        QNN_PROFILE_DATA_VERSION_1
    ctypedef enum QnnProfile_ConfigOption_t:
        pass
    ctypedef struct QnnProfile_EventData_t:
        QnnProfile_EventType_t type
        QnnProfile_EventUnit_t unit
        QnnProfile_EventValue_t value
        const char* identifier
    ctypedef struct QnnProfile_ExtendedEventDataV1_t:
        QnnProfile_EventType_t type
        QnnProfile_EventUnit_t unit
        Qnn_Scalar_t value
        uint64_t timestamp
        const char* identifier
    ctypedef struct QnnProfile_ExtendedEventData_t:
        QnnProfile_ExtendedEventDataVersion_t version
        QnnProfile_ExtendedEventDataV1_t v1
    ctypedef struct QnnProfile_Config_t:
        QnnProfile_ConfigOption_t option
    ctypedef enum QnnSignal_ConfigOption_t:
        pass
    ctypedef struct QnnSignal_Config_t:
        QnnSignal_ConfigOption_t option


cdef extern from "abi/qnn_context.h" nogil:
    ctypedef enum QnnContext_ConfigOption_t:
        pass
    ctypedef enum QnnContext_PropertyOption_t:
        pass
    ctypedef struct QnnContext_Config_t:
        QnnContext_ConfigOption_t option
    ctypedef struct QnnContext_Property_t:
        QnnContext_PropertyOption_t option
        QnnContext_CustomProperty_t customProperty


cdef extern from "abi/qnn_interface.h" nogil:
    ctypedef Qnn_ErrorHandle_t (*QnnProperty_HasCapabilityFn_t)(
        QnnProperty_Key_t key) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnBackend_CreateFn_t)(
        Qnn_LogHandle_t log, const QnnBackend_Config_t** config,
        Qnn_BackendHandle_t* backend) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnBackend_SetConfigFn_t)(
        Qnn_BackendHandle_t backend, const QnnBackend_Config_t** config) noexcept nogil
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
    ctypedef Qnn_ErrorHandle_t (*QnnBackend_GetPropertyFn_t)(
        Qnn_BackendHandle_t backend, QnnBackend_Property_t** properties) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnContext_GetPropertyFn_t)(
        Qnn_ContextHandle_t context, QnnContext_Property_t** properties) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnContext_FinalizeFn_t)(
        Qnn_ContextHandle_t context, Qnn_ProfileHandle_t profile) noexcept nogil

    ctypedef struct QnnInterface_ImplementationV2_32_t:
        QnnProperty_HasCapabilityFn_t propertyHasCapability
        QnnBackend_CreateFn_t backendCreate
        QnnBackend_SetConfigFn_t backendSetConfig
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
        QnnBackend_GetPropertyFn_t backendGetProperty
        QnnContext_GetPropertyFn_t contextGetProperty
        QnnContext_FinalizeFn_t contextFinalize
    ctypedef struct QnnInterface_t:
        uint32_t backendId
        const char* providerName
        Qnn_ApiVersion_t apiVersion
        QnnInterface_ImplementationV2_32_t v2_32

    ctypedef Qnn_ErrorHandle_t (*QnnInterface_GetProvidersFn_t)(
        const QnnInterface_t*** providerList, uint32_t* numProviders) noexcept nogil

    Qnn_ErrorHandle_t QnnInterface_getProviders(
        const QnnInterface_t*** providerList, uint32_t* numProviders)


cdef extern from "abi/qnn_model.h" nogil:
    ctypedef enum ModelError_t:
        MODEL_TENSOR_ERROR, MODEL_PARAMS_ERROR, MODEL_NODES_ERROR, MODEL_GRAPH_ERROR
        MODEL_CONTEXT_ERROR, MODEL_GENERATION_ERROR, MODEL_SETUP_ERROR
        MODEL_INVALID_ARGUMENT_ERROR, MODEL_FILE_ERROR, MODEL_MEMORY_ALLOCATE_ERROR
    ctypedef struct GraphInfo_t:
        Qnn_GraphHandle_t graph
        char* graphName
        Qnn_Tensor_t* inputTensors
        uint32_t numInputTensors
        Qnn_Tensor_t* outputTensors
        uint32_t numOutputTensors

    ctypedef ModelError_t (*QnnModel_FreeGraphsInfoFn_t)(
        GraphInfo_t*** graphs, uint32_t numGraphs) noexcept nogil


cdef extern from "abi/qnn_system.h" nogil:
    ctypedef void* QnnSystemContext_Handle_t
    ctypedef void* QnnSystemProfile_SerializationTargetHandle_t

    ctypedef enum QnnSystemContext_GraphInfoVersion_t:
        pass
    ctypedef enum QnnSystemContext_BinaryInfoVersion_t:
        QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_1, QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_2
        QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_3
    ctypedef enum QnnSystemProfile_SerializationTargetType_t:
        QNN_SYSTEM_PROFILE_SERIALIZATION_TARGET_FILE
    ctypedef enum QnnSystemProfile_SerializationTargetConfigType_t:
        QNN_SYSTEM_PROFILE_SERIALIZATION_TARGET_CONFIG_MAX_NUM_MESSAGES
        QNN_SYSTEM_PROFILE_SERIALIZATION_TARGET_CONFIG_SERIALIZATION_HEADER
    ctypedef enum QnnSystemProfile_Visibility_t:
        QNN_SYSTEM_PROFILE_VISIBILITY_PUBLIC, QNN_SYSTEM_PROFILE_VISIBILITY_PRIVATE
    ctypedef enum QnnSystemProfile_MethodType_t:
        pass
    ctypedef enum QnnSystemProfile_EventDataType_t:
        QNN_SYSTEM_PROFILE_EVENT_DATA, QNN_SYSTEM_PROFILE_EXTENDED_EVENT_DATA
    ctypedef enum QnnSystemProfile_ProfileDataVersion_t:
        QNN_SYSTEM_PROFILE_DATA_VERSION_1
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
        uint32_t startOpIndex, endOpIndex
    ctypedef struct QnnSystemContext_GraphInfo_t:
        QnnSystemContext_GraphInfoVersion_t version
        QnnSystemContext_GraphInfoV3_t graphInfoV3
    ctypedef struct QnnSystemContext_BinaryInfoV2_t:
        uint32_t backendId
        const char* buildId
        Qnn_Version_t coreApiVersion, backendApiVersion
        const char* socVersion
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
        Qnn_Version_t coreApiVersion, backendApiVersion
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
        QnnSystemContext_BinaryInfoV2_t contextBinaryInfoV2
        QnnSystemContext_BinaryInfoV3_t contextBinaryInfoV3
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
        uint64_t startTime, stopTime, startMem, stopMem
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
    ctypedef Qnn_ErrorHandle_t (*QnnSystemContext_FreeFn_t)(
        QnnSystemContext_Handle_t context) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnSystemTensor_GetMemoryFootprintFn_t)(
        Qnn_Tensor_t tensor, uint64_t* bytes) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnSystemLog_CreateFn_t)(
        QnnLog_Callback_t callback, QnnLog_Level_t maxLevel,
        Qnn_LogHandle_t* log) noexcept nogil
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
        QnnSystemContext_FreeFn_t systemContextFree
        QnnSystemTensor_GetMemoryFootprintFn_t systemTensorGetMemoryFootprint
        QnnSystemLog_CreateFn_t systemLogCreate
        QnnSystemProfile_CreateSerializationTargetFn_t systemProfileCreateSerializationTarget
        QnnSystemProfile_SerializeEventDataFn_t systemProfileSerializeEventData
        QnnSystemProfile_FreeSerializationTargetFn_t systemProfileFreeSerializationTarget
    ctypedef struct QnnSystemInterface_t:
        uint32_t backendId
        const char* providerName
        Qnn_Version_t systemApiVersion
        QnnSystemInterface_ImplementationV1_7_t v1_7

    ctypedef Qnn_ErrorHandle_t (*QnnSystemInterface_GetProvidersFn_t)(
        const QnnSystemInterface_t*** providerList, uint32_t* numProviders) noexcept nogil

    Qnn_ErrorHandle_t QnnSystemInterface_getProviders(
        const QnnSystemInterface_t*** providerList, uint32_t* numProviders)


cdef extern from "abi/qnn_htp_perf.h" nogil:
    ctypedef enum QnnHtpPerfInfrastructure_PowerConfigOption_t:
        pass
    ctypedef struct QnnHtpPerfInfrastructure_PowerConfig_t:
        QnnHtpPerfInfrastructure_PowerConfigOption_t option

    ctypedef Qnn_ErrorHandle_t (*QnnHtpPerfInfrastructure_CreatePowerConfigIdFn_t)(
        uint32_t deviceId, uint32_t coreId, uint32_t* powerConfigId) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnHtpPerfInfrastructure_DestroyPowerConfigIdFn_t)(
        uint32_t powerConfigId) noexcept nogil
    ctypedef Qnn_ErrorHandle_t (*QnnHtpPerfInfrastructure_SetPowerConfigFn_t)(
        uint32_t powerConfigId,
        const QnnHtpPerfInfrastructure_PowerConfig_t** config) noexcept nogil


cdef extern from "abi/qnn_htp.h" nogil:
    ctypedef enum QnnHtpMem_Type_t:
        QNN_HTP_MEM_SHARED_BUFFER
    ctypedef struct QnnHtpMem_SharedBufferConfig_t:
        int32_t fd
        uint64_t offset
    ctypedef struct QnnMemHtp_Descriptor_t:
        QnnHtpMem_Type_t type
        uint64_t size
        QnnHtpMem_SharedBufferConfig_t sharedBufferConfig
    ctypedef enum QnnHtpDevice_Arch_t:
        pass
    ctypedef enum QnnHtpDevice_DeviceType_t:
        QNN_HTP_DEVICE_TYPE_ON_CHIP
    ctypedef enum QnnHtpDevice_InfrastructureType_t:
        QNN_HTP_DEVICE_INFRASTRUCTURE_TYPE_PERF
    ctypedef struct QnnHtpDevice_OnChipDeviceInfoExtension_t:
        size_t vtcmSize
        uint32_t socModel
        bool signedPdSupport, dlbcSupport
        QnnHtpDevice_Arch_t arch
    ctypedef struct QnnHtpDevice_DeviceInfoExtension_t:
        QnnHtpDevice_DeviceType_t devType
        QnnHtpDevice_OnChipDeviceInfoExtension_t onChipDevice
    ctypedef struct QnnHtpDevice_PerfInfrastructure_t:
        QnnHtpPerfInfrastructure_CreatePowerConfigIdFn_t createPowerConfigId
        QnnHtpPerfInfrastructure_DestroyPowerConfigIdFn_t destroyPowerConfigId
        QnnHtpPerfInfrastructure_SetPowerConfigFn_t setPowerConfig
    ctypedef struct QnnHtpDevice_Infrastructure_t:
        QnnHtpDevice_InfrastructureType_t infraType
        QnnHtpDevice_PerfInfrastructure_t perfInfra


cdef extern from "abi/qnn_gpu.h" nogil:
    ctypedef void* QnnGpuMem_Buffer_t

    ctypedef enum QnnGpu_MemType_t:
        QNN_GPU_MEM_OPENCL
    ctypedef enum QnnGpuBackend_ConfigOption_t:
        pass
    ctypedef struct QnnGpu_MemInfoCustom_t:
        QnnGpu_MemType_t memType
        QnnGpuMem_Buffer_t buffer
    ctypedef struct QnnGpuBackend_CustomConfig_t:
        QnnGpuBackend_ConfigOption_t option
        const char* performanceCacheDir


cdef extern from "abi/qnn_lpai.h" nogil:
    ctypedef enum QnnLpaiBackend_CustomConfigOption_t:
        QNN_LPAI_BACKEND_CUSTOM_CFG_HW_INFO
    ctypedef enum QnnLpaiBackend_Target_t:
        pass
    ctypedef enum QnnLpaiBackend_HwVersion_t:
        pass
    ctypedef enum QnnLpaiBackend_GetPropertyOption_t:
        QNN_LPAI_BACKEND_GET_PROP_ALIGNMENT_REQ
        QNN_LPAI_BACKEND_GET_PROP_REQUIRE_PERSISTENT_BINARY
        QNN_LPAI_BACKEND_GET_PROP_ENPU_CORE_NUM, QNN_LPAI_BACKEND_GET_PROP_ENPU_CORE_INFO
    ctypedef enum QnnLpaiContext_SetConfigOption_t:
        QNN_LPAI_CONTEXT_SET_CFG_MODEL_BUFFER_MEM_TYPE, QNN_LPAI_CONTEXT_SET_CFG_ENABLE_ISLAND
    ctypedef enum QnnLpaiMem_MemType_t:
        pass
    ctypedef enum QnnLpaiGraph_SetConfigOption_t:
        QNN_LPAI_GRAPH_SET_CFG_SCRATCH_MEM, QNN_LPAI_GRAPH_SET_CFG_PERSISTENT_MEM
        QNN_LPAI_GRAPH_SET_CFG_PERF_CFG, QNN_LPAI_GRAPH_SET_CFG_CORE_AFFINITY
    ctypedef enum QnnLpaiGraph_GetPropertyOption_t:
        QNN_LPAI_GRAPH_GET_PROP_SCRATCH_MEM_SIZE, QNN_LPAI_GRAPH_GET_PROP_PERSISTENT_MEM_SIZE
    ctypedef enum QnnLpaiGraph_ClientPerfType_t:
        pass
    ctypedef enum QnnLpaiGraph_CoreAffinityType_t:
        pass
    ctypedef enum QnnLpaiGraph_ConfigPrepareOption_t:
        QNN_LPAI_GRAPH_SET_CFG_PREPARE
    ctypedef struct QnnLpaiBackend_CustomConfigHwInfo_t:
        QnnLpaiBackend_Target_t lpaiTarget
        QnnLpaiBackend_HwVersion_t hwVersion
    ctypedef struct QnnLpaiBackend_BufferAlignmentReq_t:
        uint32_t startAddrAlignment, sizeAlignment
    ctypedef struct QnnLpaiBackend_eNPUCoreInfo_t:
        uint32_t coreIndex, macCnt, version
    ctypedef struct QnnLpaiBackend_CustomProperty_t:
        uint32_t option
        void* property
    ctypedef struct QnnLpaiMem_MemInfoCustom_t:
        int32_t fd
        uint32_t offset
    ctypedef struct QnnLpaiGraph_PerfCfg_t:
        uint32_t fps, ftrtRatio
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


cdef extern from "abi/qnn_op_package.h" nogil:
    ctypedef void (*QnnOpPackage_InitFn_t)() noexcept nogil
    ctypedef void (*QnnOpPackage_GetInfoFn_t)() noexcept nogil
    ctypedef void (*QnnOpPackage_ValidateOpConfigFn_t)() noexcept nogil
    ctypedef void (*QnnOpPackage_CreateOpImplFn_t)() noexcept nogil
    ctypedef void (*QnnOpPackage_FreeOpImplFn_t)() noexcept nogil

    ctypedef struct QnnOpPackage_Info_t:
        const char* packageName
        const char** operationNames
        uint32_t numOperations
    ctypedef struct QnnOpPackage_ImplementationV1_4_t:
        QnnOpPackage_InitFn_t init
        QnnOpPackage_GetInfoFn_t getInfo
        QnnOpPackage_ValidateOpConfigFn_t validateOpConfig
        QnnOpPackage_CreateOpImplFn_t createOpImpl
        QnnOpPackage_FreeOpImplFn_t freeOpImpl
    ctypedef struct QnnOpPackage_Interface_t:
        Qnn_Version_t interfaceVersion
        QnnOpPackage_ImplementationV1_4_t v1_4


cdef extern from "abi/qnnrt_ext.h" nogil:
    enum:
        QNNRT_COPY_IN, QNNRT_PASSES_CONSTANTS, QNNRT_PASSES_FUNCTIONS

    ctypedef struct Qnnrt_GraphStats_t:
        uint64_t executes, copied_bytes, reserved_bytes, reserved_at, arena_bytes
        uint64_t arena_lower_bound, arena_sum, weight_bytes, num_steps, execute_nanoseconds
        uint64_t reserved_at_finalize_bytes, reserved_at_execute_bytes, copied_in_bytes
        uint64_t copied_out_bytes
    ctypedef struct Qnnrt_CopyRecord_t:
        const char* tensor
        uint32_t direction
        uint64_t bytes, count
        const char* reason

    uint64_t qnnrt_graph_stats(Qnn_GraphHandle_t graph, Qnnrt_GraphStats_t* stats)
    uint64_t qnnrt_graph_copies(
        Qnn_GraphHandle_t graph, Qnnrt_CopyRecord_t* out, uint32_t capacity, uint32_t* count)
    uint64_t qnnrt_graph_reset_stats(Qnn_GraphHandle_t graph)
    uint64_t qnnrt_graph_create_static(
        Qnn_GraphHandle_t graph, Qnn_Tensor_t* tensor, const int64_t* strides)
    uint64_t qnnrt_graph_lend_static(
        Qnn_GraphHandle_t graph, Qnn_Tensor_t* tensor, const int64_t* strides)
    uint64_t qnnrt_graph_keep_static(
        Qnn_GraphHandle_t graph, Qnn_Tensor_t* tensor, const int64_t* strides)

    ctypedef struct Qnnrt_GraphWeights_t:
        uint64_t shared_bytes, private_bytes
    ctypedef struct Qnnrt_WeightsInfo_t:
        uint64_t entries, bytes, found, found_bytes

    uint64_t qnnrt_graph_weights(
        Qnn_GraphHandle_t graph, Qnnrt_GraphWeights_t* weights)
    uint64_t qnnrt_weights_info(Qnnrt_WeightsInfo_t* info)
    const char* qnnrt_graph_describe(Qnn_GraphHandle_t graph)

    ctypedef struct Qnnrt_Tensors_t:
        const Qnn_Tensor_t* inputs
        const Qnn_Tensor_t* outputs
        uint32_t num_inputs, num_outputs
    ctypedef struct Qnnrt_ExecutorText_t:
        char text[500]
    ctypedef struct Qnnrt_ExecutorRun_t:
        void* profile
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
    uint64_t qnnrt_graph_free(Qnn_GraphHandle_t graph)
    uint64_t qnnrt_graph_lower(
        Qnn_GraphHandle_t graph, uint32_t passes, const char** json)
    uint64_t qnnrt_graph_leave(
        Qnn_GraphHandle_t graph, const void* const* kept, uint64_t count)
    uint64_t qnnrt_tflite_lower(
        const Qnn_OpConfig_t* op, uint32_t states, uint64_t budget, const char** json)
    const char* qnnrt_tflite_operators_json()

    ctypedef struct Qnnrt_DomainInfo_t:
        uint64_t budget_bytes, used_bytes, peak_bytes
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
        uint32_t mem_type, fatal, pieces, max_pieces
        uint64_t used_bytes, pool_bytes, free_bytes

    uint64_t qnnrt_lpai_allocator_create(
        Qnn_BackendHandle_t backend, const char* mem_type,
        Qnnrt_LpaiAllocatorHandle_t* allocator)
    uint64_t qnnrt_lpai_allocator_alloc(
        Qnnrt_LpaiAllocatorHandle_t allocator, uint64_t nbytes, uint64_t* piece)
    uint64_t qnnrt_lpai_allocator_info(
        Qnnrt_LpaiAllocatorHandle_t allocator, Qnnrt_LpaiAllocatorInfo_t* info)
    uint64_t qnnrt_lpai_allocator_destroy(Qnnrt_LpaiAllocatorHandle_t allocator)

    ctypedef struct Qnnrt_LiveCounts_t:
        uint64_t buffers, maps, fds, mem_handles, contexts, graphs, backends, profiles, logs
        uint64_t devices, signals, lpai_allocators

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
        uint32_t first, last
        uint64_t size, alignment
    ctypedef struct Qnnrt_PlanOptions_t:
        uint32_t effort, milliseconds
        uint64_t steps
    ctypedef struct Qnnrt_PlanInfo_t:
        uint64_t peak, lower_bound, sum, steps
        uint32_t proved
        const char* order

    uint64_t qnnrt_plan_arena(
        const Qnnrt_ArenaItem_t* items, uint64_t count, const Qnnrt_PlanOptions_t* options,
        uint64_t* offsets, Qnnrt_PlanInfo_t* info)
    const char* qnnrt_version()
    const char* qnnrt_kernel_library()
    const char* qnnrt_op_coverage_json()
    const char* qnnrt_op_json(const char* op)
    const char* qnnrt_config_table_json()


cdef extern from "abi/qnnrt_op_package.h" nogil:
    ctypedef struct Qnnrt_OpHost_t:
        void (*setError)(const char* reason) noexcept nogil
    ctypedef struct Qnnrt_OpExecution_t:
        const void* const* inputs
        void* const* outputs
        void* scratch
    ctypedef struct Qnnrt_OpImpl_t:
        void* state
        Qnn_ErrorHandle_t (*execute)(
            void* state, const Qnnrt_OpExecution_t* execution) noexcept nogil

    uint64_t qnnrt_backend_register_ops(
        Qnn_BackendHandle_t backend, const QnnOpPackage_Interface_t* interface)


cdef extern from "abi/qnnrt_opencl.h" nogil:
    enum:
        QNNRT_OPENCL_OUTPUT, QNNRT_OPENCL_READ, QNNRT_OPENCL_ARGS_BEFORE
        QNNRT_OPENCL_OUT_OF_ORDER, QNNRT_OPENCL_TIMESTAMPS, QNNRT_OPENCL_CLIENT_QUEUE
        QNNRT_OPENCL_PROFILE_NODES, QNNRT_OPENCL_SLEEP, QNNRT_OPENCL_MAPPED, QNNRT_OPENCL_EXTERNAL

    ctypedef struct Qnnrt_OpenClFunctions_t:
        int32_t (*finish)(void* queue) noexcept nogil
    ctypedef struct Qnnrt_OpenClRecording_t:
        pass

    ctypedef void* Qnnrt_OpenClPoolHandle_t

    ctypedef struct Qnnrt_OpenClPoolCounts_t:
        uint64_t bytes, buffers, sets

    uint64_t qnnrt_opencl_pool_create(
        const Qnnrt_OpenClFunctions_t* functions, void* context,
        Qnnrt_OpenClPoolHandle_t* pool)
    void qnnrt_opencl_pool_counts(
        Qnnrt_OpenClPoolHandle_t pool, Qnnrt_OpenClPoolCounts_t* counts)
    void qnnrt_opencl_pool_free(Qnnrt_OpenClPoolHandle_t pool)

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
        uint32_t id, data_type, flags, rank
        const uint32_t* dims
        uint64_t nbytes
    ctypedef struct Qnnrt_OpenClPatch_t:
        uint32_t tensor, step, index
    ctypedef struct Qnnrt_OpenClPlace_t:
        uint32_t arena, step, index
        uint64_t offset, size
    ctypedef struct Qnnrt_OpenClListInfo_t:
        const Qnnrt_OpenClFunctions_t* functions
        void* context
        void* device
        void* queue
        void* base
        uint32_t flags, flush_every
        const Qnnrt_OpenClStep_t* steps
        const Qnnrt_OpenClTensor_t* tensors
        const Qnnrt_OpenClPatch_t* patches
        uint32_t num_steps, num_tensors, num_patches
        Qnnrt_OpenClPoolHandle_t pool
        const uint64_t* arenas
        const Qnnrt_OpenClPlace_t* places
        uint32_t num_arenas, num_places
        const Qnnrt_OpenClRecording_t* recording
        uint32_t num_faults
        void* faults
        const uint32_t* fault_steps

    ctypedef void* Qnnrt_OpenClListHandle_t

    ctypedef struct Qnnrt_OpenClCounts_t:
        uint64_t executes, kernels, writes, reads, written_bytes, read_bytes, reserved_bytes, given
        uint64_t taken_back, arguments, recorded

    uint64_t qnnrt_opencl_list_create(
        const Qnnrt_OpenClListInfo_t* info, Qnnrt_OpenClListHandle_t* list,
        Qnnrt_ExecutorText_t* why)
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
        uint64_t nbytes, flags
        uint32_t data_type, rank
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


cdef extern from "memory/memory_api.h" nogil:
    enum:
        QNNRT_BUFFER_IMPORTED, QNNRT_BUFFER_WRAPPED, QNNRT_BUFFER_CAN_SHRINK
        QNNRT_BUFFER_READ_ONLY, QNNRT_BUFFER_DMA_BUF, QNNRT_BUFFER_COHERENT, QNNRT_ACCESS_READ
        QNNRT_ACCESS_WRITE

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

    ctypedef struct qnnrt_buffer_info_t:
        void* address
        uint64_t nbytes, mapped, fd_offset, fd_size
        const char* heap
        uint32_t flags
        int32_t owners, exports, registrations, executions

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
        int32_t available, is_default, coherent
        int64_t live_bytes, peak_bytes, live_allocations, allocations, failures

    uint64_t qnnrt_heap_info(uint32_t index, qnnrt_heap_info_t* out)
    const char* qnnrt_heap_default_reason()

    ctypedef struct qnnrt_pool_info_t:
        uint64_t limit, bytes, entries, hits, misses, evictions

    uint64_t qnnrt_pool_info(qnnrt_pool_info_t* out)
    uint64_t qnnrt_pool_trim(uint64_t keep_bytes)

    ctypedef struct qnnrt_memory_counts_t:
        int64_t buffers, maps, fds, handles, unknown_frees, late_frees

    void qnnrt_memory_counts(qnnrt_memory_counts_t* out)
    void qnnrt_memory_fail_nth(int64_t nth)


cdef extern from "ipc/ipc_api.h" nogil:
    enum:
        QNNRT_HANDOFF_ENDED, QNNRT_HANDOFF_LEASE, QNNRT_HANDOFF_TOKEN, QNNRT_HANDOFF_USER
        QNNRT_HANDOFF_TICKET, QNNRT_HANDOFF_FILES, QNNRT_HANDOFF_MEMORY, QNNRT_HANDOFF_TIMEOUT
        QNNRT_HANDOFF_CONNECT, QNNRT_HANDOFF_AGAIN, QNNRT_LEASE_READ_ONLY

    const char* qnnrt_ipc_last_error()

    ctypedef uint64_t qnnrt_lease_t

    ctypedef struct qnnrt_ticket_t:
        uint32_t version
        uint8_t sender[16]
        uint8_t token[16]
        uint64_t lease, message, device, inode, fd_size, fd_offset, nbytes
        uint32_t flags, kind, table

    uint64_t qnnrt_lease_create(
        qnnrt_buffer_t buffer, uint32_t flags, qnnrt_lease_t* out)
    uint64_t qnnrt_lease_end(qnnrt_lease_t lease)
    uint64_t qnnrt_lease_ticket(
        qnnrt_lease_t lease, int in_flight, qnnrt_ticket_t* out)

    ctypedef struct qnnrt_peer_t:
        pass

    uint64_t qnnrt_ticket_read(
        const void* bytes, uint64_t size, qnnrt_ticket_t* out)
    uint64_t qnnrt_peer_connect(const qnnrt_ticket_t* ticket, qnnrt_peer_t** out)
    uint64_t qnnrt_peer_receive(
        qnnrt_peer_t* peer, const qnnrt_ticket_t* ticket, qnnrt_buffer_t* out)
    uint64_t qnnrt_peer_arrived(qnnrt_peer_t* peer, const qnnrt_ticket_t* ticket)
    void qnnrt_peer_close(qnnrt_peer_t* peer)
    void qnnrt_ipc_keep_sender(int keep)

    ctypedef struct qnnrt_ipc_counts_t:
        int64_t leases, in_flight, connections, peers, endpoints, fds

    void qnnrt_ipc_counts(qnnrt_ipc_counts_t* out)
    void qnnrt_ipc_forget_messages()


cdef extern from "ipc/ring_api.h" nogil:
    enum:
        QNNRT_RING_TIMEOUT, QNNRT_RING_CLOSED, QNNRT_RING_ENDED, QNNRT_RING_TAKEN
        QNNRT_RING_LAYOUT, QNNRT_RING_DROP_OLDEST, QNNRT_RING_QUEUE, QNNRT_RING_PRODUCER
        QNNRT_RING_CONSUMER

    ctypedef struct qnnrt_ring_config_t:
        uint32_t slots, flags
        uint64_t slot_bytes, stride

    ctypedef uint64_t qnnrt_endpoint_t

    ctypedef struct qnnrt_ring_slot_t:
        uint32_t index
        uint64_t sequence, published
    ctypedef struct qnnrt_ring_info_t:
        qnnrt_ring_config_t config
        uint64_t published, dropped
        uint32_t consumers, closed

    uint64_t qnnrt_ring_bytes(const qnnrt_ring_config_t* config)
    uint64_t qnnrt_ring_format(
        qnnrt_buffer_t control, const qnnrt_ring_config_t* config)
    uint64_t qnnrt_ring_open(
        qnnrt_buffer_t control, uint32_t role, qnnrt_endpoint_t* out)
    uint64_t qnnrt_ring_close(qnnrt_endpoint_t endpoint)
    uint64_t qnnrt_ring_set_spin(qnnrt_endpoint_t endpoint, uint64_t nanoseconds)
    uint64_t qnnrt_ring_next(
        qnnrt_endpoint_t endpoint, uint64_t timeout, qnnrt_ring_slot_t* out)
    uint64_t qnnrt_ring_done(
        qnnrt_endpoint_t endpoint, uint32_t index, int publish, qnnrt_ring_slot_t* out)
    uint64_t qnnrt_ring_info(qnnrt_endpoint_t endpoint, qnnrt_ring_info_t* out)


cdef extern from "client/dlpack.h" nogil:
    enum:
        DLPACK_FLAG_BITMASK_READ_ONLY

    ctypedef struct DLDevice:
        int32_t device_type, device_id
    ctypedef struct DLDataType:
        uint8_t code, bits
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
        uint32_t major, minor
    ctypedef struct DLManagedTensorVersioned:
        DLPackVersion version
        void* manager_ctx
        void (*deleter)(DLManagedTensorVersioned* self) noexcept nogil
        uint64_t flags
        DLTensor dl_tensor
