// A QNN backend that computes nothing and writes down every call. Built by
// tests/qnn/test_client.py, which sets the knobs below and reads the journal, to see what the
// client really sends.
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "abi/qnn.h"
#include "abi/qnn_gpu.h"
#include "abi/qnn_htp.h"

namespace {

std::mutex g_mutex;
std::string g_journal;
QnnLog_Callback_t g_log = nullptr;
uint32_t g_ids = 0;
uint64_t g_execute_error = 0;
uintptr_t g_handles = 0x1000;
std::vector<std::thread> g_threads;
Qnnrt_PaddedInterface_t g_tables[3];
const QnnInterface_t* g_list[3];
uint32_t g_count = 1;

void Note(const char* format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  std::lock_guard<std::mutex> lock(g_mutex);
  g_journal += text;
  g_journal += '\n';
}

void Say(const char* format, ...) {
  if (!g_log) return;
  va_list args;
  va_start(args, format);
  g_log(format, QNN_LOG_LEVEL_WARN, 42, args);
  va_end(args);
}

}  // namespace

#include "fake_lpai.h"
bool g_gpu = false;

namespace {

template <typename Handle>
uint64_t Make(const char* what, Handle* out) {
  *out = reinterpret_cast<Handle>(g_handles += 0x10);
  Note("%s", what);
  return 0;
}

void NoteGpu(const char* call, const void* custom, size_t size) {
  std::string hex;
  for (size_t i = 0; i < size; ++i) {
    char byte[3];
    std::snprintf(byte, sizeof byte, "%02x", static_cast<const unsigned char*>(custom)[i]);
    hex += byte;
  }
  Note("%s gpu=%s", call, hex.c_str());
}

uint64_t Capability(QnnProperty_Key_t) { return QNN_PROPERTY_NOT_SUPPORTED; }
uint64_t LogCreate(QnnLog_Callback_t callback, QnnLog_Level_t level, Qnn_LogHandle_t* out) {
  g_log = callback;
  Note("logCreate level=%d", static_cast<int>(level));
  *out = reinterpret_cast<Qnn_LogHandle_t>(g_handles += 0x10);
  return 0;
}
uint64_t LogFree(Qnn_LogHandle_t) {
  Note("logFree");
  g_log = nullptr;
  return 0;
}
uint64_t BackendCreate(Qnn_LogHandle_t log, const QnnBackend_Config_t** config,
                       Qnn_BackendHandle_t* out) {
  uint32_t n = 0;
  while (config && config[n]) ++n;
  Note("backendCreate log=%d config=%u", log != nullptr, n);
  for (uint32_t i = 0; i < n; ++i) {
    if (config[i]->option == QNN_BACKEND_CONFIG_OPTION_CUSTOM && g_gpu) {
      NoteGpu("backendCreate", config[i]->customConfig, sizeof(QnnGpuBackend_CustomConfig_t));
    } else if (config[i]->option == QNN_BACKEND_CONFIG_OPTION_CUSTOM) {
      NoteLpaiBackend(config[i]->customConfig);
    } else {
      Note("backendCreate platform=%s", config[i]->platformOption);
    }
  }
  *out = reinterpret_cast<Qnn_BackendHandle_t>(g_handles += 0x10);
  return 0;
}
uint64_t BackendFree(Qnn_BackendHandle_t) {
  Note("backendFree");
  return 0;
}
uint64_t DeviceCreate(Qnn_LogHandle_t, const QnnDevice_Config_t**, Qnn_DeviceHandle_t* out) {
  return Make("deviceCreate", out);
}
uint64_t DeviceFree(Qnn_DeviceHandle_t) {
  Note("deviceFree");
  return 0;
}
uint64_t ContextCreate(Qnn_BackendHandle_t, Qnn_DeviceHandle_t device,
                       const QnnContext_Config_t** config, Qnn_ContextHandle_t* out) {
  Note("contextCreate device=%d", device != nullptr);
  for (uint32_t i = 0; config && config[i]; ++i) {
    const QnnContext_Config_t& c = *config[i];
    switch (c.option) {
      case QNN_CONTEXT_CONFIG_OPTION_PRIORITY:
        Note("contextCreate priority=%d", static_cast<int>(c.priority));
        break;
      case QNN_CONTEXT_CONFIG_OPTION_OEM_STRING:
        Note("contextCreate oem=%s", c.oemString);
        break;
      case QNN_CONTEXT_CONFIG_ASYNC_EXECUTION_QUEUE_DEPTH:
        Note("contextCreate depth=%u", c.asyncExeQueueDepth.depth);
        break;
      case QNN_CONTEXT_CONFIG_ENABLE_GRAPHS:
        for (const char* const* g = c.enableGraphs; *g; ++g) Note("contextCreate graph=%s", *g);
        break;
      case QNN_CONTEXT_CONFIG_MEMORY_LIMIT_HINT:
        Note("contextCreate limit=%llu", static_cast<unsigned long long>(c.memoryLimitHint));
        break;
      case QNN_CONTEXT_CONFIG_PERSISTENT_BINARY:
        Note("contextCreate persistent=%u", c.isPersistentBinary);
        break;
      case QNN_CONTEXT_CONFIG_BINARY_COMPATIBILITY:
        Note("contextCreate compatibility=%d", static_cast<int>(c.binaryCompatibilityType));
        break;
      case QNN_CONTEXT_CONFIG_OPTION_DEFER_GRAPH_INIT:
        Note("contextCreate defer=%u", c.isGraphInitDeferred);
        break;
      case QNN_CONTEXT_CONFIG_OPTION_CUSTOM:
        if (g_gpu) {
          NoteGpu("contextCreate", c.customConfig, sizeof(QnnGpuContext_CustomConfig_t));
        } else if (g_lpai) {
          NoteLpaiContext(c.customConfig);
        } else {
          Note("contextCreate custom=%s", static_cast<const char*>(c.customConfig));
        }
        break;
      default:
        Note("contextCreate option=%d", static_cast<int>(c.option));
    }
  }
  *out = reinterpret_cast<Qnn_ContextHandle_t>(g_handles += 0x10);
  return 0;
}
uint64_t ContextFree(Qnn_ContextHandle_t, Qnn_ProfileHandle_t) {
  Note("contextFree");
  return 0;
}
uint64_t GraphCreate(Qnn_ContextHandle_t, const char* name, const QnnGraph_Config_t** config,
                     Qnn_GraphHandle_t* out) {
  uint32_t n = 0;
  while (config && config[n]) ++n;
  Note("graphCreate %s config=%u", name, n);
  for (uint32_t i = 0; g_gpu && i < n; ++i) {
    if (config[i]->option == QNN_GRAPH_CONFIG_OPTION_CUSTOM)
      NoteGpu("graphCreate", config[i]->customConfig, sizeof(QnnGpuGraph_CustomConfig_t));
  }
  *out = reinterpret_cast<Qnn_GraphHandle_t>(g_handles += 0x10);
  return 0;
}

void NoteTensor(const char* what, const Qnn_Tensor_t& tensor) {
  const Qnn_TensorV1_t& t = tensor.v1;
  std::string dims;
  for (uint32_t i = 0; i < t.rank; ++i) dims += (i ? "x" : "") + std::to_string(t.dimensions[i]);
  const Qnn_QuantizeParams_t& q = t.quantizeParams;
  std::string quantized;
  if (q.encodingDefinition == QNN_DEFINITION_DEFINED) {
    char text[128];
    if (q.quantizationEncoding == QNN_QUANTIZATION_ENCODING_SCALE_OFFSET) {
      std::snprintf(text, sizeof text, " scale=%g offset=%d", q.scaleOffsetEncoding.scale,
                    q.scaleOffsetEncoding.offset);
    } else if (q.quantizationEncoding == QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET) {
      const Qnn_AxisScaleOffset_t& a = q.axisScaleOffsetEncoding;
      std::snprintf(text, sizeof text, " axis=%d n=%u last=%g,%d", a.axis, a.numScaleOffsets,
                    a.scaleOffset[a.numScaleOffsets - 1].scale,
                    a.scaleOffset[a.numScaleOffsets - 1].offset);
    } else if (q.quantizationEncoding == QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET) {
      const Qnn_BwScaleOffset_t& b = q.bwScaleOffsetEncoding;
      std::snprintf(text, sizeof text, " bw=%u scale=%g offset=%d", b.bitwidth, b.scale, b.offset);
    } else {
      const Qnn_BwAxisScaleOffset_t& b = q.bwAxisScaleOffsetEncoding;
      std::snprintf(text, sizeof text, " bw=%u axis=%d n=%u last=%g,%d", b.bitwidth, b.axis,
                    b.numElements, b.scales[b.numElements - 1], b.offsets[b.numElements - 1]);
    }
    quantized = text;
  }
  Note("%s %s v%d type=%d dtype=0x%04x dims=%s mem=%d data=%d%s", what, t.name,
       static_cast<int>(tensor.version), static_cast<int>(t.type),
       static_cast<unsigned>(t.dataType), dims.c_str(), static_cast<int>(t.memType),
       t.memType == QNN_TENSORMEMTYPE_RAW ? static_cast<int>(t.clientBuf.dataSize)
                                          : t.memHandle != nullptr,
       quantized.c_str());
}

uint64_t CreateTensor(Qnn_GraphHandle_t, Qnn_Tensor_t* tensor) {
  tensor->v1.id = ++g_ids;
  NoteTensor("tensor", *tensor);
  return 0;
}
uint64_t AddNode(Qnn_GraphHandle_t, Qnn_OpConfig_t op) {
  Note("node %s %s::%s in=%u out=%u", op.v1.name, op.v1.packageName, op.v1.typeName,
       op.v1.numOfInputs, op.v1.numOfOutputs);
  for (uint32_t i = 0; i < op.v1.numOfParams; ++i) {
    const Qnn_Param_t& p = op.v1.params[i];
    if (p.paramType == QNN_PARAMTYPE_TENSOR) {
      Note("param %s tensor id=%u", p.name, p.tensorParam.v1.id);
      continue;
    }
    const Qnn_Scalar_t& s = p.scalarParam;
    switch (s.dataType) {
      case QNN_DATATYPE_FLOAT_32:
        Note("param %s f32=%g", p.name, s.floatValue);
        break;
      case QNN_DATATYPE_UINT_32:
        Note("param %s u32=%u", p.name, s.uint32Value);
        break;
      case QNN_DATATYPE_INT_32:
        Note("param %s i32=%d", p.name, s.int32Value);
        break;
      case QNN_DATATYPE_BOOL_8:
        Note("param %s b8=%u", p.name, s.bool8Value);
        break;
      case QNN_DATATYPE_STRING:
        Note("param %s str=%s", p.name, s.stringValue);
        break;
      default:
        Note("param %s dtype=0x%x", p.name, static_cast<unsigned>(s.dataType));
    }
  }
  for (uint32_t i = 0; i < op.v1.numOfInputs; ++i) {
    if (op.v1.inputTensors[i].v1.type == QNN_TENSOR_TYPE_NULL) Note("left out: input %u", i);
  }
  return 0;
}
uint64_t Finalize(Qnn_GraphHandle_t, Qnn_ProfileHandle_t, Qnn_SignalHandle_t) {
  Note("graphFinalize");
  std::thread([] {
    for (int i = 0; i < 3; ++i) Say("line %d from a thread of the backend", i);
  }).join();
  return 0;
}
uint64_t Execute(Qnn_GraphHandle_t, const Qnn_Tensor_t* in, uint32_t n, Qnn_Tensor_t* out,
                 uint32_t m, Qnn_ProfileHandle_t, Qnn_SignalHandle_t) {
  for (uint32_t i = 0; i < n; ++i) NoteTensor("execute in", in[i]);
  for (uint32_t i = 0; i < m; ++i) NoteTensor("execute out", out[i]);
  return g_execute_error;
}
uint64_t ExecuteAsync(Qnn_GraphHandle_t, const Qnn_Tensor_t* in, uint32_t n, Qnn_Tensor_t* out,
                      uint32_t m, Qnn_ProfileHandle_t, Qnn_SignalHandle_t, Qnn_NotifyFn_t notify,
                      void* param) {
  Note("executeAsync in=%u out=%u", n, m);
  if (g_execute_error == QNN_GRAPH_ERROR_EXECUTION_ASYNC_FIFO_FULL) return g_execute_error;
  const void* from = in[0].v1.clientBuf.data;
  void* to = out[0].v1.clientBuf.data;
  uint32_t size = in[0].v1.clientBuf.dataSize;
  g_threads.emplace_back([=] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::memcpy(to, from, size);
    notify(param, Qnn_NotifyStatus_t{g_execute_error});
  });
  return 0;
}
bool g_skip_environment = false;
uint64_t PrepareEnvironment(Qnn_GraphHandle_t, QnnGraph_ExecuteEnvironment_t** e, uint32_t n) {
  Note("prepareEnvironment n=%u option=%d in=%u out=%u", n, static_cast<int>(e[0]->option),
       e[0]->tensorSet.v1.numInputs, e[0]->tensorSet.v1.numOutputs);
  NoteTensor("prepare in", e[0]->tensorSet.v1.inputs[0]);
  if (g_skip_environment) e[0]->tensorSet = Qnn_TensorSet_t{};
  return 0;
}
uint64_t ReleaseEnvironment(Qnn_GraphHandle_t, const QnnGraph_ExecuteEnvironment_t** e, uint32_t) {
  Note("releaseEnvironment out=%u", e[0]->tensorSet.v1.numOutputs);
  return 0;
}
uint64_t g_register_error = 0;

// Every byte of a descriptor and of what it points to, in memory order.
void NoteDescriptor(const Qnn_MemDescriptor_t& d) {
  std::string text = "descriptor ";
  char byte[4];
  const auto add = [&](const void* from, size_t n) {
    for (size_t k = 0; k < n; ++k) {
      std::snprintf(byte, sizeof byte, "%02x", static_cast<const unsigned char*>(from)[k]);
      text += byte;
    }
  };
  add(&d, sizeof d);
  text += " dims ";
  add(d.memShape.dimSize, d.memShape.numDim * sizeof(uint32_t));
  Note("%s", text.c_str());
}

uint64_t Register(Qnn_ContextHandle_t, const Qnn_MemDescriptor_t* d, uint32_t n,
                  Qnn_MemHandle_t* out) {
  for (uint32_t i = 0; g_gpu && i < n; ++i) NoteDescriptor(d[i]);
  if (g_register_error) return g_register_error;
  for (uint32_t i = 0; i < n; ++i) {
    char where[128] = "";
    if (d[i].memType == QNN_MEM_TYPE_CUSTOM && g_lpai) {
      auto* info = static_cast<const QnnLpaiMem_MemInfoCustom_t*>(d[i].customInfo);
      std::snprintf(where, sizeof where, "lpai offset=%u fd=%d", info->offset, info->fd >= 0);
    } else if (d[i].memType == QNN_MEM_TYPE_CUSTOM && g_gpu) {
      // Every byte that the caller gave, in memory order.
      auto* bytes = static_cast<const unsigned char*>(d[i].customInfo);
      size_t end = std::snprintf(where, sizeof where, "gpu ");
      for (size_t k = 0; k < sizeof(QnnGpu_MemInfoCustom_t); ++k)
        end += std::snprintf(where + end, sizeof where - end, "%02x", bytes[k]);
    } else if (d[i].memType == QNN_MEM_TYPE_CUSTOM) {
      auto* h = static_cast<const QnnMemHtp_Descriptor_t*>(d[i].customInfo);
      std::snprintf(where, sizeof where, "htp=%d size=%llu offset=%llu fd=%d",
                    static_cast<int>(h->type), static_cast<unsigned long long>(h->size),
                    static_cast<unsigned long long>(h->sharedBufferConfig.offset),
                    h->sharedBufferConfig.fd >= 0);
    } else if (d[i].memType == QNN_MEM_TYPE_DMA_BUF) {
      std::snprintf(where, sizeof where, "fd=%d data=%d", d[i].dmaBufInfo.fd >= 0,
                    d[i].dmaBufInfo.data != nullptr);
    } else {
      std::snprintf(where, sizeof where, "fd=%d", d[i].ionInfo.fd >= 0);
    }
    Note("memRegister type=%d rank=%u dim0=%u dtype=0x%04x %s", static_cast<int>(d[i].memType),
         d[i].memShape.numDim, d[i].memShape.dimSize[0], static_cast<unsigned>(d[i].dataType),
         where);
    out[i] = reinterpret_cast<Qnn_MemHandle_t>(g_handles += 0x10);
  }
  return 0;
}
uint64_t Deregister(const Qnn_MemHandle_t*, uint32_t n) {
  Note("memDeRegister %u", n);
  return 0;
}
uint64_t GetMessage(Qnn_ErrorHandle_t, const char** out) {
  *out = "short words";
  return 0;
}
uint64_t GetVerbose(Qnn_ErrorHandle_t error, const char** out) {
  char text[64];
  std::snprintf(text, sizeof text, "verbose words for 0x%llx",
                static_cast<unsigned long long>(error));
  *out = strdup(text);
  return 0;
}
uint64_t FreeVerbose(const char* text) {
  std::free(const_cast<char*>(text));
  Note("freeVerbose");
  return 0;
}

void Fill(QnnInterface_ImplementationV2_32_t* t) {
  t->propertyHasCapability = Capability;
  t->logCreate = LogCreate;
  t->logFree = LogFree;
  t->backendCreate = BackendCreate;
  t->backendFree = BackendFree;
  t->deviceCreate = DeviceCreate;
  t->deviceFree = DeviceFree;
  t->contextCreate = ContextCreate;
  t->contextFree = ContextFree;
  t->graphCreate = GraphCreate;
  t->tensorCreateGraphTensor = CreateTensor;
  t->graphAddNode = AddNode;
  t->graphFinalize = Finalize;
  t->graphExecute = Execute;
  t->graphExecuteAsync = ExecuteAsync;
  t->graphPrepareExecutionEnvironment = PrepareEnvironment;
  t->graphReleaseExecutionEnvironment = ReleaseEnvironment;
  t->memRegister = Register;
  t->memDeRegister = Deregister;
  t->errorGetMessage = GetMessage;
  t->errorGetVerboseMessage = GetVerbose;
  t->errorFreeVerboseMessage = FreeVerbose;
}

}  // namespace

extern "C" {

QNN_API void fake_provider(uint32_t index, uint32_t major, uint32_t minor) {
  QnnInterface_t& p = g_tables[index].interface;
  p.backendId = 99;
  p.providerName = "FAKE";
  p.apiVersion.coreApiVersion = {major, minor, index};
  p.apiVersion.backendApiVersion = {7, 8, 9};
  Fill(&p.v2_32);
  if (g_count <= index) g_count = index + 1;
}
QNN_API void fake_lpai(uint32_t scratch, uint32_t persistent) {
  fake_provider(0, 2, 40);
  QnnInterface_t& p = g_tables[0].interface;
  p.backendId = QNN_BACKEND_ID_LPAI;
  p.providerName = "LPAI_QTI_AISW";
  p.v2_32.backendGetProperty = LpaiBackendProperty;
  p.v2_32.graphGetProperty = LpaiGraphProperty;
  p.v2_32.graphSetConfig = LpaiGraphSetConfig;
  g_lpai = true;
  g_scratch_size = scratch;
  g_persistent_size = persistent;
}
QNN_API void fake_gpu() {
  fake_provider(0, 2, 40);
  g_tables[0].interface.backendId = QNN_BACKEND_ID_GPU;
  g_tables[0].interface.providerName = "GPU_QTI_AISW";
  g_gpu = true;
}
QNN_API void fake_register_error(uint64_t code) { g_register_error = code; }
QNN_API void fake_no_slot(uint32_t slot) {
  auto** slots = reinterpret_cast<void**>(&g_tables[0].interface.v2_32);
  slots[slot] = nullptr;
}
QNN_API void fake_execute_error(uint64_t error) { g_execute_error = error; }
QNN_API void fake_skip_environment() { g_skip_environment = true; }
QNN_API const char* fake_journal() { return g_journal.c_str(); }
QNN_API void fake_forget() { g_journal.clear(); }
QNN_API void fake_join() {
  for (std::thread& t : g_threads) t.join();
  g_threads.clear();
}

QNN_API Qnn_ErrorHandle_t QnnInterface_getProviders(const QnnInterface_t*** list, uint32_t* count) {
  if (g_tables[0].interface.providerName == nullptr) fake_provider(0, 2, 40);
  for (uint32_t i = 0; i < g_count; ++i) g_list[i] = &g_tables[i].interface;
  *list = g_list;
  *count = g_count;
  return 0;
}

}  // extern "C"
