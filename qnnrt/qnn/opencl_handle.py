"""Memory handles on OpenCL buffers."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .._native import _core
from .._native.descriptor import OPENCL_STRUCT, MemDescriptor
from ..abi import constants as abi
from ..dtypes import data_type, numpy_dtype
from ..errors import make_error
from ..gpu.device import pyopencl
from ..gpu.imports import Import, ImportRefused, end_import, import_buffer
from ..gpu.mapped import end, mapped
from .context_base import ContextBase
from .foreign_memory import is_opencl_buffer, refuse_memory
from .memhandle import MemHandle, buffer_hold

__all__ = ["OpenCLHandle", "identity", "is_opencl_buffer"]


def identity(buffer: Any) -> tuple[Any, ...]:
    """What two objects on the same OpenCL buffer have in common."""
    return ("cl_mem", buffer.int_ptr)


class OpenCLHandle(MemHandle):
    """An OpenCL buffer registered in a context. Made by ``Context.register(kind="opencl")``.

    Attributes:
        buffer: what was registered: a ``pyopencl.Buffer``, or a ``qnnrt.Buffer`` that the device
            uses in place.
        cl_buffer: a ``pyopencl.Buffer`` on the same memory, of the handle's own: it stays when the
            client releases ``buffer``.
        via: how the device came to use a ``qnnrt.Buffer``: an OpenCL extension, or
            "CL_MEM_USE_HOST_PTR"; None for a ``pyopencl.Buffer``.
    """

    def __init__(
        self,
        context: ContextBase,
        buffer: Any,
        shape: Sequence[int] | int,
        dtype: Any,
        offset: int = 0,
    ) -> None:
        if dtype is None:
            raise ValueError("kind 'opencl' needs the tensor's shape and type")
        self.context = context
        self.buffer = buffer
        self.kind = "opencl"
        self.shape = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
        if min(self.shape, default=0) < 0:
            raise ValueError(f"a shape of sizes from 0 on is needed, not {list(self.shape)}")
        self.data_type = data_type(dtype)
        self.dtype = numpy_dtype(self.data_type)
        self.nbytes = math.prod(self.shape) * self.dtype.itemsize
        self.offset = offset
        library: Any = context._library
        imported: Import | None = None
        if isinstance(buffer, _core.Buffer):
            imported = self._import(library, buffer)
            self.cl_buffer = imported.buffer
        elif is_opencl_buffer(buffer):
            if offset:
                raise ValueError(
                    f"kind 'opencl' names a whole buffer, not byte {offset} of it: register "
                    "buffer.get_sub_region(...)"
                )
            # An owner of our own: the client may release its at any time.
            self.cl_buffer = pyopencl().Buffer.from_int_ptr(buffer.int_ptr, retain=True)
        else:
            refuse_memory(buffer, self.kind)
        self.via = imported.via if imported is not None else None
        # The host has it between executions; where that takes mapping, it is mapped.
        self._changes_owners = imported is not None and imported.owners is not None
        number = self.cl_buffer.int_ptr
        item = MemDescriptor(
            shape=self.shape,
            data_type=self.data_type,
            mem_type=abi.QNN_MEM_TYPE_CUSTOM,
            custom=OPENCL_STRUCT,
            size=self.nbytes,
            address=number,
        )
        if imported is None:
            held = self._register(library, library.mem_register, context.handle, [item])
        else:
            try:
                held = self._register(
                    library, library.memories.register, context.handle, [item], imported
                )
            except BaseException:
                end_import(imported)
                raise
        keep: Any = (buffer, self.cl_buffer)
        if isinstance(buffer, _core.Buffer):
            keep = (self.cl_buffer, buffer_hold(buffer, held.handle, self.dtype, self.shape))
        self._own(
            f"memory handle {held.handle:#x}",
            held,
            context,
            keep=keep,
        )

    def _import(self, library: Any, buffer: _core.Buffer) -> Import:
        """An OpenCL buffer on the memory of a Buffer."""
        if not hasattr(library, "cl_context"):
            raise ValueError(
                f"{library.path} is not qnnrt's own: only a pyopencl.Buffer of its context can be "
                "registered with kind 'opencl' there"
            )
        if self.offset < 0 or self.offset + self.nbytes > buffer.nbytes:
            raise ValueError(
                f"the tensor at offset {self.offset} needs {self.offset + self.nbytes} bytes, the "
                f"buffer has {buffer.nbytes}"
            )
        try:
            return import_buffer(library, buffer, self.offset, self.nbytes)
        except ImportRefused as e:
            said = f"{e}: register a pyopencl.Buffer"
            raise make_error(
                abi.QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE, "mem", "memRegister", "", said
            ) from e

    @property
    def array(self) -> np.ndarray:
        """A numpy array on the registered memory, where that is the host's.

        Raises:
            ValueError: it is the device's: use ``map``.
        """
        self.handle  # noqa: B018 - raises when closed
        if isinstance(self.buffer, _core.Buffer):
            return self.buffer.array(self.shape, self.numpy_dtype, self.offset)
        raise ValueError("the memory is an OpenCL buffer: use handle.map(queue)")

    @property
    def on_device(self) -> bool:
        """Whether a ``pyopencl.Buffer`` was registered, whose memory ``map`` alone shows."""
        return not isinstance(self.buffer, _core.Buffer)

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        assert self.dtype is not None
        return self.dtype

    @contextlib.contextmanager
    def map(self, queue: Any = None, *, read: bool = True, write: bool = True) -> Iterator[Any]:
        """The whole tensor as a numpy array, for the time of a ``with`` block.

        The array and its views end with the block: every later use of them is a ``ClosedError``.
        An array that shares the memory otherwise (``np.asarray(array)``, a ``memoryview``) must not
        be used any more. Waits for executions that use the handle; those that kernels would be
        disturbed in by the mapping (any that writes the buffer, with ``write`` any that reads it)
        are refused until the block ends. Mappings that only read may overlap.

        Args:
            queue: the ``pyopencl.CommandQueue`` to map with; the backend's own unless given, on
                another maker's backend one on the buffer's context.
            read: the array begins with what the buffer holds; without it, with anything.
            write: what is written into the array is in the buffer afterwards.

        Raises:
            ValueError: neither read nor write.
            MemError: 1005, mapped already, and one of the two writes.
        """
        if not (read or write):
            raise ValueError("map needs 'read', 'write' or both")
        with self._undisturbed(write), self._mapping(queue or self._queue(), read, write) as array:
            yield array

    def close(self) -> None:
        """Deregister; waits for executions that use it.

        Raises:
            MemError: 1005, it is mapped.
        """
        if not self.closed and _core.gpu_usage(self._raw)[1]:
            raise make_error(
                abi.QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
                "mem",
                "memDeRegister",
                "",
                f"memory handle {self._raw:#x} is mapped: leave 'with handle.map()' first",
            )
        super().close()

    @contextlib.contextmanager
    def _undisturbed(self, write: bool) -> Iterator[None]:
        """No execution uses the buffer in a way that would be disturbed."""
        handle = self.handle
        if not hasattr(self.context._library, "cl_queue"):
            yield  # another maker's backend, which has a table of its own
            return
        if not _core.gpu_map(handle, write):
            raise make_error(
                abi.QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
                "mem",
                "map",
                "",
                f"memory handle {handle:#x} is mapped already, and one of the two mappings writes: "
                "leave the first 'with handle.map()' block before the second one",
            )
        try:
            yield
        finally:
            _core.gpu_unmap(handle, write)

    @contextlib.contextmanager
    def _mapping(self, queue: Any, read: bool, write: bool) -> Iterator[Any]:
        if self._changes_owners:  # the host's already, between executions
            with self.buffer.cpu_access(read, write):
                array = mapped(memory := self.array)
                array.flags.writeable = write
                try:
                    yield array
                finally:
                    end(array, memory)
            return
        cl = pyopencl()
        flags = cl.map_flags.READ if read else cl.map_flags.WRITE_INVALIDATE_REGION
        if read and write:
            flags = cl.map_flags.READ | cl.map_flags.WRITE
        memory, _ = cl.enqueue_map_buffer(
            queue, self.cl_buffer, flags, 0, self.shape, self.numpy_dtype, is_blocking=True
        )
        array = mapped(memory)
        if not write:
            array.flags.writeable = False
        try:
            yield array
        finally:
            end(array, memory)
            memory.base.release(queue)
            queue.finish()

    def _queue(self) -> Any:
        """The backend's queue; where that is another maker's, one on the buffer's context."""
        found = getattr(self.context._library, "cl_queue", None)
        return found if found is not None else pyopencl().CommandQueue(self.cl_buffer.context)

    def read(self, array: np.ndarray) -> None:
        """Copy the tensor into an array of its shape and type; waits for it."""
        with self._undisturbed(False):
            if self.via is None:
                pyopencl().enqueue_copy(self._queue(), array, self.cl_buffer)
            else:
                array[...] = self.array

    def write(self, array: np.ndarray) -> None:
        """Copy an array of its shape and type into the tensor; waits for it."""
        with self._undisturbed(True):
            if self.via is None:
                contiguous = np.ascontiguousarray(array)
                pyopencl().enqueue_copy(self._queue(), self.cl_buffer, contiguous)
            else:
                self.array[...] = array
