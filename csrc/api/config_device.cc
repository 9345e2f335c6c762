#include <cstring>

#include "api/device.h"
#include "api/functions.h"
#include "support/number_of.h"

namespace qnnrt {

Status SetSoc(const ConfigRow& row, uint32_t model, HtpSoc* soc) {
  if (!IsSocModel(model))
    return InvalidConfig(row, "there is no SoC model " + std::to_string(model));
  if (const HtpSoc* known = FindHtpSoc(model)) {
    *soc = *known;
  } else {
    soc->model = model;
  }
  return Status::Ok();
}

namespace {

Status CheckDeviceId(const ConfigRow& row, uint32_t id) {
  if (id == 0 || id == QNN_DEFAULT_DEVICE_ID) return Status::Ok();
  return InvalidConfig(row, "there is one device, number 0; got " + std::to_string(id));
}

// QnnHtpDevice_CustomConfig_t has its union at byte 4 in core API 2.32 and at byte 8 in 2.40 (seen:
// the vendor's library and ONNX Runtime). Configs have no version, so it is inferred from the
// values: the 32 bits that 2.40 skips are zero, and the next 32 are device 0 or the default one;
// 2.32 has a model, an architecture, a true or a bool's padding in them.
struct CustomConfig {
  uint32_t value = 0;      // socModel, arch or the bool
  uint32_t device_id = 0;  // not with SOC
};
CustomConfig ReadCustom(const void* config, uint32_t option) {
  uint32_t word[4] = {};
  std::memcpy(word, config, 3 * sizeof(uint32_t));
  if (option == QNN_HTP_DEVICE_CONFIG_OPTION_SOC) return {word[1] != 0 ? word[1] : word[2], 0};
  const bool is_bool = option != QNN_HTP_DEVICE_CONFIG_OPTION_ARCH;
  if (word[1] != 0 || (word[2] != 0 && word[2] != QNN_DEFAULT_DEVICE_ID))
    return {is_bool ? word[2] & 0xFF : word[2], word[1]};
  std::memcpy(&word[3], static_cast<const char*>(config) + 12, is_bool ? 1 : 4);
  return {word[3], word[2]};
}

Status ReadHtp(const ConfigRow& row, const void* config, DeviceOptions* options,
               std::string* json) {
  CustomConfig c = ReadCustom(config, row.option);
  QNNRT_RETURN_IF_ERROR(CheckDeviceId(row, c.device_id));
  switch (row.option) {
    case QNN_HTP_DEVICE_CONFIG_OPTION_SOC:
      *json = std::to_string(c.value);
      return SetSoc(row, c.value, &options->soc);
    case QNN_HTP_DEVICE_CONFIG_OPTION_ARCH:
      if (c.value != QNN_HTP_DEVICE_ARCH_NONE && !IsHtpArch(c.value))
        return InvalidConfig(
            row, "an architecture is 68, 69, 73, 75, 79, 81 or 85, got " + std::to_string(c.value));
      options->min_arch = c.value;
      *json = std::to_string(c.value);
      return Status::Ok();
    case QNN_HTP_DEVICE_CONFIG_OPTION_SECUREPD:
      if (c.value != 0)
        return InvalidConfig(row, "there is no secure process domain: graphs run in this process");
      [[fallthrough]];
    default:
      *json = c.value != 0 ? "true" : "false";
      return Status::Ok();
  }
}

// The part of the platform that the client wants: this one's only device, maybe with another SoC.
Status ReadPlatform(const ConfigRow& row, const QnnDevice_PlatformInfo_t* info,
                    DeviceOptions* options) {
  if (info == nullptr || info->version != QNN_DEVICE_PLATFORM_INFO_VERSION_1)
    return InvalidConfig(row, "a platform info of version 1 is needed");
  if (info->v1.numHwDevices != 1 || info->v1.hwDevices == nullptr)
    return InvalidConfig(
        row, "there is one device to choose, got " + std::to_string(info->v1.numHwDevices));
  const QnnDevice_HardwareDeviceInfoV1_t& device = info->v1.hwDevices[0].v1;
  QNNRT_RETURN_IF_ERROR(CheckDeviceId(row, device.deviceId));
  for (uint32_t i = 0; i < device.numCores; ++i) {
    if (device.cores == nullptr || device.cores[i].v1.coreId != 0)
      return InvalidConfig(row, "device 0 has one core, number 0");
  }
  if (device.deviceInfoExtension == nullptr) return Status::Ok();
  const auto& chip =
      static_cast<const QnnHtpDevice_DeviceInfoExtension_t*>(device.deviceInfoExtension)
          ->onChipDevice;
  QNNRT_RETURN_IF_ERROR(SetSoc(row, chip.socModel, &options->soc));
  if (const uint32_t arch = NumberOf(chip.arch);
      arch != QNN_HTP_DEVICE_ARCH_NONE && !IsHtpArch(arch))
    return InvalidConfig(row, "there is no architecture " + NumberText(chip.arch));
  options->min_arch = chip.arch;
  return Status::Ok();
}

}  // namespace

Status ReadDeviceConfig(const BackendTraits& traits, const QnnDevice_Config_t** config,
                        uint8_t call, DeviceOptions* options) {
  DeviceOptions read = *options;
  QNNRT_RETURN_IF_ERROR(api::ForEachConfig(config, [&](const QnnDevice_Config_t& c) -> Status {
    QNNRT_ASSIGN_OR_RETURN(const ConfigRow* row,
                           AdmitConfig(traits, ConfigScope::kDevice, c.option, call));
    if (c.option == QNN_DEVICE_CONFIG_OPTION_PLATFORM_INFO) {
      QNNRT_RETURN_IF_ERROR(ReadPlatform(*row, c.hardwareInfo, &read));
      read.record[row] = "true";
      return Status::Ok();
    }
    if (c.customConfig == nullptr) return InvalidConfig(*row, "the custom config must not be null");
    uint32_t option;
    std::memcpy(&option, c.customConfig, sizeof(option));
    QNNRT_ASSIGN_OR_RETURN(row, AdmitConfig(traits, ConfigScope::kHtpDevice, option, call));
    return ReadHtp(*row, c.customConfig, &read, &read.record[row]);
  }));
  *options = std::move(read);
  return Status::Ok();
}

}  // namespace qnnrt
