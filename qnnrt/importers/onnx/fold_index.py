"""Operators that read and write at indices, sort and count, on constants."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..budget import Budget
from .fold_table import Found, Given, evaluates, needs, optional
from .nodes import OnnxNode, axis_of


def _inside(index: np.ndarray, size: int | np.ndarray) -> np.ndarray:
    """Indices counted from the start; they have to be inside of `size`."""
    limit = np.asarray(size, np.int64)
    at = index.astype(np.int64)
    if np.any((at < -limit) | (at >= limit)):
        raise ValueError(f"an index is outside of {limit.ravel()[:8].tolist()}")
    return np.where(at < 0, at + limit, at)


@evaluates("Gather")
def gather(node: OnnxNode, args: Given, budget: Budget) -> Found:
    x, index = needs(args, 0), needs(args, 1)
    axis = axis_of(node.integer("axis"), x.ndim)
    shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    if not node.types or node.types[0] is None:
        budget.array(shape, x.dtype)
    budget.array(index.shape, np.int64, copies=2)
    return np.take(x, _inside(index, x.shape[axis]), axis)


@evaluates("GatherElements")
def gather_elements(node: OnnxNode, args: Given, budget: Budget) -> Found:
    x, index = needs(args, 0), needs(args, 1)
    axis = axis_of(node.integer("axis"), x.ndim)
    where = _grid(x, index, axis, budget)
    return np.asarray(x[where])


def _grid(x: np.ndarray, index: np.ndarray, axis: int, budget: Budget) -> tuple[np.ndarray, ...]:
    """For every element of `index`, its place in `x`: its own, but for `axis`."""
    fits = index.ndim == x.ndim and all(
        i <= d for a, (i, d) in enumerate(zip(index.shape, x.shape, strict=False)) if a != axis
    )
    if not fits:
        raise ValueError(f"indices of shape {list(index.shape)} for {list(x.shape)}")
    budget.array(index.shape, np.int64, "indices", copies=2)
    where = list(np.ogrid[tuple(slice(d) for d in index.shape)])
    where[axis] = _inside(index, x.shape[axis])
    return tuple(where)


@evaluates("GatherND")
def gather_nd(node: OnnxNode, args: Given, budget: Budget) -> Found:
    x, index = needs(args, 0), needs(args, 1)
    batch = node.integer("batch_dims")
    if not 0 <= batch < min(x.ndim, max(index.ndim, 1)) or x.shape[:batch] != index.shape[:batch]:
        raise ValueError(f"batch_dims {batch} for {list(x.shape)} and {list(index.shape)}")
    depth = index.shape[-1] if index.ndim else 0
    if not 1 <= depth <= x.ndim - batch:
        raise ValueError(f"{depth} indices for each element of {list(x.shape)}")
    budget.array(index.shape, np.int64, "indices", copies=2)
    at = _inside(index, np.array(x.shape[batch : batch + depth], np.int64))
    outer = np.ogrid[tuple(slice(d) for d in index.shape[:batch])] if batch else ()
    lead = [g.reshape(g.shape + (1,) * (index.ndim - 1 - batch)) for g in outer]
    shape = (*index.shape[:-1], *x.shape[batch + depth :])
    budget.array(shape, x.dtype)
    return np.asarray(x[(*lead, *(at[..., i] for i in range(depth)))])


_REDUCTIONS: dict[str, Callable[..., None]] = {
    "add": np.add.at,
    "mul": np.multiply.at,
    "max": np.maximum.at,
    "min": np.minimum.at,
}


def _write(
    node: OnnxNode,
    x: np.ndarray,
    where: tuple[np.ndarray, ...],
    updates: np.ndarray,
    budget: Budget,
) -> Found:
    how = node.text("reduction", "none")
    if how != "none" and how not in _REDUCTIONS:
        raise ValueError(f"reduction {how!r}")
    budget.work(20 * updates.size)
    found = np.array(x)
    if how == "none":
        found[where] = updates
    else:
        _REDUCTIONS[how](found, where, updates)
    return found


@evaluates("ScatterElements", "Scatter")
def scatter_elements(node: OnnxNode, args: Given, budget: Budget) -> Found:
    x, index, updates = (needs(args, i) for i in range(3))
    if updates.shape != index.shape:
        raise ValueError(f"updates of shape {list(updates.shape)} for {list(index.shape)} indices")
    axis = axis_of(node.integer("axis"), x.ndim)
    return _write(node, x, _grid(x, index, axis, budget), updates, budget)


@evaluates("ScatterND")
def scatter_nd(node: OnnxNode, args: Given, budget: Budget) -> Found:
    x, index, updates = (needs(args, i) for i in range(3))
    depth = index.shape[-1] if index.ndim else 0
    if not 1 <= depth <= x.ndim or updates.shape != (*index.shape[:-1], *x.shape[depth:]):
        raise ValueError(
            f"indices of shape {list(index.shape)} and updates of {list(updates.shape)} for "
            f"{list(x.shape)}"
        )
    budget.array(index.shape, np.int64, "indices", copies=2)
    at = _inside(index, np.array(x.shape[:depth], np.int64))
    return _write(node, x, tuple(at[..., i] for i in range(depth)), updates, budget)


@evaluates("NonZero")
def non_zero(node: OnnxNode, args: Given, budget: Budget) -> Found:
    x = needs(args, 0)
    budget.work(x.size)
    found = int(np.count_nonzero(x))
    budget.array([2, max(x.ndim, 1), found], np.int64, f"the places of {found} elements")
    if x.ndim == 0:
        return np.zeros((0, found), np.int64)
    return np.array(np.nonzero(x), np.int64).reshape(x.ndim, found)


@evaluates("Compress")
def compress(node: OnnxNode, args: Given, budget: Budget) -> Found:
    x, chosen = needs(args, 0), needs(args, 1)
    budget.array(x.shape, x.dtype)
    axis = node.attrs.get("axis")
    return np.compress(chosen.ravel(), x, None if axis is None else node.integer("axis"))


@evaluates("TopK")
def top_k(node: OnnxNode, args: Given, budget: Budget) -> Found:
    x = needs(args, 0)
    axis = axis_of(node.integer("axis", -1), x.ndim)
    given = optional(args, 1)
    k = node.integer("k") if given is None else int(given.reshape(()))
    if not 0 <= k <= x.shape[axis]:
        raise ValueError(f"the first {k} of {x.shape[axis]}")
    budget.array(x.shape, np.int64, "the order of its elements", copies=3)
    budget.work(20 * x.size)
    if node.integer("largest", 1):
        # Reversed twice, so that of equal elements the first comes first.
        last = x.shape[axis] - 1
        order = last - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis, kind="stable")
    order = np.take(order, np.arange(k), axis).astype(np.int64)
    return [np.take_along_axis(x, order, axis), order]


@evaluates("Unique")
def unique(node: OnnxNode, args: Given, budget: Budget) -> Found:
    x = needs(args, 0)
    if x.dtype.kind == "O":
        return None
    given = node.attrs.get("axis")
    axis = None if given is None else axis_of(node.integer("axis"), x.ndim)
    budget.array(x.shape, np.dtype("V64"), "its elements in order")
    budget.work(20 * x.size)
    y, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.reshape(-1)
    if not node.integer("sorted", 1):
        order = np.argsort(first)
        back = np.empty_like(order)
        back[order] = np.arange(order.size)
        y = np.take(y, order, 0 if axis is None else axis)
        first, counts, inverse = first[order], counts[order], back[inverse]
    rest = [v.astype(np.int64) for v in (first, inverse, counts)]
    return [y, *rest][: len(node.outputs)]


@evaluates("CumSum", "CumProd")
def cumulated(node: OnnxNode, args: Given, budget: Budget) -> Found:
    x, where = needs(args, 0), needs(args, 1)
    if where.size != 1:
        raise ValueError("the axis has to be one number")
    axis = axis_of(int(where.reshape(())), x.ndim)
    budget.array(x.shape, x.dtype)
    x = np.flip(x, axis) if node.integer("reverse") else x
    run = np.cumsum if node.op == "CumSum" else np.cumprod
    found = run(x, axis, dtype=x.dtype)
    if node.integer("exclusive") and x.shape[axis]:
        found = np.roll(found, 1, axis)
        first = [slice(None)] * x.ndim
        first[axis] = slice(0, 1)
        found[tuple(first)] = 0 if node.op == "CumSum" else 1
    return np.flip(found, axis) if node.integer("reverse") else found


@evaluates("ReverseSequence")
def reverse_sequence(node: OnnxNode, args: Given, budget: Budget) -> Found:
    x, lengths = needs(args, 0), needs(args, 1)
    batch, time = node.integer("batch_axis", 1), node.integer("time_axis")
    if sorted((batch, time)) != [0, 1] or x.ndim < 2 or lengths.shape != (x.shape[batch],):
        raise ValueError(f"lengths of shape {list(lengths.shape)} for {list(x.shape)}")
    if np.any(lengths < 0) or np.any(lengths > x.shape[time]):
        raise ValueError(f"a length is outside of {x.shape[time]}")
    budget.array((math.prod(x.shape[:2]),), np.int64, copies=2)
    steps = np.arange(x.shape[time])[:, None]
    at = np.where(steps < lengths, lengths - 1 - steps, steps)  # [time, batch]
    rows = np.arange(x.shape[batch])[None, :]
    return x[at, rows] if time == 0 else x[rows.T, at.T]
