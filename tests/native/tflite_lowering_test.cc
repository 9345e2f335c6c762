// The lowering of TFLite's operators on nodes that make no sense: every one is lowered or refused,
// within a budget, and plans name only tensors that they have.
#include <cstring>
#include <random>
#include <vector>

#include "check.h"
#include "tflite/lowering/lowering.h"

namespace {

using namespace qnnrt::tflite;  // NOLINT

constexpr uint64_t kBudget = 1 << 20;
constexpr int kRounds = 400;  // for each operator

const char* const kOptions[] = {
    "AdjX",
    "AdjY",
    "AlignCorners",
    "Alpha",
    "Approximate",
    "Axis",
    "BatchDim",
    "BatchDims",
    "BeginMask",
    "Beta",
    "Bias",
    "BlockSize",
    "DilationDFactor",
    "DilationHFactor",
    "DilationWFactor",
    "EllipsisMask",
    "EndMask",
    "Exclusive",
    "FilterHeight",
    "FilterWidth",
    "FusedActivationFunction",
    "HalfPixelCenters",
    "KeepDims",
    "KeepNumDims",
    "KernelType",
    "Max",
    "MergeOutputs",
    "Min",
    "Mode",
    "NarrowRange",
    "NewAxisMask",
    "NumBits",
    "NumSplits",
    "Offset",
    "Padding",
    "Radius",
    "Rank",
    "Reverse",
    "SeqDim",
    "ShrinkAxisMask",
    "StrideD",
    "StrideH",
    "StrideW",
    "TimeMajor",
    "WeightsFormat",
};
const Qnn_DataType_t kTypes[] = {
    QNN_DATATYPE_FLOAT_32,        QNN_DATATYPE_FLOAT_32,        QNN_DATATYPE_FLOAT_32,
    QNN_DATATYPE_INT_32,          QNN_DATATYPE_INT_32,          QNN_DATATYPE_INT_64,
    QNN_DATATYPE_BOOL_8,          QNN_DATATYPE_FLOAT_16,        QNN_DATATYPE_FLOAT_64,
    QNN_DATATYPE_UINT_8,          QNN_DATATYPE_SFIXED_POINT_8,  QNN_DATATYPE_UFIXED_POINT_8,
    QNN_DATATYPE_SFIXED_POINT_16, QNN_DATATYPE_SFIXED_POINT_32,
};

class Nodes {
 public:
  explicit Nodes(uint32_t seed) : random_(seed) {}

  NodeView Next(const Operator& op) {
    constants_.clear();
    NodeView view;
    view.op = &op;
    view.budget = kBudget;
    view.states = static_cast<States>(Below(3));
    common_ = kTypes[Below(std::size(kTypes))];
    rank_ = Below(6);
    for (uint32_t n = Below(8) == 0 ? Below(50) : 1 + Below(6); n > 0; --n)
      view.inputs.push_back(Tensor(true));
    for (uint32_t n = 1 + Below(3); n > 0; --n) view.outputs.push_back(Tensor(false));
    for (const char* name : kOptions) {
      if (Below(4) != 0) view.options[name].number = Number();
    }
    for (const char* name : {"NewShape", "SqueezeDims", "Boundaries"}) {
      for (uint32_t n = Below(5); n > 0; --n) view.options[name].list.push_back(Number());
    }
    return view;
  }

 private:
  uint32_t Below(uint32_t n) { return std::uniform_int_distribution<uint32_t>(0, n - 1)(random_); }
  int64_t Number() {
    const int64_t wild[] = {-1, INT32_MAX, INT32_MIN, 1 << 20, INT64_MAX, INT64_MIN};
    return Below(12) == 0 ? wild[Below(6)] : static_cast<int64_t>(Below(5));
  }
  uint32_t Size() {
    const uint32_t wild[] = {0, 1u << 16, INT32_MAX, UINT32_MAX};
    return Below(24) == 0 ? wild[Below(4)] : 1 + Below(4);
  }
  TensorView Tensor(bool input) {
    TensorView t;
    t.omitted = input && Below(12) == 0;
    if (t.omitted) return t;
    for (uint32_t d = Below(3) == 0 ? Below(6) : rank_; d > 0; --d) t.dims.push_back(Size());
    t.dtype = Below(3) == 0 ? kTypes[Below(std::size(kTypes))] : common_;
    if (t.dtype != Plain(t.dtype)) {
      const bool per_axis = !t.dims.empty() && Below(4) == 0;
      const uint32_t count = per_axis ? 1 + Below(4) : 1;
      t.encoding.scale.assign(count, 0.5F);
      t.encoding.offset.assign(count, -1);
      if (per_axis) t.encoding.axis = static_cast<int32_t>(Below(6)) - 1;
    }
    t.variable = input && Below(16) == 0;
    t.constant = input && !t.variable && Below(2) == 0 && t.bytes() < 4096;
    if (t.constant) {
      std::vector<uint8_t>& bytes = constants_.emplace_back(t.bytes());
      const uint32_t size = ElementBytes(t.dtype);
      for (size_t at = 0; at < bytes.size(); at += size) {
        const int64_t value = Number();
        std::memcpy(&bytes[at], &value, size);
      }
      t.data = bytes.data();
    }
    return t;
  }

  std::mt19937 random_;
  std::deque<std::vector<uint8_t>> constants_;
  Qnn_DataType_t common_ = QNN_DATATYPE_FLOAT_32;
  uint32_t rank_ = 0;
};

bool Names(const NodePlan& plan, int at) {
  return at >= -1 && at < static_cast<int>(plan.tensors.size());
}

bool Sound(const NodeView& view, const NodePlan& plan) {
  bool sound = plan.outputs.size() == view.outputs.size() && plan.spent <= view.budget;
  for (const PlannedOp& op : plan.ops) {
    for (int at : op.inputs) sound = sound && Names(plan, at);
    for (int at : op.outputs) sound = sound && at >= 0 && Names(plan, at);
  }
  for (const Value& v : plan.outputs) sound = sound && Names(plan, v.at);
  for (const PlannedTensor& t : plan.tensors)
    sound = sound && t.index < static_cast<int>(view.inputs.size()) && !t.dims.empty();
  return sound;
}

}  // namespace

TEST(EveryNodeIsLoweredOrRefused) {
  Nodes nodes(20261122);
  int lowered = 0, refused = 0;
  for (const Operator& op : Operators()) {
    for (int round = 0; round < kRounds; ++round) {
      const NodeView view = nodes.Next(op);
      for (const Numbers way : {Numbers::kOwn, Numbers::kFloats}) {
        try {
          NodePlan plan = Lower(view, way);
          for (PlannedTensor& t : plan.tensors) Decode(view, &t);
          CHECK(Sound(view, plan));
          ++lowered;
        } catch (const Refused&) {
          ++refused;
        }
      }
    }
  }
  CHECK(lowered > 1000);
  CHECK(refused > 1000);
}

CHECK_MAIN("tflite_lowering_test")
