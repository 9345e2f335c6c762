"""OpenCL's functions as addresses, of the very loader that pyopencl uses: objects of one loader
mean nothing to another one."""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any, Final

from .._native import _core
from ..errors import BackendNotFoundError
from .device import Device, pyopencl

__all__ = ["address", "call", "extension", "functions", "recording"]

_P: Final = ctypes.c_void_p
_U32: Final = ctypes.c_uint32
_U64: Final = ctypes.c_uint64
_SIZE: Final = ctypes.c_size_t
#: name -> (what it returns, *what it takes)
_CALLS: Final[dict[str, tuple[Any, ...]]] = {
    "clCreateBuffer": (_P, _P, _U64, _SIZE, _P, _P),
    "clCreateBufferWithProperties": (_P, _P, _P, _U64, _SIZE, _P, _P),
    "clEnqueueMapBuffer": (_P, _P, _P, _U32, _U64, _SIZE, _SIZE, _U32, _P, _P, _P),
    "clEnqueueUnmapMemObject": (ctypes.c_int32, _P, _P, _P, _U32, _P, _P),
    "clGetDeviceInfo": (ctypes.c_int32, _P, _U32, _SIZE, _P, _P),
    "clGetExtensionFunctionAddressForPlatform": (_P, _P, ctypes.c_char_p),
}


def _mapped() -> list[str]:
    """Files of OpenCL loaders in this process."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        paths = {line.split(maxsplit=5)[-1].strip() for line in maps if "libOpenCL" in line}
    return sorted(p for p in paths if os.path.basename(p).startswith("libOpenCL"))


@functools.cache
def _loader() -> ctypes.CDLL:
    home = os.path.dirname(pyopencl().__file__)
    paths = _mapped()
    # Where several are loaded, pyopencl's is the one that its wheel brought.
    own = [p for p in paths if p.startswith(home)] or paths
    if len(own) != 1:
        raise BackendNotFoundError(
            f"cannot tell which OpenCL loader pyopencl uses: {', '.join(own) or 'none is loaded'}"
        )
    return ctypes.CDLL(own[0], mode=os.RTLD_NOLOAD | os.RTLD_NOW)


@functools.cache
def functions() -> dict[str, int]:
    """Name -> address.

    Raises:
        BackendNotFoundError: it is not clear which loader it is, or it lacks a function.
    """
    return {n: address(n) for n in _core.OPENCL_FUNCTIONS}


def recording(device: Device) -> dict[str, int] | None:
    """The functions of command buffers, likewise; None where the device has none."""
    if not device.records:
        return None
    found = {n: extension(device.raw.platform, n) for n in _core.RECORDING_FUNCTIONS}
    return found if all(found.values()) else None


def address(name: str) -> int:
    """Of one function.

    Raises:
        BackendNotFoundError: as ``functions``.
    """
    try:
        return ctypes.cast(getattr(_loader(), name), ctypes.c_void_p).value or 0
    except AttributeError as e:
        raise BackendNotFoundError(f"{_loader()._name} is no OpenCL loader: {e}") from e


def call(name: str) -> Any:
    """One of ``_CALLS`` for use from Python, where pyopencl cannot say what is to be said."""
    kind, *arguments = _CALLS[name]
    return ctypes.CFUNCTYPE(kind, *arguments)(address(name))


def extension(platform: Any, name: str) -> int:
    """The address of an extension's function on a ``pyopencl.Platform``; 0 where it has none."""
    found = call("clGetExtensionFunctionAddressForPlatform")(platform.int_ptr, name.encode())
    return found or 0
