// What the tests of queues, signals and environments are written with: an htp context, graphs
// y = relu^n(x + 1) and memory that is registered.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "abi/qnn_errors.h"
#include "abi/qnn_interface.h"
#include "abi/qnnrt_ext.h"
#include "check.h"
#include "eventually.h"
#include "memory/rpcmem.h"
#include "qnn_tensor.h"

extern "C" Qnn_ErrorHandle_t qnnrt_htp_get_providers(const QnnInterface_t*** list, uint32_t* n);

namespace async_test {

inline const QnnInterface_ImplementationV2_32_t& Table() {
  static const QnnInterface_ImplementationV2_32_t* table = [] {
    const QnnInterface_t** list = nullptr;
    uint32_t count = 0;
    qnnrt_htp_get_providers(&list, &count);
    return &list[0]->v2_32;
  }();
  return *table;
}
inline const QnnInterface_ImplementationV2_32_t& q = Table();

inline std::string Message(Qnn_ErrorHandle_t code) {
  const char* text = nullptr;
  if (q.errorGetVerboseMessage(code, &text) != 0 || text == nullptr) return "";
  std::string message = text;
  q.errorFreeVerboseMessage(text);
  return message;
}

inline bool Has(const std::string& text, const char* part) {
  bool has = text.find(part) != std::string::npos;
  if (!has) std::fprintf(stderr, "  no \"%s\" in \"%s\"\n", part, text.c_str());
  return has;
}

// Something that happens once.
class Event {
 public:
  void Set() {
    std::lock_guard<std::mutex> lock(mutex_);
    set_ = true;
    changed_.notify_all();
  }
  bool IsSet() {
    std::lock_guard<std::mutex> lock(mutex_);
    return set_;
  }
  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return set_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

// The outcome of an asynchronous execution; with a gate its callback waits there.
struct Done {
  Event entered, returned;
  Qnn_ErrorHandle_t code = 12345;
  std::thread::id thread;
  Event* gate = nullptr;
  void (*body)(Done*) = nullptr;
  void* param = nullptr;
  static void Notify(void* param, Qnn_NotifyStatus_t status) {
    Done* done = static_cast<Done*>(param);
    done->code = status.error;
    done->thread = std::this_thread::get_id();
    if (done->body != nullptr) done->body(done);
    Event* gate = done->gate;
    done->entered.Set();
    if (gate != nullptr) gate->Wait();
    done->returned.Set();
  }
};

struct Memory {  // one registered float tensor of its own
  float* data = nullptr;
  Qnn_MemHandle_t handle = nullptr;
  Memory() = default;
  Memory(Qnn_ContextHandle_t context, uint32_t n) {
    data = static_cast<float*>(qnnrt_rpcmem_alloc(25, 1, static_cast<int>(n * sizeof(float))));
    std::memset(data, 0, n * sizeof(float));
    Qnn_MemDescriptor_t d;
    std::memset(&d, 0, sizeof(d));
    uint32_t dims[1] = {n};
    d.memShape = {1, dims, nullptr};
    d.dataType = QNN_DATATYPE_FLOAT_32;
    d.memType = QNN_MEM_TYPE_ION;
    d.ionInfo.fd = qnnrt_rpcmem_to_fd(data);
    CHECK_EQ(q.memRegister(context, &d, 1, &handle), 0u);
  }
  Memory(Memory&& o) noexcept
      : data(std::exchange(o.data, nullptr)), handle(std::exchange(o.handle, nullptr)) {}
  Memory& operator=(Memory&& o) noexcept {
    std::swap(data, o.data);
    std::swap(handle, o.handle);
    return *this;
  }
  ~Memory() {
    if (handle != nullptr) q.memDeRegister(&handle, 1);
    if (data != nullptr) qnnrt_rpcmem_free(data);
  }
};

// y = relu(... relu(x + 1) ...), and the first relu's result as a second output.
struct GraphOf {
  uint32_t dims[1];
  Qnn_GraphHandle_t handle = nullptr;
  Qnn_Tensor_t x, y, early;
  std::vector<std::string> names;
  static void Node(Qnn_GraphHandle_t graph, const char* name, const char* type,
                   std::vector<Qnn_Tensor_t> in, Qnn_Tensor_t out) {
    Qnn_OpConfig_t op;
    std::memset(&op, 0, sizeof(op));
    op.version = QNN_OPCONFIG_VERSION_1;
    op.v1 = {name,      "qti.aisw", type, 0, nullptr, static_cast<uint32_t>(in.size()),
             in.data(), 1,          &out};
    CHECK_EQ(q.graphAddNode(graph, op), 0u);
  }

  // More than one step makes the graph slow: `steps` of Tanh that no pass merges.
  GraphOf(Qnn_ContextHandle_t context, const char* name, uint32_t n, int steps = 0,
          bool finalize = true)
      : dims{n} {
    CHECK_EQ(q.graphCreate(context, name, nullptr, &handle), 0u);
    std::vector<float> one(n, 1.0f);
    x = TensorOf("x", QNN_TENSOR_TYPE_APP_WRITE, dims, 1);
    y = TensorOf("y", QNN_TENSOR_TYPE_APP_READ, dims, 1);
    early = TensorOf("early", QNN_TENSOR_TYPE_APP_READ, dims, 1);
    for (Qnn_Tensor_t* t : {&x, &y, &early}) t->v1.memType = QNN_TENSORMEMTYPE_MEMHANDLE;
    Qnn_Tensor_t c = TensorOf("c", QNN_TENSOR_TYPE_STATIC, dims, 1);
    c.v1.clientBuf = {one.data(), static_cast<uint32_t>(n * sizeof(float))};
    CHECK_EQ(q.tensorCreateGraphTensor(handle, &x), 0u);
    CHECK_EQ(q.tensorCreateGraphTensor(handle, &y), 0u);
    if (steps > 0) CHECK_EQ(q.tensorCreateGraphTensor(handle, &early), 0u);
    CHECK_EQ(q.tensorCreateGraphTensor(handle, &c), 0u);
    Node(handle, "add", "ElementWiseAdd", {x, c}, steps == 0 ? y : early);
    names.reserve(2 * steps);
    Qnn_Tensor_t before = early;
    for (int s = 0; s < steps; ++s) {
      Qnn_Tensor_t after = y;
      if (s + 1 < steps) {
        names.push_back("t" + std::to_string(s));
        after = TensorOf(names.back().c_str(), QNN_TENSOR_TYPE_NATIVE, dims, 1);
        CHECK_EQ(q.tensorCreateGraphTensor(handle, &after), 0u);
      }
      names.push_back("n" + std::to_string(s));
      Node(handle, names.back().c_str(), "Tanh", {before}, after);
      before = after;
    }
    if (finalize) CHECK_EQ(q.graphFinalize(handle, nullptr, nullptr), 0u);
  }

  static Qnn_Tensor_t With(Qnn_Tensor_t t, const Memory& memory) {
    t.v1.memType = QNN_TENSORMEMTYPE_MEMHANDLE;
    t.v1.memHandle = memory.handle;
    return t;
  }
  // Without `first` for a graph without steps. The tensors go before the call's end: they are read
  // by it alone.
  Qnn_ErrorHandle_t Async(const Memory& in, const Memory& out, Done* done,
                          Qnn_SignalHandle_t signal = nullptr,
                          Qnn_ProfileHandle_t profile = nullptr, const Memory* first = nullptr) {
    Qnn_Tensor_t input = With(x, in);
    Qnn_Tensor_t outputs[2] = {With(y, out), first == nullptr ? y : With(early, *first)};
    Qnn_ErrorHandle_t code =
        q.graphExecuteAsync(handle, &input, 1, outputs, first == nullptr ? 1 : 2, profile, signal,
                            done == nullptr ? nullptr : Done::Notify, done);
    std::memset(&input, 0xEE, sizeof(input));
    std::memset(outputs, 0xEE, sizeof(outputs));
    return code;
  }
  Qnn_ErrorHandle_t Sync(const Memory& in, const Memory& out, Qnn_SignalHandle_t signal = nullptr,
                         Qnn_ProfileHandle_t profile = nullptr, const Memory* first = nullptr) {
    Qnn_Tensor_t input = With(x, in);
    Qnn_Tensor_t outputs[2] = {With(y, out), first == nullptr ? y : With(early, *first)};
    return q.graphExecute(handle, &input, 1, outputs, first == nullptr ? 1 : 2, profile, signal);
  }
};

inline Qnn_ErrorHandle_t CreateContext(Qnn_BackendHandle_t backend, uint32_t depth,
                                       Qnn_ContextHandle_t* context) {
  QnnContext_Config_t config;
  std::memset(&config, 0, sizeof(config));
  config.option = QNN_CONTEXT_CONFIG_ASYNC_EXECUTION_QUEUE_DEPTH;
  config.asyncExeQueueDepth.type = QNN_CONTEXT_ASYNC_EXECUTION_QUEUE_DEPTH_TYPE_NUMERIC;
  config.asyncExeQueueDepth.depth = depth;
  const QnnContext_Config_t* list[] = {&config, nullptr};
  return q.contextCreate(backend, nullptr, list, context);
}

struct Client {
  Qnn_BackendHandle_t backend = nullptr;
  Qnn_ContextHandle_t context = nullptr;
  explicit Client(uint32_t depth = 10) {
    CHECK_EQ(q.backendCreate(nullptr, nullptr, &backend), 0u);
    CHECK_EQ(CreateContext(backend, depth, &context), 0u);
  }
  void FreeContext() {
    if (context != nullptr) CHECK_EQ(q.contextFree(context, nullptr), 0u);
    context = nullptr;
  }
  ~Client() {
    FreeContext();
    CHECK_EQ(q.backendFree(backend), 0u);
  }
};

inline Qnn_SignalHandle_t MakeSignal(Qnn_BackendHandle_t backend, QnnSignal_ConfigOption_t option,
                                     uint64_t timeout_us = 0) {
  QnnSignal_Config_t config;
  std::memset(&config, 0, sizeof(config));
  config.option = option;
  config.timeoutDurationUs = timeout_us;
  const QnnSignal_Config_t* list[] = {&config, nullptr};
  Qnn_SignalHandle_t signal = nullptr;
  CHECK_EQ(q.signalCreate(backend, list, &signal), 0u);
  return signal;
}

constexpr uint32_t kN = 64;  // elements

// The worker, held in the callback of an execution until Open.
struct Hold {
  Event gate;
  Done first;
  Memory in, out;
  Hold(const Client& client, GraphOf* graph) : in(client.context, kN), out(client.context, kN) {
    first.gate = &gate;
    CHECK_EQ(graph->Async(in, out, &first), 0u);
    first.entered.Wait();
  }
  void Open() { gate.Set(); }
  ~Hold() {
    gate.Set();
    first.returned.Wait();
  }
};

inline void Pause() { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }

}  // namespace async_test
