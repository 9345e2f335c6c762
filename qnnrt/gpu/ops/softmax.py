"""Softmax and its logarithm."""

from __future__ import annotations

import math
from typing import Final

from ..ir import Launch, Node
from ..target import Target
from .common import reals


def _softmax(node: Node, target: Target) -> list[Launch]:
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    axis = int(node.params.get("axis", len(x.shape) - 1))
    n = x.shape[axis]
    step = math.prod(x.shape[axis + 1 :])
    defines = reals(x, y) + ((("LOG", "1"),) if node.type == "LogSoftmax" else ())
    beta = float(node.params.get("beta", 1.0))
    return [Launch("softmax", "softmax", defines, (x.size // n,), (x, y, n, step, beta))]


OPS: Final = {"LogSoftmax": _softmax, "Softmax": _softmax}
