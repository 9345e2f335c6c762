// The lowering for importers: an operator as a Qnn_OpConfig_t, what becomes of it as JSON.
#include <cstring>

#include "abi/qnn_errors.h"
#include "abi/qnnrt_ext.h"
#include "support/guard.h"
#include "support/json.h"
#include "support/per_thread.h"
#include "tflite/lowering/lowering.h"
#include "tflite/lowering/options.h"

namespace qnnrt::tflite {
namespace {

Encoding EncodingOf(const Qnn_QuantizeParams_t& q) {
  Encoding e;
  if (q.encodingDefinition != QNN_DEFINITION_DEFINED) return e;
  switch (q.quantizationEncoding) {
    case QNN_QUANTIZATION_ENCODING_SCALE_OFFSET:
      return {{q.scaleOffsetEncoding.scale}, {q.scaleOffsetEncoding.offset}, -1, 0};
    case QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET:
      return {{q.bwScaleOffsetEncoding.scale},
              {q.bwScaleOffsetEncoding.offset},
              -1,
              q.bwScaleOffsetEncoding.bitwidth};
    case QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET: {
      const auto& axis = q.axisScaleOffsetEncoding;
      for (uint32_t i = 0; i < axis.numScaleOffsets; ++i) {
        e.scale.push_back(axis.scaleOffset[i].scale);
        e.offset.push_back(axis.scaleOffset[i].offset);
      }
      e.axis = axis.axis;
      return e;
    }
    case QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET: {
      const auto& axis = q.bwAxisScaleOffsetEncoding;
      e.scale.assign(axis.scales, axis.scales + axis.numElements);
      e.offset.assign(axis.offsets, axis.offsets + axis.numElements);
      e.axis = axis.axis;
      e.bits = axis.bitwidth;
      return e;
    }
    default:
      Damaged("an encoding that TFLite does not have");
  }
}

TensorView ViewOf(const Qnn_Tensor_t& tensor, const std::string& what) {
  const Qnn_TensorV1_t& t = tensor.v1;
  TensorView view;
  view.omitted = t.type == QNN_TENSOR_TYPE_NULL;
  if (view.omitted) return view;
  view.dims.assign(t.dimensions, t.dimensions + t.rank);
  view.dtype = t.dataType;
  view.encoding = EncodingOf(t.quantizeParams);
  view.variable = t.type == QNN_TENSOR_TYPE_APP_READWRITE;
  view.constant = t.type == QNN_TENSOR_TYPE_STATIC;
  if (view.constant) {
    view.data = t.clientBuf.data;
    if (view.bytes() != t.clientBuf.dataSize)
      Damaged("%s has %u bytes for %s", what.c_str(), t.clientBuf.dataSize,
              Text(view.dims).c_str());
  }
  return view;
}

Option OptionOf(const Qnn_Param_t& p) {
  Option option;
  if (p.paramType == QNN_PARAMTYPE_SCALAR) {
    option.number = p.scalarParam.doubleValue;
    return option;
  }
  const Qnn_TensorV1_t& t = p.tensorParam.v1;
  option.list.resize(t.clientBuf.dataSize / sizeof(double));
  if (!option.list.empty())
    std::memcpy(option.list.data(), t.clientBuf.data, option.list.size() * sizeof(double));
  return option;
}

NodeView ViewOf(const Qnn_OpConfigV1_t& config, States states, uint64_t budget) {
  NodeView view;
  view.op = FindOperator(std::string(config.typeName));
  if (view.op == nullptr) Unsupported("no QNN operation corresponds to it");
  view.states = states;
  view.budget = budget;
  for (uint32_t i = 0; i < config.numOfInputs; ++i)
    view.inputs.push_back(ViewOf(config.inputTensors[i], "input " + std::to_string(i)));
  for (uint32_t i = 0; i < config.numOfOutputs; ++i)
    view.outputs.push_back(ViewOf(config.outputTensors[i], "output " + std::to_string(i)));
  for (uint32_t i = 0; i < config.numOfParams; ++i)
    view.options[config.params[i].name] = OptionOf(config.params[i]);
  view.version = static_cast<int32_t>(view.options["version"].number);
  if (view.op->code == kCustomOperator) {
    const std::vector<double>& given = view.options["custom"].list;
    std::vector<uint8_t> bytes;
    for (double byte : given)
      bytes.push_back(byte >= 0 && byte < 256 ? static_cast<uint8_t>(byte) : 0);
    ReadCustomOptions(bytes.data(), bytes.size(), &view);
  }
  if (view.outputs.empty()) Damaged("it has no output");
  return view;
}

// Fixed point where it can be, else floats.
NodePlan Lowered(const NodeView& view) {
  if (view.op->fixed == Fixed::kFloats) return Lower(view, Numbers::kFloats);
  try {
    return Lower(view, Numbers::kOwn);
  } catch (const Refused& refused) {
    if (refused.kind != Refused::kNotFixed) throw;
  }
  return Lower(view, Numbers::kFloats);
}

template <typename List>
void Write(const char* key, const List& values, JsonWriter* json) {
  json->Key(key).Array();
  for (const auto& v : values) json->Number(v);
  json->End();
}

void Write(const Encoding& e, JsonWriter* json) {
  if (e.none()) return;
  Write("scale", e.scale, json);
  Write("offset", e.offset, json);
  json->Key("axis").Number(e.per_axis() ? e.axis : -1).Key("bits").Number(e.bits);
}

void Write(const PlannedTensor& t, JsonWriter* json) {
  json->Object().Key("dtype").Number(static_cast<uint32_t>(Plain(t.dtype)));
  Write("shape", t.dims, json);
  if (t.index >= 0) json->Key("input").Number(t.index);
  if (t.state) json->Key("state").Bool(true);
  if (t.type == QNN_TENSOR_TYPE_STATIC) {
    json->Key("constant").Bool(true);
    if (t.decoded) json->Key("decoded").Bool(true);
    if (!t.order.empty()) {
      Write("source", t.source, json);
      Write("order", t.order, json);
    }
    if (!t.decoded && (t.index < 0 || !t.owned.empty())) {
      const auto address = reinterpret_cast<uintptr_t>(t.owned.data());
      json->Key("address").Number(static_cast<uint64_t>(address));
      json->Key("bytes").Number(static_cast<uint64_t>(t.owned.size()));
    }
  }
  if (t.index < 0 || t.reencoded) Write(t.encoding, json);
  json->End();
}

void Write(const Param& p, JsonWriter* json) {
  json->Key(p.name).Array();
  json->Number(static_cast<uint32_t>(p.dims.empty() ? p.scalar.dataType : p.dtype));
  json->Array();
  for (uint32_t d : p.dims) json->Number(d);
  json->End().Array();  // elements by their bits
  if (p.dims.empty()) {
    uint32_t bits = p.scalar.bool8Value;
    if (p.scalar.dataType != QNN_DATATYPE_BOOL_8) std::memcpy(&bits, &p.scalar.uint32Value, 4);
    json->Number(bits);
  }
  for (uint32_t v : p.values) json->Number(v);
  json->End().End();
}

std::string Json(const NodePlan& plan) {
  JsonWriter json;
  json.Object().Key("tensors").Array();
  for (const PlannedTensor& t : plan.tensors) Write(t, &json);
  json.End().Key("ops").Array();
  for (const PlannedOp& op : plan.ops) {
    json.Object().Key("type").String(op.type);
    Write("inputs", op.inputs, &json);
    Write("outputs", op.outputs, &json);
    json.Key("params").Object();
    for (const Param& p : op.params) Write(p, &json);
    json.End().End();
  }
  json.End().Key("outputs").Array();
  for (const Value& v : plan.outputs) {
    json.Object().Key("tensor").Number(v.at);
    Write("shape", v.dims, &json);
    json.End();
  }
  json.End().Key("states").Array();
  for (const auto& [input, v] : plan.next_states) {
    json.Object().Key("input").Number(input).Key("tensor").Number(v.at);
    Write("shape", v.dims, &json);
    json.End();
  }
  json.End().Key("spent").Number(plan.spent).End();
  return json.Take();
}

std::string Json(const Refused& refused) {
  static const char* const kKinds[] = {"unsupported", "unsupported", "damaged", "large", "type"};
  JsonWriter json;
  json.Object().Key("refused").String(kKinds[refused.kind]).Key("text").String(refused.what());
  json.Key("detail").Number(refused.detail).End();
  return json.Take();
}

std::string Table() {
  JsonWriter json;
  json.Array();
  for (const Operator& op : Operators()) {
    json.Object().Key("name").String(op.name).Key("code").Number(op.code);
    json.Key("to").String(op.to).Key("options").String(op.options).Key("note").String(op.note);
    json.Key("delegated").Bool(op.delegated != Delegated::kNone).End();
  }
  return json.End().Take();
}

struct Answer {
  NodePlan plan;  // has the constants
  std::string text;
};

}  // namespace
}  // namespace qnnrt::tflite

extern "C" {

uint64_t qnnrt_tflite_lower(const Qnn_OpConfig_t* op, uint32_t states, uint64_t budget,
                            const char** json) {
  using namespace qnnrt::tflite;  // NOLINT
  if (op == nullptr || json == nullptr || op->v1.typeName == nullptr || states > 2)
    return QNN_COMMON_ERROR_INVALID_ARGUMENT;
  return qnnrt::Contained(
      [&]() -> uint64_t {
        static qnnrt::PerThread<Answer> answers;
        Answer* answer = answers.Get();
        if (answer == nullptr) return QNN_COMMON_ERROR_MEM_ALLOC;
        try {
          answer->plan = Lowered(ViewOf(op->v1, static_cast<States>(states), budget));
          answer->text = Json(answer->plan);
        } catch (const Refused& refused) {
          answer->text = Json(refused);
        }
        *json = answer->text.c_str();
        return QNN_SUCCESS;
      },
      [](const qnnrt::Status&) -> uint64_t { return QNN_COMMON_ERROR_MEM_ALLOC; });
}

const char* qnnrt_tflite_operators_json(void) {
  return qnnrt::Contained(
      [] {
        static const auto* const text = new std::string(qnnrt::tflite::Table());
        return text->c_str();
      },
      [](const qnnrt::Status&) -> const char* { return nullptr; });
}

}  // extern "C"
