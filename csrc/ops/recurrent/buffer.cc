// Buffer: collects the frames of several executions, and gives the last buffer_size of them.
#include <cstring>

#include "abi/qnn_op_names.h"
#include "abi/qnn_op_values.h"
#include "ops/fixed/kernels.h"
#include "ops/recurrent/recurrent.h"
#include "ops/rules.h"
#include "ops/strided_copy.h"

namespace qnnrt {
namespace {

constexpr size_t kReset = 1;
constexpr size_t kGrainBytes = 64 * 1024;

// Everything in frames but `outer` and `frame`.
struct BufferGeometry {
  size_t dim = 0;
  size_t outer = 1, frame = 0;  // windows; bytes of a frame of one window
  size_t in = 0;                // come with each execution
  size_t size = 0;              // of a full window
  size_t stride = 0;            // leave a full window before the next ones come
  size_t padding = 0;           // zeros that a blocking buffer begins with
  int64_t mode = QNN_OP_BUFFER_MODE_BLOCKING;
};

Status CheckFrames(const char* param, int64_t value, int64_t least, int64_t most, int64_t in) {
  QNNRT_RETURN_IF_ERROR(CheckRange(param, value, least, most));
  if (value % in == 0) return Status::Ok();
  return Invalid("param '%s' is %lld; it must be a multiple of the %lld frames of the input", param,
                 static_cast<long long>(value), static_cast<long long>(in));
}

Status CheckEncodings(const Tensor& in, const Tensor& out) {
  if (in.dtype != out.dtype || !SameEncoding(in, out)) {
    return Invalid(
        "'%s' and '%s' must have the same type and encoding: frames are kept as they are",
        in.name.c_str(), out.name.c_str());
  }
  if (!IsFixed(in.dtype) || in.quantization.per_tensor()) return Status::Ok();
  return Invalid("'%s' has scales along axis %d; frames have one scale", in.name.c_str(),
                 in.quantization.axis);
}

Result<BufferGeometry> ReadBuffer(const Node& node) {
  BufferGeometry g;
  const Shape& in = node.inputs[0]->shape;
  QNNRT_ASSIGN_OR_RETURN(g.dim, GetAxis(node, QNN_OP_BUFFER_PARAM_BUFFER_DIM, in.size()));
  g.in = in[g.dim];
  if (g.in == 0) return Invalid("the input has no frames along dim %zu", g.dim);
  const int64_t frames = static_cast<int64_t>(g.in);
  const int64_t size = node.Int(QNN_OP_BUFFER_PARAM_BUFFER_SIZE);
  QNNRT_RETURN_IF_ERROR(
      CheckFrames(QNN_OP_BUFFER_PARAM_BUFFER_SIZE, size, 1, int64_t{UINT32_MAX}, frames));
  const int64_t stride = node.Int(QNN_OP_BUFFER_PARAM_STRIDE);
  QNNRT_RETURN_IF_ERROR(CheckFrames(QNN_OP_BUFFER_PARAM_STRIDE, stride, 1, size, frames));
  const int64_t padding = node.Int(QNN_OP_BUFFER_PARAM_BUFFER_PADDING);
  g.mode = node.Int(QNN_OP_BUFFER_PARAM_MODE);
  if (g.mode == QNN_OP_BUFFER_MODE_BLOCKING) {
    QNNRT_RETURN_IF_ERROR(
        CheckFrames(QNN_OP_BUFFER_PARAM_BUFFER_PADDING, padding, 0, size - frames, frames));
    g.padding = static_cast<size_t>(padding);
  }
  g.size = static_cast<size_t>(size);
  g.stride = static_cast<size_t>(stride);
  g.outer = Product(in, 0, g.dim);
  g.frame = Product(in, g.dim + 1, in.size()) * ElementSize(node.inputs[0]->dtype);
  return g;
}

Status Infer(const Node& node, std::vector<Shape>* shapes) {
  QNNRT_ASSIGN_OR_RETURN(const BufferGeometry g, ReadBuffer(node));
  QNNRT_RETURN_IF_ERROR(CheckReset(node, kReset));
  QNNRT_RETURN_IF_ERROR(CheckEncodings(*node.inputs[0], *node.outputs[0]));
  Shape shape = node.inputs[0]->shape;
  shape[g.dim] = static_cast<uint32_t>(g.size);
  *shapes = {std::move(shape)};
  return Status::Ok();
}

class BufferKernel final : public Kernel {
 public:
  static Result<KernelPtr> Make(const Node& node, const KernelOptions&) {
    QNNRT_ASSIGN_OR_RETURN(const BufferGeometry g, ReadBuffer(node));
    std::unique_ptr<BufferKernel> kernel(new BufferKernel(node, g));
    // What is empty stands for zero, whatever integer that is.
    QNNRT_RETURN_IF_ERROR(ScalarBytes("", 0.0, *node.inputs[0], kernel->zero_));
    return KernelPtr(std::move(kernel));
  }

  Status Run(const ExecArgs& args) override {
    Header* header = static_cast<Header*>(args.persistent);
    char* windows = static_cast<char*>(args.persistent) + sizeof(Header);
    size_t kept = header->frames;
    if (!header->carries || (has_reset_ && *static_cast<const uint8_t*>(args.in[kReset]) != 0)) {
      kept = g_.padding;
      for (size_t o = 0; o < g_.outer; ++o) Zeros(windows + o * window_, kept);
    }
    const size_t drop = kept == g_.size ? g_.stride : 0;
    kept -= drop;
    const size_t frames = kept + g_.in;
    header->frames = frames;
    header->carries = true;
    const bool full = frames == g_.size;
    const bool gives = full || g_.mode != QNN_OP_BUFFER_MODE_BLOCKING;
    const char* in = static_cast<const char*>(args.in[0]);
    char* out = static_cast<char*>(args.out[0]);
    const size_t count = window_ == 0 ? 0 : g_.outer;
    args.threads.For(count, 1 + kGrainBytes / (window_ + 1), [&](size_t begin, size_t end) {
      for (size_t o = begin; o < end; ++o) {
        char* window = windows + o * window_;
        if (drop != 0) std::memmove(window, window + drop * g_.frame, kept * g_.frame);
        std::memcpy(window + kept * g_.frame, in + o * g_.in * g_.frame, g_.in * g_.frame);
        if (gives) Give(window, frames, out + o * window_);
      }
    });
    return gives ? Status::Ok() : Status(QNN_GRAPH_ERROR_EARLY_TERMINATION);
  }

  size_t PersistentBytes() const override { return sizeof(Header) + g_.outer * window_; }

 private:
  struct alignas(64) Header {
    bool carries;  // false: nothing was kept yet, not even padding
    uint64_t frames;
  };

  BufferKernel(const Node& node, const BufferGeometry& g)
      : g_(g),
        window_(g.size * g.frame),
        element_(ElementSize(node.inputs[0]->dtype)),
        has_reset_(node.HasInput(kReset)) {}

  void Zeros(char* to, size_t frames) const {
    FillElements(to, zero_, element_, frames * g_.frame);
  }

  // The frames so far, from the window's left or up to its right.
  void Give(const char* window, size_t frames, char* out) const {
    const size_t bytes = frames * g_.frame, rest = window_ - bytes;
    const bool right = g_.mode == QNN_OP_BUFFER_MODE_NON_BLOCKING_RIGHT;
    std::memcpy(out + (right ? rest : 0), window, bytes);
    Zeros(out + (right ? 0 : bytes), g_.size - frames);
  }

  const BufferGeometry g_;
  const size_t window_;  // bytes of a full one
  const size_t element_;
  const bool has_reset_;
  unsigned char zero_[8] = {};
};

}  // namespace

Result<KernelPtr> MakeFixedBuffer(const Node& node, const KernelOptions& options) {
  return BufferKernel::Make(node, options);
}

OpList StreamOps() {
  OpDef def;
  def.type = QNN_OP_BUFFER;
  def.inputs = {{"input", types::kAny, PortSpec::kOne, -1, 1, 8}, ResetPort()};
  def.outputs = {{"output", types::kAny, PortSpec::kOne, 0, 1, 8}};
  def.params = {{QNN_OP_BUFFER_PARAM_BUFFER_SIZE, ParamSpec::kInt, Required(),
                 "frames of the output; a multiple of the input's"},
                {QNN_OP_BUFFER_PARAM_BUFFER_DIM, ParamSpec::kInt, Required(),
                 "the dim that frames lie along"},
                {QNN_OP_BUFFER_PARAM_STRIDE, ParamSpec::kInt, Default(1),
                 "frames that leave the full buffer; a multiple of the input's"},
                {QNN_OP_BUFFER_PARAM_MODE,
                 ParamSpec::kInt,
                 Default(0),
                 "",
                 {"blocking", "non_blocking_left", "non_blocking_right"}},
                {QNN_OP_BUFFER_PARAM_BUFFER_PADDING, ParamSpec::kInt, Default(0),
                 "zero frames that a blocking buffer begins with"}};
  def.infer = Infer;
  def.portable = BufferKernel::Make;
  def.flags = OpDef::kNativeHalf | OpDef::kLpai;
  def.fixed = MakeFixedBuffer;
  def.keeps_state = [](const Node&) { return true; };
  return {def};
}

}  // namespace qnnrt
