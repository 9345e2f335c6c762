"""What operations on single elements compute, in C. Functions are those of functions.cl."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ..._native.op_table import bounds, choices, op_table
from ..ir import Node, Value
from .common import Refused

__all__ = [
    "ELEMENTWISE",
    "FLOATS",
    "ROUNDED_AS",
    "Formula",
    "formula",
    "is_fixed",
    "is_real",
    "literal",
    "narrows_doubles",
]


def _operations(op: str) -> tuple[str, ...]:
    """What an op with a param `operation` may compute, by the names of ops that do only that."""
    names = (name.title().replace("_", "") for name in choices(op, "operation"))
    return tuple("SquareRoot" if name == "Sqrt" else name for name in names)


#: Ops with a param `operation` -> the operations in its order.
_OPERATIONS: Final = {
    f"ElementWise{kind}": _operations(f"ElementWise{kind}")
    for kind in ("Binary", "Unary", "Neuron")
}

_COMPARE: Final = {
    "Equal": "({0} == {1})",
    "NotEqual": "({0} != {1})",
    "Greater": "({0} > {1})",
    "GreaterEqual": "({0} >= {1})",
    "Less": "({0} < {1})",
    "LessEqual": "({0} <= {1})",
}
_FLOAT: Final = {
    **_COMPARE,
    "Add": "({0} + {1})",
    "Subtract": "({0} - {1})",
    "Multiply": "({0} * {1})",
    "Divide": "({0} / {1})",
    "FloorDiv": "floor_div({0}, {1})",
    "Fmod": "fmod({0}, {1})",
    "Mod": "mod({0}, {1})",
    "Maximum": "maximum({0}, {1})",
    "Minimum": "minimum({0}, {1})",
    "Power": "power({0}, {1})",
    "SquaredDifference": "squared({0} - {1})",
    "Prelu": "prelu({0}, {1})",
    "Select": "({0} ? {1} : {2})",
    "Abs": "fabs({0})",
    "Asin": "asin({0})",
    "Atan": "atan({0})",
    "Ceil": "ceil({0})",
    "Cos": "cos({0})",
    "Exp": "exp({0})",
    "Floor": "floor({0})",
    "Log": "log({0})",
    "Neg": "(-{0})",
    "Reciprocal": "(1.0f / {0})",
    "Round": "rint({0})",
    "Rsqrt": "(1.0f / sqrt({0}))",
    "Sign": "sign_of({0})",
    "Sin": "sin({0})",
    "SquareRoot": "sqrt({0})",
    "Elu": "elu({0}, {alpha})",
    "Gelu": "gelu({0})",
    "HardSigmoid": "hard_sigmoid({0}, {alpha}, {beta})",
    "HardSwish": "hard_swish({0})",
    "Relu": "relu({0})",
    "ReluMinMax": "bounded({0}, {min_value}, {max_value})",
    "Sigmoid": "sigmoid({0})",
    "Softplus": "softplus({0}, {beta}, {threshold})",
    "Tanh": "tanh({0})",
    "IsNan": "({0} != {0})",
    "Logit": "logit({0})",
    "Erf": "error_function({0})",
    "GeluTanh": "gelu_tanh({0})",
    "Mish": "mish({0})",
    "Swish": "swish({0}, {alpha})",
}
#: {t} is the type that they are computed in, {u} its unsigned sibling.
_INTEGER: Final = {
    **_COMPARE,
    "Add": "({t})(({u}){0} + ({u}){1})",
    "Subtract": "({t})(({u}){0} - ({u}){1})",
    "Multiply": "({t})(({u}){0} * ({u}){1})",
    "Divide": "{t}_divide({0}, {1})",
    "FloorDiv": "{t}_floor_div({0}, {1})",
    "Fmod": "{t}_fmod({0}, {1})",
    "Mod": "{t}_mod({0}, {1})",
    "Maximum": "max({0}, {1})",
    "Minimum": "min({0}, {1})",
    "Power": "{t}_power({0}, {1})",
    "SquaredDifference": "{t}_squared_difference({0}, {1})",
    "Select": "({0} ? {1} : {2})",
    "Abs": "({t})abs({0})",
    "Neg": "({t})(({u})0 - ({u}){0})",
    "Relu": "max({0}, ({t})0)",
    "Sign": "(({0} > 0) - ({0} < 0))",
    "And": "({0} & {1})",
    "Or": "({0} | {1})",
    "Xor": "({0} ^ {1})",
}
_BOOL: Final = {
    "And": "({0} && {1})",
    "Or": "({0} || {1})",
    "Xor": "(!{0} != !{1})",
    "NotEqual": "(!{0} != !{1})",
    "Equal": "(!{0} == !{1})",
    "Not": "(!{0})",
    "Select": "({0} ? {1} : {2})",
}
#: Ops that QNN has not and the runtime's passes make -> the operation.
_FOUND: Final = {"ElementWiseErf": "Erf", "GeluTanh": "GeluTanh", "Mish": "Mish", "Swish": "Swish"}
_CONVERSIONS: Final = ("Cast", "Convert", "Dequantize", "Quantize")

#: Op types -> the operation, "" where a parameter says which.
ELEMENTWISE: Final = {
    **{op: "ReluMinMax" for op, record in op_table().items() if record["clamps"]},
    **dict.fromkeys(_OPERATIONS, ""),
    **{
        op: name
        for names in _OPERATIONS.values()
        for name in names
        for op in (name, f"ElementWise{name}")
        if op in op_table()
    },
    "ElementWiseSelect": "Select",
    **{name: name for name in ("IsInf", "IsNan", "Logit", "Prelu")},
    **{name: name for name in _CONVERSIONS},
    **_FOUND,
}
#: Those that may give floats: Quantize, too, with ``ROUNDED_AS``.
FLOATS: Final = frozenset(
    op
    for op in ELEMENTWISE
    if op == "Quantize"
    or op in _FOUND
    or any(t.startswith("FLOAT") for t in op_table()[op]["outputs"][0]["types"])
)
#: Param of a Quantize that a pass has made: its result are the real numbers, as floats, of what
#: would be stored in this fixed-point value.
ROUNDED_AS: Final = "rounded_as"


@dataclass(frozen=True)
class Formula:
    """Of one element of the result.

    Attributes:
        text: in C, with {0}, {1}... for the operands' elements.
        integer: type that integers are computed in: "int", "uint", "long" or "ulong".
    """

    text: str
    integer: str = "int"

    def of(self, *operands: str) -> str:
        """The text for operands of these names."""
        return self.text.format(*operands)


def is_fixed(value: Value) -> bool:
    """Whether its integers are fixed-point numbers."""
    return value.code >> 8 in (3, 4)


def is_real(value: Value) -> bool:
    """Whether kernels compute with it in 32-bit floats."""
    return value.dtype.name in ("float16", "float32")


def narrows_doubles(node: Node) -> bool:
    """Whether doubles are read as 32-bit floats: of one number, and powers."""
    one = len(node.inputs) == 1 and ELEMENTWISE[node.type] not in _CONVERSIONS
    return one or node.type == "ElementWisePower"


def literal(value: Any) -> str:
    """A 32-bit float in C."""
    number = np.float32(value)
    if np.isnan(number):
        return "NAN"
    if np.isinf(number):
        return "INFINITY" if number > 0 else "(-INFINITY)"
    text = str(number)
    text = text if "." in text or "e" in text else f"{text}.0"
    return f"({text}f)" if text.startswith("-") else f"{text}f"


def formula(node: Node) -> Formula:
    """What a node of `ELEMENTWISE` computes.

    Raises:
        Refused: not with these types.
    """
    name = ELEMENTWISE[node.type]
    if name in _CONVERSIONS:
        return Formula(_conversion(node))
    if not name:
        name = _OPERATIONS[node.type][int(node.params["operation"])]
    x = node.inputs[1 if name == "Select" else 0]
    assert x is not None
    _refuse_fixed(node)
    if name == "IsInf":
        return Formula(_is_inf(node))
    if is_real(x) or (x.dtype.name == "float64" and narrows_doubles(node)):
        return Formula(_with_params(_FLOAT, name, node))
    kind, bits = x.dtype.kind, 8 * x.dtype.itemsize
    if kind == "b" and name in _BOOL:
        return Formula(_BOOL[name])
    if kind == "f" and name == "Select":  # 64 bits that are moved
        return Formula(_INTEGER[name], "ulong")
    if kind not in "iu" or name not in _INTEGER:
        raise Refused(f"there is no kernel of {name} for {x.dtype}")
    long = "long" if bits == 64 else "int"
    t = f"u{long}" if kind == "u" else long
    text = _INTEGER[name].replace("{t}", t).replace("{u}", f"u{long}")
    return Formula(text, t)


def _refuse_fixed(node: Node) -> None:
    for value in (*node.inputs, *node.outputs):
        if value is not None and is_fixed(value):
            raise Refused(f"there is no kernel for tensor {value.name!r}, of fixed-point numbers")


def _with_params(texts: dict[str, str], name: str, node: Node) -> str:
    text = texts[name]
    given = {key: v for key, v in node.params.items() if f"{{{key}}}" in text}
    if node.type not in _FOUND and op_table()[node.type]["clamps"]:
        given["min_value"], given["max_value"] = bounds(node.type, node.params)
    if name == "Softplus" and given["threshold"] < 0:
        given["threshold"] = math.inf
    for key, value in given.items():
        text = text.replace(f"{{{key}}}", literal(value))
    return text


def _is_inf(node: Node) -> str:
    signs = {"detect_negative": "(-INFINITY)", "detect_positive": "INFINITY"}
    found = [f"{{0}} == {v}" for k, v in signs.items() if node.params[k]]
    return f"({' || '.join(found) or '0'})"


# ---- from one type to another


def _conversion(node: Node) -> str:
    """Of Cast, Convert, Quantize and Dequantize, through floats where numbers are fixed-point."""
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    if ROUNDED_AS in node.params:
        stored = node.params[ROUNDED_AS]
        return _decoded(_encoded("{0}", stored), stored)
    if node.type == "Cast" or not (is_fixed(x) or is_fixed(y)):
        return _cast(x.dtype, y.dtype)  # of fixed-point numbers the integers
    if not (is_fixed(x) or is_real(x)) or not (is_fixed(y) or is_real(y)):
        raise Refused(f"there is no kernel from {x.dtype} to {y.dtype}")
    text = _decoded("{0}", x) if is_fixed(x) else "{0}"
    return _encoded(text, y) if is_fixed(y) else text


def _decoded(text: str, value: Value) -> str:
    return f"decoded({text}, {_encoding(value)})"


def _encoded(text: str, value: Value) -> str:
    if value.dtype.itemsize > 2:
        return f"encoded_wide({text}, {_encoding(value)})"
    return f"encoded({text}, {_encoding(value)}, {_limits(value)})"


def _encoding(value: Value) -> str:
    q = value.quantization
    if q is None or q.axis is not None or q.block is not None:
        raise Refused(
            f"tensor {value.name!r}: fixed-point numbers that are no constants have one scale in "
            "kernels"
        )
    return f"{literal(q.scale)}, {int(q.offset)}"


def _limits(value: Value) -> str:
    own = int(f"{value.code & 0xFF:x}")  # 0x0308 is SFIXED_POINT_8
    bits = getattr(value.quantization, "bitwidth", None) or own
    low = -(1 << (bits - 1)) if value.dtype.kind == "i" else 0
    return f"{low}, {low + (1 << bits) - 1}"


def _cast(x: np.dtype[Any], y: np.dtype[Any]) -> str:
    """Floats become integers by truncation within the type's range, NaN becomes 0."""
    if y.kind == "b":
        return "({0} != 0)"
    if x.kind == "f" and y.kind in "iu":
        to = {1: "char", 2: "short", 4: "int", 8: "long"}[y.itemsize]
        to = f"u{to}" if y.kind == "u" else to
        return f"({{0}} == {{0}} ? convert_{to}_sat_rtz({{0}}) : 0)"
    text = "({0} != 0)" if x.kind == "b" else "{0}"
    if y.kind == "f" and x.name != "float64":
        return f"({'double' if y.name == 'float64' else 'float'}){text}"
    return text
