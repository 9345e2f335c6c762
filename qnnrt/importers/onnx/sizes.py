"""Sizes of which the data decide how large they are: what Shape gives of such tensors, and what is
computed from that.

Such a value is a constant, the most that each of its numbers can be, and knows of some of them the
number itself (`Value.sizes`), which the graph computes. Where a size decides a shape, the shape is
for the most there can be, and the number says how many of the rows count. Everywhere else it is
data: the number itself (docs/decisions/0045-sizes-by-data.md).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ..graph import Edge
from .common import concat
from .counts import Number, axes_of, once, sized, times
from .fold import fold
from .infer import infer
from .nodes import OnnxNode
from .scope import Lower, Results, RowsRule, Scope
from .size_forms import and_more, around, equal, least_of, may_be, rest_of
from .tables import Table
from .values import Value, constant, identity

#: Operators that only move numbers: the inputs that they move.
_MOVED = {
    "Cast": 1, "Concat": 4096, "Expand": 1, "Flatten": 1, "Gather": 1, "Identity": 1,
    "Reshape": 1, "Slice": 1, "Split": 1, "Squeeze": 1, "Tile": 1, "Transpose": 1, "Unsqueeze": 1,
}  # fmt: skip

#: Operators whose result grows with each of their inputs, if these are no less than 0.
_GROWING = {"Add", "Max", "Min", "Mul", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "Sum"}
#: With the first of them alone.
_GROWING_BY_FIRST = {"Div", "Sub"}
#: Which are the same for the most and the least if they are the same for all between them.
_COMPARING = {"Greater", "GreaterOrEqual", "Less", "LessOrEqual"}

#: ONNX op type -> its inputs that may be such a size, where one decides a shape.
_PLACES = {
    "ConstantOfShape": range(1), "Expand": range(1, 2), "Pad": range(1, 2), "Range": range(3),
    "Reshape": range(1, 2), "Resize": range(3, 4), "Slice": range(2, 3), "Split": range(1, 2),
    "Tile": range(1, 2), "TopK": range(1, 2),
}  # fmt: skip
#: ONNX op type -> what it makes of it.
SIZED: Table[RowsRule] = Table(
    {
        "padded": "Pad",
        "resized": "Resize",
        "sized_shapes": "ConstantOfShape Expand Range Reshape Slice Split Tile TopK",
    }
)


def itself(g: Scope, v: Value) -> Value:
    """The numbers themselves, as the graph has them."""
    if v.exact is not None:
        return v.exact
    assert v.sizes is not None
    flat = v.const.reshape(-1)
    parts = [
        constant(flat[i : i + 1].astype(np.int64)) if number is None else number
        for i, number in enumerate(v.sizes)
    ]
    whole = parts[0] if len(parts) == 1 else concat(g, parts, 0)  # a node would be a size again
    if v.dtype != whole.dtype:
        whole = g.emitted("CastLike", [whole, constant(np.zeros(1, v.dtype))])
    return g.b.reshape(whole, v.shape)


def shape_of(n: OnnxNode, picked: slice) -> Value:
    """What Shape gives of a tensor with as many rows as the data decide."""
    x = n.input(0)
    numbers = [axes_of(x).get(axis) for axis in range(x.rank)]
    return sized(np.array(x.shape, np.int64)[picked], numbers[picked])


def element_count(g: Scope, x: Value) -> Value:
    """What Size gives of such a tensor."""
    assert x.count is not None
    size = math.prod(x.shape)
    return sized(np.array(size, np.int64), [times(g, x.count, size // x.shape[x.axis])])


def computed(g: Scope, n: OnnxNode, opsets: dict[str, int], lower: Lower) -> Results | None:
    """The results of a node with such inputs; None where it takes the numbers as data, which its
    inputs are then."""
    at = {i for i, v in enumerate(n.inputs) if v is not None and v.sizes is not None}
    whole = all(v.exact is None or v.dtype.kind in "iu" for v in map(n.input, at))
    if n.domain == "":
        if at <= set(_PLACES.get(n.op, ())):
            made = SIZED[n.op](g, n, lower)
            if made is not None:
                return made
        if whole and all(v is None or v.is_const for v in n.inputs):
            made = _moved(g, n, at, opsets)
            if made is None:
                made = _grown(g, n, at, opsets, lower)
            if made is not None:
                return made
    n.inputs = [itself(g, v) if v is not None and v.sizes is not None else v for v in n.inputs]
    return None


def _folded(
    g: Scope, n: OnnxNode, inputs: list[Value | None], opsets: dict[str, int]
) -> list[np.ndarray]:
    node = replace(n, inputs=inputs)
    node.types = infer(node)
    arrays = [None if v is None else v.const for v in inputs]
    return fold(node, arrays, opsets, g.budget, lambda: g.child)


def _moved(g: Scope, n: OnnxNode, at: set[int], opsets: dict[str, int]) -> Results | None:
    """Where the numbers go is seen by moving their places instead."""
    moved = set(range(_MOVED.get(n.op, 0)))
    if n.op == "Where" and 0 not in at:
        moved = {1, 2}
    if not at <= moved:
        return None
    if n.op == "Cast" and n.integer("to") not in (1, 6, 7, 11):
        return None
    values: list[np.ndarray] = []
    numbers: list[Number | None] = []
    inputs = list(n.inputs)
    for i, v in enumerate(n.inputs):
        if v is None or i not in moved:
            continue
        places = np.arange(len(numbers), len(numbers) + v.const.size)
        values.append(v.const.reshape(-1))
        numbers += v.sizes or [None] * v.const.size
        inputs[i] = constant(places.reshape(v.shape).astype(v.dtype))
    whole = np.concatenate(values)
    results: list[Value | None] = []
    for places in _folded(g, n, inputs, opsets):
        flat = places.reshape(-1).astype(np.int64)
        data = whole[flat].reshape(places.shape).astype(places.dtype)
        results.append(sized(data, [numbers[p] for p in flat]))
    return results


def _grown(
    g: Scope, n: OnnxNode, at: set[int], opsets: dict[str, int], lower: Lower
) -> Results | None:
    """Arithmetic: the most is that of the most, and what is the same for the least is no number
    that the data decide."""
    if n.op == "Sub" and at == {1} and (made := rest_of(g, n)) is not None:
        return [made]
    if n.op == "Add" and len(at) == 1 and (made := and_more(g, n.input(0), n.input(1))) is not None:
        return [made]
    if n.op in ("Mod", "Neg") and at == {0} and (made := around(g, n)) is not None:
        return [made]
    compares = n.op in _COMPARING or n.op == "Equal"
    grows = n.op in _GROWING or (n.op in _GROWING_BY_FIRST and at == {0})
    if not (compares or grows) or any(v is not None and v.dtype.kind not in "iu" for v in n.inputs):
        return None
    others = [v.const for i, v in enumerate(n.inputs) if v is not None and i not in at]
    if n.op in ("Mul", "Div", "ReduceProd") and any((o < (n.op == "Div")).any() for o in others):
        return None
    most = _folded(g, n, n.inputs, opsets)[0]
    lowest = [v if v is None or v.sizes is None else least_of(g, v) for v in n.inputs]
    if n.op in ("Mul", "ReduceProd") and any(v is not None and (v.const < 0).any() for v in lowest):
        return None
    least = _folded(g, n, lowest, opsets)[0]
    if n.op == "Equal":
        if len(at) != 1:
            return None
        (index,) = at
        return equal(g, n.input(index), n.input(1 - index))
    if compares:
        return [constant(most)] if len(at) == 1 and (most == least).all() else None
    if (most == least).all():
        return [constant(most)]
    n.inputs = [itself(g, v) if v is not None and v.sizes is not None else v for v in n.inputs]
    whole = lower()[0]
    assert isinstance(whole, Value)
    flat = g.b.reshape(whole, (most.size,))
    numbers: list[Number | None] = []
    for i, differs in enumerate((most != least).reshape(-1)):
        number = None
        if differs:
            where = [constant(np.array([p])) for p in (i, i + 1, 0)]
            number = flat if most.size == 1 else g.emitted("Slice", [flat, *where])
            if number.dtype != np.int64:
                number = g.emitted("Cast", [number], to=7)
            number = may_be(g, number, int(least.reshape(-1)[i]))
        numbers.append(number)
    return [sized(np.maximum(most, 0), numbers)]


# ---- counts of what is true ----------------------------------------------------------------------


def count_of(g: Scope, edge: Edge) -> Number:
    """How many elements of a tensor are not 0."""
    source = g.numbering.repeated(edge)

    def make() -> Value:
        x = Value(source.shape, source.dtype, source, identity(len(source.shape)))
        ones = g.emitted("Cast", [g.emitted("Cast", [x], to=9)], to=7)
        return g.b.reshape(g.emitted("ReduceSum", [ones], keepdims=0), (1,))

    number = once(g, ("count", g.numbering.elements(source)), make)
    return times(g, number, math.prod(edge.shape) // max(math.prod(source.shape), 1))


def _counted(g: Scope, v: Value) -> Value:
    """A computed number that counts what is true, as a size: of masks torch.export asks so for how
    many places they choose."""
    if v.is_const or v.edge is None or v.count is not None or math.prod(v.shape) != 1:
        return v
    mask = g.numbering.counted(v.edge)
    if mask is None or v.dtype.kind not in "iu":
        return v
    most = np.full(v.shape, math.prod(mask.shape), v.dtype)
    return sized(most, [count_of(g, mask)])


def of_counts(g: Scope, n: OnnxNode) -> None:
    """Replaces what would be a shape that nobody knows by the size that it is."""
    if n.op == "Concat":  # one of a shape's sizes, beside others
        values = [v if v is None or v.rank != 1 else _counted(g, v) for v in n.inputs]
        if all(v is not None and v.is_const for v in values):
            n.inputs = values
        return
    for i in _PLACES[n.op]:
        v = n.optional(i)
        if v is not None and (found := _counted(g, v)) is not v:
            n.inputs[i] = found
