"""Memory that sessions on the gpu backend make for themselves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..abi import constants as abi
from ..errors import make_error
from .device import TooLarge, new_buffer, pyopencl

__all__ = ["device_memory", "pinned"]


def device_memory(library: Any, nbytes: int) -> Any:
    """A ``pyopencl.Buffer`` on the device.

    Raises:
        MemError: 1002, there is not as much memory.
    """
    cl = pyopencl()
    try:
        return new_buffer(library.cl_context, library.device, cl.mem_flags.READ_WRITE, nbytes)
    except (TooLarge, cl.Error) as e:
        code, said = abi.QNN_COMMON_ERROR_MEM_ALLOC, " ".join(str(e).split())
        raise make_error(code, "mem", "clCreateBuffer", f"{nbytes} bytes", said) from e


def pinned(library: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray | None:
    """An array that the driver copies from and to at the speed of the bus.

    It is a buffer of the driver's in host memory, mapped as long as the array exists; None where
    host and device share memory, so that pinning saves nothing, or where there is no more of it.
    """
    cl = pyopencl()
    if library.device.shared:
        return None
    nbytes = max(math.prod(shape) * dtype.itemsize, 1)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
    access = cl.map_flags.READ | cl.map_flags.WRITE
    try:
        buffer = new_buffer(library.cl_context, library.device, flags, nbytes)
        array, _ = cl.enqueue_map_buffer(
            library.cl_queue, buffer, access, 0, (nbytes,), np.uint8, is_blocking=True
        )
    except (TooLarge, cl.Error):
        return None
    memory: np.ndarray = array
    return memory[: math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)
