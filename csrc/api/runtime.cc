#include "api/runtime.h"

#include <cstdio>

#include "memory/memory.h"
#include "support/clock.h"

namespace qnnrt {

Runtime& Runtime::Get() {
  // What has a handle may go while there is no memory: all that its end asks for is made before.
  static Runtime* runtime = [] {
    Memory::Get();
    ProcessDomain::Htp();
    return new Runtime;
  }();
  return *runtime;
}

void Log::Write(QnnLog_Level_t level, const char* format, ...) {
  if (!Wants(level)) return;
  va_list args;
  va_start(args, format);
  callback_(format, level, MonotonicNanoseconds() / 1000, args);
  va_end(args);
}

void Log::ToStandardError(const char* format, QnnLog_Level_t level, uint64_t, va_list args) {
  static const char* const kNames[] = {"", "ERROR", "WARN", "INFO", "VERBOSE", "DEBUG"};
  const char* name =
      level >= QNN_LOG_LEVEL_ERROR && level <= QNN_LOG_LEVEL_DEBUG ? kNames[level] : "";
  std::fprintf(stderr, "qnnrt %s: ", name);
  std::vfprintf(stderr, format, args);
  std::fputc('\n', stderr);
}

GraphHost HostOf(const Context& context) {
  const Backend& backend = *context.backend;
  GraphHost host;
  host.share_scope = context.share_scope();
  host.domain = DomainOf(*backend.traits);
  host.admit = backend.traits->admit;
  if (backend.traits->op_packages) {
    // A graph's context keeps the backend.
    host.find_package_op = [&packages = backend.packages, id = context.id](
                               const std::string& package, const std::string& type) {
      return packages.Find(package, type, id);
    };
  }
  host.client_memory = backend.traits->client_memory;
  host.start_alignment = backend.lpai.start_alignment;
  host.size_alignment = backend.lpai.size_alignment;
  if (host.domain != nullptr && backend.log != nullptr) {
    host.warn = [log = backend.log](const char* line) {
      log->Write(QNN_LOG_LEVEL_WARN, "%s", line);
    };
  }
  return host;
}

Profile::Profile(const BackendTraits& backend, uint32_t profile_level, uint64_t profile_serial)
    : traits(&backend),
      level(profile_level),
      serial(profile_serial),
      max_events(UINT32_MAX),
      events(profile_level > QNN_PROFILE_LEVEL_BASIC, UINT32_MAX) {}

namespace {
LastStatus& ThreadErrors() {
  static LastStatus errors;
  return errors;
}
}  // namespace

Qnn_ErrorHandle_t Report(const Status& status, Log* log) {
  if (status.ok()) return QNN_SUCCESS;
  ThreadErrors().Set(status);
  if (log != nullptr) {
    // Early termination of a graph that needs more frames is expected: not logged as an error.
    const bool waits = status.code() == QNN_GRAPH_ERROR_EARLY_TERMINATION;
    log->Write(waits ? QNN_LOG_LEVEL_VERBOSE : QNN_LOG_LEVEL_ERROR, "%s %u: %s",
               waits ? "early termination" : "error", status.code(), status.message().c_str());
  }
  return status.code();
}

const Status& LastError() { return ThreadErrors().Get(); }

}  // namespace qnnrt
