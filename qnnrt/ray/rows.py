"""Rows of batches into the bound memory of a session, and its results out of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike
from typing import Any

import numpy as np

from ..errors import ModelError
from ..importers import load
from ..model import DynamicModel, Model
from ..session import BoundTensor, DynamicSession, Session

__all__ = ["BatchSession", "open_session"]


def open_session(
    model: Model | DynamicModel | str | PathLike[str], backend: str, shapes: Any, **options: Any
) -> Session:
    """A session of a model; with shapes, of the file that is loaded with them."""
    if shapes is not None:
        if isinstance(model, (Model, DynamicModel)):
            raise ValueError("shapes are for the path of a model: this one is loaded already")
        return Session(load(model, shapes=shapes), backend, **options)
    return Session(model, backend, **options)


class BatchSession:
    """A session whose inputs and outputs all have rows in their first dimension.

    Any number of rows is run. A model of one shape runs as many at a time as it has, the rest of
    the last run being zero; one of many shapes those that are there, in the smallest of its shapes
    that has room for them.

    Attributes:
        rows: how many the model takes at once; None where it takes any number.
        copied_bytes: what was written into inputs and read from outputs, until now.

    Raises:
        ModelError: a tensor without rows, or with more or fewer than the others.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.copied_bytes = 0
        self.rows: int | None
        #: Of a model of many shapes: the numbers of rows that there are; None where any is one.
        self._sizes: list[int] | None = None
        if isinstance(session, DynamicSession):
            self._sizes = session._many.firsts
            self.rows = None if self._sizes is None else max(self._sizes, default=0)
            if self.rows == 0:
                raise ModelError("batches need inputs with rows, which this model has not")
        else:
            self.rows = _rows(session)

    def check(self, name: str, array: np.ndarray) -> np.ndarray:
        """The array, if it has rows for this input.

        Raises:
            ValueError: their shape or type is another one. That of a model of many shapes shows
                in part when it is run.
        """
        if isinstance(self.session, DynamicSession):
            dims = self.session.inputs[name].shape
            if dims is None:
                return array
            fits = array.ndim == len(dims) and all(
                not isinstance(d, int) or d == n
                for d, n in zip(dims[1:], array.shape[1:], strict=True)
            )
            kind, rest = "", ["?" if not isinstance(d, int) else d for d in dims[1:]]
        else:
            t = self.session.inputs[name]
            fits = array.ndim != 0 and array.shape[1:] == t.shape[1:] and array.dtype == t.dtype
            kind, rest = str(t.dtype), list(t.shape[1:])
        if not fits:
            raise ValueError(
                f"input {name!r} needs rows of {kind}[{', '.join(map(str, rest))}], not "
                f"{array.dtype}{list(array.shape[1:]) if array.ndim else ', a single number'}"
            )
        return array

    def run(self, columns: Mapping[str, list[np.ndarray]]) -> dict[str, np.ndarray]:
        """Results for all rows, in arrays of their own.

        Args:
            columns: for each input its rows, in one array or several ones, one after another; all
                of one shape and type.

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
        results: dict[str, np.ndarray] = {}
        begin = 0
        while begin < total or not results:
            left = total - begin
            count = left if self.rows is None else min(self.rows, left)
            session = self._session(count, columns)
            for name, t in session.inputs.items():
                self._fill(t, sources[name], count)
            if count:
                session.run()
            for name, t in session.outputs.items():
                if name not in results:
                    results[name] = np.empty((total, *t.shape[1:]), t.dtype)
                out = results[name][begin : begin + count]
                out[...] = t.array[:count]
                self.copied_bytes += out.nbytes
            begin += count
        return results

    def _session(self, count: int, columns: Mapping[str, list[np.ndarray]]) -> Session:
        """That of a shape with room for so many rows."""
        if not isinstance(self.session, DynamicSession):
            return self.session
        count = max(count, 1)
        if self._sizes is not None:
            count = next(n for n in self._sizes if n >= count)
        shapes = {name: (count, *arrays[0].shape[1:]) for name, arrays in columns.items() if arrays}
        session = self.session.at({n: shapes[n] for n in self.session.inputs if n in shapes})
        if _rows(session) != count:
            raise ModelError(f"batches need shapes with the same rows in all inputs, not {shapes}")
        for name, t in session.inputs.items():
            for array in columns[name]:
                if array.shape[1:] != t.shape[1:] or array.dtype != t.dtype:
                    raise ValueError(
                        f"input {name!r} needs rows of {t.dtype}{list(t.shape[1:])}, not "
                        f"{array.dtype}{list(array.shape[1:])}"
                    )
        return session

    def _fill(self, t: BoundTensor, source: _Rows, count: int) -> None:
        at, memory = 0, t.array
        for some in source.take(count):
            memory[at : at + len(some)] = some
            at += len(some)
            self.copied_bytes += some.nbytes
        memory[at:] = 0

    def close(self) -> None:
        self.session.close()


def _rows(session: Session) -> int:
    """How many rows all inputs and outputs have."""
    tensors = {**session.inputs, **session.outputs}
    counts = {name: t.shape[0] if t.shape else 0 for name, t in tensors.items()}
    if len(set(counts.values())) != 1 or 0 in counts.values():
        said = ", ".join(f"{name}{list(t.shape)}" for name, t in tensors.items())
        raise ModelError(f"batches need tensors with the same number of rows, not {said}")
    return next(iter(counts.values()))


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
