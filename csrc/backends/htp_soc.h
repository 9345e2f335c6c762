// The accelerators that the htp backend stands for: by SoC model, their architecture and VTCM.
#pragma once

#include <cstdint>

namespace qnnrt {

struct HtpSoc {
  uint32_t model;  // QNN_SOC_MODEL_*
  uint32_t arch;   // QnnHtpDevice_Arch_t
  uint32_t vtcm_mb;
};

// The default of a device, which is that of the vendor's simulator.
inline constexpr HtpSoc kDefaultHtpSoc = {30, 68, 4};

// Null for a model without a known accelerator.
const HtpSoc* FindHtpSoc(uint32_t model);
// Whether there is a SoC of that number, known accelerator or not.
bool IsSocModel(uint32_t model);
bool IsHtpArch(uint32_t arch);

}  // namespace qnnrt
