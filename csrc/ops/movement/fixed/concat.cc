// Concat and Pack of fixed-point inputs whose encodings differ: each row is requantized on its way
// to its offset, or copied where it has the output's encoding already.
#include <algorithm>
#include <cstring>

#include "abi/qnn_op_names.h"
#include "ops/fixed/kernels.h"
#include "ops/fixed/requantize.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

constexpr size_t kConcatGrain = 64 * 1024;  // elements worth a thread
constexpr size_t kManyRows = 16;            // from here on threads share rows, not elements
constexpr size_t kBlockBytes = 16 * 1024;   // of the output, which stay in the first cache

class FixedConcat final : public Kernel {
 public:
  FixedConcat(const Node& node, size_t outer) : outer_(outer) {
    const size_t to_size = ElementSize(node.outputs[0]->dtype);
    for (const Tensor* input : node.inputs) {
      const size_t row = outer == 0 ? 0 : input->elements() / outer;
      const bool same = SameEncoding(*input, *node.outputs[0]);
      parts_.push_back({row, row_ * to_size, ElementSize(input->dtype), same,
                        same ? Requantizer() : Requantizer(*input, *node.outputs[0])});
      row_ += row;
    }
    out_row_bytes_ = row_ * to_size;
  }

  Status Run(const ExecArgs& args) override {
    char* out = static_cast<char*>(args.out[0]);
    if (outer_ >= kManyRows) {
      args.threads.For(outer_, 1 + kConcatGrain / (row_ + 1), [&](size_t begin, size_t end) {
        const size_t block = 1 + kBlockBytes / (out_row_bytes_ + 1);
        for (size_t o = begin; o < end; o += block) {
          for (size_t i = 0; i < parts_.size(); ++i) {
            Rows(parts_[i], args.in[i], out, o, std::min(block, end - o));
          }
        }
      });
      return {};
    }
    for (size_t o = 0; o < outer_; ++o) {
      for (size_t i = 0; i < parts_.size(); ++i) {
        args.threads.For(parts_[i].row, kConcatGrain, [&](size_t begin, size_t end) {
          Piece(parts_[i], args.in[i], out, o, begin, end);
        });
      }
    }
    return {};
  }

 private:
  struct Part {
    size_t row;     // elements of one row
    size_t offset;  // in the row of the output, in bytes
    size_t element_size;
    bool same;
    Requantizer requantizer;
  };

  // Elements [begin, end) of row `o` of one input.
  void Piece(const Part& part, const void* in, char* out, size_t o, size_t begin,
             size_t end) const {
    const char* from = static_cast<const char*>(in) + o * part.row * part.element_size;
    char* to = out + o * out_row_bytes_ + part.offset;
    if (!part.same) return part.requantizer.Run(from, to, begin, end);
    std::memcpy(to + begin * part.element_size, from + begin * part.element_size,
                (end - begin) * part.element_size);
  }

  // Rows [o, o + rows) of one input.
  void Rows(const Part& part, const void* in, char* out, size_t o, size_t rows) const {
    const char* from = static_cast<const char*>(in) + o * part.row * part.element_size;
    char* to = out + o * out_row_bytes_ + part.offset;
    if (!part.same) return part.requantizer.RunRows(from, to, part.row, rows, out_row_bytes_);
    const size_t bytes = part.row * part.element_size;
    for (size_t r = 0; r < rows; ++r) std::memcpy(to + r * out_row_bytes_, from + r * bytes, bytes);
  }

  const size_t outer_;
  size_t row_ = 0, out_row_bytes_ = 0;  // of the output
  std::vector<Part> parts_;
};

}  // namespace

Result<KernelPtr> MakeFixedConcat(const Node& node, const KernelOptions&) {
  for (const auto* ports : {&node.inputs, &node.outputs}) {
    for (const Tensor* tensor : *ports) {
      if (!OneScale(tensor->quantization)) return KernelPtr();
    }
  }
  const bool pack = node.type == QNN_OP_PACK;
  const size_t rank = node.inputs[0]->shape.size();
  QNNRT_ASSIGN_OR_RETURN(const size_t axis, GetAxis(node, "axis", rank + (pack ? 1 : 0)));
  const size_t outer = Product(node.outputs[0]->shape, 0, axis);
  return KernelPtr(std::make_unique<FixedConcat>(node, outer));
}

}  // namespace qnnrt
