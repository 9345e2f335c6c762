"""An open runtime for QNN's zero-copy memory model.

``load`` a model, make a ``Session``, write into ``inputs[...].array``, ``run()``, read
``outputs[...].array``: all on shared buffers, without a copy. ``qnnrt.qnn`` has the QNN objects
underneath, ``alloc`` and ``Buffer`` the memory.
"""

# isort: off
from . import _start  # noqa: F401 - before all others, __future__ too: an import can be interrupted
# isort: on

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from . import qnn
from ._native import _core
from .channel import Channel
from .errors import (
    BackendError,
    BackendNotFoundError,
    BindError,
    BufferInUseError,
    ClosedError,
    ContextError,
    CopyError,
    DeviceError,
    Error,
    ForkError,
    GraphError,
    HandoffError,
    MemError,
    ModelError,
    QnnError,
    TensorError,
    UnsupportedOpError,
)
from .importers import Limits, load
from .memory import Buffer, HeapInfo, Lease, alloc, alloc_array, buffer_of, heaps
from .memory import _receive as _receive  # what messages name
from .model import ContextBinary, DynamicModel, Model, ModelLibrary
from .quantization import dequantize, quantize
from .session import BoundTensor, Copy, Session, Stats

if TYPE_CHECKING:
    from . import lpai, planning

__version__: str = _core.version()

__all__ = [
    "BackendError",
    "BackendNotFoundError",
    "BindError",
    "BoundTensor",
    "Buffer",
    "BufferInUseError",
    "Channel",
    "ClosedError",
    "ContextBinary",
    "ContextError",
    "Copy",
    "CopyError",
    "DeviceError",
    "DynamicModel",
    "Error",
    "ForkError",
    "GraphError",
    "HandoffError",
    "HeapInfo",
    "Lease",
    "Limits",
    "MemError",
    "Model",
    "ModelError",
    "ModelLibrary",
    "QnnError",
    "Session",
    "Stats",
    "TensorError",
    "UnsupportedOpError",
    "__version__",
    "alloc",
    "alloc_array",
    "buffer_of",
    "dequantize",
    "heaps",
    "load",
    "lpai",
    "planning",
    "qnn",
    "quantize",
]

# Where pip puts oneDNN's library, for installs that are not beside it (editable ones); the native
# library reads it when it makes the first kernel.
os.environ.setdefault("QNNRT_PACKAGE_LIBS", os.path.join(sys.prefix, "lib"))


def __getattr__(name: str) -> Any:
    # Imported when they are asked for: most programs do not.
    if name in ("gpu", "lpai", "planning"):
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
