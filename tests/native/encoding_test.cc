// What CheckEncoding takes of a fixed-point tensor's encoding, and what it says of the rest.
#include "ops/encoding.h"

#include <string>
#include <vector>

#include "check.h"
#include "ops/fixed/codec.h"
#include "ops/op.h"

using namespace qnnrt;  // NOLINT(build/namespaces)

namespace {

Tensor Fixed(Qnn_DataType_t type, std::vector<float> scales, int32_t offset = 0) {
  Tensor t;
  t.name = "w";
  t.type = QNN_TENSOR_TYPE_STATIC;
  t.dtype = type;
  t.shape = {2, 4};
  t.quantization.defined = true;
  t.quantization.offsets.assign(scales.size(), offset);
  t.quantization.scales = std::move(scales);
  return t;
}

bool Says(const Tensor& t, const char* words) {
  const Status status = CheckEncoding(t);
  const bool said = !status.ok() && status.message().find(words) != std::string::npos;
  if (!said) std::fprintf(stderr, "  the message was: %s\n", status.message().c_str());
  return said;
}

TEST(blocks_divide_the_shape_and_stand_for_no_axis) {
  Tensor t = Fixed(QNN_DATATYPE_SFIXED_POINT_8, {1, 2, 3, 4});
  Quantization& q = t.quantization;
  q.axis = -1;
  q.block = {1, 2};
  CHECK_OK(CheckEncoding(t));
  t.type = QNN_TENSOR_TYPE_NATIVE;
  CHECK(Says(t, "only a STATIC tensor may be quantized in blocks"));
  t.type = QNN_TENSOR_TYPE_STATIC;
  for (int32_t axis : {0, 1}) {
    q.axis = axis;
    CHECK(Says(t, "blocks of 2 dims do not fit rank 2"));
  }
  q.axis = -1;
  q.block = {1, 0};
  CHECK(Says(t, "blocks of 0 do not divide dimension 1 of size 4"));
  q.block = {1, 3};
  CHECK(Says(t, "blocks of 3 do not divide dimension 1 of size 4"));
  q.block = {2};
  CHECK(Says(t, "blocks of 1 dims do not fit rank 2"));
  q.block = {2, 2};
  CHECK(Says(t, "4 scales and 4 offsets are given; it needs 2 of each"));
}

TEST(reads_along_the_last_axis_begin_and_end_anywhere) {
  Tensor t = Fixed(QNN_DATATYPE_SFIXED_POINT_8, {1, 2, 4, 8});
  t.quantization.axis = 1;
  const Codec codec(t);
  const int8_t elements[8] = {1, 1, 1, 1, 3, 3, 3, 3};
  for (size_t begin = 0; begin < 8; ++begin) {
    for (size_t count = 0; count <= 8 - begin; ++count) {
      std::vector<float> values(8, -1);
      codec.Read(elements, begin, count, values.data());
      for (size_t i = 0; i < 8; ++i) {
        const size_t at = begin + i;
        CHECK_EQ(values[i], i < count ? static_cast<float>(elements[at] << at % 4) : -1.0f);
      }
    }
  }
}

TEST(an_axis_is_one_of_the_tensors) {
  Tensor t = Fixed(QNN_DATATYPE_SFIXED_POINT_8, {1, 2});
  t.quantization.axis = 0;
  CHECK_OK(CheckEncoding(t));
  t.quantization.axis = 1;
  CHECK(Says(t, "2 scales and 2 offsets are given; it needs 4 of each"));
  t.quantization.axis = 2;
  CHECK(Says(t, "names axis 2, but its rank is 2"));
  t.quantization.axis = -2;
  CHECK(Says(t, "names axis -2; axes count from 0"));
}

TEST(an_offset_that_is_none_is_told_with_the_bits_of_the_type) {
  CHECK(Says(Fixed(QNN_DATATYPE_UFIXED_POINT_8, {1}, 1), "of 8 bits has the integers 0 to 255"));
  CHECK(Says(Fixed(QNN_DATATYPE_SFIXED_POINT_16, {1}, 40000),
             "of 16 bits has the integers -32768 to 32767"));
  Tensor t = Fixed(QNN_DATATYPE_UFIXED_POINT_8, {1}, -16);
  CHECK_OK(CheckEncoding(t));
  t.quantization.bitwidth = 4;
  CHECK(Says(t, "of 4 bits has the integers 0 to 15"));
}

}  // namespace

CHECK_MAIN("encoding_test")
