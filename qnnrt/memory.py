"""Shared memory: buffers that numpy, an accelerator and another process can use at once."""

from __future__ import annotations

import copyreg
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._native import _core
from ._native._core import Buffer, Lease

__all__ = ["Buffer", "HeapInfo", "Lease", "alloc", "alloc_array", "buffer_of", "heaps"]


def alloc(nbytes: int, *, heap: str | None = None, alignment: int = 4096) -> Buffer:
    """Allocate shareable memory.

    Fresh memory is zero; memory that was freed before and is reused has unspecified contents.

    Args:
        nbytes: size in bytes, positive.
        heap: "vendor", "dma_heap", "udmabuf" or "memfd"; the machine's default unless given.
        alignment: of the address, a power of two.

    Raises:
        ValueError: a size that is not positive, an alignment that is no power of two.
        MemError: 1002 no memory, 1010 no such heap here.
    """
    return _core.alloc(nbytes, heap, alignment)


def alloc_array(shape: int | Sequence[int], dtype: Any = np.float32) -> np.ndarray:
    """A numpy array on a buffer of its own; ``buffer_of`` finds the buffer again.

    The buffer lives as long as the array or a view of it.
    """
    dims = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
    dtype = np.dtype(dtype)
    nbytes = int(np.prod(dims, dtype=object)) * dtype.itemsize
    return alloc(max(nbytes, 1)).array(dims, dtype)


def buffer_of(array: Any) -> tuple[Buffer, int]:
    """The shared buffer under an array or any view of one, and the offset in it, in bytes.

    Found by address, so it does not matter how the view came to be.

    Raises:
        LookupError: the memory is not on a shared buffer.
    """
    if isinstance(array, Buffer):
        return array, 0
    interface = getattr(array, "__array_interface__", None)
    address = interface["data"][0] if interface is not None else _core.address_of(array)[0]
    found = _core.lookup(address)
    if found is None:
        raise LookupError(
            f"address {address:#x} is not on a shared buffer: allocate with qnnrt.alloc_array(), "
            "or wrap the memory with Buffer.from_array()"
        )
    return found


@dataclass(frozen=True)
class HeapInfo:
    """A source of shareable memory.

    Attributes:
        name: "vendor", "dma_heap", "udmabuf" or "memfd".
        available: whether this machine has it.
        is_default: whether ``alloc`` uses it.
        reason: what it uses, or why it is not there; for the default, also why it is that.
        coherent: whether CPU access needs no ``cpu_access`` scopes.
        live_bytes, peak_bytes: taken from it now and at most, the pool's included.
        live_allocations, allocations, failures: counts, likewise.
    """

    name: str
    available: bool
    is_default: bool
    reason: str
    coherent: bool
    live_bytes: int
    peak_bytes: int
    live_allocations: int
    allocations: int
    failures: int


def heaps() -> tuple[HeapInfo, ...]:
    """The heaps that qnnrt knows, best first: which this machine has, the default and why."""
    out = []
    for raw in _core.heaps():
        if raw["is_default"]:
            raw["reason"] = f"{raw['reason']}; {_core.heap_default_reason()}"
        out.append(HeapInfo(**raw))
    return tuple(out)


# ---- pickling: the fd goes, the bytes stay


# Each message names it: pickle finds a name in the package itself sooner than one in a module of
# it, and a native function takes no frame of Python's.
_receive = _core.receive
_receive.__module__, _receive.__qualname__ = "qnnrt", "_receive"


def _reduce_buffer(buffer: Buffer) -> tuple[Any, ...]:
    return _receive, (_core.buffer_message(buffer),)


def _reduce_lease(lease: Lease) -> tuple[Any, ...]:
    return _receive, (lease._message(),)


copyreg.pickle(Buffer, _reduce_buffer)
copyreg.pickle(Lease, _reduce_lease)
