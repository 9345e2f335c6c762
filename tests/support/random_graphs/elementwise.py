"""Blocks of functions of single elements, in the forms that they are exported in."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .net import Batch, Net, Shape, Skip, block, broadcast

#: Operators of one operand, and their first opsets.
UNARY = {
    "Abs": 7, "Asinh": 9, "Atan": 7, "Celu": 12, "Cos": 7, "Elu": 7, "Erf": 9, "Gelu": 20,
    "HardSigmoid": 7, "HardSwish": 14, "Identity": 7, "LeakyRelu": 7, "Mish": 18, "Neg": 7,
    "Relu": 7, "Selu": 7, "Sigmoid": 7, "Sin": 7, "Softplus": 7, "Softsign": 7, "Tanh": 7,
    "ThresholdedRelu": 10,
}  # fmt: skip


@block(4)
def unary(g: Net) -> str:
    op = g.choice(list(UNARY))
    if UNARY[op] > g.opset:
        raise Skip
    attrs: dict[str, Any] = {}
    if op in ("Elu", "LeakyRelu"):
        attrs["alpha"] = float(g.rng.uniform(0.01, 1.5))
    if op == "HardSigmoid":
        attrs["alpha"] = float(g.rng.uniform(0.1, 0.5))
    if op == "Gelu" and g.chance(0.5):
        attrs["approximate"] = "tanh"
    return g.op(op, [g.pick()], **attrs)


@block(2)
def clip(g: Net) -> str:
    x, low, high = g.pick(), g.choice([-1.0, 0.0, 0.0, -0.5]), g.choice([1.0, 6.0, 2.0, 0.5])
    if g.opset < 11:
        return g.op("Clip", [x], min=low, max=high)
    ends = [g.const(low) if g.chance(0.8) else "", g.const(high)]
    return g.op("Clip", [x, *(ends[:1] if ends[0] and g.chance(0.2) else ends)])


@block(2)
def positive(g: Net) -> str:
    """Functions that are not defined, or too steep, everywhere."""
    op = g.choice(["Sqrt", "Log", "Reciprocal", "Exp", "Pow"])
    x = g.op("Abs", [g.pick()])
    if op == "Exp":
        return g.op(op, [g.op("Neg", [x])])
    x = g.both("Add", x, g.number(g.choice([0.5, 1.0])))
    exponent = g.choice([2.0, 3.0, 0.5, 1.0, 0.0, -1.0, 1.5, -2.0, -0.5])
    return g.op(op, [x, g.const(exponent)] if op == "Pow" else [x])


def fits(s: Shape, t: Shape) -> bool:
    try:
        return math.prod(broadcast(s, t)) <= 6000
    except Skip:
        return False


def _other(g: Net, s: Shape) -> str:
    """A result or a constant that broadcasts with this shape."""
    found = [n for n, t in g.shapes.items() if n not in g.aside and fits(s, t)]
    if found and g.chance(0.5):
        return g.choice(found)
    t = [1 if isinstance(d, Batch) or g.chance(0.4) else d for d in s]
    return g.const(g.rng.normal(size=t[g.between(0, len(t)) :]))


@block(5)
def binary(g: Net) -> str:
    a = g.pick()
    s = g.shape(a)
    b = _other(g, s)
    op = g.choice(["Add", "Add", "Sub", "Mul", "Mul", "Div", "Max", "Min", "PRelu", "Sum", "Mean"])
    if op == "Div":
        return g.both(op, a, g.both("Add", g.op("Abs", [b]), g.number(1.0)))
    if op == "PRelu":
        if broadcast(s, g.shape(b)) != s:
            raise Skip
        return g.op(op, [a, b])
    if op in ("Sum", "Mean"):
        c = _other(g, s)
        return g.op(op, [a, b, c], broadcast(broadcast(s, g.shape(b)), g.shape(c)))
    return g.either(op, a, b)


@block()
def where(g: Net) -> str:
    if g.opset < 9:
        raise Skip
    a = g.pick()
    s = g.shape(a)
    condition = g.hidden(g.choice(["Greater", "Less"]), [a, g.const(0.0)])
    if g.chance(0.3):
        condition = g.hidden("Not", [condition])
    b = g.number(g.choice([0.0, 1.0, -1.0])) if g.chance(0.5) else g.op("Neg", [a])
    pair = [a, b] if g.chance(0.5) else [b, a]
    return g.op("Where", [condition, *pair], broadcast(s, g.shape(b)))


# ---- activations, composed


def relu6_of(g: Net, x: str) -> str:
    if g.opset < 11:
        return g.op("Clip", [x], min=0.0, max=6.0)
    return g.op("Clip", [x, g.const(0.0), g.const(6.0)])


def silu_of(g: Net, x: str) -> str:
    y = x if g.chance(0.7) else g.either("Mul", x, g.number(1.702))
    return g.either("Mul", x, g.op("Sigmoid", [y]))


def hard_swish_of(g: Net, x: str) -> str:
    y = relu6_of(g, g.either("Add", x, g.const(3.0)))
    if g.chance(0.5):
        return g.both("Div", g.either("Mul", x, y), g.const(6.0))
    return g.either("Mul", x, g.both("Div", y, g.const(6.0)))


def mish_of(g: Net, x: str) -> str:
    return g.either("Mul", x, g.op("Tanh", [g.op("Softplus", [x])]))


def gelu_of(g: Net, x: str) -> str:
    """By Erf, or by Tanh; the factors in any order."""
    if g.opset < 9:
        raise Skip
    if g.chance(0.4):
        power = g.op("Pow", [x, g.const(3.0)]) if g.chance(0.5) else None
        cube = g.either("Mul", power or g.either("Mul", x, g.op("Mul", [x, x])), g.number(0.044715))
        y = g.op("Tanh", [g.either("Mul", g.either("Add", x, cube), g.number(0.7978845608))])
    elif g.chance(0.5):
        y = g.op("Erf", [g.both("Div", x, g.number(math.sqrt(2)))])
    else:
        y = g.op("Erf", [g.either("Mul", x, g.number(math.sqrt(0.5)))])
    y = g.either("Add", y, g.number(1.0))
    form = g.between(0, 3)
    if form == 0:
        return g.either("Mul", g.either("Mul", x, y), g.number(0.5))
    if form == 1:
        return g.either("Mul", g.either("Mul", x, g.number(0.5)), y)
    if form == 2:
        return g.either("Mul", x, g.either("Mul", y, g.number(0.5)))
    return g.both("Div", g.either("Mul", x, y), g.number(2.0))


def activation_of(g: Net, x: str) -> str:
    composed = (gelu_of, hard_swish_of, mish_of, relu6_of, silu_of)
    form = g.between(0, 8)
    if form < len(composed):
        return composed[form](g, x)
    return x if form == 5 else g.op(["LeakyRelu", "Relu", "Sigmoid"][form - 6], [x])


@block(3)
def gelu(g: Net) -> str:
    return gelu_of(g, g.pick())


@block(2)
def activation(g: Net) -> str:
    return activation_of(g, g.pick())


# ---- other types


@block(2)
def quantized(g: Net) -> str:
    """Rounded to 8 bits."""
    if g.opset < 10:
        raise Skip
    kind = g.choice([np.uint8, np.int8])
    scale = g.const(g.choice([0.02, 0.05, 1 / 64]))
    zero = g.const(g.between(-8, 8) + (128 if kind == np.uint8 else 0), kind)
    codes = g.hidden("QuantizeLinear", [g.pick(), scale, zero])
    return g.op("DequantizeLinear", [codes, scale, zero])


@block()
def cast(g: Net) -> str:
    x = g.pick()
    if g.chance(0.3):
        return g.op("Cast", [x], to=1)
    wide = g.hidden("Cast", [x], to=11)
    return g.op("Cast", [g.hidden("Mul", [wide, g.const(0.5, np.float64)])], to=1)
