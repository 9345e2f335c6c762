"""Profile handles and signals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from .._native import _core
from ..abi import constants as abi
from ..support import choice
from .backend_base import BackendBase
from .owner import Options, Owner, config

__all__ = ["Profile", "ProfileEvent", "Signal"]

_PROFILE_LEVELS: Final = {
    "basic": abi.QNN_PROFILE_LEVEL_BASIC,
    "detailed": abi.QNN_PROFILE_LEVEL_DETAILED,
    "backend": abi.QNN_PROFILE_LEVEL_BACKEND,
    "linting": 7001,  # of the HTP backend
}
_EVENT_TYPES: Final = {
    abi.QNN_PROFILE_EVENTTYPE_INIT: "init",
    abi.QNN_PROFILE_EVENTTYPE_FINALIZE: "finalize",
    abi.QNN_PROFILE_EVENTTYPE_EXECUTE: "execute",
    abi.QNN_PROFILE_EVENTTYPE_NODE: "node",
    abi.QNN_PROFILE_EVENTTYPE_EXECUTE_QUEUE_WAIT: "queue_wait",
    abi.QNN_PROFILE_EVENTTYPE_EXECUTE_PREPROCESS: "preprocess",
    abi.QNN_PROFILE_EVENTTYPE_EXECUTE_DEVICE: "device",
    abi.QNN_PROFILE_EVENTTYPE_EXECUTE_POSTPROCESS: "postprocess",
    abi.QNN_PROFILE_EVENTTYPE_DEINIT: "deinit",
    abi.QNN_PROFILE_EVENTTYPE_TRACE: "trace",
}
_EVENT_UNITS: Final = {
    abi.QNN_PROFILE_EVENTUNIT_MICROSEC: "microseconds",
    abi.QNN_PROFILE_EVENTUNIT_BYTES: "bytes",
    abi.QNN_PROFILE_EVENTUNIT_CYCLES: "cycles",
    abi.QNN_PROFILE_EVENTUNIT_COUNT: "count",
    abi.QNN_PROFILE_EVENTUNIT_OBJECT: "object",
    abi.QNN_PROFILE_EVENTUNIT_NONE: "none",
}


class _Used(Owner):
    """What a call can use: it cannot be closed meanwhile."""

    def close(self) -> None:
        """Close it. Closing twice is harmless.

        Raises:
            QnnError: an execution in flight uses it; it stays open.
        """
        if not self._held.alive or self._generation != _core.fork_generation():
            return
        self._held.close_or_raise()


class Profile(_Used):
    """A profile handle: pass it to ``finalize`` or ``execute``, then read ``events()``."""

    _rank = 6

    def __init__(self, backend: BackendBase, level: str | int = "basic") -> None:
        self._library = backend.library
        number = choice("level", level, _PROFILE_LEVELS)
        library = self._library
        held = _core.Held(library.profile_free, library.profile_create, backend.handle, number)
        self._own("a profile", held, backend)

    def set_config(self, *, max_events: int | None = None, optrace: bool | None = None) -> None:
        """How many events to keep, and whether to trace single operations."""
        options: Options = []
        if max_events is not None:
            options.append((1, max_events))
        if optrace is not None:
            options.append((2, int(optrace)))
        self._library.profile_set_config(self.handle, config(options))

    def events(self) -> list[ProfileEvent]:
        """What the last call with this handle took, in the backend's own order."""
        return [ProfileEvent._make(e) for e in self._library.profile_get_events(self.handle)]


@dataclass(frozen=True)
class ProfileEvent:
    """One measurement.

    Attributes:
        type: QNN's event type number; ``kind`` is its name.
        unit: "microseconds", "bytes", "cycles", "count", "object" or "none".
        value: in that unit.
        identifier: the node or phase it belongs to.
        events: its parts.
        timestamp: when it began, in microseconds of the backend's monotonic clock; None where the
            backend has no such.
    """

    type: int
    unit: str
    value: int
    identifier: str
    events: tuple[ProfileEvent, ...] = ()
    timestamp: int | None = None

    @classmethod
    def _make(cls, raw: tuple[int, int, int, str, list[Any], int | None]) -> ProfileEvent:
        type_, unit, value, identifier, parts, when = raw
        name = _EVENT_UNITS.get(unit, f"backend unit {unit}")
        return cls(type_, name, value, identifier, tuple(cls._make(p) for p in parts), when)

    @property
    def kind(self) -> str:
        """ "init", "finalize", "execute", "node", ... or "backend <number>"."""
        return _EVENT_TYPES.get(self.type, f"backend {self.type}")

    def walk(self) -> Iterator[tuple[int, ProfileEvent]]:
        """(depth, event) for this one and all its parts."""
        stack: list[tuple[int, ProfileEvent]] = [(0, self)]
        while stack:
            depth, event = stack.pop()
            yield depth, event
            stack.extend((depth + 1, e) for e in reversed(event.events))


class Signal(_Used):
    """A signal: abort or time out an execution, where the backend supports it."""

    _rank = 6

    def __init__(
        self, backend: BackendBase, *, abort: bool = False, timeout_us: int | None = None
    ) -> None:
        if abort and timeout_us is not None:
            raise ValueError("a signal is for abort or for a timeout, not both")
        options: Options = [(1, 0)] if abort else []
        if timeout_us is not None:
            options.append((2, timeout_us))
        self._library = backend.library
        free, create = self._library.signal_free, self._library.signal_create
        self._own("a signal", _core.Held(free, create, backend.handle, config(options)), backend)

    def trigger(self) -> None:
        """Abort what runs with it."""
        self._library.signal_trigger(self.handle)
