#include "tflite/delegate/delegate.h"

#include <algorithm>
#include <climits>

#include "abi/qnn_errors.h"
#include "support/guard.h"

namespace qnnrt::tflite {
namespace {

constexpr int kNoDelegateFlags = 0;
constexpr uint64_t kPage = 4096;
// Graphs without kernels whose memory is kept: they are between two sizes, or freed.
constexpr size_t kSuspended = 8;

// The entries of one context.
template <typename Map>
auto RangeOf(Map& map, const TfLiteContext* context) {
  return std::make_pair(map.lower_bound({context, 0}), map.upper_bound({context, INT_MAX}));
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
  if (const Operator* op = OperatorOf(registration)) return op->name;
  return registration.custom_name != nullptr ? registration.custom_name : "operator";
}

}  // namespace

bool InArena(const TfLiteTensor& t) {
  return (t.allocation_type == kTfLiteArenaRw || t.allocation_type == kTfLiteArenaRwPersistent) &&
         !t.is_variable;
}

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

Delegate* Delegate::Of(const TfLiteDelegate* delegate) {
  return delegate == nullptr ? nullptr : static_cast<Delegate*>(delegate->data_);
}

void Delegate::Destroy(TfLiteDelegate* delegate) {
  Delegate* found = Of(delegate);
  if (found == nullptr) return;
  const std::shared_ptr<Delegate> last =
      std::move(found->self_);  // freed here, or with the last kernel
}

// ---- Choosing nodes ------------------------------------------------------------------------

TfLiteStatus Delegate::Prepare(TfLiteContext* context, TfLiteDelegate* delegate) {
  return Contained([&] { return Of(delegate)->Choose(context); },
                   [&](const Status& status) {
                     context->ReportError(context, "TfLiteQnnDelegate: %s",
                                          status.message().c_str());
                     return kTfLiteDelegateError;
                   });
}

// Whether the backend takes the node, and then its plan.
bool Delegate::Takes(const TfLiteContext* context, int index, const TfLiteNode& node,
                     const TfLiteRegistration& registration, NodePlan* plan) {
  std::string reason;
  if (options_.skip_nodes.count(index) != 0 ||
      options_.skip_ops.count(registration.builtin_code) != 0) {
    reason = "skip_options name it";
  } else {
    for (const Numbers way : {Numbers::kOwn, Numbers::kFloats}) {
      try {
        const NodeView view = ViewOf(*context, node, registration);
        if (way == Numbers::kOwn && view.op->fixed == Fixed::kFloats) continue;
        NodePlan made = Lower(view, way);
        for (PlannedTensor& t : made.tensors) {
          Decode(view, &t);
          // The cpu backend would write a state where it still reads it.
          if (t.state && backend_->id() == QNN_BACKEND_ID_CPU)
            Unsupported("state on the cpu backend");
        }
        const Status status = backend_->Validate(made);
        if (status.ok()) {
          *plan = std::move(made);
          return true;
        }
        reason = status.message();
      } catch (const Refused& refused) {
        reason = refused.kind == Refused::kWrongType
                     ? "output " + std::to_string(refused.detail) + " has another element type"
                     : refused.what();
      }
    }
  }
  log_.Write(kLogLevelVerbose, "node %d (%s) is left to the CPU: %s", index, NameOf(registration),
             reason.c_str());
  return false;
}

// Memory that waits for a graph is for that one alone. Another graph may have its address once it
// is freed, but not its tensors' mark, which Release leaves.
void Delegate::Resume(TfLiteContext* context) {
  std::lock_guard<std::mutex> lock(mutex_);
  suspended_.erase(std::remove(suspended_.begin(), suspended_.end(), context), suspended_.end());
  auto [it, last] = RangeOf(allocations_, context);
  while (it != last) {
    const auto index = static_cast<size_t>(it->first.second);
    const bool there = index < context->tensors_size;
    const bool marked = there && context->tensors[index].delegate == &c_;
    if (marked) context->tensors[index].delegate = nullptr;
    if (marked || it->second.uses > 0) {
      ++it;
      continue;
    }
    it = allocations_.erase(it);
  }
}

// The graph has lost its last kernel. Under the lock.
void Delegate::Suspend(const TfLiteContext* context) {
  for (const Kernel* kernel : kernels_) {
    if (kernel->context_ == context) return;
  }
  suspended_.push_back(context);
  if (suspended_.size() <= kSuspended) return;
  const auto [first, last] = RangeOf(allocations_, suspended_.front());
  allocations_.erase(first, last);
  suspended_.pop_front();
}

TfLiteStatus Delegate::Choose(TfLiteContext* context) {
  Resume(context);
  TfLiteIntArray* plan = nullptr;
  if (context->GetExecutionPlan(context, &plan) != kTfLiteOk) return kTfLiteError;
  const std::vector<int> order(plan->data, plan->data + plan->size);
  std::vector<int> taken;
  std::map<int, NodePlan> plans;
  std::set<int> states;
  for (int index : order) {
    TfLiteNode* node = nullptr;
    TfLiteRegistration* registration = nullptr;
    if (context->GetNodeAndRegistration(context, index, &node, &registration) != kTfLiteOk)
      return kTfLiteError;
    NodePlan made;
    if (!Takes(context, index, *node, *registration, &made)) continue;
    if (SharesState(*context, *node, &states)) {
      log_.Write(kLogLevelVerbose, "node %d is left to the CPU: its state is another node's",
                 index);
      continue;
    }
    taken.push_back(index);
    plans[index] = std::move(made);
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    nodes_[context] = {order.size(), taken.size()};
    for (auto& [index, made] : plans) plans_[{context, index}] = std::move(made);
  }
  // A TfLiteIntArray: a count, and as many numbers behind it.
  std::vector<int> counted = {static_cast<int>(taken.size())};
  counted.insert(counted.end(), taken.begin(), taken.end());
  const auto* nodes = reinterpret_cast<const TfLiteIntArray*>(counted.data());
  int partitions = 0;
  TfLiteDelegateParams* parts = nullptr;
  if (!taken.empty() && context->PreviewDelegatePartitioning != nullptr)
    context->PreviewDelegatePartitioning(context, nodes, &parts, &partitions);
  log_.Write(
      kLogLevelInfo,
      "TfLiteQnnDelegate delegate: %zu nodes delegated out of %zu nodes with %d partitions.\n",
      taken.size(), order.size(), partitions);
  if (taken.empty()) return kTfLiteOk;
  const TfLiteStatus replaced =
      context->ReplaceNodeSubsetsWithDelegateKernels(context, Kernel::Registration(), nodes, &c_);
  std::lock_guard<std::mutex> lock(mutex_);
  const auto [first, last] = RangeOf(plans_, context);
  plans_.erase(first, last);
  return replaced;
}

// ---- Memory --------------------------------------------------------------------------------

// The runtime checks the sizes of custom allocations as soon as the application has registered one,
// and then wants to know of all of them: where it brings memory, none is allocated beside it.
bool Delegate::ApplicationBrings(const TfLiteContext& context) const {
  for (size_t i = 0; i < context.tensors_size; ++i) {
    const TfLiteTensor& t = context.tensors[i];
    if (t.allocation_type != kTfLiteCustom || t.data == nullptr) continue;
    auto allocation = allocations_.find({&context, static_cast<int>(i)});
    if (allocation == allocations_.end() || allocation->second.address != t.data) return true;
  }
  return false;
}

bool Delegate::IsBound(const TfLiteContext& context, int index) const {
  auto found = allocations_.find({&context, index});
  return found != allocations_.end() && found->second.bound;
}

Status Delegate::Provide(Allocation* allocation, uint64_t bytes) {
  if (allocation->capacity >= bytes && allocation->address != nullptr) return Status::Ok();
  if (allocation->bound)
    log_.Write(kLogLevelWarn, "a bound buffer of %llu bytes is given up: its tensor has %llu now",
               static_cast<unsigned long long>(allocation->capacity),
               static_cast<unsigned long long>(bytes));
  Buffer buffer;
  qnnrt_buffer_info_t info;
  const uint64_t pages = (bytes + kPage - 1) / kPage * kPage;  // room to grow that costs nothing
  const uint64_t error = qnnrt_buffer_alloc(nullptr, pages, 0, &buffer.handle);
  if (error != QNN_SUCCESS || qnnrt_buffer_info(buffer.handle, &info) != QNN_SUCCESS)
    return Error(QNN_COMMON_ERROR_MEM_ALLOC, "%llu bytes of shared memory: %s",
                 static_cast<unsigned long long>(bytes), qnnrt_last_error());
  allocation->buffer = std::move(buffer);
  allocation->address = info.address;
  allocation->capacity = info.nbytes;
  allocation->bound = false;
  return Status::Ok();
}

// Puts the tensor on shared memory if it is the delegate's to allocation. Under the lock.
bool Delegate::Allocate(TfLiteContext* context, Kernel* kernel, Port* port) {
  TfLiteTensor& t = context->tensors[port->index];
  const auto key = std::make_pair(static_cast<const TfLiteContext*>(context), port->index);
  auto known = allocations_.find(key);
  const bool ours = known != allocations_.end() && t.allocation_type == kTfLiteCustom &&
                    t.data == known->second.address && t.data != nullptr;
  if (!ours && !InArena(t)) return true;
  Allocation& allocation = allocations_[key];
  if (!ours) allocation.before = t.allocation_type;
  const Status status = Provide(&allocation, t.bytes);
  if (!status.ok()) {
    log_.Write(kLogLevelWarn, "tensor %d stays in the runtime's memory: %s", port->index,
               status.message().c_str());
    if (ours) t.data = nullptr;
    return false;
  }
  t.allocation_type = kTfLiteCustom;
  t.data = allocation.address;
  if (kernel->allocated_.insert(port->index).second) ++allocation.uses;
  return true;
}

// Back to the arena when the last kernel is freed: what is prepared next may not take this tensor,
// and nobody would see to the size of its memory. Under the lock.
void Delegate::Release(TfLiteContext* context, int index) {
  auto found = allocations_.find({context, index});
  if (found == allocations_.end() || --found->second.uses > 0) return;
  if (static_cast<size_t>(index) >= context->tensors_size) return;
  TfLiteTensor& t = context->tensors[index];
  if (t.allocation_type != kTfLiteCustom || t.data != found->second.address) return;
  t.allocation_type = found->second.before;
  t.data = nullptr;
  t.delegate = &c_;  // the mark; without a handle it means nothing to the runtime
}

}  // namespace qnnrt::tflite
