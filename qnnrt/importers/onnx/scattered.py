"""Updates, or places of them, with as many rows as the data decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .counts import fewer, is_part
from .nodes import OnnxNode, Unsupported, axis_of
from .rows import (
    all_rows,
    any_counted,
    columns_from_front,
    counting,
    from_front,
    places_of,
    taken_by,
)
from .scope import Lower, Results, Scope
from .values import Value, constant


def _alike(values: Sequence[Value]) -> bool:
    """Whether all have the same number of rows along the same axis."""
    first = values[0]
    return first.count is not None and all(
        v.count is first.count and v.axis == first.axis for v in values
    )


def _as_many(g: Scope, index: Value, updates: Value) -> tuple[Value, Value]:
    """Places and updates with one room: of the ones there have to be as many as of the others."""
    counted = [v for v in (index, updates) if v.count is not None]
    if not counted:
        return index, updates
    number, other, axis = counted[0].count, counted[-1].count, counted[0].axis
    assert number is not None
    if other is not number and not is_part(g, other, number):
        raise Unsupported("updates and their places with two numbers of rows")
    if any(v.axis != axis for v in counted) or axis >= min(index.rank, updates.rank):
        return index, updates
    if other is number and index.shape[axis] == updates.shape[axis]:
        return index, updates
    room = min(index.shape[axis], updates.shape[axis])
    number = fewer(g, number, room)
    made = []
    for v in (index, updates):
        whole = all_rows(v)
        if v.shape[axis] > room:
            cut = [constant(np.array([at])) for at in (0, room, axis)]
            whole = g.emitted("Slice", [whole, *cut])
        made.append(whole if v.count is None else replace(whole, count=number, axis=axis))
    return made[0], made[1]


@taken_by("ScatterElements", "ScatterND", "Scatter")
def _scatter(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    """Updates that do not count go to a row that is cut off behind."""
    x, index, updates = (n.input(i) for i in range(3))
    if not any_counted(n):
        return None
    index, updates = _as_many(g, index, updates)
    many = n.op == "ScatterND"
    axis = 0 if many else axis_of(n.integer("axis"), x.rank)
    if not many and x.axis != axis and _alike((x, index, updates)):  # in each row apart
        n.inputs = [all_rows(v) for v in (x, places_of(g, index), updates)]
        return [replace(v, count=x.count, axis=x.axis) for v in lower() if isinstance(v, Value)]
    moved = all_rows(index)
    if x.count is not None:
        if x.axis >= index.shape[-1] if many else x.axis != axis:
            raise Unsupported("places in rows of which the data decide how many count")
        moved = columns_from_front(g, index, x) if many else from_front(g, index, x.count)
    counted = [v for v in (index, updates) if v.count is not None]
    room = x.shape[axis]
    whole = all_rows(x)
    if counted:
        first = counted[0]
        beyond = np.zeros(index.shape[-1] if many else 1, index.dtype)
        beyond[0] = room
        moved = counting(g, replace(moved, count=first.count, axis=first.axis), beyond)
        extra = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        g.budget.array(extra, x.dtype, "a row for what does not count")
        whole = g.emitted("Concat", [whole, constant(np.zeros(extra, x.dtype))], axis=axis)
    n.inputs = [whole, moved, all_rows(updates)]
    (y,) = lower()
    assert isinstance(y, Value)
    if counted:
        cut = [constant(np.array([v])) for v in (0, room, axis)]
        y = g.emitted("Slice", [y, *cut])
    return [y if x.count is None else replace(y, count=x.count, axis=x.axis)]
