// Recurrent operators. Their states are variable tensors of the runtime, which keeps and resets
// them: they are inputs and outputs of the graph, copied at each run.
#include "tflite/lower.h"

namespace qnnrt::tflite {
namespace {

constexpr int kInputs = 24;  // of QNN's operation

// Where the runtime's inputs 1 to 17 stand among QNN's: weights of the input for the input, forget,
// cell and output gates; recurrent weights; peepholes of the input, forget and output gates;
// biases; projection.
constexpr int kPlaces[17] = {16, 1, 2, 3, 17, 4, 5, 6, 18, 19, 20, 21, 7, 8, 9, 22, 23};

struct Form {
  int32_t activation;
  float cell_clip, projection_clip;
  bool time_major;
};

// `x` has a sequence; `shape` is that of the output for it.
Value Lstm(Node& n, const Form& form, const Value& x, const Dims& shape) {
  if (form.activation != kTfLiteActTanh) Refuse("a cell activation other than tanh");
  std::vector<Value> given(kInputs);
  given[0] = x;
  for (int i = 0; i < 17; ++i) given[kPlaces[i]] = n.Optional(1 + i);
  for (int i = 0; i < 4 && n.inputs() > 20; ++i) given[12 + i] = n.Optional(20 + i);
  if (!given[1].given() || !given[4].given() || given[4].rank() != 2)
    Refuse("the forget gate's weights are missing");
  const uint32_t batch = x.dims[form.time_major ? 1 : 0];
  const uint32_t units = given[4].dims[0], outputs = given[4].dims[1];
  given[10] = n.State(18, {batch, outputs});
  given[11] = n.State(19, {batch, units});
  const std::vector<Value> made = n.Ops(
      "Lstm", given,
      {{shape, n.type(x)}, {{batch, units}, n.type(x)}, {{batch, outputs}, n.type(x)}},
      {U32("direction", 0), F32("cell_clip_threshold", form.cell_clip),
       F32("output_clip_threshold", form.projection_clip), Flag("time_major", form.time_major)});
  n.NextState(18, made[2]);
  n.NextState(19, made[1]);
  return made[0];
}

void SequenceLstm(Node& n) {
  const auto& p = n.params<SequenceLstmParams>();
  if (p.diagonal != 0) Refuse("recurrent weights that are diagonals");
  const Form form = {p.activation, p.cell_clip, p.projection_clip, p.time_major != 0};
  n.Set(0, Lstm(n, form, n.In(0, 3), n.OutDims()));
}

// One step.
void StepLstm(Node& n) {
  const auto& p = n.params<LstmParams>();
  if (p.kernel != 0) Refuse("the basic kernel, which has its states as ordinary inputs");
  const Value x = n.In(0, 2);
  const Dims out = n.OutDims();
  const Form form = {p.activation, p.cell_clip, p.projection_clip, false};
  const Value steps = n.Reshape(x, {x.dims[0], 1, x.dims[1]});
  n.Set(0, Lstm(n, form, steps, {out.at(0), 1, out.at(1)}));
}

}  // namespace

const std::vector<BuiltinRow>& RecurrentBuiltins() {
  static const std::vector<BuiltinRow> rows = {
      {16, {StepLstm, Fixed::kNever, "LSTM"}},
      {44, {SequenceLstm, Fixed::kNever, "UNIDIRECTIONAL_SEQUENCE_LSTM"}},
  };
  return rows;
}

}  // namespace qnnrt::tflite
