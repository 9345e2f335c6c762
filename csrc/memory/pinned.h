// A buffer that a call works on.
#pragma once

#include "memory/memory.h"

namespace qnnrt {

// Keeps the buffer of a handle from being closed while it lives; none where there is no such
// buffer.
class Pinned {
 public:
  explicit Pinned(qnnrt_buffer_t handle) : b_(Memory::Get().buffers().Pin(handle)) {}
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned() {
    if (b_) Memory::Get().buffers().Unpin(b_);
  }
  explicit operator bool() const { return b_ != nullptr; }
  Buffer* operator->() const { return b_; }
  Buffer* get() const { return b_; }

 private:
  Buffer* b_;
};

}  // namespace qnnrt
