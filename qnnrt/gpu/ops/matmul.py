"""Products of matrices."""

from __future__ import annotations

import math
from typing import Final

from ..ir import Launch, Node, Value
from ..target import Target
from .common import Refused, at, fused, given, reals


def _scaled(expression: str, size: int) -> str:
    return f"({expression}) * {size}".replace("(i)", "(p)")


def _matmul(node: Node, target: Target) -> list[Launch]:
    a, b, bias, y = node.inputs[0], node.inputs[1], given(node, 2), node.outputs[0]
    assert a is not None
    assert b is not None
    if min(len(a.shape), len(b.shape)) < 2:
        raise Refused("there is no kernel for a vector")
    rows, columns = y.shape[-2:]
    a_turned = bool(node.params.get("transpose_in0", False))
    b_turned = bool(node.params.get("transpose_in1", False))
    depth = a.shape[-2 if a_turned else -1]
    batch = y.shape[:-2]
    post = fused(node)
    defines = [
        *reals(a, b, bias, y, *post.args),
        ("AT_A(p)", _scaled(at(a.shape[:-2], batch), rows * depth)),
        ("AT_B(p)", _scaled(at(b.shape[:-2], batch), depth * columns)),
    ]
    operands: list[Value] = [a, b]
    if bias is not None:
        if bias.size != columns:
            raise Refused(f"there is no kernel for a bias of shape {list(bias.shape)}")
        defines.append(("BIAS", "1"))
        operands.append(bias)
    a_steps = (1, rows) if a_turned else (depth, 1)
    b_steps = (1, depth) if b_turned else (columns, 1)
    total = (columns, rows, math.prod(batch))
    args: tuple[Value | int | float, ...] = (*operands, y, depth, *a_steps, *b_steps, *post.args)
    defines += post.defines
    return [Launch("matmul", "matmul", tuple(defines), total, args, before=post.before)]


OPS: Final = {"MatMul": _matmul}
