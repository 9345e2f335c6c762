"""Rules of operators that move elements: reshapes, slices, concatenations, repetitions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx

from .checks import ELEMENT_TYPES
from .fold_shape import bounds, reshape_target
from .infer import (
    INT64,
    Found,
    Shape,
    axes_of,
    axis_attribute,
    broadcast,
    data_of,
    exactly,
    given_or_input,
    infers,
    list_of,
    one_of,
    rank_of,
    same,
    single,
)
from .infer_elementwise import element_type
from .nodes import OnnxNode, Unsupported
from .types import TypeOf


@infers("Reshape")
def _reshape(n: OnnxNode) -> Found:
    x = n.input(0)
    wanted = [int(d) for d in list_of(n, 1) or []]
    return reshape_target(x.shape, wanted, bool(n.integer("allowzero"))), x.dtype


@infers("Flatten")
def _flatten(n: OnnxNode) -> Found:
    x = n.input(0)
    axis = n.integer("axis", 1)
    if not -x.rank <= axis <= x.rank:
        raise ValueError(f"axis {axis} for a tensor of rank {x.rank}")
    axis = axis + x.rank if axis < 0 else axis
    return (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])), x.dtype


@infers("Squeeze")
def _squeeze(n: OnnxNode) -> Found:
    x = n.input(0)
    axes = given_or_input(n, "axes", 1)
    if axes is None:
        axes = [i for i, d in enumerate(x.shape) if d == 1]
    gone = {axes_of([a], x.rank)[0] for a in axes}
    if any(x.shape[a] != 1 for a in gone):
        raise ValueError(f"squeeze of the dimensions {sorted(gone)} of {list(x.shape)}")
    return tuple(d for i, d in enumerate(x.shape) if i not in gone), x.dtype


@infers("Unsqueeze")
def _unsqueeze(n: OnnxNode) -> Found:
    x = n.input(0)
    axes = given_or_input(n, "axes", 1) or []
    rank = x.rank + len(axes)
    new = axes_of(axes, rank)
    dims = iter(x.shape)
    return tuple(1 if i in new else next(dims) for i in range(rank)), x.dtype


@infers("Transpose")
def _transpose(n: OnnxNode) -> Found:
    x = n.input(0)
    perm = n.integers("perm")
    if perm is None:
        return x.shape[::-1], x.dtype
    if sorted(perm) != list(range(x.rank)):
        raise ValueError(f"perm {perm} for a tensor of rank {x.rank}")
    return tuple(x.shape[p] for p in perm), x.dtype


@infers("Concat")
def _concat(n: OnnxNode) -> Found:
    shapes = [n.input(i).shape for i in range(len(n.inputs))]
    first = shapes[0]
    axis = axis_attribute(n, 1, len(first))
    for shape in shapes[1:]:
        fits = len(shape) == len(first) and all(
            a == b or i == axis for i, (a, b) in enumerate(zip(shape, first, strict=True))
        )
        if not fits:
            raise ValueError(f"{list(first)} and {list(shape)} cannot be joined along axis {axis}")
    total = sum(s[axis] for s in shapes)
    return (*first[:axis], total, *first[axis + 1 :]), n.input(0).dtype


@infers("Split")
def _split(n: OnnxNode) -> Found:
    x = n.input(0)
    axis = axis_attribute(n, 0, x.rank)
    size, count = x.shape[axis], len(n.outputs)
    said = n.attrs.get("num_outputs")
    if said is not None and (said != count or n.has(1)):
        raise ValueError(
            f"num_outputs is {said} for {count} outputs; it has to be their number, and split "
            "has to be left out then"
        )
    sizes = given_or_input(n, "split", 1)
    if not sizes:
        if n.version >= 18 and said is None:
            raise ValueError("neither split nor num_outputs is given")
        if n.version < 18 and size % count:
            raise ValueError(f"{size} elements cannot be split into {count} equal parts")
        chunk = -(-size // count)
        sizes = [chunk] * (count - 1)
        sizes.append(size - sum(sizes))
    if sizes and len(sizes) == count and min(sizes) >= 0 and x.count is not None and axis == x.axis:
        raise Unsupported(
            "rows of which the data decide how many count, split into known numbers of them: a "
            "trace of a loop over what one example chose"
        )
    if len(sizes) != count or sum(sizes) != size or min(sizes) < 0:
        raise ValueError(f"a split {sizes} of {size} elements into {count} outputs")
    found: list[TypeOf] = [((*x.shape[:axis], s, *x.shape[axis + 1 :]), x.dtype) for s in sizes]
    return found


def slice_ranges(n: OnnxNode) -> dict[int, range]:
    """Axis -> the indices that a Slice takes."""
    x = n.input(0)
    starts, ends = given_or_input(n, "starts", 1), given_or_input(n, "ends", 2)
    if starts is None or ends is None:
        raise ValueError("starts and ends have to be given")
    axes = given_or_input(n, "axes", 3)
    axes = list(range(len(starts))) if axes is None else axes
    steps = list_of(n, 4)
    steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise ValueError(
            f"{len(starts)} starts, {len(ends)} ends, {len(axes)} axes and {len(steps)} steps: "
            "there have to be equally many"
        )
    found = {}
    for axis, start, end, step in zip(axes_of(axes, x.rank), starts, ends, steps, strict=True):
        size = x.shape[axis]
        begin, stop = bounds(start, end, step, size)
        # A longer step than the dimension takes one element, as that one does.
        step = max(min(step, size + 1), -size - 1)
        found[axis] = range(begin, -1 if stop is None else stop, step)
    return found


@infers("Slice")
def _slice(n: OnnxNode) -> Found:
    x, taken = n.input(0), slice_ranges(n)
    shape = tuple(len(taken[i]) if i in taken else d for i, d in enumerate(x.shape))
    return shape, x.dtype


def pad_amounts(n: OnnxNode) -> list[tuple[int, int]]:
    """(before, after) for each dimension of a Pad's input."""
    rank = n.input(0).rank
    amounts = given_or_input(n, "pads", 1)
    given = list_of(n, 3)
    axes = list(range(rank)) if given is None else axes_of(given, rank)
    if amounts is None or len(amounts) != 2 * len(axes):
        raise ValueError(f"{len(amounts or [])} pads for {len(axes)} axes; two for each are wanted")
    pads = [(0, 0)] * rank
    for i, axis in enumerate(axes):
        pads[axis] = (amounts[i], amounts[i + len(axes)])
    return pads


@infers("Pad")
def _pad(n: OnnxNode) -> Found:
    x = n.input(0)
    mode = one_of(n, "mode", ("constant", "reflect", "edge", "wrap"), "constant")
    if n.version >= 11:
        single(n, 2, "constant_value")
    pads = pad_amounts(n)
    for size, pair in zip(x.shape, pads, strict=True):
        if mode != "constant" and not size and any(pair):
            raise ValueError(f"mode {mode} pads an empty dimension of {list(x.shape)}")
        # Cropping may take what there is, and not more than that from either end.
        if -min(*pair, 0) > size:
            raise ValueError(f"pads {pair} of a dimension of {size} elements")
    return tuple(d + sum(p) for d, p in zip(x.shape, pads, strict=True)), x.dtype


@infers("Tile")
def _tile(n: OnnxNode) -> Found:
    x = n.input(0)
    repeats = list_of(n, 1) or []
    if len(repeats) != x.rank or any(r < 0 for r in repeats):
        raise ValueError(f"repeats {repeats} for a tensor of shape {list(x.shape)}")
    return tuple(d * r for d, r in zip(x.shape, repeats, strict=True)), x.dtype


@infers("Expand")
def _expand(n: OnnxNode) -> Found:
    x = n.input(0)
    wanted = list_of(n, 1) or []
    if any(d < 0 for d in wanted):
        raise ValueError(f"{wanted} is not a shape")
    return broadcast(x.shape, wanted), x.dtype


@infers("Trilu")
def _trilu(n: OnnxNode) -> Found:
    rank_of(n, 0, 2)
    single(n, 1, "k")
    return same(n)


@infers("Compress")
def _compress(n: OnnxNode) -> Found:
    x = n.input(0)
    (size,) = rank_of(n, 1, 1, 1)
    whole = n.attrs.get("axis") is None
    axis = 0 if whole else axis_attribute(n, 0, x.rank)
    shape: Shape = (math.prod(x.shape),) if whole else x.shape
    if size > shape[axis]:
        raise ValueError(f"a condition of {size} elements for a dimension of {shape[axis]}")
    condition = data_of(n, 1)
    assert condition is not None
    count = int(np.count_nonzero(condition))
    return (*shape[:axis], count, *shape[axis + 1 :]), x.dtype


@infers("ReverseSequence")
def _reverse_sequence(n: OnnxNode) -> Found:
    shape = rank_of(n, 0, 2)
    batch, time = n.integer("batch_axis", 1), n.integer("time_axis")
    if {batch, time} != {0, 1}:
        raise ValueError(f"batch_axis is {batch} and time_axis {time}; one is 0, the other 1")
    exactly(n, 1, (shape[batch],), "sequence_lens")
    lengths = n.input(1).data
    if lengths is not None and not np.all((lengths >= 0) & (lengths <= shape[time])):
        raise ValueError(f"a length is not one of 0 to {shape[time]}")
    return same(n)


# ---- only among constants ----------------------------------------------------------------------


@infers("Shape")
def _shape(n: OnnxNode) -> Found:
    rank = n.input(0).rank
    return (len(range(rank)[shape_slice(n)]),), INT64


def shape_slice(n: OnnxNode) -> slice:
    """Which dimensions a Shape gives."""
    return slice(n.integer("start"), n.integer("end", n.input(0).rank))


@infers("Size")
def _size(n: OnnxNode) -> Found:
    return (), INT64


@infers("EyeLike")
def _eye_like(n: OnnxNode) -> Found:
    return rank_of(n, 0, 2, 2), element_type(n, "dtype") or n.input(0).dtype


@infers("ConstantOfShape")
def _constant_of_shape(n: OnnxNode) -> Found:
    shape = tuple(list_of(n, 0) or ())
    given = n.attrs.get("value")
    dtype = np.dtype(np.float32)
    if isinstance(given, onnx.TensorProto):
        if math.prod(given.dims) != 1 or given.data_type not in ELEMENT_TYPES:
            raise ValueError(f"value has the shape {list(given.dims)}; it has to be one number")
        dtype = ELEMENT_TYPES[given.data_type]
    return shape, dtype


@infers("Range")
def _range(n: OnnxNode) -> Found:
    numbers = []
    for index, what in enumerate(("start", "limit", "delta")):
        single(n, index, what)
        data = data_of(n, index)
        assert data is not None
        numbers.append(data.reshape(()).item())
    return (range_count(numbers),), n.input(0).dtype


def range_count(numbers: Sequence[int | float]) -> int:
    """How many numbers lie between start and limit, at distances of delta."""
    start, limit, delta = numbers
    if delta == 0 or not all(map(math.isfinite, numbers)):
        raise ValueError(f"a range from {start} to {limit} by {delta} has no end")
    if all(isinstance(v, int) for v in numbers):
        return max(-(int(start - limit) // int(delta)), 0)
    steps = (limit - start) / delta
    if not math.isfinite(steps):
        raise ValueError(f"a range from {start} to {limit} by {delta} has no end")
    return max(math.ceil(steps), 0)
