// A client of the lpai backend's function table: its structs in a line each, and a small graph.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "abi/qnn_errors.h"
#include "abi/qnn_interface.h"
#include "abi/qnn_lpai.h"
#include "abi/qnn_op_values.h"
#include "abi/qnnrt_ext.h"
#include "api/runtime.h"
#include "check.h"
#include "qnn_tensor.h"

extern "C" Qnn_ErrorHandle_t qnnrt_lpai_get_providers(const QnnInterface_t*** list,
                                                      uint32_t* count);

namespace lpai {

using Code = Qnn_ErrorHandle_t;

inline const QnnInterface_ImplementationV2_32_t& q =
    []() -> const QnnInterface_ImplementationV2_32_t& {
  const QnnInterface_t** list = nullptr;
  uint32_t count = 0;
  qnnrt_lpai_get_providers(&list, &count);
  return list[0]->v2_32;
}();

inline std::string LastMessage() { return qnnrt::LastError().message(); }
inline bool Says(const std::string& part) {
  const bool found = LastMessage().find(part) != std::string::npos;
  if (!found) std::fprintf(stderr, "  it says: %s\n", LastMessage().c_str());
  return found;
}
// A code and words of the message behind it.
inline bool Refused(Code code, uint32_t expected, const std::string& part) {
  return CHECK_EQ(code, expected) && CHECK(Says(part));
}
inline std::string Number(uint64_t number) { return std::to_string(number); }

// Memory on a boundary of 4096 bytes.
class Memory {
 public:
  explicit Memory(size_t size) : data_(nullptr), size_((size + 4095) / 4096 * 4096) {
    data_ = static_cast<uint8_t*>(std::aligned_alloc(4096, size_ == 0 ? 4096 : size_));
  }
  ~Memory() { std::free(data_); }
  Memory(const Memory&) = delete;
  uint8_t* data() const { return data_; }

 private:
  uint8_t* data_;
  size_t size_;
};

struct Platform {  // a list of one platform option
  explicit Platform(const char* text) {
    config.option = QNN_BACKEND_CONFIG_OPTION_PLATFORM;
    config.platformOption = text;
  }
  QnnBackend_Config_t config = {};
  const QnnBackend_Config_t* list[2] = {&config, nullptr};
};

struct Hardware {  // HW_INFO, and a platform option behind it if there is one
  Hardware(uint32_t target, uint32_t version, const char* option = nullptr)
      : info{static_cast<QnnLpaiBackend_Target_t>(target),
             static_cast<QnnLpaiBackend_HwVersion_t>(version)},
        platform(option) {
    config.option = QNN_BACKEND_CONFIG_OPTION_CUSTOM;
    config.customConfig = &custom;
    if (option != nullptr) list[1] = &platform.config;
  }
  QnnLpaiBackend_CustomConfigHwInfo_t info;
  Platform platform;
  QnnLpaiBackend_CustomConfig_t custom = {QNN_LPAI_BACKEND_CUSTOM_CFG_HW_INFO, &info};
  QnnBackend_Config_t config = {};
  const QnnBackend_Config_t* list[3] = {&config, nullptr, nullptr};
};

inline Code AskBackend(Qnn_BackendHandle_t backend, uint32_t option, void* answer) {
  QnnLpaiBackend_CustomProperty_t custom = {option, answer};
  QnnBackend_Property_t property;
  property.option = QNN_BACKEND_PROPERTY_OPTION_CUSTOM;
  property.customProperty = &custom;
  QnnBackend_Property_t* list[] = {&property, nullptr};
  return q.backendGetProperty(backend, list);
}

inline Code AskGraph(Qnn_GraphHandle_t graph, uint32_t option, uint32_t* answer) {
  QnnLpaiGraph_CustomProperty_t custom = {option, answer};
  QnnGraph_Property_t property;
  property.option = QNN_GRAPH_PROPERTY_OPTION_CUSTOM;
  property.customProperty = &custom;
  QnnGraph_Property_t* list[] = {&property, nullptr};
  return q.graphGetProperty(graph, list);
}
constexpr uint32_t kScratch = QNN_LPAI_GRAPH_GET_PROP_SCRATCH_MEM_SIZE;
constexpr uint32_t kPersistent = QNN_LPAI_GRAPH_GET_PROP_PERSISTENT_MEM_SIZE;
static_assert(kScratch == QNN_LPAI_GRAPH_SET_CFG_SCRATCH_MEM &&
                  kPersistent == QNN_LPAI_GRAPH_SET_CFG_PERSISTENT_MEM,
              "the size is asked and the memory given by one number");

inline uint32_t SizeOf(Qnn_GraphHandle_t graph, uint32_t option) {
  uint32_t size = UINT32_MAX;
  CHECK_EQ(AskGraph(graph, option, &size), 0u);
  return size;
}

// A list of configs of a graph, as long as the structs that they point to are there.
class GraphConfigs {
 public:
  GraphConfigs& Add(uint32_t option, void* config) {
    customs_.push_back({option, config});
    return *this;
  }
  Code SetOn(Qnn_GraphHandle_t graph) {
    configs_.resize(customs_.size());
    std::vector<const QnnGraph_Config_t*> list;
    for (size_t i = 0; i < customs_.size(); ++i) {
      configs_[i].option = QNN_GRAPH_CONFIG_OPTION_CUSTOM;
      configs_[i].customConfig = &customs_[i];
      list.push_back(&configs_[i]);
    }
    list.push_back(nullptr);
    return q.graphSetConfig(graph, list.data());
  }

 private:
  std::vector<QnnLpaiGraph_CustomConfig_t> customs_;
  std::vector<QnnGraph_Config_t> configs_;
};

inline Code Give(Qnn_GraphHandle_t graph, uint32_t option, void* address, uint32_t size,
                 uint32_t type = QNN_LPAI_MEM_TYPE_DDR) {
  QnnLpaiGraph_Mem_t memory = {static_cast<QnnLpaiMem_MemType_t>(type), size, address};
  return GraphConfigs().Add(option, &memory).SetOn(graph);
}
inline Code SetPerf(Qnn_GraphHandle_t graph, uint32_t fps, uint32_t ratio, uint32_t type) {
  QnnLpaiGraph_PerfCfg_t perf = {fps, ratio, static_cast<QnnLpaiGraph_ClientPerfType_t>(type)};
  return GraphConfigs().Add(QNN_LPAI_GRAPH_SET_CFG_PERF_CFG, &perf).SetOn(graph);
}
inline Code SetAffinity(Qnn_GraphHandle_t graph, uint32_t affinity, uint32_t cores) {
  QnnLpaiGraph_CoreAffinity_t config = {static_cast<QnnLpaiGraph_CoreAffinityType_t>(affinity),
                                        cores};
  return GraphConfigs().Add(QNN_LPAI_GRAPH_SET_CFG_CORE_AFFINITY, &config).SetOn(graph);
}

inline Qnn_Tensor_t MakeTensor(const char* name, Qnn_TensorType_t type, uint32_t rank,
                               uint32_t* dims, Qnn_DataType_t dtype = QNN_DATATYPE_UFIXED_POINT_8) {
  Qnn_Tensor_t t = TensorOf(name, type, dims, rank, dtype);
  if (dtype == QNN_DATATYPE_UFIXED_POINT_8) {
    t.v1.quantizeParams.encodingDefinition = QNN_DEFINITION_DEFINED;
    t.v1.quantizeParams.quantizationEncoding = QNN_QUANTIZATION_ENCODING_SCALE_OFFSET;
    t.v1.quantizeParams.scaleOffsetEncoding = {1.0f, 0};
  }
  return t;
}

inline Qnn_OpConfig_t MakeOp(const char* name, const char* type, Qnn_Tensor_t* inputs,
                             uint32_t num_inputs, Qnn_Tensor_t* output,
                             Qnn_Param_t* params = nullptr, uint32_t num_params = 0) {
  Qnn_OpConfig_t op;
  std::memset(&op, 0, sizeof(op));
  op.version = QNN_OPCONFIG_VERSION_1;
  op.v1.name = name;
  op.v1.packageName = "qti.aisw";
  op.v1.typeName = type;
  op.v1.numOfParams = num_params;
  op.v1.params = params;
  op.v1.numOfInputs = num_inputs;
  op.v1.inputTensors = inputs;
  op.v1.numOfOutputs = 1;
  op.v1.outputTensors = output;
  return op;
}

inline Qnn_Param_t Scalar(const char* name, uint32_t value) {
  Qnn_Param_t p;
  std::memset(&p, 0, sizeof(p));
  p.paramType = QNN_PARAMTYPE_SCALAR;
  p.name = name;
  p.scalarParam.dataType = QNN_DATATYPE_UINT_32;
  p.scalarParam.uint32Value = value;
  return p;
}

// y = the last two of relu(x), each 8 bytes, when `state`; y = relu(x) otherwise.
struct Net {
  explicit Net(const char* option = nullptr, bool state = false) : has_state(state) {
    Platform platform(option);
    CHECK_EQ(q.backendCreate(nullptr, option == nullptr ? nullptr : platform.list, &backend), 0u);
    CHECK_EQ(q.contextCreate(backend, nullptr, nullptr, &context), 0u);
    CHECK_EQ(q.graphCreate(context, "g", nullptr, &graph), 0u);
  }
  ~Net() {
    if (context != nullptr) q.contextFree(context, nullptr);
    q.backendFree(backend);
  }
  Net(const Net&) = delete;

  void Compose() {
    x = MakeTensor("x", QNN_TENSOR_TYPE_APP_WRITE, 2, dims);
    y = MakeTensor("y", QNN_TENSOR_TYPE_APP_READ, 2, has_state ? two : dims);
    CHECK_EQ(q.tensorCreateGraphTensor(graph, &x), 0u);
    CHECK_EQ(q.tensorCreateGraphTensor(graph, &y), 0u);
    if (!has_state) {
      CHECK_EQ(q.graphAddNode(graph, MakeOp("relu", "Relu", &x, 1, &y)), 0u);
      return;
    }
    Qnn_Tensor_t r = MakeTensor("r", QNN_TENSOR_TYPE_NATIVE, 2, dims);
    CHECK_EQ(q.tensorCreateGraphTensor(graph, &r), 0u);
    CHECK_EQ(q.graphAddNode(graph, MakeOp("relu", "Relu", &x, 1, &r)), 0u);
    Qnn_Param_t params[] = {Scalar("buffer_size", 2), Scalar("buffer_dim", 0),
                            Scalar("mode", QNN_OP_BUFFER_MODE_NON_BLOCKING_RIGHT)};
    CHECK_EQ(q.graphAddNode(graph, MakeOp("last", "Buffer", &r, 1, &y, params, 3)), 0u);
  }
  // Everything up to graphFinalize, in memory of its own.
  void Ready() {
    Compose();
    scratch = std::make_unique<Memory>(SizeOf(graph, kScratch));
    CHECK_EQ(Give(graph, kScratch, scratch->data(), SizeOf(graph, kScratch)), 0u);
    if (has_state) {
      persistent = std::make_unique<Memory>(SizeOf(graph, kPersistent));
      CHECK_EQ(Give(graph, kPersistent, persistent->data(), SizeOf(graph, kPersistent)), 0u);
    }
    CHECK_EQ(q.graphFinalize(graph, nullptr, nullptr), 0u);
  }
  Code Execute(void* in, void* out) {
    x.v1.clientBuf = {in, 8};
    y.v1.clientBuf = {out, has_state ? 16u : 8u};
    return q.graphExecute(graph, &x, 1, &y, 1, nullptr, nullptr);
  }
  Code Execute() { return q.graphExecute(graph, nullptr, 0, nullptr, 0, nullptr, nullptr); }

  const bool has_state;
  uint32_t dims[2] = {1, 8}, two[2] = {2, 8};
  Qnn_BackendHandle_t backend = nullptr;
  Qnn_ContextHandle_t context = nullptr;
  Qnn_GraphHandle_t graph = nullptr;
  Qnn_Tensor_t x, y;
  std::unique_ptr<Memory> scratch, persistent;
};

}  // namespace lpai
