// Steps of Lstm and Gru: a work item is a unit of a batch entry. What the input adds to the gates is
// computed before, for all steps: `gates`, a row [gates x units] for each step of each entry, of
// which a step takes rows `first`, `first + stride`... `weights` [outputs of a step before, gates x
// units] are the recurrent ones. States are 32-bit floats, [batch, ...].
//   GATES: of a row
//   LANES: work items that share a unit's products, UNITS units in a group; the first one goes on
//   VECTORS, OUTPUTS: parameters for what is optional; a name with an (u) is an element of a vector,
//   with an (i, x) what is stored in an output

#if LANES > 1
#define PARTS __local float parts[LANES * UNITS * GATES];
#define LANE ((int)get_local_id(0) / UNITS)
#define PLACE ((int)get_group_id(0) * UNITS + (int)get_local_id(0) % UNITS)
#define DONE(count) (LANE != 0 || PLACE >= count)
#else
#define PARTS __local float* parts = 0;
#define DONE(count) (PLACE >= count)
#define LANE 0
#define PLACE ((int)get_global_id(0))
#endif

// What the lanes of a unit have found; all work items of a group come here.
static inline void KERNEL(joined)(float* sums, int count, __local float* parts) {
#if LANES > 1
  const int own = get_local_id(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int g = 0; g < count; ++g) parts[own * count + g] = sums[g];
  barrier(CLK_LOCAL_MEM_FENCE);
  if (own >= UNITS) return;
  for (int lane = 1; lane < LANES; ++lane)
    for (int g = 0; g < count; ++g) sums[g] += parts[(own + lane * UNITS) * count + g];
#endif
}

static inline void KERNEL(sums)(__global const REAL* weights, __global const float* h, int n,
                                int outputs, int units, int u, float* sums,
                                __local float* parts) {
  const int width = GATES * units;
  for (int g = 0; g < GATES; ++g) sums[g] = 0.0f;
  for (int k = LANE; k < outputs; k += LANES) {
    const float x = h[n * outputs + k];
    for (int g = 0; g < GATES; ++g) sums[g] += x * LOAD(weights, k * width + g * units + u);
  }
  KERNEL(joined)(sums, GATES, parts);
}

static inline float KERNEL(clipped)(float x, float limit) {
  return limit > 0.0f ? bounded(x, -limit, limit) : x;
}

// ---- Lstm. Gates: forget, cell, output, and input; without the last one it is 1 - forget.

#ifdef ONLY_LSTM_STEP
__kernel void KERNEL(lstm_step)(__global const REAL* gates, __global const REAL* weights,
                                __global const float* h, __global float* c,
                                __global float* hidden, const int count, const int units,
                                const int outputs, const int first, const int stride,
                                const float limit VECTORS OUTPUTS) {
  PARTS
  const int i = min(PLACE, count - 1);
  const int n = i / units, u = i % units, row = first + n * stride;
  float s[GATES];
  KERNEL(sums)(weights, h, n, outputs, units, u, s, parts);
  if (DONE(count)) return;
  for (int g = 0; g < GATES; ++g) s[g] += LOAD(gates, (row * GATES + g) * units + u);
  const float before = c[i];
  const float forget = sigmoid(s[0] + FORGET_BIAS(u) + FORGET_PEEPHOLE(u, before));
  const float cell = tanh(s[1] + CELL_BIAS(u));
#if GATES == 4
  const float input = sigmoid(s[3] + INPUT_BIAS(u) + INPUT_PEEPHOLE(u, before));
#else
  const float input = 1.0f - forget;
#endif
  const float now = KERNEL(clipped)(forget * before + input * cell, limit);
  const float output = sigmoid(s[2] + OUTPUT_BIAS(u) + OUTPUT_PEEPHOLE(u, now));
  const float out = output * tanh(now);
  c[i] = now;
  hidden[i] = out;
  const int at = row * units + u;
  OUT(at, out);
  INPUT_OUT(at, input);
  FORGET_OUT(at, forget);
  CELL_OUT(at, cell);
  OUTPUT_OUT(at, output);
  HIDDEN_OUT(at, out);
}
#endif

// With normalization: sums of the gates, [batch, gates x units], before it and their statistics
#ifdef ONLY_LSTM_SUMS
__kernel void KERNEL(lstm_sums)(__global const REAL* gates, __global const REAL* weights,
                                __global const float* h, __global const float* c,
                                __global float* sums, const int count, const int units,
                                const int outputs, const int first, const int stride VECTORS) {
  PARTS
  const int i = min(PLACE, count - 1);
  const int n = i / units, u = i % units, row = first + n * stride;
  float s[GATES];
  KERNEL(sums)(weights, h, n, outputs, units, u, s, parts);
  if (DONE(count)) return;
  for (int g = 0; g < GATES; ++g) s[g] += LOAD(gates, (row * GATES + g) * units + u);
  s[0] += FORGET_PEEPHOLE(u, c[i]);
#if GATES == 4
  s[3] += INPUT_PEEPHOLE(u, c[i]);
#endif
  for (int g = 0; g < GATES; ++g) sums[(n * GATES + g) * units + u] = s[g];
}
#endif

// Mean and 1 / standard deviation of a row of `units`
#ifdef ONLY_LSTM_STATISTICS
__kernel void KERNEL(lstm_statistics)(__global const float* sums, __global float* statistics,
                                      const int count, const int units) {
  const int i = get_global_id(0);
  if (i >= count) return;
  __global const float* row = sums + i * units;
  float sum = 0.0f, squares = 0.0f;
  for (int u = 0; u < units; ++u) sum += row[u];
  const float mean = sum / units;
  for (int u = 0; u < units; ++u) squares += squared(row[u] - mean);
  statistics[2 * i] = mean;
  statistics[2 * i + 1] = 1.0f / sqrt(squares / units + 1e-8f);
}
#endif

static inline float KERNEL(normal)(__global const float* sums, __global const float* statistics,
                                   int row, int units, int u) {
  return (sums[row * units + u] - statistics[2 * row]) * statistics[2 * row + 1];
}

#ifdef ONLY_LSTM_CELL
__kernel void KERNEL(lstm_cell)(__global float* sums, __global const float* statistics,
                                __global float* c, const int count, const int units,
                                const int first, const int stride,
                                const float limit VECTORS OUTPUTS) {
  const int i = get_global_id(0);
  if (i >= count) return;
  const int n = i / units, u = i % units, at = (first + n * stride) * units + u;
  const int row = n * GATES;
  const float forget = sigmoid(
      KERNEL(normal)(sums, statistics, row, units, u) * FORGET_NORM(u) + FORGET_BIAS(u));
  const float cell =
      tanh(KERNEL(normal)(sums, statistics, row + 1, units, u) * CELL_NORM(u) + CELL_BIAS(u));
#if GATES == 4
  const float input = sigmoid(
      KERNEL(normal)(sums, statistics, row + 3, units, u) * INPUT_NORM(u) + INPUT_BIAS(u));
#else
  const float input = 1.0f - forget;
#endif
  const float now = KERNEL(clipped)(forget * c[i] + input * cell, limit);
  c[i] = now;
  sums[(row + 2) * units + u] += OUTPUT_PEEPHOLE(u, now);
  INPUT_OUT(at, input);
  FORGET_OUT(at, forget);
  CELL_OUT(at, cell);
}
#endif

#ifdef ONLY_LSTM_HIDDEN
__kernel void KERNEL(lstm_hidden)(__global const float* sums, __global const float* statistics,
                                  __global const float* c, __global float* hidden,
                                  const int count, const int units, const int first,
                                  const int stride VECTORS OUTPUTS) {
  const int i = get_global_id(0);
  if (i >= count) return;
  const int n = i / units, u = i % units, at = (first + n * stride) * units + u;
  const float output =
      sigmoid(KERNEL(normal)(sums, statistics, n * GATES + 2, units, u) * OUTPUT_NORM(u) +
              OUTPUT_BIAS(u));
  const float out = output * tanh(c[i]);
  hidden[i] = out;
  OUT(at, out);
  OUTPUT_OUT(at, output);
  HIDDEN_OUT(at, out);
}
#endif

// What a step gives of its `units`; weights [units, outputs]
#ifdef ONLY_LSTM_PROJECTION
__kernel void KERNEL(lstm_projection)(__global const REAL* weights, __global const float* hidden,
                                      __global float* h, const int count, const int units,
                                      const int outputs, const int first, const int stride,
                                      const float limit VECTORS OUTPUTS) {
  const int i = get_global_id(0);
  if (i >= count) return;
  const int n = i / outputs, o = i % outputs;
  float sum = PROJECTION_BIAS(o);
  for (int u = 0; u < units; ++u) sum += hidden[n * units + u] * LOAD(weights, u * outputs + o);
  sum = KERNEL(clipped)(sum, limit);
  h[i] = sum;
  OUT((first + n * stride) * outputs + o, sum);
}
#endif

// ---- Gru. Gates: update, reset, new.

// h = (1 - z) n + z h
static inline float KERNEL(mixed)(float z, float n, float h) { return n + z * (h - n); }

// The reset gate is applied to the product of the state
#ifdef ONLY_GRU_STEP
__kernel void KERNEL(gru_step)(__global const REAL* gates, __global const REAL* weights,
                               __global const float* before, __global float* h, const int count,
                               const int units, const int first,
                               const int stride VECTORS OUTPUTS) {
  PARTS
  const int i = min(PLACE, count - 1);
  const int n = i / units, u = i % units, row = first + n * stride;
  float s[GATES];
  KERNEL(sums)(weights, before, n, units, units, u, s, parts);
  if (DONE(count)) return;
  const int at = row * GATES * units + u;
  const float z = sigmoid(s[0] + LOAD(gates, at) + UPDATE_BIAS(u));
  const float r = sigmoid(s[1] + LOAD(gates, at + units) + RESET_BIAS(u));
  const float fresh = LOAD(gates, at + 2 * units) + NEW_BIAS(u) + r * (s[2] + NEW_STATE_BIAS(u));
  const float now = KERNEL(mixed)(z, tanh(fresh), before[i]);
  h[i] = now;
  OUT(row * units + u, now);
}
#endif

static inline float KERNEL(gate)(__global const REAL* gates, __global const REAL* weights,
                                 __global const float* h, int n, int row, int units, int column,
                                 __local float* parts) {
  float sum = 0.0f;
  for (int k = LANE; k < units; k += LANES)
    sum += h[n * units + k] * LOAD(weights, k * GATES * units + column);
  KERNEL(joined)(&sum, 1, parts);
  return sum + LOAD(gates, row * GATES * units + column);
}

// It is applied to the state: first what comes of that, for all units
#ifdef ONLY_GRU_RESET
__kernel void KERNEL(gru_reset)(__global const REAL* gates, __global const REAL* weights,
                                __global const float* before, __global float* kept,
                                const int count, const int units, const int first,
                                const int stride VECTORS) {
  PARTS
  const int i = min(PLACE, count - 1);
  const int n = i / units, u = i % units, row = first + n * stride;
  const float r =
      KERNEL(gate)(gates, weights, before, n, row, units, units + u, parts) + RESET_BIAS(u);
  if (DONE(count)) return;
  kept[i] = sigmoid(r) * before[i];
}
#endif

#ifdef ONLY_GRU_NEW
__kernel void KERNEL(gru_new)(__global const REAL* gates, __global const REAL* weights,
                              __global const float* before, __global const float* kept,
                              __global float* h, const int count, const int units, const int first,
                              const int stride VECTORS OUTPUTS) {
  PARTS
  const int i = min(PLACE, count - 1);
  const int n = i / units, u = i % units, row = first + n * stride;
  const float z = KERNEL(gate)(gates, weights, before, n, row, units, u, parts) + UPDATE_BIAS(u);
  // Into parts of its own: with several threads PoCL 3.0 now and then mixed them with the first
  // sum's, whatever barriers were between.
  const float fresh =
      KERNEL(gate)(gates, weights, kept, n, row, units, 2 * units + u, parts + LANES * UNITS);
  if (DONE(count)) return;
  const float now =
      KERNEL(mixed)(sigmoid(z), tanh(fresh + NEW_BIAS(u) + NEW_STATE_BIAS(u)), before[i]);
  h[i] = now;
  OUT(row * units + u, now);
}
#endif
