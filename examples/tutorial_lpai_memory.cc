// The tutorials "QNN LPAI Memory Management" and "QNN LPAI Memory Allocations": a context binary
// whose graph is given scratch, persistent and IO memory of this program's.
//
//   c++ -std=c++17 tutorial_lpai_memory.cc -o lpai_memory -I"$(qnnrt include-dir)/qnnrt" -ldl
//   LD_LIBRARY_PATH="$(qnnrt lib-dir)" ./lpai_memory model.bin
//
// What stands between [NAME] and [end] is the tutorials' code: docs/tutorials.md lists what had to
// be changed in it.
#include "tutorial_setup.h"

#include <fstream>
#include <iterator>
#include <vector>

#include "QNN/LPAI/QnnLpaiBackend.h"
#include "QNN/LPAI/QnnLpaiGraph.h"
#include "QNN/LPAI/QnnLpaiMem.h"
#include "QNN/System/QnnSystemContext.h"

using tutorial::Check;

namespace {

// ---- what the texts call without showing it

size_t calculate_tensor_size(const Qnn_TensorV1_t& tensor) {
  size_t size = 0;
  switch (tensor.dataType & 0xFF) {  // the low byte of a type has its bits
    case 0x08:
      size = 1;
      break;
    case 0x16:
      size = 2;
      break;
    case 0x32:
      size = 4;
      break;
    default:
      tutorial::Fail(tensor.name, "a type of 8, 16 or 32 bits is expected");
  }
  for (uint32_t i = 0; i < tensor.rank; ++i) size *= tensor.dimensions[i];
  return size;
}

void* allocate_aligned_memory(size_t start, size_t step, size_t size) {
  void* memory = nullptr;
  size = (size + step - 1) / step * step;
  if (posix_memalign(&memory, start < sizeof(void*) ? sizeof(void*) : start, size) != 0)
    tutorial::Fail("posix_memalign", "no memory");
  return memory;
}

// ---- the texts' code, a function for each piece
// clang-format off

void getAlignment(Qnn_BackendHandle_t backendHandle, size_t* startAddrAlignment,
                  size_t* sizeAlignment) {
  // [lpai-memory-management 1, lpai-memory-allocations 5]
  QnnLpaiBackend_BufferAlignmentReq_t bufferAlignmentReq;
  QnnLpaiBackend_CustomProperty_t customBackendProp;
  customBackendProp.option   = QNN_LPAI_BACKEND_GET_PROP_ALIGNMENT_REQ;
  customBackendProp.property = &bufferAlignmentReq;
  QnnBackend_Property_t backendProp;
  backendProp.option         = QNN_BACKEND_PROPERTY_OPTION_CUSTOM;
  backendProp.customProperty = &customBackendProp;
  QnnBackend_Property_t *backendPropPtrs[2] = {0};
  backendPropPtrs[0] = &backendProp;
  // Changed: `error`, which the next line looks at, is what the call returns
  Qnn_ErrorHandle_t error = QnnBackend_getProperty(backendHandle, backendPropPtrs);
  if (!error) {
    *startAddrAlignment = bufferAlignmentReq.startAddrAlignment;
    *sizeAlignment      = bufferAlignmentReq.sizeAlignment;
  }
  // [end]
  Check("backendGetProperty", error);
}

void getScratchSize(Qnn_GraphHandle_t graphHandle, uint32_t* scratchSize) {
  // [lpai-memory-management 2, lpai-memory-allocations 1]
  QnnLpaiGraph_CustomProperty_t customGraphProp;
  customGraphProp.option   = QNN_LPAI_GRAPH_GET_PROP_SCRATCH_MEM_SIZE;
  customGraphProp.property = scratchSize;
  QnnGraph_Property_t graphProp;
  graphProp.option         = QNN_GRAPH_PROPERTY_OPTION_CUSTOM;
  graphProp.customProperty = &customGraphProp;
  QnnGraph_Property_t *graphPropPtrs[2] = {0};
  graphPropPtrs[0] = &graphProp;
  QnnGraph_getProperty(graphHandle, graphPropPtrs);
  // [end]
}

void setScratch(Qnn_GraphHandle_t graphHandle, QnnLpaiMem_MemType_t memType, uint32_t scratchSize,
                void* scratchBuffer) {
  // [lpai-memory-management 3, lpai-memory-allocations 2]
  QnnLpaiGraph_Mem_t lpaiGraphMem;
  lpaiGraphMem.memType = memType;
  lpaiGraphMem.size    = scratchSize;
  lpaiGraphMem.addr    = scratchBuffer;
  QnnLpaiGraph_CustomConfig_t customGraphCfg;
  customGraphCfg.option = QNN_LPAI_GRAPH_SET_CFG_SCRATCH_MEM;
  customGraphCfg.config = &lpaiGraphMem;
  QnnGraph_Config_t graphConfig;
  graphConfig.option       = QNN_GRAPH_CONFIG_OPTION_CUSTOM;
  graphConfig.customConfig = &customGraphCfg;
  QnnGraph_Config_t *graphCfgPtrs[2] = {0};
  graphCfgPtrs[0] = &graphConfig;
  QnnGraph_setConfig(graphHandle, (const QnnGraph_Config_t **)graphCfgPtrs);
  // [end]
}

void getPersistentSize(Qnn_GraphHandle_t graphHandle, uint32_t* persistentSize) {
  // [lpai-memory-management 4, lpai-memory-allocations 3]
  QnnLpaiGraph_CustomProperty_t customGraphProp;
  customGraphProp.option   = QNN_LPAI_GRAPH_GET_PROP_PERSISTENT_MEM_SIZE;
  customGraphProp.property = persistentSize;
  QnnGraph_Property_t graphProp;
  graphProp.option         = QNN_GRAPH_PROPERTY_OPTION_CUSTOM;
  graphProp.customProperty = &customGraphProp;
  QnnGraph_Property_t *graphPropPtrs[2] = {0};
  graphPropPtrs[0] = &graphProp;
  QnnGraph_getProperty(graphHandle, graphPropPtrs);
  // [end]
}

void setPersistent(Qnn_GraphHandle_t graphHandle, QnnLpaiMem_MemType_t memType,
                   uint32_t persistentSize, void* persistentBuffer) {
  // [lpai-memory-management 5, lpai-memory-allocations 4]
  QnnLpaiGraph_Mem_t lpaiGraphMem;
  lpaiGraphMem.memType = memType;
  lpaiGraphMem.size    = persistentSize;
  lpaiGraphMem.addr    = persistentBuffer;
  QnnLpaiGraph_CustomConfig_t customGraphCfg;
  customGraphCfg.option = QNN_LPAI_GRAPH_SET_CFG_PERSISTENT_MEM;
  customGraphCfg.config = &lpaiGraphMem;
  QnnGraph_Config_t graphConfig;
  graphConfig.option       = QNN_GRAPH_CONFIG_OPTION_CUSTOM;
  graphConfig.customConfig = &customGraphCfg;
  QnnGraph_Config_t *graphCfgPtrs[2] = {0};
  graphCfgPtrs[0] = &graphConfig;
  QnnGraph_setConfig(graphHandle, (const QnnGraph_Config_t **)graphCfgPtrs);
  // [end]
}

// What the first graph of a binary takes and gives.
struct Described {
  const char* graph;
  std::vector<Qnn_Tensor_t> inputs, outputs;  // point into what the handle of the system owns
};

Described describe(QnnSystemContext_Handle_t qnnSystemCtxHandle, void* contextBinaryBuffer,
                   uint64_t contextBinaryBufferSize) {
  // [lpai-memory-management 6]
  // Changed: there is no such type; the table of functions is reached through a pointer
  const QnnSystemInterface_ImplementationV1_7_t* qnnSystemInterface = tutorial::System();
  const QnnSystemContext_BinaryInfo_t* binaryInfo;
  Qnn_ContextBinarySize_t binaryInfoSize;
  qnnSystemInterface->systemContextGetBinaryInfo(qnnSystemCtxHandle,
                                                 contextBinaryBuffer,
                                                 contextBinaryBufferSize,
                                                 &binaryInfo,
                                                 &binaryInfoSize);
  // Changed: `version` says which member of the union is there, and today's libraries answer with
  // version 3: read as version 1, its first fields are taken for the list of graphs, and the program
  // crashes
  if (binaryInfo->version != QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_3)
    tutorial::Fail("libQnnSystem.so", "another version of the binary's description");
  // Changed: the member of version 3
  QnnSystemContext_GraphInfo_t* graphInfos = binaryInfo->contextBinaryInfoV3.graphs;
  QnnSystemContext_GraphInfo_t* graphInfo  = &(graphInfos[0]);
  Qnn_Tensor_t* inputs     = graphInfo->graphInfoV1.graphInputs;
  Qnn_Tensor_t* outputs    = graphInfo->graphInfoV1.graphOutputs;
  size_t numInputs         = graphInfo->graphInfoV1.numGraphInputs;
  size_t numOutputs        = graphInfo->graphInfoV1.numGraphOutputs;
  // [end]
  return {graphInfo->graphInfoV1.graphName, {inputs, inputs + numInputs},
          {outputs, outputs + numOutputs}};
}

std::vector<Qnn_Tensor_t> allocateIo(Qnn_BackendHandle_t backendHandle,
                                     const std::vector<Qnn_Tensor_t>& described) {
  const size_t numTensors = described.size();
  // [lpai-memory-management 7]
  // Changed: arrays in C++ have a constant size, and the tensors need the names, ids, types and
  // dimensions that the binary has for them
  std::vector<Qnn_Tensor_t> tensors = described;
  // Changed: the semicolon is missing
  size_t startAddrAlignment, sizeAlignment;
  // Changed: what the text says in a comment
  getAlignment(backendHandle, &startAddrAlignment, &sizeAlignment);
  for (uint32_t i = 0; i < numTensors; i++) {
     Qnn_Tensor_t* tensor = &tensors[i];
     tensor->v1.memType   = QNN_TENSORMEMTYPE_RAW;
     // Changed: the variable is called `tensor`
     int dataSize         = calculate_tensor_size(tensor->v1);
     tensor->v1.clientBuf.data =
        allocate_aligned_memory(startAddrAlignment, sizeAlignment, dataSize);
     tensor->v1.clientBuf.dataSize = dataSize;
  }
  // [end]
  return tensors;
}

// clang-format on

void Release(const std::vector<Qnn_Tensor_t>& tensors) {
  for (const Qnn_Tensor_t& tensor : tensors) std::free(tensor.v1.clientBuf.data);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) tutorial::Fail("lpai_memory", "expected one argument, a context binary");
  std::ifstream file(argv[1], std::ios::binary);
  std::vector<char> binary{std::istreambuf_iterator<char>(file), {}};
  if (binary.empty()) tutorial::Fail(argv[1], "cannot be read");

  const auto* system = tutorial::System();
  QnnSystemContext_Handle_t description = nullptr;
  Check("systemContextCreate", system->systemContextCreate(&description));
  const Described graph_info = describe(description, binary.data(), binary.size());

  tutorial::UseBackend("libQnnLpai.so");
  Qnn_BackendHandle_t backend = nullptr;
  Qnn_ContextHandle_t context = nullptr;
  Qnn_GraphHandle_t graph = nullptr;
  QnnContext_Config_t persistent = QNN_CONTEXT_CONFIG_INIT;
  persistent.option = QNN_CONTEXT_CONFIG_PERSISTENT_BINARY;  // `binary` stays until contextFree
  persistent.isPersistentBinary = 1;
  const QnnContext_Config_t* configs[] = {&persistent, nullptr};
  Check("backendCreate", QnnBackend_create(nullptr, nullptr, &backend));
  Check("contextCreateFromBinary",
        QnnContext_createFromBinary(backend, nullptr, configs, binary.data(), binary.size(),
                                    &context, nullptr));
  Check("graphRetrieve", QnnGraph_retrieve(context, graph_info.graph, &graph));

  // The recommended workflow: alignment, sizes, memory, configs, finalize, IO, execute.
  size_t start = 0, step = 0;
  uint32_t scratch_size = 0, persistent_size = 0;
  getAlignment(backend, &start, &step);
  getScratchSize(graph, &scratch_size);
  getPersistentSize(graph, &persistent_size);
  std::printf("scratch %u bytes, persistent %u bytes\n", scratch_size, persistent_size);
  void* scratch = allocate_aligned_memory(start, step, scratch_size);
  void* lasting =
      persistent_size != 0 ? allocate_aligned_memory(start, step, persistent_size) : nullptr;
  setScratch(graph, QNN_LPAI_MEM_TYPE_DDR, scratch_size, scratch);
  if (persistent_size != 0) setPersistent(graph, QNN_LPAI_MEM_TYPE_DDR, persistent_size, lasting);
  Check("graphFinalize", QnnGraph_finalize(graph, nullptr, nullptr));

  std::vector<Qnn_Tensor_t> inputs = allocateIo(backend, graph_info.inputs);
  std::vector<Qnn_Tensor_t> outputs = allocateIo(backend, graph_info.outputs);
  for (int run = 0; run < 2; ++run) {
    for (Qnn_Tensor_t& tensor : inputs) {
      auto* bytes = static_cast<unsigned char*>(tensor.v1.clientBuf.data);
      for (uint32_t i = 0; i < tensor.v1.clientBuf.dataSize; ++i)
        bytes[i] = tensor.v1.dataType == QNN_DATATYPE_BOOL_8
                       ? run == 0
                       : static_cast<unsigned char>(i * 37 + run);
    }
    Check(
        "graphExecute",
        QnnGraph_execute(graph, inputs.data(), static_cast<uint32_t>(inputs.size()), outputs.data(),
                         static_cast<uint32_t>(outputs.size()), nullptr, nullptr));
    for (const Qnn_Tensor_t& tensor : outputs) {
      const auto* bytes = static_cast<const unsigned char*>(tensor.v1.clientBuf.data);
      std::printf("%s =", tensor.v1.name);
      for (uint32_t i = 0; i < tensor.v1.clientBuf.dataSize; ++i) std::printf(" %u", bytes[i]);
      std::printf("\n");
    }
  }

  // IO memory may go after an execution, the pools after the context alone.
  Release(inputs);
  Release(outputs);
  Check("contextFree", QnnContext_free(context, nullptr));
  Check("backendFree", QnnBackend_free(backend));
  Check("systemContextFree", system->systemContextFree(description));
  std::free(scratch);
  std::free(lasting);
  return 0;
}
