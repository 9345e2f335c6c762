"""Pads of so many rows as the data decide: boxes or key points that are made a known number of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .counts import TWO_AXES, Number
from .nodes import OnnxNode, Unsupported, axis_of
from .rows import all_rows, counting, first_of, within
from .scope import Lower, Results, Scope
from .size_forms import filled_up, rounded_up
from .sizes import SIZED
from .values import Value, constant


def _pad(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    """Behind the rows or in front of them, by one value."""
    x, pads, fill = n.input(0), n.input(1), n.optional(2)
    axes = n.axes("axes", 3) or list(range(x.rank))
    assert pads.sizes is not None
    decided = [(i, number) for i, number in enumerate(pads.sizes) if number is not None]
    if len(decided) != 1 or n.text("mode", "constant") != "constant":
        raise Unsupported("padding along two axes, or of a mode, of which the data decide how much")
    ((place, number),) = decided
    if fill is not None and not fill.is_const:
        raise Unsupported("computed padding of which the data decide how much")
    axis = axis_of(axes[place % len(axes)], x.rank)
    if x.second is not None or (x.count is not None and x.axis != axis):
        raise Unsupported(TWO_AXES)
    value = np.zeros((), x.dtype) if fill is None else fill.const.reshape(()).astype(x.dtype)
    known = pads.const.copy()
    most, known[place] = int(known[place]), 0
    if known.any():
        more = [constant(known), constant(value), constant(np.array(axes))]
        x = g.emitted("Pad", [x, *more])
    size = filled_up(g, x.count, number)
    if (multiple := rounded_up(g, x.count, number)) is not None:
        most = -x.shape[axis] % multiple
    count = constant(np.array([x.shape[axis]])) if x.count is None else x.count
    if place < len(axes) and x.shape[axis]:
        room = x.shape[axis] + most if size is None else size
        whole = _in_front(g, x, axis, number, room, value)
    else:
        whole = x if x.count is None else counting(g, x, value)
        shape = (*x.shape[:axis], most, *x.shape[axis + 1 :])
        g.budget.array(shape, x.dtype, "room for padding")
        if most:
            whole = g.emitted("Concat", [whole, constant(np.full(shape, value))], axis=axis)
    if size is not None:
        return [first_of(g, whole, axis, size)]
    return [replace(whole, count=g.emitted("Add", [count, number]), axis=axis)]


def _in_front(g: Scope, x: Value, axis: int, number: Number, room: int, value: np.ndarray) -> Value:
    """Each row so many places further behind; less than nothing takes rows away."""
    shape = (room,) + (1,) * (x.rank - axis - 1)
    g.budget.array((room,), np.int64, "the places of rows", copies=2)
    every = constant(np.arange(room))
    places = g.emitted("Sub", [every, number])
    last = constant(np.array([max(x.shape[axis] - 1, 0)]))
    moved = g.emitted("Gather", [all_rows(x), within(g, places, last)], axis=axis)
    behind = g.b.reshape(g.emitted("GreaterOrEqual", [every, number]), shape)
    return g.emitted("Where", [behind, moved, constant(value)])


SIZED.register(["Pad"], _pad)
