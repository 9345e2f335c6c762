"""The memory of a session: its own buffers, what is bound in their place, and as what."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from . import _core
from ._build import one_word
from .backend import Backend
from .binding import BoundTensor, as_array, buffer_of_fd, check_layout
from .context import Context
from .errors import BindError, ClosedError, CopyError, MemError
from .graph import Graph
from .memhandle import MemHandle
from .memory import alloc, buffer_of

Buffer: TypeAlias = _core.Buffer


class SessionMemory(_core.Runner):
    """The part of ``qnnrt.Session`` that binds memory to tensors."""

    backend: Backend
    context: Context
    graph: Graph
    inputs: Mapping[str, BoundTensor]
    outputs: Mapping[str, BoundTensor]
    strict: bool
    _heap: str | None
    _registrations: int
    _fallback: str | None

    @property
    def io(self) -> str:
        """How tensors are bound: "memhandle", "raw" or "mixed"."""
        return one_word(t.io for t in (*self.inputs.values(), *self.outputs.values()))

    @property
    def prepare(self) -> str:
        """The memory type that the graph was built with: "memhandle", "raw" or "mixed"."""
        return one_word(t.prepare for t in (*self.inputs.values(), *self.outputs.values()))

    def _usable_now(self) -> None:
        self.context.handle  # noqa: B018 - raises when closed, or in a forked child
        if self.closed:
            raise ClosedError("this session is closed")

    def _own_memory(self, t: BoundTensor) -> tuple[np.ndarray, Buffer, MemHandle | None]:
        buffer = alloc(max(t.nbytes, 1), heap=self._heap)
        array = buffer.array(t.shape, t.dtype)
        array[...] = 0
        if t.io == "raw" or self._fallback:
            t.io = "raw"
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
            t.io = "raw"
            self._fall_back(reason)
            return array, buffer, None

    def _fall_back(self, reason: str) -> None:
        self._fallback = reason
        path = self.backend.library.path
        if path not in _warned:
            _warned.add(path)
            warnings.warn(
                f"{reason}: tensors are bound as RAW memory, which it may copy. Use io='raw' to "
                "say so, or strict=True to be told",
                RuntimeWarning,
                stacklevel=_caller_level(),
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
        if t.io == "raw":
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
        if t.io == "raw":
            raise BindError(t.name, "is bound as RAW memory (io='raw'), not by a memory handle")
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

    def _bind_all(
        self,
        bound: list[BoundTensor],
        memory: list[tuple[np.ndarray, Buffer, MemHandle | None]],
    ) -> None:
        order = {t.name: t for t in (*self.graph.inputs, *self.graph.outputs)}
        inputs = [t for t in bound if not t._output]
        outputs = [t for t in bound if t._output]
        self._prepare(
            self.backend.library,
            self.graph.handle,
            [order[t.name] for t in inputs],
            [order[t.name] for t in outputs],
        )
        for t, (array, buffer, handle) in zip(bound, memory, strict=True):
            self._use(t, array, buffer, 0, handle)
        self.inputs = MappingProxyType({t.name: t for t in inputs})
        self.outputs = MappingProxyType({t.name: t for t in outputs})


_warned: set[str] = set()


def _caller_level() -> int:
    """The stack level, for ``warnings.warn`` in the function that asks, of the program's frame."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        level, frame = level + 1, frame.f_back
    return level
