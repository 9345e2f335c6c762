#include "graph/passes/node_graph.h"

#include <algorithm>
#include <cstring>

#include "abi/qnn_errors.h"
#include "graph/passes/fold_factors.h"
#include "ops/op.h"

namespace qnnrt {

void NodeGraph::Index() {
  ends_.Clear();
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const Tensor* t : nodes[i].outputs) {
      if (t == nullptr) continue;
      Ends& ends = ends_[t];
      ends.producer = static_cast<int>(i);
      if (t->is_output()) ++ends.uses;
    }
    for (const Tensor* t : nodes[i].inputs) {
      if (t != nullptr) ++ends_[t].uses;
    }
  }
}

int NodeGraph::Producer(const Tensor* tensor) const {
  const Ends* ends = ends_.Find(tensor);
  return ends == nullptr ? -1 : ends->producer;
}

int NodeGraph::Uses(const Tensor* tensor) const {
  const Ends* ends = ends_.Find(tensor);
  return ends == nullptr ? 0 : ends->uses;
}

bool NodeGraph::IsPrivate(const Tensor* tensor) const {
  return tensor->type == QNN_TENSOR_TYPE_NATIVE && Uses(tensor) == 1 && Producer(tensor) >= 0;
}

void NodeGraph::Absorbed(const Tensor* gone, size_t at) {
  ends_[gone] = Ends();
  for (const Tensor* t : nodes[at].outputs) {
    if (t != nullptr) ends_[t].producer = static_cast<int>(at);
  }
}

Tensor* NodeGraph::NewTensor(const Tensor& like) {
  owned.push_back(std::make_unique<Tensor>(like));
  Tensor* tensor = owned.back().get();
  tensor->id = 0;
  tensor->type = QNN_TENSOR_TYPE_NATIVE;
  tensor->data = nullptr;
  tensor->updates = nullptr;
  return tensor;
}

Tensor* NodeGraph::NewStatic(const std::string& name, Qnn_DataType_t type, const Shape& shape,
                             const std::vector<float>& values) {
  auto data = AlignedBytes::Make(values.size() * ElementSize(type));
  if (data == nullptr) return nullptr;
  if (const NarrowFloat* narrow = NarrowFloatOf(type)) {
    narrow->narrow(values.data(), static_cast<uint16_t*>(data->data()), values.size());
  } else {
    std::memcpy(data->data(), values.data(), values.size() * sizeof(float));
  }
  return NewStatic(name, type, shape, std::move(data));
}

Tensor* NodeGraph::NewStatic(const std::string& name, Qnn_DataType_t type, const Shape& shape,
                             std::shared_ptr<AlignedBytes> data) {
  owned.push_back(std::make_unique<Tensor>());
  Tensor* tensor = owned.back().get();
  tensor->name = name;
  tensor->type = QNN_TENSOR_TYPE_STATIC;
  tensor->dtype = type;
  tensor->shape = shape;
  tensor->data = std::move(data);
  releasable_[tensor] = tensor;
  return tensor;
}

void NodeGraph::MayRelease(const std::vector<Tensor*>& tensors) {
  for (Tensor* t : tensors) releasable_[t] = t;
}

void NodeGraph::Replaced(const Tensor* tensor) {
  Ends* ends = ends_.Find(tensor);
  if (ends == nullptr || ends->uses == 0 || --ends->uses > 0) return;
  const auto found = releasable_.find(tensor);
  if (found == releasable_.end() || tensor->data == nullptr) return;
  // Without memory for a note that is a few bytes long it stays.
  if (auto size = AlignedBytes::Absent(tensor->data->size())) found->second->data = std::move(size);
}

void NodeGraph::ReplaceUses(const Tensor* from, const Tensor* to) {
  for (Node& node : nodes) {
    std::replace(node.inputs.begin(), node.inputs.end(), from, to);
  }
}

void NodeGraph::Erase(const std::vector<bool>& dead) {
  size_t kept = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (dead[i]) continue;
    if (kept != i) nodes[kept] = std::move(nodes[i]);
    ++kept;
  }
  nodes.resize(kept);
  Index();
}

bool IsStaticFloat(const Tensor* tensor) {
  return tensor != nullptr && tensor->is_static() && IsFloat(tensor->dtype);
}

std::vector<float> StaticFloats(const Tensor& tensor) {
  std::vector<float> values(tensor.elements());
  if (const NarrowFloat* narrow = NarrowFloatOf(tensor.dtype)) {
    narrow->widen(tensor.data_as<uint16_t>(), values.data(), values.size());
  } else {
    std::memcpy(values.data(), tensor.data->data(), values.size() * sizeof(float));
  }
  return values;
}

bool KeepsValues(const Node& node) {
  return node.post_ops.empty() && SameEncoding(*node.inputs[0], *node.outputs[0]) &&
         node.inputs[0]->quantization.per_tensor();
}

bool IsReshape(const Node& node) {
  const OpDef* def = FindOp(node.type);
  return def != nullptr && (def->flags & OpDef::kAlias) != 0 && KeepsValues(node);
}

void SetInts(Node* node, const char* name, Qnn_DataType_t type, const Shape& shape,
             const std::vector<int64_t>& values) {
  Tensor t;
  t.name = name;
  t.type = QNN_TENSOR_TYPE_STATIC;
  t.dtype = type;
  t.shape = shape;
  std::vector<uint32_t> words;  // of either sign: the same bits
  for (int64_t value : values) words.push_back(static_cast<uint32_t>(value));
  t.data = AlignedBytes::Copy(words.data(), words.size() * sizeof(uint32_t));
  for (Param& param : node->params) {
    if (param.name != name) continue;
    param.value = std::move(t);
    return;
  }
  node->params.push_back({name, std::move(t)});
}

Status RunPasses(NodeGraph* graph, const Threads& threads, std::vector<PassReport>* report,
                 const Interrupt* interrupt, PassLevel level, const FloatStorage& floats) {
  graph->Index();
  auto run = [&](PassLevel least, const char* name, auto pass) -> Status {
    int changes = 0;
    if (level < least) return Status::Ok();
    if (interrupt != nullptr) QNNRT_RETURN_IF_ERROR(interrupt->Check());
    QNNRT_RETURN_IF_ERROR(pass(&changes).Within(name));
    if (changes > 0) report->push_back({name, changes});
    return Status::Ok();
  };
  constexpr PassLevel kConstants = PassLevel::kConstants, kPortable = PassLevel::kPortable;
  QNNRT_RETURN_IF_ERROR(
      run(kConstants, "fold what is empty", [&](int* n) { return FoldEmpty(graph, n); }));
  QNNRT_RETURN_IF_ERROR(
      run(kConstants, "remove dead nodes", [&](int* n) { return RemoveDeadNodes(graph, n); }));
  QNNRT_RETURN_IF_ERROR(
      run(kConstants, "shape slopes", [&](int* n) { return ShapeSlopes(graph, n); }));
  QNNRT_RETURN_IF_ERROR(
      run(kConstants, "merge casts", [&](int* n) { return MergeCasts(graph, n); }));
  // Before weights become floats: these read them as they are.
  QNNRT_RETURN_IF_ERROR(run(PassLevel::kAll, "fuse dynamic quantization",
                            [&](int* n) { return FuseDynamic(graph, n); }));
  // A device that computes in halves has its weights in them.
  if (floats.type != QNN_DATATYPE_FLOAT_16) {
    QNNRT_RETURN_IF_ERROR(run(PassLevel::kAll, "keep narrow weights", [&](int* n) {
      return KeepNarrowWeights(graph, threads, floats.byte_activations, n);
    }));
  }
  QNNRT_RETURN_IF_ERROR(
      run(kConstants, "unpack constants", [&](int* n) { return UnpackConstants(graph, n); }));
  QNNRT_RETURN_IF_ERROR(
      run(kConstants, "widen weights", [&](int* n) { return WidenWeights(graph, threads, n); }));
  QNNRT_RETURN_IF_ERROR(
      run(kConstants, "fold constants", [&](int* n) { return FoldConstants(graph, threads, n); }));
  QNNRT_RETURN_IF_ERROR(
      run(kPortable, "merge conversions", [&](int* n) { return MergeConversions(graph, n); }));
  QNNRT_RETURN_IF_ERROR(
      run(kPortable, "cancel transposes", [&](int* n) { return CancelTransposes(graph, n); }));
  QNNRT_RETURN_IF_ERROR(
      run(kPortable, "sink reshapes", [&](int* n) { return SinkReshapes(graph, n); }));
  QNNRT_RETURN_IF_ERROR(
      run(kPortable, "fit windows", [&](int* n) { return FitWindows(graph, n); }));
  QNNRT_RETURN_IF_ERROR(
      run(kPortable, "fold scales", [&](int* n) { return FoldScales(graph, threads, n); }));
  // Weights that are rounded further have no digits for a tensor's own one beside them.
  const bool skips = level == PassLevel::kAll && floats.type == QNN_DATATYPE_FLOAT_32;
  QNNRT_RETURN_IF_ERROR(run(kPortable, "merge branches",
                            [&](int* n) { return MergeBranches(graph, threads, skips, n); }));
  // Parts have other names than what is kept.
  const auto split = [&](int* n) {
    const bool keeps = floats.kept != nullptr && !floats.kept->nodes.empty();
    return keeps ? Status::Ok() : SplitProducts(graph, n);
  };
  QNNRT_RETURN_IF_ERROR(run(PassLevel::kAll, "split products", split));
  // Behind the products that were split, too.
  QNNRT_RETURN_IF_ERROR(
      run(PassLevel::kAll, "fold factors", [&](int* n) { return FoldFactors(graph, threads, n); }));
  // Before sums go into their producers.
  QNNRT_RETURN_IF_ERROR(run(PassLevel::kAll, "fuse sliding windows",
                            [&](int* n) { return FuseSliding(graph, floats, n); }));
  QNNRT_RETURN_IF_ERROR(run(PassLevel::kAll, "fuse attention",
                            [&](int* n) { return FuseAttention(graph, floats, n); }));
  QNNRT_RETURN_IF_ERROR(
      run(kPortable, "find activations", [&](int* n) { return FindActivations(graph, level, n); }));
  QNNRT_RETURN_IF_ERROR(run(PassLevel::kAll, "fuse tables",
                            [&](int* n) { return FuseTables(graph, threads, floats, n); }));
  QNNRT_RETURN_IF_ERROR(
      run(PassLevel::kAll, "fuse activations", [&](int* n) { return FuseActivations(graph, n); }));
  // Behind the activations between them.
  QNNRT_RETURN_IF_ERROR(
      run(kPortable, "hand on parts", [&](int* n) { return HandOnParts(graph, n); }));
  QNNRT_RETURN_IF_ERROR(run(PassLevel::kAll, "join convolutions", [&](int* n) {
    QNNRT_RETURN_IF_ERROR(JoinConvolutions(graph, floats.kept, n));
    int fused = 0;  // what is added to them
    return *n == 0 ? Status::Ok() : FuseActivations(graph, &fused);
  }));
  QNNRT_RETURN_IF_ERROR(run(PassLevel::kAll, "split products", split));
  QNNRT_RETURN_IF_ERROR(run(PassLevel::kAll, "keep channels first",
                            [&](int* n) { return KeepChannelsFirst(graph, floats, n); }));
  // Last: what has one reader can be fused into it.
  QNNRT_RETURN_IF_ERROR(run(kPortable, "merge equal nodes", [&](int* n) {
    return MergeEqualNodes(graph, threads, floats.kept, n);
  }));
  QNNRT_RETURN_IF_ERROR(run(PassLevel::kAll, "join products",
                            [&](int* n) { return JoinProducts(graph, floats.kept, n); }));
  QNNRT_RETURN_IF_ERROR(
      run(PassLevel::kAll, "read indices", [&](int* n) { return ReadIndices(graph, n); }));
  QNNRT_RETURN_IF_ERROR(
      run(kConstants, "remove dead nodes", [&](int* n) { return RemoveDeadNodes(graph, n); }));
  return Status::Ok();
}

}  // namespace qnnrt
