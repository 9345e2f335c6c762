"""LSTM, GRU and RNN over [T, N, I], both directions."""

from __future__ import annotations

import numpy as np

from ..encodings import Coded
from ..graph import Edge
from .common import add, cast, concat, strided, unary  # noqa: F401
from .expanded_recurrent import activations_of, by_steps
from .nodes import Lowering, OnnxNode, Refused, Result, Unsupported, lowers
from .op_matmul import matmul
from .values import Value, coded_constant, constant


def _of_gate(coded: Coded, direction: int, gate: int, size: int) -> Coded | None:
    """A gate's part of the constant [directions, gates * size, ...]; None: decoded only."""
    one = coded.take(np.array([direction]), 0)
    one = None if one is None else one.reshape(one.codes.shape[1:])
    return None if one is None else one.take(np.arange(gate * size, (gate + 1) * size), 0)


class Recurrent:
    """What LSTM, GRU and RNN have in common: layout, directions, weights, initial states."""

    def __init__(self, c: Lowering, n: OnnxNode, gates: int) -> None:
        self.c, self.n, self.gates = c, n, gates
        x = n.input(0)
        self.batch_first = bool(n.integer("layout"))
        self.x = c.b.plain(c.b.transpose(x, (1, 0, 2)) if self.batch_first else x)
        self.steps, self.batch, _ = self.x.shape
        direction = n.text("direction", "forward")
        self.reverse = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[
            direction
        ]
        self.hidden = n.input(2).shape[2]
        states = (5, 6) if gates == 4 else (5,)
        if by_steps(n):
            why = "a clip, coupled gates, or activations that QNN's operation does not have"
            if self.carries(*states):
                raise Refused(f"{why}, of a cell whose state is kept")
            raise Unsupported(why)
        lengths = n.optional(4)
        if lengths is not None and (lengths.data is None or not np.all(lengths.data == self.steps)):
            if self.carries(*states):
                raise Refused("sequences of different lengths (sequence_lens) whose state is kept")
            raise Unsupported("sequences of different lengths (sequence_lens)")

    def weights(self, index: int, direction: int, order: list[int]) -> list[Value]:
        """Input `index` ([directions, gates * H, ...]) of one direction, a value for each gate."""
        v = self.n.input(index)
        h = self.hidden
        parts = []
        for gate in order:
            if v.coded is not None and (coded := _of_gate(v.coded, direction, gate, h)) is not None:
                parts.append(coded_constant(coded))
                continue
            if v.data is not None:
                parts.append(constant(v.data[direction, gate * h : (gate + 1) * h]))
                continue
            ranges = {0: (direction, direction + 1, 1), 1: (gate * h, (gate + 1) * h, 1)}
            cut = strided(self.c, self.c.b.plain(v), ranges)
            parts.append(self.c.b.reshape(cut, cut.shape[1:]))
        return parts

    def biases(self, direction: int, order: list[int]) -> tuple[list[Value], list[Value]]:
        """Input and recurrent biases for each gate."""
        h, dtype = self.hidden, self.x.dtype
        if not self.n.has(3):
            zeros = [constant(np.broadcast_to(np.zeros((), dtype), (h,))) for _ in order]
            return zeros, list(zeros)
        both = self.weights(3, direction, [*order, *(self.gates + g for g in order)])
        return both[: len(order)], both[len(order) :]

    def carries(self, *states: int) -> list[Edge | None]:
        """The last input, `reset`, when the state goes on from run to run; else nothing.

        A state that comes from outside of the node is kept by the caller.
        """
        given = [self.n.optional(i) for i in states]
        if not self.c.stateful or any(v is not None and not v.is_const for v in given):
            return []
        return [self.c.b.edge(constant(np.zeros(1, np.bool_)))]

    def initial(self, index: int, direction: int) -> Value:
        """[1, N, H] of one direction, in whichever layout it came."""
        v = self.n.optional(index)
        if v is None:
            zero = np.zeros((), self.x.dtype)
            return constant(np.broadcast_to(zero, (1, self.batch, self.hidden)))
        if self.batch_first:
            v = self.c.b.transpose(v, (1, 0, 2))
        if v.data is not None:
            return constant(v.data[direction : direction + 1])
        return self.c.b.plain(
            strided(self.c, self.c.b.plain(v), {0: (direction, direction + 1, 1)})
        )

    def results(self, outputs: list[list[Value]]) -> list[Value | None]:
        """From [T, N, H] and states [1, N, H] of each direction to ONNX's outputs."""
        b = self.c.b
        sequence = [b.reshape(o[0], (self.steps, 1, self.batch, self.hidden)) for o in outputs]
        states = [
            concat(self.c, [b.reshape(o[i], (1, self.batch, self.hidden)) for o in outputs], 0)
            for i in range(1, len(outputs[0]))
        ]
        joined = concat(self.c, sequence, 1)
        if self.batch_first:
            joined = b.transpose(joined, (2, 0, 1, 3))
            states = [b.transpose(s, (1, 0, 2)) for s in states]
        return [joined, *states]


@lowers("LSTM", to="Lstm")
def lstm(c: Lowering, n: OnnxNode) -> Result:
    r = Recurrent(c, n, 4)
    i, o, f, g = range(4)  # ONNX's order of gates: input, output, forget, cell
    found = []
    for d, backwards in enumerate(r.reverse):
        order = [f, g, o, i]
        w, u = r.weights(1, d, order), r.weights(2, d, order)
        wb, rb = r.biases(d, order)
        bias = [
            add(c, a, b) if not (a.is_const and b.is_const) else constant(a.const + b.const)
            for a, b in zip(wb, rb, strict=True)
        ]
        edge = c.b.edge
        peephole: list[Edge | None] = [None] * 3
        if n.has(7):
            cells = r.weights(7, d, [0, 1, 2])  # input, output, forget
            peephole = [edge(cells[0]), edge(cells[2]), edge(cells[1])]
        state = [edge(c.b.reshape(r.initial(k, d), (r.batch, r.hidden))) for k in (5, 6)]
        inputs = [
            edge(r.x), *(edge(v) for v in (*w[:3], *u[:3], *bias[:3])), *state,
            None, None, None, None, edge(w[3]), edge(u[3]), *peephole, edge(bias[3]),
        ]  # fmt: skip
        if carried := r.carries(5, 6):
            inputs += [None, None, *carried]  # there is no projection
        dtype = r.x.dtype
        shape = (r.batch, r.hidden)
        y, cell, hidden = c.b.raw(
            "Lstm",
            inputs,
            [((r.steps, *shape), dtype), (shape, dtype), (shape, dtype)],
            {"direction": np.uint32(backwards), "time_major": np.bool_(True)},
        )
        plain = [Value((r.steps, *shape), dtype, y, (0, 1, 2))]
        plain += [Value(shape, dtype, e, (0, 1)) for e in (hidden, cell)]
        found.append(plain)
    return r.results(found)[: len(n.outputs)]


@lowers("GRU", to="Gru")
def gru(c: Lowering, n: OnnxNode) -> Result:
    r = Recurrent(c, n, 3)
    found = []
    for d, backwards in enumerate(r.reverse):
        order = [0, 1, 2]  # update, reset, hidden, in ONNX as in QNN
        w, u = r.weights(1, d, order), r.weights(2, d, order)
        wb, rb = r.biases(d, order)
        given = [r.x, *w, *u, *wb, *rb, r.initial(5, d)]
        found.append(_gru(r, given, backwards, n.integer("linear_before_reset")))
    return r.results(found)[: len(n.outputs)]


def _gru(
    r: Recurrent, given: list[Value], backwards: bool, linear_before_reset: int
) -> list[Value]:
    """All states of a direction, and the last one."""
    shape, dtype, b = (r.batch, r.hidden), r.x.dtype, r.c.b
    y, hidden = b.raw(
        "Gru",
        [*(b.edge(v) for v in given), *r.carries(5)],
        [((r.steps, *shape), dtype), ((1, *shape), dtype)],
        {
            "direction": np.uint32(backwards),
            "linear_before_reset": np.uint32(linear_before_reset),
            "time_major": np.bool_(True),
        },
    )
    return [
        Value((r.steps, *shape), dtype, y, (0, 1, 2)),
        Value((1, *shape), dtype, hidden, (0, 1, 2)),
    ]


#: An RNN is unrolled; longer sequences would make the graph unreasonably large.
LONGEST_RNN = 256
#: A sigmoid of it is 1, and that of its negative 0, in floats.
_SURELY = 200.0


def _as_gru(r: Recurrent, d: int, backwards: bool) -> list[Value]:
    """QNN has no operation for an RNN. It is a GRU that never keeps its state (update 0) and always
    sees all of it (reset 1), which takes three times the products."""
    (w,), (u,) = r.weights(1, d, [0]), r.weights(2, d, [0])
    (wb,), (rb,) = r.biases(d, [0])
    dtype = r.x.dtype
    no_w, no_u, none = (constant(np.zeros(v.shape, dtype)) for v in (w, u, wb))
    never, always = (constant(np.full(wb.shape, s * _SURELY, dtype)) for s in (-1, 1))
    given = [r.x, no_w, no_w, w, no_u, no_u, u, never, always, wb, none, none, rb, r.initial(5, d)]
    return _gru(r, given, backwards, 0)


_RNN = {"tanh": "Tanh", "relu": "Relu", "sigmoid": "Sigmoid"}


@lowers("RNN", to="MatMul, ElementWiseAdd, Tanh for each step; Gru")
def rnn(c: Lowering, n: OnnxNode) -> Result:
    r = Recurrent(c, n, 1)
    (((name, _),), *_) = activations_of(n)
    if r.carries(5):
        raise Unsupported("its state cannot be kept from run to run: give it initial_h")
    if r.steps > LONGEST_RNN:
        if name != "tanh":
            raise Unsupported(
                f"{r.steps} steps; an RNN of {_RNN[name]} is unrolled up to {LONGEST_RNN}"
            )
        found = [_as_gru(r, d, backwards) for d, backwards in enumerate(r.reverse)]
        return r.results(found)[: len(n.outputs)]
    found = []
    for d, backwards in enumerate(r.reverse):
        (w,), (u,) = r.weights(1, d, [0]), r.weights(2, d, [0])
        (wb,), (rb,) = r.biases(d, [0])
        bias = constant(wb.const + rb.const) if wb.is_const and rb.is_const else add(c, wb, rb)
        flat = c.b.reshape(r.x, (r.steps * r.batch, r.x.shape[2]))
        fed = add(c, matmul(c, flat, c.b.transpose(w, (1, 0))), bias)
        fed = c.b.reshape(fed, (r.steps, r.batch, r.hidden))
        state = c.b.reshape(r.initial(5, d), (r.batch, r.hidden))
        turned = c.b.transpose(u, (1, 0))
        order = range(r.steps)
        outputs: dict[int, Value] = {}
        for t in reversed(order) if backwards else order:
            now = c.b.reshape(strided(c, fed, {0: (t, t + 1, 1)}), (r.batch, r.hidden))
            state = unary(c, _RNN[name], add(c, now, matmul(c, state, turned)))
            outputs[t] = c.b.reshape(state, (1, r.batch, r.hidden))
        found.append([concat(c, [outputs[t] for t in order], 0), state])
    return r.results(found)[: len(n.outputs)]
