// Lstm: with or without input gate, peepholes, layer normalization and projection.
#include <cmath>
#include <cstring>

#include "ops/recurrent/recurrent.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

// Inputs by number. A gate's weights on the input, on the output, its bias and its other vectors.
enum Input : size_t {
  kX = 0,
  kForgetW = 1,
  kCellW = 2,
  kOutputW = 3,
  kForgetR = 4,
  kCellR = 5,
  kOutputR = 6,
  kForgetB = 7,
  kCellB = 8,
  kOutputB = 9,
  kInitialH = 10,
  kInitialC = 11,
  kInputNorm = 12,
  kForgetNorm = 13,
  kCellNorm = 14,
  kOutputNorm = 15,
  kInputW = 16,
  kInputR = 17,
  kInputPeep = 18,
  kForgetPeep = 19,
  kOutputPeep = 20,
  kInputB = 21,
  kProjection = 22,
  kProjectionB = 23,
  kReset = 24,
};

constexpr float kNormEpsilon = 1e-8f;

struct LstmGeometry {
  Sequence sequence;
  size_t units = 0, outputs = 0;
  bool input_gate = false, norm = false, projection = false;
  float cell_clip = 0, output_clip = 0;
};

Status CheckInputs(const Node& node, const LstmGeometry& g) {
  const uint32_t batch = static_cast<uint32_t>(g.sequence.batch);
  const uint32_t input = static_cast<uint32_t>(g.sequence.input);
  const uint32_t units = static_cast<uint32_t>(g.units);
  const uint32_t outputs = static_cast<uint32_t>(g.outputs);
  for (size_t i : {kForgetW, kCellW, kOutputW, kInputW}) {
    QNNRT_RETURN_IF_ERROR(CheckShape(node, i, "weights", {units, input}));
  }
  for (size_t i : {kForgetR, kCellR, kOutputR, kInputR}) {
    QNNRT_RETURN_IF_ERROR(CheckShape(node, i, "recurrent weights", {units, outputs}));
  }
  for (size_t i : {kForgetB, kCellB, kOutputB, kInputB, kInputNorm, kForgetNorm, kCellNorm,
                   kOutputNorm, kInputPeep, kForgetPeep, kOutputPeep}) {
    QNNRT_RETURN_IF_ERROR(CheckShape(node, i, "vector", {units}));
  }
  QNNRT_RETURN_IF_ERROR(CheckShape(node, kInitialH, "initial output", {batch, outputs}));
  QNNRT_RETURN_IF_ERROR(CheckShape(node, kInitialC, "initial cell state", {batch, units}));
  QNNRT_RETURN_IF_ERROR(CheckShape(node, kProjection, "projection", {outputs, units}));
  QNNRT_RETURN_IF_ERROR(CheckShape(node, kProjectionB, "projection bias", {outputs}));
  QNNRT_RETURN_IF_ERROR(CheckReset(node, kReset));
  if (!g.projection && g.outputs != g.units) {
    return Invalid(
        "without projection weights (input 22) the recurrent weights must be "
        "[%u, %u], got %s",
        units, units, ShapeText(node.inputs[kForgetR]->shape).c_str());
  }
  if (node.HasInput(kProjectionB) && !g.projection) {
    return Invalid("projection bias (input 23) without projection weights (input 22)");
  }
  if (node.HasInput(kInputW) != node.HasInput(kInputR)) {
    return Invalid("inputs 16 and 17, the weights of the input gate, go together");
  }
  if (!g.input_gate &&
      (node.HasInput(kInputPeep) || node.HasInput(kInputB) || node.HasInput(kInputNorm))) {
    return Invalid(
        "inputs 12, 18 and 21 belong to an input gate, but its weights (inputs 16 "
        "and 17) are left out");
  }
  const bool all_norms = node.HasInput(kForgetNorm) && node.HasInput(kCellNorm) &&
                         node.HasInput(kOutputNorm) && node.HasInput(kInputNorm) == g.input_gate;
  if (g.norm && !all_norms) {
    return Invalid("layer normalization needs the weights (inputs 12 to 15) of every gate");
  }
  return Status::Ok();
}

Result<LstmGeometry> ReadLstm(const Node& node) {
  LstmGeometry g;
  QNNRT_ASSIGN_OR_RETURN(g.sequence, ReadSequence(node));
  g.units = node.inputs[kForgetR]->shape[0];
  g.outputs = node.inputs[kForgetR]->shape[1];
  g.input_gate = node.HasInput(kInputW);
  g.projection = node.HasInput(kProjection);
  g.norm = node.HasInput(kInputNorm) || node.HasInput(kForgetNorm) || node.HasInput(kCellNorm) ||
           node.HasInput(kOutputNorm);
  g.cell_clip = node.Float("cell_clip_threshold");
  g.output_clip = node.Float("output_clip_threshold");
  if (!(g.cell_clip >= 0) || !(g.output_clip >= 0)) {
    return Invalid("clip thresholds must be 0 (none) or positive");
  }
  QNNRT_RETURN_IF_ERROR(CheckInputs(node, g));
  return g;
}

Status Infer(const Node& node, std::vector<Shape>* shapes) {
  QNNRT_ASSIGN_OR_RETURN(const LstmGeometry g, ReadLstm(node));
  const Shape& in = node.inputs[kX]->shape;
  const uint32_t batch = static_cast<uint32_t>(g.sequence.batch);
  const uint32_t units = static_cast<uint32_t>(g.units);
  const uint32_t outputs = static_cast<uint32_t>(g.outputs);
  const Shape gate = g.sequence.OutputShape(in, units);
  const Shape out = g.sequence.OutputShape(in, outputs);
  if (g.projection && (node.HasOutput(6) || node.HasOutput(7))) {
    return Invalid("outputs 6 and 7 are not available together with a projection");
  }
  *shapes = {out, {batch, units}, {batch, outputs}, gate, gate, gate, gate, gate};
  return Status::Ok();
}

void Clip(float* x, size_t count, float limit) {
  if (limit > 0) ApplyActivation(Activation::kReluMinMax, x, count, -limit, limit);
}

class Lstm final : public Kernel {
 public:
  static Result<KernelPtr> Make(const Node& node, const KernelOptions& options) {
    QNNRT_ASSIGN_OR_RETURN(const LstmGeometry g, ReadLstm(node));
    std::unique_ptr<Lstm> kernel(new Lstm(node, g));
    for (GateWeights* weights : kernel->AllWeights()) {
      QNNRT_RETURN_IF_ERROR(weights->Prepare(node, options));
    }
    kernel->Plan();
    return KernelPtr(std::move(kernel));
  }

  Status Run(const ExecArgs& args) override {
    const Sequence& s = g_.sequence;
    float* scratch = static_cast<float*>(args.scratch);
    float *gates = scratch + gates_at_, *h = state_.At(h_at_, args), *c = state_.At(c_at_, args);
    float* bias = scratch + bias_at_;
    const float* w = w_.Get(args, scratch + w_at_);
    const float* r = r_.Get(args, scratch + r_at_);
    const float* projection = projection_ ? projection_->Get(args, scratch + p_at_) : nullptr;
    FillBias(args, bias);
    if (state_.Begin(args)) {
      LoadState(args, kInitialH, g_.outputs, h);
      LoadState(args, kInitialC, g_.units, c);
    }
    const size_t width = w_.n();
    // The input's share of all gates of all steps is one product.
    w_.Multiply(
        w, scratch + w_at_, bias, false, static_cast<const float*>(args.in[kX]), s.input,
        [&](size_t i) { return gates + i * width; }, args.threads);
    for (size_t step = 0; step < s.steps; ++step) {
      const size_t t = s.reverse ? s.steps - 1 - step : step;
      r_.Multiply(
          r, scratch + r_at_, nullptr, true, h, g_.outputs,
          [&](size_t n) { return gates + s.Row(t, n) * width; }, args.threads, step % 2 != 0);
      float* hidden = projection != nullptr ? scratch + hidden_at_ : h;
      const size_t grain = std::max<size_t>(1, 4096 / std::max<size_t>(1, g_.units));
      args.threads.For(s.batch, grain, [&](size_t begin, size_t end) {
        for (size_t n = begin; n < end; ++n) {
          Pointwise(args, gates + s.Row(t, n) * width, c + n * g_.units, hidden + n * g_.units);
        }
      });
      if (projection != nullptr) {
        const float* p_bias = Vector(args, kProjectionB);
        projection_->Multiply(
            projection, scratch + p_at_, p_bias, false, hidden, g_.units,
            [&](size_t n) { return h + n * g_.outputs; }, args.threads);
        Clip(h, s.batch * g_.outputs, g_.output_clip);
      }
      for (size_t n = 0; n < s.batch; ++n) {
        CopyOut(args, 0, s.Row(t, n), h + n * g_.outputs, g_.outputs);
        CopyGates(args, s.Row(t, n), gates + s.Row(t, n) * width, hidden + n * g_.units);
      }
    }
    if (has_output_[1]) std::copy_n(c, s.batch * g_.units, static_cast<float*>(args.out[1]));
    if (has_output_[2]) std::copy_n(h, s.batch * g_.outputs, static_cast<float*>(args.out[2]));
    return Status::Ok();
  }

  size_t ScratchBytes() const override { return plan_.bytes(); }
  size_t PersistentBytes() const override { return state_.Bytes(); }
  bool ReadsInput(size_t i) const override {
    return !w_.Holds(i) && !r_.Holds(i) && !(projection_ && projection_->Holds(i));
  }
  size_t WeightBytes() const override {
    return w_.WeightBytes() + r_.WeightBytes() + (projection_ ? projection_->WeightBytes() : 0);
  }

 private:
  // A row of gates is forget, cell, output and, when there is one, input.
  Lstm(const Node& node, const LstmGeometry& g)
      : g_(g),
        w_(node,
           g.input_gate ? std::vector<size_t>{kForgetW, kCellW, kOutputW, kInputW}
                        : std::vector<size_t>{kForgetW, kCellW, kOutputW},
           g.sequence.rows(), kX),
        r_(node,
           g.input_gate ? std::vector<size_t>{kForgetR, kCellR, kOutputR, kInputR}
                        : std::vector<size_t>{kForgetR, kCellR, kOutputR},
           g.sequence.batch),
        state_(node, kReset) {
    if (g.projection) {
      projection_ =
          std::make_unique<GateWeights>(node, std::vector<size_t>{kProjection}, g.sequence.batch);
    }
    for (size_t i = 0; i < 24; ++i) has_input_[i] = node.HasInput(i);
    for (size_t i = 0; i < 8; ++i) has_output_[i] = node.HasOutput(i);
  }

  std::vector<GateWeights*> AllWeights() {
    std::vector<GateWeights*> all = {&w_, &r_};
    if (projection_) all.push_back(projection_.get());
    return all;
  }

  void Plan() {
    gates_at_ = plan_.Take(w_.RoomRows() * w_.n());
    bias_at_ = plan_.Take(w_.n());
    h_at_ = state_.Take(g_.sequence.batch * g_.outputs, &plan_);
    c_at_ = state_.Take(g_.sequence.batch * g_.units, &plan_);
    hidden_at_ = plan_.Take(g_.projection ? g_.sequence.batch * g_.units : 0);
    w_at_ = plan_.Take(w_.ScratchFloats());
    r_at_ = plan_.Take(r_.ScratchFloats());
    p_at_ = plan_.Take(projection_ ? projection_->ScratchFloats() : 0);
  }

  const float* Vector(const ExecArgs& args, size_t i) const {
    return has_input_[i] ? static_cast<const float*>(args.in[i]) : nullptr;
  }

  // With layer normalization the bias comes after it.
  void FillBias(const ExecArgs& args, float* bias) const {
    std::fill_n(bias, w_.n(), 0.0f);
    if (g_.norm) return;
    const size_t order[] = {kForgetB, kCellB, kOutputB, kInputB};
    for (size_t gate = 0; gate * g_.units < w_.n(); ++gate) {
      const float* from = Vector(args, order[gate]);
      if (from != nullptr) std::copy_n(from, g_.units, bias + gate * g_.units);
    }
  }

  void LoadState(const ExecArgs& args, size_t input, size_t width, float* state) const {
    const float* from = Vector(args, input);
    if (from != nullptr) {
      std::copy_n(from, g_.sequence.batch * width, state);
    } else {
      std::fill_n(state, g_.sequence.batch * width, 0.0f);
    }
  }

  // Peephole, layer normalization and activation of one gate.
  void Gate(const ExecArgs& args, float* x, const float* cell, size_t peephole, size_t norm,
            size_t bias, Activation activation) const {
    if (peephole != 0 && has_input_[peephole]) {
      Simd().multiply_add(x, cell, Vector(args, peephole), g_.units);
    }
    if (g_.norm) {
      const float count = static_cast<float>(g_.units);
      const float mean = Simd().sum(x, g_.units) / count;
      const float variance = Simd().sum_squares(x, g_.units, mean) / count;
      Simd().normalize(x, x, mean, 1.0f / std::sqrt(variance + kNormEpsilon), Vector(args, norm),
                       Vector(args, bias), g_.units);
    }
    ApplyActivation(activation, x, g_.units, 0, 0);
  }

  // One step of one batch entry, from its gates' sums to the cell state and the hidden output.
  void Pointwise(const ExecArgs& args, float* gates, float* c, float* hidden) const {
    const size_t units = g_.units;
    float *forget = gates, *cell = gates + units, *output = gates + 2 * units;
    float* input = gates + 3 * units;
    if (g_.input_gate) {
      Gate(args, input, c, kInputPeep, kInputNorm, kInputB, Activation::kSigmoid);
    }
    Gate(args, forget, c, kForgetPeep, kForgetNorm, kForgetB, Activation::kSigmoid);
    Gate(args, cell, c, 0, kCellNorm, kCellB, Activation::kTanh);
    if (g_.input_gate) {
      for (size_t i = 0; i < units; ++i) c[i] = forget[i] * c[i] + input[i] * cell[i];
    } else {  // the input gate is coupled to the forget gate
      for (size_t i = 0; i < units; ++i) c[i] = forget[i] * c[i] + (1.0f - forget[i]) * cell[i];
    }
    Clip(c, units, g_.cell_clip);
    Gate(args, output, c, kOutputPeep, kOutputNorm, kOutputB, Activation::kSigmoid);
    std::copy_n(c, units, hidden);
    ApplyActivation(Activation::kTanh, hidden, units, 0, 0);
    for (size_t i = 0; i < units; ++i) hidden[i] *= output[i];
  }

  void CopyOut(const ExecArgs& args, size_t output, size_t row, const float* from,
               size_t width) const {
    if (has_output_[output]) {
      std::copy_n(from, width, static_cast<float*>(args.out[output]) + row * width);
    }
  }

  void CopyGates(const ExecArgs& args, size_t row, const float* gates, const float* hidden) const {
    const size_t units = g_.units;
    if (has_output_[3]) {
      float* out = static_cast<float*>(args.out[3]) + row * units;
      for (size_t i = 0; i < units; ++i) {
        out[i] = g_.input_gate ? gates[3 * units + i] : 1.0f - gates[i];
      }
    }
    CopyOut(args, 4, row, gates, units);
    CopyOut(args, 5, row, gates + units, units);
    CopyOut(args, 6, row, gates + 2 * units, units);
    CopyOut(args, 7, row, hidden, units);
  }

  const LstmGeometry g_;
  GateWeights w_, r_;
  std::unique_ptr<GateWeights> projection_;
  bool has_input_[24] = {}, has_output_[8] = {};
  CarriedState state_;
  ScratchPlan plan_;
  size_t gates_at_ = 0, bias_at_ = 0, h_at_ = 0, c_at_ = 0, hidden_at_ = 0;
  size_t w_at_ = 0, r_at_ = 0, p_at_ = 0;
};

}  // namespace

OpDef LstmOp() {
  const auto port = [](const char* name, bool required, int rank) {
    return PortSpec{name, types::kFloat, required ? PortSpec::kOne : PortSpec::kOptional,
                    0,    rank,          rank};
  };
  OpDef def;
  def.type = "Lstm";
  def.inputs = {{"input", types::kFloat, PortSpec::kOne, -1, 2, 3},
                port("input_to_forget_weights", true, 2),
                port("input_to_cell_weights", true, 2),
                port("input_to_output_weights", true, 2),
                port("recurrent_to_forget_weights", true, 2),
                port("recurrent_to_cell_weights", true, 2),
                port("recurrent_to_output_weights", true, 2),
                port("forget_gate_bias", false, 1),
                port("cell_bias", false, 1),
                port("output_gate_bias", false, 1),
                port("initial_output", false, 2),
                port("initial_cell_state", false, 2),
                port("input_norm_weights", false, 1),
                port("forget_norm_weights", false, 1),
                port("cell_norm_weights", false, 1),
                port("output_norm_weights", false, 1),
                port("input_to_input_weights", false, 2),
                port("recurrent_to_input_weights", false, 2),
                port("cell_to_input_weights", false, 1),
                port("cell_to_forget_weights", false, 1),
                port("cell_to_output_weights", false, 1),
                port("input_gate_bias", false, 1),
                port("projection_weights", false, 2),
                port("projection_bias", false, 1),
                ResetPort()};
  def.outputs = {{"output", types::kFloat, PortSpec::kOne, 0, 2, 3},
                 port("final_cell_state", false, 2),
                 port("final_output", false, 2)};
  for (const char* name : {"input_gate", "forget_gate", "cell_gate", "output_gate", "hidden"}) {
    def.outputs.push_back({name, types::kFloat, PortSpec::kOptional, 0, 2, 3});
  }
  const char* quantized = "for quantized types: no effect here";
  def.params = {{"direction", ParamSpec::kInt, Default(0), "", {"forward", "reverse"}},
                {"cell_clip_threshold", ParamSpec::kFloat, Default(0.0), "0: none"},
                {"output_clip_threshold", ParamSpec::kFloat, Default(0.0),
                 "0: none; of the projection's result"},
                {"time_major", ParamSpec::kBool, Default(false), "false: [N, T, I]"},
                {"input_gate_qscale", ParamSpec::kFloat, NoDefault(), quantized},
                {"forget_gate_qscale", ParamSpec::kFloat, NoDefault(), quantized},
                {"cell_gate_qscale", ParamSpec::kFloat, NoDefault(), quantized},
                {"output_gate_qscale", ParamSpec::kFloat, NoDefault(), quantized},
                {"hidden_state_offset", ParamSpec::kNumber, NoDefault(), quantized},
                {"hidden_state_qscale", ParamSpec::kFloat, NoDefault(), quantized}};
  def.infer = Infer;
  def.portable = Lstm::Make;
  def.flags = OpDef::kLpai | OpDef::kSumsInside;
  for (size_t i :
       {kForgetW, kCellW, kOutputW, kForgetR, kCellR, kOutputR, kInputW, kInputR, kProjection}) {
    def.further_weights |= 1u << i;
  }
  def.keeps_state = [](const Node& node) { return node.HasInput(kReset); };
  return def;
}

}  // namespace qnnrt
