"""Selection and placement by index."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ..shorthand import u32
from .common import cast, nary, padded, scalar
from .nodes import Damaged, Result, TfliteNode, Unsupported, axis_of, lowers
from .values import Value, constant

if TYPE_CHECKING:
    from .lower import Lowering


def _index(c: Lowering, x: Value) -> Value:
    """Indices as QNN's operations take them: 32 bits."""
    if x.dtype.kind not in "iu":
        raise Damaged(f"indices of {x.dtype.name}")
    return cast(c, x, np.int32)


def take(c: Lowering, x: Value, index: Value, axis: int) -> Value:
    """`x` along `axis` at `index`, whose shape takes the place of the dimension."""
    index = _index(c, index)
    flat = index if index.rank else c.b.reshape(index, (1,))
    shape = (*x.shape[:axis], *flat.shape, *x.shape[axis + 1 :])
    out = c.b.op("Gather", [x, flat], shape, axis=np.int32(axis))
    return c.b.reshape(out, (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))


@lowers("GATHER", to="Gather, GatherNd", options="GatherOptions")
def gather(c: Lowering, node: TfliteNode) -> Result:
    x, index = node.input(), node.input(1)
    if x.rank == 0:
        raise Damaged("a scalar has nothing to gather")
    axis = axis_of(node.options.integer("Axis"), x.rank)
    batch = node.options.integer("BatchDims")
    batch += index.rank if batch < 0 else 0
    if batch == 0:
        return take(c, x, index, axis)
    if not 0 <= batch <= min(axis, index.rank) or x.shape[:batch] != index.shape[:batch]:
        raise Damaged(f"{batch} batch dimensions of {list(x.shape)} at {list(index.shape)}")
    # The gathered dimension behind the batch, then one index for each element wanted.
    moved = [*range(batch), axis, *(i for i in range(batch, x.rank) if i != axis)]
    source = c.b.transpose(x, moved)
    at = c.b.reshape(_index(c, index), (*index.shape, 1))
    rest = [x.shape[i] for i in moved[batch + 1 :]]
    found = c.b.op("GatherNd", [source, at], (*index.shape, *rest), batch_dims=np.uint32(batch))
    before = axis - batch  # dimensions that belong in front of the indices
    inner = index.rank - batch
    order = [
        *range(batch),
        *range(batch + inner, batch + inner + before),
        *range(batch, batch + inner),
        *range(batch + inner + before, found.rank),
    ]
    return c.b.transpose(found, order)


@lowers("GATHER_ND", to="GatherNd")
def gather_nd(c: Lowering, node: TfliteNode) -> Result:
    x, index = node.input(), node.input(1)
    depth = index.shape[-1] if index.rank else 0
    if not 1 <= depth <= x.rank:
        raise Damaged(f"{list(x.shape)} at {list(index.shape)}")
    shape = (*index.shape[:-1], *x.shape[depth:])
    return c.b.op("GatherNd", [x, _index(c, index)], shape, batch_dims=np.uint32(0))


@lowers("EMBEDDING_LOOKUP", to="Gather")
def embedding_lookup(c: Lowering, node: TfliteNode) -> Result:
    ids, table = node.input(), node.input(1)
    if table.rank < 1:
        raise Damaged("a table without rows")
    return take(c, table, ids, 0)


@lowers("SCATTER_ND", to="ScatterNd", steps=True)
def scatter_nd(c: Lowering, node: TfliteNode) -> Result:
    """Into zeros; what meets at one place is added."""
    index, updates = node.input(), node.input(1)
    shape = tuple(node.ints(2, "the shape"))
    depth = index.shape[-1] if index.rank else 0
    if any(d < 1 for d in shape) or not 1 <= depth <= len(shape):
        raise Damaged(f"indices {list(index.shape)} into {list(shape)}")
    if updates.shape != (*index.shape[:-1], *shape[depth:]):
        raise Damaged(f"updates {list(updates.shape)} at {list(index.shape)} of {list(shape)}")
    c.materialize(math.prod(shape) * updates.dtype.itemsize, f"the zeros of {node.name}")
    zeros = constant(np.zeros(shape, updates.dtype))
    if updates.dtype.kind == "b":
        raise Unsupported("booleans")
    return c.b.op("ScatterNd", [zeros, _index(c, index), updates], shape, reduction=np.uint32(1))


@lowers("ONE_HOT", to="OneHot", options="OneHotOptions")
def one_hot(c: Lowering, node: TfliteNode) -> Result:
    index, depth = node.input(), node.scalar(1, "the depth")
    axis = node.options.integer("Axis")
    axis = index.rank if axis == -1 else axis
    if depth < 1 or not 0 <= axis <= index.rank:
        raise Damaged(f"depth {depth} at dimension {axis}")
    shape = (*index.shape[:axis], depth, *index.shape[axis:])
    given = _index(c, index)
    if not index.rank:
        given = c.b.reshape(given, (1,))
    on, off = node.input(2), node.input(3)
    wide = (*given.shape[:axis], depth, *given.shape[axis:])
    hot = c.b.op(
        "OneHot",
        [given],
        wide,
        np.float32,
        depth=np.uint32(depth),
        axis=np.uint32(axis),
        on_value=np.float32(1),
        off_value=np.float32(0),
    )
    return c.b.reshape(_between(c, hot, on, off), shape)


def _between(c: Lowering, hot: Value, on: Value, off: Value) -> Value:
    """`on` where `hot` is 1, `off` where it is 0."""
    if on.data is not None and off.data is not None and on.dtype == np.float32:
        op = c.b.ops[-1]
        op.params["on_value"] = np.float32(on.data.reshape(-1)[0])
        op.params["off_value"] = np.float32(off.data.reshape(-1)[0])
        return hot
    condition = nary(c, "ElementWiseGreater", [hot, scalar(0.5, hot.dtype)], np.dtype(np.bool_))
    return nary(c, "ElementWiseSelect", [condition, on, off], on.dtype)


@lowers("SEGMENT_SUM", to="ScatterNd", note="constant segment ids", steps=True)
def segment_sum(c: Lowering, node: TfliteNode) -> Result:
    x, ids = node.input(), node.ints(1, "the segment ids")
    steps = np.diff([0, *ids])
    if x.rank == 0 or len(ids) != x.shape[0] or not np.isin(steps, (0, 1)).all():
        raise Damaged(f"segments {ids} of {list(x.shape)}")
    shape = (ids[-1] + 1, *x.shape[1:])
    c.materialize(math.prod(shape) * x.dtype.itemsize, f"the zeros of {node.name}")
    zeros, at = constant(np.zeros(shape, x.dtype)), np.array(ids, np.int32).reshape(-1, 1)
    return c.b.op("ScatterNd", [zeros, constant(at), x], shape, reduction=np.uint32(1))


@lowers("DYNAMIC_UPDATE_SLICE", to="Concat, StridedSlice", note="constant start")
def dynamic_update_slice(c: Lowering, node: TfliteNode) -> Result:
    """The update in place of a block; the start is moved so that the block fits."""
    x, update = node.input(), node.input(1)
    start = node.ints(2, "the start")
    if len(start) != x.rank or update.rank != x.rank:
        raise Damaged(f"{list(update.shape)} into {list(x.shape)} at {start}")
    room = [d - u for d, u in zip(x.shape, update.shape, strict=True)]
    if min(room, default=0) < 0:
        raise Damaged(f"{list(update.shape)} into {list(x.shape)}")
    at = [min(max(s, 0), r) for s, r in zip(start, room, strict=True)]
    pads = [(s, r - s) for s, r in zip(at, room, strict=True)]
    if not any(map(any, pads)):
        return c.b.op("Reshape", [update], x.shape)
    c.materialize(x.size, f"the mask of {node.name}")
    inside = np.zeros(x.shape, np.bool_)
    inside[tuple(slice(s, s + u) for s, u in zip(at, update.shape, strict=True))] = True
    return nary(c, "ElementWiseSelect", [constant(inside), padded(c, update, pads), x], x.dtype)


@lowers("REVERSE_SEQUENCE", to="GatherNd", options="ReverseSequenceOptions",
        note="constant lengths")  # fmt: skip
def reverse_sequence(c: Lowering, node: TfliteNode) -> Result:
    """The first `length` elements of every batch entry in reverse."""
    x, lengths = node.input(), node.ints(1, "the lengths")
    axis = axis_of(node.options.integer("SeqDim"), x.rank)
    batch = axis_of(node.options.integer("BatchDim"), x.rank)
    size = x.shape[axis]
    if axis == batch or len(lengths) != x.shape[batch] or not all(0 <= n <= size for n in lengths):
        raise Damaged(f"lengths {lengths} along {axis} of {list(x.shape)}")
    order = [batch, axis, *(i for i in range(x.rank) if i not in (batch, axis))]
    c.materialize(24 * size * len(lengths), f"the indices of {node.name}")
    steps = np.arange(size)
    rows = [np.where(steps < n, n - 1 - steps, steps) for n in lengths]
    at = np.stack([np.repeat(np.arange(len(rows)), size), np.concatenate(rows)], -1)
    moved = c.b.transpose(x, order)
    index = constant(at.reshape(len(rows), size, 2).astype(np.int32))
    out = c.b.op("GatherNd", [moved, index], moved.shape, batch_dims=np.uint32(0))
    return c.b.transpose(out, [order.index(i) for i in range(x.rank)])


@lowers("SPARSE_TO_DENSE", to="ScatterNd", steps=True)
def sparse_to_dense(c: Lowering, node: TfliteNode) -> Result:
    """Values at some places, one other value everywhere else."""
    index, values = node.input(), node.input(2)
    shape = tuple(node.ints(1, "the shape"))
    default = node.const(3, "the default value").reshape(-1)
    if index.rank < 2:  # places in a vector
        index = c.b.reshape(index, (index.size, 1))
    count, depth = index.shape
    if index.rank != 2 or depth != len(shape) or any(d < 1 for d in shape) or default.size != 1:
        raise Damaged(f"values at {list(index.shape)} of {list(shape)}")
    if values.rank == 0:
        values = c.b.reshape(values, (1,))
        values = (
            values if count == 1 else c.b.op("Tile", [values], (count,), multiples=u32([count]))
        )
    if values.shape != (count,):
        raise Damaged(f"values {list(values.shape)} at {list(index.shape)}")
    c.materialize(math.prod(shape) * values.dtype.itemsize, f"the rest of {node.name}")
    rest = constant(np.full(shape, default[0], values.dtype))
    at = _index(c, index)
    return c.b.op("ScatterNd", [rest, at, values], shape, reduction=np.uint32(0))


def _diagonal(c: Lowering, node: TfliteNode, rows: int, columns: int) -> Value:
    c.materialize(rows * columns, f"the mask of {node.name}")
    return constant(np.eye(rows, columns, dtype=np.bool_))


@lowers("MATRIX_DIAG", to="ElementWiseSelect", steps=True)
def matrix_diag(c: Lowering, node: TfliteNode) -> Result:
    x = node.input()
    if x.rank == 0:
        raise Damaged("a scalar is no diagonal")
    on = _diagonal(c, node, x.shape[-1], x.shape[-1])
    wide = c.b.reshape(x, (*x.shape, 1))
    return nary(c, "ElementWiseSelect", [on, wide, scalar(0, x.dtype)], x.dtype)


@lowers("MATRIX_SET_DIAG", to="ElementWiseSelect")
def matrix_set_diag(c: Lowering, node: TfliteNode) -> Result:
    x, diagonal = node.input(), node.input(1)
    if x.rank < 2 or diagonal.shape != (*x.shape[:-2], min(x.shape[-2:])):
        raise Damaged(f"the diagonal {list(diagonal.shape)} of {list(x.shape)}")
    rows, columns = x.shape[-2:]
    # Along rows or along columns: whichever the diagonal is as long as.
    wide = (*diagonal.shape, 1) if rows <= columns else (*diagonal.shape[:-1], 1, columns)
    on = _diagonal(c, node, rows, columns)
    return nary(c, "ElementWiseSelect", [on, c.b.reshape(diagonal, wide), x], x.dtype)
