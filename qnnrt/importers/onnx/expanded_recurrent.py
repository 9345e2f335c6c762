"""LSTM, GRU and RNN that no operation of QNN is, step by step: with a clip, coupled gates, or other
activations than theirs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import onnx
from onnx import helper

from .bodies import Body
from .expanded import OPSET, array, ints, reshaped
from .nodes import OnnxNode, Unsupported

#: A longer sequence would make the graph unreasonably large.
LONGEST = 256

#: Activation, in lower case -> ONNX's operator, and the values of alpha and beta unless given.
_ACTIVATIONS: dict[str, tuple[str, dict[str, float]]] = {
    "affine": ("", {"alpha": 1.0, "beta": 0.0}),
    "elu": ("Elu", {"alpha": 1.0}),
    "hardsigmoid": ("HardSigmoid", {"alpha": 0.2, "beta": 0.5}),
    "leakyrelu": ("LeakyRelu", {"alpha": 0.01}),
    "relu": ("Relu", {}),
    "scaledtanh": ("", {"alpha": 1.0, "beta": 1.0}),
    "sigmoid": ("Sigmoid", {}),
    "softplus": ("Softplus", {}),
    "softsign": ("Softsign", {}),
    "tanh": ("Tanh", {}),
    "thresholdedrelu": ("ThresholdedRelu", {"alpha": 1.0}),
}
_USUAL = {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"], "RNN": ["tanh"]}

Activation = tuple[str, dict[str, float]]


def activations_of(n: OnnxNode) -> list[list[Activation]]:
    """Of each direction, in lower case; alphas and betas go to those, in order, that have one."""
    ways, usual = n.input(1).shape[0], _USUAL[n.op]
    names = [a.lower() for a in n.texts("activations")] if "activations" in n.written.names else []
    names = (names or usual * ways)[: len(usual) * ways]
    if len(names) < len(usual) * ways:
        raise ValueError(f"{len(names)} activations; {len(usual) * ways} are needed")
    rest: dict[str, list[float]] = {}
    for key in ("alpha", "beta"):
        rest[key] = list(n.attrs.get(f"activation_{key}") or [])  # type: ignore[call-overload]
    found: list[Activation] = []
    for name in names:
        if name not in _ACTIVATIONS:
            raise Unsupported(f"activation {name}")
        given = dict(_ACTIVATIONS[name][1])
        for key in given:
            if rest[key]:
                given[key] = rest[key].pop(0)
        found.append((name, given))
    return [found[i : i + len(usual)] for i in range(0, len(found), len(usual))]


def by_steps(n: OnnxNode) -> bool:
    """Whether it has what no operation of QNN has."""
    usual: list[Activation] = [(name, {}) for name in _USUAL[n.op]]
    if n.attrs.get("clip") is not None or n.integer("input_forget"):
        return True
    first, *others = activations_of(n)
    if any(own != first for own in others):
        return True
    return first != usual and not (n.op == "RNN" and first[0][0] in ("relu", "sigmoid"))


class _Cell:
    """One direction of a node: its parameters, and what it does in a step."""

    def __init__(self, b: Body, way: int) -> None:
        n = b.node
        self.b, self.n, self.hidden = b, n, n.input(2).shape[2]
        self.activations = activations_of(n)[way]
        self.gates = n.input(1).shape[1] // self.hidden
        self.clip = float(n.number("clip")) if n.attrs.get("clip") is not None else None
        own = [self._of(i, way) for i in (1, 2)]
        self.w, self.r = (b.op("Transpose", [v], perm=[1, 0]) for v in own)
        self.wb = self.rb = ""
        if n.has(3):
            half = self.gates * self.hidden
            self.wb, self.rb = self.parts(self._of(3, way), [half, half])
        self.peepholes = ["", "", ""]
        if n.op == "LSTM" and n.has(7):
            self.peepholes = self.parts(self._of(7, way), [self.hidden] * 3)

    def _of(self, index: int, way: int) -> str:
        return self.b.op("Gather", [self.b.given(index), array(self.b, np.array(way))], axis=0)

    def parts(self, x: str, sizes: Sequence[int]) -> list[str]:
        names = [f"{x}p{len(self.b.nodes)}_{i}" for i in range(len(sizes))]
        inputs = [x, ints(self.b, sizes)]
        self.b.nodes.append(helper.make_node("Split", inputs, names, axis=-1))
        return names

    def number(self, value: float) -> str:
        return array(self.b, np.array(value, self.n.input(0).dtype))

    def sum(self, *names: str) -> str:
        first, *more = (name for name in names if name)
        for name in more:
            first = self.b.op("Add", [first, name])
        return first

    def within(self, x: str) -> str:
        if self.clip is None:
            return x
        return self.b.op("Clip", [x, self.number(-self.clip), self.number(self.clip)])

    def gate(self, index: int, x: str) -> str:
        return self.active(index, self.within(x))

    def active(self, index: int, x: str) -> str:
        name, given = self.activations[index]
        op = _ACTIVATIONS[name][0]
        if op:
            return self.b.op(op, [x], "", **given)
        alpha, beta = (self.number(given[key]) for key in ("alpha", "beta"))
        if name == "affine":
            return self.b.op("Add", [self.b.op("Mul", [x, alpha]), beta])
        return self.b.op("Mul", [self.b.op("Tanh", [self.b.op("Mul", [x, beta])]), alpha])

    def times(self, x: str, peephole: str) -> str:
        return self.b.op("Mul", [x, peephole]) if peephole else ""

    def mixed(self, share: str, x: str, other: str) -> str:
        """share * x + (1 - share) * other."""
        rest = self.b.op("Sub", [self.number(1), share])
        return self.sum(self.b.op("Mul", [share, x]), self.b.op("Mul", [rest, other]))

    def step(self, fed: str, h: str, c: str) -> tuple[str, str]:
        b, each = self.b, [self.hidden] * self.gates
        if self.n.op == "RNN":
            return self.gate(0, self.sum(fed, b.op("MatMul", [h, self.r]))), ""
        if self.n.op == "GRU":
            return self._gru(fed, h), ""
        fed = self.sum(fed, b.op("MatMul", [h, self.r]))
        i, o, f, g = self.parts(fed, each)
        pi, po, pf = self.peepholes
        i = self.gate(0, self.sum(i, self.times(c, pi)))
        new = self.gate(1, g)
        if self.n.integer("input_forget"):
            c = self.mixed(i, new, c)
        else:
            f = self.gate(0, self.sum(f, self.times(c, pf)))
            c = self.sum(b.op("Mul", [f, c]), b.op("Mul", [i, new]))
        o = self.gate(0, self.sum(o, self.times(c, po)))
        return b.op("Mul", [o, self.active(2, c)]), c

    def _gru(self, fed: str, h: str) -> str:
        b, size = self.b, self.hidden
        two, last = self.parts(self.r, [2 * size, size])
        xzr, xh = self.parts(fed, [2 * size, size])
        z, r = self.parts(self.gate(0, self.sum(xzr, b.op("MatMul", [h, two]))), [size, size])
        bias = self.parts(self.rb, [2 * size, size])[1] if self.rb else ""
        if self.n.integer("linear_before_reset"):
            seen = b.op("Mul", [r, self.sum(b.op("MatMul", [h, last]), bias)])
        else:
            seen = self.sum(b.op("MatMul", [b.op("Mul", [r, h]), last]), bias)
        return self.mixed(z, h, self.gate(1, self.sum(xh, seen)))


def unrolled(n: OnnxNode) -> onnx.FunctionProto:
    """Each step of each direction. Behind the end of a sequence the state stays what it is."""
    b, layout = Body(n), n.integer("layout")
    shape = n.input(0).shape
    steps, batch = (shape[1], shape[0]) if layout else (shape[0], shape[1])
    if steps > LONGEST:
        raise Unsupported(f"{steps} steps of what is done step by step, up to {LONGEST}")
    x = b.op("Transpose", [b.given(0)], perm=[1, 0, 2]) if layout else b.given(0)
    lengths = ""
    if n.has(4):
        lengths = b.op("Cast", [reshaped(b, b.given(4), [-1, 1])], to=onnx.TensorProto.INT64)
    ways = n.input(1).shape[0]
    found = []
    for way in range(ways):
        backwards = way == 1 or n.text("direction", "forward") == "reverse"
        order = range(steps - 1, -1, -1) if backwards else range(steps)
        found.append(_direction(b, way, x, lengths, order, batch))
    results: list[str] = []
    for i, parts in enumerate(zip(*found, strict=True)):
        # Y is [T, ways, N, H] or [N, T, ways, H], a state [ways, N, H] or [N, ways, H].
        axis = (2 if layout else 1) if i == 0 else (1 if layout else 0)
        each = [b.op("Unsqueeze", [part, ints(b, [axis])]) for part in parts]
        results.append(b.op("Concat", each, axis=axis))
    return b.proto(*results[: len(n.outputs)], opset=OPSET)


def _direction(
    b: Body, way: int, x: str, lengths: str, order: Iterable[int], batch: int
) -> list[str]:
    """All steps, [T, N, H] or [N, T, H], and the last states, [N, H]."""
    n, cell = b.node, _Cell(b, way)
    kind, layout = n.input(0).dtype, n.integer("layout")
    zero = array(b, np.zeros((batch, cell.hidden), kind))
    states = []
    for index in (5, 6) if n.op == "LSTM" else (5,):
        state = zero
        if n.has(index):
            axis = 1 if layout else 0
            state = b.op("Gather", [b.given(index), array(b, np.array(way))], axis=axis)
        states.append(state)
    h, c = states[0], states[-1]
    fed = b.op("MatMul", [x, cell.w])
    bias = cell.wb
    if cell.wb and n.op != "GRU":
        bias = cell.sum(cell.wb, cell.rb)
    elif cell.wb:
        both = cell.parts(cell.rb, [2 * cell.hidden, cell.hidden])[0]
        none = array(b, np.zeros(cell.hidden, kind))
        bias = cell.sum(cell.wb, b.op("Concat", [both, none], axis=0))
    fed = cell.sum(fed, bias)
    outputs: dict[int, str] = {}
    for t in order:
        now = b.op("Gather", [fed, array(b, np.array(t))], axis=0)
        y, new = cell.step(now, h, c)
        if lengths:
            going = b.op("Less", [ints(b, [t]), lengths])
            outputs[t] = b.op("Where", [going, y, zero])
            h = b.op("Where", [going, y, h])
            c = b.op("Where", [going, new, c]) if new else ""
        else:
            outputs[t], h, c = y, y, new
    axes = ints(b, [1 if layout else 0])
    every = [b.op("Unsqueeze", [outputs[t], axes]) for t in sorted(outputs)]
    results = [b.op("Concat", every, axis=1 if layout else 0), *([h, c] if c else [h])]
    if lengths:  # an empty sequence has states of 0
        some = b.op("Greater", [lengths, ints(b, [0])])
        results[1:] = [b.op("Where", [some, s, zero]) for s in results[1:]]
    return results
