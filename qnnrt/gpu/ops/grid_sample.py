"""Images and volumes sampled at the points of a grid."""

from __future__ import annotations

from typing import Final

from ..ir import Launch, Node
from ..target import Target
from .common import fused, reals
from .spatial import Arg, flat, launch, over_channels, three

TAKES_POST: Final = frozenset({"GridSample"})
_PADDINGS: Final = ("ZEROS", "BORDER", "REFLECTION")


def _grid_sample(node: Node, target: Target) -> list[Launch]:
    x, grid, y = *node.inputs[:2], node.outputs[0]
    assert x is not None
    assert grid is not None
    channels, vector, items = over_channels(x, y, target)
    if items == 0:
        return []
    post = fused(node)
    defines = [
        *reals(x, grid, y, *post.args),
        ("WIDTH", str(vector)),
        ("DIMS", str(len(x.shape) - 2)),
        (_PADDINGS[int(node.params["padding_mode"])], "1"),
    ]
    if node.params["align_corners"]:
        defines.append(("ALIGNED", "1"))
    if int(node.params["mode"]) == 1:
        defines.append(("NEAREST", "1"))
    points = y.size // (y.shape[0] * channels)
    args: tuple[Arg, ...] = (x, grid, y, items, channels, points, *three(x.shape[1:-1]))
    return [launch("grid_sample", "grid_sample", defines, flat(items, target), args, post)]


OPS: Final = {"GridSample": _grid_sample}
