// What each thread has of its own. Not thread_local: the C library ends the process when it finds
// no memory for a thread's copy, or to note that the copy has a destructor.
#pragma once

#include <pthread.h>

#include <new>

#include "support/status.h"

namespace qnnrt {

// One object for each thread, made at its first use. Lives as long as the library.
template <typename T>
class PerThread {
 public:
  PerThread() : made_(pthread_key_create(&key_, &Delete) == 0) {}
  PerThread(const PerThread&) = delete;
  PerThread& operator=(const PerThread&) = delete;

  T* Find() const noexcept { return made_ ? static_cast<T*>(pthread_getspecific(key_)) : nullptr; }
  // Null without memory for it.
  T* Get() noexcept {
    T* own = Find();
    if (own != nullptr || !made_) return own;
    own = new (std::nothrow) T;
    if (own == nullptr || pthread_setspecific(key_, own) == 0) return own;
    delete own;
    return nullptr;
  }

 private:
  static void Delete(void* own) { delete static_cast<T*>(own); }
  pthread_key_t key_ = 0;
  const bool made_;
};

// The last error of each thread, for the calls that ask for its text.
class LastStatus {
 public:
  LastStatus() : made_(pthread_key_create(&key_, &Delete) == 0) {}
  LastStatus(const LastStatus&) = delete;
  LastStatus& operator=(const LastStatus&) = delete;

  // Where there is no memory for the text, the code is kept with "out of memory".
  void Set(const Status& status) noexcept {
    if (!made_) return;
    auto* own = static_cast<Status*>(pthread_getspecific(key_));
    if (own == nullptr || own == &Shortage()) {
      own = new (std::nothrow) Status;
      if (own == nullptr || pthread_setspecific(key_, own) != 0) {
        delete own;
        (void)pthread_setspecific(key_, &Shortage());
        return;
      }
    }
    const std::string& text = status.message();
    *own = text.empty() ? Status(status.code()) : Status(status.code(), text.c_str());
  }
  // Ok before the first error.
  const Status& Get() const noexcept {
    static const Status none;
    const void* own = made_ ? pthread_getspecific(key_) : nullptr;
    return own == nullptr ? none : *static_cast<const Status*>(own);
  }

 private:
  // Stands for the Status of a thread that has no memory for one.
  static Status& Shortage() noexcept {
    static Status status = Status::OutOfMemory();
    return status;
  }
  static void Delete(void* own) {
    if (own != &Shortage()) delete static_cast<Status*>(own);
  }
  pthread_key_t key_ = 0;
  const bool made_;
};

}  // namespace qnnrt
