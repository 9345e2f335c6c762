// Which families have fast kernels, and when they are asked.
#include "ops/onednn/kernel.h"
#include "ops/onednn/split16.h"
#include "ops/op.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <cstring>

namespace qnnrt {
namespace {

struct Entry {
  const char* type;
  MakeKernelFn make;
};

constexpr Entry kEntries[] = {
    {"Conv1d", onednn::MakeConv},
    {"Conv2d", onednn::MakeConv},
    {"Conv3d", onednn::MakeConv},
    {"DepthWiseConv1d", onednn::MakeConv},
    {"DepthWiseConv2d", onednn::MakeConv},
    {"TransposeConv2d", onednn::MakeTransposeConv},
    {"FullyConnected", onednn::MakeFullyConnected},
    {"MatMul", onednn::MakeMatMul},
    {"PoolAvg2d", onednn::MakePool},
    {"PoolAvg3d", onednn::MakePool},
    {"PoolMax2d", onednn::MakePool},
    {"PoolMax3d", onednn::MakePool},
    {"Softmax", onednn::MakeSoftmax},
    {"LogSoftmax", onednn::MakeSoftmax},
    {"Lrn", onednn::MakeLrn},
};

bool IsEmpty(const std::vector<const Tensor*>& tensors) {
  for (const Tensor* tensor : tensors) {
    if (tensor != nullptr && tensor->elements() == 0) return true;
  }
  return false;
}

}  // namespace

Result<KernelPtr> MakeOneDnnKernel(const Node& node, const KernelOptions& options) {
  if (options.portable_only) return KernelPtr();
  for (const Entry& entry : kEntries) {
    if (node.type != entry.type) continue;
    if (IsEmpty(node.inputs) || IsEmpty(node.outputs)) return KernelPtr();
    if (onednn::Load() == nullptr) return KernelPtr();
    QNNRT_ASSIGN_OR_RETURN(KernelPtr split, onednn::MakeSplit16(node, options));
    if (split) return split;
    return entry.make(node, options);
  }
  return KernelPtr();
}

}  // namespace qnnrt

#else

namespace qnnrt {

Result<KernelPtr> MakeOneDnnKernel(const Node&, const KernelOptions&) { return KernelPtr(); }

}  // namespace qnnrt

#endif  // QNNRT_ONEDNN_HEADERS
