"""Pooling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..shorthand import u32
from .activations import fused
from .common import mul, rank_is, unary, window
from .nodes import Result, TfliteNode, lowers
from .values import Value

if TYPE_CHECKING:
    from .lower import Lowering


def _pool(c: Lowering, node: TfliteNode, type_: str, x: Value) -> Value:
    o = node.options
    kernel = [o.integer("FilterHeight"), o.integer("FilterWidth")]
    stride = [o.integer("StrideH"), o.integer("StrideW")]
    found = [
        window(size, k, s, 1, o.integer("Padding"))
        for size, k, s in zip(x.shape[1:3], kernel, stride, strict=True)
    ]
    params: dict[str, Any] = {}
    if type_ == "PoolAvg2d":
        params["count_pad_for_edges"] = np.bool_(False)
    return c.b.op(
        type_,
        [x],
        [x.shape[0], *(f[0] for f in found), x.shape[3]],
        filter_size=u32(kernel),
        stride=u32(stride),
        pad_amount=u32([f[1] for f in found]),
        **params,
    )


@lowers("AVERAGE_POOL_2D", to="PoolAvg2d", options="Pool2DOptions")
def average_pool(c: Lowering, node: TfliteNode) -> Result:
    """Padding does not count."""
    x = rank_is(node.input(), 4)
    return fused(c, node, _pool(c, node, "PoolAvg2d", x))


@lowers("MAX_POOL_2D", to="PoolMax2d", options="Pool2DOptions")
def max_pool(c: Lowering, node: TfliteNode) -> Result:
    return fused(c, node, _pool(c, node, "PoolMax2d", rank_is(node.input(), 4)))


@lowers("L2_POOL_2D", to="PoolAvg2d, ElementWiseSquareRoot", options="Pool2DOptions", steps=True)
def l2_pool(c: Lowering, node: TfliteNode) -> Result:
    """The root of the mean square; padding does not count."""
    x = rank_is(node.input(), 4)
    mean = _pool(c, node, "PoolAvg2d", mul(c, x, x))
    return fused(c, node, unary(c, "ElementWiseSquareRoot", mean))
