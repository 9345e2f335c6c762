// The order in which a context's executions start: one FIFO for the synchronous calls, which run on
// their callers' threads, and the asynchronous ones, which run on a worker thread of the context.
//
// The queue is a FIFO lock: who holds it executes. Without waiters, acquiring and releasing it is
// one compare-and-swap each. The worker starts with the first asynchronous execution.
//
// How long one asynchronous execution holds what:
//   from graphExecuteAsync's return until its notify callback begins: memory handles, signal,
//     profile. The callback may deregister, free or use them again.
//   from graphExecuteAsync's return until its notify callback returns: one of `depth` slots. The
//     first graphExecuteAsync that the callback itself makes takes over this slot, so it never
//     waits; further ones use a free slot or are refused (6025), since only their own thread could
//     free one.
#pragma once

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "api/profile_call.h"
#include "api/signal.h"
#include "graph/graph.h"

namespace qnnrt {

class Log;
struct GraphObject;
using GraphPin = Pinned<HandleTable<GraphObject, HandleKind::kGraph>>;

class ExecutionQueue {
 public:
  // The tensors are read before Submit returns.
  struct Request {
    GraphPin graph;
    const Qnn_Tensor_t* inputs;
    uint32_t num_inputs;
    const Qnn_Tensor_t* outputs;
    uint32_t num_outputs;
    SignalUse signal;
    ProfileCall profile;
    Qnn_NotifyFn_t notify;  // may be null
    void* notify_param;
  };

  ExecutionQueue();
  ~ExecutionQueue();  // not in a forked child, see QueueDeleter
  ExecutionQueue(const ExecutionQueue&) = delete;
  ExecutionQueue& operator=(const ExecutionQueue&) = delete;

  // A synchronous execution: waits for everything that came before, then holds the queue until
  // Release on the same thread. Errors: 1005 from a notify callback of this context or in a forked
  // child, and what the signal says.
  Status Acquire(SignalUse* signal);
  void Release() {
    uint32_t expected = kTaken;
    if (!state_.compare_exchange_strong(expected, kFree, std::memory_order_release,
                                        std::memory_order_relaxed)) {
      ReleaseToNext();
    }
  }

  // How many asynchronous executions may be in flight; set before the first Submit.
  void set_depth(uint32_t depth) { depth_.store(depth, std::memory_order_relaxed); }
  uint32_t depth() const { return depth_.load(std::memory_order_relaxed); }  // 0: not set yet

  // Queues an asynchronous execution; waits while depth() of them are in flight. After an error
  // there is no callback. Errors: those of Graph::Bind, what the signal says, 6025 (see above),
  // 6039 the context is being freed, 1005 in a forked child, 1003 no thread.
  Status Submit(Request request);

  // Whether the caller is a notify callback of this context.
  bool OnWorker() const;
  // Waits for all that is in flight; nothing can be queued any more. Not on the worker.
  void Close();
  // In a forked child there is no worker, and what was in flight never completes.
  bool forked() const;

 private:
  struct Caller;  // a synchronous execution, on its caller's stack
  struct Job;     // an asynchronous one
  // An execution, from its call until it is done. Links are guarded by mutex_.
  struct Waiter {
    enum class State { kIdle, kWaiting, kGranted };
    Waiter* next = nullptr;
    State state = State::kIdle;
    Caller* const caller;  // null: a Job
    explicit Waiter(Caller* c) : caller(c) {}
  };
  using Lock = std::unique_lock<std::mutex>;

  static constexpr uint32_t kFree = 0, kTaken = 1, kWaited = 2;  // kWaited: the list is not empty

  Status Usable() const;
  Status AcquireQueued(SignalUse* signal);
  void ReleaseToNext();
  Status StartWorker();
  static Status Run(Job* job);
  bool Withdraw(Job* job);  // on behalf of a signal
  void Work();
  // The rest with mutex_ held.
  bool AcquireOrEnqueue(Waiter* waiter);  // true: acquired
  void GrantNext();                       // by the holder, to release it
  void Unlink(Waiter* waiter);
  Status WaitForSlot(const SignalUse& signal, Lock* lock);
  void FreeSlot();
  Job* NewJob();
  void Notify(Job* job, ErrorCode code, Lock* lock);

  const uint32_t generation_;
  std::atomic<uint32_t> depth_{0};
  std::atomic<uint32_t> state_{kFree};
  std::mutex mutex_;
  Waiter* first_ = nullptr;
  Waiter* last_ = nullptr;
  std::condition_variable slot_free_, to_work_, all_done_;
  std::vector<std::unique_ptr<Job>> jobs_;
  std::vector<Job*> free_jobs_;
  Waiter* withdrawn_ = nullptr;  // hold nothing any more; only their callbacks are due
  Job* granted_ = nullptr;       // holds the queue, is about to run
  uint32_t in_flight_ = 0;
  bool callback_slot_ = false;  // the running callback's slot is still its own
  bool closed_ = false, stopping_ = false;
  bool has_worker_ = false;
  pthread_t worker_ = {};
};

// In a forked child what the worker was waiting on cannot be destroyed: it is leaked.
struct QueueDeleter {
  void operator()(ExecutionQueue* queue) const {
    if (!queue->forked()) delete queue;
  }
};
using QueuePtr = std::unique_ptr<ExecutionQueue, QueueDeleter>;

}  // namespace qnnrt
