// Tensors that lie inside of others: what Concat puts together and Split takes apart.
#include <algorithm>

#include "graph/layout.h"
#include "ops/encoding.h"

namespace qnnrt {
namespace {

std::optional<Parts> PartsOf(const Node& node) {
  const OpDef* def = FindOp(node.type);
  if (def == nullptr || def->parts == nullptr || !node.post_ops.empty()) return std::nullopt;
  return def->parts(node);
}

const Tensor* WholeOf(const Node& node, const Parts& parts) {
  return parts.joins ? node.outputs[0] : node.inputs[0];
}

const Tensor* PartOf(const Node& node, const Parts& parts, size_t i) {
  return parts.joins ? node.inputs[i] : node.outputs[i];
}

// A kernel that goes by parts moves bytes; with other encodings it computes.
bool MovesBytes(const Node& node, const Parts& parts) {
  for (size_t i = 0; i < parts.parts.size(); ++i) {
    const Tensor* part = PartOf(node, parts, i);
    if (part != nullptr && !SameStored(*part, *WholeOf(node, parts))) return false;
  }
  return true;
}

// Whether the dims of `shape` can be parted into rows of so many elements.
bool HasRows(const Shape& shape, uint64_t row) {
  uint64_t inner = 1;
  for (size_t i = shape.size(); i-- > 0 && inner < row;) inner *= shape[i];
  return inner == row;
}

}  // namespace

bool Layout::NothingToDo(size_t index) const {
  const Node& node = graph_.nodes[index];
  if (IsAlias(node)) {
    const Place in = PlaceOf(node.inputs[0]), out = PlaceOf(node.outputs[0]);
    return in.root == out.root && in.offset == out.offset;
  }
  const auto found = in_place_.find(index);
  return found != in_place_.end() &&
         std::all_of(found->second.begin(), found->second.end(), [](bool b) { return b; });
}

void Layout::Tell(size_t index, Node* node) const {
  node->pitches.clear();
  node->in_place.clear();
  if (const auto sum = sums_.find(index); sum != sums_.end()) {
    node->in_place.resize(sum->second + 1);
    node->in_place.back() = true;
  }
  if (in_place_.empty()) return;
  if (const auto found = in_place_.find(index); found != in_place_.end())
    node->in_place = found->second;
  for (const bool output : {false, true}) {
    const std::vector<const Tensor*>& tensors = output ? node->outputs : node->inputs;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i] == nullptr) continue;
      const Place place = PlaceOf(tensors[i]);
      if (place.row == 0) continue;
      const uint64_t size = ElementSize(tensors[i]->dtype);
      node->pitches.push_back(
          {output, static_cast<uint32_t>(i), place.row / size, place.pitch / size});
    }
  }
}

void Layout::FindTouched() {
  for (size_t s = 0; s < graph_.nodes.size(); ++s) {
    const Node& node = graph_.nodes[s];
    for (const bool output : {false, true}) {
      const std::vector<const Tensor*>& tensors = output ? node.outputs : node.inputs;
      for (size_t i = 0; i < tensors.size(); ++i) {
        if (tensors[i] != nullptr) touched_[Root(tensors[i])].push_back({s, output, i});
      }
    }
  }
  alive_.assign(graph_.nodes.size(), 0);
  for (const auto& entry : touched_) {
    if (!InArena(entry.first)) continue;
    const Life& life = life_[entry.first];
    for (int s = std::max(life.first, 0); s <= life.last; ++s)
      alive_[static_cast<size_t>(s)] += entry.first->bytes();
  }
  for (uint64_t bytes : alive_) most_alive_ = std::max(most_alive_, bytes);
}

bool Layout::AllTakePitch(const Tensor* part, uint64_t row) const {
  for (const Use& use : touched_.at(part)) {
    const Node& node = graph_.nodes[use.node];
    const Tensor& tensor = *(use.output ? node.outputs : node.inputs)[use.port];
    if (!HasRows(tensor.shape, row)) return false;
    if (IsAlias(node) && Root(node.inputs[0]) == Root(node.outputs[0])) continue;
    const OpDef* def = FindOp(node.type);
    if (def == nullptr) return false;
    if (const std::optional<Parts> parts = PartsOf(node)) {
      const bool whole = use.output == parts->joins;
      const uint64_t its = whole ? parts->row : parts->parts[use.port].size;
      if (its == row && MovesBytes(node, *parts)) continue;
    }
    if (def->takes_pitch == nullptr || !def->takes_pitch(node, use.output, use.port, row))
      return false;
  }
  return true;
}

// The whole takes its bytes for as long as any of its parts lives. Not at a step where that would
// be more than the arena has to hold anyway.
bool Layout::Affordable(const Tensor* part, const Tensor* whole) {
  const Life a = life_[part], b = life_[whole], both = Joined(part, whole);
  const uint64_t whole_bytes = InArena(whole) ? whole->bytes() : 0;
  const auto within = [](const Life& life, int s) {
    return s >= std::max(life.first, 0) && s <= life.last;
  };
  const auto without = [&](int s) {
    return alive_[static_cast<size_t>(s)] - (within(a, s) ? part->bytes() : 0) -
           (within(b, s) ? whole_bytes : 0);
  };
  for (int s = std::max(both.first, 0); s <= both.last; ++s) {
    if (without(s) + whole_bytes > most_alive_) return false;
  }
  for (int s = std::max(both.first, 0); s <= both.last; ++s)
    alive_[static_cast<size_t>(s)] = without(s) + whole_bytes;
  return true;
}

bool Layout::SharePart(size_t index, const Parts& parts, size_t i) {
  const Node& node = graph_.nodes[index];
  const Tensor *whole = WholeOf(node, parts), *tensor = PartOf(node, parts, i);
  if (tensor == nullptr || tensor->elements() == 0) return true;
  const Tensor* part = Root(tensor);
  Place place = PlaceOf(whole);
  if (!InArena(part) || part == place.root || root_.count(part) != 0) return false;
  if (PlaceOf(tensor).offset != 0 || part->bytes() != tensor->bytes()) return false;
  const bool reached = parts.joins ? InArena(place.root) || place.root->is_output()
                                   : InArena(place.root) || place.root->is_input();
  // A part of a state would be overwritten with it.
  if (!reached || place.root->is_static() || place.root->is_state()) return false;
  const uint64_t size = ElementSize(tensor->dtype), row = parts.row * size;
  if (place.row != 0 && place.row != row) return false;
  const uint64_t own = parts.parts[i].size * size;
  place.offset += parts.parts[i].begin * size;
  if (parts.outer > 1 && own != row) {
    place.pitch = place.row != 0 ? place.pitch : row;
    place.row = own;
    if (!AllTakePitch(part, parts.parts[i].size)) return false;
  } else if (place.row != 0) {
    if (own != row || !AllTakePitch(part, parts.parts[i].size)) return false;
  }
  if (!Affordable(part, place.root)) return false;
  Share(part, place);
  return true;
}

void Layout::ShareParts() {
  // Backwards, so that what is put together step by step lies in the last, largest one.
  for (size_t s = graph_.nodes.size(); s-- > 0;) {
    const std::optional<Parts> parts = PartsOf(graph_.nodes[s]);
    if (!parts || !parts->joins || !MovesBytes(graph_.nodes[s], *parts)) continue;
    if (touched_.empty()) FindTouched();
    std::vector<bool>& in_place = in_place_[s];
    for (size_t i = 0; i < parts->parts.size(); ++i) in_place.push_back(SharePart(s, *parts, i));
  }
  for (size_t s = 0; s < graph_.nodes.size(); ++s) {
    const std::optional<Parts> parts = PartsOf(graph_.nodes[s]);
    if (!parts || parts->joins || !MovesBytes(graph_.nodes[s], *parts)) continue;
    if (touched_.empty()) FindTouched();
    std::vector<bool>& in_place = in_place_[s];
    for (size_t i = 0; i < parts->parts.size(); ++i) in_place.push_back(SharePart(s, *parts, i));
  }
}

}  // namespace qnnrt
