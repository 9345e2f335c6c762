"""What loading a model file may take: memory for constants, steps, operations and time.

A file of a few hundred bytes can ask for terabytes or for years. Everything that makes more than
it was given asks here first, so that one error names the node before the memory is gone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import NoReturn

import numpy as np

from ..errors import ModelError
from .guard import shortened

_MIB = 2**20
#: What a file may take in any case, and how many times its own size it may.
_CONSTANT_BYTES, _BYTES_FOR_A_BYTE = 1024 * _MIB, 16
_STEPS, _STEPS_FOR_A_NODE = 20_000, 64
_OPERATIONS, _OPERATIONS_FOR_A_BYTE = 2**34, 2**10
#: Functions and branches inside of each other.
_DEPTH = 64
#: Time is looked at before so many operations on constants.
_LONG = 2**16


@dataclass(frozen=True)
class Limits:
    """What loading one model may take. What is left out follows from the size of the file.

    Attributes:
        constant_bytes: bytes of constants that are made while loading, temporary arrays included:
            1 GiB, or 16 times the bytes of the file and its data files if that is more; for TFLite
            64 MiB, or 32 times the bytes of the file.
        steps: nodes visited, the bodies of functions included, and operations emitted: 20,000, or
            64 for a node of the file.
        operations: scalar operations spent on constants: 2**34, or 1,024 for a byte of the file.
        seconds: time until the model is made; looked at before each node, each pass over the
            graph and each large constant.
    """

    constant_bytes: int | None = None
    steps: int | None = None
    operations: int | None = None
    seconds: float = 120.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.name != "seconds":
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise ValueError(
                    f"Limits.{field.name} has to be a positive number, not {value!r:.100}"
                )


class Budget:
    """What is left of the limits of one load. `size` gives the bytes and nodes of the file; it is
    asked only when the file wants more than every file may take."""

    def __init__(
        self,
        limits: Limits | None = None,
        where: str = "the model",
        size: Callable[[], tuple[int, int]] = lambda: (0, 0),
        constants: tuple[int, int] = (_CONSTANT_BYTES, _BYTES_FOR_A_BYTE),
    ) -> None:
        self._limits = limits or Limits()
        self._least_bytes, self._factor = constants
        self._where, self._size = where, size
        self._sized: tuple[int, int] | None = None
        self._bytes = self._steps = self._operations = 0
        self._depth = 0
        self._deadline = time.monotonic() + self._limits.seconds
        self._free_steps = _STEPS if self._limits.steps is None else 0
        self._node: object = "the model"

    # ---- who asks ----------------------------------------------------------------------------

    @property
    def node(self) -> str:
        """The node that is being read, for messages."""
        return str(self._node)

    @contextmanager
    def inside(self, what: str) -> Iterator[None]:
        """A body is read: a function's or a branch's."""
        if self._depth >= _DEPTH:
            raise ModelError(
                f"{self._where}: {shortened(what)} lies {_DEPTH} functions or branches deep; no "
                "more are read (does it call itself?)"
            )
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    # ---- what is asked for -------------------------------------------------------------------

    def phase(self, what: str) -> None:
        """Nodes are read; `what` comes next, as the subject of messages."""
        self._node = what
        self.check_time()

    def check_time(self) -> None:
        if time.monotonic() > self._deadline:
            limit = self._limits.seconds
            self._spent("seconds", "more time", limit, "seconds", f"all {limit:g}")

    def step(self, node: object = None) -> None:
        """A node is read, or an operation emitted. `node` as text is its name in messages."""
        if node is not None:
            self._node = node
            self.check_time()
        self._steps += 1
        if self._steps > self._free_steps:
            limit = self._limits.steps or max(_STEPS, _STEPS_FOR_A_NODE * self._file[1])
            if self._steps > limit:
                self._spent("steps", "one step more", limit, "steps", self._steps - 1)

    def take(self, nbytes: int, what: str = "a constant") -> None:
        """`nbytes` of memory are about to be filled."""
        self.fits(nbytes, what)
        self._bytes += int(nbytes)

    def fits(self, nbytes: int, what: str = "a constant") -> None:
        """`nbytes` are about to be filled, and will be free again soon."""
        if nbytes > self.bytes_left and nbytes > self.all_bytes_left:
            self.refuse(nbytes, what)

    def refuse(self, nbytes: int, what: str) -> NoReturn:
        """Raise what says that `nbytes` are more than the file may take."""
        wanted, limit = f"{int(nbytes):,} bytes for {what}", self.all_bytes_left + self._bytes
        self._spent("constant_bytes", wanted, limit, "bytes of constants", self._bytes)

    def array(
        self, shape: Sequence[int], dtype: np.dtype | type, what: str = "", copies: int = 1
    ) -> None:
        """An array of this shape is about to be filled, and `copies - 1` more on the way."""
        dtype = np.dtype(dtype)
        count = math.prod(map(int, shape))
        nbytes = copies * count * max(dtype.itemsize, 1)
        if nbytes > self.bytes_left and not what:  # a text for an error; making it takes long
            what = f"{dtype.name}{_dims(shape)}"
        self.take(nbytes, what)
        self.work(count)

    def work(self, operations: int) -> None:
        """So many scalar operations are about to be done."""
        if operations > _LONG:
            self.check_time()
        self._operations += int(operations)
        if self._operations > _OPERATIONS or self._limits.operations is not None:
            limit = self._limits.operations or max(
                _OPERATIONS, _OPERATIONS_FOR_A_BYTE * self._file[0]
            )
            if self._operations > limit:
                before = self._operations - int(operations)
                wanted = f"{int(operations):,} operations on constants"
                self._spent("operations", wanted, limit, "operations", before)

    @property
    def bytes_left(self) -> int:
        """Bytes of constants that every file may still take."""
        return (self._limits.constant_bytes or self._least_bytes) - self._bytes

    @property
    def all_bytes_left(self) -> int:
        """Bytes of constants that this file may still take."""
        limit = self._limits.constant_bytes
        return (limit or max(self._least_bytes, self._factor * self._file[0])) - self._bytes

    @property
    def seconds_left(self) -> float:
        return self._deadline - time.monotonic()

    # ---- what it is compared with ------------------------------------------------------------

    @property
    def _file(self) -> tuple[int, int]:
        if self._sized is None:
            self._sized = self._size()
        return self._sized

    def _spent(
        self, name: str, wanted: str, limit: float, unit: str, used: float | str
    ) -> NoReturn:
        before = f"{used:,}" if isinstance(used, int) else used
        allowed = f"{limit:,}" if isinstance(limit, int) else f"{limit:g}"
        raise ModelError(
            f"{self._where}: {self._node} wants {wanted}; this file may take {allowed} {unit}, of "
            f"which {before} are used. If it is to be trusted, load it with "
            f"limits=qnnrt.Limits({name}=...)"
        )


def _dims(shape: Sequence[int]) -> str:
    shown = ", ".join(str(int(d)) for d in shape[:8])
    return f"[{shown}{', ...' if len(shape) > 8 else ''}]"
