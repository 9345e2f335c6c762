// Contexts from binaries: what binary.cc, binary_load.cc and binary_get.cc share.
#pragma once

#include <memory>
#include <vector>

#include "api/runtime.h"
#include "graph/binary/binary.h"

namespace qnnrt {

// The binary that a context came from.
struct LoadedBinary {
  uint64_t weights_size = 0;     // of the graphs that were made
  uint64_t spill_fill_size = 0;  // the largest arena among them
  // Until contextFinalize, where graphs are deferred.
  bool deferred = false;
  std::shared_ptr<CommonWeights> common;
  BinaryView view;
  std::shared_ptr<const AlignedBytes> copy;  // what the view is of; null: the client keeps it
};

namespace api {

// Opens a binary for a backend and makes its graphs.
class Loader {
 public:
  Loader(const Backend& backend, const ContextOptions& options)
      : backend_(backend), options_(options) {}

  // Checks before anything is created.
  Status Open(const void* data, uint64_t size);

  const BinaryView& view() const { return view_; }
  const std::vector<const BinaryGraph*>& graphs() const { return graphs_; }
  uint64_t weights_size() const;
  uint64_t spill_fill_size() const;

  // Warns, or refuses with STRICT, unless `why` is empty. Errors: 5011.
  Status Suitable(const std::string& why) const;
  // The graph's weights in the binary, or in a copy when the client does not keep that.
  Result<LoadOptions> Weights(const BinaryGraph& described, bool check);
  // The graph with its weights in the binary, or in a copy when the client does not keep that.
  // `check`: compare them now, not before the first execution.
  Status Load(const BinaryGraph& described, bool check, Graph* graph);
  // What graphs are made from that wait for graphFinalize; `copy`: what the binary is in, null
  // where the client keeps it. With STRICT compatibility the weights are compared here.
  Result<std::shared_ptr<const LoadSource>> Source(std::shared_ptr<const AlignedBytes> copy) const;
  void LogLoad(uint64_t nanoseconds) const;

 private:
  Result<std::shared_ptr<AlignedBytes>> CopyOf(const WeightCheck& part, int threads) const;
  Status CheckBackend() const;
  Status ChooseGraphs();
  Status CheckSuitable();
  bool Wants(QnnLog_Level_t level) const {
    return backend_.log != nullptr && backend_.log->Wants(level);
  }

  const Backend& backend_;
  const ContextOptions& options_;
  BinaryView view_;
  std::vector<const BinaryGraph*> graphs_;
  bool in_place_ = false;
  std::shared_ptr<CommonWeights> common_;  // of Load, once it has one
};

// What the graphs of a binary have in common, compared with its checksum if `check`; `to`: where it
// is copied first, null: it is used in the binary. Null: they have nothing.
Result<std::shared_ptr<CommonWeights>> TakeCommon(const BinaryView& view, bool check, uint8_t* to,
                                                  std::shared_ptr<const void> owner);

// Publishes graphs and their context as handles: all of them or none.
Status Publish(std::shared_ptr<Context> context, std::vector<std::unique_ptr<GraphObject>> graphs,
               Qnn_ContextHandle_t* handle);

// Of a profile, if there is one; times in nanoseconds.
void AddLoadEvents(ProfileScope* profile, uint64_t start, uint64_t opened, uint64_t end,
                   uint64_t weights);

// Options of a graph from a binary: those that it was prepared with, the others from the backend.
GraphOptions OptionsFor(const Backend& backend, const BinaryGraph& graph);

// The largest arena among the graphs of a context from a binary, with the threads that they have or
// will have.
Result<uint64_t> SpillFillSize(const Context& context);
// Finalizes deferred graphs, with weights and arenas in the client's buffers if the context has
// such.
Status FinalizeDeferred(Context* context);

// binary_get.cc
Qnn_ErrorHandle_t GetBinarySize(Qnn_ContextHandle_t handle, Qnn_ContextBinarySize_t* size);
Qnn_ErrorHandle_t GetBinary(Qnn_ContextHandle_t handle, void* buffer, Qnn_ContextBinarySize_t size,
                            Qnn_ContextBinarySize_t* written);

}  // namespace api
}  // namespace qnnrt
