// What ReadEncoding makes of a client's struct, and when stored integers mean the same.
#include "api/encoding.h"

#include <string>

#include "check.h"
#include "ops/encoding.h"

using namespace qnnrt;  // NOLINT(build/namespaces)

namespace {

Tensor Of(Qnn_DataType_t type, Shape shape) {
  Tensor t;
  t.name = "w";
  t.type = QNN_TENSOR_TYPE_STATIC;
  t.dtype = type;
  t.shape = std::move(shape);
  return t;
}

Qnn_QuantizeParams_t Params(Qnn_QuantizationEncoding_t encoding) {
  Qnn_QuantizeParams_t params{};
  params.encodingDefinition = QNN_DEFINITION_DEFINED;
  params.quantizationEncoding = encoding;
  return params;
}

bool Says(const Qnn_QuantizeParams_t& params, Tensor t, const char* words) {
  const Status status = ReadEncoding(params, &t);
  const bool said = !status.ok() && status.message().find(words) != std::string::npos;
  if (!said) std::fprintf(stderr, "  the message was: %s\n", status.message().c_str());
  return said;
}

TEST(scales_may_be_null_where_the_axis_has_no_index) {
  Qnn_QuantizeParams_t params = Params(QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET);
  params.axisScaleOffsetEncoding = {0, 0, nullptr};
  Tensor empty = Of(QNN_DATATYPE_SFIXED_POINT_8, {0, 4});
  CHECK_OK(ReadEncoding(params, &empty));
  CHECK(empty.quantization.scales.empty() && empty.quantization.axis == 0);
  params.axisScaleOffsetEncoding.numScaleOffsets = 1;
  CHECK(Says(params, Of(QNN_DATATYPE_SFIXED_POINT_8, {1, 4}), "scales along an axis are null"));
}

TEST(offsets_that_are_null_are_zeros) {
  float scales[] = {0.5f, 0.25f};
  Qnn_QuantizeParams_t params = Params(QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET);
  params.bwAxisScaleOffsetEncoding = {4, 1, 2, scales, nullptr};
  Tensor t = Of(QNN_DATATYPE_SFIXED_POINT_8, {3, 2});
  CHECK_OK(ReadEncoding(params, &t));
  CHECK(t.quantization.offsets == (std::vector<int32_t>{0, 0}));
  CHECK(t.quantization.scales == (std::vector<float>{0.5f, 0.25f}));
  CHECK(t.quantization.bitwidth == 4 && t.quantization.axis == 1);
}

TEST(what_is_no_fixed_point_keeps_no_arrays_and_reads_none) {
  for (Qnn_QuantizationEncoding_t encoding :
       {QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET, QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET,
        QNN_QUANTIZATION_ENCODING_BLOCK, QNN_QUANTIZATION_ENCODING_BLOCKWISE_EXPANSION}) {
    // All of it null and 0: whoever reads it says so.
    Tensor t = Of(QNN_DATATYPE_FLOAT_32, {3, 2});
    CHECK_OK(ReadEncoding(Params(encoding), &t));
    CHECK(t.quantization.scales.empty() && !t.quantization.defined);
    CHECK(!ReadEncoding(Params(encoding),
                        [](Tensor* fixed) {
                          fixed->dtype = QNN_DATATYPE_SFIXED_POINT_8;
                          return fixed;
                        }(&t))
               .ok());
  }
}

TEST(block_scales_are_stored_in_8_or_16_bits) {
  Qnn_ScaleOffset_t scales[] = {{1, 0}, {2, 0}};
  uint8_t factors[] = {1, 2, 3, 4, 5, 6, 7, 8};
  Qnn_BlockwiseExpansion_t e{};
  e.axis = 1;
  e.scaleOffsets = scales;
  e.numBlocksPerAxis = 2;
  e.blockScaleBitwidth = 4;
  e.blockScaleStorageType = QNN_BLOCKWISE_EXPANSION_BITWIDTH_SCALE_STORAGE_8;
  e.blocksScale8 = factors;
  Qnn_QuantizeParams_t params = Params(QNN_QUANTIZATION_ENCODING_BLOCKWISE_EXPANSION);
  params.blockwiseExpansion = &e;
  Tensor t = Of(QNN_DATATYPE_SFIXED_POINT_8, {4, 2});
  CHECK_OK(ReadEncoding(params, &t));
  CHECK(t.quantization.scales == (std::vector<float>{1, 6, 2, 8}));
  for (int other : {0, 3, 255}) {
    e.blockScaleStorageType = static_cast<Qnn_BlockwiseExpansionBlockScaleStorageType_t>(other);
    if (e.blockScaleStorageType == QNN_BLOCKWISE_EXPANSION_BITWIDTH_SCALE_STORAGE_8 ||
        e.blockScaleStorageType == QNN_BLOCKWISE_EXPANSION_BITWIDTH_SCALE_STORAGE_16) {
      continue;
    }
    CHECK(Says(params, Of(QNN_DATATYPE_SFIXED_POINT_8, {4, 2}), "neither 8 nor 16 bits"));
  }
}

TEST(stored_integers_along_axes_mean_the_same_when_all_of_the_encoding_does) {
  const auto along = [](int32_t axis, Shape shape) {
    Tensor t = Of(QNN_DATATYPE_SFIXED_POINT_8, std::move(shape));
    t.quantization.defined = true;
    t.quantization.axis = axis;
    t.quantization.scales = {1, 2};
    t.quantization.offsets = {0, 3};
    return t;
  };
  const Tensor first = along(0, {2, 3});
  CHECK(SameStored(first, along(0, {2, 3})));
  CHECK(SameStored(first, along(1, {1, 2, 3})));  // the same elements in front of an index
  CHECK(!SameStored(first, along(1, {3, 2})));    // others
  Tensor other = along(0, {2, 3});
  other.quantization.axis = -1;
  CHECK(!SameStored(first, other));
  other.quantization.block = {1, 3};  // scales of blocks go along no axis
  CHECK(!SameStored(other, first));
  CHECK(!SameStored(other, other));
  other = along(0, {2, 3});
  other.dtype = QNN_DATATYPE_FLOAT_32;
  CHECK(!SameStored(other, other));
  other = along(0, {2, 3});
  other.dtype = QNN_DATATYPE_UFIXED_POINT_8;
  CHECK(!SameStored(first, other));
  other = along(0, {2, 3});
  other.quantization.offsets[1] = 2;
  CHECK(!SameStored(first, other));
  other = along(0, {2, 3});
  other.quantization.bitwidth = 4;
  CHECK(!SameStored(first, other));
}

}  // namespace

CHECK_MAIN("read_encoding_test")
