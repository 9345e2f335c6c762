// What version 2 adds to a client's tensor: taken where it says nothing, refused by name where it
// asks for something else.
#include <cstring>

#include "abi/qnn_errors.h"
#include "api/convert.h"
#include "check.h"
#include "qnn_tensor.h"

using namespace qnnrt;

namespace {

uint32_t dims[2] = {2, 3};

Qnn_Tensor_t Version2(Qnn_TensorType_t type = QNN_TENSOR_TYPE_APP_WRITE) {
  Qnn_Tensor_t t = TensorOf("x", type, dims, 2);
  t.version = QNN_TENSOR_VERSION_2;
  t.v2.sparseParams.type = QNN_SPARSE_LAYOUT_UNDEFINED;
  return t;
}

void CheckRefused(const Qnn_Tensor_t& t, const char* part) {
  const Result<Tensor> made = TensorFromQnn(t, true);
  CHECK(!made.ok());
  CHECK(made.status().code() == QNN_TENSOR_ERROR_UNSUPPORTED_TENSOR_PARAM);
  CHECK(made.status().message().find(part) != std::string::npos);
}

}  // namespace

TEST(FieldsThatSayNothingAreTaken) {
  Qnn_Tensor_t t = Version2();
  uint8_t none[2] = {0, 0};
  t.v2.isDynamicDimensions = none;
  CHECK(TensorFromQnn(t, true).ok());
  // All zeros, as memset leaves them: COO is 0.
  t.v2.sparseParams = {};
  CHECK(TensorFromQnn(t, true).ok());
}

TEST(WhatIsNotSupportedIsRefusedByName) {
  Qnn_Tensor_t t = Version2();
  uint8_t second[2] = {0, 1};
  t.v2.isDynamicDimensions = second;
  CheckRefused(t, "dimension 1 is dynamic");
  t = Version2();
  t.v2.sparseParams.type = QNN_SPARSE_LAYOUT_HYBRID_COO;
  t.v2.sparseParams.hybridCoo = {3, 1};
  CheckRefused(t, "sparse");
  for (Qnn_TensorType_t type : {QNN_TENSOR_TYPE_APP_WRITE, QNN_TENSOR_TYPE_APP_READ}) {
    t = Version2(type);
    t.v2.memType = QNN_TENSORMEMTYPE_RETRIEVE_RAW;
    CheckRefused(t, "RETRIEVE_RAW");
  }
}

CHECK_MAIN("tensor_version_test")
