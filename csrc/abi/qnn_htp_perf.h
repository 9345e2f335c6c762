// HTP performance infrastructure: power and memory votes.
#pragma once

#include <stdint.h>

#include "qnn_types.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Performance votes ----

typedef uint32_t QnnHtpPerfInfrastructure_SetDcvsEnable_t;
typedef uint32_t QnnHtpPerfInfrastructure_DcvsEnable_t;
typedef uint32_t QnnHtpPerfInfrastructure_SetSleepLatency_t;
typedef uint32_t QnnHtpPerfInfrastructure_SleepLatency_t;
typedef uint32_t QnnHtpPerfInfrastructure_SetSleepDisable_t;
typedef uint32_t QnnHtpPerfInfrastructure_SleepDisable_t;
typedef uint32_t QnnHtpPerfInfrastructure_SetBusParams_t;
typedef uint32_t QnnHtpPerfInfrastructure_SetCoreParams_t;
typedef uint32_t QnnHtpPerfInfrastructure_HmxDefault_Vote_t;
typedef uint32_t QnnHtpPerfInfrastructure_RpcControlLatency_t;
typedef uint32_t QnnHtpPerfInfrastructure_RpcPollingTime_t;
typedef uint32_t QnnHtpPerfInfrastructure_HmxTimeoutIntervalUs_t;
typedef uint32_t QnnHtpPerfInfrastructure_AdaptivePollingTime_t;
typedef uint32_t QnnHtpPerfInfrastructure_DdrPerfMode_t;
typedef uint32_t QnnHtpPerfInfrastructure_MemGrowSize_t;

typedef enum QnnHtpPerfInfrastructure_ClkPerfMode_t {
  QNN_HTP_PERF_INFRASTRUCTURE_CLK_PERF_HIGH = 0,
  QNN_HTP_PERF_INFRASTRUCTURE_CLK_PERF_LOW = 1,
  QNN_HTP_PERF_INFRASTRUCTURE_CLK_PERF_UNKNOWN = 0x7FFFFFFF,
} QnnHtpPerfInfrastructure_ClkPerfMode_t;

typedef enum QnnHtpPerfInfrastructure_VoltageCorner_t {
  DCVS_VOLTAGE_CORNER_DISABLE = 16,
  DCVS_VOLTAGE_VCORNER_MIN_VOLTAGE_CORNER = 32,
  DCVS_VOLTAGE_VCORNER_SVS2 = 48,
  DCVS_VOLTAGE_VCORNER_SVS = 64,
  DCVS_VOLTAGE_VCORNER_SVS_PLUS = 80,
  DCVS_VOLTAGE_VCORNER_NOM = 96,
  DCVS_VOLTAGE_VCORNER_NOM_PLUS = 112,
  DCVS_VOLTAGE_VCORNER_TURBO = 128,
  DCVS_VOLTAGE_VCORNER_TURBO_PLUS = 144,
  DCVS_VOLTAGE_VCORNER_TURBO_L2 = 146,
  DCVS_VOLTAGE_VCORNER_TURBO_L3 = 147,
  DCVS_VOLTAGE_VCORNER_TURBO_L4 = 148,
  DCVS_VOLTAGE_VCORNER_TURBO_L5 = 149,
  DCVS_VOLTAGE_VCORNER_MAX_VOLTAGE_CORNER = 160,
  DCVS_VOLTAGE_VCORNER_UNKNOWN = 0x7FFFFFFF,
} QnnHtpPerfInfrastructure_VoltageCorner_t;

typedef enum QnnHtpPerfInfrastructure_ExpVoltageCorner_t {
  DCVS_EXP_VCORNER_DISABLE = 0,
  DCVS_EXP_VCORNER_MIN = 256,
  DCVS_EXP_VCORNER_LOW_SVS_D2 = 308,
  DCVS_EXP_VCORNER_LOW_SVS_D1 = 312,
  DCVS_EXP_VCORNER_LOW_SVS = 320,
  DCVS_EXP_VCORNER_LOW_SVS_L0 = 332,
  DCVS_EXP_VCORNER_SVS = 384,
  DCVS_EXP_VCORNER_SVS_L0 = 400,
  DCVS_EXP_VCORNER_SVS_L1 = 448,
  DCVS_EXP_VCORNER_SVS_L2 = 480,
  DCVS_EXP_VCORNER_NOM = 512,
  DCVS_EXP_VCORNER_NOM_L1 = 576,
  DCVS_EXP_VCORNER_NOM_L2 = 592,
  DCVS_EXP_VCORNER_TUR = 640,
  DCVS_EXP_VCORNER_TUR_L1 = 672,
  DCVS_EXP_VCORNER_TUR_L2 = 688,
  DCVS_EXP_VCORNER_TUR_L3 = 704,
  DCVS_EXP_VCORNER_MAX = 65535,
  DCVS_EXP_VCORNER_UNKNOWN = 0x7FFFFFFF,
} QnnHtpPerfInfrastructure_ExpVoltageCorner_t;

typedef enum QnnHtpPerfInfrastructure_PowerMode_t {
  QNN_HTP_PERF_INFRASTRUCTURE_POWERMODE_ADJUST_UP_DOWN = 1,
  QNN_HTP_PERF_INFRASTRUCTURE_POWERMODE_ADJUST_ONLY_UP = 2,
  QNN_HTP_PERF_INFRASTRUCTURE_POWERMODE_POWER_SAVER_MODE = 4,
  QNN_HTP_PERF_INFRASTRUCTURE_POWERMODE_POWER_SAVER_AGGRESSIVE_MODE = 8,
  QNN_HTP_PERF_INFRASTRUCTURE_POWERMODE_PERFORMANCE_MODE = 16,
  QNN_HTP_PERF_INFRASTRUCTURE_POWERMODE_DUTY_CYCLE_MODE = 32,
  QNN_HTP_PERF_INFRASTRUCTURE_POWERMODE_UNKNOWN = 0x7FFFFFFF,
} QnnHtpPerfInfrastructure_PowerMode_t;

typedef enum QnnHtpPerfInfrastructure_PowerConfigOption_t {
  QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_DCVS_V3 = 1,
  QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_RPC_CONTROL_LATENCY = 2,
  QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_RPC_POLLING_TIME = 3,
  QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_HMX_TIMEOUT_INTERVAL_US = 4,
  QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_HMX_V2 = 5,
  QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_ADAPTIVE_POLLING_TIME = 6,
  QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_DDR_PERF_MODE = 7,
  QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_UNKNOWN = 0x7FFFFFFF,
} QnnHtpPerfInfrastructure_PowerConfigOption_t;

typedef enum QnnHtpPerfInfrastructure_MemoryConfigOption_t {
  QNN_HTP_PERF_INFRASTRUCTURE_MEMORY_CONFIGOPTION_GROW_SIZE = 1,
  QNN_HTP_PERF_INFRASTRUCTURE_MEMORY_CONFIGOPTION_UNKNOWN = 0x7FFFFFFF,
} QnnHtpPerfInfrastructure_MemoryConfigOption_t;

typedef struct QnnHtpPerfInfrastructure_DcvsV3_t {
  uint32_t contextId;
  QnnHtpPerfInfrastructure_SetDcvsEnable_t setDcvsEnable;
  QnnHtpPerfInfrastructure_DcvsEnable_t dcvsEnable;
  QnnHtpPerfInfrastructure_PowerMode_t powerMode;
  QnnHtpPerfInfrastructure_SetSleepLatency_t setSleepLatency;
  QnnHtpPerfInfrastructure_SleepLatency_t sleepLatency;
  QnnHtpPerfInfrastructure_SetSleepDisable_t setSleepDisable;
  QnnHtpPerfInfrastructure_SleepDisable_t sleepDisable;
  QnnHtpPerfInfrastructure_SetBusParams_t setBusParams;
  QnnHtpPerfInfrastructure_VoltageCorner_t busVoltageCornerMin;
  QnnHtpPerfInfrastructure_VoltageCorner_t busVoltageCornerTarget;
  QnnHtpPerfInfrastructure_VoltageCorner_t busVoltageCornerMax;
  QnnHtpPerfInfrastructure_SetCoreParams_t setCoreParams;
  QnnHtpPerfInfrastructure_VoltageCorner_t coreVoltageCornerMin;
  QnnHtpPerfInfrastructure_VoltageCorner_t coreVoltageCornerTarget;
  QnnHtpPerfInfrastructure_VoltageCorner_t coreVoltageCornerMax;
} QnnHtpPerfInfrastructure_DcvsV3_t;

typedef struct QnnHtpPerfInfrastructure_HmxV2_t {
  QnnHtpPerfInfrastructure_HmxDefault_Vote_t hmxPickDefault;
  QnnHtpPerfInfrastructure_ExpVoltageCorner_t hmxVoltageCornerMin;
  QnnHtpPerfInfrastructure_ExpVoltageCorner_t hmxVoltageCornerTarget;
  QnnHtpPerfInfrastructure_ExpVoltageCorner_t hmxVoltageCornerMax;
  QnnHtpPerfInfrastructure_ClkPerfMode_t hmxPerfMode;
} QnnHtpPerfInfrastructure_HmxV2_t;

typedef struct QnnHtpPerfInfrastructure_PowerConfig_t {
  QnnHtpPerfInfrastructure_PowerConfigOption_t option;
  union {
    QnnHtpPerfInfrastructure_DcvsV3_t dcvsV3Config;
    QnnHtpPerfInfrastructure_RpcControlLatency_t rpcControlLatencyConfig;
    QnnHtpPerfInfrastructure_RpcPollingTime_t rpcPollingTimeConfig;
    QnnHtpPerfInfrastructure_HmxTimeoutIntervalUs_t hmxTimeoutIntervalUsConfig;
    QnnHtpPerfInfrastructure_HmxV2_t hmxV2Config;
    QnnHtpPerfInfrastructure_AdaptivePollingTime_t adaptivePollingTimeConfig;
    QnnHtpPerfInfrastructure_DdrPerfMode_t ddrPerfModeConfig;
  };
} QnnHtpPerfInfrastructure_PowerConfig_t;

typedef struct QnnHtpPerfInfrastructure_MemoryConfig_t {
  QnnHtpPerfInfrastructure_MemoryConfigOption_t option;
  union {
    QnnHtpPerfInfrastructure_MemGrowSize_t memGrowSizeConfig;
  };
} QnnHtpPerfInfrastructure_MemoryConfig_t;

// The vote calls, as an open-source client makes them; config lists end with NULL.
typedef Qnn_ErrorHandle_t (*QnnHtpPerfInfrastructure_CreatePowerConfigIdFn_t)(
    uint32_t deviceId, uint32_t coreId, uint32_t* powerConfigId);
typedef Qnn_ErrorHandle_t (*QnnHtpPerfInfrastructure_DestroyPowerConfigIdFn_t)(
    uint32_t powerConfigId);
typedef Qnn_ErrorHandle_t (*QnnHtpPerfInfrastructure_SetPowerConfigFn_t)(
    uint32_t powerConfigId, const QnnHtpPerfInfrastructure_PowerConfig_t** config);
typedef Qnn_ErrorHandle_t (*QnnHtpPerfInfrastructure_SetMemoryConfigFn_t)(
    uint32_t deviceId, uint32_t coreId, const QnnHtpPerfInfrastructure_MemoryConfig_t** config);

#ifdef __cplusplus
}  // extern "C"
#endif
