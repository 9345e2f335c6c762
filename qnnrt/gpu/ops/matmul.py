"""Products of matrices."""

from __future__ import annotations

from typing import Final

from ..ir import Launch, Node
from ..target import Target
from .common import given
from .gemm import launches
from .matrices import matrices
from .product import Product

#: Kernels of these do ``Node.post``.
TAKES_POST: Final = frozenset({"FullyConnected", "MatMul"})


def _matmul(node: Node, target: Target) -> list[Launch]:
    return launches(matrices(node), target)


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
