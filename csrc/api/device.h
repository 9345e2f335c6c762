// The htp backend's device: its platform info, and the contexts that use it.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "abi/qnn_htp.h"
#include "abi/qnn_objects.h"
#include "api/config_table.h"
#include "backends/htp_soc.h"

namespace qnnrt {

class Log;
struct Context;

struct DeviceOptions {
  HtpSoc soc = kDefaultHtpSoc;
  uint32_t min_arch = 0;
  ConfigRecord record;

  uint32_t arch() const { return soc.arch > min_arch ? soc.arch : min_arch; }
};

// The SoC of a config. A model without a known accelerator keeps the architecture that was there.
// Errors: no such model, the code of the row's scope.
Status SetSoc(const ConfigRow& row, uint32_t model, HtpSoc* soc);
// Reads a list into `options`, all of it or, after an error, nothing. `call` is kAtCreate or
// kAtSet. Errors: 14001.
Status ReadDeviceConfig(const BackendTraits& traits, const QnnDevice_Config_t** config,
                        uint8_t call, DeviceOptions* options);

// A platform of one device with one core, as one block of memory.
struct PlatformInfo {
  explicit PlatformInfo(const DeviceOptions& options);
  PlatformInfo(const PlatformInfo&) = delete;

  QnnDevice_PlatformInfo_t info;
  QnnDevice_HardwareDeviceInfo_t device;
  QnnDevice_CoreInfo_t core;
  QnnHtpDevice_DeviceInfoExtension_t extension;
};

struct Device {
  const BackendTraits* traits;
  std::shared_ptr<Log> log;
  std::mutex mutex;
  DeviceOptions options;
  std::unique_ptr<PlatformInfo> info;  // what deviceGetInfo gives out; made anew after a change
  uint32_t contexts = 0;               // live ones that were created on it
  bool freed = false;
};
struct DeviceObject {
  std::shared_ptr<Device> device;
};

// A context's hold on its device.
class DeviceUse {
 public:
  DeviceUse() = default;
  explicit DeviceUse(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  DeviceUse(DeviceUse&& o) noexcept = default;
  DeviceUse& operator=(DeviceUse&& o) noexcept {
    std::swap(device_, o.device_);
    return *this;
  }
  ~DeviceUse() {
    if (device_ == nullptr) return;
    std::lock_guard<std::mutex> lock(device_->mutex);
    --device_->contexts;
  }
  Device* get() const { return device_.get(); }

 private:
  std::shared_ptr<Device> device_;
};

// A context's hold on the device that it is created on; none for a null handle. Backends
// without devices take any handle. Errors: 5002 no live device.
Result<DeviceUse> UseDevice(const BackendTraits& traits, Qnn_DeviceHandle_t handle);

// The SoC of devices whose configs name none: QNN_GLOBAL_CONFIG_OPTION_SOC_MODEL.
HtpSoc DefaultSoc();
Qnn_ErrorHandle_t SetGlobalConfig(const BackendTraits& traits, const QnnGlobalConfig_t** config);

// {"devices": [...], ...} for qnnrt_htp_describe; a null handle is every device. Empty when the
// handle is none.
std::string DescribeHtp(Qnn_DeviceHandle_t handle);

}  // namespace qnnrt
