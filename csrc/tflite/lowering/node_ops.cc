// The constants and operations that a node adds to its plan.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "tflite/lowering/elements.h"
#include "tflite/lowering/lowering.h"

namespace qnnrt::tflite {
namespace {

// No tensor of more elements than this is a real one.
constexpr uint64_t kMostElements = uint64_t{1} << 44;

// The dimension with scales of its own must stay one, with as many elements before it.
Encoding ReshapedEncoding(const Encoding& e, const Dims& from, const Dims& to) {
  if (!e.per_axis()) return e;
  uint64_t before = 1, seen = 1;
  for (int d = 0; d < e.axis; ++d) before *= from[d];
  for (size_t d = 0; d < to.size(); ++d) {
    if (to[d] == from[e.axis] && seen == before) {
      Encoding found = e;
      found.axis = static_cast<int32_t>(d);
      return found;
    }
    seen *= to[d];
  }
  Unsupported("scales along dimension %d of %s, reshaped to %s", e.axis, Text(from).c_str(),
              Text(to).c_str());
}

uint16_t Half(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const float size = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7E00;
  if (size >= 65520) return sign | 0x7C00;
  if (size < 6.103515625e-05F)  // subnormal: steps of 2^-24
    return sign | static_cast<uint16_t>(std::nearbyint(size * 16777216.0F));
  int exponent;
  const float fraction = std::frexp(size, &exponent);  // in [0.5, 1)
  const auto steps = static_cast<uint32_t>(std::nearbyint(fraction * 2048)) - 1024;
  return static_cast<uint16_t>(sign | ((static_cast<uint32_t>(exponent + 14) << 10) + steps));
}

}  // namespace

void Node::Spend(const Dims& dims, uint32_t element_bytes, const char* what) {
  const uint64_t count = Elements(dims);
  const uint64_t bytes = count > UINT64_MAX / 64 ? count : count * element_bytes;
  if (bytes > view_.budget - plan_->spent) throw Refused(Refused::kTooLarge, what, bytes);
  plan_->spent += bytes;
}

Value Node::Constant(Dims dims, Qnn_DataType_t dtype, const void* data, Encoding encoding) {
  PlannedTensor t;
  t.type = QNN_TENSOR_TYPE_STATIC;
  t.dtype = dtype;
  t.dims = Physical(dims);
  t.encoding = std::move(encoding);
  const auto* bytes = static_cast<const uint8_t*>(data);
  t.owned.assign(bytes, bytes + Elements(dims) * ElementBytes(dtype));
  return Add(std::move(t), std::move(dims));
}

Value Node::Filled(const Dims& dims, Qnn_DataType_t dtype, const void* element, const char* what,
                   Encoding encoding) {
  const uint32_t size = ElementBytes(dtype);
  Spend(dims, size, what);
  std::vector<uint8_t> bytes(Elements(dims) * size);
  for (size_t at = 0; element != nullptr && at < bytes.size(); at += size)
    std::memcpy(&bytes[at], element, size);
  return Constant(dims, dtype, bytes.data(), std::move(encoding));
}

Value Node::Scalar(float value, const Value& like) {
  const Qnn_DataType_t dtype = type(like);
  if (!encoding(like).none()) {  // one step of a scale of its own
    const bool with_sign = (static_cast<uint32_t>(dtype) & 0xFF00) == 0x0300;
    const int step = (value > 0) - (value < 0);
    const int32_t offset = with_sign ? 0 : std::min(step, 0);
    const int64_t code = step - offset;
    return Constant({}, dtype, &code, {{value == 0 ? 1 : std::abs(value)}, {offset}, -1});
  }
  if (dtype == QNN_DATATYPE_FLOAT_32) return Constant({}, dtype, &value);
  if (dtype == QNN_DATATYPE_FLOAT_16) {
    const uint16_t half = Half(value);
    return Constant({}, dtype, &half);
  }
  if (dtype == QNN_DATATYPE_FLOAT_64) {
    const double wide = value;
    return Constant({}, dtype, &wide);
  }
  const int64_t code = dtype == QNN_DATATYPE_BOOL_8 ? value != 0 : static_cast<int64_t>(value);
  if (dtype != QNN_DATATYPE_BOOL_8) {
    const uint32_t bits = 8 * ElementBytes(dtype);
    const bool with_sign = static_cast<uint32_t>(dtype) >> 8 == 0;
    if (!IsWhole(dtype) || (code < 0 && !with_sign) || (bits == 8 && (code < -128 || code > 255)))
      Damaged("%g beside numbers of %s", static_cast<double>(value), TypeName(dtype).c_str());
  }
  return Constant({}, dtype, &code);  // little-endian
}

Value Node::Reencoded(const Value& v, Dims dims, Encoding encoding, const int32_t* values) {
  PlannedTensor t = spec(v);
  t.dtype = QNN_DATATYPE_SFIXED_POINT_32;
  t.dims = Physical(dims);
  t.encoding = std::move(encoding);
  t.reencoded = true;
  if (values != nullptr) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(values);
    t.owned.assign(bytes, bytes + Elements(dims) * sizeof(int32_t));
  }
  return Add(std::move(t), std::move(dims));
}

// Of a constant, whose elements are not moved.
Value Node::Reshaped(const Value& v, const Dims& dims) {
  PlannedTensor t = spec(v);
  t.dims = Physical(dims);
  t.encoding = ReshapedEncoding(encoding(v), v.dims, dims);
  return Add(std::move(t), dims);
}

std::vector<Value> Node::Ops(const char* type, const std::vector<Value>& inputs,
                             const std::vector<std::pair<Dims, Qnn_DataType_t>>& outputs,
                             std::vector<Param> params) {
  PlannedOp op{"", type, {}, {}, std::move(params)};
  for (const auto& [dims, dtype] : outputs) {
    if (Elements(dims) > kMostElements) Damaged("its result is %s", Text(dims).c_str());
  }
  for (const Value& v : inputs) op.inputs.push_back(v.at);
  std::vector<Value> made;
  for (const auto& [dims, dtype] : outputs) {
    PlannedTensor t;
    t.dtype = dtype;
    t.dims = Physical(dims);
    made.push_back(Add(std::move(t), dims));
    op.outputs.push_back(made.back().at);
  }
  plan_->ops.push_back(std::move(op));
  return made;
}

Value Node::OpOf(const char* type, const std::vector<Value>& inputs, const Dims& dims,
                 Qnn_DataType_t dtype, std::vector<Param> params) {
  return Ops(type, inputs, {{dims, dtype}}, std::move(params))[0];
}

Value Node::Nary(const char* type, const std::vector<Value>& inputs, Qnn_DataType_t dtype) {
  std::vector<Dims> shapes;
  for (const Value& v : inputs) shapes.push_back(v.dims);
  return OpOf(type, inputs, Broadcast(shapes), dtype);
}

Value Node::Nary(const char* type, const std::vector<Value>& inputs) {
  return Nary(type, inputs, this->type(inputs[0]));
}

Value Node::Reshape(const Value& v, const Dims& dims) {
  if (Elements(dims) != Elements(v.dims))
    Damaged("cannot reshape %s to %s", Text(v.dims).c_str(), Text(dims).c_str());
  if (Physical(dims) == Physical(v.dims)) return {v.at, dims};
  if (constant(v) && spec(v).order.empty()) return Reshaped(v, dims);
  return Copy(v, dims);
}

Value Node::Copy(const Value& v, const Dims& dims) {
  const Value out = Op("Reshape", {v}, dims);
  plan_->tensors[out.at].encoding = encoding(v);
  return out;
}

Value Node::Transpose(const Value& v, const std::vector<uint32_t>& order) {
  Dims dims;
  std::vector<uint32_t> kept;
  for (uint32_t p : order) {
    dims.push_back(v.dims.at(p));
    if (v.dims[p] != 1) kept.push_back(p);
  }
  if (std::is_sorted(order.begin(), order.end())) return v;
  if (constant(v) && spec(v).order.empty()) {
    PlannedTensor t = spec(v);
    t.source = v.dims;
    t.order = order;
    t.dims = Physical(dims);
    if (t.encoding.per_axis())
      t.encoding.axis = static_cast<int32_t>(
          std::find(order.begin(), order.end(), t.encoding.axis) - order.begin());
    return Add(std::move(t), dims);
  }
  if (std::is_sorted(kept.begin(), kept.end())) return Reshape(v, dims);
  const Value out = Op("Transpose", {v}, dims, {U32s("perm", order)});
  plan_->tensors[out.at].encoding = encoding(v);
  return out;
}

Value Node::Cast(const Value& v, Qnn_DataType_t dtype) {
  const Qnn_DataType_t from = type(v);
  if (Plain(from) == Plain(dtype)) return v;
  const bool real = dtype == QNN_DATATYPE_FLOAT_32;
  if (!HasWhole(from) || !(real || IsWhole(dtype)) || data(v) == nullptr)
    return OpOf("Cast", {v}, v.dims, dtype);
  const uint64_t count = Elements(v.dims);
  const uint32_t size = ElementBytes(dtype);
  std::vector<uint8_t> bytes(count * size);
  for (uint64_t i = 0; i < count; ++i) {
    const int64_t value = ReadWhole(data(v), from, i);
    const auto number = static_cast<float>(value);
    std::memcpy(&bytes[i * size], real ? static_cast<const void*>(&number) : &value, size);
  }
  return Constant(v.dims, dtype, bytes.data());
}

Value Node::Dequantize(const Value& v) {
  return OpOf("Dequantize", {v}, v.dims, QNN_DATATYPE_FLOAT_32);
}

Value Node::Quantize(const Value& v, Qnn_DataType_t dtype, Encoding encoding) {
  const Value out = OpOf("Quantize", {v}, v.dims, dtype);
  plan_->tensors[out.at].encoding = std::move(encoding);
  return out;
}

Value Node::Activate(Value v, int64_t activation) {
  float low = 0, high = 6;
  switch (activation) {
    case kActNone:
      return v;
    case kActRelu:
      return Op("Relu", {v}, v.dims);
    case kActTanh:
      return Op("Tanh", {v}, v.dims);
    case kActReluN1To1:
      low = -1, high = 1;
      break;
    case kActRelu6:
      break;
    case kActSignBit:
      Unsupported("the activation function SIGN_BIT");
    default:
      Unsupported("the activation function number %lld", static_cast<long long>(activation));
  }
  if (!floating(v) && OutEncoding(0).none()) {
    v = Op("ElementWiseMaximum", {v, Scalar(low, v)}, v.dims);
    return Op("ElementWiseMinimum", {v, Scalar(high, v)}, v.dims);
  }
  return Op("ReluMinMax", {v}, v.dims, {F32("min_value", low), F32("max_value", high)});
}

Value Node::Fused(const Value& v) {
  const int64_t kind = Integer("FusedActivationFunction");
  if (kind == kActTanh)
    Unsupported("the fused activation TANH, which TFLite's own kernels leave out");
  return Activate(v, kind);
}

}  // namespace qnnrt::tflite
