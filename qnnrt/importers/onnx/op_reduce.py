"""Reductions, the positions of extremes, sorting and running sums."""

from __future__ import annotations

import numpy as np

from ...dtypes import is_float
from .common import add, cast, div, mul, nary, plus, reduce, scalar, sub, unary, widened
from .nodes import Lowering, OnnxNode, Refused, Result, axis_of, lowers
from .values import Value, constant, identity

_DIRECT = ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")


def _axes(n: OnnxNode, x: Value) -> list[int] | None:
    """The reduced axes; None when there is nothing to reduce (noop_with_empty_axes)."""
    found = n.axes("axes", 1)
    if not found:
        if n.integer("noop_with_empty_axes"):
            return None
        return list(identity(x.rank))
    return sorted({axis_of(a, x.rank) for a in found})


def _integer_root(c: Lowering, total: Value) -> Value:
    """The whole part of the square root of integers that are not negative.

    The root in 32-bit floats is off by up to 2^-23 of it. A step of Newton's in integers brings it
    to the whole part or one above or below.
    """
    wide, single = np.dtype(np.int64), np.dtype(np.float32)
    total = cast(c, total, wide)
    one = scalar(1, wide)
    root = cast(c, unary(c, "ElementWiseSquareRoot", cast(c, total, single)), wide)
    root = nary(c, "ElementWiseMaximum", [root, one])  # of 0: 0 / 1
    root = div(c, add(c, root, div(c, total, root)), scalar(2, wide))
    # By quotients: the square of a root that is one too large may not fit.
    root = nary(c, "ElementWiseMaximum", [root, one])
    above = nary(c, "ElementWiseGreater", [root, div(c, total, root)], np.dtype(bool))
    root = sub(c, root, cast(c, above, wide))
    after = plus(c, root, 1)
    fits = nary(c, "ElementWiseLessEqual", [after, div(c, total, after)], np.dtype(bool))
    return add(c, root, cast(c, fits, wide))


def _squares(n: OnnxNode, x: Value, axes: list[int] | None) -> bool:
    """Whether squares are taken while they are summed."""
    taken = n.op in ("ReduceL2", "ReduceSumSquare") and bool(axes)
    return taken and x.dtype == np.float32


def lower_reduce(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    if n.op in ("ReduceLogSum", "ReduceLogSumExp") and not is_float(x.dtype):
        raise Refused("logarithms of integers, whose fractions would be cut off")
    if n.op == "ReduceL2" and x.dtype == np.uint64:
        raise Refused("roots of integers that 63 bits do not hold")
    axes = _axes(n, x)
    keep = bool(n.integer("keepdims", 1))
    if n.op == "ReduceMean" and 0 in [x.shape[a] for a in axes or ()]:  # as fold_reduce.py
        return constant(np.zeros(n.shape(), x.dtype))
    given = x.dtype
    if n.op == "ReduceL2":
        x = cast(c, x, np.dtype(np.int64)) if given.kind in "iu" else widened(c, x)
    if n.op in ("ReduceL1",):
        if x.dtype.kind != "u":
            x = unary(c, "ElementWiseAbs", x)
    elif n.op in ("ReduceL2", "ReduceSumSquare") and not _squares(n, x, axes):
        x = mul(c, x, x)
    if x.dtype.kind == "b":
        # Any and all: QNN reduces numbers only.
        y = lower_reduce_numbers(c, n, cast(c, x, np.dtype(np.int32)), axes, keep)
        return cast(c, y, x.dtype)
    y = lower_reduce_numbers(c, n, x, axes, keep)
    return cast(c, y, given) if n.op == "ReduceL2" else y


def lower_reduce_numbers(
    c: Lowering, n: OnnxNode, x: Value, axes: list[int] | None, keep: bool
) -> Value:
    peak: Value | None = None
    if n.op == "ReduceLogSumExp":
        if axes:  # the largest element is taken out, so that exp cannot overflow
            # As a finite number: infinity less infinity would be none.
            most = float(np.finfo(x.dtype).max)
            peak = reduce(c, "ReduceMax", x, axes)
            peak = nary(c, "ElementWiseMaximum", [peak, scalar(-most, x.dtype)])
            peak = nary(c, "ElementWiseMinimum", [peak, scalar(most, x.dtype)])
            x = sub(c, x, peak)
        x = unary(c, "ElementWiseExp", x)
    kind = n.op if n.op in _DIRECT else "ReduceSum"
    if _squares(n, x, axes):
        kind = "ReduceSumSquare"
    if axes:
        x = reduce(c, kind, x, axes, keep or peak is not None)
    if n.op == "ReduceL2":
        root = is_float(x.dtype)
        x = unary(c, "ElementWiseSquareRoot", x) if root else _integer_root(c, x)
    elif n.op in ("ReduceLogSum", "ReduceLogSumExp"):
        x = unary(c, "ElementWiseLog", x)
    if peak is not None:
        x = nary(c, "ElementWiseAdd", [x, peak])
        if not keep:
            assert axes is not None
            x = c.b.reshape(x, [d for i, d in enumerate(x.shape) if i not in axes])
    return x


for _op in (*_DIRECT, "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"):
    lowers(_op, to=_op if _op in _DIRECT else "ReduceSum and elementwise")(lower_reduce)


@lowers("ArgMax", "ArgMin", to="Argmax, Argmin")
def arg_extreme(c: Lowering, n: OnnxNode) -> Value:
    x = c.b.real(n.input(0))
    axis = axis_of(n.integer("axis"), x.rank)
    keep = bool(n.integer("keepdims", 1))
    last = n.integer("select_last_index")
    if last:  # the first of the reversed elements
        from .common import gather_const, places

        x = gather_const(c, x, places(c, x.shape[axis])[::-1], axis)
    scalar_result = not keep and x.rank == 1
    keep = keep or scalar_result  # QNN has no tensors of rank 0
    left = [i for i in range(x.rank) if i != axis]
    shape = (1,) if scalar_result else n.shape()
    perm = x.perm if keep else tuple(left.index(p) for p in x.perm if p != axis)
    y = c.b.op(
        "Argmax" if n.op == "ArgMax" else "Argmin",
        [x],
        shape,
        np.dtype(np.int32),
        perm,
        axis=np.uint32(x.perm.index(axis)),
        keep_dims=np.bool_(keep),
    )
    if last:
        y = sub(c, scalar(x.shape[axis] - 1, y.dtype), y)
    y = c.b.reshape(y, ()) if scalar_result else y
    return cast(c, y, np.dtype(np.int64))


@lowers("TopK", to="TopK")
def top_k(c: Lowering, n: OnnxNode) -> Result:
    x = n.input(0)
    axis = axis_of(n.integer("axis", -1), x.rank)
    shape = n.shape()
    x = c.b.real(x)
    perm = (*(p for p in x.perm if p != axis), axis)
    x = c.b.with_perm(x, perm)
    held = tuple(shape[p] for p in perm)
    values, index = c.b.raw(
        "TopK",
        [c.b.edge(x)],
        [(held, x.dtype), (held, np.dtype(np.int32))],
        {"k": np.uint32(shape[axis]), "largest": np.bool_(n.integer("largest", 1))},
    )
    found = Value(shape, x.dtype, values, perm)
    positions = Value(shape, np.dtype(np.int32), index, perm)
    return [found, cast(c, positions, np.dtype(np.int64)) if n.wants(1) else None]


@lowers("CumSum", to="CumulativeSum")
def cumulative_sum(c: Lowering, n: OnnxNode) -> Value:
    x = c.b.real(n.input(0))
    axis = n.const_input(1, "axis")
    assert axis is not None
    at = x.perm.index(axis_of(int(axis.reshape(())), x.rank))
    return c.b.op(
        "CumulativeSum",
        [x],
        x.shape,
        None,
        x.perm,
        axis=np.uint32(at),
        exclusive=np.bool_(n.integer("exclusive")),
        reverse=np.bool_(n.integer("reverse")),
    )
