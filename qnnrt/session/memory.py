"""The memory of a session: buffers of its own, and memory of the caller's."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .._native import _core
from ..errors import BindError, ClosedError, CopyError, MemError
from ..memory import buffer_of
from ..qnn.context import Context
from ..qnn.graph import Graph
from ..qnn.memhandle import NO_SUCH_MEMORY, MemHandle, PartHandles, Parts
from ..support.guard import Guard
from .binding import (
    BoundTensor,
    Together,
    as_array,
    buffer_of_fd,
    check_layout,
    without_dimensions,
)
from .policies import MemoryPolicy
from .stats import Counters

Buffer: TypeAlias = _core.Buffer


class _Memory(NamedTuple):
    """What a tensor is bound to; nothing while it lies in scratch memory."""

    array: np.ndarray | None = None
    buffer: Buffer | None = None
    handle: MemHandle | None = None
    offset: int = 0

    @property
    def on_device(self) -> bool:
        return self.array is None and self.handle is not None


#: Memory that fits its tensor, for ``SessionMemory.use``.
Found: TypeAlias = list[tuple[BoundTensor, _Memory]]


class SessionMemory:
    """Allocates, registers and binds the memory of a session's tensors, as the policy says."""

    def __init__(
        self,
        runner: _core.Runner,
        policy: MemoryPolicy,
        context: Context,
        tensors: Sequence[BoundTensor],
        strict: bool,
        counters: Counters,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        """Allocate and register a buffer for each tensor, but for those whose memory is `given`, as
        ``BoundTensor.bind`` takes it."""
        self._runner = runner
        self._policy = policy
        self._context = context
        self._tensors = tensors
        self._strict = strict
        self._counters = counters
        self._graph: Graph | None = None
        #: Of the states, once they were bound together.
        self.together: Together | None = None
        self.guard = Guard()
        given = given or {}
        self._own = [
            self._taken(t, given[t.name]) if t.name in given else self._allocate(t) for t in tensors
        ]

    @property
    def closed(self) -> bool:
        """Whether the session is closed."""
        return self._runner.closed

    def check_open(self) -> None:
        """Raises ``ClosedError``, or ``ForkError`` in a forked child, unless it can be used."""
        self._context.handle  # noqa: B018 - raises when closed, or in a forked child
        if self.closed:
            raise ClosedError("this session is closed")

    def prepare(self, graph: Graph) -> None:
        """Bind every tensor of a finalized graph to its own memory."""
        self._graph = graph
        order = {t.name: t for t in (*graph.inputs, *graph.states, *graph.outputs)}
        written = sorted(
            (t._written_as, t.name) for t in self._tensors if t._written_as is not None
        )
        self._runner.prepare(
            self._policy.backend.library,
            graph.handle,
            [order[t.name] for t in self._tensors if not t._is_output],
            [
                *(order[t.name] for t in self._tensors if t._is_output),
                *(order[name] for _, name in written),
            ],
            graph,
        )
        for t, memory in zip(self._tensors, self._own, strict=True):
            self._use(t, memory)
            t._attach(self)
        self._own = []
        for t in self._tensors:
            if t.io == "scratch":
                t._memory()[...] = 0

    def drop(self) -> None:
        """Drop what the tensors were bound to; arrays that a caller has keep their buffers."""
        with self.guard.lock:
            for t in self._tensors:
                t._use(None)

    def scratch_array(self, t: BoundTensor) -> np.ndarray:
        """Where a tensor lies in the graph's scratch memory."""
        assert self._graph is not None
        return self._policy.scratch_array(self._graph, t.name)

    # ---- memory of the session's own

    def _allocate(self, t: BoundTensor) -> _Memory:
        if t.io == "scratch":
            return _Memory()
        if t.nbytes == 0:  # there is nothing to register
            return _Memory(np.empty(t.shape, t.dtype))
        if t.io == "raw" or self._counters.fallback:
            return self._allocate_raw(t)
        buffer = self._policy.allocate(t.nbytes)
        array = buffer.array(t.shape, t.dtype)
        array[...] = 0
        try:
            return _Memory(array, buffer, self._register(t, buffer, 0))
        except MemError as e:
            if e.code not in NO_SUCH_MEMORY:
                raise
            if self._strict and (memory := self._policy.device_buffer(t.nbytes)) is not None:
                # Nothing to copy where the host has no part in it.
                return _Memory(handle=self._register(t, memory, 0))
            reason = self._policy.why_refused(e)
            if self._strict:
                raise CopyError(
                    t.name,
                    f"{reason}, so its memory would be copied: use io='raw', or strict=False",
                ) from e
            self._fall_back(reason)
            return self._allocate_raw(t)

    def _taken(self, t: BoundTensor, x: Any) -> _Memory:
        t._given = True
        return self._find(t, x)

    def _allocate_raw(self, t: BoundTensor) -> _Memory:
        t.io = "raw"
        array, buffer = self._policy.raw_array(t.shape, t.dtype)
        array[...] = 0
        return _Memory(array, buffer)

    def _fall_back(self, reason: str) -> None:
        self._counters.fallback = reason
        path = self._policy.backend.library.path
        if path not in _warned:
            _warned.add(path)
            warnings.warn(
                f"{reason}: tensors are bound as RAW memory, which it may copy. Use io='raw' to "
                "say so, or strict=True to be told",
                RuntimeWarning,
                stacklevel=_caller_level(),
            )

    def _register(self, t: BoundTensor, buffer: Any, offset: int) -> MemHandle:
        with self._context._registering.lock:
            before = self._context.registrations
            handle = self._context.get_or_register(
                buffer, t.shape or (1,), t._code, offset=offset, kind=self._policy.kind(buffer)
            )
            self._counters.registered.n += self._context.registrations - before
        return handle

    # ---- memory of the caller's

    def _use(self, t: BoundTensor, memory: _Memory) -> None:
        array, buffer, handle, offset = memory
        if memory.on_device:
            t.io = "memhandle"
        for index in (t._index, t._written_as):
            if index is None:
                continue
            if handle is not None:
                self._runner.bind_handle(index, handle.handle, (handle, array))
            elif array is None:
                self._runner.bind_raw(index, 0, 0, None)
            else:
                self._runner.bind_raw(index, array.ctypes.data, t.nbytes, (buffer, array))
        t._use(array, buffer, offset, handle)

    def bind(self, t: BoundTensor, x: Any) -> None:
        """``BoundTensor.bind``."""
        self.use(self.find([(t, x)]))

    def find(self, given: Iterable[tuple[BoundTensor, Any]]) -> Found:
        """The memory of what ``BoundTensor.bind`` takes, for each tensor; nothing is bound yet."""
        self.check_open()
        return [(t, self._find(t, x)) for t, x in given]

    def use(self, found: Found) -> None:
        """Bind what ``find`` has found."""
        with self.guard.lock:
            for t, memory in found:
                self._use(t, memory)
                t._given = True

    def _find(self, t: BoundTensor, x: Any) -> _Memory:
        if t.io == "scratch":
            raise BindError(
                t.name,
                "lies in the scratch memory (io='scratch'), where session.set_scratch() moves it: "
                "use io='memhandle' or 'raw' to bind memory of your own",
            )
        if isinstance(x, MemHandle):
            return self._of_handle(t, x)
        if self._policy.is_device_memory(x):
            return _Memory(handle=self._register(t, x, 0))
        return self._of_array(t, x)

    def _of_array(self, t: BoundTensor, x: Any) -> _Memory:
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
            array = without_dimensions(t, as_array(t, x))
            try:
                buffer, offset = buffer_of(array)
            except LookupError:
                buffer = None
        check_layout(t, array, self._policy.alignment)
        if t.io == "raw" or t.nbytes == 0:
            return _Memory(array, buffer, None, offset)
        if buffer is None or buffer.heap == "wrapped":
            raise BindError(
                t.name,
                f"the array at {array.ctypes.data:#x} is not on a shared buffer, which a memory "
                "handle needs: make it with qnnrt.alloc_array(), bind a Buffer, or use io='raw'",
            )
        buffer.check_alive()
        return _Memory(array, buffer, self._register(t, buffer, offset), offset)

    def bind_states(
        self, states: Mapping[str, BoundTensor], buffer: Buffer, parts: Parts
    ) -> PartHandles | None:
        """All states, in one buffer, as ``parts`` says of each; what they are bound by."""
        if self.together is None and self._by_handle(states.values(), buffer):
            self.together = _together(list(states.values()))
        group = None if self.together is None else self.together.bind(self, buffer, parts)
        if group is None:  # one by one; `find` says so where the session is closed
            each = zip(states.values(), parts.tensors, strict=True)
            self.use(self.find((t, buffer.array(t.shape, t.dtype, at)) for t, (_, _, at) in each))
        return group

    def _by_handle(self, tensors: Iterable[BoundTensor], buffer: Buffer) -> bool:
        """Whether they are bound by handles of parts of buffers, which stays so."""
        return (
            not self._counters.fallback
            and self._policy.kind(buffer) == "shared_buffer"
            and all(t.io == "memhandle" and t.nbytes for t in tensors)
        )

    def _of_handle(self, t: BoundTensor, handle: MemHandle) -> _Memory:
        if t.io == "raw" and not handle.on_device:
            raise BindError(t.name, "is bound as RAW memory (io='raw'), not by a memory handle")
        if handle.context is not self._context:
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
        if handle.on_device:
            return _Memory(handle=handle)
        array = handle.array.reshape(t.shape)
        check_layout(t, array, self._policy.alignment)
        return _Memory(array, handle.buffer, handle, handle.offset)


def _together(tensors: list[BoundTensor]) -> Together:
    places = [t._index for t in tensors]
    places += [t._written_as for t in tensors if t._written_as is not None]
    together = Together(tensors[0].name, tensors, places)
    for i, t in enumerate(tensors):
        t._together, t._place, t._given = together, i, True
    return together


_warned: set[str] = set()  # paths of backends


def _caller_level() -> int:
    """The stack level, for ``warnings.warn`` in the function that asks, of the program's frame."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        level, frame = level + 1, frame.f_back
    return level
