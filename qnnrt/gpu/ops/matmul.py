"""Products of matrices."""

from __future__ import annotations

import math
from typing import Final

from ..ir import Launch, Node
from ..target import Target
from .common import Refused, at, given
from .gemm import launches
from .product import Product

#: Kernels of these do ``Node.post``.
TAKES_POST: Final = frozenset({"FullyConnected", "MatMul"})


def _index(shape: tuple[int, ...], batch: tuple[int, ...]) -> str:
    """Which matrix of a tensor of matrices product ``(p)`` takes, as C.

    A single matrix is of no concern here: it has a step of 0.
    """
    return "(p)" if math.prod(shape) == 1 else at(shape, batch).replace("(i)", "(p)")


def _matmul(node: Node, target: Target) -> list[Launch]:
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
    matrices = math.prod(a.shape[:-2]), math.prod(b.shape[:-2])
    if matrices == (count, 1) and not a_turned:  # the matrices of a are just more rows of one
        rows, batch, count, matrices = rows * count, (), 1, (1, 1)
    return launches(
        Product(
            node,
            a,
            b,
            bias,
            y,
            count=count,
            rows=rows,
            columns=columns,
            depth=depth,
            a_matrix=rows * depth if matrices[0] > 1 else 0,
            a_row=1 if a_turned else depth,
            a_step=rows if a_turned else 1,
            b_count=matrices[1],
            b_matrix=depth * columns if matrices[1] > 1 else 0,
            b_step=1 if b_turned else columns,
            b_column=depth if b_turned else 1,
            y_matrix=rows * columns,
            y_row=columns,
            a_index=_index(a.shape[:-2] if matrices[0] > 1 else (), batch),
            b_index=_index(b.shape[:-2], batch),
        ),
        target,
    )


def _fully_connected(node: Node, target: Target) -> list[Launch]:
    a, b, bias, y = node.inputs[0], node.inputs[1], given(node, 2), node.outputs[0]
    assert a is not None
    assert b is not None
    columns, depth = b.shape
    rows = y.size // columns
    return launches(
        Product(
            node,
            a,
            b,
            bias,
            y,
            count=1,
            rows=rows,
            columns=columns,
            depth=depth,
            a_matrix=0,
            a_row=depth,
            a_step=1,
            b_count=1,
            b_matrix=0,
            b_step=1,
            b_column=depth,
            y_matrix=0,
            y_row=columns,
        ),
        target,
    )


OPS: Final = {"FullyConnected": _fully_connected, "MatMul": _matmul}
