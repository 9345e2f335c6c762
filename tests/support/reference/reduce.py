"""Reductions, indices of extremes, running sums and TopK."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qnnrt.model import Node

from .registry import OPS, flag, integer, ints, op

REDUCE: dict[str, Callable[..., np.ndarray]] = {
    "Max": np.max, "Min": np.min, "Sum": np.sum, "Mean": np.mean, "Prod": np.prod,
    "SumSquare": lambda x, **how: np.sum(x * x, **how),
}  # fmt: skip


def _reducer(fn: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    def reduce(n: Node, x: np.ndarray) -> np.ndarray:
        wide = x.astype({"i": np.int64, "u": np.uint64}.get(x.dtype.kind, x.dtype))
        axes = tuple(ints(n, "axes").tolist())
        return np.asarray(fn(wide, axis=axes, keepdims=flag(n, "keep_dims")))

    return reduce


OPS |= {f"Reduce{name}": _reducer(fn) for name, fn in REDUCE.items()}


@op("Argmax", "Argmin")
def extreme(n: Node, x: np.ndarray) -> np.ndarray:
    find = np.argmax if n.type == "Argmax" else np.argmin
    return np.asarray(find(x, integer(n, "axis"), keepdims=flag(n, "keep_dims")))


@op("TopK")
def top_k(n: Node, x: np.ndarray) -> list[np.ndarray]:
    key = x.astype(np.float64) * (-1 if flag(n, "largest", True) else 1)
    order = np.argsort(key, -1, kind="stable")[..., : integer(n, "k")]
    return [np.take_along_axis(x, order, -1), order]


@op("CumulativeSum")
def cumulative_sum(n: Node, x: np.ndarray) -> np.ndarray:
    axis = integer(n, "axis")
    y = np.flip(x, axis) if flag(n, "reverse") else x
    total = np.cumsum(y, axis)
    total = total - y if flag(n, "exclusive") else total
    return np.flip(total, axis) if flag(n, "reverse") else total
