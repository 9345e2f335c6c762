"""What a session did: counters that say how much was copied, where and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from ..abi import constants as abi

__all__ = ["Copy", "Stats"]

RESERVED_AT: Final = {
    abi.QNNRT_RESERVED_NONE: None,
    abi.QNNRT_RESERVED_AT_FINALIZE: "finalize",
    abi.QNNRT_RESERVED_AT_EXECUTE: "execute",
}


class Copy(NamedTuple):
    """Bytes copied for one tensor and one reason, in all.

    Attributes:
        tensor: its name.
        direction: "in" or "out".
        nbytes: the total.
        reason: why its memory was not used as it is.
    """

    tensor: str
    direction: str
    nbytes: int
    reason: str


@dataclass(frozen=True)
class Stats:
    """What a session did since it was made, or since ``reset_stats``.

    Attributes:
        executes: successful executions.
        copied_bytes: bytes copied that shared memory would have saved, in all.
        copies: where they went: a ``Copy`` for each tensor, direction and reason.
        reserved_bytes: staging memory of the runtime's own, in all: the sizes of the
            tensors staged.
        reserved_at: when it was reserved: "finalize" (some of it at least), "execute" (all of it in
            the first execution that needed it) or None.
        registrations: memory handles made.
        execute_seconds: time spent in the backend's execute call.
        fallback: why tensors are bound as RAW memory although memory handles were asked for.
        reserved_at_finalize: the part of ``reserved_bytes`` that finalize reserved, for tensors
            prepared raw.
        reserved_at_execute: the part that executions reserved, for tensors prepared for memory
            handles and then given RAW memory.
    """

    executes: int
    copied_bytes: int
    copies: tuple[Copy, ...]
    reserved_bytes: int
    reserved_at: str | None
    registrations: int
    execute_seconds: float
    fallback: str | None = None
    reserved_at_finalize: int = 0
    reserved_at_execute: int = 0
