"""Operations on single elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from ..ir import Launch, Node
from ..target import Target
from .common import Refused, at, fused, reals

Make: TypeAlias = Callable[[Node, Target], list[Launch]]
_BINARY: Final = {
    "Add": "(a) + (b)",
    "Subtract": "(a) - (b)",
    "Multiply": "(a) * (b)",
    "Divide": "(a) / (b)",
    "Maximum": "fmax(a, b)",
    "Minimum": "fmin(a, b)",
    "Power": "pow(a, b)",
    "SquaredDifference": "((a) - (b)) * ((a) - (b))",
}
#: QNN_OP_ELEMENT_WISE_BINARY_OPERATION_*
_BINARY_CODES: Final = {
    0: "Add",
    2: "Divide",
    10: "Maximum",
    11: "Minimum",
    13: "Multiply",
    16: "Power",
    17: "SquaredDifference",
    18: "Subtract",
}
_UNARY: Final = {
    "Relu": "fmax(a, 0.0f)",
    "Relu1": "clamp(a, -1.0f, 1.0f)",
    "Relu6": "clamp(a, 0.0f, 6.0f)",
    "Sigmoid": "1.0f / (1.0f + exp(-(a)))",
    "Tanh": "tanh(a)",
    "Gelu": "0.5f * (a) * (1.0f + erf((a) * 0.70710678f))",
    "HardSwish": "(a) * clamp((a) + 3.0f, 0.0f, 6.0f) / 6.0f",
    "ElementWiseAbs": "fabs(a)",
    "ElementWiseExp": "exp(a)",
    "ElementWiseFloor": "floor(a)",
    "ElementWiseCeil": "ceil(a)",
    "ElementWiseLog": "log(a)",
    "ElementWiseNeg": "-(a)",
    "ElementWiseRsqrt": "1.0f / sqrt(a)",
    "ElementWiseSin": "sin(a)",
    "ElementWiseCos": "cos(a)",
    "ElementWiseSquareRoot": "sqrt(a)",
}
#: QNN_OP_ELEMENT_WISE_NEURON_OPERATION_* that take no parameters
_NEURON_CODES: Final = {1: "Gelu", 3: "HardSwish", 4: "Relu", 6: "Sigmoid", 8: "Tanh"}


def _unary(node: Node, text: str) -> list[Launch]:
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    post = fused(node)
    defines = (*reals(x, y, *post.args), ("F(a)", text), *post.defines)
    args = (x, y, *post.args)
    return [Launch("elementwise", "unary", defines, (y.size,), args, before=post.before)]


def _binary(node: Node, text: str) -> list[Launch]:
    a, b, y = node.inputs[0], node.inputs[1], node.outputs[0]
    assert a is not None
    assert b is not None
    post = fused(node)
    defines = (
        *reals(a, b, y, *post.args),
        ("F(a, b)", text),
        ("AT_A(i)", at(a.shape, y.shape)),
        ("AT_B(i)", at(b.shape, y.shape)),
        *post.defines,
    )
    args = (a, b, y, *post.args)
    return [Launch("elementwise", "binary", defines, (y.size,), args, before=post.before)]


def _by_operation(node: Node, target: Target) -> list[Launch]:
    code = int(node.params.get("operation", 0))
    if node.type == "ElementWiseBinary":
        if code in _BINARY_CODES:
            return _binary(node, _BINARY[_BINARY_CODES[code]])
    elif code in _NEURON_CODES:
        return _unary(node, _UNARY[_NEURON_CODES[code]])
    raise Refused(f"there is no kernel for operation {code}")


def _always(make: Callable[[Node, str], list[Launch]], text: str) -> Make:
    return lambda node, target: make(node, text)


OPS: Final = {
    "ElementWiseBinary": _by_operation,
    "ElementWiseNeuron": _by_operation,
    **{f"ElementWise{name}": _always(_binary, text) for name, text in _BINARY.items()},
    **{name: _always(_unary, text) for name, text in _UNARY.items()},
}
