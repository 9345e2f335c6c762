"""Profile logs: what calls took, written to a file and read again.

The system library writes them (``systemProfileSerializeEventData``), for ``qnnrt net-run`` and for
other QNN clients alike; docs/profile-log.md describes the file.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from ._native import _core
from .abi import constants as abi
from .errors import Error
from .qnn.profile import _EVENT_TYPES, _EVENT_UNITS, ProfileEvent
from .support.files import read_whole

__all__ = ["METHODS", "LogEvent", "Message", "ProfileLog", "ProfileLogContents", "ProfileLogError"]

#: Names of QNN's method types, by number: what a message's events were measured in.
METHODS: Final = {
    abi.QNN_SYSTEM_PROFILE_METHOD_TYPE_NONE: "none",
    abi.QNN_SYSTEM_PROFILE_METHOD_TYPE_BACKEND_EXECUTE: "execute",
    abi.QNN_SYSTEM_PROFILE_METHOD_TYPE_BACKEND_FINALIZE: "finalize",
    abi.QNN_SYSTEM_PROFILE_METHOD_TYPE_BACKEND_EXECUTE_ASYNC: "execute_async",
    abi.QNN_SYSTEM_PROFILE_METHOD_TYPE_BACKEND_CREATE_FROM_BINARY: "create_from_binary",
    abi.QNN_SYSTEM_PROFILE_METHOD_TYPE_BACKEND_DEINIT: "deinit",
    abi.QNN_SYSTEM_PROFILE_METHOD_TYPE_APP_CONTEXT_CREATE: "context_create",
    abi.QNN_SYSTEM_PROFILE_METHOD_TYPE_APP_COMPOSE_GRAPHS: "compose_graphs",
    abi.QNN_SYSTEM_PROFILE_METHOD_TYPE_APP_EXECUTE_IPS: "execute_ips",
    abi.QNN_SYSTEM_PROFILE_METHOD_TYPE_BACKEND_GRAPH_COMPONENT: "graph_component",
    abi.QNN_SYSTEM_PROFILE_METHOD_TYPE_APP_BACKEND_LIB_LOAD: "backend_lib_load",
    abi.QNN_SYSTEM_PROFILE_METHOD_TYPE_BACKEND_APPLY_BINARY_SECTION: "apply_binary_section",
    abi.QNN_SYSTEM_PROFILE_METHOD_TYPE_CONTEXT_FINALIZE: "context_finalize",
    abi.QNN_SYSTEM_PROFILE_METHOD_TYPE_CONTEXT_GET_BINARY_SIZE: "get_binary_size",
    abi.QNN_SYSTEM_PROFILE_METHOD_TYPE_CONTEXT_GET_BINARY: "get_binary",
    abi.QNN_SYSTEM_PROFILE_METHOD_TYPE_CONTEXT_GET_BINARY_SECTION_SIZE: "get_binary_section_size",
    abi.QNN_SYSTEM_PROFILE_METHOD_TYPE_BACKEND_FINALIZE_TENSOR_UPDATES: "finalize_tensor_updates",
    abi.QNN_SYSTEM_PROFILE_METHOD_TYPE_BACKEND_UPDATE_BINARY_SECTION: "update_binary_section",
}
_METHOD_NUMBERS: Final = {name: number for number, name in METHODS.items()}
_UNIT_NUMBERS: Final = {name: number for number, name in _EVENT_UNITS.items()}
_FORMAT: Final = "qnnrt-profile-log"
_MOST_BYTES: Final = 1 << 30
#: What reading a damaged record raises.
_DAMAGED: Final = (
    ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip


class ProfileLogError(Error):
    """A file is no profile log of qnnrt's, of a later version, or damaged."""


class ProfileLog:
    """Writes a profile log; close it, or use it in a ``with`` statement, to mark it complete.

    Args:
        path: the file; its folder is made, if need be.
        app_name, app_version, backend_version: kept at the start of the log.
        max_messages: further messages are counted but not kept.
        append: go on behind what a log of this name holds, rather than replace it.
        system_library: a vendor's libQnnSystem.so, to write the vendor's format instead.

    Raises:
        SystemError_: the file cannot be written, or is there and no log of qnnrt's.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        app_name: str = "qnnrt",
        app_version: str = "",
        backend_version: str = "",
        *,
        max_messages: int | None = None,
        append: bool = False,
        system_library: str | os.PathLike[str] | None = None,
    ) -> None:
        self._library = _core.SystemLibrary.open(system_library)
        if not append and _is_log(path):
            os.unlink(path)
        self._target: int | None = self._library.profile_create_target(
            path, app_name, app_version, backend_version, max_messages
        )

    def add(
        self,
        method: str | int,
        graph_name: str | None,
        start_us: int,
        stop_us: int,
        events: Sequence[ProfileEvent] = (),
        *,
        start_mem: int = 0,
        stop_mem: int = 0,
    ) -> None:
        """Write what one call took.

        Args:
            method: a name or number of ``METHODS``: "execute", "finalize", "compose_graphs", ...
            graph_name: whose call it was; None for calls of no graph.
            start_us, stop_us: when it ran, in microseconds of a monotonic clock.
            events: of ``Profile.events()``, or none.
            start_mem, stop_mem: the process's memory before and after, in bytes; 0 when unknown.
        """
        if self._target is None:
            raise ProfileLogError("the profile log is closed")
        if isinstance(method, str):
            if method not in _METHOD_NUMBERS:
                names = ", ".join(_METHOD_NUMBERS)
                raise ValueError(f"unknown method {method!r}: expected one of {names}")
            method = _METHOD_NUMBERS[method]
        raw = [_raw(event) for event in events]
        self._library.profile_serialize(
            self._target, method, graph_name, start_us, stop_us, raw, start_mem, stop_mem
        )

    def close(self) -> None:
        """End the log. Closing twice does nothing."""
        if self._target is not None:
            target, self._target = self._target, None
            self._library.profile_free_target(target)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_target", None) is not None:
            self.close()


def _raw(event: ProfileEvent) -> tuple[int, int, int, str, list[Any], int | None]:
    unit = _UNIT_NUMBERS.get(event.unit)
    if unit is None:  # "backend unit 1003"
        unit = int(event.unit.rpartition(" ")[2])
    parts = [_raw(e) for e in event.events]
    return (event.type, unit, event.value, event.identifier, parts, event.timestamp)


@dataclass(frozen=True)
class LogEvent:
    """One measurement of a log.

    Attributes:
        type: QNN's event type number; ``kind`` is its name.
        unit: QNN's unit number; ``unit_name`` is its name.
        value: in that unit; bytes for an object of the backend's own.
        identifier: the node or phase it belongs to.
        timestamp: microseconds, when the writer knew; else None.
        file: the name that an object wants to be stored under; else "".
        events: its parts.
    """

    type: int
    unit: int
    value: int | float | str | bytes
    identifier: str
    timestamp: int | None = None
    file: str = ""
    events: tuple[LogEvent, ...] = ()

    @property
    def kind(self) -> str:
        """ "execute", "node", "preprocess", ... or "backend <number>"."""
        return _EVENT_TYPES.get(self.type, f"backend {self.type}")

    @property
    def unit_name(self) -> str:
        """ "microseconds", "bytes", ... or "backend unit <number>"."""
        return _EVENT_UNITS.get(self.unit, f"backend unit {self.unit}")

    def walk(self, depth: int = 0) -> Iterator[tuple[int, LogEvent]]:
        """(depth, event) for this one and all its parts."""
        yield depth, self
        for event in self.events:
            yield from event.walk(depth + 1)


@dataclass(frozen=True)
class Message:
    """What one call took: times in microseconds of a monotonic clock, memory in bytes."""

    method: int
    graph: str | None
    start_us: int
    stop_us: int
    start_mem: int
    stop_mem: int
    private: bool
    events: tuple[LogEvent, ...]

    @property
    def method_name(self) -> str:
        """Its name in ``METHODS``, or "method <number>"."""
        return METHODS.get(self.method, f"method {self.method}")

    @property
    def duration_us(self) -> int:
        """0 when the writer's clock went backwards or it gave no times."""
        return max(0, self.stop_us - self.start_us)


@dataclass(frozen=True)
class ProfileLogContents:
    """A log as read: what all that wrote to it, one after the other, have written.

    ``complete``: each of them closed it, so only ``dropped`` messages are missing.
    """

    app: str
    app_version: str
    backend_version: str
    writer: str
    messages: tuple[Message, ...]
    complete: bool
    dropped: int

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> ProfileLogContents:
        """Read a log, of one that was cut short as much as there is.

        Raises:
            ProfileLogError: it is no log of qnnrt's, of a later version, or damaged in the middle.
            OSError: it cannot be read.
        """
        data = read_whole(path, _MOST_BYTES)
        name = os.fspath(path)
        *lines, rest = data.split(b"\n")
        head = _header(lines[0] if lines else rest, name)
        messages: list[Message] = []
        complete, dropped, ended = True, 0, False
        for number, line in enumerate(lines[1:], 2):
            try:
                record = json.loads(line.decode("utf-8", "replace"))
                if "format" in record:  # another program, or the same again, went on here
                    complete, ended = complete and ended, False
                    _header(line, name)
                elif ended:
                    raise ValueError("it stands after the end of the log")
                elif "end" in record:
                    dropped, ended = dropped + _whole(record["dropped"]), True
                else:
                    messages.append(_message(record))
            except _DAMAGED as error:
                raise ProfileLogError(
                    f"{name}: line {number} is damaged: {type(error).__name__}: {str(error)[:200]}"
                ) from None
        return cls(
            head["app"],
            head["app_version"],
            head["backend_version"],
            head["writer"],
            tuple(messages),
            complete and ended and not rest,
            dropped,
        )


def _is_log(path: str | os.PathLike[str]) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(64).startswith(b'{"format":"qnnrt-profile-log",')
    except OSError:
        return False


def _header(line: bytes, name: str) -> dict[str, str]:
    try:
        record = json.loads(line) if line.startswith(b"{") else None
    except _DAMAGED:
        record = None
    if not isinstance(record, dict) or record.get("format") != _FORMAT:
        raise ProfileLogError(
            f"{name} is no profile log of qnnrt's; if the vendor's libraries wrote it, their "
            "qnn-profile-viewer reads it"
        )
    if record.get("version") != 1:
        raise ProfileLogError(
            f"{name} is a profile log of version {repr(record.get('version'))[:40]}; this qnnrt "
            "reads version 1: use the one that wrote it, or a later one"
        )
    keys = ("app", "app_version", "backend_version", "writer")
    return {key: _text(record.get(key, "")) for key in keys}


def _whole(value: Any) -> int:
    """A number of the log: of 64 bits, as the library that writes it has them."""
    number = int(value)
    if not -(1 << 63) <= number < 1 << 64:
        raise ValueError("a number of more than 64 bits")
    return number


def _text(value: Any) -> str:
    """A text of the log. JSON may hold halves of characters, which no file can be given."""
    return str(value).encode("utf-8", "replace").decode("utf-8")


def _message(record: dict[str, Any]) -> Message:
    graph = record.get("graph")
    return Message(
        _whole(record["method"]),
        None if graph is None else _text(graph),
        _whole(record["start"]),
        _whole(record["stop"]),
        _whole(record["start_mem"]),
        _whole(record["stop_mem"]),
        bool(record["private"]),
        tuple(_event(e) for e in record["events"]),
    )


def _event(record: dict[str, Any]) -> LogEvent:
    value: int | float | str | bytes
    file = ""
    if "object" in record:
        value = base64.b64decode(record["object"]["base64"], validate=True)
        file = _text(record["object"]["file"])
    else:
        value = record["value"]
        if isinstance(value, str):
            value = _text(value)
        elif isinstance(value, int):
            value = _whole(value)
        elif not isinstance(value, float):
            raise TypeError(f"an event's value is {type(value).__name__}")
    timestamp = record.get("timestamp")
    return LogEvent(
        _whole(record["type"]),
        _whole(record["unit"]),
        value,
        _text(record["id"]),
        None if timestamp is None else _whole(timestamp),
        file,
        tuple(_event(e) for e in record.get("events", ())),
    )
