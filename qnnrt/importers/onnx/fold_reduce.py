"""Reductions, products and what is made of them, on constants."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..budget import Budget
from .fold_table import Found, Given, axes_of, evaluates, needs, optional
from .nodes import OnnxNode, axis_of

_Reduction = Callable[[np.ndarray, tuple[int, ...] | None], np.ndarray]


def _log_sum_exp(x: np.ndarray, axes: tuple[int, ...] | None) -> np.ndarray:
    most = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
    most = np.where(np.isfinite(most), most, 0)
    total = np.sum(np.exp(x - most), axis=axes, keepdims=True)
    return np.asarray(np.log(total) + most)


def _sum(x: np.ndarray, axes: tuple[int, ...] | None) -> np.ndarray:
    return np.asarray(np.sum(x, axis=axes, keepdims=True, dtype=x.dtype))


def _mean(x: np.ndarray, axes: tuple[int, ...] | None) -> np.ndarray:
    """Of nothing 0, which ONNX leaves open: as ONNX Runtime, and torch's bags of embeddings."""
    mean = np.mean if x.size else np.sum
    return np.asarray(mean(x, axis=axes, keepdims=True, dtype=_wide(x.dtype)))


_REDUCTIONS: dict[str, _Reduction] = {
    "ReduceSum": _sum,
    "ReduceMax": lambda x, a: np.max(x, axis=a, keepdims=True, initial=_least(x.dtype)),
    "ReduceMin": lambda x, a: np.min(x, axis=a, keepdims=True, initial=_most(x.dtype)),
    "ReduceMean": _mean,
    "ReduceProd": lambda x, a: np.prod(x, axis=a, keepdims=True, dtype=x.dtype),
    "ReduceL1": lambda x, a: _sum(np.abs(x), a),
    "ReduceL2": lambda x, a: np.sqrt(_sum(np.square(x.astype(_wide(x.dtype))), a)),
    "ReduceLogSum": lambda x, a: np.log(_sum(x, a)),
    "ReduceLogSumExp": lambda x, a: _log_sum_exp(x.astype(_wide(x.dtype)), a),
    "ReduceSumSquare": lambda x, a: _sum(np.square(x), a),
}


def _wide(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.float64) if dtype.kind in "iu" else dtype


def _least(dtype: np.dtype) -> Any:
    if dtype.kind == "b":
        return False
    return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


def _most(dtype: np.dtype) -> Any:
    if dtype.kind == "b":
        return True
    return np.iinfo(dtype).max if dtype.kind in "iu" else np.inf


@evaluates(*_REDUCTIONS)
def reduce(node: OnnxNode, args: Given, budget: Budget) -> Found:
    x = needs(args, 0)
    if x.dtype.kind not in "fiub":
        return None
    given = axes_of(node, args)
    if not given and node.integer("noop_with_empty_axes"):
        return _REDUCTIONS[node.op](x[..., None], (x.ndim,))[..., 0].astype(x.dtype)
    axes = tuple(axis_of(a, x.ndim) for a in given) if given else tuple(range(x.ndim))
    if len(set(axes)) != len(axes):
        raise ValueError(f"axes {given} name a dimension twice")
    # Squares and the like, in twice the width.
    budget.array(x.shape, np.dtype(f"V{max(2 * x.dtype.itemsize, 8)}"), "what is reduced")
    found = _REDUCTIONS[node.op](x, axes) if axes else _REDUCTIONS[node.op](x[None], (0,))[0]
    if not node.integer("keepdims", 1) and axes:
        found = np.squeeze(found, axes)
    return np.asarray(found).astype(x.dtype)


@evaluates("ArgMax", "ArgMin")
def arg_extreme(node: OnnxNode, args: Given, budget: Budget) -> Found:
    x = needs(args, 0)
    axis = axis_of(node.integer("axis"), x.ndim)
    budget.work(x.size)
    if not x.flags.c_contiguous:
        budget.array(x.shape, x.dtype, "what is searched")
    find = np.argmax if node.op == "ArgMax" else np.argmin
    if node.integer("select_last_index"):
        found = x.shape[axis] - 1 - find(np.flip(x, axis), axis)
    else:
        found = find(x, axis)
    found = np.asarray(found, np.int64)
    return np.expand_dims(found, axis) if node.integer("keepdims", 1) else found


@evaluates("Softmax", "LogSoftmax")
def softmax(node: OnnxNode, args: Given, budget: Budget) -> Found:
    x = needs(args, 0)
    if x.dtype.kind != "f":
        return None
    axis = axis_of(node.integer("axis", 1 if node.version < 13 else -1), x.ndim)
    axes = tuple(range(axis, x.ndim)) if node.version < 13 else (axis,)
    budget.array(x.shape, x.dtype, copies=3)
    shifted = x - np.max(x, axis=axes, keepdims=True)
    powers = np.exp(shifted)
    total = np.sum(powers, axis=axes, keepdims=True)
    return np.asarray(powers / total if node.op == "Softmax" else shifted - np.log(total))


def _product(a: np.ndarray, b: np.ndarray, budget: Budget) -> np.ndarray:
    """numpy's matmul, with its size known before."""
    if a.ndim == 0 or b.ndim == 0:
        raise ValueError("a product with a scalar")
    left = a.shape if a.ndim > 1 else (1, *a.shape)
    right = b.shape if b.ndim > 1 else (*b.shape, 1)
    if left[-1] != right[-2]:
        raise ValueError(f"cannot multiply {list(a.shape)} by {list(b.shape)}")
    shape = (*np.broadcast_shapes(left[:-2], right[:-2]), left[-2], right[-1])
    budget.array(shape, np.result_type(a, b), f"a product of shape {list(shape)}")
    # Integers are multiplied without a library, many times slower.
    budget.work(math.prod(shape) * left[-1] * (1 if a.dtype.kind == "f" else 4))
    for x in (a, b):
        if not x.flags.c_contiguous:
            budget.array(x.shape, x.dtype, "a factor")
    return np.asarray(np.matmul(a, b))


@evaluates("MatMul", view=True)
def matmul(node: OnnxNode, args: Given, budget: Budget) -> Found:
    a, b = needs(args, 0), needs(args, 1)
    return None if a.dtype.kind not in "fiu" else _product(a, b, budget)


@evaluates("Gemm", view=True)
def gemm(node: OnnxNode, args: Given, budget: Budget) -> Found:
    a, b, bias = needs(args, 0), needs(args, 1), optional(args, 2)
    if a.ndim != 2 or b.ndim != 2 or a.dtype.kind not in "fiu":
        return None
    a = a.T if node.integer("transA") else a
    b = b.T if node.integer("transB") else b
    y = _product(a, b, budget)
    budget.array(y.shape, np.float64, copies=2)
    y = y * y.dtype.type(node.number("alpha", 1.0)) if y.dtype.kind == "f" else y
    if bias is None or node.number("beta", 1.0) == 0:
        return y
    if y.dtype.kind != "f":
        if node.number("alpha", 1.0) != 1 or node.number("beta", 1.0) != 1:
            return None
        return np.asarray(y + bias)
    beta = y.dtype.type(node.number("beta", 1.0))
    return np.asarray(y + np.broadcast_to(bias, y.shape) * beta)
