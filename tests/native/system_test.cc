// The system interface, as a C client has it: what it says of binaries, who owns that, and what
// happens when arguments or memory are bad.
#include "abi/qnn_system.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "abi/qnn_errors.h"
#include "abi/qnn_htp.h"
#include "abi/qnnrt_ext.h"
#include "check.h"
#include "support/allocations.h"
#include "system_binary.h"

extern "C" Qnn_ErrorHandle_t qnnrt_system_get_providers(const QnnSystemInterface_t*** list,
                                                        uint32_t* count);

namespace {

using Code = Qnn_ErrorHandle_t;
using Info = const QnnSystemContext_BinaryInfo_t*;

const QnnSystemInterface_t& provider = []() -> const QnnSystemInterface_t& {
  const QnnSystemInterface_t** list = nullptr;
  uint32_t count = 0;
  qnnrt_system_get_providers(&list, &count);
  return *list[0];
}();
const QnnSystemInterface_ImplementationV1_7_t& q = provider.v1_7;

struct SystemContext {
  SystemContext() { CHECK_EQ(q.systemContextCreate(&handle), 0u); }
  ~SystemContext() { CHECK_EQ(q.systemContextFree(handle), 0u); }
  Code Describe(const std::vector<uint8_t>& binary, Info* info, uint64_t* size = nullptr) {
    return q.systemContextGetBinaryInfo(handle, const_cast<uint8_t*>(binary.data()), binary.size(),
                                        info, size);
  }
  QnnSystemContext_Handle_t handle = nullptr;
};

std::string g_log;
void Logged(const char* format, QnnLog_Level_t, uint64_t, va_list args) {
  char text[1024];
  std::vsnprintf(text, sizeof(text), format, args);
  g_log += text + std::string("\n");
}

// A client that asks the library something while it is told of an error.
void AsksAgain(const char*, QnnLog_Level_t, uint64_t, va_list) {
  static bool inside = false;
  if (inside) return;
  inside = true;
  Qnn_LogHandle_t log = nullptr;
  CHECK_EQ(q.systemLogCreate(Logged, QNN_LOG_LEVEL_ERROR, &log), 0u);
  CHECK(q.systemContextFree(nullptr) != 0);
  CHECK_EQ(q.systemLogFree(log), 0u);
  inside = false;
}

// Reads every field that a client may; the sanitizers watch.
uint64_t Sum(const Qnn_Tensor_t* tensors, uint32_t n) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const Qnn_TensorV1_t& t = tensors[i].v1;
    sum += std::strlen(t.name) + t.id;
    for (uint32_t d = 0; d < t.rank; ++d) sum += t.dimensions[d];
    const Qnn_QuantizeParams_t& p = t.quantizeParams;
    if (p.quantizationEncoding == QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET) {
      for (uint32_t s = 0; s < p.axisScaleOffsetEncoding.numScaleOffsets; ++s)
        sum += static_cast<uint64_t>(-p.axisScaleOffsetEncoding.scaleOffset[s].offset);
    }
  }
  return sum;
}
uint64_t Sum(Info info) {
  const QnnSystemContext_BinaryInfoV3_t& v = info->contextBinaryInfoV3;
  uint64_t sum = std::strlen(v.buildId) + std::strlen(v.socVersion);
  for (uint32_t i = 0; i < v.numGraphs; ++i) {
    const QnnSystemContext_GraphInfoV3_t& g = v.graphs[i].graphInfoV3;
    sum += std::strlen(g.graphName) + Sum(g.graphInputs, g.numGraphInputs) +
           Sum(g.graphOutputs, g.numGraphOutputs);
    const uint8_t* blob = static_cast<const uint8_t*>(g.graphBlobInfo);
    for (uint32_t b = 0; b < g.graphBlobInfoSize; ++b) sum += blob[b];
  }
  return sum;
}

TEST(TheProviderIsOneThatOnnxRuntimeTakes) {
  CHECK_EQ(provider.backendId, 0u);
  CHECK_EQ(std::string(provider.providerName), "SYSTEM_QTI_AISW");
  CHECK_EQ(provider.systemApiVersion.major, 1u);
  CHECK(provider.systemApiVersion.minor >= 15);
  // A client of a later version copies a longer table: known slots are filled, others are null.
  const auto& padded = reinterpret_cast<const Qnnrt_PaddedSystemInterface_t&>(provider);
  void* const* slots = reinterpret_cast<void* const*>(&q);
  for (int i = 0; i < QNN_SYSTEM_INTERFACE_NUM_ENTRIES; ++i) CHECK(slots[i] != nullptr);
  for (auto slot : padded.spare) CHECK(slot == nullptr);
  const QnnSystemInterface_t** list = nullptr;
  uint32_t count = 0;
  CHECK_EQ(qnnrt_system_get_providers(nullptr, &count), Code{1004});
  CHECK_EQ(qnnrt_system_get_providers(&list, nullptr), Code{1004});
}

TEST(ABinaryIsDescribedFieldByField) {
  SystemContext context;
  Info info = nullptr;
  uint64_t size = 0;
  std::vector<uint8_t> binary = MakeBinary(QNN_BACKEND_ID_HTP, Graphs());
  REQUIRE(CHECK_EQ(context.Describe(binary, &info, &size), Code{0}));
  CHECK(size > sizeof(*info));
  CHECK_EQ(info->version, QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_3);
  const QnnSystemContext_BinaryInfoV3_t& v = info->contextBinaryInfoV3;
  CHECK_EQ(v.backendId, QNN_BACKEND_ID_HTP);
  CHECK_EQ(std::string(v.buildId), "qnnrt-test");
  CHECK_EQ(std::string(v.socVersion), "");
  CHECK_EQ(v.coreApiVersion.patch, 1u);
  CHECK_EQ(v.backendApiVersion.minor, 43u);
  CHECK_EQ(v.contextBlobVersion.major, qnnrt::kBinaryFormat);
  CHECK_EQ(v.contextBlobSize, binary.size() - qnnrt::kBinaryHeaderSize);
  CHECK_EQ(v.numContextTensors, 0u);
  REQUIRE(v.numGraphs == 2);
  REQUIRE(v.platformInfo != nullptr);
  CHECK_EQ(v.platformInfo->v1.numHwDevices, 1u);
  auto* metadata = static_cast<const QnnHtpSystemContext_ContextBlobInfo_t*>(v.contextMetadata);
  REQUIRE(v.contextMetadataSize == sizeof(*metadata));
  CHECK_EQ(metadata->contextBinaryContextBlobInfoV1.dspArch,
           static_cast<uint32_t>(static_cast<const QnnHtpDevice_DeviceInfoExtension_t*>(
                                     v.platformInfo->v1.hwDevices[0].v1.deviceInfoExtension)
                                     ->onChipDevice.arch));

  CHECK_EQ(v.graphs[0].version, QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_3);
  const QnnSystemContext_GraphInfoV3_t& a = v.graphs[0].graphInfoV3;
  CHECK_EQ(std::string(a.graphName), "a");
  REQUIRE(a.numGraphInputs == 2 && a.numGraphOutputs == 2);
  CHECK_EQ(a.numUpdateableTensors, 0u);
  const Qnn_TensorV1_t& per_tensor = a.graphInputs[0].v1;
  CHECK_EQ(a.graphInputs[0].version, QNN_TENSOR_VERSION_1);
  CHECK_EQ(per_tensor.id, 1u);
  CHECK_EQ(std::string(per_tensor.name), "per tensor");
  CHECK_EQ(per_tensor.type, QNN_TENSOR_TYPE_APP_WRITE);
  CHECK_EQ(per_tensor.dataType, QNN_DATATYPE_UFIXED_POINT_8);
  CHECK_EQ(per_tensor.memType, QNN_TENSORMEMTYPE_MEMHANDLE);
  CHECK(per_tensor.memHandle == nullptr);
  REQUIRE(per_tensor.rank == 3);
  CHECK_EQ(per_tensor.dimensions[2], 3u);
  CHECK_EQ(per_tensor.quantizeParams.encodingDefinition, QNN_DEFINITION_DEFINED);
  CHECK_EQ(per_tensor.quantizeParams.scaleOffsetEncoding.scale, 0.5f);
  CHECK_EQ(per_tensor.quantizeParams.scaleOffsetEncoding.offset, -3);
  const Qnn_TensorV1_t& per_axis = a.graphInputs[1].v1;
  CHECK_EQ(per_axis.memType, QNN_TENSORMEMTYPE_RAW);
  CHECK(per_axis.clientBuf.data == nullptr);
  REQUIRE(per_axis.quantizeParams.axisScaleOffsetEncoding.numScaleOffsets == 3);
  CHECK_EQ(per_axis.quantizeParams.axisScaleOffsetEncoding.axis, 1);
  CHECK_EQ(per_axis.quantizeParams.axisScaleOffsetEncoding.scaleOffset[2].scale, 3.0f);
  CHECK_EQ(per_axis.quantizeParams.axisScaleOffsetEncoding.scaleOffset[2].offset, -3);
  const Qnn_QuantizeParams_t& bits = a.graphOutputs[0].v1.quantizeParams;
  CHECK_EQ(bits.bwScaleOffsetEncoding.bitwidth, 4u);
  CHECK_EQ(bits.bwScaleOffsetEncoding.offset, -8);
  const Qnn_QuantizeParams_t& axis = a.graphOutputs[1].v1.quantizeParams;
  REQUIRE(axis.bwAxisScaleOffsetEncoding.numElements == 2);
  CHECK_EQ(axis.bwAxisScaleOffsetEncoding.bitwidth, 4u);
  CHECK_EQ(axis.bwAxisScaleOffsetEncoding.scales[1], 5.0f);
  CHECK_EQ(axis.bwAxisScaleOffsetEncoding.offsets[1], 7);
  const Qnn_QuantizeParams_t& none = v.graphs[1].graphInfoV3.graphInputs[0].v1.quantizeParams;
  CHECK_EQ(none.encodingDefinition, QNN_DEFINITION_UNDEFINED);
  CHECK_EQ(none.quantizationEncoding, QNN_QUANTIZATION_ENCODING_UNDEFINED);

  // The sizes in HTP's blob: version 1, and right behind it version 2.
  REQUIRE(a.graphBlobInfoSize == sizeof(QnnHtpSystemContext_GraphBlobInfo_t) +
                                     sizeof(QnnHtpSystemContext_GraphBlobInfoV2_t));
  auto* v1 = static_cast<const QnnHtpSystemContext_GraphBlobInfo_t*>(a.graphBlobInfo);
  auto* v2 = reinterpret_cast<const QnnHtpSystemContext_GraphBlobInfoV2_t*>(v1 + 1);
  CHECK_EQ(static_cast<int>(v1->version), 1);
  CHECK_EQ(v1->contextBinaryGraphBlobInfoV1.spillFillBufferSize, 4096u);
  CHECK_EQ(static_cast<int>(v2->version), 2);
  CHECK_EQ(v2->ioTensorSize, 6u + 3 + 7 + 4);
  CHECK_EQ(v2->opDataSize, 24u);
  CHECK_EQ(v2->constSize, 8192u);
  CHECK_EQ(v2->ddrTensorSize, 4096u);
}

TEST(TheCpuBackendHasNoAcceleratorToDescribe) {
  SystemContext context;
  Info info = nullptr;
  REQUIRE(CHECK_EQ(context.Describe(MakeBinary(QNN_BACKEND_ID_CPU, Graphs()), &info), Code{0}));
  const QnnSystemContext_BinaryInfoV3_t& v = info->contextBinaryInfoV3;
  CHECK_EQ(v.backendId, QNN_BACKEND_ID_CPU);
  CHECK(v.platformInfo == nullptr);
  CHECK_EQ(v.contextMetadataSize, 0u);
  CHECK_EQ(v.graphs[0].graphInfoV3.graphBlobInfoSize, 0u);
  CHECK(v.graphs[0].graphInfoV3.graphBlobInfo == nullptr);
}

TEST(ABinaryWithoutGraphsIsDescribed) {
  SystemContext context;
  Info info = nullptr;
  REQUIRE(CHECK_EQ(context.Describe(MakeBinary(QNN_BACKEND_ID_HTP, {}), &info), Code{0}));
  CHECK_EQ(info->contextBinaryInfoV3.numGraphs, 0u);
}

TEST(ADescriptionNeedsNoBinaryAndLivesUntilTheNextOne) {
  SystemContext context, other;
  std::vector<uint8_t> binary = MakeBinary(QNN_BACKEND_ID_HTP, Graphs());
  Info first = nullptr;
  REQUIRE(CHECK_EQ(context.Describe(binary, &first), Code{0}));
  const uint64_t sum = Sum(first);
  std::fill(binary.begin(), binary.end(), 0xAA);
  CHECK_EQ(Sum(first), sum);
  Info failed = first;
  CHECK_EQ(context.Describe(binary, &failed), Code{30010});
  CHECK(failed == nullptr);
  CHECK_EQ(Sum(first), sum);  // a call that fails leaves what the last one gave
  Info elsewhere = nullptr;
  CHECK_EQ(other.Describe(MakeBinary(QNN_BACKEND_ID_CPU, {}), &elsewhere), Code{0});
  CHECK_EQ(Sum(first), sum);
  Info second = nullptr;
  REQUIRE(CHECK_EQ(context.Describe(MakeBinary(QNN_BACKEND_ID_CPU, {}), &second), Code{0}));
  CHECK_EQ(second->contextBinaryInfoV3.numGraphs, 0u);
}

TEST(MetaDataIsTheSameDescription) {
  SystemContext context;
  const std::vector<uint8_t> binary = MakeBinary(QNN_BACKEND_ID_HTP, Graphs());
  Info a = nullptr;
  REQUIRE(CHECK_EQ(context.Describe(binary, &a), Code{0}));
  const uint64_t sum = Sum(a);
  Info b = nullptr;
  REQUIRE(CHECK_EQ(q.systemContextGetMetaData(context.handle, binary.data(), binary.size(), &b),
                   Code{0}));
  CHECK_EQ(Sum(b), sum);
}

TEST(BadArgumentsHaveTheirCodes) {
  std::vector<uint8_t> binary = MakeBinary(QNN_BACKEND_ID_HTP, Graphs());
  CHECK_EQ(q.systemContextCreate(nullptr), Code{30001});
  SystemContext context;
  Info info = nullptr;
  uint64_t size = 1;
  CHECK_EQ(context.Describe(binary, nullptr), Code{30001});
  CHECK_EQ(q.systemContextGetBinaryInfo(context.handle, nullptr, 10, &info, &size), Code{30001});
  CHECK_EQ(q.systemContextGetBinaryInfo(context.handle, binary.data(), 0, &info, &size),
           Code{30001});
  CHECK_EQ(size, 0u);
  for (void* handle : {static_cast<void*>(nullptr), static_cast<void*>(&binary)}) {
    CHECK_EQ(q.systemContextGetBinaryInfo(handle, binary.data(), binary.size(), &info, &size),
             Code{30000});
    CHECK_EQ(q.systemContextGetMetaData(handle, binary.data(), binary.size(), &info), Code{30000});
    CHECK_EQ(q.systemContextFree(handle), Code{30000});
    CHECK_EQ(q.systemProfileFreeSerializationTarget(handle), Code{30000});
  }
  QnnSystemContext_Handle_t freed = nullptr;
  CHECK_EQ(q.systemContextCreate(&freed), Code{0});
  CHECK_EQ(q.systemContextFree(freed), Code{0});
  CHECK_EQ(q.systemContextFree(freed), Code{30000});
  CHECK_EQ(q.systemContextGetBinaryInfo(freed, binary.data(), binary.size(), &info, &size),
           Code{30000});
  CHECK(std::string(qnnrt_error_message()).find("no live system context") != std::string::npos);
}

TEST(EveryTruncatedAndAlteredBinaryIsMalformed) {
  SystemContext context;
  const std::vector<uint8_t> binary = MakeBinary(QNN_BACKEND_ID_HTP, Graphs());
  Info info = nullptr;
  for (size_t size = 1; size < binary.size(); size += size < 1200 ? 1 : 97) {
    // On a heap block of its own size: a read beyond it is seen by the sanitizer.
    std::vector<uint8_t> cut(binary.begin(), binary.begin() + static_cast<ptrdiff_t>(size));
    cut.shrink_to_fit();
    CHECK_EQ(context.Describe(cut, &info), Code{30010});
  }
  for (size_t at = 0; at < 4096; ++at) {  // header and description; the weights are not read
    std::vector<uint8_t> altered = binary;
    altered[at] ^= 0x41;
    CHECK_EQ(context.Describe(altered, &info), Code{30010});
    CHECK_EQ(qnnrt_binary_verify(altered.data(), altered.size()), Code{30010});
  }
}

TEST(VerifyingReadsTheWeights) {
  std::vector<uint8_t> binary = MakeBinary(QNN_BACKEND_ID_HTP, Graphs());
  CHECK_EQ(qnnrt_binary_verify(binary.data(), binary.size()), Code{0});
  CHECK_EQ(qnnrt_binary_verify(nullptr, 10), Code{30001});
  for (size_t at = 4096; at < binary.size(); at += 611) {
    binary[at] ^= 1;
    CHECK_EQ(qnnrt_binary_verify(binary.data(), binary.size()), Code{30010});
    CHECK(std::string(qnnrt_error_message()).find("weights of graph 'a'") != std::string::npos);
    SystemContext context;
    Info info = nullptr;
    CHECK_EQ(context.Describe(binary, &info), Code{0});  // it is described all the same
    binary[at] ^= 1;
  }
}

TEST(SystemLogsSayWhatIsWrong) {
  Qnn_LogHandle_t log = nullptr, quiet = nullptr;
  CHECK_EQ(q.systemLogCreate(Logged, QNN_LOG_LEVEL_ERROR, &log), Code{0});
  CHECK_EQ(q.systemLogCreate(Logged, QNN_LOG_LEVEL_ERROR, &quiet), Code{0});
  CHECK_EQ(q.systemLogFree(quiet), Code{0});
  CHECK_EQ(q.systemLogFree(quiet), Code{11004});
  CHECK_EQ(q.systemLogSetLogLevel(log, QNN_LOG_LEVEL_DEBUG), Code{0});
  CHECK_EQ(q.systemLogSetLogLevel(log, static_cast<QnnLog_Level_t>(9)), Code{11003});
  CHECK_EQ(q.systemLogCreate(Logged, QNN_LOG_LEVEL_ERROR, nullptr), Code{11003});
  SystemContext context;
  Info info = nullptr;
  g_log.clear();
  // As the vendor's binaries begin.
  std::vector<uint8_t> vendor(100);
  vendor[3] = 2;
  vendor[7] = 3;
  CHECK_EQ(context.Describe(vendor, &info), Code{30010});
  CHECK_EQ(g_log,
           "error 30010: this is no qnnrt context binary, but a context binary that the vendor's "
           "libraries made: their libQnnSystem.so describes it\n");
  g_log.clear();
  CHECK_EQ(q.systemLogFree(log), Code{0});
  CHECK_EQ(context.Describe(vendor, &info), Code{30010});
  CHECK_EQ(g_log, "");
}

TEST(FootprintsAreElementsTimesTheirSize) {
  uint32_t dims[] = {2, 3, 5};
  Qnn_Tensor_t tensor;
  std::memset(&tensor, 0, sizeof(tensor));
  tensor.version = QNN_TENSOR_VERSION_2;
  tensor.v2.dataType = QNN_DATATYPE_FLOAT_16;
  tensor.v2.rank = 3;
  tensor.v2.dimensions = dims;
  uint64_t bytes = 0;
  CHECK_EQ(q.systemTensorGetMemoryFootprint(tensor, &bytes), Code{0});
  CHECK_EQ(bytes, 60u);
  CHECK_EQ(q.systemTensorGetMemoryFootprint(tensor, nullptr), Code{30001});
  tensor.v2.dimensions = nullptr;
  CHECK_EQ(q.systemTensorGetMemoryFootprint(tensor, &bytes), Code{30002});
  tensor.v2.dimensions = dims;
  tensor.v2.dataType = QNN_DATATYPE_STRING;
  CHECK_EQ(q.systemTensorGetMemoryFootprint(tensor, &bytes), Code{30002});
  tensor.version = static_cast<Qnn_TensorVersion_t>(7);
  CHECK_EQ(q.systemTensorGetMemoryFootprint(tensor, &bytes), Code{30002});
  uint32_t huge[] = {1u << 31, 1u << 31, 8};
  tensor.version = QNN_TENSOR_VERSION_1;
  tensor.v1.dataType = QNN_DATATYPE_FLOAT_64;
  tensor.v1.dimensions = huge;
  CHECK_EQ(q.systemTensorGetMemoryFootprint(tensor, &bytes), Code{30002});
}

TEST(DlcFilesAreNotSupported) {
  QnnSystemDlc_Handle_t dlc = nullptr;
  uint8_t byte = 0;
  CHECK_EQ(q.systemDlcCreateFromFile(nullptr, "x.dlc", &dlc), Code{1000});
  CHECK_EQ(q.systemDlcCreateFromBinary(nullptr, &byte, 1, &dlc), Code{1000});
  CHECK_EQ(q.systemDlcGetOpMappings(dlc, nullptr, nullptr), Code{1000});
  CHECK_EQ(q.systemDlcFree(dlc), Code{1000});
}

TEST(EveryAllocationMayFailOnce) {
  std::vector<uint8_t> binary = MakeBinary(QNN_BACKEND_ID_HTP, Graphs());
  int failed = 0;
  for (int64_t n = 1; n < 1000; ++n) {
    Info info = nullptr;
    QnnSystemContext_Handle_t handle = nullptr;
    qnnrt::FailAllocation(n);
    Code code = q.systemContextCreate(&handle);
    if (code == 0)
      code = q.systemContextGetBinaryInfo(handle, binary.data(), binary.size(), &info, nullptr);
    qnnrt::FailAllocation(-1);
    CHECK(code == 0 || code == 1002);
    CHECK_EQ(info != nullptr, code == 0);
    // What failed works now, with the same handle.
    if (handle == nullptr) CHECK_EQ(q.systemContextCreate(&handle), Code{0});
    CHECK_EQ(q.systemContextGetBinaryInfo(handle, binary.data(), binary.size(), &info, nullptr),
             Code{0});
    CHECK(Sum(info) > 0);
    CHECK_EQ(q.systemContextFree(handle), Code{0});
    if (code == 0) break;
    ++failed;
  }
  CHECK(failed > 20);
}

TEST(ThreadsShareASystemContext) {
  const std::vector<uint8_t> binary = MakeBinary(QNN_BACKEND_ID_HTP, Graphs());
  SystemContext context;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        Info info = nullptr;
        CHECK_EQ(context.Describe(binary, &info), Code{0});
        SystemContext own;
        CHECK_EQ(own.Describe(binary, &info), Code{0});
        CHECK(Sum(info) > 0);
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

}  // namespace

TEST(a_log_callback_may_call_the_library) {
  Qnn_LogHandle_t log = nullptr;
  CHECK_EQ(q.systemLogCreate(AsksAgain, QNN_LOG_LEVEL_ERROR, &log), 0u);
  g_log.clear();
  CHECK(q.systemContextFree(nullptr) != 0);
  CHECK(!g_log.empty());
  CHECK_EQ(q.systemLogFree(log), 0u);
}

CHECK_MAIN("system_test")
