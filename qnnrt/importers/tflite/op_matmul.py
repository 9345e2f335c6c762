"""Products of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .activations import fused
from .common import bias, weights
from .nodes import Damaged, Result, TfliteNode, Unsupported, lowers

if TYPE_CHECKING:
    from .lower import Lowering


@lowers("FULLY_CONNECTED", to="FullyConnected, MatMul", options="FullyConnectedOptions")
def fully_connected(c: Lowering, node: TfliteNode) -> Result:
    """[.., n] by [m, n]: rows of n elements, or, with keep_num_dims, the input's own rows."""
    x, o = node.input(), node.options
    w = weights(node, 1, x)
    if o.integer("WeightsFormat"):
        raise Unsupported("shuffled weights, which only quantized inputs take")
    if w.rank != 2:
        raise Damaged(f"weights {list(w.shape)}")
    units, inner = w.shape
    if inner == 0 or x.size % inner:
        raise Damaged(f"{x.size} elements in rows of {inner}")
    if o.flag("KeepNumDims"):
        if not x.shape or x.shape[-1] != inner:
            raise Damaged(f"{list(x.shape)} by weights {list(w.shape)}")
        shape: tuple[int, ...] = (*x.shape[:-1], units)
    else:
        shape = (x.size // inner, units)
    rows = c.b.reshape(x, (x.size // inner, inner))
    added = [c.b.reshape(v, (units,)) for v in bias(node, 2, x, w, 0, units)]
    out = c.b.op("FullyConnected", [rows, w, *added], (x.size // inner, units))
    return c.b.reshape(fused(c, node, out), shape)


@lowers("BATCH_MATMUL", to="MatMul", options="BatchMatMulOptions")
def batch_matmul(c: Lowering, node: TfliteNode) -> Result:
    a, o = node.input(), node.options
    b = weights(node, 1, a)
    if a.rank < 2 or b.rank < 2:
        raise Damaged(f"{list(a.shape)} by {list(b.shape)}")
    # adjoint: for real numbers, the transpose
    left, right = o.flag("AdjX"), o.flag("AdjY")
    rows, inner = a.shape[-2:][::-1] if left else a.shape[-2:]
    inner_b, columns = b.shape[-2:][::-1] if right else b.shape[-2:]
    if inner != inner_b:
        raise Damaged(f"{list(a.shape)} by {list(b.shape)}")
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), rows, columns)
    return c.b.op(
        "MatMul", [a, b], shape, transpose_in0=np.bool_(left), transpose_in1=np.bool_(right)
    )
