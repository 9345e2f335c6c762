// A plan as JSON, for tools.
#include <algorithm>

#include "graph/plan.h"
#include "ops/post_ops.h"
#include "support/json.h"

namespace qnnrt {
namespace {

const char* KindOf(const ArenaUse& use) {
  if (use.tensor == nullptr) return "scratch";
  return use.tensor->is_input() ? "input" : use.tensor->is_output() ? "output" : "tensor";
}

}  // namespace

void Plan::DescribeItems(JsonWriter* json) const {
  // Lifetimes of items count nodes; a node without work (an alias) has no step.
  const auto step = [&](uint32_t node, bool after) {
    auto at = after ? std::upper_bound(step_nodes_.begin(), step_nodes_.end(), node)
                    : std::lower_bound(step_nodes_.begin(), step_nodes_.end(), node);
    return static_cast<int64_t>(at - step_nodes_.begin());
  };
  json->Key("items").Array();
  for (size_t i = 0; i < arena_items_.size(); ++i) {
    const ArenaItem& item = arena_items_[i];
    const ArenaUse& use = arena_uses_[i];
    if (item.size == 0) continue;
    const int64_t first = step(item.first, false);
    json->Object();
    json->Key("name").String(use.tensor != nullptr ? use.tensor->name
                                                   : graph_.nodes[use.node].name);
    json->Key("kind").String(KindOf(use));
    json->Key("offset").Number(arena_plan_.offsets[i]).Key("size").Number(item.size);
    json->Key("first").Number(first).Key("last").Number(std::max(first, step(item.last, true) - 1));
    if (!use.shared.empty()) {
      json->Key("shared").Array();
      for (const Tensor* t : use.shared) json->String(t->name);
      json->End();
    }
    json->End();
  }
  json->End();
}

// How the floats between nodes are stored.
Qnn_DataType_t Plan::StoredFloats() const {
  for (const Node& node : graph_.nodes) {
    for (const Tensor* t : node.outputs) {
      if (t != nullptr && NarrowFloatOf(t->dtype) != nullptr) return t->dtype;
    }
  }
  return QNN_DATATYPE_FLOAT_32;
}

std::string Plan::Describe(const std::vector<PassReport>& passes) const {
  JsonWriter json;
  json.Object();
  json.Key("passes").Array();
  for (const PassReport& pass : passes) {
    json.Object().Key("name").String(pass.name).Key("changes").Number(pass.changes).End();
  }
  json.End();
  json.Key("precision").String(DataTypeName(StoredFloats()));
  json.Key("arena").Object();
  json.Key("peak").Number(arena_plan_.peak).Key("lower_bound").Number(arena_plan_.lower_bound);
  json.Key("sum").Number(arena_plan_.sum).Key("order").String(arena_plan_.order);
  json.Key("proved").Bool(arena_plan_.proved);
  DescribeItems(&json);
  json.End();
  json.Key("weight_bytes").Number(weight_bytes_);
  json.Key("persistent_bytes").Number(persistent_bytes_);
  json.Key("threads").Number(threads_.limit());
  json.Key("steps").Array();
  for (size_t s = 0; s < steps_.size(); ++s) {
    const Node& n = node(s);
    json.Object().Key("name").String(n.name).Key("op").String(n.type);
    json.Key("kernel").String(steps_[s].kernel->Name());
    json.Key("fused").Array();
    for (const PostOp& op : n.post_ops) json.String(PostOpName(op));
    json.End();
    json.Key("inputs").Array();
    for (const Tensor* t : n.inputs) json.String(t == nullptr ? "" : t->name);
    json.End().Key("outputs").Array();
    for (const Tensor* t : n.outputs) json.String(t == nullptr ? "" : t->name);
    json.End().End();
  }
  json.End().End();
  return json.Take();
}

}  // namespace qnnrt
