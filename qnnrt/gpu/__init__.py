"""The gpu backend: graphs as OpenCL programs, OpenCL buffers as memory handles.

``Session(model, backend="gpu")`` needs nothing from here. Without pyopencl, or without an OpenCL
device, only ``why_not`` has something to say.
"""

from __future__ import annotations

from ..abi.constants import QNN_BACKEND_ID_GPU
from ..qnn.opencl_handle import OpenCLHandle
from .device import Device, choose, devices, why_not
from .options import Options

__all__ = ["ID", "Device", "OpenCLHandle", "Options", "choose", "devices", "why_not"]

ID = QNN_BACKEND_ID_GPU
