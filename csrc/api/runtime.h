// The objects behind the handles, and the runtime that owns them.
#pragma once

#include <atomic>
#include <cstdarg>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "abi/qnn_errors.h"
#include "abi/qnn_interface.h"
#include "api/config.h"
#include "api/device.h"
#include "api/environment.h"
#include "api/executor.h"
#include "api/graph_profile.h"
#include "api/handles.h"
#include "api/op_package.h"
#include "api/queue.h"
#include "api/signal.h"
#include "backends/backend.h"
#include "graph/graph.h"
#include "memory/tcm.h"
#include "support/guard.h"
#include "support/known_digests.h"
#include "support/per_thread.h"

namespace qnnrt {

class Log {
 public:
  // Without a callback: to standard error.
  Log(QnnLog_Callback_t callback, QnnLog_Level_t level)
      : callback_(callback == nullptr ? ToStandardError : callback), level_(level) {}
  QnnLog_Callback_t callback() const { return callback_; }
  QnnLog_Level_t level() const { return level_.load(std::memory_order_relaxed); }
  void set_level(QnnLog_Level_t level) { level_.store(level, std::memory_order_relaxed); }
  bool Wants(QnnLog_Level_t level) const { return level <= this->level(); }
  void Write(QnnLog_Level_t level, const char* format, ...) __attribute__((format(printf, 3, 4)));

 private:
  static void ToStandardError(const char* format, QnnLog_Level_t level, uint64_t timestamp,
                              va_list args);

  const QnnLog_Callback_t callback_;
  std::atomic<QnnLog_Level_t> level_;
};

// Handles give out shared objects: a context keeps its backend, a backend its log.
struct LogObject {
  std::shared_ptr<Log> log;
};

struct Backend {
  const BackendTraits* traits;
  std::shared_ptr<Log> log;  // null: no log
  std::vector<QnnBackend_OperationName_t> operations;
  LpaiSettings lpai;    // constant once it is created, as what follows
  ConfigRecord record;  // of backendCreate
  OpPackages packages;

  // The initial options of graphs; backendSetConfig may change them while others make graphs.
  GraphOptions graph_options() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return graph_options_;
  }
  void set_graph_options(const GraphOptions& options) {
    std::lock_guard<std::mutex> lock(mutex_);
    graph_options_ = options;
  }

 private:
  mutable std::mutex mutex_;
  GraphOptions graph_options_;
};
struct BackendObject {
  std::shared_ptr<Backend> backend;
};

struct LoadedBinary;  // binary.cc

struct Context {
  std::shared_ptr<Backend> backend;
  uint64_t id;
  std::mutex mutex;
  DeviceUse device;        // the device that it was created on, if any
  ContextOptions options;  // under mutex once others can reach the context
  std::map<std::string, Qnn_GraphHandle_t> graphs;
  std::shared_ptr<LoadedBinary> binary;                        // that it came from; null: none
  const QueuePtr queue{new ExecutionQueue};                    // of backends with async
  const std::shared_ptr<KnownDigests> lent{new KnownDigests};  // of data that stays with it

  // In which its graphs have equal constants and packed weights once.
  uint64_t share_scope() const {
    return options.weight_sharing ? kProcessScope : options.group_scope.value_or(id);
  }
};
struct ContextObject {
  std::shared_ptr<Context> context;
};

// The GraphHost of a context's graphs.
GraphHost HostOf(const Context& context);

struct GraphObject {
  std::shared_ptr<Context> context;
  Graph graph;
  ExecutableGraph executable;  // who executes `graph`
  std::mutex config_mutex;     // held while a list of configs is applied; before any other
  std::mutex settings_mutex;
  GraphSettings settings;  // under settings_mutex
  GraphProfile profile;
  const bool prepare_only;
  Environments environments;  // destroyed before the graph

  Status Bind(const Qnnrt_Tensors_t& tensors, AnyBinding* binding) {
    return executable.Bind(&graph, tensors, binding);
  }
  Status Run(const AnyBinding& binding, const RunOptions& options) {
    return executable.Run(&graph, binding, options);
  }
  Status Execute(const Qnnrt_Tensors_t& tensors, const RunOptions& options) {
    return executable.Execute(&graph, tensors, options);
  }

  GraphObject(std::shared_ptr<Context> owner, std::string name, const GraphOptions& options)
      : context(std::move(owner)),
        graph(std::move(name), context->id, options, HostOf(*context)),
        executable(context->backend->traits->external),
        prepare_only(context->options.prepare_only) {}
};

struct Profile {
  const BackendTraits* traits;
  uint32_t level;
  uint64_t serial;  // the high part of its event ids
  uint64_t max_events;
  bool optrace = false;  // events of nodes at any level
  std::mutex mutex;
  bool recording = false;  // a call writes events; nobody else reads them
  bool bound = false;      // belongs to a graph, whose executions it collects
  ProfileScope events;
  std::vector<QnnProfile_EventId_t> top_ids;
  std::map<uint32_t, std::vector<QnnProfile_EventId_t>> child_ids;
  Profile(const BackendTraits& backend, uint32_t profile_level, uint64_t profile_serial);
  void Clear();
};

// Finds no graph of the context that a function of an op package serves on this thread: it has the
// graph's lock, or is an execution that others wait for.
class GraphTable : public HandleTable<GraphObject, HandleKind::kGraph> {
 public:
  Pin Find(const void* handle) {
    Pin found = HandleTable::Find(handle);
    return found && Serves(*found) ? Pin() : std::move(found);
  }
  // Why Find has found nothing.
  bool IsServed(const void* handle) {
    const Pin found = HandleTable::Find(handle);
    return found && Serves(*found);
  }

 private:
  static bool Serves(const GraphObject& graph) {
    const uint64_t served = ServedContext();
    return served != 0 && served == graph.context->id;
  }
};

class Runtime {
 public:
  static Runtime& Get();  // made at first use, never destroyed

  HandleTable<LogObject, HandleKind::kLog> logs;
  HandleTable<BackendObject, HandleKind::kBackend> backends;
  HandleTable<ContextObject, HandleKind::kContext> contexts;
  GraphTable graphs;
  HandleTable<Profile, HandleKind::kProfile> profiles;
  HandleTable<Signal, HandleKind::kSignal> signals;
  HandleTable<DeviceObject, HandleKind::kDevice> devices;
  HandleTable<LpaiAllocator, HandleKind::kLpaiAllocator> lpai_allocators;
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
  return Contained([&]() -> Qnn_ErrorHandle_t { return body(); },
                   [](const Status& status) { return Report(status); });
}

// What `describe` writes, until this thread asks it again; null: nothing, or no memory.
template <typename Describe>
const char* TextOrNull(const Describe& describe) {
  return Contained(
      [&]() -> const char* {
        static PerThread<std::string> texts;  // one for each lambda
        std::string* text = texts.Get();
        if (text == nullptr) return nullptr;
        *text = describe();
        return text->empty() ? nullptr : text->c_str();
      },
      [](const Status&) -> const char* { return nullptr; });
}

// A text that is written once and stays; null without memory for it.
template <typename Write>
const char* LastingText(const Write& write) {
  return Contained(
      [&]() -> const char* {
        static const auto* const text = new std::string(write());  // one for each lambda
        return text->c_str();
      },
      [](const Status&) -> const char* { return nullptr; });
}

}  // namespace qnnrt
