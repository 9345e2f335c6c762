// What a QNN client needs beside the function table: a queue of log lines, fork detection and
// completions. Header only; part of the binding, not of libqnnrt.so.
//
// Backends call back on threads of their own, at any time, even while the process exits. Nothing
// here runs Python: lines and results are queued, and the binding collects them when it next holds
// the interpreter. So a callback never waits for the interpreter lock and never outlives it.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <mutex>

#include "abi/qnn.h"
#include "support/clock.h"

namespace qnnrt::client {

// ---- Log ----

struct LogLine {
  uint64_t timestamp;
  uint32_t level;
  char text[1012];
};

// A bounded queue: when it is full the oldest lines are dropped and counted.
class LogSink {
 public:
  // Never destroyed: a backend may log from its own static destructors.
  static LogSink& Get() {
    static LogSink* sink = new LogSink;
    return *sink;
  }

  void Put(const char* format, uint32_t level, uint64_t timestamp, va_list args) {
    std::lock_guard<std::mutex> lock(mutex_);
    LogLine& line = lines_[(first_ + count_) % kLines];
    if (count_ == kLines) {
      first_ = (first_ + 1) % kLines;
      ++dropped_;
    } else {
      ++count_;
    }
    line.level = level;
    line.timestamp = timestamp;
    if (!format || std::vsnprintf(line.text, sizeof line.text, format, args) < 0) line.text[0] = 0;
    pending_.store(true, std::memory_order_release);
  }

  bool Take(LogLine* out) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (count_ == 0) {
      pending_.store(false, std::memory_order_relaxed);
      return false;
    }
    *out = lines_[first_];
    first_ = (first_ + 1) % kLines;
    --count_;
    return true;
  }

  uint64_t TakeDropped() {
    std::lock_guard<std::mutex> lock(mutex_);
    uint64_t n = dropped_;
    dropped_ = 0;
    return n;
  }

  bool pending() const { return pending_.load(std::memory_order_acquire); }
  std::mutex& mutex() { return mutex_; }
  void Clear() { first_ = count_ = 0; }

 private:
  static constexpr size_t kLines = 256;
  std::mutex mutex_;
  LogLine lines_[kLines];
  size_t first_ = 0, count_ = 0;
  uint64_t dropped_ = 0;
  std::atomic<bool> pending_{false};
};

inline void LogCallback(const char* format, QnnLog_Level_t level, uint64_t timestamp,
                        va_list args) {
  LogSink::Get().Put(format, static_cast<uint32_t>(level), timestamp, args);
}

// ---- Asynchronous execution ----

// The asynchronous executions of one owner that have not completed yet, and the time of all.
class Flight {
 public:
  void Begin() {
    std::lock_guard<std::mutex> lock(mutex_);
    count_.fetch_add(1, std::memory_order_relaxed);
  }
  void Cancel() { End(); }
  // Executions come one after another, so each took the time since the one before it was done, or
  // since its own call.
  void Done(uint64_t error, uint64_t called) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      const uint64_t now = Ticks::Now();
      if (error == 0) {
        ++executes_;
        ticks_ += now - std::max(called, last_done_);
      }
      last_done_ = now;
    }
    End();
  }
  void WaitUntilDone() {
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return count() == 0; });
  }
  uint32_t count() const { return count_.load(std::memory_order_acquire); }
  uint64_t executes() {
    std::lock_guard<std::mutex> lock(mutex_);
    return executes_;
  }
  uint64_t ticks() {
    std::lock_guard<std::mutex> lock(mutex_);
    return ticks_;
  }
  void ResetCounters() {
    std::lock_guard<std::mutex> lock(mutex_);
    executes_ = ticks_ = 0;
  }

 private:
  void End() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1) done_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable done_;
  std::atomic<uint32_t> count_{0};
  uint64_t executes_ = 0, ticks_ = 0, last_done_ = 0;
};

// One asynchronous execution: what its backend reported, for the thread that collects.
struct Completion {
  explicit Completion(void* its_owner) : owner(its_owner) {}
  void* const owner;         // the binding's; it frees this
  Flight* flight = nullptr;  // freed with the owner
  uint64_t called = 0;       // in ticks
  // Null: the backend's messages cannot be queried from its callback.
  QnnError_GetVerboseMessageFn_t get_message = nullptr;
  QnnError_FreeVerboseMessageFn_t free_message = nullptr;
  uint64_t error = 0;
  char text[500] = "";
  Completion* next = nullptr;
};

// Completed executions, in order of completion, until they are collected.
class Completions {
 public:
  // One for each process: a forked child has nothing of its parent's in flight.
  static Completions& Get() {
    Completions* all = instance_.load(std::memory_order_acquire);
    if (all != nullptr) return *all;
    auto* fresh = new Completions;  // never destroyed: backends may report at any time
    if (instance_.compare_exchange_strong(all, fresh, std::memory_order_acq_rel)) return *fresh;
    delete fresh;
    return *all;
  }
  static void ResetAfterFork() { instance_.store(nullptr, std::memory_order_release); }

  // False after Stop: nothing may be started any more.
  bool Begin() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stopped_) return false;
    ++outstanding_;
    return true;
  }
  void Cancel() {
    std::lock_guard<std::mutex> lock(mutex_);
    --outstanding_;
    changed_.notify_all();
  }
  void Put(Completion* completion) {
    std::lock_guard<std::mutex> lock(mutex_);
    *end_ = completion;
    end_ = &completion->next;
    changed_.notify_one();
  }
  // Waits for the next one. Null after Stop, when all have been collected.
  Completion* Take() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return first_ != nullptr || (stopped_ && outstanding_ == 0); });
    Completion* taken = first_;
    if (taken == nullptr) return nullptr;
    first_ = taken->next;
    if (first_ == nullptr) end_ = &first_;
    --outstanding_;
    return taken;
  }
  void Stop() {
    std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }

  // Whether the caller is to start the thread that takes them; it gives that back when it cannot.
  bool Claim() { return !claimed_.load(std::memory_order_acquire) && !claimed_.exchange(true); }
  void GiveBack() { claimed_.store(false); }
  bool Started() const { return claimed_.load(); }

  // The thread that takes them, said by itself.
  void SetTaker() { taker_.store(pthread_self()), has_taker_.store(true); }
  bool OnTaker() const { return has_taker_.load() && pthread_equal(taker_.load(), pthread_self()); }

 private:
  inline static std::atomic<Completions*> instance_{nullptr};
  std::mutex mutex_;
  std::condition_variable changed_;
  Completion* first_ = nullptr;
  Completion** end_ = &first_;
  uint64_t outstanding_ = 0;
  bool stopped_ = false;
  std::atomic<bool> claimed_{false};
  std::atomic<pthread_t> taker_{};
  std::atomic<bool> has_taker_{false};
};

inline void NotifyCallback(void* param, Qnn_NotifyStatus_t status) {
  auto* completion = static_cast<Completion*>(param);
  completion->error = status.error;
  const char* text = nullptr;
  // The backend's messages belong to the thread that failed, which is this one.
  if (status.error != 0 && completion->get_message != nullptr &&
      completion->get_message(status.error, &text) == 0 && text != nullptr) {
    std::snprintf(completion->text, sizeof completion->text, "%s", text);
    completion->free_message(text);
  }
  completion->flight->Done(status.error, completion->called);
  Completions::Get().Put(completion);
}

// ---- Fork ----

// How many forks lie between the process that loaded this and the calling one. Objects remember the
// value from when they were made: a comparison instead of getpid(), which is a system call.
inline std::atomic<uint32_t> g_generation{0};

inline uint32_t Generation() { return g_generation.load(std::memory_order_relaxed); }

inline void WatchForks() {
  static std::once_flag once;
  std::call_once(once, [] {
    LogSink::Get();
    // The child must not inherit a lock that a thread it does not have was holding.
    pthread_atfork([] { LogSink::Get().mutex().lock(); }, [] { LogSink::Get().mutex().unlock(); },
                   [] {
                     LogSink::Get().Clear();
                     Completions::ResetAfterFork();
                     LogSink::Get().mutex().unlock();
                     g_generation.fetch_add(1, std::memory_order_relaxed);
                   });
  });
}

}  // namespace qnnrt::client
