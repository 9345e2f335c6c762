"""An open runtime for QNN's zero-copy memory model.

``load`` a model, make a ``Session``, write into ``inputs[...].array``, ``run()``, read
``outputs[...].array``: all on shared buffers, without a copy. ``qnnrt.qnn`` has the QNN objects
underneath, ``alloc`` and ``Buffer`` the memory.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from . import lpai, planning, qnn
from ._native import _core
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
    MemError,
    ModelError,
    QnnError,
    TensorError,
    UnsupportedOpError,
)
from .memory import Buffer, HeapInfo, alloc, alloc_array, buffer_of, heaps
from .model import ContextBinary, Model
from .quantization import dequantize, quantize
from .session import BoundTensor, Copy, Session, Stats

__version__: str = _core.version()

__all__ = [
    "BackendError",
    "BackendNotFoundError",
    "BindError",
    "BoundTensor",
    "Buffer",
    "BufferInUseError",
    "ClosedError",
    "ContextBinary",
    "ContextError",
    "Copy",
    "CopyError",
    "DeviceError",
    "Error",
    "ForkError",
    "GraphError",
    "HeapInfo",
    "MemError",
    "Model",
    "ModelError",
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


def load(path: str | os.PathLike[str], **options: Any) -> Model | ContextBinary:
    """Read a model file.

    Args:
        path: an ``.onnx`` file, a ``.tflite`` file, or a context binary, ``.bin``.
        options: of the importer: for ONNX ``layout`` ("keep" or "nhwc"), ``shapes``,
            ``constants``, ``quantized_io`` and ``stateful`` (recurrent nodes keep their state from
            run to run), see ``qnnrt.importers.onnx.load``; for TFLite ``signature``, ``shapes``,
            ``variables``, ``quantized_io`` and ``stateful``, see ``qnnrt.importers.tflite.load``.
            For a context binary ``system``, the path of the QNN
            system library that knows its format.

    Raises:
        ModelError: damaged, inconsistent, or of a kind that this version cannot read.
        UnsupportedOpError: it has nodes without a QNN counterpart; all of them are listed.
        FileNotFoundError: no such file.
    """
    text = os.fspath(path)
    suffix = os.path.splitext(text)[1].lower()
    if suffix == ".bin":
        return ContextBinary(path, **options)
    if suffix == ".onnx":
        from .importers import onnx

        return onnx.load(path, **options)
    if suffix == ".tflite":
        from .importers import tflite

        return tflite.load(path, **options)
    kind = f"{suffix} models" if suffix else "files without a suffix"
    raise ModelError(
        f"{text}: cannot read {kind}; this version reads .onnx, .tflite and .bin (context binaries)"
    )
