// Kernels: what the runtime calls in place of the nodes of a partition.
#include <cinttypes>
#include <cstdio>

#include "abi/qnn_errors.h"
#include "support/guard.h"
#include "tflite/delegate/delegate.h"

namespace qnnrt::tflite {
namespace {

constexpr int32_t kBuiltinDelegate = 51;
void* const kFailed = reinterpret_cast<void*>(~uintptr_t{0});  // what the runtime looks for

// Whether the call succeeds; an error is reported to the runtime.
template <typename F>
bool Reported(TfLiteContext* context, const F& call) {
  const Status status = Contained([&]() -> Status { return call(); }, [](Status s) { return s; });
  if (!status.ok())
    context->ReportError(context, "TfLiteQnnDelegate: %s", status.message().c_str());
  return status.ok();
}

Status CheckBytes(const Port& port, const TfLiteTensor& t) {
  if (t.bytes == port.bytes) return Status::Ok();
  return Error(QNN_GRAPH_ERROR_INVALID_TENSOR,
               "tensor %d has %zu bytes, and had %" PRIu64 " when the graph was made", port.index,
               t.bytes, port.bytes);
}

}  // namespace

TfLiteRegistration Kernel::Registration() {
  TfLiteRegistration r{};
  r.init = Init;
  r.free = Free;
  r.prepare = Prepare;
  r.invoke = Invoke;
  r.builtin_code = kBuiltinDelegate;
  r.custom_name = "TfLiteQnnDelegate";
  r.version = 1;
  return r;
}

void* Kernel::Init(TfLiteContext* context, const char* buffer, size_t) {
  const auto* params = reinterpret_cast<const TfLiteDelegateParams*>(buffer);
  Delegate* delegate = Delegate::Of(params->delegate);
  std::unique_ptr<Kernel> kernel;
  const bool built = Reported(context, [&] {
    kernel.reset(new Kernel(delegate->shared_from_this(), context));
    QNNRT_RETURN_IF_ERROR(kernel->Build(*params));
    std::lock_guard<std::mutex> lock(delegate->mutex_);
    delegate->kernels_.insert(kernel.get());
    return Status::Ok();
  });
  return built ? kernel.release() : kFailed;
}

Status Kernel::Build(const TfLiteDelegateParams& params) {
  Partition partition;
  const TfLiteIntArray& nodes = *params.nodes_to_replace;
  for (int i = 0; i < nodes.size; ++i) {
    const int index = nodes.data[i];
    TfLiteNode* node = nullptr;
    TfLiteRegistration* registration = nullptr;
    if (context_->GetNodeAndRegistration(context_, index, &node, &registration) != kTfLiteOk)
      return Error(QNN_COMMON_ERROR_GENERAL, "the runtime has no node %d", index);
    NodePlan made;
    {
      std::lock_guard<std::mutex> lock(delegate_->mutex_);
      auto found = delegate_->plans_.find({context_, index});
      if (found == delegate_->plans_.end())
        return Error(QNN_COMMON_ERROR_GENERAL, "node %d has not been chosen", index);
      made = std::move(found->second);
    }
    const Operator* op = OperatorOf(*registration);
    partition.Add(*context_, *node, op->name, std::move(made));
  }
  partition.Finish(*params.output_tensors);
  const Plan& plan = partition.plan();
  bool shared = delegate_->options().c.qnnrt_shared_memory;
  for (const PlannedTensor& t : plan.tensors)
    shared =
        shared || (t.index >= 0 && context_->tensors[t.index].allocation_type == kTfLiteCustom);
  QNNRT_ASSIGN_OR_RETURN(graph_,
                         Graph::Build(delegate_->backend(), delegate_->options(), plan, shared));
  return Status::Ok();
}

void Kernel::Free(TfLiteContext* context, void* raw) {
  if (raw == nullptr || raw == kFailed) return;
  const std::unique_ptr<Kernel> kernel(static_cast<Kernel*>(raw));
  Delegate& delegate = *kernel->delegate_;
  std::lock_guard<std::mutex> lock(delegate.mutex_);
  uint64_t in, out;
  kernel->graph_->Copied(&in, &out);
  delegate.copied_in_ += in;
  delegate.copied_out_ += out;
  delegate.invokes_ += kernel->invokes_;
  delegate.kernels_.erase(kernel.get());
  for (int index : kernel->allocated_) delegate.Release(context, index);
  // Without memory for the note it is kept: a later graph at this address finds no mark, and frees.
  Contained([&] { delegate.Suspend(context); });
}

TfLiteStatus Kernel::Prepare(TfLiteContext* context, TfLiteNode* node) {
  auto* kernel = static_cast<Kernel*>(node->user_data);
  return Reported(context, [&] { return kernel->Attach(context); }) ? kTfLiteOk : kTfLiteError;
}

Status Kernel::Attach(TfLiteContext* context) {
  std::lock_guard<std::mutex> lock(delegate_->mutex_);
  const bool may = !delegate_->ApplicationBrings(*context);
  const bool all = delegate_->options().c.qnnrt_shared_memory;
  for (Port& port : graph_->ports()) {
    const TfLiteTensor& t = context->tensors[port.index];
    // The runtime gives the inputs of a branch of IF their memory only when it runs.
    if (t.bytes == 0) continue;
    QNNRT_RETURN_IF_ERROR(CheckBytes(port, t));
    if (may && (all || delegate_->IsBound(*context, port.index)))
      delegate_->Allocate(context, this, &port);
    if (t.allocation_type == kTfLiteCustom && t.data != nullptr && t.data != port.address)
      QNNRT_RETURN_IF_ERROR(Use(&port, t));
  }
  Summarize(*context);
  return Status::Ok();
}

Status Kernel::Use(Port* port, const TfLiteTensor& tensor) {
  QNNRT_ASSIGN_OR_RETURN(bool shared, graph_->Use(port, tensor.data));
  if (shared)
    delegate_->log().Write(kLogLevelInfo, "Tensor %d is successfully registered to shared memory.",
                           port->index);
  return Status::Ok();
}

void Kernel::Summarize(const TfLiteContext& context) const {
  if (!delegate_->log().Wants(kLogLevelInfo)) return;
  std::string shared, copied;
  uint64_t bytes = 0;
  for (const Port& port : graph_->ports()) {
    const bool in_place = graph_->InPlace(port);
    std::string& list = in_place ? shared : copied;
    list += (list.empty() ? "" : ", ") + std::to_string(port.index);
    if (!in_place) bytes += context.tensors[port.index].bytes;
  }
  delegate_->log().Write(
      kLogLevelInfo,
      "TfLiteQnnDelegate delegate: shared tensors: %s; copied tensors: %s (%" PRIu64 " bytes).",
      shared.empty() ? "none" : shared.c_str(), copied.empty() ? "none" : copied.c_str(), bytes);
}

TfLiteStatus Kernel::Invoke(TfLiteContext* context, TfLiteNode* node) {
  auto* kernel = static_cast<Kernel*>(node->user_data);
  return Reported(context, [&] { return kernel->Run(context); }) ? kTfLiteOk : kTfLiteError;
}

Status Kernel::Run(TfLiteContext* context) {
  for (Port& port : graph_->ports()) {
    const TfLiteTensor& t = context->tensors[port.index];
    QNNRT_RETURN_IF_ERROR(CheckBytes(port, t));
    if (t.data != port.address) QNNRT_RETURN_IF_ERROR(Use(&port, t));
  }
  QNNRT_RETURN_IF_ERROR(graph_->Execute());
  ++invokes_;
  if (!delegate_->options().dump_path.empty()) Dump(*context);
  return Status::Ok();
}

// Every input and output as tensor_N.raw; each run overwrites them.
void Kernel::Dump(const TfLiteContext& context) const {
  for (const Port& port : graph_->ports()) {
    const TfLiteTensor& t = context.tensors[port.index];
    const std::string path =
        delegate_->options().dump_path + "/tensor_" + std::to_string(port.index) + ".raw";
    std::FILE* file = std::fopen(path.c_str(), "wb");
    const bool written = file != nullptr && std::fwrite(t.data, 1, t.bytes, file) == t.bytes;
    if ((file == nullptr || std::fclose(file) != 0) || !written)
      delegate_->log().Write(kLogLevelWarn, "tensor %d cannot be written to %s", port.index,
                             path.c_str());
  }
}

}  // namespace qnnrt::tflite
