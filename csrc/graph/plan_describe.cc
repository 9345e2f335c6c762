// What a plan became, in words: JSON for people and programs that look at it.
#include "graph/plan.h"
#include "support/json.h"

namespace qnnrt {

std::string Plan::Describe(const std::vector<PassReport>& passes) const {
  JsonWriter json;
  json.Object();
  json.Key("passes").Array();
  for (const PassReport& pass : passes) {
    json.Object().Key("name").String(pass.name).Key("changes").Number(pass.changes).End();
  }
  json.End();
  json.Key("arena").Object();
  json.Key("peak").Number(arena_plan_.peak).Key("lower_bound").Number(arena_plan_.lower_bound);
  json.Key("sum").Number(arena_plan_.sum).Key("order").String(arena_plan_.order).End();
  json.Key("weight_bytes").Number(weight_bytes_);
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
