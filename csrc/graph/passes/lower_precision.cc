// Floats between nodes in 16 bits: half the memory to move, and the matrix units of processors that
// multiply 16-bit floats. Kernels compute in 32 bits and round what they store.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "abi/qnn_errors.h"
#include "abi/qnn_op_names.h"
#include "graph/layout.h"
#include "graph/passes/node_graph.h"
#include "ops/fixed/codec.h"
#include "ops/matmul/attention.h"
#include "ops/op.h"

namespace qnnrt {
namespace {

bool IsFloat32(const Tensor* t) { return t != nullptr && t->dtype == QNN_DATATYPE_FLOAT_32; }
bool IsNative(const Tensor* t) { return t->type == QNN_TENSOR_TYPE_NATIVE; }

// Passes on what it is given, element by element or summed up: what is sensitive behind it is so
// before it. An angle is as wrong as the length that it was divided by.
bool PassesOn(const OpDef& def) {
  constexpr uint32_t kByElement =
      OpDef::kInPlace | OpDef::kMoves | OpDef::kAlias | OpDef::kConverts;
  return (def.flags & kByElement) != 0 || std::strncmp(def.type, "Reduce", 6) == 0 ||
         std::strcmp(def.type, QNN_OP_CUMULATIVE_SUM) == 0 ||
         std::strcmp(def.type, QNN_OP_L2_NORM) == 0;
}

// Turns the client's FLOAT_32 into integers or fixed-point numbers, or back: a device does that on
// the numbers as they are. (Truths it takes of halves.)
bool ConvertsAtBorder(const Node& node, const OpDef& def) {
  if ((def.flags & OpDef::kConverts) == 0 || node.inputs.size() != 1 || !node.HasOutput(0))
    return false;
  const Tensor *in = node.inputs[0], *out = node.outputs[0];
  return IsFloat(in->dtype) != IsFloat(out->dtype) && out->dtype != QNN_DATATYPE_BOOL_8 &&
         ((IsFloat32(in) && in->is_input()) || (IsFloat32(out) && out->is_output()));
}

// Whether an op takes and gives floats of 16 bits at a port: those of clients do, some that passes
// make do not. What is added behind a result is as the result.
bool IsNarrowPort(const PortSpec& port) { return (port.types & types::kFloat) != types::kF32; }
bool GivesNarrow(const OpDef& def, size_t i) {
  return IsNarrowPort(def.outputs[std::min(i, def.outputs.size() - 1)]);
}
bool TakesNarrow(const OpDef& def, size_t i) {
  if (i < def.inputs.size()) return IsNarrowPort(def.inputs[i]);
  const bool more = def.inputs.back().count == PortSpec::kVariadic;
  return more ? IsNarrowPort(def.inputs.back()) : GivesNarrow(def, 0);
}

class Lowering {
 public:
  Lowering(NodeGraph* graph, Qnn_DataType_t type, const KeptFloats& kept, int* changes)
      : graph_(graph),
        type_(type),
        // A device's half precision is all that there is on it, at its borders too. Else the type
        // of 16 bits is a choice of this runtime's, and goes no further than it is harmless.
        device_(type == QNN_DATATYPE_FLOAT_16),
        kept_(kept),
        changes_(changes) {}

  Status Run() {
    graph_->Index();
    FindWide();
    if (device_) FindStoredWide();
    std::vector<Node> nodes = std::move(graph_->nodes);
    graph_->nodes.clear();
    for (Node& node : nodes) QNNRT_RETURN_IF_ERROR(Lower(std::move(node)));
    graph_->Index();
    return Status::Ok();
  }

 private:
  const OpDef& DefOf(const Node& node) const { return *FindOp(node.type); }
  bool Kept(const Node& node) const { return kept_.nodes.count(node.name) != 0; }
  // Whether a tensor stays FLOAT_32 as it is.
  bool StaysWide(const Tensor* t) const {
    return !IsNative(t) || wide_.count(t) != 0 || stored_wide_.count(t) != 0;
  }

  // ---- which tensors stay FLOAT_32 ----

  void FindWide() {
    for (const Tensor* t : kept_.tensors) wide_.insert(t);
    for (const Node& node : graph_->nodes) {
      const OpDef& def = DefOf(node);
      if (Kept(node)) KeepAsItIs(node);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (!TakesNarrow(def, i)) Widen(node.inputs[i]);
      }
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        const Tensor* t = node.outputs[i];
        if (IsFloat32(t) && IsNative(t) && !GivesNarrow(def, i)) wide_.insert(t);
      }
      if (device_) continue;
      uint32_t inputs = def.sensitive == nullptr || def.sensitive(node) ? def.sensitive_inputs : 0;
      // Integers, fixed-point numbers and truths are rounded or decided.
      const Tensor* out = node.HasOutput(0) ? node.outputs[0] : nullptr;
      if (out != nullptr && !IsFloat(out->dtype)) inputs = ~0u;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (((inputs >> std::min<size_t>(i, 31)) & 1) != 0) Widen(node.inputs[i]);
      }
    }
    if (!device_) WidenEnds();
    // The elements that a node moves have one type.
    for (size_t before = ~size_t{0}; before != wide_.size();) {
      before = wide_.size();
      for (const Node& node : graph_->nodes) {
        if ((DefOf(node).flags & OpDef::kMoves) == 0 || !node.HasOutput(0)) continue;
        if (!IsFloat32(node.outputs[0]) || !StaysWideOutput(node)) continue;
        for (const Tensor* t : node.inputs) {
          if (IsFloat32(t) && IsNative(t)) wide_.insert(t);
        }
      }
    }
  }

  // What passes gave a kept node since: an activation that it applies, a copy of its constant.
  void KeepAsItIs(const Node& node) {
    for (const auto* ports : {&node.inputs, &node.outputs}) {
      for (const Tensor* t : *ports) {
        if (IsFloat32(t)) wide_.insert(t);
      }
    }
  }

  bool StaysWideOutput(const Node& node) const {
    const bool lowered = device_ && !Kept(node) && GivesNarrow(DefOf(node), 0);
    return StaysWide(node.outputs[0]) && (IsNative(node.outputs[0]) || !lowered);
  }

  // A tensor, and what led to it from the last sum of products on.
  void Widen(const Tensor* tensor) {
    std::vector<const Tensor*> left = {tensor};
    while (!left.empty()) {
      const Tensor* t = left.back();
      left.pop_back();
      if (!IsFloat32(t) || !IsNative(t) || !wide_.insert(t).second) continue;
      const int producer = graph_->Producer(t);
      if (producer < 0) continue;
      const Node& node = graph_->nodes[static_cast<size_t>(producer)];
      if (PassesOn(DefOf(node))) left.insert(left.end(), node.inputs.begin(), node.inputs.end());
    }
  }

  // From the last sums of products to an output nothing averages roundings out.
  void WidenEnds() {
    std::unordered_set<const Tensor*> behind;  // what sums of products led to
    for (const Node& node : graph_->nodes) {
      const auto& in = node.inputs;
      if (SumsProducts(node) ||
          std::any_of(in.begin(), in.end(), [&](auto t) { return behind.count(t) != 0; }))
        behind.insert(node.outputs.begin(), node.outputs.end());
    }
    std::vector<const Tensor*> left;
    std::unordered_set<const Tensor*> seen;
    const auto read = [&](const Node& node) {
      const OpDef& def = DefOf(node);
      if ((def.flags & OpDef::kSumsInside) != 0) return;
      for (size_t i = def.sums_products() ? 2 : 0; i < node.inputs.size(); ++i) {
        const Tensor* t = node.inputs[i];
        if (IsFloat32(t) && IsNative(t) && behind.count(t) != 0 && seen.insert(t).second)
          left.push_back(t);
      }
    };
    for (const Node& node : graph_->nodes) {
      const auto& out = node.outputs;
      if (std::any_of(out.begin(), out.end(),
                      [](auto t) { return t != nullptr && t->is_output(); }))
        read(node);
    }
    while (!left.empty()) {
      const Node& node = graph_->nodes[static_cast<size_t>(graph_->Producer(left.back()))];
      wide_.insert(left.back());
      left.pop_back();
      read(node);
    }
  }

  bool SumsProducts(const Node& node) const {
    const OpDef& def = DefOf(node);
    return def.sums_products() || (def.flags & OpDef::kSumsInside) != 0;
  }

  // On a device: states in FLOAT_32 that only attention reads, which rounds the elements that it
  // reads. They stay as they are stored, and what is written to them is rounded: to convert a cache
  // would take longer than all that a token does with it.
  void FindStoredWide() {
    for (const Node& node : graph_->nodes) {
      if ((DefOf(node).flags & OpDef::kUpdates) == 0 || Kept(node) || !node.HasOutput(0)) continue;
      const Tensor *state = node.inputs[0], *value = node.outputs[0];
      if (!state->is_state() || !IsFloat32(state) || !IsFloat32(value)) continue;
      const Tensor* stored = value->updates == state ? value : StoredAs(value, state);
      if (stored == nullptr) continue;
      const auto read = [&](const Tensor* t) { return OnlyAttentionReads(t, node, stored); };
      if (read(state) && read(value) && read(stored)) stored_wide_.insert({state, value, stored});
    }
  }

  // The state's new value, which a node stores that computes nothing.
  const Tensor* StoredAs(const Tensor* value, const Tensor* state) const {
    for (const Node& node : graph_->nodes) {
      if (IsAlias(node) && node.inputs[0] == value && node.outputs[0]->updates == state)
        return node.outputs[0];
    }
    return nullptr;
  }

  // Whether nothing else reads a value of a state, but the nodes that update and store it.
  bool OnlyAttentionReads(const Tensor* tensor, const Node& update, const Tensor* stored) const {
    for (const Node& node : graph_->nodes) {
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] != tensor) continue;
        const bool stores = node.HasOutput(0) && node.outputs[0] == stored;
        if (i == 0 && (stores || &node == &update)) continue;
        if (node.type != kAttention || Kept(node) || (i != 1 && i != 2)) return false;
        if (node.Int("rounds") != static_cast<int64_t>(type_)) return false;
      }
    }
    return true;
  }

  void RoundWhatIsRead(Node* node) const {
    int64_t read = 0;
    for (size_t i = 1; i < 3; ++i) {
      if (stored_wide_.count(node->inputs[i]) != 0) read |= int64_t{1} << (i - 1);
    }
    for (Param& param : node->params) {
      if (param.name == "rounds_read") param.value = read;
    }
  }

  // A node that updates such a state with floats: as they are when they have been rounded.
  Status LowerUpdate(Node node) {
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      const Tensor*& in = node.inputs[i];
      if (!IsFloat32(in) || wide_.count(in) != 0) continue;
      const Tensor* narrow = in;
      if (StaysWide(in) && !in->is_static()) {
        QNNRT_ASSIGN_OR_RETURN(narrow, Converted(in));
      } else {
        QNNRT_ASSIGN_OR_RETURN(narrow, Narrow(in));
      }
      Tensor* widened = graph_->NewTensor(*narrow);
      widened->type = QNN_TENSOR_TYPE_NATIVE;
      widened->data = nullptr;
      widened->dtype = QNN_DATATYPE_FLOAT_32;
      graph_->nodes.push_back(Cast(narrow, widened));
      in = widened;
    }
    graph_->nodes.push_back(std::move(node));
    return Status::Ok();
  }

  // ---- nodes ----

  Status Lower(Node node) {
    const OpDef& def = DefOf(node);
    if (Kept(node) || (device_ && ConvertsAtBorder(node, def))) {
      graph_->nodes.push_back(std::move(node));
      return Status::Ok();
    }
    if (node.HasOutput(0) && stored_wide_.count(node.outputs[0]) != 0)
      return LowerUpdate(std::move(node));
    if (node.type == kAttention) RoundWhatIsRead(&node);
    const bool narrow_out =
        node.HasOutput(0) && IsFloat32(node.outputs[0]) && !StaysWideOutput(node);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Tensor*& in = node.inputs[i];
      if (!IsFloat32(in)) continue;
      if (!StaysWide(in)) {
        QNNRT_ASSIGN_OR_RETURN(in, Narrow(in));
      } else if (MustBeNarrow(node, def, i, narrow_out)) {
        const Tensor* wide = in;
        QNNRT_ASSIGN_OR_RETURN(in, wide->is_static() ? Narrow(wide) : Converted(wide));
        if (wide->is_static()) graph_->Replaced(wide);
      }
    }
    std::vector<Node> after;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Tensor*& out = node.outputs[i];
      if (!IsFloat32(out) || !GivesNarrow(def, i)) continue;
      if (IsNative(out)) {
        if (wide_.count(out) != 0) continue;
        QNNRT_ASSIGN_OR_RETURN(out, Narrow(out));
      } else if (device_) {
        // What is rounded already only moves.
        if ((def.flags & OpDef::kMixes) != 0 && node.inputs[0]->dtype == type_) continue;
        const Tensor* wide = out;
        QNNRT_ASSIGN_OR_RETURN(out, Narrow(wide));
        after.push_back(Cast(out, wide));
      }
    }
    graph_->nodes.push_back(std::move(node));
    for (Node& cast : after) graph_->nodes.push_back(std::move(cast));
    return Status::Ok();
  }

  // Whether input i, which is FLOAT_32, has to be converted for this node.
  bool MustBeNarrow(const Node& node, const OpDef& def, size_t i, bool narrow_out) const {
    if (!TakesNarrow(def, i) || (narrow_out && (def.flags & OpDef::kMixes) != 0)) return false;
    if (stored_wide_.count(node.inputs[i]) != 0) return false;
    if (device_) return wide_.count(node.inputs[i]) == 0;
    if (def.sums_products()) return i < 2;
    if (i < 32 && ((def.further_weights >> i) & 1) != 0) return node.inputs[i]->is_static();
    return (def.flags & OpDef::kMoves) != 0 && narrow_out && !Sensitive(node, def, i);
  }

  static bool Sensitive(const Node& node, const OpDef& def, size_t i) {
    return i < 32 && ((def.sensitive_inputs >> i) & 1) != 0 &&
           (def.sensitive == nullptr || def.sensitive(node));
  }

  // ---- tensors ----

  // The tensor in 16 bits; a constant's values are rounded.
  Result<const Tensor*> Narrow(const Tensor* wide) {
    const Tensor*& found = narrow_[wide];
    if (found != nullptr) return found;
    Tensor* made = graph_->NewTensor(*wide);
    made->dtype = type_;
    ++*changes_;
    if (wide->is_static()) {
      made->type = QNN_TENSOR_TYPE_STATIC;
      made->data = AlignedBytes::Make(made->bytes());
      if (made->data == nullptr)
        return Error(QNN_COMMON_ERROR_MEM_ALLOC, "out of memory: '%s' in 16 bits has %zu bytes",
                     wide->name.c_str(), made->bytes());
      Round(*wide, made);
    }
    return found = made;
  }

  // From where the client has the constant: a copy of it would be the peak of a large one.
  static void Round(const Tensor& wide, Tensor* made) {
    const Codec codec(*made);
    const std::optional<LyingElements> unread = wide.data->Unread();
    if (!unread || !unread->strides.empty()) {
      codec.Write(wide.data_as<float>(), made->data->data(), 0, wide.elements());
      return;
    }
    std::array<float, 4096> some;  // they lie on any boundary
    for (size_t i = 0; i < wide.elements(); i += some.size()) {
      const size_t count = std::min(some.size(), wide.elements() - i);
      std::memcpy(some.data(), unread->data + i * sizeof(float), count * sizeof(float));
      codec.Write(some.data(), made->data->data(), i, count);
    }
  }

  // A tensor that stays FLOAT_32, converted once for all that need it in 16 bits.
  Result<const Tensor*> Converted(const Tensor* wide) {
    if (const auto found = narrow_.find(wide); found != narrow_.end()) return found->second;
    QNNRT_ASSIGN_OR_RETURN(const Tensor* narrow, Narrow(wide));
    graph_->nodes.push_back(Cast(wide, narrow));
    return narrow;
  }

  static Node Cast(const Tensor* from, const Tensor* to) {
    Node cast;
    cast.name = from->name + " as " + DataTypeName(to->dtype);
    cast.package = "qti.aisw";
    cast.type = QNN_OP_CAST;
    cast.inputs = {from};
    cast.outputs = {to};
    return cast;
  }

  NodeGraph* const graph_;
  const Qnn_DataType_t type_;
  const bool device_;
  const KeptFloats& kept_;
  int* const changes_;
  std::unordered_set<const Tensor*> wide_;
  std::unordered_set<const Tensor*> stored_wide_;  // states that stay FLOAT_32, and new values
  std::unordered_map<const Tensor*, const Tensor*> narrow_;
};

}  // namespace

Result<KeptFloats> FindKeptFloats(const NodeGraph& graph, const std::vector<std::string>& names) {
  KeptFloats kept;
  for (const std::string& name : names) kept.nodes.insert(name);
  std::unordered_set<std::string> left = kept.nodes;
  for (const Node& node : graph.nodes) {
    if (kept.nodes.count(node.name) == 0) continue;
    left.erase(node.name);
    for (const auto* ports : {&node.inputs, &node.outputs}) {
      for (const Tensor* t : *ports) {
        if (IsFloat32(t)) kept.tensors.push_back(t);
      }
    }
  }
  if (left.empty()) return kept;
  return Error(QNN_GRAPH_ERROR_INVALID_ARGUMENT,
               "no node '%s' to keep in FLOAT_32: it is the name of a node of the graph",
               left.begin()->c_str());
}

Status LowerPrecision(NodeGraph* graph, Qnn_DataType_t type, const KeptFloats& kept, int* changes) {
  return Lowering(graph, type, kept, changes).Run();
}

}  // namespace qnnrt
