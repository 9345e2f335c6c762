"""Activations, softmax and normalizations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from .activations import RELU, RELU6, RELU_N1_TO_1, activate, fused
from .common import add, mul, nary, plus, rank_is, scalar_like, times, unary
from .nodes import Damaged, Result, TfliteNode, Unsupported, lowers

if TYPE_CHECKING:
    from .lower import Lowering


@lowers("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", to="Relu, ReluMinMax")
def relu(c: Lowering, node: TfliteNode) -> Result:
    x = node.input()
    if node.op == "RELU_0_TO_1":
        return c.b.op("ReluMinMax", [x], x.shape, min_value=np.float32(0), max_value=np.float32(1))
    kinds = {"RELU": RELU, "RELU6": RELU6, "RELU_N1_TO_1": RELU_N1_TO_1}
    return activate(c, kinds[node.op], x, x.quantization is not None)


@lowers("LOGISTIC", to="Sigmoid")
def logistic(c: Lowering, node: TfliteNode) -> Result:
    return unary(c, "Sigmoid", node.input())


@lowers("TANH", to="Tanh")
def tanh(c: Lowering, node: TfliteNode) -> Result:
    return unary(c, "Tanh", node.input())


@lowers("HARD_SWISH", to="HardSwish")
def hard_swish(c: Lowering, node: TfliteNode) -> Result:
    return unary(c, "HardSwish", node.input())


@lowers("ELU", to="Elu")
def elu(c: Lowering, node: TfliteNode) -> Result:
    return unary(c, "Elu", node.input(), alpha=np.float32(1))


@lowers("LEAKY_RELU", to="Prelu", options="LeakyReluOptions")
def leaky_relu(c: Lowering, node: TfliteNode) -> Result:
    x = node.input()
    alpha = scalar_like(node.options.number("Alpha"), x)
    return c.b.op("Prelu", [x, alpha], x.shape)


@lowers("PRELU", to="Prelu")
def prelu(c: Lowering, node: TfliteNode) -> Result:
    x, slopes = node.input(), node.input(1)
    if np.broadcast_shapes(x.shape, slopes.shape) != x.shape:
        raise Unsupported(f"slopes {list(slopes.shape)}, more than an input {list(x.shape)} has")
    return nary(c, "Prelu", [x, slopes])


@lowers("GELU", to="Gelu, or Tanh and elementwise", options="GeluOptions", steps=True)
def gelu(c: Lowering, node: TfliteNode) -> Result:
    x = node.input()
    if not node.options.flag("Approximate"):
        return unary(c, "Gelu", x)
    # 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
    cube = mul(c, mul(c, x, x), x)
    inner = times(c, add(c, x, times(c, cube, 0.044715)), math.sqrt(2 / math.pi))
    return mul(c, times(c, x, 0.5), plus(c, unary(c, "Tanh", inner), 1))


@lowers("SOFTMAX", to="Softmax", options="SoftmaxOptions")
def softmax(c: Lowering, node: TfliteNode) -> Result:
    x = node.input()
    beta = np.float32(node.options.number("Beta"))
    return unary(c, "Softmax", x, axis=_last(x.rank), beta=beta)


@lowers("LOG_SOFTMAX", to="LogSoftmax")
def log_softmax(c: Lowering, node: TfliteNode) -> Result:
    x = node.input()
    return unary(c, "LogSoftmax", x, axis=_last(x.rank))


@lowers("L2_NORMALIZATION", to="L2Norm", options="L2NormOptions")
def l2_normalization(c: Lowering, node: TfliteNode) -> Result:
    x = node.input()
    # The least norm, of TFLite's kernel.
    out = unary(c, "L2Norm", x, axis=_last(x.rank), epsilon=np.float32(1e-6))
    return fused(c, node, out)


@lowers("LOCAL_RESPONSE_NORMALIZATION", to="Lrn", options="LocalResponseNormalizationOptions")
def local_response_normalization(c: Lowering, node: TfliteNode) -> Result:
    x, o = rank_is(node.input(), 4), node.options
    return unary(
        c,
        "Lrn",
        x,
        alpha=np.float32(o.number("Alpha")),
        beta=np.float32(o.number("Beta")),
        bias=np.float32(o.number("Bias")),
        radius=np.int32(o.integer("Radius")),
        region=np.uint32(0),
    )


def _last(rank: int) -> np.uint32:
    if rank == 0:
        raise Damaged("a scalar has no last dimension")
    return np.uint32(rank - 1)
