"""Shorthand that the lowering functions share."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..shorthand import Shorthand, number, u32
from .infer import broadcast
from .nodes import Lowering
from .values import Value, constant


def unary(
    c: Lowering, type_: str, x: Value, dtype: np.dtype | None = None, **params: object
) -> Value:
    """An operation on every element by itself: works in any order, and below a pending reshape."""
    if x.base is not None:
        inner = unary(c, type_, x.base, dtype, **params)
        return Value(x.shape, inner.dtype, perm=x.perm, base=inner)
    return c.b.op(type_, [x], x.shape, dtype, x.perm, **params)


def nary(
    c: Lowering,
    type_: str,
    values: Sequence[Value],
    dtype: np.dtype | None = None,
    result_of: int = 0,
    **params: object,
) -> Value:
    """An operation that broadcasts its inputs."""
    aligned, perm = c.b.align(values)
    shape = broadcast(*[v.shape for v in values])
    dtype = np.dtype(dtype) if dtype is not None else values[result_of].dtype
    return c.b.op(type_, aligned, shape, dtype, perm, **params)


_short: Shorthand[Lowering, Value] = Shorthand(constant, unary, nary)
add = _short.add
cast = _short.cast
div = _short.div
mul = _short.mul
plus = _short.plus
scalar = _short.scalar
sub = _short.sub
times = _short.times


def widened(c: Lowering, x: Value) -> Value:
    """For powers and their sums, which are beyond half precision where roots of them are not."""
    return cast(c, x, np.dtype(np.float32)) if x.dtype == np.float16 else x


def select(c: Lowering, condition: Value, a: Value, b: Value) -> Value:
    return nary(c, "ElementWiseSelect", [condition, a, b], a.dtype)


def reduce(c: Lowering, type_: str, x: Value, axes: Sequence[int], keep: bool = True) -> Value:
    """A Reduce* over logical `axes`, in the order that `x` is held in."""
    x = c.b.real(x)
    axes = sorted(axes)
    at = sorted(x.perm.index(a) for a in axes)
    shape = [1 if i in axes else d for i, d in enumerate(x.shape)]
    perm = x.perm
    if not keep and len(axes) == x.rank:  # QNN has no tensors of rank 0
        return c.b.reshape(reduce(c, type_, x, axes), ())
    if not keep:
        left = [i for i in range(x.rank) if i not in axes]
        shape = [x.shape[i] for i in left]
        perm = tuple(left.index(p) for p in x.perm if p in left)
    return c.b.op(type_, [x], shape, None, perm, axes=u32(at), keep_dims=np.bool_(keep))


def places(c: Lowering, size: int) -> np.ndarray:
    """0, 1, ... along a dimension: of a size that the file only has as a number."""
    c.budget.array((size,), np.int64, f"the places along a dimension of {size}", copies=3)
    return np.arange(size)


def gather_const(c: Lowering, x: Value, index: np.ndarray, axis: int) -> Value:
    """`x` along logical `axis` at constant indices (one dimension), in the order it is held in."""
    x = c.b.real(x)
    shape = (*x.shape[:axis], index.size, *x.shape[axis + 1 :])
    at = np.int32(x.perm.index(axis))
    return c.b.op("Gather", [x, constant(index.astype(np.int32))], shape, None, x.perm, axis=at)


def concat(c: Lowering, values: Sequence[Value], axis: int) -> Value:
    """Along logical `axis`, in the order that most of the data is held in."""
    values = [v for v in values if 0 not in v.shape] or [values[0]]
    if len(values) == 1:
        return values[0]
    aligned, perm = c.b.align(values)
    shape = list(values[0].shape)
    shape[axis] = sum(v.shape[axis] for v in values)
    return c.b.op("Concat", aligned, shape, None, perm, axis=np.uint32(perm.index(axis)))


def strided(c: Lowering, x: Value, ranges: dict[int, tuple[int, int, int]]) -> Value:
    """x[begin:end:step] along the logical axes in `ranges`; end -1 with a negative step: through
    the first element."""
    x = c.b.real(x)
    full = [ranges.get(i, (0, d, 1)) for i, d in enumerate(x.shape)]
    shape = [max(math.ceil((e - b) / s), 0) for b, e, s in full]
    if tuple(shape) == x.shape and all(s == 1 for _, _, s in full):
        return x
    if 0 in shape:
        return constant(np.zeros(shape, x.dtype))
    return c.b.op(
        "StridedSlice",
        [x],
        shape,
        None,
        x.perm,
        ranges=np.array([full[p] for p in x.perm], np.int32),
    )


def cropped(
    c: Lowering, x: Value, pads: Sequence[tuple[int, int]]
) -> tuple[Value, list[tuple[int, int]]]:
    """What negative amounts of padding leave of `x`, and the amounts without them."""
    crop = {
        i: (max(-b, 0), x.shape[i] - max(-e, 0), 1)
        for i, (b, e) in enumerate(pads)
        if b < 0 or e < 0
    }
    x = strided(c, x, crop) if crop else x
    return x, [(max(b, 0), max(e, 0)) for b, e in pads]


def pad_constant(c: Lowering, x: Value, pads: Sequence[tuple[int, int]], value: float) -> Value:
    """Zero padding and the like on logical dimensions; negative amounts crop."""
    x, pads = cropped(c, c.b.real(x), pads)
    if not any(map(any, pads)):
        return x
    if 0 in x.shape:  # nothing is left of it
        shape = tuple(d + b + e for d, (b, e) in zip(x.shape, pads, strict=True))
        c.budget.array(shape, x.dtype, "padding")
        return constant(np.full(shape, value, x.dtype))
    return pad_op(c, x, pads, scheme=np.uint32(0), pad_constant_value=number(value, x.dtype))


def pad_op(c: Lowering, x: Value, pads: Sequence[tuple[int, int]], **params: object) -> Value:
    """A Pad by `pads` of the logical dimensions, in the order that `x` is held in."""
    shape = [d + b + e for d, (b, e) in zip(x.shape, pads, strict=True)]
    amounts = u32([pads[p] for p in x.perm])
    return c.b.op("Pad", [x], shape, None, x.perm, pad_amount=amounts, **params)
