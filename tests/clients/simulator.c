// libQnnHtp.so in front of the vendor's simulator, for clients that ask it for a device that it
// does not have: some of ExecuTorch's tests name no SoC (0), which is error 14001. They get the
// simulator's own device. All else goes to the simulator, whose path is in SIMULATOR_LIBRARY.
//
//   gcc -shared -fPIC -Wl,-soname,libQnnHtp.so -Wl,-z,nodelete -I.../include/qnnrt/QNN simulator.c
//
// The name and "nodelete": whoever opens libQnnHtp.so again is to get this one.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "QnnInterface.h"

typedef Qnn_ErrorHandle_t (*Providers)(const QnnInterface_t***, uint32_t*);

static QnnInterface_t ours;
static const QnnInterface_t* theirs;

static Qnn_ErrorHandle_t CreateDevice(Qnn_LogHandle_t log, const QnnDevice_Config_t** configs,
                                      Qnn_DeviceHandle_t* device) {
  Qnn_ErrorHandle_t error = theirs->QNN_INTERFACE_VER_NAME.deviceCreate(log, configs, device);
  if (error == QNN_SUCCESS) return error;
  return theirs->QNN_INTERFACE_VER_NAME.deviceCreate(log, NULL, device);
}

Qnn_ErrorHandle_t QnnInterface_getProviders(const QnnInterface_t*** list, uint32_t* count) {
  static const QnnInterface_t* provider = &ours;
  if (theirs == NULL) {
    const char* path = getenv("SIMULATOR_LIBRARY");
    void* library = path == NULL ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void* symbol = library == NULL ? NULL : dlsym(library, "QnnInterface_getProviders");
    if (symbol == NULL) {
      fprintf(stderr, "SIMULATOR_LIBRARY: %s\n", path == NULL ? "not set" : dlerror());
      return QNN_COMMON_ERROR_GENERAL;
    }
    Providers providers;
    memcpy(&providers, &symbol, sizeof providers);
    const QnnInterface_t** found;
    uint32_t n;
    Qnn_ErrorHandle_t error = providers(&found, &n);
    if (error != QNN_SUCCESS) return error;
    theirs = found[0];
    ours = *theirs;
    ours.QNN_INTERFACE_VER_NAME.deviceCreate = CreateDevice;
  }
  *list = &provider;
  *count = 1;
  return QNN_SUCCESS;
}
