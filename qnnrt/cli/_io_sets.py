"""Memory for one inference: filled from files, executed on, written to files."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from .._native import _core
from ..errors import MemError
from ..lpai import ID as LPAI
from ..memory import alloc
from ..qnn import Profile
from ..qnn.memhandle import NO_SUCH_MEMORY, MemHandle
from ._common import UsageError, make_folder
from ._input_list import FileTypes, Inference, Piece
from ._lpai import LpaiTools
from ._prepare import Ready
from ._values import CHUNK, FILE_FLOAT, decode, encode, is_float32, nbytes

_ALIGNMENT = 4096  # between tensors in one buffer

#: --io_tensor_mem_handle_type -> how memory is registered
HANDLE_TYPES = {"ion": "ion", "dma_buf": "dma_buf", "shared_buffer": "shared_buffer"}


class IoSet:
    """One set of inputs and outputs of a graph.

    Attributes:
        arrays: the memory of each tensor, inputs first, as a flat array of its elements.
        holds: which inference's inputs are in it; None before the first.
        pending: an execution in flight on it; None when there is none.
    """

    def __init__(self, ready: Ready, kind: str | None, lpai: LpaiTools | None = None) -> None:
        """Allocate and bind.

        Args:
            kind: how memory is registered; None binds plain addresses.
            lpai: where the memory comes from, on lpai.

        Raises:
            MemError: the backend does not take such handles.
            Error: no memory, on lpai.
        """
        self.ready = ready
        self.holds: int | None = None
        self.pending: Future[None] | None = None
        self.profile: Profile | None = None
        self._done = _core.Event()
        self._finished = 0.0
        tensors = [*ready.inputs, *ready.outputs]
        offsets, self.buffers = _allocate([max(nbytes(t), 1) for t in tensors], kind, lpai)
        self.arrays = [
            b.array(int(np.prod(t.shape, dtype=np.int64)), t.dtype, offset)
            for t, (b, offset) in zip(tensors, offsets, strict=True)
        ]
        self.handles: list[MemHandle] = []
        if kind is not None:
            self.handles = [
                _register(ready, t, b, offset, kind)
                for t, (b, offset) in zip(tensors, offsets, strict=True)
            ]
        shaped = [a.reshape(t.shape) for a, t in zip(self.arrays, tensors, strict=True)]
        self._bindings: Sequence[Any] = self.handles or shaped
        self._runner = _core.Runner()
        library = ready.context.backend.library
        self._runner.prepare(library, ready.graph.handle, ready.inputs, ready.outputs)
        for i, (t, array) in enumerate(zip(tensors, self.arrays, strict=True)):
            if kind is None:
                self._runner.bind_raw(i, array.ctypes.data, nbytes(t), array)
            else:
                self._runner.bind_handle(i, self.handles[i].handle, self.handles[i])

    def close(self) -> None:
        """Wait for what is in flight, then let go of handles and memory."""
        if self.pending is not None:
            self.pending.exception()
        self._runner.stop()
        for handle in self.handles:
            handle.close()

    def _access(self, write: bool) -> ExitStack:
        """CPU access to memory that is not coherent with a device; free elsewhere."""
        stack = ExitStack()
        for buffer in self.buffers:
            if not buffer.coherent:
                stack.enter_context(buffer.cpu_access(read=not write, write=write))
        return stack

    def read(self, number: int, inference: Inference, types: FileTypes) -> None:
        """Fill the inputs, unless they hold this inference's already."""
        if self.holds == number:
            return
        self.holds = None
        with self._access(write=True):
            for t, array, pieces in zip(
                self.ready.inputs, self.arrays, inference.inputs, strict=False
            ):
                filled = 0
                for piece in pieces:
                    part = array[piece.start : piece.start + piece.count]
                    _read(t, part, piece, t.name in types.native)
                    filled += piece.count
                array[filled:] = 0
        self.holds = number

    def run(self) -> float:
        """Execute and wait; returns the seconds that it took."""
        start = time.perf_counter()
        if self.profile is None:
            self._runner.run()
        else:
            self._runner.execute(self.profile.handle)
        return time.perf_counter() - start

    def start(self) -> None:
        """Execute in the background."""
        n = len(self.ready.inputs)
        self._done.clear()
        self.pending = self.ready.graph.execute_async(
            self._bindings[:n], self._bindings[n:], profile=self.profile
        )
        self.pending.add_done_callback(self._note)

    def _note(self, _: Future[None]) -> None:
        self._finished = time.perf_counter()
        self._done.set()

    def wait(self) -> float:
        """Until the execution in flight is over; returns when it was, on ``time.perf_counter``.

        Raises:
            QnnError: it failed.
        """
        pending, self.pending = self.pending, None
        if pending is not None:
            self._done.wait()
            pending.result()
        return self._finished

    def write(
        self, inference: Inference, files: Sequence[tuple[str, str]], folder: Path, keep: int | None
    ) -> int:
        """Write outputs to ``Result_<n>`` folders; returns how many files.

        Args:
            files: for each output its name as a file, and "float", "native", both with a space
                between, or "".
            keep: results from this number on are not written; None writes all.
        """
        written = 0
        outputs = self.arrays[len(self.ready.inputs) :]
        with self._access(write=False):
            for t, array, parts, (stem, kinds) in zip(
                self.ready.outputs, outputs, inference.outputs, files, strict=True
            ):
                for part in parts:
                    if keep is not None and part.result >= keep:
                        continue
                    where = folder / f"Result_{part.result}"
                    if part.file_start == 0:
                        make_folder(where)
                    values = array[part.start : part.start + part.count]
                    for kind, name in file_names(stem, kinds).items():
                        _write(where / name, t, values, part.start, kind, part.file_start)
                        written += 1
        return written


def file_names(stem: str, kinds: str) -> dict[str, str]:
    """Kind -> file, for kinds with a space between."""
    names = {"float": f"{stem}.raw", "native": f"{stem}_native.raw"}
    return {kind: names[kind] for kind in kinds.split()}


def _allocate(
    sizes: Sequence[int], kind: str | None, lpai: LpaiTools | None
) -> tuple[list[tuple[_core.Buffer, int]], list[_core.Buffer]]:
    """(buffer, offset) for each size: one buffer in all for "shared_buffer", else one for each."""
    if lpai is not None:
        parts = lpai.allocate(sizes, together=kind == "shared_buffer")
        return parts, list(dict.fromkeys(buffer for buffer, _ in parts))
    if kind != "shared_buffer":
        buffers = [alloc(size) for size in sizes]
        return [(b, 0) for b in buffers], buffers
    offsets, total = [], 0
    for size in sizes:
        offsets.append(total)
        total += -(-size // _ALIGNMENT) * _ALIGNMENT
    buffer = alloc(max(total, 1))
    return [(buffer, offset) for offset in offsets], [buffer]


def _register(
    ready: Ready, tensor: _core.Tensor, buffer: _core.Buffer, offset: int, kind: str
) -> MemHandle:
    if kind == "shared_buffer" and ready.context.backend.id == LPAI:
        kind = "lpai"
    try:
        return ready.context.register(
            buffer, tensor.shape or (1,), tensor.data_type, offset=offset, kind=kind
        )
    except MemError as error:
        if error.code not in NO_SUCH_MEMORY:
            raise
        raise UsageError(
            f"{ready.context.backend.name} takes no memory handles of type {kind} ({error.name}): "
            "leave --shared_buffer and --io_tensor_mem_handle_type out"
        ) from error


def _read(tensor: _core.Tensor, out: np.ndarray, piece: Piece, native: bool) -> None:
    """A file's bytes into memory that is executed on; through a buffer only to convert them."""
    with open(piece.path, "rb", buffering=0) as file:
        if native or is_float32(tensor):
            file.seek(piece.file_start * out.itemsize)
            _fill(file, out, piece.path)
            return
        file.seek(piece.file_start * FILE_FLOAT.itemsize)
        buffer = np.empty(min(CHUNK, len(out)), FILE_FLOAT)
        for at in range(0, len(out), CHUNK):
            values = buffer[: len(out) - at]
            _fill(file, values, piece.path)
            start = piece.start + at
            encode(tensor, values, out[at : at + len(values)], start, str(piece.path))


def _fill(file: Any, out: np.ndarray, path: Path) -> None:
    view = memoryview(out.view(np.uint8).data)
    while view.nbytes:
        got = file.readinto(view)
        if not got:
            raise UsageError(
                f"{path}: {view.nbytes} bytes are missing: the file has become shorter"
            )
        view = view[got:]


def _write(
    path: Path, tensor: _core.Tensor, values: np.ndarray, start: int, kind: str, at: int
) -> None:
    """Elements of an output into a file, which is begun anew when they are its first."""
    with open(path, "r+b" if at else "wb", buffering=0) as file:
        size = FILE_FLOAT.itemsize if kind == "float" else values.itemsize
        file.seek(at * size)
        if kind == "native" or is_float32(tensor):
            _dump(file, values)
            return
        for i in range(0, len(values), CHUNK):
            _dump(file, decode(tensor, values[i : i + CHUNK], start + i))


def _dump(file: Any, values: np.ndarray) -> None:
    view = memoryview(values.view(np.uint8).data)
    while view.nbytes:
        view = view[file.write(view) :]
