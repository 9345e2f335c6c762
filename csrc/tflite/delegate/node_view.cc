#include "tflite/delegate/node_view.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "tflite/lowering/options.h"

namespace qnnrt::tflite {
namespace {

bool IsWhole(TfLiteType type) {
  return type == kTfLiteInt8 || type == kTfLiteUInt8 || type == kTfLiteInt16 ||
         type == kTfLiteInt32 || type == kTfLiteInt64;
}

Encoding EncodingOf(const TfLiteTensor& t) {
  Encoding e;
  if (t.quantization.type == kTfLiteNoQuantization || !IsWhole(t.type)) return e;
  if (t.quantization.type != kTfLiteAffineQuantization) Unsupported("scales in blocks");
  const auto* q = static_cast<const TfLiteAffineQuantization*>(t.quantization.params);
  if (q == nullptr || q->scale == nullptr || q->scale->size == 0) return e;
  e.scale.assign(q->scale->data, q->scale->data + q->scale->size);
  e.offset.assign(e.scale.size(), 0);
  const size_t zeros = q->zero_point == nullptr ? 0 : static_cast<size_t>(q->zero_point->size);
  if (zeros > 1 && zeros != e.scale.size())
    Damaged("%zu zero points for %zu scales", zeros, e.scale.size());
  for (size_t i = 0; i < e.offset.size() && zeros > 0; ++i) {
    const int32_t zero = q->zero_point->data[zeros == 1 ? 0 : i];
    if (zero == std::numeric_limits<int32_t>::min()) Damaged("a zero point of %d", zero);
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
      Unsupported("element type %d of TFLite has no counterpart", static_cast<int>(t.type));
  }
}

Dims DimsOf(const TfLiteTensor& t) {
  Dims dims;
  for (int i = 0; t.dims != nullptr && i < t.dims->size; ++i) {
    if (t.dims->data[i] <= 0) Unsupported("a tensor has no elements, or an open dimension");
    dims.push_back(static_cast<uint32_t>(t.dims->data[i]));
  }
  return dims;
}

bool IsConstant(const TfLiteTensor& t) {
  return (t.allocation_type == kTfLiteMmapRo || t.allocation_type == kTfLitePersistentRo) &&
         t.data != nullptr;
}

const TfLiteTensor& TensorAt(const TfLiteContext& context, int index) {
  if (index < 0 || static_cast<size_t>(index) >= context.tensors_size)
    Damaged("there is no tensor %d", index);
  return context.tensors[index];
}

TensorView TensorOf(const TfLiteContext& context, int index, bool output) {
  TensorView view;
  view.omitted = index == kTfLiteOptionalTensor;
  if (view.omitted) return view;
  const TfLiteTensor& t = TensorAt(context, index);
  if (t.sparsity != nullptr) Unsupported("tensor %d is sparse", index);
  if (t.allocation_type == kTfLiteDynamic)
    Unsupported(output ? "the size of its result depends on the data"
                       : "a tensor has no fixed size");
  if (output && t.allocation_type == kTfLitePersistentRo)
    Unsupported("its result is a constant, which TFLite has");
  view.dims = DimsOf(t);
  view.encoding = EncodingOf(t);
  view.dtype = TypeOf(t, !view.encoding.none());
  view.variable = t.is_variable;
  view.constant = !output && IsConstant(t);
  if (view.constant) view.data = t.data;
  if (view.constant && t.bytes != view.bytes())
    Damaged("constant %d has %zu bytes for %s", index, t.bytes, Text(view.dims).c_str());
  return view;
}

}  // namespace

const Operator* OperatorOf(const TfLiteRegistration& registration) {
  const bool custom = registration.builtin_code == kCustomOperator;
  if (custom && registration.custom_name == nullptr) return nullptr;
  const Operator* op = custom ? FindOperator(std::string(registration.custom_name))
                              : FindOperator(registration.builtin_code);
  if (op == nullptr || (op->code == kCustomOperator) != custom) return nullptr;
  return op->delegated == Delegated::kNone ? nullptr : op;
}

NodeView ViewOf(const TfLiteContext& context, const TfLiteNode& node,
                const TfLiteRegistration& registration) {
  NodeView view;
  view.op = OperatorOf(registration);
  if (view.op == nullptr) Unsupported("no QNN operation corresponds to it");
  if (node.outputs->size == 0 || node.inputs->size == 0) Damaged("it has no inputs or outputs");
  view.version = registration.version;
  view.shapes_known = true;
  view.states = States::kInputs;
  for (int i = 0; i < node.inputs->size; ++i)
    view.inputs.push_back(TensorOf(context, node.inputs->data[i], false));
  for (int i = 0; i < node.outputs->size; ++i)
    view.outputs.push_back(TensorOf(context, node.outputs->data[i], true));
  if (IsFixed(view) && view.op->delegated == Delegated::kNotFixed)
    Unsupported("its quantized numbers are left to TFLite's kernel");
  if (view.op->code == kCustomOperator) {
    ReadCustomOptions(node.custom_initial_data,
                      static_cast<size_t>(std::max(0, node.custom_initial_data_size)), &view);
  } else {
    ReadOptions(node.builtin_data, SIZE_MAX, view.op->options, &view);
  }
  return view;
}

// ---- Partitions ----------------------------------------------------------------------------

// Where a tensor of a node's plan is among those of the partition.
int Partition::Merge(const TfLiteContext& context, const TfLiteNode& node, PlannedTensor tensor) {
  const bool input = tensor.index >= 0;
  const int index = input ? node.inputs->data[tensor.index] : -1;
  tensor.index = -1;
  const bool constant = tensor.type == QNN_TENSOR_TYPE_STATIC;
  const bool whole = !tensor.reencoded && tensor.order.empty();
  if (input && !constant) {
    auto known = values_.find(index);
    if (known != values_.end()) return known->second.at;
    tensor.index = index;
  }
  const char* const name = input ? context.tensors[index].name : nullptr;
  if (name != nullptr && !tensor.decoded) tensor.name = name;
  std::pair<int, bool> key = {index, tensor.decoded};
  if (input && constant && whole) {
    auto known = constants_.find(key);
    if (known != constants_.end() && plan_.tensors[known->second].dims == tensor.dims)
      return known->second;
  }
  const int at = static_cast<int>(plan_.tensors.size());
  if (input && !constant) values_[index] = {at, tensor.dims};
  if (input && constant && whole) constants_.emplace(key, at);
  plan_.tensors.push_back(std::move(tensor));
  return at;
}

void Partition::Add(const TfLiteContext& context, const TfLiteNode& node, const char* name,
                    NodePlan part) {
  std::vector<bool> used(part.tensors.size());
  for (const PlannedOp& op : part.ops) {
    for (int i : op.inputs) {
      if (i >= 0) used[i] = true;
    }
    for (int i : op.outputs) used[i] = true;
  }
  for (const Value& v : part.outputs) {
    if (v.given()) used[v.at] = true;
  }
  std::vector<int> at(part.tensors.size(), -1);
  for (size_t i = 0; i < at.size(); ++i) {
    if (used[i]) at[i] = Merge(context, node, std::move(part.tensors[i]));
  }
  for (PlannedOp& op : part.ops) {
    for (int& i : op.inputs) i = i < 0 ? i : at[i];
    for (int& i : op.outputs) i = at[i];
    op.name = std::string(name) + "_" + std::to_string(plan_.ops.size());
    plan_.ops.push_back(std::move(op));
  }
  for (size_t i = 0; i < part.outputs.size(); ++i) {
    const Value& v = part.outputs[i];
    const int index = node.outputs->data[i];
    if (!v.given() || index < 0) continue;
    PlannedTensor& made = plan_.tensors[at[v.at]];
    const char* const given = context.tensors[index].name;
    if (made.type == QNN_TENSOR_TYPE_NATIVE && made.name.empty() && given != nullptr)
      made.name = given;
    values_[index] = {at[v.at], v.dims};
  }
  for (const auto& [input, v] : part.next_states) {
    PlannedTensor& next = plan_.tensors[at[v.at]];
    next.type = QNN_TENSOR_TYPE_APP_READ;
    next.index = node.inputs->data[input];
    next.state = true;
  }
}

void Partition::Finish(const TfLiteIntArray& outputs) {
  for (int i = 0; i < outputs.size; ++i) {
    const int index = outputs.data[i];
    auto found = values_.find(index);
    if (found == values_.end()) Damaged("tensor %d is an output that nothing writes", index);
    const Value value = found->second;
    PlannedTensor* t = &plan_.tensors[value.at];
    if (t->type != QNN_TENSOR_TYPE_NATIVE) {  // an input, a constant, or another output
      PlannedTensor copy;
      copy.name = t->name + "_copy";
      copy.dtype = t->dtype;
      copy.dims = Physical(value.dims);
      copy.encoding = t->encoding;
      const int to = static_cast<int>(plan_.tensors.size());
      plan_.tensors.push_back(std::move(copy));
      const std::string name = "copy_" + std::to_string(plan_.ops.size());
      plan_.ops.push_back({name, "Reshape", {value.at}, {to}, {}});
      t = &plan_.tensors[to];
    }
    t->type = QNN_TENSOR_TYPE_APP_READ;
    t->index = index;
  }
}

}  // namespace qnnrt::tflite
