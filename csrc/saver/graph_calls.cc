// Calls on graphs and tensors.
#include "saver/calls.h"

namespace qnnrt::saver {
namespace {

Qnn_ErrorHandle_t GraphCreate(Qnn_ContextHandle_t context, const char* name,
                              const QnnGraph_Config_t** config, Qnn_GraphHandle_t* graph) {
  return Recorded([&](Recorder& r) -> Status {
    QNNRT_RETURN_IF_ERROR(NotNull(graph, QNN_GRAPH_ERROR_INVALID_ARGUMENT));
    *graph = nullptr;
    if (name == nullptr || *name == '\0')
      return Status(QNN_GRAPH_ERROR_INVALID_NAME, "a graph needs a name");
    QNNRT_ASSIGN_OR_RETURN(std::string owner,
                           Variable(r, context, Kind::kContext, QNN_GRAPH_ERROR_INVALID_CONTEXT));
    if (r.FindGraph(context, name) != nullptr)
      return Error(QNN_GRAPH_ERROR_INVALID_NAME, "the context has a graph '%s' already", name);
    Call call(&r, std::string("graph ") + name);
    QNNRT_ASSIGN_OR_RETURN(std::string configs, call.Configs(config));
    QNNRT_RETURN_IF_ERROR(Make(r, &call, Kind::kGraph, "Qnn_GraphHandle_t", "graphCreate",
                               owner + ", " + Quoted(name) + ", " + configs, context, graph));
    r.Find(*graph, Kind::kGraph)->name = name;
    return Status::Ok();
  });
}

Qnn_ErrorHandle_t GraphRetrieve(Qnn_ContextHandle_t context, const char* name,
                                Qnn_GraphHandle_t* graph) {
  return Recorded([&](Recorder& r) -> Status {
    QNNRT_RETURN_IF_ERROR(NotNull(graph, QNN_GRAPH_ERROR_INVALID_ARGUMENT));
    QNNRT_RETURN_IF_ERROR(NotNull(name, QNN_GRAPH_ERROR_INVALID_ARGUMENT));
    QNNRT_ASSIGN_OR_RETURN(std::string owner,
                           Variable(r, context, Kind::kContext, QNN_GRAPH_ERROR_INVALID_CONTEXT));
    const Object* there = r.FindGraph(context, name);
    const auto tensors = there == nullptr ? decltype(Object::tensors)() : there->tensors;
    Call call(&r, std::string("retrieve ") + name);
    QNNRT_RETURN_IF_ERROR(Make(r, &call, Kind::kGraph, "Qnn_GraphHandle_t", "graphRetrieve",
                               owner + ", " + Quoted(name), context, graph));
    Object* made = r.Find(*graph, Kind::kGraph);
    made->name = name;
    made->tensors = tensors;
    return Status::Ok();
  });
}

Qnn_ErrorHandle_t GraphSetConfig(Qnn_GraphHandle_t graph, const QnnGraph_Config_t** config) {
  return Recorded([&](Recorder& r) {
    return SetConfigs<Kind::kGraph, QNN_GRAPH_ERROR_INVALID_HANDLE>(r, graph, config,
                                                                    "graphSetConfig");
  });
}

// `owner` is the graph or context that the tensor belongs to.
Status CreateTensor(Recorder& r, Object* owner, Object* context, const char* function,
                    Qnn_Tensor_t* tensor) {
  if (tensor == nullptr)
    return Status(QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM, "the tensor must not be null");
  Call call(&r, std::string("tensor ") + (tensor->v1.name == nullptr ? "" : tensor->v1.name));
  const std::string variable = r.NewName("tensor");
  call.Declare("Qnn_Tensor_t", variable);
  Qnn_Tensor_t given = *tensor;
  given.v1.id = 0;
  QNNRT_RETURN_IF_ERROR(call.Tensor(variable, given));
  call.Check(function, owner->variable + ", &" + variable);
  QNNRT_RETURN_IF_ERROR(call.Write());
  tensor->v1.id = context->next_tensor++;
  owner->tensors[tensor->v1.id] = variable;
  return Status::Ok();
}

Qnn_ErrorHandle_t CreateContextTensor(Qnn_ContextHandle_t context, Qnn_Tensor_t* tensor) {
  return Recorded([&](Recorder& r) -> Status {
    Object* owner = r.Find(context, Kind::kContext);
    if (owner == nullptr)
      return Status(QNN_TENSOR_ERROR_INVALID_HANDLE, "this is no live context handle");
    return CreateTensor(r, owner, owner, "tensorCreateContextTensor", tensor);
  });
}

Qnn_ErrorHandle_t CreateGraphTensor(Qnn_GraphHandle_t graph, Qnn_Tensor_t* tensor) {
  return Recorded([&](Recorder& r) -> Status {
    Object* owner = r.Find(graph, Kind::kGraph);
    if (owner == nullptr)
      return Status(QNN_GRAPH_ERROR_INVALID_HANDLE, "this is no live graph handle");
    return CreateTensor(r, owner, r.Find(owner->parent, Kind::kContext), "tensorCreateGraphTensor",
                        tensor);
  });
}

Owners OwnersOf(Recorder& r, const Object& graph) {
  return {&graph, r.Find(graph.parent, Kind::kContext)};
}

Qnn_ErrorHandle_t GraphAddNode(Qnn_GraphHandle_t graph, Qnn_OpConfig_t op) {
  return Recorded([&](Recorder& r) -> Status {
    const Object* owner = r.Find(graph, Kind::kGraph);
    if (owner == nullptr)
      return Status(QNN_GRAPH_ERROR_INVALID_HANDLE, "this is no live graph handle");
    Call call(&r, std::string("node ") + (op.v1.name == nullptr ? "" : op.v1.name));
    QNNRT_ASSIGN_OR_RETURN(std::string config, call.Op(op, OwnersOf(r, *owner)));
    call.Check("graphAddNode", owner->variable + ", " + config);
    return call.Write();
  });
}

Qnn_ErrorHandle_t GraphFinalize(Qnn_GraphHandle_t graph, Qnn_ProfileHandle_t profile,
                                Qnn_SignalHandle_t signal) {
  return Recorded([&](Recorder& r) -> Status {
    QNNRT_RETURN_IF_ERROR(NoSignals(signal));
    QNNRT_ASSIGN_OR_RETURN(std::string name,
                           Variable(r, graph, Kind::kGraph, QNN_GRAPH_ERROR_INVALID_HANDLE));
    QNNRT_ASSIGN_OR_RETURN(std::string with,
                           Optional(r, profile, Kind::kProfile, QNN_GRAPH_ERROR_SET_PROFILE));
    Call call(&r, "graphFinalize");
    call.Check("graphFinalize", name + ", " + with + ", NULL");
    return call.Write();
  });
}

Qnn_ErrorHandle_t GraphExecute(Qnn_GraphHandle_t graph, const Qnn_Tensor_t* inputs,
                               uint32_t num_inputs, Qnn_Tensor_t* outputs, uint32_t num_outputs,
                               Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal) {
  return Recorded([&](Recorder& r) -> Status {
    QNNRT_RETURN_IF_ERROR(NoSignals(signal));
    Object* owner = r.Find(graph, Kind::kGraph);
    if (owner == nullptr)
      return Status(QNN_GRAPH_ERROR_INVALID_HANDLE, "this is no live graph handle");
    QNNRT_ASSIGN_OR_RETURN(std::string with,
                           Optional(r, profile, Kind::kProfile, QNN_GRAPH_ERROR_SET_PROFILE));
    Call call(&r, "graphExecute " + owner->name);
    const Owners owners = OwnersOf(r, *owner);
    QNNRT_ASSIGN_OR_RETURN(std::string in, call.Tensors(inputs, num_inputs, owners));
    QNNRT_ASSIGN_OR_RETURN(std::string out, call.Tensors(outputs, num_outputs, owners));
    const auto bind = [&](const std::string& list, const Qnn_Tensor_t* tensors, uint32_t count,
                          bool reads) -> Status {
      for (uint32_t i = 0; i < count; ++i) {
        const Qnn_TensorV1_t& t = tensors[i].v1;
        if (t.memType != QNN_TENSORMEMTYPE_RAW)
          return Error(QNN_GRAPH_ERROR_INVALID_TENSOR,
                       "tensor %u: the saver executes on RAW memory alone, it registers none",
                       t.id);
        const std::string at = list + "[" + std::to_string(i) + "].v1";
        const std::string size = std::to_string(t.clientBuf.dataSize);
        std::string data = "room(" + size + ")";
        if (reads) {
          QNNRT_ASSIGN_OR_RETURN(data, call.Data(t.clientBuf.data, t.clientBuf.dataSize));
        }
        call.Line(at + ".memType = QNN_TENSORMEMTYPE_RAW;");
        call.Line(at + ".clientBuf.data = " + data + ";");
        call.Line(at + ".clientBuf.dataSize = " + size + ";");
      }
      return Status::Ok();
    };
    QNNRT_RETURN_IF_ERROR(bind(in, inputs, num_inputs, true));
    QNNRT_RETURN_IF_ERROR(bind(out, outputs, num_outputs, false));
    call.Check("graphExecute", owner->variable + ", " + in + ", " + std::to_string(num_inputs) +
                                   ", " + out + ", " + std::to_string(num_outputs) + ", " + with +
                                   ", NULL");
    call.Line("save_outputs(" + Quoted(owner->name.c_str()) + ", " +
              std::to_string(owner->executions) + ", " + out + ", " + std::to_string(num_outputs) +
              ");");
    QNNRT_RETURN_IF_ERROR(call.Write());
    ++owner->executions;
    return Status::Ok();
  });
}

}  // namespace

void FillGraphCalls(QnnInterface_ImplementationV2_32_t* t) {
  t->graphCreate = GraphCreate;
  t->graphSetConfig = GraphSetConfig;
  t->graphAddNode = GraphAddNode;
  t->graphFinalize = GraphFinalize;
  t->graphRetrieve = GraphRetrieve;
  t->graphExecute = GraphExecute;
  t->tensorCreateContextTensor = CreateContextTensor;
  t->tensorCreateGraphTensor = CreateGraphTensor;
}

}  // namespace qnnrt::saver
