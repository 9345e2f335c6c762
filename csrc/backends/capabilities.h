// The property keys that every backend supports, and how one adds its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "abi/qnn_property.h"

namespace qnnrt {

inline constexpr uint32_t kCommonCapabilities[] = {
    QNN_PROPERTY_GROUP_CORE,
    QNN_PROPERTY_GROUP_BACKEND,
    QNN_PROPERTY_BACKEND_SUPPORT_PLATFORM_OPTIONS,
    QNN_PROPERTY_BACKEND_SUPPORT_COMPOSITION,
    QNN_PROPERTY_GROUP_CONTEXT,
    QNN_PROPERTY_CONTEXT_SUPPORT_CACHING,
    QNN_PROPERTY_CONTEXT_SUPPORT_CONFIGURATION,
    QNN_PROPERTY_CONTEXT_SUPPORT_CONFIG_ENABLE_GRAPHS,
    QNN_PROPERTY_CONTEXT_SUPPORT_CONFIG_PERSISTENT_BINARY,
    QNN_PROPERTY_CONTEXT_SUPPORT_CONFIG_BINARY_COMPATIBILITY_TYPE,
    QNN_PROPERTY_CONTEXT_SUPPORT_VALIDATE_BINARY,
    QNN_PROPERTY_GROUP_GRAPH,
    QNN_PROPERTY_GRAPH_SUPPORT_CONFIG,
    QNN_PROPERTY_GRAPH_SUPPORT_EXECUTE,
    QNN_PROPERTY_GRAPH_SUPPORT_EXECUTE_PER_API_PROFILING,
    QNN_PROPERTY_GRAPH_SUPPORT_EARLY_TERMINATION,
    QNN_PROPERTY_GRAPH_SUPPORT_ONLINE_PREPARE,
    QNN_PROPERTY_GROUP_TENSOR,
    QNN_PROPERTY_TENSOR_SUPPORT_MEMHANDLE_TYPE,
    QNN_PROPERTY_TENSOR_SUPPORT_QUANTIZATION_ENCODING_SCALE_OFFSET,
    QNN_PROPERTY_TENSOR_SUPPORT_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET,
    QNN_PROPERTY_TENSOR_SUPPORT_QUANTIZATION_ENCODING_BW_SCALE_OFFSET,
    QNN_PROPERTY_TENSOR_SUPPORT_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET,
    QNN_PROPERTY_TENSOR_SUPPORT_QUANTIZATION_ENCODING_BLOCK,
    QNN_PROPERTY_TENSOR_SUPPORT_QUANTIZATION_ENCODING_BLOCKWISE_EXPANSION,
    QNN_PROPERTY_GROUP_ERROR,
    QNN_PROPERTY_ERROR_GET_VERBOSE_MESSAGE,
    QNN_PROPERTY_GROUP_MEMORY,
    QNN_PROPERTY_MEMORY_SUPPORT_MEM_TYPE_ION,
    QNN_PROPERTY_MEMORY_SUPPORT_MEM_TYPE_CUSTOM,
    QNN_PROPERTY_MEMORY_SUPPORT_MEM_TYPE_DMA_BUF,
    QNN_PROPERTY_GROUP_LOG,
    QNN_PROPERTY_LOG_SUPPORTS_DEFAULT_STREAM,
    QNN_PROPERTY_GROUP_PROFILE,
    QNN_PROPERTY_PROFILE_SUPPORT_MAX_EVENTS_CONFIG,
    QNN_PROPERTY_PROFILE_SUPPORTS_EXTENDED_EVENT,
};

// `more`, and what a backend with op packages supports of them.
template <size_t kMore>
constexpr auto WithOpPackages(const std::array<uint32_t, kMore>& more) {
  constexpr std::array<uint32_t, 4> kKeys = {
      QNN_PROPERTY_BACKEND_SUPPORT_OP_PACKAGE, QNN_PROPERTY_GROUP_OP_PACKAGE,
      QNN_PROPERTY_OP_PACKAGE_SUPPORTS_VALIDATION, QNN_PROPERTY_OP_PACKAGE_SUPPORTS_OP_IMPLS};
  std::array<uint32_t, kMore + kKeys.size()> all{};
  for (size_t i = 0; i < kMore; ++i) all[i] = more[i];
  for (size_t i = 0; i < kKeys.size(); ++i) all[kMore + i] = kKeys[i];
  return all;
}

// The common keys and `more`, ascending, 0 at the end: what BackendTraits::capabilities wants.
template <size_t kMore = 0>
constexpr auto WithCommonCapabilities(const std::array<uint32_t, kMore>& more) {
  constexpr size_t kCommon = sizeof(kCommonCapabilities) / sizeof(*kCommonCapabilities);
  std::array<uint32_t, kCommon + kMore + 1> all{};
  size_t n = 0;
  const auto insert = [&](uint32_t key) {
    size_t at = n++;
    for (; at > 0 && all[at - 1] > key; --at) all[at] = all[at - 1];
    all[at] = key;
  };
  for (uint32_t key : kCommonCapabilities) insert(key);
  for (uint32_t key : more) insert(key);
  return all;
}

}  // namespace qnnrt
