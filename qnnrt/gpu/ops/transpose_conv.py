"""Transposed convolution."""

from __future__ import annotations

from typing import Final

from ..ir import Launch, Node
from ..target import Target
from .common import fused, given, reals
from .spatial import Arg, flat, launch, pads, pixels, present, spatial, width

TAKES_POST: Final = frozenset({"TransposeConv2d"})


def _transpose_conv(node: Node, target: Target) -> list[Launch]:
    x, w, bias, y = node.inputs[0], node.inputs[1], given(node, 2), node.outputs[0]
    assert x is not None
    assert w is not None
    batch, height, line, cin = x.shape
    _, out_height, out_line, cout = y.shape
    rows, taps = w.shape[:2]
    _, row_stride, stride = spatial(node, "stride")
    (_, top, left), _ = pads(node, 2)
    groups = int(node.params["group"])
    vector = width(cout // groups, x.dtype, target)
    columns = pixels(y.size // vector, target)
    post = fused(node)
    optional, operands = present(BIAS=bias)
    defines = [
        *reals(x, w, bias, y, *post.args),
        *optional,
        ("TRANSPOSED", "1"),
        ("WIDTH", str(vector)),
        ("PIXELS", str(columns)),
        ("STEP", "4" if cin // groups % 4 == 0 else "1"),
    ]
    of_a_phase = -(-out_line // stride)
    blocks = -(-of_a_phase // columns)
    items = batch * out_height * stride * blocks * (cout // vector)
    if items == 0:
        return []
    sizes = (items, height, line, cin, out_height, out_line, cout)
    window = (groups, rows, taps, row_stride, stride, top, left)
    args: tuple[Arg, ...] = (x, w, *operands, y, *sizes, *window)
    space = flat(items, target)
    return [launch("conv_direct", "transpose_conv", defines, space, args, post)]


OPS: Final = {"TransposeConv2d": _transpose_conv}
