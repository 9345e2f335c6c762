#include "tflite/plan.h"

#include <cstring>
#include <utility>

namespace qnnrt::tflite {

uint64_t Elements(const Dims& dims) {
  uint64_t count = 1;
  for (uint32_t d : dims) count *= d;
  return count;
}

std::string Text(const Dims& dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) text += (i ? "," : "") + std::to_string(dims[i]);
  return text + "]";
}

Dims Physical(const Dims& dims) { return dims.empty() ? Dims{1} : dims; }

namespace {

Param Scalar(const char* name, Qnn_DataType_t dtype) {
  Param p{name, {}, {}, dtype, {}};
  p.scalar.dataType = dtype;
  return p;
}

}  // namespace

Param U32(const char* name, uint32_t value) {
  Param p = Scalar(name, QNN_DATATYPE_UINT_32);
  p.scalar.uint32Value = value;
  return p;
}

Param I32(const char* name, int32_t value) {
  Param p = Scalar(name, QNN_DATATYPE_INT_32);
  p.scalar.int32Value = value;
  return p;
}

Param F32(const char* name, float value) {
  Param p = Scalar(name, QNN_DATATYPE_FLOAT_32);
  p.scalar.floatValue = value;
  return p;
}

Param Flag(const char* name, bool value) {
  Param p = Scalar(name, QNN_DATATYPE_BOOL_8);
  p.scalar.bool8Value = value ? 1 : 0;
  return p;
}

Param U32s(const char* name, std::vector<uint32_t> values, Dims dims) {
  if (dims.empty()) dims = {static_cast<uint32_t>(values.size())};
  return {name, {}, std::move(dims), QNN_DATATYPE_UINT_32, std::move(values)};
}

Param I32s(const char* name, const std::vector<int32_t>& values, Dims dims) {
  Param p{name, {}, std::move(dims), QNN_DATATYPE_INT_32, {}};
  p.values.resize(values.size());
  std::memcpy(p.values.data(), values.data(), values.size() * sizeof(int32_t));
  return p;
}

uint32_t ElementBytes(Qnn_DataType_t dtype) {
  switch (static_cast<uint32_t>(dtype) & 0xFF) {
    case 0x08:
      return 1;
    case 0x16:
      return 2;
    case 0x32:
      return 4;
    case 0x64:
      return 8;
    default:
      return 0;
  }
}

}  // namespace qnnrt::tflite
