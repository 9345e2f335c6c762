"""Which kernels make a product of matrices."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final

from .. import tune
from ..ir import Launch
from ..target import Target
from . import clblast, panels, tensor, tiles, trial
from .product import Product

__all__ = ["launches", "variants"]

_MOST: Final = 24  # variants that are measured


def launches(x: Product, target: Target) -> list[Launch]:
    """The kernels of a product: of the variant known, or else expected, to be the fastest."""
    found = variants(x, target)
    rounded = target.tf32 and _on_tensor_cores(x, target)
    return found[tune.choose(target, "product", f"{x}{'-tf32' * rounded}", found)]()


def _on_tensor_cores(x: Product, target: Target) -> bool:
    return tensor.offered(x, target) and trial.trusted(target.device)


def _in_local_memory(
    x: Product, target: Target
) -> Iterator[tuple[str, Callable[[], list[Launch]]]]:
    """Blocks for tensor cores, where there are some, and tiles, one of which is among the first
    few, that are measured."""
    blocks: list[Any] = []
    if _on_tensor_cores(x, target):
        device = target.device
        most, grouped = trial.local_bytes(device), trial.grouped(device)
        maps = grouped and trial.maps(device)
        blocks = tensor.ways(x, target, most, grouped=grouped, maps=maps)
    plain: list[Any] = [] if x.lead else tiles.ways(x, target)
    few = 2 if blocks else 0
    for way, parts in (*blocks[:few], *plain[:1], *blocks[few : _MOST // 2], *plain[1:]):
        make = tensor.make if isinstance(way, tensor.Block) else tiles.tiles
        name = f"{way}-{parts}" if parts > 1 else str(way)
        yield name, functools.partial(make, x, target, way, parts)


def variants(x: Product, target: Target) -> dict[str, Callable[[], list[Launch]]]:
    """Ways to make a product by name, the one that is expected to be the fastest first."""
    found: dict[str, Callable[[], list[Launch]]] = {}
    without = [panels.best(x, target)]
    if target.device.kind == "cpu":
        # Work groups are loops there, and every barrier ends one.
        without += [shape for shape in panels.SHAPES if shape not in without]
    else:
        if tiles.few_rows(x) and not x.lead:
            found["dots"] = functools.partial(tiles.dots, x, target)
        found |= dict(itertools.islice(_in_local_memory(x, target), _MOST - 2))
    for shape in () if x.lead else without:
        name = "panels-{}x{}x{}".format(*shape)
        found[name] = functools.partial(panels.make, x, target, shape)
    routines = not (target.portable or target.kernels_alone)
    if routines and not x.lead and clblast.offered(x, target):
        found[tune.CLBLAST] = functools.partial(clblast.make, x)
    return found
