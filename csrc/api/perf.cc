#include "api/perf.h"

#include <map>
#include <mutex>

#include "api/config_table.h"
#include "api/device.h"
#include "api/functions.h"

namespace qnnrt {
namespace {

struct PowerId {
  uint32_t device = 0;
  uint32_t core = 0;
  uint64_t sets = 0;
  ConfigRecord record;
};

struct Perf {
  std::mutex mutex;
  uint32_t next_id = 1;
  uint64_t created = 0, destroyed = 0, sets = 0, memory_sets = 0;
  std::map<uint32_t, PowerId> ids;
  ConfigRecord memory;
};

Perf& State() {
  static Perf* perf = new Perf;
  return *perf;
}

const char* VoltageName(uint32_t corner) {
  switch (corner) {
    case DCVS_VOLTAGE_CORNER_DISABLE:
      return "DISABLE";
    case DCVS_VOLTAGE_VCORNER_MIN_VOLTAGE_CORNER:
      return "MIN";
    case DCVS_VOLTAGE_VCORNER_SVS2:
      return "SVS2";
    case DCVS_VOLTAGE_VCORNER_SVS:
      return "SVS";
    case DCVS_VOLTAGE_VCORNER_SVS_PLUS:
      return "SVS_PLUS";
    case DCVS_VOLTAGE_VCORNER_NOM:
      return "NOM";
    case DCVS_VOLTAGE_VCORNER_NOM_PLUS:
      return "NOM_PLUS";
    case DCVS_VOLTAGE_VCORNER_TURBO:
      return "TURBO";
    case DCVS_VOLTAGE_VCORNER_TURBO_PLUS:
      return "TURBO_PLUS";
    case DCVS_VOLTAGE_VCORNER_TURBO_L2:
      return "TURBO_L2";
    case DCVS_VOLTAGE_VCORNER_TURBO_L3:
      return "TURBO_L3";
    case DCVS_VOLTAGE_VCORNER_TURBO_L4:
      return "TURBO_L4";
    case DCVS_VOLTAGE_VCORNER_TURBO_L5:
      return "TURBO_L5";
    case DCVS_VOLTAGE_VCORNER_MAX_VOLTAGE_CORNER:
      return "MAX";
    default:
      return nullptr;
  }
}

const char* PowerModeName(uint32_t mode) {
  switch (mode) {
    case QNN_HTP_PERF_INFRASTRUCTURE_POWERMODE_ADJUST_UP_DOWN:
      return "ADJUST_UP_DOWN";
    case QNN_HTP_PERF_INFRASTRUCTURE_POWERMODE_ADJUST_ONLY_UP:
      return "ADJUST_ONLY_UP";
    case QNN_HTP_PERF_INFRASTRUCTURE_POWERMODE_POWER_SAVER_MODE:
      return "POWER_SAVER_MODE";
    case QNN_HTP_PERF_INFRASTRUCTURE_POWERMODE_POWER_SAVER_AGGRESSIVE_MODE:
      return "POWER_SAVER_AGGRESSIVE_MODE";
    case QNN_HTP_PERF_INFRASTRUCTURE_POWERMODE_PERFORMANCE_MODE:
      return "PERFORMANCE_MODE";
    case QNN_HTP_PERF_INFRASTRUCTURE_POWERMODE_DUTY_CYCLE_MODE:
      return "DUTY_CYCLE_MODE";
    default:
      return nullptr;
  }
}

Status WriteCorners(const ConfigRow& row, const char* key, uint32_t set, uint32_t min,
                    uint32_t target, uint32_t max, JsonWriter* json) {
  if (set == 0) return Status::Ok();
  json->Key(key).Array();
  for (uint32_t corner : {min, target, max}) {
    if (VoltageName(corner) == nullptr)
      return InvalidConfig(
          row, std::string(key) + ": there is no voltage corner " + std::to_string(corner));
    json->String(VoltageName(corner));
  }
  json->End();
  return Status::Ok();
}

Result<std::string> ReadDcvs(const ConfigRow& row, const QnnHtpPerfInfrastructure_DcvsV3_t& c,
                             const std::map<uint32_t, PowerId>& ids) {
  if (ids.count(c.contextId) == 0)
    return InvalidConfig(row, "contextId " + std::to_string(c.contextId) +
                                  " is no power config id: use one of createPowerConfigId");
  JsonWriter json;
  json.Object().Key("contextId").Number(c.contextId);
  if (c.setDcvsEnable != 0) {
    if (PowerModeName(c.powerMode) == nullptr)
      return InvalidConfig(row, "there is no power mode " + std::to_string(c.powerMode));
    json.Key("dcvsEnable").Bool(c.dcvsEnable != 0);
    json.Key("powerMode").String(PowerModeName(c.powerMode));
  }
  if (c.setSleepLatency != 0) json.Key("sleepLatency").Number(c.sleepLatency);
  if (c.setSleepDisable != 0) json.Key("sleepDisable").Number(c.sleepDisable);
  QNNRT_RETURN_IF_ERROR(WriteCorners(row, "bus", c.setBusParams, c.busVoltageCornerMin,
                                     c.busVoltageCornerTarget, c.busVoltageCornerMax, &json));
  QNNRT_RETURN_IF_ERROR(WriteCorners(row, "core", c.setCoreParams, c.coreVoltageCornerMin,
                                     c.coreVoltageCornerTarget, c.coreVoltageCornerMax, &json));
  return json.End().Take();
}

Result<std::string> ReadHmx(const ConfigRow& row, const QnnHtpPerfInfrastructure_HmxV2_t& c) {
  if (c.hmxPerfMode != QNN_HTP_PERF_INFRASTRUCTURE_CLK_PERF_HIGH &&
      c.hmxPerfMode != QNN_HTP_PERF_INFRASTRUCTURE_CLK_PERF_LOW)
    return InvalidConfig(row, "hmxPerfMode is HIGH (0) or LOW (1)");
  return JsonWriter()
      .Object()
      .Key("hmxPickDefault")
      .Number(c.hmxPickDefault)
      .Key("hmxVoltageCorners")
      .Array()
      .Number(static_cast<uint32_t>(c.hmxVoltageCornerMin))
      .Number(static_cast<uint32_t>(c.hmxVoltageCornerTarget))
      .Number(static_cast<uint32_t>(c.hmxVoltageCornerMax))
      .End()
      .Key("hmxPerfMode")
      .String(c.hmxPerfMode == QNN_HTP_PERF_INFRASTRUCTURE_CLK_PERF_HIGH ? "HIGH" : "LOW")
      .End()
      .Take();
}

Result<std::string> ReadPower(const ConfigRow& row, const QnnHtpPerfInfrastructure_PowerConfig_t& c,
                              const std::map<uint32_t, PowerId>& ids) {
  switch (c.option) {
    case QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_DCVS_V3:
      return ReadDcvs(row, c.dcvsV3Config, ids);
    case QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_HMX_V2:
      return ReadHmx(row, c.hmxV2Config);
    default:
      return std::to_string(c.rpcPollingTimeConfig);  // the others are all one number
  }
}

// What the devices' architecture does not support, as seen on the vendor's simulator for v68.
Status CheckArch(const ConfigRow& row, uint32_t arch) {
  if ((row.option == QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_HMX_V2 ||
       row.option == QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_DDR_PERF_MODE) &&
      arch <= QNN_HTP_DEVICE_ARCH_V68) {
    return InvalidConfig(row, "not on architecture " + std::to_string(arch))
        .WithCode(QNN_HTP_PERF_INFRASTRUCTURE_ERROR_UNSUPPORTED);
  }
  return Status::Ok();
}

uint32_t HighestArch() {
  uint32_t arch = 0;
  bool any = false;
  Runtime::Get().devices.ForEach([&](DeviceObject& object) {
    std::lock_guard<std::mutex> lock(object.device->mutex);
    arch = std::max(arch, object.device->options.arch());
    any = true;
  });
  return any ? arch : DefaultSoc().arch;
}

Status CheckCore(uint32_t device, uint32_t core) {
  if (device == 0 && core == 0) return Status::Ok();
  return Error(QNN_HTP_PERF_INFRASTRUCTURE_ERROR_INVALID_INPUT,
               "there is device 0 with core 0, got device %u and core %u", device, core);
}

Status NoList() {
  return Status(QNN_HTP_PERF_INFRASTRUCTURE_ERROR_INVALID_INPUT,
                "the list of configs must not be null");
}

Qnn_ErrorHandle_t CreateId(uint32_t device, uint32_t core, uint32_t* id) {
  return Guarded([&] {
    if (id == nullptr)
      return Report(Status(QNN_HTP_PERF_INFRASTRUCTURE_ERROR_INVALID_HANDLE_PTR,
                           "the power config id to fill in must not be null"));
    *id = 0;
    Status status = CheckCore(device, core);
    if (!status.ok()) return Report(status);
    Perf& perf = State();
    std::lock_guard<std::mutex> lock(perf.mutex);
    while (perf.next_id == 0 || perf.ids.count(perf.next_id) != 0) ++perf.next_id;
    PowerId entry;
    entry.device = device;
    entry.core = core;
    perf.ids.emplace(perf.next_id, std::move(entry));
    *id = perf.next_id++;
    ++perf.created;
    return Qnn_ErrorHandle_t{QNN_SUCCESS};
  });
}

Status NoId(uint32_t id) {
  return Error(QNN_HTP_PERF_INFRASTRUCTURE_ERROR_INVALID_INPUT,
               "there is no power config id %u: create one, it lives until it is destroyed", id);
}

Qnn_ErrorHandle_t DestroyId(uint32_t id) {
  return Guarded([&] {
    Perf& perf = State();
    std::lock_guard<std::mutex> lock(perf.mutex);
    if (perf.ids.erase(id) == 0) return Report(NoId(id));
    ++perf.destroyed;
    return Qnn_ErrorHandle_t{QNN_SUCCESS};
  });
}

Qnn_ErrorHandle_t SetPower(uint32_t id, const QnnHtpPerfInfrastructure_PowerConfig_t** config) {
  return Guarded([&] {
    if (config == nullptr) return Report(NoList());
    uint32_t arch = HighestArch();
    Perf& perf = State();
    std::lock_guard<std::mutex> lock(perf.mutex);
    auto entry = perf.ids.find(id);
    if (entry == perf.ids.end()) return Report(NoId(id));
    ConfigRecord record = entry->second.record;
    Status status =
        api::ForEachConfig(config, [&](const QnnHtpPerfInfrastructure_PowerConfig_t& c) -> Status {
          QNNRT_ASSIGN_OR_RETURN(
              const ConfigRow* row,
              AdmitConfig(HtpBackend(), ConfigScope::kHtpPower, c.option, kAtSet));
          QNNRT_RETURN_IF_ERROR(CheckArch(*row, arch));
          QNNRT_ASSIGN_OR_RETURN(record[row], ReadPower(*row, c, perf.ids));
          return Status::Ok();
        });
    if (!status.ok()) return Report(status);
    entry->second.record = std::move(record);
    ++entry->second.sets;
    ++perf.sets;
    return Qnn_ErrorHandle_t{QNN_SUCCESS};
  });
}

Qnn_ErrorHandle_t SetMemory(uint32_t device, uint32_t core,
                            const QnnHtpPerfInfrastructure_MemoryConfig_t** config) {
  return Guarded([&] {
    if (config == nullptr) return Report(NoList());
    Status status = CheckCore(device, core);
    if (!status.ok()) return Report(status);
    Perf& perf = State();
    std::lock_guard<std::mutex> lock(perf.mutex);
    ConfigRecord record = perf.memory;
    status =
        api::ForEachConfig(config, [&](const QnnHtpPerfInfrastructure_MemoryConfig_t& c) -> Status {
          QNNRT_ASSIGN_OR_RETURN(
              const ConfigRow* row,
              AdmitConfig(HtpBackend(), ConfigScope::kHtpMemory, c.option, kAtSet));
          record[row] = std::to_string(c.memGrowSizeConfig);
          return Status::Ok();
        });
    if (!status.ok()) return Report(status);
    perf.memory = std::move(record);
    ++perf.memory_sets;
    return Qnn_ErrorHandle_t{QNN_SUCCESS};
  });
}

}  // namespace

const QnnHtpDevice_Infrastructure_t& PerfInfrastructure() {
  static const QnnHtpDevice_Infrastructure_t infrastructure = [] {
    QnnHtpDevice_Infrastructure_t i;
    i.infraType = QNN_HTP_DEVICE_INFRASTRUCTURE_TYPE_PERF;
    i.perfInfra = {CreateId, DestroyId, SetPower, SetMemory};
    return i;
  }();
  return infrastructure;
}

void DescribePerf(JsonWriter* json) {
  Perf& perf = State();
  std::lock_guard<std::mutex> lock(perf.mutex);
  json->Key("power_configs").Array();
  for (const auto& [id, power] : perf.ids) {
    json->Object().Key("id").Number(id).Key("device").Number(power.device);
    json->Key("core").Number(power.core).Key("sets").Number(power.sets).Key("configs").Object();
    WriteRecord(power.record, json);
    json->End().End();
  }
  json->End().Key("memory_configs").Object();
  WriteRecord(perf.memory, json);
  json->End().Key("power_counts").Object();
  json->Key("created").Number(perf.created).Key("destroyed").Number(perf.destroyed);
  json->Key("sets").Number(perf.sets).Key("memory_sets").Number(perf.memory_sets).End();
}

}  // namespace qnnrt
