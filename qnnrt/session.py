"""Session: load a model into a backend, bind memory, run."""

from __future__ import annotations

import struct
import threading
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from os import PathLike
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from . import _core
from .backend import Backend
from .binding import BoundTensor, as_array, buffer_of_fd, check_layout, same_memory
from .context import Context
from .errors import BindError, ClosedError, CopyError, MemError
from .graph import Graph
from .memhandle import MemHandle
from .memory import alloc, buffer_of
from .profile import Profile, ProfileEvent

if TYPE_CHECKING:
    from .model import Model

__all__ = ["BoundTensor", "Copy", "Session", "Stats"]

Buffer: TypeAlias = _core.Buffer

_QNNRT_MAGIC: Final = 0x54524E51  # csrc/abi/qnnrt_ext.h
_OPTION_THREADS: Final = 1
_OPTION_KERNELS: Final = 2
_KERNELS: Final = {"auto": 0, "portable": 1}
_RESERVED_AT: Final = {0: None, 1: "finalize", 2: "execute"}
_FED: Final = "the array fed is not the bound memory"
_OPTIONS: Final = ("kernels", "heap", "priority", "context", "graph_config")


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
        reserved_bytes: staging memory of the runtime's own.
        reserved_at: when it was reserved: "finalize", "execute" or None.
        registrations: memory handles made.
        execute_seconds: time spent in the backend's execute call.
        fallback: why tensors are bound as RAW memory although memory handles were asked for.
    """

    executes: int
    copied_bytes: int
    copies: tuple[Copy, ...]
    reserved_bytes: int
    reserved_at: str | None
    registrations: int
    execute_seconds: float
    fallback: str | None = None


class Session(_core.Runner):
    """A model made ready on a backend, with its inputs and outputs bound to memory.

    Attributes:
        inputs, outputs: name -> ``BoundTensor``, in the model's order; bound to shared buffers of
            their own from the start.
        backend, context, graph: the QNN objects underneath.
        model: what it runs.
        io: how tensors are bound: "memhandle" or "raw". "raw" also where a backend takes no memory
            handles; ``stats.fallback`` then says why.
        prepare: the memory type that the graph was built with, likewise.
        strict: whether an avoidable copy is an error.
    """

    _rank = 0  # closed before what it stands on; see _owner.Owner

    def __init__(
        self,
        model: Model | str | PathLike[str],
        backend: str | PathLike[str] | Backend = "cpu",
        *,
        io: str = "memhandle",
        prepare: str | None = None,
        strict: bool = False,
        threads: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Build, finalize and bind.

        Args:
            model: a ``Model``, or the path of a model file.
            backend: "cpu", the path of a QNN backend library, or an open ``Backend``.
            io: "memhandle" binds registered shared buffers, "raw" plain addresses.
            prepare: the memory type declared when the graph is built; ``io`` unless given.
            strict: a copy that could have been avoided raises ``CopyError``.
            threads: kernel threads of this graph; qnnrt's own backends only.
            options: "kernels" ("auto" or "portable"; own backends only), "heap" (for the
                buffers), "priority", "context" (a dict for ``Backend.create_context``),
                "graph_config" (structs of the backend's own, as bytes).

        Raises:
            ModelError, UnsupportedOpError: the model is not valid.
            BackendNotFoundError: no such backend.
            QnnError: the backend refuses the model.
            CopyError: ``strict``, and the backend takes no memory handles.
        """
        for what, value in (("io", io), ("prepare", prepare or io)):
            if value not in ("memhandle", "raw"):
                raise ValueError(f"{what} must be 'memhandle' or 'raw', not {value!r}")
        given = dict(options or {})
        if unknown := [name for name in given if name not in _OPTIONS]:
            raise ValueError(f"unknown option {unknown[0]!r}; there are {', '.join(_OPTIONS)}")
        if threads is not None and threads < 1:
            raise ValueError(f"threads must be at least 1, not {threads}")
        if isinstance(model, (str, PathLike)):
            from . import load

            model = load(model)
        model.check()
        self.model = model
        self.strict = strict
        self.prepare = prepare or io
        self.io = io
        self.backend = backend if isinstance(backend, Backend) else Backend.shared(backend)
        # Backends of others know no tensors without dimensions.
        self._scalar = () if self.backend.library.has_extensions else (1,)
        self._copies: dict[tuple[str, str, str], int] = {}
        self._registrations = 0
        self._fallback: str | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._pool_lock = threading.Lock()
        self._feeding = threading.Lock()
        self._heap: str | None = given.get("heap")
        self.context: Context = self.backend.create_context(**given.get("context", {}))
        try:
            self._build(model, threads, given)
        except BaseException:
            self.context.close()
            raise

    def _build(self, model: Model, threads: int | None, given: dict[str, Any]) -> None:
        names = [*model.inputs, *model.outputs]
        bound = [
            BoundTensor(self, i, model.tensors[n], i >= len(model.inputs))
            for i, n in enumerate(names)
        ]
        # Registering first: whether the backend takes handles decides how tensors are declared.
        memory = list(map(self._own_memory, bound))  # no frame between, for the warning
        self.graph: Graph = self.context.create_graph(
            model.name or "model",
            priority=given.get("priority"),
            custom=self._graph_config(threads, given),
        )
        self._add(model)
        self.graph.finalize()
        order = {t.name: t for t in (*self.graph.inputs, *self.graph.outputs)}
        self._prepare(
            self.backend.library,
            self.graph.handle,
            [order[n] for n in model.inputs],
            [order[n] for n in model.outputs],
        )
        for t, (array, buffer, handle) in zip(bound, memory, strict=True):
            self._use(t, array, buffer, 0, handle)
        self.inputs: Mapping[str, BoundTensor] = MappingProxyType(
            {t.name: t for t in bound[: len(model.inputs)]}
        )
        self.outputs: Mapping[str, BoundTensor] = MappingProxyType(
            {t.name: t for t in bound[len(model.inputs) :]}
        )
        self.context._adopt(self)

    def _graph_config(self, threads: int | None, given: dict[str, Any]) -> list[bytes]:
        config = [bytes(blob) for blob in given.get("graph_config", ())]
        kernels = given.get("kernels")
        if kernels is not None and kernels not in _KERNELS:
            raise ValueError(f"kernels must be one of {', '.join(_KERNELS)}, not {kernels!r}")
        own = [(_OPTION_THREADS, threads), (_OPTION_KERNELS, _KERNELS.get(kernels or ""))]
        for option, value in own:
            if value is None:
                continue
            if not self.backend.library.has_extensions:
                raise ValueError(
                    f"{self.backend.library.path} is not qnnrt's own: it takes neither 'threads' "
                    "nor 'kernels'; its own options go into options['graph_config']"
                )
            config.append(struct.pack("=III", _QNNRT_MAGIC, option, value))
        return config

    def _add(self, model: Model) -> None:
        """The model's tensors and nodes, into the graph."""
        add = self.graph.add_tensor
        types = dict.fromkeys(model.inputs, "app_write") | dict.fromkeys(model.outputs, "app_read")
        used = {n for node in model.nodes for n in (*node.inputs, *node.outputs) if n}
        for name in (*model.inputs, *model.outputs, *sorted(used - types.keys())):
            t = model.tensors[name]
            kind = types.get(name, "native" if t.data is None else "static")
            add(
                name,
                t.shape or self._scalar,
                t.dtype,
                type=kind,
                data=None if t.data is None else np.ascontiguousarray(t.data),
                quantization=t.quantization,
                mem_type=self.prepare if kind.startswith("app") else "raw",
            )
        tensors = self.graph.tensors
        for node in model.nodes:
            self.graph.add_node(
                node.name,
                node.type,
                [tensors[n] if n else None for n in node.inputs],
                [tensors[n] if n else None for n in node.outputs],
                node.params,
            )

    # ---- memory

    def _own_memory(self, t: BoundTensor) -> tuple[np.ndarray, Buffer, MemHandle | None]:
        buffer = alloc(max(t.nbytes, 1), heap=self._heap)
        array = buffer.array(t.shape, t.dtype)
        array[...] = 0
        if self.io == "raw":
            return array, buffer, None
        try:
            return array, buffer, self._register(t, buffer, 0)
        except MemError as e:
            if e.code not in (1000, 8005):
                raise
            reason = f"{self.backend.name} takes no memory handles ({e.name})"
            if self.strict:
                raise CopyError(
                    t.name,
                    f"{reason}, so its memory would be copied: use io='raw', or strict=False",
                ) from e
            self._fall_back(reason)
            return array, buffer, None

    def _fall_back(self, reason: str) -> None:
        self.io = self.prepare = "raw"
        self._fallback = reason
        path = self.backend.library.path
        if path not in _warned:
            _warned.add(path)
            warnings.warn(
                f"{reason}: tensors are bound as RAW memory, which it may copy. Use io='raw' to "
                "say so, or strict=True to be told",
                RuntimeWarning,
                stacklevel=5,
            )

    def _register(self, t: BoundTensor, buffer: Buffer, offset: int) -> MemHandle:
        before = self.context.registrations
        handle = self.context.get_or_register(
            buffer, t.shape or (1,), t._code, offset=offset, kind="shared_buffer"
        )
        self._registrations += self.context.registrations - before
        return handle

    def _use(
        self,
        t: BoundTensor,
        array: np.ndarray,
        buffer: Buffer | None,
        offset: int,
        handle: MemHandle | None,
    ) -> None:
        if handle is not None:
            self._bind_handle(t._index, handle.handle, (handle, array))
        else:
            self._bind_raw(t._index, array.ctypes.data, t.nbytes, (buffer, array))
        t._array, t._buffer, t._offset, t._handle = array, buffer, offset, handle

    def _bind(self, t: BoundTensor, x: Any) -> None:
        self._usable_now()
        if isinstance(x, MemHandle):
            self._bind_mem_handle(t, x)
            return
        buffer: Buffer | None = None
        offset = 0
        if isinstance(x, BoundTensor):
            x = x.array
        elif isinstance(x, tuple):
            x = buffer_of_fd(t, x)
        if isinstance(x, Buffer):
            buffer = x
            if buffer.nbytes < t.nbytes:
                raise BindError(t.name, f"needs {t.nbytes} bytes, the buffer has {buffer.nbytes}")
            array = buffer.array(t.shape, t.dtype)
        else:
            array = as_array(t, x)
            try:
                buffer, offset = buffer_of(array)
            except LookupError:
                buffer = None
        check_layout(t, array)
        if self.io == "raw":
            self._use(t, array, buffer, offset, None)
            return
        if buffer is None or buffer.heap == "wrapped":
            raise BindError(
                t.name,
                f"the array at {array.ctypes.data:#x} is not on a shared buffer, which a memory "
                "handle needs: make it with qnnrt.alloc_array(), bind a Buffer, or use io='raw'",
            )
        buffer.check_alive()
        self._use(t, array, buffer, offset, self._register(t, buffer, offset))

    def _bind_mem_handle(self, t: BoundTensor, handle: MemHandle) -> None:
        if self.io == "raw":
            raise BindError(t.name, "the session binds RAW memory (io='raw'), not memory handles")
        if handle.context is not self.context:
            raise BindError(
                t.name,
                "the memory handle belongs to another context: register the buffer with this "
                "session's context",
            )
        if handle.shape != (t.shape or (1,)) or handle.data_type != t._code:
            raise BindError(
                t.name,
                f"needs {t.dtype}{list(t.shape)}, the handle is for "
                f"{handle.dtype}{list(handle.shape)}",
            )
        array = handle.array.reshape(t.shape)
        self._use(t, array, handle.buffer, handle.offset, handle)

    # ---- running

    def _usable_now(self) -> None:
        self.context.handle  # noqa: B018 - raises when closed, or in a forked child
        if self.closed:
            raise ClosedError("this session is closed")

    def _run_feeds(self, feeds: Mapping[str, Any]) -> dict[str, np.ndarray]:
        self._usable_now()
        copies = [pair for pair in map(self._fed, feeds.items()) if pair is not None]
        # From the first copy in to the last copy out: another thread's feeds come before or after.
        with self._feeding:
            for t, array in copies:
                t.array[...] = array
                self._count(t, "in", _FED)
            self.run()
            if self.strict:
                return {name: t.array for name, t in self.outputs.items()}
            results = {}
            for name, t in self.outputs.items():
                results[name] = t.array.copy()
                self._count(t, "out", "run(feeds) returns arrays of the caller's own")
            return results

    def _fed(self, feed: tuple[str, Any]) -> tuple[BoundTensor, np.ndarray] | None:
        """What has to be copied into which tensor; None when it is the bound memory itself."""
        name, value = feed
        if name not in self.inputs:
            raise KeyError(f"no input {name!r}; there are {', '.join(map(repr, self.inputs))}")
        t = self.inputs[name]
        array = np.asarray(value)
        if array.shape != t.shape or array.dtype != t.dtype:
            raise ValueError(
                f"input {name!r} needs {t.dtype}{list(t.shape)}, not "
                f"{array.dtype}{list(array.shape)}"
            )
        if same_memory(array, t.array):
            return None
        if self.strict:
            raise CopyError(name, f"{_FED}: write into inputs[{name!r}].array, or bind it")
        return t, array

    def _count(self, t: BoundTensor, direction: str, reason: str) -> None:
        key = (t.name, direction, reason)
        self._copies[key] = self._copies.get(key, 0) + t.nbytes

    def run_async(self, callback: Callable[[Future[None]], object] | None = None) -> Future[None]:
        """Execute on the bound memory in the background; runs start in the order of these calls.

        Leave the bound memory alone until the future is done. ``callback`` gets the future then.
        """
        self._usable_now()
        with self._pool_lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, thread_name_prefix="qnnrt-run")
            future: Future[None] = self._pool.submit(self.run)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    async def run_awaitable(self) -> None:
        """``run_async`` for ``await``."""
        import asyncio

        await asyncio.wrap_future(self.run_async())

    def profile(self, level: str = "detailed") -> list[ProfileEvent]:
        """Execute once with a profile handle and return what the backend measured.

        Args:
            level: "basic", or "detailed" with one event for each node, where supported.
        """
        self._usable_now()
        profile = Profile(self.backend, level)
        try:
            self._run_profiled(profile.handle)
            return profile.events()
        finally:
            profile.close()

    # ---- what happened

    @property
    def stats(self) -> Stats:
        """Counters since the session was made, or since ``reset_stats``."""
        executes, nanoseconds = self._counters()
        copies = dict(self._copies)
        reserved, reserved_at = 0, 0
        if not self.closed:
            raw = self.backend.library.graph_stats(self.graph.handle)
            if raw is not None:
                reserved, reserved_at = raw["reserved_bytes"], raw["reserved_at"]
            for tensor, direction, nbytes, reason in self.backend.library.graph_copies(
                self.graph.handle
            ):
                key = (tensor, direction, reason)
                copies[key] = copies.get(key, 0) + nbytes
        return Stats(
            executes=executes,
            copied_bytes=sum(copies.values()),
            copies=tuple(Copy(t, d, n, r) for (t, d, r), n in copies.items()),
            reserved_bytes=reserved,
            reserved_at=_RESERVED_AT.get(reserved_at),
            registrations=self._registrations,
            execute_seconds=nanoseconds / 1e9,
            fallback=self._fallback,
        )

    def reset_stats(self) -> None:
        """Start counting anew."""
        self._reset_counters()
        self._copies.clear()
        self._registrations = 0
        if not self.closed:
            self.backend.library.graph_reset_stats(self.graph.handle)

    # ---- the end

    def close(self) -> None:
        """Wait for runs in flight, then let go of the graph, the handles and the memory.

        Arrays taken from ``inputs`` and ``outputs`` stay valid: they keep their buffers. Closing
        twice is harmless.
        """
        pool, self._pool = getattr(self, "_pool", None), None
        if pool is not None:
            pool.shutdown(wait=True)
        if self._stop():
            for t in (*self.inputs.values(), *self.outputs.values()):
                t._array = t._buffer = t._handle = None
            self.context.close()

    def __enter__(self) -> Session:
        self._usable_now()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return f"<qnnrt.Session {self.model.name!r} on {self.backend.name}{state}>"


_warned: set[str] = set()
