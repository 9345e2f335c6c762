"""C clients of libQnnGpu.so, on the device that Python would use, with this package's compiler."""

from __future__ import annotations

import mmap
import os
import shlex
import sys
from pathlib import Path

import pytest

from qnnrt.cli.paths import LIB_DIR
from qnnrt.gpu import Device, choose, why_not

__all__ = ["LIBRARY", "device", "environment", "loader"]

LIBRARY = LIB_DIR / "libQnnGpu.so"


def loader() -> Path:
    """An OpenCL loader that programs without Python can use."""
    pyopencl = pytest.importorskip("pyopencl", reason="pyopencl is not installed")
    found = sorted((Path(pyopencl.__file__).parent / ".libs").glob("libOpenCL*.so*"))
    if not found:
        pytest.skip("this pyopencl has no OpenCL loader of its own")
    return found[0]


def device() -> Device:
    """What the gpu backend computes on."""
    pytest.importorskip("pyopencl", reason="pyopencl is not installed")
    if reason := why_not():
        pytest.skip(reason)
    return choose()


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Variables with which a program finds the driver of :func:`device`, out of pyopencl's wheel or
    the machine's, and this package's compiler.

    Args:
        folder: for the list of drivers.
        more: other variables.
    """
    libraries = loader().parent
    ours = [file for file in libraries.glob("libpocl*.so*") if _is_of(file, device())]
    for driver in ours:
        (folder / "pocl.icd").write_text(f"{driver}\n")
    return os.environ | {
        # The loader reads the wheel's own list, too, where this names the wheel.
        "PYOPENCL_HOME": str(folder),
        **({"OCL_ICD_VENDORS": str(folder)} if ours else {}),
        "QNNRT_OPENCL_LIBRARY": str(loader()),
        "QNNRT_GPU_COMPILER": f"{shlex.quote(sys.executable)} -m qnnrt.gpu.compiler",
        **more,
    }


def _is_of(driver: Path, used: Device) -> bool:
    """Whether this is the driver of that device: it holds the version that the device has."""
    with driver.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as code:
        return code.find(used.driver.encode()) >= 0
