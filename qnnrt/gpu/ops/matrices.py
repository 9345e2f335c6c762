"""The product that a MatMul is."""

from __future__ import annotations

import math

from ..ir import Node
from .common import Refused, at, given
from .product import Product

__all__ = ["matrices"]


def _index(shape: tuple[int, ...], batch: tuple[int, ...]) -> str:
    """Which matrix of a tensor of matrices product ``(p)`` takes, as C.

    A single matrix is of no concern here: it has a step of 0.
    """
    return "(p)" if math.prod(shape) == 1 else at(shape, batch).replace("(i)", "(p)")


def matrices(node: Node) -> Product:
    """Of a node with MatMul's inputs and params."""
    a, b, bias, y = node.inputs[0], node.inputs[1], given(node, 2), node.outputs[0]
    assert a is not None
    assert b is not None
    if min(len(a.shape), len(b.shape)) < 2:
        raise Refused("there is no kernel for a vector")
    rows, columns = y.shape[-2:]
    a_turned = bool(node.params.get("transpose_in0"))
    b_turned = bool(node.params.get("transpose_in1"))
    depth = a.shape[-2 if a_turned else -1]
    batch = y.shape[:-2]
    count = math.prod(batch)
    each = math.prod(a.shape[:-2]), math.prod(b.shape[:-2])
    if each == (count, 1) and not a_turned:  # the matrices of a are just more rows of one
        rows, batch, count, each = rows * count, (), 1, (1, 1)
    return Product(
        node,
        a,
        b,
        bias,
        y,
        count=count,
        rows=rows,
        columns=columns,
        depth=depth,
        a_matrix=rows * depth if each[0] > 1 else 0,
        a_row=1 if a_turned else depth,
        a_step=rows if a_turned else 1,
        b_count=each[1],
        b_matrix=depth * columns if each[1] > 1 else 0,
        b_step=1 if b_turned else columns,
        b_column=depth if b_turned else 1,
        y_matrix=rows * columns,
        y_row=columns,
        a_index=_index(a.shape[:-2] if each[0] > 1 else (), batch),
        b_index=_index(b.shape[:-2], batch),
    )
