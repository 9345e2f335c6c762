"""Blocks of networks for images, channels first."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .elementwise import activation_of, silu_of
from .net import Net, Skip, block
from .norms import layer_norm_of


def conv_of(
    g: Net, x: str, k: int | None = None, stride: int | None = None, out: int | None = None,
    groups: int | None = None,
) -> str:  # fmt: skip
    n, c, *size = g.shape(x)
    k, stride, dilation = (
        k or g.choice([1, 1, 3, 3, 2, 5]),
        stride or g.between(1, 2),
        g.between(1, 2),
    )
    groups = groups or g.choice([1, 1, 1, c, *(d for d in (2, 4) if c % d == 0)])
    out = out or groups * g.choice([1, 2] if groups > 1 else [4, 8, 12, 16])
    pads = [k // 2 * dilation] * 4
    if g.chance(0.3):
        pads = [g.between(0, p) for p in pads]
    size = [
        (d + pads[i] + pads[i + 2] - dilation * (k - 1) - 1) // stride + 1
        for i, d in enumerate(size)
    ]
    if min(size) < 1:
        raise Skip
    given = [x, g.weights(out, c // groups, k, k), *([g.weights(out)] if g.chance(0.6) else [])]
    return g.op("Conv", given, (n, out, *size), kernel_shape=[k, k], pads=pads, group=groups,
                strides=[stride] * 2, dilations=[dilation] * 2)  # fmt: skip


def batch_norm_of(g: Net, x: str) -> str:
    c = g.shape(x)[1]
    parts = [g.weights(c), g.weights(c), g.weights(c), g.const(g.rng.uniform(0.3, 2, c))]
    return g.op("BatchNormalization", [x, *parts], epsilon=1e-3)


@block(6)
def convolution(g: Net) -> str:
    """With what may be folded into it."""
    y = conv_of(g, g.image()[0])
    c = g.shape(y)[1]
    if g.chance(0.4):
        y = batch_norm_of(g, y)
    if g.chance(0.15):
        y = g.either("Mul", y, g.const(g.rng.uniform(0.5, 1.5, (1, c, 1, 1))))
    if g.chance(0.15):
        y = g.either("Add", y, g.weights(c, 1, 1))
    return activation_of(g, y)


@block(4)
def residual(g: Net) -> str:
    x, _, c, _, _ = g.image()
    y = conv_of(g, x, 3, 1, c, g.choice([1, c]))
    if g.shape(y) != g.shape(x):
        raise Skip
    if g.chance(0.5):
        y = batch_norm_of(g, y)
    if g.chance(0.3):
        y = activation_of(g, y)
    if g.chance(0.3):
        y = g.either("Mul", y, g.weights(c, 1, 1))
    return activation_of(g, g.either("Add" if g.chance(0.8) else "Sub", x, y))


@block()
def transposed_convolution(g: Net) -> str:
    x, n, c, h, w = g.image()
    k, stride, pad, groups = g.between(2, 4), g.between(1, 2), g.between(0, 1), g.choice([1, 1, c])
    each = 4 if groups == 1 else 1
    size = [(d - 1) * stride + k - 2 * pad for d in (h, w)]
    if min(size) < 1:
        raise Skip
    given = [x, g.weights(c, each, k, k)]
    if g.chance(0.5):
        given.append(g.weights(each * groups))
    y = g.op("ConvTranspose", given, (n, each * groups, *size), kernel_shape=[k, k],
             strides=[stride] * 2, pads=[pad] * 4, group=groups)  # fmt: skip
    return activation_of(g, batch_norm_of(g, y) if g.chance(0.3) else y)


@block(2)
def pool(g: Net) -> str:
    x, n, c, *size = g.image()
    op, k, stride = g.choice(["MaxPool", "AveragePool"]), g.between(2, 3), g.between(1, 2)
    if min(size) < k:
        raise Skip
    pad = g.between(0, 1) if k == 3 else 0
    attrs: dict[str, Any] = {"kernel_shape": [k, k], "strides": [stride] * 2, "pads": [pad] * 4}
    up = g.opset >= (10 if op == "MaxPool" else 19) and g.chance(0.3)
    if up:
        attrs["ceil_mode"] = 1
    if op == "AveragePool":
        attrs["count_include_pad"] = g.between(0, 1)

    def count(d: int) -> int:
        rest = d + 2 * pad - k
        number = (-(-rest // stride) if up else rest // stride) + 1
        return number - int(up and (number - 1) * stride >= d + pad)

    return g.op(op, [x], (n, c, *map(count, size)), **attrs)


@block(2)
def squeeze_and_excite(g: Net) -> str:
    x, n, c, _, _ = g.image()
    if g.chance(0.6):
        y = g.op("GlobalAveragePool", [x], (n, c, 1, 1))
    else:
        y = g.reduce("ReduceMean", x, [2, 3])
    if g.chance(0.5):
        y = g.op("Conv", [y, g.weights(4, c, 1, 1), g.weights(4)], (n, 4, 1, 1))
        y = g.op("Relu", [y]) if g.chance(0.7) else silu_of(g, y)
        y = g.op("Conv", [y, g.weights(c, 4, 1, 1), g.weights(c)], (n, c, 1, 1))
    else:
        y = g.op("Flatten", [y], (n, c), axis=1)
        y = g.op("Gemm", [y, g.weights(4, c), g.weights(4)], (n, 4), transB=1)
        y = g.op("Gemm", [g.op("Relu", [y]), g.weights(c, 4), g.weights(c)], (n, c), transB=1)
        y = g.reshape(y, n, c, 1, 1)
    return g.either("Mul", x, g.op(g.choice(["Sigmoid", "Sigmoid", "HardSigmoid"]), [y]))


@block(2)
def shuffle(g: Net) -> str:
    """Channels, or channels and pixels, by Reshape and Transpose."""
    x, n, c, h, w = g.image()
    form = g.between(0, 2)
    if form == 0 and c % 2 == 0:
        y = g.transpose(g.reshape(x, n, 2, c // 2, h, w), 0, 2, 1, 3, 4)
        return g.reshape(y, n, c, h, w)
    if form == 1 and c % 4 == 0:
        y = g.reshape(x, n, c // 4, 2, 2, h, w)
        y = g.transpose(y, *g.choice([(0, 1, 4, 2, 5, 3), (0, 1, 4, 3, 5, 2)]))
        return g.reshape(y, n, c // 4, h * 2, w * 2)
    if form == 2 and h % 2 == w % 2 == 0:
        y = g.reshape(x, n, c, h // 2, 2, w // 2, 2)
        orders = ((0, 1, 3, 5, 2, 4), (0, 3, 5, 1, 2, 4), (0, 5, 3, 1, 2, 4))
        return g.reshape(g.transpose(y, *g.choice(orders)), n, c * 4, h // 2, w // 2)
    raise Skip


@block()
def depth_and_space(g: Net) -> str:
    x, n, c, h, w = g.image()
    if c % 4 == 0 and g.chance(0.5):
        attrs = {"mode": g.choice(["DCR", "CRD"])} if g.opset >= 11 else {}
        shape = (n, c // 4, h * 2, w * 2)
        return g.op("DepthToSpace", [x], shape, blocksize=2, **attrs)
    if h % 2 or w % 2:
        raise Skip
    return g.op("SpaceToDepth", [x], (n, c * 4, h // 2, w // 2), blocksize=2)


@block()
def focus(g: Net) -> str:
    x, _, _, h, w = g.image()
    if h % 2 or w % 2:
        raise Skip
    corners = [(0, 0), (1, 0), (0, 1), (1, 1)]
    if g.chance(0.3):
        corners = [corners[i] for i in g.order(4)]
    rows = [(g.slice(x, 2, a, None, 2), b) for a, b in corners]
    return g.concat([g.slice(y, 3, b, None, 2) for y, b in rows], 1)


@block()
def resize(g: Net) -> str:
    x, n, c, h, w = g.image()
    if g.opset < 11 or math.prod(g.shape(x)) > 1500:
        raise Skip
    times, mode = g.choice([2, 2, 3]), g.choice(["nearest", "linear"])
    kinds = ["asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel"]
    attrs = {"mode": mode, "coordinate_transformation_mode": g.choice(kinds)}
    if mode == "nearest":
        attrs["nearest_mode"] = g.choice(["floor", "round_prefer_floor"])
    regions = "" if g.opset >= 13 else g.const([])
    scales = g.const([1, 1, times, times])
    return g.op("Resize", [x, regions, scales], (n, c, h * times, w * times), **attrs)


@block()
def image_norm(g: Net) -> str:
    x, n, c, h, w = g.image()
    form = g.between(0, 3)
    if form == 0:
        return g.op("InstanceNormalization", [x, g.weights(c), g.weights(c)], epsilon=1e-3)
    if form == 1:
        return g.op("LRN", [x], size=3)
    if form == 2:  # groups
        groups = 2 if c % 2 == 0 else 1
        ones = g.const(np.ones(groups)), g.const(np.zeros(groups))
        y = g.reshape(x, n, groups, c // groups * h * w)
        y = g.op("InstanceNormalization", [y, *ones], epsilon=1e-3)
        y = g.reshape(y, n, c, h, w)
        for op in ("Mul", "Add"):
            if g.chance(0.8):
                y = g.either(op, y, g.weights(c, 1, 1))
        return y
    return g.transpose(layer_norm_of(g, g.transpose(x, 0, 2, 3, 1)), 0, 3, 1, 2)


@block()
def to_sequence(g: Net) -> str:
    x, n, c, h, w = g.image()
    form = g.between(0, 2)
    if form == 0:
        return g.transpose(g.reshape(x, n, c, h * w), 0, 2, 1)
    y = g.transpose(x, 0, 2, 3, 1)
    if form == 1 or h % 2 or w % 2:
        return g.reshape(y, n, h * w, c)
    y = g.transpose(g.reshape(y, n, h // 2, 2, w // 2, 2, c), 0, 1, 3, 2, 4, 5)
    return g.reshape(y, n, h * w // 4, 4 * c)
