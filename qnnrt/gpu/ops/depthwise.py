"""Depthwise convolutions."""

from __future__ import annotations

from typing import Final

from ..ir import Launch, Node
from ..target import Target
from .common import fused, given, reals
from .spatial import Arg, flat, launch, pads, pixels, present, spatial, three, width

TAKES_POST: Final = frozenset({"DepthWiseConv1d", "DepthWiseConv2d"})
TAKES_SHUFFLE: Final = TAKES_POST
#: Elements of a line that a work item keeps at most; it computes one pixel where that is not enough
_SPAN: Final = 16


def _most(size: int, stride: int, dilation: int) -> int:
    """Pixels that fit."""
    free = _SPAN - (size - 1) * dilation - 1
    return next((n for n in (4, 2) if (n - 1) * stride <= free), 1)


def _depthwise(node: Node, target: Target) -> list[Launch]:
    x, w, bias, y = node.inputs[0], node.inputs[1], given(node, 2), node.outputs[0]
    assert x is not None
    assert w is not None
    dims = len(x.shape) - 2
    _, height, line = three(x.shape[1:-1])
    _, out_height, out_line = three(y.shape[1:-1])
    _, rows, taps = three(w.shape[:-2])
    cin, cout = x.shape[-1], y.shape[-1]
    _, row_stride, stride = spatial(node, "stride")
    _, row_dilation, dilation = spatial(node, "dilation")
    (_, top, left), _ = pads(node, dims)
    multiplier = cout // cin
    vector = width(cin if multiplier == 1 else multiplier, x.dtype, target)
    most = _most(taps, stride, dilation)
    columns = pixels(y.size // vector, target, most)
    post = fused(node)
    optional, operands = present(BIAS=bias)
    defines = [
        *reals(x, w, bias, y, *post.args),
        *optional,
        ("WIDTH", str(vector)),
        ("PIXELS", str(columns)),
        ("KW", str(taps)),
        ("SW", str(stride)),
        ("DW", str(dilation)),
    ]
    if multiplier != 1:
        defines.append(("MULTIPLIER", str(multiplier)))
    if node.shuffle != 1:
        defines.append(("SHUFFLED", str(node.shuffle)))
    items = x.shape[0] * out_height * -(-out_line // columns) * (cout // vector)
    if items == 0:
        return []
    sizes = (items, height, line, cin, out_height, out_line, cout)
    window = (rows, row_stride, row_dilation, top, left)
    args: tuple[Arg, ...] = (x, w, *operands, y, *sizes, *window)
    return [launch("depthwise", "depthwise", defines, flat(items, target), args, post)]


OPS: Final = dict.fromkeys(sorted(TAKES_POST), _depthwise)
