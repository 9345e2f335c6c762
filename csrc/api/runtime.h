// The objects behind the handles, and the one place that holds them.
#pragma once

#include <atomic>
#include <cstdarg>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "abi/qnn_errors.h"
#include "abi/qnn_interface.h"
#include "api/handles.h"
#include "backends/backend.h"
#include "graph/graph.h"

namespace qnnrt {

class Log {
 public:
  Log(QnnLog_Callback_t callback, QnnLog_Level_t level) : callback_(callback), level_(level) {}
  void set_level(QnnLog_Level_t level) { level_.store(level, std::memory_order_relaxed); }
  bool Wants(QnnLog_Level_t level) const { return level <= level_.load(std::memory_order_relaxed); }
  // Through the client's callback, or to standard error when it gave none.
  void Write(QnnLog_Level_t level, const char* format, ...) __attribute__((format(printf, 3, 4)));

 private:
  QnnLog_Callback_t callback_;
  std::atomic<QnnLog_Level_t> level_;
};

// Handles give out shared objects: a context keeps its backend, a backend its log.
struct LogObject {
  std::shared_ptr<Log> log;
};

struct Backend {
  const BackendTraits* traits;
  std::shared_ptr<Log> log;  // null: nobody listens
  GraphOptions graph_options;
  std::vector<QnnBackend_OperationName_t> operations;
};
struct BackendObject {
  std::shared_ptr<Backend> backend;
};

struct Context {
  std::shared_ptr<Backend> backend;
  uint64_t id;
  std::mutex mutex;
  std::map<std::string, Qnn_GraphHandle_t> graphs;
};
struct ContextObject {
  std::shared_ptr<Context> context;
};

struct GraphObject {
  std::shared_ptr<Context> context;
  Graph graph;
  GraphObject(std::shared_ptr<Context> owner, std::string name, const GraphOptions& options)
      : context(std::move(owner)), graph(std::move(name), context->id, options) {}
};

struct Profile {
  uint32_t level;
  uint64_t serial;  // the high part of its event ids
  uint64_t max_events;
  std::mutex mutex;
  ProfileScope events;
  std::vector<QnnProfile_EventId_t> top_ids;
  std::map<uint32_t, std::vector<QnnProfile_EventId_t>> child_ids;
  Profile(uint32_t profile_level, uint64_t profile_serial);
};

class Runtime {
 public:
  static Runtime& Get();  // made at first use, never destroyed

  HandleTable<LogObject, HandleKind::kLog> logs;
  HandleTable<BackendObject, HandleKind::kBackend> backends;
  HandleTable<ContextObject, HandleKind::kContext> contexts;
  HandleTable<GraphObject, HandleKind::kGraph> graphs;
  HandleTable<Profile, HandleKind::kProfile> profiles;
  std::atomic<uint64_t> next_context{1};

  // Event ids name a profile by its serial.
  std::mutex profile_mutex;
  uint64_t next_profile = 1;
  std::unordered_map<uint64_t, Qnn_ProfileHandle_t> profile_by_serial;
};

// Turns a Status into the number that crosses the boundary: remembers its message for
// errorGetVerboseMessage on this thread and writes it to the log.
Qnn_ErrorHandle_t Report(const Status& status, Log* log = nullptr);
const Status& LastError();

// Runs a function table entry: no exception leaves it.
template <typename Body>
Qnn_ErrorHandle_t Guarded(Body&& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return Report(Status(QNN_COMMON_ERROR_MEM_ALLOC, "out of memory"));
  } catch (const std::exception& e) {
    return Report(Status(QNN_COMMON_ERROR_GENERAL, e.what()));
  }
}

}  // namespace qnnrt
