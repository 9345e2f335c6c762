#include "ops/fixed/rules.h"

#include "ops/encoding.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

template <typename... Args>
Status Refused(const char* format, Args... args) {
  return Error(QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE, format, args...);
}

// The first tensor of the node, but for this one, that stands for real numbers in one of these
// types.
const Tensor* FirstReal(const Node& node, const OpDef& def, TypeSet types, const Tensor* but) {
  const auto find = [types, but](const std::vector<const Tensor*>& tensors,
                                 const std::vector<PortSpec>& ports) -> const Tensor* {
    for (size_t i = 0; i < tensors.size() && !ports.empty(); ++i) {
      const PortSpec& port = ports[std::min(i, ports.size() - 1)];
      if (tensors[i] != nullptr && tensors[i] != but && (port.types & types::kF32) != 0 &&
          (TypeBit(tensors[i]->dtype) & types) != 0) {
        return tensors[i];
      }
    }
    return nullptr;
  };
  const Tensor* found = find(node.inputs, def.inputs);
  return found != nullptr ? found : find(node.outputs, def.outputs);
}

Status CheckOneScale(const Tensor& tensor) {
  if (!IsFixed(tensor.dtype) || tensor.quantization.per_tensor()) return Status::Ok();
  return Refused("'%s' has scales along axis %d; an activation has one scale here",
                 tensor.name.c_str(), tensor.quantization.axis);
}

// Its scale may be any: kernels add the real number that it stands for.
Status CheckBias(const Tensor& bias) {
  for (int32_t offset : bias.quantization.offsets) {
    if (offset == 0) continue;
    return Refused("bias '%s' has the offset %d; the offset of a SFIXED_POINT_32 bias is 0",
                   bias.name.c_str(), offset);
  }
  return Status::Ok();
}

}  // namespace

bool HasFixedWeights(const Node& node, const OpDef& def) {
  return def.sums_products() && node.HasInput(0) && node.HasInput(1) &&
         IsFloat(node.inputs[0]->dtype) && IsFixed(node.inputs[1]->dtype) &&
         node.inputs[1]->type == QNN_TENSOR_TYPE_STATIC;
}

Status CheckFixedPoint(const Node& node, const OpDef& def) {
  bool any = false;
  for (const auto* tensors : {&node.inputs, &node.outputs}) {
    for (const Tensor* tensor : *tensors) {
      if (tensor == nullptr || !IsFixed(tensor->dtype)) continue;
      any = true;
      Status sound = CheckEncoding(*tensor);
      if (!sound.ok()) return std::move(sound).WithCode(QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE);
    }
  }
  if (!any || (def.flags & OpDef::kConverts) != 0) return Status::Ok();
  const Tensor* weights = HasFixedWeights(node, def) ? node.inputs[1] : nullptr;
  const Tensor* fixed = FirstReal(node, def, types::kFixed, weights);
  const Tensor* real = FirstReal(node, def, types::kFloat | types::kF64, weights);
  if (fixed != nullptr && real != nullptr) {
    return Refused(
        "'%s' is %s and '%s' is %s; use floats or fixed-point numbers throughout, with "
        "Quantize and Dequantize between them",
        fixed->name.c_str(), DataTypeName(fixed->dtype), real->name.c_str(),
        DataTypeName(real->dtype));
  }
  if (!def.sums_products() || weights != nullptr) return Status::Ok();
  QNNRT_RETURN_IF_ERROR(CheckOneScale(*node.inputs[0]));
  if (!node.inputs[1]->is_static() && node.inputs[1]->type != QNN_TENSOR_TYPE_STATIC)
    QNNRT_RETURN_IF_ERROR(CheckOneScale(*node.inputs[1]));
  if (node.HasOutput(0)) QNNRT_RETURN_IF_ERROR(CheckOneScale(*node.outputs[0]));
  if (!node.HasInput(2) || node.inputs[2]->dtype != QNN_DATATYPE_SFIXED_POINT_32)
    return Status::Ok();
  return CheckBias(*node.inputs[2]);
}

}  // namespace qnnrt
