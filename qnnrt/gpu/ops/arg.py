"""Where the largest and smallest numbers are."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from ..ir import Launch, Node
from ..target import Target
from .common import Defines
from .sizes import axis_of, index_type, launch, number, over, simt

_GROUP: Final = 256  # as in arg.cl
_COLUMNS: Final = 32
_SHARED_FROM: Final = 32
#: Sizes of rows in which every pair of elements may be compared.
_MOST_PAIRS: Final = 8192


def _better(largest: bool) -> Defines:
    return (("BETTER(a, b)", f"((a) {'>' if largest else '<'} (b))"),)


def _arg(node: Node, target: Target) -> list[Launch]:
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    axis = axis_of(node, len(x.shape))
    n, step = x.shape[axis], math.prod(x.shape[axis + 1 :])
    lines = x.size // n
    defines = (*number(x), *_better(node.type == "Argmax"), ("INDEX", index_type(y)))
    if simt(target) and n >= _SHARED_FROM:
        columns = _COLUMNS if step > 1 and lines >= _COLUMNS else 1
        grid = ((-(-lines // columns) * _GROUP,), (_GROUP,))
        return [launch("arg", "arg_group", defines, (x, y, lines, n, step, columns), grid)]
    return [launch("arg", "arg", defines, (x, y, lines, n, step), over(lines, target))]


def _top_k(node: Node, target: Target) -> list[Launch]:
    x, (values, indices) = node.inputs[0], node.outputs
    assert x is not None
    n, k = x.shape[-1], int(node.params["k"])
    if k == 0:
        return []
    largest = bool(node.params["largest"])
    defines = (*number(x), *_better(largest), ("INDEX", index_type(indices)))
    pairs = simt(target) and n <= _MOST_PAIRS
    total = x.size if pairs else x.size // n
    args = (x, values, indices, total, n, k)
    grid = over(total, target)
    if pairs:
        return [launch("arg", "top", defines, args, grid)]
    return [replace(launch("arg", "top_row", defines, args, grid), reads_back=True)]


OPS: Final = {"Argmax": _arg, "Argmin": _arg, "TopK": _top_k}
