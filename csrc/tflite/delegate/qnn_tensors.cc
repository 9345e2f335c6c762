#include "tflite/delegate/qnn_tensors.h"

#include <algorithm>

#include "abi/qnn_op_names.h"

namespace qnnrt::tflite {
namespace {

Qnn_Tensor_t Empty() {
  Qnn_Tensor_t t{};
  t.version = QNN_TENSOR_VERSION_1;
  t.v1.dataFormat = QNN_TENSOR_DATA_FORMAT_DENSE;
  t.v1.quantizeParams.encodingDefinition = QNN_DEFINITION_UNDEFINED;
  t.v1.quantizeParams.quantizationEncoding = QNN_QUANTIZATION_ENCODING_UNDEFINED;
  t.v1.memType = QNN_TENSORMEMTYPE_RAW;
  t.v1.name = "";
  return t;
}

Qnn_Tensor_t Omitted() {
  Qnn_Tensor_t t = Empty();
  t.v1.type = QNN_TENSOR_TYPE_NULL;
  return t;
}

void SetData(const void* data, uint64_t bytes, Qnn_TensorV1_t* t) {
  t->clientBuf.data = const_cast<void*>(data);  // QNN's struct has no const form; it is only read
  t->clientBuf.dataSize = static_cast<uint32_t>(std::min<uint64_t>(bytes, UINT32_MAX));
}

}  // namespace

QnnTensors::QnnTensors(const Plan& plan) {
  tensors_.reserve(plan.tensors.size());
  for (const PlannedTensor& p : plan.tensors) {
    Qnn_Tensor_t t = Empty();
    t.v1.name = p.name.c_str();
    t.v1.type = p.type;
    t.v1.dataType = p.dtype;
    t.v1.rank = static_cast<uint32_t>(p.dims.size());
    t.v1.dimensions = const_cast<uint32_t*>(p.dims.data());
    Quantize(p.encoding, &t.v1.quantizeParams);
    if (p.type == QNN_TENSOR_TYPE_STATIC)
      SetData(p.bytes(), Elements(p.dims) * ElementBytes(p.dtype), &t.v1);
    tensors_.push_back(t);
  }
}

void QnnTensors::Quantize(const Encoding& e, Qnn_QuantizeParams_t* out) {
  if (e.none()) return;
  out->encodingDefinition = QNN_DEFINITION_DEFINED;
  if (!e.per_axis()) {
    out->quantizationEncoding = QNN_QUANTIZATION_ENCODING_SCALE_OFFSET;
    out->scaleOffsetEncoding = {e.scale[0], e.offset[0]};
    return;
  }
  std::vector<Qnn_ScaleOffset_t> each(e.scale.size());
  for (size_t i = 0; i < each.size(); ++i) each[i] = {e.scale[i], e.offset[i]};
  scales_.push_back(std::move(each));
  out->quantizationEncoding = QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET;
  out->axisScaleOffsetEncoding = {e.axis, static_cast<uint32_t>(e.scale.size()),
                                  scales_.back().data()};
}

Qnn_OpConfig_t QnnTensors::Op(const PlannedOp& op) {
  params_.clear();
  inputs_.clear();
  outputs_.clear();
  for (const Param& p : op.params) {
    Qnn_Param_t q{};
    q.name = p.name;
    q.paramType = p.dims.empty() ? QNN_PARAMTYPE_SCALAR : QNN_PARAMTYPE_TENSOR;
    if (p.dims.empty()) {
      q.scalarParam = p.scalar;
    } else {
      q.tensorParam = Empty();
      Qnn_TensorV1_t& t = q.tensorParam.v1;
      t.name = p.name;
      t.type = QNN_TENSOR_TYPE_STATIC;
      t.dataType = p.dtype;
      t.rank = static_cast<uint32_t>(p.dims.size());
      t.dimensions = const_cast<uint32_t*>(p.dims.data());
      SetData(p.values.data(), p.values.size() * sizeof(uint32_t), &t);
    }
    params_.push_back(q);
  }
  for (int at : op.inputs) inputs_.push_back(at < 0 ? Omitted() : tensors_[at]);
  for (int at : op.outputs) outputs_.push_back(at < 0 ? Omitted() : tensors_[at]);
  Qnn_OpConfig_t config{};
  config.version = QNN_OPCONFIG_VERSION_1;
  Qnn_OpConfigV1_t& v1 = config.v1;
  v1.name = op.name.c_str();
  v1.packageName = QNN_OP_PACKAGE_NAME_QTI_AISW;
  v1.typeName = op.type;
  v1.numOfParams = static_cast<uint32_t>(params_.size());
  v1.params = params_.data();
  v1.numOfInputs = static_cast<uint32_t>(inputs_.size());
  v1.inputTensors = inputs_.data();
  v1.numOfOutputs = static_cast<uint32_t>(outputs_.size());
  v1.outputTensors = outputs_.data();
  return config;
}

}  // namespace qnnrt::tflite
