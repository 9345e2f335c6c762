#include "graph/layout.h"

#include <algorithm>

#include "graph/planner/measure.h"
#include "ops/encoding.h"

namespace qnnrt {
namespace {

// Nothing of a known plan is trusted: it comes from a file.
bool Fits(const std::vector<ArenaItem>& items, const ArenaPlan& known) {
  if (known.peak > kMostArenaBytes) return false;
  for (uint64_t offset : known.offsets) {
    if (offset > known.peak) return false;
  }
  return VerifyPlan(items, known.offsets, known.peak).ok();
}

}  // namespace

bool IsAlias(const Node& node) {
  const OpDef* def = FindOp(node.type);
  return def != nullptr && (def->flags & OpDef::kAlias) != 0 &&
         SameStored(*node.inputs[0], *node.outputs[0]);
}

Layout::Layout(const NodeGraph& graph) : graph_(graph) {
  Lifetimes();
  ShareAliases();
  ShareStates();
  ShareParts();
  ShareInPlace();
  ShareSums();
}

Place Layout::PlaceOf(const Tensor* tensor) const {
  Place place{tensor};
  for (auto found = root_.find(tensor); found != root_.end(); found = root_.find(place.root)) {
    place.root = found->second.root;
    place.offset += found->second.offset;
    // Rows of a part of a part are parts of rows: the pitch is one.
    if (place.row == 0) place.row = found->second.row, place.pitch = found->second.pitch;
  }
  return place;
}

void Layout::AddIo(const Tensor* tensor, uint64_t alignment) { io_.push_back({tensor, alignment}); }

void Layout::AddItem(const ArenaItem& item, const ArenaUse& use) {
  items_.push_back(item);
  uses_.push_back(use);
}

Result<ArenaPlan> Layout::PlanMemory(const std::vector<KernelPtr>& kernels, const ArenaPlan* known,
                                     const ArenaBudget& budget) {
  PartSums(kernels);
  for (size_t s = 0; s < graph_.nodes.size(); ++s) {
    for (const Tensor* t : graph_.nodes[s].outputs) {
      if (t == nullptr || Root(t) != t || !InArena(t)) continue;
      item_[t] = items_.size();
      const Life& life = life_[t];
      AddItem({static_cast<uint32_t>(life.first), static_cast<uint32_t>(life.last), t->bytes(), 64},
              {t, s});
    }
    uint32_t step = static_cast<uint32_t>(s);
    scratch_.push_back(items_.size());
    AddItem({step, step, kernels[s]->ScratchBytes(), 64}, {nullptr, s});
  }
  const int end = std::max(static_cast<int>(graph_.nodes.size()) - 1, 0);
  for (const Io& io : io_) {
    const Life& life = life_[io.tensor];
    const int first = io.tensor->is_input() ? 0 : std::max(life.first, 0);
    // A state is to be there in the next execution.
    const bool stays = io.tensor->is_output() || io.tensor->is_state();
    const int last = stays ? end : std::max(life.last, 0);
    item_[io.tensor] = items_.size();
    AddItem({static_cast<uint32_t>(first), static_cast<uint32_t>(last), io.tensor->bytes(),
             io.alignment},
            {io.tensor, static_cast<size_t>(first)});
  }
  for (const Node& node : graph_.nodes) {
    for (const Tensor* t : node.outputs) {
      if (t == nullptr || Root(t) == t) continue;
      if (auto found = item_.find(Root(t)); found != item_.end())
        uses_[found->second].shared.push_back(t);
    }
  }
  if (known == nullptr || !Fits(items_, *known)) return PlanArena(items_, budget);
  ArenaPlan plan = *known;
  plan.proved = plan.peak <= ArenaAlignedBound(items_);
  return plan;
}

void Layout::Lifetimes() {
  for (size_t s = 0; s < graph_.nodes.size(); ++s) {
    int step = static_cast<int>(s);
    for (const Tensor* t : graph_.nodes[s].outputs) {
      if (t != nullptr) life_[t] = {step, step};
    }
    for (const Tensor* t : graph_.nodes[s].inputs) {
      if (t != nullptr) life_[t].last = step;
    }
  }
}

Layout::Life Layout::Joined(const Tensor* a, const Tensor* b) const {
  const auto life_of = [&](const Tensor* t) {
    const auto found = life_.find(t);
    return found == life_.end() ? Life{} : found->second;
  };
  const Life x = life_of(a), y = life_of(b);
  const bool earlier = x.first == kNever || (y.first != kNever && y.first < x.first);
  return {earlier ? y.first : x.first, std::max(x.last, y.last)};
}

void Layout::Share(const Tensor* tensor, const Place& place) {
  root_[tensor] = place;
  life_[place.root] = Joined(place.root, tensor);
}

void Layout::ShareAliases() {
  // Backwards, so that a chain that ends in an app output is written there from its start.
  for (size_t s = graph_.nodes.size(); s-- > 0;) {
    const Node& node = graph_.nodes[s];
    if (!IsAlias(node) || node.outputs[0]->updates != nullptr) continue;
    const Tensor *in = Root(node.inputs[0]), *out = Root(node.outputs[0]);
    if (in != out && InArena(in) && (out->is_output() || InArena(out))) Share(in, {out});
  }
  // What another state gets is copied out of this one before it is overwritten.
  std::unordered_map<const Tensor*, const Tensor*> becomes;
  for (const Node& node : graph_.nodes) {
    if (const Tensor* state = node.outputs.empty() || node.outputs[0] == nullptr
                                  ? nullptr
                                  : node.outputs[0]->updates) {
      becomes[Root(node.inputs[0])] = state;
    }
  }
  for (const Node& node : graph_.nodes) {
    if (!IsAlias(node) || node.outputs[0]->updates != nullptr) continue;
    const Tensor *in = Root(node.inputs[0]), *out = Root(node.outputs[0]);
    if (const auto found = becomes.find(out);
        in->is_state() && found != becomes.end() && found->second != in) {
      continue;
    }
    if (in != out && InArena(out) && (in->is_static() || in->is_input())) Share(out, {in});
  }
}

void Layout::ShareInPlace() {
  for (size_t s = 0; s < graph_.nodes.size(); ++s) {
    const Node& node = graph_.nodes[s];
    const OpDef* def = FindOp(node.type);
    if (def == nullptr || (def->flags & (OpDef::kInPlace | OpDef::kUpdates)) == 0 ||
        node.outputs.size() != 1) {
      continue;
    }
    const Tensor* out = Root(node.outputs[0]);
    if (!InArena(out) || out->bytes() != node.outputs[0]->bytes()) continue;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Tensor* in = Overwritten(s, i);
      if (in == nullptr || in == out || !InArena(in)) continue;
      if (life_[out].first < static_cast<int>(s)) continue;  // its memory is in use already
      Share(out, {in});
      break;
    }
  }
}

bool Layout::ReadByPostOp(const Node& node, const Tensor* root) const {
  for (const PostOp& op : node.post_ops) {
    if (op.kind == PostOp::Kind::kAdd && Root(node.inputs[op.input]) == root) return true;
  }
  return false;
}

}  // namespace qnnrt
