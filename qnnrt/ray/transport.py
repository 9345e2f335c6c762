"""The tensor transport: leases on what a process has given out, while Ray counts references."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import ray
from ray.experimental import (
    CommunicatorMetadata,
    TensorTransportManager,
    TensorTransportMetadata,
    register_tensor_transport,
)
from ray.experimental.rdt.util import transport_manager_info

from ..errors import HandoffError
from ..memory import Buffer, Lease
from .transfer import Part, Ticket, pickle_buffers, receive, span

_log = logging.getLogger("ray.qnnrt")  # under Ray's, which shows what it is told

__all__ = ["Metadata", "Transport", "register", "wait_freed"]

# Ray imports this module in each actor that sends or receives: there Buffers are pickled Ray's way.
pickle_buffers()

_TIMEOUT = 60.0  # seconds for a tensor from another node; Ray gives a transfer up after as many


def register(name: str) -> None:
    """Tell Ray of the transport, once in a process; it takes it to the actors that use it."""
    if name not in transport_manager_info:
        register_tensor_transport(name, ["cpu"], Transport, Part)


@dataclass
class Metadata(TensorTransportMetadata):  # type: ignore[misc]
    """What a receiver needs: a ticket for each Buffer of an object."""

    tickets: list[Ticket] = field(default_factory=list)


@dataclass
class _Given:
    """An object that is in use somewhere."""

    parts: list[Part]
    leases: list[Lease]
    metadata: Metadata


class _Table:
    """The objects that this process has given out."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.given: dict[str, _Given] = {}

    def add(self, name: str, parts: list[Part]) -> Metadata:
        with self.changed:
            if name in self.given:  # a task that Ray runs again: the first one's memory counts
                return self.given[name].metadata
            leases: list[Lease] = []
            try:
                leases.extend(part.lease() for part in parts)
            except BaseException:
                for lease in leases:
                    lease.close()
                raise
            metadata = Metadata(
                tensor_meta=[((part.nbytes,), np.dtype(np.uint8)) for part in parts],
                tensor_device="cpu",
                tickets=[
                    part.ticket(lease._message()) for part, lease in zip(parts, leases, strict=True)
                ],
            )
            self.given[name] = _Given(parts, leases, metadata)
            return metadata

    def drop(self, name: str) -> None:
        with self.changed:
            given = self.given.pop(name, None)
            if given is not None:
                for lease in given.leases:
                    lease.close()
                self.changed.notify_all()

    def uses(self, buffer: Buffer, begin: int, end: int) -> bool:
        return any(
            part.buffer._is(buffer) and part.offset < end and begin < part.offset + part.nbytes
            for given in self.given.values()
            for part in given.parts
        )


_table = _Table()


def wait_freed(memory: Any, timeout: float | None) -> None:
    buffer, begin, end = span(memory)
    with _table.changed:
        if not _table.changed.wait_for(lambda: not _table.uses(buffer, begin, end), timeout):
            raise TimeoutError(f"after {timeout:g} s there is still a reference to this memory")


def _check_actor() -> None:
    if ray._private.worker.global_worker.core_worker.current_actor_is_asyncio():
        raise HandoffError(
            "an async actor cannot use a tensor transport: Ray's transfers need a thread beside "
            "the actor's own; make its methods synchronous, or send the Buffer without a transport",
            "actor",
        )


class Transport(TensorTransportManager):  # type: ignore[misc]
    """Ray's interface, on leases."""

    @property
    def tensor_transport_backend(self) -> str:
        return "QNNRT"

    @staticmethod
    def is_one_sided() -> bool:
        return True

    @staticmethod
    def can_abort_transport() -> bool:
        return True  # otherwise Ray kills both actors when one transfer fails

    def actor_has_tensor_transport(self, actor: Any) -> bool:
        return True

    def extract_tensor_transport_metadata(self, obj_id: str, rdt_object: list[Any]) -> Metadata:
        _check_actor()
        return _table.add(obj_id, rdt_object)

    def get_communicator_metadata(
        self, src_actor: Any, dst_actor: Any, backend: str | None = None
    ) -> CommunicatorMetadata:
        if not getattr(dst_actor, "_ray_enable_tensor_transport", True):
            reason = (
                f"{dst_actor!r} cannot receive by a tensor transport: its class has to be made "
                "with ray.remote(enable_tensor_transport=True)"
            )
            # An error in a thread of Ray's own ends the process. There the receiver waits in vain.
            if not isinstance(threading.current_thread(), threading._DummyThread):
                raise HandoffError(reason, "actor")
            _log.error(reason)
        return CommunicatorMetadata()

    def recv_multiple_tensors(
        self,
        obj_id: str,
        tensor_transport_metadata: Any,
        communicator_metadata: Any,
        target_buffers: list[Any] | None = None,
    ) -> list[Any]:
        _check_actor()
        if target_buffers:
            raise ValueError("memory arrives where its producer wrote it, not in a given buffer")
        return list(receive(tensor_transport_metadata.tickets, _TIMEOUT))

    def send_multiple_tensors(
        self, tensors: list[Any], tensor_transport_metadata: Any, communicator_metadata: Any
    ) -> None:
        raise NotImplementedError("receivers take the memory themselves")

    def garbage_collect(self, obj_id: str, tensor_transport_meta: Any, tensors: list[Any]) -> None:
        _table.drop(obj_id)

    def abort_transport(self, obj_id: str, communicator_metadata: Any) -> None:
        """Nothing to do: a receiver waits as long as Ray at most, and leaves nothing behind."""
