"""What moves elements and changes none: shapes, slices, joins, gathers and scatters."""

from __future__ import annotations

from typing import Any

import numpy as np

from qnnrt.model import Node

from .registry import OPS, integer, ints, op

OPS |= {
    **dict.fromkeys(("Reshape", "Squeeze", "ExpandDims"), lambda n, x: x),
    "Transpose": lambda n, x: x.transpose(ints(n, "perm", range(x.ndim))),
    "Concat": lambda n, *xs: np.concatenate(xs, integer(n, "axis")),
    "Split": lambda n, x: np.split(x, ints(n, "split_index"), integer(n, "axis")),
    "Pack": lambda n, *xs: np.stack(xs, integer(n, "axis")),
    "UnPack": lambda n, x: [*np.moveaxis(x, integer(n, "axis"), 0)],
    "Tile": lambda n, x: np.tile(x, ints(n, "multiples")),
    "Gather": lambda n, x, i: np.take(x, i.astype(np.int64), integer(n, "axis")),
    "GatherElements": lambda n, x, i: _gather_elements(x, i.astype(np.int64), integer(n, "axis")),
}


@op("StridedSlice")
def strided_slice(n: Node, x: np.ndarray) -> np.ndarray:
    index: list[Any] = []
    for i, (begin, end, stride) in enumerate(ints(n, "ranges").reshape(-1, 3).tolist()):
        begins, ends, shrinks, adds = (
            integer(n, name) >> i & 1
            for name in ("begin_mask", "end_mask", "shrink_axes", "new_axes_mask")
        )
        # With a negative stride an end of -1 is "before element 0", which numpy writes as None.
        ends |= stride < 0 and end == -1
        part = slice(None if begins else begin, None if ends else end, stride)
        index.append(None if adds else begin if shrinks else part)
    return np.asarray(x[tuple(index)])


@op("Pad")
def pad(n: Node, x: np.ndarray) -> np.ndarray:
    mode = ("constant", "symmetric", "reflect", "edge")[integer(n, "scheme")]
    value = {"constant_values": n.params.get("pad_constant_value", 0)} if mode == "constant" else {}
    pads = ints(n, "pad_amount").reshape(-1, 2)
    return np.pad(x, pads, mode, **value)  # type: ignore[call-overload, no-any-return]


@op("ChannelShuffle")
def channel_shuffle(n: Node, x: np.ndarray) -> np.ndarray:
    groups, axis = integer(n, "num_groups"), integer(n, "axis")
    split = x.reshape(*x.shape[:axis], groups, -1, *x.shape[axis + 1 :])
    return split.swapaxes(axis, axis + 1).reshape(x.shape)


@op("DepthToSpace")
def depth_to_space(n: Node, x: np.ndarray) -> np.ndarray:
    (batch, height, width, depth), (rows, columns) = x.shape, ints(n, "block_size").tolist()
    each = depth // (rows * columns)
    if integer(n, "mode") == 0:
        y = x.reshape(batch, height, width, rows, columns, each).transpose(0, 1, 3, 2, 4, 5)
    else:
        y = x.reshape(batch, height, width, each, rows, columns).transpose(0, 1, 4, 2, 5, 3)
    return y.reshape(batch, height * rows, width * columns, each)


@op("SpaceToDepth")
def space_to_depth(n: Node, x: np.ndarray) -> np.ndarray:
    (batch, height, width, depth), (rows, columns) = x.shape, ints(n, "block_size").tolist()
    y = x.reshape(batch, height // rows, rows, width // columns, columns, depth)
    order = (0, 1, 3, 2, 4, 5) if integer(n, "mode") == 0 else (0, 1, 3, 5, 2, 4)
    shape = (batch, height // rows, width // columns, depth * rows * columns)
    return y.transpose(order).reshape(shape)


@op("SpaceToBatch")
def space_to_batch(n: Node, x: np.ndarray) -> np.ndarray:
    rows, columns = ints(n, "block_size").tolist()
    x = np.pad(x, [(0, 0), *ints(n, "pad_amount", [[0, 0]] * 2).reshape(2, 2), (0, 0)])
    batch, height, width, depth = x.shape
    y = x.reshape(batch, height // rows, rows, width // columns, columns, depth)
    shape = (batch * rows * columns, height // rows, width // columns, depth)
    return y.transpose(2, 4, 0, 1, 3, 5).reshape(shape)


@op("BatchToSpace")
def batch_to_space(n: Node, x: np.ndarray) -> np.ndarray:
    rows, columns = ints(n, "block_size").tolist()
    (top, bottom), (left, right) = ints(n, "crops", [[0, 0]] * 2).reshape(2, 2)
    height, width, depth = x.shape[1:]
    y = x.reshape(rows, columns, -1, height, width, depth).transpose(2, 3, 0, 4, 1, 5)
    y = y.reshape(-1, height * rows, width * columns, depth)
    return y[:, top : y.shape[1] - bottom, left : y.shape[2] - right]


def _gather_elements(x: np.ndarray, index: np.ndarray, axis: int) -> np.ndarray:
    within = [slice(k) for k in index.shape]
    within[axis] = slice(None)
    return np.take_along_axis(x[tuple(within)], index, axis)


@op("GatherNd")
def gather_nd(n: Node, x: np.ndarray, index: np.ndarray) -> np.ndarray:
    lead = x.shape[: integer(n, "batch_dims")]
    rows = [x[b][tuple(np.moveaxis(index[b], -1, 0))] for b in np.ndindex(*lead)]
    return np.stack(rows).reshape((*lead, *rows[0].shape))


def _scatter(n: Node, x: np.ndarray, where: Any, updates: np.ndarray) -> np.ndarray:
    y, reduction = x.copy(), integer(n, "reduction")
    if reduction == 0:
        y[where] = updates
    else:
        (np.add, np.multiply, np.maximum)[reduction - 1].at(y, where, updates)
    return y


@op("ScatterElements")
def scatter_elements(n: Node, x: np.ndarray, index: np.ndarray, updates: np.ndarray) -> np.ndarray:
    where = list(np.indices(index.shape))
    where[integer(n, "axis")] = index.astype(np.int64)
    return _scatter(n, x, tuple(where), updates)


@op("ScatterNd")
def scatter_nd(n: Node, x: np.ndarray, index: np.ndarray, updates: np.ndarray) -> np.ndarray:
    return _scatter(n, x, tuple(np.moveaxis(index, -1, 0)), updates)


@op("OneHot")
def one_hot(n: Node, index: np.ndarray) -> np.ndarray:
    depth, axis = integer(n, "depth"), integer(n, "axis")
    index = index.astype(np.int64)
    index = np.expand_dims(np.where(index < 0, index + depth, index), axis)
    axis %= index.ndim
    ruler = np.arange(depth).reshape([-1 if i == axis else 1 for i in range(index.ndim)])
    return np.where(index == ruler, n.params.get("on_value", 1), n.params.get("off_value", 0))


@op("NonZero")
def non_zero(n: Node, x: np.ndarray, shape: np.ndarray) -> np.ndarray:
    places = np.full(shape, -1, np.int64)
    found = np.argwhere(x)
    places[: len(found)] = found
    return places
