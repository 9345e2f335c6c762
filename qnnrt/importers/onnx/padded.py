"""Pads of so many rows as the data decide: boxes or key points that are made a known number of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .counts import TWO_AXES
from .nodes import OnnxNode, Unsupported, axis_of
from .rows import counting, first_of
from .scope import Lower, Results, Scope
from .size_forms import filled_up, rounded_up
from .sizes import SIZED
from .values import constant


def _pad(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    """Behind the rows alone, by one value."""
    x, pads, fill = n.input(0), n.input(1), n.optional(2)
    axes = n.axes("axes", 3) or list(range(x.rank))
    assert pads.sizes is not None
    decided = [(i, number) for i, number in enumerate(pads.sizes) if number is not None]
    if len(decided) != 1 or n.text("mode", "constant") != "constant":
        raise Unsupported("padding along two axes, or of a mode, of which the data decide how much")
    ((place, number),) = decided
    if place < len(axes):
        raise Unsupported("padding in front of which the data decide how much")
    if fill is not None and not fill.is_const:
        raise Unsupported("computed padding of which the data decide how much")
    axis = axis_of(axes[place - len(axes)], x.rank)
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
    whole = x if x.count is None else counting(g, x, value)
    shape = (*x.shape[:axis], most, *x.shape[axis + 1 :])
    g.budget.array(shape, x.dtype, "room for padding")
    if most:
        whole = g.emitted("Concat", [whole, constant(np.full(shape, value))], axis=axis)
    if size is not None:
        return [first_of(g, whole, axis, size)]
    return [replace(whole, count=g.emitted("Add", [count, number]), axis=axis)]


SIZED.register(["Pad"], _pad)
