"""The QNN objects as Python objects: Backend, Context, Graph, MemHandle, Profile.

Same words, order and error codes as the C API. Each object owns one handle, keeps what it stands on
alive, and is closed before that: memory handles, then graphs, then the context, the device, the
backend and its log. Using one after it, or its parent, is closed raises ``ClosedError``; using one
in a forked child raises ``ForkError``, and the parent's stay as they are.
"""

from __future__ import annotations

import contextlib
import logging
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

import numpy as np

from . import _core
from .dtypes import data_type, data_type_name, numpy_dtype
from .errors import BackendNotFoundError, ClosedError, ForkError, QnnError

__all__ = [
    "CAPABILITIES",
    "Backend",
    "BackendVersion",
    "Context",
    "Graph",
    "MemHandle",
    "Profile",
    "ProfileEvent",
    "Signal",
]

Tensor: TypeAlias = _core.Tensor
Buffer: TypeAlias = _core.Buffer

_log = logging.getLogger("qnnrt")
_log.addHandler(logging.NullHandler())  # a library is silent until the program sets logging up

#: Property keys for ``Backend.has_capability`` by name.
CAPABILITIES: Final = {
    "op_package": 105,
    "context_caching": 202,
    "validate_binary": 210,
    "graph_config": 302,
    "signals": 303,
    "async_execution": 304,
    "subgraph": 314,
    "bind_mem_handles": 317,
    "finalize_deserialized_graph": 319,
    "online_prepare": 322,
    "tensor_mem_handle": 502,
    "context_tensors": 503,
    "dynamic_dimensions": 504,
    "verbose_message": 1001,
    "mem_type_ion": 1102,
    "mem_type_custom": 1103,
    "mem_type_dma_buf": 1104,
    "device": 1500,
    "device_infrastructure": 1501,
}

_PRIORITIES: Final = {"low": 0, "normal": 100, "default": 100, "normal_high": 150, "high": 200}
_TENSOR_TYPES: Final = {
    "app_write": 0,
    "app_read": 1,
    "app_readwrite": 2,
    "native": 3,
    "static": 4,
    "null": 5,
}
_MEM_TYPES: Final = {"raw": 0, "memhandle": 1}
_PROFILE_LEVELS: Final = {"basic": 1, "detailed": 2, "backend": 1000, "linting": 7001}
_EVENT_TYPES: Final = {
    100: "init",
    300: "finalize",
    400: "execute",
    404: "node",
    405: "queue_wait",
    406: "preprocess",
    407: "device",
    408: "postprocess",
    500: "deinit",
    600: "trace",
}
_EVENT_UNITS: Final = {
    1: "microseconds",
    2: "bytes",
    3: "cycles",
    4: "count",
    5: "object",
    6: "none",
}
# kind -> (Qnn_MemType_t, QnnHtpMem_Type_t)
_MEM_KINDS: Final = {"ion": (1, 0), "shared_buffer": (2, 1), "dma_buf": (3, 0)}

_LIBRARIES: Final = {"cpu": "libQnnCpu.so", "htp": "libQnnHtp.so", "lpai": "libQnnLpai.so"}

_Options: TypeAlias = list[tuple[int, Any]]


class BackendVersion(NamedTuple):
    """Versions of the core interface that a backend speaks, and of its own extensions."""

    core: tuple[int, int, int]
    backend: tuple[int, int, int]

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.core))} ({'.'.join(map(str, self.backend))})"


def _config(options: _Options) -> _core.Config | None:
    return _core.Config(options) if options else None


def _choice(what: str, value: str | int, choices: Mapping[str, int]) -> int:
    if isinstance(value, int):
        return value
    if value not in choices:
        raise ValueError(f"{what} must be one of {', '.join(choices)}, not {value!r}")
    return choices[value]


# ---- owners


def _release(
    free: Callable[[int], None], handle: int, generation: int, what: str, keep: object
) -> None:
    """Gives a handle back; `keep` holds the parents until then."""
    if generation != _core.fork_generation():
        return  # the parent's: not this child's to free
    try:
        free(handle)
    except QnnError as e:
        _log.warning("closing %s: %s", what, e)


class _Owner:
    """Owns one handle. Children are closed first, whoever starts."""

    # Children with a lower rank go first: memory handles, then graphs.
    _rank: ClassVar[int] = 5

    def _own(
        self,
        what: str,
        handle: int,
        free: Callable[[int], None],
        *parents: _Owner,
        keep: Any = None,
    ) -> None:
        self._what = what
        self._raw = handle
        self._generation = _core.fork_generation()
        self._dependents: weakref.WeakSet[Any] = weakref.WeakSet()
        self._finalizer = weakref.finalize(
            self, _release, free, handle, self._generation, what, (parents, keep)
        )
        for parent in parents:
            parent._dependents.add(self)

    @property
    def handle(self) -> int:
        """The C handle as an integer.

        Raises:
            ClosedError: it has been closed.
            ForkError: it belongs to the parent of this forked process.
        """
        if self._generation != _core.fork_generation():
            raise ForkError(
                f"{self._what} belongs to the parent of this forked process (this is process "
                f"{os.getpid()}): backends do not survive a fork. Open it again here, or start "
                "children with the 'spawn' or 'forkserver' method"
            )
        if not self._finalizer.alive:
            raise ClosedError(f"{self._what} is closed")
        return self._raw

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return not self._finalizer.alive

    def close(self) -> None:
        """Close what stands on it, then itself. Closing twice is harmless."""
        if not self._finalizer.alive or self._generation != _core.fork_generation():
            return
        for child in sorted(self._dependents, key=lambda c: int(c._rank)):
            child.close()
        self._finalizer()

    def __enter__(self) -> Any:
        self.handle  # noqa: B018 - raises when closed
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<qnnrt {self._what}{', closed' if self.closed else ''}>"


class _Log(_Owner):
    _rank = 9

    def __init__(self, library: _core.Library, level: int) -> None:
        self._own("a log", library.log_create(level), library.log_free)


class _Device(_Owner):
    _rank = 8

    def __init__(self, backend: Backend, options: _Options) -> None:
        library = backend.library
        handle = library.device_create(backend._log_handle, _config(options))
        self._own("a device", handle, library.device_free, backend)


class Profile(_Owner):
    """A profile handle: pass it to ``finalize`` or ``execute``, then read ``events()``."""

    _rank = 6

    def __init__(self, backend: Backend, level: str | int = "basic") -> None:
        self._library = backend.library
        number = _choice("level", level, _PROFILE_LEVELS)
        handle = self._library.profile_create(backend.handle, number)
        self._own("a profile", handle, self._library.profile_free, backend)

    def set_config(self, *, max_events: int | None = None, optrace: bool | None = None) -> None:
        """How many events to keep, and whether to trace single operations."""
        options: _Options = []
        if max_events is not None:
            options.append((1, max_events))
        if optrace is not None:
            options.append((2, int(optrace)))
        self._library.profile_set_config(self.handle, _config(options))

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
    """

    type: int
    unit: str
    value: int
    identifier: str
    events: tuple[ProfileEvent, ...] = ()

    @classmethod
    def _make(cls, raw: tuple[int, int, int, str, list[Any]]) -> ProfileEvent:
        type_, unit, value, identifier, parts = raw
        name = _EVENT_UNITS.get(unit, f"backend unit {unit}")
        return cls(type_, name, value, identifier, tuple(cls._make(p) for p in parts))

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


class Signal(_Owner):
    """A signal: abort or time out an execution, where the backend supports it."""

    _rank = 6

    def __init__(
        self, backend: Backend, *, abort: bool = False, timeout_us: int | None = None
    ) -> None:
        if abort and timeout_us is not None:
            raise ValueError("a signal is for abort or for a timeout, not both")
        options: _Options = [(1, 0)] if abort else []
        if timeout_us is not None:
            options.append((2, timeout_us))
        self._library = backend.library
        handle = self._library.signal_create(backend.handle, _config(options))
        self._own("a signal", handle, self._library.signal_free, backend)

    def trigger(self) -> None:
        """Abort what runs with it."""
        self._library.signal_trigger(self.handle)


# ---- backend


def library_path(name: str | os.PathLike[str]) -> str:
    """The file behind a backend name, or the path itself.

    Raises:
        BackendNotFoundError: no such backend here.
    """
    text = os.fspath(name)
    if os.sep in text or ".so" in text:
        return text
    if text in _LIBRARIES:
        path = Path(__file__).parent / "lib" / _LIBRARIES[text]
        if path.exists():
            return str(path)
        raise BackendNotFoundError(
            f"backend {text!r}: this version of qnnrt has no {_LIBRARIES[text]} of its own; give "
            "the path of a vendor library instead, or use 'cpu'"
        )
    if text == "gpu":
        raise BackendNotFoundError(
            "backend 'gpu' is not part of this version of qnnrt; give the path of a vendor library "
            "instead, or use 'cpu'"
        )
    raise BackendNotFoundError(
        f"unknown backend {text!r}: use {', '.join(map(repr, _LIBRARIES))} or the path of a QNN "
        "backend library"
    )


_shared: weakref.WeakValueDictionary[tuple[str, int], Backend] = weakref.WeakValueDictionary()


class Backend(_Owner):
    """A backend of a QNN library, with its log and device. Made by ``Backend.open``."""

    _rank = 7

    def __init__(
        self,
        library: _core.Library,
        *,
        log_level: str | int | None = None,
        options: Sequence[tuple[int, Any]] = (),
        device_options: Sequence[tuple[int, Any]] = (),
    ) -> None:
        self.library = library
        self._device: _Device | None = None
        self._log: _Log | None = None
        level = _qnn_log_level(_log.getEffectiveLevel() if log_level is None else log_level)
        try:
            self._log = _Log(library, level)
        except QnnError as e:
            _log.debug("%s gives no log: %s", library.path, e)
        handle = library.backend_create(self._log_handle, _config(list(options)))
        # The log goes after the backend: held here, closed below.
        self._own(f"backend {library.provider_name}", handle, library.backend_free, keep=self._log)
        try:
            self._device = _Device(self, list(device_options))
        except QnnError as e:
            if device_options:
                self.close()
                raise
            _log.debug("%s has no device: %s", library.path, e)

    @classmethod
    def open(
        cls,
        name_or_path: str | os.PathLike[str],
        *,
        log_level: str | int | None = None,
        options: Sequence[tuple[int, Any]] = (),
        device_options: Sequence[tuple[int, Any]] = (),
    ) -> Backend:
        """Load a backend library and create its backend and device.

        Args:
            name_or_path: "cpu", or the path of a QNN backend library.
            log_level: "error", "warning", "info" or "debug", or a number of ``logging``; the level
                of the logger ``qnnrt`` unless given. Lines of the backend go to that logger.
            options: QnnBackend_Config_t entries, as (option, value); see ``_core.Config``.
            device_options: QnnDevice_Config_t entries, likewise.

        Raises:
            BackendNotFoundError: no such library, or none that speaks this interface.
            BackendError: the backend could not start.
        """
        library = _core.Library.open(library_path(name_or_path))
        return cls(library, log_level=log_level, options=options, device_options=device_options)

    @classmethod
    def shared(cls, name_or_path: str | os.PathLike[str]) -> Backend:
        """The backend that sessions of this process share; open as long as anyone uses it."""
        key = (library_path(name_or_path), _core.fork_generation())
        backend = _shared.get(key)
        if backend is None or backend.closed:
            backend = _shared[key] = cls.open(key[0])
        return backend

    @property
    def _log_handle(self) -> int:
        return self._log.handle if self._log else 0

    @property
    def _device_handle(self) -> int:
        return self._device.handle if self._device else 0

    def close(self) -> None:
        """Close its contexts and the device, itself, and its log, in this order."""
        super().close()
        if self._log is not None:
            self._log.close()

    @property
    def name(self) -> str:
        """The provider's name, for example ``CPU_QTI_AISW``."""
        return self.library.provider_name

    @property
    def id(self) -> int:
        """QNN's number for the kind of backend: 3 CPU, 4 GPU, 6 HTP, 12 LPAI."""
        return self.library.backend_id

    @property
    def version(self) -> BackendVersion:
        """The core interface's version and the backend's own."""
        return BackendVersion(self.library.core_version, self.library.backend_version)

    @property
    def build_id(self) -> str:
        """The library's build, in the maker's own words."""
        return self.library.backend_get_build_id()

    @property
    def has_device(self) -> bool:
        """Whether it gave a device handle; the cpu and lpai backends have none."""
        return self._device is not None

    @property
    def supported_ops(self) -> tuple[str, ...]:
        """Op types that it knows, sorted; "package::type" for packages but ``qti.aisw``."""
        pairs = self.library.backend_get_supported_operations(self.handle)
        return tuple(sorted(t if p == "qti.aisw" else f"{p}::{t}" for p, t in pairs))

    def has_capability(self, key: int | str) -> bool:
        """Whether a property key (or a name in ``CAPABILITIES``) is supported."""
        number = _choice("capability", key, CAPABILITIES)
        return self.library.property_has_capability(number) == 0

    def validate_op(
        self,
        type: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor | None],
        params: Mapping[str, Any] | None = None,
        *,
        name: str = "op",
        package: str = "qti.aisw",
    ) -> None:
        """Ask whether it would take a node.

        Raises:
            QnnError: it would not; the message says why, as far as the backend does.
        """
        op = _core.Op(name, package, type, list(_params(params, None)), inputs, outputs)
        self.library.backend_validate_op_config(self.handle, op)

    def register_op_package(self, path: str, provider: str, target: str | None = None) -> None:
        """Load an op package library."""
        self.library.backend_register_op_package(self.handle, path, provider, target)

    def get_property(self, option: int, data: bytearray) -> None:
        """Let the backend fill in the struct of a custom property."""
        self.library.backend_get_property(self.handle, option, data)

    def set_log_level(self, level: str | int) -> None:
        """From now on; see ``open``."""
        if self._log is not None:
            self.library.log_set_log_level(self._log_handle, _qnn_log_level(level))

    def create_profile(self, level: str | int = "basic") -> Profile:
        """A profile handle of level "basic" or "detailed"."""
        return Profile(self, level)

    def create_signal(self, *, abort: bool = False, timeout_us: int | None = None) -> Signal:
        """A signal handle."""
        return Signal(self, abort=abort, timeout_us=timeout_us)

    def create_context(
        self,
        *,
        priority: str | int | None = None,
        oem_string: str | None = None,
        async_queue_depth: int | None = None,
        enable_graphs: Sequence[str] | None = None,
        memory_limit_hint: int | None = None,
        persistent_binary: bool | None = None,
        binary_compatibility: str | None = None,
        defer_graph_init: bool | None = None,
        graph_retention_order: Sequence[str] | None = None,
        error_reporting: tuple[int, int] | None = None,
        custom: Sequence[bytes] = (),
    ) -> Context:
        """A context: graphs and registered memory live in one.

        Args:
            priority: "low", "normal", "normal_high" or "high".
            oem_string: for the maker's use.
            async_queue_depth: executions that may wait; the default is 10, the most 300.
            enable_graphs: of a binary's graphs, only these.
            memory_limit_hint: in MiB.
            persistent_binary: the binary given stays valid as long as the context.
            binary_compatibility: "permissive" or "strict".
            defer_graph_init: graphs are made ready in ``Context.finalize``.
            graph_retention_order: which graphs to keep in memory first.
            error_reporting: (level, storage limit in KiB).
            custom: structs of the backend's own, as bytes.
        """
        options = _context_options(
            priority=priority,
            oem_string=oem_string,
            async_queue_depth=async_queue_depth,
            enable_graphs=enable_graphs,
            memory_limit_hint=memory_limit_hint,
            persistent_binary=persistent_binary,
            binary_compatibility=binary_compatibility,
            defer_graph_init=defer_graph_init,
            graph_retention_order=graph_retention_order,
            error_reporting=error_reporting,
            custom=custom,
        )
        handle = self.library.context_create(self.handle, self._device_handle, _config(options))
        return Context(self, handle)


def _qnn_log_level(level: str | int) -> int:
    names = {"error": 1, "warning": 2, "warn": 2, "info": 3, "verbose": 4, "debug": 5}
    if isinstance(level, str):
        return _choice("log_level", level.lower(), names)
    if level >= logging.ERROR:
        return 1
    if level >= logging.WARNING:
        return 2
    return 3 if level >= logging.INFO else 5


def _context_options(
    *,
    priority: str | int | None = None,
    oem_string: str | None = None,
    async_queue_depth: int | None = None,
    enable_graphs: Sequence[str] | None = None,
    memory_limit_hint: int | None = None,
    persistent_binary: bool | None = None,
    binary_compatibility: str | None = None,
    defer_graph_init: bool | None = None,
    graph_retention_order: Sequence[str] | None = None,
    error_reporting: tuple[int, int] | None = None,
    custom: Sequence[bytes] = (),
) -> _Options:
    options: _Options = [(0, blob) for blob in custom]
    if priority is not None:
        options.append((1, _choice("priority", priority, _PRIORITIES)))
    if error_reporting is not None:
        options.append((2, error_reporting))
    if oem_string is not None:
        options.append((3, oem_string))
    if async_queue_depth is not None:
        options.append((4, (0, async_queue_depth)))
    if enable_graphs is not None:
        options.append((5, list(enable_graphs)))
    if memory_limit_hint is not None:
        options.append((6, memory_limit_hint))
    if persistent_binary is not None:
        options.append((7, int(persistent_binary)))
    if binary_compatibility is not None:
        kinds = {"permissive": 0, "strict": 1}
        options.append((8, _choice("binary_compatibility", binary_compatibility, kinds)))
    if defer_graph_init is not None:
        options.append((9, int(defer_graph_init)))
    if graph_retention_order is not None:
        options.append((10, list(graph_retention_order)))
    return options


# ---- context and memory handles


class Context(_Owner):
    """A context. Made by ``Backend.create_context`` or ``Context.from_binary``.

    Attributes:
        backend: what it stands on.
        registrations: how many memory handles were made in it so far.
    """

    _rank = 3

    def __init__(self, backend: Backend, handle: int) -> None:
        self.backend = backend
        self.registrations = 0
        self._library = backend.library
        self._cache: weakref.WeakValueDictionary[tuple[Any, ...], MemHandle] = (
            weakref.WeakValueDictionary()
        )
        self._own(
            "a context",
            handle,
            self._library.context_free,
            backend,
            *([backend._device] if backend._device else []),
        )

    @classmethod
    def from_binary(
        cls, backend: Backend, data: Any, *, profile: Profile | None = None, **options: Any
    ) -> Context:
        """A context out of a context binary (bytes-like); options as for ``create_context``.

        Raises:
            ContextError, SystemError_: the binary is damaged, or was made for something else.
        """
        handle = backend.library.context_create_from_binary(
            backend.handle,
            backend._device_handle,
            data,
            _config(_context_options(**options)),
            profile.handle if profile else 0,
        )
        return cls(backend, handle)

    def binary(self) -> bytes:
        """The context's finalized graphs, serialized."""
        return self._library.context_get_binary(self.handle)

    def set_config(self, **options: Any) -> None:
        """Change options of ``Backend.create_context`` that may change later."""
        self._library.context_set_config(self.handle, _config(_context_options(**options)))

    def finalize(self, profile: Profile | None = None) -> None:
        """Make the graphs of a context with ``defer_graph_init`` ready."""
        self._library.context_finalize(self.handle, profile.handle if profile else 0)

    def get_property(self, option: int, data: bytearray) -> None:
        """Let the backend fill in the struct of a custom property."""
        self._library.context_get_property(self.handle, option, data)

    def create_graph(
        self,
        name: str,
        *,
        priority: str | int | None = None,
        profile: Profile | None = None,
        custom: Sequence[bytes] = (),
    ) -> Graph:
        """An empty graph.

        Args:
            name: unique in the context.
            priority: "low", "normal", "normal_high" or "high".
            profile: measured all the time, not for single calls.
            custom: structs of the backend's own, as bytes.
        """
        options = _graph_options(priority=priority, profile=profile, custom=custom)
        handle = self._library.graph_create(self.handle, name, _config(options))
        return Graph(self, name, handle)

    def graph(self, name: str) -> Graph:
        """A graph of a context that came from a binary."""
        return Graph(self, name, self._library.graph_retrieve(self.handle, name))

    def register(
        self,
        buffer: Buffer,
        shape: Sequence[int] | int,
        dtype: Any,
        *,
        offset: int = 0,
        kind: str = "ion",
    ) -> MemHandle:
        """Register a buffer, or a tensor's place in it, for use by this context's graphs.

        Args:
            buffer: memory with an fd.
            shape: of the tensor.
            dtype: anything ``numpy.dtype`` takes, or a QNN data type.
            offset: of the tensor in the buffer, in bytes; for ``shared_buffer`` only.
            kind: "ion" (one fd, one tensor), "shared_buffer" (many tensors in one buffer) or
                "dma_buf".

        Raises:
            ValueError: the tensor does not lie in the buffer, or the kind cannot express it.
            MemError: what the backend says: 8002 registered already, 8005 no such memory type...
        """
        handle = MemHandle(self, buffer, shape, dtype, offset, kind)
        self.registrations += 1
        return handle

    def get_or_register(
        self,
        buffer: Buffer,
        shape: Sequence[int] | int,
        dtype: Any,
        *,
        offset: int = 0,
        kind: str = "ion",
    ) -> MemHandle:
        """The live handle for exactly this memory, shape, type and kind, or a new one.

        The handle lives as long as somebody keeps it.
        """
        dims = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
        key = (buffer.address, buffer.fd_offset, offset, dims, data_type(dtype), kind)
        found = self._cache.get(key)
        if found is None or found.closed or found.buffer is not buffer:
            found = self._cache[key] = self.register(buffer, dims, dtype, offset=offset, kind=kind)
        return found

    def deregister(self, *handles: MemHandle) -> None:
        """Deregister handles in one call; the valid ones go even when another one is not.

        Raises:
            MemError: 8001, one of them is not valid (any more).
        """
        self._library.mem_deregister([h._raw for h in handles])
        for h in handles:
            h._forget()


class MemHandle(_Owner):
    """Memory registered in a context. Made by ``Context.register``.

    Attributes:
        context, buffer: what it stands on; kept alive, the buffer cannot be closed.
        shape, dtype, offset, kind: as registered.
        data_type: the QNN data type.
        nbytes: size of the tensor.
    """

    _rank = 1

    def __init__(
        self,
        context: Context,
        buffer: Buffer,
        shape: Sequence[int] | int,
        dtype: Any,
        offset: int,
        kind: str,
    ) -> None:
        if kind == "opencl":
            raise ValueError("kind 'opencl' needs the gpu backend, which this version has not")
        mem_type, htp_type = _MEM_KINDS.get(kind, (0, 0))
        if not mem_type:
            raise ValueError(f"kind must be one of {', '.join(_MEM_KINDS)}, not {kind!r}")
        self.context = context
        self.buffer = buffer
        self.shape = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
        self.data_type = data_type(dtype)
        self.dtype = numpy_dtype(self.data_type)
        self.offset = offset
        self.kind = kind
        self.nbytes = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        if offset < 0 or offset + self.nbytes > buffer.nbytes:
            raise ValueError(
                f"{data_type_name(self.data_type)}{list(self.shape)} at offset {offset} needs "
                f"{offset + self.nbytes} bytes, the buffer has {buffer.nbytes}"
            )
        start = buffer.fd_offset + offset
        if kind != "shared_buffer" and start:
            raise ValueError(
                f"kind {kind!r} names a whole fd from its start, not byte {start} of it: use "
                "kind='shared_buffer'"
            )
        library = context._library
        fd = buffer._borrow_fd() if library.has_extensions else buffer.fd
        descriptor = (
            self.shape,
            self.data_type,
            mem_type,
            fd,
            htp_type,
            buffer.fd_size,
            start,
            buffer.address,
        )
        handle = library.mem_register(context.handle, [descriptor])[0]
        self._own(
            f"memory handle {handle:#x}",
            handle,
            lambda h: library.mem_deregister([h]),
            context,
            keep=_BufferHold(buffer, handle, self.shape, self.dtype),
        )

    @property
    def array(self) -> np.ndarray:
        """A numpy array on the registered memory."""
        self.handle  # noqa: B018 - raises when closed
        return self.buffer.array(self.shape, self.dtype, self.offset)

    def _forget(self) -> None:
        self._finalizer.detach()


class _BufferHold:
    """Keeps a registered buffer alive and tells its ``close`` who holds it."""

    def __init__(self, buffer: Buffer, handle: int, shape: tuple[int, ...], dtype: Any) -> None:
        self.buffer = buffer
        buffer._hold(id(self), f"memory handle {handle:#x} ({dtype}{list(shape)})")

    def __del__(self) -> None:
        self.buffer._unhold(id(self))


# ---- graph


def _graph_options(
    *,
    priority: str | int | None = None,
    profile: Profile | None = None,
    profiling_enabled: bool | None = None,
    num_profiling_executions: int | None = None,
    custom: Sequence[bytes] = (),
) -> _Options:
    options: _Options = [(0, blob) for blob in custom]
    if priority is not None:
        options.append((3, _choice("priority", priority, _PRIORITIES)))
    if profile is not None:
        options.append((4, profile.handle))
    if profiling_enabled is not None:
        options.append((5, 1 if profiling_enabled else 2))
    if num_profiling_executions is not None:
        options.append((6, num_profiling_executions))
    return options


def _scalar(value: Any) -> tuple[int, Any]:
    """QNN data type and value of a scalar parameter."""
    if isinstance(value, np.generic):
        return data_type(value.dtype), value.item()
    if isinstance(value, bool):
        return data_type("bool"), value
    if isinstance(value, int):
        return data_type("int32" if value < 0 else "uint32"), value
    if isinstance(value, float):
        return data_type("float32"), value
    if isinstance(value, str):
        return data_type("STRING"), value
    raise TypeError(f"a scalar parameter cannot be a {type(value).__name__}")


def _params(params: Mapping[str, Any] | None, make: Callable[[str, Any], Tensor] | None) -> Any:
    for name, value in (params or {}).items():
        if isinstance(value, _core.Tensor):
            yield (name, value)
        elif isinstance(value, (np.ndarray, list, tuple)):
            array = np.asarray(value)
            if array.dtype == np.int64:  # from a list of Python ints
                array = array.astype(np.int32 if (array < 0).any() else np.uint32)
            array = np.ascontiguousarray(array)
            if make is None:
                make = _detached_param
            yield (name, make(name, array))
        else:
            yield (name, *_scalar(value))


def _detached_param(name: str, array: np.ndarray) -> Tensor:
    return _core.Tensor(
        name, array.shape, data_type(array.dtype), _TENSOR_TYPES["static"], data=array
    )


#: What a tensor can be bound to in ``Graph.execute``.
Binding: TypeAlias = "np.ndarray | MemHandle | Buffer"


class Graph(_Owner):
    """A graph. Made by ``Context.create_graph`` or ``Context.graph``.

    Attributes:
        tensors: the tensors added, by name.
        inputs, outputs: the ones of type app_write and app_read, in the order they were added.
    """

    _rank = 2

    def __init__(self, context: Context, name: str, handle: int) -> None:
        self.context = context
        self.name = name
        self._library = context._library
        self.tensors: dict[str, Tensor] = {}
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []
        # Graphs go with their context: the C API has no call that frees one.
        self._own(f"graph {name!r}", handle, _nothing, context)

    def add_tensor(
        self,
        name: str,
        shape: Sequence[int],
        dtype: Any,
        *,
        type: str | int = "native",
        data: Any = None,
        quantization: Any = None,
        mem_type: str | int = "raw",
    ) -> Tensor:
        """Add a tensor.

        Args:
            name: unique in the graph.
            shape: dimensions.
            dtype: anything ``numpy.dtype`` takes, or a QNN data type.
            type: "app_write" (input), "app_read" (output), "native" or "static" (constant).
            data: a static tensor's C-contiguous values; used until ``finalize``.
            quantization: an object with ``scale``, ``offset``, ``axis`` and ``bitwidth``:
                real = scale * (q + offset). Integer types become fixed-point ones.
            mem_type: "raw" or "memhandle": how it will be bound at run time.

        Raises:
            TensorError: the backend does not take it.
        """
        code = data_type(dtype, quantized=quantization is not None)
        kind = _choice("type", type, _TENSOR_TYPES)
        tensor = _core.Tensor(
            name,
            tuple(int(n) for n in shape),
            code,
            kind,
            data=data,
            quantization=quantization,
            mem_type=_choice("mem_type", mem_type, _MEM_TYPES),
            dtype=None if isinstance(dtype, str) and dtype == "STRING" else numpy_dtype(code),
        )
        self._library.tensor_create_graph_tensor(self.handle, tensor)
        self.tensors[name] = tensor
        if kind == _TENSOR_TYPES["app_write"]:
            self.inputs.append(tensor)
        elif kind == _TENSOR_TYPES["app_read"]:
            self.outputs.append(tensor)
        return tensor

    def add_node(
        self,
        name: str,
        type: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor | None],
        params: Mapping[str, Any] | None = None,
        *,
        package: str = "qti.aisw",
    ) -> None:
        """Add an operation.

        Args:
            name: unique in the graph.
            type: the op, for example "Conv2d".
            inputs, outputs: tensors in the op's order; None for one left out.
            params: numbers, strings, arrays or tensors. A Python int becomes UINT_32 (INT_32 when
                negative), a float FLOAT_32, a bool BOOL_8; numpy scalars keep their type.

        Raises:
            GraphError, OpPackageError: the backend does not take it.
        """

        def make(param: str, array: np.ndarray) -> Tensor:
            tensor = _detached_param(f"{name}.{param}", array)
            self._library.tensor_create_graph_tensor(self.handle, tensor)
            return tensor

        op = _core.Op(name, package, type, list(_params(params, make)), inputs, outputs)
        self._library.graph_add_node(self.handle, op)

    def finalize(self, profile: Profile | None = None, signal: Signal | None = None) -> None:
        """Check, optimise and plan the graph: afterwards it can only be executed."""
        self._library.graph_finalize(
            self.handle, profile.handle if profile else 0, signal.handle if signal else 0
        )
        for tensor in self.tensors.values():
            tensor.release_data()

    def _bind(self, tensors: Sequence[Tensor], given: Any, writable: bool) -> tuple[list[Any], Any]:
        if isinstance(given, Mapping):
            names = {t.name for t in tensors}
            if unknown := [n for n in given if n not in names]:
                raise KeyError(
                    f"graph {self.name!r} has no tensor {unknown[0]!r} there; it has "
                    f"{', '.join(sorted(names)) or 'none'}"
                )
            pairs = [(t, given[t.name]) for t in tensors if t.name in given]
        else:
            values = list(given)
            if len(values) != len(tensors):
                raise ValueError(
                    f"graph {self.name!r}: {len(tensors)} tensors there, {len(values)} given"
                )
            pairs = list(zip(tensors, values, strict=True))
        return [(t, _binding(t, v, writable)) for t, v in pairs], [v for _, v in pairs]

    def execute(
        self,
        inputs: Mapping[str, Binding] | Sequence[Binding],
        outputs: Mapping[str, Binding] | Sequence[Binding],
        *,
        profile: Profile | None = None,
        signal: Signal | None = None,
    ) -> None:
        """Execute once, on arrays (used in place, as RAW memory), buffers or memory handles.

        Raises:
            ValueError: an array has the wrong shape or type, is not contiguous, or not writable.
            GraphError: what the backend says.
        """
        ins, keep_in = self._bind(self.inputs, inputs, False)
        outs, keep_out = self._bind(self.outputs, outputs, True)
        _core.graph_execute(
            self._library,
            self.handle,
            ins,
            outs,
            profile.handle if profile else 0,
            signal.handle if signal else 0,
        )
        del keep_in, keep_out

    def execute_async(
        self,
        inputs: Mapping[str, Binding] | Sequence[Binding],
        outputs: Mapping[str, Binding] | Sequence[Binding],
        *,
        profile: Profile | None = None,
        signal: Signal | None = None,
    ) -> Future[None]:
        """As ``execute``, without waiting: the memory must stay untouched until the future is done.

        Raises:
            GraphError: 1000, the backend has no asynchronous execution; 6025, its queue is full.
        """
        ins, keep_in = self._bind(self.inputs, inputs, False)
        outs, keep_out = self._bind(self.outputs, outputs, True)
        pending = _core.graph_execute_async(
            self._library,
            self.handle,
            ins,
            outs,
            profile.handle if profile else 0,
            signal.handle if signal else 0,
            (self, keep_in, keep_out),
        )
        return _waiters().submit(_wait, self._library, pending)

    def set_config(self, **options: Any) -> None:
        """Change ``priority``, ``profile``, ``profiling_enabled``, ``num_profiling_executions`` or
        ``custom`` structs."""
        self._library.graph_set_config(self.handle, _config(_graph_options(**options)))

    def get_property(self, option: int, data: bytearray) -> None:
        """Let the backend fill in the struct of a custom property."""
        self._library.graph_get_property(self.handle, option, data)

    def describe(self) -> str | None:
        """The finalized steps as JSON; None from any backend but qnnrt's own."""
        return self._library.graph_describe(self.handle)


def _nothing(handle: int) -> None:
    pass


def _binding(tensor: Tensor, value: Any, writable: bool) -> int | tuple[int, int]:
    if isinstance(value, MemHandle):
        return value.handle
    need = int(np.prod(tensor.shape, dtype=np.int64)) * tensor.dtype.itemsize
    if isinstance(value, _core.Buffer):
        if value.nbytes < need:
            raise ValueError(
                f"tensor {tensor.name!r} needs {need} bytes, the buffer has {value.nbytes}"
            )
        return value.address, need
    if not isinstance(value, np.ndarray):
        raise TypeError(
            f"tensor {tensor.name!r}: give an array, a Buffer or a MemHandle, not a "
            f"{type(value).__name__}"
        )
    if value.shape != tensor.shape or value.dtype != tensor.dtype:
        raise ValueError(
            f"tensor {tensor.name!r} is {tensor.dtype}{list(tensor.shape)}, the array is "
            f"{value.dtype}{list(value.shape)}"
        )
    if not value.flags.c_contiguous or (writable and not value.flags.writeable):
        raise ValueError(
            f"tensor {tensor.name!r}: the array must be C-contiguous"
            f"{' and writable' if writable else ''}"
        )
    return value.ctypes.data, need


def _wait(library: _core.Library, pending: _core.Pending) -> None:
    code = pending.wait()
    _core.drain_log()
    if code:
        from .errors import make_error

        raise make_error(code, "graph", "graphExecuteAsync", "", library.error_message(code))


_executors: dict[int, ThreadPoolExecutor] = {}


def _waiters() -> ThreadPoolExecutor:
    """Threads that wait for backends to report; a forked child gets its own."""
    generation = _core.fork_generation()
    if generation not in _executors:
        with contextlib.suppress(KeyError):
            _executors.clear()
        _executors[generation] = ThreadPoolExecutor(32, thread_name_prefix="qnnrt-async")
    return _executors[generation]
