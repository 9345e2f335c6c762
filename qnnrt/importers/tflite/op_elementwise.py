"""Arithmetic, comparison, logic and selection, element by element with broadcasting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .activations import fused
from .common import add, cast, mul, nary, plus, scalar, sub, times, unary
from .nodes import Damaged, Result, TfliteNode, Unsupported, lowers
from .values import Value

if TYPE_CHECKING:
    from .lower import Lowering

_BINARY = {
    "ADD": "ElementWiseAdd",
    "SUB": "ElementWiseSubtract",
    "MUL": "ElementWiseMultiply",
    "DIV": "ElementWiseDivide",
    "FLOOR_DIV": "ElementWiseFloorDiv",
    "FLOOR_MOD": "ElementWiseMod",
    "MAXIMUM": "ElementWiseMaximum",
    "MINIMUM": "ElementWiseMinimum",
    "POW": "ElementWisePower",
    "SQUARED_DIFFERENCE": "ElementWiseSquaredDifference",
}
_LOGIC = {
    "EQUAL": "ElementWiseEqual",
    "NOT_EQUAL": "ElementWiseNotEqual",
    "LESS": "ElementWiseLess",
    "LESS_EQUAL": "ElementWiseLessEqual",
    "GREATER": "ElementWiseGreater",
    "GREATER_EQUAL": "ElementWiseGreaterEqual",
    "LOGICAL_AND": "ElementWiseAnd",
    "LOGICAL_OR": "ElementWiseOr",
}
_UNARY = {
    "ABS": "ElementWiseAbs",
    "CEIL": "ElementWiseCeil",
    "COS": "ElementWiseCos",
    "EXP": "ElementWiseExp",
    "FLOOR": "ElementWiseFloor",
    "LOG": "ElementWiseLog",
    "LOGICAL_NOT": "ElementWiseNot",
    "NEG": "ElementWiseNeg",
    "ROUND": "ElementWiseRound",
    "RSQRT": "ElementWiseRsqrt",
    "SIGN": "ElementWiseSign",
    "SIN": "ElementWiseSin",
    "SQRT": "ElementWiseSquareRoot",
}


def _pair(node: TfliteNode) -> list[Value]:
    if len(node.inputs) != 2:
        raise Damaged(f"{len(node.inputs)} inputs instead of 2")
    a, b = node.all_inputs()
    if a.dtype != b.dtype and node.op != "POW":
        raise Damaged(f"inputs of different element types, {a.dtype.name} and {b.dtype.name}")
    return [a, b]


def _register() -> None:
    options = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions", "DIV": "DivOptions"}
    for op, type_ in _BINARY.items():

        def arithmetic(c: Lowering, node: TfliteNode, type_: str = type_) -> Result:
            values = _pair(node)
            if values[0].dtype == np.bool_:
                raise Unsupported("arithmetic on booleans")
            return fused(c, node, nary(c, type_, values))

        lowers(op, to=type_, options=options.get(op, ""))(arithmetic)
    for op, type_ in _LOGIC.items():

        def logic(c: Lowering, node: TfliteNode, type_: str = type_) -> Result:
            return nary(c, type_, _pair(node), np.dtype(np.bool_))

        lowers(op, to=type_)(logic)
    for op, type_ in _UNARY.items():

        def one(c: Lowering, node: TfliteNode, type_: str = type_) -> Result:
            return unary(c, type_, node.input())

        lowers(op, to=type_)(one)


_register()


@lowers("ADD_N", to="ElementWiseAdd", steps=True)
def add_n(c: Lowering, node: TfliteNode) -> Result:
    values = node.all_inputs()
    total = values[0]
    for value in values[1:]:
        total = add(c, total, value)
    return total if len(values) > 1 else unary(c, "Reshape", total)


@lowers("SQUARE", to="ElementWiseMultiply", steps=True)
def square(c: Lowering, node: TfliteNode) -> Result:
    x = node.input()
    return mul(c, x, x)


@lowers("ATAN2", to="ElementWiseAtan and elementwise", steps=True)
def atan2(c: Lowering, node: TfliteNode) -> Result:
    """The angle of (x, y) from atan(y / x): pi is added to, or taken from, it left of the y axis.

    At x = 0 the quotient is infinite, which atan takes; at the origin it is 0 as in C.
    """
    y, x = _pair(node)
    kind = y.dtype
    zero, pi = scalar(0, kind), scalar(np.pi, kind)
    yes = np.dtype(np.bool_)
    base = unary(c, "ElementWiseAtan", nary(c, "ElementWiseDivide", [y, x]))
    turn = nary(c, "ElementWiseSelect", [_less(c, y, zero), scalar(-np.pi, kind), pi], kind)
    left = nary(c, "ElementWiseSelect", [_less(c, x, zero), add(c, base, turn), base], kind)
    origin = nary(
        c,
        "ElementWiseAnd",
        [nary(c, "ElementWiseEqual", [v, zero], yes) for v in (x, y)],
        yes,
    )
    return nary(c, "ElementWiseSelect", [origin, zero, left], kind)


def _less(c: Lowering, a: Value, b: Value) -> Value:
    return nary(c, "ElementWiseLess", [a, b], np.dtype(np.bool_))


@lowers("SELECT", "SELECT_V2", to="ElementWiseSelect")
def select(c: Lowering, node: TfliteNode) -> Result:
    condition, a, b = node.all_inputs()
    if condition.dtype != np.bool_:
        raise Damaged(f"a condition of {condition.dtype.name}")
    if node.op == "SELECT" and condition.rank == 1 and a.rank > 1:
        # The older operator takes one condition for each entry of the first dimension.
        condition = c.b.reshape(condition, (condition.size, *(1,) * (a.rank - 1)))
    return nary(c, "ElementWiseSelect", [condition, a, b], a.dtype)


@lowers("CAST", to="Cast", options="CastOptions")
def cast_(c: Lowering, node: TfliteNode) -> Result:
    x = node.input()
    if x.dtype != node.dtype():
        return cast(c, x, node.dtype())
    # The integers as they are, whatever they stand for.
    plain = x.quantization is None and node.outputs[0].quantized is None
    return unary(c, "Reshape" if plain else "Cast", x)


@lowers("ZEROS_LIKE", to="folded into constants", steps=True)
def zeros_like(c: Lowering, node: TfliteNode) -> Result:
    x = node.input()
    c.materialize(x.size * x.dtype.itemsize, f"the result of {node.name}")
    return Value(x.shape, x.dtype, None, np.zeros(x.shape, x.dtype))


@lowers(
    "BUCKETIZE",
    to="ElementWiseGreaterEqual, Cast, ReduceSum",
    options="BucketizeOptions",
    steps=True,
)
def bucketize(c: Lowering, node: TfliteNode) -> Result:
    """The number of boundaries that are not above the element."""
    x = node.input()
    bounds = np.array(node.options.fields.get("Boundaries", ()), np.float32)
    if bounds.size == 0:
        zero = np.zeros(x.shape, np.int32)
        return Value(x.shape, zero.dtype, None, zero)
    wide = cast(c, c.b.reshape(x, (*x.shape, 1)), np.float32)
    limits = Value(bounds.shape, bounds.dtype, None, bounds)
    above = nary(c, "ElementWiseGreaterEqual", [wide, limits], np.dtype(np.bool_))
    counted = cast(c, above, np.int32)
    axes = np.array([x.rank], np.uint32)
    kept = c.b.op("ReduceSum", [counted], (*x.shape, 1), axes=axes, keep_dims=np.bool_(True))
    return c.b.reshape(kept, x.shape)


@lowers(
    "FAKE_QUANT",
    to="ElementWiseRound and elementwise",
    options="FakeQuantOptions",
)
def fake_quant(c: Lowering, node: TfliteNode) -> Result:
    """Clamped to [min, max], moved so that 0 is a step, and rounded to steps."""
    x = node.input()
    low, high = (np.float32(node.options.number(k)) for k in ("Min", "Max"))
    bits = node.options.integer("NumBits")
    if node.options.flag("NarrowRange"):
        raise Unsupported("a narrow range, which TFLite's own kernel refuses too")
    least, most = 0, (1 << bits) - 1
    if not (2 <= bits <= 16 and low < high and low <= 0 <= high):
        raise Damaged(f"{bits} bits for [{low}, {high}]")
    step = np.float32((high - low) / np.float32(most - least))
    zero = float(np.float32(least) - low / step)
    nudged = float(np.clip(np.floor(zero + 0.5), least, most))
    bottom = np.float32((np.float32(least) - np.float32(nudged)) * step)
    top = np.float32((np.float32(most) - np.float32(nudged)) * step)
    clamped = c.b.op("ReluMinMax", [x], x.shape, min_value=bottom, max_value=top)
    steps = times(c, sub(c, clamped, scalar(float(bottom), x.dtype)), float(np.float32(1) / step))
    whole = unary(c, "ElementWiseFloor", plus(c, steps, 0.5))
    return plus(c, times(c, whole, float(step)), float(bottom))


@lowers("DEQUANTIZE", to="Dequantize, Cast", note="Cast: of half precision")
def dequantize(c: Lowering, node: TfliteNode) -> Result:
    x = node.input()
    if x.quantization is not None:
        return c.b.dequantize(x, node.dtype())
    if x.dtype != np.float16:
        raise Unsupported(f"{x.dtype.name} without a scale")
    return cast(c, x, node.dtype())


@lowers("QUANTIZE", to="Quantize, Convert")
def quantize(c: Lowering, node: TfliteNode) -> Result:
    x, encoding = node.input(), node.outputs[0].encoding
    if encoding is None:
        raise Damaged("its output has no scale")
    if x.quantization is not None:
        return c.b.convert(x, encoding, node.dtype())
    if x.dtype.kind != "f":
        raise Damaged(f"{x.dtype.name} without a scale")
    return c.b.quantize(x, node.dtype(), encoding)
