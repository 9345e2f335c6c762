"""Shared memory: buffers that numpy, an accelerator and another process can use at once."""

from __future__ import annotations

import contextlib
import copyreg
import itertools
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._native import _core
from ._native._core import Buffer
from .errors import Error

__all__ = ["Buffer", "HeapInfo", "alloc", "alloc_array", "buffer_of", "heaps"]


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
#
# The receiver opens /proc/<sender>/fd/<n>: one system call, no server thread, whatever the size.
# The sender holds a duplicate of the fd until the receiver has it, so that a buffer may be let go
# right after it was sent. "Has it" is one byte that the receiver sets in a page both map; the
# sender looks at these bytes when it sends the next time.

_SLOTS = 4096


class _Transit:
    """Duplicates of fds on their way to other processes."""

    def __init__(self) -> None:
        self.generation = _core.fork_generation()
        self.pid = os.getpid()
        self.lock = threading.Lock()
        with _core.Fd(os.memfd_create, "qnnrt-transit", os.MFD_CLOEXEC) as fd:
            os.ftruncate(fd, _SLOTS)
            self.page = Buffer.from_fd(fd)
        self.flags = memoryview(self.page)
        self.flying: dict[int, _core.Fd] = {}  # by slot, oldest first
        self.next = 0

    def sweep(self, at_most: int) -> None:
        """Close duplicates that have arrived, looking at the oldest ones."""
        for slot in list(itertools.islice(self.flying, at_most)):
            if self.flags[slot]:
                self.flying.pop(slot).close()

    def send(self, fd: int) -> tuple[int, int]:
        """A duplicate of the fd and the slot that says when it has arrived."""
        with self.lock:
            self.sweep(8)
            if len(self.flying) == _SLOTS:
                self.sweep(_SLOTS)
            if len(self.flying) == _SLOTS:
                raise Error(
                    f"{_SLOTS} buffers were sent and none of them received: receive or pickle fewer"
                )
            while self.next in self.flying:
                self.next = (self.next + 1) % _SLOTS
            slot, self.next = self.next, (self.next + 1) % _SLOTS
            self.flags[slot] = 0
            self.flying[slot] = copy = _core.Fd(os.dup, fd)
            return copy.number, slot


_transit: _Transit | None = None
_pages: dict[tuple[int, int], memoryview] = {}  # (pid, inode) -> the sender's page


def _sender() -> _Transit:
    global _transit
    if _transit is None or _transit.generation != _core.fork_generation():
        _transit = _Transit()
    return _transit


def _transit_fds() -> int:
    """How many fds are on their way; for tests."""
    if _transit is None or _transit.generation != _core.fork_generation():
        return 0
    with _transit.lock:
        _transit.sweep(_SLOTS)
        return len(_transit.flying)


def _reduce_buffer(buffer: Buffer) -> tuple[Any, ...]:
    own = buffer.fd  # raises when closed
    transit = _sender()
    fd, slot = transit.send(own)
    return _receive_buffer, (
        transit.pid,
        (fd, *buffer._file_id()),
        (transit.page.fd, *transit.page._file_id()),
        slot,
        buffer.nbytes,
        buffer.fd_offset,
    )


copyreg.pickle(Buffer, _reduce_buffer)


def _open_fd(pid: int, what: tuple[int, int, int]) -> _core.Fd:
    """Another process's fd, checked to be the file that was meant."""
    fd, device, inode = what
    try:
        try:
            opened = _core.Fd(os.open, f"/proc/{pid}/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
        except PermissionError:
            opened = _core.Fd(os.open, f"/proc/{pid}/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            # A dma-buf cannot be opened by its name, only fetched by the kernel's own call.
            if not hasattr(os, "pidfd_open"):
                raise
            opened = _pidfd_getfd(pid, fd)
        info = os.fstat(opened.number)
        if (info.st_dev, info.st_ino) == (device, inode):
            return opened
        reason = "the sender has since closed it"
    except OSError as e:
        reason = e.strerror or str(e)
    raise Error(
        f"cannot take the shared buffer over from process {pid}: {reason}. The sender must be "
        "alive, of the same user and in the same PID namespace"
    )


def _pidfd_getfd(pid: int, fd: int) -> _core.Fd:
    import ctypes

    with _core.Fd(os.pidfd_open, pid) as pidfd:
        libc = ctypes.CDLL(None, use_errno=True)
        call = libc.syscall  # SYS_pidfd_getfd, the same on every machine
        got = _core.Fd(call, 438, pidfd, fd, 0)
        if got.number < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return got


def _receive_buffer(
    pid: int,
    what: tuple[int, int, int],
    page: tuple[int, int, int],
    slot: int,
    nbytes: int,
    offset: int,
) -> Buffer:
    try:
        with _open_fd(pid, what) as fd:
            buffer = Buffer.from_fd(fd, nbytes, offset)
    except BaseException:
        # The message is gone all the same: the sender's duplicate serves nobody any more.
        with contextlib.suppress(Exception):
            _arrived(pid, page, slot)
        raise
    _arrived(pid, page, slot)
    return buffer


def _arrived(pid: int, page: tuple[int, int, int], slot: int) -> None:
    """Tell the sender that it may close its duplicate."""
    if _transit is not None and pid == _transit.pid == os.getpid():
        _transit.flags[slot] = 1
        return
    key = (pid, page[2])
    flags = _pages.get(key)
    if flags is None:
        with _open_fd(pid, page) as page_fd:
            flags = memoryview(Buffer.from_fd(page_fd))
        while len(_pages) >= 16:
            _pages.pop(next(iter(_pages)))
        _pages[key] = flags
    flags[slot] = 1
