// The accelerator that an lpai backend stands for, as configured, and what the backend reports of
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "abi/qnn_lpai.h"
#include "support/status.h"

namespace qnnrt {

// Constant once the backend is created: graphs plan their memory by it.
struct LpaiSettings {
  // As a process on the aDSP: the accelerator's own memory (TCM) is within reach, and a binary is
  // used where it lies. Otherwise as from the CPU.
  bool direct_mode = false;
  uint32_t start_alignment = 64;                  // bytes, of every address that a client gives
  uint32_t size_alignment = 16;                   // bytes, of every size
  std::optional<QnnLpaiBackend_Target_t> target;  // not configured: see Target()
  QnnLpaiBackend_HwVersion_t version = QNN_LPAI_BACKEND_HW_VERSION_DEFAULT;
  std::optional<uint32_t> cores, macs;  // in place of the version's own

  QnnLpaiBackend_Target_t Target() const {
    return target.value_or(direct_mode ? QNN_LPAI_BACKEND_TARGET_ADSP
                                       : QNN_LPAI_BACKEND_TARGET_X86);
  }
  uint32_t CoreCount() const;
  uint32_t MacCount() const;  // of each core
};

inline constexpr uint32_t kMaxLpaiCores = 32;  // a core selection has 32 bits

// One key:value of the platform option; false when there is no such key. Errors: 4012.
Result<bool> ReadLpaiOption(const std::string& key, const std::string& value,
                            LpaiSettings* settings);
inline constexpr char kLpaiOptions[] =
    "'direct_mode:adsp', 'start_alignment:N', 'size_alignment:N', 'enpu_cores:N', 'enpu_macs:N'";

// "V5_1", "ADSP"; null for a number that is none.
const char* LpaiVersionName(uint32_t version);
const char* LpaiTargetName(uint32_t target);
const char* LpaiMemTypeName(uint32_t type);

}  // namespace qnnrt
