#include "graph/tensor.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "support/checked.h"

namespace qnnrt {
namespace {

constexpr size_t kAlignment = 64;

template <typename T>
int64_t IntegerAt(const void* data, size_t i) {
  return static_cast<int64_t>(static_cast<const T*>(data)[i]);
}

int64_t IntegerAt(const Tensor& tensor, size_t i) {
  const void* data = tensor.data->data();
  switch (tensor.dtype) {
    case QNN_DATATYPE_INT_8:
      return IntegerAt<int8_t>(data, i);
    case QNN_DATATYPE_INT_16:
      return IntegerAt<int16_t>(data, i);
    case QNN_DATATYPE_INT_32:
      return IntegerAt<int32_t>(data, i);
    case QNN_DATATYPE_INT_64:
      return IntegerAt<int64_t>(data, i);
    case QNN_DATATYPE_UINT_8:
    case QNN_DATATYPE_BOOL_8:
      return IntegerAt<uint8_t>(data, i);
    case QNN_DATATYPE_UINT_16:
      return IntegerAt<uint16_t>(data, i);
    case QNN_DATATYPE_UINT_32:
      return IntegerAt<uint32_t>(data, i);
    case QNN_DATATYPE_UINT_64:
      return IntegerAt<uint64_t>(data, i);
    default:
      return 0;
  }
}

float FloatAt(const Tensor& tensor, size_t i) {
  switch (tensor.dtype) {
    case QNN_DATATYPE_FLOAT_16:
      return HalfToFloat(tensor.data_as<uint16_t>()[i]);
    case QNN_DATATYPE_FLOAT_32:
      return tensor.data_as<float>()[i];
    case QNN_DATATYPE_FLOAT_64:
      return static_cast<float>(tensor.data_as<double>()[i]);
    default:
      return static_cast<float>(IntegerAt(tensor, i));
  }
}

}  // namespace

std::shared_ptr<AlignedBytes> AlignedBytes::Make(size_t size) {
  uint64_t rounded;
  // Size 0 still gets an address, so that "has a value" and "is not null" stay the same thing.
  if (!CheckedAlignUp(size == 0 ? 1 : size, kAlignment, &rounded)) return nullptr;
  void* data = std::aligned_alloc(kAlignment, rounded);
  return data == nullptr ? nullptr : Wrap(data, size);
}

std::shared_ptr<AlignedBytes> AlignedBytes::Wrap(void* data, size_t size) {
  AlignedBytes* bytes = new (std::nothrow) AlignedBytes(data, size);
  if (bytes == nullptr) {
    std::free(data);
    return nullptr;
  }
  try {
    return std::shared_ptr<AlignedBytes>(bytes);  // deletes `bytes` when it throws
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

std::shared_ptr<AlignedBytes> AlignedBytes::Copy(const void* data, size_t size) {
  std::shared_ptr<AlignedBytes> bytes = Make(size);
  if (bytes && size != 0) std::memcpy(bytes->data(), data, size);
  return bytes;
}

std::shared_ptr<AlignedBytes> AlignedBytes::Foreign(const void* data, size_t size,
                                                    std::shared_ptr<const void> owner) {
  std::shared_ptr<AlignedBytes> bytes = Absent(size);
  if (bytes == nullptr) return nullptr;
  bytes->data_ = const_cast<void*>(data);
  bytes->foreign_ = true;
  bytes->owner_ = std::move(owner);
  return bytes;
}

std::shared_ptr<AlignedBytes> AlignedBytes::Absent(size_t size) { return Wrap(nullptr, size); }

AlignedBytes::~AlignedBytes() {
  if (!foreign_) std::free(data_);
}

const Param* Node::Find(const char* name) const {
  for (const Param& param : params) {
    if (param.name == name) return &param;
  }
  return nullptr;
}

int64_t Node::Int(const char* name, int64_t fallback) const {
  const Param* param = Find(name);
  if (param == nullptr) return fallback;
  if (auto* i = std::get_if<int64_t>(&param->value)) return *i;
  if (auto* b = std::get_if<bool>(&param->value)) return *b ? 1 : 0;
  if (auto* d = std::get_if<double>(&param->value)) return static_cast<int64_t>(*d);
  return fallback;
}

float Node::Float(const char* name, float fallback) const {
  const Param* param = Find(name);
  if (param == nullptr) return fallback;
  if (auto* d = std::get_if<double>(&param->value)) return static_cast<float>(*d);
  if (auto* i = std::get_if<int64_t>(&param->value)) return static_cast<float>(*i);
  if (auto* b = std::get_if<bool>(&param->value)) return *b ? 1.0f : 0.0f;
  return fallback;
}

bool Node::Bool(const char* name, bool fallback) const {
  const Param* param = Find(name);
  if (param == nullptr) return fallback;
  if (auto* b = std::get_if<bool>(&param->value)) return *b;
  if (auto* i = std::get_if<int64_t>(&param->value)) return *i != 0;
  return fallback;
}

std::vector<int64_t> Node::Ints(const char* name) const {
  const Param* param = Find(name);
  if (param == nullptr) return {};
  if (auto* i = std::get_if<int64_t>(&param->value)) return {*i};
  const Tensor* tensor = std::get_if<Tensor>(&param->value);
  if (tensor == nullptr || !tensor->data) return {};
  std::vector<int64_t> values(tensor->elements());
  for (size_t i = 0; i < values.size(); ++i) values[i] = IntegerAt(*tensor, i);
  return values;
}

std::vector<float> Node::Floats(const char* name) const {
  const Param* param = Find(name);
  if (param == nullptr) return {};
  if (auto* d = std::get_if<double>(&param->value)) return {static_cast<float>(*d)};
  const Tensor* tensor = std::get_if<Tensor>(&param->value);
  if (tensor == nullptr || !tensor->data) return {};
  std::vector<float> values(tensor->elements());
  for (size_t i = 0; i < values.size(); ++i) values[i] = FloatAt(*tensor, i);
  return values;
}

bool SameEncoding(const Tensor& a, const Tensor& b) {
  if (a.dtype != b.dtype) return false;
  if (!IsFixed(a.dtype)) return true;
  const auto bits = [](const Tensor& t) -> size_t {
    return t.quantization.bitwidth != 0 ? t.quantization.bitwidth : 8 * ElementSize(t.dtype);
  };
  return bits(a) == bits(b) && a.quantization.axis == b.quantization.axis &&
         a.quantization.block == b.quantization.block &&
         a.quantization.scales == b.quantization.scales &&
         a.quantization.offsets == b.quantization.offsets;
}

}  // namespace qnnrt
