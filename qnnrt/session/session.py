"""Session: load a model into a backend, bind memory, run."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from os import PathLike
from types import MappingProxyType, TracebackType
from typing import Any, Final

import numpy as np

from .._native import _core
from ..errors import CopyError, GraphError
from ..importers import load
from ..model import (
    BinaryGraph,
    BinaryTensor,
    ContextBinary,
    DynamicModel,
    Model,
    ModelLibrary,
)
from ..model import Tensor as ModelTensor
from ..model.binary import system_library
from ..qnn.backend import Backend
from ..qnn.context import Context
from ..qnn.graph import Graph
from ..qnn.memhandle import Parts
from ..qnn.options import Custom
from ..qnn.profile import Profile, ProfileEvent, Signal
from .async_runs import AsyncRuns
from .binding import BoundTensor
from .build import add_model, check_maker, compose_library
from .feeds import Feeds
from .memory import Found, SessionMemory
from .options import Choice, Options, check_choice, choices, common
from .policies import open_backend
from .stats import Counters, Stats

__all__ = ["Session"]

#: As graphs describe them.
_PRECISIONS: Final = {
    "FLOAT_32": "float32",
    "BFLOAT_16": "bfloat16",
    "FLOAT_16": "float16",
    "fp32": "float32",
    "fp16": "float16",
}

#: What own backends say of it when a graph is finalized.
_COPIED_STATE: Final = re.compile(
    r"tensor '(?P<tensor>.*)' would have to be copied in every execution \((?P<reason>.*)\) and"
)


class Session(_core.Runnable):
    """A model made ready on a backend, with its inputs and outputs bound to memory.

    Attributes:
        inputs, outputs: name -> ``BoundTensor``, in the model's order; bound to shared buffers of
            their own from the start.
        state: likewise what the graph updates in place (``Model.set_state``): zeros at first.
        backend, context, graph: the QNN objects underneath.
        model: what it runs.
        io: how tensors are bound: "memhandle", "raw" or "scratch", or "mixed" when they differ;
            each tensor has its own. "raw" also where a backend takes no memory handles;
            ``stats.fallback`` then says why.
        prepare: the memory type that the graph was built with, likewise.
        strict: whether an avoidable copy is an error.
    """

    _rank = 0  # closed before what it stands on; see qnn.owner.Owner

    context: Context
    graph: Graph
    model: Model | DynamicModel | ContextBinary | ModelLibrary
    inputs: Mapping[str, BoundTensor]
    outputs: Mapping[str, BoundTensor]

    def __new__(cls, model: Any = None, *args: Any, **given: Any) -> Session:
        """A session of many shapes is one of a class of its own."""
        if cls is Session:
            for kind in cls.__subclasses__():
                if kind._takes(model, **given):
                    return super().__new__(kind)
        return super().__new__(cls)

    @staticmethod
    def _takes(model: Any, **given: Any) -> bool:
        """Whether ``Session(model, **given)`` makes one of this class instead."""
        return False

    def __init__(
        self,
        model: Model | DynamicModel | ContextBinary | ModelLibrary | str | PathLike[str],
        backend: str | PathLike[str] | Backend = "cpu",
        *,
        io: Choice = "memhandle",
        prepare: Choice | None = None,
        strict: bool = False,
        threads: int | None = None,
        precision: str | None = None,
        graph: str | Sequence[str] | None = None,
        options: Mapping[str, Any] | None = None,
        consume: bool = False,
    ) -> None:
        """Build, finalize and bind; or load a context binary, and bind.

        Args:
            model: a ``Model``, a ``DynamicModel``, a ``ContextBinary``, a ``ModelLibrary``, or the
                path of a model file; the code of a model library, ``.so``, runs in this process.
                A model of many shapes, or a binary with graphs of several shapes of one model, is
                a ``DynamicSession``.
            backend: "cpu", "htp", "lpai", "gpu", the path of a QNN backend library, or an open
                ``Backend``.
            io: "memhandle" binds registered shared buffers, "raw" plain addresses; on lpai,
                "scratch" leaves tensors in the scratch memory. A mapping from names says it for
                single tensors; the others are "memhandle".
            prepare: the memory type declared when the graph is built; ``io`` unless given, for the
                tensors that a mapping omits too. With a context binary it can only be what
                that says; a model library declares its own unless it is given.
            strict: a copy that could have been avoided raises ``CopyError``.
            threads: kernel threads of this graph; qnnrt's own backends only. A context binary's
                graph runs with as many as it was prepared for; given, its kernels and the plan of
                its memory are made for so many.
            precision: how floats inside of the graph are stored and multiplied: "float32", as
                unless given; "bfloat16", with sums in 32 bits and what is sensitive in float32;
                "float16", as a device computes that has no other floats: beyond 65,504 is
                infinity; "fastest": bfloat16 on processors that multiply it faster, else float32
                (``Session.precision`` says which). Inputs and outputs keep their types. cpu and
                htp take all, gpu and HTP libraries of others "float32" and "float16".
            graph: which one of a context binary's or a model library's graphs; of a binary also
                several, which are shapes of one model.
            options: "kernels" ("auto" or "portable"; own backends only), "heap" (for the
                buffers), "priority", "context" (a dict for ``Backend.create_context``),
                "graph_config" (structs of the backend's own, as bytes), "float32_nodes" (names of
                nodes that compute in float32 whatever the precision), "keep_constants" (whether
                constants stay beside the form that kernels read, so that a binary that is saved
                loads with other kernels, too; False unless given: it takes as much memory again;
                own backends only), "share_weights" (with whom constants and packed weights that
                are equal are there once: "process", as unless given: the sessions of this process;
                "context"; "nobody"), "byte_activations" (whether products with weights of 4 and 8
                bits may round what they multiply to 8 bits; as the model says unless given, which
                an ONNX file does by ``accuracy_level`` 4), "graph" (as the argument),
                "plan_milliseconds" (how long finalize may search for a smaller arena; 0 unless
                given; own backends only), for models of many shapes "max_shapes",
                "max_shape_bytes" and "prepare_shapes" (see ``DynamicSession``), "lpai"
                (``qnnrt.lpai.Options``, or a dict of them: pools of the caller's own, hardware,
                performance), "gpu" (``qnnrt.gpu.Options``, or a dict of them: device, context,
                queue).
            consume: take the constants out of a ``Model``, which is of no use after that, so that
                they are not in memory twice. A model that is read from a path here is consumed.

        Raises:
            ModelError, UnsupportedOpError: the model is not valid, or computes on floats on lpai.
            BackendNotFoundError: no such backend.
            QnnError: the backend refuses the model.
            CopyError: ``strict``, and the backend takes no memory handles, or would copy a tensor
                with ``io`` "raw" in every run.
        """
        self._begin(model, backend, io, prepare, strict, threads, precision, graph, options)
        self._options.refuse_for_shapes()
        if isinstance(self.model, ContextBinary):
            self._load(self.model, io, prepare)
        elif isinstance(self.model, ModelLibrary):
            self._compose_library(self.model, io, prepare)
        elif isinstance(self.model, Model):
            self._compose(self.model, io, prepare, consume or self.model is not model)
        else:
            raise TypeError(f"a session is of a model, not of a {type(self.model).__name__}")
        self._end()

    # What asks for a class's parameters looks at __new__ first.
    __new__.__wrapped__ = __init__  # type: ignore[attr-defined]

    def _begin(
        self,
        model: Any,
        backend: str | PathLike[str] | Backend,
        io: Choice,
        prepare: Choice | None,
        strict: bool,
        threads: int | None,
        precision: str | None,
        graph: str | Sequence[str] | None,
        options: Mapping[str, Any] | None,
    ) -> None:
        """What is given, checked, and the backend."""
        check_choice("io", io)
        check_choice("prepare", prepare)
        if graph is not None:
            options = {**(options or {}), "graph": graph}
        self._options = Options(options, threads, strict, precision)
        self.strict = strict
        self._counters = Counters()
        if isinstance(model, (str, PathLike)) and not is_binary(model):
            model = load(model)  # which is checked
            if isinstance(model, Model):
                model._check_files()
        elif isinstance(model, Model):
            model.check()
        self.backend, self._policy = open_backend(backend, self._options.given)
        self._policy.check_io(io)
        if isinstance(model, (str, PathLike)):
            model = ContextBinary(model, system=system_library(self.backend.library.path))
        self.model = model

    def _end(self) -> None:
        """What comes when the graph is there."""
        self._async_runs = AsyncRuns(self._runner, self.backend, self._options.queue_depth)
        self._feeds = Feeds(self.inputs, self.outputs, self.strict, self._counters)
        self.context._adopt(self)

    # ---- the context and the graph: a session's own, or of the session of many shapes

    def _new_context(self) -> Context:
        return self.backend.create_context(**self._options.for_context(self._policy))

    def _new_graph(self, name: str, config: list[Custom]) -> Graph:
        return self.context.create_graph(name, priority=self._options.priority, custom=config)

    def _leave_context(self) -> None:
        self.context.close()

    def _compose(self, model: Model, io: Choice, prepare: Choice | None, consume: bool) -> None:
        """A graph out of a model."""
        self._options.refuse_graph()
        self._policy.check_model(model)
        names = [
            *(n for n in model.inputs if n not in model.state),
            *model.state,
            *(n for n in model.outputs if n not in model.state.values()),
        ]
        ios = choices("io", io, names, dict.fromkeys(names, "memhandle"))
        declared = {n: "raw" if way == "scratch" else way for n, way in ios.items()}
        prepared = choices("prepare", prepare, names, declared)
        config = self._options.for_graph(
            self.backend.library, self._policy, ios, model.byte_activations
        )
        tensors = [model.tensors[n] for n in names]
        bound = self._bound_tensors(tensors, len(model.inputs), len(model.state), ios, prepared)
        # Backends of others know no tensors without dimensions.
        scalar = () if self.backend.library.has_extensions else (1,)
        self.context = self._new_context()
        try:
            # Registering first: whether the backend takes handles decides how tensors are declared.
            self._memory = self._allocate(bound)
            if self._counters.fallback:
                for t in bound:
                    t.prepare = "raw"
            self.graph = self._new_graph(model.name or "model", config)
            declared = {t.name: t.prepare for t in bound}
            add_model(self.graph, model, declared, scalar, consume=consume)
            self._policy.before_finalize(self.graph)
            self._finalize(self.graph)
            self._memory.prepare(self.graph)
            for file in model._mapped:
                file.leave()
            if consume:
                model._consume()
        except BaseException:
            self._leave_context()
            raise

    def _load(self, binary: ContextBinary, io: Choice, prepare: Choice | None) -> None:
        """A graph out of a context binary."""
        described = binary.graph(self._options.graph)
        bound, config = self._plan_loaded(binary, described, io, prepare)
        self.context, graphs = self._open_binary(binary, {described.name: config})
        try:
            self._use_loaded(graphs[described.name], bound)
        except BaseException:
            self.context.close()
            raise

    def _plan_loaded(
        self, binary: ContextBinary, described: BinaryGraph, io: Choice, prepare: Choice | None
    ) -> tuple[list[BoundTensor], list[Custom]]:
        """The tensors of a binary's graph, not bound yet, and the graph's config."""
        check_maker(binary, self.backend)
        if self._options.for_finalize:
            raise ValueError(
                f"kernels and the plan of the memory were chosen when {binary.path} was made: "
                "leave them out"
            )
        tensors: list[BinaryTensor] = [
            *described.inputs,
            *described.states,
            *described.outputs,
        ]
        taken = len(described.inputs) + len(described.states)
        names = [t.name for t in tensors]
        prepared = {t.name: t.mem_type for t in tensors}
        for name, way in choices("prepare", prepare, names, prepared).items():
            if way != prepared[name]:
                raise ValueError(
                    f"tensor {name!r} of {binary.path} was prepared {prepared[name]}, not {way}: "
                    "leave 'prepare' out, or make the binary anew"
                )
        ios = choices("io", io, names, dict.fromkeys(names, "memhandle"))
        bound = self._bound_tensors(tensors, taken, len(described.states), ios, prepared)
        return bound, self._options.for_graph(self.backend.library, self._policy, ios)

    def _open_binary(
        self, binary: ContextBinary, configs: Mapping[str, list[Custom]]
    ) -> tuple[Context, dict[str, Graph]]:
        """The context of a binary and graphs of it, with their configs; the others stay out."""
        options = self._options.for_context(self._policy)
        if self._options.threads is not None and not self._policy.FINALIZES_LOADED:
            options["defer_graph_init"] = True  # they are chosen before the graph is ready
        if len(binary.graphs) > len(configs) and self.backend.library.has_extensions:
            options.setdefault("enable_graphs", list(configs))
        memory = self._policy.binary_memory(binary)
        context = Context.from_binary(self.backend, memory, **options)
        try:
            graphs = {name: context.graph(name) for name in configs}
            for name, config in configs.items():
                if config or self._options.priority is not None:
                    graphs[name].set_config(priority=self._options.priority, custom=config)
            if options.get("defer_graph_init"):
                context.finalize()
        except BaseException:
            context.close()
            raise
        return context, graphs

    def _use_loaded(self, graph: Graph, bound: list[BoundTensor]) -> None:
        """Memory for a graph out of a binary."""
        self.graph = graph
        self._policy.after_load(graph)
        self._memory = self._allocate(bound)
        self._memory.prepare(graph)

    def _compose_library(self, library: ModelLibrary, io: Choice, prepare: Choice | None) -> None:
        """The graphs that a model library composes, one of which is the session's."""
        self.context = self._new_context()
        try:
            self.graph, described, graphs = compose_library(
                self.context, library, self._options, self._policy, io, prepare
            )
            tensors = [*described.inputs, *described.states, *described.outputs]
            taken = len(described.inputs) + len(described.states)
            names = [t.name for t in tensors]
            declared = {t.name: t.mem_type for t in tensors}
            choices("prepare", prepare, names, declared)  # what the library's tensors became
            ios = choices("io", io, names, dict.fromkeys(names, "memhandle"))
            bound = self._bound_tensors(tensors, taken, len(described.states), ios, declared)
            for graph in graphs:  # all of them: a context binary has no unfinished ones
                self._policy.before_finalize(graph)
                graph.finalize()
            self._memory = self._allocate(bound)
            self._memory.prepare(self.graph)
        except BaseException:
            self.context.close()
            raise

    def _finalize(self, graph: Graph) -> None:
        """``strict``: state that would be copied in every run is told as other copies are."""
        try:
            graph.finalize()
        except GraphError as e:
            copied = _COPIED_STATE.search(str(e)) if self.strict else None
            if copied is None:
                raise
            raise CopyError(copied["tensor"], copied["reason"]) from e

    def _bound_tensors(
        self,
        tensors: Sequence[ModelTensor],
        taken: int,
        states: int,
        ios: Mapping[str, str],
        prepared: Mapping[str, str],
    ) -> list[BoundTensor]:
        """Inputs, the last of `taken` tensors states, then outputs, not bound to memory yet."""
        first, count = taken - states, len(tensors)
        bound = [
            BoundTensor(
                i,
                t,
                i >= taken,
                ios[t.name],
                prepared[t.name],
                count + i - first if first <= i < taken else None,
            )
            for i, t in enumerate(tensors)
        ]
        self._refuse_copies(bound)
        self.inputs = MappingProxyType({t.name: t for t in bound[:first]})
        self.state: Mapping[str, BoundTensor] = MappingProxyType(
            {t.name: t for t in bound[first:taken]}
        )
        self.outputs = MappingProxyType({t.name: t for t in bound[taken:]})
        return bound

    def _allocate(self, bound: list[BoundTensor]) -> SessionMemory:
        return SessionMemory(
            self._runner, self._policy, self.context, bound, self.strict, self._counters
        )

    def _refuse_copies(self, bound: list[BoundTensor]) -> None:
        """``strict``: RAW memory that the backend would copy in every run, before anything is
        built."""
        seen = self._policy.SEES
        if not self.strict or seen is None or not self.backend.has_capability("tensor_mem_handle"):
            return  # without the capability no handle could save it
        for t in bound:
            if t.io == "raw" and t.nbytes:
                raise CopyError(
                    t.name,
                    f"prepared {t.prepare}, executed raw: the accelerator sees {seen} "
                    f"alone, so its {t.nbytes} bytes would be copied in every run; use "
                    "io='memhandle', or strict=False",
                )

    @property
    def io(self) -> str:
        """How tensors are bound: "memhandle", "raw", "scratch" or "mixed"."""
        return common(t.io for t in self._tensors())

    @property
    def prepare(self) -> str:
        """The memory type that the graph was built with: "memhandle", "raw" or "mixed"."""
        return common(t.prepare for t in self._tensors())

    def _tensors(self) -> Iterator[BoundTensor]:
        for tensors in (self.inputs, self.state, self.outputs):
            yield from tensors.values()

    @property
    def precision(self) -> str | None:
        """What floats between nodes are: "float32", "bfloat16", "float16"; on gpu also the names of
        its option; None where the backend, another maker's, does not say."""
        described: str | None = json.loads(self.graph.describe() or "{}").get("precision")
        return _PRECISIONS.get(described or "", described)

    def save_binary(self, path: str | PathLike[str]) -> None:
        """Write the finalized graph as a context binary, for ``qnnrt.load`` and for C clients.

        The file is written whole or not at all. It keeps the memory types that the graph was
        prepared with, and the kernels' own form of the weights. A file that is there already is
        replaced by a new one with its mode and, where possible, its owner; a symbolic link stays,
        and what it leads to is replaced.

        Raises:
            ContextError: the backend cannot.
            OSError: the file cannot be written, or a folder, a FIFO, a socket or a device is at
                that path. What was there is as it was.
        """
        self._check_open()
        self.context.save_binary(path)

    def set_scratch(self, memory: Any) -> None:
        """Let the graph use other scratch memory from now on, on lpai. Waits for a run in flight.

        With io="scratch" inputs and outputs move with it: take ``.array`` anew, write the inputs
        again.

        Args:
            memory: a ``Buffer`` or an array, aligned and large enough.

        Raises:
            ValueError: the backend is not LPAI.
            GraphError: it is too small, or not aligned. The old memory stays.
        """
        self._check_open()
        self._policy.set_scratch(self.graph, memory)

    def reset_state(self) -> None:
        """Let the next run start afresh: zero ``state``, and what nodes such as Lstm keep between
        runs. Waits for a run in flight.

        Raises:
            GraphError: 1000, the backend is not qnnrt's own, and the session has no ``state``.
        """
        self._check_open()
        if not self.state or self.backend.library.has_extensions:
            self.graph.reset_state()
        for t in self.state.values():
            t.array[...] = 0

    def bind_state(self, source: Session | Mapping[str, Any]) -> None:
        """Use the memory of another session's ``state``, or other memory, from now on. Two runs
        that write the same memory follow each other.

        Args:
            source: a session, in this process, whose states of the same names, shapes and types
                are taken; or name -> what ``BoundTensor.bind`` takes.

        Raises:
            KeyError: this session has no such state, or the other one lacks one of this.
            BindError: memory that cannot be used as it is. All that was bound before stays.
        """
        self._memory.use(self._find_state(source))

    def _find_state(self, source: Session | Mapping[str, Any]) -> Found:
        """The memory for ``bind_state``, none of which is bound yet."""
        self._check_open()
        if isinstance(source, Session):
            given: Mapping[str, Any] = {name: source.state[name] for name in self.state}
        else:
            given = source
        self._check_states(given)
        return self._memory.find((self.state[name], x) for name, x in given.items())

    def _state_parts(self, offsets: Iterable[int], nbytes: int) -> Parts:
        """Where the states lie in a buffer of so many bytes, for ``_bind_state_parts``: to be kept,
        for what is registered by it is found by it."""
        each = zip(self.state.values(), offsets, strict=True)
        return Parts(((t.shape, t._code, offset) for t, offset in each), nbytes)

    def _bind_state_parts(self, buffer: _core.Buffer, parts: Parts) -> None:
        """``bind_state`` with all of them in one buffer."""
        self._memory.bind_states(self.state, buffer, parts)

    def save_state(self) -> dict[str, np.ndarray]:
        """The values of ``state``, as arrays of the caller's own."""
        self._check_open()
        return {name: t._read() for name, t in self.state.items()}

    def load_state(self, arrays: Mapping[str, Any]) -> None:
        """Write values into ``state``, all of it or some; what ``save_state`` returned, say.

        Raises:
            KeyError: there is no such state.
            ValueError: an array has another shape or type. Nothing is written then.
        """
        self._check_open()
        self._check_states(arrays)
        values = {name: np.asarray(x) for name, x in arrays.items()}
        for name, x in values.items():
            t = self.state[name]
            if x.shape != t.shape or x.dtype != t.dtype:
                raise ValueError(
                    f"state {name!r} needs {t.dtype}{list(t.shape)}, not {x.dtype}{list(x.shape)}"
                )
        for name, x in values.items():
            self.state[name]._write(x)

    def _check_states(self, given: Mapping[str, Any]) -> None:
        if unknown := [name for name in given if name not in self.state]:
            there = ", ".join(map(repr, self.state)) or "none"
            raise KeyError(f"no state {unknown[0]!r}; there are {there}")

    # ---- running

    def _run_feeds(self, feeds: Mapping[str, Any]) -> dict[str, np.ndarray]:
        self._check_open()
        return self._feeds.run(self._runner.run, feeds)

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
        self._check_open()
        future = self._async_runs.start(signal)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    async def run_awaitable(self, *, signal: Signal | None = None) -> None:
        """``run_async`` for ``await``: the event loop goes on, also while the queue is full.

        Cancelling the task gives up waiting; a run that is in flight goes on, unless a signal ends
        it.
        """
        import asyncio

        await self._async_runs.until_free()
        await asyncio.wrap_future(self.run_async(signal=signal))

    def profile(self, level: str = "detailed") -> list[ProfileEvent]:
        """Execute once with a profile handle and return what the backend measured.

        Args:
            level: "basic", or "detailed" with one event for each node, where supported.
        """
        self._check_open()
        profile = Profile(self.backend, level)
        try:
            self._runner.execute(profile.handle)
            return profile.events()
        finally:
            profile.close()

    # ---- what happened

    @property
    def stats(self) -> Stats:
        """Counters since the session was made, or since ``reset_stats``."""
        graph = None if self.closed else self.graph.handle
        return self._counters.stats(self._runner, self.backend.library, graph)

    def reset_stats(self) -> None:
        """Start counting anew."""
        self._runner.reset_counters()
        self._counters.reset()
        if not self.closed:
            self.backend.library.graph_reset_stats(self.graph.handle)

    # ---- the end

    def _check_open(self) -> None:
        """Raises ``ClosedError``, or ``ForkError`` in a forked child, unless it can be used."""
        self._memory.check_open()

    @property
    def closed(self) -> bool:
        """Whether the session was closed."""
        return self._runner.closed

    def close(self) -> None:
        """Wait for runs in flight, then let go of the graph, the handles and the memory.

        Arrays taken from ``inputs`` and ``outputs`` stay valid: they keep their buffers. Closing
        twice is harmless.
        """
        self._runner.close(self._finish)

    def _finish(self) -> None:
        """The rest of ``close``, each step of which is harmless a second time: after an interrupt
        in the middle the next ``close`` begins anew."""
        self._async_runs.finish()
        self._memory.drop()
        self._leave_context()
        self._policy.close()

    def __enter__(self) -> Session:
        self._check_open()
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


def is_binary(path: str | PathLike[str]) -> bool:
    """Whether a path is named as a context binary."""
    return os.path.splitext(os.fspath(path))[1].lower() == ".bin"
