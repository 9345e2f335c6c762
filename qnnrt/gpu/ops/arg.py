"""Where the largest and smallest numbers are."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from ..ir import Launch, Node, Value
from ..target import Target
from .common import Defines
from .shares import shared
from .sizes import axis_of, index_type, launch, number, over, simt

#: Sizes of rows in which every pair of elements may be compared.
_MOST_PAIRS: Final = 8192
#: TopK: the best for which rows are searched from registers, elements of a row that a work item
#: can have in these, and those that it has at least where lanes share a row.
_FEW: Final = 16
_HELD: Final = 32
_AT_ONCE: Final = 4
#: TopK: rows in which they are compared at once; elements of a part, and of those for each best.
_SHORT: Final = 256
_CHUNK: Final = 32
_FEWER: Final = 8


def _better(largest: bool) -> Defines:
    return (("BETTER(a, b)", f"((a) {'>' if largest else '<'} (b))"),)


def _arg(node: Node, target: Target) -> list[Launch]:
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    axis = axis_of(node, len(x.shape))
    n, step = x.shape[axis], math.prod(x.shape[axis + 1 :])
    lines = x.size // n
    defines = (*number(x), *_better(node.type == "Argmax"), ("INDEX", index_type(y)))
    shares = shared(lines, n, step, target)
    args = (lines, n, step, shares.chunk)
    if shares.parts == 1:
        every = (*defines, *shares.defines)
        return [launch("arg", "arg", every, (x, y, *args), shares.grid)]
    dtype = np.dtype(np.float32) if x.dtype.kind == "f" else x.dtype
    bests = target.temporary((shares.parts, lines), dtype, f"{node.name}.bests")
    places = target.temporary((shares.parts, lines), np.int32, f"{node.name}.places")
    every = (*defines, *shares.defines, ("PARTIAL", "1"))
    joined = shared(lines, shares.parts, lines, target, whole=True)
    return [
        launch("arg", "arg", every, (x, bests, places, *args), shares.grid),
        launch(
            "arg",
            "arg_of_parts",
            (*defines, *joined.defines),
            (bests, places, y, lines, shares.parts),
            joined.grid,
        ),
    ]


def _top_k(node: Node, target: Target) -> list[Launch]:
    x, (values, indices) = node.inputs[0], node.outputs
    assert x is not None
    n, k = x.shape[-1], int(node.params["k"])
    if k == 0:
        return []
    rows = x.size // n
    defines = (*number(x), *_better(bool(node.params["largest"])))
    held = shared(rows, n, 1, target, at_once=_AT_ONCE if n > 4 * _AT_ONCE else 1)
    each = -(-n // held.lanes)
    if simt(target) and k <= _FEW and each <= _HELD:
        count = 1 << (each - 1).bit_length()  # few programs
        every = (*defines, *held.defines, ("INDEX", index_type(indices)), ("HELD", str(count)))
        return [launch("arg", "top_held", every, (x, values, indices, rows, n, k), held.grid)]
    found: list[Launch] = []
    given: tuple[Value, ...] = (x,)
    chunk = max(_CHUNK, _FEWER * k)
    while simt(target) and n > _SHORT and n >= 2 * chunk:  # the k best of each part, of these...
        parts = -(-n // chunk)
        bests = target.temporary((rows, parts * k), x.dtype, f"{node.name}.bests")
        places = target.temporary((rows, parts * k), np.int32, f"{node.name}.places")
        every = (*defines, ("INDEX", "int"), *_places(given))
        args: tuple[Value | int, ...] = (*given, bests, places, rows * parts, n, k, parts, chunk)
        found.append(launch("arg", "top_row", every, args, over(rows * parts, target)))
        given, n = (bests, places), parts * k
    every = (*defines, ("INDEX", index_type(indices)), *_places(given))
    if simt(target) and n <= _MOST_PAIRS:
        args = (*given, values, indices, rows * n, n, k)
        return [*found, launch("arg", "top", every, args, over(rows * n, target))]
    args = (*given, values, indices, rows, n, k, 1, n)
    last = launch("arg", "top_row", every, args, over(rows, target))
    return [*found, replace(last, reads_back=True)]


def _places(given: tuple[Value, ...]) -> Defines:
    return (("PLACES", "1"),) if len(given) > 1 else ()


OPS: Final = {"Argmax": _arg, "Argmin": _arg, "TopK": _top_k}
