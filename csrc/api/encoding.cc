#include "api/encoding.h"

#include "abi/qnn_errors.h"
#include "ops/encoding.h"

namespace qnnrt {
namespace {

constexpr uint64_t kMostBlocks = uint64_t{1} << 28;

Status Bad(const Tensor& tensor, const std::string& what) {
  return Status(QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM, "tensor '" + tensor.name + "': " + what);
}

void AddPairs(const Qnn_ScaleOffset_t* pairs, size_t count, Quantization* q) {
  q->scales.resize(count);
  q->offsets.resize(count);
  for (size_t i = 0; i < count; ++i) {
    q->scales[i] = pairs[i].scale;
    q->offsets[i] = pairs[i].offset;
  }
}

Status CheckAxis(int32_t axis, const Tensor& tensor) {
  if (axis >= 0 && static_cast<size_t>(axis) < tensor.shape.size()) return Status::Ok();
  return Bad(tensor, "its quantization names axis " + std::to_string(axis) +
                         "; its axes are 0 to rank - 1, and its rank is " +
                         std::to_string(tensor.shape.size()));
}

// Whether the scales are those of each group of a bias. A transposed convolution's weights have one
// for each output of a group, and clients give its bias the same ones.
bool RepeatsInGroups(const Tensor& tensor, uint32_t count) {
  return tensor.dtype == QNN_DATATYPE_SFIXED_POINT_32 && tensor.shape.size() == 1 && count != 0 &&
         tensor.shape[0] % count == 0;
}

// As many pairs as the axis has indices.
void FillAxis(Quantization* q, uint32_t size) {
  const size_t count = q->scales.size();
  for (size_t i = count; i < size; ++i) {
    q->scales.push_back(q->scales[i - count]);
    q->offsets.push_back(q->offsets[i - count]);
  }
}

// An axis of the tensor, and as many pairs as it has indices.
Status SetAxis(int32_t axis, uint32_t count, bool there, Tensor* tensor) {
  QNNRT_RETURN_IF_ERROR(CheckAxis(axis, *tensor));
  const uint32_t size = tensor->shape[static_cast<size_t>(axis)];
  if (count != size && !RepeatsInGroups(*tensor, count)) {
    return Bad(*tensor, "its quantization has " + std::to_string(count) + " scales along axis " +
                            std::to_string(axis) + ", which has size " + std::to_string(size));
  }
  if (count > 0 && !there) return Bad(*tensor, "its scales along an axis are null");
  tensor->quantization.axis = axis;
  return Status::Ok();
}

// A bit width that must be given.
Status SetBitwidth(uint32_t bits, Tensor* tensor) {
  if (bits == 0) return Bad(*tensor, "the bit width of its quantization is 0; say how many");
  tensor->quantization.bitwidth = bits;
  return Status::Ok();
}

Status SetBlocks(std::vector<uint32_t> block, Tensor* tensor, uint64_t* count) {
  *count = 1;
  for (size_t d = 0; d < block.size(); ++d) {
    const uint32_t size = tensor->shape[d];
    if (block[d] == 0 || size % block[d] != 0) {
      return Bad(*tensor, "blocks of " + std::to_string(block[d]) + " do not divide dimension " +
                              std::to_string(d) + " of size " + std::to_string(size));
    }
    *count *= size / block[d];
  }
  if (*count > kMostBlocks)
    return Bad(*tensor, "it is quantized in " + std::to_string(*count) + " blocks: too many");
  tensor->quantization.block = std::move(block);
  return Status::Ok();
}

Status ReadBlocks(const Qnn_BlockEncoding_t& e, Tensor* tensor) {
  if (e.blockSize == nullptr || e.scaleOffset == nullptr)
    return Bad(*tensor, "the sizes or scales of its blocks are null");
  uint64_t count;
  QNNRT_RETURN_IF_ERROR(
      SetBlocks({e.blockSize, e.blockSize + tensor->shape.size()}, tensor, &count));
  AddPairs(e.scaleOffset, count, &tensor->quantization);
  return Status::Ok();
}

// One scale for each index of the axis, times an integer for each of its blocks. The blocks lie
// along the last other dim: the input channels, where the axis is that of the output channels.
Status ReadExpansion(const Qnn_BlockwiseExpansion_t* e, Tensor* tensor) {
  if (e == nullptr) return Bad(*tensor, "its blockwise expansion is null");
  const Shape& shape = tensor->shape;
  QNNRT_RETURN_IF_ERROR(CheckAxis(e->axis, *tensor));
  const size_t axis = static_cast<size_t>(e->axis);
  if (e->scaleOffsets == nullptr) return Bad(*tensor, "its scales along an axis are null");
  if (shape.size() < 2) return Bad(*tensor, "a blockwise expansion needs two dimensions or more");
  const size_t along = axis + 1 == shape.size() ? axis - 1 : shape.size() - 1;
  const uint32_t blocks = e->numBlocksPerAxis;
  if (blocks == 0 || shape[along] % blocks != 0) {
    return Bad(*tensor, std::to_string(blocks) + " blocks do not divide dimension " +
                            std::to_string(along) + " of size " + std::to_string(shape[along]));
  }
  const bool wide = e->blockScaleStorageType == QNN_BLOCKWISE_EXPANSION_BITWIDTH_SCALE_STORAGE_16;
  if (!wide && e->blockScaleStorageType != QNN_BLOCKWISE_EXPANSION_BITWIDTH_SCALE_STORAGE_8)
    return Bad(*tensor, "its block scales are stored in neither 8 nor 16 bits");
  const uint32_t most_bits = wide ? 16 : 8;
  if (e->blockScaleBitwidth == 0 || e->blockScaleBitwidth > most_bits) {
    return Bad(*tensor, "its block scales have " + std::to_string(e->blockScaleBitwidth) +
                            " bits; 1 to " + std::to_string(most_bits) + " can be stored");
  }
  if (e->blocksScale8 == nullptr) return Bad(*tensor, "its block scales are null");
  std::vector<uint32_t> block = shape;
  block[axis] = 1;
  block[along] = shape[along] / blocks;
  uint64_t count;
  QNNRT_RETURN_IF_ERROR(SetBlocks(std::move(block), tensor, &count));
  Quantization& q = tensor->quantization;
  q.scales.resize(count);
  q.offsets.resize(count);
  for (uint32_t a = 0; a < shape[axis]; ++a) {
    for (uint32_t b = 0; b < blocks; ++b) {
      const uint64_t from = uint64_t{a} * blocks + b;
      const uint32_t factor = wide ? e->blocksScale16[from] : e->blocksScale8[from];
      if (factor == 0 || factor > 1u << e->blockScaleBitwidth) {
        return Bad(*tensor, "block scale " + std::to_string(from) + " is " +
                                std::to_string(factor) + "; it may be 1 to 2^" +
                                std::to_string(e->blockScaleBitwidth));
      }
      const uint64_t to = axis > along ? uint64_t{b} * shape[axis] + a : from;
      q.scales[to] = e->scaleOffsets[a].scale * static_cast<float>(factor);
      q.offsets[to] = e->scaleOffsets[a].offset;
    }
  }
  return Status::Ok();
}

}  // namespace

Status ReadEncoding(const Qnn_QuantizeParams_t& params, Tensor* tensor) {
  if (params.encodingDefinition != QNN_DEFINITION_DEFINED ||
      params.quantizationEncoding == QNN_QUANTIZATION_ENCODING_UNDEFINED) {
    return Status::Ok();
  }
  const bool fixed = IsFixed(tensor->dtype);
  Quantization& q = tensor->quantization;
  q.defined = true;
  q.encoding = params.quantizationEncoding;
  switch (params.quantizationEncoding) {
    case QNN_QUANTIZATION_ENCODING_SCALE_OFFSET:
      AddPairs(&params.scaleOffsetEncoding, 1, &q);
      return Status::Ok();
    case QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET: {
      const Qnn_BwScaleOffset_t& e = params.bwScaleOffsetEncoding;
      q.scales.push_back(e.scale);
      q.offsets.push_back(e.offset);
      if (!fixed) return Status::Ok();
      return SetBitwidth(e.bitwidth, tensor);
    }
    case QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET: {
      if (!fixed) break;
      const Qnn_AxisScaleOffset_t& e = params.axisScaleOffsetEncoding;
      QNNRT_RETURN_IF_ERROR(SetAxis(e.axis, e.numScaleOffsets, e.scaleOffset != nullptr, tensor));
      AddPairs(e.scaleOffset, e.numScaleOffsets, &q);
      FillAxis(&q, tensor->shape[static_cast<size_t>(e.axis)]);
      return Status::Ok();
    }
    case QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET: {
      if (!fixed) break;
      const Qnn_BwAxisScaleOffset_t& e = params.bwAxisScaleOffsetEncoding;
      QNNRT_RETURN_IF_ERROR(SetAxis(e.axis, e.numElements, e.scales != nullptr, tensor));
      q.scales.assign(e.scales, e.scales + e.numElements);
      q.offsets.assign(e.numElements, 0);
      if (e.offsets != nullptr) q.offsets.assign(e.offsets, e.offsets + e.numElements);
      FillAxis(&q, tensor->shape[static_cast<size_t>(e.axis)]);
      return SetBitwidth(e.bitwidth, tensor);
    }
    case QNN_QUANTIZATION_ENCODING_BLOCK:
      if (!fixed) break;
      return ReadBlocks(params.blockEncoding, tensor);
    case QNN_QUANTIZATION_ENCODING_BLOCKWISE_EXPANSION:
      if (!fixed) break;
      return ReadExpansion(params.blockwiseExpansion, tensor);
    default:
      return Error(QNN_TENSOR_ERROR_UNSUPPORTED_TENSOR_PARAM,
                   "tensor '%s': quantization encoding %d is not supported; SCALE_OFFSET (0), "
                   "AXIS_SCALE_OFFSET (1), BW_SCALE_OFFSET (2), BW_AXIS_SCALE_OFFSET (3), BLOCK "
                   "(4) and BLOCKWISE_EXPANSION (5) are",
                   tensor->name.c_str(), static_cast<int>(params.quantizationEncoding));
  }
  q = {};
  return Status::Ok();
}

Qnn_DataType_t UnpackedType(Qnn_DataType_t type) {
  return type == QNN_DATATYPE_SFIXED_POINT_4 ? QNN_DATATYPE_SFIXED_POINT_8
                                             : QNN_DATATYPE_UFIXED_POINT_8;
}

}  // namespace qnnrt
