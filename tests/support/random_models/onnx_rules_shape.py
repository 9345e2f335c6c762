"""Rules of ONNX operators that move elements, and of those over areas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .growing import Shape, Unfit
from .onnx_growing import NUMBERS, OnnxGrowing, Plan, divisors, rule
from .onnx_rules import axis_of

ANY = ("float32",) * 8 + (*NUMBERS, "bool")
F32 = ("float32",)


@rule("Reshape")
def reshape(g: OnnxGrowing, op: str) -> Plan:
    x = g.x(ANY)
    left = math.prod(g.shape(x))
    shape = [1] * g.int(1, 5)
    for i in range(len(shape) - 1):
        shape[i] = g.choice(divisors(left))
        left //= shape[i]
    shape[-1] = left
    if g.chance(0.3):
        shape[g.int(0, len(shape) - 1)] = -1
    if g.chance(0.2) and g.rank(x) and g.shape(x)[0] == shape[0]:
        shape[0] = 0
    return Plan([x, g.const(shape, "int64")])


@rule("Transpose")
def transpose(g: OnnxGrowing, op: str) -> Plan:
    x = g.x(ANY, low=1)
    return Plan([x], {"perm": g.rng.permutation(g.rank(x)).tolist() if g.chance(0.9) else None})


@rule("Concat")
def concat(g: OnnxGrowing, op: str) -> Plan:
    x = g.x(ANY, low=1)
    axis = g.int(0, g.rank(x) - 1)
    inputs = [x]
    for _ in range(g.int(0, 3)):
        shape = list(g.shape(x))
        shape[axis] = g.choice((shape[axis], g.int(1, 5)))
        inputs.append(x if g.chance(0.2) else g.like(x, tuple(shape)))
    g.rng.shuffle(inputs)
    return Plan(inputs, {"axis": axis_of(g, g.rank(x), axis)})


@rule("Split")
def split(g: OnnxGrowing, op: str) -> Plan:
    x = g.x(ANY, low=1)
    axis = g.int(0, g.rank(x) - 1)
    size = g.shape(x)[axis]
    count = g.int(1, min(4, size))
    attrs: dict[str, Any] = {"axis": axis_of(g, g.rank(x), axis)}
    if g.chance(0.3) and (g.opset >= 18 or size % count == 0):
        if g.opset >= 18:
            attrs["num_outputs"] = count
            if count > 1 and (count - 1) * -(-size // count) >= size:
                raise Unfit("an empty part")
        return Plan([x], attrs, count)
    cuts = np.sort(g.rng.choice(np.arange(1, size), count - 1, replace=False)) if count > 1 else []
    parts = np.diff([0, *cuts, size]).tolist()
    if g.opset < 13:
        return Plan([x], attrs | {"split": parts}, count)
    return Plan([x, g.const(parts, "int64")], attrs, count)


def _axes(
    g: OnnxGrowing, x: list[str], axes: list[int], attrs: dict[str, Any] | None = None
) -> Plan:
    if g.opset < 13:
        return Plan(x, {"axes": axes, **(attrs or {})})
    return Plan([*x, g.const(axes, "int64")], attrs or {})


@rule("Squeeze")
def squeeze(g: OnnxGrowing, op: str) -> Plan:
    x = g.x(ANY, low=1, fits=lambda s: 1 in s, make=lambda: (1, *g.random_shape(1, 3)))
    ones = [i for i, d in enumerate(g.shape(x)) if d == 1]
    if g.chance(0.2):
        return Plan([x])
    return _axes(g, [x], [i for i in ones if g.chance(0.6)] or ones[:1])


@rule("Unsqueeze")
def unsqueeze(g: OnnxGrowing, op: str) -> Plan:
    x = g.x(ANY, high=3)
    count = g.int(1, 2)
    axes = sorted(g.rng.choice(g.rank(x) + count, count, replace=False).tolist())
    return _axes(g, [x], axes)


@rule("Flatten")
def flatten(g: OnnxGrowing, op: str) -> Plan:
    x = g.x(ANY if g.opset >= 9 else F32, low=1)
    return Plan([x], {"axis": g.choice((None, g.int(0, g.rank(x))))})


@rule("Tile")
def tile(g: OnnxGrowing, op: str) -> Plan:
    x = g.x(ANY, low=1)
    return Plan([x, g.const([g.choice((1, 1, 2, 3)) for _ in g.shape(x)], "int64")])


@rule("Expand")
def expand(g: OnnxGrowing, op: str) -> Plan:
    x = g.x(ANY)
    shape = [d if d > 1 else g.choice((1, 2, 3)) for d in g.shape(x)]
    lead = [g.int(1, 3)] if g.chance(0.3) else []
    short = shape[g.int(0, len(shape)) :] if not lead and g.chance(0.2) else [*lead, *shape]
    return Plan([x, g.const(short, "int64")])


@rule("Slice")
def cut(g: OnnxGrowing, op: str) -> Plan:
    x = g.x(ANY, low=1)
    rank = g.rank(x)
    axes = sorted(g.rng.permutation(rank)[: g.int(1, rank)].tolist())
    starts, ends, steps = [], [], []
    for a in axes:
        size = g.shape(x)[a]
        first, last = sorted((g.int(0, size - 1), g.int(0, size - 1)))
        step = g.choice((1, 1, 2, 3))
        if g.opset >= 10 and g.chance(0.25):
            starts.append(last)
            ends.append(first - 1 if first else -size - 1)
            steps.append(-step)
        else:
            starts.append(first - size if g.chance(0.3) else first)
            ends.append(g.choice((last + 1, 2**31 - 1)) if last == size - 1 else last + 1)
            steps.append(step if g.opset >= 10 else 1)
    if g.opset < 10:
        return Plan([x], {"starts": starts, "ends": ends, "axes": axes})
    kind = g.choice(("int64", "int32"))
    return Plan([x, *(g.const(v, kind) for v in (starts, ends, axes, steps))])


@rule("Pad")
def pad(g: OnnxGrowing, op: str) -> Plan:
    x = g.x(F32 if g.opset < 11 else ("float32", "float32", "int32", "int64", "float64"), low=1)
    modes = ("constant", "reflect", "edge") + (("wrap",) if g.opset >= 19 else ())
    mode = g.choice(modes)
    most = [min(2, d - 1) if mode in ("reflect", "wrap") else 2 for d in g.shape(x)]
    pads = [g.int(0, m) if g.chance(0.6) else 0 for m in (*most, *most)]
    if g.opset < 11:
        value = {"value": float(g.number(-2, 2))} if mode == "constant" and g.chance(0.5) else {}
        return Plan([x], {"mode": mode, "pads": pads, **value})
    inputs = [x, g.const(pads, "int64")]
    if mode == "constant" and g.chance(0.5):
        inputs.append(g.const(np.asarray(g.int(-3, 3)).astype(g.types[x])))
    return Plan(inputs, {"mode": mode})


def _index(g: OnnxGrowing, values: Any) -> str:
    x = np.asarray(values).astype(g.choice(("int64", "int32")))
    if g.chance(0.6):
        return g.const(x)
    name = g.const(x)
    g.feeds[name] = g.constants.pop(name)
    return name


def _signed(g: OnnxGrowing, index: np.ndarray, size: int) -> np.ndarray:
    if g.opset < 11:
        return index
    return np.asarray(index - size * (g.rng.random(index.shape) < 0.3))


@rule("Gather")
def gather(g: OnnxGrowing, op: str) -> Plan:
    x = g.x(ANY, low=1, high=4)
    axis = g.int(0, g.rank(x) - 1)
    size = g.shape(x)[axis]
    shape = g.choice(((), (1,), (3,), (5,), (2, 3)))
    index = _signed(g, np.asarray(g.rng.integers(0, size, shape)), size)
    return Plan([x, _index(g, index)], {"axis": axis_of(g, g.rank(x), axis)})


@rule("RotaryEmbedding")
def rotary_embedding(g: OnnxGrowing, op: str) -> Plan:
    batch, heads, places, pairs = g.int(1, 2), g.int(1, 3), g.int(1, 4), g.int(1, 4)
    rest = g.choice((0, 0, 2))
    size = 2 * pairs + rest
    flat = g.chance(0.5)
    shape = (batch, places, heads * size) if flat else (batch, heads, places, size)
    x = g.x(("float32", "float16"), 3, 4, fits=lambda s: s == shape, make=lambda: shape)
    rows = g.choice((None, 5))
    angles = (batch, places, pairs) if rows is None else (rows, pairs)
    inputs = [x, *(g.like(x, angles, (-1, 1)) for _ in range(2))]
    if rows is not None:
        inputs.append(_index(g, g.rng.integers(0, rows, (batch, places))))
    attrs = {
        "interleaved": g.choice((None, 0, 1)),
        "num_heads": heads if flat else None,
        "rotary_embedding_dim": 2 * pairs if rest else g.choice((None, 0)),
    }
    return Plan(inputs, attrs)


@rule("GatherElements")
def gather_elements(g: OnnxGrowing, op: str) -> Plan:
    x = g.x(ANY, low=1, high=4)
    axis = g.int(0, g.rank(x) - 1)
    size = g.shape(x)[axis]
    shape = tuple(g.int(1, 6) if i == axis else g.int(1, d) for i, d in enumerate(g.shape(x)))
    if any(s != d for i, (s, d) in enumerate(zip(shape, g.shape(x), strict=True)) if i != axis):
        shape = tuple(
            s if i == axis else d for i, (s, d) in enumerate(zip(shape, g.shape(x), strict=True))
        )
    index = _signed(g, g.rng.integers(0, size, shape), size)
    return Plan([x, _index(g, index)], {"axis": axis_of(g, g.rank(x), axis)})


@rule("GatherND")
def gather_nd(g: OnnxGrowing, op: str) -> Plan:
    x = g.x(ANY, low=1, high=4)
    batch = g.int(0, g.rank(x) - 1) if g.opset >= 12 and g.chance(0.3) else 0
    depth = g.int(1, g.rank(x) - batch)
    shape = (*g.shape(x)[:batch], g.int(1, 4))
    parts = [g.rng.integers(0, d, shape) for d in g.shape(x)[batch : batch + depth]]
    index = g.const(np.stack(parts, -1), "int64")
    return Plan([x, index], {"batch_dims": batch} if batch else {})


@rule("Scatter", "ScatterElements")
def scatter_elements(g: OnnxGrowing, op: str) -> Plan:
    x = g.x(("float32", "float32", "int32", "int64"), low=1, high=4)
    axis = g.int(0, g.rank(x) - 1)
    shape = tuple(g.int(1, d) for d in g.shape(x))
    full = tuple(g.shape(x)[axis] if i == axis else d for i, d in enumerate(shape))
    index = np.take(np.argsort(g.rng.random(full), axis), range(shape[axis]), axis)
    index = _signed(g, index, g.shape(x)[axis])
    reduction = None
    if op == "ScatterElements" and g.opset >= 16 and g.chance(0.4):
        reduction = g.choice(("add", "mul", *(("max", "min") if g.opset >= 18 else ())))
    attrs = {"axis": axis_of(g, g.rank(x), axis), "reduction": reduction}
    return Plan([x, _index(g, index), g.like(x, shape)], attrs)


@rule("ScatterND")
def scatter_nd(g: OnnxGrowing, op: str) -> Plan:
    x = g.x(("float32", "float32", "int32"), low=1, high=4)
    depth = g.int(1, g.rank(x))
    lead = g.shape(x)[:depth]
    flat = g.rng.choice(math.prod(lead), g.int(1, min(6, math.prod(lead))), replace=False)
    index = g.const(np.stack(np.unravel_index(flat, lead), -1), "int64")
    updates = g.like(x, (len(flat), *g.shape(x)[depth:]))
    reduction = None
    if g.opset >= 16 and g.chance(0.4):
        reduction = g.choice(("add", "mul", *(("max", "min") if g.opset >= 18 else ())))
    return Plan([x, index, updates], {"reduction": reduction})


@rule("OneHot")
def one_hot(g: OnnxGrowing, op: str) -> Plan:
    depth, shape = g.int(2, 6), g.random_shape(1, 2)
    index = _index(g, g.rng.integers(-depth if g.opset >= 11 else 0, depth, shape))
    values = g.const([g.number(-2, 0), g.number(1, 3)], "float32")
    return Plan([index, g.const(depth, "int64"), values], {"axis": g.choice((-1, 0, len(shape)))})


@rule("Trilu")
def trilu(g: OnnxGrowing, op: str) -> Plan:
    x = g.x(("float32", "float32", "int64"), low=2)
    inputs = [x, g.const(g.int(-3, 3), "int64")] if g.chance(0.6) else [x]
    return Plan(inputs, {"upper": g.choice((None, 0, 1))})


@rule("Compress")
def compress(g: OnnxGrowing, op: str) -> Plan:
    x = g.x(F32, low=1)
    axis = g.choice((None, g.int(0, g.rank(x) - 1)))
    size = math.prod(g.shape(x)) if axis is None else g.shape(x)[axis]
    flags = g.rng.integers(0, 2, g.int(1, size)).astype(bool)
    flags[0] = True
    return Plan([x, g.const(flags)], {"axis": axis})


@rule("ReverseSequence")
def reverse_sequence(g: OnnxGrowing, op: str) -> Plan:
    x = g.x(F32, low=2, high=4)
    batch = g.int(0, 1)
    lengths = g.rng.integers(1, g.shape(x)[1 - batch], g.shape(x)[batch], endpoint=True)
    return Plan([x, g.const(lengths, "int64")], {"batch_axis": batch, "time_axis": 1 - batch})


# ---- areas


def image(g: OnnxGrowing, rank: int, types: Sequence[str] = F32) -> str:
    def make() -> Shape:
        space = tuple(g.int(1, (0, 16, 9, 5)[rank]) for _ in range(rank))
        return (g.choice((1, 1, 2)), g.choice((1, 2, 3, 4, 8, 16)), *space)

    return g.x(types, rank + 2, rank + 2, fits=lambda s: s[1] <= 24 and s[0] <= 8, make=make)


def _windows(
    g: OnnxGrowing, x: str, dilated: bool, most: int = 4, exact: bool = False
) -> dict[str, Any]:
    """kernel_shape, strides, pads, dilations that fit."""
    sizes = g.shape(x)[2:]
    kernel, strides, before, after, dilations = [], [], [], [], []
    padded = g.chance(0.5)
    for size in sizes:
        k, d = g.int(1, most), g.choice((1, 1, 2)) if dilated else 1
        reach = d * (k - 1) + 1
        b, a = (g.int(0, (reach - 1) if exact else k - 1) for _ in range(2)) if padded else (0, 0)
        if size + a + b < reach:
            k = d = 1
            a = b = 0
        for to, v in ((kernel, k), (strides, g.int(1, 3)), (before, b), (after, a), (dilations, d)):
            to.append(v)
    attrs: dict[str, Any] = {"kernel_shape": kernel}
    if g.chance(0.7):
        attrs["strides"] = strides
    # Negative auto_pad: ONNX Runtime refuses it in pools, onnx's evaluator crops; here it is 0.
    gaps = "strides" in attrs and any(s > k for s, k in zip(strides, kernel, strict=True))
    if padded:
        attrs["pads"] = before + after
    elif g.chance(0.25) and not any(d > 1 for d in dilations) and (exact or not gaps):
        attrs["auto_pad"] = g.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    if any(d > 1 for d in dilations):
        attrs["dilations"] = dilations
    return attrs


@rule("Conv")
def conv(g: OnnxGrowing, op: str) -> Plan:
    x = image(g, g.choice((1, 2, 2, 2, 3)))
    attrs = _windows(g, x, True, exact=True)
    channels = g.shape(x)[1]
    groups = g.choice([*divisors(channels), 1, 1, channels])
    outputs = groups * g.choice((1, 2, 3)) if groups > 1 else g.choice((1, 2, 5, 8, 16))
    kernel = attrs["kernel_shape"]
    if g.chance(0.3):
        del attrs["kernel_shape"]
    w = g.like(x, (outputs, channels // groups, *kernel), (-1, 1), constant=g.chance(0.9))
    bias = [g.like(x, (outputs,), constant=g.chance(0.9))] if g.chance(0.6) else []
    return Plan([x, w, *bias], attrs | ({"group": groups} if groups > 1 else {}))


@rule("ConvInteger")
def conv_integer(g: OnnxGrowing, op: str) -> Plan:
    x = image(g, g.choice((1, 2, 2, 2, 3)), ("uint8", "int8"))
    attrs = _windows(g, x, True, exact=True)
    channels, kind = g.shape(x)[1], g.choice(("uint8", "int8"))
    groups = g.choice([*divisors(channels), 1, 1, channels])
    outputs = groups * g.choice((1, 2, 3))
    info = np.iinfo(kind)
    shape = (outputs, channels // groups, *attrs["kernel_shape"])
    w = g.const(g.rng.integers(info.min, info.max + 1, shape).astype(kind))
    points = [(np.iinfo(k), k) for k in (g.types[x], kind)][: g.int(0, 2)]
    zeros = [g.const(np.asarray(g.rng.integers(i.min, i.max), k)) for i, k in points]
    return Plan([x, w, *zeros], attrs | ({"group": groups} if groups > 1 else {}))


@rule("ConvTranspose")
def conv_transpose(g: OnnxGrowing, op: str) -> Plan:
    x = image(g, g.choice((1, 2, 2)))
    channels, rank = g.shape(x)[1], g.rank(x) - 2
    groups = g.choice([*divisors(channels), 1, 1])
    each = g.choice((1, 2, 3))
    kernel, strides = [g.int(1, 4) for _ in range(rank)], [g.int(1, 3) for _ in range(rank)]
    attrs: dict[str, Any] = {"strides": strides, "group": groups}
    if g.chance(0.4):
        pads = [min(g.int(0, k - 1), 1) for k in kernel]
        if all((s - 1) * t + k > 2 * p for s, t, k, p in zip(
            g.shape(x)[2:], strides, kernel, pads, strict=True)):  # fmt: skip
            attrs["pads"] = pads * 2
    if g.chance(0.3):
        attrs["output_padding"] = [g.int(0, s - 1) for s in strides]
    w = g.like(x, (channels, each, *kernel), (-1, 1), constant=g.chance(0.9))
    bias = [g.like(x, (each * groups,), constant=True)] if g.chance(0.5) else []
    return Plan([x, w, *bias], attrs)


@rule("MaxPool", "AveragePool", "LpPool")
def pool(g: OnnxGrowing, op: str) -> Plan:
    x = image(g, g.choice((1, 2, 2, 2, 3)))
    newer = {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[op]
    attrs = _windows(g, x, g.opset >= newer and op == "MaxPool")
    if g.opset >= newer and g.chance(0.3) and "auto_pad" not in attrs:
        attrs["ceil_mode"] = 1
    if op == "AveragePool" and g.chance(0.5):
        attrs["count_include_pad"] = g.int(0, 1)
    if op == "LpPool":
        attrs["p"] = g.choice((1, 2, 3))
    return Plan([x], attrs)


@rule("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(g: OnnxGrowing, op: str) -> Plan:
    x = image(g, g.choice((1, 2, 3)))
    return Plan([x], {"p": g.choice((None, 1, 2))} if op == "GlobalLpPool" else {})


@rule("Upsample")
def upsample(g: OnnxGrowing, op: str) -> Plan:
    x = image(g, 2)
    scales = [1.0, 1.0, float(g.int(1, 3)), float(g.int(1, 3))]
    mode = g.choice(("nearest", "linear"))
    if g.opset < 9:
        return Plan([x], {"scales": scales, "mode": mode})
    return Plan([x, g.const(scales, "float32")], {"mode": mode})


@rule("Resize")
def resize(g: OnnxGrowing, op: str) -> Plan:
    x = image(g, g.choice((1, 2, 2, 3)))
    mode = (
        g.choice(("nearest", "linear", "cubic"))
        if g.opset >= 11
        else g.choice(("nearest", "linear"))
    )
    if mode == "cubic" and g.rank(x) != 4:
        mode = "linear"
    shape = [d if i < 2 else g.choice((d, d * 2, g.int(1, 10))) for i, d in enumerate(g.shape(x))]
    # Never the next whole number by a rounding.
    scales = [s / d * (1 + 1e-6 * (s % d > 0)) for s, d in zip(shape, g.shape(x), strict=True)]
    if g.opset < 11:
        return Plan([x, g.const(scales, "float32")], {"mode": mode})
    how = g.choice(("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"))
    attrs: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": how}
    if mode == "nearest":
        attrs["nearest_mode"] = g.choice(
            ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
        )
    if mode == "cubic" and g.chance(0.4):
        attrs |= {"cubic_coeff_a": float(g.number(-1, -0.3)), "exclude_outside": g.int(0, 1)}
    roi = "" if g.opset >= 13 else g.const(np.zeros(0), "float32")
    if g.chance(0.5):
        return Plan([x, roi, g.const(scales, "float32")], attrs)
    none = "" if g.opset >= 13 else g.const(np.zeros(0), "float32")
    return Plan([x, roi, none, g.const(shape, "int64")], attrs)


@rule("GridSample")
def grid_sample(g: OnnxGrowing, op: str) -> Plan:
    x = image(g, 2)
    grid = g.new("float32", (g.shape(x)[0], g.int(1, 5), g.int(1, 5), 2), (-1.5, 1.5))
    linear = "linear" if g.opset >= 20 else "bilinear"
    attrs: dict[str, Any] = {
        "mode": g.choice((linear, "nearest")), "align_corners": g.int(0, 1),
        "padding_mode": g.choice(("zeros", "border", "reflection")),
    }  # fmt: skip
    return Plan([x, grid], attrs)


@rule("RoiAlign")
def roi_align(g: OnnxGrowing, op: str) -> Plan:
    x = image(g, 2)
    count = g.int(1, 3)
    first = g.rng.uniform(0, 4, (count, 2))
    boxes = g.const(
        np.concatenate([first, first + g.rng.uniform(0.5, 5, (count, 2))], 1), "float32"
    )
    batch = g.const(g.rng.integers(0, g.shape(x)[0], count), "int64")
    attrs: dict[str, Any] = {
        "output_height": g.int(1, 3), "output_width": g.int(1, 3), "sampling_ratio": g.int(0, 3),
        "spatial_scale": float(g.choice((1.0, 0.5))), "mode": g.choice(("avg", "avg", "max")),
    }  # fmt: skip
    if g.opset >= 16 and g.chance(0.5):
        attrs["coordinate_transformation_mode"] = g.choice(("half_pixel", "output_half_pixel"))
    return Plan([x, boxes, batch], attrs)


@rule("DepthToSpace", "SpaceToDepth")
def depth_space(g: OnnxGrowing, op: str) -> Plan:
    block = g.int(1, 3)
    n, c, h, w = (g.int(1, 4) for _ in range(4))
    if op == "DepthToSpace":
        x = g.new("float32", (n, c * block * block, h, w))
        return Plan([x], {"blocksize": block} | (
            {"mode": g.choice(("DCR", "CRD"))} if g.opset >= 11 else {}))  # fmt: skip
    return Plan([g.new("float32", (n, c, h * block, w * block))], {"blocksize": block})


@rule("Dropout")
def dropout(g: OnnxGrowing, op: str) -> Plan:
    return Plan([g.x(F32)])
