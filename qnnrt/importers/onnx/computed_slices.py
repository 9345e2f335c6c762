"""Slices whose ends the graph computes: of an axis there is room for all, and as many rows count as
lie between the ends."""

from __future__ import annotations

import math

import numpy as np

from .counts import along, axes_of, once
from .nodes import OnnxNode, axis_of
from .rows import all_rows, first_of, taken_by
from .scope import Lower, Results, Scope
from .sizes import itself
from .values import Value, constant


def sliced(g: Scope, n: OnnxNode) -> Value | None:
    """What such a Slice gives; None where it says too little for that."""
    x, starts, ends = n.input(0), n.input(1), n.input(2)
    axes, steps = n.axes("axes", 3), n.axes("steps", 4)
    if starts.rank != 1 or starts.shape != ends.shape or (axes is None and n.has(3)):
        return None
    many = starts.shape[0]
    axes = [axis_of(a, x.rank) for a in axes or range(many)]
    if steps is None:
        if n.has(4):
            return None
        steps = [1] * many
    if not len(axes) == len(steps) == many == len(set(axes)):
        return None
    first, last = _numbers(g, starts), _numbers(g, ends)
    for axis, start, end, step in zip(axes, first, last, steps, strict=True):
        if start.is_const and end.is_const:
            rest = [constant(np.array([v])) for v in (axis, step)]
            x = g.emitted("Slice", [x, start, end, *rest])
    for axis, start, end, step in zip(axes, first, last, steps, strict=True):
        if not (start.is_const and end.is_const):
            x = between(g, x, axis, start, end, step)
    return x


@taken_by("Slice")
def _from_behind(g: Scope, n: OnnxNode, lower: Lower) -> Results | None:
    """Known places among rows that count, from the last one on or backwards."""
    x = n.input(0)
    starts, ends = n.axes("starts", 1), n.axes("ends", 2)
    axes, steps = n.axes("axes", 3), n.axes("steps", 4)
    if x.count is None or starts is None or ends is None:
        return None
    axes = [axis_of(a, x.rank) for a in axes or range(len(starts))]
    steps = steps or [1] * len(starts)
    if x.axis not in axes:
        return None
    at = axes.index(x.axis)
    if starts[at] >= 0 and steps[at] > 0:
        return None
    for i, (start, end, step) in enumerate(zip(starts, ends, steps, strict=True)):
        if i != at:
            x = g.emitted(
                "Slice", [x, *(constant(np.array([v])) for v in (start, end, axes[i], step))]
            )
    first, last = (constant(np.array([v])) for v in (starts[at], ends[at]))
    return [between(g, x, axes[at], first, last, steps[at])]


def _numbers(g: Scope, v: Value) -> list[Value]:
    """The elements of a list of numbers, each int64[1]."""
    if v.sizes is not None:
        v = itself(g, v)
    if v.dtype != np.int64:
        v = g.emitted("Cast", [v], to=7)
    if v.is_const:
        return [constant(np.array([int(e)])) for e in v.const]
    if v.shape == (1,):
        return [v]
    many = v.shape[0]
    parts = g.numbering.joined(g.b.edge(v))
    if parts is None or [p.shape for p in parts] != [(1,)] * many:
        return g.emitted_many("Split", [v, constant(np.ones(many, np.int64))], many, axis=0)
    return [
        constant(np.asarray(p.data)) if p.data is not None else Value((1,), p.dtype, p, (0,))
        for p in parts
    ]


def between(g: Scope, x: Value, axis: int, start: Value, end: Value, step: int) -> Value:
    """The rows from `start` to before `end`, int64[1], which may be beyond either end."""
    room, axes = x.shape[axis], axes_of(x)
    own, whole = axes.get(axis), all_rows(x)
    if room == 0 or step == 0:
        return along(whole, axes | {axis: constant(np.array([0]))})
    length = constant(np.array([room])) if own is None else own
    zero, less = constant(np.array([0])), 1 if step < 0 else 0
    first, last = (constant(np.array([v])) for v in (-less, 1))

    def within(place: Value, least: Value) -> Value:
        back = g.emitted("Add", [place, length])
        place = g.emitted("Where", [g.emitted("Less", [place, zero]), back, place])
        most = g.emitted("Sub", [length, last]) if less else length
        return g.emitted("Max", [g.emitted("Min", [place, most]), least])

    front = step > 0 and start.is_const and int(start.const[0]) == 0
    span = None if start.is_const or end.is_const else g.numbering.apart(
        g.b.edge(start), g.b.edge(end)
    )  # fmt: skip
    beyond = less and end.is_const and int(end.const[0]) < -room
    end = first if beyond else within(end, first)  # before the first one, however many count
    count = end
    if not front:
        start = within(start, zero)
        ends = [start, end] if less else [end, start]
        count = g.emitted("Max", [g.emitted("Sub", ends), zero])
    if less and own is not None:  # there may be none
        count = g.emitted("Min", [count, length])
    if abs(step) > 1:
        more = g.emitted("Add", [count, constant(np.array([abs(step) - 1]))])
        count = g.emitted("Div", [more, constant(np.array([abs(step)]))])
    if not front or step > 1:
        steps = constant(np.arange(math.ceil(room / abs(step))) * step)
        places = g.emitted("Add", [start, steps])
        ends = [constant(np.array([v])) for v in (room - 1, 0)]
        places = g.emitted("Max", [g.emitted("Min", [places, ends[0]]), ends[1]])
        whole = g.emitted("Gather", [whole, places], axis=axis)
    if span is not None and step == 1 and 0 < span <= room:
        whole = first_of(g, whole, axis, span)
        once(g, ("span", count), lambda: constant(np.array([span])))
    return along(whole, axes | {axis: count})
