"""A node of one ONNX operator, and what random ones are drawn with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

F, I32, I64, B = np.float32, np.int32, np.int64, np.bool_
Rng = np.random.Generator


@dataclass
class OneOp:
    """A node.

    inputs: None for one left out. constant: numbers of the constant ones. outputs: their types.
    quantizable: whether it may stand between DequantizeLinear and QuantizeLinear.
    """

    op: str
    inputs: list[np.ndarray | None]
    attributes: dict[str, Any] = field(default_factory=dict)
    constant: Sequence[int] = ()
    outputs: Sequence[Any] = (F,)
    quantizable: bool = False

    def __post_init__(self) -> None:
        self.inputs = [None if x is None else np.asarray(x) for x in self.inputs]

    @property
    def label(self) -> str:
        shapes = ", ".join(
            "-" if x is None else f"{x.dtype}{list(x.shape)}" + "c" * (i in self.constant)
            for i, x in enumerate(self.inputs)
        )
        given = ", ".join(f"{k}={v}" for k, v in self.attributes.items())
        return f"{self.op}({shapes}{'; ' + given if given else ''})"


def drawn(r: Rng, low: int = 1, high: int = 4) -> tuple[int, ...]:
    return tuple(int(n) for n in r.integers(1, 8, r.integers(low, high, endpoint=True)))


def floats(r: Rng, shape: Sequence[int], low: float = -3, high: float = 3) -> np.ndarray:
    return r.uniform(low, high, tuple(shape)).astype(F)


def pick(r: Rng, *values: Any) -> Any:
    return values[int(r.integers(len(values)))]


def real(r: Rng, low: float, high: float) -> float:
    return round(float(r.uniform(low, high)), 3)


def axis_of(r: Rng, rank: int) -> int:
    return int(r.integers(-rank, rank))


def broadcast(r: Rng) -> tuple[tuple[int, ...], tuple[int, ...]]:
    a = drawn(r)
    b = tuple(1 if r.random() < 0.25 else n for n in a)[int(r.integers(0, len(a) + 1)) :]
    return (a, b) if r.random() < 0.7 else (b, a)


def numbers(r: Rng, of: Sequence[int]) -> np.ndarray:
    """Mostly floats, else integers or truth values: for what only moves them."""
    dtype = pick(r, F, F, F, F, I32, I64, B)
    return floats(r, of) if dtype is F else np.trunc(floats(r, of, -2, 2) * 9).astype(dtype)
