#include "tflite/lower.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <limits>
#include <numeric>
#include <unordered_map>

namespace qnnrt::tflite {
namespace {

bool IsWhole(TfLiteType type) {
  return type == kTfLiteInt8 || type == kTfLiteUInt8 || type == kTfLiteInt16 ||
         type == kTfLiteInt32 || type == kTfLiteInt64;
}

Encoding EncodingOf(const TfLiteTensor& t) {
  Encoding e;
  if (t.quantization.type == kTfLiteNoQuantization || !IsWhole(t.type)) return e;
  if (t.quantization.type != kTfLiteAffineQuantization) Refuse("scales in blocks");
  const auto* q = static_cast<const TfLiteAffineQuantization*>(t.quantization.params);
  if (q == nullptr || q->scale == nullptr || q->scale->size == 0) return e;
  e.scale.assign(q->scale->data, q->scale->data + q->scale->size);
  e.offset.assign(e.scale.size(), 0);
  const size_t zeros = q->zero_point == nullptr ? 0 : static_cast<size_t>(q->zero_point->size);
  if (zeros > 1 && zeros != e.scale.size())
    Refuse("%zu zero points for %zu scales", zeros, e.scale.size());
  for (size_t i = 0; i < e.offset.size() && zeros > 0; ++i) {
    const int32_t zero = q->zero_point->data[zeros == 1 ? 0 : i];
    if (zero == std::numeric_limits<int32_t>::min()) Refuse("a zero point of %d", zero);
    e.offset[i] = -zero;
  }
  if (e.per_axis()) e.axis = q->quantized_dimension;
  return e;
}

Qnn_DataType_t TypeOf(const TfLiteTensor& t, bool fixed) {
  switch (t.type) {
    case kTfLiteFloat32:
      return QNN_DATATYPE_FLOAT_32;
    case kTfLiteFloat16:
      return QNN_DATATYPE_FLOAT_16;
    case kTfLiteBool:
      return QNN_DATATYPE_BOOL_8;
    case kTfLiteInt8:
      return fixed ? QNN_DATATYPE_SFIXED_POINT_8 : QNN_DATATYPE_INT_8;
    case kTfLiteUInt8:
      return fixed ? QNN_DATATYPE_UFIXED_POINT_8 : QNN_DATATYPE_UINT_8;
    case kTfLiteInt16:
      return fixed ? QNN_DATATYPE_SFIXED_POINT_16 : QNN_DATATYPE_INT_16;
    case kTfLiteInt32:
      return fixed ? QNN_DATATYPE_SFIXED_POINT_32 : QNN_DATATYPE_INT_32;
    case kTfLiteInt64:
      return QNN_DATATYPE_INT_64;
    case kTfLiteUInt32:
      return QNN_DATATYPE_UINT_32;
    default:
      Refuse("element type %d of the runtime has no counterpart", static_cast<int>(t.type));
  }
}

Dims DimsOf(const TfLiteTensor& t) {
  Dims dims;
  for (int i = 0; t.dims != nullptr && i < t.dims->size; ++i) {
    if (t.dims->data[i] <= 0) Refuse("a tensor has no elements, or an open dimension");
    dims.push_back(static_cast<uint32_t>(t.dims->data[i]));
  }
  return dims;
}

bool IsConstant(const TfLiteTensor& t) {
  return (t.allocation_type == kTfLiteMmapRo || t.allocation_type == kTfLitePersistentRo) &&
         t.data != nullptr;
}

double Read(const void* data, TfLiteType type, size_t i) {
  switch (type) {
    case kTfLiteInt8:
      return static_cast<const int8_t*>(data)[i];
    case kTfLiteUInt8:
      return static_cast<const uint8_t*>(data)[i];
    case kTfLiteInt16:
      return static_cast<const int16_t*>(data)[i];
    case kTfLiteInt32:
      return static_cast<const int32_t*>(data)[i];
    default:
      return static_cast<double>(static_cast<const int64_t*>(data)[i]);
  }
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
  Refuse("scales along dimension %d of %s, reshaped to %s", e.axis, Text(from).c_str(),
         Text(to).c_str());
}

}  // namespace

void Refuse(const char* format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  throw Refused(text);
}

uint32_t Axis(int64_t axis, size_t rank) {
  const int64_t found = axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
  if (found < 0 || found >= static_cast<int64_t>(rank))
    Refuse("axis %lld of %zu dimensions", static_cast<long long>(axis), rank);
  return static_cast<uint32_t>(found);
}

// ---- Lowering ------------------------------------------------------------------------------

const TfLiteTensor& Lowering::tensor(int index) const {
  if (index < 0 || static_cast<size_t>(index) >= context_->tensors_size)
    Refuse("there is no tensor %d", index);
  return context_->tensors[index];
}

Value Lowering::Get(int index, bool variable) {
  auto found = values_.find(index);
  if (found != values_.end()) return found->second;
  const TfLiteTensor& t = tensor(index);
  if (t.is_variable != variable)
    Refuse(variable ? "state %d is no variable" : "tensor %d is a variable", index);
  if (t.sparsity != nullptr) Refuse("tensor %d is sparse", index);
  PlannedTensor made;
  made.name = t.name == nullptr ? "" : t.name;
  const Dims dims = DimsOf(t);
  made.dims = Physical(dims);
  made.encoding = EncodingOf(t);
  if (made.encoding.per_axis() &&
      (made.encoding.axis < 0 || made.encoding.axis >= static_cast<int>(dims.size()) ||
       dims[made.encoding.axis] != made.encoding.scale.size()))
    Refuse("tensor %d has %zu scales along dimension %d of %s", index, made.encoding.scale.size(),
           made.encoding.axis, Text(dims).c_str());
  made.dtype = TypeOf(t, !made.encoding.none());
  if (IsConstant(t)) {
    made.type = QNN_TENSOR_TYPE_STATIC;
    made.data = t.data;
    if (t.bytes != Elements(dims) * ElementBytes(made.dtype))
      Refuse("constant %d has %zu bytes for %s", index, t.bytes, Text(dims).c_str());
  } else {
    if (t.allocation_type == kTfLiteDynamic) Refuse("tensor %d has no fixed size", index);
    made.type = QNN_TENSOR_TYPE_APP_WRITE;
    made.index = index;
    made.state = variable;
  }
  const Value value{static_cast<int>(plan_->tensors.size()), dims};
  plan_->tensors.push_back(std::move(made));
  values_[index] = value;
  return value;
}

void Lowering::Encode(size_t first, const Encoding& encoding, Qnn_DataType_t dtype) {
  for (size_t i = first; i < plan_->tensors.size(); ++i) {
    PlannedTensor& t = plan_->tensors[i];
    if (t.type == QNN_TENSOR_TYPE_NATIVE && t.encoding.none() && t.dtype == dtype)
      t.encoding = encoding;
  }
}

void Lowering::Add(const TfLiteNode& raw, const TfLiteRegistration& registration, Numbers numbers) {
  const Builtin* builtin = FindBuiltin(registration.builtin_code);
  if (builtin == nullptr) Refuse("no QNN operation corresponds to it");
  if (raw.outputs->size == 0 || raw.inputs->size == 0) Refuse("it has no inputs or outputs");
  bool fixed = false;  // a quantized number goes in or comes out
  for (const TfLiteIntArray* list : {raw.inputs, raw.outputs}) {
    for (int i = 0; i < list->size; ++i) {
      if (list->data[i] == kTfLiteOptionalTensor) continue;
      const TfLiteTensor& t = tensor(list->data[i]);
      fixed = fixed || (!IsConstant(t) && !EncodingOf(t).none());
      if (list == raw.outputs && t.allocation_type == kTfLiteDynamic)
        Refuse("the size of its result depends on the data");
      if (list == raw.outputs && t.allocation_type == kTfLitePersistentRo)
        Refuse("its result is a constant, which the runtime has");
    }
  }
  if (fixed && builtin->fixed == Fixed::kNever)
    Refuse("its quantized numbers are left to the runtime's kernel");
  const size_t first = plan_->tensors.size(), first_op = plan_->ops.size();
  Node node(this, raw, registration.builtin_code, !fixed || numbers == Numbers::kFloats);
  builtin->lower(node);
  if (fixed && numbers == Numbers::kOwn) Encode(first, node.OutEncoding(0), node.OutType(0));
  for (size_t i = first_op; i < plan_->ops.size(); ++i)
    plan_->ops[i].name = std::string(builtin->name) + "_" + std::to_string(i);
}

void Lowering::Finish(const TfLiteIntArray& outputs) {
  for (int i = 0; i < outputs.size; ++i) {
    const int index = outputs.data[i];
    auto found = values_.find(index);
    if (found == values_.end()) Refuse("tensor %d is an output that nothing writes", index);
    const Value value = found->second;
    PlannedTensor* t = &plan_->tensors[value.at];
    if (t->type != QNN_TENSOR_TYPE_NATIVE) {  // an input, a constant, or another output
      PlannedTensor copy;
      copy.name = t->name + "_copy";
      copy.dtype = t->dtype;
      copy.dims = Physical(value.dims);
      copy.encoding = t->encoding;
      const int to = static_cast<int>(plan_->tensors.size());
      plan_->tensors.push_back(std::move(copy));
      const std::string name = "copy_" + std::to_string(plan_->ops.size());
      plan_->ops.push_back({name, "Reshape", {value.at}, {to}, {}});
      t = &plan_->tensors[to];
    }
    t->type = QNN_TENSOR_TYPE_APP_READ;
    t->index = index;
  }
}

// ---- Nodes ---------------------------------------------------------------------------------

bool Node::has(int i) const { return i < inputs() && node_.inputs->data[i] >= 0; }

Value Node::In(int i, int rank) {
  if (!has(i)) Refuse("input %d is missing", i);
  const int index = node_.inputs->data[i];
  Value v = lowering_->Get(index);
  if (rank >= 0 && v.rank() != static_cast<uint32_t>(rank))
    Refuse("input %d has rank %u instead of %d", i, v.rank(), rank);
  if (!floats_ || encoding(v).none()) return v;
  return data(v) != nullptr ? Real(index, v) : Dequantize(v);
}

Value Node::Real(int index, const Value& v) {
  auto known = lowering_->floats_.find(index);
  if (known != lowering_->floats_.end()) return known->second;
  const TfLiteTensor& t = lowering_->tensor(index);
  const Encoding& e = encoding(v);
  const void* const from = data(v);  // not the tensor's: the value may be a reshaped constant
  const uint64_t count = Elements(v.dims);
  std::vector<float> real(count);
  for (uint64_t i = 0; i < count; ++i) {
    const size_t s = ScaleAt(e, v.dims, i);
    real[i] = static_cast<float>(e.scale[s] * (Read(from, t.type, i) + e.offset[s]));
  }
  const Value made = Constant(v.dims, QNN_DATATYPE_FLOAT_32, real.data());
  lowering_->floats_[index] = made;
  return made;
}

Value Node::State(int i, const Dims& dims) {
  if (!has(i)) Refuse("its state (input %d) is missing", i);
  const Value v = lowering_->Get(node_.inputs->data[i], true);
  if (v.dims != dims) Refuse("a state %s instead of %s", Text(v.dims).c_str(), Text(dims).c_str());
  return v;
}

void Node::NextState(int i, const Value& value) {
  PlannedTensor& t = lowering_->plan_->tensors[value.at];
  t.type = QNN_TENSOR_TYPE_APP_READ;
  t.index = node_.inputs->data[i];
  t.state = true;
}

std::vector<int64_t> Node::Ints(int i, const char* what) const {
  if (!has(i)) Refuse("%s (input %d) is missing", what, i);
  const TfLiteTensor& t = lowering_->tensor(node_.inputs->data[i]);
  if (!IsConstant(t)) Refuse("%s (input %d) is no constant", what, i);
  if (t.type != kTfLiteInt32 && t.type != kTfLiteInt64) Refuse("%s is of another type", what);
  std::vector<int64_t> found(t.bytes / (t.type == kTfLiteInt32 ? 4 : 8));
  for (size_t k = 0; k < found.size(); ++k) {
    found[k] = t.type == kTfLiteInt32 ? static_cast<const int32_t*>(t.data)[k]
                                      : static_cast<const int64_t*>(t.data)[k];
  }
  return found;
}

int64_t Node::Int(int i, const char* what) const {
  const std::vector<int64_t> found = Ints(i, what);
  if (found.size() != 1) Refuse("%s has %zu elements", what, found.size());
  return found[0];
}

Dims Node::OutDims(int i) const {
  if (i >= outputs()) Refuse("it has %d outputs", outputs());
  return DimsOf(lowering_->tensor(node_.outputs->data[i]));
}

Encoding Node::OutEncoding(int i) const {
  if (floats_) return {};
  return EncodingOf(lowering_->tensor(node_.outputs->data[i]));
}

Qnn_DataType_t Node::OutType(int i) const {
  const TfLiteTensor& t = lowering_->tensor(node_.outputs->data[i]);
  const bool fixed = !EncodingOf(t).none();
  return fixed && floats_ ? QNN_DATATYPE_FLOAT_32 : TypeOf(t, fixed);
}

void Node::Set(int i, Value v) {
  const int index = node_.outputs->data[i];
  const TfLiteTensor& t = lowering_->tensor(index);
  const Dims dims = OutDims(i);
  const Encoding wanted = EncodingOf(t);
  const Qnn_DataType_t dtype = TypeOf(t, !wanted.none());
  if (Elements(v.dims) != Elements(dims))
    Refuse("output %d is %s, its tensor %s", i, Text(v.dims).c_str(), Text(dims).c_str());
  v = Reshape(v, dims);
  if (floats_ && !wanted.none()) {
    v = Quantize(v, dtype, wanted);
  } else if (v.at >= first_ && spec(v).type == QNN_TENSOR_TYPE_NATIVE && spec(v).encoding.none() &&
             !wanted.none()) {
    lowering_->plan_->tensors[v.at].encoding = wanted;
    lowering_->plan_->tensors[v.at].dtype = dtype;  // of 8 bits in, of 16 out
  } else if (!(spec(v).encoding == wanted)) {
    const bool convert = !spec(v).encoding.none() && !wanted.none();
    v = OpOf(convert ? "Convert" : "Cast", {v}, dims, dtype);
    lowering_->plan_->tensors[v.at].encoding = wanted;
  }
  if (spec(v).dtype != dtype) Refuse("output %d has another element type", i);
  PlannedTensor& made = lowering_->plan_->tensors[v.at];
  if (made.type == QNN_TENSOR_TYPE_NATIVE && made.name.empty() && t.name != nullptr)
    made.name = t.name;
  lowering_->values_[index] = v;
}

bool Node::floating(const Value& v) const {
  return type(v) == QNN_DATATYPE_FLOAT_32 || type(v) == QNN_DATATYPE_FLOAT_16;
}

const void* Node::data(const Value& v) const {
  const PlannedTensor& t = spec(v);
  return t.type == QNN_TENSOR_TYPE_STATIC && t.order.empty() ? t.bytes() : nullptr;
}

int Node::Add(PlannedTensor tensor) {
  lowering_->plan_->tensors.push_back(std::move(tensor));
  return static_cast<int>(lowering_->plan_->tensors.size()) - 1;
}

Value Node::Constant(Dims dims, Qnn_DataType_t dtype, const void* data, Encoding encoding) {
  PlannedTensor t;
  t.type = QNN_TENSOR_TYPE_STATIC;
  t.dtype = dtype;
  t.dims = Physical(dims);
  t.encoding = std::move(encoding);
  const auto* bytes = static_cast<const uint8_t*>(data);
  t.owned.assign(bytes, bytes + Elements(dims) * ElementBytes(dtype));
  return {Add(std::move(t)), std::move(dims)};
}

Value Node::Scalar(float value, const Value& like) {
  const Qnn_DataType_t dtype = type(like);
  if (dtype == QNN_DATATYPE_FLOAT_32) return Constant({}, dtype, &value);
  if (dtype == QNN_DATATYPE_INT_32) {
    const auto whole = static_cast<int32_t>(value);
    return Constant({}, dtype, &whole);
  }
  if (encoding(like).none() || ElementBytes(dtype) > 2)
    Refuse("a number beside elements of type 0x%x", static_cast<unsigned>(dtype));
  // One step of a scale of its own.
  const bool with_sign = (static_cast<uint32_t>(dtype) & 0xFF00) == 0x0300;
  const int step = (value > 0) - (value < 0);
  const int32_t offset = with_sign ? 0 : std::min(step, 0);
  const int32_t code = step - offset;
  return Constant({}, dtype, &code, {{value == 0 ? 1 : std::abs(value)}, {offset}, -1});
}

Value Node::Reencoded(const Value& v, Dims dims, Encoding encoding) {
  PlannedTensor t = spec(v);
  t.dims = Physical(dims);
  t.encoding = std::move(encoding);
  return {Add(std::move(t)), std::move(dims)};
}

std::vector<Value> Node::Ops(const char* type, const std::vector<Value>& inputs,
                             const std::vector<std::pair<Dims, Qnn_DataType_t>>& outputs,
                             std::vector<Param> params) {
  PlannedOp op{"", type, {}, {}, std::move(params)};
  for (const Value& v : inputs) op.inputs.push_back(v.at);
  std::vector<Value> made;
  for (const auto& [dims, dtype] : outputs) {
    PlannedTensor t;
    t.dtype = dtype;
    t.dims = Physical(dims);
    made.push_back({Add(std::move(t)), dims});
    op.outputs.push_back(made.back().at);
  }
  lowering_->plan_->ops.push_back(std::move(op));
  return made;
}

Value Node::OpOf(const char* type, const std::vector<Value>& inputs, const Dims& dims,
                 Qnn_DataType_t dtype, std::vector<Param> params) {
  return Ops(type, inputs, {{dims, dtype}}, std::move(params))[0];
}

Value Node::Reshape(const Value& v, const Dims& dims) {
  if (Elements(dims) != Elements(v.dims))
    Refuse("%s cannot become %s", Text(v.dims).c_str(), Text(dims).c_str());
  if (Physical(dims) == Physical(v.dims)) return {v.at, dims};
  if (data(v) != nullptr) {
    return Reencoded(v, dims, ReshapedEncoding(encoding(v), v.dims, dims));
  }
  const Value out = Op("Reshape", {v}, dims);
  lowering_->plan_->tensors[out.at].encoding = encoding(v);
  return out;
}

Value Node::Transpose(const Value& v, const std::vector<uint32_t>& order) {
  Dims dims;
  std::vector<uint32_t> kept;
  for (uint32_t p : order) {
    dims.push_back(v.dims.at(p));
    if (v.dims[p] != 1) kept.push_back(p);
  }
  if (data(v) != nullptr) {
    PlannedTensor t = spec(v);
    t.source = v.dims;
    t.order = order;
    t.dims = Physical(dims);
    if (t.encoding.per_axis())
      t.encoding.axis = static_cast<int32_t>(
          std::find(order.begin(), order.end(), t.encoding.axis) - order.begin());
    return {Add(std::move(t)), dims};
  }
  if (std::is_sorted(kept.begin(), kept.end())) return Reshape(v, dims);
  const Value out = Op("Transpose", {v}, dims, {U32s("perm", order)});
  lowering_->plan_->tensors[out.at].encoding = encoding(v);
  return out;
}

Value Node::Cast(const Value& v, Qnn_DataType_t dtype) {
  return type(v) == dtype ? v : OpOf("Cast", {v}, v.dims, dtype);
}

Value Node::Dequantize(const Value& v) {
  return OpOf("Dequantize", {v}, v.dims, QNN_DATATYPE_FLOAT_32);
}

Value Node::Quantize(const Value& v, Qnn_DataType_t dtype, Encoding encoding) {
  const Value out = OpOf("Quantize", {v}, v.dims, dtype);
  lowering_->plan_->tensors[out.at].encoding = std::move(encoding);
  return out;
}

Value Node::Activate(Value v, int32_t activation) {
  float low = 0, high = 6;
  switch (activation) {
    case kTfLiteActNone:
      return v;
    case kTfLiteActRelu:
      return Op("Relu", {v}, v.dims);
    case kTfLiteActReluN1To1:
      low = -1, high = 1;
      break;
    case kTfLiteActRelu6:
      break;
    default:  // TANH and SIGN_BIT among them: the runtime's kernels leave those out
      Refuse("the activation function %d", activation);
  }
  if (!floating(v) && OutEncoding(0).none()) {
    v = Op("ElementWiseMaximum", {v, Scalar(low, v)}, v.dims);
    return Op("ElementWiseMinimum", {v, Scalar(high, v)}, v.dims);
  }
  return Op("ReluMinMax", {v}, v.dims, {F32("min_value", low), F32("max_value", high)});
}

const Builtin* FindBuiltin(int32_t code) {
  static const std::unordered_map<int32_t, Builtin>* const table = [] {
    auto* made = new std::unordered_map<int32_t, Builtin>;
    for (const auto* rows : {&ConvBuiltins(), &ElementwiseBuiltins(), &ShapeBuiltins(),
                             &ReduceBuiltins(), &GatherBuiltins(), &RecurrentBuiltins()}) {
      for (const BuiltinRow& row : *rows) made->emplace(row.code, row.builtin);
    }
    return made;
  }();
  auto found = table->find(code);
  return found == table->end() ? nullptr : &found->second;
}

}  // namespace qnnrt::tflite
