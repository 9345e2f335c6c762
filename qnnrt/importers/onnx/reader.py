"""ONNX files to a checked ModelProto: every way in which a file can be bad is one ModelError."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import external_data_helper, numpy_helper

from ...errors import ModelError

#: The operator sets of the default domain that are understood.
FIRST_OPSET = 7


def read(source: str | os.PathLike[str] | bytes | onnx.ModelProto) -> tuple[onnx.ModelProto, str]:
    """The model and the name to use for it in messages.

    Raises `ModelError`, and `OSError` when the file cannot be opened.
    """
    folder: Path | None = None
    if isinstance(source, onnx.ModelProto):
        model, where = source, "the given ModelProto"
    elif isinstance(source, bytes | bytearray | memoryview):
        where = f"the given bytes ({len(source)})"
        model = _parse(bytes(source), where)
    else:
        path = Path(source)
        where = str(path)
        data = path.read_bytes()
        model, folder = _parse(data, where), path.parent
    _check(model, where)
    _load_external(model, where, folder)
    return model, where


def _parse(data: bytes, where: str) -> onnx.ModelProto:
    if not data:
        raise ModelError(f"{where} is empty: not an ONNX model")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, ValueError, RuntimeError) as exc:
        raise ModelError(
            f"{where} is not an ONNX model, or is truncated or corrupted: the protobuf message "
            f"of {len(data)} bytes cannot be decoded ({exc})"
        ) from exc
    return model


def opset_of(model: onnx.ModelProto) -> dict[str, int]:
    """Domain -> version, with the default domain as ""."""
    return {("" if o.domain == "ai.onnx" else o.domain): o.version for o in model.opset_import}


def _check(model: onnx.ModelProto, where: str) -> None:
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise ModelError(f"{where} holds no graph: not an ONNX model, or truncated")
    if not model.graph.output:
        raise ModelError(f"{where}: the graph has no output; the file may be truncated")
    newest = onnx.defs.onnx_opset_version()
    version = opset_of(model).get("")
    if version is None:
        if any(node.domain in ("", "ai.onnx") for node in model.graph.node):
            raise ModelError(f"{where} does not say which ONNX opset it uses (opset_import)")
    elif not FIRST_OPSET <= version <= newest:
        raise ModelError(
            f"{where} uses ONNX opset {version}; opsets {FIRST_OPSET} to {newest} are understood "
            f"(onnx {onnx.__version__}). Convert the model with onnx.version_converter"
            + (", or install a newer onnx" if version > newest else "")
        )
    _check_names(model.graph, where)


def _check_names(graph: onnx.GraphProto, where: str) -> None:
    """Single assignment, in order: what everything after this relies on."""
    known = {i.name for i in graph.initializer} | {i.name for i in graph.input}
    known |= {s.values.name for s in graph.sparse_initializer}
    for index, node in enumerate(graph.node):
        label = f"node {node.name or index!r} ({node.op_type})"
        if not node.op_type:
            raise ModelError(f"{where}: node {node.name or index!r} has no op type")
        for name in node.input:
            if name and name not in known:
                raise ModelError(
                    f"{where}: {label} reads {name!r}, which is neither an input, an initializer "
                    "nor the output of an earlier node"
                )
        for name in filter(None, node.output):
            if name in known:
                raise ModelError(f"{where}: {label} writes {name!r}, which has a value already")
            known.add(name)
    for output in graph.output:
        if output.name not in known:
            raise ModelError(f"{where}: nothing produces the graph's output {output.name!r}")


def _tensors(graph: onnx.GraphProto) -> list[onnx.TensorProto]:
    found = list(graph.initializer)
    for node in graph.node:
        for attr in node.attribute:
            if attr.type == onnx.AttributeProto.TENSOR:
                found.append(attr.t)
            elif attr.type == onnx.AttributeProto.GRAPH:
                found.extend(_tensors(attr.g))
    return found


def _load_external(model: onnx.ModelProto, where: str, folder: Path | None) -> None:
    for tensor in _tensors(model.graph):
        if not external_data_helper.uses_external_data(tensor):
            continue
        keys = {entry.key: entry.value for entry in tensor.external_data}
        location = keys.get("location", "")
        if folder is None:
            raise ModelError(
                f"tensor {tensor.name!r} of {where} is stored in {location!r} beside the model; "
                "load the model by its path, or call onnx.load_external_data_for_model first"
            )
        file = folder / location
        if not location or not file.resolve().is_relative_to(folder.resolve()):
            raise ModelError(
                f"tensor {tensor.name!r} of {where}: its data file {location!r} is not below the "
                "model's folder"
            )
        if not file.is_file():
            raise ModelError(
                f"{file} is missing: it holds the data of tensor {tensor.name!r} of {where}"
            )
        try:
            external_data_helper.load_external_data_for_tensor(tensor, str(folder))
            tensor.data_location = onnx.TensorProto.DEFAULT
        except Exception as exc:
            raise ModelError(
                f"{file}: cannot read the data of tensor {tensor.name!r} of {where}: {exc}"
            ) from exc


def array_of(tensor: onnx.TensorProto, where: str) -> np.ndarray:
    """The elements of a TensorProto. Raises `ModelError` when bytes and shape disagree."""
    try:
        if any(d < 0 for d in tensor.dims):
            raise ValueError("a dimension is negative")
        return numpy_helper.to_array(tensor)
    except Exception as exc:
        raise ModelError(
            f"{where}: tensor {tensor.name!r} of shape {list(tensor.dims)} cannot be read: {exc}"
        ) from exc
