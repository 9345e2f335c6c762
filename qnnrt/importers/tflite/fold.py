"""Evaluation of operators whose inputs are all constants (shape arithmetic, mostly), with numpy.

What is not here is emitted as an operation on static tensors, which is as right and costs time at
every run only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import tflite

from ..._native.op_table import bounds
from ..budget import Budget
from .options import Options
from .refusal import Damaged
from .values import TfliteNode, Value, constant

#: Fused activations that clip -> the op whose bounds they have.
_CLIPS: dict[int, str] = {
    int(tflite.ActivationFunctionType.NONE): "",
    int(tflite.ActivationFunctionType.RELU): "Relu",
    int(tflite.ActivationFunctionType.RELU_N1_TO_1): "Relu1",
    int(tflite.ActivationFunctionType.RELU6): "Relu6",
}


@dataclass
class _Call:
    """An operator on arrays."""

    budget: Budget
    node: TfliteNode
    arrays: list[np.ndarray]
    dtype: np.dtype  # of the result
    spent: bool = False

    @property
    def options(self) -> Options:
        return self.node.info.options

    def sized(self, shape: Iterable[int]) -> tuple[int, ...]:
        """The shape of the result, once it is known to be affordable."""
        sizes = tuple(int(d) for d in shape)
        if any(d < 0 for d in sizes):
            raise Damaged(f"it asks for the shape {list(sizes)}")
        self.budget.array(sizes, self.dtype, f"the result of {self.node.info.name}")
        self.spent = True
        return sizes

    def axis(self, axis: int, rank: int) -> int:
        """A non-negative axis."""
        if not -rank <= axis < max(rank, 1):
            raise Damaged(f"axis {axis} is not one of a tensor of rank {rank}")
        return axis + rank if axis < 0 else axis


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind not in "iu":
        return np.asarray(a / b)
    if (b == 0).any():
        raise Damaged("it divides an integer by zero")
    return np.asarray(np.trunc(a.astype(np.longdouble) / b.astype(np.longdouble)).astype(a.dtype))


def _integer_checked(fn: np.ufunc) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    def apply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if a.dtype.kind in "iu" and (b == 0).any():
            raise Damaged("it divides an integer by zero")
        return np.asarray(fn(a, b))

    return apply


_BINARY: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "ADD": np.add,
    "SUB": np.subtract,
    "MUL": np.multiply,
    "DIV": _divide,
    "FLOOR_DIV": _integer_checked(np.floor_divide),
    "FLOOR_MOD": _integer_checked(np.mod),
    "MAXIMUM": np.maximum,
    "MINIMUM": np.minimum,
    "POW": np.power,
    "SQUARED_DIFFERENCE": lambda a, b: np.square(a - b),
    "EQUAL": np.equal,
    "NOT_EQUAL": np.not_equal,
    "LESS": np.less,
    "LESS_EQUAL": np.less_equal,
    "GREATER": np.greater,
    "GREATER_EQUAL": np.greater_equal,
    "LOGICAL_AND": np.logical_and,
    "LOGICAL_OR": np.logical_or,
}

_UNARY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "ABS": np.abs,
    "CEIL": np.ceil,
    "COS": np.cos,
    "EXP": np.exp,
    "FLOOR": np.floor,
    "LOG": np.log,
    "LOGICAL_NOT": np.logical_not,
    "NEG": np.negative,
    "ROUND": np.rint,
    "RSQRT": lambda x: 1 / np.sqrt(x),
    "SIGN": np.sign,
    "SIN": np.sin,
    "SQRT": np.sqrt,
    "SQUARE": np.square,
    "ZEROS_LIKE": np.zeros_like,
}

_REDUCE: dict[str, Callable[..., np.ndarray]] = {
    "SUM": np.sum,
    "REDUCE_PROD": np.prod,
    "REDUCE_MAX": np.max,
    "REDUCE_MIN": np.min,
    "REDUCE_ANY": np.any,
    "REDUCE_ALL": np.all,
}


def fold(budget: Budget, node: TfliteNode) -> list[Value] | None:
    """The outputs as constants; None when this operator is not evaluated here.

    An operator whose result would be quantized is not: what it moves is only numbers with scales.
    """
    arrays = [v.const for v in node.inputs if v is not None]
    fn, out = _FOLDS.get(node.info.op), node.outputs[0]
    if fn is None or len(arrays) != len(node.inputs) or out.dtype is None:
        return None
    activation = node.info.options.integer("FusedActivationFunction")
    if any(t.quantized is not None for t in node.outputs) or activation not in _CLIPS:
        return None
    budget.work(sum(a.size for a in arrays))
    call = _Call(budget, node, arrays, out.dtype)
    with np.errstate(all="ignore"):  # what overflows here would overflow when run
        found = np.asarray(fn(call))
        if clip := _CLIPS[activation]:
            low, high = bounds(clip, {})
            number = int if found.dtype.kind in "iu" else float
            found = np.clip(found, number(low), None if math.isinf(high) else number(high))
    if not call.spent:
        budget.take(found.nbytes, f"the result of {node.info.name}")
    return [constant(np.asarray(found, out.dtype, order="C"))]


def _binary(c: _Call) -> np.ndarray:
    c.sized(np.broadcast_shapes(*(a.shape for a in c.arrays)))
    return _BINARY[c.node.info.op](*c.arrays)


def _unary(c: _Call) -> np.ndarray:
    return _UNARY[c.node.info.op](c.arrays[0])


def _reduce(c: _Call) -> np.ndarray:
    x, op = c.arrays[0], c.node.info.op
    axes = tuple({c.axis(int(a), x.ndim) for a in c.arrays[1].reshape(-1)})
    dtype = {"dtype": x.dtype} if op in ("SUM", "REDUCE_PROD") else {}
    return _REDUCE[op](x, axis=axes, keepdims=c.options.flag("KeepDims"), **dtype)


def _gather(c: _Call) -> np.ndarray:
    x, index = c.arrays[:2]
    axis = c.axis(c.options.integer("Axis"), x.ndim)
    batch = c.options.integer("BatchDims")
    batch += index.ndim if batch < 0 else 0
    if not 0 <= batch <= min(axis, index.ndim) or x.shape[:batch] != index.shape[:batch]:
        raise Damaged(f"{batch} batch dimensions of {list(x.shape)} at {list(index.shape)}")
    if index.size and (index.min() < 0 or index.max() >= x.shape[axis]):
        raise Damaged(f"an index is outside dimension {axis} of {list(x.shape)}")
    found = np.empty(
        c.sized((*x.shape[:axis], *index.shape[batch:], *x.shape[axis + 1 :])), x.dtype
    )
    for at in np.ndindex(index.shape[:batch]):
        found[at] = np.take(x[at], index[at], axis - batch)
    return found


def _select(c: _Call) -> np.ndarray:
    condition, a, b = c.arrays
    if c.node.info.op == "SELECT" and condition.ndim == 1 and a.ndim > 1:
        condition = condition.reshape(-1, *(1,) * (a.ndim - 1))
    c.sized(np.broadcast_shapes(condition.shape, a.shape, b.shape))
    return np.where(condition, a, b)


def _range(c: _Call) -> np.ndarray:
    start, limit, delta = (a.reshape(-1)[0] for a in c.arrays)
    if delta == 0:
        raise Damaged("its step is 0")
    count = max(0, math.ceil((float(limit) - float(start)) / float(delta)))
    c.sized((count,))
    # TFLite adds the step in the element type.
    steps = np.full(count, delta, c.dtype)
    steps[:1] = start
    return np.cumsum(steps, dtype=c.dtype)


def _tile(c: _Call) -> np.ndarray:
    times = [int(t) for t in c.arrays[1].reshape(-1)]
    c.sized(d * t for d, t in zip(c.arrays[0].shape, times, strict=True))
    return np.tile(c.arrays[0], times)


def _concat(c: _Call) -> np.ndarray:
    return np.concatenate(c.arrays, c.axis(c.options.integer("Axis"), c.arrays[0].ndim))


def _pack(c: _Call) -> np.ndarray:
    return np.stack(c.arrays, c.axis(c.options.integer("Axis"), c.arrays[0].ndim + 1))


def _fill(c: _Call) -> np.ndarray:
    return np.full(c.sized(c.arrays[0].reshape(-1)), c.arrays[1].reshape(-1)[0], c.dtype)


def _broadcast_args(c: _Call) -> np.ndarray:
    return np.array(np.broadcast_shapes(*(tuple(map(int, a.reshape(-1))) for a in c.arrays)))


_FOLDS: dict[str, Callable[[_Call], np.ndarray]] = {
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(_UNARY, _unary),
    **dict.fromkeys(_REDUCE, _reduce),
    "CAST": lambda c: c.arrays[0],  # the result has its type in the end
    "CONCATENATION": _concat,
    "PACK": _pack,
    "GATHER": _gather,
    "SELECT": _select,
    "SELECT_V2": _select,
    "FILL": _fill,
    "RANGE": _range,
    "TILE": _tile,
    "BROADCAST_TO": lambda c: np.broadcast_to(c.arrays[0], c.sized(c.arrays[1].reshape(-1))),
    "BROADCAST_ARGS": _broadcast_args,
    "DENSIFY": lambda c: c.arrays[0],  # as all sparse tensors, it was made dense before
    "DEQUANTIZE": lambda c: c.arrays[0],  # integers were made real before
}
