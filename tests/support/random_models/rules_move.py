"""Rules of ops that move elements: shapes, slices, joins, gathers, scatters."""

from __future__ import annotations

import math

import numpy as np

from .growing import FIXED, FLOATS, INDICES, INTS, LARGEST, Growing, Plan, Shape, Unfit, rule


def axis_param(g: Growing, axis: int, rank: int) -> np.generic:
    """Counted from the front or from the end."""
    return np.int32(axis - rank) if g.chance(0.15) else np.uint32(axis)


def ints_param(g: Growing, values: object) -> np.ndarray:
    return np.asarray(values, np.uint32 if np.min(values) >= 0 and g.chance(0.9) else np.int32)


@rule("Reshape")
def reshape(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 0, 5)
    shape = [1] * g.int(1, 5)
    left = math.prod(g.shape(x))
    for i in range(len(shape) - 1):
        shape[i] = g.choice([d for d in range(1, left + 1) if left % d == 0])
        left //= shape[i]
    shape[-1] = left
    return Plan([x], [g.kind(x)], {}, [tuple(shape)])


@rule("ExpandDims")
def expand_dims(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 0, 4)
    rank = g.rank(x)
    count = g.int(1, 2)
    axes = sorted(g.rng.choice(rank + count, count, replace=False).tolist())
    shape = np.expand_dims(np.zeros(g.shape(x), bool), tuple(axes)).shape
    if count == 1 and g.chance(0.5):
        return Plan([x], [g.kind(x)], {"axis": np.uint32(axes[0])}, [shape])
    return Plan([x], [g.kind(x)], {"axes": np.asarray(axes, np.uint32)}, [shape])


@rule("Squeeze")
def squeeze(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 1, 5, fits=lambda s: 1 in s,
                  make=lambda: (1, *g.random_shape(1, 3)))  # fmt: skip
    ones = [i for i, d in enumerate(g.shape(x)) if d == 1]
    axes = [i for i in ones if g.chance(0.6)] or ones[:1]
    shape = tuple(d for i, d in enumerate(g.shape(x)) if i not in axes)
    params = {} if g.chance(0.3) else {"axes": ints_param(g, axes)}
    return Plan([x], [g.kind(x)], params, [shape])


@rule("Transpose")
def transpose(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 1, 5)
    return Plan([x], [g.kind(x)], {"perm": g.rng.permutation(g.rank(x)).astype(np.uint32)})


@rule("Tile")
def tile(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 1, 5)
    times = [g.choice((1, 1, 2, 3)) for _ in g.shape(x)]
    return Plan([x], [g.kind(x)], {"multiples": np.asarray(times, np.uint32)})


@rule("Concat")
def concat(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 1, 5)
    axis = g.int(0, g.rank(x) - 1)
    inputs = [x]
    for _ in range(g.int(0, 3)):
        shape = list(g.shape(x))
        if g.chance(0.3):
            inputs.append(x)
            continue
        if g.chance(0.7):
            shape[axis] = g.int(1, 5)
        inputs.append(_same_type(g, x, tuple(shape)))
    g.rng.shuffle(inputs)
    return Plan(inputs, [g.kind(x)], {"axis": axis_param(g, axis, g.rank(x))})


def _same_type(g: Growing, x: str, shape: Shape) -> str:
    found = g.existing([g.kind(x)], (0, 8), None, lambda s: s == shape)
    return g.choice(found) if found and g.chance(0.7) else g.new(g.kind(x), shape)


@rule("Pack")
def pack(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 0, 4)
    inputs = [x, *(_same_type(g, x, g.shape(x)) for _ in range(g.int(0, 3)))]
    rank = g.rank(x) + 1
    return Plan(inputs, [g.kind(x)], {"axis": axis_param(g, g.int(0, rank - 1), rank)})


@rule("UnPack")
def unpack(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 1, 5, fits=lambda s: any(d <= 6 for d in s))
    axis = g.choice([i for i, d in enumerate(g.shape(x)) if d <= 6])
    params = {"axis": axis_param(g, axis, g.rank(x))}
    return Plan([x], [g.kind(x)] * g.shape(x)[axis], params)


@rule("Split")
def split(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 1, 5, fits=lambda s: max(s) > 1)
    axis = g.choice([i for i, d in enumerate(g.shape(x)) if d > 1])
    size = g.shape(x)[axis]
    count = g.int(1, min(3, size - 1))
    cuts = np.sort(g.rng.choice(np.arange(1, size), count, replace=False))
    params = {"axis": axis_param(g, axis, g.rank(x)), "split_index": cuts.astype(np.uint32)}
    return Plan([x], [g.kind(x)] * (count + 1), params)


@rule("StridedSlice")
def strided_slice(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 1, 5)
    ranges, masks = [], dict.fromkeys(
        ("begin_mask", "end_mask", "shrink_axes", "new_axes_mask"), 0
    )  # fmt: skip
    for size in g.shape(x):
        if len(ranges) < 5 and g.chance(0.08):
            masks["new_axes_mask"] |= 1 << len(ranges)
            ranges.append([0, 1, 1])
        bit = 1 << len(ranges)
        if g.chance(0.12):
            masks["shrink_axes"] |= bit
            begin = g.int(0, size - 1)
            ranges.append([begin, begin + 1, 1])
            continue
        first, last = sorted((g.int(0, size - 1), g.int(0, size - 1)))
        stride = g.choice((1, 1, 1, 2, 3))
        if g.chance(0.25):
            row = [last, first - 1, -stride]  # an end of -1: before element 0
        else:
            row = [first, last + 1, stride]
            if g.chance(0.15):
                row[0] -= size
        if g.chance(0.15):
            masks["begin_mask"] |= bit
        if g.chance(0.15):
            masks["end_mask"] |= bit
        ranges.append(row)
    params = {k: np.uint32(v) for k, v in masks.items() if v or g.chance(0.2)}
    return Plan([x], [g.kind(x)], {"ranges": np.asarray(ranges, np.int32), **params})


@rule("Pad")
def pad(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 1, 5)
    scheme = g.int(0, 3)
    pads = []
    for size in g.shape(x):
        most = (3, size, size - 1, 3)[scheme]
        most = min(most, 3) if g.chance(0.6) else 0
        pads.append([g.int(0, most), g.int(0, most)])
    params: dict[str, object] = {
        "scheme": np.uint32(scheme), "pad_amount": np.asarray(pads, np.uint32)
    }  # fmt: skip
    if scheme == 0 and g.chance(0.5):
        kind = g.kind(x)
        if kind in FIXED or kind in FLOATS:
            params["pad_constant_value"] = g.number(-2, 2)
        elif kind != "BOOL_8":
            params["pad_constant_value"] = np.int32(g.int(0, 5))
    return Plan([x], [g.kind(x)], params)


@rule("ChannelShuffle")
def channel_shuffle(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 1, 5)
    axis = g.int(0, g.rank(x) - 1)
    groups = g.choice([d for d in range(1, g.shape(x)[axis] + 1) if g.shape(x)[axis] % d == 0])
    return Plan([x], [g.kind(x)], {"num_groups": np.uint32(groups), "axis": np.uint32(axis)})


def _blocks(g: Growing, op: str, at: str) -> tuple[str, list[int]]:
    """An image, and a block size that divides what it has to."""
    rows, columns = g.int(1, 3), g.int(1, 3)

    def fits(s: Shape) -> bool:
        if at == "space":
            return s[1] % rows == 0 and s[2] % columns == 0
        return s[3 if at == "depth" else 0] % (rows * columns) == 0

    def make() -> Shape:
        n, h, w, c = (g.int(1, 3) for _ in range(4))
        if at == "space":
            return (n, h * rows, w * columns, c)
        return (n, h, w, c * rows * columns) if at == "depth" else (n * rows * columns, h, w, c)

    return g.operand(g.types(op), 4, 4, fits=fits, make=make), [rows, columns]


@rule("DepthToSpace", "SpaceToDepth")
def depth_space(g: Growing, op: str) -> Plan:
    x, block = _blocks(g, op, "depth" if op == "DepthToSpace" else "space")
    params: dict[str, object] = {"block_size": np.asarray(block, np.uint32)}
    if g.chance(0.6):
        params["mode"] = np.uint32(g.int(0, 1))
    return Plan([x], [g.kind(x)], params)


@rule("SpaceToBatch")
def space_to_batch(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 4, 4)
    block = [g.int(1, 3), g.int(1, 3)]
    pads = []
    for size, b in zip(g.shape(x)[1:3], block, strict=True):
        before = g.int(0, 2)
        pads.append([before, -(size + before) % b])
    params = {"block_size": np.asarray(block, np.uint32), "pad_amount": np.asarray(pads, np.uint32)}
    return Plan([x], [g.kind(x)], params)


@rule("BatchToSpace")
def batch_to_space(g: Growing, op: str) -> Plan:
    x, block = _blocks(g, op, "batch")
    params: dict[str, object] = {"block_size": np.asarray(block, np.uint32)}
    if g.chance(0.6):
        sizes = [d * b for d, b in zip(g.shape(x)[1:3], block, strict=True)]
        params["crops"] = np.asarray(
            [[g.int(0, (s - 1) // 2), g.int(0, (s - 1) // 2)] for s in sizes], np.uint32
        )
    return Plan([x], [g.kind(x)], params)


def indices(g: Growing, shape: Shape, size: int, *, distinct: int | None = None) -> str:
    """Indices into a dimension; distinct: none twice along this axis."""
    kind = g.choice(INDICES)
    if distinct is None:
        values = g.rng.integers(0, size, shape)
        if kind != "UINT_32" and g.chance(0.3):
            values = values - size * g.rng.integers(0, 2, shape)
    else:
        values = np.argsort(
            g.rng.random((*shape[:distinct], size, *shape[distinct + 1 :])), distinct
        )
        values = np.take(values, range(shape[distinct]), distinct)
    return g.add(kind, values, constant=g.chance(0.5), private=True)


@rule("Gather")
def gather(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 1, 4)
    axis = g.int(0, g.rank(x) - 1)
    shape = g.choice(((), (1,), (3,), (5,), (2, 3), (1, 1, 2)))
    index = indices(g, shape, g.shape(x)[axis])
    return Plan([x, index], [g.kind(x)], {"axis": axis_param(g, axis, g.rank(x))})


@rule("GatherElements")
def gather_elements(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 1, 4)
    axis = g.int(0, g.rank(x) - 1)
    shape = tuple(g.int(1, 6) if i == axis else g.int(1, d) for i, d in enumerate(g.shape(x)))
    params = {"axis": axis_param(g, axis, g.rank(x))}
    return Plan([x, indices(g, shape, g.shape(x)[axis])], [g.kind(x)], params)


@rule("GatherNd")
def gather_nd(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 1, 4)
    rank = g.rank(x)
    batch = g.int(0, rank - 1) if g.chance(0.4) else 0
    depth = g.int(1, rank - batch)
    lead = g.shape(x)[:batch]
    shape = (*lead, *(g.int(1, 4) for _ in range(g.int(0 if batch else 1, 2))))
    parts = [g.rng.integers(0, d, shape) for d in g.shape(x)[batch : batch + depth]]
    if not shape:
        raise Unfit("no indices")
    index = g.add(g.choice(INDICES), np.stack(parts, -1), constant=g.chance(0.5), private=True)
    params = {"batch_dims": np.uint32(batch)} if batch or g.chance(0.5) else {}
    return Plan([x, index], [g.kind(x)], params)


def _reduction(g: Growing, kind: str) -> int:
    return 0 if kind == "BOOL_8" or g.chance(0.5) else g.int(0, 3)


@rule("ScatterElements")
def scatter_elements(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 1, 4)
    axis, reduction = g.int(0, g.rank(x) - 1), _reduction(g, g.kind(x))
    shape = tuple(g.int(1, d) for d in g.shape(x))
    index = indices(g, shape, g.shape(x)[axis], distinct=None if reduction else axis)
    updates = _updates(g, x, shape)
    params: dict[str, object] = {"axis": axis_param(g, axis, g.rank(x))}
    if reduction or g.chance(0.3):
        params["reduction"] = np.uint32(reduction)
    return Plan([x, index, updates], [g.kind(x)], params, encodings=[g.encoding(x)])


def _updates(g: Growing, x: str, shape: Shape) -> str:
    """Of the same type and encoding."""
    if "FIXED" not in g.kind(x):
        return _same_type(g, x, shape)
    values = g.rng.choice(g.values[x].ravel(), shape)
    return g.add(g.kind(x), values, constant=g.chance(0.3), encoding=g.encoding(x))


@rule("ScatterNd")
def scatter_nd(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 1, 4)
    depth, reduction = g.int(1, g.rank(x)), _reduction(g, g.kind(x))
    lead = g.shape(x)[:depth]
    count = g.int(1, min(6, math.prod(lead)))
    flat = g.rng.choice(math.prod(lead), count, replace=bool(reduction))
    where = np.stack(np.unravel_index(flat, lead), -1)
    index = g.add(g.choice(INDICES), where, constant=g.chance(0.5), private=True)
    updates = _updates(g, x, (count, *g.shape(x)[depth:]))
    params = {"reduction": np.uint32(reduction)} if reduction or g.chance(0.3) else {}
    return Plan([x, index, updates], [g.kind(x)], params, encodings=[g.encoding(x)])


@rule("NonZero")
def non_zero(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 1, 4)
    found = int(np.count_nonzero(g.real(x)))
    room = max(found + g.int(0, 3), 1)
    return Plan([x], [g.choice(INDICES)], {}, [(room, g.rank(x))])


@rule("OneHot")
def one_hot(g: Growing, op: str) -> Plan:
    depth = g.int(1, 6)
    shape = g.random_shape(0, 3)
    while math.prod(shape) * depth > LARGEST:
        shape = shape[1:]
    kind = g.choice(INDICES)
    low = 0 if kind == "UINT_32" else -1
    index = g.add(kind, g.rng.integers(low, depth + 1, shape), private=True)
    out = g.pick_type([t for t in g.types(op, 0, "outputs") if t not in FIXED])
    rank = len(shape) + 1
    params: dict[str, object] = {
        "depth": np.uint32(depth), "axis": axis_param(g, g.int(0, rank - 1), rank)
    }  # fmt: skip
    if out in FLOATS and g.chance(0.6):
        params |= {"on_value": g.number(1, 3), "off_value": g.number(-3, 0)}
    elif out in INTS and g.chance(0.6):
        params |= {"on_value": np.int32(g.int(1, 9)), "off_value": np.int32(g.int(0, 9))}
    return Plan([index], [out], params)
