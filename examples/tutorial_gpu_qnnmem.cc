// The tutorial "QNN GPU QnnMem API": OpenCL buffers of this program's as the input and output of a
// graph on the gpu backend, without a copy.
//
//   c++ -std=c++17 tutorial_gpu_qnnmem.cc -o qnnmem -I"$(qnnrt include-dir)/qnnrt" -lOpenCL -ldl
//   LD_LIBRARY_PATH="$(qnnrt lib-dir)" ./qnnmem
//
// It needs OpenCL's C++ header (Debian: opencl-clhpp-headers), its library (ocl-icd-opencl-dev) and
// a device with its driver. What stands between [NAME] and [end] is the tutorial's code:
// docs/tutorials.md lists what had to be changed in it.
#define CL_HPP_TARGET_OPENCL_VERSION 120
#define CL_HPP_MINIMUM_OPENCL_VERSION 120

#include <CL/opencl.hpp>
#include <memory>
#include <vector>

#include "QNN/GPU/QnnGpuMem.h"
#include "tutorial_setup.h"

using tutorial::Check;

namespace {

constexpr uint32_t kRows = 64, kColumns = 128;
uint32_t dimensions[2] = {kRows, kColumns};

Qnn_Tensor_t Tensor(const char* name, Qnn_TensorType_t type) {
  Qnn_Tensor_t tensor = QNN_TENSOR_INIT;
  tensor.v1.name = name;
  tensor.v1.type = type;
  tensor.v1.dataType = QNN_DATATYPE_FLOAT_32;
  tensor.v1.rank = 2;
  tensor.v1.dimensions = dimensions;
  tensor.v1.memType = QNN_TENSORMEMTYPE_MEMHANDLE;
  tensor.v1.memHandle = nullptr;
  return tensor;
}

// y = relu(x), ready to be executed; the tensors receive their ids.
Qnn_GraphHandle_t MakeGraph(Qnn_ContextHandle_t context, Qnn_Tensor_t* x, Qnn_Tensor_t* y) {
  Qnn_GraphHandle_t graph = nullptr;
  Check("graphCreate", QnnGraph_create(context, "qnnmem", nullptr, &graph));
  Check("createGraphTensor", QnnTensor_createGraphTensor(graph, x));
  Check("createGraphTensor", QnnTensor_createGraphTensor(graph, y));
  Qnn_OpConfig_t relu = QNN_OPCONFIG_INIT;
  relu.v1.name = "relu";
  relu.v1.packageName = "qti.aisw";
  relu.v1.typeName = "Relu";
  relu.v1.numOfInputs = relu.v1.numOfOutputs = 1;
  relu.v1.inputTensors = x;
  relu.v1.outputTensors = y;
  Check("addNode", QnnGraph_addNode(graph, relu));
  Check("finalize", QnnGraph_finalize(graph, nullptr, nullptr));
  return graph;
}

// The input's buffer, written and registered as the text does it with the output's.
Qnn_MemHandle_t RegisterInput(Qnn_ContextHandle_t context, const cl::Context& clContext,
                              cl::CommandQueue* queue, cl::Buffer* buffer) {
  std::vector<float> values(kRows * kColumns);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 16) - 8.0f;
  cl_int status = CL_SUCCESS;
  *buffer =
      cl::Buffer(clContext, CL_MEM_READ_WRITE, values.size() * sizeof(float), nullptr, &status);
  if (status != CL_SUCCESS) tutorial::Fail("cl::Buffer", "the input has none");
  status =
      queue->enqueueWriteBuffer(*buffer, CL_TRUE, 0, values.size() * sizeof(float), values.data());
  if (status != CL_SUCCESS) tutorial::Fail("enqueueWriteBuffer", "the input is not written");
  QnnGpu_MemInfoCustom_t info = QNN_GPU_MEMINFO_CUSTOM_INIT;  // the macro's other spelling
  info.memType = QNN_GPU_MEM_OPENCL;
  info.buffer = (*buffer)();
  Qnn_MemDescriptor_t descriptor = QNN_MEM_DESCRIPTOR_INIT;
  descriptor.memShape = {2, dimensions, nullptr};
  descriptor.dataType = QNN_DATATYPE_FLOAT_32;
  descriptor.memType = QNN_MEM_TYPE_CUSTOM;
  descriptor.customInfo = &info;
  Qnn_MemHandle_t handle = nullptr;
  Check("memRegister", QnnMem_register(context, &descriptor, 1, &handle));
  return handle;
}

}  // namespace

int main(int argc, char** argv) {
  // clang-format off
  // [gpu-qnnmem-opencl 1]
  // Changed: the functions of QNN/QnnFunctions.h stand in front of the table
  tutorial::UseBackend(argc > 1 ? argv[1] : "libQnnGpu.so");

  // Changed: the set-up that the text leaves out
  Qnn_BackendHandle_t backend = nullptr;
  Check("backendCreate", QnnBackend_create(nullptr, nullptr, &backend));
  Qnn_Tensor_t inputTensor = Tensor("x", QNN_TENSOR_TYPE_APP_WRITE);
  Qnn_Tensor_t outputTensor = Tensor("y", QNN_TENSOR_TYPE_APP_READ);

  // Allocate some buffer, for example two tensors for the gpu runtime with dimensions {64, 128}
  size_t bufferSize = 64 * 128 * sizeof(float);
  // Changed: kernels use the memory where it is, and those of a CPU need a boundary of 64 bytes
  auto outputTensorBuffer = (float*)aligned_alloc(4096, bufferSize);

  // Generate OpenCL context
  // Changed: of the default device
  auto clContext = std::make_unique<cl::Context>(CL_DEVICE_TYPE_DEFAULT);
  // Changed: the variable has no name; OpenCL refuses a host pointer without USE_HOST_PTR
  const cl_mem_flags memFlags = CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR;
  cl_int clStatus;
  // Changed: the class is `cl::Buffer`
  auto outputTensorCLBuffer = new cl::Buffer(*clContext, memFlags, bufferSize, outputTensorBuffer, &clStatus);
  if (clStatus != CL_SUCCESS) {
    // Changed: the handling that the text leaves out
    tutorial::Fail("cl::Buffer", "the output has none");
  }

  // Fill the info of Qnn_MemDescriptor_t and register the buffer to QNN
  Qnn_MemDescriptor_t memDescriptor = QNN_MEM_DESCRIPTOR_INIT;
  // Changed: a tensor's fields are those of its version
  memDescriptor.memShape = {inputTensor.v1.rank, inputTensor.v1.dimensions, nullptr};
  // Changed: the same
  memDescriptor.dataType = inputTensor.v1.dataType;
  memDescriptor.memType = QNN_MEM_TYPE_CUSTOM;

  // Fill the info of QnnGpu_MemInfoCustom_t to apply to the Qnn_MemDescriptor_t.
  QnnGpu_MemInfoCustom_t customInfo = QNN_GPU_MEM_INFO_CUSTOM_INIT;
  customInfo.memType = QNN_GPU_MEM_OPENCL;
  // Changed: the cl_mem is meant, not the memory of the host behind it
  customInfo.buffer = reinterpret_cast<QnnGpuMem_Buffer_t>((*outputTensorCLBuffer)());
  // Changed: `customInfo` of a descriptor is a pointer
  memDescriptor.customInfo = &customInfo;
  // Changed: a tensor's fields are those of its version
  outputTensor.v1.memType = QNN_TENSORMEMTYPE_MEMHANDLE;
  // Changed: the same
  outputTensor.v1.memHandle = nullptr;

  Qnn_ContextHandle_t context;  // Must obtain a QNN context handle before memRegister()
  // Changed: the set-up that the text leaves out: a context, and a graph in it
  Check("contextCreate", QnnContext_create(backend, nullptr, nullptr, &context));
  Qnn_GraphHandle_t graph = MakeGraph(context, &inputTensor, &outputTensor);
  Qnn_MemHandle_t memHandles[1];
  auto result = QnnMem_register(context, &memDescriptor, 1u, memHandles);
  if (QNN_SUCCESS != result) {
    // Changed: the handling that the text leaves out
    Check("memRegister", result);
  }

  // Changed: the steps that the text has as comments, and the queue that they and the next one need
  auto openCLCommandQueue = std::make_unique<cl::CommandQueue>(*clContext);
  cl::Buffer inputTensorCLBuffer;
  inputTensor.v1.memHandle = RegisterInput(context, *clContext, openCLCommandQueue.get(), &inputTensorCLBuffer);
  outputTensor.v1.memHandle = memHandles[0];
  Check("execute", QnnGraph_execute(graph, &inputTensor, 1, &outputTensor, 1, nullptr, nullptr));

  // Get output data for example
  auto mappedPtr =
      // Changed: the buffer is that of OpenCL
      reinterpret_cast<float*>(openCLCommandQueue->enqueueMapBuffer(*outputTensorCLBuffer,
                                                                    CL_TRUE,
                                                                    CL_MAP_READ,
                                                                    0,
                                                                    // Changed: the size is `bufferSize`, whose own size is 8
                                                                    bufferSize,
                                                                    nullptr,
                                                                    nullptr,
                                                                    // Changed: a parenthesis is missing
                                                                    &clStatus));
  if (clStatus != CL_SUCCESS) {
    // Changed: the handling that the text leaves out
    tutorial::Fail("enqueueMapBuffer", "the output is not to be had");
  }

  // Access contents of mappedPtr e.g.
  // Changed: a pointer to floats counts floats
  std::vector<float> contents(mappedPtr, mappedPtr + bufferSize / sizeof(float));
  for (size_t i = 0u; i < contents.size(); i++) {
    // Changed: the first row's begin is printed
    if (i < 16) std::printf("%s%g", i == 0 ? "y = " : " ", contents[i]);
  }

  // On completion, unmap the mappedPtr
  // Changed: the function's name, and the buffer of OpenCL
  clStatus = openCLCommandQueue->enqueueUnmapMemObject(*outputTensorCLBuffer, mappedPtr, nullptr, nullptr);
  if (clStatus != CL_SUCCESS) {
    // Changed: the handling that the text leaves out
    tutorial::Fail("enqueueUnmapMemObject", "the output is not given back");
  }

  // Deregister and free all buffers if it's not being used
  // Changed: the handle that was registered
  result = QnnMem_deregister(memHandles, 1);
  // Changed: `result` is what the call returned
  if (QNN_SUCCESS != result) {
    // Changed: the handling that the text leaves out
    Check("memDeRegister", result);
  }

  // deallocate memory
  // Changed: OpenCL's buffer first, which lies on the memory, and the rest
  delete outputTensorCLBuffer;
  free(outputTensorBuffer);
  // [end]
  // clang-format on
  Check("memDeRegister", QnnMem_deRegister(&inputTensor.v1.memHandle, 1));
  Check("contextFree", QnnContext_free(context, nullptr));
  Check("backendFree", QnnBackend_free(backend));
  std::printf("\n");
  for (float value : contents)
    if (value < 0) tutorial::Fail("relu", "a value below 0");
  return 0;
}
