"""Convolution of volumes."""

from __future__ import annotations

import math
from typing import Final

from ..ir import Launch, Node
from ..target import Target
from .common import fused, given, reals
from .spatial import Arg, flat, launch, pads, pixels, present, spatial, width

TAKES_POST: Final = frozenset({"Conv3d"})


def _conv3d(node: Node, target: Target) -> list[Launch]:
    x, w, bias, y = node.inputs[0], node.inputs[1], given(node, 2), node.outputs[0]
    assert x is not None
    assert w is not None
    cin, cout = x.shape[-1], y.shape[-1]
    groups = int(node.params["group"])
    vector = width(cout // groups, x.dtype, target)
    columns = pixels(y.size // vector, target)
    post = fused(node)
    optional, operands = present(BIAS=bias)
    defines = [
        *reals(x, w, bias, y, *post.args),
        *optional,
        ("WIDTH", str(vector)),
        ("PIXELS", str(columns)),
        ("STEP", "4" if cin // groups % 4 == 0 else "1"),
    ]
    items = math.prod(y.shape[:3]) * -(-y.shape[3] // columns) * (cout // vector)
    stride, apart = spatial(node, "stride"), spatial(node, "dilation")
    geometry = zip(
        x.shape[1:4], y.shape[1:4], w.shape[:3], stride, apart, pads(node, 3)[0], strict=True
    )
    sizes = (items, cin, cout, groups)
    args: tuple[Arg, ...] = (x, w, *operands, y, *sizes, *(n for dim in geometry for n in dim))
    return [launch("conv_direct", "conv3d", defines, flat(items, target), args, post)]


OPS: Final = {"Conv3d": _conv3d}
