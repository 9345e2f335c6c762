"""What a session did: counters that say how much was copied, where and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .._native import _core
from ..abi import constants as abi
from ..qnn.copies import Copy

__all__ = ["Copy", "Stats"]

RESERVED_AT: Final = {
    abi.QNNRT_RESERVED_NONE: None,
    abi.QNNRT_RESERVED_AT_FINALIZE: "finalize",
    abi.QNNRT_RESERVED_AT_EXECUTE: "execute",
}


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
        private_weight_bytes: constants and packed weights that this session's graph alone has.
        shared_weight_bytes: those that graphs of other sessions or contexts have with it, at the
            moment.
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
    private_weight_bytes: int = 0
    shared_weight_bytes: int = 0


def added(a: Stats, b: Stats) -> Stats:
    """The counters of both."""
    copies: dict[tuple[str, str, str], int] = {}
    for c in (*a.copies, *b.copies):
        key = (c.tensor, c.direction, c.reason)
        copies[key] = copies.get(key, 0) + c.nbytes
    return Stats(
        executes=a.executes + b.executes,
        copied_bytes=a.copied_bytes + b.copied_bytes,
        copies=tuple(Copy(t, d, n, r) for (t, d, r), n in copies.items()),
        reserved_bytes=a.reserved_bytes + b.reserved_bytes,
        reserved_at=max(a.reserved_at or "", b.reserved_at or "") or None,  # "finalize" is later
        registrations=a.registrations + b.registrations,
        execute_seconds=a.execute_seconds + b.execute_seconds,
        fallback=a.fallback or b.fallback,
        reserved_at_finalize=a.reserved_at_finalize + b.reserved_at_finalize,
        reserved_at_execute=a.reserved_at_execute + b.reserved_at_execute,
        private_weight_bytes=a.private_weight_bytes + b.private_weight_bytes,
        # Graphs of one model share most of it with each other.
        shared_weight_bytes=max(a.shared_weight_bytes, b.shared_weight_bytes),
    )


class Counters:
    """What a session counts itself; the runner and the backend count the rest."""

    def __init__(self) -> None:
        self.copies: dict[tuple[str, str, str], int] = {}
        self.registered = _core.Tally()
        self.fallback: str | None = None  # why tensors are RAW although handles were asked for

    def copied(self, tensor: str, direction: str, nbytes: int, reason: str) -> None:
        """Count a copy of the session's own."""
        key = (tensor, direction, reason)
        self.copies[key] = self.copies.get(key, 0) + nbytes

    def reset(self) -> None:
        """Start counting anew."""
        self.copies.clear()
        self.registered.n = 0

    def stats(self, runner: _core.Runner, library: _core.Library, graph: int | None) -> Stats:
        """All counters; ``graph`` is its handle, None when it is closed."""
        executes, nanoseconds = runner.counters()
        copies = dict(self.copies)
        raw: dict[str, int] = {}
        weights: tuple[int, int] | None = None
        if graph is not None:
            raw = library.graph_stats(graph) or {}
            weights = library.graph_weights(graph)
            for tensor, direction, nbytes, reason in library.graph_copies(graph):
                key = (tensor, direction, reason)
                copies[key] = copies.get(key, 0) + nbytes
        shared, private = weights or (0, 0)
        return Stats(
            executes=executes,
            copied_bytes=sum(copies.values()),
            copies=tuple(Copy(t, d, n, r) for (t, d, r), n in copies.items()),
            reserved_bytes=raw.get("reserved_bytes", 0),
            reserved_at=RESERVED_AT.get(raw.get("reserved_at", 0)),
            registrations=self.registered.n,
            execute_seconds=nanoseconds / 1e9,
            fallback=self.fallback,
            reserved_at_finalize=raw.get("reserved_at_finalize_bytes", 0),
            reserved_at_execute=raw.get("reserved_at_execute_bytes", 0),
            private_weight_bytes=private,
            shared_weight_bytes=shared,
        )
