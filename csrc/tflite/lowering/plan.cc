#include "tflite/lowering/plan.h"

#include <cstring>
#include <limits>
#include <utility>

namespace qnnrt::tflite {

uint64_t Elements(const Dims& dims) {
  uint64_t count = 1;
  for (uint32_t d : dims) {
    if (d != 0 && count > std::numeric_limits<uint64_t>::max() / d)
      count = std::numeric_limits<uint64_t>::max();
    else
      count *= d;
  }
  return count;
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

std::vector<uint8_t> Gathered(const void* data, int64_t begin, const Dims& dims,
                              const std::vector<int64_t>& strides, uint32_t element_bytes) {
  const auto* const source = static_cast<const uint8_t*>(data);
  std::vector<uint8_t> gathered(Elements(dims) * element_bytes);
  std::vector<uint32_t> index(dims.size(), 0);
  int64_t at = begin;
  for (uint8_t* to = gathered.data(); to != gathered.data() + gathered.size();
       to += element_bytes) {
    std::memcpy(to, source + at * element_bytes, element_bytes);
    for (size_t d = dims.size(); d-- > 0;) {
      at += strides[d];
      if (++index[d] < dims[d]) break;
      at -= strides[d] * dims[d];
      index[d] = 0;
    }
  }
  return gathered;
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

Qnn_DataType_t Plain(Qnn_DataType_t dtype) {
  const auto bits = static_cast<uint32_t>(dtype);
  const uint32_t kind = bits & 0xFF00;  // 0x03 and 0x04 are fixed point, with a sign and without
  if (kind != 0x0300 && kind != 0x0400) return dtype;
  return static_cast<Qnn_DataType_t>((bits & 0xFF) | (kind == 0x0400 ? 0x0100 : 0));
}

std::string TypeName(Qnn_DataType_t dtype) {
  static const char* const kKinds[] = {"int", "uint", "float"};
  const auto bits = static_cast<uint32_t>(Plain(dtype));
  if (dtype == QNN_DATATYPE_BOOL_8) return "bool";
  if (bits >> 8 > 2) return "element type " + std::to_string(bits);
  const std::string size = std::to_string((bits & 0xF) + (bits >> 4 & 0xF) * 10);
  return kKinds[bits >> 8] + size;
}

}  // namespace qnnrt::tflite
