"""Short names for the operations that mean the same whatever a file's values are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np


class AnyValue(Protocol):
    @property
    def dtype(self) -> np.dtype: ...

    @property
    def data(self) -> np.ndarray | None: ...


V = TypeVar("V", bound=AnyValue)
C = TypeVar("C")


def u32(values: Sequence[int] | Sequence[Sequence[int]] | np.ndarray) -> np.ndarray:
    return np.array(values, np.uint32)


def number(value: float, dtype: np.dtype) -> object:
    """A parameter that is a number of a tensor of `dtype`: of 32 bits, where these hold it."""
    kinds = {"f": np.float32, "b": np.bool_, "i": np.int32}
    if dtype.itemsize == 8:
        whole = dtype.type(value)
        with np.errstate(over="ignore"):
            narrow = whole.astype(kinds.get(dtype.kind, np.uint32))
        return whole if narrow != whole and whole == whole else narrow
    return kinds.get(dtype.kind, np.uint32)(value)


@dataclass(frozen=True)
class Shorthand(Generic[C, V]):
    """Made of an importer's `constant`, and of its `unary` and `nary`, which emit an operation."""

    constant: Callable[[np.ndarray], V]
    unary: Callable[..., V]
    nary: Callable[..., V]

    def scalar(self, value: float, dtype: np.dtype) -> V:
        """A constant that broadcasts against anything."""
        return self.constant(np.array(value, dtype))

    def add(self, c: C, a: V, b: V) -> V:
        return self.nary(c, "ElementWiseAdd", [a, b])

    def sub(self, c: C, a: V, b: V) -> V:
        return self.nary(c, "ElementWiseSubtract", [a, b])

    def mul(self, c: C, a: V, b: V) -> V:
        return self.nary(c, "ElementWiseMultiply", [a, b])

    def div(self, c: C, a: V, b: V) -> V:
        return self.nary(c, "ElementWiseDivide", [a, b])

    def times(self, c: C, a: V, factor: float) -> V:
        return a if factor == 1 else self.mul(c, a, self.scalar(factor, a.dtype))

    def plus(self, c: C, a: V, term: float) -> V:
        return a if term == 0 else self.add(c, a, self.scalar(term, a.dtype))

    def cast(self, c: C, x: V, dtype: Any) -> V:
        dtype = np.dtype(dtype)
        if x.dtype == dtype:
            return x
        if x.data is not None:
            return self.constant(x.data.astype(dtype))
        return self.unary(c, "Cast", x, dtype)
