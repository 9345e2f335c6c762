// Holds every offset in the function tables, and one value of each family of constants, as
// abi_layout_test.cc does for structs.
#include "abi_layout.h"

// clang-format off
// The function tables.
LAYOUT(QnnInterface_ImplementationV2_32_t, 568, AT(propertyHasCapability, 0) AT(backendCreate, 8)
       AT(backendSetConfig, 16) AT(backendGetApiVersion, 24) AT(backendGetBuildId, 32)
       AT(backendRegisterOpPackage, 40) AT(backendGetSupportedOperations, 48)
       AT(backendValidateOpConfig, 56) AT(backendFree, 64) AT(contextCreate, 72)
       AT(contextSetConfig, 80) AT(contextGetBinarySize, 88) AT(contextGetBinary, 96)
       AT(contextCreateFromBinary, 104) AT(contextFree, 112) AT(graphCreate, 120)
       AT(graphCreateSubgraph, 128) AT(graphSetConfig, 136) AT(graphAddNode, 144)
       AT(graphFinalize, 152) AT(graphRetrieve, 160) AT(graphExecute, 168)
       AT(graphExecuteAsync, 176) AT(tensorCreateContextTensor, 184)
       AT(tensorCreateGraphTensor, 192) AT(logCreate, 200) AT(logSetLogLevel, 208)
       AT(logFree, 216) AT(profileCreate, 224) AT(profileSetConfig, 232) AT(profileGetEvents, 240)
       AT(profileGetSubEvents, 248) AT(profileGetEventData, 256)
       AT(profileGetExtendedEventData, 264) AT(profileFree, 272) AT(memRegister, 280)
       AT(memDeRegister, 288) AT(deviceGetPlatformInfo, 296) AT(deviceFreePlatformInfo, 304)
       AT(deviceGetInfrastructure, 312) AT(deviceCreate, 320) AT(deviceSetConfig, 328)
       AT(deviceGetInfo, 336) AT(deviceFree, 344) AT(signalCreate, 352) AT(signalSetConfig, 360)
       AT(signalTrigger, 368) AT(signalFree, 376) AT(errorGetMessage, 384)
       AT(errorGetVerboseMessage, 392) AT(errorFreeVerboseMessage, 400)
       AT(graphPrepareExecutionEnvironment, 408) AT(graphReleaseExecutionEnvironment, 416)
       AT(graphGetProperty, 424) AT(contextValidateBinary, 432)
       AT(contextCreateFromBinaryWithSignal, 440) AT(contextCreateFromBinaryListAsync, 448)
       AT(tensorUpdateGraphTensors, 456) AT(tensorUpdateContextTensors, 464)
       AT(contextGetBinarySectionSize, 472) AT(contextGetBinarySection, 480)
       AT(contextApplyBinarySection, 488) AT(backendGetProperty, 496) AT(contextGetProperty, 504)
       AT(contextGetIncrementalBinary, 512) AT(contextReleaseIncrementalBinary, 520)
       AT(contextFinalize, 528) AT(globalConfigSet, 536)
       AT(contextCreateFromBinaryWithCallback, 544) AT(contextGetBinarySectionUpdate, 552)
       AT(contextFreeBinarySectionUpdate, 560))
LAYOUT(QnnSystemInterface_ImplementationV1_7_t, 128, AT(systemContextCreate, 0)
       AT(systemContextGetBinaryInfo, 8) AT(systemContextGetMetaData, 16)
       AT(systemContextFree, 24) AT(systemTensorGetMemoryFootprint, 32) AT(systemLogCreate, 40)
       AT(systemLogSetLogLevel, 48) AT(systemLogFree, 56) AT(systemDlcCreateFromFile, 64)
       AT(systemDlcCreateFromBinary, 72) AT(systemDlcComposeGraphs, 80)
       AT(systemDlcGetOpMappings, 88) AT(systemDlcFree, 96)
       AT(systemProfileCreateSerializationTarget, 104) AT(systemProfileSerializeEventData, 112)
       AT(systemProfileFreeSerializationTarget, 120))

// The padded forms start with the public one, and the spare slots follow it without a gap.
LAYOUT(Qnnrt_PaddedInterface_t, 608 + 64 * 8, AT(interface, 0) AT(spare, 608))
LAYOUT(Qnnrt_PaddedSystemInterface_t, 160 + 64 * 8, AT(interface, 0) AT(spare, 160))
// One value of each family, the ones a swapped line would move.
VALUE(QNN_DATATYPE_FLOAT_32, 0x232)
VALUE(QNN_DATATYPE_BOOL_8, 0x508)
VALUE(QNN_DATATYPE_UFIXED_POINT_8, 0x408)
VALUE(QNN_DATATYPE_SFIXED_POINT_16, 0x316)
VALUE(QNN_PARAMTYPE_UNDEFINED, 0xFFFFFFFF)
VALUE(QNN_TENSOR_TYPE_STATIC, 4)
VALUE(QNN_TENSORMEMTYPE_MEMHANDLE, 1)
VALUE(QNN_MEM_TYPE_ION, 1)
VALUE(QNN_MEM_TYPE_CUSTOM, 2)
VALUE(QNN_MEM_TYPE_DMA_BUF, 3)
VALUE(QNN_HTP_MEM_SHARED_BUFFER, 1)
VALUE(QNN_MEM_ERROR_INVALID_HANDLE, 8001)
VALUE(QNN_GRAPH_ERROR_INVALID_TENSOR, 6004)
VALUE(QNN_CONTEXT_ERROR_CREATE_FROM_BINARY, 5005)
VALUE(QNN_COMMON_ERROR_SYSTEM_COMMUNICATION, 1007)
VALUE(QNN_PROPERTY_ERROR_UNKNOWN_KEY, 2000)
VALUE(QNN_PROPERTY_TENSOR_SUPPORT_MEMHANDLE_TYPE, 502)
VALUE(QNN_PROPERTY_MEMORY_SUPPORT_MEM_TYPE_DMA_BUF, 1104)
VALUE(QNN_PROPERTY_DEVICE_SUPPORT_INFRASTRUCTURE, 1502)
VALUE(QNN_GRAPH_CONFIG_OPTION_PRIORITY, 3)
VALUE(QNN_CONTEXT_CONFIG_PERSISTENT_BINARY, 7)
VALUE(QNN_PROFILE_EVENTTYPE_EXECUTE, 400)
VALUE(QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET, 3)
VALUE(QNN_OP_PAD_SCHEME_EDGE, 3)
VALUE(RPCMEM_HEAP_ID_SYSTEM, 25)  // clang-format on

int main() {
  constexpr int kExpected = 120;  // a check that is lost must not go unnoticed
  std::printf("abi tables: %d checks\n", g_checked);
  return g_checked == kExpected ? 0 : 1;
}
