// A kernel that reads much constant memory when it runs, some of it while the one before it ends.
#pragma once

#include "support/next_reads.h"

namespace qnnrt {

class ConstantReader : public Reader {
 public:
  // The inputs of this kernel's node, and what comes behind it in the same plan; null: nothing.
  void Follow(const void* const* in, const Reader* next) {
    in_ = in;
    next_ = next;
  }

 protected:
  ~ConstantReader() = default;
  const void* const* in() const { return in_; }
  const Reader* next() const { return next_; }

 private:
  const void* const* in_ = nullptr;
  const Reader* next_ = nullptr;
};

}  // namespace qnnrt
