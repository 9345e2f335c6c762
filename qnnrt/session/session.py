"""Session: load a model into a backend, bind memory, run."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from os import PathLike
from types import TracebackType
from typing import Any, Final

import numpy as np

from ..abi import constants as abi
from ..errors import CopyError, ModelError
from ..importers import load
from ..model import BinaryTensor, ContextBinary, Model
from ..model.binary import system_library
from ..qnn import completions
from ..qnn.backend import Backend
from ..qnn.context import Context
from ..qnn.profile import Profile, ProfileEvent, Signal
from .binding import BoundTensor, same_memory
from .build import Choice, add_model, check_choice, choices
from .lpai import open_backend, refuse_floats
from .memory import _FED, SessionMemory
from .stats import RESERVED_AT, Copy, Stats

__all__ = ["Session"]

_BACKEND_NAMES: Final = {
    abi.QNN_BACKEND_ID_CPU: "cpu",
    abi.QNN_BACKEND_ID_GPU: "gpu",
    abi.QNN_BACKEND_ID_HTP: "htp",
    abi.QNN_BACKEND_ID_LPAI: "lpai",
}
#: qnnrt's backends that read each other's context binaries.
_PORTABLE: Final = (abi.QNN_BACKEND_ID_CPU, abi.QNN_BACKEND_ID_HTP, abi.QNN_BACKEND_ID_LPAI)
_QUEUE_DEPTH: Final = 10  # unless the context says otherwise
_OPTIONS: Final = (
    "kernels",
    "heap",
    "priority",
    "context",
    "graph_config",
    "graph",
    "lpai",
    "gpu",
    "plan_milliseconds",
)


class Session(SessionMemory):
    """A model made ready on a backend, with its inputs and outputs bound to memory.

    Attributes:
        inputs, outputs: name -> ``BoundTensor``, in the model's order; bound to shared buffers of
            their own from the start.
        backend, context, graph: the QNN objects underneath.
        model: what it runs.
        io: how tensors are bound: "memhandle", "raw" or "scratch", or "mixed" when they differ;
            each tensor has its own. "raw" also where a backend takes no memory handles;
            ``stats.fallback`` then says why.
        prepare: the memory type that the graph was built with, likewise.
        strict: whether an avoidable copy is an error.
    """

    _rank = 0  # closed before what it stands on; see qnn.owner.Owner

    def __init__(
        self,
        model: Model | ContextBinary | str | PathLike[str],
        backend: str | PathLike[str] | Backend = "cpu",
        *,
        io: Choice = "memhandle",
        prepare: Choice | None = None,
        strict: bool = False,
        threads: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Build, finalize and bind; or load a context binary, and bind.

        Args:
            model: a ``Model``, a ``ContextBinary``, or the path of a model file.
            backend: "cpu", "htp", "lpai", "gpu", the path of a QNN backend library, or an open
                ``Backend``.
            io: "memhandle" binds registered shared buffers, "raw" plain addresses; on lpai,
                "scratch" leaves tensors in the scratch memory. A mapping from names says it for
                single tensors; the others are "memhandle".
            prepare: the memory type declared when the graph is built; ``io`` unless given, for the
                tensors that a mapping leaves out too. With a context binary it can only be what
                that says.
            strict: a copy that could have been avoided raises ``CopyError``.
            threads: kernel threads of this graph; qnnrt's own backends only.
            options: "kernels" ("auto" or "portable"; own backends only), "heap" (for the
                buffers), "priority", "context" (a dict for ``Backend.create_context``),
                "graph_config" (structs of the backend's own, as bytes), "graph" (which one of a
                context binary's), "plan_milliseconds" (how long finalize may search for a smaller
                arena; 0 unless given; own backends only), "lpai" (``qnnrt.lpai.Options``, or a
                dict of them: pools of the caller's own, hardware, performance), "gpu"
                (``qnnrt.gpu.Options``, or a dict of them: device, context, queue).

        Raises:
            ModelError, UnsupportedOpError: the model is not valid, or computes on floats on lpai.
            BackendNotFoundError: no such backend.
            QnnError: the backend refuses the model.
            CopyError: ``strict``, and the backend takes no memory handles, or would copy a tensor
                with ``io`` "raw" in every run.
        """
        check_choice("io", io)
        check_choice("prepare", prepare)
        given = dict(options or {})
        if unknown := [name for name in given if name not in _OPTIONS]:
            raise ValueError(f"unknown option {unknown[0]!r}; there are {', '.join(_OPTIONS)}")
        if threads is not None and threads < 1:
            raise ValueError(f"threads must be at least 1, not {threads}")
        self.strict = strict
        self._copies: dict[tuple[str, str, str], int] = {}
        self._registrations = 0
        self._fallback: str | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._pool_lock = threading.Lock()
        self._runs: dict[Future[None], None] = {}  # those of run_async that are not done, in order
        self._feeding = threading.Lock()
        self._heap: str | None = given.get("heap")
        if isinstance(model, (str, PathLike)) and not _is_binary(model):
            model = load(model)
        if isinstance(model, Model):
            model.check()
        self.backend, self._lpai = open_backend(backend, given)
        self._check_scratch(io)
        self._allocator = self._lpai.allocator(self.backend) if self._lpai is not None else None
        self._queues_itself = self.backend.has_capability("async_execution")
        self._queue_depth: int = given.get("context", {}).get("async_queue_depth") or _QUEUE_DEPTH
        # Backends of others know no tensors without dimensions.
        self._scalar = () if self.backend.library.has_extensions else (1,)
        if isinstance(model, (str, PathLike)):
            model = ContextBinary(model, system=system_library(self.backend.library.path))
        self.model = model
        if isinstance(model, ContextBinary):
            self._load(model, io, prepare, threads, given)
        else:
            self._compose(model, io, prepare, threads, given)
        self.context._adopt(self)

    def _compose(
        self,
        model: Model,
        io: Choice,
        prepare: Choice | None,
        threads: int | None,
        given: dict[str, Any],
    ) -> None:
        """A graph out of a model."""
        if "graph" in given:
            raise ValueError("option 'graph' is for context binaries: a model is one graph")
        if self._lpai is not None:
            refuse_floats(model, self.backend)
        names = [*model.inputs, *model.outputs]
        ios = choices("io", io, names, dict.fromkeys(names, "memhandle"))
        declared = {n: "raw" if word == "scratch" else word for n, word in ios.items()}
        prepared = choices("prepare", prepare, names, declared)
        config = self._graph_config(threads, ios, given)
        bound = [
            BoundTensor(self, i, model.tensors[n], i >= len(model.inputs), ios[n], prepared[n])
            for i, n in enumerate(names)
        ]
        self._refuse_copies(bound)
        self.context = self.backend.create_context(**self._context_options(given))
        try:
            # Registering first: whether the backend takes handles decides how tensors are declared.
            memory = list(map(self._own_memory, bound))
            if self._fallback:
                for t in bound:
                    t.prepare = "raw"
            self.graph = self.context.create_graph(
                model.name or "model", priority=given.get("priority"), custom=config
            )
            add_model(self.graph, model, {t.name: t.prepare for t in bound}, self._scalar)
            self._give_pools()
            self.graph.finalize()
            self._bind_all(bound, memory)
        except BaseException:
            self.context.close()
            raise

    def _load(
        self,
        binary: ContextBinary,
        io: Choice,
        prepare: Choice | None,
        threads: int | None,
        given: dict[str, Any],
    ) -> None:
        """A graph out of a context binary."""
        made_for = binary.info["backend_id"]
        # Those of qnnrt's own are portable; what another maker's is shows when it is loaded.
        portable = self.backend.library.has_extensions and made_for in _PORTABLE
        if made_for != self.backend.id and not portable:
            raise ModelError(
                f"{binary.path} was made for {_backend_name(made_for)}, not for "
                f"{_backend_name(self.backend.id)}"
            )
        if threads is not None or "kernels" in given or "plan_milliseconds" in given:
            raise ValueError(
                f"threads, kernels and the plan of the memory were chosen when {binary.path} was "
                "made: leave them out"
            )
        described = binary.graph(given.get("graph"))
        tensors: list[BinaryTensor] = [*described.inputs, *described.outputs]
        names = [t.name for t in tensors]
        prepared = {t.name: t.mem_type for t in tensors}
        for name, word in choices("prepare", prepare, names, prepared).items():
            if word != prepared[name]:
                raise ValueError(
                    f"tensor {name!r} of {binary.path} was prepared {prepared[name]}, not {word}: "
                    "leave 'prepare' out, or make the binary anew"
                )
        ios = choices("io", io, names, dict.fromkeys(names, "memhandle"))
        bound = [
            BoundTensor(self, i, t, i >= len(described.inputs), ios[t.name], t.mem_type)
            for i, t in enumerate(tensors)
        ]
        self._refuse_copies(bound)
        options = self._context_options(given)
        if len(binary.graphs) > 1 and self.backend.library.has_extensions:
            options.setdefault("enable_graphs", [described.name])
        self.context = Context.from_binary(self.backend, self._placed_model(binary), **options)
        try:
            if options.get("defer_graph_init"):
                self.context.finalize()
            self.graph = self.context.graph(described.name)
            config = self._graph_config(None, ios, given)
            if config or given.get("priority") is not None:
                self.graph.set_config(priority=given.get("priority"), custom=config)
            if self._lpai is not None:  # where a binary's graphs are finalized, too
                self._give_pools()
                self.graph.finalize()
            self._bind_all(bound, list(map(self._own_memory, bound)))
        except BaseException:
            self.context.close()
            raise

    def _refuse_copies(self, bound: list[BoundTensor]) -> None:
        """``strict``: RAW memory that the backend would copy in every run, before anything is
        built."""
        if not self.strict or not (self.backend.id == abi.QNN_BACKEND_ID_HTP or self._own_gpu):
            return
        if not self.backend.has_capability("tensor_mem_handle"):
            return  # no handle could save it
        seen = "OpenCL buffers" if self._own_gpu else "shared buffers"
        for t in bound:
            if t.io == "raw":
                raise CopyError(
                    t.name,
                    f"prepared {t.prepare}, executed raw: the accelerator sees {seen} "
                    f"alone, so its {t.nbytes} bytes would be copied in every run; use "
                    "io='memhandle', or strict=False",
                )

    def save_binary(self, path: str | PathLike[str]) -> None:
        """Write the finalized graph as a context binary, for ``qnnrt.load`` and for C clients.

        The file is written whole or not at all. It keeps the memory types that the graph was
        prepared with, and the kernels' own form of the weights.

        Raises:
            ContextError: the backend cannot.
            OSError: the file cannot be written.
        """
        self._usable_now()
        self.context.save_binary(path)

    # ---- running

    def _run_feeds(self, feeds: Mapping[str, Any]) -> dict[str, np.ndarray]:
        self._usable_now()
        copies = [pair for pair in map(self._fed, feeds.items()) if pair is not None]
        self._refuse_results()
        # From the first copy in to the last copy out: another thread's feeds come before or after.
        with self._feeding:
            for t, array in copies:
                self._write(t, array)
            self.run()
            if self.strict:
                return {name: t.array for name, t in self.outputs.items()}
            return {name: self._read(t) for name, t in self.outputs.items()}

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
        if not t._on_device and same_memory(array, t.array):
            return None
        if self.strict and t._on_device:
            raise CopyError(name, f"{_FED}: write into inputs[{name!r}].handle.map()")
        if self.strict:
            raise CopyError(name, f"{_FED}: write into inputs[{name!r}].array, or bind it")
        return t, array

    def run_async(
        self,
        callback: Callable[[Future[None]], object] | None = None,
        *,
        signal: Signal | None = None,
    ) -> Future[None]:
        """Execute on the bound memory in the background; runs start in the order of these calls.

        Where the backend has asynchronous execution this is its own queue: the call waits, without
        the interpreter lock, while as many runs are in flight as that takes (10, or what
        ``options={"context": {"async_queue_depth": n}}`` says). Elsewhere a thread of the session
        does the runs. In both cases the future cannot be cancelled: a run is ended by its signal.

        Leave the bound memory alone until the future is done; binding other memory changes the runs
        that are started after it, not those in flight. ``callback`` gets the future then, on a
        thread of this package.

        Args:
            callback: called with the future when it is done.
            signal: may abort the run or time it out, where the backend has signals.

        Raises:
            ClosedError, ForkError: as ``run``.
            GraphError: the backend refuses the run; what goes wrong later is in the future.
        """
        self._usable_now()
        if self._queues_itself:
            handle = signal.handle if signal is not None else 0
            future = completions.start(
                self.backend.library, partial(self._run_async, handle), keep=signal
            )
        else:
            future = self._run_on_pool(signal)
        self._runs[future] = None
        future.add_done_callback(self._runs.pop)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def _run_on_pool(self, signal: Signal | None) -> Future[None]:
        with self._pool_lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, thread_name_prefix="qnnrt-run")
            if signal is None:
                return self._pool.submit(self.run)
            return self._pool.submit(self._run_signalled, signal.handle)

    async def run_awaitable(self, *, signal: Signal | None = None) -> None:
        """``run_async`` for ``await``: the event loop goes on, also while the queue is full.

        Cancelling the task gives up waiting; a run that is in flight goes on, unless a signal ends
        it.
        """
        import asyncio

        while self._queues_itself and len(runs := list(self._runs)) >= self._queue_depth:
            await completions.until_done(runs[0])
        await asyncio.wrap_future(self.run_async(signal=signal))

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
        raw: dict[str, int] = {}
        if not self.closed:
            raw = self.backend.library.graph_stats(self.graph.handle) or {}
            for tensor, direction, nbytes, reason in self.backend.library.graph_copies(
                self.graph.handle
            ):
                key = (tensor, direction, reason)
                copies[key] = copies.get(key, 0) + nbytes
        return Stats(
            executes=executes,
            copied_bytes=sum(copies.values()),
            copies=tuple(Copy(t, d, n, r) for (t, d, r), n in copies.items()),
            reserved_bytes=raw.get("reserved_bytes", 0),
            reserved_at=RESERVED_AT.get(raw.get("reserved_at", 0)),
            registrations=self._registrations,
            execute_seconds=nanoseconds / 1e9,
            fallback=self._fallback,
            reserved_at_finalize=raw.get("reserved_at_finalize_bytes", 0),
            reserved_at_execute=raw.get("reserved_at_execute_bytes", 0),
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
            if not completions.on_completing_thread():  # that one completes them after this
                wait(list(self._runs))
            for t in (*self.inputs.values(), *self.outputs.values()):
                t._array = t._buffer = t._handle = None
            self.context.close()
            self._allocator = None

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


def _backend_name(number: int) -> str:
    name = _BACKEND_NAMES.get(number)
    return f"the {name} backend" if name else f"backend {number}"


def _is_binary(path: str | PathLike[str]) -> bool:
    return os.path.splitext(os.fspath(path))[1].lower() == ".bin"
