#include "api/queue.h"

#include <signal.h>

#include <chrono>

#include "api/runtime.h"
#include "support/clock.h"
#include "support/fork.h"

namespace qnnrt {
namespace {

// In the thread's own block, which needs no memory at first use.
__attribute__((tls_model("initial-exec"))) thread_local const ExecutionQueue* t_worker_of = nullptr;

template <typename Condition>
void WaitUntil(Condition* changed, std::unique_lock<std::mutex>* lock, uint64_t deadline) {
  if (deadline == UINT64_MAX) {
    changed->wait(*lock);
    return;
  }
  // steady_clock is the clock of MonotonicNanoseconds().
  using Time = std::chrono::steady_clock::time_point;
  changed->wait_until(*lock, Time(std::chrono::nanoseconds(
                                 static_cast<int64_t>(std::min<uint64_t>(deadline, INT64_MAX)))));
}

}  // namespace

struct ExecutionQueue::Caller final : Waiter, AbortListener {
  explicit Caller(ExecutionQueue* owner) : Waiter(this), queue(owner) {}
  bool OnAbort() override {
    Lock lock(queue->mutex_);
    wake.notify_one();
    return false;
  }
  ExecutionQueue* queue;
  std::condition_variable wake;
};

struct ExecutionQueue::Job final : Waiter, AbortListener {
  explicit Job(ExecutionQueue* owner) : Waiter(nullptr), queue(owner) {}
  bool OnAbort() override { return queue->Withdraw(this); }
  // The signal last: the triggering call returns after everything is free.
  void ReleaseAll() {
    ExecutableGraph::Release(&binding);
    profile.End();
    graph.Reset();
    signal.End();
  }
  ExecutionQueue* const queue;
  GraphPin graph;
  AnyBinding binding;
  const GraphObject* bound = nullptr;  // the graph of `binding`
  SignalUse signal;
  ProfileCall profile;
  uint64_t queued_at = 0;
  Qnn_NotifyFn_t notify = nullptr;
  void* notify_param = nullptr;
};

ExecutionQueue::ExecutionQueue() : generation_(ForkGeneration()) {}
ExecutionQueue::~ExecutionQueue() { Close(); }

bool ExecutionQueue::forked() const { return generation_ != ForkGeneration(); }
bool ExecutionQueue::OnWorker() const { return t_worker_of == this; }

Status ExecutionQueue::Usable() const {
  if (!forked()) return Status::Ok();
  return Status(QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
                "the context belongs to the parent of this forked process, where its executions "
                "run: create one in this process");
}

// ---- The FIFO lock ----

Status ExecutionQueue::Acquire(SignalUse* signal) {
  QNNRT_RETURN_IF_ERROR(Usable());
  if (OnWorker()) {
    return Status(QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
                  "graphExecute from a notify callback of the same context would wait for "
                  "executions that run on this very thread: use graphExecuteAsync");
  }
  uint32_t expected = kFree;
  if (state_.compare_exchange_strong(expected, kTaken, std::memory_order_acquire,
                                     std::memory_order_relaxed)) {
    return Status::Ok();
  }
  return AcquireQueued(signal);
}

Status ExecutionQueue::AcquireQueued(SignalUse* signal) {
  Caller caller(this);
  if (signal != nullptr) signal->Listen(&caller);
  Status status;
  {
    Lock lock(mutex_);
    if (!AcquireOrEnqueue(&caller)) {
      while (caller.state != Waiter::State::kGranted) {
        if (signal != nullptr && !(status = signal->Check()).ok()) {
          Unlink(&caller);
          break;
        }
        WaitUntil(&caller.wake, &lock, signal == nullptr ? UINT64_MAX : signal->deadline());
      }
    }
  }
  if (signal != nullptr) signal->Listen(nullptr);
  return status;
}

bool ExecutionQueue::AcquireOrEnqueue(Waiter* waiter) {
  uint32_t state = state_.load(std::memory_order_relaxed);
  for (;;) {
    const uint32_t wanted = state == kFree ? kTaken : state | kWaited;
    if (state_.compare_exchange_weak(state, wanted, std::memory_order_acquire,
                                     std::memory_order_relaxed)) {
      break;
    }
  }
  if (state == kFree) {
    waiter->state = Waiter::State::kGranted;
    return true;
  }
  waiter->state = Waiter::State::kWaiting;
  waiter->next = nullptr;
  (first_ == nullptr ? first_ : last_->next) = waiter;
  last_ = waiter;
  return false;
}

void ExecutionQueue::Unlink(Waiter* waiter) {
  Waiter* before = nullptr;
  for (Waiter* w = first_; w != waiter; w = w->next) before = w;
  (before == nullptr ? first_ : before->next) = waiter->next;
  if (last_ == waiter) last_ = before;
  waiter->state = Waiter::State::kIdle;
}

void ExecutionQueue::ReleaseToNext() {
  Lock lock(mutex_);
  GrantNext();
}

void ExecutionQueue::GrantNext() {
  Waiter* next = first_;
  if (next == nullptr) {
    state_.store(kFree, std::memory_order_release);
    return;
  }
  first_ = next->next;
  if (first_ == nullptr) last_ = nullptr;
  // While the queue is held and mutex_ locked nobody else writes the state.
  state_.store(first_ == nullptr ? kTaken : kTaken | kWaited, std::memory_order_release);
  next->state = Waiter::State::kGranted;
  if (next->caller != nullptr) {
    next->caller->wake.notify_one();
  } else {
    granted_ = static_cast<Job*>(next);
    to_work_.notify_one();
  }
}

// ---- Asynchronous executions ----

Status ExecutionQueue::StartWorker() {
  Lock lock(mutex_);
  if (has_worker_) return Status::Ok();
  // A client's signal handler must not find itself on a thread that it does not know.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(
      &worker_, nullptr,
      [](void* queue) -> void* {
        static_cast<ExecutionQueue*>(queue)->Work();
        return nullptr;
      },
      this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    return Error(QNN_COMMON_ERROR_SYSTEM,
                 "no thread for asynchronous executions: pthread_create gives error %d", error);
  }
  pthread_setname_np(worker_, "qnnrt-queue");
  has_worker_ = true;
  return Status::Ok();
}

ExecutionQueue::Job* ExecutionQueue::NewJob() {
  if (free_jobs_.empty()) {
    free_jobs_.reserve(jobs_.size() + 1);  // giving one back must not fail
    jobs_.push_back(std::make_unique<Job>(this));
    return jobs_.back().get();
  }
  Job* job = free_jobs_.back();
  free_jobs_.pop_back();
  return job;
}

Status ExecutionQueue::WaitForSlot(const SignalUse& signal, Lock* lock) {
  for (;;) {
    if (closed_) return Status(QNN_GRAPH_ERROR_INVALID_CONTEXT, "the context is being freed");
    if (OnWorker() && callback_slot_) {
      callback_slot_ = false;
      return Status::Ok();
    }
    Status status = signal.Check();
    if (!status.ok()) {
      slot_free_.notify_one();  // what woke this one may have been meant for another
      return status;
    }
    if (in_flight_ < depth()) {
      ++in_flight_;
      return Status::Ok();
    }
    if (OnWorker()) {
      return Error(QNN_GRAPH_ERROR_EXECUTION_ASYNC_FIFO_FULL,
                   "%u executions are in flight, as many as the context takes, and a notify "
                   "callback cannot wait: its first graphExecuteAsync always finds room, this was "
                   "a further one",
                   in_flight_);
    }
    WaitUntil(&slot_free_, lock, signal.deadline());
  }
}

void ExecutionQueue::FreeSlot() {
  --in_flight_;
  slot_free_.notify_one();
  if (in_flight_ == 0) all_done_.notify_all();
}

Status ExecutionQueue::Submit(Request request) {
  QNNRT_RETURN_IF_ERROR(Usable());
  QNNRT_RETURN_IF_ERROR(StartWorker());
  struct Attempt {  // undone on every return but the last
    ExecutionQueue* queue;
    Job* job = nullptr;
    bool has_slot = false;
    ~Attempt() {
      if (job == nullptr) return;
      job->ReleaseAll();
      Lock lock(queue->mutex_);
      queue->free_jobs_.push_back(job);
      if (has_slot) queue->FreeSlot();
    }
  } attempt{this};
  Job* job;
  {
    Lock lock(mutex_);
    job = attempt.job = NewJob();
  }
  job->graph = std::move(request.graph);
  job->profile = std::move(request.profile);
  job->signal = std::move(request.signal);
  job->notify = request.notify;
  job->notify_param = request.notify_param;
  job->signal.Listen(job);
  {
    Lock lock(mutex_);
    QNNRT_RETURN_IF_ERROR(WaitForSlot(job->signal, &lock));
  }
  attempt.has_slot = true;
  if (job->bound != &*job->graph) {
    job->binding = AnyBinding();  // what was checked for one graph does not hold for another
    job->bound = &*job->graph;
  }
  QNNRT_RETURN_IF_ERROR(job->graph->Bind(
      {request.inputs, request.outputs, request.num_inputs, request.num_outputs, 0},
      &job->binding));
  // The tensors are valid until this returns: output addresses cannot be written into them.
  job->binding.own.report_outputs = false;
  job->queued_at = MonotonicNanoseconds();
  {
    Lock lock(mutex_);
    // An abort from here on finds the job in the list; an earlier one has set aborted().
    if (!job->signal.aborted()) {
      attempt.job = nullptr;
      if (AcquireOrEnqueue(job)) {
        granted_ = job;
        to_work_.notify_one();
      }
      return Status::Ok();
    }
  }
  return job->signal.Check();
}

bool ExecutionQueue::Withdraw(Job* job) {
  {
    Lock lock(mutex_);
    if (job->state == Waiter::State::kWaiting) {
      Unlink(job);
    } else if (granted_ == job) {  // the worker is in a callback, perhaps the one that called this
      granted_ = nullptr;
      job->state = Waiter::State::kIdle;
      GrantNext();
    } else {  // running, or about to be queued and perhaps waiting for a slot
      slot_free_.notify_all();
      return false;
    }
  }
  ExecutableGraph::Release(&job->binding);
  job->profile.End();
  job->graph.Reset();
  job->signal.Abandon();
  Lock lock(mutex_);
  job->next = nullptr;
  Waiter** end = &withdrawn_;
  while (*end != nullptr) end = &(*end)->next;
  *end = job;
  to_work_.notify_one();
  return true;
}

Status ExecutionQueue::Run(Job* job) {
  if (job->profile.scope() == nullptr) {
    QNNRT_ASSIGN_OR_RETURN(job->profile, job->graph->profile.Begin());
  }
  RunOptions options;
  options.profile = job->profile.scope();
  options.interrupt = job->signal.interrupt();
  if (options.profile != nullptr) {
    options.profile->Add(QNN_PROFILE_EVENTTYPE_EXECUTE_QUEUE_WAIT, QNN_PROFILE_EVENTUNIT_MICROSEC,
                         (MonotonicNanoseconds() - job->queued_at) / 1000, job->queued_at / 1000,
                         "queue wait");
  }
  QNNRT_RETURN_IF_ERROR(job->signal.Check());
  QNNRT_RETURN_IF_ERROR(job->graph->Run(job->binding, options));
  return job->signal.Conclude();
}

void ExecutionQueue::Notify(Job* job, ErrorCode code, Lock* lock) {
  const Qnn_NotifyFn_t notify = job->notify;
  void* const param = job->notify_param;
  free_jobs_.push_back(job);
  callback_slot_ = true;
  lock->unlock();
  if (notify != nullptr) notify(param, Qnn_NotifyStatus_t{code});
  lock->lock();
  if (callback_slot_) FreeSlot();
  callback_slot_ = false;
}

void ExecutionQueue::Work() {
  t_worker_of = this;
  Lock lock(mutex_);
  for (;;) {
    if (withdrawn_ != nullptr) {
      Job* job = static_cast<Job*>(withdrawn_);
      withdrawn_ = job->next;
      lock.unlock();
      Guarded([&] {  // for errorGetVerboseMessage in the callback
        return Report(Status(QNN_GRAPH_ERROR_ABORTED, "aborted by its signal before it began"));
      });
      lock.lock();
      Notify(job, QNN_GRAPH_ERROR_ABORTED, &lock);
    } else if (granted_ != nullptr) {
      Job* job = std::exchange(granted_, nullptr);
      job->state = Waiter::State::kIdle;
      lock.unlock();
      Log* log = job->graph->context->backend->log.get();
      const Qnn_ErrorHandle_t code = Guarded([&] { return Report(Run(job), log); });
      job->ReleaseAll();
      Release();
      lock.lock();
      Notify(job, static_cast<ErrorCode>(code), &lock);
    } else if (stopping_) {
      return;
    } else {
      to_work_.wait(lock);
    }
  }
}

void ExecutionQueue::Close() {
  Lock lock(mutex_);
  closed_ = true;
  slot_free_.notify_all();
  all_done_.wait(lock, [this] { return in_flight_ == 0; });
  stopping_ = true;
  to_work_.notify_one();
  const bool join = std::exchange(has_worker_, false);
  lock.unlock();
  if (join) pthread_join(worker_, nullptr);
}

}  // namespace qnnrt
