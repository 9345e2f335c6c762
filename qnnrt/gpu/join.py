"""Kernels that only bring an image into the form that a convolution reads become one.

Networks begin with an image of three planes. Cast, transposed and widened it is read and written
three times, and a kernel's start takes longer than that.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np

from .ir import Launch, Node, Value
from .ops.common import Defines

__all__ = ["join_images"]

Launches: TypeAlias = list[tuple[Node, Launch]]

_WIDTH: Final = 4  # elements that are stored at once


def join_images(launches: Launches) -> Launches:
    """The same with `widen.widen` reading the planes itself, or what they are cast from, where
    nobody else reads what lies between. It stands for the first of the kernels that it replaces:
    what these read may be written to behind them."""
    counted = Counter(v for _, launch in launches for v in _memories(launch))
    found = dict(enumerate(launches))
    for i, (_, launch) in enumerate(launches):
        if launch.file != "widen":
            continue
        image = launch.args[0]
        assert isinstance(image, Value)
        turn = _writer(launches, "Transpose", image, counted)
        if turn is None or not _planes(launches[turn][0], launch):
            continue
        (source,) = launches[turn][0].inputs
        assert source is not None
        replaced = [i, turn]
        defines: Defines = (("PLANES", "1"), ("WIDTH", str(_WIDTH)))
        cast = _writer(launches, "Cast", source, counted)
        if cast is not None and _narrows(launches[cast][0]):
            (source,) = launches[cast][0].inputs
            assert source is not None
            replaced.append(cast)
            defines = (*defines, ("FROM", "float"))
        pixels = math.prod(source.shape[2:])
        joined = replace(
            launch,
            defines=(*launch.defines, *defines),
            total=(source.shape[0] * pixels,),
            args=(source, launch.args[1], pixels),
        )
        for n in replaced:
            del found[n]
        first = min(replaced)
        found[first] = launches[first][0], joined
    return [found[i] for i in sorted(found)]


def _memories(launch: Launch) -> set[Value]:
    return {v.root for v in launch.args if isinstance(v, Value)}


def _writer(launches: Launches, kind: str, value: Value, counted: Counter[Value]) -> int | None:
    """The only kernel of a node of this kind, which writes the value for one reader."""
    root = value.root
    if root.kind != "native" or counted[root] != 2:
        return None
    for i, (node, _) in enumerate(launches):
        if node.type == kind and not node.post and [v.root for v in node.outputs] == [root]:
            return i if value.size == node.outputs[0].size else None
    return None


def _planes(node: Node, widen: Launch) -> bool:
    """Whether a transpose makes lines of planes, those that are widened."""
    x, y = node.inputs[0], node.outputs[0]
    rank = len(y.shape)
    if x is None or rank < 3 or [int(n) for n in node.params["perm"]] != [0, *range(2, rank), 1]:
        return False
    sizes = dict(widen.defines)
    return int(sizes["CHANNELS"]) == y.shape[-1] and int(sizes["WIDE"]) % _WIDTH == 0


def _narrows(node: Node) -> bool:
    """Whether it makes 16-bit floats of 32-bit ones."""
    x, y = node.inputs[0], node.outputs[0]
    return x is not None and x.dtype == np.float32 and y.dtype == np.float16
