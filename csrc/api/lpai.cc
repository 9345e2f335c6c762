// Properties of lpai backends and graphs.
#include "abi/qnn_lpai.h"
#include "api/functions.h"

namespace qnnrt::api {
namespace {

Status Answer(const LpaiSettings& lpai, uint32_t option, void* property) {
  constexpr ErrorCode kBad = QNN_BACKEND_ERROR_INVALID_ARGUMENT;
  if (property == nullptr) {
    return Error(kBad, "lpai backend property %u: the pointer to its value must not be null",
                 option);
  }
  switch (option) {
    case QNN_LPAI_BACKEND_GET_PROP_ALIGNMENT_REQ:
      *static_cast<QnnLpaiBackend_BufferAlignmentReq_t*>(property) = {lpai.start_alignment,
                                                                      lpai.size_alignment};
      return Status::Ok();
    case QNN_LPAI_BACKEND_GET_PROP_REQUIRE_PERSISTENT_BINARY:
      *static_cast<uint32_t*>(property) = lpai.direct_mode ? 1 : 0;
      return Status::Ok();
    case QNN_LPAI_BACKEND_GET_PROP_ENPU_CORE_NUM:
      *static_cast<uint32_t*>(property) = lpai.CoreCount();
      return Status::Ok();
    case QNN_LPAI_BACKEND_GET_PROP_ENPU_CORE_INFO: {
      auto& core = *static_cast<QnnLpaiBackend_eNPUCoreInfo_t*>(property);
      if (core.coreIndex >= lpai.CoreCount()) {
        return Error(kBad, "ENPU_CORE_INFO: coreIndex is from 0 to %u, got %u",
                     lpai.CoreCount() - 1, core.coreIndex);
      }
      core.macCnt = lpai.MacCount();
      core.version = lpai.version;
      return Status::Ok();
    }
    default:
      return Error(QNN_BACKEND_ERROR_NOT_SUPPORTED,
                   "lpai backend property %u is not known; ALIGNMENT_REQ (0), "
                   "REQUIRE_PERSISTENT_BINARY (1), ENPU_CORE_NUM (200) and ENPU_CORE_INFO (300) "
                   "are",
                   option);
  }
}

// The properties are 32 bits wide.
Status Answer32(const char* what, const Graph& graph, uint64_t bytes, void* property) {
  if (bytes > UINT32_MAX) {
    return Error(QNN_COMMON_ERROR_MEM_ALLOC,
                 "graph '%s' needs %llu bytes of %s memory, more than the %u that this property "
                 "and QnnLpaiGraph_Mem_t can say",
                 graph.name().c_str(), static_cast<unsigned long long>(bytes), what, UINT32_MAX);
  }
  *static_cast<uint32_t*>(property) = static_cast<uint32_t>(bytes);
  return Status::Ok();
}

Status Answer(Graph* graph, uint32_t option, void* property) {
  const bool scratch = option == QNN_LPAI_GRAPH_GET_PROP_SCRATCH_MEM_SIZE;
  if (!scratch && option != QNN_LPAI_GRAPH_GET_PROP_PERSISTENT_MEM_SIZE) {
    return Error(QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
                 "lpai graph property %u is not known; SCRATCH_MEM_SIZE (1) and "
                 "PERSISTENT_MEM_SIZE (101) are",
                 option);
  }
  if (property == nullptr) {
    return Error(QNN_GRAPH_ERROR_INVALID_ARGUMENT,
                 "lpai graph property %u: the pointer to its value must not be null", option);
  }
  {
    auto lock = graph->Lock();
    if (graph->outputs().empty()) {
      return Error(QNN_GRAPH_ERROR_INVALID_ARGUMENT,
                   "graph '%s' has no output yet: what memory it needs depends on its nodes",
                   graph->name().c_str());
    }
  }
  QNNRT_ASSIGN_OR_RETURN(const PoolSizes sizes, graph->Prepare());
  return scratch ? Answer32("scratch", *graph, sizes.scratch, property)
                 : Answer32("persistent", *graph, sizes.persistent, property);
}

}  // namespace

Qnn_ErrorHandle_t GetLpaiBackendProperty(Qnn_BackendHandle_t handle,
                                         QnnBackend_Property_t** properties) {
  return Guarded([&] {
    auto object = Runtime::Get().backends.Find(handle);
    if (!object) {
      return Report(Status(QNN_BACKEND_ERROR_INVALID_HANDLE, "this is no live backend handle"));
    }
    const Backend& backend = *object->backend;
    auto answer = [&]() -> Status {
      if (properties == nullptr)
        return Status(QNN_BACKEND_ERROR_INVALID_ARGUMENT, "the properties must not be null");
      for (; *properties != nullptr; ++properties) {
        if ((*properties)->option != QNN_BACKEND_PROPERTY_OPTION_CUSTOM) {
          return Error(QNN_BACKEND_ERROR_NOT_SUPPORTED, "backend property %d is not known",
                       static_cast<int>((*properties)->option));
        }
        const auto* custom =
            static_cast<const QnnLpaiBackend_CustomProperty_t*>((*properties)->customProperty);
        if (custom == nullptr) {
          return Status(QNN_BACKEND_ERROR_INVALID_ARGUMENT, "the custom property must not be null");
        }
        QNNRT_RETURN_IF_ERROR(Answer(backend.lpai, custom->option, custom->property));
      }
      return Status::Ok();
    };
    return Report(answer(), backend.log.get());
  });
}

Qnn_ErrorHandle_t GetLpaiGraphProperty(Qnn_GraphHandle_t handle, QnnGraph_Property_t** properties) {
  return Guarded([&] {
    auto graph = Runtime::Get().graphs.Find(handle);
    if (!graph) return Report(StaleGraph(handle));
    auto answer = [&]() -> Status {
      if (properties == nullptr)
        return Status(QNN_GRAPH_ERROR_INVALID_ARGUMENT, "the properties must not be null");
      for (; *properties != nullptr; ++properties) {
        if ((*properties)->option != QNN_GRAPH_PROPERTY_OPTION_CUSTOM) {
          return Error(QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, "graph property %d is not known",
                       static_cast<int>((*properties)->option));
        }
        const auto* custom =
            static_cast<const QnnLpaiGraph_CustomProperty_t*>((*properties)->customProperty);
        if (custom == nullptr)
          return Status(QNN_GRAPH_ERROR_INVALID_ARGUMENT, "the custom property must not be null");
        QNNRT_RETURN_IF_ERROR(Answer(&graph->graph, custom->option, custom->property));
      }
      return Status::Ok();
    };
    return Report(answer(), graph->context->backend->log.get());
  });
}

Status SetLpaiPools(Graph* graph, GraphSettings* settings) {
  const LpaiPool before = settings->lpai.persistent;
  if (settings->persistent) {
    QNNRT_RETURN_IF_ERROR(
        graph->SetPersistent(settings->persistent->address, settings->persistent->size));
    settings->lpai.persistent = *settings->persistent;
  }
  if (!settings->scratch) return Status::Ok();
  Status status = graph->SetScratch(settings->scratch->address, settings->scratch->size);
  if (status.ok()) {
    settings->lpai.scratch = *settings->scratch;
  } else if (settings->persistent) {
    (void)graph->SetPersistent(before.address, before.size);  // as it was
  }
  return status;
}

}  // namespace qnnrt::api
