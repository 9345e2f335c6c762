"""Operators that make constants out of a few numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx

from ..budget import Budget
from .fold_table import Found, Given, evaluates, integers, needs, optional
from .nodes import OnnxNode, axis_of

#: No constant of more elements than this is described: a corrupted shape asks for more.
LARGEST = 2**31


@evaluates("ConstantOfShape", view=True)
def constant_of_shape(node: OnnxNode, args: Given, budget: Budget) -> Found:
    given = node.attrs.get("value")
    value = np.zeros(1, np.float32)
    if isinstance(given, onnx.TensorProto):
        value = onnx.numpy_helper.to_array(given)
    shape = tuple(integers(needs(args, 0)))
    if any(d < 0 for d in shape) or math.prod(shape) > LARGEST:
        raise ValueError(
            f"{list(shape)} is not a shape for a constant, of at most {LARGEST} elements"
        )
    # One element in memory, whatever the shape: only what is really used is written out.
    return np.broadcast_to(value.reshape(()), shape)


@evaluates("Expand", view=True)
def expand(node: OnnxNode, args: Given, budget: Budget) -> Found:
    x = needs(args, 0)
    shape = np.broadcast_shapes(x.shape, tuple(integers(needs(args, 1))))
    return np.broadcast_to(x, shape)


@evaluates("Range", view=True)
def arithmetic(node: OnnxNode, args: Given, budget: Budget) -> Found:
    if len(args) != 3 or any(x is None or x.size != 1 for x in args):
        raise ValueError("start, limit and delta have to be scalars")
    start, limit, delta = (needs(args, i).reshape(()).item() for i in range(3))
    if not all(math.isfinite(v) for v in (start, limit, delta)) or delta == 0:
        raise ValueError(f"range({start}, {limit}, {delta}) has no end")
    if isinstance(start, int):
        count = max(-((start - limit) // delta), 0)
    else:
        count = max(math.ceil((limit - start) / delta), 0)
    dtype = needs(args, 0).dtype
    # The result, the numbers that it is computed from, and their multiples.
    budget.array([count], np.int64, f"a range of {count} elements", copies=3)
    return np.asarray(start + np.arange(count) * delta, dtype)


@evaluates("Trilu")
def trilu(node: OnnxNode, args: Given, budget: Budget) -> Found:
    x = needs(args, 0)
    if x.ndim < 2:
        raise ValueError(f"a matrix is expected, not {list(x.shape)}")
    given = optional(args, 1)
    offset = 0 if given is None else int(given.reshape(()))
    kept = triangle(x.shape[-2:], offset, bool(node.integer("upper", 1)), budget)
    return np.where(kept, x, np.zeros((), x.dtype))


def triangle(shape: Sequence[int], offset: int, upper: bool, budget: Budget) -> np.ndarray:
    """True on one side of a diagonal and on it."""
    budget.array(shape, bool, f"a mask of shape {list(shape)}")
    # Beyond the matrix on either side, every offset means the same.
    offset = min(max(offset, -max(shape)), max(shape))
    rows, columns = np.arange(shape[0])[:, None], np.arange(shape[1])[None, :]
    return columns >= rows + offset if upper else columns <= rows + offset


@evaluates("OneHot")
def one_hot(node: OnnxNode, args: Given, budget: Budget) -> Found:
    index, depth, values = (needs(args, i) for i in range(3))
    if depth.size != 1 or values.shape != (2,):
        raise ValueError("depth has to be one number, and values two")
    size = int(depth.reshape(()))
    if size < 1:
        raise ValueError(f"a depth of {size}")
    axis = axis_of(node.integer("axis", -1), index.ndim + 1)
    shape = (*index.shape[:axis], size, *index.shape[axis:])
    budget.array(shape, values.dtype, f"OneHot of shape {list(shape)}", copies=2)
    at = index.astype(np.int64)
    at = np.where((at < 0) & (at >= -size), at + size, at)
    along = np.arange(size).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    hit = np.expand_dims(at, axis) == along
    return np.asarray(np.where(hit, values[1], values[0]))


def eye(shape: tuple[int, ...], dtype: np.dtype, offset: int, budget: Budget) -> np.ndarray:
    """Ones on a diagonal."""
    if len(shape) != 2:
        raise ValueError(f"a matrix is expected, not {list(shape)}")
    budget.array(shape, dtype, f"EyeLike of shape {list(shape)}")
    found = np.zeros(shape, dtype)
    rows = np.arange(max(0, -offset), min(shape[0], shape[1] - offset))
    found[rows, rows + offset] = 1
    return found
