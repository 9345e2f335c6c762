// Elementwise ops of one input on fixed-point numbers. Of 8 bits there are 256: the float kernel
// computes them all when the node is prepared, and what remains is to look them up. Of 16 bits that
// much is done too where there are more elements than that, or where the op turns out to limit
// codes and nothing else; other ops run in float, block by block in the first cache.
#include <algorithm>

#include "ops/fixed/codec.h"
#include "ops/fixed/kernels.h"
#include "ops/isa.h"
#include "ops/lookup.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

constexpr size_t kBlock = 1024;       // elements of a block, on the stack
constexpr size_t kGrain = 32 * 1024;  // elements worth a thread

// The op's float kernel over kBlock elements.
class FloatBlock {
 public:
  static Result<FloatBlock> Make(const Node& node, const KernelOptions& options) {
    FloatBlock block;
    Node wide = node;
    Tensor tensors[2] = {*node.inputs[0], *node.outputs[0]};
    for (Tensor& tensor : tensors) {
      tensor.shape = {kBlock};
      tensor.quantization = {};
      tensor.data.reset();
      if (Codec::Needs(tensor)) tensor.dtype = QNN_DATATYPE_FLOAT_32;
    }
    wide.inputs = {&tensors[0]};
    wide.outputs = {&tensors[1]};
    KernelOptions alone = options;
    alone.threads = 1;
    alone.weights = nullptr;
    QNNRT_ASSIGN_OR_RETURN(block.kernel_, FindOp(node.type)->portable(wide, alone));
    if (block.kernel_ && block.kernel_->ScratchBytes() != 0) block.kernel_.reset();
    return block;
  }
  explicit operator bool() const { return kernel_ != nullptr; }

  Status Run(const float* in, void* out) const {
    const void* const ins[] = {in};
    void* const outs[] = {out};
    return kernel_->Run({ins, outs, nullptr, Threads(1)});
  }

 private:
  KernelPtr kernel_;
};

class InBlocks final : public Kernel {
 public:
  InBlocks(const Node& node, FloatBlock block)
      : block_(std::move(block)),
        in_(*node.inputs[0]),
        out_(*node.outputs[0]),
        truth_(node.outputs[0]->dtype == QNN_DATATYPE_BOOL_8),
        count_(node.inputs[0]->elements()) {}

  Status Run(const ExecArgs& args) override {
    args.threads.For(count_, kGrain, [&](size_t begin, size_t end) {
      alignas(64) float values[kBlock] = {};
      alignas(64) float results[kBlock];
      for (size_t i = begin; i < end; i += kBlock) {
        const size_t count = std::min(kBlock, end - i);
        in_.Read(args.in[0], i, count, values);
        (void)block_.Run(values, results);  // nothing in the data makes an elementwise op fail
        if (truth_) {
          std::memcpy(static_cast<uint8_t*>(args.out[0]) + i, results, count);
        } else {
          out_.Write(results, args.out[0], i, count);
        }
      }
    });
    return {};
  }

 private:
  const FloatBlock block_;
  const Codec in_, out_;
  const bool truth_;
  const size_t count_;
};

// ---- 8 bits: a table ----

class Table final : public Kernel {
 public:
  explicit Table(const Node& node)
      : count_(node.inputs[0]->elements()), table_(ElementSize(node.outputs[0]->dtype)) {}

  ByteTable& table() { return table_; }

  Status Run(const ExecArgs& args) override {
    table_.Run(args.threads, args.in[0], args.out[0], count_);
    return {};
  }

 private:
  const size_t count_;
  ByteTable table_;
};

// Codes number `first` to first + kBlock as the elements of the input's type, results for them.
Status Evaluate(const Node& node, const FloatBlock& block, size_t first, size_t count, void* out) {
  const Tensor &in_tensor = *node.inputs[0], &out_tensor = *node.outputs[0];
  alignas(64) float values[kBlock] = {};
  alignas(64) float results[kBlock];
  uint16_t codes[kBlock];
  uint8_t* bytes = reinterpret_cast<uint8_t*>(codes);
  for (size_t i = 0; i < count; ++i) {
    if (ElementSize(in_tensor.dtype) == 1) {
      bytes[i] = static_cast<uint8_t>(first + i);
    } else {
      codes[i] = static_cast<uint16_t>(first + i);
    }
  }
  Codec(in_tensor).Read(codes, 0, count, values);
  QNNRT_RETURN_IF_ERROR(block.Run(values, results));
  if (out_tensor.dtype == QNN_DATATYPE_BOOL_8) {
    std::memcpy(out, results, count);
  } else {
    Codec(out_tensor).Write(results, out, 0, count);
  }
  return {};
}

// ---- 16 bits: a table, or limits ----

class WordTable final : public Kernel {
 public:
  static Result<KernelPtr> Make(const Node& node, const FloatBlock& block) {
    const size_t entry_size = ElementSize(node.outputs[0]->dtype);
    auto entries = AlignedBytes::Make(kWords * entry_size);
    if (entries == nullptr) return Error(QNN_GRAPH_ERROR_MEM_ALLOC, "out of memory for a table");
    for (size_t i = 0; i < kWords; i += kBlock) {
      void* at = static_cast<char*>(entries->data()) + i * entry_size;
      QNNRT_RETURN_IF_ERROR(Evaluate(node, block, i, kBlock, at));
    }
    return KernelPtr(std::make_unique<WordTable>(node, std::move(entries), entry_size));
  }
  WordTable(const Node& node, std::shared_ptr<AlignedBytes> entries, size_t entry_size)
      : entry_size_(entry_size), count_(node.inputs[0]->elements()), entries_(std::move(entries)) {}

  Status Run(const ExecArgs& args) override {
    LookUpWords(args.threads, entries_->data(), entry_size_, args.in[0], args.out[0], count_);
    return {};
  }

 private:
  const size_t entry_size_, count_;
  const std::shared_ptr<AlignedBytes> entries_;
};

template <typename T>
struct Limit {
  static QNNRT_INLINE void Run(const void* in, void* out, size_t n, int32_t low, int32_t high) {
    const T* x = static_cast<const T*>(in);
    T* o = static_cast<T*>(out);
    const T least = static_cast<T>(low), most = static_cast<T>(high);
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) o[i] = std::min(std::max(x[i], least), most);
  }
};
using LimitFn = void (*)(const void*, void*, size_t, int32_t, int32_t);

class Limits final : public Kernel {
 public:
  Limits(const Node& node, LimitFn run, int32_t low, int32_t high)
      : run_(run), low_(low), high_(high), count_(node.inputs[0]->elements()) {}

  Status Run(const ExecArgs& args) override {
    const uint16_t* in = static_cast<const uint16_t*>(args.in[0]);
    uint16_t* out = static_cast<uint16_t*>(args.out[0]);
    args.threads.For(count_, kGrain, [&](size_t begin, size_t end) {
      run_(in + begin, out + begin, end - begin, low_, high_);
    });
    return {};
  }

 private:
  const LimitFn run_;
  const int32_t low_, high_;
  const size_t count_;
};

// The op as limits of T's codes; null where it does more than that.
template <typename T>
Result<KernelPtr> MakeLimits(const Node& node, const FloatBlock& block) {
  constexpr size_t kCodes = 65536;
  std::vector<T> all(kCodes);
  for (size_t i = 0; i < kCodes; i += kBlock) {
    QNNRT_RETURN_IF_ERROR(Evaluate(node, block, i, kBlock, &all[i]));
  }
  const auto [low, high] = std::minmax_element(all.begin(), all.end());
  const T least = *low, most = *high;
  for (size_t i = 0; i < kCodes; ++i) {
    if (all[i] != std::min(std::max(static_cast<T>(i), least), most)) return KernelPtr();
  }
  return KernelPtr(std::make_unique<Limits>(node, PickIsa<Limit<T>>(), least, most));
}

}  // namespace

Result<KernelPtr> MakeFixedUnary(const Node& node, const KernelOptions& options) {
  const Tensor &in = *node.inputs[0], &out = *node.outputs[0];
  const bool truth = out.dtype == QNN_DATATYPE_BOOL_8;
  if (!IsFixed(in.dtype) || (!IsFixed(out.dtype) && !truth) || !node.post_ops.empty()) {
    return KernelPtr();
  }
  QNNRT_ASSIGN_OR_RETURN(FloatBlock block, FloatBlock::Make(node, options));
  if (!block) return KernelPtr();
  const size_t in_size = ElementSize(in.dtype), out_size = ElementSize(out.dtype);
  const bool one_scale = OneScale(in.quantization) && OneScale(out.quantization);
  if (one_scale && in_size == 1 && out_size <= 2) {
    auto table = std::make_unique<Table>(node);
    QNNRT_RETURN_IF_ERROR(Evaluate(node, block, 0, 256, table->table().entries()));
    return KernelPtr(std::move(table));
  }
  if (one_scale && in_size == 2 && in.dtype == out.dtype && SameEncoding(in, out)) {
    const bool is_signed = in.dtype == QNN_DATATYPE_SFIXED_POINT_16;
    QNNRT_ASSIGN_OR_RETURN(KernelPtr limits, is_signed ? MakeLimits<int16_t>(node, block)
                                                       : MakeLimits<uint16_t>(node, block));
    if (limits) return limits;
  }
  if (one_scale && in_size == 2 && out_size <= 2 && in.elements() >= 2 * kWords)
    return WordTable::Make(node, block);
  return KernelPtr(std::make_unique<InBlocks>(node, std::move(block)));
}

}  // namespace qnnrt
