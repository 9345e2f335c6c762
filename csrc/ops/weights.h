// Where kernels get the form of static inputs that they keep: packed when a graph is prepared,
// mapped when it comes from a context binary. What a kernel asks for is known by its node and by
// the input that it stands for, so that a kernel gets its own whichever is made first. Of several
// for one input of a node the order says which is which.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ir/tensor.h"
#include "ops/op.h"
#include "support/status.h"
#include "support/threads.h"

namespace qnnrt {

class WeightStore {
 public:
  using Fill = FunctionRef<Status(void*)>;
  virtual ~WeightStore() = default;
  // `size` bytes on a 64-byte boundary that stand for a node's input (for its number; of several
  // inputs as one, the first's; a bias that is left out has one, too), lying as `layout` says:
  // everything that their meaning depends on beside the node itself, in words. `fill` writes all of
  // them; it is not called when they are there already. Nodes that differ in the shapes of tensors
  // without data alone share what they pack: `from` tells what fill reads apart where it is chosen
  // by such a shape. Errors: 1002, those of fill, 1008 what is there lies in another way.
  virtual Result<SharedBytes> Packed(size_t input, uint64_t size, const std::string& layout,
                                     Fill fill, const std::string& from) = 0;
};

// From the store of the options; without one the bytes are the kernel's alone.
Result<SharedBytes> PackWeights(const KernelOptions& options, size_t input, uint64_t size,
                                const std::string& layout, WeightStore::Fill fill,
                                const std::string& from = std::string());

}  // namespace qnnrt
