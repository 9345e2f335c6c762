// Which families have fast kernels, and when they are asked.
#include "ops/dynamic/dynamic.h"
#include "ops/onednn/fixed/split16.h"
#include "ops/onednn/kernel.h"
#include "ops/op.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <algorithm>
#include <cstring>

namespace qnnrt {
namespace {

struct Entry {
  const char* type;
  MakeKernelFn make;
  MakeKernelFn make_fixed = nullptr;
  MakeKernelFn make_integer = nullptr;  // of an op of plain integers
};

constexpr Entry kEntries[] = {
    {"Conv1d", onednn::MakeConv, onednn::MakeFixedConv},
    {"Conv2d", onednn::MakeConv, onednn::MakeFixedConv},
    {"Conv3d", onednn::MakeConv, onednn::MakeFixedConv},
    {"DepthWiseConv1d", onednn::MakeConv, onednn::MakeFixedConv},
    {"DepthWiseConv2d", onednn::MakeConv, onednn::MakeFixedConv},
    {"TransposeConv2d", onednn::MakeTransposeConv, onednn::MakeFixedTransposeConv},
    {"TransposeConv3d", onednn::MakeTransposeConv, onednn::MakeFixedTransposeConv},
    {"FullyConnected", onednn::MakeFullyConnected, onednn::MakeFixedFullyConnected},
    {"MatMul", onednn::MakeMatMul, onednn::MakeFixedMatMul},
    {kIntegerConv2d, nullptr, nullptr, onednn::MakeIntegerConv2d},
    {kIntegerMatMul, nullptr, nullptr, onednn::MakeIntegerMatMul},
    {"PoolAvg2d", onednn::MakePool},
    {"PoolAvg3d", onednn::MakePool},
    {"PoolMax2d", onednn::MakePool},
    {"PoolMax3d", onednn::MakePool},
    {"Lrn", onednn::MakeLrn},
};

bool IsEmpty(const std::vector<const Tensor*>& tensors) {
  for (const Tensor* tensor : tensors) {
    if (tensor != nullptr && tensor->elements() == 0) return true;
  }
  return false;
}

bool HasFixed(const std::vector<const Tensor*>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const Tensor* t) { return t != nullptr && IsFixed(t->dtype); });
}

}  // namespace

Result<KernelPtr> MakeOneDnnKernel(const Node& node, const KernelOptions& options) {
  if (options.portable_only) return KernelPtr();
  for (const Entry& entry : kEntries) {
    if (node.type != entry.type) continue;
    if (IsEmpty(node.inputs) || IsEmpty(node.outputs)) return KernelPtr();
    if (entry.make_integer != nullptr) {
      return onednn::Load() == nullptr ? KernelPtr() : entry.make_integer(node, options);
    }
    const bool fixed = HasFixed(node.inputs);
    if (!fixed && !IsFloat(node.inputs[0]->dtype)) return KernelPtr();
    if (fixed && entry.make_fixed == nullptr) return KernelPtr();
    // These load the library if it has a kernel.
    if (!fixed) return entry.make(node, options);
    QNNRT_ASSIGN_OR_RETURN(KernelPtr split, onednn::MakeSplit16(node, options));
    if (split) return split;
    return entry.make_fixed(node, options);
  }
  return KernelPtr();
}

}  // namespace qnnrt

#else

namespace qnnrt {

Result<KernelPtr> MakeOneDnnKernel(const Node&, const KernelOptions&) { return KernelPtr(); }

}  // namespace qnnrt

#endif  // QNNRT_ONEDNN_HEADERS
