// Writing contexts into binaries.
#include <optional>

#include "api/binary_calls.h"
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
    const BackendTraits& traits = *context->backend->traits;
    writer_.emplace(BinaryWriter::Backend{traits.id, kCoreApiVersion, traits.api_version},
                    std::vector<const Graph*>(graphs_.begin(), graphs_.end()));
    return Status::Ok();
  }
  // Mapped weights that nobody has read yet.
  Status CheckWeights() const {
    for (Graph* graph : graphs_) QNNRT_RETURN_IF_ERROR(graph->CheckWeights());
    return Status::Ok();
  }
  uint64_t size() const { return writer_->size(); }
  void Write(uint8_t* to) const { writer_->Write(to); }

 private:
  std::unique_lock<std::mutex> context_lock_;
  std::vector<decltype(Runtime::graphs)::Pin> pins_;
  std::vector<std::unique_lock<FairMutex>> locks_;
  std::vector<Graph*> graphs_;
  std::optional<BinaryWriter> writer_;
};

}  // namespace

Qnn_ErrorHandle_t GetBinarySize(Qnn_ContextHandle_t handle, Qnn_ContextBinarySize_t* size) {
  return SizeOfContent<HeldGraphs>(handle, size);
}

Qnn_ErrorHandle_t GetBinary(Qnn_ContextHandle_t handle, void* buffer, Qnn_ContextBinarySize_t size,
                            Qnn_ContextBinarySize_t* written) {
  return WriteContent<HeldGraphs>(handle, buffer, size, written);
}

}  // namespace qnnrt::api
