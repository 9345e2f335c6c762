"""A graph between its checks and its kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ..abi.constants import QNN_DATATYPE_INT_32
from ..model import Quantization

__all__ = ["FAULTS", "Ir", "Launch", "Lead", "Node", "Post", "Value"]


@dataclass(eq=False)
class Value:
    """A tensor: of the graph's caller, between nodes, or constant (with ``data``)."""

    name: str
    id: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    code: int  # QNN data type
    kind: str  # "input", "output", "native" or "static"
    data: np.ndarray | None = None
    quantization: Quantization | None = None
    base: Value | None = None  # whose memory this one lies in, all of it, under a shape of its own

    @property
    def root(self) -> Value:
        """The value that has the memory: this one, unless it is a view."""
        found = self
        while found.base is not None:
            found = found.base
        return found

    @property
    def size(self) -> int:
        """Elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def decoded(self) -> np.ndarray:
        """The 32-bit floats that a constant's fixed-point numbers stand for."""
        q = self.quantization
        assert self.data is not None
        assert q is not None
        scale, offset = (
            _spread(np.asarray(n, np.float32), self.shape, q) for n in (q.scale, q.offset)
        )
        real: np.ndarray = scale * (self.data.astype(np.float32) + offset)
        return real


def _spread(numbers: np.ndarray, shape: tuple[int, ...], q: Quantization) -> np.ndarray:
    """One of an encoding's numbers for each element, or an array that broadcasts to these."""
    if q.block is not None:
        numbers = numbers.reshape([n // size for n, size in zip(shape, q.block, strict=True)])
        for axis, size in enumerate(q.block):
            numbers = np.repeat(numbers, size, axis)
    elif q.axis is not None:
        numbers = numbers.reshape([-1 if i == q.axis else 1 for i in range(len(shape))])
    return numbers


@dataclass(frozen=True)
class Post:
    """An operation on single elements that a kernel does to its result before it is stored.

    Attributes:
        expression: in C: of ``v``, the element so far, of ``p0``, ``p1``..., its operands, and of
            ``k0``, ``k1``..., what posts of the node have kept, itself included.
        operands: each with the index of its element for element ``i`` of the result, in C.
        shape: that the operands broadcast to, where it is not the result's.
        keep: the value that ``v`` is an element of before this operation, where it is used behind
            it, too.
        stored: others read the kept value: the kernel writes it.
    """

    expression: str
    operands: tuple[tuple[Value, str], ...] = ()
    shape: tuple[int, ...] = ()
    keep: Value | None = None
    stored: bool = True


@dataclass(frozen=True)
class Lead:
    """What a kernel does to the elements of its first input before it computes with them: by
    constants along the last axis, ``x * scale + shift``, and with ``relu`` no less than 0."""

    scale: Value
    shift: Value | None
    relu: bool


@dataclass
class Node:
    """An operation. None in ``inputs`` is an omitted one; arrays in ``params`` are numpy's.

    ``post`` is done to every element of the (first) output, in order; only families of kernels that
    take it are given it. Outputs behind the first one are then values that it keeps.
    ``line`` is (first, width) where the output's lines, along its last axis, lie from the first
    element on in lines of so many of the value whose memory it has; only families that take it are
    given it.
    ``lead``: what is done to input 0 first, and ``reads``, unless it is 0: its lines are the first
    elements of lines of so many, of the value whose memory it has; for families that take both.
    ``shuffle``: the last axis of input 0 is read as ChannelShuffle with so many groups would leave
    it; only families that take it are given more than one.
    ``ports`` are the numbers that ``outputs`` have among the op's, where some are omitted; nothing
    where they are the first ones.
    """

    name: str
    type: str
    inputs: list[Value | None]
    outputs: list[Value]
    params: dict[str, Any]
    post: list[Post] = field(default_factory=list)
    line: tuple[int, int] | None = None
    lead: Lead | None = None
    reads: int = 0
    shuffle: int = 1
    ports: tuple[int, ...] = ()


@dataclass
class Ir:
    """A graph: its inputs, then its outputs; its nodes in execution order.

    ``passes`` says what changed it before, for descriptions: names and numbers of changes.
    """

    name: str
    io: tuple[Value, ...] = ()
    nodes: list[Node] = field(default_factory=list)
    passes: list[tuple[str, int]] = field(default_factory=list)


#: The argument of a kernel that notes an index which has no element, as a struct of four integers
#: (``Qnnrt_OpenClFault_t``): one memory for all kernels of a graph. The argument behind it is the
#: number of the kernel's struct there, which `compile.launches_of` sets.
FAULTS: Final = Value("", 0, (4,), np.dtype(np.int32), QNN_DATATYPE_INT_32, "faults")


@dataclass(frozen=True)
class Launch:
    """A kernel to be started.

    Attributes:
        file: of ``kernels``, without its suffix.
        function: in it.
        defines: names and values that specialise it. Launches with equal ones share a kernel's
            code, so sizes that cost nothing at run time belong into ``args``.
        total, group: sizes of the index space, and of work groups; the driver's choice without one.
        args: values become buffers, ints 32-bit and floats 32-bit numbers.
        before: source that stands before the file's, after its defines.
        in_place: (written, read) values of which a work item reads only the elements that it
            writes: they may have the same memory.
        call: what enqueues it instead of a kernel, for routines of libraries: it receives the
            numbers of the cl_command_queue and of the cl_mem of each of ``args``, all of which are
            values, and must not wait for the device. ``file`` and ``function`` name the routine.
        reads_back: the kernel reads the result that it writes, as it was before.
        parts: kernels that this one is, one after the other, each with its node; their arguments
            are its own, in order. See ``together``.
    """

    file: str
    function: str
    defines: tuple[tuple[str, str], ...]
    total: tuple[int, ...]
    args: tuple[Value | int | float, ...]
    group: tuple[int, ...] | None = None
    before: str = ""
    in_place: tuple[tuple[Value, Value], ...] = ()
    call: Callable[[int, list[int]], object] | None = None
    reads_back: bool = False
    parts: tuple[tuple[Node, Launch], ...] = ()
