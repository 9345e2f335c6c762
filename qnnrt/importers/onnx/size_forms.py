"""Forms of a number that files undo: what is missing to a known number, what is left by one, so
many more; and the least that such a number can be.
"""

from __future__ import annotations

import numpy as np

from .counts import Number, more_rows, once, sized
from .nodes import OnnxNode
from .scope import Results, Scope
from .values import Value, constant


def _only(v: Value) -> Number | None:
    """The number of a single size."""
    return v.sizes[0] if v.sizes is not None and len(v.sizes) == 1 else None


def rest_of(g: Scope, n: OnnxNode) -> Value | None:
    """What a known number has more than one that the data decide, which may be less than nothing:
    as many as that are put behind rows to make them so many."""
    whole, size = n.input(0), n.input(1)
    number = _only(size)
    if number is None or whole.const.size != 1:
        return None
    known = int(whole.const.reshape(-1)[0])
    least = int(least_of(g, size).const.reshape(-1)[0])
    rest = once(
        g, ("rest", known, number), lambda: g.emitted("Sub", [constant(np.array([known])), number])
    )
    shape = np.broadcast_shapes(whole.shape, size.shape)
    may_be(g, rest, known - int(size.const.reshape(-1)[0]))
    return sized(np.full(shape, max(known - least, 0), size.dtype), [rest])


def and_more(g: Scope, a: Value, b: Value) -> Value | None:
    """A number and a known one, which is what Concat makes of so many rows and as many more."""
    size, other = (a, b) if a.sizes is not None else (b, a)
    number = _only(size)
    if number is None or other.const.size != 1:
        return None
    more = int(other.const.reshape(-1)[0])
    if more < 0 or ("least", number) in g.counts:
        return None
    most = np.full(np.broadcast_shapes(a.shape, b.shape), size.const.max() + more, size.dtype)
    return sized(most, [more_rows(g, number, more)])


def around(g: Scope, n: OnnxNode) -> Value | None:
    """A number below nothing, and what is left of one by a known number: `-n % 4`."""
    size = n.input(0)
    number, most = _only(size), int(size.const.reshape(-1)[0])
    if number is None:
        return None
    if n.op == "Neg":
        less = once(g, ("negative", number), lambda: g.emitted("Neg", [number]))
        room = max(-int(least_of(g, size).const.reshape(-1)[0]), 0)
        return sized(np.full(size.shape, room, size.dtype), [may_be(g, less, -most)])
    by = n.input(1).const
    if by.size != 1 or int(by.reshape(-1)[0]) < 1 or n.integer("fmod"):
        return None
    known = constant(np.array([int(by.reshape(-1)[0])]))
    left = once(g, ("left", int(known.const[0]), number), lambda: g.emitted("Mod", [number, known]))
    shape = np.broadcast_shapes(size.shape, by.shape)
    return sized(np.full(shape, known.const[0] - 1, size.dtype), [left])


def filled_up(g: Scope, count: Number | None, more: Number | None) -> int | None:
    """How many rows so many and `more` are together, where that is known: of `rest_of`."""
    for key, made in g.counts.items():
        if made is more and key[0] == "rest" and key[2] is count and isinstance(key[1], int):
            return key[1]
    return None


def rounded_up(g: Scope, count: Number | None, more: Number | None) -> int | None:
    """Of what so many and `more` are a multiple, where that is known."""
    for key, made in g.counts.items():
        if made is more and key[0] == "left" and isinstance(key[1], int):
            return key[1] if g.counts.get(("negative", count)) is key[2] else None
    return None


def least_of(g: Scope, v: Value) -> Value:
    """The least that numbers can be: no rows, but for what was computed to be less."""
    assert v.sizes is not None
    flat = v.const.reshape(-1).copy()
    for i, number in enumerate(v.sizes):
        if number is not None:
            known = g.counts.get(("least", number))
            flat[i] = 0 if known is None else known.const[0]
    return constant(flat.reshape(v.shape))


def may_be(g: Scope, number: Number, least: int) -> Number:
    """A number that may be less than nothing."""
    if least < 0:
        once(g, ("least", number), lambda: constant(np.array([least])))
    return number


def equal(g: Scope, size: Value, other: Value) -> Results | None:
    """Where no number can be the other."""
    a, least, b = np.broadcast_arrays(size.const, least_of(g, size).const, other.const)
    assert size.sizes is not None
    decided = np.array([s is not None for s in size.sizes]).reshape(size.shape)
    decided = np.broadcast_to(decided, a.shape)
    if (decided & (b >= least) & (b <= a)).any():
        return None
    return [constant(np.where(decided, False, a == b))]
