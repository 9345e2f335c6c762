// Tensors as context binaries keep them: their limits, and the fields of each encoding.
#include "binary_samples.h"

using namespace binary_test;  // NOLINT(build/namespaces)

namespace {

TEST(tensors_have_at_most_16_dimensions_and_2_to_the_48_elements) {
  constexpr uint32_t k16 = 1u << 16, k24 = 1u << 24, kMost = 0xFFFFFFFF;
  const struct {
    Shape shape;
    const char* complaint;  // null: none
  } cases[] = {
      {{k24, k24}, nullptr},
      {{k16, k16, k16}, nullptr},
      {{k24, k24 + 1}, "larger than any memory"},
      {{k16, k16, k16 + 1}, "larger than any memory"},
      {{k24, k24, 2}, "larger than any memory"},
      {{kMost, kMost}, "larger than any memory"},
      {{kMost, kMost, 2}, "larger than any memory"},  // beyond 64 bits
      {{k16, k16, k16, k16}, "larger than any memory"},
      {{kMost, kMost, kMost, 0}, nullptr},  // nothing
      {Shape(16, 1), nullptr},
      {Shape(17, 1), "no valid rank"},
      {{}, nullptr},
  };
  for (const auto& c : cases) {
    Tensor tensor, read;
    tensor.name = "big";
    tensor.type = QNN_TENSOR_TYPE_NATIVE;
    tensor.dtype = QNN_DATATYPE_UINT_8;
    tensor.shape = c.shape;
    ByteWriter out;
    WriteTensor(tensor, &out);
    const Bytes bytes = out.Take();
    ByteReader in(bytes.data(), bytes.size());
    const Status status = ReadTensor(&in, &read);
    if (c.complaint == nullptr) {
      CHECK(status.ok() && in.ok() && in.left() == 0 && read.shape == c.shape);
      continue;
    }
    CHECK_EQ(status.code(), QNN_CONTEXT_ERROR_CREATE_FROM_BINARY);
    if (!CHECK(status.message().find(c.complaint) != std::string::npos)) {
      std::fprintf(stderr, "  the message was: %s\n", status.message().c_str());
    }
  }
}

TEST(an_encoding_has_the_fields_of_its_kind) {
  constexpr auto kPlain = QNN_QUANTIZATION_ENCODING_SCALE_OFFSET,
                 kAxis = QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET,
                 kBits = QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET,
                 kBitsAxis = QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET,
                 kBlock = QNN_QUANTIZATION_ENCODING_BLOCK,
                 kExpansion = QNN_QUANTIZATION_ENCODING_BLOCKWISE_EXPANSION;
  constexpr auto kFixed = QNN_DATATYPE_SFIXED_POINT_8, kFloat = QNN_DATATYPE_FLOAT_32;
  const std::vector<float> one = {0.5f}, two = {0.5f, 0.25f}, four = {1, 2, 3, 4};
  const std::vector<uint32_t> block = {1, 1, 2, 1};
  const struct {
    Quantization q;
    bool good;
    Qnn_DataType_t dtype = kFixed;
  } cases[] = {
      {Encoded(kPlain, one), true},
      {Encoded(kPlain, one), true, kFloat},
      {Encoded(kPlain, one, 0, -1, 4), false},  // a bit width
      {Encoded(kPlain, two, 0, 3), false},      // an axis
      {Encoded(kPlain, four, 0, -1, 0, block), false},
      {Encoded(kAxis, two, 0, 3), true},
      {Encoded(kAxis, two, 0, 3, 4), false},
      {Encoded(kAxis, one), false},
      {Encoded(kAxis, two, 0, 3, 0, block), false},
      {Encoded(kBits, one, 0, -1, 4), true},
      {Encoded(kBits, one), false},  // no bit width
      {Encoded(kBits, one), true, kFloat},
      {Encoded(kBits, two, 0, 3, 4), false},
      {Encoded(kBits, two, 0, 3), false, kFloat},
      {Encoded(kBitsAxis, two, 0, 3, 4), true},
      {Encoded(kBitsAxis, two, 0, 3), false},
      {Encoded(kBitsAxis, one, 0, -1, 4), false},
      {Encoded(kBitsAxis, two, 0, 3, 4, block), false},
      {Encoded(kBlock, four, 0, -1, 0, block), true},
      {Encoded(kBlock, four, 0, 3, 0, block), false},
      {Encoded(kBlock, one), false},
      {Encoded(kExpansion, four, 0, -1, 4, block), true},
      {Encoded(kExpansion, one, 0, -1, 4), false},
      {Encoded(QNN_QUANTIZATION_ENCODING_UNDEFINED, one), false},
  };
  for (const auto& c : cases) {
    Tensor tensor, read;
    tensor.name = "w";
    tensor.type = QNN_TENSOR_TYPE_STATIC;
    tensor.dtype = c.dtype;
    tensor.shape = {1, 1, 4, 2};
    tensor.quantization = c.q;
    ByteWriter out;
    WriteTensor(tensor, &out);
    const Bytes bytes = out.Take();
    ByteReader in(bytes.data(), bytes.size());
    const Status status = ReadTensor(&in, &read);
    const bool refused = status.message().find("no valid quantization") != std::string::npos;
    if (!CHECK(c.good ? status.ok() : refused)) {
      std::fprintf(stderr, "  case %td: %s\n", &c - cases, status.message().c_str());
    }
  }
}

}  // namespace

CHECK_MAIN("binary_tensor_test")
