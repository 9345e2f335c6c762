/* What C clients of a backend check their calls with: the first surprise ends the program. */
#ifndef CLIENT_CHECKS_H
#define CLIENT_CHECKS_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qnnrt/qnn.h"

static QnnInterface_ImplementationV2_32_t qnn;

static inline void fail_at(const char* file, int line, const char* what) {
  fprintf(stderr, "%s:%d: expected %s\n", file, line, what);
  exit(1);
}

static inline void expect_code(const char* file, int line, const char* call, Qnn_ErrorHandle_t got,
                               uint32_t expected) {
  const char* text = NULL;
  if (QNN_GET_ERROR_CODE(got) == expected) return;
  if (qnn.errorGetMessage == NULL || qnn.errorGetMessage(got, &text) != QNN_SUCCESS) text = "?";
  fprintf(stderr, "%s:%d: %s: expected code %u, got %u: %s\n", file, line, call, (unsigned)expected,
          (unsigned)QNN_GET_ERROR_CODE(got), text);
  exit(1);
}

#define FAIL(what) fail_at(__FILE__, __LINE__, what)
#define EXPECT(condition) ((condition) ? (void)0 : FAIL(#condition))
#define OK(call) expect_code(__FILE__, __LINE__, #call, call, QNN_SUCCESS)
#define REFUSED(call, code) expect_code(__FILE__, __LINE__, #call, call, code)

/* A function pointer out of dlsym, without a cast that ISO C lacks. */
static inline void resolve(void* library, const char* name, void* function, size_t size) {
  void* address = dlsym(library, name);
  if (address == NULL) FAIL(name);
  memcpy(function, &address, size);
}

/* Takes the only provider of a backend library for `qnn`. Returns the library. */
static inline void* open_only_backend(const char* path, uint32_t id, const char* provider) {
  QnnInterface_GetProvidersFn_t get_providers;
  const QnnInterface_t** providers = NULL;
  uint32_t count = 0;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) FAIL(dlerror());
  resolve(library, "QnnInterface_getProviders", &get_providers, sizeof get_providers);
  OK(get_providers(&providers, &count));
  EXPECT(count == 1 && providers[0]->backendId == id);
  EXPECT(strcmp(providers[0]->providerName, provider) == 0);
  qnn = providers[0]->v2_32;
  return library;
}

static inline Qnn_Tensor_t tensor_of(const char* name, Qnn_TensorType_t type,
                                     Qnn_DataType_t data_type, uint32_t rank,
                                     uint32_t* dimensions) {
  Qnn_Tensor_t t;
  memset(&t, 0, sizeof t);
  t.version = QNN_TENSOR_VERSION_1;
  t.v1.name = name;
  t.v1.type = type;
  t.v1.dataFormat = QNN_TENSOR_DATA_FORMAT_FLAT_BUFFER;
  t.v1.dataType = data_type;
  t.v1.quantizeParams.encodingDefinition = QNN_DEFINITION_UNDEFINED;
  t.v1.quantizeParams.quantizationEncoding = QNN_QUANTIZATION_ENCODING_UNDEFINED;
  t.v1.rank = rank;
  t.v1.dimensions = dimensions;
  t.v1.memType = QNN_TENSORMEMTYPE_RAW;
  return t;
}

/* Of bytes that stand for themselves. */
static inline Qnn_Tensor_t bytes_tensor(const char* name, Qnn_TensorType_t type, uint32_t rank,
                                        uint32_t* dimensions) {
  Qnn_Tensor_t t = tensor_of(name, type, QNN_DATATYPE_UFIXED_POINT_8, rank, dimensions);
  t.v1.quantizeParams.encodingDefinition = QNN_DEFINITION_DEFINED;
  t.v1.quantizeParams.quantizationEncoding = QNN_QUANTIZATION_ENCODING_SCALE_OFFSET;
  t.v1.quantizeParams.scaleOffsetEncoding.scale = 1.0f;
  return t;
}

static inline Qnn_Param_t number_param(const char* name, float value) {
  Qnn_Param_t p;
  memset(&p, 0, sizeof p);
  p.paramType = QNN_PARAMTYPE_SCALAR;
  p.name = name;
  p.scalarParam.dataType = QNN_DATATYPE_FLOAT_32;
  p.scalarParam.floatValue = value;
  return p;
}

static inline Qnn_OpConfig_t op_of(const char* name, const char* package, const char* type,
                                   Qnn_Tensor_t* inputs, uint32_t num_inputs,
                                   Qnn_Tensor_t* output) {
  Qnn_OpConfig_t config;
  memset(&config, 0, sizeof config);
  config.version = QNN_OPCONFIG_VERSION_1;
  config.v1.name = name;
  config.v1.packageName = package;
  config.v1.typeName = type;
  config.v1.numOfInputs = num_inputs;
  config.v1.inputTensors = inputs;
  config.v1.numOfOutputs = 1;
  config.v1.outputTensors = output;
  return config;
}

static inline Qnn_OpConfig_t op(const char* name, const char* type, Qnn_Param_t* params,
                                uint32_t num_params, Qnn_Tensor_t* inputs, uint32_t num_inputs,
                                Qnn_Tensor_t* output) {
  Qnn_OpConfig_t config = op_of(name, "qti.aisw", type, inputs, num_inputs, output);
  config.v1.numOfParams = num_params;
  config.v1.params = params;
  return config;
}

#endif
