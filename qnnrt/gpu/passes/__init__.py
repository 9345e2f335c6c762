"""What is done to a checked graph before its kernels are made, in this order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..ir import Ir
from ..target import Target
from . import aliases, precision

__all__ = ["run"]

#: Each changes the graph in place.
_PASSES: Final[tuple[Callable[[Ir, Target], None], ...]] = (
    precision.apply,
    aliases.share,
)


def run(ir: Ir, target: Target) -> None:
    """All passes over a graph."""
    for change in _PASSES:
        change(ir, target)
