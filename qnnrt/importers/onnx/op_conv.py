"""Convolutions: [N, C, spatial...] with weights [Cout, Cin / group, kernel...] in ONNX."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..shorthand import u32
from .common import cast, pad_constant, strided
from .nodes import Lowering, OnnxNode, Unsupported, lowers
from .values import Value, constant
from .windows import list_attr, padding, transpose_padding

if TYPE_CHECKING:
    from .op_matmul import Decode


def widen(c: Lowering, x: Value) -> Value:
    """[N, C, W] as [N, C, 1, W]: one-dimensional operations run as two-dimensional ones."""
    return c.b.reshape(x, (*x.shape[:2], 1, *x.shape[2:]))


def bias_of(c: Lowering, n: OnnxNode) -> list[Value]:
    bias = n.optional(2)
    return [] if bias is None else [c.b.plain(bias)]


@lowers("Conv", to="Conv2d, DepthWiseConv2d, Conv3d")
def conv(c: Lowering, n: OnnxNode) -> Value:
    return _conv(c, n, n.input(0), n.input(1), lambda x: x, bias_of(c, n))


@lowers("ConvInteger", to="Dequantize, Cast, ElementWiseSubtract, Conv2d")
def conv_integer(c: Lowering, n: OnnxNode) -> Value:
    """A convolution of floats that are integers. This runtime finds it, and takes the integers."""
    from .op_matmul import integers

    x, decode = integers(c, n, 0, 1)
    w, decode_w = integers(c, n, 1, 0)
    return cast(c, _conv(c, n, x, decode_w(w), decode, []), np.int32)


def _conv(c: Lowering, n: OnnxNode, x: Value, w: Value, decode: Decode, bias: list[Value]) -> Value:
    """`decode` is done to the image once nothing moves it any more."""
    spatial = x.rank - 2
    if spatial not in (1, 2, 3):
        raise Unsupported(f"a convolution over {spatial} dimensions")
    group = n.integer("group", 1)
    kernel = list(w.shape[2:])
    stride = list_attr(n, "strides", spatial, 1)
    dilation = list_attr(n, "dilations", spatial, 1)
    pads = padding(n, list(x.shape[2:]), kernel, stride, dilation)
    out = n.shape()
    if spatial == 1:
        x, w = widen(c, x), widen(c, w)
        stride, dilation, pads = [1, *stride], [1, *dilation], [(0, 0), *pads]
    if any(p < 0 for pair in pads for p in pair):
        raise Unsupported(f"negative padding {pads}")
    shape = (out[0], out[1], 1, *out[2:]) if spatial == 1 else out
    x = decode(c.b.channels_last(x))
    w = c.b.with_perm(w, (*range(2, w.rank), 1, 0))
    params: dict[str, object] = {"stride": u32(stride), "pad_amount": u32(pads)}
    depthwise = spatial < 3 and 1 < group == w.shape[0] and w.shape[1] == 1
    if not depthwise:
        params["group"] = np.uint32(group)
    params["dilation"] = u32(dilation)
    kind = "Conv3d" if spatial == 3 else "DepthWiseConv2d" if depthwise else "Conv2d"
    y = c.b.op(kind, [x, w, *bias], shape, None, x.perm, **params)
    return c.b.reshape(y, out)


@lowers("ConvTranspose", to="TransposeConv2d, TransposeConv3d")
def conv_transpose(c: Lowering, n: OnnxNode) -> Value:
    x, w = n.input(0), n.input(1)
    spatial = x.rank - 2
    if spatial not in (1, 2, 3):
        raise Unsupported(f"a transposed convolution over {spatial} dimensions")
    group = n.integer("group", 1)
    kernel = list(w.shape[2:])
    stride = list_attr(n, "strides", spatial, 1)
    dilation = list_attr(n, "dilations", spatial, 1)
    size = list(x.shape[2:])
    pads, extra = transpose_padding(n, size, kernel, stride, dilation)
    if any(p < 0 for pair in pads for p in pair):
        raise Unsupported(f"negative padding {pads}")
    if any(d != 1 for d in dilation):
        w = stuffed(c, w, dilation)
        kernel = list(w.shape[2:])
    if any(e >= s for e, s in zip(extra, stride, strict=True) if e):
        raise Unsupported(f"output padding {extra} that is not less than the strides {stride}")
    channels = w.shape[1] * group
    out = [stride[i] * (size[i] - 1) + extra[i] + kernel[i] - sum(pads[i]) for i in range(spatial)]
    if spatial == 1:
        x, w = widen(c, x), widen(c, w)
        stride, pads, extra, out = [1, *stride], [(0, 0), *pads], [0, *extra], [1, *out]
    x = c.b.channels_last(x)
    w = c.b.with_perm(w, (*range(2, w.rank), 0, 1))
    y = c.b.op(
        "TransposeConv3d" if spatial == 3 else "TransposeConv2d",
        [x, w, *bias_of(c, n)],
        (x.shape[0], channels, *out),
        None,
        x.perm,
        stride=u32(stride),
        pad_amount=u32(pads),
        group=np.uint32(group),
        output_padding=u32(extra),
    )
    return c.b.reshape(y, (*y.shape[:2], *y.shape[-spatial:]))


def stuffed(c: Lowering, v: Value, steps: list[int]) -> Value:
    """`v` with steps - 1 zeros between the elements of each spatial dimension."""
    if v.data is not None:
        c.b.not_alike()
        size = [(k - 1) * d + 1 for k, d in zip(v.shape[2:], steps, strict=True)]
        c.budget.array((*v.shape[:2], *size), v.dtype, "weights with zeros in between")
        full = np.zeros((*v.shape[:2], *size), v.dtype)
        full[(slice(None), slice(None), *(slice(None, None, d) for d in steps))] = v.data
        return constant(full)
    for axis, step in enumerate(steps, 2):
        if step > 1:
            before, count, after = v.shape[:axis], v.shape[axis], v.shape[axis + 1 :]
            v = c.b.plain(c.b.reshape(v, (*before, count, 1, *after)))
            pads = [(0, 0)] * v.rank
            pads[axis + 1] = (0, step - 1)
            v = c.b.reshape(pad_constant(c, v, pads, 0.0), (*before, count * step, *after))
            v = strided(c, v, {axis: (0, (count - 1) * step + 1, 1)})
    return v
