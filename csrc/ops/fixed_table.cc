// Which ops have kernels that compute on fixed-point numbers as they are.
#include <string>
#include <unordered_map>

#include "abi/qnn_op_names.h"
#include "ops/fixed_kernels.h"

namespace qnnrt {

Result<KernelPtr> MakeFixedKernel(const Node& node, const KernelOptions& options) {
  // never freed: kernels may still be asked for while the process exits
  static const auto* const table = new std::unordered_map<std::string, MakeKernelFn>{
      {QNN_OP_CONVERT, MakeFixedConvert},
      {QNN_OP_DEQUANTIZE, MakeFixedConvert},
      {QNN_OP_QUANTIZE, MakeFixedConvert},
  };
  const auto entry = table->find(node.type);
  return entry == table->end() ? KernelPtr() : entry->second(node, options);
}

}  // namespace qnnrt
