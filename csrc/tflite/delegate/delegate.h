// The delegate: which nodes the backend takes, one kernel for each partition of them, and the
// shared memory of their inputs and outputs.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "abi/QNN/TFLiteDelegate/QnnTFLiteDelegate.h"
#include "tflite/delegate/backend.h"
#include "tflite/delegate/graph.h"
#include "tflite/delegate/node_view.h"
#include "tflite/delegate/runtime.h"

namespace qnnrt::tflite {

class Kernel;

// Memory that the runtime gives out at each preparation; variables it keeps, and resets.
bool InArena(const TfLiteTensor& t);

// Shared memory of one tensor. It only grows, and outlives the kernels that use it, so that the
// tensor has the same address when the graph is prepared anew.
struct Allocation {
  Buffer buffer;
  void* address = nullptr;
  uint64_t capacity = 0;
  bool bound = false;  // the memory is the caller's
  int uses = 0;        // kernels
  TfLiteAllocationType before = kTfLiteArenaRw;
};

class Delegate : public std::enable_shared_from_this<Delegate> {
 public:
  static Result<Delegate*> Create(Options options);
  // The application is done with it; it is freed with the last kernel.
  static void Destroy(TfLiteDelegate* delegate);
  static Delegate* Of(const TfLiteDelegate* delegate);

  TfLiteDelegate* c() { return &c_; }
  const Options& options() const { return options_; }
  const Log& log() const { return log_; }
  const std::shared_ptr<Backend>& backend() const { return backend_; }

  Status Bind(int32_t index, void* address, uint64_t nbytes);
  uint32_t Tensors(Qnnrt_TfliteTensor_t* out, uint32_t capacity);
  void Count(Qnnrt_TfliteCounters_t* out);

 private:
  friend class Kernel;
  explicit Delegate(Options options);
  static TfLiteStatus Prepare(TfLiteContext* context, TfLiteDelegate* delegate);
  TfLiteStatus Choose(TfLiteContext* context);
  void Resume(TfLiteContext* context);
  void Suspend(const TfLiteContext* context);
  bool Takes(const TfLiteContext* context, int index, const TfLiteNode& node,
             const TfLiteRegistration& registration, NodePlan* plan);
  bool ApplicationBrings(const TfLiteContext& context) const;
  bool IsBound(const TfLiteContext& context, int index) const;
  bool Allocate(TfLiteContext* context, Kernel* kernel, Port* port);
  Status Provide(Allocation* allocation, uint64_t bytes);
  void Release(TfLiteContext* context, int index);

  TfLiteDelegate c_{};
  const Options options_;
  const Log log_;
  std::shared_ptr<Backend> backend_;
  std::shared_ptr<Delegate> self_;  // until the application is done with it

  std::mutex mutex_;  // of all below
  std::map<std::pair<const TfLiteContext*, int>, Allocation> allocations_;
  // Of the nodes chosen, until their kernels have been made.
  std::map<std::pair<const TfLiteContext*, int>, NodePlan> plans_;
  std::map<const TfLiteContext*, std::pair<uint64_t, uint64_t>> nodes_;  // all, delegated
  std::set<Kernel*> kernels_;
  std::deque<const TfLiteContext*> suspended_;  // graphs without kernels, whose memory is kept
  uint64_t invokes_ = 0, copied_in_ = 0, copied_out_ = 0;  // of kernels that were freed
};

// One partition.
class Kernel {
 public:
  static TfLiteRegistration Registration();

 private:
  friend class Delegate;
  Kernel(std::shared_ptr<Delegate> delegate, TfLiteContext* context)
      : delegate_(std::move(delegate)), context_(context) {}

  static void* Init(TfLiteContext* context, const char* buffer, size_t length);
  static void Free(TfLiteContext* context, void* kernel);
  static TfLiteStatus Prepare(TfLiteContext* context, TfLiteNode* node);
  static TfLiteStatus Invoke(TfLiteContext* context, TfLiteNode* node);

  Status Build(const TfLiteDelegateParams& params);
  Status Attach(TfLiteContext* context);
  Status Run(TfLiteContext* context);
  Status Use(Port* port, const TfLiteTensor& tensor);
  void Summarize(const TfLiteContext& context) const;
  void Dump(const TfLiteContext& context) const;

  const std::shared_ptr<Delegate> delegate_;
  TfLiteContext* const context_;
  std::unique_ptr<Graph> graph_;
  std::set<int> allocated_;  // tensors whose allocation counts this kernel
  std::atomic<uint64_t> invokes_{0};
};

}  // namespace qnnrt::tflite
