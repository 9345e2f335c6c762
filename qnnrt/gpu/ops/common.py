"""What families of operations share: checks and index expressions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..ir import Node, Value

__all__ = ["Refused", "at", "floats", "given"]

_F32 = np.dtype(np.float32)


class Refused(Exception):
    """There is no kernel for a node; the text says for what of it."""


def given(node: Node, index: int) -> Value | None:
    """Input ``index``; None where it was left out."""
    return node.inputs[index] if index < len(node.inputs) else None


def floats(node: Node) -> None:
    """Raises ``Refused`` unless all tensors are 32-bit floats."""
    for value in (*node.inputs, *node.outputs):
        if value is not None and value.dtype != _F32:
            raise Refused(f"tensor {value.name!r} is {value.dtype}, kernels are for float32")


def at(shape: Sequence[int], out: Sequence[int]) -> str:
    """Where element ``i`` of ``out`` is in a tensor of a shape that broadcasts to it, as C."""
    shape = (1,) * (len(out) - len(shape)) + tuple(shape)
    if math.prod(shape) == 1:
        return "0"
    if tuple(shape) == tuple(out):
        return "(i)"
    terms = []
    step = inner = 1
    for size, full in zip(reversed(shape), reversed(out), strict=True):
        if size > 1:
            terms.append(f"(i) / {inner} % {full} * {step}")
        step *= size
        inner *= full
    return f"({' + '.join(terms)})"
