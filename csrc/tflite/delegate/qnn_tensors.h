// Planned tensors and operations as QNN's structs, which point into the plan.
#pragma once

#include <deque>
#include <vector>

#include "abi/qnn_types.h"
#include "tflite/lowering/plan.h"

namespace qnnrt::tflite {

class QnnTensors {
 public:
  explicit QnnTensors(const Plan& plan);
  QnnTensors(const QnnTensors&) = delete;

  std::vector<Qnn_Tensor_t>& all() { return tensors_; }
  // Valid until the next call; params that are tensors have no id.
  Qnn_OpConfig_t Op(const PlannedOp& op);
  std::vector<Qnn_Param_t>& params() { return params_; }

 private:
  void Quantize(const Encoding& encoding, Qnn_QuantizeParams_t* out);

  std::vector<Qnn_Tensor_t> tensors_;
  std::deque<std::vector<Qnn_ScaleOffset_t>> scales_;
  std::vector<Qnn_Param_t> params_;
  std::vector<Qnn_Tensor_t> inputs_, outputs_;
};

}  // namespace qnnrt::tflite
