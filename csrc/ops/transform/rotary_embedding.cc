// RotaryEmbedding: pairs of elements of each head turned by the angle of their position. Defined as
// ONNX's operator of that name on an input of rank 4, whose caches have been looked up already.
#include <cstring>

#include "abi/qnn_op_names.h"
#include "ops/isa.h"
#include "ops/rules.h"
#include "ops/transform/transform.h"

namespace qnnrt {
namespace {

constexpr size_t kRotaryGrain = 16 * 1024;  // worth a thread

// The first with the second half of what is turned, or neighbours.
struct Halves {
  static QNNRT_INLINE void Run(const float* x, const float* cosine, const float* sine, float* out,
                               size_t pairs) {
    QNNRT_SIMD
    for (size_t i = 0; i < pairs; ++i) {
      const float a = x[i], b = x[pairs + i];
      out[i] = cosine[i] * a - sine[i] * b;
      out[pairs + i] = sine[i] * a + cosine[i] * b;
    }
  }
};
struct Neighbours {
  static QNNRT_INLINE void Run(const float* x, const float* cosine, const float* sine, float* out,
                               size_t pairs) {
    QNNRT_SIMD
    for (size_t i = 0; i < pairs; ++i) {
      const float a = x[2 * i], b = x[2 * i + 1];
      out[2 * i] = cosine[i] * a - sine[i] * b;
      out[2 * i + 1] = sine[i] * a + cosine[i] * b;
    }
  }
};

size_t Turned(const Node& node) {
  const int64_t given = node.Int(QNN_OP_ROTARY_EMBEDDING_PARAM_ROTARY_EMBEDDING_DIM);
  return given == 0 ? node.inputs[0]->shape[3] : static_cast<size_t>(given);
}

class RotaryKernel final : public Kernel {
 public:
  explicit RotaryKernel(const Node& node)
      : shape_(node.inputs[0]->shape),
        turned_(Turned(node)),
        row_(node.Bool(QNN_OP_ROTARY_EMBEDDING_PARAM_INTERLEAVED) ? PickIsa<Neighbours>()
                                                                  : PickIsa<Halves>()) {}

  Status Run(const ExecArgs& args) override {
    const float* in = static_cast<const float*>(args.in[0]);
    const float* cosine = static_cast<const float*>(args.in[1]);
    const float* sine = static_cast<const float*>(args.in[2]);
    float* out = static_cast<float*>(args.out[0]);
    const size_t heads = shape_[1], places = shape_[2], size = shape_[3], pairs = turned_ / 2;
    const size_t rows = shape_[0] * heads * places;
    args.threads.For(rows, 1 + kRotaryGrain / size, [&](size_t begin, size_t end) {
      for (size_t row = begin; row < end; ++row) {
        const size_t angle = (row / places / heads * places + row % places) * pairs;
        row_(in + row * size, cosine + angle, sine + angle, out + row * size, pairs);
        std::memcpy(out + row * size + turned_, in + row * size + turned_,
                    (size - turned_) * sizeof(float));
      }
    });
    return {};
  }

 private:
  const Shape shape_;
  const size_t turned_;
  void (*const row_)(const float*, const float*, const float*, float*, size_t);
};

Status RotaryEmbeddingShape(const Node& node, std::vector<Shape>* outputs) {
  const Shape& in = node.inputs[0]->shape;
  if (in[3] == 0) return Invalid("input 0 has heads without elements");
  const char* param = QNN_OP_ROTARY_EMBEDDING_PARAM_ROTARY_EMBEDDING_DIM;
  QNNRT_RETURN_IF_ERROR(CheckRange(param, node.Int(param), 0, in[3]));
  const size_t turned = Turned(node);
  if (turned % 2 != 0) {
    return Invalid("%zu elements of a head are to be turned; it must be an even number", turned);
  }
  const Shape angles = {in[0], in[2], static_cast<uint32_t>(turned / 2)};
  QNNRT_RETURN_IF_ERROR(CheckShape(node, 1, "cosines", angles));
  QNNRT_RETURN_IF_ERROR(CheckShape(node, 2, "sines", angles));
  return SameShapeAsInput(node, outputs);
}

Result<KernelPtr> MakeRotaryEmbedding(const Node& node, const KernelOptions&) {
  return KernelPtr(std::make_unique<RotaryKernel>(node));
}

}  // namespace

OpDef RotaryEmbeddingOp() {
  return {QNN_OP_ROTARY_EMBEDDING,
          {{"in[0]", types::kFloat, PortSpec::kOne, -1, 4, 4},
           {"in[1]", types::kFloat, PortSpec::kOne, 0, 3, 3},
           {"in[2]", types::kFloat, PortSpec::kOne, 0, 3, 3}},
          {{"out[0]", types::kFloat, PortSpec::kOne, 0, 4, 4}},
          {{QNN_OP_ROTARY_EMBEDDING_PARAM_INTERLEAVED, ParamSpec::kBool, Default(false),
            "true: neighbours are a pair; false: an element and the one half the turned ones on"},
           {QNN_OP_ROTARY_EMBEDDING_PARAM_ROTARY_EMBEDDING_DIM, ParamSpec::kInt, Default(0),
            "how many elements of a head are turned, from the first; 0: all"}},
          RotaryEmbeddingShape,
          MakeRotaryEmbedding};
}

}  // namespace qnnrt
