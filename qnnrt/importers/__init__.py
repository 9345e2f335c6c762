"""Importers: model files to ``qnnrt.model.Model``."""

from __future__ import annotations

import os
from typing import Any

from ..errors import ModelError
from ..model import ContextBinary, DynamicModel, Model, ModelLibrary, is_library
from .budget import Limits
from .guard import check_file, importing, name_of

__all__ = ["Limits", "load"]


#: What a file of another kind is to be made into first.
_TORCH = "; export the network it was made of by torch.onnx.export"
_INSTEAD = dict.fromkeys((".pt", ".pth", ".pt2", ".pte", ".safetensors"), _TORCH) | {
    ".pb": "; convert a TensorFlow graph by tf2onnx or to .tflite",
    ".h5": "; convert a Keras model by tf2onnx or to .tflite",
    ".keras": "; convert a Keras model by tf2onnx or to .tflite",
    ".ort": "; take the .onnx file that it was made of",
    ".lite": "; a TFLite file is called .tflite",
    ".dlc": "; take the model that it was converted from, or a context binary made of it",
}


def load(
    path: str | os.PathLike[str], **options: Any
) -> Model | DynamicModel | ContextBinary | ModelLibrary:
    """Read a model file, or load a model library.

    Args:
        path: an ``.onnx`` file, a ``.tflite`` file, a context binary, ``.bin``, or a model library,
            ``.so``: its code runs in this process, now and when a session is made of it.
        options: ``state``, pairs of an input and an output of an ONNX or TFLite model that are one
            tensor, which runs read and update in place, or "auto": see ``Model.set_state``. The
            others are the importer's: for ONNX ``layout`` ("keep" or "nhwc"), ``shapes``,
            ``constants``, ``capacities`` (the most that computed sizes may be), ``inputs`` and
            ``outputs`` (names of tensors between which the file is cut), ``quantized_io``,
            ``stateful`` (recurrent nodes keep their state from run to run) and ``limits`` (a
            `Limits`: what the file may take while it is loaded), see
            ``qnnrt.importers.onnx.load``; for TFLite ``signature``, ``shapes``,
            ``variables``, ``quantized_io``, ``stateful`` and ``limits``, see
            ``qnnrt.importers.tflite.load``. For a context binary ``system``, the path of the QNN
            system library that knows its format; for a model library ``prefix`` (of its functions,
            "QnnModel" unless given). ``shapes`` with lists of sizes, or "any", gives a
            `DynamicModel`, of which a session runs whatever shape comes in (docs/shapes.md).

    Raises:
        ModelError: damaged, inconsistent, of a kind that this version cannot read, or asking for
            more than ``limits`` allow. The text has at most 8,000 characters.
        UnsupportedOpError: it has nodes without a QNN counterpart; all of them are listed.
        FileNotFoundError, OSError: no such file, or one that cannot be read.
        TypeError: it is no path. What is in memory goes to ``qnnrt.importers.onnx.load`` (a
            ModelProto, the bytes of a file) and ``qnnrt.importers.tflite.load`` (bytes).
        MemoryError: this machine has too little memory for it; the text names the node.
    """
    given: object = path
    if not isinstance(given, str | os.PathLike):
        held = isinstance(given, bytes | bytearray | memoryview)
        raise (ModelError if held else TypeError)(
            f"load takes a path, not {name_of(given)}; qnnrt.importers.onnx.load takes bytes of a "
            "file or a ModelProto, qnnrt.importers.tflite.load bytes"
        )
    if (state := options.pop("state", None)) is not None:
        model = load(path, **options)
        if not isinstance(model, Model | DynamicModel):
            raise ModelError(f"{name_of(path)} says itself what its state is: leave 'state' out")
        model.set_state(state)
        return model
    text = os.fspath(path)
    suffix = os.path.splitext(text)[1].lower()
    if suffix == ".bin":
        return _binary(path, **options)
    if is_library(path):
        return _library(path, **options)
    if suffix == ".onnx":
        from . import onnx

        return onnx.load(path, **options)
    if suffix == ".tflite":
        from . import tflite

        return tflite.load(path, **options)
    kind = f"{suffix[:20]} models" if suffix else "files without a suffix"
    raise ModelError(
        f"{name_of(path)}: cannot read {kind}; this version reads .onnx, .tflite, .bin (context "
        f"binaries) and .so (model libraries){_INSTEAD.get(suffix, '')}"
    )


@importing
def _binary(path: str | os.PathLike[str], **options: Any) -> ContextBinary:
    check_file(path, "a context binary")
    return ContextBinary(path, **options)


@importing
def _library(path: str | os.PathLike[str], **options: Any) -> ModelLibrary:
    check_file(path, "a model library")
    return ModelLibrary(path, **options)
