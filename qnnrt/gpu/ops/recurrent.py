"""Lstm and Gru: the input's share of all gates as one product, then kernels for each step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ..ir import Launch, Node, Value
from ..target import Target
from .common import Defines, Refused, reals
from .common import given as input_of
from .elementwise import OPS as ELEMENTWISE
from .gemm import launches
from .move import copies, filled
from .product import Product
from .sizes import Grid, launch, over, simt

_F32: Final = np.dtype(np.float32)
_LANES, _UNITS = 8, 32  # work items of a unit, and units of a work group
#: What kernels call the optional inputs of an Lstm: its vectors, and those times the cell's state.
_LSTM_VECTORS: Final = {
    "FORGET_BIAS": 7, "CELL_BIAS": 8, "OUTPUT_BIAS": 9, "INPUT_BIAS": 21, "INPUT_NORM": 12,
    "FORGET_NORM": 13, "CELL_NORM": 14, "OUTPUT_NORM": 15,
}  # fmt: skip
#: Kernels of which several work items share a unit.
_STEPS: Final = ("lstm_step", "lstm_sums")
#: Numbers of a gate's weights on the input and on the state: forget, cell, output and input.
_LSTM_WEIGHTS: Final = ((1, 4), (2, 5), (3, 6), (16, 17))
_PEEPHOLES: Final = {"INPUT_PEEPHOLE": 18, "FORGET_PEEPHOLE": 19, "OUTPUT_PEEPHOLE": 20}
_LSTM_OUTPUTS: Final = {
    "INPUT_OUT": 3, "FORGET_OUT": 4, "CELL_OUT": 5, "OUTPUT_OUT": 6, "HIDDEN_OUT": 7,
}  # fmt: skip
_GRU_VECTORS: Final = {
    "UPDATE_BIAS": (7, 10), "RESET_BIAS": (8, 11), "NEW_BIAS": (9,), "NEW_STATE_BIAS": (12,),
}  # fmt: skip


@dataclass(frozen=True)
class _Sequence:
    """Of an input [T, N, I], or [N, T, I] when it is not time-major; [N, I] is one step."""

    steps: int
    batch: int
    time_major: bool
    reverse: bool

    @classmethod
    def of(cls, node: Node, x: Value) -> _Sequence:
        time_major = len(x.shape) == 2 or bool(node.params["time_major"])
        first, second = (1, x.shape[0]) if len(x.shape) == 2 else x.shape[:2]
        steps, batch = (first, second) if time_major else (second, first)
        return cls(steps, batch, time_major, int(node.params["direction"]) == 1)

    def rows(self, step: int) -> tuple[int, int]:
        """The row of the first batch entry of a step, and from one entry to the next."""
        t = self.steps - 1 - step if self.reverse else step
        return (t * self.batch, 1) if self.time_major else (t, self.steps)


class _Optional:
    """What a kernel is given besides: defines, and arguments behind the others."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self._texts: list[tuple[str, str]] = []

    def vector(self, name: str, *numbers: int) -> None:
        """``name(u)``: the sum of element u of these inputs."""
        self._texts.append((f"{name}(u)", " + ".join(self._loads(numbers)) or "0.0f"))

    def peephole(self, name: str, number: int) -> None:
        """``name(u, c)``: element u times c."""
        loads = [f"(c) * {load}" for load in self._loads((number,))]
        self._texts.append((f"{name}(u, c)", "".join(loads) or "0.0f"))

    def output(self, name: str, number: int | None) -> None:
        """``name(i, x)``: stores an element, where the output is wanted."""
        value = None if number is None else _output(self.node, number)
        text = "" if value is None else f"STORE(w{len(self.outputs)}, i, x)"
        self.outputs += [] if value is None else [value]
        self._texts.append((f"{name}(i, x)", text))

    def _loads(self, numbers: tuple[int, ...]) -> list[str]:
        found = []
        for value in (_given(self.node, n) for n in numbers):
            if value is not None:
                found.append(f"LOAD(v{len(self.inputs)}, u)")
                self.inputs.append(value)
        return found

    def defines(self) -> Defines:
        """Raises ``Refused`` where there are floats of two widths."""
        ins = "".join(f", __global const REAL* v{i}" for i in range(len(self.inputs)))
        outs = "".join(f", __global REAL* w{i}" for i in range(len(self.outputs)))
        reals(*self.inputs, *self.outputs)
        return (*self._texts, ("VECTORS", ins), ("OUTPUTS", outs))


def _given(node: Node, number: int) -> Value | None:
    """Input ``number``; None where it is omitted, of which an empty tensor is a way."""
    value = input_of(node, number)
    return value if value is not None and value.size else None


def _output(node: Node, number: int) -> Value | None:
    """Output ``number`` of the op, unless it is omitted."""
    ports = node.ports or tuple(range(len(node.outputs)))
    value = node.outputs[ports.index(number)] if number in ports else None
    return value if value is not None and value.size else None


def _there(node: Node, number: int) -> Value:
    value = _given(node, number)
    assert value is not None
    return value


def _refuse_carried(node: Node, number: int) -> None:
    """An input ``reset`` that does not always say so: the state is that of the run before."""
    reset = _given(node, number)
    if reset is not None and (reset.root.data is None or not reset.root.data.all()):
        raise Refused("an input reset: kernels keep no state from one run to the next")


def _stacked(gates: list[Value], target: Target) -> tuple[Value, list[Launch]]:
    """Matrices [units, k] of several gates as one, [k, gates x units], and what makes it."""
    units, k = gates[0].shape
    width = units * len(gates)
    arrays = [v.root.data.reshape(v.shape) for v in gates if v.root.data is not None]
    if len(arrays) == len(gates):
        return target.constant(np.concatenate(arrays).T), []
    whole = target.temporary((k, width), gates[0].dtype)
    made: list[Launch] = []
    for i, gate in enumerate(gates):
        made += copies(gate, whole, [(k, 1, width), (units, k, 1)], target, (0, i * units))
    return whole, made


def _gates(
    node: Node, x: Value, weights: list[Value], target: Target
) -> tuple[Value, list[Launch]]:
    """What the input adds to all gates in all steps, [rows, gates x units]."""
    stacked, made = _stacked(weights, target)
    depth, width = stacked.shape
    rows = x.size // depth if depth else 0
    gates = target.temporary((rows, width), x.dtype)
    product = Product(
        Node(node.name, node.type, [x, stacked], [gates], {}), x, stacked, None, gates,
        count=1, rows=rows, columns=width, depth=depth, a_matrix=0, a_row=depth, a_step=1,
        b_count=1, b_matrix=0, b_step=width, b_column=1, y_matrix=0, y_row=width,
    )  # fmt: skip
    return gates, [*made, *(launches(product, target) if gates.size else ())]


def _state(
    node: Node, initial: Value | None, shape: tuple[int, ...], target: Target
) -> tuple[Value, list[Launch]]:
    """A state's 32-bit floats with its value before the first step."""
    if initial is None:
        state = target.temporary(shape, _F32)
        return state, [filled(state, 0, target)]
    state = target.temporary(initial.shape, _F32)
    return state, _copied(node, initial, state, target)


def _copied(node: Node, x: Value, y: Value | None, target: Target) -> list[Launch]:
    """From one type to another, to an output that may be omitted."""
    if y is None:
        return []
    a, b = (Value(v.name, 0, (v.size,), v.dtype, v.code, v.kind, base=v) for v in (x, y))
    return ELEMENTWISE["Cast"](Node(node.name, "Cast", [a], [b], {}), target)


def _shared(count: int, target: Target) -> tuple[Defines, Grid]:
    """The defines and the index space of a step's kernel for so many units of all batch entries."""
    if not simt(target):
        return (("LANES", "1"), ("UNITS", "1")), over(count, target)
    group = _LANES * _UNITS
    return (
        (("LANES", str(_LANES)), ("UNITS", str(_UNITS))),
        ((-(-count // _UNITS) * group,), (group,)),
    )


def _gru(node: Node, target: Target) -> list[Launch]:
    _refuse_carried(node, 14)
    x = _there(node, 0)
    sequence = _Sequence.of(node, x)
    weights = [_there(node, n) for n in (4, 5, 6)]
    units = weights[0].shape[0]
    gates, made = _gates(node, x, [_there(node, n) for n in (1, 2, 3)], target)
    recurrent, more = _stacked(weights, target)
    before, begun = _state(node, _given(node, 13), (sequence.batch, units), target)
    made += [*more, *begun]
    after, kept = (target.temporary((sequence.batch, units), _F32) for _ in range(2))
    linear = int(node.params["linear_before_reset"]) == 1
    extra = _Optional(node)
    for name, numbers in _GRU_VECTORS.items():
        extra.vector(name, *numbers)
    extra.output("OUT", 0)
    count = sequence.batch * units
    shared, grid = _shared(count, target)
    defines = (*reals(x), *extra.defines(), ("GATES", "3"), *shared)
    for step in range(sequence.steps):
        sizes = (count, units, *sequence.rows(step))
        first = (gates, recurrent, before)
        ends: list[Value | int | float] = [*sizes, *extra.inputs]
        if linear:
            args = [*first, after, *ends, *extra.outputs]
            made.append(launch("recurrent", "gru_step", defines, args, grid))
        else:
            made.append(launch("recurrent", "gru_reset", defines, [*first, kept, *ends], grid))
            args = [*first, kept, after, *ends, *extra.outputs]
            made.append(launch("recurrent", "gru_new", defines, args, grid))
        before, after = after, before
    return made + _copied(node, before, _output(node, 1), target)


class _Lstm:
    """The launches of an Lstm, as they are made."""

    def __init__(self, node: Node, target: Target) -> None:
        self.node, self.target = node, target
        x = _there(node, 0)
        self.sequence = _Sequence.of(node, x)
        gates = [pair for pair in _LSTM_WEIGHTS if _given(node, pair[0]) is not None]
        self.units, self.outputs = _there(node, 4).shape
        self.normalized = any(_given(node, n) is not None for n in (12, 13, 14, 15))
        self.gates, self.made = _gates(node, x, [_there(node, w) for w, _ in gates], target)
        self.weights = self._add(_stacked([_there(node, r) for _, r in gates], target))
        batch = self.sequence.batch
        self.h = self._add(_state(node, _given(node, 10), (batch, self.outputs), target))
        self.c = self._add(_state(node, _given(node, 11), (batch, self.units), target))
        self.next = target.temporary((batch, self.outputs), _F32)
        self.sums = target.temporary((batch, len(gates), self.units), _F32)
        self.statistics = target.temporary((batch, len(gates), 2), _F32)
        projection = _given(node, 22)
        self.projection: Value | None = None
        if projection is not None:
            self.projection = self._add(_stacked([projection], target))
            self.hidden = target.temporary((batch, self.units), _F32)
        self.extra = _Optional(node)
        for name, number in _LSTM_VECTORS.items():
            self.extra.vector(name, number)
        for name, number in _PEEPHOLES.items():
            self.extra.peephole(name, number)
        self.extra.output("OUT", 0 if projection is None else None)
        for name, number in _LSTM_OUTPUTS.items():
            self.extra.output(name, number)
        self.projected = _Optional(node)
        self.projected.vector("PROJECTION_BIAS", 23)
        self.projected.output("OUT", 0)
        lanes, self.step_grid = _shared(batch * self.units, target)
        self.shared = (*reals(x), ("GATES", str(len(gates))), *lanes)

    def _add(self, made: tuple[Value, list[Launch]]) -> Value:
        self.made += made[1]
        return made[0]

    def _launch(
        self, function: str, extra: _Optional, args: tuple[Value | int | float, ...], count: int,
        outputs: bool = True,
    ) -> None:  # fmt: skip
        ends = (*extra.inputs, *(extra.outputs if outputs else ()))
        grid = self.step_grid if function in _STEPS else over(count, self.target)
        defines = (*self.shared, *extra.defines())
        self.made.append(launch("recurrent", function, defines, (*args, *ends), grid))

    def all(self) -> list[Launch]:
        for step in range(self.sequence.steps):
            self._step(self.sequence.rows(step))
            self.h, self.next = self.next, self.h
        return [
            *self.made,
            *_copied(self.node, self.c, _output(self.node, 1), self.target),
            *_copied(self.node, self.h, _output(self.node, 2), self.target),
        ]

    def _step(self, rows: tuple[int, int]) -> None:
        hidden = self.next if self.projection is None else self.hidden
        count, units, outputs = self.sequence.batch * self.units, self.units, self.outputs
        cell_limit, output_limit = (
            float(self.node.params[f"{what}_clip_threshold"]) for what in ("cell", "output")
        )
        first = (self.gates, self.weights, self.h, self.c)
        sizes = (count, units, outputs, *rows)
        if self.normalized:
            self._launch("lstm_sums", self.extra, (*first, self.sums, *sizes), count, False)
            self._statistics()
            sums = (self.sums, self.statistics, self.c)
            self._launch("lstm_cell", self.extra, (*sums, count, units, *rows, cell_limit), count)
            self._statistics()
            self._launch("lstm_hidden", self.extra, (*sums, hidden, count, units, *rows), count)
        else:
            self._launch("lstm_step", self.extra, (*first, hidden, *sizes, cell_limit), count)
        if self.projection is not None:
            count = self.sequence.batch * outputs
            args = (self.projection, hidden, self.next, count, units, outputs, *rows, output_limit)
            self._launch("lstm_projection", self.projected, args, count)

    def _statistics(self) -> None:
        """Of all gates: that of the output gate changes between the two calls."""
        rows = self.statistics.size // 2
        args = (self.sums, self.statistics, rows, self.units)
        nothing = _Optional(self.node)
        self._launch("lstm_statistics", nothing, args, rows)


def _lstm(node: Node, target: Target) -> list[Launch]:
    _refuse_carried(node, 24)
    return _Lstm(node, target).all()


OPS: Final = {"Gru": _gru, "Lstm": _lstm}
