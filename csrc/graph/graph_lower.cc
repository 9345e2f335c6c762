// Lowering for a backend that compiles the graph elsewhere: the passes run here, the kernels are
// that backend's.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <unordered_set>

#include "abi/qnn_errors.h"
#include "graph/graph.h"
#include "graph/lowering.h"
#include "support/json.h"

namespace qnnrt {
namespace {

// Nodes refer to tensors by their index, in the order of first use.
class Lowering {
 public:
  void Tensors(const char* key, const std::vector<const Tensor*>& tensors) {
    json_.Key(key).Array();
    for (const Tensor* t : tensors) json_.Number(Index(t));
    json_.End();
  }

  void OneNode(const Node& node) {
    json_.Object().Key("name").String(node.name).Key("type").String(node.type);
    Tensors("inputs", node.inputs);
    Tensors("outputs", node.outputs);
    json_.Key("params").Object();
    for (const Param& param : node.params) {
      json_.Key(param.name);
      std::visit([&](const auto& value) { Value(value); }, param.value);
    }
    json_.End().End();
  }

  JsonWriter& json() { return json_; }

  void AllTensors() {
    json_.Key("tensors").Array();
    for (size_t i = 0; i < met_.size(); ++i) OneTensor(*met_[i]);
    json_.End();
  }

 private:
  int64_t Index(const Tensor* tensor) {  // -1: omitted
    if (tensor == nullptr) return -1;
    auto [found, is_new] = index_.emplace(tensor, met_.size());
    if (is_new) met_.push_back(tensor);
    return static_cast<int64_t>(found->second);
  }

  void Value(int64_t value) { json_.Number(value); }
  // Apart from integers, which whole numbers look like; not finite: a string.
  void Value(double value) { json_.Object().Key("real").Number(value).End(); }
  void Value(bool value) { json_.Bool(value); }
  void Value(const std::string& value) { json_.Object().Key("text").String(value).End(); }
  void Value(const Tensor& value) { OneTensor(value); }

  void OneTensor(const Tensor& t) {
    json_.Object().Key("name").String(t.name).Key("id").Number(t.id);
    json_.Key("kind").String(t.is_static()   ? "static"
                             : t.is_input()  ? "input"
                             : t.is_output() ? "output"
                                             : "native");
    json_.Key("type").Number(static_cast<uint32_t>(t.dtype));
    json_.Key("shape").Array();
    for (auto n : t.shape) json_.Number(n);
    json_.End();
    if (t.is_static()) {  // ConstantsOf reads these two
      json_.Key("address").Number(reinterpret_cast<uintptr_t>(t.data->data()));
      json_.Key("bytes").Number(t.data->size());
    }
    if (t.quantization.defined && !t.quantization.scales.empty()) Encoding(t.quantization);
    json_.End();
  }

  void Encoding(const Quantization& q) {
    json_.Key("encoding").Object().Key("axis").Number(q.axis).Key("bits").Number(q.bitwidth);
    json_.Key("scales").Array();
    for (float scale : q.scales) json_.Number(scale);
    json_.End().Key("offsets").Array();
    for (int32_t offset : q.offsets) json_.Number(offset);
    json_.End().Key("block").Array();
    for (uint32_t n : q.block) json_.Number(n);
    json_.End().End();
  }

  JsonWriter json_;
  std::unordered_map<const Tensor*, size_t> index_;
  std::vector<const Tensor*> met_;
};

std::string Describe(const NodeGraph& graph, const std::vector<const Tensor*>& inputs,
                     const std::vector<const Tensor*>& outputs,
                     const std::vector<PassReport>& passes) {
  Lowering lowering;
  JsonWriter& json = lowering.json();
  json.Object();
  lowering.Tensors("inputs", inputs);
  lowering.Tensors("outputs", outputs);
  json.Key("nodes").Array();
  for (const Node& node : graph.nodes) lowering.OneNode(node);
  json.End();
  lowering.AllTensors();
  json.Key("passes").Array();
  for (const PassReport& pass : passes)
    json.Object().Key("name").String(pass.name).Key("changes").Number(pass.changes).End();
  json.End().End();
  return json.Take();
}

}  // namespace

std::string DescribeNode(const Node& node) {
  Lowering lowering;
  JsonWriter& json = lowering.json();
  json.Object();
  lowering.Tensors("inputs", {});
  lowering.Tensors("outputs", {});
  json.Key("nodes").Array();
  lowering.OneNode(node);
  json.End();
  lowering.AllTensors();
  json.Key("passes").Array().End().End();
  return json.Take();
}

Result<const char*> Graph::Lower(PassLevel level) {
  auto lock = Lock();
  QNNRT_RETURN_IF_ERROR(CheckOpen("changes"));
  for (const Tensor* t : outputs_) {
    if (t->updates != nullptr) {
      return Error(
          QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
          "tensor '%s': this backend has no APP_READWRITE tensors; use an APP_WRITE and an "
          "APP_READ tensor",
          t->name.c_str());
    }
  }
  std::vector<Node> ordered;
  QNNRT_RETURN_IF_ERROR(CheckConnected(&ordered));
  auto made = std::make_unique<Lowered>(Lowered{NodeGraph(std::move(ordered)), {}});
  std::vector<PassReport> report;
  const Threads threads(ThreadsToMake());
  QNNRT_RETURN_IF_ERROR(RunPasses(&made->graph, threads, &report, nullptr, level));
  made->json = qnnrt::Describe(made->graph, inputs_, outputs_, report);
  lowered_ = std::move(made);
  return lowered_->json.c_str();
}

std::vector<LoweredConstant> ConstantsOf(const char* lowered) {
  // As keys: inside of a string their quotes have backslashes.
  static constexpr char kAddress[] = "\"address\":", kBytes[] = ",\"bytes\":";
  std::vector<LoweredConstant> found;
  for (const char* at = lowered; (at = std::strstr(at, kAddress)) != nullptr;) {
    char* end = nullptr;
    const uintptr_t address = std::strtoull(at + sizeof kAddress - 1, &end, 10);
    at = end;
    if (std::strncmp(end, kBytes, sizeof kBytes - 1) != 0) continue;
    const uint64_t nbytes = std::strtoull(end + sizeof kBytes - 1, nullptr, 10);
    found.push_back({reinterpret_cast<const void*>(address), nbytes});
  }
  return found;
}

Status Graph::ReleaseConstants(const void* const* kept, uint64_t count) {
  auto lock = Lock();
  QNNRT_RETURN_IF_ERROR(CheckOpen("changes"));
  const std::unordered_set<const void*> wanted(kept, kept + count);
  std::vector<std::shared_ptr<AlignedBytes>> keep;
  auto take = [&](const Tensor& t) {
    if (t.is_static() && t.data->loaded() && wanted.count(t.data->data()) != 0)
      keep.push_back(t.data);
  };
  for (const Tensor& t : tensors_) take(t);
  if (lowered_ != nullptr) {
    for (const auto& t : lowered_->graph.owned) take(*t);
  }
  kept_ = std::move(keep);
  compiled_elsewhere_ = true;
  lowered_ = nullptr;
  for (Tensor& t : tensors_) t.data = nullptr;
  return Status::Ok();
}

}  // namespace qnnrt
