"""Numbers of rows that the data decide: one for what is counted once, those made of others, and the
axes that they are about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from .nodes import Unsupported
from .scope import Scope
from .values import Value, constant

#: Why what takes rows along one axis is refused for two.
TWO_AXES = "rows along two axes, of both of which the data decide how many count"

#: A number of the graph, int64[1].
Number = Value

#: The number of rows along each axis where the data decide it.
Axes = dict[int, Number]


def sized(data: np.ndarray, numbers: Sequence[Number | None]) -> Value:
    """A constant of the most that numbers can be, with those that the data decide."""
    found = constant(data)
    return replace(found, sizes=tuple(numbers)) if any(numbers) else found


def plain(v: Value) -> Value:
    """The most that numbers can be, as a constant like any other."""
    return constant(v.const) if v.sizes is not None else v


def axes_of(v: Value) -> Axes:
    if v.count is None:
        return {}
    return {v.axis: v.count} | dict([v.second] if v.second is not None else [])


def along(v: Value, axes: Axes) -> Value:
    """A value of which so many rows count along these axes."""
    if len(axes) > 2:
        raise Unsupported("rows along three axes, of all of which the data decide how many count")
    (axis, count), second = next(iter(sorted(axes.items())), (0, None)), max(axes, default=0)
    return replace(
        v, axis=axis, count=count, second=(second, axes[second]) if len(axes) == 2 else None
    )


def once(g: Scope, key: tuple[object, ...], make: Callable[[], Value]) -> Value:
    """One number for what is counted once: two values of the same one have as many rows."""
    if key not in g.counts:
        g.counts[key] = make()
    return g.counts[key]


def times(g: Scope, count: Number, factor: int) -> Number:
    if factor == 1:
        return count
    pair = [count, constant(np.array([factor]))]
    return once(g, ("times", count, factor), lambda: g.emitted("Mul", pair))


def parts(g: Scope, count: Number, divisor: int) -> Number:
    """A number that is a multiple of another one, divided by it."""
    if divisor == 1:
        return count
    pair = [count, constant(np.array([divisor]))]
    return once(g, ("parts", count, divisor), lambda: g.emitted("Div", pair))


def fewer(g: Scope, count: Number, most: Number | int) -> Number:
    if count is most:
        return count
    other = most if isinstance(most, Value) else constant(np.array([most]))
    return once(g, ("fewer", count, most), lambda: g.emitted("Min", [count, other]))


def is_part(g: Scope, number: Number | None, of: Number) -> bool:
    """Whether a number is another one, as far as there is room for so many."""
    return any(
        made is number and key[0] == "fewer" and key[1] is of for key, made in g.counts.items()
    )


def more_rows(g: Scope, count: Number, more: int) -> Number:
    """A number and so many; no less than 0."""
    if more == 0:
        return count
    if more < 0:
        return from_there(g, count, -more)
    pair = [count, constant(np.array([more]))]
    return once(g, ("more", count, more), lambda: g.emitted("Add", pair))


def from_there(g: Scope, count: Number, start: int, step: int = 1) -> Number:
    """How many there are from the place `start` on, in steps."""
    if start == 0 and step == 1:
        return count

    def make() -> Value:
        left = g.emitted("Sub", [count, constant(np.array([start - step + 1]))])
        return g.emitted("Div", [g.emitted("Max", [left, zero]), constant(np.array([step]))])

    zero = constant(np.array([0]))
    return once(g, ("from there", count, start, step), make)
