// The commands of one execution, in their order whatever queue they are enqueued in.
#pragma once

#include <cstdint>
#include <vector>

#include "abi/qnnrt_opencl.h"

namespace qnnrt::opencl {

class Commands {
 public:
  // chained: the queue keeps no order, so each command waits for the event of the one before.
  // events: receives each command's event, for timestamps, and has room for all; null: no
  // timestamps.
  Commands(const Qnnrt_OpenClFunctions_t& cl, void* queue, bool chained, uint32_t flush_every,
           std::vector<void*>* events)
      : cl_(cl), queue_(queue), chained_(chained), flush_every_(flush_every), events_(events) {}
  Commands(const Commands&) = delete;
  ~Commands() {
    if (events_ != nullptr) {
      for (void* event : *events_)
        if (event != nullptr) cl_.releaseEvent(event);
      events_->clear();
    } else {
      ReleaseLast();
    }
    if (start_ != nullptr) cl_.releaseEvent(start_);
  }

  void* queue() const { return queue_; }
  bool chained() const { return chained_; }
  const std::vector<void*>* events() const { return events_; }
  uint32_t size() const { return size_; }

  // Before the first: it waits for everything that was enqueued before, in a queue without order.
  int32_t WaitForAll() {
    const int32_t status = cl_.enqueueBarrierWithWaitList(queue_, 0, nullptr, &start_);
    last_ = start_;
    return status;
  }

  // enqueue(num_events, events, event) gives OpenCL's code; the command waits for these events.
  template <typename F>
  int32_t Add(F enqueue) {
    void* event = nullptr;
    const uint32_t waits = chained_ && last_ != nullptr ? 1 : 0;
    const int32_t status = enqueue(waits, waits != 0 ? &last_ : nullptr,
                                   chained_ || events_ != nullptr ? &event : nullptr);
    if (status == 0) Added(event);
    return status;
  }

  // Commands that `call` enqueues itself, by one: nothing says what they wait for, so they wait for
  // all, and the next one for them. Sets *called to what it gives; OpenCL's code otherwise.
  template <typename F>
  int32_t AddCall(F call, bool* called) {
    int32_t status = 0;
    void* event = nullptr;
    if (chained_) status = cl_.enqueueBarrierWithWaitList(queue_, 0, nullptr, nullptr);
    if (status != 0) return status;
    if (!(*called = call())) return 0;
    if (chained_ || events_ != nullptr)
      status = cl_.enqueueBarrierWithWaitList(queue_, 0, nullptr, &event);
    if (status == 0) Added(event);
    return status;
  }

 private:
  void ReleaseLast() {
    if (last_ != nullptr && last_ != start_) cl_.releaseEvent(last_);
  }
  void Added(void* event) {
    if (events_ != nullptr) {
      events_->push_back(event);
    } else {
      ReleaseLast();
      last_ = start_;  // unless there is a newer one
    }
    if (event != nullptr) last_ = event;
    ++size_;
    if (flush_every_ != 0 && size_ % flush_every_ == 0) cl_.flush(queue_);
  }

  const Qnnrt_OpenClFunctions_t& cl_;
  void* const queue_;
  const bool chained_;
  const uint32_t flush_every_;
  std::vector<void*>* const events_;
  void* last_ = nullptr;   // what the next command waits for
  void* start_ = nullptr;  // the event before the first command
  uint32_t size_ = 0;
};

}  // namespace qnnrt::opencl
