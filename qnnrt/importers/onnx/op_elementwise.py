"""Elementwise arithmetic, comparisons, logic."""

from __future__ import annotations

import math

import numpy as np

from ...dtypes import is_float
from .common import add, cast, div, mul, nary, plus, scalar, select, sub, times, unary
from .nodes import Lowering, OnnxNode, Unsupported, lowers
from .values import Value, constant

BOOL = np.dtype(bool)

_UNARY = {
    "Asin": "ElementWiseAsin",
    "Atan": "ElementWiseAtan",
    "Ceil": "ElementWiseCeil",
    "Cos": "ElementWiseCos",
    "Exp": "ElementWiseExp",
    "Floor": "ElementWiseFloor",
    "Log": "ElementWiseLog",
    "Neg": "ElementWiseNeg",
    "Not": "ElementWiseNot",
    "Round": "ElementWiseRound",
    "Sin": "ElementWiseSin",
    "Sqrt": "ElementWiseSquareRoot",
}

_BINARY = {
    "Add": "ElementWiseAdd",
    "And": "ElementWiseAnd",
    "BitwiseAnd": "ElementWiseAnd",
    "BitwiseOr": "ElementWiseOr",
    "BitwiseXor": "ElementWiseXor",
    "Div": "ElementWiseDivide",
    "Mul": "ElementWiseMultiply",
    "Or": "ElementWiseOr",
    "Sub": "ElementWiseSubtract",
    "Xor": "ElementWiseXor",
}

_COMPARE = {
    "Equal": "ElementWiseEqual",
    "Greater": "ElementWiseGreater",
    "GreaterOrEqual": "ElementWiseGreaterEqual",
    "Less": "ElementWiseLess",
    "LessOrEqual": "ElementWiseLessEqual",
}

_VARIADIC = {
    "Max": "ElementWiseMaximum",
    "Mean": "ElementWiseAdd",
    "Min": "ElementWiseMinimum",
    "Sum": "ElementWiseAdd",
}


def lower_unary(c: Lowering, n: OnnxNode) -> Value:
    return unary(c, _UNARY[n.op], n.input(0))


@lowers("Abs", to="ElementWiseAbs")
def absolute(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    if x.dtype.kind == "u":
        return x
    return unary(c, "ElementWiseAbs", x)


@lowers("Sign", to="ElementWiseSign")
def sign(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    if x.dtype.kind == "u":
        return nary(c, "ElementWiseMinimum", [x, scalar(1, x.dtype)])
    return unary(c, "ElementWiseSign", x)


def lower_binary(c: Lowering, n: OnnxNode) -> Value:
    a, b = n.input(0), n.input(1)
    if n.version < 7:
        raise Unsupported("broadcasting of opset 6")
    return nary(c, _BINARY[n.op], [a, b])


def lower_compare(c: Lowering, n: OnnxNode) -> Value:
    return nary(c, _COMPARE[n.op], [n.input(0), n.input(1)], BOOL)


def lower_variadic(c: Lowering, n: OnnxNode) -> Value:
    values = [n.input(i) for i in range(len(n.inputs))]
    total = values[0]
    for v in values[1:]:
        total = nary(c, _VARIADIC[n.op], [total, v])
    if n.op == "Mean":
        total = times(c, total, 1 / len(values))
    return total


for _op, _to in _UNARY.items():
    lowers(_op, to=_to)(lower_unary)
for _op, _to in _BINARY.items():
    lowers(_op, to=_to)(lower_binary)
for _op, _to in _COMPARE.items():
    lowers(_op, to=_to)(lower_compare)
for _op, _to in _VARIADIC.items():
    lowers(_op, to=_to)(lower_variadic)


@lowers("Pow", to="ElementWisePower")
def power(c: Lowering, n: OnnxNode) -> Value:
    x, exponent = n.input(0), n.input(1)
    if x.dtype == exponent.dtype:
        return nary(c, "ElementWisePower", [x, exponent])
    if is_float(x.dtype):
        return nary(c, "ElementWisePower", [x, cast(c, exponent, x.dtype)])
    whole = None if exponent.data is None else _whole_exponents(exponent.data, x.dtype)
    if whole is not None:  # exact: a float has not all the digits of a large integer
        return nary(c, "ElementWisePower", [x, constant(whole)])
    y = nary(
        c,
        "ElementWisePower",
        [cast(c, x, np.dtype(np.float32)), cast(c, exponent, np.dtype(np.float32))],
    )
    return cast(c, y, x.dtype)


def _whole_exponents(exponents: np.ndarray, dtype: np.dtype) -> np.ndarray | None:
    """Exponents as integers of a type, when they are such and not negative."""
    inside = (exponents >= 0) & (exponents <= min(np.iinfo(dtype).max, 2**24))
    if not np.all(inside) or np.any(exponents != np.floor(exponents.astype(np.float64))):
        return None
    return exponents.astype(dtype)


@lowers("Mod", to="ElementWiseBinary")
def modulo(c: Lowering, n: OnnxNode) -> Value:
    # C's fmod keeps the sign of the dividend, Python's % that of the divisor.
    operation = np.uint32(5 if n.integer("fmod") else 12)
    return nary(c, "ElementWiseBinary", [n.input(0), n.input(1)], operation=operation)


@lowers("Where", to="ElementWiseSelect")
def where(c: Lowering, n: OnnxNode) -> Value:
    return select(c, n.input(0), n.input(1), n.input(2))


@lowers("Reciprocal", to="ElementWiseDivide")
def reciprocal(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    return div(c, scalar(1, x.dtype), x)


@lowers("Erf", to="Gelu and elementwise")
def erf(c: Lowering, n: OnnxNode) -> Value:
    # gelu(x) = x (1 + erf(x / sqrt 2)) / 2, solved for erf; a series where that divides by ~0.
    z = n.input(0)
    if z.dtype == np.float64:  # from 6 on it is 1; infinity has no ratio
        z = nary(c, "ElementWiseMinimum", [z, scalar(6, z.dtype)])
        z = nary(c, "ElementWiseMaximum", [z, scalar(-6, z.dtype)])
    ratio = div(c, unary(c, "Gelu", times(c, z, math.sqrt(2))), z)
    far = plus(c, times(c, ratio, math.sqrt(2)), -1.0)
    slope = 2 / math.sqrt(math.pi)
    near = mul(c, z, plus(c, times(c, mul(c, z, z), -slope / 3), slope))
    end = 3e-4 if z.dtype == np.float64 else 0.03  # of the series
    small = nary(c, "ElementWiseLess", [unary(c, "ElementWiseAbs", z), scalar(end, z.dtype)], BOOL)
    return select(c, small, near, far)


@lowers("IsNaN", to="IsNan")
def is_nan(c: Lowering, n: OnnxNode) -> Value:
    return unary(c, "IsNan", n.input(0), BOOL)


@lowers("IsInf", to="IsInf")
def is_inf(c: Lowering, n: OnnxNode) -> Value:
    return unary(
        c,
        "IsInf",
        n.input(0),
        BOOL,
        detect_negative=np.bool_(n.integer("detect_negative", 1)),
        detect_positive=np.bool_(n.integer("detect_positive", 1)),
    )


@lowers("Acos", to="ElementWiseAsin, ElementWiseSubtract")
def acos(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    return sub(c, scalar(math.pi / 2, x.dtype), unary(c, "ElementWiseAsin", x))


@lowers("Tan", to="ElementWiseSin, ElementWiseCos, ElementWiseDivide")
def tan(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    return div(c, unary(c, "ElementWiseSin", x), unary(c, "ElementWiseCos", x))


def _exp(c: Lowering, x: Value) -> Value:
    return unary(c, "ElementWiseExp", x)


@lowers("Cosh", to="ElementWiseExp and elementwise")
def cosh(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)  # exp(x) itself is infinity before this is
    root = _exp(c, times(c, x, 0.5))
    half = scalar(0.5, x.dtype)
    return add(c, mul(c, mul(c, half, root), root), div(c, div(c, half, root), root))


@lowers("Sinh", to="Elu, ElementWiseExp and elementwise")
def sinh(c: Lowering, n: OnnxNode) -> Value:
    # With e = exp(-|x|) - 1, exact near 0: sinh |x| = -e (2 + e) exp(|x|) / 2, exp in two factors.
    x = n.input(0)
    size = unary(c, "ElementWiseAbs", x)
    e = unary(c, "Elu", unary(c, "ElementWiseNeg", size), alpha=np.float32(1))
    root = _exp(c, times(c, size, 0.5))
    y = mul(c, mul(c, times(c, mul(c, e, plus(c, e, 2.0)), 0.5), root), root)
    return mul(c, unary(c, "ElementWiseSign", x), unary(c, "ElementWiseAbs", y))


def _log(c: Lowering, x: Value) -> Value:
    return unary(c, "ElementWiseLog", x)


#: From here on 1 is nothing beside a number. In half precision this is infinity, and so is what
#: does not fit there: comparisons are by "or equal".
_FAR = 2.0**20


def _far(c: Lowering, x: Value, limit: float) -> Value:
    return nary(c, "ElementWiseGreaterEqual", [x, _limit(limit, x.dtype)], BOOL)


def _limit(value: float, dtype: np.dtype) -> Value:
    with np.errstate(over="ignore"):
        return constant(np.array(value).astype(dtype))


def _log1p(c: Lowering, u: Value) -> Value:
    """log(1 + u). What 1 + u rounds away is put back by the quotient (Kahan)."""
    w = plus(c, u, 1.0)
    rounded, log = plus(c, w, -1.0), _log(c, w)
    none = nary(c, "ElementWiseEqual", [rounded, scalar(0, u.dtype)], BOOL)
    near = select(c, none, u, mul(c, u, div(c, log, rounded)))
    return select(c, _far(c, u, _FAR), log, near)


def _or_far(c: Lowering, x: Value, square: Value, near: Value) -> Value:
    """log(2 x) where the square is too large to be added to 1."""
    return select(c, _far(c, square, _FAR**2), plus(c, _log(c, x), math.log(2)), near)


@lowers("Asinh", to="ElementWiseLog and elementwise")
def asinh(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    # asinh |x| = log1p(|x| + x^2 / (1 + sqrt(1 + x^2))), which loses no digits near 0.
    size, square = unary(c, "ElementWiseAbs", x), mul(c, x, x)
    root = unary(c, "ElementWiseSquareRoot", plus(c, square, 1.0))
    near = _log1p(c, add(c, size, div(c, square, plus(c, root, 1.0))))
    return mul(c, unary(c, "ElementWiseSign", x), _or_far(c, size, square, near))


@lowers("Acosh", to="ElementWiseLog and elementwise")
def acosh(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    # With t = x - 1: log1p(t + sqrt(t) sqrt(t + 2)), no number below 1 as each root is.
    t = plus(c, x, -1.0)
    roots = [unary(c, "ElementWiseSquareRoot", v) for v in (t, plus(c, t, 2.0))]
    return _or_far(c, x, mul(c, x, x), _log1p(c, add(c, t, mul(c, *roots))))


@lowers("Atanh", to="ElementWiseLog and elementwise")
def atanh(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    # atanh |x| = log1p(2 |x| / (1 - |x|)) / 2
    size = unary(c, "ElementWiseAbs", x)
    ratio = div(c, times(c, size, 2.0), sub(c, scalar(1, x.dtype), size))
    return mul(c, unary(c, "ElementWiseSign", x), times(c, _log1p(c, ratio), 0.5))
