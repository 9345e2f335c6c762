// What the model libraries of the tests have in common: generated code adds tensors and nodes by
// name, as the code of the SDK's converter does, and this keeps them and describes the graphs.
//
// TABLE_ENTRIES: how long the function table of the library's own headers is. OLD_SIGNATURE: the
// exports lack the last two parameters. VALIDATES: asks about each node before it is added, as the
// SDK's converter does. THROWS: errors of graphs are exceptions, and freeGraphsInfo ends with one.
#pragma once

#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "qnn_model.h"

#ifndef TABLE_ENTRIES
#define TABLE_ENTRIES QNN_INTERFACE_NUM_ENTRIES
#endif

// The table that this library believes in.
struct Table {
  void (*entries[TABLE_ENTRIES])(void);
};

class Graph {
 public:
  Graph(const QnnInterface_ImplementationV2_32_t& qnn, Qnn_BackendHandle_t backend,
        Qnn_ContextHandle_t context, const char* name)
      : qnn_(qnn), backend_(backend), name_(name) {
    if (qnn_.graphCreate(context, name, nullptr, &graph_) != QNN_SUCCESS) error = MODEL_GRAPH_ERROR;
  }

  void Tensor(const char* name, Qnn_TensorType_t type, Qnn_DataType_t data_type,
              Qnn_QuantizeParams_t quantization, std::vector<uint32_t> dimensions,
              Qnn_TensorMemType_t mem_type, const void* data, size_t bytes) {
    if (error != MODEL_NO_ERROR) return;
    Held& held = tensors_[name];
    held.dimensions = std::move(dimensions);
    Qnn_Tensor_t& t = held.tensor;
    t.version = QNN_TENSOR_VERSION_1;
    t.v1.name = name;
    t.v1.type = type;
    t.v1.dataType = data_type;
    t.v1.quantizeParams = quantization;
    t.v1.rank = static_cast<uint32_t>(held.dimensions.size());
    t.v1.dimensions = held.dimensions.data();
    t.v1.memType = mem_type;
    if (mem_type == QNN_TENSORMEMTYPE_RAW)
      t.v1.clientBuf = {const_cast<void*>(data), static_cast<uint32_t>(bytes)};
    if (qnn_.tensorCreateGraphTensor(graph_, &t) != QNN_SUCCESS) {
      error = MODEL_TENSOR_ERROR;
      return;
    }
    if (type == QNN_TENSOR_TYPE_APP_WRITE) inputs_.push_back(name);
    if (type == QNN_TENSOR_TYPE_APP_READ) outputs_.push_back(name);
  }

  void Node(const char* name, const char* type, std::vector<Qnn_Param_t> params,
            const std::vector<const char*>& inputs, const std::vector<const char*>& outputs) {
    if (error != MODEL_NO_ERROR) return;
    for (Qnn_Param_t& p : params)
      if (p.paramType == QNN_PARAMTYPE_TENSOR) p.tensorParam = tensors_[p.name].tensor;
    for (Qnn_Param_t& p : params)  // called NODE.PARAMETER as tensors
      if (p.paramType == QNN_PARAMTYPE_TENSOR) p.name = std::strrchr(p.name, '.') + 1;
    std::vector<Qnn_Tensor_t> in, out;
    for (const char* n : inputs) in.push_back(tensors_[n].tensor);
    for (const char* n : outputs) out.push_back(tensors_[n].tensor);
    Qnn_OpConfig_t op = {QNN_OPCONFIG_VERSION_1, {}};
    op.v1 = {name,          "qti.aisw",
             type,          static_cast<uint32_t>(params.size()),
             params.data(), static_cast<uint32_t>(in.size()),
             in.data(),     static_cast<uint32_t>(out.size()),
             out.data()};
#ifdef VALIDATES
    if (qnn_.backendValidateOpConfig(backend_, op) != QNN_SUCCESS) {
      error = MODEL_NODES_ERROR;
      return;
    }
#endif
    if (qnn_.graphAddNode(graph_, op) != QNN_SUCCESS) error = MODEL_NODES_ERROR;
  }

  // What the caller gets; freed by Free alone.
  GraphInfo_t* Info() const {
    auto* info = new GraphInfo_t{};
    info->graph = graph_;
    info->graphName = strdup(name_.c_str());
    info->inputTensors = Copies(inputs_, &info->numInputTensors);
    info->outputTensors = Copies(outputs_, &info->numOutputTensors);
    return info;
  }

  static void Free(GraphInfo_t* info) {
    Free(info->inputTensors, info->numInputTensors);
    Free(info->outputTensors, info->numOutputTensors);
    std::free(info->graphName);
    delete info;
  }

  ModelError_t error = MODEL_NO_ERROR;

 private:
  struct Held {
    Qnn_Tensor_t tensor{};
    std::vector<uint32_t> dimensions;
  };

  Qnn_Tensor_t* Copies(const std::vector<std::string>& names, uint32_t* count) const {
    auto* all = new Qnn_Tensor_t[names.size()];
    for (size_t i = 0; i < names.size(); ++i) {
      const Held& held = tensors_.at(names[i]);
      all[i] = held.tensor;
      all[i].v1.name = strdup(names[i].c_str());
      all[i].v1.dimensions = new uint32_t[held.dimensions.size()];
      std::copy(held.dimensions.begin(), held.dimensions.end(), all[i].v1.dimensions);
    }
    *count = static_cast<uint32_t>(names.size());
    return all;
  }

  static void Free(Qnn_Tensor_t* all, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      std::memset(const_cast<char*>(all[i].v1.name), 'x', std::strlen(all[i].v1.name));
      std::free(const_cast<char*>(all[i].v1.name));
      delete[] all[i].v1.dimensions;
    }
    delete[] all;
  }

  const QnnInterface_ImplementationV2_32_t& qnn_;
  const Qnn_BackendHandle_t backend_;
  const std::string name_;
  Qnn_GraphHandle_t graph_ = nullptr;
  std::map<std::string, Held> tensors_;
  std::vector<std::string> inputs_, outputs_;
};

void Compose(Graph& graph, const std::string& name);  // generated
extern const std::vector<const char*> kGraphs;        // generated

static int live = 0;  // graphs that nobody has freed

#ifdef OLD_SIGNATURE
#define LAST
#else
#define LAST , QnnLog_Callback_t callback, QnnLog_Level_t level
#endif

extern "C" __attribute__((visibility("default"))) int QnnModel_liveGraphs() { return live; }

extern "C" __attribute__((visibility("default"))) ModelError_t QnnModel_composeGraphs(
    Qnn_BackendHandle_t backend, Table table, Qnn_ContextHandle_t context,
    const GraphConfigInfo_t**, const uint32_t, GraphInfo_t*** graphs, uint32_t* count,
    bool debug LAST) {
  if (backend == nullptr || debug) return MODEL_SETUP_ERROR;
#ifndef OLD_SIGNATURE
  if (callback != nullptr || level != 0) return MODEL_SETUP_ERROR;
#endif
  static QnnInterface_ImplementationV2_32_t qnn;
  const size_t known = TABLE_ENTRIES < QNN_INTERFACE_NUM_ENTRIES ? sizeof table : sizeof qnn;
  std::memcpy(&qnn, &table, known);
  for (size_t i = QNN_INTERFACE_NUM_ENTRIES; i < TABLE_ENTRIES; ++i)  // newer than the caller
    if (table.entries[i] != nullptr) return MODEL_SETUP_ERROR;
  *graphs = new GraphInfo_t*[kGraphs.size()];
  *count = 0;
  for (const char* name : kGraphs) {
    Graph graph(qnn, backend, context, name);
    Compose(graph, name);
    if (graph.error != MODEL_NO_ERROR) {  // what failed hands out nothing
      for (uint32_t i = 0; i < *count; ++i, --live) Graph::Free((*graphs)[i]);
      delete[] * graphs;
#ifdef THROWS
      throw std::runtime_error("no graph " + std::string(name));
#endif
      return graph.error;  // with *graphs as it is: nobody may look at it
    }
    (*graphs)[(*count)++] = graph.Info();
    ++live;
  }
  return MODEL_NO_ERROR;
}

extern "C" __attribute__((visibility("default"))) ModelError_t QnnModel_freeGraphsInfo(
    GraphInfo_t*** graphs, uint32_t count) {
  if (graphs == nullptr || *graphs == nullptr) return MODEL_INVALID_ARGUMENT_ERROR;
  for (uint32_t i = 0; i < count; ++i, --live) Graph::Free((*graphs)[i]);
  delete[] * graphs;
  *graphs = nullptr;
#ifdef THROWS
  throw std::runtime_error("all are freed");
#endif
  return MODEL_NO_ERROR;
}
