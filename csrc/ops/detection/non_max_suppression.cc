// NonMaxSuppression: of each class of each batch, boxes by their scores, without those that overlap
// with a better one, as rows of (batch, class, box). The definition is that of ONNX's operator: a
// box is two opposite corners, and of equal scores the lower index comes first. Types and shapes
// are those that the vendor's HTP simulator takes; of rows that hold nothing, which it leaves
// undefined, we make zeros, so that they are indices of something.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "abi/qnn_op_names.h"
#include "ops/isa.h"
#include "ops/movement/gather.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

constexpr size_t kBlock = 64;  // boxes that one is compared with before the answer is looked at

struct Corners {
  float low[2], high[2], area;
};

// Corners of boxes, one number a row.
struct Kept {
  float* rows;
  size_t room;
  float* Row(size_t i) const { return rows + i * room; }
  void Add(size_t at, const Corners& c) const {
    const float values[] = {c.low[0], c.low[1], c.high[0], c.high[1], c.area};
    for (size_t i = 0; i < 5; ++i) Row(i)[at] = values[i];
  }
};

// Whether one of `count` boxes overlaps with `c` by more than `threshold` of what both cover.
struct Overlaps {
  static QNNRT_INLINE bool Run(const Kept& kept, size_t count, const Corners& c, float threshold) {
    if (!(c.area > 0)) return false;
    const float *low0 = kept.Row(0), *low1 = kept.Row(1), *high0 = kept.Row(2),
                *high1 = kept.Row(3), *area = kept.Row(4);
    for (size_t begin = 0; begin < count; begin += kBlock) {
      const size_t end = std::min(count, begin + kBlock);
      uint32_t found = 0;
      QNNRT_SIMD_REDUCE(reduction(| : found))
      for (size_t i = begin; i < end; ++i) {
        const float height = std::min(high0[i], c.high[0]) - std::max(low0[i], c.low[0]);
        const float width = std::min(high1[i], c.high[1]) - std::max(low1[i], c.low[1]);
        const float both = height * width;
        const float all = area[i] + c.area - both;
        found |= static_cast<uint32_t>(height > 0) & static_cast<uint32_t>(width > 0) &
                 static_cast<uint32_t>(area[i] > 0) & static_cast<uint32_t>(all > 0) &
                 static_cast<uint32_t>(both / all > threshold);
      }
      if (found != 0) return true;
    }
    return false;
  }
};

class NonMaxSuppressionKernel final : public Kernel {
 public:
  NonMaxSuppressionKernel(const Node& node, size_t limit, const KernelOptions& options)
      : classes_(node.inputs[1]->shape[1]),
        boxes_(node.inputs[1]->shape[2]),
        pairs_(size_t{node.inputs[1]->shape[0]} * classes_),
        limit_(limit),
        counts_(node.HasOutput(1)),
        iou_(node.Float(QNN_OP_NON_MAX_SUPPRESSION_PARAM_IOU_THRESHOLD)),
        score_(node.Float(QNN_OP_NON_MAX_SUPPRESSION_PARAM_SCORE_THRESHOLD)),
        workers_(std::min<size_t>(pairs_, static_cast<size_t>(std::max(1, options.threads)))),
        of_worker_(ScratchRoom(boxes_ * sizeof(Candidate)) +
                   ScratchRoom(5 * limit_ * sizeof(float))) {}

  size_t ScratchBytes() const override {
    return ScratchRoom(pairs_ * sizeof(uint32_t)) + workers_ * of_worker_;
  }

  Status Run(const ExecArgs& args) override {
    uint32_t* found = static_cast<uint32_t*>(args.scratch);
    char* rest = static_cast<char*>(args.scratch) + ScratchRoom(pairs_ * sizeof(uint32_t));
    int32_t* out = static_cast<int32_t*>(args.out[0]);
    // Each pair has rows of its own first, so that who computes it makes no difference.
    std::atomic<size_t> next{0};
    args.threads.For(workers_, 1, [&](size_t begin, size_t end) {
      for (size_t worker = begin; worker < end; ++worker) {
        for (size_t pair; (pair = next.fetch_add(1, std::memory_order_relaxed)) < pairs_;) {
          found[pair] = Suppress(args, pair, rest + worker * of_worker_, out + pair * limit_ * 3);
        }
      }
    });
    size_t rows = 0;
    for (size_t pair = 0; pair < pairs_; rows += found[pair++]) {
      const size_t from = pair * limit_;
      if (from != rows)
        std::memmove(out + rows * 3, out + from * 3, found[pair] * 3 * sizeof(int32_t));
    }
    std::fill(out + rows * 3, out + pairs_ * limit_ * 3, 0);
    if (counts_) *static_cast<uint32_t*>(args.out[1]) = static_cast<uint32_t>(rows);
    return {};
  }

 private:
  struct Candidate {
    float score;
    uint32_t box;
    bool operator<(const Candidate& other) const {
      return score < other.score || (score == other.score && box > other.box);
    }
  };

  static Corners CornersOf(const float* box) {
    Corners c;
    for (size_t d = 0; d < 2; ++d) {
      c.low[d] = std::min(box[d], box[d + 2]);
      c.high[d] = std::max(box[d], box[d + 2]);
    }
    c.area = (c.high[0] - c.low[0]) * (c.high[1] - c.low[1]);
    return c;
  }

  // How many boxes are kept; the rows of `out` name them.
  uint32_t Suppress(const ExecArgs& args, size_t pair, char* scratch, int32_t* out) const {
    const size_t batch = pair / classes_;
    const float* corners = static_cast<const float*>(args.in[0]) + batch * boxes_ * 4;
    const float* scores = static_cast<const float*>(args.in[1]) + pair * boxes_;
    Candidate* heap = reinterpret_cast<Candidate*>(scratch);
    const Kept kept{reinterpret_cast<float*>(scratch + ScratchRoom(boxes_ * sizeof(Candidate))),
                    limit_};
    size_t left = 0;
    for (size_t i = 0; i < boxes_; ++i) {
      if (scores[i] > score_) heap[left++] = {scores[i], static_cast<uint32_t>(i)};
    }
    std::make_heap(heap, heap + left);
    uint32_t count = 0;
    while (left > 0 && count < limit_) {
      std::pop_heap(heap, heap + left);
      const uint32_t box = heap[--left].box;
      const Corners c = CornersOf(corners + box * size_t{4});
      if (overlaps_(kept, count, c, iou_)) continue;
      kept.Add(count, c);
      const int32_t row[] = {static_cast<int32_t>(batch), static_cast<int32_t>(pair % classes_),
                             static_cast<int32_t>(box)};
      std::copy_n(row, 3, out + count++ * size_t{3});
    }
    return count;
  }

  const size_t classes_, boxes_, pairs_, limit_;
  const bool counts_;
  const float iou_, score_;
  const size_t workers_, of_worker_;
  bool (*const overlaps_)(const Kept&, size_t, const Corners&, float) = PickIsa<Overlaps>();
};

size_t Limit(const Node& node) {
  const int64_t most = node.Int(QNN_OP_NON_MAX_SUPPRESSION_PARAM_MAX_BOXES_SELECTED);
  return static_cast<size_t>(std::min<int64_t>(most, node.inputs[1]->shape[2]));
}

Status Rule(const Node& node, std::vector<Shape>* outputs) {
  const Shape& scores = node.inputs[1]->shape;
  QNNRT_RETURN_IF_ERROR(CheckShape(node, 0, "boxes", {scores[0], scores[2], 4}));
  QNNRT_RETURN_IF_ERROR(CheckRange(QNN_OP_NON_MAX_SUPPRESSION_PARAM_MAX_BOXES_SELECTED,
                                   node.Int(QNN_OP_NON_MAX_SUPPRESSION_PARAM_MAX_BOXES_SELECTED), 1,
                                   UINT32_MAX));
  const float iou = node.Float(QNN_OP_NON_MAX_SUPPRESSION_PARAM_IOU_THRESHOLD);
  if (!(iou >= 0 && iou <= 1)) {
    return Invalid("param 'iou_threshold' must be in [0, 1], got %g", static_cast<double>(iou));
  }
  const uint64_t rows = uint64_t{scores[0]} * scores[1] * Limit(node);
  if (rows > INT32_MAX || scores[2] > INT32_MAX) {
    return Invalid("%llu rows of results are too many", static_cast<unsigned long long>(rows));
  }
  (*outputs)[0] = {static_cast<uint32_t>(rows), 3};
  if (outputs->size() > 1) (*outputs)[1] = {1};
  return {};
}

Result<KernelPtr> Make(const Node& node, const KernelOptions& options) {
  return KernelPtr(std::make_unique<NonMaxSuppressionKernel>(node, Limit(node), options));
}

}  // namespace

OpDef NonMaxSuppressionOp() {
  OpDef def = {
      QNN_OP_NON_MAX_SUPPRESSION,
      {{"in[0]", types::kFloat, PortSpec::kOne, -1, 3, 3},
       {"in[1]", types::kFloat, PortSpec::kOne, -1, 3, 3}},
      {{"out[0]", types::kI32, PortSpec::kOne, -1, 2, 2},
       {"out[1]", types::kU32, PortSpec::kOptional, -1, 1, 1}},
      {{QNN_OP_NON_MAX_SUPPRESSION_PARAM_IOU_THRESHOLD, ParamSpec::kFloat, Required(),
        "the overlap, of what two boxes cover, above which the one of the lower score goes"},
       {QNN_OP_NON_MAX_SUPPRESSION_PARAM_SCORE_THRESHOLD, ParamSpec::kFloat, Default(0.0),
        "boxes have a score above it"},
       {QNN_OP_NON_MAX_SUPPRESSION_PARAM_MAX_BOXES_SELECTED, ParamSpec::kInt, Required(),
        "of a class of a batch, at least 1; the outputs have rows for so many, or for all boxes"}},
      Rule,
      Make};
  def.sensitive_inputs = 3;  // what is compared and put in order
  return def;
}

}  // namespace qnnrt
