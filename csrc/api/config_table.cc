#include "api/config_table.h"

#include <cstring>

#include "abi/qnn_errors.h"
#include "abi/qnn_htp.h"
#include "abi/qnn_objects.h"
#include "api/config_rows.h"

namespace qnnrt {
namespace {

struct ScopeInfo {
  const char* name;
  ErrorCode unsupported;  // no such option
  ErrorCode invalid;      // a value out of range, or an option in the wrong call
};

constexpr ScopeInfo kScopes[] = {
    {"global", QNN_COMMON_ERROR_NOT_SUPPORTED, QNN_GLOBAL_CONFIG_ERROR_INVALID_CONFIG},
    {"backend", QNN_BACKEND_ERROR_NOT_SUPPORTED, QNN_BACKEND_ERROR_INVALID_CONFIG},
    {"lpai backend", QNN_BACKEND_ERROR_NOT_SUPPORTED, QNN_BACKEND_ERROR_INVALID_CONFIG},
    {"gpu backend", QNN_BACKEND_ERROR_NOT_SUPPORTED, QNN_BACKEND_ERROR_INVALID_CONFIG},
    {"context", QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE, QNN_CONTEXT_ERROR_INVALID_CONFIG},
    {"htp context", QNN_CONTEXT_ERROR_INVALID_CONFIG, QNN_CONTEXT_ERROR_INVALID_CONFIG},
    {"lpai context", QNN_CONTEXT_ERROR_INVALID_CONFIG, QNN_CONTEXT_ERROR_INVALID_CONFIG},
    {"gpu context", QNN_CONTEXT_ERROR_INVALID_CONFIG, QNN_CONTEXT_ERROR_INVALID_CONFIG},
    {"graph", QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, QNN_GRAPH_ERROR_INVALID_ARGUMENT},
    {"htp graph", QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, QNN_GRAPH_ERROR_INVALID_ARGUMENT},
    {"lpai graph", QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, QNN_GRAPH_ERROR_INVALID_ARGUMENT},
    {"gpu graph", QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, QNN_GRAPH_ERROR_INVALID_ARGUMENT},
    {"qnnrt graph", QNN_GRAPH_ERROR_INVALID_ARGUMENT, QNN_GRAPH_ERROR_INVALID_ARGUMENT},
    {"device", QNN_DEVICE_ERROR_INVALID_CONFIG, QNN_DEVICE_ERROR_INVALID_CONFIG},
    {"htp device", QNN_DEVICE_ERROR_INVALID_CONFIG, QNN_DEVICE_ERROR_INVALID_CONFIG},
    {"profile", QNN_PROFILE_ERROR_UNSUPPORTED, QNN_PROFILE_ERROR_INVALID_ARGUMENT},
    {"htp power", QNN_HTP_PERF_INFRASTRUCTURE_ERROR_UNSUPPORTED_CONFIG,
     QNN_HTP_PERF_INFRASTRUCTURE_ERROR_INVALID_INPUT},
    {"htp memory", QNN_HTP_PERF_INFRASTRUCTURE_ERROR_UNSUPPORTED_CONFIG,
     QNN_HTP_PERF_INFRASTRUCTURE_ERROR_INVALID_INPUT},
};

const ScopeInfo& Info(ConfigScope scope) { return kScopes[static_cast<size_t>(scope)]; }

// PRIORITY of QNN_CONTEXT_CONFIG_OPTION_PRIORITY: what stands after the common prefix.
const char* ShortName(const char* name) {
  for (const char* prefix :
       {"QNN_CONTEXT_CONFIG_OPTION_", "QNN_CONTEXT_CONFIG_", "QNN_HTP_CONTEXT_CONFIG_OPTION_",
        "QNN_HTP_GRAPH_CONFIG_OPTION_", "QNN_GRAPH_CONFIG_OPTION_", "QNN_HTP_DEVICE_CONFIG_OPTION_",
        "QNN_DEVICE_CONFIG_OPTION_", "QNN_BACKEND_CONFIG_OPTION_", "QNN_PROFILE_CONFIG_OPTION_",
        "QNN_GLOBAL_CONFIG_OPTION_", "QNN_LPAI_BACKEND_CUSTOM_CFG_", "QNN_LPAI_CONTEXT_SET_CFG_",
        "QNN_LPAI_GRAPH_SET_CFG_", "QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_",
        "QNN_HTP_PERF_INFRASTRUCTURE_MEMORY_CONFIGOPTION_", "QNNRT_GRAPH_OPTION_",
        "QNN_GPU_BACKEND_CONFIG_OPTION_", "QNN_GPU_CONTEXT_CONFIG_OPTION_"}) {
    size_t length = std::char_traits<char>::length(prefix);
    if (std::strncmp(name, prefix, length) == 0) return name + length;
  }
  return name;
}

Verdict VerdictOf(const BackendTraits& traits, const ConfigRow& row) {
  switch (traits.configs) {
    case ConfigSet::kHtp:
      return row.htp;
    case ConfigSet::kLpai:
      return row.lpai;
    case ConfigSet::kGpu:
      return row.gpu;
    default:
      return row.cpu;
  }
}

const char* VerdictName(Verdict verdict) {
  return verdict == Verdict::kEffect     ? "effect"
         : verdict == Verdict::kRecorded ? "recorded"
                                         : "refused";
}

}  // namespace

Result<const ConfigRow*> AdmitConfig(const BackendTraits& traits, ConfigScope scope,
                                     uint32_t option, uint8_t call) {
  for (const ConfigRow& row : AllConfigRows()) {
    if (row.scope != scope || row.option != option) continue;
    if (VerdictOf(traits, row) == Verdict::kRefused) {
      return Error(row.refuse, "%s config %s is not supported by this backend", Info(scope).name,
                   ShortName(row.name));
    }
    if ((row.calls & call) == 0) {
      return Error(Info(scope).invalid, "%s config %s is not for this call: %s", Info(scope).name,
                   ShortName(row.name),
                   call == kAtSet      ? "give it when creating"
                   : call == kAtCreate ? "it says what to do with a binary"
                                       : "it is not for a binary");
    }
    return &row;
  }
  return Error(Info(scope).unsupported, "%s config option %u is unknown", Info(scope).name, option);
}

Status InvalidConfig(const ConfigRow& row, const std::string& message) {
  return Error(Info(row.scope).invalid, "%s config %s: %s", Info(row.scope).name,
               ShortName(row.name), message.c_str());
}

void WriteRecord(const ConfigRecord& record, JsonWriter* json) {
  for (const auto& [row, value] : record) json->Key(ShortName(row->name)).Raw(value);
}

std::string ConfigTableJson() {
  JsonWriter json;
  json.Array();
  for (const ConfigRow& row : AllConfigRows()) {
    json.Object().Key("scope").String(Info(row.scope).name);
    json.Key("option").Number(row.option).Key("name").String(row.name);
    json.Key("short").String(ShortName(row.name)).Key("values").String(row.values);
    json.Key("cpu").String(VerdictName(row.cpu)).Key("htp").String(VerdictName(row.htp));
    json.Key("lpai").String(VerdictName(row.lpai)).Key("gpu").String(VerdictName(row.gpu));
    json.Key("calls").Array();
    if (row.calls & kAtCreate) json.String("create");
    if (row.calls & kAtCreateFromBinary) json.String("binary");
    if (row.calls & kAtSet) json.String("set");
    json.End().Key("refused").Number(row.refuse).Key("invalid").Number(Info(row.scope).invalid);
    json.Key("note").String(row.note).End();
  }
  return json.End().Take();
}

}  // namespace qnnrt
