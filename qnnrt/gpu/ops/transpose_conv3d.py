"""Transposed convolution of volumes."""

from __future__ import annotations

from typing import Final

from ..ir import Launch, Node
from ..target import Target
from .common import fused, given, reals
from .spatial import Arg, flat, launch, pads, present, spatial, width

TAKES_POST: Final = frozenset({"TransposeConv3d"})


def _transpose_conv3d(node: Node, target: Target) -> list[Launch]:
    x, w, bias, y = node.inputs[0], node.inputs[1], given(node, 2), node.outputs[0]
    assert x is not None
    assert w is not None
    groups, cout = int(node.params["group"]), y.shape[-1]
    vector = width(cout // groups, x.dtype, target)
    items = y.size // vector
    if items == 0:
        return []
    post = fused(node)
    optional, operands = present(BIAS=bias)
    defines = [*reals(x, w, bias, y, *post.args), *optional, ("WIDTH", str(vector))]
    geometry = zip(
        x.shape[1:4], y.shape[1:4], w.shape[:3], spatial(node, "stride"), pads(node, 3)[0],
        strict=True,
    )  # fmt: skip
    sizes = (items, x.shape[-1], cout, groups)
    args: tuple[Arg, ...] = (x, w, *operands, y, *sizes, *(n for dim in geometry for n in dim))
    space = flat(items, target)
    return [launch("transpose_conv3d", "transpose_conv3d", defines, space, args, post)]


OPS: Final = {"TransposeConv3d": _transpose_conv3d}
