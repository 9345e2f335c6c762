// The tutorial "QNN HTP Qmem Graph", online prepare: a graph that is told, when it is made, that
// its input and output will be shared memory, so that nothing is reserved for copies.
//
//   c++ -std=c++17 tutorial_htp_qmem.cc -o htp_qmem -I"$(qnnrt include-dir)/qnnrt" -ldl
//   LD_LIBRARY_PATH="$(qnnrt lib-dir)" ./htp_qmem
//
// What stands between [NAME] and [end] is the tutorial's code: docs/tutorials.md lists what had to
// be changed in it.
#include "tutorial_setup.h"

#include "QNN/HTP/QnnHtpMem.h"
#include "rpcmem.h"

using tutorial::Check;

namespace {

constexpr uint32_t kElements = 16;

// A buffer of the accelerator's for one tensor, registered: its handle.
Qnn_MemHandle_t Register(Qnn_ContextHandle_t context, void* buffer, uint32_t* dimensions) {
  const auto to_fd = tutorial::Symbol<int (*)(void*)>("libcdsprpc.so", "rpcmem_to_fd");
  QnnMemHtp_Descriptor_t htp = QNN_MEM_HTP_DESCRIPTOR_INIT;
  htp.type = QNN_HTP_MEM_SHARED_BUFFER;
  htp.size = kElements * sizeof(float);  // of the whole buffer
  htp.sharedBufferConfig = {to_fd(buffer), 0};
  Qnn_MemDescriptor_t descriptor = QNN_MEM_DESCRIPTOR_INIT;
  descriptor.memShape = {1, dimensions, nullptr};
  descriptor.dataType = QNN_DATATYPE_FLOAT_32;
  descriptor.memType = QNN_MEM_TYPE_CUSTOM;
  descriptor.customInfo = &htp;
  Qnn_MemHandle_t handle = nullptr;
  Check("memRegister", QnnMem_register(context, &descriptor, 1, &handle));
  return handle;
}

}  // namespace

int main(int argc, char** argv) {
  tutorial::UseBackend(argc > 1 ? argv[1] : "libQnnHtp.so");
  Qnn_BackendHandle_t backend = nullptr;
  Qnn_ContextHandle_t context = nullptr;
  Check("backendCreate", QnnBackend_create(nullptr, nullptr, &backend));
  Check("contextCreate", QnnContext_create(backend, nullptr, nullptr, &context));
  uint32_t dimensions[1] = {kElements};

  // clang-format off
  // [htp-qmem-graph 1]
  Qnn_GraphHandle_t graph;
  // Changed: the set-up that the text leaves out
  Check("graphCreate", QnnGraph_create(context, "qmem", nullptr, &graph));
  // Changed: `id`, the encoding and others must not hold what happens to be there
  Qnn_Tensor_t inputTensor = QNN_TENSOR_INIT;
  // Changed: the same
  Qnn_Tensor_t outputTensor = QNN_TENSOR_INIT;
  // Changed: the set-up that the text leaves out
  inputTensor.v1.name           = "x";
  inputTensor.v1.type           = QNN_TENSOR_TYPE_APP_WRITE;
  outputTensor.v1.name          = "y";
  outputTensor.v1.type          = QNN_TENSOR_TYPE_APP_READ;
  inputTensor.v1.dataType       = outputTensor.v1.dataType   = QNN_DATATYPE_FLOAT_32;
  inputTensor.v1.rank           = outputTensor.v1.rank       = 1;
  inputTensor.v1.dimensions     = outputTensor.v1.dimensions = dimensions;
  inputTensor.v1.memType        = QNN_TENSORMEMTYPE_MEMHANDLE;
  // Changed: `clientBuf` is a struct, which `nullptr` cannot be assigned to; with this memory type
  // the union's member is `memHandle`
  inputTensor.v1.memHandle      = nullptr;
  outputTensor.v1.memType       = QNN_TENSORMEMTYPE_MEMHANDLE;
  // Changed: the same
  outputTensor.v1.memHandle     = nullptr;
  QnnTensor_createGraphTensor(graph, &inputTensor);
  QnnTensor_createGraphTensor(graph, &outputTensor);
  // Changed: its version must not be what happens to be there
  Qnn_OpConfig_t opConfig = QNN_OPCONFIG_INIT;
  // Changed: an operation has a name, a package, a type and operands
  opConfig.v1.name          = "relu";
  opConfig.v1.packageName   = "qti.aisw";
  opConfig.v1.typeName      = "Relu";
  opConfig.v1.numOfInputs   = opConfig.v1.numOfOutputs = 1;
  opConfig.v1.inputTensors  = &inputTensor;
  opConfig.v1.outputTensors = &outputTensor;
  // Changed: the variable's name is misspelt
  QnnGraph_addNode(graph, opConfig);
  // [end]
  // clang-format on
  Check("graphFinalize", QnnGraph_finalize(graph, nullptr, nullptr));

  // Execution, as the tutorial on shared buffers has it.
  const auto alloc =
      tutorial::Symbol<void* (*)(int, uint32_t, int)>("libcdsprpc.so", "rpcmem_alloc");
  const auto release = tutorial::Symbol<void (*)(void*)>("libcdsprpc.so", "rpcmem_free");
  constexpr int kBytes = kElements * sizeof(float);
  auto* x = static_cast<float*>(alloc(RPCMEM_HEAP_ID_SYSTEM, RPCMEM_DEFAULT_FLAGS, kBytes));
  auto* y = static_cast<float*>(alloc(RPCMEM_HEAP_ID_SYSTEM, RPCMEM_DEFAULT_FLAGS, kBytes));
  if (x == nullptr || y == nullptr) tutorial::Fail("rpcmem_alloc", "no memory");
  Qnn_MemHandle_t handles[2] = {Register(context, x, dimensions), Register(context, y, dimensions)};
  inputTensor.v1.memHandle = handles[0];
  outputTensor.v1.memHandle = handles[1];
  for (uint32_t i = 0; i < kElements; ++i) x[i] = static_cast<float>(i) - 8;
  Check("graphExecute",
        QnnGraph_execute(graph, &inputTensor, 1, &outputTensor, 1, nullptr, nullptr));
  std::printf("y =");
  for (uint32_t i = 0; i < kElements; ++i) std::printf(" %g", y[i]);
  std::printf("\n");

  Check("memDeRegister", QnnMem_deRegister(handles, 2));
  release(x);
  release(y);
  Check("contextFree", QnnContext_free(context, nullptr));
  Check("backendFree", QnnBackend_free(backend));
  return 0;
}
