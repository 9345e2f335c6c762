#include "ops/weights.h"

#include "ops/rules.h"

namespace qnnrt {

Result<SharedBytes> PackWeights(const KernelOptions& options, size_t input, uint64_t size,
                                const std::string& layout, WeightStore::Fill fill,
                                const std::string& from) {
  if (options.weights != nullptr) return options.weights->Packed(input, size, layout, fill, from);
  std::shared_ptr<AlignedBytes> bytes = AlignedBytes::Make(size);
  if (bytes == nullptr) return OutOfMemory();
  QNNRT_RETURN_IF_ERROR(fill(bytes->data()));
  return SharedBytes(std::move(bytes));
}

}  // namespace qnnrt
