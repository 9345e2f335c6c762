// A client of the htp backend's function table for the tests of its memory rules.
#pragma once

#include <sys/resource.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "abi/qnn_errors.h"
#include "abi/qnn_htp.h"
#include "abi/qnn_interface.h"
#include "abi/qnnrt_ext.h"
#include "api/runtime.h"
#include "check.h"
#include "memory/rpcmem.h"

extern "C" Qnn_ErrorHandle_t qnnrt_htp_get_providers(const QnnInterface_t*** list, uint32_t* count);

namespace qmem {

using Code = Qnn_ErrorHandle_t;
constexpr bool kRaw = false, kHandle = true;

inline const QnnInterface_ImplementationV2_32_t& q =
    []() -> const QnnInterface_ImplementationV2_32_t& {
  const QnnInterface_t** list = nullptr;
  uint32_t count = 0;
  qnnrt_htp_get_providers(&list, &count);
  return list[0]->v2_32;
}();

inline std::string g_log;
inline void Logged(const char* format, QnnLog_Level_t level, uint64_t, va_list args) {
  char text[1024];
  std::vsnprintf(text, sizeof(text), format, args);
  static std::mutex mutex;  // executions on any thread tell
  std::lock_guard<std::mutex> lock(mutex);
  if (level == QNN_LOG_LEVEL_WARN) g_log += text + std::string("\n");
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;  // shadow memory takes page faults of its own
#else
constexpr bool kSanitized = false;
#endif

inline uint64_t Faults() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_minflt + usage.ru_majflt);
}

inline uint64_t Used() {
  Qnnrt_DomainInfo_t info;
  CHECK_EQ(qnnrt_htp_domain_info(&info), 0u);
  return info.used_bytes;
}
struct Budget {  // for as long as this lives, what is used now and `more`
  explicit Budget(uint64_t more) {
    qnnrt_htp_domain_info(&before);
    qnnrt_htp_domain_set_budget(before.used_bytes + more);
  }
  ~Budget() { qnnrt_htp_domain_set_budget(before.budget_bytes); }
  Qnnrt_DomainInfo_t before;
};

inline std::string LastMessage() { return qnnrt::LastError().message(); }
inline bool Has(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

struct Rpc {
  explicit Rpc(size_t bytes) : size(bytes), data(qnnrt_rpcmem_alloc2(25, 1, bytes)) {}
  ~Rpc() { qnnrt_rpcmem_free(data); }
  int fd() const { return qnnrt_rpcmem_to_fd(data); }
  float* floats() const { return static_cast<float*>(data); }
  size_t size;
  void* data;
};

// y = relu(a + b), each with `elements` floats, prepared and executed as each case wants it.
struct Net {
  explicit Net(uint32_t elements = 32) : count(elements), dims{4, elements / 4} {}
  ~Net() { Close(); }
  Net(const Net&) = delete;

  uint32_t count;
  uint32_t dims[2];
  Qnn_LogHandle_t log = nullptr;
  Qnn_BackendHandle_t backend = nullptr;
  Qnn_ContextHandle_t context = nullptr;
  Qnn_GraphHandle_t graph = nullptr;
  Qnn_ProfileHandle_t profile = nullptr;
  Qnn_Tensor_t t[3];  // a, b, y
  std::vector<float> raw[3];
  std::unique_ptr<Rpc> shared[3];
  Qnn_MemHandle_t handles[3] = {};

  uint64_t Bytes() const { return uint64_t{count} * 4; }
  float* Data(int i) {
    return t[i].v1.memType == QNN_TENSORMEMTYPE_MEMHANDLE ? shared[i]->floats() : raw[i].data();
  }

  Code Open(const char* option = nullptr) {
    QnnBackend_Config_t config = {};
    config.option = QNN_BACKEND_CONFIG_OPTION_PLATFORM;
    config.platformOption = option;
    const QnnBackend_Config_t* list[] = {&config, nullptr};
    Code e = q.logCreate(&Logged, QNN_LOG_LEVEL_WARN, &log);
    if (e == 0) e = q.backendCreate(log, option == nullptr ? nullptr : list, &backend);
    if (e == 0) e = q.contextCreate(backend, nullptr, nullptr, &context);
    if (e == 0) e = q.profileCreate(backend, QNN_PROFILE_LEVEL_DETAILED, &profile);
    return e;
  }
  Code Compose(bool a, bool b, bool y) {
    static const char* const names[] = {"a", "b", "y"};
    const bool by_handle[] = {a, b, y};
    Code e = q.graphCreate(context, "g", nullptr, &graph);
    for (int i = 0; e == 0 && i < 3; ++i) {
      std::memset(&t[i], 0, sizeof(t[i]));
      t[i].version = QNN_TENSOR_VERSION_1;
      t[i].v1.name = names[i];
      t[i].v1.type = i == 2 ? QNN_TENSOR_TYPE_APP_READ : QNN_TENSOR_TYPE_APP_WRITE;
      t[i].v1.dataType = QNN_DATATYPE_FLOAT_32;
      t[i].v1.quantizeParams.encodingDefinition = QNN_DEFINITION_UNDEFINED;
      t[i].v1.quantizeParams.quantizationEncoding = QNN_QUANTIZATION_ENCODING_UNDEFINED;
      t[i].v1.rank = 2;
      t[i].v1.dimensions = dims;
      t[i].v1.memType = by_handle[i] ? QNN_TENSORMEMTYPE_MEMHANDLE : QNN_TENSORMEMTYPE_RAW;
      e = q.tensorCreateGraphTensor(graph, &t[i]);
    }
    if (e != 0) return e;
    Qnn_Tensor_t sum = t[0];
    sum.v1.name = "sum";
    sum.v1.type = QNN_TENSOR_TYPE_NATIVE;
    e = q.tensorCreateGraphTensor(graph, &sum);
    Qnn_Tensor_t pair[2] = {t[0], t[1]};
    Qnn_OpConfig_t op = {};
    op.version = QNN_OPCONFIG_VERSION_1;
    op.v1 = {"add", "qti.aisw", "ElementWiseAdd", 0, nullptr, 2, pair, 1, &sum};
    if (e == 0) e = q.graphAddNode(graph, op);
    op.v1 = {"relu", "qti.aisw", "Relu", 0, nullptr, 1, &sum, 1, &t[2]};
    if (e == 0) e = q.graphAddNode(graph, op);
    return e;
  }
  Code Finalize() { return q.graphFinalize(graph, profile, nullptr); }

  // Binds tensor i as RAW or by a handle, registered when first asked for.
  Code Use(int i, bool by_handle) {
    if (!by_handle) {
      if (raw[i].empty()) raw[i].assign(count, 0);
      t[i].v1.memType = QNN_TENSORMEMTYPE_RAW;
      t[i].v1.clientBuf = {raw[i].data(), static_cast<uint32_t>(Bytes())};
      return 0;
    }
    if (handles[i] == nullptr) {
      shared[i] = std::make_unique<Rpc>(Bytes());
      Qnn_MemDescriptor_t d = {};
      d.memShape = {2, dims, nullptr};
      d.dataType = QNN_DATATYPE_FLOAT_32;
      d.memType = QNN_MEM_TYPE_ION;
      d.ionInfo.fd = shared[i]->fd();
      if (d.ionInfo.fd < 0) return QNN_COMMON_ERROR_MEM_ALLOC;
      if (Code e = q.memRegister(context, &d, 1, &handles[i])) return e;
    }
    t[i].v1.memType = QNN_TENSORMEMTYPE_MEMHANDLE;
    t[i].v1.memHandle = handles[i];
    return 0;
  }
  Code UseAll(bool a, bool b, bool y) {
    const bool by_handle[] = {a, b, y};
    Code e = 0;
    for (int i = 0; e == 0 && i < 3; ++i) e = Use(i, by_handle[i]);
    return e;
  }
  Code Run(Qnn_ProfileHandle_t with = nullptr) {
    return q.graphExecute(graph, t, 2, t + 2, 1, with, nullptr);
  }
  // Runs and looks at the result.
  bool Right(float x) {
    for (uint32_t i = 0; i < count; ++i) {
      Data(0)[i] = x + static_cast<float>(i);
      Data(1)[i] = -20.0f;
      Data(2)[i] = -7.0f;
    }
    if (Run() != 0) return false;
    for (uint32_t i = 0; i < count; ++i) {
      const float sum = x + static_cast<float>(i) - 20.0f;
      if (Data(2)[i] != (sum > 0 ? sum : 0)) return false;
    }
    return true;
  }
  Code SetStrict(uint32_t strict) {
    Qnnrt_GraphConfig_t ours = {QNNRT_GRAPH_CONFIG_MAGIC, QNNRT_GRAPH_OPTION_STRICT, {strict}};
    QnnGraph_Config_t config = {};
    config.option = QNN_GRAPH_CONFIG_OPTION_CUSTOM;
    config.customConfig = &ours;
    const QnnGraph_Config_t* list[] = {&config, nullptr};
    return q.graphSetConfig(graph, list);
  }
  Qnnrt_GraphStats_t Stats() {
    Qnnrt_GraphStats_t stats;
    CHECK_EQ(qnnrt_graph_stats(graph, &stats), 0u);
    return stats;
  }
  std::vector<Qnnrt_CopyRecord_t> Copies() {
    uint32_t n = 0;
    CHECK_EQ(qnnrt_graph_copies(graph, nullptr, 0, &n), 0u);
    std::vector<Qnnrt_CopyRecord_t> records(n);
    CHECK_EQ(qnnrt_graph_copies(graph, records.data(), n, &n), 0u);
    CHECK_EQ(n, records.size());
    return records;
  }
  void Close() {
    for (Qnn_MemHandle_t& h : handles) {
      if (h != nullptr) q.memDeRegister(&h, 1);
      h = nullptr;
    }
    if (context != nullptr) q.contextFree(context, nullptr);
    if (profile != nullptr) q.profileFree(profile);
    if (backend != nullptr) q.backendFree(backend);
    if (log != nullptr) q.logFree(log);
    context = profile = backend = log = graph = nullptr;
    for (auto& s : shared) s.reset();
  }
};

}  // namespace qmem
