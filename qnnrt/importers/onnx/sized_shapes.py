"""Operators that take a shape of which the data decide sizes: the shape is for the most there can
be, and the numbers say how many of the rows count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .counts import TWO_AXES, Axes, Number, along, axes_of, fewer, plain, times
from .nodes import OnnxNode, Unsupported, axis_of
from .scope import Lower, Results, RowsRule, Scope
from .sizes import SIZED
from .values import Value, constant


def _takes_sizes(op_type: str) -> Callable[[RowsRule], RowsRule]:
    def register(rule: RowsRule) -> RowsRule:
        SIZED.register([op_type], rule)
        return rule

    return register


def _one(v: Value) -> tuple[int, Number] | None:
    """The only one of a list of sizes that the data decide."""
    assert v.sizes is not None
    found = [(i, s) for i, s in enumerate(v.sizes) if s is not None]
    return found[0] if len(found) == 1 else None


def _one_of_shape(v: Value) -> tuple[int, Number]:
    at = _one(v)
    if at is None:
        raise Unsupported("a shape of which the data decide more than one size")
    return at


def _decided(v: Value, rank: int) -> Axes:
    """The sizes of a shape that the data decide, by axes of a tensor of `rank`."""
    assert v.sizes is not None
    ahead = rank - len(v.sizes)
    return {i + ahead: number for i, number in enumerate(v.sizes) if number is not None}


@_takes_sizes("ConstantOfShape")
def _constant(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    shape = n.input(0)
    n.inputs = [plain(shape)]
    (made,) = lower()
    assert isinstance(made, Value)
    return [along(made, _decided(shape, made.rank))]


@_takes_sizes("Expand")
def expanded_to(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    """Rows that there are already stay as many as they are: there have to be as many."""
    x, shape = n.input(0), n.input(1)
    n.inputs = [replace(x, count=None, second=None), plain(shape)]
    (made,) = lower()
    assert isinstance(made, Value)
    ahead = made.rank - x.rank
    axes = _decided(shape, made.rank) if shape.sizes is not None else {}
    for axis, number in axes_of(x).items():
        at = axis + ahead - (made.rank - shape.const.size)
        if axis + ahead not in axes and at >= 0 and shape.const.reshape(-1)[at] != 1:
            raise Unsupported(f"rows of which the data decide how many count, made "
                              f"{shape.const.reshape(-1)[at]}")  # fmt: skip
        axes[axis + ahead] = number
    return [along(made, axes)]


@_takes_sizes("Tile")
def _tile(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    """The first of the copies count."""
    x, repeats = n.input(0), n.input(1)
    at = _one_of_shape(repeats)
    if x.count is not None:
        raise Unsupported("rows of which the data decide how many count, among others")
    n.inputs = [x, plain(repeats)]
    (made,) = lower()
    assert isinstance(made, Value)
    return [replace(made, axis=at[0], count=times(g, at[1], x.shape[at[0]]))]


@_takes_sizes("Reshape")
def _reshape(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    """The elements say how large it is."""
    x, shape = n.input(0), n.input(1)
    at = _one(shape)
    if x.count is None and at is not None and not (shape.const == -1).any():
        sizes = shape.const.copy()
        sizes[at[0]] = -1
        shape = constant(sizes)
    n.inputs = [x, shape]
    return lower()


@_takes_sizes("TopK")
def _top_k(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    """No more than there are at most; rows.py knows which count."""
    x, k = n.input(0), n.input(1)
    assert k.sizes is not None
    axis = axis_of(n.integer("axis", -1), x.rank)
    most = min(int(k.const.reshape(-1)[0]), x.shape[axis])
    n.inputs = [x, constant(np.array([most]))]
    number = k.sizes[0]
    return [replace(v, count=number, axis=axis) if isinstance(v, Value) else v for v in lower()]


@_takes_sizes("Slice")
def _slice(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    """The first so many along one axis."""
    x, starts, ends = n.input(0), n.input(1), n.input(2)
    at = _one(ends)
    if at is None or not starts.is_const or ("least", at[1]) in g.counts:  # or from the last one on
        return None
    axes = n.axes("axes", 3) or list(range(len(ends.const)))
    steps = n.axes("steps", 4) or [1] * len(axes)
    axis = axis_of(axes[at[0]], x.rank)
    if starts.const[at[0]] != 0 or steps[at[0]] != 1:
        return None
    n.inputs = [x, starts, plain(ends), *n.inputs[3:]]
    (made,) = lower()
    assert isinstance(made, Value)
    counted = axes_of(made)
    if axis in counted:
        number = fewer(g, counted[axis], at[1])
    else:
        most = int(ends.const[at[0]])
        number = at[1] if most <= x.shape[axis] else fewer(g, at[1], x.shape[axis])
    return [along(made, counted | {axis: number})]


@_takes_sizes("Split")
def _split(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    """Each part has room for the most that its size can be."""
    x, sizes = n.input(0), n.input(1)
    axis = axis_of(n.integer("axis"), x.rank)
    if x.count is not None and x.axis != axis:
        raise Unsupported(TWO_AXES)
    assert sizes.sizes is not None
    if len(sizes.sizes) == 1:  # the whole
        return [x if x.count is not None else replace(x, count=sizes.sizes[0], axis=axis)]
    whole, length, along = replace(x, count=None), x.shape[axis], constant(np.array([axis]))
    found: list[Value] = []
    start = constant(np.zeros(1, np.int64))
    for most, number in zip(sizes.const.reshape(-1).tolist(), sizes.sizes, strict=True):
        if start.is_const:
            end = constant(np.minimum(start.const + most, length))
            part = g.emitted("Slice", [whole, start, end, along])
        else:
            places = g.emitted("Add", [start, constant(np.arange(most))])
            places = g.emitted("Min", [places, constant(np.array([length - 1]))])
            part = g.emitted("Gather", [whole, places], axis=axis)
        found.append(part if number is None else replace(part, count=number, axis=axis))
        step = constant(np.array([most])) if number is None else number
        start = g.emitted("Add", [start, step])
    return found


@_takes_sizes("Range")
def _range(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    start, limit, step = (n.input(i) for i in range(3))
    if limit.sizes is None or start.sizes is not None or step.sizes is not None:
        return None
    if not (start.is_const and step.is_const and step.const == 1 and start.const % 1 == 0):
        return None
    n.inputs = [start, plain(limit), step]
    (made,) = lower()
    assert isinstance(made, Value)
    count, first = limit.sizes[0], int(start.const)
    assert count is not None
    if first != 0:
        count = g.emitted("Sub", [count, constant(np.array([first]))])
    if first != 0 or ("least", limit.sizes[0]) in g.counts:
        count = g.emitted("Max", [count, constant(np.array([0]))])
    return [replace(made, count=count, axis=0)]
