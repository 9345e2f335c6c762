"""Operations that move or concatenate elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..shorthand import u32
from .common import (
    concat,
    cropped,
    gather_const,
    pad_constant,
    pad_op,
    places,
    select,
    strided,
)
from .fold_table import integers
from .infer import Shape
from .infer_shape import pad_amounts, slice_ranges
from .nodes import Lowering, OnnxNode, Result, Unsupported, axis_of, lowers
from .values import Value, constant

# Pad's scheme codes.
_SCHEMES = {"reflect": np.uint32(2), "edge": np.uint32(3)}


@lowers("Flatten", "Reshape", "Squeeze", "Unsqueeze", to="Reshape")
def reshape(c: Lowering, n: OnnxNode) -> Value:
    return c.b.reshape(n.input(0), n.shape())


@lowers("Transpose", to="Transpose")
def transpose(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    return c.b.transpose(x, n.integers("perm") or list(range(x.rank))[::-1])


@lowers("Concat", to="Concat")
def lower_concat(c: Lowering, n: OnnxNode) -> Value:
    values = [n.input(i) for i in range(len(n.inputs))]
    return concat(c, values, axis_of(n.integer("axis", 1), values[0].rank))


@lowers("Split", to="Split")
def split(c: Lowering, n: OnnxNode) -> Result:
    x = c.b.real(n.input(0))
    axis = axis_of(n.integer("axis"), x.rank)
    shapes = [n.shape(i) for i in range(len(n.outputs))]
    if len(shapes) == 1:
        return x
    if any(0 in s for s in shapes):  # an empty part has no tensor; QNN's split has the others
        filled = [s for s in shapes if 0 not in s]
        rest = iter(_split(c, x, axis, filled) if len(filled) > 1 else [x])
        return [constant(np.zeros(s, x.dtype)) if 0 in s else next(rest) for s in shapes]
    return [*_split(c, x, axis, shapes)]


def _split(c: Lowering, x: Value, axis: int, shapes: Sequence[tuple[int, ...]]) -> list[Value]:
    perm, sizes = x.perm, [s[axis] for s in shapes]
    edges = c.b.raw(
        "Split",
        [c.b.edge(x)],
        [(tuple(s[p] for p in perm), x.dtype) for s in shapes],
        {"axis": np.uint32(perm.index(axis)), "split_index": u32(np.cumsum(sizes)[:-1])},
    )
    return [Value(s, x.dtype, e, perm) for s, e in zip(shapes, edges, strict=True)]


@lowers("Slice", to="StridedSlice")
def lower_slice(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    n.shape()  # known, so its parameters are
    ranges: dict[int, tuple[int, int, int]] = {}
    for axis, taken in slice_ranges(n).items():
        if taken.step < 0:
            index = taken.start + taken.step * places(c, len(taken))
            x = gather_const(c, x, index, axis)
        else:
            ranges[axis] = (taken.start, taken.stop, taken.step)
    return strided(c, x, ranges)


@lowers("Pad", to="Pad, StridedSlice, Concat")
def pad(c: Lowering, n: OnnxNode) -> Value:
    x = c.b.real(n.input(0))
    mode = n.text("mode", "constant")
    if n.version < 11:
        value = n.number("value")
    else:
        given = n.const_input(2, "constant_value")
        value = 0.0 if given is None else given.reshape(-1)[0].item() if given.size else 0.0
    n.shape()  # known, so the amounts are
    pads = pad_amounts(n)
    if mode == "constant":
        return pad_constant(c, x, pads, value)
    x, pads = cropped(c, x, pads)
    if any(d == 0 and max(p) > 0 for p, d in zip(pads, x.shape, strict=True)):
        raise ValueError(f"mode {mode!r} has nothing to repeat: {pads} of {list(x.shape)}")
    if mode == "wrap":
        for axis, (before, after) in enumerate(pads):
            size = x.shape[axis]
            if max(before, after) <= size:  # runs, each of which is copied as such
                ends = [(size - before, size), (0, size), (0, after)]
                parts = [strided(c, x, {axis: (b, e, 1)}) for b, e in ends if b < e]
                x = concat(c, parts, axis)
            else:
                c.budget.array((size + before + after,), np.int64, "indices", copies=3)
                x = gather_const(c, x, np.arange(-before, size + after) % size, axis)
        return x
    if not any(map(any, pads)):
        return x
    if mode == "reflect" and any(max(p) >= d for p, d in zip(pads, x.shape, strict=True)):
        raise Unsupported(f"reflected padding {pads} of {list(x.shape)}: more than there is")
    return pad_op(c, x, pads, scheme=_SCHEMES[mode])


@lowers("Tile", to="Tile")
def tile(c: Lowering, n: OnnxNode) -> Value:
    x = c.b.real(n.input(0))
    return repeated(c, x, n.shape())


@lowers("Expand", to="Tile")
def expand(c: Lowering, n: OnnxNode) -> Value:
    return broadcast_to(c, n.input(0), n.shape())


def repeated(c: Lowering, x: Value, shape: Shape) -> Value:
    """`x` as often as it takes to fill `shape`, whose sizes are multiples of its own."""
    if x.shape == shape:
        return x
    counts = [w // d for w, d in zip(shape, x.shape, strict=True)]
    return c.b.op("Tile", [x], shape, None, x.perm, multiples=u32([counts[p] for p in x.perm]))


def broadcast_to(c: Lowering, x: Value, shape: Shape) -> Value:
    if x.data is not None:
        c.b.not_alike()
        return constant(np.broadcast_to(x.data, shape))
    if x.rank < len(shape):
        x = c.b.reshape(x, (1,) * (len(shape) - x.rank) + x.shape)
    return repeated(c, c.b.real(x), shape)


@lowers("DepthToSpace", to="DepthToSpace")
@lowers("SpaceToDepth", to="SpaceToDepth")
def depth_to_space(c: Lowering, n: OnnxNode) -> Value:
    x = c.b.channels_last(n.input(0))
    block = u32([n.integer("blocksize")] * 2)
    mode = np.uint32(0 if n.text("mode", "DCR") == "DCR" else 1)
    return c.b.op(n.op, [x], n.shape(), None, x.perm, block_size=block, mode=mode)


@lowers("Trilu", to="ElementWiseSelect")
def trilu(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    k = n.const_input(1, "k")
    offset = 0 if k is None else int(k.reshape(()))
    from .fold_make import triangle

    mask = triangle(x.shape[-2:], offset, bool(n.integer("upper", 1)), c.budget)
    return select(c, constant(mask), x, constant(np.zeros((), x.dtype)))


@lowers("Compress", to="Gather")
def compress(c: Lowering, n: OnnxNode) -> Value:
    x, chosen = n.input(0), n.const_input(1, "condition")
    assert chosen is not None
    if n.attrs.get("axis") is None:
        x, axis = c.b.reshape(x, (math.prod(x.shape),)), 0
    else:
        axis = axis_of(n.integer("axis"), x.rank)
    return gather_const(c, x, np.flatnonzero(chosen), axis)


@lowers("ReverseSequence", to="Gather, Concat, or GatherNd")
def reverse_sequence(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    lengths = n.const_input(1, "sequence_lens")
    assert lengths is not None
    batch, time = n.integer("batch_axis", 1), n.integer("time_axis")
    rows = []
    for i, length in enumerate(integers(lengths)):
        row = strided(c, x, {batch: (i, i + 1, 1)})
        index = places(c, x.shape[time])
        index[:length] = index[:length][::-1]
        rows.append(gather_const(c, row, index, time))
    return concat(c, rows, batch)
