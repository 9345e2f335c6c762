// ElementWiseSliding: what a binary operation makes of the elements at steps of one axis, a block
// of results at a time while they are in the cache. Dilated pools are made of it, one axis after
// the other.
#include <algorithm>
#include <cstring>

#include "ops/elementwise/binary.h"
#include "ops/elementwise/elementwise.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

constexpr size_t kBlock = 2048;       // results that are combined with all taps at a time
constexpr size_t kGrain = 16 * 1024;  // results worth a thread
constexpr size_t kShortRun = 128;     // results beside each other, too few for a call of their own

BinaryOp OperationOf(const Node& node) { return static_cast<BinaryOp>(node.Int("operation")); }

BinaryLoop LoopOf(const Node& node) {
  const Qnn_DataType_t type = node.inputs[0]->dtype;
  const BinaryOp op = OperationOf(node);
  return (type == QNN_DATATYPE_FLOAT_32 ? FloatLoops(op) : OtherLoops(op, type)).vv;
}

class Sliding final : public Kernel {
 public:
  explicit Sliding(const Node& node)
      : loop_(LoopOf(node)),
        size_(ElementSize(node.inputs[0]->dtype)),
        taps_(static_cast<size_t>(node.Int("taps"))) {
    const Shape &in = node.inputs[0]->shape, &out = node.outputs[0]->shape;
    const size_t axis = static_cast<size_t>(node.Int("axis"));
    size_t inner = 1;
    for (size_t i = axis + 1; i < in.size(); ++i) inner *= in[i];
    const size_t stride = static_cast<size_t>(node.Int("stride"));
    total_ = node.outputs[0]->elements();
    runs_ = stride == 1 ? 1 : out[axis];  // of an axis that lie apart
    run_ = stride == 1 ? inner * out[axis] : inner;
    first_ = static_cast<size_t>(node.Int("begin")) * inner;
    step_ = stride * inner;
    line_ = in[axis] * inner;
    tap_ = static_cast<size_t>(node.Int("dilation")) * inner;
  }

  Status Run(const ExecArgs& args) override {
    const char* in = static_cast<const char*>(args.in[0]);
    char* out = static_cast<char*>(args.out[0]);
    if (total_ == 0) return {};
    if (runs_ == 1 && run_ < kShortRun && line_ <= kBlock) {
      args.threads.For(total_ / run_, kGrain / run_, [&](size_t begin, size_t end) {
        for (size_t line = begin; line < end;) {
          const size_t lines = std::min(kBlock / line_, end - line);
          ShortLines(in + line * line_ * size_, out + line * run_ * size_, lines);
          line += lines;
        }
      });
      return {};
    }
    args.threads.For(total_, kGrain, [&](size_t begin, size_t end) {
      for (size_t at = begin; at < end;) {
        const size_t run = at / run_, within = at % run_;
        const size_t count = std::min({run_ - within, end - at, kBlock});
        const size_t from = run / runs_ * line_ + first_ + run % runs_ * step_ + within;
        const char* x = in + from * size_;
        char* y = out + at * size_;
        loop_(x, x + tap_ * size_, y, count);
        for (size_t tap = 2; tap < taps_; ++tap) loop_(y, x + tap * tap_ * size_, y, count);
        at += count;
      }
    });
    return {};
  }

 private:
  // Short lines at once: what ends in the next one is computed, too, and left out. No tap lies
  // behind the last line.
  void ShortLines(const char* in, char* out, size_t lines) const {
    alignas(64) char block[kBlock * 8];
    const size_t count = lines * line_ - first_ - (taps_ - 1) * tap_;
    const char* x = in + first_ * size_;
    loop_(x, x + tap_ * size_, block, count);
    for (size_t tap = 2; tap < taps_; ++tap) loop_(block, x + tap * tap_ * size_, block, count);
    for (size_t i = 0; i < lines; ++i)
      std::memcpy(out + i * run_ * size_, block + i * line_ * size_, run_ * size_);
  }

  const BinaryLoop loop_;
  const size_t size_, taps_;
  size_t total_ = 0, runs_ = 1, run_ = 1;             // results
  size_t first_ = 0, step_ = 0, line_ = 0, tap_ = 0;  // elements of the input
};

Status Infer(const Node& node, std::vector<Shape>* outputs) {
  if (IsFixed(node.inputs[0]->dtype)) return Invalid("fixed-point numbers in place of integers");
  const Shape& in = node.inputs[0]->shape;
  QNNRT_ASSIGN_OR_RETURN(const size_t axis, GetAxis(node, "axis", in.size()));
  QNNRT_RETURN_IF_ERROR(
      CheckRange("operation", node.Int("operation"), 0, static_cast<int64_t>(BinaryOp::kXor)));
  const BinaryOp op = OperationOf(node);
  if (IsCompare(op) || IsLogic(op)) return Invalid("param 'operation' is no arithmetic");
  const int64_t size = in[axis], begin = node.Int("begin"), stride = node.Int("stride"),
                taps = node.Int("taps"), dilation = node.Int("dilation"), count = node.Int("count");
  QNNRT_RETURN_IF_ERROR(CheckRange("begin", begin, 0, size));
  QNNRT_RETURN_IF_ERROR(CheckRange("count", count, 1, size));
  QNNRT_RETURN_IF_ERROR(CheckRange("stride", stride, 1, size));
  QNNRT_RETURN_IF_ERROR(CheckRange("taps", taps, 2, size));
  QNNRT_RETURN_IF_ERROR(CheckRange("dilation", dilation, 1, size));
  if (begin + (count - 1) * stride + (taps - 1) * dilation >= size)
    return Invalid("windows end behind the %lld elements", static_cast<long long>(size));
  (*outputs)[0] = in;
  (*outputs)[0][axis] = static_cast<uint32_t>(count);
  return {};
}

Result<KernelPtr> Make(const Node& node, const KernelOptions&) {
  if (LoopOf(node) == nullptr) return Invalid("param 'operation' is not defined for the input");
  return KernelPtr(std::make_unique<Sliding>(node));
}

}  // namespace

OpDef SlidingOp() {
  OpDef def;
  def.type = kSliding;
  def.inputs = {{"in", types::kF32 | types::kInt, PortSpec::kOne, -1, 1, 8}};
  def.outputs = {{"out", types::kF32 | types::kInt, PortSpec::kOne, 0, 1, 8}};
  for (const char* name : {"operation", "axis", "begin", "count", "stride", "taps", "dilation"})
    def.params.push_back({name, ParamSpec::kInt, Required()});
  def.infer = Infer;
  def.portable = Make;
  def.flags = OpDef::kInternal;
  return def;
}

}  // namespace qnnrt
