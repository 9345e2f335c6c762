// Contexts out of binaries: the entries of the function table.
#include "abi/qnn_htp.h"
#include "api/binary_calls.h"
#include "support/clock.h"

namespace qnnrt::api {

Status Publish(std::shared_ptr<Context> context, std::vector<std::unique_ptr<GraphObject>> graphs,
               Qnn_ContextHandle_t* handle) {
  struct Added {
    std::vector<Qnn_GraphHandle_t> handles;
    ~Added() {
      std::unique_ptr<GraphObject> graph;
      for (Qnn_GraphHandle_t h : handles) Runtime::Get().graphs.Take(h, &graph);
    }
  } added;
  added.handles.reserve(graphs.size());
  for (auto& graph : graphs) {
    Qnn_GraphHandle_t& entry = context->graphs[graph->graph.name()];
    entry = Runtime::Get().graphs.Add(std::move(graph));
    if (entry == nullptr) return Status(QNN_CONTEXT_ERROR_MEM_ALLOC, "too many live graphs");
    added.handles.push_back(entry);
  }
  auto object = std::make_unique<ContextObject>();
  object->context = std::move(context);
  *handle = Runtime::Get().contexts.Add(std::move(object));
  if (*handle == nullptr) return Status(QNN_CONTEXT_ERROR_MEM_ALLOC, "too many live contexts");
  added.handles.clear();
  return Status::Ok();
}

void AddLoadEvents(ProfileScope* profile, uint64_t start, uint64_t opened, uint64_t end,
                   uint64_t weights) {
  if (profile == nullptr) return;
  const auto add = [&](uint32_t type, uint32_t unit, uint64_t value, uint64_t at, const char* what,
                       int parent) {
    return profile->Add(type, unit, value, at / 1000, what, parent);
  };
  constexpr uint32_t kUs = QNN_PROFILE_EVENTUNIT_MICROSEC;
  const int top =
      add(QNN_PROFILE_EVENTTYPE_INIT, kUs, (end - start) / 1000, start, "init: context binary", -1);
  if (top < 0) return;
  constexpr uint32_t kLoadBinary = 1002;  // to 1004
  add(kLoadBinary, kUs, (opened - start) / 1000, start, "load binary: header and metadata", top);
  add(kLoadBinary + 1, kUs, (end - opened) / 1000, opened, "load binary: graphs", top);
  add(kLoadBinary + 2, QNN_PROFILE_EVENTUNIT_BYTES, weights, opened, "load binary: weights", top);
}

namespace {

struct CreateArgs {
  Qnn_DeviceHandle_t device;
  const QnnContext_Config_t** config;
  const void* data;
  uint64_t size;
};

Status MakeContext(const CreateArgs& args, std::shared_ptr<Backend> backend, ProfileScope* profile,
                   Interrupt* interrupt, Qnn_ContextHandle_t* handle) {
  const uint64_t start = MonotonicNanoseconds();
  Runtime& runtime = Runtime::Get();
  auto context = std::make_shared<Context>();
  context->backend = std::move(backend);
  context->id = runtime.next_context.fetch_add(1);
  const BackendTraits& traits = *context->backend->traits;
  QNNRT_ASSIGN_OR_RETURN(context->device, UseDevice(traits, args.device));
  const ContextOptions& options = context->options;
  QNNRT_RETURN_IF_ERROR(
      ReadContextConfig(*context->backend, args.config, kAtCreateFromBinary, &context->options));
  auto binary = std::make_shared<LoadedBinary>();
  binary->deferred = options.defer_graph_init;
  const bool read_later = binary->deferred || traits.client_memory;
  const void* data = args.data;
  const bool stays =
      options.persistent_binary && reinterpret_cast<uintptr_t>(data) % kBinaryBlobAlignment == 0;
  if (read_later && !stays && data != nullptr) {
    // The client's memory may be freed before the graphs are made. The copy is made after the size
    // has been checked against the binary.
    QNNRT_RETURN_IF_ERROR(BinaryView::Open(data, args.size).status());
    binary->copy = AlignedBytes::Copy(data, args.size);
    if (binary->copy == nullptr)
      return Error(QNN_CONTEXT_ERROR_MEM_ALLOC, "out of memory for a copy of the context binary");
    data = binary->copy->data();
  }
  Loader loader(*context->backend, options);
  QNNRT_RETURN_IF_ERROR(loader.Open(data, args.size));
  const uint64_t opened = MonotonicNanoseconds();
  std::shared_ptr<const LoadSource> source;
  if (traits.client_memory) {
    QNNRT_ASSIGN_OR_RETURN(source, loader.Source(binary->copy));
  }
  std::vector<std::unique_ptr<GraphObject>> graphs;
  for (const BinaryGraph* described : loader.graphs()) {
    if (interrupt != nullptr) QNNRT_RETURN_IF_ERROR(interrupt->Check());
    graphs.push_back(std::make_unique<GraphObject>(context, described->name,
                                                   OptionsFor(*context->backend, *described)));
    Graph& graph = graphs.back()->graph;
    QNNRT_RETURN_IF_ERROR(graph.Declare(*described));
    if (source != nullptr) {
      QNNRT_RETURN_IF_ERROR(graph.Defer(source));
    } else if (!binary->deferred) {
      QNNRT_RETURN_IF_ERROR(loader.Load(*described, options.strict_compatibility, &graph));
    }
  }
  if (interrupt != nullptr) QNNRT_RETURN_IF_ERROR(interrupt->Conclude());
  binary->weights_size = loader.weights_size();
  binary->spill_fill_size = loader.spill_fill_size();
  const uint64_t end = MonotonicNanoseconds();
  loader.LogLoad(end - start);
  AddLoadEvents(profile, start, opened, end, binary->weights_size);
  if (binary->deferred) binary->view = loader.view();
  context->binary = std::move(binary);
  return Publish(std::move(context), std::move(graphs), handle);
}

Qnn_ErrorHandle_t CreateFromBinaryWithSignal(Qnn_BackendHandle_t backend_handle,
                                             Qnn_DeviceHandle_t device,
                                             const QnnContext_Config_t** config, const void* data,
                                             Qnn_ContextBinarySize_t size,
                                             Qnn_ContextHandle_t* handle,
                                             Qnn_ProfileHandle_t profile_handle,
                                             Qnn_SignalHandle_t signal_handle) {
  return CreateFromContent(
      backend_handle, nullptr, profile_handle, signal_handle, handle,
      [&](const std::shared_ptr<Backend>& backend, ProfileScope* profile, Interrupt* interrupt) {
        return MakeContext({device, config, data, size}, backend, profile, interrupt, handle);
      });
}

Qnn_ErrorHandle_t CreateFromBinary(Qnn_BackendHandle_t backend, Qnn_DeviceHandle_t device,
                                   const QnnContext_Config_t** config, const void* data,
                                   Qnn_ContextBinarySize_t size, Qnn_ContextHandle_t* handle,
                                   Qnn_ProfileHandle_t profile) {
  return CreateFromBinaryWithSignal(backend, device, config, data, size, handle, profile, nullptr);
}

// All checks of loading, the deferred ones too, on graphs that are discarded.
Qnn_ErrorHandle_t ValidateBinary(Qnn_BackendHandle_t backend_handle, Qnn_DeviceHandle_t device,
                                 const QnnContext_Config_t** config, const void* data,
                                 Qnn_ContextBinarySize_t size) {
  return ValidateContent(backend_handle, nullptr, device, config, data, size,
                         [](Loader& loader, const BinaryGraph& described, Graph* graph) {
                           return loader.Load(described, true, graph);
                         });
}

// ---- deferred graphs ---------------------------------------------------------------------------

Qnn_ErrorHandle_t Finalize(Qnn_ContextHandle_t handle, Qnn_ProfileHandle_t profile_handle) {
  return Guarded([&] {
    auto object = Runtime::Get().contexts.Find(handle);
    if (!object) return Report(StaleContext());
    Context& context = *object->context;
    auto finalize = [&]() -> Status {
      QNNRT_RETURN_IF_ERROR(CheckNotServed(context));
      QNNRT_ASSIGN_OR_RETURN(ProfileCall profile,
                             ProfileCall::Begin(profile_handle, QNN_CONTEXT_ERROR_SET_PROFILE));
      std::lock_guard<std::mutex> lock(context.mutex);
      if (context.binary == nullptr || !context.binary->deferred) {
        return Status(QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
                      "no graph of this context waits for contextFinalize: that is for a context "
                      "from a binary with DEFER_GRAPH_INIT, once");
      }
      const uint64_t start = MonotonicNanoseconds();
      const uint64_t weights = context.binary->weights_size;
      QNNRT_RETURN_IF_ERROR(FinalizeDeferred(&context));
      AddLoadEvents(profile.scope(), start, start, MonotonicNanoseconds(), weights);
      return Status::Ok();
    };
    return Report(finalize(), context.backend->log.get());
  });
}

Status Answer(const Context& context, QnnContext_Property_t* property) {
  constexpr ErrorCode kNo = QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE;
  if (property->option != QNN_CONTEXT_PROPERTY_OPTION_CUSTOM ||
      (context.backend->traits->memory_kinds & KindBit(MemKind::kWeights)) == 0) {
    return Error(kNo, "context property %d is not known to this backend",
                 static_cast<int>(property->option));
  }
  auto* custom = static_cast<QnnHtpContext_CustomProperty_t*>(property->customProperty);
  if (custom == nullptr)
    return Status(QNN_CONTEXT_ERROR_INVALID_ARGUMENT, "the custom property must not be null");
  switch (custom->option) {
    case QNN_HTP_CONTEXT_GET_PROP_BUFFER_START_ALIGNMENT:
      custom->bufferStartAlignment = kBinaryBlobAlignment;
      return Status::Ok();
    case QNN_HTP_CONTEXT_GET_PROP_MAX_SPILLFILL_BUFFER_SIZE: {
      QNNRT_ASSIGN_OR_RETURN(custom->spillfillBufferSize, SpillFillSize(context));
      return Status::Ok();
    }
    case QNN_HTP_CONTEXT_GET_PROP_WEIGHTS_BUFFER_SIZE:
      custom->weightsBufferSize = context.binary ? context.binary->weights_size : 0;
      return Status::Ok();
    default:
      return Error(kNo, "HTP context property %d is not known; 1 to 3 are",
                   static_cast<int>(custom->option));
  }
}

Qnn_ErrorHandle_t GetProperty(Qnn_ContextHandle_t handle, QnnContext_Property_t** properties) {
  return Guarded([&] {
    auto object = Runtime::Get().contexts.Find(handle);
    if (!object) return Report(StaleContext());
    Context& context = *object->context;
    auto answer = [&]() -> Status {
      QNNRT_RETURN_IF_ERROR(CheckNotServed(context));
      if (properties == nullptr)
        return Status(QNN_CONTEXT_ERROR_INVALID_ARGUMENT, "the properties must not be null");
      std::lock_guard<std::mutex> lock(context.mutex);
      for (; *properties != nullptr; ++properties)
        QNNRT_RETURN_IF_ERROR(Answer(context, *properties));
      return Status::Ok();
    };
    return Report(answer(), context.backend->log.get());
  });
}

// ---- what is refused ---------------------------------------------------------------------------

Qnn_ErrorHandle_t CreateFromBinaryListAsync(Qnn_BackendHandle_t, Qnn_DeviceHandle_t,
                                            const QnnContext_Params_t**,
                                            const QnnContext_Config_t**, Qnn_SignalHandle_t) {
  return Guarded([] {
    return Report(Status(QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
                         "lists of context binaries are not loaded: call "
                         "contextCreateFromBinary for each, from a thread of your own"));
  });
}

Qnn_ErrorHandle_t CreateFromBinaryWithCallback(Qnn_BackendHandle_t, Qnn_DeviceHandle_t,
                                               const QnnContext_Config_t**,
                                               const Qnn_ContextBinaryCallback_t*, const void*,
                                               Qnn_ContextBinarySize_t, Qnn_ContextHandle_t* handle,
                                               Qnn_ProfileHandle_t, Qnn_SignalHandle_t) {
  return Guarded([&] {
    if (handle != nullptr) *handle = nullptr;
    return Report(Status(QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
                         "weights are not fetched through callbacks: map the file and give "
                         "contextCreateFromBinary a PERSISTENT_BINARY"));
  });
}

}  // namespace

void FillBinary(const BackendTraits& traits, QnnInterface_ImplementationV2_32_t* table) {
  constexpr ErrorCode kNo = QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE;
  table->contextGetBinarySize = GetBinarySize;
  table->contextGetBinary = GetBinary;
  table->contextCreateFromBinary = CreateFromBinary;
  table->contextCreateFromBinaryWithSignal = CreateFromBinaryWithSignal;
  table->contextValidateBinary = ValidateBinary;
  table->contextFinalize = Finalize;
  table->contextGetProperty = GetProperty;
  table->contextCreateFromBinaryListAsync = CreateFromBinaryListAsync;
  table->contextCreateFromBinaryWithCallback = CreateFromBinaryWithCallback;
  // Parts of a binary: updates of weights in place, and binaries that grow.
  Refuse<kNo>(&table->contextGetBinarySectionSize);
  Refuse<kNo>(&table->contextGetBinarySection);
  Refuse<kNo>(&table->contextApplyBinarySection);
  Refuse<kNo>(&table->contextGetBinarySectionUpdate);
  Refuse<kNo>(&table->contextFreeBinarySectionUpdate);
  Refuse<kNo>(&table->contextGetIncrementalBinary);
  Refuse<kNo>(&table->contextReleaseIncrementalBinary);
  if (!traits.external) return;
  Refuse<kNo>(&table->contextGetBinarySize);
  Refuse<kNo>(&table->contextGetBinary);
  Refuse<kNo>(&table->contextCreateFromBinary);
  Refuse<kNo>(&table->contextCreateFromBinaryWithSignal);
  Refuse<kNo>(&table->contextValidateBinary);
  Refuse<kNo>(&table->contextCreateFromBinaryListAsync);
}

}  // namespace qnnrt::api
