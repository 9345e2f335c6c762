"""How memory gets from a process of Ray to another: by fd on a node, by a copy between nodes."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from .._native import _core
from ..errors import HandoffError
from ..memory import Buffer, Lease, alloc, buffer_of
from ..support.guard import Guard

__all__ = ["Part", "Shared", "Ticket", "Transfers", "receive", "share", "transfers"]


# ---- what a transfer has cost


@dataclass(frozen=True)
class Transfers:
    """What this process has received through Ray.

    Attributes:
        shared, shared_bytes: Buffers whose memory was mapped here, and how much: not copied.
        fetched, fetched_bytes: Buffers from other nodes, copied once on their producer's node into
            Ray's object store, and once from this node's object store into a new Buffer.
        copied_bytes: bytes copied for them, on both nodes together.
    """

    shared: int = 0
    shared_bytes: int = 0
    fetched: int = 0
    fetched_bytes: int = 0
    copied_bytes: int = 0


_guard = Guard()
_transfers = Transfers()


def _count(**more: int) -> None:
    global _transfers
    with _guard.lock:
        _transfers = replace(_transfers, **{k: getattr(_transfers, k) + n for k, n in more.items()})


def transfers() -> Transfers:
    """What this process has received through Ray until now."""
    return _transfers


def reset_transfers() -> None:
    """Count from zero again."""
    global _transfers
    with _guard.lock:
        _transfers = Transfers()


# ---- what travels


def _namespaces() -> tuple[str, str]:
    return os.readlink("/proc/self/ns/pid"), os.readlink("/proc/self/ns/net")


def this_node() -> str:
    """Ray's name of the node that this process is on."""
    return str(ray.get_runtime_context().get_node_id())


@dataclass(frozen=True)
class Ticket:
    """Where a part of a Buffer is, and what its process asks for to give it away."""

    message: bytes = field(repr=False)
    offset: int
    nbytes: int
    node: str
    namespaces: tuple[str, str]  # of process ids and of the network


class Part:
    """Some bytes of a Buffer: what Ray's pickler makes of each Buffer and each shared array.

    Pickled, it becomes a ticket, valid while its process has the Buffer; the tensor transport takes
    it out of the pickle and gives it a lease.
    """

    __slots__ = ("buffer", "nbytes", "offset", "readonly")

    def __init__(self, buffer: Buffer, offset: int, nbytes: int, readonly: bool = False) -> None:
        self.buffer, self.offset, self.nbytes, self.readonly = buffer, offset, nbytes, readonly

    def lease(self) -> Lease:
        return self.buffer.lease(readonly=self.readonly)

    def ticket(self, message: bytes) -> Ticket:
        return Ticket(message, self.offset, self.nbytes, this_node(), _namespaces())

    def __reduce__(self) -> tuple[Any, ...]:
        if self.readonly and not self.buffer.readonly:
            self.lease().close()  # the seal stays
        if not ray.is_initialized():
            raise RuntimeError("a part of a Buffer goes through Ray only, which is not initialized")
        return _receive_one, (self.ticket(_core.buffer_message(self.buffer)),)


def whole(part: Part) -> Buffer:
    """The Buffer that `reduce_buffer` was given; from another node, its bytes."""
    return part.buffer


def reduce_buffer(buffer: Buffer) -> tuple[Any, ...]:
    """For Ray's pickler instead of the Buffer's own, which knows nothing of other nodes."""
    return whole, (Part(buffer, 0, buffer.nbytes),)


def pickle_buffers() -> None:
    """Have Ray pickle Buffers as parts, in this process."""
    # What ray.util.register_serializer does, which needs ray.init before.
    ray.cloudpickle.CloudPickler.dispatch[Buffer] = reduce_buffer


def span(memory: Any) -> tuple[Buffer, int, int]:
    """The Buffer under memory, and the bytes of it from the first to behind the last one in use.

    Args:
        memory: a Buffer, or an array or torch tensor on one, with any strides.

    Raises:
        LookupError: the memory is not on a shared buffer.
    """
    buffer, _ = buffer_of(memory)
    if isinstance(memory, Buffer):
        return buffer, 0, buffer.nbytes
    view = memory if isinstance(memory, np.ndarray) else memory.detach().numpy()
    low, high = np.lib.array_utils.byte_bounds(view)
    return buffer, low - buffer.address, high - buffer.address


class Shared:
    """An array on a Buffer, on its way: `share` makes it, and an array arrives."""

    def __init__(self, array: np.ndarray, part: Part, torch: bool) -> None:
        self.array, self._part, self._torch = array, part, torch

    def __reduce__(self) -> tuple[Any, ...]:
        array, part = self.array, self._part
        start = array.__array_interface__["data"][0] - part.buffer.address - part.offset
        return _arrived, (part, array.shape, array.dtype, start, array.strides, self._torch)


def share(array: Any, *, readonly: bool = False) -> Shared:
    """An array or torch tensor on a Buffer, to be returned, passed or put as it is.

    Any view will do. What arrives is an array (a torch tensor for a torch tensor) of the same
    shape, strides and type on the same memory; from another node, on a Buffer of its own with the
    bytes that the view spans. Without this, arrays go Ray's way: by a copy into its object store.

    Args:
        readonly: nobody but this process can write the memory from now on, as
            ``Buffer.lease(readonly=True)``.

    Raises:
        LookupError: the memory is not on a shared buffer.
        TypeError: an array of Python objects.
    """
    torch = not isinstance(array, np.ndarray)
    view = array.detach().numpy() if torch else array
    if view.dtype.hasobject:
        raise TypeError(f"dtype {view.dtype}: Python objects cannot be shared")
    buffer, begin, end = span(view)
    return Shared(view, Part(buffer, begin, max(end - begin, 1), readonly), torch)


def _arrived(
    part: Part,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    start: int,
    strides: tuple[int, ...],
    torch: bool,
) -> Any:
    base = part.buffer.array((part.nbytes,), np.uint8, part.offset)
    array: np.ndarray = np.ndarray(shape, dtype, base, start, strides)
    if not torch:
        return array
    import torch as package

    return package.from_numpy(array)


# ---- receiving


def _read(ticket: Ticket) -> np.ndarray:
    """On the node of the memory: its bytes, which Ray copies into its object store."""
    buffer = _core.receive(ticket.message)
    return buffer.array((ticket.nbytes,), np.uint8, ticket.offset)


def _fetch(ticket: Ticket) -> Any:
    """Asks a process on the memory's node for it. No CPU of that node is waited for."""
    affinity = NodeAffinitySchedulingStrategy(ticket.node, soft=False)
    task = ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=affinity)(_read)
    return task.remote(ticket)


def _copied(ticket: Ticket, reference: Any, timeout: float | None) -> Part:
    try:
        source = ray.get(reference, timeout=timeout)
    except HandoffError as error:  # as it was raised there, with Ray's trace
        raise HandoffError(f"on node {ticket.node}: {error}", error.reason) from None
    except ray.exceptions.GetTimeoutError:
        raise HandoffError(
            f"{ticket.nbytes} bytes from node {ticket.node} have not come within {timeout:g} s",
            "timeout",
        ) from None
    except ray.exceptions.RayError as error:
        first = str(error).strip().partition("\n")[0]
        raise HandoffError(
            f"node {ticket.node}, which has the memory, cannot be reached: {first}", "sender"
        ) from error
    buffer = alloc(ticket.nbytes)
    np.copyto(buffer.array((ticket.nbytes,), np.uint8), source)
    _count(fetched=1, fetched_bytes=ticket.nbytes, copied_bytes=2 * ticket.nbytes)
    return Part(buffer, 0, ticket.nbytes)


def _mapped(ticket: Ticket) -> Part:
    here = _namespaces()
    if all(a != b for a, b in zip(here, ticket.namespaces, strict=True)):
        raise HandoffError(
            "the memory's process is on this node, in namespaces of its own for process ids and "
            "for the network (a container?): neither its files nor its socket can be reached from "
            "here. Give both processes the same PID or network namespace",
            "namespace",
        )
    buffer = _core.receive(ticket.message)
    _count(shared=1, shared_bytes=ticket.nbytes)
    return Part(buffer, ticket.offset, ticket.nbytes)


def receive(tickets: list[Ticket], timeout: float | None = None) -> list[Part]:
    """The memory of each: mapped on its node, copied from another one.

    Args:
        timeout: seconds for what comes from other nodes, each.

    Raises:
        HandoffError: the process or its node has ended, a lease has ended, or one of its other
            reasons.
    """
    node = this_node()
    fetched = {i: _fetch(t) for i, t in enumerate(tickets) if t.node != node}
    return [
        _copied(t, fetched[i], timeout) if i in fetched else _mapped(t)
        for i, t in enumerate(tickets)
    ]


def _receive_one(ticket: Ticket) -> Part:
    return receive([ticket])[0]
