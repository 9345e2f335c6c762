#include "ir/node.h"

#include <type_traits>

#include "ir/visit.h"

namespace qnnrt {
namespace {

int64_t IntegerAt(const Tensor& tensor, size_t i) {
  const bool truth = tensor.dtype == QNN_DATATYPE_BOOL_8;
  return VisitNumber(truth ? QNN_DATATYPE_UINT_8 : tensor.dtype, [&](auto t) -> int64_t {
    if constexpr (std::is_integral_v<decltype(t)>)
      return static_cast<int64_t>(tensor.data_as<decltype(t)>()[i]);
    else
      return 0;
  });
}

float FloatAt(const Tensor& tensor, size_t i) {
  switch (tensor.dtype) {
    case QNN_DATATYPE_FLOAT_16:
    case QNN_DATATYPE_BFLOAT_16:
      return NarrowFloatOf(tensor.dtype)->Wide(tensor.data_as<uint16_t>()[i]);
    case QNN_DATATYPE_FLOAT_32:
      return tensor.data_as<float>()[i];
    case QNN_DATATYPE_FLOAT_64:
      return static_cast<float>(tensor.data_as<double>()[i]);
    default:
      return static_cast<float>(IntegerAt(tensor, i));
  }
}

}  // namespace

const Param* Node::Find(const char* name) const {
  for (const Param& param : params) {
    if (param.name == name) return &param;
  }
  return nullptr;
}

int64_t Node::Int(const char* name) const {
  const Param* param = Find(name);
  if (param == nullptr) return 0;
  if (auto* i = std::get_if<int64_t>(&param->value)) return *i;
  if (auto* b = std::get_if<bool>(&param->value)) return *b ? 1 : 0;
  if (auto* d = std::get_if<double>(&param->value)) return static_cast<int64_t>(*d);
  return 0;
}

float Node::Float(const char* name) const {
  const Param* param = Find(name);
  if (param == nullptr) return 0;
  if (auto* d = std::get_if<double>(&param->value)) return static_cast<float>(*d);
  if (auto* i = std::get_if<int64_t>(&param->value)) return static_cast<float>(*i);
  if (auto* b = std::get_if<bool>(&param->value)) return *b ? 1.0f : 0.0f;
  return 0;
}

bool Node::Bool(const char* name) const {
  const Param* param = Find(name);
  if (param == nullptr) return false;
  if (auto* b = std::get_if<bool>(&param->value)) return *b;
  if (auto* i = std::get_if<int64_t>(&param->value)) return *i != 0;
  return false;
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

}  // namespace qnnrt
