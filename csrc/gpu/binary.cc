#include "gpu/binary.h"

#include <cinttypes>
#include <map>
#include <tuple>

#include "api/binary_calls.h"
#include "gpu/graph.h"
#include "graph/binary/container.h"
#include "graph/binary/io.h"
#include "ir/match.h"
#include "support/checked.h"
#include "support/clock.h"
#include "support/version.h"

namespace qnnrt::gpu {
namespace {

// ---- writing

// An executable whose constants lie in one region, as a binary has them.
class Packed {
 public:
  Packed(Graph* graph, BinaryPart* part) {
    const Compiled& compiled = graph->compiled();
    Executable executable = compiled.executable;
    const std::shared_ptr<Instance> instance = graph->instance();
    executable.device = instance->context().device().Identity();
    for (size_t i = 0; i < executable.programs.size(); ++i)
      executable.programs[i].binary = instance->BinaryOf(i);
    for (Executable::Memory& m : executable.memories) {
      if (m.kind != Executable::Kind::kConstant) continue;
      auto [place, is_new] = places_.emplace(std::tuple(m.where, m.offset, m.size), 0);
      if (is_new) {
        place->second = AlignUp(end_, m.size >= kPage ? kPage : kLine);
        part->weights.push_back({place->second, compiled.regions[m.where].data + m.offset, m.size});
        end_ = place->second + m.size;
      }
      m.where = 0;
      m.offset = place->second;
    }
    for (uint64_t bytes : executable.arenas) part->arena_bytes += bytes;
    const std::string text = executable.Write();
    part->nodes.assign(text.begin(), text.end());
    part->weights_size = AlignUp(end_, kBinaryPageAlignment);
  }

 private:
  std::map<std::tuple<uint32_t, uint64_t, uint64_t>, uint64_t> places_;
  uint64_t end_ = 0;
};

// A context's graphs, pinned, and the binary that they make.
class Writer {
 public:
  Status Hold(qnnrt::Context* context) {
    std::lock_guard<std::mutex> lock(context->mutex);
    if (context->graphs.empty())
      return Status(QNN_CONTEXT_ERROR_NOT_FINALIZED, "the context has no graph to write");
    const std::shared_ptr<Context> ours = Contexts::Get().Of(context->id);
    parts_.reserve(context->graphs.size());
    for (const auto& [name, handle] : context->graphs) {
      pins_.push_back(Runtime::Get().graphs.Find(handle));
      if (!pins_.back()) continue;  // being freed
      Graph* graph = ours->Find(name);
      if (graph == nullptr || !pins_.back()->executable.finalized()) {
        return Error(QNN_CONTEXT_ERROR_NOT_FINALIZED,
                     "graph '%s' is not finalized: finalize every graph of the context first",
                     name.c_str());
      }
      AddPart(name, pins_.back()->graph, graph);
    }
    std::vector<BinaryPart*> parts;
    for (BinaryPart& part : parts_) parts.push_back(&part);
    header_.backend_id = context->backend->traits->id;
    header_.core_api = kCoreApiVersion;
    header_.backend_api = context->backend->traits->api_version;
    metadata_ = LayOut(parts, nullptr, &header_);
    return Status::Ok();
  }
  uint64_t size() const { return header_.size; }
  Status CheckWeights() const { return Status::Ok(); }  // they were compared when they were loaded
  void Write(uint8_t* to) const {
    std::vector<const BinaryPart*> parts;
    for (const BinaryPart& part : parts_) parts.push_back(&part);
    WriteBinary(header_, static_cast<uint32_t>(parts.size()), metadata_, parts, to);
  }

 private:
  void AddPart(const std::string& name, const qnnrt::Graph& declared, Graph* graph) {
    parts_.emplace_back();
    BinaryPart& part = parts_.back();
    part.name = name;
    part.inputs.assign(declared.inputs().begin(), declared.inputs().end());
    part.outputs.assign(declared.outputs().begin(), declared.outputs().end());
    Packed(graph, &part);
    header_.kernels = graph->instance()->context().device().Text();
  }

  std::vector<decltype(Runtime::graphs)::Pin> pins_;
  std::vector<BinaryPart> parts_;
  BinaryHeader header_;
  std::vector<uint8_t> metadata_;
};

// ---- reading

Status DamagedIn(const BinaryGraph& described, const std::string& what) {
  return DamagedBinary("graph '" + described.name + "': " + what);
}

// Whether the executable is of a graph with these inputs and outputs.
Status CheckIo(const BinaryGraph& described, const Executable& executable) {
  std::vector<const Tensor*> declared;
  for (const Tensor& t : described.inputs) declared.push_back(&t);
  for (const Tensor& t : described.outputs) declared.push_back(&t);
  if (declared.size() != executable.io.size())
    return DamagedIn(described, "its program has other inputs and outputs");
  for (size_t i = 0; i < declared.size(); ++i) {
    const Tensor& t = *declared[i];
    const Executable::Io& io = executable.io[i];
    const bool output = (io.flags & QNNRT_OPENCL_OUTPUT) != 0;
    if (io.id != t.id || io.data_type != static_cast<uint32_t>(t.dtype) || io.dims != t.shape ||
        output != (i >= described.inputs.size()) ||
        io.nbytes != ElementCount(t.shape) * ElementSize(t.dtype))
      return DamagedIn(described, "its program has another tensor '" + t.name + "'");
  }
  return Status::Ok();
}

Result<std::shared_ptr<Compiled>> ReadCompiled(const BinaryGraph& described, const uint8_t* binary,
                                               const LoadOptions& weights) {
  Result<Executable> read = Executable::Read(binary + described.nodes_offset, described.nodes_size,
                                             {described.weights_size});
  if (!read.ok()) return DamagedIn(described, read.status().message());
  QNNRT_RETURN_IF_ERROR(CheckIo(described, *read));
  auto compiled = std::make_shared<Compiled>();
  compiled->executable = std::move(*read);
  compiled->owner = weights.owner;
  compiled->regions = {{weights.weights, described.weights_size}};
  return compiled;
}

std::string DeviceName(const std::string& identity) {
  const size_t platform = identity.find('\n'), name = identity.find('\n', platform + 1);
  if (platform == std::string::npos || name == std::string::npos) return "another device";
  return identity.substr(0, platform) + ": " + identity.substr(platform + 1, name - platform - 1);
}

// Graphs and what is kept for them; what is not published is dropped.
struct Loading {
  std::shared_ptr<qnnrt::Context> context = std::make_shared<qnnrt::Context>();
  bool published = false;
  ~Loading() {
    if (!published) Contexts::Get().Drop(context->id);
  }
};

Status LoadGraph(api::Loader& loader, const BinaryGraph& described, const uint8_t* binary,
                 const std::shared_ptr<Context>& ours, GraphObject* graph) {
  const uint64_t started = MonotonicNanoseconds();
  QNNRT_RETURN_IF_ERROR(graph->graph.Declare(described));
  QNNRT_ASSIGN_OR_RETURN(const LoadOptions weights, loader.Weights(described, true));
  QNNRT_ASSIGN_OR_RETURN(std::shared_ptr<Compiled> compiled,
                         ReadCompiled(described, binary, weights));
  QNNRT_ASSIGN_OR_RETURN(const Device device, ours->DeviceNow());
  if (compiled->executable.device != device.Identity()) {
    QNNRT_RETURN_IF_ERROR(loader.Suitable("graph '" + described.name + "' was compiled for " +
                                          DeviceName(compiled->executable.device) +
                                          ", and is built anew for " + device.Text()));
  }
  Result<Graph*> made = ours->Add(described.name, std::move(compiled), QNNRT_OPENCL_PROFILE_NODES);
  if (!made.ok()) {
    return std::move(made).status().Within("graph '" + described.name + "' of the context binary");
  }
  QNNRT_RETURN_IF_ERROR(graph->executable.Give((*made)->ExecutorFrom(started)));
  return graph->executable.Finalize(graph->graph, nullptr);
}

Status Load(std::shared_ptr<Backend> backend, Qnn_DeviceHandle_t device,
            const QnnContext_Config_t** config, const void* data, uint64_t size,
            ProfileScope* profile, Interrupt* interrupt, Qnn_ContextHandle_t* handle) {
  const uint64_t start = MonotonicNanoseconds();
  Loading loading;
  qnnrt::Context& context = *loading.context;
  context.backend = std::move(backend);
  context.id = Runtime::Get().next_context.fetch_add(1);
  QNNRT_ASSIGN_OR_RETURN(context.device, UseDevice(*context.backend->traits, device));
  QNNRT_RETURN_IF_ERROR(
      ReadContextConfig(*context.backend, config, kAtCreateFromBinary, &context.options));
  api::Loader loader(*context.backend, context.options);
  QNNRT_RETURN_IF_ERROR(loader.Open(data, size));
  const uint64_t opened = MonotonicNanoseconds();
  const std::shared_ptr<Context> ours = Contexts::Get().Of(context.id);
  std::vector<std::unique_ptr<GraphObject>> graphs;
  for (const BinaryGraph* described : loader.graphs()) {
    if (interrupt != nullptr) QNNRT_RETURN_IF_ERROR(interrupt->Check());
    graphs.push_back(std::make_unique<GraphObject>(loading.context, described->name,
                                                   api::OptionsFor(*context.backend, *described)));
    QNNRT_RETURN_IF_ERROR(LoadGraph(loader, *described, static_cast<const uint8_t*>(data), ours,
                                    graphs.back().get()));
  }
  if (interrupt != nullptr) QNNRT_RETURN_IF_ERROR(interrupt->Conclude());
  const uint64_t end = MonotonicNanoseconds();
  loader.LogLoad(end - start);
  api::AddLoadEvents(profile, start, opened, end, loader.weights_size());
  QNNRT_RETURN_IF_ERROR(api::Publish(loading.context, std::move(graphs), handle));
  loading.published = true;
  return Status::Ok();
}

}  // namespace

Qnn_ErrorHandle_t SizeOfBinary(Qnn_ContextHandle_t handle, Qnn_ContextBinarySize_t* size) {
  return api::SizeOfContent<Writer>(handle, size);
}

Qnn_ErrorHandle_t SaveBinary(Qnn_ContextHandle_t handle, void* buffer, Qnn_ContextBinarySize_t size,
                             Qnn_ContextBinarySize_t* written) {
  return api::WriteContent<Writer>(handle, buffer, size, written);
}

Qnn_ErrorHandle_t LoadBinaryWithSignal(Qnn_BackendHandle_t backend_handle,
                                       Qnn_DeviceHandle_t device,
                                       const QnnContext_Config_t** config, const void* data,
                                       Qnn_ContextBinarySize_t size, Qnn_ContextHandle_t* handle,
                                       Qnn_ProfileHandle_t profile_handle,
                                       Qnn_SignalHandle_t signal_handle) {
  return api::CreateFromContent(
      backend_handle, &GpuBackend(), profile_handle, signal_handle, handle,
      [&](const std::shared_ptr<Backend>& backend, ProfileScope* profile, Interrupt* interrupt) {
        return Load(backend, device, config, data, size, profile, interrupt, handle);
      });
}

Qnn_ErrorHandle_t LoadBinary(Qnn_BackendHandle_t backend, Qnn_DeviceHandle_t device,
                             const QnnContext_Config_t** config, const void* data,
                             Qnn_ContextBinarySize_t size, Qnn_ContextHandle_t* handle,
                             Qnn_ProfileHandle_t profile) {
  return LoadBinaryWithSignal(backend, device, config, data, size, handle, profile, nullptr);
}

// All checks of loading but those of the driver.
Qnn_ErrorHandle_t CheckBinary(Qnn_BackendHandle_t backend_handle, Qnn_DeviceHandle_t device,
                              const QnnContext_Config_t** config, const void* data,
                              Qnn_ContextBinarySize_t size) {
  return api::ValidateContent(
      backend_handle, &GpuBackend(), device, config, data, size,
      [&](api::Loader& loader, const BinaryGraph& described, qnnrt::Graph*) -> Status {
        QNNRT_ASSIGN_OR_RETURN(const LoadOptions weights, loader.Weights(described, true));
        return ReadCompiled(described, static_cast<const uint8_t*>(data), weights).status();
      });
}

}  // namespace qnnrt::gpu
