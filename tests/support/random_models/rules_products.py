"""Rules of ops that sum products: convolutions, matrix products, recurrent cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from qnnrt.model import Quantization

from .growing import FIXED_ACTIVATIONS, Growing, Plan, Shape, Unfit, rule


def _weights(g: Growing, x: str, shape: Shape, axis: int | None) -> str:
    """Constants mostly; of fixed point perhaps with a scale for each output channel."""
    bound = 1.5
    if not g.is_fixed(x):
        return g.like(x, shape, (-bound, bound), constant=g.chance(0.8))
    kind = g.choice(("SFIXED_POINT_8", "UFIXED_POINT_8", "SFIXED_POINT_8", "SFIXED_POINT_16",
                     "UFIXED_POINT_16"))  # fmt: skip
    if axis is None or kind.startswith("U") or g.chance(0.5):
        return g.new(kind, shape, (-bound, bound), constant=g.chance(0.9))
    bits = 8 if kind.endswith("8") else 16
    most = 2 ** (bits - 1) - 1
    scale = np.asarray(g.rng.uniform(0.2, bound, shape[axis]) / most, np.float32)
    encoding = Quantization(scale, np.zeros(shape[axis], np.int32), axis % len(shape))
    codes = g.rng.integers(-most, most, shape, endpoint=True)
    return g.add(kind, codes, constant=True, private=True, encoding=encoding)


def _bias(g: Growing, x: str, w: str, count: int) -> list[str]:
    if g.chance(0.35):
        return []
    if not g.is_fixed(x):
        return [g.like(x, (count,), constant=g.chance(0.8))]
    first, second = g.encoding(x), g.encoding(w)
    assert first is not None
    assert second is not None
    scale = np.asarray(np.float64(first.scale) * np.asarray(second.scale, np.float64), np.float32)
    real = g.rng.uniform(-1, 1, count)
    codes = np.clip(np.rint(real / scale), -(2**30), 2**30).astype(np.int32)
    if scale.ndim:
        if second.axis is None or len(scale) != count:
            raise Unfit("scales along another axis")
        q = Quantization(scale, np.zeros(count, np.int32), 0)
    else:
        q = Quantization(float(scale), 0)
    return [g.add("SFIXED_POINT_32", codes, constant=True, private=True, encoding=q)]


def _out(g: Growing, x: str) -> str:
    if g.is_fixed(x) and g.chance(0.2):
        return g.choice(FIXED_ACTIVATIONS)
    return g.kind(x)


def _geometry(g: Growing, size: int, dilated: bool = True) -> tuple[int, int, int, int, int]:
    """Kernel, stride, dilation, pads of one dimension."""
    if g.chance(0.03):
        return _far(g, size, dilated)
    kernel, stride = g.choice((1, 1, 2, 3, 3, 4)), g.choice((1, 1, 2, 3))
    dilation = g.choice((1, 1, 2, 3)) if dilated else 1
    reach = dilation * (kernel - 1) + 1
    before, after = g.int(0, reach - 1), g.int(0, reach - 1)
    if g.chance(0.4):
        before = after = 0
    if size + before + after < reach:
        kernel, dilation, before, after = 1, 1, 0, 0
    return kernel, stride, dilation, before, after


def _far(g: Growing, size: int, dilated: bool) -> tuple[int, int, int, int, int]:
    """Taps far apart, windows without any tap inside, strides over them: what nobody needs, and
    what generators of code get wrong."""
    kernel, stride = g.int(1, 7), g.choice((1, 1, 2, 7, 50))
    dilation = g.choice((1, 5, 64, 128, 1000)) if dilated else 1
    missing = max(0, dilation * (kernel - 1) + 1 - size)
    before = g.int(0, missing) + g.int(0, 6)
    return kernel, stride, dilation, before, max(0, missing - before) + g.int(0, 12)


def _image(g: Growing, op: str, rank: int) -> str:
    most = {1: 20, 2: 9, 3: 5}[rank]

    def make() -> Shape:
        space = tuple(g.int(1, most) for _ in range(rank))
        return (g.choice((1, 1, 2)), *space, g.choice((1, 2, 3, 4, 6, 8, 16, 17)))

    return g.operand(g.types(op), rank + 2, rank + 2, make=make,
                     fits=lambda s: s[-1] <= 24 and s[0] <= 8)  # fmt: skip


def _param(values: list[Any], rank: int, scalar: bool) -> Any:
    return np.uint32(values[0]) if scalar and rank == 1 else np.asarray(values, np.uint32)


@rule("Conv1d", "Conv2d", "Conv3d", "DepthWiseConv1d", "DepthWiseConv2d")
def conv(g: Growing, op: str) -> Plan:
    rank = int(op[-2])
    x = _image(g, op, rank)
    channels = g.shape(x)[-1]
    dims = [_geometry(g, size) for size in g.shape(x)[1:-1]]
    kernel = tuple(d[0] for d in dims)
    groups = 1
    if op.startswith("DepthWise"):
        outputs = channels * g.choice((1, 1, 1, 2, 3))
        shape = (*kernel, 1, outputs)
    else:
        groups = g.choice([d for d in range(1, channels + 1) if channels % d == 0] + [1] * 4)
        outputs = groups * g.choice((1, 2, 3, 4)) if groups > 1 else g.choice((1, 2, 5, 8, 16, 19))
        shape = (*kernel, channels // groups, outputs)
    w = _weights(g, x, shape, -1)
    params: dict[str, Any] = {
        "stride": _param([d[1] for d in dims], rank, True),
        "pad_amount": np.asarray([d[3:] for d in dims], np.uint32).reshape((-1, 2)[rank == 1 :]),
    }
    if rank == 1:
        params["pad_amount"] = np.asarray(dims[0][3:], np.uint32)
    if any(d[2] != 1 for d in dims) or g.chance(0.3):
        params["dilation"] = _param([d[2] for d in dims], rank, True)
    if groups != 1:
        params["group"] = np.uint32(groups)
    return Plan([x, w, *_bias(g, x, w, outputs)], [_out(g, x)], params)


@rule("TransposeConv2d", "TransposeConv3d")
def transpose_conv(g: Growing, op: str) -> Plan:
    x = _image(g, op, int(op[-2]))
    channels = g.shape(x)[-1]
    kernel, stride, extra, pads = [], [], [], []
    for size in g.shape(x)[1:-1]:
        k, s = g.int(1, 4), g.int(1, 3)
        e = g.int(0, s - 1)
        before, after = g.int(0, k - 1), g.int(0, k - 1)
        if (size - 1) * s + k + e - before - after < 1:
            before = after = 0
        for to, value in ((kernel, k), (stride, s), (extra, e), (pads, [before, after])):
            to.append(value)  # type: ignore[attr-defined]
    groups = g.choice([d for d in range(1, channels + 1) if channels % d == 0] + [1] * 3)
    each = g.choice((1, 2, 3, 5))
    w = _weights(g, x, (*kernel, channels, each), -1 if groups == 1 else None)
    params: dict[str, Any] = {
        "stride": np.asarray(stride, np.uint32), "pad_amount": np.asarray(pads, np.uint32)
    }  # fmt: skip
    if groups != 1 or g.chance(0.3):
        params["group"] = np.uint32(groups)
    if any(extra) or g.chance(0.3):
        params["output_padding"] = np.asarray(extra, np.uint32)
    return Plan([x, w, *_bias(g, x, w, each * groups)], [_out(g, x)], params)


@rule("MatMul")
def matmul(g: Growing, op: str) -> Plan:
    a = g.operand(g.types(op), 2, 4)
    *lead, rows, inner = g.shape(a)
    params: dict[str, Any] = {}
    if g.chance(0.3):
        params["transpose_in0"] = True
        rows, inner = inner, rows
    columns = g.choice((1, 2, 3, 5, 8, 16, 17))
    shape = [inner, columns]
    if g.chance(0.3):
        params["transpose_in1"] = True
        shape.reverse()
    if g.chance(0.5):
        kept = lead[g.int(0, len(lead)) :]
        shape = [*(1 if g.chance(0.3) else d for d in kept), *shape]
    b = g.like(a, tuple(shape), (-1.5, 1.5))
    bias = _bias(g, a, b, columns) if g.chance(0.5) else []
    return Plan([a, b, *bias], [_out(g, a)], params)


@rule("FullyConnected")
def fully_connected(g: Growing, op: str) -> Plan:
    x = g.operand(g.types(op), 1, 4)
    inner = g.shape(x)[-1]
    outputs = g.choice((1, 2, 3, 5, 8, 16, 19))
    w = _weights(g, x, (outputs, inner), 0)
    keep = g.chance(0.3)
    params = {"keep_dims": keep} if keep or g.chance(0.3) else {}
    return Plan([x, w, *_bias(g, x, w, outputs)], [_out(g, x)], params)


def _constant(g: Growing, x: str, shape: Shape) -> str:
    if g.is_fixed(x):
        return g.new(g.kind(x), shape, (-0.8, 0.8), constant=True, private=True)
    return g.like(x, shape, (-0.8, 0.8), constant=True)


def _sequence(g: Growing, op: str) -> tuple[str, bool, bool, int]:
    """The input; whether it is a sequence; time-major; the batch."""
    x = g.operand(g.types(op), 2, 3, domain=(-20, 20), fits=lambda s: s[-1] <= 12 and s[0] <= 8,
                  make=lambda: tuple(g.int(1, 5) for _ in range(g.int(2, 3))))  # fmt: skip
    rank = g.rank(x)
    major = g.chance(0.5)
    batch = g.shape(x)[0] if rank == 2 else g.shape(x)[1 if major else 0]
    return x, rank == 3, major, batch


def _ends(g: Growing, x: str, count: int, first: int) -> list[str | None]:
    """Some of the optional outputs, none behind the last of which stays."""
    made = [g.kind(x) if i < first or g.chance(0.5) else None for i in range(count)]
    while made[-1] is None:
        made.pop()
    return made


@rule("Lstm")
def lstm(g: Growing, op: str) -> Plan:
    x, sequence, major, batch = _sequence(g, op)
    width, units = g.shape(x)[-1], g.int(1, 6)
    projected = g.int(1, 5) if g.chance(0.3) else units
    inputs = [x] + [""] * 23

    def give(*shapes: tuple[int, Shape]) -> None:
        for i, shape in shapes:
            inputs[i] = _constant(g, x, shape)

    give(*((i, (units, width)) for i in (1, 2, 3)))
    give(*((i, (units, projected)) for i in (4, 5, 6)), *((i, (units,)) for i in (7, 8, 9)))
    cifg = g.chance(0.4)
    if not cifg:
        give((16, (units, width)), (17, (units, projected)), (21, (units,)))
    if g.chance(0.4):
        give((10, (batch, projected)), (11, (batch, units)))
    if g.chance(0.25):
        give((13, (units,)), (14, (units,)), (15, (units,)))
        if not cifg:
            give((12, (units,)))
    if g.chance(0.3):
        give((19, (units,)), (20, (units,)))
        if not cifg:
            give((18, (units,)))
    if projected != units or g.chance(0.1):
        give((22, (projected, units)), (23, (projected,)))
    while not inputs[-1]:
        inputs.pop()
    params: dict[str, Any] = {}
    if sequence and (major or g.chance(0.5)):
        params["time_major"] = major
    if g.chance(0.4):
        params["direction"] = np.uint32(g.int(0, 1))
    if g.chance(0.2):
        params["cell_clip_threshold"] = g.number(0.2, 2)
    if len(inputs) == 24 and g.chance(0.3):
        params["output_clip_threshold"] = g.number(0.2, 1)
    return Plan(inputs, _ends(g, x, 3 if g.chance(0.7) else 8, 1), params)


@rule("Gru")
def gru(g: Growing, op: str) -> Plan:
    x, sequence, major, batch = _sequence(g, op)
    width, units = g.shape(x)[-1], g.int(1, 6)
    inputs = [x]
    inputs += [_constant(g, x, (units, width)) for _ in range(3)]
    inputs += [_constant(g, x, (units, units)) for _ in range(3)]
    for _ in range(2):
        given = g.chance(0.6)
        inputs += [_constant(g, x, (units,)) if given else "" for _ in range(3)]
    inputs.append(_constant(g, x, (1, batch, units)) if g.chance(0.4) else "")
    while not inputs[-1]:
        inputs.pop()
    params: dict[str, Any] = {}
    if sequence and (not major or g.chance(0.5)):
        params["time_major"] = major
    if g.chance(0.4):
        params["direction"] = np.uint32(g.int(0, 1))
    if g.chance(0.5):
        params["linear_before_reset"] = np.uint32(g.int(0, 1))
    return Plan(inputs, _ends(g, x, 2, 1), params)


@rule("Buffer")
def buffer(g: Growing, op: str) -> Plan:
    """Of one execution: what is kept for the next one is not seen."""
    x = g.operand(g.types(op), 1, 4)
    dim = g.int(0, g.rank(x) - 1)
    frames = g.shape(x)[dim]
    times = g.int(1, 3)
    mode = g.int(1, 2) if times > 1 else g.int(0, 2)
    params = {
        "buffer_size": np.uint32(frames * times), "buffer_dim": np.uint32(dim),
        "stride": np.uint32(frames * g.int(1, times)), "mode": np.uint32(mode),
    }  # fmt: skip
    return Plan([x], [g.kind(x)], params, encodings=[g.encoding(x)])
