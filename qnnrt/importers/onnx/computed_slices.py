"""Slices whose ends the graph computes: of an axis there is room for all, and as many rows count as
lie between the ends."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from .nodes import OnnxNode, Unsupported, axis_of
from .scope import Scope
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
            x = _between(g, x, axis, start, end, step)
    return x


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


def _between(g: Scope, x: Value, axis: int, start: Value, end: Value, step: int) -> Value:
    if x.count is not None and x.axis != axis:
        raise Unsupported("rows along two axes, of both of which the data decide how many count")
    if step < 1:
        raise Unsupported("a slice backwards between places that the data decide")
    room = x.shape[axis]
    if room == 0:
        return replace(x, count=constant(np.array([0])), axis=axis)
    length = constant(np.array([room])) if x.count is None else x.count
    zero = constant(np.array([0]))

    def within(place: Value) -> Value:
        back = g.emitted("Add", [place, length])
        place = g.emitted("Where", [g.emitted("Less", [place, zero]), back, place])
        return g.emitted("Max", [g.emitted("Min", [place, length]), zero])

    front = start.is_const and int(start.const[0]) == 0
    count = within(end)
    if not front:
        start = within(start)
        count = g.emitted("Max", [g.emitted("Sub", [count, start]), zero])
    if step > 1:
        more = g.emitted("Add", [count, constant(np.array([step - 1]))])
        count = g.emitted("Div", [more, constant(np.array([step]))])
    whole = replace(x, count=None)
    if not front or step > 1:
        steps = constant(np.arange(math.ceil(room / step)) * step)
        places = g.emitted("Add", [start, steps])
        places = g.emitted("Min", [places, constant(np.array([room - 1]))])
        whole = g.emitted("Gather", [whole, places], axis=axis)
    return replace(whole, count=count, axis=axis)
