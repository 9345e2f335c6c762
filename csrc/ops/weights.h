// Where kernels get the form of static inputs that they keep: packed when a graph is prepared,
// mapped when it comes from a context binary. Kernels ask in the order in which they are made, and
// for the same things however often a node is prepared: that is how the two meet.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ir/tensor.h"
#include "ops/op.h"
#include "support/status.h"
#include "support/threads.h"

namespace qnnrt {

using SharedBytes = std::shared_ptr<const AlignedBytes>;

class WeightStore {
 public:
  using Fill = FunctionRef<Status(void*)>;
  virtual ~WeightStore() = default;
  // `size` bytes on a 64-byte boundary, lying as `layout` says: everything that their meaning
  // depends on beside the node itself, in words. `fill` writes all of them; it is not called when
  // they are there already. Errors: 1002, those of fill, 1008 what is there lies in another way.
  virtual Result<SharedBytes> Packed(uint64_t size, const std::string& layout, Fill fill) = 0;
};

// From the store of the options; without one the bytes are the kernel's alone.
Result<SharedBytes> PackWeights(const KernelOptions& options, uint64_t size,
                                const std::string& layout, WeightStore::Fill fill);

}  // namespace qnnrt
