#include "ir/node.h"

namespace qnnrt {

const char* ActivationName(Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return "Relu";
    case Activation::kRelu6:
      return "Relu6";
    case Activation::kReluMinMax:
      return "ReluMinMax";
    case Activation::kSigmoid:
      return "Sigmoid";
    case Activation::kTanh:
      return "Tanh";
    case Activation::kElu:
      return "Elu";
    case Activation::kGelu:
      return "Gelu";
    case Activation::kHardSwish:
      return "HardSwish";
    case Activation::kHardSigmoid:
      return "HardSigmoid";
    case Activation::kSoftplus:
      return "Softplus";
    case Activation::kLeakyRelu:
      return "LeakyRelu";
    case Activation::kSwish:
      return "Swish";
  }
  return "?";
}

const char* PostOpName(const PostOp& op) {
  return op.kind == PostOp::Kind::kAdd ? "Add" : ActivationName(op.activation);
}

}  // namespace qnnrt
