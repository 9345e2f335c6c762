"""Elements that indices pick, and those that they replace.

The checks of the graph refuse constant indices that are outside of their axis. Those that come at
run time are never followed there, and the run fails.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from ..ir import Launch, Node, Value
from ..target import Target
from .common import Defines
from .move import copies, packed
from .sizes import (
    axis_of,
    index_type,
    launch,
    moved,
    noting,
    number,
    over,
    plain,
    simt,
    strides,
    unit_type,
)

_COMBINE: Final = {
    0: "(b)",
    1: "((a) + (b))",
    2: "((a) * (b))",
    3: "((b) > (a) || (b) != (b) ? (b) : (a))",
}
#: Updates of one place that one work item makes in turn, and places that may be claimed otherwise.
_IN_TURN: Final = 8
_MOST_CLAIMS: Final = 1 << 28
#: Updates for which every pair of them may be compared.
_MOST_PAIRS: Final = 8192


def _moved(value: Value, indices: Value, units: int) -> tuple[Defines, int]:
    """Defines for so many neighbours that stay together, and how many units these are."""
    width = math.gcd(units * value.dtype.itemsize, 16)
    if units <= 1:
        width = value.dtype.itemsize
    defines = (
        ("WIDTH", str(width)),
        ("UNIT", unit_type(width)),
        ("INDEX", index_type(indices)),
    )
    return defines, units * value.dtype.itemsize // width


def _picked(node: Node) -> tuple[Value, Value, Value]:
    x, indices, y = node.inputs[0], node.inputs[1], node.outputs[0]
    assert x is not None
    assert indices is not None
    moved(x, y)
    return x, indices, y


def _gather(node: Node, target: Target) -> list[Launch]:
    x, indices, y = _picked(node)
    axis = axis_of(node, len(x.shape))
    chunk = math.prod(x.shape[axis + 1 :])
    defines, units = _moved(x, indices, chunk)
    total = math.prod(x.shape[:axis]) * indices.size * units
    grid = over(total, target)
    checked, noted = noting(indices)
    args = (x, indices, y, total, x.shape[axis], indices.size, units, axis, *noted)
    return [launch("gather", "gather", (*defines, *checked), args, grid)]


def _gather_elements(node: Node, target: Target) -> list[Launch]:
    x, indices, y = _picked(node)
    axis = axis_of(node, len(x.shape))
    steps = strides(x.shape)
    count, loops = _beside(axis, indices.shape, steps)
    args: list[Value | int] = [x, indices, y, y.size, x.shape[axis], steps[axis], axis, *loops]
    defines, _ = _moved(x, indices, 1)
    grid = over(y.size, target)
    checked, noted = noting(indices)
    defines = (*defines, *count, *checked)
    return [launch("gather", "gather_elements", defines, (*args, *noted), grid)]


def _beside(axis: int, shape: Sequence[int], steps: Sequence[int]) -> tuple[Defines, list[int]]:
    """Loops over dims, the innermost first, each with its size and its step, of which the axis has
    none: a kernel divides twice for each."""
    dims = [(n, 0 if d == axis else steps[d]) for d, n in enumerate(shape) if n != 1][::-1]
    count = next(n for n in (1, 2, 4, 8) if n >= len(dims))
    dims += [(1, 0)] * (count - len(dims))
    return (("LOOPS", str(count)),), [number for dim in dims for number in dim]


def _gather_nd(node: Node, target: Target) -> list[Launch]:
    x, indices, y = _picked(node)
    first = int(node.params["batch_dims"])
    depth = indices.shape[-1]
    sizes = x.shape[first : first + depth]
    defines, units = _moved(x, indices, math.prod(x.shape[first + depth :]))
    picks = math.prod(indices.shape[first:-1])
    total = math.prod(indices.shape[:-1]) * units
    grid = over(total, target)
    args: list[Value | int] = [x, indices, y, total, depth, picks, units]
    checked, noted = noting(indices)
    args += [*sizes, *[1] * (8 - depth), first, *noted]
    return [launch("gather", "gather_nd", (*defines, *checked), args, grid)]


def _one_hot(node: Node, target: Target) -> list[Launch]:
    indices, y = node.inputs[0], node.outputs[0]
    assert indices is not None
    plain(y)
    axis = axis_of(node, len(y.shape))
    on, off = (packed(node.params[f"{n}_value"], y.dtype)[:2] for n in ("on", "off"))
    inner = math.prod(indices.shape[axis:])
    defines, _ = _moved(y, indices, 1)
    depth = y.shape[axis]
    # Vectors of numbers of 64 bits would be pairs of pairs.
    neighbours = 1 if inner > 1 or y.dtype.itemsize > 4 else math.gcd(depth, 4)
    defines = (*defines, ("NEIGHBOURS", str(neighbours)), ("ROW", f"{defines[1][1]}{neighbours}"))
    grid = over(y.size // neighbours, target)
    args = (indices, y, y.size, depth, inner, *on, *off)
    return [launch("gather", "one_hot", defines, args, grid)]


def _claimed(
    kind: str,
    given: tuple[Value, Value, Value],
    units: int,
    places: int,
    sizes: tuple[tuple[Value | int, ...], tuple[Value | int, ...]],
    target: Target,
    more: Defines = (),
) -> list[Launch]:
    """Updates that replace what is there, whose places have numbers: the last one stays.

    Args:
        given: indices, updates and output.
        units: neighbours that stay together.
        sizes: arguments of the kernel that claims places, and of that which writes to them. The
            first one is the number of work items.
    """
    indices, updates, y = given
    claims = target.temporary((places,), np.int32, f"{y.name}.claims")
    index: Defines = (("INDEX", index_type(indices)), *more)
    defines = (("TYPE", _moved(updates, indices, units)[0][1][1]), *index)
    checked, noted = noting(indices)
    (first, *_), (last, *_) = sizes
    assert isinstance(first, int)
    assert isinstance(last, int)
    claim, write = (*index, *checked), f"write_{kind}"
    return [
        launch("scatter", "unclaimed", index, (claims, places), over(places, target)),
        launch("scatter", f"claim_{kind}", claim, (indices, claims, *sizes[0], *noted),
               over(first, target)),
        replace(launch("scatter", write, defines, (indices, claims, updates, y, *sizes[1]),
                       over(last, target)), reads_back=True),
    ]  # fmt: skip


def _scattered(
    node: Node, target: Target
) -> tuple[Value, Value, Value, Value, Defines, list[Launch]]:
    """Input, indices, updates and output; the kernel's defines; and the launches before it."""
    x, indices, updates, y = node.inputs[0], node.inputs[1], node.inputs[2], node.outputs[0]
    assert x is not None
    assert indices is not None
    assert updates is not None
    reduction = int(node.params["reduction"])
    if reduction == 0:  # bits, so that a NaN stays what it is
        moved(x, updates, y)
        bits = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong"}[x.dtype.itemsize]
        types: Defines = (("TYPE", bits),)
    else:
        types = number(x)
    defines = (
        *types,
        ("INDEX", index_type(indices)),
        ("COMBINE(a, b)", _COMBINE[reduction]),
        *noting(indices)[0],
    )
    return x, indices, updates, y, defines, copies(x, y, [(x.size, 1, 1)], target)


def _scatter_elements(node: Node, target: Target) -> list[Launch]:
    x, indices, updates, y, defines, before = _scattered(node, target)
    axis = axis_of(node, len(x.shape))
    s, t = strides(indices.shape), strides(x.shape)
    count = indices.shape[axis]
    replaces = int(node.params["reduction"]) == 0
    if replaces and simt(target) and count > _IN_TURN and y.size <= _MOST_CLAIMS:
        loops, dims = _beside(axis, indices.shape, t)
        sizes = (indices.size, x.shape[axis], t[axis], axis, *dims)
        both = (sizes, sizes)
        given = (indices, updates, y)
        return [*before, *_claimed("elements", given, 1, y.size, both, target, loops)]
    total = indices.size // max(count, 1)
    args: list[Value | int] = [indices, updates, y, total, x.shape[axis], count, s[axis], t[axis]]
    args.append(axis)
    others = [d for d in reversed(range(len(x.shape))) if d != axis]
    for d in others:
        args += [indices.shape[d], s[d], t[d]]
    args += [*[1, 0, 0] * (7 - len(others)), *noting(indices)[1]]
    grid = over(total, target)
    made = launch("scatter", "scatter_elements", defines, args, grid)
    return [*before, replace(made, reads_back=True)]


def _scatter_nd(node: Node, target: Target) -> list[Launch]:
    x, indices, updates, y, defines, before = _scattered(node, target)
    depth = indices.shape[-1]
    picks = math.prod(indices.shape[:-1])
    chunk = math.prod(x.shape[depth:])
    slices = math.prod(x.shape[:depth])
    replaces = int(node.params["reduction"]) == 0
    if replaces and simt(target) and picks > _IN_TURN and slices <= _MOST_CLAIMS:
        units = _moved(updates, indices, chunk)[1]
        dims = (depth, *x.shape[:depth], *[1] * (8 - depth))
        both = ((picks, 1, *dims), (picks * units, units, *dims))
        return [*before, *_claimed("slices", (indices, updates, y), chunk, slices, both, target)]
    lanes = picks if simt(target) and picks <= _MOST_PAIRS else 1
    total = chunk * lanes
    grid = over(total, target)
    args: list[Value | int] = [indices, updates, y, total, chunk, lanes, picks, depth]
    args += [*x.shape[:depth], *[1] * (8 - depth), *noting(indices)[1]]
    return [*before, replace(launch("scatter", "scatter_nd", defines, args, grid), reads_back=True)]


OPS: Final = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherNd": _gather_nd,
    "OneHot": _one_hot,
    "ScatterElements": _scatter_elements,
    "ScatterNd": _scatter_nd,
}
MOVES_INTEGERS: Final = frozenset({"Gather", "GatherElements", "GatherNd"})
