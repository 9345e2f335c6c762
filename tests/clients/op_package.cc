// Op packages for the tests. "test.ops" (interface 1.4):
//   ScaleShift  out = in * scale + shift[last dimension], with a FLOAT_32 param and a tensor param,
//               on the graph's threads, through scratch memory
//   Split       two outputs: what is positive, and what is negative (may be left out)
//   Fails       as ScaleShift with nothing to do; param `where` names the call that fails
//   Relu        a name that qti.aisw has, too: out = in + 1
// "test.handles" (interface 2.0): Count, which writes how often it has run.
// What else a provider can get wrong has providers of its own.
#include <atomic>
#include <cstdarg>
#include <cstring>
#include <string>
#include <vector>

#include "abi/qnnrt_op_package.h"

QNNRT_OP_PACKAGE

namespace {

const Qnnrt_OpHost_t* host = nullptr;
QnnLog_Callback_t log_callback = nullptr;
std::atomic<int> live_impls{0}, initialized{0}, level{0};

void Say(QnnLog_Level_t at, const char* format, ...) {
  if (log_callback == nullptr) return;
  va_list args;
  va_start(args, format);
  log_callback(format, at, 0, args);
  va_end(args);
}

Qnn_ErrorHandle_t Refuse(Qnn_ErrorHandle_t code, const std::string& why) {
  host->setError(why.c_str());
  return code;
}

const Qnn_Param_t* Find(const Qnn_OpConfig_t* config, const char* name) {
  for (uint32_t i = 0; i < config->v1.numOfParams; ++i) {
    if (std::strcmp(config->v1.params[i].name, name) == 0) return &config->v1.params[i];
  }
  return nullptr;
}

uint64_t Elements(const Qnn_Tensor_t& tensor) {
  uint64_t n = 1;
  for (uint32_t d = 0; d < tensor.v1.rank; ++d) n *= tensor.v1.dimensions[d];
  return n;
}

bool SameShape(const Qnn_Tensor_t& a, const Qnn_Tensor_t& b) {
  return a.v1.rank == b.v1.rank &&
         std::memcmp(a.v1.dimensions, b.v1.dimensions, a.v1.rank * sizeof(uint32_t)) == 0;
}

bool Asked(const Qnn_OpConfig_t* config, const char* call) {
  const Qnn_Param_t* where = Find(config, "where");
  return where != nullptr && where->paramType == QNN_PARAMTYPE_SCALAR &&
         where->scalarParam.dataType == QNN_DATATYPE_STRING &&
         std::strcmp(where->scalarParam.stringValue, call) == 0;
}

Qnn_ErrorHandle_t Validate(const Qnn_OpConfig_t* config) {
  const Qnn_OpConfigV1_t& c = config->v1;
  if (Asked(config, "validate")) return Refuse(QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT, "as asked");
  if (Asked(config, "silently")) return QNN_COMMON_ERROR_SYSTEM;
  if (c.numOfInputs != 1 || c.inputTensors[0].v1.dataType != QNN_DATATYPE_FLOAT_32)
    return Refuse(QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE, "one FLOAT_32 input is needed");
  for (uint32_t i = 0; i < c.numOfOutputs; ++i) {
    if (c.outputTensors[i].v1.type != QNN_TENSOR_TYPE_NULL &&
        !SameShape(c.inputTensors[0], c.outputTensors[i]))
      return Refuse(QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE, "the output's shape is the input's");
  }
  if (std::strcmp(c.typeName, "ScaleShift") != 0) return QNN_SUCCESS;
  const Qnn_Param_t *scale = Find(config, "scale"), *shift = Find(config, "shift");
  if (scale == nullptr || scale->scalarParam.dataType != QNN_DATATYPE_FLOAT_32)
    return Refuse(QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE, "param scale is a FLOAT_32 number");
  const Qnn_TensorV1_t& in = c.inputTensors[0].v1;
  if (shift == nullptr || shift->paramType != QNN_PARAMTYPE_TENSOR ||
      Elements(shift->tensorParam) != in.dimensions[in.rank - 1])
    return Refuse(QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE, "param shift has a number a channel");
  return QNN_SUCCESS;
}

struct State {
  std::string type;
  bool fails = false;
  uint64_t elements = 0;
  float scale = 1;
  std::vector<float> shift{0};
};

Qnn_ErrorHandle_t Execute(void* opaque, const Qnnrt_OpExecution_t* e) {
  const auto* state = static_cast<const State*>(opaque);
  if (state->fails) return Refuse(QNN_OP_PACKAGE_ERROR_GENERAL, "the data did not please");
  const auto* in = static_cast<const float*>(e->inputs[0]);
  auto* out = static_cast<float*>(e->outputs[0]);
  if (state->type == "Relu") {
    for (uint64_t i = 0; i < state->elements; ++i) out[i] = in[i] + 1;
    return QNN_SUCCESS;
  }
  if (state->type == "Split") {
    auto* negative = static_cast<float*>(e->outputs[1]);
    for (uint64_t i = 0; i < state->elements; ++i) {
      if (negative != nullptr) negative[i] = in[i] < 0 ? in[i] : 0;
      if (out != nullptr) out[i] = in[i] > 0 ? in[i] : 0;
    }
    return QNN_SUCCESS;
  }
  struct Work {
    const State* state;
    const float* in;
    float *scaled, *out;
  } work = {state, in, static_cast<float*>(e->scratch), out};
  const auto scale = [](void* context, uint64_t begin, uint64_t end) {
    auto* w = static_cast<Work*>(context);
    for (uint64_t i = begin; i < end; ++i) w->scaled[i] = w->in[i] * w->state->scale;
  };
  const auto shift = [](void* context, uint64_t begin, uint64_t end) {
    auto* w = static_cast<Work*>(context);
    const std::vector<float>& by = w->state->shift;
    for (uint64_t i = begin; i < end; ++i) w->out[i] = w->scaled[i] + by[i % by.size()];
  };
  e->parallelFor(e, state->elements, 16, scale, &work);
  e->parallelFor(e, state->elements, 16, shift, &work);
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t CreateImpl(const Qnn_OpConfig_t* config, Qnnrt_OpImpl_t* impl) {
  if (Asked(config, "create")) return Refuse(QNN_OP_PACKAGE_ERROR_GENERAL, "not today");
  auto* state = new State;
  state->type = config->v1.typeName;
  state->fails = Asked(config, "execute");
  state->elements = Elements(config->v1.inputTensors[0]);
  if (const Qnn_Param_t* scale = Find(config, "scale"))
    state->scale = scale->scalarParam.floatValue;
  if (const Qnn_Param_t* shift = Find(config, "shift")) {
    const auto* data = static_cast<const float*>(shift->tensorParam.v1.clientBuf.data);
    state->shift.assign(data, data + Elements(shift->tensorParam));
  }
  impl->state = state;
  impl->execute = Asked(config, "nothing") ? nullptr : Execute;
  impl->scratchBytes = state->elements * sizeof(float);
  ++live_impls;
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t FreeImpl(Qnnrt_OpImpl_t* impl) {
  delete static_cast<State*>(impl->state);
  --live_impls;
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t Init(const Qnnrt_OpHost_t* given) {
  host = given;
  if (++initialized > 1) return QNN_OP_PACKAGE_ERROR_LIBRARY_ALREADY_INITIALIZED;
  Say(QNN_LOG_LEVEL_INFO, "test.ops: %s", "hello");
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t Terminate() {
  Say(QNN_LOG_LEVEL_INFO, "test.ops: goodbye");
  --initialized;
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t LogInitialize(QnnLog_Callback_t callback, QnnLog_Level_t at) {
  log_callback = callback;
  level = static_cast<int>(at);
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t LogSetLevel(QnnLog_Level_t at) {
  level = static_cast<int>(at);
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t LogTerminate() {
  log_callback = nullptr;
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t GetInfo(const QnnOpPackage_Info_t** info) {
  static const char* names[] = {"ScaleShift", "Split", "Fails", "Relu"};
  static QnnOpPackage_Info_t own = {};
  own.packageName = "test.ops";
  own.operationNames = names;
  own.numOperations = 4;
  *info = &own;
  return QNN_SUCCESS;
}

template <typename Slot, typename Function>
void Set(Slot* slot, Function function) {
  *slot = reinterpret_cast<Slot>(function);
}

QnnOpPackage_Interface_t Complete() {
  QnnOpPackage_Interface_t made = {};
  made.interfaceVersion = {1, 4, 0};
  Set(&made.v1_4.init, Init);
  Set(&made.v1_4.terminate, Terminate);
  Set(&made.v1_4.getInfo, GetInfo);
  Set(&made.v1_4.validateOpConfig, Validate);
  Set(&made.v1_4.createOpImpl, CreateImpl);
  Set(&made.v1_4.freeOpImpl, FreeImpl);
  Set(&made.v1_4.logInitialize, LogInitialize);
  Set(&made.v1_4.logSetLevel, LogSetLevel);
  Set(&made.v1_4.logTerminate, LogTerminate);
  return made;
}

// ---- test.handles ----

struct Counter {
  uint32_t runs = 0;
};

Qnn_ErrorHandle_t Create(const Qnnrt_OpHost_t* given, QnnLog_Callback_t, QnnLog_Level_t,
                         Qnn_OpPackageHandle_t* package) {
  host = given;
  *package = new Counter;
  ++initialized;
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t Count(void* state, const Qnnrt_OpExecution_t* e) {
  *static_cast<uint32_t*>(e->outputs[0]) = ++static_cast<Counter*>(state)->runs;
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t CreateHandleImpl(Qnn_OpPackageHandle_t package, const Qnn_OpConfig_t*,
                                   Qnnrt_OpImpl_t* impl) {
  impl->state = package;
  impl->execute = Count;
  ++live_impls;
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t FreeHandleImpl(Qnn_OpPackageHandle_t, Qnnrt_OpImpl_t*) {
  --live_impls;
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t Free(Qnn_OpPackageHandle_t package) {
  delete static_cast<Counter*>(package);
  --initialized;
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t GetHandleInfo(const QnnOpPackage_Info_t** info) {
  static const char* names[] = {"Count"};
  static QnnOpPackage_Info_t own = {};
  own.packageName = "test.handles";
  own.operationNames = names;
  own.numOperations = 1;
  *info = &own;
  return QNN_SUCCESS;
}

// ---- what goes wrong ----

Qnn_ErrorHandle_t FailInit(const Qnnrt_OpHost_t* given) {
  given->setError("no licence");
  return QNN_OP_PACKAGE_ERROR_GENERAL;
}
Qnn_ErrorHandle_t KeepHost(const Qnnrt_OpHost_t* given) {
  host = given;
  return QNN_SUCCESS;
}
Qnn_ErrorHandle_t FailInfo(const QnnOpPackage_Info_t**) {
  return QNN_OP_PACKAGE_ERROR_LIBRARY_NOT_INITIALIZED;
}
Qnn_ErrorHandle_t NoName(const QnnOpPackage_Info_t** info) {
  static const QnnOpPackage_Info_t own = {};
  *info = &own;
  return QNN_SUCCESS;
}
Qnn_ErrorHandle_t BuiltIn(const QnnOpPackage_Info_t** info) {
  static QnnOpPackage_Info_t own = {};
  own.packageName = "qti.aisw";
  *info = &own;
  return QNN_SUCCESS;
}
// ONNX Runtime's provider takes the name of a package from that of its interface provider.
Qnn_ErrorHandle_t OrtInfo(const QnnOpPackage_Info_t** info) {
  static const char* names[] = {"Relu", "Split"};
  static QnnOpPackage_Info_t own = {};
  own.packageName = "OrtOps";
  own.operationNames = names;
  own.numOperations = 2;
  *info = &own;
  return QNN_SUCCESS;
}

QnnOpPackage_Interface_t With(Qnn_ErrorHandle_t (*get_info)(const QnnOpPackage_Info_t**)) {
  QnnOpPackage_Interface_t made = Complete();
  Set(&made.v1_4.init, KeepHost);
  made.v1_4.terminate = nullptr;
  Set(&made.v1_4.getInfo, get_info);
  return made;
}

}  // namespace

#define PROVIDER(name, value)                                                      \
  extern "C" QNN_API Qnn_ErrorHandle_t name(QnnOpPackage_Interface_t* interface) { \
    *interface = value;                                                            \
    return QNN_SUCCESS;                                                            \
  }                                                                                \
  static_assert(true, "")

PROVIDER(TestOps, Complete());
PROVIDER(FailingInfo, With(FailInfo));
PROVIDER(Nameless, With(NoName));
PROVIDER(LikeBuiltIn, With(BuiltIn));
PROVIDER(OrtOpsInterfaceProvider, With(OrtInfo));

extern "C" {

QNN_API Qnn_ErrorHandle_t TestHandles(QnnOpPackage_Interface_t* interface) {
  *interface = {};
  interface->interfaceVersion = {2, 0, 0};
  Set(&interface->v2_0.create, Create);
  Set(&interface->v2_0.getInfo, GetHandleInfo);
  Set(&interface->v2_0.createOpImpl, CreateHandleImpl);
  Set(&interface->v2_0.freeOpImpl, FreeHandleImpl);
  Set(&interface->v2_0.free, Free);
  return QNN_SUCCESS;
}

QNN_API Qnn_ErrorHandle_t FailingInit(QnnOpPackage_Interface_t* interface) {
  *interface = Complete();
  interface->v1_4.terminate = nullptr;
  Set(&interface->v1_4.init, FailInit);
  return QNN_SUCCESS;
}

QNN_API Qnn_ErrorHandle_t Incomplete(QnnOpPackage_Interface_t* interface) {
  *interface = Complete();
  interface->v1_4.createOpImpl = nullptr;
  return QNN_SUCCESS;
}

QNN_API Qnn_ErrorHandle_t Newer(QnnOpPackage_Interface_t* interface) {
  *interface = Complete();
  interface->interfaceVersion.major = 3;
  return QNN_SUCCESS;
}

QNN_API Qnn_ErrorHandle_t Failing(QnnOpPackage_Interface_t*) {
  return QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT;
}

QNN_API int test_ops_live(void) { return live_impls; }
QNN_API int test_ops_initialized(void) { return initialized; }
QNN_API int test_ops_level(void) { return level; }
}
