#include "ops/fixed/bias_scale.h"

#include "abi/qnn_errors.h"
#include "ops/encoding.h"
#include "ops/op.h"

namespace qnnrt {

bool LeavesScaleOpen(const Tensor& tensor) {
  const Quantization& q = tensor.quantization;
  return tensor.dtype == QNN_DATATYPE_SFIXED_POINT_32 && tensor.type == QNN_TENSOR_TYPE_STATIC &&
         q.defined && q.per_tensor() && q.scales.size() == 1 && q.scales[0] == 0 &&
         q.offsets[0] == 0;
}

Status CheckTensor(const Tensor& tensor) {
  if (TypeBit(tensor.dtype) == 0) {
    return Error(QNN_TENSOR_ERROR_UNSUPPORTED_TENSOR_PARAM,
                 "tensor '%s': no kernel of this backend works on the element type %s",
                 tensor.name.c_str(), DataTypeName(tensor.dtype));
  }
  return LeavesScaleOpen(tensor) ? Status::Ok() : CheckEncoding(tensor);
}

std::optional<Tensor> BiasOfProducts(const Node& node) {
  const OpDef* def = FindOp(node.type);
  if (def == nullptr || !def->sums_products() || !node.HasInput(0) || !node.HasInput(1) ||
      !node.HasInput(2) || !LeavesScaleOpen(*node.inputs[2])) {
    return std::nullopt;
  }
  const Quantization& in = node.inputs[0]->quantization;
  const Quantization& weights = node.inputs[1]->quantization;
  Tensor bias = *node.inputs[2];
  const bool one = weights.per_tensor();
  if (!in.per_tensor() || in.scales.size() != 1 || weights.in_blocks() || weights.scales.empty() ||
      bias.shape.empty() || (!one && weights.scales.size() != bias.shape.back())) {
    return std::nullopt;
  }
  Quantization& q = bias.quantization;
  q.scales.clear();
  for (float scale : weights.scales) {
    q.scales.push_back(
        static_cast<float>(static_cast<double>(in.scales[0]) * static_cast<double>(scale)));
  }
  q.offsets.assign(q.scales.size(), 0);
  if (!one) {
    q.axis = static_cast<int32_t>(bias.shape.size()) - 1;
    q.encoding = QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET;
    q.bitwidth = 0;
  }
  if (bias.data != nullptr) {
    bias.data = AlignedBytes::Copy(bias.data->data(), bias.data->size());
    if (bias.data == nullptr) return std::nullopt;
  }
  return bias;
}

}  // namespace qnnrt
