"""Arithmetic, comparisons, activations, and conversions between types."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from qnnrt.dtypes import is_float
from qnnrt.model import Node

from .registry import OPS, flag, integer, number, op

Unary = Callable[[np.ndarray], np.ndarray]
Binary = Callable[[np.ndarray, np.ndarray], np.ndarray]

_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Integers towards zero."""
    if is_float(a.dtype):
        return np.asarray(a / b)
    quotient = a // b
    return (quotient + ((quotient < 0) & (quotient * b != a))).astype(a.dtype)


#: By ElementWiseUnary's numbers; all but Reciprocal are ops of their own, named ElementWise*.
UNARY: dict[str, Unary] = {
    "Abs": np.abs, "Asin": np.arcsin, "Atan": np.arctan, "Ceil": np.ceil, "Cos": np.cos,
    "Exp": np.exp, "Floor": np.floor, "Log": np.log, "Neg": np.negative, "Not": np.logical_not,
    "Reciprocal": lambda x: 1 / x, "Round": np.rint, "Rsqrt": lambda x: 1 / np.sqrt(x),
    "Sign": np.sign, "Sin": np.sin, "SquareRoot": np.sqrt,
}  # fmt: skip
#: By ElementWiseBinary's numbers; all but Fmod are ops of their own, named ElementWise*.
BINARY: dict[str, Binary] = {
    "Add": np.add, "And": np.bitwise_and, "Divide": _divide, "Equal": np.equal,
    "FloorDiv": np.floor_divide, "Fmod": np.fmod, "Greater": np.greater,
    "GreaterEqual": np.greater_equal, "Less": np.less, "LessEqual": np.less_equal,
    "Maximum": np.maximum, "Minimum": np.minimum, "Mod": np.mod, "Multiply": np.multiply,
    "NotEqual": np.not_equal, "Or": np.bitwise_or, "Power": np.power,
    "SquaredDifference": lambda a, b: (a - b) * (a - b), "Subtract": np.subtract,
    "Xor": np.bitwise_xor,
}  # fmt: skip
COMPARE = ("Equal", "Greater", "GreaterEqual", "Less", "LessEqual", "NotEqual")
ARITHMETIC = tuple(name for name in BINARY if name not in (*COMPARE, "And", "Or", "Xor"))
UNARY_OPS = tuple(name for name in UNARY if name not in ("Not", "Reciprocal"))  # of numbers
#: `operation` of ElementWiseUnary and ElementWiseBinary.
NUMBER = {name: i for table in (UNARY, BINARY) for i, name in enumerate(table)}

_UNARY, _BINARY = [*UNARY.values()], [*BINARY.values()]
OPS |= {f"ElementWise{name}": lambda n, x, fn=fn: fn(x) for name, fn in UNARY.items()}
OPS |= {f"ElementWise{name}": lambda n, a, b, fn=fn: fn(a, b) for name, fn in BINARY.items()}


@op("ElementWiseUnary")
def unary(n: Node, x: np.ndarray) -> np.ndarray:
    return _UNARY[integer(n, "operation")](x)


@op("ElementWiseBinary")
def binary(n: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _BINARY[integer(n, "operation")](a, b)


def _limited(n: Node, x: np.ndarray) -> np.ndarray:
    return np.clip(x, number(n, "min_value", -math.inf), number(n, "max_value", math.inf))


def _softplus(n: Node, x: np.ndarray) -> np.ndarray:
    beta = number(n, "beta", 1)
    return np.where(
        beta * x > number(n, "threshold", math.inf), x, np.logaddexp(0, beta * x) / beta
    )


Activation = Callable[[Node, np.ndarray], np.ndarray]
_ACTIVATIONS: dict[str, Activation] = {
    "Relu": lambda n, x: np.maximum(x, 0),
    "Relu1": lambda n, x: np.clip(x, -1, 1),
    "Relu6": lambda n, x: np.clip(x, 0, 6),
    "ReluMinMax": _limited,
    "Sigmoid": lambda n, x: np.exp(np.minimum(x, 0)) / (1 + np.exp(-abs(x))),
    "Tanh": lambda n, x: np.tanh(x),
    "Elu": lambda n, x: np.where(x > 0, x, number(n, "alpha", 1) * np.expm1(np.minimum(x, 0))),
    "Gelu": lambda n, x: x * 0.5 * _erfc(-x / math.sqrt(2)),
    "HardSwish": lambda n, x: x * np.clip(x + 3, 0, 6) / 6,
    "HardSigmoid": lambda n, x: np.clip(number(n, "alpha", 1) * x + number(n, "beta", 0.5), 0, 1),
    "Softplus": _softplus,
}
#: By ElementWiseNeuron's numbers.
_NEURON = ("Elu", "Gelu", "HardSigmoid", "HardSwish", "Relu", "ReluMinMax", "Sigmoid", "Softplus",
           "Tanh")  # fmt: skip
OPS |= {k: v for k, v in _ACTIVATIONS.items() if k not in ("HardSigmoid", "Softplus")}


@op("ElementWiseNeuron")
def neuron(n: Node, x: np.ndarray) -> np.ndarray:
    return _ACTIVATIONS[_NEURON[integer(n, "operation")]](n, x)


OPS |= {
    "Prelu": lambda n, x, slope: np.where(x > 0, x, x * slope),
    "Logit": lambda n, x: np.log(x / (1 - x)),
    "ElementWiseSelect": lambda n, condition, a, b: np.where(condition, a, b),
    "IsNan": lambda n, x: np.isnan(x),
    "IsInf": lambda n, x: (
        (np.isposinf(x) & flag(n, "detect_positive", True))
        | (np.isneginf(x) & flag(n, "detect_negative", True))
    ),
    # The type of the output says to what: `cast`.
    **dict.fromkeys(("Cast", "Convert", "Dequantize", "Quantize"), lambda n, x: x),
}


def cast(x: np.ndarray, to: Any) -> np.ndarray:
    """Truncated and clamped from float to integer, NaN to 0; numpy's rule for the rest."""
    to = np.dtype(to)
    if not is_float(x.dtype) or to.kind not in "iu":
        return x.astype(to)
    info, x = np.iinfo(to), np.trunc(x.astype(np.float64))
    low, high = x <= float(info.min), x >= float(info.max)
    y = np.where(low | high | np.isnan(x), 0, x).astype(to)
    return np.where(low, to.type(info.min), np.where(high, to.type(info.max), y))
