#include "tflite/lowering/lowering.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <limits>
#include <unordered_map>

namespace qnnrt::tflite {
namespace {

// No tensor of more elements than this is a real one.
constexpr uint64_t kMostElements = uint64_t{1} << 44;

std::string Format(const char* format, va_list args) {
  char text[512];
  std::vsnprintf(text, sizeof text, format, args);
  return text;
}

// Which scale element i has.
size_t ScaleAt(const Encoding& e, const Dims& dims, uint64_t i) {
  if (!e.per_axis()) return 0;
  uint64_t inner = 1;
  for (size_t d = dims.size(); d-- > static_cast<size_t>(e.axis) + 1;) inner *= dims[d];
  return static_cast<size_t>(i / inner % dims[e.axis]);
}

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

bool IsWhole(Qnn_DataType_t dtype) {
  const uint32_t kind = static_cast<uint32_t>(Plain(dtype)) >> 8;
  return kind == 0 || kind == 1;
}

template <typename T>
T At(const void* data, uint64_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + i * sizeof(T), sizeof(T));
  return value;
}

// An element of whole numbers or booleans.
int64_t ReadWhole(const void* data, Qnn_DataType_t dtype, uint64_t i) {
  switch (static_cast<uint32_t>(Plain(dtype))) {
    case QNN_DATATYPE_INT_8:
      return At<int8_t>(data, i);
    case QNN_DATATYPE_INT_16:
      return At<int16_t>(data, i);
    case QNN_DATATYPE_INT_32:
      return At<int32_t>(data, i);
    case QNN_DATATYPE_INT_64:
      return At<int64_t>(data, i);
    case QNN_DATATYPE_UINT_16:
      return At<uint16_t>(data, i);
    case QNN_DATATYPE_UINT_32:
      return At<uint32_t>(data, i);
    case QNN_DATATYPE_UINT_64:
      return static_cast<int64_t>(At<uint64_t>(data, i));
    default:  // UINT_8 and BOOL_8
      return At<uint8_t>(data, i);
  }
}

// Whether ReadWhole reads elements of this type.
bool HasWhole(Qnn_DataType_t dtype) { return IsWhole(dtype) || dtype == QNN_DATATYPE_BOOL_8; }

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

void Unsupported(const char* format, ...) {
  va_list args;
  va_start(args, format);
  const std::string text = Format(format, args);
  va_end(args);
  throw Refused(Refused::kUnsupported, text);
}

void Damaged(const char* format, ...) {
  va_list args;
  va_start(args, format);
  const std::string text = Format(format, args);
  va_end(args);
  throw Refused(Refused::kDamaged, text);
}

void NotFixed(const char* format, ...) {
  va_list args;
  va_start(args, format);
  const std::string text = Format(format, args);
  va_end(args);
  throw Refused(Refused::kNotFixed, text);
}

uint32_t Dim(int64_t size) {
  if (size < 0 || size > std::numeric_limits<int32_t>::max())
    Damaged("its result has a dimension of %lld", static_cast<long long>(size));
  return static_cast<uint32_t>(size);
}

uint32_t Axis(int64_t axis, size_t rank) {
  const auto size = static_cast<int64_t>(rank);
  if (axis < -size || axis >= std::max<int64_t>(size, 1))
    Damaged("axis %lld is not one of a tensor of rank %zu", static_cast<long long>(axis), rank);
  return static_cast<uint32_t>(axis < 0 ? axis + size : axis);
}

Dims Broadcast(const std::vector<Dims>& shapes) {
  Dims out;
  for (const Dims& shape : shapes) {
    if (shape.size() > out.size()) out.insert(out.begin(), shape.size() - out.size(), 1);
    for (size_t d = 1; d <= shape.size(); ++d) {
      uint32_t& to = out[out.size() - d];
      const uint32_t from = shape[shape.size() - d];
      if (to == 1) to = from;
      if (from != 1 && from != to) {
        std::string text;
        for (const Dims& s : shapes) text += (text.empty() ? "" : " and ") + Text(s);
        Damaged("%s do not broadcast", text.c_str());
      }
    }
  }
  return out;
}

// ---- Lowering ------------------------------------------------------------------------------

bool IsFixed(const NodeView& node) {
  for (const TensorView& t : node.inputs) {
    if (!t.omitted && !t.constant && !t.variable && !t.encoding.none()) return true;
  }
  return std::any_of(node.outputs.begin(), node.outputs.end(),
                     [](const TensorView& t) { return !t.encoding.none(); });
}

NodePlan Lower(const NodeView& view, Numbers numbers) {
  NodePlan plan;
  const bool fixed = IsFixed(view);
  const bool floats = !fixed || numbers == Numbers::kFloats;
  plan.outputs.resize(view.outputs.size());
  Node node(view, &plan, floats);
  view.op->lower(node);
  if (!floats) {  // what lies between the operations has the encoding of the output
    const TensorView& out = view.outputs[0];
    for (PlannedTensor& t : plan.tensors) {
      if (t.type == QNN_TENSOR_TYPE_NATIVE && t.encoding.none() &&
          Plain(t.dtype) == Plain(out.dtype)) {
        t.encoding = out.encoding;
        t.dtype = out.dtype;
      }
    }
  }
  return plan;
}

// ---- Nodes ---------------------------------------------------------------------------------

Node::Node(const NodeView& view, NodePlan* plan, bool floats)
    : view_(view),
      plan_(plan),
      floats_(floats),
      values_(view.inputs.size()),
      decoded_(view.inputs.size()) {}

const char* Node::name() const { return view_.op->name; }

bool Node::Is(const char* name) const { return std::strcmp(view_.op->name, name) == 0; }

int64_t Node::Integer(const char* option, int64_t fallback) const {
  auto found = view_.options.find(option);
  if (found == view_.options.end()) return fallback;
  const double value = found->second.number;
  // The schema's integers have 32 bits, but for seeds.
  if (!(std::fabs(value) < 9e15)) Damaged("%s is %g", option, value);
  return static_cast<int64_t>(value);
}

float Node::Real(const char* option) const {
  auto found = view_.options.find(option);
  return found == view_.options.end() ? 0 : static_cast<float>(found->second.number);
}

std::vector<int64_t> Node::Integers(const char* option) const {
  std::vector<int64_t> values;
  auto found = view_.options.find(option);
  if (found == view_.options.end()) return values;
  for (double v : found->second.list) values.push_back(static_cast<int64_t>(v));
  return values;
}

std::vector<float> Node::Reals(const char* option) const {
  auto found = view_.options.find(option);
  if (found == view_.options.end()) return {};
  return {found->second.list.begin(), found->second.list.end()};
}

Value Node::Add(PlannedTensor tensor, Dims dims) {
  plan_->tensors.push_back(std::move(tensor));
  return {static_cast<int>(plan_->tensors.size()) - 1, std::move(dims)};
}

Value Node::Input(int i, bool state) {
  if (values_[i].given()) return values_[i];
  const TensorView& t = view_.inputs[i];
  if (t.variable != state) Damaged(state ? "state %d is no variable" : "input %d is a variable", i);
  if (t.encoding.per_axis() &&
      (t.encoding.axis < 0 || t.encoding.axis >= static_cast<int>(t.dims.size()) ||
       t.dims[t.encoding.axis] != t.encoding.scale.size()))
    Damaged("input %d has %zu scales along dimension %d of %s", i, t.encoding.scale.size(),
            t.encoding.axis, Text(t.dims).c_str());
  PlannedTensor made;
  made.dims = Physical(t.dims);
  made.dtype = t.dtype;
  made.encoding = t.encoding;
  made.index = i;
  made.state = state;
  made.type = t.constant ? QNN_TENSOR_TYPE_STATIC : QNN_TENSOR_TYPE_APP_WRITE;
  made.data = t.data;
  return values_[i] = Add(std::move(made), t.dims);
}

Value Node::In(int i, int rank) {
  if (!has(i)) Damaged("input %d is missing", i);
  Value v = Input(i, false);
  if (rank >= 0 && v.rank() != static_cast<uint32_t>(rank))
    Damaged("an input of rank %u instead of %d", v.rank(), rank);
  if (!floats_ || encoding(v).none()) return v;
  return constant(v) ? Decoded(i, v) : Dequantize(v);
}

std::vector<Value> Node::Inputs() {
  std::vector<Value> found;
  for (int i = 0; i < inputs(); ++i) found.push_back(In(i));
  return found;
}

Value Node::Decoded(int i, const Value& v) {
  if (decoded_[i].given()) return decoded_[i];
  PlannedTensor made;
  made.type = QNN_TENSOR_TYPE_STATIC;
  made.dtype = QNN_DATATYPE_FLOAT_32;
  made.dims = Physical(v.dims);
  made.index = i;
  made.decoded = true;
  return decoded_[i] = Add(std::move(made), v.dims);
}

Value Node::State(int i, const Dims& dims) {
  if (!has(i)) Damaged("its state (input %d) is missing", i);
  const TensorView& t = view_.inputs[i];
  if (!t.variable) return Reshape(In(i), dims);  // given by the graph itself
  if (view_.states != States::kInputs) return {};
  Value v = Input(i, true);
  if (view_.shapes_known && v.dims != dims)
    Damaged("a state %s instead of %s", Text(v.dims).c_str(), Text(dims).c_str());
  v = {v.at, dims};
  plan_->tensors[v.at].dims = Physical(dims);
  return encoding(v).none() ? v : Dequantize(v);
}

void Node::NextState(int i, const Value& value) {
  const TensorView& t = view_.inputs[i];
  if (!t.variable || view_.states != States::kInputs) return;
  Value v = t.encoding.none() ? value : Quantize(value, t.dtype, t.encoding);
  plan_->next_states.push_back({i, v});
}

bool Node::Keeps(std::initializer_list<int> inputs) const {
  return view_.states == States::kKept && std::all_of(inputs.begin(), inputs.end(), [this](int i) {
           return has(i) && view_.inputs[i].variable;
         });
}

void Node::NeedConstant(int i, const char* what) const {
  if (!has(i)) Damaged("input %d is missing", i);
  if (!view_.inputs[i].constant)
    Unsupported("%s (input %d) is computed when the model runs; a QNN graph has it fixed", what, i);
}

std::vector<int64_t> Node::Ints(int i, const char* what) const {
  NeedConstant(i, what);
  const TensorView& t = view_.inputs[i];
  std::vector<int64_t> found(Elements(t.dims));
  for (size_t k = 0; k < found.size(); ++k) {
    if (HasWhole(t.dtype)) {
      found[k] = ReadWhole(t.data, t.dtype, k);
    } else if (t.dtype == QNN_DATATYPE_FLOAT_32 &&
               std::fabs(At<float>(t.data, k)) < 9e15F) {  // false of a NaN
      found[k] = static_cast<int64_t>(At<float>(t.data, k));
    } else {
      Damaged("%s (input %d) is %s", what, i, TypeName(t.dtype).c_str());
    }
  }
  return found;
}

int64_t Node::Int(int i, const char* what) const {
  const std::vector<int64_t> found = Ints(i, what);
  if (found.size() != 1)
    Damaged("%s (input %d) has %zu elements instead of one", what, i, found.size());
  return found[0];
}

Encoding Node::OutEncoding(int i) const {
  if (floats_ || i >= outputs()) return {};
  return view_.outputs[i].encoding;
}

Qnn_DataType_t Node::OutType(int i) const {
  if (i >= outputs()) Damaged("output %d is missing", i);
  const TensorView& t = view_.outputs[i];
  return floats_ && !t.encoding.none() ? QNN_DATATYPE_FLOAT_32 : t.dtype;
}

void Node::Set(int i, Value v) {
  if (i >= outputs()) return;  // scratch memory of TFLite's kernels, which files may leave out
  const TensorView& t = view_.outputs[i];
  if (view_.shapes_known) {
    if (Elements(v.dims) != Elements(t.dims))
      Damaged("output %d is %s, its tensor %s", i, Text(v.dims).c_str(), Text(t.dims).c_str());
    v = Reshape(v, t.dims);
  }
  if (floats_ && !t.encoding.none()) v = Quantize(v, t.dtype, t.encoding);
  const bool own = spec(v).type == QNN_TENSOR_TYPE_NATIVE;
  if (own) {
    PlannedTensor& made = plan_->tensors[v.at];
    made.encoding = t.encoding;
    if (!t.encoding.none() || Plain(made.dtype) == Plain(t.dtype))
      made.dtype = t.dtype;  // of 8 bits in, of 16 out
  } else if (Plain(spec(v).dtype) == Plain(t.dtype) && !(spec(v).encoding == t.encoding)) {
    const bool convert = !spec(v).encoding.none() && !t.encoding.none();
    v = OpOf(convert ? "Convert" : "Cast", {v}, v.dims, t.dtype);
    plan_->tensors[v.at].encoding = t.encoding;
  }
  if (Plain(spec(v).dtype) != Plain(t.dtype))
    throw Refused(Refused::kWrongType, TypeName(spec(v).dtype), static_cast<uint64_t>(i));
  plan_->outputs[i] = v;
}

bool Node::floating(const Value& v) const { return static_cast<uint32_t>(type(v)) >> 8 == 2; }

bool Node::whole(const Value& v) const { return IsWhole(type(v)); }

const void* Node::data(const Value& v) const {
  PlannedTensor& t = plan_->tensors[v.at];
  if (t.type != QNN_TENSOR_TYPE_STATIC || !t.order.empty()) return nullptr;
  if (t.decoded) Decode(view_, &t);
  return t.bytes();
}

double Node::Element(const Value& v, const char* what) const {
  const void* const from = data(v);
  if (from == nullptr || Elements(v.dims) != 1)
    Damaged("%s has %llu elements instead of one", what,
            static_cast<unsigned long long>(Elements(v.dims)));
  if (type(v) == QNN_DATATYPE_FLOAT_32) return At<float>(from, 0);
  if (type(v) == QNN_DATATYPE_FLOAT_64) return At<double>(from, 0);
  if (!HasWhole(type(v))) Unsupported("%s of %s", what, TypeName(type(v)).c_str());
  const auto value = static_cast<double>(ReadWhole(from, type(v), 0));
  const Encoding& e = encoding(v);
  return e.none() ? value : static_cast<float>(e.scale[0] * (value + e.offset[0]));
}

void Node::Spend(uint64_t bytes, const char* what) {
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

Value Node::Filled(const Dims& dims, Qnn_DataType_t dtype, const void* element, Encoding encoding) {
  const uint32_t size = ElementBytes(dtype);
  std::vector<uint8_t> bytes(Elements(dims) * size);
  for (size_t at = 0; at < bytes.size(); at += size) std::memcpy(&bytes[at], element, size);
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

// A constant: its elements stay where they are.
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
    const uint64_t count = Elements(dims);
    if (count == 0) Unsupported("its result has no elements, which QNN tensors must have");
    if (count > kMostElements) Damaged("its result is %s", Text(dims).c_str());
  }
  for (const Value& v : inputs) {
    op.inputs.push_back(v.at);
    if (v.given() && Elements(v.dims) == 0)
      Unsupported("a tensor has no elements, which QNN tensors must have");
  }
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

void Decode(const NodeView& view, PlannedTensor* t) {
  if (!t->decoded || !t->owned.empty()) return;
  const TensorView& from = view.inputs[t->index];
  const Encoding& e = from.encoding;
  const uint64_t count = Elements(from.dims);
  std::vector<float> real(count);
  for (uint64_t i = 0; i < count; ++i) {
    const size_t s = ScaleAt(e, from.dims, i);
    const auto code = static_cast<double>(ReadWhole(from.data, from.dtype, i));
    real[i] = static_cast<float>(e.scale[s] * (code + e.offset[s]));
  }
  const auto* bytes = reinterpret_cast<const uint8_t*>(real.data());
  t->owned.assign(bytes, bytes + count * sizeof(float));
}

// ---- The table -----------------------------------------------------------------------------

const std::vector<Operator>& Operators() {
  static const std::vector<Operator>* const table = [] {
    auto* all = new std::vector<Operator>;
    for (const auto& rows : {ConvOperators(), ElementwiseOperators(), GatherOperators(),
                             MovementOperators(), RecurrentOperators(), ReduceOperators()})
      all->insert(all->end(), rows.begin(), rows.end());
    return all;
  }();
  return *table;
}

const Operator* FindOperator(int32_t code) {
  static const auto* const index = [] {
    auto* made = new std::unordered_map<int32_t, const Operator*>;
    for (const Operator& op : Operators()) made->emplace(op.code, &op);
    return made;
  }();
  auto found = index->find(code);
  return found == index->end() ? nullptr : found->second;
}

const Operator* FindOperator(const std::string& name) {
  static const auto* const index = [] {
    auto* made = new std::unordered_map<std::string, const Operator*>;
    for (const Operator& op : Operators()) made->emplace(op.name, &op);
    return made;
  }();
  auto found = index->find(name);
  return found == index->end() ? nullptr : found->second;
}

}  // namespace qnnrt::tflite
