"""Results with as many rows as the data decide: tensors with room for the most there can be, and
how many of the rows count.

Shapes of QNN's graphs are fixed. Such a value has its rows along one axis, those that count first;
the others hold anything. Operators that treat rows one by one keep them apart; every other operator
would mix them, and is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from .nodes import TARGETS, OnnxNode, Unsupported, axis_of
from .scope import Scope
from .values import Thing, Value, blocks, constant

Results = Sequence[Thing | None]

#: ONNX op type -> the axis of the rows in its results.
Rule = Callable[[Scope, OnnxNode, "Rows", Value], int]
RULES: dict[str, Rule] = {}

#: ONNX op type -> what makes such values; None where the node is like any other.
SOURCES: dict[str, Callable[[Scope, OnnxNode], Results | None]] = {}


class Rows:
    """The inputs of a node that have such rows: at which places, and the one number of them."""

    def __init__(self, n: OnnxNode) -> None:
        found = [(i, v) for i, v in enumerate(n.inputs) if v is not None and v.count is not None]
        self.inputs = dict(found)
        counts = {id(v.count) for _, v in found}
        if len(counts) != 1:
            raise Unsupported("inputs with two numbers of rows that the data decide")
        self.count = found[0][1].count
        self.axis = found[0][1].axis

    def only(self, index: int = 0) -> Value:
        """The input `index`, which has to be the only one with such rows."""
        if list(self.inputs) != [index]:
            raise Unsupported(f"an input {max(self.inputs)} with as many rows as the data decide")
        return self.inputs[index]


def follows(*op_types: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(op_types, rule))
        return rule

    return register


def kept_apart(g: Scope, n: OnnxNode, lower: Callable[[], Results]) -> Results:
    """The results of a node of such inputs, with their rows."""
    rows = Rows(n)
    rule = RULES[n.op]
    found: list[Thing | None] = []
    for value in lower():
        if isinstance(value, Value):
            axis = rule(g, n, rows, value)
            value = replace(value, count=rows.count, axis=axis)
        found.append(value)
    return found


# ---- what makes them ---------------------------------------------------------------------------


def _count(g: Scope, of: Value, most: int, make: Callable[[], Value]) -> Value:
    """One number for what is counted once."""
    if (of, most) not in g.counts:
        g.counts[of, most] = make()
    return g.counts[of, most]


def _source(op: str) -> Callable[..., Callable[[Scope, OnnxNode], Results | None]]:
    def register(
        fn: Callable[[Scope, OnnxNode], Results | None],
    ) -> Callable[[Scope, OnnxNode], Results | None]:
        SOURCES[op] = fn
        return fn

    return register


@_source("NonZero")
def _non_zero(g: Scope, n: OnnxNode) -> Results | None:
    given = n.input(0)
    if given.is_const:
        return None
    if given.count is not None:
        raise Unsupported("places in what has as many rows as the data decide")
    x = g.b.plain(given if given.shape else g.b.reshape(given, (1,)))
    room = (math.prod(x.shape), x.rank)
    g.b.scope = n.name
    found = g.b.transpose(g.b.op("NonZero", [x], room, np.dtype(np.int64)), (1, 0))

    def count() -> Value:
        ones = g.emitted("Cast", [g.emitted("Cast", [x], to=9)], to=7)
        return g.b.reshape(g.emitted("ReduceSum", [ones], keepdims=0), (1,))

    return [replace(found, count=_count(g, given, room[0], count), axis=1)]


@_source("Compress")
def _compress(g: Scope, n: OnnxNode) -> Results | None:
    x, condition = n.input(0), n.input(1)
    if condition.is_const:
        return None
    if x.count is not None or condition.count is not None:
        raise Unsupported("a choice from what has as many rows as the data decide")
    if "axis" not in n.attrs:
        x, axis = g.emitted("Reshape", [x, constant(np.array([-1]))]), 0
    else:
        axis = axis_of(n.integer("axis"), x.rank)
    places = g.emitted("NonZero", [condition])
    places = g.emitted("Squeeze", [places, constant(np.array([0]))])
    return [g.emitted("Gather", [x, places], axis=axis)]


@_source("TopK")
def _top_k(g: Scope, n: OnnxNode) -> Results | None:
    if not n.has(1) or n.input(1).is_const:
        return None
    x, k = n.input(0), n.input(1)
    if x.count is not None or n.integer("sorted", 1) != 1:
        raise Unsupported("the largest of what has as many rows as the data decide, or unsorted")
    axis = axis_of(n.integer("axis", -1), x.rank)
    most = constant(np.array([x.shape[axis]]))
    how = {"axis": axis, "largest": n.integer("largest", 1)}
    found = g.emitted_many("TopK", [x, most], 2, **how)

    def count() -> Value:
        return g.emitted("Min", [g.b.reshape(k, (1,)), most])

    rows = _count(g, k, x.shape[axis], count)
    return [replace(v, count=rows, axis=axis) for v in found]


TARGETS["NonZero"] = "NonZero, and the number of rows"

# ---- what keeps them ---------------------------------------------------------------------------


@follows(
    "Abs", "Acos", "Add", "And", "Asin", "Atan", "Cast", "CastLike", "Ceil", "Clip", "Cos",
    "DequantizeLinear", "Div", "Elu", "Equal", "Erf", "Exp", "Floor", "Gelu", "Greater",
    "GreaterOrEqual", "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu",
    "Less", "LessOrEqual", "Log", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or", "Pow",
    "QuantizeLinear", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sin", "Softplus", "Sqrt",
    "Sub", "Sum", "Tan", "Tanh", "Where", "Xor",
)  # fmt: skip
def _elementwise(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    axis = {v.axis - v.rank for v in rows.inputs.values()}
    if len(axis) != 1:
        raise Unsupported("inputs whose rows lie along different axes")
    behind = axis.pop()
    for index, v in enumerate(n.inputs):
        fixed = v is not None and index not in rows.inputs and v.rank >= -behind
        if fixed and v is not None and v.shape[behind] != 1:
            raise Unsupported(f"input {index} has {v.shape[behind]} rows, the others a number "
                              "that the data decide")  # fmt: skip
    return y.rank + behind


@follows("Transpose")
def _transpose(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    order = n.integers("perm") or list(range(y.rank))[::-1]
    return order.index(rows.axis)


@follows("Reshape", "Flatten", "Squeeze", "Unsqueeze")
def _reshape(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    """The axis stays one of its own: what lies before and behind it has as many elements."""
    x = rows.only()
    for before, after in blocks(x.shape, y.shape) or ():
        if before == [rows.axis] and len(after) == 1:
            return after[0]
    raise Unsupported(f"a reshape of {list(x.shape)} to {list(y.shape)}, which mixes rows of which "
                      "the data decide how many count")  # fmt: skip


@follows("Gather")
def _gather(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    data, index = n.input(0), n.input(1)
    axis = axis_of(n.integer("axis"), data.rank)
    if 0 not in rows.inputs:
        return axis + rows.axis
    rows.only()
    if axis == rows.axis:
        raise Unsupported("a choice from rows of which the data decide how many count")
    return rows.axis if rows.axis < axis else rows.axis + index.rank - 1


@follows("GatherND")
def _gather_nd(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    index = rows.only(1)
    if n.integer("batch_dims") or rows.axis == index.rank - 1:
        raise Unsupported("batches of places of which the data decide how many count")
    return rows.axis


@follows("Concat", "Split")
def _beside(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    """Along another axis, and nothing else among them."""
    axis = axis_of(n.integer("axis"), y.rank)
    whole = n.inputs if n.op == "Concat" else n.inputs[:1]
    if axis == rows.axis or len(rows.inputs) != len(whole):
        raise Unsupported("rows of which the data decide how many count, joined with others")
    if any(v.axis != rows.axis for v in rows.inputs.values()):
        raise Unsupported("inputs whose rows lie along different axes")
    return rows.axis


@follows("Slice")
def _slice(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    """Of rows, the first few: as many as there are, and no more."""
    x = rows.only()
    starts, ends = (n.axes(name, i) or [] for name, i in (("starts", 1), ("ends", 2)))
    axes = n.axes("axes", 3) or list(range(len(starts)))
    steps = n.axes("steps", 4) or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if axis_of(axis, x.rank) != rows.axis:
            continue
        if start != 0 or step != 1 or end < 0:
            raise Unsupported("a slice of rows of which the data decide how many count")
        most, whole = y.shape[rows.axis], rows.count
        assert whole is not None
        if most < x.shape[rows.axis]:
            pair = [whole, constant(np.array([most]))]
            rows.count = _count(g, whole, most, lambda pair=pair: g.emitted("Min", pair))  # type: ignore[misc]
    return rows.axis


@follows("MatMul", "Gemm")
def _product(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    x = rows.only()
    if rows.axis == x.rank - 1 or n.integer("transA") or n.input(1).rank != 2:
        raise Unsupported("a product over rows of which the data decide how many count")
    return rows.axis


@follows("RoiAlign")
def _regions(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    if set(rows.inputs) - {1, 2} or rows.axis != 0:
        raise Unsupported("an image with as many rows as the data decide")
    return 0


@follows(*(f"Reduce{kind}" for kind in ("L1", "L2", "Max", "Mean", "Min", "Prod", "Sum")),
         "ArgMax", "ArgMin")  # fmt: skip
def _reduce(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    x = rows.only()
    given = [n.integer("axis")] if n.op.startswith("Arg") else n.axes("axes", 1)
    if not given and not n.integer("noop_with_empty_axes"):
        given = list(range(x.rank))
    axes = {axis_of(a, x.rank) for a in given or ()}
    if rows.axis in axes:
        raise Unsupported("a sum over rows of which the data decide how many count")
    gone = 0 if n.integer("keepdims", 1) else sum(a < rows.axis for a in axes)
    return rows.axis - gone


@follows("Softmax", "LogSoftmax")
def _softmax(g: Scope, n: OnnxNode, rows: Rows, y: Value) -> int:
    axis = axis_of(n.integer("axis", -1), y.rank)
    if axis == rows.axis or (n.version < 13 and rows.axis > axis):
        raise Unsupported("a softmax over rows of which the data decide how many count")
    return rows.axis
