"""Bins of regions of images."""

from __future__ import annotations

from typing import Final

from ..ir import Launch, Node
from ..target import Target
from .common import fused, reals
from .sizes import index_type, noting
from .spatial import Arg, flat, launch, over_channels

TAKES_POST: Final = frozenset({"RoiAlign"})


def _roi_align(node: Node, target: Target) -> list[Launch]:
    x, regions, images, y = *node.inputs, node.outputs[0]
    assert x is not None
    assert regions is not None
    assert images is not None
    channels, vector, items = over_channels(x, y, target)
    if items == 0:
        return []
    post = fused(node)
    defines = [
        *reals(x, regions, y, *post.args),
        ("WIDTH", str(vector)),
        ("INDEX", index_type(images)),
        *((f"SAMPLES_{d}", str(node.params[f"num_samples_{d.lower()}"])) for d in "YX"),
    ]
    if node.params["aligned"]:
        defines.append(("ALIGNED", "1"))
    scale = (1.0 / float(ratio) for ratio in node.params["img_size_ratio"])
    args: tuple[Arg, ...] = (x, regions, images, y, items, channels, *x.shape[:3], *y.shape[1:3])
    checked, noted = noting(images)
    args = (*args, *scale, *noted)
    defines += checked
    return [launch("roi_align", "roi_align", defines, flat(items, target), args, post)]


OPS: Final = {"RoiAlign": _roi_align}
