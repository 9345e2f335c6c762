// Writing contexts into binaries.
#include <cinttypes>

#include "api/binary.h"
#include "api/functions.h"
#include "support/version.h"

namespace qnnrt::api {
namespace {

// A context's graphs, pinned and locked.
class HeldGraphs {
 public:
  Status Hold(Context* context) {
    context_lock_ = std::unique_lock<std::mutex>(context->mutex);
    if (context->graphs.empty())
      return Status(QNN_CONTEXT_ERROR_NOT_FINALIZED, "the context has no graph to write");
    for (const auto& entry : context->graphs) {
      pins_.push_back(Runtime::Get().graphs.Find(entry.second));
      if (!pins_.back()) continue;  // being freed
      Graph& graph = pins_.back()->graph;
      locks_.push_back(graph.Lock());
      if (!graph.finalized()) {
        return Error(QNN_CONTEXT_ERROR_NOT_FINALIZED,
                     "graph '%s' is not finalized: finalize every graph of the context first",
                     graph.name().c_str());
      }
      graphs_.push_back(&graph);
    }
    return Status::Ok();
  }
  // Mapped weights that nobody has read yet.
  Status CheckWeights() const {
    for (Graph* graph : graphs_) QNNRT_RETURN_IF_ERROR(graph->CheckWeights());
    return Status::Ok();
  }
  BinaryWriter Writer(const BackendTraits& traits) const {
    return BinaryWriter({traits.id, kCoreApiVersion, traits.api_version},
                        {graphs_.begin(), graphs_.end()});
  }

 private:
  std::unique_lock<std::mutex> context_lock_;
  std::vector<decltype(Runtime::graphs)::Pin> pins_;
  std::vector<std::unique_lock<std::mutex>> locks_;
  std::vector<Graph*> graphs_;
};

}  // namespace

Qnn_ErrorHandle_t GetBinarySize(Qnn_ContextHandle_t handle, Qnn_ContextBinarySize_t* size) {
  return Guarded([&] {
    auto object = Runtime::Get().contexts.Find(handle);
    if (!object) return Report(StaleContext());
    Context& context = *object->context;
    Log* log = context.backend->log.get();
    if (size == nullptr)
      return Report(Status(QNN_CONTEXT_ERROR_INVALID_ARGUMENT, "the size must not be null"), log);
    *size = 0;
    HeldGraphs graphs;
    Status status = graphs.Hold(&context);
    if (status.ok()) *size = graphs.Writer(*context.backend->traits).size();
    return Report(status, log);
  });
}

Qnn_ErrorHandle_t GetBinary(Qnn_ContextHandle_t handle, void* buffer, Qnn_ContextBinarySize_t size,
                            Qnn_ContextBinarySize_t* written) {
  return Guarded([&] {
    auto object = Runtime::Get().contexts.Find(handle);
    if (!object) return Report(StaleContext());
    Context& context = *object->context;
    Log* log = context.backend->log.get();
    if (buffer == nullptr || written == nullptr) {
      return Report(Status(QNN_CONTEXT_ERROR_INVALID_ARGUMENT,
                           "the buffer and the size written must not be null"),
                    log);
    }
    *written = 0;
    auto write = [&]() -> Status {
      HeldGraphs graphs;
      QNNRT_RETURN_IF_ERROR(graphs.Hold(&context));
      QNNRT_RETURN_IF_ERROR(graphs.CheckWeights());
      const BinaryWriter writer = graphs.Writer(*context.backend->traits);
      if (size < writer.size()) {
        return Error(QNN_CONTEXT_ERROR_GET_BINARY_FAILED,
                     "the buffer has %" PRIu64 " bytes, the context binary needs %" PRIu64
                     ": ask contextGetBinarySize",
                     static_cast<uint64_t>(size), writer.size());
      }
      writer.Write(static_cast<uint8_t*>(buffer));
      *written = writer.size();
      return Status::Ok();
    };
    return Report(write(), log);
  });
}

}  // namespace qnnrt::api
