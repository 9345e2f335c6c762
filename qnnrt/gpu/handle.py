"""Memory handles on OpenCL buffers."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from .. import _core
from ..dtypes import data_type, numpy_dtype
from ..memhandle import MemHandle, _BufferHold
from .device import pyopencl

if TYPE_CHECKING:
    from ..context import Context

__all__ = ["OpenCLHandle", "identity", "is_opencl_buffer"]

_CUSTOM: Final = 2  # QNN_MEM_TYPE_CUSTOM
_OPENCL: Final = -2


def is_opencl_buffer(x: Any) -> bool:
    """Whether x is a ``pyopencl.Buffer``, without importing pyopencl for the question."""
    return hasattr(x, "int_ptr") and type(x).__module__.partition(".")[0] == "pyopencl"


def identity(buffer: Any) -> tuple[Any, ...]:
    """What two objects on the same OpenCL buffer have in common."""
    return ("cl_mem", buffer.int_ptr)


class OpenCLHandle(MemHandle):
    """An OpenCL buffer registered in a context. Made by ``Context.register(kind="opencl")``.

    Attributes:
        buffer: what was registered: a ``pyopencl.Buffer``, or a ``qnnrt.Buffer`` that the device
            uses in place.
        cl_buffer: the ``pyopencl.Buffer``; the one registered, or one on the memory of ``buffer``.
    """

    def __init__(
        self,
        context: Context,
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
        self.data_type = data_type(dtype)
        self.dtype = numpy_dtype(self.data_type)
        self.nbytes = math.prod(self.shape) * self.dtype.itemsize
        self.offset = offset
        library: Any = context._library
        if isinstance(buffer, _core.Buffer):
            self.cl_buffer = self._in_place(library, buffer)
        elif is_opencl_buffer(buffer):
            if offset:
                raise ValueError(
                    f"kind 'opencl' names a whole buffer, not byte {offset} of it: register "
                    "buffer.get_sub_region(...)"
                )
            self.cl_buffer = buffer
        else:
            raise TypeError(
                f"kind 'opencl' needs a pyopencl.Buffer or a Buffer, not a {type(buffer).__name__}"
            )
        number = self.cl_buffer.int_ptr
        item = (self.shape, self.data_type, _CUSTOM, -1, _OPENCL, self.nbytes, 0, number)
        handle = library.mem_register(context.handle, [item])[0]
        keep: Any = (buffer, self.cl_buffer)
        if isinstance(buffer, _core.Buffer):
            keep = (self.cl_buffer, _BufferHold(buffer, handle, self.dtype, self.shape))
        self._own(
            f"memory handle {handle:#x}",
            handle,
            lambda h: library.mem_deregister([h]),
            context,
            keep=keep,
        )

    def _in_place(self, library: Any, buffer: _core.Buffer) -> Any:
        """An OpenCL buffer on the memory of a Buffer."""
        if not hasattr(library, "cl_context"):
            raise ValueError(
                f"{library.path} is not qnnrt's own: only a pyopencl.Buffer of its context can be "
                "registered with kind 'opencl' there"
            )
        if not library.device.shared:
            raise ValueError(
                f"{library.device} has memory of its own and cannot use a Buffer of the host's: "
                "register a pyopencl.Buffer"
            )
        if self.offset < 0 or self.offset + self.nbytes > buffer.nbytes:
            raise ValueError(
                f"the tensor at offset {self.offset} needs {self.offset + self.nbytes} bytes, the "
                f"buffer has {buffer.nbytes}"
            )
        flags = pyopencl().mem_flags
        return pyopencl().Buffer(
            library.cl_context,
            flags.READ_WRITE | flags.USE_HOST_PTR,
            hostbuf=buffer.array((self.nbytes,), np.uint8, self.offset),
        )

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
    def numpy_dtype(self) -> np.dtype[Any]:
        assert self.dtype is not None
        return self.dtype

    @contextlib.contextmanager
    def map(self, queue: Any = None, *, read: bool = True, write: bool = True) -> Iterator[Any]:
        """The whole tensor as a numpy array, for the time of a ``with`` block.

        Args:
            queue: the ``pyopencl.CommandQueue`` to map with; the backend's own unless given.
            read: the array begins with what the buffer holds.
            write: what is written into the array is in the buffer afterwards.

        Raises:
            ValueError: neither, or no queue on another maker's backend.
        """
        self.handle  # noqa: B018 - raises when closed
        cl = pyopencl()
        if queue is None:
            queue = getattr(self.context._library, "cl_queue", None)
        if queue is None or not (read or write):
            raise ValueError("map needs a queue, and 'read' or 'write'")
        flags = (cl.map_flags.READ if read else 0) | (cl.map_flags.WRITE if write else 0)
        array, event = cl.enqueue_map_buffer(
            queue, self.cl_buffer, flags, 0, self.shape, self.numpy_dtype, is_blocking=True
        )
        event.wait()
        if not write:
            array.flags.writeable = False
        try:
            yield array
        finally:
            array.base.release(queue)
            queue.finish()
