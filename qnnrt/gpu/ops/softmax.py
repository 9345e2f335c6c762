"""Softmax and its logarithm."""

from __future__ import annotations

import math
from typing import Final

from ..ir import Launch, Node
from ..target import Target
from .common import reals
from .sizes import axis_of, launch, over, simt

_GROUP: Final = 256  # the most in softmax.cl
_COLUMNS: Final = 32
#: Elements of a row from which on a work group shares them.
_SHARED_FROM: Final = 32


def _softmax(node: Node, target: Target) -> list[Launch]:
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    axis = axis_of(node, len(x.shape))
    n, step = x.shape[axis], math.prod(x.shape[axis + 1 :])
    rows = x.size // max(n, 1)
    defines = reals(x, y) + ((("LOG", "1"),) if node.type == "LogSoftmax" else ())
    beta = float(node.params["beta"])
    if simt(target) and n >= _SHARED_FROM:
        columns = _COLUMNS if step > 1 and rows >= _COLUMNS else 1
        group = _GROUP if columns > 1 else _group(n)
        grid = ((-(-rows // columns) * group,), (group,))
        return [
            launch("softmax", "softmax_group", defines, (x, y, rows, n, step, beta, columns), grid)
        ]
    args = (x, y, rows, n, step, beta)
    return [launch("softmax", "softmax", defines, args, over(rows, target))]


def _group(n: int) -> int:
    """Work items for a row: no more than it has elements."""
    return next(g for g in (64, 128, 256) if g >= min(n, _GROUP))


OPS: Final = {"LogSoftmax": _softmax, "Softmax": _softmax}
