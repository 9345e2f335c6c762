// Every config option of the API that this runtime knows: which backend takes it, in which calls,
// and what it does there. The parsers ask this table, and docs/configs.md is made from it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "support/json.h"
#include "support/status.h"

namespace qnnrt {

// What a value of an option is in JSON.
inline std::string Json(bool value) { return value ? "true" : "false"; }
inline std::string Json(uint64_t value) { return std::to_string(value); }
inline std::string Json(const std::string& value) { return JsonWriter().String(value).Take(); }
inline std::string Json(const std::vector<std::string>& values) {
  JsonWriter json;
  json.Array();
  for (const std::string& value : values) json.String(value);
  return json.End().Take();
}

enum class ConfigScope : uint8_t {
  kGlobal,
  kBackend,
  kLpaiBackend,  // QnnLpaiBackend_CustomConfig_t
  kGpuBackend,   // QnnGpuBackend_CustomConfig_t
  kContext,
  kHtpContext,   // QnnHtpContext_CustomConfig_t
  kLpaiContext,  // QnnLpaiContext_CustomConfig_t
  kGpuContext,   // QnnGpuContext_CustomConfig_t
  kGraph,
  kHtpGraph,      // QnnHtpGraph_CustomConfig_t
  kLpaiGraph,     // QnnLpaiGraph_CustomConfig_t
  kGpuGraph,      // QnnGpuGraph_CustomConfig_t, whose fields are the options
  kRuntimeGraph,  // Qnnrt_GraphConfig_t
  kDevice,
  kHtpDevice,  // QnnHtpDevice_CustomConfig_t
  kProfile,
  kHtpPower,   // QnnHtpPerfInfrastructure_PowerConfig_t
  kHtpMemory,  // QnnHtpPerfInfrastructure_MemoryConfig_t
};

enum class Verdict : uint8_t {
  kEffect,    // changes what the runtime does
  kRecorded,  // checked, kept and reported; nothing here depends on it
  kRefused,
};

// Calls that carry configs of one scope.
inline constexpr uint8_t kAtCreate = 1;
inline constexpr uint8_t kAtCreateFromBinary = 2;
inline constexpr uint8_t kAtSet = 4;

struct ConfigRow {
  ConfigScope scope;
  uint32_t option;
  const char* name;    // of the enumerator
  const char* values;  // what is accepted
  Verdict cpu;
  Verdict htp;
  Verdict lpai;
  Verdict gpu;
  uint8_t calls;     // where it is taken, of kAt*; anywhere else it is refused as an invalid config
  ErrorCode refuse;  // the code of a backend that refuses it
  const char* note;
};

// The row, if this backend takes the option in this call. Errors: the row's refusal; the scope's
// code for an invalid config, when another call takes it; its code for an unsupported feature, when
// there is no such option.
Result<const ConfigRow*> AdmitConfig(const BackendTraits& traits, ConfigScope scope,
                                     uint32_t option, uint8_t call);
// "config SECUREPD: <message>" with the scope's code for a value that is out of range.
Status InvalidConfig(const ConfigRow& row, const std::string& message);

// What a client has set, by option: the values as JSON.
using ConfigRecord = std::map<const ConfigRow*, std::string>;
// "name": value, ... into an open object.
void WriteRecord(const ConfigRecord& record, JsonWriter* json);

// The table: an array of objects with scope, option, name, values, cpu, htp, lpai, gpu, calls,
// error, note.
std::string ConfigTableJson();

}  // namespace qnnrt
