// What a QNN client needs beside the function table: a place for log lines, fork detection, a lock
// and completions. Header only; part of the binding, not of libqnnrt.so.
//
// Backends call back on threads of their own, at any time, even while the process goes down.
// Nothing here runs Python: lines and results are put down, and the binding collects them when it
// next holds the interpreter. So a callback never waits for the interpreter lock and never outlives
// it.
#pragma once

#include <pthread.h>

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

// A bounded queue: when nobody collects, the oldest lines go, and how many went is kept.
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
                     LogSink::Get().mutex().unlock();
                     g_generation.fetch_add(1, std::memory_order_relaxed);
                   });
  });
}

// ---- Asynchronous execution ----

// The outcome of one asynchronous call. Shared by the waiter and the backend's notification: each
// gives up its half with Release.
class Completion {
 public:
  void Set(uint64_t error) {
    std::lock_guard<std::mutex> lock(mutex_);
    error_ = error;
    done_ = true;
    changed_.notify_all();
  }
  uint64_t Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
    return error_;
  }
  void Release() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  uint64_t error_ = 0;
  std::atomic<int> references_{2};
};

inline void NotifyCallback(void* param, Qnn_NotifyStatus_t status) {
  auto* completion = static_cast<Completion*>(param);
  completion->Set(status.error);
  completion->Release();
}

}  // namespace qnnrt::client
