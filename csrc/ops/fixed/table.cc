// Which ops have kernels that compute on fixed-point numbers as they are.
#include <string>
#include <unordered_map>

#include "abi/qnn_op_names.h"
#include "ops/fixed/kernels.h"

namespace qnnrt {

Result<KernelPtr> MakeFixedKernel(const Node& node, const KernelOptions& options) {
  // never freed: kernels may still be asked for while the process exits
  static const auto* const table = new std::unordered_map<std::string, MakeKernelFn>{
      {QNN_OP_BATCHNORM, MakeFixedBatchnorm},
      {QNN_OP_BUFFER, MakeFixedBuffer},
      {QNN_OP_CONCAT, MakeFixedJoin},
      {QNN_OP_CONVERT, MakeFixedConvert},
      {QNN_OP_CUMULATIVE_SUM, MakeFixedRows},
      {QNN_OP_DEQUANTIZE, MakeFixedConvert},
      {QNN_OP_ELEMENT_WISE_ABS, MakeFixedUnary},
      {QNN_OP_ELEMENT_WISE_ADD, MakeFixedBinary},
      {QNN_OP_ELEMENT_WISE_ASIN, MakeFixedUnary},
      {QNN_OP_ELEMENT_WISE_ATAN, MakeFixedUnary},
      {QNN_OP_ELEMENT_WISE_BINARY, MakeFixedBinary},
      {QNN_OP_ELEMENT_WISE_CEIL, MakeFixedUnary},
      {QNN_OP_ELEMENT_WISE_COS, MakeFixedUnary},
      {QNN_OP_ELEMENT_WISE_DIVIDE, MakeFixedBinary},
      {QNN_OP_ELEMENT_WISE_EQUAL, MakeFixedBinary},
      {QNN_OP_ELEMENT_WISE_EXP, MakeFixedUnary},
      {QNN_OP_ELEMENT_WISE_FLOOR, MakeFixedUnary},
      {QNN_OP_ELEMENT_WISE_FLOOR_DIV, MakeFixedBinary},
      {QNN_OP_ELEMENT_WISE_GREATER, MakeFixedBinary},
      {QNN_OP_ELEMENT_WISE_GREATER_EQUAL, MakeFixedBinary},
      {QNN_OP_ELEMENT_WISE_LESS, MakeFixedBinary},
      {QNN_OP_ELEMENT_WISE_LESS_EQUAL, MakeFixedBinary},
      {QNN_OP_ELEMENT_WISE_LOG, MakeFixedUnary},
      {QNN_OP_ELEMENT_WISE_MAXIMUM, MakeFixedBinary},
      {QNN_OP_ELEMENT_WISE_MINIMUM, MakeFixedBinary},
      {QNN_OP_ELEMENT_WISE_MOD, MakeFixedBinary},
      {QNN_OP_ELEMENT_WISE_MULTIPLY, MakeFixedBinary},
      {QNN_OP_ELEMENT_WISE_NEG, MakeFixedUnary},
      {QNN_OP_ELEMENT_WISE_NEURON, MakeFixedUnary},
      {QNN_OP_ELEMENT_WISE_NOT_EQUAL, MakeFixedBinary},
      {QNN_OP_ELEMENT_WISE_POWER, MakeFixedBinary},
      {QNN_OP_ELEMENT_WISE_ROUND, MakeFixedUnary},
      {QNN_OP_ELEMENT_WISE_RSQRT, MakeFixedUnary},
      {QNN_OP_ELEMENT_WISE_SELECT, MakeFixedSelect},
      {QNN_OP_ELEMENT_WISE_SIGN, MakeFixedUnary},
      {QNN_OP_ELEMENT_WISE_SIN, MakeFixedUnary},
      {QNN_OP_ELEMENT_WISE_SQUARED_DIFFERENCE, MakeFixedBinary},
      {QNN_OP_ELEMENT_WISE_SQUARE_ROOT, MakeFixedUnary},
      {QNN_OP_ELEMENT_WISE_SUBTRACT, MakeFixedBinary},
      {QNN_OP_ELEMENT_WISE_UNARY, MakeFixedUnary},
      {QNN_OP_ELU, MakeFixedUnary},
      {QNN_OP_GELU, MakeFixedUnary},
      {QNN_OP_GROUP_NORM, MakeFixedRows},
      {QNN_OP_HARD_SWISH, MakeFixedUnary},
      {QNN_OP_INSTANCE_NORM, MakeFixedRows},
      {QNN_OP_IS_INF, MakeFixedUnary},
      {QNN_OP_IS_NAN, MakeFixedUnary},
      {QNN_OP_L2_NORM, MakeFixedRows},
      {QNN_OP_LAYER_NORM, MakeFixedRows},
      {QNN_OP_LOGIT, MakeFixedUnary},
      {QNN_OP_LOG_SOFTMAX, MakeFixedSoftmax},
      {QNN_OP_LRN, MakeFixedRows},
      {QNN_OP_PACK, MakeFixedJoin},
      {QNN_OP_POOL_AVG_2D, MakeFixedPoolAvg},
      {QNN_OP_POOL_AVG_3D, MakeFixedPoolAvg},
      {QNN_OP_PRELU, MakeFixedBinary},
      {QNN_OP_QUANTIZE, MakeFixedConvert},
      {QNN_OP_REDUCE_MEAN, MakeFixedReduceSum},
      {QNN_OP_REDUCE_PROD, MakeFixedRows},
      {QNN_OP_REDUCE_SUM, MakeFixedReduceSum},
      {QNN_OP_REDUCE_SUM_SQUARE, MakeFixedRows},
      {QNN_OP_RELU, MakeFixedUnary},
      {QNN_OP_RELU1, MakeFixedUnary},
      {QNN_OP_RELU6, MakeFixedUnary},
      {QNN_OP_RELU_MIN_MAX, MakeFixedUnary},
      {QNN_OP_RESIZE, MakeFixedResize},
      {QNN_OP_RESIZE_BILINEAR, MakeFixedResize},
      {QNN_OP_RMS_NORM, MakeFixedRows},
      {QNN_OP_SIGMOID, MakeFixedUnary},
      {QNN_OP_SOFTMAX, MakeFixedSoftmax},
      {QNN_OP_TANH, MakeFixedUnary},
  };
  const auto entry = table->find(node.type);
  return entry == table->end() ? KernelPtr() : entry->second(node, options);
}

}  // namespace qnnrt
