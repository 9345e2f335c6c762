"""Determinants, inverses, distances and triangles of matrices, written as other operators."""

from __future__ import annotations

import math

import numpy as np
import onnx

from .bodies import MICROSOFT, AsDefined, Body, body, otherwise
from .expanded import OPSET, array, ints, reshaped
from .nodes import OnnxNode, Unsupported

#: A matrix of more rows would make the graph unreasonably large: it has a dozen nodes for each.
_MOST_ROWS = 64


def _square(n: OnnxNode) -> tuple[int, int]:
    """How many matrices there are, and their rows."""
    shape = n.input(0).shape
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError(f"matrices of shape {list(shape)}; they have to be square")
    if shape[-1] > _MOST_ROWS:
        raise Unsupported(f"a matrix of {shape[-1]} rows, more than {_MOST_ROWS}")
    return math.prod(shape[:-2]), shape[-1]


class _Rows:
    """Matrices of [count, rows, columns], and the row with the largest element of a column."""

    def __init__(self, b: Body, x: str, rows: int) -> None:
        self.b, self.x, self.rows = b, x, rows
        self.zero = array(b, np.zeros((), b.node.input(0).dtype))

    def cut(self, axis: int, begin: int, end: int, x: str = "") -> str:
        bounds = [ints(self.b, [v]) for v in (begin, end, axis)]
        return self.b.op("Slice", [x or self.x, *bounds])

    def exchange(self, at: int, column: int) -> tuple[str, str]:
        """Row `at` goes where the pivot of the column was found from there on: which row that is,
        [count, 1], and the pivot's row, [count, 1, columns]."""
        b = self.b
        size = b.op("Abs", [reshaped(b, self.cut(2, column, column + 1), [-1, self.rows])])
        if at:
            above = array(b, np.arange(self.rows)[None] < at)
            size = b.op("Where", [above, array(b, np.array(-1, b.node.input(0).dtype)), size])
        found = b.op("ArgMax", [size], axis=1, keepdims=1)
        hot = b.op("Equal", [ints(b, range(self.rows)), found])
        hot = b.op("Unsqueeze", [hot, ints(b, [2])])
        row = b.op("ReduceSum", [b.op("Where", [hot, self.x, self.zero]), ints(b, [1])])
        self.x = b.op("Where", [hot, self.cut(1, at, at + 1), self.x])
        return found, row


@body("", "Det", to="Argmax, ElementWiseSelect and elementwise")
def _determinant(n: OnnxNode) -> onnx.FunctionProto:
    """The product of the pivots of Gauss's elimination, of which each step leaves a row less."""
    count, rows = _square(n)
    b, kind = Body(n), n.input(0).dtype
    one, minus = (array(b, np.array(v, kind)) for v in (1, -1))
    m = _Rows(b, reshaped(b, b.given(0), [count, rows, rows]), rows)
    y = ""
    for left in range(rows, 1, -1):
        m.rows = left
        found, row = m.exchange(0, 0)
        pivot = m.cut(2, 0, 1, row)
        sign = b.op("Where", [b.op("Equal", [found, ints(b, [0])]), one, minus])
        factor = b.op("Mul", [reshaped(b, pivot, [count, 1]), sign])
        y = b.op("Mul", [y, factor]) if y else factor
        # A column of zeros: there is nothing to take away, and the product is 0.
        divisor = b.op("Where", [b.op("Equal", [pivot, m.zero]), one, pivot])
        rest = m.cut(1, 1, left)
        share = b.op("Div", [m.cut(2, 0, 1, rest), divisor])
        taken = b.op("Mul", [share, m.cut(2, 1, left, row)])
        m.x = b.op("Sub", [m.cut(2, 1, left, rest), taken])
    last = reshaped(b, m.x, [count, 1])
    y = b.op("Mul", [y, last]) if y else last
    return b.proto(reshaped(b, y, n.input(0).shape[:-2]), opset=OPSET)


@body(MICROSOFT, "Inverse")
def _inverse(n: OnnxNode) -> onnx.FunctionProto:
    """By Gauss and Jordan, beside the unit matrix."""
    count, rows = _square(n)
    b, shape = Body(n), n.input(0).shape
    unit = np.broadcast_to(np.eye(rows, dtype=n.input(0).dtype), (count, rows, rows))
    x = reshaped(b, b.given(0), [count, rows, rows])
    m = _Rows(b, b.op("Concat", [x, array(b, unit)], axis=2), rows)
    for at in range(rows):
        _, row = m.exchange(at, at)
        row = b.op("Div", [row, m.cut(2, at, at + 1, row)])
        taken = b.op("Sub", [m.x, b.op("Mul", [m.cut(2, at, at + 1), row])])
        own = array(b, (np.arange(rows) == at)[None, :, None])
        m.x = b.op("Where", [own, row, taken])
    return b.proto(reshaped(b, m.cut(2, rows, 2 * rows), shape), opset=OPSET)


@body(MICROSOFT, "CDist")
def _distances(n: OnnxNode) -> onnx.FunctionProto:
    b, metric = Body(n), n.text("metric", "sqeuclidean")
    if metric not in ("euclidean", "sqeuclidean"):
        raise Unsupported(f"metric {metric!r}")
    one, other = (b.op("Unsqueeze", [b.given(i), ints(b, [1 - i])]) for i in (0, 1))
    apart = b.op("Sub", [one, other])
    y = b.op("ReduceSum", [b.op("Mul", [apart, apart]), ints(b, [2])], keepdims=0)
    return b.proto(b.op("Sqrt", [y]) if metric == "euclidean" else y, opset=OPSET)


@otherwise("Trilu")
def _triangle(n: OnnxNode) -> onnx.FunctionProto:
    """With a diagonal that the data decide."""
    if not n.has(1) or n.input(1).is_const:
        raise AsDefined
    b, (rows, columns) = Body(n), n.input(0).shape[-2:]
    places = [array(b, np.arange(columns)), array(b, np.arange(rows)[:, None])]
    kept = "GreaterOrEqual" if n.integer("upper", 1) else "LessOrEqual"
    inside = b.op(kept, [b.op("Sub", places), reshaped(b, b.given(1), [])])
    zero = array(b, np.zeros((), n.input(0).dtype))
    return b.proto(b.op("Where", [inside, b.given(0), zero]), opset=OPSET)
