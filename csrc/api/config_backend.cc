#include <algorithm>
#include <cstdlib>

#include "api/config_gpu.h"
#include "api/config_lpai.h"
#include "api/functions.h"

namespace qnnrt {
namespace {

constexpr ErrorCode kBad = QNN_BACKEND_ERROR_INVALID_CONFIG;

Status ReadItem(const std::string& item, const BackendTraits& traits, uint8_t call,
                BackendOptions* options) {
  const size_t colon = std::min(item.find(':'), item.size());
  const std::string key = item.substr(0, colon);
  const std::string value = item.substr(std::min(colon + 1, item.size()));
  if (item == "kernels:portable" || item == "kernels:auto") {
    options->graph.portable_only = value == "portable";
    return Status::Ok();
  }
  if (key == "threads" && !traits.external) {
    char* rest;
    const long threads = std::strtol(value.c_str(), &rest, 10);
    if (value.empty() || *rest != '\0' || threads < 1 || threads > kMaxThreads)
      return Error(kBad, "platform option '%s': threads is a number from 1 to %d", item.c_str(),
                   kMaxThreads);
    options->graph.threads = static_cast<int>(threads);
    return Status::Ok();
  }
  if (DomainOf(traits) != nullptr && key == "domain_bytes") {
    if (!ParseBytes(value.c_str(), &options->domain_bytes))
      return Error(kBad, "platform option '%s': domain_bytes is a number of bytes above 0",
                   item.c_str());
    return Status::Ok();
  }
  const bool lpai = traits.configs == ConfigSet::kLpai;
  if (lpai) {
    QNNRT_ASSIGN_OR_RETURN(const bool known, ReadLpaiOption(key, value, &options->lpai));
    if (known && call == kAtCreate) return Status::Ok();
    if (known)
      return Error(kBad, "platform option '%s' is for backendCreate: graphs lie in memory by it",
                   item.c_str());
  }
  const std::string more = lpai                          ? std::string(" and ") + kLpaiOptions
                           : DomainOf(traits) != nullptr ? " and 'domain_bytes:N'"
                                                         : "";
  return Error(kBad, "platform option '%s' is unknown; known are %s'kernels:auto|portable'%s",
               item.c_str(), traits.external ? "" : "'threads:N', ", more.c_str());
}

// "threads:2;kernels:portable": what a client can say that has only strings to say it with.
Status ReadPlatform(const char* text, const BackendTraits& traits, uint8_t call,
                    BackendOptions* options) {
  const std::string all = text == nullptr ? "" : text;
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = std::min(all.find(';', begin), all.size());
    QNNRT_RETURN_IF_ERROR(ReadItem(all.substr(begin, end - begin), traits, call, options));
    begin = end + 1;
  }
  return Status::Ok();
}

}  // namespace

Status ReadBackendConfig(const BackendTraits& traits, const QnnBackend_Config_t** config,
                         uint8_t call, BackendOptions* options) {
  BackendOptions read = *options;
  QNNRT_RETURN_IF_ERROR(api::ForEachConfig(config, [&](const QnnBackend_Config_t& c) -> Status {
    QNNRT_ASSIGN_OR_RETURN(const ConfigRow* row,
                           AdmitConfig(traits, ConfigScope::kBackend, c.option, call));
    if (c.option == QNN_BACKEND_CONFIG_OPTION_PLATFORM)
      return ReadPlatform(c.platformOption, traits, call, &read);
    if (c.option != QNN_BACKEND_CONFIG_OPTION_CUSTOM) return Status::Ok();
    if (c.customConfig == nullptr) return InvalidConfig(*row, "the custom config must not be null");
    if (traits.configs == ConfigSet::kGpu)
      return ReadGpuBackendConfig(traits, c.customConfig, call, &read.record);
    return ReadLpaiBackendConfig(traits, c.customConfig, call, &read.lpai, &read.record);
  }));
  const auto target = read.lpai.target;
  if (read.lpai.direct_mode && target && *target != QNN_LPAI_BACKEND_TARGET_ADSP) {
    return Error(kBad, "HW_INFO names the target %s, but direct mode runs on ADSP",
                 LpaiTargetName(*target));
  }
  *options = std::move(read);
  return Status::Ok();
}

}  // namespace qnnrt
