"""Rotary embeddings."""

from __future__ import annotations

from typing import Final

from ..ir import Launch, Node
from ..target import Target
from .common import reals
from .spatial import flat, launch


def _rotary_embedding(node: Node, target: Target) -> list[Launch]:
    x, cosines, sines, y = *node.inputs, node.outputs[0]
    assert x is not None
    assert cosines is not None
    assert sines is not None
    batch, heads, places, size = x.shape
    pairs = cosines.shape[2]
    items = batch * heads * places * (size - pairs)
    if items == 0:
        return []
    defines = [*reals(x, cosines, sines, y)]
    if node.params["interleaved"]:
        defines.append(("INTERLEAVED", "1"))
    args = (x, cosines, sines, y, items, heads, places, size, pairs)
    return [launch("rotary_embedding", "rotary_embedding", defines, flat(items, target), args)]


OPS: Final = {"RotaryEmbedding": _rotary_embedding}
