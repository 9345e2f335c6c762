"""Copies that a backend had to make for a graph, by tensor and reason."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Copy"]


class Copy(NamedTuple):
    """Bytes copied for one tensor and one reason, in all.

    Attributes:
        tensor: its name.
        direction: "in" or "out".
        nbytes: the total.
        reason: why its memory was not used as it is.
    """

    tensor: str
    direction: str
    nbytes: int
    reason: str
