// One oneDNN primitive as a kernel: descriptors, packing of static weights, post ops, execution.
#pragma once

#include "ops/onednn/loader.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "ops/op.h"
#include "ops/weights.h"
#include "support/threads.h"

namespace qnnrt::onednn {

// Owner of one object of the C API.
template <typename T, dnnl_status_t (*Api::*Destroy)(T)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T value) : value_(value) {}
  Handle(Handle&& other) noexcept : value_(std::exchange(other.value_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Handle() {
    if (value_ != nullptr) (TheApi().*Destroy)(value_);
  }
  T get() const { return value_; }
  T* out() { return &value_; }  // of an empty handle, for the functions that create
  explicit operator bool() const { return value_ != nullptr; }

 private:
  T value_ = nullptr;
};

using MemoryDescHandle = Handle<dnnl_memory_desc_t, &Api::memory_desc_destroy>;
using Memory = Handle<dnnl_memory_t, &Api::memory_destroy>;
using Attr = Handle<dnnl_primitive_attr_t, &Api::primitive_attr_destroy>;
using PostOpsHandle = Handle<dnnl_post_ops_t, &Api::post_ops_destroy>;
using PrimitiveDesc = Handle<dnnl_primitive_desc_t, &Api::primitive_desc_destroy>;
using Primitive = Handle<dnnl_primitive_t, &Api::primitive_destroy>;
using Stream = Handle<dnnl_stream_t, &Api::stream_destroy>;

using Dims = std::vector<int64_t>;

// How a tensor lies in memory, in oneDNN's order of dimensions.
class MemoryDesc {
 public:
  MemoryDesc() = default;  // none
  static MemoryDesc Strided(const Dims& dims, const Dims& strides, dnnl_data_type_t type);
  static MemoryDesc Dense(const Dims& dims, dnnl_data_type_t type);  // the last dimension is inmost
  static MemoryDesc Any(const Dims& dims, dnnl_data_type_t type);    // oneDNN's choice

  const_dnnl_memory_desc_t get() const { return handle_.get(); }
  explicit operator bool() const { return static_cast<bool>(handle_); }

 private:
  MemoryDescHandle handle_;
};

// Everything that the meaning of packed bytes depends on, for WeightStore: two descriptors with the
// same text hold the same bytes. A layout that oneDNN does not describe is known by its version.
std::string LayoutText(const_dnnl_memory_desc_t desc);

// Writes bytes, whose element at an index lies by the strides of `lying` (dense, of a tensor of
// this shape) or, where the tensor's elements have others, by these, as `wanted` says. The
// primitive that oneDNN has for it is code and descriptions that stay, some 12 KiB for each kind of
// weights. False, and nothing is written, where the description does not say all or padding ends
// within blocks.
bool PackBytes(const_dnnl_memory_desc_t lying, const Shape& shape,
               const std::vector<int64_t>& strides, const void* from,
               const_dnnl_memory_desc_t wanted, void* to, const Threads& threads);

// The types of a product's operands, where oneDNN has a primitive for them: all of one type, or
// BFLOAT_16 with a bias, a result and addends of FLOAT_32.
struct ProductTypes {
  dnnl_data_type_t in, bias, out;
  dnnl_data_type_t addend;  // undefined: that of the result
};
std::optional<ProductTypes> ProductTypesOf(const Node& node);

// QNN's channel-last order [N, spatial.., C] as oneDNN's [N, C, spatial..].
MemoryDesc ChannelLast(const Tensor& tensor, dnnl_data_type_t type);

// One argument of a primitive: which tensor of the node it is and how that lies in memory.
struct Arg {
  int id;  // DNNL_ARG_...
  enum Port : uint8_t { kIn, kOut } port;
  uint32_t index;
  const MemoryDesc* layout;
};

// One step of what follows the product, in oneDNN's terms.
struct ChainStep {
  dnnl_alg_kind_t kind;  // an eltwise one with alpha and beta, or a binary one with `input`
  float alpha = 0, beta = 0;
  int input = -1;                      // of the node
  const MemoryDesc* layout = nullptr;  // of that input
  bool in_place = false;               // it lies where the output does
};

// A value that a primitive reads beside the node's tensors: scales, a zero point, a folded bias.
struct Constant {
  int id;  // DNNL_ARG_...
  MemoryDesc layout;
  SharedBytes bytes;
};

// Such a value that is computed: an input of the node.
struct Operand {
  int id;  // DNNL_ARG_...
  MemoryDesc layout;
  uint32_t input;
};

// What a problem of integers has beside the tensors; fixed/encodings.h says how it is made.
struct IntegerProblem {
  bool scaled = true;            // whether weights have scales
  int scales_mask = 0;           // of those: which dimensions they differ by
  std::vector<int> zero_points;  // ids of the arguments that have one
  std::vector<Constant> constants;
  std::vector<Operand> operands;
  std::vector<ChainStep> chain;
  std::function<Status(int8_t*)> weights;  // writes static weights as they enter the product
  bool as_stored = false;                  // which is as they are stored
};

struct Problem {
  const Node& node;
  int threads;  // for this node, from ThreadsFor
  std::vector<Arg> args;
  const MemoryDesc* output;        // layout of output 0, which post ops are applied to
  WeightStore* weights = nullptr;  // where packed static inputs come from
  const IntegerProblem* integers = nullptr;
  // Layout of what is added to output 0 where it is stored otherwise: as FLOAT_32 to BFLOAT_16 or
  // the other way round. Null: both have one type.
  const MemoryDesc* addend = nullptr;
};

// The post ops of a node of which the output lies so.
std::vector<ChainStep> PostOpChain(const Node& node, const MemoryDesc* output,
                                   const MemoryDesc* addend = nullptr);

// oneDNN's name of what computes it; "" when it does not say.
const char* ImplementationName(const_dnnl_primitive_desc_t desc);

// Describes the primitive with the given attributes.
using CreateDesc = FunctionRef<dnnl_status_t(dnnl_primitive_desc_t*, const_dnnl_primitive_attr_t)>;

// The kernel, or null when oneDNN has no optimized implementation for the problem. Static inputs
// for which the implementation wants another layout are packed here. Post ops that it does not take
// are applied in a second pass over the output.
Result<KernelPtr> MakePrimitiveKernel(const Problem& problem, CreateDesc create);

// Another kernel of the primitive and the packed weights of one that MakePrimitiveKernel made,
// which it must not outlive: it may run at the same time, since what a run is given is its own.
Result<KernelPtr> MakeBeside(const Kernel& made);

// How many threads a node is worth that does so many multiply-adds, on top of reading its inputs
// and writing its outputs.
int ThreadsFor(const Node& node, const KernelOptions& options, double multiply_adds);

// The same from the parts: multiply-adds of floats, and activations to move.
int ThreadsForWork(const KernelOptions& options, double multiply_adds, double elements);

// FLOAT_32 -> dnnl_f32, ...; dnnl_data_type_undef for a type that no kernel here takes.
dnnl_data_type_t DataType(const Tensor& tensor);
// The optional bias at input 2; null when it is omitted. An input that a merged add brought does
// not count, even if it has that index.
const Tensor* Bias(const Node& node);
// The one element type of every given tensor of the node; undef when they differ.
dnnl_data_type_t CommonType(std::initializer_list<const Tensor*> tensors);

// ---- the families ------------------------------------------------------------------------------

Result<KernelPtr> MakeConv(const Node& node, const KernelOptions& options);
Result<KernelPtr> MakeTransposeConv(const Node& node, const KernelOptions& options);
Result<KernelPtr> MakeFullyConnected(const Node& node, const KernelOptions& options);
Result<KernelPtr> MakeMatMul(const Node& node, const KernelOptions& options);
Result<KernelPtr> MakePool(const Node& node, const KernelOptions& options);
Result<KernelPtr> MakeLrn(const Node& node, const KernelOptions& options);

// The same on fixed-point numbers.
Result<KernelPtr> MakeFixedConv(const Node& node, const KernelOptions& options);
Result<KernelPtr> MakeFixedTransposeConv(const Node& node, const KernelOptions& options);
Result<KernelPtr> MakeFixedFullyConnected(const Node& node, const KernelOptions& options);
Result<KernelPtr> MakeFixedMatMul(const Node& node, const KernelOptions& options);

// The internal ops of dynamic quantization.
Result<KernelPtr> MakeIntegerMatMul(const Node& node, const KernelOptions& options);
Result<KernelPtr> MakeIntegerConv2d(const Node& node, const KernelOptions& options);

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
