"""What is done to a checked graph before its kernels are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from ..ir import Ir
from ..target import Target
from . import aliases, concat, fixed_point, fuse, lead, precision, shuffle

__all__ = ["run"]

_Pass: TypeAlias = Callable[[Ir, Target], None]  # changes the graph in place

_ALWAYS: Final[tuple[_Pass, ...]] = (fixed_point.apply, precision.apply, aliases.share)
#: Behind them, unless option "node_optimizations" is off.
_OPTIMIZATIONS: Final[tuple[_Pass, ...]] = (
    lead.scale_first,
    fuse.fuse,
    shuffle.read_shuffled,
    concat.write_in_place,
)


def run(ir: Ir, target: Target) -> None:
    """All passes over a graph, in their order."""
    for change in (*_ALWAYS, *(_OPTIMIZATIONS if target.node_optimizations else ())):
        change(ir, target)
