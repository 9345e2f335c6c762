"""LSTM, RNN and SVDF. Their states are TFLite's variable tensors: see `Lowering.state`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import tflite

from ..shorthand import u32
from .activations import TANH, activate, fused_of
from .common import add, cut, mul, rank_is
from .nodes import Damaged, Result, TfliteNode, Unsupported, lowers
from .values import Value, constant

if TYPE_CHECKING:
    from .lower import Lowering

# Where TFLite's inputs 1 to 17 of an LSTM stand among QNN's.
_LSTM_INPUTS = {
    1: 16, 2: 1, 3: 2, 4: 3,  # weights of the input for the input, forget, cell and output gates
    5: 17, 6: 4, 7: 5, 8: 6,  # recurrent weights
    9: 18, 10: 19, 11: 20,  # peepholes of the input, forget and output gates
    12: 21, 13: 7, 14: 8, 15: 9,  # biases
    16: 22, 17: 23,  # projection
}  # fmt: skip

#: QNN has no plain recurrent operation: a step is three others.
_MOST_STEPS = 4096

#: A mode of Buffer: the newest frame is the last one, zeros come before the first.
_NON_BLOCKING_RIGHT = 2


def _lstm(
    c: Lowering,
    node: TfliteNode,
    x: Value,
    first: int,
    states: tuple[int, int],
    norms: int | None,
    reverse: bool,
    time_major: bool,
) -> Value:
    """One direction; its parameters begin at input `first`. Returns the output sequence."""
    if fused_of(node.options) != TANH:
        raise Unsupported("a cell activation other than tanh")
    given: list[Value | None] = [None] * 24
    given[0] = x
    for theirs, ours in _LSTM_INPUTS.items():
        given[ours] = node.optional(first + theirs - 1)
    if norms is not None:
        for i in range(4):
            given[12 + i] = node.optional(norms + i)
    forget, recurrent = given[1], given[4]
    if forget is None or recurrent is None or recurrent.rank != 2:
        raise Damaged("the weights of the forget gate are missing")
    units, outputs = recurrent.shape
    batch = x.shape[-2] if x.rank == 2 or time_major else x.shape[0]
    # QNN's operation has no default for these.
    for i, (position, width) in enumerate(zip(states, (outputs, units), strict=True)):
        zeros = constant(np.zeros((batch, width), x.dtype))
        given[10 + i] = c.state(node, position, (batch, width)) or zeros
    if c.keeps(node, *states):
        given.append(constant(np.zeros(1, np.bool_)))  # reset: never
    sequence, cell, last = c.b.ops_of(
        "Lstm",
        given,
        [
            ((*x.shape[:-1], outputs), x.dtype),
            ((batch, units), x.dtype),
            ((batch, outputs), x.dtype),
        ],
        direction=np.uint32(reverse),
        cell_clip_threshold=np.float32(node.options.number("CellClip")),
        output_clip_threshold=np.float32(node.options.number("ProjClip")),
        time_major=np.bool_(time_major),
    )
    c.next_state(node, states[0], last)
    c.next_state(node, states[1], cell)
    return sequence


@lowers(
    "UNIDIRECTIONAL_SEQUENCE_LSTM",
    to="Lstm",
    options="UnidirectionalSequenceLSTMOptions",
    note="state: [TFLite files](tflite.md#state)",
    steps=True,
)
def unidirectional_lstm(c: Lowering, node: TfliteNode) -> Result:
    x = rank_is(node.input(), 3)
    if node.options.flag("DiagonalRecurrentTensors"):
        raise Unsupported("recurrent weights that are diagonals")
    norms = 20 if len(node.inputs) > 20 else None
    return _lstm(c, node, x, 1, (18, 19), norms, False, node.options.flag("TimeMajor"))


@lowers(
    "BIDIRECTIONAL_SEQUENCE_LSTM",
    to="Lstm, Concat",
    options="BidirectionalSequenceLSTMOptions",
    note="state: [TFLite files](tflite.md#state)",
    steps=True,
)
def bidirectional_lstm(c: Lowering, node: TfliteNode) -> Result:
    x = rank_is(node.input(), 3)
    if any(node.has(i) for i in range(39, 48)):
        raise Unsupported("an auxiliary input")
    # Before version 2 there was no way but the sequence first.
    major = node.options.flag("TimeMajor") or node.version < 2
    forward = _lstm(c, node, x, 1, (35, 36), None, False, major)
    backward = _lstm(c, node, x, 18, (37, 38), None, True, major)
    return _merged(c, node, forward, backward)


def _merged(c: Lowering, node: TfliteNode, forward: Value, backward: Value) -> Result:
    if not node.options.flag("MergeOutputs"):
        return [forward, backward]
    shape = (*forward.shape[:-1], forward.shape[-1] + backward.shape[-1])
    return c.b.op("Concat", [forward, backward], shape, axis=np.uint32(len(shape) - 1))


@lowers(
    "LSTM",
    to="Lstm",
    options="LSTMOptions",
    note="state: [TFLite files](tflite.md#state)",
    steps=True,
)
def lstm(c: Lowering, node: TfliteNode) -> Result:
    """One step. The basic kernel has its states as ordinary inputs and outputs."""
    if node.options.integer("KernelType") == int(tflite.LSTMKernelType.BASIC):
        return _basic_lstm(c, node)
    x = rank_is(node.input(), 2)
    steps = c.b.reshape(x, (x.shape[0], 1, x.shape[1]))
    norms = 20 if len(node.inputs) > 20 else None
    out = _lstm(c, node, steps, 1, (18, 19), norms, False, False)
    return c.b.reshape(out, (x.shape[0], out.shape[-1]))


def _basic_lstm(c: Lowering, node: TfliteNode) -> Result:
    """Weights [4 units, inputs + units], gates in the order input, cell, forget, output."""
    x, h, state = (rank_is(node.input(i), 2) for i in (0, 1, 4))
    weights, bias = node.const(2, "the weights"), node.const(3, "the biases").reshape(-1)
    units, inputs = h.shape[1], x.shape[1]
    if weights.shape != (4 * units, inputs + units) or bias.size != 4 * units:
        raise Damaged(f"weights {list(weights.shape)} for {inputs} inputs and {units} units")
    if fused_of(node.options) not in (TANH, 0):
        raise Unsupported("a cell activation other than tanh")
    given: list[Value | None] = [None] * 24
    given[0], given[10], given[11] = c.b.reshape(x, (x.shape[0], 1, inputs)), h, state
    for gate, (w, r, b) in enumerate(((16, 17, 21), (2, 5, 8), (1, 4, 7), (3, 6, 9))):
        rows = slice(gate * units, (gate + 1) * units)
        given[w] = constant(np.ascontiguousarray(weights[rows, :inputs]))
        given[r] = constant(np.ascontiguousarray(weights[rows, inputs:]))
        given[b] = constant(np.ascontiguousarray(bias[rows]))
    shape = (x.shape[0], units)
    _, cell, last = c.b.ops_of(
        "Lstm",
        given,
        [((x.shape[0], 1, units), x.dtype), (shape, x.dtype), (shape, x.dtype)],
        direction=np.uint32(0),
        cell_clip_threshold=np.float32(node.options.number("CellClip")),
        time_major=np.bool_(False),
    )
    return [last, cell]  # two more are scratch memory of TFLite's kernel


def _rnn(
    c: Lowering,
    node: TfliteNode,
    x: Value,
    first: int,
    reverse: bool,
    time_major: bool,
) -> Value:
    """h = activation(x W + h R + b), step by step; weights begin at input `first`."""
    w, r, bias = (node.input(first + i) for i in range(3))
    if w.rank != 2 or r.shape != (w.shape[0], w.shape[0]) or w.shape[1] != x.shape[2]:
        raise Damaged(f"weights {list(w.shape)} and {list(r.shape)} for {list(x.shape)}")
    units = w.shape[0]
    steps, batch = (x.shape[0], x.shape[1]) if time_major else (x.shape[1], x.shape[0])
    rows = c.b.reshape(x, (steps * batch, x.shape[2]))
    if steps > _MOST_STEPS:
        raise Unsupported(f"{steps} steps, each of which becomes operations of its own")
    inputs = c.b.op("FullyConnected", [rows, w, bias], (steps * batch, units))
    shape = (steps, batch, units) if time_major else (batch, steps, units)
    inputs = c.b.reshape(inputs, shape)
    if c.keeps(node, first + 3):
        raise Unsupported('its state cannot be kept from run to run: load with variables="io"')
    state = c.state(node, first + 3, (batch, units))
    found: list[Value] = []
    for i in range(steps)[:: -1 if reverse else 1]:
        ranges = [(i, i + 1, 1) if d == (0 if time_major else 1) else (0, n, 1)
                  for d, n in enumerate(shape)]  # fmt: skip
        total = c.b.reshape(cut(c, inputs, ranges), (batch, units))
        if state is not None:
            total = add(c, total, c.b.op("FullyConnected", [state, r], (batch, units)))
        state = activate(c, fused_of(node.options), total)
        found.append(state)
    c.next_state(node, first + 3, found[-1])
    axis = 0 if time_major else 1
    return c.b.op("Pack", found[:: -1 if reverse else 1], shape, axis=np.uint32(axis))


@lowers(
    "RNN",
    to="FullyConnected, ElementWiseAdd",
    options="RNNOptions",
    note="state: [TFLite files](tflite.md#state)",
    steps=True,
)
def rnn(c: Lowering, node: TfliteNode) -> Result:
    x = rank_is(node.input(), 2)
    out = _rnn(c, node, c.b.reshape(x, (1, *x.shape)), 1, False, True)
    return c.b.reshape(out, out.shape[1:])


@lowers(
    "UNIDIRECTIONAL_SEQUENCE_RNN",
    to="FullyConnected, ElementWiseAdd",
    options="SequenceRNNOptions",
    note="state: [TFLite files](tflite.md#state)",
    steps=True,
)
def sequence_rnn(c: Lowering, node: TfliteNode) -> Result:
    return _rnn(c, node, rank_is(node.input(), 3), 1, False, node.options.flag("TimeMajor"))


@lowers(
    "BIDIRECTIONAL_SEQUENCE_RNN",
    to="FullyConnected, ElementWiseAdd",
    options="BidirectionalSequenceRNNOptions",
    note="state: [TFLite files](tflite.md#state)",
    steps=True,
)
def bidirectional_rnn(c: Lowering, node: TfliteNode) -> Result:
    x, major = rank_is(node.input(), 3), node.options.flag("TimeMajor")
    if any(node.has(i) for i in range(9, 12)):
        raise Unsupported("an auxiliary input")
    forward = _rnn(c, node, x, 1, False, major)
    backward = _rnn(c, node, x, 5, True, major)
    return _merged(c, node, forward, backward)


@lowers(
    "SVDF",
    to="FullyConnected, Buffer or Concat, ReduceSum and elementwise",
    options="SVDFOptions",
    note='needs `stateful=True` or `variables="io"`',
    steps=True,
)
def svdf(c: Lowering, node: TfliteNode) -> Result:
    """Features of the last frames, filtered in time, summed over the rank."""
    x, feature, time = (rank_is(node.input(i), 2) for i in range(3))
    rank = node.options.integer("Rank")
    (filters, memory), batch = time.shape, x.shape[0]
    if rank < 1 or filters % rank or feature.shape != (filters, x.shape[1]):
        raise Damaged(f"weights {list(feature.shape)} and {list(time.shape)} of rank {rank}")
    if c.variables == "reset" and not c.stateful:
        raise Unsupported(
            'it filters over earlier runs: load with stateful=True, or with variables="io", and '
            "give its memory back at the next run"
        )
    newest = c.b.op("FullyConnected", [x, feature], (batch, filters))
    if c.keeps(node, 4):
        joined = _kept(c, node, newest, memory)
    else:
        joined = _shifted(c, node, newest, memory)
    filtered = _summed(c, mul(c, joined, time))
    ranks = c.b.reshape(filtered, (batch, filters // rank, rank))
    out = _summed(c, ranks)
    if node.has(3):
        out = add(c, out, node.input(3))
    return activate(c, fused_of(node.options), out)


def _kept(c: Lowering, node: TfliteNode, newest: Value, memory: int) -> Value:
    """The features of the last runs, rounded as TFLite keeps them: [batch, filters, memory]."""
    tensor = node.tensors[4]
    if tensor is not None and tensor.encoding is not None and tensor.dtype is not None:
        newest = c.b.dequantize(c.b.quantize(newest, tensor.dtype, tensor.encoding))
    return c.b.op(
        "Buffer",
        [c.b.reshape(newest, (*newest.shape, 1))],
        (*newest.shape, memory),
        buffer_size=np.uint32(memory),
        buffer_dim=np.uint32(2),
        mode=np.uint32(_NON_BLOCKING_RIGHT),
    )


def _shifted(c: Lowering, node: TfliteNode, newest: Value, memory: int) -> Value:
    """The same with the features of earlier runs as an input of the model."""
    batch, filters = newest.shape
    state = c.state(node, 4, (batch, filters * memory))
    assert state is not None
    frames = c.b.reshape(state, (batch, filters, memory))
    kept = cut(c, frames, [(0, batch, 1), (0, filters, 1), (1, memory, 1)])
    parts: Sequence[Value] = [kept, c.b.reshape(newest, (batch, filters, 1))]
    joined = c.b.op("Concat", parts, frames.shape, axis=np.uint32(2))
    c.next_state(node, 4, c.b.reshape(joined, state.shape))
    return joined


def _summed(c: Lowering, x: Value) -> Value:
    """The sum along the last of three dimensions."""
    return c.b.op("ReduceSum", [x], x.shape[:2], axes=u32([2]), keep_dims=np.bool_(False))
