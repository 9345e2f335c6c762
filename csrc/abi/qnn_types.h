// QNN common types: scalars, handles, tensors, quantization, operations, memory descriptors.
// Layouts are those of core interface 2.32 on 64-bit Linux; tests/native/abi_layout_test.cc holds
// them.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "qnn_enums.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Scalars ----

// 0 is success; otherwise the error code is the low 16 bits (QNN_GET_ERROR_CODE).
typedef uint64_t Qnn_ErrorHandle_t;
typedef uint64_t Qnn_ContextBinarySize_t;
typedef uint32_t Qnn_TensorDataFormat_t;  // one of QNN_TENSOR_DATA_FORMAT_*
typedef uint32_t Qnn_SocModel_t;          // one of QNN_SOC_MODEL_*
typedef uint32_t Qnn_ErrorReportingLevel_t;

#define QNN_SUCCESS 0u
#define QNN_GET_ERROR_CODE(errorHandle) ((errorHandle)&0xFFFFu)
#define QNN_DEFAULT_DEVICE_ID 0xFFFFFFFFu
#define QNN_DEFAULT_CORE_ID 0xFFFFFFFFu
#define QNN_INVALID_FD (-1)

// The version of the core interface these declarations describe.
#define QNN_API_VERSION_MAJOR 2u
#define QNN_API_VERSION_MINOR 32u
#define QNN_API_VERSION_PATCH 0u

// ---- Provider identities (QnnInterface_t.backendId and providerName) ----

#define QNN_BACKEND_ID_NULL 0u
#define QNN_BACKEND_ID_SAVER 2u
#define QNN_BACKEND_ID_CPU 3u
#define QNN_BACKEND_ID_GPU 4u
#define QNN_BACKEND_ID_DSP 5u
#define QNN_BACKEND_ID_HTP 6u
#define QNN_BACKEND_ID_HTA 7u
#define QNN_BACKEND_ID_IR 9u
#define QNN_BACKEND_ID_LPAI 12u
#define QNN_BACKEND_ID_LPAI_ISLAND 16u
#define QNN_PROVIDER_NAME_SAVER "SAVER_QTI_AISW"
#define QNN_PROVIDER_NAME_CPU "CPU_QTI_AISW"
#define QNN_PROVIDER_NAME_GPU "GPU_QTI_AISW"
#define QNN_PROVIDER_NAME_HTP "HTP_QTI_AISW"
#define QNN_PROVIDER_NAME_IR "IR_QTI_AISW"
#define QNN_PROVIDER_NAME_LPAI "LPAI_QTI_AISW"
#define QNN_PROVIDER_NAME_SYSTEM "SYSTEM_QTI_AISW"

// ---- Handles: opaque, made and freed by the backend ----

typedef void* Qnn_BackendHandle_t;
typedef void* Qnn_ContextHandle_t;
typedef void* Qnn_DeviceHandle_t;
typedef void* Qnn_GraphHandle_t;
typedef void* Qnn_LogHandle_t;
typedef void* Qnn_MemHandle_t;
typedef void* Qnn_ProfileHandle_t;
typedef void* Qnn_SignalHandle_t;
typedef void* Qnn_OpPackageHandle_t;

// ---- Opaque payloads ----

// Points at the memory kind's own descriptor: QnnMemHtp_Descriptor_t, QnnGpu_MemInfoCustom_t, ...
typedef void* Qnn_MemInfoCustom_t;

// Called to fetch and to give back the data of a RETRIEVE_RAW tensor. The parameters are not part
// of the published facts this file is written from: cast before the call.
typedef void (*Qnn_GetTensorRawDataFn_t)(void);
typedef void (*Qnn_FreeTensorRawDataFn_t)(void);

// ---- Structs ----

typedef struct Qnn_OpMappingPair_t {
  const char* name;
  Qnn_MappingType_t type;
} Qnn_OpMappingPair_t;

typedef struct Qnn_Mapping_t {
  const char* name;
  Qnn_OpMappingPair_t* pair;
  uint32_t numPairs;
} Qnn_Mapping_t;

typedef struct Qnn_OpMappingV1_t {
  const char* graphName;
  Qnn_Mapping_t* opMappings;
  uint32_t numOpMappings;
  Qnn_Mapping_t* tensorMappings;
  uint32_t numTensorMappings;
} Qnn_OpMappingV1_t;

typedef struct Qnn_OpMapping_t {
  Qnn_OpMappingVersion_t version;
  union {
    Qnn_OpMappingV1_t* v1;
  };
} Qnn_OpMapping_t;

typedef struct Qnn_ErrorReportingConfig_t {
  Qnn_ErrorReportingLevel_t reportingLevel;
  uint32_t storageLimit;
} Qnn_ErrorReportingConfig_t;

typedef struct Qnn_Version_t {
  uint32_t major;
  uint32_t minor;
  uint32_t patch;
} Qnn_Version_t;

typedef struct Qnn_ApiVersion_t {
  Qnn_Version_t coreApiVersion;
  Qnn_Version_t backendApiVersion;
} Qnn_ApiVersion_t;

typedef struct Qnn_Scalar_t {
  Qnn_DataType_t dataType;
  union {
    float floatValue;
    double doubleValue;
    uint64_t uint64Value;
    int64_t int64Value;
    uint32_t uint32Value;
    int32_t int32Value;
    uint16_t uint16Value;
    int16_t int16Value;
    uint8_t uint8Value;
    int8_t int8Value;
    uint8_t bool8Value;
    int16_t bfloat16Value;
    const char* stringValue;
  };
} Qnn_Scalar_t;

// real = scale * (quantized + offset): a zero point z travels as offset -z.
typedef struct Qnn_ScaleOffset_t {
  float scale;
  int32_t offset;
} Qnn_ScaleOffset_t;

typedef struct Qnn_BwScaleOffset_t {
  uint32_t bitwidth;
  float scale;
  int32_t offset;
} Qnn_BwScaleOffset_t;

typedef struct Qnn_AxisScaleOffset_t {
  int32_t axis;
  uint32_t numScaleOffsets;
  Qnn_ScaleOffset_t* scaleOffset;
} Qnn_AxisScaleOffset_t;

typedef struct Qnn_BwAxisScaleOffset_t {
  uint32_t bitwidth;
  int32_t axis;
  uint32_t numElements;
  float* scales;
  int32_t* offsets;
} Qnn_BwAxisScaleOffset_t;

typedef struct Qnn_BwAxisScaleOffsetMapped_t {
  uint32_t bitwidth;
  int32_t axis;
  Qnn_QuantizationEncodingMapping_t mapping;
  uint32_t numElements;
  float* scales;
  int32_t* offsets;
} Qnn_BwAxisScaleOffsetMapped_t;

typedef struct Qnn_BlockEncoding_t {
  uint32_t* blockSize;
  Qnn_ScaleOffset_t* scaleOffset;
} Qnn_BlockEncoding_t;

typedef struct Qnn_BwBlockMapped_t {
  uint32_t bitwidth;
  Qnn_QuantizationEncodingMapping_t mapping;
  uint32_t* blockSize;
  Qnn_ScaleOffset_t* scaleOffset;
} Qnn_BwBlockMapped_t;

// blockScaleStorageType selects blocksScale8 or blocksScale16.
typedef struct Qnn_BlockwiseExpansion_t {
  int32_t axis;
  Qnn_ScaleOffset_t* scaleOffsets;
  uint32_t numBlocksPerAxis;
  uint32_t blockScaleBitwidth;
  Qnn_BlockwiseExpansionBlockScaleStorageType_t blockScaleStorageType;
  union {
    uint8_t* blocksScale8;
    uint16_t* blocksScale16;
  };
} Qnn_BlockwiseExpansion_t;

typedef struct Qnn_BwBlockwiseExpansionMapped_t {
  uint32_t bitwidth;
  Qnn_QuantizationEncodingMapping_t mapping;
  int32_t axis;
  Qnn_ScaleOffset_t* scaleOffsets;
  uint32_t numBlocksPerAxis;
  uint32_t blockScaleBitwidth;
  Qnn_BlockwiseExpansionBlockScaleStorageType_t blockScaleStorageType;
  union {
    uint8_t* blocksScale8;
    uint16_t* blocksScale16;
  };
} Qnn_BwBlockwiseExpansionMapped_t;

typedef struct Qnn_VectorEncoding_t {
  Qnn_BwAxisScaleOffset_t bwAxisScaleOffset;
  uint32_t rowsPerBlock;
  uint32_t columnsPerBlock;
  uint8_t vectorDimension;
  uint8_t vectorStride;
  uint8_t indexBitwidth;
} Qnn_VectorEncoding_t;

typedef struct Qnn_FloatScaleOffset_t {
  float scale;
  float offset;
} Qnn_FloatScaleOffset_t;

typedef struct Qnn_FloatBlockEncoding_t {
  uint32_t* blockSize;
  Qnn_FloatScaleOffset_t* floatScaleOffset;
} Qnn_FloatBlockEncoding_t;

typedef struct Qnn_BwFloatBlockEncoding_t {
  uint32_t bitwidth;
  uint32_t* blockSize;
  Qnn_FloatScaleOffset_t* floatScaleOffset;
} Qnn_BwFloatBlockEncoding_t;

// Both enums UNDEFINED mean "not quantized"; that is what a plain float tensor carries.
typedef struct Qnn_QuantizeParams_t {
  Qnn_Definition_t encodingDefinition;
  Qnn_QuantizationEncoding_t quantizationEncoding;
  union {
    Qnn_ScaleOffset_t scaleOffsetEncoding;
    Qnn_AxisScaleOffset_t axisScaleOffsetEncoding;
    Qnn_BwScaleOffset_t bwScaleOffsetEncoding;
    Qnn_BwAxisScaleOffset_t bwAxisScaleOffsetEncoding;
    Qnn_BlockEncoding_t blockEncoding;
    Qnn_BlockwiseExpansion_t* blockwiseExpansion;
    Qnn_VectorEncoding_t* vectorEncoding;
    Qnn_FloatBlockEncoding_t floatBlockEncoding;
    Qnn_BwAxisScaleOffsetMapped_t* bwAxisScaleOffsetMappedEncoding;
    Qnn_BwBlockMapped_t* bwBlockMappedEncoding;
    Qnn_BwBlockwiseExpansionMapped_t* bwBlockwiseExpansionMappedEncoding;
    Qnn_BwFloatBlockEncoding_t bwFloatBlockEncoding;
  };
} Qnn_QuantizeParams_t;

// dataSize is in bytes and 32 bits wide: a RAW tensor cannot pass 4 GiB - 1.
typedef struct Qnn_ClientBuffer_t {
  void* data;
  uint32_t dataSize;
} Qnn_ClientBuffer_t;

typedef struct Qnn_TensorRetrieveRaw_t {
  Qnn_GetTensorRawDataFn_t getTensorData;
  Qnn_FreeTensorRawDataFn_t freeTensorData;
} Qnn_TensorRetrieveRaw_t;

typedef struct Qnn_OpaqueObject_t {
  void* data;
  uint64_t len;
} Qnn_OpaqueObject_t;

// clientBuf and memHandle share storage: memType says which one is live. RAW reads clientBuf,
// MEMHANDLE reads memHandle. dimensions and name are borrowed, never owned.
typedef struct Qnn_TensorV1_t {
  uint32_t id;
  const char* name;
  Qnn_TensorType_t type;
  Qnn_TensorDataFormat_t dataFormat;
  Qnn_DataType_t dataType;
  Qnn_QuantizeParams_t quantizeParams;
  uint32_t rank;
  uint32_t* dimensions;
  Qnn_TensorMemType_t memType;
  union {
    Qnn_ClientBuffer_t clientBuf;
    Qnn_MemHandle_t memHandle;
  };
} Qnn_TensorV1_t;

typedef struct Qnn_SparseLayoutHybridCoo_t {
  uint32_t numSpecifiedElements;
  uint32_t numSparseDimensions;
} Qnn_SparseLayoutHybridCoo_t;

typedef struct Qnn_SparseParams_t {
  Qnn_SparseLayoutType_t type;
  union {
    Qnn_SparseLayoutHybridCoo_t hybridCoo;
  };
} Qnn_SparseParams_t;

// Version 1 plus dynamic dimensions, sparsity and isProduced. The memory union is the same, with
// one more view for RETRIEVE_RAW.
typedef struct Qnn_TensorV2_t {
  uint32_t id;
  const char* name;
  Qnn_TensorType_t type;
  Qnn_TensorDataFormat_t dataFormat;
  Qnn_DataType_t dataType;
  Qnn_QuantizeParams_t quantizeParams;
  uint32_t rank;
  uint32_t* dimensions;
  Qnn_TensorMemType_t memType;
  union {
    Qnn_ClientBuffer_t clientBuf;
    Qnn_MemHandle_t memHandle;
    Qnn_TensorRetrieveRaw_t* retrieveRaw;
  };
  uint8_t* isDynamicDimensions;
  Qnn_SparseParams_t sparseParams;
  uint8_t isProduced;
} Qnn_TensorV2_t;

// version selects v1 or v2; reading the other member is an error, not a fallback.
typedef struct Qnn_Tensor_t {
  Qnn_TensorVersion_t version;
  union {
    Qnn_TensorV1_t v1;
    Qnn_TensorV2_t v2;
  };
} Qnn_Tensor_t;

typedef struct Qnn_TensorSetV1_t {
  uint32_t numInputs;
  Qnn_Tensor_t* inputs;
  uint32_t numOutputs;
  Qnn_Tensor_t* outputs;
} Qnn_TensorSetV1_t;

typedef struct Qnn_TensorSet_t {
  Qnn_TensorSetVersion_t version;
  union {
    Qnn_TensorSetV1_t v1;
  };
} Qnn_TensorSet_t;

typedef struct Qnn_Param_t {
  Qnn_ParamType_t paramType;
  const char* name;
  union {
    Qnn_Scalar_t scalarParam;
    Qnn_Tensor_t tensorParam;
  };
} Qnn_Param_t;

typedef struct Qnn_OpConfigV1_t {
  const char* name;
  const char* packageName;
  const char* typeName;
  uint32_t numOfParams;
  Qnn_Param_t* params;
  uint32_t numOfInputs;
  Qnn_Tensor_t* inputTensors;
  uint32_t numOfOutputs;
  Qnn_Tensor_t* outputTensors;
} Qnn_OpConfigV1_t;

// Passed by value (80 bytes, on the stack) to backendValidateOpConfig and graphAddNode.
typedef struct Qnn_OpConfig_t {
  Qnn_OpConfigVersion_t version;
  union {
    Qnn_OpConfigV1_t v1;
  };
} Qnn_OpConfig_t;

typedef struct Qnn_MemShape_t {
  uint32_t numDim;
  uint32_t* dimSize;
  const char* shapeConfig;
} Qnn_MemShape_t;

typedef struct Qnn_MemIonInfo_t {
  int32_t fd;
} Qnn_MemIonInfo_t;

// data is the client's own mapping of fd; it may be NULL when the client has none.
typedef struct Qnn_MemDmaBufInfo_t {
  int32_t fd;
  void* data;
} Qnn_MemDmaBufInfo_t;

// One buffer, or one tensor's view of it, as given to memRegister. The union took its second word
// when DMA_BUF arrived: older clients pass 40 bytes, so read dmaBufInfo.data only for
// QNN_MEM_TYPE_DMA_BUF.
typedef struct Qnn_MemDescriptor_t {
  Qnn_MemShape_t memShape;
  Qnn_DataType_t dataType;
  Qnn_MemType_t memType;
  union {
    Qnn_MemIonInfo_t ionInfo;
    Qnn_MemInfoCustom_t customInfo;
    Qnn_MemDmaBufInfo_t dmaBufInfo;
  };
} Qnn_MemDescriptor_t;

typedef struct Qnn_NotifyStatus_t {
  Qnn_ErrorHandle_t error;
} Qnn_NotifyStatus_t;

// Completion of an asynchronous call; runs on a thread of the backend.
typedef void (*Qnn_NotifyFn_t)(void* notifyParam, Qnn_NotifyStatus_t status);

#ifdef __cplusplus
}  // extern "C"
#endif
