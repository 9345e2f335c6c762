"""Evaluation of operators whose inputs are all constants (shape arithmetic, mostly), with numpy.

What is not here is emitted as an operation on static tensors, which is as right and costs time at
every run only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import tflite

from .nodes import Damaged, TfliteNode, axis_of
from .options import Options
from .values import Value, constant

#: Fused activations that clip -> their bounds.
_BOUNDS: dict[int, tuple[float | None, float | None]] = {
    int(tflite.ActivationFunctionType.NONE): (None, None),
    int(tflite.ActivationFunctionType.RELU): (0, None),
    int(tflite.ActivationFunctionType.RELU_N1_TO_1): (-1, 1),
    int(tflite.ActivationFunctionType.RELU6): (0, 6),
}

#: Told of the bytes of a constant that is about to be made, and what it is.
Spend = Callable[[int, str], None]
FoldFn = Callable[[Spend, TfliteNode, list[np.ndarray]], np.ndarray]


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


def fold(spend: Spend, node: TfliteNode) -> list[Value] | None:
    """The outputs as constants; None when this operator is not evaluated here.

    An operator whose result would be quantized is not: what it moves is only numbers with scales.
    """
    if any(t.quantized is not None for t in node.outputs):
        return None
    arrays = [v.const for v in node.inputs if v is not None]
    if len(arrays) != len(node.inputs) or not node.outputs:
        return None
    fn = _FOLDS.get(node.op)
    if fn is None or (fused := _clip_of(node.options)) is None:
        return None
    with np.errstate(all="ignore"):  # what overflows here would overflow when run
        found = np.asarray(fn(spend, node, arrays))
        low, high = fused
        if low is not None or high is not None:
            found = np.clip(found, low, high)
    dtype = node.dtype()
    if node.op not in _SIZED:
        spend(found.nbytes, f"the result of {node.name}")
    return [constant(np.asarray(found, dtype, order="C"))]


def _clip_of(options: Options) -> tuple[float | None, float | None] | None:
    """The bounds that the fused activation clips to; None when it does something else."""
    return _BOUNDS.get(options.integer("FusedActivationFunction"))


def _sized(spend: Spend, node: TfliteNode, shape: Sequence[int]) -> tuple[int, ...]:
    """`shape`, once it is known to be affordable."""
    sizes = tuple(int(d) for d in shape)
    if any(d < 0 for d in sizes):
        raise Damaged(f"it asks for the shape {list(sizes)}")
    spend(math.prod(sizes) * node.dtype().itemsize, f"the result of {node.name}")
    return sizes


def _binary(spend: Spend, node: TfliteNode, arrays: list[np.ndarray]) -> np.ndarray:
    _sized(spend, node, np.broadcast_shapes(*(a.shape for a in arrays)))
    return _BINARY[node.op](*arrays)


def _unary(spend: Spend, node: TfliteNode, arrays: list[np.ndarray]) -> np.ndarray:
    return _UNARY[node.op](arrays[0])


def _reduce(spend: Spend, node: TfliteNode, arrays: list[np.ndarray]) -> np.ndarray:
    axes = tuple({axis_of(int(a), arrays[0].ndim) for a in arrays[1].reshape(-1)})
    keep = node.options.flag("KeepDims")
    kind = None if node.op in ("REDUCE_ANY", "REDUCE_ALL") else {"dtype": arrays[0].dtype}
    if node.op in ("SUM", "REDUCE_PROD") and kind:
        return _REDUCE[node.op](arrays[0], axis=axes, keepdims=keep, **kind)
    return _REDUCE[node.op](arrays[0], axis=axes, keepdims=keep)


def _cast(spend: Spend, node: TfliteNode, arrays: list[np.ndarray]) -> np.ndarray:
    return arrays[0].astype(node.dtype())


def _concat(spend: Spend, node: TfliteNode, arrays: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(arrays, axis_of(node.options.integer("Axis"), arrays[0].ndim))


def _pack(spend: Spend, node: TfliteNode, arrays: list[np.ndarray]) -> np.ndarray:
    return np.stack(arrays, axis_of(node.options.integer("Axis"), arrays[0].ndim + 1))


def _gather(spend: Spend, node: TfliteNode, arrays: list[np.ndarray]) -> np.ndarray:
    x, index = arrays[:2]
    axis = axis_of(node.options.integer("Axis"), x.ndim)
    if node.options.integer("BatchDims"):
        raise Damaged("batch dimensions of constants")
    if index.size and (index.min() < 0 or index.max() >= x.shape[axis]):
        raise Damaged(f"an index is outside dimension {axis} of {list(x.shape)}")
    _sized(spend, node, (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))
    return np.take(x, index, axis)


def _select(spend: Spend, node: TfliteNode, arrays: list[np.ndarray]) -> np.ndarray:
    condition, a, b = arrays
    if node.op == "SELECT" and condition.ndim == 1 and a.ndim > 1:
        condition = condition.reshape(-1, *(1,) * (a.ndim - 1))
    _sized(spend, node, np.broadcast_shapes(condition.shape, a.shape, b.shape))
    return np.where(condition, a, b)


def _fill(spend: Spend, node: TfliteNode, arrays: list[np.ndarray]) -> np.ndarray:
    shape = _sized(spend, node, arrays[0].reshape(-1).tolist())
    return np.full(shape, arrays[1].reshape(-1)[0], node.dtype())


def _range(spend: Spend, node: TfliteNode, arrays: list[np.ndarray]) -> np.ndarray:
    start, limit, delta = (a.reshape(-1)[0] for a in arrays)
    if delta == 0:
        raise Damaged("its step is 0")
    count = max(0, math.ceil((float(limit) - float(start)) / float(delta)))
    _sized(spend, node, (count,))
    # TFLite adds the step in the element type.
    steps = np.full(count, delta, node.dtype())
    steps[:1] = start
    return np.cumsum(steps, dtype=node.dtype())


def _tile(spend: Spend, node: TfliteNode, arrays: list[np.ndarray]) -> np.ndarray:
    times = [int(t) for t in arrays[1].reshape(-1)]
    _sized(spend, node, [d * t for d, t in zip(arrays[0].shape, times, strict=True)])
    return np.tile(arrays[0], times)


def _broadcast_to(spend: Spend, node: TfliteNode, arrays: list[np.ndarray]) -> np.ndarray:
    return np.broadcast_to(arrays[0], _sized(spend, node, arrays[1].reshape(-1).tolist()))


def _broadcast_args(spend: Spend, node: TfliteNode, arrays: list[np.ndarray]) -> np.ndarray:
    shapes = [tuple(int(d) for d in a.reshape(-1)) for a in arrays]
    return np.array(np.broadcast_shapes(*shapes))


def _dequantize(spend: Spend, node: TfliteNode, arrays: list[np.ndarray]) -> np.ndarray:
    return arrays[0].astype(np.float32)  # integers were made real before


_FOLDS: dict[str, FoldFn] = {
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(_UNARY, _unary),
    **dict.fromkeys(_REDUCE, _reduce),
    "CAST": _cast,
    "CONCATENATION": _concat,
    "PACK": _pack,
    "GATHER": _gather,
    "SELECT": _select,
    "SELECT_V2": _select,
    "FILL": _fill,
    "RANGE": _range,
    "TILE": _tile,
    "BROADCAST_TO": _broadcast_to,
    "BROADCAST_ARGS": _broadcast_args,
    "DEQUANTIZE": _dequantize,
}
#: These say how large their result is before they make it.
_SIZED = frozenset(
    [*_BINARY, "GATHER", "SELECT", "SELECT_V2", "FILL", "RANGE", "TILE", "BROADCAST_TO"]
)
