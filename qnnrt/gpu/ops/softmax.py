"""Softmax and its logarithm."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from ..ir import Launch, Node
from ..target import Target
from .common import reals
from .shares import shared
from .sizes import axis_of, launch, over, simt

#: Elements of a row that a work item can have in registers, and has at once where rows are long.
_HELD: Final = 32
_AT_ONCE: Final = 4


def _softmax(node: Node, target: Target) -> list[Launch]:
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    axis = axis_of(node, len(x.shape))
    n, step = x.shape[axis], math.prod(x.shape[axis + 1 :])
    rows = x.size // max(n, 1)
    beta = float(node.params["beta"])
    log = (("LOG", "1"),) if node.type == "LogSoftmax" else ()
    widens = x.dtype == np.float16 and y.dtype == np.float32
    floats = (*reals(x), ("WIDENS", "1")) if widens else reals(x, y)
    args: tuple[int | float, ...] = (rows, n, step, beta)
    shares = shared(rows, n, step, target)
    if shares.parts == 1 and not simt(target):
        defines = (*floats, *log)
        return [launch("softmax", "softmax", defines, (x, y, *args), over(rows, target))]
    held = shared(rows, n, step, target, at_once=_AT_ONCE if n > 4 * _AT_ONCE else 1)
    each = -(-n // held.lanes)
    if held.parts == 1 and each <= _HELD:
        count = 1 << (each - 1).bit_length()  # few programs
        defines = (*floats, *held.defines, *log, ("HELD", str(count)))
        return [launch("softmax", "softmax_held", defines, (x, y, *args), held.grid)]
    defines = (*floats, *shares.defines)
    if shares.parts == 1:
        return [launch("softmax", "softmax_group", (*defines, *log), (x, y, *args), shares.grid)]
    tops, sums = (
        target.temporary((shares.parts, rows), np.float32, f"{node.name}.{name}")
        for name in ("tops", "sums")
    )
    args = (*args, shares.chunk)
    return [
        launch("softmax", "softmax_parts", defines, (x, tops, sums, *args), shares.grid),
        launch(
            "softmax", "softmax_of_parts", (*defines, *log), (x, tops, sums, y, *args), shares.grid
        ),
    ]


WIDENS: Final = frozenset({"LogSoftmax", "Softmax"})
OPS: Final = dict.fromkeys(("LogSoftmax", "Softmax"), _softmax)
