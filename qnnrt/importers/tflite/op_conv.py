"""Convolutions. TFLite's weights are [Cout, kH, kW, Cin]; QNN's [kH, kW, Cin, Cout]."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..shorthand import u32
from .activations import fused
from .common import SAME, bias, rank_is, weights, window
from .nodes import Damaged, Result, TfliteNode, Unsupported, lowers
from .values import Value

if TYPE_CHECKING:
    from .lower import Lowering


def _windows(
    node: TfliteNode, x: Value, kernel: tuple[int, int]
) -> tuple[list[int], list[int], list[int], list[tuple[int, int]]]:
    """Output size, stride, dilation and padding of height and width."""
    o = node.options
    stride = [o.integer("StrideH"), o.integer("StrideW")]
    dilation = [o.integer("DilationHFactor", 1), o.integer("DilationWFactor", 1)]
    padding = o.integer("Padding")
    found = [
        window(size, k, s, d, padding)
        for size, k, s, d in zip(x.shape[1:3], kernel, stride, dilation, strict=True)
    ]
    return [f[0] for f in found], stride, dilation, [f[1] for f in found]


@lowers("CONV_2D", to="Conv2d", options="Conv2DOptions")
def conv_2d(c: Lowering, node: TfliteNode) -> Result:
    x = rank_is(node.input(), 4)
    w = rank_is(weights(node, 1, x), 4)
    outputs, kh, kw, inner = w.shape
    if x.shape[3] % inner:
        raise Damaged(f"weights for {inner} channels, an input of {x.shape[3]}")
    groups = x.shape[3] // inner
    if outputs % groups:
        raise Damaged(f"{outputs} output channels in {groups} groups")
    size, stride, dilation, pads = _windows(node, x, (kh, kw))
    out = c.b.op(
        "Conv2d",
        [x, c.b.transpose(w, (1, 2, 3, 0)), *bias(node, 2, x, w, 0, outputs)],
        [x.shape[0], *size, outputs],
        stride=u32(stride),
        pad_amount=u32(pads),
        dilation=u32(dilation),
        group=np.uint32(groups),
    )
    return fused(c, node, out)


@lowers("DEPTHWISE_CONV_2D", to="DepthWiseConv2d", options="DepthwiseConv2DOptions")
def depthwise_conv_2d(c: Lowering, node: TfliteNode) -> Result:
    x = rank_is(node.input(), 4)
    w = rank_is(weights(node, 1, x), 4)
    one, kh, kw, outputs = w.shape
    # The multiplier in the options is what old files left out: the shapes say it.
    if one != 1 or outputs % x.shape[3]:
        raise Damaged(f"weights {list(w.shape)} for an input of {x.shape[3]} channels")
    size, stride, dilation, pads = _windows(node, x, (kh, kw))
    out = c.b.op(
        "DepthWiseConv2d",
        [x, c.b.reshape(w, (kh, kw, 1, outputs)), *bias(node, 2, x, w, 3, outputs)],
        [x.shape[0], *size, outputs],
        stride=u32(stride),
        pad_amount=u32(pads),
        dilation=u32(dilation),
    )
    return fused(c, node, out)


@lowers("CONV_3D", to="Conv3d", options="Conv3DOptions")
def conv_3d(c: Lowering, node: TfliteNode) -> Result:
    """Weights are [kD, kH, kW, Cin, Cout] in both."""
    x = rank_is(node.input(), 5)
    w = rank_is(weights(node, 1, x), 5)
    if w.shape[3] == 0 or x.shape[4] != w.shape[3]:
        raise Damaged(f"weights for {w.shape[3]} channels, an input of {x.shape[4]}")
    o = node.options
    stride = [o.integer(f"Stride{a}") for a in "DHW"]
    dilation = [o.integer(f"Dilation{a}Factor", 1) for a in "DHW"]
    found = [
        window(size, k, s, d, o.integer("Padding"))
        for size, k, s, d in zip(x.shape[1:4], w.shape[:3], stride, dilation, strict=True)
    ]
    out = c.b.op(
        "Conv3d",
        [x, w, *bias(node, 2, x, w, 4, w.shape[4])],
        [x.shape[0], *(f[0] for f in found), w.shape[4]],
        stride=u32(stride),
        pad_amount=u32([f[1] for f in found]),
        dilation=u32(dilation),
    )
    return fused(c, node, out)


@lowers("TRANSPOSE_CONV", to="TransposeConv2d", options="TransposeConvOptions")
def transpose_conv(c: Lowering, node: TfliteNode) -> Result:
    """The gradient of a convolution from the wanted output size, which gives the padding."""
    wanted = node.ints(0, "the output shape")
    x = rank_is(node.input(2), 4)
    w = rank_is(weights(node, 1, x), 4)
    outputs, kh, kw, inner = w.shape
    if len(wanted) != 4 or wanted[0] != x.shape[0] or wanted[3] != outputs or inner != x.shape[3]:
        raise Damaged(f"{list(x.shape)} and weights {list(w.shape)} to {wanted}")
    o = node.options
    stride = [o.integer("StrideH"), o.integer("StrideW")]
    pads, extra = [], []
    for size, k, s, out in zip(x.shape[1:3], (kh, kw), stride, wanted[1:3], strict=True):
        if out < 1 or s < 1:
            raise Damaged(f"an output of {wanted} with strides {stride}")
        # Only what is cut in front is defined by the padding; behind, the output size cuts.
        before = window(out, k, s, 1, SAME)[1][0] if o.integer("Padding") == SAME else 0
        after = (size - 1) * s + k - before - out
        if -after >= s:
            raise Unsupported(f"{out} outputs, which {size} inputs in steps of {s} do not reach")
        pads.append((before, max(after, 0)))
        extra.append(max(-after, 0))
    result = c.b.op(
        "TransposeConv2d",
        [x, c.b.transpose(w, (1, 2, 3, 0)), *bias(node, 3, x, w, 0, outputs)],
        wanted,
        stride=u32(stride),
        pad_amount=u32(pads),
        output_padding=u32(extra),
    )
    return fused(c, node, result)
