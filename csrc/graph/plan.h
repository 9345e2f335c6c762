// The executable form of a graph: kernels, one arena, and a flat array of steps whose pointers are
// final but for those of the app tensors.
#pragma once

#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "graph/ir.h"
#include "graph/planner.h"
#include "ops/op.h"

namespace qnnrt {

struct Step {
  Kernel* kernel;
  const void* const* in;
  void* const* out;
  void* scratch;
};

class Plan {
 public:
  // Chooses kernels, plans memory and lays out the steps. `inputs` and `outputs` are the app
  // tensors in the client's order; static data that no kernel reads any more is let go.
  static Result<std::unique_ptr<Plan>> Make(Ir ir, const std::vector<const Tensor*>& inputs,
                                            const std::vector<const Tensor*>& outputs,
                                            const KernelOptions& options);

  // Points the steps at an app tensor's memory: input i, or output i - inputs.size().
  void Bind(size_t app_tensor, void* address) {
    for (void** slot : patches_[app_tensor]) *slot = address;
  }

  Status Run() {
    for (const Step& step : steps_) {
      Status status = step.kernel->Run({step.in, step.out, step.scratch, threads_});
      if (!status.ok()) return Failed(step, std::move(status));
    }
    return Status::Ok();
  }
  // The same, with the time of each step in nanoseconds (times has room for steps().size()).
  Status RunTimed(uint64_t* times);

  const std::vector<Step>& steps() const { return steps_; }
  const Node& node(size_t step) const { return ir_.nodes[step_nodes_[step]]; }
  const ArenaPlan& arena() const { return arena_plan_; }
  uint64_t weight_bytes() const { return weight_bytes_; }
  // True when a step still reads this static data in place.
  bool Reads(const AlignedBytes* data) const { return kept_.count(data) != 0; }
  std::string Describe(const std::vector<PassReport>& passes) const;  // JSON

 private:
  class Layout;

  explicit Plan(Ir ir, int threads) : ir_(std::move(ir)), threads_(threads) {}
  Status MakeKernels(const KernelOptions& options);
  Status LayOut(const std::vector<const Tensor*>& inputs,
                const std::vector<const Tensor*>& outputs);
  void CountWeights();
  Status Failed(const Step& step, Status status) const;

  Ir ir_;
  Threads threads_;
  std::vector<KernelPtr> kernels_;
  std::vector<Step> steps_;
  std::vector<size_t> step_nodes_;  // a step's node: aliases with nothing to do have no step
  std::vector<void*> pointers_;     // every step's in and out arrays, back to back
  std::vector<std::vector<void**>> patches_;  // for each app tensor the slots that hold its address
  std::unordered_set<const AlignedBytes*> kept_;
  ArenaPlan arena_plan_;
  std::shared_ptr<AlignedBytes> arena_;
  uint64_t weight_bytes_ = 0;
};

}  // namespace qnnrt
