"""Rows of batches into the bound memory of a session, and its results out of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..errors import ModelError
from ..session import BoundTensor, Session

__all__ = ["BatchSession"]


class BatchSession:
    """A session whose inputs and outputs all have rows, ``rows`` of them, in their first dimension.

    Any number of rows is run, so many at a time; what is left of the last run is zero.

    Attributes:
        rows: how many the model takes at once.
        copied_bytes: what was written into inputs and read from outputs, until now.

    Raises:
        ModelError: a tensor without rows, or with more or fewer than the others.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        tensors = {**session.inputs, **session.outputs}
        counts = {name: t.shape[0] if t.shape else 0 for name, t in tensors.items()}
        if len(set(counts.values())) != 1 or 0 in counts.values():
            said = ", ".join(f"{name}{list(t.shape)}" for name, t in tensors.items())
            raise ModelError(f"batches need tensors with the same number of rows, not {said}")
        self.rows: int = next(iter(counts.values()))
        self.copied_bytes = 0

    def check(self, name: str, array: np.ndarray) -> np.ndarray:
        """The array, if it has rows for this input.

        Raises:
            ValueError: their shape or type is another one.
        """
        t = self.session.inputs[name]
        if array.ndim == 0 or array.shape[1:] != t.shape[1:] or array.dtype != t.dtype:
            raise ValueError(
                f"input {name!r} needs rows of {t.dtype}{list(t.shape[1:])}, not "
                f"{array.dtype}{list(array.shape[1:]) if array.ndim else ', a single number'}"
            )
        return array

    def run(self, columns: Mapping[str, list[np.ndarray]]) -> dict[str, np.ndarray]:
        """Results for all rows, in arrays of their own.

        Args:
            columns: for each input its rows, in one array or several ones, one after another.

        Raises:
            KeyError: an input is missing.
            ValueError: rows of another shape or type, or more for one input than for another one.
        """
        inputs = self.session.inputs
        if missing := [name for name in inputs if name not in columns]:
            raise KeyError(f"inputs {', '.join(missing)} are missing in {', '.join(columns)}")
        for name in inputs:
            for array in columns[name]:
                self.check(name, array)
        counts = {name: sum(map(len, columns[name])) for name in inputs}
        if len(set(counts.values())) > 1:
            raise ValueError(f"expected as many rows for each input, not {counts}")
        total = next(iter(counts.values()))
        sources = {name: _Rows(columns[name]) for name in inputs}
        results = {
            name: np.empty((total, *t.shape[1:]), t.dtype)
            for name, t in self.session.outputs.items()
        }
        for begin in range(0, total, self.rows):
            count = min(self.rows, total - begin)
            for name, t in inputs.items():
                self._fill(t, sources[name], count)
            self.session.run()
            for name, result in results.items():
                out = result[begin : begin + count]
                out[...] = self.session.outputs[name].array[:count]
                self.copied_bytes += out.nbytes
        return results

    def _fill(self, t: BoundTensor, source: _Rows, count: int) -> None:
        at, memory = 0, t.array
        for some in source.take(count):
            memory[at : at + len(some)] = some
            at += len(some)
            self.copied_bytes += some.nbytes
        memory[at:] = 0

    def close(self) -> None:
        self.session.close()


class _Rows:
    """Rows that lie in several arrays, taken in order."""

    def __init__(self, arrays: list[np.ndarray]) -> None:
        self.arrays, self.index, self.at = arrays, 0, 0

    def take(self, count: int) -> Iterator[np.ndarray]:
        while count:
            array = self.arrays[self.index]
            some: Any = array[self.at : self.at + count]
            yield some
            count -= len(some)
            self.at += len(some)
            if self.at == len(array):
                self.index, self.at = self.index + 1, 0
