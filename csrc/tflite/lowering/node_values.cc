// What a node reads (options, inputs, states, constants) and what it gives.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "tflite/lowering/elements.h"
#include "tflite/lowering/lowering.h"

namespace qnnrt::tflite {

Node::Node(const NodeView& view, NodePlan* plan, bool floats)
    : view_(view),
      plan_(plan),
      floats_(floats),
      values_(view.inputs.size()),
      decoded_(view.inputs.size()) {}

bool Node::Is(const char* name) const { return std::strcmp(view_.op->name, name) == 0; }

const Option* Node::Find(const char* option) const {
  auto found = view_.options.find(option);
  return found == view_.options.end() ? nullptr : &found->second;
}

int64_t Node::Integer(const char* option, int64_t fallback) const {
  const Option* found = Find(option);
  if (found == nullptr) return fallback;
  // The schema's integers have 32 bits, but for seeds.
  if (!(std::fabs(found->number) < 9e15)) Damaged("%s is %g", option, found->number);
  return static_cast<int64_t>(found->number);
}

float Node::Real(const char* option) const {
  const Option* found = Find(option);
  return found == nullptr ? 0 : static_cast<float>(found->number);
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

Dims Node::Shape(int i) const {
  Dims dims;
  for (int64_t d : Ints(i, "the shape")) dims.push_back(Dim(d));
  return dims;
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
  if (i >= outputs()) return;  // scratch memory of TFLite's kernels, which files may omit
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

}  // namespace qnnrt::tflite
