#include "api/config_lpai.h"

#include "api/runtime.h"
#include "support/number_of.h"

namespace qnnrt {
namespace {

std::string Text(int64_t number) { return std::to_string(number); }

Status NullConfig(const ConfigRow& row) {
  return InvalidConfig(row, "its config must not be null");
}

// ---- context ----

Result<std::string> ReadMemType(const ConfigRow& row, const LpaiSettings& lpai, const void* config,
                                ContextOptions* options) {
  if (config == nullptr) return NullConfig(row);
  const auto& wanted = *static_cast<const QnnLpaiMem_MemType_t*>(config);
  const uint32_t number = NumberOf(wanted);
  if (number != QNN_LPAI_MEM_TYPE_DDR && number != QNN_LPAI_MEM_TYPE_TCM) {
    const char* name = LpaiMemTypeName(number);
    return InvalidConfig(row, "a model lies in DDR (1) or TCM (3), got " +
                                  (name == nullptr ? NumberText(wanted) : std::string(name)));
  }
  const auto type = static_cast<QnnLpaiMem_MemType_t>(number);
  if (type == QNN_LPAI_MEM_TYPE_TCM && !lpai.direct_mode)
    return InvalidConfig(row,
                         "TCM is within reach in direct mode alone (platform option "
                         "'direct_mode:adsp')");
  options->lpai_model_memory = type;
  return JsonWriter().String(LpaiMemTypeName(type)).Take();
}

// ---- graph ----

Result<std::string> ReadPerf(const ConfigRow& row, const void* config, LpaiGraphSettings* lpai) {
  if (config == nullptr) return NullConfig(row);
  const auto& perf = *static_cast<const QnnLpaiGraph_PerfCfg_t*>(config);
  if (perf.fps < 1) return InvalidConfig(row, "fps is 1 or more, got 0");
  if (perf.ftrtRatio < 1) return InvalidConfig(row, "ftrtRatio is 1 or more, got 0");
  const uint32_t client = NumberOf(perf.clientType);
  if (client != QNN_LPAI_GRAPH_CLIENT_PERF_TYPE_REAL_TIME &&
      client != QNN_LPAI_GRAPH_CLIENT_PERF_TYPE_NON_REAL_TIME) {
    return InvalidConfig(row, "clientType is REAL_TIME (1) or NON_REAL_TIME (2), got " +
                                  NumberText(perf.clientType));
  }
  lpai->perf = perf;
  return LpaiJson(perf);
}

Result<std::string> ReadAffinity(const ConfigRow& row, uint32_t cores, const void* config,
                                 LpaiGraphSettings* lpai) {
  if (config == nullptr) return NullConfig(row);
  const auto& affinity = *static_cast<const QnnLpaiGraph_CoreAffinity_t*>(config);
  const uint32_t kind = NumberOf(affinity.affinity);
  if (kind != QNN_LPAI_GRAPH_CORE_AFFINITY_SOFT && kind != QNN_LPAI_GRAPH_CORE_AFFINITY_HARD)
    return InvalidConfig(row,
                         "affinity is SOFT (1) or HARD (2), got " + NumberText(affinity.affinity));
  const uint32_t selected = affinity.coreSelection;
  if ((selected & (selected - 1)) != 0 || uint64_t{selected} >> cores != 0) {
    return InvalidConfig(row, "coreSelection is 0 (any core) or the bit of one of the " +
                                  Text(cores) + " cores, got " + Text(selected));
  }
  lpai->affinity = affinity;
  return LpaiJson(affinity);
}

Result<std::string> ReadPool(const ConfigRow& row, const void* config,
                             std::optional<LpaiPool>* pool) {
  if (config == nullptr) return NullConfig(row);
  const auto& memory = *static_cast<const QnnLpaiGraph_Mem_t*>(config);
  const uint32_t type = NumberOf(memory.memType);
  if (type != QNN_LPAI_MEM_TYPE_DDR) {
    const char* name = LpaiMemTypeName(type);
    return InvalidConfig(row,
                         "scratch and persistent memory are always in DDR (1), got " +
                             (name == nullptr ? NumberText(memory.memType) : std::string(name)));
  }
  if (memory.addr == nullptr && memory.size != 0) {
    return InvalidConfig(
        row, Text(memory.size) + " bytes at no address: memory is taken away with size 0");
  }
  *pool = LpaiPool{memory.addr, memory.size};
  return LpaiJson(**pool);
}

Result<std::string> ReadPrepare(const ConfigRow& row, const void* config) {
  if (config == nullptr) return NullConfig(row);
  const auto& prepare = *static_cast<const QnnLpaiGraph_CustomConfigPrepare_t*>(config);
  if (prepare.enablePerLayer > 1)
    return InvalidConfig(row, "enablePerLayer is 0 or 1, got " + Text(prepare.enablePerLayer));
  JsonWriter json;
  json.Object().Key("enablePerLayer").Number(prepare.enablePerLayer);
  if (prepare.enableCoreSelection != nullptr)
    json.Key("enableCoreSelection").String(prepare.enableCoreSelection);
  return json.End().Take();
}

}  // namespace

std::string LpaiJson(const QnnLpaiGraph_PerfCfg_t& perf) {
  JsonWriter json;
  json.Object().Key("fps").Number(perf.fps).Key("ftrt_ratio").Number(perf.ftrtRatio);
  json.Key("client_type")
      .String(perf.clientType == QNN_LPAI_GRAPH_CLIENT_PERF_TYPE_REAL_TIME ? "real_time"
                                                                           : "non_real_time");
  return json.End().Take();
}

std::string LpaiJson(const QnnLpaiGraph_CoreAffinity_t& affinity) {
  JsonWriter json;
  json.Object()
      .Key("affinity")
      .String(affinity.affinity == QNN_LPAI_GRAPH_CORE_AFFINITY_SOFT ? "soft" : "hard");
  return json.Key("core_selection").Number(affinity.coreSelection).End().Take();
}

std::string LpaiJson(const LpaiPool& pool) {
  JsonWriter json;
  json.Object().Key("address").Number(reinterpret_cast<uintptr_t>(pool.address));
  return json.Key("size").Number(pool.size).End().Take();
}

Status ReadLpaiBackendConfig(const BackendTraits& traits, const void* custom, uint8_t call,
                             LpaiSettings* settings, ConfigRecord* record) {
  const auto& c = *static_cast<const QnnLpaiBackend_CustomConfig_t*>(custom);
  QNNRT_ASSIGN_OR_RETURN(const ConfigRow* row,
                         AdmitConfig(traits, ConfigScope::kLpaiBackend, c.option, call));
  if (c.config == nullptr) return NullConfig(*row);
  const auto& info = *static_cast<const QnnLpaiBackend_CustomConfigHwInfo_t*>(c.config);
  const char* target = LpaiTargetName(NumberOf(info.lpaiTarget));
  if (target == nullptr)
    return InvalidConfig(
        *row, "lpaiTarget is from X86 (0) to TENSILICA (3), got " + NumberText(info.lpaiTarget));
  const char* version = LpaiVersionName(NumberOf(info.hwVersion));
  if (version == nullptr) {
    return InvalidConfig(*row, "hwVersion is from V1 (1) to V7 (7) or V5_1 (65541), got " +
                                   NumberText(info.hwVersion));
  }
  settings->target = info.lpaiTarget;
  settings->version = info.hwVersion;
  (*record)[row] = JsonWriter()
                       .Object()
                       .Key("target")
                       .String(target)
                       .Key("version")
                       .String(version)
                       .End()
                       .Take();
  return Status::Ok();
}

Status ReadLpaiContextConfig(const Backend& backend, const void* custom, uint8_t call,
                             ContextOptions* options) {
  const auto& c = *static_cast<const QnnLpaiContext_CustomConfig_t*>(custom);
  QNNRT_ASSIGN_OR_RETURN(const ConfigRow* row,
                         AdmitConfig(*backend.traits, ConfigScope::kLpaiContext, c.option, call));
  if (c.option == QNN_LPAI_CONTEXT_SET_CFG_MODEL_BUFFER_MEM_TYPE) {
    QNNRT_ASSIGN_OR_RETURN(options->record[row],
                           ReadMemType(*row, backend.lpai, c.config, options));
    return Status::Ok();
  }
  // ENABLE_ISLAND. The first byte of a bool and of a number is all that has to be looked at.
  const bool island = c.config == nullptr || *static_cast<const uint8_t*>(c.config) != 0;
  options->record[row] = island ? "true" : "false";
  return Status::Ok();
}

Status ReadLpaiGraphConfig(const Backend& backend, const void* custom, uint8_t call,
                           GraphSettings* settings) {
  const auto& c = *static_cast<const QnnLpaiGraph_CustomConfig_t*>(custom);
  QNNRT_ASSIGN_OR_RETURN(const ConfigRow* row,
                         AdmitConfig(*backend.traits, ConfigScope::kLpaiGraph, c.option, call));
  const auto read = [&]() -> Result<std::string> {
    switch (c.option) {
      case QNN_LPAI_GRAPH_SET_CFG_SCRATCH_MEM:
        return ReadPool(*row, c.config, &settings->scratch);
      case QNN_LPAI_GRAPH_SET_CFG_PERSISTENT_MEM:
        return ReadPool(*row, c.config, &settings->persistent);
      case QNN_LPAI_GRAPH_SET_CFG_PERF_CFG:
        return ReadPerf(*row, c.config, &settings->lpai);
      case QNN_LPAI_GRAPH_SET_CFG_CORE_AFFINITY:
        return ReadAffinity(*row, backend.lpai.CoreCount(), c.config, &settings->lpai);
      default:
        settings->prepares = true;
        return ReadPrepare(*row, c.config);
    }
  };
  QNNRT_ASSIGN_OR_RETURN(settings->record[row], read());
  return Status::Ok();
}

}  // namespace qnnrt
