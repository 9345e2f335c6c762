"""What tests of the gpu backend begin with: a device, up before anything is counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt import gpu
from support.toy import relu_model

__all__ = ["cl", "gpu", "on_shared_memory", "opencl_is_up"]

cl: Any = pytest.importorskip("pyopencl", reason="pyopencl is not installed")
if reason := gpu.why_not():
    pytest.skip(reason, allow_module_level=True)


#: For tests whose session has memory handles of its own.
on_shared_memory = pytest.mark.skipif(
    not gpu.choose().shared, reason="the OpenCL device has memory of its own"
)


@pytest.fixture(scope="module", autouse=True)
def opencl_is_up() -> None:
    """Drivers keep threads and files of their own from their first use on: they are no leak."""
    with qnnrt.Session(relu_model(), "gpu") as s:
        s.run({"x": np.zeros((1, 16), np.float32)})
        s.backend.close()
