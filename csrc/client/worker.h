// Executions one after another on a thread of their owner's, for backends that have no queue.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "abi/qnn.h"
#include "client/client.h"
#include "support/fair_mutex.h"

namespace qnnrt::client {

// One of them. It lives in what the completion's owner is, so queueing it allocates nothing.
struct Execution {
  QnnGraph_ExecuteFn_t execute = nullptr;
  Qnn_GraphHandle_t graph = nullptr;
  Qnn_Tensor_t* inputs = nullptr;
  uint32_t num_inputs = 0;
  Qnn_Tensor_t* outputs = nullptr;
  uint32_t num_outputs = 0;
  Qnn_SignalHandle_t signal = nullptr;
  FairMutex* one_at_a_time = nullptr;  // the owner's synchronous executions hold it, too
  Completion* completion = nullptr;
  Execution* next = nullptr;
};

class Worker {
 public:
  ~Worker() { Stop(); }

  // 0; or why no thread could be started (an errno), and then the execution is not queued.
  int Put(Execution* execution) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!running_) {
      if (const int error = Start(); error != 0) return error;
    }
    execution->next = nullptr;
    *end_ = execution;
    end_ = &execution->next;
    changed_.notify_one();
    return 0;
  }

  // Waits until all are executed, and ends the thread.
  void Stop() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!running_ || stopped_) return;
      stopped_ = true;
      changed_.notify_one();
    }
    pthread_join(thread_, nullptr);
    std::lock_guard<std::mutex> lock(mutex_);
    running_ = stopped_ = false;
  }

 private:
  int Start() {
    // A handler of the program's must not find itself on a thread that it does not know.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(
        &thread_, nullptr,
        [](void* worker) -> void* {
          static_cast<Worker*>(worker)->Work();
          return nullptr;
        },
        this);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (error != 0) return error;
    running_ = true;
    pthread_setname_np(thread_, "qnnrt-run");
    return 0;
  }

  void Work() {
    for (;;) {
      Execution* execution;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return first_ != nullptr || stopped_; });
        execution = first_;
        if (execution == nullptr) return;
        first_ = execution->next;
        if (first_ == nullptr) end_ = &first_;
      }
      Completion* completion = execution->completion;
      Qnn_NotifyStatus_t status{};
      {
        std::lock_guard<FairMutex> lock(*execution->one_at_a_time);
        status.error = execution->execute(execution->graph, execution->inputs,
                                          execution->num_inputs, execution->outputs,
                                          execution->num_outputs, nullptr, execution->signal);
      }
      NotifyCallback(completion, status);  // from here on the execution may be gone
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Execution* first_ = nullptr;
  Execution** end_ = &first_;
  pthread_t thread_{};
  bool running_ = false, stopped_ = false;
};

}  // namespace qnnrt::client
