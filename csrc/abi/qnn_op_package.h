// The interface of an op package (custom operations).
#pragma once

#include <stddef.h>

#include "qnn_types.h"

#ifdef __cplusplus
extern "C" {
#endif

// The parameters of the package's functions are not part of the published facts this file is
// written from: the slots have the right place and size. qnnrt_op_package.h has those that this
// runtime calls them with; cast to and from them.
typedef void (*QnnOpPackage_InitFn_t)(void);
typedef void (*QnnOpPackage_TerminateFn_t)(void);
typedef void (*QnnOpPackage_GetInfoFn_t)(void);
typedef void (*QnnOpPackage_ValidateOpConfigFn_t)(void);
typedef void (*QnnOpPackage_CreateOpImplFn_t)(void);
typedef void (*QnnOpPackage_FreeOpImplFn_t)(void);
typedef void (*QnnOpPackage_LogInitializeFn_t)(void);
typedef void (*QnnOpPackage_LogSetLevelFn_t)(void);
typedef void (*QnnOpPackage_LogTerminateFn_t)(void);
typedef void (*QnnOpPackage_CreateFn_t)(void);
typedef void (*QnnOpPackage_ValidateOpConfigHandleFn_t)(void);
typedef void (*QnnOpPackage_CreateOpImplHandleFn_t)(void);
typedef void (*QnnOpPackage_FreeOpImplHandleFn_t)(void);
typedef void (*QnnOpPackage_LogSetLevelHandleFn_t)(void);
typedef void (*QnnOpPackage_FreeFn_t)(void);

// Declared, never defined here: a package's own records.
typedef struct QnnOpPackage_OperationInfo_t QnnOpPackage_OperationInfo_t;
typedef struct QnnOpPackage_Optimization_t QnnOpPackage_Optimization_t;
typedef struct QnnOpPackage_PackageInfo_t QnnOpPackage_PackageInfo_t;

typedef struct QnnOpPackage_Info_t {
  const char* packageName;
  const char** operationNames;
  const QnnOpPackage_OperationInfo_t* operationInfo;
  uint32_t numOperations;
  const QnnOpPackage_Optimization_t* optimizations;
  uint32_t numOptimizations;
  const char* sdkBuildId;
  const Qnn_ApiVersion_t* sdkApiVersion;
  const QnnOpPackage_PackageInfo_t* packageInfo;
  const Qnn_Version_t* opsetVersion;
  size_t reserved[12];
} QnnOpPackage_Info_t;

typedef struct QnnOpPackage_ImplementationV1_4_t {
  QnnOpPackage_InitFn_t init;
  QnnOpPackage_TerminateFn_t terminate;
  QnnOpPackage_GetInfoFn_t getInfo;
  QnnOpPackage_ValidateOpConfigFn_t validateOpConfig;
  QnnOpPackage_CreateOpImplFn_t createOpImpl;
  QnnOpPackage_FreeOpImplFn_t freeOpImpl;
  QnnOpPackage_LogInitializeFn_t logInitialize;
  QnnOpPackage_LogSetLevelFn_t logSetLevel;
  QnnOpPackage_LogTerminateFn_t logTerminate;
} QnnOpPackage_ImplementationV1_4_t;

typedef struct QnnOpPackage_ImplementationV2_0_t {
  QnnOpPackage_CreateFn_t create;
  QnnOpPackage_GetInfoFn_t getInfo;
  QnnOpPackage_ValidateOpConfigHandleFn_t validateOpConfig;
  QnnOpPackage_CreateOpImplHandleFn_t createOpImpl;
  QnnOpPackage_FreeOpImplHandleFn_t freeOpImpl;
  QnnOpPackage_LogSetLevelHandleFn_t logSetLevel;
  QnnOpPackage_FreeFn_t free;
} QnnOpPackage_ImplementationV2_0_t;

typedef struct QnnOpPackage_Interface_t {
  Qnn_Version_t interfaceVersion;
  union {
    QnnOpPackage_ImplementationV1_4_t v1_4;
    QnnOpPackage_ImplementationV2_0_t v2_0;
  };
} QnnOpPackage_Interface_t;

#ifdef __cplusplus
}  // extern "C"
#endif
