// How this runtime calls an op package. An extension: QNN says which functions a package has
// (qnn_op_package.h), but what they take, and how an op is executed, is not among the facts that
// these headers are written from. So a package is compiled with this file, and says so by exporting
// a number; one that does not is refused (4008) before anything in it is called.
#pragma once

#include <stdint.h>

#include "qnn_errors.h"
#include "qnn_objects.h"
#include "qnn_op_package.h"
#include "qnn_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef QNN_API
#define QNN_API __attribute__((visibility("default")))
#endif

#define QNNRT_OP_PACKAGE_ABI 1u
#define QNNRT_OP_PACKAGE_ABI_SYMBOL "qnnrt_op_package_abi"
#define QNNRT_OP_PACKAGE_TARGET_CPU "CPU"  // the only target: ops run on the processor

// A package's own, never the runtime's: defined by `QNNRT_OP_PACKAGE` in one of its files.
QNN_API uint32_t qnnrt_op_package_abi(void);
#define QNNRT_OP_PACKAGE \
  uint32_t qnnrt_op_package_abi(void) { return QNNRT_OP_PACKAGE_ABI; }

// What the runtime offers to a package. Valid until the package is terminated.
typedef struct Qnnrt_OpHost_t {
  uint32_t abi;  // QNNRT_OP_PACKAGE_ABI of the runtime: members are only added at the end
  // The reason for the error that the calling function is about to return, for the client's error
  // message: one sentence. Copied.
  void (*setError)(const char* reason);
} Qnnrt_OpHost_t;

// One execution of a node. Nothing is copied: the pointers are the tensors' own memory, dense, on a
// boundary of their element's size at least.
typedef struct Qnnrt_OpExecution_t {
  const void* const* inputs;  // in the order of the op config; NULL: left out
  void* const* outputs;
  void* scratch;  // scratchBytes of the op impl, on a boundary of 64; undefined contents
  // body(context, begin, end) over [0, count) in parts of at least `grain`, on the graph's threads;
  // returns when all are done.
  void (*parallelFor)(const struct Qnnrt_OpExecution_t* execution, uint64_t count, uint64_t grain,
                      void (*body)(void* context, uint64_t begin, uint64_t end), void* context);
} Qnnrt_OpExecution_t;

// The executable form of one node, filled in by createOpImpl.
typedef struct Qnnrt_OpImpl_t {
  void* state;  // the package's own
  // 0, or an error: the execution of the graph fails with 1100 and the reason that was set. Called
  // by one thread at a time; it may execute no graph.
  Qnn_ErrorHandle_t (*execute)(void* state, const Qnnrt_OpExecution_t* execution);
  uint64_t scratchBytes;
} Qnnrt_OpImpl_t;

// The symbol that backendRegisterOpPackage names: fills in the interface. interfaceVersion says
// which member: major 1 v1_4, major 2 v2_0.
typedef Qnn_ErrorHandle_t (*Qnnrt_OpPackageProviderFn_t)(QnnOpPackage_Interface_t* interface);

// The functions, to be cast to the interface's slots. All return 0 or an error. getInfo,
// createOpImpl and freeOpImpl are required, the rest may be NULL. Calls in them on the context that
// they serve, or on its graphs, are refused (1005).

// v1_4, called once in a process: logInitialize (if the client has a log), init, getInfo; at the
// end terminate, logTerminate.
typedef Qnn_ErrorHandle_t (*Qnnrt_OpPackageInitFn_t)(const Qnnrt_OpHost_t* host);
typedef Qnn_ErrorHandle_t (*Qnnrt_OpPackageTerminateFn_t)(void);
typedef Qnn_ErrorHandle_t (*Qnnrt_OpPackageLogInitializeFn_t)(QnnLog_Callback_t callback,
                                                              QnnLog_Level_t maxLevel);
typedef Qnn_ErrorHandle_t (*Qnnrt_OpPackageLogSetLevelFn_t)(QnnLog_Level_t maxLevel);
typedef Qnn_ErrorHandle_t (*Qnnrt_OpPackageLogTerminateFn_t)(void);
// Of both versions. Asked again for an op that was not in it: a package may get more of them. What
// it points at stays.
typedef Qnn_ErrorHandle_t (*Qnnrt_OpPackageGetInfoFn_t)(const QnnOpPackage_Info_t** info);
// Whether the package takes a node: types, shapes (outputs have the client's) and params. Data only
// of params, and not of static inputs.
typedef Qnn_ErrorHandle_t (*Qnnrt_OpPackageValidateFn_t)(const Qnn_OpConfig_t* config);
// For a valid node, when its graph is finalized or loaded from a context binary. Static inputs have
// data. The config is the runtime's and goes when the call returns, static data when the graph
// goes.
typedef Qnn_ErrorHandle_t (*Qnnrt_OpPackageCreateOpImplFn_t)(const Qnn_OpConfig_t* config,
                                                             Qnnrt_OpImpl_t* impl);
typedef Qnn_ErrorHandle_t (*Qnnrt_OpPackageFreeOpImplFn_t)(Qnnrt_OpImpl_t* impl);

// v2_0: the same, on a handle of the package's. callback is NULL where the client has no log.
typedef Qnn_ErrorHandle_t (*Qnnrt_OpPackageCreateFn_t)(const Qnnrt_OpHost_t* host,
                                                       QnnLog_Callback_t callback,
                                                       QnnLog_Level_t maxLevel,
                                                       Qnn_OpPackageHandle_t* package);
typedef Qnn_ErrorHandle_t (*Qnnrt_OpPackageValidateHandleFn_t)(Qnn_OpPackageHandle_t package,
                                                               const Qnn_OpConfig_t* config);
typedef Qnn_ErrorHandle_t (*Qnnrt_OpPackageCreateOpImplHandleFn_t)(Qnn_OpPackageHandle_t package,
                                                                   const Qnn_OpConfig_t* config,
                                                                   Qnnrt_OpImpl_t* impl);
typedef Qnn_ErrorHandle_t (*Qnnrt_OpPackageFreeOpImplHandleFn_t)(Qnn_OpPackageHandle_t package,
                                                                 Qnnrt_OpImpl_t* impl);
typedef Qnn_ErrorHandle_t (*Qnnrt_OpPackageLogSetLevelHandleFn_t)(Qnn_OpPackageHandle_t package,
                                                                  QnnLog_Level_t maxLevel);
typedef Qnn_ErrorHandle_t (*Qnnrt_OpPackageFreeFn_t)(Qnn_OpPackageHandle_t package);

// backendRegisterOpPackage for a package that is part of the program instead of a library: no
// provider, and no number that it exports. Its functions stay as long as any backend, and any graph
// with its ops. Its errors; the slots of the interface tell one package from another.
QNN_API uint64_t qnnrt_backend_register_ops(Qnn_BackendHandle_t backend,
                                            const QnnOpPackage_Interface_t* interface);

#ifdef __cplusplus
}  // extern "C"
#endif
