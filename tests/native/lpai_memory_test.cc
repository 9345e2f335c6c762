// Shared buffers, asynchronous executions, context binaries and the nodes that the lpai backend
// takes.
#include <sys/mman.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <set>

#include "lpai_client.h"
#include "ops/op.h"

using namespace lpai;

namespace {

constexpr uint32_t kBad = QNN_GRAPH_ERROR_INVALID_ARGUMENT;
constexpr uint32_t kBadTensor = QNN_GRAPH_ERROR_INVALID_TENSOR;

// ---- shared buffers: {fd, offset}, and no size ----

struct File {
  explicit File(size_t bytes) : fd(memfd_create("lpai", MFD_CLOEXEC)), size(bytes) {
    CHECK_EQ(ftruncate(fd, static_cast<off_t>(bytes)), 0);
    data = static_cast<uint8_t*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  }
  ~File() {
    munmap(data, size);
    close(fd);
  }
  const int fd;
  const size_t size;
  uint8_t* data;
};

Code Register(const Net& net, int fd, uint32_t offset, uint32_t* dims, Qnn_MemHandle_t* handle) {
  QnnLpaiMem_MemInfoCustom_t info = {fd, offset};
  Qnn_MemDescriptor_t d;
  std::memset(&d, 0, sizeof(d));
  d.memShape.numDim = 2;
  d.memShape.dimSize = dims;
  d.dataType = QNN_DATATYPE_UFIXED_POINT_8;
  d.memType = QNN_MEM_TYPE_CUSTOM;
  d.customInfo = &info;
  return q.memRegister(net.context, &d, 1, handle);
}

Code ExecuteHandles(Net* net, Qnn_MemHandle_t in, Qnn_MemHandle_t out) {
  net->x.v1.memType = net->y.v1.memType = QNN_TENSORMEMTYPE_MEMHANDLE;
  net->x.v1.memHandle = in;
  net->y.v1.memHandle = out;
  const Code code = q.graphExecute(net->graph, &net->x, 1, &net->y, 1, nullptr, nullptr);
  net->x.v1.memType = net->y.v1.memType = QNN_TENSORMEMTYPE_RAW;
  return code;
}

TEST(tensors_in_a_file_are_used_where_they_are) {
  Net net;
  net.Ready();
  File file(4096);
  Qnn_MemHandle_t in = nullptr, out = nullptr;
  CHECK_EQ(Register(net, file.fd, 0, net.dims, &in), 0u);
  CHECK_EQ(Register(net, file.fd, 64, net.dims, &out), 0u);
  for (int i = 0; i < 8; ++i) file.data[i] = static_cast<uint8_t>(i * 9);
  CHECK_EQ(ExecuteHandles(&net, in, out), 0u);
  CHECK_EQ(std::memcmp(file.data, file.data + 64, 8), 0);
  CHECK_EQ(q.memDeRegister(&in, 1), 0u);
  CHECK_EQ(ExecuteHandles(&net, in, out), uint64_t{kBadTensor});
  Refused(q.memDeRegister(&in, 1), QNN_MEM_ERROR_INVALID_HANDLE, "");
  CHECK_EQ(q.memDeRegister(&out, 1), 0u);
}

TEST(the_rest_of_the_file_has_to_hold_the_tensor) {
  Net net;
  net.Ready();
  File file(4096);
  Qnn_MemHandle_t handle = nullptr;
  CHECK_EQ(Register(net, file.fd, 4096 - 8, net.dims, &handle), 0u);
  CHECK_EQ(q.memDeRegister(&handle, 1), 0u);
  constexpr uint32_t kRegister = QNN_MEM_ERROR_INVALID_ARGUMENT;
  Refused(Register(net, file.fd, 4096 - 7, net.dims, &handle), kRegister, "4096");
  Refused(Register(net, file.fd, 0xFFFFFFF0u, net.dims, &handle), kRegister, "4096");
  CHECK(Register(net, -1, 0, net.dims, &handle) != 0 && handle == nullptr);
  Qnn_MemDescriptor_t d;
  std::memset(&d, 0, sizeof(d));
  d.memShape.numDim = 2;
  d.memShape.dimSize = net.dims;
  d.dataType = QNN_DATATYPE_UFIXED_POINT_8;
  d.memType = QNN_MEM_TYPE_CUSTOM;
  Refused(q.memRegister(net.context, &d, 1, &handle), kRegister, "got null");
}

TEST(a_tensor_in_a_file_begins_on_the_start_alignment) {
  Net net;
  net.Ready();
  File file(4096);
  Qnn_MemHandle_t odd = nullptr, out = nullptr;
  CHECK_EQ(Register(net, file.fd, 24, net.dims, &odd), 0u);  // a file has no alignment, a graph has
  CHECK_EQ(Register(net, file.fd, 64, net.dims, &out), 0u);
  Refused(ExecuteHandles(&net, odd, out), kBadTensor, "'x'");
  CHECK(Says("64"));
  CHECK_EQ(ExecuteHandles(&net, out, out), 0u);
  const Qnn_MemHandle_t both[] = {odd, out};
  CHECK_EQ(q.memDeRegister(both, 2), 0u);
}

// ---- asynchronous executions ----

struct Done {
  static void Notify(void* self, Qnn_NotifyStatus_t status) {
    auto* done = static_cast<Done*>(self);
    std::lock_guard<std::mutex> lock(done->mutex);
    done->codes.push_back(status.error);
    done->there.notify_all();
  }
  std::vector<Code> Wait(size_t count) {
    std::unique_lock<std::mutex> lock(mutex);
    there.wait(lock, [&] { return codes.size() == count; });
    return codes;
  }
  std::mutex mutex;
  std::condition_variable there;
  std::vector<Code> codes;
};

TEST(executions_are_queued) {
  Net net(nullptr, true);
  net.Ready();
  constexpr int kCount = 6;
  Memory io(kCount * 128);
  Done done;
  for (int i = 0; i < kCount; ++i) {
    uint8_t* in = io.data() + i * 128;
    std::memset(in, i + 1, 8);
    net.x.v1.clientBuf = {in, 8};
    net.y.v1.clientBuf = {in + 64, 16};
    CHECK_EQ(q.graphExecuteAsync(net.graph, &net.x, 1, &net.y, 1, nullptr, nullptr, &Done::Notify,
                                 &done),
             0u);
  }
  CHECK(done.Wait(kCount) == std::vector<Code>(kCount, 0));
  for (int i = 0; i < kCount; ++i) {  // in the order of the calls: the state tells
    CHECK_EQ(int{io.data()[i * 128 + 64]}, i);
    CHECK_EQ(int{io.data()[i * 128 + 64 + 8]}, i + 1);
  }
}

TEST(an_execution_in_the_queue_writes_into_no_tensor_of_its_caller) {
  Net net;
  net.Ready();
  void* place = nullptr;
  CHECK_EQ(qnnrt_graph_io_address(net.graph, net.x.v1.id, &place), 0u);
  std::memset(place, 7, 8);
  net.x.v1.clientBuf = net.y.v1.clientBuf = {nullptr, 0};  // in the scratch memory
  Done done;
  CHECK_EQ(
      q.graphExecuteAsync(net.graph, &net.x, 1, &net.y, 1, nullptr, nullptr, &Done::Notify, &done),
      0u);
  CHECK(done.Wait(1) == std::vector<Code>{0});
  CHECK(net.y.v1.clientBuf.data == nullptr);  // it might be gone
  CHECK_EQ(qnnrt_graph_io_address(net.graph, net.y.v1.id, &place), 0u);
  CHECK_EQ(int{*static_cast<uint8_t*>(place)}, 7);
}

TEST(there_are_no_signals) {
  Net net;
  net.Ready();
  Qnn_SignalHandle_t signal = nullptr;
  CHECK(q.signalCreate(net.backend, nullptr, &signal) != 0);
  void* none = &net;
  constexpr uint32_t kNo = QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE;
  Refused(q.graphExecute(net.graph, nullptr, 0, nullptr, 0, nullptr, none), kNo, "no signals");
  Refused(q.graphExecuteAsync(net.graph, nullptr, 0, nullptr, 0, nullptr, none, nullptr, nullptr),
          kNo, "no signals");
}

TEST(there_is_no_device) {
  int something = 0;
  Qnn_DeviceHandle_t device = &something;
  CHECK_EQ(q.deviceCreate(nullptr, nullptr, &device),
           uint64_t{QNN_DEVICE_ERROR_UNSUPPORTED_FEATURE});
  CHECK(device == nullptr);
}

// ---- binaries ----

std::vector<uint8_t> BinaryOf(Net* net) {
  uint64_t size = 0, written = 0;
  CHECK_EQ(q.contextGetBinarySize(net->context, &size), 0u);
  std::vector<uint8_t> binary(size);
  CHECK_EQ(q.contextGetBinary(net->context, binary.data(), size, &written), 0u);
  binary.resize(written);
  return binary;
}

Code FromBinary(Net* net, const std::vector<uint8_t>& binary,
                const QnnContext_Config_t** configs = nullptr) {
  if (net->context != nullptr) CHECK_EQ(q.contextFree(net->context, nullptr), 0u);
  net->context = net->graph = nullptr;
  const Code code = q.contextCreateFromBinary(net->backend, nullptr, configs, binary.data(),
                                              binary.size(), &net->context, nullptr);
  if (code == 0) CHECK_EQ(q.graphRetrieve(net->context, "g", &net->graph), 0u);
  return code;
}

TEST(a_retrieved_graph_is_finalized_before_it_executes) {
  for (const bool state : {false, true}) {
    Net net(nullptr, state);
    net.Ready();
    const std::vector<uint8_t> binary = BinaryOf(&net);
    CHECK_EQ(FromBinary(&net, binary), 0u);
    Refused(net.Execute(), QNN_GRAPH_ERROR_GRAPH_NOT_FINALIZED, "is not finalized");
    Refused(q.graphFinalize(net.graph, nullptr, nullptr), kBad, "no scratch memory");
    const uint32_t size = SizeOf(net.graph, kScratch), kept = SizeOf(net.graph, kPersistent);
    CHECK_EQ(kept != 0, state);
    Memory scratch(size), persistent(kept), io(4096);
    CHECK_EQ(Give(net.graph, kScratch, scratch.data(), size), 0u);
    if (state) {
      Refused(q.graphFinalize(net.graph, nullptr, nullptr), kBad, "no persistent memory");
      CHECK_EQ(Give(net.graph, kPersistent, persistent.data(), kept), 0u);
    }
    CHECK_EQ(SetPerf(net.graph, 30, 10, 1), 0u);
    CHECK_EQ(q.graphFinalize(net.graph, nullptr, nullptr), 0u);
    std::memset(io.data(), 5, 8);
    CHECK_EQ(net.Execute(io.data(), io.data() + 64), 0u);
    CHECK_EQ(int{io.data()[64 + (state ? 15 : 7)]}, 5);
    Refused(q.graphFinalize(net.graph, nullptr, nullptr), QNN_GRAPH_ERROR_GRAPH_FINALIZED, "");
    CHECK_EQ(q.contextFree(net.context, nullptr), 0u);
    net.context = nullptr;
  }
}

TEST(direct_mode_uses_binaries_where_they_lie) {
  Net net("direct_mode:adsp");
  uint32_t required = 0;
  CHECK_EQ(AskBackend(net.backend, QNN_LPAI_BACKEND_GET_PROP_REQUIRE_PERSISTENT_BINARY, &required),
           0u);
  CHECK_EQ(required, 1u);
  net.Ready();
  const std::vector<uint8_t> binary = BinaryOf(&net);
  constexpr uint32_t kInvalid = QNN_CONTEXT_ERROR_INVALID_CONFIG;
  Refused(FromBinary(&net, binary), kInvalid, "PERSISTENT_BINARY");
  Refused(q.contextValidateBinary(net.backend, nullptr, nullptr, binary.data(), binary.size()),
          kInvalid, "PERSISTENT_BINARY");
  QnnContext_Config_t persistent = {};
  persistent.option = QNN_CONTEXT_CONFIG_PERSISTENT_BINARY;
  persistent.isPersistentBinary = 1;
  const QnnContext_Config_t* configs[] = {&persistent, nullptr};
  CHECK_EQ(FromBinary(&net, binary, configs), 0u);
}

TEST(a_model_lies_in_ddr_or_in_direct_mode_in_tcm) {
  QnnLpaiMem_MemType_t type = QNN_LPAI_MEM_TYPE_DDR;
  QnnLpaiContext_CustomConfig_t custom = {QNN_LPAI_CONTEXT_SET_CFG_MODEL_BUFFER_MEM_TYPE, &type};
  QnnContext_Config_t config = {};
  config.option = QNN_CONTEXT_CONFIG_OPTION_CUSTOM;
  config.customConfig = &custom;
  const QnnContext_Config_t* configs[] = {&config, nullptr};
  constexpr uint32_t kInvalid = QNN_CONTEXT_ERROR_INVALID_CONFIG;
  const auto create = [&](const Net& net) {
    Qnn_ContextHandle_t context = nullptr;
    const Code code = q.contextCreate(net.backend, nullptr, configs, &context);
    if (code != 0) return code;
    const std::string json = qnnrt_lpai_describe(net.backend);
    CHECK(json.find("\"model_memory\":\"" +
                    std::string(type == QNN_LPAI_MEM_TYPE_TCM ? "TCM" : "DDR") +
                    "\",\"configs\":{\"MODEL_BUFFER_MEM_TYPE\"") != std::string::npos);
    CHECK_EQ(q.contextFree(context, nullptr), 0u);
    return code;
  };
  Net net, direct("direct_mode:adsp");
  CHECK_EQ(create(net), 0u);
  CHECK_EQ(create(direct), 0u);
  type = QNN_LPAI_MEM_TYPE_TCM;
  Refused(create(net), kInvalid, "direct mode alone");
  CHECK_EQ(create(direct), 0u);
  for (auto other : {QNN_LPAI_MEM_TYPE_LLC, QNN_LPAI_MEM_TYPE_PSRAM, QNN_LPAI_MEM_TYPE_UNDEFINED}) {
    type = other;
    Refused(create(direct), kInvalid, "a model lies in DDR (1) or TCM (3)");
  }
  // The island is noted.
  bool island = true;
  custom = {QNN_LPAI_CONTEXT_SET_CFG_ENABLE_ISLAND, &island};
  for (const bool yes : {true, false}) {
    island = yes;
    Qnn_ContextHandle_t context = nullptr;
    CHECK_EQ(q.contextCreate(net.backend, nullptr, configs, &context), 0u);
    const std::string json = qnnrt_lpai_describe(net.backend);
    CHECK(json.find(yes ? "\"ENABLE_ISLAND\":true" : "\"ENABLE_ISLAND\":false") !=
          std::string::npos);
    CHECK_EQ(q.contextFree(context, nullptr), 0u);
  }
}

// ---- nodes ----

TEST(float_tensors_are_refused_by_name) {
  Net net;
  uint32_t dims[2] = {1, 8};
  const auto add = [&](const char* name, Qnn_DataType_t type, Qnn_TensorType_t kind) {
    Qnn_Tensor_t t = MakeTensor(name, kind, 2, dims, type);
    CHECK_EQ(q.tensorCreateGraphTensor(net.graph, &t), 0u);
    return t;
  };
  Qnn_Tensor_t a = add("a", QNN_DATATYPE_FLOAT_32, QNN_TENSOR_TYPE_APP_WRITE);
  Qnn_Tensor_t b = add("b", QNN_DATATYPE_FLOAT_32, QNN_TENSOR_TYPE_APP_READ);
  Qnn_Tensor_t h = add("h", QNN_DATATYPE_FLOAT_16, QNN_TENSOR_TYPE_APP_WRITE);
  Qnn_Tensor_t i = add("i", QNN_DATATYPE_FLOAT_16, QNN_TENSOR_TYPE_APP_READ);
  Qnn_Tensor_t u = add("u", QNN_DATATYPE_UFIXED_POINT_8, QNN_TENSOR_TYPE_NATIVE);
  Qnn_Tensor_t v = add("v", QNN_DATATYPE_UFIXED_POINT_8, QNN_TENSOR_TYPE_NATIVE);
  constexpr uint32_t kOp = QNN_GRAPH_ERROR_INVALID_OP_CONFIG;
  const auto refused = [&](const char* type, Qnn_Tensor_t in, Qnn_Tensor_t out, const char* names) {
    const Qnn_OpConfig_t op = MakeOp("n", type, &in, 1, &out);
    Refused(q.graphAddNode(net.graph, op), kOp, names);
    Refused(q.backendValidateOpConfig(net.backend, op), QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE,
            names);
  };
  refused("Relu", a, b, "are float: 'a' (FLOAT_32), 'b' (FLOAT_32);");
  refused("Tanh", h, i, "are float: 'h' (FLOAT_16), 'i' (FLOAT_16);");
  refused("Convert", a, u, "are float: 'a' (FLOAT_32);");
  refused("Convert", u, b, "are float: 'b' (FLOAT_32);");
  const auto taken = [&](const char* type, Qnn_Tensor_t in, Qnn_Tensor_t out) {
    const Qnn_OpConfig_t op = MakeOp(type, type, &in, 1, &out);
    CHECK_EQ(q.backendValidateOpConfig(net.backend, op), 0u);
    CHECK_EQ(q.graphAddNode(net.graph, op), 0u);
  };
  taken("Quantize", a, u);
  taken("Relu", u, v);
  taken("Dequantize", v, b);
}

TEST(only_ops_of_the_list_are_listed_and_taken) {
  Net net;
  uint32_t count = 0;
  const QnnBackend_OperationName_t* operations = nullptr;
  CHECK_EQ(q.backendGetSupportedOperations(net.backend, &count, &operations), 0u);
  std::set<std::string> listed;
  for (uint32_t i = 0; i < count; ++i) listed.insert(operations[i].name);
  CHECK_EQ(listed.size(), size_t{count});
  for (const char* op : {"Conv2d", "TransposeConv2d", "MatMul", "Lstm", "Gru", "Buffer", "Lrn"})
    CHECK_EQ(listed.count(op), 1u);
  for (const char* op : {"ElementWiseAbs", "Conv3d", "ScatterNd", "TopK", "L2Norm", "Elu"})
    CHECK_EQ(listed.count(op), 0u);
  for (const std::string& op : listed) CHECK(qnnrt::FindOp(op) != nullptr);
  uint32_t dims[2] = {1, 8};
  Qnn_Tensor_t in = MakeTensor("in", QNN_TENSOR_TYPE_NATIVE, 2, dims);
  Qnn_Tensor_t out = MakeTensor("out", QNN_TENSOR_TYPE_NATIVE, 2, dims);
  const auto validate = [&](const char* type, const Qnn_Param_t* operation) {
    Qnn_Param_t param = operation == nullptr ? Scalar("", 0) : *operation;
    return q.backendValidateOpConfig(
        net.backend, MakeOp("n", type, &in, 1, &out, &param, operation == nullptr ? 0 : 1));
  };
  Refused(validate("ElementWiseAbs", nullptr), QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND,
          "has no op 'ElementWiseAbs'");
  // An operation of one of the ops that have several is as the op of its own.
  const std::set<uint32_t> neurons = {1, 3, 4, 5, 6, 8}, unary = {5, 7, 8, 15};
  for (uint32_t value = 0; value < 9; ++value) {
    const Qnn_Param_t operation = Scalar("operation", value);
    CHECK_EQ(validate("ElementWiseNeuron", &operation) == 0, neurons.count(value) != 0);
  }
  for (uint32_t value = 0; value < 16; ++value) {
    const Qnn_Param_t operation = Scalar("operation", value);
    CHECK_EQ(validate("ElementWiseUnary", &operation) == 0, unary.count(value) != 0);
  }
}

}  // namespace

CHECK_MAIN("lpai_memory_test")
