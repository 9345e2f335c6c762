#include "tflite/lowering/lowering.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <limits>
#include <memory>

#include "tflite/lowering/elements.h"

namespace qnnrt::tflite {
namespace {

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
  if (!floats) {  // intermediates have the encoding of the output
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
    auto all = std::make_unique<std::vector<Operator>>();
    for (const auto& rows :
         {ConvOperators(), DetectionOperators(), ElementwiseOperators(), GatherOperators(),
          MediapipeOperators(), MovementOperators(), RecurrentOperators(), ReduceOperators(),
          SlicePadOperators(), SpectrumOperators(), StablehloOperators()})
      all->insert(all->end(), rows.begin(), rows.end());
    return all.release();
  }();
  return *table;
}

const Operator* FindOperator(int32_t code) {
  for (const Operator& op : Operators()) {
    if (op.code == code && code != kCustomOperator) return &op;
  }
  return nullptr;
}

const Operator* FindOperator(const std::string& name) {
  for (const Operator& op : Operators()) {
    if (op.name == name) return &op;
  }
  return nullptr;
}

}  // namespace qnnrt::tflite
