#include "tflite/delegate.h"

#include <algorithm>
#include <cstdlib>

#include "abi/qnn_errors.h"
#include "memory/memory_api.h"

namespace qnnrt::tflite {
namespace {

constexpr int kNoDelegateFlags = 0;
constexpr uint64_t kPage = 4096;
// Graphs without kernels whose memory is kept: they are between two sizes, or gone.
constexpr size_t kResting = 8;

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

// Memory that waits for a graph is for that one alone. Another graph may have its address after it
// is gone, but not its tensors' mark, which Unplace leaves.
void Delegate::Recognize(TfLiteContext* context) {
  std::lock_guard<std::mutex> lock(mutex_);
  resting_.erase(std::remove(resting_.begin(), resting_.end(), context), resting_.end());
  for (auto it = places_.lower_bound({context, 0});
       it != places_.end() && it->first.first == context;) {
    const auto index = static_cast<size_t>(it->first.second);
    const bool there = index < context->tensors_size;
    const bool marked = there && context->tensors[index].delegate == &c_;
    if (marked) context->tensors[index].delegate = nullptr;
    if (marked || it->second.uses > 0) {
      ++it;
      continue;
    }
    if (it->second.buffer != 0) qnnrt_buffer_release(it->second.buffer);
    it = places_.erase(it);
  }
}

// The graph has lost its last kernel. Under the lock.
void Delegate::Rest(const TfLiteContext* context) {
  for (const Kernel* kernel : kernels_) {
    if (kernel->context_ == context) return;
  }
  resting_.push_back(context);
  if (resting_.size() <= kResting) return;
  Forget(resting_.front());
  resting_.pop_front();
}

void Delegate::Forget(const TfLiteContext* context) {
  const auto first = places_.lower_bound({context, 0});
  auto last = first;
  for (; last != places_.end() && last->first.first == context; ++last) {
    if (last->second.buffer != 0) qnnrt_buffer_release(last->second.buffer);
  }
  places_.erase(first, last);
  const auto begin = numbers_.lower_bound({context, 0});
  auto end = begin;
  while (end != numbers_.end() && end->first.first == context) ++end;
  numbers_.erase(begin, end);
}

TfLiteStatus Delegate::Choose(TfLiteContext* context) {
  Recognize(context);
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

bool Delegate::IsBound(const TfLiteContext& context, int index) const {
  auto found = places_.find({&context, index});
  return found != places_.end() && found->second.bound;
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
  t.delegate = &c_;  // the mark; without a handle it means nothing to the runtime
}

}  // namespace qnnrt::tflite
