"""What a node is made of, before anything is said about its types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Act:
    """An activation: fixed point, its real numbers in [low, high].

    distinct: no value twice along the last dimension, where an op has to choose among equals.
    """

    shape: tuple[int, ...]
    low: float = -4.0
    high: float = 4.0
    static: bool = False
    distinct: bool = False


@dataclass
class Weight:
    """Weights; ``axis`` is that of their output channels where encodings go along one."""

    shape: tuple[int, ...]
    axis: int | None = None
    high: float = 1.0
    static: bool = True


@dataclass
class Bias:
    """A constant of SFIXED_POINT_32.

    steps: its scale, in those of input x weight. along: whether each output has a scale of its own
    (None: as the weights).
    """

    shape: tuple[int, ...]
    steps: float = 1.0
    along: bool | None = None


@dataclass
class Plain:
    """An operand that is no fixed-point number: indices or truth values."""

    data: np.ndarray
    static: bool = True
    type: str = "i32"


@dataclass
class Spec:
    """A node of any type.

    outputs: shapes, or (shape, type) of those that are no fixed-point numbers.
    same: all activations have input 0's encoding (ops that only move elements).
    range: of the outputs that have one of their own, whatever goes in.
    note: what tells this form of the op from the others in the table.
    exact: the float op on the real numbers says what the result is.
    """

    op: str
    inputs: Sequence[Act | Weight | Bias | Plain | None]
    outputs: Sequence[Any]
    params: Mapping[str, Any] = field(default_factory=dict)
    same: bool = False
    range: tuple[float, float] | None = None
    note: str = ""
    exact: bool = True

    @property
    def label(self) -> str:
        return f"{self.op}, {self.note}" if self.note else self.op


IMAGE = (1, 8, 8, 16)
SMALL = (2, 5, 7, 3)
