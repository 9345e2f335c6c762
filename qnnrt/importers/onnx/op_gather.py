"""Reading and writing at indices."""

from __future__ import annotations

import math

import numpy as np

from ...dtypes import is_float
from ..shorthand import number, u32
from .common import add, cast, mul, nary, reduce, scalar, select, unary
from .nodes import Lowering, OnnxNode, Unsupported, axis_of, lowers
from .values import Value, constant, identity

INT32 = np.iinfo(np.int32)

# ScatterElements' and ScatterNd's reduction codes.
_REDUCTIONS = {"none": 0, "add": 1, "mul": 2, "max": 3}
_MAX = np.uint32(3)


def indices(c: Lowering, v: Value, sizes: int | np.ndarray) -> Value:
    """Indices as every QNN backend takes them: 32 bit, not negative.

    `sizes` is the size of the indexed dimension, or one for each entry of the last axis.
    """
    limit = np.asarray(sizes, np.int64)
    if v.data is not None:
        data = v.data.astype(np.int64)
        if np.any(data < -limit) or np.any(data >= limit):
            raise ValueError(f"an index is outside of {limit.tolist()}")
        return constant(np.where(data < 0, data + limit, data).astype(np.int32))
    v = cast(c, v, np.dtype(np.int32))
    if v.edge not in c.b.signs.places:  # where nobody reads at them, they may lie anywhere
        for condition, is_ in c.conditions:
            either = [v, scalar(0, v.dtype)]
            v = select(c, c.b.reshape(condition, ()), *(either if is_ else either[::-1]))
    if v.edge is not None and c.b.signs.never_negative(v.edge):
        return v
    negative = nary(c, "ElementWiseLess", [v, scalar(0, v.dtype)], np.dtype(bool))
    return select(c, negative, add(c, v, constant(limit.astype(v.dtype))), v)


@lowers("Gather", to="Gather")
def gather(c: Lowering, n: OnnxNode) -> Value:
    x, index = c.b.real(n.input(0)), n.input(1)
    axis = axis_of(n.integer("axis"), x.rank)
    index = c.b.plain(indices(c, index, x.shape[axis]))
    shape = n.shape()
    flat = index
    if index.rank == 0:
        flat = c.b.reshape(index, (1,))
    if flat.rank > 1 and x.perm != identity(x.rank):
        x = c.b.plain(x)
    if flat.rank == 1:
        held = (*x.shape[:axis], flat.shape[0], *x.shape[axis + 1 :])
        perm = x.perm
    else:
        held, perm = shape, identity(len(shape))
    y = c.b.op("Gather", [x, flat], held, None, perm, axis=np.int32(x.perm.index(axis)))
    return c.b.reshape(y, shape)


@lowers("GatherElements", to="GatherElements")
def gather_elements(c: Lowering, n: OnnxNode) -> Value:
    x, index = c.b.real(n.input(0)), n.input(1)
    axis = axis_of(n.integer("axis"), x.rank)
    index = c.b.with_perm(indices(c, index, x.shape[axis]), x.perm)
    at = np.uint32(x.perm.index(axis))
    return c.b.op("GatherElements", [x, index], index.shape, x.dtype, x.perm, axis=at)


@lowers("GatherND", to="GatherNd")
def gather_nd(c: Lowering, n: OnnxNode) -> Value:
    x, index = c.b.plain(n.input(0)), n.input(1)
    batch = n.integer("batch_dims")
    depth = index.shape[-1]
    index = c.b.plain(indices(c, index, np.array(x.shape[batch : batch + depth])))
    shape = n.shape()
    if not shape:
        index = c.b.reshape(index, (1, depth))
    y = c.b.op("GatherNd", [x, index], shape or (1,), x.dtype, batch_dims=np.uint32(batch))
    return c.b.reshape(y, shape)


def _opposite(c: Lowering, x: Value) -> Value:
    """Numbers whose order is the other way round, once more the same."""
    if x.dtype.kind in "iu":
        end = -1 if x.dtype.kind == "i" else np.iinfo(x.dtype).max
        return nary(c, "ElementWiseSubtract", [constant(np.array(end, x.dtype)), x])
    return unary(c, "ElementWiseNeg", x)


@lowers("ScatterElements", "Scatter", to="ScatterElements")
def scatter_elements(c: Lowering, n: OnnxNode) -> Value:
    x, index, updates = n.input(0), n.input(1), n.input(2)
    axis = axis_of(n.integer("axis"), x.rank)
    return _scattered(c, x, index, updates, axis, n.text("reduction", "none"))


def _scattered(
    c: Lowering, x: Value, index: Value, updates: Value, axis: int, reduction: str
) -> Value:
    x, dtype = c.b.real(x), x.dtype
    index = c.b.with_perm(indices(c, index, x.shape[axis]), x.perm)
    if dtype.kind == "b" and reduction != "none":  # or, and, or, and: of 0 and 1
        x, updates = cast(c, x, np.int32), cast(c, updates, np.int32)
    if reduction == "min":
        x, updates = c.b.real(_opposite(c, x)), _opposite(c, updates)
    y = c.b.op(
        "ScatterElements",
        [x, index, c.b.with_perm(updates, x.perm)],
        x.shape,
        x.dtype,
        x.perm,
        axis=np.uint32(x.perm.index(axis)),
        reduction=_MAX if reduction == "min" else np.uint32(_REDUCTIONS[reduction]),
    )
    return cast(c, _opposite(c, y) if reduction == "min" else y, dtype)


@lowers("ScatterND", to="ScatterNd, ScatterElements")
def scatter_nd(c: Lowering, n: OnnxNode) -> Value:
    x, index, updates = n.input(0), n.input(1), n.input(2)
    depth = index.shape[-1]
    index = c.b.plain(indices(c, index, np.array(x.shape[:depth])))
    name, dtype = n.text("reduction", "none"), x.dtype
    if name in ("max", "min"):  # QNN has those of single elements only
        return _extremes(c, c.b.plain(x), index, c.b.plain(updates), name)
    reduction = np.uint32(_REDUCTIONS[name])
    if dtype.kind == "b" and reduction:  # or, and: sums and products of 0 and 1
        x, updates = cast(c, x, np.int32), cast(c, updates, np.int32)
    perm, inner = x.perm, _index_in_order(c, x, index)
    if inner is None:
        perm, inner = identity(x.rank), index
        updates = c.b.plain(updates)
    else:
        updates = c.b.with_perm(updates, perm)
    x = c.b.with_perm(x, perm)
    y = c.b.op("ScatterNd", [x, inner, updates], x.shape, x.dtype, perm, reduction=reduction)
    return cast(c, y, dtype)


def _index_in_order(c: Lowering, x: Value, index: Value) -> Value | None:
    """The index [rows, 1] into the first dimension of `x` as one into the tensor that holds it, in
    its order: a cache that is transposed, scattered into and transposed back is not moved then.
    None: there is no such, or it has as many elements as would be moved."""
    if x.edge is None or x.perm == identity(x.rank) or index.rank != 2 or index.shape[1] != 1:
        return None
    axis = x.perm.index(0)
    rows = [index.shape[0] if p == 0 else x.shape[p] for p in x.perm[: axis + 1]]
    if not axis or math.prod(rows) * (axis + 1) > math.prod(x.shape):
        return None
    others = np.moveaxis(np.indices((*rows[:-1], 1), np.int32)[:-1], 0, -1)
    at = c.b.reshape(index, (*[1] * axis, rows[-1], 1))
    at = c.b.op("Tile", [c.b.plain(at)], (*rows, 1), multiples=u32([*rows[:-1], 1, 1]))
    others = np.broadcast_to(others, (*rows, axis))
    parts = [constant(np.ascontiguousarray(others)), at]
    return c.b.op("Concat", parts, (*rows, axis + 1), axis=np.uint32(axis + 1))


def _extremes(c: Lowering, x: Value, index: Value, updates: Value, reduction: str) -> Value:
    """ScatterND by ScatterElements: a row of a matrix for each index, the same in all columns."""
    depth = index.shape[-1]
    rows, columns = math.prod(x.shape[:depth]), math.prod(x.shape[depth:])
    if rows > INT32.max:
        raise Unsupported(f"indices into {rows} places")
    count = math.prod(index.shape[:-1])
    steps = [math.prod(x.shape[i + 1 : depth]) for i in range(depth)]
    each = mul(c, index, constant(np.array(steps, np.int32)))
    at = reduce(c, "ReduceSum", c.b.reshape(each, (count, depth)), [1])
    if columns > 1:
        at = c.b.op("Tile", [c.b.plain(at)], (count, columns), multiples=u32([1, columns]))
    flat = c.b.reshape(x, (rows, columns)), c.b.reshape(updates, (count, columns))
    y = _scattered(c, flat[0], at, flat[1], 0, reduction)
    return c.b.reshape(y, x.shape)


@lowers("OneHot", to="OneHot")
def one_hot(c: Lowering, n: OnnxNode) -> Value:
    index = c.b.plain(n.input(0))
    depth, values = n.const_input(1, "depth"), n.const_input(2, "values")
    assert depth is not None
    assert values is not None
    size = int(depth.reshape(-1)[0])
    axis = axis_of(n.integer("axis", -1), index.rank + 1)
    if not index.is_const:
        index = cast(c, index, np.dtype(np.int32))
    index = _wrapped(c, index, size)
    shape = n.shape()
    index = c.b.plain(c.b.reshape(index, index.shape or (1,)))  # QNN has no tensors of rank 0
    dtype = values.dtype
    on_off = [v.item() for v in (values[1], values[0])]
    y = c.b.op(
        "OneHot",
        [index],
        (*index.shape[:axis], size, *index.shape[axis:]),
        dtype,
        depth=np.uint32(size),
        axis=np.uint32(axis),
        on_value=number(on_off[0], dtype),
        off_value=number(on_off[1], dtype),
    )
    return c.b.reshape(y, shape)


def _wrapped(c: Lowering, index: Value, size: int) -> Value:
    """Indices from -size on count from the end; what is beyond selects nothing, and stays so."""
    if index.data is not None:
        own = (index.data < 0) & (index.data >= -size)
        return constant(np.where(own, index.data + size, index.data).astype(np.int32))
    boolean = np.dtype(bool)
    negative = nary(c, "ElementWiseLess", [index, scalar(0, index.dtype)], boolean)
    near = nary(c, "ElementWiseGreaterEqual", [index, scalar(-size, index.dtype)], boolean)
    wraps = nary(c, "ElementWiseAnd", [negative, near], boolean)
    return select(c, wraps, add(c, index, scalar(size, index.dtype)), index)


@lowers("GridSample", to="GridSample")
def grid_sample(c: Lowering, n: OnnxNode) -> Value:
    x, grid = c.b.channels_last(n.input(0)), c.b.plain(n.input(1))
    if not is_float(x.dtype) or not is_float(grid.dtype):
        raise Unsupported(f"GridSample of {x.dtype.name} at positions in {grid.dtype.name}")
    mode = n.text("mode", "linear")
    codes = {"linear": 0, "bilinear": 0, "nearest": 1}
    if mode not in codes:
        raise Unsupported(f"mode {mode!r}")
    border = {"zeros": 0, "border": 1, "reflection": 2}[n.text("padding_mode", "zeros")]
    dtype = x.dtype
    if grid.dtype != dtype:
        x, grid = cast(c, x, np.float32), cast(c, grid, np.float32)
    y = c.b.op(
        "GridSample",
        [x, grid],
        n.shape(),
        None,
        x.perm,
        align_corners=np.bool_(n.integer("align_corners")),
        mode=np.uint32(codes[mode]),
        padding_mode=np.uint32(border),
    )
    return cast(c, y, dtype)


@lowers("RoiAlign", to="RoiAlign, or Gather and ReduceMax")
def roi_align(c: Lowering, n: OnnxNode) -> Value:
    x, regions = c.b.channels_last(n.input(0)), c.b.plain(n.input(1))
    if (mode := n.text("mode", "avg")) != "avg":
        raise Unsupported(f"mode {mode!r}")
    ratio = np.full(2, 1 / n.number("spatial_scale", 1.0), np.float32)
    samples = np.int32(n.integer("sampling_ratio") or -1)
    aligned = "output_half_pixel" if n.version < 16 else "half_pixel"
    aligned = n.text("coordinate_transformation_mode", aligned)
    return c.b.op(
        "RoiAlign",
        [x, regions, c.b.plain(indices(c, n.input(2), x.shape[0]))],
        n.shape(),
        None,
        x.perm,
        img_size_ratio=ratio,
        num_samples_y=samples,
        num_samples_x=samples,
        aligned=np.bool_(aligned == "half_pixel"),
    )
