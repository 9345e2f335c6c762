"""QNN error codes as exceptions, and the errors of this package's own.

A QNN call returns a 64-bit handle whose low 16 bits are the code. Each component has its own range
(graph 6000-6999, mem 8000-8999, ...) and every component may also return the common codes
1000-1999, so the name of a common code depends on which component was called.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

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


class ModelError(Error, ValueError):
    """A model file or graph cannot be used; the message says what is wrong and where."""


@dataclass(frozen=True)
class UnsupportedNode:
    """One node that has no counterpart, and why."""

    name: str
    op: str
    types: str
    reason: str

    def __str__(self) -> str:
        return f"{self.op} {self.name!r} ({self.types}): {self.reason}"


class UnsupportedOpError(ModelError):
    """The model has nodes without a counterpart. `nodes` lists every one of them."""

    def __init__(self, nodes: Sequence[UnsupportedNode], source: str | None = None) -> None:
        self.nodes = tuple(nodes)
        where = f" in {source}" if source else ""
        count = "1 node is" if len(self.nodes) == 1 else f"{len(self.nodes)} nodes are"
        lines = "".join(f"\n  {node}" for node in self.nodes)
        super().__init__(f"{count} not supported{where}:{lines}")


# ---- code -> name, by component

_COMMON: Final = {
    1000: "NOT_SUPPORTED",
    1002: "MEM_ALLOC",
    1003: "SYSTEM",
    1004: "INVALID_ARGUMENT",
    1005: "OPERATION_NOT_PERMITTED",
    1006: "PLATFORM_NOT_SUPPORTED",
    1007: "SYSTEM_COMMUNICATION",
    1008: "INCOMPATIBLE_BINARIES",
    1009: "LOADING_BINARIES",
    1010: "RESOURCE_UNAVAILABLE",
    1011: "SYSTEM_COMMUNICATION_FATAL",
    1100: "GENERAL",
}
_COMPONENTS: Final[dict[str, tuple[type[QnnError], range, str, dict[int, str]]]] = {
    "property": (
        PropertyError,
        range(2000, 3000),
        "QNN_PROPERTY_",
        {1000: "NOT_SUPPORTED", 2000: "ERROR_UNKNOWN_KEY"},
    ),
    "op_package": (
        OpPackageError,
        range(3000, 4000),
        "QNN_OP_PACKAGE_ERROR_",
        {
            1000: "UNSUPPORTED_FEATURE",
            1100: "GENERAL",
            3000: "LIBRARY_ALREADY_INITIALIZED",
            3001: "LIBRARY_NOT_INITIALIZED",
            3002: "INVALID_HANDLE",
            3100: "INVALID_INFRASTRUCTURE",
            3101: "INVALID_INFO",
            3110: "VALIDATION_FAILURE",
            3200: "INVALID_ARGUMENT",
        },
    ),
    "saver": (
        BackendError,
        range(4950, 4999),
        "QNN_SAVER_ERROR_",
        {4950: "DUMMY_RETVALUE", 4951: "ALREADY_INSTANTIATED"},
    ),
    "backend": (
        BackendError,
        range(4000, 5000),
        "QNN_BACKEND_ERROR_",
        {
            1002: "MEM_ALLOC",
            1006: "UNSUPPORTED_PLATFORM",
            4000: "CANNOT_INITIALIZE",
            4002: "TERMINATE_FAILED",
            4003: "NOT_SUPPORTED",
            4004: "INVALID_ARGUMENT",
            4005: "OP_PACKAGE_NOT_FOUND",
            4006: "OP_PACKAGE_IF_PROVIDER_NOT_FOUND",
            4007: "OP_PACKAGE_REGISTRATION_FAILED",
            4008: "OP_PACKAGE_UNSUPPORTED_VERSION",
            4009: "OP_PACKAGE_DUPLICATE",
            4010: "INCONSISTENT_CONFIG",
            4011: "INVALID_HANDLE",
            4012: "INVALID_CONFIG",
        },
    ),
    "context": (
        ContextError,
        range(5000, 6000),
        "QNN_CONTEXT_ERROR_",
        {
            1000: "UNSUPPORTED_FEATURE",
            1002: "MEM_ALLOC",
            5000: "INVALID_ARGUMENT",
            5001: "CTX_DOES_NOT_EXIST",
            5002: "INVALID_HANDLE",
            5003: "NOT_FINALIZED",
            5004: "BINARY_VERSION",
            5005: "CREATE_FROM_BINARY",
            5006: "GET_BINARY_SIZE_FAILED",
            5007: "GET_BINARY_FAILED",
            5008: "BINARY_CONFIGURATION",
            5009: "SET_PROFILE",
            5010: "INVALID_CONFIG",
            5011: "BINARY_SUBOPTIMAL",
            5012: "ABORTED",
            5013: "TIMED_OUT",
            5014: "INCREMENT_INVALID_BUFFER",
        },
    ),
    "graph": (
        GraphError,
        range(6000, 7000),
        "QNN_GRAPH_ERROR_",
        {
            1000: "UNSUPPORTED_FEATURE",
            1002: "MEM_ALLOC",
            1100: "GENERAL",
            6000: "INVALID_ARGUMENT",
            6001: "INVALID_HANDLE",
            6002: "GRAPH_DOES_NOT_EXIST",
            6003: "INVALID_NAME",
            6004: "INVALID_TENSOR",
            6005: "INVALID_OP_CONFIG",
            6006: "SET_PROFILE",
            6007: "UNCONNECTED_NODE",
            6020: "CREATE_FAILED",
            6021: "OPTIMIZATION_FAILED",
            6022: "FINALIZE_FAILED",
            6023: "GRAPH_NOT_FINALIZED",
            6024: "GRAPH_FINALIZED",
            6025: "EXECUTION_ASYNC_FIFO_FULL",
            6030: "SIGNAL_IN_USE",
            6031: "ABORTED",
            6032: "PROFILE_IN_USE",
            6033: "TIMED_OUT",
            6034: "SUBGRAPH",
            6035: "DISABLED",
            6036: "DYNAMIC_TENSOR_SHAPE",
            6037: "TENSOR_SPARSITY",
            6038: "EARLY_TERMINATION",
            6039: "INVALID_CONTEXT",
        },
    ),
    "tensor": (
        TensorError,
        range(7000, 8000),
        "QNN_TENSOR_ERROR_",
        {
            1000: "UNSUPPORTED_FEATURE",
            7001: "INVALID_HANDLE",
            7002: "DOES_NOT_EXIST",
            7003: "ALREADY_EXISTS",
            7004: "INVALID_TENSOR_PARAM",
            7005: "UNSUPPORTED_TENSOR_PARAM",
            7006: "NAME_HASH_COLLISION",
            7007: "INCOMPATIBLE_TENSOR_UPDATE",
        },
    ),
    "mem": (
        MemError,
        range(8000, 9000),
        "QNN_MEM_ERROR_",
        {
            1000: "NOT_SUPPORTED",
            8000: "INVALID_ARGUMENT",
            8001: "INVALID_HANDLE",
            8002: "ALREADY_REGISTERED",
            8003: "MAPPING",
            8004: "INVALID_SHAPE",
            8005: "UNSUPPORTED_MEMTYPE",
        },
    ),
    "signal": (
        SignalError,
        range(9000, 10000),
        "QNN_SIGNAL_ERROR_",
        {
            1000: "UNSUPPORTED",
            1002: "MEM_ALLOC",
            9000: "SIGNAL_IN_USE",
            9001: "SIGNAL_IDLE",
            9002: "INVALID_ARGUMENT",
            9003: "INVALID_HANDLE",
            9004: "TIMEOUT",
            9005: "INCOMPATIBLE_SIGNAL_TYPE",
        },
    ),
    "error": (
        QnnError,
        range(10000, 11000),
        "QNN_ERROR_",
        {10000: "INVALID_ARGUMENT", 10001: "INVALID_ERROR_HANDLE"},
    ),
    "log": (
        LogError,
        range(11000, 12000),
        "QNN_LOG_ERROR_",
        {
            1002: "MEM_ALLOC",
            11002: "INITIALIZATION",
            11003: "INVALID_ARGUMENT",
            11004: "INVALID_HANDLE",
        },
    ),
    "profile": (
        ProfileError,
        range(12000, 13000),
        "QNN_PROFILE_ERROR_",
        {
            1000: "UNSUPPORTED",
            1002: "MEM_ALLOC",
            1004: "INVALID_ARGUMENT",
            12000: "INVALID_HANDLE",
            12001: "HANDLE_IN_USE",
            12002: "INCOMPATIBLE_EVENT",
        },
    ),
    "perf_infrastructure": (
        PerfInfrastructureError,
        range(13000, 14000),
        "QNN_HTP_PERF_INFRASTRUCTURE_ERROR_",
        {
            13000: "INVALID_HANDLE_PTR",
            13001: "INVALID_INPUT",
            13002: "UNSUPPORTED_CONFIG",
            13003: "TRANSPORT",
            13004: "UNSUPPORTED",
            13005: "MEM_ALLOC",
            13006: "FAILED",
        },
    ),
    "device": (
        DeviceError,
        range(14000, 15000),
        "QNN_DEVICE_ERROR_",
        {
            1000: "UNSUPPORTED_FEATURE",
            1002: "MEM_ALLOC",
            1004: "INVALID_ARGUMENT",
            14000: "INVALID_HANDLE",
            14001: "INVALID_CONFIG",
            14002: "HARDWARE_UNAVAILABLE",
            14003: "ASSOCIATED_TO_CONTEXT",
        },
    ),
    "global_config": (
        GlobalConfigError,
        range(15000, 16000),
        "QNN_GLOBAL_CONFIG_ERROR_",
        {15000: "INVALID_CONFIG"},
    ),
    "system": (
        SystemError_,
        range(30000, 50000),
        "QNN_SYSTEM_COMMON_ERROR_",
        {
            1000: "UNSUPPORTED_FEATURE",
            30000: "INVALID_HANDLE",
            30001: "INVALID_ARGUMENT",
            30002: "OPERATION_FAILED",
            30010: "MALFORMED_BINARY",
            31000: "MEM_ALLOC",
        },
    ),
}

# What usually lies behind a code, and what to do about it.
_HINTS: Final = {
    1000: "this backend does not offer the feature; ask has_capability() first",
    1002: "out of memory, on the host or on the device: close sessions or buffers you no longer "
    "need, or reuse registered buffers",
    1005: "something else still uses the object: finish or release that first",
    1007: "the accelerator restarted: make a new session and try again",
    1008: "the context binary was made for another machine's kernels: build it again on this one",
    1011: "the accelerator is gone: restart the process",
    3110: "the op does not take this combination of types, shapes or parameters",
    4000: "the backend found no device that it can drive",
    4005: "the op type or its package is unknown to this backend; see Backend.supported_ops",
    5004: "the context binary was made for another version: build it again",
    5005: "the context binary is damaged, or not one of this library at all",
    5008: "the context binary was made for another backend: build it again for this one",
    5011: "the context binary runs, but not at its best, which STRICT refuses: build it again here",
    6004: "a tensor was not made in this graph, or its memory handle is null, stale, or of another "
    "context",
    6023: "call finalize() first",
    6024: "the graph is finalized: tensors and nodes can no longer be added",
    5010: "an option of the context has a value that the backend does not take",
    6025: "wait for an execution in flight, or create the context with a larger queue depth",
    6030: "give every execution in flight a signal of its own",
    6031: "the execution was aborted through its signal",
    6033: "the execution took longer than its signal allows",
    6038: "a blocking Buffer is not full yet: execute again with the next frames; it keeps these",
    6039: "the graph's context has been freed",
    7003: "another tensor has this name: names are unique in a graph",
    8000: "the descriptor does not fit the buffer: for shared buffers `size` is the whole buffer "
    "behind the fd, not the tensor, and offset + bytes(shape, dtype) must lie inside it",
    8001: "the handle was deregistered already, or its context is gone",
    8002: "this memory is registered in the context already: keep that handle, or use "
    "get_or_register()",
    8003: "the fd cannot be mapped: it may be closed, shrunk, no shareable memory, or the device's "
    "address space may be full",
    8004: "the shape is not acceptable, for example empty or misaligned",
    8005: "use one of the memory types that has_capability() reports",
    9000: "wait for the execution that uses the signal",
    9001: "nothing runs with this signal",
    9005: "a signal is for abort or for a timeout, not both",
    30010: "the context binary is damaged, not one at all, or of another maker: describe it with "
    "that maker's libQnnSystem.so",
}

#: Every code that has a name: code -> (component, QNN name). Common codes are under "common".
CODES: Final = MappingProxyType(
    {code: ("common", f"QNN_COMMON_ERROR_{name}") for code, name in _COMMON.items()}
    | {
        code: (component, prefix + name)
        for component, (_, codes, prefix, names) in _COMPONENTS.items()
        for code, name in names.items()
        if code in codes
    }
)


_EARLY_TERMINATION = 6038


def _component_of(code: int, component: str | None) -> str | None:
    """The component a code belongs to: by range, else the one that was called."""
    for name, (_, codes, _, _) in _COMPONENTS.items():
        if code in codes:
            return name
    return component


def error_name(code: int, component: str | None = None) -> str:
    """The QNN name of a code; ``component`` is who returned it ("mem", "graph", ...)."""
    where = _component_of(code, component)
    if where in _COMPONENTS:
        _, _, prefix, names = _COMPONENTS[where]
        if code in names:
            return prefix + names[code]
    return f"QNN_COMMON_ERROR_{_COMMON[code]}" if code in _COMMON else "QNN_UNKNOWN_ERROR"


def error_class(code: int, component: str | None = None) -> type[QnnError]:
    """The exception class for a code returned by ``component``."""
    if code == _EARLY_TERMINATION:
        return EarlyTermination
    where = _component_of(code, component)
    return _COMPONENTS[where][0] if where in _COMPONENTS else QnnError


def error_hint(code: int) -> str:
    """What usually causes a code and what to do, or an empty string."""
    return _HINTS.get(code, "")


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
