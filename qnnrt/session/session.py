"""Session: load a model into a backend, bind memory, run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from os import PathLike
from types import TracebackType
from typing import Any, Final

import numpy as np

from .._native import _core
from ..model import ContextBinary, DynamicModel, Model, ModelLibrary
from ..qnn.backend import Backend
from ..qnn.memhandle import PartHandles, Parts
from ..qnn.profile import Profile, ProfileEvent, Signal
from ..support.guard import Guard
from .async_runs import AsyncRuns
from .binding import BoundTensor
from .feeds import Feeds
from .memory import Found
from .options import Choice, common
from .session_base import SessionBase
from .stats import Stats

__all__ = ["Session"]

#: As graphs describe them.
_PRECISIONS: Final = {
    "FLOAT_32": "float32",
    "BFLOAT_16": "bfloat16",
    "FLOAT_16": "float16",
    "fp32": "float32",
    "fp16": "float16",
}


class Session(SessionBase):
    """A model made ready on a backend, with its inputs and outputs bound to memory.

    Attributes:
        inputs, outputs: name -> ``BoundTensor``, in the model's order; bound to shared buffers of
            their own from the start.
        state: likewise what the graph updates in place (``Model.set_state``): ``Model.initial`` or
            zeros at first, real ones where it has an encoding.
        backend, context, graph: the QNN objects underneath.
        model: what it runs.
        io: how tensors are bound: "memhandle", "raw" or "scratch", or "mixed" when they differ;
            each tensor has its own. "raw" also where a backend takes no memory handles;
            ``stats.fallback`` then says why.
        prepare: the memory type that the graph was built with, likewise.
        strict: whether an avoidable copy is an error.
    """

    _rank = 0  # closed before what it stands on; see qnn.owner.Owner

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
            raise TypeError(
                f"a session is of a Model or the path of a file, not of a "
                f"{type(self.model).__name__}: qnnrt.importers.onnx.load and "
                "qnnrt.importers.tflite.load make models of what is in memory"
            )
        self._end()

    # What asks for a class's parameters looks at __new__ first.
    __new__.__wrapped__ = __init__  # type: ignore[attr-defined]

    def _end(self) -> None:
        """What comes when the graph is there."""
        for t in self.state.values():
            if not t._given and (first := self._first(t)) is not None:  # its memory is zeros
                t._memory()[...] = first
        self._async_runs = AsyncRuns(self._runner, self.backend, self._options.queue_depth)
        self._feeds = Feeds(self.inputs, self.outputs, self.strict, self._counters)
        self.context._adopt(self)

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
        """Let the next run start afresh: ``state`` holds what it did at first, and nodes such as
        Lstm forget what they keep between runs. Waits for a run in flight.

        Raises:
            GraphError: 1000, the backend is not qnnrt's own, and the session has no ``state``.
        """
        self._check_open()
        if not self.state or self.backend.library.has_extensions:
            self.graph.reset_state()
        for t in self.state.values():
            first = self._first(t)
            t.array[...] = 0 if first is None else first

    def _first(self, t: BoundTensor) -> np.ndarray | None:
        """What a state holds before the first run; None for zeros."""
        given = self._initial.get(t.name)
        if given is not None:
            return given.reshape(t.shape)
        q = t.quantization
        if q is None or not np.any(q.offset):
            return None
        zero = -np.asarray(q.offset, np.int64)  # a real one
        if q.axis is not None and zero.size > 1:
            zero = zero.reshape([-1 if i == q.axis else 1 for i in range(len(t.shape))])
        limits = np.iinfo(t.dtype)
        return np.clip(zero, limits.min, limits.max).astype(t.dtype)

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

    def _bind_state_parts(self, buffer: _core.Buffer, parts: Parts) -> PartHandles | None:
        """``bind_state`` with all of them in one buffer. They stay registered as long as what comes
        back is kept, whatever is bound in between; None: by handles of their own, or none."""
        memory = self._memory
        together = memory.together
        group = None if together is None else together.bind(memory, buffer, parts)
        return memory.bind_states(self.state, buffer, parts) if group is None else group

    def _prefix_binder(
        self,
        places: dict[tuple[int, int, int], Parts],
        sizes: list[int],
        owner: Guard,
        bound: dict[Any, _core.Slots],
        key: Any,
    ) -> _core.PrefixBinder | None:
        """What receives texts and does ``_bind_state_parts`` with each, noted in ``bound`` under
        ``owner``'s lock; None: before that was done once, or where states are not bound in one
        call."""
        memory = self._memory
        together = memory.together
        if together is None:
            return None
        return _core.PrefixBinder(self, memory, together, places, sizes, owner, bound, key)

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
