"""The memory of a session: its own buffers, what is bound in their place, and as what."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np

from .. import lpai
from .._native import _core
from ..abi import constants as abi
from ..errors import BindError, ClosedError, CopyError, MemError
from ..gpu import Options as GpuOptions
from ..gpu.host import device_memory, pinned
from ..gpu.imports import ImportRefused
from ..memory import alloc, buffer_of
from ..model import ContextBinary
from ..qnn.backend import Backend
from ..qnn.context import Context
from ..qnn.graph import Graph
from ..qnn.memhandle import MemHandle
from ..qnn.opencl_handle import is_opencl_buffer
from ..qnn.options import own_graph_config
from .binding import BoundTensor, as_array, buffer_of_fd, check_layout
from .build import Choice, one_word

Buffer: TypeAlias = _core.Buffer
_FED: Final = "the array fed is not the bound memory"
#: What a tensor is bound to; nothing while it lies in scratch memory.
_Memory: TypeAlias = "tuple[np.ndarray | None, Buffer | None, MemHandle | None]"


class SessionMemory(_core.Runner):
    """The part of ``qnnrt.Session`` that binds memory to tensors."""

    backend: Backend
    context: Context
    graph: Graph
    inputs: Mapping[str, BoundTensor]
    outputs: Mapping[str, BoundTensor]
    strict: bool
    _heap: str | None
    _copies: dict[tuple[str, str, str], int]
    _registrations: int
    _fallback: str | None
    _lpai: lpai.Options | None
    _allocator: lpai.Allocator | None

    @property
    def io(self) -> str:
        """How tensors are bound: "memhandle", "raw", "scratch" or "mixed"."""
        return one_word(t.io for t in (*self.inputs.values(), *self.outputs.values()))

    @property
    def prepare(self) -> str:
        """The memory type that the graph was built with: "memhandle", "raw" or "mixed"."""
        return one_word(t.prepare for t in (*self.inputs.values(), *self.outputs.values()))

    def _usable_now(self) -> None:
        self.context.handle  # noqa: B018 - raises when closed, or in a forked child
        if self.closed:
            raise ClosedError("this session is closed")

    # ---- LPAI

    def _check_scratch(self, io: Choice) -> None:
        words = io.values() if isinstance(io, Mapping) else [io]
        if self._lpai is None and "scratch" in words:
            raise ValueError(
                f"io='scratch' is for LPAI backends: {self.backend.name} has no scratch memory of "
                "the client's"
            )

    def _graph_config(
        self, threads: int | None, ios: Mapping[str, str], given: Mapping[str, Any]
    ) -> list[bytes]:
        """Custom config structs of the graph; whether tensors have places in scratch memory."""
        own_io = self._lpai is not None and "scratch" not in ios.values()
        own = {name: given.get(name) for name in ("kernels", "plan_milliseconds")}
        config = [bytes(blob) for blob in given.get("graph_config", ())] + own_graph_config(
            self.backend.library, threads=threads, strict=self.strict, exclude_io=own_io, **own
        )
        return [*config, *gpu.for_graph()] if (gpu := self._gpu_options(given)) else config

    def _gpu_options(self, given: Mapping[str, Any]) -> GpuOptions | None:
        told = given.get("gpu")
        return GpuOptions.of(told) if told is not None else self.backend._gpu

    def _context_options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        options = dict(given.get("context", {}))
        if self._lpai is not None and (custom := self._lpai.for_context()):
            options["custom"] = [*options.get("custom", ()), *custom]
        if (gpu := self._gpu_options(given)) and (hints := gpu.for_context()):
            options["custom"] = [*options.get("custom", ()), *hints]
        return options

    def _give_pools(self) -> None:
        if self._lpai is not None:
            self._lpai.prepare(self.graph, heap=self._heap)

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
        self._usable_now()
        if self._lpai is None:
            raise ValueError(f"{self.backend.name} has no scratch memory of the client's")
        lpai.set_scratch(self.graph, memory)

    def reset_state(self) -> None:
        """Let the next run start afresh: zero the state that nodes such as Lstm keep between runs.
        Waits for a run in flight.

        Raises:
            GraphError: 1000, the backend is not qnnrt's own.
        """
        self._usable_now()
        self.graph.reset_state()

    def _scratch_array(self, t: BoundTensor) -> np.ndarray:
        return lpai.io_array(self.graph, t.name)

    def _alignment(self) -> lpai.Alignment:
        """What the address and size of a bound buffer must be multiples of."""
        if self._lpai is None:
            return lpai.Alignment(1, 1)
        return lpai.alignment(self.backend)

    # ---- binding

    def _placed_model(self, binary: ContextBinary) -> ContextBinary | Buffer:
        """A context binary in the kind of memory that inputs and outputs lie in."""
        if self._allocator is None:
            return binary
        piece = self._allocator.alloc(len(binary.data))
        memoryview(piece)[:] = binary.data
        return piece

    def _own_buffer(self, nbytes: int) -> Buffer:
        if self._allocator is not None:
            return self._allocator.alloc(max(nbytes, 1))
        needed = self._alignment()
        nbytes = needed.round_up(max(nbytes, 1))
        return alloc(nbytes, heap=self._heap, alignment=max(needed.start, 4096))

    def _own_memory(self, t: BoundTensor) -> _Memory:
        if t.io == "scratch":
            return None, None, None
        if t.io == "raw" or self._fallback:
            t.io = "raw"
            return self._own_raw_memory(t)
        buffer = self._own_buffer(t.nbytes)
        array = buffer.array(t.shape, t.dtype)
        array[...] = 0
        try:
            return array, buffer, self._register(t, buffer, 0)
        except MemError as e:
            if e.code not in (1000, 8005):
                raise
            if self._own_gpu and self.strict:  # nothing to copy where the host has no part in it
                return (
                    None,
                    None,
                    self._register(t, device_memory(self.backend.library, t.nbytes), 0),
                )
            reason = f"{self.backend.name} takes no memory handles ({e.name})"
            if isinstance(e.__cause__, ImportRefused):
                reason = str(e.__cause__)
            if self.strict:
                raise CopyError(
                    t.name,
                    f"{reason}, so its memory would be copied: use io='raw', or strict=False",
                ) from e
            t.io = "raw"
            self._fall_back(reason)
            return self._own_raw_memory(t)

    @property
    def _own_gpu(self) -> bool:
        return self.backend.id == abi.QNN_BACKEND_ID_GPU and self.backend.library.has_extensions

    def _own_raw_memory(self, t: BoundTensor) -> _Memory:
        array = pinned(self.backend.library, t.shape, t.dtype) if self._own_gpu else None
        buffer = None
        if array is None:
            buffer = self._own_buffer(t.nbytes)
            array = buffer.array(t.shape, t.dtype)
        array[...] = 0
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

    def _kind(self, buffer: Any) -> str:
        """As what a buffer is registered."""
        if self._lpai is not None:
            return "lpai"
        if self.backend.id != abi.QNN_BACKEND_ID_GPU:
            return "shared_buffer"
        # Other makers' GPU backends have a context of their own, and see host memory by its fd.
        own = self.backend.library.has_extensions or not isinstance(buffer, Buffer)
        return "opencl" if own else "dma_buf"

    def _register(self, t: BoundTensor, buffer: Any, offset: int) -> MemHandle:
        before = self.context.registrations
        handle = self.context.get_or_register(
            buffer,
            t.shape or (1,),
            t._code,
            offset=offset,
            kind=self._kind(buffer),
        )
        self._registrations += self.context.registrations - before
        return handle

    def _use(
        self,
        t: BoundTensor,
        array: np.ndarray | None,
        buffer: Buffer | None,
        offset: int,
        handle: MemHandle | None,
    ) -> None:
        if handle is not None:
            self._bind_handle(t._index, handle.handle, (handle, array))
        elif array is None:
            self._bind_raw(t._index, 0, 0, None)
        else:
            self._bind_raw(t._index, array.ctypes.data, t.nbytes, (buffer, array))
        t._array, t._buffer, t._offset, t._handle = array, buffer, offset, handle

    def _bind(self, t: BoundTensor, x: Any) -> None:
        self._usable_now()
        if t.io == "scratch":
            raise BindError(
                t.name,
                "lies in the scratch memory (io='scratch'), where session.set_scratch() moves it: "
                "use io='memhandle' or 'raw' to bind memory of your own",
            )
        if isinstance(x, MemHandle):
            self._bind_mem_handle(t, x)
            return
        if self.backend.id == abi.QNN_BACKEND_ID_GPU and is_opencl_buffer(x):
            self._use(t, None, None, 0, self._register(t, x, 0))
            t.io = "memhandle"
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
        check_layout(t, array, self._alignment().start)
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
        on_device = handle.kind == "opencl" and not isinstance(handle.buffer, Buffer)
        if t.io == "raw" and not on_device:
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
        if on_device:
            self._use(t, None, None, 0, handle)
            t.io = "memhandle"
            return
        array = handle.array.reshape(t.shape)
        check_layout(t, array, self._alignment().start)
        self._use(t, array, handle.buffer, handle.offset, handle)

    # ---- copies of the session's own

    def _refuse_results(self) -> None:
        """``strict``: outputs that ``run(feeds)`` could only return as copies."""
        for t in self.outputs.values():
            if self.strict and t._on_device:
                raise CopyError(
                    t.name,
                    "its memory is the device's, which run(feeds) would copy: use run(), and "
                    f"outputs[{t.name!r}].handle.map()",
                )

    def _write(self, t: BoundTensor, array: np.ndarray) -> None:
        if t._on_device:
            t._opencl.write(array)
        else:
            t.array[...] = array
        self._count(t, "in", _FED)

    def _read(self, t: BoundTensor) -> np.ndarray:
        if t._on_device:
            result = np.empty(t.shape, t.dtype)
            t._opencl.read(result)
        else:
            result = t.array.copy()
        self._count(t, "out", "run(feeds) returns arrays of the caller's own")
        return result

    def _count(self, t: BoundTensor, direction: str, reason: str) -> None:
        key = (t.name, direction, reason)
        self._copies[key] = self._copies.get(key, 0) + t.nbytes

    def _bind_all(
        self,
        bound: list[BoundTensor],
        memory: list[_Memory],
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
        for t in bound:
            if t.io == "scratch":
                t.array[...] = 0


_warned: set[str] = set()


def _caller_level() -> int:
    """The stack level, for ``warnings.warn`` in the function that asks, of the program's frame."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        level, frame = level + 1, frame.f_back
    return level
