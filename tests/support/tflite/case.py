"""A one-operator model, and shorthand to write one down."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from support.tflite.builder import ModelBuilder

SAME, VALID = 0, 1
NONE, RELU, RELU_N1_TO_1, RELU6, TANH = 0, 1, 2, 3, 4
F32, I32, I64, BOOL = np.float32, np.int32, np.int64, np.bool_


@dataclass
class Given:
    """An input: of the model, or a constant of it."""

    shape: tuple[int, ...]
    dtype: Any = F32
    low: float = -2
    high: float = 2
    values: np.ndarray | None = None
    constant: bool = False

    def array(self, rng: np.random.Generator) -> np.ndarray:
        if self.values is not None:
            return self.values
        kind = np.dtype(self.dtype)
        if kind == np.bool_:
            return rng.integers(0, 2, self.shape).astype(bool)
        if kind.kind in "iu":
            return rng.integers(int(self.low), int(self.high) + 1, self.shape).astype(kind)
        return rng.uniform(self.low, self.high, self.shape).astype(kind)


def x(*shape: int, dtype: Any = F32, low: float = -2, high: float = 2) -> Given:
    """A random input of the model."""
    return Given(shape, dtype, low, high)


def w(*shape: int, dtype: Any = F32, low: float = -1, high: float = 1) -> Given:
    """A random constant."""
    return Given(shape, dtype, low, high, constant=True)


def k(values: Any, dtype: Any = I32) -> Given:
    """This constant."""
    array = np.array(values, dtype)
    return Given(array.shape, dtype, values=array, constant=True)


def v(values: Any, dtype: Any = I32) -> Given:
    """An input of the model with this value."""
    array = np.array(values, dtype)
    return Given(array.shape, dtype, values=array)


@dataclass
class Case:
    op: str
    inputs: Sequence[Given | None]
    options: str | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    outputs: Sequence[Any] = (F32,)
    label: str = ""
    version: int = 1
    #: Of the output, for the kernels that do not compute it.
    shape: tuple[int, ...] = ()
    #: Some tensor has no elements: the delegate leaves the node to the CPU.
    empty: bool = False

    def build(self) -> tuple[bytes, list[np.ndarray]]:
        """The file, and an array for each input of the model."""
        rng = np.random.default_rng(zlib.crc32(f"{self.op} {self.label}".encode()))
        b = ModelBuilder()
        feeds, at = [], []
        for given in self.inputs:
            if given is None:
                at.append(-1)
                continue
            array = given.array(rng)
            if given.constant:
                at.append(b.const(array))
            else:
                at.append(b.input(array.shape, array.dtype))
                feeds.append(array)
        outputs: list[Any] = [(self.shape, dtype) for dtype in self.outputs]
        b.output(*b.op(self.op, at, outputs, self.options, version=self.version, **self.fields))
        return b.build(), feeds
