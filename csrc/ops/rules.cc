#include "ops/rules.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ir/visit.h"
#include "ops/fixed/codec.h"

namespace qnnrt {

Result<std::vector<size_t>> GetAxes(const Node& node, const char* param, size_t rank) {
  std::vector<size_t> axes;
  for (int64_t axis : node.Ints(param)) {
    QNNRT_ASSIGN_OR_RETURN(const size_t index, CheckAxis(param, axis, rank));
    axes.push_back(index);
  }
  std::sort(axes.begin(), axes.end());
  const auto twice = std::adjacent_find(axes.begin(), axes.end());
  if (twice != axes.end()) return Invalid("param '%s' names axis %zu twice", param, *twice);
  return axes;
}

Result<std::vector<int64_t>> GetInts(const Node& node, const char* param, size_t count,
                                     int64_t low) {
  std::vector<int64_t> values = node.Ints(param);
  if (values.size() != count) {
    return Invalid("param '%s' must hold %zu values, got %zu", param, count, values.size());
  }
  for (int64_t value : values) QNNRT_RETURN_IF_ERROR(CheckRange(param, value, low, INT32_MAX));
  return values;
}

Status CheckShape(const Node& node, size_t i, const char* what, const Shape& shape) {
  if (!node.HasInput(i) || node.inputs[i]->shape == shape) return {};
  return Invalid("input %zu (%s) '%s' must have shape %s, got %s", i, what,
                 node.inputs[i]->name.c_str(), ShapeText(shape).c_str(),
                 ShapeText(node.inputs[i]->shape).c_str());
}

bool BroadcastShape(const Shape& a, const Shape& b, Shape* out) {
  const size_t rank = std::max(a.size(), b.size());
  out->assign(rank, 1);
  for (size_t i = 0; i < rank; ++i) {  // from the last dim on
    const uint32_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const uint32_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return false;
    (*out)[rank - 1 - i] = x == 1 ? y : x;
  }
  return true;
}

namespace {

template <typename T>
void Store(T value, unsigned char* bytes) {
  std::memcpy(bytes, &value, sizeof(value));
}

template <typename T>
Status StoreInt(const char* param, int64_t i, double d, bool is_int, unsigned char* bytes) {
  if (!is_int) {
    if (std::trunc(d) != d || !(std::fabs(d) < 9.2e18)) {
      return Invalid("param '%s' is %g, which the integer element type cannot hold", param, d);
    }
    i = static_cast<int64_t>(d);
  }
  const T value = static_cast<T>(i);
  const bool negative_lost = std::is_unsigned_v<T> && i < 0;
  if (negative_lost || static_cast<int64_t>(value) != i) {
    return Invalid("param '%s' is %lld, which the element type cannot hold", param,
                   static_cast<long long>(i));
  }
  Store(value, bytes);
  return {};
}

// A real number in the encoding of a tensor; along an axis, in that of its first index.
void EncodeScalar(const Tensor& like, float value, unsigned char* bytes) {
  Tensor one;
  one.dtype = like.dtype;
  one.quantization = like.quantization;
  one.quantization.axis = -1;
  uint64_t code = 0;  // aligned, which `bytes` need not be
  Codec(one).Encode(&value, &code, 0, 1);
  std::memcpy(bytes, &code, ElementSize(like.dtype));
}

}  // namespace

Status ScalarBytes(const char* param, const ParamValue& value, const Tensor& like,
                   unsigned char bytes[8]) {
  double d = 0;
  int64_t i = 0;
  bool is_int = true;
  if (const auto* whole = std::get_if<int64_t>(&value)) {
    i = *whole, d = static_cast<double>(i);
  } else if (const auto* real = std::get_if<double>(&value)) {
    d = *real, is_int = false;
  } else if (const auto* truth = std::get_if<bool>(&value)) {
    i = *truth, d = *truth;
  } else {
    return Invalid("param '%s' is expected to be a scalar number", param);
  }
  std::memset(bytes, 0, 8);
  if (IsFixed(like.dtype) && !std::holds_alternative<int64_t>(value)) {
    EncodeScalar(like, static_cast<float>(d), bytes);
    return {};
  }
  const Qnn_DataType_t type = StorageType(like.dtype);
  if ((TypeBit(type) & types::kAny) == 0)
    return Invalid("param '%s' cannot be stored as %s", param, DataTypeName(type));
  if (type == QNN_DATATYPE_BOOL_8) {
    Store<uint8_t>(is_int ? i != 0 : d != 0, bytes);
    return {};
  }
  if (const NarrowFloat* narrow = NarrowFloatOf(type)) {
    const float value = static_cast<float>(d);
    uint16_t stored;
    narrow->narrow(&value, &stored, 1);
    Store(stored, bytes);
    return {};
  }
  return VisitNumber(type, [&](auto t) -> Status {
    using T = decltype(t);
    if constexpr (std::is_integral_v<T>)
      return StoreInt<T>(param, i, d, is_int, bytes);
    else
      Store(static_cast<T>(d), bytes);
    return {};
  });
}

Status ScalarBytes(const Node& node, const char* name, const Tensor& like, unsigned char bytes[8]) {
  const Param& param = *node.Find(name);
  const auto* whole = std::get_if<int64_t>(&param.value);
  if (param.type == QNN_DATATYPE_UINT_64 && whole != nullptr && *whole < 0) {
    return Invalid("param '%s' is %llu; numbers up to 2^63 - 1 are held", name,
                   static_cast<unsigned long long>(*whole));
  }
  return ScalarBytes(name, param.value, like, bytes);
}

}  // namespace qnnrt
