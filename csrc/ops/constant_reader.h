// A kernel that reads much constant memory when it runs, some of it while the one before it ends.
#pragma once

#include <algorithm>

#include "ops/simd.h"
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
  // Of panels that one row is multiplied by, kRowPanels at a time.
  static void AddPanels(const void* packed, size_t panel_bytes, size_t panels, size_t share,
                        size_t shares, NextReads* to) {
    const size_t first = share * panels / shares, end = std::min(panels, first + kRowPanels);
    for (size_t i = first; i < end; ++i)
      to->Add(static_cast<const char*>(packed) + i * panel_bytes, panel_bytes);
  }
  const void* const* in() const { return in_; }
  const Reader* next() const { return next_; }

 private:
  const void* const* in_ = nullptr;
  const Reader* next_ = nullptr;
};

}  // namespace qnnrt
