"""Operators on every element by itself, on constants."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx

from ..budget import Budget
from .fold_table import EVALUATORS, VIEWS, Arrays, Found, Given, evaluates, needs, optional
from .nodes import OnnxNode
from .values import uniform
from .whole import greatest_below, least_above, truncated_sum

Function = Callable[..., np.ndarray]


def _register(name: str, function: Callable[[OnnxNode, Arrays], np.ndarray | None]) -> None:
    """An element-wise operator. What is one element in memory is computed once."""

    def evaluate(node: OnnxNode, args: Given, budget: Budget) -> Found:
        given = [x for x in args if x is not None]
        if len(given) != len(args) or not given:
            return None
        shape = np.broadcast_shapes(*(x.shape for x in given))
        if math.prod(shape) > 1 and all(uniform(x) or x.ndim == 0 for x in given):
            ones = [x[(0,) * x.ndim] for x in given]
            found = function(node, [np.asarray(x) for x in ones])
            return None if found is None else np.broadcast_to(found, shape)
        # The result, and as much again on the way to it.
        widest = max(x.dtype.itemsize for x in given)
        budget.array(shape, np.dtype(f"V{widest}"), f"{name} of shape {list(shape)}", copies=2)
        return function(node, given)

    EVALUATORS.register([name], evaluate)
    VIEWS.add(name)  # it counts for itself


def _plain(*functions: tuple[str, Function]) -> None:
    for name, function in functions:

        def evaluate(
            node: OnnxNode, args: Arrays, function: Function = function
        ) -> np.ndarray | None:
            if any(x.dtype.kind == "O" for x in args):
                return None
            return np.asarray(function(*args))

        _register(name, evaluate)


def _same_type(*functions: tuple[str, Function]) -> None:
    """Functions whose result has the type of the first input."""
    for name, function in functions:

        def evaluate(
            node: OnnxNode, args: Arrays, function: Function = function
        ) -> np.ndarray | None:
            if any(x.dtype.kind == "O" for x in args):
                return None
            return np.asarray(function(*args)).astype(args[0].dtype, copy=False)

        _register(name, evaluate)


def _all(pair: Function) -> Function:
    """A function of two arguments on any number of them."""

    def function(*args: np.ndarray) -> np.ndarray:
        found = args[0]
        for x in args[1:]:
            found = pair(found, x)
        return found

    return function


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind not in "iu":
        return np.asarray(a / b)
    if np.any(b == 0):
        raise ValueError("division by zero")
    floor = a // b
    # Towards zero: one more where the quotient is negative and not whole.
    return np.asarray(floor + ((a % b != 0) & ((a < 0) != (b < 0))))


def _power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind in "iu" and b.dtype.kind == "f":
        a = a.astype(np.float64)
    return np.asarray(np.power(a, b))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1 / (1 + small), small / (1 + small)))


def _mean(*args: np.ndarray) -> np.ndarray:
    return np.asarray(_all(np.add)(*args) / len(args))


_plain(
    ("And", np.logical_and),
    ("Or", np.logical_or),
    ("Xor", np.logical_xor),
    ("Not", np.logical_not),
    ("Equal", np.equal),
    ("Less", np.less),
    ("LessOrEqual", np.less_equal),
    ("Greater", np.greater),
    ("GreaterOrEqual", np.greater_equal),
    ("IsNaN", np.isnan),
)
_same_type(
    ("Abs", np.abs),
    ("Acos", np.arccos),
    ("Acosh", np.arccosh),
    ("Add", np.add),
    ("Asin", np.arcsin),
    ("Asinh", np.arcsinh),
    ("Atan", np.arctan),
    ("Atanh", np.arctanh),
    ("BitwiseAnd", np.bitwise_and),
    ("BitwiseNot", np.bitwise_not),
    ("BitwiseOr", np.bitwise_or),
    ("BitwiseXor", np.bitwise_xor),
    ("Ceil", np.ceil),
    ("Cos", np.cos),
    ("Cosh", np.cosh),
    ("Div", _divide),
    ("Exp", np.exp),
    ("Floor", np.floor),
    ("Log", np.log),
    ("Max", _all(np.maximum)),
    ("Mean", _mean),
    ("Min", _all(np.minimum)),
    ("Mul", np.multiply),
    ("Neg", np.negative),
    ("Pow", _power),
    ("Reciprocal", lambda x: 1 / x),
    ("Relu", lambda x: np.maximum(x, x.dtype.type(0))),
    ("Round", np.rint),
    ("Sigmoid", _sigmoid),
    ("Sign", np.sign),
    ("Sin", np.sin),
    ("Sinh", np.sinh),
    ("Sqrt", np.sqrt),
    ("Sub", np.subtract),
    ("Sum", _all(np.add)),
    ("Tan", np.tan),
    ("Tanh", np.tanh),
)


def _mod(node: OnnxNode, args: Arrays) -> np.ndarray:
    a, b = args
    if a.dtype.kind in "iu" and np.any(b == 0):
        raise ValueError("division by zero")
    return np.asarray(np.fmod(a, b) if node.integer("fmod") else np.mod(a, b)).astype(a.dtype)


def _shift(node: OnnxNode, args: Arrays) -> np.ndarray:
    a, b = args
    direction = node.text("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise ValueError(f"direction {direction!r}")
    bits = 8 * a.dtype.itemsize
    if direction == "RIGHT":  # signs stay: at last nothing but them is left
        all_but_one = np.minimum(b, b.dtype.type(bits - 1))
        moved = np.right_shift(a, all_but_one)
        return np.where((b < bits) | (a < 0), moved, 0).astype(a.dtype)
    inside = b < bits
    return np.where(inside, np.left_shift(a, np.where(inside, b, 0)), 0).astype(a.dtype)


def _infinite(node: OnnxNode, args: Arrays) -> np.ndarray:
    x = args[0]
    found = np.zeros(x.shape, bool)
    if node.integer("detect_positive", 1):
        found |= x == np.inf
    if node.integer("detect_negative", 1):
        found |= x == -np.inf
    return found


def _erf(node: OnnxNode, args: Arrays) -> np.ndarray | None:
    x = args[0]
    if x.dtype.kind != "f" or x.size > 2**20:
        return None
    return np.array([math.erf(float(v)) for v in x.ravel()], x.dtype).reshape(x.shape)


def _shrink(node: OnnxNode, args: Arrays) -> np.ndarray:
    x = args[0]
    bias, limit = node.number("bias", 0.0), node.number("lambd", 0.5)
    zero = x.dtype.type(0)
    if x.dtype.kind not in "iu":
        bias = x.dtype.type(bias)
        found = np.where(x < -limit, x + bias, np.where(x > limit, x - bias, zero))
        return np.asarray(found, x.dtype)
    least, greatest = least_above(limit, x.dtype), greatest_below(-limit, x.dtype)

    def moved(amount: float) -> np.ndarray:
        step, turn = truncated_sum(amount, x.dtype)
        y = x + x.dtype.type(step)
        return np.asarray(y if turn is None else y + (x < x.dtype.type(turn)).astype(x.dtype))

    found = np.zeros_like(x)
    if least is not None:
        found = np.where(x >= least, moved(-bias), found)
    if greatest is not None:
        found = np.where(x <= greatest, moved(bias), found)
    return found


def _where(node: OnnxNode, args: Arrays) -> np.ndarray:
    return np.where(*args)


for _name, _function in (
    ("Mod", _mod),
    ("BitShift", _shift),
    ("IsInf", _infinite),
    ("Erf", _erf),
    ("Shrink", _shrink),
    ("Where", _where),
):
    _register(_name, _function)


@evaluates("Clip")
def clip(node: OnnxNode, args: Given, budget: Budget) -> Found:
    x = needs(args, 0)
    low, high = optional(args, 1), optional(args, 2)
    if node.version < 11:
        given = [node.attrs.get(key) for key in ("min", "max")]
        low, high = (None if v is None else np.asarray(v, x.dtype) for v in given)
    if any(v is not None and v.size != 1 for v in (low, high)):
        raise ValueError("min and max have to be scalars")
    if low is not None:
        x = np.maximum(x, low.reshape(()))
    if high is not None:
        x = np.minimum(x, high.reshape(()))
    return x


@evaluates("Identity", "Dropout", view=True)
def identity(node: OnnxNode, args: Given, budget: Budget) -> Found:
    if node.op == "Dropout" and len(node.outputs) > 1:
        return None
    training = optional(args, 2)
    if training is not None and training.any():
        return None
    return needs(args, 0)


#: Types to which numbers are rounded and cut off by rules of their own.
_OTHER_RULES = ("float8_e8m0", "float4_", "float6_", "int4", "uint4", "int2", "uint2")


@evaluates("Cast", "CastLike")
def cast(node: OnnxNode, args: Given, budget: Budget) -> Found:
    x = needs(args, 0)
    if node.op == "Cast":
        try:
            dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(node.integer("to")))
        except KeyError:
            return None
    else:
        dtype = needs(args, 1).dtype
    if x.dtype == dtype:
        return x
    if "O" in (x.dtype.kind, dtype.kind) or node.text("round_mode", "up") != "up":
        return None
    if dtype.name.startswith(_OTHER_RULES):
        return None
    if dtype.name.startswith("float8"):
        return _float8(x, dtype, bool(node.integer("saturate", 1)))
    if x.dtype.kind == "V" and dtype.kind in "iub":
        x = x.astype(np.float32)
    return x.astype(dtype)


def _float8(x: np.ndarray, dtype: np.dtype, saturate: bool) -> np.ndarray:
    import ml_dtypes  # the installed onnx has these types through it

    x = x.astype(np.float32)
    if saturate:
        most = np.float32(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]
        x = np.where(np.isnan(x), x, np.clip(x, -most, most))
    return x.astype(dtype)
