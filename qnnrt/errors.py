"""QNN error codes as exceptions, and the errors of this package's own.

A QNN call returns a 64-bit handle whose low 16 bits are the code. Each component has its own range
(graph 6000-6999, mem 8000-8999, ...) and every component may also return the common codes
1000-1999, so the name of a common code depends on which component was called.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from .abi.constants import QNN_GRAPH_ERROR_EARLY_TERMINATION
from .abi.error_codes import COMMON, COMPONENTS, HINTS

__all__ = [
    "CODES",
    "BackendError",
    "BackendNotFoundError",
    "BindError",
    "BufferInUseError",
    "ClosedError",
    "ContextError",
    "CopyError",
    "DeviceError",
    "EarlyTermination",
    "Error",
    "ForkError",
    "GlobalConfigError",
    "GraphError",
    "HandoffError",
    "LogError",
    "MemError",
    "ModelError",
    "OpPackageError",
    "PerfInfrastructureError",
    "ProfileError",
    "PropertyError",
    "QnnError",
    "SignalError",
    "SystemError_",
    "TensorError",
    "UnsupportedNode",
    "UnsupportedOpError",
    "error_class",
    "error_hint",
    "error_name",
    "make_error",
]


class Error(Exception):
    """Base of every error that this package raises on its own account."""


class QnnError(Error):
    """A QNN call returned an error code.

    Attributes:
        code: the low 16 bits of the error handle, or 0 when the error is this package's own.
        name: the code's QNN name, for example ``QNN_MEM_ERROR_INVALID_ARGUMENT``.
        message: what failed, what the backend said about it, and what to do.
    """

    def __init__(self, code: int, name: str, message: str) -> None:
        super().__init__(code, name, message)
        self.code = code
        self.name = name
        self.message = message

    def __str__(self) -> str:
        return self.message


class PropertyError(QnnError):
    """Codes 2000-2999, and common codes from a property query."""


class OpPackageError(QnnError):
    """Codes 3000-3999: op packages and operation validation."""


class BackendError(QnnError):
    """Codes 4000-4999."""


class ContextError(QnnError):
    """Codes 5000-5999."""


class GraphError(QnnError):
    """Codes 6000-6999."""


class EarlyTermination(GraphError):
    """Code 6038: the execution ended before its outputs were written, as its graph says.

    A blocking Buffer is not full yet. What it took is kept: execute again with the next frames.
    """


class TensorError(QnnError):
    """Codes 7000-7999."""


class MemError(QnnError):
    """Codes 8000-8999: registering and deregistering memory."""


class SignalError(QnnError):
    """Codes 9000-9999."""


class LogError(QnnError):
    """Codes 11000-11999."""


class ProfileError(QnnError):
    """Codes 12000-12999."""


class PerfInfrastructureError(QnnError):
    """Codes 13000-13999: HTP power and performance settings."""


class DeviceError(QnnError):
    """Codes 14000-14999."""


class GlobalConfigError(QnnError):
    """Codes 15000-15999."""


class SystemError_(QnnError):
    """Codes 30000-49999: the system library (context binaries, DLC)."""


class BackendNotFoundError(Error, OSError):
    """A backend library is missing, cannot be loaded, or speaks another interface version."""


class CopyError(Error):
    """``strict``: bytes would have been copied that the caller could have shared.

    Attributes:
        tensor: the tensor's name, or None when no single tensor is to blame.
        reason: why its memory could not be used as it is.
    """

    def __init__(self, tensor: str | None, reason: str) -> None:
        super().__init__(tensor, reason)
        self.tensor = tensor
        self.reason = reason

    def __str__(self) -> str:
        return f"tensor {self.tensor!r}: {self.reason}" if self.tensor else self.reason


class BindError(Error, ValueError):
    """Memory cannot stand for a tensor as it is: the message gives what is needed and what came.

    Attributes:
        tensor: the tensor's name.
        reason: what does not fit.
    """

    def __init__(self, tensor: str, reason: str) -> None:
        super().__init__(tensor, reason)
        self.tensor = tensor
        self.reason = reason

    def __str__(self) -> str:
        return f"tensor {self.tensor!r}: {self.reason}"


class BufferInUseError(Error, BufferError):
    """A buffer cannot be closed while someone holds it; the message says who.

    Attributes:
        holders: one phrase for each kind of holder.
    """

    def __init__(self, message: str, holders: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.holders = tuple(holders)


class ClosedError(Error, ValueError):
    """The object, or something that it stands on, has been closed."""


class ForkError(Error):
    """A QNN object of the parent process was used in a forked child.

    Backends hold threads, fds and device sessions that do not survive a fork. Open a new session in
    the child, or start children with the ``spawn`` or ``forkserver`` method.
    """


class HandoffError(Error):
    """Memory could not be taken over from another process; the message says why.

    Attributes:
        reason: "sender" (it has ended, or cannot be reached from here; of a channel: its producer),
            "lease" (it has ended, or the Buffer went), "token" (forged), "user" (another one's
            process), "message" (damaged or cut short), "files" (no file descriptor is free, here or
            there), "memory" (what came is not what was promised: kind, size or seals), "timeout"
            (no answer), "taken" (a channel's producer, or all its seats for consumers), and in
            Ray "actor" (one that cannot use a tensor transport) or "namespace" (of a container).
    """

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message, reason)
        self.reason = reason

    def __str__(self) -> str:
        return str(self.args[0])


class ModelError(Error, ValueError):
    """A model file or graph cannot be used; the message says what is wrong and where."""


@dataclass(frozen=True)
class UnsupportedNode:
    """One node that has no counterpart, and why.

    Attributes:
        name, op, types: the node, and the element types of its inputs.
        reason: why it has none.
        shared: the reason without what is this node's alone; nodes that have it in common are one
            line of the error. The reason itself unless given.
    """

    name: str
    op: str
    types: str
    reason: str
    shared: str = ""

    @property
    def label(self) -> str:
        """The node without the reason."""
        return f"{self.op} {self.name!r} ({self.types})"

    def __str__(self) -> str:
        return f"{self.label}: {self.reason}"


class UnsupportedOpError(ModelError):
    """The model has nodes without a counterpart.

    The message has a line for each reason, with how many nodes there are and the first five. A node
    whose inputs come from one that is not supported, and that cannot be judged for this, is not
    counted.

    Attributes:
        nodes: every one of them, as ``UnsupportedNode``.
    """

    _NODES: Final = 5  # of a reason
    _REASONS: Final = 20

    def __init__(self, nodes: Sequence[UnsupportedNode], source: str | None = None) -> None:
        self.nodes = tuple(nodes)
        where = f" in {source}" if source else ""
        count = "1 node is" if len(self.nodes) == 1 else f"{len(self.nodes)} nodes are"
        groups: dict[str, list[UnsupportedNode]] = {}
        for node in self.nodes:
            groups.setdefault(node.shared or node.reason, []).append(node)
        lines = [self._line(reason, group) for reason, group in groups.items()]
        if (more := len(lines) - self._REASONS) > 0:
            lines[self._REASONS :] = [f"and {more} more reasons"]
        if any(len(group) > self._NODES for group in groups.values()) or more > 0:
            lines.append("(the error's attribute 'nodes' has all of them)")
        super().__init__(f"{count} not supported{where}:" + "".join(f"\n  {x}" for x in lines))

    def _line(self, reason: str, group: Sequence[UnsupportedNode]) -> str:
        if len(group) == 1:
            return str(group[0])
        labels = ", ".join(node.label for node in group[: self._NODES])
        if (more := len(group) - self._NODES) > 0:
            labels += f" and {more} more"
        return f"{len(group)} nodes, {labels}: {reason}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _unsupported, (type(self), self.nodes, str(self))


def _unsupported(
    cls: type[UnsupportedOpError], nodes: Sequence[UnsupportedNode], text: str
) -> UnsupportedOpError:
    error = cls(nodes)
    error.args = (text,)
    return error


# ---- codes and their names

_CLASSES: Final[dict[str, type[QnnError]]] = {
    "property": PropertyError,
    "op_package": OpPackageError,
    "saver": BackendError,
    "backend": BackendError,
    "context": ContextError,
    "graph": GraphError,
    "tensor": TensorError,
    "mem": MemError,
    "signal": SignalError,
    "log": LogError,
    "profile": ProfileError,
    "perf_infrastructure": PerfInfrastructureError,
    "device": DeviceError,
    "global_config": GlobalConfigError,
    "system": SystemError_,
}

#: Every code that has a name: code -> (component, QNN name). Common codes are under "common".
CODES: Final = MappingProxyType(
    {code: ("common", name) for code, name in COMMON.items()}
    | {
        code: (component, name)
        for component, (first, last, names) in COMPONENTS.items()
        for code, name in names.items()
        if first <= code <= last
    }
)


def _component_of(code: int, component: str | None) -> str | None:
    """The component a code belongs to: by range, else the one that was called."""
    for name, (first, last, _) in COMPONENTS.items():
        if first <= code <= last:
            return name
    return component


def error_name(code: int, component: str | None = None) -> str:
    """The QNN name of a code; ``component`` is who returned it ("mem", "graph", ...)."""
    where = _component_of(code, component)
    names = COMPONENTS[where][2] if where in COMPONENTS else COMMON
    return names.get(code) or COMMON.get(code, "QNN_UNKNOWN_ERROR")


def error_class(code: int, component: str | None = None) -> type[QnnError]:
    """The exception class for a code returned by ``component``."""
    if code == QNN_GRAPH_ERROR_EARLY_TERMINATION:
        return EarlyTermination
    return _CLASSES.get(_component_of(code, component) or "", QnnError)


def error_hint(code: int) -> str:
    """What usually causes a code and what to do, or an empty string."""
    return HINTS.get(code, "")


def make_error(
    code: int, component: str | None, call: str, detail: str = "", said: str = ""
) -> QnnError:
    """The exception for ``call`` (a QNN function) having returned ``code``.

    ``detail`` is what was asked of it; ``said`` is the backend's own message.
    """
    code &= 0xFFFF
    name = error_name(code, component)
    text = f"{call}{f' ({detail})' if detail else ''}: {name} ({code}, 0x{code:x})"
    if said:
        text += f": {said.rstrip('. ')}"
    # A backend that explains itself needs no guess of ours beside it.
    if (hint := error_hint(code)) and len(said) < 60:
        text += f". Hint: {hint}"
    return error_class(code, component)(code, name, text)
