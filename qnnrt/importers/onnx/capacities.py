"""Capacities: the most that sizes may be which the data decide without saying how far they go, as
a caller of ``load`` gives them by the names of tensors.

A computed number becomes a size (sizes.py), rows get less room than the most there can be.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...dtypes import is_float, is_number
from ..guard import shortened
from .counts import fewer, sized
from .infer import LARGEST
from .nodes import Unsupported
from .scope import Scope
from .sizes import itself
from .values import Value, constant


def checked(given: Mapping[str, int]) -> dict[str, int]:
    """What ``capacities=`` gives, as plain numbers."""
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise TypeError(
            "capacities is a dict of names of tensors and the most that each may be, not "
            f"{shortened(repr(given))}"
        )
    found = {}
    for name, most in given.items():
        try:
            found[name] = operator.index(most)
        except TypeError:
            raise TypeError(
                f"the capacity of {shortened(repr(name))} is {shortened(repr(most))}, no whole "
                "number"
            ) from None
        if not 0 < found[name] <= LARGEST:
            raise ValueError(
                f"the capacity of {shortened(repr(name))} is {found[name]}; it has to be 1 to "
                f"{LARGEST}"
            )
    return found


def advice(names: Sequence[str], inputs: Sequence[Value | None]) -> str:
    """What a caller can do about those of these inputs that the data decide."""
    listed = ", ".join(
        f"{shortened(repr(name))}: ..."
        for name, v in zip(names, inputs, strict=True)
        if name and v is not None and not v.is_const
    )
    return f"; or say the most that it can be: capacities={{{listed}}}" if listed else ""


def held(g: Scope, name: str, value: Value, most: int) -> tuple[Value, Value | None]:
    """A value that is no more than `most`, and the number that it would be; None where it is known
    when the file is loaded."""
    if value.second is not None:
        raise Unsupported(
            f"{shortened(repr(name))} has rows along two axes of which the data decide how many "
            "count: a capacity is for one; give it to a tensor before it"
        )
    if value.count is not None:
        return _rows(g, value, most), value.count
    if value.is_const and value.sizes is None:
        return value, None
    if not is_number(value.dtype) or value.dtype.kind == "b":
        raise Unsupported(
            f"{shortened(repr(name))} is {value.dtype.name}{list(value.shape)}: a capacity is for "
            "a number, or for as many rows as the data decide"
        )
    if value.sizes is not None:
        less = [None if s is None else fewer(g, s, most) for s in value.sizes]
        wanted = itself(g, value)
        return replace(sized(np.minimum(value.const, most), less), exact=wanted), wanted
    flat = g.b.reshape(value, (math.prod(value.shape),))
    if is_float(value.dtype):
        flat = g.emitted("Ceil", [flat])
    if value.dtype != np.int64:
        flat = g.emitted("Cast", [flat], to=7)
    ends = [constant(np.array([end])) for end in (0, most)]
    within = g.emitted("Min", [g.emitted("Max", [flat, ends[0]]), ends[1]])
    count = within.shape[0]
    numbers = [within] if count == 1 else g.emitted_many(
        "Split", [within, constant(np.ones(count, np.int64))], count, axis=0
    )  # fmt: skip
    known = _known(g, value)
    whole = np.array([most if k is None else k for k in known], value.dtype).reshape(value.shape)
    decided = [None if k is not None else number for k, number in zip(known, numbers, strict=True)]
    wanted = value
    if any(k is not None for k in known):
        rest = constant(np.flatnonzero([k is None for k in known]))
        wanted = g.emitted("Gather", [g.b.reshape(value, (count,)), rest])
    return replace(sized(whole, decided), exact=value), wanted


def _known(g: Scope, value: Value) -> list[int | None]:
    """Of a computed list of numbers, those that are there when a file is loaded: a shape has
    batches and channels beside the sizes that the data decide."""
    count = math.prod(value.shape)
    parts = g.numbering.joined(g.b.edge(value)) or []
    found: list[int | None] = []
    for part in parts:
        size = math.prod(part.shape)
        found += [None] * size if part.data is None else np.asarray(part.data).reshape(-1).tolist()
    return found if len(found) == count and None in found else [None] * count


def larger(g: Scope, a: Value, b: Value) -> Value:
    """Of what a tensor of a body would be in two turns."""
    if a.shape != b.shape:
        a, b = (g.emitted("ReduceMax", [v], keepdims=0) for v in (a, b))
    return g.emitted("Max", [a, b])


def _rows(g: Scope, value: Value, most: int) -> Value:
    assert value.count is not None
    if most >= value.shape[value.axis]:
        return value
    part = [constant(np.array([at])) for at in (0, most, value.axis)]
    kept = g.emitted("Slice", [replace(value, count=None), *part])
    return replace(kept, count=fewer(g, value.count, most), axis=value.axis)
