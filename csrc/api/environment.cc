#include "api/environment.h"

#include <algorithm>

#include "abi/qnn_errors.h"
#include "api/functions.h"
#include "memory/descriptor.h"
#include "memory/memory.h"
#include "support/fork.h"

namespace qnnrt {
namespace {

using Tensors = std::pair<Qnn_Tensor_t*, uint32_t>;

Status CheckSet(const QnnGraph_ExecuteEnvironment_t* environment) {
  constexpr ErrorCode kBad = QNN_GRAPH_ERROR_INVALID_ARGUMENT;
  if (environment == nullptr) return Status(kBad, "an execution environment must not be null");
  const Qnn_TensorSet_t& set = environment->tensorSet;
  if (set.version != QNN_TENSOR_SET_VERSION_1)
    return Error(kBad, "tensor set version %d is unknown, use 1", static_cast<int>(set.version));
  if ((set.v1.numInputs != 0 && set.v1.inputs == nullptr) ||
      (set.v1.numOutputs != 0 && set.v1.outputs == nullptr)) {
    return Status(kBad, "a tensor set with a count above 0 needs the tensors");
  }
  return Status::Ok();
}

// visit(tensor, is_input) -> Status
template <typename Visit>
Status ForEachTensor(const Qnn_TensorSetV1_t& set, Visit visit) {
  for (uint32_t i = 0; i < set.numInputs; ++i) QNNRT_RETURN_IF_ERROR(visit(&set.inputs[i], true));
  for (uint32_t i = 0; i < set.numOutputs; ++i)
    QNNRT_RETURN_IF_ERROR(visit(&set.outputs[i], false));
  return Status::Ok();
}

// Takes one element of that value out; false when there is none.
template <typename T>
bool TakeOut(std::vector<T>* values, T value) {
  auto found = std::find(values->begin(), values->end(), value);
  if (found == values->end()) return false;
  values->erase(found);
  return true;
}

bool IsKnown(QnnGraph_ExecuteEnvironmentOption_t option) {
  return option == QNN_GRAPH_EXECUTE_ENVIRONMENT_OPTION_BIND_MEM_HANDLES ||
         option == QNN_GRAPH_EXECUTE_ENVIRONMENT_OPTION_POPULATE_CLIENT_BUFS;
}

Status UnknownOption(QnnGraph_ExecuteEnvironmentOption_t option) {
  return Error(QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
               "execution environment option %d is not supported: there are BIND_MEM_HANDLES (0) "
               "and POPULATE_CLIENT_BUFS (1)",
               static_cast<int>(option));
}

void Empty(QnnGraph_ExecuteEnvironment_t* environment) {
  environment->tensorSet = {};
  environment->tensorSet.version = QNN_TENSOR_SET_VERSION_1;
}

}  // namespace

// In a forked child the handles are stale: there is nothing to unpin.
Status Environments::CheckOwned() const {
  if (forks_ == ForkGeneration()) return Status::Ok();
  return Status(QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
                "the execution environments of this graph belong to the parent of this forked "
                "process: make a context of this process's own");
}

Environments::Environments() : forks_(ForkGeneration()) {}

Environments::~Environments() {
  if (forks_ == ForkGeneration()) Unpin(&bound_.handles);  // a child's registry has no pins
}

void Environments::Unpin(std::vector<SlotHandle>* handles) {
  Registry& registry = Memory::Get().registry();
  for (SlotHandle handle : *handles) registry.Release(handle);
  handles->clear();
}

Status Environments::Bind(const Graph& graph, const Qnn_TensorSetV1_t& set, Bound* made,
                          bool* surplus) {
  Binding binding;
  QNNRT_RETURN_IF_ERROR(
      graph.BindHandles(set.inputs, set.numInputs, set.outputs, set.numOutputs, &binding));
  *surplus = std::all_of(binding.pinned.begin(), binding.pinned.end(), [&](SlotHandle handle) {
    return std::find(made->handles.begin(), made->handles.end(), handle) != made->handles.end();
  });
  try {
    if (!*surplus) {
      made->handles.insert(made->handles.end(), binding.pinned.begin(), binding.pinned.end());
      binding.pinned.clear();
    }
  } catch (...) {
    Graph::Release(&binding);
    throw;
  }
  Graph::Release(&binding);
  return Status::Ok();
}

Status Environments::Populate(Graph* graph, const Qnn_TensorSetV1_t& set, Bound* made,
                              bool* surplus) {
  std::vector<uint32_t> ids;
  QNNRT_RETURN_IF_ERROR(ForEachTensor(set, [&](Qnn_Tensor_t* tensor, bool is_input) -> Status {
    const Qnn_TensorV1_t& t = tensor->v1;
    const Tensor* own = graph->FindTensor(t.id);
    if (own == nullptr || (is_input ? !own->is_input() : !own->is_output() && !own->is_state())) {
      return Error(QNN_GRAPH_ERROR_INVALID_TENSOR, "graph '%s' has no %s of id %u",
                   graph->name().c_str(), is_input ? "input" : "output", t.id);
    }
    if (t.memType != QNN_TENSORMEMTYPE_RAW) {
      return Error(QNN_GRAPH_ERROR_INVALID_TENSOR,
                   "tensor '%s': only RAW tensors have a client buffer to fill in",
                   own->name.c_str());
    }
    if (own->bytes() > UINT32_MAX) {
      return Error(QNN_GRAPH_ERROR_INVALID_TENSOR,
                   "tensor '%s' has %llu bytes, more than dataSize can say: register memory for it",
                   own->name.c_str(), static_cast<unsigned long long>(own->bytes()));
    }
    QNNRT_ASSIGN_OR_RETURN([[maybe_unused]] void* address, graph->StagingAddress(t.id));
    ids.push_back(t.id);
    return Status::Ok();
  }));
  *surplus = std::all_of(ids.begin(), ids.end(), [&](uint32_t id) {
    return std::find(made->populated.begin(), made->populated.end(), id) != made->populated.end();
  });
  if (!*surplus) made->populated.insert(made->populated.end(), ids.begin(), ids.end());
  return Status::Ok();
}

struct Environments::Undo {
  Bound* made;
  ~Undo() { Unpin(&made->handles); }
};

Status Environments::Prepare(Graph* graph, QnnGraph_ExecuteEnvironment_t** environments,
                             uint32_t count) {
  QNNRT_RETURN_IF_ERROR(CheckOwned());
  if (environments == nullptr && count != 0)
    return Status(QNN_GRAPH_ERROR_INVALID_ARGUMENT, "the execution environments must not be null");
  Status unknown;
  for (uint32_t i = 0; i < count; ++i) {
    if (environments[i] == nullptr || IsKnown(environments[i]->option)) continue;
    if (unknown.ok()) unknown = UnknownOption(environments[i]->option);
    Empty(environments[i]);
  }
  if (!unknown.ok()) return unknown;
  Bound made;
  Undo undo{&made};
  std::vector<bool> surplus(count);
  for (uint32_t i = 0; i < count; ++i) {
    QNNRT_RETURN_IF_ERROR(CheckSet(environments[i]));
    const Qnn_TensorSetV1_t& set = environments[i]->tensorSet.v1;
    bool nothing_new = false;
    if (environments[i]->option == QNN_GRAPH_EXECUTE_ENVIRONMENT_OPTION_BIND_MEM_HANDLES) {
      QNNRT_RETURN_IF_ERROR(Bind(*graph, set, &made, &nothing_new));
    } else {
      QNNRT_RETURN_IF_ERROR(Populate(graph, set, &made, &nothing_new));
    }
    surplus[i] = nothing_new;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  bound_.handles.reserve(bound_.handles.size() + made.handles.size());
  bound_.populated.reserve(bound_.populated.size() + made.populated.size());
  // From here on nothing fails.
  for (uint32_t i = 0; i < count; ++i) {
    if (surplus[i]) {
      Empty(environments[i]);
    } else if (environments[i]->option ==
               QNN_GRAPH_EXECUTE_ENVIRONMENT_OPTION_POPULATE_CLIENT_BUFS) {
      (void)ForEachTensor(environments[i]->tensorSet.v1, [&](Qnn_Tensor_t* t, bool) -> Status {
        t->v1.clientBuf.data = graph->StagingAddress(t->v1.id).value();  // it is reserved
        t->v1.clientBuf.dataSize = static_cast<uint32_t>(graph->FindTensor(t->v1.id)->bytes());
        return Status::Ok();
      });
    }
  }
  Registry& registry = Memory::Get().registry();
  registry.NoteBound(made.handles, true);
  bound_.handles.insert(bound_.handles.end(), made.handles.begin(), made.handles.end());
  bound_.populated.insert(bound_.populated.end(), made.populated.begin(), made.populated.end());
  made.handles.clear();
  return Status::Ok();
}

Status Environments::Release(const QnnGraph_ExecuteEnvironment_t** environments, uint32_t count) {
  QNNRT_RETURN_IF_ERROR(CheckOwned());
  if (environments == nullptr && count != 0)
    return Status(QNN_GRAPH_ERROR_INVALID_ARGUMENT, "the execution environments must not be null");
  std::lock_guard<std::mutex> lock(mutex_);
  Bound left = bound_;
  std::vector<SlotHandle> released;
  for (uint32_t i = 0; i < count; ++i) {
    QNNRT_RETURN_IF_ERROR(CheckSet(environments[i]));
    const bool bind =
        environments[i]->option == QNN_GRAPH_EXECUTE_ENVIRONMENT_OPTION_BIND_MEM_HANDLES;
    if (!IsKnown(environments[i]->option)) return UnknownOption(environments[i]->option);
    QNNRT_RETURN_IF_ERROR(
        ForEachTensor(environments[i]->tensorSet.v1, [&](Qnn_Tensor_t* t, bool) -> Status {
          const SlotHandle handle = bind ? HandleFromQnn(t->v1.memHandle) : 0;
          if (bind ? !TakeOut(&left.handles, handle) : !TakeOut(&left.populated, t->v1.id)) {
            return Error(QNN_GRAPH_ERROR_INVALID_ARGUMENT,
                         bind ? "tensor %u: its memory handle is not bound to this graph"
                              : "tensor %u: its client buffer was not filled in by this graph",
                         t->v1.id);
          }
          if (bind) released.push_back(handle);
          return Status::Ok();
        }));
  }
  bound_ = std::move(left);
  Memory::Get().registry().NoteBound(released, false);
  Unpin(&released);
  return Status::Ok();
}

namespace api {
namespace {

template <typename Body>
Qnn_ErrorHandle_t WithGraph(Qnn_GraphHandle_t handle, Body body) {
  return Guarded([&] {
    auto graph = Runtime::Get().graphs.Find(handle);
    if (!graph) return Report(StaleGraph(handle));
    return Report(body(&*graph), graph->context->backend->log.get());
  });
}

Qnn_ErrorHandle_t Prepare(Qnn_GraphHandle_t handle, QnnGraph_ExecuteEnvironment_t** environments,
                          uint32_t count) {
  return WithGraph(handle, [&](GraphObject* object) {
    return object->environments.Prepare(&object->graph, environments, count);
  });
}

Qnn_ErrorHandle_t Release(Qnn_GraphHandle_t handle,
                          const QnnGraph_ExecuteEnvironment_t** environments, uint32_t count) {
  return WithGraph(handle, [&](GraphObject* object) {
    return object->environments.Release(environments, count);
  });
}

}  // namespace

void FillEnvironment(const BackendTraits& traits, QnnInterface_ImplementationV2_32_t* table) {
  constexpr ErrorCode kNo = QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE;
  Refuse<kNo>(&table->graphPrepareExecutionEnvironment);
  Refuse<kNo>(&table->graphReleaseExecutionEnvironment);
  if (!traits.environments) return;
  table->graphPrepareExecutionEnvironment = Prepare;
  table->graphReleaseExecutionEnvironment = Release;
}

}  // namespace api
}  // namespace qnnrt
