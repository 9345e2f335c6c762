"""Operators that move or repeat elements, on constants."""

from __future__ import annotations

import math

import numpy as np

from ..budget import Budget
from .fold_table import Found, Given, axes_of, evaluates, integers, needs, optional, whole
from .nodes import OnnxNode, axis_of
from .values import uniform


def bounds(start: int, end: int, step: int, size: int) -> tuple[int, int | None]:
    """ONNX's start and end, clamped, as Python's slice takes them."""
    if step == 0:
        raise ValueError("a slice step is 0")
    start = start + size if start < 0 else start
    end = end + size if end < 0 else end
    if step > 0:
        return min(max(start, 0), size), min(max(end, 0), size)
    # Backwards from before the first element is from the first one, in ONNX, not in Python.
    end = max(end, -1)
    return min(max(start, 0), size - 1), None if end < 0 else min(end, size - 1)


def reshape_target(shape: tuple[int, ...], wanted: list[int], allowzero: bool) -> tuple[int, ...]:
    """ONNX's rule: 0 copies the dimension (unless allowzero), one -1 is inferred."""
    out = [
        int(shape[i]) if d == 0 and not allowzero and i < len(shape) else int(d)
        for i, d in enumerate(wanted)
    ]
    if out.count(-1) == 1:
        rest = math.prod(d for d in out if d != -1)
        out[out.index(-1)] = math.prod(shape) // rest if rest else 0
    if any(d < 0 for d in out) or math.prod(out) != math.prod(shape):
        raise ValueError(f"cannot reshape {list(shape)} to {wanted}")
    return tuple(out)


def _reshaped(x: np.ndarray, shape: tuple[int, ...], budget: Budget) -> np.ndarray:
    if uniform(x):
        return np.broadcast_to(x[(0,) * x.ndim], shape)
    return whole(x, budget).reshape(shape)


@evaluates("Reshape", view=True)
def reshape(node: OnnxNode, args: Given, budget: Budget) -> Found:
    x = needs(args, 0)
    wanted = integers(needs(args, 1))
    return _reshaped(x, reshape_target(x.shape, wanted, bool(node.integer("allowzero"))), budget)


@evaluates("Flatten", view=True)
def flatten(node: OnnxNode, args: Given, budget: Budget) -> Found:
    x = needs(args, 0)
    axis = node.integer("axis", 1)
    if not -x.ndim <= axis <= x.ndim:
        raise ValueError(f"axis {axis} for a tensor of rank {x.ndim}")
    axis = axis + x.ndim if axis < 0 else axis
    return _reshaped(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])), budget)


@evaluates("Unsqueeze", view=True)
def unsqueeze(node: OnnxNode, args: Given, budget: Budget) -> Found:
    return np.expand_dims(needs(args, 0), tuple(axes_of(node, args) or []))


@evaluates("Squeeze", view=True)
def squeeze(node: OnnxNode, args: Given, budget: Budget) -> Found:
    axes = axes_of(node, args)
    return np.squeeze(needs(args, 0), None if axes is None else tuple(axes))


@evaluates("Transpose", view=True)
def transpose(node: OnnxNode, args: Given, budget: Budget) -> Found:
    return needs(args, 0).transpose(node.integers("perm"))


@evaluates("Slice", view=True)
def cut(node: OnnxNode, args: Given, budget: Budget) -> Found:
    x = needs(args, 0)
    if len(args) > 1:
        starts, ends = integers(needs(args, 1)), integers(needs(args, 2))
        axes, steps = (optional(args, i) for i in (3, 4))
        where = list(range(len(starts))) if axes is None else integers(axes)
        by = [1] * len(starts) if steps is None else integers(steps)
    else:
        starts, ends = node.integers("starts") or [], node.integers("ends") or []
        where, by = node.integers("axes") or list(range(len(starts))), [1] * len(starts)
    index = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, where, by, strict=True):
        at = axis_of(axis, x.ndim)
        index[at] = slice(*bounds(start, end, step, x.shape[at]), step)
    return x[tuple(index)]


@evaluates("Split", view=True)
def split(node: OnnxNode, args: Given, budget: Budget) -> Found:
    x = needs(args, 0)
    axis = axis_of(node.integer("axis"), x.ndim)
    given = optional(args, 1)
    sizes = node.integers("split") if given is None else integers(given)
    count = len(node.outputs)
    if sizes is None:
        each = -(-x.shape[axis] // count)
        sizes = [min(each, max(x.shape[axis] - i * each, 0)) for i in range(count)]
    if sum(sizes) != x.shape[axis] or len(sizes) != count or min(sizes) < 0:
        raise ValueError(f"split {sizes} of {x.shape[axis]} into {count} outputs")
    return np.split(x, np.cumsum(sizes)[:-1].tolist(), axis)


@evaluates("Concat")
def concat(node: OnnxNode, args: Given, budget: Budget) -> Found:
    return np.concatenate([needs(args, i) for i in range(len(args))], axis=node.integer("axis", 1))


@evaluates("Tile", view=True)
def tile(node: OnnxNode, args: Given, budget: Budget) -> Found:
    x, repeats = needs(args, 0), integers(needs(args, 1))
    if len(repeats) != x.ndim or any(r < 0 for r in repeats):
        raise ValueError(f"repeats {repeats} for a tensor of rank {x.ndim}")
    shape = tuple(d * r for d, r in zip(x.shape, repeats, strict=True))
    if uniform(x):
        return np.broadcast_to(x[(0,) * x.ndim], shape)
    # numpy repeats one dimension after the other: two arrays of up to this size at a time.
    budget.array(shape, x.dtype, f"Tile of shape {list(shape)}", copies=2)
    return np.tile(x, repeats)


@evaluates("Pad", view=True)
def pad(node: OnnxNode, args: Given, budget: Budget) -> Found:
    x = needs(args, 0)
    given, value, axes = (optional(args, i) for i in (1, 2, 3))
    pads = node.integers("pads") if given is None else integers(given)
    where = list(range(x.ndim)) if axes is None else [axis_of(a, x.ndim) for a in integers(axes)]
    mode = node.text("mode", "constant")
    if pads is None or len(pads) != 2 * len(where) or len(set(where)) != len(where):
        raise ValueError(f"pads {pads} for the axes {where}")
    amounts = [(0, 0)] * x.ndim
    for i, axis in enumerate(where):
        amounts[axis] = (pads[i], pads[i + len(where)])
    crop = []
    for (begin, end), size in zip(amounts, x.shape, strict=True):
        if size + min(begin, 0) + min(end, 0) < 0:
            raise ValueError(f"pads {pads} for a tensor of shape {list(x.shape)}")
        crop.append(slice(max(-begin, 0), size - max(-end, 0)))
    x = x[tuple(crop)]
    grown = [(max(b, 0), max(e, 0)) for b, e in amounts]
    shape = [d + b + e for d, (b, e) in zip(x.shape, grown, strict=True)]
    # numpy pads one dimension after the other, with indices for modes other than a constant.
    budget.array(shape, x.dtype, f"Pad of shape {shape}", copies=2)
    if mode == "constant":
        fill = value.reshape(-1)[0] if value is not None and value.size else node.number("value")
        return np.pad(x, grown, constant_values=np.asarray(fill).astype(x.dtype))
    if mode not in ("reflect", "edge", "wrap"):
        raise ValueError(f"mode {mode!r}")
    if 0 in x.shape and any(map(any, grown)):
        raise ValueError("nothing can be repeated of a tensor without elements")
    budget.array([64 * max(map(sum, grown), default=0)], np.int64, "indices for Pad")
    return np.pad(x, grown, mode)  # type: ignore[call-overload, no-any-return]


@evaluates("DepthToSpace", "SpaceToDepth")
def blocks(node: OnnxNode, args: Given, budget: Budget) -> Found:
    x, size = needs(args, 0), node.integer("blocksize")
    if x.ndim != 4 or size < 1:
        raise ValueError(f"blocks of {size} of a tensor of shape {list(x.shape)}")
    n, depth, height, width = x.shape
    if node.op == "SpaceToDepth":
        parts = x.reshape(n, depth, height // size, size, width // size, size)
        crd = node.text("mode", "DCR") == "CRD"
        moved = parts.transpose((0, 1, 3, 5, 2, 4) if crd else (0, 3, 5, 1, 2, 4))
        return moved.reshape(n, depth * size * size, height // size, width // size)
    left = depth // (size * size)
    if node.text("mode", "DCR") == "DCR":
        moved = x.reshape(n, size, size, left, height, width).transpose(0, 3, 4, 1, 5, 2)
    else:
        moved = x.reshape(n, left, size, size, height, width).transpose(0, 1, 4, 2, 5, 3)
    return moved.reshape(n, left, height * size, width * size)
