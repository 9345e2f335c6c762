// Gru: gates update (z), reset (r) and new (n); h' = (1 - z) n + z h.
#include "ops/recurrent/recurrent.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

// Inputs by number; the vectors W* are biases beside the input's weights, R* the recurrent ones'.
enum Input : size_t {
  kX = 0,
  kUpdateW = 1,
  kResetW = 2,
  kNewW = 3,
  kUpdateR = 4,
  kResetR = 5,
  kNewR = 6,
  kUpdateWB = 7,
  kResetWB = 8,
  kNewWB = 9,
  kUpdateRB = 10,
  kResetRB = 11,
  kNewRB = 12,
  kInitialH = 13,
  kReset = 14,
};

struct GruGeometry {
  Sequence sequence;
  size_t units = 0;
  bool linear_before_reset = false;
};

Result<GruGeometry> ReadGru(const Node& node) {
  GruGeometry g;
  QNNRT_ASSIGN_OR_RETURN(g.sequence, ReadSequence(node));
  const uint32_t units = node.inputs[kUpdateR]->shape[0];
  const uint32_t input = static_cast<uint32_t>(g.sequence.input);
  const int64_t before = node.Int("linear_before_reset");
  QNNRT_RETURN_IF_ERROR(CheckRange("linear_before_reset", before, 0, 1));
  g.units = units;
  g.linear_before_reset = before == 1;
  for (size_t i = kUpdateW; i <= kNewW; ++i) {
    QNNRT_RETURN_IF_ERROR(CheckShape(node, i, "weights", {units, input}));
  }
  for (size_t i = kUpdateR; i <= kNewR; ++i) {
    QNNRT_RETURN_IF_ERROR(CheckShape(node, i, "recurrent weights", {units, units}));
  }
  for (size_t i = kUpdateWB; i <= kNewRB; ++i) {
    QNNRT_RETURN_IF_ERROR(CheckShape(node, i, "bias", {units}));
  }
  QNNRT_RETURN_IF_ERROR(CheckReset(node, kReset));
  const uint32_t batch = static_cast<uint32_t>(g.sequence.batch);
  if (node.HasInput(kInitialH) && node.inputs[kInitialH]->shape.size() == 2) {
    QNNRT_RETURN_IF_ERROR(CheckShape(node, kInitialH, "initial state", {batch, units}));
  } else {
    QNNRT_RETURN_IF_ERROR(CheckShape(node, kInitialH, "initial state", {1, batch, units}));
  }
  return g;
}

Status Infer(const Node& node, std::vector<Shape>* shapes) {
  QNNRT_ASSIGN_OR_RETURN(const GruGeometry g, ReadGru(node));
  const uint32_t units = static_cast<uint32_t>(g.units);
  const uint32_t batch = static_cast<uint32_t>(g.sequence.batch);
  const bool flat = node.HasOutput(1) && node.outputs[1]->shape.size() == 2;
  *shapes = {g.sequence.OutputShape(node.inputs[kX]->shape, units),
             flat ? Shape{batch, units} : Shape{1, batch, units}};
  return Status::Ok();
}

class Gru final : public Kernel {
 public:
  static Result<KernelPtr> Make(const Node& node, const KernelOptions& options) {
    QNNRT_ASSIGN_OR_RETURN(const GruGeometry g, ReadGru(node));
    std::unique_ptr<Gru> kernel(new Gru(node, g));
    for (GateWeights* weights : {&kernel->w_, &kernel->r_gates_, &kernel->r_new_}) {
      QNNRT_RETURN_IF_ERROR(weights->Prepare(node, options));
    }
    kernel->Plan();
    return KernelPtr(std::move(kernel));
  }

  Status Run(const ExecArgs& args) override {
    const Sequence& s = g_.sequence;
    const size_t units = g_.units, width = 3 * units;
    float* scratch = static_cast<float*>(args.scratch);
    float *gates = scratch + gates_at_, *h = state_.At(h_at_, args), *side = scratch + side_at_;
    float* bias = scratch + bias_at_;
    const float* w = w_.Get(args, scratch + w_at_);
    const float* r_gates = r_gates_.Get(args, scratch + r_gates_at_);
    const float* r_new = r_new_.Get(args, scratch + r_new_at_);
    FillBias(args, bias);
    if (state_.Begin(args)) LoadState(args, h);
    w_.Multiply(
        w, scratch + w_at_, bias, false, static_cast<const float*>(args.in[kX]), s.input,
        [&](size_t i) { return gates + i * width; }, args.threads);
    for (size_t step = 0; step < s.steps; ++step) {
      const size_t t = s.reverse ? s.steps - 1 - step : step;
      const auto row = [&](size_t n) { return gates + s.Row(t, n) * width; };
      r_gates_.Multiply(r_gates, scratch + r_gates_at_, nullptr, true, h, units, row, args.threads,
                        step % 2 != 0);
      for (size_t n = 0; n < s.batch; ++n) {
        ApplyActivation(Activation::kSigmoid, row(n), 2 * units, 0, 0);
      }
      if (g_.linear_before_reset) {
        // n += r * (R h + b)
        r_new_.Multiply(
            r_new, scratch + r_new_at_, bias + width, false, h, units,
            [&](size_t n) { return side + n * units; }, args.threads, step % 2 != 0);
        for (size_t n = 0; n < s.batch; ++n) {
          Simd().multiply_add(row(n) + 2 * units, row(n) + units, side + n * units, units);
        }
      } else {
        // n += R (r * h)
        for (size_t n = 0; n < s.batch; ++n) {
          const float* reset = row(n) + units;
          for (size_t i = 0; i < units; ++i) side[n * units + i] = reset[i] * h[n * units + i];
        }
        r_new_.Multiply(
            r_new, scratch + r_new_at_, nullptr, true, side, units,
            [&](size_t n) { return row(n) + 2 * units; }, args.threads, step % 2 != 0);
      }
      for (size_t n = 0; n < s.batch; ++n) {
        const float* z = row(n);
        float *fresh = row(n) + 2 * units, *state = h + n * units;
        ApplyActivation(Activation::kTanh, fresh, units, 0, 0);
        for (size_t i = 0; i < units; ++i) state[i] = fresh[i] + z[i] * (state[i] - fresh[i]);
        std::copy_n(state, units, static_cast<float*>(args.out[0]) + s.Row(t, n) * units);
      }
    }
    if (has_state_) std::copy_n(h, s.batch * units, static_cast<float*>(args.out[1]));
    return Status::Ok();
  }

  size_t ScratchBytes() const override { return plan_.bytes(); }
  size_t PersistentBytes() const override { return state_.Bytes(); }
  bool ReadsInput(size_t i) const override {
    return !w_.Holds(i) && !r_gates_.Holds(i) && !r_new_.Holds(i);
  }
  size_t WeightBytes() const override {
    return w_.WeightBytes() + r_gates_.WeightBytes() + r_new_.WeightBytes();
  }

 private:
  Gru(const Node& node, const GruGeometry& g)
      : g_(g),
        w_(node, {kUpdateW, kResetW, kNewW}, g.sequence.rows(), kX),
        r_gates_(node, {kUpdateR, kResetR}, g.sequence.batch),
        r_new_(node, {kNewR}, g.sequence.batch),
        has_state_(node.HasOutput(1)),
        state_(node, kReset) {
    for (size_t i = 0; i < 14; ++i) has_input_[i] = node.HasInput(i);
  }

  void Plan() {
    const size_t states = g_.sequence.batch * g_.units;
    gates_at_ = plan_.Take(w_.RoomRows() * 3 * g_.units);
    bias_at_ = plan_.Take(4 * g_.units);
    h_at_ = state_.Take(states, &plan_);
    side_at_ = plan_.Take(states);
    w_at_ = plan_.Take(w_.ScratchFloats());
    r_gates_at_ = plan_.Take(r_gates_.ScratchFloats());
    r_new_at_ = plan_.Take(r_new_.ScratchFloats());
  }

  void LoadState(const ExecArgs& args, float* h) const {
    const size_t states = g_.sequence.batch * g_.units;
    if (has_input_[kInitialH]) {
      std::copy_n(static_cast<const float*>(args.in[kInitialH]), states, h);
    } else {
      std::fill_n(h, states, 0.0f);
    }
  }

  // What is added to the input's product for z, r, n; behind it what is added to R_n h, which is
  // apart only when the reset gate comes after it.
  void FillBias(const ExecArgs& args, float* bias) const {
    const size_t units = g_.units;
    std::fill_n(bias, 4 * units, 0.0f);
    for (size_t gate = 0; gate < 3; ++gate) {
      Add(args, kUpdateWB + gate, bias + gate * units);
      const bool apart = gate == 2 && g_.linear_before_reset;
      Add(args, kUpdateRB + gate, bias + (apart ? 3 : gate) * units);
    }
  }
  void Add(const ExecArgs& args, size_t input, float* bias) const {
    if (has_input_[input]) Simd().add(bias, static_cast<const float*>(args.in[input]), g_.units);
  }

  const GruGeometry g_;
  GateWeights w_, r_gates_, r_new_;
  bool has_input_[14] = {};
  const bool has_state_;
  CarriedState state_;
  ScratchPlan plan_;
  size_t gates_at_ = 0, bias_at_ = 0, h_at_ = 0, side_at_ = 0;
  size_t w_at_ = 0, r_gates_at_ = 0, r_new_at_ = 0;
};

}  // namespace

OpDef GruOp() {
  OpDef def;
  def.type = "Gru";
  def.inputs = {{"input", types::kFloat, PortSpec::kOne, -1, 2, 3}};
  for (const char* name :
       {"input_to_update_weights", "input_to_reset_weights", "input_to_new_weights",
        "recurrent_to_update_weights", "recurrent_to_reset_weights", "recurrent_to_new_weights"}) {
    def.inputs.push_back({name, types::kFloat, PortSpec::kOne, 0, 2, 2});
  }
  for (const char* name : {"input_update_bias", "input_reset_bias", "input_new_bias",
                           "recurrent_update_bias", "recurrent_reset_bias", "recurrent_new_bias"}) {
    def.inputs.push_back({name, types::kFloat, PortSpec::kOptional, 0, 1, 1});
  }
  def.inputs.push_back({"initial_state", types::kFloat, PortSpec::kOptional, 0, 2, 3});
  def.inputs.push_back(ResetPort());
  def.outputs = {{"output", types::kFloat, PortSpec::kOne, 0, 2, 3},
                 {"final_state", types::kFloat, PortSpec::kOptional, 0, 2, 3}};
  def.params = {{"direction", ParamSpec::kInt, Default(0), "", {"forward", "reverse"}},
                {"linear_before_reset", ParamSpec::kInt, Default(0), "0 or 1"},
                {"time_major", ParamSpec::kBool, Default(true), "true: [T, N, I]"}};
  def.infer = Infer;
  def.portable = Gru::Make;
  def.flags = OpDef::kLpai | OpDef::kSumsInside;
  for (size_t i = kUpdateW; i <= kNewR; ++i) def.further_weights |= 1u << i;
  def.keeps_state = [](const Node& node) { return node.HasInput(kReset); };
  return def;
}

}  // namespace qnnrt
