// Nodes of TFLite's context as the lowering sees them, and partitions put together from what
// becomes of them.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "tflite/delegate/runtime.h"
#include "tflite/lowering/lowering.h"

namespace qnnrt::tflite {

// Null for those without a counterpart here, and for those that are left to TFLite.
const Operator* OperatorOf(const TfLiteRegistration& registration);

// Throws Refused. TFLite has prepared the node: shapes are its own.
NodeView ViewOf(const TfLiteContext& context, const TfLiteNode& node,
                const TfLiteRegistration& registration);

// The plan of a partition, from those of its nodes in their order.
class Partition {
 public:
  // Throws Refused where tensors contradict each other.
  void Add(const TfLiteContext& context, const TfLiteNode& node, const char* name, NodePlan part);
  // These tensors of TFLite are the partition's outputs.
  void Finish(const TfLiteIntArray& outputs);
  const Plan& plan() const { return plan_; }

 private:
  int Merge(const TfLiteContext& context, const TfLiteNode& node, PlannedTensor tensor);

  Plan plan_;
  std::map<int, Value> values_;                    // of TFLite's tensors
  std::map<std::pair<int, bool>, int> constants_;  // as they are, and decoded
};

}  // namespace qnnrt::tflite
