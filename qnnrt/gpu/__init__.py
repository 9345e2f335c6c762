"""The gpu backend: graphs as OpenCL programs, OpenCL buffers as memory handles.

``Session(model, backend="gpu")`` needs nothing from here. Without pyopencl, or without an OpenCL
device, only ``why_not`` has something to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..abi.constants import QNN_BACKEND_ID_GPU
from .device import Device, choose, devices, why_not
from .options import Options

if TYPE_CHECKING:
    from ..qnn.opencl_handle import OpenCLHandle

__all__ = ["ID", "Device", "OpenCLHandle", "Options", "choose", "devices", "why_not"]

ID = QNN_BACKEND_ID_GPU


def __getattr__(name: str) -> Any:
    # A QNN object, which imports this package: here it is a second name alone.
    if name == "OpenCLHandle":
        from ..qnn.opencl_handle import OpenCLHandle

        return OpenCLHandle
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
