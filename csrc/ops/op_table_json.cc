#include "ops/op_table_json.h"

#include "ops/op.h"
#include "support/json.h"

namespace qnnrt {
namespace {

// Names and rules are literals of this library: ASCII, at most a quote to escape.
std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

template <typename T, typename Write>
std::string Array(const std::vector<T>& items, const Write& write) {
  std::string out = "[";
  for (size_t i = 0; i < items.size(); ++i) out += (i == 0 ? "" : ", ") + write(items[i]);
  return out + "]";
}

std::vector<std::string> TypeNames(TypeSet set) {
  std::vector<std::string> names;
  for (unsigned bit = 0; bit < 32; ++bit) {
    if ((set & (1u << bit)) != 0) names.push_back(TypeSetNames(1u << bit));
  }
  return names;
}

std::string PortJson(const PortSpec& port) {
  const char* count = port.count == PortSpec::kOne        ? "one"
                      : port.count == PortSpec::kOptional ? "optional"
                                                          : "variadic";
  std::string out = "{\"name\": " + Quoted(port.name) + ", \"count\": " + Quoted(count) +
                    ", \"types\": " + Array(TypeNames(AcceptedTypes(port)), Quoted);
  if (port.same_type_as >= 0) out += ", \"type_of_input\": " + std::to_string(port.same_type_as);
  const bool real = (port.types & ~types::kFloat) == 0;  // but for fixed-point numbers
  out += std::string(", \"real\": ") + (real ? "true" : "false");
  return out + ", \"min_rank\": " + std::to_string(port.min_rank) +
         ", \"max_rank\": " + std::to_string(port.max_rank) + "}";
}

// A tensor as the list of its elements. JSON has no infinity: a string, as in the lowered graph.
std::string ValueJson(const ParamValue& value) {
  if (const auto* whole = std::get_if<int64_t>(&value)) return std::to_string(*whole);
  if (const auto* real = std::get_if<double>(&value)) return JsonWriter().Number(*real).Take();
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
  const Node reader{"", "", "", {{"", value}}, {}, {}, {}};
  return Array(reader.Ints(""), [](int64_t n) { return std::to_string(n); });
}

std::string ParamJson(const ParamSpec& param) {
  static const char* const kKinds[] = {"int", "float", "bool", "number", "ints", "floats"};
  const ParamDefault& fallback = param.fallback;
  std::string out =
      "{\"name\": " + Quoted(param.name) + ", \"kind\": " + Quoted(kKinds[param.kind]) +
      ", \"required\": " + (fallback.kind == ParamDefault::kRequired ? "true" : "false");
  if (fallback.kind == ParamDefault::kValue) out += ", \"default\": " + ValueJson(fallback.value);
  if (!param.values.empty()) out += ", \"values\": " + Array(param.values, Quoted);
  return out + ", \"rule\": " + Quoted(param.rule) + "}";
}

std::string BoundJson(const ParamOrConstant& bound) {
  return bound.param != nullptr ? Quoted(bound.param) : ValueJson(double{bound.constant});
}

std::string OpJson(const OpDef* def) {
  const auto flag = [def](OpDef::Flags f) { return (def->flags & f) != 0 ? "true" : "false"; };
  const bool moves = (def->flags & OpDef::kMoves) != 0 && def->moves == nullptr;
  return "{\"type\": " + Quoted(def->type) + ",\n  \"inputs\": " + Array(def->inputs, PortJson) +
         ",\n  \"outputs\": " + Array(def->outputs, PortJson) +
         ",\n  \"params\": " + Array(def->params, ParamJson) +
         ",\n  \"fixed\": " + (def->fixed != nullptr ? "true" : "false") +
         ", \"weights_axis\": " + std::to_string(def->weights_axis) +
         ", \"moves\": " + (moves ? "true" : "false") + ", \"may_move\": " + flag(OpDef::kMoves) +
         ", \"fills\": " + flag(OpDef::kFills) + ", \"clamps\": " + Array(def->clamps, BoundJson) +
         ", \"converts\": " + flag(OpDef::kConverts) + ", \"lpai\": " + flag(OpDef::kLpai) +
         ", \"sensitive_inputs\": " + std::to_string(def->sensitive_inputs) +
         ", \"lpai_operations\": " + std::to_string(def->lpai_operations) +
         ",\n  \"fuses\": " + flag(OpDef::kPostOps) + ", \"in_place\": " + flag(OpDef::kInPlace) +
         ", \"alias\": " + flag(OpDef::kAlias) + ", \"native_half\": " + flag(OpDef::kNativeHalf) +
         "}";
}

}  // namespace

std::string OpTableJson() { return Array(AllOps(), OpJson); }

std::string OpTableJson(const std::string& type) {
  for (const OpDef* def : AllOps()) {  // not FindOp, which has records of no op of QNN's, too
    if (type == def->type) return OpJson(def);
  }
  return {};
}

}  // namespace qnnrt
