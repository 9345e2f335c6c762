"""Maxima and means of windows."""

from __future__ import annotations

import math
from typing import Final

from ..ir import Launch, Node, Value
from ..passes.aliases import same_encoding
from ..target import Target
from .common import Defines, Refused, fused, reals
from .spatial import Arg, flat, launch, over_channels, pads, spatial, three

TAKES_POST: Final = frozenset({"PoolAvg2d", "PoolAvg3d"})
#: Integers that are compared as they are: numpy's name -> C's, and the least of them
_INTEGERS: Final = {
    "int8": ("char", "CHAR_MIN"),
    "uint8": ("uchar", "0"),
    "int16": ("short", "SHRT_MIN"),
    "uint16": ("ushort", "0"),
    "int32": ("int", "INT_MIN"),
    "uint32": ("uint", "0"),
}
_LANES, _SLICES = 8, 32
#: Windows of this many elements are shared by _SLICES work items, where there are few windows
_WIDE, _FEW = 32, 1 << 16


def _element(node: Node, x: Value, y: Value, vector: int) -> Defines:
    """What is read and compared or added."""
    greatest = node.type.startswith("PoolMax")
    kind: Defines = (("MAX", "1"),) if greatest else ()
    if greatest and x.dtype.name in _INTEGERS:
        if x.code != y.code or not same_encoding(x, y):
            raise Refused("there is no kernel that pools and changes an encoding at once")
        name, least = _INTEGERS[x.dtype.name]
        return (*kind, ("NUMBER", name if vector == 1 else f"{name}{vector}"), ("LEAST", least))
    return (*kind, *reals(x, y), ("LEAST", "-INFINITY" if greatest else "0.0f"))


def _pool(node: Node, target: Target) -> list[Launch]:
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    dims = len(x.shape) - 2
    size = spatial(node, "filter_size")
    before, behind = pads(node, dims)
    channels, vector, items = over_channels(x, y, target)
    if items == 0:
        return []
    few = target.device.kind != "cpu" and math.prod(size) >= _WIDE and items <= _FEW
    post = fused(node)
    if post.args:
        reals(x, *post.args)
    defines = [
        *_element(node, x, y, vector),
        ("WIDTH", str(vector)),
        ("LANES", str(_LANES)),
        ("SLICES", str(_SLICES if few else 1)),
    ]
    if node.params.get("count_pad_for_edges"):
        defines.append(("COUNT_PADS", "1"))
    stride = spatial(node, "stride")
    inner, outer = three(x.shape[1:-1]), three(y.shape[1:-1])
    geometry = zip(inner, outer, size, stride, before, behind, strict=True)
    args: tuple[Arg, ...] = (x, y, items, channels, *(n for dim in geometry for n in dim))
    space = flat(items, target)
    if few:
        space = (-(-items // _LANES) * _LANES, _SLICES), (_LANES, _SLICES)
    return [launch("pool", "pool", defines, space, args, post)]


OPS: Final = dict.fromkeys(("PoolAvg2d", "PoolAvg3d", "PoolMax2d", "PoolMax3d"), _pool)
MOVES_INTEGERS: Final = frozenset({"PoolMax2d", "PoolMax3d"})
