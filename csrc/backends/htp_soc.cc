#include "backends/htp_soc.h"

#include "abi/qnn_htp.h"
#include "abi/qnn_soc.h"

namespace qnnrt {
namespace {

// Architecture and VTCM as public target tables of QNN clients give them (ExecuTorch's, 1.5).
constexpr HtpSoc kSocs[] = {
    kDefaultHtpSoc,
    {QNN_SOC_MODEL_SM8450, 69, 8},
    {QNN_SOC_MODEL_SA8295, 68, 8},
    {QNN_SOC_MODEL_SM8475, 69, 8},
    {QNN_SOC_MODEL_SM8550, 73, 8},
    {QNN_SOC_MODEL_SXR1230P, 73, 2},
    {QNN_SOC_MODEL_SSG2115P, 73, 2},
    {QNN_SOC_MODEL_SA8255, 73, 8},
    {QNN_SOC_MODEL_SXR2230P, 69, 8},
    {QNN_SOC_MODEL_SM8650, 75, 8},
    {QNN_SOC_MODEL_SSG2125P, 73, 2},
    {QNN_SOC_MODEL_SC8380XP, 73, 8},
    {QNN_SOC_MODEL_SM8750, 79, 8},
    {QNN_SOC_MODEL_SA8797, 81, 16},
    {QNN_SOC_MODEL_SXR2330P, 79, 8},
    {QNN_SOC_MODEL_QCS9100, 73, 8},
    {QNN_SOC_MODEL_SM8850, 81, 8},
    {88, 81, 8},  // beyond the numbers of qnn_soc.h from here on
    {93, 68, 2},  // QCM6490
    {95, 81, 4},  // SAR2230P
    {96, 81, 4},  // SW6100
    {97, 81, 8},  // SM8845
};

}  // namespace

const HtpSoc* FindHtpSoc(uint32_t model) {
  for (const HtpSoc& soc : kSocs) {
    if (soc.model == model) return &soc;
  }
  return nullptr;
}

bool IsSocModel(uint32_t model) {
  return (model >= QNN_SOC_MODEL_SDM845 && model <= QNN_SOC_MODEL_SM8850) ||
         FindHtpSoc(model) != nullptr;
}

bool IsHtpArch(uint32_t arch) {
  switch (arch) {
    case QNN_HTP_DEVICE_ARCH_V68:
    case QNN_HTP_DEVICE_ARCH_V69:
    case QNN_HTP_DEVICE_ARCH_V73:
    case QNN_HTP_DEVICE_ARCH_V75:
    case QNN_HTP_DEVICE_ARCH_V79:
    case QNN_HTP_DEVICE_ARCH_V81:
    case QNN_HTP_DEVICE_ARCH_V85:
      return true;
    default:
      return false;
  }
}

}  // namespace qnnrt
