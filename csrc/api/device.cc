#include "api/device.h"

#include <cstring>

#include "api/functions.h"
#include "api/perf.h"

namespace qnnrt {
namespace {

Status StaleDevice() {
  return Status(QNN_DEVICE_ERROR_INVALID_HANDLE, "this is no live device handle");
}

std::mutex& GlobalMutex() {
  static std::mutex* mutex = new std::mutex;
  return *mutex;
}
// Guarded by GlobalMutex.
HtpSoc& GlobalSoc() {
  static HtpSoc soc = kDefaultHtpSoc;
  return soc;
}
// Platform infos that clients hold, by address. Guarded by GlobalMutex.
std::map<const void*, std::unique_ptr<PlatformInfo>>& GivenOut() {
  static auto* infos = new std::map<const void*, std::unique_ptr<PlatformInfo>>;
  return *infos;
}

void DescribeDevice(Device* device, JsonWriter* json) {
  std::lock_guard<std::mutex> lock(device->mutex);
  json->Object().Key("soc_model").Number(device->options.soc.model);
  json->Key("arch").Number(device->options.arch());
  json->Key("vtcm_mb").Number(device->options.soc.vtcm_mb);
  json->Key("contexts").Number(device->contexts);
  json->Key("configs").Object();
  WriteRecord(device->options.record, json);
  json->End().End();
}

void DescribeGraph(const std::string& name, GraphObject* graph, JsonWriter* json) {
  json->Object().Key("name").String(name);
  {
    std::lock_guard<std::mutex> lock(graph->settings_mutex);
    json->Key("priority").String(PriorityName(graph->settings.priority)).Key("configs").Object();
    WriteRecord(graph->settings.record, json);
    json->End();
  }
  const GraphStats stats = graph->graph.stats();
  json->Key("executes").Number(stats.executes);
  json->Key("copied_bytes").Number(stats.staging.copied_in + stats.staging.copied_out);
  json->Key("reserved_bytes")
      .Number(stats.staging.reserved_at_finalize + stats.staging.reserved_at_execute)
      .End();
}

void DescribeUser(Context* context, JsonWriter* json) {
  using GraphPin = decltype(Runtime::graphs)::Pin;
  std::vector<std::pair<std::string, GraphPin>> graphs;
  {
    std::lock_guard<std::mutex> lock(context->mutex);
    json->Object().Key("priority").String(PriorityName(context->options.priority));
    json->Key("configs").Object();
    WriteRecord(context->options.record, json);
    json->End();
    for (const auto& [name, handle] : context->graphs) {
      GraphPin graph = Runtime::Get().graphs.Find(handle);
      if (graph) graphs.emplace_back(name, std::move(graph));
    }
  }
  json->Key("graphs").Array();
  // With no lock held: a graph's counters wait for its execution.
  for (const auto& [name, graph] : graphs) DescribeGraph(name, &*graph, json);
  json->End().End();
}

}  // namespace

PlatformInfo::PlatformInfo(const DeviceOptions& options) {
  std::memset(&extension, 0, sizeof(extension));
  extension.devType = QNN_HTP_DEVICE_TYPE_ON_CHIP;
  extension.onChipDevice.vtcmSize = options.soc.vtcm_mb;
  extension.onChipDevice.socModel = options.soc.model;
  extension.onChipDevice.arch = static_cast<QnnHtpDevice_Arch_t>(options.arch());
  core.version = QNN_DEVICE_CORE_INFO_VERSION_1;
  core.v1 = {0, QNN_HTP_CORE_TYPE_NSP, nullptr};
  device.version = QNN_DEVICE_HARDWARE_DEVICE_INFO_VERSION_1;
  device.v1 = {0, 0, 1, &core, &extension};
  info.version = QNN_DEVICE_PLATFORM_INFO_VERSION_1;
  info.v1 = {1, &device};
}

HtpSoc DefaultSoc() {
  std::lock_guard<std::mutex> lock(GlobalMutex());
  return GlobalSoc();
}

Result<DeviceUse> UseDevice(const BackendTraits& traits, Qnn_DeviceHandle_t handle) {
  if (handle == nullptr || !traits.has_device) return DeviceUse();
  auto object = Runtime::Get().devices.Find(handle);
  if (!object) return Status(QNN_CONTEXT_ERROR_INVALID_HANDLE, "this is no live device handle");
  std::lock_guard<std::mutex> lock(object->device->mutex);
  if (object->device->freed)
    return Status(QNN_CONTEXT_ERROR_INVALID_HANDLE, "the device is being freed");
  ++object->device->contexts;
  return DeviceUse(object->device);
}

Qnn_ErrorHandle_t SetGlobalConfig(const BackendTraits& traits, const QnnGlobalConfig_t** config) {
  return Guarded([&] {
    std::lock_guard<std::mutex> lock(GlobalMutex());
    HtpSoc soc = GlobalSoc();
    Status status = api::ForEachConfig(config, [&](const QnnGlobalConfig_t& c) -> Status {
      QNNRT_ASSIGN_OR_RETURN(const ConfigRow* row,
                             AdmitConfig(traits, ConfigScope::kGlobal, c.option, kAtSet));
      return SetSoc(*row, c.socModel, &soc);
    });
    if (status.ok()) GlobalSoc() = soc;
    return Report(status);
  });
}

std::string DescribeHtp(Qnn_DeviceHandle_t handle) {
  JsonWriter json;
  const Device* wanted = nullptr;
  json.Object().Key("devices").Array();
  if (handle != nullptr) {
    auto object = Runtime::Get().devices.Find(handle);
    if (!object) return {};
    wanted = object->device.get();
    DescribeDevice(object->device.get(), &json);
  } else {
    Runtime::Get().devices.ForEach(
        [&](DeviceObject& object) { DescribeDevice(object.device.get(), &json); });
  }
  json.End().Key("contexts").Array();
  std::vector<std::shared_ptr<Context>> contexts;
  Runtime::Get().contexts.ForEach([&](ContextObject& object) {
    const Context& context = *object.context;
    if (!context.backend->traits->has_device) return;
    if (handle == nullptr || context.device.get() == wanted) contexts.push_back(object.context);
  });
  for (const std::shared_ptr<Context>& context : contexts) DescribeUser(context.get(), &json);
  json.End();
  {
    std::lock_guard<std::mutex> lock(GlobalMutex());
    json.Key("platform_infos").Number(GivenOut().size());
    json.Key("default_soc_model").Number(GlobalSoc().model);
  }
  DescribePerf(&json);
  return json.End().Take();
}

namespace api {
namespace {

Status CheckLog(Qnn_LogHandle_t handle, std::shared_ptr<Log>* log) {
  if (handle == nullptr) return Status::Ok();
  auto object = Runtime::Get().logs.Find(handle);
  if (!object) return Status(QNN_DEVICE_ERROR_INVALID_ARGUMENT, "the log handle is not live");
  *log = object->log;
  return Status::Ok();
}

Qnn_ErrorHandle_t GetPlatformInfo(Qnn_LogHandle_t log_handle,
                                  const QnnDevice_PlatformInfo_t** info) {
  return Guarded([&] {
    if (info == nullptr)
      return Report(Status(QNN_DEVICE_ERROR_INVALID_ARGUMENT, "info must not be null"));
    *info = nullptr;
    std::shared_ptr<Log> log;
    Status status = CheckLog(log_handle, &log);
    if (!status.ok()) return Report(status);
    DeviceOptions options;
    options.soc = DefaultSoc();
    auto platform = std::make_unique<PlatformInfo>(options);
    const QnnDevice_PlatformInfo_t* given = &platform->info;
    std::lock_guard<std::mutex> lock(GlobalMutex());
    GivenOut()[given] = std::move(platform);
    *info = given;
    return Qnn_ErrorHandle_t{QNN_SUCCESS};
  });
}

Qnn_ErrorHandle_t FreePlatformInfo(Qnn_LogHandle_t, const QnnDevice_PlatformInfo_t* info) {
  return Guarded([&] {
    std::lock_guard<std::mutex> lock(GlobalMutex());
    if (GivenOut().erase(info) == 0)
      return Report(Status(QNN_DEVICE_ERROR_INVALID_ARGUMENT,
                           "this is no platform info that deviceGetPlatformInfo gave, or it was "
                           "freed; what deviceGetInfo gives goes with its device"));
    return Qnn_ErrorHandle_t{QNN_SUCCESS};
  });
}

// The type in the function table is the pointer to an opaque pointer; what a client passes is where
// the pointer to the struct goes.
Qnn_ErrorHandle_t GetInfrastructure(const QnnDevice_Infrastructure_t* infrastructure) {
  return Guarded([&] {
    if (infrastructure == nullptr)
      return Report(Status(QNN_DEVICE_ERROR_INVALID_ARGUMENT, "infrastructure must not be null"));
    *const_cast<const void**>(reinterpret_cast<const void* const*>(infrastructure)) =
        &PerfInfrastructure();
    return Qnn_ErrorHandle_t{QNN_SUCCESS};
  });
}

Qnn_ErrorHandle_t Create(const BackendTraits& traits, Qnn_LogHandle_t log_handle,
                         const QnnDevice_Config_t** config, Qnn_DeviceHandle_t* handle) {
  return Guarded([&] {
    if (handle == nullptr)
      return Report(Status(QNN_DEVICE_ERROR_INVALID_ARGUMENT,
                           "the device handle to fill in must not be null"));
    *handle = nullptr;
    auto device = std::make_shared<Device>();
    device->traits = &traits;
    device->options.soc = DefaultSoc();
    Status status = CheckLog(log_handle, &device->log);
    if (status.ok()) status = ReadDeviceConfig(traits, config, kAtCreate, &device->options);
    if (!status.ok()) return Report(status, device->log.get());
    auto object = std::make_unique<DeviceObject>();
    object->device = std::move(device);
    *handle = Runtime::Get().devices.Add(std::move(object));
    if (*handle == nullptr)
      return Report(Status(QNN_DEVICE_ERROR_MEM_ALLOC, "too many live devices"));
    return Qnn_ErrorHandle_t{QNN_SUCCESS};
  });
}

Qnn_ErrorHandle_t SetConfig(Qnn_DeviceHandle_t handle, const QnnDevice_Config_t** config) {
  return Guarded([&] {
    auto object = Runtime::Get().devices.Find(handle);
    if (!object) return Report(StaleDevice());
    Device& device = *object->device;
    auto set = [&] {
      std::lock_guard<std::mutex> lock(device.mutex);
      return ReadDeviceConfig(*device.traits, config, kAtSet, &device.options);
    };
    return Report(set(), device.log.get());
  });
}

Qnn_ErrorHandle_t GetInfo(Qnn_DeviceHandle_t handle, const QnnDevice_PlatformInfo_t** info) {
  return Guarded([&] {
    if (info == nullptr)
      return Report(Status(QNN_DEVICE_ERROR_INVALID_ARGUMENT, "info must not be null"));
    *info = nullptr;
    auto object = Runtime::Get().devices.Find(handle);
    if (!object) return Report(StaleDevice());
    Device& device = *object->device;
    std::lock_guard<std::mutex> lock(device.mutex);
    if (device.info == nullptr) device.info = std::make_unique<PlatformInfo>(device.options);
    // In place, so that pointers that were given out stay valid and see the change.
    const QnnHtpDevice_DeviceInfoExtension_t now = PlatformInfo(device.options).extension;
    device.info->extension = now;
    *info = &device.info->info;
    return Qnn_ErrorHandle_t{QNN_SUCCESS};
  });
}

Qnn_ErrorHandle_t FreeDevice(Qnn_DeviceHandle_t handle) {
  return Guarded([&] {
    using Table = decltype(Runtime::devices);
    std::shared_ptr<Device> device;
    {
      auto object = Runtime::Get().devices.Find(handle);
      if (!object) return Report(StaleDevice());
      device = object->device;
      uint32_t contexts;
      {
        std::lock_guard<std::mutex> lock(device->mutex);
        contexts = device->contexts;
        if (contexts == 0) device->freed = true;  // no context takes it any more
      }
      if (contexts > 0) {
        return Report(Error(QNN_DEVICE_ERROR_ASSOCIATED_TO_CONTEXT,
                            "the device is in use by %u contexts: free them first", contexts),
                      device->log.get());
      }
    }
    std::unique_ptr<DeviceObject> object;
    switch (Runtime::Get().devices.Take(handle, &object)) {
      case Table::Taken::kYes:
        return Qnn_ErrorHandle_t{QNN_SUCCESS};
      case Table::Taken::kBusy: {
        std::lock_guard<std::mutex> lock(device->mutex);
        device->freed = false;
        return Report(Status(QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
                             "the device is in use by a call on another thread"));
      }
      default:
        return Report(StaleDevice());
    }
  });
}

}  // namespace

Qnn_ErrorHandle_t DeviceCreate(const BackendTraits& traits, Qnn_LogHandle_t log,
                               const QnnDevice_Config_t** config, Qnn_DeviceHandle_t* device) {
  if (traits.has_device) return Create(traits, log, config, device);
  if (device != nullptr) *device = nullptr;
  return QNN_DEVICE_ERROR_UNSUPPORTED_FEATURE;
}

void FillDevice(const BackendTraits& traits, QnnInterface_ImplementationV2_32_t* table) {
  if (traits.has_device) {
    table->deviceGetPlatformInfo = GetPlatformInfo;
    table->deviceFreePlatformInfo = FreePlatformInfo;
    table->deviceGetInfrastructure = GetInfrastructure;
    table->deviceSetConfig = SetConfig;
    table->deviceGetInfo = GetInfo;
    table->deviceFree = FreeDevice;
    return;
  }
  // propertyHasCapability(GROUP_DEVICE) says so.
  constexpr ErrorCode kNo = QNN_DEVICE_ERROR_UNSUPPORTED_FEATURE;
  Refuse<kNo>(&table->deviceGetPlatformInfo);
  Refuse<kNo>(&table->deviceFreePlatformInfo);
  Refuse<kNo>(&table->deviceGetInfrastructure);
  Refuse<kNo>(&table->deviceSetConfig);
  Refuse<kNo>(&table->deviceGetInfo);
  Refuse<kNo>(&table->deviceFree);
}

}  // namespace api
}  // namespace qnnrt
