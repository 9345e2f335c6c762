"""C clients of libQnnGpu.so, with PoCL out of pyopencl's wheel and this package's compiler."""

from __future__ import annotations

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
    """Variables with which a program finds the drivers in the wheel, or the machine's where that
    has none, and this package's compiler.

    Args:
        folder: for the list of drivers.
        more: other variables.
    """
    libraries = loader().parent
    ours = list(libraries.glob("libpocl*.so*"))
    for driver in ours:
        (folder / "pocl.icd").write_text(f"{driver}\n")
    return os.environ | {
        "PYOPENCL_HOME": str(libraries.parent),
        **({"OCL_ICD_VENDORS": str(folder)} if ours else {}),
        "QNNRT_OPENCL_LIBRARY": str(loader()),
        "QNNRT_GPU_COMPILER": f"{shlex.quote(sys.executable)} -m qnnrt.gpu.compiler",
        **more,
    }
