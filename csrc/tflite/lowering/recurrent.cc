// LSTM, RNN and SVDF. Their states are variable tensors of TFLite: see States.
#include <cstring>
#include <optional>

#include "tflite/lowering/lowering.h"

namespace qnnrt::tflite {
namespace {

constexpr int kInputs = 24;  // of QNN's operation

// Where TFLite's inputs 1 to 17 stand among QNN's: weights of the input for the input, forget, cell
// and output gates; recurrent weights; peepholes of the input, forget and output gates; biases;
// projection.
constexpr int kPositions[17] = {16, 1, 2, 3, 17, 4, 5, 6, 18, 19, 20, 21, 7, 8, 9, 22, 23};

// QNN has no plain recurrent operation: a step is three others.
constexpr uint32_t kMostSteps = 4096;

// A mode of Buffer: the newest frame is the last one, zeros come before the first.
constexpr uint32_t kNonBlockingRight = 2;

// A step or a sequence in one direction.
struct Direction {
  int first = 1;             // input at which its parameters begin
  int states[2] = {18, 19};  // inputs that are the output's and the cell's state
  std::optional<int> norms;  // input at which the weights of layer norms begin
  bool reverse = false;
  bool time_major = false;
};

// The output sequence for `x`.
Value Lstm(Node& n, const Value& x, const Direction& form) {
  if (n.Integer("FusedActivationFunction") != kActTanh)
    Unsupported("a cell activation other than tanh");
  std::vector<Value> given(kInputs);
  given[0] = x;
  for (int i = 0; i < 17; ++i) given[kPositions[i]] = n.Optional(form.first + i);
  for (int i = 0; i < 4 && form.norms; ++i) given[12 + i] = n.Optional(*form.norms + i);
  if (!given[1].given() || !given[4].given() || given[4].rank() != 2)
    Damaged("the weights of the forget gate are missing");
  const uint32_t batch = x.dims[form.time_major ? 1 : 0];
  const uint32_t units = given[4].dims[0], outputs = given[4].dims[1];
  // QNN's operation has no default for these.
  for (int i = 0; i < 2; ++i) {
    const Dims dims = {batch, i == 0 ? outputs : units};
    given[10 + i] = n.State(form.states[i], dims);
    if (!given[10 + i].given()) given[10 + i] = n.Filled(dims, n.type(x), nullptr, "the zeros");
  }
  if (n.Keeps({form.states[0], form.states[1]})) {
    const uint8_t never = 0;
    given.push_back(n.Constant({1}, QNN_DATATYPE_BOOL_8, &never));  // reset
  }
  Dims sequence = x.dims;
  sequence.back() = outputs;
  const std::vector<Value> made = n.Ops(
      "Lstm", given,
      {{sequence, n.type(x)}, {{batch, units}, n.type(x)}, {{batch, outputs}, n.type(x)}},
      {U32("direction", form.reverse ? 1 : 0), F32("cell_clip_threshold", n.Real("CellClip")),
       F32("output_clip_threshold", n.Real("ProjClip")), Flag("time_major", form.time_major)});
  n.NextState(form.states[0], made[2]);
  n.NextState(form.states[1], made[1]);
  return made[0];
}

void SequenceLstm(Node& n) {
  const Value x = n.In(0, 3);
  if (n.Flag("DiagonalRecurrentTensors")) Unsupported("recurrent weights that are diagonals");
  Direction form;
  if (n.inputs() > 20) form.norms = 20;
  form.time_major = n.Flag("TimeMajor");
  n.Set(0, Lstm(n, x, form));
}

void SetMerged(Node& n, const Value& forward, const Value& backward) {
  if (!n.Flag("MergeOutputs")) {
    n.Set(0, forward);
    n.Set(1, backward);
    return;
  }
  Dims dims = forward.dims;
  dims.back() = Dim(int64_t{forward.dims.back()} + backward.dims.back());
  n.Set(0, n.Op("Concat", {forward, backward}, dims,
                {U32("axis", static_cast<uint32_t>(dims.size()) - 1)}));
}

void BidirectionalLstm(Node& n) {
  const Value x = n.In(0, 3);
  for (int i = 39; i < 48; ++i) {
    if (n.has(i)) Unsupported("an auxiliary input");
  }
  // Before version 2 there was no way but the sequence first.
  const bool major = n.Flag("TimeMajor") || n.view().version < 2;
  const Value forward = Lstm(n, x, {1, {35, 36}, {}, false, major});
  const Value backward = Lstm(n, x, {18, {37, 38}, {}, true, major});
  SetMerged(n, forward, backward);
}

// Weights [4 units, inputs + units], gates in the order input, cell, forget, output; states are
// ordinary inputs and outputs.
void BasicLstm(Node& n) {
  const Value x = n.In(0, 2), h = n.In(1, 2), state = n.In(4, 2);
  n.NeedConstant(2, "the weights");
  n.NeedConstant(3, "the biases");
  const Value weights = n.In(2), bias = n.In(3);
  const uint32_t units = h.dims[1], inputs = x.dims[1];
  const uint64_t rows = uint64_t{4} * units;
  if (weights.rank() != 2 || weights.dims[0] != rows ||
      weights.dims[1] != uint64_t{inputs} + units || Elements(bias.dims) != rows ||
      n.type(weights) != QNN_DATATYPE_FLOAT_32 || n.type(bias) != QNN_DATATYPE_FLOAT_32)
    Damaged("weights %s for %u inputs and %u units", Text(weights.dims).c_str(), inputs, units);
  const int64_t activation = n.Integer("FusedActivationFunction");
  if (activation != kActTanh && activation != kActNone)
    Unsupported("a cell activation other than tanh");
  std::vector<Value> given(kInputs);
  given[0] = n.Reshape(x, {x.dims[0], 1, inputs});
  given[10] = h;
  given[11] = state;
  constexpr int kGates[4][3] = {{16, 17, 21}, {2, 5, 8}, {1, 4, 7}, {3, 6, 9}};
  const auto* const from = static_cast<const float*>(n.data(weights));
  const auto* const biases = static_cast<const float*>(n.data(bias));
  // The columns of a gate from `begin` on.
  auto columns = [&](uint32_t gate, uint32_t begin, uint32_t count) {
    std::vector<float> part;
    for (uint32_t r = gate * units; r < (gate + 1) * units; ++r) {
      const float* row = from + uint64_t{r} * (inputs + units) + begin;
      part.insert(part.end(), row, row + count);
    }
    return n.Constant({units, count}, QNN_DATATYPE_FLOAT_32, part.data());
  };
  for (uint32_t gate = 0; gate < 4; ++gate) {
    given[kGates[gate][0]] = columns(gate, 0, inputs);
    given[kGates[gate][1]] = columns(gate, inputs, units);
    given[kGates[gate][2]] =
        n.Constant({units}, QNN_DATATYPE_FLOAT_32, biases + uint64_t{gate} * units);
  }
  const Dims shape = {x.dims[0], units};
  const std::vector<Value> made = n.Ops(
      "Lstm", given, {{{x.dims[0], 1, units}, n.type(x)}, {shape, n.type(x)}, {shape, n.type(x)}},
      {U32("direction", 0), F32("cell_clip_threshold", n.Real("CellClip")),
       Flag("time_major", false)});
  n.Set(0, made[2]);
  n.Set(1, made[1]);  // two more are scratch memory of TFLite's kernel
}

// One step.
void StepLstm(Node& n) {
  if (n.Integer("KernelType") == 1) {
    // The delegate leaves the basic kernel to TFLite, which has its scratch memory as outputs.
    if (n.view().shapes_known)
      Unsupported("the basic kernel, which has its states as ordinary inputs");
    BasicLstm(n);
    return;
  }
  const Value x = n.In(0, 2);
  Direction form;
  if (n.inputs() > 20) form.norms = 20;
  const Value out = Lstm(n, n.Reshape(x, {x.dims[0], 1, x.dims[1]}), form);
  n.Set(0, n.Reshape(out, {x.dims[0], out.dims.back()}));
}

// h = activation(x W + h R + b), step by step; weights begin at input `first`.
Value Rnn(Node& n, const Value& x, int first, bool reverse, bool time_major) {
  const Value w = n.In(first), r = n.In(first + 1), bias = n.In(first + 2);
  if (w.rank() != 2 || r.dims != Dims{w.dims[0], w.dims[0]} || w.dims[1] != x.dims[2])
    Damaged("weights %s and %s for %s", Text(w.dims).c_str(), Text(r.dims).c_str(),
            Text(x.dims).c_str());
  const uint32_t units = w.dims[0];
  const uint32_t steps = x.dims[time_major ? 0 : 1], batch = x.dims[time_major ? 1 : 0];
  const uint32_t rows = Dim(int64_t{steps} * batch);
  const Value flat = n.Reshape(x, {rows, x.dims[2]});
  if (steps > kMostSteps)
    Unsupported("%u steps, each of which becomes operations of its own", steps);
  const Dims shape = time_major ? Dims{steps, batch, units} : Dims{batch, steps, units};
  const Value inputs = n.Reshape(n.Op("FullyConnected", {flat, w, bias}, {rows, units}), shape);
  if (n.Keeps({first + 3}))
    Unsupported("its state cannot be kept from run to run: load with variables=\"io\"");
  Value state = n.State(first + 3, {batch, units});
  std::vector<Value> found(steps);
  for (uint32_t k = 0; k < steps; ++k) {
    const uint32_t i = reverse ? steps - 1 - k : k;
    std::vector<Range> ranges;
    for (uint32_t d : shape) ranges.push_back({0, d, 1});
    ranges[time_major ? 0 : 1] = {i, int64_t{i} + 1, 1};
    Value total = n.Reshape(Cut(n, inputs, ranges), {batch, units});
    if (state.given()) total = n.Add(total, n.Op("FullyConnected", {state, r}, {batch, units}));
    state = n.Activate(total, n.Integer("FusedActivationFunction"));
    found[i] = state;
  }
  n.NextState(first + 3, state);
  return n.Op("Pack", found, shape, {U32("axis", time_major ? 0 : 1)});
}

void StepRnn(Node& n) {
  const Value x = n.In(0, 2);
  const Value out = Rnn(n, n.Reshape(x, {1, x.dims[0], x.dims[1]}), 1, false, true);
  n.Set(0, n.Reshape(out, {out.dims[1], out.dims[2]}));
}

void SequenceRnn(Node& n) { n.Set(0, Rnn(n, n.In(0, 3), 1, false, n.Flag("TimeMajor"))); }

void BidirectionalRnn(Node& n) {
  const Value x = n.In(0, 3);
  const bool major = n.Flag("TimeMajor");
  for (int i = 9; i < 12; ++i) {
    if (n.has(i)) Unsupported("an auxiliary input");
  }
  const Value forward = Rnn(n, x, 1, false, major);
  const Value backward = Rnn(n, x, 5, true, major);
  SetMerged(n, forward, backward);
}

// The sum along the last of three dimensions.
Value Summed(Node& n, const Value& x) {
  return n.Op("ReduceSum", {x}, {x.dims[0], x.dims[1]},
              {U32s("axes", {2}), Flag("keep_dims", false)});
}

// The features of the last runs, rounded as TFLite keeps them: [batch, filters, memory].
Value KeptFeatures(Node& n, Value newest, uint32_t memory) {
  const TensorView& t = n.view().inputs[4];
  if (!t.encoding.none()) newest = n.Dequantize(n.Quantize(newest, t.dtype, t.encoding));
  const uint32_t batch = newest.dims[0], filters = newest.dims[1];
  return n.Op("Buffer", {n.Reshape(newest, {batch, filters, 1})}, {batch, filters, memory},
              {U32("buffer_size", memory), U32("buffer_dim", 2), U32("mode", kNonBlockingRight)});
}

// The same with the features of earlier runs as an input of the model.
Value ShiftedFeatures(Node& n, const Value& newest, uint32_t memory) {
  const uint32_t batch = newest.dims[0], filters = newest.dims[1];
  const Dims flat = {batch, Dim(int64_t{filters} * memory)};
  const Value frames = n.Reshape(n.State(4, flat), {batch, filters, memory});
  const Value kept = Cut(n, frames, {{0, batch, 1}, {0, filters, 1}, {1, memory, 1}});
  const Value last = n.Reshape(newest, {batch, filters, 1});
  const Value all = n.Op("Concat", {kept, last}, frames.dims, {U32("axis", 2)});
  n.NextState(4, n.Reshape(all, flat));
  return all;
}

// Features of the last frames, filtered in time, summed over the rank.
void Svdf(Node& n) {
  const Value x = n.In(0, 2), feature = n.In(1, 2), time = n.In(2, 2);
  const int64_t rank = n.Integer("Rank");
  const uint32_t filters = time.dims[0], memory = time.dims[1], batch = x.dims[0];
  if (rank < 1 || filters % rank != 0 || feature.dims != Dims{filters, x.dims[1]})
    Damaged("weights %s and %s of rank %lld", Text(feature.dims).c_str(), Text(time.dims).c_str(),
            static_cast<long long>(rank));
  if (n.view().states == States::kReset)
    Unsupported(
        "it filters over earlier runs: load with stateful=True, or with variables=\"io\", and "
        "give its memory back at the next run");
  const Value newest = n.Op("FullyConnected", {x, feature}, {batch, filters});
  const Value features =
      n.Keeps({4}) ? KeptFeatures(n, newest, memory) : ShiftedFeatures(n, newest, memory);
  const Value filtered = Summed(n, n.Multiply(features, time));
  const auto ranks = static_cast<uint32_t>(rank);
  Value out = Summed(n, n.Reshape(filtered, {batch, filters / ranks, ranks}));
  if (n.has(3)) out = n.Add(out, n.In(3));
  n.Set(0, n.Activate(out, n.Integer("FusedActivationFunction")));
}

}  // namespace

std::vector<Operator> RecurrentOperators() {
  const Fixed floats = Fixed::kFloats;
  const Delegated not_fixed = Delegated::kNotFixed, none = Delegated::kNone;
  const char* const state = "state: [TFLite files](tflite.md#state)";
  const char* const rnn = "FullyConnected, ElementWiseAdd";
  return {
      {16, "LSTM", StepLstm, "Lstm", "LSTMOptions", floats, not_fixed, state},
      {24, "RNN", StepRnn, rnn, "RNNOptions", floats, none, state},
      {27, "SVDF", Svdf, "FullyConnected, Buffer or Concat, ReduceSum and elementwise",
       "SVDFOptions", floats, none, "needs `stateful=True` or `variables=\"io\"`"},
      {35, "UNIDIRECTIONAL_SEQUENCE_RNN", SequenceRnn, rnn, "SequenceRNNOptions", floats, none,
       state},
      {44, "UNIDIRECTIONAL_SEQUENCE_LSTM", SequenceLstm, "Lstm",
       "UnidirectionalSequenceLSTMOptions", floats, not_fixed, state},
      {46, "BIDIRECTIONAL_SEQUENCE_RNN", BidirectionalRnn, rnn, "BidirectionalSequenceRNNOptions",
       floats, none, state},
      {52, "BIDIRECTIONAL_SEQUENCE_LSTM", BidirectionalLstm, "Lstm, Concat",
       "BidirectionalSequenceLSTMOptions", floats, none, state},
  };
}

}  // namespace qnnrt::tflite
