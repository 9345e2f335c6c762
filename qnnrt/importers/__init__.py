"""Importers: model files to ``qnnrt.model.Model``."""

from __future__ import annotations

import os
from typing import Any

from ..errors import ModelError
from ..model import ContextBinary, Model

__all__ = ["load"]


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
        from . import onnx

        return onnx.load(path, **options)
    if suffix == ".tflite":
        from . import tflite

        return tflite.load(path, **options)
    kind = f"{suffix} models" if suffix else "files without a suffix"
    raise ModelError(
        f"{text}: cannot read {kind}; this version reads .onnx, .tflite and .bin (context binaries)"
    )
