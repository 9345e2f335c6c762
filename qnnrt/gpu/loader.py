"""OpenCL's functions as addresses, of the very loader that pyopencl uses: objects of one loader
mean nothing to another one."""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Final

from ..errors import BackendNotFoundError
from .device import pyopencl

__all__ = ["functions"]

_NAMES: Final = (
    "clCreateBuffer",
    "clEnqueueNDRangeKernel",
    "clEnqueueReadBuffer",
    "clEnqueueWriteBuffer",
    "clFinish",
    "clReleaseMemObject",
    "clSetKernelArg",
)


def _mapped() -> list[str]:
    """Files of OpenCL loaders in this process."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        paths = {line.split(maxsplit=5)[-1].strip() for line in maps if "libOpenCL" in line}
    return sorted(p for p in paths if os.path.basename(p).startswith("libOpenCL"))


@functools.cache
def functions() -> dict[str, int]:
    """Name -> address.

    Raises:
        BackendNotFoundError: the loader cannot be told, or lacks a function.
    """
    home = os.path.dirname(pyopencl().__file__)
    paths = _mapped()
    # Where several are loaded, pyopencl's is the one that its wheel brought.
    own = [p for p in paths if p.startswith(home)] or paths
    if len(own) != 1:
        raise BackendNotFoundError(
            f"cannot tell which OpenCL loader pyopencl uses: {', '.join(own) or 'none is loaded'}"
        )
    loader = ctypes.CDLL(own[0], mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    try:
        return {n: ctypes.cast(getattr(loader, n), ctypes.c_void_p).value or 0 for n in _NAMES}
    except AttributeError as e:
        raise BackendNotFoundError(f"{own[0]} is no OpenCL loader: {e}") from e
