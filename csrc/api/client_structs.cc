#include "api/client_structs.h"

#include <algorithm>
#include <cstring>

namespace qnnrt {

char* ClientStructs::Text(const std::string& text) {
  char* copy = Array<char>(text.size() + 1);
  std::memcpy(copy, text.c_str(), text.size());
  return copy;
}

void ClientStructs::Quantize(const Quantization& q, Qnn_QuantizeParams_t* out) {
  out->encodingDefinition = q.defined ? QNN_DEFINITION_DEFINED : QNN_DEFINITION_UNDEFINED;
  out->quantizationEncoding = q.defined ? q.encoding : QNN_QUANTIZATION_ENCODING_UNDEFINED;
  size_t n = std::min(q.scales.size(), q.offsets.size());
  if (!q.defined || n == 0) return;
  switch (q.encoding) {
    case QNN_QUANTIZATION_ENCODING_SCALE_OFFSET:
      out->scaleOffsetEncoding = {q.scales[0], q.offsets[0]};
      break;
    case QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET:
      out->bwScaleOffsetEncoding = {q.bitwidth, q.scales[0], q.offsets[0]};
      break;
    case QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET: {
      auto* pairs = Array<Qnn_ScaleOffset_t>(n);
      for (size_t i = 0; i < n; ++i) pairs[i] = {q.scales[i], q.offsets[i]};
      out->axisScaleOffsetEncoding = {q.axis, static_cast<uint32_t>(n), pairs};
      break;
    }
    case QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET: {
      auto* scales = Array<float>(n);
      auto* offsets = Array<int32_t>(n);
      std::copy_n(q.scales.begin(), n, scales);
      std::copy_n(q.offsets.begin(), n, offsets);
      out->bwAxisScaleOffsetEncoding = {q.bitwidth, q.axis, static_cast<uint32_t>(n), scales,
                                        offsets};
      break;
    }
    default:
      out->encodingDefinition = QNN_DEFINITION_UNDEFINED;
      out->quantizationEncoding = QNN_QUANTIZATION_ENCODING_UNDEFINED;
  }
}

void ClientStructs::Describe(const Tensor& tensor, Qnn_Tensor_t* out) {
  out->version = QNN_TENSOR_VERSION_1;
  Qnn_TensorV1_t& t = out->v1;
  t.id = tensor.id;
  t.name = Text(tensor.name);
  t.type = tensor.type;
  t.dataType = tensor.dtype;
  Quantize(tensor.quantization, &t.quantizeParams);
  t.rank = static_cast<uint32_t>(tensor.shape.size());
  t.dimensions = Array<uint32_t>(tensor.shape.size());
  std::copy(tensor.shape.begin(), tensor.shape.end(), t.dimensions);
  t.memType = tensor.mem_type;
}

}  // namespace qnnrt
