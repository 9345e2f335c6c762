"""Exceptions of the package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["ModelError", "UnsupportedNode", "UnsupportedOpError"]


class ModelError(ValueError):
    """A model file or graph cannot be used; the message says what is wrong and where."""


@dataclass(frozen=True)
class UnsupportedNode:
    """One node that has no counterpart, and why."""

    name: str
    op: str
    types: str
    reason: str

    def __str__(self) -> str:
        return f"{self.op} {self.name!r} ({self.types}): {self.reason}"


class UnsupportedOpError(ModelError):
    """The model has nodes without a counterpart. `nodes` lists every one of them."""

    def __init__(self, nodes: Sequence[UnsupportedNode], source: str | None = None) -> None:
        self.nodes = tuple(nodes)
        where = f" in {source}" if source else ""
        count = "1 node is" if len(self.nodes) == 1 else f"{len(self.nodes)} nodes are"
        lines = "".join(f"\n  {node}" for node in self.nodes)
        super().__init__(f"{count} not supported{where}:{lines}")
