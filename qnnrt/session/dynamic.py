"""Sessions of many shapes: one context, and a graph in it for each shape that comes."""

from __future__ import annotations

import contextlib
import functools
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from os import PathLike
from types import MappingProxyType
from typing import Any, Final, NoReturn

import numpy as np

from .._native import _core
from ..errors import BindError, ClosedError, ForkError, ModelError
from ..model import BinaryGraph, ContextBinary, DynamicModel, Model
from ..model.dynamic import OpenInput, Shape
from ..qnn.backend import Backend
from ..qnn.context import Context
from ..qnn.graph import Graph
from ..qnn.options import Custom
from ..qnn.profile import ProfileEvent, Signal
from ..support.guard import Guard
from .binary_shapes import binary_shapes, described
from .binding import BoundTensor
from .feeds import check_named
from .options import Choice
from .session import Session
from .session_base import is_binary
from .shapes import ShapeCache
from .stats import Stats, added

__all__ = ["DynamicSession", "OpenTensor", "ShapeSession"]

#: Graphs that stay when the shapes are open and nothing else is said.
_MOST_SHAPES: Final = 8

#: Shapes of feeds of which it is remembered what they stand for.
_MOST_FOUND: Final = 1024

_NOTHING: Final = Stats(0, 0, (), 0, None, 0, 0.0)

_WHICH: Final = (
    "this session has a graph for each shape: give run() the inputs, or take "
    "session.at({...}), which has the inputs, the outputs and the runs of one shape"
)


def _state_shapes(state: Mapping[str, BoundTensor]) -> tuple[Any, ...]:
    return tuple((t.name, t.shape) for t in state.values())


class OpenTensor:
    """An input or output of a session of many shapes. The memory is that of each shape's own.

    Attributes:
        name: of the tensor.
        shape: the sizes, or names of open dimensions (None without a name); None where it is not
            known, as of outputs.
    """

    def __init__(self, name: str, shape: tuple[int | str | None, ...] | None) -> None:
        self.name = name
        self.shape = shape

    def _refuse(self) -> NoReturn:
        raise BindError(self.name, f"has memory for each shape: {_WHICH}")

    array = buffer = handle = property(_refuse)

    def bind(self, x: Any) -> None:
        """Raises ``BindError``: the tensors of ``session.at(shape)`` are bound."""
        self._refuse()

    def __repr__(self) -> str:
        return f"<tensor {OpenInput(self.name, self.shape)}>"


class ShapeSession(Session):
    """One shape of a ``DynamicSession``, from its ``at``: a session with memory, bindings and
    counters of its own. Its graph stays as long as somebody has this.

    Attributes:
        sizes: open dimension -> its size.
    """

    sizes: dict[str, Any]

    def __init__(
        self, parent: DynamicSession, made: Model | BinaryGraph, freed: _core.Event
    ) -> None:
        """Made by ``DynamicSession.at``."""
        self._options, self.strict = parent._options, parent.strict
        self._counters = type(parent._counters)()
        self.backend, self._policy = parent.backend, parent._policy
        self.model = parent.model
        self._shared, self._freed = parent._shared, freed
        self._parent = parent
        self._tell = weakref.WeakMethod(parent._note)
        self._telling = Guard()
        self._going = False
        if isinstance(made, Model):
            self._compose(made, parent._io, parent._prepare, consume=True)
        else:
            assert self._shared is not None
            assert isinstance(parent.model, ContextBinary)
            bound, _ = self._plan_loaded(parent.model, made, parent._io, parent._prepare)
            self.context = self._shared
            self._use_loaded(parent._loaded[made.name], bound)
            freed.set()  # it stays in the context
        self._end()
        parent._share_state(self, self._taken)
        del self._parent, self._taken

    def _new_context(self) -> Context:
        return self._shared or super()._new_context()

    def _new_graph(self, name: str, config: list[Custom]) -> Graph:
        if self._shared is None:
            self._freed.set()
            return super()._new_graph(name, config)
        priority = self._options.priority
        graph = self.context.create_graph(name, priority=priority, custom=config, freed=self._freed)
        graph._lasts = True  # the model has its files mapped as long as it lives
        return graph

    def _given_states(self) -> Mapping[str, Any]:
        # In a context of its own it is not known yet whether that takes handles.
        self._taken = {} if self._shared is None else self._parent._known_states(self.state)
        return self._taken

    def _leave_context(self) -> None:
        graph = self.__dict__.get("graph")
        if self._shared is None:
            self.context.close()
        elif graph is not None and isinstance(self.model, DynamicModel):
            graph.close()

    def _finish(self) -> None:
        self._async_runs.finish()
        self._say_counted()
        self._memory.drop()
        self._leave_context()

    def _say_counted(self) -> None:
        """What was counted up to now goes to those of all shapes, where it stays after this."""
        graph, note = self.__dict__.get("graph"), self._tell()
        if graph is not None and note is not None:
            with self._telling.lock:  # the later one of two threads has the later count
                note(self, self._counters.stats(self._runner, self.backend.library, graph.handle))

    def __del__(self) -> None:
        # Nothing is freed here: what an interrupt would leave undone is a count. And nothing is
        # final: another thread may get it out of the cache meanwhile, and this is not called again.
        self._going = True
        if not sys.is_finalizing():
            with contextlib.suppress(ClosedError, ForkError):
                self._say_counted()

    @property
    def nbytes(self) -> int:
        """Memory that this shape has for itself: of its inputs and outputs, of its intermediate
        values and for staging; weights are not counted."""
        own = sum(t.nbytes for t in (*self.inputs.values(), *self.outputs.values()))
        stats = self.backend.library.graph_stats(self.graph.handle) or {}
        return own + stats.get("arena_bytes", 0) + stats.get("reserved_bytes", 0)

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        name = self.graph.name if "graph" in self.__dict__ else self.model.name
        return f"<qnnrt.ShapeSession {name!r} on {self.backend.name}{state}>"


class DynamicSession(Session):
    """A session of many shapes: what ``Session(model)`` makes of a ``DynamicModel``, and of a
    context binary with graphs of several shapes of one model.

    ``run(feeds)`` runs the graph of the shape that comes in, which is made when it is first needed.
    ``at(shape)`` is the session of one shape: its inputs and outputs are bound, run in the
    background, profiled. All graphs are in one context, so that weights are there once; with a
    backend library of another maker each has a context of its own, since QNN itself has no call
    that frees one graph.

    Options of the session: "max_shapes", how many graphs stay at most (8 unless given when some
    size is open, else all that are listed), "max_shape_bytes", how much memory they may have for
    themselves (``ShapeSession.nbytes``): the least recently used one goes, as soon as nobody runs
    or has it; the one that was asked for last always stays. Graphs of a binary stay in its context;
    what goes is their memory. "prepare_shapes": True makes the graphs of all listed shapes at once,
    not when they are first needed.

    Attributes:
        inputs, outputs: name -> ``OpenTensor``, in the model's order.
        context: of all graphs; None where each has its own.
    """

    inputs: Mapping[str, OpenTensor]  # type: ignore[assignment]
    outputs: Mapping[str, OpenTensor]  # type: ignore[assignment]

    def __init__(
        self,
        model: DynamicModel | ContextBinary | str | PathLike[str],
        backend: str | PathLike[str] | Backend = "cpu",
        *,
        io: Choice = "memhandle",
        prepare: Choice | None = None,
        strict: bool = False,
        threads: int | None = None,
        precision: str | None = None,
        graph: Sequence[str] | None = None,
        options: Mapping[str, Any] | None = None,
        consume: bool = False,
    ) -> None:
        """As ``Session``; the graphs are not made yet, unless "prepare_shapes" says so. What is
        read of the file for a graph is consumed in any case.

        Raises:
            As ``Session``. What only shows when a graph is made is raised then.
        """
        self._is_closed = self._ending = False
        self._guard = Guard()
        self._begin(model, backend, io, prepare, strict, threads, precision, graph, options)
        self._io, self._prepare = io, prepare
        self._past = _NOTHING
        self._gone: dict[weakref.ref[ShapeSession], Stats] = {}
        self._loaded: dict[str, Graph] = {}
        self._in_binary: dict[Shape, BinaryGraph] = {}
        #: Shapes of state -> the memory, that of the first graph whose state has them.
        self._states: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._found: dict[tuple[Any, ...], Shape] = {}
        if isinstance(self.model, ContextBinary):
            self._shared: Context | None = self._open(self.model)
            listed: Sequence[Shape] | None = tuple(self._in_binary)
        else:
            assert isinstance(self.model, DynamicModel)
            self._options.refuse_graph()
            self._many, listed = self.model, self.model.listed
            own = self.backend.library.has_extensions
            self._shared = self._new_context() if own else None
        given = self._options.given
        most = given.get("max_shapes", None if listed is not None else _MOST_SHAPES)
        self._cache: ShapeCache[ShapeSession] = ShapeCache(
            self._make, most, given.get("max_shape_bytes")
        )
        state = self._many.state
        fed = [i for i in self._many.inputs.values() if i.name not in state]
        self.inputs = MappingProxyType({i.name: OpenTensor(i.name, i.dims) for i in fed})
        given_back = [n for n in self._many.outputs if n not in state.values()]
        self.outputs = MappingProxyType({n: OpenTensor(n, None) for n in given_back})
        if self._shared is not None:
            self._shared._adopt(self)
        try:
            if given.get("prepare_shapes"):
                if listed is None:
                    raise ValueError("option 'prepare_shapes' is for listed shapes: some are open")
                for shape in listed:
                    self._cache.get(shape)
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _takes(model: Any, *, graph: Any = None, options: Any = None, **given: Any) -> bool:
        """A model of many shapes, or a binary with graphs of several shapes of one model."""
        if isinstance(model, DynamicModel):
            return True
        if graph is None and isinstance(options, Mapping):
            graph = options.get("graph")
        if isinstance(graph, str):
            return False
        if isinstance(model, (str, PathLike)) and is_binary(model):
            try:
                model = ContextBinary(model)
            except (ModelError, OSError):  # of another maker, whose system library is not known yet
                return False
        if not isinstance(model, ContextBinary) or len(model.graphs) < 2:
            return False
        names = model.graphs if graph is None else tuple(graph)
        if not all(name in model.graphs for name in names):
            return False
        return len(names) > 1 and binary_shapes(model, names) is not None

    @property
    def context(self) -> Context | None:  # type: ignore[override]
        """Of all graphs; None where each has its own."""
        return self._shared

    def _open(self, binary: ContextBinary) -> Context:
        """The context of a binary, and its graphs by shape."""
        wanted = self._options.given.get("graph")
        names = binary.graphs if wanted is None else tuple(wanted)
        shapes = binary_shapes(binary, names)
        if shapes is None:
            raise ValueError(f"{binary.path}: {', '.join(names)} are not shapes of one model")
        self._in_binary = shapes
        self._many = described(binary, shapes)
        configs = {}
        for g in shapes.values():
            configs[g.name] = self._plan_loaded(binary, g, self._io, self._prepare)[1]
        context, self._loaded = self._open_binary(binary, configs)
        return context

    def _make(self, shape: Shape, freed: _core.Event) -> ShapeSession:
        self._sum_gone()  # there are as many as are there, at most
        try:
            loaded = self._in_binary.get(shape)
            made = self._many.model(shape) if loaded is None else loaded
            session = ShapeSession(self, made, freed)
        except BaseException:
            freed.set()
            raise
        session.sizes = self._many.sizes(shape)
        return session

    def _note(self, session: ShapeSession, counted: Stats) -> None:
        """A graph goes: what it has counted stays. Without a lock: it may go at any time, in a
        thread that has one."""
        counted = replace(counted, private_weight_bytes=0, shared_weight_bytes=0)
        self._gone[weakref.ref(session)] = counted

    def _sum_gone(self, alive: Sequence[ShapeSession] = ()) -> Stats:
        """What those have counted that went, and those that said so and are not among `alive`."""
        with self._guard.lock:
            rest = _NOTHING
            for one, counted in list(self._gone.items()):
                session = one()
                if session is None:
                    self._past = added(self._past, self._gone.pop(one, counted))
                elif session not in alive:
                    rest = added(rest, counted)
            return added(self._past, rest)

    def _bound_tensors(self, *given: Any) -> list[BoundTensor]:
        return []  # those of each shape are its own

    # ---- which shape

    def at(self, shape: Mapping[str, int | Sequence[int]]) -> ShapeSession:
        """The session of one shape, whose graph is made when it is not there yet.

        Args:
            shape: sizes of open dimensions, or shapes of inputs; what follows from the others may
                be left out.

        Raises:
            ValueError: there is no such shape; the message lists those that there are.
            ModelError, UnsupportedOpError, QnnError, CopyError: as ``Session``, of this shape.
        """
        self._check_open()
        return self._cache.get(self._many.find(shape))

    @property
    def shapes(self) -> tuple[dict[str, Any], ...]:
        """Of the graphs that are there, the least recently used first: sizes of open dimensions."""
        return tuple(map(self._many.sizes, self._cache.kept()))

    def run(self, feeds: Mapping[str, Any] | None = None) -> dict[str, np.ndarray]:
        """Execute the graph of the inputs' shapes once; see ``Session.run``.

        Args:
            feeds: input name -> array. Inputs that are left out keep what they have in this shape,
                which must follow from the others.

        Raises:
            ValueError: there is no graph of this shape, and none can be made; or no ``feeds``.
            As ``at``, and as ``Session.run``.
        """
        self._check_open()
        if feeds is None:
            raise ValueError(_WHICH)
        check_named(feeds, self.inputs)
        given = {}
        for name, value in feeds.items():
            if name not in self.inputs:
                names = ", ".join(map(repr, self.inputs))
                raise KeyError(f"no input {name!r}; there are {names}")
            given[name] = np.shape(value)
        key = tuple(given.get(name) for name in self.inputs)
        if (known := self._found.get(key)) is None:
            known = self._many.find(given)
            if len(self._found) >= _MOST_FOUND:
                self._found.clear()
            self._found[key] = known
        session = self._cache.get(known)
        results = session._run_feeds(feeds)
        if session._going:  # it was got while it went
            session._say_counted()
        return results

    def run_async(
        self,
        callback: Callable[[Future[None]], object] | None = None,
        *,
        signal: Signal | None = None,
    ) -> Future[None]:
        """Raises ``ValueError``: ``at(shape).run_async()`` runs one shape in the background."""
        raise ValueError(_WHICH)

    async def run_awaitable(self, *, signal: Signal | None = None) -> None:
        """Raises ``ValueError``: ``at(shape).run_awaitable()`` does."""
        raise ValueError(_WHICH)

    def profile(self, level: str = "detailed") -> list[ProfileEvent]:
        """Raises ``ValueError``: ``at(shape).profile()`` measures one shape."""
        raise ValueError(_WHICH)

    def set_scratch(self, memory: Any) -> None:
        """Raises ``ValueError``: ``at(shape).set_scratch(memory)`` does it for one shape."""
        raise ValueError(_WHICH)

    # ---- all of them

    @property
    def state(self) -> Mapping[str, BoundTensor]:  # type: ignore[override]
        """As ``Session.state``: name -> ``BoundTensor`` of the memory that all shapes share.

        Raises:
            ValueError: no graph is made yet; or state has another shape in another shape.
        """
        return self._of_state().state

    def _of_state(self) -> ShapeSession:
        """The session of a shape, whose state is that of all shapes."""
        self._check_open()
        kept = list(self._cache.kept().values())
        if not kept:
            raise ValueError("no graph is made yet, and so no state: at(shape) makes one")
        if len(self._states) > 1:
            raise ValueError(
                "state has other shapes in other shapes: session.at({...}) has the state of one"
            )
        return kept[-1]

    def _known_states(self, state: Mapping[str, BoundTensor]) -> Mapping[str, Any]:
        """The memory of graphs whose state has the same shapes; none where it is scratch memory."""
        if any(t.io == "scratch" for t in state.values()):
            return {}
        with self._guard.lock:
            return self._states.get(_state_shapes(state), {})

    def _share_state(self, session: ShapeSession, taken: Mapping[str, Any] | None = None) -> None:
        """Let a new graph have the state of those whose state has the same shapes; `taken`: what it
        was made with of it."""
        tensors = session.state.values()
        if not tensors or any(t.io == "scratch" for t in tensors):
            return  # scratch memory is each graph's own
        own = {t.name: t.handle if t._on_device else t.array for t in tensors}
        with self._guard.lock:
            shared = self._states.setdefault(_state_shapes(session.state), own)
        if shared is not own and shared is not taken:
            session.bind_state(shared)
            kept = _core.pool_info()["bytes"]
            del own  # which is as large as the state, and nobody needs such memory again
            _core.pool_trim(kept)

    def _forget_states(self) -> None:
        """Keep no memory for graphs to come: for who binds the state of each."""
        with self._guard.lock:
            self._states.clear()

    def bind_state(self, source: Session | Mapping[str, Any]) -> None:
        """As ``Session.bind_state``, for the graphs that are there and those to come.

        Raises:
            ValueError: as ``state``.
            KeyError, BindError: as ``Session.bind_state``.
        """
        first = self._of_state()
        sessions = list(self._cache.kept().values())
        found = [session._find_state(source) for session in sessions]
        for session, memory in zip(sessions, found, strict=True):
            session._memory.use(memory)
        with self._guard.lock:
            self._states.clear()
        self._share_state(first)

    def save_state(self) -> dict[str, np.ndarray]:
        """As ``Session.save_state``; raises as ``state``."""
        return self._of_state().save_state()

    def load_state(self, arrays: Mapping[str, Any]) -> None:
        """As ``Session.load_state``; raises as ``state``."""
        self._of_state().load_state(arrays)

    def reset_state(self) -> None:
        """As ``Session.reset_state``, in every graph that is there: what recurrent nodes keep is
        each graph's own."""
        self._check_open()
        for session in self._cache.kept().values():
            session.reset_state()

    def save_binary(self, path: str | PathLike[str]) -> None:
        """Write the graphs that are there now as one context binary; ``Session.save_binary``.

        Raises:
            ValueError: there is none yet; or each graph has a context of its own.
        """
        self._check_open()
        if self._shared is None:
            raise ValueError(
                "with another maker's backend library each shape has a context of its own: use "
                "at(shape).save_binary(), or qnnrt context-binary-generator --shape"
            )
        if not self._cache.kept():
            raise ValueError(
                "no graph is made yet: run the shapes that the binary is to have, or give the "
                "session options={'prepare_shapes': True}"
            )
        self._shared.save_binary(path)

    @property
    def stats(self) -> Stats:
        """Counters of all graphs together, those that were let go with them."""
        alive = self._cache.alive()
        return functools.reduce(added, (session.stats for session in alive), self._sum_gone(alive))

    def reset_stats(self) -> None:
        """Start counting anew."""
        with self._guard.lock:
            self._gone.clear()
            self._past = _NOTHING
        for session in self._cache.alive():
            session.reset_stats()

    @property
    def io(self) -> str:
        """As ``Session.io``: as it was given."""
        return self._io if isinstance(self._io, str) else "mixed"

    @property
    def prepare(self) -> str:
        """As ``Session.prepare``: as it was given, or ``io``."""
        given = self._prepare or self._io
        return given if isinstance(given, str) else "mixed"

    @property
    def precision(self) -> str | None:
        """As ``Session.precision``; None before the first graph is made."""
        found = list(self._cache.kept().values())
        return found[0].precision if found else None

    # ---- the end

    def _check_open(self) -> None:
        self.backend.handle  # noqa: B018 - raises in a forked child
        if self._is_closed:
            raise ClosedError("this session is closed")

    @property
    def closed(self) -> bool:
        """Whether the session was closed."""
        return self._is_closed

    def close(self) -> None:
        """Close the sessions of all shapes, those from ``at``, too, and the context."""
        self._is_closed = True
        with self._guard.lock:
            if self._ending:  # the context closes what stands on it, this session, too
                return
            self._ending = True
        try:
            for session in self._cache.end():
                session.close()
            self._states.clear()
            if self._shared is not None:
                self._shared.close()
            self._policy.close()
        finally:
            self._ending = False  # after an interrupt the next call begins anew

    def __repr__(self) -> str:
        state = ", closed" if self.closed else f", {len(self._cache.kept())} shapes"
        return f"<qnnrt.DynamicSession {self.model.name!r} on {self.backend.name}{state}>"
