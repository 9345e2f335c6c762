// What Lstm (lstm.cc) and Gru (gru.cc) share.
#include "ops/recurrent/recurrent.h"

#include "ops/rules.h"

namespace qnnrt {

Result<Sequence> ReadSequence(const Node& node) {
  const Shape& in = node.inputs[0]->shape;
  Sequence s;
  s.rank = in.size();
  s.time_major = s.rank == 2 || node.Bool("time_major");
  s.reverse = node.Int("direction") == 1;
  s.input = in.back();
  s.batch = s.rank == 2 ? in[0] : s.time_major ? in[1] : in[0];
  s.steps = s.rank == 2 ? 1 : s.time_major ? in[0] : in[1];
  return s;
}

GateWeights::GateWeights(const Node& node, std::vector<size_t> inputs)
    : inputs_(std::move(inputs)) {
  const Shape& shape = node.inputs[inputs_[0]]->shape;
  units_ = shape[0];
  k_ = shape[1];
  n_ = units_ * inputs_.size();
}

bool GateWeights::Holds(size_t input) const {
  return packed_ && std::find(inputs_.begin(), inputs_.end(), input) != inputs_.end();
}

namespace {

void Stack(const std::vector<const float*>& gates, size_t floats, float* out) {
  for (const float* gate : gates) out = std::copy_n(gate, floats, out);
}

}  // namespace

Status GateWeights::Prepare(const Node& node, const KernelOptions& options) {
  std::vector<const float*> gates;
  for (size_t i : inputs_) {
    if (!node.inputs[i]->is_static()) return Status::Ok();
    gates.push_back(node.inputs[i]->data_as<float>());
  }
  const auto pack = [&](void* packed) -> Status {
    auto stacked = AlignedBytes::Make(n_ * k_ * sizeof(float));
    if (!stacked) return OutOfMemory();
    float* rows = static_cast<float*>(stacked->data());
    Stack(gates, units_ * k_, rows);
    PackAll({rows, 1, k_}, k_, n_, static_cast<float*>(packed), Threads(1));
    return Status::Ok();
  };
  QNNRT_ASSIGN_OR_RETURN(packed_,
                         PackWeights(options, inputs_[0], PackedFloats(k_, n_) * sizeof(float),
                                     PanelLayout("gates", k_, n_), pack));
  return Status::Ok();
}

size_t GateWeights::ScratchFloats() const {
  return packed_ ? 0 : PackedFloats(k_, n_) + n_ * k_ + 16;
}

const float* GateWeights::Get(const ExecArgs& args, float* scratch) const {
  if (packed_) return static_cast<const float*>(packed_->data());
  float* rows = scratch + (PackedFloats(k_, n_) + 15) / 16 * 16;
  float* out = rows;
  for (size_t i : inputs_) {
    out = std::copy_n(static_cast<const float*>(args.in[i]), units_ * k_, out);
  }
  PackAll({rows, 1, k_}, k_, n_, scratch, args.threads);
  return scratch;
}

PortSpec ResetPort() { return {"reset", types::kBool, PortSpec::kOptional, -1, 0, 1}; }

Status CheckReset(const Node& node, size_t reset_input) {
  if (!node.HasInput(reset_input) || node.inputs[reset_input]->elements() == 1) return Status::Ok();
  return Invalid("input %zu, reset, must be one value, got %s", reset_input,
                 ShapeText(node.inputs[reset_input]->shape).c_str());
}

OpList RecurrentOps() {
  OpList ops;
  ops.push_back(LstmOp());
  ops.push_back(GruOp());
  return ops;
}

}  // namespace qnnrt
