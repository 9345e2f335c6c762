"""Objects that are given as memory and are none of this package's."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from ..abi import constants as abi
from ..errors import make_error

__all__ = ["is_opencl_buffer", "refuse_memory"]


def is_opencl_buffer(x: Any) -> bool:
    """Whether x is a ``pyopencl.Buffer``, without importing pyopencl for the question."""
    cl = sys.modules.get("pyopencl")
    return cl is not None and isinstance(x, cl.Buffer)


def refuse_memory(x: Any, kind: str) -> NoReturn:
    """Raises what ``register`` answers to memory that a kind cannot name.

    Raises:
        MemError: 8005, an OpenCL memory object of another kind.
        TypeError: it is no memory that can be registered.
    """
    cl = sys.modules.get("pyopencl")
    name = type(x).__name__
    needed = "memory with an fd (a qnnrt.Buffer)"
    if kind == "opencl":
        needed = "a pyopencl.Buffer or a Buffer"
    if cl is None or not isinstance(x, cl.MemoryObjectHolder):
        raise TypeError(f"kind {kind!r} needs {needed}, not a {name}")
    text = f"kind {kind!r} takes {needed}, not a pyopencl.{name}"
    if is_opencl_buffer(x):
        text += ": register it with kind='opencl', on a gpu backend"
    elif kind == "opencl":
        text += (
            ": how its elements lie is the driver's secret, so copy them into a buffer "
            "(pyopencl.enqueue_copy) and register that"
        )
    raise make_error(abi.QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE, "mem", "memRegister", "", text)
