// The configs and memory of an lpai backend, as JSON.
#include "abi/qnnrt_ext.h"
#include "api/runtime.h"

namespace qnnrt {
namespace {

void DescribeLpaiBackend(const Backend& backend, JsonWriter* json) {
  const LpaiSettings& lpai = backend.lpai;
  json->Key("hw_version").String(LpaiVersionName(lpai.version));
  json->Key("target").String(LpaiTargetName(lpai.Target()));
  json->Key("direct_mode").Bool(lpai.direct_mode);
  json->Key("start_alignment").Number(lpai.start_alignment);
  json->Key("size_alignment").Number(lpai.size_alignment);
  json->Key("cores").Array();
  for (uint32_t i = 0; i < lpai.CoreCount(); ++i) {
    json->Object().Key("macs").Number(lpai.MacCount());
    json->Key("version").String(LpaiVersionName(lpai.version)).End();
  }
  json->End().Key("configs").Object();
  WriteRecord(backend.record, json);
  json->End();
}

// The sizes are known once the graph is prepared.
void DescribePool(const LpaiPool& pool, const uint64_t* needed, JsonWriter* json) {
  json->Object().Key("needed");
  if (needed == nullptr) {
    json->Raw("null");
  } else {
    json->Number(*needed);
  }
  json->Key("given").Number(pool.size);
  json->Key("address").Number(reinterpret_cast<uintptr_t>(pool.address)).End();
}

void DescribeLpaiGraph(GraphObject* object, JsonWriter* json) {
  LpaiGraphSettings lpai;
  json->Object().Key("name").String(object->graph.name()).Key("configs").Object();
  {
    std::lock_guard<std::mutex> lock(object->settings_mutex);
    lpai = object->settings.lpai;
    WriteRecord(object->settings.record, json);
  }
  json->End().Key("perf").Raw(LpaiJson(lpai.perf));
  json->Key("affinity").Raw(LpaiJson(lpai.affinity));
  bool finalized;
  std::optional<PoolSizes> sizes;
  {
    auto lock = object->graph.Lock();
    finalized = object->graph.finalized();
    sizes = object->graph.pool_sizes();
  }
  json->Key("finalized").Bool(finalized).Key("scratch");
  DescribePool(lpai.scratch, sizes ? &sizes->scratch : nullptr, json);
  json->Key("persistent");
  DescribePool(lpai.persistent, sizes ? &sizes->persistent : nullptr, json);
  json->End();
}

void DescribeLpaiContext(Context* context, JsonWriter* json) {
  using GraphPin = decltype(Runtime::graphs)::Pin;
  std::vector<GraphPin> graphs;
  {
    std::lock_guard<std::mutex> lock(context->mutex);
    json->Object().Key("model_memory").String(LpaiMemTypeName(context->options.lpai_model_memory));
    json->Key("configs").Object();
    WriteRecord(context->options.record, json);
    json->End();
    for (const auto& entry : context->graphs) {
      GraphPin graph = Runtime::Get().graphs.Find(entry.second);
      if (graph) graphs.push_back(std::move(graph));
    }
  }
  json->Key("graphs").Array();
  // With no lock held: a graph waits for its execution.
  for (const GraphPin& graph : graphs) DescribeLpaiGraph(&*graph, json);
  json->End().End();
}

std::string DescribeLpai(void* handle) {
  JsonWriter json;
  if (auto graph = Runtime::Get().graphs.Find(handle)) {
    if (!graph->context->backend->traits->client_memory) return "";
    DescribeLpaiGraph(&*graph, &json);
    return json.Take();
  }
  auto object = Runtime::Get().backends.Find(handle);
  if (!object || !object->backend->traits->client_memory) return "";
  json.Object();
  DescribeLpaiBackend(*object->backend, &json);
  std::vector<std::shared_ptr<Context>> contexts;
  Runtime::Get().contexts.ForEach([&](const ContextObject& context) {
    if (context.context->backend == object->backend) contexts.push_back(context.context);
  });
  json.Key("contexts").Array();
  for (const auto& context : contexts) DescribeLpaiContext(context.get(), &json);
  return json.End().End().Take();
}

}  // namespace
}  // namespace qnnrt

extern "C" const char* qnnrt_lpai_describe(void* handle) {
  return qnnrt::TextOrNull([&] { return qnnrt::DescribeLpai(handle); });
}
