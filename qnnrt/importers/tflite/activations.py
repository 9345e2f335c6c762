"""Fused activations: an operation of their own here, which backends fuse again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import tflite

from .nodes import TfliteNode, Unsupported
from .options import Options
from .values import Value

if TYPE_CHECKING:
    from .lower import Lowering

_KIND = tflite.ActivationFunctionType
NONE, RELU, RELU_N1_TO_1, RELU6, TANH, SIGN_BIT = (
    int(_KIND.NONE),
    int(_KIND.RELU),
    int(_KIND.RELU_N1_TO_1),
    int(_KIND.RELU6),
    int(_KIND.TANH),
    int(_KIND.SIGN_BIT),
)
_BOUNDS: dict[int, tuple[float | None, float | None]] = {
    NONE: (None, None),
    RELU: (0, None),
    RELU_N1_TO_1: (-1, 1),
    RELU6: (0, 6),
}


def fused_of(options: Options) -> int:
    return options.integer("FusedActivationFunction")


def clip_of(options: Options) -> tuple[float | None, float | None] | None:
    """The bounds that the fused activation clips to; None when it does something else."""
    return _BOUNDS.get(fused_of(options))


def activate(c: Lowering, kind: int, x: Value, fixed_point: bool = False) -> Value:
    """`x` through an ActivationFunctionType; the bounds of fixed-point numbers are real ones."""
    if kind == NONE:
        return x
    if kind == RELU:
        return c.b.op("Relu", [x], x.shape)
    if kind == TANH:
        return c.b.op("Tanh", [x], x.shape)
    bounds = _BOUNDS.get(kind)
    if bounds is None:
        name = "SIGN_BIT" if kind == SIGN_BIT else f"number {kind}"
        raise Unsupported(f"the activation function {name}")
    low, high = bounds
    if x.dtype.kind != "f" and not fixed_point:
        low_, high_ = (Value((), x.dtype, None, np.array(v, x.dtype)) for v in (low, high))
        x = c.b.op("ElementWiseMaximum", [x, low_], x.shape)
        return c.b.op("ElementWiseMinimum", [x, high_], x.shape)
    return c.b.op("ReluMinMax", [x], x.shape, min_value=np.float32(low), max_value=np.float32(high))


def fused(c: Lowering, node: TfliteNode, x: Value) -> Value:
    """`x` through the fused activation of `node`."""
    kind = fused_of(node.options)
    if kind == TANH:
        raise Unsupported("the fused activation TANH, which TFLite's own kernels leave out")
    fixed_point = bool(node.outputs) and node.outputs[0].quantized is not None
    return activate(c, kind, x, fixed_point)
