#include "tflite/delegate.h"

#include <algorithm>
#include <cstdlib>

#include "abi/qnn_errors.h"
#include "memory/memory_api.h"

namespace qnnrt::tflite {
namespace {

constexpr int kNoDelegateFlags = 0;
constexpr uint64_t kPage = 4096;

struct FreeArray {
  void operator()(TfLiteIntArray* a) const { std::free(a); }
};
using IntArray = std::unique_ptr<TfLiteIntArray, FreeArray>;

IntArray ToArray(const std::vector<int>& values) {
  auto* a = static_cast<TfLiteIntArray*>(
      std::malloc(sizeof(TfLiteIntArray) + values.size() * sizeof(int)));
  if (a == nullptr) throw std::bad_alloc();
  a->size = static_cast<int>(values.size());
  std::copy(values.begin(), values.end(), a->data);
  return IntArray(a);
}

// Memory that the runtime gives out at each preparation; variables it keeps, and resets.
bool InArena(const TfLiteTensor& t) {
  return (t.allocation_type == kTfLiteArenaRw || t.allocation_type == kTfLiteArenaRwPersistent) &&
         !t.is_variable;
}

// Whether the node has a variable tensor that is among `states`; its own are, afterwards.
bool SharesState(const TfLiteContext& context, const TfLiteNode& node, std::set<int>* states) {
  bool shares = false;
  for (int i = 0; i < node.inputs->size; ++i) {
    const int index = node.inputs->data[i];
    if (index >= 0 && context.tensors[index].is_variable)
      shares = !states->insert(index).second || shares;
  }
  return shares;
}

const char* NameOf(const TfLiteRegistration& registration) {
  const Builtin* builtin = FindBuiltin(registration.builtin_code);
  if (builtin != nullptr) return builtin->name;
  return registration.custom_name != nullptr ? registration.custom_name : "operator";
}

}  // namespace

Delegate::Delegate(Options options)
    : options_(std::move(options)), log_(static_cast<int>(options_.c.log_level)) {
  c_.data_ = this;
  c_.Prepare = Prepare;
  c_.flags = kNoDelegateFlags;
}

Result<Delegate*> Delegate::Create(Options options) {
  std::shared_ptr<Delegate> made(new Delegate(std::move(options)));
  QNNRT_ASSIGN_OR_RETURN(made->backend_, Backend::Open(made->options_, &made->log_));
  made->self_ = made;
  return made.get();
}

Delegate::~Delegate() {
  for (auto& [key, place] : places_) {
    if (place.buffer != 0) qnnrt_buffer_release(place.buffer);
  }
}

Delegate* Delegate::Of(const TfLiteDelegate* delegate) {
  return delegate == nullptr ? nullptr : static_cast<Delegate*>(delegate->data_);
}

void Delegate::Destroy(TfLiteDelegate* delegate) {
  Delegate* found = Of(delegate);
  if (found == nullptr) return;
  const std::shared_ptr<Delegate> last = std::move(found->self_);  // goes here, or with a kernel
}

// ---- Choosing nodes ------------------------------------------------------------------------

TfLiteStatus Delegate::Prepare(TfLiteContext* context, TfLiteDelegate* delegate) {
  try {
    return Of(delegate)->Choose(context);
  } catch (const std::exception& e) {
    context->ReportError(context, "TfLiteQnnDelegate: %s", e.what());
    return kTfLiteDelegateError;
  }
}

bool Delegate::Takes(const TfLiteContext* context, int index, const TfLiteNode& node,
                     const TfLiteRegistration& registration, Numbers* numbers) {
  std::string reason;
  if (options_.skip_nodes.count(index) != 0 ||
      options_.skip_ops.count(registration.builtin_code) != 0) {
    reason = "skip_options name it";
  } else {
    const Builtin* builtin = FindBuiltin(registration.builtin_code);
    for (const Numbers way : {Numbers::kOwn, Numbers::kFloats}) {
      if (way == Numbers::kOwn && builtin != nullptr && builtin->fixed == Fixed::kFloats) continue;
      try {
        Plan plan;
        Lowering lowering(context, &plan);
        lowering.Add(node, registration, way);
        // The cpu backend would write a state where it still reads it.
        for (const PlannedTensor& t : plan.tensors) {
          if (t.state && backend_->id() == QNN_BACKEND_ID_CPU) Refuse("state on the cpu backend");
        }
        const Status status = backend_->Validate(plan);
        if (status.ok()) {
          *numbers = way;
          return true;
        }
        reason = status.message();
      } catch (const Refused& refused) {
        reason = refused.what();
      }
    }
  }
  log_.Write(kLogLevelVerbose, "node %d (%s) is left to the CPU: %s", index, NameOf(registration),
             reason.c_str());
  return false;
}

TfLiteStatus Delegate::Choose(TfLiteContext* context) {
  TfLiteIntArray* plan = nullptr;
  if (context->GetExecutionPlan(context, &plan) != kTfLiteOk) return kTfLiteError;
  const std::vector<int> order(plan->data, plan->data + plan->size);
  std::vector<int> taken;
  std::map<int, Numbers> numbers;
  std::set<int> states;
  for (int index : order) {
    TfLiteNode* node = nullptr;
    TfLiteRegistration* registration = nullptr;
    if (context->GetNodeAndRegistration(context, index, &node, &registration) != kTfLiteOk)
      return kTfLiteError;
    Numbers way;
    if (!Takes(context, index, *node, *registration, &way)) continue;
    if (SharesState(*context, *node, &states)) {
      log_.Write(kLogLevelVerbose, "node %d is left to the CPU: its state is another node's",
                 index);
      continue;
    }
    taken.push_back(index);
    numbers[index] = way;
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    nodes_[context] = {order.size(), taken.size()};
    for (const auto& [index, way] : numbers) numbers_[{context, index}] = way;
  }
  const IntArray nodes = ToArray(taken);
  int partitions = 0;
  TfLiteDelegateParams* parts = nullptr;
  if (!taken.empty() && context->PreviewDelegatePartitioning != nullptr)
    context->PreviewDelegatePartitioning(context, nodes.get(), &parts, &partitions);
  log_.Write(
      kLogLevelInfo,
      "TfLiteQnnDelegate delegate: %zu nodes delegated out of %zu nodes with %d partitions.\n",
      taken.size(), order.size(), partitions);
  if (taken.empty()) return kTfLiteOk;
  return context->ReplaceNodeSubsetsWithDelegateKernels(context, Kernel::Registration(),
                                                        nodes.get(), &c_);
}

// ---- Memory --------------------------------------------------------------------------------

// The runtime checks the sizes of custom allocations as soon as the application has registered one,
// and then wants to know of all of them: where it brings memory, none is placed beside it.
bool Delegate::ApplicationBrings(const TfLiteContext& context) const {
  for (size_t i = 0; i < context.tensors_size; ++i) {
    const TfLiteTensor& t = context.tensors[i];
    if (t.allocation_type != kTfLiteCustom || t.data == nullptr) continue;
    auto place = places_.find({&context, static_cast<int>(i)});
    if (place == places_.end() || place->second.address != t.data) return true;
  }
  return false;
}

Status Delegate::Provide(Placement* place, uint64_t bytes) {
  if (place->capacity >= bytes && place->address != nullptr) return Status::Ok();
  if (place->bound)
    log_.Write(kLogLevelWarn, "a bound buffer of %llu bytes is given up: its tensor has %llu now",
               static_cast<unsigned long long>(place->capacity),
               static_cast<unsigned long long>(bytes));
  qnnrt_buffer_t buffer = 0;
  qnnrt_buffer_info_t info;
  const uint64_t pages = (bytes + kPage - 1) / kPage * kPage;  // room to grow that costs nothing
  const uint64_t error = qnnrt_buffer_alloc(nullptr, pages, 0, &buffer);
  if (error != QNN_SUCCESS || qnnrt_buffer_info(buffer, &info) != QNN_SUCCESS)
    return Error(QNN_COMMON_ERROR_MEM_ALLOC, "%llu bytes of shared memory: %s",
                 static_cast<unsigned long long>(bytes), qnnrt_last_error());
  if (place->buffer != 0) qnnrt_buffer_release(place->buffer);
  place->buffer = buffer;
  place->address = info.address;
  place->capacity = info.nbytes;
  place->bound = false;
  return Status::Ok();
}

// Puts the tensor on shared memory if it is the delegate's to place. Under the lock.
bool Delegate::Place(TfLiteContext* context, Kernel* kernel, Port* port) {
  TfLiteTensor& t = context->tensors[port->index];
  const auto key = std::make_pair(static_cast<const TfLiteContext*>(context), port->index);
  auto known = places_.find(key);
  const bool ours = known != places_.end() && t.allocation_type == kTfLiteCustom &&
                    t.data == known->second.address && t.data != nullptr;
  if (!ours && !InArena(t)) return true;
  Placement& place = places_[key];
  if (!ours) place.before = t.allocation_type;
  const Status status = Provide(&place, t.bytes);
  if (!status.ok()) {
    log_.Write(kLogLevelWarn, "tensor %d stays in the runtime's memory: %s", port->index,
               status.message().c_str());
    if (ours) t.data = nullptr;
    return false;
  }
  t.allocation_type = kTfLiteCustom;
  t.data = place.address;
  if (kernel->placed_.insert(port->index).second) ++place.uses;
  return true;
}

// Back to the arena when the last kernel is gone: what is prepared next may not take this tensor,
// and nobody would see to the size of its memory. Under the lock.
void Delegate::Unplace(TfLiteContext* context, int index) {
  auto found = places_.find({context, index});
  if (found == places_.end() || --found->second.uses > 0) return;
  if (static_cast<size_t>(index) >= context->tensors_size) return;
  TfLiteTensor& t = context->tensors[index];
  if (t.allocation_type != kTfLiteCustom || t.data != found->second.address) return;
  t.allocation_type = found->second.before;
  t.data = nullptr;
}

// ---- The side door -------------------------------------------------------------------------

Status Delegate::Bind(int32_t index, void* address, uint64_t nbytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  TfLiteContext* context = nullptr;
  uint64_t bytes = 0;
  std::vector<Kernel*> users;
  for (Kernel* kernel : kernels_) {
    for (const Port& port : kernel->graph_->ports()) {
      if (port.index != index) continue;
      if (context != nullptr && context != kernel->context_)
        return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT,
                     "several interpreters of this delegate have a tensor %d", index);
      context = kernel->context_;
      bytes = port.bytes;
      users.push_back(kernel);
    }
  }
  if (context == nullptr)
    return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT,
                 "tensor %d is no input or output of a delegated partition", index);
  TfLiteTensor& t = context->tensors[index];
  const auto key = std::make_pair(static_cast<const TfLiteContext*>(context), index);
  auto known = places_.find(key);
  const bool ours = known != places_.end() && known->second.address == t.data;
  if ((t.allocation_type == kTfLiteCustom && !ours) ||
      (t.allocation_type != kTfLiteCustom && !InArena(t)))
    return Error(QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
                 "tensor %d has memory of the application's or of the model's", index);
  Placement next;
  next.uses = known == places_.end() ? 0 : known->second.uses;
  next.before = known == places_.end() ? t.allocation_type : known->second.before;
  if (address == nullptr) {
    QNNRT_RETURN_IF_ERROR(Provide(&next, bytes));
  } else {
    if (reinterpret_cast<uintptr_t>(address) % kTfLiteDefaultTensorAlignment != 0)
      return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT,
                   "%p is not on a boundary of %d bytes, which TFLite asks of tensors", address,
                   kTfLiteDefaultTensorAlignment);
    if (nbytes < bytes)
      return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT, "%llu bytes for tensor %d, which has %llu",
                   static_cast<unsigned long long>(nbytes), index,
                   static_cast<unsigned long long>(bytes));
    uint64_t offset = 0;
    qnnrt_buffer_info_t info;
    if (qnnrt_buffer_lookup(address, &next.buffer, &offset) != QNN_SUCCESS ||
        qnnrt_buffer_info(next.buffer, &info) != QNN_SUCCESS)
      return Error(QNN_MEM_ERROR_INVALID_HANDLE,
                   "there is no buffer of this library at %p: allocate or import one", address);
    if (offset > info.nbytes || info.nbytes - offset < nbytes) {
      qnnrt_buffer_release(next.buffer);
      return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT, "%llu bytes reach beyond the buffer at %p",
                   static_cast<unsigned long long>(nbytes), address);
    }
    next.address = address;
    next.capacity = nbytes;
    next.bound = true;
  }
  Placement& place = places_[key];
  if (place.buffer != 0) qnnrt_buffer_release(place.buffer);
  place = next;
  for (Kernel* kernel : users) {
    if (kernel->placed_.insert(index).second) ++place.uses;
  }
  t.allocation_type = kTfLiteCustom;
  t.data = place.address;
  return Status::Ok();
}

uint32_t Delegate::Tensors(Qnnrt_TfliteTensor_t* out, uint32_t capacity) {
  std::lock_guard<std::mutex> lock(mutex_);
  uint32_t count = 0;
  for (Kernel* kernel : kernels_) {
    for (const Port& port : kernel->graph_->ports()) {
      if (count++ >= capacity) continue;
      Qnnrt_TfliteTensor_t& found = out[count - 1];
      found = {};
      const TfLiteTensor& t = kernel->context_->tensors[port.index];
      found.index = port.index;
      found.output = port.output ? 1 : 0;
      found.address = t.data;
      found.nbytes = found.capacity = port.bytes;
      found.fd = -1;
      auto place = places_.find({kernel->context_, port.index});
      if (place != places_.end() && place->second.address == t.data) {
        found.memory = place->second.bound ? QNNRT_TFLITE_BOUND : QNNRT_TFLITE_SHARED;
        found.capacity = place->second.capacity;
      } else if (port.handle != nullptr && port.address == t.data) {
        found.memory = QNNRT_TFLITE_APPLICATION;
      }
      qnnrt_buffer_t buffer = 0;
      uint64_t offset = 0;
      qnnrt_buffer_info_t info;
      if (found.memory == QNNRT_TFLITE_COPIED ||
          qnnrt_buffer_lookup(t.data, &buffer, &offset) != QNN_SUCCESS)
        continue;
      if (qnnrt_buffer_info(buffer, &info) == QNN_SUCCESS)
        found.fd_offset = info.fd_offset + offset;
      qnnrt_buffer_fd(buffer, &found.fd);
      qnnrt_buffer_release(buffer);
    }
  }
  return count;
}

void Delegate::Count(Qnnrt_TfliteCounters_t* out) {
  std::lock_guard<std::mutex> lock(mutex_);
  *out = {};
  for (const auto& entry : nodes_) {
    out->nodes += entry.second.first;
    out->delegated += entry.second.second;
  }
  out->partitions = kernels_.size();
  out->invokes = invokes_;
  out->copied_in_bytes = copied_in_;
  out->copied_out_bytes = copied_out_;
  for (Kernel* kernel : kernels_) {
    uint64_t in, bytes_out;
    kernel->graph_->Copied(&in, &bytes_out);
    out->copied_in_bytes += in;
    out->copied_out_bytes += bytes_out;
    out->invokes += kernel->invokes_;
    for (const Port& port : kernel->graph_->ports())
      ++(kernel->graph_->InPlace(port) ? out->shared_tensors : out->copied_tensors);
  }
}

}  // namespace qnnrt::tflite
