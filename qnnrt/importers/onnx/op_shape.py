"""Operations that move or concatenate elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..shorthand import u32
from .common import concat, gather_const, pad_constant, pad_op, select, strided
from .fold_make import triangle
from .fold_shape import bounds, reshape_target
from .fold_table import integers
from .nodes import Lowering, OnnxNode, Result, Unsupported, axis_of, lowers
from .values import Value, constant

# Pad's scheme codes.
_SCHEMES = {"reflect": np.uint32(2), "edge": np.uint32(3)}


@lowers("Reshape", to="Reshape")
def reshape(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    shape = n.const_input(1, "shape")
    assert shape is not None
    return c.b.reshape(x, reshape_target(x.shape, integers(shape), bool(n.integer("allowzero"))))


@lowers("Flatten", to="Reshape")
def flatten(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    axis = n.integer("axis", 1)
    axis = axis + x.rank if axis < 0 else axis
    if not 0 <= axis <= x.rank:
        raise ValueError(f"axis {axis} for a tensor of rank {x.rank}")
    return c.b.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@lowers("Squeeze", "Unsqueeze", to="Reshape")
def squeeze(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    axes = n.axes("axes", 1)
    if n.op == "Squeeze":
        if axes is None:
            axes = [i for i, d in enumerate(x.shape) if d == 1]
        gone = {axis_of(a, x.rank) for a in axes}
        if any(x.shape[a] != 1 for a in gone):
            raise ValueError(f"squeeze of {sorted(gone)} from {list(x.shape)}")
        return c.b.reshape(x, [d for i, d in enumerate(x.shape) if i not in gone])
    axes = axes or []
    rank = x.rank + len(axes)
    new = {axis_of(a, rank) for a in axes}
    if len(new) != len(axes):
        raise ValueError(f"axes {axes} name a dimension twice")
    dims = iter(x.shape)
    return c.b.reshape(x, [1 if i in new else next(dims) for i in range(rank)])


@lowers("Transpose", to="Transpose")
def transpose(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    perm = n.integers("perm") or list(range(x.rank))[::-1]
    if sorted(perm) != list(range(x.rank)):
        raise ValueError(f"perm {perm} for a tensor of rank {x.rank}")
    return c.b.transpose(x, perm)


@lowers("Concat", to="Concat")
def lower_concat(c: Lowering, n: OnnxNode) -> Value:
    values = [n.input(i) for i in range(len(n.inputs))]
    return concat(c, values, axis_of(n.integer("axis", 1), values[0].rank))


@lowers("Split", to="Split")
def split(c: Lowering, n: OnnxNode) -> Result:
    x = c.b.real(n.input(0))
    axis = axis_of(n.integer("axis"), x.rank)
    sizes = n.axes("split", 1) or [n.shape(i)[axis] for i in range(len(n.outputs))]
    if sum(sizes) != x.shape[axis] or len(sizes) != len(n.outputs):
        raise ValueError(f"split {sizes} of {x.shape[axis]} into {len(n.outputs)} outputs")
    if len(sizes) == 1:
        return x
    shapes = [(*x.shape[:axis], s, *x.shape[axis + 1 :]) for s in sizes]
    if 0 in sizes:  # an empty part has no tensor; QNN's split has the others
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
    starts, ends = n.axes("starts", 1), n.axes("ends", 2)
    if starts is None or ends is None:
        raise Unsupported("starts and ends are missing")
    axes = n.axes("axes", 3) or list(range(len(starts)))
    steps = n.axes("steps", 4) or [1] * len(starts)
    ranges: dict[int, tuple[int, int, int]] = {}
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        axis = axis_of(axis, x.rank)
        begin, stop = bounds(start, end, step, x.shape[axis])
        if step < 0:
            index = np.arange(x.shape[axis])[begin:stop:step]
            if not index.size:
                return constant(np.zeros(n.shape(), x.dtype))
            x = gather_const(c, x, index, axis)
        else:
            assert stop is not None
            ranges[axis] = (begin, stop, step)
    return strided(c, x, ranges)


@lowers("Pad", to="Pad")
def pad(c: Lowering, n: OnnxNode) -> Value:
    x = c.b.real(n.input(0))
    amounts = n.axes("pads", 1)
    mode = n.text("mode", "constant")
    if n.version < 11:
        value = n.number("value")
    else:
        given = n.const_input(2, "constant_value")
        value = 0.0 if given is None else given.reshape(-1)[0].item() if given.size else 0.0
    axes = n.const_input(3, "axes")
    if amounts is None:
        raise Unsupported("pads is missing")
    where = list(range(x.rank))
    if axes is not None:
        where = [axis_of(int(a), x.rank) for a in axes.ravel()]
    if len(amounts) != 2 * len(where):
        raise ValueError(f"{len(amounts)} pads for {len(where)} axes")
    pads = [(0, 0)] * x.rank
    for i, axis in enumerate(where):
        pads[axis] = (amounts[i], amounts[i + len(where)])
    if mode == "constant":
        return pad_constant(c, x, pads, value)
    if any(p < 0 for pair in pads for p in pair):
        raise Unsupported(f"negative padding in mode {mode}")
    if mode == "wrap":
        for axis, (before, after) in enumerate(pads):
            if before or after:
                c.budget.array((x.shape[axis] + before + after,), np.int64, "indices", copies=3)
                index = np.arange(-before, x.shape[axis] + after) % x.shape[axis]
                x = gather_const(c, x, index, axis)
        return x
    if mode not in _SCHEMES:
        raise ValueError(f"mode {mode!r}")
    return pad_op(c, x, pads, scheme=_SCHEMES[mode])


@lowers("Tile", to="Tile")
def tile(c: Lowering, n: OnnxNode) -> Value:
    x = c.b.real(n.input(0))
    repeats = n.const_input(1, "repeats")
    assert repeats is not None
    counts = [int(r) for r in repeats.ravel()]
    shape = [d * r for d, r in zip(x.shape, counts, strict=True)]
    if 0 in shape:
        return constant(np.zeros(shape, x.dtype))
    if all(r == 1 for r in counts):
        return x
    return c.b.op("Tile", [x], shape, None, x.perm, multiples=u32([counts[p] for p in x.perm]))


@lowers("Expand", to="Tile")
def expand(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    wanted = n.const_input(1, "shape")
    assert wanted is not None
    return broadcast_to(c, x, np.broadcast_shapes(x.shape, tuple(int(d) for d in wanted.ravel())))


def broadcast_to(c: Lowering, x: Value, shape: Sequence[int]) -> Value:
    shape = tuple(shape)
    if x.data is not None:
        return constant(np.broadcast_to(x.data, shape))
    if x.rank < len(shape):
        x = c.b.reshape(x, (1,) * (len(shape) - x.rank) + x.shape)
    x = c.b.real(x)
    if x.shape == shape:
        return x
    counts = [w // d for w, d in zip(shape, x.shape, strict=True)]
    return c.b.op("Tile", [x], shape, None, x.perm, multiples=u32([counts[p] for p in x.perm]))


def _block(n: OnnxNode) -> tuple[np.ndarray, int]:
    size = n.integer("blocksize")
    if size < 1:
        raise ValueError(f"blocksize {size}")
    return u32([size, size]), size


@lowers("DepthToSpace", to="DepthToSpace")
def depth_to_space(c: Lowering, n: OnnxNode) -> Value:
    x = c.b.channels_last(n.input(0))
    block, size = _block(n)
    batch, depth, height, width = x.shape
    mode = np.uint32(0 if n.text("mode", "DCR") == "DCR" else 1)
    shape = (batch, depth // (size * size), height * size, width * size)
    return c.b.op("DepthToSpace", [x], shape, None, x.perm, block_size=block, mode=mode)


@lowers("SpaceToDepth", to="SpaceToDepth")
def space_to_depth(c: Lowering, n: OnnxNode) -> Value:
    x = c.b.channels_last(n.input(0))
    block, size = _block(n)
    batch, depth, height, width = x.shape
    mode = np.uint32(0 if n.text("mode", "DCR") == "DCR" else 1)
    shape = (batch, depth * size * size, height // size, width // size)
    return c.b.op("SpaceToDepth", [x], shape, None, x.perm, block_size=block, mode=mode)


@lowers("Trilu", to="ElementWiseSelect")
def trilu(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    k = n.const_input(1, "k")
    offset = 0 if k is None else int(k.reshape(()))
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


@lowers("ReverseSequence", to="Gather, Concat")
def reverse_sequence(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    lengths = n.const_input(1, "sequence_lens")
    assert lengths is not None
    batch, time = n.integer("batch_axis", 1), n.integer("time_axis")
    rows = []
    for i, length in enumerate(integers(lengths)):
        row = strided(c, x, {batch: (i, i + 1, 1)})
        index = np.arange(x.shape[time])
        index[:length] = index[:length][::-1]
        rows.append(gather_const(c, row, index, time))
    return concat(c, rows, batch)
