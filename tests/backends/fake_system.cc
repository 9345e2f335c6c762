// A system library of another maker: FAKE_VERSION_MAJOR/MINOR is its interface, FAKE_INFO the
// version of the structs it answers with. Binaries are a single byte: how many graphs.
#include <cstring>

#include "abi/qnn_errors.h"
#include "abi/qnn_system.h"

#ifndef FAKE_MAJOR
#define FAKE_MAJOR 1
#define FAKE_MINOR 7
#endif
#ifndef FAKE_INFO
#define FAKE_INFO 2
#endif

namespace {

uint32_t dims[] = {2, 3};
uint8_t dynamic[] = {0, 1};
Qnn_ScaleOffset_t pairs[] = {{0.5f, -1}, {0.25f, -2}, {0.125f, -3}};
float scales[] = {1, 2};
Qnn_Tensor_t inputs[4], outputs[1], updateable[1];
QnnSystemContext_GraphInfo_t graph;
QnnSystemContext_BinaryInfo_t info;
QnnDevice_PlatformInfo_t platform;
int contexts = 0;

Qnn_Tensor_t Named(const char* name, uint32_t id) {
  Qnn_Tensor_t t;
  std::memset(&t, 0, sizeof(t));
  t.version = QNN_TENSOR_VERSION_2;
  t.v2.id = id;
  t.v2.name = name;
  t.v2.dataType = QNN_DATATYPE_UFIXED_POINT_8;
  t.v2.rank = 2;
  t.v2.dimensions = dims;
  t.v2.memType = static_cast<Qnn_TensorMemType_t>(id % 4);
  t.v2.quantizeParams.encodingDefinition = QNN_DEFINITION_DEFINED;
  return t;
}

void Fill() {
  for (int i = 0; i < 4; ++i) inputs[i] = Named("in", static_cast<uint32_t>(i));
  inputs[0].v2.isDynamicDimensions = dynamic;
  inputs[0].v2.quantizeParams.quantizationEncoding = QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET;
  inputs[0].v2.quantizeParams.axisScaleOffsetEncoding = {1, 3, pairs};
  inputs[1].v2.quantizeParams.quantizationEncoding = QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET;
  inputs[1].v2.quantizeParams.bwScaleOffsetEncoding = {4, 2.0f, -8};
  inputs[2].v2.quantizeParams.quantizationEncoding = QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET;
  inputs[2].v2.quantizeParams.bwAxisScaleOffsetEncoding = {4, 0, 2, scales, nullptr};
  inputs[3].v2.quantizeParams.quantizationEncoding = QNN_QUANTIZATION_ENCODING_BLOCK;
  inputs[3].v2.rank = 7;  // of dimensions that nobody gave
  inputs[3].v2.dimensions = nullptr;
  outputs[0] = Named("out", 9);
  outputs[0].v2.quantizeParams.encodingDefinition = QNN_DEFINITION_UNDEFINED;
  updateable[0] = Named("weights", 10);
  graph.version = static_cast<QnnSystemContext_GraphInfoVersion_t>(FAKE_INFO);
  graph.graphInfoV2 = {"g", 4, inputs, 1, outputs, 1, updateable};
  platform.version = QNN_DEVICE_PLATFORM_INFO_VERSION_1;
  info.version = static_cast<QnnSystemContext_BinaryInfoVersion_t>(FAKE_INFO);
  QnnSystemContext_BinaryInfoV2_t& v2 = info.contextBinaryInfoV2;
  v2.backendId = 6;
  v2.buildId = "fake";
  v2.coreApiVersion = {2, 10, 0};
  v2.hwInfoBlobSize = 3;
  v2.hwInfoBlob = const_cast<char*>("abc");
  v2.contextBlobSize = 77;
  v2.numGraphs = 1;
  v2.graphs = &graph;
  // Version 1 ends before this member.
  v2.platformInfo = FAKE_INFO == 1 ? reinterpret_cast<QnnDevice_PlatformInfo_t*>(8) : &platform;
}

Qnn_ErrorHandle_t Create(QnnSystemContext_Handle_t* handle) {
  *handle = &contexts;
  ++contexts;
  return QNN_SUCCESS;
}
Qnn_ErrorHandle_t GetBinaryInfo(QnnSystemContext_Handle_t, void* binary, uint64_t,
                                const QnnSystemContext_BinaryInfo_t** out,
                                Qnn_ContextBinarySize_t*) {
  if (*static_cast<uint8_t*>(binary) == 'x') return QNN_SYSTEM_CONTEXT_ERROR_MALFORMED_BINARY;
  Fill();
  *out = *static_cast<uint8_t*>(binary) == '0' ? nullptr : &info;
  return QNN_SUCCESS;
}
Qnn_ErrorHandle_t Free(QnnSystemContext_Handle_t) {
  --contexts;
  return QNN_SUCCESS;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int fake_contexts() { return contexts; }

Qnn_ErrorHandle_t QnnSystemInterface_getProviders(const QnnSystemInterface_t*** list, uint32_t* n) {
  static QnnSystemInterface_t provider;
  static const QnnSystemInterface_t* providers[] = {&provider};
  provider.providerName = "FAKE";
  provider.systemApiVersion = {FAKE_MAJOR, FAKE_MINOR, 0};
  provider.v1_7.systemContextCreate = Create;
  provider.v1_7.systemContextGetBinaryInfo = GetBinaryInfo;
  provider.v1_7.systemContextFree = Free;
  *list = providers;
  *n = FAKE_MAJOR == 0 ? 0 : 1;
  return QNN_SUCCESS;
}

}  // extern "C"
