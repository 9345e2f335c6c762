"""Which kernels make a product of matrices."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final

from .. import tune
from ..ir import Launch
from ..target import Target
from . import clblast, panels, tensor, tiles
from .product import Product

__all__ = ["launches", "variants"]

_MOST: Final = 24  # variants that are measured


def launches(x: Product, target: Target) -> list[Launch]:
    """The kernels of a product: of the variant known, or else expected, to be the fastest."""
    found = variants(x, target)
    rounded = target.tf32 and tensor.offered(x, target)
    return found[tune.choose(target, "product", f"{x}{'-tf32' * rounded}", found)]()


def variants(x: Product, target: Target) -> dict[str, Callable[[], list[Launch]]]:
    """Ways to make a product by name, the one that is expected to be the fastest first."""
    found: dict[str, Callable[[], list[Launch]]] = {}
    without = [panels.best(x, target)]
    if target.device.kind == "cpu":
        # Work groups are loops there, and every barrier ends one.
        without += [shape for shape in panels.SHAPES if shape not in without]
    else:
        if tiles.few_rows(x):
            found["dots"] = functools.partial(tiles.dots, x, target)
        if tensor.offered(x, target):
            for block, parts in tensor.ways(x, target)[: _MOST // 2]:
                name = f"{block}-{parts}" if parts > 1 else str(block)
                found[name] = functools.partial(tensor.make, x, target, block, parts)
        for tile, parts in tiles.ways(x, target)[: _MOST - 2 - len(found)]:
            name = f"{tile}-{parts}" if parts > 1 else str(tile)
            found[name] = functools.partial(tiles.tiles, x, target, tile, parts)
    for shape in without:
        name = "panels-{}x{}x{}".format(*shape)
        found[name] = functools.partial(panels.make, x, target, shape)
    routines = not (target.portable or target.kernels_alone)
    if routines and clblast.offered(x, target):
        found[tune.CLBLAST] = functools.partial(clblast.make, x)
    return found
